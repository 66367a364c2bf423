// cuBLAS for CuPy, on the BLAS and LAPACK that SciPy brings. What they lack (geam, dgmm, iamin, half precision, packed triangles) is
// written out here. The names, arguments and status codes are those of cuBLAS 12; what only a GPU has, its rounding and its speed, is not.
#include <algorithm>
#include <cmath>
#include <vector>

#include "lapack.h"
#include "library.h"

using namespace hostcuda;

namespace {

enum Status { SUCCESS = 0, NOT_INITIALIZED = 1, INVALID_VALUE = 7, EXECUTION_FAILED = 13, NOT_SUPPORTED = 15 };
enum MathMode { TF32_TENSOR_OP = 3 };
enum Compute {
    F16 = 64,
    F16_PEDANTIC,
    F64 = 70,
    F64_PEDANTIC,
    F32 = 68,
    F32_PEDANTIC,
    I32 = 72,
    I32_PEDANTIC,
    FAST_16F = 74,
    FAST_16BF,
    FAST_TF32 = 77
};

struct Handle {
    void* stream = nullptr;
    int pointer_mode = 0;  // 0: scalars and results lie on the host, 1: on the device
    int math_mode = 0;
};

int status_of(int error) { return error ? EXECUTION_FAILED : SUCCESS; }

char operation(int op) { return op == 0 ? 'N' : op == 1 ? 'T' : 'C'; }
char triangle(int fill) { return fill == 0 ? 'L' : 'U'; }
char side_of(int side) { return side == 0 ? 'L' : 'R'; }
char diagonal(int diag) { return diag == 0 ? 'N' : 'U'; }
bool known(int op) { return op >= 0 && op <= 2; }
bool short_ld(int ld, int rows) { return ld < std::max(1, rows); }

// A scalar argument: taken now where it lies on the host, when the work runs where it lies on the device.
template <class T> class Scalar {
  public:
    Scalar(Handle* handle, const T* from) : device_(handle->pointer_mode ? from : nullptr), host_(device_ ? T() : *from) {}
    void declare(Call& call) const { call.reads(vector(device_, 1)); }
    T value() const { return device_ ? *device_ : host_; }

  private:
    const T* device_;
    T host_;
};

// A result argument: written in stream order where it lies on the device; the host waits for one of its own.
template <class T, class F> int give(Handle* handle, Call& call, T* result, F compute) {
    if (handle->pointer_mode) return status_of(call.writes(vector(result, 1)).run([=] { *result = compute(); }));
    T* made = new T();
    int error = call.run([=] { *made = compute(); });
    if (!error) error = hostcuda_wait(handle->stream);
    *result = *made;
    delete made;
    return status_of(error);
}

// ---- level 1 ---------------------------------------------------------------------------------------------------------------------------

template <class T> const T& at(const T* x, int n, int step, int i) {  // BLAS walks a negative step from the far end
    return x[(step < 0 ? (long long)(i - n + 1) : (long long)i) * step];
}
template <class T> T& at(T* x, int n, int step, int i) { return x[(step < 0 ? (long long)(i - n + 1) : (long long)i) * step]; }

template <class T> Real<T> size_l1(T x) {
    if constexpr (is_complex<T>) return std::abs(x.real()) + std::abs(x.imag());
    else return std::abs(x);
}

template <class T> int extreme(Handle* handle, const char* name, int n, const T* x, int step, int* result, bool largest) {
    Call call(handle->stream, name);
    call.reads(vector(x, n, step));
    return give(handle, call, result, [=] {
        if (n < 1 || step < 1) return 0;
        int best = 0;
        for (int i = 1; i < n; ++i) {
            const auto one = size_l1(at(x, n, step, i)), other = size_l1(at(x, n, step, best));
            if (largest ? one > other : one < other) best = i;
        }
        return best + 1;  // Fortran counts from one
    });
}

template <class T> int asum(Handle* handle, const char* name, int n, const T* x, int step, Real<T>* result) {
    Call call(handle->stream, name);
    call.reads(vector(x, n, step));
    return give(handle, call, result, [=] {
        double sum = 0;
        for (int i = 0; step > 0 && i < n; ++i) sum += size_l1(at(x, n, step, i));
        return Real<T>(sum);
    });
}

template <class T> int nrm2(Handle* handle, const char* name, int n, const T* x, int step, Real<T>* result) {
    Call call(handle->stream, name);
    call.reads(vector(x, n, step));
    return give(handle, call, result, [=] {
        long double sum = 0;  // its range holds the square of every double
        for (int i = 0; step > 0 && i < n; ++i) {
            const T one = at(x, n, step, i);
            sum += (long double)std::real(one) * std::real(one) + (long double)std::imag(one) * std::imag(one);
        }
        return Real<T>(std::sqrt(sum));
    });
}

template <class T> int dot(Handle* handle, const char* name, int n, const T* x, int xs, const T* y, int ys, T* result, bool conjugated) {
    Call call(handle->stream, name);
    call.reads(vector(x, n, xs)).reads(vector(y, n, ys));
    return give(handle, call, result, [=] {
        std::conditional_t<is_complex<T>, DoubleComplex, double> sum = 0;
        for (int i = 0; i < n; ++i) {
            const auto one = decltype(sum)(at(x, n, xs, i));
            sum += (conjugated ? conjugate(one) : one) * decltype(sum)(at(y, n, ys, i));
        }
        return T(sum);
    });
}

template <class T> int axpy(Handle* handle, const char* name, int n, const T* alpha, const T* x, int xs, T* y, int ys) {
    const Scalar<T> factor(handle, alpha);
    Call call(handle->stream, name);
    factor.declare(call);
    return status_of(call.reads(vector(x, n, xs)).changes(vector(y, n, ys)).run([=] {
        for (int i = 0; i < n; ++i) at(y, n, ys, i) += factor.value() * at(x, n, xs, i);
    }));
}

template <class T, class S> int scal(Handle* handle, const char* name, int n, const S* alpha, T* x, int step) {
    const Scalar<S> factor(handle, alpha);
    Call call(handle->stream, name);
    factor.declare(call);
    return status_of(call.changes(vector(x, n, step)).run([=] {
        for (int i = 0; step > 0 && i < n; ++i) x[(long long)i * step] *= factor.value();
    }));
}

// ---- level 2 ---------------------------------------------------------------------------------------------------------------------------

template <class T>
int gemv(Handle* handle, const char* name, int op, int m, int n, const T* alpha, const T* A, int lda, const T* x, int xs, const T* beta,
         T* y, int ys) {
    if (!known(op) || m < 0 || n < 0 || short_ld(lda, m) || !xs || !ys) return INVALID_VALUE;
    const Scalar<T> a(handle, alpha), b(handle, beta);
    Call call(handle->stream, name);
    a.declare(call), b.declare(call);
    const int rows = op ? n : m, columns = op ? m : n;
    call.reads(matrix(A, m, n, lda)).reads(vector(x, columns, xs)).writes(vector(y, rows, ys));
    if (handle->pointer_mode || b.value() != T(0)) call.reads(vector(y, rows, ys));
    return status_of(call.run([=] { fortran<T>("gemv", operation(op), m, n, a.value(), A, lda, x, xs, b.value(), y, ys); }));
}

template <class T>
int ger(Handle* handle, const char* name, int m, int n, const T* alpha, const T* x, int xs, const T* y, int ys, T* A, int lda,
        bool conjugated) {
    if (m < 0 || n < 0 || short_ld(lda, m) || !xs || !ys) return INVALID_VALUE;
    const Scalar<T> a(handle, alpha);
    Call call(handle->stream, name);
    a.declare(call);
    call.reads(vector(x, m, xs)).reads(vector(y, n, ys)).changes(matrix(A, m, n, lda));
    return status_of(call.run([=] {
        fortran<T>(!is_complex<T> ? "ger" : conjugated ? "gerc" : "geru", m, n, a.value(), x, xs, y, ys, A, lda);
    }));
}

template <class T>
int sbmv(Handle* handle, const char* name, int fill, int n, int k, const T* alpha, const T* A, int lda, const T* x, int xs, const T* beta,
         T* y, int ys) {
    if (n < 0 || k < 0 || lda < k + 1 || !xs || !ys) return INVALID_VALUE;
    const Scalar<T> a(handle, alpha), b(handle, beta);
    Call call(handle->stream, name);
    a.declare(call), b.declare(call);
    call.reads(matrix(A, k + 1, n, lda)).reads(vector(x, n, xs)).changes(vector(y, n, ys));
    return status_of(call.run([=] { fortran<T>("sbmv", triangle(fill), n, k, a.value(), A, lda, x, xs, b.value(), y, ys); }));
}

// ---- matrix products -------------------------------------------------------------------------------------------------------------------

struct Shape {
    int opA, opB, m, n, k, lda, ldb, ldc;

    bool wrong() const {
        return !known(opA) || !known(opB) || m < 0 || n < 0 || k < 0 || short_ld(lda, opA ? k : m) || short_ld(ldb, opB ? n : k) ||
               short_ld(ldc, m);
    }
    Span of_A(const void* A, size_t item) const { return matrix(A, item, opA ? k : m, opA ? m : k, lda); }
    Span of_B(const void* B, size_t item) const { return matrix(B, item, opB ? n : k, opB ? k : n, ldb); }
    Span of_C(const void* C, size_t item) const { return matrix(C, item, m, n, ldc); }
};

template <class T> std::vector<T> narrowed(const T* from, int rows, int columns, int ld, int dropped) {
    std::vector<T> made(size_t(rows) * columns);
    for (int j = 0; j < columns; ++j)
        for (int i = 0; i < rows; ++i) {
            const T one = from[i + size_t(j) * ld];
            if constexpr (is_complex<T>) made[i + size_t(j) * rows] = {rounded_to(one.real(), dropped), rounded_to(one.imag(), dropped)};
            else made[i + size_t(j) * rows] = rounded_to(one, dropped);
        }
    return made;
}

template <class T> void product(const Shape& s, T alpha, const T* A, const T* B, T beta, T* C, int dropped = 0) {
    if constexpr (std::is_same_v<Real<T>, float>)
        if (dropped) {  // tensor cores take shorter factors and add up in float
            const int ra = s.opA ? s.k : s.m, ca = s.opA ? s.m : s.k, rb = s.opB ? s.n : s.k, cb = s.opB ? s.k : s.n;
            const auto shortA = narrowed(A, ra, ca, s.lda, dropped), shortB = narrowed(B, rb, cb, s.ldb, dropped);
            fortran<T>("gemm", operation(s.opA), operation(s.opB), s.m, s.n, s.k, alpha, shortA.data(), std::max(1, ra), shortB.data(),
                       std::max(1, rb), beta, C, s.ldc);
            return;
        }
    fortran<T>("gemm", operation(s.opA), operation(s.opB), s.m, s.n, s.k, alpha, A, s.lda, B, s.ldb, beta, C, s.ldc);
}

// gemm of any kind: a batch of one, one by strides or one by pointers differ only in where the matrices lie.
template <class T> struct Product {
    Handle* handle;
    Call call;
    Scalar<T> alpha, beta;
    Shape shape;
    int dropped;
    bool reads_C;

    Product(Handle* handle, const char* name, const Shape& shape, const T* alpha, const T* beta)
        : handle(handle),
          call(handle->stream, name),
          alpha(handle, alpha),
          beta(handle, beta),
          shape(shape),
          dropped((handle->math_mode & 15) == TF32_TENSOR_OP ? 13 : 0),
          reads_C(handle->pointer_mode || this->beta.value() != T(0)) {
        this->alpha.declare(call), this->beta.declare(call);
    }
    void declare(const T* A, const T* B, T* C) {
        call.reads(shape.of_A(A, sizeof(T))).reads(shape.of_B(B, sizeof(T))).writes(shape.of_C(C, sizeof(T)));
        if (reads_C) call.reads(shape.of_C(C, sizeof(T)));
    }
    template <class Place> int run(int count, Place place) {
        const auto [a, b, s, d] = std::tuple(alpha, beta, shape, dropped);
        return status_of(call.run([=] {
            for (int i = 0; i < count; ++i) {
                const auto [A, B, C] = place(i);
                product(s, a.value(), A, B, b.value(), C, d);
            }
        }));
    }
};

template <class T>
int gemm(Handle* handle, const char* name, const Shape& shape, const T* alpha, const T* A, long long sa, const T* B, long long sb,
         const T* beta, T* C, long long sc, int count) {
    if (shape.wrong() || count < 0) return INVALID_VALUE;
    Product<T> made(handle, name, shape, alpha, beta);
    for (int i = 0; i < count; ++i) made.declare(A + i * sa, B + i * sb, C + i * sc);
    return made.run(count, [=](int i) { return std::tuple(A + i * sa, B + i * sb, C + i * sc); });
}

template <class T>
int gemm_pointers(Handle* handle, const char* name, const Shape& shape, const T* alpha, const T* const* A, const T* const* B, const T* beta,
                  T* const* C, int count) {
    if (shape.wrong() || count < 0) return INVALID_VALUE;
    Product<T> made(handle, name, shape, alpha, beta);
    Call& call = made.call;
    if (call.each(A, count, [](auto) {}) || call.each(B, count, [](auto) {}) || call.each(C, count, [](auto) {})) return EXECUTION_FAILED;
    for (int i = 0; i < count; ++i) made.declare(A[i], B[i], C[i]);
    return made.run(count, [=](int i) { return std::tuple(A[i], B[i], C[i]); });
}

// ---- products of mixed types -----------------------------------------------------------------------------------------------------------

template <class W> std::vector<W> widened(const void* from, int type, int rows, int columns, int ld) {
    std::vector<W> made(size_t(rows) * columns);
    for (int j = 0; j < columns; ++j)
        for (int i = 0; i < rows; ++i) made[i + size_t(j) * rows] = element<W>(from, type, i + size_t(j) * ld);
    return made;
}

// The sum kept in half precision after each step, as a GPU keeps it with the compute type 16F.
void product_in_half(const Shape& s, float alpha, const float* A, const float* B, float beta, float* C) {
    for (int j = 0; j < s.n; ++j)
        for (int i = 0; i < s.m; ++i) {
            Half sum = 0;
            for (int l = 0; l < s.k; ++l) {
                const float a = A[s.opA ? l + size_t(i) * s.lda : i + size_t(l) * s.lda];
                sum = Half(sum + a * B[s.opB ? j + size_t(l) * s.ldb : l + size_t(j) * s.ldb]);
            }
            float& place = C[i + size_t(j) * s.ldc];
            place = alpha * sum + (beta != 0 ? beta * place : 0);
        }
}

struct Mixed {
    const void* A;
    const void* B;
    void* C;
    int typeA, typeB, typeC, compute;
};

template <class W> void mixed_product(Shape s, const Mixed& x, W alpha, W beta) {
    const int ra = s.opA ? s.k : s.m, ca = s.opA ? s.m : s.k, rb = s.opB ? s.n : s.k, cb = s.opB ? s.k : s.n;
    auto A = widened<W>(x.A, x.typeA, ra, ca, s.lda), B = widened<W>(x.B, x.typeB, rb, cb, s.ldb);
    auto C = beta != W(0) ? widened<W>(x.C, x.typeC, s.m, s.n, s.ldc) : std::vector<W>(size_t(s.m) * s.n);
    Shape tight = s;
    tight.lda = std::max(1, ra), tight.ldb = std::max(1, rb), tight.ldc = std::max(1, s.m);
    const int dropped = x.compute == FAST_TF32 || x.compute == FAST_16F ? 13 : x.compute == FAST_16BF ? 16 : 0;
    if constexpr (std::is_same_v<W, float>) {
        if (x.compute == F16 || x.compute == F16_PEDANTIC) product_in_half(tight, alpha, A.data(), B.data(), beta, C.data());
        else product(tight, alpha, A.data(), B.data(), beta, C.data(), dropped);
    } else {
        product(tight, alpha, A.data(), B.data(), beta, C.data(), dropped);
    }
    for (int j = 0; j < s.n; ++j)
        for (int i = 0; i < s.m; ++i) set_element<W>(x.C, x.typeC, i + size_t(j) * s.ldc, C[i + size_t(j) * s.m]);
}

template <class W, class S>
int gemm_mixed(Handle* handle, const char* name, const Shape& shape, const void* alpha, const Mixed& x, long long sa, long long sb,
               const void* beta, long long sc, int count) {
    const Scalar<S> a(handle, static_cast<const S*>(alpha)), b(handle, static_cast<const S*>(beta));
    Call call(handle->stream, name);
    a.declare(call), b.declare(call);
    const size_t ia = size_of(x.typeA), ib = size_of(x.typeB), ic = size_of(x.typeC);
    auto place = [=](int i) {
        Mixed one = x;
        one.A = static_cast<const char*>(x.A) + i * sa * (long long)ia;
        one.B = static_cast<const char*>(x.B) + i * sb * (long long)ib;
        one.C = static_cast<char*>(x.C) + i * sc * (long long)ic;
        return one;
    };
    for (int i = 0; i < count; ++i) {
        const Mixed one = place(i);
        call.reads(shape.of_A(one.A, ia)).reads(shape.of_B(one.B, ib)).writes(shape.of_C(one.C, ic));
        if (handle->pointer_mode || W(b.value()) != W(0)) call.reads(shape.of_C(one.C, ic));
    }
    return status_of(call.run([=] {
        for (int i = 0; i < count; ++i) mixed_product<W>(shape, place(i), W(a.value()), W(b.value()));
    }));
}

int gemm_ex(Handle* handle, const char* name, const Shape& shape, const void* alpha, const Mixed& x, long long sa, long long sb,
            const void* beta, long long sc, int count) {
    if (shape.wrong() || count < 0) return INVALID_VALUE;
    if (!size_of(x.typeA) || !size_of(x.typeB) || !size_of(x.typeC)) return NOT_SUPPORTED;
    const bool is_double = x.typeC == R_64F || x.typeC == C_64F, is_complex_type = x.typeC == C_32F || x.typeC == C_64F;
    const bool same = x.typeA == x.typeB && (x.typeA == C_32F || x.typeA == C_64F) == is_complex_type;
    if (!same || ((x.compute == F64 || x.compute == F64_PEDANTIC) != is_double)) return NOT_SUPPORTED;
    switch (x.compute) {
    case F16:
    case F16_PEDANTIC:
        if (x.typeA != R_16F || x.typeC != R_16F) return NOT_SUPPORTED;
        return gemm_mixed<float, Half>(handle, name, shape, alpha, x, sa, sb, beta, sc, count);
    case I32:
    case I32_PEDANTIC:
        if (x.typeA != R_8I || x.typeC != R_32I) return NOT_SUPPORTED;
        return gemm_mixed<double, int32_t>(handle, name, shape, alpha, x, sa, sb, beta, sc, count);  // a double holds each of these sums
    case F64:
    case F64_PEDANTIC:
        if (is_complex_type) return gemm_mixed<DoubleComplex, DoubleComplex>(handle, name, shape, alpha, x, sa, sb, beta, sc, count);
        return gemm_mixed<double, double>(handle, name, shape, alpha, x, sa, sb, beta, sc, count);
    case F32:
    case F32_PEDANTIC:
    case FAST_16F:
    case FAST_16BF:
    case FAST_TF32:
        if (is_complex_type) return gemm_mixed<Complex, Complex>(handle, name, shape, alpha, x, sa, sb, beta, sc, count);
        return gemm_mixed<float, float>(handle, name, shape, alpha, x, sa, sb, beta, sc, count);
    }
    return NOT_SUPPORTED;
}

// ---- other level 3 ---------------------------------------------------------------------------------------------------------------------

template <class T>
int trsm(Handle* handle, const char* name, int side, int fill, int op, int diag, int m, int n, const T* alpha, const T* const* A, int lda,
         T* const* B, int ldb, int count, bool pointers) {
    const int order = side ? n : m;
    if (!known(op) || m < 0 || n < 0 || count < 0 || short_ld(lda, order) || short_ld(ldb, m)) return INVALID_VALUE;
    const Scalar<T> a(handle, alpha);
    Call call(handle->stream, name);
    a.declare(call);
    if (pointers && (call.each(A, count, [](auto) {}) || call.each(B, count, [](auto) {}))) return EXECUTION_FAILED;
    const std::vector<const T*> from(A, A + count);
    const std::vector<T*> to(B, B + count);
    for (int i = 0; i < count; ++i) call.reads(matrix(from[i], order, order, lda)).changes(matrix(to[i], m, n, ldb));
    return status_of(call.run([=] {
        for (int i = 0; i < count; ++i)
            fortran<T>("trsm", side_of(side), triangle(fill), operation(op), diagonal(diag), m, n, a.value(), from[i], lda, to[i], ldb);
    }));
}

template <class T>
int syrk(Handle* handle, const char* name, int fill, int op, int n, int k, const T* alpha, const T* A, int lda, const T* beta, T* C,
         int ldc) {
    if (n < 0 || k < 0 || short_ld(lda, op ? k : n) || short_ld(ldc, n)) return INVALID_VALUE;
    const Scalar<T> a(handle, alpha), b(handle, beta);
    Call call(handle->stream, name);
    a.declare(call), b.declare(call);
    call.reads(matrix(A, op ? k : n, op ? n : k, lda)).changes(matrix(C, n, n, ldc));
    return status_of(call.run([=] { fortran<T>("syrk", triangle(fill), op ? 'T' : 'N', n, k, a.value(), A, lda, b.value(), C, ldc); }));
}

template <class T>
int geam(Handle* handle, const char* name, int opA, int opB, int m, int n, const T* alpha, const T* A, int lda, const T* beta, const T* B,
         int ldb, T* C, int ldc) {
    if (!known(opA) || !known(opB) || m < 0 || n < 0 || short_ld(lda, opA ? n : m) || short_ld(ldb, opB ? n : m) || short_ld(ldc, m))
        return INVALID_VALUE;
    if ((A == C && (opA || lda != ldc)) || (B == C && (opB || ldb != ldc))) return INVALID_VALUE;  // in place only as it lies
    const Scalar<T> a(handle, alpha), b(handle, beta);
    Call call(handle->stream, name);
    a.declare(call), b.declare(call);
    call.reads(matrix(A, opA ? n : m, opA ? m : n, lda)).reads(matrix(B, opB ? n : m, opB ? m : n, ldb)).writes(matrix(C, m, n, ldc));
    return status_of(call.run([=] {
        auto value = [](int op, const T* from, int ld, int i, int j) {
            const T one = op ? from[j + size_t(i) * ld] : from[i + size_t(j) * ld];
            return op == 2 ? conjugate(one) : one;
        };
        const T fa = a.value(), fb = b.value();
        for (int j = 0; j < n; ++j)
            for (int i = 0; i < m; ++i)  // a factor of zero leaves its matrix unread
                C[i + size_t(j) * ldc] =
                    (fa != T(0) ? fa * value(opA, A, lda, i, j) : T(0)) + (fb != T(0) ? fb * value(opB, B, ldb, i, j) : T(0));
    }));
}

template <class T>
int dgmm(Handle* handle, const char* name, int side, int m, int n, const T* A, int lda, const T* x, int step, T* C, int ldc) {
    if (m < 0 || n < 0 || short_ld(lda, m) || short_ld(ldc, m)) return INVALID_VALUE;
    const int length = side ? n : m;
    Call call(handle->stream, name);
    call.reads(matrix(A, m, n, lda)).reads(vector(x, length, step)).writes(matrix(C, m, n, ldc));
    return status_of(call.run([=] {
        for (int j = 0; j < n; ++j)
            for (int i = 0; i < m; ++i) C[i + size_t(j) * ldc] = A[i + size_t(j) * lda] * at(x, length, step, side ? j : i);
    }));
}

template <class T> int packed(Handle* handle, const char* name, int fill, int n, T* AP, T* A, int lda, bool unpack) {
    if (n < 0 || short_ld(lda, n)) return INVALID_VALUE;
    Call call(handle->stream, name);
    const Span triangle_of = vector(AP, (long long)n * (n + 1) / 2), square = matrix(A, n, n, lda);
    if (unpack) call.reads(triangle_of).writes(square);
    else call.reads(square).writes(triangle_of);
    return status_of(call.run([=] {
        size_t next = 0;
        for (int j = 0; j < n; ++j)
            for (int i = fill ? 0 : j; i < (fill ? j + 1 : n); ++i, ++next)
                (unpack ? A[i + size_t(j) * lda] : AP[next]) = unpack ? AP[next] : A[i + size_t(j) * lda];
    }));
}

// ---- batches of small systems ----------------------------------------------------------------------------------------------------------

template <class T> int factor_without_pivots(int n, T* A, int lda) {
    int info = 0;
    for (int k = 0; k < n; ++k) {
        const T pivot = A[k + size_t(k) * lda];
        if (pivot == T(0) && !info) info = k + 1;
        for (int i = k + 1; i < n; ++i) A[i + size_t(k) * lda] /= pivot;
        for (int j = k + 1; j < n; ++j)
            for (int i = k + 1; i < n; ++i) A[i + size_t(j) * lda] -= A[i + size_t(k) * lda] * A[k + size_t(j) * lda];
    }
    return info;
}

template <class T> int getrf_batched(Handle* handle, const char* name, int n, T* const* A, int lda, int* pivots, int* info, int count) {
    if (n < 0 || count < 0 || short_ld(lda, n)) return INVALID_VALUE;
    Call call(handle->stream, name);
    if (call.each(A, count, [&](T* one) { call.changes(matrix(one, n, n, lda)); })) return EXECUTION_FAILED;
    call.writes(vector(pivots, (long long)n * count)).writes(vector(info, count));
    return status_of(call.run([=] {
        for (int i = 0; i < count; ++i)
            if (pivots) fortran<T>("getrf", n, n, A[i], lda, pivots + (long long)i * n, info + i);
            else info[i] = factor_without_pivots(n, A[i], lda);
    }));
}

template <class T>
int getrs_batched(Handle* handle, const char* name, int op, int n, int columns, const T* const* A, int lda, const int* pivots, T* const* B,
                  int ldb, int* info, int count) {
    // info lies on the host and tells of the arguments alone: -j where the j-th of them is wrong.
    *info = !known(op) ? -1 : n < 0 ? -2 : columns < 0 ? -3 : short_ld(lda, n) ? -5 : short_ld(ldb, n) ? -8 : count < 0 ? -10 : 0;
    if (*info) return INVALID_VALUE;
    Call call(handle->stream, name);
    if (call.each(A, count, [](auto) {}) || call.each(B, count, [](auto) {})) return EXECUTION_FAILED;
    for (int i = 0; i < count; ++i) call.reads(matrix(A[i], n, n, lda)).changes(matrix(B[i], n, columns, ldb));
    call.reads(vector(pivots, (long long)n * count));
    return status_of(call.run([=] {
        std::vector<int> identity(n);
        for (int i = 0; i < n; ++i) identity[i] = i + 1;
        for (int i = 0; i < count; ++i) {
            int done = 0;
            fortran<T>("getrs", operation(op), n, columns, A[i], lda, pivots ? pivots + (long long)i * n : identity.data(), B[i], ldb,
                       &done);
        }
    }));
}

template <class T>
int getri_batched(Handle* handle, const char* name, int n, const T* const* A, int lda, const int* pivots, T* const* C, int ldc, int* info,
                  int count) {
    if (n < 0 || count < 0 || short_ld(lda, n) || short_ld(ldc, n)) return INVALID_VALUE;
    Call call(handle->stream, name);
    if (call.each(A, count, [](auto) {}) || call.each(C, count, [](auto) {})) return EXECUTION_FAILED;
    for (int i = 0; i < count; ++i) call.reads(matrix(A[i], n, n, lda)).writes(matrix(C[i], n, n, ldc));
    call.reads(vector(pivots, (long long)n * count)).writes(vector(info, count));
    return status_of(call.run([=] {
        std::vector<int> identity(n);
        for (int i = 0; i < n; ++i) identity[i] = i + 1;
        for (int b = 0; b < count; ++b) {
            // Solving for the identity divides by a pivot of zero as a GPU does: the result then holds inf and NaN, and info the pivot.
            info[b] = 0;
            for (int j = n - 1; j >= 0; --j)
                if (A[b][j + size_t(j) * lda] == T(0)) info[b] = j + 1;
            for (int j = 0; j < n; ++j)
                for (int i = 0; i < n; ++i) C[b][i + size_t(j) * ldc] = T(i == j);
            int done = 0;
            fortran<T>("getrs", 'N', n, n, A[b], lda, pivots ? pivots + (long long)b * n : identity.data(), C[b], ldc, &done);
        }
    }));
}

}  // namespace

// ---- the names -------------------------------------------------------------------------------------------------------------------------

#define JOINED(a, b, c) a##b##c
#define NAMED(letter, rest) JOINED(cublas, letter, rest)
#define NAME(rest) NAMED(LETTER, rest)

extern "C" {

int cublasCreate_v2(Handle** handle) { return *handle = new Handle(), SUCCESS; }
int cublasDestroy_v2(Handle* handle) { return delete handle, SUCCESS; }
int cublasGetVersion_v2(Handle*, int* version) { return *version = 120901, SUCCESS; }
int cublasSetStream_v2(Handle* handle, void* stream) { return handle->stream = stream, SUCCESS; }
int cublasGetStream_v2(Handle* handle, void** stream) { return *stream = handle->stream, SUCCESS; }
int cublasSetPointerMode_v2(Handle* handle, int mode) { return handle->pointer_mode = mode, SUCCESS; }
int cublasGetPointerMode_v2(Handle* handle, int* mode) { return *mode = handle->pointer_mode, SUCCESS; }
int cublasSetMathMode(Handle* handle, int mode) { return handle->math_mode = mode, SUCCESS; }
int cublasGetMathMode(Handle* handle, int* mode) { return *mode = handle->math_mode, SUCCESS; }

#define LETTER S
#define T float
#include "blas_entries.h"
#undef LETTER
#undef T
#define LETTER D
#define T double
#include "blas_entries.h"
#undef LETTER
#undef T
#define LETTER C
#define T Complex
#include "blas_entries.h"
#undef LETTER
#undef T
#define LETTER Z
#define T DoubleComplex
#include "blas_entries.h"
#undef LETTER
#undef T

int cublasIsamax_v2(Handle* h, int n, const float* x, int step, int* result) { return extreme(h, __func__, n, x, step, result, true); }
int cublasIsamin_v2(Handle* h, int n, const float* x, int step, int* result) { return extreme(h, __func__, n, x, step, result, false); }
int cublasSasum_v2(Handle* h, int n, const float* x, int step, float* result) { return asum(h, __func__, n, x, step, result); }
int cublasSnrm2_v2(Handle* h, int n, const float* x, int step, float* result) { return nrm2(h, __func__, n, x, step, result); }
int cublasIdamax_v2(Handle* h, int n, const double* x, int step, int* result) { return extreme(h, __func__, n, x, step, result, true); }
int cublasIdamin_v2(Handle* h, int n, const double* x, int step, int* result) { return extreme(h, __func__, n, x, step, result, false); }
int cublasDasum_v2(Handle* h, int n, const double* x, int step, double* result) { return asum(h, __func__, n, x, step, result); }
int cublasDnrm2_v2(Handle* h, int n, const double* x, int step, double* result) { return nrm2(h, __func__, n, x, step, result); }
int cublasIcamax_v2(Handle* h, int n, const Complex* x, int step, int* result) { return extreme(h, __func__, n, x, step, result, true); }
int cublasIcamin_v2(Handle* h, int n, const Complex* x, int step, int* result) { return extreme(h, __func__, n, x, step, result, false); }
int cublasScasum_v2(Handle* h, int n, const Complex* x, int step, float* result) { return asum(h, __func__, n, x, step, result); }
int cublasScnrm2_v2(Handle* h, int n, const Complex* x, int step, float* result) { return nrm2(h, __func__, n, x, step, result); }
int cublasIzamax_v2(Handle* h, int n, const DoubleComplex* x, int step, int* result) {
    return extreme(h, __func__, n, x, step, result, true);
}
int cublasIzamin_v2(Handle* h, int n, const DoubleComplex* x, int step, int* result) {
    return extreme(h, __func__, n, x, step, result, false);
}
int cublasDzasum_v2(Handle* h, int n, const DoubleComplex* x, int step, double* result) { return asum(h, __func__, n, x, step, result); }
int cublasDznrm2_v2(Handle* h, int n, const DoubleComplex* x, int step, double* result) { return nrm2(h, __func__, n, x, step, result); }

int cublasSdot_v2(Handle* h, int n, const float* x, int xs, const float* y, int ys, float* result) {
    return dot(h, __func__, n, x, xs, y, ys, result, false);
}
int cublasDdot_v2(Handle* h, int n, const double* x, int xs, const double* y, int ys, double* result) {
    return dot(h, __func__, n, x, xs, y, ys, result, false);
}
int cublasCdotu_v2(Handle* h, int n, const Complex* x, int xs, const Complex* y, int ys, Complex* result) {
    return dot(h, __func__, n, x, xs, y, ys, result, false);
}
int cublasZdotu_v2(Handle* h, int n, const DoubleComplex* x, int xs, const DoubleComplex* y, int ys, DoubleComplex* result) {
    return dot(h, __func__, n, x, xs, y, ys, result, false);
}
int cublasCdotc_v2(Handle* h, int n, const Complex* x, int xs, const Complex* y, int ys, Complex* result) {
    return dot(h, __func__, n, x, xs, y, ys, result, true);
}
int cublasZdotc_v2(Handle* h, int n, const DoubleComplex* x, int xs, const DoubleComplex* y, int ys, DoubleComplex* result) {
    return dot(h, __func__, n, x, xs, y, ys, result, true);
}
int cublasSger_v2(Handle* h, int m, int n, const float* alpha, const float* x, int xs, const float* y, int ys, float* A, int lda) {
    return ger(h, __func__, m, n, alpha, x, xs, y, ys, A, lda, false);
}
int cublasDger_v2(Handle* h, int m, int n, const double* alpha, const double* x, int xs, const double* y, int ys, double* A, int lda) {
    return ger(h, __func__, m, n, alpha, x, xs, y, ys, A, lda, false);
}
int cublasCgeru_v2(Handle* h, int m, int n, const Complex* alpha, const Complex* x, int xs, const Complex* y, int ys, Complex* A, int lda) {
    return ger(h, __func__, m, n, alpha, x, xs, y, ys, A, lda, false);
}
int cublasZgeru_v2(Handle* h, int m, int n, const DoubleComplex* alpha, const DoubleComplex* x, int xs, const DoubleComplex* y, int ys,
                   DoubleComplex* A, int lda) {
    return ger(h, __func__, m, n, alpha, x, xs, y, ys, A, lda, false);
}
int cublasCgerc_v2(Handle* h, int m, int n, const Complex* alpha, const Complex* x, int xs, const Complex* y, int ys, Complex* A, int lda) {
    return ger(h, __func__, m, n, alpha, x, xs, y, ys, A, lda, true);
}
int cublasZgerc_v2(Handle* h, int m, int n, const DoubleComplex* alpha, const DoubleComplex* x, int xs, const DoubleComplex* y, int ys,
                   DoubleComplex* A, int lda) {
    return ger(h, __func__, m, n, alpha, x, xs, y, ys, A, lda, true);
}
int cublasCsscal_v2(Handle* h, int n, const float* alpha, Complex* x, int step) { return scal(h, __func__, n, alpha, x, step); }
int cublasZdscal_v2(Handle* h, int n, const double* alpha, DoubleComplex* x, int step) { return scal(h, __func__, n, alpha, x, step); }
int cublasSsbmv_v2(Handle* h, int fill, int n, int k, const float* alpha, const float* A, int lda, const float* x, int xs,
                   const float* beta, float* y, int ys) {
    return sbmv(h, __func__, fill, n, k, alpha, A, lda, x, xs, beta, y, ys);
}
int cublasStpttr(Handle* h, int fill, int n, float* AP, float* A, int lda) { return packed(h, __func__, fill, n, AP, A, lda, true); }
int cublasStrttp(Handle* h, int fill, int n, float* A, int lda, float* AP) { return packed(h, __func__, fill, n, AP, A, lda, false); }
int cublasDsbmv_v2(Handle* h, int fill, int n, int k, const double* alpha, const double* A, int lda, const double* x, int xs,
                   const double* beta, double* y, int ys) {
    return sbmv(h, __func__, fill, n, k, alpha, A, lda, x, xs, beta, y, ys);
}
int cublasDtpttr(Handle* h, int fill, int n, double* AP, double* A, int lda) { return packed(h, __func__, fill, n, AP, A, lda, true); }
int cublasDtrttp(Handle* h, int fill, int n, double* A, int lda, double* AP) { return packed(h, __func__, fill, n, AP, A, lda, false); }

int cublasSgemmEx(Handle* h, int opA, int opB, int m, int n, int k, const float* alpha, const void* A, int typeA, int lda, const void* B,
                  int typeB, int ldb, const float* beta, void* C, int typeC, int ldc) {
    return gemm_ex(h, __func__, {opA, opB, m, n, k, lda, ldb, ldc}, alpha, {A, B, C, typeA, typeB, typeC, F32}, 0, 0, beta, 0, 1);
}
int cublasGemmEx(Handle* h, int opA, int opB, int m, int n, int k, const void* alpha, const void* A, int typeA, int lda, const void* B,
                 int typeB, int ldb, const void* beta, void* C, int typeC, int ldc, int compute, int) {
    return gemm_ex(h, __func__, {opA, opB, m, n, k, lda, ldb, ldc}, alpha, {A, B, C, typeA, typeB, typeC, compute}, 0, 0, beta, 0, 1);
}
int cublasGemmStridedBatchedEx(Handle* h, int opA, int opB, int m, int n, int k, const void* alpha, const void* A, int typeA, int lda,
                               long long sa, const void* B, int typeB, int ldb, long long sb, const void* beta, void* C, int typeC, int ldc,
                               long long sc, int count, int compute, int) {
    return gemm_ex(h, __func__, {opA, opB, m, n, k, lda, ldb, ldc}, alpha, {A, B, C, typeA, typeB, typeC, compute}, sa, sb, beta, sc,
                   count);
}

}  // extern "C"
