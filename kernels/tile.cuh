// A block's share of (B, H, D) arrays, staged through shared memory so that global memory is read and written coalesced while one
// thread walks the steps of one (trajectory, joint).
//
// A tile holds `trajectories` x `joints` series. A chunk of n steps of it lies in shared memory at
//     slot(trajectory, step, joint) = trajectory * row + step * joints + joint
// where the host pads `row` so that the series of a warp fall into different banks and vectors stay aligned.
// Trajectories are contiguous runs of n * D elements; when a tile holds only some of the joints, the runs are its joints of one step.
// With `vector` (the host has checked that every run starts and ends on 16 bytes) a thread moves 16 bytes at a time.
#pragma once

template <typename I>
struct Tile {
    I first_trajectory;
    I horizon;
    int all_joints;
    int first_joint;
    int trajectories;
    int joints;
    int row;
    bool vector;
};

template <typename I>
__device__ __forceinline__ Tile<I> tile_of_block(I batch, I horizon, int joints, int tile_batch, int tile_joints, int row, int vector) {
    Tile<I> tile;
    tile.first_trajectory = (I)blockIdx.x * tile_batch;
    tile.horizon = horizon;
    tile.all_joints = joints;
    tile.first_joint = (int)blockIdx.y * tile_joints;
    const I trajectories_left = batch - tile.first_trajectory;
    const int joints_left = joints - tile.first_joint;
    tile.trajectories = trajectories_left < tile_batch ? (int)trajectories_left : tile_batch;
    tile.joints = joints_left < tile_joints ? joints_left : tile_joints;
    tile.row = row;
    tile.vector = vector != 0;
    return tile;
}

// Calls move(offset in global memory, offset in shared memory) for every W-th element of n steps from global step h on, where the
// chunk's slot of step h is `slot`; the block's threads share the work.
template <int W, typename I, typename Move>
__device__ __forceinline__ void for_each_piece(const Tile<I>& tile, I h, int slot, int n, Move move) {
    const bool whole = tile.joints == tile.all_joints;
    const unsigned int pieces = (unsigned int)(whole ? n * tile.joints : tile.joints) / W;
    const unsigned int count = pieces * (unsigned int)(whole ? tile.trajectories : tile.trajectories * n);
    for (unsigned int i = threadIdx.x; i < count; i += blockDim.x) {
        const unsigned int run = i / pieces;
        const int offset = (int)(i - run * pieces) * W;
        const int trajectory = whole ? (int)run : (int)run / n;
        const int step = whole ? 0 : (int)run - trajectory * n;
        move(((tile.first_trajectory + trajectory) * tile.horizon + h + step) * tile.all_joints + tile.first_joint + offset,
             trajectory * tile.row + (slot + step) * tile.joints + offset);
    }
}

template <typename S, int N>
struct ReadPiece {
    const S* const* arrays;
    S* shared;
    int area;
    template <typename I>
    __device__ __forceinline__ void operator()(I from, int to) const {
#pragma unroll
        for (int k = 0; k < N; ++k) {
            if (arrays[k])
                shared[k * area + to] = arrays[k][from];
            else
                store(shared[k * area + to], 0);
        }
    }
};

template <typename S, int N>
struct ReadVector {
    const S* const* arrays;
    S* shared;
    int area;
    template <typename I>
    __device__ __forceinline__ void operator()(I from, int to) const {
#pragma unroll
        for (int k = 0; k < N; ++k)
            *reinterpret_cast<uint4*>(shared + k * area + to) =
                arrays[k] ? *reinterpret_cast<const uint4*>(arrays[k] + from) : make_uint4(0, 0, 0, 0);
    }
};

template <typename S, int N>
struct WritePiece {
    S* const* arrays;
    const S* shared;
    int area;
    template <typename I>
    __device__ __forceinline__ void operator()(I to, int from) const {
#pragma unroll
        for (int k = 0; k < N; ++k)
            if (arrays[k]) arrays[k][to] = shared[k * area + from];
    }
};

template <typename S, int N>
struct WriteVector {
    S* const* arrays;
    const S* shared;
    int area;
    template <typename I>
    __device__ __forceinline__ void operator()(I to, int from) const {
#pragma unroll
        for (int k = 0; k < N; ++k)
            if (arrays[k]) *reinterpret_cast<uint4*>(arrays[k] + to) = *reinterpret_cast<const uint4*>(shared + k * area + from);
    }
};

// Global steps [h, h + n) of N arrays into the slots from `slot` on; array k at shared + k * area. An absent array reads as zeros.
template <int N, typename S, typename I>
__device__ __forceinline__ void tile_read(const Tile<I>& tile, const S* const (&arrays)[N], I h, int slot, int n, S* shared, int area) {
    if (tile.vector)
        for_each_piece<16 / sizeof(S)>(tile, h, slot, n, ReadVector<S, N>{arrays, shared, area});
    else
        for_each_piece<1>(tile, h, slot, n, ReadPiece<S, N>{arrays, shared, area});
}

// The reverse: the slots from `slot` on into global steps [h, h + n). An absent array is not written.
template <int N, typename S, typename I>
__device__ __forceinline__ void tile_write(const Tile<I>& tile, S* const (&arrays)[N], I h, int slot, int n, const S* shared, int area) {
    if (tile.vector)
        for_each_piece<16 / sizeof(S)>(tile, h, slot, n, WriteVector<S, N>{arrays, shared, area});
    else
        for_each_piece<1>(tile, h, slot, n, WritePiece<S, N>{arrays, shared, area});
}
