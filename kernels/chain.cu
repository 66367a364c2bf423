// The chain position - velocity - acceleration - jerk: integration of a control and its transpose.
//
// Options   STORAGE  float, double, half_t or bfloat16_t       INDEX    int, or long long where B * H * D needs it
//           ORDER    which one is the control: 0 position (step_position), 1 velocity (step_velocity),
//                    2 acceleration (step_acceleration), 3 jerk (step_jerk)
//           EXACT    1: hold the control constant over a step (orders 2 and 3); 0: backward differences and Euler steps
//           SOURCES  1: with the three source arrays, which the derivative by dt needs
//           AHEAD    1: forward copies the control of a chunk while it walks the one before (orders above 0, several chunks, elements of
//                    four bytes or more, without SOURCES and times of each step); 0: it copies what it then waits for, and so does the adjoint
//           OUTPUTS  of how many trajectories a thread has an element at a time: 1 or 4 forward with ORDER 0 (element.cuh), else 1
// Shapes    u, p, v, a, j and the sources (B, H, D); start parts (B, D), or (S, D) with start_idx (B,), or one row where `one_row` says
//           so; dt[b / group * dt_b + h * dt_h] in seconds, or `seconds` for all where dt is null. Any other array that is null counts as
//           zeros when read and is not written; forward with ORDER 0 writes all four. (B, D, H) arrays are B * D trajectories of one
//           joint, group = D.
// Formulas  for h >= 1, t = dt_h, control c_h = u_{h-1}, sources r, s, q:
//               p_h = p_{h-1} + t v_h + r_h     v_h = v_{h-1} + t a_h + s_h     a_h = a_{h-1} + t j_h + q_h
//           EXACT: the Taylor sums with the states of step h-1 and the control of step h. Step 0 is the start, j_0 = 0.
//           Forward with ORDER 0 sums nothing: it has a thread for each element, or for four (element.cuh), and takes no tile; nor does its
//           adjoint of small batches, with a thread for each.
//           Where a chunk holds the whole horizon the threads that a block has to spare share the walk of a series, `part` steps each: each
//           begins up to one step before its own (four in the adjoint), after which all that the differences carry is known. States that
//           are summed (none for position control) need a walk more: each thread's own part from zero, then the parts before it, in order.
// Threads   a block has `tile_batch` trajectories (grid x) and `tile_joints` joints (grid y), one thread for each series; it walks
//           chunks of `steps` steps, staged through shared memory 16 bytes at a time where aligned (tile.cuh), with the state carried
//           in registers.
// Bytes     forward reads u and writes p, v, a, j; adjoint reads four and writes one: 5 B H D elements. SOURCES adds three.
// Shared    4 * tile_batch * row elements, 5 forward with AHEAD; 2 * tile_batch * steps reals where dt differs from step to step; 0, 1, 3 or
//           5 (by ORDER) reals for each thread where threads share a walk.
// Every result depends on its own series only and is summed in a fixed order, which `part` decides: runs are bitwise repeatable.
#include "common.cuh"
#include "element.cuh"
#include "tile.cuh"

typedef Arithmetic<STORAGE>::type real;
typedef StepTimes<real, INDEX> Times;

// State after a step of t seconds, from the state before it and the sources; next[ORDER] holds the control.
__device__ __forceinline__ void chain_step(const real (&before)[4], const real (&source)[3], real t, real per_second, real (&next)[4]) {
#pragma unroll
    for (int i = ORDER; i < 3; ++i) next[i + 1] = (next[i] - before[i] - source[i]) * per_second;
#pragma unroll
    for (int i = ORDER - 1; i >= 0; --i) {
        real growth = next[EXACT ? ORDER : i + 1] * (EXACT ? t * (real(1) / (ORDER - i)) : t);
        if (EXACT) {
#pragma unroll
            for (int k = ORDER - 1; k > i; --k) growth = (growth + before[k]) * (t * (real(1) / (k - i)));
        }
        next[i] = before[i] + growth + source[i];
    }
}

// Threads that share the walk of a series first walk their parts with zeros before them, then add up what the parts before theirs made. A
// part turns the summed states x_0 .. x_{ORDER-1} into what it makes of zeros plus, of the state that drives x_i, `span` times it, and of the
// one that drives that, `square` times.
struct Growth {
    real span, square;

    __device__ __forceinline__ void go_on(real t) {
        span += t;
        square += t * span;
    }

    // In shared memory, for the block's other threads.
    __device__ __forceinline__ void tell(const real (&made)[4], real* room) const {
#pragma unroll
        for (int i = 0; i < ORDER; ++i) room[i * blockDim.x] = made[i];
        if (ORDER > 1) room[ORDER * blockDim.x] = span;
        if (ORDER > 2) room[(ORDER + 1) * blockDim.x] = EXACT ? span * span / 2 : square;
    }
};

// The summed states after a part, from those before it and what a thread told of it. ON: where the state that drives one is, 1 above it,
// or -1 below it in the adjoint.
template <int ON>
__device__ __forceinline__ void grow(real (&x)[4], const real* told) {
    const real span = ORDER > 1 ? told[ORDER * blockDim.x] : real(0), square = ORDER > 2 ? told[(ORDER + 1) * blockDim.x] : real(0);
#pragma unroll
    for (int n = 0; n < ORDER; ++n) {
        const int i = ON > 0 ? n : ORDER - 1 - n;
        real made = told[i * blockDim.x];
        if (i + ON >= 0 && i + ON < ORDER) made += span * x[i + ON];
        if (i + 2 * ON >= 0 && i + 2 * ON < ORDER) made += square * x[i + 2 * ON];
        x[i] += made;
    }
}

// Where source i, or its gradient, is staged: the three areas that the control does not use.
__device__ __forceinline__ constexpr int source_area(int i) { return i < ORDER ? i : i + 1; }

// Where state i is staged forward, and the control, which it overwrites. With AHEAD that is at one end of five areas, the next chunk's at the other.
__device__ __forceinline__ constexpr int state_area(int i) { return !AHEAD || i > ORDER ? i : i == ORDER ? 0 : i + 1; }

// Position control: v, a, j of a step are differences over the three steps before it, so each element has a thread and none waits for another.
__device__ __forceinline__ void differences_of(const Elements<INDEX, OUTPUTS>& elements, const STORAGE* u, const STORAGE* const (&parts)[3],
                                               const long long* start_idx, int one_row, const STORAGE* const (&sources)[3], const real* dt,
                                               real seconds, STORAGE* const (&outputs)[4], INDEX group, INDEX dt_b, INDEX dt_h) {
    const INDEX h = elements.of.step;
    real state[OUTPUTS][4], control[OUTPUTS][4], rate[OUTPUTS][3];  // these of steps h, h - 1, h - 2
    const real one_rate = 1 / seconds;
#pragma unroll
    for (int n = 0; n < OUTPUTS; ++n) {
#pragma unroll
        for (int ago = 0; ago < 3; ++ago) rate[n][ago] = one_rate;
    }
    if (dt) {
#pragma unroll
        for (int n = 0; n < OUTPUTS; ++n) {
            const real* const times = dt + elements.trajectory[n] / group * dt_b;
#pragma unroll
            for (int ago = 0; ago < 3; ++ago)
                if (dt_h == 0 || h > ago) rate[n][ago] = 1 / times[(h - ago) * dt_h];
        }
    }
    const auto advance = [&](int n, int ago) {  // to step h - ago
        real source[3] = {0, 0, 0}, next[4] = {control[n][3 - ago], 0, 0, 0};
        if (SOURCES) {
#pragma unroll
            for (int i = 0; i < 3; ++i)
                if (sources[i]) source[i] = load(sources[i][elements.place(n, h - ago, elements.of.horizon)]);
        }
        chain_step(state[n], source, 0, rate[n][ago], next);
#pragma unroll
        for (int i = 0; i < 4; ++i) state[n][i] = next[i];
    };
    if (h > 3) {  // three steps on nothing is left of the zeros
        elements.read(u, h - 4, elements.of.horizon, control);
#pragma unroll
        for (int n = 0; n < OUTPUTS; ++n) {
            state[n][0] = control[n][0];
            state[n][1] = state[n][2] = state[n][3] = 0;
#pragma unroll
            for (int ago = 2; ago >= 0; --ago) advance(n, ago);
        }
    } else {
        real start[OUTPUTS][3];
        start_values(elements, parts, start_idx, one_row, group, start);
#pragma unroll
        for (int n = 0; n < OUTPUTS; ++n) {
            const STORAGE* at = u + elements.place(n, h - 3, elements.of.horizon);
#pragma unroll
            for (int ago = 2; ago >= 0; --ago, at += elements.of.joints) control[n][3 - ago] = h > ago ? load(*at) : real(0);
        }
#pragma unroll
        for (int n = 0; n < OUTPUTS; ++n) {
#pragma unroll
            for (int i = 0; i < 3; ++i) state[n][i] = start[n][i];
            state[n][3] = 0;
#pragma unroll
            for (int ago = 2; ago >= 0; --ago)
                if (h > ago) advance(n, ago);
        }
    }
    elements.write(outputs, state);
}

extern "C" __global__ void __launch_bounds__(ORDER == 0 ? 256 : 128,
                                             ORDER > 0 ? BLOCKS<STORAGE, INDEX, SOURCES>
                                                       : ELEMENT_BLOCKS<STORAGE, INDEX, OUTPUTS, SOURCES ? 6 : 8, 4, SOURCES ? 3 : 4>)
    chain_forward(const STORAGE* u, const STORAGE* start_p, const STORAGE* start_v, const STORAGE* start_a, const long long* start_idx,
                  int one_row, const STORAGE* source_p, const STORAGE* source_v, const STORAGE* source_a, const real* dt, real seconds, STORAGE* p, STORAGE* v, STORAGE* a,
                  STORAGE* j, INDEX batch, INDEX horizon, int joints, INDEX group, INDEX dt_b, INDEX dt_h, int tile_batch,
                  int tile_joints, int steps, int row, int vector, int part) {
    if (ORDER == 0) {
        STORAGE* const outputs[4] = {p, v, a, j};
        const Element<INDEX> element = element_of_thread(batch, horizon, joints);
        const STORAGE* const parts[3] = {start_p, start_v, start_a};
        const STORAGE* const sources[3] = {source_p, source_v, source_a};
        if (!element.exists) return;
        for (INDEX b = element.trajectory; b < batch; b += OUTPUTS * element.on)
            differences_of(Elements<INDEX, OUTPUTS>(element, b), u, parts, start_idx, one_row, sources, dt, seconds, outputs, group, dt_b, dt_h);
        return;
    }
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    STORAGE* shared = reinterpret_cast<STORAGE*>(shared_bytes);
    const bool divided = !AHEAD && part > 0;
    const Tile<INDEX> tile = tile_of_block(batch, horizon, joints, tile_batch, tile_joints, row, vector, segments_of(horizon, part));
    int area = tile_batch * row;
    STORAGE* const room = shared + (AHEAD ? 5 : 4) * area;  // of the step times
    Times times(tile, dt, seconds, group, dt_b, dt_h, room, steps);
    real* const grown = (real*)room + (times.stride ? 2 * tile_batch * steps : 0) + threadIdx.x;  // where this thread says how states grow

    const STORAGE* inputs[4] = {0, 0, 0, 0};
    inputs[ORDER] = u;
    if (SOURCES) {
        inputs[source_area(0)] = source_p;
        inputs[source_area(1)] = source_v;
        inputs[source_area(2)] = source_a;
    }
    const STORAGE* const control_only[1] = {u};
    STORAGE* outputs[4];
    outputs[state_area(0)] = p;
    outputs[state_area(1)] = v;
    outputs[state_area(2)] = a;
    outputs[state_area(3)] = j;

    const real start[4] = {start_value(tile, start_p, start_idx, one_row, 0, group), start_value(tile, start_v, start_idx, one_row, 1, group),
                           start_value(tile, start_a, start_idx, one_row, 2, group), 0};
    real state[4] = {start[0], start[1], start[2], 0};
    real control = 0;
    for (INDEX h0 = 0; h0 < horizon; h0 += steps) {
        const int n = horizon - h0 < steps ? (int)(horizon - h0) : steps;
        if (SOURCES)
            tile_read<4>(tile, inputs, h0, 0, n, shared, area);
        else if (!AHEAD || h0 == 0)
            tile_read<1>(tile, control_only, h0, 0, n, shared + state_area(ORDER) * area, area);
        times.stage(tile, group, dt_b, room, steps, h0, n);
        __syncthreads();
        const INDEX left = horizon - h0 - n;
        if (AHEAD && left > 0) tile_begin_read<1>(tile, control_only, h0 + n, 0, left < steps ? (int)left : steps, shared + 4 * area, area);
        // on to step k of the chunk, whose place is `at`
        const auto advance = [&](const STORAGE* at, int k) {
            real source[3] = {0, 0, 0}, next[4] = {0, 0, 0, 0};
            if (SOURCES) {
#pragma unroll
                for (int i = 0; i < 3; ++i) source[i] = load(at[source_area(i) * area]);
            }
            times.go_to(k);
            next[ORDER] = control;
            chain_step(state, source, times.t, times.per_second, next);
#pragma unroll
            for (int i = 0; i < 4; ++i) state[i] = next[i];
        };
        int begin = 0, stop = n;
        if (divided) {
            part_of_walk(tile, n, part, begin, stop);
            if (tile.active) {
                Growth growth = {};
#pragma unroll
                for (int i = 0; i < ORDER; ++i) state[i] = 0;
                const STORAGE* at = shared + tile.place + begin * tile.joints;
                control = begin > 0 ? load(at[state_area(ORDER) * area - tile.joints]) : real(0);
                for (int k = begin; k < stop; ++k, at += tile.joints) {
                    const real following = load(at[state_area(ORDER) * area]);
                    if (k > 0) {
                        advance(at, k);
                        growth.go_on(times.t);
                    }
                    control = following;
                }
                growth.tell(state, grown);
            }
#pragma unroll
            for (int i = 0; i < 4; ++i) state[i] = start[i];
            control = 0;
            if (begin > 0) {
                const int ago = ORDER < 2 ? 1 : 0;  // how many steps the differences reach back
                const STORAGE* at = shared + tile.place + (begin - ago - 2) * tile.joints;
                state[ORDER] = load(at[state_area(ORDER) * area]);
                control = load(at[state_area(ORDER) * area + tile.joints]);
                at += 2 * tile.joints;
                for (int k = begin - ago; k < begin; ++k, at += tile.joints) {
                    const real following = load(at[state_area(ORDER) * area]);
                    advance(at, k);
                    control = following;
                }
#pragma unroll
                for (int i = 0; i < ORDER; ++i) state[i] = start[i];
            }
            __syncthreads();  // the walks overwrite what these read
            const int series = tile.trajectories * tile.joints;
            for (int s = tile.segment; s > 0; --s) grow<1>(state, grown - s * series);
        }
        if (tile.active) {
            STORAGE* at = shared + tile.place + begin * tile.joints;
#pragma unroll 4
            for (int k = begin; k < stop; ++k, at += tile.joints) {
                const real following = load(at[state_area(ORDER) * area]);
                if (h0 + k > 0) advance(at, k);
#pragma unroll
                for (int i = 0; i < 4; ++i) store(at[state_area(i) * area], state[i]);
                control = following;
            }
        }
        __syncthreads();
        tile_write<4>(tile, outputs, h0, 0, n, shared, area);
        if (AHEAD) {  // the next control is at the other end: areas are counted from there
            await_copies();
            shared += 4 * area;
            area = -area;
        }
        __syncthreads();
    }
}

// What one step hands to the one before it: total gradients of the states, the differenced ones over their t, and that t.
struct Carried {
    real bar[4];
    real rate[4];
    real t;
};

// t b_last + t^2/2 b_{last-1} + ... over the totals of the states below `upto`; without EXACT only the first term.
__device__ __forceinline__ real driven(const real (&bar)[4], int upto, real t) {
    if (!EXACT) return t * bar[upto - 1];
    real sum = bar[0] * (t * (real(1) / upto));
#pragma unroll
    for (int k = 1; k < upto; ++k) sum = (sum + bar[k]) * (t * (real(1) / (upto - k)));
    return sum;
}

// Total gradients at one step from its own and from what the step after it handed over. `first` says that it is step 0.
__device__ __forceinline__ void chain_step_adjoint(const real (&grad)[4], const Carried& after, bool first, real seconds, real rate,
                                                   Carried& now) {
    const real t = now.t = first ? real(0) : seconds;
    const real per_second = first ? real(0) : rate;
#pragma unroll
    for (int i = 0; i < ORDER; ++i) {
        now.bar[i] = grad[i] + after.bar[i];
        if (i > 0) {
            if (EXACT)
                now.bar[i] += driven(after.bar, i, after.t);
            else if (!first)
                now.bar[i] += driven(now.bar, i, t);
        }
    }
#pragma unroll
    for (int i = 3; i >= ORDER; --i) {
        real bar = i == 3 && first ? real(0) : grad[i];
        if (i == ORDER && i > 0 && !first) bar += driven(now.bar, i, t);
        if (i < 3) bar += now.rate[i + 1] - after.rate[i + 1];
        now.bar[i] = bar;
        now.rate[i] = first ? real(0) : bar * per_second;
    }
}

extern "C" __global__ void __launch_bounds__(128, BLOCKS<STORAGE, INDEX, SOURCES>)
    chain_adjoint(const STORAGE* grad_p, const STORAGE* grad_v, const STORAGE* grad_a, const STORAGE* grad_j, const real* dt,
                  real seconds, STORAGE* grad_u, STORAGE* grad_start_p, STORAGE* grad_start_v, STORAGE* grad_start_a,
                  STORAGE* grad_source_p, STORAGE* grad_source_v, STORAGE* grad_source_a, INDEX batch, INDEX horizon, int joints,
                  INDEX group, INDEX dt_b, INDEX dt_h, int tile_batch, int tile_joints, int steps, int row, int vector, int part) {
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    STORAGE* shared = reinterpret_cast<STORAGE*>(shared_bytes);
    const bool divided = part > 0;
    const Tile<INDEX> tile = tile_of_block(batch, horizon, joints, tile_batch, tile_joints, row, vector, segments_of(horizon, part));
    const int area = tile_batch * row;
    STORAGE* const room = shared + 4 * area;  // of the step times
    Times times(tile, dt, seconds, group, dt_b, dt_h, room, steps);
    real* const grown = (real*)room + (times.stride ? 2 * tile_batch * steps : 0) + threadIdx.x;  // where this thread says how states grow

    const STORAGE* const inputs[4] = {grad_p, grad_v, grad_a, grad_j};
    STORAGE* outputs[4] = {0, 0, 0, 0};
    outputs[ORDER] = grad_u;
    outputs[source_area(0)] = grad_source_p;
    outputs[source_area(1)] = grad_source_v;
    outputs[source_area(2)] = grad_source_a;
    STORAGE* const control_only[1] = {grad_u};

    Carried after = {{0, 0, 0, 0}, {0, 0, 0, 0}, 0};
    for (INDEX h0 = (horizon - 1) / steps * steps; h0 >= 0; h0 -= steps) {
        const int n = horizon - h0 < steps ? (int)(horizon - h0) : steps;
        tile_read<4>(tile, inputs, h0, 0, n, shared, area);
        times.stage(tile, group, dt_b, room, steps, h0, n);
        __syncthreads();
        // the totals at step k of the chunk
        const auto totals = [&](int k, bool first) {
            const STORAGE* at = shared + tile.place + k * tile.joints;
            real grad[4];
#pragma unroll
            for (int i = 0; i < 4; ++i) grad[i] = load(at[i * area]);
            Carried now = {{0, 0, 0, 0}, {0, 0, 0, 0}, 0};
            times.go_to(k);
            chain_step_adjoint(grad, after, first, times.t, times.per_second, now);
            return now;
        };
        int begin = 0, stop = n;
        if (divided) {
            part_of_walk(tile, n, part, begin, stop);
            if (ORDER > 0) {  // the states that are summed lie a step later than the walks: what step `stop` hands over is computed from them
                if (tile.active) {
                    Growth growth = {};
                    int k = stop < n ? stop : n - 1;
                    if (EXACT && k + 1 < n) {
                        times.go_to(k + 1);
                        after.t = times.t;
                    }
                    for (; k > begin; --k) {
                        const Carried now = totals(k, false);
                        growth.go_on(EXACT ? after.t : now.t);
                        after = now;
                    }
                    growth.tell(after.bar, grown);
                }
                after = Carried();
                __syncthreads();
            }
            if (stop < n && tile.active) {
                const int reach = ORDER < 2 ? 3 - ORDER : 1;  // how many steps after `stop` count in what it hands over
                for (int k = stop + reach < n ? stop + reach : n - 1; k > stop; --k) after = totals(k, false);
                if (ORDER > 0) {
                    const int series = tile.trajectories * tile.joints;
#pragma unroll
                    for (int i = 0; i < ORDER; ++i) after.bar[i] = 0;
                    for (int s = tile.segments - 1 - tile.segment; s > 0; --s) grow<-1>(after.bar, grown + s * series);
                }
                after = totals(stop, false);
            }
            __syncthreads();  // the walks overwrite what these read
        }
        if (tile.active) {
            STORAGE* at = shared + tile.place + (stop - 1) * tile.joints;
#pragma unroll 2
            for (int k = stop - 1; k >= begin; --k, at -= tile.joints) {
                const bool first = h0 + k == 0;
                const Carried now = totals(k, first);
                store(at[ORDER * area], after.bar[ORDER]);  // u_h drives step h + 1; after the last step nothing
                if (SOURCES) {
#pragma unroll
                    for (int i = 0; i < 3; ++i)
                        store(at[source_area(i) * area], first ? real(0) : i < ORDER ? now.bar[i] : -now.rate[i + 1]);
                }
                after = now;
            }
        }
        __syncthreads();
        if (SOURCES)
            tile_write<4>(tile, outputs, h0, 0, n, shared, area);
        else
            tile_write<1>(tile, control_only, h0, 0, n, shared + ORDER * area, area);
        __syncthreads();
    }
    if (tile.active && tile.segment == 0) {
        if (grad_start_p) store(grad_start_p[tile.series], after.bar[0]);
        if (grad_start_v) store(grad_start_v[tile.series], after.bar[1]);
        if (grad_start_a) store(grad_start_a[tile.series], after.bar[2]);
    }
}

// Position control, a thread for each element: the totals at a step need its gradients and those of the three steps after it. u_h gets those
// at step h + 1, sources and start those at h. The orders that sum have no such threads.
extern "C" __global__ void __launch_bounds__(128, ADJOINT_BLOCKS<STORAGE>)
    chain_adjoint_elements(const STORAGE* grad_p, const STORAGE* grad_v, const STORAGE* grad_a, const STORAGE* grad_j, const real* dt,
                           real seconds, STORAGE* grad_u, STORAGE* grad_start_p, STORAGE* grad_start_v, STORAGE* grad_start_a,
                           STORAGE* grad_source_p, STORAGE* grad_source_v, STORAGE* grad_source_a, INDEX batch, INDEX horizon, int joints,
                           INDEX group, INDEX dt_b, INDEX dt_h) {
    const Element<INDEX> element = element_of_thread(batch, horizon, joints);
    if (ORDER > 0 || !element.exists) return;
    const Elements<INDEX, 1> elements(element, element.trajectory);
    const INDEX h = element.step, place = elements.place(0, h, horizon);
    const STORAGE* const inputs[4] = {grad_p, grad_v, grad_a, grad_j};
    real grad[4][1][5] = {}, rate[5];  // of steps h .. h + 4
#pragma unroll
    for (int i = 0; i < 4; ++i)
        if (inputs[i]) elements.read<true>(inputs[i], h, horizon, grad[i]);
    const real one_rate = 1 / seconds;
#pragma unroll
    for (int o = 0; o < 5; ++o) rate[o] = one_rate;
    if (dt) {
        const real* const times = dt + element.trajectory / group * dt_b + h * dt_h;
#pragma unroll
        for (int o = 0; o < 5; ++o) rate[o] = h + o < horizon ? times[o * dt_h] : real(1);  // of step 0 it may be NaN, so of no other
#pragma unroll
        for (int o = 0; o < 5; ++o) rate[o] = 1 / rate[o];
    }
    Carried after = {{0, 0, 0, 0}, {0, 0, 0, 0}, 0}, now = after;
#pragma unroll
    for (int o = 4; o >= 0; --o) {
        const real by_step[4] = {grad[0][0][o], grad[1][0][o], grad[2][0][o], grad[3][0][o]};
        after = now;
        chain_step_adjoint(by_step, after, o == 0 && h == 0, 0, rate[o], now);
    }
    store(grad_u[place], after.bar[0]);
    if (SOURCES) {
        STORAGE* const by_source[3] = {grad_source_p, grad_source_v, grad_source_a};
#pragma unroll
        for (int i = 0; i < 3; ++i)
            if (by_source[i]) store(by_source[i][place], h == 0 ? real(0) : -now.rate[i + 1]);
    }
    if (h > 0) return;
    STORAGE* const by_start[3] = {grad_start_p, grad_start_v, grad_start_a};
#pragma unroll
    for (int i = 0; i < 3; ++i)
        if (by_start[i]) store(by_start[i][element.trajectory * joints + element.joint], now.bar[i]);
}
