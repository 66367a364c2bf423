"""Products of many small matrices: NumPy goes from pair to pair, which costs more than the few products of numbers in each.

Here a product of two numbers is taken of all pairs at once, and added to the ones before it in the same order.
"""

from __future__ import annotations

import math

import numpy as np

from gradlib.backend.array import Array

_PRODUCTS = 27
"""The most products of numbers in one of matrices: three on a side."""
LEAST = 1 << 11
"""The fewest matrices for which it is worth the calls."""
_AT_ONCE = 1 << 12
"""How many stay in the cache."""


def multiplied(a: Array, b: Array) -> Array | None:
    """``a @ b`` for NumPy's stacks of as many matrices, with more than two dimensions.

    Returns: None where NumPy takes less time, and for all else.
    """
    shape, (rows, inner), columns = a.shape[:-2], a.shape[-2:], b.shape[-1]
    if not 0 < rows * inner * columns <= _PRODUCTS or math.prod(shape) < LEAST or b.shape[:-1] != (*shape, inner):
        return None
    if a.dtype is not b.dtype or a.dtype.char not in "fd":
        return None
    made = np.empty((*shape, rows, columns), a.dtype)
    left, right, results = a.reshape(-1, rows, inner), b.reshape(-1, inner, columns), made.reshape(-1, rows, columns)
    for begin in range(0, len(left), _AT_ONCE):
        _multiply(left[begin : begin + _AT_ONCE], right[begin : begin + _AT_ONCE], results[begin : begin + _AT_ONCE])
    return made


def _multiply(left: Array, right: Array, results: Array) -> None:
    inner, total, product = left.shape[2], *np.empty((2, len(left)), left.dtype)
    for row in range(left.shape[1]):
        for column in range(right.shape[2]):
            result = results[:, row, column]
            np.multiply(left[:, row, 0], right[:, 0, column], out=result if inner == 1 else total)
            for place in range(1, inner):
                np.multiply(left[:, row, place], right[:, place, column], out=product)
                np.add(total, product, out=result if place == inner - 1 else total)
