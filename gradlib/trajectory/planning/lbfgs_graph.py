"""The search of lbfgs.py on a GPU as one CUDA graph: some evaluations, their gradients and steps, with no Python between the kernels.

The graph holds the evaluations after which it is seen which problems have stopped, and is replayed until all have. All problems stay in
it, so that shapes do not change; one that has stopped keeps its result. The graph serves every batch of the same shape: what differs
between batches is copied to where the graph reads it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from gradlib.backend.array import Array, on_device_of
from gradlib.cuda.graphs import CUDAGraph, graph
from gradlib.trajectory.planning.lbfgs import LOOK, Search, on_host
from gradlib.trajectory.planning.lbfgs_device import HISTORY


class Objective(Protocol):
    """The function to minimise: an `Evaluate` whose constants can be replaced in place by those of another of its shape."""

    def __call__(self, x: Array, rows: np.ndarray) -> tuple[Array, Array]: ...

    def adopt(self, other: Any) -> None: ...


class GraphedSearch:
    """A search that is captured at its first batch.

    Args:
        objective: of that batch; x: (B, n) where it begins; tolerance: as for `lbfgs.minimise`.
        kept: further arrays that the objective reads, which are to live as long as the graph.
    Raises: RuntimeError for an objective that cannot be captured.
    """

    def __init__(self, objective: Objective, x: Array, tolerance: float, kept: Any = None) -> None:
        self.objective, self.tolerance, self.kept = objective, tolerance, kept
        self.rows = np.arange(len(x))
        with on_device_of(x):
            self.search = Search(objective, x.copy())
            self.search.advance(objective, self.rows)  # which compiles the kernels, and is forgotten
            xp = self.search.xp
            empty = (xp.zeros_like(x), xp.zeros_like(x), xp.zeros(len(x), x.dtype))
            self.search.memory.pairs = [tuple(part.copy() for part in empty) for _ in range(HISTORY)]
            self.result, self.going, self.before = x.copy(), xp.ones(len(x), bool), self.search.loss.copy()
            self.state = _arrays(self.search)
            self.graph = CUDAGraph()
            with graph(self.graph):
                for _ in range(LOOK):
                    self.search.advance(objective, self.rows)
                self._settle()
                self._write_back()
        _put(self.search, self.state)

    def _settle(self) -> None:
        """Store the best points of the problems that still run, and find out which of them go on."""
        xp, now = self.search.xp, self.search
        self.result[...] = xp.where(self.going[:, None], now.x, self.result)
        self.going &= self.before - now.loss > self.tolerance
        self.before[...] = now.loss

    def _write_back(self) -> None:
        """Copy the new state to where the next replay reads it: the older pairs first, each before its place is overwritten."""
        for place, made in zip(self.state, _arrays(self.search), strict=True):
            place[...] = made

    def minimise(self, objective: Objective, x: Array, most: int, progress: Callable[[float], None]) -> Array:
        """As `lbfgs.minimise`, for an objective and points of the shapes of the first ones."""
        with on_device_of(x):
            if objective is not self.objective:
                self.objective.adopt(objective)
            begun = Search(self.objective, x)
            for place in self.state:
                place.fill(0)
            for name in _FIELDS:
                getattr(self.search, name)[...] = getattr(begun, name)
            self.search.memory.scale.fill(1)
            self.going.fill(True)
            self.before[...] = begun.loss
            for count in range(LOOK, most, LOOK):
                self.graph.replay()
                progress(count / most)
                if not on_host(self.going).any():
                    return self.result.copy()
            for _ in range((most - 1) % LOOK):
                self.search.advance(self.objective, self.rows)
            found: Array = self.search.xp.where(self.going[:, None], self.search.x, self.result)
            _put(self.search, self.state)
            return found


_FIELDS = ("x", "loss", "gradient", "direction", "length")


def _arrays(search: Search) -> list[Array]:
    """All arrays of a search."""
    pairs = [part for pair in search.memory.pairs for part in pair]
    return [*(getattr(search, name) for name in _FIELDS), search.memory.scale, *pairs]


def _put(search: Search, arrays: list[Array]) -> None:
    """Make these arrays those of a search."""
    for name, array in zip(_FIELDS, arrays, strict=False):
        setattr(search, name, array)
    rest = arrays[len(_FIELDS) + 1 :]
    search.memory.scale = arrays[len(_FIELDS)]
    search.memory.pairs = [(rest[i], rest[i + 1], rest[i + 2]) for i in range(0, len(rest), 3)]
