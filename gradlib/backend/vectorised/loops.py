"""Of which functions NumPy has vector loops on this processor: with AVX512 it calls Intel's SVML, and no form takes less time than that."""

from __future__ import annotations

import itertools
import sys

import numpy as np

_TARGETS = ("AVX512_SKX", "X86_V4")
"""NumPy's names of the processors for which it calls SVML: the second since NumPy 2.4."""
FUNCTIONS = (
    "arccos", "arccosh", "arcsin", "arcsinh", "arctan", "arctan2", "arctanh", "cbrt", "cosh", "exp2", "expm1", "log10", "log1p", "log2",
    "power", "sinh", "tan",
)  # fmt: skip


def found() -> frozenset[tuple[str, str]]:
    """Each function with the characters of the dtypes whose loops are SVML's, by what NumPy dispatches to."""
    if sys.platform != "linux":  # elsewhere NumPy is built without SVML: it dispatches to plain loops, built for the same processors
        return frozenset()
    targets = np.lib.introspect.opt_func_info()
    return frozenset(
        (name, char)
        for name, char in itertools.product(FUNCTIONS, "fd")
        for signature, found in targets.get(name, {}).items()
        if signature[0] == char and any(target in found["current"] for target in _TARGETS)
    )


VECTOR = found()
"""Functions, each with the character of a dtype, that NumPy computes several elements at once: there, forms are not used."""


def is_vector(name: str, char: str) -> bool:
    """Whether NumPy has a vector loop of a function for the dtype with a character."""
    return (name, char) in VECTOR
