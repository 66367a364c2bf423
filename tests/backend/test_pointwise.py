"""The kernels for small pointwise operations give CuPy's bits, and leave to CuPy what they do not serve."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from gradlib.backend import pointwise
from tests.device import cupy, skip_module_without_cuda

skip_module_without_cuda()
pytestmark = [pytest.mark.cuda, pytest.mark.host]
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.5, -2.25, 1e-30]


def same_bits(found: Any, expected: Any) -> bool:
    """Whether two arrays are equal in shape, dtype and every bit but a NaN's."""
    a, b = found.get(), expected.get()
    return a.dtype == b.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f") and np.array_equal(np.signbit(a), np.signbit(b))


def watched(name: str, seen: list[str]) -> Any:
    """CuPy's function, noting that it was called."""

    def run(*args: Any) -> Any:
        seen.append(name)
        return getattr(cupy, name)(*args)

    return run


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_kernel_gives_the_bits_of_cupys_function(dtype):
    x = cupy.asarray(np.array([*SPECIAL, *np.linspace(-3, 3, 150)], dtype))
    y = cupy.asarray(np.array([*SPECIAL[::-1], *np.linspace(2, -4, 150)], dtype))
    seen: list[str] = []
    with np.errstate(all="ignore"):
        for name in pointwise.ONE:
            assert same_bits(pointwise.of_one(name, watched(name, seen))(x), getattr(cupy, name)(x)), name
        for name in pointwise.TWO:
            function = pointwise.of_two(name, watched(name, seen))
            for given in ((x, y), (x, 0.1), (0.1, x), (x, 3), (3, x)):
                assert same_bits(function(*given), getattr(cupy, name)(*given)), (name, given)
        for given in ((x, y), (x, 0.1), (3, y)):
            assert same_bits(pointwise.where(x > 0, *given), cupy.where(x > 0, *given))
    assert not seen


def test_what_a_kernel_does_not_serve_goes_to_cupy():
    x, seen = cupy.arange(6.0).reshape(2, 3), []
    add, negative = pointwise.of_two("add", watched("add", seen)), pointwise.of_one("negative", watched("negative", seen))
    others = [x[0], x.T.copy().T, x.astype("float32"), True, float("inf"), np.float64(2), cupy.ones(())]
    for other in others:
        assert same_bits(add(x, other), cupy.add(x, other))
    for array in (x.astype("int64"), x.astype("float16"), x[:, ::2], x[:0]):
        assert same_bits(negative(array), cupy.negative(array))
    assert len(seen) == len(others) + 4


def test_a_slot_is_had_by_one_launch_at_a_time():
    """A launch that begins before another is over, as a finalizer's may, packs its arguments elsewhere."""
    form = pointwise.form("negative", "d", "PPI")
    x = cupy.arange(3.0)
    pointwise.of_one("negative", cupy.negative)(x)
    held = form.free.pop()
    before = held[0].raw
    pointwise.of_one("negative", cupy.negative)(x + 1)
    assert held[0].raw == before
    form.free.append(held)
