"""Repeated running sums of a small block, all of them in one addition for each step.

In a small block the calls of NumPy cost more than the numbers. So the sums advance together, as a wavefront does (loop skewing): each is
one step behind what it sums, and then no sum waits for another one's result of the same step.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import pairwise
from typing import Any

import numpy as np

from gradlib.backend.array import Array

LARGEST = 1 << 19  # bytes of a table: more leave the cache
_KEPT = 8  # tables at most that are kept for later calls

_kept: dict[tuple[tuple[int, int, int], int, np.dtype], SkewedTable] = {}


class SkewedTable:
    """A table for blocks of one shape, with every view that its use takes: making those costs as much as the additions.

    Row r holds, side by side, step r + 1 of what is summed, step r of its sum, step r - 1 of the sum of that, and so on: the next row
    is this one plus this one moved by one place to the right. Places of steps that there are not hold zeros, or numbers that nothing uses.

    Args:
        shape: (rows, H, m) of a block. sums: how many there are. dtype: float32 or float64.
    """

    def __init__(self, shape: tuple[int, int, int], sums: int, dtype: np.dtype) -> None:
        rows, horizon, m = shape
        width = rows * m
        table = np.zeros((horizon - 1 + sums, (sums + 1) * width), dtype)
        self.record = np.dtype(f"V{m * dtype.itemsize}")  # the m numbers of a step of one row, which move whole
        records, totals = table.view(self.record), table[:, width:]
        self.summed = records[: horizon - 1, :rows].T
        self.sums = [records[i : i + horizon, (i + 1) * rows : (i + 2) * rows].T for i in range(sums)]
        self.firsts = [totals[i, i * width : (i + 1) * width].reshape(rows, m) for i in range(sums)]
        self.steps = [(now, left, after) for left, (now, after) in zip(table[:-1, :-width], pairwise(totals), strict=True)]

    def integrate(self, t: Any, top: Array, starts: Sequence[Array | None], states: Sequence[Array]) -> None:
        """`Steps.integrate` with one step time for all steps of a row: sums of plain numbers, which are scaled at the end.

        Args:
            t: a number, or (rows, 1). The others as there.
        """
        rows, record, add = len(top), self.record, np.add
        np.copyto(self.summed, top.reshape(rows, -1).view(record)[:, 1:])
        units = [t]
        while len(units) < len(states):
            units.append(units[-1] * t)
        for i, (start, first) in enumerate(zip(starts, self.firsts, strict=True)):
            if i:
                add(*self.steps[i - 1])
            np.divide(0 if start is None else start, units[i], first)
        for now, left, after in self.steps[len(states) - 1 :]:
            add(now, left, after)
        for found, unit, start, state in zip(self.sums, units, starts, states, strict=True):
            flat = state.reshape(rows, -1)
            np.copyto(flat.view(record), found)
            np.multiply(flat, unit, flat)
            state[:, 0] = 0 if start is None else start


def integrate(t: Any, top: Array, starts: Sequence[Array | None], states: Sequence[Array]) -> None:
    """`SkewedTable.integrate` in a table of an earlier call where there is one. A thread takes it out while it is in use."""
    key = (top.shape, len(states), top.dtype)
    table = _kept.pop(key, None) or SkewedTable(*key)
    table.integrate(t, top, starts, states)
    if len(_kept) >= _KEPT:
        _kept.clear()  # those of shapes that are not asked for any more, among others
    _kept[key] = table
