"""The documented functions, against the integrators they stand for."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest

import gradlib
from gradlib.autograd import gradcheck
from gradlib.trajectory import (
    JointState,
    build_fd_matrix,
    build_int_matrix,
    build_start_state_mask,
    euler_integrate,
    jit_backward_pos_clique,
    jit_backward_pos_clique_contiguous,
    jit_tensor_step_pos_clique,
    jit_tensor_step_pos_clique_contiguous,
    step_acc_semi_euler,
    tensor_step_acc,
    tensor_step_acc_semi_euler,
    tensor_step_jerk,
    tensor_step_pos,
    tensor_step_pos_clique,
    tensor_step_vel,
)
from tests.trajectory import oracle
from tests.values import host

B, H, D = 2, 6, 3
WIDE = np.float64


@pytest.fixture
def parts(rng, device):
    act = gradlib.tensor(rng.standard_normal((B, H, D)))
    start = [gradlib.tensor(rng.standard_normal((B, D))) for _ in range(3)]
    dt = gradlib.tensor(rng.uniform(0.5, 1.5, H))
    return act, start, dt, build_int_matrix(H, device=device, dtype=WIDE)


def undelayed(act, start, dt, order):
    """The chain with controls that act in their own step: the oracle on actions one step early, without its start step."""
    u = np.concatenate([host(act), host(act)[:, -1:]], axis=1)
    times = np.concatenate([[1.0], host(dt)])[None]
    return [x[:, 1:] for x in oracle.chain(u, [host(s) for s in start], times, order)]


@pytest.mark.parametrize(("function", "order"), [(tensor_step_jerk, 3), (tensor_step_acc, 2), (tensor_step_vel, 1)])
def test_integrating_steps(parts, device, function, order):
    act, start, dt, integrate = parts
    expected = undelayed(act, start, dt, order)
    difference = build_fd_matrix(H, device=device, dtype=WIDE, SHIFT=True)
    for state in (JointState(*start), gradlib.cat(start, -1)):
        made = function(state, act, JointState(), dt, D, integrate, difference)
        for name, value in list(zip(("position", "velocity", "acceleration", "jerk"), expected, strict=True))[: order + 1]:
            np.testing.assert_allclose(host(getattr(made, name)), value, rtol=1e-9, atol=1e-9)
        flat = function(state, act, gradlib.zeros((B, H, 4 * D), dtype=WIDE), dt, D, integrate, difference)
        assert flat.shape == (B, H, 4 * D)
        np.testing.assert_array_equal(host(flat)[..., :D], host(made.position))
    if order < 3:
        higher = [made.velocity, made.acceleration, made.jerk][order - 1 :]
        for lower, upper in pairwise(higher):
            np.testing.assert_allclose(host(upper), host(difference) @ host(lower))


def test_tensor_step_acc_without_fd_matrix_leaves_the_jerk(parts):
    act, start, dt, integrate = parts
    assert tensor_step_acc(JointState(*start), act, JointState(), dt, D, integrate).jerk is None


def test_semi_euler_forms(parts):
    act, start, dt, integrate = parts
    expected = undelayed(act, start, dt, 2)
    diag = gradlib.tensor(np.diag(host(dt)))
    flat = step_acc_semi_euler(gradlib.cat(start[:2], -1), act, diag, D, integrate)
    np.testing.assert_allclose(host(flat), np.concatenate(expected[:3], axis=-1), rtol=1e-9, atol=1e-9)
    made = tensor_step_acc_semi_euler(JointState(*start), act, JointState(), diag, integrate, integrate)
    for found, value in zip(made, expected[:3], strict=False):
        np.testing.assert_allclose(host(found), value, rtol=1e-9, atol=1e-9)
    doubled = tensor_step_acc_semi_euler(JointState(*start), act, JointState(), diag, integrate, 2 * integrate)
    np.testing.assert_allclose(
        host(doubled.position) - host(start[0])[:, None], 2 * (expected[0] - host(start[0])[:, None]), rtol=1e-9, atol=1e-9
    )
    np.testing.assert_allclose(host(euler_integrate(start[1], act, diag, integrate)), expected[1], rtol=1e-9, atol=1e-9)


def test_position_differences(parts, device):
    act, start, _, _ = parts
    difference = build_fd_matrix(H, device=device, dtype=WIDE, SHIFT=True)
    made = tensor_step_pos(JointState(*start), act, JointState(), difference)
    for k, found in enumerate(made):
        np.testing.assert_allclose(host(found), np.linalg.matrix_power(host(difference), k) @ host(act), atol=1e-12)


@pytest.mark.parametrize("forward", [jit_tensor_step_pos_clique, jit_tensor_step_pos_clique_contiguous])
@pytest.mark.parametrize("backward", [jit_backward_pos_clique, jit_backward_pos_clique_contiguous])
def test_matrices_give_what_the_steps_give(parts, rng, device, forward, backward):
    act, start, _, _ = parts
    mask, n_mask = build_start_state_mask(H, {"device": device, "dtype": WIDE})
    fds = [build_fd_matrix(H, device=device, dtype=WIDE, order=k, SHIFT=True) for k in (1, 2, 3)]
    made = forward(act, start[0], mask, n_mask, *fds)
    position = host(mask) * host(start[0])[:, None] + host(n_mask) @ host(act)
    for k, found in enumerate(made):
        np.testing.assert_allclose(host(found), np.linalg.matrix_power(host(fds[0]), k) @ position, atol=1e-10)
    seq = tensor_step_pos_clique(JointState(*start), act, JointState(), (mask, n_mask), fds)
    for found, expected in zip(seq, made, strict=True):
        np.testing.assert_array_equal(host(found), host(expected))
    grads = [gradlib.tensor(rng.standard_normal((B, H, D))) for _ in range(4)]
    u = act.clone().requires_grad_()
    outputs = forward(u, start[0], mask, n_mask, *fds)
    (expected,) = gradlib.autograd.grad(outputs, u, grads)
    np.testing.assert_allclose(host(backward(*grads, n_mask, *fds)), host(expected), rtol=1e-9, atol=1e-9)


def test_every_argument_carries_gradients(parts):
    act, start, dt, integrate = (x.requires_grad_() if isinstance(x, gradlib.Tensor) else x for x in parts)

    def function(act, dt, integrate, *start):
        made = tensor_step_jerk(JointState(*start), act, JointState(), dt, D, integrate)
        return made.position, made.velocity

    assert gradcheck(function, (act, dt, integrate, *(s.requires_grad_() for s in start)))
