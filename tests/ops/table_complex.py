"""The parts of complex numbers, and complex numbers from parts."""

from __future__ import annotations

from typing import Any

import numpy as np

import gradlib
from tests.ops.case import Case, normal, spread


def made(function: Any) -> Any:
    """The function of a complex tensor as one of its real and imaginary part."""
    return lambda a, b: function(gradlib.complex(a, b))


CASES = [
    Case("complex", gradlib.complex, normal((2, 1, 4), (3, 1)), lambda a, b: a + 1j * b),
    Case("complex", gradlib.complex, normal((), ()), lambda a, b: a + 1j * b, label="0-d"),
    Case("complex", gradlib.complex, normal((0, 2), (2,)), lambda a, b: a + 1j * b, label="empty"),
    Case("real", gradlib.real, normal((3, 4)), lambda a: (a + np.conj(a)) / 2, complex=True),
    Case("real", made(lambda z: z.real), normal((3, 4), (3, 4)), lambda a, b: a, label="property"),
    Case("imag", made(gradlib.imag), normal((3, 4), (3, 4)), lambda a, b: b),
    Case("imag", made(lambda z: z.imag * gradlib.sin(z.imag)), normal((3, 4), (3, 4)), lambda a, b: b * np.sin(b), label="property"),
    Case("conj", gradlib.conj, normal((3, 4)), lambda a: a.real - 1j * a.imag if np.iscomplexobj(a) else a.copy(), complex=True),
    Case("conj_physical", made(gradlib.conj_physical), normal((3, 4), (3, 4)), lambda a, b: a - 1j * b),
    Case("conj_physical", gradlib.conj_physical, normal((3, 4)), lambda a: a.copy(), label="real"),
    Case("resolve_conj", gradlib.resolve_conj, normal((3, 4)), lambda a: a.copy(), complex=True),
    Case("angle", made(gradlib.angle), spread((3, 4), (3, 4)), lambda a, b: np.arctan(b / a) + np.pi * np.sign(b) * (a < 0)),
    Case("angle", gradlib.angle, spread((3, 4)), lambda a: np.pi * (a < 0), second=False, label="real"),
]  # fmt: skip
