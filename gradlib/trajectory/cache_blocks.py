"""Blocks of trajectories that stay in the processor's cache, held flat so that every pass is one long contiguous run.

A block is a flat array seen as (rows, H, m): trajectories, steps, joints. A step back in time is ``m`` elements back. At step 0 such a
shift reaches into the row before: callers overwrite step 0 afterwards, or hold a zero there.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import cached_property, lru_cache, partial
from itertools import pairwise
from typing import Any

import numpy as np

from gradlib.backend.array import Array
from gradlib.trajectory import skewed_table

_BLOCK = 1 << 18  # elements per array in a block: a handful of such arrays fit the cache, and NumPy's cost per call is spread thin
_STEP = 1 << 12  # elements of one step that a recurrence should have, for the same reason
_LARGEST = 1 << 20
_FEW = 6000  # elements of a block up to which a running sum in one call is the quickest
_LONG = 48  # bytes of a record from which a single sum is worth moving all of them to time order
_RECORD = 48  # numbers at most that are moved as one: with few, the cost of a move outweighs that of the copying
_LINE = 64  # bytes of a line of the cache
_SETS = 1 << 11  # bytes of which steps should not lie a multiple apart
_SHORTEST = 1e-9  # seconds whose third power, and one over it, are far from the ends of float32
_SUMMED = 128  # numbers that running sums take at a step, from which an addition of NumPy for that step is quicker than they
_SETUP = 8  # steps whose calls cost as much as filling and emptying a table
_WIDE = 300  # elements of one step of all rows from which a call of NumPy for each step may pay


@lru_cache(maxsize=256)
def split(trajectories: int, elements_each: int, block: int = _BLOCK) -> tuple[tuple[int, int], ...]:
    """The bounds (low, high) of consecutive blocks of trajectories, of one size but for the last: a few left over cost as many calls."""
    size = max(1, -(-trajectories // max(1, round(trajectories * elements_each / block))))
    return tuple([(low, min(trajectories, low + size)) for low in range(0, trajectories, size)])


def block_of(order: int, horizon: int) -> int:
    """The block for an integration: a recurrence, which takes its steps a few at a time, wants enough of each."""
    return _BLOCK if order == 0 else min(_LARGEST, max(_BLOCK, _STEP * horizon))


def compute_dtype(dtype: np.dtype) -> np.dtype:
    """The type arithmetic runs in: float64 for itself, float32 for float32 and the 16-bit storage types."""
    return np.dtype(np.float64) if dtype == np.float64 else np.dtype(np.float32)


def time_table(steps: int, width: int, dtype: np.dtype) -> Array:
    """An array (steps, width) to be filled, for values in time order: a step is one contiguous run. Its base is contiguous.

    Steps that lie a multiple of a large power of two apart, as a batch of 1024 has it, compete for a few sets of the cache, and a move
    back takes a third longer: there they lie one line of the cache further apart, with zeros between them.
    """
    apart = _LINE // dtype.itemsize if width * dtype.itemsize % _SETS == 0 else 0
    whole = np.empty((steps, width + apart), dtype)
    whole[:, width:] = 0
    return whole[:, :width]


def to_time_order(array: Array, table: Array) -> None:
    """Copy (b, H, D), contiguous along each b, into a `time_table` (H, b D): as records of D numbers, which move whole."""
    b, h, d = array.shape
    record = f"V{d * array.itemsize}"
    np.copyto(table.view(record), array.reshape(b, h * d).view(record).T)


def from_time_order(table: Array, out: Array) -> None:
    """Copy a `time_table` (H, b D) into ``out`` (b, H, D)."""
    b, h, d = out.shape
    record = f"V{d * out.itemsize}"
    np.copyto(out.reshape(b, h * d).view(record), table.view(record).T)


def move(source: Array, out: Array) -> None:
    """Copy, as a product by one: memcpy takes up to ten times as long where out lies a few bytes behind source, counted within a page."""
    np.multiply(source, 1, out=out)


class Steps:
    """The steps of one block, and its step times.

    Args:
        dt: (1 or b, 1 or H) step times in seconds, of this block; step 0 is not used.
        shape: (b, H, D) of the block.
    Attributes:
        t: the seconds of each element's step, or one number when they are the same for all. rate: one over t.
    """

    def __init__(self, dt: Array, shape: tuple[int, int, int]) -> None:
        self.dt = dt
        self.rows, self.horizon, self.m = shape
        self.size = self.rows * self.horizon * self.m
        if dt.size == 1:
            self.t = dt[0, 0]
            self.rate = 1 / self.t

    @cached_property
    def t(self) -> Array:
        return self._per_element(self.dt)

    @cached_property
    def rate(self) -> Array:
        return self._per_element(1 / self.dt)

    @cached_property
    def _scratch(self) -> Array:
        """Scratch memory of the size of a flat array."""
        return np.empty(self.size, self.dt.dtype)

    def _per_element(self, dt: Array) -> Array:
        """The step time of each element of the block."""
        full = np.empty((self.rows, self.horizon * self.m), dt.dtype)
        full[...] = dt if dt.shape[1] == 1 else np.repeat(dt, self.m, axis=1)
        return full.reshape(-1)

    def first(self, flat: Array) -> Array:
        """Step 0 of a flat array, as a view (rows, m)."""
        return flat.reshape(self.rows, -1)[:, : self.m]

    def difference(self, x: Array, source: Array | None, out: Array) -> None:
        """``out_h = (x_h - x_{h-1} - source_h) / t_h`` for h >= 1. Step 0 is left undefined: the caller writes it."""
        tail = out[self.m :]
        np.subtract(x[self.m :], x[: -self.m], out=tail)
        if source is not None:
            np.subtract(tail, source[self.m :], out=tail)
        np.multiply(out, self.rate, out=out)

    def integrate(self, top: Array, starts: Sequence[Array | None], states: Sequence[Array]) -> None:
        """The states below ``top``, from the highest down: ``x_h = x_{h-1} + t_h y_h`` from step 1 on, where y is the state above x.

        In time order, where one step of all rows is one contiguous run, all of it is sums of such runs. Moving there and back costs as
        much as two or three passes, and it is done once for all of them.

        Args:
            top: (rows, H, m), contiguous. starts: (rows, m) or None for zero, for each of states. states: each as top, to be filled.
        """
        table, records, steps = self._ordered
        np.copyto(records, top.reshape(self.rows, -1).view(records.dtype).T)
        whole, t, first, add = table.base, self._ordered_t, table[0].reshape(self.rows, -1), np.add
        for start, state in zip(starts, states, strict=True):
            np.multiply(whole, t, whole)
            first[...] = 0 if start is None else start
            for before, now in steps:
                add(now, before, now)
            np.copyto(state.reshape(self.rows, -1).view(records.dtype), records.T)

    def integrate_back(self, grads: Sequence[Array | None], by_starts: Sequence[Array]) -> Array:
        """The transpose of `integrate`: the gradient by ``top``, flat, zero at step 0.

        Args:
            grads: by the states, the lowest first; flat, or one number repeated, or None for zero. by_starts: (rows, m), to be filled.
        """
        table, _, steps = self._ordered
        whole, t, shape = table.base, self._ordered_t, (self.rows, self.horizon, self.m)
        whole[...] = 0
        for i, (grad, by_start) in enumerate(zip(grads, by_starts, strict=True)):
            if grad is not None and any(grad.strides):
                moved = time_table(self.horizon, self.rows * self.m, table.dtype) if i else table
                to_time_order(grad.reshape(shape), moved)
                if i:
                    np.add(whole, moved.base, whole)
            elif grad is not None:
                np.add(whole, grad[0], whole)
            for before, now in reversed(steps):
                np.add(before, now, before)
            by_start[...] = table[0].reshape(by_start.shape)
            table[0] = 0
            np.multiply(whole, t, whole)
        by_top = np.empty(shape, table.dtype)
        from_time_order(table, by_top)
        return by_top.reshape(-1)

    @property
    def _ordered_t(self) -> Any:
        """The step times for the base of a table in time order."""
        if len(self.dt) == 1:
            return self.t if self.dt.size == 1 else self.dt.T
        times = time_table(self.dt.shape[1], self.rows * self.m, self.dt.dtype)
        times[...] = np.repeat(self.dt.T, self.m, axis=1)
        return times.base

    @property
    def suits_time_order(self) -> bool:
        """Whether, beyond a `SkewedTable`, `integrate` is quickest: a step outweighs its call, and records are not short and far apart."""
        near = self.horizon <= 64 or self.m * self.dt.itemsize > 32
        return near and self.size > _FEW and self.rows * self.m >= max(_WIDE, 12 * self.horizon)

    def integrator(self, sums: int) -> Callable[[Array, Sequence[Array | None], Sequence[Array]], None] | None:
        """What fills so many states below one as `integrate` does: a `SkewedTable` or that; None where `accumulate` is quicker."""
        if sums == 1 and self.m * self.dt.itemsize < _LONG:
            return None
        if self._suits_skewed_table(sums):
            return partial(skewed_table.integrate, self.t if self.dt.size == 1 else self.dt)
        return self.integrate if self.suits_time_order else None

    def _suits_skewed_table(self, sums: int) -> bool:
        """Whether a `SkewedTable` is quickest: few elements but not the fewest, and a step time for all steps, of usual size."""
        if self.dt.shape[1] > 1 or 2 * self.rows * self.m < self.horizon:
            return False
        if self.size <= _FEW and sums * self.size < _SUMMED * (self.horizon + _SETUP):  # all of a sum in one call is quicker
            return False
        if (self.horizon + sums) * (sums + 1) * self.rows * self.m * self.dt.itemsize > skewed_table.LARGEST:
            return False
        shortest, longest = (self.t, self.t) if self.dt.size == 1 else (self.dt.min(), self.dt.max())
        return bool(shortest > _SHORTEST and longest < 1 / _SHORTEST)

    @cached_property
    def _ordered(self) -> tuple[Array, Array, list[tuple[Array, Array]]]:
        """A table in time order, (H, rows m); as records of m numbers, (H, rows); and each of its steps after the one before."""
        table = time_table(self.horizon, self.rows * self.m, self.dt.dtype)
        return table, table.view(np.dtype((np.void, self.m * table.itemsize))), list(pairwise(table))

    def take_next(self, x: Array, y: Array) -> None:
        """``x_h -= y_{h+1}`` in place, where step 0 of y is zero."""
        np.subtract(x[: -self.m], y[self.m :], out=x[: -self.m])

    def add_next(self, x: Array, y: Array) -> None:
        """``x_h += y_{h+1}`` in place, where step 0 of y is zero."""
        np.add(x[: -self.m], y[self.m :], out=x[: -self.m])

    def accumulate(self, x: Array, backward: bool = False) -> None:
        """``x_h += x_{h-1}`` from step 1 on, or by ``backward`` ``x_h += x_{h+1}`` from the end on, in place.

        With z the delay by a step, 1 / (1 - z) = (1 + z) (1 + z^2) (1 + z^4) .. / (1 - z^k): sums of neighbours, of whole arrays, then a
        recurrence over k steps. A recurrence over one step would move every step of every trajectory to its place in time order, and back;
        in a small block that matters less than the number of calls.
        """
        if self.size <= _FEW:
            table = x.reshape(self.rows, self.horizon, self.m)
            table = table[:, ::-1] if backward else table
            np.add.accumulate(table, axis=1, out=table)
            return
        k = 1
        while 4 * k <= min(self.horizon, _RECORD // self.m):
            self._add_neighbours(x, self._scratch, k * self.m, backward)
            self._add_neighbours(self._scratch, x, 2 * k * self.m, backward)
            k *= 4
        self._recur(x.reshape(self.rows, -1), k * self.m, backward)

    def _add_neighbours(self, x: Array, out: Array, shift: int, backward: bool) -> None:
        """``out = x + x moved by shift`` to later steps, or by ``backward`` to earlier ones; x where nothing is moved to."""
        moved, edge = (slice(-shift), slice(-shift, None)) if backward else (slice(shift, None), slice(shift))
        np.add(x[shift:], x[:-shift], out=out[moved])
        out.reshape(self.rows, -1)[:, edge] = x.reshape(self.rows, -1)[:, edge]

    def _recur(self, x: Array, n: int, backward: bool) -> None:
        """``x_i += x_{i-n}``, or by ``backward`` ``x_i += x_{i+n}``, along each row of (rows, H m): in time order, n numbers at a time."""
        width = x.shape[1]
        left = width % n  # numbers of a row that fill no record: its last ones, or by backward its first
        whole, rest, known = slice(width - left), slice(width - left, width), slice(width - left - n, width - n)
        if backward:
            whole, rest, known = slice(left, width), slice(left), slice(n, n + left)
        records = x[:, whole].reshape(self.rows, -1, n)
        ordered = time_table(records.shape[1], self.rows * n, x.dtype)
        to_time_order(records, ordered)
        for before, now in pairwise(ordered[:: -1 if backward else 1]):
            now += before
        from_time_order(ordered, records)
        if left:
            x[:, rest] += x[:, known]


class BlockSteps:
    """The `Steps` of each block; those of blocks of one size are shared when dt is the same for all trajectories.

    Args:
        dt: (1 or B, 1 or H) seconds, or a number; step 0 is not used.
        dtype: in which all is computed.
    """

    def __init__(self, dt: Any, dtype: np.dtype) -> None:
        self.dt = np.array(dt, dtype=dtype, ndmin=2)
        if self.dt.shape[1] > 1:
            self.dt[:, 0] = 1  # not used: any positive number avoids warnings of the division
        self.shared: dict[tuple[int, int, int], Steps] = {}

    def of(self, low: int, shape: tuple[int, int, int]) -> Steps:
        if len(self.dt) > 1:
            return Steps(self.dt[low : low + shape[0]], shape)
        if shape not in self.shared:
            self.shared[shape] = Steps(self.dt, shape)
        return self.shared[shape]
