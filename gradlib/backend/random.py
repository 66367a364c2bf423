"""Streams of random numbers: one per device, or as many as a program makes; the same seed and device give the same stream.

The host draws from NumPy's PCG64. A CUDA device draws from Philox by a kernel of gradlib's own: what it draws is a function of the seed and
the number of draws before, so that the whole state is two integers, and a captured graph finds them on the device.
"""

from __future__ import annotations

import contextlib
import json
import math
import os
import threading
import weakref
from typing import Any, TypeVar

import numpy as np

from gradlib.backend.array import Array, cupy, on_device_of
from gradlib.backend.capture import capturing, kernels
from gradlib.backend.device import device as Device, resolve
from gradlib.backend.dtype import float16, float64, int64
from gradlib.backend.sorting import sorted_lines
from gradlib.backend.thread import kept_at_fork

_BITS = 0xFFFF_FFFF_FFFF_FFFF

SET_DURING_CAPTURE = (
    "a random stream of a CUDA device is set during the capture of a graph, or to a place within one, which only a replay of it knows"
)


class _Locks:
    """Those of all generators, held together."""

    def acquire(self) -> None:
        self.held = [each._lock for each in tuple(_made)]
        for lock in self.held:
            lock.acquire()

    def release(self) -> None:
        for lock in self.held:
            lock.release()


_HERE = contextlib.nullcontext()
AnyRandom = TypeVar("AnyRandom", bound="RandomStream")

_made: weakref.WeakSet[RandomStream] = weakref.WeakSet()
kept_at_fork(_Locks())


def positions_on(index: int) -> list[tuple[RandomStream, bytes]]:
    """The random streams of a CUDA device, each with its position, for ``restore``."""
    return [(each, each.state()) for each in tuple(_made) if each.device.index == index]


def system_seed() -> int:
    """A seed of 63 bits from the operating system; the module ``secrets``, which has the same, loads a dozen others."""
    return int.from_bytes(os.urandom(8), "little") >> 1


class RandomStream:
    """A stream of random numbers on one device.

    Args:
        device: where the numbers are made.
    """

    def __init__(self, device: Any = "cpu") -> None:
        index = resolve(device)
        self.device = Device("cpu") if index is None else Device("cuda", index)
        self._lock = threading.Lock()
        _made.add(self)
        self._begin(67280421310721)

    def manual_seed(self: AnyRandom, seed: int) -> AnyRandom:
        """Start the stream that belongs to this seed. Returns: this generator.

        Raises: RuntimeError on a CUDA device while this thread captures a graph.
        """
        if capturing.capture is not None and self.device.type != "cpu":
            raise RuntimeError(SET_DURING_CAPTURE)
        return self._begin(seed)

    def _begin(self: AnyRandom, seed: int) -> AnyRandom:
        self._seed = as_seed(seed)
        self._drawn = 0
        if self.device.type == "cpu":
            self._host = np.random.Generator(np.random.PCG64(self._seed))
        return self

    def seed(self) -> int:
        """Start a stream from a seed that the operating system gives, and return that seed."""
        self.manual_seed(system_seed())
        return self._seed

    def initial_seed(self) -> int:
        """The seed that this stream began with."""
        return self._seed

    def state(self) -> bytes:
        """The stream's position, for ``restore``."""
        state: dict[str, Any] = {"device": self.device.type, "seed": self._seed, "drawn": self._drawn}
        if self.device.type == "cpu":
            state["host"] = self._host.bit_generator.state
        elif capturing.capture is not None:  # only a replay knows the draws before; within the capture those of the graph are counted
            state["capture"] = capturing.capture.number, capturing.capture.draws_of(self)
        return json.dumps(state).encode()

    def restore(self, state: bytes) -> None:
        """Continue from where ``state`` was called.

        Raises: RuntimeError for the state of another kind of device, and on a CUDA device for one that was not taken in the capture under
            way, or in one that is over; KeyError, TypeError or ValueError for what is no state.
        """
        known = json.loads(state)
        kind = known["device"]
        if kind != self.device.type:
            raise RuntimeError(f"this is the state of a {kind} generator; this generator is on {self.device}")
        seed, drawn = as_seed(known["seed"]), known["drawn"]
        if kind != "cpu" and (capturing.capture is not None or "capture" in known):
            taken_in, draws = known.get("capture", (0, 0))
            if capturing.capture is None or taken_in != capturing.capture.number:
                raise RuntimeError(SET_DURING_CAPTURE)
            capturing.capture.go_back(self, draws)
            return
        if kind == "cpu":
            self._host.bit_generator.state = known["host"]
        self._seed, self._drawn = seed, drawn

    # ---- the draws ----------------------------------------------------------------------------------------------------------------

    def draw(
        self, kind: str, shape: tuple[int, ...], dtype: Any, *numbers: Any, array: Array | None = None, out: Array | None = None
    ) -> Array:
        """The next draw of a CUDA device, there: one launch, of a kind that ``gradlib.cuda.philox`` knows.

        Args:
            numbers, array: what the kind takes, the array being contiguous and of the dtype of the elements.
            out: contiguous memory for the result.
        """
        library, index = cupy(), self.device.index
        if index != library.cuda.runtime.getDevice():
            with library.cuda.Device(index):
                return self.draw(kind, shape, dtype, *numbers, array=array, out=out)
        out = library.ndarray(shape, dtype) if out is None else out
        if capturing.capture is not None:
            place, number = capturing.capture.draw(self, lambda: library.empty(2, np.int64))
            return kernels.draw(kind, out, place, 0, number, numbers, array)
        with self._lock:
            number = self._drawn
            self._drawn += 1
        return kernels.draw(kind, out, None, self._seed, number, numbers, array)

    def advance(self, draws: int) -> int:
        """Skip so many draws of a CUDA device. Returns: how many there were before."""
        with self._lock:
            number = self._drawn
            self._drawn += draws
        return number

    def uniform(self, shape: tuple[int, ...], dtype: np.dtype) -> Array:
        """Uniform in [0, 1): as many equally likely values as the dtype can tell apart there."""
        if dtype.kind == "c":
            return self._complex(self.uniform, shape, dtype)
        if dtype.itemsize == 2:
            levels = 2048 if dtype == float16 else 256
            if self.device.type != "cpu":
                return self.draw("levels", shape, dtype, levels)
            return (self.integers(0, levels, shape).astype(np.float32) / np.float32(levels)).astype(dtype)
        if self.device.type == "cpu":
            return self._host.random(shape, dtype=dtype)
        return self.draw("uniform", shape, dtype)

    def normal(self, shape: tuple[int, ...], dtype: np.dtype) -> Array:
        """Normal with mean 0 and variance 1; for complex dtypes each part has variance 1/2."""
        if dtype.kind == "c":
            with self._place():
                return self._complex(self.normal, shape, dtype) * dtype.type(np.sqrt(0.5))
        if self.device.type != "cpu":
            return self.draw("normal", shape, dtype)
        work = np.dtype(np.float32) if dtype.itemsize < 4 else dtype
        return self._host.standard_normal(shape, dtype=work).astype(dtype, copy=False) if 0 not in shape else np.empty(shape, dtype)

    def integers(self, low: int, high: int, shape: tuple[int, ...], out: Array | None = None) -> Array:
        """Integers from low up to but not including high, as int64; ``out``: contiguous memory for them on a CUDA device."""
        if self.device.type == "cpu":
            return self._host.integers(low, high, shape, dtype=np.int64)
        many = high - low
        return self.draw("bits", shape, int64, many - (1 << 64) if many >> 63 else many, low, out=out)

    def permutation(self, n: int, rows: tuple[int, ...] = ()) -> Array:
        """The integers from 0 to n - 1 in random order, as int64, once for each of the rows: (*rows, n)."""
        if self.device.type == "cpu":
            if not rows:
                return self._host.permutation(n)
            drawn = [self._host.permutation(n) for _ in range(math.prod(rows))]
            return np.array(drawn, dtype=np.int64).reshape(*rows, n)
        keys = self.draw("uniform", (*rows, n), float64)  # CuPy's own permutation sorts 32-bit keys, which collide
        return first_places(keys, n)

    def _complex(self, draw: Any, shape: tuple[int, ...], dtype: np.dtype) -> Array:
        part = np.dtype(np.float32) if dtype.itemsize == 8 else float64
        return draw((*shape, 2), part).view(dtype)[..., 0]

    def _place(self) -> Any:
        return _HERE if self.device.type == "cpu" else cupy().cuda.Device(self.device.index)


def first_places(keys: Array, count: int) -> Array:
    """The places of the least elements of each line of a CuPy array, so many, in their order."""
    with on_device_of(keys):
        made = sorted_lines(keys, -1, False, 0, count)
        return cupy().argsort(keys, -1)[..., :count] if made is None else made[1]


def as_seed(seed: Any) -> int:
    number = int(seed)
    if not -(1 << 63) <= number <= _BITS:
        raise RuntimeError(f"Overflow when unpacking long: a seed lies in [-2**63, 2**64 - 1], got {number}")
    return number & _BITS
