"""The kernel for short lines sorts as NumPy's stable sort does, and leaves to CuPy what it does not serve."""

from __future__ import annotations

import numpy as np
import pytest

import gradlib
from gradlib.backend.dtype import as_dtype
from gradlib.backend.sorting import LONGEST, sorted_lines
from tests.device import cupy, skip_module_without_cuda

skip_module_without_cuda()
pytestmark = [pytest.mark.cuda, pytest.mark.host]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int8", "int16", "int64", "uint8", "uint64", "bool"])
def test_lines_are_sorted_as_by_numpy(dtype):
    host = np.round(np.random.default_rng(5).normal(size=(3, 20, 4)) * 4)
    if "float" in dtype:
        host[0, :8, 0] = np.nan, -np.inf, -0.0, 0.0, np.inf, -np.nan, -0.0, 1.0
        if dtype != "float16":
            host[1, :4, 1] = 1e-40, -1e-40, 2e-40, 0.0  # subnormal in float32
    host = (np.abs(host) if dtype[0] == "u" else host).astype(as_dtype(dtype))
    array, wide = cupy.asarray(host), host.astype("float32") if dtype == "bfloat16" else host
    for axis in (0, 1, 2, -1):
        for descending in (False, True):
            values, places = sorted_lines(array, axis, descending)
            expected = np.argsort(wide, axis=axis, kind="stable")
            if descending:  # equal elements keep their order
                expected = wide.shape[axis] - 1 - np.flip(np.argsort(np.flip(wide, axis), axis=axis, kind="stable"), axis)
            assert np.array_equal(places.get(), expected)
            assert values.get().tobytes() == np.take_along_axis(host, expected, axis).tobytes()
            assert (values.dtype, places.dtype) == (host.dtype, np.int64)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int32", "uint8"])
def test_parts_of_sorted_lines_are_those_of_the_cpu(dtype, monkeypatch):
    """And come from one launch: CuPy's sorts raise."""
    draw = np.random.default_rng(6)
    host = np.abs(np.round(draw.normal(size=(5, 12, 4)) * 3))
    if "float" in dtype:
        host *= np.where(draw.random(host.shape) < 0.5, -1, 1)
        host[draw.random(host.shape) < 0.05] = np.nan
    host = gradlib.as_tensor(host.astype(as_dtype(dtype)))
    device = host.to("cuda")
    for name in ("argsort", "sort", "lexsort"):
        monkeypatch.setattr(cupy, name, None)
    best = [lambda x, k=k, d=d, most=most: x.topk(k, d, most) for k in (1, 4) for d in (0, 1, -1) for most in (True, False)]
    parts = [lambda x, k=k, d=d, kept=kept: x.kthvalue(k, d, kept) for k in (1, 3) for d in (0, 1, -1) for kept in (True, False)]
    parts += [lambda x, d=d, kept=kept: x.median(d, kept) for d in (0, 1, -1) for kept in (True, False)]
    parts += [lambda x: x[:, ::2].median(1), lambda x: x.mT.kthvalue(2, 1), lambda x: (x.median(),)]
    for part in [*best, *parts]:
        expected, made = part(host), part(device)
        assert [(each.shape, each.dtype) for each in made] == [(each.shape, each.dtype) for each in expected]
        places = made[1:] if part in parts else ()  # which of equal elements are the best, is open
        for one, other in zip(expected, [made[0], *places], strict=False):
            assert np.array_equal(one.to(gradlib.float64).numpy(), other.cpu().to(gradlib.float64).numpy(), equal_nan=True)
    values, places = device.topk(12, 1)
    assert device.gather(1, places).cpu().numpy().tobytes() == values.cpu().numpy().tobytes()


def test_parts_of_sorted_lines_have_derivatives_of_both_orders_on_a_device():
    x = gradlib.tensor(np.random.default_rng(7).permutation(24).reshape(4, 6) / 3.0, device="cuda", requires_grad=True)
    for part in (lambda x: x.topk(2, 0)[0], lambda x: x.kthvalue(2)[0], lambda x: x.median(1, True)[0], lambda x: (x * x).median()):
        assert gradlib.autograd.gradcheck(part, x)
        assert gradlib.autograd.gradgradcheck(part, x)


def test_places_outside_of_a_line_are_refused_as_on_the_cpu():
    x = gradlib.ones(2, 3, device="cuda")
    for k in (-1, 4):
        with pytest.raises(RuntimeError, match=f"k = {k}"):
            x.topk(k)
    for k in (0, 4):
        with pytest.raises(RuntimeError, match=f"k = {k}"):
            x.kthvalue(k)
    with pytest.raises(NotImplementedError):
        (x > 0).topk(1)
    with pytest.raises(IndexError):
        x[:, :0].median(1)
    assert [tuple(each.shape) for each in x.topk(0)] == [(2, 0), (2, 0)]
    assert gradlib.ones(2, 0, device="cuda").median().isnan()


def test_what_the_kernel_does_not_serve_is_left_to_cupy():
    x = cupy.arange(24, dtype=cupy.float32).reshape(2, 3, 4)
    refused = [(x[:0], 0), (x.astype("complex64"), 0), (cupy.ones(LONGEST + 1, "f"), 0), (x, 3), (cupy.ones((), "f"), 0)]
    for array, axis in refused:
        assert sorted_lines(array, axis, False) is None
    turned = gradlib.as_tensor(x.T)
    assert turned.sort(0, descending=True).values.tolist() == x.T[::-1].tolist()
    long = gradlib.as_tensor(cupy.arange(LONGEST + 9, dtype="f"))
    assert long.topk(2).indices.tolist() == [LONGEST + 8, LONGEST + 7]
    assert long.median() == (LONGEST + 8) // 2
    with pytest.raises(IndexError):
        gradlib.as_tensor(x).sort(3)
