"""What an operation on a GPU costs the host, gradlib's part and CuPy's: `python -m benchmarks.device_overhead [--only NAME ... | --all]`.

Without a GPU the driver of hostcuda is beneath CuPy, and its launches, copies and fills do nothing: what is left is Python's and CuPy's
work before the driver. The times are of the processor; a GPU's own driver takes 2 to 4 microseconds more at each launch.
"""

from __future__ import annotations

import argparse
import contextlib
import functools
import os
import sys
import time
import weakref
from collections.abc import Callable
from typing import Any

from benchmarks.python_calls import python_calls

ROUNDS, FEW, SECONDS, FEWEST = 120, 12, 0.002, 50
"""How often each operation is timed, the least being taken, and one of very many; for how long each time, and with how many calls at least:
the first find the processor's caches full of something else."""
MOST_BYTES = 1 << 28
"""Of CuPy's memory: where nothing is computed, an operation may ask for as much as it happens to find for the size of its result."""


def library() -> Any:
    """CuPy, on a GPU or on the driver of hostcuda."""
    from gradlib.testing import hostcuda

    if hostcuda.reason_against() is None:
        os.environ["HOSTCUDA_SANITIZE"] = ""
        hostcuda.activate()
    import cupy

    return cupy


def bare_parts(op: Any) -> Callable[[Any, Any], Any]:
    """Recorded tensors around views of a source by assignments alone, with no question asked: the least that several views can cost."""
    from gradlib.core.modes import next_seq
    from gradlib.core.node import PLAIN_OUTPUT, Output
    from gradlib.core.tensor import Tensor
    from gradlib.core.views import Part

    tensor, view_of, output_of = (functools.partial(object.__new__, each) for each in (Tensor, Part, Output))

    def made(source: Any, arrays: Any) -> Any:
        node, results = op.node(), []
        node.seq, node.edges, node._meta, node.saved, edges = next_seq(), (source._node,), None, None, (node,)
        node.shape, node.dtype = shapes, dtypes = tuple([each.shape for each in arrays]), tuple([each.dtype for each in arrays])
        counter = source._version_slot
        for index, each in enumerate(arrays):
            result: Any = tensor()
            view: Any = view_of()
            output: Any = output_of()
            view.base, view.op, view.rest, view.index = source, op, (), index
            output.edges, output.index, output.seq, output.saved = edges, index, next_seq(), None
            output.shape, output.dtype, output._meta = shapes[index], dtypes[index], PLAIN_OUTPUT
            result._array, result._float, result._node, result._meta, result._version_slot = each, None, output, view, counter
            results.append(result)
        return tuple(results), list(map(weakref.ref, results))

    return made


def rows(cp: Any) -> dict[str, tuple[Callable[[], Any], Callable[[], Any] | None]]:
    """By name: an operation of gradlib, and what CuPy calls for the same; None where CuPy has no such thing."""
    import gradlib
    from gradlib.core.op import REGISTRY
    from gradlib.cuda.launch import launch
    from gradlib.nn import functional
    from gradlib.trajectory import step_acceleration
    from gradlib.trajectory.chain_device import forward_call

    a, b, row = (cp.ones(shape, cp.float32) for shape in ((4, 8), (4, 8), (8,)))
    mask, index = a > 0, cp.asarray([2, 1])
    place = cp.zeros((2, 8), cp.int64)
    grad = gradlib.autograd.grad
    x, y, m, i, p, v = (gradlib.as_tensor(each) for each in (a, b, mask, index, place, row))
    x, w = x.clone().requires_grad_(), y.clone().requires_grad_()
    cube = cp.ones((4, 2, 4), cp.float32)  # of which the first and the last dimension are reduced
    c = gradlib.as_tensor(cube).clone().requires_grad_()
    apart, two_ones = [c.var((0, 2))], gradlib.ones(2, device="cuda")
    columns, half_lines = x.T, x[:, ::2]
    turned, halves, large = y.T, y.half(), gradlib.ones(64, 64, device="cuda")
    labels, even = gradlib.as_tensor(cp.arange(4)), gradlib.full((4, 8), 0.5, device="cuda")
    own, own16, brain, two = y.clone(), y.half(), y.bfloat16(), y[:2].clone()
    line = gradlib.ones(32, device="cuda")
    parts = bare_parts(REGISTRY["split_with_sizes"])
    products, sines, ratios = [x * w], [gradlib.sin(x)], [x / w]
    bent, smooth, spreads = [gradlib.tanh(x)], [functional.gelu(x)], [x.var(-1)]
    normal, losses, v4, one = [functional.layer_norm(x, (8,))], [functional.mse_loss(x, y.clone())], y[:, 0].clone(), y[0, 0].clone()
    lengths, multiplied, greatest, logarithms = [x.norm(dim=-1)], [x.prod(-1)], [x.max(-1)[0]], [x.logsumexp(-1)]
    wrong, smoothed = [functional.cross_entropy(x, labels)], [functional.cross_entropy(x, labels, label_smoothing=0.1)]
    cubes, between = [x.norm(3, -1)], [gradlib.trapezoid(x, v)]
    multiplying, exponents = [x.cumprod(-1)], [x.logcumsumexp(-1)]
    met, shared = [x.scatter_reduce(0, p, two, "amax")], [x.scatter_reduce(0, p, two, "mean")]
    spread, strided, replaced = [y.masked_scatter(m, x)], [x.as_strided((4,), (2,))], [x.scatter(0, p, two)]
    turning, three, held, big = gradlib.complex(y, y), gradlib.ones(4, 3, device="cuda"), gradlib.tensor(2.0), large._array
    cubic, tall = (gradlib.ones(shape, device="cuda") for shape in ((2, 1, 4), (3, 1)))
    control = cp.ones((4, 32, 7), cp.float32)
    u = gradlib.as_tensor(control).clone().requires_grad_()
    start = [gradlib.zeros(4, 7, device="cuda") for _ in range(3)]
    whole, starts = [cp.ones((2, 4, 1), cp.float32) for _ in range(8)], [cp.ones((2, 1), cp.float32) for _ in range(3)]
    call = forward_call(cp, whole[0], starts, 0.5, 3, False, whole[1:4], whole[4:], 1)
    doubled = gradlib.cuda.elementwise("T x", "T z", "z = 2 * x", "doubled", derivative={"x": "2"})
    kernel = cp.ElementwiseKernel("T x", "T z", "z = 2 * x", "benchmarks_double")

    def shares(array: Any) -> Any:
        """Softmax in CuPy's functions."""
        grown = cp.exp(array - array.max(-1, keepdims=True))
        return grown / grown.sum(-1, keepdims=True)

    made: dict[str, tuple[Callable[[], Any], Callable[[], Any] | None]] = {
        "x + y": (lambda: x + y, lambda: a + b),
        "x + y, no gradient": (lambda: y + y, lambda: b + b),
        "x * 2.5": (lambda: x * 2.5, lambda: a * 2.5),
        "x + row": (lambda: x + v, lambda: a + row),
        "-x": (lambda: -x, lambda: -a),
        "sin(x)": (lambda: gradlib.sin(x), lambda: cp.sin(a)),
        "x > y": (lambda: x > y, lambda: a > b),
        "x ** 2": (lambda: x**2, lambda: a**2),
        "relu": (lambda: gradlib.relu(x), lambda: cp.maximum(a, 0)),
        "where": (lambda: gradlib.where(m, x, y), lambda: cp.where(mask, a, b)),
        "where, number": (lambda: gradlib.where(m, x, 0.0), lambda: cp.where(mask, a, 0.0)),
        "cat": (lambda: gradlib.cat([x, y]), lambda: cp.concatenate([a, b])),
        "cat, last": (lambda: gradlib.cat([x, y], -1), lambda: cp.concatenate([a, b], axis=-1)),
        "stack": (lambda: gradlib.stack([x, y]), lambda: cp.stack([a, b])),
        "x[index]": (lambda: x[i], lambda: a.take(index, axis=0)),
        "x[:, index]": (lambda: x[:, i], lambda: a.take(index, axis=1)),
        "gather": (lambda: gradlib.gather(x, 0, p), lambda: cp.take_along_axis(a, place, 0)),
        "x[1:]": (lambda: x[1:], lambda: a[1:]),
        "x[0]": (lambda: x[0], lambda: a[0]),
        "reshape": (lambda: x.reshape(8, 4), lambda: a.reshape(8, 4)),
        "transpose": (lambda: x.T, lambda: a.T),
        "sum": (lambda: x.sum(), lambda: a.sum()),
        "sum(-1)": (lambda: x.sum(-1), lambda: a.sum(-1)),
        "sum((0, 2))": (lambda: c.sum((0, 2)), lambda: cube.sum((0, 2))),
        "mean((0, 2))": (lambda: c.mean((0, 2)), lambda: cube.mean((0, 2))),
        "var((0, 2))": (lambda: c.var((0, 2)), lambda: cube.var((0, 2), ddof=1)),
        "amax((0, 2))": (lambda: c.amax((0, 2)), lambda: cube.max((0, 2))),
        "norm((0, 2))": (lambda: c.norm(dim=(0, 2)), lambda: cp.sqrt((cube * cube).sum((0, 2)))),
        "sum(-1), slice": (lambda: half_lines.sum(-1), lambda: half_lines._array.sum(-1)),
        "var(-1), transpose": (lambda: columns.var(-1), lambda: columns._array.var(-1, ddof=1)),
        "matmul": (lambda: x @ turned, lambda: a @ b.T),
        "max(-1)": (lambda: x.max(-1), lambda: (a.max(-1), a.argmax(-1))),
        "sort": (lambda: x.sort(), lambda: (cp.sort(a), a.argsort(-1))),
        "split": (lambda: gradlib.split(x, 2), lambda: cp.split(a, 2)),
        "unbind": (lambda: x.unbind(), lambda: list(a)),
        "split, bare": (lambda: parts(x, cp.split(x._array, 2)), lambda: cp.split(a, 2)),
        "unbind, bare": (lambda: parts(x, list(x._array)), lambda: list(a)),
        "clone": (lambda: x.clone(), lambda: a.copy()),
        "y.add_(1)": (lambda: y.add_(1.0), lambda: cp.add(b, 1.0, b)),
        "y[0] = 1": (lambda: y.__setitem__(0, 1.0), lambda: b.__setitem__(0, 1.0)),
        "zeros": (lambda: gradlib.zeros(8, device="cuda"), lambda: cp.zeros(8, cp.float32)),
        "backward of x * y": (lambda: grad(products, [x], [y], retain_graph=True), lambda: b * b),
        "backward of sin(x)": (lambda: grad(sines, [x], [y], retain_graph=True), lambda: b * cp.cos(a)),
        "backward of tanh": (lambda: grad(bent, [x], [y], retain_graph=True), lambda: b * (1 - a * a)),
        "backward of gelu": (lambda: grad(smooth, [x], [y], retain_graph=True), None),
        "backward of var(-1)": (lambda: grad(spreads, [x], [v4], retain_graph=True), None),
        "backward of var((0, 2))": (lambda: grad(apart, [c], [two_ones], retain_graph=True), None),
        "backward of layer_norm": (lambda: grad(normal, [x], [y], retain_graph=True), None),
        "backward of mse_loss": (lambda: grad(losses, [x], [one], retain_graph=True), None),
        "backward of norm(-1)": (lambda: grad(lengths, [x], [v4], retain_graph=True), None),
        "backward of prod(-1)": (lambda: grad(multiplied, [x], [v4], retain_graph=True), None),
        "backward of max(-1)": (lambda: grad(greatest, [x], [v4], retain_graph=True), None),
        "backward of norm(-1), order 3": (lambda: grad(cubes, [x], [v4], retain_graph=True), None),
        "backward of trapezoid, places": (lambda: grad(between, [x], [v4], retain_graph=True), None),
        "backward of cross_entropy, smoothed": (lambda: grad(smoothed, [x], [one], retain_graph=True), None),
        "backward of logsumexp": (lambda: grad(logarithms, [x], [v4], retain_graph=True), None),
        "backward of cross_entropy": (lambda: grad(wrong, [x], [one], retain_graph=True), None),
        "backward of cumprod": (lambda: grad(multiplying, [x], [y], retain_graph=True), None),
        "backward of logcumsumexp": (lambda: grad(exponents, [x], [y], retain_graph=True), None),
        "backward of scatter": (lambda: grad(replaced, [x], [y], retain_graph=True), None),
        "backward of scatter_reduce": (lambda: grad(met, [x], [y], retain_graph=True), None),
        "backward of scatter_reduce, mean": (lambda: grad(shared, [x], [y], retain_graph=True), None),
        "backward of masked_scatter, of what is written": (lambda: grad(spread, [x], [y], retain_graph=True), None),
        "backward of as_strided": (lambda: grad(strided, [x], [v4], retain_graph=True), None),
        "backward of x / y": (lambda: grad(ratios, [x, w], [y], retain_graph=True), lambda: (b / b, -(b * (a / b / b)))),
        "x16 + y16": (lambda: halves + halves, lambda: halves._array + halves._array),
        "x16 * 2.5": (lambda: halves * 2.5, lambda: halves._array * 2.5),
        "y16 *= 2.5": (lambda: own16.mul_(2.5), lambda: cp.multiply(own16._array, 2.5, own16._array)),
        "xb + yb, bfloat16": (lambda: brain + brain, lambda: brain._array + brain._array),
        "yb *= 2.5": (lambda: brain.mul_(2.5), lambda: cp.multiply(brain._array, 2.5, brain._array)),
        "y.sub_(row)": (lambda: own.sub_(v), lambda: cp.subtract(own._array, row, own._array)),
        "y.clamp_": (lambda: own.clamp_(0.0, 1.0), lambda: cp.clip(own._array, 0.0, 1.0, own._array)),
        "y.fill_": (lambda: own.fill_(2.0), lambda: own._array.fill(2.0)),
        "y.copy_": (lambda: own.copy_(y), lambda: cp.copyto(own._array, b)),
        "y[index] = rows": (lambda: own.__setitem__(i, two), lambda: own._array.__setitem__(index, two._array)),
        "i + i, integers": (lambda: p + p, lambda: place + place),
        "~mask": (lambda: ~m, lambda: ~mask),
        "floor": (lambda: x.floor(), lambda: cp.floor(a)),
        "remainder": (lambda: x % y, lambda: a % b),
        "where, row": (lambda: gradlib.where(m, x, v), lambda: cp.where(mask, a, row)),
        "masked_fill": (lambda: x.masked_fill(m, 0.0), lambda: cp.where(mask, 0.0, a)),
        "any": (lambda: m.any(), lambda: mask.any()),
        "argmax(-1)": (lambda: x.argmax(-1), lambda: a.argmax(-1)),
        "prod": (lambda: x.prod(), lambda: a.prod()),
        "var(-1)": (lambda: x.var(-1), lambda: a.var(-1)),
        "norm": (lambda: x.norm(), lambda: cp.sqrt((a * a).sum())),
        "sigmoid": (lambda: x.sigmoid(), lambda: 1 / (1 + cp.exp(-a))),
        "softmax": (lambda: x.softmax(-1), lambda: shares(a)),
        "layer_norm": (lambda: functional.layer_norm(x, (8,)), None),
        "layer_norm, affine": (lambda: functional.layer_norm(x, (8,), v, v), None),
        "std_mean": (lambda: gradlib.std_mean(x, -1), None),
        "nanmean": (lambda: x.nanmean(), lambda: cp.nanmean(a)),
        "nansum": (lambda: x.nansum(), lambda: cp.nansum(a)),
        "trapezoid": (lambda: gradlib.trapezoid(x), lambda: cp.trapz(a)),
        "trapezoid, places": (lambda: gradlib.trapezoid(x, v), lambda: cp.trapz(a, row)),
        "nan_to_num": (lambda: x.nan_to_num(), lambda: cp.nan_to_num(a)),
        "angle, complex": (lambda: turning.angle(), lambda: cp.angle(turning._array)),
        "abs, complex": (lambda: turning.abs(), lambda: cp.abs(turning._array)),
        "erf": (lambda: x.erf(), None),
        "gelu": (lambda: functional.gelu(x), None),
        "elu": (lambda: functional.elu(x), None),
        "lerp": (lambda: x.lerp(y, 0.25), None),
        "addcmul": (lambda: x.addcmul(x, y), None),
        "mse_loss": (lambda: functional.mse_loss(x, y), None),
        "l1_loss": (lambda: functional.l1_loss(x, y), None),
        "smooth_l1_loss": (lambda: functional.smooth_l1_loss(x, y), None),
        "binary cross entropy of logits": (lambda: functional.binary_cross_entropy_with_logits(x, y), None),
        "cross_entropy": (lambda: functional.cross_entropy(x, labels), None),
        "cross_entropy, smoothed": (lambda: functional.cross_entropy(x, labels, label_smoothing=0.1), None),
        "cross_entropy, weights": (lambda: functional.cross_entropy(x, labels, v), None),
        "cross_entropy, probabilities": (lambda: functional.cross_entropy(x, y), None),
        "cdist": (lambda: gradlib.cdist(x, y), None),
        "scatter": (lambda: x.scatter(0, p, two), None),
        "scatter_add": (lambda: x.scatter_add(0, p, two), None),
        "index_add": (lambda: x.index_add(0, i, two), None),
        "index_copy": (lambda: x.index_copy(0, i, two), None),
        "index_put, summed": (lambda: x.index_put((i,), two, accumulate=True), None),
        "take_along_dim": (lambda: x.take_along_dim(p, 0), lambda: cp.take_along_axis(a, place, 0)),
        "masked_scatter": (lambda: x.masked_scatter(m, line), None),
        "y.masked_scatter_": (lambda: own.masked_scatter_(m, line), None),
        "scatter of a part": (lambda: x.scatter(0, p, y), None),
        "y.scatter_": (lambda: own.scatter_(0, p, two), None),
        "y.index_add_": (lambda: own.index_add_(0, i, two), None),
        "recorded y[index] = rows": (lambda: x.clone().__setitem__(i, two), None),
        "recorded y[0] = row": (lambda: x.clone().__setitem__(0, v), None),
        "topk": (lambda: x.topk(2), None),
        "scatter_reduce": (lambda: x.scatter_reduce(0, p, two, "amax"), None),
        "scatter_reduce, mean": (lambda: x.scatter_reduce(0, p, two, "mean"), None),
        "scatter_reduce, mean of others": (lambda: x.scatter_reduce(0, p, two, "mean", include_self=False), None),
        "scatter_reduce of others": (lambda: x.scatter_reduce(0, p, two, "amax", include_self=False), None),
        "y.scatter_reduce_": (lambda: own.scatter_reduce_(0, p, two, "amax"), None),
        "as_strided": (lambda: x.as_strided((4,), (2,)), lambda: cp.lib.stride_tricks.as_strided(a, (4,), (8,))),
        "expand": (lambda: x.expand(2, 4, 8), lambda: cp.broadcast_to(a, (2, 4, 8))),
        "index_put of an element, mask": (lambda: x.index_put((m,), one), None),
        "recorded y[mask] = 0": (lambda: x.clone().__setitem__(m, 0.0), None),
        "pad": (lambda: functional.pad(x, (1, 1)), None),
        "norm(-1)": (lambda: x.norm(dim=-1), None),
        "norm(-1), order 3": (lambda: x.norm(3, -1), lambda: cp.linalg.norm(a, 3, -1)),
        "norm, order inf": (lambda: x.norm(float("inf")), lambda: abs(a).max()),
        "cumsum": (lambda: x.cumsum(-1), lambda: a.cumsum(-1)),
        "cummax": (lambda: x.cummax(-1), None),
        "log_softmax": (lambda: x.log_softmax(-1), None),
        "logsumexp": (lambda: x.logsumexp(-1), None),
        "nll_loss": (lambda: functional.nll_loss(x, labels), None),
        "silu": (lambda: functional.silu(x), None),
        "2 ** x": (lambda: 2**x, lambda: 2**a),
        "x // y": (lambda: x // y, lambda: a // b),
        "i << i, integers": (lambda: p << p, lambda: place << place),
        "sign": (lambda: x.sign(), lambda: cp.sign(a)),
        "isclose": (lambda: gradlib.isclose(x, y), lambda: cp.isclose(a, b)),
        "linspace": (lambda: gradlib.linspace(0, 1, 8, device="cuda"), lambda: cp.linspace(0, 1, 8)),
        "y.zero_": (lambda: own.zero_(), lambda: own._array.fill(0)),
        "y.masked_fill_": (lambda: own.masked_fill_(m, 0.0), lambda: cp.putmask(own._array, mask, 0.0)),
        "y[mask] = 0": (lambda: own.__setitem__(m, 0.0), lambda: own._array.__setitem__(mask, 0.0)),
        "y[index] = 0": (lambda: own.__setitem__(i, 0.0), lambda: own._array.__setitem__(index, 0.0)),
        "index_fill": (lambda: x.index_fill(0, i, 2.0), None),
        "rand": (lambda: gradlib.rand(4, 8, device="cuda"), lambda: cp.random.random((4, 8), cp.float32)),
        "randn": (lambda: gradlib.randn(4, 8, device="cuda"), lambda: cp.random.standard_normal((4, 8), cp.float32)),
        "rand_like": (lambda: gradlib.rand_like(y), None),
        "randint": (lambda: gradlib.randint(0, 10, (4, 8), device="cuda"), None),
        "randperm": (lambda: gradlib.randperm(32, device="cuda"), lambda: cp.random.permutation(32)),
        "normal": (lambda: gradlib.normal(1.0, 2.0, (4, 8), device="cuda"), lambda: cp.random.normal(1.0, 2.0, (4, 8), cp.float32)),
        "bernoulli": (lambda: gradlib.bernoulli(even), lambda: cp.random.random((4, 8), cp.float32) < even._array),
        "dropout": (lambda: functional.dropout(x), None),
        "multinomial": (lambda: even.multinomial(2), None),
        "y.normal_": (lambda: own.normal_(1.0, 2.0), None),
        "y.uniform_": (lambda: own.uniform_(-1.0, 1.0), None),
        "y.exponential_": (lambda: own.exponential_(), None),
        "y.log_normal_": (lambda: own.log_normal_(), None),
        "y.geometric_": (lambda: own.geometric_(0.3), None),
        "x ** 2.5": (lambda: x**2.5, lambda: a**2.5),
        "clamp": (lambda: gradlib.clamp(x, 0.0, 1.0), lambda: cp.clip(a, 0.0, 1.0)),
        "to another dtype": (lambda: x.to(gradlib.float64), lambda: a.astype(cp.float64)),
        "arange": (lambda: gradlib.arange(8, device="cuda"), lambda: cp.arange(8)),
        "flip": (lambda: x.flip(0), lambda: cp.flip(a, 0).copy()),
        "rot90": (lambda: x.rot90(), lambda: cp.rot90(a).copy()),
        "roll": (lambda: x.roll(1, 0), lambda: cp.roll(a, 1, 0)),
        "complex": (lambda: gradlib.complex(x, y), None),
        "diff": (lambda: x.diff(), lambda: cp.diff(a)),
        "cross": (lambda: three.cross(three), lambda: cp.cross(three._array, three._array)),
        "einsum": (lambda: gradlib.einsum("ij,kj->ik", x, y), lambda: a @ b.T),
        "einsum of three": (lambda: gradlib.einsum("ij,kj,kl->il", x, y, y), None),
        "tensordot": (lambda: gradlib.tensordot(c, c, ([1, 2], [1, 2])), lambda: cp.tensordot(cube, cube, ([1, 2], [1, 2]))),
        "addmm, factors": (lambda: gradlib.addmm(large, large, large, beta=2, alpha=3), lambda: 2 * big + 3 * (big @ big)),
        "mse_loss, weights": (lambda: functional.mse_loss(x, y, weight=y), None),
        "2 // x": (lambda: 2 // x, lambda: 2 // a),
        "x * complex": (lambda: x * 2j, lambda: a * 2j),
        "x * number of the host": (lambda: x * held, None),
        "x + y, both stretched": (lambda: cubic + tall, lambda: cubic._array + tall._array),
        "x[list, list]": (lambda: x[[2, 1], [3, 4]], lambda: a[[2, 1], [3, 4]]),
        "unsafe_split": (lambda: x.unsafe_split(2), None),
        "sum of 4096": (lambda: large.sum(), lambda: large._array.sum()),
        "a launch": (lambda: launch(call), None),
        "elementwise": (lambda: doubled(x), lambda: kernel(a)),
        "step_acceleration": (lambda: step_acceleration(u, start, 0.02), None),
    }
    made |= optimisers()
    return made


def optimisers() -> dict[str, tuple[Callable[[], Any], None]]:
    """Steps of ten parameters of 8 numbers, with ``capturable`` where that is an option, and what writes their gradients."""
    import gradlib

    made: dict[str, tuple[Callable[[], Any], None]] = {}
    kinds: list[tuple[str, dict[str, Any]]] = [
        ("Adam", {}), ("Adam", {"amsgrad": True}), ("AdamW", {}), ("NAdam", {}), ("RAdam", {}), ("Adamax", {}), ("Adadelta", {}),
        ("RMSprop", {}), ("RMSprop", {"centered": True}), ("ASGD", {}), ("Rprop", {}), ("SGD", {"momentum": 0.9}), ("Adagrad", {}),
    ]  # fmt: skip
    for name, options in kinds:
        for more in ({}, {"capturable": True}) if name not in ("SGD", "Adagrad") else ({},):
            held = [gradlib.ones(8, device="cuda", requires_grad=True) for _ in range(10)]
            for each in held:
                each.grad = gradlib.ones(8, device="cuda")
            optimizer = getattr(gradlib.optim, name)(held, lr=1e-3, **options, **more)
            optimizer._warned_capturable_if_run_uncaptured = True
            label = ", ".join([f"{name}.step", "10 parameters", *(option for option in (*options, *more) if option != "momentum")])
            made[label] = (optimizer.step, None)
    made["clip_grad_norm_, 10 parameters"] = (functools.partial(gradlib.nn.utils.clip_grad_norm_, held, 1e9), None)
    made["clip_grad_value_, 10 parameters"] = (functools.partial(gradlib.nn.utils.clip_grad_value_, held, 1e9), None)
    made["zero_grad(set_to_none=False), 10 parameters"] = (functools.partial(optimizer.zero_grad, set_to_none=False), None)
    return made


def matrices_and_order(cp: Any) -> dict[str, tuple[Callable[[], Any], Callable[[], Any] | None]]:
    """The same for linear algebra, of 4 x 4 matrices, and for what sorts or looks for values."""
    import cupyx.scipy.linalg as theirs

    import gradlib

    of = gradlib.linalg
    a = cp.eye(4, dtype=cp.float32) + cp.arange(16, dtype=cp.float32).reshape(4, 4) / 16
    b, c, s = cp.ones((4, 2), cp.float32), cp.ones(4, cp.float32), a @ a.T
    lines, row = cp.ones((4, 8), cp.float32), cp.arange(8, dtype=cp.float32)
    A, S, x = (gradlib.as_tensor(each.copy()).requires_grad_() for each in (a, s, lines))
    B, C, T, M, y, z = (gradlib.as_tensor(each) for each in (b, c, s, a, row, lines))
    one = M[0, 0].clone()
    made: dict[str, tuple[Any, list[Any], Any]] = {
        "det": (of.det(A), [one], A), "inv": (of.inv(A), [M], A), "solve": (of.solve(A, B), [B], A),
        "slogdet": (of.slogdet(A)[1], [one], A),
        "solve_triangular": (of.solve_triangular(A, B, upper=True), [B], A), "cholesky": (of.cholesky(S), [M], S),
        "pinv": (of.pinv(A), [M], A), "lstsq": (of.lstsq(A, B)[0], [B], A), "eigh": (of.eigh(S), [C, M], S),
        "svd": (of.svd(A), [M, C, M], A), "svdvals": (of.svdvals(A), [C], A), "qr": (of.qr(A), [M, M], A),
    }  # fmt: skip

    def backward(outputs: Any, gradients: list[Any], given: Any) -> tuple[Callable[[], Any], None]:
        return lambda: gradlib.autograd.grad(outputs, [given], gradients, retain_graph=True), None

    return {
        "det": (lambda: of.det(A), lambda: cp.linalg.det(a)),
        "slogdet": (lambda: of.slogdet(A), lambda: cp.linalg.slogdet(a)),
        "inv": (lambda: of.inv(A), lambda: cp.linalg.inv(a)),
        "solve": (lambda: of.solve(A, B), lambda: cp.linalg.solve(a, b)),
        "solve, vector": (lambda: of.solve(A, C), lambda: cp.linalg.solve(a, c)),
        "solve_triangular": (lambda: of.solve_triangular(A, B, upper=False), lambda: theirs.solve_triangular(a, b, lower=True)),
        "tril": (lambda: A.tril(), lambda: cp.tril(a)),
        "pinv": (lambda: of.pinv(A), lambda: cp.linalg.pinv(a)),
        "lstsq": (lambda: of.lstsq(A, B), lambda: cp.linalg.lstsq(a, b)),
        "eigvalsh, no gradient": (lambda: of.eigvalsh(T), lambda: cp.linalg.eigvalsh(s)),
        "eigh": (lambda: of.eigh(S), lambda: cp.linalg.eigh(s)),
        "svdvals, no gradient": (lambda: of.svdvals(T), lambda: cp.linalg.svd(s, compute_uv=False)),
        "svd": (lambda: of.svd(A), lambda: cp.linalg.svd(a)),
        "qr": (lambda: of.qr(A), lambda: cp.linalg.qr(a)),
        "matrix_norm, 1": (lambda: of.matrix_norm(A, 1), lambda: cp.linalg.norm(a, 1)),
        "matrix_norm, 2": (lambda: of.matrix_norm(A, 2), lambda: cp.linalg.norm(a, 2)),
        "inner": (lambda: gradlib.inner(x, y), lambda: cp.inner(lines, row)),
        "kthvalue": (lambda: x.kthvalue(2), lambda: cp.partition(lines, 1, -1)),
        "median": (lambda: x.median(), lambda: cp.median(lines)),
        "median(-1)": (lambda: x.median(-1), lambda: cp.median(lines, -1)),
        "searchsorted": (lambda: gradlib.searchsorted(y, z), lambda: cp.searchsorted(row, lines)),
        "searchsorted, rows": (lambda: gradlib.searchsorted(z, z), None),
        "isin": (lambda: gradlib.isin(z, y), lambda: cp.isin(lines, row)),
    } | {f"backward of {name}": backward(*each) for name, each in made.items()}


def every(cp: Any) -> dict[str, tuple[Callable[[], Any], Callable[[], Any] | None]]:
    """The same for the rows of the suite ``ops`` of `gradlib bench`, of 10 elements each."""
    import numpy as np

    import gradlib
    from gradlib.cli.bench.suites.forms import FORMS
    from gradlib.cli.bench.suites.ops import rows as entries

    made: dict[str, tuple[Callable[[], Any], Callable[[], Any] | None]] = {}
    for entry in entries():
        drawn = entry.draw(np.random.default_rng(0), 10)
        arrays = [cp.asarray(array, {"f": "f", "c": "F"}.get(array.dtype.kind, array.dtype)) for array in drawn]
        given = [gradlib.as_tensor(array) for array in arrays]
        given = [each.requires_grad_() if entry.gradient and each.dtype.kind in "fc" else each for each in given]
        array_form = entry.array or FORMS.get(entry.name)
        theirs = None if array_form is None else functools.partial(array_form, cp, *arrays)
        made[entry.name] = functools.partial(entry.call, gradlib, *given), theirs
    return made


def runs(function: Callable[[], Any]) -> bool:
    """Whether a call succeeds, twice as the first may compile; what does not is left out: CuPy has not all that NumPy has."""
    try:
        function()
        function()
    except Exception as error:
        print(f"left out: {str(error)[:120]}", file=sys.stderr)
        return False
    return True


def microseconds(function: Callable[[], Any]) -> float:
    """The processor's time for one call; infinite for one that fails on what it reads where nothing was computed."""
    try:
        begin = time.process_time()
        function()
        number = max(FEWEST, int(SECONDS / max(time.process_time() - begin, 1e-6)))
        begin = time.process_time()
        for _ in range(number):
            function()
        return 1e6 * (time.process_time() - begin) / number
    except Exception:
        return float("inf")


def main() -> None:
    """Measure and print a table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", nargs="*", help="operations, as the table names them")
    parser.add_argument("--all", action="store_true", help="every row of the suite ops of `gradlib bench`, the furthest beyond CuPy first")
    given = parser.parse_args()
    wanted = given.only
    cp = library()
    from gradlib.testing import hostcuda

    cp.get_default_memory_pool().set_limit(MOST_BYTES)
    made = every(cp) if given.all else rows(cp) | matrices_and_order(cp)
    chosen = {name: pair for name, pair in made.items() if not wanted or name in wanted}
    chosen = {name: (ours, theirs if theirs and runs(theirs) else None) for name, (ours, theirs) in chosen.items() if runs(ours)}
    calls = {name: len(python_calls(ours)) for name, (ours, _) in chosen.items()}  # while what is read was computed
    skipped = hostcuda.skipped_work() if hostcuda.is_active() else contextlib.nullcontext()
    least: dict[Callable[[], Any], float] = {}
    lines = []
    with skipped:
        for _ in range(FEW if given.all else ROUNDS):  # each goes through all, so that a busy moment falls on one of the times only
            for function in (each for pair in chosen.values() for each in pair if each is not None):
                least[function] = min(least.get(function, float("inf")), microseconds(function))
        for name, (ours, theirs) in chosen.items():
            beyond = least[ours] - (least[theirs] if theirs else 0.0)
            beside = "" if theirs is None else f"{least[theirs]:8.2f} {beyond:15.2f}"
            if least[ours] < float("inf"):
                lines.append((-beyond, f"{name:28} {calls[name]:6} {least[ours]:11.2f} {beside}".rstrip()))
        print(f"{'operation':28} {'calls':>6} {'gradlib us':>11} {'CuPy us':>8} {'gradlib - CuPy':>15}")
        for _, line in sorted(lines) if given.all else lines:
            print(line)
    if hostcuda.is_active():
        sys.stdout.flush()
        os._exit(0)  # the driver knows nothing of what was allocated here


if __name__ == "__main__":
    main()
