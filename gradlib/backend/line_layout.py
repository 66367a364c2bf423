"""Where the elements lie of which a reduction makes one, a *line*: for the texts of kernels whose warps have a line each, and for launches.

Most lines are *even*: every inner-th element of an array in row-major order, or of a transposed one. All others are *strided*: their
elements lie at the steps of several dimensions, and so do their beginnings, as of reduced dimensions that do not stand side by side, or of
a slice.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping
from functools import lru_cache
from typing import Any

import numpy as np

from gradlib.backend.array import Array, fills
from gradlib.backend.copying import row_major_copy
from gradlib.backend.kernel_text import ALL_CTYPES, HEADERS, MOST, THREADS, WHOLE

LONGEST = 1024
"""The most elements that are reduced to one: a warp does it, of which longer ones would take more time than CuPy's blocks."""
EACH = "for (unsigned k = lane; k < count; k += 32)"
"""The elements of a line that a thread of its warp takes: element k is ``line[offset(k)]``."""
GROUPS = 4
"""The most dimensions of strided lines, and of the elements of one, after those are one that lie as one would."""

_WARP = f"""    const unsigned o = (blockIdx.x * {THREADS} + threadIdx.x) / 32, lane = threadIdx.x % 32;
    if (o >= n) return;
"""
_ENTERED = {
    False: f"""{_WARP}    const E* line = x + (unsigned long long)(o / inner) * count * inner + o % inner;
    [[maybe_unused]] auto offset = [&](unsigned k) {{ return k * inner; }};
""",
    True: f"""{_WARP}    const E* line = x + place(lines, o);
    [[maybe_unused]] auto offset = [&](unsigned k) {{ return place(elements, k); }};
""",
}
_SIZES = {False: "unsigned count, unsigned inner, unsigned n", True: "Groups lines, Groups elements, unsigned count, unsigned n"}
_PLACE = f"""
// Dimensions, the last one first: how many elements each has, 1 where there are fewer dimensions, and how far apart they are. How many the
// first one has need not be known; how far apart they are stands at the end.
struct Groups {{ unsigned size[{GROUPS - 1}], apart[{GROUPS}]; }};
__device__ unsigned place(const Groups& groups, unsigned i) {{
    unsigned made = 0;
#pragma unroll
    for (int d = 0; d < {GROUPS - 1}; d++)
        if (groups.size[d] > 1) {{
            made += i % groups.size[d] * groups.apart[d];
            i /= groups.size[d];
        }}
    return made + i * groups.apart[{GROUPS - 1}];
}}
"""

Plan = tuple[tuple[int, ...], int, int, bool, tuple[int, ...]]
"""A reduction's result: its shape, its size, of how many elements each is made, whether their lines are strided; and what `_SIZES` take."""
_Dims = list[tuple[int, int]]  # how many elements, and how far apart


def of_lines(kernels: Mapping[str, tuple[str, str]], char: str, strided: bool, shared: str = "") -> str:
    """The text of kernels whose warps have a line of x each, for elements of a dtype, E, which compute in T.

    Args:
        kernels: by name, what each takes beside x, z and the sizes, and what a warp does with its ``line`` of ``count`` elements, of which
            ``offset`` gives the places; ``o`` counts the lines, of which there are n.
        strided: for strided lines, and not for even ones.
        shared: what they may call.
    """
    ctype = ALL_CTYPES[char]
    texts = [HEADERS.get(char, ""), f"typedef {ctype} E;\ntypedef {ctype if char in (*WHOLE, 'i', 'l') else 'float'} T;\n"]
    texts += [_PLACE if strided else "", shared]
    for name, (more, body) in kernels.items():
        head = ", ".join(filter(None, ("const E* x, E* z", more, _SIZES[strided])))
        texts.append(f'extern "C" __global__ void gradlib_{name}({head}) {{\n{_ENTERED[strided]}{body}}}\n')
    return "".join(texts)


@lru_cache(4096)
def plan(shape: tuple[int, ...], strides: tuple[int, ...] | None, dtype: np.dtype, axis: Any, keepdim: bool) -> Plan | None:
    """A reduction of an array over ``axis`` (a number, several from 0, None for all). ``strides``: in bytes; None for row-major order.

    Returns: None for a dtype that is not in `ALL_CTYPES`, where there are no elements or too many, for a dimension that is not there, and
        for elements that lie as no kernel has them: backwards, or in more than `GROUPS` dimensions.
    Raises: TypeError for ``keepdim`` that is no bool, as NumPy does.
    """
    ndim, keepdim = len(shape), bool(operator.index(keepdim))
    if type(axis) is int:
        axis = axis + ndim if axis < 0 else axis
        if not 0 <= axis < max(ndim, 1):
            return None
    chosen = set(range(ndim) if axis is None else axis if isinstance(axis, tuple) else (axis,))
    made = tuple(1 if d in chosen else size for d, size in enumerate(shape) if keepdim or d not in chosen)
    n, count = math.prod(made), math.prod(shape[d] for d in chosen if d < ndim)
    if dtype.char not in ALL_CTYPES or not 0 < n * count <= MOST or count > LONGEST or n * 32 > MOST:
        return None
    dims = _dims(shape, strides, dtype.itemsize)
    if dims is None:
        return None
    lines = _joined([each for d, each in enumerate(dims) if d not in chosen])
    elements = _in_order([each for d, each in enumerate(dims) if d in chosen])
    inner = lines[0][0] if lines and lines[0][1] == 1 else 1
    if elements in ([], [(count, inner)]) and lines == _joined([(n // inner, count * inner), (inner, 1)]):
        return made, n, count, False, (count, inner, n)
    if max(len(lines), len(elements)) > GROUPS:
        return None
    return made, n, count, True, (*_members(lines), *_members(elements), count, n)


def _dims(shape: tuple[int, ...], strides: tuple[int, ...] | None, itemsize: int) -> _Dims | None:
    """The dimensions with their steps in elements; None where one goes backwards, or where a place is no number of 32 bits."""
    if strides is None:
        return [(size, math.prod(shape[d + 1 :])) for d, size in enumerate(shape)]
    dims = [(size, step // itemsize) for size, step in zip(shape, strides, strict=True)]
    whole = all(step >= 0 and step % itemsize == 0 for size, step in zip(shape, strides, strict=True) if size > 1)
    return dims if whole and sum((size - 1) * step for size, step in dims) < 1 << 32 else None


def _joined(dims: _Dims) -> _Dims:
    """The last dimension first, without those of one element, and with those as one whose elements lie as those of one would."""
    made: _Dims = []
    for size, step in reversed(dims):
        if made and step == made[-1][0] * made[-1][1] and size > 1:
            made[-1] = (made[-1][0] * size, made[-1][1])
        elif size > 1:
            made.append((size, step))
    return made


def _in_order(dims: _Dims) -> _Dims:
    """The same of dimensions that may be taken in any order: in that of the memory."""
    return _joined(sorted(dims, key=lambda each: -each[1]))


def _members(dims: _Dims) -> tuple[int, ...]:
    """The members of ``Groups``."""
    sizes, steps = [size for size, _ in dims], [step for _, step in dims]
    unused = GROUPS - len(dims)
    return (*sizes[:-1], *(1,) * min(unused, GROUPS - 1), *steps[:-1], *(0,) * unused, *steps[-1:])


def strides_beside(x: Array) -> tuple[int, ...] | None:
    """How the elements of a CuPy array in another than row-major order lie, for a kernel that reads them and writes as many, each at the
    same place of other memory; None for an array with gaps, or with several elements in one place, which is copied first.
    """
    return x.strides if fills(x.shape, x.strides, x.itemsize) else None


def room_beside(x: Array, strides: tuple[int, ...] | None) -> tuple[Array, Array]:
    """What such a kernel reads, and memory for what it writes. ``strides``: those of `strides_beside`."""
    kind = type(x)
    if strides is None:
        return row_major_copy(x), kind(x.shape, x.dtype)
    return x, kind(x.shape, x.dtype, kind((x.size,), x.dtype).data, strides)
