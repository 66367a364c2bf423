// The cuSOLVER functions that exist for each of the four types: included once for each by solver.cpp, which says LETTER, T and the two
// letters of the names that differ between real and complex types. No include guard.

using NAME(Real) = Real<T>;
#define R NAME(Real)

int NAME(potrf_bufferSize)(Handle*, int, int, T*, int, int* length) { return space_for(length); }
int NAME(potrf)(Handle* h, int fill, int n, T* A, int lda, T* work, int length, int* info) {
    return potrf(h, __func__, fill, n, A, lda, work, length, info);
}
int NAME(potrs)(Handle* h, int fill, int n, int columns, const T* A, int lda, T* B, int ldb, int* info) {
    return potrs(h, __func__, fill, n, columns, A, lda, B, ldb, info);
}
int NAME(potrfBatched)(Handle* h, int fill, int n, T** A, int lda, int* info, int count) {
    return potrf_batched(h, __func__, fill, n, A, lda, info, count);
}
int NAME(potrsBatched)(Handle* h, int fill, int n, int columns, T** A, int lda, T** B, int ldb, int* info, int count) {
    return potrs_batched(h, __func__, fill, n, columns, A, lda, B, ldb, info, count);
}
int NAME(getrf_bufferSize)(Handle*, int, int, T*, int, int* length) { return space_for(length); }
int NAME(getrf)(Handle* h, int m, int n, T* A, int lda, T* work, int* pivots, int* info) {
    return getrf(h, __func__, m, n, A, lda, work, pivots, info);
}
int NAME(getrs)(Handle* h, int op, int n, int columns, const T* A, int lda, const int* pivots, T* B, int ldb, int* info) {
    return getrs(h, __func__, op, n, columns, A, lda, pivots, B, ldb, info);
}
int NAME(sytrf_bufferSize)(Handle*, int, T*, int, int* length) { return space_for(length); }
int NAME(sytrf)(Handle* h, int fill, int n, T* A, int lda, int* pivots, T* work, int length, int* info) {
    return sytrf(h, __func__, fill, n, A, lda, pivots, work, length, info);
}
int NAME(geqrf_bufferSize)(Handle*, int, int, T*, int, int* length) { return space_for(length); }
int NAME(geqrf)(Handle* h, int m, int n, T* A, int lda, T* tau, T* work, int length, int* info) {
    return geqrf(h, __func__, m, n, A, lda, tau, work, length, info);
}
int NAME(ORTHOGONAL(gqr_bufferSize))(Handle*, int, int, int, const T*, int, const T*, int* length) { return space_for(length); }
int NAME(ORTHOGONAL(gqr))(Handle* h, int m, int n, int k, T* A, int lda, const T* tau, T* work, int length, int* info) {
    return orgqr(h, __func__, m, n, k, A, lda, tau, work, length, info);
}
int NAME(ORTHOGONAL(mqr_bufferSize))(Handle*, int, int, int, int, int, const T*, int, const T*, const T*, int, int* length) {
    return space_for(length);
}
int NAME(ORTHOGONAL(mqr))(Handle* h, int side, int op, int m, int n, int k, const T* A, int lda, const T* tau, T* C, int ldc, T* work,
                          int length, int* info) {
    return ormqr(h, __func__, side, op, m, n, k, A, lda, tau, C, ldc, work, length, info);
}
int NAME(gebrd_bufferSize)(Handle*, int, int, int* length) { return space_for(length); }
int NAME(gebrd)(Handle* h, int m, int n, T* A, int lda, R* D, R* E, T* tauq, T* taup, T* work, int length, int* info) {
    return gebrd(h, __func__, m, n, A, lda, D, E, tauq, taup, work, length, info);
}
int NAME(gesvd_bufferSize)(Handle*, int m, int n, int* length) { return m < n ? INVALID_VALUE : space_for(length); }
int NAME(gesvd)(Handle* h, signed char jobu, signed char jobvt, int m, int n, T* A, int lda, R* S, T* U, int ldu, T* VT, int ldvt, T* work,
                int length, R* rwork, int* info) {
    return gesvd(h, __func__, jobu, jobvt, m, n, A, lda, S, U, ldu, VT, ldvt, work, length, rwork, info);
}
int NAME(gesvdj_bufferSize)(Handle*, int, int, int, int, const T*, int, const R*, const T*, int, const T*, int, int* length, Jacobi*) {
    return space_for(length);
}
int NAME(gesvdj)(Handle* h, int vectors, int economic, int m, int n, T* A, int lda, R* S, T* U, int ldu, T* V, int ldv, T* work, int length,
                 int* info, Jacobi* parameters) {
    return gesvdj(h, __func__, vectors, economic, m, n, A, lda, S, U, ldu, V, ldv, work, length, info, parameters);
}
int NAME(gesvdjBatched_bufferSize)(Handle*, int, int m, int n, T*, int, R*, T*, int, T*, int, int* length, Jacobi*, int) {
    return m > 32 || n > 32 ? INVALID_VALUE : space_for(length);
}
int NAME(gesvdjBatched)(Handle* h, int vectors, int m, int n, T* A, int lda, R* S, T* U, int ldu, T* V, int ldv, T* work, int length,
                        int* info, Jacobi* parameters, int count) {
    return gesvdj_batched(h, __func__, vectors, m, n, A, lda, S, U, ldu, V, ldv, work, length, info, parameters, count);
}
int NAME(gesvdaStridedBatched_bufferSize)(Handle*, int, int, int, int, const T*, int, long long, const R*, long long, const T*, int,
                                          long long, const T*, int, long long, int* length, int) {
    return space_for(length);
}
int NAME(gesvdaStridedBatched)(Handle* h, int vectors, int rank, int m, int n, const T* A, int lda, long long sa, R* S, long long ss, T* U,
                               int ldu, long long su, T* V, int ldv, long long sv, T* work, int length, int* info, double* residuals,
                               int count) {
    return gesvda(h, __func__, vectors, rank, m, n, A, lda, sa, S, ss, U, ldu, su, V, ldv, sv, work, length, info, residuals, count);
}
int NAME(HERMITIAN(evd_bufferSize))(Handle*, int, int, int, const T*, int, const R*, int* length) { return space_for(length); }
int NAME(HERMITIAN(evd))(Handle* h, int vectors, int fill, int n, T* A, int lda, R* W, T* work, int length, int* info) {
    return syevd(h, __func__, vectors, fill, n, A, lda, W, work, length, info);
}
int NAME(HERMITIAN(evj_bufferSize))(Handle*, int, int, int, const T*, int, const R*, int* length, Jacobi*) { return space_for(length); }
int NAME(HERMITIAN(evj))(Handle* h, int vectors, int fill, int n, T* A, int lda, R* W, T* work, int length, int* info, Jacobi* parameters) {
    return syevj_batched(h, __func__, vectors, fill, n, A, lda, W, work, length, info, parameters, 1);
}
int NAME(HERMITIAN(evjBatched_bufferSize))(Handle*, int, int, int, const T*, int, const R*, int* length, Jacobi*, int) {
    return space_for(length);
}
int NAME(HERMITIAN(evjBatched))(Handle* h, int vectors, int fill, int n, T* A, int lda, R* W, T* work, int length, int* info,
                                Jacobi* parameters, int count) {
    return syevj_batched(h, __func__, vectors, fill, n, A, lda, W, work, length, info, parameters, count);
}
#undef R
