"""``Array``: a Tensor whose attributes, methods, operators and indices are those of NumPy's arrays.

torch and NumPy share names that mean different things: ``x.std()`` divides by n - 1 or by n, ``x.repeat(3)`` repeats the whole or each
element, ``x.max(axis)`` returns indices too or not. A function written for arrays must find NumPy's meaning, so ``gradlib.grad`` and its
like call it with Arrays, and what NumPy's functions and operators make of an Array is an Array again.
"""

# mypy: disable-error-code="override"
# torch's methods of the same names have other parameters: that is why the class is there

from __future__ import annotations

import operator
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np

from gradlib.core.proxy import Proxy, results_as, unwrapped
from gradlib.core.tensor import Tensor
from gradlib.numpy import methods
from gradlib.numpy.operands import cast, value_of
from gradlib.numpy.protocol import OfTheClass, applied
from gradlib.numpy.registry import SERVED, refusal
from gradlib.numpy.shaping import ravel
from gradlib.numpy.subscripts import assign, subscript
from gradlib.numpy.ufuncs import call, from_operator

_OPERANDS = (Tensor, np.ndarray, np.generic, bool, int, float, complex, list, tuple)
_UNARY: dict[str, Any] = {"abs": np.absolute, "invert": np.invert, "neg": np.negative, "pos": np.positive}
_BINARY: dict[str, Any] = {
    "add": np.add, "and": np.bitwise_and, "floordiv": np.floor_divide, "lshift": np.left_shift, "matmul": np.matmul, "mod": np.remainder,
    "mul": np.multiply, "or": np.bitwise_or, "pow": np.power, "rshift": np.right_shift, "sub": np.subtract, "truediv": np.true_divide,
    "xor": np.bitwise_xor, "divmod": np.divmod,
}  # fmt: skip
_COMPARISONS: dict[str, Any] = {
    "eq": np.equal, "ge": np.greater_equal, "gt": np.greater, "le": np.less_equal, "lt": np.less, "ne": np.not_equal,
}  # fmt: skip
_METHODS = (
    "all", "any", "argmax", "argmin", "argpartition", "argsort", "choose", "clip", "conj", "conjugate", "copy", "cumprod", "cumsum",
    "diagonal", "dot", "max", "mean", "min", "nonzero", "prod", "ptp", "put", "ravel", "repeat", "round", "searchsorted", "squeeze", "std",
    "sum", "swapaxes", "take", "trace", "var",
)  # fmt: skip
"""The methods that are NumPy's function of the same name, with the array as its first argument."""


class Array(Proxy):
    """A Tensor as NumPy's arrays are: made for functions of arrays by ``gradlib.grad`` and its like, and by what they compute with it.

    It differentiates, and whatever takes a Tensor takes it. Methods that NumPy's arrays have not are torch's.

    Source: numpy.ndarray.
    Example:
        >>> gradlib.grad(lambda x: x.std())(numpy.array([1.0, 3.0]))
        array([-0.5,  0.5])
    """

    __slots__ = ()

    @property
    def size(self) -> int:
        """How many elements there are."""
        return int(self._array.size)

    @property
    def strides(self) -> tuple[int, ...]:
        """The bytes between neighbours along each axis."""
        return tuple(self._array.strides)

    @property
    def T(self) -> Any:
        """The array with its axes in reverse order."""
        return self.transpose()

    @property
    def mT(self) -> Any:
        """Each matrix of the last two axes transposed. Raises: ValueError for fewer axes."""
        return _served(np.matrix_transpose, self)

    @property
    def flat(self) -> Any:
        """The elements in one row, a view where that is possible."""
        return self.reshape(-1)

    def astype(self, dtype: Any, order: str = "K", casting: str = "unsafe", subok: bool = True, copy: bool = True) -> Any:
        """The elements in another dtype; of complex ones for a real dtype the real part. Without ``copy`` itself where it has it."""
        if not np.can_cast(self.dtype, dtype, casting=casting):  # type: ignore[arg-type]
            raise TypeError(f"Cannot cast array data from {self.dtype!r} to {np.dtype(dtype)!r} according to the rule {casting!r}")
        made = cast(self.wrapped, dtype)
        return as_array(made.clone() if made is self.wrapped and copy else made, (self,))

    def reshape(self, *shape: Any, order: str = "C") -> Any:
        """The elements in another shape, given as one tuple or as numbers."""
        return _served(np.reshape, self, _together(shape), order=order)

    def transpose(self, *axes: Any) -> Any:
        """The array with its axes in this order, given as one tuple or as numbers; in reverse order by default."""
        return _served(np.transpose, self, _together(axes) if axes else None)

    def flatten(self, order: str = "C") -> Any:
        """A copy in one row."""
        return as_array(ravel(self.wrapped, order).clone())

    def compress(self, condition: Any, axis: Any = None) -> Any:
        """The slices along an axis for which the condition is true."""
        return _served(np.compress, condition, self, axis)

    def sort(self, axis: int = -1) -> None:
        """Sort along an axis, in place."""
        self[...] = _served(np.sort, self, axis)

    def partition(self, kth: Any, axis: int = -1) -> None:
        """Put the elements at these places where sorting would put them, the smaller ones before, in place."""
        self[...] = _served(np.partition, self, kth, axis)

    def fill(self, value: Any) -> None:
        """Set all elements, in place."""
        self[...] = value

    def item(self, *place: Any) -> Any:
        """One element as a number of Python's: the only one, or that at a place."""
        return value_of(self).item(*place)

    def tobytes(self, order: str = "C") -> bytes:
        """The elements' bytes."""
        made: bytes = value_of(self).tobytes(order)
        return made

    def __array__(self, dtype: Any = None, copy: bool | None = None) -> np.ndarray:
        """The values as an array. Of integers and bools there is no derivative to lose, so they are had of any array.

        Raises: RuntimeError for other dtypes where it requires grad.
        """
        if dtype is not None and np.dtype(dtype).kind in "biu":
            made: np.ndarray = value_of(self).astype(dtype)
            return made
        found: np.ndarray = self.wrapped.__array__(dtype, copy)
        return found

    @property
    def __array_interface__(self) -> dict[str, Any]:
        """As of a Tensor.

        Raises: AttributeError where it requires grad: NumPy then asks ``__array__``, which is told the dtype that is wanted.
        """
        if self.requires_grad:
            raise AttributeError("an Array that requires grad has no __array_interface__")
        found: dict[str, Any] = self.wrapped.__array_interface__
        return found

    def __getitem__(self, key: Any) -> Any:
        return as_array(subscript(self.wrapped, key))

    def __setitem__(self, key: Any, value: Any) -> None:
        assign(self.wrapped, key, unwrapped(value))

    def __iter__(self) -> Iterator[Any]:
        if not self.ndim:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(len(self)))

    def __contains__(self, value: Any) -> bool:
        return bool((self == value).any())


def as_array(result: Any, given: tuple[Any, ...] = ()) -> Any:
    """An operation's result with each Tensor as an Array; see ``results_as``."""
    return results_as(Array, result, given)


def _together(given: tuple[Any, ...]) -> Any:
    return given[0] if len(given) == 1 else given


class _ArrayUfunc(OfTheClass):
    def __call__(self, array: Array, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Called by NumPy for a ufunc, or one of its methods, on an Array: always by NumPy's rules."""
        if method == "__call__" and (not kwargs or from_operator(ufunc, inputs, kwargs)):  # of other += array comes a new Array
            return _applied(ufunc, *inputs)
        if method != "__call__":
            made = methods.method(ufunc, method, unwrapped(inputs), _plain_named(kwargs))
        else:
            made = call(ufunc, *unwrapped(inputs), **_plain_named(kwargs))
        return as_array(made, (*inputs, *kwargs.get("out", ())))


def _array_function(self: Array, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """Called by NumPy for any other function of its own with an Array among the arguments."""
    return _served(func, *args, **kwargs)


def _served(function: Any, *args: Any, **kwargs: Any) -> Any:
    """One of NumPy's functions that are no ufuncs. Raises: TypeError for one that takes no Tensor."""
    served = SERVED.get(function)
    if served is None:
        raise refusal(function)
    return as_array(served.call(*unwrapped(args), **_plain_named(kwargs)), (*args, *kwargs.values()))


def _plain_named(kwargs: dict[str, Any]) -> dict[str, Any]:
    return {name: unwrapped(value) for name, value in kwargs.items()}


def _applied(ufunc: Any, *inputs: Any) -> Any:
    """A ufunc of operands of which one is an Array."""
    read = unwrapped(inputs)
    dtype = next(each.dtype for each in read if isinstance(each, Tensor))
    return as_array(applied(ufunc, read, dtype) if len(read) == ufunc.nin else call(ufunc, *read), inputs)


def _unary_operator(ufunc: Any) -> Callable[..., Any]:
    return lambda self: _applied(ufunc, self)


def _binary_operator(ufunc: Any) -> Callable[..., Any]:
    return lambda self, other: _applied(ufunc, self, other) if isinstance(other, _OPERANDS) else NotImplemented


def _reflected_operator(ufunc: Any) -> Callable[..., Any]:
    return lambda self, other: _applied(ufunc, other, self) if isinstance(other, _OPERANDS) else NotImplemented


def _in_place_operator(name: str) -> Callable[..., Any]:
    plain_operator = getattr(operator, name)

    def in_place(self: Array, other: Any) -> Any:
        if not isinstance(other, _OPERANDS):
            return NotImplemented
        before = (
            as_array(self.wrapped.clone()) if isinstance(other, Tensor) and other.requires_grad else self
        )  # whose value the derivative may need
        made = plain_operator(before, other)
        if not np.can_cast(made.dtype, self.dtype, "same_kind"):
            raise TypeError(f"Cannot cast the result of {name} from {made.dtype!r} to {self.dtype!r} with casting rule 'same_kind'")
        self[...] = made
        return self

    return in_place


def _method(name: str) -> Callable[..., Any]:
    function = getattr(np, name)

    def method(self: Array, *args: Any, **kwargs: Any) -> Any:
        return _served(function, self, *args, **kwargs)

    return method


def _put(name: str, function: Callable[..., Any]) -> None:
    function.__name__ = name
    function.__qualname__ = f"Array.{name}"
    setattr(Array, name, function)


def _put_all() -> None:
    """NumPy's operators and methods on Array. After the class, whose hash stays Tensor's although it has another ``==``."""
    for name, ufunc in _UNARY.items():
        _put(f"__{name}__", _unary_operator(ufunc))
    for name, ufunc in (_BINARY | _COMPARISONS).items():
        _put(f"__{name}__", _binary_operator(ufunc))
    for name, ufunc in _BINARY.items():
        _put(f"__r{name}__", _reflected_operator(ufunc))
    for name in _BINARY.keys() - {"divmod", "matmul"}:
        python_name = {"and": "and_", "or": "or_"}.get(name, name)
        _put(f"__i{name}__", _in_place_operator(python_name))
    for name in _METHODS:
        _put(name, _method(name))
    setattr(Array, "__array_ufunc__", _ArrayUfunc())  # noqa: B010
    setattr(Array, "__array_function__", _array_function)  # noqa: B010


_put_all()
