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
        classes.loss(x, target, -100, reduction)
    with hostcuda.expected("the index 7 is outside of an axis of 7"):
        classes.loss_gradient(cupy.float32(1) + x[:, 0] if reduction == "none" else x[0, 0].copy(), target, -100, reduction, (3, 7))


def test_what_the_kernels_do_not_serve_is_left_to_cupy():
    x, target = cupy.asarray(scores(4, "float32")), cupy.asarray([0, 1, 2, 3])
    for given in ((x.T.copy().T, target), (x[0], target[0]), (x, target.astype("uint8")), (x[:0], target[:0]), (x.astype("c8"), target)):
        assert classes.loss(*given, -100, "mean") is None
    assert classes.loss_gradient(x[0, 0], target[:0], -100, "mean", (0, 7)) is None
    assert classes.loss_gradient(x[0, 0], target, -100, "mean", (4, 7, 1)) is None
