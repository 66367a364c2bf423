// Five-point central differences: positions u to p, v, a, j, and the transpose; step_position with scheme="central".
//
// Options   STORAGE  float, double, half_t or bfloat16_t       INDEX    int, or long long where B * H * D needs it
//           OUTPUTS  of how many trajectories a thread has an element at a time, forward: 1, or 4 of large batches (element.cuh)
// Shapes    u, p, v, a, j (B, H, D), H >= 6; start parts and goal as chain.cu, null for zero (start) or for no goal; t = dt[b / group * dt_b],
//           or `seconds` where dt is null: one for each trajectory. (B, D, H) arrays are B * D trajectories of one joint, group = D.
// Formulas  X_{-k} = p0 - k t v0 + (k t)^2/2 a0 (k = 3, 2, 1), X_0 = p0, X_i = u_{i-1} up to i = H-4 (H-5 with a goal), and from
//           there to X_H the last of these, or the goal. Output h, with x_o = X_{h-1+o}:
//               p = x_0                                   v = (x_-2 - 8 x_-1 + 8 x_1 - x_2) / 12t
//               a = (-x_-2 + 16 x_-1 - 30 x_0 + 16 x_1 - x_2) / 12t^2      j = (-x_-2 + 2 x_-1 - 2 x_1 + x_2) / 2t^3
// Threads   forward has one for each element, or for four (element.cuh), adjoint of small batches one for each too. Of larger ones as chain.cu:
//           one thread a series, chunks of `steps` steps, more than 4, staged through shared memory (tile.cuh), so that each element is read
//           once. Where a chunk holds the whole horizon the threads that a block has to spare share the walk of a series, each beginning four
//           steps before its own.
// Bytes     forward reads u and writes four arrays, adjoint reads four and writes one: 5 B H D elements; what elements read again the L1 has.
// Shared    adjoint 4 * tile_batch * row elements.
// Every result depends on its own series only and is summed in a fixed order: runs are bitwise repeatable.
#include "common.cuh"
#include "element.cuh"
#include "tile.cuh"

typedef Arithmetic<STORAGE>::type real;
typedef StepTimes<real, INDEX> Times;

// The points X_{h-3} .. X_{h+1} of each trajectory where they are not five actions in a row. `last` is the last action that is used.
__device__ __forceinline__ void points_at_the_ends(const Elements<INDEX, OUTPUTS>& elements, const STORAGE* u, const STORAGE* const (&start)[3],
                                                   const STORAGE* goal, const long long* start_idx, int one_row, const real (&t)[OUTPUTS],
                                                   INDEX group, INDEX last, real (&x)[OUTPUTS][5]) {
    const INDEX h = elements.of.step;
    const INDEX begin = h - 4 < last ? h - 4 : last;
#pragma unroll
    for (int n = 0; n < OUTPUTS; ++n) {
        const STORAGE* at = u + elements.place(n, begin > 0 ? begin : 0, elements.of.horizon);
#pragma unroll
        for (int o = 0; o < 5; ++o) {
            x[n][o] = load(*at);
            const STORAGE* const next = at + elements.of.joints;
            if ((unsigned long long)(h - 4 + o) < (unsigned long long)last) at = next;
        }
    }
    if (goal && h > last) {
        const STORAGE* const parts[1] = {goal};
        real aim[OUTPUTS][1];
        start_values(elements, parts, (const long long*)0, one_row >> 3, group, aim);
#pragma unroll
        for (int n = 0; n < OUTPUTS; ++n) {
#pragma unroll
            for (int o = 0; o < 5; ++o)
                if (h - 4 + o > last) x[n][o] = aim[n][0];
        }
    }
    if (h > 3) return;
    real state[OUTPUTS][3];
    start_values(elements, start, start_idx, one_row, group, state);
#pragma unroll
    for (int n = 0; n < OUTPUTS; ++n) {
        real ago = (real)((int)h - 3) * t[n];
#pragma unroll
        for (int o = 0; o < 4; ++o, ago += t[n]) {
            const int i = (int)h - 3 + o;
            if (i <= 0) x[n][o] = state[n][0];
            if (o < 3 && i < 0) x[n][o] += ago * (state[n][1] + ago * (state[n][2] / 2));
        }
    }
}

extern "C" __global__ void __launch_bounds__(256, ELEMENT_BLOCKS<STORAGE, INDEX, OUTPUTS, 8, 4, 3>)
    central_forward(const STORAGE* u, const STORAGE* start_p, const STORAGE* start_v, const STORAGE* start_a, const STORAGE* goal,
                    const long long* start_idx, int one_row, const real* dt, real seconds, STORAGE* p, STORAGE* v, STORAGE* a, STORAGE* j,
                    INDEX batch, INDEX horizon, int joints, INDEX group, INDEX dt_b) {
    const Element<INDEX> element = element_of_thread(batch, horizon, joints);
    if (!element.exists) return;
    STORAGE* const outputs[4] = {p, v, a, j};
    const INDEX h = element.step, last = horizon - (goal ? 6 : 5);  // the last action that is used
    for (INDEX b = element.trajectory; b < batch; b += OUTPUTS * element.on) {
        const Elements<INDEX, OUTPUTS> elements(element, b);
        real t[OUTPUTS], x[OUTPUTS][5];  // X_{h-3} .. X_{h+1}
        elements.step_times(dt, seconds, group, dt_b, t);
        if (h >= 4 && h <= last) {
            elements.read(u, h - 4, horizon, x);
        } else {
            const STORAGE* const start[3] = {start_p, start_v, start_a};
            points_at_the_ends(elements, u, start, goal, start_idx, one_row, t, group, last, x);
        }
        real made[OUTPUTS][4];
#pragma unroll
        for (int n = 0; n < OUTPUTS; ++n) {
            const real rate = 1 / t[n], by_v = rate * (real(1) / 12), by_a = rate * by_v;
            const real near = x[n][3] - x[n][1], far = x[n][0] - x[n][4];
            made[n][0] = x[n][2];
            made[n][1] = (8 * near + far) * by_v;
            made[n][2] = (16 * (x[n][1] + x[n][3]) - 30 * x[n][2] - (x[n][0] + x[n][4])) * by_a;
            made[n][3] = (2 * near + far) * (-6 * rate * by_a);
        }
        elements.write(outputs, made);
    }
}

// Adds the gradients of one output to those of the five points under its stencil.
__device__ __forceinline__ void spread(real p, real v, real a, real j, real* x) {
    x[0] += v - a - j;
    x[1] += -8 * v + 16 * a + 2 * j;
    x[2] += p - 30 * a;
    x[3] += 8 * v + 16 * a - 2 * j;
    x[4] += -v - a + j;
}

// The gradients by the start parts of a series.
struct ByStart {
    real position, velocity, acceleration;

    // From that by X_{h-3}, h at most 3.
    __device__ __forceinline__ void add(int h, real t, real by_point) {
        const real ago = (real)(h - 3) * t;
        position += by_point;
        velocity += ago * by_point;
        acceleration += ago * ago / 2 * by_point;
    }

    __device__ __forceinline__ void write(INDEX series, STORAGE* p, STORAGE* v, STORAGE* a) const {
        if (p) store(p[series], position);
        if (v) store(v[series], velocity);
        if (a) store(a[series], acceleration);
    }
};

// Output h completes the gradient by X_{h-3}, an action's from h = 4 on: that by u_{h-4} leaves while step h enters and takes its place in
// shared memory. What X_{H-4} .. X_H get goes to the last action used, or to the goal.
extern "C" __global__ void __launch_bounds__(128, BLOCKS<STORAGE, INDEX>)
    central_adjoint(const STORAGE* grad_p, const STORAGE* grad_v, const STORAGE* grad_a, const STORAGE* grad_j, const real* dt,
                    real seconds, STORAGE* grad_u, STORAGE* grad_start_p, STORAGE* grad_start_v, STORAGE* grad_start_a,
                    STORAGE* grad_goal, INDEX batch, INDEX horizon, int joints, INDEX group, INDEX dt_b, int has_goal, int tile_batch,
                    int tile_joints, int steps, int row, int vector, int part) {
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    STORAGE* shared = reinterpret_cast<STORAGE*>(shared_bytes);
    const bool divided = part > 0;
    const Tile<INDEX> tile = tile_of_block(batch, horizon, joints, tile_batch, tile_joints, row, vector, segments_of(horizon + 4, part));
    const int area = tile_batch * row;
    const STORAGE* const inputs[4] = {grad_p, grad_v, grad_a, grad_j};
    STORAGE* const outputs[1] = {grad_u};

    const Times times(tile, dt, seconds, group, dt_b, 0, 0, 0);
    const real rate = times.per_second;
    const real by_v = rate * (real(1) / 12), by_a = rate * by_v, by_j = rate * rate * rate / 2;
    real x[5] = {0, 0, 0, 0, 0};  // the gradients by X_{h-3} .. X_{h+1}
    ByStart start = {};
    real held = 0;
    bool ends = false;  // whether the last step of the horizon was this thread's
    const INDEX end = horizon + 4;  // four more steps bring out the zeros of the actions that are not used
    for (INDEX h0 = 0; h0 < end; h0 += steps) {
        const int n = end - h0 < steps ? (int)(end - h0) : steps;
        const int inside = h0 >= horizon ? 0 : horizon - h0 < n ? (int)(horizon - h0) : n;
        tile_read<4>(tile, inputs, h0, 0, inside, shared, area);
        __syncthreads();
        const auto spread_at = [&](const STORAGE* at) {
            spread(load(at[0]), by_v * load(at[area]), by_a * load(at[2 * area]), by_j * load(at[3 * area]), x);
        };
        const auto shift = [&]() {
#pragma unroll
            for (int o = 0; o < 4; ++o) x[o] = x[o + 1];
            x[4] = 0;
        };
        int begin = 0, stop = n;
        if (divided) {
            part_of_walk(tile, n, part, begin, stop);
            if (begin > 0) {
                for (int k = begin - 4; k < begin; ++k) {
                    if (k < horizon) spread_at(shared + tile.place + k * tile.joints);
                    shift();
                }
            }
            __syncthreads();  // the walks overwrite what these read
        }
        if (tile.active) {
            STORAGE* at = shared + tile.place + begin * tile.joints;
            for (int k = begin; k < stop; ++k, at += tile.joints) {
                const INDEX h = h0 + k;
                real done = 0;
                if (h < horizon) {
                    spread_at(at);
                    ends = h == horizon - 1;
                    done = x[0];
                    if (h < 4) {
                        start.add((int)h, times.t, done);
                    } else if (h == horizon - 1) {
                        held = x[0] + x[1] + x[2] + x[3] + x[4];
                        done = has_goal ? real(0) : held;
                    }
                }
                store(*at, done);
                shift();
            }
        }
        __syncthreads();
        const int skip = h0 == 0 ? 4 : 0;
        tile_write<1>(tile, outputs, h0 + skip - 4, skip, n - skip, shared, area);
        __syncthreads();
    }
    if (tile.active && tile.segment == 0) start.write(tile.series, grad_start_p, grad_start_v, grad_start_a);
    if (tile.active && ends && grad_goal) store(grad_goal[tile.series], has_goal ? held : real(0));
}

// A thread for each element: u_h gets from outputs h .. h + 4, added up as above. The first five outputs also have all that the start gets, the
// last five what X_{H-4} .. X_H get.
extern "C" __global__ void __launch_bounds__(128, ADJOINT_BLOCKS<STORAGE>)
    central_adjoint_elements(const STORAGE* grad_p, const STORAGE* grad_v, const STORAGE* grad_a, const STORAGE* grad_j, const real* dt,
                             real seconds, STORAGE* grad_u, STORAGE* grad_start_p, STORAGE* grad_start_v, STORAGE* grad_start_a,
                             STORAGE* grad_goal, INDEX batch, INDEX horizon, int joints, INDEX group, INDEX dt_b, int has_goal) {
    const Element<INDEX> element = element_of_thread(batch, horizon, joints);
    if (!element.exists) return;
    const Elements<INDEX, 1> elements(element, element.trajectory);
    const INDEX h = element.step, series = element.trajectory * joints + element.joint;
    real done = 0;
    if (h <= horizon - 5) {
        const STORAGE* const inputs[4] = {grad_p, grad_v, grad_a, grad_j};
        real t[1], grad[4][1][5] = {};
        elements.step_times(dt, seconds, group, dt_b, t);
#pragma unroll
        for (int i = 0; i < 4; ++i)
            if (inputs[i]) elements.read(inputs[i], h, horizon, grad[i]);
        const real rate = 1 / t[0], by_v = rate * (real(1) / 12), by_a = rate * by_v, by_j = rate * rate * rate / 2;
        real x[9] = {};  // the gradients by X_{h-3} .. X_{h+5}
#pragma unroll
        for (int o = 0; o < 5; ++o) spread(grad[0][0][o], by_v * grad[1][0][o], by_a * grad[2][0][o], by_j * grad[3][0][o], x + o);
        done = x[4];
        if (h == 0) {
            ByStart start = {};
#pragma unroll
            for (int o = 0; o < 4; ++o) start.add(o, t[0], x[o]);
            start.write(series, grad_start_p, grad_start_v, grad_start_a);
        }
        if (h == horizon - 5) {
            const real held = x[4] + x[5] + x[6] + x[7] + x[8];
            done = has_goal ? real(0) : held;
            if (grad_goal) store(grad_goal[series], has_goal ? held : real(0));
        }
    }
    store(grad_u[elements.place(0, h, horizon)], done);
}
