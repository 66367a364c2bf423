"""The core against torch, HIPS autograd, MyGrad and raw NumPy: the same programs on one thread, as ratios within one run."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np

import gradlib
from benchmarks.timing import Row, compare, interleaved, optional

Run = Callable[[], Any]


def chain(m: Any, x: Any, w: Any, b: Any, blocks: int = 10) -> Any:
    """`blocks` times ten small operations; `m` is the module whose functions to use."""
    for _ in range(blocks):
        x = m.sin(x * w + b)
        x = m.tanh(x - b) / w
        x = m.exp(m.cos(x))
        x = -x * b
    return x


def chain_data(size: int) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Point, weight and bias for `chain`, float32."""
    rng = np.random.default_rng(0)
    return tuple(rng.uniform(0.5, 1.5, size).astype(np.float32) for _ in range(3))  # type: ignore[return-value]


def torch_like_chain(m: Any) -> Run:
    """Forward and backward in gradlib or torch; returns the gradient."""
    x, w, b = (m.tensor(a) for a in chain_data(10))
    x.requires_grad_(True)

    def run() -> Any:
        x.grad = None
        chain(m, x, w, b).sum().backward()
        return x.grad

    return run


def mygrad_chain(mg: Any) -> Run:
    """Forward and backward in MyGrad."""
    data, w, b = chain_data(10)
    x = mg.tensor(data)

    def run() -> Any:
        x.null_grad()
        chain(mg, x, w, b).sum().backward()
        return x.grad

    return run


def hips_chain(autograd: Any) -> Run:
    """Forward and backward in HIPS autograd."""
    x, w, b = chain_data(10)
    gradient = autograd.grad(lambda x: autograd.numpy.sum(chain(autograd.numpy, x, w, b)))
    return lambda: gradient(x)


def chain_rows() -> list[Row]:
    """Forward and backward through 100 operations on 10 numbers."""
    runs = {"gradlib": torch_like_chain(gradlib)}
    targets = {}
    if torch := optional("torch"):
        torch.set_num_threads(1)
        runs["torch"], targets["torch"] = torch_like_chain(torch), 0.6
    if optional("autograd.numpy"):
        runs["HIPS autograd"], targets["HIPS autograd"] = hips_chain(optional("autograd")), 0.35
    if mygrad := optional("mygrad"):
        runs["MyGrad"], targets["MyGrad"] = mygrad_chain(mygrad), 0.25
    expected = np.asarray(runs["gradlib"]())
    for name, run in runs.items():
        np.testing.assert_allclose(np.asarray(run()), expected, rtol=1e-3, err_msg=f"{name} computes something else")
    times = interleaved(runs)
    return [compare(f"chain of 100 operations, both passes, against {n}", times, "gradlib", n, t) for n, t in targets.items()]


def forward_row() -> Row:
    """The chain's forward under no_grad against the same calls on bare arrays."""
    arrays = chain_data(10)
    tensors = [gradlib.tensor(a) for a in arrays]

    def ours() -> Any:
        with gradlib.no_grad():
            return chain(gradlib, *tensors)

    times = interleaved({"gradlib": ours, "NumPy": lambda: chain(np, *arrays)})
    return compare("its forward under no_grad, against raw NumPy", times, "gradlib", "NumPy", 2.5)


def mlp_step(m: Any) -> Run:
    """One step of gradient descent on three layers, batch 64, width 256; returns the loss."""
    rng = np.random.default_rng(0)

    def draw(*shape: int) -> Any:
        return m.tensor((rng.standard_normal(shape) / 16).astype(np.float32))

    weights = [draw(256, 256).requires_grad_(True) for _ in range(3)]
    biases = [draw(256).requires_grad_(True) for _ in range(3)]
    data, target = draw(64, 256), draw(64, 256)
    linear, relu, mse_loss = m.nn.functional.linear, m.nn.functional.relu, m.nn.functional.mse_loss

    def run() -> Any:
        x = relu(linear(data, weights[0], biases[0]))
        x = relu(linear(x, weights[1], biases[1]))
        loss = mse_loss(linear(x, weights[2], biases[2]), target)
        loss.backward()
        with m.no_grad():
            for p in (*weights, *biases):
                p -= 0.01 * p.grad
                p.grad = None
        return loss

    return run


def matmul_times(torch: Any) -> dict[str, list[float]]:
    """The matrix products of that step alone: the part in which NumPy's and torch's BLAS differ."""
    a, w = np.ones((64, 256), np.float32), np.ones((256, 256), np.float32)
    ta, tw = torch.tensor(a), torch.tensor(w)
    return interleaved({"NumPy": lambda: (a @ w.T, a @ w, a.T @ a), "torch": lambda: (ta @ tw.T, ta @ tw, ta.T @ ta)})


def mlp_rows() -> list[Row]:
    """A training step against torch's."""
    torch = optional("torch")
    if torch is None:
        return []
    torch.set_num_threads(1)
    runs = {"gradlib": mlp_step(gradlib), "torch": mlp_step(torch)}
    losses = [run().item() for run in runs.values()]
    np.testing.assert_allclose(*losses, rtol=1e-4, err_msg="gradlib and torch compute different losses")
    row = compare("3-layer MLP step, batch 64, width 256, against torch", interleaved(runs), "gradlib", "torch", 1.3)
    products = matmul_times(torch)
    return [row, compare("(for comparison: one layer's three products alone)", products, "NumPy", "torch")]


# sin and cos keep their input, tanh and exp their result; products and quotients by constants keep only the constants.
SAVED_IN_A_BLOCK = 4


def memory_row(blocks: int = 100, size: int = 1_000_000) -> Row:
    """What the graph of `chain` on large arrays keeps alive, against the buffers that its rules name."""
    x, w, b = (gradlib.tensor(a) for a in chain_data(size))
    x.requires_grad_(True)
    chain(gradlib, x, w, b, 1)  # the texts of its operations are compiled at their first call, and kept
    gc.collect()
    tracemalloc.start()
    y = chain(gradlib, x, w, b, blocks)
    kept, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    buffer = 4 * size
    named = (SAVED_IN_A_BLOCK * blocks + 1) * buffer  # and y itself
    del y
    what = f"memory of a {10 * blocks}-operation chain on {size:.0e} numbers"
    return Row(what, f"{kept / 1e6:.0f} MB", f"{named / 1e6:.0f} MB", kept / named, 1.01)


def rows() -> list[Row]:
    """The whole table."""
    return [*chain_rows(), forward_row(), *mlp_rows(), memory_row()]
