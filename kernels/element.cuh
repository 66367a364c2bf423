// A thread for each element of (B, H, D) arrays, where what it needs lies a few steps away: neighbours in a block are neighbours in memory, so
// global memory is read and written coalesced, and what several threads read the L1 cache holds. No shared memory and no barrier.
//
// A block's threads (x, y, z) stand at so many joints, steps and trajectories, its blocks (z, x, y) likewise: no index is divided. Of large
// batches a thread takes its element of N trajectories at a time: it waits once for all that it reads, and they share its instructions.
#pragma once
#include "common.cuh"

// How many blocks of 256 threads share a multiprocessor's registers: the more, the more loads are under way. Doubles, 64-bit indices and N
// elements at a time take more registers and would be spilled.
template <typename S, typename I, int N, int MOST, int WIDE = 4, int MANY = 4>
constexpr int ELEMENT_BLOCKS = N > 1 ? (sizeof(I) == 8 ? MANY - 1 : MANY) : sizeof(S) == 8 || sizeof(I) == 8 ? WIDE : MOST;

// The same of an adjoint's blocks, of 128 threads with an element each.
template <typename S>
constexpr int ADJOINT_BLOCKS = sizeof(S) == 8 ? 6 : 8;

template <typename I>
struct Element {
    bool exists;
    I batch, horizon, step;
    int joint, joints;
    I trajectory, on;  // the first of this thread's, and how far the next is
};

template <typename I>
__device__ __forceinline__ Element<I> element_of_thread(I batch, I horizon, int joints) {
    Element<I> element;
    element.batch = batch;
    element.horizon = horizon;
    element.step = (I)blockIdx.x * blockDim.y + threadIdx.y;
    element.joint = (int)(blockIdx.z * blockDim.x + threadIdx.x);
    element.joints = joints;
    element.trajectory = (I)blockIdx.y * blockDim.z + threadIdx.z;
    element.on = (I)gridDim.y * blockDim.z;
    element.exists = element.trajectory < batch && element.step < horizon && element.joint < joints;
    return element;
}

// The element of N trajectories; those that do not exist stand at the first, to read but not to write.
template <typename I, int N>
struct Elements {
    const Element<I>& of;
    I trajectory[N];
    bool exists[N];

    __device__ __forceinline__ Elements(const Element<I>& of, I first) : of(of) {
#pragma unroll
        for (int n = 0; n < N; ++n) {
            const I b = first + n * of.on;
            exists[n] = n == 0 || b < of.batch;
            trajectory[n] = exists[n] ? b : first;
        }
    }

    // In an array of so many steps.
    __device__ __forceinline__ I place(int n, I step, I horizon) const {
        return (trajectory[n] * horizon + step) * of.joints + of.joint;
    }

    // The one step length of each trajectory: arguments as `StepTimes`.
    template <typename R>
    __device__ __forceinline__ void step_times(const R* dt, R seconds, I group, I dt_b, R (&t)[N]) const {
#pragma unroll
        for (int n = 0; n < N; ++n) t[n] = seconds;
        if (!dt) return;
#pragma unroll
        for (int n = 0; n < N; ++n) t[n] = dt[trajectory[n] / group * dt_b];
    }

    // From each trajectory, out of an array of so many steps, W elements from a step on; with TO_THE_END zeros for steps after the last.
    template <bool TO_THE_END = false, typename S, int W>
    __device__ __forceinline__ void read(const S* from, I step, I horizon, typename Arithmetic<S>::type (&x)[N][W]) const {
#pragma unroll
        for (int n = 0; n < N; ++n) {
            const S* at = from + place(n, step, horizon);
#pragma unroll
            for (int w = 0; w < W; ++w, at += of.joints) {
                x[n][w] = !TO_THE_END || step + w < horizon ? load(*at) : typename Arithmetic<S>::type(0);
            }
        }
    }

    // What was made for each trajectory and array.
    template <typename S>
    __device__ __forceinline__ void write(S* const (&arrays)[4], const typename Arithmetic<S>::type (&made)[N][4]) const {
#pragma unroll
        for (int n = 0; n < N; ++n) {
            if (!exists[n]) continue;
            const I to = place(n, of.step, of.horizon);
#pragma unroll
            for (int i = 0; i < 4; ++i) store(arrays[i][to], made[n][i]);
        }
    }
};

// The parts of the start, or of the goal: arguments as `start_value`.
template <typename S, typename I, int N, int PARTS>
__device__ __forceinline__ void start_values(const Elements<I, N>& elements, const S* const (&parts)[PARTS], const long long* index, int one_row,
                                             I group, typename Arithmetic<S>::type (&x)[N][PARTS]) {
#pragma unroll
    for (int n = 0; n < N; ++n) {
#pragma unroll
        for (int k = 0; k < PARTS; ++k) x[n][k] = 0;
    }
    if (!one_row && !index) {
#pragma unroll
        for (int n = 0; n < N; ++n) {
            const I own = elements.trajectory[n] * elements.of.joints + elements.of.joint;
#pragma unroll
            for (int k = 0; k < PARTS; ++k)
                if (parts[k]) x[n][k] = load(parts[k][own]);
        }
        return;
    }
    long long own[N], one[N];
#pragma unroll
    for (int n = 0; n < N; ++n) {
        const I b = elements.trajectory[n] / group;
        const long long width = (long long)group * elements.of.joints;
        own[n] = elements.trajectory[n] * elements.of.joints + elements.of.joint;
        one[n] = own[n] - b * width;
        if (index) own[n] = one[n] + index[b] * width;
    }
#pragma unroll
    for (int k = 0; k < PARTS; ++k) {
        if (!parts[k]) continue;
#pragma unroll
        for (int n = 0; n < N; ++n) x[n][k] = load(parts[k][one_row >> k & 1 ? one[n] : own[n]]);
    }
}
