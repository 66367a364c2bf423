"""Losses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import scipy.special

import gradlib.nn.functional as F
from gradlib.ops import classification_loss, loss
from tests.ops.case import Case, Rng, beside, normal, spread

ALL = ("float64", "float32", "float16", "bfloat16")


WEIGHTS = np.array([0.5, 1.0, 2.0])


def predicted(*shape: int, weights: bool = False) -> Callable[[Rng], list[np.ndarray]]:
    """Input and target with differences at least 0.05 from 0 and ±1, and positive weights."""

    def draw(rng: Rng) -> list[np.ndarray]:
        away = rng.choice([-1.6, -0.5, 0.4, 1.5], shape) + rng.uniform(-0.2, 0.2, shape)
        target = rng.standard_normal(shape)
        return [target + away, target] + [rng.uniform(0.5, 2, shape)] * weights

    return draw


def weighted(function: Callable[..., Any], **options: Any) -> Callable[..., Any]:
    """The loss with fixed weights of three classes, which take no gradient."""

    def call(input: Any, target: Any) -> Any:
        return function(input, target, beside(input, WEIGHTS.astype(input.dtype)), **options)

    return call


def classed(shape: tuple[int, ...], ignore: int | None = None) -> Callable[[Rng], list[np.ndarray]]:
    """Scores of shape (N, C, ...) and classes (N, ...), of which some are to be ignored."""

    def draw(rng: Rng) -> list[np.ndarray]:
        dim = min(len(shape) - 1, 1)
        target = rng.integers(0, shape[dim], shape[:dim] + shape[dim + 1 :])
        if ignore is not None:
            target.reshape(-1)[::3] = ignore
        return [rng.standard_normal(shape), np.asarray(target)]

    return draw


def odds(*shape: int) -> Callable[[Rng], list[np.ndarray]]:
    """Scores, and probabilities for each class that sum to one along the second dimension."""

    def draw(rng: Rng) -> list[np.ndarray]:
        raw = rng.uniform(0.2, 1, shape)
        return [rng.standard_normal(shape), raw / raw.sum(1, keepdims=True)]

    return draw


def shared(classes: Any, target: Any, smoothing: float, weight: Any, ignore: int) -> Any:
    """Targets (N, C) with what each class counts, from classes (N,)."""
    made = (1 - smoothing) * np.eye(classes)[np.where(target == ignore, 0, target)] + smoothing / classes
    return made * (1 if weight is None else weight) * (target != ignore)[:, None]


def entropy(scores: Any, target: Any, weight: Any = None, *, reduction: str = "mean", smoothing: float = 0.0, ignore: int = -100) -> Any:
    """Cross entropy of classes, sample by sample; for more dimensions after the classes are moved last."""
    lines = np.moveaxis(scores, 1, -1).reshape(-1, scores.shape[1])
    flat = target.reshape(-1)
    logs = lines - np.log(np.exp(lines).sum(1, keepdims=True))
    each = -(logs * shared(scores.shape[1], flat, smoothing, weight, ignore)).sum(1)
    if reduction == "none":
        return each.reshape(target.shape)
    counted = (np.ones(scores.shape[1]) if weight is None else weight)[flat] * (flat != ignore)
    return each.sum() / (counted.sum() if reduction == "mean" else 1)


def shares(scores: Any, target: Any, smoothing: float, reduction: str) -> Any:
    """Cross entropy of probabilities for weighted classes."""
    weights = WEIGHTS.reshape(-1, *[1] * (scores.ndim - 2))
    each = -(scipy.special.log_softmax(scores, 1) * (target * (1 - smoothing) + smoothing / 3) * weights).sum(1)
    return each if reduction == "none" else each.sum() if reduction == "sum" else each.mean()


def likelihood(logs: Any, target: Any, weight: Any = None, *, reduction: str = "mean") -> Any:
    """Minus the log-probability of each target, sample by sample."""
    counts = (np.ones(logs.shape[1]) if weight is None else weight)[target]
    each = np.empty(target.shape)
    for place, chosen in np.ndenumerate(target):
        each[place] = -logs[(place[0], chosen, *place[1:])] * counts[place]
    return each if reduction == "none" else each.sum() / counts.sum()


def huber(d: Any, beta: float) -> Any:
    return np.where(np.abs(d) < beta, d * d / (2 * beta), np.abs(d) - beta / 2)


def binary(x: Any, t: Any, p: Any = 1.0) -> Any:
    yes = 1 / (1 + np.exp(-x))
    return -(p * t * np.log(yes) + (1 - t) * np.log(1 - yes))


def chances(rng: Rng) -> list[np.ndarray]:
    return [rng.standard_normal((3, 4)), rng.uniform(0.1, 0.9, (3, 4))]


PLACES = np.array([0, 2])

CASES = [
    Case("mse_loss", F.mse_loss, predicted(3, 4), lambda a, b: np.dot((a - b).ravel(), (a - b).ravel()) / 12, dtypes=ALL),
    Case("absolute_distance", loss.absolute_distance, predicted(3, 4), lambda a, b: np.abs(a - b).mean()),
    Case("squared_distance", loss.squared_distance, predicted(3, 4), lambda a, b: ((a - b) ** 2).mean()),
    Case("mse_loss", lambda a, b: F.mse_loss(a, b, reduction="sum"), predicted(3, 4), lambda a, b: ((a - b) ** 2).sum(), label="sum"),
    Case("mse_loss", lambda a, b: F.mse_loss(a, b, reduction="none"), predicted(3, 4), lambda a, b: (a - b) ** 2, label="none"),
    Case(
        "mse_loss", lambda a, b, w: F.mse_loss(a, b, weight=w), predicted(3, 4, weights=True),
        lambda a, b, w: np.average((a - b) ** 2, weights=w), label="weight",
    ),
    Case(
        "weighted_distance", lambda a, b, w: loss.weighted_distance(a, b, w, "smooth", 0.9, 4), predicted(3, 4, weights=True),
        lambda a, b, w: 0.9 * (w * huber(a - b, 0.9)).sum() / 4,
    ),
    Case("l1_loss", F.l1_loss, predicted(3, 4), lambda a, b: np.abs(a - b).mean(), dtypes=ALL),
    Case(
        "l1_loss", lambda a, b, w: F.l1_loss(a, b, weight=w), predicted(3, 4, weights=True),
        lambda a, b, w: np.average(np.abs(a - b), weights=w), label="weight",
    ),
    Case("smooth_l1_loss", F.smooth_l1_loss, predicted(3, 4), lambda a, b: huber(a - b, 1).mean(), dtypes=ALL),
    Case(
        "smooth_l1_loss", lambda a, b: F.smooth_l1_loss(a, b, reduction="none", beta=0.9), predicted(3, 4),
        lambda a, b: huber(a - b, 0.9), label="beta",
    ),
    Case(
        "smooth_l1_loss", lambda a, b: F.smooth_l1_loss(a, b, reduction="sum", beta=0), predicted(3, 4),
        lambda a, b: np.abs(a - b).sum(), label="beta=0",
    ),
    Case("smooth_absolute", lambda a: loss.smooth_absolute(a, 0.9), spread((3, 4)), lambda a: huber(a, 0.9)),
    Case("smooth_distance", lambda a, b: loss.smooth_distance([a, b], 0.9), predicted(3, 4), lambda a, b: huber(a - b, 0.9).mean()),
    Case("huber_loss", F.huber_loss, predicted(3, 4), lambda a, b: huber(a - b, 1).mean(), dtypes=ALL),
    Case("huber_loss", lambda a, b: F.huber_loss(a, b, "none", 0.9), predicted(3, 4), lambda a, b: 0.9 * huber(a - b, 0.9), label="delta"),
    Case(
        "huber_loss", lambda a, b, w: F.huber_loss(a, b, weight=w), predicted(3, 4, weights=True),
        lambda a, b, w: (w * huber(a - b, 1)).mean(), label="weight",
    ),
    # ---- classes ----
    Case("nll_loss", F.nll_loss, classed((5, 3)), likelihood, dtypes=ALL),
    Case("nll_loss", weighted(F.nll_loss), classed((5, 3)), weighted(likelihood), label="weight"),
    Case("nll_loss", weighted(F.nll_loss, reduction="none"), classed((2, 3, 4)), weighted(likelihood, reduction="none"), label="none"),
    Case(
        "nll_loss", lambda a, t: F.nll_loss(a, t, ignore_index=1), lambda rng: [rng.standard_normal((3, 2)), np.array([0, 1, 0])],
        lambda a, t: -(a[0, 0] + a[2, 0]) / 2, label="ignore",
    ),
    Case("nll_loss", F.nll_loss, lambda rng: [rng.standard_normal(3), np.array(2)], lambda a, t: -a[2], label="one"),
    Case("to_classes", lambda a: classification_loss.to_classes(a, beside(a, PLACES), beside(a, WEIGHTS), -100, "none", (2, 3)),
         normal((2,)), lambda a: np.array([[-0.5 * a[0], 0, 0], [0, 0, -2 * a[1]]]), differentiable=False),
    Case("cross_entropy", F.cross_entropy, classed((5, 3)), entropy, dtypes=ALL),
    Case("cross_entropy", weighted(F.cross_entropy), classed((2, 3, 4)), weighted(entropy), label="weight"),
    Case(
        "cross_entropy", lambda a, t: F.cross_entropy(a, t, ignore_index=-1), classed((7, 3), ignore=-1),
        lambda a, t: entropy(a, t, ignore=-1), label="ignore",
    ),
    Case(
        "cross_entropy", lambda a, t: F.cross_entropy(a, t, reduction="sum", label_smoothing=0.3), classed((5, 3)),
        lambda a, t: entropy(a, t, reduction="sum", smoothing=0.3), label="smoothing",
    ),
    Case(
        "cross_entropy", weighted(F.cross_entropy, label_smoothing=0.3, ignore_index=-1), classed((2, 3, 5), ignore=-1),
        weighted(entropy, ignore=-1, smoothing=0.3), label="smoothing-weight-ignore",
    ),
    Case(
        "cross_entropy", weighted(F.cross_entropy, label_smoothing=0.3, reduction="none"), classed((5, 3)),
        weighted(entropy, reduction="none", smoothing=0.3), label="smoothing-none",
    ),
    Case("cross_entropy", lambda a, t: classification_loss.cross_entropy_op(a, t, "mean")[0], classed((4, 3)), entropy, label="of rows"),
    Case(
        "cross_entropy", F.cross_entropy, odds(4, 3), lambda a, t: -(scipy.special.log_softmax(a, 1) * t).sum() / 4,
        label="probabilities",
    ),
    Case(
        "cross_entropy", lambda a, t: F.cross_entropy(a, t, label_smoothing=0.3, reduction="none"), odds(2, 3, 4),
        lambda a, t: -(scipy.special.log_softmax(a, 1) * (0.7 * t + 0.1)).sum(1), label="probabilities-smoothing",
    ),
    *(
        Case(
            "cross_entropy", weighted(F.cross_entropy, label_smoothing=0.1 * (reduction != "sum"), reduction=reduction), odds(2, 3, *more),
            lambda a, t, r=reduction: shares(a, t, 0.1 * (r != "sum"), r), label=f"probabilities-weight-{reduction}",
        )
        for reduction, more in (("mean", (4,)), ("sum", ()), ("none", (4,)))
    ),
    # ---- yes and no ----
    Case("binary_cross_entropy_with_logits", F.binary_cross_entropy_with_logits, chances, lambda x, t: binary(x, t).mean(), dtypes=ALL),
    Case(
        "binary_cross_entropy_with_logits", lambda x, t: F.binary_cross_entropy_with_logits(x, t, reduction="none"), chances,
        binary, label="none",
    ),
]  # fmt: skip
