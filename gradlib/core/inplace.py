"""In-place operations: the value is written into the tensor's memory, and the tensor gets the history of the new value.

``x.add_(y)`` is ``add(x, y)`` computed as usual and written into x: x takes over the result's node. When x is a view, the base's history
is rewritten too: its gradient flows through a ``CopySlices`` node, which sends the viewed region to the new values and the rest to what
was there before; every live view of that base is then made again from it.
"""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from gradlib.backend import dtype as dtypes
from gradlib.backend.array import Array, cupy, device_index, namespace, on_current_device, on_device_of
from gradlib.backend.copying import assign, copy, fill, moved, placed, row_major_copy
from gradlib.backend.division import device_function
from gradlib.backend.pointwise import into
from gradlib.backend.pointwise_text import ONE, TWO
from gradlib.backend.vectorised.blocks import LEAST
from gradlib.core.arguments import refuse_wrong
from gradlib.core.batched import Batched, refuse_batched, write_batched
from gradlib.core.compile import named
from gradlib.core.declaration import Op
from gradlib.core.modes import global_state, lower, made_node, next_seq, thread_state, writing
from gradlib.core.node import Node, Output, RefusingNode, Version, freed, stale
from gradlib.core.streams import keep_stream
from gradlib.core.tensor import AccumulateGrad, Tensor, born, wrap
from gradlib.core.views import Step, View, replay
from gradlib.core.writes import counted, has_begun, is_overlapping, refuse_memory, refuse_write


def inplace_form(op: Op, further: Callable[[Tensor], tuple[Any, ...]] | None = None) -> Callable[..., Tensor]:
    """The in-place form ``NAME_`` of an operation. ``further``: gives the last arguments from the tensor, where the caller does not."""
    first = op.tensors[0]
    copies_input = first in op.saved_names
    ufunc: Any = op.ufunc if op.rules else None
    on_host: Any = getattr(np, ufunc) if ufunc is not None else None
    most = math.inf if on_host is op.direct else LEAST  # elements: of more, a form takes less time
    others = -1 if on_host is None else on_host.nin - 1
    quick = on_host.__name__ if on_host is not None and on_host.__name__ in (ONE if not others else TWO) else None

    @functools.cache
    def seen() -> Callable[..., Any]:
        """The operation as observers see it here: by the name of its in-place form."""
        return named(op.call, f"{op.name}_", node=False)

    def call(input: Any, *args: Any, **kwargs: Any) -> Tensor:
        if len(args) == others and not kwargs and _unrecorded(input, args):
            array, values = input._array, [a._array if type(a) is Tensor else a for a in args]
            if type(array) is np.ndarray:
                if array.size < most:
                    try:
                        on_host(array, *values, out=array)
                    except BaseException as error:
                        refuse_memory(array, f"{op.name}_")  # checked only after NumPy refused it
                        if has_begun(error):
                            input.version.bump()
                        raise
                    input.version.bump()
                    return input
            elif quick is not None and on_current_device(array) and into(quick, op.numbers_in_single)(array, *values):
                input.version.bump()
                return input
            elif _fits(array, values):
                with counted(input), on_device_of(array):
                    _write_on_device(ufunc, array, values)
                return input
        if op.device_into is not None and is_written_on_device(op.device_into, input, args, kwargs):
            return input
        compute = seen() if global_state.active and thread_state.observer is not None else op.call
        more = () if further is None else further(input)
        kept = copies_input and may_be_recorded(input, *args, *kwargs.values())
        try:
            return write(input, lambda shadow: compute(shadow, *args, *more, **kwargs), f"{op.name}_", kept, shown=False)
        except Exception:
            refuse_wrong(f"{op.name}_", op.call, input, *args, **kwargs)
            raise

    return described_as_inplace(call, op.name, op.call, op.params[-1:] if further is not None else ())


def described_as_inplace(form: Callable[..., Any], name: str, of: Callable[..., Any], but: tuple[str, ...] = ()) -> Callable[..., Any]:
    """An in-place form with the name, text and signature that ``help`` shows: those of the function that gives a new tensor.

    ``but``: names of parameters that are not the caller's, as ``out`` is not.
    """
    form.__name__ = form.__qualname__ = f"{name}_"
    form.__doc__ = f"``{name}`` written into this tensor; returns it. Refused for a leaf that requires a gradient."
    shown = inspect.signature(of)
    parameters = [each for each in shown.parameters.values() if each.name not in ("out", *but)]
    form.__signature__ = shown.replace(parameters=parameters)  # type: ignore[attr-defined]
    return form


def may_be_recorded(*values: Any) -> bool:
    """Whether an operation of these may keep one: it has a place in the graph, or is no plain number or Tensor, or something is active."""
    for x in values:
        kind = type(x)
        if kind is not float and kind is not int and x is not None and (kind is not Tensor or x._node is not None):
            return True
    return global_state.active != 0


def _unrecorded(target: Any, args: Sequence[Any]) -> bool:
    """Whether nothing is recorded, as in an optimiser's step, and NumPy's ufunc can write in place: floats of one dtype, and numbers.

    Of CuPy arrays the dtypes and shapes are not asked here.
    """
    if type(target) is not Tensor or global_state.born is not None:
        return False
    if global_state.active and (thread_state.inference or thread_state.interpreters or thread_state.before_write or global_state.observed):
        return False
    recording = thread_state.grad_enabled or not global_state.no_grad
    if recording and target._node is not None:
        return False
    array = target._array
    on_host = type(array) is np.ndarray
    if (on_host and array.dtype.kind != "f") or (0 in array.strides and is_overlapping(array)):
        return False
    for arg in args:
        if type(arg) is Tensor:
            other = arg._array
            if (recording and arg._node is not None) or type(other) is not type(array):
                return False
            if on_host and (other.dtype != array.dtype or (other.shape != array.shape and other.shape != ())):
                return False
        elif (type(arg) is not float and type(arg) is not int) or (on_host and array.dtype.itemsize == 2):  # halves: in float32
            return False
    view = target._meta.view if recording and target._meta is not None else None
    return view is None or view.base._node is None


def is_written_on_device(into: Callable[..., bool], target: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> bool:
    """Write a CuPy array of which nothing is recorded by one launch, where ``write`` would compute new values and copy them.

    Args:
        into: as ``Op.device_into``. target, args, kwargs: what the in-place form was called with.
    Returns: whether it was done.
    """
    given = (*args, *kwargs.values())
    if not is_plain_on_device(target, given):
        return False
    array = target._array
    values = [value._array if type(value) is Tensor else value for value in given]
    if not into(array, *values[: len(args)], **dict(zip(kwargs, values[len(args) :], strict=True))):
        return False
    (target._version_slot or target.version).bump()
    return True


def is_plain_on_device(target: Any, given: Iterable[Any]) -> bool:
    """Whether a write to a tensor is none but of its memory: a CuPy array of the current device, and nothing is recorded of it.

    ``given``: what it is written with, of which lists and tuples hold Tensors alone.
    """
    if type(target) is not Tensor or type(target._array) is np.ndarray:
        return False
    operands: list[Any] = []
    for value in given:
        kind = type(value)
        if kind is list or kind is tuple:
            operands += value
        elif kind is not bool and kind is not str and value is not None:
            operands.append(value)
    return _unrecorded(target, operands) and on_current_device(target._array)


def _write_on_device(name: str, array: Array, values: list[Any]) -> None:
    """Apply a function of NumPy's name to a CuPy array and values, and write the result into that array."""
    on_device, is_ufunc = _on_device(name, array.dtype.kind)
    if is_ufunc:
        on_device(array, *values, out=array)
    else:
        assign(array, ..., on_device(array, *values))


@functools.cache
def _on_device(name: str, kind: str) -> tuple[Any, bool]:
    """The function of that name of CuPy arrays of a kind of dtype, and whether it is CuPy's own, which can write into an array."""
    function: Any = device_function(name, kind)
    return function, isinstance(function, cupy().ufunc)


def _fits(array: Array, values: list[Any]) -> bool:
    """Whether CuPy's ufunc can write into an array of floats: beside arrays of its dtype and device and numbers."""
    if array.dtype.kind != "f":
        return False
    for value in values:
        if type(value) is not type(array):
            if array.dtype.itemsize == 2:  # half types meet numbers in float32
                return False
        elif value.dtype != array.dtype or value.shape not in (array.shape, ()) or device_index(value) != device_index(array):
            return False
    return True


def check_inplace(target: Tensor, name: str) -> tuple[bool, View | None]:
    """Check that a tensor may be written in place, as far as that is known before the new values are.

    Returns: whether the write may be recorded, and the view that the tensor is.
    """
    while type(target) is Batched:
        target = target.value
    recording = thread_state.grad_enabled or not global_state.no_grad
    view = target._meta.view if target._meta is not None else None
    if recording and (view is not None or isinstance(target._node, AccumulateGrad)):
        refuse_leaf(target, view, name)
    if global_state.born is not None:
        refuse_captured(target, name)
    if type(target._array) is np.ndarray or 0 in target._array.strides or target._inference:
        refuse_write(target, name)
    return recording, view


def refuse_captured(target: Tensor, name: str) -> None:
    """Refuse to write a captured tensor in a function that is being differentiated: the write would outlive its graph."""
    if thread_state.since is not None and born(target) < thread_state.since:
        raise RuntimeError(
            f"During a grad (vjp, jvp, grad, etc) transform, the function provided attempted to call in-place operation ({name}) that "
            "would mutate a captured Tensor. This is not supported; please rewrite the function being transformed to explicitly accept the "
            "mutated Tensor(s) as inputs."
        )


def write(target: Tensor, compute: Callable[[Tensor], Tensor], name: str, copies_input: bool = True, shown: bool = True) -> Tensor:
    """Replace a tensor's values by ``compute`` of them, in place, and record it.

    Args:
        target: the tensor to write.
        compute: from target, or a stand-in for it with its values and history, to the new values, of a shape that broadcasts to target's.
        name: what the user called, for error texts.
        copies_input: whether compute keeps its argument for backward, so that it must not see the write.
        shown: whether observers are to see it under that name, because they would not see compute as what it is.
    Returns: target.
    Raises: RuntimeError for a leaf that requires a gradient, a view that cannot be written, a shape or dtype that does not fit.
    """
    if not isinstance(target, Tensor):
        raise TypeError(f"{name}: expected a Tensor, got {type(target).__name__}")
    if shown and global_state.active and thread_state.observer is not None:
        return thread_state.observer.composed(name, (target,), lambda: write(target, compute, name, copies_input, False))
    if type(target) is Batched:
        return write_batched(target, compute, write, name, copies_input)
    recording, view = check_inplace(target, name)
    perhaps = recording and view is not None and (view.several or not view.recorded)  # refused if the new values are to be recorded
    if global_state.active:
        writing(target)
    array, node = target._array, target._node
    shadow = target  # but where compute may keep its argument, which is not to see the write, or is to see it without hooks
    if copies_input or target._meta is not None or type(target) is not Tensor or global_state.active:
        shadow = wrap(copy(array) if (copies_input and recording) or perhaps else array)
        shadow._node = node if view is None or not recording or node is None or node._meta is None else _past_hooks(node, view)
        if target._meta is not None and target._meta.tangents:
            shadow.meta.tangents = target._meta.tangents
    begun = shadow._array is array  # then compute may already write it
    try:
        result = compute(shadow)
        if type(result) is Batched:
            refuse_batched(result, name)
        recorded = recording and isinstance(result, Tensor) and result._node is not None
        if recorded and perhaps and view is not None:
            refuse_view(view, name)
        values = result._array if isinstance(result, Tensor) else namespace(array).asarray(result)
        same = values.shape == array.shape and values.dtype == array.dtype
        if values is not array:
            if type(array) is np.ndarray and same and type(values) is np.ndarray:
                begun = True
                array[...] = values
            elif not (
                same and not isinstance(array, np.ndarray) and on_current_device(array) and (moved(array, values) or placed(array, values))
            ):
                check_fits(target, values, name)
                begun = True
                with on_device_of(array):
                    assign(array, ..., values)
    except BaseException as error:
        if begun and has_begun(error):
            target.version.bump()
        raise
    (target._version_slot or target.version).bump()
    if recorded:
        rebase(target, view, result._node if same else _fitted(result, array))
    elif recording and node is not None:
        rebase(target, view, None)
    if global_state.active and thread_state.interpreters:
        write_tangents(target, result)
    return target


def _past_hooks(node: Node, view: View) -> Node:
    """The node of a view as the input of a write to it, without the hooks on the view; as in torch, the view is made anew after it.

    The base's new history leads to the base's old one, not to the view.
    """
    meta = node.meta
    if not (meta.gradient_hooks or meta.pre_hooks or meta.post_hooks):
        return node
    return view.again()._node or node


def write_tangents(target: Tensor, result: Any) -> None:
    """Forward mode: give target, and the tensors that share its memory, the tangents of its new values."""
    made = (result._meta.tangents or {}) if isinstance(result, Tensor) and result._meta is not None else {}
    for level in {*made, *(target.meta.tangents or {})}:
        if level in thread_state.interpreters and not level.asleep:
            with lower(level):
                level.written(target, level.tangent(result))


def refuse_leaf(target: Tensor, view: View | None, name: str) -> None:
    """Refuse to write a leaf that requires a gradient, or one that is a view that could not be recorded."""
    node = target._node
    if isinstance(node, AccumulateGrad):
        raise RuntimeError(
            f"a leaf Variable that requires grad is being used in an in-place operation ({name}). Use no_grad() to update it."
        )
    if view is None:
        return
    if view.custom and not view.several and node is not None:
        raise RuntimeError(f"{name}: this tensor {CUSTOM_VIEW.format(written='is being modified inplace')}")
    if isinstance(view.base._node, AccumulateGrad) or (view.base._node is None and node is not None):
        raise RuntimeError(f"a view of a leaf Variable that requires grad is being used in an in-place operation ({name}).")
    if (view.several or not view.recorded) and (node is not None or view.base._node is not None):
        refuse_view(view, name)


def refuse_view(view: View, name: str) -> None:
    """Refuse to record a write to one of several views of one operation, or to a view made while nothing was recorded."""
    if view.several:
        raise RuntimeError(
            f"{name}: this tensor is one of several views that one function returned; such views cannot be modified inplace. "
            "Replace the inplace operation by an out-of-place one."
        )
    if not view.recorded:
        raise RuntimeError(
            f"{name}: a view was created in no_grad mode (or inference mode) and is being modified inplace with grad mode enabled. "
            "Make the view in grad mode, or write it inside no_grad()."
        )


CUSTOM_VIEW = (
    "is a view that a custom Function returned (or an input that it returned as-is) and {written}. The autograd logic to handle "
    "view+inplace would override the custom backward, leading to incorrect gradients. You can fix this by cloning the output of the "
    "custom Function."
)
CUSTOM_VIEW_OVERWRITTEN = f"A tensor {CUSTOM_VIEW.format(written='whose base or another view of it has been modified inplace')}"
UNRECORDED_VIEW_OVERWRITTEN = (
    "A view was created in no_grad or inference mode and its base or another view of its base has been modified inplace with grad mode "
    "enabled. Given that this use case is ambiguous and error-prone, it is forbidden: move both the view and the write inside that mode "
    "(if the write is not to be tracked), or both outside (if it is)."
)


def check_fits(target: Tensor, values: Array, name: str) -> None:
    """Refuse values whose shape or dtype cannot be written into target."""
    if not dtypes.can_cast(values.dtype, target._array.dtype):
        raise RuntimeError(f"{name}: result type {values.dtype.name} can't be cast to the desired output type {target._array.dtype.name}")
    if device_index(values) != device_index(target._array):
        raise RuntimeError(
            f"{name}: expected all tensors to be on the same device, but the result is on {wrap(values).device} and the "
            f"output on {target.device}"
        )
    have, want = values.shape, target._array.shape
    padded = (1,) * (len(want) - len(have)) + tuple(have)
    if len(padded) != len(want) or any(h not in (1, w) for h, w in zip(padded, want, strict=True)):
        raise RuntimeError(f"{name}: output with shape {list(want)} doesn't match the broadcast shape {list(have)}")


def _fitted(result: Tensor, target: Array) -> Node | None:
    """The node of a recorded result in the shape and dtype of the array that it was written into, so that it describes that."""
    if result._array.shape != target.shape:
        result = result.expand(target.shape)
    if result._array.dtype != target.dtype:
        result = result.to(target.dtype)
    return result._node


def rebase(target: Tensor, view: View | None, node: Node | None) -> None:
    """Give target, or its base where it is a view, the history of the values that were just written; the version is counted already.

    ``node``: what made the values; None where they depend on nothing recorded.
    """
    counter = target._version_slot or target.version
    if node is not None:
        made_by, index = (node.parent, node.index) if isinstance(node, Output) else (node, 0)
        if made_by.keeps_outputs:
            _keep_written(made_by, target._array)
            made_by.meta.output_versions[index] = counter
        counter.changed = made_by.seq  # what the node saved of its output is what was written
    if view is not None:
        path = ((view.op, view.rest, view.index),) if view.parent is None else view.path()
        target, node = view.base, CopySlices(view.base, path, node, None if node is None else node.seq)
    if target._meta is None:
        target._node = node
    else:
        _follow(target, node)
    if counter.views:
        _remake_views(counter)


def _keep_written(node: Node, array: Array) -> None:
    """Let a node that saved its only output keep the memory into which that was written."""
    if len(node.output_names) == 1 and type(node.saved) is tuple:  # hooks for saved tensors keep what they packed
        kept = list(node.saved)
        kept[node.saved_names.index(node.output_names[0])] = array
        node.saved = tuple(kept)


def is_part_recordable(target: Tensor) -> bool:
    """Whether a write to a part of target can be recorded by ``rebase_part``: nothing is to be refused, and nothing unusual is active."""
    if type(target) is not Tensor or isinstance(target._node, AccumulateGrad) or global_state.active or global_state.born is not None:
        return False
    view = target._meta.view if target._meta is not None else None
    if view is None:
        return True
    leaf = isinstance(view.base._node, AccumulateGrad) or (view.base._node is None and target._node is not None)
    return not (view.several or view.custom or not view.recorded or leaf)


def rebase_part(target: Tensor, step: Step | None, node: Node | None, elements: Elements | None = None) -> None:
    """``rebase`` for the view that ``step`` would make of target, without that view; a write through a view that nobody has.

    ``step``: None where it is target itself, a view. ``node``: what made the values, of any shape that broadcasts to the part and of any
    dtype; None where no gradient reaches them. ``elements``: of the view, where not all of it was written.
    """
    view = target._meta.view if target._meta is not None else None
    path = () if step is None else (step,)
    base, path = (target, path) if view is None else (view.base, (*view.path(), *path))
    if base._node is None and node is None:
        return
    made = CopySlices(base, path, node, elements=elements)
    if base._meta is None:
        base._node = made
    else:
        _follow(base, made)
    counter = target._version_slot
    if counter is not None and counter.views:
        _remake_views(counter)


def _follow(tensor: Tensor, node: Node | None) -> None:
    """Give a tensor the node of its new values; a gradient that it retains is theirs from now on."""
    before, meta = tensor._node, tensor._meta
    tensor._node = node
    if meta is not None and meta.retains_grad:
        if before is not None and before._meta is not None:
            before._meta.retain = None
        if node is not None:
            node.meta.retain = meta


def _remake_views(counter: Version) -> None:
    """Derive every live view of the written storage from its base again, so that its history contains the write."""
    for ref in tuple(counter.views):
        each = ref()
        if each is None or each._meta is None:
            continue
        made = each._meta.view
        if made.custom and each._node is not None:
            _follow(each, Overwritten(CUSTOM_VIEW_OVERWRITTEN, (each._node,), each._node))
            continue
        node = made.again()._node
        if node is not None and not made.recorded:
            node = Overwritten(UNRECORDED_VIEW_OVERWRITTEN, (node,), node)
        if each._meta.retains_grad:
            _follow(each, node)
        else:
            each._node = node


class Overwritten(RefusingNode):
    """The node of a view whose history was made invalid by a write to its base."""

    __slots__ = ()


Elements = tuple[Callable[..., Any], Callable[..., Any], Sequence[Any]]
"""Elements of a view that were written: the function of the view's gradient, the indices and the shape of what was written that gives the
gradient of that; the operation that writes; and the indices, as both take them."""


class CopySlices(Node):
    """The history of a base after one of its views was written: the region comes from the new values, the rest from before.

    Args:
        base: the tensor, which still has its node from before.
        path: the steps from it to the view. (Not the view: it refers to the base, which will refer to this node.)
        written: the node of the new values, whose shape need only broadcast to the view's.
        written_by: the number of the operation that wrote; None for this node's own.
        elements: of the view, where not all of it was written.
    """

    __slots__ = ("elements", "order", "path", "written_by")
    single = False
    output_names = ("out",)

    def __init__(
        self, base: Tensor, path: tuple[Step, ...], written: Node | None, written_by: int | None = None, elements: Elements | None = None
    ) -> None:
        self.seq = next_seq()
        self.written_by = self.seq if written_by is None else written_by
        self.edges = (base._node, written)
        self.path = path
        array = base._array
        self.order = None if array.flags.c_contiguous else tuple(np.argsort([-abs(step) for step in array.strides], kind="stable"))
        self.elements = None if elements is None else elements[:2]
        self.saved = None if elements is None else elements[2:]
        self.shape = array.shape
        self.dtype = array.dtype
        self._meta = None
        if type(array) is not np.ndarray:
            keep_stream(self, array.data.device_id)
        if global_state.new_node:
            made_node(self)

    @property
    def saved_names(self) -> tuple[str, ...]:  # type: ignore[override]
        """The indices of what was written, if not all of the view was."""
        return () if self.elements is None else ("indices",)

    def _indices(self) -> list[Any]:
        """The indices as arrays, which nobody wrote since."""
        if self.saved is None:
            raise freed(self)
        (indices,) = self.saved
        for each in indices:
            if isinstance(each, Tensor) and each._version_slot is not None and each._version_slot.changed >= self.seq:
                raise stale(self, each._array.shape, each._version_slot)
        return [each._array if isinstance(each, Tensor) else each for each in indices]

    def _laid_out(self, g: Array) -> Array:
        """A copy in the base's order of axes, so that replaying gives views of it where it did of the base."""
        if self.order is None:
            return row_major_copy(g)
        made = namespace(g).empty([g.shape[axis] for axis in self.order], g.dtype).transpose(np.argsort(self.order))
        assign(made, ..., g)
        return made

    def run(self, g: Array) -> tuple[Array | None, Array | None]:
        before, written = self.edges
        indices = [] if self.elements is None else self._indices()
        rest = self._laid_out(g)
        region = replay(self.path, rest)
        if self.elements is not None:
            slope, put = self.elements
            inside = None if written is None else slope(region, indices, written.shape)
            if before is not None:
                put(region, 0, indices, True)
        else:
            inside = None if written is None else copy(region)
            if before is not None and type(region) is np.ndarray:
                region[...] = 0
            elif before is not None:
                fill(region, 0)
        return None if before is None else rest, inside

    def run_recorded(self, g: Tensor) -> tuple[Tensor, Tensor | None]:
        indices = [] if self.elements is None else self._indices()
        turned = g if self.order is None else g.permute(self.order)
        rest = turned.contiguous()
        rest = turned.clone() if rest is turned else rest
        rest = rest if self.order is None else rest.permute(tuple(np.argsort(self.order)))
        region, inside = replay(self.path, rest), replay(self.path, g)
        if self.elements is None:
            region.zero_()
            return rest, inside
        (slope, put), written = self.elements, self.edges[1]
        write(region, lambda shadow: put(shadow, 0, indices, not global_state.active), put.__name__, copies_input=False, shown=False)
        return rest, None if written is None else slope(inside, indices, written.shape)
