"""Start rows chosen by index, and the transpose: a scatter-add summed in a fixed order, so that results repeat bit for bit.

The maps take rows and index as they are and their kernels gather; what else wants the rows of each trajectory uses `rows`.
CUDA form: `start_rows_device` and kernels/rows.cu.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from gradlib.backend.array import Array
from gradlib.core.op import op
from gradlib.trajectory import start_rows_device as device


@dataclass(frozen=True, eq=False)
class StartRows:
    """The row of the start parts that each trajectory has.

    Attributes:
        index: int64 (B,), where the parts are. number: rows that a part has.
    """

    index: Any
    number: int

    def gathered(self, parts: Sequence[Any]) -> list[Any]:
        """The parts of a map with a row for each trajectory; start parts stand behind the control."""
        return [rows(x, self.index) if 1 <= i <= 3 and x is not None else x for i, x in enumerate(parts)]

    def scattered(self, by_parts: Sequence[Any]) -> list[Any]:
        """The gradients by the parts of a map from those by what `gathered` gives."""
        return [rows_adjoint(x, self.index, self.number) if 1 <= i <= 3 and x is not None else x for i, x in enumerate(by_parts)]


def host_rows(chosen: StartRows | None, parts: Sequence[Array | None]) -> list[Array | None]:
    """Start parts with a row for each trajectory, on the host."""
    return list(parts) if chosen is None else [None if x is None else x[chosen.index] for x in parts]


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
    return sum_of_rows(xp, input[None], index, number)[0]


def sum_of_rows(xp: Any, stacked: Array, index: Array, number: int) -> Array:
    """The sum of the rows that have each index, for each of several arrays: (arrays, B, D) gives (arrays, number, D)."""
    order = xp.argsort(index, kind="stable")
    if xp is not np:
        return device.scatter(xp, stacked, order, xp.searchsorted(index[order], xp.arange(number + 1)), number)
    present, first = np.unique(index[order], return_index=True)
    total = np.zeros((len(stacked), number, stacked.shape[2]), stacked.dtype)
    if len(present):
        wide = np.float32 if stacked.dtype.itemsize == 2 else stacked.dtype
        total[:, present] = np.add.reduceat(stacked[:, order].astype(wide, copy=False), first, axis=1)
    return total
