"""Trajectory integration: on the CPU against torch on one thread, on a GPU against the device's own copy bandwidth.

The CPU part takes H = 32, D = 7, float32: at B = 1 and 64 each integrator, at B = 1024 and 8192 the summed squares of velocity,
acceleration and jerk by differences along the horizon. The GPU part, B = 16384, H = 32 and 128, D = 7, runs where CuPy finds a GPU.
"""

from __future__ import annotations

import importlib.util
import statistics
from collections.abc import Callable
from typing import Any

import numpy as np

import gradlib
from benchmarks.timing import Row, compare, interleaved, optional
from gradlib.trajectory import smoothness_cost, step_acceleration, step_jerk, step_position, step_velocity

DT = 0.02
HORIZON, JOINTS = 32, 7
STEPS = {"position": step_position, "velocity": step_velocity, "acceleration": step_acceleration, "jerk": step_jerk}
Run = Callable[[], Any]


def data(batch: int, horizon: int = HORIZON, joints: int = JOINTS) -> tuple[np.ndarray, ...]:
    """Controls and start position, velocity and acceleration."""
    rng = np.random.default_rng(0)
    return rng.standard_normal((batch, horizon, joints), np.float32), *rng.standard_normal((3, batch, joints), np.float32)


def torch_cost(torch: Any, batch: int) -> Run:
    """The same in torch: differences along the horizon from the start state on."""
    u, p0, v0, a0 = (torch.tensor(x) for x in data(batch))
    u.requires_grad_(True)
    zero = torch.zeros_like(a0)

    def run() -> Any:
        u.grad = None
        p = torch.cat([p0[:, None], u[:, :-1]], 1)
        v = torch.cat([v0[:, None], torch.diff(p, dim=1) / DT], 1)
        a = torch.cat([a0[:, None], torch.diff(v, dim=1) / DT], 1)
        j = torch.cat([zero[:, None], torch.diff(a, dim=1) / DT], 1)
        (v.square().sum() + a.square().sum() + j.square().sum()).backward()
        return u.grad

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

    return {"position": position, "velocity": velocity, "acceleration": acceleration, "jerk": jerk}


def small_rows(torch: Any) -> list[Row]:
    """Each integrator over torch's operations at the sizes of model predictive control, where what a call costs counts."""
    made = []
    peers = torch_steps(torch)
    for batch in (1, 64):
        arrays = data(batch)
        for name, step in STEPS.items():
            ours, theirs = ([make(x) for x in arrays] for make in (gradlib.tensor, torch.tensor))
            for found, expected in zip(step(ours[0], ours[1:], DT), peers[name](*theirs), strict=True):
                np.testing.assert_allclose(found._array, expected.numpy(), rtol=1e-3, atol=1e-3 * float(expected.abs().max()))
            runs = {"gradlib": lambda s=step, x=ours: s(x[0], x[1:], DT), "torch": lambda s=peers[name], x=theirs: s(*x)}
            size = f"(B {batch}, H {HORIZON}, D {JOINTS})"
            made.append(compare(f"step_{name} forward over torch {size}", interleaved(runs, rounds=11), "gradlib", "torch", 1.0))
            ours[0], theirs[0] = (x[0].clone().requires_grad_() for x in (ours, theirs))
            both = {k: lambda r=r, x=x: _backward(r(), x[0]) for (k, r), x in zip(runs.items(), (ours, theirs), strict=True)}
            made.append(
                compare(f"step_{name} forward and backward over torch {size}", interleaved(both, rounds=11), "gradlib", "torch", 1.0)
            )
    return made


def _backward(states: Any, u: Any) -> None:
    """The gradient of the sum of all states by the controls."""
    u.grad = None
    p, v, a, j = (x.sum() for x in states)
    (p + v + a + j).backward()


def composed_cost(batch: int) -> Run:
    """gradlib's integrator and ordinary operations."""
    u, *start = (gradlib.tensor(x) for x in data(batch))
    u.requires_grad_(True)

    def run() -> Any:
        u.grad = None
        _, v, a, j = step_position(u, start, DT)
        (v.square().sum() + a.square().sum() + j.square().sum()).backward()
        return u.grad

    return run


def fused_cost(batch: int) -> Run:
    """gradlib's one-pass cost."""
    u, *start = (gradlib.tensor(x) for x in data(batch))
    u.requires_grad_(True)

    def run() -> Any:
        u.grad = None
        smoothness_cost(u, start, DT, (1.0, 1.0, 1.0)).sum().backward()
        return u.grad

    return run


def copies(batch: int) -> Run:
    """Copying the five arrays that an integration reads and writes."""
    arrays = [data(batch)[0] for _ in range(5)]
    targets = [np.empty_like(x) for x in arrays]

    def run() -> Any:
        for target, array in zip(targets, arrays, strict=True):
            np.copyto(target, array)

    return run


def forward_only(step: Any, batch: int, horizon: int = HORIZON, joints: int = JOINTS) -> Run:
    """One integration, nothing recorded."""
    u, *start = (gradlib.tensor(x) for x in data(batch, horizon, joints))
    return lambda: step(u, start, DT)


def rows() -> list[Row]:
    """The CPU's figures, and the GPU's where there is one."""
    return [*cpu_rows(), *gpu_rows()]


def cpu_rows() -> list[Row]:
    torch = optional("torch")
    made = []
    if torch is not None:
        torch.set_num_threads(1)
        made += small_rows(torch)
    for batch in (1024, 8192):
        size = f"B {batch}, H {HORIZON}, D {JOINTS}"
        if torch is not None:
            torch.set_num_threads(1)
            runs = {"torch": torch_cost(torch, batch), "composed": composed_cost(batch), "fused": fused_cost(batch)}
            expected = runs["torch"]().numpy()
            for name in ("composed", "fused"):
                found = runs[name]()._array
                np.testing.assert_allclose(found, expected, atol=1e-4 * np.abs(expected).max())
            times = interleaved(runs, rounds=11)
            made.append(compare(f"position, composed cost, forward and backward, over torch ({size})", times, "composed", "torch", 0.75))
            made.append(compare(f"smoothness_cost, forward and backward, over torch ({size})", times, "fused", "torch", 0.3))
        for name, step in STEPS.items():
            times = interleaved({"step": forward_only(step, batch), "copies": copies(batch)}, rounds=11)
            made.append(compare(f"step_{name} forward over copying five arrays ({size})", times, "step", "copies", 4.0))
    return made + [row for name, step in STEPS.items() for row in growth_rows(name, step)]


def growth_rows(name: str, step: Any) -> list[Row]:
    """How the cost grows: it is linear in the batch, the horizon and the joints.

    Four times the horizon or the joints is also held against four times the batch, which is as many numbers in as much memory:
    what fits a cache once may not fit it four times.
    """
    sizes = {"once": (1024, HORIZON, JOINTS), "batch": (4096, HORIZON, JOINTS), "horizon": (1024, 4 * HORIZON, JOINTS)}
    sizes["joints"] = (1024, HORIZON, 4 * JOINTS)
    times = interleaved({what: forward_only(step, *size) for what, size in sizes.items()}, rounds=11)
    made = []
    for what in ("batch", "horizon", "joints"):
        made.append(compare(f"step_{name} forward, four times the {what} over once", times, what, "once"))
    for what in ("horizon", "joints"):
        made.append(compare(f"step_{name} forward, four times the {what} over four times the batch", times, what, "batch"))
    return made


# ---- on a GPU ---------------------------------------------------------------------------------------------------------------------


def has_gpu() -> bool:
    if importlib.util.find_spec("cupy") is None:
        return False
    import cupy

    try:
        return bool(cupy.cuda.runtime.getDeviceCount())
    except cupy.cuda.runtime.CUDARuntimeError:
        return False


def device_seconds(runs: list[Run], repeats: int = 50) -> float:
    """The median seconds that a run keeps the device busy, by its events.

    The runs (each on buffers of its own, so that no cache holds them) take turns. A long copy goes ahead of each, behind which the host
    queues the whole run: the events then tell the device's time and not how quickly Python launches.
    """
    import cupy

    source, target = cupy.empty((2, 1 << 28), cupy.float32)  # 2 GB read and written: about a millisecond, longer than any launch here
    for run in runs:
        run()
    samples = []
    for k in range(repeats):
        begin, end = cupy.cuda.Event(), cupy.cuda.Event()
        for _ in range(4):
            cupy.copyto(target, source)
        begin.record()
        runs[k % len(runs)]()
        end.record()
        end.synchronize()
        samples.append(cupy.cuda.get_elapsed_time(begin, end) / 1e3)
    return statistics.median(samples)


def copy_bandwidth() -> float:
    """Bytes read and written a second by a large copy on the device."""
    import cupy

    source = cupy.random.standard_normal(1 << 28, dtype=cupy.float32)
    target = cupy.empty_like(source)
    return 2 * source.nbytes / device_seconds([lambda: cupy.copyto(target, source)], 20)


def gpu_rows() -> list[Row]:
    """Time over the floor that the copy bandwidth sets (1 / fraction of it), and the fused cost over the composed one."""
    if not has_gpu():
        return []
    bandwidth, batch, made = copy_bandwidth(), 16384, []
    for horizon in (32, 128):
        size = f"B {batch}, H {horizon}, D {JOINTS}"
        floor = 5 * batch * horizon * JOINTS * 4 / bandwidth
        for name in ("position", "acceleration", "jerk"):
            target = 1 / (0.85 if name == "position" else 0.75)
            for way, seconds in kernel_seconds(STEPS[name], batch, horizon).items():
                made.append(
                    Row(
                        f"step_{name} {way} over its floor ({size})",
                        f"{seconds * 1e6:.0f} us",
                        f"{floor * 1e6:.0f} us",
                        seconds / floor,
                        target,
                    )
                )
        fused, composed = (device_seconds(runs, 30) for runs in cost_runs(batch, horizon))
        made.append(
            Row(f"smoothness_cost over composed ({size})", f"{fused * 1e6:.0f} us", f"{composed * 1e6:.0f} us", fused / composed, 1 / 3)
        )
    return made


def kernel_seconds(step: Any, batch: int, horizon: int) -> dict[str, float]:
    """Forward, and backward with all four gradients given, of one integrator."""
    forwards, backwards = [], []
    for _ in range(4):
        u, *start = (gradlib.tensor(x, device="cuda") for x in data(batch, horizon))
        forwards.append(lambda u=u, start=start: step(u, start, DT))
        recorded = step(u.detach().requires_grad_(), start, DT)
        grads = [x.detach().clone() for x in recorded]
        leaf = u.detach().requires_grad_()
        made = step(leaf, start, DT)
        backwards.append(lambda made=made, leaf=leaf, grads=grads: gradlib.autograd.grad(made, leaf, grads, retain_graph=True))
    return {"forward": device_seconds(forwards), "backward": device_seconds(backwards)}


def cost_runs(batch: int, horizon: int) -> tuple[list[Run], list[Run]]:
    """Forward and backward of the fused and of the composed cost."""
    u, *start = (gradlib.tensor(x, device="cuda") for x in data(batch, horizon))
    u.requires_grad_(True)

    def fused() -> Any:
        u.grad = None
        smoothness_cost(u, start, DT, (1.0, 1.0, 1.0)).sum().backward()

    def composed() -> Any:
        u.grad = None
        _, v, a, j = step_position(u, start, DT)
        (v.square().sum() + a.square().sum() + j.square().sum()).backward()

    return [fused], [composed]
