// How a library call is put into stream order: what it reads and writes, then the work itself as a lambda.
#pragma once
#include <type_traits>
#include <utility>

#include "hostcuda.h"

namespace hostcuda {

// The memory of a matrix in column order: rows x columns with ld elements from one column to the next.
struct Span {
    const void* start;
    std::size_t bytes;
};

template <class T> Span vector(const T* start, long long count, long long step = 1) {
    if (step < 0) step = -step;
    return {start, start && count > 0 ? std::size_t((count - 1) * step + 1) * sizeof(T) : 0};
}

inline Span matrix(const void* start, std::size_t item, long long rows, long long columns, long long ld) {
    return {start, start && rows > 0 && columns > 0 ? std::size_t((columns - 1) * ld + rows) * item : 0};
}

template <class T> Span matrix(const T* start, long long rows, long long columns, long long ld) {
    return matrix(start, sizeof(T), rows, columns, ld);
}

// One call under construction: `Call(stream, name).reads(a).writes(c).run(work)`; run returns 0 or CUDA's error.
class Call {
  public:
    Call(void* stream, const char* name) : stream_(stream), name_(name) {}

    Call& reads(Span span) {
        hostcuda_reads(stream_, span.start, span.bytes);
        return *this;
    }

    Call& writes(Span span) {
        hostcuda_writes(stream_, span.start, span.bytes);
        return *this;
    }

    Call& changes(Span span) { return reads(span).writes(span); }

    template <class F> int run(F work) {
        return hostcuda_enqueue(
            stream_, [](void* data) { (*static_cast<F*>(data))(); }, new F(std::move(work)),
            [](void* data) { delete static_cast<F*>(data); }, name_);
    }

    // An array of pointers that lies on the device: it is declared and its order checked before it is read, here, for what it points to.
    template <class T, class Each> int each(T* const* pointers, int count, Each declare) {
        if (const int error = reads(vector(pointers, count)).run([] {})) return error;
        reads(vector(pointers, count));
        for (int i = 0; i < count; ++i) declare(pointers[i]);
        return 0;
    }

  private:
    void* stream_;
    const char* name_;
};

}  // namespace hostcuda
