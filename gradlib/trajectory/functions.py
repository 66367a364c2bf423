"""cuRobo's custom Functions under their names, called through ``.apply`` with their argument orders.

They are thin: each calls an integrator of this package, whose gradients (of every input, to any order) it has. ``out_*`` are buffers
that the caller owns and the call fills; the results share their memory, so a captured CUDA graph replays into fixed addresses. A buffer
that is None is allocated. ``out_grad_position`` is filled with the gradient by u_act when backward runs. ``traj_dt`` is seconds: 0-d,
(1,) or (H,); for central differences its first element is the one step length.
"""

from __future__ import annotations

from typing import Any

from gradlib.core.op import op
from gradlib.core.tensor import Tensor, raw
from gradlib.core.writes import overwrite
from gradlib.trajectory.chain import step_acceleration, step_position
from gradlib.trajectory.compat import jit_tensor_step_pos_clique
from gradlib.trajectory.out_buffers import delivered, filling, refuse_outputs
from gradlib.trajectory.state import JointTrajectory


def _keep(g: Any, buffer: Any) -> Any:
    if isinstance(buffer, Tensor):
        overwrite(buffer, raw(g), "out_grad_position")
    else:
        buffer[...] = raw(g)
    return g


@op("linear", name="trajectory_keep_gradient", view=True, method=False, complex="none", input=lambda g, buffer: _keep(g, buffer))
def keep_gradient(xp: Any, input: Any, buffer: Any) -> Any:
    """The input; its gradient is copied into buffer when backward passes."""
    return input.view()


@op("linear", name="trajectory_turn", method=False, complex="none", input=lambda g: turn(g, None))
def turn(xp: Any, input: Any, buffer: Any) -> Any:
    """The last two axes exchanged, contiguous, in buffer where one is given."""
    if buffer is None:
        return xp.ascontiguousarray(input.swapaxes(1, 2))
    buffer[...] = input.swapaxes(1, 2)
    return buffer


def _kept(u: Any, out_grad: Any) -> Any:
    """u with its gradient copied into out_grad on the way back."""
    return u if out_grad is None or not isinstance(u, Tensor) else keep_gradient(u, out_grad)


def _buffers(*out: Any) -> tuple[Any, ...] | None:
    """The four buffers, or None when there is none."""
    if all(x is None for x in out):
        return None
    if any(x is None for x in out):
        raise ValueError("the Functions take all four of out_position, out_velocity, out_acceleration, out_jerk, or none of them")
    return out


def _first(traj_dt: Any) -> Any:
    """The one step length."""
    array = raw(traj_dt)
    return traj_dt.reshape(-1)[0] if getattr(array, "ndim", 0) else traj_dt


class CliqueTensorStep:
    """Positions to states by dense matrices: p = mask start + n_mask u; v, a, j = fd_k p. Source: `jit_tensor_step_pos_clique`."""

    @staticmethod
    def apply(u_act: Any, start_position: Any, mask: Any, n_mask: Any, fd_1: Any, fd_2: Any, fd_3: Any) -> tuple[Any, Any, Any, Any]:
        return jit_tensor_step_pos_clique(u_act, start_position, mask, n_mask, fd_1, fd_2, fd_3)


class CliqueTensorStepIdxKernel:
    """`step_position`, backward differences, start rows chosen by index."""

    @staticmethod
    def apply(
        u_act: Any, start_position: Any, start_velocity: Any, start_acceleration: Any, start_idx: Any, out_position: Any,
        out_velocity: Any, out_acceleration: Any, out_jerk: Any, traj_dt: Any, out_grad_position: Any,
    ) -> JointTrajectory:  # fmt: skip
        start = (start_position, start_velocity, start_acceleration)
        out = _buffers(out_position, out_velocity, out_acceleration, out_jerk)
        return step_position(_kept(u_act, out_grad_position), start, traj_dt, start_idx=start_idx, out=out)


class CliqueTensorStepKernel:
    """`step_position`, backward differences."""

    @staticmethod
    def apply(
        u_act: Any, start_position: Any, start_velocity: Any, start_acceleration: Any, out_position: Any, out_velocity: Any,
        out_acceleration: Any, out_jerk: Any, traj_dt: Any, out_grad_position: Any,
    ) -> JointTrajectory:  # fmt: skip
        return CliqueTensorStepIdxKernel.apply(
            u_act, start_position, start_velocity, start_acceleration, None, out_position, out_velocity, out_acceleration, out_jerk,
            traj_dt, out_grad_position,
        )  # fmt: skip


class CliqueTensorStepIdxCentralDifferenceKernel:
    """`step_position`, central differences, start rows chosen by index."""

    @staticmethod
    def apply(
        u_act: Any, start_position: Any, start_velocity: Any, start_acceleration: Any, start_idx: Any, out_position: Any,
        out_velocity: Any, out_acceleration: Any, out_jerk: Any, traj_dt: Any, out_grad_position: Any,
    ) -> JointTrajectory:  # fmt: skip
        start = (start_position, start_velocity, start_acceleration)
        out = _buffers(out_position, out_velocity, out_acceleration, out_jerk)
        u = _kept(u_act, out_grad_position)
        return step_position(u, start, _first(traj_dt), scheme="central", start_idx=start_idx, out=out)


class CliqueTensorStepCentralDifferenceKernel:
    """`step_position`, central differences."""

    @staticmethod
    def apply(
        u_act: Any, start_position: Any, start_velocity: Any, start_acceleration: Any, out_position: Any, out_velocity: Any,
        out_acceleration: Any, out_jerk: Any, traj_dt: Any, out_grad_position: Any,
    ) -> JointTrajectory:  # fmt: skip
        return CliqueTensorStepIdxCentralDifferenceKernel.apply(
            u_act, start_position, start_velocity, start_acceleration, None, out_position, out_velocity, out_acceleration, out_jerk,
            traj_dt, out_grad_position,
        )  # fmt: skip


class CliqueTensorStepCoalesceKernel:
    """`step_position`, backward differences, with the arrays held as (B, D, H) inside."""

    @staticmethod
    def apply(
        u_act: Any, start_position: Any, start_velocity: Any, start_acceleration: Any, out_position: Any, out_velocity: Any,
        out_acceleration: Any, out_jerk: Any, traj_dt: Any, out_grad_position: Any,
    ) -> JointTrajectory:  # fmt: skip
        start = (start_position, start_velocity, start_acceleration)
        out = _buffers(out_position, out_velocity, out_acceleration, out_jerk)
        refuse_outputs("CliqueTensorStepCoalesceKernel", out)
        made = step_position(turn(_kept(u_act, out_grad_position), None), start, traj_dt, layout="bdh")
        with filling(out):
            turned = [turn(x, None if out is None else raw(out[i])) for i, x in enumerate(made)]
        return delivered(turned, out)


class AccelerationTensorStepIdxKernel:
    """`step_acceleration`, semi-implicit Euler, start rows chosen by index."""

    @staticmethod
    def apply(
        u_act: Any, start_position: Any, start_velocity: Any, start_acceleration: Any, start_idx: Any, out_position: Any,
        out_velocity: Any, out_acceleration: Any, out_jerk: Any, traj_dt: Any, out_grad_position: Any,
    ) -> JointTrajectory:  # fmt: skip
        start = (start_position, start_velocity, start_acceleration)
        out = _buffers(out_position, out_velocity, out_acceleration, out_jerk)
        return step_acceleration(_kept(u_act, out_grad_position), start, traj_dt, start_idx=start_idx, out=out)


class AccelerationTensorStepKernel:
    """`step_acceleration`, semi-implicit Euler."""

    @staticmethod
    def apply(
        u_act: Any, start_position: Any, start_velocity: Any, start_acceleration: Any, out_position: Any, out_velocity: Any,
        out_acceleration: Any, out_jerk: Any, traj_dt: Any, out_grad_position: Any,
    ) -> JointTrajectory:  # fmt: skip
        return AccelerationTensorStepIdxKernel.apply(
            u_act, start_position, start_velocity, start_acceleration, None, out_position, out_velocity, out_acceleration, out_jerk,
            traj_dt, out_grad_position,
        )  # fmt: skip
