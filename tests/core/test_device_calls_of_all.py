"""What each operation of the tables costs the host on a GPU, in Python functions of gradlib's: at most 8 pointwise, 20 otherwise."""

from __future__ import annotations

import contextlib
import gc
import importlib
import warnings
from collections.abc import Callable, Iterable, Iterator
from fnmatch import fnmatchcase
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


HALF_TYPES: dict[str, tuple[int, str]] = {
    "*add-alpha": (25, "two operations, whose numbers are computed in float32"),
    "*sub-alpha": (30, "the same"),
    "addmm*": (44, "a product, two factors in float32 and a sum"), "addmv": (27, "the same"), "baddbmm": (30, "the same"),
    "modulo": (22, "a ufunc of NumPy's, whose operands it casts"),
    "nextafter": (12, "CuPy's, step by step"), "isclose": (20, "the same"),
    "logical_*": (9, "two casts to bool"), "rpow": (9, "the number is one of bfloat16"),
    "round*": (19, "computed in float32, and cast there and back"),
    "index_add-rows": (25, "no atomic instruction adds them"),
    "dstack-vectors": (21, "views, then their row"),
    "matrix_power": (36, "three products, of bfloat16 converted for CuPy's"), "multi_dot": (40, "the same"), "einsum-*": (29, "the same"),
    "cross_entropy-of rows": (22, "what torch rounds on its way"),
    "where-complex": (27, "complex parts that are halves meet in the general way"),
}  # fmt: skip
"""By pattern of the names of rows, the most calls of rows of half types that are above the limits, and why."""


def recorded(dtype: str) -> Iterator[tuple[str, int, Callable[[], Any]]]:
    """The rows of the tables, recorded for backward: name, limit and call."""
    rng = np.random.default_rng(0)
    pointwise = {case.id for name in TABLES for case in importlib.import_module(f"tests.ops.table_{name}").CASES}
    for case in CASES:
        inputs = as_tensors(list(case.inputs(rng)), dtype, "cuda", requires_grad=True)
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


def counted(rows: Iterable[tuple[str, int, Callable[[], Any]]], *unserved: type[Exception]) -> Iterator[tuple[str, int, int]]:
    """The calls of each row: name, limit and number. ``unserved``: what is raised where there is no such operation."""
    gc.collect()
    gc.disable()  # which would run what finalizers call in the midst of an operation
    try:
        for name, limit, case in rows:
            with warnings.catch_warnings(), np.errstate(all="ignore"), contextlib.suppress(*unserved):
                warnings.simplefilter("ignore")
                yield name, limit, most_calls(case)
    finally:
        gc.enable()


def test_no_operation_takes_more_calls_than_the_limits(monkeypatch):
    monkeypatch.setattr(written, "STRICT", True)  # or what fails on the fast path would be a dear call at most
    beyond = [(name, calls) for name, limit, calls in counted((*recorded("float32"), *in_place())) if calls > limit]
    assert not beyond, f"more calls than the limit: {beyond}"


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_types_take_no_more_but_where_it_is_said(dtype):
    found, beyond = 0, []
    for name, limit, calls in counted(recorded(dtype), RuntimeError, TypeError):
        found += 1
        most = max([limit, *(given[0] for pattern, given in HALF_TYPES.items() if fnmatchcase(name, pattern))])
        if calls > most:
            beyond.append((name, calls))
    assert found > 500
    assert not beyond, f"more calls than the limit, or than is said: {beyond}"
