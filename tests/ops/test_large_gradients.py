"""Gradients of large arrays, for which rules on raw arrays take other ways, are those that `create_graph` computes from the same rules."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradlib
import gradlib.nn.functional as F
from tests.values import host

FORMS: dict[str, Callable[[Any], Any]] = {
    "cumsum": lambda x: x.cumsum(1),
    "cumprod": lambda x: (1 + x / 100).cumprod(1),
    "cumprod with a zero": lambda x: (1 + x.round() / 3).cumprod(1),
    "prod": lambda x: (1 + x / 100).prod(1),
    "prod of all": lambda x: (1 + x[:1] / 100).prod(),
    "prod with a zero": lambda x: (1 + x.round() / 3).prod(1),
    "cummax": lambda x: x.cummax(-1).values,
    "cummin of ties": lambda x: x.round().cummin(1).values + 0 * x,
    "softmax": lambda x: x.softmax(-1),
    "layer_norm": lambda x: F.layer_norm(x + 10, (300,)),
    "layer_norm of all": lambda x: F.layer_norm(x, (300, 300)),
    "amax": lambda x: x.round().amax(1),
    "amax of short lines": lambda x: x.round().reshape(-1, 50).amax(1),
    "amin of all": lambda x: x.round().amin(),
    "norm": lambda x: x.norm(dim=0),
    "relu": lambda x: F.relu(x),
    "leaky_relu": lambda x: F.leaky_relu(x, -0.3),
    "softplus": lambda x: F.softplus(30 * x),
    "logsigmoid": lambda x: F.logsigmoid(30 * x),
    "diff": lambda x: x.diff(2, 0),
    "as_strided": lambda x: x.as_strided((100, 90), (600, 3), 5),
    "as_strided with overlaps": lambda x: x.as_strided((1000, 90), (45, 1)),
}


@pytest.mark.host
@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("form", FORMS)
def test_the_gradient_on_raw_arrays_is_the_recorded_one(form: str, dtype: str) -> None:
    rng = np.random.default_rng(0)
    x = gradlib.tensor(rng.standard_normal((300, 300)), dtype=dtype, requires_grad=True)
    made = FORMS[form](x)
    g = gradlib.tensor(rng.standard_normal(made.shape), dtype=dtype)
    (recorded,) = gradlib.autograd.grad(made, x, g, create_graph=True)
    (found,) = gradlib.autograd.grad(made, x, g)
    assert found.dtype == x.dtype
    scale = np.abs(host(recorded)).max()
    np.testing.assert_allclose(host(found), host(recorded), rtol=0, atol=scale * (2e-6 if dtype == "float32" else 1e-13))
