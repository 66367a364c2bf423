"""Nodes of the recorded graph, and the version counter that storage shares.

A node is one run of one operation. Its ``edges`` point to the nodes that made its inputs (None where no gradient is wanted), so the
graph is held from the outputs down and vanishes with them. A tensor's ``_node`` slot says everything about its place in the graph:
None (no gradient), an ``AccumulateGrad`` (a leaf), an ``Output`` (one of several results of a node) or the node itself.
"""

from __future__ import annotations

import threading
import weakref
from collections.abc import Callable, Sequence
from typing import Any

from gradlib.backend.thread import kept_at_fork
from gradlib.core.modes import next_seq

making: Any = kept_at_fork(threading.RLock())
"""Held while the metadata of a node or tensor, or a version counter, is allocated: two threads that need it at once must get the same."""


class RemovableHandle:
    """A handle to a registered hook; ``remove()`` takes the hook away. Source: torch.utils.hooks.RemovableHandle."""

    _ids = iter(range(1 << 62))

    def __init__(self, hooks: dict[int, Callable[..., Any]]) -> None:
        self.id: int = next(self._ids)
        self._hooks = hooks

    def remove(self) -> None:
        self._hooks.pop(self.id, None)

    def __enter__(self) -> RemovableHandle:
        return self

    def __exit__(self, *exc: object) -> None:
        self.remove()


def add_hook(hooks: dict[int, Callable[..., Any]], hook: Callable[..., Any]) -> RemovableHandle:
    """Register a hook to run after those already registered."""
    if not callable(hook):
        raise TypeError(f"a hook is a function, got {type(hook).__name__}")
    handle = RemovableHandle(hooks)
    hooks[handle.id] = hook
    return handle


class Version:
    """The history of one storage, shared by a base, its views and its detached aliases. It is made when one of them first needs it.

    ``count`` is what ``tensor._version`` shows; ``changed`` is the sequence number of the last write, so a saved tensor is stale when
    its storage changed after its node was made: no version has to be recorded at saving. ``views`` lists the live views (weakly),
    whose place in the graph moves when the storage is written.
    """

    __slots__ = ("changed", "count", "limit", "views")

    def __init__(self) -> None:
        self.count: int = 0
        self.changed: int = -1
        self.views: list[weakref.ref[Any]] = []
        self.limit: int = 16

    def bump(self, seq: int | None = None) -> None:
        self.count += 1
        self.changed = next_seq() if seq is None else seq

    def add_view(self, view: Any) -> None:
        if len(self.views) >= self.limit:
            self.forget()
        self.views.append(weakref.ref(view))

    def forget(self) -> None:
        """Drop the views that are gone."""
        self.views = [ref for ref in self.views if ref() is not None]
        self.limit = 16 + 2 * len(self.views)

    @property
    def storage(self) -> Version:
        """The counter of the storage itself."""
        return self


class Detached(Version):
    """The counter of a tensor that was detached in place: that of its storage, but nodes that saved the tensor before find it stale.

    The tensor has lost its node, which second derivatives through those nodes would need. Saved aliases and views keep theirs.
    """

    __slots__ = ("_storage", "since")

    def __init__(self, version: Version) -> None:
        self._storage = version.storage
        self.since: int = next_seq()

    @property
    def storage(self) -> Version:
        return self._storage

    @property
    def count(self) -> int:  # type: ignore[override]
        return self._storage.count

    @property
    def views(self) -> list[weakref.ref[Any]]:  # type: ignore[override]
        return self._storage.views

    @property
    def changed(self) -> int:
        return max(self.since, self._storage.changed)

    @changed.setter
    def changed(self, seq: int) -> None:
        self._storage.changed = seq

    def bump(self, seq: int | None = None) -> None:
        self._storage.bump(seq)
        for ref in self.views:  # those of before have the values of a tensor without history now
            view = ref()
            if view is not None and not view.is_leaf and view._base.version is self:
                view._node = None

    def add_view(self, view: Any) -> None:
        self._storage.add_view(view)


class NodeMeta:
    """Metadata that few nodes need, allocated at first use: hooks, the user's notes, a stream, versions of outputs written or viewed."""

    __slots__ = (
        "gradient_hooks", "metadata", "output_hooks", "output_tangents", "output_versions", "post_hooks", "pre_hooks", "retain", "stream",
    )  # fmt: skip

    def __init__(self) -> None:
        self.gradient_hooks: dict[int, Callable[..., Any]] = {}
        self.pre_hooks: dict[int, Callable[..., Any]] = {}
        self.post_hooks: dict[int, Callable[..., Any]] = {}
        self.retain: TensorMeta | None = None
        self.output_hooks: dict[int, dict[int, Callable[..., Any]]] = {}  # those of its ``Output`` nodes, for one without a gradient
        self.output_versions: dict[int, Version] = {}
        self.output_tangents: dict[int, dict[Any, Any]] = {}
        self.metadata: dict[Any, Any] = {}
        self.stream: Any = None  # the CUDA stream of the forward, where it was not the default one


PLAIN_OUTPUT = NodeMeta()
"""The metadata of every ``Output`` that has none of its own."""


class TensorMeta:
    """Autograd metadata of a tensor, allocated at first use: its gradient, the tensor of which it is a view, hooks, tangents.

    The defaults are class attributes, so that making one costs no assignment.
    """

    grad: Any = None
    view: Any = None
    storage: Any = None  # of what was detached from a view: the array of that view's storage
    retains_grad = False
    tangents: dict[Any, Any] | None = None  # by level of forward mode; a Tensor, or a bare array outside any graph
    accumulated_hooks: dict[int, Callable[..., Any]] | None = None
    born = 0  # the sequence number at which a transform began during which the tensor was made


class Born(TensorMeta):
    """Metadata shared by all tensors that are made while a transform differentiates a function, until one needs its own.

    By it the function's own tensors, which it may write, are distinguished from captured ones.
    """

    def __init__(self, number: int) -> None:
        self.born = number


class Dual(TensorMeta):
    """Metadata of a tensor from forward mode's fast path: one tangent, a raw array; the dictionary is made when it is asked for."""

    __slots__ = ("held", "level", "tangent")

    level: Any  # None once the tangents are in a dictionary
    tangent: Any
    held: dict[Any, Any] | None

    @property
    def tangents(self) -> dict[Any, Any] | None:
        if self.level is not None:
            self.tangents = {self.level: self.tangent}
        return self.held

    @tangents.setter
    def tangents(self, value: dict[Any, Any] | None) -> None:
        self.level = self.tangent = None
        self.held = value


class Node:
    """One run of a differentiable operation, seen by users as ``tensor.grad_fn``. Source: torch.autograd.graph.Node.

    Subclasses (one per operation) give ``run(g)``, the derivative on raw arrays, and ``run_recorded(g)``, the same rules on Tensors.
    Both return one gradient per edge, or the gradient itself when ``single``.
    """

    __slots__ = ("__weakref__", "_meta", "dtype", "edges", "saved", "seq", "shape")

    single = False
    frees = True
    """Whether backward frees the node's saved values. A node that saved no tensor keeps its numbers and shapes, and can run again."""
    takes_none = False
    """Whether the node wants to run also when the gradients of all its outputs are None (custom Functions do)."""
    saved_names: tuple[str, ...] = ()
    output_names: tuple[str, ...] = ()
    hidden_names: tuple[str, ...] = ()
    keeps_outputs = False
    """Whether what the node saves holds some of its own outputs, whose versions and tangents backward then needs."""
    unused: NodeMeta | None = None
    """What ``_meta`` is until something needs metadata."""

    seq: int
    edges: tuple[Node | None, ...]
    saved: Any
    shape: Any  # of the output; a tuple of shapes when there are several
    dtype: Any
    _meta: NodeMeta | None
    run: Callable[[Any], Any]
    run_recorded: Callable[[Any], Any]

    def run_and_free(self, g: Any) -> Any:
        """``run``, after which the node frees its saved values. Of operations both are one generated function, called for every node.

        One that has two edges, of which one is None, may return the other's gradient alone.
        """
        grads = self.run(g)
        if self.frees:
            self.saved = None
        return grads

    def run_on_device(self, g: Any) -> Any:
        """``run`` on CuPy arrays of the current device."""
        return self.run(g)

    def name(self) -> str:
        """The node's name as it stands in labels and errors, such as "MulBackward0"."""
        return type(self).__name__

    @property
    def meta(self) -> NodeMeta:
        if self._meta is self.unused:
            with making:
                if self._meta is self.unused:
                    self._meta = NodeMeta()
        return self._meta  # type: ignore[return-value]

    @property
    def public(self) -> Any:
        """This node as users see it in ``grad_fn``: itself, or the ctx of a custom Function."""
        return self

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dictionary for the user's own notes on this node."""
        return self.meta.metadata

    @property
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """The nodes that made the inputs that have a derivative, each with the number of its output that was used."""
        used = [self.edges[place] for place in self.differentiable_inputs()]
        edges = ((edge.parent, edge.index) if isinstance(edge, Output) else (edge, 0) for edge in used)
        return tuple((edge and edge.public, index) for edge, index in edges)

    def differentiable_inputs(self) -> Sequence[int]:
        """The positions among ``edges`` of the inputs that users see: no masks and no indices."""
        return range(len(self.edges))

    def tensor_hooks(self) -> dict[int, Callable[..., Any]]:
        """The registry of the hooks of the tensor that this node made."""
        return self.meta.gradient_hooks

    def register_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(grad_inputs, grad_outputs)`` after this node has run; a returned tuple replaces grad_inputs."""
        return add_hook(self.meta.post_hooks, hook)

    def register_prehook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(grad_outputs)`` before this node runs; a returned tuple replaces grad_outputs."""
        return add_hook(self.meta.pre_hooks, hook)

    def _sequence_nr(self) -> int:
        return self.seq

    def __call__(self, *grads: Any) -> Any:
        """Run this node alone: no hook is called and nothing is freed; its computation is recorded as any operation is.

        Args:
            grads: a gradient, or None, for each differentiable output.
        Returns: the gradient for each input as the rules give it, broadcasting not undone; None where none is wanted.
        Raises: TypeError for another number of arguments, or one that is no Tensor; RuntimeError when its saved values were freed.
        """
        places = self.differentiable_outputs()
        if len(grads) != len(places):
            raise TypeError(f"expected {len(places)} arguments, got {len(grads)} instead")
        for number, g in enumerate(grads):
            if g is not None and not hasattr(g, "_array"):
                raise TypeError(f"argument {number} is not a Variable, got {type(g).__name__}")
        wanted = self.differentiable_inputs()
        if all(g is None for g in grads):
            return None if len(wanted) == 1 else (None,) * len(wanted)
        given: Any = grads[0]
        if isinstance(self.dtype, tuple):
            given = [None] * len(self.dtype)
            for place, g in zip(places, grads, strict=True):
                given[place] = g
        made = self.run_recorded(given)
        if self.single or len(wanted) == len(self.edges):
            return made
        return made[wanted[0]] if len(wanted) == 1 else tuple(made[place] for place in wanted)

    def differentiable_outputs(self) -> Sequence[int]:
        """The positions of the outputs that carry gradients, the only ones that users see."""
        if not isinstance(self.dtype, tuple):
            return (0,)
        op = getattr(self, "op", None)
        return op.differentiable if op is not None and len(op.outputs) == len(self.dtype) else range(len(self.dtype))

    def __repr__(self) -> str:
        return f"<{self.name()} object at {hex(id(self))}>"


class RefusingNode(Node):
    """A node through which backward is an error.

    Args:
        message: what the error says.
        like: the array, or the node of it, of which the gradient would be.
    """

    __slots__ = ("message",)
    single = False

    def __init__(self, message: str, edges: tuple[Node | None, ...], like: Any) -> None:
        self.message = message
        self.seq = next_seq()
        self.edges = edges
        self.saved = None
        self.shape, self.dtype = like.shape, like.dtype
        self._meta = None

    def run(self, g: Any) -> Any:
        raise RuntimeError(self.message)

    run_recorded = run


class Output(Node):
    """Output ``index`` of a node that has several: passes its gradient on to its parent, which takes one for each output."""

    __slots__ = ("index",)

    unused = PLAIN_OUTPUT  # not None: the walk then takes the branch that handles outputs

    def __init__(self, parent: Node, index: int, shape: tuple[int, ...], dtype: Any) -> None:
        self.edges = (parent,)
        self.index: int = index
        self.seq = next_seq()
        self.saved = None
        self.shape = shape
        self.dtype = dtype
        self._meta = PLAIN_OUTPUT

    @property
    def parent(self) -> Node:
        return self.edges[0]  # type: ignore[return-value]

    def tensor_hooks(self) -> dict[int, Callable[..., Any]]:
        """As of any node; the parent, which runs when another output has a gradient, is to know of them."""
        return self.parent.meta.output_hooks.setdefault(self.index, self.meta.gradient_hooks)


def freed(node: Node) -> RuntimeError:
    return RuntimeError(
        f"Trying to backward through the graph a second time: the saved values of {node.name()} (seq {node.seq}) were freed by the first "
        "backward. Specify retain_graph=True in the first call if you need to backward through the graph again or to access saved "
        "tensors after it."
    )


def stale(node: Node, shape: tuple[int, ...], version: Version) -> RuntimeError:
    if version.storage.changed < node.seq:
        return RuntimeError(
            f"Trying to use a saved tensor that has been detached in-place, i.e. with .detach_(): one of shape {list(shape)} saved by "
            f"{node.name()} (seq {node.seq}). This is not supported, please use out-of-place `.detach()` instead."
        )
    return RuntimeError(
        "one of the variables needed for gradient computation has been modified by an inplace operation: a tensor of shape "
        f"{list(shape)} saved by {node.name()} (seq {node.seq}) is at version {version.count}, written after it was saved. "
        "Write to a clone() of it, or use the out-of-place form."
    )


def check_outputs(node: Node) -> None:
    """Refuse a saved output that was written in place after this node made it."""
    if node._meta is None:
        return
    for index, version in node._meta.output_versions.items():
        name = node.output_names[index]
        if version.changed > node.seq and name in node.saved_names:
            place = node.saved_names.index(name)
            if type(node.saved) is not tuple and node.saved.is_packed(place):
                continue  # a pack hook replaced it, and answers for later writes
            if node.saved[place] is None:
                continue  # nothing that was kept
            shape = node.shape if len(node.output_names) == 1 else node.shape[index]
            raise stale(node, shape, version)
