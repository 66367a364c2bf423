"""Every row of the table: value, dtype, raw arrays, memory layout, first and second derivatives, complex numbers; and coverage."""

from __future__ import annotations

import importlib
import pkgutil
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.autograd import forward_ad, gradcheck, gradgradcheck
from gradlib.core import modes, written
from gradlib.core.edge import below
from gradlib.core.op import COMPOSITES, REGISTRY
from gradlib.core.tensor import AccumulateGrad, Tensor
from tests.core.test_memory import holds_arrays
from tests.ops.case import Case, as_arrays, as_tensors, results
from tests.values import host


def collect() -> list[Case]:
    """The rows of every ``table_*.py`` beside this file."""
    rows: list[Case] = []
    for module in pkgutil.iter_modules([str(Path(__file__).parent)]):
        if module.name.startswith("table_"):
            rows += importlib.import_module(f"tests.ops.{module.name}").CASES
    return rows


CASES = collect()


def floats(arrays: list[Any]) -> bool:
    return any(isinstance(a, np.ndarray) and a.dtype.kind in "fc" for a in arrays)


def rows(wanted: Callable[[Case], bool]) -> pytest.MarkDecorator:
    """The rows for which a test means something."""
    chosen = [case for case in CASES if wanted(case)]
    return pytest.mark.parametrize("case", chosen, ids=[case.id for case in chosen])


BY_BLAS = {case.id for name in ("linalg", "nn", "product") for case in importlib.import_module(f"tests.ops.table_{name}").CASES}
FLOATING = {case.id for case in CASES if floats(list(case.inputs(np.random.default_rng(0))))}
each = rows(lambda case: True)
TOLERANCE = {"float32": 2e-5, "float16": 2e-2, "bfloat16": 4e-2}


def same(case: Case, device: str, got: Any, want: Any) -> None:
    """Equal to the last bit; to rounding where a BLAS rounds by where in memory its operands lie, or a GPU's fast path sums its own way."""
    if case.id in BY_BLAS or device == "cuda":
        np.testing.assert_allclose(got, want, rtol=1e-13, atol=1e-14)
    else:
        np.testing.assert_array_equal(got, want)


@rows(lambda case: case.reference is not None)
def test_value(case: Case, rng: np.random.Generator, device: str) -> None:
    arrays = list(case.inputs(rng))
    assert case.reference is not None
    expected = results(case.reference(*arrays))
    for dtype in case.dtypes:
        tolerance = TOLERANCE.get(dtype, case.tolerance)
        found = results(case.call(*as_tensors(arrays, dtype, device)))
        assert len(found) == len(expected)
        for got, want in zip(found, expected, strict=True):
            assert got.shape == np.shape(want)
            np.testing.assert_allclose(host(got).astype(np.asarray(want).dtype), want, rtol=tolerance, atol=tolerance)


@rows(lambda case: case.id in FLOATING and case.op != "to_copy")
def test_dtype_is_kept(case: Case, rng: np.random.Generator, device: str) -> None:
    """Of values and of gradients, in every dtype that the row has."""
    arrays = list(case.inputs(rng))
    for dtype in case.dtypes:
        inputs = as_tensors(arrays, dtype, device, requires_grad=case.differentiable)
        outputs = results(case.call(*inputs))
        live = [y for y in outputs if y.requires_grad]
        wanted = [x for x in inputs if isinstance(x, gradlib.Tensor) and x.requires_grad]
        grads = gradlib.autograd.grad(live, wanted, [gradlib.ones_like(y) for y in live], allow_unused=True) if live else ()
        found = {x.dtype.name for x in (*outputs, *grads) if x is not None and x.dtype.kind in "fV"}
        assert found <= {dtype}


@each
def test_raw_arrays_and_any_memory_layout_give_the_same(case: Case, rng: np.random.Generator, device: str) -> None:
    """Rules call operations on raw arrays, so the value there must be the Tensor's."""
    arrays = list(case.inputs(rng))
    plain = [host(y) for y in results(case.call(*as_tensors(arrays, "float64", device)))]
    for got, want in zip(results(case.call(*as_arrays(arrays, device))), plain, strict=True):
        assert not isinstance(got, gradlib.Tensor)
        same(case, device, host(got), want)
    spaced = []
    for tensor in as_tensors(arrays, "float64", device):
        if isinstance(tensor, gradlib.Tensor) and tensor.ndim:
            tensor = gradlib.repeat_interleave(tensor, 2, dim=-1)[..., ::2]
        spaced.append(tensor)
    for got, want in zip(results(case.call(*spaced)), plain, strict=True):
        np.testing.assert_allclose(host(got), want, rtol=1e-12, atol=1e-12)


@each
def test_fast_path_is_the_slow_path(case: Case, rng: np.random.Generator, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """What `core/compile_path.py` wrote does exactly what `dispatch` does: same values, same first-order gradients.

    And nothing fails there unseen, so that the slow path would have to run the call again.
    """
    monkeypatch.setattr(written, "STRICT", True)
    arrays = list(case.inputs(rng))
    found = []
    for general in (0, 1):
        modes.activate(general)
        try:
            inputs = as_tensors(arrays, "float64", device, requires_grad=True)
            outputs = results(case.call(*inputs))
            wanted = [x for x in inputs if isinstance(x, gradlib.Tensor) and x.requires_grad]
            live = [y for y in outputs if y.requires_grad]
            ones = [gradlib.ones_like(y) for y in live]
            grads = gradlib.autograd.grad(live, wanted, ones, allow_unused=True) if live else ()
        finally:
            modes.activate(-general)
        found.append([None if x is None else host(x) for x in (*outputs, *grads)])
    for plain, dispatched in zip(*found, strict=True):
        assert (plain is None) == (dispatched is None)
        if plain is not None:
            same(case, device, plain, dispatched)


def check_derivatives(case: Case, arrays: list[Any], device: str) -> None:
    """First and second, element by element, the second complex ones along random directions, as the same rules are checked on real numbers.

    On a device they are the CPU's, but where it draws numbers of its own.
    """
    if device == "cpu" or case.op == "dropout":
        inputs = as_tensors(arrays, "float64", device, requires_grad=True)
        assert gradcheck(case.call, inputs)
        assert not case.second or gradgradcheck(case.call, inputs, fast_mode=any(np.iscomplexobj(a) for a in arrays))
        return
    for mine, cpus in zip(derivatives(case, arrays, device), derivatives(case, arrays, "cpu"), strict=True):
        assert (mine is None) == (cpus is None)
        if mine is not None:
            np.testing.assert_allclose(mine, cpus, rtol=1e-8, atol=1e-9)


def derivatives(case: Case, arrays: list[Any], device: str) -> list[Any]:
    """For fixed cotangents the gradients of a row, and theirs with respect to inputs and cotangents; None where there is none."""
    rng = np.random.default_rng(5)

    def drawn(like: gradlib.Tensor) -> gradlib.Tensor:
        values = rng.standard_normal(like.shape) * (1 + 0.3j if like.dtype.kind == "c" else 1)
        return gradlib.tensor(values, dtype=like.dtype, device=device, requires_grad=True)

    inputs = as_tensors(arrays, "float64", device, requires_grad=True)
    wanted = [x for x in inputs if isinstance(x, gradlib.Tensor) and x.requires_grad]
    live = [y for y in results(case.call(*inputs)) if y.requires_grad]
    cotangents = [drawn(y) for y in live]
    first = gradlib.autograd.grad(live, wanted, cotangents, create_graph=case.second, allow_unused=True)
    again = [g for g in first if case.second and g is not None and g.requires_grad]
    second = gradlib.autograd.grad(again, [*wanted, *cotangents], [drawn(g) for g in again], allow_unused=True) if again else ()
    return [g if g is None else host(g) for g in (*first, *second)]


@rows(lambda case: case.differentiable and case.id in FLOATING)
def test_derivatives(case: Case, rng: np.random.Generator, device: str) -> None:
    check_derivatives(case, list(case.inputs(rng)), device)


@pytest.mark.host  # what is saved does not depend on the device
@rows(lambda case: case.differentiable and case.id in FLOATING)
def test_a_second_backward_is_refused_only_where_tensors_were_saved(case: Case, rng: np.random.Generator) -> None:
    x = as_tensors(case.inputs(rng), "float64", "cpu", requires_grad=True)
    outputs = [y for y in results(case.call(*x)) if isinstance(y, Tensor) and y.requires_grad]
    cotangents = [gradlib.ones_like(y) for y in outputs]
    nodes = [node for node in below([y._node for y in outputs if y._node is not None]) if not isinstance(node, AccumulateGrad)]
    gradlib.autograd.backward(outputs, cotangents)
    for node in nodes:
        assert node.saved is None if node.frees and node.saved_names else not holds_arrays(node.saved)
    if not any(node.frees and node.saved_names for node in nodes):
        gradlib.autograd.backward(outputs, cotangents)


@rows(lambda case: case.complex)
def test_complex_derivatives(case: Case, rng: np.random.Generator, device: str) -> None:
    real, imaginary = list(case.inputs(rng)), list(case.inputs(rng))
    pairs = zip(real, imaginary, strict=True)
    arrays = [np.asarray(r + 0.5j * i) if isinstance(r, np.ndarray) and r.dtype.kind == "f" else r for r, i in pairs]
    inputs = as_tensors(arrays, "float64", device, requires_grad=True)
    if case.reference is not None:
        for got, want in zip(results(case.call(*inputs)), results(case.reference(*arrays)), strict=True):
            np.testing.assert_allclose(host(got), want, rtol=1e-10, atol=1e-10)
    if case.differentiable:
        check_derivatives(case, arrays, device)


def paired(pairs: Iterable[tuple[Any, Any]]) -> float:
    """The real inner product of lists of tensors, over the pairs where neither is missing."""
    return sum(float(np.sum(np.conj(host(a)) * host(b)).real) for a, b in pairs if a is not None and b is not None)


DIFFERENTIABLE = [case for case in CASES if case.differentiable and case.id in FLOATING]
REAL_AND_COMPLEX = [(case, False) for case in DIFFERENTIABLE] + [(case, True) for case in DIFFERENTIABLE if case.complex]


@pytest.mark.parametrize(
    ("case", "imaginary"), REAL_AND_COMPLEX, ids=[f"{case.id}-{'complex' if imaginary else 'real'}" for case, imaginary in REAL_AND_COMPLEX]
)
def test_forward_mode_is_the_transpose_of_backward(case: Case, imaginary: bool, rng: np.random.Generator, device: str) -> None:
    """<g, J t> = <J' g, t>: what the declared kind makes of a tangent against what the (checked) rules make of a cotangent."""
    arrays = list(case.inputs(rng))
    if imaginary:
        arrays = [np.asarray(a * (1 + 0.3j)) if isinstance(a, np.ndarray) and a.dtype.kind == "f" else a for a in arrays]
    inputs = as_tensors(arrays, "float64", device, requires_grad=True)
    wanted = [x for x in inputs if isinstance(x, gradlib.Tensor) and x.requires_grad]
    live = [y for y in results(case.call(*inputs)) if y.requires_grad]
    cotangents = [gradlib.tensor(rng.standard_normal(y.shape), dtype=y.dtype) for y in live]
    grads = gradlib.autograd.grad(live, wanted, cotangents, allow_unused=True)
    tangents = [gradlib.tensor(rng.standard_normal(x.shape), dtype=x.dtype) for x in wanted]
    with forward_ad.dual_level():
        moving = iter(tangents)
        duals = [forward_ad.make_dual(x.detach(), next(moving)) if isinstance(x, gradlib.Tensor) and x.requires_grad else x for x in inputs]
        outputs = [y for y in results(case.call(*duals)) if y.dtype.kind in "fc"]
        moved = [forward_ad.unpack_dual(y).tangent for y in outputs]
    ahead = paired(zip(cotangents, moved, strict=True))
    back = paired(zip(grads, tangents, strict=True))
    assert ahead == pytest.approx(back, rel=1e-8, abs=1e-9)


def test_rows_have_names_of_their_own() -> None:
    ids = [case.id for case in CASES]
    assert not {name for name in ids if ids.count(name) > 1}


WITHOUT_ROW = {
    "_drawn_for",  # records what was drawn: see ``test_random.py``
    "from_smoothed", "integral_at", "loss_of_shares", "loss_of_smoothed_shares",  # the rows of losses and of trapezoid run these
    "smoothed_loss",  # on a device
}  # fmt: skip


def test_the_table_covers_every_operation() -> None:
    """Those of the trajectory package are held against their own oracle in ``tests/trajectory``."""
    declared = {name for name, op in REGISTRY.items() if op.value.__module__.startswith("gradlib.ops.")}
    missing = sorted((declared | {*COMPOSITES}) - {case.op for case in CASES} - WITHOUT_ROW)
    assert not missing, f"no row of the table for: {', '.join(missing)}"
