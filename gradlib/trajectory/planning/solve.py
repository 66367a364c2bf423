"""The planner: time-optimal step times by gradient descent through the chain.

Each problem has one step time dt, and its motion is fast when dt is small. For a fixed path the smallest dt is known in closed form,
because velocity, acceleration and jerk scale as 1/dt, 1/dt^2 and 1/dt^3: with the chain run at any dt,

    log(needed dt / dt) = max over steps and joints of  log(|v|/V),  log(|a|/A)/2,  log(|j|/J)/3

So dt is eliminated from the search (variable projection), and what is minimised over paths is this maximum, differentiated through
the chain of gradlib.trajectory in velocity control: there the end conditions are linear (motion.py), and jerk is a second
difference, where position control would take a third and lose digits in float32.

A maximum has kinks, on which quasi-Newton methods stall. It is replaced by sums of powers, sharper in each of three stages, each from the
last one's result and with dt and the scales of motion.py brought up to date. The problems of a batch are independent (lbfgs.py): each
takes its own steps, stops by itself, and comes out the same bits whichever others share its batch.

Found by trial on 256 sampled Panda problems, H = 64, mean duration over the time-optimal one: positions with Adam and a smooth
maximum 1.2 and worse as H grows; velocities with L-BFGS 1.02, but 1.06 to 1.5 where jerk binds or H = 128; softmax or squares of velocities
up to 1.3; scaled sines as here 1.016 at once, of which the discretisation itself costs most, and 1.007 where jerk binds.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from gradlib.backend.array import Array, device_index, is_cupy
from gradlib.core.grad_mode import no_grad
from gradlib.core.tensor import Tensor, wrap
from gradlib.ops.create import zeros_like
from gradlib.ops.from_data import from_numpy
from gradlib.ops.join import stack
from gradlib.ops.nn import pad
from gradlib.trajectory.chain import step_position, step_velocity
from gradlib.trajectory.planning import lbfgs, motion
from gradlib.trajectory.planning.check import Trajectories
from gradlib.trajectory.planning.lbfgs_graph import GraphedSearch
from gradlib.trajectory.planning.powers import even_power, sum_of_each
from gradlib.trajectory.planning.robot import Robot
from gradlib.trajectory.planning.sines import sine_matrix, sine_transform

Graphs = dict[tuple[Any, ...], GraphedSearch]

SHARPNESS = ((5, 4, 3), (7, 6, 5), (9, 8, 7))
"""Of each stage the doublings of the powers of velocity, acceleration and jerk."""
ELEMENTS = 1 << 16  # in an array of the problems planned together: they fit the processor's cache
LONG = 256  # steps from which on a motion is first planned with a quarter of them
_TOLERANCE = 1e-4  # of the logarithm of dt, in a few evaluations


def plan(
    start: np.ndarray,
    goal: np.ndarray,
    robot: Robot,
    horizon: int = 64,
    dtype: np.dtype | type = np.float64,
    device: str = "cpu",
    progress: Callable[[float], None] = lambda fraction: None,
) -> Trajectories:
    """Motions from rest to rest that keep a robot's limits, as fast as the optimisation gets them.

    Args:
        start, goal: (N, D) positions inside the limits; radians or metres. Where they are one, the motion takes no time.
        robot: its limits; horizon: H, at least `motion.SHORTEST` steps.
        dtype: float32 or float64, to compute and return; device: where to compute.
        progress: called with the fraction done, now and then.
    Returns: Trajectories of shape (N, H, D) in host memory, whose velocity, acceleration and jerk are those of the chain.
    """
    dtype = np.dtype(dtype)
    size = max(1, ELEMENTS // (horizon * len(robot.joints)))
    moving = np.flatnonzero((start.astype(dtype) != goal.astype(dtype)).any(axis=1))
    graphs: Graphs = {}
    batches = [moving[low : low + size] for low in range(0, len(moving), size)]
    rests = np.zeros((len(start), horizon, start.shape[1]), dtype)
    made = Trajectories(rests + start.astype(dtype)[:, None], rests, rests.copy(), rests.copy(), np.zeros(len(start), dtype))
    for i, rows in enumerate(batches):
        batch = _Batch(start[rows], goal[rows], robot, horizon, dtype, device, graphs)
        profile = batch.optimise(lambda fraction, done=i: progress((done + fraction) / len(batches)))  # type: ignore[misc]
        path = motion.positions(profile, start[rows], goal[rows], robot).astype(dtype)
        part = _integrate(path, batch.needed, robot, device)
        for name in ("position", "velocity", "acceleration", "jerk", "dt"):
            getattr(made, name)[rows] = getattr(part, name)
    return made


def _integrate(path: np.ndarray, dt: np.ndarray, robot: Robot, device: str) -> Trajectories:
    """The chain along a path (B, H, D) in its own precision, with the shortest dt that keeps every limit there.

    The path is rounded, so its differences ask for a slightly longer dt than the exact ones; a few rounds of the closed form settle it.
    """
    limits = [np.asarray(limit, dtype=np.float64) for limit in robot.rates()]
    actions = np.concatenate([path[:, 1:], path[:, -1:]], axis=1)
    times = dt.astype(path.dtype)
    with no_grad():
        u, begin = _tensor(actions, device), _at_rest(_tensor(path[:, 0], device))
        for attempt in range(8):
            states = step_position(u, begin, _tensor(times[:, None], device))
            p, v, a, j = (x.cpu().numpy() for x in states)
            needs = [
                (np.abs(x.astype(np.float64)) / limit).max(axis=(1, 2)) ** (1 / order)
                for order, (x, limit) in enumerate(zip((v, a, j), limits, strict=True), start=1)
            ]
            need = np.maximum.reduce(needs)
            if (need <= 1).all():
                break
            margin = 1 + 4 ** (attempt + 1) * np.finfo(path.dtype).eps  # rounding differs from one dt to the next
            times = np.where(need > 1, times * need * margin, times).astype(path.dtype)
    return Trajectories(p, v, a, j, times)


class _Batch:
    """The problems that are optimised together; arrays of coefficients are (B, M, D), of states (B, H, D).

    Args:
        start, goal: (B, D); robot, horizon, dtype, device: as `plan`.
        graphs: the searches that were captured so far, for batches to come.
    """

    def __init__(
        self, start: np.ndarray, goal: np.ndarray, robot: Robot, horizon: int, dtype: np.dtype, device: str, graphs: Graphs | None = None
    ) -> None:
        self.robot, self.horizon, self.dtype, self.device = robot, horizon, dtype, device
        self.graphs: Graphs = {} if graphs is None else graphs
        self.start, self.distance = start, goal - start
        self.limits = [self.tensor(1 / limit) for limit in robot.rates()]
        self.profile = np.broadcast_to(motion.smooth_start(horizon)[None, :, None], (len(start), horizon, start.shape[1]))
        self.needed = motion.needed_step(self.profile, self.distance, robot)

    def tensor(self, array: np.ndarray) -> Tensor:
        return _tensor(array.astype(self.dtype), self.device)

    def optimise(self, progress: Callable[[float], None]) -> np.ndarray:
        """The best profile (B, H, D) found for each problem, float64."""
        if self.horizon >= LONG:  # then few iterations are left to do, however long it is
            coarse = _Batch(self.start, self.start + self.distance, self.robot, self.horizon // 4, self.dtype, self.device, self.graphs)
            self.profile = motion.finer(coarse.optimise(lambda fraction: progress(0.1 * fraction)), self.horizon)
            self.needed = motion.needed_step(self.profile, self.distance, self.robot)
        evaluations = 40 + min(self.horizon, LONG) // 8
        for stage, sharpness in enumerate(SHARPNESS):
            self.descend(sharpness, evaluations, lambda part, at=stage: progress((at + part) / (len(SHARPNESS) + 0.1)))  # type: ignore[misc]
        return motion.smoothed(self.profile, self.distance, self.robot)

    def descend(self, sharpness: tuple[int, ...], evaluations: int, progress: Callable[[float], None]) -> None:
        """L-BFGS on the smooth maximum, from the best profiles so far; problems that came out better keep the result."""
        objective = _Objective(self, sharpness)
        begin = objective.coefficients()
        found = self.searched(objective, begin.reshape(len(begin), -1), evaluations, progress)
        with no_grad():
            profile = objective.velocities(wrap(found.reshape(begin.shape)), objective.scales).cpu().numpy().astype(np.float64)
        needed = motion.needed_step(profile, self.distance, self.robot)
        better = needed < self.needed
        self.profile = np.where(better[:, None, None], profile, self.profile)
        self.needed = np.where(better, needed, self.needed)

    def searched(self, objective: _Objective, x: Array, evaluations: int, progress: Callable[[float], None]) -> Array:
        """The lowest points (B, M D) found from these starts; on a GPU by a CUDA graph, which serves all batches of one shape."""
        if not is_cupy(x):
            return lbfgs.minimise(objective, x, evaluations, _TOLERANCE, progress)
        key = (x.shape, self.horizon, objective.sharpness)
        if key not in self.graphs:
            matrix = sine_matrix(self.horizon - 3, self.dtype, device_index(x))
            self.graphs[key] = GraphedSearch(objective, x, _TOLERANCE, kept=matrix)
        return self.graphs[key].minimise(objective, x, evaluations, progress)


class _Objective:
    """log(needed dt / dt) of each problem, its maximum replaced by sums of powers, as a function of the coefficients.

    dt, the scales and the coefficients to begin with are taken from the best profiles so far.

    Args:
        batch: the problems; sharpness: the doublings of the powers of velocity, acceleration and jerk.
    """

    def __init__(self, batch: _Batch, sharpness: tuple[int, ...]) -> None:
        self.batch, self.sharpness = batch, sharpness
        scales = motion.scales(batch.horizon, batch.distance, batch.needed, batch.robot)
        self.start = sine_transform(batch.profile[:, : batch.horizon - 3]) / scales
        dt = batch.needed[:, None]
        self.constants = [batch.tensor(x) for x in (scales, batch.distance[:, None] / dt[:, :, None], dt)]
        self.rows, self.chosen = np.arange(len(dt)), self.constants

    @property
    def scales(self) -> Tensor:
        return self.constants[0]

    def coefficients(self) -> Array:
        """The coefficients of the start, (B, M, D)."""
        return self.batch.tensor(self.start)._array

    def adopt(self, other: _Objective) -> None:
        """Take over the problems of another objective of the same shape, in this one's memory, where a CUDA graph reads them."""
        with no_grad():
            for own, new in zip(self.constants, other.constants, strict=True):
                own.copy_(new)

    def __call__(self, x: Array, rows: np.ndarray) -> tuple[Array, Array]:
        """Loss (b,) and gradient (b, M D) at the points x (b, M D) of some of the problems."""
        if len(rows) != len(self.rows):
            self.chosen = [constant[from_numpy(rows).to(self.batch.device)] for constant in self.constants]
        self.rows = rows
        leaf = wrap(x.reshape(len(x), *self.start.shape[1:])).requires_grad_()
        with np.errstate(over="ignore", invalid="ignore"):  # of a step that is too long the powers may be infinite; it is not taken
            loss = self.smooth_maximum(leaf, *self.chosen)
            loss.sum().backward()
        return loss._array, leaf.grad._array.reshape(x.shape)  # type: ignore[union-attr]

    def velocities(self, coefficients: Tensor, scales: Tensor) -> Tensor:
        """The velocity profile (b, H, D) that the coefficients stand for: it sums to one over the steps."""
        profile = pad(sine_transform(coefficients * scales), (0, 0, 0, 3))
        return profile / profile.sum(1, keepdim=True)

    def smooth_maximum(self, coefficients: Tensor, scales: Tensor, rate: Tensor, dt: Tensor) -> Tensor:
        """(b,), from the coefficients (b, M, D), way / dt (b, 1, D) and dt (b, 1)."""
        u = self.velocities(coefficients, scales) * rate
        at = zeros_like(u[:, 0])
        _, *rates = step_velocity(u, (at, at, at), dt)
        tiny = float(np.finfo(self.batch.dtype).tiny)  # a quantity far below its limit has powers of zero
        needs = [
            (sum_of_each(even_power(x * inverse, doublings)) + tiny).log() / (order * 2**doublings)
            for order, (x, inverse, doublings) in enumerate(zip(rates, self.batch.limits, self.sharpness, strict=True), start=1)
        ]
        sharpness = 2 ** self.sharpness[0]
        return (stack(needs) * sharpness).logsumexp(0) / sharpness


def _tensor(array: np.ndarray, device: str) -> Tensor:
    return from_numpy(np.ascontiguousarray(array)).to(device)


def _at_rest(position: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """A start state at this position: velocity and acceleration zero."""
    return position, zeros_like(position), zeros_like(position)
