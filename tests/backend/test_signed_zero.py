"""-0.0 stays -0.0 however it comes into a tensor: CuPy's own filling clears the memory where a value equals zero."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

import gradlib
from gradlib import Tensor


def _filled(x: Tensor) -> Tensor:
    return x.fill_(-0.0)


def _assigned(x: Tensor) -> Tensor:
    x[...] = -0.0
    return x


def _assigned_by_mask(x: Tensor) -> Tensor:
    x[gradlib.ones(3, dtype=gradlib.bool)] = -0.0
    return x


@pytest.mark.parametrize(
    "make",
    [
        lambda x: gradlib.tensor(-0.0),
        lambda x: gradlib.tensor([-0.0]),
        lambda x: gradlib.full((3,), -0.0),
        lambda x: gradlib.full_like(x, -0.0),
        lambda x: gradlib.fill(x, -0.0),
        _filled,
        _assigned,
        _assigned_by_mask,
    ],
)
def test_the_sign_is_kept(make: Callable[[Tensor], Tensor]) -> None:
    made = make(gradlib.ones(3))
    assert np.signbit(made.numpy(force=True)).all()
    assert (made == 0).all()


def test_of_complex_numbers_too() -> None:
    made = gradlib.tensor(complex(0.0, -0.0)).numpy(force=True)
    assert np.signbit(made.imag)
    assert not np.signbit(made.real)
