// Five-point central differences: positions u to p, v, a, j, and the transpose.
//
// Options   STORAGE  float, double, half_t or bfloat16_t       INDEX    int, or long long where B * H * D needs it
// Shapes    u, p, v, a, j (B, H, D), H >= 6; start parts and goal (B, D), null for zero (start) or for no goal; t = dt[b * dt_b]
//           in seconds, one for each trajectory. With `time_last` the large arrays are (B, D, H); start and goal stay (B, D).
// Formulas  X_{-k} = p0 - k t v0 + (k t)^2/2 a0 (k = 3, 2, 1), X_0 = p0, X_i = u_{i-1} up to i = H-4 (H-5 with a goal), and from
//           there to X_H the last of these, or the goal. Output h, with x_o = X_{h-1+o}:
//               p = x_0                                   v = (x_-2 - 8 x_-1 + 8 x_1 - x_2) / 12t
//               a = (-x_-2 + 16 x_-1 - 30 x_0 + 16 x_1 - x_2) / 12t^2      j = (-x_-2 + 2 x_-1 - 2 x_1 + x_2) / 2t^3
// Threads   one an element, neighbours in memory in neighbouring threads; a thread takes every (grid * block)-th element.
// Bytes     forward reads u and writes four arrays, adjoint reads four and writes one: 5 B H D elements (neighbouring steps come from
//           the cache).
// Every result is summed by one thread in a fixed order: runs are bitwise repeatable.
#include "common.cuh"

typedef Arithmetic<STORAGE>::type real;

// Where the elements of (B, H, D), or with `time_last` (B, D, H), lie.
struct Layout {
    INDEX horizon, joints;
    bool time_last;
    __device__ __forceinline__ INDEX at(INDEX b, INDEX h, INDEX d) const {
        return time_last ? (b * joints + d) * horizon + h : (b * horizon + h) * joints + d;
    }
    __device__ __forceinline__ void split(INDEX element, INDEX& b, INDEX& h, INDEX& d) const {
        const INDEX inner = time_last ? horizon : joints;
        const INDEX outer = element / inner;
        const INDEX middle = time_last ? joints : horizon;
        b = outer / middle;
        h = time_last ? element - outer * inner : outer - b * middle;
        d = time_last ? outer - b * middle : element - outer * inner;
    }
};

extern "C" __global__ void __launch_bounds__(256)
    central_forward(const STORAGE* u, const STORAGE* start_p, const STORAGE* start_v, const STORAGE* start_a, const STORAGE* goal,
                    const real* dt, STORAGE* p, STORAGE* v, STORAGE* a, STORAGE* j, INDEX batch, INDEX horizon, INDEX joints,
                    INDEX dt_b, int time_last) {
    const Layout layout = {horizon, joints, time_last != 0};
    const INDEX count = batch * horizon * joints;
    const INDEX last_free = horizon - (goal ? 5 : 4);  // the last X that is an action of its own
    for (INDEX e = (INDEX)blockIdx.x * blockDim.x + threadIdx.x; e < count; e += (INDEX)gridDim.x * blockDim.x) {
        INDEX b, h, d;
        layout.split(e, b, h, d);
        const real t = dt[b * dt_b];
        real x[5];
#pragma unroll
        for (int o = 0; o < 5; ++o) {
            const INDEX i = h - 3 + o;
            if (i > last_free)
                x[o] = goal ? load(goal[b * joints + d]) : load(u[layout.at(b, horizon - 5, d)]);
            else if (i > 0)
                x[o] = load(u[layout.at(b, i - 1, d)]);
            else
                x[o] = load_or_zero(start_p, b * joints + d) + i * t * load_or_zero(start_v, b * joints + d) +
                       i * t * (i * t) / 2 * load_or_zero(start_a, b * joints + d);
        }
        const real rate = 1 / t;
        if (p) store(p[e], x[2]);
        if (v) store(v[e], (x[0] - 8 * x[1] + 8 * x[3] - x[4]) * (rate * (real(1) / 12)));
        if (a) store(a[e], (-x[0] + 16 * x[1] - 30 * x[2] + 16 * x[3] - x[4]) * (rate * rate * (real(1) / 12)));
        if (j) store(j[e], (-x[0] + 2 * x[1] - 2 * x[3] + x[4]) * (rate * rate * rate / 2));
    }
}

// The gradient by X_i of one trajectory and joint, i from -3 to H: from the outputs whose stencil holds it.
__device__ real by_point(const STORAGE* grad_p, const STORAGE* grad_v, const STORAGE* grad_a, const STORAGE* grad_j,
                         const Layout& layout, INDEX b, INDEX d, INDEX i, real rate) {
    real v = 0, a = 0, j = 0;
#pragma unroll
    for (int o = -2; o <= 2; ++o) {
        const INDEX h = i + 1 - o;
        if (h < 0 || h >= layout.horizon) continue;
        const INDEX at = layout.at(b, h, d);
        const real sign = o < 0 ? real(1) : real(-1);
        const bool far = o == -2 || o == 2;
        if (o != 0) v += load_or_zero(grad_v, at) * (far ? sign : -8 * sign);
        a += load_or_zero(grad_a, at) * (o == 0 ? real(-30) : far ? real(-1) : real(16));
        if (o != 0) j += load_or_zero(grad_j, at) * (far ? -sign : 2 * sign);
    }
    const real p = i + 1 >= 0 && i + 1 < layout.horizon ? load_or_zero(grad_p, layout.at(b, i + 1, d)) : real(0);
    return p + v * (rate * (real(1) / 12)) + a * (rate * rate * (real(1) / 12)) + j * (rate * rate * rate / 2);
}

extern "C" __global__ void __launch_bounds__(256)
    central_adjoint(const STORAGE* grad_p, const STORAGE* grad_v, const STORAGE* grad_a, const STORAGE* grad_j, const real* dt,
                    STORAGE* grad_u, STORAGE* grad_start_p, STORAGE* grad_start_v, STORAGE* grad_start_a, STORAGE* grad_goal,
                    INDEX batch, INDEX horizon, INDEX joints, INDEX dt_b, int has_goal, int time_last) {
    const Layout layout = {horizon, joints, time_last != 0};
    const INDEX count = batch * horizon * joints;
    for (INDEX e = (INDEX)blockIdx.x * blockDim.x + threadIdx.x; e < count; e += (INDEX)gridDim.x * blockDim.x) {
        INDEX b, h, d;
        layout.split(e, b, h, d);
        const real t = dt[b * dt_b];
        const real rate = 1 / t;
        real sum = 0;
        if (h <= horizon - 5) {
            const INDEX stop = h == horizon - 5 ? horizon : h + 1;  // the last action, or the goal, holds to the end
            for (INDEX i = h + 1; i <= stop; ++i) sum += by_point(grad_p, grad_v, grad_a, grad_j, layout, b, d, i, rate);
        }
        if (has_goal && h == horizon - 5) {
            if (grad_goal) store(grad_goal[b * joints + d], sum);
            sum = 0;
        }
        store(grad_u[e], sum);
        if (h == 0 && (grad_start_p || grad_start_v || grad_start_a)) {
            real position = 0, velocity = 0, acceleration = 0;
            for (int k = 0; k <= 3; ++k) {
                const real x = by_point(grad_p, grad_v, grad_a, grad_j, layout, b, d, -k, rate);
                position += x;
                velocity -= k * t * x;
                acceleration += k * t * (k * t) / 2 * x;
            }
            if (grad_start_p) store(grad_start_p[b * joints + d], position);
            if (grad_start_v) store(grad_start_v[b * joints + d], velocity);
            if (grad_start_a) store(grad_start_a[b * joints + d], acceleration);
        }
    }
}
