// Enough of CUDA for g++ to compile the kernels as they stand: qualifiers, thread numbers, shared memory, barriers and the few device
// functions they use. The threads of a block are real threads (runner.h), so a missing barrier is a race that the thread sanitizer
// sees. Blocks run one after another.
#pragma once
#include <barrier>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <vector>

#define __global__
#define __device__
#define __shared__
#define __forceinline__ inline
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))

struct Dim3 {
    unsigned int x, y, z;
};

inline thread_local Dim3 threadIdx, blockIdx;
inline Dim3 blockDim, gridDim;
inline std::barrier<>* block_barrier;

inline void __syncthreads() { block_barrier->arrive_and_wait(); }

struct alignas(16) uint4 {
    unsigned int x, y, z, w;
};

inline uint4 make_uint4(unsigned int x, unsigned int y, unsigned int z, unsigned int w) { return {x, y, z, w}; }

using std::cos;
using std::log;
using std::sin;
using std::sqrt;

inline float __uint_as_float(unsigned int bits) {
    float x;
    std::memcpy(&x, &bits, 4);
    return x;
}

inline unsigned int __float_as_uint(float x) {
    unsigned int bits;
    std::memcpy(&bits, &x, 4);
    return bits;
}

// Copies that a thread has begun and not waited for. Until then their targets hold poison, as on a GPU they may hold anything.
struct Copy {
    void* to;
    const void* from;
    std::size_t bytes;
};

inline std::vector<Copy>& copies_under_way() {
    static thread_local std::vector<Copy> own;
    return own;
}

inline void host_begin_copy(void* to, const void* from, std::size_t bytes) {
    std::memset(to, 0xff, bytes);
    copies_under_way().push_back({to, from, bytes});
}

inline void host_await_copies() {
    for (const Copy& copy : copies_under_way()) std::memcpy(copy.to, copy.from, copy.bytes);
    copies_under_way().clear();
}

inline float host_half_to_float(unsigned short bits) {
    _Float16 x;
    std::memcpy(&x, &bits, 2);
    return (float)x;
}

inline unsigned short host_float_to_half(float x) {
    const _Float16 h = (_Float16)x;
    unsigned short bits;
    std::memcpy(&bits, &h, 2);
    return bits;
}
