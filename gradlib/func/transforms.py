"""Transforms of functions: gradients, and vector-Jacobian and Jacobian-vector products. Source: torch.func."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from gradlib.backend.dtype import is_differentiable
from gradlib.core.backward import grad as gradient
from gradlib.core.batched import broadcast_as
from gradlib.core.forward import ForwardLevel
from gradlib.core.modes import as_outside, next_seq, noting_pauses, recording, thread_state
from gradlib.core.tensor import Tensor
from gradlib.func.leaves import (
    deactivate,
    differentiable_input,
    differentiating,
    mark_writable,
    requires_outer_grad,
    unwrap,
    writable_alias,
)
from gradlib.func.tree import Structure, flatten, map_leaves, unflatten
from gradlib.ops.create import zeros_like

__all__ = ["grad", "grad_and_value", "jvp", "linearize", "vjp"]

Argnums = int | tuple[int, ...]


def grad_and_value(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that computes the gradient and the value of a scalar function.

    Args:
        func: returns a 0-d floating Tensor; with has_aux a pair of that and anything else.
        argnums: which argument (or arguments) to differentiate by; each a Tensor or a nest of Tensors.
        has_aux: whether func returns more than its value.
    Returns: a function of func's arguments that returns (gradient, value), or (gradient, (value, aux)). The gradient is nested as the
        argument is; for several argnums a tuple.
    Raises: RuntimeError, when the returned function is called and its result is no 0-d Tensor.
    Source: torch.func.grad_and_value.
    Example:
        >>> gradlib.func.grad_and_value(lambda x: (x**2).sum())(gradlib.tensor([1.0, 2.0]))
        (tensor([2., 4.]), tensor(5.))
    """

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        outside, inside = thread_state.grad_enabled, differentiating()
        since = inside.since
        with inside, recording(True):
            opened, leaves, structure = _wrapped_inputs(args, argnums)
            made = func(*opened, **map_leaves(writable_alias, kwargs))
            value, aux = _with_aux(made, has_aux, "grad_and_value(f)(*args)")
            _check_scalar(value)
            deactivate(leaves)
            found = _gradients(value, leaves, None, outside and requires_outer_grad(value, since=since), not outside)
        gradients = unflatten([unwrap(g, since, outside) for g in found], structure)
        value, aux = unwrap(value, since, outside), map_leaves(lambda each: unwrap(each, since, outside), aux)
        return (gradients, (value, aux)) if has_aux else (gradients, value)

    return wrapper


def grad(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False) -> Callable[..., Any]:
    """A function that computes the gradient of a scalar function. It can be transformed again, also by ``vmap``.

    Args:
        func, argnums, has_aux: as for ``grad_and_value``.
    Returns: a function of func's arguments that returns the gradient, or (gradient, aux).
    Source: torch.func.grad.
    Example:
        >>> gradlib.func.grad(lambda x: (x**2).sum())(gradlib.tensor([1.0, 2.0]))
        tensor([2., 4.])
    """
    both = grad_and_value(func, argnums, has_aux)

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        gradients, value = both(*args, **kwargs)
        return (gradients, value[1]) if has_aux else gradients

    return wrapper


def vjp(func: Callable[..., Any], *primals: Any, has_aux: bool = False) -> Any:
    """The value of a function, and a function that multiplies cotangents with its Jacobian at that point (vector-Jacobian product).

    Args:
        func: takes Tensors or nests of them, and returns such.
        primals: where to evaluate it.
        has_aux: whether func returns a pair of its value and anything else.
    Returns: (value, vjp_fn) or (value, vjp_fn, aux). ``vjp_fn(cotangents)``, nested as the value, returns a tuple of one product for each
        primal, nested as it; it may be called again and again.
    Raises: RuntimeError for a value that is no floating-point or complex Tensor, and from ``vjp_fn`` for cotangents that are not nested as
        the value.
    Source: torch.func.vjp.
    Example:
        >>> value, pullback = gradlib.func.vjp(lambda x: x**2, gradlib.tensor([1.0, 2.0]))
        >>> pullback(gradlib.tensor([1.0, 1.0]))
        (tensor([2., 4.]),)
    """
    outside, inside = thread_state.grad_enabled, differentiating()
    since = inside.since
    with inside, recording(True):
        args, leaves, structure = _wrapped_inputs(primals, None)
        made, aux = _with_aux(func(*args), has_aux, "vjp(f, *primals)")
        deactivate(leaves)
    outputs, made_structure = _tensors(made, "vjp(f, *primals)")
    for y in outputs:
        if not is_differentiable(y.dtype):
            raise RuntimeError(f"vjp(f, ...): All outputs of f must be floating-point or complex Tensors, got Tensor with dtype {y.dtype}")
    live = requires_outer_grad(*outputs, since=since)

    def vjp_fn(*cotangents: Any, retain_graph: bool = True, create_graph: bool | None = None) -> Any:
        given, given_structure = flatten(cotangents[0] if len(cotangents) == 1 else cotangents)
        if given_structure != made_structure:
            raise RuntimeError(
                f"Expected pytree structure of cotangents to be the same as pytree structure of outputs to the function. cotangents: "
                f"{given_structure}, primal output: {made_structure}"
            )
        records, now = thread_state.grad_enabled if create_graph is None else create_graph, next_seq()
        with recording(True):
            found = _gradients(outputs, leaves, given, records and (live or requires_outer_grad(*given, since=now)), retain_graph)
        return tuple(unflatten([unwrap(g, now) for g in found], structure))

    value = unflatten([unwrap(y, since, outside) for y in outputs], made_structure)
    return (value, vjp_fn, map_leaves(lambda each: unwrap(each, since, outside), aux)) if has_aux else (value, vjp_fn)


def _wrapped_inputs(args: tuple[Any, ...], argnums: Argnums | None) -> tuple[list[Any], list[Tensor], Structure]:
    """The arguments with differentiable inputs in place of those to differentiate by, these inputs, and how they are nested."""
    chosen, single = list(range(len(args))) if argnums is None else places(argnums, len(args)), isinstance(argnums, int)
    values, structure = flatten(args[chosen[0]] if single else tuple(args[n] for n in chosen))
    for value in values:
        if not isinstance(value, Tensor):
            raise ValueError(f"Thing passed to transform API must be Tensor, got {type(value)}")
    leaves = [differentiable_input(value) for value in values]
    opened = unflatten(leaves, structure)
    full = [each if number in chosen else map_leaves(writable_alias, each) for number, each in enumerate(args)]
    for number, value in zip(chosen, (opened,) if single else opened, strict=True):
        full[number] = value
    return full, leaves, structure


def places(argnums: Argnums, count: int) -> list[int]:
    """The positions that ``argnums`` names. Raises: RuntimeError for positions that repeat or do not exist."""
    if not isinstance(argnums, (int, tuple)):
        raise RuntimeError(f"argnums must be int or Tuple[int, ...], got: {type(argnums)}")
    numbers = argnums if isinstance(argnums, tuple) else (argnums,)
    if not numbers:
        raise RuntimeError("argnums must be non-empty")
    for number in numbers:
        if not isinstance(number, int):
            raise RuntimeError(f"argnum must be int, got: {type(number)}")
        if not -count <= number < count:
            raise RuntimeError(f"Got argnum={number}, but only {count} positional inputs")
    chosen = [number % count for number in numbers]
    if len(set(chosen)) != len(chosen):
        raise RuntimeError(f"argnums elements must be unique, got {argnums}")
    return chosen


def _with_aux(made: Any, has_aux: bool, called: str) -> tuple[Any, Any]:
    if not has_aux:
        return made, ()
    if not (isinstance(made, tuple) and len(made) == 2):
        raise RuntimeError(f"{called}: output of function f should be a tuple: (output, aux) if has_aux is True, got {type(made).__name__}")
    return made


def _check_scalar(value: Any) -> None:
    if not isinstance(value, Tensor):
        raise RuntimeError(f"grad_and_value(f)(*args): Expected f(*args) to return a Tensor, got {type(value)}")
    if value.ndim:
        raise RuntimeError(
            f"grad_and_value(f)(*args): Expected f(*args) to return a scalar Tensor, got tensor with {value.ndim} dims. Maybe you wanted "
            "to use the vjp or jacrev APIs instead?"
        )


def _tensors(made: Any, called: str) -> tuple[list[Tensor], Structure]:
    outputs, structure = flatten(made)
    if not outputs or made is None:
        raise RuntimeError(f"{called}: Expected f to be a function that has non-empty output (got {made!r})")
    for value in outputs:
        if not isinstance(value, Tensor):
            raise RuntimeError(f"{called}: expected f(*primals) to return only tensors, got unsupported type {type(value)}")
    return outputs, structure


def _gradients(outputs: Any, leaves: list[Tensor], cotangents: Any, create_graph: bool, retain_graph: bool) -> list[Any]:
    """The gradient for each leaf, zeros where the outputs do not depend on it."""
    outputs = outputs if isinstance(outputs, list) else [outputs]
    cotangents = cotangents or [None] * len(outputs)
    reached = [(y, g) for y, g in zip(outputs, cotangents, strict=True) if y.requires_grad]
    for y, g in zip(outputs, cotangents, strict=True):
        if g is not None and isinstance(g, Tensor) and g.shape != y.shape:
            raise RuntimeError(f"Mismatch in shape: grad_output has a shape of {list(g.shape)} and output has a shape of {list(y.shape)}.")
    if not reached:
        return [zeros_like(x) for x in leaves]
    ys, gs = zip(*reached, strict=True)
    found = gradient(ys, leaves, None if gs[0] is None else gs, retain_graph or create_graph, create_graph, allow_unused=True)
    return [zeros_like(x.detach()) if g is None else g for x, g in zip(leaves, found, strict=True)]


# ---- forward --------------------------------------------------------------------------------------------------------------------------


def jvp(func: Callable[..., Any], primals: Any, tangents: Any, *, strict: bool = False, has_aux: bool = False) -> Any:
    """The value of a function, and the product of its Jacobian at that point with tangents, computed together (forward mode).

    Args:
        func: takes Tensors or nests of them, and returns such.
        primals: a tuple of arguments.
        tangents: a tuple nested as primals, of the same shapes and dtypes.
        strict: an error for a result that does not depend on the primals, instead of zeros.
        has_aux: whether func returns a pair of its value and anything else.
    Returns: (value, tangent) or (value, tangent, aux).
    Raises: RuntimeError for tangents that do not fit, ValueError for primals that are no floats.
    Source: torch.func.jvp.
    Example:
        >>> gradlib.func.jvp(lambda x: x**2, (gradlib.tensor([1.0, 2.0]),), (gradlib.tensor([1.0, 0.0]),))
        (tensor([1., 4.]), tensor([2., 0.]))
    """
    if not isinstance(primals, tuple):
        raise RuntimeError("jvp(f, primals, tangents): Expected primals to be a tuple. E.g. it should be valid to call f(*primals).")
    given, structure = flatten(primals)
    moved, moved_structure = flatten(tangents)
    if structure != moved_structure:
        raise RuntimeError(
            "jvp(f, primals, tangents): Expected primals and tangents to have the same python structure. For example, if primals is a "
            f"tuple of 3 tensors, tangents also must be. Got primals with structure {structure} and tangents with structure "
            f"{moved_structure}"
        )
    if not given:
        raise RuntimeError("jvp(f, primals, tangents): Expected primals to have at least one Tensor")
    for x, t in zip(given, moved, strict=True):
        _check_tangent(x, t)
    level, inside = ForwardLevel(in_inference=thread_state.inference), differentiating()
    since = inside.since
    with level, inside:
        duals = [mark_writable(level.dual(broadcast_as(x, t), t)) for x, t in zip(given, moved, strict=True)]
        made, aux = _with_aux(func(*unflatten(duals, structure)), has_aux, "jvp(f, primals, tangents)")
        outputs, made_structure = _tensors(made, "jvp(f, primals, tangents)")
        found = [level.tangent(y) for y in outputs]
        values = [y if t is None else level.dual(y, None) for y, t in zip(outputs, found, strict=True)]
        aux = map_leaves(lambda y: level.dual(y, None) if isinstance(y, Tensor) and level.tangent(y) is not None else y, aux)
    values, aux = [unwrap(y, since) for y in values], map_leaves(lambda y: unwrap(y, since), aux)
    if strict and any(t is None for t in found):
        raise RuntimeError("jvp(f, primals, tangents, strict=True): The output of f is independent of the primals.")
    ahead = unflatten([zeros_like(y.detach()) if t is None else t for y, t in zip(outputs, found, strict=True)], made_structure)
    ahead, value = map_leaves(lambda t: unwrap(t, since), ahead), unflatten(values, made_structure)
    return (value, ahead, aux) if has_aux else (value, ahead)


def _check_tangent(primal: Any, tangent: Any) -> None:
    for name, value in (("primals", primal), ("tangents", tangent)):
        if not isinstance(value, Tensor):
            raise RuntimeError(f"jvp(f, primals, tangents): Expected {name} to be Tensors or nests of them, got {type(value).__name__}")
    if primal.shape != tangent.shape or primal.dtype != tangent.dtype:
        raise RuntimeError(
            f"jvp(f, primals, tangents): a tangent has its primal's shape and dtype; the primal has {list(primal.shape)} and "
            f"{primal.dtype}, the tangent {list(tangent.shape)} and {tangent.dtype}"
        )
    if not (primal.is_floating_point() or primal.is_complex()):
        raise ValueError(f"Expected primal to be floating point or complex, but got: {primal.dtype}")


def linearize(func: Callable[..., Any], *primals: Any) -> Any:
    """The value of a function, and its Jacobian at that point as a linear function, which does not run ``func`` again.

    It does where ``func`` switches recording off, as with ``no_grad``: that leaves forward mode as it is, but no graph to go back along.

    Args:
        func: takes Tensors or nests of them, and returns such.
        primals: where to linearize it.
    Returns: (value, jvp_fn). ``jvp_fn(*tangents)``, nested as the primals, returns what ``jvp`` would, as often as it is called.
    Raises: RuntimeError from ``jvp_fn`` for tangents that are not nested as the primals, or do not fit them.
    Source: torch.func.linearize.
    Example:
        >>> value, derivative = gradlib.func.linearize(lambda x: x**2, gradlib.tensor([1.0, 2.0]))
        >>> derivative(gradlib.tensor([1.0, 0.0]))
        tensor([2., 0.])
    """
    outside = as_outside(differentiated=True)

    def of_copies(*values: Any) -> Any:
        """``func`` of clones of these values, which it may write in place."""
        with outside:
            return func(*map_leaves(lambda x: x.clone() if isinstance(x, Tensor) else x, values))

    with noting_pauses() as pauses:
        value, pull = vjp(of_copies, *primals)
    outputs, made_structure = flatten(value)
    given, structure = flatten(primals)
    primals_count = requires_outer_grad(*given, since=next_seq())
    with recording(True):
        cotangents = [zeros_like(y.detach()).want_grad() for y in outputs]
        pulled, _ = flatten(pull(unflatten(cotangents, made_structure), create_graph=True))

    def jvp_fn(*tangents: Any) -> Any:
        moved, moved_structure = flatten(tangents)
        if structure != moved_structure:
            raise RuntimeError(
                f"Expected the tangents to be nested as the primals; primals have structure {structure}, tangents {moved_structure}"
            )
        for x, t in zip(given, moved, strict=True):
            _check_tangent(x, t)
        if pauses.seen:
            return jvp(of_copies, primals, tangents)[1]
        pairs = [(p, t) for p, t in zip(pulled, moved, strict=True) if p.requires_grad]
        if not pairs:
            return map_leaves(lambda y: zeros_like(y.detach()), value)
        ps, ts = zip(*pairs, strict=True)
        now = next_seq()
        records = thread_state.grad_enabled and (primals_count or requires_outer_grad(*ts, since=now))
        found = gradient(ps, cotangents, ts, True, records, materialize_grads=True)
        return unflatten([unwrap(t, now) for t in found], made_structure)

    return value, jvp_fn
