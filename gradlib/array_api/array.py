"""``Array``: a Tensor whose attributes, indices and operators are those of the array API standard."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from typing import Any

import numpy as np

from gradlib.backend import dtype as dtypes
from gradlib.core.proxy import Proxy, results_as
from gradlib.core.tensor import Tensor, publish
from gradlib.numpy.subscripts import forward_slices
from gradlib.ops.arithmetic import div, floor_divide, modulo
from gradlib.ops.convert import to
from gradlib.ops.create import full
from gradlib.ops.finite import isinf
from gradlib.ops.rearrange import flip
from gradlib.ops.select import where
from gradlib.ops.shape import broadcast_to, permute

NAMESPACE = "gradlib.array_api"
VERSION = "2024.12"
KNOWN = ("2021.12", "2022.12", "2023.12", VERSION)

_NUMBERS = (bool, int, float, complex)
_UNARY = ("__abs__", "__invert__", "__neg__", "__pos__")
_BINARY = (
    "add", "and", "eq", "ge", "gt", "le", "lshift", "lt", "matmul", "mul", "ne", "or", "pow", "rshift", "sub",
    "truediv", "xor",
)  # fmt: skip
_COMPARISONS = {"eq", "ne", "lt", "le", "gt", "ge"}


class Array(Proxy):
    """A Tensor as the array API standard has it: ``size`` counts elements, a step of an index may be negative, arrays of no dimensions
    promote as others do. Made by the functions of ``gradlib.array_api``; everything else that takes a Tensor takes it.

    Source: array API standard 2024.12, "Array object".
    """

    __slots__ = ()

    def __array_namespace__(self, /, *, api_version: str | None = None) -> Any:
        """The module ``gradlib.array_api``. Raises: ValueError for a version of the standard that it does not know."""
        return namespace_of(self, api_version=api_version)

    @property
    def size(self) -> int:  # type: ignore[override]
        """The number of elements."""
        return int(self._array.size)

    @property
    def T(self) -> Any:
        """The transpose of a matrix. Raises: ValueError for another number of dimensions, for which there is ``mT``."""
        if self.ndim != 2:
            raise ValueError(f"T is the transpose of a matrix, and this array has {self.ndim} dimensions; use mT or permute_dims")
        return as_standard(permute(self, (1, 0)))

    @property
    def mT(self) -> Any:
        """Each matrix of the last two dimensions transposed. Raises: ValueError for fewer dimensions."""
        if self.ndim < 2:
            raise ValueError(f"mT transposes matrices, and this array has {self.ndim} dimensions")
        return as_standard(permute(self, (*range(self.ndim - 2), self.ndim - 1, self.ndim - 2)))

    def to_device(self, device: Any, /, *, stream: Any = None) -> Any:
        """The array on another device; itself where it is there. Raises: ValueError for a stream: work is queued on CuPy's current one."""
        if stream is not None:
            raise ValueError("to_device: stream must be None; copies are queued on CuPy's current stream")
        return as_standard(self.to(device=device))

    def __getitem__(self, key: Any) -> Any:
        forward, turned = forward_slices(self, key)
        found = Tensor.__getitem__(self, forward)
        return as_standard(flip(found, turned) if turned else found)

    def __setitem__(self, key: Any, value: Any) -> None:
        forward, turned = forward_slices(self, key)
        if turned and isinstance(value, Tensor):
            value = flip(broadcast_to(value, Tensor.__getitem__(self, forward).shape), turned)
        Tensor.__setitem__(self, forward, value)

    def __floordiv__(self, other: Any, /) -> Any:
        return as_standard(floor_quotient(*promoted(self, other))) if _is_operand(other) else NotImplemented

    def __rfloordiv__(self, other: Any, /) -> Any:
        return as_standard(floor_quotient(*promoted(other, self))) if _is_operand(other) else NotImplemented

    def __ifloordiv__(self, other: Any, /) -> Any:
        self[...] = self // other
        return self

    def __mod__(self, other: Any, /) -> Any:
        return as_standard(modulo(*promoted(self, other))) if _is_operand(other) else NotImplemented

    def __rmod__(self, other: Any, /) -> Any:
        return as_standard(modulo(*promoted(other, self))) if _is_operand(other) else NotImplemented

    def __imod__(self, other: Any, /) -> Any:
        self[...] = self % other
        return self

    def __iter__(self) -> Any:
        if not self.ndim:
            raise TypeError("iteration over an array of no dimensions")
        return (self[i] for i in range(len(self)))  # each a view of its own, which may be written

    def __complex__(self) -> complex:
        return complex(self._scalar("complex"))

    def __float__(self) -> float:
        return float(self._scalar("float"))

    def __int__(self) -> int:
        return int(self._scalar("int"))

    def _scalar(self, name: str) -> Any:
        if self._array.ndim:
            raise TypeError(f"only an array of no dimensions can be converted to {name}, got shape {self._array.shape}")
        return self.item()


def floor_quotient(x1: Any, x2: Any) -> Any:
    """The quotient of each pair rounded down; where one is infinite the quotient itself: an infinity, or a zero with its sign."""
    if not (x1.is_floating_point() and x2.is_floating_point()):
        return floor_divide(x1, x2)
    far = isinf(x1) | isinf(x2)
    return where(far, div(x1, x2), floor_divide(where(far, 1.0, x1), where(far, 1.0, x2)))


def _is_operand(value: Any) -> bool:
    return isinstance(value, (Tensor, *_NUMBERS))


def namespace_of(self: Tensor, /, *, api_version: str | None = None) -> Any:
    """The module ``gradlib.array_api``, whose functions take Tensors and return Arrays.

    Raises: ValueError for a version of the standard that it does not know.
    Source: array API standard, ``__array_namespace__``.
    """
    if api_version is not None and api_version not in KNOWN:
        raise ValueError(f"the version of the array API standard is one of {', '.join(KNOWN)}, got {api_version!r}")
    return sys.modules[NAMESPACE]


publish(namespace_of, "__array_namespace__")


def as_standard(result: Any, given: tuple[Any, ...] = ()) -> Any:
    """An operation's result with each Tensor as an Array; see ``results_as``."""
    return results_as(Array, result, given)


def standard(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of the namespace: the Tensors that it returns become Arrays."""

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        return as_standard(function(*args, **named), args)

    return call


def common_dtype(*operands: Any) -> Any:
    """The dtype in which arrays, dtypes and numbers meet: arrays by their dtypes alone, numbers where they are of a higher kind."""
    arrays = (each for each in operands if not isinstance(each, _NUMBERS))
    found: list[np.dtype] = [each.dtype if isinstance(each, Tensor) else np.dtype(each) for each in arrays]
    if not found:
        raise ValueError("result_type: at least one operand must be an array or a dtype, got Python numbers only")
    common = functools.reduce(dtypes.promote_types, found)
    for each in operands:
        if isinstance(each, _NUMBERS):
            number = dtypes.scalar_dtype(each)
            if dtypes.category(number) > dtypes.category(common):
                common = dtypes.to_complex(common) if dtypes.category(common) == 2 else number
    return common


def promoted(x1: Any, x2: Any) -> tuple[Any, Any]:
    """Two operands as Tensors of their common dtype."""
    common = common_dtype(x1, x2)
    place = next(each.device for each in (x1, x2) if isinstance(each, Tensor))

    def met(x: Any) -> Any:
        if not isinstance(x, Tensor):
            return full((), x, dtype=common, device=place)
        return x if x.dtype == common else to(x, common)

    return met(x1), met(x2)


def _unary_operator(name: str) -> Callable[..., Any]:
    def operator(self: Any, /) -> Any:
        return as_standard(getattr(Tensor, name)(self))

    return operator


def _binary_operator(name: str, reflected: bool) -> Callable[..., Any]:
    plain = f"__r{name}__" if reflected else f"__{name}__"

    def operator(self: Any, other: Any, /) -> Any:
        if isinstance(other, Tensor) and other.dtype != self.dtype:
            self, other = promoted(self, other)
        return as_standard(getattr(Tensor, plain)(self, other))

    return operator


def _put_operators() -> None:
    """The standard's operators on Array, which promote by its rules."""
    for name in _UNARY:
        _put(name, _unary_operator(name))
    for name in _BINARY:
        _put(f"__{name}__", _binary_operator(name, False))
        if name not in _COMPARISONS:
            _put(f"__r{name}__", _binary_operator(name, True))


def _put(name: str, operator: Callable[..., Any]) -> None:
    operator.__name__ = operator.__qualname__ = name
    setattr(Array, name, operator)


_put_operators()
