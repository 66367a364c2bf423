"""A level of vmap: an interpreter that runs each operation on logical tensors once, on physical tensors, by its batching rule."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from gradlib.backend.array import on_device_of
from gradlib.core.batched import Batched, VmapLevel
from gradlib.core.declaration import Op
from gradlib.core.modes import as_outside, lower, thread_state, transforming
from gradlib.core.tensor import Tensor
from gradlib.func.gradients import grad_of_batched
from gradlib.func.random import draw
from gradlib.func.rules import one_by_one, perform, rule_of


def _place_of(value: Any) -> Any:
    """A context in which the device of a logical tensor, or of the first one in a list, is current."""
    logical: Any = value if type(value) is Batched else next(x for x in value if type(x) is Batched)
    while type(logical) is Batched:
        logical = logical.value
    return on_device_of(logical._array)


def check_randomness(randomness: Any) -> None:
    if randomness not in ("error", "different", "same"):
        raise RuntimeError(f"Only allowed values for randomness are 'error', 'different', or 'same'. Got {randomness}")


class Level(VmapLevel):
    """One level of vmap.

    Args:
        size: how many examples there are.
        randomness: "error", "same" (one draw for all examples) or "different" (each example its own).
        spreads: see ``VmapLevel``.
        transforms: whether the mapped function is a user's, passed to a transform, rather than a step of the engine.
    """

    def __init__(self, size: int, randomness: str = "error", spreads: bool = True, transforms: bool = True) -> None:
        self.size = size
        self.randomness = randomness
        self.spreads = spreads
        self.outermost = spreads
        self.depth = len(thread_state.interpreters) + (1000 if spreads else 0)
        self.inside = transforming() if transforms else as_outside()

    def __enter__(self) -> Any:
        self.inside.__enter__()
        return super().__enter__()

    def __exit__(self, *exc: object) -> None:
        super().__exit__(*exc)
        self.inside.__exit__()

    def process(self, op: Op, args: tuple[Any, ...]) -> Any:
        """Run an operation by its batching rule if some argument is a logical tensor at this level, else unchanged, outside the level."""
        for position in op.positions:
            value = args[position]
            if type(value) is Batched:
                if value.level is self:
                    break
            elif (type(value) is list or type(value) is tuple) and any(type(x) is Batched and x.level is self for x in value):
                break
        else:
            with lower(self):
                return perform(op, args)
        with lower(self), _place_of(value):  # a rule may allocate arrays
            made = (rule_of(op) or one_by_one)(self, op, args)
        if type(made) is tuple or type(made) is list:
            return tuple(Batched(self, each) for each in made)
        return Batched(self, made)

    def draw(self, function: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Run a function that draws random numbers as ``randomness`` says."""
        return draw(self, function, args, named)

    def gradients(
        self, outputs: tuple[Any, ...], inputs: tuple[Any, ...], cotangents: tuple[Any, ...], retain_graph: bool | None, create_graph: bool
    ) -> tuple[Tensor | None, ...]:
        """``grad`` of arguments whose innermost level is this one: each example gets its own gradient."""
        return grad_of_batched(self, outputs, inputs, cotangents, retain_graph, create_graph)

    def unwrapped(self, value: Any) -> Any:
        """The physical tensor of a logical one; anything else as it is."""
        return value.value if type(value) is Batched and value.level is self else value
