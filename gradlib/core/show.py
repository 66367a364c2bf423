"""How a Tensor prints: its values as NumPy formats them, then what is not the default, then its place in the graph."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradlib.backend import dtype as dtypes
from gradlib.backend.array import move


def describe(tensor: Any) -> str:
    """The text of ``repr(tensor)``."""
    host = move(tensor._array, None)
    dtype = host.dtype
    narrow = dtype.itemsize == 2 and dtypes.is_floating_point(dtype)  # NumPy compares a float16 with 1e8 to choose its form
    shown = host.astype(np.float32) if narrow else host
    with np.printoptions(precision=4, threshold=1000, edgeitems=3, linewidth=80, suppress=_suppress(shown)):
        text = np.array2string(shown, separator=", ", prefix="tensor(")
    notes = []
    if host.size == 0 and host.shape != (0,):
        notes.append(f"size={host.shape}")
    if tensor.is_cuda:
        notes.append(f"device='{tensor.device}'")
    default = (dtypes.get_default_dtype(), dtypes.to_complex(dtypes.get_default_dtype()), dtypes.int64, dtypes.bool_)
    if dtype not in default or (host.size == 0 and dtype != default[0]):
        notes.append(f"dtype={dtype.name}")
    if tensor.grad_fn is not None:
        notes.append(f"grad_fn=<{tensor.grad_fn.name()}>")
    elif tensor.requires_grad:
        notes.append("requires_grad=True")
    return f"tensor({', '.join([text, *notes])})"


def _suppress(values: np.ndarray) -> bool:
    """Plain decimals while they stay readable; exponents once the values span too much for four digits."""
    if values.dtype.kind not in "fc" or values.size == 0:
        return True
    size = np.abs(values[np.isfinite(values) & (values != 0)])
    return size.size == 0 or bool(size.max() < 1e5 and size.min() >= 1e-4)
