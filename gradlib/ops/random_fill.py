"""Tensors filled with random numbers in place: ``x.normal_()`` and its kin."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Callable
from typing import Any

import numpy as np

from gradlib.backend import dtype as dtypes
from gradlib.backend.array import Array, device_index, namespace, on_device_of
from gradlib.backend.copying import assign
from gradlib.core.inplace import check_inplace, write
from gradlib.core.modes import global_state, thread_state
from gradlib.core.op import publish
from gradlib.core.random import Generator, draws
from gradlib.core.tensor import Tensor, raw
from gradlib.ops.copies import copy
from gradlib.ops.random import check_range, check_std, finite_range, normal_numbers, stream, whole_range, zeros_and_ones

__all__: list[str] = []  # methods of Tensor


def fills(function: Callable[..., Tensor]) -> Callable[..., Tensor]:
    """Decorator of a method that fills a tensor with random numbers, on the tensor's device."""

    @functools.wraps(function)
    def call(self: Tensor, *args: Any, **named: Any) -> Tensor:
        check_inplace(self, function.__name__)  # before numbers are drawn, which would move the generator on
        with on_device_of(self._array):
            return function(self, *args, **named)

    made = draws(call)
    publish(made, function.__name__)
    return made


def _memory(target: Tensor) -> Array | None:
    """The memory of a tensor on a device into which numbers may be drawn at once; None where a write is to be recorded or looked at."""
    array = target._array
    if type(array) is np.ndarray or global_state.active or not array._c_contiguous:
        return None
    return array if target._node is None or not (thread_state.grad_enabled or not global_state.no_grad) else None


def _filled(name: str, target: Tensor, drawn: Array) -> Tensor:
    """Write drawn numbers, where they are not yet there; what the tensor depended on before gets a gradient of zero."""
    if drawn is target._array or (type(drawn) is not np.ndarray and _memory(target) is not None):
        if drawn is not target._array:
            assign(target._array, ..., drawn)
        (target._version_slot or target.version).bump()
        return target
    return write(target, lambda shadow: copy(shadow, drawn), name, copies_input=False)


def _floating(name: str, target: Tensor) -> np.dtype:
    dtype = target._array.dtype
    if dtypes.category(dtype) < 2 or (dtype.kind == "c" and name not in ("normal_", "uniform_")):
        raise NotImplementedError(f"{name} gives floating-point numbers; the tensor to be filled has dtype {dtype}")
    return dtype


@fills
def normal_(self: Tensor, mean: float = 0, std: float = 1, *, generator: Generator | None = None) -> Tensor:
    """Fill with normal numbers. Returns: this tensor. Source: torch.Tensor.normal_."""
    check_std(std)
    kind, source = _floating("normal_", self), stream(generator, device_index(self._array))
    return _filled("normal_", self, normal_numbers(source, self._array.shape, kind, mean, std, _memory(self)))


def _uniform(name: str, self: Tensor, generator: Generator | None) -> Array:
    """Uniform numbers in [0, 1) for each element; half types are drawn in float32."""
    kind = _floating(name, self)
    return stream(generator, device_index(self._array)).uniform(self._array.shape, kind if kind.itemsize > 2 else dtypes.float32)


def _drawn_into(self: Tensor, generator: Generator | None, kind: str, *numbers: float) -> bool:
    """Whether a device has drawn numbers of a kind, computed in float32 of half types, into a tensor's memory: then that is written."""
    if (memory := _memory(self)) is None or dtypes.category(memory.dtype) != 2:
        return False
    stream(generator, memory.data.device_id).draw(kind, memory.shape, memory.dtype, *numbers, out=memory)
    (self._version_slot or self.version).bump()
    return True


@fills
def uniform_(self: Tensor, low: float = 0, to: float = 1, *, generator: Generator | None = None) -> Tensor:
    """Fill with uniform numbers in [low, to). Returns: this tensor. Source: torch.Tensor.uniform_."""
    kind = _floating("uniform_", self)
    least, most = finite_range(kind)
    for what, number in (("from", low), ("to", to)):
        if not least <= number <= most:
            raise RuntimeError(f"uniform_: {what} is out of bounds for {kind}, which holds {least} to {most}, got {number}")
    if low > to:
        raise RuntimeError(f"uniform_ expects to return a [from, to) range, but found from={low} > to={to}")
    if to - low > most:
        raise RuntimeError(f"uniform_ expects to - from <= {most}, the most that {kind} holds, but found from={low} and to={to}")
    if kind.itemsize == 2:
        to = below_half(low, to, kind)
    if _drawn_into(self, generator, "uniform", to - low, low):
        return self
    drawn = _uniform("uniform_", self, generator)
    return _filled("uniform_", self, drawn * drawn.dtype.type(to - low) + drawn.dtype.type(low))


def below_half(low: float, to: float, dtype: np.dtype) -> float:
    """The bound for numbers of float32 from ``low`` that are to stay below ``to`` when they are rounded to a half type."""
    bound = np.asarray(to, dtype)
    least = np.nextafter(bound, np.asarray(low, dtype))
    if not low < float(least) < to <= float(bound):
        return to
    middle = np.float32((float(least) + float(bound)) / 2)
    return float(middle - 4 * np.spacing(np.maximum(abs(middle), np.float32(abs(low)))))  # and the sum with `low` is rounded too


@fills
def bernoulli_(self: Tensor, p: Any = 0.5, *, generator: Generator | None = None) -> Tensor:
    """Fill with 1 with probability p (a number, or a Tensor that broadcasts) and 0 else. Source: torch.Tensor.bernoulli_."""
    return _filled("bernoulli_", self, zeros_and_ones(self._array, raw(p), generator, _memory(self)))


@fills
def random_(self: Tensor, low: int | None = None, to: int | None = None, *, generator: Generator | None = None) -> Tensor:
    """Fill with integers from low up to but not including to; ``random_(to)`` begins at 0. Source: torch.Tensor.random_.

    Without bounds, all values that the dtype holds exactly, from 0.
    """
    kind = self._array.dtype
    if to is None or low is None:
        bound = low if to is None else to
        low, to = 0, min(whole_range(kind)[1] + 1, (1 << 63) - 1) if bound is None else bound
    low, to = operator.index(low), operator.index(to)
    check_range("random_", low, to, kind)
    source, memory = stream(generator, device_index(self._array)), _memory(self) if kind == dtypes.int64 else None
    return _filled("random_", self, source.integers(low, to, self._array.shape, memory))


@fills
def exponential_(self: Tensor, lambd: float = 1, *, generator: Generator | None = None) -> Tensor:
    """Fill with exponential numbers of rate lambd. Returns: this tensor. Source: torch.Tensor.exponential_."""
    if not lambd > 0:
        raise RuntimeError(f"exponential_ expects lambda > 0.0, but found lambda={lambd}")
    if _drawn_into(self, generator, "exponential", lambd):
        return self
    drawn = _uniform("exponential_", self, generator)
    return _filled("exponential_", self, -namespace(drawn).log1p(-drawn) / drawn.dtype.type(lambd))


@fills
def log_normal_(self: Tensor, mean: float = 1, std: float = 2, *, generator: Generator | None = None) -> Tensor:
    """Fill with numbers whose logarithms are normal with this mean and deviation. Source: torch.Tensor.log_normal_."""
    if not std > 0:
        raise RuntimeError(f"log_normal_ expects std > 0.0, but found std={std}")
    kind = _floating("log_normal_", self)
    if _drawn_into(self, generator, "log_normal", float(kind.type(std)), float(kind.type(mean))):
        return self
    drawn = stream(generator, device_index(self._array)).normal(self._array.shape, kind)
    return _filled("log_normal_", self, namespace(drawn).exp(drawn * kind.type(std) + kind.type(mean)))


@fills
def geometric_(self: Tensor, p: float, *, generator: Generator | None = None) -> Tensor:
    """Fill with the number of tries until the first success of probability p. Source: torch.Tensor.geometric_."""
    if not 0 < p < 1:
        raise RuntimeError(f"geometric_ expects p to be in (0, 1), but got p={p}")
    if self._array.dtype.kind in "bc":
        raise NotImplementedError(f"geometric_ gives whole numbers, for tensors of integers or floats, got {self.dtype}")
    if _drawn_into(self, generator, "geometric", math.log1p(-p)):
        return self
    drawn = stream(generator, device_index(self._array)).uniform(self._array.shape, dtypes.float64)
    xp = namespace(drawn)
    return _filled("geometric_", self, xp.maximum(xp.ceil(xp.log1p(-drawn) / math.log1p(-p)), 1))


@fills
def cauchy_(self: Tensor, median: float = 0, sigma: float = 1, *, generator: Generator | None = None) -> Tensor:
    """Fill with numbers of the Cauchy distribution. Source: torch.Tensor.cauchy_."""
    if not sigma > 0:
        raise RuntimeError(f"cauchy_ expects sigma > 0.0, but found sigma={sigma}")
    if _drawn_into(self, generator, "cauchy", sigma, median):
        return self
    drawn = _uniform("cauchy_", self, generator)
    return _filled("cauchy_", self, namespace(drawn).tan(drawn.dtype.type(math.pi) * (drawn - drawn.dtype.type(0.5))) * sigma + median)
