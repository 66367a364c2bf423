"""Steps of many parameters on a GPU in one launch: the whole rule of an optimiser as one kernel over all of them (`gradlib.optim.steps`).

Parameters and gradients stay where they are (`gradlib.backend.several`). With counts on the host the state is joined, as
`gradlib.optim.foreach` keeps it. Where each parameter has its count on the device, as a CUDA graph needs it, or the learning rate is there,
the state of each stays where it is too, and what depends on the count is computed in a launch before. What is not served here is stepped
by the rule itself: parameters that are not contiguous or not of one real dtype, and their first step, which makes the state.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from gradlib.backend.array import cupy, is_cupy, on_device_of
from gradlib.backend.several import CTYPES
from gradlib.core.tensor import Tensor
from gradlib.core.writes import written_all
from gradlib.optim.steps import Plan

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
        return after if not step.held and step_apart(values, states, group, plan, count) else None
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
        for start in range(0, len(values), kernel.most):
            base, some = ends[start - 1] if start else 0, slice(start, start + kernel.most)
            places = [x.data.ptr + base * dtype.itemsize for x in arrays]
            kernel.launch(char, device, pairs[some], [end - base for end in ends[some]], *places, *plan.numbers, *given)
    return {**after, **{name: found[name] for name in step.held}}


def step_apart(values: Sequence[Tensor], states: Sequence[State], group: dict[str, Any], plan: Plan, known: int | None = None) -> bool:
    """Step parameters that each have their state. Returns: whether it could be done; if not, nothing was written.

    Args:
        values: the parameters, which have gradients; states: of each, with counts on the device.
        known: the number of this step for all of them, where it is counted on the host.
    """
    step = plan.step
    if not values or not is_cupy(first := values[0]._array):
        return False
    rate, rows = _rate(group["lr"], first), _rows(values, states, step.state.values(), () if known is not None else step.counters)
    if rate is None or rows is None:
        return False
    arrays, ends, counts, chars = rows
    if known is not None:
        counts = [(0,) * len(step.counters)] * len(values)
    device, kernel = first.data.device_id, step.apart
    with written_all(values), on_device_of(first):
        cupy().cuda.runtime.setDevice(device)  # as above
        factors = type(first)((len(step.taken) * len(values),), first.dtype) if step.is_counted else None
        for start in range(0, len(values), kernel.most):
            some, base = slice(start, start + kernel.most), ends[start - 1] if start else 0
            table, sizes = arrays[some], [end - base for end in ends[some]]
            if factors is None:
                table = [(*row, *count) for row, count in zip(table, counts[some], strict=True)]
                kernel.launch(chars, device, table, sizes, *rate, *plan.options, *plan.numbers)
            else:
                place = factors.data.ptr + len(step.taken) * start * first.dtype.itemsize
                step.counting.launch(chars, device, counts[some], range(1, len(table) + 1), place, *rate, known or 0, *plan.options)
                kernel.launch(chars, device, table, sizes, place, *plan.numbers)
    return True


def _rate(lr: Any, like: Any) -> tuple[float, ...] | None:
    """The learning rate as kernels on the device of an array are given it; None for what they cannot read."""
    if not isinstance(lr, Tensor) or not is_cupy(lr._array):
        return 0, 0, float(lr)
    array = lr._array
    if array.dtype.char not in CTYPES or array.size != 1 or array.data.device_id != like.data.device_id:
        return None
    return (array.data.ptr, 0, 0.0) if array.dtype.char == "f" else (0, array.data.ptr, 0.0)


def _rows(
    values: Sequence[Tensor], states: Sequence[State], names: Collection[str], counters: Collection[str]
) -> tuple[list[tuple[int, ...]], list[int], list[tuple[int, ...]], str] | None:
    """The addresses of parameters, of their gradients and states, and of what is counted for each.

    Args:
        names: of the arrays in the states; counters: of the numbers.
    Returns: the arrays of each parameter, how many elements they have up to and with each, its numbers, and the characters of the dtype of
        both; None where kernels cannot step them: arrays of several dtypes or devices, or with gaps, or two in one place.
    """
    first = values[0]._array
    kind, dtype, device = type(first), first.dtype, first.data.device_id
    arrays, ends, counts, end = [], [], [], 0
    written: list[int] = []
    held = None  # the dtype of the numbers
    for value, state in zip(values, states, strict=True):
        shape, row, numbers = value._array.shape, [], []
        for x in (value, value.grad, *map(state.get, names)):
            if not isinstance(x, Tensor):
                return None
            array = x._array
            if type(array) is not kind or array.dtype is not dtype or array.shape != shape or not array._c_contiguous:
                return None
            row.append(array.data)
        for x in map(state.get, counters):
            if not isinstance(x, Tensor):
                return None
            array = x._array
            held = array.dtype if held is None else held
            if type(array) is not kind or array.dtype is not held or array.size != 1:
                return None
            numbers.append(array.data)
        for data in (*row, *numbers):
            if data.device_id != device:
                return None
        end += value._array.size
        ends.append(end)
        arrays.append(tuple([data.ptr for data in row]))
        counts.append(tuple([data.ptr for data in numbers]))
        if value._array.size:
            written += [arrays[-1][0], *arrays[-1][2:]]
        written += counts[-1]
    chars = dtype.char if held is None else f"{dtype.char}{held.char}"
    are_served = CTYPES.keys() >= set(chars) and end < 1 << 31 and len(set(written)) == len(written)
    return (arrays, ends, counts, chars) if are_served else None
