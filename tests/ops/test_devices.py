"""On another device than the current one, where CuPy would allocate and launch: new tensors, random numbers, writes.

The operations' table runs there in tests/cuda/test_not_current.py.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib import Tensor
from tests.device import cupy, two_devices
from tests.ops.test_random import DRAWS
from tests.values import host

AWAY = "cuda:1"
pytestmark = [
    pytest.mark.host,  # the device is given
    pytest.mark.cuda,
    two_devices,
]


@pytest.mark.parametrize("name", DRAWS)
def test_random_numbers(name: str) -> None:
    with gradlib.device(AWAY):
        assert str(DRAWS[name]().device) == AWAY


def test_random_numbers_of_rows_and_of_another_devices_generator() -> None:
    def shuffled(row: Tensor) -> Tensor:
        return row + gradlib.randperm(3, device=AWAY)

    rows = gradlib.func.vmap(shuffled, randomness="different")(gradlib.zeros(4, 3, device=AWAY))
    assert rows.sort()[0].tolist() == [[0, 1, 2]] * 4
    with pytest.raises(RuntimeError, match="Expected a 'cuda:1' device for generator but found 'cuda:0'"):
        gradlib.rand(3, device=AWAY, generator=gradlib.Generator("cuda:0"))


def test_a_tensor_that_is_there_is_not_copied() -> None:
    x = gradlib.ones(2, device=AWAY)
    assert x.to(AWAY) is x.cuda(AWAY) is x


MAKERS: dict[str, Callable[..., Any]] = {
    "zeros": lambda **k: gradlib.zeros(2, 3, **k),
    "full": lambda **k: gradlib.full((2, 3), 4, **k),
    "arange": lambda **k: gradlib.arange(1, 6, 2, **k),
    "linspace": lambda **k: gradlib.linspace(0, 1, 5, **k),
    "logspace": lambda **k: gradlib.logspace(0, 1, 5, **k),
    "eye": lambda **k: gradlib.eye(3, 4, **k),
    "tensor": lambda **k: gradlib.tensor([[1.0, 2.0], [3.0, 4.0]], **k),
    "tensor-of-tensor": lambda **k: gradlib.tensor(gradlib.arange(4.0), dtype=gradlib.float64, **k),
    "as_tensor": lambda **k: gradlib.as_tensor(np.arange(4), dtype=gradlib.float16, **k),
    "asarray": lambda **k: gradlib.asarray([1, 2], **k),
    "full_like": lambda **k: gradlib.full_like(gradlib.zeros(2), 3, **k),
    "randint": lambda **k: gradlib.randint(5, (3,), dtype=gradlib.int32, **k),
    "randperm": lambda **k: gradlib.randperm(7, dtype=gradlib.int32, **k),
    "rand": lambda **k: gradlib.rand(3, dtype=gradlib.float16, **k),
    "randn": lambda **k: gradlib.randn(3, dtype=gradlib.complex64, **k),
    "tril_indices": lambda **k: gradlib.tril_indices(3, 3, **k),
}


@pytest.mark.parametrize("name", MAKERS)
def test_new_tensors(name: str) -> None:
    gradlib.manual_seed(3)
    there = MAKERS[name](device=AWAY)
    assert str(there.device) == AWAY
    gradlib.manual_seed(3)
    if not name.startswith("rand"):
        np.testing.assert_array_equal(host(there), host(MAKERS[name](device="cpu")))


def test_arrays_that_lie_elsewhere() -> None:
    with cupy.cuda.Device(1):
        far = cupy.array([[2.0, 1.0], [1.0, 3.0], [0.0, 1.0]])
    made = [gradlib.tensor(far), gradlib.as_tensor(far), gradlib.as_tensor(far, dtype=gradlib.float32)]
    made.append(gradlib.linalg.pinv(made[0], atol=gradlib.tensor(0.1, dtype=gradlib.float64, device=AWAY)))
    assert {str(x.device) for x in made} == {AWAY}
    assert {x.device.id for x in gradlib.linalg.lstsq(far, far)} == {1}
    assert {x.device.id for x in gradlib.linalg.lstsq(far, far, driver="gelsd")} == {1}
    assert gradlib.repeat_interleave(made[0], gradlib.tensor([0, 2, 1]), 0).tolist() == [[1, 3], [1, 3], [0, 1]]


def test_indices_that_lie_elsewhere() -> None:
    x = gradlib.arange(6.0, device=AWAY).view(3, 2)
    with cupy.cuda.Device(1):
        places, mask = cupy.array([2, 0]), cupy.array([True, False, True])
    for key in (places, mask):
        assert x[key].sum().item() == 10
        y = x * 1
        y[key] = 1.0
        assert y.tolist() == [[1, 1], [2, 3], [1, 1]]
    with pytest.warns(UserWarning, match="uint8"):
        assert x[gradlib.tensor(mask, dtype=gradlib.uint8)].tolist() == [[0, 1], [4, 5]]
    shortened = gradlib.nn.functional.embedding(gradlib.tensor([2], device=AWAY), x * 1, max_norm=1.0)
    np.testing.assert_allclose(host(shortened), [[4 / 41**0.5, 5 / 41**0.5]], rtol=1e-5)
    with pytest.raises(IndexError, match="indices are on cuda:1, the indexed tensor is not"):
        gradlib.zeros(3)[places]


def _set(x: Tensor, key: Any, value: Any) -> Tensor:
    x[key] = value
    return x


WRITES: dict[str, Callable[[Tensor], Tensor]] = {
    "number": lambda x: _set(x, 1, 7.0),
    "rows": lambda x: _set(x, slice(1, None), x[0] * 2),
    "array": lambda x: _set(x, [0, 2], np.ones((2, 2))),
    "host-tensor": lambda x: _set(x, 0, gradlib.tensor([5.0, 6.0], device="cpu")),
    "mask": lambda x: _set(x, x > 2, 0.0),
    "places": lambda x: _set(x, gradlib.tensor([2, 0], device=AWAY), gradlib.tensor(3.0, device=AWAY)),
    "0-d-place": lambda x: _set(x, gradlib.tensor(1, device=AWAY), 3.0),
    "fill_": lambda x: x.fill_(2),
    "zero_": lambda x: x.zero_(),
    "copy_": lambda x: x.copy_(gradlib.arange(2.0, device="cpu")),
    "add_": lambda x: x.add_(1),
    "clamp_": lambda x: x.clamp_(1, 2),
    "index_fill_": lambda x: x.index_fill_(0, gradlib.tensor([0], device=AWAY), 3),
    "scatter_": lambda x: x.scatter_(0, gradlib.tensor([[0, 1]], device=AWAY), 3.0),
    "masked_fill_": lambda x: x.masked_fill_(x < 2, -1),
    "index_put_": lambda x: x.index_put_((gradlib.tensor([1, 1], device=AWAY),), gradlib.ones(2, device=AWAY), accumulate=True),
}


@pytest.mark.parametrize("place", ["cpu", "cuda:0", AWAY])
def test_what_is_assigned_comes_from_anywhere(place: str) -> None:
    with cupy.cuda.Device(1):
        far = cupy.full(2, 3.0)
    for value in (np.full(2, 3.0), cupy.full(2, 3.0), far, gradlib.tensor(far, dtype=gradlib.float32), [3.0, 3.0]):
        for x in (gradlib.zeros(3, 2, device=place), gradlib.zeros(3, 2, device=place, requires_grad=True) * 1):
            x[1] = value
            x[2:] = value
            assert x.tolist() == [[0, 0], [3, 3], [3, 3]]
            assert str(x.device) == place


@pytest.mark.parametrize("recorded", [False, True])
@pytest.mark.parametrize("name", WRITES)
def test_writes_stay_on_their_device(name: str, recorded: bool) -> None:
    """Into a tensor that takes part in no graph, and into one that does."""
    data = np.arange(6, dtype=np.float32).reshape(3, 2)
    there = gradlib.tensor(data, device=AWAY, requires_grad=recorded)
    changed = WRITES[name](there * 1)
    assert str(changed.device) == AWAY
    assert changed.requires_grad == recorded
    if recorded:
        changed.sum().backward()
        assert str(there.grad.device) == AWAY
