"""Data types, the default one, and torch's promotion rules.

gradlib's dtypes are NumPy's own ``dtype`` objects, so ``x.dtype == numpy.float32`` and ``array.astype(gradlib.float32)`` just work.
Promotion is torch's, not NumPy's: a Python scalar or a 0-d tensor never promotes within its own category, and an integer tensor
meeting a float one takes the float's dtype.
"""

from __future__ import annotations

import contextlib
import functools
import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gradlib.backend.array import is_array
from gradlib.backend.copying import converted

bool_ = np.dtype(np.bool_)
uint8 = np.dtype(np.uint8)
int8 = np.dtype(np.int8)
int16 = np.dtype(np.int16)
int32 = np.dtype(np.int32)
int64 = np.dtype(np.int64)
float16 = np.dtype(np.float16)
float32 = np.dtype(np.float32)
float64 = np.dtype(np.float64)
complex64 = np.dtype(np.complex64)
complex128 = np.dtype(np.complex128)

_OWN = {d: d for d in (bool_, uint8, int8, int16, int32, int64, float16, float32, float64, complex64, complex128)}
"""NumPy's own object for each dtype: an array that was pickled has an equal but different one, which ``is`` does not know."""


class _Default:
    """What ``set_default_dtype`` chooses: the dtype that Python's floats become."""

    dtype = float32


default = _Default()
NUMBERS = (np.generic, int, float, complex)
"""What stands for a number without an array."""
_COMPLEX_OF: dict[np.dtype, np.dtype] = {float16: complex64, float32: complex64, float64: complex128}
_REAL_OF: dict[np.dtype, np.dtype] = {complex64: float32, complex128: float64}


def bfloat16() -> np.dtype:
    """The bfloat16 dtype of ``ml_dtypes``. Raises: RuntimeError that says how to install it when it is missing."""
    try:
        import ml_dtypes
    except ImportError as error:
        raise RuntimeError("bfloat16 needs the package ml_dtypes. Install it with: pip install ml_dtypes.") from error
    return np.dtype(ml_dtypes.bfloat16)


def is_bfloat16(dtype: np.dtype) -> bool:
    return dtype.kind == "V" and dtype.name == "bfloat16"  # NumPy takes a while to make a name


def is_half(dtype: np.dtype) -> bool:
    return dtype.itemsize == 2 and dtype.kind in "fV"


@functools.cache
def category(dtype: np.dtype) -> int:
    """0 for bool, 1 for integers, 2 for floats, 3 for complex. Raises: TypeError for anything else."""
    kind = dtype.kind
    if kind == "f" or (kind == "V" and is_bfloat16(dtype)):
        return 2
    if kind == "c":
        return 3
    if kind == "b":
        return 0
    if kind in "iu":
        return 1
    raise TypeError(f"gradlib holds bool, integer, float and complex elements, got dtype {dtype}")


@functools.cache
def is_floating_point(dtype: np.dtype) -> bool:
    return category(dtype) == 2


def is_complex(dtype: np.dtype) -> bool:
    return dtype.kind == "c"


def are_integers(*values: Any) -> bool:
    """Whether all are arrays or numbers of integers."""
    for value in values:  # noqa: SIM110  (a generator is called for each)
        if not (value.dtype.kind in "iu" if hasattr(value, "dtype") else isinstance(value, int)):
            return False
    return True


DIFFERENTIABLE = "fcV"
"""The kinds of the dtypes that can have gradients: floats, complex numbers, and bfloat16, which is of no kind of NumPy's."""


def is_differentiable(dtype: np.dtype) -> bool:
    """Whether a tensor of this dtype can require a gradient: floats and complex numbers can."""
    return dtype.kind in DIFFERENTIABLE


def get_default_dtype() -> np.dtype:
    """The dtype that Python floats become: float32 until ``set_default_dtype`` changes it.

    Source: torch.get_default_dtype.
    Example:
        >>> gradlib.get_default_dtype()
        dtype('float32')
    """
    return default.dtype


def set_default_dtype(dtype: Any) -> None:
    """Choose the dtype that Python floats become.

    Args:
        dtype: a float dtype.
    Raises: TypeError unless it is a floating dtype.
    Source: torch.set_default_dtype.
    Example:
        >>> gradlib.set_default_dtype(gradlib.float64)
        >>> gradlib.ones(1).dtype
        dtype('float64')
        >>> gradlib.set_default_dtype(gradlib.float32)
    """
    chosen = as_dtype(dtype)
    if chosen is None or not is_floating_point(chosen):
        raise TypeError(f"only floating-point types are supported as the default type, got {dtype}")
    default.dtype = chosen


def as_dtype(value: Any) -> np.dtype | None:
    """The dtype that a ``dtype=`` argument means: None, a dtype, a NumPy scalar type, a name, or Python's bool, int, float, complex.

    ``float`` means float64 as in NumPy and torch. Raises: TypeError for anything else.
    """
    if value is None:
        return None
    if isinstance(value, np.dtype) and (own := _OWN.get(value)) is not None:
        return own
    if isinstance(value, str) and value == "bfloat16":
        return bfloat16()
    if not isinstance(value, (np.dtype, type, str)):
        raise TypeError(f"a dtype is gradlib.float32 or another, or its name; got {type(value).__name__}")
    try:
        dtype = np.dtype(value).newbyteorder("=")
    except TypeError:
        raise TypeError(f"a dtype is gradlib.float32 or another, or its name; got {value!r}") from None
    category(dtype)
    return bfloat16() if is_bfloat16(dtype) else _OWN.get(dtype, dtype)  # each dtype one object, which kernels ask for by identity


def to_complex(dtype: np.dtype) -> np.dtype:
    """The complex dtype whose parts have this float dtype."""
    return dtype if dtype.kind == "c" else _COMPLEX_OF.get(dtype, complex64)


def to_real(dtype: np.dtype) -> np.dtype:
    """The dtype of the real part of this dtype."""
    return _REAL_OF.get(dtype, dtype)


ALWAYS_HELD = 3e38
"""Smaller numbers are held by float32, float64 and the complex dtypes: nothing need be asked."""
_SINGLE = float(np.finfo(np.float32).max)
_LARGEST = {float16: 65504.0, float32: _SINGLE, complex64: _SINGLE}


@functools.cache
def largest(dtype: np.dtype) -> float:
    """The largest number of a float or complex dtype; infinity for the others, which hold every number of Python's or have bounds."""
    return 255 * 2.0**120 if is_bfloat16(dtype) else _LARGEST.get(dtype, math.inf)


def computed(dtype: np.dtype) -> np.dtype:
    """The dtype in which torch computes on elements of this one: float32 for half types."""
    return float32 if is_half(dtype) else dtype


def fitted(number: Any, dtype: np.dtype) -> Any:
    """A number as it stands in an array of this dtype.

    Raises: RuntimeError for one that the dtype cannot hold, or a finite one that would become infinite.
    """
    if type(number) is float and -1 <= number <= 1 and dtype.kind == "f":  # the common case
        return number
    bound = largest(dtype)
    if bound < math.inf and (bound < abs(number.real) < math.inf or bound < abs(number.imag) < math.inf):
        raise RuntimeError(f"value cannot be converted to type {dtype} without overflow: {number}")
    if category(dtype) == 1 and isinstance(number, (int, float)):
        bounds = np.iinfo(dtype)
        lowest = -bounds.max if bounds.min == 0 and isinstance(number, int) else bounds.min  # an integer may wrap, as in C
        if not lowest <= number <= bounds.max:
            raise RuntimeError(f"value cannot be converted to type {dtype} without overflow: {number}")
        return int(number) % (bounds.max + 1) if bounds.min == 0 else int(number)
    if isinstance(number, complex) and dtype.kind not in "cb":
        raise RuntimeError(f"value cannot be converted to type {dtype} without overflow: {number}")
    return number


def promote_types(a: Any, b: Any) -> np.dtype:
    """The smallest dtype to which both convert.

    Args:
        a, b: dtypes.
    Raises: TypeError for None in the place of a dtype.
    Source: torch.promote_types.
    Example:
        >>> gradlib.promote_types(gradlib.int64, gradlib.float32)
        dtype('float32')
    """
    first, second = as_dtype(a), as_dtype(b)
    if first is None or second is None:
        raise TypeError("promote_types takes two dtypes, got None")
    return _promote(first, second)


@functools.cache
def _promote(first: np.dtype, second: np.dtype) -> np.dtype:
    if first == second:
        return first
    low, high = sorted((first, second), key=category)
    if category(high) == 3:
        return high if category(low) < 2 else np.promote_types(high, to_complex(low))
    if category(high) == 2:
        if category(low) < 2:
            return high
        return float32 if (is_bfloat16(low) and high == float16) or (is_bfloat16(high) and low == float16) else np.promote_types(low, high)
    return np.promote_types(low, high)


def scalar_dtype(value: Any) -> np.dtype:
    """The dtype a Python number has as a tensor of its own."""
    if isinstance(value, (bool, np.bool_)):
        return bool_
    if isinstance(value, (int, np.integer)):
        return int64
    if isinstance(value, (float, np.floating)):
        return default.dtype
    if isinstance(value, (complex, np.complexfloating)):
        return to_complex(default.dtype)
    raise TypeError(f"expected a number, got {type(value).__name__}")


def _combine(higher: np.dtype | None, lower: np.dtype | None) -> np.dtype | None:
    """One step of torch's rule: ``higher`` has priority, ``lower`` decides only when it is of a higher category."""
    if higher is None or lower is None:
        return higher if lower is None else lower
    if category(higher) == 3:
        return higher
    if category(higher) == 2:
        return to_complex(higher) if category(lower) == 3 else higher
    if category(higher) == 0 or category(lower) >= 2:
        return promote_types(higher, lower)
    return higher


def result_type(*operands: Any) -> np.dtype:
    """The dtype in which an operation on these operands runs.

    Arrays and Tensors of one dimension or more decide first, 0-d ones next, Python numbers last; a later group counts only when it
    is of a higher category (bool, integer, float, complex).

    Args:
        operands: tensors and numbers.
    Raises: TypeError for no operand at all.
    Source: torch.result_type and torch's "Type promotion" notes.
    Example:
        >>> gradlib.result_type(gradlib.tensor([1, 2]), 1.5)
        dtype('float32')
    """
    groups: list[np.dtype | None] = [None, None, None]
    for operand in operands:
        dtype = getattr(operand, "dtype", None)
        if dtype is None or isinstance(operand, np.generic):
            group, dtype = 2, scalar_dtype(operand)
        else:
            group = 0 if operand.ndim else 1
        seen = groups[group]
        groups[group] = dtype if seen is None or seen is dtype else _promote(seen, dtype)
    combined = _combine(_combine(groups[0], groups[1]), groups[2])
    if combined is None:
        raise TypeError("result_type needs at least one operand")
    return combined


def meeting(rule: Any) -> Callable[[list[Any]], list[Any]] | None:
    """The function that casts the operands of an operation to the dtypes in which it runs.

    Args:
        rule: what the operation declares: None leaves them alone; "same" and "float" as ``promote``; a function does it its own way.
    """
    if rule is None or callable(rule):
        return rule
    return _promote_to_float if rule == "float" else promote


_WEAK = {int, float}
_INEXACT = {"f", "c"}
_EXACT = {"b", "i", "u"}
_FEW = 4  # operands whose plan is kept
_plans: dict[tuple[Any, ...], tuple[np.dtype, bool] | None] = {}
"""What ``promote`` found, by the dtypes of arrays, whether they have dimensions, and the types of numbers."""


def promote(values: list[Any], to_float: bool = False, fitting: bool = False) -> list[Any]:
    """Bring operands to the dtype in which they meet (torch's rules); numbers stay numbers where NumPy treats them alike.

    Args:
        values: arrays, Python numbers or None.
        to_float: integers and bools become the default float dtype.
        fitting: refuse a number that the dtype does not hold; of half types the caller asks.
    Raises: RuntimeError for a number that does not fit.
    """
    seen: list[Any] = [to_float, default.dtype]
    for value in values:
        dtype = getattr(value, "dtype", None)
        seen += (type(value),) if dtype is None or isinstance(value, np.generic) else (dtype, value.ndim > 0)
    key = tuple(seen)
    if key in _plans:
        plan = _plans[key]
    else:
        plan = _plan(values, to_float)
        if len(values) <= _FEW:  # long lists come in any length
            _plans[key] = plan
    if plan is None:
        return values
    common, weak = plan
    met: list[Any] = []
    for value in values:
        if isinstance(value, NUMBERS):
            value = fitted(value, common) if fitting and not is_half(common) else value
            met.append(value if weak else _number(value, common))
        else:
            met.append(value if value is None or value.dtype == common else converted(value, common))
    return met


def _number(value: Any, dtype: np.dtype) -> Any:
    """A number of a dtype; one that a half type does not hold is infinite, as in torch, and no reason for a warning."""
    with np.errstate(over="ignore") if is_half(dtype) else contextlib.nullcontext():
        return np.asarray(value).astype(dtype)[()]


_promote_to_float = functools.partial(promote, to_float=True)


def _plan(values: list[Any], to_float: bool) -> tuple[np.dtype, bool] | None:
    """The dtype in which operands meet, and whether numbers stay numbers beside it; None where all stay as they are."""
    found = {v.dtype if is_array(v) else type(v) for v in values} - _WEAK
    if len(found) == 1:
        kind = getattr(next(iter(found)), "kind", "")
        if kind in _INEXACT or (kind in _EXACT and not to_float and all(map(is_array, values))):
            return None
    operands = [v for v in values if v is not None]
    common = result_type(*operands)
    if to_float and category(common) < 2:
        common = get_default_dtype()
    weak = category(common) >= 2 and common.kind != "V" and any(is_array(v) and v.dtype == common for v in operands)
    return common, weak


def half_beside_number(given: list[Any], met: list[Any]) -> np.dtype | None:
    """The half type of operands of which one is a number, or a 0-d array of another dtype; None where there is no such pair.

    torch computes with these in float32, where 65536.0 is no inf, and rounds the result to the half type.

    Args:
        given: the operands as they were; met: in the dtype in which they meet.
    """
    for value in met:
        if isinstance(value, np.generic) or getattr(value, "ndim", None) is None:
            continue
        half = value.dtype
        if half.itemsize == 2 and half.kind in _HALF_KINDS:
            for x in given:
                if x is None or isinstance(x, NUMBERS) or not (x.ndim or x.dtype == half):
                    return half
            return None
    return None


_HALF_KINDS = ("f", "V")


def in_single(given: list[Any], met: list[Any]) -> list[Any]:
    """Operands as `half_beside_number` takes them in float32: numbers, and arrays of no dimensions, as they were, others as they meet."""
    made: list[Any] = []
    single: Any = np.float32
    for value, meeting in zip(given, met, strict=True):
        if isinstance(value, NUMBERS) or value is None:
            made.append(single(value))
        else:
            made.append(converted(meeting if value.ndim else value, float32))
    return made


def can_cast(source: Any, target: Any) -> bool:
    """Whether a result of dtype source may be written into target: not from a higher category down.

    Args:
        source, target: dtypes.
    Raises: TypeError for None in the place of a dtype.
    Source: torch.can_cast.
    Example:
        >>> gradlib.can_cast(gradlib.int64, gradlib.float32)
        True
    """
    first, second = as_dtype(source), as_dtype(target)
    if first is None or second is None:
        raise TypeError("can_cast takes two dtypes, got None")
    return category(first) <= category(second)
