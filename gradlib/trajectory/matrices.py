"""The integrators as dense matrices, for checking, for small problems, and for code that multiplies by them."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradlib.backend import dtype as dtypes
from gradlib.backend.array import is_array, namespace, on_device_of
from gradlib.core.tensor import Tensor, raw
from gradlib.ops.from_data import tensor
from gradlib.trajectory.arguments import constant


def _made(array: np.ndarray, device: Any, dtype: Any) -> Tensor:
    return tensor(array, dtype=dtypes.as_dtype(dtype), device=device)


def _args(tensor_args: Any) -> tuple[Any, Any]:
    """The device and dtype that ``tensor_args`` names: an object or a mapping with both, or None for the CPU and float32."""
    if tensor_args is None:
        return "cpu", dtypes.float32
    if isinstance(tensor_args, dict):
        return tensor_args.get("device", "cpu"), tensor_args.get("dtype", dtypes.float32)
    return getattr(tensor_args, "device", "cpu"), getattr(tensor_args, "dtype", dtypes.float32)


def _horizon(name: str, horizon: Any, least: int = 1) -> int:
    if not isinstance(horizon, (int, np.integer)) or horizon < least:
        raise ValueError(f"{name}: horizon is a whole number of at least {least}, got {horizon!r}")
    return int(horizon)


def build_fd_matrix(
    horizon: int, device: Any = "cpu", dtype: Any = dtypes.float32, order: int = 1, PREV_STATE: bool = False, FULL_RANK: bool = False,
    SHIFT: bool = False,
) -> Tensor:  # fmt: skip
    """Finite differences along a horizon as a matrix.

    Args:
        horizon: H.
        device, dtype: of the result.
        order: the power n of the first-order matrix.
        PREV_STATE: rows begin one difference earlier, on order extra columns in front: minus the first H rows of the n-th power of the
            plain matrix of size H + order.
        FULL_RANK: forward differences before the middle row, backward ones after, central at it.
        SHIFT: row h is u_h - u_{h-1}, row 0 is zero. Without any: row h is u_{h+1} - u_h, the last row is zero.
    Returns: (H, H); with PREV_STATE (H, H + order).
    Raises: ValueError for a horizon or an order below 1.
    Source: forward differences; section "Matrices" of this package's README.
    Example:
        >>> gradlib.trajectory.build_fd_matrix(3, SHIFT=True)
        tensor([[ 0.,  0.,  0.],
                [-1.,  1.,  0.],
                [ 0., -1.,  1.]])
    """
    horizon = _horizon("build_fd_matrix", horizon)
    if order < 1:
        raise ValueError(f"build_fd_matrix: order is at least 1, got {order!r}")
    size = horizon + order if PREV_STATE else horizon
    if FULL_RANK:
        matrix = _full_rank(size)
    elif SHIFT:
        matrix = np.eye(size) - np.eye(size, k=-1)
        matrix[0] = 0
    else:
        matrix = np.eye(size, k=1) - np.eye(size)
        matrix[-1] = 0
    power = np.linalg.matrix_power(matrix, order)
    return _made(0 - power[:horizon] if PREV_STATE else power, device, dtype)


def _full_rank(size: int) -> np.ndarray:
    middle = size // 2
    matrix = np.zeros((size, size))
    for h in range(size):
        if h < middle:
            matrix[h, h], matrix[h, h + 1] = 1, -1
        elif h > middle:
            matrix[h, h], matrix[h, h - 1] = 1, -1
        else:
            if h > 0:
                matrix[h, h - 1] = -1
            if h + 1 < size:
                matrix[h, h + 1] = 1
    return matrix


def build_int_matrix(
    horizon: int, diagonal: int = 0, device: Any = "cpu", dtype: Any = dtypes.float32, order: int = 1, traj_dt: Any = None
) -> Tensor:
    """Summation along a horizon as a matrix, (H, H).

    Args:
        horizon: H.
        diagonal: the last diagonal that holds ones.
        device, dtype: of the result.
        order: the power.
        traj_dt: None, or (H,) seconds that weight the columns before the power is taken.
    Returns: L^order, or (L diag(traj_dt))^order, with L the lower triangle of ones.
    Raises: ValueError for a horizon below 1.
    Source: rectangle rule.
    Example:
        >>> gradlib.trajectory.build_int_matrix(3)
        tensor([[1., 0., 0.],
                [1., 1., 0.],
                [1., 1., 1.]])
    """
    horizon = _horizon("build_int_matrix", horizon)
    matrix = np.tril(np.ones((horizon, horizon)), diagonal)
    if traj_dt is not None:
        matrix = matrix * np.broadcast_to(np.asarray(_host("build_int_matrix", "traj_dt", traj_dt), dtype=np.float64), (horizon,))
    return _made(np.linalg.matrix_power(matrix, order), device, dtype)


def _host(name: str, what: str, value: Any) -> Any:
    array = constant(name, what, value, "take a step function, which gives that derivative")
    return array.get() if hasattr(array, "get") and hasattr(array, "dtype") else array


def build_clique_matrix(horizon: int, dt: Any, device: Any = "cpu", dtype: Any = dtypes.float32) -> Tensor:
    """Positions to delayed positions, velocities and accelerations, stacked.

    Args:
        horizon: H.
        dt: seconds, a number or (H,).
        device, dtype: of the result.
    Returns: (3 H, H): S, then diag(1/dt)(I - S) with entry (0, 0) zero, then diag(1/dt) times that again; S shifts by one step.
    Raises: ValueError for a horizon below 1.
    Source: backward differences.
    Example:
        >>> gradlib.trajectory.build_clique_matrix(2, 0.5)
        tensor([[ 0.,  0.],
                [ 1.,  0.],
                [ 0.,  0.],
                [-2.,  2.],
                [ 0.,  0.],
                [-4.,  4.]])
    """
    horizon = _horizon("build_clique_matrix", horizon)
    rate = 1 / np.broadcast_to(np.asarray(_host("build_clique_matrix", "dt", dt), dtype=np.float64), (horizon,))[:, None]
    shift = np.eye(horizon, k=-1)
    first = rate * (np.eye(horizon) - shift)
    first[0, 0] = 0
    return _made(np.concatenate([shift, first, rate * first]), device, dtype)


def build_start_state_mask(horizon: int, tensor_args: Any = None) -> tuple[Tensor, Tensor]:
    """The masks that put a start value before delayed actions: mask * start + n_mask @ u.

    Args:
        horizon: H.
        tensor_args: an object or mapping with device and dtype.
    Returns: mask (H, 1) with a one at (0, 0), and n_mask (H, H), the shift by one step.
    Raises: ValueError for a horizon below 1.
    Source: the delay of controls in this package's integrators.
    Example:
        >>> mask, shift = gradlib.trajectory.build_start_state_mask(3)
        >>> mask * 5 + shift @ gradlib.tensor([[1.0], [2.0], [3.0]])
        tensor([[5.],
                [1.],
                [2.]])
    """
    horizon = _horizon("build_start_state_mask", horizon)
    device, dtype = _args(tensor_args)
    mask = np.zeros((horizon, 1))
    mask[0, 0] = 1
    return _made(mask, device, dtype), _made(np.eye(horizon, k=-1), device, dtype)


def interpolate_kernel(h: int, int_steps: int, tensor_args: Any = None) -> Tensor:
    """Linear interpolation between neighbours as a matrix.

    Args:
        h: points.
        int_steps: rows for each of the h - 1 segments, whose both ends are included.
        tensor_args: device and dtype.
    Returns: ((h - 1) int_steps, h).
    Raises: ValueError for fewer than 2 points or no step.
    Source: linear interpolation.
    Example:
        >>> gradlib.trajectory.interpolate_kernel(2, 3) @ gradlib.tensor([0.0, 1.0])
        tensor([0.0000, 0.5000, 1.0000])
    """
    return _made(_interpolation("interpolate_kernel", h, int_steps), *_args(tensor_args))


def action_interpolate_kernel(h: int, int_steps: int, tensor_args: Any = None) -> Tensor:
    """Linear interpolation between actions as a matrix, which reaches the last action one segment early and holds it.

    Args:
        h, int_steps, tensor_args: as for ``interpolate_kernel``.
    Returns: ((h - 1) int_steps, h); the last int_steps rows give the last action.
    Raises: as ``interpolate_kernel``.
    Source: linear interpolation.
    Example:
        >>> gradlib.trajectory.action_interpolate_kernel(3, 2) @ gradlib.tensor([0.0, 1.0, 2.0])
        tensor([0., 1., 2., 2.])
    """
    matrix = _interpolation("action_interpolate_kernel", h, int_steps)
    matrix[-int_steps:] = 0
    matrix[-int_steps:, -1] = 1
    return _made(matrix, *_args(tensor_args))


def _interpolation(name: str, h: int, int_steps: int) -> np.ndarray:
    h = _horizon(name, h, 2)
    if int_steps < 1:
        raise ValueError(f"{name}: int_steps is at least 1, got {int_steps!r}")
    along = np.linspace(0, 1, int_steps)
    matrix = np.zeros(((h - 1) * int_steps, h))
    for i in range(h - 1):
        rows = slice(i * int_steps, (i + 1) * int_steps)
        matrix[rows, i], matrix[rows, i + 1] = 1 - along, along
    return matrix


def tensor_linspace(start: Any, end: Any, steps: int = 10) -> Any:
    """Points from start (left out) to end (included), evenly spaced.

    Args:
        start, end: Tensors or arrays that broadcast with (steps,) on their last axis, such as (D, 1).
        steps: at least 1.
    Returns: start + (k / steps)(end - start) for k = 1 .. steps, of the shape that broadcasting gives, such as (D, steps).
    Raises: ValueError for no step.
    Source: linear interpolation.
    Example:
        >>> gradlib.trajectory.tensor_linspace(gradlib.tensor([[0.0]]), gradlib.tensor([[1.0]]), 4)
        tensor([[0.2500, 0.5000, 0.7500, 1.0000]])
    """
    if steps < 1:
        raise ValueError(f"tensor_linspace: steps is at least 1, got {steps!r}")
    array = raw(start) if is_array(raw(start)) else np.float64(start)
    with on_device_of(array):
        along = namespace(array).arange(1, steps + 1).astype(array.dtype) / steps
    return start + along * (end - start)
