"""Activations, losses and the maps of layers, under torch's names. Source: torch.nn.functional."""

from __future__ import annotations

import warnings
from typing import Any

from gradlib.ops import softmax as _softmax
from gradlib.ops.activation import (
    dropout as dropout,
    elu as elu,
    gelu as gelu,
    leaky_relu as leaky_relu,
    logsigmoid as logsigmoid,
    relu as relu,
    silu as silu,
    softplus as softplus,
)
from gradlib.ops.classification_loss import (
    binary_cross_entropy_with_logits as binary_cross_entropy_with_logits,
    cross_entropy as cross_entropy,
    nll_loss as nll_loss,
)
from gradlib.ops.elementwise import sigmoid as sigmoid
from gradlib.ops.loss import huber_loss as huber_loss, l1_loss as l1_loss, mse_loss as mse_loss, smooth_l1_loss as smooth_l1_loss
from gradlib.ops.nn import embedding as embedding, layer_norm as layer_norm, linear as linear, one_hot as one_hot, pad as pad
from gradlib.ops.trigonometry import tanh as tanh


def _implied(name: str, input: Any, dim: int | None) -> int:
    """The dimension that torch chose before it asked for one, with its warning."""
    if dim is not None:
        return dim
    warnings.warn(f"Implicit dimension choice for {name} has been deprecated. Change the call to include dim=X.", UserWarning, stacklevel=3)
    return 0 if input.ndim in (0, 1, 3) else 1


def softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """``gradlib.softmax``.

    Args:
        input, dim, dtype: as in ``gradlib.softmax``; without dim, the dimension that torch once chose, with a warning.
    Source: torch.nn.functional.softmax.
    Example:
        >>> gradlib.nn.functional.softmax(gradlib.tensor([0.0, 0.0]), dim=0)
        tensor([0.5000, 0.5000])
    """
    return _softmax.softmax(input, _implied("softmax", input, dim), dtype)


def log_softmax(input: Any, dim: int | None = None, _stacklevel: int = 3, dtype: Any = None) -> Any:
    """``gradlib.log_softmax``.

    Args:
        input: any shape, float.
        dim: the dimension.
        dtype: the dtype of input before the calculation.
    Source: torch.nn.functional.log_softmax.
    Example:
        >>> gradlib.nn.functional.log_softmax(gradlib.tensor([0.0, 0.0]), dim=0)
        tensor([-0.6931, -0.6931])
    """
    return _softmax.log_softmax(input, _implied("log_softmax", input, dim), dtype)


def relu_(input: Any) -> Any:
    """``relu`` written into input.

    Args:
        input: a tensor; further arguments as for the form that makes a new one.
    Source: torch.nn.functional.relu_.
    Example:
        >>> gradlib.nn.functional.relu_(gradlib.tensor([-1.0, 2.0]))
        tensor([0., 2.])
    """
    return relu(input, inplace=True)


def leaky_relu_(input: Any, negative_slope: float = 0.01) -> Any:
    """``leaky_relu`` written into input.

    Args:
        input: the tensor that is written.
        negative_slope: as for ``leaky_relu``.
    Source: torch.nn.functional.leaky_relu_.
    Example:
        >>> gradlib.nn.functional.leaky_relu_(gradlib.tensor([-1.0, 2.0]))
        tensor([-0.0100,  2.0000])
    """
    return leaky_relu(input, negative_slope, inplace=True)


def elu_(input: Any, alpha: float = 1.0) -> Any:
    """``elu`` written into input.

    Args:
        input: the tensor that is written.
        alpha: as for ``elu``.
    Source: torch.nn.functional.elu_.
    Example:
        >>> gradlib.nn.functional.elu_(gradlib.tensor([-1.0, 2.0]))
        tensor([-0.6321,  2.0000])
    """
    return elu(input, alpha, inplace=True)
