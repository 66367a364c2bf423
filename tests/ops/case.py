"""One row of the table that drives the tests of all operations, and how its inputs are drawn."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

import gradlib
from gradlib.backend.array import device_index, move
from gradlib.backend.device import resolve
from gradlib.core.tensor import Tensor, raw

Rng = np.random.Generator


@dataclass(frozen=True)
class Case:
    """An operation with inputs and what it must give.

    Attributes:
        op: the name in the registry of operations or composites that this row covers.
        call: from Tensors (or raw arrays) to the result (or a tuple of results).
        inputs: draws the float64 inputs (integers, bools and anything that is no array as they are).
        reference: the same on NumPy arrays, written independently of gradlib; None where another test checks the value.
        differentiable: check first and second derivatives with respect to every floating input.
        second: also check second derivatives.
        complex: also run the row on complex inputs (made from two draws).
        dtypes: the dtypes in which the value is checked.
        tolerance: relative and absolute tolerance of the float64 value; float32 is checked at 2e-5, half types at 2e-2.
        label: tells rows of one operation apart.
    """

    op: str
    call: Callable[..., Any]
    inputs: Callable[[Rng], Sequence[Any]]
    reference: Callable[..., Any] | None = None
    differentiable: bool = True
    second: bool = True
    complex: bool = False
    dtypes: tuple[str, ...] = ("float64", "float32")
    tolerance: float = 1e-11
    label: str = ""

    @property
    def id(self) -> str:
        return f"{self.op}-{self.label}" if self.label else self.op


def t(values: Any, dtype: Any = None, requires_grad: bool = False) -> Tensor:
    """A tensor of numbers."""
    return gradlib.tensor(values, dtype=dtype, requires_grad=requires_grad)


def normal(*shapes: tuple[int, ...]) -> Callable[[Rng], list[np.ndarray]]:
    """Draws one standard normal array per shape."""
    return lambda rng: [rng.standard_normal(shape) for shape in shapes]


def uniform(low: float, high: float, *shapes: tuple[int, ...]) -> Callable[[Rng], list[np.ndarray]]:
    """Draws one uniform array per shape."""
    return lambda rng: [rng.uniform(low, high, shape) for shape in shapes]


def spread(*shapes: tuple[int, ...]) -> Callable[[Rng], list[np.ndarray]]:
    """Draws values at least 0.1 apart and 0.05 from 0, for operations with ties or kinks there."""

    def draw(rng: Rng) -> list[np.ndarray]:
        drawn = []
        for shape in shapes:
            count = int(np.prod(shape))
            drawn.append(((rng.permutation(count) - count // 2) * 0.3 + 0.07 + rng.uniform(0, 0.05, count)).reshape(shape))
        return drawn

    return draw


def as_tensors(arrays: Sequence[Any], dtype: str, device: str, requires_grad: bool = False) -> list[Any]:
    """Tensors from drawn arrays: floats in dtype, complex ones in its complex, integers and bools as they are."""
    made = []
    for array in arrays:
        if not isinstance(array, np.ndarray):
            made.append(array)
            continue
        if array.dtype.kind == "f":
            tensor = gradlib.tensor(array, dtype=dtype, device=device)
        elif array.dtype.kind == "c":
            tensor = gradlib.tensor(array, dtype="complex128" if dtype == "float64" else "complex64", device=device)
        else:
            tensor = gradlib.tensor(array, device=device)
        made.append(tensor.requires_grad_() if requires_grad and array.dtype.kind in "fc" else tensor)
    return made


def as_arrays(arrays: Sequence[Any], device: str) -> list[Any]:
    """The drawn arrays on the device; what is no array as it is."""
    return [move(array, resolve(device)) if isinstance(array, np.ndarray) else array for array in arrays]


def beside(x: Any, array: np.ndarray) -> Any:
    """The array on the device of x, a Tensor or an array."""
    return move(array, device_index(raw(x)))


def results(value: Any) -> list[Tensor]:
    """The results of a call as a list."""
    return list(value) if isinstance(value, (tuple, list)) else [value]
