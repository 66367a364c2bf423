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


def _of_library(on_host: Callable[..., Any], function: Callable[..., Any]) -> Callable[..., Any]:
    """The function of a library and arrays, which shows the one of NumPy's arrays alone as ``on_host``: a call less for small ones."""
    function.on_host = on_host  # type: ignore[attr-defined]
    return functools.wraps(on_host)(function)


def of_one(
    low: float | None, high: float | None, chars: str = _FLOATS, least: Callable[[], int] = lambda: LEAST
) -> Callable[[Callable[[Array, Array], None]], Callable[[Namespace, Any], Any]]:
    """Make of a form the function ``f(xp, input)`` of its name; blocks with an element that is not between the limits are NumPy's.

    Args:
        low, high: the limits; None where the form is right of every number.
        chars: the characters of the dtypes that the form is for.
        least: gives the number of elements, at least `LEAST`, from which it takes less time where NumPy has no vector loop.
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
        def on_host(input: Any) -> Any:
            if input.size < LEAST or not fits(input, chars) or input.size < least() or loops.is_vector(name, input.dtype.char):
                return library(input)
            return blocks(guarded, input)

        return _of_library(on_host, lambda xp, input: on_host(input) if xp is np else getattr(xp, name)(input))

    return made


def of_two(
    allowed: Callable[[Array, Any], bool] = lambda a, b: True,
    chars: str = _FLOATS,
    least: Callable[[], int] = lambda: LEAST,
    library: Callable[..., Any] | None = None,
) -> Callable[[Callable[[Array, Any, Array], None]], Callable[[Namespace, Any, Any], Any]]:
    """The same for functions of two operands, of which the second may be a number; ``allowed`` says of which blocks the form is right,
    and ``library`` is called for other blocks and few elements if it is not NumPy's function of the form's name."""

    def made(form: Callable[[Array, Any, Array], None]) -> Callable[[Namespace, Any, Any], Any]:
        name = form.__name__
        plain = library or getattr(np, name)

        def guarded(a: Array, b: Any, out: Array) -> None:
            if allowed(a, b):
                form(a, b, out)
            else:
                plain(a, b, out)

        @functools.wraps(form)
        def on_host(input: Any, other: Any) -> Any:
            if type(input) is not np.ndarray or input.size < LEAST or input.size < least() or loops.is_vector(name, input.dtype.char):
                return plain(input, other)
            are_fit = fit(input, other, chars) or (type(other) in (int, float) and fits(input, chars))
            return blocks(guarded, input, other) if are_fit else plain(input, other)

        return _of_library(on_host, lambda xp, input, other: on_host(input, other) if xp is np else getattr(xp, name)(input, other))

    return made
