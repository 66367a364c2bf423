"""A linear map and its transpose as differentiable operations, each the other's derivative.

Every trajectory map F is linear in its parts (control, start, ...) with dt as a parameter, and gives p, v, a, j. `closed_pair` declares

    F, F_adjoint               dt is a constant; nothing but it is kept for backward
    F_timed, F_adjoint_timed   dt is a differentiable input, the first of the list

The derivative of F is F_adjoint and that of F_adjoint is F, so double backward, to any order, needs no further kernel. The derivative by
dt of both is one formula, ``by_time``, written with F, F_adjoint and pointwise operations, hence differentiable again.

Parts travel as a list with a tuple of their places (``which``), because a missing part is zero and costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

from gradlib.core.compile import named
from gradlib.core.op import op

Places = tuple[int, ...]


class Pair(NamedTuple):
    """The four operations of `closed_pair`."""

    forward: Callable[..., Any]
    adjoint: Callable[..., Any]
    forward_timed: Callable[..., Any]
    adjoint_timed: Callable[..., Any]

    def called(self, name: str) -> Pair:
        """The map as a public function calls it: its name is that of the range and, with or without dt, of the node."""
        return self._replace(forward=named(self.forward, name), forward_timed=named(self.forward_timed, name))


_DOCS = {
    "": "The linear map",
    "_adjoint": "The transpose of",
    "_timed": "With dt as a differentiable input, the linear map",
    "_adjoint_timed": "With dt as a differentiable input, the transpose of",
}


def slots(which: Places, values: Any, number: int) -> list[Any]:
    """The values at their places in a list of ``number``, None elsewhere."""
    full: list[Any] = [None] * number
    for place, value in zip(which, values, strict=True):
        full[place] = value
    return full


def present(values: Any) -> tuple[Places, list[Any]]:
    """The places of the values that are not None, and those values."""
    which = tuple(i for i, x in enumerate(values) if x is not None)
    return which, [values[i] for i in which]


def _declare(
    name: str, kind: str, suffix: str, sequence: str, outputs: tuple[str, ...], rule: Callable[..., Any], value: Callable[..., Any]
) -> Any:
    """One of the four operations."""
    value.__doc__ = f"{_DOCS[suffix]} `{name}`: see `gradlib.trajectory.pair.closed_pair`."
    also = () if suffix.endswith("timed") else ("dt",)
    options: dict[str, Any] = {"also": also, "sequence": sequence, "outputs": outputs, "complex": "none", sequence: rule}
    return op(kind, name=name + suffix, method=False, **options)(value)


def _values(forward: Callable[..., Any], adjoint: Callable[..., Any], number: int) -> tuple[Callable[..., Any], ...]:
    """The values of the four operations, from a map and its transpose on slots."""

    def value(xp: Any, dt: Any, static: Any, which: Places, out: Any, inputs: Any) -> Any:
        return forward(xp, dt, static, slots(which, inputs, number), out)

    def adjoint_value(xp: Any, dt: Any, static: Any, which: Places, wanted: Places, grads: Any) -> Any:
        return adjoint(xp, dt, static, slots(which, grads, 4), wanted)

    def timed_value(xp: Any, static: Any, which: Places, out: Any, inputs: Any) -> Any:
        return forward(xp, inputs[0], static, slots(which, inputs[1:], number), out)

    def adjoint_timed_value(xp: Any, static: Any, which: Places, wanted: Places, grads: Any) -> Any:
        return adjoint(xp, grads[0], static, slots(which, grads[1:], 4), wanted)

    return value, adjoint_value, timed_value, adjoint_timed_value


def closed_pair(
    name: str,
    parts: tuple[str, ...],
    forward: Callable[..., Any],
    adjoint: Callable[..., Any],
    time_parts: Places,
    by_time: Callable[..., Any],
) -> Pair:
    """Declare a map and its transpose.

    Args:
        name: of the map in labels and graphs; parts: the names of its parts, the control first.
        forward: ``(xp, dt, static, parts, out) -> (p, v, a, j)`` on raw arrays, parts as slots.
        adjoint: ``(xp, dt, static, grads, wanted) -> tuple`` of the gradients by the wanted parts, grads as four slots.
        time_parts: the places whose gradients ``by_time`` needs.
        by_time: ``(dt, static, parts, outputs, grads, by_parts) -> gradient by dt``, all lists of slots; rules' language.
    """
    results = ("p", "v", "a", "j")
    gradients = tuple(f"grad_{part}" for part in parts)

    def rule(g: Any, dt: Any, static: Any, which: Places) -> Any:
        given, grads = present(g)
        return pair.adjoint(dt, static, given, which, grads)

    def adjoint_rule(g: Any, dt: Any, static: Any, which: Places, wanted: Places) -> Any:
        given, inputs = present(g)
        made = pair.forward(dt, static, tuple(wanted[i] for i in given), None, inputs)
        return [made[i] for i in which]

    def timed_rule(g: Any, static: Any, which: Places, inputs: Any, p: Any, v: Any, a: Any, j: Any) -> Any:
        dt = inputs[0]
        given, grads = present(g)
        wanted = tuple(sorted({*which, *time_parts}))
        by_parts = slots(wanted, pair.adjoint_timed(static, given, wanted, [dt, *grads]), len(parts))
        by_dt = by_time(dt, static, slots(which, inputs[1:], len(parts)), (p, v, a, j), g, by_parts)
        return [by_dt, *(by_parts[i] for i in which)]

    def adjoint_timed_rule(g: Any, static: Any, which: Places, wanted: Places, grads: Any) -> Any:
        dt = grads[0]
        given, inputs = present(g)
        places = tuple(wanted[i] for i in given)
        made = pair.forward_timed(static, places, None, [dt, *inputs])
        by_parts = slots(time_parts, pair.adjoint_timed(static, which, time_parts, grads) if time_parts else (), len(parts))
        by_dt = by_time(dt, static, slots(places, inputs, len(parts)), made, slots(which, grads[1:], 4), by_parts)
        return [by_dt, *(made[i] for i in which)]

    value, adjoint_value, timed_value, adjoint_timed_value = _values(forward, adjoint, len(parts))
    pair = Pair(
        _declare(name, "linear", "", "inputs", results, rule, value),
        _declare(name, "linear", "_adjoint", "grads", gradients, adjoint_rule, adjoint_value),
        _declare(name, "other", "_timed", "inputs", results, timed_rule, timed_value),
        _declare(name, "other", "_adjoint_timed", "grads", gradients, adjoint_timed_rule, adjoint_timed_value),
    )
    return pair
