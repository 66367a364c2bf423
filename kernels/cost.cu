// A sum of costs of motions with its gradients by p, v, a, j and the step times, in one launch; BoundsCost, TrackingCost and the others.
//
// Options   STORAGE  float, double, half_t or bfloat16_t       INDEX    int, or long long where B * H * D needs it
// Shapes    p, v, a, j and their gradients (B, H, D), null where no term asks for them; cost (B,); by_dt (B, H), null where not wanted;
//           dt[b * dt_b + h * dt_h] in seconds, or `seconds` for all where dt is null. With time_last large arrays are (B, D, H).
//           target_0 .. target_7: references, whose strides stand in their terms.
// Terms     terms (number, 16), sorted by state, of numbers (cost_device.py packs them): `Term`.
// Formulas  with e = x - clip(x, lower, upper), or x - target, a term is the sum over h >= first and d of
//               weight * e^2, or weight * |e| for power 1, times t_h where it is timed; of dt likewise, without joints.
//           The length of the path is the sum over h >= 1 of weight_h * sqrt(sum over d of lower_d (p_h - p_{h-1})^2).
// Threads   a block a trajectory, in chunks of `steps` steps: first a thread a step (the path's lengths, what the step times get) where a
//           term needs that, then a thread an element, or four of them at a time.
// Bytes     reads what is asked for and writes its gradient, once: 2 B H D elements for each state; references are read once more. What a
//           thread a step reads of a chunk is in the L1 cache for the elements after it.
// Shared    steps + 1 reals, then a real for each thread.
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

// What the terms are evaluated with, for one trajectory.
struct Motion {
    const STORAGE* const state[4];
    STORAGE* const gradient[4];
    const STORAGE* const targets[8];
    const Term* terms;
    int number;
    const real* constants;
    const real* dt;
    real seconds;
    INDEX b, base;
    INDEX dt_h;
    INDEX step, joint;  // strides of large arrays

    __device__ __forceinline__ real t(int h) const { return dt ? dt[h * dt_h] : seconds; }

    __device__ __forceinline__ bool has_path() const { return number > 0 && terms[number - 1].state == PATH; }

    // This trajectory's target of a term, null for none; without an array in memory that is indexed at run time.
    __device__ __forceinline__ const STORAGE* target(const Term& term) const {
        const STORAGE* found = 0;
        if (term.target < 0) return found;
#pragma unroll
        for (int k = 0; k < 8; ++k) found = k == term.target ? targets[k] : found;
        return found + b * term.target_trajectory;
    }
};

// Signed distance of x from an interval; zero within, also of an infinite x where a bound is, NaN for NaN.
__device__ __forceinline__ real beyond(real x, real lower, real upper) {
    const real under = x >= lower ? real(0) : x - lower;
    return x <= upper ? under : x - upper;
}

// What a term, without the step's time, costs N values x of its state, and its slope by them.
template <int N>
__device__ __forceinline__ void price(const Motion& m, const Term& term, const STORAGE* target, const int (&step)[N], const int (&joint)[N],
                                      const real (&x)[N], real (&cost)[N], real (&slope)[N]) {
    real e[N], weight[N];
#pragma unroll
    for (int n = 0; n < N; ++n) weight[n] = m.constants[term.weight + step[n] * term.weight_step + joint[n] * term.weight_joint];
    if (target) {
#pragma unroll
        for (int n = 0; n < N; ++n) e[n] = x[n] - load(target[step[n] * (INDEX)term.target_step + joint[n] * (INDEX)term.target_joint]);
    } else {
#pragma unroll
        for (int n = 0; n < N; ++n) {
            const int place = step[n] * term.bound_step + joint[n] * term.bound_joint;
            e[n] = beyond(x[n], m.constants[term.lower + place], m.constants[term.upper + place]);
        }
    }
    if (term.power == 2) {
#pragma unroll
        for (int n = 0; n < N; ++n) slope[n] = 2 * weight[n] * e[n], cost[n] = weight[n] * e[n] * e[n];
    } else {
#pragma unroll
        for (int n = 0; n < N; ++n) {
            slope[n] = e[n] > 0 ? weight[n] : e[n] < 0 ? -weight[n] : weight[n] * e[n];
            cost[n] = slope[n] * e[n];
        }
    }
}

// The length of step h of the path, and one over it (zero where nothing moved).
__device__ __forceinline__ real path_step(const Motion& m, const Term& term, int h, int joints, real& inverse) {
    real sum = 0;
    for (int d = 0; d < joints; ++d) {
        const INDEX at = m.base + h * m.step + d * m.joint;
        const real moved = load(m.state[0][at]) - load(m.state[0][at - m.step]);
        sum += m.constants[term.lower + d * term.bound_joint] * moved * moved;
    }
    const real length = sqrt(sum);
    inverse = sum == 0 ? real(0) : 1 / length;
    return length;
}

// What belongs to step h as a whole: the terms of dt and the path, and the gradient by t_h.
__device__ __forceinline__ real step_terms(const Motion& m, int h, int joints, real* by_dt, real& inverse) {
    real total = 0, by_t = 0;
    inverse = 0;
    for (int i = 0; i < m.number; ++i) {
        const Term term = m.terms[i];
        if (h < term.first) continue;
        const int step[1] = {h};
        if (term.state == PATH) {
            const real weight = m.constants[term.weight + h * term.weight_step];
            total += weight * path_step(m, term, h, joints, inverse);
            inverse *= weight;
        } else if (term.state == TIME) {
            const int joint[1] = {0};
            const real x[1] = {m.t(h)};
            real cost[1], slope[1];
            price(m, term, (const STORAGE*)0, step, joint, x, cost, slope);
            total += cost[0];
            by_t += slope[0];
        } else if (term.timed && by_dt) {
            const STORAGE* state = 0;
#pragma unroll
            for (int k = 0; k < 4; ++k) state = k == term.state ? m.state[k] : state;
            const STORAGE* const target = m.target(term);
            for (int d = 0; d < joints; ++d) {
                const int joint[1] = {d};
                const real x[1] = {load(state[m.base + h * m.step + d * m.joint])};
                real cost[1], slope[1];
                price(m, term, target, step, joint, x, cost, slope);
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

// The elements of steps [h0, h0 + n), N of each thread at a time: their cost; writes their gradients.
template <int N>
__device__ __forceinline__ real element_terms(const Motion& m, int h0, int n_steps, int joints, INDEX horizon, bool time_last, const real* inverse) {
    // an element of the chunk is (slow, fast), fast along memory
    const int threads = (int)blockDim.x, extent = time_last ? n_steps : joints, count = n_steps * joints;
    const int slow_step = threads / extent, fast_step = threads - slow_step * extent;
    int slow = (int)threadIdx.x / extent, fast = (int)threadIdx.x - slow * extent;
    real total = 0;
    for (int first = threadIdx.x; first < count; first += N * threads) {
        bool exists[N];  // those that do not stand at the thread's first
        INDEX at[N];
        int step[N], joint[N];
#pragma unroll
        for (int n = 0; n < N; ++n) {
            exists[n] = n == 0 || first + n * threads < count;
            step[n] = !exists[n] ? step[0] : h0 + (time_last ? fast : slow);
            joint[n] = !exists[n] ? joint[0] : time_last ? slow : fast;
            at[n] = m.base + step[n] * m.step + joint[n] * m.joint;
            slow += slow_step;
            fast += fast_step;
            if (fast >= extent) fast -= extent, ++slow;
        }
        const Term* of = m.terms;
        const Term* const end = of + m.number;
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            if (!m.state[k]) continue;
            real x[N], slope[N];
#pragma unroll
            for (int n = 0; n < N; ++n) x[n] = load(m.state[k][at[n]]), slope[n] = 0;
            for (; of < end && of->state == k; ++of) {
                const Term term = *of;
                bool counts[N], any = false;
#pragma unroll
                for (int n = 0; n < N; ++n) {
                    counts[n] = exists[n] && step[n] >= term.first;
                    any |= counts[n];
                }
                if (!any) continue;
                real cost[N], own[N];
                price(m, term, m.target(term), step, joint, x, cost, own);
                if (term.timed) {
#pragma unroll
                    for (int n = 0; n < N; ++n) {
                        const real t = m.t(step[n]);
                        cost[n] *= t;
                        own[n] *= t;
                    }
                }
#pragma unroll
                for (int n = 0; n < N; ++n) {
                    if (!counts[n]) continue;
                    total += cost[n];
                    slope[n] += own[n];
                }
            }
            if (k == 0 && m.has_path()) {
#pragma unroll
                for (int n = 0; n < N; ++n)
                    slope[n] += path_slope(m, end[-1], x[n], at[n], step[n], joint[n], horizon, inverse + (step[n] - h0));
            }
#pragma unroll
            for (int n = 0; n < N; ++n)
                if (m.gradient[k] && exists[n]) store(m.gradient[k][at[n]], slope[n]);
        }
    }
    return total;
}

extern "C" __global__ void __launch_bounds__(512, 1)
    motion_cost(const STORAGE* p, const STORAGE* v, const STORAGE* a, const STORAGE* j, const STORAGE* target_0, const STORAGE* target_1,
                const STORAGE* target_2, const STORAGE* target_3, const STORAGE* target_4, const STORAGE* target_5,
                const STORAGE* target_6, const STORAGE* target_7, const int* terms, const real* constants, const real* dt, real seconds,
                real* cost, STORAGE* by_p, STORAGE* by_v, STORAGE* by_a, STORAGE* by_j, real* by_dt, int number, INDEX horizon,
                int joints, int time_last, INDEX dt_b, INDEX dt_h, int steps) {
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    real* inverse = reinterpret_cast<real*>(shared_bytes);
    real* sums = inverse + steps + 1;
    const INDEX b = blockIdx.x;
    const Motion m = {{p, v, a, j},
                      {by_p, by_v, by_a, by_j},
                      {target_0, target_1, target_2, target_3, target_4, target_5, target_6, target_7},
                      reinterpret_cast<const Term*>(terms),
                      number,
                      constants,
                      dt ? dt + b * dt_b : dt,
                      seconds,
                      b,
                      b * horizon * joints,
                      dt_h,
                      time_last ? 1 : joints,
                      time_last ? horizon : 1};
    real* own_dt = by_dt ? by_dt + b * horizon : by_dt;
    const bool by_step = own_dt || (number > 0 && m.terms[number - 1].state >= TIME);
    const int threads = (int)blockDim.x;
    real total = 0;
    for (int h0 = 0; h0 < horizon; h0 += steps) {
        const int n = horizon - h0 < steps ? (int)(horizon - h0) : steps;
        if (by_step) {
            __syncthreads();  // the chunk before has been read
            for (int i = threadIdx.x; i <= n && h0 + i < horizon; i += threads) {  // the step after the chunk only for its length
                real found;
                const real part = step_terms(m, h0 + i, joints, i < n ? own_dt : (real*)0, found);
                inverse[i] = found;
                if (i < n) total += part;
            }
            __syncthreads();
        }
        if (n * joints <= threads)
            total += element_terms<1>(m, h0, n, joints, horizon, time_last, inverse);
        else
            total += element_terms<4>(m, h0, n, joints, horizon, time_last, inverse);
    }
    total = block_sum(total, sums);
    if (threadIdx.x == 0) cost[b] = total;
}
