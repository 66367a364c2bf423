// The upper half of a float, with CUDA's names; arithmetic in float, rounded to the nearest, ties to even.
#pragma once
#include <cstring>
#include <type_traits>

inline unsigned short host_float_to_bfloat16(float x) {
    unsigned bits;
    std::memcpy(&bits, &x, sizeof bits);
    if ((bits & 0x7fffffffu) > 0x7f800000u) return (unsigned short)(bits >> 16 | 0x40u);
    return (unsigned short)((bits + 0x7fffu + (bits >> 16 & 1u)) >> 16);
}

struct __nv_bfloat16_raw {
    unsigned short x;
};

struct __nv_bfloat16 {
    unsigned short bits;

    __nv_bfloat16() = default;
    __nv_bfloat16(const __nv_bfloat16_raw& raw) : bits(raw.x) {}
    __nv_bfloat16(float x) : bits(host_float_to_bfloat16(x)) {}
    __nv_bfloat16(double x) : __nv_bfloat16(float(x)) {}
    template <typename T, typename = std::enable_if_t<std::is_integral_v<T>>>
    __nv_bfloat16(T x) : __nv_bfloat16(float(x)) {}
    operator float() const {
        const unsigned wide = unsigned(bits) << 16;
        float x;
        std::memcpy(&x, &wide, sizeof x);
        return x;
    }
    operator __nv_bfloat16_raw() const { return {bits}; }
};
typedef __nv_bfloat16 nv_bfloat16;

inline unsigned short __bfloat16_as_ushort(__nv_bfloat16 x) { return x.bits; }
inline __nv_bfloat16 __ushort_as_bfloat16(unsigned short bits) { return __nv_bfloat16_raw{bits}; }
inline __nv_bfloat16 __float2bfloat16(float x) { return x; }
inline float __bfloat162float(__nv_bfloat16 x) { return x; }
inline bool __hisnan(__nv_bfloat16 x) { return (x.bits & 0x7fff) > 0x7f80; }
inline int __hisinf(__nv_bfloat16 x) { return (x.bits & 0x7fff) != 0x7f80 ? 0 : x.bits & 0x8000 ? -1 : 1; }
