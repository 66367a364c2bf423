"""SciPy's solvers on nests of tensors. Skipped where SciPy is not installed."""

from __future__ import annotations

import numpy as np
import pytest

import gradlib
from gradlib.optim import least_squares, minimize, root, solve_ivp

scipy = pytest.importorskip("scipy")
pytest.importorskip("scipy.optimize")
pytest.importorskip("scipy.integrate")

pytestmark = pytest.mark.nonfinite  # SciPy's methods try steps that overflow


def rosenbrock(x):
    return (100 * (x[1:] - x[:-1] ** 2) ** 2 + (1 - x[:-1]) ** 2).sum()


START = [1.3, 0.7, 0.8, 1.9, 1.2]
GRADIENT = ["CG", "BFGS", "L-BFGS-B", "TNC", "SLSQP", None]
SECOND = ["Newton-CG", "trust-ncg", "trust-krylov", "trust-constr", "dogleg", "trust-exact"]


@pytest.mark.parametrize("method", GRADIENT + SECOND)
def test_each_method_that_takes_derivatives_finds_rosenbrocks_valley(method):
    start = gradlib.tensor([1.1, 1.1] if method == "dogleg" else START, dtype=gradlib.float64)  # dogleg wants a positive Hessian
    found = minimize(rosenbrock, start, method=method, tol=1e-9)
    assert (found.x.dtype, found.x.device) == (start.dtype, start.device)
    np.testing.assert_allclose(found.x.tolist(), np.ones(len(start)), atol=1e-3)


@pytest.mark.host
@pytest.mark.parametrize("method", GRADIENT + SECOND[:4])
def test_steps_are_those_of_scipy_with_derivatives_by_hand(method):
    second = {"hessp": scipy.optimize.rosen_hess_prod} if method in SECOND else {}
    expected = scipy.optimize.minimize(scipy.optimize.rosen, START, jac=scipy.optimize.rosen_der, method=method, **second)
    found = minimize(rosenbrock, START, method=method)
    assert isinstance(found.x, np.ndarray)
    np.testing.assert_allclose(found.x, expected.x, rtol=1e-4)
    assert abs(found.nit - expected.nit) <= 2


@pytest.mark.host
@pytest.mark.parametrize("method", ["Nelder-Mead", "Powell", "COBYLA", "COBYQA"])
def test_methods_without_derivatives_record_nothing(method):
    recorded = []
    found = minimize(lambda x: recorded.append(x.requires_grad) or (x * x).sum(), [1.0, 2.0], method=method)
    np.testing.assert_allclose(found.x, 0, atol=1e-3)
    assert not any(recorded)


def test_nests_are_restored_with_dtypes_devices_and_kinds_of_leaves(device):
    start = {"w": gradlib.ones(2, 3), "rest": [np.zeros(2, np.float32), 3.0]}
    seen = []

    def bowl(p):
        seen.append(p)
        return (p["w"] - 2).square().sum().double() + ((p["rest"][0].to(device) - 1).square().sum() + (p["rest"][1] + 1).to(device) ** 2)

    if device == "cuda":
        start["rest"] = [gradlib.zeros(2), 3.0]
    found = minimize(bowl, start)
    assert all(isinstance(each, gradlib.Tensor) for each in (seen[0]["w"], *seen[0]["rest"]))
    assert (found.x["w"].dtype, found.x["w"].shape, found.x["w"].device) == (gradlib.float32, (2, 3), start["w"].device)
    np.testing.assert_allclose(found.x["w"].tolist(), 2 * np.ones((2, 3)), atol=1e-4)
    assert type(found.x["rest"][0]) is type(start["rest"][0])
    assert type(found.x["rest"][1]) is float
    assert abs(found.x["rest"][1] + 1) < 1e-4


@pytest.mark.host
def test_bounds_as_scipy_has_them_and_nested():
    for bounds in ([(1, None), (-3, -2)], scipy.optimize.Bounds([1, -3], [np.inf, -2])):
        found = minimize(lambda x: (x * x).sum(), [2.0, -2.5], bounds=bounds)
        np.testing.assert_allclose(found.x, [1, -2])
    start = {"a": gradlib.ones(2), "b": [1.0, 5.0]}
    nested = {"a": (np.array([0.5, 0.25]), None), "b": [None, (2, 6)]}
    found = minimize(lambda p: (p["a"] ** 2).sum() + p["b"][0] ** 2 + p["b"][1] ** 2, start, bounds=nested)
    np.testing.assert_allclose(found.x["a"].tolist(), [0.5, 0.25])
    np.testing.assert_allclose(found.x["b"], [0, 2], atol=1e-6)
    with pytest.raises(ValueError, match="nested as x0"):
        minimize(lambda p: p["a"].sum(), {"a": gradlib.ones(2)}, bounds={"c": (0, 1)})
    with pytest.raises(ValueError, match="a pair"):
        minimize(lambda p: p["a"].sum(), {"a": gradlib.ones(2)}, bounds={"a": 3})


@pytest.mark.host
@pytest.mark.parametrize("method", ["SLSQP", "trust-constr", "COBYLA", "COBYQA"])
def test_constraints_are_met(method):
    on_line = {"type": "eq", "fun": lambda x: x.sum() - 1}
    inside = {"type": "ineq", "fun": lambda x: 0.3 - x[:1]}
    found = minimize(lambda x: (x * x).sum(), [0.2, 0.1], method=method, constraints=[on_line, inside])
    np.testing.assert_allclose(found.x, [0.3, 0.7], atol=1e-3)


@pytest.mark.host
@pytest.mark.parametrize("method", ["SLSQP", "trust-constr"])
def test_nonlinear_constraints_have_the_tapes_derivatives(method):
    circle = scipy.optimize.NonlinearConstraint(lambda p: p["x"] ** 2 + p["y"] ** 2, 1, 1)
    several = scipy.optimize.NonlinearConstraint(lambda p: [p["x"] * p["y"], p["x"] - p["y"] ** 2], [-10, -10], np.inf)
    linear = scipy.optimize.LinearConstraint([[1, -1]], 0, np.inf)
    start = {"x": gradlib.tensor(0.9, dtype=gradlib.float64), "y": -0.2}
    found = minimize(lambda p: p["x"] + 2 * p["y"], start, method=method, constraints=[circle, several, linear])
    np.testing.assert_allclose([found.x["x"].item(), found.x["y"]], [-1 / 5**0.5, -2 / 5**0.5], atol=1e-4)


@pytest.mark.host
def test_derivatives_of_ones_own_are_used():
    calls = []
    start = {"x": gradlib.tensor([3.0, 4.0], dtype=gradlib.float64)}

    def gradient(p):
        calls.append("jac")
        return {"x": 2 * p["x"]}

    minimize(lambda p: (p["x"] ** 2).sum(), start, jac=gradient)
    found = minimize(
        lambda p: (p["x"] ** 2).sum(), start, method="Newton-CG", hessp=lambda p, v: calls.append("hessp") or {"x": 2 * v["x"]}
    )
    assert set(calls) == {"jac", "hessp"}
    np.testing.assert_allclose(found.x["x"].tolist(), 0, atol=1e-8)
    minimize(lambda p: (p["x"] ** 2).sum(), start, method="trust-exact", hess=lambda p: calls.append("hess") or 2 * np.eye(2))
    assert "hess" in calls
    assert minimize(lambda p: (p["x"] ** 2).sum(), start, method="BFGS", jac="2-point").success


@pytest.mark.host
def test_arguments_options_and_callbacks():
    seen = []
    found = minimize(
        lambda x, a, b: ((x["v"] - a) ** 2).sum() * b, {"v": gradlib.zeros(2)}, args=(2, 3), options={"maxiter": 1},
        callback=lambda x: seen.append(x["v"].shape),
    )  # fmt: skip
    assert (found.nit, seen) == (1, [(2,)])
    for method in ("BFGS", "trust-constr"):
        results = []

        def keep(intermediate_result, results=results):
            results.append(intermediate_result)

        keep.__signature__ = __import__("inspect").signature(lambda intermediate_result: None)
        found = minimize(lambda x: ((x["v"] - 1) ** 2).sum(), {"v": gradlib.zeros(2)}, method=method, callback=keep)
        assert results[-1].x["v"].shape == (2,)
        assert found.x["v"].shape == (2,)


@pytest.mark.host
def test_what_cannot_be_is_refused_and_errors_come_through():
    with pytest.raises(TypeError, match="x0 is real"):
        minimize(lambda x: x.abs().sum(), gradlib.ones(2, dtype=gradlib.complex64))
    with pytest.raises(TypeError, match="real numbers"):
        minimize(lambda x: (x * 1j).sum(), gradlib.ones(2))
    with pytest.raises(TypeError, match="nest of tensors"):
        minimize(lambda x: x, {"a": "text"})
    for solve in (minimize, least_squares, root):
        with pytest.raises(ValueError, match="jac=True is not taken"):
            solve(lambda x: (x.sum(), x), [1.0], jac=True)
    with pytest.raises(TypeError, match="returns one number, got 2"):
        minimize(lambda x: x, gradlib.ones(2))
    with pytest.raises(RuntimeError, match="jac='2-point'"):
        minimize(lambda x: x.detach().sum(), gradlib.ones(2))

    def fails(x):
        raise ZeroDivisionError("mine")

    for solver in (minimize, least_squares, root, lambda f, x: solve_ivp(lambda t, y: f(y), (0, 1), x)):
        with pytest.raises(ZeroDivisionError, match="mine"):
            solver(fails, gradlib.ones(2))


@pytest.mark.host
@pytest.mark.parametrize("method", ["trf", "dogbox", "lm"])
def test_least_squares_of_more_residuals_than_parameters_and_of_fewer(method):
    times = gradlib.linspace(0, 2, 20, dtype=gradlib.float64)

    def residuals(p):
        return {"fit": p["size"] * (-p["rate"] * times).exp() - 3 * (-0.5 * times).exp(), "prior": 0 * p["rate"]}

    found = least_squares(residuals, {"size": 1.0, "rate": 1.0}, method=method)
    np.testing.assert_allclose([found.x["size"], found.x["rate"]], [3, 0.5])
    assert found.jac.shape == (21, 2)
    by_difference = least_squares(residuals, {"size": 1.0, "rate": 1.0}, "3-point", method=method)
    np.testing.assert_allclose(found.jac, by_difference.jac, rtol=1e-4, atol=1e-6)
    if method != "lm":
        few = least_squares(lambda x: x.sum() - 1, [0.1, 0.2, 0.1], bounds=(0, 0.5), method=method)
        np.testing.assert_allclose(few.x.sum(), 1, rtol=1e-6)
        bounded = least_squares(residuals, {"size": 1.0, "rate": 1.0}, bounds={"size": (0, 2), "rate": None}, method=method)
        assert bounded.x["size"] <= 2


@pytest.mark.host
def test_residuals_by_a_function_without_forward_mode():
    class Square(gradlib.autograd.Function):
        @staticmethod
        def forward(ctx, x):
            ctx.save_for_backward(x)
            return x * x

        @staticmethod
        def backward(ctx, g):
            return 2 * ctx.saved_tensors[0] * g

    found = least_squares(lambda x: gradlib.cat([Square.apply(x) - 4, x - 2]), [1.0])
    np.testing.assert_allclose(found.x, [2])


@pytest.mark.host
@pytest.mark.parametrize("method", ["hybr", "lm", "broyden1"])
def test_root_of_a_nest(method):
    def equations(p):
        return [p["x"] + 0.5 * (p["x"] - p["y"]) ** 3 - 1, 0.5 * (p["y"] - p["x"]) ** 3 + p["y"]]

    found = root(equations, {"x": 0.0, "y": gradlib.zeros((), dtype=gradlib.float64)}, method=method)
    np.testing.assert_allclose([found.x["x"], found.x["y"].item()], [0.8411639, 0.1588361], rtol=1e-4)
    assert found.get("njev", 1) >= 1


@pytest.mark.host
@pytest.mark.parametrize("method", ["RK45", "DOP853", "Radau", "BDF", "LSODA"])
def test_solve_ivp(method):
    def van_der_pol(t, y, mu):
        return {"x": y["v"], "v": mu * (1 - y["x"] ** 2) * y["v"] - y["x"]}

    start = {"x": gradlib.tensor([2.0, 1.0], dtype=gradlib.float64), "v": np.zeros(2)}

    def crossing(t, y, mu):
        return y["x"][0]

    crossing.direction = -1
    found = solve_ivp(
        van_der_pol, (0, 3), start, method, args=(5.0,), t_eval=[0, 1, 3], dense_output=True, rtol=1e-8, atol=1e-8, events=crossing
    )

    def flat(t, y):
        return np.concatenate([y[2:], 5 * (1 - y[:2] ** 2) * y[2:] - y[:2]])

    expected = scipy.integrate.solve_ivp(flat, (0, 3), [2, 1, 0, 0], "DOP853", t_eval=[0, 1, 3], rtol=1e-10, atol=1e-10)
    np.testing.assert_allclose(found.y["x"].numpy(), expected.y[:2], rtol=1e-5, atol=1e-5)
    assert isinstance(found.y["v"], np.ndarray)
    np.testing.assert_allclose(found.sol(1.0)["v"], expected.y[2:, 1], rtol=1e-4, atol=1e-4)
    assert found.sol([0.0, 1.0])["x"].shape == (2, 2)
    assert len(found.t_events) == 1
    assert (found.njev > 0) == (method in ("Radau", "BDF"))  # LSODA finds it not stiff
    with pytest.raises(ValueError, match="vectorized"):
        solve_ivp(van_der_pol, (0, 3), start, vectorized=True)
