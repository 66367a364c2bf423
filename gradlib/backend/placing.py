"""Kernels of gradlib's own that read and write a CuPy array at places along a dimension, which an array of integers names.

All of them are one: of ``outer x count x inner`` values each meets an element of the array. ``take`` copies that to the value, ``put`` the
value to that; the others add, multiply or take extremes there, where repeats all count. Three steps tell where a value lies, three where
its place stands and two more where the line begins that the place is in. So the places may be a vector for all lines or one for each value
(``along``), the values may broadcast, and they or the array that is read may have gaps.

Several arrays of places first become one, of places in the leading dimensions read as one. As in `gradlib.backend.kernel_text`, every other
call is CuPy's own. Places count from the end where they are negative; those outside wrap around, as CuPy's own do.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import cache, lru_cache
from typing import Any

from gradlib.backend.array import Array
from gradlib.backend.copying import LETTERS, WORDS, packed
from gradlib.backend.kernel_text import ENTERED, EXACT, MOST, THREADS, spans_of
from gradlib.backend.launching import Kernel, kernel_of
from gradlib.backend.where import put_where

MOST_ARRAYS = 4
"""The most arrays of one index for which there is a kernel."""
PLACES = {"l": "l", "q": "l", "i": "i"}
"""The dtypes of places, by that of the kernels for them."""
WRAPPED = (
    "long long at = indices;\n{0}if (at < 0 || at >= adim) {{  // a division takes longer than all the rest\n"
    "{0}    at = indices % adim;\n{0}    if (at < 0) at += adim;\n{0}}}\n"
)
"""The statements by which a place, called ``indices``, is one of the ``adim`` that there are."""
ADDED = {"f": "float", "d": "double", "i": "unsigned", "l": "unsigned long long"}
"""The dtypes to which one atomic instruction adds, and in which it does: integers without a sign, which wrap around."""
_FOLDED = {"f": "float", "d": "double", "i": "int", "l": "long long"}
"""The dtypes of which there are folds other than sums."""
_FOLDS = {
    "prod": "old * value", "max": "old != old || old >= value ? old : value", "min": "old != old || old <= value ? old : value",
}  # fmt: skip
"""By name, how a value comes to the element that it meets, called ``old``; of extremes NaN counts before all."""


def source(char: str) -> str:
    """The kernels for places of a dtype: ``take_SIZE``, ``put_SIZE``; ``add_DTYPE``, ``prod_DTYPE``, ``max_DTYPE``, ``min_DTYPE``.

    All but ``take`` use ``number`` for every value where ``x`` is null. Where it is not, ``add`` multiplies the values by it. For int64
    there is ``places_N`` besides: of N arrays that broadcast each element times a step, all added up.

    A place is called ``indices`` and the size of the dimension ``adim``, as in CuPy's kernels, by which hostcuda finds places outside.
    """
    value, times = [f"    const {{ctype}} value = x ? x[here]{factor} : number;\n    " for factor in ("", " * number")]
    moved = {f"take_{size}": (word, "    x[here] = z[at];\n") for size, word in WORDS.items()}
    moved |= {f"put_{size}": (word, f"{value}z[at] = value;\n") for size, word in WORDS.items()}
    moved |= {f"add_{each}": (ctype, f"{times}atomicAdd(z + at, value);\n") for each, ctype in ADDED.items()}
    for each, ctype in _FOLDED.items():
        bits = WORDS[8 if each in "dl" else 4]
        moved |= {f"{name}_{each}": (ctype, value + _exchanged(bits, made)) for name, made in _FOLDS.items()}
    texts = [_moving(f"{name}_{char}", ctype, EXACT[char], statement) for name, (ctype, statement) in moved.items()]
    return "".join(texts + [_places_of(count) for count in range(1, MOST_ARRAYS + 1) if char == "l"])


_STEPS = ", ".join(f"long long {each}_{step}" for each in "xpz" for step in ("outer", "step", "inner"))


def _moving(name: str, ctype: str, place: str, statement: str) -> str:
    """A kernel for elements and places of these types, which does something with each value ``x[here]`` and the element ``z[at]``."""
    x, z = f"{ctype} number, const {ctype}* x", f"{ctype}* z"
    if name.startswith("take"):
        x, z = f"{ctype}* x", f"const {ctype}* z"
    return f"""extern "C" __global__ void gradlib_{name}({x}, const {place}* places, {z}, long long adim, unsigned count, unsigned inner,
    {_STEPS}, unsigned n) {{
{ENTERED}    const unsigned line = i / inner, j = i % inner, o = line / count, k = line % count;
    const long long here = o * x_outer + k * x_step + j * x_inner;
    const long long indices = places[o * p_outer + k * p_step + j * p_inner];
    {WRAPPED.format("    ")}    at = o * z_outer + at * z_step + j * z_inner;
{statement.replace("{ctype}", ctype)}}}
"""


def _places_of(count: int) -> str:
    """The kernel ``places_N``."""
    given = ", ".join(
        f"const long long* p{k}, unsigned inner{k}, unsigned count{k}, long long size{k}, long long step{k}" for k in range(count)
    )
    added = "".join(
        f"    {{\n        const long long indices = p{k}[i / inner{k} % count{k}], adim = size{k};\n"
        f"        {WRAPPED.format('        ')}        sum += at * step{k};\n    }}\n"
        for k in range(count)
    )
    return f"""extern "C" __global__ void gradlib_places_{count}({given}, long long* z, unsigned n) {{
{ENTERED}    long long sum = 0;
{added}    z[i] = sum;
}}
"""


def _exchanged(bits: str, made: str) -> str:
    """The statement that makes an element a value of itself, called ``old``, in one step for all threads: by exchanging its bits."""
    return (
        f"{bits}* const where = ({bits}*)(z + at);\n    {bits} seen = *where, held, next;\n    do {{\n"
        f"        {{ctype}} old, made;\n        held = seen;\n        memcpy(&old, &held, sizeof old);\n        made = {made};\n"
        "        memcpy(&next, &made, sizeof next);\n        seen = atomicCAS(where, held, next);\n    } while (seen != held);\n"
    )


@cache
def _kernel(name: str, places: str, letter: str) -> Kernel:
    """``places``: their dtype; ``letter``: of the number, as ``struct`` packs it; empty for none."""
    return Kernel(f"{letter}PPPqIIqqqqqqqqqI", kernel_of(source, places, name=f"{name}_{places}"))


@cache
def _together(count: int) -> Kernel:
    return Kernel("PIIqq" * count + "PI", kernel_of(source, "l", name=f"places_{count}"))


# ---- where the values lie -------------------------------------------------------------------------------------------------------


def _contiguous(shape: tuple[int, ...]) -> tuple[int, ...]:
    """The steps from element to element along the dimensions of a contiguous array."""
    return tuple(math.prod(shape[d + 1 :]) for d in range(len(shape)))


def _step(sizes: tuple[int, ...], steps: tuple[int, ...]) -> int | None:
    """The step from element to element along dimensions that are read as one; None where there is no such."""
    made, following = 0, None
    for size, step in zip(reversed(sizes), reversed(steps), strict=True):
        if size != 1:
            if following is not None and step != following:
                return None
            made, following = (step, step * size) if following is None else (made, step * size)
    return made


@lru_cache(4096)
def spread_of(
    shape: tuple[int, ...], strides: tuple[int, ...], places: tuple[int, ...], place_strides: tuple[int, ...], place_size: int,
    axis: int, along: bool, values: tuple[int, ...] | None, value_strides: tuple[int, ...], itemsize: int,
) -> tuple[tuple[int, ...], int, tuple[int, ...]] | None:  # fmt: skip
    """How the values of an access lie.

    Args:
        shape, strides, itemsize: of the array that is accessed. places, place_strides, place_size: the same of these. axis: the dimension;
            along: whether there is a place for each value, of which there may be fewer in the other dimensions than the array has.
        values, value_strides: of the values, which broadcast; None for new ones, which are contiguous.
    Returns: the shape of the access, its size, and the kernels' numbers from ``adim`` to the last step; None where they do not serve it.
    """
    span = places if along else (*shape[:axis], *places, *shape[axis + 1 :])
    behind = axis + (1 if along else len(places))
    n = math.prod(span)
    if not 0 < n <= MOST or not shape[axis]:
        return None
    lead = len(span) - (len(span) if values is None else len(values))
    if lead < 0 or (values is not None and any(have not in (1, want) for have, want in zip(values, span[lead:], strict=True))):
        return None
    if along and (len(span) != len(shape) or any(m > size for d, (m, size) in enumerate(zip(span, shape, strict=True)) if d != axis)):
        return None
    own = _contiguous(span)
    if values is not None:
        own = (0,) * lead + tuple(0 if m == 1 else s // itemsize for m, s in zip(values, value_strides, strict=True))
    named = tuple(step // place_size for step in place_strides)
    if not along:
        named = (*(0,) * axis, *named, *(0,) * (len(shape) - axis - 1))
    groups = slice(0, axis), slice(axis, behind), slice(behind, None)
    steps: list[Any] = [_step(span[group], each[group]) for each in (own, named) for group in groups]
    there = tuple(step // itemsize for step in strides)
    steps += [_step(span[:axis], there[:axis]), there[axis], _step(span[behind:], there[axis + 1 :])]
    if None in steps:
        return None
    return span, n, (shape[axis], math.prod(span[groups[1]]), math.prod(span[behind:]), *steps)


def named_of(array: Array, key: Sequence[Any]) -> tuple[Array, int, Array] | None:
    """The array and the dimension and places in it that an index names; None for an index that no kernel serves.

    Dimensions that have places of their own are read as one, and one launch adds up the places in that.

    ``key``: None for whole dimensions and behind these arrays of integers, no more.
    """
    axis = 0
    for each in key:
        if each is not None:
            break
        axis += 1
    if axis == len(key) - 1:
        return array, axis, key[-1]
    merged = _merged(array.shape, array.strides, axis, len(key))
    arrays = key[axis:]
    if merged is None or len(arrays) > MOST_ARRAYS:
        return None
    kind, device, shapes = type(array), array.data.device_id, []
    for each in arrays:
        if type(each) is not kind or PLACES.get(each.dtype.char) != "l" or not each._c_contiguous or each.data.device_id != device:
            return None
        shapes.append(each.shape)
    spans = spans_of(*shapes)
    if spans is None:
        return None
    given: list[Any] = []
    for d, each in enumerate(arrays):
        given += [each.data.ptr, *spans[2][2 * d : 2 * d + 2], array.shape[axis + d], math.prod(array.shape[axis + d + 1 : len(key)])]
    at, n = kind(spans[0], "l"), spans[1]
    if not _together(len(arrays)).run(device, n, THREADS, *given, at.data.ptr, n):
        return None
    return kind(merged[0], array.dtype, array.data, merged[1]), axis, at


@lru_cache(4096)
def _merged(shape: tuple[int, ...], strides: tuple[int, ...], start: int, end: int) -> tuple[tuple[int, ...], tuple[int, ...]] | None:
    """The shape and strides of an array whose dimensions ``start`` to ``end - 1`` are read as one; None where they cannot be."""
    sizes = shape[start:end]
    step = _step(sizes, strides[start:end])
    if not sizes or len(sizes) != end - start or 0 in sizes or step is None:
        return None
    return (*shape[:start], math.prod(sizes), *shape[end:]), (*strides[:start], step, *strides[end:])


# ---- access -----------------------------------------------------------------------------------------------------------------------


def picked(array: Array, key: Sequence[Any]) -> Array | None:
    """``array[key]`` of a CuPy array for whole dimensions, and behind these arrays of integers, or for a lone mask, whose elements CuPy
    counts; None where no kernel serves it.
    """
    if len(key) == 1 and type(mask := key[0]) is type(array) and mask.dtype.char == "?":
        return array[mask]
    named = (array, len(key) - 1, key[-1]) if len(key) == 1 or (len(key) == 2 and key[0] is None) else named_of(array, key)
    return None if named is None else taken(*named)


def taken(array: Array, axis: int, at: Any, along: bool = False) -> Array | None:
    """``array.take(at, axis)`` of a CuPy array, or with ``along`` its ``take_along_axis``; None where no kernel serves it.

    Args:
        axis: counts from 0. at: integers; with ``along`` of the array's rank and in no other dimension larger.
    """
    kind, dtype, data = type(array), array.dtype, array.data
    if type(at) is not kind or at.dtype.char not in PLACES or at.data.device_id != data.device_id or dtype.itemsize not in WORDS:
        return None
    size = dtype.itemsize
    spread = spread_of(array.shape, array.strides, at.shape, at.strides, at.itemsize, axis, along, None, (), size)
    if spread is None:
        return None
    shape, n, numbers = spread
    out = kind(shape, dtype)
    run = _kernel(f"take_{size}", PLACES[at.dtype.char], "").run
    return out if run(data.device_id, n, THREADS, out.data.ptr, at.data.ptr, data.ptr, *numbers, n) else None


def put(array: Array, key: Sequence[Any], values: Any, how: str = "put", factor: Any = 1) -> bool:
    """``array[key] = values`` of a CuPy array for whole dimensions, and behind these arrays of integers; or for a lone mask and one value,
    of which nobody needs to know how many elements it marks.

    Args:
        array: on the current device. values: an array of its dtype that broadcasts, or a number.
        how: "put"; or "add", "prod", "max" or "min" for what an element and all that comes there make.
        factor: of the values that "add" adds.
    Returns: whether it was done, which it is not where no kernel serves it.
    """
    if len(key) == 1 and type(mask := key[0]) is type(array) and mask.dtype.char == "?":
        if how != "put" or mask.shape != array.shape[: mask.ndim]:
            return False
        return put_where(array, mask if mask.ndim == array.ndim else mask.reshape(mask.shape + (1,) * (array.ndim - mask.ndim)), values)
    named = (array, len(key) - 1, key[-1]) if len(key) == 1 or (len(key) == 2 and key[0] is None) else named_of(array, key)
    return named is not None and put_along(*named, values, how, False, factor)


def put_along(array: Array, axis: int, at: Any, values: Any, how: str = "put", along: bool = True, factor: Any = 1) -> bool:
    """The same for places along a dimension, counted from 0; ``at``: as for `taken`."""
    kind, dtype, data = type(array), array.dtype, array.data
    if type(at) is not kind or at.dtype.char not in PLACES or not array._c_contiguous:
        return False
    if at.data.device_id != data.device_id or at.data.mem is data.mem:  # which would be written while it is read
        return False
    kernel = _writing(how, dtype.char, dtype.itemsize, PLACES[at.dtype.char])
    if kernel is None:
        return False
    shape, strides, number, source = (), (), None, 0
    if type(values) is kind:
        if values.dtype is not dtype or values.data.mem is data.mem or values.data.device_id != data.device_id:
            return False
        shape, strides, source = values.shape, values.strides, values.data.ptr
        number = 1 if factor == 1 else packed(factor, dtype)
    elif factor == 1:
        number = packed(values, dtype)
    if number is None:
        return False
    spread = spread_of(array.shape, array.strides, at.shape, at.strides, at.itemsize, axis, along, shape, strides, dtype.itemsize)
    if spread is None:
        return False
    n = spread[1]
    return kernel.run(data.device_id, n, THREADS, number, source, at.data.ptr, data.ptr, *spread[2], n)


@cache
def _writing(how: str, char: str, itemsize: int, places: str) -> Kernel | None:
    """The kernel that writes elements of a dtype; None where there is none."""
    name, served = (itemsize, WORDS) if how == "put" else (char, ADDED if how == "add" else _FOLDED)
    return _kernel(f"{how}_{name}", places, LETTERS.get(char, "Q")) if name in served else None
