"""Steps of many parameters on a GPU in one launch: the whole rule of an optimiser as one kernel over all of them (`gradlib.optim.steps`).

Parameters and gradients stay where they are (`gradlib.backend.several`). With counts on the host the state is joined, as
`gradlib.optim.foreach` keeps it. Where each parameter has its count on the device, as a CUDA graph needs it, or the learning rate is there,
the state of each stays where it is too, and what depends on the count is computed in a launch before. What is not served here is stepped
by the rule itself: parameters that are not contiguous or not of one real dtype, and their first step, which makes the state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from gradlib.backend.array import cupy, device_array, is_cupy, on_device_of
from gradlib.backend.several import CTYPES
from gradlib.core.tensor import Tensor
from gradlib.core.writes import written_all
from gradlib.optim.steps import Plan, Step

State = Mapping[str, Any]


def step_joined(
    values: Sequence[Tensor], ends: Sequence[int], state: State, states: Sequence[State], group: dict[str, Any], plan: Plan
) -> dict[str, float] | None:
    """Step parameters with a joined state, on the current device.

    Args:
        values: the parameters, which have gradients; ends: how many elements they have up to and with each.
        state: of all; states: of each, views into that.
    Returns: what numbers of the states become; None if it could not be done, and then nothing was written.
    """
    step, lr = plan.step, group["lr"]
    numbers = [state.get(name) for name in step.counters]
    if state.keys() != step.names or group.get("capturable") or not all(isinstance(each, (int, float)) for each in numbers):
        return None
    count = numbers[0] + 1 if step.counts else 0  # type: ignore[operator]
    after = {"step": count} if step.counts else {}
    if isinstance(lr, Tensor) and is_cupy(lr._array):
        return None if step.held or step_apart(values, states, group, plan, count) else after
    first = values[0]._array
    dtype, device, char = first.dtype, first.data.device_id, first.dtype.char
    arrays = [state[name]._array for name in step.state.values()]
    if char not in CTYPES or not 0 < ends[-1] < 1 << 31 or any(x.dtype is not dtype or not x._c_contiguous for x in arrays):
        return None
    pairs = []
    for value in values:
        p, g = value._array, value.grad._array  # type: ignore[union-attr]
        if g.dtype is not dtype or not p._c_contiguous or not g._c_contiguous or p.shape != g.shape or g.data.device_id != device:
            return None
        pairs.append((p.data.ptr, g.data.ptr))
    found = step.factors(count, float(lr), *plan.options, *numbers[len(numbers) - len(step.held) :])
    kernel, given = step.joined, [float(found[name]) for name in step.taken]
    with written_all(values):
        cupy().cuda.runtime.setDevice(device)  # so that a thread which has not used it yet can launch by the driver's call
        for some, base, sizes in kernel.parts(ends):
            places = [x.data.ptr + base * dtype.itemsize for x in arrays]
            kernel.launch(char, device, pairs[some], sizes, *places, *plan.numbers, *given)
    return {**after, **{name: found[name] for name in step.held}}


def step_apart(
    values: Sequence[Tensor], states: Sequence[State], group: dict[str, Any], plan: Plan, known: int | None = None
) -> list[Tensor]:
    """Step parameters that each have their state: of one dtype and device in one launch, or in two.

    Args:
        values: the parameters, which have gradients; states: of each, with counts on the device.
        known: the number of this step for all of them, where it is counted on the host; then all are stepped, or none.
    Returns: those that could not be, of which nothing was written.
    """
    kinds, left = _by_kind(values, states, plan.step, known is None)
    if known is not None and (left or len(kinds) > 1):
        return list(values)
    for rows in kinds:
        rate = _rate(group["lr"], rows.first)
        if rate is None or not rows.are_apart():
            left += rows.values
        else:
            _launch(rows, rate, plan, known or 0)
    return left


def _launch(rows: _Rows, rate: tuple[float, ...], plan: Plan, known: int) -> None:
    step, kernel, first, chars, device = plan.step, plan.step.apart, rows.first, rows.chars, rows.first.data.device_id
    with written_all(rows.values), on_device_of(first):
        cupy().cuda.runtime.setDevice(device)  # as above
        factors = type(first)((len(step.taken) * len(rows.values),), first.dtype) if step.is_counted else None
        for some, _, sizes in kernel.parts(rows.ends):
            table, counts = rows.arrays[some], rows.counts[some]
            if factors is None:
                table = [(*row, *count) for row, count in zip(table, counts, strict=True)]
                kernel.launch(chars, device, table, sizes, *rate, *plan.options, *plan.numbers)
            else:
                place = factors.data.ptr + len(step.taken) * some.start * first.dtype.itemsize
                step.counting.launch(chars, device, counts, range(1, len(table) + 1), place, *rate, known, *plan.options)
                kernel.launch(chars, device, table, sizes, place, *plan.numbers)


def _rate(lr: Any, like: Any) -> tuple[float, ...] | None:
    """The learning rate as kernels on the device of an array are given it; None for what they cannot read."""
    if not isinstance(lr, Tensor) or not is_cupy(lr._array):
        return 0, 0, float(lr)
    array = lr._array
    if array.dtype.char not in CTYPES or array.size != 1 or array.data.device_id != like.data.device_id:
        return None
    return (array.data.ptr, 0, 0.0) if array.dtype.char == "f" else (0, array.data.ptr, 0.0)


class _Rows:
    """Parameters of one dtype and device, as kernels are told of them.

    Attributes:
        first: an array of theirs. chars: the characters of the dtype, and of that of the numbers in the states, if there are some.
        values: the parameters. arrays: by parameter, the addresses of it, its gradient and its state; counts: of its numbers.
        ends: how many elements they have up to and with each.
    """

    def __init__(self, first: Any, chars: str) -> None:
        self.first, self.chars = first, chars
        self.values: list[Tensor] = []
        self.arrays: list[tuple[int, ...]] = []
        self.counts: list[tuple[int, ...]] = []
        self.ends: list[int] = []

    def are_apart(self) -> bool:
        """Whether the elements can be numbered, and no two of what is written begin at one place."""
        written = [place for count in self.counts for place in count if place]
        for value, row in zip(self.values, self.arrays, strict=True):
            if value._array.size:
                written += [row[0], *row[2:]]
        return self.ends[-1] < 1 << 31 and len(set(written)) == len(written)


def _by_kind(values: Sequence[Tensor], states: Sequence[State], step: Step, counted: bool) -> tuple[list[_Rows], list[Tensor]]:
    """Parameters that kernels can step, by dtype and device, and the others. ``counted``: whether their counts are on the device."""
    kinds: dict[tuple[str, int], _Rows] = {}
    left, library = [], device_array()
    names = (*step.state.values(), *(step.counters if counted else ()))
    width, whole = 2 + len(step.state), 2 + len(names)
    unknown = () if counted else (0,) * len(step.counters)
    for value, state in zip(values, states, strict=True):
        first, places = value._array, []
        if type(first) is library:
            dtype, shape, device = first.dtype, first.shape, first.data.device_id
            for at, item in enumerate((value, value.grad, *map(state.get, names))):
                if not isinstance(item, Tensor):
                    break
                array = item._array
                if at == width and type(array) is library:
                    dtype, shape = array.dtype, ()  # of the numbers
                if type(array) is not library or array.dtype is not dtype or array.shape != shape or not array._c_contiguous:
                    break
                if dtype.char not in CTYPES or (data := array.data).device_id != device:
                    break
                places.append(data.ptr)
        if len(places) < whole:
            left.append(value)
            continue
        key = first.dtype.char + (dtype.char if whole > width else ""), device
        if (rows := kinds.get(key)) is None:
            rows = kinds[key] = _Rows(first, key[0])
        rows.values.append(value)
        rows.arrays.append(tuple(places[:width]))
        rows.counts.append(unknown or tuple(places[width:]))
        rows.ends.append(first.size + (rows.ends[-1] if rows.ends else 0))
    return list(kinds.values()), left
