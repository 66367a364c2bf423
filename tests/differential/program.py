"""A random program: named inputs, and lines of source in which ``lib`` is torch or gradlib."""

from __future__ import annotations

import types
from dataclasses import dataclass, replace
from typing import Any

import numpy as np


@dataclass(frozen=True)
class Input:
    """An array that a program starts from.

    Attributes:
        name: the variable.
        values: its values, in the NumPy dtype that the tensor has; bfloat16 is held as float32.
        dtype: the name of the tensor's dtype.
        requires_grad: whether it is a leaf that wants a gradient.
    """

    name: str
    values: np.ndarray
    dtype: str
    requires_grad: bool = False

    def make(self, lib: Any) -> Any:
        """The tensor in this library."""
        made = lib.tensor(self.values.tolist(), dtype=getattr(lib, self.dtype)).reshape(self.values.shape)
        return made.detach().requires_grad_() if self.requires_grad else made.detach()

    def text(self) -> str:
        tail = ", requires_grad=True" if self.requires_grad else ""
        shape = f".reshape({self.values.shape})" if 0 in self.values.shape else ""
        listed = repr(self.values.tolist()).replace("nan", "float('nan')").replace("inf", "float('inf')")
        return f"{self.name} = lib.tensor({listed}, dtype=lib.{self.dtype}{tail}){shape}"


@dataclass(frozen=True)
class Program:
    """Inputs and lines; a line may hold several physical lines (a ``with`` block)."""

    inputs: tuple[Input, ...]
    lines: tuple[str, ...]

    def leaves(self) -> list[Input]:
        return [each for each in self.inputs if each.requires_grad]

    def without_input(self, name: str) -> Program:
        return replace(self, inputs=tuple(each for each in self.inputs if each.name != name))

    def text(self) -> str:
        return "\n".join([each.text() for each in self.inputs] + list(self.lines))

    def run(self, lib: Any, given: dict[str, Any] | None = None) -> dict[str, Any]:
        """Run the lines; returns every variable. What a line raises goes through.

        Args:
            lib: torch or gradlib.
            given: tensors for some of the inputs, in place of their own.
        """
        given = given or {}
        space: dict[str, Any] = {"lib": lib, "F": lib.nn.functional, **functions(lib)}
        space.update({each.name: given[each.name] if each.name in given else each.make(lib) for each in self.inputs})
        exec("\n".join(self.lines), space)  # the text is our own
        return space


def functions(lib: Any) -> dict[str, Any]:
    """Custom Functions that programs call, written once for both libraries."""
    base = lib.autograd.Function
    if base in _FUNCTIONS:
        return _FUNCTIONS[base]

    class Cube(base):  # type: ignore[misc, valid-type]
        generate_vmap_rule = True

        @staticmethod
        def forward(x: Any) -> Any:
            return x * x * x

        @staticmethod
        def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
            ctx.save_for_backward(inputs[0])
            ctx.save_for_forward(inputs[0])

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            (x,) = ctx.saved_tensors
            return g * 3 * x * x

        @staticmethod
        def jvp(ctx: Any, t: Any) -> Any:
            (x,) = ctx.saved_tensors
            return t * 3 * x * x

    class Scaled(base):  # type: ignore[misc, valid-type]
        @staticmethod
        def forward(ctx: Any, x: Any, scale: float) -> Any:
            ctx.scale = scale
            return x * scale

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * ctx.scale, None

    class Doubled(base):  # type: ignore[misc, valid-type]
        """Works in place."""

        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            ctx.mark_dirty(x)
            return x.mul_(2)

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return g * 2

        @staticmethod
        def jvp(ctx: Any, t: Any) -> Any:
            return t.mul_(2)

    _FUNCTIONS[base] = {"Cube": Cube, "Scaled": Scaled, "Doubled": Doubled}
    return _FUNCTIONS[base]


_FUNCTIONS: dict[type, dict[str, Any]] = {}


def libraries() -> tuple[types.ModuleType, types.ModuleType]:
    """torch and gradlib, with all that programs reach."""
    import torch

    import gradlib
    import gradlib.nn.functional

    torch.set_num_threads(1)
    return torch, gradlib
