"""L-BFGS for many problems at once: minima, independence, and steps that are refused."""

from __future__ import annotations

import numpy as np

from gradlib.trajectory.planning import lbfgs


def rosenbrock(x, rows):
    a, b = x[:, 0], x[:, 1]
    loss = (1 - a) ** 2 + 100 * (b - a * a) ** 2
    return loss, np.stack([-2 * (1 - a) - 400 * a * (b - a * a), 200 * (b - a * a)], axis=1)


def test_every_problem_reaches_its_minimum_by_steps_of_its_own():
    begin = np.array([[-1.2, 1.0], [0.0, 0.0], [1.0, 1.0], [3.0, -2.0]])
    counted = np.zeros(4, int)

    def evaluate(x, rows):
        counted[rows] += 1
        return rosenbrock(x, rows)

    found = lbfgs.minimise(evaluate, begin, 200, 1e-12)
    np.testing.assert_allclose(found, 1, atol=1e-5)
    assert counted[2] == 5, "it began at its minimum"
    assert len(set(counted)) > 2
    for row in range(4):
        alone = lbfgs.minimise(lambda x, rows: rosenbrock(x, rows), begin[row : row + 1], 200, 1e-12)
        np.testing.assert_array_equal(alone[0], found[row])


def test_a_step_to_where_there_is_no_loss_is_refused():
    def evaluate(x, rows):
        with np.errstate(invalid="ignore"):
            loss = np.where(x[:, 0] > 0, x[:, 0] - np.log(x[:, 0], where=x[:, 0] > 0, out=np.zeros(len(x))), np.nan)
        return loss, (1 - 1 / x)

    found = lbfgs.minimise(evaluate, np.array([[50.0], [0.01]]), 100, 1e-14)
    np.testing.assert_allclose(found, 1, rtol=1e-6)


def test_the_best_point_is_returned_when_evaluations_run_out():
    begin = np.array([[-1.2, 1.0]])
    losses = [rosenbrock(lbfgs.minimise(rosenbrock, begin, most, 0), None)[0][0] for most in (1, 5, 10, 20)]
    assert losses == sorted(losses, reverse=True)
    assert losses[0] == rosenbrock(begin, None)[0][0]
