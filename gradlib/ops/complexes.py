"""The parts of complex numbers, and complex numbers from parts."""

from __future__ import annotations

import math
from typing import Any

from gradlib.backend import dtype as dtypes
from gradlib.core.op import composite, op, publish
from gradlib.core.tensor import Tensor
from gradlib.ops.create import zeros_like
from gradlib.ops.select import where_op

__all__ = ["angle", "complex", "conj", "conj_physical", "imag", "real", "resolve_conj"]


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
    """The real part of each element as a view; a real tensor itself. Source: torch.real."""
    return real_op(input) if input.dtype.kind == "c" else input


@composite(method=False)
def imag(input: Any) -> Any:
    """The imaginary part of each element as a view. Raises: RuntimeError for a real tensor. Source: torch.imag."""
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
    """Each element with its imaginary part turned over."""
    return xp.conjugate(input) if input.dtype.kind == "c" else input.copy()  # of bool NumPy makes int8


@composite
def conj_physical(input: Any) -> Any:
    """The complex conjugate of each element; a real tensor itself, as in torch. Source: torch.conj_physical."""
    return conj_physical_op(input) if input.dtype.kind == "c" else input


@composite
def conj(input: Any) -> Any:
    """The complex conjugate of each element (computed, not a lazy view); a real tensor itself. Source: torch.conj."""
    return conj_physical_op(input) if input.dtype.kind == "c" else input


@composite
def resolve_conj(input: Any) -> Any:
    """The tensor itself, since conjugates are always computed here. Source: torch.resolve_conj."""
    return input


def _angle_slope(g: Any, input: Any) -> Any:
    """A turn by g radians moves z along i z; zero at zero, and for real numbers."""
    if input.dtype.kind != "c":
        return zeros_like(g)
    zero = input == 0
    size = where_op(zero, 1, (input * conj(input)).real)
    return where_op(zero, 0, complex(-(g * (input.imag / size)), g * (input.real / size)))


@op("elementwise", promote="float", complex="explicit", input=_angle_slope)
def angle(xp: Any, input: Any) -> Any:
    """The angle of each element in radians: of a real one pi where it is negative, 0 elsewhere, and NaN for NaN."""
    if input.dtype.kind == "c":
        return xp.arctan2(input.imag, input.real)
    result = xp.where(input < 0, math.pi, 0.0).astype(input.dtype)
    xp.copyto(result, math.nan, where=input != input)
    return result


@op("linear", method=False, complex="explicit", real=lambda g: g.real, imag=lambda g: g.imag)
def complex(xp: Any, real: Any, imag: Any) -> Any:
    """Complex numbers with these real and imaginary parts.

    Args:
        real, imag: float32 or float64, the same for both.
    Raises: RuntimeError for other dtypes.
    """
    found = [getattr(part, "dtype", None) for part in (real, imag)]
    if found[0] not in (dtypes.float32, dtypes.float64) or found[0] != found[1]:
        names = " and ".join(str(dtype or "a number") for dtype in found)
        raise RuntimeError(f"complex: both parts must be float32 or both float64 tensors, got {names}; convert one with .to()")
    out = xp.empty(xp.broadcast_shapes(real.shape, imag.shape), dtypes.to_complex(real.dtype))
    out.real = real
    out.imag = imag
    return out
