"""Sums of products over named dimensions: ``einsum`` and what is one. All become matrix products over permuted views."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

from gradlib.backend.array import is_array
from gradlib.core.op import composite
from gradlib.core.tensor import Tensor
from gradlib.ops.dims import wrap_dim
from gradlib.ops.product import dot, matmul, one_dtype
from gradlib.ops.reduce import sum as total
from gradlib.ops.shape import permute, reshape
from gradlib.ops.slices import diagonal

__all__ = ["einsum", "inner", "kron", "tensordot"]

Labels = list[int]
_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ELLIPSIS = len(_LETTERS)  # the labels of dimensions that an ellipsis covers count from here


# ---- contraction --------------------------------------------------------------------------------------------------------------------


def contract(operands: Sequence[Any], labels: Sequence[Labels], output: Labels) -> Any:
    """The sum over every label that is not in the output of the products of all operands.

    Args:
        operands: Tensors or arrays.
        labels: a label for each dimension of each operand; equal labels are one dimension of one size, or of size 1.
        output: the labels of the result's dimensions, each once.
    Raises: RuntimeError for sizes that differ.
    """
    pairs = [_diagonal(x, list(names)) for x, names in zip(operands, labels, strict=True)]
    sizes: dict[int, int] = {}
    for k, (x, names) in enumerate(pairs):
        for name, size in zip(names, x.shape, strict=True):
            if sizes.setdefault(name, size) == 1:
                sizes[name] = size
            elif size not in (1, sizes[name]):
                raise RuntimeError(
                    f"einsum: subscript {_spelled(name)} has size {size} for operand {k} which does not broadcast with previously seen "
                    f"size {sizes[name]}"
                )
    pairs = [_without_ones(x, names) for x, names in pairs]
    for k, (x, names) in enumerate(pairs):
        pairs[k] = _summed(x, names, {*output, *(n for j, (_, others) in enumerate(pairs) if j != k for n in others)})
    while len(pairs) > 1:
        i, j = _cheapest(pairs, output, sizes)
        (b, its), (a, mine) = pairs.pop(j), pairs.pop(i)
        wanted = {*output, *(n for _, names in pairs for n in names)}
        pairs.append(_pair(a, mine, b, its, wanted))
    ((result, names),) = pairs
    if missing := [n for n in output if n not in names]:  # of size 1 everywhere
        result, names = reshape(result, (*result.shape, *(1,) * len(missing))), names + missing
    return result if names == output else permute(result, tuple(names.index(n) for n in output))


def _spelled(label: int) -> str:
    return _LETTERS[label] if label < _ELLIPSIS else "..."


def _diagonal(x: Any, names: Labels) -> tuple[Any, Labels]:
    """Bring a label that one operand repeats down to one dimension, the diagonal."""
    for name in names:
        while names.count(name) > 1:
            first = names.index(name)
            second = names.index(name, first + 1)
            if x.shape[first] != x.shape[second]:
                raise RuntimeError(
                    f"einsum: dimensions must match for repeated subscript {_spelled(name)}, got {x.shape[first]} and {x.shape[second]}"
                )
            x = diagonal(x, 0, first, second)
            names = [n for i, n in enumerate(names) if i not in (first, second)] + [name]
    return x, names


def _without_ones(x: Any, names: Labels) -> tuple[Any, Labels]:
    """Drop dimensions of size 1, which broadcast against the same label of other operands."""
    kept = [i for i, size in enumerate(x.shape) if size != 1]
    return (x, names) if len(kept) == len(names) else (reshape(x, tuple(x.shape[i] for i in kept)), [names[i] for i in kept])


def _summed(x: Any, names: Labels, wanted: set[int]) -> tuple[Any, Labels]:
    """Sum over the labels that occur in no other operand nor in the output; integers and bools become int64, as in every sum."""
    alone = tuple(i for i, n in enumerate(names) if n not in wanted)
    if not alone:
        return x, names
    return total(x, alone), [n for n in names if n in wanted]


def _cheapest(pairs: list[tuple[Any, Labels]], output: Labels, sizes: dict[int, int]) -> tuple[int, int]:
    """Which two operands to contract next: those with the fewest multiplications, and among these the smallest product."""

    def cost(pair: tuple[int, int]) -> tuple[int, int]:
        elsewhere = {*output, *(n for k, (_, names) in enumerate(pairs) if k not in pair for n in names)}
        met = {n for k in pair for n in pairs[k][1]}
        return math.prod(sizes[n] for n in met), math.prod(sizes[n] for n in met & elsewhere)

    return min(itertools.combinations(range(len(pairs)), 2), key=cost)


def _pair(a: Any, mine: Labels, b: Any, its: Labels, wanted: set[int]) -> tuple[Any, Labels]:
    """Contract two operands: a batched matrix product, or a plain one where nothing is summed."""
    batch = [n for n in mine if n in its and n in wanted]
    inner = [n for n in mine if n in its and n not in wanted]
    left, right = [n for n in mine if n not in its], [n for n in its if n not in mine]
    size = dict(zip((*mine, *its), (*a.shape, *b.shape), strict=True))
    together, rows, columns = (tuple(size[n] for n in names) for names in (batch, left, right))
    a = _arranged(a, mine, batch + left + inner)
    b = _arranged(b, its, batch + inner + right)
    if inner:
        count = math.prod(size[n] for n in inner)
        product = matmul(reshape(a, (*together, math.prod(rows), count)), reshape(b, (*together, count, math.prod(columns))))
        return reshape(product, together + rows + columns), batch + left + right
    if columns:
        a = reshape(a, together + rows + (1,) * len(columns))
    if rows:
        b = reshape(b, together + (1,) * len(rows) + columns)
    return a * b, batch + left + right


def _arranged(x: Any, names: Labels, order: Labels) -> Any:
    return x if names == order else permute(x, tuple(names.index(n) for n in order))


# ---- einsum -------------------------------------------------------------------------------------------------------------------------


@composite(method=False)
def einsum(*args: Any) -> Any:
    """Sums of products of elements, in Einstein's notation.

    A letter names a dimension. Letters that the output lacks are summed over; one that a term repeats takes a diagonal; "..." stands for
    any dimensions, which broadcast. Without "->" the output has the dimensions of "..." and then, in alphabetical order, the letters
    that occur once.

    Args:
        args: an equation such as "bij,bjk->bik" and a Tensor for each of its terms; or Tensors, each followed by the list of its
            subscripts (numbers below 52), and at the end, if wanted, the list of the output's.
    Returns: a tensor with a dimension for each letter of the output; a view where one term is only rearranged.
    Raises: RuntimeError for an equation and shapes that do not fit, ValueError without operands.
    Source: torch.einsum.
    Example:
        >>> gradlib.einsum("ij,j->i", gradlib.tensor([[1.0, 2.0], [3.0, 4.0]]), gradlib.tensor([1.0, 1.0]))
        tensor([3., 7.])
    """
    operands, terms, output = _sublists(args) if args and not isinstance(args[0], str) else _equation(args)
    covered = [x.ndim - sum(n is not Ellipsis for n in names) for x, names in zip(operands, terms, strict=True)]
    for k, (x, names, count) in enumerate(zip(operands, terms, covered, strict=True)):
        if count < 0 or (count and Ellipsis not in names):
            raise RuntimeError(
                f"einsum: the number of subscripts in the equation ({len(names)}) does not match the number of dimensions ({x.ndim}) for "
                f"operand {k}, of shape {list(x.shape)}"
            )
    widest = max((count for names, count in zip(terms, covered, strict=True) if Ellipsis in names), default=0)
    labels = [_expanded(names, count, widest) for names, count in zip(terms, covered, strict=True)]
    if output is None:
        seen = [n for names in labels for n in names]
        wanted = _expanded([Ellipsis], widest, widest) + sorted(n for n in set(seen) if n < _ELLIPSIS and seen.count(n) == 1)
    else:
        wanted = _expanded(output, widest, widest)
    for n in wanted:
        if wanted.count(n) > 1:
            raise RuntimeError(f"einsum: output subscript {_spelled(n)} appears more than once in the output")
        if not any(n in names for names in labels):
            raise RuntimeError(f"einsum: output subscript {_spelled(n)} does not appear in the equation for any input operand")
    return contract(operands, labels, wanted)


def _expanded(names: Sequence[Any], count: int, widest: int) -> Labels:
    """The labels with an ellipsis written out, aligned at its right end."""
    return [label for n in names for label in (range(_ELLIPSIS + widest - count, _ELLIPSIS + widest) if n is Ellipsis else (n,))]


def _equation(args: Sequence[Any]) -> tuple[list[Any], list[list[Any]], list[Any] | None]:
    """The operands, their labels and the output's (None when it is left out) of the notation with a string."""
    operands = list(args[1:])
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = list(operands[0])
    if not operands:
        raise ValueError("einsum: must specify the equation string and at least one operand, or at least one operand and its subscripts")
    left, arrow, right = args[0].partition("->")
    terms = [_letters(term) for term in left.split(",")]
    if len(terms) != len(operands):
        raise RuntimeError(f"einsum: {len(operands)} operands were provided where the equation {args[0]!r} has {len(terms)} terms")
    return operands, terms, _letters(right) if arrow else None


def _letters(term: str) -> list[Any]:
    names: list[Any] = []
    before, ellipsis, behind = term.replace(" ", "").partition("...")
    for letter in before + ("\0" if ellipsis else "") + behind:
        if letter != "\0" and letter not in _LETTERS:
            raise RuntimeError(f"einsum: invalid subscript {letter!r} in {term!r}; subscripts are letters and at most one '...'")
        names.append(Ellipsis if letter == "\0" else _LETTERS.index(letter))
    return names


def _sublists(args: Sequence[Any]) -> tuple[list[Any], list[list[Any]], list[Any] | None]:
    """The same of the notation with lists of numbers."""
    output = list(args[-1]) if len(args) % 2 else None
    pairs = args[: len(args) - len(args) % 2]
    terms = [list(names) for names in pairs[1::2]]
    for n in (n for names in [*terms, output or []] for n in names):
        if n is not Ellipsis and not (isinstance(n, int) and 0 <= n < _ELLIPSIS):
            raise ValueError(f"einsum: expected subscripts from 0 to {_ELLIPSIS - 1}, or Ellipsis, got {n!r}")
    if not terms:
        raise ValueError("einsum: must specify the equation string and at least one operand, or at least one operand and its subscripts")
    return list(pairs[::2]), terms, output


# ---- others -------------------------------------------------------------------------------------------------------------------------


@composite(method=False)
def tensordot(a: Any, b: Any, dims: Any = 2) -> Any:
    """The sum over some dimensions of both tensors of the products of their elements.

    Args:
        a, b: of one dtype.
        dims: how many dimensions at the end of a and at the beginning of b; or two lists of dimensions (also as a tensor of two rows).
    Returns: the dimensions of a that are left, then those of b.
    Raises: RuntimeError for sizes that differ.
    Source: torch.tensordot.
    Example:
        >>> gradlib.tensordot(gradlib.ones(2, 3), gradlib.ones(3, 4), dims=1).shape
        gradlib.Size([2, 4])
    """
    one_dtype("tensordot", [a, b])
    if isinstance(dims, Tensor) or is_array(dims):
        dims = dims.tolist()
    if isinstance(dims, int):
        if not 0 <= dims <= min(a.ndim, b.ndim):
            raise RuntimeError(f"tensordot: dims must be from 0 to either rank, got {dims} for {list(a.shape)} and {list(b.shape)}")
        dims = (range(a.ndim - dims, a.ndim), range(dims))
    mine, its = ([wrap_dim(d, x.ndim) for d in listed] for x, listed in zip((a, b), dims, strict=True))
    if len(mine) != len(its):
        raise RuntimeError(f"tensordot: both dimension lists should have same length, got {mine} and {its}")
    for i, j in zip(mine, its, strict=True):
        if a.shape[i] != b.shape[j] and 1 not in (a.shape[i], b.shape[j]):
            raise RuntimeError(
                f"tensordot: contracted dimensions need to match, but first has size {a.shape[i]} in dim {i} and second has size "
                f"{b.shape[j]} in dim {j}"
            )
    left = list(range(a.ndim))
    right = [mine[its.index(j)] if j in its else a.ndim + j for j in range(b.ndim)]
    return contract([a, b], [left, right], [n for n in left if n not in mine] + [n for n in right if n not in mine])


@composite
def inner(input: Any, other: Any) -> Any:
    """The sum over the last dimension of both of the products of their elements; a product where one has no dimension.

    Args:
        input: (..., n).
        other: (..., n), of the same dtype.
    Raises: RuntimeError for last dimensions of different sizes or for two dtypes.
    Source: torch.inner.
    Example:
        >>> gradlib.inner(gradlib.tensor([1.0, 2.0]), gradlib.tensor([3.0, 4.0]))
        tensor(11.)
    """
    if not input.ndim or not other.ndim:
        return input * other
    if input.shape[-1] != other.shape[-1]:
        raise RuntimeError(
            f"inner() the last dimension must match on both input tensors but got shapes {list(input.shape)} and {list(other.shape)}"
        )
    return dot(input, other) if input.ndim == other.ndim == 1 else tensordot(input, other, dims=((-1,), (-1,)))


@composite
def kron(input: Any, other: Any) -> Any:
    """Kronecker's product: a copy of other, times that element, in the place of each element of input.

    Args:
        input, other: the one of lower rank gets dimensions of size 1 in front.
    Source: torch.kron.
    Example:
        >>> gradlib.kron(gradlib.tensor([1, 2]), gradlib.tensor([1, 10]))
        tensor([ 1, 10,  2, 20])
    """
    rank = max(input.ndim, other.ndim)
    mine, its = ((1,) * (rank - x.ndim) + tuple(x.shape) for x in (input, other))
    wide = reshape(input, tuple(n for size in mine for n in (size, 1)))
    fine = reshape(other, tuple(n for size in its for n in (1, size)))
    return reshape(wide * fine, tuple(n * m for n, m in zip(mine, its, strict=True)))
