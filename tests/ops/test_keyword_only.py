"""Arguments that torch takes by keyword only, and calls with half of their arguments."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import gradlib

CALLS: list[Callable[[gradlib.Tensor], Any]] = [
    lambda x: x.sum(0, True, gradlib.float64),
    lambda x: x.mean(0, True, gradlib.float64),
    lambda x: x.nansum(0, True, gradlib.float64),
    lambda x: x.nanmean(0, True, gradlib.float64),
    lambda x: x.prod(0, True, gradlib.float64),
    lambda x: x.cumsum(0, gradlib.float64),
    lambda x: x.cumprod(0, gradlib.float64),
    lambda x: x.cumsum_(0, gradlib.float64),
    lambda x: gradlib.linalg.vector_norm(x, 2, 0, True, gradlib.float64),
    lambda x: x.norm(2, 0, True, gradlib.float64),
    lambda x: x.round(1),
    lambda x: x.round_(1),
    lambda x: x.sort(0, True, True),
    lambda x: x.argsort(0, True, True),
    lambda x: gradlib.addcmul(x, 0.5, x, x),  # torch's old order: value before the tensors
    lambda x: x.addcdiv_(x, x, 0.5),
    lambda x: gradlib.where(x > 0, x),
    lambda x: gradlib.where(x > 0, other=x),
    lambda x: gradlib.max(x, 0, other=x),
    lambda x: x.min(0, other=x),
]


@pytest.mark.parametrize("call", CALLS)
def test_what_must_be_named_or_is_missing_is_refused(call: Callable[[gradlib.Tensor], Any]) -> None:
    with pytest.raises(TypeError):
        call(gradlib.ones(2, 3))


def test_what_must_be_named_arrives_under_vmap() -> None:
    x = gradlib.tensor([[1.0, 2.0], [3.0, 4.0]])
    total = gradlib.vmap(lambda row: row.sum(0, dtype=gradlib.float64))(x)
    assert total.dtype == gradlib.float64
    assert total.tolist() == [3, 7]
    assert gradlib.vmap(lambda row: gradlib.addcmul(row, row, row, value=2))(x).tolist() == [[3, 10], [21, 36]]


def test_a_product_of_one_number_has_no_second_dimension() -> None:
    with pytest.raises(IndexError, match="Dimension out of range"):
        gradlib.tensor(2.0).prod(1)


def test_no_differences_leave_the_input_without_ends() -> None:
    x = gradlib.ones(2, 3)
    assert gradlib.diff(x, 0, prepend=x).shape == (2, 3)
