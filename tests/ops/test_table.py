"""Every row of the table: value, dtype, raw arrays, memory layout, first and second derivatives, complex numbers; and coverage."""

from __future__ import annotations

import importlib
import pkgutil
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.autograd import gradcheck, gradgradcheck
from gradlib.core import modes
from gradlib.core.op import COMPOSITES, REGISTRY
from tests.ops.case import Case, as_tensors, results


def collect() -> list[Case]:
    """The rows of every ``table_*.py`` beside this file."""
    rows: list[Case] = []
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if module.name.startswith("table_"):
            rows += importlib.import_module(f"tests.ops.{module.name}").CASES
    return rows


CASES = collect()
each = pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
TOLERANCE = {"float32": 2e-5, "float16": 2e-2, "bfloat16": 4e-2}


def floats(arrays: list[Any]) -> bool:
    return any(isinstance(a, np.ndarray) and a.dtype.kind in "fc" for a in arrays)


@each
def test_value(case: Case, rng: np.random.Generator, device: str) -> None:
    arrays = list(case.inputs(rng))
    if case.reference is None:
        pytest.skip("another test checks this value")
    expected = results(case.reference(*arrays))
    for dtype in case.dtypes:
        tolerance = TOLERANCE.get(dtype, case.tolerance)
        found = results(case.call(*as_tensors(arrays, dtype, device)))
        assert len(found) == len(expected)
        for got, want in zip(found, expected, strict=True):
            host = got.detach().cpu().numpy()
            assert host.shape == np.shape(want)
            np.testing.assert_allclose(host.astype(np.asarray(want).dtype), want, rtol=tolerance, atol=tolerance)


@each
def test_dtype_is_kept(case: Case, rng: np.random.Generator, device: str) -> None:
    arrays = list(case.inputs(rng))
    if not floats(arrays):
        pytest.skip("no floating input")
    for got in results(case.call(*as_tensors(arrays, "float32", device))):
        assert got.dtype.name not in ("float64", "complex128")


@each
def test_raw_arrays_give_the_same(case: Case, rng: np.random.Generator) -> None:
    """Rules call operations on raw arrays, so the value there must be the Tensor's."""
    arrays = list(case.inputs(rng))
    made = results(case.call(*as_tensors(arrays, "float64", "cpu")))
    for got, want in zip(results(case.call(*arrays)), made, strict=True):
        assert not isinstance(got, gradlib.Tensor)
        np.testing.assert_array_equal(got, want.numpy())


@each
def test_memory_layout_does_not_matter(case: Case, rng: np.random.Generator, device: str) -> None:
    arrays = list(case.inputs(rng))
    plain = results(case.call(*as_tensors(arrays, "float64", device)))
    spaced = []
    for tensor in as_tensors(arrays, "float64", device):
        if isinstance(tensor, gradlib.Tensor) and tensor.ndim:
            wide = tensor.numpy(force=True).repeat(2, axis=-1)
            tensor = gradlib.as_tensor(wide, device=device)[..., ::2]
        spaced.append(tensor)
    for got, want in zip(results(case.call(*spaced)), plain, strict=True):
        np.testing.assert_allclose(got.cpu().numpy(), want.cpu().numpy(), rtol=1e-12, atol=1e-12)


@each
def test_plain_path_is_the_general_path(case: Case, rng: np.random.Generator) -> None:
    """What `core/compile.py` wrote does exactly what `dispatch` does: same values, same first-order gradients."""
    arrays = list(case.inputs(rng))
    found = []
    for general in (0, 1):
        modes.activate(general)
        try:
            inputs = as_tensors(arrays, "float64", "cpu", requires_grad=True)
            outputs = results(case.call(*inputs))
            wanted = [x for x in inputs if isinstance(x, gradlib.Tensor) and x.requires_grad]
            live = [y for y in outputs if y.requires_grad]
            ones = [np.ones_like(y.numpy(force=True)) for y in live]
            grads = gradlib.autograd.grad(live, wanted, ones, allow_unused=True) if live else ()
        finally:
            modes.activate(-general)
        found.append([None if x is None else x.numpy(force=True) for x in (*outputs, *grads)])
    for plain, dispatched in zip(*found, strict=True):
        np.testing.assert_array_equal(plain, dispatched)


@each
def test_derivatives(case: Case, rng: np.random.Generator, device: str) -> None:
    arrays = list(case.inputs(rng))
    if not case.differentiable or not floats(arrays):
        pytest.skip("no derivative")
    inputs = as_tensors(arrays, "float64", device, requires_grad=True)
    assert gradcheck(case.call, inputs)
    if case.second:
        assert gradgradcheck(case.call, inputs)


@each
def test_complex_derivatives(case: Case, rng: np.random.Generator, device: str) -> None:
    if not case.complex:
        pytest.skip("real only")
    real, imaginary = list(case.inputs(rng)), list(case.inputs(rng))
    pairs = zip(real, imaginary, strict=True)
    arrays = [np.asarray(r + 0.5j * i) if isinstance(r, np.ndarray) and r.dtype.kind == "f" else r for r, i in pairs]
    inputs = as_tensors(arrays, "float64", device, requires_grad=True)
    if case.reference is not None:
        for got, want in zip(results(case.call(*inputs)), results(case.reference(*arrays)), strict=True):
            np.testing.assert_allclose(got.detach().cpu().numpy(), want, rtol=1e-10, atol=1e-10)
    if case.differentiable:
        assert gradcheck(case.call, inputs)
        assert not case.second or gradgradcheck(case.call, inputs)


def test_the_table_covers_every_operation() -> None:
    missing = sorted(({*REGISTRY, *COMPOSITES}) - {case.op for case in CASES})
    assert not missing, f"no row of the table for: {', '.join(missing)}"
