"""vmap: the trajectory maps already have a batch dimension, so a level's batch is folded into it and the results unfolded again."""

from __future__ import annotations

from typing import Any

from gradlib.core.declaration import Op
from gradlib.core.dispatch import dispatch
from gradlib.core.tensor import Tensor, raw
from gradlib.func.level import Level
from gradlib.func.rules import RULES
from gradlib.ops.from_data import as_tensor
from gradlib.trajectory.layout import batch_and_joints
from gradlib.trajectory.smoothness import wanted_of
from gradlib.trajectory.start_rows import StartRows

_MAPS = ("trajectory_chain", "trajectory_central", "trajectory_bspline")


def _parted(level: Level, value: Any) -> tuple[Tensor, tuple[int, ...], int]:
    """The physical array of a value, the shape of one row, and the number of rows: 1 when it is the same for all."""
    if level.holds(value):
        return value.value, tuple(value.value.shape[1:]), level.size
    tensor = value if isinstance(value, Tensor) else as_tensor(value)
    return tensor, tuple(tensor.shape), 1


def folded(level: Level, value: Any, target: tuple[int, ...]) -> Tensor:
    """Rows that broadcast to ``target`` as (rows * target[0], *target[1:])."""
    tensor, shape, number = _parted(level, value)
    spread = tensor.reshape((number, *(1,) * (len(target) - len(shape)), *shape)).expand((level.size, *target))
    return spread.reshape((level.size * target[0], *target[1:]))


def folded_times(level: Level, dt: Any, batch: int) -> Any:
    """dt for the folded trajectories; as it is when it is the same for all of them."""
    _, shape, _ = _parted(level, dt)
    if not level.holds(dt) and (len(shape) < 2 or shape[0] == 1):
        return dt
    return folded(level, dt, (batch, shape[-1] if shape else 1))


def folded_part(level: Level, part: Any, options: Any, place: int) -> Any:
    """A control, source or gradient as it is but for its batch; a start or goal with a row for each trajectory; None stays None.

    Args:
        place: among the parts; those of a start, whose rows ``start_idx`` chooses, are 1 to 3.
    """
    if part is None:
        return None
    own = tuple(_parted(level, part)[1])
    batch, joints = batch_and_joints(options.shape, options.time_last)
    rows = getattr(options, "rows", None)
    return folded(level, part, own if len(own) == 3 else (batch if rows is None or place > 3 else rows.number, joints))


def folded_target(level: Level, part: Any, options: Any, place: int) -> Any:
    """A part of a motion, or a reference or goal of a cost, (1 or B, ..): with a row for each trajectory unless it is the same for all."""
    if part is None:
        return None
    _, own, _ = _parted(level, part)
    if not level.holds(part) and own[0] == 1 and own != options.shape:
        return part
    return folded(level, part, (options.shape[0], *own[1:]))


def unfolded(level: Level, made: Any) -> tuple[Tensor, ...]:
    """Results with the rows in front again."""
    return tuple(x.reshape((level.size, x.shape[0] // level.size, *x.shape[1:])) for x in made)


def folded_map(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    """A map of an `AdjointPair`, or its transpose, or a cost, once for all rows."""
    given = dict(zip(op.params, args, strict=True))
    if given.get("buffers") is not None:
        raise ValueError("vmap: out= holds one example's results and cannot be given inside; leave it out")
    options, (batch, *rest) = given["options"], given["options"].shape
    fold = folded_target if op.name == "motion_cost" else folded_part
    parts = given[op.params[-1]] = [fold(level, x, options, i) for i, x in enumerate(given[op.params[-1]])]
    given["dt"] = folded_times(level, given["dt"], batch)
    given["options"] = options._replace(shape=(level.size * batch, *rest))
    if getattr(options, "rows", None) is not None:
        index, number = options.rows.index, options.rows.number
        given["options"] = given["options"]._replace(rows=StartRows(raw(_shifted(level, index, number)), level.size * number))
    if "wanted" in given:  # asked of the physical tensors, which may require a gradient where the rows do not
        aims = (wanted_of(None, parts[4:])[0],) if op.name == "motion_cost" else ()
        given["wanted"] = (*wanted_of(given["dt"], parts), *aims)
    return unfolded(level, dispatch(op, tuple(given.values())))


def _shifted(level: Level, index: Any, rows: int) -> Tensor:
    """Row numbers for the concatenation of all tables, of ``rows`` rows each."""
    tensor, _, _ = _parted(level, index)
    whole = tensor.detach().expand((level.size, tensor.shape[-1]))
    return (whole + rows * as_tensor(range(level.size), device=tensor.device)[:, None]).reshape(-1)


def folded_rows(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    """Rows chosen by index, or the transpose, in the concatenation of the tables of all rows."""
    table, index = args[:2]
    _, shape, _ = _parted(level, table)
    number = shape[0] if op.name == "trajectory_rows" else args[2]
    rest = () if op.name == "trajectory_rows" else (level.size * number,)
    made = dispatch(op, (folded(level, table, shape), _shifted(level, index, number), *rest))
    return made.reshape((level.size, made.shape[0] // level.size, *made.shape[1:]))


def folded_turn(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    """The exchange of the last two axes."""
    return unfolded(level, (dispatch(op, (folded(level, args[0], _parted(level, args[0])[1]), None)),))[0]


RULES.update({name + suffix: folded_map for name in _MAPS for suffix in ("", "_adjoint")})
RULES.update(dict.fromkeys(("smoothness_cost", "motion_cost"), folded_map))
RULES.update({"trajectory_rows": folded_rows, "trajectory_rows_adjoint": folded_rows, "trajectory_turn": folded_turn})
