// Uniform B-splines: control points to sampled p, v, a, j, and the transpose.
//
// Options   STORAGE  float, double, half_t or bfloat16_t       INDEX    int, or long long where the sizes need it
//           DEGREE   3, 4 or 5
// Shapes    points (B, N, D), N > DEGREE; p, v, a, j (B, (N - DEGREE) * samples + 1, D); t = dt[b * dt_b] seconds between samples.
//           weights (4, samples + 1, DEGREE + 1): derivative k by the sample number, of basis function m, at sample `phase` of a
//           segment. With `time_last` points are (B, D, N) and the outputs (B, D, H).
// Formulas  sample h lies in segment s = min(h / samples, N - DEGREE - 1) at phase h - s * samples;
//           derivative k = sum over m of weights[k][phase][m] * points[s + m] / t^k
// Threads   forward: one a sample and joint; adjoint: one a control point and joint, which gathers from its DEGREE + 1 segments.
//           Neighbours in memory lie in neighbouring threads; a thread takes every (grid * block)-th element.
// Bytes     forward reads N and writes 4 H, adjoint reads 4 H and writes N, times B D elements (the re-reads come from the cache).
// Every result is summed by one thread in a fixed order: runs are bitwise repeatable.
#include "common.cuh"

typedef Arithmetic<STORAGE>::type real;

// Splits an element of (B, n, D), or with `time_last` of (B, D, n), into (b, i, d).
__device__ __forceinline__ void split(INDEX element, INDEX n, INDEX joints, bool time_last, INDEX& b, INDEX& i, INDEX& d) {
    const INDEX inner = time_last ? n : joints, middle = time_last ? joints : n;
    const INDEX outer = element / inner;
    b = outer / middle;
    i = time_last ? element - outer * inner : outer - b * middle;
    d = time_last ? outer - b * middle : element - outer * inner;
}

__device__ __forceinline__ INDEX join(INDEX n, INDEX joints, bool time_last, INDEX b, INDEX i, INDEX d) {
    return time_last ? (b * joints + d) * n + i : (b * n + i) * joints + d;
}

extern "C" __global__ void __launch_bounds__(256)
    bspline_forward(const STORAGE* points, const real* weights, const real* dt, STORAGE* p, STORAGE* v, STORAGE* a, STORAGE* j,
                    INDEX batch, INDEX number, INDEX joints, int samples, INDEX dt_b, int time_last) {
    const INDEX segments = number - DEGREE;
    const INDEX horizon = segments * samples + 1;
    const INDEX count = batch * horizon * joints;
    const int table = (samples + 1) * (DEGREE + 1);
    for (INDEX e = (INDEX)blockIdx.x * blockDim.x + threadIdx.x; e < count; e += (INDEX)gridDim.x * blockDim.x) {
        INDEX b, h, d;
        split(e, horizon, joints, time_last != 0, b, h, d);
        const INDEX segment = h / samples < segments ? h / samples : segments - 1;
        const real* row = weights + (h - segment * samples) * (DEGREE + 1);
        real sum[4] = {0, 0, 0, 0};
#pragma unroll
        for (int m = 0; m <= DEGREE; ++m) {
            const real x = load(points[join(number, joints, time_last != 0, b, segment + m, d)]);
#pragma unroll
            for (int k = 0; k < 4; ++k) sum[k] += row[k * table + m] * x;
        }
        const real rate = 1 / dt[b * dt_b];
        if (p) store(p[e], sum[0]);
        if (v) store(v[e], sum[1] * rate);
        if (a) store(a[e], sum[2] * (rate * rate));
        if (j) store(j[e], sum[3] * (rate * rate * rate));
    }
}

extern "C" __global__ void __launch_bounds__(256)
    bspline_adjoint(const STORAGE* grad_p, const STORAGE* grad_v, const STORAGE* grad_a, const STORAGE* grad_j, const real* weights,
                    const real* dt, STORAGE* grad_points, INDEX batch, INDEX number, INDEX joints, int samples, INDEX dt_b,
                    int time_last) {
    const INDEX segments = number - DEGREE;
    const INDEX horizon = segments * samples + 1;
    const INDEX count = batch * number * joints;
    const int table = (samples + 1) * (DEGREE + 1);
    for (INDEX e = (INDEX)blockIdx.x * blockDim.x + threadIdx.x; e < count; e += (INDEX)gridDim.x * blockDim.x) {
        INDEX b, i, d;
        split(e, number, joints, time_last != 0, b, i, d);
        real sum[4] = {0, 0, 0, 0};
#pragma unroll
        for (int m = 0; m <= DEGREE; ++m) {
            const INDEX segment = i - m;
            if (segment < 0 || segment >= segments) continue;
            const int phases = segment == segments - 1 ? samples + 1 : samples;
            for (int phase = 0; phase < phases; ++phase) {
                const real* row = weights + phase * (DEGREE + 1) + m;
                const INDEX at = join(horizon, joints, time_last != 0, b, segment * samples + phase, d);
                sum[0] += row[0] * load_or_zero(grad_p, at);
                sum[1] += row[table] * load_or_zero(grad_v, at);
                sum[2] += row[2 * table] * load_or_zero(grad_a, at);
                sum[3] += row[3 * table] * load_or_zero(grad_j, at);
            }
        }
        const real rate = 1 / dt[b * dt_b];
        store(grad_points[e], sum[0] + rate * (sum[1] + rate * (sum[2] + rate * sum[3])));
    }
}
