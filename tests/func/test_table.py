"""Every row of the operations' table under vmap: what it gives for a batch is what a loop over the batch gives."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.core.op import REGISTRY
from gradlib.func import vmap
from gradlib.func.level import RULES
from tests.ops.case import Case, as_tensors, results
from tests.ops.test_table import CASES

SIZE = 3


def inputs_of(case: Case) -> list[list[Any]]:
    """SIZE draws of a row's inputs."""
    return [as_tensors(list(case.inputs(np.random.default_rng(seed))), "float64", "cpu") for seed in range(SIZE)]


def is_tensor(value: Any) -> bool:
    return isinstance(value, gradlib.Tensor)


def looped(case: Case, draws: list[list[Any]]) -> list[gradlib.Tensor]:
    return [gradlib.stack(list(parts)) for parts in zip(*(results(case.call(*draw)) for draw in draws), strict=True)]


def check(case: Case, draws: list[list[Any]], dims: list[int | None]) -> None:
    """One choice of dimensions to map over; inputs that are not mapped over are those of the first draw."""
    draws = [[mine if dim is not None else first for mine, first, dim in zip(draw, draws[0], dims, strict=True)] for draw in draws]
    stacked = [
        column[0] if dim is None else gradlib.stack(list(column), dim) for column, dim in zip(zip(*draws, strict=True), dims, strict=True)
    ]
    wanted = looped(case, draws)
    with warnings.catch_warnings():
        warnings.filterwarnings("error", "There is a performance drop")
        found = results(vmap(lambda *args: tuple(results(case.call(*args))), tuple(dims))(*stacked))
    for got, want in zip(found, wanted, strict=True):
        assert got.shape == want.shape
        assert got.dtype == want.dtype
        np.testing.assert_allclose(got.numpy(), want.numpy(), rtol=1e-12, atol=1e-12)


def choices(draw: list[Any]) -> list[list[int | None]]:
    """Dimensions to map over: all along the first, all along the last, each alone."""
    places = [i for i, value in enumerate(draw) if is_tensor(value)]
    made: list[list[int | None]] = [[dim if i in places else None for i in range(len(draw))] for dim in (0, -1)]
    if len(places) > 1:
        made += [[0 if i == place else None for i in range(len(draw))] for place in places]
    return made


@pytest.mark.parametrize("case", list(CASES), ids=[c.id for c in CASES])
def test_vmap_is_a_loop(case: Case) -> None:
    draws = inputs_of(case)
    for dims in choices(draws[0]):
        if any(dim is not None for dim in dims):
            check(case, draws, dims)


def test_every_operation_has_a_rule() -> None:
    missing = sorted(name for name in REGISTRY if name not in RULES)
    assert not missing, f"no batching rule for: {', '.join(missing)}"
