"""Reading of ``dim``, ``shape`` and ``*sizes`` arguments: negative numbers count from the end, and sizes may be given in several forms."""

from __future__ import annotations

import itertools
import operator
from collections.abc import Callable, Sequence
from typing import Any

WHOLE = slice(None)
"""The index that keeps a dimension as it is; made once, since many small calls use it."""


def wrap_dim(dim: Any, ndim: int) -> int:
    """A dimension counted from the front. A 0-d tensor counts as having one dimension, as in torch.

    Raises: IndexError outside [-ndim, ndim - 1]; TypeError for anything but an integer, a bool included: it was meant for another argument.
    """
    if type(dim) is int and 0 <= dim < ndim:  # the common case
        return dim
    if isinstance(dim, bool):
        raise TypeError("a dimension is an integer, not a bool")
    number = operator.index(dim)
    count = ndim or 1
    if not -count <= number < count:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-count}, {count - 1}], but got {number})")
    return number + count if number < 0 else number


def wrap_dims(dims: Any, ndim: int) -> tuple[int, ...]:
    """Several dimensions counted from the front. Raises: RuntimeError when one appears twice; IndexError outside the range."""
    if type(dims) is not tuple and not isinstance(dims, Sequence):  # of which the second question takes long
        dims = (dims,)
    wrapped = tuple(map(wrap_dim, dims, itertools.repeat(ndim)))
    if len(wrapped) > 1 and len(set(wrapped)) != len(wrapped):
        raise RuntimeError(f"a dimension appears multiple times in the list of dims {tuple(dims)}")
    return wrapped


def sized_method(function: Callable[..., Any], keyword: str) -> Callable[..., Any]:
    """The method of a function that takes sizes or dimensions: ``x.f(2, 3)``, ``x.f((2, 3))`` and ``x.f(keyword=(2, 3))``."""

    def method(self: Any, *sizes: Any, **named: Any) -> Any:
        if not named:
            for size in sizes:
                if type(size) is not int:
                    return function(self, sizes_of(sizes))
            return function(self, sizes)
        if set(named) != {keyword} or sizes:
            raise TypeError(f"{method.__name__}() takes its sizes one by one, as a tuple or as {keyword}=, got {', '.join(named)}")
        return function(self, sizes_of((named[keyword],)))

    method.__name__ = method.__qualname__ = function.__name__
    method.__doc__ = function.__doc__
    return method


def sizes_of(arguments: tuple[Any, ...]) -> tuple[int, ...]:
    """The shape meant by ``f(2, 3)``, ``f((2, 3))`` or ``f([2, 3])``. Raises: TypeError for sizes that are no integers."""
    if len(arguments) == 1 and isinstance(arguments[0], (tuple, list)):
        arguments = tuple(arguments[0])
    for each in arguments:
        if type(each) is not int:
            break
    else:
        return arguments
    try:
        return tuple(map(operator.index, arguments))
    except TypeError:
        raise TypeError(f"a shape must be integers or a tuple of them, got {arguments!r}") from None


def part_at(dim: int, ndim: int, part: Any) -> tuple[Any, ...]:
    """The index that applies ``part`` to one dimension."""
    return (WHOLE,) * wrap_dim(dim, ndim) + (part,)
