"""SciPy's minimisers, root finders and integrators of differential equations on nests of tensors, with derivatives from the tape.

SciPy works on the host in float64, on the elements of all parameters as one vector. The functions here have its names, arguments, options
and results; what is theirs is the nest and the derivatives.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from gradlib.backend.loading import needed_by
from gradlib.core.tensor import Tensor
from gradlib.func.tree import Structure
from gradlib.optim.nest import Differentiated, Nest

__all__ = ["least_squares", "minimize", "root", "solve_ivp"]

_WITHOUT_GRADIENT = ("nelder-mead", "powell", "cobyla", "cobyqa")
_BY_PRODUCT = ("newton-cg", "trust-ncg", "trust-krylov", "trust-constr")
_BY_MATRIX = ("dogleg", "trust-exact")


def minimize(
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    method: Any = None,
    jac: Any = None,
    hess: Any = None,
    hessp: Any = None,
    bounds: Any = None,
    constraints: Any = (),
    tol: float | None = None,
    callback: Callable[..., Any] | None = None,
    options: dict[str, Any] | None = None,
) -> Any:
    """Minimise a scalar function of nested parameters by one of SciPy's methods, with gradients and Hessians from the tape.

    Args:
        fun: takes the parameters as tensors, nested as ``x0``, and ``args``; returns a real tensor of one element.
        x0: where to start: a tensor, an array, a list of numbers, or a nest (dicts, lists, tuples) of tensors, arrays and numbers.
        args: further arguments of ``fun`` and the derivatives.
        method: as SciPy names it; BFGS, L-BFGS-B with bounds or SLSQP with constraints by default.
        jac: None for the gradient from the tape; a function of the nest that returns a nest; "2-point", "3-point" or False for SciPy's
            differences.
        hess: None for the tape's where the method wants one; a function of the nest that returns a matrix; what else SciPy takes.
        hessp: None for the tape's product with a vector; a function of the nest and a direction, nested alike, that returns a nest.
        bounds: as SciPy takes them, for all elements one after the other; for a nest also a nest of pairs (low, high), one for each leaf.
        constraints: as SciPy takes them; their functions get the nest and return a tensor or a nest, and derivatives that they lack are the
            tape's.
        tol: as SciPy has it.
        callback: as SciPy calls it, with the nest for the vector.
        options: as SciPy names them for the method.
    Returns: SciPy's OptimizeResult, whose ``x`` is nested as ``x0``, of its dtypes, on its devices; the rest is SciPy's.
    Raises: ModuleNotFoundError without SciPy; TypeError for complex numbers and for a function of several results; RuntimeError where
        the result has no recorded derivative; what ``fun`` raises.
    Source: scipy.optimize.minimize.
    Example:
        >>> import scipy
        >>> def bowl(p):
        ...     return (p["a"] - 1).square().sum() + (p["b"] + 2) ** 2
        >>> found = gradlib.optim.minimize(bowl, {"a": gradlib.zeros(2), "b": 0.0})
        >>> found.x["a"], round(found.x["b"], 4)
        (tensor([1.0000, 1.0000]), -2.0)
    """
    with needed_by("gradlib.optim.minimize", "scipy"):
        import scipy.optimize

    nest = Nest(x0, "x0")
    objective = Differentiated(fun, nest, "the function to minimise")
    name = method.lower() if isinstance(method, str) else ""
    given: dict[str, Any] = {"fun": objective.value, "jac": _vector_function(nest, jac)}
    if jac is None and name not in _WITHOUT_GRADIENT:
        given.update(fun=objective.value_and_gradient, jac=True)
    if hess is not None or hessp is not None:
        given.update(hess=_matrix_function(nest, hess), hessp=_product_function(nest, hessp))
    elif name in _BY_PRODUCT:
        given["hessp"] = objective.hessian_product
    elif name in _BY_MATRIX:
        given["hess"] = objective.hessian
    result = scipy.optimize.minimize(
        x0=nest.start, args=args if isinstance(args, tuple) else (args,), method=method, bounds=_bounds(nest, bounds), tol=tol,
        constraints=_constraints(nest, constraints, name == "trust-constr"), callback=_callback(nest, callback), options=options, **given,
    )  # fmt: skip
    result.x = nest.restored(result.x)
    return result


def least_squares(fun: Callable[..., Any], x0: Any, jac: Any = None, bounds: Any = None, *, args: Any = (), **options: Any) -> Any:
    """Minimise a sum of squared residuals by one of SciPy's methods, with the Jacobian from the tape.

    Args:
        fun: takes the parameters as tensors, nested as ``x0``, and ``args``; returns the residuals as a real tensor, or a nest of them.
        x0: where to start, as in ``minimize``.
        jac: None for the tape's Jacobian, in forward mode where there are more residuals than parameters; a function of the nest that
            returns the matrix; "2-point", "3-point" or "cs" for SciPy's differences.
        bounds: as SciPy takes them, for all elements one after the other, or for a nest a nest of pairs, as in ``minimize``.
        args: further arguments of ``fun``.
        options: as SciPy names them: ``method``, ``loss``, ``ftol``, ``x_scale``, ``max_nfev``, ...
    Returns: SciPy's OptimizeResult, whose ``x`` is nested as ``x0``.
    Raises: as ``minimize``.
    Source: scipy.optimize.least_squares.
    Example:
        >>> import scipy
        >>> times = gradlib.tensor([0.0, 1.0, 2.0], dtype=gradlib.float64)
        >>> measured = 3 * (-0.5 * times).exp()
        >>> found = gradlib.optim.least_squares(lambda p: p["size"] * (-p["rate"] * times).exp() - measured, {"size": 1.0, "rate": 1.0})
        >>> {name: round(value, 4) for name, value in found.x.items()}
        {'size': 3.0, 'rate': 0.5}
    """
    with needed_by("gradlib.optim.least_squares", "scipy"):
        import scipy.optimize

    nest = Nest(x0, "x0")
    residuals = Differentiated(fun, nest, "the function of residuals")
    if bounds is not None:
        options["bounds"] = _bounds(nest, bounds)
        if isinstance(options["bounds"], list):
            options["bounds"] = scipy.optimize.Bounds(*np.transpose(options["bounds"]))
    options["callback"] = _callback(nest, options.get("callback"))
    if options["callback"] is None:
        del options["callback"]  # which SciPy before 1.16 does not know
    given = residuals.jacobian if jac is None else _matrix_function(nest, jac)
    result = scipy.optimize.least_squares(residuals.values, nest.start, given, args=tuple(args), **options)
    result.x = nest.restored(result.x)
    return result


def root(
    fun: Callable[..., Any],
    x0: Any,
    args: Any = (),
    method: str = "hybr",
    jac: Any = None,
    tol: float | None = None,
    callback: Callable[..., Any] | None = None,
    options: dict[str, Any] | None = None,
) -> Any:
    """Find where a function of nested parameters is zero by one of SciPy's methods, with the Jacobian from the tape.

    Args:
        fun: takes the parameters as tensors, nested as ``x0``, and ``args``; returns as many numbers, as a tensor or a nest of them.
        x0: where to start, as in ``minimize``.
        args: further arguments of ``fun``.
        method: as SciPy names it; "hybr" and "lm" take a Jacobian, the others find their own.
        jac: None for the tape's Jacobian; a function of the nest that returns the matrix; False for SciPy's differences.
        tol: as SciPy has it.
        callback: as SciPy calls it, with the nest for the vector.
        options: as SciPy names them for the method.
    Returns: SciPy's OptimizeResult, whose ``x`` is nested as ``x0``.
    Raises: as ``minimize``.
    Source: scipy.optimize.root.
    Example:
        >>> import scipy
        >>> found = gradlib.optim.root(lambda x: x * x.exp() - 1, gradlib.tensor([1.0], dtype=gradlib.float64))
        >>> found.x
        tensor([0.5671], dtype=float64)
    """
    with needed_by("gradlib.optim.root", "scipy"):
        import scipy.optimize

    nest = Nest(x0, "x0")
    function = Differentiated(fun, nest, "the function whose root is sought")
    wanted = jac is None and method.lower() in ("hybr", "lm")
    result = scipy.optimize.root(
        function.values, nest.start, args=args if isinstance(args, tuple) else (args,), method=method, tol=tol, options=options,
        jac=function.jacobian if wanted else _matrix_function(nest, jac), callback=_callback(nest, callback),
    )  # fmt: skip
    result.x = nest.restored(result.x)
    return result


def solve_ivp(
    fun: Callable[..., Any], t_span: Any, y0: Any, method: Any = "RK45", *, events: Any = None, args: Any = None, **options: Any
) -> Any:
    """Integrate dy/dt = f(t, y) for a nested state by one of SciPy's methods, with the Jacobian of implicit ones from the tape.

    The integration itself is not recorded: its result has no gradient.

    Args:
        fun: takes the time as a float, the state as tensors, nested as ``y0``, and ``args``; returns the rate of change, nested alike.
        t_span: the first and the last time.
        y0: the state at the first, as ``x0`` in ``minimize``.
        method: as SciPy names it; "Radau", "BDF" and "LSODA" take a Jacobian.
        events: as SciPy takes them, functions of the time and the nest.
        args: further arguments of ``fun`` and the events.
        options: as SciPy names them: ``t_eval``, ``dense_output``, ``rtol``, ``atol``, ...; ``jac`` for a function of time and nest that
            returns the matrix, or whatever SciPy takes.
    Returns: SciPy's OdeResult; ``y`` is nested as ``y0``, each leaf with the times as a further, last dimension, as are the values of
        ``sol``; ``y_events`` are SciPy's vectors.
    Raises: as ``minimize``; ValueError for ``vectorized=True``.
    Source: scipy.integrate.solve_ivp.
    Example:
        >>> import scipy
        >>> decay = gradlib.optim.solve_ivp(lambda t, y: -1000 * y, (0, 1), gradlib.ones(1, dtype=gradlib.float64), "BDF")
        >>> decay.success, decay.njev > 0, bool(decay.y[0, -1].abs() < 1e-3)
        (True, True, True)
    """
    with needed_by("gradlib.optim.solve_ivp", "scipy"):
        import scipy.integrate

    if options.get("vectorized"):
        raise ValueError("vectorized=True hands on several states at once, which a nest has no place for; leave it out")
    nest = Nest(y0, "y0")
    function = Differentiated(fun, nest, "the rate of change")
    jac = options.pop("jac", None)
    if method in ("Radau", "BDF", "LSODA"):
        options["jac"] = _timed(function.jacobian) if jac is None else _matrix_function(nest, jac, timed=True)
    elif jac is not None:
        options["jac"] = jac
    result = scipy.integrate.solve_ivp(
        _timed(function.values), t_span, nest.start, method, events=_events(nest, events), args=args, **options
    )
    result.y = nest.restored(result.y, rows=True)
    if result.sol is not None:
        result.sol = _Dense(result.sol, nest)
    return result


class _Dense:
    """The solution between the steps, nested as the state. ``solution`` is SciPy's own."""

    def __init__(self, solution: Any, nest: Nest) -> None:
        self.solution = solution
        self._nest = nest

    def __call__(self, t: Any) -> Any:
        """The state at a time, or at several, which are then the last dimension."""
        return self._nest.restored(self.solution(t), rows=True)


# ---- what users give, as SciPy wants it ------------------------------------------------------------------------------------------------


def _is_function(value: Any) -> bool:
    """Whether a user's jac, hess or hessp is a function, and not one of SciPy's own ways to find it.

    Raises: ValueError for True, by which SciPy knows functions that return their derivative too.
    """
    if value is True:
        raise ValueError("jac=True is not taken: leave jac out to differentiate by the tape, or pass a function that gives the derivative")
    from scipy.optimize import HessianUpdateStrategy

    return callable(value) and not isinstance(value, HessianUpdateStrategy)


def _vector_function(nest: Nest, function: Any) -> Any:
    """A function of the nest that returns a nest, as one of vectors; what is no function as it is."""
    return Differentiated(function, nest, "jac").values if _is_function(function) else function


def _matrix_function(nest: Nest, function: Any, timed: bool = False) -> Any:
    """A function of the nest that returns a matrix, as one of the vector; what is no function as it is."""
    if not _is_function(function):
        return function

    def of_vector(vector: np.ndarray, *args: Any, before: tuple[Any, ...] = ()) -> np.ndarray:
        made = function(*before, nest.of_tensors(nest.split(vector)), *args)
        return made.detach().cpu().numpy() if isinstance(made, Tensor) else np.asarray(made)

    return _timed(of_vector) if timed else of_vector


def _product_function(nest: Nest, function: Any) -> Any:
    """A user's hessp, which takes a direction nested as the parameters."""
    if not _is_function(function):
        return function

    def of_vectors(vector: np.ndarray, direction: np.ndarray, *args: Any) -> np.ndarray:
        along = nest.of_tensors(nest.split(np.asarray(direction).reshape(-1)))
        return Differentiated(lambda x: function(x, along, *args), nest, "hessp").values(vector)

    return of_vectors


def _timed(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function with arguments in front of the vector, as SciPy calls it: the time first."""
    return lambda t, y, *args: function(y, *args, before=(t,))


def _bounds(nest: Nest, bounds: Any) -> Any:
    """SciPy's bounds as they are; a nest of pairs as one pair for each element."""
    import scipy.optimize

    if bounds is None or isinstance(bounds, scipy.optimize.Bounds) or nest.structure.kind is None:
        return bounds
    if isinstance(bounds, (list, tuple)) and nest.structure.keys is not None:  # pairs, one after the other
        return bounds
    found: list[tuple[Any, Any]] = []
    for (low, high), like in zip(_pairs(bounds, nest.structure), nest.tensors, strict=True):
        given = -np.inf if low is None else low, np.inf if high is None else high
        ends = [np.broadcast_to(np.asarray(end, dtype=np.float64), like.shape).ravel() for end in given]
        found += zip(*ends, strict=True)
    return found


def _pairs(bounds: Any, structure: Structure) -> list[tuple[Any, Any]]:
    """The pair for each leaf of a nest of pairs; a None stands for no bounds on all that is nested there."""
    if structure.kind is None:
        if bounds is None:
            return [(None, None)]
        if not isinstance(bounds, (tuple, list)) or len(bounds) != 2:
            raise ValueError(f"bounds of a nest are a pair (low, high) for each of its leaves, got {bounds!r} for one")
        return [(bounds[0], bounds[1])]
    keys: Any = structure.keys if structure.keys is not None else range(len(structure.children))
    if bounds is not None and (len(bounds) != len(keys) or (structure.keys is not None and set(bounds) != set(keys))):
        raise ValueError(f"bounds are nested as x0, {structure}; got {bounds!r}")
    found = []
    for key, child in zip(keys, structure.children, strict=True):
        found += _pairs(None if bounds is None else bounds[key], child)
    return found


def _constraints(nest: Nest, constraints: Any, second: bool) -> Any:
    """Each constraint on the vector, with the tape's derivatives where it has none.

    Args:
        second: whether the method takes second derivatives of constraints.
    """
    import scipy.optimize

    several = isinstance(constraints, (list, tuple))
    found = []
    for each in constraints if several else [constraints]:
        if isinstance(each, dict) and second and each.get("jac") is None:
            args = each.get("args", ())
            fun = _with_args(each["fun"], args if isinstance(args, tuple) else (args,))
            high = 0 if each["type"].lower() == "eq" else np.inf
            found.append(_nonlinear(nest, scipy.optimize.NonlinearConstraint(fun, 0, high), second))
        elif isinstance(each, dict):
            function = Differentiated(each["fun"], nest, "the function of a constraint")
            jac = each.get("jac")
            found.append({**each, "fun": function.values, "jac": function.jacobian if jac is None else _matrix_function(nest, jac)})
        elif isinstance(each, scipy.optimize.NonlinearConstraint):
            found.append(_nonlinear(nest, each, second))
        else:
            found.append(each)
    return found if several else found[0]


def _with_args(function: Callable[..., Any], args: tuple[Any, ...]) -> Callable[..., Any]:
    return lambda x: function(x, *args)


def _nonlinear(nest: Nest, constraint: Any, second: bool) -> Any:
    import scipy.optimize

    function = Differentiated(constraint.fun, nest, "the function of a constraint")
    own = constraint.jac
    by_default = isinstance(own, str) and own == "2-point"
    hess = constraint.hess
    if second and by_default and type(hess) is scipy.optimize.BFGS:  # what SciPy takes where nothing is said
        hess = _weighted(function)
    return scipy.optimize.NonlinearConstraint(
        function.values, constraint.lb, constraint.ub, jac=function.jacobian if by_default else _matrix_function(nest, own), hess=hess,
        keep_feasible=constraint.keep_feasible, finite_diff_rel_step=constraint.finite_diff_rel_step,
        finite_diff_jac_sparsity=constraint.finite_diff_jac_sparsity,
    )  # fmt: skip


def _weighted(function: Differentiated) -> Callable[[np.ndarray, np.ndarray], np.ndarray]:
    """The Hessian of a constraint's results, each times its multiplier."""
    return lambda vector, multipliers: function.hessian(vector, weights=multipliers)


def _callback(nest: Nest, callback: Any) -> Any:
    """SciPy calls it with one argument or with several, and tells by its signature whether with a result."""
    if callback is None:
        return None
    if set(inspect.signature(callback).parameters) == {"intermediate_result"}:

        def with_result(intermediate_result: Any) -> Any:
            shown = type(intermediate_result)(intermediate_result)  # SciPy goes on with its own
            shown.x = nest.restored(shown.x)
            return callback(intermediate_result=shown)

        return with_result
    return lambda vector, *others: callback(nest.restored(vector), *others)


def _events(nest: Nest, events: Any) -> Any:
    """Events of the vector, with the attributes ``terminal`` and ``direction`` of the user's."""
    if events is None:
        return None
    if not callable(events):
        return [_events(nest, each) for each in events]
    function = Differentiated(events, nest, "an event")

    @functools.wraps(events)
    def event(t: float, y: np.ndarray, *args: Any) -> float:
        return float(function.values(y, *args, before=(t,))[0])

    for name in ("terminal", "direction"):
        if hasattr(events, name):
            setattr(event, name, getattr(events, name))
    return event
