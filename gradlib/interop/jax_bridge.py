"""Functions of gradlib as functions of JAX, and the reverse.

To JAX a function of gradlib is a callback to the host (``jax.pure_callback``) with a rule for its derivative, which is such a function
again; so derivatives of every order come about, also under ``jit`` and ``vmap``. JAX keeps nothing between forward and backward of a
callback, so backward computes the forward again.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from gradlib.autograd.function import Function
from gradlib.autograd.gradient import grad
from gradlib.backend.array import is_dense, is_writeable
from gradlib.backend.copying import copy
from gradlib.backend.dtype import is_differentiable
from gradlib.backend.loading import needed_by
from gradlib.core.grad_mode import no_grad, set_grad_enabled
from gradlib.core.tensor import Tensor, wrap
from gradlib.func.tree import Structure, flatten, unflatten
from gradlib.ops.from_data import from_dlpack, from_numpy

__all__ = ["from_jax", "jax_function"]


def jax_function(function: Callable[..., Any], *, vmap_method: str = "sequential") -> Callable[..., Any]:
    """A function of JAX arrays from one of gradlib tensors, differentiable by ``jax.grad`` and its like, under ``jit`` too.

    It runs on the host, outside of what XLA compiles: JAX copies arrays of a GPU there and back. When JAX traces it, it is called once with
    ones, for the shapes and dtypes of the results. Its derivatives are reverse mode's: a Hessian is ``jax.jacrev(jax.jacrev(f))``, while
    ``jax.jvp``, ``jax.jacfwd`` and ``jax.hessian`` refuse it, as every function that has a custom_vjp.

    Args:
        function: takes gradlib tensors, also within tuples, lists and dicts, and whatever else; returns tensors likewise. It must be pure.
        vmap_method: what ``jax.vmap`` does, as ``jax.pure_callback`` has it: "sequential" calls it for each example; "expand_dims" and
            "broadcast_all" call it once, if it can take further dimensions in front.
    Returns: the same function on JAX arrays. Arguments that are no JAX or NumPy arrays are handed on as they are.
    Raises: ModuleNotFoundError without JAX, when it is called; TypeError for results that are no tensors; what ``function`` raises, at run
        time as JAX wraps it.
    Source: jax.pure_callback, jax.custom_vjp.
    Example:
        >>> import jax
        >>> half_square = gradlib.interop.jax_function(lambda x: (x * x).sum() / 2)
        >>> jax.grad(half_square)(jax.numpy.array([1.0, 2.0]))
        Array([1., 2.], dtype=float32)
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with needed_by("gradlib.interop.jax_function", "jax"):
            import jax

        def cross(flat: Callable[..., list[Any]], arrays: list[Any]) -> Any:
            def of_tensors(*tensors: Tensor) -> list[Tensor]:
                made = flat(*tensors)
                for each in made:
                    if not isinstance(each, Tensor):
                        raise TypeError(f"a function for JAX returns tensors, got {type(each).__name__}; return it beside them in gradlib")
                return made

            return _crossed(of_tensors, arrays, vmap_method)

        return _through(cross, (jax.Array, np.ndarray), function, args, kwargs)

    return call


def _through(
    cross: Callable[[Callable[..., list[Any]], list[Any]], Any],
    arrays: Any,
    function: Callable[..., Any],
    args: tuple[Any, ...],
    kwargs: dict[str, Any],
) -> Any:
    """Call a function of nests of arguments by way of one from a list of arrays to a list.

    Args:
        cross: takes that function and the arrays, and gives the results in the caller's library; arrays: their type.
    """
    values, nest = flatten((args, kwargs))
    places = [i for i, value in enumerate(values) if isinstance(value, arrays)]
    nests: list[Structure] = []

    def flat(*given: Any) -> list[Any]:
        full = list(values)
        for place, each in zip(places, given, strict=True):
            full[place] = each
        inner_args, inner_kwargs = unflatten(full, nest)
        made, structure = flatten(function(*inner_args, **inner_kwargs))
        nests[:] = [structure]
        return made

    made = cross(flat, [values[place] for place in places])
    return unflatten(list(made), nests[0])


def _crossed(function: Callable[..., list[Tensor]], arrays: list[Any], vmap_method: str) -> Any:
    """The results of a function of tensors on JAX arrays, as a callback with its derivative."""
    import jax

    arrays = [jax.numpy.asarray(each) for each in arrays]
    shapes = _results_of(function, arrays)

    def forward(*given: Any) -> Any:
        return jax.pure_callback(functools.partial(_on_host, function), shapes, *given, vmap_method=vmap_method)

    into = [i for i, each in enumerate(arrays) if is_differentiable(each.dtype)]
    out_of = [i for i, each in enumerate(shapes) if is_differentiable(each.dtype)]
    if not into or not out_of:
        return forward(*arrays)

    def backward(given: tuple[Any, ...], cotangents: tuple[Any, ...]) -> tuple[Any, ...]:
        def pulled(*tensors: Tensor) -> list[Tensor]:
            return _vjp(function, tensors[: len(given)], tensors[len(given) :], into, out_of)

        found = iter(_crossed(pulled, [*given, *(cotangents[i] for i in out_of)], vmap_method))
        wanted = set(into)
        return tuple([next(found) if i in wanted else np.zeros(each.shape, jax.dtypes.float0) for i, each in enumerate(given)])

    custom = jax.custom_vjp(forward)
    custom.defvjp(lambda *given: (custom(*given), given), backward)
    return custom(*arrays)


def _vjp(
    function: Callable[..., list[Tensor]], inputs: tuple[Tensor, ...], cotangents: tuple[Tensor, ...], into: list[int], out_of: list[int]
) -> list[Tensor]:
    """The gradient for each input numbered in ``into`` from a cotangent for each output numbered in ``out_of``.

    JAX multiplies by the transposed derivative, torch by its conjugate too: complex cotangents are conjugated on the way in and out.
    """
    recorded = any(each.requires_grad for each in (*inputs, *cotangents))
    with set_grad_enabled(True):
        inner = list(inputs)
        for i in into:
            inner[i] = inputs[i] if inputs[i].requires_grad else inputs[i].detach().requires_grad_()
        made = function(*inner)
        used = [(made[i], g.conj()) for i, g in zip(out_of, cotangents, strict=True) if made[i].requires_grad]
        wanted = [inner[i] for i in into]
        if not used:
            return [each.detach() * 0 for each in wanted]
        outputs, given = zip(*used, strict=True)
        found = grad(outputs, wanted, given, create_graph=recorded, allow_unused=True, materialize_grads=True)
        return [each.conj() for each in found]


def _on_host(function: Callable[..., list[Tensor]], *arrays: Any) -> tuple[np.ndarray, ...]:
    """The callback for JAX: wraps its read-only memory in NumPy arrays, calls gradlib, and gives NumPy arrays back."""
    with no_grad():
        made = function(*[from_numpy(np.asarray(each)) for each in arrays])
        return tuple([each.detach().numpy() for each in made])


def _results_of(function: Callable[..., list[Tensor]], arrays: list[Any]) -> tuple[Any, ...]:
    """The shapes and dtypes of the results of a function of tensors, for arrays of these shapes and dtypes."""
    import jax

    with np.errstate(all="ignore"):
        made = _on_host(function, *[np.ones(each.shape, each.dtype) for each in arrays])
    return tuple([jax.ShapeDtypeStruct(each.shape, jax.dtypes.canonicalize_dtype(each.dtype)) for each in made])


# ---- the reverse ----------------------------------------------------------------------------------------------------------------------


class _Pulled(Function):
    """The results of a function of JAX; its derivatives are the function's vjp and jvp, and its rows its vmap: functions of JAX again."""

    @staticmethod
    def forward(function: Callable[..., list[Any]], *inputs: Tensor) -> tuple[Tensor, ...]:
        return tuple([_from_jax(each) for each in function(*map(_to_jax, inputs))])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.function = inputs[0]
        ctx.save_for_backward(*inputs[1:])
        ctx.save_for_forward(*inputs[1:])
        ctx.mark_non_differentiable(*[each for each in output if not is_differentiable(each.dtype)])
        ctx.of_floats = [is_differentiable(each.dtype) for each in output]

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Any, ...]:
        import jax

        inputs, of_floats = ctx.saved_tensors, ctx.of_floats
        asked = [i for i, need in enumerate(ctx.needs_input_grad[1:]) if need]

        def pull(*arrays: Any) -> list[Any]:
            own, given = arrays[: len(inputs)], arrays[len(inputs) :]
            _, vjp = jax.vjp(_of_some(ctx.function, own, asked, of_floats), *[own[i] for i in asked])
            return [each.conj() for each in vjp([each.conj() for each in given])]

        found = _Pulled.apply(pull, *inputs, *[g for g, real in zip(gradients, of_floats, strict=True) if real])
        results: list[Any] = [None] * len(inputs)
        for i, each in zip(asked, found, strict=True):
            results[i] = each
        return None, *results

    @staticmethod
    def jvp(ctx: Any, _: None, *tangents: Any) -> tuple[Any, ...]:
        import jax

        inputs, of_floats = ctx.saved_tensors, ctx.of_floats
        moved = [i for i, each in enumerate(tangents) if each is not None]

        def push(*arrays: Any) -> list[Any]:
            own, given = arrays[: len(inputs)], arrays[len(inputs) :]
            return list(jax.jvp(_of_some(ctx.function, own, moved, of_floats), [own[i] for i in moved], list(given))[1])

        found = iter(_Pulled.apply(push, *inputs, *[tangents[i] for i in moved]))
        return tuple([next(found) if real else None for real in of_floats])

    @staticmethod
    def vmap(info: Any, in_dims: Any, function: Callable[..., list[Any]], *inputs: Tensor) -> tuple[Any, Any]:
        import jax

        made = _Pulled.apply(jax.vmap(function, in_dims[1:]), *inputs)
        return made, (0,) * len(made)


def _of_some(function: Callable[..., list[Any]], arrays: Any, places: list[int], wanted: list[bool]) -> Callable[..., list[Any]]:
    """A function as one of some of its arguments, the others held, that gives some of its results."""

    def of_some(*some: Any) -> list[Any]:
        full = list(arrays)
        for i, each in zip(places, some, strict=True):
            full[i] = each
        return [each for each, want in zip(function(*full), wanted, strict=True) if want]

    return of_some


def from_jax(function: Callable[..., Any]) -> Callable[..., Any]:
    """A differentiable operation on gradlib tensors from a function of JAX arrays.

    Its derivatives are ``jax.vjp`` and ``jax.jvp`` of the function, of every order, and ``gradlib.vmap`` of it is ``jax.vmap``. Results are
    of JAX's memory, which may not be written.

    Args:
        function: takes JAX arrays, also within tuples, lists and dicts, and whatever else; returns arrays likewise. ``jax.jit`` it first,
            where it is called often.
    Returns: the same function on tensors. A float64 tensor becomes float32 in JAX, unless its ``jax_enable_x64`` is on.
    Raises: ModuleNotFoundError without JAX, when it is called; TypeError for results that are no arrays; what ``function`` raises.
    Source: jax.vjp, jax.jvp, jax.vmap.
    Example:
        >>> import jax
        >>> x = gradlib.tensor([1.0], requires_grad=True)
        >>> gradlib.interop.from_jax(jax.nn.soft_sign)(x).backward()
        >>> x.grad
        tensor([0.2500])
    """

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        with needed_by("gradlib.interop.from_jax", "jax"):
            import jax  # noqa: F401

        return _through(lambda flat, tensors: _Pulled.apply(flat, *tensors), Tensor, function, args, kwargs)

    return call


def _to_jax(tensor: Tensor) -> Any:
    """A JAX array around the tensor's memory, or of a copy where JAX cannot read it: with gaps between elements, or read-only."""
    import jax

    array = tensor._array
    if not is_dense(array) or not is_writeable(array):
        array = copy(array)
    return jax.numpy.from_dlpack(wrap(array))


def _from_jax(value: Any) -> Tensor:
    """A tensor around the memory of an array that a function of JAX returned."""
    if not hasattr(value, "__dlpack__"):
        raise TypeError(f"a function from JAX returns arrays, got {type(value).__name__}; jax.numpy.asarray makes one of a number")
    return from_dlpack(value)
