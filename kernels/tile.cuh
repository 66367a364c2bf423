// A block's share of (B, H, D) arrays, staged through shared memory so that global memory is read and written coalesced while each
// thread walks the steps of one series, a (trajectory, joint) pair.
//
// A chunk of n steps of the block's `trajectories` x `joints` series lies in shared memory at
//     trajectory * row + lead + step * joints + joint
// where the host pads `row` so that the series of a warp fall into different banks and vectors stay aligned.
// Trajectories are contiguous runs of n * D elements; when a tile holds only some of the joints, the runs are its joints of one step.
// With `vector` a thread moves 16 bytes at a time, and single elements where a run begins or ends between two multiples of 16 bytes: `lead`
// elements behind one, in global as in shared memory. The host has checked that arrays and chunks begin on such a multiple.
// Rows of one joint that begin on 16 bytes would have the threads of a warp meet in every fourth bank: there the words of 16 bytes lie apart
// (`Apart`), in rows of an odd number of words.
#pragma once
#include "common.cuh"

// How many blocks a multiprocessor's registers are shared by: 64-bit indices, and doubles of MORE arrays, take more of them, and would be spilled.
template <typename S, typename I, bool MORE = false>
constexpr int BLOCKS = sizeof(I) == 8 || (sizeof(S) == 8 && MORE) ? 6 : 8;

template <typename I>
struct Tile {
    I first_trajectory, horizon;
    int all_joints, first_joint;
    int trajectories, joints;
    int row;
    int vector;  // how many elements move at a time where 16 bytes can; where their words lie apart minus the elements of a word; else 0
    // this thread's series; a thread that has none stands at the block's first, to read but not to write
    bool active;
    int segment, segments;  // which part of the walk over a chunk is this thread's, and how many there are
    I trajectory, series;  // b and b * D + d
    int place;             // of its first step in shared memory

    // How many elements behind a multiple of 16 bytes a trajectory's run begins, in global as in shared memory. The host has checked that
    // all its chunks begin so.
    __device__ __forceinline__ int lead(int trajectory) const {
        if (vector <= 0 || joints != all_joints) return vector == -2 ? (int)((first_trajectory + trajectory) * horizon & 1) : 0;
        return (int)(((first_trajectory + trajectory) * horizon * all_joints) & (vector - 1));
    }
};

template <typename I>
__device__ __forceinline__ Tile<I> tile_of_block(I batch, I horizon, int joints, int tile_batch, int tile_joints, int row, int vector,
                                                 int segments = 1) {
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
    tile.vector = vector;
    const int series = tile.trajectories * tile.joints;
    tile.segments = segments;
    tile.active = (int)threadIdx.x < series * tile.segments;
    tile.segment = tile.active ? (int)threadIdx.x / series : 0;
    const int thread = tile.active ? (int)threadIdx.x - tile.segment * series : 0;
    const int trajectory = thread / tile.joints;
    const int joint = thread - trajectory * tile.joints;
    tile.trajectory = tile.first_trajectory + trajectory;
    tile.series = tile.trajectory * joints + tile.first_joint + joint;
    tile.place = trajectory * row + tile.lead(trajectory) + joint;
    return tile;
}

// How many threads share a walk over n steps, of which each has `part`; 0: one walks alone. The host has threads for them, and gives each 8
// steps at least, so that what a walk needs from before lies in one other segment.
__device__ __forceinline__ int segments_of(long long n, int part) { return part ? (int)((n + part - 1) / part) : 1; }

// The steps [first, last) of n that are this thread's.
template <typename I>
__device__ __forceinline__ void part_of_walk(const Tile<I>& tile, int n, int part, int& first, int& last) {
    first = tile.segment * part;
    last = first + part < n ? first + part : n;
}

// The block's threads share rows x width items, each `width` long row taken whole by neighbours: calls each(row, place in the row).
// A thread advances by a block's width without a division at each item.
template <typename Each>
__device__ __forceinline__ void for_each_item(int rows, int width, Each each) {
    if (width == 0) return;
    const int rows_on = (int)blockDim.x / width, on = (int)blockDim.x - rows_on * width;
    int row = (int)threadIdx.x / width, place = (int)threadIdx.x - row * width;
    while (row < rows) {
        each(row, place);
        row += rows_on;
        place += on;
        if (place >= width) place -= width, ++row;
    }
}

// A word is what a bank serves at once, of doubles half of what one does.
template <int SIZE>
struct WordOf {
    typedef unsigned int type;
};

template <>
struct WordOf<8> {
    typedef unsigned long long type;
};

// 16 bytes of global memory that in shared memory lie on multiples of a word alone.
template <typename S>
struct __align__(16) Apart {
    typedef typename WordOf<sizeof(S)>::type Word;
    static constexpr int WORDS = 16 / sizeof(Word);
    Word of[WORDS];
};

// Of how many elements a multiple is where V can lie in shared memory.
template <typename S, typename V>
struct Alignment {
    static constexpr int ELEMENTS = sizeof(V) / sizeof(S);
};

template <typename S>
struct Alignment<S, Apart<S>> {
    static constexpr int ELEMENTS = sizeof(typename Apart<S>::Word) / sizeof(S);
};

// Calls mover.move<V>(offset in global memory, offset in shared memory) for each V of n steps from global step h on, where the chunk's slot of
// step h is `slot`, and mover.move<S> for elements beside them. A tile that holds only some of the joints has one trajectory.
template <typename S, typename V, typename I, typename Mover>
__device__ __forceinline__ void for_each_piece(const Tile<I>& tile, I h, int slot, int n, Mover mover) {
    constexpr int W = sizeof(V) / sizeof(S), ALIGNED = Alignment<S, V>::ELEMENTS;
    const bool whole = tile.joints == tile.all_joints;
    const I first = (tile.first_trajectory * tile.horizon + h) * tile.all_joints + tile.first_joint;
    const I run = whole ? tile.horizon * tile.all_joints : (I)tile.all_joints;
    const int place = slot * tile.joints, run_place = whole ? tile.row : tile.joints;
    const int runs = whole ? tile.trajectories : n, length = whole ? n * tile.joints : tile.joints;
    if (W > 1 && ((W == ALIGNED ? run : run | first) & (W - 1)) != 0) {  // runs begin anywhere between two multiples of 16 bytes
        for_each_item(runs, (length + 2 * W - 2) / W, [&](int at, int piece) {
            const I from = first + at * run;
            const int to = place + at * run_place, lead = (int)(from & (W - 1)), k = piece * W - lead;
            const int behind = lead & (ALIGNED - 1);
            if (k >= 0 && k + W <= length) {
                mover.template move<V>(from + k, to + piece * W - (lead - behind));
            } else {
                for (int e = k < 0 ? 0 : k; e < k + W && e < length; ++e) mover.template move<S>(from + e, to + behind + e);
            }
        });
        return;
    }
    const int pieces = length / W;
    if (pieces == 0) return;
    // as `for_each_item`, with both offsets carried along
    const int runs_on = (int)blockDim.x / pieces, on = (int)blockDim.x - runs_on * pieces;
    const I from_on = runs_on * run + on * W, from_next = run - pieces * W;
    const int to_on = runs_on * run_place + on * W, to_next = run_place - pieces * W;
    int at = (int)threadIdx.x / pieces, piece = (int)threadIdx.x - at * pieces;
    I from = first + at * run + piece * W;
    int to = place + at * run_place + piece * W;
    while (at < runs) {
        mover.template move<V>(from, to);
        at += runs_on;
        piece += on;
        from += from_on;
        to += to_on;
        if (piece >= pieces) piece -= pieces, ++at, from += from_next, to += to_next;
    }
}

// A piece of 2, 4, 8 or 16 bytes from global to shared memory, both `OFFSET` bytes on. From compute capability 8.0 on, one of 4 bytes or more is
// under way until `await_copies` and holds no register, so a thread has all of its pieces of a chunk under way at once.
template <int OFFSET, typename V>
__device__ __forceinline__ void copy_at(V* to, const V* from) {
    constexpr int ON = OFFSET / sizeof(V);
#if !defined(__CUDACC__)
    host_begin_copy(to + ON, from + ON, sizeof(V));
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    if constexpr (sizeof(V) >= 4) {
        const unsigned int place = (unsigned int)__cvta_generic_to_shared(to);
        asm volatile("cp.async.ca.shared.global [%0+%3], [%1+%3], %2;" ::"r"(place), "l"(from), "n"(sizeof(V)), "n"(OFFSET) : "memory");
    } else {
        to[ON] = from[ON];
    }
#else
    to[ON] = from[ON];
#endif
}

__device__ __forceinline__ void await_copies() {
#if !defined(__CUDACC__)
    host_await_copies();
#elif defined(__CUDA_ARCH__) && __CUDA_ARCH__ >= 800
    asm volatile("cp.async.wait_all;" ::: "memory");
#endif
}

template <typename V>
__device__ __forceinline__ void copy_piece(V* to, const V* from) {
    copy_at<0>(to, from);
}

template <typename S>
__device__ __forceinline__ void copy_piece(Apart<S>* to, const Apart<S>* from) {
    typedef typename Apart<S>::Word Word;
    copy_at<0>(reinterpret_cast<Word*>(to), reinterpret_cast<const Word*>(from));
    copy_at<sizeof(Word)>(reinterpret_cast<Word*>(to), reinterpret_cast<const Word*>(from));
    if constexpr (sizeof(Word) == 4) {
        copy_at<8>(reinterpret_cast<Word*>(to), reinterpret_cast<const Word*>(from));
        copy_at<12>(reinterpret_cast<Word*>(to), reinterpret_cast<const Word*>(from));
    }
}

template <typename V>
__device__ __forceinline__ void clear_piece(V* to) {
    *to = V();
}

template <typename S>
__device__ __forceinline__ void clear_piece(Apart<S>* to) {
#pragma unroll
    for (int w = 0; w < Apart<S>::WORDS; ++w) reinterpret_cast<typename Apart<S>::Word*>(to)[w] = 0;
}

// A piece from shared memory.
template <typename V>
__device__ __forceinline__ void take_piece(V& to, const V* from) {
    to = *from;
}

template <typename S>
__device__ __forceinline__ void take_piece(Apart<S>& to, const Apart<S>* from) {
#pragma unroll
    for (int w = 0; w < Apart<S>::WORDS; ++w) to.of[w] = reinterpret_cast<const typename Apart<S>::Word*>(from)[w];
}

// What a piece of N arrays is read by, and written by.
template <int N, typename S>
struct Reader {
    const S* const (&arrays)[N];
    S* shared;
    int area;

    template <typename V, typename I>
    __device__ __forceinline__ void move(I from, int to) const {
#pragma unroll
        for (int k = 0; k < N; ++k) {
            V* place = reinterpret_cast<V*>(shared + k * area + to);
            if (arrays[k])
                copy_piece(place, reinterpret_cast<const V*>(arrays[k] + from));
            else
                clear_piece(place);
        }
    }
};

template <int N, typename S>
struct Writer {
    S* const (&arrays)[N];
    const S* shared;
    int area;

    template <typename V, typename I>
    __device__ __forceinline__ void move(I to, int from) const {
        V held[N];
#pragma unroll
        for (int k = 0; k < N; ++k) take_piece(held[k], reinterpret_cast<const V*>(shared + k * area + from));
#pragma unroll
        for (int k = 0; k < N; ++k)
            if (arrays[k]) *reinterpret_cast<V*>(arrays[k] + to) = held[k];
    }
};

// Global steps [h, h + n) of N arrays into the slots from `slot` on; array k at shared + k * area. An absent array reads as zeros. They are
// there for a thread's own use after `await_copies`.
template <int N, typename S, typename I>
__device__ __forceinline__ void tile_begin_read(const Tile<I>& tile, const S* const (&arrays)[N], I h, int slot, int n, S* shared, int area) {
    if (tile.vector > 0)
        for_each_piece<S, uint4>(tile, h, slot, n, Reader<N, S>{arrays, shared, area});
    else if (tile.vector < 0)
        for_each_piece<S, Apart<S>>(tile, h, slot, n, Reader<N, S>{arrays, shared, area});
    else
        for_each_piece<S, S>(tile, h, slot, n, Reader<N, S>{arrays, shared, area});
}

template <int N, typename S, typename I>
__device__ __forceinline__ void tile_read(const Tile<I>& tile, const S* const (&arrays)[N], I h, int slot, int n, S* shared, int area) {
    tile_begin_read(tile, arrays, h, slot, n, shared, area);
    await_copies();
}

// The reverse: the slots from `slot` on into global steps [h, h + n). An absent array is not written.
template <int N, typename S, typename I>
__device__ __forceinline__ void tile_write(const Tile<I>& tile, S* const (&arrays)[N], I h, int slot, int n, const S* shared, int area) {
    if (tile.vector > 0)
        for_each_piece<S, uint4>(tile, h, slot, n, Writer<N, S>{arrays, shared, area});
    else if (tile.vector < 0)
        for_each_piece<S, Apart<S>>(tile, h, slot, n, Writer<N, S>{arrays, shared, area});
    else
        for_each_piece<S, S>(tile, h, slot, n, Writer<N, S>{arrays, shared, area});
}

// The step times of a trajectory in seconds: dt[b / group * dt_b + h * dt_h], or `seconds` for all where dt is null. Where a trajectory
// has one step length its reciprocal is taken once; else those of a chunk are staged in shared memory with their reciprocals, one for
// all joints: 2 * tile_batch * steps reals.
template <typename R, typename I>
struct StepTimes {
    const R* dt;
    I stride;
    R* staged;             // this trajectory's pairs of t and 1 / t in shared memory
    R t, per_second;  // of the step that `go_to` was told last

    // `room` is the whole block's in shared memory, `steps` the longest chunk.
    __device__ __forceinline__ StepTimes(const Tile<I>& tile, const R* dt, R seconds, I group, I dt_b, I dt_h, void* room, int steps)
        : dt(dt), stride(dt ? dt_h : 0), staged((R*)room + (int)(tile.trajectory - tile.first_trajectory) * 2 * steps) {
        t = dt && !stride ? dt[tile.trajectory / group * dt_b] : seconds;
        per_second = 1 / t;
    }

    // By all threads of a block, before it meets: the times of steps [h, h + n).
    __device__ __forceinline__ void stage(const Tile<I>& tile, I group, I dt_b, void* room, int steps, I h, int n) const {
        if (!stride) return;
        for_each_item(tile.trajectories, n, [&](int trajectory, int k) {
            const R seconds = dt[(tile.first_trajectory + trajectory) / group * dt_b + (h + k) * stride];
            R* pair = (R*)room + 2 * (trajectory * steps + k);
            pair[0] = seconds;
            pair[1] = 1 / seconds;
        });
    }

    // k: the step in the chunk that is staged.
    __device__ __forceinline__ void go_to(int k) {
        if (stride) {
            t = staged[2 * k];
            per_second = staged[2 * k + 1];
        }
    }
};
