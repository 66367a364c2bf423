"""``grad``: gradients as return values, also for a batch of cotangents."""

from __future__ import annotations

import warnings
from typing import Any

from gradlib.core.backward import as_tuple, grad as gradient
from gradlib.func.batching import over_rows


def grad(
    outputs: Any,
    inputs: Any,
    grad_outputs: Any = None,
    retain_graph: bool | None = None,
    create_graph: bool = False,
    only_inputs: bool = True,
    allow_unused: bool | None = None,
    is_grads_batched: bool = False,
    materialize_grads: bool = False,
) -> Any:
    """The gradients of outputs with respect to inputs, returned rather than accumulated.

    Args:
        outputs, inputs: a Tensor (or ``graph.GradientEdge``), or several in any iterable; inputs may be a dict.
        grad_outputs: a cotangent for each output, or None for scalars.
        retain_graph, create_graph: as in ``backward``.
        only_inputs: has no effect, as in torch; False warns.
        allow_unused: give None for an input that the outputs do not depend on, instead of an error.
        is_grads_batched: each cotangent has one more dimension in front, and so has each result: many products in one walk.
        materialize_grads: give zeros for such an input.
    Returns: a tuple with a gradient for each input, of its shape and dtype; a dict of them for a dict.
    Raises: RuntimeError for an unused input unless allowed, and as ``backward`` does; ValueError for ``materialize_grads`` with
        ``allow_unused=False``.
    Source: torch.autograd.grad.
    Example:
        >>> x = gradlib.tensor([1.0, 2.0], requires_grad=True)
        >>> (dx,) = gradlib.autograd.grad((x**3).sum(), (x,), create_graph=True)
        >>> dx
        tensor([ 3., 12.], grad_fn=<MulBackward0>)
        >>> gradlib.autograd.grad(dx.sum(), (x,))
        (tensor([ 6., 12.]),)
    """
    if materialize_grads or not only_inputs:
        _check_options(only_inputs, allow_unused, materialize_grads)
    if not is_grads_batched:
        return gradient(outputs, inputs, grad_outputs, retain_graph, create_graph, allow_unused, materialize_grads)

    def of_row(*given: Any) -> tuple[Any, ...]:
        found = gradient(outputs, inputs, given, retain_graph, create_graph, allow_unused, materialize_grads)
        return tuple(found.values()) if type(inputs) is dict else found

    rows = over_rows(of_row, as_tuple(grad_outputs))
    return dict(zip(inputs, rows, strict=True)) if type(inputs) is dict else rows


def _check_options(only_inputs: bool, allow_unused: bool | None, materialize_grads: bool) -> None:
    if materialize_grads and allow_unused is False:
        raise ValueError("Expected allow_unused to be True or not passed when materialize_grads=True, but got: allow_unused=False.")
    if not only_inputs:
        warnings.warn(
            "only_inputs argument is deprecated and is ignored now (defaults to True). To accumulate gradient for other parts of the "
            "graph, please use backward.",
            FutureWarning,
            stacklevel=3,
        )
