"""``Variable``, an old name of Tensor. Source: torch.autograd.Variable."""

from __future__ import annotations

import warnings
from typing import Any

from gradlib.core.tensor import Tensor


class _Meta(type):
    def __instancecheck__(cls, instance: Any) -> bool:
        return isinstance(instance, Tensor)


class Variable(metaclass=_Meta):
    """The name that old programs use: ``Variable(x)`` is a tensor with x's memory and no history, and every Tensor is an instance of it.

    Args:
        data: the Tensor; without it, an empty one.
        requires_grad: whether gradients for the result are wanted.
        volatile: accepted without effect; use ``no_grad``.
    Raises: TypeError for data that is no Tensor.
    Source: torch.autograd.Variable.
    Example:
        >>> x = gradlib.autograd.Variable(gradlib.ones(2), requires_grad=True)
        >>> isinstance(x, gradlib.autograd.Variable), type(x).__name__
        (True, 'Tensor')
    """

    def __new__(cls, data: Any = None, requires_grad: bool = False, volatile: bool = False) -> Any:
        if volatile:
            said = "volatile was removed and now has no effect. Use `with gradlib.no_grad():` instead."
            warnings.warn(said, UserWarning, stacklevel=2)
        if data is None:
            return Tensor().requires_grad_(requires_grad)
        if not isinstance(data, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(data).__name__}")
        return data.detach().requires_grad_(requires_grad)
