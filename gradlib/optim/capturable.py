"""Steps that a CUDA graph can capture: their counts and rates are numbers on the device, which change from replay to replay."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradlib.backend.array import Array, is_cupy, namespace
from gradlib.core.tensor import Tensor, wrap
from gradlib.core.writes import overwrite

Number = Any  # a Python float or int, or an array of no dimensions on the device


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
        held = state[name] = wrap(namespace(p).full((), held, np.float32 if name == "step" else np.float64))
    return held._array.astype(np.float64)


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


def root(x: Number) -> Number:
    """The square root."""
    return namespace(x).sqrt(x) if is_cupy(x) else math.sqrt(x)


def factor(x: Number, p: Array) -> Number:
    """A number by which arrays like p are multiplied, without changing their dtype."""
    return x.astype(p.dtype) if is_cupy(x) else x
