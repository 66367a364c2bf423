"""Batching rules of indexing.

If the indices are the same for all examples, the physical tensor is indexed behind its batch dimension. If they differ, the number of the
example is one more index.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, NoReturn

import numpy as np

from gradlib.backend.array import namespace
from gradlib.core.batched import refuse_batched
from gradlib.core.declaration import Op
from gradlib.core.tensor import Tensor, raw, wrap
from gradlib.func.level import Level
from gradlib.func.rules import any_batched, ndim, pad_to_rank, perform, physical, rule, run
from gradlib.ops.convert import to
from gradlib.ops.dims import wrap_dim
from gradlib.ops.from_data import as_tensor


@rule("slice")
def slice_rows(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    input, index = args
    return perform(op, (input.value, (slice(None), *index)))


@rule("slice_backward")
def slice_backward(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    input, shape, index = args
    return perform(op, (input.value, (level.size, *shape), (slice(None), *index)))


# ---- index tensors ---------------------------------------------------------------------------------------------------------------


class PhysicalIndices:
    """The indices into a physical tensor that correspond to given indices into its examples.

    Attributes:
        indices: for the physical tensor, whose first dimension is the batch.
        count: how many dimensions the index tensors have; rank: how many an example's result has.
        order: a permutation of the dimensions that physical indexing gives: the batch first, then those of an example's result.
    """

    def __init__(self, level: Level, indices: Sequence[Any], rank: int) -> None:
        given = _without_masks(level, list(indices))
        at = [d for d, i in enumerate(given) if i is not None]
        count = max([given[d].ndim for d in at], default=0)
        rest = rank - len(at)
        together = bool(at) and at[-1] - at[0] + 1 == len(at)
        first = at[0] if together else 0
        self.count = count
        self.rank = count + rest
        if not any_batched(level, given):
            self.indices = [None, *given]
            batch = 0 if together else count
            before = [d for d in range(self.rank + 1) if d != batch]
            self.order = (batch, *before)
            return
        line = namespace(raw(next(i for i in given if level.holds(i)).value)).arange(level.size)
        number = wrap(line.reshape((level.size, *(1,) * count)))
        self.indices = [number, *(i if i is None else pad_to_rank(level, i, count) for i in given)]
        block, others = list(range(1, count + 1)), list(range(count + 1, self.rank + 1))
        self.order = (0, *others[:first], *block, *others[first:])

    def batch_first(self, made: Any) -> Any:
        """Permute the result of physical indexing: the batch first, then the dimensions of an example's result."""
        return made if self.order == tuple(range(len(self.order))) else run("permute", made, self.order)

    def arranged(self, level: Level, values: Any) -> Any:
        """Permute values that are to be written as the result of physical indexing is; the inverse of `batch_first`."""
        if self.order == tuple(range(len(self.order))):
            return pad_to_rank(level, values, self.rank)
        values = physical(level, values)
        missing = self.rank + 1 - values.ndim
        if missing > 0:
            values = values.reshape((level.size, *(1,) * missing, *values.shape[1:]))
        back = sorted(range(len(self.order)), key=self.order.__getitem__)
        return run("permute", values, tuple(back))


def _without_masks(level: Level, indices: list[Any]) -> list[Any]:
    """Replace boolean masks, which must be the same for all examples, by the indices where they are True."""
    found: list[Any] = []
    for each in indices:
        if each is None or each.dtype.kind != "b":
            found.append(each)
        elif level.holds(each):
            refuse_dynamic_shape("indexing with a mask")
        else:
            array = raw(each)
            found += list(namespace(array).nonzero(array))
    return found


def refuse_dynamic_shape(name: str) -> NoReturn:
    raise RuntimeError(
        f"vmap: We do not support batching operators that can output dynamic shape. Attempted to vmap over {name}. Please voice your "
        "support by rewriting it with gradlib.where or a mask of fixed shape."
    )


@rule("nonzero", "distinct")
def refuse(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    refuse_dynamic_shape("unique" if op.name == "distinct" else op.name)


@rule("index")
def index(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    input, indices = args
    if not level.holds(input):
        return _index_unbatched(level, op, input, list(indices))
    places = PhysicalIndices(level, indices, input.ndim)
    return places.batch_first(perform(op, (input.value, places.indices)))


def _index_unbatched(level: Level, op: Op, input: Any, indices: list[Any]) -> Any:
    """Index an unbatched tensor with indices that differ by example: the batch is one more dimension of the indices."""
    given = _without_masks(level, indices)
    at = [d for d, i in enumerate(given) if i is not None]
    count = max(given[d].ndim for d in at)
    made = perform(op, (input, [i if i is None else pad_to_rank(level, i, count) for i in given]))
    first = at[0] if at[-1] - at[0] + 1 == len(at) else 0
    if not first:
        return made
    return run("permute", made, (first, *(d for d in range(made.ndim) if d != first)))


@rule("index_backward")
def index_backward(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    input, shape, indices = args
    places = PhysicalIndices(level, indices, len(shape))
    return perform(op, (places.arranged(level, _as_row(level, input)), (level.size, *shape), places.indices))


def _as_row(level: Level, value: Any) -> Any:
    """A value as a logical tensor of this level; an unbatched one is expanded over the batch."""
    return value if level.holds(value) else level.logical(physical(level, value))


@rule("index_put", "index_add", "index_fill")
def index_put(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    input, values, indices, into, *alpha = args
    if into and not level.holds(input):
        refuse_batched(next(x for x in (values, *indices) if level.holds(x)), "index_put_")
    if len(indices) == 1 and indices[0] is not None and indices[0].dtype.kind == "b" and level.holds(indices[0]):
        return _where_masked(level, input, values, indices[0], op.name == "index_add", into)
    places = PhysicalIndices(level, indices, input.ndim)
    number = not isinstance(values, Tensor) and not ndim(values)
    values = values if number else places.arranged(level, values)
    return perform(op, (physical(level, input), values, places.indices, into, *alpha))


def _where_masked(level: Level, input: Any, values: Any, mask: Any, accumulate: bool, into: bool) -> Any:
    """Write one value where each example's mask is True."""
    if ndim(values):
        refuse_dynamic_shape("assignment of several values to x[mask]")
    rank = input.ndim
    condition = run("reshape", mask.value, (level.size, *mask.shape, *(1,) * (rank - mask.ndim)))
    x = physical(level, input)
    value = values if not isinstance(values, Tensor) else to(pad_to_rank(level, values, rank), input.dtype)
    made = run("where", condition, x + value if accumulate else value, x)
    made = made if made.dtype == x.dtype else to(made, x.dtype)
    if not into:
        return made
    raw(x)[...] = raw(made)
    result = wrap(raw(x))
    result._node = made._node
    return result


@rule("take_along", "put_along")
def along(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    input, index, dim, *rest = args
    if not input.ndim:
        return physical(level, input)
    if op.name == "put_along":
        rest[0] = (level.size, *rest[0])
    return perform(op, (physical(level, input), physical(level, index), wrap_dim(dim, input.ndim) + 1, *rest))


@rule("scatter", "scatter_add", "total_at", "reduced_at")
def scattered(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    input, src, index, dim, *rest = args
    if rest[-1] and not level.holds(input):
        refuse_batched(next(x for x in (src, index) if level.holds(x)), f"{op.name}_")
    values = src if not isinstance(src, Tensor) and not ndim(src) else physical(level, src)
    if values is not src and not src.ndim:
        values = values.reshape((level.size, *(1,) * input.ndim))
    rest = [each.value if level.holds(each) else each for each in rest]
    return perform(op, (physical(level, input), values, physical(level, index), dim + 1, *rest))


@rule("masked_scatter", "masked_scatter_backward")
def masked_scatter(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    """Places behind each other in each example: those of the values that the elements where the mask holds get, or give back."""
    input, mask, *_ = args
    rank = max(input.ndim, mask.ndim)
    x, marked = pad_to_rank(level, _as_row(level, input), rank), pad_to_rank(level, _as_row(level, mask), rank)
    shape = np.broadcast_shapes(x.shape, marked.shape)
    x, marked = (run("expand", each, shape).reshape((level.size, -1)) for each in (x, marked))
    ranks = run("cumsum", marked, 1, None) - 1
    if op.name == "masked_scatter":
        values = physical(level, args[2]).reshape((level.size, -1))
        if not values.shape[1]:
            return run("masked_fill", x, marked, 0).reshape(shape)
        return run("where", marked, run("take_along", values, ranks % values.shape[1], 1, True), x).reshape(shape)
    size = math.prod(args[2])
    line = run("put_along", x, run("where", marked, ranks, size), 1, (level.size, size + 1), True)
    return line[:, :size].reshape((level.size, *args[2]))


# ---- tables -------------------------------------------------------------------------------------------------------------------------


@rule("embedding")
def embedding(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    weight, indices, share = args
    share = None if share is None else physical(level, share)
    if not level.holds(weight):
        return perform(op, (weight, indices.value, share))
    size, width = weight.shape
    table = weight.value.reshape((level.size * size, width))
    return perform(op, (table, _offset(level, indices, size), share))


def _offset(level: Level, indices: Any, size: int) -> Any:
    """Indices into all examples' tables concatenated, from indices into tables of ``size`` entries: each is offset by its example."""
    places = physical(level, indices)
    start = namespace(raw(places)).arange(level.size).reshape((level.size, *(1,) * (places.ndim - 1))) * size
    return places + wrap(start)


@rule("gradient_share")
def gradient_share(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    indices, size, padding_idx, by_frequency, dtype = args
    share = perform(op, (_offset(level, indices, size), size * level.size, None, by_frequency, dtype))
    if padding_idx is None:
        return share
    return run("where", run("unsqueeze", run("eq", indices.value, padding_idx), -1), 0, share)


@rule("one_hot")
def one_hot(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    tensor, num_classes = args
    if num_classes == -1:
        refuse_dynamic_shape("one_hot without num_classes")
    return perform(op, (tensor.value, num_classes))


@rule("isin")
def isin(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    elements, test, invert = args
    if not level.holds(test):
        return perform(op, (elements.value, test, invert))
    rank = ndim(elements)
    against = run("reshape", test.value, (level.size, *(1,) * rank, math.prod(test.shape)))
    mine = run("unsqueeze", pad_to_rank(level, elements, rank), -1) if ndim(elements) or isinstance(elements, Tensor) else elements
    found = run("any", run("eq", mine, against), -1, False)
    return run("logical_not", found) if invert else found


@rule("searchsorted")
def searchsorted(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    ordered, input, right, sorter = args
    if not level.holds(ordered) and not level.holds(sorter) and ordered.ndim == 1:
        return perform(op, (ordered, input.value, right, sorter))
    input = input if isinstance(input, Tensor) else as_tensor(np.asarray(input))
    shape = tuple(input.shape)
    wanted = physical(level, input)
    if ordered.ndim == 1:
        wanted = wanted.reshape((level.size, math.prod(shape)))
    made = perform(op, (physical(level, ordered), wanted, right, physical(level, sorter)))
    return made.reshape((level.size, *shape))


# ---- losses of class indices ----------------------------------------------------------------------------------------------------------


def _classes(level: Level, input_shape: tuple[int, ...], target: Any, weight: Any, ignore_index: int, dtype: Any) -> tuple[Any, Any, Any]:
    """Fold the batch of vmap into the first dimension of the targets.

    Returns: the folded targets; the weight of each target, by example; the sum of these weights, by example.
    """
    line = len(input_shape) == 1
    shape = (1,) if line else tuple(target.shape)
    places = physical(level, target).reshape((level.size, *shape))
    counts = run("ne", places, ignore_index)
    shares = to(counts, dtype)
    if weight is not None:
        chosen = run("where", counts, places, 0)
        if level.holds(weight):
            size = weight.shape[0]
            start = namespace(raw(chosen)).arange(level.size).reshape((level.size, *(1,) * len(shape))) * size
            picked = run("index", weight.value.reshape((-1,)), [chosen + wrap(start)])
        else:
            picked = run("index", weight, [chosen])
        shares = picked * shares
    folded = places.reshape((level.size * shape[0], *shape[1:]))
    return folded, shares, shares.sum(tuple(range(1, shares.ndim)), True)


@rule("nll_loss")
def nll_loss(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    """Compute all examples' losses at once, without reduction, then reduce within each example."""
    input, target, weight, ignore_index, reduction = args
    shape = tuple(input.shape)
    folded, shares, together = _classes(level, shape, target, weight, ignore_index, input.dtype)
    x = physical(level, input)
    x = x if len(shape) == 1 else x.reshape((level.size * shape[0], *shape[1:]))
    losses = perform(op, (x, folded, None, ignore_index, "none")).reshape(tuple(shares.shape)) * shares
    if reduction == "none":
        return losses.reshape((level.size, *target.shape))
    total = losses.sum(tuple(range(1, losses.ndim)))
    return total / together.reshape((level.size,)) if reduction == "mean" else total


@rule("cross_entropy")
def cross_entropy(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    """All examples' rows at once, without reduction."""
    input, target, reduction = args
    x, labels = (physical(level, each) for each in (input, target))
    losses, *kept = perform(op, (x.reshape((-1, x.shape[-1])), labels.reshape((-1,)), "none"))
    losses = losses.reshape((level.size, -1))
    losses = losses if reduction == "none" else losses.mean(1) if reduction == "mean" else losses.sum(1)
    return losses, *(each.reshape((*x.shape[:-1], -1)) for each in kept)


@rule("to_classes")
def to_classes(level: Level, op: Op, args: tuple[Any, ...]) -> Any:
    input, target, weight, ignore_index, reduction, shape = args
    folded, shares, together = _classes(level, shape, target, weight, ignore_index, input.dtype)
    if reduction == "mean":
        shares = shares / run("where", run("eq", together, 0), 1, together)
    g = physical(level, input)
    g = g.reshape(tuple(shares.shape)) if reduction == "none" else g.reshape((level.size, *(1,) * (shares.ndim - 1)))
    values = (g * shares).reshape(tuple(folded.shape))
    wide = (level.size, *shape) if len(shape) == 1 else (level.size * shape[0], *shape[1:])
    made = perform(op, (values, folded, None, ignore_index, "none", wide))
    return made.reshape((level.size, *shape))
