// A sum of costs of motions with its gradients by p, v, a, j and the step times, in one launch; BoundsCost, TrackingCost and the others.
//
// Options   STORAGE  float, double, half_t or bfloat16_t       INDEX    int, or long long where B * H * D needs it
// Shapes    p, v, a, j and their gradients (B, H, D), null where no term asks for them; cost (B,); by_dt (B, H), null where not wanted;
//           dt[b * dt_b + h * dt_h] in seconds, or `seconds` for all where dt is null. With time_last large arrays are (B, D, H).
//           target_0 .. target_7: references, whose strides stand in their terms.
// Terms     terms (number, 16), sorted by state, of numbers (cost_device.py packs them):
//               0 state (0 p, 1 v, 2 a, 3 j, 4 dt, 5 length of the path)     1 power (1 or 2)     2 timed    3 first step that counts
//               4, 5, 6  where the weights lie in `constants`, their strides by step and joint
//               7, 8, 9, 10  where the lower and the upper bounds lie, their strides by step and joint
//               11, 12, 13, 14  which target, -1 for none, its strides by trajectory, step and joint
// Formulas  with e = x - clip(x, lower, upper), or x - target, a term is the sum over h >= first and d of
//               weight * e^2, or weight * |e| for power 1, times t_h where it is timed; of dt likewise, without joints.
//           The length of the path is the sum over h >= 1 of weight_h * sqrt(sum over d of lower_d (p_h - p_{h-1})^2).
// Threads   a block a trajectory, in chunks of `steps` steps: first a thread a step (the path's lengths, what the step times get), then a
//           thread an element, four of them under way at once.
// Bytes     reads what is asked for and writes its gradient, once: 2 B H D elements for each state; references are read once more. What a
//           thread a step reads of a chunk is in the L1 cache for the elements after it.
// Shared    steps + 1 reals, then a real for each thread.
// Every sum runs in a fixed order: results are bitwise repeatable.
#include "common.cuh"

typedef Arithmetic<STORAGE>::type real;

enum { FIELDS = 16, TIME = 4, PATH = 5, TOGETHER = 4 };

// What the terms are evaluated with, for one trajectory.
struct Motion {
    const STORAGE* const state[4];
    STORAGE* const gradient[4];
    const int* terms;
    const real* constants;
    const real* dt;
    real seconds;
    INDEX b, base;
    INDEX dt_h;
    INDEX step, joint;  // strides of large arrays

    __device__ __forceinline__ real t(INDEX h) const { return dt ? dt[h * dt_h] : seconds; }
};

// Signed distance of x from an interval; zero within, NaN for NaN.
__device__ __forceinline__ real beyond(real x, real lower, real upper) {
    const real raised = x < lower ? lower : x;
    return x - (raised > upper ? upper : raised);
}

// Cost of a distance and, in slope, its derivative.
__device__ __forceinline__ real priced(real e, real weight, int power, real& slope) {
    if (power == 2) {
        slope = 2 * weight * e;
        return weight * e * e;
    }
    slope = e > 0 ? weight : e < 0 ? -weight : weight * e;
    return slope * e;
}

// The i-th of N pointers, null for -1, without an array in memory that is indexed at run time.
template <int N>
__device__ __forceinline__ const STORAGE* chosen(const STORAGE* const (&pointers)[N], int i) {
    const STORAGE* found = 0;
#pragma unroll
    for (int k = 0; k < N; ++k) found = k == i ? pointers[k] : found;
    return found;
}

// One term at one element: adds to the slope by x, gives the cost; by_t is the cost without the step's time.
__device__ __forceinline__ real term_at(const Motion& m, const int* term, const STORAGE* target, real x, INDEX h, INDEX d, real& slope,
                                        real& by_t) {
    by_t = 0;
    if (h < term[3]) return 0;
    real e;
    if (target)
        e = x - load(target[m.b * term[12] + h * term[13] + d * term[14]]);
    else {
        const INDEX place = h * term[9] + d * term[10];
        e = beyond(x, m.constants[term[7] + place], m.constants[term[8] + place]);
    }
    real own, cost = priced(e, m.constants[term[4] + h * term[5] + d * term[6]], term[1], own);
    if (term[2]) {
        const real t = m.t(h);
        by_t = cost;
        cost *= t;
        own *= t;
    }
    slope += own;
    return cost;
}

// The length of step h of the path, and one over it (zero where nothing moved).
__device__ __forceinline__ real path_step(const Motion& m, const int* term, INDEX h, int joints, real& inverse) {
    real sum = 0;
    for (int d = 0; d < joints; ++d) {
        const INDEX at = m.base + h * m.step + d * m.joint;
        const real moved = load(m.state[0][at]) - load(m.state[0][at - m.step]);
        sum += m.constants[term[7] + d * term[10]] * moved * moved;
    }
    const real length = sqrt(sum);
    inverse = sum == 0 ? real(0) : 1 / length;
    return length;
}

// What belongs to step h as a whole: the terms of dt and the path, and the gradient by t_h.
__device__ __forceinline__ real step_terms(const Motion& m, const STORAGE* const (&targets)[8], int number, INDEX h, int joints,
                                           real* by_dt, real& inverse) {
    real cost = 0, by_t = 0;
    inverse = 0;
    for (int i = 0; i < number; ++i) {
        const int* term = m.terms + i * FIELDS;
        if (term[0] == PATH) {
            if (h > 0) {
                const real weight = m.constants[term[4] + h * term[5]];
                cost += weight * path_step(m, term, h, joints, inverse);
                inverse *= weight;
            }
        } else if (term[0] == TIME) {
            real none;
            cost += term_at(m, term, 0, m.t(h), h, 0, by_t, none);
        } else if (term[2] && by_dt) {
            const STORAGE* const state = chosen(m.state, term[0]);
            const STORAGE* const target = chosen(targets, term[11]);
            for (int d = 0; d < joints; ++d) {
                real slope = 0, part;
                term_at(m, term, target, load(state[m.base + h * m.step + d * m.joint]), h, d, slope, part);
                by_t += part;
            }
        }
    }
    if (by_dt) by_dt[h] = by_t;
    return cost;
}

// What the length of the path adds to the slope at an element; inverse[0] belongs to step h.
__device__ __forceinline__ real path_slope(const Motion& m, const int* term, INDEX at, INDEX h, INDEX d, INDEX horizon, const real* inverse) {
    const real x = load(m.state[0][at]), metric = m.constants[term[7] + d * term[10]];
    real slope = 0;
    if (h > 0) slope += inverse[0] * metric * (x - load(m.state[0][at - m.step]));
    if (h + 1 < horizon) slope -= inverse[1] * metric * (load(m.state[0][at + m.step]) - x);
    return slope;
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
                      terms,
                      constants,
                      dt ? dt + b * dt_b : dt,
                      seconds,
                      b,
                      b * horizon * joints,
                      dt_h,
                      time_last ? 1 : joints,
                      time_last ? horizon : 1};
    const STORAGE* const targets[8] = {target_0, target_1, target_2, target_3, target_4, target_5, target_6, target_7};
    real* own_dt = by_dt ? by_dt + b * horizon : by_dt;
    const int threads = (int)blockDim.x;
    real total = 0;
    for (INDEX h0 = 0; h0 < horizon; h0 += steps) {
        const int n = horizon - h0 < steps ? (int)(horizon - h0) : steps;
        for (int i = threadIdx.x; i <= n && h0 + i < horizon; i += threads) {  // the step after the chunk only for its length
            real found;
            const real part = step_terms(m, targets, number, h0 + i, joints, i < n ? own_dt : (real*)0, found);
            inverse[i] = found;
            if (i < n) total += part;
        }
        __syncthreads();
        // an element e of the chunk is (slow, fast), fast along memory
        const int extent = time_last ? n : joints, count = n * joints;
        const int slow_step = threads / extent, fast_step = threads - slow_step * extent;
        int slow = (int)threadIdx.x / extent, fast = (int)threadIdx.x - slow * extent;
        for (int first = threadIdx.x; first < count; first += TOGETHER * threads) {
            INDEX at[TOGETHER], step[TOGETHER], joint[TOGETHER];
#pragma unroll
            for (int i = 0; i < TOGETHER; ++i) {
                const bool inside = first + i * threads < count;
                step[i] = !inside ? (INDEX)-1 : h0 + (time_last ? fast : slow);
                joint[i] = !inside ? 0 : time_last ? slow : fast;
                at[i] = m.base + (inside ? step[i] : h0) * m.step + joint[i] * m.joint;
                slow += slow_step;
                fast += fast_step;
                if (fast >= extent) fast -= extent, ++slow;
            }
            const int* term = terms;
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                if (!m.state[k]) continue;
                real x[TOGETHER], slope[TOGETHER];
#pragma unroll
                for (int i = 0; i < TOGETHER; ++i) x[i] = load(m.state[k][at[i]]), slope[i] = 0;
                for (; term < terms + number * FIELDS && term[0] == k; term += FIELDS) {
                    const STORAGE* const target = chosen(targets, term[11]);
#pragma unroll
                    for (int i = 0; i < TOGETHER; ++i) {
                        real by_t;
                        total += term_at(m, term, target, x[i], step[i], joint[i], slope[i], by_t);
                    }
                }
                if (k == 0 && number > 0 && terms[(number - 1) * FIELDS] == PATH) {
#pragma unroll
                    for (int i = 0; i < TOGETHER; ++i)
                        if (step[i] >= 0)
                            slope[i] += path_slope(m, terms + (number - 1) * FIELDS, at[i], step[i], joint[i], horizon,
                                                   inverse + (int)(step[i] - h0));
                }
#pragma unroll
                for (int i = 0; i < TOGETHER; ++i)
                    if (m.gradient[k] && step[i] >= 0) store(m.gradient[k][at[i]], slope[i]);
            }
        }
        __syncthreads();
    }
    sums[threadIdx.x] = total;
    __syncthreads();
    for (int left = threads; left > 1; left = (left + 1) / 2) {
        if ((int)threadIdx.x < left / 2) sums[threadIdx.x] += sums[threadIdx.x + (left + 1) / 2];
        __syncthreads();
    }
    if (threadIdx.x == 0) cost[b] = sums[0];
}
