"""``check_grads``: derivatives of functions of arrays against differences."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradlib.func.tree import flatten, map_leaves
from gradlib.interop.hips.operators import make_jvp, make_vjp, named, of_functions
from gradlib.interop.hips.tracing import as_leaf

__all__ = ["check_grads"]

_TOLERANCE = 1e-6
_STEP = 1e-6


@of_functions
def check_grads(fun: Callable[..., Any], x: Any, modes: Sequence[str] = ("fwd", "rev"), order: int = 2) -> None:
    """Compare a function's derivatives with differences, in random directions: ``check_grads(fun, argnum, modes=["rev"])(*args)``.

    Args:
        fun: a function of float64 or complex128 arrays, numbers and nests of them.
        argnum: which of its arguments is x, with respect to which it is differentiated; or a tuple of several.
        modes: "fwd", "rev" or both.
        order: of how many derivatives.
    Returns: a function of fun's arguments.
    Raises: ValueError for another mode; AssertionError, when called, for derivatives that differ from the differences by a millionth.
    Source: autograd.test_util.check_grads.
    Example:
        >>> gradlib.check_grads(numpy.sin)(numpy.array([0.5, 1.0]))
    """
    if not set(modes) <= {"fwd", "rev"}:
        raise ValueError(f"modes are 'fwd' and 'rev', got {list(modes)}")
    rng = np.random.default_rng(0)
    v = _random(x, rng)
    value, difference = fun(x), _difference(fun, x, v)
    if "fwd" in modes:
        _assert_close(_inner(difference, w := _random(value, rng)), _inner(make_jvp(fun)(x)(v)[1], w), fun, x, "JVP")
        if order > 1:
            check_grads(named(fun, "jvp_{}")(lambda x, v: make_jvp(fun)(x)(v)[1]), (0, 1), modes, order - 1)(x, v)
    if "rev" in modes:
        g = _random(value, rng)
        pulled = make_vjp(fun)(x)[0](_conjugate(g))
        _assert_same_nest(pulled, x)
        _assert_close(_inner(g, difference), _inner(v, _conjugate(pulled)), fun, x, "VJP")
        if order > 1:
            check_grads(named(fun, "vjp_{}")(lambda x, g: make_vjp(fun)(x)[0](g)), (0, 1), modes, order - 1)(x, g)


def _host(leaf: Any) -> np.ndarray:
    array: np.ndarray = as_leaf(leaf).detach().cpu().numpy()
    return array


def _random(value: Any, rng: np.random.Generator) -> Any:
    """A nest of random numbers of the shapes and devices of a nest's leaves."""

    def like(leaf: Any) -> Any:
        tensor = as_leaf(leaf)
        made = np.asarray(rng.standard_normal(tensor.shape))
        if tensor.is_complex():
            made = made + 1j * rng.standard_normal(tensor.shape)
        found = tensor.new_tensor(made)
        return found._array if found.is_cuda or found.ndim else found._array[()]

    return map_leaves(like, value)


def _difference(fun: Callable[..., Any], x: Any, v: Any) -> Any:
    ahead, behind = (fun(map_leaves(lambda a, b, s=sign: a + b * (s * _STEP / 2), x, v)) for sign in (1, -1))
    return map_leaves(lambda a, b: (a - b) / _STEP, ahead, behind)


def _conjugate(nest: Any) -> Any:
    return map_leaves(lambda leaf: leaf.conj() if as_leaf(leaf).is_complex() else leaf, nest)


def _inner(a: Any, b: Any) -> float:
    """The real inner product of two nests."""
    pairs = zip(flatten(a)[0], flatten(b)[0], strict=True)
    return float(sum(np.sum(np.real(np.conj(_host(p)) * _host(q))) for p, q in pairs))


def _assert_close(numeric: float, analytic: float, fun: Any, x: Any, kind: str) -> None:
    apart = abs(numeric - analytic)
    if not (apart < _TOLERANCE or apart / abs(numeric + analytic) < _TOLERANCE):
        raise AssertionError(
            f"Derivative ({kind}) check of {getattr(fun, '__name__', fun)} failed with arg {x}:\nanalytic: {analytic}\nnumeric:  {numeric}"
        )


def _assert_same_nest(pulled: Any, x: Any) -> None:
    (found, nest), (wanted, like) = flatten(pulled), flatten(x)
    shapes = [[_host(each).shape for each in leaves] for leaves in (found, wanted)]
    if nest != like or shapes[0] != shapes[1]:
        raise AssertionError(f"a gradient is nested as its argument: {like} of shapes {shapes[1]}; got {nest} of shapes {shapes[0]}")
