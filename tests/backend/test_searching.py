"""The kernels that look for values among others give what NumPy's functions give, and leave to CuPy what they do not serve."""

from __future__ import annotations

import numpy as np
import pytest

import gradlib
from gradlib.backend.dtype import as_dtype
from gradlib.backend.searching import LONGEST, among, distinct, places
from tests.device import cupy, skip_module_without_cuda

skip_module_without_cuda()
pytestmark = [pytest.mark.cuda, pytest.mark.host]
DTYPES = ["float16", "bfloat16", "float32", "float64", "int8", "int64", "uint64"]


def drawn(dtype: str, *shape: int, seed: int = 5) -> gradlib.Tensor:
    """Small numbers, many of them equal, with zeros of both signs, infinity, NaN and subnormal numbers."""
    draw = np.random.default_rng(seed)
    made = np.abs(np.round(draw.normal(size=shape) * 3))
    if "float" in dtype:
        made = made * np.where(draw.random(shape) < 0.5, -1, 1)
        for special in (np.nan, -np.nan, np.inf, -np.inf, 1e-40, -1e-40):
            made = np.where(draw.random(shape) < 0.03, special, made)
    return gradlib.as_tensor(np.asarray(made).astype(as_dtype(dtype)))


def assert_same(made, expected):
    assert (made.shape, made.dtype) == (expected.shape, expected.dtype)
    assert made.cpu().numpy().tobytes() == expected.numpy().tobytes()


@pytest.fixture
def no_sorts(monkeypatch):
    """CuPy's functions for the same raise."""
    for name in ("searchsorted", "isin", "lexsort", "argsort", "take_along_axis", "flatnonzero"):
        monkeypatch.setattr(cupy, name, None)


@pytest.mark.parametrize("dtype", DTYPES)
def test_places_in_order_are_those_of_the_cpu(dtype, no_sorts):
    rows, values = drawn(dtype, 3, 2, 20).sort().values, drawn(dtype, 3, 2, 7, seed=6)
    for right in (False, True):
        assert_same(gradlib.searchsorted(rows.to("cuda"), values.to("cuda"), right=right), gradlib.searchsorted(rows, values, right=right))
        for line in (rows[0, 0].clone(), rows[0, 0, :0]):
            assert_same(gradlib.bucketize(values.to("cuda"), line.to("cuda"), right=right), gradlib.bucketize(values, line, right=right))


@pytest.mark.parametrize("dtype", DTYPES)
def test_what_is_among_others_is_that_of_the_cpu(dtype, no_sorts):
    elements, others = drawn(dtype, 5, 11), drawn(dtype, 2, 4, seed=6)
    for tested in (others, others[:0]):
        for invert in (False, True):
            expected = gradlib.isin(elements, tested, invert=invert)
            assert_same(gradlib.isin(elements.to("cuda"), tested.to("cuda"), invert=invert), expected)


@pytest.mark.parametrize("dtype", [*DTYPES, "bool"])
@pytest.mark.parametrize("shape", [(1,), (), (5, 11), (LONGEST,)])
def test_the_distinct_elements_are_those_of_the_cpu(dtype, shape, no_sorts):
    host = drawn(dtype, *shape)
    made, expected = (gradlib.unique(x, return_inverse=True, return_counts=True) for x in (host.to("cuda"), host))
    for one, other in zip(made, expected, strict=True):
        assert_same(one, other)
    alone = gradlib.unique(host.to("cuda"))
    assert (alone.shape, alone.dtype) == (expected[0].shape, expected[0].dtype)


def test_what_the_kernels_do_not_serve_is_left_to_cupy():
    x = cupy.arange(8, dtype="f")
    wide = cupy.arange(LONGEST + 1)
    for ordered, values in ((x, x.astype("d")), (x[::2], x), (x, 2.0)):
        assert places(ordered, values, False) is None
    for each in (wide, x > 1, x.astype("F"), x[:0]):
        assert among(each, each, False) is None
    assert distinct(wide) is None
    assert distinct(x[:0]) is None
    t = gradlib.as_tensor(x)
    assert gradlib.searchsorted(t[::2], gradlib.tensor([3], device="cuda")).tolist() == [2]
    assert gradlib.isin(t, 3).nonzero().tolist() == [[3]]
    assert gradlib.isin(2, t).item() is True
    assert gradlib.unique(gradlib.as_tensor(wide % 7)).tolist() == list(range(7))
    assert gradlib.unique(t[:0]).tolist() == []
    with pytest.raises(RuntimeError):
        gradlib.isin(t > 1, t > 1)
