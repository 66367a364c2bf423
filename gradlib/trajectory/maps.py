"""The chain as differentiable operations: a linear map and its transpose, each the other's derivative.

`chain` maps (control, start, sources) to (p, v, a, j); `chain_adjoint` is its transpose. Both are linear, so double backward, and any
order, needs these two only. Their derivative by dt is a product of theirs: with L the gradients by the sources, both have
``sum over joints of L_p v + L_v a + L_a j``, where (v, a, j) is what `chain` gives. The ``_timed`` forms have that rule; the plain ones
take dt as a constant, keep nothing else for backward, and never compute L.

Parts travel as a list with a tuple that says which they are, because a missing part is zero and costs nothing.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradlib.backend.array import Array
from gradlib.core.op import op
from gradlib.trajectory import chain as host, kernels as device

CONTROL, SOURCES, PARTS = 0, (4, 5, 6), 7  # places: control, start position, velocity, acceleration, then the three sources
Static = tuple[int, bool, tuple[int, ...], bool]  # order, exact, shape of the control, whether time is the last axis


def _slots(which: tuple[int, ...], values: Any, number: int) -> list[Any]:
    """The values at their places in a list of ``number``, None elsewhere."""
    slots: list[Any] = [None] * number
    for place, value in zip(which, values, strict=True):
        slots[place] = value
    return slots


def _rows(xp: Any, array: Array | None, static: Static) -> Array | None:
    """A large array as (series, H, joints); with time last every joint is a trajectory of its own."""
    shape, time_last = static[2], static[3]
    if array is None or not time_last:
        return array
    return array.reshape(shape[0] * shape[1], shape[2], 1)


def _start(xp: Any, array: Array | None, static: Static) -> Array | None:
    """A start part as one row for each series."""
    shape, time_last = static[2], static[3]
    if array is None:
        return None
    batch, joints = (shape[0], shape[1]) if time_last else (shape[0], shape[2])
    full = xp.broadcast_to(array, (batch, joints))
    return full.reshape(batch * joints, 1) if time_last else full


def _step_times(xp: Any, dt: Any, static: Static) -> Array:
    """dt as (1 or B, 1 or H); for arrays with time last on the host, one row for each series."""
    times = xp.asarray(dt)
    times = times.reshape((1,) * (2 - times.ndim) + times.shape)
    if xp is np and static[3] and len(times) > 1:
        times = np.repeat(times, static[2][1], axis=0)
    return times


def _chain_value(xp: Any, dt: Any, static: Static, which: tuple[int, ...], out: Any, parts: Any) -> tuple[Array, ...]:
    order, exact, shape, time_last = static
    slots = _slots(which, parts, PARTS)
    if slots[CONTROL] is None:
        slots[CONTROL] = xp.zeros(shape, parts[0].dtype)
    control = _rows(xp, slots[CONTROL], static)
    start = [_start(xp, x, static) for x in slots[1:4]]
    sources = [_rows(xp, x, static) for x in slots[4:]] if any(x is not None for x in slots[4:]) else None
    times = _step_times(xp, dt, static)
    if xp is np:
        targets = None if out is None else [_rows(xp, x, static) for x in out]
        made = host.forward(control, start, times, order, exact, sources, targets)
    else:
        made = device.chain_forward(xp, control, start, times, order, exact, sources, out, shape[1] if time_last else 1)
    return tuple(out) if out is not None else tuple(x.reshape(shape) for x in made)


def _adjoint_value(xp: Any, dt: Any, static: Static, which: tuple[int, ...], wanted: tuple[int, ...], grads: Any) -> tuple[Array, ...]:
    order, exact, shape, time_last = static
    slots = [_rows(xp, x, static) for x in _slots(which, grads, 4)]
    times = _step_times(xp, dt, static)
    with_sources = any(place in SOURCES for place in wanted)
    if xp is np:
        rows = next(x.shape for x in slots if x is not None)
        made = host.adjoint(slots, times, rows, order, exact, with_sources)
    else:
        made = device.chain_adjoint(xp, slots, times, order, exact, with_sources, shape[1] if time_last else 1)
    batch, joints = (shape[0], shape[1]) if time_last else (shape[0], shape[2])
    return tuple(made[i].reshape((batch, joints) if 1 <= i <= 3 else shape) for i in wanted)


def _present(values: Any) -> tuple[tuple[int, ...], list[Any]]:
    which = tuple(i for i, x in enumerate(values) if x is not None)
    return which, [values[i] for i in which]


def _by_time(sources: Any, derivatives: Any, static: Static) -> Any:
    """sum over joints of L_p v + L_v a + L_a j: the gradient by dt, (B, H)."""
    total = sources[0] * derivatives[0] + sources[1] * derivatives[1] + sources[2] * derivatives[2]
    return total.sum(1 if static[3] else 2)


def _chain_rule(g: Any, dt: Any, static: Static, which: tuple[int, ...]) -> Any:
    given, grads = _present(g)
    return chain_adjoint(dt, static, given, which, grads)


def _chain_timed_rule(g: Any, static: Static, which: tuple[int, ...], parts: Any, v: Any, a: Any, j: Any) -> Any:
    given, grads = _present(g)
    wanted = tuple(sorted({*which, *SOURCES}))
    made = dict(zip(wanted, chain_adjoint_timed(static, given, wanted, [parts[0], *grads]), strict=True))
    return [_by_time([made[i] for i in SOURCES], (v, a, j), static), *(made[i] for i in which)]


def _adjoint_rule(g: Any, dt: Any, static: Static, which: tuple[int, ...], wanted: tuple[int, ...]) -> Any:
    given, parts = _present(g)
    made = chain(dt, static, tuple(wanted[i] for i in given), None, parts)
    return [made[i] for i in which]


def _adjoint_timed_rule(g: Any, static: Static, which: tuple[int, ...], wanted: tuple[int, ...], grads: Any) -> Any:
    given, parts = _present(g)
    made = chain_timed(static, tuple(wanted[i] for i in given), None, [grads[0], *parts])
    sources = chain_adjoint_timed(static, which, SOURCES, grads)
    return [_by_time(sources, made[1:], static), *(made[i] for i in which)]


_CHAIN = ("p", "v", "a", "j")
_ADJOINT = ("grad_u", "grad_start_p", "grad_start_v", "grad_start_a", "grad_source_p", "grad_source_v", "grad_source_a")


@op("linear", name="trajectory_chain", also=("dt",), sequence="parts", outputs=_CHAIN, method=False, complex="none", parts=_chain_rule)
def chain(xp: Any, dt: Any, static: Static, which: tuple[int, ...], out: Any, parts: Any) -> Any:
    """p, v, a, j of a control, with dt a constant. ``which`` gives the place of each part; ``out`` is None or four arrays to fill."""
    return _chain_value(xp, dt, static, which, out, parts)


@op("linear", name="trajectory_chain_adjoint", also=("dt",), sequence="grads", outputs=_ADJOINT, method=False, complex="none", grads=_adjoint_rule)
def chain_adjoint(xp: Any, dt: Any, static: Static, which: tuple[int, ...], wanted: tuple[int, ...], grads: Any) -> Any:
    """The transpose of `chain`: the gradients by the wanted parts from those by p, v, a, j (places in ``which``)."""
    return _adjoint_value(xp, dt, static, which, wanted, grads)


@op("other", name="trajectory_chain_timed", sequence="parts", outputs=_CHAIN, method=False, complex="none", parts=_chain_timed_rule)
def chain_timed(xp: Any, static: Static, which: tuple[int, ...], out: Any, parts: Any) -> Any:
    """`chain` with dt, the first of the parts, as a differentiable input; ``which`` speaks of the others."""
    return _chain_value(xp, parts[0], static, which, out, parts[1:])


@op("other", name="trajectory_chain_adjoint_timed", sequence="grads", outputs=_ADJOINT, method=False, complex="none", grads=_adjoint_timed_rule)
def chain_adjoint_timed(xp: Any, static: Static, which: tuple[int, ...], wanted: tuple[int, ...], grads: Any) -> Any:
    """`chain_adjoint` with dt, the first of the gradients' list, as a differentiable input."""
    return _adjoint_value(xp, grads[0], static, which, wanted, grads[1:])
