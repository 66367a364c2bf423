// Start rows chosen by index: out_b = rows[index_b], and the transpose, a scatter-add that is summed in a fixed order.
//
// Options   STORAGE  float, double, half_t or bfloat16_t       INDEX    int, or long long where the sizes need it
// Shapes    rows (S, D), index (B,), out (B, D). For the transpose, of several arrays (arrays, B, D): order (B,) lists the b sorted by their
//           row (stable), and those of row s stand at order[bounds[s]] .. order[bounds[s + 1] - 1]; partial (arrays, S, parts, D) are
//           sums of every parts-th of them.
// Threads   gather: one an element. Scatter: a block a row (grid x), array and part (grid y); its threads stand `width` side by side at the
//           joints of one entry, and as many entries as then fit; each sums its own, and these are added up in pairs in shared memory.
//           No atomics, so runs are bitwise repeatable.
// Shared    scatter: a real for each thread.
// Bytes     gather reads and writes B D elements; scatter reads B D and writes S * parts * D of real, for each array.
// Neighbouring threads touch neighbouring joints. 16 bytes at a time would bring nothing: a row is D elements at any place, so its reads
// would stay single, and all of it is 1/H of what the integration after it moves.
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

extern "C" __global__ void __launch_bounds__(128)
    rows_scatter(const STORAGE* grads, const long long* order, const long long* bounds, real* partial, INDEX batch, INDEX joints, int parts,
                 int width) {
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    real* sums = reinterpret_cast<real*>(shared_bytes);
    const int entries = (int)blockDim.x / width;
    const int entry = (int)threadIdx.x / width;
    const int joint = (int)threadIdx.x - entry * width;
    const long long stop = bounds[blockIdx.x + 1];
    const int array = (int)blockIdx.y / parts, part = (int)blockIdx.y - array * parts;
    const STORAGE* const grad = grads + array * batch * joints;
    real* const sum_at = partial + (((INDEX)array * gridDim.x + blockIdx.x) * parts + part) * joints;
    for (INDEX first = 0; first < joints; first += width) {
        const INDEX d = first + joint;
        const bool active = entry < entries && d < joints;
        real sum = 0;
        if (active) {
            for (long long k = bounds[blockIdx.x] + (long long)part * entries + entry; k < stop; k += (long long)parts * entries)
                sum += load(grad[(INDEX)order[k] * joints + d]);
        }
        sums[threadIdx.x] = sum;
        __syncthreads();
        for (int left = entries; left > 1; left = (left + 1) / 2) {
            if (entry < left / 2) sums[threadIdx.x] += sums[threadIdx.x + (left + 1) / 2 * width];
            __syncthreads();
        }
        if (active && entry == 0) sum_at[d] = sums[joint];
        __syncthreads();
    }
}
