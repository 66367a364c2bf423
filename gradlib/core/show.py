"""How a Tensor prints: its values as NumPy formats them, then what is not the default, then its place in the graph."""

from __future__ import annotations

import sys
from typing import Any

import numpy as np

from gradlib.backend import dtype as dtypes
from gradlib.backend.array import move

_PROFILES: dict[str, dict[str, Any]] = {
    "default": {"precision": 4, "threshold": 1000, "edgeitems": 3, "linewidth": 80},
    "short": {"precision": 2, "threshold": 1000, "edgeitems": 2, "linewidth": 80},
    "full": {"precision": 4, "threshold": sys.maxsize, "edgeitems": 3, "linewidth": 80},
}
options: dict[str, Any] = {**_PROFILES["default"], "sci_mode": None}
"""How tensors print; ``set_printoptions`` changes it, for all threads."""


def set_printoptions(
    precision: int | None = None,
    threshold: float | None = None,
    edgeitems: int | None = None,
    linewidth: int | None = None,
    profile: str | None = None,
    sci_mode: bool | None = None,
) -> None:
    """Say how tensors print; what is left out stays as it is, but sci_mode, which goes back to None.

    Args:
        precision: digits behind the point. threshold: of more elements than this only the edges are shown.
        edgeitems: how many elements each edge has. linewidth: characters in a line.
        profile: "default", "short" or "full", to set all of these.
        sci_mode: True for exponents always, False for never, None for where the values need them.
    Raises: ValueError for another profile.
    Source: torch.set_printoptions.
    """
    if profile is not None:
        if profile not in _PROFILES:
            raise ValueError(f"set_printoptions: profile is one of {', '.join(map(repr, _PROFILES))}, got {profile!r}")
        options.update(_PROFILES[profile])
    given = {"precision": precision, "threshold": threshold, "edgeitems": edgeitems, "linewidth": linewidth}
    options.update({name: value for name, value in given.items() if value is not None})
    options["sci_mode"] = sci_mode


def describe(tensor: Any) -> str:
    """The text of ``repr(tensor)``."""
    host = move(tensor._array, None)
    dtype = host.dtype
    narrow = dtype.itemsize == 2 and dtypes.is_floating_point(dtype)  # NumPy compares a float16 with 1e8 to choose its form
    shown = host.astype(np.float32) if narrow else host
    scientific = options["sci_mode"]
    suppress = _suppress(shown) if scientific is None else not scientific
    numbers: Any = {"precision": options["precision"], "threshold": options["threshold"], "edgeitems": options["edgeitems"]}
    if scientific and shown.dtype.kind == "f":
        digits = options["precision"]
        numbers["formatter"] = {"float_kind": lambda x: f"{x:.{digits}e}"}
    with np.printoptions(linewidth=options["linewidth"], suppress=suppress, **numbers):
        text = np.array2string(shown, separator=", ", prefix="tensor(")
    notes = []
    if host.size == 0 and host.shape != (0,):
        notes.append(f"size={host.shape}")
    if tensor.is_cuda:
        notes.append(f"device='{tensor.device}'")
    default = (dtypes.get_default_dtype(), dtypes.to_complex(dtypes.get_default_dtype()), dtypes.int64, dtypes.bool_)
    if dtype not in default or (host.size == 0 and dtype != default[0]):
        notes.append(f"dtype={dtype.name}")
    if tensor.grad_fn is not None:
        notes.append(f"grad_fn=<{tensor.grad_fn.name()}>")
    elif tensor.requires_grad:
        notes.append("requires_grad=True")
    return f"tensor({', '.join([text, *notes])})"


def _suppress(values: np.ndarray) -> bool:
    """Plain decimals while they stay readable; exponents once the values span too much for four digits."""
    if values.dtype.kind not in "fc" or values.size == 0:
        return True
    size = np.abs(values[np.isfinite(values) & (values != 0)])
    return size.size == 0 or bool(size.max() < 1e5 and size.min() >= 1e-4)
