"""Writes into a tensor's memory: the checks before each, and the version that counts it.

In-place operations, item assignment, ``out=``, optimisers and the addition to ``.grad`` all come through here, so that a write which is
refused has changed neither the memory nor the version, and one that has begun is counted even if it fails half way.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import Any, Protocol

import numpy as np

from gradlib.backend.array import Array, is_cupy, on_current_device, on_device_of
from gradlib.backend.copying import assign, moved
from gradlib.backend.pointwise import into
from gradlib.backend.several import writer
from gradlib.core.modes import global_state, thread_state, writing
from gradlib.core.node import Node, Version


class Target(Protocol):
    """The part of a Tensor's interface that these functions use."""

    @property
    def _array(self) -> Array: ...

    @property
    def _node(self) -> Node | None: ...

    @property
    def _version_slot(self) -> Version | None: ...

    @property
    def version(self) -> Version: ...

    @property
    def _inference(self) -> bool: ...


def is_overlapping(array: Array) -> bool:
    """Whether some elements of the array share their memory, as after ``expand``."""
    if 0 not in array.strides or array.size == 0:
        return False
    return any(step == 0 and size > 1 for step, size in zip(array.strides, array.shape, strict=True))


def refuse_inference(target: Target) -> None:
    """Refuse to change a tensor made in inference mode outside it, where it could have been used for what is recorded."""
    if target._inference and not thread_state.inference:
        raise RuntimeError(
            "Inplace update to inference tensor outside InferenceMode is not allowed. You can make a clone to get a normal tensor before "
            "doing inplace update."
        )


def refuse_memory(array: Array, name: str) -> None:
    """Refuse to write elements that share their memory, and memory that is read-only.

    Raises: RuntimeError for the first, as torch does; ValueError for the second, as NumPy does.
    """
    if 0 in array.strides and is_overlapping(array):
        raise RuntimeError(
            f"{name}: unsupported operation: more than one element of the written-to tensor refers to a single memory location (shape "
            f"{list(array.shape)}, strides {array.strides}). Please clone() the tensor before performing the operation."
        )
    if isinstance(array, np.ndarray) and not array.flags.writeable:  # a CuPy array may always be written
        raise ValueError(
            f"{name}: the memory of this tensor, of shape {list(array.shape)}, is read-only: it came from a NumPy array that must not be "
            "written. Write to a clone() of it."
        )


def refuse_write(target: Target, name: str) -> None:
    """Refuse a write that is refused whether it is recorded or not."""
    array = target._array
    if target._inference:
        refuse_inference(target)
    if 0 in array.strides or (isinstance(array, np.ndarray) and not array.flags.writeable):
        refuse_memory(array, name)


def refuse_out(target: Target, name: str) -> None:
    """Refuse a tensor that cannot be written as ``out=``: also one with a place in the graph, while operations are recorded."""
    if target._node is not None and (thread_state.grad_enabled or not global_state.no_grad):
        raise no_derivative(name)
    refuse_write(target, f"{name}(out=)")


def no_derivative(name: str) -> RuntimeError:
    return RuntimeError(
        f"{name}(): functions with out=... arguments don't support automatic differentiation, but one of the arguments requires grad."
    )


_REFUSALS = (TypeError, ValueError, LookupError, OverflowError, RuntimeError, UserWarning)


def has_begun(error: BaseException | None) -> bool:
    """Whether a write that ended with this exception may have changed memory.

    NumPy and CuPy check shapes, dtypes and indices before they write anything. What they raise later is of other kinds: floating-point
    errors, warnings of those that are errors, interrupts.
    """
    return not isinstance(error, _REFUSALS)


class counted:
    """While entered, a tensor's memory is being written; on leaving the write is counted, also when it failed half way."""

    def __init__(self, target: Target) -> None:
        self.target = target

    def __enter__(self) -> Any:
        pass

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if has_begun(error):
            self.target.version.bump()


class written(counted):
    """While entered, a tensor's memory is written in place, outside any graph, as one change; gives the memory.

    Raises: what ``refuse_write`` raises, before anything is written.
    """

    def __init__(self, target: Target, name: str) -> None:
        super().__init__(target)
        self.name = name

    def __enter__(self) -> Array:
        refuse_write(self.target, self.name)
        writing(self.target)
        return self.target._array


@contextmanager
def written_all(targets: Sequence[Target]) -> Iterator[None]:
    """Around a kernel that writes several tensors on a device, outside any graph: what a write asks of each, and counts afterwards.

    Raises: RuntimeError for one that was made in inference mode, before anything is written.
    """
    for target in targets:
        if target._inference:
            refuse_inference(target)
    for keep in thread_state.before_write:
        for target in targets:
            keep(target)
    try:
        yield
    finally:
        for target in targets:
            (target._version_slot or target.version).bump()


def write_several(name: str, targets: Sequence[Target], *values: Any) -> bool:
    """Write tensors on a device in one launch, outside any graph, as `gradlib.backend.several.writer` says.

    Returns: whether it was done; if not, nothing was written.
    """
    arrays = [target._array for target in targets]
    if not arrays or not is_cupy(arrays[0]) or global_state.active or global_state.born is not None:
        return False
    launch = writer(name, arrays, *values)
    if launch is None:
        return False
    with written_all(targets):
        launch()
    return True


def add(target: Target, values: Array, name: str) -> None:
    """Add raw values that fit to a tensor's memory, outside any graph.

    Raises: what ``refuse_write`` raises, before anything is written.
    """
    refuse_write(target, name)
    array = target._array
    try:
        if type(values) is np.ndarray:
            array += values
        else:
            with on_device_of(values):
                if isinstance(array, np.ndarray) or not into("add")(array, values):
                    array += values
    except BaseException as error:
        if has_begun(error):
            target.version.bump()
        raise
    target.version.bump()


def overwrite(target: Target, values: Any, name: str) -> None:
    """Put raw values that fit into a tensor's memory, outside any graph, as one in-place change.

    Raises: what ``refuse_write`` raises, before anything is written.
    """
    refuse_write(target, name)
    if thread_state.before_write:
        writing(target)
    array = target._array
    if type(array) is not np.ndarray and on_current_device(array) and moved(array, values):
        target.version.bump()
        return
    with counted(target), on_device_of(array):
        assign(array, ..., values)
