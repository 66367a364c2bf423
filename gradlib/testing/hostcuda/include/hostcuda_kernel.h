// CUDA C++ for g++: a kernel source compiles as it stands behind this header. Precompiled, together with the headers that CuPy's own
// sources begin with. `__CUDACC__` is not defined: what a source writes in PTX it must offer in C++ beside it.
//
// Every kernel is compiled on its own, so what this header costs is paid thousands of times: nothing here may be emitted that is not used.
#pragma once
#define _GLIBCXX_BITS_SPECFUN_H 1  // the special functions of C++17: not on the device, and half the time that <cmath> takes
#include <math.h>

#include <cassert>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstring>
#include <initializer_list>
#include <limits>
#include <type_traits>
#include <utility>

#include "../kernels.h"

#define HOSTCUDA 1
#define __CUDACC_VER_MAJOR__ 12
#define __CUDACC_VER_MINOR__ 9

#define __global__
#define __device__
#define __host__
#define __constant__
#define __managed__
#define __grid_constant__
#define __shared__ static __attribute__((section("hostcuda_shared")))
#define __forceinline__ inline __attribute__((always_inline))
#define __noinline__ __attribute__((noinline))
#define __launch_bounds__(...)
#define __align__(n) __attribute__((aligned(n)))

#define threadIdx hostcuda_thread
#define blockIdx hostcuda_block
#define blockDim hostcuda_block_size
#define gridDim hostcuda_grid_size
#define warpSize 32

#include "hostcuda_types.h"

#include "hostcuda_math.h"

#include "hostcuda_threads.h"

#include <cuda_bf16.h>
#include <cuda_fp16.h>

#ifdef HOSTCUDA_CUPY  // what CuPy's own sources begin with; others may use the same names for something else
// Declared inline first, CuPy's functions are so where they are defined, and are emitted only where they are used.
#define HOSTCUDA_INLINE(T) inline T _floor_divide(T, T);
HOSTCUDA_INLINE(int)
HOSTCUDA_INLINE(unsigned)
HOSTCUDA_INLINE(long long)
HOSTCUDA_INLINE(unsigned long long)
HOSTCUDA_INLINE(float)
HOSTCUDA_INLINE(double)
#undef HOSTCUDA_INLINE
inline long long atomicAdd(long long*, long long);
inline float atomicMax(float*, float);
inline float atomicMin(float*, float);
inline double atomicMax(double*, double);
inline double atomicMin(double*, double);

#include <cupy/complex.cuh>

#include <cupy/carray.cuh>

#include <cupy/atomics.cuh>
#include <cupy/math_constants.h>
#endif

#include "hostcuda_module.h"
