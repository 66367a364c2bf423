"""Kernels of gradlib's own for small pointwise operations on CuPy arrays: contiguous, of one dtype that `CTYPES` or `EXACT` has.

CuPy's ufuncs work out broadcasting, strides and types at each call; of a small array that is most of the time. Here there is nothing to
work out, and how two shapes meet is kept. Every other call is handed on to CuPy's function, which computes the same: the expressions are
its own.

The launch is written out in each kind of function: a call of Python for it would cost a tenth of the whole.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import cache, lru_cache
from typing import Any, NamedTuple

import numpy as np

from gradlib.backend import quotient
from gradlib.backend.array import Array, cupy
from gradlib.backend.launching import Functions, Kernel, Slots, kernel_of, launcher

MOST = 1 << 20
"""The most elements of an array for which a kernel of these runs: beyond, a launch is no longer what takes the time."""

THREADS = 128
CTYPES = {"f": "float", "d": "double", "e": "float16", "E": "bfloat16"}
WHOLE = ("f", "d")
EXACT = {"?": "bool", "i": "int", "l": "long long"}
NUMBERS = {"f": "f", "d": "d", "e": "f", "E": "f", "i": "i", "l": "q"}  # beside arrays of each dtype, as ``struct`` writes them
_ALL = {**CTYPES, **EXACT}
INFINITE = "__int_as_float(0x7f800000)"
"""Infinity in CUDA, whose compiler knows no macro for it."""
HEADERS = dict.fromkeys("eE", "#include <cupy/carray.cuh>\n#include <cupy/float16.cuh>\n#include <cupy/bfloat16.cuh>\n")

ONE = {
    "absolute": "fabs(x)", "arccos": "acos(x)", "arccosh": "acosh(x)", "arcsin": "asin(x)", "arcsinh": "asinh(x)", "arctan": "atan(x)",
    "arctanh": "atanh(x)", "ceil": "ceil(x)", "cos": "cos(x)", "cosh": "cosh(x)", "exp": "exp(x)", "exp2": "pow({computed}(2), x)",
    "expm1": "expm1(x)", "floor": "floor(x)", "isfinite": "isfinite(x)", "isinf": "isinf(x)", "isnan": "isnan(x)", "log": "log(x)",
    "log10": "log10(x)", "log1p": "log1p(x)", "log2": "log2(x)", "negative": "-x", "reciprocal": "1 / x", "rint": "rint(x)",
    "sign": "x < 0 || x > 0 ? copysign({computed}(1), x) : x - x", "sin": "sin(x)", "sinh": "sinh(x)", "sqrt": "sqrt(x)",
    "square": "x * x", "tan": "tan(x)", "tanh": "tanh(x)", "trunc": "trunc(x)",
}  # fmt: skip
"""By the name of NumPy's function of one array of floats, its value."""

OWN = {
    "angle": "isnan(x) ? x : {computed}(x < 0 ? 3.141592653589793 : 0)", "sigmoid": "1 / (exp(-x) + 1)", "signum": "(x > 0) - (x < 0)",
    "silu": "x * (1 / (exp(-x) + 1))",
}  # fmt: skip
"""The same of functions that CuPy has not, or otherwise; ``signum`` of NaN is 0."""

TWO = {
    "add": "x + y", "arctan2": "atan2(x, y)", "divide": "x / y", "equal": "x == y", "fmax": "fmax(x, y)", "fmin": "fmin(x, y)",
    "fmod": "fmod(x, y)", "greater": "x > y", "greater_equal": "x >= y", "hypot": "hypot(x, y)", "less": "x < y",
    "less_equal": "x <= y", "maximum": "isnan(x) || isnan(y) ? x + y : max(x, y)", "minimum": "isnan(x) || isnan(y) ? x + y : min(x, y)",
    "multiply": "x * y", "not_equal": "x != y", "power": "pow(x, y)", "subtract": "x - y",
    "remainder": "[&] { const auto r = fmod(x, y); return r != 0 && (r < 0) != (y < 0) ? r + y : r; }()",
    "floor_divide": "[&] { const auto r = fmod(x, y), q = (x - r) / y, w = r != 0 && (r < 0) != (y < 0) ? q - 1 : q;"
    " return y == 0 ? x / y : w == 0 ? copysign({computed}(0), x / y) : rint(w); }()",
}  # fmt: skip
"""The same for two arrays, or an array and a number, which half types meet in float32."""

COMPARE = frozenset(("equal", "greater", "greater_equal", "isfinite", "isinf", "isnan", "less", "less_equal", "not_equal"))
_INTEGERS = {"absolute": "x > 0 ? x : -x", "negative": "-x", "square": "x * x"}, {
    **{name: TWO[name] for name in ("add", "multiply", "subtract", *sorted(COMPARE.intersection(TWO)))},
    "bitwise_and": "x & y", "bitwise_or": "x | y", "bitwise_xor": "x ^ y", "maximum": "max(x, y)", "minimum": "min(x, y)",
    "left_shift": "y < 0 || y >= 8 * (int)sizeof x ? 0 : ({computed})((unsigned long long)x << y)",
    "right_shift": "y < 0 || y >= 8 * (int)sizeof x ? x < 0 ? -1 : 0 : x >> y",
}  # fmt: skip
_BOOLS = {"invert": "!x", "logical_not": "!x"}, {
    "bitwise_and": "x & y", "bitwise_or": "x | y", "bitwise_xor": "x ^ y", "equal": "x == y", "logical_and": "x && y",
    "logical_or": "x || y", "not_equal": "x != y",
}  # fmt: skip
_VALUES = {**dict.fromkeys(CTYPES, ({**ONE, **OWN}, TWO)), "i": _INTEGERS, "l": _INTEGERS, "?": _BOOLS}
"""By dtype, the functions of one array and of two that have kernels, and their values."""
_OF_ONE = frozenset(name for one, _ in _VALUES.values() for name in one)
_OF_TWO = frozenset(name for _, two in _VALUES.values() for name in two)

WHERE = ("vv", "vn", "nv", "nn", "bb", "bn", "nb")
"""What stands beside the mask of ``where``, as `written` has it; the mask broadcasts where an array does."""

_LARGEST = {"f": 3.0e38, "d": float("inf"), "e": 65504.0, "E": 0.0, "i": 2.0**31, "l": 2.0**63, "?": 0.0}
"""Finite numbers from here on are CuPy's; all beside bfloat16, with which it gives float32."""


_CLOSE = (
    "x == y || (isnan(x) && isnan(y) && nan != 0)"
    " || ((r != 0 || a != 0) && isfinite(x - y) && fabs(x - y) <= {rounded}_add_rn(a, fabs({rounded}_mul_rn(r, y))))"
)
"""Whether |x - y| <= a + r |y|, as NumPy's steps round it; where both tolerances are 0, whether they are equal."""


def written(name: str, char: str, operands: dict[str, str], result: str, value: str) -> str:
    """A kernel's text; ``operands``: "v" for an array, "n" for a number, "b" for an array that broadcasts. One called m... is a mask.

    An array that broadcasts gives its element ``i / inner % count`` to element i of the result.
    """
    ctype, parameters, loads = _ALL[char], [], ""
    computed = "float" if char in HEADERS else ctype
    value = value.replace("{computed}", computed).replace("{rounded}_", "__f" if computed == "float" else "__d")
    for each, kind in operands.items():
        stored, read = ("bool", "bool") if each[0] == "m" else (ctype, computed)
        if kind == "n":
            parameters.append(f"{read} {each}")
            continue
        parameters.append(f"const {stored}* {each}_")
        if kind == "b":
            parameters += [f"unsigned {each}_inner", f"unsigned {each}_count"]
        loads += f" const {read} {each} = ({read}){each}_[{'i' if kind == 'v' else f'i / {each}_inner % {each}_count'}];"
    return (
        f'extern "C" __global__ void gradlib_{name}({", ".join(parameters)}, {result}* z, unsigned n) {{\n'
        f"    const unsigned i = blockIdx.x * {THREADS} + threadIdx.x;\n"
        f"    if (i < n) {{{loads} z[i] = ({result})({value}); }}\n"
        "}\n"
    )


def source(char: str) -> str:
    """All kernels for arrays of a dtype: ``where``, and of two operands ``_vv``, ``_vn``, ``_nv``, ``_bb``."""
    ctype, (one, two) = _ALL[char], _VALUES[char]
    made = {name: "bool" if name in COMPARE else ctype for name in (*one, *two)}
    kernels = [written(name, char, {"x": "v"}, made[name], value) for name, value in one.items()]
    for form in ("vv", "vn", "nv", "bb") if char in NUMBERS else ("vv", "bb"):
        operands = dict(zip("xy", form, strict=True))
        kernels += [written(f"{name}_{form}", char, operands, made[name], value) for name, value in two.items()]
    for form in WHERE if char in NUMBERS else ("vv", "bb"):
        operands = {"m": "b" if "b" in form else "v", **dict(zip("xy", form, strict=True))}
        kernels.append(written(f"where_{form}", char, operands, ctype, "m ? x : y"))
    if char in EXACT:
        return "".join(kernels)
    if char in WHOLE:
        kernels.append(written("close", char, {"x": "b", "y": "b", "r": "n", "a": "n", "nan": "n"}, "bool", _CLOSE))
    return HEADERS.get(char, "") + "".join(kernels)


class Form(NamedTuple):
    """A kernel for operands of a dtype, ready to be launched.

    Attributes:
        functions: its handle by device. pack, free, made: as `Slots` has them.
    """

    functions: Functions
    pack: Callable[..., None]
    free: list[Any]
    made: Callable[[], Any]


@cache
def form(name: str, char: str, format: str) -> Form:
    """A kernel of `source`; ``format``: its parameters, as ``struct`` writes them."""
    slots = Slots(format)
    return Form(Functions(kernel_of(source, char, name=name)), slots.pack, slots.free, slots.made)


@lru_cache(4096)
def spans_of(*shapes: tuple[int, ...]) -> tuple[tuple[int, ...], int, tuple[int, ...]] | None:
    """How contiguous arrays of these shapes broadcast.

    Returns: the shape of the result, its size, and ``inner, count`` of each array as `written` has them; None for shapes that do not meet,
        results that are empty or large, and an array that is stretched on both sides of a dimension of its own and in between.
    """
    ndim = max(map(len, shapes))
    padded = [(1,) * (ndim - len(shape)) + shape for shape in shapes]
    made = tuple(max(sizes) if min(sizes) else 0 for sizes in zip(*padded, strict=True))
    n, spans = math.prod(made), []
    if not 0 < n <= MOST:
        return None
    for shape in padded:
        own = [d for d, size in enumerate(shape) if size != 1]
        first, behind = (own[0], own[-1] + 1) if own else (0, 0)
        if shape[first:behind] != made[first:behind]:
            return None
        spans += [math.prod(made[behind:]), math.prod(made[first:behind])]
    return made, n, tuple(spans)


def held(number: Any, dtype: np.dtype) -> float | None:
    """A number as a kernel takes it beside elements of a dtype: one of the dtype, or Python's; None where it is CuPy's to round."""
    char = dtype.char
    kind = type(number)
    if kind is dtype.type:
        return None if char == "?" else number.item()
    if kind is not int and (kind is not float or char in EXACT):
        return None
    largest = _LARGEST[char]
    if not -largest < number < largest and (not largest or number - number == 0):  # of infinity and NaN that is NaN
        return None
    return float(dtype.type(number)) if char in HEADERS else number


def of_one(name: str, theirs: Callable[..., Array]) -> Callable[..., Array]:
    """A function of one array; ``theirs``: CuPy's for every other call."""
    library = cupy()
    launch, stream = launcher()
    ndarray = library.ndarray
    forms = {char: form(name, char, "PPI") for char, (one, _) in _VALUES.items() if name in one}
    made_bool = library.dtype("?") if name in COMPARE else None

    def run(x: Any, out: Any = None, **options: Any) -> Array:
        if out is not None or options:
            return x if out is x and not options and into(name)(x) else theirs(x, out, **options)
        if type(x) is ndarray and x._c_contiguous and 0 < (n := x.size) <= MOST:
            dtype = x.dtype
            chosen = forms.get(dtype.char)
            if chosen is not None:
                functions, pack, free, made = chosen
                result, from_x = ndarray(x.shape, dtype if made_bool is None else made_bool), x.data
                slot = free.pop() if free else made()
                try:
                    pack(slot[0], 0, from_x.ptr, result.data.ptr, n)
                    launch(functions[from_x.device_id], -(-n // THREADS), 1, 1, THREADS, 1, 1, 0, stream().ptr, slot[1], 0)
                except _failed():
                    return theirs(x)
                free.append(slot)
                return result
        return theirs(x)

    return run


PARTS = {"absolute": "hypot(x, y)", "angle": "atan2(y, x)"}
"""The values of functions of complex numbers x + iy that are real."""
_PARTS_OF = {"F": "float", "D": "double"}


def parts_source(char: str) -> str:
    """The kernels for `PARTS` of arrays of a complex dtype."""
    ctype = _PARTS_OF[char]
    return "".join(
        f'extern "C" __global__ void gradlib_{name}(const {ctype}* x_, {ctype}* z, unsigned n) {{\n'
        f"    const unsigned i = blockIdx.x * {THREADS} + threadIdx.x;\n"
        f"    if (i < n) {{ const {ctype} x = x_[2 * i], y = x_[2 * i + 1]; z[i] = {value}; }}\n}}\n"
        for name, value in PARTS.items()
    )


@cache
def _of_parts(name: str, char: str) -> Kernel:
    return Kernel("PPI", kernel_of(parts_source, char, name=name))


def of_parts(name: str, theirs: Callable[..., Array]) -> Callable[..., Array]:
    """A function of `PARTS`; ``theirs``: the same for every other call."""
    ndarray = cupy().ndarray

    def run(x: Any, *more: Any, **options: Any) -> Array:
        if type(x) is not ndarray or (char := x.dtype.char) not in _PARTS_OF or more or options or not x._c_contiguous:
            return theirs(x, *more, **options)
        n, data = x.size, x.data
        if not 0 < n <= MOST:
            return theirs(x)
        out = ndarray(x.shape, char.lower())
        return out if _of_parts(name, char).run(data.device_id, n, THREADS, data.ptr, out.data.ptr, n) else theirs(x)

    return run


@cache
def _failed() -> Any:
    """What a launch raises: the driver in a thread that has not used the device yet, which CuPy makes good; a number beyond all floats."""
    return cupy().cuda.driver.CUDADriverError, OverflowError


def of_two(name: str, theirs: Callable[..., Array], in_single: bool = False) -> Callable[..., Array]:
    """A function of two operands, of which one may be a number.

    Args:
        name: of `TWO`; theirs: CuPy's for every other call.
        in_single: of a half type and a number of type float32 the result is made in float32 and rounded once, to the half type. Every other
            number is rounded to the half type first.
    """
    theirs = _in_single(theirs) if in_single else theirs
    library = cupy()
    launch, stream = launcher()
    ndarray, bool_ = library.ndarray, library.dtype("?")
    chars = [char for char, (_, two) in _VALUES.items() if name in two]
    both = {char: form(f"{name}_vv", char, "PPPI") for char in chars}
    second = {char: form(f"{name}_vn", char, f"P{NUMBERS[char]}PI") for char in chars if char in NUMBERS}
    first = {char: form(f"{name}_nv", char, f"{NUMBERS[char]}PPI") for char in chars if char in NUMBERS}
    spread = {char: form(f"{name}_bb", char, "PIIPIIPI") for char in chars}
    compares = name in COMPARE

    def broadcast(x: Array, y: Array) -> Array:
        """Of arrays of other shapes, or of which one is a number repeated, as the gradient of a sum is."""
        dtype, data, met = x.dtype, x.data, spans_of(x.shape, y.shape)
        if met is None:
            return theirs(x, y)
        shape, n, (x_inner, x_count, y_inner, y_count) = met
        if not x._c_contiguous:
            if any(x.strides):
                return theirs(x, y)
            x_inner, x_count = n, 1
        if not y._c_contiguous:
            if any(y.strides):
                return theirs(x, y)
            y_inner, y_count = n, 1
        functions, pack, free, made = spread[dtype.char]
        out = ndarray(shape, bool_ if compares else dtype)
        slot = free.pop() if free else made()
        try:
            pack(slot[0], 0, data.ptr, x_inner, x_count, y.data.ptr, y_inner, y_count, out.data.ptr, n)
            launch(functions[data.device_id], -(-n // THREADS), 1, 1, THREADS, 1, 1, 0, stream().ptr, slot[1], 0)
        except _failed():
            return theirs(x, y)
        free.append(slot)
        return out

    def run(x: Any, y: Any, out: Any = None, **options: Any) -> Array:
        if out is not None or options:
            return x if out is x and not options and into(name, in_single)(x, y) else theirs(x, y, out, **options)
        number_first = type(x) is not ndarray
        like = y if number_first else x
        if type(like) is not ndarray or not 0 < (n := like.size) <= MOST:
            return theirs(x, y)
        dtype, data = like.dtype, like.data
        char, device = dtype.char, data.device_id
        if char not in both:
            return theirs(x, y)
        if type(y) is ndarray and not number_first:
            other = y.data
            if y.dtype is not dtype or other.device_id != device:
                return theirs(x, y)
            if y.shape != x.shape or not (x._c_contiguous and y._c_contiguous):
                return broadcast(x, y)
            (functions, pack, free, made), a, b = both[char], data.ptr, other.ptr
        elif not like._c_contiguous:
            return theirs(x, y)
        else:
            number = x if number_first else y
            if not in_single or type(number) is not np.float32 or dtype.itemsize != 2:
                number = held(number, dtype)
                if number is None:
                    return theirs(x, y)
            (functions, pack, free, made), a, b = (first[char], number, data.ptr) if number_first else (second[char], data.ptr, number)
        result = ndarray(like.shape, bool_ if compares else dtype)
        slot = free.pop() if free else made()
        try:
            pack(slot[0], 0, a, b, result.data.ptr, n)
            launch(functions[device], -(-n // THREADS), 1, 1, THREADS, 1, 1, 0, stream().ptr, slot[1], 0)
        except _failed():
            return theirs(x, y)
        free.append(slot)
        return result

    return run


def _in_single(theirs: Callable[..., Array]) -> Callable[..., Array]:
    """CuPy's function, where ``in_single`` of `of_two` asks for it in float32."""

    def run(x: Any, y: Any, *more: Any, **options: Any) -> Array:
        like = y if type(x) is np.float32 else x
        if more or options or (like is not y and type(y) is not np.float32):
            return theirs(x, y, *more, **options)
        dtype = like.dtype
        wide = like.astype(np.float32) if dtype.itemsize == 2 and dtype.char in CTYPES else like
        made = theirs(x, wide) if like is y else theirs(wide, y)
        return made if wide is like else made.astype(dtype)

    return run


@cache
def into(name: str, in_single: bool = False) -> Callable[..., bool]:
    """A function that writes its result into its first operand, an array: ``x += y`` for "add". ``in_single``: as for `of_two`.

    Returns: a function that says whether it did. It did not where no kernel serves the operands, or y lies partly in x's memory.
    """
    library = cupy()
    launch, stream = launcher()
    ndarray = library.ndarray
    same = CTYPES if name not in COMPARE else {}  # dtypes in which the result is that of x
    alone = {char: form(name, char, "PPI") for char in same}
    both = {char: form(f"{name}_vv", char, "PPPI") for char in same}
    second = {char: form(f"{name}_vn", char, f"P{NUMBERS[char]}PI") for char in same}
    spread = {char: form(f"{name}_bb", char, "PIIPIIPI") for char in same}

    def prepared(x: Array, y: Any) -> tuple[Form, tuple[Any, ...]] | None:
        """The kernel of two operands, and what it is given before the result."""
        dtype, data = x.dtype, x.data
        char = dtype.char
        if type(y) is not ndarray:
            if dtype.itemsize == 2 and (type(y) is float or type(y) is int) and -_LARGEST["e"] < y < _LARGEST["e"]:
                y = y if in_single else dtype.type(y)
                return second[char], (data.ptr, float(y))
            number = held(y, dtype)
            return None if number is None else (second[char], (data.ptr, number))
        other = y.data
        if y.dtype is not dtype or not y._c_contiguous or other.device_id != data.device_id:
            return None
        if other.ptr != data.ptr and -y.nbytes < other.ptr - data.ptr < x.nbytes:
            return None
        if y.shape == x.shape:
            return both[char], (data.ptr, other.ptr)
        met = None if other.ptr == data.ptr else spans_of(x.shape, y.shape)
        if met is None or met[0] != x.shape:
            return None
        spans = met[2]
        return spread[char], (data.ptr, *spans[:2], other.ptr, *spans[2:])

    def run(x: Any, *others: Any) -> bool:
        if type(x) is not ndarray or not x._c_contiguous or not 0 < (n := x.size) <= MOST or (char := x.dtype.char) not in same:
            return False
        data = x.data
        chosen = prepared(x, *others) if others else (alone[char], (data.ptr,))
        if chosen is None:
            return False
        (functions, pack, free, made), given = chosen
        slot = free.pop() if free else made()
        try:
            pack(slot[0], 0, *given, data.ptr, n)
            launch(functions[data.device_id], -(-n // THREADS), 1, 1, THREADS, 1, 1, 0, stream().ptr, slot[1], 0)
        except _failed():
            return False
        free.append(slot)
        return True

    return run


def close(x: Any, y: Any, rtol: float, atol: float, equal_nan: bool) -> Array | None:
    """``isclose`` of CuPy arrays of float32 or float64; None where no kernel serves the operands."""
    made, dtype = cupy().ndarray, x.dtype
    if type(x) is not made or type(y) is not made or dtype.char not in WHOLE or y.dtype is not dtype:
        return None
    data, met = x.data, spans_of(x.shape, y.shape)
    if met is None or not (x._c_contiguous and y._c_contiguous) or y.data.device_id != data.device_id or not rtol + atol < _LARGEST["f"]:
        return None
    shape, n, spans = met
    out = made(shape, np.bool_)
    values = (data.ptr, *spans[:2], y.data.ptr, *spans[2:], rtol, atol, equal_nan, out.data.ptr, n)
    return out if _close(dtype.char).run(data.device_id, n, THREADS, *values) else None


@cache
def _close(char: str) -> Kernel:
    return Kernel(f"PIIPII{char * 3}PI", kernel_of(source, char, name="close"))


_COUNTED = {"l": "long long", "q": "long long", "i": "int", "f": "float", "d": "double"}


def arange_source(char: str) -> str:
    """The kernel ``arange`` for a dtype. It computes in 64 bits, and rounds the product and the sum each, as CuPy's functions do."""
    ctype, number, value = _COUNTED[char], "long long", "start + step * i"
    if char in WHOLE:
        number, value = "double", "__dadd_rn(start, __dmul_rn(step, i))"
    return (
        f'extern "C" __global__ void gradlib_arange({number} start, {number} step, {ctype}* z, unsigned n) {{\n'
        f"    const unsigned i = blockIdx.x * {THREADS} + threadIdx.x;\n    if (i < n) z[i] = ({ctype})({value});\n}}\n"
    )


@cache
def _arange(char: str) -> Kernel:
    number = "d" if char in WHOLE else "q"
    return Kernel(f"{number}{number}PI", kernel_of(arange_source, char, name="arange"))


def arange(start: float, step: float, count: int, dtype: np.dtype) -> Array | None:
    """``start + step * i`` for each i below a count, on the current device; None where no kernel serves it."""
    char = dtype.char
    if char not in _COUNTED or not 0 < count <= MOST or not abs(start) < 1 << 62 > abs(step):
        return None
    if char not in WHOLE:
        start, step = int(start), int(step)
    out = cupy().ndarray(count, dtype)
    return out if _arange(char).run(out.data.device_id, count, THREADS, start, step, out.data.ptr, count) else None


def linspace_source(char: str) -> str:
    """The kernel ``linspace`` for a dtype: positions counted from the nearer end; of float32 in float32, of all others in float64."""
    number, letter = ("float", "f") if char == "f" else ("double", "d")
    parameters = f"{number} first, {number} last, {number} step, {_COUNTED[char]}* z, unsigned n"
    away = f"__{letter}mul_rn(step, ({number})"
    value = f"i < n / 2 ? __{letter}add_rn(first, {away}i)) : __{letter}add_rn(last, -{away}(n - 1 - i)))"
    return (
        f'extern "C" __global__ void gradlib_linspace({parameters}) {{\n'
        f"    const unsigned i = blockIdx.x * {THREADS} + threadIdx.x;\n    if (i < n) z[i] = ({_COUNTED[char]})({value});\n}}\n"
    )


@cache
def _linspace(char: str) -> Kernel:
    number = "f" if char == "f" else "d"
    return Kernel(f"{number * 3}PI", kernel_of(linspace_source, char, name="linspace"))


def linspace(first: Any, last: Any, step: Any, count: int, dtype: np.dtype) -> Array | None:
    """Numbers a step apart, counted from the nearer end, on the current device; None where no kernel serves it.

    Args:
        first, last, step: float32 for such numbers, else float64.
    """
    char = dtype.char
    if char not in _COUNTED or not 0 < count <= MOST:
        return None
    out = cupy().ndarray(count, dtype)
    values = (float(first), float(last), float(step), out.data.ptr, count)
    return out if _linspace(char).run(out.data.device_id, count, THREADS, *values) else None


@cache
def _where() -> Callable[..., Array]:
    """``where`` of a mask and two operands, of which each may be a number of their dtype; of half types it makes no float32."""
    library = cupy()
    launch, stream = launcher()
    ndarray = library.ndarray
    forms = {}
    for kind in WHERE:
        for char in _ALL if "n" not in kind else NUMBERS:
            written = {"v": "P", "b": "PII", "n": NUMBERS.get(char, "")}
            mask = written["b" if "b" in kind else "v"]
            forms[kind, char] = form(f"where_{kind}", char, f"{mask}{written[kind[0]]}{written[kind[1]]}PI")

    def theirs(mask: Any, x: Any, y: Any) -> Array:
        made = library.where(mask, x, y)
        halves = [each.dtype for each in (x, y) if type(each) is ndarray and each.dtype.char in HEADERS]
        return made.astype(halves[0]) if halves and made.dtype.char == "f" and halves[0] == halves[-1] else made

    def run(mask: Any, x: Any, y: Any) -> Array:
        dtype = getattr(x if type(x) is ndarray else y, "dtype", None)
        if type(mask) is not ndarray or dtype is None or dtype.char not in _ALL or mask.dtype.char != "?" or not mask._c_contiguous:
            return theirs(mask, x, y)
        shape, n, data, operands, shapes = mask.shape, mask.size, mask.data, [], []
        device, kind = data.device_id, ""
        for each in (x, y):
            if type(each) is ndarray:
                memory = each.data
                if each.dtype is not dtype or not each._c_contiguous or memory.device_id != device:
                    return theirs(mask, x, y)
                kind += "v"
                shapes.append(each.shape)
                operands.append(memory.ptr)
            elif (number := held(each, dtype)) is not None:
                kind += "n"
                operands.append(number)
            else:
                return theirs(mask, x, y)
        given: tuple[Any, ...] = (data.ptr, *operands)
        if shapes and (shapes[0] != shape or shapes[-1] != shape):
            met = spans_of(shape, *shapes)
            if met is None:
                return theirs(mask, x, y)
            shape, n, spans = met
            first, second = operands
            if kind == "vn":
                given = (data.ptr, *spans[:2], first, *spans[2:], second)
            else:  # "nv" has no spans of the first
                given = (data.ptr, *spans[:2], first, *spans[2:-2], second, *spans[-2:])
            kind = kind.replace("v", "b")
        if not 0 < n <= MOST:
            return theirs(mask, x, y)
        functions, pack, free, made = forms[kind, dtype.char]
        out = ndarray(shape, dtype)
        slot = free.pop() if free else made()
        try:
            pack(slot[0], 0, *given, out.data.ptr, n)
            launch(functions[device], -(-n // THREADS), 1, 1, THREADS, 1, 1, 0, stream().ptr, slot[1], 0)
        except _failed():
            return theirs(mask, x, y)
        free.append(slot)
        return out

    return run


def put_where(target: Array, mask: Any, number: Any) -> bool:
    """Write a number into a contiguous CuPy array where a mask holds that broadcasts to it.

    Returns: whether it was done, which it is not where no kernel serves the operands.
    """
    dtype, data = target.dtype, target.data
    if dtype.char not in NUMBERS or not target._c_contiguous or type(mask) is not type(target) or mask.dtype.char != "?":
        return False
    if dtype.char == "E" and (type(number) is float or type(number) is int):
        number = dtype.type(number)
    value, met = held(number, dtype), spans_of(target.shape, mask.shape)
    if value is None or met is None or met[0] != target.shape or not mask._c_contiguous or mask.data.device_id != data.device_id:
        return False
    n, spans = met[1], met[2]
    values = (mask.data.ptr, *spans[2:], value, data.ptr, *spans[:2], data.ptr, n)
    return _put_where(dtype.char).run(data.device_id, n, THREADS, *values)


@cache
def _put_where(char: str) -> Kernel:
    return Kernel(f"PII{NUMBERS[char]}PIIPI", kernel_of(source, char, name="where_nb"))


def where(mask: Array, x: Any, y: Any) -> Array:
    """``cupy.where``."""
    return _where()(mask, x, y)


@cache
def function(name: str, in_single: bool = False) -> Callable[..., Array]:
    """CuPy's function of a name, behind a kernel of gradlib's own where there is one."""
    return small(name, quotient.OURS.get(name) or getattr(cupy(), name), in_single)


def small(name: str, theirs: Any, in_single: bool = False) -> Any:
    """A function of CuPy's arrays by its name, behind a kernel of gradlib's own where there is one. ``in_single``: as for `of_two`."""
    if name == "where":
        return _where()
    if name in _OF_ONE:
        return of_one(name, of_parts(name, theirs) if name in PARTS else theirs)
    return of_two(name, theirs, in_single) if name in _OF_TWO else theirs


class _Prepared:
    """CuPy for the value of an operation: each function as `small` gives it, found once."""

    def __getattr__(self, name: str) -> Any:
        found = quotient.OURS.get(name) or getattr(cupy(), name)
        made = vars(self)[name] = small(name, found)
        if made is not found and hasattr(found, "reduce"):
            made.reduce = found.reduce
        return made


@cache
def prepared() -> Any:
    """The namespace in which the values of operations compute on CuPy arrays: CuPy, and gradlib's own kernels where there are some."""
    return _Prepared()
