"""The libraries that gradlib is compared with, where installed, each behind the few functions that a program needs of it.

A program is written in one of three styles. "tape" is torch's: tensors that record, `backward`. "array" has no derivatives. "functional"
asks for the gradient of a function. MyGrad's tape has its own way to begin anew, which its peer hides.
"""

from __future__ import annotations

import importlib
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np

from gradlib.cli.bench.timing import Run as Run
from gradlib.cli.info.packages import install

NAMES = ("gradlib", "torch", "jax", "autograd", "mygrad", "numpy", "cupy")
_MODULES = {"jax": "jax.numpy", "autograd": "autograd.numpy"}
_STYLES = {"numpy": "array", "cupy": "array", "jax": "functional", "autograd": "functional"}

_DELAY = 1 << 26
"""Numbers that are copied to keep a GPU busy for a while."""


@dataclass(frozen=True)
class Peer:
    """A library on a device.

    Attributes:
        name: one of `NAMES`; device: "cpu" or "cuda".
    """

    name: str
    device: str = "cpu"

    @property
    def style(self) -> str:
        """The style in which a program is written for it: "tape", "array" or "functional"."""
        return _STYLES.get(self.name, "tape")

    @cached_property
    def m(self) -> Any:
        """The module whose functions a program calls."""
        return importlib.import_module(_MODULES.get(self.name, self.name))

    def tensor(self, array: np.ndarray, requires_grad: bool = False) -> Any:
        """An array of this library with the given values."""
        if self.name in ("gradlib", "torch"):
            made = self.m.tensor(array, device=self.device)
            return made.requires_grad_() if requires_grad else made
        if self.name == "mygrad":
            return self.m.tensor(array.copy(), constant=not requires_grad)
        return array.copy() if self.name == "autograd" else self.m.array(array)

    def host(self, value: Any) -> np.ndarray:
        """The values of a result as a NumPy array."""
        if self.name == "torch":
            return value.numpy(force=True)
        if self.name == "gradlib":
            return value.detach().cpu().numpy()
        if self.name == "mygrad":
            return np.asarray(value.data if hasattr(value, "backward") else value)
        return value.get() if self.name == "cupy" else np.asarray(value)

    def gradient(self, function: Callable[..., Any], *arrays: np.ndarray) -> Run:
        """A run that gives the gradient of a scalar function by its first argument.

        Args:
            function: from this library's arrays to a scalar of it.
        """
        if self.name == "autograd":
            gradient = importlib.import_module("autograd").grad(function)
            return lambda: gradient(*arrays)
        if self.name == "jax":
            jax = importlib.import_module("jax")
            compiled, given = jax.jit(jax.grad(function)), [self.tensor(a) for a in arrays]
            return lambda: compiled(*given).block_until_ready()
        x, *rest = (self.tensor(a, requires_grad=k == 0) for k, a in enumerate(arrays))

        def run() -> Any:
            if self.name == "mygrad":
                x.null_grad()
            else:
                x.grad = None
            function(x, *rest).backward()
            return x.grad

        return run

    def value(self, function: Callable[..., Any], *arrays: np.ndarray) -> Run:
        """A run that gives a function's value, with nothing recorded."""
        given = [self.tensor(a) for a in arrays]
        if self.name == "jax":
            jax = importlib.import_module("jax")
            compiled = jax.jit(function)
            return lambda: jax.block_until_ready(compiled(*given))
        return lambda: function(*given)

    def no_grad(self) -> AbstractContextManager[Any]:
        """A context in which nothing is recorded."""
        if self.name in ("gradlib", "torch"):
            return self.m.no_grad()
        return self.m.no_autodiff if self.name == "mygrad" else nullcontext()

    def synchronize(self) -> None:
        """Wait until the device has done all that was asked of it."""
        if self.device == "cuda" and self.name == "torch":
            self.m.cuda.synchronize()
        elif self.device == "cuda":
            importlib.import_module("cupy").cuda.get_current_stream().synchronize()

    def events(self) -> Any:
        """The events by which it asks its GPU for the time."""
        return _TorchEvents(self.m) if self.name == "torch" else _CuPyEvents()


class _CuPyEvents:
    """By CuPy, on whose current stream gradlib works too."""

    def __init__(self) -> None:
        self._cupy = importlib.import_module("cupy")
        self._source, self._target = self._cupy.zeros((2, _DELAY), "float32")

    def record(self) -> Any:
        event = self._cupy.cuda.Event()
        event.record()
        return event

    def seconds(self, begin: Any, end: Any) -> float:
        end.synchronize()
        return self._cupy.cuda.get_elapsed_time(begin, end) / 1e3

    def delay(self) -> None:
        self._cupy.copyto(self._target, self._source)


class _TorchEvents:
    def __init__(self, torch: Any) -> None:
        self._torch = torch
        self._source, self._target = torch.zeros((2, _DELAY), device="cuda")

    def record(self) -> Any:
        event = self._torch.cuda.Event(enable_timing=True)
        event.record()
        return event

    def seconds(self, begin: Any, end: Any) -> float:
        end.synchronize()
        return begin.elapsed_time(end) / 1e3

    def delay(self) -> None:
        self._target.copy_(self._source)


def available(name: str, device: str) -> str | None:
    """Why a peer cannot be used on a device; None where it can."""
    if device == "cuda" and name in ("numpy", "autograd", "mygrad"):
        return "it has no CUDA arrays"
    if device == "cpu" and name == "cupy":
        return "it has CUDA arrays only"
    try:
        module = importlib.import_module(_MODULES.get(name, name))
    except ImportError as error:
        return f"it is not installed ({error}); get it with: {install(name)}"
    if device == "cuda" and name == "torch" and not module.cuda.is_available():
        return "this build of it finds no GPU"
    if device == "cuda" and name == "jax" and not any(d.platform == "gpu" for d in importlib.import_module("jax").devices()):
        return "this build of it finds no GPU"
    return None


def use_threads(name: str, threads: int) -> None:
    """Have a library that counts its threads itself use so many."""
    if name == "torch":
        importlib.import_module("torch").set_num_threads(threads)
