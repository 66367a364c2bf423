"""Kernels of gradlib's own for whole formulas of CuPy arrays: several pointwise steps, or such steps and a sum, in one launch.

As in `gradlib.backend.kernel_text`, they serve small contiguous arrays of one real float dtype, which may broadcast; other calls are the
declared formula's. Products and sums are rounded one after the other, as in the kernels of single steps; of half types a formula is
computed in float32 and rounded once, as torch does it. Each kernel is compiled when it is first launched.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Container
from functools import cache
from typing import Any

import numpy as np

from gradlib.backend.array import Array, cupy
from gradlib.backend.kernel_text import CTYPES, EXACT, FEW, HEADERS, MOST, THREADS, WARP_SUM, WHOLE, spans_of, written
from gradlib.backend.launching import Kernel, compiled, kernel_in, kernels

LONGEST = 1 << 14
"""The most elements that one block adds up."""

_FINITE = 3.0e38
"""Python's numbers from here on are the declared formula's to refuse or to round."""

FORMULAS = {
    "absolute_slope": ("g x c", "g / c * ((x > 0) - (x < 0))"),
    "add_scaled": ("x y c b", "(b == 0 ? T(0) : x * b) + y * c"),
    "addcdiv": ("x y w c", "x + y / w * c"),
    "addcmul": ("x y w c", "x + y * w * c"),
    "clamp": ("x y w", "isnan(x) ? x : isnan(y) ? y : isnan(w) ? w : min(max(x, y), w)"),
    "cross_entropy_with_logits": ("x y", "(1 - y) * x + (log1p(exp(-fabs(x))) + max(-x, T(0)))"),
    "distance_of_products": (
        "x y w", "[&] { const T square = x * T(-2) + y + w; return isnan(square) ? square : sqrt(max(square, T(0))); }()",
    ),
    "elu": ("x a", "x >= 0 ? x : a * expm1(x)"),
    "erf": ("x", "erf(x)"),
    "frac": ("x", "x - trunc(x)"),
    "gelu": ("x", "x * (T(0.5) * erfc(x * T(-0.7071067811865476)))"),
    "gelu_tanh": ("x", "x * (tanh((x + x * x * x * T(0.044715)) * T(0.7978845608028654)) * T(0.5) + T(0.5))"),
    "leaky_relu": ("x c", "x > 0 ? x : x * c"),
    "leaky_relu_slope": ("g x c", "x > 0 ? g : g * c"),
    "lerp": ("x y w", "fabs(w) < T(0.5) ? x + (y - x) * w : y - (y - x) * (1 - w)"),
    "log_sigmoid": ("x", "min(x, T(0)) - log1p(exp(-fabs(x)))"),
    "nan_to_num": ("x a b c", "isnan(x) ? a : isinf(x) ? (x > 0 ? b : c) : x"),
    "reciprocal_root": ("x", "1 / sqrt(x)"),
    "logits_with_weight": ("x y w", "(1 - y) * x + (1 + (w - 1) * y) * (log1p(exp(-fabs(x))) + max(-x, T(0)))"),
    "share_slope": ("g x c", "x * (-g / c)"),
    "smooth_absolute": ("x b w", "[&] { const T size = fabs(x), near = min(size, b); return (size - near * T(0.5)) * (near / w); }()"),
    "smooth_slope": ("g x y b c w", "[&] { const T d = (x - y) / b; return (isnan(d) ? d : min(max(d, -c), c)) * (g / w); }()"),
    "softplus": ("x b c", "x * b > c ? x : log1p(exp(x * b)) / b"),
    "squared_slope": ("g x y c", "(x - y) * (g * c)"),
    "threshold_slope": ("g x c", "x <= c ? T(0) : g"),
}
"""By name the operands, in their order, and the value, computed in T."""

SUMS = {
    "absolute": ("x y", "x - y", "fabs(T(E(k)))"),
    "product": ("x y", "y", "x * k"),
    "shares": ("x y a b", "y * a + b", "-(x * k)"),
    "smooth": (
        "x y b c", "x - y", "[&] { const T size = fabs(k), near = min(size, b); return T(E((size - near * T(0.5)) * (near / c))); }()",
    ),
    "squared": ("x y", "x - y", "[&] { const T away = T(E(k)); return T(E(away * away)); }()"),
}
"""The same of formulas that are summed over all elements of arrays of one shape: behind the operands a first step k, which may be kept, and
the value, of this. E rounds what the elements of losses are rounded to."""


def typed(value: str, char: str) -> str:
    """A text with the names of the types for T and E: that of the computation, and that of the elements."""
    return re.sub(r"\bE\b", CTYPES[char], re.sub(r"\bT\b", "{computed}", value))


def source(name: str, char: str, kinds: str) -> str:
    """The kernel of a formula for arrays of a dtype; ``kinds``: of each operand, as `gradlib.backend.kernel_text.written` has them."""
    names, value = FORMULAS[name]
    operands = dict(zip(names.split(), kinds, strict=True))
    return HEADERS.get(char, "") + written(name, char, operands, CTYPES[char], typed(value, char))


@cache
def _kernel(name: str, char: str, kinds: str) -> Kernel:
    return kernel_in(compiled(source(name, char, kinds), "--fmad=false"), name)


def function_for(
    kernel: Callable[[str, str], Kernel], made: Any = None, masks: bool = False, served: Container[str] = CTYPES
) -> Callable[..., Array | None]:
    """A function of operands, arrays on the current device and numbers, that launches a kernel.

    Args:
        kernel: gives it, by the character of the arrays' dtype and the kinds of the operands.
        made: the dtype of the result where that is not the arrays'. masks: some of these may be masks. served: the characters of their
            dtypes.
    Returns: one whose result is None where no kernel serves the operands; ``out``: their only array, to write into.
    """
    ndarray = cupy().ndarray

    def run(*operands: Any, out: Array | None = None) -> Array | None:
        like: Any = None
        dtype: Any = None
        kinds, alike, given, laid = "", True, [], []
        for each in operands:
            if type(each) is ndarray:
                data = each.data
                if like is None:
                    like, device = each, data.device_id
                if data.device_id != device:
                    return None
                if each.dtype is not dtype and not (masks and each.dtype.char == "?"):
                    if dtype is not None:
                        return None
                    dtype = each.dtype
                    if dtype.char not in served:
                        return None
                if not each._c_contiguous and out is None and each.size <= FEW and any(each.strides):
                    each = each.copy("C")
                    data = each.data
                alike = alike and each._c_contiguous and each.shape == like.shape
                kinds += "v"
                given.append(data.ptr)
            elif ((kind := type(each)) is float or kind is int) and -_FINITE < each < _FINITE:
                kinds += "n"
                given.append(each)
            elif dtype is not None and (kind is np.float32 or kind is dtype.type):
                kinds += "n"
                given.append(float(each))
            else:
                return None
            laid.append(each)
        if dtype is None:
            return None
        if alike:
            shape, n = like.shape, like.size
        elif (met := _spread(laid, kinds, given)) is not None:
            shape, n, stretched, given = met
            kinds = kinds.replace("v", stretched)
        else:
            return None
        if not 0 < n <= MOST:
            return None
        out = ndarray(shape, made or dtype) if out is None else out
        return out if kernel(dtype.char, kinds).run(device, n, THREADS, *given, out.data.ptr, n) else None

    return run


@cache
def formula(name: str) -> Callable[..., Array | None]:
    """A function of the operands of a formula, as ``function_for`` makes it."""
    return function_for(functools.partial(_kernel, name))


_CLOSE = {
    **dict.fromkeys("fd", (
        "x == y || (isnan(x) && isnan(y) && nan != 0)"
        " || ((r != 0 || a != 0) && isfinite(x - y) && fabs(x - y) <= {rounded}_add_rn(a, fabs({rounded}_mul_rn(r, y))))"
    )),
    **dict.fromkeys("il", (
        "[&] { const auto apart = x > y ? (unsigned long long)x - y : (unsigned long long)y - x;"
        " return !apart || ((r != 0 || a != 0) && double(apart) <= __dadd_rn(a, fabs(__dmul_rn(r, double(y))))); }()"
    )),
}  # fmt: skip
"""Whether |x - y| <= a + r |y|, as NumPy's steps round it; where both tolerances are 0, whether they are equal."""


def close_source(char: str, kinds: str) -> str:
    """The kernel ``close`` for arrays of a dtype of `_CLOSE`; ``kinds``: of the two arrays first."""
    operands = dict(zip(("x", "y", "r", "a", "nan"), kinds[:2] + 3 * ("d" if char in EXACT else "n"), strict=True))
    return written("close", char, operands, "bool", _CLOSE[char])


@cache
def _close() -> Callable[..., Array | None]:
    return function_for(functools.partial(kernels(close_source), "close"), np.bool_, served=_CLOSE)


def close(x: Any, y: Any, rtol: float, atol: float, equal_nan: bool) -> Array | None:
    """``isclose`` of CuPy arrays of float32, float64, int32 or int64; None where no kernel serves the operands, or a tolerance is wrong."""
    if type(x) is not type(y) or not (rtol >= 0 and atol >= 0 and rtol + atol < _FINITE):
        return None
    return _close()(x, y, float(rtol), float(atol), float(equal_nan))


def complex_source(char: str, kinds: str) -> str:
    """The kernel ``complex`` that puts arrays of a dtype side by side, as the parts of complex numbers."""
    text = written("complex", char, dict(zip("xy", kinds, strict=True)), "Pair", "Pair{x, y}")
    return f"struct Pair {{ {CTYPES[char]} real, imag; }};\n{text}"


@cache
def _complex(char: str) -> Callable[..., Array | None]:
    return function_for(functools.partial(kernels(complex_source), "complex"), np.dtype(char.upper()), served=char)


def complex_of(real: Any, imag: Any) -> Array | None:
    """Complex numbers of CuPy arrays of one dtype, float32 or float64; None where no kernel serves them."""
    if type(real) is not type(imag) or real.dtype.char not in WHOLE or not real.size:
        return None
    return _complex(real.dtype.char)(real, imag)


def _spread(operands: list[Any], kinds: str, given: list[Any]) -> tuple[tuple[int, ...], int, str, list[Any]] | None:
    """Of operands that broadcast: the shape of the result, its size, the kind of the arrays, and what a kernel is given.

    One number repeated is no line of them.
    """
    shapes = [each.shape for each, kind in zip(operands, kinds, strict=True) if kind == "v"]
    groups = 1
    met = spans_of(*shapes)
    if met is None:
        groups = 2
        met = spans_of(*shapes, groups=groups)
    if met is None:
        return None
    shape, n, spans = met
    made: list[Any] = []
    place, numbers = 0, 2 * groups
    for each, kind, value in zip(operands, kinds, given, strict=True):
        made.append(value)
        if kind != "v":
            continue
        if each._c_contiguous:
            made += spans[place : place + numbers]
        elif not any(each.strides):
            made += [1] * numbers
        else:
            return None
        place += numbers
    return shape, n, "bw"[groups - 1], made


def sum_source(name: str, char: str, weighted: bool = False, keeps: bool = False) -> str:
    """The kernel of a sum, divided by a number ``by``: one block of it, of which each thread adds up some elements.

    Args:
        weighted: each element has a weight, in a third array, which may broadcast.
        keeps: the first step of each element is written to an array.
    """
    names, step, value = SUMS[name]
    ctype, computed = CTYPES[char], CTYPES[char] if char in WHOLE else "float"
    arrays = [each for each in names.split() if each in "xy"]
    parameters = [f"const {ctype}* {each}_" if each in arrays else f"{computed} {each}" for each in names.split()]
    loads = "".join(f"const {computed} {each} = {computed}({each}_[i]); " for each in arrays)
    if weighted:
        parameters += [f"const {ctype}* w_", "unsigned w_inner", "unsigned w_count"]
        loads += f"const {computed} w = {computed}(w_[i / w_inner % w_count]); "
    loads += f"const {computed} k = {step}; "
    if keeps:
        parameters.append(f"{ctype}* kept")
        loads += "kept[i] = E(k); "
    value = f"T(E({value} * w))" if weighted else value
    return f"""{HEADERS.get(char, "")}
typedef {computed} T;
typedef {ctype} E;
extern "C" __global__ void gradlib_{name}({", ".join(parameters)}, {ctype}* z, {computed} by, unsigned n) {{
    __shared__ {computed} parts[32];
    {computed} s = 0;
    for (unsigned i = threadIdx.x; i < n; i += blockDim.x) {{ {loads}s += {value}; }}
    {WARP_SUM.format("s")}
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = s;
    __syncthreads();
    if (threadIdx.x >= 32) return;
    s = threadIdx.x < blockDim.x / 32 ? parts[threadIdx.x] : 0;
    {WARP_SUM.format("s")}
    if (threadIdx.x == 0) z[0] = ({ctype})(s / by);
}}
"""


@cache
def _sum_kernel(name: str, char: str, weighted: bool, keeps: bool) -> Kernel:
    return kernel_in(compiled(sum_source(name, char, weighted, keeps), "--fmad=false"), name)


def summed(name: str, x: Array, y: Array, *numbers: float, by: float = 1, weight: Array | None = None, keeps: bool = False) -> Any:
    """A formula of `SUMS` of two arrays on the current device, divided by a number; None where no kernel serves them.

    Args:
        weight: an array of the same dtype that broadcasts with them, whose elements each of the formula's is multiplied by.
        keeps: give two arrays, the sum and the first step of each element.
    """
    dtype, data, n = x.dtype, x.data, x.size
    char = dtype.char
    if char not in CTYPES or y.dtype is not dtype or x.shape != y.shape or not 0 < n <= LONGEST or y.data.device_id != data.device_id:
        return None
    if not (x._c_contiguous and y._c_contiguous and 0 < by < _FINITE):
        return None
    for each in numbers:
        if not -_FINITE < each < _FINITE:
            return None
    weights: tuple[Any, ...] = ()
    if weight is not None:
        met = spans_of(x.shape, weight.shape)
        if met is None or met[0] != x.shape or weight.dtype is not dtype or not weight._c_contiguous:
            return None
        if weight.data.device_id != data.device_id:
            return None
        weights = (weight.data.ptr, *met[2][2:])
    out, block = type(x)((), dtype), min(1024, -(-n // 32) * 32)
    kept = type(x)(x.shape, dtype) if keeps else None
    values = (data.ptr, y.data.ptr, *numbers, *weights, *(() if kept is None else (kept.data.ptr,)), out.data.ptr, by, n)
    if not _sum_kernel(name, char, bool(weights), keeps).run(data.device_id, block, block, *values):
        return None
    return out if kept is None else (out, kept)
