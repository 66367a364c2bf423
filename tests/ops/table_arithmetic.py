"""Pointwise operations of several inputs that calculate."""

from __future__ import annotations

from typing import Any

import numpy as np

import gradlib
from gradlib.ops.arithmetic import add_scaled
from tests.ops.case import Case, normal, spread, uniform

ALL = ("float64", "float32", "float16", "bfloat16")
WIDE = ((2, 1, 4), (3, 1))
"""Shapes that both broadcast."""


def away(*shapes: tuple[int, ...]) -> Any:
    """Numerators of any sign, and divisors (the last shape) with quotients away from whole numbers."""

    def draw(rng: np.random.Generator) -> list[np.ndarray]:
        divisor = rng.choice([-1.5, 1.25, 2.0], shapes[-1])
        return [(rng.integers(-4, 5, shapes[0]) + rng.uniform(0.2, 0.8, shapes[0])) * divisor, divisor]

    return draw


def log_add(a: Any, b: Any) -> Any:
    return np.log(np.exp(a) + np.exp(b))


CASES = [
    Case("add", lambda a, b: a + b, normal(*WIDE), lambda a, b: a - -b, complex=True, dtypes=ALL),
    Case("add", lambda a: 2 + (a + 1.5), normal((3,)), lambda a: a - -3.5, complex=True, dtypes=ALL, label="number"),
    Case("add", lambda a, b: gradlib.add(a, b, alpha=-3), normal((3,), (2, 3)), lambda a, b: a - 3 * b, complex=True, label="alpha"),
    Case("add", lambda a, b: a + b, normal((0, 3), (3,)), lambda a, b: a, label="empty"),
    Case("add", lambda a, b: a + b, normal((), ()), lambda a, b: a - -b, label="0-d"),
    Case("sub", lambda a, b: a - b, normal(*WIDE), lambda a, b: a + -b, complex=True, dtypes=ALL),
    Case("sub", lambda a, b: gradlib.sub(a, b, alpha=0.5), normal((3,), (2, 3)), lambda a, b: a - b / 2, complex=True, label="alpha"),
    Case("rsub", lambda a: 2 - a, normal((3,)), lambda a: -(a - 2), complex=True, dtypes=ALL, label="operator"),
    Case("add_scaled", lambda a, b: add_scaled(a, b, -3, 0.5), normal((3,), (2, 3)), lambda a, b: a / 2 - 3 * b),
    Case("rsub", lambda a, b: gradlib.rsub(a, b, alpha=2), normal(*WIDE), lambda a, b: b - 2 * a, complex=True, label="alpha"),
    Case("mul", lambda a, b: a * b, normal(*WIDE), lambda a, b: b * a, complex=True, dtypes=ALL),
    Case("mul", lambda a: 2 * a * -1.5, normal((3,)), lambda a: a * -3, complex=True, dtypes=ALL, label="number"),
    Case("div", lambda a, b: a / b, uniform(0.5, 2, *WIDE), lambda a, b: a * b**-1.0, complex=True, dtypes=ALL),
    Case("div", lambda a: a / 4, normal((3,)), lambda a: a * 0.25, complex=True, dtypes=ALL, label="number"),
    Case("true_divide", gradlib.true_divide, uniform(0.5, 2, *WIDE), lambda a, b: a * b**-1.0, complex=True),
    Case("rdiv", lambda a: 3 / a, uniform(0.5, 2, (3, 4)), lambda a: 3 * a**-1.0, complex=True, dtypes=ALL),
    Case("rdiv", lambda a, b: a.__rtruediv__(b), uniform(0.5, 2, *WIDE), lambda a, b: b * a**-1.0, complex=True, label="two"),
    Case("floor_divide", lambda a, b: a // b, away((3, 4), (4,)), lambda a, b: np.floor(a / b), second=False),
    Case(
        "floor_divide", lambda a, b: gradlib.div(a, b, rounding_mode="floor"), away((3, 4), (4,)), lambda a, b: np.floor(a / b),
        second=False, label="mode",
    ),
    Case(
        "trunc_divide", lambda a, b: gradlib.div(a, b, rounding_mode="trunc"), away((3, 4), (4,)), lambda a, b: np.trunc(a / b),
        second=False,
    ),
    Case("remainder", lambda a, b: a % b, away((3, 4), (4,)), lambda a, b: a - b * np.floor(a / b), second=False),
    Case("remainder", lambda a: a % 0.75, spread((3, 4)), lambda a: a - 0.75 * np.floor(a / 0.75), label="number"),
    Case("modulo", lambda a, b: np.remainder(a, b), away((3, 4), (4,)), lambda a, b: a - b * np.floor(a / b), second=False),
    Case("fmod", gradlib.fmod, away((3, 4), (4,)), lambda a, b: a - b * np.trunc(a / b), second=False),
    Case(
        "pow", lambda a, b: a**b, lambda rng: [rng.uniform(0.5, 2, (2, 1, 4)), rng.uniform(-2, 2, (3, 1))],
        lambda a, b: np.exp(b * np.log(a)), complex=True,
    ),
    Case("rpow", lambda a: 2.5**a, uniform(-1, 1, (3, 4)), lambda a: np.exp(a * np.log(2.5)), complex=True, dtypes=ALL),
    Case(
        "rpow", lambda a, b: a.__rpow__(b), lambda rng: [rng.uniform(-2, 2, (3, 1)), rng.uniform(0.5, 2, 4)], lambda a, b: b**a,
        label="two",
    ),
    *(
        Case(
            "pow", lambda a, n=n: gradlib.pow(a, n), uniform(0.5, 2, (3, 4)), lambda a, n=n: np.exp(n * np.log(a)), complex=True,
            dtypes=("float64", "float32"), label=f"exponent {n}", second=n not in (0, 1),
        )
        for n in (0, 1, 2, 3, -1, 0.5, -2, 1.7)
    ),
    Case("pow", lambda a: a**2, lambda rng: [rng.integers(-5, 6, 6)], lambda a: a * a, label="integers"),
    Case("copysign", gradlib.copysign, spread((2, 1, 4), (3, 1)), lambda a, b: np.abs(a) * np.sign(b), dtypes=ALL),
    Case(
        "nextafter", gradlib.nextafter, spread((2, 1, 4), (3, 1)), np.nextafter, differentiable=False, dtypes=("float64",), tolerance=0,
    ),
    Case("atan2", gradlib.atan2, spread((2, 1, 4), (3, 1)), lambda a, b: np.angle(b + 1j * a), dtypes=ALL),
    Case("hypot", gradlib.hypot, spread((2, 1, 4), (3, 1)), lambda a, b: np.sqrt(a * a + b * b), dtypes=ALL),
    Case("logaddexp", gradlib.logaddexp, uniform(-1, 1, *WIDE), log_add, complex=True, dtypes=ALL),
    *(
        Case(
            "lerp", lambda a, b, w=w: gradlib.lerp(a, b, w), normal(*WIDE), lambda a, b, w=w: a * (1 - w) + b * w, complex=True,
            label=f"weight {w}",
        )
        for w in (0.25, 0.75)
    ),
    Case("lerp", gradlib.lerp, uniform(-1, 1, *WIDE, (4,)), lambda a, b, w: a * (1 - w) + b * w, complex=True, label="tensor"),
    Case("addcmul", gradlib.addcmul, normal((3, 4), (4,), (3, 1)), lambda a, b, c: a + b * c, complex=True),
    Case(
        "addcmul", lambda a, b, c: gradlib.addcmul(a, b, c, value=-2), normal((3, 4), (4,), (3, 1)), lambda a, b, c: a - 2 * b * c,
        complex=True, label="value",
    ),
    Case("addcdiv", gradlib.addcdiv, uniform(0.5, 2, (3, 4), (4,), (3, 1)), lambda a, b, c: a + b / c, complex=True),
    Case(
        "addcdiv", lambda a, b, c: gradlib.addcdiv(a, b, c, value=0.5), uniform(0.5, 2, (3, 4), (4,), (3, 1)),
        lambda a, b, c: a + b / c / 2, complex=True, label="value",
    ),
]  # fmt: skip
