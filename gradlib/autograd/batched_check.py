"""The comparisons of ``gradcheck`` for ``check_batched_grad``: derivatives under vmap against a loop."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from gradlib.autograd import forward_ad
from gradlib.autograd.numerical import probe
from gradlib.backend.array import move
from gradlib.core.backward import as_tuple, grad
from gradlib.core.tensor import Tensor, wrap
from gradlib.func.batching import vmap
from gradlib.ops.join import stack

_ROWS = 10


def batched_gradients(outputs: list[Tensor], wanted: list[Tensor], rng: np.random.Generator) -> Iterable[str]:
    """Compare gradients under vmap with a loop. Yields: a text for each difference."""
    for number, output in enumerate(outputs):

        def back(g: Tensor, output: Tensor = output) -> tuple[Any, ...]:
            return grad(output, wanted, g, retain_graph=True, allow_unused=True)

        rows = [wrap(probe(output._array, rng, signed=True)) for _ in range(_ROWS)]
        yield from _compared(f"output {number}", back, rows)


def batched_tangents(
    func: Callable[..., Any], inputs: tuple[Any, ...], numbers: list[int], places: list[int], rng: np.random.Generator
) -> Iterable[str]:
    """The same in forward mode, for each input."""
    for number in numbers:
        primal = inputs[number].detach()

        def ahead(t: Tensor, number: int = number, primal: Tensor = primal) -> tuple[Any, ...]:
            moved = [x.detach() if isinstance(x, Tensor) else x for x in inputs]
            with forward_ad.dual_level():
                moved[number] = forward_ad.make_dual(primal, t)
                results = as_tuple(func(*moved))
                return tuple(forward_ad.unpack_dual(results[k]).tangent for k in places)

        rows = [wrap(probe(primal._array, rng, signed=True)) for _ in range(_ROWS)]
        yield from _compared(f"input {number}", ahead, rows)


def _compared(what: str, function: Callable[[Tensor], tuple[Any, ...]], rows: list[Tensor]) -> Iterable[str]:
    """Compare ``function`` under vmap with a loop. Yields: a text for each difference."""
    expected = [function(row) for row in rows]
    there = [k for k, value in enumerate(expected[0]) if value is not None]
    try:
        found = vmap(lambda row: tuple(function(row)[k] for k in there))(stack(rows))
    except RuntimeError as error:
        yield f"While computing batched gradients for {what}, got: {error}"
        return
    for k, made in zip(there, found, strict=True):
        wanted = np.stack([move(each[k]._array, None) for each in expected])
        if not np.allclose(move(made._array, None), wanted, rtol=1e-5, atol=1e-8):
            yield f"Batched gradients for {what} differ from those of one row at a time (result {k}). Got:\n{made}\nExpected:\n{wanted}"
