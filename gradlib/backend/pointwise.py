"""Kernels of gradlib's own for small pointwise operations on CuPy arrays: contiguous, of one shape and one dtype, float32 or float64.

CuPy's ufuncs work out broadcasting, strides and types at each call; of a small array that is most of the time. Here there is nothing to
work out. Every other call is handed on to CuPy's function, which computes the same: the expressions are its own.

The launch is written out in each kind of function: a call of Python for it would cost a tenth of the whole.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any, NamedTuple

from gradlib.backend.array import Array, cupy
from gradlib.backend.launching import Functions, Slots, launcher

MOST = 1 << 20
"""The most elements of an array for which a kernel of these runs: beyond, a launch is no longer what takes the time."""

THREADS = 128
_CTYPES = {"f": "float", "d": "double"}

ONE = {
    "absolute": "fabs(x)", "arctan": "atan(x)", "cos": "cos(x)", "cosh": "cosh(x)", "exp": "exp(x)", "expm1": "expm1(x)", "log": "log(x)",
    "log1p": "log1p(x)", "negative": "-x", "sin": "sin(x)", "sinh": "sinh(x)", "sqrt": "sqrt(x)", "square": "x * x", "tan": "tan(x)",
    "tanh": "tanh(x)",
}  # fmt: skip
"""By the name of NumPy's function of one array, its value."""

TWO = {
    "add": "x + y", "divide": "x / y", "equal": "x == y", "greater": "x > y", "greater_equal": "x >= y", "less": "x < y",
    "less_equal": "x <= y", "multiply": "x * y", "not_equal": "x != y", "subtract": "x - y",
}  # fmt: skip
"""The same for two arrays, or an array and a number."""

_COMPARE = frozenset(("equal", "greater", "greater_equal", "less", "less_equal", "not_equal"))
_LARGEST = {"f": 3.0e38, "d": float("inf")}  # numbers from here on are CuPy's to round


def source(char: str) -> str:
    """All kernels for arrays of a dtype. Of two operands ``_vv`` takes two arrays, ``_vn`` and ``_nv`` a number in place of one."""
    ctype, kernels = _CTYPES[char], []

    def add(name: str, result: str, form: str, value: str, mask: str = "") -> None:
        operands = [(kind, each) for kind, each in zip(form, "xy", strict=False)]
        given = [f"const {ctype}* {each}_" if kind == "v" else f"{ctype} {each}" for kind, each in operands]
        loads = "".join(f" const {ctype} {each} = {each}_[i];" for kind, each in operands if kind == "v" and not mask)
        kernels.append(
            f'extern "C" __global__ void gradlib_{name}({mask}{", ".join(given)}, {result}* z, unsigned n) {{\n'
            f"    const unsigned i = blockIdx.x * {THREADS} + threadIdx.x;\n"
            f"    if (i < n) {{{loads} z[i] = {value}; }}\n"
            "}\n"
        )

    for name, value in ONE.items():
        add(name, ctype, "v", value)
    for form in ("vv", "vn", "nv"):
        for name, value in TWO.items():
            add(f"{name}_{form}", "bool" if name in _COMPARE else ctype, form, value)
        x, y = (f"{each}_[i]" if kind == "v" else each for kind, each in zip(form, "xy", strict=True))
        add(f"where_{form}", ctype, form, f"m[i] ? {x} : {y}", "const bool* m, ")
    return "".join(kernels)


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


def of_one(name: str, theirs: Callable[..., Array]) -> Callable[..., Array]:
    """A function of one array; ``theirs``: CuPy's for every other call."""
    library = cupy()
    launch, stream = launcher()
    ndarray = library.ndarray
    forms = {char: form(name, char, "PPI") for char in _CTYPES}

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


def of_two(name: str, theirs: Callable[..., Array]) -> Callable[..., Array]:
    """A function of two operands, of which one may be a number."""
    library = cupy()
    launch, stream = launcher()
    ndarray, bool_ = library.ndarray, library.dtype("?")
    both = {char: form(f"{name}_vv", char, "PPPI") for char in _CTYPES}
    second = {char: form(f"{name}_vn", char, f"P{char}PI") for char in _CTYPES}
    first = {char: form(f"{name}_nv", char, f"{char}PPI") for char in _CTYPES}
    compares = name in _COMPARE

    def run(x: Any, y: Any) -> Array:
        number_first = type(x) is not ndarray
        like = y if number_first else x
        if type(like) is not ndarray or not like._c_contiguous or not 0 < (n := like.size) <= MOST:
            return theirs(x, y)
        dtype, data = like.dtype, like.data
        char, device = dtype.char, data.device_id
        if char not in both:
            return theirs(x, y)
        if number_first:
            if (type(x) is not float and type(x) is not int) or not -_LARGEST[char] < x < _LARGEST[char]:
                return theirs(x, y)
            (functions, pack, free, made), a, b = first[char], x, data.ptr
        elif type(y) is ndarray:
            other = y.data
            if y.dtype is not dtype or not y._c_contiguous or y.shape != x.shape or other.device_id != device:
                return theirs(x, y)
            (functions, pack, free, made), a, b = both[char], data.ptr, other.ptr
        elif (type(y) is float or type(y) is int) and -_LARGEST[char] < y < _LARGEST[char]:
            (functions, pack, free, made), a, b = second[char], data.ptr, y
        else:
            return theirs(x, y)
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


@cache
def _where() -> Callable[..., Array]:
    """``where`` of a mask of the operands' shape; of the operands one may be a number."""
    library = cupy()
    launch, stream = launcher()
    ndarray, theirs = library.ndarray, library.where
    forms = {
        (kind, char): form(f"where_{kind}", char, f"P{''.join('P' if k == 'v' else char for k in kind)}PI")
        for kind in ("vv", "vn", "nv")
        for char in _CTYPES
    }

    def run(mask: Any, x: Any, y: Any) -> Array:
        kind = ("v" if type(x) is ndarray else "n") + ("v" if type(y) is ndarray else "n")
        like = x if kind[0] == "v" else y
        if type(mask) is not ndarray or type(like) is not ndarray or not 0 < (n := mask.size) <= MOST or mask.dtype.char != "?":
            return theirs(mask, x, y)
        dtype, shape, device, given = like.dtype, like.shape, mask.data.device_id, []
        chosen = forms.get((kind, dtype.char))
        if chosen is None or mask.shape != shape or not mask._c_contiguous:
            return theirs(mask, x, y)
        for each in (x, y):
            if type(each) is ndarray:
                data = each.data
                if each.dtype is not dtype or not each._c_contiguous or each.shape != shape or data.device_id != device:
                    return theirs(mask, x, y)
                given.append(data.ptr)
            elif (type(each) is float or type(each) is int) and -_LARGEST[dtype.char] < each < _LARGEST[dtype.char]:
                given.append(each)
            else:
                return theirs(mask, x, y)
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


def small(name: str, theirs: Any) -> Any:
    """CuPy's function of a name, behind a kernel of gradlib's own where there is one."""
    if name == "where":
        return _where()
    if name in ONE:
        return of_one(name, theirs)
    return of_two(name, theirs) if name in TWO else theirs
