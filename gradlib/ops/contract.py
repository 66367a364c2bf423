"""Sums of products over named dimensions: ``einsum`` and what is one. All become products of two operands, one after the other."""

from __future__ import annotations

import functools
import itertools
import math
import operator
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gradlib.backend.array import Namespace, is_array
from gradlib.backend.dtype import int64, promote_types
from gradlib.backend.rows import by_rows, has_rows
from gradlib.core.arguments import refuse_wrong
from gradlib.core.op import composite, op
from gradlib.core.tensor import Tensor
from gradlib.ops.arithmetic import mul
from gradlib.ops.dims import wrap_dim
from gradlib.ops.dtype_rules import in_common_dtype
from gradlib.ops.labelled import Labels, Shape, Term, contract, paired
from gradlib.ops.product import dot, matmul, one_dtype
from gradlib.ops.reduce import sum as total
from gradlib.ops.shape import permute, reshape
from gradlib.ops.slices import diagonal

__all__ = ["einsum", "inner", "kron", "tensordot"]

_LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"
_ELLIPSIS = len(_LETTERS)  # the labels of dimensions that an ellipsis covers count from here


# ---- contraction --------------------------------------------------------------------------------------------------------------------


class Operand(NamedTuple):
    """An operand of a contraction, or the result of one of its calls: its place among the values, its dimensions, its dtype."""

    place: int
    term: Term
    dtype: Any


class Contraction:
    """The sum over every label that is not in the output of the products of all operands, for operands of given shapes.

    What is to be called follows from labels, shapes and dtypes alone, so it is found once for all operands of these.

    Args:
        terms: the labels and sizes of each operand; equal labels are one dimension of one size, or of size 1.
        output: the labels of the result's dimensions, each once.
        dtypes: of the operands; None where all have one, of which there are products.
        keeps_dtype: whether a sum of integers is of their dtype.
    Attributes:
        calls: of each a function, the places of the values that it takes, and its further arguments. The operands have the first places,
            each result the next. Each value is taken once.
        sizes: by label.
    Raises: RuntimeError for sizes and dtypes that differ, NotImplementedError for sums of products of bools.
    """

    def __init__(self, terms: Sequence[Term], output: Labels, dtypes: Sequence[Any] | None = None, keeps_dtype: bool = False) -> None:
        self.calls: list[tuple[Callable[..., Any], tuple[int, ...], tuple[Any, ...]]] = []
        self.operands = len(terms)
        self.keeps_dtype = keeps_dtype
        self.sizes: dict[int, int] = {}
        given = zip(terms, dtypes or (None,) * len(terms), strict=True)
        left = [self._diagonal(Operand(k, term, dtype)) for k, (term, dtype) in enumerate(given)]
        for k, x in enumerate(left):
            self._read_sizes(k, x.term)
        if len(left) == 1:
            self._of_one(left[0], output)
            return
        for k, x in enumerate(left):
            elsewhere = {*output, *(n for y in left if y is not x for n in y.term.broad)}
            left[k] = self._summed(x, [n for n in x.term.broad if n not in elsewhere])
        while len(left) > 1:
            i, j = self._cheapest(left, output)
            b, a = left.pop(j), left.pop(i)
            left.append(self._pair(a, b, left, output))

    def run(self, operands: Sequence[Any]) -> Any:
        """Contract operands, Tensors or arrays."""
        if len(self.calls) == 1:
            ((function, _, more),) = self.calls
            return function(*operands, *more)
        values = dict(enumerate(operands))
        place = len(values)
        for function, taken, more in self.calls:
            values[place] = function(*map(values.pop, taken), *more)
            place += 1
        (result,) = values.values()
        return result

    def _call(self, function: Callable[..., Any], taken: tuple[int, ...], *more: Any) -> int:
        """Note a call. Returns: the place of its result."""
        self.calls.append((function, taken, more))
        return self.operands + len(self.calls) - 1

    def _diagonal(self, x: Operand) -> Operand:
        """Bring a label that an operand repeats down to one dimension, the diagonal."""
        names, shape = x.term
        for name in names:
            if names.count(name) > 1:
                first = names.index(name)
                second = names.index(name, first + 1)
                if shape[first] != shape[second]:
                    raise RuntimeError(
                        f"einsum: dimensions must match for repeated subscript {_spelled(name)}, got {shape[first]} and {shape[second]}"
                    )
                rest = [i for i in range(len(names)) if i not in (first, second)]
                left = Term((*(names[i] for i in rest), name), (*(shape[i] for i in rest), shape[first]))
                return self._diagonal(Operand(self._call(diagonal, (x.place,), 0, first, second), left, x.dtype))
        return x

    def _read_sizes(self, k: int, term: Term) -> None:
        """The sizes of the labels of operand ``k``, which are those of the operands before it."""
        for name, size in zip(*term, strict=True):
            if self.sizes.setdefault(name, size) == 1:
                self.sizes[name] = size
            elif size not in (1, self.sizes[name]):
                raise RuntimeError(
                    f"einsum: subscript {_spelled(name)} has size {size} for operand {k} which does not broadcast with previously seen "
                    f"size {self.sizes[name]}"
                )

    def _of_one(self, x: Operand, output: Labels) -> None:
        """The sum of one operand; over a dimension of size 1 as over any other, so that its memory and dtype do not depend on sizes."""
        x = self._summed(x, [n for n in x.term.labels if n not in output])
        order = tuple([x.term.labels.index(n) for n in output])
        if not self.calls or order != tuple(range(len(order))):  # a view: what is done to its shape is not done to the operand
            self._call(permute, (x.place,), order)

    def _summed(self, x: Operand, names: Labels) -> Operand:
        """Sum an operand over labels."""
        if not names:
            return x
        dims = tuple([i for i, n in enumerate(x.term.labels) if n in names])
        over = dims[0] if len(dims) == 1 else None if len(dims) == len(x.term.labels) else dims
        place = self._call(_total_in_its_dtype if self.keeps_dtype else total, (x.place,), over)
        labels, shape = (tuple([each for i, each in enumerate(part) if i not in dims]) for part in x.term)
        return Operand(place, Term(labels, shape), int64 if x.dtype is not None and x.dtype.kind in "biu" else x.dtype)

    def _cheapest(self, left: list[Operand], output: Labels) -> tuple[int, int]:
        """The two operands to contract next: those with the fewest multiplications, and among these the smallest product."""

        def cost(pair: tuple[int, int]) -> tuple[int, int]:
            elsewhere = {*output, *(n for k, x in enumerate(left) if k not in pair for n in x.term.broad)}
            met = {n for k in pair for n in left[k].term.broad}
            return math.prod(self.sizes[n] for n in met), math.prod(self.sizes[n] for n in met & elsewhere)

        return min(itertools.combinations(range(len(left)), 2), key=cost)

    def _pair(self, a: Operand, b: Operand, left: list[Operand], output: Labels) -> Operand:
        """Contract two operands; into the output where none is left."""
        mine, its = a.term.broad, b.term.broad
        wanted: Labels = output
        if left:
            elsewhere = {*output, *(n for x in left for n in x.term.broad)}
            shared = [n for n in mine if n in its and n in elsewhere]
            wanted = shared + [n for n in mine if n not in its] + [n for n in its if n not in mine]
        made = paired(a.term, b.term, Term(tuple(wanted), tuple([self.sizes[n] for n in wanted])))
        if made.sums and a.dtype is not None:
            one_dtype("einsum", [a, b])
        dtype = a.dtype if a.dtype is b.dtype else promote_types(a.dtype, b.dtype)
        return Operand(self._call(contract, (a.place, b.place), made), made.output, dtype)


def _spelled(label: int) -> str:
    return _LETTERS[label] if label < _ELLIPSIS else "..."


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
    if not args or not isinstance(args[0], str):
        return _sublists(args)
    operands = args[1:]
    if len(operands) == 1 and isinstance(operands[0], (list, tuple)):
        operands = tuple(operands[0])
    if not operands:
        raise ValueError("einsum: must specify the equation string and at least one operand, or at least one operand and its subscripts")
    try:
        return _equation(args[0], *_kinds(operands)).run(operands)
    except Exception:
        refuse_wrong("einsum", _by_equation, *args)
        raise


def _by_equation(equation: str, *operands: Any) -> None:
    """What ``einsum`` takes besides operands with a list of labels each."""


def _kinds(operands: Sequence[Any]) -> tuple[tuple[Shape, ...], tuple[Any, ...] | None]:
    """The shapes of operands, and their dtypes where these are not one of floats."""
    shapes, first = [], None
    alike = True
    for x in operands:
        array = x._array if type(x) is Tensor else x
        shapes.append(array.shape)
        if array.dtype is not first:
            alike, first = first is None and array.dtype.kind in "fcV", array.dtype
    return tuple(shapes), None if alike else tuple([x.dtype for x in operands])


@functools.lru_cache(maxsize=512)
def _equation(equation: str, shapes: tuple[Shape, ...], dtypes: tuple[Any, ...] | None) -> Contraction:
    """The contraction that an equation in einsum's notation describes."""
    left, arrow, right = equation.partition("->")
    terms = [_letters(term) for term in left.split(",")]
    if len(terms) != len(shapes):
        raise RuntimeError(f"einsum: {len(shapes)} operands were provided where the equation {equation!r} has {len(terms)} terms")
    return _contraction(terms, _letters(right) if arrow else None, shapes, dtypes)


@functools.lru_cache(maxsize=512)
def _by_lists(
    terms: tuple[tuple[Any, ...], ...], output: tuple[Any, ...] | None, shapes: tuple[Shape, ...], dtypes: tuple[Any, ...] | None
) -> Contraction:
    """The contraction that lists of numbers describe."""
    return _contraction(terms, output, shapes, dtypes)


def _contraction(
    terms: Sequence[Sequence[Any]], output: Sequence[Any] | None, shapes: tuple[Shape, ...], dtypes: tuple[Any, ...] | None
) -> Contraction:
    """The contraction that subscripts mean, in which Ellipsis stands for any dimensions, and None for an output that is left out."""
    covered = [len(shape) - sum(n is not Ellipsis for n in names) for shape, names in zip(shapes, terms, strict=True)]
    for k, (shape, names, count) in enumerate(zip(shapes, terms, covered, strict=True)):
        if count < 0 or (count and Ellipsis not in names):
            raise RuntimeError(
                f"einsum: the number of subscripts in the equation ({len(names)}) does not match the number of dimensions ({len(shape)}) "
                f"for operand {k}, of shape {list(shape)}"
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
    return Contraction([Term(tuple(names), shape) for names, shape in zip(labels, shapes, strict=True)], wanted, dtypes)


def _expanded(names: Sequence[Any], count: int, widest: int) -> Labels:
    """The labels with an ellipsis written out, aligned at its right end."""
    return [label for n in names for label in (range(_ELLIPSIS + widest - count, _ELLIPSIS + widest) if n is Ellipsis else (n,))]


def _letters(term: str) -> list[Any]:
    names: list[Any] = []
    before, ellipsis, behind = term.replace(" ", "").partition("...")
    for letter in before + ("\0" if ellipsis else "") + behind:
        if letter != "\0" and letter not in _LETTERS:
            raise RuntimeError(f"einsum: invalid subscript {letter!r} in {term!r}; subscripts are letters and at most one '...'")
        names.append(Ellipsis if letter == "\0" else _LETTERS.index(letter))
    return names


def _sublists(args: Sequence[Any]) -> Any:
    """``einsum`` in the notation with lists of numbers."""
    output = tuple(args[-1]) if len(args) % 2 else None
    pairs = args[: len(args) - len(args) % 2]
    operands, terms = pairs[::2], tuple(map(tuple, pairs[1::2]))
    for names in (*terms, output or ()):
        for n in names:
            if n is not Ellipsis and not (isinstance(n, int) and 0 <= n < _ELLIPSIS):
                raise ValueError(f"einsum: expected subscripts from 0 to {_ELLIPSIS - 1}, or Ellipsis, got {n!r}")
    if not terms:
        raise ValueError("einsum: must specify the equation string and at least one operand, or at least one operand and its subscripts")
    return _by_lists(terms, output, *_kinds(operands)).run(operands)


# ---- others -------------------------------------------------------------------------------------------------------------------------


@composite(method=False)
def tensordot(a: Any, b: Any, dims: Any = 2) -> Any:
    """The sum of the products of elements over some dimensions of both tensors.

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
    if type(dims) not in _PLAIN and (isinstance(dims, Tensor) or is_array(dims)):
        dims = dims.tolist()
    if not isinstance(dims, int):
        dims = tuple([tuple(map(operator.index, listed)) for listed in dims])
    return _over_dims(*_kinds((a, b))[0], dims).run((a, b))


_PLAIN = (int, tuple, list)


@functools.lru_cache(maxsize=512)
def _over_dims(a: Shape, b: Shape, dims: int | tuple[Shape, ...]) -> Contraction:
    """The contraction that ``tensordot`` describes."""
    if isinstance(dims, int):
        if not 0 <= dims <= min(len(a), len(b)):
            raise RuntimeError(f"tensordot: dims must be from 0 to either rank, got {dims} for {list(a)} and {list(b)}")
        dims = (tuple(range(len(a) - dims, len(a))), tuple(range(dims)))
    mine, its = ([wrap_dim(d, len(shape)) for d in listed] for shape, listed in zip((a, b), dims, strict=True))
    if len(mine) != len(its):
        raise RuntimeError(f"tensordot: both dimension lists should have same length, got {mine} and {its}")
    for i, j in zip(mine, its, strict=True):
        if a[i] != b[j] and 1 not in (a[i], b[j]):
            raise RuntimeError(
                f"tensordot: contracted dimensions need to match, but first has size {a[i]} in dim {i} and second has size {b[j]} in dim "
                f"{j}"
            )
    left = tuple(range(len(a)))
    right = tuple([mine[its.index(j)] if j in its else len(a) + j for j in range(len(b))])
    return Contraction([Term(left, a), Term(right, b)], [n for n in left + right if n not in mine], keeps_dtype=True)


def _total_in_its_dtype(x: Any, dims: int | tuple[int, ...] | None) -> Any:
    """The sum in the dtype of its terms, where ``sum`` makes int64 of integers: the other operand is of this dtype too."""
    return total(x, dims, dtype=x.dtype)


@composite
def inner(input: Any, other: Any) -> Any:
    """The sum of the products of elements over the last dimension of both; the product where one has no dimensions.

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
    if input.ndim == 1:
        return dot(input, other) if other.ndim == 1 else matmul(other, input)
    if other.ndim == 1:
        return matmul(input, other)
    one_dtype("inner", [input, other])
    return _over_dims(*_kinds((input, other))[0], ((-1,), (-1,))).run((input, other))


def _left(g: Any, other: Any, input_shape: Shape) -> Any:
    """The gradient of ``kron`` for input: for each of its elements the sum of g times other over the copy in its place."""
    wide, fine, _ = interleaved(input_shape, other.shape)
    products = reshape(g, _paired(wide, fine)) * reshape(other, fine)
    return reshape(total(products, tuple(range(1, len(fine), 2))), input_shape)


def _right(g: Any, input: Any, other_shape: Shape) -> Any:
    """The gradient of ``kron`` for other: the sum over all copies of g times the element of input."""
    wide, fine, _ = interleaved(input.shape, other_shape)
    products = reshape(g, _paired(wide, fine)) * reshape(input, wide)
    return reshape(total(products, tuple(range(0, len(wide), 2))), other_shape)


def _paired(wide: Shape, fine: Shape) -> Shape:
    """The shape to which those of the two factors broadcast."""
    return tuple(map(operator.mul, wide, fine))


@op(
    "bilinear", promote=in_common_dtype,
    input=lambda g, other, input_shape: _left(g, other, input_shape),
    other=lambda g, input, other_shape: _right(g, input, other_shape),
)  # fmt: skip
def kron(xp: Namespace, input: Any, other: Any) -> Any:
    """Kronecker's product: each element of input replaced by a copy of other times that element.

    Args:
        input, other: the one of lower rank gets dimensions of size 1 in front.
    Source: torch.kron.
    Example:
        >>> gradlib.kron(gradlib.tensor([1, 2]), gradlib.tensor([1, 10]))
        tensor([ 1, 10,  2, 20])
    """
    wide, fine, whole = interleaved(input.shape, other.shape)
    a, b = input.reshape(wide), other.reshape(fine)
    if xp is not np:
        return mul(a, b).reshape(whole)
    return (by_rows(np.multiply, a, b) if has_rows(other) else a * b).reshape(whole)


@functools.lru_cache(maxsize=512)
def interleaved(input: Shape, other: Shape) -> tuple[Shape, Shape, Shape]:
    """The shapes of the factors of ``kron``, by which they broadcast, and that of the result."""
    rank = max(len(input), len(other))
    mine, its = ((1,) * (rank - len(shape)) + shape for shape in (input, other))
    wide, fine = (n for size in mine for n in (size, 1)), (n for size in its for n in (1, size))
    return tuple(wide), tuple(fine), tuple(n * m for n, m in zip(mine, its, strict=True))
