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
    """`jit_tensor_step_pos_clique`: positions to states by dense matrices, p = mask start + n_mask u and v, a, j = fd_k p.

    Args:
        u_act: (B, H, D) positions.
        start_position, mask, n_mask, fd_1, fd_2, fd_3: as for `jit_tensor_step_pos_clique`.
    Returns: p, v, a, j, each (B, H, D).
    Source: cuRobo's Function of this name.
    Example:
        >>> from gradlib.trajectory import CliqueTensorStep, build_fd_matrix, build_start_state_mask
        >>> fd = [build_fd_matrix(3, order=n) for n in (1, 2, 3)]
        >>> CliqueTensorStep.apply(gradlib.ones(1, 3, 1), gradlib.zeros(1), *build_start_state_mask(3), *fd)[0][0, :, 0]
        tensor([0., 1., 1.])
    """

    @staticmethod
    def apply(u_act: Any, start_position: Any, mask: Any, n_mask: Any, fd_1: Any, fd_2: Any, fd_3: Any) -> tuple[Any, Any, Any, Any]:
        return jit_tensor_step_pos_clique(u_act, start_position, mask, n_mask, fd_1, fd_2, fd_3)


def _with_own_rows(kernel: Any) -> Any:
    """The ``apply`` of a kernel whose start rows are chosen by index, for trajectories that have one each, in their order."""

    def apply(
        u_act: Any, start_position: Any, start_velocity: Any, start_acceleration: Any, out_position: Any, out_velocity: Any,
        out_acceleration: Any, out_jerk: Any, traj_dt: Any, out_grad_position: Any,
    ) -> JointTrajectory:  # fmt: skip
        start, out = (start_position, start_velocity, start_acceleration), (out_position, out_velocity, out_acceleration, out_jerk)
        return kernel.apply(u_act, *start, None, *out, traj_dt, out_grad_position)

    return staticmethod(apply)


class CliqueTensorStepIdxKernel:
    """`step_position` with backward differences, start rows chosen by index.

    Args:
        start_position, start_velocity, start_acceleration: (S, D), or None for zeros.
        start_idx: integers (B,), the row of each trajectory.
        The others: as for `CliqueTensorStepKernel`.
    Returns: `JointTrajectory`.
    Source: cuRobo's Function of this name.
    Example:
        >>> u, rows, chosen = gradlib.ones(2, 3, 1), gradlib.tensor([[0.0], [1.0]]), gradlib.tensor([1, 0])
        >>> gradlib.trajectory.CliqueTensorStepIdxKernel.apply(u, rows, None, None, chosen, *[None] * 4, 0.5, None).velocity[..., 0]
        tensor([[0., 0., 0.],
                [0., 2., 0.]])
    """

    @staticmethod
    def apply(
        u_act: Any, start_position: Any, start_velocity: Any, start_acceleration: Any, start_idx: Any, out_position: Any,
        out_velocity: Any, out_acceleration: Any, out_jerk: Any, traj_dt: Any, out_grad_position: Any,
    ) -> JointTrajectory:  # fmt: skip
        start = (start_position, start_velocity, start_acceleration)
        out = _buffers(out_position, out_velocity, out_acceleration, out_jerk)
        return step_position(_kept(u_act, out_grad_position), start, traj_dt, start_idx=start_idx, out=out)


class CliqueTensorStepKernel:
    """`step_position` with backward differences.

    Args:
        u_act: (B, H, D) positions.
        start_position, start_velocity, start_acceleration: (B, D), or None for zeros.
        out_position, out_velocity, out_acceleration, out_jerk: buffers of u_act's shape that are filled and returned; all four or none.
        traj_dt: seconds; 0-d, (1,) or (H,).
        out_grad_position: a buffer that backward fills with the gradient by u_act, or None.
    Returns: `JointTrajectory`.
    Source: cuRobo's Function of this name.
    Example:
        >>> u = gradlib.tensor([[[1.0], [3.0], [0.0]]])
        >>> gradlib.trajectory.CliqueTensorStepKernel.apply(u, *[None] * 7, 0.5, None).velocity[0, :, 0]
        tensor([0., 2., 4.])
    """

    apply = _with_own_rows(CliqueTensorStepIdxKernel)


class CliqueTensorStepIdxCentralDifferenceKernel:
    """`step_position` with central differences, start rows chosen by index.

    Args:
        start_position, start_velocity, start_acceleration: (S, D), or None for zeros.
        start_idx: integers (B,), the row of each trajectory.
        The others: as for `CliqueTensorStepCentralDifferenceKernel`.
    Returns: `JointTrajectory`.
    Source: cuRobo's Function of this name.
    Example:
        >>> u, rows, chosen = gradlib.ones(2, 6, 1), gradlib.tensor([[0.0], [1.0]]), gradlib.tensor([1, 0])
        >>> apply = gradlib.trajectory.CliqueTensorStepIdxCentralDifferenceKernel.apply
        >>> apply(u, rows, None, None, chosen, *[None] * 4, 0.5, None).position[:, 0, 0]
        tensor([1., 0.])
    """

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
    """`step_position` with central differences.

    Args:
        traj_dt: seconds; only the first element counts.
        The others: as for `CliqueTensorStepKernel`, H at least 6.
    Returns: `JointTrajectory`.
    Source: cuRobo's Function of this name.
    Example:
        >>> u = gradlib.ones(1, 6, 1)
        >>> gradlib.trajectory.CliqueTensorStepCentralDifferenceKernel.apply(u, *[None] * 7, 0.5, None).position[0, :, 0]
        tensor([0., 0., 1., 1., 1., 1.])
    """

    apply = _with_own_rows(CliqueTensorStepIdxCentralDifferenceKernel)


class CliqueTensorStepCoalesceKernel:
    """`step_position` with backward differences, computed on arrays of the layout (B, D, H).

    Args: as for `CliqueTensorStepKernel`.
    Returns: `JointTrajectory`, each (B, H, D).
    Source: cuRobo's Function of this name.
    Example:
        >>> u = gradlib.tensor([[[1.0], [3.0], [0.0]]])
        >>> gradlib.trajectory.CliqueTensorStepCoalesceKernel.apply(u, *[None] * 7, 0.5, None).velocity[0, :, 0]
        tensor([0., 2., 4.])
    """

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
    """`step_acceleration` by semi-implicit Euler, start rows chosen by index.

    Args:
        u_act: (B, H, D) accelerations.
        The others: as for `CliqueTensorStepIdxKernel`.
    Returns: `JointTrajectory`.
    Source: cuRobo's Function of this name.
    Example:
        >>> u, rows, chosen = gradlib.ones(2, 3, 1), gradlib.tensor([[0.0], [1.0]]), gradlib.tensor([1, 0])
        >>> gradlib.trajectory.AccelerationTensorStepIdxKernel.apply(u, rows, None, None, chosen, *[None] * 4, 0.5, None).position[..., 0]
        tensor([[1.0000, 1.2500, 1.7500],
                [0.0000, 0.2500, 0.7500]])
    """

    @staticmethod
    def apply(
        u_act: Any, start_position: Any, start_velocity: Any, start_acceleration: Any, start_idx: Any, out_position: Any,
        out_velocity: Any, out_acceleration: Any, out_jerk: Any, traj_dt: Any, out_grad_position: Any,
    ) -> JointTrajectory:  # fmt: skip
        start = (start_position, start_velocity, start_acceleration)
        out = _buffers(out_position, out_velocity, out_acceleration, out_jerk)
        return step_acceleration(_kept(u_act, out_grad_position), start, traj_dt, start_idx=start_idx, out=out)


class AccelerationTensorStepKernel:
    """`step_acceleration` by semi-implicit Euler.

    Args:
        u_act: (B, H, D) accelerations.
        The others: as for `CliqueTensorStepKernel`.
    Returns: `JointTrajectory`.
    Source: cuRobo's Function of this name.
    Example:
        >>> u = gradlib.tensor([[[1.0], [3.0], [0.0]]])
        >>> gradlib.trajectory.AccelerationTensorStepKernel.apply(u, *[None] * 7, 0.5, None).velocity[0, :, 0]
        tensor([0.0000, 0.5000, 2.0000])
    """

    apply = _with_own_rows(AccelerationTensorStepIdxKernel)
