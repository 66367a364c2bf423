// A thread for each element of (B, H, D) arrays, where what it needs lies a few steps away: neighbours in a block are neighbours in memory, so
// global memory is read and written coalesced, and what several threads read the L1 cache holds. No shared memory and no barrier.
//
// A block's threads (x, y, z) stand at so many joints, steps and trajectories, its blocks likewise: no index is divided. A thread goes on by
// `steps_on` steps where the grid does not reach the end of the horizon.
#pragma once
#include "common.cuh"

// How many blocks of 256 threads share a multiprocessor's registers: the more, the more loads are under way. Doubles and 64-bit indices take
// more registers and would be spilled.
template <typename S, typename I, int MOST, int WIDE = 4>
constexpr int ELEMENT_BLOCKS = sizeof(S) == 8 || sizeof(I) == 8 ? WIDE : MOST;

template <typename I>
struct Element {
    bool exists;
    I trajectory, step;
    int joint, all_joints;
    I series;  // b * D + d
};

template <typename I>
__device__ __forceinline__ Element<I> element_of_thread(I batch, I horizon, int joints) {
    Element<I> element;
    element.trajectory = (I)blockIdx.x * blockDim.z + threadIdx.z;
    element.step = (I)blockIdx.y * blockDim.y + threadIdx.y;
    element.joint = (int)(blockIdx.z * blockDim.x + threadIdx.x);
    element.all_joints = joints;
    element.series = element.trajectory * joints + element.joint;
    element.exists = element.trajectory < batch && element.step < horizon && element.joint < joints;
    return element;
}

template <typename I>
__device__ __forceinline__ I steps_on() {
    return (I)gridDim.y * blockDim.y;
}
