"""The kernels for the loss of classes give what the host gives, and leave to CuPy what they do not serve."""

from __future__ import annotations

import numpy as np
import pytest

import gradlib
from gradlib.backend import classes
from gradlib.backend.dtype import as_dtype
from gradlib.testing import hostcuda
from tests.device import HAS_GPU, cupy, skip_module_without_cuda

skip_module_without_cuda()
pytestmark = [pytest.mark.cuda, pytest.mark.host]
nll_loss, cross_entropy = gradlib.nn.functional.nll_loss, gradlib.nn.functional.cross_entropy


def scores(rows: int, dtype: str) -> np.ndarray:
    return np.random.default_rng(5).normal(size=(rows, 7)).astype(as_dtype(dtype))


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize(("rows", "ignored"), [(1, -100), (5, -100), (40, 3), (130, -1)])
def test_losses_and_gradients_are_those_of_the_host(rows, ignored, reduction, dtype):
    x, target = scores(rows, dtype), np.arange(rows) * 3 % 7
    target[::4] = ignored
    close = {"rtol": 4 * float(gradlib.finfo(x.dtype).eps), "atol": 4 * float(gradlib.finfo(x.dtype).eps)}
    found = []
    for function in (nll_loss, cross_entropy):
        for each in (np.asarray, cupy.asarray):
            leaf = gradlib.as_tensor(each(x)).requires_grad_()
            with np.errstate(all="ignore"):
                made = function(leaf, gradlib.as_tensor(each(target)), ignore_index=ignored, reduction=reduction)
                (g,) = gradlib.autograd.grad(made, leaf, gradlib.ones_like(made) * 0.5)
            found.append([made.dtype, made.shape, made.double().numpy(force=True), g.double().numpy(force=True)])
        (host, device), found = found, []
        assert host[:2] == device[:2]
        np.testing.assert_allclose(device[2], host[2], rtol=40 * close["rtol"] if reduction == "sum" else close["rtol"], atol=close["atol"])
        np.testing.assert_allclose(device[3], host[3], **close)


SHAPES = [(5, 7), (7,), (3, 7, 4, 2), (40, 7), (1, 7)]


def drawn_labels(shape: tuple[int, ...]) -> np.ndarray:
    place = shape[:1] + shape[2:] if len(shape) > 1 else ()
    return np.random.default_rng(8).integers(0, 7, place)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("smoothing", [0.0, 0.25, 1.0])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", SHAPES)
def test_weights_and_smoothed_labels_are_those_of_the_host(shape, weighted, smoothing, reduction, dtype):
    """Half types are computed in float32 on the device: the host computes them from float64."""
    random, of = np.random.default_rng(5), as_dtype(dtype)
    x, weight = random.normal(size=shape).astype(of), random.uniform(0.5, 2, 7).astype(of)
    found = []
    for place, kind in ((np.asarray, np.float64), (cupy.asarray, of)):
        leaf = gradlib.as_tensor(place(x.astype(kind))).requires_grad_()
        w = gradlib.as_tensor(place(weight.astype(kind))) if weighted else None
        made = cross_entropy(
            leaf, gradlib.as_tensor(place(drawn_labels(shape))), w, ignore_index=2, reduction=reduction, label_smoothing=smoothing
        )
        (g,) = gradlib.autograd.grad(made, leaf, gradlib.ones_like(made) * 0.5)
        assert made.dtype == kind
        found.append((made.double().numpy(force=True), g.double().numpy(force=True)))
    eps = float(gradlib.finfo(of).eps)
    np.testing.assert_allclose(found[1][0], found[0][0], rtol=16 * eps, atol=16 * eps * (40 if reduction == "sum" else 1))
    np.testing.assert_allclose(found[1][1], found[0][1], rtol=32 * eps, atol=8 * eps)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("smoothing", [0.0, 0.25])
@pytest.mark.parametrize("shape", SHAPES)
def test_losses_of_probabilities_are_those_of_the_host(shape, smoothing, reduction, dtype):
    random, of = np.random.default_rng(6), as_dtype(dtype)
    x, shares = random.normal(size=shape).astype(of), random.uniform(size=shape).astype(of)
    found = []
    for place, kind in ((np.asarray, np.float64), (cupy.asarray, of)):
        leaves = [gradlib.as_tensor(place(each.astype(kind))).requires_grad_() for each in (x, shares)]
        made = cross_entropy(*leaves, reduction=reduction, label_smoothing=smoothing)
        by_scores, by_shares = gradlib.autograd.grad(made, leaves, gradlib.ones_like(made) * 0.5)
        found.append([each.double().numpy(force=True) for each in (made, by_scores, by_shares)])
    eps = float(gradlib.finfo(of).eps)
    for host, device in zip(*found, strict=True):
        np.testing.assert_allclose(device, host, rtol=32 * eps, atol=16 * eps * (40 if reduction == "sum" else 1))


@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
@pytest.mark.parametrize("smoothing", [0.0, 0.25])
@pytest.mark.parametrize("weighted", [False, True])
@pytest.mark.parametrize("shape", [(4, 7), (7,), (2, 7, 3)])
def test_derivatives_on_a_device(shape, weighted, smoothing, reduction):
    random = np.random.default_rng(5)
    x = gradlib.as_tensor(cupy.asarray(random.normal(size=shape))).requires_grad_()
    w = gradlib.as_tensor(cupy.asarray(random.uniform(0.5, 2, 7))) if weighted else None
    labels = gradlib.as_tensor(cupy.asarray(drawn_labels(shape)))

    def loss(x):
        return cross_entropy(x, labels, w, ignore_index=2, reduction=reduction, label_smoothing=smoothing)

    assert gradlib.autograd.gradcheck(loss, x, check_forward_ad=True, check_batched_grad=True)
    assert gradlib.autograd.gradgradcheck(loss, x)
    if weighted:
        return
    shares = gradlib.softmax(x.detach() * 2, 0).requires_grad_()

    def of_shares(x, shares):
        return cross_entropy(x, shares, reduction=reduction, label_smoothing=smoothing)

    assert gradlib.autograd.gradcheck(of_shares, (x, shares), check_forward_ad=True, check_batched_grad=True)
    assert gradlib.autograd.gradgradcheck(of_shares, (x, shares))


def test_no_row_that_counts_gives_nan_and_no_gradient():
    leaf = gradlib.as_tensor(cupy.asarray(scores(3, "float32"))).requires_grad_()
    made = nll_loss(leaf, gradlib.as_tensor(cupy.full(3, 2)), ignore_index=2)
    assert made.isnan()
    assert not gradlib.autograd.grad(made, leaf)[0].any()


@pytest.mark.skipif(HAS_GPU, reason="hostcuda reports what a GPU lets wrap around")
@pytest.mark.parametrize("reduction", ["none", "sum"])
def test_a_class_that_is_not_there_is_reported(reduction):
    x, target = cupy.asarray(scores(3, "float32")), cupy.asarray([0, 7, 1])
    with hostcuda.expected("the index 7 is outside of an axis of 7"):
        classes.loss(x, target, None, -100, reduction)
    with hostcuda.expected("the index 7 is outside of an axis of 7"):
        classes.loss_gradient(cupy.float32(1) + x[:, 0] if reduction == "none" else x[0, 0].copy(), target, None, -100, reduction, (3, 7))


def test_what_the_kernels_do_not_serve_is_left_to_cupy():
    x, target = cupy.asarray(scores(4, "float32")), cupy.asarray([0, 1, 2, 3])
    for given in ((x.T.copy().T, target), (x[0], target), (x, target.astype("uint8")), (x[:0], target[:0]), (x.astype("c8"), target)):
        assert classes.loss(*given, None, -100, "mean") is None
    assert classes.loss(x, target, x[0].astype("d"), -100, "mean") is None
    assert classes.loss_gradient(x[0, 0], target[:0], None, -100, "mean", (0, 7)) is None
    assert classes.loss_gradient(x[0, 0], target, None, -100, "mean", (4, 7, 1)) is None
