"""Views: the base of a tensor, and the operations that lead from the base to it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradlib.backend.array import Array, is_view_of
from gradlib.core.declaration import Op
from gradlib.core.modes import global_state, thread_state
from gradlib.core.node import TensorMeta
from gradlib.core.tensor import InferenceTensor, Tensor, as_array, born, wrap

Step = tuple[Op, tuple[Any, ...], int | None]
"""An operation that made a view, its other arguments, and which of its results it was, where there are several."""


class View:
    """What a tensor is a view of, and how it was reached: enough to make it again when its base is written in place.

    ``step`` is the operation that made it (with its other arguments, and which of its results), ``parent`` the view it was made from,
    None where that is the base itself. ``duals`` has, for each level of forward mode at which this view was made a dual tensor (or the
    primal of one), its own tangent: there it is a base to its views, and what it is a view of has no part in its tangent.
    """

    __slots__ = ("base", "born", "custom", "duals", "parent", "recorded", "several", "step")

    def __init__(self, source: Tensor, step: Step) -> None:
        parent = source._meta.view if source._meta is not None else None
        self.base: Tensor = source if parent is None else parent.base
        self.parent: View | None = parent
        self.step: tuple[Any, ...] = step
        # made while recording, so writing to it can be recorded too
        self.recorded: bool = (thread_state.grad_enabled or not global_state.no_grad) and (parent is None or parent.recorded)
        self.several: bool = step[2] is not None or (parent is not None and parent.several)  # one of several that one operation gave
        self.custom: bool = parent is not None and parent.custom  # returned by a custom Function, whose backward a write would bypass
        self.duals: dict[Any, Any] | None = None
        # of an argument that a transform passes to its function, which may write it: the sequence number at which the transform began
        self.born: int = 0

    def path(self, start: View | None = None) -> tuple[Step, ...]:
        """The steps to this view from the base, or from a view that it was made from."""
        steps: list[Step] = []
        view: View | None = self
        while view is not start and view is not None:
            steps.append(view.step)
            view = view.parent
        return tuple(reversed(steps))


def replay(path: tuple[Step, ...], base: Any) -> Any:
    """Apply the steps of a view to another base, a Tensor or a raw array."""
    for op, rest, index in path:
        base = op.call(base, *rest)
        if index is not None:
            base = base[index]
    return base


def mark_view(op: Op, source: Any, result: Tensor, rest: tuple[Any, ...]) -> None:
    """Let a result that shares its source's memory share its version counter too, and know its base."""
    if isinstance(source, Tensor) and is_view_of(result._array, source._array):
        result.meta.view = View(source, (op, rest, None))
        counter = result._version_slot = source.version
        counter.add_views(result)


def views_of(op: Op, source: Tensor, arrays: Sequence[Array], rest: tuple[Any, ...]) -> list[Tensor]:
    """Tensors around several results that may share their source's memory, outside any graph; each that does is known as a view of it."""
    array, counter = source._array, source.version
    owner = getattr(array, "base", None)
    since = born(source) if global_state.born is not None else 0
    cls = InferenceTensor if isinstance(source, InferenceTensor) else Tensor
    results = []
    for index, each in enumerate(arrays):
        if type(each) is not np.ndarray or (each.base is not array and (owner is None or each.base is not owner)):
            each = as_array(each)
            if not is_view_of(each, array):
                results.append(wrap(each))
                continue
        result = object.__new__(cls)
        result._array = each
        result._node = None
        result._meta = meta = TensorMeta()
        meta.view = View(source, (op, rest, index))
        if since:
            meta.born = since
        result._version_slot = counter
        results.append(result)
    counter.add_views(*results)
    return results
