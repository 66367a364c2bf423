"""New random tensors, and tensors filled with random numbers in place. The numbers come from ``backend/random.py``."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradlib.backend import dtype as dtypes
from gradlib.backend.array import Array, device_index
from gradlib.backend.device import resolve
from gradlib.backend.random import Generator, default_generator
from gradlib.core.op import publish
from gradlib.core.tensor import Tensor
from gradlib.ops.create import finished, ignored, size_given
from gradlib.ops.dims import sizes_of

__all__ = ["rand", "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm"]


def stream(generator: Generator | None, index: int | None) -> Generator:
    """The generator to draw from on a device. Raises: RuntimeError when the one given belongs to another device."""
    if generator is None:
        return default_generator(index)
    if resolve(generator.device) != index:
        wanted = "cpu" if index is None else f"cuda:{index}"
        raise RuntimeError(f"Expected a '{wanted}' device for generator but found '{generator.device}'")
    return generator


def _shape(name: str, size: tuple[Any, ...]) -> tuple[int, ...]:
    shape = sizes_of(size)
    if any(n < 0 for n in shape):
        raise RuntimeError(f"Trying to create tensor with negative dimension: {name} got {list(shape)}")
    return shape


def _inexact(name: str, dtype: Any) -> np.dtype:
    chosen = dtypes.as_dtype(dtype) or dtypes.get_default_dtype()
    if dtypes.category(chosen) < 2:
        raise NotImplementedError(f"{name} gives floating-point or complex numbers, not {chosen}; use randint for integers")
    return chosen


def _index(device: Any, generator: Generator | None) -> int | None:
    return resolve(generator.device if device is None and generator is not None else device)


def rand(
    *size: Any, generator: Generator | None = None, dtype: Any = None, device: Any = None, requires_grad: bool = False, **other: Any
) -> Tensor:
    """Uniform numbers in [0, 1): ``rand(2, 3)`` or ``rand((2, 3))``. Source: torch.rand."""
    shape = _shape("rand", size_given("rand", size, ignored("rand", other)))
    return finished(stream(generator, _index(device, generator)).uniform(shape, _inexact("rand", dtype)), requires_grad)


def randn(
    *size: Any, generator: Generator | None = None, dtype: Any = None, device: Any = None, requires_grad: bool = False, **other: Any
) -> Tensor:
    """Normal numbers with mean 0 and variance 1: ``randn(2, 3)`` or ``randn((2, 3))``. Source: torch.randn."""
    shape = _shape("randn", size_given("randn", size, ignored("randn", other)))
    return finished(stream(generator, _index(device, generator)).normal(shape, _inexact("randn", dtype)), requires_grad)


def randint(
    low: int, high: Any = None, size: Any = None, *, generator: Generator | None = None, dtype: Any = None, device: Any = None,
    requires_grad: bool = False, **other: Any,
) -> Tensor:  # fmt: skip
    """Integers from low (0 when left out) up to but not including high.

    Args:
        low, high: ``randint(high, size)`` or ``randint(low, high, size)``.
        dtype: int64 when left out.
    Raises: RuntimeError unless low < high.
    Source: torch.randint.
    """
    ignored("randint", other)
    if isinstance(high, (tuple, list)) or high is None:
        low, high, size = 0, low, size if high is None else high
    shape = _shape("randint", (size,))
    _check_range("randint", low, high)
    drawn = stream(generator, _index(device, generator)).integers(int(low), int(high), shape)
    return finished(drawn.astype(dtypes.as_dtype(dtype) or dtypes.int64, copy=False), requires_grad)


def _check_range(name: str, low: Any, high: Any) -> None:
    if low >= high:
        raise RuntimeError(f"{name}: random numbers need 'from' to be less than 'to', but got from={low} >= to={high}")


def randperm(n: int, *, generator: Generator | None = None, dtype: Any = None, device: Any = None, **other: Any) -> Tensor:
    """The integers from 0 to n - 1 in random order. Source: torch.randperm."""
    wants = bool(other.pop("requires_grad", False))
    ignored("randperm", other)
    _shape("randperm", (n,))
    drawn = stream(generator, _index(device, generator)).permutation(n)
    return finished(drawn.astype(dtypes.as_dtype(dtype) or dtypes.int64, copy=False), wants)


def rand_like(
    input: Tensor, *, generator: Generator | None = None, dtype: Any = None, device: Any = None, requires_grad: bool = False, **other: Any  # noqa: A002
) -> Tensor:
    """Uniform numbers in [0, 1) with the input's shape, dtype and device. Source: torch.rand_like."""
    ignored("rand_like", other)
    return rand(input.shape, generator=generator, dtype=dtype or input.dtype, device=device or input.device, requires_grad=requires_grad)


def randn_like(
    input: Tensor, *, generator: Generator | None = None, dtype: Any = None, device: Any = None, requires_grad: bool = False, **other: Any  # noqa: A002
) -> Tensor:
    """Normal numbers with the input's shape, dtype and device. Source: torch.randn_like."""
    ignored("randn_like", other)
    return randn(input.shape, generator=generator, dtype=dtype or input.dtype, device=device or input.device, requires_grad=requires_grad)


def randint_like(
    input: Tensor, low: int, high: int | None = None, *, generator: Generator | None = None, dtype: Any = None, device: Any = None,  # noqa: A002
    requires_grad: bool = False, **other: Any,
) -> Tensor:  # fmt: skip
    """Integers from low (0 when left out) up to high, with the input's shape, dtype and device. Source: torch.randint_like."""
    ignored("randint_like", other)
    if high is None:
        low, high = 0, low
    return randint(
        low, high, tuple(input.shape), generator=generator, dtype=dtype or input.dtype, device=device or input.device, requires_grad=requires_grad
    )
