"""From a form, the function of NumPy's name that uses it where it takes less time than NumPy's own."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from gradlib.backend.array import Array, Namespace
from gradlib.backend.vectorised import loops
from gradlib.backend.vectorised.blocks import LEAST, blocks, fit, fits, within

_FLOATS = "fd"


def of_one(
    low: float | None, high: float | None, chars: str = _FLOATS, least: int = LEAST
) -> Callable[[Callable[[Array, Array], None]], Callable[[Namespace, Any], Any]]:
    """Make of a form the function ``f(xp, input)`` of its name; blocks with an element that is not between the limits are NumPy's.

    Args:
        low, high: the limits; None where the form is right of every number.
        chars: the characters of the dtypes that the form is for.
        least: the number of elements from which it takes less time where NumPy has no vector loop.
    """

    def made(form: Callable[[Array, Array], None]) -> Callable[[Namespace, Any], Any]:
        name = form.__name__
        library = getattr(np, name)

        def guarded(x: Array, out: Array) -> None:
            if low is None or high is None or within(x, low, high):
                form(x, out)
            else:
                library(x, out)

        @functools.wraps(form)
        def function(xp: Namespace, input: Any) -> Any:
            if xp is not np:
                return getattr(xp, name)(input)
            if fits(input, chars) and input.size >= least and not loops.is_vector(name, input.dtype.char):
                return blocks(guarded, input)
            return library(input)

        return function

    return made


def of_two(
    allowed: Callable[[Array, Any], bool] = lambda a, b: True, chars: str = _FLOATS, least: int = LEAST
) -> Callable[[Callable[[Array, Any, Array], None]], Callable[[Namespace, Any, Any], Any]]:
    """The same for functions of two operands, of which the second may be a number; ``allowed`` says of which blocks the form is right."""

    def made(form: Callable[[Array, Any, Array], None]) -> Callable[[Namespace, Any, Any], Any]:
        name = form.__name__
        library = getattr(np, name)

        def guarded(a: Array, b: Any, out: Array) -> None:
            if allowed(a, b):
                form(a, b, out)
            else:
                library(a, b, out)

        @functools.wraps(form)
        def function(xp: Namespace, input: Any, other: Any) -> Any:
            if xp is not np:
                return getattr(xp, name)(input, other)
            alike = fit(input, other, chars) or (type(other) in (int, float) and fits(input, chars))
            if alike and input.size >= least and not loops.is_vector(name, input.dtype.char):
                return blocks(guarded, input, other)
            return library(input, other)

        return function

    return made
