"""Views: the same memory under another shape or order of dimensions. ``reshape`` and ``flatten`` copy where no view exists.

A view shares its base's memory and version counter. All of these move numbers about without touching them, so a rule serves real and
complex numbers alike (``complex="explicit"``), and the inverse movement is the derivative.
"""

from __future__ import annotations

import functools
import itertools
import math
import operator
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from gradlib.backend.array import Namespace, broadcast_to as stretched, is_view_of, sizes_kept
from gradlib.backend.dtype import as_dtype
from gradlib.core.arguments import refuse_wrong
from gradlib.core.batched import Batched
from gradlib.core.grad_mode import enable_grad, inference_mode, is_grad_enabled
from gradlib.core.inplace import described_as_inplace, refuse_captured, refuse_leaf
from gradlib.core.modes import global_state, lower
from gradlib.core.op import composite, op, publish
from gradlib.core.tensor import AccumulateGrad, Tensor, raw, wrap
from gradlib.core.writes import refuse_inference
from gradlib.ops.copies import contiguous
from gradlib.ops.dims import WHOLE, sized_method, sizes_of, wrap_dim, wrap_dims

__all__ = [
    "adjoint", "broadcast_to", "expand", "expand_as", "flatten", "movedim", "permute", "ravel", "reshape", "reshape_as", "squeeze",
    "t", "transpose", "unflatten", "unsqueeze", "view_as",
]  # fmt: skip


# ---- another shape --------------------------------------------------------------------------------------------------------------


def _misshaped(shape: tuple[int, ...], count: int) -> str:
    if shape.count(-1) > 1:
        return f"only one dimension can be inferred, got shape {list(shape)}"
    for i, size in enumerate(shape):
        if size < -1:
            return f"invalid shape dimension {size} at index {i} of shape {list(shape)}"
    if count == 0 and -1 in shape and 0 in shape:
        return (
            f"cannot reshape tensor of 0 elements into shape {list(shape)} because the unspecified dimension size -1 can be any value "
            "and is ambiguous"
        )
    return f"shape '{list(shape)}' is invalid for input of size {count}"


@op("linear", view=True, method=False, complex="explicit", input=lambda g, input_shape: reshape(g, input_shape))
def reshape(xp: Namespace, input: Any, shape: Any) -> Any:
    """The same elements in row-major order under another shape; a view where the memory allows it, else a copy.

    Args:
        shape: sizes whose product is the number of elements; one of them may be -1, which stands for what is left.
    Raises: RuntimeError for a shape of another number of elements.
    Source: torch.reshape.
    Example:
        >>> gradlib.reshape(gradlib.arange(6), (2, -1))
        tensor([[0, 1, 2],
                [3, 4, 5]])
    """
    try:
        result = input.reshape(shape)
    except ValueError:
        raise RuntimeError(_misshaped(tuple(shape), input.size)) from None
    if result.shape != shape and -1 not in shape and min(shape) < -1:  # NumPy takes any negative size for the one to be inferred
        raise RuntimeError(_misshaped(tuple(shape), input.size))
    return result


@op(
    "linear", view=True, method=False, complex="explicit", input=lambda g, input_shape: reshape(g, input_shape),
    jvp=lambda t_input, shape: reshape(t_input, shape),  # whose order in memory may be another than the input's
)  # fmt: skip
def view(xp: Namespace, input: Any, shape: Any) -> Any:
    """As ``reshape``, but always the same memory. Raises: RuntimeError where that would need a copy. Source: torch.Tensor.view."""
    try:
        result = input.reshape(shape)
    except ValueError:
        raise RuntimeError(_misshaped(tuple(shape), input.size)) from None
    if result.shape != shape and -1 not in shape and min(shape) < -1:
        raise RuntimeError(_misshaped(tuple(shape), input.size))
    if result.base is not input and not is_view_of(result, input):
        raise RuntimeError(
            "view size is not compatible with input tensor's size and stride (at least one dimension spans across two contiguous "
            f"subspaces): shape {list(input.shape)}, wanted {list(shape)}. Use .reshape(...) instead."
        )
    return result


@op("none", view=True, method=False, also=("input",))
def view_dtype(xp: Namespace, input: Any, dtype: Any) -> Any:
    """The same memory read as elements of another dtype, as ``detach``. Raises: RuntimeError where sizes or strides do not fit that."""
    if dtype is input.dtype:
        return input.view()
    chosen = as_dtype(dtype)
    try:
        return input.view(chosen)
    except ValueError as error:
        raise RuntimeError(f"cannot view shape {list(input.shape)} of {input.dtype} as {chosen}: {error}") from None


publish(sized_method(reshape, "shape"), "reshape")


@composite
def reshape_as(input: Any, other: Any) -> Any:
    """``reshape`` to the shape of another tensor.

    Args:
        input: any shape and dtype.
        other: the tensor whose shape it takes, with as many elements.
    Source: torch.reshape_as.
    Example:
        >>> gradlib.reshape_as(gradlib.arange(4), gradlib.zeros(2, 2))
        tensor([[0, 1],
                [2, 3]])
    """
    return reshape(input, tuple(other.shape))


@composite
def view_as(input: Any, other: Any) -> Any:
    """``view`` with the shape of another tensor.

    Args:
        input: any shape and dtype.
        other: the tensor whose shape it takes, with as many elements.
    Source: torch.view_as.
    Example:
        >>> gradlib.view_as(gradlib.arange(4), gradlib.zeros(2, 2))
        tensor([[0, 1],
                [2, 3]])
    """
    return view(input, tuple(other.shape))


@composite
def flatten(input: Any, start_dim: int = 0, end_dim: int = -1) -> Any:
    """Dimensions start_dim to end_dim as one; a 0-d tensor becomes 1-d.

    Args:
        input: any shape and dtype.
        start_dim, end_dim: the first and the last of the dimensions that become one.
    Raises: RuntimeError when start_dim comes after end_dim.
    Source: torch.flatten.
    Example:
        >>> gradlib.flatten(gradlib.zeros(2, 3, 4), start_dim=1).shape
        gradlib.Size([2, 12])
    """
    shape = raw(input).shape
    if start_dim == 0 and end_dim == -1 and len(shape) > 1:
        return reshape(input, (-1,))
    first, last = wrap_dim(start_dim, len(shape)), wrap_dim(end_dim, len(shape))
    if first > last:
        raise RuntimeError(f"flatten() has invalid args: start_dim cannot come after end_dim, got {start_dim} and {end_dim}")
    if first == last and shape:
        return input
    return reshape(input, (*shape[:first], math.prod(shape[first : last + 1]), *shape[last + 1 :]))


@composite
def ravel(input: Any) -> Any:
    """All elements in one dimension, row-major; a view where they are contiguous, else a copy.

    Args:
        input: any shape and dtype.
    Source: torch.ravel.
    Example:
        >>> gradlib.ravel(gradlib.tensor([[1, 2], [3, 4]]))
        tensor([1, 2, 3, 4])
    """
    return reshape(contiguous(input), (-1,))


@composite
def unflatten(input: Any, dim: int, sizes: Any) -> Any:
    """One dimension split into several, of which one may be -1.

    Args:
        input: any shape and dtype.
        dim: the dimension to part.
        sizes: what it becomes; one of them may be -1.
    Raises: RuntimeError when the sizes do not multiply up to the dimension's.
    Source: torch.unflatten.
    Example:
        >>> gradlib.unflatten(gradlib.arange(4), 0, (2, 2))
        tensor([[0, 1],
                [2, 3]])
    """
    return view(input, _parted(tuple(raw(input).shape), operator.index(dim), sizes_of((sizes,))))


@functools.lru_cache(maxsize=512)
def _parted(shape: tuple[int, ...], dim: int, inner: tuple[int, ...]) -> tuple[int, ...]:
    """The shape with one dimension split into several. Raises: as ``unflatten``."""
    at = wrap_dim(dim, len(shape))
    if not inner or not shape:
        raise RuntimeError(f"unflatten: needs a dimension and sizes to split it into, got shape {list(shape)} and sizes {list(inner)}")
    known, have = math.prod(inner), shape[at]
    if -1 in inner and known and have % known == 0 and inner.count(-1) == 1:
        place = inner.index(-1)
        inner = (*inner[:place], have // -known, *inner[place + 1 :])
    elif -1 in inner or have != known:
        raise RuntimeError(
            f"unflatten: Provided sizes {list(inner)} don't multiply up to the size of dim {at} ({shape[at]}) in the input tensor"
        )
    return (*shape[:at], *inner, *shape[at + 1 :])


# ---- dimensions of size 1 -------------------------------------------------------------------------------------------------------


@op("linear", view=True, complex="explicit", input=lambda g, input_shape: reshape(g, input_shape))
def squeeze(xp: Namespace, input: Any, dim: Any = None) -> Any:
    """Without the dimensions of size 1: all of them, or those of ``dim`` (an int or a tuple) that have it.

    Args:
        input: any shape and dtype.
        dim: the dimensions to take away where their size is 1 (a number or several); all when left out.
    Source: torch.squeeze.
    Example:
        >>> gradlib.squeeze(gradlib.zeros(1, 3, 1)).shape, gradlib.squeeze(gradlib.zeros(1, 3, 1), 0).shape
        (gradlib.Size([3]), gradlib.Size([3, 1]))
    """
    shape = input.shape
    if type(dim) is int:
        at = wrap_dim(dim, len(shape))
        return input.squeeze(at) if shape and shape[at] == 1 else input.reshape(shape)
    chosen = range(len(shape)) if dim is None else wrap_dims(dim, len(shape))
    return input.reshape([n for i, n in enumerate(shape) if n != 1 or i not in chosen])


@op("linear", view=True, complex="explicit", input=lambda g, input_shape: reshape(g, input_shape))
def unsqueeze(xp: Namespace, input: Any, dim: int) -> Any:
    """Insert a dimension of size 1 at ``dim``.

    Args:
        input: any shape and dtype.
        dim: where the dimension of size 1 comes to stand, from -(ndim + 1) to ndim.
    Source: torch.unsqueeze.
    Example:
        >>> gradlib.unsqueeze(gradlib.tensor([1, 2]), 1)
        tensor([[1],
                [2]])
    """
    return input[(WHOLE,) * wrap_dim(dim, input.ndim + 1) + (None,)]


# ---- another order --------------------------------------------------------------------------------------------------------------


@op("linear", view=True, aliases=("swapaxes", "swapdims"), complex="explicit", input=lambda g, dim0, dim1: transpose(g, dim0, dim1))
def transpose(xp: Namespace, input: Any, dim0: int, dim1: int) -> Any:
    """Two dimensions exchanged.

    Args:
        input: any shape and dtype.
        dim0, dim1: the dimensions that change places.
    Source: torch.transpose.
    Example:
        >>> gradlib.transpose(gradlib.tensor([[1, 2], [3, 4]]), 0, 1)
        tensor([[1, 3],
                [2, 4]])
    """
    if not input.ndim:
        wrap_dims((dim0,), 0), wrap_dims((dim1,), 0)
        return input[...]
    count = input.ndim
    if type(dim0) is int is type(dim1) and -count <= dim0 < count and -count <= dim1 < count:  # the common case
        return input.swapaxes(dim0, dim1)
    return input.swapaxes(wrap_dim(dim0, count), wrap_dim(dim1, count))


def _inverse(dims: tuple[int, ...]) -> tuple[int, ...]:
    """The permutation that undoes this one."""
    order = [0] * len(dims)
    for i, dim in enumerate(dims):
        order[dim] = i
    return tuple(order)


@op("linear", view=True, method=False, complex="explicit", input=lambda g, dims: permute(g, _inverse(dims)))
def permute(xp: Namespace, input: Any, dims: Any) -> Any:
    """The dimensions in another order.

    Args:
        dims: for each dimension of the result, which one of the input it is.
    Raises: RuntimeError unless dims names every dimension once.
    Source: torch.permute.
    Example:
        >>> gradlib.permute(gradlib.zeros(2, 3, 4), (2, 0, 1)).shape
        gradlib.Size([4, 2, 3])
    """
    if dims is _SWAPPED and input.ndim == 2:  # the common case
        return input.T
    if len(dims) != input.ndim:
        raise RuntimeError(f"permute(): the tensor has {input.ndim} dimensions, but the order of {len(dims)} was given: {tuple(dims)}")
    try:
        return input.transpose(dims)
    except (ValueError, TypeError):
        pass
    order = [wrap_dim(d, input.ndim) for d in dims]
    if len(set(order)) != len(order):
        raise RuntimeError(f"permute(): duplicate dims are not allowed, got {tuple(dims)}")
    return input.transpose(order)


@composite(aliases=("moveaxis",))
def movedim(input: Any, source: Any, destination: Any) -> Any:
    """Some dimensions moved to other places, the rest in their order.

    Args:
        source, destination: a dimension or a tuple of them, and where each goes.
    Raises: RuntimeError when the two differ in length or name a dimension twice.
    Source: torch.movedim.
    Example:
        >>> gradlib.movedim(gradlib.zeros(2, 3, 4), 0, -1).shape
        gradlib.Size([3, 4, 2])
    """
    ndim = input.ndim
    if type(source) is int and type(destination) is int:
        order = list(range(ndim))
        old_place, new_place = wrap_dim(source, ndim), wrap_dim(destination, ndim)
        if ndim:
            order.insert(new_place, order.pop(old_place))
        return permute(input, order)
    old = tuple(source) if isinstance(source, (tuple, list)) else (source,)
    new = tuple(destination) if isinstance(destination, (tuple, list)) else (destination,)
    if len(old) != len(new):
        raise RuntimeError(f"movedim: source {old} and destination {new} should have the same number of elements")
    old, new = tuple(map(wrap_dim, old, itertools.repeat(ndim))), tuple(map(wrap_dim, new, itertools.repeat(ndim)))
    if len(set(old)) != len(old) or len(set(new)) != len(new):
        raise RuntimeError(f"movedim: repeated dim in source {source} or destination {destination}")
    rest = iter([d for d in range(ndim) if d not in old])
    place = dict(zip(new, old, strict=True))
    return permute(input, tuple([place[d] if d in place else next(rest) for d in range(ndim)]))


@op("linear", view=True, complex="explicit", input=lambda g: t(g))
def t(xp: Namespace, input: Any) -> Any:
    """The transpose of a matrix; a tensor of fewer dimensions as it is.

    Args:
        input: at most 2 dimensions, any dtype.
    Raises: RuntimeError for more than 2.
    Source: torch.t.
    Example:
        >>> gradlib.t(gradlib.tensor([[1, 2], [3, 4]]))
        tensor([[1, 3],
                [2, 4]])
    """
    if input.ndim > 2:
        raise RuntimeError(f"t() expects a tensor with <= 2 dimensions, but self is {input.ndim}D")
    return input.T


_SWAPPED = (1, 0)


def _reversed(self: Tensor) -> Tensor:
    """The dimensions in reverse order; meant for matrices, as in torch. Source: torch.Tensor.T."""
    if self._array.ndim != 2:
        warnings.warn(
            f"The use of `x.T` on tensors of dimension other than 2 to reverse their shape is deprecated (shape {list(self.shape)}). "
            "Consider `x.mT` to transpose batches of matrices or `x.permute(*range(x.ndim)[::-1])` to reverse the dimensions of a tensor.",
            UserWarning,
            stacklevel=2,
        )
        return permute(self, tuple(range(self._array.ndim))[::-1])
    return permute(self, _SWAPPED)


def _matrices_transposed(self: Tensor) -> Tensor:
    """The last two dimensions exchanged. Raises: RuntimeError for a vector. Source: torch.Tensor.mT."""
    if not self._array.ndim:
        return self
    if self._array.ndim < 2:
        raise RuntimeError(f"tensor.mT is only supported on matrices or batches of matrices. Got {self._array.ndim}-D tensor.")
    return transpose(self, -2, -1)


def _matrix_adjoint(self: Tensor) -> Tensor:
    """The conjugate transpose of a matrix. Raises: RuntimeError unless it has 2 dimensions (or none). Source: torch.Tensor.H."""
    if self._array.ndim not in (0, 2):
        raise RuntimeError(
            f"tensor.H is only supported on matrices (2-D tensors). Got {self._array.ndim}-D tensor. For batches of matrices, consider "
            "using tensor.mH"
        )
    return adjoint(self)


@composite
def adjoint(input: Any) -> Any:
    """The conjugate transpose of each matrix.

    Args:
        input: (..., m, n), any dtype.
    Raises: RuntimeError for a vector.
    Source: torch.adjoint.
    Example:
        >>> gradlib.adjoint(gradlib.tensor([[1 + 2j, 3j]]))
        tensor([[1.-2.j],
                [0.-3.j]])
    """
    if input.ndim == 1:
        raise RuntimeError("tensor.adjoint() is only supported on matrices or batches of matrices. Got 1-D tensor.")
    turned = transpose(input, -2, -1) if input.ndim else input
    return turned.conj() if turned.dtype.kind == "c" else turned


for _name, _getter in {"T": _reversed, "mT": _matrices_transposed, "H": _matrix_adjoint, "mH": adjoint}.items():
    publish(property(_getter), _name)


# ---- stretched ------------------------------------------------------------------------------------------------------------------


@op("linear", view=True, method=False, complex="explicit", input=lambda g: g)
def expand(xp: Namespace, input: Any, shape: Any) -> Any:
    """Dimensions of size 1 stretched to a larger size, and new ones put in front, without using memory.

    Args:
        input: any shape and dtype.
        shape: the wanted sizes; -1 keeps a size.
    Raises: RuntimeError for a size that is neither 1 nor the wanted one.
    Source: torch.Tensor.expand.
    Example:
        >>> gradlib.expand(gradlib.tensor([[1], [2]]), (2, 3))
        tensor([[1, 1, 1],
                [2, 2, 2]])
    """
    try:
        return stretched(input, shape)
    except ValueError:
        raise RuntimeError(_misexpanded(input.shape, sizes_kept(shape, input.shape))) from None


def _misexpanded(have: tuple[int, ...], shape: tuple[int, ...]) -> str:
    extra = len(shape) - len(have)
    if extra < 0:
        return (
            f"expand(shape {list(have)}, size={list(shape)}): the number of sizes provided ({len(shape)}) must be greater or equal to the "
            f"number of dimensions in the tensor ({len(have)})"
        )
    for i in reversed(range(len(shape))):
        size = shape[i]
        if i < extra and size < 0:
            return f"The expanded size of the tensor ({size}) isn't allowed in a leading, non-existing dimension {i}"
        if i >= extra and have[i - extra] not in (1, size):
            return (
                f"The expanded size of the tensor ({size}) must match the existing size ({have[i - extra]}) at non-singleton dimension "
                f"{i}.  Target sizes: {list(shape)}.  Tensor sizes: {list(have)}"
            )
    return f"expand: sizes must not be negative, got {list(shape)}"


@composite(method=False)
def broadcast_to(input: Any, size: Any) -> Any:
    """As ``expand``.

    Args:
        input: any shape and dtype.
        size: the shape to take; a dimension of size 1 may become any size.
    Source: torch.broadcast_to.
    Example:
        >>> gradlib.broadcast_to(gradlib.tensor([1, 2]), (2, 2))
        tensor([[1, 2],
                [1, 2]])
    """
    return expand(input, tuple(size))


@composite
def expand_as(input: Any, other: Any) -> Any:
    """``expand`` to the shape of another tensor.

    Args:
        input: any shape and dtype.
        other: the tensor whose shape it takes.
    Source: torch.expand_as.
    Example:
        >>> gradlib.expand_as(gradlib.tensor([[1], [2]]), gradlib.zeros(2, 2))
        tensor([[1, 1],
                [2, 2]])
    """
    return expand(input, tuple(other.shape))


# ---- methods that take their sizes one by one -----------------------------------------------------------------------------------


def _view_method(self: Tensor, *shape: Any, **named: Any) -> Tensor:
    """``x.view(2, 3)``, ``x.view((2, 3))``, or ``x.view(dtype)`` for the same memory read as another dtype. Source: torch.Tensor.view."""
    if named:
        return _sized_view(self, *shape, **named)
    if len(shape) == 1:
        (first,) = shape
        if type(first) is int:
            return view(self, shape)
        if isinstance(first, (np.dtype, type)):
            return view_dtype(self, first)
    return view(self, sizes_of(shape))


_sized_view = sized_method(view, "size")
publish(_view_method, "view")
publish(sized_method(permute, "dims"), "permute")
publish(sized_method(expand, "size"), "expand")
publish(sized_method(broadcast_to, "size"), "broadcast_to")


# ---- in place: the tensor itself gets another shape ---------------------------------------------------------------------------


def turns(function: Any, name: str) -> None:
    """Publish ``NAME_``, which makes a tensor the view that ``function`` gives of it; other views of its memory stay as they are."""

    def turn(self: Tensor, *args: Any, **kwargs: Any) -> Tensor:
        try:
            state = global_state
            if type(self) is Tensor and self._node is None and self._meta is None and not state.active and state.born is None:
                counter = self._version_slot
                if counter is None or not counter.views:  # no graph, no view of its memory, nothing active: only its array changes
                    self._array = function(wrap(self._array), *args, **kwargs)._array
                    (counter or self.version).bump()
                    return self
            _become(self, lambda x: function(x, *args, **kwargs), name)
        except Exception:
            refuse_wrong(name, function, self, *args, **kwargs)
            raise
        return self

    described_as_inplace(turn, name[:-1], function)
    turn.__doc__ = f"``{name[:-1]}`` of the tensor itself: the same memory, another shape. Source: torch.Tensor.{name}."
    publish(turn, name)


def _become(self: Tensor, function: Callable[[Tensor], Tensor], name: str) -> None:
    """Make a tensor the view that ``function`` gives of it, in the graph and in forward mode too."""
    if type(self) is Batched:
        level = self.level

        def of_all(whole: Tensor) -> Tensor:
            made = function(Batched(level, whole))
            with lower(level):
                return level.physical(made)

        return _become(self.value, of_all, name)
    refuse_inference(self)
    if global_state.born is not None:
        refuse_captured(self, name)
    if is_grad_enabled():
        refuse_leaf(self, self._meta.view if self._meta is not None else None, name)
    elif isinstance(self._node, AccumulateGrad):  # a leaf's gradient has its shape
        self._array = function(wrap(self._array))._array
        self._node.array, self._node.shape = self._array, self._array.shape
        self.version.bump()
        return None
    with inference_mode(self.is_inference()), enable_grad():  # the tensor keeps its history in every mode
        before = wrap(self._array)
        before._node, before._version_slot = self._node, self.version
        before.meta.view, before.meta.tangents = self.meta.view, self.meta.tangents
        after = function(before)
    others = [each for ref in self.version.views if (each := ref()) is not None and each is not self and each.meta.view.base is self]
    self._array, self._node = after._array, after._node
    self.meta.tangents = after.meta.tangents
    if others or self._is_view():  # their base keeps the shape in which they know it, and this tensor becomes one of them
        self.meta.view = after.meta.view
        self.version.add_view(self)
        for each in others:
            each.meta.view.base = before
    self.version.bump()
    return None


for _function in (squeeze, unsqueeze, transpose, t):
    turns(_function, f"{_function.__name__}_")
for _name in ("swapaxes_", "swapdims_"):
    turns(transpose, _name)
