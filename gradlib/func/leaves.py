"""The inputs of a transform such as ``grad``: each gets a node of its own, at which the transform takes its gradient.

There is one graph for all transforms, nested or not. An input that already has a history keeps it below that node; any other becomes a
leaf, which is deactivated when the transform ends. So ``grad`` of ``grad`` needs no levels: a gradient is captured at the node of the very
input that it is asked for.
"""

from __future__ import annotations

from typing import Any

from gradlib.core.batched import Batched, VmapLevel, is_batched_at
from gradlib.core.modes import next_seq, recording, thread_state, transforming
from gradlib.core.node import Born, Node
from gradlib.core.tensor import AccumulateGrad, Tensor


class TransformLeaf(AccumulateGrad):
    """A leaf made by a transform, active until that ends."""

    __slots__ = ("active",)

    active: bool

    def run(self, g: Any) -> tuple[Any, ...]:
        """Called by a backward after the transform has ended: no gradient is kept."""
        return ()

    run_recorded = run


class differentiating(transforming):
    """Entered while a transform runs the function that it differentiates: tensors made meanwhile are the function's, others captured.

    Attributes:
        since: the sequence number at which it began.
    """

    since: int

    def __init__(self) -> None:
        since = next_seq()
        super().__init__(since, Born(since))


def mark_writable(value: Tensor) -> Tensor:
    """The same view, marked as one that the function being differentiated may write."""
    physical = value
    while type(physical) is Batched:
        physical = physical.value
    if physical._meta is not None and physical._meta.view is not None:
        physical._meta.view.since = thread_state.since or 0
    return value


def writable_alias(value: Any) -> Any:
    """An argument that is not differentiated by: an alias, so that the function may write it and the caller's tensor gets no history."""
    if type(value) is not Tensor or value.requires_grad:
        return value
    meta = value._meta
    if meta is not None and (meta.tangents or (meta.view is not None and meta.view.base.requires_grad)):
        return value
    own = value.detach()
    own._meta = Born(thread_state.since or 0)
    return own


def differentiable_input(value: Tensor) -> Tensor:
    """The input that the function gets for an argument: the same values, tangents and history, with a node of its own."""
    for level in thread_state.interpreters:
        if isinstance(level, VmapLevel) and level.spreads and not is_batched_at(level, value):
            value = level.logical(level.broadcast(value))
    if value.requires_grad:
        with recording(True):
            return mark_writable(value.view_as(value))
    with recording(False):
        own = mark_writable(value.view_as(value))
    physical = own
    while type(physical) is Batched:
        physical = physical.value
    if physical._array.dtype.kind not in "fc" and physical._array.dtype.kind != "V":
        physical.want_grad()  # raises
    leaf = TransformLeaf(physical)
    leaf.active = True
    physical._node = leaf
    return own


def deactivate(inputs: list[Tensor]) -> None:
    """Mark the leaves of a transform that has ended."""
    for each in inputs:
        if isinstance(each._node, TransformLeaf):
            each._node.active = False


def requires_outer_grad(*values: Any, since: int) -> bool:
    """Whether the graph of these results reaches a leaf outside the transform, or one of an enclosing transform that still runs.

    Args:
        values: the results of a transform.
        since: the sequence number at which it began; leaves made later belong to its function.
    """
    stack: list[Node] = [v._node for v in values if isinstance(v, Tensor) and v._node is not None]
    seen = set(stack)
    while stack:
        node = stack.pop()
        if isinstance(node, AccumulateGrad):
            if node.active if isinstance(node, TransformLeaf) else node.seq < since:
                return True
            continue
        for edge in node.edges:
            if edge is not None and edge not in seen:
                seen.add(edge)
                stack.append(edge)
    return False


def unwrap(value: Any, since: int, recorded: bool = True) -> Any:
    """A result for the caller: detached, unless the caller is recording (``recorded``) and ``requires_outer_grad`` holds."""
    if isinstance(value, Tensor) and value.requires_grad and not (recorded and requires_outer_grad(value, since=since)):
        with recording(False):
            return value.view_as(value)
    return value
