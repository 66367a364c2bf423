"""Blocks of trajectories that stay in the processor's cache, held flat so that every pass is one long contiguous run.

A block is a flat array seen as (rows, H, m): trajectories, steps, joints. A step back in time is ``m`` elements back. At step 0 such a
shift reaches into the row before: callers overwrite step 0 afterwards, or hold a zero there.
"""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property
from itertools import pairwise

import numpy as np

from gradlib.backend.array import Array

_BLOCK = 1 << 18  # elements per array in a block: a handful of such arrays fit the cache, and NumPy's cost per call is spread thin
_STEP = 1 << 12  # elements of one step that a recurrence should have, for the same reason
_LARGEST = 1 << 20
_RECORD = 48  # numbers at most that are moved as one: with few, the cost of a move outweighs that of the copying


def split(trajectories: int, elements_each: int, block: int = _BLOCK) -> Iterator[tuple[int, int]]:
    """The bounds (low, high) of consecutive blocks of trajectories."""
    size = max(1, block // max(1, elements_each))
    for low in range(0, trajectories, size):
        yield low, min(trajectories, low + size)


def block_of(order: int, horizon: int) -> int:
    """The block for an integration: a recurrence, which takes its steps a few at a time, wants enough of each."""
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


def _records(array: Array) -> Array:
    """A (n, k, m) array, contiguous along each n, as (n, k) records of m numbers, so that a transposition moves whole records."""
    n, k, m = array.shape
    return array.reshape(n, k * m).view(f"V{m * array.itemsize}")


def to_time_order(array: Array, out: Array) -> None:
    """Copy (b, H, D) into flat ``out`` seen as (H, b, D)."""
    b, h, d = array.shape
    np.copyto(_records(out.reshape(h, b, d)), _records(array).T)


def from_time_order(flat: Array, out: Array) -> None:
    """Copy flat ``flat`` seen as (H, b, D) into ``out`` (b, H, D)."""
    b, h, d = out.shape
    np.copyto(_records(out), _records(flat.reshape(h, b, d)).T)


def _move(source: Array, out: Array) -> None:
    """Copy, as a product by one: memcpy takes up to ten times as long where out lies a few bytes behind source, counted within a page."""
    np.multiply(source, 1, out=out)


class Steps:
    """Where one block's steps lie, and its step times.

    Args:
        dt: (1 or b, 1 or H) step times in seconds, of this block; step 0 is not used.
        shape: (b, H, D) of the block.
    """

    def __init__(self, dt: Array, shape: tuple[int, int, int]) -> None:
        self.dt = dt
        self.rows, self.horizon, self.m = shape
        self.size = self.rows * self.horizon * self.m

    @cached_property
    def t(self) -> Array:
        """The seconds of each element's step, or one number when they are the same for all."""
        return self._spread(self.dt)

    @cached_property
    def rate(self) -> Array:
        """One over ``t``."""
        return self._spread(1 / self.dt)

    def _spread(self, dt: Array) -> Array:
        """dt for each element of the block, or one number when it is the same for all."""
        if dt.size == 1:
            return dt.reshape(())[()]
        full = np.empty((self.rows, self.horizon * self.m), dt.dtype)
        full[...] = dt if dt.shape[1] == 1 else np.repeat(dt, self.m, axis=1)
        return full.reshape(-1)

    def table(self, flat: Array) -> Array:
        """A flat array as (rows, H m)."""
        return flat.reshape(self.rows, -1)

    def first(self, flat: Array) -> Array:
        """Step 0 of a flat array, as a view (rows, m)."""
        return self.table(flat)[:, : self.m]

    def set_first(self, flat: Array, value: Array | None) -> None:
        """Put a start value (b, D), or zero, into step 0."""
        self.first(flat)[...] = 0 if value is None else value

    def delay(self, source: Array, start: Array | None, out: Array) -> None:
        """``out_h = source_{h-1}``, and start at step 0."""
        _move(source[: -self.m], out[self.m :])
        self.set_first(out, start)

    def advance(self, source: Array, out: Array) -> None:
        """``out_h = source_{h+1}``, and zero at step H-1."""
        _move(source[self.m :], out[: -self.m])
        self.table(out)[:, -self.m :] = 0

    def difference(self, x: Array, source: Array | None, start: Array | None, out: Array) -> None:
        """``out_h = (x_h - x_{h-1} - source_h) / t_h``, and start at step 0."""
        tail = out[self.m :]
        np.subtract(x[self.m :], x[: -self.m], out=tail)
        if source is not None:
            np.subtract(tail, source[self.m :], out=tail)
        np.multiply(out, self.rate, out=out)
        self.set_first(out, start)

    def take_next(self, x: Array, y: Array) -> None:
        """``x_h -= y_{h+1}`` in place, where step 0 of y is zero."""
        np.subtract(x[: -self.m], y[self.m :], out=x[: -self.m])

    def add_next(self, x: Array, y: Array) -> None:
        """``x_h += y_{h+1}`` in place, where step 0 of y is zero."""
        np.add(x[: -self.m], y[self.m :], out=x[: -self.m])

    def accumulate(self, x: Array, room: Array, backward: bool = False) -> None:
        """``x_h += x_{h-1}`` from step 1 on, or by ``backward`` ``x_h += x_{h+1}`` from the end on, in place; room is another such array.

        With z the delay by a step, 1 / (1 - z) = (1 + z) (1 + z^2) (1 + z^4) .. / (1 - z^k): sums of neighbours, of whole arrays, then a
        recurrence over k steps. A recurrence over one step would move every step of every trajectory to its place in time order, and back.
        """
        k = 1
        while 4 * k <= min(self.horizon, _RECORD // self.m):
            self._add_neighbours(x, room, k * self.m, backward)
            self._add_neighbours(room, x, 2 * k * self.m, backward)
            k *= 4
        self._recur(self.table(x), room, k * self.m, backward)

    def _add_neighbours(self, x: Array, out: Array, shift: int, backward: bool) -> None:
        """``out = x + x moved by shift`` to later steps, or by ``backward`` to earlier ones; x where nothing is moved to."""
        moved, edge = (slice(-shift), slice(-shift, None)) if backward else (slice(shift, None), slice(shift))
        np.add(x[shift:], x[:-shift], out=out[moved])
        self.table(out)[:, edge] = self.table(x)[:, edge]

    def _recur(self, x: Array, room: Array, n: int, backward: bool) -> None:
        """``x_i += x_{i-n}``, or by ``backward`` ``x_i += x_{i+n}``, along each row of (rows, H m): in time order, n numbers at a time."""
        width = x.shape[1]
        left = width % n  # numbers of a row that fill no record: its last ones, or by backward its first
        whole, rest, known = slice(width - left), slice(width - left, width), slice(width - left - n, width - n)
        if backward:
            whole, rest, known = slice(left, width), slice(left), slice(n, n + left)
        records = x[:, whole].reshape(self.rows, -1, n)
        ordered = room[: records.size]
        to_time_order(records, ordered)
        for before, now in pairwise(ordered.reshape(-1, self.rows * n)[:: -1 if backward else 1]):
            now += before
        from_time_order(ordered, records)
        x[:, rest] += x[:, known]
