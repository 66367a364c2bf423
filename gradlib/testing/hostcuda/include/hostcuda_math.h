// CUDA's arithmetic functions that C++ does not have, or has in std only.
#pragma once

using std::abs;
using std::isfinite;
using std::isinf;
using std::isnan;
using std::signbit;

// min and max of two numbers of any types; of floating ones that which is not NaN, as on the device.
template <typename A, typename B>
using hostcuda_both = std::enable_if_t<std::is_arithmetic_v<A> && std::is_arithmetic_v<B>, std::common_type_t<A, B>>;

template <typename A, typename B>
constexpr hostcuda_both<A, B> min(A a, B b) {
    using T = std::common_type_t<A, B>;
    if constexpr (std::is_floating_point_v<T>)
        return std::fmin(T(a), T(b));
    else
        return T(a) < T(b) ? T(a) : T(b);
}

template <typename A, typename B>
constexpr hostcuda_both<A, B> max(A a, B b) {
    using T = std::common_type_t<A, B>;
    if constexpr (std::is_floating_point_v<T>)
        return std::fmax(T(a), T(b));
    else
        return T(a) < T(b) ? T(b) : T(a);
}

template <typename To, typename From>
inline To hostcuda_bits(From from) {
    static_assert(sizeof(To) == sizeof(From));
    To to;
    std::memcpy(&to, &from, sizeof to);
    return to;
}

inline int __float_as_int(float x) { return hostcuda_bits<int>(x); }
inline unsigned __float_as_uint(float x) { return hostcuda_bits<unsigned>(x); }
inline float __int_as_float(int x) { return hostcuda_bits<float>(x); }
inline float __uint_as_float(unsigned x) { return hostcuda_bits<float>(x); }
inline long long __double_as_longlong(double x) { return hostcuda_bits<long long>(x); }
inline double __longlong_as_double(long long x) { return hostcuda_bits<double>(x); }
inline int __double2hiint(double x) { return int(hostcuda_bits<unsigned long long>(x) >> 32); }
inline int __double2loint(double x) { return int(hostcuda_bits<unsigned long long>(x)); }
inline double __hiloint2double(int high, int low) { return hostcuda_bits<double>((unsigned long long)(unsigned)high << 32 | (unsigned)low); }

inline int __popc(unsigned x) { return __builtin_popcount(x); }
inline int __popcll(unsigned long long x) { return __builtin_popcountll(x); }
inline int __clz(int x) { return x ? __builtin_clz(unsigned(x)) : 32; }
inline int __clzll(long long x) { return x ? __builtin_clzll((unsigned long long)x) : 64; }
inline int __ffs(int x) { return __builtin_ffs(x); }
inline int __ffsll(long long x) { return __builtin_ffsll(x); }
inline unsigned __umulhi(unsigned a, unsigned b) { return unsigned((unsigned long long)a * b >> 32); }
inline int __mulhi(int a, int b) { return int((long long)a * b >> 32); }
inline unsigned long long __umul64hi(unsigned long long a, unsigned long long b) { return (unsigned long long)((unsigned __int128)a * b >> 64); }
inline long long __mul64hi(long long a, long long b) { return (long long)((__int128)a * b >> 64); }

inline unsigned long long __brevll(unsigned long long x) {
    unsigned long long y = 0;
    for (int i = 0; i < 64; ++i) y |= (x >> i & 1) << (63 - i);
    return y;
}
inline unsigned __brev(unsigned x) { return unsigned(__brevll(x) >> 32); }

// Arithmetic with a named rounding; only to the nearest is exact here.
inline float __fadd_rn(float a, float b) { return a + b; }
inline float __fsub_rn(float a, float b) { return a - b; }
inline float __fmul_rn(float a, float b) { return a * b; }
inline float __fdiv_rn(float a, float b) { return a / b; }
inline float __fmaf_rn(float a, float b, float c) { return std::fma(a, b, c); }
inline float __fsqrt_rn(float a) { return std::sqrt(a); }
inline float __frcp_rn(float a) { return 1 / a; }
inline float __fdividef(float a, float b) { return a / b; }
inline double __dadd_rn(double a, double b) { return a + b; }
inline double __dsub_rn(double a, double b) { return a - b; }
inline double __dmul_rn(double a, double b) { return a * b; }
inline double __ddiv_rn(double a, double b) { return a / b; }
inline double __fma_rn(double a, double b, double c) { return std::fma(a, b, c); }
inline double __dsqrt_rn(double a) { return std::sqrt(a); }
inline float __expf(float x) { return std::exp(x); }
inline float __logf(float x) { return std::log(x); }
inline float __log2f(float x) { return std::log2(x); }
inline float __log10f(float x) { return std::log10(x); }
inline float __sinf(float x) { return std::sin(x); }
inline float __cosf(float x) { return std::cos(x); }
inline float __tanf(float x) { return std::tan(x); }
inline float __powf(float x, float y) { return std::pow(x, y); }
inline float __saturatef(float x) { return std::fmin(std::fmax(x, 0.0f), 1.0f); }

inline float rsqrt(float x) { return 1 / std::sqrt(x); }
inline double rsqrt(double x) { return 1 / std::sqrt(x); }
inline float rsqrtf(float x) { return 1 / std::sqrt(x); }
inline float rcbrt(float x) { return 1 / std::cbrt(x); }
inline double rcbrt(double x) { return 1 / std::cbrt(x); }
inline double hostcuda_sinpi(double x) {
    double r = std::fmod(x, 2.0);
    if (r > 1) r -= 2;
    if (r < -1) r += 2;
    if (r > 0.5) r = 1 - r;
    if (r < -0.5) r = -1 - r;
    return std::sin(M_PI * r);
}
inline double sinpi(double x) { return hostcuda_sinpi(x); }
inline float sinpi(float x) { return float(hostcuda_sinpi(x)); }
inline float sinpif(float x) { return float(hostcuda_sinpi(x)); }
inline double cospi(double x) { return hostcuda_sinpi(std::fabs(std::fmod(x, 2.0)) + 0.5); }
inline float cospi(float x) { return float(cospi(double(x))); }
inline float cospif(float x) { return float(cospi(double(x))); }
inline float exp10(float x) { return std::pow(10.0f, x); }
#ifndef __USE_GNU
inline double exp10(double x) { return std::pow(10.0, x); }
#endif
inline double normcdf(double x) { return 0.5 * std::erfc(-x * M_SQRT1_2); }
inline float normcdf(float x) { return float(normcdf(double(x))); }
inline float normcdff(float x) { return float(normcdf(double(x))); }

// Inverse of the normal distribution: Acklam's rational start, then two steps of Newton on erfc.
inline double normcdfinv(double p) {
    if (!(p > 0)) return p == 0 ? -INFINITY : NAN;
    if (!(p < 1)) return p == 1 ? INFINITY : NAN;
    const double tail = p < 0.5 ? p : 1 - p;
    const double t = std::sqrt(-2 * std::log(tail));
    double x = -(t - (2.515517 + t * (0.802853 + t * 0.010328)) / (1 + t * (1.432788 + t * (0.189269 + t * 0.001308))));
    for (int i = 0; i < 4; ++i) {
        const double error = (0.5 * std::erfc(-x * M_SQRT1_2) - tail) * 2.5066282746310002 * std::exp(x * x / 2);
        x -= error / (1 + x * error / 2);
    }
    return p < 0.5 ? x : -x;
}
inline float normcdfinv(float p) { return float(normcdfinv(double(p))); }
inline float normcdfinvf(float p) { return float(normcdfinv(double(p))); }
inline double erfcinv(double y) { return -normcdfinv(y / 2) * M_SQRT1_2; }
inline double erfinv(double x) {
    if (std::fabs(x) >= 1) return std::fabs(x) == 1 ? std::copysign(INFINITY, x) : NAN;
    if (std::fabs(x) > 0.5) return x > 0 ? erfcinv(1 - x) : -erfcinv(1 + x);
    double y = x * 0.886226925452758;
    for (int i = 0; i < 6; ++i) {
        const double error = (std::erf(y) - x) * 0.886226925452758 * std::exp(y * y);
        y -= error / (1 + y * error);
    }
    return y;
}
inline float erfinv(float x) { return float(erfinv(double(x))); }
inline float erfcinv(float x) { return float(erfcinv(double(x))); }
inline float erfinvf(float x) { return float(erfinv(double(x))); }
inline float erfcinvf(float x) { return float(erfcinv(double(x))); }
inline double erfcx(double x) { return x < 25 ? std::exp(x * x) * std::erfc(x) : 0.5641895835477563 / x * (1 - 0.5 / (x * x)); }
inline float erfcx(float x) { return float(erfcx(double(x))); }
inline double cyl_bessel_i0(double x) { return hostcuda_bessel_i(0.0, std::fabs(x)); }
inline double cyl_bessel_i1(double x) { return std::copysign(hostcuda_bessel_i(1.0, std::fabs(x)), x); }
inline float cyl_bessel_i0(float x) { return float(cyl_bessel_i0(double(x))); }
inline float cyl_bessel_i1(float x) { return float(cyl_bessel_i1(double(x))); }
inline float j0(float x) { return j0f(x); }
inline float j1(float x) { return j1f(x); }
inline float y0(float x) { return y0f(x); }
inline float y1(float x) { return y1f(x); }

// Shifts by as much as a number is wide, or more, which C++ leaves open and x86 takes modulo the width: the device shifts everything out.
template <typename A, typename B>
inline auto hostcuda_shift_left(A a, B b) -> decltype(a << b) {
    return unsigned(b) < sizeof(a << b) * 8 ? a << b : 0;
}
template <typename A, typename B>
inline auto hostcuda_shift_right(A a, B b) -> decltype(a >> b) {
    return unsigned(b) < sizeof(a >> b) * 8 ? a >> b : a < 0 ? -1 : 0;
}

// Where an index along an axis leads; CuPy lets one that lies outside wrap around, without a word.
template <typename I, typename N>
inline N hostcuda_place(I index, N length) {
    static char text[128];
    const long long place = (long long)index;
    if (place >= (long long)length || place < -(long long)length) {
        std::snprintf(text, sizeof text, "the index %lld is outside of an axis of %lld, and wraps around", place, (long long)length);
        hostcuda_trap(text);
    }
    return place < 0 ? place + length : place;
}

template <typename T>
inline T __ldg(const T* at) {
    return *at;
}
