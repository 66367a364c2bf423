"""Averages of parameters along the way."""

from __future__ import annotations

import numpy as np
import pytest

import gradlib
from gradlib.optim.swa_utils import AveragedParameters, get_ema_avg_fn, get_swa_avg_fn
from tests.values import host


def test_the_mean_of_all_that_were_averaged():
    value = gradlib.tensor([1.0, 2.0]).requires_grad_()
    average = AveragedParameters([value])
    for k in range(3):
        value.data = gradlib.tensor([float(k), 4.0 * k])
        average.update_parameters([value])
    np.testing.assert_allclose(host(average.params[0]), [1, 4])
    assert not average.params[0].requires_grad
    assert average.n_averaged == 3
    version = value._version
    average.copy_to([value])
    assert host(value).tolist() == [1, 4]
    assert value.is_leaf
    assert value._version > version


def test_an_exponential_moving_average():
    value = gradlib.tensor([0.0])
    average = AveragedParameters([value], get_ema_avg_fn(0.9))
    average.update_parameters([value])
    value.fill_(1.0)
    average.update_parameters([value])
    np.testing.assert_allclose(host(average.params[0]), [0.1], rtol=1e-6)
    with pytest.raises(ValueError, match=r"decay value 1\.5"):
        get_ema_avg_fn(1.5)


def test_a_saved_average_continues():
    value = gradlib.tensor([1.0])
    one, two = AveragedParameters([value]), AveragedParameters([gradlib.zeros(1)], get_swa_avg_fn())
    one.update_parameters([value])
    two.load_state_dict(one.state_dict())
    assert two.params[0] is not one.params[0]
    for average in (one, two):
        average.update_parameters([value * 3])
    assert host(one.params[0]) == host(two.params[0]) == [2.0]
    with pytest.raises(ValueError, match=r"shapes \[\(1,\)\]; got \[\(1,\), \(1,\)\]"):
        one.update_parameters([value, value])
