"""Steps that a CUDA graph can capture: their counts and rates are numbers on the device, which change from replay to replay.

What a step takes of its count and rate is written once: for numbers of Python, for arrays of no dimensions on the device, and for
`Formula`, of which a kernel is written that computes it for all parameters (`gradlib.optim.steps`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np

from gradlib.backend.array import Array, is_cupy, namespace
from gradlib.backend.dtype import get_default_dtype
from gradlib.core.tensor import Tensor, wrap
from gradlib.core.writes import overwrite

Number = Any  # a Python float or int, an array of no dimensions on the device, or a Formula


class Formula:
    """A number in float64 on the device, as the text in C++ that computes it."""

    __slots__ = ("text",)
    __array_ufunc__ = None  # NumPy's numbers leave their operators to it

    def __init__(self, text: str) -> None:
        self.text = text

    def __gt__(self, other: Number) -> Formula:
        return Formula(f"({self.text} > {_text(other)})")

    def __pow__(self, other: Number) -> Formula:
        return Formula(f"pow({self.text}, {_text(other)})")

    def __rpow__(self, other: Number) -> Formula:
        return Formula(f"pow({_text(other)}, {self.text})")


def _text(x: Number) -> str:
    return x.text if isinstance(x, Formula) else repr(float(x))


def _operator(sign: str, turned: bool = False) -> Callable[[Formula, Number], Formula]:
    def made(self: Formula, other: Number) -> Formula:
        x, y = (other, self) if turned else (self, other)
        return Formula(f"({_text(x)} {sign} {_text(y)})")

    return made


for _name, _sign in {"add": "+", "sub": "-", "mul": "*", "truediv": "/"}.items():
    setattr(Formula, f"__{_name}__", _operator(_sign))
    setattr(Formula, f"__r{_name}__", _operator(_sign, turned=True))


def counted(state: dict[str, Any], group: dict[str, Any], p: Array) -> Number:
    """Count a step of a parameter p, in ``state["step"]``. Returns: the number of this step.

    Raises: AssertionError for a parameter on the CPU in a group with capturable=True.
    """
    return changed(state, "step", number(state, "step", group, p) + 1)


def number(state: dict[str, Any], name: str, group: dict[str, Any], p: Array) -> Number:
    """An entry of the state as a number to compute with: in float64 on the device if the group is capturable."""
    held = state[name]
    if not group["capturable"]:
        return held._array.item() if isinstance(held, Tensor) else held  # as a capturable one saved it
    if not is_cupy(p):
        raise AssertionError("If capturable=True, params and state_steps must be on supported devices: ['cuda'].")
    if not isinstance(held, Tensor):
        held = state[name] = as_state(held, p)
    return held._array.astype(np.float64)


def as_state(x: Number, p: Array) -> Tensor:
    """A number as the state of a parameter p on a device keeps it."""
    return wrap(namespace(p).full((), x, state_dtype()))


def state_dtype() -> np.dtype:
    """The dtype of counts and other numbers that states keep on the device: float32, or float64 where that is the default."""
    return np.dtype(np.float64 if get_default_dtype() == np.float64 else np.float32)


def changed(state: dict[str, Any], name: str, new: Number) -> Number:
    """Put a number into the state, in its memory if it is on the device. Returns: the number."""
    if isinstance(state[name], Tensor) and is_cupy(new):
        overwrite(state[name], new.astype(state[name]._array.dtype), "an optimiser's step")
    else:
        state[name] = new.item() if is_cupy(new) else new
    return new


def rate(group: dict[str, Any]) -> Number:
    """The learning rate: where it is a tensor on a device, as it stands there, and the host does not wait for it."""
    lr = group["lr"]
    return lr._array.reshape(()).astype(np.float64) if isinstance(lr, Tensor) and is_cupy(lr._array) else float(lr)


def shrink(lr: Number, apart: Number) -> Number:
    """What weight decay that is apart from the gradient multiplies a parameter by."""
    return 1 - lr * apart if isinstance(apart, Formula) or apart else 1.0


def root(x: Number) -> Number:
    """The square root."""
    if isinstance(x, Formula):
        return Formula(f"sqrt({x.text})")
    return namespace(x).sqrt(x) if is_cupy(x) else math.sqrt(x)


def chosen(condition: Number, yes: Callable[[], Number], no: Callable[[], Number]) -> Number:
    """One of two numbers; of the other it does not matter whether it can be computed."""
    if isinstance(condition, Formula):
        return Formula(f"({condition.text} ? {_text(yes())} : {_text(no())})")
    if is_cupy(condition):
        return namespace(condition).where(condition, yes(), no())
    return yes() if condition else no()


def factor(x: Number, p: Array) -> Number:
    """A number by which arrays like p are multiplied, without changing their dtype."""
    return x.astype(p.dtype) if is_cupy(x) else x
