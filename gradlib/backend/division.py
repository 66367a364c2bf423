"""Whole-number division on CuPy arrays as NumPy and torch have it.

CuPy's own rounds a float quotient before it takes the whole number below it (so that 1 // 0.1 is 10, and 5 % inf is NaN), and its
``fmod`` of integers goes through doubles, which do not hold all 64 bits.

Source: the divmod of Python's floats; c10::div_floor_floating.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from gradlib.backend import quotient
from gradlib.backend.array import Array, cupy
from gradlib.backend.pointwise import of_two
from gradlib.backend.where import where


def _floored(name: str, whole: str) -> Callable[[Any, Any], Array]:
    """A part of floor division, of numbers or arrays of the current device: of integers CuPy's function ``whole``, of floats the kernel."""

    def run(input: Any, other: Any) -> Array:
        return (getattr(cupy(), whole) if _are_whole(input, other) else _small(name))(input, other)

    return run


floor_divide = _floored("floor_divide", "floor_divide")
"""The largest whole number not above each quotient; integers by zero give 0."""
remainder = _floored("remainder", "remainder")
"""The remainder of floor division, with the sign of the divisor; a zero has that of the dividend."""
modulo = _floored("modulo", "remainder")
"""The remainder of floor division, with the sign of the divisor, also of a zero."""


def fmod(input: Any, other: Any) -> Array:
    """The remainder of division rounded towards zero, with the sign of input."""
    if not _are_whole(input, other):
        return _small("fmod")(input, other)
    rest = cupy().remainder(input, other)
    return cupy().where(_opposed(rest, input), rest - other, rest)


def _are_whole(input: Any, other: Any) -> bool:
    """Whether both operands are integers; those that a derivative rule saved have not met in one dtype."""
    if isinstance(input, float) or isinstance(other, float):
        return False
    return (isinstance(input, int) or input.dtype.kind in "iu") and (isinstance(other, int) or other.dtype.kind in "iu")


@cache
def _small(name: str) -> Any:
    return of_two(name, _FLOATS.get(name) or cupy().fmod)


def float_floor_divide(input: Any, other: Any) -> Array:
    """``floor_divide`` of floats, by CuPy's functions."""
    xp = cupy()
    rest = xp.fmod(input, other)
    quotient = (input - rest) / other
    quotient = where(_opposed(rest, other), quotient - 1, quotient)  # a whole number but for its rounding
    plain = xp.true_divide(input, other)
    return where(xp.equal(other, 0), plain, where(quotient == 0, xp.copysign(0, plain), xp.rint(quotient)))


def float_remainder(input: Any, other: Any) -> Array:
    """``remainder`` of floats, by CuPy's functions."""
    xp = cupy()
    rest = xp.fmod(input, other)
    return where(_opposed(rest, other), rest + other, rest)


def float_modulo(input: Any, other: Any) -> Array:
    """``modulo`` of floats, by CuPy's functions."""
    rest = float_remainder(input, other)
    return where(rest == 0, cupy().copysign(rest, other), rest)


_FLOATS = {"floor_divide": float_floor_divide, "modulo": float_modulo, "remainder": float_remainder}
_OURS = {"floor_divide": floor_divide, "fmod": fmod, "modulo": modulo, "remainder": remainder, **quotient.OURS}


def device_function(name: str, kind: str = "c") -> Any:
    """The function of this name for CuPy arrays of a kind of dtype: these here, else CuPy's own, None where it has none."""
    ours = _OURS.get(name) if kind == "c" or name not in quotient.OURS else None
    return ours or getattr(cupy(), name, None)


def _opposed(rest: Array, other: Any) -> Array:
    """A mask of the remainders whose sign is not the divisor's."""
    xp = cupy()
    return (rest != 0) & (xp.less(rest, 0) != xp.less(other, 0))
