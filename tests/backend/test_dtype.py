"""Promotion is torch's: the table below was read off torch.promote_types, the rules off torch.result_type."""

from __future__ import annotations

import itertools
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import gradlib
from gradlib.backend import dtype as dtypes
from gradlib.core.tensor import raw

NAMES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128"]
B, U8, I8, I16, I32, I64, F16, BF, F32, F64, C64, C128 = range(12)
TABLE = [
    [B, U8, I8, I16, I32, I64, F16, BF, F32, F64, C64, C128],
    [U8, U8, I16, I16, I32, I64, F16, BF, F32, F64, C64, C128],
    [I8, I16, I8, I16, I32, I64, F16, BF, F32, F64, C64, C128],
    [I16, I16, I16, I16, I32, I64, F16, BF, F32, F64, C64, C128],
    [I32, I32, I32, I32, I32, I64, F16, BF, F32, F64, C64, C128],
    [I64, I64, I64, I64, I64, I64, F16, BF, F32, F64, C64, C128],
    [F16, F16, F16, F16, F16, F16, F16, F32, F32, F64, C64, C128],
    [BF, BF, BF, BF, BF, BF, F32, BF, F32, F64, C64, C128],
    [F32, F32, F32, F32, F32, F32, F32, F32, F32, F64, C64, C128],
    [F64, F64, F64, F64, F64, F64, F64, F64, F64, F64, C128, C128],
    [C64, C64, C64, C64, C64, C64, C64, C64, C64, C128, C64, C128],
    [C128, C128, C128, C128, C128, C128, C128, C128, C128, C128, C128, C128],
]


def dtype(name: str) -> np.dtype:
    return np.dtype(ml_dtypes.bfloat16) if name == "bfloat16" else np.dtype(name)


def test_promote_types_is_torchs_table() -> None:
    for i, j in itertools.product(range(12), repeat=2):
        assert dtypes.promote_types(dtype(NAMES[i]), dtype(NAMES[j])).name == NAMES[TABLE[i][j]]


def vector(name: str) -> Any:
    """What makes a vector of that dtype, on the device that the test runs on."""
    return lambda: gradlib.zeros(2, dtype=name)


def number(name: str) -> Any:
    """The same for a 0-d tensor."""
    return lambda: gradlib.zeros((), dtype=name)


@pytest.mark.parametrize(
    ("operands", "expected"),
    [
        ((vector("float32"), number("float64")), "float32"),  # a 0-d tensor does not promote within a category
        ((vector("int64"), number("float64")), "float64"),
        ((vector("int8"), number("int64")), "int8"),
        ((vector("bool"), number("int16")), "int16"),
        ((vector("int64"), vector("float16")), "float16"),
        ((vector("float16"), 3.5), "float16"),
        ((vector("int32"), 3.5), "float32"),  # a Python float is of the default dtype
        ((vector("int32"), 3), "int32"),
        ((vector("bool"), 3), "int64"),
        ((vector("bool"), True), "bool"),
        ((vector("float64"), 1j), "complex128"),
        ((vector("float32"), number("complex128")), "complex64"),
        ((number("float32"), number("float64")), "float64"),
    ],
)
def test_result_type_puts_dimensions_before_scalars(operands: tuple[Any, ...], expected: str) -> None:
    made = [operand() if callable(operand) else operand for operand in operands]
    for given in (made, [raw(operand) for operand in made]):
        assert dtypes.result_type(*given).name == expected
        assert dtypes.result_type(*reversed(given)).name == expected


def test_default_dtype_decides_python_floats() -> None:
    gradlib.set_default_dtype(gradlib.float64)
    assert dtypes.result_type(gradlib.zeros(2, dtype="int32"), 3.5) == gradlib.float64
    gradlib.set_default_dtype(gradlib.float32)
    with pytest.raises(TypeError, match="floating-point"):
        gradlib.set_default_dtype(gradlib.int64)


@pytest.mark.parametrize(
    ("source", "target", "expected"),
    [
        ("int64", "uint8", True),
        ("float64", "float32", True),
        ("float32", "int64", False),
        ("complex64", "float64", False),
        ("int8", "bool", False),
    ],
)
def test_can_cast_never_goes_down_a_category(source: str, target: str, expected: bool) -> None:
    assert dtypes.can_cast(source, target) is expected


def test_dtype_arguments() -> None:
    assert dtypes.as_dtype(float) == np.float64
    assert dtypes.as_dtype("float32") is dtypes.float32
    assert dtypes.as_dtype(">f4") is dtypes.float32
    with pytest.raises(TypeError, match="object"):
        dtypes.as_dtype(object)


def test_a_numpy_scalar_is_a_number_and_promotes_nothing() -> None:
    for scalar in (np.float64(0.5), np.float32(0.5), np.int64(2), np.sqrt(2)):
        assert (gradlib.ones(2) * scalar).dtype == gradlib.float32
        assert (scalar * gradlib.ones(2)).dtype == gradlib.float32
        assert gradlib.nn.functional.leaky_relu(gradlib.ones(2), scalar).dtype == gradlib.float32
    assert (gradlib.ones(2, dtype="complex64") * np.complex128(1j)).dtype == gradlib.complex64
