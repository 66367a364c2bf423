"""Kernels of gradlib's own for small copies on CuPy arrays: several arrays into one, one number everywhere, casts.

All but casts move words of the elements' size, whatever these mean. As in `gradlib.backend.kernel_text`, every other call is CuPy's own.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np

from gradlib.backend.array import Array, assign, cupy, moved
from gradlib.backend.columns import has_columns, joined
from gradlib.backend.kernel_text import CTYPES, ENTERED, HEADERS, MOST, THREADS
from gradlib.backend.launching import Kernel, kernel_of
from gradlib.backend.vectorised.half import cast_half

PARTS = 8
"""The most arrays that one launch joins."""
_SMALL = 4096  # elements, up to which NumPy stacks a few arrays faster by copying them one by one

WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "unsigned long long"}
"""By size, in what elements are moved, whatever they mean."""


def source(itemsize: int) -> str:
    """The kernels for elements of a size.

    ``join``: a row of the result has a run of each part one behind another, which end at e0, e1, ...; a thread copies one element.
    ``fill``: one word everywhere.
    ``place``: each element of an array, or where x is null a number, to its place in another, along up to three dimensions of any steps.
    """
    pointers = ", ".join(f"const W* p{part}" for part in range(PARTS))
    ends = ", ".join(f"unsigned e{part}" for part in range(PARTS))
    others = "".join(f"    else if (r < e{k}) z[i] = p{k}[o * (e{k} - e{k - 1}) + r - e{k - 1}];\n" for k in range(1, PARTS))
    steps = ", ".join(f"long long {each}_{along}" for each in "xz" for along in ("outer", "middle", "inner"))
    return f"""typedef {WORDS[itemsize]} W;
extern "C" __global__ void gradlib_join({pointers}, {ends}, W* z, unsigned row, unsigned n) {{
{ENTERED}    const unsigned o = i / row, r = i - o * row;
    if (r < e0) z[i] = p0[o * e0 + r];
{others}}}
extern "C" __global__ void gradlib_fill(W x, W* z, unsigned n) {{
{ENTERED}    z[i] = x;
}}
extern "C" __global__ void gradlib_place(W number, const W* x, W* z, unsigned middle, unsigned inner, {steps}, unsigned n) {{
{ENTERED}    const unsigned k = i % inner, m = i / inner % middle, o = i / inner / middle;
    z[o * z_outer + m * z_middle + k * z_inner] = x ? x[o * x_outer + m * x_middle + k * x_inner] : number;
}}
"""


@cache
def _kernel(name: str, itemsize: int, formats: str) -> Kernel:
    return Kernel(formats, kernel_of(source, itemsize, name=name))


LETTERS = {**{char: char for char in "?bBhHiIfde"}, "l": "q", "L": "Q", "E": "H", "F": "Q"}
"""By dtype, the letter by which ``struct`` packs a number as its bytes are as an element."""
_HOLDS = {"f": 3e38, "d": math.inf, "e": 65504.0, "E": 3e38}
"""By dtype, the finite numbers below which none is rounded to infinity."""


def fill(array: Array, number: Any) -> None:
    """Write a number, or what broadcasts, everywhere into an array of the current device."""
    if isinstance(array, np.ndarray) or not filled(array, number):
        assign(array, ..., number)


def filled(array: Array, number: Any) -> bool:
    """Write a number everywhere into a CuPy array of the current device. Returns: whether it was done, as no kernel may serve them."""
    char = array.dtype.char
    if char not in LETTERS or not 0 < (n := array.size) <= MOST:
        return False
    number, data = packed(number, array.dtype), array.data
    if not array._c_contiguous:
        return number is not None and _placed(array, number, 0, (), ())
    return number is not None and _fill(char).run(data.device_id, n, THREADS, number, data.ptr, n)


@cache
def _fill(char: str) -> Kernel:
    return _kernel("fill", np.dtype(char).itemsize if char != "E" else 2, f"{LETTERS[char]}PI")


def placed(target: Array, values: Any) -> bool:
    """Write an array of its dtype, which broadcasts, into a CuPy array of the current device; both may have gaps.

    Returns: whether it was done, which it is not where no kernel serves them, and where they are parts of one memory.
    """
    if type(values) is not type(target) or values.dtype is not target.dtype:
        return False
    data = values.data
    if data.mem is target.data.mem or data.device_id != target.data.device_id:
        return False
    return _placed(target, 0, data.ptr, values.shape, values.strides)


def written(target: Array, values: Any) -> bool:
    """Write an array into a CuPy array of the current device: as ``placed``, or one of its shape and another real dtype."""
    if type(values) is not type(target):
        return False
    if values.dtype is target.dtype:
        return moved(target, values) or placed(target, values)
    source, data, n = values.dtype.char, values.data, values.size
    if values.shape != target.shape or not (values._c_contiguous and target._c_contiguous) or not 0 < n <= MOST:
        return False
    if source not in _NAMES or target.dtype.char not in _NAMES or data.mem is target.data.mem or data.device_id != target.data.device_id:
        return False
    return _cast(source, target.dtype.char).run(data.device_id, n, THREADS, data.ptr, target.data.ptr, n)


def _placed(target: Array, number: Any, pointer: int, shape: tuple[int, ...], strides: tuple[int, ...]) -> bool:
    data, itemsize, char = target.data, target.dtype.itemsize, target.dtype.char
    steps = _steps(target.shape, target.strides, shape, strides, itemsize) if itemsize in WORDS else None
    return steps is not None and _place(itemsize, char).run(data.device_id, steps[-1], THREADS, number, pointer, data.ptr, *steps)


@cache
def _place(itemsize: int, char: str) -> Kernel:
    return _kernel("place", itemsize, f"{LETTERS.get(char, {1: 'B', 2: 'H', 4: 'I', 8: 'Q'}[itemsize])}PPIIqqqqqqI")


@lru_cache(4096)
def _steps(
    target: tuple[int, ...], strides: tuple[int, ...], values: tuple[int, ...], value_strides: tuple[int, ...], itemsize: int
) -> tuple[int, ...] | None:
    """What the kernel ``place`` takes behind its arrays, for their shapes and strides.

    Returns: None where values do not broadcast to the target, where elements of it share memory, for none or too many of them, and where
        more than three dimensions are left when those that can be read as one are.
    """
    lead, n = len(target) - len(values), math.prod(target)
    if lead < 0 or not 0 < n <= MOST or any(each % itemsize for each in (*strides, *value_strides)):
        return None
    read: list[tuple[int, int, int]] = []  # of each dimension the size, and the steps from value to value and from place to place
    for d, (size, z_step) in enumerate(zip(target, strides, strict=True)):
        have, x_step = (values[d - lead], value_strides[d - lead]) if d >= lead else (1, 0)
        if have not in (1, size) or (size > 1 and not z_step):
            return None
        x, z = x_step // itemsize if have > 1 else 0, z_step // itemsize
        if read and read[-1][1:] == (x * size, z * size):
            read[-1] = read[-1][0] * size, x, z
        elif size > 1:
            read.append((size, x, z))
    if len(read) > 3:
        return None
    sizes, x_steps, z_steps = zip(*[(1, 0, 0)] * (3 - len(read)), *read, strict=True)
    return *sizes[1:], *x_steps, *z_steps, n


def packed(number: Any, dtype: np.dtype) -> Any:
    """A number as ``struct`` packs it for an element of a dtype; None where it is CuPy's to convert."""
    kind: type = type(number)
    char: str = dtype.char
    if kind is dtype.type:
        number = number.item()
    elif kind is not float and kind is not int and kind is not bool and not (kind is complex and char == "F"):
        return None
    if char not in LETTERS:
        return None
    if char == "F":
        largest = max(abs(number.real), abs(number.imag))
        return None if _HOLDS["f"] <= largest < math.inf else int.from_bytes(dtype.type(number).tobytes(), "little")
    holds = _HOLDS.get(char)
    if holds is None:
        bounds = None if char == "?" else np.iinfo(dtype)
        return None if kind is float or (bounds is not None and not bounds.min <= number <= bounds.max) else number
    if not -holds < number < holds and number - number == 0:
        return None
    return int.from_bytes(dtype.type(number).tobytes(), "little") if char == "E" else number


_JOIN = f"{'P' * PARTS}{'I' * PARTS}PII"


def concatenated(xp: Any, arrays: Sequence[Array], axis: int) -> Array:
    """``xp.concatenate(arrays, axis)``; ``axis`` counts from the first dimension."""
    if xp is np:
        return xp.concatenate(arrays, axis=axis)
    first = arrays[0]
    if len(arrays) > PARTS:  # for which CuPy's kernel wants a table of addresses from the host, which no graph can capture
        total = 0
        for x in arrays:
            total += x.size
            if total > MOST or x.dtype is not first.dtype:
                return xp.concatenate(arrays, axis=axis)
        groups = [concatenated(xp, arrays[i : i + PARTS], axis) for i in range(0, len(arrays), PARTS)]
        return concatenated(xp, groups, axis)
    shape = first.shape
    before, after, along = shape[:axis], shape[axis + 1 :], 0
    for x in arrays:
        size = x.shape
        if len(size) <= axis or size[:axis] != before or size[axis + 1 :] != after:
            return xp.concatenate(arrays, axis=axis)
        along += size[axis]
    made = _joined(xp, arrays, (*before, along, *after), math.prod(after), axis)
    return xp.concatenate(arrays, axis=axis) if made is None else made


def stacked(xp: Any, arrays: Sequence[Array], axis: int) -> Array:
    """``xp.stack(arrays, axis)`` of arrays of one shape; ``axis`` counts from the first dimension."""
    shape = arrays[0].shape
    if xp is np:  # in a third of the time of NumPy's own
        if axis == 0 and len(arrays) <= PARTS and arrays[0].size <= _SMALL:
            return np.array(arrays)
        if axis == 0 and shape:
            return np.concatenate(arrays).reshape(len(arrays), *shape)
        if axis == len(shape) - 1 and has_columns(arrays[0]):
            return joined(arrays, axis).reshape(*shape[:axis], len(arrays), shape[-1])
        deeper = (slice(None),) * axis + (None,)
        return np.concatenate([x[deeper] for x in arrays], axis)
    if len(arrays) > PARTS:
        return concatenated(xp, [x.reshape((*shape[:axis], 1, *shape[axis:])) for x in arrays], axis)
    made = _joined(xp, arrays, (*shape[:axis], len(arrays), *shape[axis:]), math.prod(shape[axis:]), None)
    return xp.stack(arrays, axis=axis) if made is None else made


def _joined(xp: Any, arrays: Sequence[Array], shape: tuple[int, ...], inner: int, axis: int | None) -> Array | None:
    """Arrays side by side in each row of a result of a shape; None where the kernel does not serve them."""
    first, n = arrays[0], math.prod(shape)
    dtype, device, pointers, ends, end = first.dtype, first.data.device_id, [], [], 0
    if dtype.itemsize not in WORDS or not 0 < n <= MOST:
        return None
    for x in arrays:
        data = x.data
        if type(x) is not xp.ndarray or x.dtype is not dtype or not x._c_contiguous or data.device_id != device:
            return None
        end += inner if axis is None else inner * x.shape[axis]
        pointers.append(data.ptr if x.size else 0)
        ends.append(end)
    out, missing = xp.ndarray(shape, dtype), PARTS - len(pointers)
    values = (*pointers, *(0,) * missing, *ends, *(end,) * missing, out.data.ptr, end, n)
    return out if _kernel("join", dtype.itemsize, _JOIN).run(device, n, THREADS, *values) else None


_NAMES = {"?": "bool", "b": "signed char", "B": "unsigned char", "h": "short", "i": "int", "l": "long long", "q": "long long", **CTYPES}


def cast_source(char: str) -> str:
    """The kernels ``cast_N`` that make elements of a dtype those of the one whose letter has the number N."""
    kernels = [
        f'extern "C" __global__ void gradlib_cast_{ord(target)}(const {_NAMES[char]}* x, {ctype}* z, unsigned n) {{\n'
        f"{ENTERED}    z[i] = ({ctype})x[i];\n}}\n"
        for target, ctype in _NAMES.items()
    ]
    return "".join([HEADERS["e"], *kernels])


@cache
def _cast(source: str, target: str) -> Kernel:
    return Kernel("PPI", kernel_of(cast_source, source, name=f"cast_{ord(target)}"))


def cast(array: Array, dtype: np.dtype) -> Array | None:
    """``array.astype(dtype)`` of an array in C's order; None where neither a kernel serves it nor, for NumPy's, what `half` has."""
    if isinstance(array, (np.ndarray, np.generic)):
        return cast_half(array, dtype)
    if not array._c_contiguous or not 0 < (n := array.size) <= MOST:
        return None
    source, target, data = array.dtype.char, dtype.char, array.data
    if source not in _NAMES or target not in _NAMES:
        return None
    out = cupy().ndarray(array.shape, dtype)
    return out if _cast(source, target).run(data.device_id, n, THREADS, data.ptr, out.data.ptr, n) else None


def converted(array: Any, dtype: Any) -> Any:
    """``array.astype(dtype)``."""
    made = cast(array, dtype) if isinstance(dtype, np.dtype) else None
    return array.astype(dtype) if made is None else made
