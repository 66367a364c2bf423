"""The dense matrices of the specification, row by row."""

from __future__ import annotations

import types

import numpy as np
import pytest

import gradlib
from gradlib.trajectory import (
    action_interpolate_kernel,
    build_clique_matrix,
    build_fd_matrix,
    build_int_matrix,
    build_start_state_mask,
    chain_host as chain,
    interpolate_kernel,
    tensor_linspace,
)
from tests.values import host

SHIFT = np.eye(4, k=-1)


def test_fd_matrix():
    plain = np.array([[-1, 1, 0, 0], [0, -1, 1, 0], [0, 0, -1, 1], [0, 0, 0, 0]])
    for order in (1, 2, 3):
        np.testing.assert_array_equal(host(build_fd_matrix(4, order=order)), np.linalg.matrix_power(plain, order))


def test_fd_matrix_shift():
    shift = np.array([[0, 0, 0, 0], [-1, 1, 0, 0], [0, -1, 1, 0], [0, 0, -1, 1]])
    for order in (1, 2, 3):
        np.testing.assert_array_equal(host(build_fd_matrix(4, order=order, SHIFT=True)), np.linalg.matrix_power(shift, order))


@pytest.mark.parametrize("order", [1, 2, 3])
def test_fd_matrix_prev_state(order):
    made = host(build_fd_matrix(4, order=order, PREV_STATE=True))
    plain = np.eye(4 + order, k=1) - np.eye(4 + order)
    plain[-1] = 0
    assert made.shape == (4, 4 + order)
    np.testing.assert_array_equal(made, -np.linalg.matrix_power(plain, order)[:4])


@pytest.mark.parametrize(
    ("horizon", "expected"),
    [
        (4, [[1, -1, 0, 0], [0, 1, -1, 0], [0, -1, 0, 1], [0, 0, -1, 1]]),
        (5, [[1, -1, 0, 0, 0], [0, 1, -1, 0, 0], [0, -1, 0, 1, 0], [0, 0, -1, 1, 0], [0, 0, 0, -1, 1]]),
    ],
)
def test_fd_matrix_full_rank(horizon, expected):
    made = host(build_fd_matrix(horizon, FULL_RANK=True))
    np.testing.assert_array_equal(made, expected)
    np.testing.assert_array_equal(host(build_fd_matrix(horizon, order=2, FULL_RANK=True)), np.array(expected) @ np.array(expected))


@pytest.mark.parametrize("diagonal", [-1, 0, 1])
@pytest.mark.parametrize("order", [1, 2, 3])
def test_int_matrix(rng, diagonal, order):
    lower, dt = np.tril(np.ones((4, 4)), diagonal), rng.uniform(0.5, 1.5, 4)
    np.testing.assert_allclose(host(build_int_matrix(4, diagonal, order=order)), np.linalg.matrix_power(lower, order))
    made = build_int_matrix(4, diagonal, "cpu", np.float64, order, gradlib.tensor(dt))
    np.testing.assert_allclose(host(made), np.linalg.matrix_power(lower @ np.diag(dt), order))


def test_clique_matrix(rng):
    dt = rng.uniform(0.5, 1.5, 4)
    first = np.diag(1 / dt) @ (np.eye(4) - SHIFT)
    first[0, 0] = 0
    for given in (dt, gradlib.tensor(dt)):
        np.testing.assert_allclose(
            host(build_clique_matrix(4, given, dtype=np.float64)), np.concatenate([SHIFT, first, np.diag(1 / dt) @ first])
        )
    assert build_clique_matrix(4, 0.5).dtype == np.float32


def test_start_state_mask():
    for args in (None, {"device": "cpu", "dtype": np.float32}, types.SimpleNamespace(device="cpu", dtype=np.float32)):
        mask, n_mask = build_start_state_mask(4, args)
        assert mask.dtype == n_mask.dtype == np.float32
        np.testing.assert_array_equal(host(mask), [[1], [0], [0], [0]])
        np.testing.assert_array_equal(host(n_mask), SHIFT)


def test_matrices_give_the_chain(rng):
    """Shifted differences with a start of zero velocity and acceleration are the chain's, from the second step on."""
    u, p0 = rng.standard_normal((1, 6, 2)), rng.standard_normal((1, 2))
    mask, n_mask = (host(x) for x in build_start_state_mask(6, {"dtype": np.float64}))
    position = mask * p0[:, None] + n_mask @ u
    expected = chain.forward(u, (p0, None, None), np.full((1, 1), 1.0), 0)
    np.testing.assert_allclose(position, expected[0])
    for order in (1, 2, 3):
        made = host(build_fd_matrix(6, dtype=np.float64, order=order, SHIFT=True)) @ position
        np.testing.assert_allclose(made[:, order + 1 :], expected[order][:, order + 1 :], atol=1e-12)


def test_interpolate_kernel():
    np.testing.assert_allclose(
        host(interpolate_kernel(3, 3, None)), [[1, 0, 0], [0.5, 0.5, 0], [0, 1, 0], [0, 1, 0], [0, 0.5, 0.5], [0, 0, 1]]
    )
    np.testing.assert_array_equal(host(interpolate_kernel(3, 1)), [[1, 0, 0], [0, 1, 0]])


def test_action_interpolate_kernel():
    np.testing.assert_allclose(
        host(action_interpolate_kernel(3, 3, None)), [[1, 0, 0], [0.5, 0.5, 0], [0, 1, 0], [0, 0, 1], [0, 0, 1], [0, 0, 1]]
    )


def test_tensor_linspace():
    made = tensor_linspace(gradlib.tensor([[0.0], [1.0]]), gradlib.tensor([[1.0], [3.0]]), 4)
    np.testing.assert_allclose(host(made), [[0.25, 0.5, 0.75, 1.0], [1.5, 2.0, 2.5, 3.0]])
    np.testing.assert_allclose(host(tensor_linspace(gradlib.tensor(0.0), gradlib.tensor(1.0))), np.arange(1, 11) / 10, rtol=1e-6)
    np.testing.assert_allclose(tensor_linspace(0.0, 1.0, 2), [0.5, 1.0])


@pytest.mark.parametrize(
    "call",
    [
        lambda: build_fd_matrix(0),
        lambda: build_fd_matrix(3, order=0),
        lambda: interpolate_kernel(1, 2),
        lambda: interpolate_kernel(3, 0),
        lambda: tensor_linspace(0.0, 1.0, 0),
        lambda: build_int_matrix(-1),
    ],
)
def test_sizes_that_make_no_matrix_are_refused(call):
    with pytest.raises(ValueError, match="at least"):
        call()
