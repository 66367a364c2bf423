"""Nested lists, tuples and dictionaries of tensors, flattened and put together again, and the ctx that takes and gives them."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gradlib.autograd.function_node import BackwardCFunction, FunctionCtx
from gradlib.core.tensor import Tensor


class Hole:
    """Where a tensor stood in a nesting."""


def flatten(value: Any, keep_none: bool = False) -> Iterator[Any]:
    """The tensors (and None, if kept) inside a nesting, in order. Raises: ValueError for anything else."""
    if isinstance(value, Tensor) or (value is None and keep_none):
        yield value
    elif isinstance(value, (list, tuple)):
        for item in value:
            yield from flatten(item, keep_none)
    elif isinstance(value, dict):
        yield from flatten(tuple(value.values()), keep_none)
    elif value is not None:
        raise ValueError(
            f"Auto nesting doesn't know how to process an input object of type {type(value).__name__}. "
            "Accepted types: Tensors, or lists/tuples of them"
        )


def rebuild(nesting: Any, tensors: Iterator[Any]) -> Any:
    """The nesting with each tensor, or hole where one stood, replaced by the next of tensors."""
    if isinstance(nesting, (Tensor, Hole)):
        return next(tensors)
    if isinstance(nesting, dict):
        return {key: rebuild(item, tensors) for key, item in nesting.items()}
    if isinstance(nesting, (list, tuple)):
        items = [rebuild(item, tensors) for item in nesting]
        return type(nesting)(*items) if hasattr(nesting, "_fields") else type(nesting)(items)
    return None


def emptied(nesting: Any) -> Any:
    """The nesting alone, holes in the tensors' places."""
    return rebuild(nesting, iter(Hole, None))


class NestedCtx(FunctionCtx):
    """A ctx whose methods take and give nestings."""

    def save_for_backward(self, *args: Any) -> None:
        """Keep the tensors inside some nestings for ``saved_tensors`` in backward."""
        super().save_for_backward(*flatten(args))
        self._to_save_nested = emptied(args)

    @property
    def saved_tensors(self) -> Any:
        """What ``save_for_backward`` kept, nested as it was given."""
        return rebuild(self._to_save_nested, iter(super().saved_tensors))  # type: ignore[misc]

    def mark_dirty(self, *args: Any, **kwargs: Any) -> None:
        """Say which inputs forward wrote in place: all inside these nestings."""
        super().mark_dirty(*flatten((args, kwargs)))

    def mark_non_differentiable(self, *args: Any, **kwargs: Any) -> None:
        """Say which outputs carry no gradient: all inside these nestings."""
        super().mark_non_differentiable(*flatten((args, kwargs)))


class NestedBackward(NestedCtx, BackwardCFunction):
    """The ctx of a call of a ``NestedIOFunction``."""
