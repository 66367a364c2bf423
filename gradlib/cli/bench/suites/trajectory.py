"""Each integrator and the costs over batch, horizon and joints, against the same in torch's operations and, with numba, in NumPy's."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import cache, partial
from typing import Any

import numpy as np

from gradlib import trajectory
from gradlib.cli.bench.case import Case
from gradlib.cli.bench.peers import Peer, Run
from gradlib.trajectory import bspline_host, compiled

DT = 0.02
SAMPLES = 4  # of a segment between two knots of a B-spline
STEPS = {name: getattr(trajectory, f"step_{name}") for name in ("position", "velocity", "acceleration", "jerk")}
STEPS["bspline"] = partial(trajectory.step_bspline, samples_per_knot=SAMPLES)
BATCHES = (1, 64, 1024, 8192, 16384)
SHAPES = ((32, 7), (128, 7), (32, 12))
"""Horizon and joints."""


def cases(device: str, quick: bool) -> Iterator[Case]:
    """Small batches are limited by what a call costs, large ones by memory."""
    for dtype in ("float32",) if quick else ("float32", "float64"):
        for horizon, joints in SHAPES[:1] if quick else SHAPES:
            for batch in BATCHES[:3] if quick else BATCHES:
                yield from _at(batch, horizon, joints, dtype, device)


def _at(batch: int, horizon: int, joints: int, dtype: str, device: str) -> Iterator[Case]:
    size = f"B {batch}, H {horizon}, D {joints}"
    nbytes = batch * horizon * joints * np.dtype(dtype).itemsize
    shape = (batch, horizon, joints)

    def case(name: str, size: str, build: Callable[[Peer], Run], **figures: Any) -> Case:
        others = {"numpy path": _by_numpy(build)} if device == "cpu" and compiled.version() else {}
        return Case(name, size, build, dtype=dtype, device=device, others=others, **figures)

    most = {} if device == "cuda" else {"torch": 1.0 if batch <= 64 else 0.6}
    for name, step in STEPS.items():
        given = (batch, horizon // SAMPLES, joints) if name == "bspline" else shape
        forward, backward = (partial(build, name=name, step=step, shape=given, dtype=dtype) for build in (_forward, _backward))
        yield case(f"step_{name} forward", size, forward, limits=most, moved=4 * nbytes + nbytes * given[1] // horizon)
        yield case(f"step_{name} with backward", size, backward, limits=most, moved=11 * nbytes)
    most = {} if device == "cuda" else {"torch": 1.0 if batch <= 64 else 0.25 if batch < 8192 else 0.15}
    cost = partial(_cost, shape=shape, dtype=dtype)
    yield case("smoothness_cost with backward", size, cost, limits=most, moved=2 * nbytes)
    several = partial(_several_costs, shape=shape, dtype=dtype)
    yield case("motion_cost with backward", size, several, moved=6 * nbytes)


def _by_numpy(build: Callable[[Peer], Run]) -> Callable[[Peer], Run]:
    """The same program of gradlib's without numba."""
    return lambda peer: compiled.by_numpy(build(peer))


def _data(peer: Peer, shape: tuple[int, int, int], dtype: str, requires_grad: bool = False) -> list[Any]:
    """Controls and start position, velocity and acceleration."""
    rng = np.random.default_rng(0)
    arrays = rng.standard_normal(shape), *rng.standard_normal((3, shape[0], shape[2]))
    return [peer.tensor(a.astype(dtype), requires_grad and k == 0) for k, a in enumerate(arrays)]


def _forward(peer: Peer, name: str, step: Any, shape: tuple[int, int, int], dtype: str) -> Run:
    u, *start = _data(peer, shape, dtype)
    if peer.name == "gradlib":
        return lambda: step(u, start, DT)
    by_torch = torch_steps(peer.m)[name]
    return lambda: by_torch(u, *start)


def _backward(peer: Peer, name: str, step: Any, shape: tuple[int, int, int], dtype: str) -> Run:
    """The gradient of the sum of all states by the controls."""
    u, *start = _data(peer, shape, dtype, requires_grad=True)
    by_torch = None if peer.name == "gradlib" else torch_steps(peer.m)[name]

    def run() -> Any:
        u.grad = None
        p, v, a, j = step(u, start, DT) if by_torch is None else by_torch(u, *start)
        (p.sum() + v.sum() + a.sum() + j.sum()).backward()
        return u.grad

    return run


def _cost(peer: Peer, shape: tuple[int, int, int], dtype: str) -> Run:
    """The gradient of the summed squares of velocity, acceleration and jerk; gradlib's in one pass."""
    u, *start = _data(peer, shape, dtype, requires_grad=True)
    by_torch = None if peer.name == "gradlib" else torch_steps(peer.m)["position"]

    def run() -> Any:
        u.grad = None
        if by_torch is None:
            trajectory.smoothness_cost(u, start, DT, (1.0, 1.0, 1.0)).sum().backward()
        else:
            _, v, a, j = by_torch(u, *start)
            (v.square().sum() + a.square().sum() + j.square().sum()).backward()
        return u.grad

    return run


def _several_costs(peer: Peer, shape: tuple[int, int, int], dtype: str) -> Run:
    """The gradients by positions, velocities and accelerations of bounds on them, a goal, path length and energy; gradlib's in one pass."""
    rng = np.random.default_rng(0)
    p, v, a = (peer.tensor(rng.standard_normal(shape).astype(dtype), True) for _ in range(3))
    goal = peer.tensor(rng.standard_normal((shape[0], shape[2])).astype(dtype), False)
    terms = (trajectory.BoundsCost((0.5, 0.5, 0.5)), trajectory.TerminalCost((goal,)), trajectory.PathLengthCost(),
             trajectory.EnergyCost(1.0, 0.1)) if peer.name == "gradlib" else ()  # fmt: skip
    cost: Any = sum(terms)

    def run() -> Any:
        p.grad = v.grad = a.grad = None
        if terms:
            cost((p, v, a), DT).sum().backward()
        else:
            beyond = ((x - x.clip(-0.5, 0.5)).square().sum() for x in (p, v, a))
            length = (p[:, 1:] - p[:, :-1]).square().sum(2).sqrt().sum()
            energy = DT * (v[:, 1:].square().sum() + 0.1 * a[:, 1:].square().sum())
            (sum(beyond) + (p[:, -1] - goal).square().sum() + length + energy).backward()
        return p.grad

    return run


def torch_steps(torch: Any) -> dict[str, Callable[..., tuple[Any, ...]]]:
    """Each integrator as one writes it with torch's operations: from controls and start parts to p, v, a, j."""

    def behind(first: Any, rest: Any) -> Any:
        return torch.cat([first[:, None], rest], 1)

    def rate(x: Any, first: Any) -> Any:
        return behind(first, torch.diff(x, dim=1) / DT)

    def total(x: Any, first: Any) -> Any:
        return torch.cumsum(behind(first, x[:, 1:] * DT), 1)

    def position(u: Any, p0: Any, v0: Any, a0: Any) -> tuple[Any, ...]:
        p = behind(p0, u[:, :-1])
        v = rate(p, v0)
        a = rate(v, a0)
        return p, v, a, rate(a, torch.zeros_like(a0))

    def velocity(u: Any, p0: Any, v0: Any, a0: Any) -> tuple[Any, ...]:
        v = behind(v0, u[:, :-1])
        a = rate(v, a0)
        return total(v, p0), v, a, rate(a, torch.zeros_like(a0))

    def acceleration(u: Any, p0: Any, v0: Any, a0: Any) -> tuple[Any, ...]:
        a = behind(a0, u[:, :-1])
        v = total(a, v0)
        return total(v, p0), v, a, rate(a, torch.zeros_like(a0))

    def jerk(u: Any, p0: Any, v0: Any, a0: Any) -> tuple[Any, ...]:
        j = behind(torch.zeros_like(a0), u[:, :-1])
        a = total(j, a0)
        v = total(a, v0)
        return total(v, p0), v, a, j

    return {"position": position, "velocity": velocity, "acceleration": acceleration, "jerk": jerk, "bspline": torch_bspline(torch)}


def torch_bspline(torch: Any) -> Callable[..., tuple[Any, ...]]:
    """The cubic B-spline as windows of control points times a table of weights."""
    weights = bspline_host.sample_weights(3, SAMPLES) / DT ** np.arange(4)[:, None, None]  # derivatives by time, samples, points
    outer = bspline_host.boundary_weights(3, end=False) * (SAMPLES * DT) ** np.arange(3)

    @cache
    def tables(dtype: Any) -> list[Any]:
        return [torch.tensor(each, dtype=dtype) for each in (outer, weights[:, :-1].reshape(-1, 4).T.copy(), weights[:, -1].T.copy())]

    def bspline(knots: Any, p0: Any, v0: Any, a0: Any) -> tuple[Any, ...]:
        fixed, inner, last = tables(knots.dtype)
        points = torch.cat([fixed @ torch.stack([p0, v0, a0], 1), knots], 1)
        windows = points.unfold(1, 4, 1)  # (B, segments, D, 4)
        curves = (windows @ inner).unflatten(3, (4, SAMPLES)).permute(3, 0, 1, 4, 2).flatten(2, 3)
        ends = (windows[:, -1:] @ last).unbind(3)
        return tuple(torch.cat([curve, end], 1) for curve, end in zip(curves, ends, strict=True))

    return bspline
