"""What each operation of the tables costs the host on a GPU, in Python functions of gradlib's: at most 8 pointwise, 20 otherwise."""

from __future__ import annotations

import gc
import importlib
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gradlib
from benchmarks.python_calls import calls_from_outside
from gradlib.core import written
from tests.device import skip_module_without_cuda
from tests.ops.case import as_tensors
from tests.ops.test_inplace_forms import arguments, names
from tests.ops.test_table import CASES

skip_module_without_cuda()
pytestmark = [pytest.mark.cuda, pytest.mark.host, pytest.mark.slow]

TABLES = ("activation", "arithmetic", "compare", "complex", "elementwise", "select")
NOT_POINTWISE = {"allclose", "dropout", "equal", "imag", "real", "where"}
"""Operations in these tables that are views, draw numbers, choose, or end in one number."""


def recorded() -> Iterator[tuple[str, int, Callable[[], Any]]]:
    """The rows of the tables, recorded for backward: name, limit and call."""
    rng = np.random.default_rng(0)
    pointwise = {case.id for name in TABLES for case in importlib.import_module(f"tests.ops.table_{name}").CASES}
    for case in CASES:
        inputs = as_tensors(list(case.inputs(rng)), "float32", "cuda", requires_grad=True)
        limit = 8 if case.id in pointwise and case.op not in NOT_POINTWISE else 20
        yield case.id, limit, lambda case=case, inputs=inputs: case.call(*inputs)


def in_place() -> Iterator[tuple[str, int, Callable[[], Any]]]:
    """The in-place forms, of which nothing is recorded."""
    for name in names():
        x, args = arguments(name)
        y, *given = [each.to("cuda") if isinstance(each, gradlib.Tensor) else each for each in (x, *args)]
        given = [tuple(part.to("cuda") if isinstance(part, gradlib.Tensor) else part for part in each) if type(each) is tuple else each
                 for each in given]  # fmt: skip
        yield f"{name}_", 20, lambda name=name, y=y, given=given: getattr(y.clone(), f"{name}_")(*given)


def most_calls(case: Callable[[], Any]) -> int:
    """Of the calls of gradlib in one that has run before, those of the one that takes most."""
    case()
    case()
    return max(map(len, calls_from_outside(case)), default=0)


def test_no_operation_takes_more_calls_than_the_limits(monkeypatch):
    monkeypatch.setattr(written, "STRICT", True)  # or what fails on the fast path would be a dear call at most
    beyond = []
    gc.collect()
    gc.disable()  # which would run what finalizers call in the midst of an operation
    try:
        for name, limit, case in (*recorded(), *in_place()):
            with warnings.catch_warnings(), np.errstate(all="ignore"):
                warnings.simplefilter("ignore")
                calls = most_calls(case)
            if calls > limit:
                beyond.append((name, calls))
    finally:
        gc.enable()
    assert not beyond, f"more calls than the limit: {beyond}"
