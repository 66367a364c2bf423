"""A linear map and its transpose as differentiable operations, each the other's derivative.

Every trajectory map F gives p, v, a, j, is linear in its parts (control, start, ...) and depends on dt besides. `AdjointPair` declares F
and its transpose. With respect to the parts the derivative of F is the transpose and that of the transpose is F, so double backward, to any
order, needs no further kernel. The derivative of both by dt is one formula, ``by_time``, written with F, its transpose and pointwise
operations, hence differentiable again; what it alone needs is kept only where dt wants a gradient.

Parts, gradients and results travel as lists in which None counts as zero and costs nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

from gradlib.core.compile import named
from gradlib.core.declaration import Joint
from gradlib.core.op import op

_RESULTS = ("p", "v", "a", "j")


class AdjointPair:
    """The two operations of a map, under every public name that calls them.

    Both take ``(dt, options, sources, ...)``. ``options`` says what selects the kernel and where things lie; its ``name`` is the public
    function's, by which profiles, nodes and errors know the operation; its ``rows`` are the `StartRows` that start parts are chosen by,
    or None: ``by_time`` gets a row for each trajectory. ``sources``: the parts go on with the map's sources, which only
    the derivative by dt needs; maps without any ignore it.

    Args:
        name: of the map among the operations; parts: the names of its parts, the control first, the sources last.
        forward: ``(xp, dt, options, sources, buffers, parts) -> (p, v, a, j)`` on raw arrays, into the buffers where given.
        adjoint: ``(xp, dt, options, sources, grads) -> gradients by the parts``, all of them; grads are four.
        by_time: ``(dt, options, parts, results, grads, by_parts) -> gradient by dt``, in the language of rules.
    """

    def __init__(
        self, name: str, parts: tuple[str, ...], forward: Callable[..., Any], adjoint: Callable[..., Any], by_time: Callable[..., Any]
    ) -> None:
        def rule(g: Any, dt: Any, options: Any, sources: bool, parts: Any, p: Any, v: Any, a: Any, j: Any) -> Any:
            transpose = self.adjoint(options.name)
            if p is None:
                return [None, *transpose(dt, options, sources, g)]
            chosen = options.rows
            if chosen is not None:
                options, parts = options._replace(rows=None), chosen.gathered(parts)
            by_parts = transpose(dt, options, True, g)
            by_dt, made = by_time(dt, options, parts, (p, v, a, j), g, by_parts), by_parts[: len(parts)]
            return [by_dt, *(made if chosen is None else chosen.scattered(made))]

        def adjoint_rule(g: Any, dt: Any, options: Any, sources: bool, grads: Any) -> Any:
            made = self.forward(options.name)(dt, options, sources, None, g)
            if not grads:
                return [None, *made]
            if options.rows is not None:
                options, g = options._replace(rows=None), options.rows.gathered(g)
            by_parts = self.adjoint(options.name)(dt, options, True, grads)
            return [by_time(dt, options, g, made, grads, by_parts), *made]

        self._forward = op(
            "linear", name=name, method=False, complex="none", sequence="parts", outputs=_RESULTS,
            dt=Joint(needs=("parts", *_RESULTS)), parts=rule,
        )(forward)  # fmt: skip
        self._adjoint = op(
            "linear", name=f"{name}_adjoint", method=False, complex="none", sequence="grads", outputs=[f"grad_{part}" for part in parts],
            dt=Joint(needs=("grads",)), grads=adjoint_rule,
        )(adjoint)  # fmt: skip
        self.forward = cache(lambda name: named(self._forward, name))
        self.adjoint = cache(lambda name: named(self._adjoint, f"{name}_adjoint"))
