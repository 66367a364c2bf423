// The numbers that a GPU's libraries take beyond C++'s own: half, bfloat16, the rounding of TF32, and elements by CUDA's type code.
#pragma once
#include <complex>
#include <cstdint>
#include <cstring>

namespace hostcuda {

template <class To, class From> To bits_as(From value) {
    static_assert(sizeof(To) == sizeof(From));
    To result;
    std::memcpy(&result, &value, sizeof result);
    return result;
}

inline uint16_t half_bits(float value) {  // IEEE binary16, ties to even
    uint32_t bits = bits_as<uint32_t>(value);
    const uint32_t sign = bits >> 16 & 0x8000u;
    bits &= 0x7fffffffu;
    if (bits > 0x7f800000u) return uint16_t(sign | 0x7e00u);
    if (bits >= 0x477ff000u) return uint16_t(sign | 0x7c00u);  // 65520 and above round to infinity
    if (bits < 0x38800000u)  // subnormal: adding 0.5 lines the last place of a float up with 2^-24, binary16's smallest step
        return uint16_t(sign | (bits_as<uint32_t>(bits_as<float>(bits) + 0.5f) - 0x3f000000u));
    return uint16_t(sign | (bits - 0x38000000u + 0xfffu + (bits >> 13 & 1u)) >> 13);
}

inline float half_value(uint16_t half) {
    const uint32_t sign = uint32_t(half & 0x8000u) << 16, rest = half & 0x7fffu;
    if (rest >= 0x7c00u) return bits_as<float>(sign | 0x7f800000u | (rest & 0x3ffu) << 13);
    if (rest >= 0x400u) return bits_as<float>(sign | ((rest << 13) + 0x38000000u));
    return bits_as<float>(sign | bits_as<uint32_t>(float(rest) * 0x1p-24f));
}

inline float rounded_to(float value, int dropped) {  // a float with that many bits of its fraction gone, ties to even
    uint32_t bits = bits_as<uint32_t>(value);
    if ((bits & 0x7f800000u) == 0x7f800000u) return value;
    bits += (1u << (dropped - 1)) - 1u + (bits >> dropped & 1u);
    return bits_as<float>(bits >> dropped << dropped);
}

struct Half {
    uint16_t bits;
    Half(float value = 0) : bits(half_bits(value)) {}
    operator float() const { return half_value(bits); }
};

struct BFloat16 {
    uint16_t bits;
    BFloat16(float value = 0) : bits(value != value ? 0x7fffu : uint16_t(bits_as<uint32_t>(rounded_to(value, 16)) >> 16)) {}
    operator float() const { return bits_as<float>(uint32_t(bits) << 16); }
};

using Complex = std::complex<float>;
using DoubleComplex = std::complex<double>;

template <class T> struct RealOf {
    using type = T;
};
template <class T> struct RealOf<std::complex<T>> {
    using type = T;
};
template <class T> using Real = typename RealOf<T>::type;
template <class T> constexpr bool is_complex = !std::is_same_v<T, Real<T>>;

template <class T> T conjugate(T value) {
    if constexpr (is_complex<T>) return std::conj(value);
    else return value;
}

enum Type { R_32F = 0, R_64F = 1, R_16F = 2, R_8I = 3, C_32F = 4, C_64F = 5, R_32I = 10, R_16BF = 14 };  // cudaDataType

inline size_t size_of(int type) {
    switch (type) {
    case R_8I: return 1;
    case R_16F:
    case R_16BF: return 2;
    case R_32F:
    case R_32I: return 4;
    case R_64F:
    case C_32F: return 8;
    case C_64F: return 16;
    }
    return 0;
}

template <class T> T element(const void* from, int type, size_t index) {
    switch (type) {
    case R_32F: return T(static_cast<const float*>(from)[index]);
    case R_16F: return T(float(static_cast<const Half*>(from)[index]));
    case R_16BF: return T(float(static_cast<const BFloat16*>(from)[index]));
    case R_8I: return T(static_cast<const int8_t*>(from)[index]);
    case R_32I: return T(static_cast<const int32_t*>(from)[index]);
    case R_64F: return T(static_cast<const double*>(from)[index]);
    }
    if constexpr (is_complex<T>) {
        if (type == C_32F) return T(static_cast<const Complex*>(from)[index]);
        if (type == C_64F) return T(static_cast<const DoubleComplex*>(from)[index]);
    }
    return T();
}

template <class T> void set_element(void* to, int type, size_t index, T value) {
    if constexpr (is_complex<T>) {
        if (type == C_32F) static_cast<Complex*>(to)[index] = Complex(value);
        if (type == C_64F) static_cast<DoubleComplex*>(to)[index] = DoubleComplex(value);
    } else {
        switch (type) {
        case R_32F: static_cast<float*>(to)[index] = float(value); break;
        case R_16F: static_cast<Half*>(to)[index] = Half(float(value)); break;
        case R_16BF: static_cast<BFloat16*>(to)[index] = BFloat16(float(value)); break;
        case R_8I: static_cast<int8_t*>(to)[index] = int8_t(value); break;
        case R_32I: static_cast<int32_t*>(to)[index] = int32_t(value); break;
        case R_64F: static_cast<double*>(to)[index] = double(value); break;
        }
    }
}

}  // namespace hostcuda
