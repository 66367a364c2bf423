"""Ufuncs and reductions over all pairs of dtypes and many shapes: what NumPy gives for the arrays, in dtype, shape and value."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.numpy.registry import name_of
from gradlib.numpy.ufuncs import DIRECT

pytestmark = [pytest.mark.host, pytest.mark.nonfinite, pytest.mark.filterwarnings("ignore")]

DTYPES = "? B b h i l e f d F D".split()  # noqa: SIM905
TOLERANCES = {"e": 2e-2, "f": 1e-5, "F": 1e-5}
ORDERING = {np.maximum, np.minimum, np.fmax, np.fmin, np.less, np.less_equal, np.greater, np.greater_equal}
"""Of complex numbers NumPy orders pairs of parts; gradlib, as torch, refuses."""

DIVIDING = {np.floor_divide, np.remainder, np.fmod, np.divmod}
"""Of integers by zero NumPy warns and gives 0; gradlib, as torch, refuses."""


def drawn(rng: np.random.Generator, code: str) -> np.ndarray:
    whole = rng.integers(0 if code in "?B" else -3, 4, 6)
    return (whole + 1j * rng.integers(-2, 3, 6) if code in "FD" else whole).astype(code)


def outcome(function: Any, args: list[Any]) -> Any:
    """The results, or the error."""
    try:
        found = function(*args)
    except (TypeError, ValueError, NotImplementedError, RuntimeError) as error:
        return error
    return found if isinstance(found, tuple) else (found,)


def agrees(function: Any, args: list[Any]) -> None:
    """Compare what NumPy gives for arrays with what it gives for Tensors."""
    want = outcome(function, args)
    found = outcome(function, [gradlib.from_numpy(a.copy()) if isinstance(a, np.ndarray) else a for a in args])
    if isinstance(want, Exception):
        assert isinstance(found, Exception), (args, want)
        return
    assert not isinstance(found, Exception), (args, found)
    for got, expected in zip(found, map(np.asarray, want), strict=True):
        assert got.dtype == expected.dtype, args
        tolerance = TOLERANCES.get(expected.dtype.char, 1e-10)
        np.testing.assert_allclose(got.numpy(), expected, rtol=tolerance, atol=tolerance, err_msg=str(args))


@pytest.mark.parametrize("function", [f for f in DIRECT if f.nin == 1], ids=name_of)
def test_a_ufunc_of_one_operand_takes_each_dtype_as_numpys(function, rng):
    for code in DTYPES:
        agrees(function, [drawn(rng, code)])


@pytest.mark.parametrize("function", [f for f in DIRECT if f.nin == 2 and not f.signature], ids=name_of)
def test_a_ufunc_of_two_operands_takes_each_pair_of_dtypes_as_numpys(function, rng):
    operands = [[drawn(rng, a), drawn(rng, b)] for a, b in itertools.product(DTYPES, DTYPES)]
    operands += [[drawn(rng, a), number] for a in DTYPES for number in (2, 1.5, True)] + [[2, drawn(rng, a)] for a in DTYPES]
    for pair in operands:
        if function in ORDERING and any(np.asarray(x).dtype.kind == "c" for x in pair):
            continue
        if function in DIVIDING and not np.all(pair[1]):
            pair[1] = np.asarray(pair[1]) | 1 if np.asarray(pair[1]).dtype.kind in "biu" else pair[1]
        agrees(function, pair)


SHAPES = [(), (1,), (0,), (4,), (2, 3), (3, 0), (0, 2), (2, 1, 3), (2, 3, 2)]
REDUCTIONS = [
    np.sum, np.prod, np.max, np.min, np.mean, np.var, np.std, np.all, np.any, np.median, np.nansum, np.nanprod, np.nanmean, np.linalg.norm,
]  # fmt: skip


@pytest.mark.parametrize("function", REDUCTIONS, ids=name_of)
def test_a_reduction_of_any_shape_along_any_axes_gives_what_numpys_gives(function, rng):
    for shape, code in itertools.product(SHAPES, "fdil"):
        array = np.asarray(rng.normal(size=shape) * 3).astype(code)
        axes = [None, *range(len(shape))] + ([(0, -1)] if len(shape) > 1 and function is not np.linalg.norm else [])
        for axis, keepdims in itertools.product(axes, (False, True)):
            agrees(lambda x, axis=axis, keepdims=keepdims: function(x, axis=axis, keepdims=keepdims), [array])
