// 16-bit floating-point numbers with CUDA's names; arithmetic in float, rounded once, as the device's own is.
#pragma once
#include <cstring>
#include <type_traits>

inline unsigned short host_float_to_half(float x) {
    const _Float16 h = (_Float16)x;
    unsigned short bits;
    std::memcpy(&bits, &h, sizeof bits);
    return bits;
}

inline float host_half_to_float(unsigned short bits) {
    _Float16 h;
    std::memcpy(&h, &bits, sizeof bits);
    return (float)h;
}

struct __half_raw {
    unsigned short x;
};

struct __half {
    unsigned short bits;

    __half() = default;
    __half(const __half_raw& raw) : bits(raw.x) {}
    __half(float x) : bits(host_float_to_half(x)) {}
    __half(double x) {
        const _Float16 h = (_Float16)x;
        std::memcpy(&bits, &h, sizeof bits);
    }
    template <typename T, typename = std::enable_if_t<std::is_integral_v<T>>>
    __half(T x) : __half(double(x)) {}
    operator float() const { return host_half_to_float(bits); }
    operator __half_raw() const { return {bits}; }
};
typedef __half half;

inline unsigned short __half_as_ushort(__half x) { return x.bits; }
inline short __half_as_short(__half x) { return (short)x.bits; }
inline __half __ushort_as_half(unsigned short bits) { return __half_raw{bits}; }
inline __half __short_as_half(short bits) { return __half_raw{(unsigned short)bits}; }
inline __half __float2half(float x) { return x; }
inline __half __float2half_rn(float x) { return x; }
inline __half __double2half(double x) { return x; }
inline float __half2float(__half x) { return x; }
inline bool __hisnan(__half x) { return (x.bits & 0x7fff) > 0x7c00; }
inline int __hisinf(__half x) { return (x.bits & 0x7fff) != 0x7c00 ? 0 : x.bits & 0x8000 ? -1 : 1; }
inline __half __hadd(__half a, __half b) { return float(a) + float(b); }
inline __half __hsub(__half a, __half b) { return float(a) - float(b); }
inline __half __hmul(__half a, __half b) { return float(a) * float(b); }
inline __half __hdiv(__half a, __half b) { return float(a) / float(b); }
inline __half __hneg(__half a) { return __half_raw{(unsigned short)(a.bits ^ 0x8000)}; }
inline bool __heq(__half a, __half b) { return float(a) == float(b); }
inline bool __hlt(__half a, __half b) { return float(a) < float(b); }
