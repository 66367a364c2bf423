"""Lanes: a few neighbouring joints that the compiled loops compute together, as one vector of the processor.

numba's compiler does not find these vectors by itself: a step of 7 joints is too short for it, and it cannot know that the arrays lie
apart. So the loops say it: `load` and `store` move lanes, `+ - *` of lanes act on each. A loop over D joints takes ``lanes_of(D)`` at a
time, the last ones overlapping those before where D is no multiple; they are computed twice, alike. The compiler makes what the processor
has of them: one register, several, or single numbers.
"""

from __future__ import annotations

import operator
from typing import Any

from llvmlite import ir
from numba import types
from numba.core import cgutils
from numba.core.errors import RequireLiteralValue
from numba.extending import intrinsic, models, overload, register_model

MOST = 8
"""Lanes at most."""


def lanes_of(joints: int) -> int:
    """The largest power of two, up to `MOST`, of so many joints."""
    return min(MOST, 1 << max(0, joints.bit_length() - 1))


class Lanes(types.Type):  # type: ignore[misc]
    """numba's type of lanes.

    Attributes:
        dtype: of each; number: how many.
    """

    def __init__(self, dtype: Any, number: int) -> None:
        self.dtype, self.number = dtype, number
        super().__init__(name=f"Lanes({dtype}, {number})")


@register_model(Lanes)
class _Model(models.PrimitiveModel):  # type: ignore[misc]
    """A vector of LLVM."""

    def __init__(self, manager: Any, lanes: Lanes) -> None:
        super().__init__(manager, lanes, ir.VectorType(manager.lookup(lanes.dtype).get_value_type(), lanes.number))


def _as_many(dtype: Any, number: Any) -> Lanes:
    """The lanes of a number that the compiler knows."""
    if not isinstance(number, types.IntegerLiteral):
        raise RequireLiteralValue("the number of lanes is a constant")
    return Lanes(dtype, number.literal_value)


def _place(context: Any, builder: Any, kind: Any, array: Any, index: Any, lanes: Any) -> Any:
    """A pointer to lanes in an array's memory, which is contiguous."""
    first = builder.gep(context.make_array(kind)(context, builder, array).data, [index])
    return builder.bitcast(first, context.get_value_type(lanes).as_pointer())


def _spread(builder: Any, value: Any, number: int) -> Any:
    """A vector that holds one value so many times."""
    nothing = ir.Constant(ir.VectorType(value.type, number), ir.Undefined)
    one = builder.insert_element(nothing, value, ir.Constant(ir.IntType(32), 0))
    return builder.shuffle_vector(one, nothing, ir.Constant(ir.VectorType(ir.IntType(32), number), [0] * number))


@intrinsic(prefer_literal=True)
def load(context: Any, array: Any, index: Any, number: Any) -> Any:
    """The lanes of a contiguous array that begin at an index, counted over the flat array."""
    lanes = _as_many(array.dtype, number)

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        place = _place(context, builder, array, given[0], given[1], lanes)
        return builder.load(place, align=array.dtype.bitwidth // 8)

    return lanes(array, types.intp, number), generate


@intrinsic
def store(context: Any, array: Any, index: Any, lanes: Any) -> Any:
    """Write lanes where `load` would read them."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        place = _place(context, builder, array, given[0], given[1], lanes)
        builder.store(given[2], place, align=array.dtype.bitwidth // 8)
        return context.get_dummy_value()

    return types.void(array, types.intp, lanes), generate


@intrinsic(prefer_literal=True)
def load_row(context: Any, table: Any, row: Any, first: Any, number: Any) -> Any:
    """The lanes of a row of a table with any strides."""
    lanes = _as_many(table.dtype, number)

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        array = context.make_array(table)(context, builder, given[0])
        made = ir.Constant(context.get_value_type(lanes), ir.Undefined)
        for n in range(lanes.number):
            place = [given[1], builder.add(given[2], ir.Constant(given[2].type, n))]
            at = cgutils.get_item_pointer(context, builder, table, array, place, wraparound=False, boundscheck=False)
            one = builder.load(at, align=1)
            made = builder.insert_element(made, one, ir.Constant(ir.IntType(32), n))
        return made

    return lanes(table, types.intp, types.intp, number), generate


@intrinsic(prefer_literal=True)
def splat(context: Any, x: Any, number: Any) -> Any:
    """Lanes that all hold one number."""
    lanes = _as_many(x, number)

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        return _spread(builder, given[0], lanes.number)

    return lanes(x, number), generate


@intrinsic
def beyond(context: Any, x: Any, lower: Any, upper: Any) -> Any:
    """How far each lane lies beyond an interval: positive above, negative below, zero within, NaN where it is NaN itself."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        value, low, high = given
        zero = ir.Constant(value.type, [0.0] * x.number)
        under = builder.select(builder.fcmp_ordered(">=", value, low), zero, builder.fsub(value, low))
        return builder.select(builder.fcmp_ordered("<=", value, high), under, builder.fsub(value, high))

    return x(x, x, x), generate


@intrinsic
def keep(context: Any, x: Any, first: Any) -> Any:
    """The lanes from one on, zero before: of lanes that overlap those before, what counts."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        index = ir.VectorType(given[1].type, x.number)
        places, zeros = ir.Constant(index, list(range(x.number))), ir.Constant(given[0].type, [0.0] * x.number)
        counts = builder.icmp_signed(">=", places, _spread(builder, given[1], x.number))
        return builder.select(counts, given[0], zeros)

    return x(x, types.intp), generate


@intrinsic
def signed(context: Any, x: Any, by: Any) -> Any:
    """Each lane times the sign of another: zero where that is zero, NaN where it is NaN."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        value, sign = given
        zero = ir.Constant(sign.type, [0.0] * x.number)
        rest = builder.select(builder.fcmp_ordered("<", sign, zero), builder.fneg(value), builder.fmul(value, sign))
        return builder.select(builder.fcmp_ordered(">", sign, zero), value, rest)

    return x(x, x), generate


@intrinsic
def total(context: Any, x: Any) -> Any:
    """The sum of the lanes."""

    def generate(context: Any, builder: Any, signature: Any, given: Any) -> Any:
        made, index = given[0], ir.IntType(32)
        half = x.number
        while half > 1:
            half //= 2
            kind = ir.VectorType(index, half)
            low, high = (
                builder.shuffle_vector(made, ir.Constant(made.type, ir.Undefined), ir.Constant(kind, list(range(at, at + half))))
                for at in (0, half)
            )
            made = builder.fadd(low, high)
        return builder.extract_element(made, ir.Constant(index, 0))

    return x.dtype(x), generate


def _declare(sign: Any, instruction: str) -> None:
    """Have an operator of two lanes be an instruction of LLVM."""

    @intrinsic
    def each(context: Any, x: Any, y: Any) -> Any:
        return x(x, y), lambda context, builder, signature, given: getattr(builder, instruction)(*given)

    @overload(sign)
    def of_lanes(x: Any, y: Any) -> Any:
        def apply(x: Any, y: Any) -> Any:
            return each(x, y)

        return apply if isinstance(x, Lanes) and x == y else None


_declare(operator.add, "fadd")
_declare(operator.sub, "fsub")
_declare(operator.mul, "fmul")


@intrinsic
def _negated(context: Any, x: Any) -> Any:
    return x(x), lambda context, builder, signature, given: builder.fneg(given[0])


@overload(operator.neg)
def _negative(x: Any) -> Any:
    def apply(x: Any) -> Any:
        return _negated(x)

    return apply if isinstance(x, Lanes) else None


def array_in(real: Any, dimensions: int, layout: str = "C") -> Any:
    """numba's type of an array that is only read: ``layout`` "C", or "A" for any strides; aligned or not."""
    return types.Array(real, dimensions, layout, readonly=True, aligned=False)


def array_out(real: Any, dimensions: int) -> Any:
    """numba's type of a contiguous array that is written."""
    return types.Array(real, dimensions, "C")
