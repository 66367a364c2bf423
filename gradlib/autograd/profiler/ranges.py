"""The labels of ranges, and the observer that opens a range around every operation: shared by ``emit_nvtx`` and ``emit_itt``.

Forward: ``mul, seq = 12``, and ``mul, seq = 12, sizes = [[3], []]`` with shapes; where nothing is recorded, ``mul`` alone.
Backward: ``MulBackward0, stashed seq = 12, seq = 40``: the node that the operation numbered 12 made, run when the counter stood at 40, so
that what is recorded inside it (with ``create_graph=True``) has numbers above 40.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradlib.core.inplace import CopySlices
from gradlib.core.modes import global_state, next_seq, observer, thread_state
from gradlib.core.node import Node
from gradlib.core.tensor import AccumulateGrad, Tensor


def is_recording() -> bool:
    """Whether an operation of this thread whose inputs want a gradient would make a node."""
    return (not global_state.no_grad or thread_state.grad_enabled) and not thread_state.inference


def sizes(args: Any) -> list[Any]:
    """The shape of each argument, [] for one that is no tensor; a list of them for a list of tensors."""
    return [_size(value) for value in args]


def _size(value: Any) -> list[Any]:
    if isinstance(value, Tensor):
        return list(value._array.shape)
    if isinstance(value, (list, tuple)) and any(isinstance(x, Tensor) for x in value):
        return [_size(x) for x in value]
    return list(value.shape) if hasattr(value, "shape") else []


def gradient_sizes(g: Any) -> list[Any]:
    """The shapes of the gradients with which a node runs."""
    return [_size(x) for x in (g if isinstance(g, list) else [g])]


def stashed_seq(node: Node) -> int | None:
    """The number of the operation that made a node; None where none did: at a leaf."""
    if isinstance(node, AccumulateGrad):
        return None
    return node.written_by if isinstance(node, CopySlices) else node.seq


class Ranges(observer):
    """Puts a range around every operation and every node that backward runs; a subclass says how a range is opened and closed."""

    record_shapes = False

    def push(self, label: str) -> None:
        """Open a range."""
        raise NotImplementedError

    def pop(self) -> None:
        """Close the range that was opened last."""
        raise NotImplementedError

    def begin(self, name: str, seq: int | None, args: tuple[Any, ...]) -> None:
        if seq is not None and is_recording():
            name = f"{name}, seq = {seq}"
        self.push(f"{name}, sizes = {sizes(args)}" if self.record_shapes and args else name)

    def end(self, mark: Any, made: Any = None) -> None:
        self.pop()

    def operation(self, op: Any, args: tuple[Any, ...]) -> Any:
        seq, run = next_seq(), op.observed
        label = f"{op.label}, seq = {seq}" if is_recording() else op.label
        self.push(f"{label}, sizes = {sizes(args)}" if self.record_shapes else label)
        try:
            return run(seq, *args)
        finally:
            self.pop()

    def node(self, node: Node, g: Any, run: Callable[[Any], Any]) -> Any:
        seq = stashed_seq(node)
        label = f"{node.name()}, seq = {next_seq()}" if seq is None else f"{node.name()}, stashed seq = {seq}, seq = {next_seq()}"
        self.push(f"{label}, sizes = {gradient_sizes(g)}" if self.record_shapes else label)
        try:
            return run(g)
        finally:
            self.pop()


class Emit(Ranges):
    """The context manager: what torch's ``emit_nvtx`` and ``emit_itt`` have in common."""

    interface = ""

    def __init__(self, enabled: bool = True, record_shapes: bool = False) -> None:
        self.enabled = enabled
        self.record_shapes = record_shapes
        self.entered = False

    def start(self) -> None:
        """Prepare for push and pop; called on entering."""

    def __enter__(self) -> Any:
        if not self.enabled:
            return None
        if self.entered:
            raise RuntimeError(f"{self.interface} annotation context manager is not reentrant")
        self.start()
        super().__enter__()
        self.entered = True
        return self

    def __exit__(self, *exc: object) -> None:
        if self.enabled:
            self.entered = False
            super().__exit__(*exc)
