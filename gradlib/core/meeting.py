"""How the operands of an operation meet in one dtype on a device: what the declared rule makes of dtypes is kept, and not asked again."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

from gradlib.backend import dtype as dtypes
from gradlib.backend.copying import cast, converted
from gradlib.core.declaration import Op

_SINGLE: Any = np.float32
_WHOLE = (dtypes.int32, dtypes.int64)
_HELD = 1 << 31
"""Python's integers of a smaller size are elements of both."""
_HELD_BY_HALF = 1 << 15
"""Numbers of up to this size are held by float16."""


def meet_on_device(op: Op, values: list[Any]) -> list[Any] | None:
    """CuPy arrays and numbers in the dtypes in which an operation runs, for its fast path.

    Returns: None where the slow path has more to do: for complex operands of an operation without a complex derivative, for a half
        type beside an array of no dimensions of another dtype, and for operands that do not meet.
    """
    met: list[Any]
    kinds: tuple[Any, ...] = ()
    common: Any = False
    if op.meets_by_dtype:
        kinds = (dtypes.default.dtype,)
        for value in values:
            dtype = getattr(value, "dtype", None)
            kinds += (type(value) if dtype is None else dtype if value.ndim else dtype.char,)
        common = op.meetings.get(kinds)
        if common is True:
            return values
        if common is not None and common is not False:
            met = []
            for value in values:
                kind = type(value)
                if kind is not float and kind is not int and kind is not complex:
                    if value.dtype is not common:
                        made = cast(value, common)
                        value = converted(value, common) if made is None else made
                    met.append(value)
                elif common.kind in "fc":
                    if op.meeting_sees_numbers and common.itemsize == 2 and not -_HELD_BY_HALF <= value <= _HELD_BY_HALF:
                        break
                    met.append(value)
                elif -_HELD < value < _HELD:
                    met.append(common.type(value))
                else:
                    break
            else:
                return met
    half = dtypes.half_beside_number(values, values) if op.numbers_in_single else None
    try:
        met = values if half is not None else op.meet(values)  # type: ignore[misc]
    except Exception:  # which the slow path raises again, and names the argument that is wrong
        return None
    if half is None and op.numbers_in_single and dtypes.default.dtype.itemsize == 2:
        half = dtypes.half_beside_number(values, met)  # of integers
    if half is not None:
        if op.direct is None and not op.on_kernel:
            return None
        single = []
        for value, meeting in zip(values, met, strict=True):  # of a number of type float32 the kernel computes in it
            if type(value) is float or type(value) is int:
                single.append(_SINGLE(value))
            elif getattr(value, "dtype", None) is half or (getattr(value, "ndim", 0) > 0 and getattr(meeting, "dtype", None) is half):
                single.append(meeting)
            else:
                return None
        return single
    if op.complex == "none" and op.rules and any(isinstance(v, complex) or getattr(v, "dtype", dtypes.bool_).kind == "c" for v in met):
        return None
    if common is None:
        op.meetings[kinds] = _found(op, values, met)
    return met


def _found(op: Op, values: list[Any], met: list[Any]) -> Any:
    """What is kept of a meeting: True where all stay as they are, the dtype in which they meet if `meet_on_device` does that; or False.

    Of half types beside numbers of which the operation asks whether they fit it is the dtype.
    """
    numbers = [type(value) in (float, int, complex) for value in values]
    found = {getattr(value, "dtype", None) for value in met if not isinstance(value, (float, int, complex))}
    common = found.pop() if len(found) == 1 else None
    seen = any(numbers) and op.meeting_sees_numbers
    half = common is not None and dtypes.is_half(common)
    if seen and not half and (common is None or common.kind not in "fc"):
        return False
    if not (seen and half) and all(map(operator.is_, values, met)):
        return True
    if common is None or not all(number or hasattr(value, "dtype") for number, value in zip(numbers, values, strict=True)):
        return False
    return common if not any(numbers) or common.kind in "fc" or common in _WHOLE or dtypes.is_bfloat16(common) else False
