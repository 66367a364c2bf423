"""Many small parameters stepped as one: torch's ``foreach``.

An optimiser's rule works element by element, so it gives the same bits for parameters one after the other and for all of them end to end.
Their values and gradients are joined, the rule runs once, and each parameter is written once: about fifteen calls of NumPy or launches on
a device for all together instead of for each. The state stays joined from step to step; each parameter's state holds views into it.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradlib.backend.array import Array, device_index, namespace, on_device_of
from gradlib.backend.capture import capturing
from gradlib.core.tensor import Tensor, wrap
from gradlib.core.writes import overwrite
from gradlib.optim.fused import step_joined
from gradlib.optim.steps import Plan

State = dict[str, Any]
Update = Callable[[Tensor, Array, dict[str, Any]], None]
Planned = Callable[[dict[str, Any]], Plan | None]
"""What gives the same for kernels, if there are some."""

NUMBERS = frozenset(("eta", "mu", "mu_product", "step"))
"""What states hold once for a whole parameter: Python's numbers, or Tensors where they are kept on the device."""

_CACHED = 1 << 15
"""How many elements are joined on the host."""

SMALL = 4096
"""How many elements parameters have on average for which joining them costs less than it saves."""


class Joined:
    """Parameters of one dtype and device, with states of one kind, end to end.

    Args:
        values: the parameters.
        states: what the optimiser keeps for each of them.
    """

    def __init__(self, values: Sequence[Tensor], states: Sequence[State]) -> None:
        self.values = list(values)
        self.states = list(states)
        self.likes = [(value._array.dtype, value._array.size) for value in values]
        self.ends = np.cumsum([value._array.size for value in values]).tolist()
        self.state: State = {}
        """The state of all."""
        self.given: list[list[tuple[str, Tensor]]] = []
        with on_device_of(values[0]._array):
            for name, item in states[0].items():
                self.state[name] = item if name in NUMBERS else self._joined([state[name]._array for state in states])
            self._give()

    def is_current(self, values: Sequence[Tensor], states: dict[Tensor, State]) -> bool:
        """Whether these are the parameters, as they were, and nobody has put anything else into their states."""
        numbers = [(name, item) for name, item in self.state.items() if name in NUMBERS]
        for value, own, like, state, given in zip(values, self.values, self.likes, self.states, self.given, strict=True):
            if value is not own:
                return False
            array = value._array
            if (array.dtype, array.size) != like or states.get(value) is not state or len(state) != len(self.state):
                return False
            for name, item in given:
                if state.get(name) is not item:
                    return False
            for name, item in numbers:
                held = state.get(name)
                if held is not item and (isinstance(item, Tensor) or held != item):
                    return False
        return True

    def step(self, update: Update, planned: Planned, states: dict[Tensor, State], group: dict[str, Any]) -> None:
        """One step of all."""
        if not isinstance(self.values[0]._array, np.ndarray):
            plan = planned(group)
            after = None if plan is None else step_joined(self.values, self.ends, self.state, self.states, group, plan)
            if after is not None:
                for state in (self.state, *self.states) if after else ():
                    state.update(after)
                return
        all_together = self._joined([value._array for value in self.values])
        gradient = self._joined([_gradient(value) for value in self.values])._array
        states[all_together] = self.state
        before = self.state.copy()
        try:
            update(all_together, gradient, group)
        finally:
            self.state = states.pop(all_together)
        if any(before.get(name) is not item for name, item in self.state.items() if name not in NUMBERS):
            self._give()
        for name in NUMBERS & self.state.keys():
            for state in self.states:
                state[name] = self.state[name]
        for value, piece in zip(self.values, self._pieces(all_together._array), strict=True):
            overwrite(value, piece.reshape(value._array.shape), "an optimiser's step")

    @staticmethod
    def _joined(arrays: Sequence[Array]) -> Tensor:
        return wrap(namespace(arrays[0]).concatenate([array.reshape(-1) for array in arrays]))

    def _pieces(self, array: Array) -> list[Array]:
        """Each parameter's piece of a joined array; of a complex one's state, twice as many real numbers as elements."""
        wide = array.size // max(self.ends[-1], 1) or 1
        return [array[wide * start : wide * end] for start, end in zip([0, *self.ends], self.ends, strict=False)]

    def _give(self) -> None:
        """Put views into the joined state into each parameter's own."""
        self.given = [[] for _ in self.values]
        for name, item in self.state.items():
            if name in NUMBERS:
                continue
            for value, state, given, piece in zip(self.values, self.states, self.given, self._pieces(item._array), strict=True):
                shape = value._array.shape
                if piece.size != value._array.size:
                    shape = (*shape[:-1], 2 * shape[-1]) if shape else (2,)
                state[name] = wrap(piece.reshape(shape))
                given.append((name, state[name]))


def _gradient(value: Tensor) -> Array:
    return value.grad._array  # type: ignore[union-attr]  # those that have none are left out


def wanted(group: dict[str, Any], values: Sequence[Tensor]) -> bool:
    """Whether the parameters of a group are to be stepped as one: as the group says, by default where they are several and small.

    Never where their counts are tensors (capturable): those that are stepped as one share a count, and a step of each by itself, as a graph
    captures it, would count in the shared memory once for each.
    """
    choice = group.get("fused") or group.get("foreach", False)
    if choice is False or len(values) < 2 or capturing.capture is not None or group.get("capturable", False):
        return False
    if len({id(value) for value in values}) < len(values):
        return False
    return bool(choice) or sum([value._array.size for value in values]) <= SMALL * len(values)


def step(
    joined: dict[int, list[Joined]], update: Update, planned: Planned, states: Any, group: dict[str, Any], values: Sequence[Tensor]
) -> None:
    """One step of the parameters of a group, those of one kind as one.

    Args:
        joined: what is kept from step to step, by group; states: the optimiser's ``state``.
        update: its rule; planned: gives the same for kernels that do all of it on a GPU.
        values: the parameters that have a gradient.
    """
    known = joined.get(id(group), [])
    if not _are_current(known, values, states):
        known = joined[id(group)] = [Joined(members, [states[value] for value in members]) for members in _kinds(values, states)]
    for each in known:
        with on_device_of(each.values[0]._array):
            each.step(update, planned, states, group)


def _are_current(known: Sequence[Joined], values: Sequence[Tensor], states: Any) -> bool:
    """Whether what was joined in the last step is the same parameters with the same states."""
    in_order = {id(value): value for value in values}
    if sum([len(each.values) for each in known]) != len(values):
        return False
    return all(each.is_current([in_order.get(id(value)) for value in each.values], states) for each in known)  # type: ignore[misc]


def _kinds(values: Sequence[Tensor], states: Any) -> list[list[Tensor]]:
    """The parameters that are joined: those of one kind, on the host no more than stay in the cache while the rule works on them."""
    kinds: dict[Any, list[list[Tensor]]] = {}
    for value in values:
        array = value._array
        chains = kinds.setdefault(_kind(value, states[value]), [[]])
        if device_index(array) is None and sum([each._array.size for each in chains[-1]]) + array.size > _CACHED and chains[-1]:
            chains.append([])
        chains[-1].append(value)
    return [members for chains in kinds.values() for members in chains]


def _kind(value: Tensor, state: State) -> tuple[Any, ...]:
    """The key that parameters share when they are joined: dtypes, device, the names in their states, and the numbers there."""
    array = value._array
    numbers = [(name, id(item) if isinstance(item, Tensor) else item) for name, item in state.items() if name in NUMBERS]
    return array.dtype, device_index(array), _gradient(value).dtype, tuple(state), tuple(numbers)
