"""What is kept of how operands meet on a device: dtypes, values and errors are those of the CPU at the first call and at the next ones."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import gradlib
from benchmarks.python_calls import python_calls
from gradlib.core import written
from gradlib.core.op import REGISTRY
from tests.device import skip_module_without_cuda
from tests.values import host

skip_module_without_cuda()
pytestmark = [pytest.mark.cuda, pytest.mark.host]

DTYPES = ("bool", "uint8", "int64", "float16", "bfloat16", "float32", "complex64")
NUMBERS = (2, 0.5, 2**40, 1 - 2j)
OPERATIONS = {
    "mul": gradlib.mul, "sub": gradlib.sub, "div": gradlib.div, "gt": gradlib.gt, "logical_and": gradlib.logical_and,
    "bitwise_or": gradlib.bitwise_or, "clamp_min": gradlib.clamp_min,
}  # fmt: skip


def found(operation: Any, x: Any, y: Any) -> Any:
    """The dtype and values of a result, or what it raises."""
    try:
        made = operation(x, y)
    except Exception as error:
        return type(error)
    return made.dtype, host(made.to("cpu")).tolist()


@pytest.mark.slow
@pytest.mark.nonfinite
def test_operands_meet_as_on_the_cpu_each_time():
    with np.errstate(all="ignore"):
        for name, operation in OPERATIONS.items():
            for first, second in itertools.product(DTYPES, (*DTYPES, *NUMBERS)):
                for shape in ((3,), ()):
                    x = gradlib.tensor([1, 0, 1]).to(first)
                    y = gradlib.tensor([1, 1, 1] if shape else 1).to(second) if isinstance(second, str) else second
                    right = found(operation, x, y)
                    x, y = x.to("cuda"), y.to("cuda") if isinstance(second, str) else y
                    for _ in range(2):
                        assert found(operation, x, y) == right, (name, first, second, shape)


@pytest.mark.slow
@pytest.mark.nonfinite
def test_numbers_that_come_first_and_tensors_of_the_host_without_dimensions_meet_as_on_the_cpu():
    with np.errstate(all="ignore"):
        for (name, operation), kind, other in itertools.product(OPERATIONS.items(), DTYPES, (*DTYPES, *NUMBERS, 1e5)):
            x = gradlib.tensor([1, 3, 4]).to(kind)
            y = gradlib.tensor(3).to(other) if isinstance(other, str) else other
            for beside in [y] if isinstance(other, (str, complex)) else [y, gradlib.tensor(y)]:
                for turned in (False, True):
                    right, made = (found(operation, *((beside, each) if turned else (each, beside))) for each in (x, x.to("cuda")))
                    assert made == right, (name, kind, other, turned)


def test_a_number_comes_first_on_the_fast_path_whatever_the_second_operand_is_called():
    x = gradlib.tensor([1.0, 3.0], device="cuda")
    for name, case in {"isin": lambda: gradlib.isin(2.0, x), "tanh_backward": lambda: REGISTRY["tanh_backward"].call(2.0, x)}.items():
        case()
        assert "slow_path" not in python_calls(case), name


REAL = {
    "floor_divide": lambda x, n: x * (n // x), "remainder": lambda x, n: n % x, "atan2": lambda x, n: gradlib.atan2(n, x),
    "maximum": lambda x, n: gradlib.maximum(n, x),
}  # fmt: skip
ALSO_COMPLEX = {
    "mul": lambda x, n: n * x, "sub": lambda x, n: n - x, "div": lambda x, n: n / x, "div by": lambda x, n: x / n, "pow": lambda x, n: n**x,
    "where": lambda x, n: gradlib.where(gradlib.arange(3, device=x.device) > 0, x, n),
}  # fmt: skip


@pytest.mark.parametrize("name", [*REAL, *ALSO_COMPLEX])
def test_gradients_beside_numbers_are_those_of_the_cpu(name):
    case, kinds = (REAL | ALSO_COMPLEX)[name], ("float64", "complex128") if name in ALSO_COMPLEX else ("float64",)
    for dtype, number in itertools.product(kinds, (2.5, 3 - 2j) if name in ALSO_COMPLEX else (2.5,)):
        given = [number, gradlib.tensor(number, dtype=dtype)] if type(number) is float or dtype == "complex128" else [number]
        for n in given:
            results = []
            for device in ("cpu", "cuda"):
                x = gradlib.tensor([0.5, 1.5, -2.5], dtype=dtype, device=device, requires_grad=True)
                y = case(x, n)
                (slope,) = gradlib.autograd.grad((y * y.conj()).real.sum(), x, create_graph=True)
                (second,) = gradlib.autograd.grad((slope * slope.conj()).real.sum(), x)
                results.append((type(y.grad_fn).__name__, y.dtype, *(host(each.detach()) for each in (y, slope, second))))
            assert results[0][:2] == results[1][:2]
            for right, made in zip(*(each[2:] for each in results), strict=True):
                np.testing.assert_allclose(made, right, rtol=1e-12)


def test_what_depends_on_a_number_or_on_the_default_dtype_is_asked_each_time():
    i, h = gradlib.arange(3, device="cuda"), gradlib.ones(3, dtype="float16", device="cuda")
    for _ in range(2):
        assert (i**2).tolist() == [0, 1, 4]
        with pytest.raises(RuntimeError, match="negative integer powers"):
            i**-1
        assert h.clamp(0, 2).dtype == "float16"
        with pytest.raises(RuntimeError, match="without overflow"):
            h.clamp(0, 1e6)
        assert (i / 2).dtype == "float32"
    gradlib.set_default_dtype("float64")
    try:
        assert (i / 2).dtype == "float64"
    finally:
        gradlib.set_default_dtype("float32")


def test_numbers_beside_half_types_are_kept_where_each_is_one(monkeypatch):
    monkeypatch.setattr(written, "STRICT", True)  # or the slow path would do what the fast one fails at
    for dtype in ("float16", "bfloat16"):
        h = gradlib.tensor([-2.0, 0.5, 3.0], dtype=dtype, device="cuda")
        for _ in range(3):
            assert gradlib.clamp(h, 0, 1.5).tolist() == [0, 0.5, 1.5]
            assert gradlib.clamp(h, False, 1.5).tolist() == [0, 0.5, 1.5]
            assert (h**2).tolist() == [4, 0.25, 9]


@pytest.mark.parametrize("name", ["complex", "half", "integers", "mask beside floats"])
def test_operands_of_dtypes_that_were_seen_are_few_calls(name):
    x, i = gradlib.ones(3, device="cuda", requires_grad=True), gradlib.arange(3, device="cuda")
    c = (x + 0j).detach().requires_grad_()
    case = {
        "complex": lambda: c * c, "half": lambda: h - h, "integers": lambda: i > 2, "mask beside floats": lambda: x * (i > 1),
    }[name]  # fmt: skip
    h = x.half()
    case()
    assert len(python_calls(case)) <= (16 if name == "mask beside floats" else 8), python_calls(case)


def test_operands_that_do_not_meet_are_named_as_on_the_host() -> None:
    for device in ("cpu", "cuda"):
        x = gradlib.ones(2, device=device)
        for function in (gradlib.matmul, gradlib.kron, gradlib.outer):
            for number in (2, 1j):
                with pytest.raises(TypeError, match=r"must be Tensor, not (int|complex)"):
                    function(x, number)
