"""Gradients clipped, and parameters as one vector."""

from __future__ import annotations

import math

import numpy as np
import pytest

import gradlib
from gradlib.backend import several
from gradlib.nn.utils import (
    clip_grad_norm_,
    clip_grad_value_,
    clip_grads_with_norm_,
    get_total_norm,
    parameters_to_vector,
    vector_to_parameters,
)
from tests.values import host

GRADIENTS = ([3.0, -4.0], [[12.0, 0.0]], 84.0)


def parameters():
    found = []
    for values in GRADIENTS:
        value = gradlib.zeros(np.shape(values)).requires_grad_()
        value.grad = gradlib.tensor(values)
        found.append(value)
    return [*found, gradlib.zeros(2).requires_grad_()]


@pytest.mark.parametrize(("order", "norm"), [(2.0, 85.0), (1.0, 103.0), (math.inf, 84.0)])
def test_gradients_are_scaled_to_a_norm(order, norm):
    values = parameters()
    total = clip_grad_norm_(values, norm / 2, order)
    assert float(total) == pytest.approx(norm)
    np.testing.assert_allclose(host(values[0].grad), [1.5, -2], rtol=1e-6)
    assert float(values[2].grad) == pytest.approx(42)
    assert values[3].grad is None
    assert not total.requires_grad


def test_small_gradients_stay():
    values = parameters()
    assert float(clip_grad_norm_(values[0], 5.1)) == 5
    assert host(values[0].grad).tolist() == [3, -4]
    clip_grads_with_norm_(values[0], 1.0, gradlib.tensor(2.0))
    np.testing.assert_allclose(host(values[0].grad), [1.5, -2], rtol=1e-6)


def test_no_gradients():
    assert float(clip_grad_norm_([gradlib.zeros(1).requires_grad_()], 1.0)) == 0
    assert float(get_total_norm([])) == 0
    with pytest.warns(UserWarning, match="empty generator"):
        clip_grad_norm_((value for value in ()), 1.0)


@pytest.mark.nonfinite
def test_a_norm_that_is_not_finite_is_refused_where_asked():
    value = gradlib.zeros(1).requires_grad_()
    value.grad = gradlib.tensor([math.nan])
    with pytest.raises(RuntimeError, match="non-finite"):
        clip_grad_norm_(value, 1.0, error_if_nonfinite=True)
    assert math.isnan(float(clip_grad_norm_(value, 1.0)))


def test_elements_of_gradients_are_clipped():
    values = parameters()
    clip_grad_value_(values, 3.5)
    assert [host(value.grad).tolist() for value in values[:3]] == [[3, -3.5], [[3.5, 0]], 3.5]


def test_parameters_as_one_vector_and_back():
    values = [gradlib.tensor([[1.0, 2.0], [3.0, 4.0]]).requires_grad_(), gradlib.tensor(5.0).requires_grad_()]
    vector = parameters_to_vector(values)
    assert host(vector).tolist() == [1, 2, 3, 4, 5]
    (vector * gradlib.arange(5.0)).sum().backward()
    assert host(values[0].grad).tolist() == [[0, 1], [2, 3]]
    vector_to_parameters(vector.detach() * 2, values)
    assert host(values[0]).tolist() == [[2, 4], [6, 8]]
    assert values[1].item() == 10
    assert values[0].is_leaf
    assert values[0].requires_grad


def test_what_is_no_vector_of_the_parameters_is_refused():
    value = gradlib.zeros(2).requires_grad_()
    with pytest.raises(TypeError, match="must be Tensor, not list of float"):
        vector_to_parameters([1.0, 2.0], [value])
    with pytest.raises(ValueError, match="have 2 elements together; got a vector of 1"):
        vector_to_parameters(gradlib.ones(1), [value])
    assert host(value).tolist() == [0, 0]


@pytest.mark.parametrize("order", [2.0, 1.0, math.inf, 0.0])
def test_the_norm_of_many_is_that_of_all_as_one(order):
    values = [gradlib.linspace(-k, 1, k + 2, dtype=gradlib.float64).reshape(1, -1) for k in range(12)]
    norms = gradlib.stack([gradlib.linalg.vector_norm(value, order) for value in values])
    np.testing.assert_allclose(host(get_total_norm(values, order)), host(gradlib.linalg.vector_norm(norms, order)), rtol=1e-13)


def many(count):
    values = [gradlib.zeros(k % 5 + 1, 3, device="cuda").requires_grad_() for k in range(count)]
    for k, value in enumerate(values):
        value.grad = gradlib.linspace(-2, k / 7 - 3, value.numel(), device="cuda").reshape(value.shape)
    values[1].grad[0, 0] = math.nan
    return values


@pytest.mark.cuda
@pytest.mark.host
@pytest.mark.parametrize("name", ["scale", "clip"])
def test_gradients_on_a_device_are_clipped_by_one_launch_with_the_same_bits(name, monkeypatch):
    """Of 128 of them at most."""
    run, launches, found, total = several.Several.launch, [], [], gradlib.tensor(3.0, device="cuda")
    monkeypatch.setattr(several.Several, "launch", lambda self, *args: launches.append(self.name) or run(self, *args))
    for values in (many(130), [*many(130), gradlib.zeros(3, device="cuda", requires_grad=True)]):
        if len(values) > 130:
            values[-1].grad = values[0].grad[0]  # in one memory with another: these are written one by one
        before = [value.grad._version for value in values]
        clip_grads_with_norm_(values[:130], 0.7, total) if name == "scale" else clip_grad_value_(values[:130], 1.25)
        if len(values) > 130:
            clip_grads_with_norm_(values[::130], 1e9, total) if name == "scale" else clip_grad_value_(values[::130], 1e9)
        assert all(value.grad._version > count for value, count in zip(values, before, strict=True))
        found.append([value.grad.tolist() for value in values[:130]])
    assert launches == [name] * 4
    factor = (0.7 / (total + 1e-6)).clamp(max=1.0)
    expected = [value.grad * factor if name == "scale" else value.grad.clamp(-1.25, 1.25) for value in many(130)]
    for each in found:
        np.testing.assert_array_equal(np.concatenate([np.ravel(x) for x in each]), np.concatenate([host(x).ravel() for x in expected]))


@pytest.mark.cuda
@pytest.mark.host
@pytest.mark.parametrize(("order", "dtype"), [(2.0, "float32"), (1.0, "float64"), (0.5, "float64"), (math.inf, "float32")])
def test_norms_of_parts_on_a_device_are_one_launch_and_scaling_another(order, dtype, monkeypatch):
    """Of arrays larger than a part, too."""
    run, launches = several.Several.launch, []
    monkeypatch.setattr(several.Several, "launch", lambda self, *args: launches.append(self.name) or run(self, *args))
    rng, values = np.random.default_rng(0), []
    for size in (3, 1, several.PIECE, 2 * several.PIECE + 33, 40):
        values.append(gradlib.zeros(size, dtype=getattr(gradlib, dtype), device="cuda", requires_grad=True))
        values[-1].grad = gradlib.tensor(rng.normal(size=size), dtype=getattr(gradlib, dtype), device="cuda")
    before = [value.grad.clone() for value in values]
    total = clip_grad_norm_(values, 0.7, order)
    assert launches == [several.NORMS.get(order, several.NORMS[0.0]).name, "scale"]
    expected = gradlib.linalg.vector_norm(gradlib.cat(before).double(), order)
    assert total.item() == pytest.approx(expected.item(), rel=1e-6 if dtype == "float32" else 1e-13)
    factor = (0.7 / (total + 1e-6)).clamp(max=1.0)
    assert all(gradlib.equal(value.grad, each * factor) for value, each in zip(values, before, strict=True))
    values[4].grad = gradlib.stack([values[4].grad] * 2, 1)[:, 0]  # with gaps: one by one
    again = get_total_norm([value.grad for value in values], order)
    assert launches[2:] == []
    assert again.item() == pytest.approx(0.7, rel=1e-5)


@pytest.mark.cuda
@pytest.mark.host
@pytest.mark.nonfinite
@pytest.mark.parametrize("order", [2.0, 1.0, 3.0, math.inf])
def test_norms_of_parts_are_nan_where_an_element_is(order):
    parts = [gradlib.ones(40, device="cuda"), gradlib.ones(3, device="cuda")]
    parts[0][35] = math.nan
    assert math.isnan(get_total_norm(parts, order).item())


def test_a_total_norm_is_not_recorded() -> None:
    x = gradlib.ones(3, requires_grad=True)
    assert not get_total_norm([x, 2 * x]).requires_grad


@pytest.mark.parametrize("foreach", [None, True, False])
def test_foreach_is_taken_and_changes_nothing(foreach: bool | None) -> None:
    x = gradlib.zeros(2, requires_grad=True)
    x.grad = gradlib.tensor([3.0, 4.0])
    assert get_total_norm([x.grad], foreach=foreach).item() == 5
    assert clip_grad_norm_([x], 2.5, foreach=foreach).item() == 5
    np.testing.assert_allclose(host(x.grad), [1.5, 2.0], rtol=1e-5)
    clip_grads_with_norm_([x], 1.25, gradlib.tensor(2.5), foreach=foreach)
    clip_grad_value_([x], 0.75, foreach=foreach)
    np.testing.assert_allclose(host(x.grad), [0.75, 0.75], rtol=1e-5)
