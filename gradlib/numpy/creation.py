"""``array``, ``asarray`` and ``full``: NumPy dispatches these to no protocol, so ``gradlib.numpy`` has its own."""

from __future__ import annotations

from typing import Any

import numpy as np

from gradlib.core.tensor import Tensor
from gradlib.numpy.operands import cast, first_tensor, tensor_of
from gradlib.numpy.registry import implements


@implements(np.array)
def array(
    object: Any, dtype: Any = None, *, copy: Any = True, order: Any = "K", subok: bool = False, ndmin: int = 0, like: Any = None
) -> Tensor:
    """A Tensor of Tensors and numbers in nested lists, which carries their derivatives."""
    x = tensor_of(object, first_tensor(object))
    made = cast(x, dtype)
    if copy is False and made is not object:
        raise ValueError("Unable to avoid copy while creating an array as requested.")
    if made is object and copy:
        made = made.clone()
    return made.reshape((*[1] * (ndmin - made.ndim), *made.shape)) if ndmin > made.ndim else made


@implements(np.asarray, np.asanyarray)
def asarray(a: Any, dtype: Any = None, order: Any = None, *, device: Any = None, copy: Any = None, like: Any = None) -> Tensor:
    """A Tensor as it is; lists of Tensors and numbers stacked."""
    return array(a, dtype, copy=copy)


@implements(np.ascontiguousarray, np.asfortranarray)
def ascontiguousarray(a: Any, dtype: Any = None, *, like: Any = None) -> Tensor:
    """As ``asarray``, of at least one dimension."""
    return array(a, dtype, copy=None, ndmin=1)


@implements(np.asarray_chkfinite)
def asarray_chkfinite(a: Any, dtype: Any = None, order: Any = None) -> Tensor:
    """The same, of finite numbers only."""
    x = asarray(a, dtype)
    if not bool(x.detach().isfinite().all()):
        raise ValueError("array must not contain infs or NaNs")
    return x


@implements(np.full)
def full(shape: Any, fill_value: Any, dtype: Any = None, order: Any = "C", *, device: Any = None, like: Any = None) -> Tensor:
    """One value everywhere, that of a Tensor."""
    return cast(tensor_of(fill_value), dtype).broadcast_to(tuple(shape) if isinstance(shape, (tuple, list)) else (shape,)).clone()
