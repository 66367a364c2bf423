"""Values and derivatives of functions of arrays and their nests: reverse and forward mode, one inside the other as deep as one likes.

For arrays the function gets Arrays (``gradlib/numpy/numpy_array.py``), which have NumPy's methods and operators, and computes with NumPy's
functions, ``gradlib.numpy`` or gradlib's own. Outside of any other derivative arrays come back; inside one Arrays, which the outer one
differentiates.
"""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from gradlib.autograd.gradient import grad
from gradlib.backend.array import is_array, is_cupy, namespace
from gradlib.backend.dtype import is_differentiable
from gradlib.backend.thread import carried
from gradlib.core.forward import ForwardLevel
from gradlib.core.grad_mode import set_grad_enabled
from gradlib.core.modes import thread_state
from gradlib.core.proxy import unwrapped
from gradlib.core.tensor import Tensor, wrap
from gradlib.func.tree import flatten, map_leaves, unflatten
from gradlib.numpy.numpy_array import Array, as_array
from gradlib.numpy.operands import native
from gradlib.ops.create import zeros_like

NUMBERS = (bool, int, float, complex, np.generic)


class _State(threading.local):
    depth = 0  # how many functions are being differentiated around this place


_state = carried(_State())


@contextmanager
def inside(recording: bool) -> Iterator[None]:
    """Within a function that is differentiated; ``recording`` for reverse mode."""
    _state.depth += 1
    try:
        with set_grad_enabled(recording):
            yield
    finally:
        _state.depth -= 1


def is_traced(*values: Any) -> bool:
    """Whether derivatives of these values may be wanted by someone around: then Tensors are returned and the graph goes on."""
    return _state.depth > 0 or any(isinstance(leaf, Tensor) for leaf in flatten(values)[0])


def as_leaf(value: Any) -> Tensor:
    """A number, an array or a Tensor as a Tensor of floats. Raises: TypeError for anything else."""
    if isinstance(value, Tensor):
        made = unwrapped(value)
    elif is_array(value):
        made = wrap(native(value))
    elif isinstance(value, NUMBERS):
        made = wrap(native(np.asarray(value)))
    else:
        raise TypeError(f"Can't differentiate w.r.t. type {type(value)}: arguments are numbers, arrays, Tensors, or nests of them")
    return made if is_differentiable(made.dtype) else made.double()


def as_value(tensor: Any) -> Any:
    """A Tensor as the user sees it outside of any derivative: an array, or NumPy's number on the host."""
    if not isinstance(tensor, Tensor):
        return tensor
    array = tensor.detach()._array
    return array if is_cupy(array) or array.ndim else array[()]


def returned(value: Any, traced: bool) -> Any:
    """A nest of results as its caller gets it."""
    if not traced:
        return map_leaves(as_value, value)
    return map_leaves(as_array, value) if _state.depth else value


class Recorded:
    """A function called once in reverse mode: its value, and the pieces of the graph that its derivative walks.

    Args:
        function: takes a nest; returns one.
        x: the nest at which it is called.
    """

    def __init__(self, function: Callable[[Any], Any], x: Any) -> None:
        self.traced = is_traced(x)
        leaves, self.structure = flatten(x)
        with inside(recording=True):
            self.inputs = [_entered(leaf) for leaf in leaves]
            self.made = function(unflatten(self.inputs, self.structure))
        self.outputs, self.nest = flatten(self.made)
        self.reached = [isinstance(each, Tensor) and each.requires_grad for each in self.outputs]
        if not any(self.reached):
            warnings.warn("Output seems independent of input.", stacklevel=4)

    @property
    def value(self) -> Any:
        """The function's value."""
        return returned(self.made, self.traced)

    def pull(self, g: Any) -> Any:
        """The product of a cotangent, nested as the value, with the Jacobian, nested as the argument."""
        cotangents, nest = flatten(g)
        if len(cotangents) != len(self.outputs):
            raise ValueError(f"a cotangent is nested as the value, {self.nest}; got {nest}")
        traced = self.traced or is_traced(g)
        used = [(y, _fitting(c, y)) for y, c, real in zip(self.outputs, cotangents, self.reached, strict=True) if real]
        with set_grad_enabled(traced):
            found = self._gradients(used, traced)
        return returned(unflatten([each.conj() if each.is_complex() else each for each in found], self.structure), traced)

    def _gradients(self, used: list[tuple[Tensor, Tensor]], traced: bool) -> list[Tensor]:
        if not used or not self.inputs:
            return [zeros_like(each.detach()) for each in self.inputs]
        outputs, cotangents = zip(*used, strict=True)
        found = grad(outputs, self.inputs, cotangents, retain_graph=True, create_graph=traced, allow_unused=True)
        return [zeros_like(x.detach()) if each is None else each for x, each in zip(self.inputs, found, strict=True)]


def _entered(leaf: Any) -> Tensor:
    """A new place in the graph for an argument: an outer derivative goes through it, and this one stops there.

    An Array, but for a user's Tensor.
    """
    value = as_leaf(leaf)
    if not isinstance(leaf, Tensor):
        return as_array(value.want_grad())
    made = value.view_as(value)
    return as_array(made.want_grad()) if isinstance(leaf, Array) else made.want_grad()


def _fitting(cotangent: Any, output: Tensor) -> Tensor:
    """A cotangent of its output's dtype and shape. HIPS multiplies by the transposed Jacobian, torch by its conjugate too."""
    g = as_leaf(cotangent)
    if g.shape != output.shape:
        g = g.broadcast_to(output.shape)
    if g.dtype != output.dtype or g.device != output.device:
        g = g.real if g.is_complex() and not output.is_complex() else g
        g = g.to(dtype=output.dtype, device=output.device)
    return g.conj() if g.is_complex() else g


def pushed(function: Callable[[Any], Any], x: Any, v: Any) -> tuple[Any, Any]:
    """The value of a function, and its Jacobian times a tangent that is nested as the argument, in forward mode."""
    traced = is_traced(x, v)
    leaves, structure = flatten(x)
    tangents = flatten(v)[0]
    if len(tangents) != len(leaves):
        raise ValueError(f"a tangent is nested as the argument, {structure}; got {flatten(v)[1]}")
    level = ForwardLevel(in_inference=thread_state.inference)
    with level, inside(recording=traced and thread_state.grad_enabled):
        duals = []
        for leaf, tangent in zip(leaves, tangents, strict=True):
            primal, along = as_leaf(leaf), as_leaf(tangent)
            if along.shape != primal.shape:
                along = along.broadcast_to(primal.shape)
            dual = level.dual(primal, along.to(dtype=primal.dtype, device=primal.device))
            duals.append(dual if isinstance(leaf, Tensor) and not isinstance(leaf, Array) else as_array(dual))
        outputs, nest = flatten(function(unflatten(duals, structure)))
        found = [level.tangent(y) if isinstance(y, Tensor) else None for y in outputs]
        values = [y if t is None else level.dual(y, None) for y, t in zip(outputs, found, strict=True)]
    moved = [_zero_of(y) if t is None else t for y, t in zip(outputs, found, strict=True)]
    return returned(unflatten(values, nest), traced), returned(unflatten(moved, nest), traced)


def _zero_of(value: Any) -> Any:
    if isinstance(value, Tensor):
        return zeros_like(value.detach())
    return namespace(value).zeros_like(value) if is_array(value) else 0.0


def ones_of(value: Any) -> Any:
    """A nest of ones in the shapes and dtypes of a nest's leaves."""
    return map_leaves(lambda leaf: _filled(leaf, 1), value)


def zeros_of(value: Any) -> Any:
    """A nest of zeros in the shapes and dtypes of a nest's leaves."""
    return map_leaves(lambda leaf: _filled(leaf, 0), value)


def _filled(leaf: Any, number: int) -> Any:
    like = as_leaf(leaf).detach()
    return as_value(zeros_like(like) + number)


def size_of(value: Any) -> int:
    """The number of real numbers in a nest: two for a complex one."""
    leaves = [as_leaf(each) for each in flatten(value)[0]]
    return sum(each.numel() * (2 if each.is_complex() else 1) for each in leaves)
