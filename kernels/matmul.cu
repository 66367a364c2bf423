// Products of small matrices: out_b = a_b c_b for a stack of them, where cuBLAS cannot be called (CuPy refuses it within a capture).
//
// Options   STORAGE  float, double, half_t or bfloat16_t       INDEX    int, or long long where the sizes need it
// Shapes    a (stack, rows, inner) or, with a_step 0, one (rows, inner) for all; c (stack, inner, columns) likewise with c_step;
//           out (stack, rows, columns). Row-major.
// Threads   a block for 16 x 16 elements of one product; a thread an element, which sums along inner in order, in real.
// Shared    two tiles of 16 x 16 real; a column more keeps the banks apart.
// Bytes     reads each element of a columns / 16 times and of c rows / 16 times, writes out once.
#include "common.cuh"

typedef Arithmetic<STORAGE>::type real;

#define TILE 16

extern "C" __global__ void __launch_bounds__(256)
    matmul_tiles(const STORAGE* a, const STORAGE* c, STORAGE* out, INDEX rows, INDEX inner, INDEX columns, INDEX a_step, INDEX c_step,
                 INDEX across) {
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    real* left = reinterpret_cast<real*>(shared_bytes);
    real* right = left + TILE * (TILE + 1);
    const INDEX down = (rows + TILE - 1) / TILE;
    const INDEX which = (INDEX)blockIdx.x;
    const INDEX stack = which / (down * across), tile = which - stack * down * across;
    const int y = (int)threadIdx.x / TILE, x = (int)threadIdx.x - y * TILE;
    const INDEX row = tile / across * TILE + y, column = tile % across * TILE + x;
    a += stack * a_step;
    c += stack * c_step;
    real sum = 0;
    for (INDEX first = 0; first < inner; first += TILE) {
        left[y * (TILE + 1) + x] = row < rows && first + x < inner ? load(a[row * inner + first + x]) : real(0);
        right[y * (TILE + 1) + x] = first + y < inner && column < columns ? load(c[(first + y) * columns + column]) : real(0);
        __syncthreads();
        for (int k = 0; k < TILE; ++k) sum += left[y * (TILE + 1) + k] * right[k * (TILE + 1) + x];
        __syncthreads();
    }
    if (row < rows && column < columns) store(out[(stack * rows + row) * columns + column], sum);
}
