"""Losses: reductions, kinks, targets to ignore, dtypes, refusals."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradlib
import gradlib.nn.functional as F
from tests.ops.case import t
from tests.values import host

ELEMENTWISE = [F.mse_loss, F.l1_loss, F.smooth_l1_loss, F.huber_loss]
each = pytest.mark.parametrize("function", ELEMENTWISE, ids=[f.__name__ for f in ELEMENTWISE])


def slope(function: Callable[[Any], Any], values: Any) -> Any:
    x = t(values, gradlib.float64, True)
    return gradlib.autograd.grad(function(x).sum(), x)[0].tolist()


# ---- of numbers ---------------------------------------------------------------------------------------------------------------


@each
def test_reductions_of_losses(function: Any) -> None:
    a, b = t([0.0, 2.0]), t([0.5, -1.0])
    each = function(a, b, reduction="none").tolist()
    assert function(a, b, reduction="sum").item() == pytest.approx(sum(each))
    assert function(a, b).item() == pytest.approx(sum(each) / 2)
    with pytest.raises(ValueError, match="average is not a valid value for reduction"):
        function(a, b, reduction="average")


@pytest.mark.parametrize(("old", "reduction"), [((False, None), "sum"), ((True, True), "mean"), ((None, False), "none")])
def test_the_deprecated_arguments(old: tuple[bool, bool], reduction: str) -> None:
    a, b = t([0.0, 2.0]), t([0.5, -1.0])
    with pytest.warns(UserWarning, match=f"reduction='{reduction}'"):
        made = F.mse_loss(a, b, *old)
    assert made.tolist() == F.mse_loss(a, b, reduction=reduction).tolist()


@each
@pytest.mark.filterwarnings("ignore:Using a target size")
def test_a_target_of_no_dimensions_counts_in_promotion(function: Any) -> None:
    """As in torch, which broadcasts first."""
    x, target = t([1.0, 2.0]).float(), gradlib.tensor(0.5, dtype="float64", requires_grad=True)
    loss = function(x, target, reduction="none")
    assert (loss.dtype, loss.shape) == (gradlib.float32 if function is F.huber_loss else gradlib.float64, (2,))
    assert gradlib.autograd.grad(loss.sum(), target)[0].dtype == gradlib.float64
    assert function(target.detach(), x).dtype == gradlib.float64


@each
def test_another_shape_warns(function: Any) -> None:
    with pytest.warns(UserWarning, match="different to the input size"):
        assert function(gradlib.ones(2, 3), gradlib.zeros(3), reduction="none").shape == (2, 3)
    with pytest.warns(UserWarning, match="different to"), pytest.raises(RuntimeError, match="cannot be broadcast"):
        function(gradlib.ones(2, 3), gradlib.zeros(4))
    with pytest.raises(TypeError, match=r"'target'.* must be Tensor, not float"):
        function(gradlib.ones(2), 1.0)


@each
def test_dtypes_of_losses(function: Any) -> None:
    for dtype in ("float16", "bfloat16", "float32", "float64"):
        assert function(gradlib.ones(2, dtype=dtype), gradlib.zeros(2, dtype=dtype)).dtype.name == dtype
    made = function(gradlib.ones(2), gradlib.zeros(2, dtype=gradlib.float64))
    assert made.dtype == (gradlib.float32 if function is F.huber_loss else gradlib.float64)  # Huber's has that of its input
    with pytest.raises(RuntimeError, match=r"not implemented for int64|could not infer output dtype"):
        function(t([1]), t([2]))
    if function is F.l1_loss:
        assert function(t([3j]), t([4.0])).item() == 5
    else:
        with pytest.raises(NotImplementedError, match="not implemented for complex64"):
            function(t([3j]), t([4j]))


@pytest.mark.parametrize("function", [F.mse_loss, F.smooth_l1_loss, F.huber_loss])
def test_a_mask_is_a_target_of_zeros_and_ones(function: Any) -> None:
    x, mask = t([0.25, 3.0], requires_grad=True), t([True, False])
    loss = function(x, mask, reduction="none")
    assert loss.tolist() == function(x, mask.float(), reduction="none").tolist()
    wanted = gradlib.autograd.grad(function(x, mask.float(), reduction="sum"), x)[0]
    assert gradlib.autograd.grad(loss.sum(), x)[0].tolist() == wanted.tolist()
    assert function(x, mask).item() == pytest.approx(loss.mean().item())
    with pytest.raises(NotImplementedError, match="not implemented for"):
        function(mask, t([1, 0]))


def test_dtypes_of_losses_that_have_one_argument_s() -> None:
    with pytest.raises(RuntimeError, match="result type float32 can't be cast to the desired output type int64"):
        F.huber_loss(t([1, 2]), t([1.0, 2.0]))
    scores, answers = t([0.5, -1.0], gradlib.float64, True), t([1.0, 0.0])
    loss = F.binary_cross_entropy_with_logits(scores, answers)
    assert loss.dtype == gradlib.float32  # that of the target
    assert gradlib.autograd.grad(loss, scores)[0].dtype == gradlib.float64


def test_gradients_at_kinks() -> None:
    """At no difference, at the join, and beyond it."""
    x, zeros = [0.0, 1.0, -1.0, 2.0], gradlib.zeros(4, dtype=gradlib.float64)
    for function in ELEMENTWISE:
        expected = [0, 2, -2, 4] if function is F.mse_loss else [0, 1, -1, 1]
        assert slope(lambda x, f=function: f(x, zeros, reduction="sum"), x) == expected
    assert slope(lambda x: F.smooth_l1_loss(x, zeros, beta=0, reduction="sum"), x) == [0, 1, -1, 1]
    y = t(x, gradlib.float64, True)
    (first,) = gradlib.autograd.grad(F.smooth_l1_loss(y, zeros, reduction="sum"), y, create_graph=True)
    assert gradlib.autograd.grad(first.sum(), y)[0].tolist() == [1, 0, 0, 0]


def test_weights_and_joins_that_do_not_fit() -> None:
    a = gradlib.ones(2, 3)
    for function in (F.mse_loss, F.l1_loss, F.huber_loss):
        with pytest.raises(ValueError, match="Weights and input must have the same size"):
            function(a, a, weight=gradlib.ones(3))
    with pytest.raises(RuntimeError, match="negative values for beta"):
        F.smooth_l1_loss(a, a, beta=-1)
    for delta in (0, -1):
        with pytest.raises(RuntimeError, match="non-positive values for delta"):
            F.huber_loss(a, a, delta=delta)


@pytest.mark.nonfinite
def test_losses_of_nothing() -> None:
    none, classes = gradlib.empty(0, 3), gradlib.empty(0, dtype=gradlib.int64)
    for function, target in ((F.mse_loss, none), (F.cross_entropy, classes), (F.nll_loss, classes), (F.cross_entropy, none)):
        assert math.isnan(function(none, target).item())
        assert function(none, target, reduction="sum").item() == 0


# ---- of classes ---------------------------------------------------------------------------------------------------------------


def test_targets_to_ignore_count_nothing() -> None:
    scores = [[1.0, 2.0, 3.0], [-math.inf, 0.0, 5.0], [3.0, 1.0, 1.0]]
    target = t([2, -100, 0])
    assert F.nll_loss(t(scores), target).item() == -3
    assert F.nll_loss(t(scores), target, reduction="none").tolist() == [-3, 0, -3]
    gradient = slope(lambda x: F.nll_loss(x, target), scores)
    assert gradient == [[0, 0, -0.5], [0, 0, 0], [-0.5, 0, 0]]
    finite = np.where(np.isfinite(scores), scores, 0).tolist()
    for smoothing in (0.0, 0.2):
        rows = slope(lambda x, s=smoothing: F.cross_entropy(x, target, label_smoothing=s), finite)
        assert rows[1] == [0, 0, 0]
        assert rows[0] != [0, 0, 0]


@pytest.mark.nonfinite
@pytest.mark.parametrize("smoothing", [0.0, 0.2])
def test_nothing_but_targets_to_ignore(smoothing: float) -> None:
    """The mean of nothing is NaN; the gradient is zero, as torch's."""
    target = t([-100, -100])
    x = t([[1.0, 2.0], [3.0, 4.0]], requires_grad=True)
    loss = F.cross_entropy(x, target, label_smoothing=smoothing)
    assert math.isnan(loss.item())
    assert gradlib.autograd.grad(loss, x)[0].tolist() == [[0, 0], [0, 0]]


@pytest.mark.parametrize("function", [F.nll_loss, F.cross_entropy])
@pytest.mark.host  # values are not looked at on a CUDA device
@pytest.mark.parametrize("outside", [3, -1])
def test_classes_that_there_are_not(function: Any, outside: int) -> None:
    with pytest.raises(IndexError, match="target out of bounds"):
        function(gradlib.zeros(2, 3), t([0, outside]))


@pytest.mark.parametrize("function", [F.nll_loss, F.cross_entropy])
def test_classes_that_do_not_fit(function: Any) -> None:
    scores = gradlib.zeros(2, 3)
    with pytest.raises(ValueError, match=r"batch_size \(2\) to match target batch_size \(3\)"):
        function(scores, t([0, 1, 2]))
    with pytest.raises(RuntimeError, match=r"Expected target size \[2, 4\], got \[2, 5\]"):
        function(gradlib.zeros(2, 3, 4), gradlib.zeros(2, 5, dtype=gradlib.int64))
    for target in (t([0.0, 1.0]), t([0, 1], gradlib.int32)):
        with pytest.raises(RuntimeError, match="expected target dtype to be int64 or uint8"):
            function(scores, target)
    with pytest.raises(ValueError if function is F.nll_loss else IndexError, match="dimensions"):
        function(t(1.0), t(0))
    with pytest.raises(RuntimeError, match=r"either for all 3 classes or no classes but got weight tensor of shape: \[2\]"):
        function(scores, t([0, 1]), gradlib.ones(2))
    with pytest.raises(RuntimeError, match="dtype float32 but found float64"):
        function(scores, t([0, 1]), gradlib.ones(3, dtype=gradlib.float64))
    with pytest.raises(RuntimeError, match="not differentiable with respect to argument 'weight'"):
        function(scores, t([0, 1]), gradlib.ones(3, requires_grad=True))
    for dtype in (gradlib.bool, gradlib.uint8, gradlib.int64):
        for target in (t([0, 1]), t([0, -100])):
            with pytest.raises(NotImplementedError, match="takes scores that are floats"):
                function(scores.to(dtype), target)
    if function is F.cross_entropy:
        with pytest.raises(NotImplementedError, match="log_softmax is not implemented for"):
            function(scores.to(gradlib.complex64), t([0, 1]))
    assert function(scores, t([0, 1], gradlib.uint8)).item() == pytest.approx(0 if function is F.nll_loss else math.log(3))


def test_probabilities_that_do_not_fit() -> None:
    scores = gradlib.zeros(2, 3)
    with pytest.raises(RuntimeError, match="ignore_index is not supported"):
        F.cross_entropy(scores, scores, ignore_index=1)
    with pytest.raises(RuntimeError, match="Expected floating point type for target"):
        F.cross_entropy(scores, gradlib.zeros(2, 3, dtype=gradlib.int64))
    for smoothing in (-0.1, 1.1):
        with pytest.raises(RuntimeError, match=r"between 0\.0 and 1\.0"):
            F.cross_entropy(scores, t([0, 1]), label_smoothing=smoothing)


def test_the_weights_of_classes_and_probabilities_meet_in_one_dtype() -> None:
    scores, target = t([[1.0, 2.0], [0.5, 0.25]], requires_grad=True), t([[0.25, 0.75], [1.0, 0.0]])
    wanted = F.cross_entropy(scores, target, t([2.0, 3.0]))
    slope = gradlib.autograd.grad(wanted, scores)[0].tolist()
    for dtype, result in ((gradlib.int64, gradlib.float32), (gradlib.float64, gradlib.float64)):
        made = F.cross_entropy(scores, target, t([2.0, 3.0], dtype))
        assert made.dtype == result
        assert made.item() == pytest.approx(wanted.item())
        np.testing.assert_allclose(host(gradlib.autograd.grad(made, scores)[0]), slope, rtol=1e-6)


def test_one_sample() -> None:
    scores = t([0.0, math.log(3.0)])
    assert F.cross_entropy(scores, t(1)).item() == pytest.approx(math.log(4 / 3))
    assert F.cross_entropy(scores, t([0.5, 0.5])).item() == pytest.approx(math.log(4) - math.log(3) / 2)
    assert F.nll_loss(scores, t(1), reduction="none").shape == ()


def test_large_scores_stay_finite() -> None:
    x = t([[1000.0, -1000.0]], requires_grad=True)
    loss = F.cross_entropy(x, t([1]))
    assert loss.item() == 2000
    assert gradlib.autograd.grad(loss, x)[0].tolist() == [[1, -1]]


def test_a_target_that_was_written_is_stale() -> None:
    x, target = gradlib.zeros(2, 3, requires_grad=True), t([0, 1])
    loss = F.cross_entropy(x, target)
    target.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


# ---- of yes and no ------------------------------------------------------------------------------------------------------------


def test_sure_answers_stay_finite() -> None:
    x, target = t([0.0, 100.0, -1000.0, 1000.0, -1000.0], requires_grad=True), t([1.0, 1.0, 0.0, 0.0, 1.0])
    loss = F.binary_cross_entropy_with_logits(x, target, reduction="none")
    assert loss.tolist() == pytest.approx([math.log(2), 0, 0, 1000, 1000])
    assert gradlib.autograd.grad(loss.sum(), x)[0].tolist() == pytest.approx([-0.5, 0, 0, 1, -1])


def test_weights_of_answers() -> None:
    x, target = t([0.3, -1.0], gradlib.float64, True), t([0.2, 0.9], gradlib.float64, True)
    weight, positive = t([2.0, 3.0], gradlib.float64), t([4.0, 0.5], gradlib.float64)
    log_yes, log_no = F.logsigmoid(x), F.logsigmoid(-x)
    plain = -(positive * target * log_yes + (1 - target) * log_no) * weight
    loss = F.binary_cross_entropy_with_logits(x, target, weight, reduction="none", pos_weight=positive)
    np.testing.assert_allclose(host(loss), host(plain), rtol=1e-14)
    for got, want in zip(gradlib.autograd.grad(loss.sum(), (x, target)), gradlib.autograd.grad(plain.sum(), (x, target)), strict=True):
        np.testing.assert_allclose(host(got), host(want), rtol=1e-13)
    assert gradlib.autograd.gradgradcheck(lambda x, t: F.binary_cross_entropy_with_logits(x, t, weight, pos_weight=positive), (x, target))


def test_answers_that_do_not_fit() -> None:
    x = gradlib.zeros(2, 3)
    with pytest.raises(ValueError, match=r"Target size \(\[3\]\) must be the same"):
        F.binary_cross_entropy_with_logits(x, gradlib.zeros(3))
    for name in ("weight", "pos_weight"):
        with pytest.raises(RuntimeError, match=f"argument '{name}'"):
            F.binary_cross_entropy_with_logits(x, x, **{name: gradlib.ones(3, requires_grad=True)})
    for whole in (t([1]), t([True]), t([1], gradlib.uint8)):
        for target in (t([1]), t([0.5])):
            with pytest.raises(NotImplementedError, match="takes scores that are floats"):
                F.binary_cross_entropy_with_logits(whole, target, pos_weight=t([2]))


def test_whole_weights_of_a_yes_count_as_floats() -> None:
    """Without that ``1 - pos_weight`` of unsigned integers wraps around."""
    x, target = t([0.5, -1.0, 2.0], requires_grad=True), t([1.0, 0.25, 0.5], requires_grad=True)
    weights = t([3.0, 1.0, 0.0])
    wanted = F.binary_cross_entropy_with_logits(x, target, pos_weight=weights)
    slopes = [g.tolist() for g in gradlib.autograd.grad(wanted, (x, target))]
    for dtype in (gradlib.uint8, gradlib.int64):
        made = F.binary_cross_entropy_with_logits(x, target, pos_weight=weights.to(dtype))
        assert made.item() == wanted.item()
        assert [g.tolist() for g in gradlib.autograd.grad(made, (x, target))] == slopes


def test_weighted_squares_are_of_numbers_of_every_kind_but_masks() -> None:
    assert F.mse_loss(t([1, 5]), t([2, 2]), weight=t([1.0, 3.0])).item() == 7
    assert F.mse_loss(t([3j]), t([1.0]), weight=t([2.0])).item() == (3j - 1) ** 2
    with pytest.raises(RuntimeError, match="bool"):
        F.mse_loss(t([True]), t([2.0]), weight=t([2.0]))


@pytest.mark.nonfinite
@pytest.mark.parametrize("loss", [F.huber_loss, F.smooth_l1_loss])
def test_an_unknown_difference_has_an_unknown_gradient(loss: Any) -> None:
    x = gradlib.tensor([0.5, math.nan, 9, -9], requires_grad=True)
    loss(x, gradlib.zeros(4), reduction="sum").backward()
    assert str(x.grad.tolist()) == "[0.5, nan, 1.0, -1.0]"


@pytest.mark.parametrize(("dtype", "beta"), [("float16", 1e-9), ("bfloat16", 1e-60), ("float32", 1e-300)])
@pytest.mark.parametrize("reduction", ["none", "mean"])
def test_a_beta_too_small_for_the_dtype_is_none(dtype: str, beta: float, reduction: str) -> None:
    x = gradlib.tensor([0.0, 2.0, -3.0], dtype=dtype, requires_grad=True)
    made = F.smooth_l1_loss(x, gradlib.zeros_like(x), beta=beta, reduction=reduction).sum()
    expected = F.l1_loss(x, gradlib.zeros_like(x), reduction=reduction).sum()
    assert made.item() == expected.item()
    assert gradlib.autograd.grad(made, x)[0].tolist() == gradlib.autograd.grad(expected, x)[0].tolist()
    whole = F.smooth_l1_loss(gradlib.tensor([0]), gradlib.tensor([1e-9]), beta=1e-8)  # of integers the target's dtype counts
    assert whole.item() == pytest.approx(5e-11)


@pytest.mark.nonfinite
@pytest.mark.parametrize("beyond", [1.0, 2.0, 1e300, math.inf])
@pytest.mark.parametrize("reduction", ["none", "sum", "mean"])
def test_the_slope_of_a_difference_that_is_unknown_or_infinite_does_not_change(reduction: str, beyond: float) -> None:
    """As in torch: a second derivative is that of a square only where the difference is known to be smaller than the bound."""
    largest = float(np.finfo(np.float32).max)
    for loss, join, by in ((F.huber_loss, "delta", 1), (F.smooth_l1_loss, "beta", beyond)):
        x = gradlib.tensor([0.5, math.nan, math.inf, -math.inf, largest], requires_grad=True)
        y = gradlib.tensor([0.0, 0.0, 0.0, math.inf, 0.0], requires_grad=True)
        made = loss(x, y, reduction=reduction, **{join: beyond}).sum()
        first = gradlib.autograd.grad(made, x, create_graph=True)[0]
        second = gradlib.autograd.grad(first.sum(), (x, y))
        assert first[1].isnan()
        slope = np.float32(1 / by / (5 if reduction == "mean" else 1))
        expected = np.array([slope, 0, 0, 0, 0 if beyond < largest else slope])
        for each, wanted in zip(second, (expected, -expected), strict=True):
            np.testing.assert_allclose(host(each), wanted, rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_smooth_l1_loss_holds_what_its_square_does_not(dtype: str) -> None:
    """Half of the largest number, and small ones of which the product is none."""
    limits = np.finfo(dtype)
    large, small = float(limits.max) / 2, float(limits.tiny) * 64
    x = gradlib.tensor([large, -large, 3 * small], dtype=dtype)
    for beta in (4.0, small):
        made = F.smooth_l1_loss(x, gradlib.zeros_like(x), beta=beta, reduction="none")
        last = 2.5 * small if beta == small else 0
        np.testing.assert_allclose(host(made), [large - beta / 2, large - beta / 2, last], rtol=float(limits.eps) * 2, atol=small / 64)


@pytest.mark.parametrize("loss", [F.mse_loss, F.huber_loss, F.smooth_l1_loss])
@pytest.mark.parametrize("number", [1, 10, 1024, 5000, 70_001])
def test_the_loss_of_differences_and_its_slopes_are_those_of_each_in_double_precision(loss: Any, number: int) -> None:
    rng = np.random.default_rng(0)
    values = [(rng.standard_normal(number) * 2).astype(np.float32) for _ in range(2)]
    for reduction, bound in (("mean", 0.7), ("sum", 1.0)):
        join, made = {F.huber_loss: {"delta": bound}, F.smooth_l1_loss: {"beta": bound}}.get(loss, {}), []
        for dtype, reduced in (("float32", reduction), ("float64", reduction), ("float64", "none")):
            x, y = (gradlib.tensor(each, dtype=dtype, requires_grad=True) for each in values)
            value = loss(x, y, reduction=reduced, **join)
            value = value if reduced != "none" else value.mean() if reduction == "mean" else value.sum()
            value.backward()
            made.append([host(each) for each in (value.detach(), x.grad, y.grad)])
        for single, double, wanted in zip(*made, strict=True):
            np.testing.assert_allclose(single, wanted, rtol=1e-6, atol=1e-6 * np.abs(wanted).max())
            np.testing.assert_allclose(double, wanted, rtol=1e-13, atol=1e-14 * np.abs(wanted).max())


@pytest.mark.host
@pytest.mark.parametrize(("loss", "name"), [(F.mse_loss, "MseLoss"), (F.huber_loss, "HuberLoss"), (F.smooth_l1_loss, "SmoothL1Loss")])
def test_a_loss_of_differences_is_one_node(loss: Any, name: str) -> None:
    x = gradlib.tensor([0.5, 2.0], requires_grad=True)
    made = loss(x, gradlib.zeros(2))
    assert made.grad_fn.name() == f"{name}Backward0"
    assert [edge and edge.name() for edge, _ in made.grad_fn.next_functions] == ["AccumulateGrad", None]


# ---- no rows, no classes, no weight, values that are not finite ---------------------------------------------------------------------


@pytest.mark.nonfinite
@pytest.mark.parametrize("weights", [False, True])
@pytest.mark.parametrize("shape", [(3, 0), (0,), (0, 4), (0, 0), (2, 0, 2), (0, 3, 2)])
def test_no_rows_or_no_classes(shape: tuple[int, ...], weights: bool) -> None:
    """A sum of nothing is 0 and a mean of nothing NaN; where classes are missing, smoothing divides by their number."""
    x = gradlib.zeros(shape, requires_grad=True)
    dim = min(len(shape) - 1, 1)
    rows = shape[:dim] + shape[dim + 1 :]
    target = gradlib.full(rows, -100, dtype="int64")
    weight = gradlib.ones(shape[dim]) if weights else None
    for function in (F.nll_loss, F.cross_entropy):
        summed, mean, each = (function(x, target, weight, reduction=reduction) for reduction in ("sum", "mean", "none"))
        assert summed.item() == 0
        assert np.isnan(mean.item())
        np.testing.assert_array_equal(host(each), np.zeros(rows))
        for made in (summed, mean, each.sum()):
            assert gradlib.autograd.grad(made, x)[0].shape == shape
    assert np.isnan(F.cross_entropy(x, target, weight, label_smoothing=0.1).item())
    assert np.isnan(F.cross_entropy(x, target, weight, label_smoothing=0.1, reduction="sum").item()) == (shape[dim] == 0)
    assert np.isnan(F.cross_entropy(x, x.detach(), weight, label_smoothing=0.1).item())
    assert F.cross_entropy(x, x.detach(), weight, label_smoothing=0.1, reduction="sum").item() == 0
    if not shape[dim] and 0 not in rows:
        for outside in (0, -1):
            with pytest.raises(IndexError, match="out of bounds"):
                F.cross_entropy(x, gradlib.full(rows, outside, dtype="int64"), weight)


@pytest.mark.nonfinite
def test_what_counts_but_weighs_nothing_has_a_slope_of_nan() -> None:
    """0 / 0, as the loss itself; what is ignored has none, whatever the weights are."""
    for weight in (0.0, np.nan):
        x = gradlib.zeros(3, 2, requires_grad=True)
        target = gradlib.tensor([0, -100, 1])
        loss = F.nll_loss(x, target, gradlib.full((2,), weight))
        assert np.isnan(loss.item())
        (slope,) = gradlib.autograd.grad(loss, x)
        np.testing.assert_array_equal(host(slope), [[np.nan, 0], [0, 0], [0, np.nan]])


@pytest.mark.nonfinite
def test_answers_that_are_surely_wrong() -> None:
    x = gradlib.tensor([np.inf, np.inf])
    made = F.binary_cross_entropy_with_logits(x, gradlib.tensor([0.0, 0.5]), reduction="none")
    np.testing.assert_array_equal(host(made), np.inf)
    with pytest.raises(IndexError):
        F.cross_entropy(gradlib.tensor(1.0), gradlib.tensor(1.0))


def test_many_answers_of_a_batch_share_their_targets_or_their_scores() -> None:
    loss, x = F.binary_cross_entropy_with_logits, gradlib.linspace(-3, 3, 2048)
    scores, targets = gradlib.stack([x, -x]), gradlib.sigmoid(gradlib.stack([x, x * 2]))
    assert gradlib.func.vmap(loss, (0, None))(scores, targets[0]).tolist() == pytest.approx([loss(s, targets[0]).item() for s in scores])
    assert gradlib.func.vmap(loss, (None, 0))(x, targets).tolist() == pytest.approx([loss(x, target).item() for target in targets])


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
@pytest.mark.parametrize("delta", [7e4, 1e30, 1e300, math.inf])
def test_huber_loss_is_a_square_however_large_its_delta(dtype: str, delta: float) -> None:
    x = gradlib.tensor([1.0, -2.0, 0.0]).to(getattr(gradlib, dtype)).requires_grad_()
    loss = F.huber_loss(x, gradlib.zeros_like(x), reduction="none", delta=delta)
    assert loss.tolist() == [0.5, 2, 0]
    loss.sum().backward()
    assert x.grad.tolist() == [1, -2, 0]


def test_the_place_where_a_loss_changes_is_no_nan() -> None:
    x = gradlib.ones(2)
    with pytest.raises(RuntimeError, match="non-positive"):
        F.huber_loss(x, x, delta=math.nan)
    with pytest.raises(RuntimeError, match="negative"):
        F.smooth_l1_loss(x, x, beta=math.nan)
