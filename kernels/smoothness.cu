// Smoothness cost of position trajectories with its gradient, in one pass: no p, v, a, j in memory; smoothness_cost.
//
// Options   STORAGE  float, double, half_t or bfloat16_t       INDEX    int, or long long where B * H * D needs it
//           LIMITS   1: with the soft penalty on limits         TIMED    1: with the gradient by dt
// Shapes    u (B, H, D), its gradient likewise; start parts as chain.cu, their gradients (B, D); weights (3, D) of v, a, j, or weight_v and so on
//           for all joints where it is null; limits (8, D): lower and upper of p, v, a, j, infinite where there is none;
//           dt[b / group * dt_b + h * dt_h], or `seconds` where dt is null.
//           cost (grid y, B) and grad_dt (grid y, B, H) are summed over a block's joints: one row for each tile of joints. Null start
//           parts count as zeros; null gradients are not written. (B, D, H) arrays are B * D trajectories of one joint, group = D;
//           their joint is b % group.
// Formulas  v, a, j of p_h = u_{h-1} by backward differences (chain.cu, ORDER 0);
//           cost = sum over h and d of w_v v^2 + w_a a^2 + w_j j^2 + limit_weight * sum of squared excesses over the limits.
//           Its gradient runs through the transposed differences as soon as their three steps are known, so the gradient by u_{h-4}
//           leaves while u_h enters and takes its place in shared memory. A bar is the total gradient, and that by t_h is
//           -(j_h jbar_h + a_h abar_h + v_h vbar_h) / t_h, known at step h + 2.
// Threads   as chain.cu: one thread a series, chunks of `steps` steps, more than 4, staged through shared memory (tile.cuh). Where a chunk
//           holds the whole horizon the threads that a block has to spare share the walk of a series, `part` steps each, at least 8: each
//           begins six steps before its own, after which all that is open is known. Their costs are added up in order.
// Bytes     reads u, writes its gradient: 2 B H D elements; TIMED writes B H of real, one at a time: 1 / 2D of that.
// Shared    tile_batch * row elements of STORAGE, as many of real when TIMED, and 2 * tile_batch * steps reals where dt differs from step to
//           step; at the end a real for each thread, in the place of these.
// Sums run in a fixed order, that of the cost by `part`: results are bitwise repeatable.
#include "common.cuh"
#include "tile.cuh"

typedef Arithmetic<STORAGE>::type real;
typedef StepTimes<real, INDEX> Times;

// The weights and limits of one joint.
struct Penalty {
    real weight[3];
    real lower[4];
    real upper[4];
    real limit_weight;
};

// Adds the cost of one value (0 p, 1 v, 2 a, 3 j) and gives its derivative.
template <int KIND>
__device__ __forceinline__ real penalise(const Penalty& penalty, real x, real& cost) {
    real slope = 0;
    if (KIND > 0) {
        const real weight = penalty.weight[KIND > 0 ? KIND - 1 : 0];
        cost += weight * x * x;
        slope = 2 * weight * x;
    }
    if (LIMITS) {
        const real above = x <= penalty.upper[KIND] ? real(0) : x - penalty.upper[KIND];  // NaN of NaN
        const real below = x >= penalty.lower[KIND] ? real(0) : penalty.lower[KIND] - x;
        cost += penalty.limit_weight * (above * above + below * below);
        slope += 2 * penalty.limit_weight * (above - below);
    }
    return slope;
}

__device__ __forceinline__ real sum_over_joints(const real* first, int joints) {
    real sum = 0;
    for (int d = 0; d < joints; ++d) sum += first[d];
    return sum;
}

// What the last steps left open, newest first.
struct Pending {
    real slope_p[3], slope_v[2], slope_a;  // own derivatives of steps h-1, h-2, h-3
    real rate_a, rate_v, rate_p;           // total gradient over t: of j at h-1, of a at h-2, of v at h-3
    real per_second[2];                    // 1/t of steps h-1 and h-2
    real v;                                // v of step h-2
    real by_t[2];                          // what is known of the gradients by t of steps h-1 and h-2
};

// Puts in what differs from joint to joint: rows of ``all`` joints.
__device__ __forceinline__ void specialise(Penalty& penalty, const real* weights, const real* limits, INDEX all, INDEX joint) {
    if (weights) {
#pragma unroll
        for (int k = 0; k < 3; ++k) penalty.weight[k] = weights[k * all + joint];
    }
    if (LIMITS) {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            penalty.lower[k] = limits[2 * k * all + joint];
            penalty.upper[k] = limits[(2 * k + 1) * all + joint];
        }
    }
}

// Whether there are registers for a loop over the steps to which nothing special happens.
constexpr bool STEADY = sizeof(STORAGE) < 8 || !LIMITS || !TIMED;

// How many blocks share the registers of a multiprocessor: those of doubles with 64-bit indices would be spilled by four.
extern "C" __global__ void __launch_bounds__(128, sizeof(STORAGE) == 8 && sizeof(INDEX) == 8 ? 3 : 4)
    smoothness(const STORAGE* u, const STORAGE* start_p, const STORAGE* start_v, const STORAGE* start_a,
               const long long* start_idx, int one_row, const real* dt, real seconds, const real* weights, real weight_v, real weight_a,
               real weight_j, const real* limits, real limit_weight, real* cost, STORAGE* grad_u, STORAGE* grad_start_p,
               STORAGE* grad_start_v, STORAGE* grad_start_a, real* grad_dt, INDEX batch, INDEX horizon, int joints, INDEX group,
               INDEX dt_b, INDEX dt_h, int tile_batch, int tile_joints, int steps, int row, int vector, int part) {
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    STORAGE* shared = reinterpret_cast<STORAGE*>(shared_bytes);
    const bool divided = part > 0;
    const Tile<INDEX> tile = tile_of_block(batch, horizon, joints, tile_batch, tile_joints, row, vector, segments_of(horizon + 4, part));
    real* by_t = reinterpret_cast<real*>(shared_bytes + tile_batch * row * sizeof(STORAGE));  // rows hold whole 16 bytes
    const STORAGE* const inputs[1] = {u};
    STORAGE* const outputs[1] = {grad_u};
    Penalty penalty = {{weight_v, weight_a, weight_j}, {}, {}, limit_weight};
    specialise(penalty, weights, limits, group > 1 ? group : joints, group > 1 ? tile.trajectory % group : tile.series % joints);
    void* const room = shared_bytes + tile_batch * row * (sizeof(STORAGE) + (TIMED ? sizeof(real) : 0));  // of the step times
    Times times(tile, dt, seconds, group, dt_b, dt_h, room, steps);
    const real start[4] = {start_value(tile, start_p, start_idx, one_row, 0, group),
                           start_value(tile, start_v, start_idx, one_row, 1, group),
                           start_value(tile, start_a, start_idx, one_row, 2, group), 0};

    real state[3] = {0, 0, 0};  // p, v, a of the step before
    real control = 0, total = 0;
    Pending open = {};
    const INDEX end = horizon + 4;  // four more steps bring out the last gradients
    for (INDEX h0 = 0; h0 < end; h0 += steps) {
        const int n = end - h0 < steps ? (int)(end - h0) : steps;
        const int inside = h0 >= horizon ? 0 : horizon - h0 < n ? (int)(horizon - h0) : n;
        tile_read<1>(tile, inputs, h0, 0, inside, shared, 0);
        times.stage(tile, group, dt_b, room, steps, h0, inside);
        __syncthreads();
        real chunk_cost = 0;
        int begin = 0, stop = n;
        if (divided) part_of_walk(tile, n, part, begin, stop);
        // Step k, whose place is `at`; `own` says whether what it settles leaves from here. A `steady` one is this thread's own, within the
        // horizon and not among the first four: nothing special happens to it, and moving on takes nothing where the loop is unrolled.
        const auto advance = [&](int k, int at, bool own, bool steady) {
            const INDEX h = h0 + k;
            const real v_before = state[1], a_before = state[2];
            real per_second = 0, slope_p = 0, slope_v = 0, slope_a = 0, rate_j = 0, jerk = 0;
            if (steady || k < inside) {
                const real following = load(shared[at]);
                real now[4] = {control, 0, 0, 0};
                if (!steady && h == 0) {
#pragma unroll
                    for (int i = 0; i < 3; ++i) now[i] = start[i];
                } else {
                    times.go_to(k);
                    per_second = times.per_second;
#pragma unroll
                    for (int i = 0; i < 3; ++i) now[i + 1] = (now[i] - state[i]) * per_second;
                }
                slope_p = penalise<0>(penalty, now[0], chunk_cost);
                slope_v = penalise<1>(penalty, now[1], chunk_cost);
                slope_a = penalise<2>(penalty, now[2], chunk_cost);
                rate_j = penalise<3>(penalty, now[3], chunk_cost) * per_second;
                jerk = now[3];
#pragma unroll
                for (int i = 0; i < 3; ++i) state[i] = now[i];
                control = following;
            }
            // a at h-1, v at h-2 and p at h-3 are settled by the jerk of step h
            const real bar_a = open.slope_a + open.rate_a - rate_j;
            const real rate_a = bar_a * open.per_second[0];
            const real bar_v = open.slope_v[1] + open.rate_v - rate_a;
            const real rate_v = bar_v * open.per_second[1];
            const real bar_p = open.slope_p[2] + open.rate_p - rate_v;
            if (!steady && own && h < 4) {  // the gradients by the start leave at steps 1 to 3
                if (h == 1 && grad_start_a) store(grad_start_a[tile.series], bar_a);
                if (h == 2 && grad_start_v) store(grad_start_v[tile.series], bar_v);
                if (h == 3 && grad_start_p) store(grad_start_p[tile.series], bar_p);
            }
            if (own) store(shared[at], steady || h < end - 1 ? bar_p : real(0));  // that by u_{h-4}; the last action drives nothing
            if (TIMED) {
                if (own) by_t[at] = open.by_t[1] - rate_v * open.v;  // that by t_{h-2}
                open.by_t[1] = open.by_t[0] - rate_a * a_before;
                open.by_t[0] = -rate_j * jerk;
                open.v = v_before;
            }
            open.slope_p[2] = open.slope_p[1];
            open.slope_p[1] = open.slope_p[0];
            open.slope_p[0] = slope_p;
            open.slope_v[1] = open.slope_v[0];
            open.slope_v[0] = slope_v;
            open.slope_a = slope_a;
            open.rate_a = rate_j;
            open.rate_v = rate_a;
            open.rate_p = rate_v;
            open.per_second[1] = open.per_second[0];
            open.per_second[0] = per_second;
        };
        for (int own = divided ? 0 : 1; own < 2; ++own) {  // first the steps before its own, for what they hand on
            int k = own ? begin : begin > 0 ? begin - 6 : 0, at = tile.place + k * tile.joints;
            const int last = !tile.active ? 0 : own ? stop : begin;
            if (!own && begin > 0) control = load(shared[at - tile.joints]);
            while (k < last) {
                if (STEADY && own && h0 + k >= 4) {
#pragma unroll (sizeof(STORAGE) == 8 ? 2 : 4)
                    for (const int before = last < inside ? last : inside; k < before; ++k, at += tile.joints) advance(k, at, true, true);
                    if (k == last) break;
                }
                advance(k, at, own, false);
                ++k;
                at += tile.joints;
            }
            if (own) break;
            chunk_cost = 0;
            __syncthreads();  // the walks overwrite what these read
        }
        total += chunk_cost;
        __syncthreads();
        const int skip = h0 == 0 ? 4 : 0;
        if (grad_u && n > skip) tile_write<1>(tile, outputs, h0 + skip - 4, skip, n - skip, shared, 0);
        if (TIMED) {
            for_each_item(tile.trajectories, n, [&](int trajectory, int k) {
                const INDEX h = h0 + k - 2;
                if (h < 0 || h >= horizon) return;
                const INDEX b = (INDEX)blockIdx.y * batch + tile.first_trajectory + trajectory;
                const real* const parts = by_t + trajectory * tile.row + tile.lead(trajectory) + k * tile.joints;
                grad_dt[b * horizon + h] = h ? sum_over_joints(parts, tile.joints) : real(0);  // the time of step 0 is not used
            });
        }
        __syncthreads();
    }
    real* sums = reinterpret_cast<real*>(shared_bytes);
    sums[threadIdx.x] = total;
    __syncthreads();
    if ((int)threadIdx.x < tile.trajectories) {
        const int series = tile.trajectories * tile.joints;
        real sum = 0;
        for (int first = threadIdx.x * tile.joints; first < series * tile.segments; first += series)
            sum += sum_over_joints(sums + first, tile.joints);
        cost[blockIdx.y * batch + tile.first_trajectory + threadIdx.x] = sum;
    }
}
