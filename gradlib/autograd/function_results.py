"""The results of a custom Function's forward: their place in the graph, and in forward mode their tangents."""

from __future__ import annotations

import warnings
from typing import Any

from gradlib.autograd.function_node import FunctionNode, Layout, among
from gradlib.backend.array import is_array, may_leave_host, zeros_like
from gradlib.backend.dtype import is_differentiable
from gradlib.core.forward import ForwardLevel
from gradlib.core.grad_mode import no_grad
from gradlib.core.inplace import rebase, refuse_leaf
from gradlib.core.modes import lower
from gradlib.core.node import Output
from gradlib.core.streams import keep_stream
from gradlib.core.tensor import Tensor, wrap


def place_in_graph(node: FunctionNode, recording: bool, arguments: tuple[Any, ...], made: Any) -> Any:
    """Give what forward returned its place in the graph.

    Args:
        node: the node of this call, with the ctx's attributes.
        recording: whether gradients are wanted at all.
        arguments: what forward received.
        made: what it returned: one value, or a tuple; every Tensor in it is an output.
    Returns: ``made``, with inputs that were not marked dirty replaced by views of themselves.
    Raises: RuntimeError for tensors marked wrongly, a leaf or a view that cannot be written in place.
    """
    dirty = constant = _NONE
    if node.attributes:
        dirty = _marked(node, "dirty_tensors", "mark_dirty can only accept variables")
        constant = _marked(node, "non_differentiable", "mark_non_differentiable only accepts variable arguments")
    new = type(made) is Tensor and made._node is None and made._meta is None and not among(made, arguments)
    if new and not (dirty or constant or may_leave_host()):  # as nearly always
        array = made._array
        node.outputs = (Layout.of(array),)
        node.shape, node.dtype = array.shape, array.dtype
        if recording and is_differentiable(array.dtype):
            made._node = node
        return made
    several = isinstance(made, tuple)
    results = made if several else (made,)
    placed = _place_each(node, recording, set(map(id, arguments)), results, dirty, constant)
    return placed if several else placed[0]


def _place_each(
    node: FunctionNode, recording: bool, inputs: set[int], results: tuple[Any, ...], dirty: dict[int, Tensor], constant: dict[int, Tensor]
) -> tuple[Any, ...]:
    """``place_in_graph`` of any results. By identity, ``inputs`` is what forward received, ``dirty`` what it wrote."""
    if constant:
        node.constant = tuple(i for i, r in enumerate(results) if id(r) in constant)
    if dirty:
        _check_dirty(node, dirty, inputs, results)
    node.outputs = tuple([Layout.of(r._array) if isinstance(r, Tensor) else None for r in results])
    single = len(results) == 1
    if single:
        node.shape, node.dtype = node.outputs[0][:2] if node.outputs[0] else (None, None)
    else:
        node.shape = tuple(o.shape if o else None for o in node.outputs)
        node.dtype = tuple(o.dtype if o else None for o in node.outputs)
    if recording and may_leave_host():
        keep_stream(node, next((o.device for o in node.outputs if o is not None and o.device is not None), None))
    placed = []
    for index, result in enumerate(results):
        if not isinstance(result, Tensor):
            if recording and is_array(result):
                raise RuntimeError(
                    f"function {node.name()} returned {type(result).__name__} at position {index} of its forward, through which no "
                    "gradient would flow: return a Tensor (gradlib.as_tensor), or keep what backward needs as an attribute of ctx"
                )
            placed.append(result)
            continue
        key = id(result)
        if not recording or key in constant or not is_differentiable(result._array.dtype):
            placed.append(_without_gradient(result, key in inputs, key in dirty))
        else:
            place = node if single else Output(node, index, result._array.shape, result._array.dtype)
            placed.append(_with_gradient(node, place, result, key in inputs, key in dirty, single))
    return tuple(placed)


_NONE: dict[int, Tensor] = {}


def _marked(node: FunctionNode, name: str, rule: str) -> dict[int, Tensor]:
    """The tensors the user marked, by identity."""
    if name not in node.attributes:
        return {}
    tensors = node.attributes.pop(name)
    for number, tensor in enumerate(tensors):
        if not isinstance(tensor, Tensor):
            raise RuntimeError(f"{rule}, but argument {number} is of type {type(tensor).__name__} (in {node.name()})")
    return {id(t): t for t in tensors}


def _check_dirty(node: FunctionNode, dirty: dict[int, Tensor], inputs: set[int], results: tuple[Any, ...]) -> None:
    returned = {id(r) for r in results}
    if any(key not in returned for key in dirty):
        raise RuntimeError(
            f"Some elements marked as dirty during the forward method of {node.name()} were not returned as output. The inputs that are "
            "modified inplace must all be outputs of the Function."
        )
    for key in dirty:
        if key not in inputs:
            warnings.warn(
                "Only input Tensors should be given to ctx.mark_dirty(). If a Tensor is not an input, there is no need to pass it to "
                f"mark_dirty() (in {node.name()}).",
                UserWarning,
                stacklevel=4,
            )


def _without_gradient(result: Tensor, is_input: bool, is_dirty: bool) -> Tensor:
    """An output that carries no gradient. If it is an input that requires one, a detached alias is returned."""
    if is_input and is_dirty:
        result.version.bump()
    if result._node is not None:
        if is_input:
            return result.detach()
        result._node = None
        return result
    if is_input and not is_dirty:
        with no_grad():
            return result.view_as(result)
    return result


def _with_gradient(
    node: FunctionNode, place: FunctionNode | Output, result: Tensor, is_input: bool, is_dirty: bool, single: bool
) -> Tensor:
    """An output that carries a gradient: this call's node becomes its place in the graph."""
    if is_dirty and is_input:
        _written(node, place, result, single)
        return result
    if is_input:
        with no_grad():
            result = result.view_as(result)
    result._node = place
    if result._meta is not None and result._meta.view is not None:
        result._meta.view.custom = True
        result._meta.view.several = not single
    return result


def _written(node: FunctionNode, place: FunctionNode | Output, result: Tensor, single: bool) -> None:
    """Give an input that forward wrote in place its new history, and the base of which it is a view too."""
    if result._node is not None and result.is_leaf:
        raise RuntimeError(f"a leaf Variable that requires grad has been used in an in-place operation (in {node.name()}).")
    view = result._meta.view if result._meta is not None else None
    if view is not None:
        refuse_leaf(result, view, node.name())
        if not single:
            raise RuntimeError(
                f"If your Function ({node.name()}) modifies inplace an input that is a view of another Tensor, it cannot return more than "
                "one Tensor. Either make sure the input is not a view (using .clone() for example) or split it into two Functions: one "
                "that does the inplace and returns a single Tensor, and a second one for the rest."
            )
    result.version.bump()
    rebase(result, view, place)


# ---- forward mode: the user's jvp -----------------------------------------------------------------------------------------------


def attach_tangents(level: ForwardLevel, node: FunctionNode, arguments: tuple[Any, ...], made: Any) -> None:
    """Give the results of a call, at this level, the tangents that the user's ``jvp`` makes of the arguments' tangents.

    Args:
        level: a level of forward mode, at which the call itself was not seen.
        node, arguments, made: the call, what forward received and what it returned.
    Raises: NotImplementedError when there is no ``jvp``; RuntimeError naming the Function when what it returns does not fit.
    """
    tangents = [level.tangent(a) for a in arguments]
    if all(t is None for t in tangents):
        return
    results = made if isinstance(made, tuple) else (made,)
    for i, (argument, tangent) in enumerate(zip(arguments, tangents, strict=True)):
        if tangent is not None and type(argument) is Tensor and any(argument is each for each in results):
            with lower(level):
                level.written(argument, tangent)  # a tangent of its own, which jvp will write: it may have been another tensor's too
            tangents[i] = level.tangent(argument)
    if node.materialize:
        tangents = [_zero_tangent(a) if t is None else t for a, t in zip(arguments, tangents, strict=True)]
    before = {id(a): t._version for a, t in zip(arguments, tangents, strict=True) if t is not None}
    node.in_jvp = True
    try:
        with lower(level):
            moved = node.public.apply_jvp(*tangents)
    finally:
        node.in_jvp = False
    moved = moved if isinstance(moved, tuple) else (moved,)
    name = node.ctx_class._forward_cls.__name__
    if len(moved) != len(results):
        raise RuntimeError(f"{name}.jvp returned an invalid number of forward gradients (expected {len(results)} but got {len(moved)})")
    for position, (result, tangent) in enumerate(zip(results, moved, strict=True)):
        if tangent is None:
            continue
        if not isinstance(tangent, Tensor):
            raise RuntimeError(f"{name}.jvp returned {type(tangent).__name__} for output {position}; it gives a Tensor or None")
        _check_tangent(f"{name}.jvp returned for output {position}", node, position, result, tangent, level)
        if tangent is level.tangent(result) and tangent._version == before.get(id(result)):
            raise RuntimeError(f"{name}.jvp returned for output {position} {_UNWRITTEN.format('a tangent that it did not write')}")
        level.attach(result, tangent)


_UNWRITTEN = "{}. If the forward is modifying an input inplace, then the jvp function must modify the gradient inplace and return it as-is."


def _zero_tangent(value: Any) -> Tensor | None:
    if not isinstance(value, Tensor) or not is_differentiable(value._array.dtype):
        return None
    return wrap(zeros_like(value._array))


def _check_tangent(says: str, node: FunctionNode, position: int, result: Any, tangent: Tensor, level: ForwardLevel) -> None:
    if not isinstance(result, Tensor) or position in node.constant or not is_differentiable(result._array.dtype):
        raise RuntimeError(f"{says} a tangent, but that output is not a differentiable Tensor; return None at that position instead")
    if tangent.shape != result.shape or tangent.dtype != result.dtype or tangent.device != result.device:
        raise RuntimeError(
            f"{says} a tangent of shape {list(tangent.shape)}, {tangent.dtype} on {tangent.device}; the output has shape "
            f"{list(result.shape)}, {result.dtype} on {result.device}"
        )
    held = level.tangent(result)
    if held is not None and held is not tangent:  # the output is an input that forward wrote
        raise RuntimeError(f"{says} {_UNWRITTEN.format('a tangent of its own')}")
    if held is None and result._is_view() and not tangent._is_view():
        raise RuntimeError(f"{says} a fresh tangent, but the forward is returning a view (or an input as-is): then jvp returns a view too")
