"""The kernels for values written where a mask holds give what the host gives, and leave to the formula what they do not serve."""

from __future__ import annotations

import numpy as np
import pytest

import gradlib
from gradlib.backend import marked
from gradlib.backend.dtype import as_dtype
from gradlib.testing import hostcuda
from tests.device import HAS_GPU, cupy, skip_module_without_cuda
from tests.values import host

skip_module_without_cuda()
pytestmark = [pytest.mark.cuda, pytest.mark.host]

SHAPES = [
    ((1,), (1,)), ((), ()), ((7, 5), (7, 5)), ((700,), (700,)), ((3, 40, 9), (40, 1)), ((4, 1), (4, 300)), ((5,), (3, 5)), ((2, 3), ()),
]  # fmt: skip


@pytest.mark.parametrize("dtype", ["bool", "float16", "bfloat16", "float32", "int64", "complex64", "complex128"])
@pytest.mark.parametrize(("shape", "masked"), SHAPES)
def test_values_go_where_a_mask_holds_and_gradients_back(shape, masked, dtype):
    rng = np.random.default_rng(len(shape))
    x = rng.integers(0, 5, shape).astype(as_dtype(dtype))
    mask = np.asarray(rng.random(masked) < 0.6)
    count = int(np.broadcast_to(mask, np.broadcast_shapes(shape, masked)).sum())
    source = rng.integers(0, 5, (count + 3, 1)).astype(as_dtype(dtype))
    found = []
    for there in (np.asarray, cupy.asarray):
        a, m, s = (gradlib.as_tensor(there(each)) for each in (x, mask, source))
        if gradlib.is_floating_point(a) or a.is_complex():
            a, s = a.requires_grad_(), s.requires_grad_()
        made, grads = a.masked_scatter(m, s), ()
        if made.requires_grad:
            weights = (gradlib.arange(made.numel()) % 7).reshape(made.shape).to(made)
            total = made.sum()
            sums = gradlib.autograd.grad(total, (a, s), gradlib.ones_like(total), retain_graph=True)
            grads = (*gradlib.autograd.grad(made, (a, s), weights), *sums)
        found.append([made.detach(), *grads])
        if made.shape == a.shape:
            own = a.detach().clone()
            assert own.masked_scatter_(m, s.detach()) is own
            np.testing.assert_array_equal(host(own).astype(complex), host(made.detach()).astype(complex))
    for one, other in zip(*found, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_array_equal(host(one).astype(complex), host(other).astype(complex))


def test_one_launch_serves_what_it_says_and_leaves_the_rest():
    x, s = cupy.ones((3, 4), "f"), cupy.arange(12, dtype="f")
    m = x > 0
    assert marked.spread(x, m[:, :1].copy(), s) is not None
    assert marked.spread(x, m, s, True) is x
    wide = cupy.arange(24).reshape(3, 8) % 3 == 0
    made = marked.spread(cupy.zeros((4, 3), "f").T, wide[:, ::2], s[1::2])  # all with gaps
    np.place(want := np.zeros((3, 4), "f"), wide[:, ::2].get(), s[1::2].get())
    assert made.tolist() == want.tolist()
    for wrong in ((x, m, s[:0]), (x[:0], m[:0], s), (x, m, s.astype("d")), (x, x, s), (x, m[:2], s)):
        assert marked.spread(*wrong) is None
    assert marked.spread(x.T, m.T, s, True) is None
    assert marked.spread(x, m, x, True) is None  # which would be written while it is read
    assert marked.spread(x[0], m, s, True) is None
    large = cupy.ones(marked.LONGEST + 1, "f")
    assert marked.spread(large, large > 0, large) is None
    one = cupy.broadcast_to(cupy.ones((), "f"), (3, 4))
    assert marked.collected(one, m, (5, 3)).sum() == 12
    assert marked.collected(cupy.asfortranarray(s.reshape(3, 4)), m, (12,)).tolist() == list(range(12))
    for wrong in ((x.T, m, (12,)), (x, m.T, (12,)), (x, m, (0,)), (x[:, :1], m, (3,)), (large, large > 0, (3,)), (x, m, large.shape)):
        assert marked.collected(*wrong) is None
    y = gradlib.as_tensor(large.copy()).requires_grad_()
    values = gradlib.as_tensor(cupy.arange(y.numel(), dtype="f")).requires_grad_()
    made = y.masked_scatter(y < 0, values).sum() + (2 * y).masked_scatter(y > 0, values)[-2:].sum()
    gx, gv = gradlib.autograd.grad(made, (y, values))
    assert (made.item(), gx.sum().item(), gv.sum().item()) == (3 * y.numel() - 3, y.numel(), 2)
    assert gv[-2:].tolist() == [1, 1]


@pytest.mark.skipif(HAS_GPU, reason="hostcuda reports what a GPU lets wrap around")
def test_too_few_values_are_reported():
    x = cupy.zeros(4, "f")
    with hostcuda.expected(r"index 3 is outside of an axis of 3, and wraps around"):
        marked.spread(x, x == 0, cupy.ones(3, "f"))
