// A sum of costs of motions with its gradients by p, v, a, j and the step times, in one launch; BoundsCost, TrackingCost and the others.
//
// Options   STORAGE  float, double, half_t or bfloat16_t       INDEX    int, or long long where B * H * D needs it
//           OUTPUTS  how many trajectories a block has, 1 or, where there are many, 4
// Shapes    p, v, a, j and their gradients (B, H, D), null where no term asks for them; cost (B,); by_dt (B, H), null where not wanted;
//           dt[b * dt_b + h * dt_h] in seconds, or `seconds` for all where dt is null. With time_last large arrays are (B, D, H).
//           target_0 .. target_7: references, whose strides stand in their terms.
// Terms     terms (number, 16), sorted by state, of numbers (cost_device.py packs them): `Term`.
// Formulas  with e = x - clip(x, lower, upper), or x - target, a term is the sum over h >= first and d of
//               weight * e^2, or weight * |e| for power 1, times t_h where it is timed; of dt likewise, without joints.
//           The length of the path is the sum over h >= 1 of weight_h * sqrt(sum over d of lower_d (p_h - p_{h-1})^2).
// Threads   a block has OUTPUTS trajectories, in chunks of `steps` steps: first a thread a step (the
//           path's lengths, what the step times get) where a term needs that, then a thread an element, or four of them at a time: the same
//           of the block's four trajectories, for which it reads each term, its weight and its bounds once, or of the one.
// Bytes     reads what is asked for and writes its gradient, once: 2 B H D elements for each state; references are read once more. What a
//           thread a step reads of a chunk is in the L1 cache for the elements after it.
// Shared    steps + 1 reals, then a real for each thread, all of this for each trajectory of the block.
// Every sum runs in a fixed order: results are bitwise repeatable.
#include "common.cuh"

typedef Arithmetic<STORAGE>::type real;

enum { TIME = 4, PATH = 5 };

// A term, read 16 bytes at a time.
struct __align__(16) Term {
    int state;   // 0 p, 1 v, 2 a, 3 j, TIME dt, PATH length of the path
    int power;   // 1 or 2
    int timed, first;                                // the first step that counts
    int weight, weight_step, weight_joint;           // where the weights lie in `constants`, their strides
    int lower, upper, bound_step, bound_joint;       // the bounds likewise
    int target, target_trajectory, target_step, target_joint;  // which target, -1 for none, and its strides
    int unused;
};

// What the terms are evaluated with, for the trajectories of a block, of which `held` exist.
struct Motion {
    const STORAGE* const state[4];
    STORAGE* const gradient[4];
    const STORAGE* const targets[8];
    const Term* terms;
    int number;
    const real* constants;
    const real* dt;  // of the first of them
    real seconds;
    INDEX b, base, run;  // the first of them, its first element, the elements from one to the next
    int held;
    INDEX dt_b, dt_h;
    INDEX step, joint;  // strides of large arrays

    // Trajectory n, the first in the place of one that does not exist.
    __device__ __forceinline__ int row(int n) const { return n < held ? n : 0; }

    __device__ __forceinline__ real t(int n, int h) const { return dt ? dt[row(n) * dt_b + h * dt_h] : seconds; }

    __device__ __forceinline__ bool has_path() const { return number > 0 && terms[number - 1].state == PATH; }

    // A term's target of the first trajectory, null for none; without an array in memory that is indexed at run time.
    __device__ __forceinline__ const STORAGE* target(const Term& term) const {
        const STORAGE* found = 0;
        if (term.target < 0) return found;
#pragma unroll
        for (int k = 0; k < 8; ++k) found = k == term.target ? targets[k] : found;
        return found + b * term.target_trajectory;
    }
};

// The numbers that a thread has at a time: one place in each of N trajectories, or N places in one. `place` of number n, of `PLACES`, and its
// `trajectory`.
template <int N, bool TOGETHER>
struct Numbers {
    enum { PLACES = TOGETHER ? 1 : N };

    static __device__ __forceinline__ int place(int n) { return TOGETHER ? 0 : n; }

    static __device__ __forceinline__ int trajectory(int n) { return TOGETHER ? n : 0; }
};

// Signed distance of x from an interval; zero within, also of an infinite x where a bound is, NaN for NaN.
__device__ __forceinline__ real beyond(real x, real lower, real upper) {
    const real under = x >= lower ? real(0) : x - lower;
    return x <= upper ? under : x - upper;
}

// What a term, without the step's time, costs N values x of its state, and its slope by them. Those of one place share weights and bounds.
template <int N, bool TOGETHER, int PLACES>
__device__ __forceinline__ void price(const Motion& m, const Term& term, const STORAGE* target, int first, const int (&step)[PLACES],
                                      const int (&joint)[PLACES], const real (&x)[N], real (&cost)[N], real (&slope)[N]) {
    typedef Numbers<N, TOGETHER> numbers;
    real e[N], weight[PLACES];
#pragma unroll
    for (int i = 0; i < PLACES; ++i) weight[i] = m.constants[term.weight + step[i] * term.weight_step + joint[i] * term.weight_joint];
    if (target) {
#pragma unroll
        for (int n = 0; n < N; ++n) {
            const int i = numbers::place(n);
            const INDEX from = m.row(first + numbers::trajectory(n)) * (INDEX)term.target_trajectory;
            e[n] = x[n] - load(target[from + step[i] * (INDEX)term.target_step + joint[i] * (INDEX)term.target_joint]);
        }
    } else {
        real lower[PLACES], upper[PLACES];
#pragma unroll
        for (int i = 0; i < PLACES; ++i) {
            const int bound = step[i] * term.bound_step + joint[i] * term.bound_joint;
            lower[i] = m.constants[term.lower + bound];
            upper[i] = m.constants[term.upper + bound];
        }
#pragma unroll
        for (int n = 0; n < N; ++n) e[n] = beyond(x[n], lower[numbers::place(n)], upper[numbers::place(n)]);
    }
    if (term.power == 2) {
#pragma unroll
        for (int n = 0; n < N; ++n) {
            const real once = weight[numbers::place(n)] * e[n];
            slope[n] = once + once;
            cost[n] = once * e[n];
        }
    } else {
#pragma unroll
        for (int n = 0; n < N; ++n) {
            const real own = weight[numbers::place(n)];
            slope[n] = e[n] > 0 ? own : e[n] < 0 ? -own : own * e[n];
            cost[n] = slope[n] * e[n];
        }
    }
}

// The length of step h of the path, whose position stands at `at`, and one over it (zero where nothing moved).
__device__ __forceinline__ real path_step(const Motion& m, const Term& term, INDEX at, int joints, real& inverse) {
    real sum = 0;
    for (int d = 0; d < joints; ++d, at += m.joint) {
        const real moved = load(m.state[0][at]) - load(m.state[0][at - m.step]);
        sum += m.constants[term.lower + d * term.bound_joint] * moved * moved;
    }
    const real length = sqrt(sum);
    inverse = sum == 0 ? real(0) : 1 / length;
    return length;
}

// What belongs to step h of trajectory n as a whole: the terms of dt and the path, and the gradient by t_h.
__device__ __forceinline__ real step_terms(const Motion& m, int n, int h, int joints, real* by_dt, real& inverse) {
    const INDEX begin = m.base + n * m.run + h * m.step;
    real total = 0, by_t = 0;
    inverse = 0;
    for (int i = 0; i < m.number; ++i) {
        const Term term = m.terms[i];
        if (h < term.first) continue;
        const int step[1] = {h};
        if (term.state == PATH) {
            const real weight = m.constants[term.weight + h * term.weight_step];
            total += weight * path_step(m, term, begin, joints, inverse);
            inverse *= weight;
        } else if (term.state == TIME) {
            const int joint[1] = {0};
            const real x[1] = {m.t(n, h)};
            real cost[1], slope[1];
            price<1, true>(m, term, (const STORAGE*)0, n, step, joint, x, cost, slope);
            total += cost[0];
            by_t += slope[0];
        } else if (term.timed && by_dt) {
            const STORAGE* state = 0;
#pragma unroll
            for (int k = 0; k < 4; ++k) state = k == term.state ? m.state[k] : state;
            const STORAGE* const target = m.target(term);
            for (int d = 0; d < joints; ++d) {
                const int joint[1] = {d};
                const real x[1] = {load(state[begin + d * m.joint])};
                real cost[1], slope[1];
                price<1, true>(m, term, target, n, step, joint, x, cost, slope);
                by_t += cost[0];
            }
        }
    }
    if (by_dt) by_dt[h] = by_t;
    return total;
}

// What the length of the path adds to the slope by x, at `at`; inverse[0] belongs to step h.
__device__ __forceinline__ real path_slope(const Motion& m, const Term& term, real x, INDEX at, int h, int d, INDEX horizon, const real* inverse) {
    const real metric = m.constants[term.lower + d * term.bound_joint];
    real slope = 0;
    if (h > 0) slope += inverse[0] * metric * (x - load(m.state[0][at - m.step]));
    if (h + 1 < horizon) slope -= inverse[1] * metric * (load(m.state[0][at + m.step]) - x);
    return slope;
}

// The elements of steps [h0, h0 + n_steps), N numbers of each thread at a time: adds what they cost to `total`, by trajectory where they are of N;
// writes their gradients. `inverse` has `lengths` numbers for each trajectory.
template <int N, bool TOGETHER>
__device__ __forceinline__ void element_terms(const Motion& m, int h0, int n_steps, int joints, INDEX horizon, bool time_last,
                                              const real* inverse, int lengths, real (&total)[TOGETHER ? N : 1]) {
    typedef Numbers<N, TOGETHER> numbers;
    enum { PLACES = numbers::PLACES };
    // an element of the chunk is (slow, fast), fast along memory
    const int threads = (int)blockDim.x, extent = time_last ? n_steps : joints, count = n_steps * joints;
    const int slow_step = threads / extent, fast_step = threads - slow_step * extent;
    int slow = (int)threadIdx.x / extent, fast = (int)threadIdx.x - slow * extent;
    for (int first = threadIdx.x; first < count; first += PLACES * threads) {
        bool exists[PLACES];  // the first stands in the place of those that do not, as of trajectories, where it is written again
        INDEX at[N];
        int step[PLACES], joint[PLACES];
#pragma unroll
        for (int i = 0; i < PLACES; ++i) {
            exists[i] = i == 0 || first + i * threads < count;
            step[i] = !exists[i] ? step[0] : h0 + (time_last ? fast : slow);
            joint[i] = !exists[i] ? joint[0] : time_last ? slow : fast;
            slow += slow_step;
            fast += fast_step;
            if (fast >= extent) fast -= extent, ++slow;
        }
        real x[4][N];
#pragma unroll
        for (int n = 0; n < N; ++n) {
            const int i = numbers::place(n);
            at[n] = m.base + step[i] * m.step + joint[i] * m.joint + m.row(numbers::trajectory(n)) * m.run;
        }
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            if (!m.state[k]) continue;
#pragma unroll
            for (int n = 0; n < N; ++n) x[k][n] = load(m.state[k][at[n]]);
        }
        const Term* of = m.terms;
        const Term* const end = of + m.number;
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            if (!m.state[k]) continue;
            real slope[N];
#pragma unroll
            for (int n = 0; n < N; ++n) slope[n] = 0;
            for (; of < end && of->state == k; ++of) {
                const Term term = *of;
                bool counts[PLACES], any = false;
#pragma unroll
                for (int i = 0; i < PLACES; ++i) {
                    counts[i] = exists[i] && step[i] >= term.first;
                    any |= counts[i];
                }
                if (!any) continue;
                real cost[N], own[N];
                price<N, TOGETHER>(m, term, m.target(term), 0, step, joint, x[k], cost, own);
                if (term.timed) {
#pragma unroll
                    for (int n = 0; n < N; ++n) {
                        const real t = m.t(numbers::trajectory(n), step[numbers::place(n)]);
                        cost[n] *= t;
                        own[n] *= t;
                    }
                }
#pragma unroll
                for (int n = 0; n < N; ++n) {
                    if (!counts[numbers::place(n)]) continue;
                    total[numbers::trajectory(n)] += cost[n];
                    slope[n] += own[n];
                }
            }
            if (k == 0 && m.has_path()) {
#pragma unroll
                for (int n = 0; n < N; ++n) {
                    const int i = numbers::place(n), row = m.row(numbers::trajectory(n));
                    slope[n] += path_slope(m, end[-1], x[0][n], at[n], step[i], joint[i], horizon, inverse + (row * lengths + step[i] - h0));
                }
            }
#pragma unroll
            for (int n = 0; n < N; ++n)
                if (m.gradient[k] && exists[numbers::place(n)]) store(m.gradient[k][at[n]], slope[n]);
        }
    }
}

// The elements of one trajectory that a thread has at a time where there are more than threads: as many as registers hold.
enum { SEVERAL = sizeof(real) == 8 && sizeof(INDEX) == 8 ? 2 : 4 };

// The cost and gradients of the block's trajectories: one, or N at a time.
template <int N>
__device__ __forceinline__ void motion_of_block(const Motion& m, real* cost, real* by_dt, int joints, INDEX horizon, bool time_last, int steps,
                                                real* shared) {
    real* const inverse = shared;
    const int threads = (int)blockDim.x, lengths = steps + 1;
    const bool by_step = by_dt || (m.number > 0 && m.terms[m.number - 1].state >= TIME);
    real total[N];
#pragma unroll
    for (int n = 0; n < N; ++n) total[n] = 0;
    for (int h0 = 0; h0 < horizon; h0 += steps) {
        const int n_steps = horizon - h0 < steps ? (int)(horizon - h0) : steps;
        if (by_step) {
            __syncthreads();  // the chunk before has been read
            const int most = h0 + n_steps < horizon ? n_steps + 1 : n_steps;  // the step after the chunk only for its length
            for (int i = threadIdx.x; i < m.held * most; i += threads) {
                const int n = N == 1 ? 0 : i / most, of = i - n * most;
                real found;
                const real part = step_terms(m, n, h0 + of, joints, by_dt && of < n_steps ? by_dt + n * horizon : (real*)0, found);
                inverse[n * lengths + of] = found;
#pragma unroll
                for (int k = 0; k < N; ++k)
                    if (k == n && of < n_steps) total[k] += part;
            }
            __syncthreads();
        }
        if constexpr (N > 1)
            element_terms<N, true>(m, h0, n_steps, joints, horizon, time_last, inverse, lengths, total);
        else if (n_steps * joints <= threads)
            element_terms<1, false>(m, h0, n_steps, joints, horizon, time_last, inverse, lengths, total);
        else
            element_terms<SEVERAL, false>(m, h0, n_steps, joints, horizon, time_last, inverse, lengths, total);
    }
    block_sums(total, inverse + N * lengths);
    if (threadIdx.x == 0) {
#pragma unroll
        for (int n = 0; n < N; ++n)
            if (n < m.held) cost[n] = total[n];
    }
}

// The threads of a block at most, and how many such blocks a multiprocessor's registers hold.
enum { THREADS = OUTPUTS > 1 ? 448 : 512, BLOCKS = OUTPUTS > 1 && sizeof(real) == 4 && sizeof(INDEX) == 4 ? 2 : 1 };

extern "C" __global__ void __launch_bounds__(THREADS, BLOCKS)
    motion_cost(const STORAGE* p, const STORAGE* v, const STORAGE* a, const STORAGE* j, const STORAGE* target_0, const STORAGE* target_1,
                const STORAGE* target_2, const STORAGE* target_3, const STORAGE* target_4, const STORAGE* target_5,
                const STORAGE* target_6, const STORAGE* target_7, const int* terms, const real* constants, const real* dt, real seconds,
                real* cost, STORAGE* by_p, STORAGE* by_v, STORAGE* by_a, STORAGE* by_j, real* by_dt, int number, INDEX batch, INDEX horizon,
                int joints, int time_last, INDEX dt_b, INDEX dt_h, int steps) {
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    const INDEX b = (INDEX)blockIdx.x * OUTPUTS, run = horizon * joints;
    const Motion m = {{p, v, a, j},
                      {by_p, by_v, by_a, by_j},
                      {target_0, target_1, target_2, target_3, target_4, target_5, target_6, target_7},
                      reinterpret_cast<const Term*>(terms),
                      number,
                      constants,
                      dt ? dt + b * dt_b : dt,
                      seconds,
                      b,
                      b * run,
                      run,
                      batch - b < OUTPUTS ? (int)(batch - b) : OUTPUTS,
                      dt_b,
                      dt_h,
                      time_last ? 1 : joints,
                      time_last ? horizon : 1};
    real* const own_dt = by_dt ? by_dt + b * horizon : by_dt;
    real* const shared = reinterpret_cast<real*>(shared_bytes);
    motion_of_block<OUTPUTS>(m, cost + b, own_dt, joints, horizon, time_last, steps, shared);
}
