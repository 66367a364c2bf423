// L-BFGS for many problems at once, after an evaluation: each takes the step that was tried or shortens the next one, remembers what the step tells
// of the curvature, and gets the direction of the next one by the two-loop recursion; planning/lbfgs.py.
//
// Options   STORAGE  float or double       INDEX    int, or long long where B * n needs it
// Shapes    x, gradients and directions (B, n), losses and lengths (B,); pairs of a step and its change of the gradient (B, n), the newest first,
//           which is made here, `number` of them, the others null; 1 / their products `inverse` (B,); scale (B,).
// Formulas  A step is taken where trial_loss <= loss + 1e-4 length (direction . gradient), and the next begins with length 1; else the length is
//           multiplied by the parabola's minimum, from 0.1 to 0.5, the new pair is zeros, and the rest stays as it is. Of the new pair
//           inverse = 1 / (step . change) and scale = (step . change) / (change . change) where that product is positive, else 0 and as before;
//           q = -gradient; from the newest pair on: share = inverse step . q, q -= share change; q *= scale; from the oldest on:
//           q += (share - inverse change . q) step; q is the direction.
// Threads   a block a problem, whose threads have every blockDim.x-th element; a pass over the elements, and a sum over the threads, for each
//           pair and loop: one pass takes what the last sum gave off q and begins the next sum.
// Bytes     reads each pair twice and q as often as it writes it, 2 * number + 1 times; all but the first time from the caches.
// Shared    a real for each thread.
// A problem's numbers do not depend on the others', and every sum runs in a fixed order: results are bitwise repeatable.
#include "common.cuh"

typedef Arithmetic<STORAGE>::type real;

enum { HISTORY = 8 };

extern "C" __global__ void __launch_bounds__(512, sizeof(INDEX) == 8 ? 1 : 2)
    lbfgs_step(const STORAGE* x, const STORAGE* loss, const STORAGE* gradient, const STORAGE* direction, const STORAGE* length,
               const STORAGE* trial, const STORAGE* trial_loss, const STORAGE* trial_gradient, const STORAGE* step_1, const STORAGE* step_2,
               const STORAGE* step_3, const STORAGE* step_4, const STORAGE* step_5, const STORAGE* step_6, const STORAGE* step_7,
               const STORAGE* change_1, const STORAGE* change_2, const STORAGE* change_3, const STORAGE* change_4, const STORAGE* change_5,
               const STORAGE* change_6, const STORAGE* change_7, const STORAGE* inverse_1, const STORAGE* inverse_2, const STORAGE* inverse_3,
               const STORAGE* inverse_4, const STORAGE* inverse_5, const STORAGE* inverse_6, const STORAGE* inverse_7, const STORAGE* scale,
               STORAGE* new_x, STORAGE* new_loss, STORAGE* new_gradient, STORAGE* new_direction, STORAGE* new_length, STORAGE* new_step,
               STORAGE* new_change, STORAGE* new_inverse, STORAGE* new_scale, int number, INDEX n) {
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    real* const room = reinterpret_cast<real*>(shared_bytes);
    const STORAGE* const steps[HISTORY] = {new_step, step_1, step_2, step_3, step_4, step_5, step_6, step_7};
    const STORAGE* const changes[HISTORY] = {new_change, change_1, change_2, change_3, change_4, change_5, change_6, change_7};
    const STORAGE* const inverses[HISTORY] = {0, inverse_1, inverse_2, inverse_3, inverse_4, inverse_5, inverse_6, inverse_7};
    const INDEX b = blockIdx.x, begin = b * n + threadIdx.x, end = b * n + n;

    real own = 0;
    for (INDEX i = begin; i < end; i += blockDim.x) own += load(direction[i]) * load(gradient[i]);
    const real was = load(loss[b]), tried = load(trial_loss[b]), stride = load(length[b]), before = load(scale[b]);
    const real slope = stride * block_sum(own, room);
    const bool fell = tried <= was + real(1e-4) * slope;  // never for NaN
    if (threadIdx.x == 0) {
        const real share = -slope / (2 * (tried - was - slope));
        store(new_length[b], fell ? real(1) : stride * (share >= real(0.1) ? (share < real(0.5) ? share : real(0.5)) : real(0.1)));
        store(new_loss[b], fell ? tried : was);
    }
    real of_step = 0, of_change = 0;
    own = 0;
    for (INDEX i = begin; i < end; i += blockDim.x) {
        const real here = load(x[i]), slope_here = load(gradient[i]);
        const real there = fell ? load(trial[i]) : here, slope_there = fell ? load(trial_gradient[i]) : slope_here;
        const real step = there - here, change = slope_there - slope_here, q = fell ? -slope_there : load(direction[i]);
        of_step += step * change;
        of_change += change * change;
        own += step * q;
        store(new_x[i], there);
        store(new_gradient[i], slope_there);
        store(new_step[i], fell ? step : real(0));
        store(new_change[i], fell ? change : real(0));
        store(new_direction[i], q);
    }
    if (!fell) {
        if (threadIdx.x == 0) {
            store(new_inverse[b], real(0));
            store(new_scale[b], before);
        }
        return;
    }
    const real curvature = block_sum(of_step, room), size = block_sum(of_change, room);
    const bool usable = curvature > real(1e-10) * size;
    const real scaled = usable ? curvature / size : before;
    real share[HISTORY], inverse[HISTORY];
    inverse[0] = usable ? 1 / curvature : real(0);
#pragma unroll
    for (int k = 1; k < HISTORY; ++k) inverse[k] = k < number ? load(inverses[k][b]) : real(0);
    if (threadIdx.x == 0) {
        store(new_inverse[b], inverse[0]);
        store(new_scale[b], scaled);
    }
#pragma unroll
    for (int k = 0; k < HISTORY; ++k) {
        share[k] = 0;
        if (k >= number) continue;
        share[k] = block_sum(own, room) * inverse[k];
        own = 0;
        const bool oldest = k + 1 == HISTORY || k + 1 == number;
        const STORAGE* const next = oldest ? changes[k] : steps[k + 1 == HISTORY ? k : k + 1];
        for (INDEX i = begin; i < end; i += blockDim.x) {
            const real q = (load(new_direction[i]) - share[k] * load(changes[k][i])) * (oldest ? scaled : real(1));
            own += load(next[i]) * q;
            store(new_direction[i], q);
        }
    }
#pragma unroll
    for (int k = HISTORY - 1; k >= 0; --k) {
        if (k >= number) continue;
        const real by = share[k] - block_sum(own, room) * inverse[k];
        own = 0;
        for (INDEX i = begin; i < end; i += blockDim.x) {
            const real q = load(new_direction[i]) + by * load(steps[k][i]);
            if (k > 0) own += load(changes[k > 0 ? k - 1 : 0][i]) * q;
            store(new_direction[i], q);
        }
    }
}
