"""What NVRTC makes of the kernels for compute capability 9.0, executed instruction by instruction, against the NumPy forms."""

from __future__ import annotations

from collections import Counter
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from gradlib.cuda import nvrtc, philox, products
from gradlib.trajectory import bspline_device, central_device, chain_device, cost_device, smoothness_device, tiles
from gradlib.trajectory.cost_terms import Term, lay
from gradlib.trajectory.kernel_options import VARIANTS
from tests import shim
from tests.cuda import ptx
from tests.trajectory import oracle
from tests.trajectory.test_kernels import (
    run_bspline,
    run_central,
    run_chain,
    run_cost,
    run_lbfgs,
    run_smoothness,
    storage_type,
    test_rows as rows,
)


def has_nvrtc() -> bool:
    try:
        return 90 in nvrtc.architectures()
    except Exception:  # no CuPy, or no NVRTC beside it
        return False


pytestmark = [pytest.mark.host, pytest.mark.skipif(not has_nvrtc(), reason="no NVRTC: pip install cupy-cuda12x nvidia-cuda-nvrtc-cu12")]


COUNTED = [
    ("float32", (16, 64, 8), False, (46.6, 0.29, 0.02)),
    ("float32", (16, 64, 8), True, (57.8, 0.54, 0.15)),
    ("float32", (18, 30, 7), False, (56.7, 0.34, 0.04)),
    ("bfloat16", (16, 64, 8), False, (42.3, 0.16, 0.02)),
    ("bfloat16", (18, 30, 7), False, (48.8, 0.21, 0.04)),
]
"""Storage, shape, whether each step has its time; the most instructions, divisions and reciprocals for an element."""


class Interpreter:
    """Runs launches as PTX."""

    xp = np

    def __init__(self) -> None:
        self.counted: Counter[str] = Counter()

    def put(self, array: Any) -> Any:
        return array

    host = put

    def run(self, call: Any) -> None:
        assert call.options in VARIANTS[call.source]
        self.counted += ptx.execute(call)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("order", "exact", "storage"),
    [*((order, exact, "float32") for order, exact in oracle.CHAINS), (2, False, "float64"), (2, False, "float16"), (1, False, "bfloat16")],
)
def test_chains_as_ptx_give_what_the_oracle_gives(rng, order, exact, storage):
    """Whole vectors in float32 and float64, in the others runs that begin between two of them; step times of their own."""
    shape = (2, 12, 4) if storage in ("float32", "float64") else (2, 11, 3)
    run_chain(Interpreter(), rng, storage, order, exact, True, shape, "both")


def test_a_horizon_of_several_chunks_as_ptx(rng):
    run_chain(Interpreter(), rng, "float32", 2, False, False, (2, 75, 7), "number")


@pytest.mark.slow
@pytest.mark.parametrize("storage", ["float32", "bfloat16"])
def test_scans_that_threads_share_and_adjoints_of_elements_as_ptx(rng, monkeypatch, storage):
    monkeypatch.setattr(tiles, "machine_of", lambda device: tiles.H100)
    for _ in ("a thread for each element", "tiles"):
        run_chain(Interpreter(), rng, storage, 0, False, True, (1, 30, 3), "both")
        run_central(Interpreter(), rng, storage, "int", (1, 30, 3), True, False)
        monkeypatch.setattr(tiles, "_adjoint_elements", lambda *facts: None)
    for order in (1, 3):
        run_chain(Interpreter(), rng, storage, order, order == 3, False, (1, 30, 3), "both")
    run_bspline(Interpreter(), rng, storage, "int", (1, 4, 3), 3, False)


@pytest.mark.parametrize("case", ["smoothness", "cost", "rows", "long indices", "lbfgs"])
def test_the_other_kernels_as_ptx_give_what_the_oracle_gives(rng, case):
    if case == "smoothness":
        run_smoothness(Interpreter(), rng, "float32", "int", (2, 9, 3), True, True)
    elif case == "cost":
        run_cost(Interpreter(), rng, "float32", "int", (2, 9, 3), False, timed=True)
    elif case == "lbfgs":
        run_lbfgs(Interpreter(), rng, "float32", "int", 8, 70)
    elif case == "rows":
        rows(Interpreter(), rng, "float32", "int", 5, 40, 7)
    else:
        run_central(Interpreter(), rng, "float32", "long long", (2, 9, 3), False, False)


@pytest.mark.parametrize("kind", ["uniform", "normal", "cauchy", "bits", "levels", "bernoulli", "dropout"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_random_numbers_as_ptx_are_those_of_the_host(kind, dtype):
    drawn = [np.zeros(37, np.int64 if kind == "bits" else dtype) for _ in range(2)]
    chances = np.linspace(0, 1, 37).astype(dtype) if kind == "bernoulli" else None
    for run, out in zip((ptx.execute, shim.execute), drawn, strict=True):
        run(philox.draw_call(kind, out, None, (1 << 63) + 5, 1 << 40, array=chances))
    np.testing.assert_allclose(*drawn, rtol=1e-5 if dtype == "float32" else 1e-13)


def test_products_as_ptx_are_those_of_numpy(rng):
    a, b = rng.standard_normal((2, 19, 33)), rng.standard_normal((1, 33, 17))
    out = np.empty((2, 19, 17))
    ptx.execute(products.product_call(a, b, out))
    np.testing.assert_allclose(out, a @ b, rtol=1e-12)


@pytest.mark.parametrize(
    ("line", "given", "expected"),
    [
        ("shr.u32 %r1, %r2, 40", np.uint32(0xF0000000), np.uint32(0)),
        ("shr.s32 %r1, %r2, 40", np.uint32(0xF0000000), np.uint32(0xFFFFFFFF)),
        ("mul.hi.s32 %r1, %r2, 1431655766", np.uint32(2**32 - 9), np.uint32(2**32 - 4)),  # -9 / 3, less one as it is negative
        ("mul.hi.u64 %rd1, %rd2, 16", np.uint64(0xF << 60), np.uint64(0xF)),
        ("bfi.b64 %rd1, %rd2, 1, 32, 32", np.uint64(0x5_0000_0007), np.uint64(0x7_0000_0001)),
        ("min.f32 %f1, %f2, 0f40000000", np.float32(np.nan), np.float32(2)),
        ("max.NaN.f32 %f1, %f2, 0f40000000", np.float32(np.nan), np.float32(np.nan)),
        ("setp.nan.f32 %p1, %f2, 0f40000000", np.float32(np.nan), np.bool_(True)),
        ("cvt.rni.s32.f32 %r1, %f2", np.float32(2.5), np.uint32(2)),
        ("cvt.rzi.s32.f32 %r1, %f2", np.float32(1e20), np.uint32(2**31 - 1)),
        ("cvt.rzi.u32.f32 %r1, %f2", np.float32(np.nan), np.uint32(0)),
        ("cvt.rmi.f32.f32 %f1, %f2", np.float32(-0.5), np.float32(-1)),
        ("mov.b64 {%temp, %r1}, %fd2", np.float64(1), np.uint32(0x3FF00000)),
        ("div.s32 %r1, %r2, 2", np.uint32(1 << 31), np.uint32(3 << 30)),
        ("div.s32 %r1, %r2, -2", np.uint32(7), np.uint32(2**32 - 3)),
        ("rem.s32 %r1, %r2, 2", np.uint32(2**32 - 7), np.uint32(2**32 - 1)),
        ("min.f32 %f1, %f2, 0f80000000", np.float32(0), np.float32(-0.0)),
        ("max.f32 %f1, %f2, 0f80000000", np.float32(0), np.float32(0)),
        ("add.rn.f32 %f1, %f2, 0f33000001", np.float32(1), np.float32(1)),
        ("add.rz.f32 %f1, %f2, 0f33C00000", np.float32(1), np.float32(1)),
        ("add.rz.f32 %f1, %f2, 0f33A00000", np.float32(-1), np.float32(-1 + 2**-23)),
        ("fma.rn.f32 %f1, %f2, %f2, 0f00000001", np.float32(1 + 2**-12), np.float32(1 + 2**-11 + 2**-23)),
        ("fma.rn.f64 %fd1, %fd2, %fd2, 0dBFF0000000000000", np.float64(1 + 2**-30), np.float64(2**-29 + 2**-60)),
        ("cvt.ftz.f64.f32 %fd1, %f2", np.float32(1e-40), np.float64(0)),
        ("cvt.rn.ftz.f32.f64 %f1, %fd2", np.float64(-1e-40), np.float32(-0.0)),
        ("cvt.rn.f32.f64 %f1, %fd2", np.float64(1e-40), np.float32(1e-40)),
        ("rcp.approx.ftz.f64 %fd1, %fd2", np.float64(3), np.array(0x3FD5555500000000).view(np.float64)),
    ],
)
def test_instructions_do_what_the_manual_says(line, given, expected):
    """PTX ISA 8.4, sections 9.7.1 to 9.7.9."""
    block = ptx.Block([line, "ret"], {}, ptx.Memory(0, 0), [], {"%tid.x": np.zeros(1)}, 0)
    block.registers[line.split()[-1 if "{" in line else 2].strip(",")] = np.array([given])
    block.run()
    kept = next(name for name in ("%r1", "%rd1", "%fd1", "%f1", "%p1") if name in line)
    np.testing.assert_array_equal(block.registers[kept], [expected])
    if kept.startswith("%f"):
        np.testing.assert_array_equal(np.signbit(block.registers[kept]), np.signbit([expected]))


REFUSED = [
    "add.sat.f32 %f1, %f2, %f2", "setp.lt.and.f32 %p1, %f2, %f2, %p2", "cvt.rz.f32.s64 %f1, %rd2", "add.cc.u32 %r1, %r2, %r2",
    "cp.async.cg.shared.global [%r1], [%rd1], 16", "bar.sync 1", "shfl.sync.bfly.b32 %r1, %r2, 1, 31, -1",
    "atom.global.add.u32 %r1, [%rd1], 1",
]  # fmt: skip
"""What no kernel uses."""


@pytest.mark.parametrize("line", REFUSED)
def test_an_instruction_that_would_be_passed_over_is_refused(line):
    with pytest.raises((AssertionError, KeyError)):
        ptx.Block([line, "ret"], {}, ptx.Memory(0, 0), [], {"%tid.x": np.zeros(1)}, 0).run()


def test_a_guarded_barrier_holds_back_those_that_come_to_it():
    """One of two threads waits; the other writes what it then reads."""
    lines = [
        "setp.eq.s32 %p1, %r0, 0",
        "@%p1 bar.sync 0",
        "@!%p1 st.shared.u32 [1024], 7",
        "@!%p1 bar.sync 0",
        "ld.shared.u32 %r1, [1024]",
        "ret",
    ]
    block = ptx.Block(
        [x.replace("[1024]", "[%r2]").replace(" 7", " %r3") for x in lines], {}, ptx.Memory(0, 0), [], {"%tid.x": np.arange(2)}, 16
    )
    block.registers = {"%r0": np.arange(2, dtype=np.uint32), "%r2": np.full(2, 1024, np.uint32), "%r3": np.full(2, 7, np.uint32)}
    block.run()
    np.testing.assert_array_equal(block.registers["%r1"], [7, 7])


@pytest.mark.parametrize(("storage", "shape", "timed", "most"), COUNTED)
def test_instructions_of_an_element(rng, monkeypatch, storage, shape, timed, most):
    """Of acceleration control over a large batch, in all, divisions and reciprocals: what kernels/README.md says."""
    monkeypatch.setattr(tiles, "_RESIDENT", 1)  # as many trajectories in a block as it takes
    monkeypatch.setattr(tiles, "_waits", lambda *facts: False)  # it is bound by memory
    tiles._plan.cache_clear()
    monkeypatch.setattr(tiles, "machine_of", lambda device: tiles.Machine(1, 64 * 1024, 52 * 1024))
    runner, u = Interpreter(), rng.standard_normal(shape).astype(storage_type(storage))
    dt = rng.uniform(0.5, 1, shape[:2]) if timed else 0.1
    runner.run(chain_device.forward_call(np, u, (None, None, None), dt, 2, False, None, [np.empty_like(u) for _ in range(4)], 1))
    found = runner.counted.total(), runner.counted["div"], runner.counted["rcp"]
    assert all(n / u.size <= limit for n, limit in zip(found, most, strict=True)), [n / u.size for n in found]


BUSIEST = {
    ("position", 32): (145, 220), ("position", 128): (145, 220), ("central", 32): (170, 305), ("central", 128): (170, 305),
    ("velocity", 32): (670, 850), ("velocity", 128): (815, 1025), ("acceleration", 32): (735, 920), ("acceleration", 128): (945, 1195),
    ("jerk", 32): (850, 970), ("jerk", 128): (1150, 1345), ("spline", 29): (250, 990), ("spline", 125): (250, 990),
    ("smoothness", 32): (1140,), ("smoothness", 128): (1740,),
}  # fmt: skip
"""By map and horizon: the most instructions that the busiest thread runs forward, and in the adjoint, for a trajectory of seven joints."""


def calls(name: str, horizon: int, batch: int = 1, joints: int = 7, storage: str = "float32") -> list[Any]:
    """Forward and adjoint of so many trajectories; a spline of degree 5 with 4 samples a segment."""
    dtype = storage_type(storage)
    u, rows = np.zeros((batch, horizon, joints), dtype), [np.zeros((batch, joints), dtype) for _ in range(8)]
    four = [np.zeros_like(u) for _ in range(4)]
    if name == "smoothness":
        made = (np.zeros((1, batch), np.float64 if storage == "float64" else np.float32), [four[0], *rows[:3], None])
        return [smoothness_device.cost_and_gradient_call(np, u, [None] * 3, 0.1, (1.0,) * 3, None, 0.0, *made, 1)]
    if name == "spline":
        knots = np.zeros((batch, (horizon - 1) // 4, joints), dtype)
        forward = bspline_device.forward_call(np, knots, [None] * 8, False, 0.1, four, 5, 4, 1)
        return [forward, bspline_device.adjoint_call(np, four, 0.1, [knots, *rows[:4], *[None] * 4], False, 5, 4, 1)]
    if name == "central":
        forward = central_device.forward_call(np, u, rows[:3], None, 0.1, four, 1)
        return [forward, central_device.adjoint_call(np, four, 0.1, [u, *rows[:4]], False, 1)]
    order = ("position", "velocity", "acceleration", "jerk").index(name)
    adjoint = chain_device.adjoint_call(np, four, 0.1, order, False, [u, *rows[:3], *[None] * 3], 1)
    return [chain_device.forward_call(np, u, [None] * 3, 0.1, order, False, None, four, 1), adjoint]


@pytest.mark.parametrize(("name", "horizon"), BUSIEST)
def test_what_a_small_batch_waits_for(monkeypatch, name, horizon):
    """The busiest thread on an H100, whose instructions are the time of a small batch in the model of kernels/README.md."""
    monkeypatch.setattr(tiles, "machine_of", lambda device: tiles.H100)
    found: list[int] = []
    for call in calls(name, horizon):
        blocks: list[int] = []
        ptx.execute(call, blocks)
        found.append(max(blocks))
    assert all(n <= most for n, most in zip(found, BUSIEST[name, horizon], strict=True)), found


def bounds(batch: int) -> Any:
    """The cost of bounds on p, v, a and j, of 64 steps of seven joints."""
    shape, one = (batch, 64, 7), np.ones(7)
    states, made = ([np.zeros(shape, np.float32) for _ in range(4)] for _ in range(2))
    terms = tuple(Term(k, weight=one, lower=-one, upper=one) for k in range(4))
    packed = cost_device.Packed(lay(terms, *shape[1:], np.dtype(np.float32)), "float32", None)
    return cost_device.cost_and_gradient_call(np, states, [], 0.1, packed, np.zeros(batch, np.float32), made, None, False)


@pytest.mark.parametrize(("batch", "together", "most"), [(1, 1, (685, 117.1)), (129, 4, (958, 47.5))])
def test_instructions_of_a_cost_of_motions(batch, together, most):
    """Of the busiest thread, and for an element of one state, in blocks of one trajectory and of four: what kernels/README.md says."""
    call, blocks = bounds(batch), list[int]()
    assert (call.block, call.grid) == (448, (-(-batch // together), 1))
    element = ptx.execute(replace(call, grid=(1, 1)), blocks).total() / (together * 4 * 64 * 7)
    assert max(blocks) <= most[0], blocks
    assert element <= most[1], element


ELEMENTS = {
    ("position", "float32"): 61.5, ("position", "bfloat16"): 73.5, ("central", "float32"): 70, ("central", "bfloat16"): 84.5,
    ("spline", "float32"): 103, ("spline", "bfloat16"): 120,
}  # fmt: skip
"""By map and storage: the most instructions for an element of large batches, where a thread has those of four trajectories at a time."""


def test_instructions_of_the_smoothness_cost(monkeypatch):
    """For an element of large batches: what kernels/README.md says, less than the memory's 56."""
    monkeypatch.setattr(tiles, "_RESIDENT", 1)
    monkeypatch.setattr(tiles, "machine_of", lambda device: tiles.Machine(1, 64 * 1024, 52 * 1024))
    found = ptx.execute(calls("smoothness", 64, 16, 8)[0]).total() / (16 * 64 * 8)
    assert found <= 51.3, found


@pytest.mark.parametrize(("name", "storage"), ELEMENTS)
def test_instructions_of_elements_of_four_trajectories(monkeypatch, name, storage):
    """What kernels/README.md says."""
    monkeypatch.setattr(tiles, "machine_of", lambda device: tiles.Machine(1, 64 * 1024, 52 * 1024))
    batch, horizon = (8, 257) if name == "spline" else (16, 64)
    call = calls(name, horizon, batch, 8, storage)[0]
    assert dict(call.options)["OUTPUTS"] == "4"
    found = ptx.execute(call).total() / (batch * horizon * 8)
    assert found <= ELEMENTS[name, storage], found


PASSES: dict[tuple[str, str], dict[int, list[float]]] = {
    ("position", "float32"): {
        1: [0.0, 10.4], 2: [0.0, 15.8], 3: [0.0, 17.3], 4: [0.0, 10.4], 5: [0.0, 16.5], 6: [0.0, 17.9], 7: [0.0, 16.0], 8: [0.0, 10.4],
        9: [0.0, 17.3], 10: [0.0, 17.9], 11: [0.0, 17.6], 12: [0.0, 12.1], 13: [0.0, 18.3], 14: [0.0, 17.4], 15: [0.0, 16.5],
        16: [0.0, 10.4], 32: [0.0, 10.4],
    },
    ("acceleration", "float32"): {
        1: [10.0, 10.0], 2: [17.5, 17.5], 3: [15.2, 15.2], 4: [10.0, 10.0], 5: [15.7, 15.7], 6: [15.7, 15.7], 7: [15.2, 15.2],
        8: [10.0, 10.0], 9: [15.2, 15.2], 10: [15.7, 15.7], 11: [16.6, 16.6], 12: [10.3, 10.3], 13: [17.3, 17.3], 14: [16.4, 16.4],
        15: [15.7, 15.7], 16: [10.0, 10.0], 32: [10.0, 10.0],
    },
    ("central", "float32"): {
        1: [0.0, 11.0], 2: [0.0, 15.8], 3: [0.0, 16.5], 4: [0.0, 10.6], 5: [0.0, 18.3], 6: [0.0, 15.6], 7: [0.0, 16.5], 8: [0.0, 10.6],
        9: [0.0, 16.5], 10: [0.0, 17.1], 11: [0.0, 16.3], 12: [0.0, 12.4], 13: [0.0, 17.0], 14: [0.0, 16.4], 15: [0.0, 17.1],
        16: [0.0, 10.6], 32: [0.0, 10.6],
    },
    ("spline", "float32"): {
        1: [0.0, 26.8], 2: [0.0, 14.7], 3: [0.0, 15.3], 4: [0.0, 8.0], 5: [0.0, 14.2], 6: [0.0, 13.3], 7: [0.0, 13.4], 8: [0.0, 8.0],
        9: [0.0, 11.2], 10: [0.0, 13.0], 11: [0.0, 54.8], 12: [0.0, 8.3], 13: [0.0, 36.8], 14: [0.0, 52.6], 15: [0.0, 11.0],
        16: [0.0, 8.0], 32: [0.0, 8.0],
    },
    ("smoothness", "float32"): {
        1: [4.2], 2: [6.4], 3: [6.4], 4: [4.3], 5: [6.7], 6: [6.7], 7: [6.5], 8: [4.4], 9: [6.5], 10: [6.8], 11: [6.0], 12: [4.5],
        13: [6.2], 14: [7.2], 15: [6.8], 16: [4.7], 32: [5.2],
    },
    ("velocity", "float32"): {1: [10.0, 10.0], 7: [15.2, 15.2]},
    ("jerk", "float32"): {1: [10.0, 10.0], 7: [15.2, 15.2]},
    ("acceleration", "float64"): {1: [20.0, 20.0]},
    ("central", "float64"): {1: [0.0, 21.2]},
    ("smoothness", "float64"): {1: [12.4]},
    ("acceleration", "bfloat16"): {1: [10.0, 10.0]},
    ("central", "bfloat16"): {1: [0.0, 10.6]},
    ("smoothness", "bfloat16"): {1: [4.2]},
}  # fmt: skip
"""By map and storage, for so many joints: forward and adjoint, as `passes` counts."""


def passes(name: str, storage: str, joints: int) -> list[float]:
    """Forward and adjoint: passes of warps through the banks of shared memory, for 32 elements of large batches."""
    horizon, batch = 33 if name == "spline" else 32, max(1, 64 // joints)
    found = []
    for call in calls(name, horizon, batch, joints, storage):
        made: list[int] = []
        ptx.execute(call, passes=made)
        found.append(round(sum(made) * 32 / (batch * horizon * joints), 1))
    return found


@pytest.mark.slow
@pytest.mark.parametrize(("name", "storage"), PASSES)
def test_passes_through_the_banks(monkeypatch, name, storage):
    """Ten are the least of five arrays, each moved and walked over: what kernels/README.md says."""
    monkeypatch.setattr(tiles, "_RESIDENT", 1)
    monkeypatch.setattr(tiles, "_waits", lambda *facts: False)  # they are bound by memory
    monkeypatch.setattr(tiles, "machine_of", lambda device: tiles.Machine(1, 64 * 1024, 52 * 1024))
    assert {joints: passes(name, storage, joints) for joints in PASSES[name, storage]} == PASSES[name, storage]


@pytest.mark.parametrize(
    ("change", "text"),
    [
        (("cp.async.wait_all", "bar.sync 0"), "was not written"),
        (("st.global.v4.u32 \t[", "st.global.v4.u32 \t[4+"), "aligned|outside"),
        (("add.ftz.f32", "sub.ftz.f32"), "Not equal"),
    ],
)
def test_planted_faults_are_seen(rng, monkeypatch, change, text):
    """A copy that nobody awaits, a store beside its place, another operation."""
    inner = ptx.compiled

    def wrong(*args: Any) -> str:
        made = inner(*args)
        assert change[0] in made
        if "4+" in change[1]:
            return "\n".join(f"{line[: line.index(']')]}+4{line[line.index(']') :]}" if line.strip().startswith(change[0]) else line
                             for line in made.splitlines())  # fmt: skip
        return made.replace(*change)

    monkeypatch.setattr(ptx, "compiled", wrong)
    ptx.program.cache_clear()
    try:
        with pytest.raises(AssertionError, match=text):
            run_chain(Interpreter(), rng, "float32", 2, False, True, (2, 12, 4), "both")
    finally:
        ptx.program.cache_clear()


AHEAD = (
    ("STORAGE", "float"), ("INDEX", "int"), ("ORDER", "2"), ("EXACT", "0"), ("SOURCES", "0"),
    ("AHEAD", "1"), ("OUTPUTS", "1"),
)  # fmt: skip


def test_a_chunk_is_on_its_way_while_the_one_before_it_is_walked_and_written():
    """It is awaited then, and before the barrier after which other threads read it: warps apart from one another are not interpreted."""
    lines, _ = ptx.program("chain.cu", AHEAD, "chain_forward")
    begun = max(n for n, line in enumerate(lines) if "cp.async.ca" in line)
    first, awaited = (n for n, line in enumerate(lines) if "cp.async.wait_all" in line)
    assert first < begun < awaited
    meanwhile, after = lines[begun:awaited], lines[awaited:]
    assert sum("st.shared.f32" in line for line in meanwhile) >= 16
    assert any("st.global" in line for line in meanwhile)
    assert sum("bar.sync" in line for line in meanwhile) == 1
    assert sum("bar.sync" in line for line in after) == 1
    assert not any("shared" in line for line in after)


@pytest.mark.parametrize("awaited", [True, False])
def test_a_chunk_read_ahead_is_awaited(monkeypatch, awaited):
    inner = ptx.compiled

    def without_the_second_wait(*args: Any) -> str:
        forward, name, others = inner(*args).partition(".entry chain_forward(")
        first, wait, rest = others.partition("cp.async.wait_all;")
        return forward + name + first + wait + (rest if awaited else rest.replace("cp.async.wait_all;", "", 1))

    monkeypatch.setattr(ptx, "compiled", without_the_second_wait)
    monkeypatch.setattr(tiles, "machine_of", lambda device: tiles.Machine(1, tiles._SHARED + 2048, tiles._SHARED))
    ptx.program.cache_clear()
    call = calls("acceleration", 75, 2)[0]
    assert dict(call.options)["AHEAD"] == "1"
    try:
        if awaited:
            ptx.execute(call)
        else:
            with pytest.raises(AssertionError, match=r"was not written|not awaited"):
                ptx.execute(call)
    finally:
        ptx.program.cache_clear()


def test_copies_under_way_cost_the_busiest_thread_next_to_nothing(monkeypatch):
    """Of a block of a long horizon, whose waits but the first they save: kernels/README.md."""
    monkeypatch.setattr(tiles, "machine_of", lambda device: tiles.H100)
    found = []
    for waits in (tiles._waits, lambda *facts: False):
        monkeypatch.setattr(tiles, "_waits", waits)
        tiles._plan.cache_clear()
        call = replace(calls("acceleration", 500, 800)[0], grid=(1, 1))
        blocks: list[int] = []
        ptx.execute(call, blocks)
        found.append((dict(call.options)["AHEAD"], -(-500 // call.args[-4]), call.shared, max(blocks)))
    tiles._plan.cache_clear()
    assert [x[:3] for x in found] == [("1", 3, 53920), ("0", 3, 53888)]
    assert found[0][3] <= 1.005 * found[1][3]
