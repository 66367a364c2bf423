"""Custom differentiable functions: ``Function``, with a user's forward and backward. Source: torch.autograd.function."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections.abc import Callable
from typing import Any

from gradlib.autograd.function_nested import NestedBackward, NestedCtx, emptied, flatten, rebuild
from gradlib.autograd.function_node import BackwardCFunction, DelayedError, FunctionCtx, FunctionNode
from gradlib.autograd.function_results import attach_tangents, place_in_graph
from gradlib.autograd.function_vmap import call_on_rows, has_rule
from gradlib.backend.capture import capturing
from gradlib.core.batched import VmapLevel
from gradlib.core.forward import ForwardLevel
from gradlib.core.grad_mode import no_grad
from gradlib.core.modes import global_state, lower, set_grad, thread_state
from gradlib.core.tensor import Tensor, wrap

__all__ = ["BackwardCFunction", "Function", "FunctionCtx", "FunctionMeta", "InplaceFunction", "NestedIOFunction", "once_differentiable"]


class FunctionMeta(type):
    """The metaclass of Function: gives each subclass NAME the class of its ctx, NAMEBackward, as ``_backward_cls``.

    Source: torch.autograd.function.FunctionMeta.
    """

    _backward_cls: type[BackwardCFunction]
    _ctx_base: type[BackwardCFunction]
    _root: FunctionMeta  # Function itself, whose methods only raise

    def __init__(cls, name: str, bases: tuple[type, ...], attributes: dict[str, Any]) -> None:
        cls._backward_cls = type(f"{name}Backward", (cls._ctx_base,), {"_forward_cls": cls, "__module__": cls.__module__})
        if not any(isinstance(base, FunctionMeta) for base in bases):
            cls._root = cls
        super().__init__(name, bases, attributes)


class Function(FunctionCtx, metaclass=FunctionMeta):
    """A differentiable function with a backward that you write. Subclass it, write two static methods, and call ``NAME.apply(...)``.

    Forward takes no ctx if the class also defines ``setup_context(ctx, inputs, output)``. Nothing is recorded in either. Backward gets
    one gradient for each output, and returns one (or None) for each argument of forward, of its shape, dtype and device.

    Source: torch.autograd.Function.
    Example:
        >>> class Exp(gradlib.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         result = x.exp()
        ...         ctx.save_for_backward(result)
        ...         return result
        ...
        ...     @staticmethod
        ...     def backward(ctx, g):
        ...         (result,) = ctx.saved_tensors
        ...         return g * result
        >>> x = gradlib.tensor([0.0, 1.0], requires_grad=True)
        >>> Exp.apply(x).sum().backward()
        >>> x.grad
        tensor([1.0000, 2.7183])
    """

    _ctx_base = BackwardCFunction
    is_traceable = False
    """Set to False in a subclass: what it does may differ from call to call, so a CUDA graph does not capture it. torch asks nowhere."""
    generate_vmap_rule = False
    clear_saved_tensors_on_access = False
    """Whether the first access to ``ctx.saved_tensors`` gives them away, so that they can be freed during backward."""
    boxed_grads_call = False
    """Whether backward receives its gradients as one list, from which it may take them away."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        warnings.warn(
            f"{type(self)} should not be instantiated. Methods on autograd functions are all static, so you should invoke them on the "
            "class itself. Instantiating an autograd function will raise an error in a future version.",
            DeprecationWarning,
            stacklevel=2,
        )

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        raise RuntimeError(
            "Legacy autograd function with non-static forward method is deprecated. Please use new-style autograd function with static "
            f"forward method: {type(self).__name__}.apply(...). (Example: the docstring of gradlib.autograd.Function)"
        )

    @staticmethod
    def forward(*args: Any, **kwargs: Any) -> Any:
        """Compute the value: ``forward(ctx, *args)``, or ``forward(*args)`` if there is a ``setup_context``. Nothing is recorded."""
        raise NotImplementedError("You must implement the forward function for custom autograd.Function.")

    @staticmethod
    def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> Any:
        """Save on ctx what backward needs, from forward's arguments and result."""
        raise NotImplementedError("setup_context is not implemented.")

    @staticmethod
    def backward(ctx: Any, *grad_outputs: Any, **_: Any) -> Any:  # subclasses may have any parameters
        """The gradient for each argument of forward from the gradient of each output; ``vjp`` is the same under another name."""
        raise NotImplementedError(
            "You must implement either the backward or vjp method for your custom autograd.Function to use it with backward mode AD."
        )

    vjp = backward

    @staticmethod
    def jvp(ctx: Any, *grad_inputs: Any) -> Any:
        """The tangent of each output from the tangent of each argument, for forward mode."""
        raise NotImplementedError("You must implement the jvp function for custom autograd.Function to use it with forward mode AD.")

    @staticmethod
    def vmap(info: Any, in_dims: Any, *args: Any) -> Any:
        """Compute on batches, for ``gradlib.vmap``. With ``generate_vmap_rule = True`` it is generated from forward and backward instead.

        Args:
            info: ``batch_size`` and ``randomness`` of the vmap.
            in_dims: for each argument the dimension of its batch, None for what has none.
            args: the arguments; batched ones with their batch dimension.
        Returns: the result, and for each of its Tensors the dimension of its batch (or None).
        """
        raise NotImplementedError(
            "To use autograd.Function with vmap, you must either override the vmap staticmethod or set generate_vmap_rule=True."
        )

    @classmethod
    def apply(cls, *args: Any, **kwargs: Any) -> Any:
        """Call the function and record it.

        Args:
            args, kwargs: what forward takes. Tensors among them are inputs; tensors inside lists or other containers are not.
        Returns: what forward returns. An input returned as it is comes back as a view of itself, unless it was marked dirty.
        Raises: what forward raises; RuntimeError for tensors marked wrongly.
        """
        separate = cls.setup_context is not Function.setup_context
        if thread_state.transforming and not separate:
            raise RuntimeError(
                "In order to use an autograd.Function with functorch transforms (vmap, grad, jvp, jacrev, ...), it must override the "
                f"setup_context staticmethod ({cls.__name__}). See the docstring of gradlib.autograd.Function.vmap."
            )
        if kwargs or separate:
            args = _positional(cls, args, kwargs, separate)
        made, node = cls._call(args, separate)
        node.for_forward = ()
        return made

    @classmethod
    def _call(cls, args: tuple[Any, ...], separate: bool) -> tuple[Any, FunctionNode]:
        """Call forward and give its results their place in the graph. Returns: these, and the node."""
        observer = None
        if global_state.active:
            if thread_state.interpreters and (found := cls._intercepted(thread_state.interpreters[-1], args, separate)) is not None:
                return found
            observer = thread_state.observer
        if capturing.capture is not None:
            cls._refuse_capture()
        node = FunctionNode(cls._backward_cls, args)
        ctx = node.public
        before = thread_state.grad_enabled
        recorded = before and True in node.needs and not (global_state.active and thread_state.inference)
        mark = made = None
        if observer is not None:
            mark = observer.begin(cls.__name__, node.seq, args)
        set_grad(False)
        try:
            if separate:
                made = cls.forward(*args)
                cls.setup_context(ctx, args, made)
            else:
                made = cls.forward(ctx, *args)
        finally:
            set_grad(before)
            if observer is not None:
                observer.end(mark, made)
        attributes = node.attributes
        to_save = attributes.pop("to_save", ())
        node.for_forward = attributes.pop("saved_for_forward", ())
        node.materialize = attributes.pop("materialize_grads", True)
        made = place_in_graph(node, recorded, args, made)
        if recorded and to_save:
            node.save(to_save, made if isinstance(made, tuple) else (made,))
        return made, node

    @classmethod
    def _intercepted(cls, level: Any, args: tuple[Any, ...], separate: bool) -> tuple[Any, FunctionNode] | None:
        """The call as the innermost interpreter makes it; None where that leaves it to the usual way.

        Forward mode makes it outside itself and then computes the tangents: of several levels the innermost call's first.
        """
        if isinstance(level, VmapLevel):
            recorded = thread_state.grad_enabled and any(isinstance(a, Tensor) and a._node is not None for a in args)
            rows = recorded or thread_state.transforming or has_rule(cls)  # otherwise forward is given the rows themselves
            return call_on_rows(cls, level, args) if rows else None
        if not isinstance(level, ForwardLevel):
            return None
        with lower(level):
            made, node = cls._call(args, separate)
        attach_tangents(level, node, args, made)
        return made, node

    @classmethod
    def _refuse_capture(cls) -> None:
        """Raise within the capture of a CUDA graph when a subclass sets ``is_traceable`` to False; the default does not count."""
        said = any("is_traceable" in vars(each) for each in cls.__mro__[: cls.__mro__.index(Function)])
        if said and not cls.is_traceable:
            raise RuntimeError(
                f"{cls.__name__} cannot be captured in a CUDA graph: its is_traceable is False, so its next call may do something else; "
                "call it before the capture or behind a replay, or set is_traceable = True if all it does is the same at each call"
            )


def _positional(cls: Any, args: tuple[Any, ...], kwargs: dict[str, Any], separate: bool) -> tuple[Any, ...]:
    """The arguments of forward by position, with keyword arguments and (if there is a ``setup_context``) defaults filled in."""
    ctx = () if separate else (None,)
    bound = inspect.signature(cls.forward).bind(*ctx, *args, **kwargs)
    if separate:
        bound.apply_defaults()
    if bound.kwargs:
        name = next(iter(bound.kwargs))
        raise TypeError(f"{cls.__name__}.forward() got an unexpected keyword argument {name!r}: apply passes all arguments by position")
    return bound.args[len(ctx) :]


def once_differentiable(fn: Callable[..., Any]) -> Callable[..., Any]:
    """Mark a backward as not differentiable: nothing is recorded inside, and a second derivative through it is an error.

    Args:
        fn: the static method ``backward`` of a Function.
    Returns: the method to take its place.
    Source: torch.autograd.function.once_differentiable.
    Example:
        >>> class Half(gradlib.autograd.Function):
        ...     @staticmethod
        ...     def forward(ctx, x):
        ...         return x / 2
        ...
        ...     @staticmethod
        ...     @gradlib.autograd.function.once_differentiable
        ...     def backward(ctx, g):
        ...         return g / 2
        >>> x = gradlib.tensor(3.0, requires_grad=True)
        >>> (dx,) = gradlib.autograd.grad(Half.apply(x) ** 2, (x,), create_graph=True)
        >>> try:
        ...     gradlib.autograd.grad(dx, (x,))
        ... except RuntimeError as error:
        ...     print(error)
        trying to differentiate twice a function that was marked with @once_differentiable (HalfBackward)
    """

    @functools.wraps(fn)
    def wrapper(ctx: Any, *args: Any, **kwargs: Any) -> Any:
        with no_grad():
            outputs = fn(ctx, *args, **kwargs)
        if not thread_state.grad_enabled or not any(isinstance(a, Tensor) and a.requires_grad for a in args):
            return outputs
        message = f"trying to differentiate twice a function that was marked with @once_differentiable ({ctx.name()})"
        return differentiated_once(ctx, args, outputs, message)

    return wrapper


def differentiated_once(ctx: Any, grads: tuple[Any, ...], made: Any, message: str) -> Any:
    """What a backward made of gradients, where a second derivative through it is RuntimeError(message)."""
    edges = tuple(g._node for g in grads if isinstance(g, Tensor)) + ctx._node.edges

    def alias(value: Any) -> Any:
        if not isinstance(value, Tensor):
            return value
        result = wrap(value._array)
        result._node = DelayedError(message, edges, value._array)
        return result

    return tuple(map(alias, made)) if isinstance(made, tuple) else alias(made)


class InplaceFunction(Function):
    """Kept for old code; use ``Function``. Source: torch.autograd.function.InplaceFunction."""

    def __init__(self, inplace: bool = False) -> None:
        super().__init__()
        self.inplace = inplace


class NestedIOFunction(NestedCtx, Function):
    """A Function of nested lists and tuples of tensors: define ``forward_extended`` and ``backward_extended``. Kept for old code.

    Source: torch.autograd.function.NestedIOFunction.
    Example:
        >>> class Twice(gradlib.autograd.function.NestedIOFunction):
        ...     def forward_extended(self, pair):
        ...         return [2 * x for x in pair]
        ...
        ...     def backward_extended(self, gradients):
        ...         return [2 * g for g in gradients]
        >>> Twice.apply([gradlib.ones(1), gradlib.zeros(1)])
        [tensor([2.]), tensor([0.])]
    """

    _ctx_base = NestedBackward

    def forward_extended(self, *input: Any) -> Any:
        """The value; ``self`` is the ctx, the arguments are nested as they were given to ``apply``."""
        raise NotImplementedError("You must implement forward_extended for a NestedIOFunction.")

    def backward_extended(self, *grad_output: Any) -> Any:
        """Compute the gradients of forward's arguments, nested as these, from the gradients of its result, nested as that."""
        raise NotImplementedError("You must implement backward_extended for a NestedIOFunction.")

    @staticmethod
    def forward(ctx: Any, nesting: Any, *tensors: Tensor) -> Any:
        result = ctx._forward_cls.forward_extended(ctx, *rebuild(nesting, iter(tensors)))
        ctx._nested_output = emptied(result)
        return ctx._nested_output, *flatten(result)

    @staticmethod
    def backward(ctx: Any, _: None, *gradients: Any) -> Any:
        nested = rebuild(ctx._nested_output, iter(gradients))
        result = ctx._forward_cls.backward_extended(ctx, *(nested if isinstance(nested, tuple) else (nested,)))
        return None, *flatten(result, keep_none=True)

    @classmethod
    def apply(cls, *args: Any) -> Any:
        """Call the function on nested tensors and record it; the result is nested as ``forward_extended`` gave it."""
        nesting, *tensors = super().apply(emptied(args), *flatten(args))
        return rebuild(nesting, iter(tensors))
