// Start rows chosen by index: out_b = rows[index_b], and the transpose, a scatter-add that is summed in a fixed order.
//
// Options   STORAGE  float, double, half_t or bfloat16_t       INDEX    int, or long long where the sizes need it
// Shapes    rows (S, D), index (B,), out (B, D). For the transpose: order (B,) lists the b sorted by their row (stable), and those of
//           row s stand at order[bounds[s]] .. order[bounds[s + 1] - 1].
// Threads   gather: one an element. Scatter: a block a (row, joint) pair, whose 64 threads each sum every 64th of the row's entries,
//           then add up in pairs in shared memory: no atomics, so runs are bitwise repeatable.
// Shared    scatter: 64 of real.
// Bytes     gather reads and writes B D elements; scatter reads B D and writes S D.
#include "common.cuh"

typedef Arithmetic<STORAGE>::type real;

extern "C" __global__ void __launch_bounds__(256)
    rows_gather(const STORAGE* rows, const long long* index, STORAGE* out, INDEX batch, INDEX joints) {
    const INDEX count = batch * joints;
    for (INDEX e = (INDEX)blockIdx.x * blockDim.x + threadIdx.x; e < count; e += (INDEX)gridDim.x * blockDim.x) {
        const INDEX b = e / joints;
        out[e] = rows[(INDEX)index[b] * joints + (e - b * joints)];
    }
}

extern "C" __global__ void __launch_bounds__(64)
    rows_scatter(const STORAGE* grad, const long long* order, const long long* bounds, STORAGE* grad_rows, INDEX joints) {
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    real* partial = reinterpret_cast<real*>(shared_bytes);
    const INDEX row = blockIdx.x;
    for (INDEX d = blockIdx.y; d < joints; d += gridDim.y) {
        real sum = 0;
        for (long long k = bounds[row] + threadIdx.x; k < bounds[row + 1]; k += 64) sum += load(grad[(INDEX)order[k] * joints + d]);
        partial[threadIdx.x] = sum;
        __syncthreads();
        for (unsigned int width = 32; width > 0; width /= 2) {
            if (threadIdx.x < width) partial[threadIdx.x] += partial[threadIdx.x + width];
            __syncthreads();
        }
        if (threadIdx.x == 0) store(grad_rows[row * joints + d], partial[0]);
        __syncthreads();
    }
}
