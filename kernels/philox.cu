// Random numbers by counting: element i of draw n of the generator with a seed is a function of these three, whoever computes it when.
//
// Options   STORAGE  float, double, half_t or bfloat16_t       INDEX    int, or long long where the sizes need it
// Shapes    out (count,). place (2,) or null: the seed and the number of draws before, on the device, where a captured graph finds them.
// Threads   one for each counter and so for 16 bytes of random bits: 4 numbers of float, 2 of double and of bits.
// Bytes     writes count elements.
// Source: J. Salmon et al., Parallel random numbers: as easy as 1, 2, 3 (SC 2011), Philox4x32-10; G. Box and M. Muller (1958).
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

// Writes count elements of out; `make` turns the words of one counter into 16 bytes of numbers.
template <typename Make>
__device__ __forceinline__ void fill(const long long* place, long long seed, long long draw, STORAGE* out, INDEX count, Make make) {
    const int each = (int)(16 / sizeof(real));
    for (INDEX block = (INDEX)blockIdx.x * blockDim.x + threadIdx.x; block * each < count; block += (INDEX)gridDim.x * blockDim.x) {
        real made[each];
        make(words_of(place, seed, draw, (unsigned long long)block), made);
        for (int i = 0; i < each; ++i)
            if (block * each + i < count) store(out[block * each + i], made[i]);
    }
}

extern "C" __global__ void __launch_bounds__(256)
    philox_uniform(const long long* place, long long seed, long long draw, STORAGE* out, INDEX count) {
    fill(place, seed, draw, out, count, [](const Words& w, real* made) { uniform_of(w, made); });
}

extern "C" __global__ void __launch_bounds__(256)
    philox_normal(const long long* place, long long seed, long long draw, STORAGE* out, INDEX count) {
    fill(place, seed, draw, out, count, [](const Words& w, real* made) { normal_of(w, made); });
}

extern "C" __global__ void __launch_bounds__(256)
    philox_bits(const long long* place, long long seed, long long draw, long long* out, INDEX count) {
    for (INDEX block = (INDEX)blockIdx.x * blockDim.x + threadIdx.x; block * 2 < count; block += (INDEX)gridDim.x * blockDim.x) {
        const Words w = words_of(place, seed, draw, (unsigned long long)block);
        for (int i = 0; i < 2; ++i)
            if (block * 2 + i < count) out[block * 2 + i] = (long long)both(w.at[2 * i + 1], w.at[2 * i]);
    }
}
