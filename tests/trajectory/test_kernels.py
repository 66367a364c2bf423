"""The CUDA kernels against the NumPy forms: real sources, real launches (`*_device.*_call`).

Without a GPU they run on hostcuda, where the address and undefined-behaviour sanitizers see every access; one of each also through the
shim, with a thread for each thread, where the thread sanitizer sees a missing barrier.
"""

from __future__ import annotations

import math
from dataclasses import replace
from itertools import product
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest

from gradlib.trajectory import (
    bspline as bspline_map,
    bspline_device,
    bspline_host as bspline,
    central_device,
    central_host as central,
    chain_device,
    chain_host as chain,
    cost_device,
    cost_host,
    smoothness_device,
    smoothness_host as smoothness,
    start_rows_device,
    tiles,
)
from gradlib.trajectory.bspline import BsplineOptions
from gradlib.trajectory.cost_terms import PATH, TIME, Term, lay
from gradlib.trajectory.kernel_options import VARIANTS
from gradlib.trajectory.planning import lbfgs, lbfgs_device
from gradlib.trajectory.start_rows import rows_adjoint
from tests import shim
from tests.trajectory import oracle

pytestmark = [pytest.mark.host, pytest.mark.slow]  # what runs the launches is a parameter of its own
STORAGE = ["float32", "float64", "float16", "bfloat16"]
TOLERANCE = {"float32": 2e-5, "float64": 1e-12, "float16": 2e-2, "bfloat16": 1e-1}
LONG = "long long"


class Shim:
    """Runs launches on the CPU, each thread of a block as a thread of the host, under the thread sanitizer."""

    xp = np

    def put(self, array: Any) -> Any:
        return array

    host = put

    def run(self, call: Any) -> None:
        assert call.options in VARIANTS[call.source]
        shim.execute(call)


class Gpu:
    """Runs launches on "cuda"."""

    @property
    def xp(self) -> Any:
        import cupy

        return cupy

    def put(self, array: Any) -> Any:
        return None if array is None else self.xp.asarray(array)

    def host(self, array: Any) -> Any:
        return None if array is None else self.xp.asnumpy(array)

    def run(self, call: Any) -> None:
        from gradlib.cuda.launch import launch

        assert call.options in VARIANTS[call.source]
        launch(call)


@pytest.fixture(params=[pytest.param("gpu", marks=pytest.mark.cuda)])
def executor():
    return Gpu()


@pytest.fixture
def as_on_an_h100(monkeypatch):
    """What decides the tiles."""
    monkeypatch.setattr(tiles, "machine_of", lambda device: tiles.H100)


@pytest.fixture(autouse=True)
def one_multiprocessor(monkeypatch, request):
    """Blocks of many trajectories and short chunks also for the small arrays of these tests."""
    if "as_on_an_h100" in request.fixturenames:
        yield
        return
    monkeypatch.setattr(tiles, "machine_of", lambda device: tiles.Machine(1, tiles._SHARED + 2048, tiles._SHARED))
    tiles.tile_sizes.cache_clear()
    tiles._plan.cache_clear()
    yield
    tiles.tile_sizes.cache_clear()
    tiles._plan.cache_clear()


@pytest.fixture
def in_tiles(monkeypatch):
    """No adjoint with a thread for each element, also of small batches."""
    monkeypatch.setattr(tiles, "_adjoint_elements", lambda *facts: None)


def storage_type(name: str) -> Any:
    return pytest.importorskip("ml_dtypes").bfloat16 if name == "bfloat16" else np.dtype(name)


def draw(rng: Any, shape: tuple[int, ...], dtype: Any) -> Any:
    return rng.standard_normal(shape).astype(dtype)


def poisoned(shape: tuple[int, ...], dtype: Any) -> Any:
    """What a kernel must overwrite: NaN shows an element that was not written."""
    return np.full(shape, np.nan, dtype)


def with_index(call: Any, index: str) -> Any:
    """The call with another index type."""
    return replace(call, options=tuple((n, index if n == "INDEX" else v) for n, v in call.options))


def close(found: Any, expected: Any, storage: str) -> None:
    wide, right = np.asarray(found).astype(np.float64), np.asarray(expected).astype(np.float64)
    assert wide.shape == right.shape
    scale = max(1.0, np.abs(right).max(initial=0))
    np.testing.assert_allclose(wide, right, rtol=TOLERANCE[storage], atol=TOLERANCE[storage] * scale)


SHAPES = {
    "aligned": (5, 32, 8),
    "seven joints": (20, 33, 7),  # more series than a block has threads; rows that are not whole vectors
    "aligned chunks": (20, 40, 8),
    "chunks": (2, 75, 7),
    "many joints": (2, 9, 130),  # more joints than a block has threads
    "two steps": (3, 2, 1),
}


def run_chain(executor, rng, storage, order, exact, sources, shape, kind, index="int", group=1):
    dtype = storage_type(storage)
    batch, horizon, joints = shape
    u, start = draw(rng, shape, dtype), [draw(rng, (batch, joints), dtype) for _ in range(3)]
    extra = [draw(rng, shape, dtype) for _ in range(3)] if sources else None
    dt = oracle.step_times(rng, kind, batch, horizon)
    dt[..., 0] = dt[..., 0] if dt.shape[1] == 1 else np.nan
    put = executor.put
    out = [put(poisoned(shape, dtype)) for _ in range(4)]
    given = (put(u), [put(x) for x in start], put(dt), order, exact, extra and [put(x) for x in extra], out, group)
    executor.run(with_index(chain_device.forward_call(executor.xp, *given), index))
    for found, expected in zip(out, chain.forward(u, start, dt, order, exact, extra), strict=True):
        close(executor.host(found), expected, storage)
    grads = [draw(rng, shape, dtype) for _ in range(4)]
    made = [put(poisoned(shape, dtype)), *(put(poisoned((batch, joints), dtype)) for _ in range(3))]
    made += [put(poisoned(shape, dtype)) for _ in range(3)] if sources else [None] * 3
    executor.run(with_index(chain_device.adjoint_call(executor.xp, [put(g) for g in grads], put(dt), order, exact, made, group), index))
    for found, expected in zip(made, chain.adjoint(grads, dt, shape, order, exact, sources), strict=False):
        close(executor.host(found), expected, storage)


@pytest.mark.parametrize("sources", [False, True])
@pytest.mark.parametrize("storage", STORAGE)
@pytest.mark.parametrize(("order", "exact"), oracle.CHAINS)
def test_chain_in_every_variant(executor, rng, storage, order, exact, sources):
    """Of position control the adjoint of few elements has a thread for each, of more a tile."""
    for batch in (5, 20) if order == 0 else (5,):
        run_chain(executor, rng, storage, order, exact, sources, (batch, 9, 7), "both")


@pytest.mark.parametrize("kind", oracle.DT_SHAPES)
@pytest.mark.parametrize("shape", SHAPES.values(), ids=SHAPES)
@pytest.mark.parametrize("storage", STORAGE[:3])
def test_chain_in_every_shape(executor, rng, storage, shape, kind):
    run_chain(executor, rng, storage, 2, False, True, shape, kind)


@pytest.mark.parametrize("storage", STORAGE)
def test_chain_with_long_indices(executor, rng, storage):
    run_chain(executor, rng, storage, 2, False, True, (3, 20, 7), "both", index=LONG)


@pytest.mark.parametrize("shape", [(6, 16, 8), (6, 15, 7)], ids=["aligned", "ragged"])
@pytest.mark.parametrize(("order", "exact"), [x for x in oracle.CHAINS if x[0]])
def test_chain_repeats_bit_for_bit_whatever_is_aligned(executor, rng, order, exact, shape):
    """16-byte and single-element copies give the same bits, also where trajectories begin between two multiples of 16 bytes."""
    u, dt = draw(rng, shape, np.float32), np.full((1, 1), 0.3)
    results = []
    for shift, shift_out in ((0, 0), (1, 0), (0, 1)):
        rooms = [executor.put(np.zeros(u.size + 1, np.float32)) for _ in range(5)]
        given, *out = (room[k : k + u.size].reshape(shape) for room, k in zip(rooms, (shift, *[shift_out] * 4), strict=True))
        given[...] = executor.put(u)
        call = chain_device.forward_call(executor.xp, given, (None, None, None), executor.put(dt), order, exact, None, out, 1)
        assert (call.args[-2] == 4) == all(tiles.address(x) % 16 == 0 for x in (given, *out))
        executor.run(call)
        results.append(np.stack([executor.host(x) for x in out]))
    np.testing.assert_array_equal(results[1:], [results[0]] * 2)


def test_bfloat16_rounds_to_even_and_keeps_nan(executor):
    """Also the NaN whose bits are all set, which is what a GPU makes."""
    dtype, put = storage_type("bfloat16"), executor.put
    u = np.broadcast_to(np.array([[2.0**-8], [3 * 2.0**-8], [0]]), (2, 3, 1)).astype(dtype)
    dt = np.array([[0x3F800000], [0x7FFFFFFF]], np.uint32).view(np.float32)
    out = [put(poisoned(u.shape, dtype)) for _ in range(4)]
    start = [put(np.ones((2, 1), dtype)), None, None]
    executor.run(chain_device.forward_call(executor.xp, put(u), start, put(dt), 1, False, None, out, 1))
    found = executor.host(out[0]).astype(np.float64)[..., 0]
    np.testing.assert_array_equal(found, [[1, 1, 1.015625], [1, np.nan, np.nan]])


@pytest.mark.parametrize("missing", range(4))
def test_chain_adjoint_with_absent_gradients(executor, rng, missing):
    shape, dt = (3, 9, 7), np.full((1, 1), 0.3)
    grads = [draw(rng, shape, np.float32) for _ in range(4)]
    grads[missing] = None
    for order in (0, 3):
        made = [
            executor.put(poisoned(shape, np.float32)),
            *(executor.put(poisoned((3, 7), np.float32)) for _ in range(3)),
            None,
            None,
            None,
        ]
        executor.run(
            chain_device.adjoint_call(
                executor.xp, [executor.put(g) if g is not None else None for g in grads], executor.put(dt), order, False, made, 1
            )
        )
        for found, expected in zip(made, chain.adjoint(grads, dt, shape, order), strict=False):
            close(executor.host(found), expected, "float32")


@pytest.mark.parametrize("kind", oracle.DT_SHAPES)
def test_chain_with_time_last(executor, rng, kind):
    """(B, D, H) arrays are B * D series, of which D share a dt."""
    batch, horizon, joints = 3, 20, 5
    u, start = draw(rng, (batch, horizon, joints), np.float64), [draw(rng, (batch, joints), np.float64) for _ in range(3)]
    dt = oracle.step_times(rng, kind, batch, horizon)
    series, put = (batch * joints, horizon, 1), executor.put
    out = [put(poisoned(series, np.float64)) for _ in range(4)]
    begin = [put(x.reshape(-1, 1)) for x in start]
    executor.run(chain_device.forward_call(executor.xp, put(as_series(u)), begin, put(dt), 3, True, None, out, joints))
    for found, expected in zip(out, chain.forward(u, start, dt, 3, True), strict=True):
        close(from_series(executor.host(found), u.shape), expected, "float64")
    grads = [draw(rng, u.shape, np.float64) for _ in range(4)]
    made = [put(poisoned(series, np.float64)), *(put(poisoned((batch * joints, 1), np.float64)) for _ in range(3)), None, None, None]
    executor.run(chain_device.adjoint_call(executor.xp, [put(as_series(g)) for g in grads], put(dt), 3, True, made, joints))
    by_u, *by_start = chain.adjoint(grads, dt, u.shape, 3, True)
    close(from_series(executor.host(made[0]), u.shape), by_u, "float64")
    for found, expected in zip(made[1:4], by_start, strict=True):
        close(executor.host(found).reshape(batch, joints), expected, "float64")


def as_series(array: Any) -> Any:
    """(B, H, D) as the kernels take it with time last: B * D series of one joint."""
    return np.ascontiguousarray(array.swapaxes(1, 2)).reshape(-1, array.shape[1], 1)


def from_series(array: Any, shape: tuple[int, ...]) -> Any:
    """The reverse."""
    batch, _, joints = shape
    return array.reshape(batch, joints, -1).swapaxes(1, 2)


def laid_out(time_last: bool, joints: int) -> tuple[Any, Any, Any, int]:
    """What brings large arrays and start rows into a layout, what brings results back, and the group."""
    if time_last:
        return as_series, lambda x: x.reshape(-1, 1), from_series, joints
    return lambda x: x, lambda x: x, lambda x, shape: x, 1


CENTRAL_SHAPES = {**{name: shape for name, shape in SHAPES.items() if name != "two steps"}, "shortest": (3, 6, 2)}


@pytest.mark.parametrize(("with_goal", "time_last"), [(False, False), (True, False), (True, True)])
@pytest.mark.parametrize("shape", CENTRAL_SHAPES.values(), ids=CENTRAL_SHAPES)
@pytest.mark.parametrize("storage", STORAGE)
def test_central(executor, rng, storage, shape, with_goal, time_last):
    run_central(executor, rng, storage, "int", shape, with_goal, time_last)


@pytest.mark.parametrize("storage", STORAGE)
def test_central_with_long_indices(executor, rng, storage):
    for batch in (3, 20):  # a thread for each element of the adjoint, and tiles
        run_central(executor, rng, storage, LONG, (batch, 20, 7), True, False)


@pytest.mark.parametrize("missing", range(4))
def test_central_adjoint_with_absent_gradients(executor, rng, missing):
    shape, dt, put = (3, 9, 7), np.full((1, 1), 0.7), executor.put
    grads = [None if i == missing else draw(rng, shape, np.float32) for i in range(4)]
    made = [put(poisoned(shape, np.float32)), *(put(poisoned((3, 7), np.float32)) for _ in range(4))]
    executor.run(central_device.adjoint_call(executor.xp, [put(g) for g in grads], put(dt), made, False, 1))
    for found, expected in zip(made, central.adjoint(grads, dt, shape, False), strict=True):
        close(executor.host(found), expected, "float32")


def run_central(executor, rng, storage, index, shape, with_goal, time_last, numbers=False):
    dtype, put = storage_type(storage), executor.put
    large, rows, back, group = laid_out(time_last, shape[2])
    u, start = draw(rng, shape, dtype), [draw(rng, shape[::2], dtype) for _ in range(3)]
    goal = draw(rng, shape[::2], dtype) if with_goal else None
    dt = rng.uniform(0.8, 1.5, (shape[0], 1))
    if numbers:
        dt[:] = dt[0]
    given = dt[0, 0] if numbers else put(dt)
    out = [put(poisoned(large(u).shape, dtype)) for _ in range(4)]
    begin, end = [put(rows(x)) for x in start], put(rows(goal)) if with_goal else None
    executor.run(with_index(central_device.forward_call(executor.xp, put(large(u)), begin, end, given, out, group), index))
    for found, expected in zip(out, central.forward(u, start, goal, dt), strict=True):
        close(back(executor.host(found), shape), expected, storage)
    grads = [draw(rng, shape, dtype) for _ in range(4)]
    made = [put(poisoned(large(u).shape, dtype)), *(put(poisoned(rows(start[0]).shape, dtype)) for _ in range(4))]
    call = central_device.adjoint_call(executor.xp, [put(large(g)) for g in grads], given, made, with_goal, group)
    executor.run(with_index(call, index))
    found = [executor.host(x) for x in made]
    expected = central.adjoint(grads, dt, shape, with_goal)
    close(back(found[0], shape), expected[0], storage)
    for value, right in zip(found[1:], expected[1:], strict=True):
        close(value.reshape(right.shape), right, storage)


BSPLINES = {
    "aligned": (5, 3, 8),
    "seven joints": (20, 4, 7),
    "aligned chunks": (20, 8, 8),
    "one sample": (2, 1, 5),
    "chunks": (2, 25, 7),
    "many joints": (2, 2, 130),
}
"""Trajectories, samples of a segment, joints."""


@pytest.mark.parametrize(("degree", "time_last"), [(3, False), (4, True), (5, False)])
@pytest.mark.parametrize("sizes", BSPLINES.values(), ids=BSPLINES)
@pytest.mark.parametrize("storage", STORAGE)
def test_bspline(executor, rng, storage, sizes, degree, time_last):
    run_bspline(executor, rng, storage, "int", sizes, degree, time_last)


@pytest.mark.parametrize("degree", bspline.DEGREES)
@pytest.mark.parametrize("storage", STORAGE)
def test_bspline_with_long_indices(executor, rng, storage, degree):
    run_bspline(executor, rng, storage, LONG, (3, 3, 7), degree, False)


def run_bspline(executor, rng, storage, index, sizes, degree, time_last, has_goal=True):
    """Start and goal of which one part is zero and one the same for all, or a start alone."""
    batch, samples, joints = sizes
    dtype, put, shape = storage_type(storage), executor.put, (batch, (6 if has_goal else degree + 6), joints)
    large, row, back, group = laid_out(time_last, joints)
    knots, dt = draw(rng, shape, dtype), rng.uniform(0.8, 1.5, (batch, 1)) / samples
    ends = [draw(rng, (batch, joints), dtype) for _ in range(8 if has_goal else 4)]
    ends[2], ends[1] = None, draw(rng, (joints,), dtype)
    options = BsplineOptions("step_bspline", degree, samples, has_goal, shape, False)
    real = np.float64 if storage == "float64" else np.float32
    wide = [None if x is None else x.astype(real) for x in (knots, *ends)]
    expected = bspline_map._forward(np, dt, options, False, None, wide)
    given = [None if x is None else put(row(x) if x.ndim == 2 else x) for x in ends] + [None] * (8 - len(ends))
    out = [put(poisoned(large(expected[0]).shape, dtype)) for _ in range(4)]
    call = bspline_device.forward_call(executor.xp, put(large(knots)), given, has_goal, put(dt), out, degree, samples, group)
    executor.run(with_index(call, index))
    for found, value in zip(out, expected, strict=True):
        close(back(executor.host(found), shape), value, storage)
    grads = [draw(rng, expected[0].shape, dtype) for _ in range(4)]
    made = [put(poisoned(large(knots).shape, dtype)), *(put(poisoned(row(ends[0]).shape, dtype)) for _ in ends)]
    made += [None] * (9 - len(made))
    call = bspline_device.adjoint_call(executor.xp, [put(large(g)) for g in grads], put(dt), made, has_goal, degree, samples, group)
    executor.run(with_index(call, index))
    right = bspline_map._adjoint(np, dt, options, False, [g.astype(real) for g in grads])
    close(back(executor.host(made[0]), shape), right[0], storage)
    for found, value in zip(made[1:], right[1:], strict=False):
        close(executor.host(found).reshape(batch, joints), value, storage)


def test_bspline_adjoint_with_absent_gradients(executor, rng):
    grad, dt = draw(rng, (3, 13, 7), np.float64), np.full((1, 1), 0.7)
    for k in range(4):
        grads = [executor.put(grad) if i == k else None for i in range(4)]
        made = [executor.put(poisoned((3, 4, 7), np.float64)), *[None] * 8]
        executor.run(bspline_device.adjoint_call(executor.xp, grads, executor.put(dt), made, False, 3, 3, 1))
        by_points = bspline.adjoint([grad if i == k else None for i in range(4)], dt, (3, 7, 7), 3, 3)
        close(executor.host(made[0]), by_points[:, 3:], "float64")


@pytest.mark.parametrize("index", ["int", LONG])
@pytest.mark.parametrize("storage", STORAGE)
@pytest.mark.parametrize(("number", "entries", "joints"), [(5, 300, 7), (1, 900, 7), (3, 40, 1), (2, 5, 130)])
def test_rows(executor, rng, storage, index, number, entries, joints):
    dtype, put = storage_type(storage), executor.put
    values, chosen = draw(rng, (number, joints), dtype), rng.integers(0, number, entries)
    chosen[chosen == 3] = 4  # a row that nothing chooses
    for changed in ({}, {"grid": (1, 1)}):  # one block walks over all elements
        out = put(poisoned((entries, joints), dtype))
        gather = with_index(start_rows_device.gather_call(executor.xp, put(values), put(chosen), out), index)
        executor.run(replace(gather, **changed))
        np.testing.assert_array_equal(executor.host(out).astype(np.float64), values[chosen].astype(np.float64))
    grads = draw(rng, (2, entries, joints), dtype)
    parts, real = start_rows_device.scatter_parts(number, entries), np.float64 if storage == "float64" else np.float32
    partial = put(poisoned((2, number, parts, joints), real))
    order = np.argsort(chosen, kind="stable")
    bounds = np.searchsorted(chosen[order], np.arange(number + 1))
    executor.run(with_index(start_rows_device.scatter_call(executor.xp, put(grads), put(order), put(bounds), partial), index))
    for found, grad in zip(executor.host(partial).sum(axis=2), grads, strict=True):
        close(found, rows_adjoint(grad, chosen, number), storage)


@pytest.mark.parametrize(("timed", "limited"), [(True, False), (False, True)])
@pytest.mark.parametrize("shape", [*SHAPES.values(), (2, 4, 3)], ids=str)
@pytest.mark.parametrize("storage", STORAGE)
def test_smoothness(executor, rng, storage, shape, timed, limited):
    run_smoothness(executor, rng, storage, "int", shape, timed, limited)


@pytest.mark.parametrize("timed", [False, True])
@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize("index", ["int", LONG])
@pytest.mark.parametrize("storage", STORAGE)
def test_smoothness_in_every_variant(executor, rng, storage, index, limited, timed):
    run_smoothness(executor, rng, storage, index, (3, 60, 7), timed, limited)


@pytest.mark.parametrize("timed", [False, True])
def test_smoothness_with_weights_for_all_joints(executor, rng, timed):
    run_smoothness(executor, rng, "float32", "int", (3, 60, 7), timed, not timed, weights=(0.5, 0.25, 2.0))


def run_smoothness(executor, rng, storage, index, shape, timed, limited, weights=None):
    dtype, put = storage_type(storage), executor.put
    batch, horizon, joints = shape
    real = np.float64 if storage == "float64" else np.float32
    u, start = draw(rng, shape, dtype), [draw(rng, (batch, joints), dtype) for _ in range(3)]
    weights = rng.uniform(0.5, 1, (3, joints)).astype(real) if weights is None else weights
    limits = (np.array([[-0.5], [0.4]] * 4) * rng.uniform(0.5, 1, (8, joints))).astype(real) if limited else None
    dt = oracle.step_times(rng, "both", batch, horizon)
    wide = (u.astype(real), [x.astype(real) for x in start])
    expected = smoothness.cost_and_gradient(*wide, dt, weights, limits, 1.7, by_dt=timed)
    rows = smoothness_device.joint_tiles(joints)
    cost = put(poisoned((rows, batch), real))
    made = [put(poisoned(shape, dtype)), *(put(poisoned((batch, joints), dtype)) for _ in range(3))]
    over_time = put(poisoned((rows, batch, horizon), real)) if timed else None
    table = weights if isinstance(weights, tuple) else put(weights)
    given = (put(u), [put(x) for x in start], put(dt), table, put(limits), 1.7, cost, [*made, over_time], 1)
    executor.run(with_index(smoothness_device.cost_and_gradient_call(executor.xp, *given), index))
    close(executor.host(cost).sum(axis=0), expected[0], storage)
    for found, value in zip(made, expected[1:5], strict=True):
        close(executor.host(found), value, storage)
    if timed:
        close(executor.host(over_time).sum(axis=0), expected[5], storage)


COST_SHAPES = {"chunks of steps": (3, 300, 7), "many trajectories": (203, 9, 2), "many joints": (2, 5, 130), "one element": (1, 1, 1)}


@pytest.mark.parametrize("time_last", [False, True])
@pytest.mark.parametrize("shape", COST_SHAPES.values(), ids=COST_SHAPES)
@pytest.mark.parametrize("storage", STORAGE)
def test_cost(executor, rng, storage, shape, time_last):
    run_cost(executor, rng, storage, "int", shape, time_last, timed=True)


@pytest.mark.parametrize("storage", STORAGE)
def test_cost_with_long_indices_and_without_the_times(executor, rng, storage):
    run_cost(executor, rng, storage, LONG, (3, 20, 7), False, timed=False)


@pytest.mark.parametrize("shape", [(2, 9, 3), (2, 300, 3), (129, 9, 3)], ids=["an element a thread", "four", "of four trajectories"])
def test_cost_of_terms_that_no_step_belongs_to(executor, rng, shape):
    run_cost(executor, rng, "float32", "int", shape, False, timed=False, by_step=False)


def run_cost(executor, rng, storage, index, shape, time_last, timed, by_step=True):
    """Every kind of term, each state but one, targets of every extent; without ``by_step`` none of the step times, nor of the path."""
    dtype, put, (batch, horizon, joints) = storage_type(storage), executor.put, shape
    real = np.dtype(np.float64 if storage == "float64" else np.float32)
    motion = [None if k == 2 else draw(rng, shape, dtype) for k in range(4)]
    targets = [draw(rng, size, dtype) for size in (shape, (1, horizon, joints), (batch, 1, joints), (1, 1, joints))]
    weight = rng.uniform(0.5, 1, (horizon, joints))
    terms = (
        Term(0, weight=weight, lower=-0.5, upper=weight), Term(0, target=targets[0]), Term(0, 1, target=targets[1], weight=weight[:, :1]),
        Term(1, 2, timed=True, weight=weight[0]), Term(1, last=True, target=targets[2]), Term(3, 1, timed=True, target=targets[3]),
        Term(TIME, 2, weight=weight[:, :1], lower=1.0, upper=1.1), Term(PATH, 1, weight=weight[:, :1], lower=weight[0]),
    )  # fmt: skip
    laid = lay(terms if by_step else tuple(term for term in terms if term.state < TIME), horizon, joints, real)
    dt = oracle.step_times(rng, "both", batch, horizon)
    dt[:, 0] = np.nan
    wide, aims = [None if x is None else x.astype(real) for x in motion], [x.astype(real) for x in targets]
    right = [None if x is None else np.empty(shape, real) for x in motion]
    rows = cost_host.row_terms(laid, horizon, joints)
    expected, by_dt = cost_host.cost_and_gradient(wide, aims, dt, rows, right, timed)

    def large(x):
        return None if x is None else np.ascontiguousarray(x.swapaxes(1, 2)) if time_last else x

    packed = cost_device.Packed(laid, real.name, None if executor.xp is np else 0)
    cost, made = put(poisoned((batch,), real)), [None if x is None else put(poisoned(large(x).shape, dtype)) for x in motion]
    over_time = put(poisoned((batch, horizon), real)) if timed else None
    given = ([put(large(x)) for x in motion], [put(large(x)) for x in targets], put(dt), packed, cost, made, over_time, time_last)
    executor.run(with_index(cost_device.cost_and_gradient_call(executor.xp, *given), index))
    close(executor.host(cost), expected, storage)
    for found, value in zip(made, right, strict=True):
        if found is not None:
            close(large(executor.host(found)), value, storage)
    if timed:
        close(executor.host(over_time), by_dt, storage)


@pytest.mark.parametrize("n", [5, 130, 700])
@pytest.mark.parametrize("number", [1, 3, 8, 10])
@pytest.mark.parametrize(("storage", "index"), [("float32", "int"), ("float64", "int"), ("float64", LONG)])
def test_lbfgs_step(executor, rng, storage, index, number, n):
    run_lbfgs(executor, rng, storage, index, number, n)


def run_lbfgs(executor, rng, storage, index, number, n):
    """Problems whose loss falls, with a positive and a negative curvature, whose step is refused, and whose loss is NaN."""
    dtype, put = storage_type(storage), executor.put
    tried: list[Any] = []

    def evaluate(x, rows):
        return tried[-1]

    def given(scale):
        gradient = draw(rng, (4, n), dtype)
        return rng.uniform(-1, 1, 4).astype(dtype) + np.array(scale, dtype), gradient

    tried.append(given([10, 10, 10, 10]))
    search = lbfgs.Search(evaluate, draw(rng, (4, n), dtype))
    for last in range(number):
        curvature = np.array([[1], [-1 if last == number - 1 else 1], [1], [1]], dtype)
        trial = search.x + search.length[:, None] * search.direction
        loss = search.loss + search.length * (search.direction * search.gradient).sum(axis=1) - 1
        if last == number - 1:
            loss[2:] = loss[2] + 40, np.nan
        tried.append((loss.astype(dtype), (search.gradient + curvature * (trial - search.x) * rng.uniform(0.5, 2, (4, n))).astype(dtype)))
        before = lbfgs_device.State(search.x, search.loss, search.gradient, search.direction, search.length)
        pairs, scale = search.memory.pairs, search.memory.scale
        search.advance(evaluate, np.arange(4))
    made = lbfgs_device.State(*(put(poisoned(x.shape, dtype)) for x in before))
    pair = [put(poisoned(x.shape, dtype)) for x in (search.x, search.x, scale)]
    scaled = put(poisoned(scale.shape, dtype))
    kept = [tuple(map(put, each)) for each in pairs]
    asked = (lbfgs_device.State(*map(put, before)), [put(trial), *map(put, tried[-1])], kept, put(scale))
    executor.run(with_index(lbfgs_device.step_call(*asked, made, pair, scaled), index))
    tolerance = 1e-3 if storage == "float32" else 1e-10
    expected = [getattr(search, name) for name in lbfgs_device.State._fields]
    for found, right in zip([*made, *pair, scaled], [*expected, *search.memory.pairs[-1], search.memory.scale], strict=True):
        np.testing.assert_allclose(executor.host(found), right, rtol=tolerance, atol=tolerance * np.abs(right).max())


@pytest.mark.parametrize("timed", [False, True])
def test_smoothness_with_time_last(executor, rng, timed):
    """Without the gradient by the positions, alone or with that by dt."""
    shape = batch, horizon, joints = 3, 20, 5
    u, weights = draw(rng, shape, np.float64), rng.uniform(0.5, 1, (3, joints))
    dt = oracle.step_times(rng, "both", batch, horizon)
    limits = np.array([[-0.5], [0.4]] * 4) * rng.uniform(0.5, 1, (8, joints))
    cost = executor.put(poisoned((1, batch * joints), np.float64))
    over_time = executor.put(poisoned((1, batch * joints, horizon), np.float64)) if timed else None
    tables = (executor.put(weights), executor.put(limits))
    none, made = (None, None, None), (None, None, None, None, over_time)
    given = (executor.put(as_series(u)), none, executor.put(dt), *tables, 0.3, cost, made, joints)
    executor.run(smoothness_device.cost_and_gradient_call(executor.xp, *given))
    expected = smoothness.cost_and_gradient(u, none, dt, weights, limits, 0.3, by_parts=False, by_dt=timed)
    close(executor.host(cost).reshape(batch, joints).sum(axis=1), expected[0], "float64")
    if timed:
        close(executor.host(over_time).reshape(batch, joints, horizon).sum(axis=1), expected[5], "float64")


@pytest.mark.skipif(shim.COMPILER is None, reason="no g++")
@pytest.mark.parametrize("case", ["chain", "central", "bspline", "smoothness", "cost", "rows", "shared walks", "read ahead"])
def test_no_barrier_is_missing(rng, in_tiles, case):
    """Under the thread sanitizer, with several blocks and chunks; the last chunk is short, so that its elements change threads.
    And where threads share a walk, which must not overwrite what others begin with."""
    executor = Shim()
    if case == "shared walks":
        run_chain(executor, rng, "float32", 0, False, True, (2, 40, 3), "both")
        run_chain(executor, rng, "float32", 2, False, True, (2, 40, 3), "both")
        run_central(executor, rng, "float32", "int", (2, 40, 3), True, False)
        run_bspline(executor, rng, "float32", "int", (2, 5, 3), 3, False)
        run_smoothness(executor, rng, "float32", "int", (2, 40, 3), True, True)
        return
    if case == "chain":
        run_chain(executor, rng, "float32", 3, True, True, (20, 45, 7), "both")
    elif case == "read ahead":
        run_chain(executor, rng, "float32", 2, False, False, (20, 45, 7), "number")
    elif case == "central":
        run_central(executor, rng, "float32", "int", (20, 44, 7), True, False)
    elif case == "bspline":
        run_bspline(executor, rng, "float32", "int", (20, 11, 7), 3, False)
    elif case == "cost":
        run_cost(executor, rng, "float32", "int", (3, 300, 7), False, timed=True)
    elif case == "rows":
        test_rows(executor, rng, "float32", "int", 2, 300, 7)
    else:
        run_smoothness(executor, rng, "float32", "int", (20, 301, 7), True, True)


SMALL = (20, 33, 7)
DIVIDED = (2, 61, 3)  # 42 threads a series on an H100, of which 8 have steps


@pytest.mark.parametrize("case", ["position", "position with sources", "central", "central with a goal", "bspline", "smoothness"])
def test_threads_that_share_a_walk_give_the_bits_of_one(executor, rng, as_on_an_h100, in_tiles, case):
    """But where states are summed, which `test_shared_sums_are_as_accurate` looks at."""
    results = [run_divided(executor, rng, case, alone) for alone in (False, True)]
    assert len(results[0]) == len(results[1]) > 4
    if case == "smoothness":  # the cost is added up in another order
        np.testing.assert_allclose(*(found.pop(0) for found in results), rtol=1e-6)
    for shared, alone in zip(*results, strict=True):
        np.testing.assert_array_equal(shared, alone)


@pytest.mark.parametrize("case", ["position", "position with sources", "central", "central with a goal"])
def test_a_thread_for_each_element_of_an_adjoint_gives_the_bits_of_a_walk(executor, rng, as_on_an_h100, request, case):
    """Also in the last steps, and for the start and the goal."""
    elements = run_divided(executor, rng, case)
    request.getfixturevalue("in_tiles")
    for element, walked in zip(elements, run_divided(executor, rng, case), strict=True):
        np.testing.assert_array_equal(element, walked)


def run_divided(executor, rng, case: str, alone: bool = False) -> list[Any]:
    """Results of a small batch, of the same numbers at each call; ``alone``: a thread for each series."""
    state = rng.bit_generator.state
    kept = KeepsResults(executor, alone)
    if case.startswith("position"):
        run_chain(kept, rng, "float32", 0, False, "sources" in case, DIVIDED, "both")
    elif case.startswith("central"):
        run_central(kept, rng, "float32", "int", DIVIDED, "goal" in case, False)
    elif case == "bspline":
        run_bspline(kept, rng, "float32", "int", (2, 7, 3), 5, False)
    else:
        run_smoothness(kept, rng, "float32", "int", DIVIDED, True, True)
    rng.bit_generator.state = state
    return kept.results


class KeepsResults:
    """An executor that keeps what it hands back, and has each walk shared or walked ``alone``."""

    def __init__(self, inner: Any, alone: bool) -> None:
        self.inner, self.xp, self.put, self.alone = inner, inner.xp, inner.put, alone
        self.results: list[Any] = []

    def host(self, array: Any) -> Any:
        self.results.append(self.inner.host(array))
        return self.results[-1]

    def run(self, call: Any) -> None:
        if isinstance(call.block, tuple):  # a thread for each element
            self.inner.run(call)
            return
        assert call.args[-1] > 0
        self.inner.run(replace(call, args=(*call.args[:-1], 0)) if self.alone else call)


@pytest.mark.parametrize(("order", "exact"), [x for x in oracle.CHAINS if x[0]])
def test_shared_sums_are_as_accurate(executor, rng, as_on_an_h100, order, exact):
    """Float32 against float64, over 60 trajectories: the errors are no larger than those of one walk, whose sums are longer."""
    shape = (60, 64, 3)
    state, results = rng.bit_generator.state, []
    for alone in (False, True):
        rng.bit_generator.state = state
        kept = KeepsResults(executor, alone)
        run_chain(kept, rng, "float32", order, exact, True, shape, "both")
        results.append(kept.results)
    rng.bit_generator.state = state
    right = chain_in_float64(rng, order, exact, shape)
    for shared, alone, value in zip(*results, right, strict=True):
        errors = [np.sqrt(np.mean((x - value) ** 2)) for x in (shared, alone)]
        assert errors[0] <= 1.01 * errors[1], errors


def test_a_last_block_with_fewer_trajectories_sums_in_the_same_order(executor, rng, monkeypatch):
    """Though it has more threads for each."""
    monkeypatch.setattr(tiles, "_RESIDENT", 1)
    monkeypatch.setattr(tiles, "machine_of", lambda device: tiles.H100._replace(multiprocessors=2))
    u = np.repeat(draw(rng, (1, 64, 3), np.float32), 3, axis=0)
    out = [executor.put(poisoned(u.shape, np.float32)) for _ in range(4)]
    call = chain_device.forward_call(executor.xp, executor.put(u), (None, None, None), 0.1, 3, True, None, out, 1)
    assert call.grid == (2, 1)
    assert call.args[-1] > 0
    executor.run(call)
    for made in out:
        np.testing.assert_array_equal(executor.host(made)[1:], executor.host(made)[:-1])


def chain_in_float64(rng, order, exact, shape):
    """What `run_chain` with sources computes, from the same numbers."""
    batch, horizon, joints = shape
    u, start = draw(rng, shape, np.float32).astype(float), [draw(rng, (batch, joints), np.float32).astype(float) for _ in range(3)]
    extra = [draw(rng, shape, np.float32).astype(float) for _ in range(3)]
    dt = oracle.step_times(rng, "both", batch, horizon).astype(np.float32).astype(float)
    grads = [draw(rng, shape, np.float32).astype(float) for _ in range(4)]
    return [*chain.forward(u, start, dt, order, exact, extra), *chain.adjoint(grads, dt, shape, order, exact, True)]


@pytest.mark.parametrize("case", ["chain", "central", "bspline", "smoothness"])
@pytest.mark.parametrize("storage", STORAGE[:3])
def test_small_batches_give_each_trajectory_a_block(executor, rng, as_on_an_h100, storage, case):
    assert tiles.plan(SMALL, 4, 16, [executor.put(np.zeros(4, np.float32))]).grid == (20, 1)
    if case == "chain":
        run_chain(executor, rng, storage, 2, False, True, SMALL, "both")
    elif case == "central":
        run_central(executor, rng, storage, "int", SMALL, True, False)
    elif case == "bspline":
        run_bspline(executor, rng, storage, "int", (20, 4, 10), 4, False)  # 140 points, so a block of 256 threads
    else:
        run_smoothness(executor, rng, storage, "int", SMALL, True, True)


@pytest.mark.parametrize("order", [1, 3])
def test_a_long_horizon_is_one_chunk_of_more_memory_than_a_block_has_unasked(executor, rng, as_on_an_h100, order):
    asked = []
    kept = KeepsResults(executor, alone=False)
    kept.run = lambda call: (asked.append(call.shared), executor.run(call))  # type: ignore[method-assign]
    run_chain(kept, rng, "float32", order, False, False, (2, 500, 7), "number")
    assert min(asked) > 48 * 1024


def test_multiprocessors_hold_some_blocks_at_once_and_those_have_all_of_the_memory():
    """Blocks and chunks of a float32 integration on an H100: what kernels/README.md says."""
    found = {}
    for batch in (1, 64, 256, 1024, 4096, 16384):
        for horizon in (32, 128, 1000):
            plan = tiles._plan((batch, horizon, 7), 4, 16, 0, 0, tiles.H100, True, 12)
            found[batch, horizon] = (plan.grid[0], -(-horizon // plan.sizes[2]), plan.part)
    assert found == {
        (1, 32): (1, 1, 8), (1, 128): (1, 1, 8), (1, 1000): (1, 1, 65), (64, 32): (64, 1, 8), (64, 128): (64, 1, 8),
        (64, 1000): (64, 1, 65), (256, 32): (256, 1, 8), (256, 128): (256, 1, 8), (256, 1000): (256, 1, 65), (1024, 32): (512, 1, 8),
        (1024, 128): (512, 1, 15), (1024, 1000): (512, 5, 0), (4096, 32): (512, 1, 0), (4096, 128): (512, 3, 0),
        (4096, 1000): (512, 18, 0), (16384, 32): (911, 4, 0), (16384, 128): (911, 16, 0), (16384, 1000): (911, 125, 0),
    }  # fmt: skip


def test_long_horizons_are_whole_where_walks_take_longer_than_memory():
    """In several turns, where it is for the walks that a block waits: what kernels/README.md says."""
    found = {}
    for batch, horizon in ((512, 500), (512, 1000), (640, 1000), (704, 1000), (256, 2000), (512, 2000)):
        plan = tiles._plan((batch, horizon, 7), 4, 16, 0, 0, tiles.H100, True, 12)
        assert plan.shared <= tiles.H100.most
        found[batch, horizon] = (plan.grid[0], -(-horizon // plan.sizes[2]), plan.part)
    assert found == {
        (512, 500): (512, 1, 33), (512, 1000): (512, 1, 65), (640, 1000): (640, 1, 65), (704, 1000): (352, 4, 0),
        (256, 2000): (256, 1, 129), (512, 2000): (512, 5, 0),
    }  # fmt: skip


AHEAD_CASES = [  # storage, joints, time last, order, exact
    ("float32", 7, False, 1, False), ("float32", 7, False, 2, True), ("float32", 8, False, 3, False), ("float32", 5, True, 2, False),
    ("float64", 7, False, 3, True), ("float64", 3, True, 2, False),
]  # fmt: skip


def chunked_call(executor, u, start, dt, order, exact, group, ahead: bool, whole: bool = False) -> tuple[Any, list[Any]]:
    """The launch of a forward pass and what it fills; ``whole``: in one chunk, that one thread a series walks."""
    with pytest.MonkeyPatch.context() as changed:
        changed.setattr(tiles, "_plan", tiles._plan.__wrapped__)  # nothing is kept
        if not ahead:
            changed.setattr(tiles, "_waits", lambda *facts: False)
        if whole:
            changed.setattr(tiles, "machine_of", lambda device: tiles.H100)
        out = [executor.put(poisoned(u.shape, u.dtype)) for _ in range(4)]
        call = chain_device.forward_call(executor.xp, executor.put(u), [executor.put(x) for x in start], dt, order, exact, None, out, group)
    return replace(call, args=(*call.args[:-1], 0)) if whole else call, out


@pytest.mark.parametrize(("storage", "joints", "time_last", "order", "exact"), AHEAD_CASES)
@pytest.mark.parametrize("chunks", [1, 2, 3, 9])
def test_chunks_read_ahead_give_the_bits_of_those_waited_for(executor, rng, storage, joints, time_last, order, exact, chunks):
    """And of one chunk. The last one is short, or as long as the others; of a single one nothing is read ahead."""
    dtype, batch = storage_type(storage), 6
    for short in (True, False) if chunks > 1 else (False,):
        shape = (batch * joints, 4000, 1) if time_last else (batch, 4000, joints)
        facts = (dtype.itemsize, 4 * dtype.itemsize, 0, 0, tiles.machine_of(None), True, 12, dtype.itemsize)
        steps = tiles._plan(shape, *facts).sizes[2]
        shape = (shape[0], steps * chunks - (3 if short else 0), shape[2])
        u, start = draw(rng, shape, dtype), [draw(rng, (shape[0], shape[2]), dtype) for _ in range(3)]
        dt, group = executor.put(np.float64([[0.3]])), joints if time_last else 1
        found = []
        for ahead, whole in ((True, False), (False, False), (False, True)):
            call, out = chunked_call(executor, u, start, dt, order, exact, group, ahead, whole)
            assert dict(call.options)["AHEAD"] == str(int(ahead and chunks > 1))
            if ahead or whole:
                assert -(-shape[1] // call.args[-4]) == (1 if whole else chunks)
            executor.run(call)
            found.append([executor.host(x) for x in out])
        np.testing.assert_array_equal(found[1:], [found[0]] * 2)
        rows = [from_series(x[:, None], (batch, 1, joints))[:, 0] if time_last else x for x in start]
        expected = chain.forward(from_series(u, (batch, 0, joints)) if time_last else u, rows, np.full((1, 1), 0.3), order, exact)
        for made, right in zip(found[0], expected, strict=True):
            values = from_series(made, (batch, 0, joints)) if time_last else made
            assert np.abs(values - right).max() <= 100 * TOLERANCE[storage] * np.abs(right).max()


def test_a_fifth_area_is_only_for_several_chunks_that_walks_take_longer_for_than_memory():
    """Blocks of as many trajectories as before, all of which a multiprocessor still holds; else the plan of four areas, to the byte."""
    found = {}
    batches, horizons = (1, 64, 128, 400, 640, 1024, 4096, 16384), (32, 128, 1000, 2000, 4000)
    for batch, horizon, joints, size in product(batches, horizons, (1, 6, 7, 8), (4, 8)):
        facts = ((batch, horizon, joints), size, 4 * size, 0, 0, tiles.H100, True, 12)
        four, plan = tiles._plan(*facts), tiles._plan(*facts, size)
        chunks, before = (-(-horizon // p.sizes[2]) for p in (plan, four))
        if not plan.ahead:
            assert plan == four
            continue
        assert before > 1
        assert plan.part == 0
        assert (plan.sizes[0], plan.grid) == (four.sizes[0], four.grid)
        assert -(-math.prod(plan.grid) // 132) * (plan.shared + 1024) <= tiles.H100.shared
        assert 20 * batch * joints * size / 4 / 4.3e3 < 28 * 1.1  # ns a step in memory, and of a walk with the waits
        if size == 4 and joints == 7:
            found[batch, horizon] = (before, chunks)
    assert found == {
        (1, 4000): (2, 3), (64, 4000): (2, 3), (128, 4000): (2, 3), (400, 2000): (5, 6), (400, 4000): (9, 11),
        (640, 2000): (7, 8), (640, 4000): (13, 16),
    }  # fmt: skip


def test_an_adjoint_has_a_thread_for_each_element_where_an_h100_holds_them_all():
    """Numbers of blocks, of seven joints, float32 and float64: what kernels/README.md says."""
    found = {}
    for batch in (1, 64, 128, 256, 1024):
        for horizon in (32, 128):
            splits = [tiles._adjoint_elements((batch, horizon, 7), itemsize, tiles.H100) for itemsize in (4, 8)]
            found[batch, horizon] = [None if split is None else math.prod(split.grid) for split in splits]
    assert found == {
        (1, 32): [2, 2], (1, 128): [8, 8], (64, 32): [128, 128], (64, 128): [512, 512], (128, 32): [256, 256], (128, 128): [1024, None],
        (256, 32): [512, 512], (256, 128): [None, None], (1024, 32): [None, None], (1024, 128): [None, None],
    }  # fmt: skip


@pytest.mark.parametrize("batch", [1, 256, 1024])
def test_blocks_of_a_spline_have_a_thread_for_each_point_where_registers_hold_them(as_on_an_h100, batch):
    """36 points of seven joints are 252; of 512 blocks a multiprocessor has four."""
    grads, made = [np.zeros((batch, 125, 7), np.float32)] * 4, [np.zeros((batch, 31, 7), np.float32), *[None] * 8]
    call = bspline_device.adjoint_call(np, grads, 0.1, made, False, 5, 4, 1)
    assert (call.grid, call.block) == (((batch, 1), 256) if batch <= 256 else ((512, 1), 128))


@pytest.mark.parametrize("machine", [tiles._HOST, tiles.H100], ids=["small", "H100"])
def test_every_element_has_one_thread_of_blocks_that_cuda_takes(machine):
    for batch, horizon, joints in product((0, 1, 5, 70, 4096, 10**7), (1, 2, 12, 33, 1000, 10**6), (1, 2, 7, 130, 300)):
        block, grid, outputs = tiles._elements((batch, horizon, joints), 4, machine)
        assert math.prod(block) <= 256
        assert block[2] <= 64
        assert max(grid[1:]) <= 65535
        assert all(blocks == -(-size // n) for n, blocks, size in ((block[1], grid[0], horizon), (block[0], grid[2], joints)))
        turns = -(-batch // (block[2] * max(1, grid[1])))
        assert block[2] * (grid[1] - 1) < max(1, batch)
        assert turns <= outputs or grid[1] == 65535
        assert block[2] == 1 or (block[0] == joints and block[1] == horizon)  # so that threads are neighbours in memory


@pytest.mark.parametrize("storage", ["float32", "bfloat16"])
@pytest.mark.parametrize("case", ["position", "central", "bspline"])
def test_threads_go_on_to_the_last_trajectory(executor, rng, monkeypatch, case, storage):
    """One at a time and four, of which not all exist, also where the grid is too short."""
    monkeypatch.setattr(tiles, "_ELEMENTS", 32)
    for held, blocks in ((1, 65535), (1, 1), (1 << 20, 2)):
        monkeypatch.setattr(tiles, "_THREADS_HELD", held)
        monkeypatch.setattr(tiles, "_GRID", blocks)
        tiles._elements.cache_clear()
        assert tiles._elements((7, 33, 3), 4, tiles.machine_of(None)).outputs == (4 if held == 1 else 1)
        if case == "position":
            run_chain(executor, rng, storage, 0, False, True, (7, 33, 3), "both")
        elif case == "central":
            run_central(executor, rng, storage, "int", (7, 33, 3), True, False)
        else:
            run_bspline(executor, rng, storage, "int", (7, 8, 3), 3, False)
    tiles._elements.cache_clear()


@pytest.mark.parametrize("machine", [tiles._HOST, tiles.H100], ids=["small", "H100"])
@pytest.mark.parametrize("itemsize", [2, 4, 8])
@pytest.mark.parametrize("areas", [1, 2, 4])
def test_tiles_fit_and_spread_over_the_banks(itemsize, areas, machine):
    for joints in (1, 2, 6, 7, 8, 16, 31, 130, 1000):
        for batch in (1, 5, 300, 10000):
            for horizon in (2, 12, 32, 100, 1500, 10**6):
                timed = 2 * max(4, itemsize)
                sizes = tiles.tile_sizes(batch, horizon, joints, itemsize, areas * itemsize, timed, machine)
                tile_batch, tile_joints, steps, row = sizes
                assert tile_batch * tile_joints <= 128
                assert steps >= min(horizon, 8)
                unit = tiles._aligned(joints, itemsize)
                ragged = tile_joints == joints and horizon * joints % unit != 0
                assert row >= steps * tile_joints + (unit - 1 if ragged else 0)
                assert row % unit == 0
                assert tile_batch * (areas * row * itemsize + timed * steps) <= machine.most
    assert tiles._conflicts(tiles.tile_sizes(10000, 32, 7, 4, 16)[3], 7, 4) <= 2


@pytest.mark.parametrize(("joints", "layout"), [(7, "joints last"), (1, "time last")])
def test_blocks_are_small_and_runs_long(joints, layout):
    """Of a large float32 integration: many blocks a multiprocessor, and no run below a 64-byte transfer of memory."""
    plan = tiles._plan((16384 * 7 // joints, 32, joints), 4, 16, 0, 0, tiles.H100, True, None)
    _, _, steps, _, vector = plan.sizes
    assert vector
    assert steps * joints * 4 >= 64
    assert plan.shared <= (20 if joints == 7 else 40) * 1024


def test_a_number_travels_as_an_argument(executor, rng):
    """dt that is one number in host memory: the same results, and no array."""
    shape, storage = (3, 20, 7), "float64"
    run_central(executor, rng, storage, "int", shape, True, False, numbers=True)
    u, start = draw(rng, shape, np.float64), [draw(rng, shape[::2], np.float64) for _ in range(3)]
    out = [executor.put(poisoned(shape, np.float64)) for _ in range(4)]
    call = chain_device.forward_call(executor.xp, executor.put(u), [executor.put(x) for x in start], 0.3, 2, False, None, out, 1)
    assert call.args[9:11] == (None, 0.3)
    executor.run(call)
    for found, expected in zip(out, chain.forward(u, start, np.full((1, 1), 0.3), 2), strict=True):
        close(executor.host(found), expected, storage)


def test_large_arrays_take_long_indices():
    like = np.empty(0, np.float32)
    assert dict(tiles.options(like, (1 << 30) - 1))["INDEX"] == "int"
    assert dict(tiles.options(like, 1 << 30))["INDEX"] == LONG


def test_one_large_array_is_enough_for_long_indices():
    """Whether it is read or written."""
    lazy = SimpleNamespace(ascontiguousarray=lambda array, dtype=None: array, asarray=np.asarray)  # copies nothing
    small, large = np.zeros((1, 4, 2), np.float32), np.broadcast_to(np.float32(0), (1 << 12, 1 << 12, 64))
    few, many, index = small[0], np.broadcast_to(np.float32(0), (1 << 20, 1 << 10)), np.zeros(4, np.int64)
    calls = [
        bspline_device.forward_call(lazy, small, [None] * 8, False, 0.1, [large] * 4, 3, 1, 1),
        bspline_device.adjoint_call(lazy, [large] * 4, 0.1, [small, *[None] * 8], False, 3, 1, 1),
        start_rows_device.gather_call(lazy, few, index, many),
        start_rows_device.gather_call(lazy, many, index, few),
        start_rows_device.scatter_call(lazy, many[None], index, index, small[None]),
        start_rows_device.scatter_call(lazy, few[None], index, index, large[None]),
    ]
    assert [dict(call.options)["INDEX"] for call in calls] == [LONG] * 6
