"""The kernels of small pointwise operations: their values, as CUDA, and the texts made of them.

The expressions are CuPy's own, so that an operation gives the same whichever of the two serves it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any, NamedTuple

from gradlib.backend.kernel_text import COMPLEX, CTYPES, ELEMENTS, HEADERS, NUMBERS, THREADS, complex_text, written
from gradlib.backend.launching import Functions, Slots, kernel_of

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
    "logaddexp": "x == y ? {computed}(x + 0.6931471805599453) : fmax(x, y) + log1p(exp(-fabs(x - y)))",
    "multiply": "x * y", "not_equal": "x != y", "power": "pow(x, y)", "subtract": "x - y",
    "remainder": "[&] { const auto r = fmod(x, y); return r != 0 && (r < 0) != (y < 0) ? r + y : r; }()",
    "modulo": "[&] { const auto r = fmod(x, y); return r == 0 ? copysign(r, y) : (r < 0) != (y < 0) ? r + y : r; }()",
    "floor_divide": "[&] { const auto r = fmod(x, y), q = (x - r) / y, w = r != 0 && (r < 0) != (y < 0) ? q - 1 : q;"
    " return y == 0 ? x / y : w == 0 ? copysign({computed}(0), x / y) : rint(w); }()",
}  # fmt: skip
"""The same for two arrays, or an array and a number, which half types meet in float32."""

IN_STEPS = frozenset((*OWN, "floor_divide", "left_shift", "modulo", "remainder", "right_shift"))
"""What takes several launches where no kernel serves it."""
COMPARE = frozenset(("equal", "greater", "greater_equal", "isfinite", "isinf", "isnan", "less", "less_equal", "not_equal"))

_INTEGERS = {"absolute": "x > 0 ? x : -x", "invert": "~x", "negative": "-x", "square": "x * x"}, {
    **{name: TWO[name] for name in ("add", "multiply", "subtract", *sorted(COMPARE.intersection(TWO)))},
    "bitwise_and": "x & y", "bitwise_or": "x | y", "bitwise_xor": "x ^ y", "maximum": "max(x, y)", "minimum": "min(x, y)",
    "left_shift": "y < 0 || y >= 8 * (int)sizeof x ? 0 : ({computed})((unsigned long long)x << y)",
    "right_shift": "y < 0 || y >= 8 * (int)sizeof x ? x < 0 ? -1 : 0 : x >> y",
    "power": "[&] { if (y < 0) return ({computed})(x == 1 ? 1 : x != -1 ? 0 : y & 1 ? -1 : 1); unsigned long long made = 1, factor = x;"
    " for (auto left = y; left; left >>= 1, factor *= factor) if (left & 1) made *= factor; return ({computed})made; }()",
}  # fmt: skip
_BOOLS = {"invert": "!x", "logical_not": "!x"}, {
    "bitwise_and": "x & y", "bitwise_or": "x | y", "bitwise_xor": "x ^ y", "equal": "x == y", "logical_and": "x && y",
    "logical_or": "x || y", "logical_xor": "x != y", "not_equal": "x != y",
}  # fmt: skip
_COMPLEX: tuple[dict[str, str], dict[str, str]] = (
    {}, {name: TWO[name] for name in ("add", "divide", "equal", "multiply", "not_equal", "subtract")}
)  # fmt: skip
VALUES = {**dict.fromkeys(CTYPES, ({**ONE, **OWN}, TWO)), "i": _INTEGERS, "l": _INTEGERS, "?": _BOOLS, **dict.fromkeys(COMPLEX, _COMPLEX)}
"""By dtype, the functions of one array and of two that have kernels, and their values."""
_SIZE = "hypot(x, y)"
PARTS = {
    "absolute": (_SIZE,), "angle": ("atan2(y, x)",), "conjugate": ("x", "-y"),
    "signum": tuple(f"{part} / ({_SIZE} == 0 ? 1 : {_SIZE})" for part in "xy"),
}  # fmt: skip
"""The values of functions of one complex number x + iy: of one that is real, or of the two parts."""
OF_ONE = frozenset((*PARTS, *(name for one, _ in VALUES.values() for name in one)))
OF_TWO = frozenset(name for _, two in VALUES.values() for name in two)

WHERE = ("vv", "vn", "nv", "nn", "bb", "bn", "nb")
"""What stands beside the mask of ``where``, as `written` has it; the mask broadcasts where an array does."""

def source(char: str) -> str:
    """All kernels for arrays of a dtype: ``where``, and of two operands ``_vv``, ``_vn``, ``_nv``, ``_bb``; of a complex one `PARTS`."""
    ctype, (one, two) = ELEMENTS[char], VALUES[char]
    made = {name: "bool" if name in COMPARE else ctype for name in (*one, *two)}
    kernels = [written(name, char, {"x": "v"}, made[name], value) for name, value in one.items()]
    for kinds in ("vv", "vn", "nv", "bb") if char in NUMBERS else ("vv", "bb"):
        operands = dict(zip("xy", kinds, strict=True))
        kernels += [written(f"{name}_{kinds}", char, operands, made[name], value) for name, value in two.items()]
    for kinds in WHERE if char in NUMBERS else ("vv", "bb"):
        operands = {"m": "b" if "b" in kinds else "v", **dict(zip("xy", kinds, strict=True))}
        kernels.append(written(f"where_{kinds}", char, operands, ctype, "m ? x : y"))
    return _begun(char) + "".join(kernels) + (_parts_source(char) if char in COMPLEX else "")


def _begun(char: str) -> str:
    return complex_text(char) if char in COMPLEX else HEADERS.get(char, "")


def stretched_source(char: str) -> str:
    """The kernels of two operands that are stretched between some dimensions and others, ``_ww``; few programs need them."""
    operands, two = {"x": "w", "y": "w"}, VALUES[char][1]
    return _begun(char) + "".join(
        written(f"{name}_ww", char, operands, "bool" if name in COMPARE else ELEMENTS[char], value) for name, value in two.items()
    )


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
def form(name: str, char: str, formats: Sequence[str], write: Callable[[str], str] = source) -> Form:
    """A kernel of the text that ``write`` gives; ``formats``: its parameters, as ``struct`` writes them."""
    slots = Slots(formats)
    return Form(Functions(kernel_of(write, char, name=name)), slots.pack, slots.free, slots.made)


def _parts_source(char: str) -> str:
    """The kernels of `PARTS` for arrays of a complex dtype."""
    ctype = COMPLEX[char]
    written = {name: [f"z[{len(values)} * i + {k}] = {value};" for k, value in enumerate(values)] for name, values in PARTS.items()}
    return "".join(
        f'extern "C" __global__ void gradlib_{name}(const {ctype}* x_, {ctype}* z, unsigned n) {{\n'
        f"    const unsigned i = blockIdx.x * {THREADS} + threadIdx.x;\n"
        f"    if (i < n) {{ const {ctype} x = x_[2 * i], y = x_[2 * i + 1]; {' '.join(values)} }}\n}}\n"
        for name, values in written.items()
    )
