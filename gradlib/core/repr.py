"""The text of a Tensor: its values as NumPy formats them, then attributes that are not the default, then its place in the graph."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable
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
    """Set how tensors print. An option that is not given stays as it is, except sci_mode, which goes back to None.

    Args:
        precision: digits behind the point.
        threshold: of more elements than this only the edges are shown.
        edgeitems: how many elements each edge has.
        linewidth: characters in a line.
        profile: "default", "short" or "full", to set all of these.
        sci_mode: True for exponents always, False for never, None for where the values need them.
    Raises: ValueError for another profile.
    Source: torch.set_printoptions.
    Example:
        >>> gradlib.set_printoptions(precision=2)
        >>> gradlib.tensor([1.23456])
        tensor([1.23])
        >>> gradlib.set_printoptions(profile="default")
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
    numbers: Any = {"threshold": options["threshold"], "edgeitems": options["edgeitems"]}
    numbers["linewidth"] = options["linewidth"] + max(shown.ndim, 1)  # NumPy counts the brackets that close
    if shown.dtype.kind in "fc":
        numbers["formatter"] = _formatter(_edges(shown))
    elif shown.dtype.kind == "b":
        width = 4 if _edges(shown).all() else 5
        numbers["formatter"] = {"bool": lambda value: str(bool(value)).rjust(width)}
    with np.printoptions(**numbers):
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
    text = f"tensor({text.replace(', ..., ', ',  ..., ')}"
    for note in notes:  # on a line of its own where it would be too long
        last = len(text) - text.rfind("\n") + 1
        text += (",\n       " if last + len(note) + 2 > options["linewidth"] else ", ") + note
    return f"{text})"


def _edges(values: np.ndarray) -> np.ndarray:
    """The elements that decide on the format of the numbers: those that are shown, or all where they are few."""
    if values.size > options["threshold"]:
        edge = options["edgeitems"]
        for axis, size in enumerate(values.shape):
            if size > 2 * edge:
                values = values.take([*range(edge), *range(size - edge, size)], axis)
    return values.reshape(-1)


def _formatter(values: np.ndarray) -> dict[str, Callable[[Any], str]]:
    """The formatter by which NumPy prints an array of floating-point or complex numbers."""
    if values.dtype.kind == "f":
        return {"float_kind": _number_text(values)}
    real, imaginary = _number_text(values.real), _number_text(values.imag)

    def text(value: complex) -> str:
        second = imaginary(value.imag).lstrip()
        return f"{real(value.real)}{'' if second[0] in '+-' else '+'}{second}j"

    return {"complex_kind": text}


def _number_text(values: np.ndarray) -> Callable[[float], str]:
    """The text of a number among others: whole ones without decimals, exponents where the sizes differ too much, all of one width.

    Source: torch's _tensor_str._Formatter.
    """
    digits = options["precision"]
    size = np.abs(values[np.isfinite(values) & (values != 0)]).astype(np.float64)
    least, most = (float(size.min()), float(size.max())) if size.size else (1.0, 1.0)
    whole = bool((size == np.floor(size)).all())
    scientific = most / 1000 > least or most > 1e8 or (not whole and least < 1e-4)
    if size.size and options["sci_mode"] is not None:
        scientific = options["sci_mode"]

    def text(value: float) -> str:
        if scientific:
            return f"{value:.{digits}e}"
        if whole:
            return f"{value:.0f}{'.' if math.isfinite(value) else ''}"
        return f"{value:.{digits}f}"

    width = max((len(text(value)) for value in values.tolist() if math.isfinite(value) and value), default=1)
    return lambda value: text(value).rjust(width)
