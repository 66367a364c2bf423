// Uniform B-splines: control points to sampled p, v, a, j, and the transpose; step_bspline.
//
// Options   STORAGE  float, double, half_t or bfloat16_t       INDEX    int, or long long where the sizes need it
//           DEGREE   3, 4 or 5
// Shapes    points (B, N, D), N > DEGREE; p, v, a, j (B, H, D), H = (N - DEGREE) * samples + 1; t = dt[b / group * dt_b] seconds between
//           samples, or `seconds` where dt is null. weights (samples + 1, DEGREE + 1, 4): at sample `phase` of a segment, of basis
//           function m, derivative k by the sample number. (B, D, N) and (B, D, H) arrays are B * D trajectories of one joint, group = D.
// Formulas  sample h lies in segment s = min(h / samples, N - DEGREE - 1) at phase h - s * samples;
//           derivative k = sum over m of weights[phase][m][k] * points[s + m] / t^k
// Threads   as chain.cu: one thread a series, chunks of `steps` samples staged through shared memory (tile.cuh), with the DEGREE + 1 points
//           of its segment, or their gradients, in registers. Where a chunk holds all samples, threads that a block has to spare share the
//           walk of a series in forward; in adjoint, with `per_point`, each thread takes one point after the other and sums over its samples.
// Bytes     forward reads N and writes 4 H, adjoint reads 4 H and writes N, times B D elements. Only the samples are staged, 16 bytes at a
//           time: a point moves once in 4 * samples elements, in runs of D.
// Shared    4 * tile_batch * row elements.
// Every result depends on its own series only and is summed in a fixed order: runs are bitwise repeatable.
#include "common.cuh"
#include "tile.cuh"

typedef Arithmetic<STORAGE>::type real;
typedef StepTimes<real, INDEX> Times;

// What one basis function counts in the value and the first three derivatives; read 16 bytes at a time.
struct __align__(16) Weight {
    real of[4];
};

// Where a walk over the samples stands: the weights at its phase, and the number of its segment.
struct Place {
    INDEX segment;
    int phase;

    // One sample on; true when that begins a segment. The last segment holds the last sample too.
    __device__ __forceinline__ bool advance(int samples, INDEX segments) {
        if (++phase < samples || segment == segments - 1) return false;
        phase = 0;
        ++segment;
        return true;
    }
};

extern "C" __global__ void __launch_bounds__(128, 4)
    bspline_forward(const STORAGE* points, const real* weights, const real* dt, real seconds, STORAGE* p, STORAGE* v, STORAGE* a,
                    STORAGE* j, INDEX batch, INDEX number, int samples, INDEX horizon, int joints, INDEX group, INDEX dt_b,
                    int tile_batch, int tile_joints, int steps, int row, int vector, int part) {
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    STORAGE* shared = reinterpret_cast<STORAGE*>(shared_bytes);
    const bool divided = part > 0;
    const Tile<INDEX> tile = tile_of_block(batch, horizon, joints, tile_batch, tile_joints, row, vector, segments_of(horizon, part));
    const int area = tile_batch * row;
    STORAGE* const outputs[4] = {p, v, a, j};
    const Weight* table = reinterpret_cast<const Weight*>(weights);

    const real rate = Times(tile, dt, seconds, group, dt_b, 0, 0, 0).per_second;
    Place place = {0, 0};
    int begin = 0, stop = 0;
    if (divided) {
        part_of_walk(tile, (int)horizon, part, begin, stop);
        place.segment = begin / samples < (int)(number - DEGREE) ? begin / samples : number - DEGREE - 1;
        place.phase = begin - (int)place.segment * samples;
    }
    // (b * number + segment) * joints + d
    const STORAGE* next = points + (tile.trajectory * (number - 1) + place.segment) * joints + tile.series;
    real x[DEGREE + 1];
#pragma unroll
    for (int m = 0; m <= DEGREE; ++m, next += joints) x[m] = load(*next);
    for (INDEX h0 = 0; h0 < horizon; h0 += steps) {
        const int n = horizon - h0 < steps ? (int)(horizon - h0) : steps;
        if (!divided) stop = n;
        if (tile.active) {
            STORAGE* at = shared + tile.place + begin * tile.joints;
            for (int k = begin; k < stop; ++k, at += tile.joints) {
                real sum[4] = {0, 0, 0, 0};
#pragma unroll
                for (int m = 0; m <= DEGREE; ++m) {
                    const Weight weight = table[place.phase * (DEGREE + 1) + m];
#pragma unroll
                    for (int i = 0; i < 4; ++i) sum[i] += weight.of[i] * x[m];
                }
                store(at[0], sum[0]);
                store(at[area], sum[1] * rate);
                store(at[2 * area], sum[2] * (rate * rate));
                store(at[3 * area], sum[3] * (rate * rate * rate));
                if (place.advance(samples, number - DEGREE)) {
#pragma unroll
                    for (int m = 0; m < DEGREE; ++m) x[m] = x[m + 1];
                    x[DEGREE] = load(*next);
                    next += joints;
                }
            }
        }
        __syncthreads();
        tile_write<4>(tile, outputs, h0, 0, n, shared, area);
        __syncthreads();
    }
}

extern "C" __global__ void __launch_bounds__(128, 4)
    bspline_adjoint(const STORAGE* grad_p, const STORAGE* grad_v, const STORAGE* grad_a, const STORAGE* grad_j, const real* weights,
                    const real* dt, real seconds, STORAGE* grad_points, INDEX batch, INDEX number, int samples, INDEX horizon,
                    int joints, INDEX group, INDEX dt_b, int tile_batch, int tile_joints, int steps, int row, int vector, int per_point) {
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    STORAGE* shared = reinterpret_cast<STORAGE*>(shared_bytes);
    const Tile<INDEX> tile = tile_of_block(batch, horizon, joints, tile_batch, tile_joints, row, vector);
    const int area = tile_batch * row;
    const STORAGE* const inputs[4] = {grad_p, grad_v, grad_a, grad_j};
    const Weight* table = reinterpret_cast<const Weight*>(weights);

    const real rate = Times(tile, dt, seconds, group, dt_b, 0, 0, 0).per_second;
    if (per_point) {
        tile_read<4>(tile, inputs, (INDEX)0, 0, (int)horizon, shared, area);
        __syncthreads();
        for_each_item((int)number, tile.trajectories * tile.joints, [&](int point, int series) {
            const int trajectory = series / tile.joints, joint = series - trajectory * tile.joints;
            const INDEX b = tile.first_trajectory + trajectory;
            const real by_t = dt ? 1 / dt[b / group * dt_b] : rate;
            const int last = (int)number - DEGREE - 1;
            real sum = 0;
            for (int segment = point > DEGREE ? point - DEGREE : 0; segment <= (point < last ? point : last); ++segment) {
                const STORAGE* at = shared + trajectory * row + tile.lead(trajectory) + segment * samples * tile.joints + joint;
                const Weight* weight = table + (point - segment);
                for (int left = segment == last ? samples + 1 : samples; left > 0; --left, at += tile.joints, weight += DEGREE + 1) {
                    const real grad[4] = {load(at[0]), by_t * load(at[area]), by_t * by_t * load(at[2 * area]),
                                          by_t * by_t * by_t * load(at[3 * area])};
#pragma unroll
                    for (int i = 0; i < 4; ++i) sum += weight->of[i] * grad[i];
                }
            }
            store(grad_points[(b * number + point) * joints + tile.first_joint + joint], sum);
        });
        return;
    }
    STORAGE* next = grad_points + tile.trajectory * (number - 1) * joints + tile.series;  // b * number * joints + d
    real x[DEGREE + 1] = {};
    Place place = {0, 0};
    for (INDEX h0 = 0; h0 < horizon; h0 += steps) {
        const int n = horizon - h0 < steps ? (int)(horizon - h0) : steps;
        tile_read<4>(tile, inputs, h0, 0, n, shared, area);
        __syncthreads();
        if (tile.active) {
            const STORAGE* at = shared + tile.place;
            for (int k = 0; k < n; ++k, at += tile.joints) {
                const real grad[4] = {load(at[0]), rate * load(at[area]), rate * rate * load(at[2 * area]),
                                      rate * rate * rate * load(at[3 * area])};
#pragma unroll
                for (int m = 0; m <= DEGREE; ++m) {
                    const Weight weight = table[place.phase * (DEGREE + 1) + m];
#pragma unroll
                    for (int i = 0; i < 4; ++i) x[m] += weight.of[i] * grad[i];
                }
                if (place.advance(samples, number - DEGREE)) {
                    store(*next, x[0]);  // no later segment holds this point
                    next += joints;
#pragma unroll
                    for (int m = 0; m < DEGREE; ++m) x[m] = x[m + 1];
                    x[DEGREE] = 0;
                }
            }
        }
        __syncthreads();
    }
    if (tile.active) {
#pragma unroll
        for (int m = 0; m <= DEGREE; ++m, next += joints) store(*next, x[m]);
    }
}
