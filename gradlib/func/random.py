"""Random numbers inside vmap: refused, the same for all examples, or different ones for each."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

from gradlib.core.batched import VmapLevel, is_batched_at
from gradlib.core.modes import skipping
from gradlib.core.random import draw_decided
from gradlib.core.tensor import Tensor
from gradlib.func.rules import any_batched, ndim, pad_to_rank, physical

_FROM_VALUES = ("bernoulli", "multinomial", "normal")


def draw(level: VmapLevel, function: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Run a function that draws random numbers as the level's ``randomness`` says.

    Raises: RuntimeError for "error", and for what cannot be the same, or cannot differ, in all examples.
    """
    name = function.__name__
    if level.randomness == "error":
        raise RuntimeError(
            "vmap: called random operation while in randomness error mode. Please either use the 'same' or 'different' randomness flags "
            "on vmap or perform the randomness operation out of vmap"
        )
    values = [*args, *named.values()]
    if level.randomness == "same":
        if (name in _FROM_VALUES and any_batched(level, values)) or (name == "bernoulli_" and any_batched(level, values[1:])):
            raise RuntimeError(f"vmap: {name} of Tensors that are batched over cannot be the same for all examples; use 'different'")
        if name.endswith("_") and is_batched_at(level, args[0]):
            return _fill_same(level, function, args, named)
        with draw_decided(level):
            return function(*args, **named)
    if name.endswith("_"):
        return _fill_different(level, function, args, named)
    if name not in _FROM_VALUES or not any(isinstance(v, Tensor) for v in values):
        with draw_decided(level, (level.size,)):
            return level.logical(function(*args, **named))
    return _draw_from_rows(level, function, args, named)


def _fill_different(level: VmapLevel, function: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Fill a batched tensor in place, each example with its own numbers."""
    target, *rest = args
    if not level.holds(target):
        raise RuntimeError(
            "vmap: Cannot ask for different inplace randomness on an unbatched tensor. This will appear like same randomness. Draw a new "
            "tensor instead."
        )
    with skipping(level), draw_decided(level):
        function(
            target.value,
            *(pad_to_rank(level, v, target.ndim) for v in rest),
            **{k: pad_to_rank(level, v, target.ndim) for k, v in named.items()},
        )
    return target


def _fill_same(level: VmapLevel, function: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Fill a batched tensor in place, all examples with the same numbers."""
    target, *rest = args
    if level.size:
        with skipping(level):
            one = level.physical(target)[0].clone()
        with draw_decided(level):
            target.copy_(function(one, *rest, **named))
    return target


def _draw_from_rows(level: VmapLevel, function: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
    """Draw from distributions whose parameters are logical tensors: one draw from the physical tensors."""
    if function.__name__ != "multinomial":
        rank = max(ndim(v) for v in (*args, *named.values()))
        with skipping(level), draw_decided(level):
            moved = [_spread(level, v, rank) for v in args]
            return level.logical(function(*moved, **{k: _spread(level, v, rank) for k, v in named.items()}))
    weights, *rest = args
    with skipping(level), draw_decided(level):
        together = physical(level, weights)
        shape = tuple(together.shape)
        made = function(together.reshape((math.prod(shape[:-1]), shape[-1])), *rest, **named)
        return level.logical(made.reshape((*shape[:-1], made.shape[-1])))


def _spread(level: VmapLevel, value: Any, rank: int) -> Any:
    if not isinstance(value, Tensor):
        return value
    return pad_to_rank(level, value if level.holds(value) else level.logical(level.broadcast(value)), rank)
