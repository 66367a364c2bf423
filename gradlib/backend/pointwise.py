"""Kernels of gradlib's own for small pointwise operations on CuPy arrays: contiguous, of one dtype, real floats.

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

from gradlib.backend.array import Array, cupy
from gradlib.backend.launching import Functions, Kernel, Slots, launcher

MOST = 1 << 20
"""The most elements of an array for which a kernel of these runs: beyond, a launch is no longer what takes the time."""

THREADS = 128
CTYPES = {"f": "float", "d": "double", "e": "float16", "E": "bfloat16"}
WHOLE = ("f", "d")
NUMBERS = {"f": "f", "d": "d", "e": "f", "E": "f"}  # beside arrays of each dtype, as ``struct`` writes them
HEADERS = dict.fromkeys("eE", "#include <cupy/carray.cuh>\n#include <cupy/float16.cuh>\n#include <cupy/bfloat16.cuh>\n")

ONE = {
    "absolute": "fabs(x)", "arctan": "atan(x)", "cos": "cos(x)", "cosh": "cosh(x)", "exp": "exp(x)", "expm1": "expm1(x)", "log": "log(x)",
    "log1p": "log1p(x)", "negative": "-x", "sin": "sin(x)", "sinh": "sinh(x)", "sqrt": "sqrt(x)", "square": "x * x", "tan": "tan(x)",
    "tanh": "tanh(x)",
}  # fmt: skip
"""By the name of NumPy's function of one array, its value."""

TWO = {
    "add": "x + y", "divide": "x / y", "equal": "x == y", "greater": "x > y", "greater_equal": "x >= y", "less": "x < y",
    "less_equal": "x <= y", "maximum": "isnan(x) || isnan(y) ? x + y : max(x, y)", "minimum": "isnan(x) || isnan(y) ? x + y : min(x, y)",
    "multiply": "x * y", "not_equal": "x != y", "power": "pow(x, y)", "subtract": "x - y",
}  # fmt: skip
"""The same for two arrays, or an array and a number, which half types meet in float32."""

_COMPARE = frozenset(("equal", "greater", "greater_equal", "less", "less_equal", "not_equal"))
_LARGEST = {"f": 3.0e38, "d": float("inf"), "e": 65504.0, "E": 0.0}  # numbers from here on are CuPy's: with bfloat16 it gives float32


def _written(name: str, char: str, operands: dict[str, str], result: str, value: str) -> str:
    """A kernel's text; ``operands``: "v" for an array, "n" for a number, "b" for an array that broadcasts. One called m is a mask.

    An array that broadcasts gives its element ``i / inner % count`` to element i of the result.
    """
    ctype, parameters, loads = CTYPES[char], [], ""
    computed = ctype if char in WHOLE else "float"
    for each, kind in operands.items():
        held, read = ("bool", "bool") if each == "m" else (ctype, computed)
        if kind == "n":
            parameters.append(f"{read} {each}")
            continue
        parameters.append(f"const {held}* {each}_")
        if kind == "b":
            parameters += [f"unsigned {each}_inner", f"unsigned {each}_count"]
        loads += f" const {read} {each} = {read}({each}_[{'i' if kind == 'v' else f'i / {each}_inner % {each}_count'}]);"
    return (
        f'extern "C" __global__ void gradlib_{name}({", ".join(parameters)}, {result}* z, unsigned n) {{\n'
        f"    const unsigned i = blockIdx.x * {THREADS} + threadIdx.x;\n"
        f"    if (i < n) {{{loads} z[i] = {result}({value}); }}\n"
        "}\n"
    )


def source(char: str) -> str:
    """All kernels for arrays of a dtype: ``fill``, ``clamp``, and of two operands ``_vv``, ``_vn``, ``_nv``, ``_bb``, by what each is."""
    ctype = CTYPES[char]
    kernels = [_written(name, char, {"x": "v"}, ctype, value) for name, value in ONE.items()]
    kernels += [_written("fill", char, {"x": "n"}, ctype, "x")] if char in WHOLE else []
    for form in ("vv", "vn", "nv", "bb"):
        operands = dict(zip("xy", form, strict=True))
        for name, value in TWO.items():
            kernels.append(_written(f"{name}_{form}", char, operands, "bool" if name in _COMPARE else ctype, value))
        kernels.append(_written(f"where_{form}", char, {"m": "b" if form == "bb" else "v", **operands}, ctype, "m ? x : y"))
    kernels.append(_written("clamp", char, {"x": "v", "y": "n", "w": "n"}, ctype, "isnan(x) ? x : min(max(x, y), w)"))
    return HEADERS.get(char, "") + "".join(kernels)


@cache
def _module(char: str) -> Any:
    return cupy().RawModule(code=source(char), options=("--std=c++17",), backend="nvrtc")


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
    return Form(Functions(lambda device: _module(char).get_function(f"gradlib_{name}")), slots.pack, slots.free, slots.made)


@lru_cache(4096)
def _met(*shapes: tuple[int, ...]) -> tuple[tuple[int, ...], int, tuple[int, ...]] | None:
    """How contiguous arrays of these shapes broadcast.

    Returns: the shape of the result, its size, and ``inner, count`` of each array as `_written` has them; None for shapes that do not meet,
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


def _held(number: Any, dtype: np.dtype) -> float | None:
    """A number of Python's as a kernel takes it beside elements of a dtype; None where it is CuPy's to round, and for all else."""
    char = dtype.char
    if (type(number) is not float and type(number) is not int) or not -_LARGEST[char] < number < _LARGEST[char]:
        return None
    return number if char in WHOLE else float(dtype.type(number))


def of_one(name: str, theirs: Callable[..., Array]) -> Callable[..., Array]:
    """A function of one array; ``theirs``: CuPy's for every other call."""
    library = cupy()
    launch, stream = launcher()
    ndarray = library.ndarray
    forms = {char: form(name, char, "PPI") for char in CTYPES}

    def run(x: Any) -> Array:
        if type(x) is ndarray and x._c_contiguous and 0 < (n := x.size) <= MOST:
            chosen = forms.get(x.dtype.char)
            if chosen is not None:
                functions, pack, free, made = chosen
                out, from_x = ndarray(x.shape, x.dtype), x.data
                slot = free.pop() if free else made()
                try:
                    pack(slot[0], 0, from_x.ptr, out.data.ptr, n)
                    launch(functions[from_x.device_id], -(-n // THREADS), 1, 1, THREADS, 1, 1, 0, stream().ptr, slot[1], 0)
                except _failed():
                    return theirs(x)
                free.append(slot)
                return out
        return theirs(x)

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
    both = {char: form(f"{name}_vv", char, "PPPI") for char in CTYPES}
    second = {char: form(f"{name}_vn", char, f"P{number}PI") for char, number in NUMBERS.items()}
    first = {char: form(f"{name}_nv", char, f"{number}PPI") for char, number in NUMBERS.items()}
    spread = {char: form(f"{name}_bb", char, "PIIPIIPI") for char in CTYPES}
    compares = name in _COMPARE

    def broadcast(x: Array, y: Array) -> Array:
        dtype, data, met = x.dtype, x.data, _met(x.shape, y.shape)
        if met is None:
            return theirs(x, y)
        shape, n, (x_inner, x_count, y_inner, y_count) = met
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

    def run(x: Any, y: Any) -> Array:
        number_first = type(x) is not ndarray
        like = y if number_first else x
        if type(like) is not ndarray or not like._c_contiguous or not 0 < (n := like.size) <= MOST:
            return theirs(x, y)
        dtype, data = like.dtype, like.data
        char, device = dtype.char, data.device_id
        if char not in both:
            return theirs(x, y)
        if type(y) is ndarray and not number_first:
            other = y.data
            if y.dtype is not dtype or not y._c_contiguous or other.device_id != device:
                return theirs(x, y)
            if y.shape != x.shape:
                return broadcast(x, y)
            (functions, pack, free, made), a, b = both[char], data.ptr, other.ptr
        else:
            number = x if number_first else y
            if not in_single or type(number) is not np.float32 or dtype.itemsize != 2:
                number = _held(number, dtype)
                if number is None:
                    return theirs(x, y)
            (functions, pack, free, made), a, b = (first[char], number, data.ptr) if number_first else (second[char], data.ptr, number)
        out = ndarray(like.shape, bool_ if compares else dtype)
        slot = free.pop() if free else made()
        try:
            pack(slot[0], 0, a, b, out.data.ptr, n)
            launch(functions[device], -(-n // THREADS), 1, 1, THREADS, 1, 1, 0, stream().ptr, slot[1], 0)
        except _failed():
            return theirs(x, y)
        free.append(slot)
        return out

    return run


def _in_single(theirs: Callable[..., Array]) -> Callable[..., Array]:
    """CuPy's function, where ``in_single`` of `of_two` asks for it in float32."""

    def run(x: Any, y: Any) -> Array:
        like = y if type(x) is np.float32 else x
        if like is not y and type(y) is not np.float32:
            return theirs(x, y)
        dtype = like.dtype
        wide = like.astype(np.float32) if dtype.itemsize == 2 and dtype.char in CTYPES else like
        made = theirs(x, wide) if like is y else theirs(wide, y)
        return made if wide is like else made.astype(dtype)

    return run


@cache
def into(name: str) -> Callable[[Array, Any], bool]:
    """A function of two operands that writes its result into the first, an array: ``x += y`` for "add".

    Returns: a function that says whether it did. It did not where no kernel serves the operands, or y lies partly in x's memory.
    """
    library = cupy()
    launch, stream = launcher()
    ndarray = library.ndarray
    both = {char: form(f"{name}_vv", char, "PPPI") for char in CTYPES}
    second = {char: form(f"{name}_vn", char, f"P{char}PI") for char in WHOLE}

    def run(x: Array, y: Any) -> bool:
        if not x._c_contiguous or not 0 < (n := x.size) <= MOST:
            return False
        dtype, data = x.dtype, x.data
        char = dtype.char
        if type(y) is ndarray:
            other = y.data
            if char not in both or y.dtype is not dtype or not y._c_contiguous or y.shape != x.shape or other.device_id != data.device_id:
                return False
            (functions, pack, free, made), b = both[char], other.ptr
            if b != data.ptr and abs(b - data.ptr) < x.nbytes:
                return False
        elif char in second and _held(y, dtype) is not None:
            (functions, pack, free, made), b = second[char], y
        else:
            return False
        slot = free.pop() if free else made()
        try:
            pack(slot[0], 0, data.ptr, b, data.ptr, n)
            launch(functions[data.device_id], -(-n // THREADS), 1, 1, THREADS, 1, 1, 0, stream().ptr, slot[1], 0)
        except _failed():
            return False
        free.append(slot)
        return True

    return run


def filled(array: Array, number: Any) -> bool:
    """Write a number everywhere into a CuPy array; whether that was done, which it is not where no kernel serves it."""
    char = array.dtype.char
    if char not in WHOLE or not array._c_contiguous or not 0 < (n := array.size) <= MOST:
        return False
    if _held(number, array.dtype) is None:
        return False
    launch, stream = _launch()
    (functions, pack, free, made), data = form("fill", char, f"{char}PI"), array.data
    slot = free.pop() if free else made()
    try:
        pack(slot[0], 0, number, data.ptr, n)
        launch(functions[data.device_id], -(-n // THREADS), 1, 1, THREADS, 1, 1, 0, stream().ptr, slot[1], 0)
    except _failed():
        return False
    free.append(slot)
    return True


def clamped(array: Array, low: Any, high: Any) -> Array | None:
    """The smaller of ``high`` and the larger of an element and ``low``, NaN as it is; None where no kernel serves the operands."""
    dtype, char = array.dtype, array.dtype.char
    if char not in CTYPES or not array._c_contiguous or not 0 < (n := array.size) <= MOST:
        return None
    y, w = _held(low, dtype), _held(high, dtype)
    if y is None or w is None:
        return None
    out, data = cupy().ndarray(array.shape, dtype), array.data
    return out if _clamp(char).run(data.device_id, n, THREADS, data.ptr, y, w, out.data.ptr, n) else None


@cache
def _clamp(char: str) -> Kernel:
    return Kernel(f"P{NUMBERS[char] * 2}PI", lambda device: _module(char).get_function("gradlib_clamp"))


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
    module, number = cupy().RawModule(code=arange_source(char), backend="nvrtc"), "d" if char in WHOLE else "q"
    return Kernel(f"{number}{number}PI", lambda device: module.get_function("gradlib_arange"))


def arange(start: float, step: float, count: int, dtype: np.dtype) -> Array | None:
    """``start + step * i`` for each i below a count, on the current device; None where no kernel serves it."""
    char = dtype.char
    if char not in _COUNTED or not 0 < count <= MOST or not abs(start) < 1 << 62 > abs(step):
        return None
    if char not in WHOLE:
        start, step = int(start), int(step)
    out = cupy().ndarray(count, dtype)
    return out if _arange(char).run(out.data.device_id, count, THREADS, start, step, out.data.ptr, count) else None


_launch = cache(launcher)


@cache
def _where() -> Callable[..., Array]:
    """``where`` of a mask and two operands, of which one may be a number."""
    library = cupy()
    launch, stream = launcher()
    ndarray, theirs = library.ndarray, library.where
    forms = {
        (kind, char): form(f"where_{kind}", char, f"P{''.join('P' if k == 'v' else number for k in kind)}PI")
        for kind in ("vv", "vn", "nv")
        for char, number in NUMBERS.items()
    }
    spread = {char: form("where_bb", char, "PIIPIIPIIPI") for char in CTYPES}

    def broadcast(mask: Array, x: Array, y: Array) -> Array:
        dtype, data, met = x.dtype, x.data, _met(mask.shape, x.shape, y.shape)
        if met is None:
            return theirs(mask, x, y)
        shape, n, spans = met
        functions, pack, free, made = spread[dtype.char]
        out = ndarray(shape, dtype)
        slot = free.pop() if free else made()
        try:
            pack(slot[0], 0, mask.data.ptr, *spans[:2], data.ptr, *spans[2:4], y.data.ptr, *spans[4:], out.data.ptr, n)
            launch(functions[data.device_id], -(-n // THREADS), 1, 1, THREADS, 1, 1, 0, stream().ptr, slot[1], 0)
        except _failed():
            return theirs(mask, x, y)
        free.append(slot)
        return out

    def run(mask: Any, x: Any, y: Any) -> Array:
        kind = ("v" if type(x) is ndarray else "n") + ("v" if type(y) is ndarray else "n")
        like = x if kind[0] == "v" else y
        if type(mask) is not ndarray or type(like) is not ndarray or not 0 < (n := mask.size) <= MOST or mask.dtype.char != "?":
            return theirs(mask, x, y)
        dtype, shape, device, given = like.dtype, mask.shape, mask.data.device_id, []
        char = dtype.char
        chosen, alike = forms.get((kind, char)), True
        if chosen is None or not mask._c_contiguous:
            return theirs(mask, x, y)
        for each in (x, y):
            if type(each) is ndarray:
                data = each.data
                if each.dtype is not dtype or not each._c_contiguous or data.device_id != device:
                    return theirs(mask, x, y)
                alike = alike and each.shape == shape
                given.append(data.ptr)
            elif (number := _held(each, dtype)) is not None:
                given.append(number)
            else:
                return theirs(mask, x, y)
        if not alike:
            return broadcast(mask, x, y) if kind == "vv" else theirs(mask, x, y)
        functions, pack, free, made = chosen
        out = ndarray(shape, dtype)
        slot = free.pop() if free else made()
        try:
            pack(slot[0], 0, mask.data.ptr, *given, out.data.ptr, n)
            launch(functions[device], -(-n // THREADS), 1, 1, THREADS, 1, 1, 0, stream().ptr, slot[1], 0)
        except _failed():
            return theirs(mask, x, y)
        free.append(slot)
        return out

    return run


def where(mask: Array, x: Any, y: Any) -> Array:
    """``cupy.where``."""
    return _where()(mask, x, y)


@cache
def function(name: str, in_single: bool = False) -> Callable[..., Array]:
    """CuPy's function of a name, behind a kernel of gradlib's own where there is one."""
    return small(name, getattr(cupy(), name), in_single)


def small(name: str, theirs: Any, in_single: bool = False) -> Any:
    """A function of CuPy's arrays by its name, behind a kernel of gradlib's own where there is one. ``in_single``: as for `of_two`."""
    if name == "where":
        return _where()
    if name in ONE:
        return of_one(name, theirs)
    return of_two(name, theirs, in_single) if name in TWO else theirs
