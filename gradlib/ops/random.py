"""Random numbers: new tensors of them. They come from ``backend/random.py``; ``random_fill.py`` fills tensors with them."""

from __future__ import annotations

import functools
import operator
import warnings
from typing import Any

import numpy as np

from gradlib.backend import dtype as dtypes
from gradlib.backend.array import Array, device_index, is_array, namespace, on_device_of
from gradlib.backend.device import resolve
from gradlib.backend.random import first_places
from gradlib.core.compile import named
from gradlib.core.modes import global_state
from gradlib.core.op import op, publish
from gradlib.core.out import takes_out
from gradlib.core.random import Generator, default_generator, drawing, draws
from gradlib.core.tensor import Tensor, raw, wrap
from gradlib.ops.copies import copy
from gradlib.ops.create import finished, ignored, size_given, zeros_like
from gradlib.ops.dims import sizes_of
from gradlib.ops.shape import expand

__all__ = ["bernoulli", "multinomial", "normal", "rand", "rand_like", "randint", "randint_like", "randn", "randn_like", "randperm"]


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
    if shape and min(shape) < 0:
        raise RuntimeError(f"Trying to create tensor with negative dimension: {name} got {list(shape)}")
    return (*drawing.batch, *shape)


def _inexact(name: str, dtype: Any) -> np.dtype:
    chosen: Any = dtypes.get_default_dtype() if dtype is None else dtypes.as_dtype(dtype)
    if dtypes.category(chosen) < 2:
        raise NotImplementedError(f"{name} gives floating-point or complex numbers, not {chosen}; use randint for integers")
    return chosen


def _source(device: Any, generator: Generator | None) -> Generator:
    """The generator to draw from where new numbers shall be."""
    if generator is None:
        return default_generator(resolve(device))
    return stream(generator, resolve(generator.device if device is None else device))


def _source_like(like: Array, device: Any, generator: Generator | None) -> Generator:
    """The same for numbers beside an array, or on another device."""
    return stream(generator, resolve(device) if device else device_index(like))


@takes_out
@draws
def rand(
    *size: Any, generator: Generator | None = None, dtype: Any = None, device: Any = None, requires_grad: bool = False, **other: Any
) -> Tensor:
    """Uniform numbers in [0, 1): ``rand(2, 3)`` or ``rand((2, 3))``.

    Args:
        size: the shape, as numbers or as a tuple.
        generator: where the numbers come from; the device's default one when left out.
        dtype: the default float dtype when left out.
        device, requires_grad: as in ``tensor``.
    Source: torch.rand.
    Example:
        >>> gradlib.rand(2, 3).shape
        gradlib.Size([2, 3])
    """
    if other or not size:
        size = size_given("rand", size, ignored("rand", other))
    shape = _shape("rand", size)
    return finished(_source(device, generator).uniform(shape, _inexact("rand", dtype)), requires_grad, other.get("pin_memory"))


@takes_out
@draws
def randn(
    *size: Any, generator: Generator | None = None, dtype: Any = None, device: Any = None, requires_grad: bool = False, **other: Any
) -> Tensor:
    """Normal numbers with mean 0 and variance 1: ``randn(2, 3)`` or ``randn((2, 3))``.

    Args:
        size: the shape, as numbers or as a tuple.
        generator: where the numbers come from; the device's default one when left out.
        dtype: the default float dtype when left out.
        device, requires_grad: as in ``tensor``.
    Source: torch.randn.
    Example:
        >>> gradlib.randn(2, 3).shape
        gradlib.Size([2, 3])
    """
    if other or not size:
        size = size_given("randn", size, ignored("randn", other))
    shape = _shape("randn", size)
    return finished(_source(device, generator).normal(shape, _inexact("randn", dtype)), requires_grad, other.get("pin_memory"))


@takes_out
@draws
def randint(
    low: int, high: Any = None, size: Any = None, *, generator: Generator | None = None, dtype: Any = None, device: Any = None,
    requires_grad: bool = False, **other: Any,
) -> Tensor:  # fmt: skip
    """Integers from low (0 when left out) up to but not including high.

    Args:
        low, high: ``randint(high, size)`` or ``randint(low, high, size)``.
        size: the shape, as a tuple.
        generator: where the numbers come from; the device's default one when left out.
        dtype: int64 when left out.
        device, requires_grad: as in ``tensor``.
    Raises: RuntimeError unless low < high, and for numbers that the dtype does not hold; a UserWarning for those that it rounds.
    Source: torch.randint.
    Example:
        >>> gradlib.randint(0, 10, (2, 3)).shape
        gradlib.Size([2, 3])
    """
    if other:
        ignored("randint", other)
    if isinstance(high, (tuple, list)) or high is None:
        low, high, size = 0, low, size if high is None else high
    return _integers(low, high, size, _source(device, generator), dtype, requires_grad, other.get("pin_memory"))


def _integers(low: int, high: int, size: Any, source: Generator, dtype: Any, requires_grad: bool, pin_memory: Any) -> Tensor:
    shape = _shape("randint", (size,))
    given = None if dtype is None else dtypes.as_dtype(dtype)
    chosen = dtypes.int64 if given is None else given
    least, most = whole_range(chosen)
    if not least <= low < high <= most + 1:
        check_range("randint", low, high, chosen)
    drawn = source.integers(operator.index(low), operator.index(high), shape)
    return finished(drawn if chosen is drawn.dtype else _of_dtype(drawn, chosen), requires_grad, pin_memory)


def _of_dtype(drawn: Array, dtype: np.dtype) -> Array:
    """The integers that were drawn in the dtype that was asked for."""
    if dtype == drawn.dtype:
        return drawn
    with on_device_of(drawn):
        return drawn.astype(dtype)


def check_range(name: str, low: Any, high: Any, dtype: np.dtype) -> None:
    """Refuse whole numbers from ``low`` to below ``high`` that a dtype does not hold, and warn of those that it rounds."""
    if dtype.kind == "c":
        raise RuntimeError(f"{name} gives whole numbers, for tensors of integers, floats or bools, got {dtype}")
    if low >= high:
        raise RuntimeError(f"{name}: random numbers need 'from' to be less than 'to', but got from={low} >= to={high}")
    if dtype == dtypes.int64:
        return
    least, most = finite_range(dtype)
    exact = None if dtype.kind in "biu" else whole_range(dtype)[1]
    for what, number in (("from", low), ("to - 1", high - 1)):
        if not least <= number <= most:
            raise RuntimeError(f"{name}: {what} is out of bounds for {dtype}, which holds {least} to {most}, got {number}")
        if exact is not None and abs(number) > exact:
            warnings.warn(
                f"{name}: {what} is out of bounds [-{exact}, {exact}], beyond which {dtype} does not hold every whole number, got {number}",
                UserWarning, stacklevel=4,
            )  # fmt: skip


@functools.cache
def whole_range(dtype: np.dtype) -> tuple[int, int]:
    """The whole numbers from one to another that a dtype holds without a gap; none of complex numbers."""
    if dtype.kind == "c":
        return 0, -1
    if dtype.kind in "biu":
        return finite_range(dtype)
    most = 1 << {2: 8 if dtypes.is_bfloat16(dtype) else 11, 4: 24, 8: 53}[dtype.itemsize]
    return -most, most


@functools.cache
def finite_range(dtype: np.dtype) -> tuple[Any, Any]:
    """The least and the largest finite number of a dtype."""
    if dtype.kind == "b":
        return 0, 1
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return int(limits.min), int(limits.max)
    most = min(dtypes.largest(dtype), float(np.finfo(np.float64).max))
    return -most, most


@takes_out
@draws
def randperm(n: int, *, generator: Generator | None = None, dtype: Any = None, device: Any = None, **other: Any) -> Tensor:
    """The integers from 0 to n - 1 in random order.

    Args:
        n: how many numbers.
        generator: where they come from.
        dtype: int64 when left out.
        device: as in ``tensor``.
    Raises: RuntimeError for more numbers than the dtype holds, NotImplementedError for one of bools or complex numbers.
    Source: torch.randperm.
    Example:
        >>> gradlib.randperm(3).sort().values
        tensor([0, 1, 2])
    """
    wants = bool(other.pop("requires_grad", False))
    if other:
        ignored("randperm", other)
    n = operator.index(n)
    if n < 0:
        _shape("randperm", (n,))  # which refuses it
    chosen = None if dtype is None else dtypes.as_dtype(dtype)
    if chosen is not None:
        _check_places(n, chosen)
    drawn = _source(device, generator).permutation(n, drawing.batch)
    return finished(drawn if chosen is None else _of_dtype(drawn, chosen), wants, other.get("pin_memory"))


def _check_places(n: int, dtype: np.dtype) -> None:
    """Refuse a dtype that does not hold each of the numbers below n, or is not for numbers; of bfloat16 torch does not ask."""
    if dtype.kind in "bc":
        raise NotImplementedError(f"randperm gives whole numbers, for tensors of integers or floats, got {dtype}")
    most = n if dtypes.is_bfloat16(dtype) else whole_range(dtype)[1] + 1
    if n > most:
        raise RuntimeError(f"randperm: n cannot be greater than {most} for {dtype}, got {n}")


@draws
def rand_like(
    input: Tensor, *, generator: Generator | None = None, dtype: Any = None, device: Any = None, requires_grad: bool = False, **other: Any
) -> Tensor:
    """Uniform numbers in [0, 1) with the input's shape, dtype and device.

    Args:
        input: the tensor whose shape, dtype and device are taken.
        generator: where the numbers come from; the device's own when left out.
        dtype, device, requires_grad: what shall differ, as in ``tensor``.
    Source: torch.rand_like.
    Example:
        >>> gradlib.rand_like(gradlib.zeros(2, 3)).shape
        gradlib.Size([2, 3])
    """
    if other:
        ignored("rand_like", other)
    like = input._array
    drawn = _source_like(like, device, generator).uniform((*drawing.batch, *like.shape), _inexact("rand", dtype or like.dtype))
    return finished(drawn, requires_grad, other.get("pin_memory"))


@draws
def randn_like(
    input: Tensor, *, generator: Generator | None = None, dtype: Any = None, device: Any = None, requires_grad: bool = False, **other: Any
) -> Tensor:
    """Normal numbers with the input's shape, dtype and device.

    Args:
        input: the tensor whose shape, dtype and device are taken.
        generator: where the numbers come from; the device's own when left out.
        dtype, device, requires_grad: what shall differ, as in ``tensor``.
    Source: torch.randn_like.
    Example:
        >>> gradlib.randn_like(gradlib.zeros(2, 3)).shape
        gradlib.Size([2, 3])
    """
    if other:
        ignored("randn_like", other)
    like = input._array
    drawn = _source_like(like, device, generator).normal((*drawing.batch, *like.shape), _inexact("randn", dtype or like.dtype))
    return finished(drawn, requires_grad, other.get("pin_memory"))


@draws
def randint_like(
    input: Tensor, low: int, high: int | None = None, *, generator: Generator | None = None, dtype: Any = None, device: Any = None,
    requires_grad: bool = False, **other: Any,
) -> Tensor:  # fmt: skip
    """Integers from low (0 when left out) up to high, with the input's shape, dtype and device.

    Args:
        input: the tensor whose shape, dtype and device are taken.
        low, high: numbers are at least low and less than high; one number is high, and low is 0.
        generator: where the numbers come from; the device's default one when left out.
        dtype, device, requires_grad: what shall differ, as in ``tensor``.
    Source: torch.randint_like.
    Example:
        >>> gradlib.randint_like(gradlib.zeros(2, 3), 10).shape
        gradlib.Size([2, 3])
    """
    if other:
        ignored("randint_like", other)
    if high is None:
        low, high = 0, low
    like = input._array
    source = _source_like(like, device, generator)
    return _integers(low, high, like.shape, source, dtype or like.dtype, requires_grad, other.get("pin_memory"))


# ---- drawn for each element of a tensor -----------------------------------------------------------------------------------------


@op("other", method=False, complex="explicit", input=lambda g: zeros_like(g))
def _drawn_for(xp: Any, input: Any, drawn: Any) -> Any:
    """Numbers that were drawn for an input."""
    return drawn


_DRAWN = {name: named(_drawn_for, name) for name in ("normal", "bernoulli")}


def _recorded(name: str, drawn: Array, *parameters: Any) -> Tensor:
    """The drawn numbers as a result of their parameters, whose gradients are zero (as in torch)."""
    result = None
    for each in parameters:
        if isinstance(each, Tensor) and each.requires_grad:
            if result is None and not global_state.active:
                result = _DRAWN[name](each, drawn)
            else:
                result = copy(expand(each, drawn.shape), wrap(drawn) if result is None else result)
    return wrap(drawn) if result is None else result


@takes_out
@draws
def normal(
    mean: Any, std: Any = 1.0, size: Any = None, *, generator: Generator | None = None, dtype: Any = None, device: Any = None, **other: Any
) -> Tensor:
    """Normal numbers of given means and standard deviations. No gradient flows to them (it is zero).

    Args:
        mean, std: numbers, or Tensors that broadcast together and give the shape.
        size: the shape, when both are numbers.
        generator: where the numbers come from; the device's default one when left out.
        dtype, device: when both are numbers, as for ``randn``.
    Raises: RuntimeError for a negative or complex standard deviation, NotImplementedError for Tensors of integers.
    Source: torch.normal.
    Example:
        >>> gradlib.normal(0.0, 1.0, (2, 3)).shape
        gradlib.Size([2, 3])
    """
    wants = bool(other.pop("requires_grad", False))
    if other:
        ignored("normal", other)
    many = isinstance(mean, Tensor), isinstance(std, Tensor)
    if not any(many):
        check_std(std)
        source, kind = _source(device, generator), _inexact("normal", dtype)
        made = normal_numbers(source, _shape("normal", () if size is None else (size,)), kind, mean, std)
        return finished(made, wants, other.get("pin_memory"))
    if many[1] and std._array.dtype.kind == "c":
        raise RuntimeError(f"normal expects standard deviation to be non-complex, got dtype {std.dtype}")
    like = (mean if many[0] else std)._array
    if dtypes.category(like.dtype) < 2:
        raise NotImplementedError(f"normal gives floating-point numbers, of the dtype of mean or else of std, which is {like.dtype}")
    shape = np.broadcast_shapes(mean._array.shape, std._array.shape) if all(many) else like.shape
    with on_device_of(like):
        if isinstance(std, Tensor):
            if std._array.size and _is_checked(std._array):
                check_std(float(std._array.min()))
        else:
            check_std(std)
        drawn = stream(generator, device_index(like)).normal(shape, like.dtype) * raw(std) + raw(mean)
        drawn = drawn.astype(like.dtype, copy=False)
    return _recorded("normal", drawn, mean, std)


def normal_numbers(source: Generator, shape: tuple[int, ...], dtype: np.dtype, mean: float, std: float, out: Array | None = None) -> Array:
    """Normal numbers of one mean and deviation; ``out``: contiguous memory for them on a CUDA device."""
    if source.device.type != "cpu" and dtype.kind != "c":
        return source.draw("normal", shape, dtype, float(dtype.type(std)), float(dtype.type(mean)), out=out)
    drawn = source.normal(shape, dtype)
    with on_device_of(drawn):
        return drawn * dtype.type(std) + dtype.type(mean)


def _is_checked(parameters: Array) -> bool:
    """Whether the values of an argument are looked at: not on a CUDA device, for which the host would have to wait."""
    return isinstance(parameters, np.ndarray)


def check_std(std: Any) -> None:
    if not std >= 0:  # NaN too, here and below
        raise RuntimeError(f"normal expects std >= 0.0, but found std {std}")


@takes_out
@draws
def bernoulli(input: Tensor, p: float | None = None, *, generator: Generator | None = None) -> Tensor:
    """1 with the probability that each element gives (or with probability p everywhere), else 0; in the input's dtype.

    Args:
        input: any shape; the chance of a 1 for each element, between 0 and 1.
        p: one chance for all in its place.
        generator: where the numbers come from.
    Raises: RuntimeError for probabilities outside [0, 1], which are not looked at on a CUDA device; NotImplementedError for an input that
        is no float, where it has to give them.
    Source: torch.bernoulli.
    Example:
        >>> gradlib.bernoulli(gradlib.tensor([0.0, 1.0]))
        tensor([0., 1.])
    """
    array = input._array
    if p is None and dtypes.category(array.dtype) != 2:
        raise NotImplementedError(f"bernoulli reads its input as probabilities, which are floating-point numbers, got {array.dtype}")
    return _recorded("bernoulli", zeros_and_ones(array, array if p is None else p, generator), input)


def zeros_and_ones(like: Array, p: Any, generator: Generator | None, out: Array | None = None) -> Array:
    """0 or 1 in like's shape and dtype; p is a number or an array. ``out``: contiguous memory for them on a CUDA device."""
    source, dtype = stream(generator, device_index(like)), like.dtype
    is_number = type(p) is float or not is_array(p)
    checked = p if is_number else np.asarray(p, np.float64) if _is_checked(p) else None
    if checked is not None and not (0 <= p <= 1 if is_number else ((checked >= 0) & (checked <= 1)).all()):
        p = np.asarray(p, np.float64)
        raise RuntimeError(f"bernoulli expects probabilities in [0, 1], got from {float(p.min())} to {float(p.max())}")
    with on_device_of(like):
        if source.device.type != "cpu" and dtypes.category(dtype) == 2:
            if is_number:
                return source.draw("bernoulli", like.shape, dtype, float(p), out=out)
            if p.dtype == dtype and p.shape == like.shape and p._c_contiguous and p.data.device_id == like.data.device_id:
                return source.draw("bernoulli", like.shape, dtype, 0.0, array=p, out=out)
        p = np.float64(p) if is_number else namespace(like).asarray(p, dtype=np.float64)
        return (source.uniform(like.shape, np.dtype(np.float64)) < p).astype(dtype)


@takes_out
@draws
def multinomial(input: Tensor, num_samples: int, replacement: bool = False, *, generator: Generator | None = None) -> Tensor:
    """Positions drawn with the given weights.

    Args:
        input: weights, not negative and not all zero, of shape (n,) or (rows, n).
        num_samples: how many positions to draw for each row.
        replacement: whether one may come more than once.
        generator: where the numbers come from; the device's default one when left out.
    Returns: int64 positions of shape (num_samples,) or (rows, num_samples).
    Raises: RuntimeError for weights (not looked at on a CUDA device) or a number of samples that make no sense.
    Source: torch.multinomial.
    Example:
        >>> gradlib.multinomial(gradlib.tensor([0.0, 1.0]), 3, replacement=True)
        tensor([1, 1, 1])
    """
    weights = input._array
    if weights.ndim not in (1, 2):
        raise RuntimeError(f"prob_dist must be 1 or 2 dim, got shape {list(weights.shape)}")
    if dtypes.category(weights.dtype) != 2:
        raise RuntimeError(f"multinomial only supports floating-point dtypes for input, got: {weights.dtype}")
    if num_samples <= 0:
        raise RuntimeError(f"cannot sample n_sample <= 0 samples, got {num_samples}")
    count = weights.shape[-1]
    if not replacement and num_samples > count:
        raise RuntimeError(f"cannot sample n_sample > prob_dist.size(-1) samples without replacement: {num_samples} of {count}")
    source = stream(generator, device_index(weights))
    with on_device_of(weights):
        if source.device.type == "cpu":
            drawn = _positions(source, weights.reshape(-1, count), num_samples, replacement)
        else:
            drawn = _positions_on_device(source, weights.reshape(-1, count), num_samples, replacement)
        return wrap(drawn.reshape((*weights.shape[:-1], num_samples)))


def _positions(source: Generator, weights: Array, count: int, replacement: bool) -> Array:
    """Positions drawn in each row: of exponential clocks of these rates the first that ring, or where the rising sum exceeds a number."""
    rows = weights.astype(np.float64)
    if not (np.isfinite(rows) & (rows >= 0)).all():
        raise RuntimeError("probability tensor contains either `inf`, `nan` or element < 0")
    if rows.size and not (rows.sum(-1) > 0).all():
        raise RuntimeError("invalid multinomial distribution (sum of probabilities <= 0)")
    if replacement:
        return _with_replacement(source, rows, count)
    uniform, positive = source.uniform(rows.shape, np.dtype(np.float64)), rows > 0
    return np.argsort(np.where(positive, -np.log1p(-uniform) / np.where(positive, rows, 1), np.inf), axis=-1)[:, :count]


def _positions_on_device(source: Generator, weights: Array, count: int, replacement: bool) -> Array:
    """The same by kernels; of long rows each draw with replacement would read too much, and their sums are kept."""
    rows, columns = weights.shape
    weights = weights if weights._c_contiguous else weights.copy()
    if not replacement:
        return first_places(source.draw("race", (rows, columns), dtypes.float64, array=weights), count)
    if columns <= _SHORT:
        return source.draw("places", (rows, count), dtypes.int64, columns, count, array=weights)
    return _with_replacement(source, weights.astype(np.float64), count)


_SHORT = 256
"""The most weights of a row that are added up anew for each draw on a CUDA device."""


def _with_replacement(source: Generator, weights: Array, count: int) -> Array:
    """Positions where the rising sum of weights first exceeds a uniform number; row i is searched for between i and i + 1."""
    xp = namespace(weights)
    rows, size = weights.shape
    row = xp.arange(rows)[:, None]
    rising = xp.cumsum(weights, axis=-1)
    rising = rising / rising[:, -1:] + row
    wanted = xp.minimum(source.uniform((rows, count), np.dtype(np.float64)) + row, xp.nextafter(row + 1.0, 0.0))
    return xp.searchsorted(rising.ravel(), wanted.ravel(), side="right").reshape(rows, count) - row * size


publish(bernoulli, "bernoulli")
publish(multinomial, "multinomial")
