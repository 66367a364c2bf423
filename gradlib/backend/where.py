"""Kernels of gradlib's own for ``where`` of small CuPy arrays, and for one value written where a mask holds."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from gradlib.backend.array import Array, cupy
from gradlib.backend.kernel_text import ALL_CTYPES, ELEMENTS, HEADERS, MOST, NUMBERS, THREADS, held, spans_of
from gradlib.backend.launching import kernels, launcher, refusals
from gradlib.backend.pointwise_text import WHERE, form, source


@cache
def where_function() -> Callable[..., Array]:
    """``where`` of a mask and two operands, of which each may be a number of their dtype; of half types it makes no float32."""
    library = cupy()
    launch, stream = launcher()
    ndarray = library.ndarray
    forms = {}
    for kind in WHERE:
        for char in ELEMENTS if "n" not in kind else NUMBERS:
            written: dict[str, Sequence[str]] = {"v": "P", "b": "PII", "n": (NUMBERS.get(char, ""),)}
            given = (*written["b" if "b" in kind else "v"], *written[kind[0]], *written[kind[1]], *"PI")
            forms[kind, char] = form(f"where_{kind}", char, given)

    def theirs(mask: Any, x: Any, y: Any) -> Array:
        made = library.where(mask, x, y)
        dtypes = {each.dtype for each in (x, y) if hasattr(each, "dtype")}
        common = dtypes.pop() if len(dtypes) == 1 else made.dtype
        return made.astype(common) if common.char in HEADERS and made.dtype.char == "f" else made

    def run(mask: Any, x: Any, y: Any) -> Array:
        dtype = getattr(x if type(x) is ndarray else y, "dtype", None)
        if type(mask) is not ndarray or dtype is None or dtype.char not in ELEMENTS or mask.dtype.char != "?" or not mask._c_contiguous:
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
        except refusals():
            return theirs(mask, x, y)
        free.append(slot)
        return out

    return run


_kernel = kernels(source)


def put_where(target: Array, mask: Any, value: Any) -> bool:
    """Write a number, or the one element of an array, into a contiguous CuPy array where a mask holds that broadcasts to it.

    Returns: whether it was done, which it is not where no kernel serves the operands.
    """
    dtype, data, kind = target.dtype, target.data, type(target)
    if dtype.char not in ALL_CTYPES or not target._c_contiguous or type(mask) is not kind or mask.dtype.char != "?":
        return False
    met = spans_of(target.shape, mask.shape)
    if met is None or met[0] != target.shape or not mask._c_contiguous or mask.data.device_id != data.device_id:
        return False
    (_, n, spans), char = met, dtype.char
    if type(value) is kind:
        lies_apart = value.data.mem is not data.mem and value.data.device_id == data.device_id
        if value.dtype is not dtype or value.size != 1 or not lies_apart:
            return False
        written: tuple[Any, ...] = (value.data.ptr, n, 1)
    else:
        if char == "E" and (type(value) is float or type(value) is int):
            value = dtype.type(value)
        number = held(value, dtype) if char in NUMBERS else None
        if number is None:
            return False
        written = (number,)
    kernel = _kernel("where_bb" if len(written) > 1 else "where_nb", char)
    return kernel.run(data.device_id, n, THREADS, mask.data.ptr, *spans[2:], *written, data.ptr, *spans[:2], data.ptr, n)


def where(mask: Array, x: Any, y: Any) -> Array:
    """``cupy.where``."""
    return where_function()(mask, x, y)
