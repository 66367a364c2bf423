"""Fourier transforms: numpy.fft's functions, which are torch.fft's under other names of arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradlib.core.tensor import Tensor
from gradlib.numpy.operands import axis_of, tensor_of, value_of, written
from gradlib.numpy.registry import implements
from gradlib.ops import fft


def _ready(a: Any) -> Tensor:
    """Cast to a dtype that NumPy transforms: integers and bools become float64."""
    x = tensor_of(a)
    return x.to(np.float64) if x.dtype.kind in "biu" else x


def _along_one(operation: Callable[..., Tensor], name: str) -> Callable[..., Tensor]:
    def transform(a: Any, n: Any = None, axis: int = -1, norm: Any = None, out: Any = None) -> Tensor:
        x, size = _ready(a), None if n is None else int(value_of(n))
        return written(operation(x, n=size, dim=axis_of(axis, x.ndim), norm=norm), out, f"numpy.fft.{name}")

    return transform


def _along_several(operation: Callable[..., Tensor], name: str, default: Any) -> Callable[..., Tensor]:
    def transform(a: Any, s: Any = None, axes: Any = default, norm: Any = None, out: Any = None) -> Tensor:
        x = _ready(a)
        sizes = None if s is None else [int(n) for n in value_of(s)]
        if sizes is not None and axes is None:
            axes = tuple(range(-len(sizes), 0))
        named = tuple(range(x.ndim)) if axes is None else tuple(axes)
        if sizes is not None:
            sizes = [x.shape[i] if n == -1 else n for n, i in zip(sizes, named, strict=True)]
        return written(operation(x, s=sizes, dim=named, norm=norm), out, f"numpy.fft.{name}")

    return transform


for _name in ("fft", "ifft", "rfft", "irfft", "hfft", "ihfft"):
    implements(getattr(np.fft, _name))(_along_one(getattr(fft, _name), _name))
for _name in ("fftn", "ifftn", "rfftn", "irfftn"):
    implements(getattr(np.fft, _name))(_along_several(getattr(fft, _name), _name, None))
for _name in ("fft2", "ifft2", "rfft2", "irfft2"):
    implements(getattr(np.fft, _name))(_along_several(getattr(fft, _name), _name, (-2, -1)))
