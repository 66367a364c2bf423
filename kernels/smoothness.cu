// Smoothness cost of position trajectories with its gradient, in one pass: no p, v, a, j in memory.
//
// Options   STORAGE  float, double, half_t or bfloat16_t       INDEX    int, or long long where B * H * D needs it
//           LIMITS   1: with the soft penalty on limits
// Shapes    u (B, H, D), its gradient likewise; start parts and their gradients (B, D); dt[b / group * dt_b + h * dt_h] in seconds;
//           weights (3, D) of v, a, j; limits (8, D): lower and upper of p, v, a, j, infinite where there is none.
//           cost (grid y, B): the sum over a block's joints, one row for each tile of joints. Null start parts count as zeros; null
//           gradients are not written. (B, D, H) arrays are B * D trajectories of one joint, group = D; joint b % group.
// Formulas  v, a, j of p_h = u_{h-1} by backward differences (chain.cu, ORDER 0);
//           cost = sum over h and d of w_v v^2 + w_a a^2 + w_j j^2 + limit_weight * sum of squared excesses over the limits.
//           Its gradient runs through the transposed differences as soon as their three steps are known, so the gradient by u_{h-4}
//           leaves while u_h enters and takes its place in shared memory.
// Threads   as chain.cu: one thread a series, chunks of `steps` steps, more than 4, staged through shared memory (tile.cuh).
// Bytes     reads u, writes its gradient: 2 B H D elements.
// Shared    tile_batch * row elements of STORAGE, then the block's threads of real.
// Sums run in a fixed order: results are bitwise repeatable.
#include "common.cuh"
#include "tile.cuh"

typedef Arithmetic<STORAGE>::type real;

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
        const real above = x > penalty.upper[KIND] ? x - penalty.upper[KIND] : real(0);
        const real below = x < penalty.lower[KIND] ? penalty.lower[KIND] - x : real(0);
        cost += penalty.limit_weight * (above * above + below * below);
        slope += 2 * penalty.limit_weight * (above - below);
    }
    return slope;
}

// What the last three steps left open, newest first.
struct Pending {
    real slope_p[3], slope_v[2], slope_a;  // own derivatives of steps h-1, h-2, h-3
    real rate_a, rate_v, rate_p;           // total gradient over t: of j at h-1, of a at h-2, of v at h-3
    real per_second[2];                    // 1/t of steps h-1 and h-2
};

extern "C" __global__ void __launch_bounds__(128, 4)
    smoothness(const STORAGE* u, const STORAGE* start_p, const STORAGE* start_v, const STORAGE* start_a, const real* dt,
               const real* weights, const real* limits, real limit_weight, real* cost, STORAGE* grad_u, STORAGE* grad_start_p,
               STORAGE* grad_start_v, STORAGE* grad_start_a, INDEX batch, INDEX horizon, int joints, INDEX group, INDEX dt_b,
               INDEX dt_h, int tile_batch, int tile_joints, int steps, int row, int vector) {
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    STORAGE* shared = reinterpret_cast<STORAGE*>(shared_bytes);
    real* sums = reinterpret_cast<real*>(shared_bytes + (tile_batch * row * sizeof(STORAGE) + 15) / 16 * 16);
    const Tile<INDEX> tile = tile_of_block(batch, horizon, joints, tile_batch, tile_joints, row, vector);
    const bool active = (int)threadIdx.x < tile.trajectories * tile.joints;
    const int trajectory = (int)threadIdx.x / tile.joints;
    const int joint = (int)threadIdx.x - trajectory * tile.joints;
    const INDEX b = tile.first_trajectory + (active ? trajectory : 0);
    const INDEX series = b * joints + tile.first_joint + joint;
    const STORAGE* const inputs[1] = {u};
    STORAGE* const outputs[1] = {grad_u};

    Penalty penalty = {};
    if (active) {
        const INDEX all = group > 1 ? group : joints;
        const INDEX column = group > 1 ? b % group : tile.first_joint + joint;
#pragma unroll
        for (int k = 0; k < 3; ++k) penalty.weight[k] = weights[k * all + column];
        if (LIMITS) {
#pragma unroll
            for (int k = 0; k < 4; ++k) {
                penalty.lower[k] = limits[2 * k * all + column];
                penalty.upper[k] = limits[(2 * k + 1) * all + column];
            }
            penalty.limit_weight = limit_weight;
        }
    }
    const real* times = dt + b / group * dt_b;

    real state[3] = {0, 0, 0};  // p, v, a of the step before
    real control = 0, total = 0;
    Pending open = {};
    const INDEX end = horizon + 4;  // four more steps bring out the last gradients
    for (INDEX h0 = 0; h0 < end; h0 += steps) {
        const int n = end - h0 < steps ? (int)(end - h0) : steps;
        const int inside = h0 >= horizon ? 0 : horizon - h0 < n ? (int)(horizon - h0) : n;
        tile_read<1>(tile, inputs, h0, 0, inside, shared, 0);
        __syncthreads();
        if (active) {
            STORAGE* at = shared + trajectory * tile.row + joint;
            real part = 0;
            for (int k = 0; k < n; ++k, at += tile.joints) {
                const INDEX h = h0 + k;
                real per_second = 0, slope_p = 0, slope_v = 0, slope_a = 0, rate_j = 0;
                if (k < inside) {
                    const real following = load(*at);
                    real now[4] = {control, 0, 0, 0};
                    if (h == 0) {
                        now[0] = load_or_zero(start_p, series);
                        now[1] = load_or_zero(start_v, series);
                        now[2] = load_or_zero(start_a, series);
                    } else {
                        per_second = 1 / times[h * dt_h];
#pragma unroll
                        for (int i = 0; i < 3; ++i) now[i + 1] = (now[i] - state[i]) * per_second;
                    }
                    slope_p = penalise<0>(penalty, now[0], part);
                    slope_v = penalise<1>(penalty, now[1], part);
                    slope_a = penalise<2>(penalty, now[2], part);
                    const real slope_j = penalise<3>(penalty, now[3], part);
                    if (h > 0) rate_j = slope_j * per_second;
#pragma unroll
                    for (int i = 0; i < 3; ++i) state[i] = now[i];
                    control = following;
                }
                // a at h-1, v at h-2 and p at h-3 are settled by the jerk of step h
                const real bar_a = open.slope_a + open.rate_a - rate_j;
                const real rate_a = h > 1 ? bar_a * open.per_second[0] : real(0);
                const real bar_v = open.slope_v[1] + open.rate_v - rate_a;
                const real rate_v = h > 2 ? bar_v * open.per_second[1] : real(0);
                const real bar_p = open.slope_p[2] + open.rate_p - rate_v;
                if (h == 1 && grad_start_a) store(grad_start_a[series], bar_a);
                if (h == 2 && grad_start_v) store(grad_start_v[series], bar_v);
                if (h == 3 && grad_start_p) store(grad_start_p[series], bar_p);
                store(*at, h < end - 1 ? bar_p : real(0));  // the gradient by u_{h-4}; the last action drives nothing
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
            }
            total += part;
        }
        __syncthreads();
        const int skip = h0 == 0 ? 4 : 0;
        if (grad_u && n > skip) tile_write<1>(tile, outputs, h0 + skip - 4, skip, n - skip, shared, 0);
        __syncthreads();
    }
    sums[threadIdx.x] = active ? total : real(0);
    __syncthreads();
    if ((int)threadIdx.x < tile.trajectories) {
        real sum = 0;
        for (int d = 0; d < tile.joints; ++d) sum += sums[threadIdx.x * tile.joints + d];
        cost[blockIdx.y * batch + tile.first_trajectory + threadIdx.x] = sum;
    }
}
