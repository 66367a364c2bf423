// The cuBLAS functions that exist for each of the four types: included once for each by blas.cpp, which says LETTER and T. No include
// guard.

int NAME(axpy_v2)(Handle* h, int n, const T* alpha, const T* x, int xs, T* y, int ys) { return axpy(h, __func__, n, alpha, x, xs, y, ys); }
int NAME(scal_v2)(Handle* h, int n, const T* alpha, T* x, int xs) { return scal(h, __func__, n, alpha, x, xs); }
int NAME(gemv_v2)(Handle* h, int op, int m, int n, const T* alpha, const T* A, int lda, const T* x, int xs, const T* beta, T* y, int ys) {
    return gemv(h, __func__, op, m, n, alpha, A, lda, x, xs, beta, y, ys);
}
int NAME(gemm_v2)(Handle* h, int opA, int opB, int m, int n, int k, const T* alpha, const T* A, int lda, const T* B, int ldb, const T* beta,
                  T* C, int ldc) {
    return gemm(h, __func__, {opA, opB, m, n, k, lda, ldb, ldc}, alpha, A, 0, B, 0, beta, C, 0, 1);
}
int NAME(gemmStridedBatched)(Handle* h, int opA, int opB, int m, int n, int k, const T* alpha, const T* A, int lda, long long sa,
                             const T* B, int ldb, long long sb, const T* beta, T* C, int ldc, long long sc, int count) {
    return gemm(h, __func__, {opA, opB, m, n, k, lda, ldb, ldc}, alpha, A, sa, B, sb, beta, C, sc, count);
}
int NAME(gemmBatched)(Handle* h, int opA, int opB, int m, int n, int k, const T* alpha, const T* const* A, int lda, const T* const* B,
                      int ldb, const T* beta, T* const* C, int ldc, int count) {
    return gemm_pointers(h, __func__, {opA, opB, m, n, k, lda, ldb, ldc}, alpha, A, B, beta, C, count);
}
int NAME(trsm_v2)(Handle* h, int side, int fill, int op, int diag, int m, int n, const T* alpha, const T* A, int lda, T* B, int ldb) {
    return trsm(h, __func__, side, fill, op, diag, m, n, alpha, &A, lda, &B, ldb, 1, false);
}
int NAME(trsmBatched)(Handle* h, int side, int fill, int op, int diag, int m, int n, const T* alpha, const T* const* A, int lda,
                      T* const* B, int ldb, int count) {
    return trsm(h, __func__, side, fill, op, diag, m, n, alpha, A, lda, B, ldb, count, true);
}
int NAME(syrk_v2)(Handle* h, int fill, int op, int n, int k, const T* alpha, const T* A, int lda, const T* beta, T* C, int ldc) {
    return syrk(h, __func__, fill, op, n, k, alpha, A, lda, beta, C, ldc);
}
int NAME(geam)(Handle* h, int opA, int opB, int m, int n, const T* alpha, const T* A, int lda, const T* beta, const T* B, int ldb, T* C,
               int ldc) {
    return geam(h, __func__, opA, opB, m, n, alpha, A, lda, beta, B, ldb, C, ldc);
}
int NAME(dgmm)(Handle* h, int side, int m, int n, const T* A, int lda, const T* x, int step, T* C, int ldc) {
    return dgmm(h, __func__, side, m, n, A, lda, x, step, C, ldc);
}
int NAME(getrfBatched)(Handle* h, int n, T* const* A, int lda, int* pivots, int* info, int count) {
    return getrf_batched(h, __func__, n, A, lda, pivots, info, count);
}
int NAME(getrsBatched)(Handle* h, int op, int n, int columns, const T* const* A, int lda, const int* pivots, T* const* B, int ldb,
                       int* info, int count) {
    return getrs_batched(h, __func__, op, n, columns, A, lda, pivots, B, ldb, info, count);
}
int NAME(getriBatched)(Handle* h, int n, const T* const* A, int lda, const int* pivots, T* const* C, int ldc, int* info, int count) {
    return getri_batched(h, __func__, n, A, lda, pivots, C, ldc, info, count);
}
