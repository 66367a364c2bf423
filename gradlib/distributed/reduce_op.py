"""The operators by which a collective combines the ranks' tensors, and the dtypes that each takes."""

from __future__ import annotations

from enum import Enum

import numpy as np

from gradlib.backend import dtype as dtypes


class ReduceOp(Enum):
    """The operator that combines the ranks' elements. ``AVG`` is the sum over the number of ranks, and takes floats and complex numbers.

    Source: torch.distributed.ReduceOp.
    Example:
        >>> gradlib.distributed.ReduceOp.SUM.name
        'SUM'
    """

    SUM = 0
    AVG = 1
    PRODUCT = 2
    MIN = 3
    MAX = 4
    BAND = 5
    BOR = 6
    BXOR = 7


def check_op(op: ReduceOp, dtype: np.dtype, called: str) -> None:
    """Refuse anything but an operation that the dtype allows, with torch's types of exception."""
    if not isinstance(op, ReduceOp):
        raise TypeError(f"{called}: op is a gradlib.distributed.ReduceOp, got {type(op).__name__}; write ReduceOp.SUM")
    kind = dtypes.category(dtype)
    if kind == 3 and op not in (ReduceOp.SUM, ReduceOp.AVG):
        raise ValueError(f"{called} does not support {op} on complex tensors")
    if kind == 2 and op in (ReduceOp.BAND, ReduceOp.BOR, ReduceOp.BXOR):
        raise RuntimeError(f"Cannot use {op} with non-integral dtype {dtype}")
    if kind < 2 and op is ReduceOp.AVG:
        raise RuntimeError(f"{called}: {op} of {dtype} is no whole number; convert the tensor to a float first")
