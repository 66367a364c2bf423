"""The planner: time-optimal step times by gradient descent through the chain.

Each problem has one step time dt, and its motion is fast when dt is small. For a fixed path the smallest dt is known in closed form,
because velocity, acceleration and jerk scale as 1/dt, 1/dt^2 and 1/dt^3: with the chain run at any dt,

    log(needed dt / dt) = max over steps and joints of  log(|v|/V),  log(|a|/A)/2,  log(|j|/J)/3

So dt is eliminated from the search (variable projection), and what is minimised over paths is this maximum, differentiated through
the chain of gradlib.trajectory in velocity control: there the end conditions are linear (motion.py), and jerk is a second
difference, where position control would take a third and lose digits in float32.

A maximum has kinks, on which L-BFGS stalls. It is replaced by log-sum-exp at sharpness p, for p = 16, 64, 256 in turn, each from the
last one's result and with dt and the scales of motion.py brought up to date. L-BFGS takes one step length for all problems of a batch
and so may leave an awkward one behind; Adam, whose steps are measured element by element, finishes, and each problem keeps its best.

Found by trial on 256 sampled Panda problems, H = 64, mean duration over the time-optimal one: positions with Adam and a smooth
maximum 1.2 and worse as H grows; velocities with L-BFGS 1.02, but 1.06 to 1.5 where jerk binds or H = 128; softmax or squares of velocities
up to 1.3; scaled sines as here 1.02 at once, 1.01 at H = 128 and where jerk binds, the discretisation itself costing 1.016 at H = 64.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

import gradlib
from gradlib import Tensor, optim, trajectory
from gradlib.cli.trajopt import motion
from gradlib.cli.trajopt.check import Trajectories
from gradlib.cli.trajopt.robot import Robot
from gradlib.cli.trajopt.sines import sine_transform
from gradlib.nn import functional

SHARPNESS = (16.0, 64.0, 256.0)
ELEMENTS = 1 << 16  # in an array of the problems planned together: they fit the processor's cache, and one step length suits them all
LONG = 256  # steps from which on a motion is first planned with a quarter of them
_POLISH = 30
_POLISH_RATE = 0.003


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
    batches = [moving[low : low + size] for low in range(0, len(moving), size)]
    rests = np.zeros((len(start), horizon, start.shape[1]), dtype)
    made = Trajectories(rests + start.astype(dtype)[:, None], rests, rests.copy(), rests.copy(), np.zeros(len(start), dtype))
    for i, rows in enumerate(batches):
        batch = _Batch(start[rows], goal[rows], robot, horizon, dtype, device)
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
    with gradlib.no_grad():
        u, begin = _tensor(actions, device), _at_rest(_tensor(path[:, 0], device))
        for attempt in range(8):
            states = trajectory.step_position(u, begin, _tensor(times[:, None], device))
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
    """

    def __init__(self, start: np.ndarray, goal: np.ndarray, robot: Robot, horizon: int, dtype: np.dtype, device: str) -> None:
        self.robot, self.horizon, self.dtype, self.device = robot, horizon, dtype, device
        self.start, self.distance = start, goal - start
        self.way = self.tensor(self.distance[:, None])
        self.begin = _at_rest(self.tensor(np.zeros_like(start)))
        self.limits = [self.tensor(1 / limit) for limit in robot.rates()]
        self.profile = np.broadcast_to(motion.smooth_start(horizon)[None, :, None], (len(start), horizon, start.shape[1]))
        self.needed = motion.needed_step(self.profile, self.distance, robot)

    def tensor(self, array: np.ndarray) -> Tensor:
        return _tensor(array.astype(self.dtype), self.device)

    def optimise(self, progress: Callable[[float], None]) -> np.ndarray:
        """The best profile (B, H, D) found for each problem, float64."""
        if self.horizon >= LONG:  # then few iterations are left to do, however long it is
            coarse = _Batch(self.start, self.start + self.distance, self.robot, self.horizon // 4, self.dtype, self.device)
            self.profile = motion.finer(coarse.optimise(lambda fraction: progress(0.1 * fraction)), self.horizon)
            self.needed = motion.needed_step(self.profile, self.distance, self.robot)
        iterations = 25 + min(self.horizon, LONG) // 8
        for stage, sharpness in enumerate(SHARPNESS):
            self.linearise()
            self.descend(sharpness, iterations, lambda part, at=stage: progress((at + part) / (len(SHARPNESS) + 0.3)))  # type: ignore[misc]
        self.linearise()
        self.polish(SHARPNESS[-1])
        return motion.smoothed(self.profile, self.distance, self.robot)

    def linearise(self) -> None:
        """Take dt, the scales and the coefficients of the search from the best profiles so far."""
        scales = motion.scales(self.horizon, self.distance, self.needed, self.robot)
        coefficients = sine_transform(self.profile[:, : self.horizon - 3]) / scales
        self.scales = self.tensor(scales)
        self.dt = self.tensor(self.needed[:, None])
        self.coefficients = self.tensor(coefficients).requires_grad_()

    def descend(self, sharpness: float, iterations: int, progress: Callable[[float], None]) -> None:
        """L-BFGS on the smooth maximum; problems that came out better keep the result."""
        optimiser = optim.LBFGS([self.coefficients], max_iter=iterations, history_size=10, line_search_fn="strong_wolfe")
        evaluations = 0

        def closure() -> Tensor:
            nonlocal evaluations
            evaluations += 1
            progress(min(1.0, evaluations / (1.1 * iterations)))
            optimiser.zero_grad()
            loss = self.smooth_maximum(sharpness).sum()
            loss.backward()
            return loss

        optimiser.step(closure)
        self.keep_better()

    def polish(self, sharpness: float) -> None:
        """Adam with a falling rate; problems keep the best that they pass through."""
        optimiser = optim.Adam([self.coefficients], lr=_POLISH_RATE, betas=(0.9, 0.99))
        for step in range(_POLISH):
            optimiser.param_groups[0]["lr"] = _POLISH_RATE * (1 - step / _POLISH)
            optimiser.zero_grad()
            self.smooth_maximum(sharpness).sum().backward()
            optimiser.step()
            self.keep_better()

    def velocities(self) -> Tensor:
        """The velocity profile (B, H, D) that the coefficients stand for: it sums to one over the steps."""
        profile = functional.pad(sine_transform(self.coefficients * self.scales), (0, 0, 0, 3))
        return profile / profile.sum(1, keepdim=True)

    def smooth_maximum(self, sharpness: float) -> Tensor:
        """log(needed dt / dt) of each problem (B,), its maximum replaced by log-sum-exp at this sharpness."""
        u = self.velocities() * (self.way / self.dt[:, :, None])
        _, *rates = trajectory.step_velocity(u, self.begin, self.dt)
        tiny = float(np.finfo(self.dtype).tiny)  # a joint at rest asks for log 0
        needs = [
            ((x * inverse).square().add(tiny).log() * (sharpness / (2 * order))).logsumexp((1, 2))
            for order, (x, inverse) in enumerate(zip(rates, self.limits, strict=True), start=1)
        ]
        return gradlib.stack(needs).logsumexp(0) / sharpness

    def keep_better(self) -> None:
        """Take over the coefficients' profiles for the problems whose needed dt they shorten."""
        with gradlib.no_grad():
            profile = self.velocities().cpu().numpy().astype(np.float64)
        needed = motion.needed_step(profile, self.distance, self.robot)
        better = needed < self.needed
        self.profile = np.where(better[:, None, None], profile, self.profile)
        self.needed = np.where(better, needed, self.needed)


def _tensor(array: np.ndarray, device: str) -> Tensor:
    return gradlib.from_numpy(np.ascontiguousarray(array)).to(device)


def _at_rest(position: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """A start state at this position: velocity and acceleration zero."""
    return position, gradlib.zeros_like(position), gradlib.zeros_like(position)
