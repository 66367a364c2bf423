"""The product of two arrays whose dimensions have labels, summed over some of these: one operation, which is also its own gradient."""

from __future__ import annotations

import functools
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import numpy as np

from gradlib.backend import small_products
from gradlib.backend.array import Namespace
from gradlib.core.op import op
from gradlib.ops.dtype_rules import in_common_dtype
from gradlib.ops.product import product

Labels = list[int]
Shape = tuple[int, ...]


class Term(NamedTuple):
    """One of the arrays of a product: a label for each dimension, and the sizes of these."""

    labels: tuple[int, ...]
    shape: Shape

    @property
    def broad(self) -> Labels:
        """The labels of dimensions that are not of size 1; a label of size 1 broadcasts."""
        return [n for n, size in zip(self.labels, self.shape, strict=True) if size != 1]


class Views(NamedTuple):
    """What brings an array into another form, step by step: a shape, an order of its dimensions, a shape; None for what is not needed."""

    split: Shape | None
    order: tuple[int, ...] | None
    merged: Shape | None


class Pair:
    """What ``contract`` computes of two arrays of given shapes: their product, summed over the labels that the result lacks.

    A label of which a term has more than one element has that size in at least two of the three terms. So it is too when the result and
    an operand change places: the gradient is the product of another pair.

    Args:
        input, other, output: the terms of the operands and of the result.
    Attributes:
        sums: whether anything is summed, by a product of matrices; else elements are multiplied.
        first, second: what makes of the operands matrices, vectors or stacks of them, or what broadcasts together. None for nothing.
        turned: whether the second one is multiplied by the first, so that the result is in order.
        last: what makes the result of their product.
        outer: whether that is of a column and a row for each of many examples.
        multiplications: how many of numbers.
    """

    def __init__(self, input: Term, other: Term, output: Term) -> None:
        self.input, self.other, self.output = input, other, output
        mine, its, made = input.broad, other.broad, output.broad
        self.sizes = {n: size for labels, shape in (input, other) for n, size in zip(labels, shape, strict=True) if size != 1}
        self.multiplications = math.prod(self.sizes.values())
        batch = [n for n in mine if n in its and n in made]
        left, right = [n for n in mine if n not in its], [n for n in its if n not in mine]
        larger = mine if math.prod(input.shape) >= math.prod(other.shape) else its  # which stays as it is
        inner = [n for n in larger if n in mine and n in its and n not in made]
        self.sums, self.outer = bool(inner), bool(batch) and len(left) == len(right) == 1
        forms = {turned: self._form(turned, batch, left, inner, right) for turned in (False, True)}
        in_order = next((n in right for n in made if n not in batch), False)
        # To turn a matrix costs nothing; a stack of matrices is copied by CuPy, and the result is left in another order.
        self.turned = min(forms, key=lambda turned: (bool(batch) and _turns(forms[turned]), turned != in_order))
        self.first, self.second, self.last = forms[self.turned]

    def _form(self, turned: bool, batch: Labels, left: Labels, inner: Labels, right: Labels) -> tuple[Views | None, ...]:
        """What makes of the operands those of a product, and of this the result."""
        input, other = self.input, self.other
        if turned:
            input, other, left, right = other, input, right, left
        together, rows, summed, columns = map(self._sizes, (batch, left, inner, right))
        if inner:
            height = (math.prod(rows),) if left or batch else ()  # else it is a vector
            width = (math.prod(columns),) if right or batch else ()
            one, two, product = (*height, math.prod(summed)), (math.prod(summed), *width), (*height, *width)
        else:
            one, two, product = rows + (1,) * len(columns), (1,) * len(rows) * bool(batch or not columns) + columns, rows + columns
        return (
            self._views(input, batch + left + inner, together + one),
            self._views(other, batch + inner + right, together + two),
            _views(together + product, together + rows + columns, _places(batch + left + right, self.output.broad), self.output.shape),
        )

    def __repr__(self) -> str:
        return f"<{list(self.input.labels)}, {list(self.other.labels)} -> {list(self.output.labels)}>"

    @functools.cached_property
    def for_input(self) -> Pair:
        """The pair of the result's gradient and ``other``, whose product is the gradient for ``input``."""
        return paired(self.output, self.other, self.input)

    @functools.cached_property
    def for_other(self) -> Pair:
        """The same of the result's gradient and ``input``, for ``other``."""
        return paired(self.output, self.input, self.other)

    def batched(self, size: int, input: bool, other: bool) -> Pair:
        """The pair of operands of which one or both have one more dimension in front, as the result then has."""
        label = max(self.input.labels + self.other.labels, default=-1) + 1
        terms = zip((self.input, self.other, self.output), (input, other, True), strict=True)
        return paired(*[Term((label, *term.labels), (size, *term.shape)) if has_it else term for term, has_it in terms])

    def _sizes(self, names: Labels) -> Shape:
        return tuple([self.sizes[n] for n in names])

    def _views(self, term: Term, order: Labels, wanted: Shape) -> Views | None:
        names = term.broad
        return _views(term.shape, self._sizes(names), _places(names, order), wanted)


paired = functools.lru_cache(maxsize=4096)(Pair)
"""The pair of three terms."""


def _places(names: Sequence[int], order: Sequence[int]) -> tuple[int, ...]:
    """Where the labels of an order stand among names."""
    return tuple([names.index(n) for n in order])


def _views(shape: Shape, split: Shape, order: tuple[int, ...], wanted: Shape) -> Views | None:
    """What makes an array of a shape one of another, for which its dimensions, once split, are brought into an order."""
    if order == tuple(range(len(order))):
        return None if shape == wanted else Views(None, None, wanted)
    ordered = tuple([split[i] for i in order])
    return Views(None if shape == split else split, order, None if ordered == wanted else wanted)


def _turns(form: tuple[Views | None, ...]) -> int:
    """How many arrays are brought into another order."""
    return sum(views is not None and views.order is not None for views in form)


def _viewed(x: Any, views: Views) -> Any:
    """An array in another form, a view of it where memory allows."""
    split, order, merged = views
    if split is not None:
        x = x.reshape(split)
    if order is not None:
        x = x.transpose(order)
    return x if merged is None else x.reshape(merged)


@op(
    "bilinear", promote=in_common_dtype, method=False,
    input=lambda g, other, pair: contract(g, other, pair.for_input),
    other=lambda g, input, pair: contract(g, input, pair.for_other),
)  # fmt: skip
def contract(xp: Namespace, input: Any, other: Any, pair: Pair) -> Any:
    """The product of two arrays, summed over the labels that a pair's output lacks."""
    a, b = (other, input) if pair.turned else (input, other)
    if pair.first is not None:
        a = _viewed(a, pair.first)
    if pair.second is not None:
        b = _viewed(b, pair.second)
    if pair.sums:
        made = product(xp, a, b)
    else:
        made = small_products.multiplied(a, b) if pair.outer and xp is np else None
        made = a * b if made is None else made
    return made if pair.last is None else _viewed(made, pair.last)
