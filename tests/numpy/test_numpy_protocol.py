"""NumPy's functions called on Tensors: they stay Tensors, differentiate, and give what NumPy gives for the arrays."""

from __future__ import annotations

import functools

import numpy as np
import pytest

import gradlib
import gradlib.numpy as gnp
from benchmarks.python_calls import python_calls
from tests.device import cupy
from tests.values import host


@pytest.fixture
def x():
    return gradlib.tensor([1.0, 2.0, 3.0], dtype=gradlib.float64, requires_grad=True)


def test_a_ufunc_gives_a_tensor_with_the_operations_gradient(x):
    y = np.sin(x)
    y.sum().backward()
    assert isinstance(y, gradlib.Tensor)
    np.testing.assert_allclose(host(x.grad), np.cos([1.0, 2.0, 3.0]))


def test_numpys_promotion_decides_in_a_ufunc_and_torchs_in_an_operator():
    whole, single = gradlib.tensor([1, 2, 3]), gradlib.tensor([1.0, 2.0, 3.0])
    assert np.sin(whole).dtype == np.float64
    assert np.add(whole, single).dtype == np.float64
    assert (whole + single).dtype == np.float32
    assert (np.array(3) * single).dtype == np.float32
    assert (np.float64(2) * single).dtype == np.float32


def test_an_array_beside_a_tensor_leaves_the_operator_to_it(device):
    array, x = (np if device == "cpu" else cupy).ones(2), gradlib.tensor([1.0, 2.0], dtype=gradlib.float64, requires_grad=True)
    for found, want in ((array - x, [0, -1]), (x - array, [0, 1]), (array < x, [False, True]), (array * x, [1, 2])):
        assert isinstance(found, gradlib.Tensor)
        assert found.tolist() == want


def test_an_array_that_a_tensor_is_added_to_in_place_becomes_that_tensor(x, device):
    array = total = np.ones(3) if device == "cpu" else cupy.ones(3)
    if device == "cpu":
        array += x
        assert isinstance(array, gradlib.Tensor)
        assert array.requires_grad
    else:  # CuPy writes at once
        with pytest.raises(RuntimeError, match="requires grad"):
            array += x
    assert total.tolist() == [1.0, 1.0, 1.0]


def test_a_result_is_where_the_tensor_is(x, device):
    for y in (np.sin(x), np.add(x, 1.0), np.sum(x), np.concatenate([x, x]), np.linalg.norm(x)):
        assert isinstance(y, gradlib.Tensor)
        assert y.device.type == device
        assert y.requires_grad


def test_a_tensor_that_requires_grad_does_not_silently_become_an_array(x):
    with pytest.raises((RuntimeError, TypeError), match=r"requires grad|to numpy"):
        np.asarray(x)
    with pytest.raises(TypeError, match=r"numpy.add: out= is a NumPy array"):
        np.add(x, 1.0, out=np.empty(3))


@pytest.mark.host
def test_an_out_that_does_not_fit_is_refused_in_the_name_of_the_function():
    names = "sum prod max min nanmax nanmin mean var std nanvar nanstd cumsum cumprod cumulative_sum cumulative_prod argmin nanargmin any"
    of_numbers = "nansum nanprod nancumsum nancumprod nanmean"
    for name in (each for each in f"{names} {of_numbers}".split() if hasattr(np, each)):
        for given in (gradlib.ones(2, 3), gradlib.ones(2, 3, dtype=gradlib.complex64)):
            if given.is_complex() and "arg" in name:
                continue
            with pytest.raises(ValueError, match=rf"^numpy\.{name}: out= has shape \(7,\)"):
                getattr(np, name)(given, axis=0, out=gradlib.zeros(7))


def test_what_is_refused_names_the_function_and_one_that_is_taken(x):
    with pytest.raises(TypeError, match=r"numpy.spacing does not take a gradlib Tensor.*numpy.nextafter"):
        np.spacing(gradlib.eye(2))


def test_another_librarys_ufunc_is_not_called_numpys():
    special = pytest.importorskip("scipy.special")
    with pytest.raises(TypeError, match=r"^log1p, another library's ufunc, does not take a gradlib Tensor: gradlib\.log1p does"):
        special.log1p(gradlib.ones(2))


def test_where_keeps_an_infinite_derivative_out():
    a = gradlib.tensor([0.0, 4.0], requires_grad=True)
    y = np.divide(1.0, a, where=a != 0, out=None)
    y.sum().backward()
    assert y.tolist() == [0.0, 0.25]
    assert a.grad.tolist() == [0.0, -0.0625]


def test_out_carries_the_derivative_in_place(x):
    target = gradlib.zeros(3, dtype=gradlib.float64)
    assert np.multiply(x, 2.0, out=target) is target
    target.sum().backward()
    assert x.grad.tolist() == [2.0, 2.0, 2.0]


def test_the_module_builds_arrays_of_tensors_in_lists(x):
    y = gnp.array([[x[0], 1.0], [x[1] * 2, x[2]]])
    y.sum().backward()
    assert y.shape == (2, 2)
    assert x.grad.tolist() == [1.0, 2.0, 1.0]
    assert gnp.sum([x, x]).item() == 12.0
    assert gnp.sin([x[0], 0.0]).shape == (2,)


def test_the_module_gives_numpys_own_results_for_arrays():
    assert type(gnp.sin(np.ones(2))) is np.ndarray
    assert gnp.pi == np.pi
    assert gnp.float64 is np.float64
    assert type(gnp.array([1.0])) is np.ndarray
    assert gnp.linalg.norm([3.0, 4.0]) == 5.0
    assert gnp.random.RandomState(0).rand(2).shape == (2,)


@pytest.mark.host
def test_both_doors_are_one_python_call_more_than_the_operation():
    """Of small operands a call costs what its Python functions cost; at most twice the operation's time is allowed."""
    x = gradlib.ones(10, dtype=gradlib.float64)
    for operation, function, served in (
        (gradlib.sin, np.sin, gnp.sin),
        (lambda x: gradlib.add(x, x), lambda x: np.add(x, x), lambda x: gnp.add(x, x)),
    ):
        served(x)  # it is made at its first use
        direct, by_protocol, by_module = (len(python_calls(functools.partial(f, x))) for f in (operation, function, served))
        assert by_protocol == by_module == direct + 1


def test_the_module_says_numpys_version():
    assert gnp.__version__ == np.__version__
