"""``NestedIOFunction``'s arguments: nested lists, tuples and dictionaries of tensors are flattened and rebuilt; its ctx."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from gradlib.autograd.function_node import BackwardCFunction, FunctionCtx
from gradlib.core.tensor import Tensor


class Hole:
    """A placeholder for a tensor in a nested structure."""


def flatten(value: Any, keep_none: bool = False) -> Iterator[Any]:
    """The tensors (and None, if kept) in a nested structure, in order. Raises: ValueError for anything else."""
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
    """The nested structure with each tensor or `Hole` replaced by the next of ``tensors``."""
    if isinstance(nesting, (Tensor, Hole)):
        return next(tensors)
    if isinstance(nesting, dict):
        return {key: rebuild(item, tensors) for key, item in nesting.items()}
    if isinstance(nesting, (list, tuple)):
        items = [rebuild(item, tensors) for item in nesting]
        return type(nesting)(*items) if hasattr(nesting, "_fields") else type(nesting)(items)
    return None


def emptied(nesting: Any) -> Any:
    """The nested structure with a `Hole` in place of each tensor."""
    return rebuild(nesting, iter(Hole, None))


class NestedCtx(FunctionCtx):
    """A ctx whose methods take and return nested structures."""

    def save_for_backward(self, *args: Any) -> None:
        """Save the tensors in nested structures for ``saved_tensors`` in backward."""
        super().save_for_backward(*flatten(args))
        self._to_save_nested = emptied(args)

    @property
    def saved_tensors(self) -> Any:
        """The saved tensors, nested as ``save_for_backward`` got them."""
        return rebuild(self._to_save_nested, iter(super().saved_tensors))  # type: ignore[misc]

    def mark_dirty(self, *args: Any, **kwargs: Any) -> None:
        """Say which inputs forward wrote in place: all tensors in these nested structures."""
        super().mark_dirty(*flatten((args, kwargs)))

    def mark_non_differentiable(self, *args: Any, **kwargs: Any) -> None:
        """Say which outputs carry no gradient: all tensors in these nested structures."""
        super().mark_non_differentiable(*flatten((args, kwargs)))


class NestedBackward(NestedCtx, BackwardCFunction):
    """The ctx of a call of a ``NestedIOFunction``."""
