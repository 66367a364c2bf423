"""Schedules of the learning rate against the figures of torch.optim.lr_scheduler, to the last bit."""

from __future__ import annotations

import math
import pickle

import pytest

import gradlib
from gradlib import optim
from gradlib.optim import lr_scheduler as L
from gradlib.optim.swa_utils import SWALR

# What torch 2.13 sets for groups with the rates 0.1 and 0.03 and momentum 0.5: how the schedule is made, the first group's rates over
# nine epochs, the second group's last rate, its last momentum.
TORCH = [
    (
        lambda L, o: L.LambdaLR(o, [lambda e: 0.95**e, lambda e: 1 / (e + 1)]),
        [
            0.1, 0.095, 0.09025, 0.0857375, 0.081450625, 0.07737809374999999, 0.07350918906249998, 0.06983372960937498,
            0.06634204312890622,
        ],
        0.003333333333333333, 0.5,
    ),
    (
        lambda L, o: L.MultiplicativeLR(o, lambda e: 0.9 if e % 2 else 1.1),
        [
            0.1, 0.09000000000000001, 0.09900000000000002, 0.08910000000000001, 0.09801000000000003, 0.08820900000000002,
            0.09702990000000003, 0.08732691000000004, 0.09605960100000005,
        ],
        0.028817880300000008, 0.5,
    ),
    (
        lambda L, o: L.StepLR(o, 3, 0.5),
        [
            0.1, 0.1, 0.1, 0.05, 0.05, 0.05, 0.025, 0.025, 0.025,
        ],
        0.0075, 0.5,
    ),
    (
        lambda L, o: L.MultiStepLR(o, [2, 5, 5], 0.3),
        [
            0.1, 0.1, 0.03, 0.03, 0.03, 0.0026999999999999997, 0.0026999999999999997, 0.0026999999999999997, 0.0026999999999999997,
        ],
        0.00081, 0.5,
    ),
    (
        lambda L, o: L.ConstantLR(o, 0.25, 4),
        [
            0.025, 0.025, 0.025, 0.025, 0.1, 0.1, 0.1, 0.1, 0.1,
        ],
        0.03, 0.5,
    ),
    (
        lambda L, o: L.LinearLR(o, 0.1, 0.9, 6),
        [
            0.010000000000000002, 0.023333333333333334, 0.03666666666666667, 0.05, 0.06333333333333334, 0.07666666666666667,
            0.09000000000000001, 0.09000000000000001, 0.09000000000000001,
        ],
        0.027000000000000003, 0.5,
    ),
    (
        lambda L, o: L.ExponentialLR(o, 0.8),
        [
            0.1, 0.08000000000000002, 0.06400000000000002, 0.051200000000000016, 0.04096000000000002, 0.03276800000000001,
            0.026214400000000013, 0.02097152000000001, 0.016777216000000008,
        ],
        0.005033164800000003, 0.5,
    ),
    (
        lambda L, o: L.PolynomialLR(o, 5, 2.0),
        [
            0.1, 0.06400000000000002, 0.036000000000000004, 0.016000000000000004, 0.003999999999999999, 0.0, 0.0, 0.0, 0.0,
        ],
        0.0, 0.5,
    ),
    (
        lambda L, o: L.CosineAnnealingLR(o, 3, 0.01),
        [
            0.1, 0.0775, 0.032500000000000015, 0.01, 0.0325, 0.07750000000000005, 0.10000000000000007, 0.07750000000000007,
            0.03250000000000006,
        ],
        0.015000000000000012, 0.5,
    ),
    (
        lambda L, o: L.CosineAnnealingWarmRestarts(o, 2, 2, 0.001),
        [
            0.1, 0.0505, 0.1, 0.0855017856687341, 0.0505, 0.0154982143312659, 0.1, 0.0962320368593087, 0.0855017856687341,
        ],
        0.025753048327204937, 0.5,
    ),
    (
        lambda L, o: L.CyclicLR(o, 0.01, 0.2, 2, 3),
        [
            0.01, 0.10499999999999997, 0.19999999999999996, 0.13666666666666666, 0.07333333333333332, 0.01, 0.10500000000000008,
            0.19999999999999996, 0.13666666666666666,
        ],
        0.13666666666666666, 0.8333333333333334,
    ),
    (
        lambda L, o: L.CyclicLR(o, [0.01, 0.02], 0.2, 3, mode="triangular2", base_momentum=0.7, max_momentum=0.95),
        [
            0.01, 0.07333333333333336, 0.13666666666666666, 0.2, 0.13666666666666674, 0.07333333333333328, 0.01, 0.04166666666666673,
            0.07333333333333328,
        ],
        0.07999999999999996, 0.8666666666666667,
    ),
    (
        lambda L, o: L.CyclicLR(o, 0.01, 0.2, 3, mode="exp_range", gamma=0.9),
        [
            0.01, 0.06700000000000003, 0.11259999999999999, 0.14851000000000003, 0.09310600000000004, 0.04739769999999998, 0.01,
            0.04029213700000006, 0.06452584659999996,
        ],
        0.06452584659999996, 0.8713021860000001,
    ),
    (
        lambda L, o: L.CyclicLR(o, 0.01, 0.2, 3, scale_fn=lambda x: 1 / x, cycle_momentum=False),
        [
            0.01, 0.07333333333333336, 0.13666666666666666, 0.2, 0.13666666666666674, 0.07333333333333328, 0.01, 0.04166666666666673,
            0.07333333333333328,
        ],
        0.07333333333333328, 0.5,
    ),
    (
        lambda L, o: L.OneCycleLR(o, 0.5, total_steps=9),
        [
            0.020000000000000018, 0.32567911761729995, 0.49720771772545586, 0.44928332967322343, 0.3528223644955498,
            0.23131855133348753, 0.11436497657982403, 0.030446484879016203, 2e-06,
        ],
        2e-06, 0.95,
    ),
    (
        lambda L, o: L.OneCycleLR(o, [0.5, 0.2], epochs=3, steps_per_epoch=3, three_phase=True, anneal_strategy="linear", pct_start=0.4),
        [
            0.02, 0.2046153846153846, 0.3892307692307692, 0.42615384615384616, 0.24153846153846154, 0.056923076923076965,
            0.014286285714285717, 0.007144142857142858, 1.9999999999985307e-06,
        ],
        8.000000000004531e-07, 0.95,
    ),
]  # fmt: skip
NAMES = [f"{row[0].__code__.co_names[0]}-{i}" for i, row in enumerate(TORCH)]
COMBINED = [
    lambda o: L.SequentialLR(o, [L.ConstantLR(o, 0.1, 3), L.ExponentialLR(o, 0.9), L.CosineAnnealingLR(o, 5)], [4, 10]),
    lambda o: L.SequentialLR(o, [L.LinearLR(o, 0.1, 1.0, 4), L.CosineAnnealingWarmRestarts(o, 3)], [4]),
    lambda o: L.ChainedScheduler([L.ConstantLR(o, 0.1, 3), L.ExponentialLR(o, 0.9)]),
]


class Decay:
    """A function with a state, which a schedule saves."""

    def __init__(self, base: float) -> None:
        self.base = base

    def __call__(self, epoch: int) -> float:
        return self.base**epoch


def optimiser(**options):
    values = [gradlib.ones(1).requires_grad_() for _ in range(2)]
    return optim.SGD([{"params": values[0], "lr": 0.1}, {"params": values[1], "lr": 0.03}], **options)


def rates(o, scheduler, epochs):
    found = [o.param_groups[0]["lr"]]
    for _ in range(epochs):
        o.step()
        scheduler.step()
        found.append(o.param_groups[0]["lr"])
    return found


@pytest.mark.host
@pytest.mark.parametrize(("make", "first", "last", "momentum"), TORCH, ids=NAMES)
def test_rates_are_torchs(make, first, last, momentum):
    o = optimiser(momentum=0.5)
    scheduler = make(L, o)
    assert rates(o, scheduler, 8) == first
    assert (o.param_groups[1]["lr"], o.param_groups[1]["momentum"]) == (last, momentum)
    assert scheduler.get_last_lr() == [first[-1], last]


@pytest.mark.host
def test_schedules_in_sequence_and_in_chain():
    o = optimiser()
    sequence = rates(o, COMBINED[0](o), 12)
    assert sequence[:4] == pytest.approx([0.01, 0.01, 0.01, 0.1])
    assert sequence[4:10] == pytest.approx([0.1 * 0.9**k for k in range(6)])
    assert sequence[10:] == pytest.approx([0.1, 0.1 * (1 + math.cos(math.pi / 5)) / 2, 0.1 * (1 + math.cos(2 * math.pi / 5)) / 2])
    o = optimiser()
    assert rates(o, COMBINED[2](o), 5) == pytest.approx([0.01, 0.009, 0.0081, 0.0729, 0.06561, 0.059049])


@pytest.mark.host
@pytest.mark.parametrize("make", [row[0] for row in TORCH] + COMBINED)
def test_a_saved_schedule_continues(make):
    def made():
        o = optimiser(momentum=0.5)
        return o, make(o) if make in COMBINED else make(L, o)

    (straight, one), (_, late) = made(), made()
    rates(straight, one, 4)
    after, other = made()
    after.load_state_dict(straight.state_dict())
    other.load_state_dict(pickle.loads(pickle.dumps(one.state_dict())))
    assert rates(after, other, 4) == rates(straight, one, 4)
    assert late.last_epoch == 0 if hasattr(late, "last_epoch") else True


@pytest.mark.host
def test_a_function_with_a_state_is_saved_with_the_schedule():
    o = optimiser()
    scheduler = L.LambdaLR(o, Decay(0.5))
    again = L.LambdaLR(optimiser(), Decay(0.9))
    again.load_state_dict(scheduler.state_dict())
    assert again.lr_lambdas[0].base == 0.5


@pytest.mark.host
@pytest.mark.parametrize("make", [lambda o, k: L.StepLR(o, 2, 0.5, k), lambda o, k: L.ExponentialLR(o, 0.8, k)])
def test_resuming_after_an_epoch_needs_the_initial_rate(make):
    o = optimiser()
    first = make(o, -1)
    before = rates(o, first, 3)
    resumed = make(o, first.last_epoch)
    assert resumed.base_lrs == [0.1, 0.03]
    assert o.param_groups[0]["lr"] <= before[-1]
    with pytest.raises(KeyError, match="initial_lr"):
        make(optimiser(), 3)


@pytest.mark.host
def test_an_epoch_by_its_number_takes_the_closed_form():
    o = optimiser()
    scheduler = L.ExponentialLR(o, 0.5)
    o.step()
    with pytest.warns(UserWarning, match="epoch parameter"):
        scheduler.step(3)
    assert o.param_groups[0]["lr"] == 0.1 * 0.5**3


@pytest.mark.host
def test_a_step_before_the_optimisers_warns():
    o = optimiser()
    scheduler = L.StepLR(o, 1)
    with pytest.warns(UserWarning, match="before `optimizer.step"):
        scheduler.step()


def test_a_rate_that_is_a_tensor_keeps_its_memory():
    rate = gradlib.tensor(0.5, dtype=gradlib.float64)
    value = gradlib.ones(1).requires_grad_()
    o = optim.SGD([value], lr=rate)
    scheduler = L.ExponentialLR(o, 0.5)
    o.step()
    scheduler.step()
    assert o.param_groups[0]["lr"] is rate
    assert float(rate) == 0.25
    assert float(scheduler.get_last_lr()[0]) == 0.25
    assert float(o.param_groups[0]["initial_lr"]) == 0.5


@pytest.mark.host
def test_reduce_on_plateau_waits_reduces_and_cools_down():
    o = optimiser()
    scheduler = L.ReduceLROnPlateau(o, factor=0.5, patience=1, cooldown=1, min_lr=[0.04, 0.001])
    found = []
    for metric in (3.0, 2.0, 2.0, 2.0, 2.0, 2.0, 2.0, 1.0, gradlib.tensor(1.0, requires_grad=True), 1.0):
        scheduler.step(metric)
        found.append([group["lr"] for group in o.param_groups])
    assert found == [[0.1, 0.03]] * 3 + [[0.05, 0.015]] * 3 + [[0.04, 0.0075]] * 3 + [[0.04, 0.00375]]
    climbing = L.ReduceLROnPlateau(optimiser(), "max", patience=0, threshold=0.5, threshold_mode="abs")
    for metric in (1.0, 1.6, 1.9):
        climbing.step(metric)
    assert (climbing.best, climbing.get_last_lr()[0]) == (1.6, pytest.approx(0.01))


@pytest.mark.host
def test_swalr_moves_to_its_rate_and_stays():
    o = optimiser()
    assert rates(o, SWALR(o, [0.02, 0.01], 4, "linear"), 6) == pytest.approx([0.1, 0.08, 0.06, 0.04, 0.02, 0.02, 0.02])


@pytest.mark.host
def test_what_makes_no_schedule_is_refused():
    o, other = optimiser(), optimiser()
    for make, error, text in (
        (lambda: L.StepLR("sgd", 1), TypeError, "str is not an Optimizer"),
        (lambda: L.LambdaLR(o, [abs]), ValueError, "Expected 2 lr_lambdas, but got 1"),
        (lambda: L.MultiplicativeLR(o, [1, 2]), TypeError, "function"),
        (lambda: L.ConstantLR(o, 1.5), ValueError, "between 0 and 1"),
        (lambda: L.LinearLR(o, 0.0), ValueError, "greater than 0"),
        (lambda: L.LinearLR(o, 0.5, 2.0), ValueError, "Ending"),
        (lambda: L.CosineAnnealingWarmRestarts(o, 0), ValueError, "T_0"),
        (lambda: L.CosineAnnealingWarmRestarts(o, 1, 0), ValueError, "T_mult"),
        (lambda: L.CyclicLR(o, 0.1, 0.2, mode="square"), ValueError, "mode is invalid"),
        (lambda: L.CyclicLR(o, [0.1], 0.2), ValueError, "base_lr must have the same length"),
        (lambda: L.CyclicLR(optim.LBFGS([gradlib.ones(1).requires_grad_()]), 0.1, 0.2), ValueError, "must support momentum"),
        (lambda: L.OneCycleLR(o, 0.1), ValueError, "total_steps OR"),
        (lambda: L.OneCycleLR(o, 0.1, total_steps=0), ValueError, "positive integer total_steps"),
        (lambda: L.OneCycleLR(o, 0.1, total_steps=5, pct_start=2), ValueError, "pct_start"),
        (lambda: L.OneCycleLR(o, 0.1, total_steps=5, anneal_strategy="step"), ValueError, "anneal_strategy"),
        (lambda: L.SequentialLR(o, [], []), ValueError, "at least one"),
        (lambda: L.SequentialLR(o, [L.StepLR(o, 1)], [2]), ValueError, "one more than"),
        (lambda: L.ChainedScheduler([L.StepLR(o, 1), L.StepLR(other, 1)]), ValueError, "same optimizer"),
        (lambda: L.ChainedScheduler([L.ReduceLROnPlateau(o)]), ValueError, "ReduceLROnPlateau"),
        (lambda: L.ReduceLROnPlateau(o, factor=1.0), ValueError, "Factor"),
        (lambda: L.ReduceLROnPlateau(o, "least"), ValueError, "mode least is unknown"),
        (lambda: L.ReduceLROnPlateau(o, threshold_mode="x"), ValueError, "threshold mode x is unknown"),
        (lambda: SWALR(o, 0.1, anneal_epochs=-1), ValueError, "anneal_epochs"),
    ):
        with pytest.raises(error, match=text):
            make()
    last = L.OneCycleLR(o, 0.1, total_steps=2, cycle_momentum=False)
    o.step()
    last.step()
    last.step()
    with pytest.raises(ValueError, match="Tried to step 3 times"):
        last.step()


def test_combined_schedulers_take_no_epoch() -> None:
    """Which they could not hand on; it was taken and ignored."""
    optimizer = optim.SGD([gradlib.zeros(1, requires_grad=True)], lr=0.1)
    parts = [L.ConstantLR(optimizer, 0.1, 2), L.ExponentialLR(optimizer, 0.5)]
    for scheduler in (L.SequentialLR(optimizer, parts, [2]), L.ChainedScheduler(parts)):
        with pytest.raises(TypeError, match="positional argument"):
            scheduler.step(5)
