// Storage types and their arithmetic. float and double compute in themselves; half_t and bfloat16_t are stored in 16 bits and
// compute in float. The 16-bit types are written out here so that a kernel needs no CUDA header.
#pragma once

struct half_t {
    unsigned short bits;
};

struct bfloat16_t {
    unsigned short bits;
};

template <typename S>
struct Arithmetic {
    typedef float type;
};

template <>
struct Arithmetic<double> {
    typedef double type;
};

__device__ __forceinline__ float load(float x) { return x; }

__device__ __forceinline__ double load(double x) { return x; }

__device__ __forceinline__ float load(half_t x) {
#ifdef __CUDACC__
    float y;
    asm("cvt.f32.f16 %0, %1;" : "=f"(y) : "h"(x.bits));
    return y;
#else
    return host_half_to_float(x.bits);
#endif
}

__device__ __forceinline__ float load(bfloat16_t x) { return __uint_as_float((unsigned int)x.bits << 16); }

__device__ __forceinline__ void store(float& to, float x) { to = x; }

__device__ __forceinline__ void store(double& to, double x) { to = x; }

__device__ __forceinline__ void store(half_t& to, float x) {
#ifdef __CUDACC__
    asm("cvt.rn.f16.f32 %0, %1;" : "=h"(to.bits) : "f"(x));
#else
    to.bits = host_float_to_half(x);
#endif
}

// Rounds to nearest, ties to even; a NaN stays a NaN. One instruction from compute capability 8.0 on.
__device__ __forceinline__ void store(bfloat16_t& to, float x) {
#if defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm("cvt.rn.bf16.f32 %0, %1;" : "=h"(to.bits) : "f"(x));
#else
    const unsigned int bits = __float_as_uint(x);
    if ((bits & 0x7fffffffu) > 0x7f800000u)
        to.bits = (unsigned short)((bits >> 16) | 0x40u);
    else
        to.bits = (unsigned short)((bits + 0x7fffu + ((bits >> 16) & 1u)) >> 16);
#endif
}

// Element b * D + d of a start part of which each trajectory has its row; with `index` row index[b] of several; that of the one row where
// bit `part` of `one_row` says that there is one for all. Null counts as zeros. With time last the D series of a trajectory are a `group`.
template <typename S, typename Place, typename I>
__device__ __forceinline__ typename Arithmetic<S>::type start_value(const Place& of, const S* values, const long long* index,
                                                                    int one_row, int part, I group) {
    if (!values) return 0;
    long long place = of.series;
    const bool one = one_row >> part & 1;
    if (one || index) {
        const I b = of.trajectory / group;
        place += ((one ? 0 : index[b]) - b) * group * of.all_joints;
    }
    return load(values[place]);
}

// The sums over a block's threads of the N numbers that each has, at most four, for all of them, in a fixed order: eight by eight, with few
// barriers. `room` has N numbers for each thread.
template <int N, typename R>
__device__ __forceinline__ void block_sums(R (&own)[N], R* room) {
    const int thread = (int)threadIdx.x;
#pragma unroll
    for (int n = 0; n < N; ++n) room[N * thread + n] = own[n];
    __syncthreads();
    for (int left = N * (int)blockDim.x, next; left > N; left = next) {
        next = (left / N + 7) / 8 * N;
        if (thread < next) {
#pragma unroll
            for (int k = 1; k < 8; ++k)
                if (thread + k * next < left) room[thread] += room[thread + k * next];
        }
        __syncthreads();
    }
#pragma unroll
    for (int n = 0; n < N; ++n) own[n] = room[n];
    __syncthreads();  // before the next sum begins
}

// The sum of one number of each.
template <typename R>
__device__ __forceinline__ R block_sum(R own, R* room) {
    R sum[1] = {own};
    block_sums(sum, room);
    return sum[0];
}
