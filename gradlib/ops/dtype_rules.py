"""Rules for declarations: which dtypes an operation accepts, and in which it computes."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from gradlib.backend import dtype as dtypes
from gradlib.backend.array import is_array
from gradlib.backend.copying import converted
from gradlib.backend.dtype import promote

_NAMES = {"b": "bool", "i": "integer", "f": "float", "c": "complex"}
_CHARS = {"b": "?", "i": np.typecodes["AllInteger"], "f": np.typecodes["Float"], "c": np.typecodes["Complex"]}


def takes(
    name: str, kinds: str, advice: str = "", to_float: bool = False, error: type[Exception] = NotImplementedError, fitting: bool = False
) -> Callable[[list[Any]], list[Any]]:
    """A promotion rule for ``op(promote=...)``: as "same" (or "float"), but only for certain kinds of dtype.

    Args:
        name: the operation, for the error text.
        kinds: letters out of "bifc" for the common dtypes taken: bool, integer, float, complex.
        advice: what to do instead, for the error text.
        to_float: integers and bools become the default float dtype.
        error: what is raised for another dtype; torch's NotImplementedError is a RuntimeError.
        fitting: refuse a number that the common dtype does not hold.
    """

    unchanged = "".join(_CHARS[kind] for kind in kinds if not (to_float and kind in "bi"))

    def meet(values: list[Any]) -> list[Any]:
        first = values[0]
        kind = type(first)
        known = kind is np.ndarray or ("cupy" in sys.modules and kind is sys.modules["cupy"].ndarray)
        if known and (dtype := first.dtype).char in unchanged:  # the common case: of one dtype
            for value in values:
                if type(value) is not kind or value.dtype is not dtype:
                    break
            else:
                return values
        if fitting and not hasattr(first, "dtype"):
            raise TypeError(f"{name}: a number stands for the tensor whose dtype other numbers are to fit")
        met = promote(values, to_float, fitting)
        for value in met:
            if hasattr(value, "dtype"):
                dtype = value.dtype
                break
        if "bifc"[dtypes.category(dtype)] not in kinds:
            taken = ", ".join(_NAMES[kind] for kind in kinds)
            raise error(f"{name} is not implemented for {dtype.name}, only for {taken} tensors. {advice}".rstrip())
        if fitting:
            refuse_beyond(values, dtype)
        return met

    meet.fits = fitting  # type: ignore[attr-defined]
    return numbers_alike(by_dtype(meet, sees_numbers=fitting))


def numbers_alike(rule: Callable[[list[Any]], list[Any]]) -> Callable[[list[Any]], list[Any]]:
    """Declare that to an operation of a promotion rule a tensor without dimensions beside others of its kind is what a number is."""
    rule.numbers_alike = True  # type: ignore[attr-defined]
    return rule


def by_dtype(rule: Callable[[list[Any]], list[Any]], sees_numbers: bool = False) -> Callable[[list[Any]], list[Any]]:
    """Declare that a promotion rule goes by dtypes alone, which on a device is then asked once; ``sees_numbers``: unless a
    number is beside integers or a half type.
    """
    rule.by_dtype, rule.sees_numbers = True, sees_numbers  # type: ignore[attr-defined]
    return rule if sees_numbers else numbers_alike(rule)


def refuse_beyond(values: list[Any], dtype: np.dtype) -> None:
    """Refuse a number among operands that the dtype does not hold."""
    for value in values:
        if isinstance(value, (int, float, complex)):
            dtypes.fitted(value, dtype)


def in_single(value: Callable[..., Any]) -> Callable[..., Any]:
    """Let an operation's value on half-precision numbers be computed in float32, as torch computes it."""

    @functools.wraps(value)
    def widened(xp: Any, input: Any, *rest: Any) -> Any:
        if input.dtype.itemsize != 2 or input.dtype.kind in "iu":
            return value(xp, input, *rest)
        wide = [converted(v, dtypes.float32) if is_array(v) and dtypes.is_half(v.dtype) else v for v in rest]
        return converted(value(xp, converted(input, dtypes.float32), *wide), input.dtype)

    widened.of_floats = value  # type: ignore[attr-defined]  # which the fast path calls, where dtypes have been asked for
    return widened


def in_common_dtype(values: list[Any]) -> list[Any]:
    """A promotion rule for arrays: one without dimensions counts as the others do, as where torch gives it dimensions first."""
    first = values[0].dtype
    for value in values:
        if value.dtype is not first:
            break
    else:
        return values
    common = dtypes.promote_types(*(value.dtype for value in values))
    return [value if value.dtype == common else value.astype(common) for value in values]
