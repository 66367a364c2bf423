"""Views: what a tensor shares its memory with, and the steps by which it was reached."""

from __future__ import annotations

from typing import Any

from gradlib.backend.array import is_view_of
from gradlib.core.modes import global_state, thread_state
from gradlib.core.tensor import Tensor


class View:
    """What a tensor is a view of, and how it was reached: enough to make it again when its base is written in place.

    ``step`` is the operation that made it (with its other arguments, and which of its results), ``parent`` the view it was made from,
    None where that is the base itself. ``duals`` has, for each level of forward mode at which this view was made a dual tensor (or the
    primal of one), its own tangent: there it is a base to its views, and what it is a view of has no part in its tangent.
    """

    __slots__ = ("base", "born", "custom", "duals", "parent", "recorded", "several", "step")

    def __init__(self, base: Tensor, parent: View | None, step: tuple[Any, ...], recorded: bool, several: bool, custom: bool) -> None:
        self.base = base
        self.parent = parent
        self.step = step
        self.recorded = recorded  # made while recording, so writing to it can be recorded too
        self.several = several  # one of several views that one operation returned
        self.custom = custom  # returned by a custom Function, whose backward a write would bypass
        self.duals: dict[Any, Any] | None = None
        self.born = 0  # for what a transform hands to the function it differentiates, which may write it: when that began

    def path(self, start: View | None = None) -> tuple[tuple[Any, ...], ...]:
        """The steps to this view from the base, or from a view that it was made from."""
        steps: list[tuple[Any, ...]] = []
        view: View | None = self
        while view is not start and view is not None:
            steps.append(view.step)
            view = view.parent
        return tuple(reversed(steps))


def replay(path: tuple[tuple[Any, ...], ...], base: Any) -> Any:
    """The view that these steps lead to from another base, a Tensor or a raw array."""
    for op, rest, index in path:
        base = op.call(base, *rest)
        if index is not None:
            base = base[index]
    return base


def mark_view(op: Any, source: Any, result: Tensor, rest: tuple[Any, ...], index: int | None = None) -> None:
    """Let a result that shares its source's memory share its version counter too, and know its base."""
    if not isinstance(source, Tensor) or not is_view_of(result._array, source._array):
        return
    parent = source._meta.view if source._meta is not None else None
    recorded = (thread_state.grad_enabled or not global_state.no_grad) and (parent is None or parent.recorded)
    several = index is not None or (parent is not None and parent.several)
    base, custom = (source, False) if parent is None else (parent.base, parent.custom)
    result.meta.view = View(base, parent, (op, rest, index), recorded, several, custom)
    counter = result._version_slot = source.version
    counter.add_view(result)
