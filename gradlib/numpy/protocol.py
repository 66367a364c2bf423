"""NumPy's two protocols on Tensor: ``numpy.sin(x)`` and ``numpy.concatenate([x, y])`` are gradlib's operations, and differentiate.

Both are put on Tensor here, which itself knows nothing of them.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradlib.core.tensor import Tensor, publish
from gradlib.numpy import (
    creation,
    indexing,
    joining,
    linear,
    methods,
    pointwise,
    polynomials,
    products,
    reductions,
    refusals,
    sampled,
    sets,
    shaping,
    sorting,
    statistics,
    transforms,
)  # fmt: skip
from gradlib.numpy.registry import SERVED, refusal
from gradlib.numpy.ufuncs import OF_FLOATS, REFLECTED, call, from_operator

FAMILIES = (
    creation, indexing, joining, linear, pointwise, polynomials, products, reductions, refusals, sampled, sets, shaping, sorting,
    statistics, transforms,
)  # fmt: skip
"""The modules that fill the table: importing them registers what they implement."""

SINGLE, DOUBLE = np.dtype(np.float32), np.dtype(np.float64)
_ARRAYS = (np.ndarray, np.generic)
_OPERANDS = (Tensor, np.ndarray)
_NUMBERS = frozenset((int, float))


class OfTheClass(property):
    """A method that the class has and a Tensor itself answers None for; ``__call__``, which takes the Tensor too, is the method.

    NumPy asks the class. CuPy asks the object, and only whether it is None: then ``array * x`` of a CuPy array goes to the operators of
    Tensor; otherwise CuPy takes the values, and the derivative is lost. A property gives both answers without a Python call, which would
    be 5 % of ``np.sin`` of ten elements.
    """

    def __init__(self) -> None:
        super().__init__(lambda tensor: None)


class _ArrayUfunc(OfTheClass):
    def __call__(self, tensor: Tensor, ufunc: Any, method: str, *inputs: Any, **kwargs: Any) -> Any:
        """Called by NumPy for a ufunc, or one of its methods, on a Tensor.

        The operands are brought to the dtypes of the ufunc's loop. An array or a NumPy number on the left of a Python operator arrives
        here too, and gets what the operator of Tensor gives.
        """
        if method != "__call__":
            return methods.method(ufunc, method, inputs, kwargs)
        if kwargs:
            return REFLECTED[ufunc](inputs[1], inputs[0]) if from_operator(ufunc, inputs, kwargs) else call(ufunc, *inputs, **kwargs)
        if inputs[0] is not tensor and isinstance(inputs[0], _ARRAYS) and ufunc in REFLECTED:
            return REFLECTED[ufunc](tensor, inputs[0])
        # `applied`, written out: its call, and looking at the Tensor again, would cost np.sin 7 % of its time and np.add of a number 13 %.
        dtype = tensor._array.dtype
        if (dtype is DOUBLE or dtype is SINGLE) and (operation := OF_FLOATS.get(ufunc)) is not None:
            if len(inputs) == 1:
                return operation(tensor)
            for each in inputs:
                if each is not tensor and not _is_alike(each, dtype):
                    break
            else:
                return operation(*inputs)
        return call(ufunc, *inputs)


def applied(ufunc: Any, inputs: tuple[Any, ...], dtype: Any) -> Any:
    """Call a ufunc without keywords, of operands of which one has this dtype: floats of one dtype go to gradlib's operation at once."""
    if (dtype is DOUBLE or dtype is SINGLE) and (operation := OF_FLOATS.get(ufunc)) is not None:
        for each in inputs:
            if not _is_alike(each, dtype):
                break
        else:
            return operation(*inputs)
    return call(ufunc, *inputs)


def _is_alike(x: Any, dtype: Any) -> bool:
    """Whether an operand is a number, or a Tensor or an array of this dtype."""
    return type(x) in _NUMBERS or (isinstance(x, _OPERANDS) and x.dtype is dtype)


def __array_function__(self: Tensor, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
    """Called by NumPy for any other function of its own with a Tensor among the arguments."""
    served = SERVED.get(func)
    if served is None:
        raise refusal(func)
    return served.call(*args, **kwargs)


of_ufunc = _ArrayUfunc()
"""Tensor's ``__array_ufunc__``."""

publish(of_ufunc, "__array_ufunc__")
publish(__array_function__, "__array_function__")
