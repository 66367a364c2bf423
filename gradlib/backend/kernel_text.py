"""What the texts of gradlib's own small kernels share: C types, the size of a block, how operands broadcast.

A kernel serves contiguous arrays of the dtypes that its tables name; every other call is handed on to CuPy's function, which computes the
same.
"""

from __future__ import annotations

import math
import struct
from functools import lru_cache
from typing import Any

import numpy as np

MOST = 1 << 20
"""The most elements of an array for which a kernel of these runs: beyond, a launch is no longer what takes the time."""
FEW = 1 << 16
"""The most elements of an array that is copied into rows, in C's order, so that a kernel takes it."""
THREADS = 128
"""The threads of a block."""

CTYPES = {"f": "float", "d": "double", "e": "float16", "E": "bfloat16"}
"""The real floats, by the characters of their dtypes."""
WHOLE = ("f", "d")
"""Those that are computed with as they are; half types are in float32."""
EXACT = {"?": "bool", "i": "int", "l": "long long"}
"""Bools and integers."""
ALL_CTYPES = {**CTYPES, **EXACT}
COMPLEX = {"F": "float", "D": "double"}
"""The complex dtypes, and the types of their parts."""
ELEMENTS = {**ALL_CTYPES, **dict.fromkeys(COMPLEX, "Complex")}
"""The types of elements in a text, which for complex ones begins with `complex_text`."""
NUMBERS = {"f": "f", "d": "d", "e": "f", "E": "f", "i": "i", "l": "q", "F": "8s", "D": "16s"}
"""A number beside arrays of each dtype, as ``struct`` writes it."""
_PACKED = {"F": struct.Struct("2f").pack, "D": struct.Struct("2d").pack}
"""The bytes of a complex number's parts; NumPy's take six times as long."""
LARGEST = {"f": 3.0e38, "d": 1.7e308, "e": 65504.0, "E": 0.0, "i": 2.0**31, "l": 2.0**63, "?": 0.0, "F": 3.0e38, "D": 1.7e308}
"""Finite numbers from here on are CuPy's; all beside bfloat16, with which it gives float32."""

ENTERED = f"    const unsigned i = blockIdx.x * {THREADS} + threadIdx.x;\n    if (i >= n) return;\n"
"""How a kernel begins that has a thread for each of n elements."""
INFINITE = "__int_as_float(0x7f800000)"
"""Infinity in CUDA, whose compiler knows no macro for it."""
WARP_SUM = "for (int bits = 16; bits; bits /= 2) {0} += __shfl_xor_sync(0xffffffffu, {0}, bits);"
"""Adds up the numbers of one name that the threads of a warp have; each then has the sum."""
HEADERS = dict.fromkeys("eE", "#include <cupy/carray.cuh>\n#include <cupy/float16.cuh>\n#include <cupy/bfloat16.cuh>\n")
"""What a text for half types begins with."""


SMITH = """if (c == 0 && d == 0) {
        const real none = c * c;  // 0, also of -0
        re = a / none, im = b / none;
    } else if ((c < 0 ? -c : c) >= (d < 0 ? -d : d)) {
        const real ratio = d / c, scale = 1 / (c + d * ratio);
        re = (a + b * ratio) * scale, im = (b - a * ratio) * scale;
    } else {
        const real ratio = c / d, scale = 1 / (d + c * ratio);
        re = (a * ratio + b) * scale, im = (b * ratio - a) * scale;
    }"""
"""The quotient re + i im of a + ib and c + id. Source: Smith, Algorithm 116: Complex Division, Communications of the ACM 5 (1962)."""


def complex_text(char: str) -> str:
    """What a text for a complex dtype begins with: a number x + iy and its arithmetic."""
    return f"""typedef {COMPLEX[char]} real;
struct alignas(2 * sizeof(real)) Complex {{ real x, y; }};
__device__ Complex operator+(Complex a, Complex b) {{ return {{a.x + b.x, a.y + b.y}}; }}
__device__ Complex operator-(Complex a, Complex b) {{ return {{a.x - b.x, a.y - b.y}}; }}
__device__ Complex operator*(Complex a, Complex b) {{ return {{a.x * b.x - a.y * b.y, a.x * b.y + a.y * b.x}}; }}
__device__ Complex operator/(Complex x, Complex y) {{
    const real a = x.x, b = x.y, c = y.x, d = y.y;
    real re, im;
    {SMITH}
    return {{re, im}};
}}
__device__ bool operator==(Complex a, Complex b) {{ return a.x == b.x && a.y == b.y; }}
__device__ bool operator!=(Complex a, Complex b) {{ return !(a == b); }}
"""


def written(name: str, char: str, operands: dict[str, str], result: str, value: str) -> str:
    """A kernel's text.

    Each operand is of a kind: "v" for an array, "b" and "w" for one that broadcasts, "n" for a number, "d" for one in double precision.
    One called m... is a mask. Element i of the result is made of element ``i / inner % count`` of an array that broadcasts; of kind "w",
    which is stretched between some of its dimensions and others, that is the place within the inner ones, of which there are as many for
    each of ``i / outer % outers`` before.
    """
    ctype, parameters, loads = ELEMENTS[char], [], ""
    computed = "float" if char in HEADERS else ctype
    value = value.replace("{computed}", computed).replace("{rounded}_", "__f" if computed == "float" else "__d")
    for each, kind in operands.items():
        stored, read = ("bool", "bool") if each[0] == "m" else (ctype, computed)
        if kind in "nd":
            parameters.append(f"{read if kind == 'n' else 'double'} {each}")
            continue
        parameters.append(f"const {stored}* {each}_")
        place = "i"
        if kind in "bw":
            parameters += [f"unsigned {each}_inner", f"unsigned {each}_count"]
            place = f"i / {each}_inner % {each}_count"
        if kind == "w":
            parameters += [f"unsigned {each}_outer", f"unsigned {each}_outers"]
            place += f" + i / {each}_outer % {each}_outers * {each}_count"
        loads += f" const {read} {each} = ({read}){each}_[{place}];"
    return (
        f'extern "C" __global__ void gradlib_{name}({", ".join(parameters)}, {result}* z, unsigned n) {{\n'
        f"    const unsigned i = blockIdx.x * {THREADS} + threadIdx.x;\n"
        f"    if (i < n) {{{loads} z[i] = ({result})({value}); }}\n"
        "}\n"
    )


@lru_cache(4096)
def spans_of(*shapes: tuple[int, ...], groups: int = 1) -> tuple[tuple[int, ...], int, tuple[int, ...]] | None:
    """How contiguous arrays of these shapes broadcast.

    Args:
        groups: the most runs of dimensions that an array has, between which it is stretched: 1 for "b" of `written`, 2 for "w".
    Returns: the shape of the result, its size, and of each array the numbers that `written` takes; None for shapes that do not meet,
        results that are empty or large, and an array of more runs.
    """
    ndim = max(map(len, shapes))
    padded = [(1,) * (ndim - len(shape)) + shape for shape in shapes]
    made = tuple(max(sizes) if min(sizes) else 0 for sizes in zip(*padded, strict=True))
    n, spans = math.prod(made), list[int]()
    if not 0 < n <= MOST:
        return None
    for shape in padded:
        runs, behind, in_run = list[list[int]](), 1, False  # each as ``inner, count``
        for size, whole in zip(reversed(shape), reversed(made), strict=True):
            if size not in (1, whole):
                return None
            if whole > 1 and size > 1:
                if in_run:
                    runs[-1][1] *= size
                else:
                    runs.append([behind, size])
            in_run = size > 1 or (in_run and whole == 1)
            behind *= whole
        if len(runs) > groups:
            return None
        for run in (*runs, *([1, 1],) * (groups - len(runs))):
            spans += run
    return made, n, tuple(spans)


def held(number: Any, dtype: np.dtype) -> Any:
    """A number as a kernel takes it beside elements of a dtype: one of the dtype, or Python's; None where it is CuPy's to round.

    Of a complex dtype it is the bytes of an element.
    """
    char = dtype.char
    kind = type(number)
    if char in COMPLEX:
        if kind is not dtype.type and kind is not complex and kind is not float and kind is not int:
            return None
        if LARGEST[char] <= abs(number.real) < math.inf or LARGEST[char] <= abs(number.imag) < math.inf:
            return None
        return _PACKED[char](number.real, number.imag)
    if kind is dtype.type:
        return None if char == "?" else number.item()
    if kind is not int and (kind is not float or char in EXACT):
        return None
    largest = LARGEST[char]
    if not -largest < number < largest and (not largest or number - number == 0):  # of infinity and NaN that is NaN
        return None
    return float(dtype.type(number)) if char in HEADERS else number
