// L-BFGS for many problems at once: the last step of each and what it tells of the curvature, and the direction of the next by the two-loop
// recursion; planning/lbfgs.py.
//
// Options   STORAGE  float or double       INDEX    int, or long long where B * n needs it
// Shapes    gradient and direction (B, n); `number` pairs of a step and its change of the gradient (B, n), the newest first, the others null;
//           1 / their products `inverse` (B,), of which that of the newest is written; scale (B,) before that pair and after it.
// Formulas  inverse = 1 / (step . change) and scale = (step . change) / (change . change) where that product is positive, else 0 and as before;
//           q = -gradient; from the newest pair on: share = inverse step . q, q -= share change; q *= scale; from the oldest on:
//           q += (share - inverse change . q) step.
// Threads   a block a problem, whose threads have every blockDim.x-th element; a pass over the elements, and a sum over the threads, for each
//           pair and loop: one pass takes what the last sum gave off q and begins the next sum.
// Bytes     reads each pair twice and q as often as it writes it, 2 * number + 1 times; all but the first time from the caches.
// Shared    a real for each thread.
// A problem's numbers do not depend on the others', and every sum runs in a fixed order: results are bitwise repeatable.
#include "common.cuh"

typedef Arithmetic<STORAGE>::type real;

enum { HISTORY = 8 };

extern "C" __global__ void __launch_bounds__(512)
    lbfgs_direction(const STORAGE* gradient, const STORAGE* step_0, const STORAGE* step_1, const STORAGE* step_2, const STORAGE* step_3,
                    const STORAGE* step_4, const STORAGE* step_5, const STORAGE* step_6, const STORAGE* step_7, const STORAGE* change_0,
                    const STORAGE* change_1, const STORAGE* change_2, const STORAGE* change_3, const STORAGE* change_4,
                    const STORAGE* change_5, const STORAGE* change_6, const STORAGE* change_7, const STORAGE* inverse_1,
                    const STORAGE* inverse_2, const STORAGE* inverse_3, const STORAGE* inverse_4, const STORAGE* inverse_5,
                    const STORAGE* inverse_6, const STORAGE* inverse_7, const STORAGE* scale, STORAGE* new_inverse, STORAGE* new_scale,
                    STORAGE* direction, int number, INDEX n) {
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    real* const room = reinterpret_cast<real*>(shared_bytes);
    const STORAGE* const steps[HISTORY] = {step_0, step_1, step_2, step_3, step_4, step_5, step_6, step_7};
    const STORAGE* const changes[HISTORY] = {change_0, change_1, change_2, change_3, change_4, change_5, change_6, change_7};
    const STORAGE* const inverses[HISTORY] = {0, inverse_1, inverse_2, inverse_3, inverse_4, inverse_5, inverse_6, inverse_7};
    const INDEX b = blockIdx.x, begin = b * n + threadIdx.x, end = b * n + n;

    real of_step = 0, of_change = 0, own = 0;
    for (INDEX i = begin; i < end; i += blockDim.x) {
        const real step = load(steps[0][i]), change = load(changes[0][i]), q = -load(gradient[i]);
        of_step += step * change;
        of_change += change * change;
        own += step * q;
        store(direction[i], q);
    }
    const real curvature = block_sum(of_step, room), size = block_sum(of_change, room);
    const bool usable = curvature > real(1e-10) * size;
    const real scaled = usable ? curvature / size : load(scale[b]);
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
            const real q = (load(direction[i]) - share[k] * load(changes[k][i])) * (oldest ? scaled : real(1));
            own += load(next[i]) * q;
            store(direction[i], q);
        }
    }
#pragma unroll
    for (int k = HISTORY - 1; k >= 0; --k) {
        if (k >= number) continue;
        const real by = share[k] - block_sum(own, room) * inverse[k];
        own = 0;
        for (INDEX i = begin; i < end; i += blockDim.x) {
            const real q = load(direction[i]) + by * load(steps[k][i]);
            if (k > 0) own += load(changes[k > 0 ? k - 1 : 0][i]) * q;
            store(direction[i], q);
        }
    }
}
