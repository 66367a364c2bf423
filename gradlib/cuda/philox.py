"""Random numbers on the GPU: the launches of kernels/philox.cu, eager and within a captured graph alike."""

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
        place: (2,) int64 on the device, the seed and the draws before; None where ``seed`` and ``number`` are all there is.
        seed: of the generator, 64 bits; number: of the draw.
    """
    storage = "float" if kind == "bits" else STORAGE[out.dtype.name]
    options = (("STORAGE", storage), ("INDEX", "int" if out.size < 1 << 30 else "long long"))
    blocks = -(-out.size // (16 // max(out.itemsize, 4)))
    grid = (min(-(-blocks // 256), 1 << 20), 1)
    return Call("philox.cu", f"philox_{kind}", options, grid, 256, (place, _signed(seed), _signed(number), out, out.size))


def _signed(x: int) -> int:
    """The same 64 bits as a signed number."""
    return (x + _SIGN) % (2 * _SIGN) - _SIGN


def draw(kind: str, shape: tuple[int, ...], dtype: Any, place: Any, seed: int, number: int) -> Array:
    """A draw on the current device, as ``draw_call`` says."""
    out = cupy().empty(shape, np.int64 if kind == "bits" else dtype)
    if out.size:
        launch(draw_call(kind, out, place, seed, number))
    return out


def place_of(seed: int, number: int, at: Array) -> None:
    """Write where a generator stands, for the graph that is launched next on this stream."""
    at[:1].fill(_signed(seed))
    at[1:].fill(_signed(number))


offer_draw(draw)
