"""The kernels of differences and cross products give the bits of CuPy's functions, and leave to these what they do not serve."""

from __future__ import annotations

import numpy as np
import pytest

import gradlib
from gradlib.backend.dtype import as_dtype
from gradlib.backend.neighbours import cross, differences
from gradlib.ops.product import cross_op
from gradlib.ops.scan import diff_backward, diff_op
from tests.device import cupy, skip_module_without_cuda

skip_module_without_cuda()
pytestmark = [pytest.mark.cuda, pytest.mark.host]
SHAPES = [((5,), 0), ((4, 9), 1), ((4, 9), 0), ((4, 9), -2), ((2, 7, 3), 1), ((2, 7, 3), -1), ((2, 1, 3), 1)]


def drawn(of, *shapes):
    random = np.random.default_rng(7)
    made = [cupy.asarray(random.normal(size=shape) * 3) for shape in shapes]
    return [each > 0 if of == "bool" else each.astype(as_dtype(of)) for each in made]


def declared(op, *given):
    """What the operation's declared steps give."""
    return op.op.value(cupy, *given)


@pytest.mark.parametrize("dtype", ["bool", "int32", "int64", "float16", "bfloat16", "float32", "float64"])
def test_differences_and_their_gradient_are_those_of_the_declared_steps(dtype):
    for shape, dim in SHAPES:
        (x,) = drawn(dtype, shape)
        for op, slope in ((diff_op, False), (diff_backward, True)):
            made = differences(x, dim, slope)
            if dtype == "bool" and slope:
                assert made is None
                continue
            right = declared(op, x, dim % len(shape))
            assert (made is None) == (not right.size)
            if made is not None:
                assert (made.dtype, made.shape) == (right.dtype, right.shape)
                np.testing.assert_array_equal(made.view("u1").get(), right.view("u1").get(), f"{shape}, {dim}, {slope}")


@pytest.mark.parametrize("dtype", ["int64", "float16", "float32", "float64"])
def test_cross_products_are_those_of_the_declared_steps(dtype):
    for shape, dim in (((3,), 0), ((5, 3), 1), ((5, 3), -1), ((3, 4), 0), ((2, 3, 4), -2)):
        x, y = drawn(dtype, shape, shape)
        np.testing.assert_array_equal(cross(x, y, dim).get(), declared(cross_op, x, y, dim).get(), f"{shape}, {dim}")


def test_what_the_kernels_do_not_serve_is_left_to_the_declared_steps():
    x, y = drawn("float32", (4, 3), (4, 3))
    for other in (y[:1], y.astype("float64"), cupy.asfortranarray(y), 2.0):
        assert cross(x, other, 1) is None
    assert cross(*drawn("bool", (4, 3), (4, 3)), 1) is None
    for array in (x.T, x[:, ::2], x[:0], x.astype("complex64")):
        assert differences(array, 1) is None
    spaced = gradlib.as_tensor(x)[:, ::2]
    assert spaced.diff().tolist() == (x[:, 2:] - x[:, :1]).tolist()


def test_rows_under_vmap_are_those_of_the_whole():
    x = gradlib.as_tensor(drawn("float64", (4, 9))[0]).requires_grad_()
    rows = gradlib.func.vmap(gradlib.diff)(x)
    assert gradlib.equal(rows, x.diff())
    g = gradlib.ones_like(rows)
    assert gradlib.equal(*gradlib.autograd.grad(rows, x, g), *gradlib.autograd.grad(x.diff(), x, g))
    a, b = x[:, :3].clone(), x[:, 3:6].clone()
    assert gradlib.equal(gradlib.func.vmap(gradlib.linalg.cross)(a, b), gradlib.linalg.cross(a, b))
