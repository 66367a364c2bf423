"""The parts of complex numbers, and complex numbers from parts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradlib.backend import dtype as dtypes, formulas, vectorised
from gradlib.backend.array import Namespace, address, is_cupy, namespace, strided
from gradlib.core.op import composite, op, publish
from gradlib.core.tensor import Tensor, raw
from gradlib.ops.copies import contiguous
from gradlib.ops.create import zeros_like
from gradlib.ops.select import where_op

__all__ = ["angle", "complex", "conj", "conj_physical", "imag", "real", "resolve_conj", "view_as_complex", "view_as_real"]


@op("linear", view=True, complex="explicit", input=lambda g: g)
def real_op(xp: Any, input: Any) -> Any:
    """The real part, as a view."""
    return input.real


@op("linear", view=True, complex="explicit", input=lambda g: complex(zeros_like(g), g))
def imag_op(xp: Any, input: Any) -> Any:
    """The imaginary part, as a view."""
    return input.imag


@composite(method=False)
def real(input: Any) -> Any:
    """The real part of each element as a view; a real tensor itself.

    Args:
        input: any shape and dtype.
    Source: torch.real.
    Example:
        >>> gradlib.real(gradlib.tensor([1 + 2j]))
        tensor([1.])
    """
    return real_op(input) if input.dtype.kind == "c" else input


@composite(method=False)
def imag(input: Any) -> Any:
    """The imaginary part of each element as a view.

    Args:
        input: any shape, complex.
    Raises: RuntimeError for a real tensor.
    Source: torch.imag.
    Example:
        >>> gradlib.imag(gradlib.tensor([1 + 2j]))
        tensor([2.])
    """
    if input.dtype.kind != "c":
        raise RuntimeError(f"imag is not implemented for tensors with non-complex dtypes, got {input.dtype.name}.")
    return imag_op(input)


def _set_real(self: Tensor, value: Any) -> None:
    real(self).copy_(value)


def _set_imag(self: Tensor, value: Any) -> None:
    imag(self).copy_(value)


publish(property(real, _set_real), "real")
publish(property(imag, _set_imag), "imag")


@op("linear", complex="explicit", inplace=True, input=lambda g: conj(g))
def conj_physical_op(xp: Any, input: Any) -> Any:
    """Each element with the sign of its imaginary part changed."""
    return xp.conjugate(input) if input.dtype.kind == "c" else input.copy()  # of bool NumPy makes int8


@composite
def conj_physical(input: Any) -> Any:
    """The complex conjugate of each element; a real tensor itself, as in torch.

    Args:
        input: any shape and dtype.
    Source: torch.conj_physical.
    Example:
        >>> gradlib.conj_physical(gradlib.tensor([1 + 2j]))
        tensor([1.-2.j])
    """
    return conj_physical_op(input) if input.dtype.kind == "c" else input


@composite
def conj(input: Any) -> Any:
    """The complex conjugate of each element (computed, not a lazy view); a real tensor itself.

    Args:
        input: any shape and dtype.
    Source: torch.conj.
    Example:
        >>> gradlib.conj(gradlib.tensor([1 + 2j]))
        tensor([1.-2.j])
    """
    return conj_physical_op(input) if input.dtype.kind == "c" else input


@composite
def resolve_conj(input: Any) -> Any:
    """The tensor itself, since conjugates are always computed here.

    Args:
        input: any shape and dtype.
    Source: torch.resolve_conj.
    Example:
        >>> gradlib.resolve_conj(gradlib.tensor([1 + 2j]))
        tensor([1.+2.j])
    """
    if type(input) is not Tensor:
        namespace(raw(input))  # which refuses anything but an array
    return input


def _angle_slope(g: Any, input: Any) -> Any:
    """A turn by g radians moves z along i z; zero at zero, and for real numbers."""
    if input.dtype.kind != "c":
        return zeros_like(g)
    zero = input == 0
    size = where_op(zero, 1, (input * conj(input)).real)
    return where_op(zero, 0, complex(-(g * (input.imag / size)), g * (input.real / size)))


@op("elementwise", promote="float", complex="explicit", input=_angle_slope, device="angle")
def angle(xp: Any, input: Any) -> Any:
    """The angle of each element in radians: of a real one pi where it is negative, 0 elsewhere, and NaN for NaN.

    Args:
        input: any shape, real or complex.
    Source: torch.angle.
    Example:
        >>> gradlib.angle(gradlib.tensor([1j, -1 + 0j]))
        tensor([1.5708, 3.1416])
    """
    if input.dtype.kind == "c":
        return vectorised.arctan2(xp, input.imag.copy(), input.real.copy())
    result = xp.where(input < 0, math.pi, 0.0).astype(input.dtype)
    xp.copyto(result, math.nan, where=input != input)
    return result


_PAIR: dict[Any, np.dtype[Any]] = {dtypes.float32: dtypes.complex64, dtypes.float64: dtypes.complex128}
_PART = {pair: part for part, pair in _PAIR.items()}


@op(
    "linear", method=False, complex="explicit", real=lambda g: g.real, imag=lambda g: g.imag,
    kernels={"out": formulas.complex_of},
)  # fmt: skip
def complex(xp: Any, real: Any, imag: Any) -> Any:
    """Complex numbers with these real and imaginary parts.

    Args:
        real, imag: float32 or float64, the same for both.
    Raises: RuntimeError for other dtypes.
    Source: torch.complex.
    Example:
        >>> gradlib.complex(gradlib.tensor([1.0, 2.0]), gradlib.tensor([0.0, -1.0]))
        tensor([1.+0.j, 2.-1.j])
    """
    dtype = getattr(real, "dtype", None)
    paired = _PAIR.get(dtype)
    if paired is None or getattr(imag, "dtype", None) != dtype:
        names = " and ".join(str(getattr(part, "dtype", "a number")) for part in (real, imag))
        raise RuntimeError(f"complex: both parts must be float32 or both float64 tensors, got {names}; convert one with .to()")
    if vectorised.are_long(real, imag):
        return vectorised.complex_of(real, imag, paired)
    out = xp.empty(real.shape if real.shape == imag.shape else xp.broadcast_shapes(real.shape, imag.shape), paired)
    out.real = real
    out.imag = imag
    return out


# ---- as pairs of real numbers ------------------------------------------------------------------------------------------------


@op("linear", view=True, method=False, complex="explicit", input=lambda g: view_as_complex(contiguous(g)))
def view_as_real(xp: Namespace, input: Any) -> Any:
    """Complex numbers as real ones with a last dimension of size 2; a view.

    Args:
        input: any shape, complex.
    Raises: RuntimeError for real input.
    Source: torch.view_as_real.
    Example:
        >>> gradlib.view_as_real(gradlib.tensor([1 + 2j]))
        tensor([[1., 2.]])
    """
    real, shape = _PART.get(input.dtype), input.shape
    if real is None:
        raise RuntimeError(f"view_as_real is only supported for complex tensors, got {input.dtype}")
    if shape and input.flags.c_contiguous:
        return np.ndarray((*shape, 2), real, input) if xp is np else input.view(real).reshape(*shape, 2)
    return strided(input, (*shape, 2), (*input.strides, real.itemsize), dtype=real)


@op(
    "linear", view=True, method=False, complex="explicit", input=lambda g: view_as_real(contiguous(g)),
    jvp=lambda t_input: view_as_complex(contiguous(t_input)),
)  # fmt: skip
def view_as_complex(xp: Namespace, input: Any) -> Any:
    """Pairs along the last dimension as complex numbers; a view.

    Args:
        input: (..., 2), float, the last dimension's elements beside each other in memory.
    Raises: RuntimeError unless the last dimension has size 2 and stride 1, the others even strides; on a GPU, unless it begins at
        an even element of its memory, since a kernel reads a complex number as one.
    Source: torch.view_as_complex.
    Example:
        >>> gradlib.view_as_complex(gradlib.tensor([[1.0, 2.0]]))
        tensor([1.+2.j])
    """
    paired, shape = _PAIR.get(input.dtype), input.shape
    if paired is None:
        raise RuntimeError(f"view_as_complex is only supported for float and double tensors, but got a tensor of dtype {input.dtype}")
    if not shape or shape[-1] != 2:
        raise RuntimeError(f"Tensor must have a last dimension of size 2, got shape {list(shape)}")
    pair = 2 * input.itemsize
    if xp is np and input.flags.c_contiguous:
        return input.view(paired)[..., 0]
    if xp is not np and input._c_contiguous and not input.data.ptr % pair:
        return xp.ndarray(shape[:-1], paired, input.data)
    if input.size and input.strides[-1] != input.itemsize:
        raise RuntimeError(f"Tensor must have a last dimension with stride 1, got strides {list(input.strides)} in bytes")
    layout = () if input.flags.c_contiguous else zip(shape[:-1], input.strides[:-1], strict=True)
    if input.size and any(step % pair for size, step in layout if size > 1):
        raise RuntimeError(f"Tensor must have a stride divisible by 2 for all but last dimension, got {list(input.strides)} in bytes")
    if is_cupy(input) and address(input) % pair:
        raise RuntimeError("Tensor must have a storage_offset divisible by 2; call clone() first")
    return strided(input, shape[:-1], input.strides[:-1], dtype=paired)
