"""Anomaly mode: where a failing node was made is told, NaN raises. Texts are torch's, with the sequence number added."""

from __future__ import annotations

import threading
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib import func
from gradlib.autograd import Function, detect_anomaly, grad, set_detect_anomaly
from tests.values import host

pytestmark = pytest.mark.nonfinite


class Fails(Function):
    """x, with a backward that raises."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x.clone()

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        raise KeyError("in backward")


def leaf() -> gradlib.Tensor:
    return gradlib.tensor([0.0, 1.0], requires_grad=True)


def not_a_number(x: gradlib.Tensor) -> gradlib.Tensor:
    """Zero whose derivative at 0 is NaN."""
    y = (x * 0).sqrt()  # the line that made the node
    return (y * 0).sum()


def reported(run: Callable[[], Any], error: type[Exception], match: str) -> list[str]:
    """The warnings of a run that must raise."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with pytest.raises(error, match=match):
            run()
    return [str(w.message) for w in caught]


@pytest.fixture
def on() -> Any:
    """Anomaly mode without its warning."""
    with set_detect_anomaly(True):
        yield


def test_entering_warns() -> None:
    with pytest.warns(UserWarning, match="Anomaly Detection has been enabled"):
        mode = detect_anomaly()
    with mode:
        assert gradlib.is_anomaly_enabled()
        assert gradlib.is_anomaly_check_nan_enabled()
    assert not gradlib.is_anomaly_enabled()


def test_nan_raises_and_names_node_and_number(on: None) -> None:
    z = not_a_number(leaf())
    sqrt = z.grad_fn.next_functions[0][0].next_functions[0][0]
    texts = reported(z.backward, RuntimeError, rf"Function 'SqrtBackward0' returned nan values in its 0th output. \(seq {sqrt.seq}\)")
    assert len(texts) == 1
    assert texts[0].startswith("Error detected in SqrtBackward0. Traceback of forward call that caused the error:\n")
    assert "in not_a_number\n    y = (x * 0).sqrt()  # the line that made the node\n" in texts[0]
    assert texts[0].rstrip().endswith("# the line that made the node")


def test_the_traceback_is_in_the_metadata(on: None) -> None:
    y = leaf() * 2
    assert "y = leaf() * 2" in y.grad_fn.metadata["traceback_"][-1]


def test_recorded_backward_is_checked_too(on: None) -> None:
    x = leaf()
    texts = reported(lambda: grad(not_a_number(x), x, create_graph=True), RuntimeError, "returned nan values in its 0th output")
    assert "# the line that made the node" in texts[0]


def test_without_the_check_nan_passes() -> None:
    x = leaf()
    with set_detect_anomaly(True, check_nan=False):
        assert not gradlib.is_anomaly_check_nan_enabled()
        not_a_number(x).backward()
    assert np.isnan(host(x.grad)).all()
    assert gradlib.is_anomaly_check_nan_enabled()


def test_nan_in_an_input_that_wants_no_gradient_is_no_fault(on: None) -> None:
    x = leaf()
    other = gradlib.tensor([float("nan"), 1.0])
    (x + other).sum().backward()
    np.testing.assert_array_equal(host(x.grad), [1.0, 1.0])


def test_the_output_that_has_nan_is_named(on: None) -> None:
    x, y = leaf(), gradlib.tensor([float("nan"), 1.0], requires_grad=True)
    reported(lambda: (y * x).sum().backward(), RuntimeError, "'MulBackward0' returned nan values in its 1th output")


def test_forward_outside_the_mode() -> None:
    z = not_a_number(leaf())
    with set_detect_anomaly(True):
        (text,) = reported(z.backward, RuntimeError, "returned nan")
    assert text == (
        "Error detected in SqrtBackward0. No forward pass information available. Enable detect anomaly during forward pass for more "
        "information."
    )


def test_any_exception_is_reported_and_kept(on: None) -> None:
    y = Fails.apply(leaf()).sum()
    (text,) = reported(y.backward, KeyError, "in backward")
    assert text.startswith("Error detected in FailsBackward. Traceback of forward call")
    assert "y = Fails.apply(leaf()).sum()" in text


def test_what_induced_a_node_made_in_backward(on: None) -> None:
    x = gradlib.tensor([0.0], requires_grad=True)
    y = x.sqrt() ** 3  # first derivative 0 * inf
    with set_detect_anomaly(True, check_nan=False):
        (g,) = grad(y.sum(), x, create_graph=True)
        node = g.grad_fn
    texts = reported(lambda: g.sum().backward(), RuntimeError, "returned nan values")
    assert node.metadata["parent_"].name() == "SqrtBackward0"
    assert texts[0].startswith("Error detected in ")
    assert any("Previous calculation was induced by SqrtBackward0" in t and "y = x.sqrt() ** 3" in t for t in texts[1:])


def test_writes_and_views_are_traced(on: None) -> None:
    b = leaf() * 1
    v = b[0]
    v.mul_(2.0)  # the write
    assert b.grad_fn.name() == "CopySlices"
    assert "v.mul_(2.0)  # the write" in b.grad_fn.metadata["traceback_"][-1]


def test_a_leafs_bad_gradient_is_no_node_of_its_own(on: None) -> None:
    x = leaf()
    reported(lambda: (x * 2).backward(gradlib.full((2,), float("nan"))), RuntimeError, "'MulBackward0' returned nan")
    x.backward(gradlib.full((2,), float("nan")))
    assert np.isnan(host(x.grad)).all()


def test_integers_and_complex_numbers(on: None) -> None:
    z = gradlib.tensor([1 + 2j], requires_grad=True)
    (z * z.conj()).real.sum().backward()
    np.testing.assert_allclose(host(z.grad), [2 + 4j])
    reported(lambda: (z * complex("nan")).real.sum().backward(), RuntimeError, "'MulBackward0' returned nan")


def test_as_a_function_it_stays() -> None:
    set_detect_anomaly(True)
    try:
        assert gradlib.is_anomaly_enabled()
        with set_detect_anomaly(False):
            assert "traceback_" not in (leaf() * 2).grad_fn.metadata
        assert "traceback_" in (leaf() * 2).grad_fn.metadata
    finally:
        set_detect_anomaly(False)
    assert not gradlib.is_anomaly_enabled()
    assert (leaf() * 2).grad_fn.metadata == {}


def test_counts_for_every_thread(on: None) -> None:
    found: list[Any] = []

    def run() -> None:
        try:
            not_a_number(leaf()).backward()
        except RuntimeError as error:
            found.append(str(error))

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        thread = threading.Thread(target=run)
        thread.start()
        thread.join()
    assert "'SqrtBackward0' returned nan values" in found[0]


def test_within_func(on: None) -> None:
    rows = gradlib.tensor([[0.0, 1.0], [2.0, 3.0]])
    reported(lambda: func.vmap(func.grad(not_a_number))(rows), RuntimeError, "'SqrtBackward0' returned nan")
    found = func.vmap(func.jacfwd(lambda x: x.softmax(0)))(rows)
    with set_detect_anomaly(False):
        np.testing.assert_array_equal(host(found), host(func.vmap(func.jacfwd(lambda x: x.softmax(0)))(rows)))


def test_gradients_are_unchanged(on: None) -> None:
    x = gradlib.tensor([1.0, 2.0], requires_grad=True)
    y = (x.exp() * x).sum()
    (g,) = grad(y, x, create_graph=True)
    (h,) = grad(g.sum(), x)
    np.testing.assert_allclose(host(g), np.exp([1.0, 2.0]) * [2, 3], rtol=1e-6)
    np.testing.assert_allclose(host(h), np.exp([1.0, 2.0]) * [3, 4], rtol=1e-6)
