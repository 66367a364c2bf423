"""Activation functions of torch.nn.functional, and dropout."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradlib.backend import dtype as dtypes, pointwise, vectorised
from gradlib.backend.array import device_index, namespace, on_device_of
from gradlib.backend.copying import row_major
from gradlib.backend.mask import chosen, extreme, stepped
from gradlib.core.inplace import check_inplace, write
from gradlib.core.modes import global_state, thread_state
from gradlib.core.op import composite, op
from gradlib.core.random import default_generator
from gradlib.core.tensor import Tensor, raw, wrap
from gradlib.ops.create import zeros_like
from gradlib.ops.dtype_rules import in_single, takes
from gradlib.ops.elementwise import erf, exp, sigmoid
from gradlib.ops.select import where_op
from gradlib.ops.trigonometry import tanh

__all__ = ["dropout", "relu"]  # the others are offered by gradlib.nn.functional only


# ---- with a kink --------------------------------------------------------------------------------------------------------------


@op(
    "elementwise", promote="same", method=False, complex="none",
    grad_output=lambda g, input, threshold: threshold_backward(g, input, threshold), input=lambda g: zeros_like(g),
    kernels={"out": "threshold_slope"},
)  # fmt: skip
def threshold_backward(xp: Any, grad_output: Any, input: Any, threshold: float) -> Any:
    """The gradient where input is above the threshold or NaN, else 0: the derivative of ``relu``. Its own derivative by input is 0."""
    return chosen(xp, input <= threshold, 0, grad_output)  # NaN passes


@op(
    "elementwise", promote="same", method=False, complex="none",
    grad_output=lambda g, input, negative_slope: leaky_relu_backward(g, input, negative_slope), input=lambda g: zeros_like(g),
    kernels={"out": "leaky_relu_slope"},
)  # fmt: skip
def leaky_relu_backward(xp: Any, grad_output: Any, input: Any, negative_slope: float) -> Any:
    """The gradient, times negative_slope where input is not positive: the derivative of ``leaky_relu``, whose own by input is 0."""
    return grad_output * stepped(xp, input > 0, 1.0, negative_slope, grad_output.dtype)


@op(
    "elementwise", promote=takes("relu", "if"), inplace=True, method=True, device=lambda input: pointwise.function("maximum")(input, 0),
    input=lambda g, out: threshold_backward(g, out, 0),
)  # fmt: skip
def relu_op(xp: Any, input: Any) -> Any:
    """Each element, or 0 where it is negative; the derivative at 0 is 0."""
    zero = 0 if input.dtype.kind != "V" else input.dtype.type(0)  # NumPy 2.0 makes float32 of a bfloat16 and an int
    return extreme(xp.maximum, input, zero)


@composite(method=False, bare=True)
def relu(input: Any, inplace: bool = False) -> Any:
    """Each element, or 0 where it is negative; the derivative at 0 is 0.

    Args:
        input: any shape; integer or float.
        inplace: write the result into input.
    Source: torch.nn.functional.relu.
    Example:
        >>> gradlib.relu(gradlib.tensor([-1.0, 2.0]))
        tensor([0., 2.])
    """
    return Tensor.relu_(input) if inplace else relu_op(input)


@op(
    "elementwise", promote=takes("leaky_relu", "f"), kernels={"out": "leaky_relu"},
    input=lambda g, input, negative_slope: leaky_relu_backward(g, input, negative_slope),
)  # fmt: skip
@in_single
def leaky_relu_op(xp: Any, input: Any, negative_slope: float) -> Any:
    """Each element, multiplied by negative_slope where it is not positive."""
    negative_slope = dtypes.fitted(negative_slope, input.dtype)
    if 0 < negative_slope <= 1:  # selecting by an unpredictable mask takes many times as long as a maximum
        return vectorised.leaky(xp, input, negative_slope)
    return xp.where(input > 0, input, input * negative_slope)


@composite(method=False)
def leaky_relu(input: Any, negative_slope: float = 0.01, inplace: bool = False) -> Any:
    """Each element, multiplied by negative_slope where it is not positive.

    Args:
        input: any shape, float.
        negative_slope: the factor below zero.
        inplace: write the result into input.
    Source: torch.nn.functional.leaky_relu.
    Example:
        >>> gradlib.nn.functional.leaky_relu(gradlib.tensor([-1.0, 2.0]), 0.1)
        tensor([-0.1000,  2.0000])
    """
    slope = float(negative_slope)
    return write(input, lambda x: leaky_relu_op(x, slope), "leaky_relu_") if inplace else leaky_relu_op(input, slope)


def _elu_slope(g: Any, input: Any, alpha: float) -> Any:
    if alpha == 1 and vectorised.fits(input, "fd"):
        return g * np.exp(extreme(np.minimum, input, 0))
    return where_op(input > 0, g, g * exp(where_op(input >= 0, 0, input)) * alpha)  # whose own derivative at 0 is 0


@op(
    "elementwise", promote=takes("elu", "f"), kernels={"out": "elu"},
    input=lambda g, input, alpha: _elu_slope(g, input, alpha),
)  # fmt: skip
@in_single
def elu_op(xp: Any, input: Any, alpha: float) -> Any:
    """Each element where it is positive, alpha * (exp(x) - 1) elsewhere."""
    return vectorised.elu(xp, input, dtypes.fitted(alpha, input.dtype))


@composite(method=False)
def elu(input: Any, alpha: float = 1.0, inplace: bool = False) -> Any:
    """Each element where it is positive, alpha * (exp(x) - 1) elsewhere.

    Args:
        input: any shape, float.
        alpha: the limit far below zero is -alpha.
        inplace: write the result into input.
    Source: torch.nn.functional.elu.
    Example:
        >>> gradlib.nn.functional.elu(gradlib.tensor([-1.0, 2.0]))
        tensor([-0.6321,  2.0000])
    """
    return write(input, lambda x: elu_op(x, float(alpha)), "elu_") if inplace else elu_op(input, float(alpha))


# ---- smooth -------------------------------------------------------------------------------------------------------------------


def _normal_slope(g: Any, input: Any) -> Any:
    if (made := vectorised.gelu_slope(g, input)) is not None:
        return made
    below = erf(input * math.sqrt(0.5)) * 0.5 + 0.5
    return g * (below + input * exp(input * input * -0.5) * (1 / math.sqrt(2 * math.pi)))


@op("elementwise", promote=takes("gelu", "f"), input=_normal_slope, kernels={"out": "gelu"})
@in_single
def gelu_op(xp: Any, input: Any) -> Any:
    """Each element times the probability that a standard normal number is smaller. Needs SciPy on the CPU."""
    return vectorised.gelu(input)


def _bent(input: Any) -> Any:
    return (input + input * input * input * 0.044715) * math.sqrt(2 / math.pi)


def _bent_slope(g: Any, input: Any) -> Any:
    half = tanh(_bent(input)) * 0.5
    bend = (input * input * (3 * 0.044715) + 1) * math.sqrt(2 / math.pi)
    steep = 0.5 - half * half * 2
    return g * (half + 0.5 + where_op(steep == 0, 0.0, input * steep * bend))  # far out, where the square may overflow


@op("elementwise", promote=takes("gelu", "f"), method=False, input=_bent_slope, kernels={"out": "gelu_tanh"})
@in_single
def gelu_tanh(xp: Any, input: Any) -> Any:
    """An approximation of ``gaussian_unit`` by a hyperbolic tangent."""
    return input * (tanh(_bent(input)) * 0.5 + 0.5)


@composite(method=False)
def gelu(input: Any, approximate: str = "none") -> Any:
    """Each element x times the standard normal distribution function of x.

    Args:
        approximate: "none" (needs SciPy on the CPU), or "tanh" for the usual approximation.
    Raises: RuntimeError for anything else.
    Source: torch.nn.functional.gelu; Hendrycks and Gimpel, Gaussian Error Linear Units (2016).
    Example:
        >>> gradlib.nn.functional.gelu(gradlib.tensor([-1.0, 2.0]), approximate="tanh")
        tensor([-0.1588,  1.9546])
    """
    if approximate not in ("none", "tanh"):
        raise RuntimeError(f"gelu: approximate argument must be either none or tanh, got {approximate!r}")
    return gelu_op(input) if approximate == "none" else gelu_tanh(input)


def _silu_slope(g: Any, input: Any) -> Any:
    if (made := vectorised.silu_slope(g, input)) is not None:
        return made
    s = sigmoid(input)
    return g * (s * (input * (1 - s) + 1))


@op("elementwise", promote=takes("silu", "fc"), input=_silu_slope, device="silu")
@in_single
def silu_op(xp: Any, input: Any) -> Any:
    """Each element times its sigmoid."""
    return input * sigmoid(input) if input.dtype.kind == "c" else vectorised.silu(xp, input)


@composite(method=False, bare=True)
def silu(input: Any, inplace: bool = False) -> Any:
    """Each element times its sigmoid.

    Args:
        input: any shape; float or complex.
        inplace: write the result into input.
    Source: torch.nn.functional.silu.
    Example:
        >>> gradlib.nn.functional.silu(gradlib.tensor([0.0, 2.0]))
        tensor([0.0000, 1.7616])
    """
    return write(input, silu_op, "silu_") if inplace else silu_op(input)


def _softplus_slope(g: Any, input: Any, beta: float, threshold: float) -> Any:
    if beta == 1 and (made := vectorised.softplus_slope(g, input, threshold)) is not None:
        return made
    scaled = input * beta
    return where_op(scaled > threshold, g, g * sigmoid(scaled))


@op(
    "elementwise", promote=takes("softplus", "f"), method=False, input=_softplus_slope,
    kernels={"out": "softplus"},
)  # fmt: skip
@in_single
def softplus(xp: Any, input: Any, beta: float = 1.0, threshold: float = 20.0) -> Any:
    """log(1 + exp(beta * x)) / beta of each element, and x itself where beta * x is above the threshold.

    Args:
        input: any shape, float.
        beta: a factor inside, divided by outside.
        threshold: where beta * input is above, the result is input.
    Source: torch.nn.functional.softplus.
    Example:
        >>> gradlib.nn.functional.softplus(gradlib.tensor([0.0, 2.0]))
        tensor([0.6931, 2.1269])
    """
    beta = 1 if beta == 1 else dtypes.fitted(float(beta), input.dtype)
    scaled = input if beta == 1 else input * beta
    if xp is np and 0 < input.size < vectorised.LEAST and scaled.item(scaled.argmax()) <= threshold:  # so nothing need be selected
        made = np.log1p(np.exp(scaled))
        return made if beta == 1 else made / beta
    if beta == 1 and vectorised.fits(input, "fd"):
        return vectorised.softplus(input, threshold)
    return chosen(xp, scaled > threshold, input, vectorised.log1p(xp, xp.exp(xp.minimum(scaled, float(threshold)))) / beta)


def _log_sigmoid_slope(g: Any, input: Any) -> Any:
    made = vectorised.times_logistic(g, input, mirrored=True)
    return g * sigmoid(-input) if made is None else made


@op(
    "elementwise", promote=takes("logsigmoid", "f"), method=False, input=_log_sigmoid_slope,
    kernels={"out": "log_sigmoid"},
)  # fmt: skip
@in_single
def logsigmoid(xp: Any, input: Any) -> Any:
    """log of the sigmoid of each element, exact in both tails.

    Args:
        input: any shape; float.
    Source: torch.nn.functional.logsigmoid.
    Example:
        >>> gradlib.nn.functional.logsigmoid(gradlib.tensor([0.0, 2.0]))
        tensor([-0.6931, -0.1269])
    """
    made = vectorised.log_sigmoid(xp, input)
    return made if made.ndim < 2 else row_major(made)


# ---- dropout --------------------------------------------------------------------------------------------------------------------


def _dropped_by_rows(input: Any, p: float, inplace: bool) -> Any:
    """``dropout`` under vmap, where each example may need random numbers of its own."""
    from gradlib.ops.random import rand

    kept = rand(tuple(input.shape), dtype=dtypes.float32, device=getattr(input, "device", None)) >= p
    factors = kept.to(dtypes.to_real(input.dtype)) * (1 / (1 - p) if p < 1 else 0.0)
    return input.mul_(factors) if inplace else input * factors


@composite(method=False)
def dropout(input: Any, p: float = 0.5, training: bool = True, inplace: bool = False) -> Any:
    """Each element set to 0 with probability p, the others divided by 1 - p; the input itself outside training.

    Args:
        input: any shape, float or complex.
        p: the probability, from 0 to 1.
        training: whether anything is dropped at all.
        inplace: write the result into input.
    Raises: ValueError for another p; RuntimeError for integers, which the quotients are not.
    Source: torch.nn.functional.dropout; the random numbers are gradlib's own stream.
    Example:
        >>> gradlib.dropout(gradlib.ones(3), p=0.5, training=False)
        tensor([1., 1., 1.])
    """
    if not 0 <= p <= 1:
        raise ValueError(f"dropout probability has to be between 0 and 1, but got {p}")
    if not training or p == 0:
        if type(input) is not Tensor:
            namespace(raw(input))  # which refuses anything but an array
        return input
    if p < 1 and dtypes.category(dtype := raw(input).dtype) < 2:
        raise RuntimeError(f"dropout gives floating-point numbers, which can't be cast to the dtype of its input, {dtype}; convert that")
    if inplace and isinstance(input, Tensor):
        check_inplace(input, "dropout_")  # before numbers are drawn
    if global_state.active and thread_state.interpreters:
        return _dropped_by_rows(input, p, inplace)
    array = input._array if isinstance(input, Tensor) else input
    kind = array.dtype if array.dtype.kind == "f" else dtypes.to_real(array.dtype)
    source, factor = default_generator(device_index(array)), 1 / (1 - p) if p < 1 else 0.0
    with on_device_of(array):
        if source.device.type != "cpu" and dtypes.category(kind) == 2:
            factors = source.draw("dropout", array.shape, kind, p, factor)
        else:
            factors = (source.uniform(array.shape, dtypes.float32) >= p).astype(kind) * factor
            factors = factors.astype(kind, copy=False)
        if not isinstance(input, Tensor):
            return input * factors
    return input.mul_(wrap(factors)) if inplace else input * wrap(factors)
