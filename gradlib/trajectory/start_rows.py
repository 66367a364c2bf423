"""Start rows chosen by index, and the transpose: a scatter-add summed in a fixed order, so that results repeat bit for bit.

CUDA form: `start_rows_device` and kernels/rows.cu.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradlib.core.op import op
from gradlib.trajectory import start_rows_device as device


@op(
    "linear",
    name="trajectory_rows",
    also=("index",),
    method=False,
    complex="none",
    input=lambda g, index, input_shape: rows_adjoint(g, index, input_shape[0]),
)
def rows(xp: Any, input: Any, index: Any) -> Any:
    """Row ``index[b]`` of input (S, D) for each b: (B, D)."""
    if xp is np:
        return input[index]
    return device.gather(xp, input, index)


@op("linear", name="trajectory_rows_adjoint", also=("index",), method=False, complex="none", input=lambda g, index: rows(g, index))
def rows_adjoint(xp: Any, input: Any, index: Any, number: int) -> Any:
    """The sum of the rows of input (B, D) that have each index: (number, D)."""
    order = xp.argsort(index, kind="stable")
    if xp is not np:
        return device.scatter(xp, input, order, xp.searchsorted(index[order], xp.arange(number + 1)), number)
    present, first = np.unique(index[order], return_index=True)
    total = np.zeros((number, input.shape[1]), input.dtype)
    if len(present):
        wide = np.float32 if input.dtype.itemsize == 2 else input.dtype
        total[present] = np.add.reduceat(input[order].astype(wide, copy=False), first, axis=0)
    return total
