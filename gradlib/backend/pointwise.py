"""Kernels of gradlib's own for small pointwise operations on CuPy arrays: contiguous, of one dtype that `CTYPES` or `EXACT` has.

CuPy's ufuncs work out broadcasting, strides and types at each call; of a small array that is most of the time. Here there is nothing to
work out, and how two shapes meet is kept. Every other call is handed on to CuPy's function, which computes the same: the expressions are
its own.

The launch is written out in each kind of function: a call of Python for it would cost a tenth of the whole.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from gradlib.backend import quotient
from gradlib.backend.array import Array, cupy
from gradlib.backend.kernel_text import COMPLEX, CTYPES, FEW, LARGEST, MOST, NUMBERS, THREADS, held, spans_of
from gradlib.backend.launching import launcher, refusals
from gradlib.backend.pointwise_text import COMPARE, IN_STEPS, OF_ONE, OF_TWO, PARTS, VALUES, Form, form, stretched_source
from gradlib.backend.where import where_function


def of_one(name: str, theirs: Callable[..., Array]) -> Callable[..., Array]:
    """A function of one array; ``theirs``: CuPy's for every other call."""
    library = cupy()
    launch, stream = launcher()
    ndarray = library.ndarray
    results = {char: library.dtype("?") if name in COMPARE else None for char, (one, _) in VALUES.items() if name in one}
    results |= {char: library.dtype(char.lower()) if len(PARTS[name]) == 1 else None for char in COMPLEX if name in PARTS}
    forms = {char: (*form(name, char, "PPI"), another) for char, another in results.items()}

    def run(x: Any, out: Any = None, **options: Any) -> Array:
        if out is not None or options:
            return x if out is x and not options and into(name)(x) else theirs(x, out, **options)
        if type(x) is ndarray and x._c_contiguous and 0 < (n := x.size) <= MOST:
            dtype = x.dtype
            chosen = forms.get(dtype.char)
            if chosen is not None:
                functions, pack, free, made, another = chosen
                result, from_x = ndarray(x.shape, another or dtype), x.data
                slot = free.pop() if free else made()
                try:
                    pack(slot[0], 0, from_x.ptr, result.data.ptr, n)
                    launch(functions[from_x.device_id], -(-n // THREADS), 1, 1, THREADS, 1, 1, 0, stream().ptr, slot[1], 0)
                except refusals():
                    return theirs(x)
                free.append(slot)
                return result
        return theirs(x)

    theirs = _of_rows(run, theirs) if name in IN_STEPS else theirs
    return run


def _of_rows(small: Callable[..., Array], theirs: Callable[..., Array]) -> Callable[..., Array]:
    """A function of several launches, before which operands that have gaps, or lie in another order, are copied for ``small``'s one."""
    kind = cupy().ndarray

    def run(*operands: Any, **options: Any) -> Array:
        rows, moved = list[Any](), False
        for each in operands:
            if type(each) is kind and not each._c_contiguous and each.size <= FEW:
                each, moved = each.copy("C"), not options
            rows.append(each)
        return small(*rows) if moved else theirs(*operands, **options)

    return run


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
    chars = [char for char, (_, two) in VALUES.items() if name in two]
    both = {char: form(f"{name}_vv", char, "PPPI") for char in chars}
    second = {char: form(f"{name}_vn", char, ("P", NUMBERS[char], "P", "I")) for char in chars if char in NUMBERS}
    first = {char: form(f"{name}_nv", char, (NUMBERS[char], *"PPI")) for char in chars if char in NUMBERS}
    compares, broadcast = name in COMPARE, _of_shapes(name, chars)

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
                found = broadcast(x, y)
                return theirs(x, y) if found is None else found
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
        except refusals():
            return theirs(x, y)
        free.append(slot)
        return result

    theirs = _of_rows(run, theirs) if name in IN_STEPS else theirs
    return run


def _of_shapes(name: str, chars: list[str]) -> Callable[[Array, Array], Array | None]:
    """A function of two arrays of other shapes, or of which one is a number repeated, as the gradient of a sum is; None where none serves.

    Args:
        name: as for `of_two`; chars: of the dtypes in which it is.
    """
    library = cupy()
    launch, stream = launcher()
    ndarray, compared = library.ndarray, library.dtype("?") if name in COMPARE else None
    spread = {char: form(f"{name}_bb", char, "PIIPIIPI") for char in chars}
    stretched = {char: form(f"{name}_ww", char, "PIIIIPIIIIPI", stretched_source) for char in chars}

    def broadcast(x: Array, y: Array) -> Array | None:
        dtype, data, met, forms = x.dtype, x.data, spans_of(x.shape, y.shape), spread
        if met is None:
            met, forms = spans_of(x.shape, y.shape, groups=2), stretched
        if met is None:
            return None
        shape, n, spans = met
        count = len(spans) // 2
        x_spans, y_spans = spans[:count], spans[count:]
        if not x._c_contiguous:
            if any(x.strides):
                return None
            x_spans = (1,) * count
        if not y._c_contiguous:
            if any(y.strides):
                return None
            y_spans = (1,) * count
        functions, pack, free, made = forms[dtype.char]
        out = ndarray(shape, compared or dtype)
        slot = free.pop() if free else made()
        try:
            pack(slot[0], 0, data.ptr, *x_spans, y.data.ptr, *y_spans, out.data.ptr, n)
            launch(functions[data.device_id], -(-n // THREADS), 1, 1, THREADS, 1, 1, 0, stream().ptr, slot[1], 0)
        except refusals():
            return None
        free.append(slot)
        return out

    return broadcast


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
    same = [char for char in (*CTYPES, *COMPLEX) if name not in COMPARE and any(name in each for each in VALUES[char])]  # made in x's dtype
    alone = {char: form(name, char, "PPI") for char in same}
    both = {char: form(f"{name}_vv", char, "PPPI") for char in same}
    second = {char: form(f"{name}_vn", char, ("P", NUMBERS[char], "P", "I")) for char in same}
    spread = {char: form(f"{name}_bb", char, "PIIPIIPI") for char in same}

    def prepared(x: Array, y: Any) -> tuple[Form, tuple[Any, ...]] | None:
        """The kernel of two operands, and what it is given before the result."""
        dtype, data = x.dtype, x.data
        char = dtype.char
        if type(y) is not ndarray:
            if dtype.itemsize == 2 and (type(y) is float or type(y) is int) and -LARGEST["e"] < y < LARGEST["e"]:
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
        except refusals():
            return False
        free.append(slot)
        return True

    return run


@cache
def function(name: str, in_single: bool = False) -> Callable[..., Array]:
    """CuPy's function of a name, behind a kernel of gradlib's own where there is one."""
    return small(name, quotient.OURS.get(name) or getattr(cupy(), name), in_single)


def small(name: str, theirs: Any, in_single: bool = False) -> Any:
    """A function of CuPy's arrays by its name, behind a kernel of gradlib's own where there is one. ``in_single``: as for `of_two`."""
    if name == "where":
        return where_function()
    if name in OF_ONE:
        return of_one(name, theirs)
    return of_two(name, theirs, in_single) if name in OF_TWO else theirs


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
