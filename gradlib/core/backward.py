"""``backward`` and ``grad``: a user's call is checked and turned into a walk."""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterable, Mapping
from operator import attrgetter
from typing import Any

import numpy as np

from gradlib.backend import dtype as dtypes
from gradlib.backend.array import Array, device_index, is_array, may_leave_host, namespace, on_device_of, zeros_like
from gradlib.core.batched import Batched, levels_of
from gradlib.core.edge import GradientEdge, below, stand_in
from gradlib.core.engine import Captures, Needed, early_leaves, walk, walk_recorded
from gradlib.core.grad_mode import no_grad
from gradlib.core.modes import global_state, in_walk, set_grad, thread_state
from gradlib.core.node import Node, Output
from gradlib.core.streams import around_walk
from gradlib.core.tensor import Tensor, publish, wrap


def as_tuple(value: Any) -> tuple[Any, ...]:
    """One Tensor, edge or array, or several in any iterable, as a tuple; None gives an empty one."""
    if type(value) is list or type(value) is tuple:
        return tuple(value)
    if value is None:
        return ()
    if isinstance(value, (Tensor, GradientEdge)) or is_array(value) or not isinstance(value, Iterable):
        return (value,)
    return tuple(value)


def _given_outputs(outputs: Any, name: str) -> tuple[Any, ...]:
    if outputs is None:
        raise TypeError(f"{name} is a Tensor or several, got None")
    return as_tuple(outputs)


def _given_inputs(inputs: Any, name: str) -> tuple[Any, ...]:
    """The argument ``inputs`` of ``backward`` or ``grad``, checked, as a tuple: of a dict its values."""
    if not isinstance(inputs, (list, tuple, Tensor)):  # what a mapping is takes NumPy's time for a small operation to find out
        if isinstance(inputs, Mapping) and type(inputs) is not dict:
            raise TypeError(f"`inputs` argument to `{name}()` must be a dict, not {type(inputs).__name__}; pass dict(...) of it")
        if inputs is None:
            raise TypeError(f"`inputs` argument to `{name}()` is a Tensor, several or a dict of them, got None")
        inputs = inputs.values() if type(inputs) is dict else inputs
    wanted = as_tuple(inputs)
    if not wanted:
        raise RuntimeError(f"`inputs` argument to `{name}()` cannot be empty.")
    for i, tensor in enumerate(wanted):
        if isinstance(tensor, Tensor):
            if tensor._node is None:
                raise RuntimeError(f"One of the differentiated Tensors does not require grad (index {i} of inputs)")
        elif type(tensor) is not GradientEdge:
            raise RuntimeError(f"all inputs have to be Tensors or GradientEdges, but got {type(tensor).__name__} at index {i} of inputs")
    return wanted


def _placed(values: tuple[Any, ...], roots: Iterable[tuple[Node, Any]] = ()) -> tuple[Any, ...]:
    """The same, with a stand-in tensor for each gradient edge."""
    for value in values:
        if type(value) is GradientEdge:
            starts = [node for node, _ in roots]
            return tuple([stand_in(v, starts) if isinstance(v, GradientEdge) else v for v in values])
    return values


class Walk:
    """One call of ``backward`` or ``grad``, for hooks that ask which backward they run in."""

    def __init__(self, roots: list[tuple[Node, Any]], needed: Needed | None, keep: bool) -> None:
        self.keep = keep
        """Whether what nodes saved is left for another walk."""
        self._starts = [node for node, _ in roots]
        self._visited: Any = needed

    def visits(self, node: Node) -> bool:
        """Whether the walk visits a node."""
        if self._visited is None:
            self._visited = set(below(self._starts))
        return node in self._visited


def _cotangents(outputs: tuple[Tensor, ...], given: tuple[Any, ...], recorded: bool) -> list[tuple[Node, Any]]:
    """Each output's node with its cotangent: as given and checked, or ones for a scalar."""
    for g in given:
        if not isinstance(g, Tensor) and g is not None and not is_array(g):
            raise TypeError(f"gradients can be either Tensors or None, but got {type(g).__name__}")
    if given and len(given) != len(outputs):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(given)} gradients")
    roots = []
    for i, output in enumerate(outputs):
        if not isinstance(output, Tensor):
            raise TypeError(f"element {i} of tensors must be a Tensor, got {type(output).__name__}")
        if output._node is None:
            raise RuntimeError(f"element {i} of tensors does not require grad and does not have a grad_fn")
        g = given[i] if given else None
        roots.append((output._node, _one(output._array, recorded) if g is None else _checked(g, output, i, recorded)))
    return roots


def _one(array: Array, recorded: bool) -> Any:
    """The cotangent of a real scalar where none is given."""
    if array.size != 1:
        raise RuntimeError(f"grad can be implicitly created only for scalar outputs, got shape {list(array.shape)}; pass gradient=")
    if array.dtype.kind != "f" and (not dtypes.is_differentiable(array.dtype) or array.dtype.kind == "c"):
        raise RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {array.dtype}")
    if type(array) is np.ndarray:
        g = np.array(1, array.dtype, ndmin=array.ndim)  # NumPy's ``ones`` takes four times as long
    else:
        with on_device_of(array):
            g = namespace(array).ones(array.shape, array.dtype)
    return wrap(g) if recorded else g


def _checked(g: Any, output: Tensor, i: int, recorded: bool) -> Any:
    array = output._array
    given = g._array if isinstance(g, Tensor) else g
    alike = type(given) is type(array) and given.dtype is array.dtype and given.shape == array.shape
    if alike and (type(array) is np.ndarray or given.data.device_id == array.data.device_id):
        return given if not recorded and not global_state.active else _as_recorded(g, given, recorded)
    if given.shape != array.shape:
        raise RuntimeError(
            f"Mismatch in shape: grad_output[{i}] has a shape of {list(given.shape)} and output[{i}] has a shape of {list(array.shape)}."
        )
    if (given.dtype.kind == "c" and array.dtype.kind != "c") or (given.dtype.kind != "c" and array.dtype.kind == "c"):
        raise RuntimeError(
            f"For complex Tensors, both grad_output and output are required to have the same dtype. Mismatch: grad_output[{i}] has "
            f"{given.dtype} and output[{i}] has {array.dtype}."
        )
    if device_index(given) != device_index(array):
        raise RuntimeError(f"grad_output[{i}] is on another device than output[{i}], which is on {output.device}")
    if given.dtype != array.dtype:
        g = g.to(array.dtype) if isinstance(g, Tensor) else g.astype(array.dtype)
        given = _array_of(g)
    return _as_recorded(g, given, recorded)


def _as_recorded(g: Any, given: Array, recorded: bool) -> Any:
    """A cotangent, whose array is ``given``, as the walk takes it."""
    if recorded:
        return g if isinstance(g, Tensor) else wrap(given)
    if global_state.active and thread_state.interpreters:
        return g  # its tangents, or its batch dimension
    return given


def _run(roots: list[tuple[Node, Any]], keep: bool, create_graph: bool, needed: Needed | None, captures: Captures | None) -> None:
    if may_leave_host():
        with around_walk(_array_of(roots[0][1])):
            _run_here(roots, keep, create_graph, needed, captures)
    else:
        _run_here(roots, keep, create_graph, needed, captures)


def _run_here(roots: list[tuple[Node, Any]], keep: bool, create_graph: bool, needed: Needed | None, captures: Captures | None) -> None:
    """``_run`` where the device of the first cotangent is current. It sets whether to record without a context, for small graphs' sake."""
    before = set_grad(create_graph)
    try:
        if create_graph:
            walk_recorded(roots, needed, captures, keep)
        elif global_state.active and thread_state.interpreters:  # forward mode or vmap over this backward must see its rules as operations
            walk_recorded([(node, g if isinstance(g, Tensor) else wrap(g)) for node, g in roots], needed, captures, keep)
        else:
            walk(roots, keep, needed, captures)
    finally:
        set_grad(before)


def _run_known(roots: list[tuple[Node, Any]], keep: bool, create_graph: bool, needed: Needed | None, captures: Captures | None) -> None:
    """``_run``, with what hooks can ask of it, and where those of leaves run early."""
    with in_walk(Walk(roots, needed, keep)), early_leaves(roots):
        _run(roots, keep, create_graph, needed, captures)


def _array_of(g: Any) -> Array:
    return g._array if isinstance(g, Tensor) else g


def backward(
    tensors: Any, grad_tensors: Any = None, retain_graph: bool | None = None, create_graph: bool = False, *, inputs: Any = None
) -> None:
    """Add the gradients of the given tensors with respect to the graph's leaves to the leaves' ``.grad``.

    Args:
        tensors: a Tensor (or ``graph.GradientEdge``), or several in any iterable.
        grad_tensors: a cotangent for each (its shape), or None for scalars.
        retain_graph: keep saved values for another backward; defaults to create_graph.
        create_graph: record the backward itself.
        inputs: accumulate into these only; one that is no leaf retains its gradient from now on, and its node runs too.
    Raises: RuntimeError for tensors outside any graph, shapes that do not fit, a graph already freed.
    Source: torch.autograd.backward.
    Example:
        >>> x = gradlib.tensor([1.0, 2.0], requires_grad=True)
        >>> gradlib.autograd.backward([x.sum(), (x * x).sum()])
        >>> x.grad
        tensor([3., 5.])
    """
    if thread_state.transforming:
        raise RuntimeError(
            "backward() called inside a functorch transform. This is not supported, please use func.grad or func.vjp instead or call "
            "backward() outside of functorch transforms."
        )
    if create_graph:
        _warn_of_cycle(sys._getframe(1))
    wanted = None if inputs is None else tuple(dict.fromkeys(_given_inputs(inputs, "backward")))
    outputs = (tensors,) if isinstance(tensors, Tensor) else _placed(_given_outputs(tensors, "tensors"))
    roots = _cotangents(outputs, () if grad_tensors is None else as_tuple(grad_tensors), create_graph)
    keep = create_graph if retain_graph is None else retain_graph
    needed = None
    if wanted is not None:
        for tensor in wanted:
            if isinstance(tensor, Tensor):
                tensor.retain_grad()  # of a leaf says nothing
        places = [tensor._node for tensor in _placed(wanted, roots)]
        ends = {end: None for node in places for end in ((node, node.parent) if isinstance(node, Output) else (node,))}
        needed = leading_to([node for node, _ in roots], ends, run_ends=True)
        roots = [(node, g) for node, g in roots if node in needed]
    if roots:
        (_run_known if global_state.walks or global_state.hooked else _run)(roots, keep, create_graph, needed, None)


def _backward(self: Tensor, gradient: Any = None, retain_graph: bool | None = None, create_graph: bool = False, inputs: Any = None) -> None:
    """Add the gradient of this tensor with respect to the graph's leaves to their ``.grad``.

    Args:
        gradient: the cotangent, of this tensor's shape; may be left out for a scalar.
        retain_graph: keep saved values for another backward; defaults to create_graph.
        create_graph: record the backward itself, for higher derivatives.
        inputs: accumulate into these tensors only.
    Raises: RuntimeError when nothing requires a gradient, when the graph was freed, or when shapes do not fit.
    Source: torch.Tensor.backward.
    """
    backward(self, gradient, retain_graph, create_graph, inputs=inputs)


_backward.__name__, _backward.__qualname__ = "backward", "Tensor.backward"
publish(_backward, "backward")


def _warn_of_cycle(caller: Any) -> None:
    """Give torch's warning about ``create_graph=True``, at the line of the user's call."""
    warnings.warn(
        "Using backward() with create_graph=True will create a reference cycle between the parameter and its gradient which can cause a "
        "memory leak. We recommend using autograd.grad when creating the graph to avoid this. If you have to use this function, make sure "
        "to reset the .grad fields of your parameters to None after use to break the cycle and avoid the leak.",
        UserWarning,
        stacklevel=4 if caller.f_code is _backward.__code__ else 3,
    )


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    allow_unused: bool | None = None,
    materialize_grads: bool = False,
) -> Any:
    """The gradients of outputs with respect to inputs: ``autograd.grad`` for one cotangent for each output.

    Args:
        outputs, inputs: a Tensor (or ``graph.GradientEdge``), or several in anything that can be gone through; inputs may be a dict.
        grad_outputs: a cotangent for each output, or None for scalars.
        retain_graph, create_graph, allow_unused, materialize_grads: as in ``autograd.grad``.
    Returns: a tuple with a gradient for each input, of its shape and dtype; a dict of them for a dict.
    """
    wanted, several = _given_inputs(inputs, "grad"), _given_outputs(outputs, "outputs")
    allowed = allow_unused or materialize_grads
    found = _gradients(several, wanted, as_tuple(grad_outputs), retain_graph, create_graph, allowed, materialize_grads)
    return dict(zip(inputs, found, strict=True)) if type(inputs) is dict else found


def _gradients(
    outputs: tuple[Any, ...], wanted: tuple[Any, ...], given: tuple[Any, ...], retain_graph: bool | None, create_graph: bool,
    allow_unused: bool | None, materialize: bool,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """``grad`` of what was given; for an input that the outputs do not depend on zeros, None or an error."""
    if global_state.active and thread_state.interpreters and any(type(x) is Batched for x in (*outputs, *wanted)):
        level = max((each for x in (*outputs, *wanted) for each in levels_of(x)), key=lambda each: each.depth)
        found = level.gradients(outputs, wanted, given, retain_graph, create_graph)
    else:
        roots = _cotangents(_placed(outputs), given, create_graph)
        keep = create_graph if retain_graph is None else retain_graph
        found = tuple(_captured(roots, _placed(wanted, roots), keep, create_graph))
    results: list[Tensor | None] = []
    for i, (place, g) in enumerate(zip(wanted, found, strict=True)):
        if g is None and materialize:
            g = _zeros(place, create_graph)
        elif g is None and not allow_unused:
            shape = list(place.shape if isinstance(place, Tensor) else stand_in(place).shape)
            raise RuntimeError(
                f"The differentiated Tensor at index {i} appears to not have been used in the graph. Set allow_unused=True if this is "
                f"the desired behavior. Its shape is {shape}."
            )
        results.append(g if g is None or isinstance(g, Tensor) else wrap(g))
    return tuple(results)


def _zeros(tensor: Any, requires_grad: bool) -> Tensor:
    """Zeros, as the gradient of an input that was not used."""
    if type(tensor) is GradientEdge:
        raise RuntimeError("materialize_grads cannot be used when the given input is a GradientEdge that the outputs do not depend on")
    if type(tensor) is Batched:
        return tensor.again(_zeros(tensor.value, requires_grad))
    return wrap(zeros_like(tensor._array)).want_grad(requires_grad)


def from_undefined(outputs: list[tuple[Tensor, Any]], inputs: list[Tensor]) -> list[Any]:
    """The gradients of the inputs, where the gradient of some outputs is None, which stands for zeros.

    Hooks and custom Functions are called with it, as torch's are. For ``gradcheck``; nothing is freed.
    """
    captures: Captures = {x._node: None for x in inputs if x._node is not None}
    needed = leading_to([y._node for y, _ in outputs if y._node is not None], captures)
    roots = [(y._node, g) for y, g in outputs if y._node is not None and y._node in needed]
    with no_grad(), around_walk(outputs[0][0]._array):
        walk_recorded(roots, needed, captures)
    return [captures[x._node] for x in inputs if x._node is not None]


def _captured(roots: list[tuple[Node, Any]], wanted: tuple[Tensor, ...], keep: bool, create_graph: bool) -> list[Any]:
    """Walk only the part of the graph that leads to the wanted tensors; return the gradient of each, None where none arrived."""
    targets: list[Any] = [t._node for t in wanted]
    captures: Captures = dict.fromkeys(targets)
    needed = leading_to(dict(roots), captures)
    if needed:
        (_run_known if global_state.walks else _run)(roots, keep, create_graph, needed, captures)
    return list(captures.values()) if len(captures) == len(targets) else [captures[node] for node in targets]


_SEQ = attrgetter("seq")


def leading_to(starts: Iterable[Node], captures: Captures, run_ends: bool = False) -> Needed:
    """The nodes between starts and captures; True for those that must run, False for captures beyond which nothing is wanted.

    ``run_ends``: captures run too.
    """
    oldest = min(map(_SEQ, captures))
    reached = set(starts)
    order = list(reached)
    for node in order:  # which grows meanwhile
        for edge in node.edges:
            if edge is not None and edge not in reached and edge.seq >= oldest:
                reached.add(edge)
                order.append(edge)
    order.sort(key=_SEQ)
    needed: Needed = {}
    for node in order:
        captured = node in captures
        runs = run_ends and captured
        if not runs:
            for edge in node.edges:
                if edge in needed:
                    runs = True
                    break
        if runs or captured:
            needed[node] = runs
    return needed
