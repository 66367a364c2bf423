"""Gradients and their like as functions of functions, under HIPS autograd's names."""

from __future__ import annotations

import functools
import inspect
import warnings
from collections import OrderedDict
from collections.abc import Callable, Sequence
from typing import Any

import numpy

import gradlib.numpy as np
from gradlib.core.tensor import Tensor
from gradlib.func.tree import flatten as leaves_of
from gradlib.interop.hips.tracing import Recorded, as_leaf, is_traced, ones_of, pushed, returned, size_of, zeros_of
from gradlib.ops.join import stack

__all__ = [
    "deriv", "elementwise_grad", "flatten", "grad", "grad_and_aux", "grad_named", "hessian", "hessian_tensor_product",
    "hessian_vector_product", "holomorphic_grad", "jacobian", "make_ggnvp", "make_hvp", "make_jvp", "make_jvp_reversemode", "make_vjp",
    "multigrad_dict", "tensor_jacobian_product", "value_and_grad", "vector_jacobian_product",
]  # fmt: skip

Function = Callable[..., Any]
Argnum = int | Sequence[int]


def of_argument(function: Function, argnum: Argnum, args: tuple[Any, ...], kwargs: dict[str, Any]) -> tuple[Function, Any]:
    """A function of one argument, or of the tuple of several, and that argument: the others are fixed."""
    if not isinstance(argnum, (int, tuple, list)):
        raise TypeError(f"argnum is the number of an argument, or a tuple of numbers, got {type(argnum).__name__}")
    numbers = (argnum,) if isinstance(argnum, int) else tuple(argnum)

    @named(function)
    def of_one(x: Any) -> Any:
        full = list(args)
        for number, value in zip(numbers, (x,) if isinstance(argnum, int) else x, strict=True):
            full[number] = value
        return function(*full, **kwargs)

    x = tuple([args[number] for number in numbers])
    return of_one, x[0] if isinstance(argnum, int) else x


def named(function: Function, name: str = "{}") -> Callable[[Function], Function]:
    """Give a function another one's name and docstring, where it has them."""

    def give(made: Function) -> Function:
        made.__name__ = name.format(getattr(function, "__name__", "function"))
        made.__doc__ = getattr(function, "__doc__", None)
        return made

    return give


def of_functions(unary: Callable[..., Any]) -> Callable[..., Function]:
    """An operator on a function of one argument as one on a function of several: ``operator(function, argnum)(*args)``."""

    @functools.wraps(unary)
    def operator(fun: Function, argnum: Argnum = 0, *options: Any, **named_options: Any) -> Function:
        @named(fun, f"{unary.__name__}_of_{{}}_wrt_argnum_{argnum}")
        def of_arguments(*args: Any, **kwargs: Any) -> Any:
            of_one, x = of_argument(fun, argnum, args, kwargs)
            return unary(of_one, x, *options, **named_options)

        return of_arguments

    signature = inspect.signature(unary)
    argnum = inspect.Parameter("argnum", inspect.Parameter.POSITIONAL_OR_KEYWORD, default=0, annotation=Argnum)
    first, _, *others = signature.parameters.values()
    operator.__signature__ = signature.replace(parameters=[first, argnum, *others], return_annotation=Function)  # type: ignore[attr-defined]
    return operator


def _gradient(recorded: Recorded, name: str) -> Any:
    if any(isinstance(each, (bool, numpy.bool_)) or getattr(each, "dtype", None) == numpy.dtype(bool) for each in recorded.outputs):
        raise TypeError(f"{name} only applies to real scalar-output functions, got a bool, which has no derivative.")
    if size_of(recorded.made) != 1:
        raise TypeError(
            f"{name} only applies to real scalar-output functions, got a value of {size_of(recorded.made)} real numbers. Try jacobian, "
            "elementwise_grad or holomorphic_grad."
        )
    return recorded.pull(ones_of(recorded.made))


@of_functions
def make_vjp(fun: Function, x: Any) -> tuple[Function, Any]:
    """The product of cotangents with a function's Jacobian, and the function's value: ``make_vjp(fun)(x)`` gives ``(vjp, value)``.

    Args:
        fun: a function of arrays, numbers and nests (dicts, lists, tuples) of them.
        argnum: which of its arguments is x, with respect to which it is differentiated; or a tuple of several.
    Returns: a function of fun's arguments, which returns vjp, a function of a cotangent nested as the value, and the value.
    Source: autograd.make_vjp.
    Example:
        >>> vjp, value = gradlib.make_vjp(numpy.sin)(numpy.zeros(2))
        >>> vjp(numpy.array([1.0, 2.0]))
        array([1., 2.])
    """
    recorded = Recorded(fun, x)
    return recorded.pull, recorded.value


@of_functions
def make_jvp(fun: Function, x: Any) -> Function:
    """A function's value and its Jacobian times a tangent, in forward mode: ``make_jvp(fun)(x)(v)`` gives ``(value, tangent)``.

    Args:
        fun: a function of arrays, numbers and nests (dicts, lists, tuples) of them.
        argnum: which of its arguments is x, with respect to which it is differentiated; or a tuple of several.
    Returns: a function of fun's arguments, which returns a function of a tangent nested as the argument.
    Source: autograd.make_jvp.
    Example:
        >>> value, tangent = gradlib.make_jvp(numpy.exp)(numpy.zeros(2))(numpy.array([1.0, 2.0]))
        >>> tangent
        array([1., 2.])
    """
    return lambda v: pushed(fun, x, v)


@of_functions
def grad(fun: Function, x: Any) -> Any:
    """The gradient of a function of arrays, as a function of the same arguments: ``grad(fun)(x)``.

    Within it the function computes on Tensors that have the attributes, methods and operators of NumPy's arrays, and by ``numpy``,
    ``gradlib.numpy`` or gradlib's functions; what comes back are arrays of the library that the arguments are of, NumPy or CuPy, nested
    as the argument. Gradients of gradients are had by ``grad(grad(fun))``.

    Args:
        fun: a function of arrays, numbers and nests (dicts, lists, tuples) of them, with one real number as its value.
        argnum: which of its arguments is x, with respect to which it is differentiated; or a tuple of several.
    Returns: a function of fun's arguments.
    Raises: TypeError, when called, for a value that is not one real number.
    Source: autograd.grad.
    Example:
        >>> def model(w, x):
        ...     return numpy.sum(numpy.tanh(x @ w["slope"]) + w["floor"])
        >>> gradlib.grad(model)({"slope": numpy.zeros(2), "floor": 1.0}, numpy.ones((3, 2)))
        {'slope': array([3., 3.]), 'floor': np.float64(3.0)}
    """
    return _gradient(Recorded(fun, x), "grad")


@of_functions
def value_and_grad(fun: Function, x: Any) -> tuple[Any, Any]:
    """The value and the gradient of a function of arrays, for ``scipy.optimize.minimize(..., jac=True)`` and the like.

    Args:
        fun: as in ``grad``.
        argnum: which of its arguments is x, as in ``grad``.
    Returns: a function of fun's arguments, which returns (value, gradient).
    Raises: TypeError as ``grad``.
    Source: autograd.value_and_grad.
    Example:
        >>> gradlib.value_and_grad(lambda x: numpy.sum(x**2))(numpy.array([1.0, 2.0]))
        (np.float64(5.0), array([2., 4.]))
    """
    recorded = Recorded(fun, x)
    return recorded.value, _gradient(recorded, "value_and_grad")


@of_functions
def elementwise_grad(fun: Function, x: Any) -> Any:
    """The derivative of each element of a function that works element by element; for others the sum of each column of the Jacobian.

    Args:
        fun: as in ``grad``, with real arrays as its value.
        argnum: which of its arguments is x, as in ``grad``.
    Returns: a function of fun's arguments.
    Raises: TypeError, when called, for a complex value.
    Source: autograd.elementwise_grad.
    Example:
        >>> gradlib.elementwise_grad(numpy.sin)(numpy.array([0.0, numpy.pi]))
        array([ 1., -1.])
    """
    recorded = Recorded(fun, x)
    if any(as_leaf(each).is_complex() for each in recorded.outputs):
        raise TypeError("elementwise_grad only applies to real-output functions; for a holomorphic one there is holomorphic_grad")
    return recorded.pull(ones_of(recorded.made))


@of_functions
def deriv(fun: Function, x: Any) -> Any:
    """The derivative in the direction of ones, in forward mode: the derivative of a function of one number, whatever shape it returns.

    Args:
        fun: as in ``make_jvp``.
        argnum: which of its arguments is x, as in ``grad``.
    Returns: a function of fun's arguments.
    Source: autograd.deriv.
    Example:
        >>> gradlib.deriv(lambda t: numpy.array([1.0, 2.0]) * t)(3.0)
        array([1., 2.])
    """
    return pushed(fun, x, ones_of(x))[1]


@of_functions
def jacobian(fun: Function, x: Any) -> Any:
    """The Jacobian of a function of one array: an array of the value's shape followed by the argument's.

    Args:
        fun: a function with an array, or a number, as the argument and as the value.
        argnum: which of its arguments is x, that array.
    Returns: a function of fun's arguments.
    Raises: TypeError, when called, for nests.
    Source: autograd.jacobian.
    Example:
        >>> gradlib.jacobian(lambda x: x**2)(numpy.array([1.0, 2.0]))
        array([[2., 0.],
               [0., 4.]])
    """
    recorded = Recorded(fun, x)
    if recorded.structure.kind is not None or recorded.nest.kind is not None:
        raise TypeError(f"jacobian takes functions of one array with one as the value, got {recorded.structure} and {recorded.nest}")
    like, out = recorded.inputs[0], as_leaf(recorded.made)
    rows = []
    for number in range(out.numel()):
        unit = zeros_like_flat(out)
        unit[number] = 1
        rows.append(as_leaf(recorded.pull(unit.reshape(out.shape))))
    shape = (*out.shape, *like.shape)
    made = stack(rows).reshape(shape) if rows else like.new_zeros(shape)
    return returned(made, recorded.traced)


def zeros_like_flat(like: Tensor) -> Tensor:
    """Zeros for all elements of a Tensor, in one row."""
    return like.detach().new_zeros(like.numel())


def hessian(fun: Function, argnum: Argnum = 0) -> Function:
    """The matrix of second derivatives of a function of one array, in the argument's shape twice.

    Args:
        fun: as in ``grad``, of one array.
        argnum: the number of that argument.
    Returns: a function of fun's arguments.
    Source: autograd.hessian.
    Example:
        >>> gradlib.hessian(lambda x: numpy.sum(x**3))(numpy.array([1.0, 2.0]))
        array([[ 6.,  0.],
               [ 0., 12.]])
    """
    return jacobian(jacobian(fun, argnum), argnum)


@of_functions
def holomorphic_grad(fun: Function, x: Any) -> Any:
    """The complex derivative of a holomorphic function of a complex number.

    Args:
        fun: a holomorphic function, with one complex number as its value.
        argnum: which of its arguments is x, as in ``grad``.
    Returns: a function of fun's arguments.
    Source: autograd.holomorphic_grad.
    Example:
        >>> gradlib.holomorphic_grad(lambda z: z**2)(1 + 2j)
        np.complex128(2+4j)
    """
    if not any(as_leaf(each).is_complex() for each in leaves_of(x)[0]):
        warnings.warn("Input to holomorphic_grad is not complex", stacklevel=3)
    return grad(lambda z: np.real(fun(z)))(x)


def grad_named(fun: Function, argname: str) -> Function:
    """The gradient with respect to an argument by its name.

    Args:
        fun: as in ``grad``.
        argname: the name of an argument that is given by position.
    Returns: a function of fun's arguments.
    Source: autograd.grad_named.
    Example:
        >>> gradlib.grad_named(lambda a, b: a * b, "b")(2.0, 3.0)
        np.float64(2.0)
    """
    return grad(fun, list(inspect.signature(fun).parameters).index(argname))


@of_functions
def grad_and_aux(fun: Function, x: Any) -> tuple[Any, Any]:
    """The gradient of the first of two values, and the second as it is.

    Args:
        fun: as in ``grad``, but with a pair as its value.
        argnum: which of its arguments is x, as in ``grad``.
    Returns: a function of fun's arguments, which returns (gradient, the second value).
    Source: autograd.grad_and_aux.
    Example:
        >>> gradlib.grad_and_aux(lambda x: (x**2, x + 1))(3.0)
        (np.float64(6.0), np.float64(4.0))
    """
    recorded = Recorded(lambda y: tuple(fun(y)), x)
    first, second = recorded.made
    return recorded.pull((ones_of(first), zeros_of(second))), returned(second, recorded.traced)


@of_functions
def make_hvp(fun: Function, x: Any) -> tuple[Function, Any]:
    """Products of vectors with a function's Hessian at one point: ``make_hvp(fun)(x)`` gives ``(hvp, gradient)``.

    Args:
        fun: as in ``grad``.
        argnum: which of its arguments is x, as in ``grad``.
    Returns: a function of fun's arguments, which returns hvp, a function of a vector nested as the argument, and the gradient.
    Source: autograd.make_hvp.
    Example:
        >>> hvp, _ = gradlib.make_hvp(lambda x: numpy.sum(x**3))(numpy.array([1.0, 2.0]))
        >>> hvp(numpy.ones(2))
        array([ 6., 12.])
    """
    recorded = Recorded(grad(fun), x)
    return recorded.pull, recorded.value


def hessian_tensor_product(fun: Function, argnum: int = 0) -> Function:
    """The Hessian of a function times a tensor of the argument's shape, which is given as a further, last argument.

    Args:
        fun: as in ``grad``, of one array.
        argnum: the number of that argument.
    Returns: a function of fun's arguments and the tensor.
    Source: autograd.hessian_tensor_product, of which ``hessian_vector_product`` is another name.
    Example:
        >>> gradlib.hessian_vector_product(lambda x: numpy.sum(x**3))(numpy.array([1.0, 2.0]), numpy.ones(2))
        array([ 6., 12.])
    """
    first = grad(fun, argnum)

    def along(*args: Any, **kwargs: Any) -> Any:
        *args, vector = args  # type: ignore[assignment]
        return np.tensordot(first(*args, **kwargs), vector, np.ndim(vector))

    return grad(along, argnum)


hessian_vector_product = hessian_tensor_product


def tensor_jacobian_product(fun: Function, argnum: int = 0) -> Function:
    """A tensor times the Jacobian of a function; the tensor is given as a further, last argument.

    Args:
        fun: as in ``jacobian``.
        argnum: the number of the argument.
    Returns: a function of fun's arguments and the tensor.
    Source: autograd.tensor_jacobian_product, of which ``vector_jacobian_product`` is another name.
    Example:
        >>> gradlib.vector_jacobian_product(lambda x: x**2)(numpy.array([1.0, 2.0]), numpy.ones(2))
        array([2., 4.])
    """

    def along(*args: Any, **kwargs: Any) -> Any:
        *args, vector = args  # type: ignore[assignment]
        return np.tensordot(vector, fun(*args, **kwargs), axes=np.ndim(vector))

    return jacobian(along, argnum)


vector_jacobian_product = tensor_jacobian_product


@of_functions
def make_jvp_reversemode(fun: Function, x: Any) -> Function:
    """A function's Jacobian times tangents, by reverse mode twice: for functions without forward mode.

    Args:
        fun: as in ``make_vjp``.
        argnum: which of its arguments is x, as in ``grad``.
    Returns: a function of fun's arguments, which returns a function of a tangent nested as the argument.
    Source: autograd.make_jvp_reversemode.
    Example:
        >>> gradlib.make_jvp_reversemode(numpy.exp)(numpy.zeros(2))(numpy.array([1.0, 2.0]))
        array([1., 2.])
    """
    recorded = Recorded(fun, x)
    return Recorded(recorded.pull, zeros_of(recorded.made)).pull


def make_ggnvp(f: Function, g: Function = lambda x: 1.0 / 2 * np.sum(x**2, axis=-1), f_argnum: int = 0) -> Function:
    """Products of vectors with the generalized Gauss-Newton matrix of ``g(f(x))``: the Jacobian of f, the Hessian of g between.

    Args:
        f: a function of one array with one as its value.
        g: a function of that value with one real number as its value; half the sum of squares by default.
        f_argnum: with respect to which argument of f.
    Returns: a function of f's arguments, which returns a function of a vector of the argument's shape.
    Source: autograd.make_ggnvp.
    Example:
        >>> gradlib.make_ggnvp(lambda x: x**2)(numpy.array([1.0, 2.0]))(numpy.ones(2))
        array([ 4., 16.])
    """

    @of_functions
    def of_one(f: Function, x: Any) -> Function:
        inner = Recorded(f, x)
        outer = Recorded(grad(g), inner.value)
        forward = Recorded(inner.pull, zeros_of(outer.made))
        return lambda v: inner.pull(outer.pull(forward.pull(v)))

    return of_one(f, f_argnum)


def multigrad_dict(fun: Function) -> Function:
    """The gradients with respect to all arguments at once, as a dict by their names.

    Args:
        fun: as in ``grad``; its defaults count as arguments too.
    Returns: a function of fun's arguments, which returns the gradients in the order of fun's signature.
    Source: autograd.multigrad_dict.
    Example:
        >>> dict(gradlib.multigrad_dict(lambda a, b=2.0: a * b)(3.0))
        {'a': np.float64(2.0), 'b': np.float64(3.0)}
    """
    signature = inspect.signature(fun)

    def gradients(*args: Any, **kwargs: Any) -> Any:
        bound = signature.bind(*args, **kwargs)
        bound.apply_defaults()
        given = dict(bound.arguments)

        def of_dict(arguments: dict[str, Any]) -> Any:
            again = inspect.BoundArguments(signature, OrderedDict(arguments))
            return fun(*again.args, **again.kwargs)

        found = grad(of_dict)(given)
        return OrderedDict((name, found[name]) for name in given)

    return gradients


def flatten(value: Any) -> tuple[Any, Function]:
    """A nest of arrays and numbers as one array of one dimension, and the function that restores the nest; both can be differentiated.

    Args:
        value: dicts (in the order of their sorted keys), lists and tuples of arrays and numbers.
    Returns: the array, and a function of such arrays.
    Source: autograd.misc.flatten.
    Example:
        >>> flat, unflatten = gradlib.interop.hips.flatten({"b": 3.0, "a": numpy.array([1.0, 2.0])})
        >>> flat
        array([1., 2., 3.])
        >>> unflatten(flat * 2)
        {'b': np.float64(6.0), 'a': array([2., 4.])}
    """
    traced = is_traced(value)
    leaves = [as_leaf(each) for each in _sorted_leaves(value)]
    shapes = [leaf.shape for leaf in leaves]
    ends = numpy.cumsum([leaf.numel() for leaf in leaves])

    def restore(flat: Any) -> Any:
        array = as_leaf(flat)
        pieces = iter([array[end - leaf.numel() : end].reshape(shape) for leaf, end, shape in zip(leaves, ends, shapes, strict=True)])
        return returned(_restored(value, pieces), is_traced(flat))

    if not leaves:
        return numpy.array([]), restore
    return returned(np.concatenate([np.ravel(leaf) for leaf in leaves]), traced), restore


def _sorted_leaves(value: Any) -> list[Any]:
    if isinstance(value, dict):
        return [leaf for key in sorted(value) for leaf in _sorted_leaves(value[key])]
    if isinstance(value, (list, tuple)):
        return [leaf for each in value for leaf in _sorted_leaves(each)]
    return [value]


def _restored(value: Any, pieces: Any) -> Any:
    if isinstance(value, dict):
        made = {key: _restored(value[key], pieces) for key in sorted(value)}
        return {key: made[key] for key in value}
    if isinstance(value, (list, tuple)):
        return type(value)([_restored(each, pieces) for each in value])
    return next(pieces)
