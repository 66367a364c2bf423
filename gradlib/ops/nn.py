"""The operations of neural networks' layers: linear maps, embeddings, padding, normalisation."""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Sequence
from typing import Any

import numpy as np

from gradlib.backend import dtype as dtypes, moments
from gradlib.backend.array import SMALL, Namespace, namespace, on_device_of, zero_d
from gradlib.backend.columns import LEAST, has_columns, write
from gradlib.backend.copying import assign, row_major
from gradlib.backend.rows import by_rows, has_rows
from gradlib.backend.scatter import scatter_add
from gradlib.backend.sums import SHORT, row_sums
from gradlib.core.compile import named
from gradlib.core.grad_mode import no_grad
from gradlib.core.op import composite, op
from gradlib.core.tensor import Tensor, raw
from gradlib.ops.gather import inside
from gradlib.ops.index import index_backward
from gradlib.ops.linalg.norms import vector_norm
from gradlib.ops.product import linear_unbiased, mapped, matmul, multiplied, multiply_stacks, weight_slope
from gradlib.ops.reduce import count, mean, spread, sum_of_products, total, total_of_squares

__all__: list[str] = []  # these are gradlib.nn.functional's

# ---- linear maps --------------------------------------------------------------------------------------------------------------


@op(
    "other", promote=mapped,
    input=lambda g, weight: multiply_stacks(g, weight), weight=lambda g, input: weight_slope(g, input), bias=lambda g: g,
    jvp=lambda t_input, t_weight, t_bias, input, weight: linear_op(t_input, weight, t_bias) + linear_unbiased(input, t_weight),
)  # fmt: skip
def linear_op(xp: Namespace, input: Any, weight: Any, bias: Any) -> Any:
    """``input @ weight.T + bias``."""
    if weight.ndim != 2:
        mapped([input, weight, bias])
    made = multiplied(xp, input, weight.T)
    if made.ndim < bias.ndim or made.dtype != input.dtype:  # bfloat16 is multiplied into float32
        return (made + bias).astype(input.dtype, copy=False)
    made += bias
    return made


_by_vector = named(matmul, "linear", node=False)


@composite(method=False)
def linear(input: Any, weight: Any, bias: Any = None) -> Any:
    """The affine map ``input @ weight.T + bias``.

    Args:
        input: (..., n).
        weight: (m, n), or (n,) without a bias.
        bias: (m,), or nothing; all of one dtype.
    Returns: (..., m), or (...) for a weight of one dimension.
    Raises: RuntimeError for shapes or dtypes that do not fit.
    Source: torch.nn.functional.linear.
    Example:
        >>> gradlib.nn.functional.linear(gradlib.tensor([1.0, 2.0]), gradlib.tensor([[1.0, 1.0]]), gradlib.tensor([0.5]))
        tensor([3.5000])
    """
    if bias is not None:
        return linear_op(input, weight, bias)
    return linear_unbiased(input, weight) if weight.ndim == 2 else _by_vector(input, weight)


# ---- classes ------------------------------------------------------------------------------------------------------------------


@op(
    "linear", also=("indices", "share"), complex="explicit",
    weight=lambda g, indices, share, weight_shape: index_backward(g if share is None else g * share, weight_shape, (indices,)),
)  # fmt: skip
def embedding_op(xp: Namespace, weight: Any, indices: Any, share: Any) -> Any:
    """The rows of weight at indices; ``share`` says how much of each one's gradient counts."""
    if xp is np and not weight.flags.c_contiguous and indices.size < len(weight):
        return weight[indices]  # NumPy's take would first copy the whole table
    return weight.take(indices, axis=0)


@op("none", also=("indices",), method=False)
def gradient_share(xp: Namespace, indices: Any, size: int, padding_idx: int | None, by_frequency: bool, dtype: Any) -> Any:
    """The factor for the gradient of each look-up: 0 for the padding row, one over the row's frequency if ``scale_grad_by_freq``."""
    share = xp.ones(indices.shape, dtype)
    if by_frequency:
        counts = xp.zeros(size, dtypes.float32)
        scatter_add(counts, indices, 1)
        share /= counts[indices].astype(dtype, copy=False)
    if padding_idx is not None:
        xp.copyto(share, 0, where=indices == padding_idx)
    return xp.expand_dims(share, -1)


def _shorten(weight: Any, indices: Any, limit: float, p: float) -> None:
    """Scale the rows that will be looked up down to a norm of at most ``limit``, in place."""
    with no_grad():
        table = weight.detach() if isinstance(weight, Tensor) else weight
        norms = vector_norm(table, p, 1)
        with on_device_of(raw(norms)):
            used = namespace(raw(norms)).zeros(norms.shape, bool)
            used[raw(indices).reshape(-1)] = True
            used &= raw(norms) > limit
        table[used] *= (limit / (norms[used] + 1e-7))[:, None]


@composite(method=False)
def embedding(
    input: Any,
    weight: Any,
    padding_idx: int | None = None,
    max_norm: float | None = None,
    norm_type: float = 2.0,
    scale_grad_by_freq: bool = False,
    sparse: bool = False,
) -> Any:
    """The rows of a table at given indices.

    Args:
        input: places of dtype int64 or int32, any shape.
        weight: the table (V, D).
        padding_idx: a row that gets no gradient.
        max_norm: rows longer than this in the norm ``norm_type`` are first scaled down to it, in place.
        scale_grad_by_freq: divide each row's gradient by how often it was looked up.
        sparse: not supported; gradients are dense.
    Returns: (*input.shape, D).
    Raises: RuntimeError for other dtypes and ranks, IndexError for a place outside, AssertionError for such a padding_idx;
        NotImplementedError for ``sparse=True``.
    Source: torch.nn.functional.embedding.
    Example:
        >>> gradlib.nn.functional.embedding(gradlib.tensor([1, 0]), gradlib.tensor([[1.0, 2.0], [3.0, 4.0]]))
        tensor([[3., 4.],
                [1., 2.]])
    """
    if sparse:
        raise NotImplementedError("embedding(sparse=True): there are no sparse tensors; use sparse=False, which gives a dense gradient")
    if input.dtype not in (dtypes.int64, dtypes.int32):
        raise RuntimeError(f"embedding: expected indices of dtype int64 or int32, but got {input.dtype}; convert them with .long()")
    if weight.ndim != 2:
        raise RuntimeError(f"embedding: 'weight' must be 2-D, got shape {list(weight.shape)}")
    size = weight.shape[0]
    inside("embedding", input, size, IndexError)
    if padding_idx is not None:
        padding_idx = operator.index(padding_idx)
        if not -size <= padding_idx < size:
            raise AssertionError(f"Padding_idx must be within num_embeddings, got {padding_idx} of {size}")
        padding_idx %= size
    if max_norm is not None:
        _shorten(weight, input, max_norm, norm_type)
    plain = padding_idx is None and not scale_grad_by_freq
    share = None if plain else gradient_share(input, size, padding_idx, scale_grad_by_freq, weight.dtype)
    return embedding_op(weight, input, share)


@op("none", also=("tensor",), method=False)
def one_hot(xp: Namespace, tensor: Any, num_classes: int = -1) -> Any:
    """Rows of zeros with a one at each class.

    Args:
        tensor: classes of dtype int64, any shape.
        num_classes: the length of a row; -1 for one more than the largest class (which a CUDA device must first report to the host).
    Returns: int64, (*tensor.shape, num_classes).
    Raises: RuntimeError for other dtypes, and for classes outside 0 to num_classes - 1.
    Source: torch.nn.functional.one_hot.
    Example:
        >>> gradlib.nn.functional.one_hot(gradlib.tensor([0, 2]), 3)
        tensor([[1, 0, 0],
                [0, 0, 1]])
    """
    if tensor.dtype != dtypes.int64:
        raise RuntimeError(f"one_hot is only applicable to index tensor of type int64, got {tensor.dtype}; convert it with .long()")
    if num_classes < 1 and not tensor.size:
        raise RuntimeError("Can not infer total number of classes from empty tensor; give num_classes.")
    if num_classes == -1:
        num_classes = int(tensor.max()) + 1
    inside("one_hot: class values must be non-negative and smaller than num_classes", tensor, num_classes)
    if xp is not np:
        return (xp.expand_dims(row_major(tensor), -1) == xp.arange(num_classes)).astype(dtypes.int64)
    made = np.zeros((*tensor.shape, num_classes), dtypes.int64)
    places = np.arange(0, made.size, max(num_classes, 1))
    places += tensor.reshape(-1)
    made.reshape(-1)[places] = 1
    return made


# ---- padding ------------------------------------------------------------------------------------------------------------------


@op(
    "other", method=False, complex="explicit", input=lambda g, pad: constant_pad(g, [-n for n in pad], 0),
    jvp=lambda t_input, pad: constant_pad(t_input, pad, 0),
)  # fmt: skip
def constant_pad(xp: Namespace, input: Any, pad: Sequence[int], value: float) -> Any:
    """``pad`` with a constant; the transpose of that with zeros is itself with the amounts negated."""
    shape, source, into = _padded(input.shape, tuple(pad))
    result = xp.full(shape, dtypes.fitted(value, input.dtype), input.dtype) if value else xp.zeros(shape, input.dtype)
    if result.size:
        kept = input[source]
        if kept.size >= LEAST and xp is np and has_columns(kept):
            write(result[into], kept)
        elif xp is np:
            result[into] = kept
        else:
            assign(result[into], ..., kept)
    return result


@functools.lru_cache(256)
def _padded(shape: tuple[int, ...], pad: tuple[int, ...]) -> tuple[tuple[int, ...], tuple[slice, ...], tuple[slice, ...]]:
    """The shape with its last dimensions padded, the part of the input that stays, and where that comes to lie."""
    made, source, into = list(shape), [slice(None)] * len(shape), [slice(None)] * len(shape)
    for i in range(len(pad) // 2):
        dim, before, after = len(shape) - 1 - i, pad[2 * i], pad[2 * i + 1]
        size = shape[dim]
        made[dim] = size + before + after
        if size + min(before, 0) + min(after, 0) < 0:
            raise RuntimeError(
                f"pad: dimension {dim} of size {size} cannot lose {-before} elements in front and {-after} behind, in shape {list(shape)}"
            )
        source[dim] = slice(max(-before, 0), size - max(-after, 0))
        into[dim] = slice(max(before, 0), made[dim] - max(after, 0))
    return tuple(made), tuple(source), tuple(into)


@composite(method=False)
def pad(input: Any, pad: Sequence[int], mode: str = "constant", value: float | None = None) -> Any:
    """The input with elements added (or, for negative amounts, cut off) at the ends of its last dimensions.

    Args:
        input: any shape and dtype.
        pad: (before, after) for the last dimension, then for the one before it, and so on.
        mode: "constant".
        value: what is added; 0 unless given.
    Raises: RuntimeError for amounts that do not fit, NotImplementedError for other modes.
    Source: torch.nn.functional.pad.
    Example:
        >>> gradlib.nn.functional.pad(gradlib.tensor([1, 2]), (1, 2))
        tensor([0, 1, 2, 0, 0])
    """
    if mode != "constant":
        raise NotImplementedError(f"Unrecognised padding mode {mode}; there is 'constant'")
    amounts = [operator.index(n) for n in pad]
    if len(amounts) % 2:
        raise RuntimeError(f"Padding length must be divisible by 2, got {amounts}")
    if len(amounts) > 2 * input.ndim:
        raise RuntimeError(
            f"Padding length should be less than or equal to two times the input dimension but got padding length {len(amounts)} and input "
            f"of dimension {input.ndim}"
        )
    return constant_pad(input, amounts, 0 if value is None else value)


# ---- normalisation ------------------------------------------------------------------------------------------------------------


def _has_short_rows(x: Any, dims: tuple[int, ...]) -> bool:
    """Whether the means over ``dims``, the last ones of an array, are those of rows that BLAS adds up best."""
    if type(x) is not np.ndarray or len(dims) > 1 or not x.flags.c_contiguous:
        return False
    return 0 < x.size <= SMALL or 0 < x.shape[-1] <= SHORT


def _normal_slope(g: Any, input: Any, centre: Any, rstd: Any, dims: tuple[int, ...]) -> Any:
    """``_normal_rule`` of the first gradient alone, on raw arrays of one dtype, in place."""
    made = input - centre
    along = sum_of_products(g, made, dims[0]) / input.shape[dims[0]] if len(dims) == 1 else mean(g * made, dims, True)
    made *= along * (rstd * rstd)
    made += (row_sums(g) / zero_d(float(g.shape[-1]), g.dtype))[..., None] if _has_short_rows(g, dims) else mean(g, dims, True)
    np.subtract(g, made, made)
    made *= rstd
    return made


def _normal_rule(g: Any, input: Any, centre: Any, rstd: Any, dims: tuple[int, ...]) -> Any:
    """Project out of the gradient the directions that shift or scale a row. ``out`` is not saved, so users may write it."""
    if type(g[0]) is np.ndarray and g[1] is None and g[2] is None and g[0].dtype is input.dtype and input.dtype.char in "fd":
        given = g[0], input, centre, rstd, dims
        return by_rows(_normal_slope, *given) if has_rows(input) else _normal_slope(*given)
    normal = (input - centre) * rstd
    result: Any = 0
    if g[0] is not None:
        result = rstd * (g[0] - mean(g[0], dims, True) - normal * mean(g[0] * normal, dims, True))
    if g[1] is not None:
        result = result + spread(g[1] / count(input.shape, dims), input.shape, dims, True)
    if g[2] is not None:
        result = result - g[2] * rstd * rstd * normal / count(input.shape, dims)
    return result


def _normal_slope_on_device(g: Any, input: Any, centre: Any, rstd: Any, dims: tuple[int, ...]) -> Any:
    return moments.normalised_slope(g[0], input, centre, rstd, dims) if g[1] is None and g[2] is None else None


def _normal_tangent(t_input: Any, input: Any, centre: Any, rstd: Any, dims: tuple[int, ...]) -> tuple[Any, Any, Any]:
    """The tangents of the rows, by the projection of the gradient, which is its own transpose, and of their means and deviations."""
    normal = (input - centre) * rstd
    moved = _normal_rule([t_input, None, None], input, centre, rstd, dims)
    return moved, mean(t_input, dims, True), -rstd * rstd * mean(t_input * normal, dims, True)


@op(
    "other", outputs=("out", "centre", "rstd"), method=False, complex="none", input=_normal_rule, jvp=_normal_tangent,
    kernels={"out": moments.normalised, "input": _normal_slope_on_device},
)  # fmt: skip
def native_layer_norm(xp: Namespace, input: Any, dims: tuple[int, ...], eps: float) -> Any:
    """Each row (over ``dims``) less its mean and divided by its deviation; that mean, and one over that deviation, in single at least."""
    made, centre, rstd = _standardised(xp, input, dims, eps)
    return row_major(made.astype(input.dtype, copy=False)), centre, rstd


def _standardised(xp: Namespace, input: Any, dims: tuple[int, ...], eps: float) -> tuple[Any, Any, Any]:
    """The same, of which the rows are not yet rounded to a half type."""
    x = input.astype(dtypes.float32) if input.dtype.itemsize == 2 else input
    if _has_short_rows(x, dims):
        count = zero_d(float(x.shape[-1]), x.dtype)
        centre = (row_sums(x) / count)[..., None]
        away = x - centre
        rstd = (1 / np.sqrt(row_sums(away * away) / count + eps))[..., None]
        away *= rstd
        return away, centre, rstd
    return by_rows(_normalised, xp, x, dims, eps) if has_rows(x) else _normalised(xp, x, dims, eps)


def _normalised(xp: Namespace, x: Any, dims: tuple[int, ...], eps: float) -> tuple[Any, Any, Any]:
    number = max(math.prod(map(x.shape.__getitem__, dims)), 1)
    dim = dims[0] if len(dims) == 1 else dims
    centre = total(xp, x, dim, True) / number
    away = x - centre
    rstd = 1 / xp.sqrt(total_of_squares(xp, away, dim, True) / number + eps)
    away *= rstd
    return away, centre, rstd


def _weighted_rule(g: Any, input: Any, weight: Any, centre: Any, rstd: Any, dims: tuple[int, ...]) -> Any:
    return _normal_rule([None if g[0] is None else g[0] * weight, *g[1:]], input, centre, rstd, dims)


def _weighted_slope_on_device(g: Any, input: Any, weight: Any, centre: Any, rstd: Any, dims: tuple[int, ...]) -> Any:
    return moments.normalised_slope(g[0], input, centre, rstd, dims, weight) if g[1] is None and g[2] is None else None


def _weight_rule(g: Any, input: Any, centre: Any, rstd: Any, dims: tuple[int, ...]) -> Any:
    if type(g[0]) is np.ndarray and g[0].dtype is input.dtype is centre.dtype:
        return by_rows(_normal_products, g[0], input, centre, rstd) if has_rows(input) else _normal_products(g[0], input, centre, rstd)
    return None if g[0] is None else g[0] * ((input - centre) * rstd)


def _normal_products(g: Any, input: Any, centre: Any, rstd: Any) -> Any:
    """A gradient times the normalised rows, on raw arrays of one dtype, in place."""
    made = input - centre
    made *= rstd
    made *= g
    return made


def _weighted_tangent(
    t_input: Any, t_weight: Any, t_bias: Any, input: Any, weight: Any, centre: Any, rstd: Any, dims: tuple[int, ...]
) -> tuple[Any, Any, Any]:
    moved, *of_row = _normal_tangent(t_input, input, centre, rstd, dims)
    return (moved * weight + (input - centre) * rstd * t_weight + t_bias, *of_row)


@op(
    "other", outputs=("out", "centre", "rstd"), method=False, complex="none", node="native_layer_norm",
    input=_weighted_rule, weight=_weight_rule, bias=lambda g: g[0], jvp=_weighted_tangent,
    kernels={
        "out": moments.normalised,
        "input": _weighted_slope_on_device,
        "weight": lambda g, input, centre, rstd, dims: moments.normal_products(g[0], input, centre, rstd, dims),
    },
)  # fmt: skip
def affine_layer_norm(xp: Namespace, input: Any, dims: tuple[int, ...], eps: float, weight: Any, bias: Any) -> Any:
    """``native_layer_norm`` whose rows are multiplied by a weight, and a bias added, before they are rounded to a half type."""
    made, centre, rstd = _standardised(xp, input, dims, eps)
    made *= weight
    made += bias
    return row_major(made.astype(input.dtype, copy=False)), centre, rstd


@composite(method=False)
def layer_norm(input: Any, normalized_shape: Sequence[int], weight: Any = None, bias: Any = None, eps: float = 1e-5) -> Any:
    """The input, over its last dimensions, shifted to mean 0 and scaled to variance 1, then by ``weight`` and ``bias``.

    Args:
        input: (..., *normalized_shape), real float dtype.
        normalized_shape: the sizes of the dimensions that are normalised together.
        weight, bias: of ``normalized_shape``, or nothing.
        eps: added to the variance.
    Raises: RuntimeError for shapes or dtypes that do not fit; NotImplementedError for an input that is no real float.
    Source: torch.nn.functional.layer_norm.
    Example:
        >>> gradlib.nn.functional.layer_norm(gradlib.tensor([[1.0, 2.0, 3.0]]), (3,))
        tensor([[-1.2247,  0.0000,  1.2247]])
    """
    shape = tuple(normalized_shape)
    if not shape:
        raise RuntimeError("Expected normalized_shape to be at least 1-dimensional, i.e., containing at least one element, but got []")
    array = input._array if type(input) is Tensor else raw(input)
    dtype, sizes = array.dtype, array.shape
    if not dtypes.is_floating_point(dtype):
        raise NotImplementedError(f"layer_norm is not implemented for {dtype}; convert it, for example with .float()")
    affine = True
    for name, value in (("weight", weight), ("bias", bias)):
        if value is None:
            affine = False
            continue
        given = value._array if type(value) is Tensor else raw(value)
        if given.shape != shape:
            raise RuntimeError(
                f"Expected {name} to be of same shape as normalized_shape, but got {name} of shape {list(given.shape)} and "
                f"normalized_shape = {list(shape)}"
            )
        if given.dtype != dtype:
            if dtype.itemsize > 2 or given.dtype != dtypes.float32:
                raise RuntimeError(f"layer_norm: mixed dtype: {name} is {given.dtype}, input {dtype}; convert one with .to()")
            affine = False
    if sizes[max(len(sizes) - len(shape), 0) :] != shape:
        raise RuntimeError(
            f"Given normalized_shape={list(shape)}, expected input with shape [*, {', '.join(map(str, shape))}], but got input of size"
            f"{list(sizes)}"
        )
    dims = tuple(range(len(sizes) - len(shape), len(sizes)))
    if affine:
        return affine_layer_norm(input, dims, eps, weight, bias)[0]
    out, _, _ = native_layer_norm(input, dims, eps)
    if weight is not None:
        out = out * weight
    if bias is not None:
        out = out + bias
    return out if out.dtype == dtype else out.to(dtype) if isinstance(out, Tensor) else out.astype(dtype)
