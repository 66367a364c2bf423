"""The inputs of a transform: leaves of a graph of their own, which ends when the transform has done its work.

All graphs are one: an input that already has a history keeps it, under a node of its own at which this transform's gradient is taken. So
``grad`` of ``grad`` needs no levels, and nothing can be confused: a gradient is captured at the node of the input it is asked for.
"""

from __future__ import annotations

from typing import Any

from gradlib.core.batched import Batched, VmapLevel, is_batched_at
from gradlib.core.modes import enable_grad, next_seq, no_grad, thread_state, transforming
from gradlib.core.node import Born, Node
from gradlib.core.tensor import AccumulateGrad, Tensor


class Passing(AccumulateGrad):
    """A leaf that counts only while its transform runs."""

    __slots__ = ("alive",)

    alive: bool

    def run(self, g: Any) -> tuple[Any, ...]:
        """Reached by a later walk: nothing is kept."""
        return ()

    run_recorded = run


class differentiating(transforming):
    """While entered, a function that is being differentiated runs: what is made meanwhile is its own, anything else it captured.

    Attributes:
        since: the sequence number at which it began.
    """

    since: int

    def __init__(self) -> None:
        since = next_seq()
        super().__init__(since, Born(since))


def handed(value: Tensor) -> Tensor:
    """A view that is made to be given to the function that is being differentiated: it may write it."""
    physical = value
    while type(physical) is Batched:
        physical = physical.value
    if physical._meta is not None and physical._meta.view is not None:
        physical._meta.view.born = thread_state.since or 0
    return value


def lent(value: Any) -> Any:
    """Another argument of that function: the same memory, which it may write, while the caller's tensor stays outside its graph."""
    if type(value) is not Tensor or value.requires_grad:
        return value
    meta = value._meta
    if meta is not None and (meta.tangents or (meta.view is not None and meta.view.base.requires_grad)):
        return value
    own = value.detach()
    own._meta = Born(thread_state.since or 0)
    return own


def fresh(value: Tensor) -> Tensor:
    """An input as the function sees it: of the same values, tangents and history, with a place of its own in the graph."""
    for level in thread_state.interpreters:
        if isinstance(level, VmapLevel) and level.spreads and not is_batched_at(level, value):
            value = level.logical(level.broadcast(value))
    if value.requires_grad:
        with enable_grad():
            return handed(value.view_as(value))
    with no_grad():
        own = handed(value.view_as(value))
    physical = own
    while type(physical) is Batched:
        physical = physical.value
    if physical._array.dtype.kind not in "fc" and physical._array.dtype.kind != "V":
        physical.want_grad()  # raises
    leaf = Passing(physical)
    leaf.alive = True
    physical._node = leaf
    return own


def finish(inputs: list[Tensor]) -> None:
    """The transform has done its work: its leaves no longer count."""
    for each in inputs:
        if isinstance(each._node, Passing):
            each._node.alive = False


def is_live(*values: Any, since: int) -> bool:
    """Whether a gradient with respect to something outside the transforms that are done can still be asked of these.

    Args:
        values: what a transform gives.
        since: the sequence number at which it began; leaves made later are its function's own.
    """
    stack: list[Node] = [v._node for v in values if isinstance(v, Tensor) and v._node is not None]
    seen = set(stack)
    while stack:
        node = stack.pop()
        if isinstance(node, AccumulateGrad):
            if node.alive if isinstance(node, Passing) else node.seq < since:
                return True
            continue
        for edge in node.edges:
            if edge is not None and edge not in seen:
                seen.add(edge)
                stack.append(edge)
    return False


def settled(value: Any, since: int, recorded: bool = True) -> Any:
    """A result as the caller sees it: outside the graph, unless it is ``recorded`` there and something that still counts leads to it."""
    if isinstance(value, Tensor) and value.requires_grad and not (recorded and is_live(value, since=since)):
        with no_grad():
            return value.view_as(value)
    return value
