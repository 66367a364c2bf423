"""Matrix products where cuBLAS cannot be called: the launch of kernels/matmul.cu."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradlib.backend.array import Array, cupy, on_device_of
from gradlib.backend.capture import offer_product
from gradlib.cuda.launch import Call, launch
from gradlib.cuda.signature import STORAGE

_TILE = 16


def product_call(a: Array, c: Array, out: Array) -> Call:
    """The launch that multiplies matrices (B, n, k) and (B, k, m) into (B, n, m). All are contiguous; one of the inputs may have B = 1."""
    stack, rows, columns = out.shape
    inner = a.shape[-1]
    down, across = -(-rows // _TILE), -(-columns // _TILE)
    kind = "int" if max(a.size, c.size, out.size) < 1 << 30 else "long long"
    options = (("STORAGE", STORAGE[out.dtype.name]), ("INDEX", kind))
    steps = (rows * inner if len(a) > 1 else 0, inner * columns if len(c) > 1 else 0)
    shared = 2 * _TILE * (_TILE + 1) * (8 if out.dtype == np.float64 else 4)
    args = (a, c, out, rows, inner, columns, *steps, across)
    return Call("matmul.cu", "matmul_tiles", options, (stack * down * across, 1), _TILE * _TILE, args, shared)


def product(a: Array, c: Array) -> Array:
    """``matmul`` of two CuPy arrays of the same floating dtype and any ranks; sums run along the inner dimension in order."""
    if a.dtype.kind == "c":
        return _complex_product(a, c)
    library: Any = cupy()
    with on_device_of(a):
        left, right = (a[None] if a.ndim == 1 else a), (c[:, None] if c.ndim == 1 else c)
        stack = np.broadcast_shapes(left.shape[:-2], right.shape[:-2])
        out = library.empty((*stack, left.shape[-2], right.shape[-1]), a.dtype)
        if out.size:
            one = out.reshape(-1, *out.shape[-2:])
            launch(product_call(_stacked(library, left, stack), _stacked(library, right, stack), one))
        if a.ndim == 1:
            out = out[..., 0, :]
        return out[..., 0] if c.ndim == 1 else out


def _complex_product(a: Array, c: Array) -> Array:
    """The same of complex arrays, by four products of their real and imaginary parts."""
    with on_device_of(a):
        real = product(a.real, c.real) - product(a.imag, c.imag)
        made = cupy().empty(real.shape, a.dtype)
        made.real = real
        made.imag = product(a.real, c.imag) + product(a.imag, c.real)
        return made


def _stacked(library: Any, x: Array, stack: tuple[int, ...]) -> Array:
    """Matrices with all batch dimensions flattened to one, contiguous; a single matrix gets a batch of 1."""
    single = all(size == 1 for size in x.shape[:-2])
    whole = x.reshape(1, *x.shape[-2:]) if single else library.broadcast_to(x, (*stack, *x.shape[-2:]))
    whole = library.ascontiguousarray(whole)
    return whole if whole.ndim == 3 or 0 in whole.shape else whole.reshape(-1, *x.shape[-2:])


offer_product(product)
