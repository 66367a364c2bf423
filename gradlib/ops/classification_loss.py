"""Classification losses: of scores, or their logarithms, by classes, by probabilities of classes, and by yes or no."""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from gradlib.backend import classes as classes_on_device, dtype as dtypes, formulas, vectorised
from gradlib.backend.array import Array, Namespace
from gradlib.backend.flat_index import are_within, positions
from gradlib.backend.formulas import formula
from gradlib.backend.reducing import largest
from gradlib.core.compile import named
from gradlib.core.op import composite, op
from gradlib.core.tensor import Tensor, raw
from gradlib.ops.activation import logsigmoid
from gradlib.ops.convert import to
from gradlib.ops.elementwise import sigmoid
from gradlib.ops.gather import inside
from gradlib.ops.index import index as pick
from gradlib.ops.loss import reduced, reduction_of
from gradlib.ops.reduce import back, sum, total
from gradlib.ops.select import where_op
from gradlib.ops.softmax import log_softmax, sum_of_lines

__all__: list[str] = []  # these are gradlib.nn.functional's


def _class_dim(input: Any) -> int:
    """The dimension of the classes: the only one, or the second, behind that of the batch."""
    return 0 if input.ndim == 1 else 1


def _counted(xp: Namespace, target: Array, weight: Array | None, ignore_index: int, size: int = 0) -> tuple[Array, Array, Array]:
    """The classes in one line, with 0 in place of those to ignore; which count; what each of them counts. Checked where size is given."""
    counts = target != ignore_index
    classes = xp.where(counts, target, 0)
    if size:
        inside("nll_loss: target out of bounds", classes, size, IndexError)
    return classes.reshape(-1), counts, counts if weight is None else xp.where(counts, weight[classes], weight.dtype.type(0))


def _plain(xp: Namespace, input: Array, target: Array, weight: Array | None, ignore_index: int, size: int) -> bool:
    """Whether these are scores (N, C) or (C,) on the host, whose targets all count the same; of other dtypes the rules are longer."""
    if xp is not np or weight is not None or input.ndim > 2 or 0 <= ignore_index < size or input.dtype.char not in "fd":
        return False
    if target.dtype != dtypes.int64 or not target.size:
        return False
    return are_within(target, size)


@op(
    "linear", also=("target", "weight"), complex="none",
    input=lambda g, target, weight, ignore_index, reduction, input_shape: (
        to_classes(g, target, weight, ignore_index, reduction, input_shape)
    ),
    kernels={"out": classes_on_device.loss, "input": classes_on_device.loss_gradient},
)  # fmt: skip
def nll_loss_op(xp: Namespace, input: Any, target: Any, weight: Any, ignore_index: int, reduction: str) -> Any:
    """Minus the input at each target's class, weighted and reduced."""
    dim = _class_dim(input)
    size = input.shape[dim]
    if not size:  # without classes every target must be ignored; a column of zeros makes the look-up possible
        if (target != ignore_index).any():
            raise IndexError(f"nll_loss: target out of bounds: the input of shape {list(input.shape)} has no classes")
        size, weight = 1, None if weight is None else xp.zeros(1, weight.dtype)
        input = xp.zeros((*input.shape[:dim], 1, *input.shape[dim + 1 :]), input.dtype)
    if _plain(xp, input, target, weight, ignore_index, size):
        picked = input[(positions(target.size, 0), target)[-input.ndim :]]
        if reduction == "none":
            return -picked
        summed = -total(xp, picked, None, False)
        return summed / target.size if reduction == "mean" else summed
    classes, counts, shares = _counted(xp, target, weight, ignore_index, size)
    rows = input if input.ndim == 2 else xp.moveaxis(input, dim, -1).reshape(classes.size, size)
    loss = -rows[xp.arange(classes.size), classes].reshape(target.shape)
    loss = xp.where(counts, loss if weight is None else loss * shares, input.dtype.type(0))
    if reduction == "none":
        return loss
    summed = total(xp, loss, None, False)
    return back(summed / total(xp, shares, None, False) if reduction == "mean" else summed, input.dtype).astype(input.dtype)


@op(
    "linear", also=("target", "weight"), method=False, complex="none",
    input=lambda g, target, weight, ignore_index, reduction: nll_loss_op(g, target, weight, ignore_index, reduction),
    kernels={"out": classes_on_device.loss_gradient, "input": classes_on_device.loss},
)  # fmt: skip
def to_classes(xp: Namespace, input: Any, target: Any, weight: Any, ignore_index: int, reduction: str, shape: tuple[int, ...]) -> Any:
    """The transpose of ``of_classes``: minus the weighted input at each target's class, zero at the other classes."""
    dim = 0 if len(shape) == 1 else 1
    if not shape[dim]:
        return xp.zeros(shape, input.dtype)
    if _plain(xp, input, target, weight, ignore_index, shape[dim]) and len(shape) <= 2:
        made = xp.zeros(shape, input.dtype)
        made[(positions(target.size, 0), target)[-len(shape) :]] = -input / target.size if reduction == "mean" else -input
        return made
    classes, counts, shares = _counted(xp, target, weight, ignore_index)
    values = -(input * shares)
    if reduction == "mean":
        values = xp.where(counts, values / total(xp, shares, None, False), input.dtype.type(0))  # NaN where the weights sum to zero
    result = xp.zeros((classes.size, shape[dim]), input.dtype)
    result[xp.arange(classes.size), classes] = values.reshape(-1)
    return result if len(shape) == 2 else xp.moveaxis(result.reshape(*target.shape, shape[dim]), -1, dim)


def _check_classes(input: Any, shape: tuple[int, ...], target: Any, given: tuple[int, ...], weight: Any) -> None:
    """Refuse what does not fit together as (N, C, ...) scores, (N, ...) classes and (C,) weights; ``shape``, ``given``: of the two."""
    if not shape:
        raise ValueError("Expected 1 or more dimensions (got 0)")
    if input.dtype.kind in "bui":
        raise NotImplementedError(f"a loss of classes takes scores that are floats, got {input.dtype}; convert them with .float()")
    if target.dtype not in (dtypes.int64, dtypes.uint8):
        raise RuntimeError(f"expected target dtype to be int64 or uint8, but got {target.dtype}; convert it with .long()")
    dim = 0 if len(shape) == 1 else 1
    batch = (*shape[:dim], *shape[dim + 1 :])
    if given != batch:
        if len(shape) > 1 and given and given[0] != shape[0]:
            raise ValueError(f"Expected input batch_size ({shape[0]}) to match target batch_size ({given[0]}).")
        raise RuntimeError(f"Expected target size {list(batch)}, got {list(given)}")
    if weight is not None:
        _check_weight(input, weight, dim)
        if weight.dtype != input.dtype:
            raise RuntimeError(f"expected weight of the input's dtype {input.dtype} but found {weight.dtype}")


def _check_weight(input: Any, weight: Any, dim: int) -> None:
    of = input._array if type(input) is Tensor else raw(input)
    if (weight._array if isinstance(weight, Tensor) else weight).shape != of.shape[dim : dim + 1]:
        raise RuntimeError(
            f"weight tensor should be defined either for all {input.shape[dim]} classes or no classes but got weight tensor of shape: "
            f"{list(weight.shape)}"
        )
    if isinstance(weight, Tensor) and weight._node is not None:
        _no_gradient("nll_loss", "weight", weight)


def _no_gradient(function: str, name: str, value: Any) -> None:
    """Refuse a tensor that requires a gradient where the function has none for it."""
    if isinstance(value, Tensor) and value.requires_grad:
        raise RuntimeError(
            f"The function '{function}' is not differentiable with respect to argument '{name}'. This input cannot have requires_grad "
            f"True; pass {name}.detach()."
        )


@composite(method=False)
def nll_loss(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
) -> Any:
    """Minus the log-probability of the right class.

    Args:
        input: log-probabilities (N, C), (C,) or (N, C, d1, ...), real float dtype.
        target: classes 0 to C - 1, of dtype int64 or uint8, (N,), () or (N, d1, ...).
        weight: (C,) of the input's dtype, how much each class counts; "mean" divides by what the targets' classes count together.
        ignore_index: a target that counts nothing.
        reduction: "mean", "sum", or "none" (the target's shape).
        size_average, reduce: deprecated forms of ``reduction``.
    Raises: IndexError for a class outside, ValueError and RuntimeError for shapes and dtypes that do not fit.
    Source: torch.nn.functional.nll_loss.
    Example:
        >>> gradlib.nn.functional.nll_loss(gradlib.tensor([[-1.0, -2.0]]), gradlib.tensor([1]))
        tensor(2.)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    shape = (input._array if type(input) is Tensor else raw(input)).shape
    given = (target._array if type(target) is Tensor else raw(target)).shape
    if len(shape) == 1 and given == (1,):
        target, given = target.reshape(()), ()
    _check_classes(input, shape, target, given, weight)
    return nll_loss_op(input, target, weight, ignore_index, reduction)


@composite(method=False)
def cross_entropy(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: bool | None = None,
    ignore_index: int = -100,
    reduce: bool | None = None,
    reduction: str = "mean",
    label_smoothing: float = 0.0,
) -> Any:
    """Minus the log-probability of the right class, from scores that need not be normalised.

    Args:
        input: scores (N, C), (C,) or (N, C, d1, ...), real float dtype.
        target: classes, as for ``nll_loss``; or probabilities of the input's shape and of float dtype.
        weight, ignore_index, size_average, reduce, reduction: as for ``nll_loss``; with probabilities "mean" divides by the batch size.
        label_smoothing: from 0 to 1, how much of each target is shared out equally among all classes.
    Raises: as ``nll_loss``; RuntimeError for a label_smoothing outside [0, 1]; IndexError for scores without dimensions.
    Source: torch.nn.functional.cross_entropy.
    Example:
        >>> gradlib.nn.functional.cross_entropy(gradlib.tensor([[1.0, 2.0, 0.0]]), gradlib.tensor([1]))
        tensor(0.4076)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    if not 0.0 <= label_smoothing <= 1.0:
        raise RuntimeError(f"label_smoothing must be between 0.0 and 1.0. Got: {label_smoothing}")
    shape = (input._array if type(input) is Tensor else raw(input)).shape
    given = (target._array if type(target) is Tensor else raw(target)).shape
    if not shape:
        raise IndexError("cross_entropy: Dimension specified as 1 but the input has no dimensions; give (N, C) or (C,)")
    dim = 0 if len(shape) == 1 else 1
    if shape == given:
        return _of_probabilities(log_softmax(input, dim), target, weight, dim, ignore_index, reduction, label_smoothing)
    if dim == 0 and given == (1,):
        target, given = target.reshape(()), ()
    _check_classes(input, shape, target, given, weight)
    if (
        not label_smoothing and len(shape) == 2 and type(input) is type(target) is Tensor and type(input._array) is np.ndarray
        and _plain(np, input._array, target._array, weight, ignore_index, shape[1])
    ):  # fmt: skip
        return _of_labels(input, target, reduction)[0]
    scores = log_softmax(input, dim)
    if not label_smoothing:
        return nll_loss_op(scores, target, weight, ignore_index, reduction)
    if type(scores) is Tensor and type(scores._array) is not np.ndarray:
        return _of_smoothed(scores, target, weight, ignore_index, reduction, label_smoothing)
    return _smoothed(scores, target, weight, ignore_index, reduction, label_smoothing)


def _smoothed(scores: Any, target: Any, weight: Any, ignore_index: int, reduction: str, smoothing: float) -> Any:
    """The loss of targets of which a part is shared equally by all classes."""
    spread_out = _to_all_classes(scores, target, weight, ignore_index, reduction)
    loss = nll_loss_op(scores, target, weight, ignore_index, reduction)
    return loss * (1 - smoothing) + spread_out * _part(smoothing, scores.shape[_class_dim(scores)])


def _shared_out(g: Any, target: Any, weight: Any, ignore_index: int, reduction: str, shape: tuple[int, ...], smoothing: float) -> Any:
    """The transpose of ``_smoothed``: the gradient by scores of a shape."""
    dim = 0 if len(shape) == 1 else 1
    counts = target != ignore_index
    each = counts.to(g.dtype) if isinstance(counts, Tensor) else counts.astype(g.dtype)
    if reduction == "mean":
        each = each / sum(each if weight is None else pick(weight, [target * counts]) * each)
    each = (g * each).reshape((*shape[:dim], 1, *shape[dim + 1 :]))
    by_class = 1 if weight is None else _by_class(weight, len(shape))
    own = to_classes(g, target, weight, ignore_index, reduction, shape)
    return own * (1 - smoothing) - each * by_class * _part(smoothing, shape[dim])


def _smoothed_slope(
    g: Any, target: Any, weight: Any, ignore_index: int, reduction: str, smoothing: float, input_shape: tuple[int, ...]
) -> Any:
    return from_smoothed(g, target, weight, ignore_index, reduction, input_shape, smoothing)


def _smoothed_slope_on_device(
    g: Any, target: Any, weight: Any, ignore_index: int, reduction: str, smoothing: float, input_shape: tuple[int, ...]
) -> Any:
    return classes_on_device.loss_gradient(g, target, weight, ignore_index, reduction, input_shape, smoothing)


@op(
    "linear", also=("target", "weight"), method=False, complex="none", input=_smoothed_slope, steps=_smoothed,
    kernels={"out": classes_on_device.loss, "input": _smoothed_slope_on_device},
)  # fmt: skip
def smoothed_loss(xp: Namespace, input: Any, target: Any, weight: Any, ignore_index: int, reduction: str, smoothing: float) -> Any:
    """``_smoothed`` as one operation, for a device."""
    return _smoothed(input, target, weight, ignore_index, reduction, smoothing)


_of_smoothed = named(smoothed_loss, "nll_loss")


@op(
    "linear", also=("target", "weight"), method=False, complex="none", steps=_shared_out,
    input=lambda g, target, weight, ignore_index, reduction, smoothing: (
        smoothed_loss(g, target, weight, ignore_index, reduction, smoothing)
    ),
    kernels={"out": classes_on_device.loss_gradient},
)  # fmt: skip
def from_smoothed(
    xp: Namespace, input: Any, target: Any, weight: Any, ignore_index: int, reduction: str, shape: tuple[int, ...], smoothing: float
) -> Any:
    """``_shared_out`` as one operation, for a device."""
    return _shared_out(input, target, weight, ignore_index, reduction, shape, smoothing)


def _scores_slope(g: Any, target: Any, grown: Any, added: Any, reduction: str) -> Any:
    """The softmax, less 1 at each target: ``grown / added``, for which alone the other two results are, so any factor of both will do."""
    by_out, *by_others = g
    made: Any = None
    if by_out is not None:
        share = by_out / len(target) if reduction == "mean" else by_out if reduction == "sum" else by_out[:, None]
        made = grown * (share / added)
        if type(made) is np.ndarray:
            made[positions(len(target), 0), target] -= share if reduction != "none" else by_out
        else:
            made = made + to_classes(by_out, target, None, -1, reduction, grown.shape)
    for each in by_others:
        if each is not None:
            made = each * grown if made is None else made + each * grown
    return made


@op("other", outputs=("out", "grown", "added"), also=("target",), method=False, complex="none", input=_scores_slope)
def cross_entropy_op(xp: Namespace, input: Any, target: Any, reduction: str) -> Any:
    """The loss of scores (N, C) by targets (N,) in range; of each row the exponentials, up to a factor, and their sum."""
    away = input - largest(input, 1)
    grown = xp.exp(away)
    added = sum_of_lines(xp, grown, 1)
    if added.dtype is not grown.dtype:  # of half types it is float32
        added = added.astype(grown.dtype)
    losses = xp.log(added)[:, 0] - away[positions(len(target), 0) if xp is np else xp.arange(len(target)), target]
    if reduction != "none":
        losses = xp.add.reduce(losses)
    return losses / len(target) if reduction == "mean" else losses, grown, added


_of_labels = named(cross_entropy_op, "nll_loss")


def _part(smoothing: float, classes: int) -> float:
    """The share of label smoothing for each class: inf or NaN, as IEEE 754 divides, where there are no classes."""
    return smoothing / classes if classes else math.inf


def _by_class(weight: Any, ndim: int) -> Any:
    """Weights of classes in a shape that multiplies scores of so many dimensions."""
    return weight.reshape(-1, *[1] * (ndim - 2)) if ndim > 2 else weight


def _to_all_classes(scores: Any, target: Any, weight: Any, ignore_index: int, reduction: str) -> Any:
    """The loss of targets that are shared equally by all classes, times the number of classes."""
    counts = target != ignore_index
    loss = where_op(counts, -sum(scores if weight is None else scores * _by_class(weight, scores.ndim), _class_dim(scores)), 0.0)
    if reduction != "mean":
        return reduced(loss, reduction)
    shares = counts.to(scores.dtype) if isinstance(counts, Tensor) else counts.astype(scores.dtype)
    return sum(loss) / sum(shares if weight is None or not weight.shape[0] else pick(weight, [target * counts]) * shares)


def _share_numbers(shape: tuple[int, ...], reduction: str, smoothing: float) -> tuple[float, float, int]:
    """What the probability of a class is multiplied by, what is added to it, and what the sum is divided by."""
    size = shape[0 if len(shape) == 1 else 1]
    return 1 - smoothing, smoothing / size, math.prod(shape) // size if reduction == "mean" else 1


def _reaching(g: Any, weight: Any, reduction: str, shape: tuple[int, ...]) -> Any:
    """The gradient of a loss as it reaches the scores, which have a shape: that of their row, times the weight of their class."""
    if reduction == "none":
        dim = 0 if len(shape) == 1 else 1
        g = g.reshape((*shape[:dim], 1, *shape[dim + 1 :]))
    return g if weight is None else g * _by_class(weight, len(shape))


def _share_slope(g: Any, shares: Any, weight: Any, reduction: str) -> Any:
    """The gradient by scores, of the shares that are taken of them; or by these, of the scores."""
    return shares * (-_reaching(g, weight, reduction, shares.shape) / _share_numbers(shares.shape, reduction, 0.0)[2])


def _share_slope_on_device(g: Any, shares: Any, weight: Any, reduction: str) -> Any:
    by = _share_numbers(shares.shape, reduction, 0.0)[2]
    return formula("share_slope")(_reaching(g, weight, reduction, shares.shape), shares, by)


def _shares_on_device(input: Any, target: Any, weight: Any, reduction: str, smoothing: float = 0.0) -> Any:
    keep, part, by = _share_numbers(input.shape, reduction, smoothing)
    if reduction == "none":
        return classes_on_device.loss_of_shares(input, target, weight, keep, part, bool(smoothing))
    by_class = None if weight is None else _by_class(weight, input.ndim)
    return formulas.summed("shares", input, target, keep, part, by=by, weight=by_class, keeps=bool(smoothing))


@op(
    "other", also=("weight",), method=False, complex="none",
    steps=lambda input, target, weight, reduction: _shares_in_steps(input, target, weight, reduction, 0.0),
    input=lambda g, target, weight, reduction: _share_slope(g, target, weight, reduction),
    target=lambda g, input, weight, reduction: _share_slope(g, input, weight, reduction),
    kernels={
        "out": _shares_on_device,
        "input": lambda g, target, weight, reduction: _share_slope_on_device(g, target, weight, reduction),
        "target": lambda g, input, weight, reduction: _share_slope_on_device(g, input, weight, reduction),
    },
)  # fmt: skip
def loss_of_shares(xp: Namespace, input: Any, target: Any, weight: Any, reduction: str) -> Any:
    """Minus the sum or mean of scores times probabilities for every class, or the sum of each row, for a device."""
    return _sum_of_shares(xp, input, target, weight, reduction)


def _sum_of_shares(xp: Namespace, input: Any, shares: Any, weight: Any, reduction: str) -> Any:
    each = input * shares if weight is None else input * shares * _by_class(weight, input.ndim)
    summed = total(xp, each, _class_dim(input) if reduction == "none" else None, False)
    return back(-summed / _share_numbers(input.shape, reduction, 0.0)[2], input.dtype)


@op(
    "other", also=("weight",), method=False, complex="none",
    steps=lambda input, target, weight, reduction, smoothing: _shares_in_steps(input, target, weight, reduction, smoothing),
    hidden={"shares": {"target": lambda g, smoothing: g * (1 - smoothing)}},
    input=lambda g, shares, weight, reduction: _share_slope(g, shares, weight, reduction),
    target=lambda g, input, weight, reduction, smoothing: _share_slope(g * (1 - smoothing), input, weight, reduction),
    kernels={
        "out": _shares_on_device,
        "input": lambda g, shares, weight, reduction: _share_slope_on_device(g, shares, weight, reduction),
    },
)  # fmt: skip
def loss_of_smoothed_shares(xp: Namespace, input: Any, target: Any, weight: Any, reduction: str, smoothing: float) -> Any:
    """``loss_of_shares`` of probabilities of which a part is shared equally by all classes; and these, by which target may be written."""
    keep, part, _ = _share_numbers(input.shape, reduction, smoothing)
    shares = target * keep + part
    return _sum_of_shares(xp, input, shares, weight, reduction), shares


_of_shares, _of_smoothed_shares = (named(each, "cross_entropy") for each in (loss_of_shares, loss_of_smoothed_shares))


def _are_plain_on_device(scores: Any, target: Any, weight: Any) -> bool:
    """Whether these are Tensors on a device, of one dtype and not empty: the loss of them is one operation. A weight may be None."""
    if type(scores) is not Tensor or type(target) is not Tensor:
        return False
    a, b = scores._array, target._array
    if weight is not None and weight.dtype != a.dtype:
        return False
    return type(a) is type(b) is not np.ndarray and a.dtype is b.dtype and a.size > 0


def _of_probabilities(scores: Any, target: Any, weight: Any, dim: int, ignore_index: int, reduction: str, smoothing: float) -> Any:
    """The cross entropy of probabilities for every class."""
    if target.dtype.kind != "f" and not dtypes.is_floating_point(target.dtype):
        raise RuntimeError(f"Expected floating point type for target with class probabilities, got {target.dtype}")
    if ignore_index >= 0:
        raise RuntimeError("ignore_index is not supported for floating point target")
    if weight is not None:
        _check_weight(scores, weight, dim)
    if not _are_plain_on_device(scores, target, weight):
        return _shares_in_steps(scores, target, weight, reduction, smoothing)
    if smoothing:
        return _of_smoothed_shares(scores, target, weight, reduction, smoothing)
    return _of_shares(scores, target, weight, reduction)


def _shares_in_steps(scores: Any, target: Any, weight: Any, reduction: str, smoothing: float) -> Any:
    """The same, once it is known to fit, step by step."""
    dim = 0 if scores.ndim == 1 else 1
    if smoothing:
        target = target * (1 - smoothing) + _part(smoothing, scores.shape[dim])
    loss = scores * target
    if weight is not None:
        loss = loss * _by_class(weight, scores.ndim)
    if reduction == "none":
        return -sum(loss, dim)
    number = 1
    for i, size in enumerate(scores.shape):
        number *= 1 if i == dim else size
    if reduction == "sum":
        return -sum(loss)
    return -sum(loss) / number if number and scores.shape[dim] else -sum(loss) * math.nan


# ---- binary: yes or no --------------------------------------------------------------------------------------------------------


def _logit_rule(g: Any, input: Any, target: Any, pos_weight: Any) -> Any:
    if pos_weight is None:
        return g * (sigmoid(input) - target)
    yes = pos_weight * target
    return g * ((yes + 1 - target) * sigmoid(input) - yes)


def _answer_rule(g: Any, input: Any, pos_weight: Any) -> Any:
    return -(g * input) if pos_weight is None else g * ((1 - pos_weight) * logsigmoid(input) - input)


def _logit_kernel(input: Any, target: Any, pos_weight: Any) -> Any:
    if pos_weight is None:
        return formula("cross_entropy_with_logits")(input, target)
    return formula("logits_with_weight")(input, target, pos_weight)


@op(
    "other", promote="same", also=("pos_weight",), complex="none",
    input=_logit_rule, target=_answer_rule, kernels={"out": _logit_kernel},
)  # fmt: skip
def binary_cross_entropy_with_logits_op(xp: Namespace, input: Any, target: Any, pos_weight: Any) -> Any:
    """(1 - t) x + (1 + (pos_weight - 1) t) log(1 + exp(-x)), without overflow."""
    if not dtypes.is_floating_point(input.dtype):
        raise NotImplementedError(f"binary_cross_entropy_with_logits is not implemented for {input.dtype}; convert it with .float()")
    if pos_weight is None and vectorised.fit(input, target):
        return vectorised.cross_entropy_with_logits(input, target)
    missed = vectorised.log1p(xp, xp.exp(xp.copysign(input, -1.0))) + xp.maximum(-input, 0)  # the loss of a yes
    loss = (1 - target) * input + (missed if pos_weight is None else (1 + (pos_weight - 1) * target) * missed)
    return loss.astype(input.dtype, copy=False)  # NumPy 2.0 makes float32 of a bfloat16 and an int


@composite(method=False)
def binary_cross_entropy_with_logits(
    input: Any,
    target: Any,
    weight: Any = None,
    size_average: bool | None = None,
    reduce: bool | None = None,
    reduction: str = "mean",
    pos_weight: Any = None,
) -> Any:
    """Cross entropy of yes-or-no answers, from scores whose sigmoid is the probability of yes.

    Args:
        input: scores, any shape, real float dtype.
        target: probabilities of yes, of the same shape.
        weight: how much each element counts; broadcasts with the input.
        pos_weight: how much a yes counts against a no; broadcasts with the input.
        size_average, reduce, reduction: as for ``mse_loss``.
    Returns: a loss of target's dtype, if that is floating.
    Raises: ValueError for different shapes, RuntimeError for weights that require a gradient, NotImplementedError for whole scores.
    Source: torch.nn.functional.binary_cross_entropy_with_logits.
    Example:
        >>> gradlib.nn.functional.binary_cross_entropy_with_logits(gradlib.tensor([0.0, 2.0]), gradlib.tensor([0.0, 1.0]))
        tensor(0.4100)
    """
    reduction = reduction_of(size_average, reduce, reduction)
    a, b = (input._array, target._array) if type(input) is type(target) is Tensor else (raw(input), raw(target))
    if a.shape != b.shape:
        raise ValueError(f"Target size ({list(target.shape)}) must be the same as input size ({list(input.shape)})")
    for name, value in (("weight", weight), ("pos_weight", pos_weight)):
        if isinstance(value, Tensor) and value._node is not None:
            _no_gradient("binary_cross_entropy_with_logits", name, value)
    if input.dtype.kind in "bui":
        raise NotImplementedError(f"binary_cross_entropy_with_logits takes scores that are floats, got {input.dtype}; use .float()")
    if pos_weight is not None and pos_weight.dtype.kind in "bui":
        pos_weight = to(pos_weight, dtype=input.dtype)
    loss = binary_cross_entropy_with_logits_op(input, target, pos_weight)
    if weight is not None:
        loss = loss * weight
    if loss.dtype != target.dtype and dtypes.is_floating_point(target.dtype):
        loss = to(loss, dtype=target.dtype)
    return reduced(loss, reduction)
