"""Comparisons, logic, bits, agreement."""

from __future__ import annotations

import operator
from typing import Any

import numpy as np

import gradlib
from tests.ops.case import Case


def whole(*shapes: tuple[int, ...]) -> Any:
    """Small integers as floats, so that many pairs are equal."""
    return lambda rng: [rng.integers(-2, 3, shape).astype(float) for shape in shapes]


def integers(*shapes: tuple[int, ...]) -> Any:
    return lambda rng: [rng.integers(-9, 10, shape) for shape in shapes]


def masks(*shapes: tuple[int, ...]) -> Any:
    return lambda rng: [rng.random(shape) < 0.5 for shape in shapes]


def shifts(rng: np.random.Generator) -> list[np.ndarray]:
    return [rng.integers(-99, 100, (3, 4)), rng.integers(0, 5, (4,))]


ALL = ("float64", "float32", "float16", "bfloat16")
PAIR = ((2, 1, 4), (3, 1))
LOGIC = {"logical_and": operator.and_, "logical_or": operator.or_, "logical_xor": operator.xor}
BITS = {"bitwise_and": operator.and_, "bitwise_or": operator.or_, "bitwise_xor": operator.xor}

CASES = [
    *(
        Case(name, getattr(gradlib, name), whole(*PAIR), getattr(operator, name), differentiable=False, dtypes=ALL)
        for name in ("eq", "ne", "lt", "le", "gt", "ge")
    ),
    *(
        Case(name, getattr(operator, name), integers(*PAIR), lambda a, b, n=name: getattr(a, f"__{n}__")(b), label="operator, integers")
        for name in ("eq", "ne", "lt", "le", "gt", "ge")
    ),
    Case("logical_not", gradlib.logical_not, whole((3, 4)), lambda a: a == 0, differentiable=False, dtypes=ALL, complex=True),
    *(
        Case(
            name, getattr(gradlib, name), whole(*PAIR), lambda a, b, f=f: f(a != 0, b != 0), differentiable=False, dtypes=ALL, complex=True
        )
        for name, f in LOGIC.items()
    ),
    Case("bitwise_not", gradlib.bitwise_not, integers((3, 4)), lambda a: -1 - a, label="integers"),
    Case("bitwise_not", lambda a: ~a, masks((3, 4)), lambda a: a == False, label="operator, bool"),  # noqa: E712
    *(Case(name, getattr(gradlib, name), integers(*PAIR), f, label="integers") for name, f in BITS.items()),
    *(Case(name, f, masks(*PAIR), lambda a, b, n=name: getattr(np, n)(a, b), label="operator, bool") for name, f in BITS.items()),
    Case("bitwise_left_shift", gradlib.bitwise_left_shift, shifts, lambda a, b: a * 2**b),
    Case("bitwise_right_shift", lambda a, b: a >> b, shifts, lambda a, b: a // 2**b),
    Case("isclose", gradlib.isclose, whole(*PAIR), np.isclose, differentiable=False),
    Case("allclose", lambda a: a + gradlib.allclose(a, a), integers((3, 4)), lambda a: a + 1),
    Case("equal", lambda a: a + gradlib.equal(a, a), integers((3, 4)), lambda a: a + 1),
]  # fmt: skip
