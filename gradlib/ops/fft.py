"""Discrete Fourier transforms, by torch.fft's names.

Each is one or two of three operations: complex to complex over several dimensions, real to the half spectrum and back along one. Their
``norm`` is NumPy's for that direction: "backward" divides in the inverse, "forward" in the forward transform, "ortho" by the root in both.
So the adjoint of a transform is the one the other way with the norm turned round.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from gradlib.backend import dtype as dtypes
from gradlib.backend.array import Namespace
from gradlib.core.op import composite, op
from gradlib.core.out import takes_out
from gradlib.core.tensor import Tensor
from gradlib.ops.complex import conj
from gradlib.ops.convert import to
from gradlib.ops.create import at, finished
from gradlib.ops.dims import part_at, wrap_dim
from gradlib.ops.nn import constant_pad
from gradlib.ops.rearrange import roll

__all__ = [
    "fft", "fft2", "fftfreq", "fftn", "fftshift", "hfft", "hfft2", "hfftn", "ifft", "ifft2", "ifftn", "ifftshift", "ihfft", "ihfft2",
    "ihfftn", "irfft", "irfft2", "irfftn", "rfft", "rfft2", "rfftfreq", "rfftn",
]  # fmt: skip

_TURNED = {"backward": "forward", "ortho": "ortho", "forward": "backward"}
_NORMS = {None: "backward", "backward": "backward", "ortho": "ortho", "forward": "forward"}
Dims = int | Sequence[int]


# ---- the operations -------------------------------------------------------------------------------------------------------------


@op("linear", complex="explicit", input=lambda g, dim, norm, forward: fft_c2c_op(g, dim, _TURNED[norm], not forward))
def fft_c2c_op(xp: Namespace, input: Any, dim: tuple[int, ...], norm: str, forward: bool) -> Any:
    """The transform over several dimensions; of real numbers too."""
    dtype = dtypes.to_complex(input.dtype)
    if not input.size or not dim:
        return input.astype(dtype)
    return (xp.fft.fftn if forward else xp.fft.ifftn)(input, axes=dim, norm=norm).astype(dtype, copy=False)


@op(
    "linear", complex="explicit",
    input=lambda g, input_shape, dim, norm: fft_c2r_op(fft_inner_op(g, dim, input_shape[dim], 0.5), dim, _TURNED[norm], input_shape[dim]),
)  # fmt: skip
def fft_r2c_op(xp: Namespace, input: Any, dim: int, norm: str) -> Any:
    """The half spectrum of real numbers along one dimension."""
    dtype = dtypes.to_complex(input.dtype)
    if not input.size:
        return xp.empty(_with_size(input.shape, dim, input.shape[dim] // 2 + 1), dtype)
    return xp.fft.rfft(input, axis=dim, norm=norm).astype(dtype, copy=False)


@op("linear", complex="explicit", input=lambda g, dim, norm, size: fft_inner_op(fft_r2c_op(g, dim, _TURNED[norm]), dim, size, 2))
def fft_c2r_op(xp: Namespace, input: Any, dim: int, norm: str, size: int) -> Any:
    """The real numbers along one dimension with this half spectrum; imaginary parts of its real elements are ignored."""
    dtype = dtypes.to_real(input.dtype)
    if not input.size:
        return xp.empty(_with_size(input.shape, dim, size), dtype)
    return xp.fft.irfft(input, size, axis=dim, norm=norm).astype(dtype, copy=False)


@op("linear", complex="explicit", input=lambda g, dim, size, factor: fft_inner_op(g, dim, size, factor))
def fft_inner_op(xp: Namespace, input: Any, dim: int, size: int, factor: float) -> Any:
    """Times a factor where an element of the half spectrum of ``size`` numbers stands for its mirror image too: not at its real ends."""
    result = input.copy()
    result[part_at(dim, input.ndim, slice(1, (size + 1) // 2))] *= factor
    return result


def _with_size(shape: tuple[int, ...], dim: int, size: int) -> tuple[int, ...]:
    return (*shape[:dim], size, *shape[dim + 1 :])


# ---- arguments ------------------------------------------------------------------------------------------------------------------


def _computed(name: str, input: Any, *, real: bool = False) -> Any:
    """The input in a dtype that is transformed: integers in the default float dtype. Raises: RuntimeError for half types, and complex."""
    dtype = input.dtype
    if real and dtype.kind == "c":
        raise RuntimeError(f"{name} expects a real input tensor, but got {dtype}; take fft, or the .real part")
    if dtype.char in "fdFD":  # the common case
        return input
    if dtypes.category(dtype) < 2:
        return to(input, dtypes.get_default_dtype())
    if dtypes.is_half(dtype):
        raise RuntimeError(f"{name}: Unsupported dtype {dtype}; convert with .float()")
    return input


def _no_norm(norm: Any) -> NoReturn:
    raise RuntimeError(f'Invalid normalization mode: "{norm}"; it is "backward" (None), "ortho" or "forward"')


def _dims(name: str, rank: int, s: Dims | None, dim: Dims | None, least: int) -> tuple[tuple[int, ...], list[int]]:
    """The dimensions that are transformed, and their sizes; -1 where the size stays as it is."""
    sizes = None if s is None else [operator.index(n) for n in (s if isinstance(s, Sequence) else (s,))]
    if dim is None:
        if sizes is not None and len(sizes) > rank:
            raise RuntimeError(f"{name}: Got shape with {len(sizes)} values but input tensor only has {rank} dimensions.")
        dims = tuple(range(0 if sizes is None else rank - len(sizes), rank))
    else:
        given = tuple(dim) if isinstance(dim, Sequence) else (dim,)
        if given and not rank:
            raise IndexError(f"{name}: Dimension specified as {given[0]} but tensor has no dimensions")
        dims = tuple(wrap_dim(d, rank) for d in given)
    if len(set(dims)) != len(dims):
        raise RuntimeError(f"{name}: FFT dims must be unique, got {dim}")
    if sizes is not None and len(sizes) != len(dims):
        raise RuntimeError(f"{name}: When given, dim and shape arguments must have the same length, got {len(dims)} and {len(sizes)}")
    if len(dims) < least:
        raise RuntimeError(f"{name} must transform at least one axis")
    return dims, sizes or [-1] * len(dims)


@functools.lru_cache(maxsize=512)
def _planned(
    name: str, shape: tuple[int, ...], s: Dims | None, dim: Dims | None, least: int, halved: bool
) -> tuple[tuple[int, ...], int, tuple[int, ...] | None]:
    """What follows from a shape and the arguments of a transform alone.

    Args:
        least: how many dimensions there must be. halved: the input is a half spectrum along the last of them.
    Returns: the dimensions that are transformed; the size of the result along the last of them, if it is halved; and what ``constant_pad``
        is to add or take away first, None for nothing.
    Raises: RuntimeError for sizes less than 1, and what `_dims` refuses.
    """
    rank, size = len(shape), 0
    dims, sizes = _dims(name, rank, s, dim, least)
    if halved:
        size = 2 * (shape[dims[-1]] - 1) if sizes[-1] == -1 else sizes[-1]
        if size < 1:
            raise RuntimeError(f"{name}: Invalid number of data points ({size}) specified")
        sizes = [*sizes[:-1], size // 2 + 1]
    pad = [0] * (2 * rank)
    for each, count in zip(dims, sizes, strict=True):
        wanted = shape[each] if count == -1 else count
        if wanted < 1:
            raise RuntimeError(f"{name}: Invalid number of data points ({wanted}) specified")
        pad[2 * (rank - 1 - each) + 1] = wanted - shape[each]
    return dims, size, tuple(pad) if any(pad) else None


_CACHED = frozenset((int, type(None)))


def _resized(name: str, input: Any, s: Any, dim: Any, least: int, halved: bool = False) -> tuple[Any, tuple[int, ...], int]:
    """The input truncated, or padded with zeros, to the sizes that are wanted; and what else `_planned` says of it."""
    s, dim = tuple(s) if type(s) is list else s, tuple(dim) if type(dim) is list else dim
    shape = input._array.shape if type(input) is Tensor else tuple(input.shape)
    kinds = map(type, (*(s if type(s) is tuple else (s,)), *(dim if type(dim) is tuple else (dim,))))
    plan = _planned if _CACHED.issuperset(kinds) else _planned.__wrapped__  # a bool or float equals an int, but is refused
    dims, size, pad = plan(name, shape, s, dim, least, halved)
    return input if pad is None else constant_pad(input, pad, 0), dims, size


def _size(n: int | None) -> list[int] | None:
    """The sizes for one dimension, where -1 means no other than itself."""
    if n is not None and n < 1:
        raise RuntimeError(f"Invalid number of data points ({n}) specified")
    return None if n is None else [operator.index(n)]


# ---- the three kinds ------------------------------------------------------------------------------------------------------------


def _complex_to_complex(name: str, input: Any, s: Dims | None, dim: Dims | None, norm: str | None, forward: bool) -> Any:
    input, dims, _ = _resized(name, _computed(name, input), s, dim, 0)
    return fft_c2c_op(input, dims, _NORMS.get(norm) or _no_norm(norm), forward)


def _real_to_complex(name: str, input: Any, s: Dims | None, dim: Dims | None, norm: str | None, forward: bool) -> Any:
    """The half spectrum along the last of the dimensions, then the transform over the others."""
    input, dims, _ = _resized(name, _computed(name, input, real=True), s, dim, 1)
    norm = _NORMS.get(norm) or _no_norm(norm)
    half = fft_r2c_op(input, dims[-1], norm if forward else _TURNED[norm])
    half = half if forward else conj(half)
    return fft_c2c_op(half, dims[:-1], norm, forward) if len(dims) > 1 else half


def _complex_to_real(name: str, input: Any, s: Dims | None, dim: Dims | None, norm: str | None, forward: bool) -> Any:
    """The transform over all of the dimensions but the last, then real numbers along that from its half spectrum."""
    half, dims, size = _resized(name, _computed(name, input), s, dim, 1, True)
    norm = _NORMS.get(norm) or _no_norm(norm)
    half = fft_c2c_op(half, dims[:-1], norm, forward) if len(dims) > 1 else half
    return fft_c2r_op(conj(half) if forward else half, dims[-1], _TURNED[norm] if forward else norm, size)


# ---- along one dimension --------------------------------------------------------------------------------------------------------


@composite(method=False)
def fft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """The discrete Fourier transform along one dimension.

    Args:
        input: any shape, real or complex; integers count as the default float dtype, half types are refused.
        n: cut, or filled up with zeros, to this size; None leaves it.
        dim: the dimension.
        norm: where to divide by n: "backward" (or None), in the inverse transform; "forward", here; "ortho", by its root in both.
    Returns: the spectrum, complex, frequencies as ``fftfreq`` gives them.
    Raises: RuntimeError for no data points, half types and other norms.
    Source: torch.fft.fft.
    Example:
        >>> gradlib.fft.fft(gradlib.tensor([1.0, 2.0, 3.0, 4.0]))
        tensor([10.+0.j, -2.+2.j, -2.+0.j, -2.-2.j])
    """
    return _complex_to_complex("fft", input, _size(n), dim, norm, True)


@composite(method=False)
def ifft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """The inverse of ``fft``.

    Args:
        input, n, dim, norm: as in ``fft``; here "backward" divides by n, and "forward" does not.
    Source: torch.fft.ifft.
    Example:
        >>> gradlib.fft.ifft(gradlib.tensor([4.0, 0.0, 0.0, 0.0]))
        tensor([1.+0.j, 1.+0.j, 1.+0.j, 1.+0.j])
    """
    return _complex_to_complex("ifft", input, _size(n), dim, norm, False)


@composite(method=False)
def rfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """The first half of the spectrum of real numbers; the other half follows from it.

    Args:
        input: any shape, real.
        n, dim, norm: as in ``fft``.
    Returns: complex, n // 2 + 1 elements along dim.
    Raises: RuntimeError for complex input.
    Source: torch.fft.rfft.
    Example:
        >>> gradlib.fft.rfft(gradlib.tensor([1.0, 2.0, 3.0, 4.0]))
        tensor([10.+0.j, -2.+2.j, -2.+0.j])
    """
    return _real_to_complex("rfft", input, _size(n), dim, norm, True)


@composite(method=False)
def irfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """The inverse of ``rfft``: real numbers from the first half of their spectrum.

    Args:
        input: any shape; the imaginary parts of the first element, and of the last where n is even, do not count.
        n: how many real numbers there were; 2 * (size - 1) when left out, so give it where it was odd.
        dim, norm: as in ``ifft``.
    Source: torch.fft.irfft.
    Example:
        >>> gradlib.fft.irfft(gradlib.tensor([10 + 0j, -2 + 2j, -2 + 0j]))
        tensor([1., 2., 3., 4.])
    """
    return _complex_to_real("irfft", input, _size(n), dim, norm, False)


@composite(method=False)
def hfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """The real spectrum of a signal whose first half is given; its second half is the first one mirrored and conjugated.

    Args:
        input: any shape.
        n: the size of the signal; 2 * (size - 1) when left out.
        dim, norm: as in ``fft``.
    Source: torch.fft.hfft.
    Example:
        >>> gradlib.fft.hfft(gradlib.tensor([1.0, 2.0, 1.0]))
        tensor([ 6.,  0., -2.,  0.])
    """
    return _complex_to_real("hfft", input, _size(n), dim, norm, True)


@composite(method=False)
def ihfft(input: Any, n: int | None = None, dim: int = -1, norm: str | None = None) -> Any:
    """The inverse of ``hfft``: the first half of the signal whose spectrum is real.

    Args:
        input: any shape, real.
        n, dim, norm: as in ``ifft``.
    Source: torch.fft.ihfft.
    Example:
        >>> gradlib.fft.ihfft(gradlib.tensor([6.0, 0.0, -2.0, 0.0]))
        tensor([1.-0.j, 2.-0.j, 1.-0.j])
    """
    return _real_to_complex("ihfft", input, _size(n), dim, norm, False)


# ---- over several dimensions ----------------------------------------------------------------------------------------------------


@composite(method=False)
def fftn(input: Any, s: Dims | None = None, dim: Dims | None = None, norm: str | None = None) -> Any:
    """The discrete Fourier transform over several dimensions.

    Args:
        input: any shape, real or complex.
        s: for each dimension its size, to which it is cut or filled up with zeros; -1 leaves it.
        dim: the dimensions; all when left out, or the last ``len(s)``.
        norm: as in ``fft``, with the product of the sizes for n.
    Raises: RuntimeError for no data points, a dimension twice, or another number of sizes than of dimensions.
    Source: torch.fft.fftn.
    Example:
        >>> gradlib.fft.fftn(gradlib.ones(2, 2))
        tensor([[4.+0.j, 0.+0.j],
                [0.+0.j, 0.+0.j]])
    """
    return _complex_to_complex("fftn", input, s, dim, norm, True)


@composite(method=False)
def ifftn(input: Any, s: Dims | None = None, dim: Dims | None = None, norm: str | None = None) -> Any:
    """The inverse of ``fftn``.

    Args:
        input, s, dim, norm: as in ``fftn``; here "backward" divides.
    Source: torch.fft.ifftn.
    Example:
        >>> gradlib.fft.ifftn(gradlib.ones(2, 2))
        tensor([[1.+0.j, 0.+0.j],
                [0.+0.j, 0.+0.j]])
    """
    return _complex_to_complex("ifftn", input, s, dim, norm, False)


@composite(method=False)
def rfftn(input: Any, s: Dims | None = None, dim: Dims | None = None, norm: str | None = None) -> Any:
    """The half spectrum of real numbers over several dimensions: half along the last of them, whole along the others.

    Args:
        input: any shape, real.
        s, dim, norm: as in ``fftn``; at least one dimension.
    Source: torch.fft.rfftn.
    Example:
        >>> gradlib.fft.rfftn(gradlib.ones(2, 3))
        tensor([[6.+0.j, 0.+0.j],
                [0.+0.j, 0.+0.j]])
    """
    return _real_to_complex("rfftn", input, s, dim, norm, True)


@composite(method=False)
def irfftn(input: Any, s: Dims | None = None, dim: Dims | None = None, norm: str | None = None) -> Any:
    """The inverse of ``rfftn``.

    Args:
        input: any shape.
        s: the sizes of the result; the last is 2 * (size - 1) when left out or -1.
        dim, norm: as in ``ifftn``; at least one dimension.
    Source: torch.fft.irfftn.
    Example:
        >>> gradlib.fft.irfftn(gradlib.fft.rfftn(gradlib.ones(2, 3)), (2, 3))
        tensor([[1., 1., 1.],
                [1., 1., 1.]])
    """
    return _complex_to_real("irfftn", input, s, dim, norm, False)


@composite(method=False)
def hfftn(input: Any, s: Dims | None = None, dim: Dims | None = None, norm: str | None = None) -> Any:
    """The real spectrum of a signal that equals itself mirrored and conjugated, given by its first half along the last dimension.

    Args:
        input, s, dim: as in ``irfftn``.
        norm: as in ``fftn``.
    Source: torch.fft.hfftn.
    Example:
        >>> gradlib.fft.hfftn(gradlib.ones(1, 2))
        tensor([[2., 0.]])
    """
    return _complex_to_real("hfftn", input, s, dim, norm, True)


@composite(method=False)
def ihfftn(input: Any, s: Dims | None = None, dim: Dims | None = None, norm: str | None = None) -> Any:
    """The inverse of ``hfftn``.

    Args:
        input, s, dim: as in ``rfftn``.
        norm: as in ``ifftn``.
    Source: torch.fft.ihfftn.
    Example:
        >>> gradlib.fft.ihfftn(gradlib.tensor([[2.0, 0.0]]))
        tensor([[1.-0.j, 1.-0.j]])
    """
    return _real_to_complex("ihfftn", input, s, dim, norm, False)


@composite(method=False)
def fft2(input: Any, s: Dims | None = None, dim: Dims = (-2, -1), norm: str | None = None) -> Any:
    """``fftn`` over the last two dimensions.

    Args:
        input, s, dim, norm: as in ``fftn``.
    Source: torch.fft.fft2.
    Example:
        >>> gradlib.fft.fft2(gradlib.ones(2, 2))
        tensor([[4.+0.j, 0.+0.j],
                [0.+0.j, 0.+0.j]])
    """
    return _complex_to_complex("fft2", input, s, dim, norm, True)


@composite(method=False)
def ifft2(input: Any, s: Dims | None = None, dim: Dims = (-2, -1), norm: str | None = None) -> Any:
    """``ifftn`` over the last two dimensions.

    Args:
        input, s, dim, norm: as in ``ifftn``.
    Source: torch.fft.ifft2.
    Example:
        >>> gradlib.fft.ifft2(gradlib.ones(2, 2))
        tensor([[1.+0.j, 0.+0.j],
                [0.+0.j, 0.+0.j]])
    """
    return _complex_to_complex("ifft2", input, s, dim, norm, False)


@composite(method=False)
def rfft2(input: Any, s: Dims | None = None, dim: Dims = (-2, -1), norm: str | None = None) -> Any:
    """``rfftn`` over the last two dimensions.

    Args:
        input, s, dim, norm: as in ``rfftn``.
    Source: torch.fft.rfft2.
    Example:
        >>> gradlib.fft.rfft2(gradlib.ones(2, 2))
        tensor([[4.+0.j, 0.+0.j],
                [0.+0.j, 0.+0.j]])
    """
    return _real_to_complex("rfft2", input, s, dim, norm, True)


@composite(method=False)
def irfft2(input: Any, s: Dims | None = None, dim: Dims = (-2, -1), norm: str | None = None) -> Any:
    """``irfftn`` over the last two dimensions.

    Args:
        input, s, dim, norm: as in ``irfftn``.
    Source: torch.fft.irfft2.
    Example:
        >>> gradlib.fft.irfft2(gradlib.ones(2, 2))
        tensor([[1., 0.],
                [0., 0.]])
    """
    return _complex_to_real("irfft2", input, s, dim, norm, False)


@composite(method=False)
def hfft2(input: Any, s: Dims | None = None, dim: Dims = (-2, -1), norm: str | None = None) -> Any:
    """``hfftn`` over the last two dimensions.

    Args:
        input, s, dim, norm: as in ``hfftn``.
    Source: torch.fft.hfft2.
    Example:
        >>> gradlib.fft.hfft2(gradlib.ones(1, 2))
        tensor([[2., 0.]])
    """
    return _complex_to_real("hfft2", input, s, dim, norm, True)


@composite(method=False)
def ihfft2(input: Any, s: Dims | None = None, dim: Dims = (-2, -1), norm: str | None = None) -> Any:
    """``ihfftn`` over the last two dimensions.

    Args:
        input, s, dim, norm: as in ``ihfftn``.
    Source: torch.fft.ihfft2.
    Example:
        >>> gradlib.fft.ihfft2(gradlib.tensor([[2.0, 0.0]]))
        tensor([[1.-0.j, 1.-0.j]])
    """
    return _real_to_complex("ihfft2", input, s, dim, norm, False)


# ---- frequencies ----------------------------------------------------------------------------------------------------------------


@composite(method=False)
def fftshift(input: Any, dim: Dims | None = None) -> Any:
    """A spectrum with frequency zero in the middle.

    Args:
        input: any shape and dtype.
        dim: the dimensions that are shifted; all when left out.
    Source: torch.fft.fftshift.
    Example:
        >>> gradlib.fft.fftshift(gradlib.fft.fftfreq(4))
        tensor([-0.5000, -0.2500,  0.0000,  0.2500])
    """
    return _shifted(input, dim, lambda size: size // 2)


@composite(method=False)
def ifftshift(input: Any, dim: Dims | None = None) -> Any:
    """The inverse of ``fftshift``, which differs from it where a size is odd.

    Args:
        input, dim: as in ``fftshift``.
    Source: torch.fft.ifftshift.
    Example:
        >>> gradlib.fft.ifftshift(gradlib.tensor([-1, 0, 1]))
        tensor([ 0,  1, -1])
    """
    return _shifted(input, dim, lambda size: (size + 1) // 2)


def _shifted(input: Any, dim: Dims | None, amount: Any) -> Any:
    dims = tuple(range(input.ndim)) if dim is None else tuple(dim) if isinstance(dim, Sequence) else (dim,)
    if not dims:
        raise RuntimeError(f"`shifts` required: there is no dimension to shift, shape {list(input.shape)}, dim {dim}")
    shape = input.shape
    places = tuple([wrap_dim(d, len(shape)) for d in dims])
    return roll(input, tuple([amount(shape[d]) for d in places]), places)


@takes_out
def fftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """The frequency of each element of a spectrum, in cycles per unit of the sample spacing: 0, 1, ..., -1 times 1 / (n d).

    Args:
        n: the size of the spectrum.
        d: the time between samples.
        dtype: a float dtype; the default one when left out.
        device, requires_grad: as in ``tensor``.
    Raises: RuntimeError for a negative size and other dtypes.
    Source: torch.fft.fftfreq.
    Example:
        >>> gradlib.fft.fftfreq(5)
        tensor([ 0.0000,  0.2000,  0.4000, -0.4000, -0.2000])
    """
    return _frequencies("fftfreq", n, d, dtype, device, requires_grad, half=False)


@takes_out
def rfftfreq(n: int, d: float = 1.0, *, dtype: Any = None, device: Any = None, requires_grad: bool = False) -> Tensor:
    """The frequency of each element of the half spectrum of ``rfft``.

    Args:
        n: the size of the signal.
        d, dtype, device, requires_grad: as in ``fftfreq``.
    Source: torch.fft.rfftfreq.
    Example:
        >>> gradlib.fft.rfftfreq(4)
        tensor([0.0000, 0.2500, 0.5000])
    """
    return _frequencies("rfftfreq", n, d, dtype, device, requires_grad, half=True)


def _frequencies(name: str, n: int, d: float, dtype: Any, device: Any, requires_grad: bool, *, half: bool) -> Tensor:
    size, d = operator.index(n), float(d)
    wanted = dtypes.as_dtype(dtype) or dtypes.get_default_dtype()
    if not dtypes.is_floating_point(wanted):
        raise RuntimeError(f"{name} requires a floating point dtype, got {wanted}")
    if size < 0:
        raise RuntimeError(f"{name}: Trying to create tensor with negative dimension {size}")
    xp, place = at(device)
    with place, np.errstate(invalid="ignore"):  # for a spacing of zero, of which torch makes NaN and inf
        steps = xp.arange(size // 2 + 1 if half else size)
        if not half:
            steps[(size + 1) // 2 :] -= size
        return finished((steps.astype(wanted) * (1.0 / (size * d) if size * d else math.inf)).astype(wanted, copy=False), requires_grad)
