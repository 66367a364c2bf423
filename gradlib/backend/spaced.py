"""Kernels of gradlib's own for numbers in equal steps, on the current device: ``arange`` and ``linspace``."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradlib.backend.array import Array, cupy
from gradlib.backend.kernel_text import MOST, THREADS, WHOLE
from gradlib.backend.launching import kernels

_COUNTED = {"l": "long long", "q": "long long", "i": "int", "f": "float", "d": "double"}


def arange_source(char: str) -> str:
    """The kernel ``arange`` for a dtype. It computes in 64 bits, and rounds the product and the sum each, as CuPy's functions do."""
    ctype, number, value = _COUNTED[char], "long long", "start + step * i"
    if char in WHOLE:
        number, value = "double", "__dadd_rn(start, __dmul_rn(step, i))"
    return (
        f'extern "C" __global__ void gradlib_arange({number} start, {number} step, {ctype}* z, unsigned n) {{\n'
        f"    const unsigned i = blockIdx.x * {THREADS} + threadIdx.x;\n    if (i < n) z[i] = ({ctype})({value});\n}}\n"
    )


_arange = kernels(arange_source)


def arange(start: float, step: float, count: int, dtype: np.dtype) -> Array | None:
    """``start + step * i`` for each i below a count, on the current device; None where no kernel serves it."""
    char = dtype.char
    if char not in _COUNTED or not 0 < count <= MOST or not abs(start) < 1 << 62 > abs(step):
        return None
    if char not in WHOLE:
        start, step = int(start), int(step)
    out = cupy().ndarray(count, dtype)
    return out if _arange("arange", char).run(out.data.device_id, count, THREADS, start, step, out.data.ptr, count) else None


def linspace_source(char: str) -> str:
    """The kernel ``linspace`` for a dtype: positions counted from the nearer end; of float32 in float32, of all others in float64."""
    number, letter = ("float", "f") if char == "f" else ("double", "d")
    parameters = f"{number} first, {number} last, {number} step, {_COUNTED[char]}* z, unsigned n"
    away = f"__{letter}mul_rn(step, ({number})"
    value = f"i < n / 2 ? __{letter}add_rn(first, {away}i)) : __{letter}add_rn(last, -{away}(n - 1 - i)))"
    return (
        f'extern "C" __global__ void gradlib_linspace({parameters}) {{\n'
        f"    const unsigned i = blockIdx.x * {THREADS} + threadIdx.x;\n    if (i < n) z[i] = ({_COUNTED[char]})({value});\n}}\n"
    )


_linspace = kernels(linspace_source)


def linspace(first: Any, last: Any, step: Any, count: int, dtype: np.dtype) -> Array | None:
    """Numbers a step apart, counted from the nearer end, on the current device; None where no kernel serves it.

    Args:
        first, last, step: float32 for such numbers, else float64.
    """
    char = dtype.char
    if char not in _COUNTED or not 0 < count <= MOST:
        return None
    out = cupy().ndarray(count, dtype)
    values = (float(first), float(last), float(step), out.data.ptr, count)
    return out if _linspace("linspace", char).run(out.data.device_id, count, THREADS, *values) else None
