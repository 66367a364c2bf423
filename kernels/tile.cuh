// A block's share of (B, H, D) arrays, staged through shared memory so that global memory is read and written coalesced while each
// thread walks the steps of one series, a (trajectory, joint) pair.
//
// A chunk of n steps of the block's `trajectories` x `joints` series lies in shared memory at
//     trajectory * row + step * joints + joint
// where the host pads `row` so that the series of a warp fall into different banks and vectors stay aligned.
// Trajectories are contiguous runs of n * D elements; when a tile holds only some of the joints, the runs are its joints of one step.
// With `vector` (the host has checked that every run starts and ends on 16 bytes) a thread moves 16 bytes at a time.
#pragma once

template <typename I>
struct Tile {
    I first_trajectory, horizon;
    int all_joints, first_joint;
    int trajectories, joints;
    int row;
    bool vector;
    // this thread's series; a thread that has none stands at the block's first, to read but not to write
    bool active;
    I trajectory, series;  // b and b * D + d
    int place;             // of its first step in shared memory
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
    tile.active = (int)threadIdx.x < tile.trajectories * tile.joints;
    const int thread = tile.active ? (int)threadIdx.x : 0;
    const int trajectory = thread / tile.joints;
    const int joint = thread - trajectory * tile.joints;
    tile.trajectory = tile.first_trajectory + trajectory;
    tile.series = tile.trajectory * joints + tile.first_joint + joint;
    tile.place = trajectory * row + joint;
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

// A piece of 2, 4, 8 or 16 bytes from global to shared memory. From compute capability 8.0 on, one of 4 bytes or more is under way until
// `await_copies` and holds no register, so a thread has all of its pieces of a chunk under way at once.
template <typename V>
__device__ __forceinline__ void copy_piece(V* to, const V* from) {
#if !defined(__CUDACC__)
    host_begin_copy(to, from, sizeof(V));
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    if constexpr (sizeof(V) >= 4) {
        const unsigned int place = (unsigned int)__cvta_generic_to_shared(to);
        asm volatile("cp.async.ca.shared.global [%0], [%1], %2;" ::"r"(place), "l"(from), "n"(sizeof(V)) : "memory");
    } else {
        *to = *from;
    }
#else
    *to = *from;
#endif
}

__device__ __forceinline__ void await_copies() {
#if !defined(__CUDACC__)
    host_await_copies();
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

// Steps [h, h + n) of N arrays, in pieces of type V, into the slots from `slot` on; or from there.
template <typename V, int N, typename S, typename I>
__device__ __forceinline__ void read_pieces(const Tile<I>& tile, const S* const (&arrays)[N], I h, int slot, int n, S* shared, int area) {
    for_each_piece<sizeof(V) / sizeof(S)>(tile, h, slot, n, [&](I from, int to) {
#pragma unroll
        for (int k = 0; k < N; ++k) {
            V* place = reinterpret_cast<V*>(shared + k * area + to);
            if (arrays[k])
                copy_piece(place, reinterpret_cast<const V*>(arrays[k] + from));
            else
                *place = V();
        }
    });
    await_copies();
}

template <typename V, int N, typename S, typename I>
__device__ __forceinline__ void write_pieces(const Tile<I>& tile, S* const (&arrays)[N], I h, int slot, int n, const S* shared, int area) {
    for_each_piece<sizeof(V) / sizeof(S)>(tile, h, slot, n, [&](I to, int from) {
        V held[N];
#pragma unroll
        for (int k = 0; k < N; ++k) held[k] = *reinterpret_cast<const V*>(shared + k * area + from);
#pragma unroll
        for (int k = 0; k < N; ++k)
            if (arrays[k]) *reinterpret_cast<V*>(arrays[k] + to) = held[k];
    });
}

// Global steps [h, h + n) of N arrays into the slots from `slot` on; array k at shared + k * area. An absent array reads as zeros.
template <int N, typename S, typename I>
__device__ __forceinline__ void tile_read(const Tile<I>& tile, const S* const (&arrays)[N], I h, int slot, int n, S* shared, int area) {
    if (tile.vector)
        read_pieces<uint4>(tile, arrays, h, slot, n, shared, area);
    else
        read_pieces<S>(tile, arrays, h, slot, n, shared, area);
}

// The reverse: the slots from `slot` on into global steps [h, h + n). An absent array is not written.
template <int N, typename S, typename I>
__device__ __forceinline__ void tile_write(const Tile<I>& tile, S* const (&arrays)[N], I h, int slot, int n, const S* shared, int area) {
    if (tile.vector)
        write_pieces<uint4>(tile, arrays, h, slot, n, shared, area);
    else
        write_pieces<S>(tile, arrays, h, slot, n, shared, area);
}

// The step times of a trajectory in seconds: dt[b / group * dt_b + h * dt_h], or `seconds` for all where dt is null. Where a trajectory
// has one step length its reciprocal is taken once.
template <typename R, typename I>
struct StepTimes {
    const R* series;
    I stride;
    R t, per_second;  // of the step that `go_to` was told last

    __device__ __forceinline__ StepTimes(const R* dt, R seconds, I first, I dt_h)
        : series(dt + first), stride(dt ? dt_h : 0), t(dt ? dt[first] : seconds), per_second(1 / t) {}

    __device__ __forceinline__ void go_to(I h) {
        if (stride) {
            t = series[h * stride];
            per_second = 1 / t;
        }
    }
};
