"""Every differentiable row of the operations' table: gradients under vmap are those of a loop."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.autograd import grad
from gradlib.func import grad as grad_of, jacfwd, jacrev, vmap
from tests.func.test_table import REFUSED, inputs_of, is_tensor
from tests.ops.case import Case, results
from tests.ops.test_table import CASES, FLOATING
from tests.values import host

ROWS = [case for case in CASES if case.differentiable and case.id in FLOATING and case.id not in REFUSED and case.op != "dropout"]
each = pytest.mark.parametrize("case", ROWS, ids=[case.id for case in ROWS])


def floating(values: list[Any]) -> list[int]:
    return [i for i, x in enumerate(values) if is_tensor(x) and x.dtype.kind in "fc"]


def outputs_of(case: Case, arguments: Any) -> list[gradlib.Tensor]:
    return [y for y in results(case.call(*arguments)) if y.dtype.kind in "fc"]


def weighted(case: Case, weights: list[np.ndarray]) -> Callable[..., Any]:
    """A row's outputs as one number."""

    def total(*arguments: Any) -> Any:
        parts = [(y * w).sum() for y, w in zip(outputs_of(case, arguments), weights, strict=True)]
        return sum((p.real if p.dtype.kind == "c" else p for p in parts[1:]), parts[0].real if parts[0].dtype.kind == "c" else parts[0])

    return total


@each
def test_gradient_of_each_row(case: Case, rng: np.random.Generator) -> None:
    draws = inputs_of(case)
    places = floating(draws[0])
    weights = [gradlib.tensor(rng.standard_normal(y.shape)) for y in outputs_of(case, [x.clone() if is_tensor(x) else x for x in draws[0]])]
    function = grad_of(weighted(case, weights), tuple(places))
    want = [function(*draw) for draw in draws]
    dims = tuple(0 if is_tensor(x) else None for x in draws[0])
    columns = [list(column) for column in zip(*draws, strict=True)]
    stacked = [column[0] if dim is None else gradlib.stack(column) for column, dim in zip(columns, dims, strict=True)]
    got = vmap(function, dims)(*stacked)
    for k in range(len(places)):
        np.testing.assert_allclose(host(got[k]), np.stack([host(w[k]) for w in want]), rtol=1e-8, atol=1e-9)


@pytest.mark.host
@each
def test_many_cotangents_at_once(case: Case, rng: np.random.Generator) -> None:
    draw = inputs_of(case)[0]
    places = floating(draw)
    inputs = [x.clone().requires_grad_() if i in places else x for i, x in enumerate(draw)]
    live = [y for y in results(case.call(*inputs)) if y.requires_grad]
    cotangents = [gradlib.tensor(rng.standard_normal((3, *y.shape))).to(y.dtype) for y in live]
    wanted = [inputs[i] for i in places]
    got = grad(live, wanted, cotangents, retain_graph=True, allow_unused=True, is_grads_batched=True)
    for b in range(3):
        want = grad(live, wanted, [c[b] for c in cotangents], retain_graph=True, allow_unused=True)
        for mine, its in zip(got, want, strict=True):
            assert (mine is None) == (its is None)
            if mine is not None:
                np.testing.assert_allclose(host(mine)[b], host(its), rtol=1e-8, atol=1e-9)


def is_small_and_real(case: Case) -> bool:
    draw = inputs_of(case)[0]
    inputs = [draw[i] for i in floating(draw)]
    if sum(x.numel() for x in inputs) > 24:
        return False
    return not any(y.dtype.kind == "c" for y in (*inputs, *results(case.call(*draw))))


SMALL = [case for case in ROWS if is_small_and_real(case)]


@pytest.mark.host
@pytest.mark.parametrize("case", SMALL, ids=[case.id for case in SMALL])
def test_columns_are_rows(case: Case) -> None:
    """Forward mode under vmap against backward under vmap."""
    draw = inputs_of(case)[0]
    places = floating(draw)

    def partial(*values: Any) -> Any:
        full = list(draw)
        for i, value in zip(places, values, strict=True):
            full[i] = value
        return outputs_of(case, full)

    numbers, values = tuple(range(len(places))), [draw[i] for i in places]
    for mine, its in zip(jacrev(partial, numbers)(*values), jacfwd(partial, numbers)(*values), strict=True):
        for a, b in zip(mine, its, strict=True):
            np.testing.assert_allclose(host(a), host(b), rtol=1e-8, atol=1e-9)
