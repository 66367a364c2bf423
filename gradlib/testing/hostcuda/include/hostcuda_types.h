// CUDA's vector types, and dim3.
#pragma once

#define HOSTCUDA_VECTOR_OF(T, name, align1, align2, align4)                                              \
    struct alignas(align1) name##1 { T x; };                                                             \
    struct alignas(align2) name##2 { T x, y; };                                                          \
    struct name##3 { T x, y, z; };                                                                       \
    struct alignas(align4) name##4 { T x, y, z, w; };                                                    \
    inline name##1 make_##name##1(T x) { return {x}; }                                                   \
    inline name##2 make_##name##2(T x, T y) { return {x, y}; }                                           \
    inline name##3 make_##name##3(T x, T y, T z) { return {x, y, z}; }                                   \
    inline name##4 make_##name##4(T x, T y, T z, T w) { return {x, y, z, w}; }

HOSTCUDA_VECTOR_OF(signed char, char, 1, 2, 4)
HOSTCUDA_VECTOR_OF(unsigned char, uchar, 1, 2, 4)
HOSTCUDA_VECTOR_OF(short, short, 2, 4, 8)
HOSTCUDA_VECTOR_OF(unsigned short, ushort, 2, 4, 8)
HOSTCUDA_VECTOR_OF(int, int, 4, 8, 16)
HOSTCUDA_VECTOR_OF(unsigned int, uint, 4, 8, 16)
HOSTCUDA_VECTOR_OF(long, long, 8, 16, 16)
HOSTCUDA_VECTOR_OF(unsigned long, ulong, 8, 16, 16)
HOSTCUDA_VECTOR_OF(long long, longlong, 8, 16, 16)
HOSTCUDA_VECTOR_OF(unsigned long long, ulonglong, 8, 16, 16)
HOSTCUDA_VECTOR_OF(float, float, 4, 8, 16)
HOSTCUDA_VECTOR_OF(double, double, 8, 16, 16)
#undef HOSTCUDA_VECTOR_OF

struct dim3 {
    unsigned x, y, z;
    constexpr dim3(unsigned x = 1, unsigned y = 1, unsigned z = 1) : x(x), y(y), z(z) {}
    constexpr dim3(hostcuda_index i) : x(i.x), y(i.y), z(i.z) {}
};
