"""Every row of the operations' table under vmap: what it gives for a batch is what a loop over the batch gives."""

from __future__ import annotations

import warnings
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.core.op import REGISTRY
from gradlib.func import vmap
from gradlib.func.rules import rule_of
from tests.ops.case import Case, as_tensors, results
from tests.ops.test_table import CASES
from tests.values import host

SIZE = 3

REFUSED = {
    "allclose": "data-dependent control flow", "equal": "data-dependent control flow",
    "nonzero": "dynamic shape", "argwhere": "dynamic shape", "where-indices": "dynamic shape", "masked_select": "dynamic shape",
    "masked_select-broadcast": "dynamic shape", "unique": "dynamic shape", "unique-float": "dynamic shape", "unique-rows": "dynamic shape",
    "distinct": "dynamic shape", "repeat_interleave-each": "values of a Tensor", "one_hot": "dynamic shape",
}  # fmt: skip
"""Rows whose results have a shape, or take a path, that depends on values: vmap refuses them, as torch's does."""


def inputs_of(case: Case) -> list[list[Any]]:
    """SIZE draws of a row's inputs."""
    return [
        as_tensors(list(case.inputs(np.random.default_rng(seed))), "float64", str(gradlib.get_default_device())) for seed in range(SIZE)
    ]


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
        found = results(vmap(lambda *args: tuple(results(case.call(*args))), tuple(dims), randomness="same")(*stacked))
    for got, want in zip(found, wanted, strict=True):
        assert got.shape == want.shape
        assert got.dtype == want.dtype
        np.testing.assert_allclose(host(got), host(want), rtol=1e-12, atol=1e-12)


def choices(draw: list[Any]) -> list[list[int | None]]:
    """Dimensions to map over: all along the first, all along the last, each alone."""
    places = [i for i, value in enumerate(draw) if is_tensor(value)]
    made: list[list[int | None]] = [[dim if i in places else None for i in range(len(draw))] for dim in (0, -1)]
    if len(places) > 1:
        made += [[0 if i == place else None for i in range(len(draw))] for place in places]
    return made


def written_in_place(case: Case, dims: list[int | None]) -> bool:
    """Whether a row writes its first input, which is here the same for all rows, while what it writes is not."""
    return case.op == "index_put" and dims[0] is None


LOOPED = [case for case in CASES if case.id not in REFUSED]


@pytest.mark.parametrize("case", LOOPED, ids=[case.id for case in LOOPED])
def test_vmap_is_a_loop(case: Case) -> None:
    draws = inputs_of(case)
    for dims in choices(draws[0]):
        if any(dim is not None for dim in dims) and not written_in_place(case, dims):
            check(case, draws, dims)


@pytest.mark.parametrize("name", REFUSED)
def test_what_depends_on_values_is_refused(name: str) -> None:
    case = next(case for case in CASES if case.id == name)
    first = [x.unsqueeze(0) if is_tensor(x) else x for x in inputs_of(case)[0]]
    dims = tuple(0 if is_tensor(x) else None for x in first)
    with pytest.raises(RuntimeError, match=REFUSED[name]):
        vmap(lambda *args: tuple(results(case.call(*args))), dims)(*first)


WITHOUT_RULE = {
    "_drawn_for",  # made where no transform is active
    "trajectory_keep_gradient",  # fills a buffer of the user's, which holds one row
}


def test_every_operation_has_a_rule() -> None:
    """Or steps that have; all but those named above, none of which has got one meanwhile."""
    ours = {name: op for name, op in REGISTRY.items() if not op.value.__module__.startswith("gradlib.trajectory.planning.")}
    assert {name for name, op in ours.items() if rule_of(op) is None and op.steps is None} == WITHOUT_RULE
