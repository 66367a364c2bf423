"""Views: the base of a tensor, and the operations that lead from the base to it."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any
from weakref import ref

from numpy import ndarray

from gradlib.backend.array import Array, is_view_of
from gradlib.core.declaration import Op
from gradlib.core.modes import global_state, next_seq, thread_state
from gradlib.core.node import PLAIN_OUTPUT, Node, Output, TensorMeta, Version
from gradlib.core.tensor import InferenceTensor, Tensor, born, mark_alias

Step = tuple[Op, tuple[Any, ...], int | None]
"""An operation that made a view, its other arguments, and which of its results it was, where there are several."""


class View(TensorMeta):
    """The metadata of a view: its base and how the view was made from it, enough to make it again when the base is written in place.

    ``op`` is the operation that made it, ``rest`` its other arguments, ``index`` which of its results it was, where there are several;
    ``parent`` is the view it was made from, None where that is the base itself. ``duals`` has, for each level of forward mode at which this
    view was made a dual tensor (or the primal of one), its own tangent: there it is a base to its views, and what it is a view of has no
    part in its tangent. ``became`` is what the tensor is a view of since ``squeeze_`` or alike gave it another shape; views that it had
    before follow this one.
    """

    base: Tensor
    op: Op
    rest: tuple[Any, ...]
    index: int | None = None
    recorded = True  # made while recording, so writing to it can be recorded too
    parent: View | None = None
    several = False  # one of several that one operation gave
    custom = False  # returned by a custom Function, whose backward a write would bypass
    duals: dict[Any, Any] | None = None
    became: View | None = None
    # of an argument that a transform passes to its function, which may write it: the sequence number at which the transform began
    since = 0

    @property
    def view(self) -> View:
        return self.became or self

    @view.setter
    def view(self, value: View) -> None:
        self.became = value

    def follow(self, parent: View) -> None:
        """Make it a view of a view. What stays as the class has it costs no assignment."""
        if parent.became is not None:
            parent = parent.became
        self.base = parent.base
        self.parent = parent
        if not parent.recorded:
            self.recorded = False
        if parent.several:
            self.several = True
        if parent.custom:
            self.custom = True

    def path(self, start: View | None = None) -> tuple[Step, ...]:
        """The steps to this view from the base, or from a view that it was made from."""
        steps: list[Step] = []
        view: View | None = self
        while view is not start and view is not None:
            steps.append((view.op, view.rest, view.index))
            view = view.parent
        return tuple(reversed(steps))

    def again(self) -> Any:
        """The view, made anew from its base as that is now."""
        if self.parent is not None:
            return replay(self.path(), self.base)
        made = self.op.call(self.base, *self.rest)
        return made if self.index is None else made[self.index]


class Part(View):
    """The metadata of one of several views that one operation gave."""

    several = True


_new_tensor, _new_inference_tensor = partial(object.__new__, Tensor), partial(object.__new__, InferenceTensor)
_new_output = partial(object.__new__, Output)


def replay(path: tuple[Step, ...], base: Any) -> Any:
    """Apply the steps of a view to another base, a Tensor or a raw array."""
    for op, rest, index in path:
        base = op.call(base, *rest)
        if index is not None:
            base = base[index]
    return base


def mark_view(op: Op, source: Any, result: Tensor, rest: tuple[Any, ...]) -> None:
    """Let a result that shares its source's memory share its version counter too, and know its base.

    That of an operation without a derivative is no view but an alias, as ``detach`` makes one: what is written to it is not recorded.
    """
    if type(source) is not Tensor and not isinstance(source, Tensor):
        return
    array, made, meta = source._array, result._array, source._meta
    if type(made) is ndarray and made is not array:  # as `is_view_of` has it, without a call
        owner = made.base
        if owner is None or (owner is not array and owner is not array.base):
            return
    elif made is not array and (made.data.mem is not array.data.mem if type(made) is type(array) else not is_view_of(made, array)):
        return
    if not op.rules:
        result._version_slot = source.version
        mark_alias(source, result)
        return
    view = View()
    view.op, view.rest = op, rest
    if global_state.no_grad and not thread_state.grad_enabled:
        view.recorded = False
    if meta is None or meta.view is None:
        view.base = source
    else:
        view.follow(meta.view)
    if result._meta is not None:
        view.born = result._meta.born
    result._meta = view  # nobody else has seen the result yet, so there is nothing to lock
    counter = result._version_slot = source._version_slot or source.version
    if type(counter) is Version and len(counter.views) < counter.limit:  # as `add_view` has it, without a call
        counter.views.append(ref(result))
    else:
        counter.add_view(result)


def views_of(op: Op, source: Tensor, arrays: Sequence[Array], rest: tuple[Any, ...], node: Node | None) -> tuple[Tensor, ...]:
    """Tensors around several views of a source that one operation gave.

    Args:
        op, rest: the operation, and its other arguments.
        node: gets them as its outputs, each of which is written out here: calls would take a tenth of the whole. None outside any graph.
    """
    counter, dtype, edges = source._version_slot or source.version, None if node is None else source._array.dtype, (node,)
    blank = _new_inference_tensor if isinstance(source, InferenceTensor) else _new_tensor
    since = born(source) if global_state.born is not None else 0
    parent = None if source._meta is None else source._meta.view
    base = source if parent is None else parent.base
    unrecorded = (global_state.no_grad and not thread_state.grad_enabled) or (parent is not None and not parent.recorded)
    custom = parent is not None and parent.custom
    results, shapes = [], []
    for index, each in enumerate(arrays):
        result = blank()
        result._array = each
        result._float = result._node = None
        result._meta = view = Part()
        view.op = op
        view.rest = rest
        view.index = index
        view.base = base
        if parent is not None:
            view.parent = parent
        if unrecorded:
            view.recorded = False
        if custom:
            view.custom = True
        if since:
            view.born = since
        result._version_slot = counter
        if node is not None:
            shapes.append(shape := each.shape)
            result._node = output = _new_output()
            output.edges = edges
            output.index = index
            output.seq = next_seq()
            output.saved = None
            output.shape = shape
            output.dtype = dtype
            output._meta = PLAIN_OUTPUT
        results.append(result)
    if node is not None:
        node.shape, node.dtype = tuple(shapes), (dtype,) * len(shapes)
    storage = counter if type(counter) is Version else counter.storage
    if len(storage.views) >= storage.limit:  # as `add_view` has it, once for all
        storage.forget()
    storage.views += map(ref, results)
    return tuple(results)
