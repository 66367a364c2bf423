"""Operations on rows where they lie: the same bits, and NumPy's buffers afterwards as before."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.backend import rows
from tests.values import host

pytestmark = pytest.mark.host

F = gradlib.nn.functional


def test_buffers_are_no_longer_than_a_row_within_and_as_before_afterwards() -> None:
    before = np.getbufsize()
    assert rows.by_rows(np.getbufsize) == 512
    assert np.getbufsize() == before
    with pytest.raises(ZeroDivisionError):
        rows.by_rows(lambda: 1 // 0)
    assert np.getbufsize() == before


def test_it_is_for_many_rows_that_are_not_short() -> None:
    assert rows.has_rows(np.ones((128, 512)))
    for other in (np.ones((127, 512)), np.ones((200, 500)), np.ones(1 << 17), 3.0, gradlib.ones(128, 512)):
        assert not rows.has_rows(other)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize(
    "function",
    [
        lambda x: gradlib.softmax(x, 1), lambda x: gradlib.softmax(x * 30, 1), lambda x: gradlib.softmax(x, 0),
        lambda x: gradlib.log_softmax(x, 1), lambda x: F.layer_norm(x, x.shape[1:]), lambda x: gradlib.diff(x),
        lambda x: gradlib.diff(x, dim=0), lambda x: gradlib.kron(gradlib.tensor([[1, 2], [3, 4]], dtype=x.dtype), x),
    ],
)  # fmt: skip
def test_values_and_gradients_have_the_same_bits(function: Any, dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    def results() -> list[bytes]:
        x = gradlib.tensor(np.random.default_rng(0).standard_normal((130, 600)).astype(dtype), requires_grad=True)
        y = function(x)
        (g,) = gradlib.autograd.grad(y, x, gradlib.linspace(0, 1, y.numel(), dtype=y.dtype).reshape(y.shape))
        return [host(y).tobytes(), host(g).tobytes()]

    made = results()
    calls = []
    with monkeypatch.context() as m:
        m.setattr(rows, "_MANY", 1 << 30)
        m.setattr(np, "setbufsize", calls.append)
        assert results() == made
    assert not calls
