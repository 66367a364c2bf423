"""High even powers and their sums as differentiable operations: the planner replaces a maximum by a norm of that power."""

from __future__ import annotations

import numpy as np

from gradlib.backend.array import Array, Namespace
from gradlib.core.op import op
from gradlib.ops.reduce import spread


def _slope(input: Array, out: Array, doublings: int) -> Array:
    """2**doublings input**(2**doublings - 1), as a quotient; where input is 0, so is the power, and it is not divided by 0."""
    with np.errstate(over="ignore", under="ignore", invalid="ignore"):
        return out / (input + float(np.finfo(out.dtype).smallest_normal)) * 2.0**doublings


@op(
    "elementwise", name="trajopt_power", method=False, complex="none",
    input=lambda g, input, out, doublings: g * _slope(input, out, doublings),
)  # fmt: skip
def even_power(xp: Namespace, input: Array, doublings: int) -> Array:
    """Each element to the power 2**doublings, by squaring: ``pow`` takes fifty times as long.

    Args:
        input: any shape, real; doublings: at least 1.
    """
    with np.errstate(over="ignore", under="ignore"):  # infinity is an answer, and so is zero
        made = input * input
        for _ in range(doublings - 1):
            xp.multiply(made, made, out=made)
    return made


@op(
    "linear", name="trajopt_sum", method=False, complex="none",
    input=lambda g, input_shape: spread(g, input_shape, tuple(range(1, len(input_shape)))),
)  # fmt: skip
def sum_of_each(xp: Namespace, input: Array) -> Array:
    """The sum of each problem's elements (B,), the same bits whichever others share its batch: ``sum`` adds up many rows in another order.

    Args:
        input: (B, ...), real.
    """
    return xp.add.reduce(input.reshape(len(input), -1), axis=1)
