"""cuRobo's documented functions under their names and argument orders, so that code ports by changing an import.

`state` and `state_seq` are `JointState` objects, or one array with the blocks side by side on the last axis: position, velocity,
acceleration in ``state``; position, velocity, acceleration, jerk in ``state_seq``. A `JointState` given as ``state_seq`` is filled and
returned; for an array, whose size alone counts, a new one is returned. Everything is written with gradlib's operations, so every
argument that carries a gradient gets one. Names: the documentation of curobo.rollout.dynamics_model.integration_utils.
"""

from __future__ import annotations

from typing import Any

from gradlib.core.tensor import raw
from gradlib.ops.join import cat
from gradlib.trajectory.state import JointState

_BLOCKS = ("position", "velocity", "acceleration", "jerk")


def _blocks(state: Any, n_dofs: int) -> list[Any]:
    """Position, velocity, acceleration of a state; None where it has none."""
    if isinstance(state, JointState):
        return [state.position, state.velocity, state.acceleration]
    number = raw(state).shape[-1] // n_dofs
    return [state[..., k * n_dofs : (k + 1) * n_dofs] if k < number else None for k in range(3)]


def _sequence(state_seq: Any, blocks: list[Any]) -> Any:
    """The results in the form that ``state_seq`` has."""
    if isinstance(state_seq, JointState):
        for name, block in zip(_BLOCKS, blocks, strict=True):
            if block is not None:
                setattr(state_seq, name, block)
        return state_seq
    return cat([block for block in blocks if block is not None], -1)


def _integrated(start: Any, rate: Any, dt_h: Any, integrate_matrix: Any) -> Any:
    """start + L (rate * dt), over the steps."""
    total = integrate_matrix @ (rate * _column(dt_h))
    return total if start is None else start[..., None, :] + total


def _column(dt_h: Any) -> Any:
    """dt for each step as a column that multiplies (B, H, D)."""
    array = raw(dt_h)
    return dt_h[..., None] if getattr(array, "ndim", 0) else dt_h


def euler_integrate(q_0: Any, u: Any, diag_dt: Any, integrate_matrix: Any) -> Any:
    """One integration: q_0 + integrate_matrix diag_dt u.

    Args:
        q_0: (B, D), or what broadcasts to (B, H, D).
        u: (B, H, D), the rate of change.
        diag_dt: (H, H), the seconds of each step on its diagonal.
        integrate_matrix: (H, H) of ``build_int_matrix``.
    Returns: (B, H, D).
    Source: rectangle rule.
    Example:
        >>> L, dt = gradlib.trajectory.build_int_matrix(3), 0.5 * gradlib.eye(3)
        >>> gradlib.trajectory.euler_integrate(gradlib.zeros(1, 1), gradlib.ones(1, 3, 1), dt, L)[0, :, 0]
        tensor([0.5000, 1.0000, 1.5000])
    """
    start = q_0[..., None, :] if raw(q_0).ndim == raw(u).ndim - 1 else q_0
    return start + integrate_matrix @ (diag_dt @ u)


def tensor_step_jerk(state: Any, act: Any, state_seq: Any, dt_h: Any, n_dofs: int, integrate_matrix: Any, fd_matrix: Any = None) -> Any:
    """Jerks to states: three integrations, a = a_0 + L (j dt), v = v_0 + L (a dt), p = p_0 + L (v dt).

    Args:
        state: position, velocity and acceleration (B, D) at the start; `JointState` or one array.
        act: (B, H, D) jerks.
        state_seq: what is filled; see this module.
        dt_h: (H,) seconds, or a number.
        n_dofs: D.
        integrate_matrix: L, (H, H).
        fd_matrix: not used.
    Returns: state_seq filled.
    Source: semi-implicit Euler.
    Example:
        >>> from gradlib.trajectory import JointState, build_int_matrix, tensor_step_jerk
        >>> made = tensor_step_jerk(JointState(), gradlib.ones(1, 3, 1), JointState(), 1.0, 1, build_int_matrix(3))
        >>> made.velocity[0, :, 0]
        tensor([1., 3., 6.])
    """
    start = _blocks(state, n_dofs)
    a = _integrated(start[2], act, dt_h, integrate_matrix)
    v = _integrated(start[1], a, dt_h, integrate_matrix)
    return _sequence(state_seq, [_integrated(start[0], v, dt_h, integrate_matrix), v, a, act])


def tensor_step_acc(state: Any, act: Any, state_seq: Any, dt_h: Any, n_dofs: int, integrate_matrix: Any, fd_matrix: Any = None) -> Any:
    """Accelerations to states: v = v_0 + L (a dt), p = p_0 + L (v dt), and j = fd_matrix a where it is given.

    Args:
        act: (B, H, D) accelerations.
        fd_matrix: (H, H), 1/dt included, for the jerk.
        state, state_seq, dt_h, n_dofs, integrate_matrix: as for `tensor_step_jerk`.
    Returns: state_seq filled.
    Source: semi-implicit Euler.
    Example:
        >>> from gradlib.trajectory import JointState, build_int_matrix, tensor_step_acc
        >>> made = tensor_step_acc(JointState(), gradlib.ones(1, 3, 1), JointState(), 1.0, 1, build_int_matrix(3))
        >>> made.position[0, :, 0]
        tensor([1., 3., 6.])
    """
    start = _blocks(state, n_dofs)
    v = _integrated(start[1], act, dt_h, integrate_matrix)
    jerk = None if fd_matrix is None else fd_matrix @ act
    return _sequence(state_seq, [_integrated(start[0], v, dt_h, integrate_matrix), v, act, jerk])


def tensor_step_vel(state: Any, act: Any, state_seq: Any, dt_h: Any, n_dofs: int, integrate_matrix: Any, fd_matrix: Any) -> Any:
    """Velocities to states: p = p_0 + L (v dt), a = fd_matrix v, j = fd_matrix a.

    Args:
        act: (B, H, D) velocities.
        fd_matrix: (H, H), 1/dt included.
        state, state_seq, dt_h, n_dofs, integrate_matrix: as for `tensor_step_jerk`.
    Returns: state_seq filled.
    Source: backward Euler.
    Example:
        >>> from gradlib.trajectory import JointState, build_fd_matrix, build_int_matrix, tensor_step_vel
        >>> difference = build_fd_matrix(3, SHIFT=True)
        >>> made = tensor_step_vel(JointState(), gradlib.ones(1, 3, 1), JointState(), 1.0, 1, build_int_matrix(3), difference)
        >>> made.position[0, :, 0]
        tensor([1., 2., 3.])
    """
    acceleration = fd_matrix @ act
    position = _integrated(_blocks(state, n_dofs)[0], act, dt_h, integrate_matrix)
    return _sequence(state_seq, [position, act, acceleration, fd_matrix @ acceleration])


def tensor_step_pos(state: Any, act: Any, state_seq: Any, fd_matrix: Any) -> Any:
    """Positions to states: v, a, j by applying fd_matrix once, twice, three times.

    Args:
        state: not used.
        act: (B, H, D) positions.
        state_seq: what is filled; see this module.
        fd_matrix: (H, H), 1/dt included.
    Returns: state_seq filled.
    Source: finite differences.
    Example:
        >>> from gradlib.trajectory import JointState, build_fd_matrix, tensor_step_pos
        >>> act = gradlib.tensor([[[1.0], [3.0], [6.0]]])
        >>> tensor_step_pos(None, act, JointState(), build_fd_matrix(3, SHIFT=True)).velocity[0, :, 0]
        tensor([0., 2., 3.])
    """
    velocity = fd_matrix @ act
    acceleration = fd_matrix @ velocity
    return _sequence(state_seq, [act, velocity, acceleration, fd_matrix @ acceleration])


def step_acc_semi_euler(state: Any, act: Any, diag_dt: Any, n_dofs: int, integrate_matrix: Any) -> Any:
    """Accelerations to positions and velocities: v = v_0 + L diag_dt a, p = p_0 + L diag_dt v.

    Args:
        state: (B, 2 D or more), position and velocity side by side.
        act: (B, H, D) accelerations.
        diag_dt, integrate_matrix: (H, H), as for `euler_integrate`.
        n_dofs: D.
    Returns: (B, H, 3 D), the blocks p, v, a side by side.
    Source: semi-implicit Euler.
    Example:
        >>> L = gradlib.trajectory.build_int_matrix(2)
        >>> gradlib.trajectory.step_acc_semi_euler(gradlib.zeros(1, 2), gradlib.ones(1, 2, 1), gradlib.eye(2), 1, L)[0]
        tensor([[1., 1., 1.],
                [3., 2., 1.]])
    """
    position, velocity, _ = _blocks(state, n_dofs)
    v = euler_integrate(velocity, act, diag_dt, integrate_matrix)
    return cat([euler_integrate(position, v, diag_dt, integrate_matrix), v, act], -1)


def tensor_step_acc_semi_euler(state: Any, act: Any, state_seq: Any, diag_dt: Any, integrate_matrix: Any, integrate_matrix_pos: Any) -> Any:
    """`step_acc_semi_euler` into a state sequence, with a matrix of its own for the positions.

    Args:
        state, state_seq: `JointState` or arrays; see this module.
        act: (B, H, D) accelerations.
        diag_dt, integrate_matrix: (H, H), as for `euler_integrate`.
        integrate_matrix_pos: (H, H), in the place of integrate_matrix for the positions.
    Returns: state_seq filled, without jerk.
    Source: semi-implicit Euler.
    Example:
        >>> from gradlib.trajectory import JointState, build_int_matrix, tensor_step_acc_semi_euler
        >>> L, start = build_int_matrix(2), JointState(gradlib.zeros(1, 1), gradlib.zeros(1, 1))
        >>> tensor_step_acc_semi_euler(start, gradlib.ones(1, 2, 1), JointState(), gradlib.eye(2), L, L).position[0, :, 0]
        tensor([1., 3.])
    """
    position, velocity, _ = _blocks(state, raw(act).shape[-1])
    v = euler_integrate(velocity, act, diag_dt, integrate_matrix)
    return _sequence(state_seq, [euler_integrate(position, v, diag_dt, integrate_matrix_pos), v, act, None])


def jit_tensor_step_pos_clique(
    pos_act: Any, start_position: Any, mask: Any, n_mask: Any, fd_1: Any, fd_2: Any, fd_3: Any
) -> tuple[Any, Any, Any, Any]:
    """Positions to states by dense matrices: p = mask start + n_mask u; v, a, j = fd_1 p, fd_2 p, fd_3 p.

    Args:
        pos_act: (B, H, D) positions.
        start_position: (B, D) or (D,).
        mask, n_mask: (H, 1) and (H, H) of `build_start_state_mask`.
        fd_1, fd_2, fd_3: (H, H), the first, second and third differences, 1/dt included.
    Returns: p, v, a, j, each (B, H, D).
    Source: finite differences.
    Example:
        >>> from gradlib.trajectory import build_fd_matrix, build_start_state_mask, jit_tensor_step_pos_clique
        >>> fd = [build_fd_matrix(3, order=n) for n in (1, 2, 3)]
        >>> p, v, a, j = jit_tensor_step_pos_clique(gradlib.ones(1, 3, 1), gradlib.zeros(1), *build_start_state_mask(3), *fd)
        >>> p[0, :, 0], v[0, :, 0]
        (tensor([0., 1., 1.]), tensor([1., 0., 0.]))
    """
    position = mask * start_position[..., None, :] + n_mask @ pos_act
    return position, fd_1 @ position, fd_2 @ position, fd_3 @ position


def jit_backward_pos_clique(grad_p: Any, grad_v: Any, grad_a: Any, grad_j: Any, n_mask: Any, fd_1: Any, fd_2: Any, fd_3: Any) -> Any:
    """The gradient by pos_act of `jit_tensor_step_pos_clique`: n_mask' (P + fd_1' V + fd_2' A + fd_3' J).

    Args:
        grad_p, grad_v, grad_a, grad_j: P, V, A, J, the gradients by its four results, (B, H, D).
        n_mask, fd_1, fd_2, fd_3: the matrices that it was given.
    Returns: (B, H, D).
    Source: the transposed map.
    Example:
        >>> from gradlib.trajectory import build_fd_matrix, build_start_state_mask, jit_backward_pos_clique
        >>> fd, ones, zeros = build_fd_matrix(3), gradlib.ones(1, 3, 1), gradlib.zeros(1, 3, 1)
        >>> jit_backward_pos_clique(ones, zeros, zeros, zeros, build_start_state_mask(3)[1], fd, fd, fd)[0, :, 0]
        tensor([1., 1., 0.])
    """
    total = grad_p + fd_1.swapaxes(0, 1) @ grad_v + fd_2.swapaxes(0, 1) @ grad_a + fd_3.swapaxes(0, 1) @ grad_j
    return n_mask.swapaxes(0, 1) @ total


jit_tensor_step_pos_clique_contiguous = jit_tensor_step_pos_clique  # products are contiguous as they come
jit_backward_pos_clique_contiguous = jit_backward_pos_clique


def tensor_step_pos_clique(state: Any, act: Any, state_seq: Any, mask_matrix: Any, fd_matrix: Any) -> Any:
    """`jit_tensor_step_pos_clique` on a state.

    Args:
        state: `JointState` or array with the start position.
        act: (B, H, D) positions.
        state_seq: what is filled; see this module.
        mask_matrix: (mask, n_mask) of `build_start_state_mask`.
        fd_matrix: (fd_1, fd_2, fd_3), as for `jit_tensor_step_pos_clique`.
    Returns: state_seq filled.
    Source: finite differences.
    Example:
        >>> from gradlib.trajectory import JointState, build_fd_matrix, build_start_state_mask, tensor_step_pos_clique
        >>> fd = [build_fd_matrix(3, order=n) for n in (1, 2, 3)]
        >>> start = JointState(position=gradlib.zeros(1, 1))
        >>> tensor_step_pos_clique(start, gradlib.ones(1, 3, 1), JointState(), build_start_state_mask(3), fd).position[0, :, 0]
        tensor([0., 1., 1.])
    """
    position = _blocks(state, raw(act).shape[-1])[0]
    return _sequence(state_seq, list(jit_tensor_step_pos_clique(act, position, *mask_matrix, *fd_matrix)))
