// cuRAND for CuPy: Philox 4x32-10 (Salmon, Moraes, Dror and Shaw, 2011) and XORWOW (Marsaglia, 2003).
//
// The bits and how they become floating-point numbers are those of cuRAND's guide. The order in which a GPU's many threads write them is
// the one that the guide names CURAND_ORDERING_PSEUDO_LEGACY: Philox deals out groups of four results over 65536 subsequences, XORWOW
// single results over 4096 subsequences that lie 2^67 steps apart. README.md says what of this cannot be known without a GPU.
#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstdio>
#include <random>
#include <vector>

#include "library.h"

using namespace hostcuda;

namespace {

enum Status { SUCCESS = 0, NOT_INITIALIZED = 101, TYPE_ERROR = 103, OUT_OF_RANGE = 104, LENGTH_NOT_MULTIPLE = 105, LAUNCH_FAILURE = 201 };
enum Method { PSEUDO_DEFAULT = 100, XORWOW = 101, PHILOX4_32_10 = 161 };

using Four = std::array<uint32_t, 4>;

Four philox(Four counter, uint32_t key0, uint32_t key1) {
    for (int round = 0; round < 10; ++round) {
        const uint64_t a = uint64_t(0xD2511F53u) * counter[0], b = uint64_t(0xCD9E8D57u) * counter[2];
        counter = {uint32_t(b >> 32) ^ counter[1] ^ key0, uint32_t(b), uint32_t(a >> 32) ^ counter[3] ^ key1, uint32_t(a)};
        key0 += 0x9E3779B9u, key1 += 0xBB67AE85u;
    }
    return counter;
}

// ---- XORWOW: five words that are shifted linearly over the field of two elements, and a sixth that counts
// --------------------------------

using Words = std::array<uint32_t, 5>;
constexpr int BITS = 160;
using Matrix = std::array<Words, BITS>;  // what becomes of each single bit

void shift(Words& v) {
    const uint32_t t = v[0] ^ (v[0] >> 2);
    v = {v[1], v[2], v[3], v[4], (v[4] ^ (v[4] << 4)) ^ (t ^ (t << 1))};
}

Words product(const Matrix& matrix, const Words& v) {
    Words sum{};
    for (int bit = 0; bit < BITS; ++bit)
        if (v[bit / 32] >> bit % 32 & 1)
            for (int word = 0; word < 5; ++word) sum[word] ^= matrix[bit][word];
    return sum;
}

const Matrix& jump() {  // 2^67 steps at once
    static const Matrix made = [] {
        Matrix power{};
        for (int bit = 0; bit < BITS; ++bit) {
            power[bit][bit / 32] = 1u << bit % 32;
            shift(power[bit]);
        }
        for (int doubling = 0; doubling < 67; ++doubling) {
            Matrix twice;
            for (int bit = 0; bit < BITS; ++bit) twice[bit] = product(power, power[bit]);
            power = twice;
        }
        return power;
    }();
    return made;
}

struct Xorwow {
    Words v;
    uint32_t d;

    explicit Xorwow(uint64_t seed) {
        const uint32_t t0 = 1099087573u * (uint32_t(seed) ^ 0xaad26b49u), t1 = 2591861531u * (uint32_t(seed >> 32) ^ 0xf7dcefddu);
        v = {123456789u + t0, 362436069u ^ t0, 521288629u + t1, 88675123u ^ t1, 5783321u + t0};
        d = 6615241u + t1 + t0;
    }
    uint32_t next() {
        shift(v);
        return v[4] + (d += 362437u);
    }
};

// ---- the order of a generator
// ------------------------------------------------------------------------------------------------------------

struct Stream {
    int method = XORWOW;
    uint64_t seed = 0, offset = 0;
};

// `draws` words of 32 bits for each of the results, in the order of the results: what `use(result, words)` receives. `group` neighbouring
// results come from the same subsequence one after the other, as the function of the device API makes them at once.
template <int group, int draws, class Use> void each_result(const Stream& stream, size_t count, Use use) {
    const uint64_t first = stream.offset;
    if (stream.method == PHILOX4_32_10) {
        for (uint64_t at = first / 4; at * 4 < first + count; ++at) {  // four results from one subsequence, `draws` counters in a row
            std::array<uint32_t, 4 * draws> words;
            for (int part = 0; part < draws; ++part) {
                const uint64_t step = at / 65536 * draws + part;
                const Four made = philox({uint32_t(step), uint32_t(step >> 32), uint32_t(at % 65536), 0}, uint32_t(stream.seed),
                                         uint32_t(stream.seed >> 32));
                std::copy(made.begin(), made.end(), words.begin() + 4 * part);
            }
            for (uint64_t result = std::max(first, at * 4); result < std::min(first + count, at * 4 + 4); ++result)
                use(result - first, &words[(result % 4) / group * group * draws]);
        }
        return;
    }
    // Result n comes from subsequence (n / group) mod 4096, so the subsequences are walked one by one.
    Xorwow state(stream.seed);
    const uint64_t groups = (first + count + group - 1) / group, from = first / group;
    for (uint64_t subsequence = 0; subsequence < std::min<uint64_t>(4096, groups); ++subsequence) {
        if (subsequence) state.v = product(jump(), state.v);
        Xorwow walk = state;
        for (uint64_t at = subsequence; at < groups; at += 4096) {
            std::array<uint32_t, group * draws> words;
            for (auto& word : words) word = walk.next();
            if (at < from) continue;
            for (uint64_t result = std::max(first, at * group); result < std::min(first + count, (at + 1) * group); ++result)
                use(result - first, words.data());
        }
    }
}

float uniform(uint32_t x) { return std::fma(float(x), 0x1p-32f, 0x1p-33f); }

double uniform(uint32_t x, uint32_t y) { return std::fma(double(uint64_t(x) ^ uint64_t(y) << 21), 0x1p-53, 0x1p-54); }

// Box and Muller's pair: the sine for the even result, the cosine for the odd one.
float normal(const uint32_t* words, bool odd) {
    const float length = std::sqrt(-2.0f * std::log(uniform(words[0])));
    const float angle = std::fma(float(words[1]), float(6.283185307179586 * 0x1p-32), float(6.283185307179586 * 0x1p-33));
    return length * (odd ? std::cos(angle) : std::sin(angle));
}

double normal_double(const uint32_t* words, bool odd) {
    const double length = std::sqrt(-2.0 * std::log(uniform(words[0], words[1])));
    const double angle = 3.141592653589793 * std::fma(double(uint64_t(words[2]) ^ uint64_t(words[3]) << 21), 0x1p-52, 0x1p-53);
    return length * (odd ? std::cos(angle) : std::sin(angle));
}

// The bits that std::poisson_distribution draws from: splitmix64 (Steele, Lea and Flood, 2014) from where the generator's two words start
// it.
struct Mixer {
    using result_type = uint64_t;
    uint64_t state;

    static constexpr uint64_t min() { return 0; }
    static constexpr uint64_t max() { return ~uint64_t(0); }
    uint64_t operator()() {
        state += 0x9E3779B97F4A7C15u;
        uint64_t x = (state ^ state >> 30) * 0xBF58476D1CE4E5B9u;
        x = (x ^ x >> 27) * 0x94D049BB133111EBu;
        return x ^ x >> 31;
    }
};

}  // namespace

struct curandGenerator_st {
    void* queue = nullptr;
    Stream stream;

    // Queue the results and move on: the position is the host's, so what follows does not depend on when the work runs.
    template <int group, int draws, class T, class Make> int generate(const char* name, T* to, size_t count, Make make) {
        const Stream from = stream;
        stream.offset += (count + 3) / 4 * 4;
        const int error = Call(queue, name).writes(vector(to, (long long)count)).run([=] {
            each_result<group, draws>(from, count, [&](size_t i, const uint32_t* words) { to[i] = make(words, from.offset + i); });
        });
        return error ? LAUNCH_FAILURE : SUCCESS;
    }
};

using Generator = curandGenerator_st;

extern "C" {

int curandGetVersion(int* version) { return *version = 10310, SUCCESS; }
int curandGetProperty(int which, int* value) {
    const int version[] = {10, 3, 10};
    if (which < 0 || which > 2) return OUT_OF_RANGE;
    return *value = version[which], SUCCESS;
}

int curandCreateGenerator(Generator** generator, int method) {
    if (method == PSEUDO_DEFAULT) method = XORWOW;
    if (method != XORWOW && method != PHILOX4_32_10) {
        std::fprintf(stderr, "hostcuda: curandCreateGenerator knows XORWOW (101) and Philox 4x32-10 (161), not the generator %d\n", method);
        return TYPE_ERROR;
    }
    *generator = new Generator();
    (*generator)->stream.method = method;
    return SUCCESS;
}
int curandDestroyGenerator(Generator* generator) { return delete generator, SUCCESS; }
int curandSetStream(Generator* generator, void* stream) { return generator->queue = stream, SUCCESS; }
int curandSetPseudoRandomGeneratorSeed(Generator* generator, unsigned long long seed) {
    generator->stream.seed = seed;
    generator->stream.offset = 0;
    return SUCCESS;
}
int curandSetGeneratorOffset(Generator* generator, unsigned long long offset) { return generator->stream.offset = offset, SUCCESS; }
int curandSetGeneratorOrdering(Generator*, int order) {
    return order == 100 || order == 101 || order == 103 ? SUCCESS : OUT_OF_RANGE;  // best, default, legacy: all of them legacy here
}

int curandGenerate(Generator* generator, unsigned* to, size_t count) {
    return generator->generate<1, 1>(__func__, to, count, [](const uint32_t* words, uint64_t) { return words[0]; });
}
int curandGenerateLongLong(Generator*, unsigned long long*, size_t) { return TYPE_ERROR; }  // for 64-bit quasirandom generators only
int curandGenerateUniform(Generator* generator, float* to, size_t count) {
    return generator->generate<1, 1>(__func__, to, count, [](const uint32_t* words, uint64_t) { return uniform(words[0]); });
}
int curandGenerateUniformDouble(Generator* generator, double* to, size_t count) {
    return generator->generate<1, 2>(__func__, to, count, [](const uint32_t* words, uint64_t) { return uniform(words[0], words[1]); });
}
int curandGenerateNormal(Generator* generator, float* to, size_t count, float mean, float deviation) {
    if (count % 2) return LENGTH_NOT_MULTIPLE;
    return generator->generate<2, 1>(__func__, to, count,
                                     [=](const uint32_t* words, uint64_t i) { return mean + deviation * normal(words, i % 2); });
}
int curandGenerateNormalDouble(Generator* generator, double* to, size_t count, double mean, double deviation) {
    if (count % 2) return LENGTH_NOT_MULTIPLE;
    return generator->generate<2, 2>(__func__, to, count,
                                     [=](const uint32_t* words, uint64_t i) { return mean + deviation * normal_double(words, i % 2); });
}
int curandGenerateLogNormal(Generator* generator, float* to, size_t count, float mean, float deviation) {
    if (count % 2) return LENGTH_NOT_MULTIPLE;
    return generator->generate<2, 1>(__func__, to, count,
                                     [=](const uint32_t* words, uint64_t i) { return std::exp(mean + deviation * normal(words, i % 2)); });
}
int curandGenerateLogNormalDouble(Generator* generator, double* to, size_t count, double mean, double deviation) {
    if (count % 2) return LENGTH_NOT_MULTIPLE;
    return generator->generate<2, 2>(
        __func__, to, count, [=](const uint32_t* words, uint64_t i) { return std::exp(mean + deviation * normal_double(words, i % 2)); });
}
int curandGeneratePoisson(Generator* generator, unsigned* to, size_t count, double mean) {
    if (!(mean > 0)) return OUT_OF_RANGE;
    return generator->generate<1, 2>(__func__, to, count, [=](const uint32_t* words, uint64_t) {
        Mixer bits{uint64_t(words[1]) << 32 | words[0]};
        return std::poisson_distribution<uint32_t>(mean)(bits);
    });
}

// For the tests: one step of Philox on a counter and a key that the caller gives, as the published test vectors have them.
void hostcuda_philox(const uint32_t* counter, const uint32_t* key, uint32_t* result) {
    const Four made = philox({counter[0], counter[1], counter[2], counter[3]}, key[0], key[1]);
    std::copy(made.begin(), made.end(), result);
}

}  // extern "C"
