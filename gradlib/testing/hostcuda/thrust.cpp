// Thrust's sorts and CUB's reductions, scans and histograms, which CuPy's wheel holds as compiled device code (cupy.cuda.thrust and
// cupy.cuda.cub). Each of the modules reaches that code through a few C++ functions; libraries.py overwrites their first bytes by a jump to
// the function of the same purpose here. Everything above them, which array is sorted by which function, stays CuPy's.
#include <algorithm>
#include <cstdint>
#include <numeric>
#include <stdexcept>
#include <string>
#include <vector>

#include "library.h"
#include "numbers.h"

using namespace hostcuda;

namespace {

template <class F> void with_dtype(int dtype, F use) {  // CuPy's numbers for dtypes
    switch (dtype) {
    case 0: return use(int8_t());
    case 1: return use(uint8_t());
    case 2: return use(int16_t());
    case 3: return use(uint16_t());
    case 4: return use(int32_t());
    case 5: return use(uint32_t());
    case 6: return use(int64_t());
    case 7: return use(uint64_t());
    case 8: return use(Half());
    case 9: return use(float());
    case 10: return use(double());
    case 11: return use(Complex());
    case 12: return use(DoubleComplex());
    case 13: return use(bool());
    }
    throw std::runtime_error("hostcuda: unknown dtype number " + std::to_string(dtype));
}

void check(int error, const char* name) {
    if (error) throw std::runtime_error(std::string(name) + ": the driver refuses it with cudaError " + std::to_string(error));
}

template <class T> bool is_nan(const T& value) { return value != value; }

// NumPy's order: NaN behind every number, complex numbers by their real parts first. Which sign a NaN bears does not count here; on a GPU
// every NaN that arithmetic makes is positive, and there alone a one-dimensional sort would put a negative one in front.
template <class T> bool before(const T& a, const T& b) {
    if constexpr (is_complex<T>) {
        const int kind_a = 2 * is_nan(a.real()) + is_nan(a.imag()), kind_b = 2 * is_nan(b.real()) + is_nan(b.imag());
        if (kind_a != kind_b) return kind_a < kind_b;
        if (!is_nan(a.real()) && a.real() != b.real()) return a.real() < b.real();
        return !is_nan(a.imag()) && a.imag() < b.imag();
    } else {
        return a < b || (is_nan(b) && !is_nan(a));
    }
}

// One function for all sorts of indices: what std::stable_sort is made of takes long to compile.
template <class T> void sort_indices(size_t* index, size_t count, const T* x) {
    std::stable_sort(index, index + count, [x](size_t a, size_t b) { return before(x[a], x[b]); });
}

long long size_of_shape(const std::vector<std::ptrdiff_t>& shape) {
    return std::accumulate(shape.begin(), shape.end(), 1LL, std::multiplies<>());
}

// ---- reductions and scans
// ----------------------------------------------------------------------------------------------------------------

enum Operation { SUM, MIN, MAX, ARGMIN, ARGMAX, CUMSUM, CUMPROD, PROD };

template <class T> T combined(int operation, const T& a, const T& b) {
    switch (operation) {
    case SUM:
    case CUMSUM: return T(a + b);
    case PROD:
    case CUMPROD: return T(a * b);
    }
    if (is_nan(a)) return a;
    if (is_nan(b)) return b;
    return before(b, a) == (operation == MIN) ? b : a;
}

template <class T> T reduced(int operation, const T* x, long long count) {  // by halves, as threads do it, each step rounded to T
    if (count == 0) return operation == PROD ? T(1) : T(0);
    if (count == 1) return x[0];
    return combined(operation, reduced(operation, x, count / 2), reduced(operation, x + count / 2, count - count / 2));
}

// Where cub::KeyValuePair has its value, behind the key; padding behind that is not written.
template <class T> constexpr size_t VALUE_AT = std::max(sizeof(int), is_complex<T> ? sizeof(T) : alignof(T));

template <class T> int extreme(int operation, const T* x, int count) {
    int best = 0;
    for (int i = 1; i < count && !is_nan(x[best]); ++i)
        if (is_nan(x[i]) || (operation == ARGMAX ? before(x[best], x[i]) : before(x[i], x[best]))) best = i;
    return best;
}

constexpr size_t SPACE = 512;

Span scratch(void* space, size_t bytes) { return {space, bytes}; }

}  // namespace

extern "C" {

void hostcuda_thrust_sort(int dtype, void* data, size_t* keys, const std::vector<std::ptrdiff_t>& shape, intptr_t stream, void*) {
    const long long size = size_of_shape(shape), row = shape.size() == 1 ? size : shape.back();
    with_dtype(dtype, [&](auto zero) {
        using T = decltype(zero);
        T* x = static_cast<T*>(data);
        Call call(reinterpret_cast<void*>(stream), "thrust::stable_sort");
        call.changes(vector(x, size)).writes(vector(keys, shape.size() == 1 ? 0 : size));
        check(call.run([=] {
            for (long long at = 0; at < size; at += row) std::stable_sort(x + at, x + at + row, before<T>);
        }),
              "sort");
    });
}

void hostcuda_thrust_argsort(int dtype, size_t* index, void* data, void* keys, const std::vector<std::ptrdiff_t>& shape, intptr_t stream,
                             void*) {
    const long long size = size_of_shape(shape), row = shape.size() == 1 ? size : shape.back();
    with_dtype(dtype, [&](auto zero) {
        using T = decltype(zero);
        T* x = static_cast<T*>(data);
        Call call(reinterpret_cast<void*>(stream), "thrust::stable_sort_by_key");
        call.changes(vector(x, size)).writes(vector(index, size));
        call.writes(vector(static_cast<size_t*>(keys), shape.size() == 1 ? 0 : size));
        check(call.run([=] {
            for (long long at = 0; at < size; at += row) {
                std::iota(index + at, index + at + row, size_t(0));
                sort_indices(index + at, size_t(row), x + at);
                std::stable_sort(x + at, x + at + row, before<T>);  // the keys are sorted too
            }
        }),
              "argsort");
    });
}

void hostcuda_thrust_lexsort(int dtype, size_t* index, void* keys, size_t count, size_t length, intptr_t stream, void*) {
    with_dtype(dtype, [&](auto zero) {
        using T = decltype(zero);
        const T* x = static_cast<const T*>(keys);
        Call call(reinterpret_cast<void*>(stream), "thrust::stable_sort");
        call.reads(vector(x, (long long)(count * length))).writes(vector(index, (long long)length));
        check(call.run([=] {
            std::iota(index, index + length, size_t(0));
            for (size_t key = 0; key < count; ++key) sort_indices(index, length, x + key * length);
        }),
              "lexsort");
    });
}

// CuPy takes no exception from CUB: what the driver refuses is among its hazards, and the results stay as they were.

size_t hostcuda_cub_reduce_space(void*, void*, int, void*, int, int) { return SPACE; }
size_t hostcuda_cub_segmented_reduce_space(void*, void*, int, int, void*, int, int) { return SPACE; }
size_t hostcuda_cub_scan_space(void*, void*, int, void*, int, int) { return SPACE; }
size_t hostcuda_cub_histogram_range_space(void*, void*, int, void*, size_t, void*, int) { return SPACE; }
size_t hostcuda_cub_histogram_even_space(void*, void*, int, int, int, size_t, void*, int) { return SPACE; }

void hostcuda_cub_segmented_reduce(void* space, size_t& bytes, void* from, void* to, int segments, int length, void* stream, int operation,
                                   int dtype) {
    with_dtype(dtype, [&](auto zero) {
        using T = decltype(zero);
        const T* x = static_cast<const T*>(from);
        T* y = static_cast<T*>(to);
        Call call(stream, "cub::DeviceSegmentedReduce");
        call.reads(vector(x, (long long)segments * length)).writes(vector(y, segments));
        call.writes(scratch(space, bytes));
        call.run([=] {
            for (int i = 0; i < segments; ++i) y[i] = reduced(operation, x + (long long)i * length, length);
        });
    });
}

void hostcuda_cub_reduce(void* space, size_t& bytes, void* from, void* to, int count, void* stream, int operation, int dtype) {
    if (operation != ARGMIN && operation != ARGMAX)
        return hostcuda_cub_segmented_reduce(space, bytes, from, to, 1, count, stream, operation, dtype);
    with_dtype(dtype, [&](auto zero) {
        using T = decltype(zero);
        const T* x = static_cast<const T*>(from);
        char* y = static_cast<char*>(to);
        Call call(stream, operation == ARGMIN ? "cub::DeviceReduce::ArgMin" : "cub::DeviceReduce::ArgMax");
        call.reads(vector(x, count)).writes(vector(y, VALUE_AT<T> + sizeof(T))).writes(scratch(space, bytes));
        call.run([=] {
            const int best = extreme(operation, x, count);
            std::memcpy(y, &best, sizeof best);
            std::memcpy(y + VALUE_AT<T>, x + best, sizeof(T));
        });
    });
}

void hostcuda_cub_scan(void* space, size_t& bytes, void* from, void* to, int count, void* stream, int operation, int dtype) {
    with_dtype(dtype, [&](auto zero) {
        using T = decltype(zero);
        const T* x = static_cast<const T*>(from);
        T* y = static_cast<T*>(to);
        Call call(stream, "cub::DeviceScan");
        call.reads(vector(x, count)).writes(vector(y, count)).writes(scratch(space, bytes));
        call.run([=] {
            T running = x[0];
            y[0] = running;
            for (int i = 1; i < count; ++i) y[i] = running = combined(operation, running, x[i]);
        });
    });
}

void hostcuda_cub_histogram_range(void* space, size_t& bytes, void* from, void* to, int edges, void* bins, size_t count, void* stream,
                                  int dtype) {
    with_dtype(dtype, [&](auto zero) {
        using T = decltype(zero);
        if constexpr (is_complex<T>) {
            throw std::runtime_error("cub::DeviceHistogram counts no complex numbers");
        } else {
            using Edge = std::conditional_t<std::is_integral_v<T>, double, T>;
            const T* x = static_cast<const T*>(from);
            const Edge* edge = static_cast<const Edge*>(bins);
            auto* counts = static_cast<long long*>(to);
            Call call(stream, "cub::DeviceHistogram::HistogramRange");
            call.reads(vector(x, (long long)count)).reads(vector(edge, edges)).writes(vector(counts, edges - 1));
            call.writes(scratch(space, bytes)).run([=] {
                std::fill_n(counts, edges - 1, 0);
                for (size_t i = 0; i < count; ++i) {
                    const auto above = std::upper_bound(edge, edge + edges, Edge(x[i])) - edge;
                    if (above > 0 && above < edges) ++counts[above - 1];
                }
            });
        }
    });
}

void hostcuda_cub_histogram_even(void* space, size_t& bytes, void* from, void* to, int edges, int lower, int upper, size_t count,
                                 void* stream, int dtype) {
    with_dtype(dtype, [&](auto zero) {
        using T = decltype(zero);
        if constexpr (!std::is_integral_v<T>) {
            throw std::runtime_error("cub::DeviceHistogram::HistogramEven is asked for integers only");
        } else {
            const T* x = static_cast<const T*>(from);
            auto* counts = static_cast<long long*>(to);
            Call call(stream, "cub::DeviceHistogram::HistogramEven");
            call.reads(vector(x, (long long)count)).writes(vector(counts, edges - 1));
            call.writes(scratch(space, bytes)).run([=] {
                std::fill_n(counts, edges - 1, 0);
                const double width = double(upper - lower) / (edges - 1);
                for (size_t i = 0; i < count; ++i)
                    if (double(x[i]) >= lower && double(x[i]) < upper) ++counts[int((double(x[i]) - lower) / width)];
            });
        }
    });
}

}  // extern "C"
