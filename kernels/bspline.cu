// Uniform B-splines: knots and the states at both ends to sampled p, v, a, j, and the transpose; step_bspline.
//
// Options   STORAGE  float, double, half_t or bfloat16_t       INDEX    int, or long long where the sizes need it
//           DEGREE   3, 4 or 5
//           OUTPUTS  of how many trajectories a thread has a sample at a time, forward: 1, or 4 of large batches (element.cuh)
// Shapes    The N control points of a trajectory are DEGREE that the start fixes, the knots (B, K, D), and with `has_goal` DEGREE that the
//           goal fixes. Start and goal have four parts (B, D), derivatives 0 .. 3 by time, or one row for all where `one_row` says so (bit k,
//           4 + k of the goal); null counts as zeros, as null knots do. p, v, a, j (B, H, D), H = (N - DEGREE) * samples + 1; t =
//           dt[b / group * dt_b] seconds between samples, or `seconds` where dt is null. weights (samples + 1 + 2 DEGREE, DEGREE + 1 or 4):
//           first (samples + 1, DEGREE + 1, 4), at sample `phase` of a segment, of basis function m, derivative k by the sample number; then
//           (DEGREE, 4) for the points of the start and as many for those of the goal: what derivative k by the sample number counts in them.
//           (B, D, K) and (B, D, H) arrays are B * D trajectories of one joint, group = D.
// Formulas  sample h lies in segment s = min(h / samples, N - DEGREE - 1) at phase h - s * samples;
//           derivative k = sum over m of weights[phase][m][k] * point[s + m] / t^k; a fixed point is the sum over k of weight_k t^k part_k
// Threads   forward has one for each sample of a joint, or for four (element.cuh). Adjoint as chain.cu: one thread a series, chunks of `steps`
//           samples staged through shared memory (tile.cuh), with the gradients by the DEGREE + 1 points of its segment in registers; where
//           a chunk holds all samples, with `per_point`, each thread takes one point after the other and sums over its samples, and a block has
//           256 threads where few blocks have points for them.
// Bytes     forward reads K and writes 4 H, adjoint reads 4 H and writes K, times B D elements. Only the adjoint's samples are staged, 16 bytes
//           at a time: a knot moves once in 4 * samples elements, in runs of D.
// Shared    adjoint 4 * tile_batch * row elements; with `per_point` after them a real for each fixed point of each series.
// Every result depends on its own series only and is summed in a fixed order: runs are bitwise repeatable.
#include "common.cuh"
#include "element.cuh"
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

// Where the gradient by one control point goes, and where the points come from. `fixed` are the weights of those that start and goal fix.
struct Polygon {
    const Weight* fixed;
    INDEX number, knots;  // of points, of knots among them
    real span[4];         // t^k

    __device__ __forceinline__ Polygon(const Weight* table, int samples, INDEX number, int has_goal, real t)
        : fixed(table + (samples + 1) * (DEGREE + 1)), number(number), knots(number - DEGREE * (1 + has_goal)), span{1, t, t * t, t * t * t} {}

    __device__ __forceinline__ bool is_knot(INDEX i) const { return i >= DEGREE && i < DEGREE + knots; }

    __device__ __forceinline__ const Weight& row(INDEX i) const { return fixed[i < DEGREE ? i : i - knots]; }
};

// The gradients by the parts of the start and the goal of a series, summed from those by the points that they fix.
struct Ends {
    real start[4], goal[4];

    __device__ __forceinline__ void add(const Polygon& polygon, INDEX i, real by_point) {
        const Weight& weight = polygon.row(i);
        const real at_start = i < DEGREE ? by_point : real(0), at_goal = i < DEGREE ? real(0) : by_point;  // no array indexed at run time
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            start[k] += weight.of[k] * at_start;
            goal[k] += weight.of[k] * at_goal;
        }
    }

    __device__ __forceinline__ void write(const Polygon& polygon, STORAGE* const (&by_start)[4], STORAGE* const (&by_goal)[4],
                                          INDEX series) const {
#pragma unroll
        for (int k = 0; k < 4; ++k) {
            if (by_start[k]) store(by_start[k][series], start[k] * polygon.span[k]);
            if (by_goal[k]) store(by_goal[k][series], goal[k] * polygon.span[k]);
        }
    }
};

// Of the DEGREE + 1 points under a sample, those that an end with these parts fixes: x[n][m] is the one of its DEGREE that is `from` + m.
__device__ __forceinline__ void fix_points(const Elements<INDEX, OUTPUTS>& elements, real (&x)[OUTPUTS][DEGREE + 1], INDEX from,
                                           const Weight* fixed, const STORAGE* const (&parts)[4], int one_row, INDEX group,
                                           const real (&t)[OUTPUTS]) {
    real part[OUTPUTS][4];
    start_values(elements, parts, (const long long*)0, one_row, group, part);
#pragma unroll
    for (int n = 0; n < OUTPUTS; ++n) {
        part[n][1] *= t[n];
        part[n][2] *= t[n] * t[n];
        part[n][3] *= t[n] * t[n] * t[n];
    }
#pragma unroll
    for (int m = 0; m <= DEGREE; ++m) {
        const INDEX i = from + m;
        if (i < 0 || i >= DEGREE) continue;
        const Weight weight = fixed[i];
#pragma unroll
        for (int n = 0; n < OUTPUTS; ++n) {
            x[n][m] = weight.of[0] * part[n][0];
#pragma unroll
            for (int k = 1; k < 4; ++k) x[n][m] += weight.of[k] * part[n][k];
        }
    }
}

extern "C" __global__ void
__launch_bounds__(256, ELEMENT_BLOCKS<STORAGE, INDEX, OUTPUTS, 6, sizeof(STORAGE) == 8 && sizeof(INDEX) == 8 ? 2 : 3, 3>)
    bspline_forward(const STORAGE* knots, const STORAGE* start_p, const STORAGE* start_v, const STORAGE* start_a, const STORAGE* start_j,
                    const STORAGE* goal_p, const STORAGE* goal_v, const STORAGE* goal_a, const STORAGE* goal_j, int one_row, int has_goal,
                    const real* weights, const real* dt, real seconds, STORAGE* p, STORAGE* v, STORAGE* a, STORAGE* j, INDEX batch,
                    INDEX number, int samples, INDEX horizon, int joints, INDEX group, INDEX dt_b) {
    const Element<INDEX> element = element_of_thread(batch, horizon, joints);
    if (!element.exists) return;
    const Weight* table = reinterpret_cast<const Weight*>(weights);
    const Weight* fixed = table + (samples + 1) * (DEGREE + 1);
    STORAGE* const outputs[4] = {p, v, a, j};
    const INDEX number_of_knots = number - DEGREE * (1 + has_goal), last = number - DEGREE - 1;  // the last segment has the last sample too
    const INDEX given = knots ? number_of_knots : 0;
    const INDEX h = element.step, segment = h / samples < last ? h / samples : last;
    const Weight* const weight = table + (int)(h - segment * samples) * (DEGREE + 1);
    const INDEX first = segment - DEGREE;  // the knot that is the first point
    for (INDEX b = element.trajectory; b < batch; b += OUTPUTS * element.on) {
        const Elements<INDEX, OUTPUTS> elements(element, b);
        real t[OUTPUTS], x[OUTPUTS][DEGREE + 1] = {};
        elements.step_times(dt, seconds, group, dt_b, t);
        if (first >= 0 && segment < given) {
            elements.read(knots, first, number_of_knots, x);
        } else {
#pragma unroll
            for (int n = 0; n < OUTPUTS; ++n) {
                const STORAGE* at = knots + elements.place(n, first, number_of_knots);
#pragma unroll
                for (int m = 0; m <= DEGREE; ++m, at += joints)
                    if (first >= -m && first < given - m) x[n][m] = load(*at);
            }
        }
        if (first < 0) {
            const STORAGE* const parts[4] = {start_p, start_v, start_a, start_j};
            fix_points(elements, x, segment, fixed, parts, one_row, group, t);
        }
        if (segment >= number_of_knots) {
            const STORAGE* const parts[4] = {goal_p, goal_v, goal_a, goal_j};
            fix_points(elements, x, first - number_of_knots, fixed + DEGREE, parts, one_row >> 4, group, t);
        }
        real made[OUTPUTS][4] = {};
#pragma unroll
        for (int m = 0; m <= DEGREE; ++m) {
            const Weight row = weight[m];
#pragma unroll
            for (int n = 0; n < OUTPUTS; ++n) {
#pragma unroll
                for (int k = 0; k < 4; ++k) made[n][k] += row.of[k] * x[n][m];
            }
        }
#pragma unroll
        for (int n = 0; n < OUTPUTS; ++n) {
            const real rate = 1 / t[n];
            made[n][1] *= rate;
            made[n][2] *= rate * rate;
            made[n][3] *= rate * rate * rate;
        }
        elements.write(outputs, made);
    }
}

extern "C" __global__ void __launch_bounds__(256, 2)
    bspline_adjoint(const STORAGE* grad_p, const STORAGE* grad_v, const STORAGE* grad_a, const STORAGE* grad_j, const real* weights,
                    const real* dt, real seconds, STORAGE* grad_knots, STORAGE* grad_start_p, STORAGE* grad_start_v, STORAGE* grad_start_a,
                    STORAGE* grad_start_j, STORAGE* grad_goal_p, STORAGE* grad_goal_v, STORAGE* grad_goal_a, STORAGE* grad_goal_j,
                    int has_goal, INDEX batch, INDEX number, int samples, INDEX horizon, int joints, INDEX group, INDEX dt_b,
                    int tile_batch, int tile_joints, int steps, int row, int vector, int per_point) {
    extern __shared__ __align__(16) unsigned char shared_bytes[];
    STORAGE* shared = reinterpret_cast<STORAGE*>(shared_bytes);
    const Tile<INDEX> tile = tile_of_block(batch, horizon, joints, tile_batch, tile_joints, row, vector);
    const int area = tile_batch * row;
    const STORAGE* const inputs[4] = {grad_p, grad_v, grad_a, grad_j};
    const Weight* table = reinterpret_cast<const Weight*>(weights);

    STORAGE* const by_start[4] = {grad_start_p, grad_start_v, grad_start_a, grad_start_j};
    STORAGE* const by_goal[4] = {grad_goal_p, grad_goal_v, grad_goal_a, grad_goal_j};

    const Times times(tile, dt, seconds, group, dt_b, 0, 0, 0);
    const real rate = times.per_second;
    const Polygon polygon(table, samples, number, has_goal, times.t);
    Ends ends = {};
    if (per_point) {
        const int width = tile.trajectories * tile.joints;
        real* const fixed = reinterpret_cast<real*>(shared + 4 * area);  // the gradients by the points that start and goal fix
        tile_read<4>(tile, inputs, (INDEX)0, 0, (int)horizon, shared, area);
        __syncthreads();
        for_each_item((int)number, width, [&](int point, int series) {
            const int trajectory = series / tile.joints, joint = series - trajectory * tile.joints;
            const INDEX b = tile.first_trajectory + trajectory;
            const real by_t = dt ? 1 / dt[b / group * dt_b] : rate;
            const int last = (int)number - DEGREE - 1;
            const STORAGE* const begin = shared + trajectory * row + tile.lead(trajectory) + joint;
            real sum = 0;
            for (int segment = point > DEGREE ? point - DEGREE : 0; segment <= (point < last ? point : last); ++segment) {
                const STORAGE* at = begin + segment * samples * tile.joints;
                const Weight* weight = table + (point - segment);
                for (int left = segment == last ? samples + 1 : samples; left > 0; --left, at += tile.joints, weight += DEGREE + 1) {
                    const real grad[4] = {load(at[0]), by_t * load(at[area]), by_t * by_t * load(at[2 * area]),
                                          by_t * by_t * by_t * load(at[3 * area])};
#pragma unroll
                    for (int i = 0; i < 4; ++i) sum += weight->of[i] * grad[i];
                }
            }
            if (polygon.is_knot(point))
                store(grad_knots[(b * polygon.knots + point - DEGREE) * joints + tile.first_joint + joint], sum);
            else
                fixed[(point < DEGREE ? point : point - (int)polygon.knots) * width + series] = sum;
        });
        __syncthreads();
        if (tile.active) {
            for (int i = 0; i < DEGREE * (1 + has_goal); ++i)
                ends.add(polygon, i < DEGREE ? (INDEX)i : i + polygon.knots, fixed[i * width + (int)threadIdx.x]);
            ends.write(polygon, by_start, by_goal, tile.series);
        }
        return;
    }
    STORAGE* const first = grad_knots + tile.trajectory * (polygon.knots - 1) * joints + tile.series;  // b * knots * joints + d
    const auto done = [&](INDEX point, real by_point) {  // no later sample counts in this point
        if (polygon.is_knot(point))
            store(first[(point - DEGREE) * joints], by_point);
        else
            ends.add(polygon, point, by_point);
    };
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
                    done(place.segment - 1, x[0]);
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
        for (int m = 0; m <= DEGREE; ++m) done(number - DEGREE - 1 + m, x[m]);
        ends.write(polygon, by_start, by_goal, tile.series);
    }
}
