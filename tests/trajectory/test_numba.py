"""What numba compiles: when it is used, and that it changes nothing but rounding."""

from __future__ import annotations

import os
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from hypothesis import given, strategies as st

import gradlib
from gradlib.trajectory import (
    BoundsCost,
    EnergyCost,
    JointLimits,
    PathLengthCost,
    TimeCost,
    chain_host,
    compiled,
    cost_host,
    smoothness_cost,
    step_acceleration,
    step_bspline,
    step_jerk,
    step_position,
    step_velocity,
    use_numba,
)
from gradlib.trajectory.cost_terms import PATH, TIME, Term, lay, targets_of
from tests.trajectory import oracle
from tests.trajectory.helpers import check_derivatives

pytestmark = pytest.mark.host
STEPS = [step_position, step_velocity, step_acceleration, step_jerk]


@pytest.fixture
def numba():
    """numba, in use."""
    module = pytest.importorskip("numba")
    before = compiled._use
    use_numba(True)
    yield module
    compiled._use = before


@pytest.fixture
def without_numba(monkeypatch):
    """As where numba is not installed, at the first call."""
    monkeypatch.setattr(compiled, "_use", True)
    monkeypatch.setattr(compiled, "_forms", {})
    monkeypatch.setitem(sys.modules, "numba", None)
    for name in [name for name in sys.modules if name.startswith("gradlib.trajectory") and name.endswith(("_numba", ".lanes"))]:
        monkeypatch.delitem(sys.modules, name)


def python(code: str, **environment: str) -> str:
    """What a new process prints."""
    done = subprocess.run([sys.executable, "-c", code], env={**os.environ, **environment}, capture_output=True, text=True, check=False)
    assert not done.returncode, done.stderr
    return done.stdout.strip()


FORM = "from gradlib.trajectory import chain_host, compiled; print(compiled.form('chain', chain_host).__name__.rpartition('.')[2])"


# ---- when it is used ----------------------------------------------------------------------------------------------------------------


def test_it_is_used_by_default_and_imported_at_the_first_call_that_could_use_it(numba):
    said = python(f"import sys, gradlib.trajectory; print('numba' in sys.modules)\n{FORM}", GRADLIB_NUMBA="1")
    assert said.split() == ["False", "chain_numba"]


def test_the_environment_turns_it_off(numba):
    assert python(f"{FORM}\nimport sys; print('numba' in sys.modules)", GRADLIB_NUMBA="0").split() == ["chain_host", "False"]


def test_the_function_turns_it_on_and_off(numba):
    use_numba(False)
    assert compiled.form("chain", chain_host) is chain_host
    use_numba(True)
    assert compiled.form("chain", chain_host).__name__ == "gradlib.trajectory.chain_numba"
    with pytest.raises(TypeError, match="mode is True or False, got 1"):
        use_numba(1)


def test_a_call_by_numpy_leaves_the_rest_alone(numba):
    def used(fails=False):
        if fails:
            raise ZeroDivisionError
        return compiled.form("chain", chain_host)

    assert compiled.by_numpy(used)() is chain_host
    with pytest.raises(ZeroDivisionError):
        compiled.by_numpy(lambda: used(fails=True))()
    assert used() is not chain_host
    assert compiled.version() == numba.__version__
    assert compiled.by_numpy(compiled.version)() is None


def test_without_it_numpy_computes_and_asking_for_it_says_what_is_missing(without_numba):
    assert compiled.form("chain", chain_host) is chain_host
    assert compiled.version() is None
    step_acceleration(gradlib.zeros(1, 3, 2), (), 0.1)
    with pytest.raises(ImportError, match=r"pip install 'gradlib\[numba\]'"):
        use_numba(True)
    use_numba(False)


def test_a_numba_that_cannot_be_imported_is_named_once(without_numba, monkeypatch):
    class Refusing:
        @staticmethod
        def find_spec(name, path=None, target=None):
            if name == "numba":
                raise SystemError("numba knows NumPy 1 only")

    monkeypatch.delitem(sys.modules, "numba")
    monkeypatch.setattr(sys, "meta_path", [Refusing, *sys.meta_path])
    with pytest.warns(RuntimeWarning, match=r"installed but cannot be used: SystemError: numba knows NumPy 1 only\. .* GRADLIB_NUMBA=0"):
        assert compiled.form("chain", chain_host) is chain_host
    assert compiled.form("chain", chain_host) is chain_host


def test_a_loop_that_numba_cannot_compile_is_left_to_numpy(numba, monkeypatch, rng):
    from gradlib.trajectory import chain_numba

    def wrong(real, lanes, order, exact):
        signature, _ = forward_loop(real, lanes, order, exact)
        return signature, lambda u, p, v, a, dt, x, y, z, w: u.no_such_attribute

    forward_loop = chain_numba._forward_loop
    monkeypatch.setattr(chain_numba, "_forward_loop", wrong)
    u, start = rng.standard_normal((2, 5, 3)), list(rng.standard_normal((3, 2, 3)))
    with pytest.warns(RuntimeWarning, match=r"numba cannot compile .*: TypingError"):
        made = chain_numba.forward(u, start, 0.1, 2)
    for found, expected in zip(made, chain_host.forward(u, start, 0.1, 2), strict=True):
        np.testing.assert_array_equal(found, expected)


def test_no_folder_to_keep_loops_in_is_no_error(numba, rng, monkeypatch):
    from numba.core import caching

    from gradlib.trajectory import chain_numba

    monkeypatch.setattr(caching.CacheImpl, "_locator_classes", [])  # none of the places will do, as where none can be written
    monkeypatch.setattr(compiled, "_loops", {})
    u, start = rng.standard_normal((2, 5, 3)), list(rng.standard_normal((3, 2, 3)))
    for found, expected in zip(chain_numba.forward(u, start, 0.1, 2), chain_host.forward(u, start, 0.1, 2), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-12)
    assert [x is not None for x in compiled._loops.values()] == [True]


@pytest.mark.slow
def test_a_second_process_finds_loops_on_the_disk(numba, tmp_path):
    code = (
        "import numpy as np; from numba.core import event\n"
        "from gradlib.trajectory import chain_numba\n"
        "with event.install_recorder('numba:compile') as seen: chain_numba.forward(np.ones((2, 3, 2)), [None] * 3, 0.1, 2)\n"
        "print(len(seen.buffer) > 0)"
    )
    assert [python(code, NUMBA_CACHE_DIR=str(tmp_path)) for _ in range(2)] == ["True", "False"]


def test_loops_on_the_disk_are_those_of_this_text_of_the_lanes(numba, tmp_path, monkeypatch, rng):
    """numba itself asks only whether the file of the loop has changed."""
    from gradlib.trajectory import chain_numba

    monkeypatch.setattr(numba.config, "CACHE_DIR", str(tmp_path))
    for text in ("_1", "_2", "_1"):
        monkeypatch.setattr(compiled, "_loops", {})
        monkeypatch.setattr(compiled, "_of_the_lanes", lambda text=text: text)
        chain_numba.forward(rng.standard_normal((2, 5, 3)), [None] * 3, 0.1, 2)
    assert len(list(tmp_path.rglob("*.nbc"))) == 2


# ---- what it computes ---------------------------------------------------------------------------------------------------------------


@given(
    sizes=st.tuples(st.integers(0, 4), st.integers(1, 9), st.sampled_from([0, 1, 2, 3, 7, 9])), kind=st.sampled_from(oracle.CHAINS),
    dt_kind=st.sampled_from(oracle.DT_SHAPES), given_parts=st.tuples(*[st.booleans()] * 3),
    grads=st.tuples(*[st.sampled_from(["none", "repeated", "full", "strided"])] * 4), with_sources=st.booleans(),
)  # fmt: skip
def test_any_shape_gives_what_numpy_does(sizes, kind, dt_kind, given_parts, grads, with_sources):
    chain_numba = pytest.importorskip("gradlib.trajectory.chain_numba", exc_type=ImportError)
    rng = np.random.default_rng(0)
    batch, horizon, joints = sizes
    dt = oracle.step_times(rng, dt_kind, batch, horizon)
    u = rng.standard_normal((horizon, batch, joints)).swapaxes(0, 1)
    start = [x if there else None for there, x in zip(given_parts, rng.standard_normal((3, joints, batch)).swapaxes(1, 2), strict=True)]
    for found, expected in zip(chain_numba.forward(u, start, dt, *kind), chain_host.forward(u, start, dt, *kind), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)
    made = {
        "none": None,
        "repeated": np.broadcast_to(rng.standard_normal(), sizes),
        "full": rng.standard_normal(sizes),
        "strided": rng.standard_normal((*sizes[::-1], 2)).T[1],
    }
    each = [made[how] for how in grads]
    if all(x is None for x in each):
        each[0] = made["full"]
    found_all = chain_numba.adjoint(each, dt, sizes, *kind, with_sources)
    for found, expected in zip(found_all, chain_host.adjoint(each, dt, sizes, *kind, with_sources), strict=True):
        assert found.shape == expected.shape
        np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("kind", oracle.DT_SHAPES)
@pytest.mark.parametrize("shape", [(3, 9, 7), (40, 80, 7), (2, 3, 2), (2, 1, 3), (0, 4, 2), (2, 5, 6)])
def test_a_cost_of_every_kind_of_term_is_that_of_numpy(numba, rng, shape, kind):
    """Each state but one, targets of every extent, idle first steps; a gradient whose memory is not contiguous, as with time last."""
    from gradlib.trajectory import cost_numba

    batch, horizon, joints = shape
    motion = [None if k == 2 else rng.standard_normal(shape) for k in range(4)]
    targets = [rng.standard_normal(size) for size in (shape, (1, horizon, joints), (batch, 1, joints), (1, 1, joints))]
    weight = rng.uniform(0.5, 1, (horizon, joints))
    terms = (
        Term(0, weight=weight, lower=-0.5, upper=weight), Term(0, target=targets[0]), Term(0, 1, target=targets[1], weight=weight[:, :1]),
        Term(1, 2, timed=True, weight=weight[0]), Term(1, last=True, target=targets[2]), Term(3, 1, timed=True, target=targets[3]),
        Term(TIME, 2, weight=weight[:, :1], lower=1.0, upper=1.1), Term(TIME, 1), Term(PATH, 1, weight=weight[:, :1], lower=weight[0]),
    )  # fmt: skip
    dt = oracle.step_times(rng, kind, batch, horizon)
    if dt.shape[1] > 1:
        dt[:, 0] = np.nan
    if batch:
        motion[0][:, 1:2] = motion[0][:, :1]  # a step on which nothing moves
    for chosen in (terms, terms[:6], terms[5:], terms[-1:]):
        laid = lay(chosen, horizon, joints, np.dtype(np.float64))
        aims = [term.target for term in targets_of(chosen)]
        for wanted, by_dt in ((True, True), (True, False), (False, False), (False, True)):
            results = []
            for cpu in (cost_host, cost_numba):
                made = [np.full(shape[::-1], np.nan).T if x is not None and wanted else None for x in motion]
                cost = cpu.cost_and_gradient(motion, aims, dt, cpu.row_terms(laid, horizon, joints), made, by_dt)
                results.append((*cost, *made))
            for expected, found in zip(*results, strict=True):
                assert (found is None) == (expected is None)
                if found is not None:
                    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)


@pytest.mark.parametrize("mode", [False, True])
def test_derivatives_of_a_cost_of_motions_either_way(numba, make, device, mode):
    use_numba(mode)
    cost = BoundsCost((0.4,) * 4, power=1) + PathLengthCost() + EnergyCost(1.0, 0.3) + TimeCost(0.5, square=1.0)
    inputs = *(make(2, 4, 3) for _ in range(4)), make.times(2, 4)
    check_derivatives(device, lambda p, v, a, j, dt: cost((p, v, a, j), dt), inputs)


@pytest.mark.parametrize("joints", [1, 3, 7, 17])
@pytest.mark.parametrize("dtype", [np.float32, np.float64])
def test_every_number_of_joints_is_covered(numba, rng, joints, dtype):
    """Lanes overlap where their number does not divide the joints', and end with the last joint of the last trajectory."""
    from gradlib.trajectory import chain_numba

    u, start = rng.standard_normal((3, 6, joints)).astype(dtype), list(rng.standard_normal((3, 3, joints)).astype(dtype))
    wide = [x.astype(np.float64) for x in start]
    around = np.full((4, u.size + 2), np.nan, dtype)  # what lies on either side is not written
    out = [row[1:-1].reshape(u.shape) for row in around]
    chain_numba.forward(u, start, 0.5, 3, out=out)
    for found, expected in zip(out, oracle.chain(u.astype(np.float64), wide, 0.5, 3), strict=True):
        np.testing.assert_allclose(found, expected, rtol=1e-5, atol=1e-5)
    assert np.isnan(around[:, [0, -1]]).all()


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("mode", [False, True])
def test_derivatives_either_way(numba, make, device, step, mode):
    """By a step time for each step too, whose gradient asks for the sources."""
    use_numba(mode)
    batch, horizon, joints = 2, 4, 2
    inputs = make(batch, horizon, joints), *(make(batch, joints) for _ in range(3)), make.times(batch, horizon)
    check_derivatives(device, lambda u, p, v, a, dt: tuple(step(u, (p, v, a), dt)), inputs)


@pytest.mark.parametrize("mode", [False, True])
def test_derivatives_of_a_spline_either_way(numba, make, device, mode):
    use_numba(mode)
    inputs = make(2, 2, 5), *(make(2, 5) for _ in range(6)), make.times(2, 1)

    def motion(knots, *rest):
        return tuple(step_bspline(knots, rest[:3], rest[-1], degree=4, samples_per_knot=2, goal=rest[3:-1]))

    check_derivatives(device, motion, inputs)


def test_a_spline_repeats_bit_for_bit_whatever_the_batch_and_the_layout(numba, rng):
    """With time last NumPy computes, to rounding."""
    knots, goal = rng.standard_normal((5, 3, 6)), (rng.standard_normal((5, 6)),)
    whole = step_bspline(knots, (), 0.01, degree=5, samples_per_knot=3, goal=goal)
    for b in range(5):
        one = step_bspline(knots[b : b + 1], (), 0.01, degree=5, samples_per_knot=3, goal=(goal[0][b : b + 1],))
        for found, expected in zip(one, whole, strict=True):
            np.testing.assert_array_equal(found[0], expected[b])
    last = step_bspline(knots.swapaxes(1, 2).copy(), (), 0.01, degree=5, samples_per_knot=3, goal=goal, layout="bdh")
    for found, expected in zip(last, whole, strict=True):
        np.testing.assert_allclose(np.swapaxes(found, 1, 2), expected, rtol=1e-9, atol=1e-6)


@pytest.mark.nonfinite
def test_what_is_not_finite_in_a_spline_stays_in_its_segments_joint_and_trajectory(numba, rng):
    knots = rng.standard_normal((3, 7, 5))
    clean = [np.array(x) for x in step_bspline(knots, (), 0.5, samples_per_knot=2)]
    knots[1, 2, 1] = np.nan  # point 5: in segments 2 to 5
    for found, before in zip(step_bspline(knots, (), 0.5, samples_per_knot=2), clean, strict=True):
        same = np.ones(before.shape, bool)
        same[1, 4:12, 1] = False
        np.testing.assert_array_equal(np.array(found)[same], before[same])
        assert np.isnan(np.array(found)[1, 4:12, 1]).all()


@pytest.mark.parametrize("limited", [False, True])
@pytest.mark.parametrize("mode", [False, True])
def test_derivatives_of_the_smoothness_cost_either_way(numba, make, device, mode, limited):
    use_numba(mode)
    inputs = make(2, 5, 3), *(make(2, 3) for _ in range(3)), make.times(2, 5)
    limits = JointLimits((-0.3, 0.4), 0.5, 0.2, 0.7) if limited else None
    check_derivatives(device, lambda u, p, v, a, dt: smoothness_cost(u, (p, v, a), dt, (1.0, 0.5, 0.1), limits), inputs)


@pytest.mark.nonfinite
def test_limits_that_bind_nothing_and_a_position_that_is_no_number(numba):
    """A NaN shows in its own cost, and an infinite limit leaves the gradient alone; step 0 has no rate."""
    u = gradlib.tensor([[[0.1], [0.2], [0.3]], [[0.1], [float("nan")], [0.3]]], requires_grad=True)
    wide = JointLimits((-float("inf"), float("inf")), 1e30)
    cost = smoothness_cost(u, (), gradlib.tensor([[0.0, 0.5, 0.5]] * 2), (1.0, 1.0, 1.0), wide)
    use_numba(False)
    plain = smoothness_cost(u, (), 0.5, (1.0, 1.0, 1.0))
    np.testing.assert_allclose(cost.detach(), plain.detach(), rtol=1e-6)
    np.testing.assert_allclose(*(gradlib.autograd.grad(c[0], u)[0][0] for c in (cost, plain)), rtol=1e-5)


@pytest.mark.nonfinite
@pytest.mark.parametrize("mode", [True, False])
def test_the_step_time_that_is_never_used_has_no_slope(numba, mode):
    """Also where the start is not finite."""
    use_numba(mode)
    start, dt = (gradlib.full((2, 3), np.inf), gradlib.full((2, 3), np.nan)), gradlib.ones(2, 4, requires_grad=True)
    cost = smoothness_cost(gradlib.ones(2, 4, 3), start, dt, (1.0, 1.0, 1.0))
    assert gradlib.autograd.grad(cost.sum(), dt)[0][:, 0].tolist() == [0, 0]


@pytest.mark.nonfinite
@pytest.mark.parametrize("value", [np.nan, np.inf, 1e38])
def test_what_is_not_finite_stays_in_its_joint_and_its_trajectory(numba, rng, value):
    u = rng.standard_normal((3, 8, 3)).astype(np.float32)
    clean = [np.array(x) for x in step_jerk(u, (), 0.5)]
    u[1, 2, 1] = value
    motion, same = step_jerk(u, (), 0.5), np.ones(u.shape, bool)
    same[1, 3:, 1] = False
    for found, before in zip(motion, clean, strict=True):
        np.testing.assert_array_equal(np.array(found)[same], before[same])
    assert np.isfinite(value) or not np.isfinite(np.array(motion.position)[1, 3:, 1]).any()


def test_unaligned_arrays_and_shared_start_rows(numba, rng):
    memory = np.zeros(2 * 5 * 3 * 8 + 1, np.uint8)
    u = memory[1:].view(np.float64).reshape(2, 5, 3)
    u[...] = rng.standard_normal(u.shape)
    start = (rng.standard_normal(3), None, rng.standard_normal((1, 3)))
    found = step_acceleration(u, start, 0.1)
    use_numba(False)
    for left, right in zip(found, step_acceleration(u.copy(), start, 0.1), strict=True):
        np.testing.assert_allclose(left, right, rtol=1e-12)


def test_threads_compile_once_and_agree(numba, rng, monkeypatch):
    monkeypatch.setattr(compiled, "_loops", {})
    compiles, compile_one = [], compiled._compile
    monkeypatch.setattr(compiled, "_compile", lambda *given: compiles.append(1) or compile_one(*given))
    u = rng.standard_normal((4, 6, 2))
    with ThreadPoolExecutor(8) as pool:
        made = list(pool.map(lambda _: [np.array(x) for x in step_velocity(u, (), 0.1)], range(16)))
    assert len(compiles) == 1
    for found in made[1:]:
        np.testing.assert_array_equal(found, made[0])


def test_results_repeat_bit_for_bit_whatever_the_batch(numba, rng):
    u = rng.standard_normal((5, 40, 6)).astype(np.float32)
    whole = step_jerk(u, (), 0.01)
    for b in range(5):
        for found, expected in zip(step_jerk(u[b : b + 1], (), 0.01), whole, strict=True):
            np.testing.assert_array_equal(found[0], expected[b])
