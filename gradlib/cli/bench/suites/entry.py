"""An operation of the suite `ops`: how it is called in every library, and with what."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from functools import cache
from typing import Any

import numpy as np

Rng = np.random.Generator
Size = int | tuple[int, ...]
Draw = Callable[[Rng, Any], list[Any]]
Call = Callable[..., Any]
SIZES: dict[Size, str] = {10: "10", 10_000: "1e4", 1_000_000: "1e6"}


@dataclass(frozen=True)
class Entry:
    """The call of one operation in every library.

    Attributes:
        name: its public name; draw: from a size to the arguments, of which float arrays become tensors that require grad.
        call: from a module and the arguments to the result, for gradlib and torch alike.
        array: the same for NumPy and CuPy; None where they have nothing like it.
        gradient: whether it has a derivative; sizes: numbers of elements, or shapes.
        operations: of the forward, from the arguments; None where nobody counted.
    """

    name: str
    draw: Draw
    call: Call
    array: Call | None = None
    gradient: bool = True
    sizes: tuple[Size, ...] = tuple(SIZES)
    operations: Callable[..., int] | None = None


def label(size: Size) -> str:
    """A number of elements, or a shape, as a row shows it."""
    return "x".join(map(str, size)) if isinstance(size, tuple) else SIZES[size]


_ALIASES = "sub=subtract mul=multiply div=divide neg=negative conj_physical=conj "
_ALIASES += "eq=equal ne=not_equal lt=less le=less_equal gt=greater ge=greater_equal"
_NUMPY = dict(alias.split("=") for alias in _ALIASES.split())
"""NumPy's name for an operation, where it is another."""
_ELSEWISE = {"median", "var", "std"}
"""What NumPy defines otherwise by default."""


@cache
def find(m: Any, name: str) -> Any:
    """A function of gradlib or torch by its name, wherever it lives; looked for once, since a search is no part of what is timed."""
    for place in (m, m.linalg, m.nn.functional):
        if hasattr(place, name):
            return getattr(place, name)
    raise AttributeError(name)


def named(names: str, draw: Draw, *more: Any, gradient: bool = True) -> list[Entry]:
    """Operations that are called by their name with the drawn arguments and further ones, in NumPy too where it has them."""
    made = []
    for name in names.split():

        def call(m: Any, *args: Any, name: str = name) -> Any:
            return find(m, name)(*args, *more)

        def plain(m: Any, *args: Any, name: str = name) -> Any:
            return getattr(m, _NUMPY.get(name, name))(*args)

        has = not more and name not in _ELSEWISE and hasattr(np, _NUMPY.get(name, name))
        made.append(Entry(name, draw, call, plain if has else None, gradient))
    return made


def method(name: str, draw: Draw, call: Callable[..., Any], gradient: bool = True, array: Call | None = None) -> Entry:
    """An operation that is called in its own way, from the arguments alone."""
    return Entry(name, draw, lambda m, *args: call(*args), array, gradient)


def alike(name: str, draw: Draw, call: Call, gradient: bool = True, operations: Callable[..., int] | None = None) -> Entry:
    """An operation that is called in the same way in every library."""
    return Entry(name, draw, call, call, gradient, operations=operations)


def along(names: str, draw: Draw, dim: int, gradient: bool = True) -> list[Entry]:
    """Reductions and scans along a dimension, NumPy's axis."""
    made = []
    for entry in named(names, draw, dim, gradient=gradient):
        name = entry.name

        def plain(m: Any, x: Any, name: str = name) -> Any:
            return getattr(m, name)(x, axis=dim)

        has = hasattr(np, name) and name not in _ELSEWISE
        made.append(replace(entry, name=f"{name}(dim={dim})", array=plain if has else None))
    return made
