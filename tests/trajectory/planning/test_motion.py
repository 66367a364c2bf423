"""The search space: its end conditions, the closed form of the step time, and the scales."""

from __future__ import annotations

import numpy as np
import pytest

import gradlib
from gradlib.trajectory.planning import motion, sines
from gradlib.trajectory.planning.sines import sine_transform
from tests.trajectory.planning.robots import PANDA, arm, pairs
from tests.values import host


@pytest.mark.parametrize("horizon", [4, 5, 16, 65])
def test_sums_of_sines_are_their_own_inverse(horizon):
    m = horizon - 3
    k = np.arange(1, m + 1)
    basis = np.sin(np.pi * k[:, None] * k / (m + 1)) * np.sqrt(2 / (m + 1))
    given = np.random.default_rng(0).standard_normal((2, m, 3))
    np.testing.assert_allclose(sine_transform(given), basis @ given, atol=1e-12)
    np.testing.assert_allclose(sine_transform(sine_transform(given)), given, atol=1e-12)
    x = gradlib.tensor(given, requires_grad=True)
    assert gradlib.autograd.gradcheck(sine_transform, (x,))
    assert gradlib.autograd.gradgradcheck(sine_transform, (x,))
    assert sine_transform(given.astype(np.float32)).dtype == np.float32


def test_sums_of_sines_are_the_same_on_a_device(device):
    """Where the matrix of a length is made once."""
    given = np.random.default_rng(0).standard_normal((2, 13, 3))
    x = gradlib.tensor(given, device=device)
    np.testing.assert_allclose(host(sine_transform(x)), sine_transform(given), atol=1e-12)
    made = sines.sine_matrix.cache_info().misses
    np.testing.assert_allclose(host(sine_transform(sine_transform(x))), given, atol=1e-12)
    assert sines.sine_matrix.cache_info().misses == made


@pytest.mark.cuda
def test_the_matrix_of_a_length_is_there_for_every_stream():
    found = []
    for _ in range(2):
        with gradlib.cuda.stream(gradlib.cuda.Stream()):
            found.append(sine_transform(gradlib.ones(1, 14, 1, device="cuda")))
    gradlib.cuda.synchronize()
    assert gradlib.equal(*(x.cpu() for x in found))


@pytest.mark.parametrize("horizon", [16, 61])
def test_a_finer_profile_is_the_same_motion(horizon):
    """Sums of the first sines, which both horizons hold, at the steps of the longer one."""
    coarse, m = np.zeros((1, 16, 2)), horizon - 3
    coarse[:, :13] = sine_transform(np.eye(13)[None, :, [0, 2]] + np.eye(13)[None, :, [0, 4]])
    fine = motion.finer(coarse, horizon)
    s = np.arange(1, m + 1) / (m + 1)
    wanted = np.stack([2 * np.sin(np.pi * s), np.sin(3 * np.pi * s) + np.sin(5 * np.pi * s)], axis=1)
    np.testing.assert_allclose(fine[0, :m], wanted / wanted.sum(axis=0), atol=1e-12)
    assert not fine[:, m:].any()


@pytest.mark.parametrize("horizon", [4, 16, 64])
def test_the_start_is_a_symmetric_motion_of_length_one(horizon):
    profile = motion.smooth_start(horizon)
    assert profile.sum() == pytest.approx(1)
    assert (profile[:-3] > 0).all()
    np.testing.assert_allclose(profile[:-3], profile[:-3][::-1])
    assert not profile[-3:].any()


def test_needed_step_is_where_the_first_limit_binds():
    rng, d = np.random.default_rng(0), 7
    profile = np.zeros((5, 20, d))
    profile[:, :-3] = rng.random((5, 17, d))
    distance = rng.standard_normal((5, d))
    dt = motion.needed_step(profile, distance, PANDA)
    v = np.concatenate([np.zeros((5, 1, d)), profile * distance[:, None]], axis=1) / dt[:, None, None]
    a = np.diff(v, axis=1, prepend=0) / dt[:, None, None]
    j = np.diff(a, axis=1, prepend=0) / dt[:, None, None]
    used = [(np.abs(x) / limit).max(axis=(1, 2)) for x, limit in zip((v, a, j), PANDA.rates(), strict=True)]
    np.testing.assert_allclose(np.max(used, axis=0), 1, rtol=1e-12)
    np.testing.assert_allclose(motion.needed_steps(profile, distance, PANDA).max(axis=1), dt)


@pytest.mark.parametrize(("limits", "power"), [({"velocity": 1e-3}, 0), ({"acceleration": 1e-4}, 1), ({"jerk": 1e-5}, 2)])
def test_scales_follow_the_limit_that_binds(limits, power):
    robot = arm(**limits)
    distance = np.ones((1, 1))
    dt = motion.needed_step(motion.smooth_start(34)[None, :, None], distance, robot)
    found = motion.scales(34, distance, dt, robot)[0, :, 0]
    w = np.sin(np.pi * np.arange(1, 32) / 64) ** power
    np.testing.assert_allclose(found * w, (found * w)[-1], rtol=0.35)


def test_a_joint_that_does_not_move_gets_a_finite_scale():
    start, goal = pairs(3)
    distance = (goal - start) * [1, 0, 1, 1, 1, 1, 1]
    profile = np.broadcast_to(motion.smooth_start(16)[None, :, None], (3, 16, 7))
    assert np.isfinite(motion.scales(16, distance, motion.needed_step(profile, distance, PANDA), PANDA)).all()


def test_positions_have_exact_ends_and_stay_inside_the_limits():
    robot = arm(lower=0.0, upper=1.0)
    profile = np.zeros((2, 12, 1))
    profile[:, :9, 0] = motion.smooth_start(12)[:9]
    profile[1, :9, 0] += [-0.2, 0.2, 0, 0, 0, 0, 0, 0.1, -0.1]  # swings back below the start
    start, goal = np.zeros((2, 1)), np.array([[1.0], [1.0]])
    path = motion.positions(profile, start, goal, robot)
    assert (path[:, 0] == start).all()
    assert (path[:, -3:] == goal[:, None]).all()
    assert path.min() >= 0
    assert path.max() <= 1
    np.testing.assert_allclose(np.diff(path[0, :, 0]), profile[0, :11, 0], atol=1e-15)
    assert motion.positions(profile, start, goal, arm())[1].min() == pytest.approx(profile[1, 0, 0])  # where there is room, it may swing


def test_joints_with_time_to_spare_are_drawn_towards_the_smooth_path():
    start, goal = pairs(20)
    rng = np.random.default_rng(1)
    profile = np.zeros((20, 32, 7))
    profile[:, :29] = motion.smooth_start(32)[:29, None] * (1 + 0.3 * rng.random((20, 29, 7)))
    profile /= profile.sum(axis=1, keepdims=True)
    distance = goal - start
    before = motion.needed_steps(profile, distance, PANDA)
    result = motion.smoothed(profile, distance, PANDA)
    after = motion.needed_steps(result, distance, PANDA)
    np.testing.assert_allclose(result.sum(axis=1), 1)
    assert (after <= before.max(axis=1, keepdims=True) * (1 + 1e-12)).all()
    roughness = lambda x: np.square(np.diff(x, n=3, axis=1)).sum(axis=1)  # noqa: E731
    assert (roughness(result) <= roughness(profile) * (1 + 1e-9)).mean() > 0.95
    assert (roughness(result) < 0.5 * roughness(profile)).mean() > 0.8
