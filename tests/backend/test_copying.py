"""The kernels for small copies give what CuPy's functions give."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.backend import copying
from gradlib.backend.copying import PARTS, cast, concatenated, fill, filled, placed, rolled, stacked
from gradlib.backend.dtype import as_dtype
from tests.device import cupy, skip_module_without_cuda

skip_module_without_cuda()
pytestmark = [pytest.mark.cuda, pytest.mark.host]


@pytest.mark.parametrize("dtype", ["bool", "int16", "float32", "float64", "complex128"])
def test_joined_arrays_are_those_of_cupy(dtype):
    one, other = (cupy.asarray(np.arange(start, start + 24).reshape(2, 3, 4).astype(dtype)) for start in (0, 50))
    for axis in range(3):
        wide, none = cupy.concatenate([one, other], axis=axis), cupy.zeros([0 if d == axis else n for d, n in enumerate(one.shape)], dtype)
        turned = other.swapaxes(1, 2).copy().swapaxes(1, 2)
        few = [one], [one, other], [one, none, wide], [one, turned], [one, other] * (PARTS // 2)
        for arrays in (*few, [one] * (PARTS + 1), [one, turned] * PARTS):
            assert (concatenated(cupy, arrays, axis) == cupy.concatenate(arrays, axis=axis)).all()
    for axis in range(4):
        for arrays in ([one, other], [one, other] * PARTS):
            assert (stacked(cupy, arrays, axis) == cupy.stack(arrays, axis=axis)).all()


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64", "float16", "bfloat16", "float32", "float64"])
def test_one_number_fills_an_array(dtype):
    array = cupy.zeros((3, 50), as_dtype(dtype))
    for number in (1, True, 0, *([2.5, -0.0, float("inf")] if array.dtype.kind in "fV" else [])):
        for target in (array, array[:, ::2]):
            fill(target, number)
            expected = np.full(target.shape, number).astype(array.dtype)
            assert target.get().tobytes() == expected.tobytes(), number


@pytest.mark.parametrize("source", ["bool", "uint8", "int64", "float16", "bfloat16", "float32", "float64"])
def test_cast_elements_are_those_of_cupys_astype(source):
    values = np.array([0, 1, 2, 100, 0.5, 1.7, 3.999, 2.0**-20, 1.0009765])
    array = cupy.asarray(values if source == "bool" else np.concatenate([values, [127]])).astype(as_dtype(source))
    floats = ("float16", "bfloat16", "float32", "float64", "complex64", "complex128")
    for target in map(as_dtype, ("bool", "int8", "uint8", "int16", "int32", "int64", *floats)):
        made, expected = cast(array, target), array.astype(target)
        assert made.dtype == expected.dtype
        assert made.view("u1").get().tolist() == expected.view("u1").get().tolist(), target
    for other in (array[::2], array[:0], np.float32(2), array.get() if source != "bfloat16" else np.zeros(3)):
        assert cast(other, np.dtype("float32")) is None
    assert cast(cupy.zeros(2, "complex64"), np.dtype("float32")) is None


@pytest.mark.parametrize("dtype", ["bool", "float16", "float32", "complex64", "complex128"])
def test_elements_roll_as_cupys_do(dtype):
    x = cupy.arange(120).astype(dtype).reshape(2, 3, 4, 5)
    for shifts, dims in (
        ((1,), (0,)), ((-7,), (3,)), ((9,), (1,)), ((0,), (2,)), ((1, 2), (0, 3)), ((1, 1, 2), (1, 1, 2)), ((1, 2, 3), (0, 1, 2)), ((), ()),
    ):  # fmt: skip
        made = rolled(x, shifts, dims)
        assert (made is None) == (dtype == "complex128")
        if made is not None:
            np.testing.assert_array_equal(made.get(), np.roll(x.get(), shifts, dims), f"{shifts}, {dims}")
    assert rolled(x, (1, 1, 1, 1), (0, 1, 2, 3)) is None
    assert rolled(x[:0], (1,), (1,)) is None
    assert rolled(x, (1, 1, 1), (1, 2, 3)) is None


def test_zeros_are_written_by_a_memset_where_there_are_no_gaps(monkeypatch):
    kernel = copying._kernel
    monkeypatch.setattr(copying, "_kernel", lambda *of: pytest.fail(f"launched: {of}") if of[0] == "fill" else kernel(*of))
    copying._fill.cache_clear()
    for dtype in ("bool", "float64", "complex128"):
        array = cupy.ones((3, 4), dtype)
        fill(array[1:], 0)
        assert (array.get() == np.array([[1], [0], [0]])).all()
        fill(array[:, ::2], 0)
        assert (array.get()[0] == [0, 1, 0, 1]).all()


VIEWS = {
    "column": lambda x: x[:, 0], "columns": lambda x: x[:, 1:3], "backwards": lambda x: x[::-1, :, ::2], "turned": lambda x: x.T,
    "slices": lambda x: x[1:, ::3, 1:], "one": lambda x: x[1, 2, 3, ...], "whole": lambda x: x, "middle": lambda x: x[:, 2],
}  # fmt: skip


@pytest.mark.parametrize("dtype", ["bool", "float16", "float32", "complex64", "int64"])
@pytest.mark.parametrize("name", VIEWS)
def test_values_are_copied_into_views(name, dtype):
    host = np.zeros((3, 6, 5), dtype)
    target, shape = cupy.asarray(host), VIEWS[name](host).shape
    given = (np.arange(2, 2 + np.prod(shape)) % 7).reshape(shape)[..., ::-1].astype(dtype) if shape else np.ones(shape, dtype)
    for values in (given, given[..., :1] if shape else given, given[:1] if len(shape) > 1 else given, given[0] if shape else given):
        VIEWS[name](host)[...] = values
        assert placed(VIEWS[name](target), cupy.asarray(values))
        np.testing.assert_array_equal(target.get(), host)


@pytest.mark.nonfinite
def test_complex_numbers_are_written_as_they_are() -> None:
    x = cupy.zeros((3, 4), "complex64")
    for number in (2, True, 0.1, 1 - 0.1j, np.complex64(3j), complex(math.inf, math.nan), -0.0):
        for part in (x, x[:, ::2]):
            part[...] = 7
            assert filled(part, number)
            np.testing.assert_array_equal(part.get(), np.full(part.shape, number, "complex64"))
    assert not any(filled(x, number) for number in (1e300, complex(0, 1e39), 10**400, "1"))
    assert not filled(x.real.copy(), 1j)


def test_copies_that_no_kernel_serves_are_left_alone():
    x, wide = cupy.ones((4, 6)), cupy.ones((2, 2, 2, 2, 2))[:, ::2, :, ::2, ::2]
    given = cupy.arange(6.0)
    for target, values in (
        (x[:, 1:], x[:, :-1]), (x, x[0].astype("f")), (x[:, :5], given), (x[:0], given), (x, np.ones(6)), (x[0], x.copy()),
        (wide.astype("D"), wide.astype("D")), (cupy.broadcast_to(x[0], (4, 6)), given),
        (cupy.ones((3,) * 5)[:2, ::2, :2, ::2, :2], cupy.ones((2,) * 5)),
    ):  # fmt: skip
        before = target.tolist()
        assert not placed(target, values)
        assert target.tolist() == before


MOVES: dict[str, Callable[[Any], Any]] = {
    "flip": lambda x: gradlib.flip(x, (0, 2)), "rot90": lambda x: gradlib.rot90(x, 1, (1, 2)),
    "repeat": lambda x: x.repeat(2, 1, 1, 1), "repeat_interleave": lambda x: x.repeat_interleave(2, 1),
    "contiguous": lambda x: x.transpose(0, 2).contiguous(), "clone": lambda x: x[:, ::2].clone(),
    "diag_embed": lambda x: x[0].diag_embed(), "pad": lambda x: gradlib.nn.functional.pad(x, (1, 2)),
}  # fmt: skip


@pytest.mark.parametrize("name", MOVES)
def test_what_only_moves_elements_is_one_launch(name, monkeypatch):
    """Of the kernel between views, as is its gradient where that moves alike; the result is the host's."""
    seen, place = [], copying._place
    monkeypatch.setattr(copying, "_place", lambda *of: seen.append(of) or place(*of))
    case = MOVES[name]
    x = gradlib.arange(30, dtype=gradlib.float32).reshape(2, 3, 5).requires_grad_()
    there = x.detach().cuda().requires_grad_()
    right, made = case(x), case(there)
    assert len(seen) == 1
    assert made.stride() == right.stride()
    np.testing.assert_array_equal(made.detach().cpu().numpy(), right.detach().numpy())
    g = gradlib.arange(made.numel(), dtype=gradlib.float32).reshape(made.shape)
    seen.clear()
    for mine, theirs in zip(gradlib.autograd.grad(made, there, g.cuda()), gradlib.autograd.grad(right, x, g), strict=True):
        np.testing.assert_array_equal(mine.cpu().numpy(), theirs.numpy())
    if name in ("flip", "rot90"):
        assert len(seen) == 1
