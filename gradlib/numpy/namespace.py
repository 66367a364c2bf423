"""Makes the contents of ``gradlib.numpy`` and its submodules: NumPy's names, with functions that also take Tensors."""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

import numpy as np

from gradlib.backend.names import no_such_name
from gradlib.core.proxy import unwrapped
from gradlib.core.tensor import Tensor
from gradlib.numpy.numpy_array import Array, as_array
from gradlib.numpy.operands import first_tensor, tensor_of
from gradlib.numpy.protocol import DOUBLE, SINGLE, of_ufunc
from gradlib.numpy.registry import REFUSED, SERVED, refusal
from gradlib.numpy.ufuncs import OF_FLOATS

_DISPATCHED = type(np.sum)  # the class of functions that ask __array_function__


def served(module: ModuleType, name: str) -> Any:
    """A name of one of NumPy's modules for Tensors and arrays. Raises: AttributeError for one that it has not."""
    found = getattr(module, name)
    if found is np.r_ or found is np.c_:
        return Joined(found)
    return function(found) if callable(found) and not isinstance(found, type) else found


def names_of(module: ModuleType, into: dict[str, Any]) -> tuple[Callable[[str], Any], Callable[[], list[str]]]:
    """``__getattr__`` and ``__dir__`` of a module that holds the names of one of NumPy's, each made ready at its first use.

    Args:
        module: NumPy's; into: the globals of the other, where what was asked for is kept.
    """

    def __getattr__(name: str) -> Any:
        if name == "__all__":
            return __dir__()
        if not hasattr(module, name):
            raise no_such_name(sys.modules[into["__name__"]], name)
        into[name] = found = served(module, name)
        return found

    def __dir__() -> list[str]:
        return [name for name in dir(module) if not name.startswith("_")]

    return __getattr__, __dir__


@functools.cache
def function(found: Any) -> Any:
    """A NumPy function that takes Tensors, also in lists; of arrays alone it is NumPy's own."""
    known = SERVED.get(found)
    if known is not None:
        return _choosing(found, known.call)
    if found in REFUSED or isinstance(found, (_DISPATCHED, np.ufunc)):
        return _choosing(found, functools.partial(_refuse, found))
    return found


def _refuse(found: Any, *args: Any, **kwargs: Any) -> Any:
    raise refusal(found)


def _choosing(found: Any, call: Callable[..., Any]) -> Any:
    if isinstance(found, np.ufunc):
        return Ufunc(found)

    @functools.wraps(found)
    def choosing(*args: Any, **kwargs: Any) -> Any:
        tensor = first_tensor(args)
        if tensor is None and kwargs:
            tensor = first_tensor(tuple(kwargs.values()))
        if tensor is None:
            return found(*args, **kwargs)
        if isinstance(tensor, Array):
            named = {name: unwrapped(value) for name, value in kwargs.items()}
            return as_array(call(*unwrapped(args), **named), (*args, *kwargs.values()))
        return call(*args, **kwargs)

    return choosing


class Joined:
    """``r_`` and ``c_``: what stands between the brackets joined along the first or the last axis, Tensors among it."""

    def __init__(self, found: Any) -> None:
        self._found = found
        self.__doc__ = found.__doc__

    def __getitem__(self, key: Any) -> Any:
        keys = key if isinstance(key, tuple) else (key,)
        like = first_tensor(keys)
        if like is None:
            return self._found[key]
        columns = self._found is np.c_
        if any(isinstance(each, str) for each in keys):
            raise TypeError(f"numpy.{'c_' if columns else 'r_'} with a text takes no gradlib Tensor; use numpy.concatenate or numpy.stack")
        base = unwrapped(like)
        parts = [tensor_of(np.r_[each]).to(base.device) if isinstance(each, slice) else tensor_of(unwrapped(each), base) for each in keys]
        parts = [part.reshape((1,)) if part.ndim == 0 else part for part in parts]
        if columns:
            parts = [part.reshape((-1, 1)) if part.ndim == 1 else part for part in parts]
        made = SERVED[np.concatenate].call(parts, axis=-1 if columns else 0)
        return as_array(made) if isinstance(like, Array) else made


class Ufunc:
    """A ufunc that also takes lists with Tensors in them; its methods and what it tells of itself are NumPy's."""

    def __init__(self, found: np.ufunc) -> None:
        self.ufunc = found
        self._of_floats = OF_FLOATS.get(found)
        self._inputs = found.nin
        self.__name__ = self.__qualname__ = found.__name__
        self.__doc__ = found.__doc__

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        if not kwargs and len(args) == self._inputs and type(first := args[0]) is Tensor:  # as NumPy does, without asking NumPy
            if self._of_floats is not None and ((dtype := first._array.dtype) is DOUBLE or dtype is SINGLE):
                for each in args[1:]:
                    if type(each) is not Tensor or each._array.dtype is not dtype:
                        break
                else:
                    return self._of_floats(*args)
            return of_ufunc(first, self.ufunc, "__call__", *args)
        for value in args:
            if type(value) is list or type(value) is tuple:
                return self.ufunc(*map(_stacked, args), **kwargs)
        return self.ufunc(*args, **kwargs)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.ufunc, name)
        if name in ("reduce", "accumulate", "reduceat", "outer", "at"):
            return lambda first, *args, **kwargs: found(_stacked(first), *args, **kwargs)
        return found

    def __repr__(self) -> str:
        return f"<ufunc {self.__name__!r} for arrays and Tensors>"


def _stacked(value: Any) -> Any:
    """A list with Tensors in it as one Tensor; all else as it is."""
    if type(value) is list or type(value) is tuple:
        like = first_tensor(value)
        if like is not None:
            made = tensor_of(unwrapped(value), unwrapped(like))
            return as_array(made) if isinstance(like, Array) else made
    return value
