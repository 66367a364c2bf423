"""Hidden results: what a value gives for its rules alone, by which the inputs may be written before backward, as in torch."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.autograd import forward_ad, grad, gradcheck, gradgradcheck
from gradlib.autograd.graph import saved_tensors_hooks
from gradlib.core.op import CompiledOp
from gradlib.nn import functional as F
from tests.values import host, leaf

LOSSES: dict[str, Callable[..., Any]] = {
    "l1_loss": lambda x, y, w: F.l1_loss(x, y), "l1_loss, sum": lambda x, y, w: F.l1_loss(x, y, reduction="sum"),
    "mse_loss, weights": lambda x, y, w: F.mse_loss(x, y, weight=w), "l1_loss, weights": lambda x, y, w: F.l1_loss(x, y, weight=w),
    "huber_loss, weights": lambda x, y, w: F.huber_loss(x, y, delta=0.4, weight=w),
    "trapezoid": lambda x, y, w: gradlib.trapezoid(x, y, dim=0).sum(),
    "trapezoid, places in a line": lambda x, y, w: (gradlib.trapezoid(x, y[0]) * w[:, 0]).sum(),
    "cross_entropy, smoothed shares": lambda x, y, w: F.cross_entropy(x, y, label_smoothing=0.25),
    "cross_entropy, smoothed shares, each": lambda x, y, w: F.cross_entropy(x, y, w[0], reduction="none", label_smoothing=0.25).sum(),
}  # fmt: skip
"""By name a function of three tensors, of which torch lets the first two be written between forward and backward."""


@pytest.mark.parametrize("shape", [(4, 6), (48, 400)])  # of the larger one CuPy's steps and no kernel make the sum
@pytest.mark.parametrize("name", LOSSES)
def test_inputs_may_be_written_before_backward(name: str, shape: tuple[int, ...], rng: np.random.Generator) -> None:
    drawn = rng.uniform(0.1, 1.0, (3, *shape))
    for wanted in ((0, 1), (0,), (1,)):
        found = []
        for write in (False, True):
            leaves = [gradlib.as_tensor(each, device=gradlib.get_default_device()).requires_grad_() for each in drawn.copy()]
            made, asked = LOSSES[name](*leaves[:2], leaves[2].detach()), [leaves[k] for k in wanted]
            if write:
                with gradlib.no_grad():
                    for each in leaves[:2]:
                        each.mul_(-3.0)
            first = grad(made, asked, create_graph=True)
            second = grad(sum((each**2).sum() for each in first), asked, allow_unused=True, retain_graph=True)
            found.append([None if each is None else host(each) for each in (*grad(made, asked), *first, *second)])
        for after, before in zip(*found, strict=True):
            assert (after is None) == (before is None)
            if before is not None:
                np.testing.assert_array_equal(after, before)


def test_a_weight_may_not_be_written() -> None:
    """As in torch, which keeps it."""
    x, w = leaf(), leaf()
    made = F.mse_loss(x, leaf(2.0, 0.0, 1.0), weight=w)
    with gradlib.no_grad():
        w.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        made.backward()


# ---- the declaration --------------------------------------------------------------------------------------------------------------


def squared_gap(xp: Any, input: Any, other: Any, scale: float = 1.0) -> Any:
    """(input - scale other)², and what is squared."""
    away = input - other * scale
    return away * away, away


HIDDEN = {"away": {"input": lambda g: g, "other": lambda g, scale: -(g * scale)}}
RULES = {"input": lambda g, away: g * away * 2, "other": lambda g, away, scale: g * away * (-2 * scale)}
RAN: list[str] = []


def in_steps(input: Any, other: Any, scale: float) -> Any:
    RAN.append("steps")
    return (input - other * scale).square()


def declared(**changed: Any) -> Any:
    return CompiledOp(squared_gap, "other", RULES, **{"promote": "same", "complex": "none", "hidden": HIDDEN, "steps": in_steps, **changed})


GAP = declared().call


def test_a_hidden_result_is_kept_and_not_returned() -> None:
    x, y = leaf(), leaf(3.0, 0.0, 1.0)
    made = GAP(x, y, 2.0)
    assert made.tolist() == [25, 4, 1]
    assert made.grad_fn.saved_names == ("away", "scale")
    assert made.grad_fn._saved_away.tolist() == [-5, 2, 1]
    made.grad_fn._saved_away.detach().zero_()  # a copy, as no version counts the writes to it
    assert GAP(x._array, y._array).tolist() == [4, 4, 4]
    assert GAP(x.detach(), y._array, 2.0).grad_fn is None
    assert [each.tolist() for each in grad(made.sum(), [x, y])] == [[-10, 4, 2], [20, -8, -4]]
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        made.sum().backward()
    assert gradcheck(GAP, [x, y])
    assert gradgradcheck(GAP, [x, y])


def test_hidden_results_go_through_the_hooks_of_saved_tensors() -> None:
    packed: list[Any] = []

    def pack(x: Any) -> int:
        packed.append(x.tolist())
        return len(packed) - 1

    x, y = leaf(), leaf(3.0, 0.0, 1.0)
    with saved_tensors_hooks(pack, lambda place: gradlib.tensor(packed[place], dtype=gradlib.float64) * 10):
        made = GAP(x, y)
    assert packed == [[-2, 2, 2]]
    assert grad(made.sum(), x, create_graph=True)[0].tolist() == [-40, 40, 40]
    made = GAP(x, y)
    made.grad_fn._raw_saved_away.register_hooks(pack, lambda place: gradlib.ones(3, dtype=gradlib.float64))
    assert grad(made.sum(), y)[0].tolist() == [-2, -2, -2]


def test_the_steps_run_where_an_interpreter_is_active() -> None:
    x, y = leaf(), leaf(3.0, 0.0, 1.0)
    RAN.clear()
    GAP(x, y)
    assert not RAN
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x, gradlib.ones_like(x))
        made = GAP(dual, y, 2.0)
        assert forward_ad.unpack_dual(made).tangent.tolist() == [-10, 4, 2]
        (slope,) = grad(made.sum(), x, create_graph=True)
        assert forward_ad.unpack_dual(slope).tangent.tolist() == [2, 2, 2]  # forward over reverse
    assert gradlib.func.vmap(GAP)(x, y).tolist() == [4, 4, 4]
    assert gradlib.func.hessian(lambda x: GAP(x, y.detach()).sum())(x.detach()).tolist() == np.diag([2, 2, 2]).tolist()
    assert len(RAN) >= 3


def test_what_a_declaration_with_hidden_results_must_be() -> None:
    for changed in (
        {"steps": None}, {"complex": "holomorphic"}, {"outputs": ("a", "b")}, {"view": True}, {"numbers_in_single": True},
        {"jvp": lambda t_input: t_input},
    ):  # fmt: skip
        with pytest.raises(ValueError, match="with hidden results there are steps"):
            declared(**changed)
    wrong: list[Any] = [lambda g, other: g * other, lambda g, away: g * away, lambda scale: scale]
    for rules in ({"scale": lambda g: g}, *({"input": rule} for rule in wrong)):
        with pytest.raises(ValueError, match="away is linear in inputs that have rules"):
            declared(hidden={"away": rules})
