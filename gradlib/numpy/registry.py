"""The table of NumPy's functions that take Tensors: the function of gradlib's for each, and those that are refused."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

import numpy as np

from gradlib.core.op import REGISTRY

Function = TypeVar("Function", bound=Callable[..., Any])


class Served(NamedTuple):
    """The way in which a NumPy function is served for Tensors.

    Attributes:
        call: takes NumPy's arguments, Tensors among them.
        exact: whether its results are integers, bools or no arrays at all, so that they have no derivative.
    """

    call: Callable[..., Any]
    exact: bool


SERVED: dict[Any, Served] = {}
"""By NumPy's function, ufuncs included: whatever has an implementation."""

REFUSED: dict[Any, str] = {}
"""By NumPy's function: what to do instead."""


def implements(*functions: Any, exact: bool = False) -> Callable[[Function], Function]:
    """Register the function that is called for these NumPy functions when a Tensor is among their arguments.

    Args:
        functions: NumPy's functions; several where they are one function under two names.
        exact: its results are integers, bools or no arrays, and so have no derivative.
    """

    def register(call: Function) -> Function:
        for function in functions:
            if function is not None:  # a later NumPy has it
                SERVED[function] = Served(call, exact)
        return call

    return register


def refuses(instead: str, *functions: Any) -> None:
    """Register NumPy functions that take no Tensor, with what to do instead."""
    for function in functions:
        if function is not None:
            REFUSED[function] = instead


def name_of(function: Any) -> str:
    """A NumPy function as users spell it, numpy.linalg.eigh; or what another library's ufunc says of itself, which is its bare name."""
    name = getattr(function, "__name__", str(function))
    return f"{name}, another library's ufunc," if _is_foreign(function) else f"{getattr(function, '__module__', None) or 'numpy'}.{name}"


def _is_foreign(function: Any) -> bool:
    return isinstance(function, np.ufunc) and getattr(np, function.__name__, None) is not function


def refusal(function: Any) -> TypeError:
    """The error for a NumPy function that takes no Tensor; names the nearest that does."""
    instead = REFUSED.get(function) or _nearest(function)
    return TypeError(
        f"{name_of(function)} does not take a gradlib Tensor: {instead}. For the values alone, without a derivative, call it on "
        "tensor.detach().cpu().numpy()"
    )


def _nearest(function: Any) -> str:
    from difflib import get_close_matches

    if _is_foreign(function) and function.__name__ in REGISTRY:
        return f"gradlib.{function.__name__} does"
    near = get_close_matches(name_of(function), [name_of(each) for each in SERVED], n=2, cutoff=0.5)
    return f"the nearest that do are {' and '.join(near)}" if near else "no operation of gradlib's expresses it"


def numpy_function(path: str) -> Any:
    """A function of NumPy's by its dotted name; None where this NumPy has none: some came with later versions."""
    found: Any = np
    for part in path.split("."):
        found = getattr(found, part, None)
    return found
