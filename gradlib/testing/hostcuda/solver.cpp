// cuSOLVER for CuPy, on the LAPACK that SciPy brings: the dense factorisations with cuSOLVER's argument checks, info codes and layouts.
//
// As on a GPU a failure is silent: the status says only whether the arguments were right, the info code lies on the device, and nothing
// raises unless somebody reads it. What cuSOLVER leaves undefined (a workspace, a matrix that its routine destroys, the other triangle of a
// batched Cholesky factor) is filled with NaN here, so that nobody comes to rely on it.
#include <algorithm>
#include <cmath>
#include <limits>
#include <memory>
#include <vector>

#include "lapack.h"
#include "library.h"

using namespace hostcuda;

namespace {

enum Status { SUCCESS = 0, INVALID_VALUE = 3, EXECUTION_FAILED = 6, NOT_SUPPORTED = 9 };
enum { NOVECTOR = 0, VECTOR = 1 };

struct Handle {
    void* stream = nullptr;
};

struct Jacobi {  // the parameters of gesvdj and syevj
    double tolerance = 0;
    int sweeps = 100;
    int sorted = 1;
};

int status_of(int error) { return error ? EXECUTION_FAILED : SUCCESS; }
char triangle(int fill) { return fill == 0 ? 'L' : 'U'; }
char operation(int op) { return op == 0 ? 'N' : op == 1 ? 'T' : 'C'; }
bool short_ld(long long ld, long long rows) { return ld < std::max(1LL, rows); }

template <class T> void spoil(T* from, long long rows, long long columns, long long ld) {
    for (long long j = 0; j < columns; ++j) std::fill_n(from + j * ld, rows, T(std::numeric_limits<Real<T>>::quiet_NaN()));
}

template <class T> bool is_finite(const T* from, long long rows, long long columns, long long ld) {
    for (long long j = 0; j < columns; ++j)
        for (long long i = 0; i < rows; ++i)
            if (!std::isfinite(std::real(from[i + j * ld])) || !std::isfinite(std::imag(from[i + j * ld]))) return false;
    return true;
}

// A matrix of its own with no gaps between its columns.
template <class T> std::vector<T> copied(const T* from, long long rows, long long columns, long long ld) {
    std::vector<T> made(size_t(rows * columns));
    for (long long j = 0; j < columns; ++j) std::copy_n(from + j * ld, rows, made.data() + j * rows);
    return made;
}

// The length that LAPACK asks for its workspace, by the call that it answers with the length alone.
template <class T, class Ask> std::vector<T> workspace(Ask ask) {
    T length{};
    ask(&length, -1);
    return std::vector<T>(size_t(std::max<Real<T>>(1, std::real(length))));
}

// ---- LU, Cholesky ----------------------------------------------------------------------------------------------------------------------

template <class T> void lu(int m, int n, T* A, int lda, int* pivots, int* info) {
    if (pivots) {
        fortran<T>("getrf", m, n, A, lda, pivots, info);
        return;
    }
    *info = 0;
    for (int k = 0; k < std::min(m, n); ++k) {
        const T pivot = A[k + (long long)k * lda];
        if (pivot == T(0) && !*info) *info = k + 1;
        for (int i = k + 1; i < m; ++i) A[i + (long long)k * lda] /= pivot;
        for (int j = k + 1; j < n; ++j)
            for (int i = k + 1; i < m; ++i) A[i + (long long)j * lda] -= A[i + (long long)k * lda] * A[k + (long long)j * lda];
    }
}

template <class T> int getrf(Handle* h, const char* name, int m, int n, T* A, int lda, T* work, int* pivots, int* info) {
    if (m < 0 || n < 0 || short_ld(lda, m)) return INVALID_VALUE;
    return status_of(Call(h->stream, name)
                         .changes(matrix(A, m, n, lda))
                         .writes(vector(pivots, std::min(m, n)))
                         .writes(vector(info, 1))
                         .writes(vector(work, 1))
                         .run([=] { lu(m, n, A, lda, pivots, info); }));
}

template <class T>
int getrs(Handle* h, const char* name, int op, int n, int columns, const T* A, int lda, const int* pivots, T* B, int ldb, int* info) {
    if (op < 0 || op > 2 || n < 0 || columns < 0 || short_ld(lda, n) || short_ld(ldb, n)) return INVALID_VALUE;
    Call call(h->stream, name);
    call.reads(matrix(A, n, n, lda)).reads(vector(pivots, n)).changes(matrix(B, n, columns, ldb)).writes(vector(info, 1));
    return status_of(call.run([=] {
        std::vector<int> identity(n);
        for (int i = 0; i < n; ++i) identity[i] = i + 1;
        fortran<T>("getrs", operation(op), n, columns, A, lda, pivots ? pivots : identity.data(), B, ldb, info);
    }));
}

template <class T> int potrf(Handle* h, const char* name, int fill, int n, T* A, int lda, T* work, int length, int* info) {
    if (n < 0 || short_ld(lda, n)) return INVALID_VALUE;
    Call call(h->stream, name);
    call.changes(matrix(A, n, n, lda)).writes(vector(work, length)).writes(vector(info, 1));
    return status_of(call.run([=] { fortran<T>("potrf", triangle(fill), n, A, lda, info); }));
}

template <class T> int potrs(Handle* h, const char* name, int fill, int n, int columns, const T* A, int lda, T* B, int ldb, int* info) {
    if (n < 0 || columns < 0 || short_ld(lda, n) || short_ld(ldb, n)) return INVALID_VALUE;
    Call call(h->stream, name);
    call.reads(matrix(A, n, n, lda)).changes(matrix(B, n, columns, ldb)).writes(vector(info, 1));
    return status_of(call.run([=] { fortran<T>("potrs", triangle(fill), n, columns, A, lda, B, ldb, info); }));
}

template <class T> int potrf_batched(Handle* h, const char* name, int fill, int n, T* const* A, int lda, int* info, int count) {
    if (n < 0 || count < 0 || short_ld(lda, n)) return INVALID_VALUE;
    Call call(h->stream, name);
    if (call.each(A, count, [&](T* one) { call.changes(matrix(one, n, n, lda)); })) return EXECUTION_FAILED;
    return status_of(call.writes(vector(info, count)).run([=] {
        for (int b = 0; b < count; ++b) {
            fortran<T>("potrf", triangle(fill), n, A[b], lda, info + b);
            for (int j = 0; j < n; ++j)  // cuSOLVER works in the other triangle
                spoil(A[b] + (fill ? j + 1 : 0) + (long long)j * lda, fill ? n - j - 1 : j, 1, lda);
        }
    }));
}

template <class T>
int potrs_batched(Handle* h, const char* name, int fill, int n, int columns, T* const* A, int lda, T* const* B, int ldb, int* info,
                  int count) {
    if (n < 0 || columns != 1 || count < 0 || short_ld(lda, n) || short_ld(ldb, n))
        return INVALID_VALUE;  // one column only, says its guide
    Call call(h->stream, name);
    if (call.each(A, count, [](T*) {}) || call.each(B, count, [](T*) {})) return EXECUTION_FAILED;
    for (int b = 0; b < count; ++b) call.reads(matrix(A[b], n, n, lda)).changes(matrix(B[b], n, columns, ldb));
    return status_of(call.writes(vector(info, 1)).run([=] {
        *info = 0;
        for (int b = 0; b < count; ++b) fortran<T>("potrs", triangle(fill), n, columns, A[b], lda, B[b], ldb, info);
    }));
}

template <class T> int sytrf(Handle* h, const char* name, int fill, int n, T* A, int lda, int* pivots, T* work, int length, int* info) {
    if (n < 0 || short_ld(lda, n)) return INVALID_VALUE;
    Call call(h->stream, name);
    call.changes(matrix(A, n, n, lda)).writes(vector(pivots, n)).writes(vector(work, length)).writes(vector(info, 1));
    return status_of(call.run([=] {
        auto ask = [&](T* space, int size) { fortran<T>("sytrf", triangle(fill), n, A, lda, pivots, space, size, info); };
        auto space = workspace<T>(ask);
        ask(space.data(), int(space.size()));
    }));
}

// ---- QR --------------------------------------------------------------------------------------------------------------------------------

template <class T> int geqrf(Handle* h, const char* name, int m, int n, T* A, int lda, T* tau, T* work, int length, int* info) {
    if (m < 0 || n < 0 || short_ld(lda, m)) return INVALID_VALUE;
    Call call(h->stream, name);
    call.changes(matrix(A, m, n, lda)).writes(vector(tau, std::min(m, n))).writes(vector(work, length)).writes(vector(info, 1));
    return status_of(call.run([=] {
        auto ask = [&](T* space, int size) { fortran<T>("geqrf", m, n, A, lda, tau, space, size, info); };
        auto space = workspace<T>(ask);
        ask(space.data(), int(space.size()));
    }));
}

template <class T>
int orgqr(Handle* h, const char* name, int m, int n, int k, T* A, int lda, const T* tau, T* work, int length, int* info) {
    if (m < 0 || n < 0 || n > m || k < 0 || k > n || short_ld(lda, m)) return INVALID_VALUE;
    Call call(h->stream, name);
    call.reads(vector(tau, k)).changes(matrix(A, m, n, lda)).writes(vector(work, length)).writes(vector(info, 1));
    return status_of(call.run([=] {
        auto ask = [&](T* space, int size) { fortran<T>(named<T>("orgqr", "ungqr"), m, n, k, A, lda, tau, space, size, info); };
        auto space = workspace<T>(ask);
        ask(space.data(), int(space.size()));
    }));
}

template <class T>
int ormqr(Handle* h, const char* name, int side, int op, int m, int n, int k, const T* A, int lda, const T* tau, T* C, int ldc, T* work,
          int length, int* info) {
    const int order = side ? n : m;
    if (op < 0 || op > 2 || (is_complex<T> && op == 1) || m < 0 || n < 0 || k < 0 || k > order || short_ld(lda, order) || short_ld(ldc, m))
        return INVALID_VALUE;
    Call call(h->stream, name);
    call.reads(matrix(A, order, k, lda))
        .reads(vector(tau, k))
        .changes(matrix(C, m, n, ldc))
        .writes(vector(work, length))
        .writes(vector(info, 1));
    return status_of(call.run([=] {
        const char which = side ? 'R' : 'L', how = op == 0 ? 'N' : is_complex<T> ? 'C' : 'T';
        auto ask = [&](T* space, int size) {
            fortran<T>(named<T>("ormqr", "unmqr"), which, how, m, n, k, A, lda, tau, C, ldc, space, size, info);
        };
        auto space = workspace<T>(ask);
        ask(space.data(), int(space.size()));
    }));
}

template <class T>
int gebrd(Handle* h, const char* name, int m, int n, T* A, int lda, Real<T>* D, Real<T>* E, T* tauq, T* taup, T* work, int length,
          int* info) {
    if (m < 0 || n < 0 || m < n || short_ld(lda, m)) return INVALID_VALUE;
    Call call(h->stream, name);
    call.changes(matrix(A, m, n, lda)).writes(vector(D, n)).writes(vector(E, n - 1)).writes(vector(tauq, n)).writes(vector(taup, n));
    return status_of(call.writes(vector(work, length)).writes(vector(info, 1)).run([=] {
        auto ask = [&](T* space, int size) { fortran<T>("gebrd", m, n, A, lda, D, E, tauq, taup, space, size, info); };
        auto space = workspace<T>(ask);
        ask(space.data(), int(space.size()));
    }));
}

// ---- singular values -------------------------------------------------------------------------------------------------------------------

template <class T> int svd(char jobu, char jobvt, int m, int n, T* A, int lda, Real<T>* S, T* U, int ldu, T* VT, int ldvt) {
    int info = 0;
    std::vector<Real<T>> real(size_t(std::max(1, 5 * std::min(m, n))));
    auto ask = [&](T* space, int size) {
        if constexpr (is_complex<T>) fortran<T>("gesvd", jobu, jobvt, m, n, A, lda, S, U, ldu, VT, ldvt, space, size, real.data(), &info);
        else fortran<T>("gesvd", jobu, jobvt, m, n, A, lda, S, U, ldu, VT, ldvt, space, size, &info);
    };
    auto space = workspace<T>(ask);
    ask(space.data(), int(space.size()));
    return info;
}

template <class T>
int gesvd(Handle* h, const char* name, signed char jobu, signed char jobvt, int m, int n, T* A, int lda, Real<T>* S, T* U, int ldu, T* VT,
          int ldvt, T* work, int length, Real<T>* rwork, int* info) {
    auto known = [](char job) { return job == 'A' || job == 'S' || job == 'O' || job == 'N'; };
    if (!known(jobu) || !known(jobvt) || (jobu == 'O' && jobvt == 'O') || m < n || n < 0 || short_ld(lda, m)) return INVALID_VALUE;
    if (((jobu == 'A' || jobu == 'S') && short_ld(ldu, m)) || ((jobvt == 'A' || jobvt == 'S') && short_ld(ldvt, n))) return INVALID_VALUE;
    Call call(h->stream, name);
    call.changes(matrix(A, m, n, lda))
        .writes(vector(S, n))
        .writes(vector(work, length))
        .writes(vector(info, 1))
        .writes(vector(rwork, n - 1));
    if (jobu == 'A' || jobu == 'S') call.writes(matrix(U, m, jobu == 'A' ? m : n, ldu));
    if (jobvt == 'A' || jobvt == 'S') call.writes(matrix(VT, n, n, ldvt));
    return status_of(call.run([=] {
        const bool finite = is_finite(A, m, n, lda);
        if (finite) *info = svd<T>(jobu, jobvt, m, n, A, lda, S, U, ldu, VT, ldvt);
        else {  // cuSOLVER 11.5 and later finish on NaN and tell of values that did not converge
            *info = std::max(1, n - 1);
            spoil(S, n, 1, n), spoil(A, m, n, lda);
            if (jobu == 'A' || jobu == 'S') spoil(U, m, jobu == 'A' ? m : n, ldu);
            if (jobvt == 'A' || jobvt == 'S') spoil(VT, n, n, ldvt);
        }
        if (jobu != 'O' && jobvt != 'O') spoil(A, m, n, lda);
    }));
}

// One matrix of gesvdj: V, not its conjugate transpose; U and V whole or with min(m, n) columns.
template <class T> int svd_by_jacobi(int vectors, bool economic, int m, int n, T* A, int lda, Real<T>* S, T* U, int ldu, T* V, int ldv) {
    const int k = std::min(m, n), columnsU = economic ? k : m, columnsV = economic ? k : n;
    int info = 0;
    if (is_finite(A, m, n, lda)) {
        const char job = vectors == NOVECTOR ? 'N' : economic ? 'S' : 'A';
        std::vector<T> VT(vectors ? size_t(columnsV) * n : 1);
        info = svd<T>(job, job, m, n, A, lda, S, U, ldu, VT.data(), std::max(1, columnsV));
        for (int j = 0; vectors && j < columnsV; ++j)
            for (int i = 0; i < n; ++i) V[i + (long long)j * ldv] = conjugate(VT[j + (long long)i * columnsV]);
    } else {
        info = k + 1;  // the sweeps come to no end
        spoil(S, k, 1, k);
        if (vectors) spoil(U, m, columnsU, ldu), spoil(V, n, columnsV, ldv);
    }
    spoil(A, m, n, lda);
    return info ? k + 1 : 0;
}

template <class T>
int gesvdj(Handle* h, const char* name, int vectors, int economic, int m, int n, T* A, int lda, Real<T>* S, T* U, int ldu, T* V, int ldv,
           T* work, int length, int* info, Jacobi*) {
    if (m < 0 || n < 0 || short_ld(lda, m) || (vectors && (short_ld(ldu, m) || short_ld(ldv, n)))) return INVALID_VALUE;
    const int k = std::min(m, n);
    Call call(h->stream, name);
    call.changes(matrix(A, m, n, lda)).writes(vector(S, k)).writes(vector(work, length)).writes(vector(info, 1));
    if (vectors) call.writes(matrix(U, m, economic ? k : m, ldu)).writes(matrix(V, n, economic ? k : n, ldv));
    return status_of(call.run([=] { *info = svd_by_jacobi(vectors, economic, m, n, A, lda, S, U, ldu, V, ldv); }));
}

template <class T>
int gesvdj_batched(Handle* h, const char* name, int vectors, int m, int n, T* A, int lda, Real<T>* S, T* U, int ldu, T* V, int ldv, T* work,
                   int length, int* info, Jacobi* parameters, int count) {
    if (m < 0 || n < 0 || m > 32 || n > 32 || count < 0 || short_ld(lda, m) || short_ld(ldu, m) || short_ld(ldv, n)) return INVALID_VALUE;
    const int k = std::min(m, n), sorted = parameters->sorted;
    const long long sa = (long long)lda * n, su = (long long)ldu * m, sv = (long long)ldv * n;
    Call call(h->stream, name);
    call.changes(vector(A, sa * count)).writes(vector(S, (long long)k * count)).writes(vector(work, length)).writes(vector(info, count));
    if (vectors) call.writes(vector(U, su * count)).writes(vector(V, sv * count));
    return status_of(call.run([=] {
        for (int b = 0; b < count; ++b) {
            info[b] = svd_by_jacobi(vectors, false, m, n, A + b * sa, lda, S + (long long)b * k, U + b * su, ldu, V + b * sv, ldv);
            if (sorted) continue;  // unsorted they may stand in any order: here the other way round
            std::reverse(S + (long long)b * k, S + (long long)(b + 1) * k);
            for (int j = 0; vectors && j < k / 2; ++j) {
                std::swap_ranges(U + b * su + (long long)j * ldu, U + b * su + (long long)j * ldu + m,
                                 U + b * su + (long long)(k - 1 - j) * ldu);
                std::swap_ranges(V + b * sv + (long long)j * ldv, V + b * sv + (long long)j * ldv + n,
                                 V + b * sv + (long long)(k - 1 - j) * ldv);
            }
        }
    }));
}

template <class T>
int gesvda(Handle* h, const char* name, int vectors, int rank, int m, int n, const T* A, int lda, long long sa, Real<T>* S, long long ss,
           T* U, int ldu, long long su, T* V, int ldv, long long sv, T* work, int length, int* info, double* residuals, int count) {
    if (m < n || n < 0 || rank < 0 || rank > n || count < 0 || short_ld(lda, m) || (vectors && (short_ld(ldu, m) || short_ld(ldv, n))))
        return INVALID_VALUE;
    Call call(h->stream, name);
    call.writes(vector(work, length)).writes(vector(info, count));
    for (int b = 0; b < count; ++b) {
        call.reads(matrix(A + b * sa, m, n, lda)).writes(vector(S + b * ss, rank));
        if (vectors) call.writes(matrix(U + b * su, m, rank, ldu)).writes(matrix(V + b * sv, n, rank, ldv));
    }
    const int error = call.run([=] {
        for (int b = 0; b < count; ++b) {
            auto own = copied(A + b * sa, m, n, lda);
            std::vector<Real<T>> values(n);
            std::vector<T> left(size_t(m) * n), right(size_t(n) * n);
            info[b] = svd_by_jacobi(vectors, true, m, n, own.data(), std::max(1, m), values.data(), left.data(), std::max(1, m),
                                    right.data(), std::max(1, n));
            std::copy_n(values.data(), rank, S + b * ss);
            for (int j = 0; vectors && j < rank; ++j) {
                std::copy_n(left.data() + (long long)j * m, m, U + b * su + (long long)j * ldu);
                std::copy_n(right.data() + (long long)j * n, n, V + b * sv + (long long)j * ldv);
            }
        }
    });
    if (residuals) std::fill_n(residuals, count, 0.0);  // on the host
    return status_of(error);
}

// ---- eigenvalues -----------------------------------------------------------------------------------------------------------------------

template <class T> int eigen(int vectors, int fill, int n, T* A, long long lda, Real<T>* W) {
    int info = 0;
    if (!is_finite(A, n, n, lda)) {
        spoil(W, n, 1, n), spoil(A, n, n, lda);
        return n + 1;
    }
    const char job = vectors ? 'V' : 'N', part = triangle(fill);
    const int ld = int(lda);
    Real<T> real_length{};
    int integer_length = 0, ask = -1;
    T length{};
    auto call = [&](T* work, int size, Real<T>* real, int real_size, int* integers, int integer_size) {
        if constexpr (is_complex<T>)
            fortran<T>("heevd", job, part, n, A, ld, W, work, size, real, real_size, integers, integer_size, &info);
        else fortran<T>("syevd", job, part, n, A, ld, W, work, size, integers, integer_size, &info);
    };
    call(&length, ask, &real_length, ask, &integer_length, ask);
    std::vector<T> work(size_t(std::real(length)) + 1);
    std::vector<Real<T>> real(size_t(real_length) + 1);
    std::vector<int> integers(size_t(integer_length) + 1);
    call(work.data(), int(work.size()), real.data(), int(real.size()), integers.data(), int(integers.size()));
    if (!vectors) spoil(A, n, n, lda);
    return info;
}

template <class T>
int syevd(Handle* h, const char* name, int vectors, int fill, int n, T* A, int lda, Real<T>* W, T* work, int length, int* info) {
    if (n < 0 || short_ld(lda, n)) return INVALID_VALUE;
    Call call(h->stream, name);
    call.changes(matrix(A, n, n, lda)).writes(vector(W, n)).writes(vector(work, length)).writes(vector(info, 1));
    return status_of(call.run([=] { *info = eigen(vectors, fill, n, A, lda, W); }));
}

template <class T>
int syevj_batched(Handle* h, const char* name, int vectors, int fill, int n, T* A, int lda, Real<T>* W, T* work, int length, int* info,
                  Jacobi* parameters, int count) {
    if (n < 0 || count < 0 || short_ld(lda, n)) return INVALID_VALUE;
    const long long stride = (long long)lda * n;
    const int sorted = parameters->sorted;
    Call call(h->stream, name);
    call.changes(vector(A, stride * count))
        .writes(vector(W, (long long)n * count))
        .writes(vector(work, length))
        .writes(vector(info, count));
    return status_of(call.run([=] {
        for (int b = 0; b < count; ++b) {
            T* one = A + b * stride;
            info[b] = eigen(vectors, fill, n, one, lda, W + (long long)b * n) ? n + 1 : 0;
            if (sorted) continue;
            std::reverse(W + (long long)b * n, W + (long long)(b + 1) * n);
            for (int j = 0; vectors && j < n / 2; ++j)
                std::swap_ranges(one + (long long)j * lda, one + (long long)j * lda + n, one + (long long)(n - 1 - j) * lda);
        }
    }));
}

template <class F> int with_type(int type, F use) {
    switch (type) {
    case R_32F: return use(float());
    case R_64F: return use(double());
    case C_32F: return use(Complex());
    case C_64F: return use(DoubleComplex());
    }
    return NOT_SUPPORTED;
}

template <class T>
int geev(Handle* h, const char* name, int left, int right, int n, T* A, int lda, std::complex<Real<T>>* W, T* VR, int ldvr, void* work,
         size_t bytes, int* info) {
    if (left != NOVECTOR || n < 0 || short_ld(lda, n) || (right && short_ld(ldvr, n)))
        return INVALID_VALUE;  // no left vectors, says its guide
    Call call(h->stream, name);
    call.changes(matrix(A, n, n, lda))
        .writes(vector(W, n))
        .writes(vector(static_cast<char*>(work), (long long)bytes))
        .writes(vector(info, 1));
    if (right) call.writes(matrix(VR, n, n, ldvr));
    return status_of(call.run([=] {
        if (!is_finite(A, n, n, lda)) {
            *info = n;
            spoil(W, n, 1, n);
            if (right) spoil(VR, n, n, ldvr);
            return;
        }
        const char none = 'N', job = right ? 'V' : 'N';
        std::vector<Real<T>> real(size_t(2 * n + 1)), imaginary(size_t(n + 1));
        T unused{};
        auto ask = [&](T* space, int size) {
            if constexpr (is_complex<T>) fortran<T>("geev", none, job, n, A, lda, W, &unused, 1, VR, ldvr, space, size, real.data(), info);
            else fortran<T>("geev", none, job, n, A, lda, real.data(), imaginary.data(), &unused, 1, VR, ldvr, space, size, info);
        };
        auto space = workspace<T>(ask);
        ask(space.data(), int(space.size()));
        if constexpr (!is_complex<T>)
            for (int i = 0; i < n; ++i) W[i] = {real[i], imaginary[i]};
    }));
}

// ---- solutions with refinement ---------------------------------------------------------------------------------------------------------

template <class T>
int gesv(Handle* h, const char* name, int n, int columns, T* A, int lda, int* pivots, T* B, int ldb, T* X, int ldx, void* work,
         size_t bytes, int* iterations, int* info) {
    if (n < 0 || columns < 0 || short_ld(lda, n) || short_ld(ldb, n) || short_ld(ldx, n)) return INVALID_VALUE;
    Call call(h->stream, name);
    call.changes(matrix(A, n, n, lda)).reads(matrix(B, n, columns, ldb)).writes(matrix(X, n, columns, ldx)).writes(vector(pivots, n));
    const int error = call.writes(vector(static_cast<char*>(work), (long long)bytes)).writes(vector(info, 1)).run([=] {
        for (int j = 0; j < columns; ++j) std::copy_n(B + (long long)j * ldb, n, X + (long long)j * ldx);
        fortran<T>("gesv", n, columns, A, lda, pivots, X, ldx, info);
    });
    *iterations = 0;  // on the host: the first solution was good enough
    return status_of(error);
}

template <class T>
int gels(Handle* h, const char* name, int m, int n, int columns, T* A, int lda, T* B, int ldb, T* X, int ldx, void* work, size_t bytes,
         int* iterations, int* info) {
    if (n < 0 || m < n || columns < 0 || short_ld(lda, m) || short_ld(ldb, m) || short_ld(ldx, n)) return INVALID_VALUE;
    Call call(h->stream, name);
    call.changes(matrix(A, m, n, lda)).reads(matrix(B, m, columns, ldb)).writes(matrix(X, n, columns, ldx));
    const int error = call.writes(vector(static_cast<char*>(work), (long long)bytes)).writes(vector(info, 1)).run([=] {
        auto own = copied(B, m, columns, ldb);
        auto ask = [&](T* space, int size) {
            fortran<T>("gels", 'N', m, n, columns, A, lda, own.data(), std::max(1, m), space, size, info);
        };
        auto space = workspace<T>(ask);
        ask(space.data(), int(space.size()));
        for (int j = 0; j < columns; ++j) std::copy_n(own.data() + (long long)j * m, n, X + (long long)j * ldx);
    });
    *iterations = 0;
    return status_of(error);
}

constexpr int SPACE = 64;  // elements that a routine asks as its workspace: enough that a call without one is seen

int space_for(int* length) { return *length = SPACE, SUCCESS; }

}  // namespace

// ---- the names -------------------------------------------------------------------------------------------------------------------------

#define JOINED(a, b, c) a##b##c
#define NAMED(letter, rest) JOINED(cusolverDn, letter, rest)
#define NAME(rest) NAMED(LETTER, rest)

extern "C" {

int cusolverDnCreate(Handle** handle) { return *handle = new Handle(), SUCCESS; }
int cusolverDnDestroy(Handle* handle) { return delete handle, SUCCESS; }
int cusolverDnSetStream(Handle* handle, void* stream) { return handle->stream = stream, SUCCESS; }
int cusolverDnGetStream(Handle* handle, void** stream) { return *stream = handle->stream, SUCCESS; }
int cusolverDnCreateParams(void** parameters) { return *parameters = new char(), SUCCESS; }
int cusolverDnDestroyParams(void* parameters) { return delete static_cast<char*>(parameters), SUCCESS; }
int cusolverSpCreate(Handle** handle) { return *handle = new Handle(), SUCCESS; }
int cusolverSpDestroy(Handle* handle) { return delete handle, SUCCESS; }
int cusolverSpSetStream(Handle* handle, void* stream) { return handle->stream = stream, SUCCESS; }
int cusolverSpGetStream(Handle* handle, void** stream) { return *stream = handle->stream, SUCCESS; }
int cusolverGetProperty(int which, int* value) {
    const int version[] = {11, 7, 5};
    if (which < 0 || which > 2) return INVALID_VALUE;
    return *value = version[which], SUCCESS;
}

int cusolverDnCreateGesvdjInfo(Jacobi** info) { return *info = new Jacobi(), SUCCESS; }
int cusolverDnDestroyGesvdjInfo(Jacobi* info) { return delete info, SUCCESS; }
int cusolverDnXgesvdjSetTolerance(Jacobi* info, double tolerance) { return info->tolerance = tolerance, SUCCESS; }
int cusolverDnXgesvdjSetMaxSweeps(Jacobi* info, int sweeps) { return info->sweeps = sweeps, SUCCESS; }
int cusolverDnXgesvdjSetSortEig(Jacobi* info, int sorted) { return info->sorted = sorted, SUCCESS; }
int cusolverDnCreateSyevjInfo(Jacobi** info) { return *info = new Jacobi(), SUCCESS; }
int cusolverDnDestroySyevjInfo(Jacobi* info) { return delete info, SUCCESS; }
int cusolverDnXsyevjSetTolerance(Jacobi* info, double tolerance) { return info->tolerance = tolerance, SUCCESS; }
int cusolverDnXsyevjSetMaxSweeps(Jacobi* info, int sweeps) { return info->sweeps = sweeps, SUCCESS; }
int cusolverDnXsyevjSetSortEig(Jacobi* info, int sorted) { return info->sorted = sorted, SUCCESS; }

int cusolverDnXsyevd_bufferSize(Handle*, void*, int, int, int64_t, int, void*, int64_t, int, void*, int, size_t* device, size_t* host) {
    return *device = *host = SPACE, SUCCESS;
}
int cusolverDnXsyevd(Handle* h, void*, int vectors, int fill, int64_t n, int type, void* A, int64_t lda, int, void* W, int, void* work,
                     size_t bytes, void*, size_t, int* info) {
    return with_type(type, [&](auto zero) {
        using T = decltype(zero);
        const int length = int(bytes / sizeof(T));
        const char* name = "cusolverDnXsyevd";
        return syevd(h, name, vectors, fill, int(n), static_cast<T*>(A), int(lda), static_cast<Real<T>*>(W), static_cast<T*>(work), length,
                     info);
    });
}
int cusolverDnXgeev_bufferSize(Handle*, void*, int, int, int64_t, int, const void*, int64_t, int, const void*, int, const void*, int64_t,
                               int, const void*, int64_t, int, size_t* device, size_t* host) {
    return *device = *host = SPACE, SUCCESS;
}
int cusolverDnXgeev(Handle* h, void*, int left, int right, int64_t n, int type, void* A, int64_t lda, int, void* W, int, void*, int64_t,
                    int, void* VR, int64_t ldvr, int, void* work, size_t bytes, void*, size_t, int* info) {
    return with_type(type, [&](auto zero) {
        using T = decltype(zero);
        auto* values = static_cast<std::complex<Real<T>>*>(W);
        return geev(h, __func__, left, right, int(n), static_cast<T*>(A), int(lda), values, static_cast<T*>(VR), int(ldvr), work, bytes,
                    info);
    });
}

#define LETTER S
#define T float
#define ORTHOGONAL(rest) or ##rest
#define HERMITIAN(rest) sy##rest
#include "solver_entries.h"
#undef LETTER
#undef T
#undef ORTHOGONAL
#undef HERMITIAN

#define LETTER D
#define T double
#define ORTHOGONAL(rest) or ##rest
#define HERMITIAN(rest) sy##rest
#include "solver_entries.h"
#undef LETTER
#undef T
#undef ORTHOGONAL
#undef HERMITIAN

#define LETTER C
#define T Complex
#define ORTHOGONAL(rest) un##rest
#define HERMITIAN(rest) he##rest
#include "solver_entries.h"
#undef LETTER
#undef T
#undef ORTHOGONAL
#undef HERMITIAN

#define LETTER Z
#define T DoubleComplex
#define ORTHOGONAL(rest) un##rest
#define HERMITIAN(rest) he##rest
#include "solver_entries.h"
#undef LETTER
#undef T
#undef ORTHOGONAL
#undef HERMITIAN

// gesv and gels name two types: that of the matrices and a shorter one to factor in; the answer is refined to the first, so one serves all.
#define REFINED(letters, T)                                                                                                            \
    int cusolverDn##letters##gesv_bufferSize(Handle*, int, int, T*, int, int*, T*, int, T*, int, void*, size_t* bytes) {               \
        return *bytes = SPACE, SUCCESS;                                                                                                \
    }                                                                                                                                  \
    int cusolverDn##letters##gesv(Handle* h, int n, int columns, T* A, int lda, int* pivots, T* B, int ldb, T* X, int ldx, void* work, \
                                  size_t bytes, int* iterations, int* info) {                                                          \
        return gesv(h, __func__, n, columns, A, lda, pivots, B, ldb, X, ldx, work, bytes, iterations, info);                           \
    }                                                                                                                                  \
    int cusolverDn##letters##gels_bufferSize(Handle*, int, int, int, T*, int, T*, int, T*, int, void*, size_t* bytes) {                \
        return *bytes = SPACE, SUCCESS;                                                                                                \
    }                                                                                                                                  \
    int cusolverDn##letters##gels(Handle* h, int m, int n, int columns, T* A, int lda, T* B, int ldb, T* X, int ldx, void* work,       \
                                  size_t bytes, int* iterations, int* info) {                                                          \
        return gels(h, __func__, m, n, columns, A, lda, B, ldb, X, ldx, work, bytes, iterations, info);                                \
    }
REFINED(SS, float)
REFINED(SH, float)
REFINED(SX, float)
REFINED(DD, double)
REFINED(DS, double)
REFINED(DH, double)
REFINED(DX, double)
REFINED(CC, Complex)
REFINED(CK, Complex)
REFINED(CY, Complex)
REFINED(ZZ, DoubleComplex)
REFINED(ZC, DoubleComplex)
REFINED(ZK, DoubleComplex)
REFINED(ZY, DoubleComplex)

}  // extern "C"
