"""What every public function does around its map: the start's parts, dt as an input or a constant, the caller's buffers."""

from __future__ import annotations

from typing import Any

from gradlib.core import modes
from gradlib.core.memory import has_begun
from gradlib.core.node import Output
from gradlib.core.tensor import Tensor
from gradlib.trajectory import check as checks
from gradlib.trajectory.pair import Pair
from gradlib.trajectory.rows import rows
from gradlib.trajectory.state import JointState, JointTrajectory

_PARTS = ("start position", "start velocity", "start acceleration")


def differentiated(dt: Any) -> bool:
    """Whether a derivative by dt may be asked for."""
    return isinstance(dt, Tensor) and (dt._node is not None or modes.watch.active != 0)


def apply(pair: Pair, dt: Any, static: Any, which: tuple[int, ...], out: Any, parts: list[Any]) -> Any:
    """A map on its parts, with dt as a differentiable input where that may be asked for."""
    return pair.forward_timed(static, which, out, [dt, *parts]) if differentiated(dt) else pair.forward(dt, static, which, out, parts)


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


def start_parts(name: str, start: Any, u: Any, sizes: checks.Sizes, start_idx: Any, check: bool) -> list[Any]:
    """Start position, velocity and acceleration, checked, one row for each trajectory; None where zero."""
    given = tuple(start)[:3] if isinstance(start, (JointState, tuple, list)) else (start,)
    if start is None:
        given = ()
    parts = [checks.start_part(name, part, x, u, sizes, start_idx) for part, x in zip(_PARTS, given, strict=False)]
    parts += [None] * (3 - len(parts))
    if start_idx is None or all(x is None for x in parts):
        return parts
    numbers = {len(checks.raw(x)) for x in parts if x is not None}
    if len(numbers) != 1 or any(x is not None and checks.raw(x).ndim != 2 for x in parts):
        shapes = [tuple(checks.raw(x).shape) for x in parts if x is not None]
        raise ValueError(f"{name}: with start_idx every start part is (S, {sizes.joints}) with one S, got shapes {shapes}")
    index = checks.row_index(name, start_idx, numbers.pop(), u, sizes, check)
    return [None if x is None else rows(x, index) for x in parts]


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
            parent.extras.output_versions[node.index] = buffer.version  # type: ignore[union-attr]
    return JointTrajectory(*made)
