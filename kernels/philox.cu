// Random numbers by counting: element i of draw n of the generator with a seed is a function of these three, whoever computes it when.
//
// Options   STORAGE  float, double, half_t or bfloat16_t       INDEX    int, or long long where the sizes need it
// Shapes    out (count,). place (2,) or null: the seed and the number of draws before, on the device, where a captured graph finds them.
// Threads   one for each counter and so for 16 bytes of random bits: 4 numbers of float, 2 of double and of bits.
// Bytes     writes count elements; bernoulli reads as many if each has its chance.
// Rounding  what a kernel makes of a number it rounds step by step, as the single operations on arrays do of which it takes the place.
// Source: J. Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (SC 2011), Philox4x32-10; G. Box and M. Muller (1958);
// P. Efraimidis and P. Spirakis, Weighted random sampling with a reservoir (2006).
#include "common.cuh"

typedef Arithmetic<STORAGE>::type real;

struct Words {
    unsigned int at[4];
};

// The bits of one counter: its low words count blocks of 16 bytes, its high words draws.
__device__ __forceinline__ Words philox(unsigned long long seed, unsigned long long draw, unsigned long long block) {
    Words c = {{(unsigned int)block, (unsigned int)(block >> 32), (unsigned int)draw, (unsigned int)(draw >> 32)}};
    unsigned int k0 = (unsigned int)seed, k1 = (unsigned int)(seed >> 32);
    for (int round = 0; round < 10; ++round) {
        const unsigned long long a = 0xD2511F53ull * c.at[0], b = 0xCD9E8D57ull * c.at[2];
        c = {{(unsigned int)(b >> 32) ^ c.at[1] ^ k0, (unsigned int)b, (unsigned int)(a >> 32) ^ c.at[3] ^ k1, (unsigned int)a}};
        k0 += 0x9E3779B9u;
        k1 += 0xBB67AE85u;
    }
    return c;
}

__device__ __forceinline__ Words words_of(const long long* place, long long seed, long long draw, unsigned long long block) {
    if (place) {
        seed = place[0];
        draw += place[1];
    }
    return philox((unsigned long long)seed, (unsigned long long)draw, block);
}

__device__ __forceinline__ unsigned long long both(unsigned int high, unsigned int low) { return ((unsigned long long)high << 32) | low; }

// 16 bytes of numbers that are uniform in [0, 1), with as many bits as the type holds there.
__device__ __forceinline__ void uniform_of(const Words& w, float* made) {
    for (int i = 0; i < 4; ++i) made[i] = (float)(w.at[i] >> 8) * 5.9604644775390625e-8f;  // 2^-24
}

__device__ __forceinline__ void uniform_of(const Words& w, double* made) {
    for (int i = 0; i < 2; ++i) made[i] = (double)(both(w.at[2 * i + 1], w.at[2 * i]) >> 11) * 1.1102230246251565e-16;  // 2^-53
}

// Cosine and sine of an angle in turns: by CUDA's sincospi, since its sin and cos keep a table for huge angles on each thread's stack.
#ifdef __CUDACC__
__device__ __forceinline__ void on_circle(float turn, float* made) { sincospif(2 * turn, made + 1, made); }

__device__ __forceinline__ void on_circle(double turn, double* made) { sincospi(2 * turn, made + 1, made); }
#else
template <typename R>
__device__ __forceinline__ void on_circle(R turn, R* made) {
    const R angle = R(6.283185307179586) * turn;
    made[0] = cos(angle);
    made[1] = sin(angle);
}
#endif

template <typename R>
__device__ __forceinline__ void box_muller(R radius, R turn, R* made) {
    const R size = sqrt(R(-2) * log(radius));
    on_circle(turn, made);
    made[0] *= size;
    made[1] *= size;
}

// 16 bytes of normal numbers. What the radius is made of is in (0, 1] and has all the bits that there are: they reach into the tail.
__device__ __forceinline__ void normal_of(const Words& w, float* made) {
    for (int i = 0; i < 4; i += 2)
        box_muller((float)w.at[i] * 2.3283064365386963e-10f + 1.1641532182693481e-10f, (float)(w.at[i + 1] >> 8) * 5.9604644775390625e-8f,
                   made + i);
}

__device__ __forceinline__ void normal_of(const Words& w, double* made) {
    box_muller((double)((both(w.at[1], w.at[0]) >> 11) + 1) * 1.1102230246251565e-16,
               (double)(both(w.at[3], w.at[2]) >> 11) * 1.1102230246251565e-16, made);
}

// Two steps that the compiler must not make one of.
#ifdef __CUDACC__
__device__ __forceinline__ float times(float x, float y) { return __fmul_rn(x, y); }

__device__ __forceinline__ float plus(float x, float y) { return __fadd_rn(x, y); }

__device__ __forceinline__ double times(double x, double y) { return __dmul_rn(x, y); }

__device__ __forceinline__ double plus(double x, double y) { return __dadd_rn(x, y); }
#else
template <typename R>
__device__ __forceinline__ R times(R x, R y) { return x * y; }

template <typename R>
__device__ __forceinline__ R plus(R x, R y) { return x + y; }
#endif

// A number as an element holds it.
__device__ __forceinline__ real held(real x) {
    STORAGE element;
    store(element, x);
    return load(element);
}

template <typename To, typename From>
__device__ __forceinline__ void put(To& to, From x) {
    store(to, x);
}

__device__ __forceinline__ void put(long long& to, long long x) { to = x; }

__device__ __forceinline__ void bits_of(const Words& w, unsigned long long* made) {
    for (int i = 0; i < 2; ++i) made[i] = both(w.at[2 * i + 1], w.at[2 * i]);
}

// Writes count elements of out; `make` turns the words of one counter into 16 bytes of numbers, `finish` one of these and its place into
// an element.
template <typename Drawn, typename To, typename Make, typename Finish>
__device__ __forceinline__ void fill(const long long* place, long long seed, long long draw, To* out, INDEX count, Make make, Finish finish) {
    const int each = (int)(16 / sizeof(Drawn));
    for (INDEX block = (INDEX)blockIdx.x * blockDim.x + threadIdx.x; block * each < count; block += (INDEX)gridDim.x * blockDim.x) {
        Drawn made[each];
        make(words_of(place, seed, draw, (unsigned long long)block), made);
        for (int i = 0; i < each; ++i)
            if (block * each + i < count) put(out[block * each + i], finish(made[i], block * each + i));
    }
}

template <typename R, typename To, typename Finish>
__device__ __forceinline__ void fill_uniform(const long long* place, long long seed, long long draw, To* out, INDEX count, Finish finish) {
    fill<R>(place, seed, draw, out, count, [](const Words& w, R* made) { uniform_of(w, made); }, finish);
}

template <typename To, typename Finish>
__device__ __forceinline__ void fill_bits(const long long* place, long long seed, long long draw, To* out, INDEX count, Finish finish) {
    fill<unsigned long long>(place, seed, draw, out, count, [](const Words& w, unsigned long long* made) { bits_of(w, made); }, finish);
}

extern "C" __global__ void __launch_bounds__(256)
    philox_uniform(const long long* place, long long seed, long long draw, double scale, double shift, STORAGE* out, INDEX count) {
    fill_uniform<real>(place, seed, draw, out, count, [=](real x, INDEX) { return plus(times(x, (real)scale), (real)shift); });
}

extern "C" __global__ void __launch_bounds__(256)
    philox_normal(const long long* place, long long seed, long long draw, double scale, double shift, STORAGE* out, INDEX count) {
    fill<real>(place, seed, draw, out, count, [](const Words& w, real* made) { normal_of(w, made); },
               [=](real x, INDEX) { return plus(held(times(held(x), (real)scale)), (real)shift); });
}

extern "C" __global__ void __launch_bounds__(256)
    philox_exponential(const long long* place, long long seed, long long draw, double rate, STORAGE* out, INDEX count) {
    fill_uniform<real>(place, seed, draw, out, count, [=](real x, INDEX) { return -log1p(-x) / (real)rate; });
}

// Numbers whose logarithms are normal.
extern "C" __global__ void __launch_bounds__(256)
    philox_log_normal(const long long* place, long long seed, long long draw, double scale, double shift, STORAGE* out, INDEX count) {
    fill<real>(place, seed, draw, out, count, [](const Words& w, real* made) { normal_of(w, made); },
               [=](real x, INDEX) { return exp(held(plus(held(times(held(x), (real)scale)), (real)shift))); });
}

// Of a Cauchy distribution: the tangent of an angle, which is never so near a quarter turn that its cosine is 0.
extern "C" __global__ void __launch_bounds__(256)
    philox_cauchy(const long long* place, long long seed, long long draw, double scale, double shift, STORAGE* out, INDEX count) {
    const real least = sizeof(real) == 4 ? real(2.9802322387695312e-8) : real(5.5511151231257827e-17);  // half of the step between numbers
    fill_uniform<real>(place, seed, draw, out, count, [=](real x, INDEX) {
        real at[2];
        on_circle(((x > 0 ? x : least) - real(0.5)) * real(0.5), at);
        return plus(times(at[1] / at[0], (real)scale), (real)shift);
    });
}

// Tries until the first success; `rate` is log(1 - p) of its chance p.
extern "C" __global__ void __launch_bounds__(256)
    philox_geometric(const long long* place, long long seed, long long draw, double rate, STORAGE* out, INDEX count) {
    fill_uniform<double>(place, seed, draw, out, count, [=](double x, INDEX) {
        const double tries = ceil(log1p(-x) / rate);
        return (real)(tries > 1 ? tries : 1.0);
    });
}

// Whole numbers from low on, so many, which is read without a sign; of 0 all that 64 bits hold.
extern "C" __global__ void __launch_bounds__(256)
    philox_bits(const long long* place, long long seed, long long draw, long long many, long long low, long long* out, INDEX count) {
    const unsigned long long span = (unsigned long long)many;
    fill_bits(place, seed, draw, out, count, [=](unsigned long long x, INDEX) { return (long long)((span ? x % span : x) + (unsigned long long)low); });
}

// Uniform in [0, 1) on so many levels, a power of two.
extern "C" __global__ void __launch_bounds__(256)
    philox_levels(const long long* place, long long seed, long long draw, int levels, STORAGE* out, INDEX count) {
    fill_bits(place, seed, draw, out, count, [=](unsigned long long x, INDEX) { return (real)(x % (unsigned)levels) / (real)levels; });
}

// 1 with a chance, else 0; `chances` has one for each element, or is null.
extern "C" __global__ void __launch_bounds__(256)
    philox_bernoulli(const long long* place, long long seed, long long draw, const STORAGE* chances, double chance, STORAGE* out, INDEX count) {
    fill_uniform<double>(place, seed, draw, out, count,
                         [=](double x, INDEX i) { return (real)(x < (chances ? (double)load(chances[i]) : chance)); });
}

// 0 with a chance, else a factor.
extern "C" __global__ void __launch_bounds__(256)
    philox_dropout(const long long* place, long long seed, long long draw, double chance, double factor, STORAGE* out, INDEX count) {
    fill_uniform<float>(place, seed, draw, out, count, [=](float x, INDEX) { return x >= (float)chance ? (real)factor : real(0); });
}

// When exponential clocks of these rates ring: infinity for a rate of zero.
extern "C" __global__ void __launch_bounds__(256)
    philox_race(const long long* place, long long seed, long long draw, const STORAGE* rates, double* out, INDEX count) {
    fill_uniform<double>(place, seed, draw, out, count, [=](double x, INDEX i) {
        const double rate = (double)load(rates[i]);
        return rate > 0 ? -log1p(-x) / rate : (double)__uint_as_float(0x7f800000u);
    });
}

// Places in rows of weights, so many draws from each: the first at which the sum of the weights before and there exceeds a number. Row r
// is looked for between r and r + 1.
extern "C" __global__ void __launch_bounds__(256)
    philox_places(const long long* place, long long seed, long long draw, const STORAGE* weights, int columns, INDEX each, long long* out,
                  INDEX count) {
    fill_uniform<double>(place, seed, draw, out, count, [=](double x, INDEX i) {
        const INDEX row = i / each;
        const STORAGE* at = weights + row * columns;
        double total = 0, sum = 0;
        for (int k = 0; k < columns; ++k) total += (double)load(at[k]);
        const double wanted = plus(x, (double)row);
        long long found = 0;
        for (; found < columns - 1; ++found) {
            sum += (double)load(at[found]);
            if (sum >= total || plus(sum / total, (double)row) > wanted) break;
        }
        return found;
    });
}
