"""What the texts of kernels for small matrices share: the numbers of a dtype, real or complex, and how they are computed with."""

from __future__ import annotations

REAL = {"f": "float", "d": "double", "F": "float", "D": "double"}
"""By the dtype of a matrix, the C type of real numbers of its precision."""

_OF_REAL = """
#define WIDE double
__device__ T number(R x) { return x; }
__device__ R real(T x) { return x; }
__device__ R magnitude(T x) { return fabs(x); }
__device__ R length(T x) { return fabs(x); }
__device__ T direction(T x) { return x < 0 ? -1 : 1; }
__device__ T conjugate(T x) { return x; }
__device__ R square(T x) { return x * x; }
__device__ T scaled(T x, R by) { return x * by; }
__device__ T across(T x, int bits) { return __shfl_xor_sync(0xffffffffu, x, bits); }
__device__ bool is_zero(WIDE x) { return x == 0; }
__device__ bool is_finite(T x) { return isfinite(x); }
__device__ WIDE wide(T x) { return x; }
__device__ T narrow(WIDE x) { return x; }
__device__ T unknown() { return NAN_; }
__device__ T sign_of_unknown() { return 0; }
"""
_OF_COMPLEX = """
__device__ T operator+(T a, T b) { return T{a.x + b.x, a.y + b.y}; }
__device__ T operator-(T a, T b) { return T{a.x - b.x, a.y - b.y}; }
__device__ T operator*(T a, T b) { return T{a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x}; }
__device__ T operator/(T a, T b) {  // by the larger part of b, so that its square may overflow
    const bool turned = fabs(b.x) < fabs(b.y);
    const R r = turned ? b.x / b.y : b.y / b.x, size = turned ? b.x * r + b.y : b.x + b.y * r;
    return turned ? T{(a.x * r + a.y) / size, (a.y * r - a.x) / size} : T{(a.x + a.y * r) / size, (a.y - a.x * r) / size};
}
#define WIDE T
__device__ T number(R x) { return {x, 0}; }
__device__ R real(T x) { return x.x; }
__device__ R magnitude(T x) { return fabs(x.x) + fabs(x.y); }
__device__ R length(T x) { return hypot(x.x, x.y); }
__device__ T direction(T x) { return {x.x / length(x), x.y / length(x)}; }
__device__ T conjugate(T x) { return {x.x, -x.y}; }
__device__ R square(T x) { return x.x * x.x + x.y * x.y; }
__device__ T scaled(T x, R by) { return {x.x * by, x.y * by}; }
__device__ R across(R x, int bits) { return __shfl_xor_sync(0xffffffffu, x, bits); }
__device__ T across(T x, int bits) { return {across(x.x, bits), across(x.y, bits)}; }
__device__ bool is_zero(T x) { return x.x == 0 && x.y == 0; }
__device__ bool is_finite(T x) { return isfinite(x.x) && isfinite(x.y); }
__device__ T wide(T x) { return x; }
__device__ T narrow(T x) { return x; }
__device__ T unknown() { return {NAN_, NAN_}; }
__device__ T sign_of_unknown() { return unknown(); }
"""
_ACROSS = """
// Of as many neighbouring threads as ``width``.
template <typename X> __device__ X sum_of(X x, int width) {
    for (int bits = width / 2; bits; bits /= 2) x = x + across(x, bits);
    return x;
}
__device__ R largest_of(R x, int width) {
    for (int bits = width / 2; bits; bits /= 2) x = fmax(x, across(x, bits));
    return x;
}
"""


def head(char: str, body: str) -> str:
    """A text for matrices of a dtype, whose numbers are ``T`` and those of a real one ``R``, behind what it may call."""
    real, is_complex = REAL[char], char in "FD"
    made, nan, infinite = ("__int_as_float({})", "0x7fc00000", "0x7f800000")
    if real == "double":
        made, nan, infinite = ("__longlong_as_double({}ll)", "0x7ff8000000000000", "0x7ff0000000000000")
    types = f"typedef {real} R;\ntypedef {real}{'2' if is_complex else ''} T;\n"
    whole = f"{types}{_OF_COMPLEX if is_complex else _OF_REAL}{_ACROSS}{body}"
    return whole.replace("INFINITE_", made.format(infinite)).replace("NAN_", made.format(nan))
