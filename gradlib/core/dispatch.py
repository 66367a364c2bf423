"""The slow path of every operation: raw arrays, mixed dtypes and devices, views, several outputs, recording.

Reads top to bottom as one call: read each operand once, see that they live in one place, bring them to a common dtype, take a sequence
number, compute the value, wrap it, and keep what the rules asked for. The fast path in ``core/compile_path.py`` is this with every
question answered beforehand.
"""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from gradlib.backend import dtype as dtypes
from gradlib.backend.array import Array, device_array, device_index, is_array, is_view_of, move, on_device_of
from gradlib.core.arguments import refuse_wrong
from gradlib.core.batched import Batched, refuse_values
from gradlib.core.declaration import Op
from gradlib.core.modes import global_state, made_node, next_seq, thread_state
from gradlib.core.node import Node, NodeMeta, Output, Version
from gradlib.core.out import dtype_for, refuse_transformed, write_out
from gradlib.core.saved import pack_results
from gradlib.core.streams import keep_stream
from gradlib.core.symbols import Symbol, noted
from gradlib.core.tensor import InferenceTensor, Tensor, alias, as_array, wrap, wrap_all
from gradlib.core.views import mark_view, views_of
from gradlib.core.writes import no_derivative

_modules = sys.modules
HOST = -1
"""The place of an array on the host, beside the numbers of devices."""


def dispatch(op: Op, args: tuple[Any, ...], seq: int | None = None) -> Any:
    """Run a call that the fast path on NumPy arrays does not take: by another fast path, or by the slow one.

    There is one on CuPy arrays, and one where hooks for saved tensors are all that is active. Where it fails, a wrong argument is named.
    """
    try:
        if len(op.tensors) == 1 and isinstance(args[op.leading], np.generic):  # what NumPy's arithmetic makes of a 0-d gradient
            return _returned(op, op.value(np, *args))
        if global_state.active and global_state.active == global_state.packing and seq is None:
            return op.packing(*args)
        library = _modules.get("cupy")
        if library is not None and seq is None:
            first = args[op.leading]
            if op.led_by_list:
                first = first[0] if first and isinstance(first, (list, tuple)) else None
            elif type(first) in _PYTHON_NUMBERS and len(op.positions) > 1:
                first = args[op.positions[1]]
            if isinstance(first._array if type(first) is Tensor else first, library.ndarray):
                level = thread_state.quick if global_state.active and not global_state.observed else None
                return op.on_device(*args) if level is None else op.forward_on_device(level, *args)
        return slow_path(op, args, seq)
    except Exception:
        refuse_wrong(op.label, op.call, **dict(zip(op.params, args, strict=True)))
        raise


class Operands:
    """The tensor arguments of one call, each of them read once.

    Attributes:
        inputs: as they were given, those of a list one by one.
        values: the array in each; numbers (NumPy's as Python's) and None as they are.
        nodes: the node of each, None where no gradient is wanted; live: the same for each of ``op.tensors``, any node of a list for it.
        places: where each array lives: its device's number, or ``HOST``; None for what is no array.
        array: the first array among the values, None without one.
        recordable: whether one is a Tensor.
        complex: whether one is complex.
        scattered: whether the arrays live in more than one place.
        wrong: the first that is neither a Tensor, an array nor a number, or a number in a list of tensors.
    """

    __slots__ = ("array", "complex", "inputs", "live", "nodes", "places", "recordable", "scattered", "values", "wrong")

    def __init__(self, op: Op, args: tuple[Any, ...], on_device: Any) -> None:
        inputs = self.inputs = op.inputs(args)
        self.values: list[Any] = []
        self.nodes: list[Node | None] = []
        self.places: list[int | None] = []
        self.array: Array = None
        self.recordable = self.complex = self.scattered = False
        self.wrong: type | None = None
        first: int | None = None
        for x in inputs:
            node, value, place = None, x, None
            if isinstance(x, Tensor):
                self.recordable = True
                node, value = x._node, x._array
            on_host = isinstance(value, np.ndarray)
            if on_host or (on_device is not None and isinstance(value, on_device)):
                place = HOST if on_host else value.data.device_id
                if self.array is None:
                    self.array, first = value, place
                elif place != first:
                    self.scattered = True
                self.complex = self.complex or value.dtype.kind == "c"
            else:
                if isinstance(value, np.generic):  # before float, of which np.float64 is a kind: NumPy would promote by it, torch does not
                    value = value.item()
                if isinstance(value, complex):
                    self.complex = True
                elif not isinstance(value, (int, float)) and self.wrong is None and (value is not None or len(self.values) in op.required):
                    self.wrong = type(value)
            self.nodes.append(node)
            self.values.append(value)
            self.places.append(place)
        self.live = self.nodes
        if op.sequence is not None:
            single = len(op.tensors) - 1
            self.live = [*self.nodes[:single], next(filter(None, self.nodes[single:]), None)]
            if op.promote == "same" and self.wrong is None:  # a list of tensors alone; NumPy's numbers are its results of no dimensions
                self.wrong = next((type(x) for x in inputs[single:] if type(x) in (*_PYTHON_NUMBERS, bool)), None)


def slow_path(op: Op, args: tuple[Any, ...], seq: int | None = None) -> Any:
    """Run an operation on any mixture of Tensors, arrays and numbers.

    Args:
        op: the declared operation.
        args: a value for each of ``op.params``.
        seq: the number that an observer has taken for the node; what is observed is not intercepted again.
    Returns: a Tensor (a tuple of them for several outputs); raw arrays when no argument is a Tensor.
    Raises: TypeError for arguments that are neither, RuntimeError for a mixture of devices, and what the value raises.
    """
    if Symbol in map(type, args):
        return noted(op, args)
    on_device = device_array()
    interpreters = thread_state.interpreters if global_state.active and seq is None else ()
    if interpreters and (on_device is None or op.steps is not None):
        return interpreters[-1].process(op, args) if op.steps is None else op.steps(*args)
    given = Operands(op, args, on_device)
    if given.scattered and given.recordable:
        together = _in_one_place(op, args, given)
        return op.on_device(*together) if seq is None else slow_path(op, together, seq)
    if interpreters:
        return interpreters[-1].process(op, args)
    if not given.recordable:
        return _on_raw(op, args, given)
    if global_state.active and seq is None and thread_state.observer is not None:
        return thread_state.observer.operation(op, args)
    if given.wrong is not None:
        raise TypeError(f"{op.label}: expected a Tensor, an array or a number, got {given.wrong.__name__}")
    on_host, values = isinstance(given.array, np.ndarray), given.values
    if not on_host and Batched in map(type, given.inputs):  # a logical tensor that left its vmap; on the host the array itself refuses
        refuse_values()
    try:
        with on_device_of(given.array):
            if op.meet is not None:
                values = op.meet(values)
            half = dtypes.half_beside_number(given.values, values) if op.numbers_in_single else None
            if half is not None:
                values = dtypes.in_single(given.values, values)
            node = _new_node(op, given, values, seq)
            made = op.value(np, *op.with_inputs(args, values)) if on_host else op.value_on_device(*op.with_inputs(args, values))
            hidden: list[Any] = []
            if op.hidden:
                made, *hidden = made
            if half is not None:
                made = made.astype(half) if made.dtype == dtypes.float32 else made
            elif not on_host:
                made = narrowed(op, made, given.values)
    except ValueError as error:
        if not any(word in str(error) for word in ("broadcast", "core dimension", "not aligned")):
            raise
        raise RuntimeError(_misfit(op, values)) from None
    if len(op.outputs) == 1:
        result = _wrapped(op, args, made) if op.view else wrap(made)
        outputs = [result._array]
        if node is not None and dtypes.is_differentiable(result._array.dtype) and type(result) is not InferenceTensor:
            node.shape, node.dtype = result._array.shape, result._array.dtype
            result._node = node
    else:
        result, outputs = wrap_several(op, args, node, made)
    if node is not None and outputs:  # an empty dimension unbound gives none
        if not on_host:
            keep_stream(node, device_index(outputs[0]))
        node.saved = _saved(op, args, given, values, outputs, hidden)
        if global_state.active and thread_state.saving:
            node.saved = pack_results(op, node.saved, result)
    return result


def slow_path_on_device(op: Op, args: tuple[Any, ...]) -> Any:
    """``slow_path`` for what the fast path on CuPy arrays does not take; where it fails, a wrong argument is named."""
    try:
        return slow_path(op, args)
    except Exception:
        refuse_wrong(op.label, op.call, **dict(zip(op.params, args, strict=True)))
        raise


def meet(op: Op, values: list[Any]) -> list[Any] | None:
    """Operands on the host in the dtypes in which an operation runs, for its fast path.

    Returns: None where the slow path has more to do: for complex operands, whose nodes are others, and where the result is narrowed.
    """
    if op.numbers_in_single and dtypes.half_beside_number(values, values) is not None:
        return None
    met: list[Any] = op.meet(values)  # type: ignore[misc]
    if op.numbers_in_single and dtypes.default.dtype.itemsize == 2 and dtypes.half_beside_number(values, met) is not None:
        return None  # integers beside a number
    is_complex = False
    for value in met:
        dtype = getattr(value, "dtype", None)
        kind = "" if dtype is None else dtype.kind
        if kind == "V" and type(value) is np.ndarray:
            return None
        is_complex = is_complex or kind == "c" or isinstance(value, complex)
    if is_complex and op.complex != "explicit" and op.rules:
        return None
    return met


_SINGLE: Any = np.float32


def narrowed(op: Op, made: Any, given: list[Any]) -> Any:
    """A result in the operands' common dtype where that is a half type and CuPy computed it in float32, as its ``where`` does."""
    if op.promote is None or getattr(made, "dtype", None) != dtypes.float32:
        return made
    for value in given:
        dtype = getattr(value, "dtype", None)
        if dtype is not None and dtype.itemsize == 2 and dtypes.is_half(dtype) and is_array(value):
            break
    else:
        return made
    common = dtypes.result_type(*[v for v in given if v is not None])
    return made.astype(common) if dtypes.is_half(common) else made


def _misfit(op: Op, values: list[Any]) -> str:
    """The error text for shapes that do not go together."""
    shapes = ", ".join(f"{name} {list(v.shape)}" for name, v in zip(op.tensors, values, strict=False) if is_array(v))
    return f"{op.label}: the shapes of the arguments do not fit together: {shapes}. Sizes must match, or be 1 where they are broadcast."


def operate(op: Op, args: tuple[Any, ...]) -> Any:
    """``dispatch`` for Python's operators: leaves an operand that no operation takes to that operand's own operator."""
    for value in args:
        if type(value) is not Tensor and not isinstance(value, (Tensor, bool, int, float, complex, np.generic)) and not is_array(value):
            return NotImplemented
    return dispatch(op, args)


def _on_raw(op: Op, args: tuple[Any, ...], given: Operands) -> Any:
    """No Tensor among the arguments: the value alone, as NumPy or CuPy gives it."""
    if given.array is None:
        if any(isinstance(x, np.generic) for x in given.inputs) or (op.sequence is not None and not given.inputs):
            return _returned(op, op.value(np, *args))
        kinds = ", ".join(type(x).__name__ for x in given.inputs)
        raise TypeError(f"{op.label}: at least one argument must be a Tensor or an array, got {kinds or 'nothing'}")
    if isinstance(given.array, np.ndarray):
        return _returned(op, op.value(np, *args))
    with on_device_of(given.array):
        return narrowed(op, _returned(op, op.value_on_device(*args)), given.values)


def _returned(op: Op, made: Any) -> Any:
    """What a value gives, without the hidden results."""
    return made[0] if op.hidden else made


def _in_one_place(op: Op, args: tuple[Any, ...], given: Operands) -> tuple[Any, ...]:
    """Refuse a mixture of devices; a 0-d host tensor may join any device, as a number may: by a move that is recorded."""
    target, most, held = None, -1, dtypes.ALWAYS_HELD
    for place, value in zip(given.places, given.values, strict=True):
        if place is not None and value.ndim:
            target = place if target is None else target
            most, held = max(most, dtypes.category(value.dtype)), min(held, dtypes.largest(value.dtype))
    if target is None:
        target = next(place for place in given.places if place is not None and place != HOST)
    moved: list[Any] = []
    for x, value, place in zip(given.inputs, given.values, given.places, strict=True):
        if place is not None and place != target:
            if value.ndim or place != HOST:
                raise RuntimeError(_apart(op, given, target, place))
            may_be_number = bool(moved) or op.numbers_first
            number = _number_in(op, x, value, most, held if most > 1 else _ALWAYS_WHOLE) if may_be_number else None
            x = number if number is not None else x.to(f"cuda:{target}") if isinstance(x, Tensor) else move(value, target)
        moved.append(x)
    return tuple(op.with_inputs(args, moved))


def _apart(op: Op, given: Operands, *places: int) -> str:
    """The error text for tensors on two devices, the first of which is where the others are to go."""
    names = {place: f"cuda:{place}" if place != HOST else "cpu" for place in given.places if place is not None}
    here, there = map(names.__getitem__, places)
    shapes = ", ".join(
        f"{list(v.shape)} on {names[place]} ({'NumPy' if place == HOST else 'CuPy'})"
        for v, place in zip(given.values, given.places, strict=True)
        if place is not None
    )
    return (
        f"{op.label}: expected all tensors to be on the same device, but found at least two devices, {here} and {there} "
        f"(arguments: {shapes}). Move one with .to('{here}')."
    )


def _number_in(op: Op, x: Any, value: Array, most: int, held: float) -> Any:
    """The number in a tensor without dimensions, if that gives what the tensor gives: where nothing is recorded of it, and the dtypes of
    tensors with dimensions are of its kind or a higher one, and hold it. None otherwise.

    Args:
        most: the highest category of these dtypes. held: finite numbers up to here are in each of them.
    """
    if type(x) is not Tensor or x._node is not None or not op.meets_numbers_alike or global_state.active:
        return None
    category = dtypes.category(value.dtype)
    if most < max(category, 1) or not category:
        return None
    number = value.item()
    return number if abs(number) < held or number - number != 0 else None  # of infinity and NaN that is NaN


def _new_node(op: Op, given: Operands, values: list[Any], seq: int | None) -> Node | None:
    """The node of this run with its sequence number and edges, or None when nothing is to be recorded."""
    if not op.rules or (global_state.no_grad and not thread_state.grad_enabled) or (global_state.active and thread_state.inference):
        return None
    if not any(given.nodes):
        return None
    if given.complex and op.complex == "none":
        raise RuntimeError(f"{op.name} does not support automatic differentiation for complex inputs")
    lasting = not any(map(given.live.__getitem__, op.saving))
    for i in op.without_tensors:
        lasting = lasting or values[i] is None or isinstance(values[i], dtypes.NUMBERS)
    if lasting:
        node = op.lasting_complex_node() if given.complex else op.lasting_node()
    else:
        node = op.complex_node() if given.complex else op.node()
    node.seq = next_seq() if seq is None else seq
    node.edges = tuple(given.nodes)
    node._meta = None
    if global_state.new_node:
        made_node(node)
    return node


def _saved(
    op: Op, args: tuple[Any, ...], given: Operands, values: list[Any], outputs: list[Any], hidden: list[Any]
) -> tuple[Any, ...]:
    """The values that the rules that may run asked for, in the order of ``op.saved_names``."""
    kept: list[Any] = []
    for _, kind, place, wanted_by in op.needs.values():
        if wanted_by and not any(map(given.live.__getitem__, wanted_by)):
            kept.append(None)
        elif kind == "output":
            kept.append(outputs[place])
        elif kind == "hidden":
            kept.append(hidden[place])
        elif kind == "tensor" or kind == "argument":
            value = args[op.positions[place] if kind == "tensor" else place]
            if op.numbers_in_single and kind == "tensor" and type(values[place]) is _SINGLE:
                value = values[place]
            if isinstance(value, InferenceTensor) or (isinstance(value, (list, tuple)) and InferenceTensor in map(type, value)):
                raise _unsavable(op)
            kept.append(value)
        elif op.tensors[place] == op.sequence:
            kept.append([getattr(v, kind) for v in values[place:]])
        else:
            kept.append(getattr(values[place], kind, () if kind == "shape" else None))
    return tuple(kept)


def _unsavable(op: Op) -> RuntimeError:
    """Nobody counts the writes to a tensor that was made in inference mode."""
    return RuntimeError(
        "Inference tensors cannot be saved for backward. Please do not use Tensors created in inference mode in computation tracked by "
        "autograd. To work around this, you can make a clone to get a normal tensor and use it in autograd, or use `no_grad()` instead "
        f"of `inference_mode()` (in {op.name})."
    )


def _wrapped(op: Op, args: tuple[Any, ...], made: Any) -> Tensor:
    """A Tensor around what may be a view, which belongs to inference mode when its source does; anything else when it is made there."""
    source = args[0]
    if not isinstance(source, Tensor):
        return wrap(made)
    array = as_array(made)
    result = alias(source, array) if is_view_of(array, source._array) else wrap(array)
    mark_view(op, source, result, args[1:])
    return result


def wrap_several(op: Op, args: tuple[Any, ...], node: Node | None, made: Any) -> tuple[Any, list[Any]]:
    """Tensors for several results; each that carries a gradient gets a place of its own at the node."""
    source = args[0]
    if op.view and isinstance(source, Tensor):
        return views_of(op, source, made, args[1:], node), made
    results = wrap_all(made)
    if node is None:
        return tuple(results), []
    outputs, shapes, kinds = [], [], []
    declared = len(op.outputs) == len(results)
    for i, result in enumerate(results):
        array = result._array
        outputs.append(array)
        shapes.append(array.shape)
        kinds.append(array.dtype)
        if (not declared or i in op.differentiable) and array.dtype.kind in "fcV":
            result._node = Output(node, i, array.shape, array.dtype)
        elif declared and op.outputs[i] in op.needs:
            if node._meta is None:
                node._meta = NodeMeta()  # without `making`: nobody else knows the node yet
            result._version_slot = node._meta.output_versions[i] = Version()
    node.shape, node.dtype = tuple(shapes), tuple(kinds)
    return tuple(results), outputs


_PYTHON_NUMBERS = (int, float, complex)
_ALWAYS_WHOLE = 128
"""Smaller integers are held by every signed dtype."""


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
    if out is not None and global_state.active and thread_state.interpreters:
        refuse_transformed(op.name, (*full, out))
    if "dtype" in op.params:
        at = op.params.index("dtype")
        full[at] = dtype_for(op.name, full[at], out)
        records = bool(op.rules) and (thread_state.grad_enabled or not global_state.no_grad)
        if out is not None and records and any(isinstance(x, Tensor) and x._node is not None for x in full):
            raise no_derivative(op.name)  # a result of integers, as that of ``out=`` may be, would not show it
    result = dispatch(op, tuple(full))
    return result if out is None else write_out(op.name, out, result)


def conjugate(value: Any) -> Any:
    """The complex conjugate of an array or Tensor; real ones, and None, as they are."""
    if value is None or value.dtype.kind != "c":
        return value
    return value.conj()
