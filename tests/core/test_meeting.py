"""What is kept of how operands meet on a device: dtypes, values and errors are those of the CPU at the first call and at the next ones."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import gradlib
from benchmarks.python_calls import python_calls
from tests.device import skip_module_without_cuda
from tests.values import host

skip_module_without_cuda()
pytestmark = [pytest.mark.cuda, pytest.mark.host]

DTYPES = ("bool", "uint8", "int64", "float16", "bfloat16", "float32", "complex64")
NUMBERS = (2, 0.5, 2**40)
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
