"""Blocks of trajectories that stay in the processor's cache, held flat so that every pass is one long contiguous run.

A block is a flat array seen as (rows, H, m). In *batch order* rows is the number of trajectories and m the joints; in *time order*
rows is 1 and m is trajectories x joints, so one step of all of them is contiguous, which a recurrence needs. A step back in time is
``m`` elements back in both. At step 0 such a shift reaches into the row before: callers overwrite step 0 afterwards, or hold a zero there.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from gradlib.backend.array import Array

_BLOCK = 1 << 18  # elements per array in a block: a handful of such arrays fit the cache, and NumPy's cost per call is spread thin
_STEP = 1 << 11  # elements of one step that a recurrence should have at a time, for the same reason
_LARGEST = 1 << 20


def split(trajectories: int, elements_each: int, block: int = _BLOCK) -> Iterator[tuple[int, int]]:
    """The bounds (low, high) of consecutive blocks of trajectories."""
    size = max(1, block // max(1, elements_each))
    for low in range(0, trajectories, size):
        yield low, min(trajectories, low + size)


def block_of(order: int, horizon: int) -> int:
    """The block for an integration: a recurrence, which takes its steps one by one, wants enough of each."""
    return _BLOCK if order == 0 else min(_LARGEST, max(_BLOCK, _STEP * horizon))


def compute_dtype(dtype: np.dtype) -> np.dtype:
    """The type arithmetic runs in: float64 for itself, float32 for float32 and the 16-bit storage types."""
    return np.dtype(np.float64) if dtype == np.float64 else np.dtype(np.float32)


def apart(shape: tuple[int, ...], dtype: np.dtype) -> tuple[Array, Array, Array, Array]:
    """Four arrays in one piece of memory.

    Freed together they stay with the process; four pieces are handed back to the system one by one, and taken from it again, page by
    page, at the next call, which costs several times what an integration does.
    """
    return tuple(np.empty((4, *shape), dtype))


def _step_records(array: Array) -> Array:
    """A contiguous (n, k, m) array as (n, k) records of m numbers, so that a transposition moves whole records."""
    n, k, m = array.shape
    return array.reshape(n, k * m).view(np.dtype((np.void, m * array.itemsize)))


def to_time_order(array: Array, out: Array) -> None:
    """Copy (b, H, D) into flat ``out`` seen as (H, b, D)."""
    b, h, d = array.shape
    np.copyto(_step_records(out.reshape(h, b, d)), _step_records(array).T)


def from_time_order(flat: Array, out: Array) -> None:
    """Copy flat ``flat`` seen as (H, b, D) into ``out`` (b, H, D)."""
    b, h, d = out.shape
    np.copyto(_step_records(out), _step_records(flat.reshape(h, b, d)).T)


class Steps:
    """Where one block's steps lie, and its step times.

    Args:
        dt: (1 or b, 1 or H) step times in seconds, of this block; step 0 is not used.
        shape: (b, H, D) of the block.
        time_order: whether arrays of the block are in time order.
    """

    def __init__(self, dt: Array, shape: tuple[int, int, int], time_order: bool) -> None:
        b, self.horizon, d = shape
        self.rows, self.m = (1, b * d) if time_order else (b, d)
        self.size = b * self.horizon * d
        self._given = dt, shape, time_order

    @cached_property
    def t(self) -> Array:
        """The seconds of each element's step, or one number when they are the same for all."""
        return self._spread(*self._given)

    @cached_property
    def rate(self) -> Array:
        """One over ``t``."""
        dt, shape, time_order = self._given
        return self._spread(1 / dt, shape, time_order)

    def _spread(self, dt: Array, shape: tuple[int, int, int], time_order: bool) -> Array:
        """dt for each element of the block, or one number when it is the same for all."""
        if dt.size == 1:
            return dt.reshape(())[()]
        b, h, d = shape
        if time_order:
            full = np.empty((h, b, d), dt.dtype)
            full[...] = dt.T[:, :, None]
        else:
            full = np.empty((b, h * d), dt.dtype)
            full[...] = dt if dt.shape[1] == 1 else np.repeat(dt, d, axis=1)
        return full.reshape(-1)

    def first(self, flat: Array) -> Array:
        """Step 0 of a flat array, as a view (rows, m)."""
        return flat.reshape(self.rows, -1)[:, : self.m]

    def last(self, flat: Array) -> Array:
        """Step H-1 of a flat array, as a view (rows, m)."""
        return flat.reshape(self.rows, -1)[:, -self.m :]

    def set_first(self, flat: Array, value: Array | None) -> None:
        """Put a start value (b, D), or zero, into step 0."""
        self.first(flat)[...] = 0 if value is None else value.reshape(self.rows, self.m)

    def delay(self, source: Array, start: Array | None, out: Array) -> None:
        """``out_h = source_{h-1}``, and start at step 0."""
        np.copyto(out[self.m :], source[: -self.m])
        self.set_first(out, start)

    def difference(self, x: Array, source: Array | None, start: Array | None, out: Array) -> None:
        """``out_h = (x_h - x_{h-1} - source_h) / t_h``, and start at step 0."""
        tail = out[self.m :]
        np.subtract(x[self.m :], x[: -self.m], out=tail)
        if source is not None:
            np.subtract(tail, source[self.m :], out=tail)
        np.multiply(out, self.rate, out=out)
        self.set_first(out, start)

    def accumulate(self, increment: Array, start: Array | None, out: Array) -> None:
        """``out_h = out_{h-1} + increment_h`` from start at step 0. Time order only; out may be increment itself."""
        steps, incs = out.reshape(self.horizon, self.m), increment.reshape(self.horizon, self.m)
        self.set_first(out, start)
        for h in range(1, self.horizon):
            np.add(steps[h - 1], incs[h], out=steps[h])

    def accumulate_back(self, x: Array) -> None:
        """``x_h += x_{h+1}`` from the end, in place. Time order only."""
        steps = x.reshape(self.horizon, self.m)
        for h in range(self.horizon - 2, -1, -1):
            np.add(steps[h], steps[h + 1], out=steps[h])

    def take_next(self, x: Array, y: Array) -> None:
        """``x_h -= y_{h+1}`` in place, where step 0 of y is zero."""
        np.subtract(x[: -self.m], y[self.m :], out=x[: -self.m])

    def add_next(self, x: Array, y: Array) -> None:
        """``x_h += y_{h+1}`` in place, where step 0 of y is zero."""
        np.add(x[: -self.m], y[self.m :], out=x[: -self.m])
