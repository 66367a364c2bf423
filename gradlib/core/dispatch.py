"""The general path of every operation: raw arrays, mixed dtypes and devices, views, several outputs, recording.

Reads top to bottom as one call: unwrap the inputs, see that they live in one place, bring them to a common dtype, take a sequence
number, compute the value, wrap it, and keep what the rules asked for. The plain path in ``core/compile.py`` is this with every
question answered beforehand.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from gradlib.backend import dtype as dtypes
from gradlib.backend.array import device_index, is_array, is_cupy, is_view_of, may_leave_host, move, namespace, on_device_of
from gradlib.core.batched import Batched, refuse_values
from gradlib.core.declaration import Op
from gradlib.core.modes import local, made_node, next_seq, observing, watch
from gradlib.core.node import Node, Output, Version
from gradlib.core.out import refuse_transformed, write_out
from gradlib.core.saved import pack_results
from gradlib.core.streams import keep_stream
from gradlib.core.tensor import InferenceTensor, Tensor, alias, as_array, raw, wrap
from gradlib.core.views import mark_view


def dispatch(op: Op, args: tuple[Any, ...], seq: int | None = None) -> Any:
    """What the plain path on NumPy arrays leaves over: on CuPy arrays it has a plain path of its own, else the general one."""
    if may_leave_host() and seq is None and is_cupy(raw(args[op.positions[0]])):
        return op.on_device(*args)
    return general(op, args, seq)


def general(op: Op, args: tuple[Any, ...], seq: int | None = None) -> Any:
    """Run an operation on any mixture of Tensors, arrays and numbers.

    Args:
        op: the declared operation.
        args: a value for each of ``op.params``.
        seq: the number that an observer has taken for the node; what is observed is not intercepted again.
    Returns: a Tensor (a tuple of them for several outputs); raw arrays when no argument is a Tensor.
    Raises: TypeError for arguments that are neither, RuntimeError for a mixture of devices, and what the value raises.
    """
    inputs = [args[i] for i in op.positions]
    if op.sequence is not None:
        inputs[-1:] = inputs[-1]
    recordable = any(isinstance(x, Tensor) for x in inputs)
    if recordable and may_leave_host():
        args, inputs = _in_one_place(op, args, inputs)
    if watch.active and seq is None:
        if local.layers:
            return local.layers[-1].intercept(op, args)
        seen_by = observing()
        if seen_by is not None and recordable:
            return seen_by.operation(op, args)
    if not recordable:
        return _on_raw(op, args, inputs)
    given = values = [_unwrapped(op.name, x) for x in inputs]
    reference = next(v for v in given if is_array(v))
    try:
        with on_device_of(reference):
            values = dtypes.promoted(op.promote, given)
            if op.numbers_in_single:
                values = dtypes.in_single(given, values)
            node = _new_node(op, inputs, values, seq)
            made = _narrowed(op, op.value(namespace(reference), *_arguments(op, args, values)), given)
    except ValueError as error:
        if not any(word in str(error) for word in ("broadcast", "core dimension", "not aligned")):
            raise
        raise RuntimeError(_misfit(op, values)) from None
    if len(op.outputs) == 1:
        result = _wrapped(op, args[0], made)
        outputs = [result._array]
        if node is not None and dtypes.is_differentiable(result._array.dtype):
            node.shape, node.dtype = result._array.shape, result._array.dtype
            result._node = node
        if op.view:
            mark_view(op, args[0], result, args[1:])
    else:
        result, outputs = _wrap_several(op, args, node, made)
    if node is not None and outputs:  # an empty dimension unbound gives none
        keep_stream(node, device_index(outputs[0]))
        node.saved = _saved(op, args, node.edges, values, outputs)
        if watch.active and local.saving:
            node.saved = pack_results(op, node.saved, result)
    return result


def _narrowed(op: Op, made: Any, given: list[Any]) -> Any:
    """A result in the operands' common dtype where that is a half type and it was computed in float32.

    It is beside numbers (``dtypes.in_single``), and in bfloat16 by CuPy's ``where`` and what is made of it.
    """
    if op.promote is None or getattr(made, "dtype", None) != dtypes.float32:
        return made
    if not any(is_array(v) and dtypes.is_half(v.dtype) for v in given):
        return made
    common = dtypes.result_type(*[v for v in given if v is not None])
    return made.astype(common) if dtypes.is_half(common) else made


def _misfit(op: Op, values: list[Any]) -> str:
    """The error text for shapes that do not go together."""
    shapes = ", ".join(f"{name} {list(v.shape)}" for name, v in zip(op.tensors, values, strict=False) if is_array(v))
    return f"{op.name}: the shapes of the arguments do not fit together: {shapes}. Sizes must match, or be 1 where they are broadcast."


def operate(op: Op, args: tuple[Any, ...]) -> Any:
    """``dispatch`` for Python's operators: leaves an operand that no operation takes to that operand's own operator."""
    for value in args:
        if type(value) is not Tensor and not isinstance(value, (Tensor, bool, int, float, complex, np.generic)) and not is_array(value):
            return NotImplemented
    return dispatch(op, args)


def _on_raw(op: Op, args: tuple[Any, ...], inputs: list[Any]) -> Any:
    """No Tensor among the arguments: the value alone, as NumPy or CuPy gives it."""
    arrays = [x for x in inputs if is_array(x)]
    if not arrays:
        if any(isinstance(x, np.generic) for x in inputs) or (op.sequence is not None and not inputs):
            return op.value(np, *args)
        kinds = ", ".join(type(x).__name__ for x in inputs)
        raise TypeError(f"{op.name}: at least one argument must be a Tensor or an array, got {kinds or 'nothing'}")
    with on_device_of(arrays[0]):
        return _narrowed(op, op.value(namespace(arrays[0]), *args), arrays)


def _unwrapped(name: str, value: Any) -> Any:
    if isinstance(value, Tensor):
        array = value._array
        if type(value) is Batched and is_cupy(array):  # a row that left its vmap; on the host the array itself refuses
            refuse_values()
        return array
    if isinstance(value, np.generic):  # before float, of which np.float64 is a kind: NumPy would promote by it, torch does not
        return value.item()
    if is_array(value) or value is None or isinstance(value, (bool, int, float, complex)):
        return value
    raise TypeError(f"{name}: expected a Tensor, an array or a number, got {type(value).__name__}")


def _in_one_place(op: Op, args: tuple[Any, ...], inputs: list[Any]) -> tuple[tuple[Any, ...], list[Any]]:
    """Refuse a mixture of devices; a 0-d host tensor may join any device, as a number may: by a move that is recorded.

    Returns: the arguments, and the inputs among them.
    """
    values = [v for v in map(raw, inputs) if is_array(v)]
    places = [device_index(v) for v in values]
    if all(place == places[0] for place in places):
        return args, inputs
    target = next((p for p, v in zip(places, values, strict=True) if v.ndim), next(p for p in places if p is not None))
    for place, value in zip(places, values, strict=True):
        if place != target and (value.ndim or place is not None):
            here, there = (("cpu" if i is None else f"cuda:{i}") for i in (target, place))
            shapes = ", ".join(f"{list(v.shape)} on {_place(v)}" for v in values)
            raise RuntimeError(
                f"{op.name}: expected all tensors to be on the same device, but found at least two devices, {here} and {there} "
                f"(arguments: {shapes}). Move one with .to('{here}')."
            )
    moved = [x.to(f"cuda:{target}") if isinstance(x, Tensor) else move(x, target) if is_array(x) else x for x in inputs]
    return tuple(_arguments(op, args, moved)), moved


def _place(array: Any) -> str:
    index = device_index(array)
    return "cpu (NumPy)" if index is None else f"cuda:{index} (CuPy)"


def _new_node(op: Op, inputs: list[Any], values: list[Any], seq: int | None) -> Node | None:
    """The node of this run with its sequence number and edges, or None when nothing is to be recorded."""
    if not op.rules or (watch.no_grad and not local.grad_enabled) or (watch.active and local.inference):
        return None
    edges = [x._node if isinstance(x, Tensor) else None for x in inputs]
    if all(edge is None for edge in edges):
        return None
    is_complex = any(getattr(getattr(v, "dtype", None), "kind", "") == "c" or isinstance(v, complex) for v in values)
    if is_complex and op.complex == "none":
        raise RuntimeError(f"{op.name} does not support automatic differentiation for complex inputs")
    if any(not is_array(values[i]) for i in op.without_tensors) or not any(_is_active(op, edges, i) for i in op.saving):
        node = op.lasting_complex_node() if is_complex else op.lasting_node()
    else:
        node = op.complex_node() if is_complex else op.node()
    node.seq = next_seq() if seq is None else seq
    node.edges = tuple(edges)
    node.rare = None
    if watch.new_node:
        made_node(node)
    return node


def _is_active(op: Op, edges: Sequence[Any], place: int) -> bool:
    """Whether the tensor argument at this place among ``op.tensors`` (any of them, where it is the list) wants a gradient."""
    own = edges[place:] if op.tensors[place] == op.sequence else edges[place : place + 1]
    return any(edge is not None for edge in own)


def _arguments(op: Op, args: tuple[Any, ...], values: list[Any]) -> list[Any]:
    """The arguments again, raw arrays in the tensors' places."""
    full = list(args)
    for place, position in enumerate(op.positions):
        full[position] = values[place:] if op.params[position] == op.sequence else values[place]
    return full


def _saved(op: Op, args: tuple[Any, ...], edges: Sequence[Any], values: list[Any], outputs: list[Any]) -> tuple[Any, ...]:
    """What the rules that may run asked for, in the order of ``op.saved_names``."""
    active = [_is_active(op, edges, place) for place in range(len(op.tensors))]
    kept: list[Any] = []
    for name in op.saved_names:
        if (name in op.outputs or name in op.tensors) and not any(active[i] for i in op.needed_by[name]):
            kept.append(None)
        elif name in op.outputs:
            kept.append(outputs[op.outputs.index(name)])
        elif name in op.params:
            value = values[op.tensors.index(name)] if op.numbers_in_single and name in op.tensors else None
            kept.append(value if type(value) is np.float32 else _keepable(op, args[op.params.index(name)]))
        else:
            owner, _, part = name.rpartition("_")
            place = op.tensors.index(owner)
            if owner == op.sequence:
                kept.append([getattr(v, part) for v in values[place:]])
            else:
                kept.append(getattr(values[place], part, () if part == "shape" else None))
    return tuple(kept)


def _keepable(op: Op, value: Any) -> Any:
    """What a node may save: anything but tensors made in inference mode, whose writes nobody counts."""
    if any(isinstance(x, InferenceTensor) for x in (value if isinstance(value, (list, tuple)) else (value,))):
        raise RuntimeError(
            "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in computation tracked by "
            "autograd. To work around this, you can make a clone to get a normal tensor and use it in autograd, or use `no_grad()` instead "
            f"of `inference_mode()` (in {op.name})."
        )
    return value


def _wrapped(op: Op, source: Any, made: Any) -> Tensor:
    """A Tensor around a result; a view belongs to inference mode when its source does, anything else when it is made there."""
    array = as_array(made)
    if op.view and isinstance(source, Tensor) and is_view_of(array, source._array):
        return alias(source, array)
    return wrap(array)


def _wrap_several(op: Op, args: tuple[Any, ...], node: Node | None, made: Any) -> tuple[Any, list[Any]]:
    """Tensors for several results; each that carries a gradient gets a place of its own at the node."""
    results = [_wrapped(op, args[0], m) for m in made]
    outputs = [r._array for r in results]
    if node is not None:
        node.shape = tuple(a.shape for a in outputs)
        node.dtype = tuple(a.dtype for a in outputs)
        carrying = range(len(outputs)) if len(op.outputs) != len(outputs) else op.differentiable
        for i, result in enumerate(results):
            if i in carrying:
                result._node = Output(node, i, result._array)
            elif i < len(op.outputs) and op.outputs[i] in op.saved_names:
                result._version_slot = node.extras.output_versions[i] = Version()
    if op.view:
        for i, result in enumerate(results):
            mark_view(op, args[0], result, args[1:], i)
    return tuple(results), outputs


# ---- small things the compiled calls need -------------------------------------------------------------------------------------

_NUMPY_NAMES = {"axis": "dim", "keepdims": "keepdim"}


def keywords(op: Op, args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """A call with NumPy's argument names or with ``out=``, brought back to the plain call."""
    full = list(args)
    out = None
    for name, value in named.items():
        target = _NUMPY_NAMES.get(name, name)
        if name == "out":
            out = value
        elif name in _NUMPY_NAMES and target in op.params:
            full[op.params.index(target)] = value
        else:
            raise TypeError(f"{op.name}() got an unexpected keyword argument {name!r}; it takes {', '.join(op.params)}")
    if out is not None and watch.active and local.layers:
        refuse_transformed(op.name, (*full, out))
    result = dispatch(op, tuple(full))
    return result if out is None else write_out(op.name, out, result)


def conjugate(value: Any) -> Any:
    """The complex conjugate of an array or Tensor; real ones, and None, as they are."""
    if value is None or value.dtype.kind != "c":
        return value
    return value.conj()
