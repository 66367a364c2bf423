"""Random numbers on the GPU: the launches of kernels/philox.cu, both eager and in captured graphs."""

from __future__ import annotations

from functools import cache
from typing import Any, NamedTuple

from gradlib.backend.array import Array
from gradlib.backend.capture import offer_draw
from gradlib.backend.launching import Kernel
from gradlib.core.modes import global_state
from gradlib.cuda.launch import BLOCKING, Call, launch, prepared

_SIGN = 1 << 63
_STORAGE = {"f": "float", "d": "double", "e": "half_t", "E": "bfloat16_t"}
_THREADS, _MOST_BLOCKS = 256, 1 << 20
_WIDE = 1 << 30
"""From this size on indices have 64 bits."""


class Kind(NamedTuple):
    """What a kernel draws.

    Attributes:
        formats: of its numbers, as ``struct`` writes them; "*" for one of the type of its size. plain: those that change nothing.
        drawn: the bytes of what is drawn, if they are not those of the elements' arithmetic. reads: whether it may be given an array.
    """

    formats: str
    plain: tuple[float, ...]
    drawn: int = 0
    reads: bool = False


KINDS = {
    "uniform": Kind("dd", (1.0, 0.0)),
    "normal": Kind("dd", (1.0, -0.0)),  # so that a zero keeps its sign
    "exponential": Kind("d", (1.0,)),
    "log_normal": Kind("dd", (1.0, 0.0)),
    "cauchy": Kind("dd", (1.0, 0.0)),
    "geometric": Kind("d", (-1.0,), 8),
    "bits": Kind("qq", (0, 0), 8),
    "levels": Kind("i", (2048,), 8),
    "bernoulli": Kind("d", (0.5,), 8, reads=True),
    "dropout": Kind("dd", (0.5, 2.0), 4),
    "race": Kind("", (), 8, reads=True),
    "places": Kind("i*", (1, 1), 8, reads=True),
}


def _options(char: str, is_wide: bool) -> tuple[tuple[str, str], ...]:
    return (("STORAGE", _STORAGE.get(char, "float")), ("INDEX", "long long" if is_wide else "int"))


def draw_call(
    kind: str, out: Array, place: Array | None, seed: int, number: int, numbers: tuple[Any, ...] = (), array: Array | None = None
) -> Call:
    """The launch that fills ``out`` with "uniform" or "normal" numbers of its dtype, with "bits" (int64), or with others of `KINDS`:
    with the "places" (int64) and the "race" (float64) of weights.

    Args:
        place: for captured graphs, (2,) int64 on the device: the seed, and the number of draws before; None for eager draws.
        seed: of the generator, 64 bits, for eager draws; number: of this draw, counted from ``place`` if that is given.
        numbers, array: what the kernel of that kind takes beside; the array has the dtype of the elements.
    """
    of = KINDS[kind]
    given = ((array,) if of.reads else ()) + (numbers or of.plain)
    options = _options((out if array is None else array).dtype.char, out.size >= _WIDE)
    blocks = -(-out.size // (_THREADS * (16 // (of.drawn or max(out.itemsize, 4)))))
    args = (place, _signed(seed), _signed(number), *given, out, out.size)
    return Call("philox.cu", f"philox_{kind}", options, (min(blocks, _MOST_BLOCKS), 1), _THREADS, args)


def _signed(x: int) -> int:
    """A 64-bit number with the same bits, read as signed."""
    return (x + _SIGN) % (2 * _SIGN) - _SIGN


@cache
def _kernel(kind: str, char: str, is_wide: bool) -> Kernel:
    of, size = KINDS[kind], "q" if is_wide else "i"
    found = prepared("philox.cu", f"philox_{kind}", _options(char, is_wide)).handle
    return Kernel(f"PQQ{'P' if of.reads else ''}{of.formats.replace('*', size)}P{size}", found)


def draw(
    kind: str, out: Array, place: Array | None, seed: int, number: int, numbers: tuple[Any, ...] = (), array: Array | None = None
) -> Array:
    """Draw on the current device, where ``out`` lies, which is returned; arguments as for ``draw_call``."""
    if not (size := out.size):
        return out
    if not global_state.active and not BLOCKING:  # then nobody looks on
        of, is_wide, data = KINDS[kind], size >= _WIDE, out.data
        given = ((0 if array is None else array.data.ptr,) if of.reads else ()) + (numbers or of.plain)
        values = (0 if place is None else place.data.ptr, seed, number, *given, data.ptr, size)
        kernel = _kernel(kind, (out if array is None else array).dtype.char, is_wide)
        each = 16 // (of.drawn or max(out.itemsize, 4))
        if kernel.run(data.device_id, min(-(-size // each), _THREADS * _MOST_BLOCKS), _THREADS, *values):
            return out
    launch(draw_call(kind, out, place, seed, number, numbers, array))
    return out


def place_of(seed: int, number: int, at: Array) -> None:
    """Write a generator's seed and number of draws for the graph that is launched next on this stream."""
    at[:1].fill(_signed(seed))
    at[1:].fill(_signed(number))


offer_draw(draw)
