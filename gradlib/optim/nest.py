"""A nest of parameters as the one vector that SciPy works on, and derivatives of functions of it from the tape."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradlib.autograd.forward_ad import dual_level, make_dual, unpack_dual
from gradlib.autograd.gradient import grad
from gradlib.backend import dtype as dtypes
from gradlib.backend.array import is_array, move
from gradlib.core.grad_mode import no_grad, set_grad_enabled
from gradlib.core.tensor import Tensor
from gradlib.func.tree import flatten, unflatten
from gradlib.ops.from_data import as_tensor, tensor
from gradlib.ops.join import cat

_NUMBERS = (int, float, np.integer, np.floating)


class Nest:
    """The nesting of a start value, and the kind of each leaf: a tensor, an array or a number of some shape, dtype and device.

    A list or tuple of numbers alone is one vector, as SciPy takes it. Numbers are float64, as SciPy's are.
    """

    def __init__(self, start: Any, name: str) -> None:
        if isinstance(start, (list, tuple)) and not hasattr(start, "_fields"):
            inside = flatten(start)[0]
            if inside and all(isinstance(each, _NUMBERS) for each in inside):
                start = np.array(start, dtype=np.float64)
        self.leaves, self.structure = flatten(start)
        self.tensors = [_leaf(each, name) for each in self.leaves]
        self.sizes = [each.numel() for each in self.tensors]
        self.start = self.vector(self.tensors)

    @staticmethod
    def vector(values: list[Tensor]) -> np.ndarray:
        """The elements of all leaves, one after the other, in float64 on the host."""
        host = [move(each.detach()._array, None).reshape(-1).astype(np.float64) for each in values]
        return np.concatenate(host) if host else np.zeros(0)

    def split(self, vector: np.ndarray) -> list[Tensor]:
        """Leaves of the start value's dtypes and devices from a vector, with memory of their own."""
        pieces = np.split(np.asarray(vector), np.cumsum(self.sizes)[:-1])
        return [
            tensor(piece.reshape(like.shape), dtype=like.dtype, device=like.device)
            for piece, like in zip(pieces, self.tensors, strict=True)
        ]

    def of_tensors(self, values: list[Tensor]) -> Any:
        """The nest around tensors, which is what the user's functions take."""
        return unflatten(values, self.structure)

    def restored(self, vector: np.ndarray, rows: bool = False) -> Any:
        """The nest around what the start value's leaves were: tensors, arrays or numbers.

        Args:
            rows: each element is a row of the vector, whose further dimension each leaf then has last.
        """
        pieces = np.split(np.asarray(vector), np.cumsum(self.sizes)[:-1])
        found = []
        for piece, like, leaf in zip(pieces, self.tensors, self.leaves, strict=True):
            shape = (*like.shape, *piece.shape[1:]) if rows else like.shape
            value = tensor(piece.reshape(shape), dtype=like.dtype, device=like.device)
            kept = isinstance(leaf, Tensor)
            found.append(value if kept else value._array if is_array(leaf) or value.ndim else value.item())
        return unflatten(found, self.structure)


def _leaf(value: Any, name: str) -> Tensor:
    """A start value's leaf as a tensor of floats."""
    if not isinstance(value, (Tensor, *_NUMBERS)) and not is_array(value):
        raise TypeError(f"{name} is a nest of tensors, arrays and real numbers; got {type(value).__name__} in it")
    made = tensor(value, dtype=np.float64) if isinstance(value, _NUMBERS) else as_tensor(value).detach()
    if made.is_complex():
        raise TypeError(f"{name} is real for SciPy's methods, got {made.dtype}; search for the real and the imaginary part")
    return made if dtypes.is_floating_point(made.dtype) else made.to(dtypes.float64)


class Differentiated:
    """A function of a nest as functions of the vector: value and derivatives.

    Args:
        function: takes the nest and ``args``; returns a scalar, or a nest of tensors, which stands for its elements one after the other.
        nest: how the parameters are nested.
        name: of the function in errors.
        before: arguments in front of the nest, such as the time.
    """

    def __init__(self, function: Callable[..., Any], nest: Nest, name: str) -> None:
        self.function = function
        self.nest = nest
        self.name = name

    def _call(self, leaves: list[Tensor], before: tuple[Any, ...], args: tuple[Any, ...]) -> list[Tensor]:
        made = flatten(self.function(*before, self.nest.of_tensors(leaves), *args))[0]
        found = [each if isinstance(each, Tensor) else as_tensor(each) for each in made]
        for each in found:
            if each.is_complex():
                raise TypeError(f"{self.name} returns real numbers for SciPy's methods, got {each.dtype}")
        return found

    def values(self, vector: np.ndarray, *args: Any, before: tuple[Any, ...] = ()) -> np.ndarray:
        """The function's results as one vector."""
        with no_grad():
            return Nest.vector(self._call(self.nest.split(vector), before, args))

    def value(self, vector: np.ndarray, *args: Any) -> float:
        """The value of a function with one result. Raises: TypeError for another number of results."""
        return self._one(self.values(vector, *args))

    def _one(self, found: np.ndarray) -> float:
        if found.size != 1:
            raise TypeError(f"{self.name} returns one number, got {found.size}; least_squares takes residuals")
        return float(found[0])

    def _recorded(self, vector: np.ndarray, before: tuple[Any, ...], args: tuple[Any, ...]) -> tuple[list[Tensor], Tensor]:
        """The parameters as leaves of the graph, and the results as one tensor that depends on them."""
        with set_grad_enabled(True):
            leaves = [each.requires_grad_() for each in self.nest.split(vector)]
            made = self._call(leaves, before, args)
            result = made[0].reshape(-1) if len(made) == 1 else cat([each.reshape(-1) for each in made])
        if not result.requires_grad:
            raise RuntimeError(
                f"the result of {self.name} does not depend on its parameters by recorded operations, so the tape has no derivative of it; "
                "compute with gradlib's functions, or give jac='2-point'"
            )
        return leaves, result

    def value_and_gradient(self, vector: np.ndarray, *args: Any) -> tuple[float, np.ndarray]:
        """The value of a function with one result, and its gradient."""
        leaves, result = self._recorded(vector, (), args)
        value = self._one(Nest.vector([result]))
        return value, Nest.vector(list(grad(result.sum(), leaves, allow_unused=True, materialize_grads=True)))

    def gradient(self, vector: np.ndarray, *args: Any) -> np.ndarray:
        """The gradient of a function with one result."""
        return self.value_and_gradient(vector, *args)[1]

    def _recorded_gradient(self, vector: np.ndarray, args: tuple[Any, ...], weights: np.ndarray | None) -> tuple[list[Tensor], Tensor]:
        """The parameters as leaves, and the gradient of the (weighted sum of the) results as one tensor that depends on them."""
        leaves, result = self._recorded(vector, (), args)
        with set_grad_enabled(True):
            given = None if weights is None else tensor(np.asarray(weights), dtype=result.dtype, device=result.device)
            total = result.sum() if given is None else (result * given).sum()
            first = grad(total, leaves, create_graph=True, allow_unused=True, materialize_grads=True)
            return leaves, cat([each.reshape(-1) for each in first])

    def hessian_product(self, vector: np.ndarray, direction: np.ndarray, *args: Any) -> np.ndarray:
        """The Hessian times a vector."""
        leaves, first = self._recorded_gradient(vector, args, None)
        if not first.requires_grad:
            return np.zeros_like(vector)
        along = tensor(np.asarray(direction).reshape(-1), dtype=first.dtype, device=first.device)
        return Nest.vector(list(grad(first, leaves, along, allow_unused=True, materialize_grads=True)))

    def hessian(self, vector: np.ndarray, *args: Any, weights: np.ndarray | None = None) -> np.ndarray:
        """The matrix of second derivatives of the sum of the results, each times its weight."""
        leaves, first = self._recorded_gradient(vector, args, weights)
        return self._rows(leaves, first) if first.requires_grad else np.zeros((len(vector), len(vector)))

    def jacobian(self, vector: np.ndarray, *args: Any, before: tuple[Any, ...] = ()) -> np.ndarray:
        """The matrix of derivatives, a row for each result: by columns in forward mode where there are more results than parameters."""
        leaves, result = self._recorded(vector, before, args)
        if result.numel() > len(vector):
            try:
                return self._columns(vector, before, args)
            except NotImplementedError:  # a Function of the user's without jvp
                pass
        return self._rows(leaves, result)

    def _rows(self, leaves: list[Tensor], result: Tensor) -> np.ndarray:
        rows = []
        for number in range(result.numel()):
            unit = np.zeros(result.numel())
            unit[number] = 1
            along = tensor(unit, dtype=result.dtype, device=result.device)
            rows.append(Nest.vector(list(grad(result, leaves, along, retain_graph=True, allow_unused=True, materialize_grads=True))))
        return np.stack(rows)

    def _columns(self, vector: np.ndarray, before: tuple[Any, ...], args: tuple[Any, ...]) -> np.ndarray:
        columns = []
        for number in range(len(vector)):
            unit = np.zeros(len(vector))
            unit[number] = 1
            with no_grad(), dual_level():
                duals = [make_dual(value, along) for value, along in zip(self.nest.split(vector), self.nest.split(unit), strict=True)]
                tangents = [unpack_dual(each) for each in self._call(duals, before, args)]
                columns.append(Nest.vector([t.primal * 0 if t.tangent is None else t.tangent for t in tangents]))
        return np.stack(columns, axis=1)
