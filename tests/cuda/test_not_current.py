"""Every operation on cuda:1 while cuda:0 is the current device: values, gradients and rows of vmap as on the host."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.autograd import grad
from tests.device import cupy, two_devices
from tests.func import test_table as table
from tests.ops.case import Case, as_tensors, results
from tests.ops.test_table import CASES
from tests.values import host

AWAY = "cuda:1"
pytestmark = [pytest.mark.cuda, pytest.mark.slow, pytest.mark.nonfinite, two_devices]


@pytest.fixture(autouse=True)
def first_device_stays_current() -> Iterator[None]:
    assert cupy.cuda.Device().id == 0
    yield
    assert cupy.cuda.Device().id == 0


def is_tensor(value: Any) -> bool:
    return isinstance(value, gradlib.Tensor)


def derivatives(case: Case, device: str) -> list[Any]:
    """A row's results, first derivatives both ways, and recorded ones; tensors that the row makes itself are on the device too."""
    with gradlib.device(device):
        gradlib.manual_seed(0)
        inputs = as_tensors(list(case.inputs(np.random.default_rng(1))), "float64", device, requires_grad=case.differentiable)
        found = results(case.call(*inputs))
        live = [y for y in found if is_tensor(y) and y.requires_grad]
        wanted = [x for x in inputs if is_tensor(x) and x.requires_grad]
        if live and wanted:
            ones = [gradlib.ones_like(y) for y in live]
            found += grad(live, wanted, ones, allow_unused=True, retain_graph=True)
            found += grad(live, wanted, ones, allow_unused=True, create_graph=case.second)
        return found


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_values_and_gradients(case: Case) -> None:
    for got, want in zip(derivatives(case, AWAY), derivatives(case, "cpu"), strict=True):
        assert is_tensor(got) == is_tensor(want)
        if is_tensor(got) and case.op != "dropout":
            assert (str(got.device), got.dtype) == (AWAY, want.dtype)
            np.testing.assert_allclose(host(got), host(want), rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("case", table.LOOPED, ids=[case.id for case in table.LOOPED])
def test_rows_of_vmap(case: Case) -> None:
    with gradlib.device(AWAY):
        draws = table.inputs_of(case)
        dims = table.choices(draws[0])[0]
        if any(dim is not None for dim in dims):
            table.check(case, draws, dims)
