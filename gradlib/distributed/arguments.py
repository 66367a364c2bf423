"""Checks of the arguments of collectives."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradlib.core.tensor import Tensor
from gradlib.distributed.process_group import ProcessGroup


def check_tensor(value: Any, name: str) -> None:
    """Refuse anything but a Tensor, with torch's words."""
    if not isinstance(value, Tensor):
        raise TypeError(f"Invalid function argument. Expected parameter `{name}` of type gradlib.Tensor\n but got {type(value)} instead.")


def check_list(value: Any, name: str) -> None:
    """Refuse anything but a list of Tensors, with torch's words."""
    if not isinstance(value, list) or not all(isinstance(each, Tensor) for each in value):
        elements = f" with elements of type {[type(each) for each in value]}." if isinstance(value, list) else " instead."
        raise TypeError(
            f"Invalid function argument. Expected parameter `{name}` of type List[gradlib.Tensor]\n but got {type(value)}{elements}"
        )


def check_dtypes(tensors: list[Tensor], *other: Tensor) -> None:
    """Refuse tensors that are not all of one dtype, with torch's words."""
    for one in other:
        for each in tensors:
            if each.dtype != one.dtype:
                raise ValueError(f"Invalid usage of tensors with different dtypes: found {each.dtype} and {one.dtype}")


def check_each(name: str, tensors: list[Tensor], one: Tensor, ranks: int, called: str) -> None:
    """Refuse a list that does not hold, for each rank, a tensor of the shape of one."""
    if len(tensors) != ranks:
        raise RuntimeError(f"{name}: invalid {called}: expected {ranks} tensors, one for each rank of the group, got {len(tensors)}")
    for i, each in enumerate(tensors):
        if each.shape != one.shape:
            got = f"expected {tuple(one.shape)}, got {tuple(each.shape)}"
            raise RuntimeError(f"{name}: invalid tensor size at index {i} of the {called}: {got}")


def check_joined(name: str, joined: Tensor, one: Tensor, ranks: int, called: str) -> None:
    """Refuse a tensor that is not those of all ranks joined in the first dimension, or stacked."""
    shape = tuple(one.shape)
    if tuple(joined.shape) not in ((ranks, *shape), (ranks * shape[0], *shape[1:]) if shape else (ranks,)):
        raise RuntimeError(f"{name}: the {called}'s shape {list(joined.shape)} is not that of {ranks} tensors of {list(shape)}")
    if joined.dtype != one.dtype:
        raise RuntimeError(f"{name}: {called} tensor must have the same type as the other, got {joined.dtype} and {one.dtype}")


def check_at_root(name: str, within: ProcessGroup, root: int, tensors: list[Tensor], one: Tensor, called: str, kind: str) -> None:
    """Refuse a list that the root does not give, or gives with tensors of another shape than one, or that another rank gives."""
    is_root = within.rank() == root
    if is_root and not tensors:
        raise ValueError(f"Argument ``{called}`` must be specified on {kind} rank.")
    if tensors and not is_root:
        raise ValueError(f"Argument ``{called}`` must NOT be specified on non-{kind} ranks.")
    if tensors:
        check_each(name, tensors, one, within.size(), called)


def splits(tensor: Tensor, sizes: Sequence[int] | None, ranks: int) -> list[int]:
    """The size of each rank's part of the first dimension."""
    length = tensor.shape[0] if tensor.ndim else 0
    if not sizes:
        if length % ranks:
            raise RuntimeError(f"Tensor's dim 0 does not divide equally across group size: {length} by {ranks}; give the split sizes")
        return [length // ranks] * ranks
    if len(sizes) != ranks:
        raise RuntimeError(f"Number of tensor splits not equal to group size: {len(sizes)} and {ranks}")
    if sum(sizes) != length or min(sizes) < 0:
        raise RuntimeError(f"Split sizes doesn't match total dim 0 size: {list(sizes)} and {length}")
    return list(sizes)
