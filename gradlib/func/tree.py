"""Pytrees: nested tuples, lists and dicts are flattened to leaves, mapped leaf by leaf, and rebuilt."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple


class Structure(NamedTuple):
    """The structure of a pytree: its class (None for a leaf), the keys of its children, and their structures."""

    kind: type | None
    keys: Any
    children: tuple[Structure, ...]

    def __repr__(self) -> str:
        if self.kind is None:
            return "*"
        if self.keys is not None:
            return "{" + ", ".join(f"{k!r}: {c!r}" for k, c in zip(self.keys, self.children, strict=True)) + "}"
        inner = ", ".join(map(repr, self.children))
        return f"[{inner}]" if self.kind is list else f"({inner}{',' * (len(self.children) == 1)})"


LEAF = Structure(None, None, ())


def _is_namedtuple(kind: type) -> bool:
    return issubclass(kind, tuple) and hasattr(kind, "_fields")


def flatten(value: Any) -> tuple[list[Any], Structure]:
    """The leaves of a pytree from left to right, and its structure. None is a leaf."""
    leaves: list[Any] = []
    return leaves, _flatten(value, leaves)


def _flatten(value: Any, leaves: list[Any]) -> Structure:
    kind = type(value)
    if kind is tuple or kind is list or (isinstance(value, tuple) and _is_namedtuple(kind)):
        return Structure(kind, None, tuple([_flatten(each, leaves) for each in value]))
    if kind is dict or kind is OrderedDict:
        return Structure(kind, tuple(value), tuple([_flatten(each, leaves) for each in value.values()]))
    leaves.append(value)
    return LEAF


def unflatten(leaves: Sequence[Any], structure: Structure) -> Any:
    """The pytree with this structure and these leaves."""
    return _build(iter(leaves), structure)


def _build(leaves: Any, structure: Structure) -> Any:
    kind = structure.kind
    if kind is None:
        return next(leaves)
    parts = [_build(leaves, child) for child in structure.children]
    if structure.keys is not None:
        return kind(zip(structure.keys, parts, strict=True))
    return kind(*parts) if _is_namedtuple(kind) else kind(parts)


def map_leaves(function: Callable[..., Any], value: Any, *others: Any) -> Any:
    """A pytree of the same structure with ``function(leaf, ...)`` for each leaf; ``others`` have that structure too."""
    leaves, structure = flatten(value)
    return unflatten([function(*each) for each in zip(leaves, *(flatten(other)[0] for other in others), strict=True)], structure)


def broadcast_prefix(prefix: Any, structure: Structure) -> list[Any] | None:
    """One value for each leaf of a structure, from a pytree prefix: a value in place of a subtree counts for all its leaves.

    Returns: the values; None if the prefix does not fit the structure.
    """
    kind = type(prefix)
    if structure.kind is None:
        return None if kind in (tuple, list, dict, OrderedDict) else [prefix]
    count = _leaves(structure)
    if kind not in (tuple, list, dict, OrderedDict) and not _is_namedtuple(kind):
        return [prefix] * count
    same = any(issubclass(kind, sort) and issubclass(structure.kind, sort) for sort in (tuple, dict))
    if (kind is not structure.kind and not same) or len(prefix) != len(structure.children):
        return None
    if structure.keys is not None and set(prefix) != set(structure.keys):
        return None
    found: list[Any] = []
    for place, child in enumerate(structure.children):
        inner = broadcast_prefix(prefix[structure.keys[place]] if structure.keys is not None else prefix[place], child)
        if inner is None:
            return None
        found += inner
    return found


def _leaves(structure: Structure) -> int:
    return 1 if structure.kind is None else sum(_leaves(child) for child in structure.children)
