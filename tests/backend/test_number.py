"""Numbers beside arrays of floats are kept as arrays of no dimension, and what is computed is what NumPy computes with the number."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gradlib
from gradlib.backend import number
from gradlib.backend.number import Numbers, beside, doubles, singles

pytestmark = pytest.mark.host

OPERATIONS = [
    lambda x, n: x + n, lambda x, n: x - n, lambda x, n: n - x, lambda x, n: x * n, lambda x, n: x / n, lambda x, n: n / x,
    lambda x, n: x > n, lambda x, n: x == n,
]  # fmt: skip
VALUES = [0.1, 3, -2.5, 0, 0.0, -0.0, 1e-50, 1e300, 16777217, 2**70, math.inf, -math.inf, math.nan]


@pytest.mark.nonfinite
@pytest.mark.parametrize("value", VALUES)
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_operations_give_what_numpy_gives(dtype, value):
    array = np.array([0.1, -3.0, 16777216.0, 0.0], dtype)
    for operation in OPERATIONS:
        with np.errstate(all="ignore"):
            expected = operation(array, value)
            for _ in range(2):  # the second time the number is kept
                found = operation(gradlib.tensor(array), value).numpy()
                np.testing.assert_array_equal(found, expected, strict=True)
                np.testing.assert_array_equal(np.signbit(found), np.signbit(expected))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_gradients_too(dtype):
    x = gradlib.tensor([0.5, -2.0], dtype=getattr(gradlib, dtype), requires_grad=True)
    for value in (0.1, 3, 0.0, -2.5):
        x.grad = None
        (x * value).sum().backward()
        np.testing.assert_array_equal(x.grad.numpy(), np.full(2, value, dtype), strict=True)
    (g,) = gradlib.autograd.grad((0.3 / x).sum(), x, create_graph=True)
    (gg,) = gradlib.autograd.grad(g.sum(), x)
    np.testing.assert_allclose(gg.numpy(), 0.6 / x.detach().numpy() ** 3, rtol=1e-6)


def test_numbers_are_kept_for_each_dtype(monkeypatch):
    monkeypatch.setattr(number, "_KEPT", 3)
    singles.clear()
    doubles.clear()
    x = gradlib.tensor([1.0], dtype=gradlib.float32)
    for value in (0.25, 0.5, 2.0):
        _ = x * value
    kept = singles[0.5]
    assert kept.dtype == np.float32
    assert kept.shape == ()
    assert not kept.flags.writeable  # whoever came by it could change every later result
    assert not doubles
    _ = x * 3.0
    assert list(singles) == [3.0]  # and no more than so many


def test_what_a_dtype_does_not_hold_stays_a_number():
    for value in (1e39, -1e39, math.inf, math.nan, 10**400):
        assert Numbers(np.dtype(np.float32))[value] is value
    array = np.ones(2, np.float32)
    for value in (0.0, True, None, "a", np.float32(2), 1j):
        assert beside(value, array) is value
    assert beside(2.0, np.ones(2, np.int64)) == 2.0
    assert type(beside(2.0, np.ones(2, np.int64))) is float
    with pytest.raises(OverflowError):
        gradlib.tensor([1.0]) * 10**400
    for _ in range(2):
        with pytest.raises(FloatingPointError, match="overflow"):
            gradlib.tensor([1.0], dtype=gradlib.float32) * 1e39
