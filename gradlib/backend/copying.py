"""Elements copied: into new memory, over those of another array, several arrays into one, one number everywhere, into another dtype.

Small copies on CuPy arrays are kernels of gradlib's own. All but casts move words of the elements' size, whatever these mean. As in
`gradlib.backend.kernel_text`, every other call is CuPy's own.
"""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

import numpy as np

from gradlib.backend.array import Array, cupy, is_signed_zero, on_current_device
from gradlib.backend.columns import has_columns, joined, row_major_copied
from gradlib.backend.kernel_text import COMPLEX, CTYPES, ENTERED, HEADERS, MOST, THREADS
from gradlib.backend.launching import Kernel, kernel_of
from gradlib.backend.vectorised.half import MANY, cast_half

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
    ``roll``: each element along each of three dimensions so far on, or from the end back to the beginning.
    """
    pointers = ", ".join(f"const W* p{part}" for part in range(PARTS))
    ends = ", ".join(f"unsigned e{part}" for part in range(PARTS))
    others = "".join(f"    else if (r < e{k}) z[i] = p{k}[o * (e{k} - e{k - 1}) + r - e{k - 1}];\n" for k in range(1, PARTS))
    shifts = "unsigned by_outer, unsigned by_middle, unsigned by_inner"
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
extern "C" __global__ void gradlib_roll(const W* x, W* z, unsigned outer, unsigned middle, unsigned inner, {shifts}, unsigned n) {{
{ENTERED}    const unsigned k = i % inner, m = i / inner % middle, o = i / inner / middle;
    const unsigned from = k + (k < by_inner ? inner : 0) - by_inner, row = m + (m < by_middle ? middle : 0) - by_middle;
    z[i] = x[((o + (o < by_outer ? outer : 0) - by_outer) * middle + row) * inner + from];
}}
"""


@cache
def _kernel(name: str, itemsize: int, formats: str) -> Kernel:
    return Kernel(formats, kernel_of(source, itemsize, name=name))


# ---- into new memory ------------------------------------------------------------------------------------------------------------


def copy(array: Array) -> Array:
    """A fresh array of the same values and the same memory order; in row-major order where what is expanded has none to keep."""
    if type(array) is np.ndarray:
        return array.copy("C" if 0 in array.strides else "K")
    if isinstance(array, (np.ndarray, np.generic)):
        return np.array(array, order="C" if 0 in array.strides else "K")
    if on_current_device(array):
        return copy_on_device(array)
    with array.device:  # CuPy copies to the current one
        return copy_on_device(array)


def copy_on_device(array: Array) -> Array:
    """``copy``, of a CuPy array on the current device."""
    return row_major_copy(array) if array._c_contiguous or _in_rows(array.strides) else array.copy("K")


@lru_cache(4096)
def _in_rows(strides: tuple[int, ...]) -> bool:
    """Whether elements lie in row-major order, if backwards along some dimensions and with gaps; or in none, being expanded."""
    steps = list(map(abs, strides))
    return 0 in steps or steps == sorted(steps, reverse=True)


def row_major_copy(array: Array) -> Array:
    """A fresh array of the same values in row-major order; a CuPy array lies on the current device."""
    if isinstance(array, np.generic):  # as a rule gives of no dimensions
        return np.array(array)
    if isinstance(array, np.ndarray):
        return array.copy("C")
    made = type(array)(array.shape, array.dtype)
    if not array._c_contiguous:
        return made if _placed(made, 0, array.data.ptr, array.shape, array.strides) else array.copy("C")
    if array.size:
        made.data.copy_from_device_async(array.data, array.nbytes)
    return made


def row_major(array: Array) -> Array:
    """The array, copied where its elements lie in another than row-major order: torch's results of all but pointwise operations do not."""
    return array if array.ndim < 2 or array.flags.c_contiguous else row_major_copy(array)


def copied(array: Array) -> Array:
    """``copy``; of a NumPy array with short rows in gaps, column by column."""
    if type(array) is not np.ndarray or not has_columns(array) or array.flags.c_contiguous or abs(array.strides[-1]) != array.itemsize:
        return copy(array)
    return row_major_copied(array)


# ---- over what stands there -----------------------------------------------------------------------------------------------------


def moved(target: Array, values: Any) -> bool:
    """Write an array's values into another of its shape and dtype on the current device, by one copy of memory.

    Returns: whether that was done, or nothing was to do: they are the same elements. It is not where one has gaps, or they overlap.
    """
    if type(values) is not type(target) or values.dtype is not target.dtype or values.shape != target.shape:
        return False
    if values.data.device_id != target.data.device_id:
        return False
    distance, length = abs(values.data.ptr - target.data.ptr), target.nbytes
    if not (values._c_contiguous and target._c_contiguous):
        return not distance and values.strides == target.strides
    if distance and length:
        if distance < length:
            return False
        target.data.copy_from_device_async(values.data, length)
    return True


def assign(target: Array, key: Any, values: Any) -> None:
    """``target[key] = values`` for a tuple or Ellipsis as key, right also where the values or index arrays lie in the memory written.

    NumPy sees to that itself, but for index arrays, which before 2.3 it reads while it writes. CuPy does not: where layouts agree it
    queues one copy of memory, whose two ends may not overlap (in ``u[:-1] = u[1:]``), and through index arrays it writes while it reads.
    """
    if not isinstance(target, np.ndarray):
        whole = key is ... or not key
        if whole and (moved(target, values) or placed(target, values)):
            return
        values = apart(values, target)
        if not whole:
            key = tuple([apart(part, target) if type(part) is type(target) else part for part in key])
        if type(values) is not type(target) and is_signed_zero(values):
            values = cupy().asarray(np.full(1, values, target.dtype))
    elif key is not ...:
        for part in key:
            if type(part) is np.ndarray and np.may_share_memory(part, target):
                key = tuple(each.copy() if type(each) is np.ndarray else each for each in key)
                break
    target[key] = values


def apart(values: Any, target: Array) -> Any:
    """The source of a write to a CuPy array: a copy where the two may overlap."""
    overlap = isinstance(values, type(target)) and sys.modules["cupy"].may_share_memory(values, target)
    return values.copy() if overlap else values


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
    char, n = array.dtype.char, array.size
    if type(number) is int and not number and n and array._c_contiguous:
        array.data.memset_async(0, array.nbytes)
        return True
    if char not in LETTERS or not 0 < n <= MOST:
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
    if source not in _NAMES or target.dtype.char not in _CAST or data.mem is target.data.mem or data.device_id != target.data.device_id:
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


def rolled(array: Array, shifts: Sequence[int], dims: Sequence[int]) -> Array | None:
    """``xp.roll`` of a CuPy array of the current device in row-major order; None where the kernel does not serve it.

    Args:
        dims: counted from the first dimension, as many as shifts.
    """
    dtype = array.dtype
    turns = _turns(array.shape, shifts, dims) if dtype.itemsize in WORDS else None
    if turns is None:
        return None
    made, data = type(array)(array.shape, dtype), array.data
    run = _kernel("roll", dtype.itemsize, "PPIIIIIII").run
    return made if run(data.device_id, turns[-1], THREADS, data.ptr, made.data.ptr, *turns) else None


@lru_cache(4096)
def _turns(shape: tuple[int, ...], shifts: tuple[int, ...], dims: tuple[int, ...]) -> tuple[int, ...] | None:
    """The three sizes, the shifts along them, and the number of elements that the kernel ``roll`` takes.

    Returns: None for none or too many elements, and for shifts along more than three dimensions when those that can be are read as one.
    """
    n, by = math.prod(shape), [0] * len(shape)
    if not 0 < n <= MOST:
        return None
    for shift, dim in zip(shifts, dims, strict=True):
        by[dim] = (by[dim] + shift) % shape[dim]
    read: list[tuple[int, int]] = []
    for size, shift in zip(shape, by, strict=True):
        if read and not shift:  # whole runs of it move along with the dimension before
            read[-1] = read[-1][0] * size, read[-1][1] * size
        else:
            read.append((size, shift))
    if len(read) > 3:
        return None
    sizes, turns = zip(*[(1, 0)] * (3 - len(read)), *read, strict=True)
    return *sizes, *turns, n


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
_CAST = {
    **{target: (ctype, f"z[i] = ({ctype})x[i];") for target, ctype in _NAMES.items()},
    **{target: (part, f"z[2 * i] = ({part})x[i], z[2 * i + 1] = 0;") for target, part in COMPLEX.items()},
}
"""By target, the type of what is written, and how; a complex number is its two parts."""


def cast_source(char: str) -> str:
    """The kernels ``cast_N`` that make elements of a real dtype those of the one whose letter has the number N."""
    kernels = [
        f'extern "C" __global__ void gradlib_cast_{ord(target)}(const {_NAMES[char]}* x, {ctype}* z, unsigned n) {{\n'
        f"{ENTERED}    {value}\n}}\n"
        for target, (ctype, value) in _CAST.items()
    ]
    return "".join([HEADERS["e"], *kernels])


@cache
def _cast(source: str, target: str) -> Kernel:
    return Kernel("PPI", kernel_of(cast_source, source, name=f"cast_{ord(target)}"))


def cast(array: Array, dtype: np.dtype) -> Array | None:
    """``array.astype(dtype)`` of an array in C's order; None where neither a kernel serves it nor, for NumPy's, what `half` has."""
    if isinstance(array, (np.ndarray, np.generic)):
        return cast_half(array, dtype)
    kind = sys.modules["cupy"].ndarray
    if type(array) is not kind or not array._c_contiguous or not 0 < (n := array.size) <= MOST:
        return None  # one of another class guards its values, for vmap
    source, target, data = array.dtype.char, dtype.char, array.data
    if source not in _NAMES or target not in _CAST:
        return None
    out = kind(array.shape, dtype)
    return out if _cast(source, target).run(data.device_id, n, THREADS, data.ptr, out.data.ptr, n) else None


def converted(array: Any, dtype: Any) -> Any:
    """A copy of another dtype in the array's order; row-major where it is expanded, whose axes NumPy would put in another order."""
    made = cast(array, dtype) if isinstance(dtype, np.dtype) and (type(array) is not np.ndarray or array.size >= MANY) else None
    return array.astype(dtype, "C" if 0 in array.strides else "K") if made is None else made
