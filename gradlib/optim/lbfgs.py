"""L-BFGS: quasi-Newton steps from the last few gradients."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from gradlib.backend.array import Array, namespace, on_device_of, zeros_like
from gradlib.core.grad_mode import no_grad
from gradlib.core.tensor import Tensor, wrap
from gradlib.optim.line_search import Point, strong_wolfe
from gradlib.optim.optimizer import Closure, Optimizer, evaluated, number, real, write


class LBFGS(Optimizer):
    """Limited-memory BFGS for smooth, deterministic losses: few steps, by the curvature that the last gradients show.

    All parameters form one vector and one group. One `step` makes up to ``max_iter`` iterations and calls the closure many times.

    Args:
        params: Tensors.
        lr: the step length tried first (used as it is without a line search).
        max_iter: iterations in one step.
        max_eval: closure calls in one step, by default 5/4 of ``max_iter``.
        tolerance_grad: stop when no element of the gradient is larger.
        tolerance_change: stop when step or loss change by less.
        history_size: how many gradients to remember.
        line_search_fn: None or "strong_wolfe".
    Raises: ValueError for several groups or devices, a negative lr; RuntimeError at a step for an unknown line search.
    Source: torch.optim.LBFGS; J. Nocedal and S. Wright, Numerical Optimization (2006), algorithm 7.4.
    Example:
        >>> x = gradlib.zeros(1, requires_grad=True)
        >>> optimizer = gradlib.optim.LBFGS([x])
        >>> def closure():
        ...     optimizer.zero_grad()
        ...     loss = (x - 3).square().sum()
        ...     loss.backward()
        ...     return loss
        >>> _ = optimizer.step(closure)
        >>> x.detach()
        tensor([3.])
    """

    def __init__(
        self,
        params: Iterable[Any],
        lr: float = 1,
        max_iter: int = 20,
        max_eval: int | None = None,
        tolerance_grad: float = 1e-7,
        tolerance_change: float = 1e-9,
        history_size: int = 100,
        line_search_fn: str | None = None,
    ) -> None:
        if not float(lr) >= 0.0:
            raise ValueError(f"Invalid learning rate: {lr}")
        defaults = {
            "lr": lr, "max_iter": max_iter, "max_eval": max_iter * 5 // 4 if max_eval is None else max_eval,
            "tolerance_grad": tolerance_grad, "tolerance_change": tolerance_change,
            "history_size": history_size, "line_search_fn": line_search_fn,
        }  # fmt: skip
        super().__init__(params, defaults)
        if len(self.param_groups) != 1:
            raise ValueError("LBFGS doesn't support per-parameter options (parameter groups)")
        places = {str(value.device) for value in self._all_params()}
        if len(places) > 1:
            raise ValueError(f"LBFGS makes one vector of its parameters, which therefore lie on one device; got {sorted(places)}")

    _keeps_real = False

    def _loaded(self, item: Any, value: Tensor) -> Any:
        """A saved entry: vectors of all parameters, and numbers, which torch saves as tensors of no dimensions."""
        return item.item() if isinstance(item, Tensor) and item.ndim == 0 else super()._loaded(item, value)

    def _step(self, closure: Closure | None) -> Any:
        if closure is None:
            raise TypeError("LBFGS.step needs a closure that clears the gradients, computes the loss, calls backward and returns the loss")
        with no_grad(), on_device_of(next(self._all_params())._array):
            return self._iterate(closure)

    def _iterate(self, closure: Closure) -> Any:
        if len(self.param_groups) != 1:
            raise AssertionError(
                f"Expected exactly one param_group, but got {len(self.param_groups)}: LBFGS steps all its parameters as one"
            )
        group = self.param_groups[0]
        state = self.state[group["params"][0]]
        state.setdefault("func_evals", 0)
        state.setdefault("n_iter", 0)
        first_loss = evaluated(closure)
        loss, gradient, evaluations = number(first_loss), self._gradient(), 1
        state["func_evals"] += 1
        for i in range(1, group["max_iter"] + 1):
            if _largest(gradient) <= group["tolerance_grad"] or (evaluations > 1 and evaluations >= group["max_eval"]):
                break
            state["n_iter"] += 1
            direction = self._direction(state, gradient, group["history_size"])
            t = float(group["lr"])
            if state["n_iter"] == 1:
                t *= min(1.0, 1.0 / float(abs(gradient).sum()))
            previous, slope = loss, _dot(gradient, direction)
            state.update(prev_flat_grad=wrap(gradient), prev_loss=loss, d=wrap(direction), t=t)
            if slope > -group["tolerance_change"]:
                break
            now, calls = self._search(
                closure, Point(0.0, loss, gradient, slope), direction, t, i == group["max_iter"], group["max_eval"] - evaluations
            )
            loss, gradient, state["t"] = now.loss, now.gradient, now.t
            evaluations += calls
            state["func_evals"] += calls
            small = group["tolerance_change"]
            if _largest(direction) * abs(now.t) <= small or abs(loss - previous) < small:
                break
        return first_loss

    def _direction(self, state: dict[str, Any], gradient: Array, history: int) -> Array:
        """The quasi-Newton direction by the two-loop recursion, after taking the last step into the memory."""
        if state["n_iter"] == 1:
            state.update(old_dirs=[], old_stps=[], ro=[], H_diag=1.0)
            return -gradient
        change, step = gradient - state["prev_flat_grad"]._array, state["d"]._array * state["t"]
        curvature = _dot(change, step)
        if curvature > 1e-10:
            for name, item in (("old_dirs", wrap(change)), ("old_stps", wrap(step)), ("ro", 1.0 / curvature)):
                state[name] = [*state[name], item][-history:]
            state["H_diag"] = curvature / _dot(change, change)
        memory = [(y._array, s._array, ro) for y, s, ro in zip(state["old_dirs"], state["old_stps"], state["ro"], strict=True)]
        q = -gradient
        shares = []
        for y, s, ro in reversed(memory):
            shares.append(_dot(s, q) * ro)
            q -= shares[-1] * y
        q *= state["H_diag"]
        for (y, s, ro), share in zip(memory, reversed(shares), strict=True):
            q += (share - _dot(y, q) * ro) * s
        return q

    def _search(self, closure: Closure, start: Point, direction: Array, t: float, last: bool, most: int) -> tuple[Point, int]:
        """Move the parameters along the direction, with at most so many calls of the closure after the first.

        Returns: where the parameters are now, and how often the closure was called.
        """
        group = self.param_groups[0]
        origin = self._gather()

        def evaluate(length: float) -> Point:
            self._scatter(origin + length * direction)
            loss = number(evaluated(closure))
            gradient = self._gradient()
            return Point(length, loss, gradient, _dot(gradient, direction))

        if group["line_search_fn"] is None:
            if last:  # nobody will ask for the loss there
                self._scatter(origin + t * direction)
                return start._replace(t=t), 0
            return evaluate(t), 1
        if group["line_search_fn"] != "strong_wolfe":
            raise RuntimeError(f"only 'strong_wolfe' is supported as line_search_fn, got {group['line_search_fn']!r}")
        point, calls = strong_wolfe(evaluate, start, t, _largest(direction), most, group["tolerance_change"])
        self._scatter(origin + point.t * direction)
        return point, calls

    def _gather(self) -> Array:
        """The parameters as one new vector."""
        return _flat([real(value._array) for value in self._all_params()])

    def _gradient(self) -> Array:
        """The gradients as one new vector, zero where there is none."""
        return _flat([real(zeros_like(value._array) if value.grad is None else value.grad._array) for value in self._all_params()])

    def _scatter(self, vector: Array) -> None:
        """Write one vector back into the parameters."""
        at = 0
        for value in self._all_params():
            dtype, size = value._array.dtype, value.numel() * (2 if value.is_complex() else 1)
            write(value, vector[at : at + size].astype(real(value._array).dtype, copy=False).view(dtype).reshape(value._array.shape))
            at += size


def _flat(parts: list[Array]) -> Array:
    return namespace(parts[0]).concatenate([part.reshape(-1) for part in parts])


def _dot(a: Array, b: Array) -> float:
    """The inner product. Not BLAS's: its threads cost a hundred times the work where other programs keep the cores busy."""
    return float((a * b).sum())


def _largest(vector: Array) -> float:
    return float(abs(vector).max())
