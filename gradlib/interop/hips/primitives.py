"""Functions of a user's own on raw arrays with derivatives of the user's own: ``primitive``, ``defvjp``, ``defjvp``; ``checkpoint``."""

from __future__ import annotations

import functools
import itertools
from collections.abc import Callable, Iterable, Sequence
from typing import Any

from gradlib.autograd.function import Function
from gradlib.core.modes import thread_state
from gradlib.core.tensor import Tensor
from gradlib.func.tree import Structure, flatten, unflatten
from gradlib.interop.hips.operators import make_vjp
from gradlib.interop.hips.tracing import as_leaf, as_value, zeros_of

__all__ = ["checkpoint", "defjvp", "defjvp_argnum", "defjvp_argnums", "defvjp", "defvjp_argnum", "defvjp_argnums", "primitive"]

_vjps: dict[Any, Callable[..., Any]] = {}  # of a primitive: (argnums, ans, args, kwargs) to a function of the cotangent
_jvps: dict[Any, Callable[..., Any]] = {}  # of a primitive: (argnums, tangents, ans, args, kwargs) to the tangent


class _Call:
    """One call of a primitive: how its arguments and its value are nested, and which leaves are Tensors."""

    def __init__(self, function: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        self.function = function
        self.kwargs = kwargs
        self.nests: list[Structure] = []
        self.leaves: list[Any] = []
        self.places: list[tuple[int, int]] = []  # of each Tensor: its argument, and which leaf of all it is
        for number, arg in enumerate(args):
            leaves, nest = flatten(arg)
            self.nests.append(nest)
            self.places += [(number, len(self.leaves) + i) for i, leaf in enumerate(leaves) if isinstance(leaf, Tensor)]
            self.leaves += leaves
        self.made: Structure  # once the function has run
        self.value: list[Any] = []  # the leaves of the value; None where there is a Tensor

    @property
    def tensors(self) -> list[Tensor]:
        """The Tensors among the arguments."""
        return [self.leaves[place] for _, place in self.places]

    def args(self, tensors: Iterable[Any]) -> tuple[Any, ...]:
        """The arguments with these values for the Tensors."""
        leaves = list(self.leaves)
        for (_, place), value in zip(self.places, tensors, strict=True):
            leaves[place] = value
        pieces = iter(leaves)
        return tuple([unflatten([next(pieces) for _ in range(_count(nest))], nest) for nest in self.nests])

    def ans(self, tensors: Iterable[Any]) -> Any:
        """The value with these values for its Tensors."""
        pieces = iter(tensors)
        return unflatten([next(pieces) if each is None else each for each in self.value], self.made)

    def argnums(self, wanted: Sequence[bool]) -> list[int]:
        """The arguments that have a Tensor for which this is true."""
        return sorted({number for (number, _), want in zip(self.places, wanted, strict=True) if want})

    def leaves_of(self, number: int, value: Any) -> dict[int, Any]:
        """A nest's value for each leaf of an argument, by the leaf's place among all."""
        start = sum(_count(nest) for nest in self.nests[:number])
        return dict(enumerate(flatten(value)[0], start))


def _count(nest: Structure) -> int:
    return 1 if nest.kind is None else sum(map(_count, nest.children))


def _given(deeper: bool, tensors: Iterable[Any]) -> list[Any]:
    """The operands of a user's rule: Tensors where its results are differentiated again, else raw arrays and numbers."""
    return list(tensors) if deeper else [as_value(each) for each in tensors]


class _Primitive(Function):
    """A call of a user's function on raw arrays, whose derivatives are the user's rules."""

    @staticmethod
    def forward(call: _Call, *tensors: Tensor) -> tuple[Tensor, ...]:
        made = call.function(*call.args(map(as_value, tensors)), **call.kwargs)
        leaves, call.made = flatten(made)
        found = [_as_result(each) for each in leaves]
        call.value = [None if isinstance(each, Tensor) else each for each in found]
        return tuple([each for each in found if isinstance(each, Tensor)])

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: tuple[Tensor, ...]) -> None:
        ctx.call = inputs[0]
        ctx.count = len(inputs) - 1
        ctx.mark_non_differentiable(*[each for each in output if not (each.is_floating_point() or each.is_complex())])
        ctx.save_for_backward(*inputs[1:], *output)
        ctx.save_for_forward(*inputs[1:], *output)

    @staticmethod
    def backward(ctx: Any, *cotangents: Tensor) -> tuple[Any, ...]:
        call: _Call = ctx.call
        deeper = thread_state.grad_enabled
        saved = _given(deeper, ctx.saved_tensors)
        argnums = call.argnums(ctx.needs_input_grad[1:])
        args, ans = call.args(saved[: ctx.count]), call.ans(saved[ctx.count :])
        g = call.ans(_given(deeper, [each.conj() if each.is_complex() else each for each in cotangents]))
        found = list(_rule_of(call, argnums, "vjp")(argnums, ans, args, call.kwargs)(g))
        by_leaf: dict[int, Any] = {}
        for number, value in zip(argnums, found, strict=True):
            by_leaf |= call.leaves_of(number, value)
        results = []
        for (_, place), tensor in zip(call.places, ctx.saved_tensors, strict=False):
            results.append(_gradient(by_leaf[place], tensor) if place in by_leaf else None)
        return None, *results

    @staticmethod
    def jvp(ctx: Any, _: None, *tangents: Tensor | None) -> tuple[Any, ...]:
        call: _Call = ctx.call
        saved = ctx.saved_tensors
        argnums = call.argnums([each is not None for each in tangents])
        args, ans = call.args(saved[: ctx.count]), call.ans(saved[ctx.count :])
        full = call.args([zeros_of(x) if t is None else t for x, t in zip(saved, tangents, strict=False)])
        moved = _rule_of(call, argnums, "jvp")(argnums, [full[number] for number in argnums], ans, args, call.kwargs)
        found = [each for each, kept in zip(flatten(moved)[0], call.value, strict=True) if kept is None]
        return tuple([_fitted(each, like) for each, like in zip(found, saved[ctx.count :], strict=True)])


def _as_result(leaf: Any) -> Any:
    try:
        found = as_leaf(leaf) if not isinstance(leaf, (bool, int)) else leaf
    except TypeError:  # text, None, an object: handed on as it is
        return leaf
    return found.detach() if isinstance(found, Tensor) else found


def _gradient(value: Any, like: Tensor) -> Tensor:
    """The gradient that a rule returned, as torch has it: of a complex number conjugated."""
    g = _fitted(value, like)
    return g.conj() if g.is_complex() else g


def _fitted(value: Any, like: Tensor) -> Tensor:
    """A rule's result in the shape and dtype of the tensor it belongs to."""
    g = as_leaf(value)
    if g.is_complex() and not like.is_complex():
        g = g.real
    if g.shape != like.shape and g.numel() == like.numel():
        g = g.reshape(like.shape)
    return g.to(dtype=like.dtype, device=like.device)


def _rule_of(call: _Call, argnums: Sequence[int], kind: str) -> Callable[..., Any]:
    """What was given for a primitive's derivative. ``kind``: "vjp" or "jvp"."""
    rule = (_vjps if kind == "vjp" else _jvps).get(_raw(call.function))
    if rule is None:
        message = f"{kind.upper()} of {_name(call.function)} wrt argnums {tuple(argnums)} not defined; define it with def{kind}"
        raise NotImplementedError(message)
    return rule


def _raw(function: Any) -> Any:
    """The function inside a primitive, by which its rules are kept."""
    return getattr(function, "fun", function)


def _name(function: Any) -> str:
    return str(getattr(function, "__name__", function))


def primitive(f_raw: Callable[..., Any]) -> Callable[..., Any]:
    """A function that computes on raw arrays by any means, as one step of the derivative. Its rules are given to ``defvjp``.

    Args:
        f_raw: takes arrays, numbers and nests of them, and whatever else; returns such.
    Returns: the same function, which also takes Tensors.
    Source: autograd.extend.primitive.
    Example:
        >>> @gradlib.primitive
        ... def logistic(x):
        ...     return 1 / (1 + numpy.exp(-x))
        >>> gradlib.defvjp(logistic, lambda ans, x: lambda g: g * ans * (1 - ans))
        >>> gradlib.grad(logistic)(0.0)
        np.float64(0.25)
    """

    @functools.wraps(f_raw)
    def primitive_of(*args: Any, **kwargs: Any) -> Any:
        call = _Call(f_raw, args, kwargs)
        if not call.places:
            return f_raw(*args, **kwargs)
        made = _Primitive.apply(call, *call.tensors)
        return call.ans(made)

    primitive_of.fun = f_raw  # type: ignore[attr-defined]
    return primitive_of


def defvjp_argnums(fun: Any, vjpmaker: Callable[..., Any]) -> None:
    """Define a primitive's derivative for several arguments at once.

    Args:
        fun: the primitive.
        vjpmaker: ``vjpmaker(argnums, ans, args, kwargs)`` returns a function of the cotangent, which returns a gradient for each argument.
    Source: autograd.extend.defvjp_argnums.
    Example:
        >>> scaled = gradlib.primitive(lambda x, a: x * a)
        >>> gradlib.defvjp_argnums(scaled, lambda argnums, ans, args, kwargs: lambda g: [g * args[1 - number] for number in argnums])
        >>> gradlib.grad(scaled, (0, 1))(2.0, 3.0)
        (np.float64(3.0), np.float64(2.0))
    """
    _vjps[_raw(fun)] = vjpmaker


def defvjp_argnum(fun: Any, vjpmaker: Callable[..., Any]) -> None:
    """Define a primitive's derivative by one rule for all arguments.

    Args:
        fun: the primitive.
        vjpmaker: ``vjpmaker(argnum, ans, args, kwargs)`` returns a function of the cotangent, which returns that argument's gradient.
    Source: autograd.extend.defvjp_argnum.
    Example:
        >>> scaled = gradlib.primitive(lambda x, a: x * a)
        >>> gradlib.defvjp_argnum(scaled, lambda argnum, ans, args, kwargs: lambda g: g * args[1 - argnum])
        >>> gradlib.grad(scaled)(2.0, 3.0)
        np.float64(3.0)
    """
    defvjp_argnums(fun, lambda argnums, *call: lambda g: [vjpmaker(argnum, *call)(g) for argnum in argnums])


def defvjp(fun: Any, *vjpmakers: Callable[..., Any] | None, argnums: Iterable[int] | None = None) -> None:
    """Define a primitive's derivative for reverse mode.

    Args:
        fun: the primitive.
        vjpmakers: for each argument ``vjpmaker(ans, *args, **kwargs)``, which returns a function of the cotangent; None for zeros.
        argnums: the arguments that they belong to; by default the first, the second and so on.
    Raises: NotImplementedError, in backward, for an argument without a rule.
    Source: autograd.extend.defvjp.
    Example:
        >>> scaled = gradlib.primitive(lambda x, a: x * a)
        >>> gradlib.defvjp(scaled, lambda ans, x, a: lambda g: g * a, None)
        >>> gradlib.grad(scaled)(2.0, 3.0)
        np.float64(3.0)
    """
    rules = dict(zip(itertools.count() if argnums is None else argnums, vjpmakers))  # noqa: B905  (the count has no end)

    def of_argument(argnum: int, ans: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if argnum not in rules:
            raise NotImplementedError(f"VJP of {_name(fun)} wrt argnum {argnum} not defined; define it with defvjp")
        rule = rules[argnum]
        return (lambda g: zeros_of(args[argnum])) if rule is None else rule(ans, *args, **kwargs)

    defvjp_argnum(fun, of_argument)


def defjvp_argnums(fun: Any, jvpmaker: Callable[..., Any]) -> None:
    """Define a primitive's forward mode for several arguments at once.

    Args:
        fun: the primitive.
        jvpmaker: ``jvpmaker(argnums, tangents, ans, args, kwargs)`` returns the tangent of the value.
    Source: autograd.extend.defjvp_argnums.
    Example:
        >>> square = gradlib.primitive(lambda x: x * x)
        >>> gradlib.defjvp_argnums(square, lambda argnums, gs, ans, args, kwargs: 2 * args[0] * gs[0])
        >>> gradlib.deriv(square)(3.0)
        np.float64(6.0)
    """
    _jvps[_raw(fun)] = jvpmaker


def defjvp_argnum(fun: Any, jvpmaker: Callable[..., Any]) -> None:
    """Define a primitive's forward mode by one rule for all arguments.

    Args:
        fun: the primitive.
        jvpmaker: ``jvpmaker(argnum, tangent, ans, args, kwargs)`` returns the tangent of the value from that argument's.
    Source: autograd.extend.defjvp_argnum.
    Example:
        >>> scaled = gradlib.primitive(lambda x, a: x * a)
        >>> gradlib.defjvp_argnum(scaled, lambda argnum, g, ans, args, kwargs: g * args[1 - argnum])
        >>> gradlib.deriv(scaled)(2.0, 3.0)
        np.float64(3.0)
    """

    def of_arguments(argnums: Sequence[int], tangents: Sequence[Any], *call: Any) -> Any:
        found = [flatten(jvpmaker(argnum, g, *call)) for argnum, g in zip(argnums, tangents, strict=True)]
        sums = [functools.reduce(lambda a, b: a + b, parts) for parts in zip(*[leaves for leaves, _ in found], strict=True)]
        return unflatten(sums, found[0][1])

    defjvp_argnums(fun, of_arguments)


def defjvp(fun: Any, *jvpfuns: Callable[..., Any] | str | None, argnums: Iterable[int] | None = None) -> None:
    """Define a primitive's derivative for forward mode.

    Args:
        fun: the primitive.
        jvpfuns: for each argument ``jvpfun(tangent, ans, *args, **kwargs)``, which returns the tangent of the value; "same" for a
            function that is linear in the argument; None for zeros.
        argnums: the arguments that they belong to; by default the first, the second and so on.
    Raises: NotImplementedError, when it is used, for an argument without a rule.
    Source: autograd.extend.defjvp.
    Example:
        >>> scaled = gradlib.primitive(lambda x, a: x * a)
        >>> gradlib.defjvp(scaled, lambda g, ans, x, a: g * a, "same")
        >>> gradlib.make_jvp(scaled)(2.0, 3.0)(1.0)
        (np.float64(6.0), np.float64(3.0))
    """
    rules = dict(zip(itertools.count() if argnums is None else argnums, jvpfuns))  # noqa: B905  (the count has no end)

    def of_argument(argnum: int, g: Any, ans: Any, args: tuple[Any, ...], kwargs: dict[str, Any]) -> Any:
        if argnum not in rules:
            raise NotImplementedError(f"JVP of {_name(fun)} wrt argnum {argnum} not defined; define it with defjvp")
        rule = rules[argnum]
        if rule is None:
            return zeros_of(ans)
        if callable(rule):
            return rule(g, ans, *args, **kwargs)
        return fun(*args[:argnum], g, *args[argnum + 1 :], **kwargs)

    defjvp_argnum(fun, of_argument)


def checkpoint(fun: Callable[..., Any]) -> Callable[..., Any]:
    """A function whose intermediate values are not kept for backward but computed again there: memory for time.

    Args:
        fun: a function of arrays, numbers and nests of them.
    Returns: the same function.
    Source: autograd.checkpoint; ``gradlib.utils.checkpoint`` is torch's, for functions of Tensors.
    Example:
        >>> gradlib.grad(gradlib.checkpoint(lambda x: numpy.sin(x) ** 2))(0.0)
        np.float64(0.0)
    """
    checkpointed = primitive(fun)
    defvjp_argnum(checkpointed, lambda argnum, ans, args, kwargs: make_vjp(fun, argnum)(*args, **kwargs)[0])
    return checkpointed
