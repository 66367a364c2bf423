"""The caller's own buffers (``out=``) for what an integration gives: checked, filled, and counted as written in place."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from gradlib.backend.array import Array, device_index, is_array, is_cupy, is_writeable
from gradlib.core import modes
from gradlib.core.batched import Batched
from gradlib.core.node import Output
from gradlib.core.tensor import InferenceTensor, Tensor, raw
from gradlib.core.writes import has_begun, refuse_out
from gradlib.trajectory.arguments import describe
from gradlib.trajectory.state import JointTrajectory


def targets(name: str, out: Any, u: Any, shape: tuple[int, int, int], others: Sequence[Any]) -> list[Array] | None:
    """The four arrays to fill, of the results' shape; None where the caller gave none.

    Args:
        others: what else is read: start and goal parts, dt. They are often views of an earlier call's results, that is, of out.
    Raises: TypeError or ValueError unless they are four C-contiguous, aligned, writable arrays of u's dtype and device and this shape that
    share no memory with each other or with what is read; RuntimeError for a Tensor that requires a gradient.
    """
    if out is None:
        return None
    like = raw(u)
    arrays = [raw(x) for x in out]
    if len(arrays) != 4 or not all(is_array(x) for x in arrays):
        raise TypeError(
            f"{name}: out is four Tensors or arrays (position, velocity, acceleration, jerk), "
            f"got {len(arrays)}: {[type(x).__name__ for x in out]}"
        )
    for part, array in zip(("position", "velocity", "acceleration", "jerk"), arrays, strict=True):
        if array.shape != shape or array.dtype != like.dtype or device_index(array) != device_index(like):
            raise ValueError(f"{name}: out's {part} has u's shape, dtype and device, {describe(u)}, got {describe(array)}")
        flags = array.flags
        if not flags.c_contiguous or not getattr(flags, "aligned", True) or not is_writeable(array):
            raise ValueError(
                f"{name}: out's {part} is C-contiguous, aligned and writable, got strides {array.strides}; "
                "give a fresh array from empty_like"
            )
    if not any(isinstance(x, Batched) for x in (u, *others)):  # whose memory is guarded
        spans = [_span(x) for x in arrays]
        if any(_meet(spans[i], spans[k]) for i in range(4) for k in range(i)):
            raise ValueError(f"{name}: out's four arrays lie apart, got some that overlap; give four fresh arrays")
        if any(_meet(span, read) for read in map(_span, (like, *map(raw, others))) for span in spans):
            raise ValueError(
                f"{name}: out lies apart from what is read, got some of it that overlaps u, start, goal or dt; give fresh arrays, or a "
                "clone() of a start that is a view of earlier results"
            )
    refuse_outputs(name, out)
    return arrays


def _span(array: Any) -> tuple[int, int]:
    """The addresses from and to which an array reaches; (0, 0) for a number and what has no elements."""
    if not is_array(array) or not array.size:
        return 0, 0
    first = array.data.ptr if is_cupy(array) else array.__array_interface__["data"][0]
    low, high = 0, array.itemsize
    for size, stride in zip(array.shape, array.strides, strict=True):
        if stride < 0:
            low += (size - 1) * stride
        else:
            high += (size - 1) * stride
    return first + low, first + high


def _meet(a: tuple[int, int], b: tuple[int, int]) -> bool:
    return a[0] < b[1] and b[0] < a[1]


def refuse_outputs(name: str, out: Any) -> None:
    """Refuse Tensors among the buffers that cannot be written."""
    for buffer in out or ():
        if type(buffer) is Tensor or isinstance(buffer, InferenceTensor):  # a row of a batch is refused with the others
            refuse_out(buffer, name)


class filling:
    """While entered, the caller's buffers are being filled; one whose filling fails half way counts as written."""

    def __init__(self, out: Any) -> None:
        self.tensors = [buffer for buffer in out or () if isinstance(buffer, Tensor)]

    def __enter__(self) -> None:
        for buffer in self.tensors:
            modes.writing(buffer)

    def __exit__(self, kind: Any, error: BaseException | None, trace: Any) -> None:
        if error is not None and has_begun(error):
            for buffer in self.tensors:
                buffer.version.bump()


def delivered(made: Any, out: Any) -> JointTrajectory:
    """The results as a trajectory; buffers the caller gave count as written in place and share their version with the results."""
    for result, buffer in zip(made, out or (), strict=False):
        if not isinstance(buffer, Tensor):
            continue
        node = result._node if isinstance(result, Tensor) else None
        parent = node.parent if isinstance(node, Output) else None
        buffer.version.bump(parent.seq if parent is not None else None)
        if isinstance(result, Tensor):
            result._version_slot = buffer.version
        if parent is not None:
            parent.meta.output_versions[node.index] = buffer.version  # type: ignore[union-attr]
    return JointTrajectory(*made)
