"""The kernels for what values make of the elements that they meet, and for its gradients, give what the host gives."""

from __future__ import annotations

import numpy as np
import pytest

import gradlib
from gradlib.backend import folding
from gradlib.backend.dtype import as_dtype
from gradlib.testing import hostcuda
from tests.device import HAS_GPU, cupy, skip_module_without_cuda
from tests.values import host

skip_module_without_cuda()
pytestmark = [pytest.mark.cuda, pytest.mark.host]

DTYPES = ["float16", "bfloat16", "float32", "float64", "int8", "uint8", "int16", "int32", "int64", "bool", "complex64", "complex128"]
REDUCTIONS = ("sum", "mean", "prod", "amax", "amin")
SHAPES = [
    ((5,), (9,), 0), ((3, 4), (6, 4), 0), ((3, 4), (2, 7), 1), ((2, 3, 4), (2, 5, 4), 1), ((3, 4, 2), (1, 3, 1), 1), ((4, 2), (3, 1), 0),
]  # fmt: skip


def exists(dtype, reduce):
    """Bools have no mean, complex numbers no extremes."""
    return not (dtype == "bool" and reduce == "mean") and not (dtype.startswith("complex") and reduce in ("amax", "amin"))


def operands(shape, places, axis, dtype):
    """Small numbers with zeros and equals among them, values with gaps, and places."""
    rng = np.random.default_rng(len(shape) + places[axis])
    x, wide = (rng.integers(-2, 3, each) for each in (shape, [2 * n for n in places]))
    return x.astype(as_dtype(dtype)), wide.astype(as_dtype(dtype))[tuple(slice(0, n) for n in places)], rng.integers(0, shape[axis], places)


@pytest.mark.parametrize("own", [True, False])
@pytest.mark.parametrize(("dtype", "reduce"), [(dtype, reduce) for dtype in DTYPES for reduce in REDUCTIONS if exists(dtype, reduce)])
@pytest.mark.parametrize(("shape", "places", "axis"), SHAPES)
def test_folds_and_their_gradients_are_those_of_the_host(shape, places, axis, dtype, reduce, own):
    x, src, index = operands(shape, places, axis, dtype)
    there = cupy.asarray(src.base)[tuple(slice(0, n) for n in places)]
    found = []
    for arrays in ((x, src, index), (cupy.asarray(x), there, cupy.asarray(index))):
        a, b, i = map(gradlib.as_tensor, arrays)
        if a.is_floating_point() or a.is_complex():
            a, b = a.requires_grad_(), b.requires_grad_()
        made = a.scatter_reduce(axis, i, b, reduce, include_self=own)
        grads = []
        if made.requires_grad:
            weights = (gradlib.arange(made.numel()) % 5 - 1).reshape(made.shape).to(made)
            total = made.sum()
            grads = [*gradlib.autograd.grad(made, (a, b), weights, retain_graph=True)]
            grads += gradlib.autograd.grad(total, (a, b), gradlib.ones_like(total))
        found.append([host(each) for each in (made.detach(), *grads)])
    tolerance = {"float16": 4e-3, "bfloat16": 3e-2}.get(dtype, 1e-6)
    for one, other in zip(*found, strict=True):
        assert one.dtype == other.dtype
        np.testing.assert_allclose(other.astype(complex), one.astype(complex), tolerance, tolerance)


def test_one_launch_serves_what_it_says_and_leaves_the_rest():
    x, src, i = cupy.ones((3, 4), "f"), cupy.ones((5, 4), "f"), cupy.zeros((5, 4), int)
    g = cupy.broadcast_to(cupy.ones((), "f"), (3, 4))
    for how in REDUCTIONS:
        for places in (i, i.astype("int32"), i[:, :2].copy(), i[:, :2], cupy.asfortranarray(i), cupy.broadcast_to(i[:, :1], (5, 4))):
            assert folding.folded(x, src[:, : places.shape[1]], places, 0, how, True) is not None
            for of in ("input", "src"):
                served = folding.slope(of, g, x, src[:, : places.shape[1]], x, places, 0, how, True)
                assert (served is None) == (how == "sum")
        for wrong in (
            (x.T, src, i, 0), (x, src[:2], i, 0), (x, src.astype("d"), i, 0), (x, src, i.astype("uint8"), 0), (x, src, i[:0], 0),
            (x, src[:, ::-1].T, i.T, 0), (x, 2.0, i, 0), (x.astype("uint16"), src.astype("uint16"), i, 0), (x[:0], src, i, 0),
            (x, *(cupy.ones((folding.LONGEST + 1, 4), each) for each in ("f", int)), 0),
        ):  # fmt: skip
            assert folding.folded(*wrong, how, True) is None
        assert folding.slope("input", g, x, src, x, i, 0, how, False).tolist() == [[0] * 4, [1] * 4, [1] * 4]
        assert folding.slope("src", g.astype("d"), x, src, x, i, 0, "prod", True) is None
        turned = cupy.ones((4, 3), "f").T
        assert folding.slope("src", turned, turned, src, turned, i, 0, "prod", True).tolist() == [[1.0] * 4] * 5
    p = cupy.zeros(4, int)
    assert folding.folded(p, cupy.ones(4, int), p, 0, "sum", True, True) is None  # which would be written while it is read


WHOLE = slice(None)
KEYS = {
    "rows": (np.array([2, -1, 2]),), "columns": (WHOLE, np.array([3, -4, 3])), "rows of rows": (np.array([[2, 0], [2, 2]], np.int32),),
    "elements": (np.array([2, 2, 0]), np.array([0, 0, -3])), "grid": (np.array([[2], [2]]), np.array([[1, 3, -1]])),
}  # fmt: skip


@pytest.mark.parametrize("name", KEYS)
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int8", "uint8", "int16", "bool", "complex64", "complex128"])
def test_values_are_added_where_they_meet_in_dtypes_without_an_atomic_instruction(name, dtype):
    key, dtype = KEYS[name], as_dtype(dtype)
    target = (np.arange(60).reshape(3, 4, 5) % 3).astype(dtype)
    there = [None if part is WHOLE else cupy.asarray(part) for part in key]
    values = (np.arange(target[key].size).reshape(target[key].shape) % 2).astype(dtype)
    for given in (values, values[:1], values[..., :1]):
        made, want = cupy.asarray(target), target.astype("D")
        np.add.at(want, key, given.astype("D"))
        done = folding.adder(dtype.char)(made, there, cupy.asarray(given))
        np.testing.assert_array_equal(made.get(), (want if dtype.kind == "c" else want.real).astype(dtype) if done else target)
        assert done or given is not values
    assert not folding.adder(dtype.char)(made.T, there, cupy.asarray(values))
    assert not folding.adder(dtype.char)(made, [cupy.asarray(target[..., 0] > 0)], cupy.asarray(values))


@pytest.mark.nonfinite
@pytest.mark.parametrize("reduce", ["amax", "amin"])
def test_an_extreme_beside_nan_is_nan(reduce):
    x = gradlib.as_tensor(cupy.asarray([1.0, np.nan, 2.0]))
    src = gradlib.as_tensor(cupy.asarray([np.nan, 3.0, 4.0, 5.0]))
    made = x.scatter_reduce(0, gradlib.as_tensor(cupy.asarray([0, 1, 2, 2])), src, reduce)
    assert made.isnan().tolist() == [True, True, False]
    assert x.scatter_reduce(0, gradlib.as_tensor(cupy.asarray([1])), src[2:], reduce, include_self=False)[1] == 4


@pytest.mark.skipif(HAS_GPU, reason="hostcuda reports what a GPU lets wrap around")
def test_a_place_outside_is_reported():
    x, src = cupy.zeros(3, "f"), cupy.ones(2, "f")
    with hostcuda.expected(r"index 3 is outside of an axis of 3, and wraps around"):
        folding.folded(x, src, cupy.asarray([1, 3]), 0, "sum", True)
