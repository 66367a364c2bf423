"""Random numbers on the GPU: the launches of kernels/philox.cu, both eager and in captured graphs."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradlib.backend.array import Array, cupy
from gradlib.backend.capture import offer_draw
from gradlib.cuda.launch import Call, launch
from gradlib.cuda.signature import STORAGE

_SIGN = 1 << 63


def draw_call(kind: str, out: Array, place: Array | None, seed: int, number: int) -> Call:
    """The launch that fills ``out`` with "uniform" or "normal" numbers of its dtype, or with "bits" (int64).

    Args:
        place: for captured graphs, (2,) int64 on the device: the seed, and the number of draws before; None for eager draws.
        seed: of the generator, 64 bits, for eager draws; number: of this draw, counted from ``place`` if that is given.
    """
    storage = "float" if kind == "bits" else STORAGE[out.dtype.name]
    options = (("STORAGE", storage), ("INDEX", "int" if out.size < 1 << 30 else "long long"))
    blocks = -(-out.size // (16 // max(out.itemsize, 4)))
    grid = (min(-(-blocks // 256), 1 << 20), 1)
    return Call("philox.cu", f"philox_{kind}", options, grid, 256, (place, _signed(seed), _signed(number), out, out.size))


def _signed(x: int) -> int:
    """A 64-bit number with the same bits, read as signed."""
    return (x + _SIGN) % (2 * _SIGN) - _SIGN


def draw(kind: str, shape: tuple[int, ...], dtype: Any, place: Any, seed: int, number: int) -> Array:
    """Draw on the current device; arguments as for ``draw_call``."""
    out = cupy().empty(shape, np.int64 if kind == "bits" else dtype)
    if out.size:
        launch(draw_call(kind, out, place, seed, number))
    return out


def place_of(seed: int, number: int, at: Array) -> None:
    """Write a generator's seed and number of draws for the graph that is launched next on this stream."""
    at[:1].fill(_signed(seed))
    at[1:].fill(_signed(number))


offer_draw(draw)
