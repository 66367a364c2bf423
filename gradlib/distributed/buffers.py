"""A tensor's elements as the flat row-major memory that ranks exchange."""

from __future__ import annotations

import itertools
from typing import Any

from gradlib.backend.array import Array, namespace
from gradlib.backend.copying import assign
from gradlib.core.tensor import Tensor


class written:
    """While entered, a tensor's flat row-major memory to write into: its own, or for other layouts one that is put back at the end.

    Args:
        kept: whether its values are read too.
    """

    def __init__(self, tensor: Tensor, kept: bool = False) -> None:
        array = tensor._array
        self._array = array
        if array.flags.c_contiguous:
            self._buffer = array.reshape(-1)
        else:
            self._buffer = flat(array) if kept else namespace(array).empty(array.size, array.dtype)

    def __enter__(self) -> Array:
        return self._buffer

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is None and not self._array.flags.c_contiguous:
            assign(self._array, ..., self._buffer.reshape(self._array.shape))


def flat(array: Array) -> Array:
    """The elements in row-major order in one dense dimension: a view of the array where it can be."""
    return (array if array.flags.c_contiguous else namespace(array).ascontiguousarray(array)).reshape(-1)


def empty_for(tensor: Tensor, ranks: int) -> Array:
    """New memory for a tensor of each rank."""
    array = tensor._array
    return namespace(array).empty(array.size * ranks, array.dtype)


def concatenated(tensors: list[Tensor]) -> Array:
    """The elements of several tensors, one behind the other."""
    return namespace(tensors[0]._array).concatenate([flat(each._array) for each in tensors])


def copy_parts(joined: Array, tensors: list[Tensor]) -> None:
    """Copy what lies one behind the other into several tensors."""
    ends = [0, *itertools.accumulate(each.numel() for each in tensors)]
    for each, begin, end in zip(tensors, ends, ends[1:], strict=False):
        assign(each._array, ..., joined[begin:end].reshape(each._array.shape))
