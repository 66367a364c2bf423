"""HIPS autograd's functions: arrays in, arrays out, of the device's library."""

from __future__ import annotations

import numpy as onp
import pytest

import gradlib
import gradlib.numpy as np
from gradlib.backend.thread import on_fresh_stack
from gradlib.interop import hips
from tests.device import cupy
from tests.values import host


def array(*values, device):
    return (cupy if device == "cuda" else onp).array(values)


def library(device):
    return cupy if device == "cuda" else onp


def same(found, expected):
    onp.testing.assert_allclose(host(found), expected, rtol=1e-10, atol=1e-12)


def test_a_nest_goes_on_where_a_deeper_stack_is_needed():
    assert hips.grad(lambda x: on_fresh_stack(lambda: hips.grad(lambda y: y * y * x)(3.0)))(2.0) == 6


def test_gradients_of_four_orders():
    found = np.tanh
    expected = [lambda t: 1 - t**2, lambda t: -2 * t * (1 - t**2), lambda t: (1 - t**2) * (6 * t**2 - 2)]
    for value in expected:
        found = hips.grad(found)
        result = found(0.5)
        assert type(result) is onp.float64
        same(result, value(onp.tanh(0.5)))
    same(hips.grad(hips.grad(lambda x: x**4))(2), 48)


def test_arrays_of_the_library_and_the_dtype_that_were_given(device):
    for dtype in ("float32", "float64"):
        x = array(1.0, 2.0, device=device).astype(dtype)
        found = hips.grad(lambda x: np.sum(np.sin(x) ** 2))(x)
        assert type(found) is library(device).ndarray
        assert found.dtype == dtype
        onp.testing.assert_allclose(host(found), onp.sin([2.0, 4.0]), rtol=1e-6)


def test_numpys_own_functions_and_gradlibs_serve_too(device):
    x = array(1.0, 2.0, device=device)
    for function in (lambda x: onp.sum(onp.exp(x)), lambda x: gradlib.exp(x).sum()):
        same(hips.grad(function)(x), onp.exp([1.0, 2.0]))


def test_nests_and_several_arguments(device):
    x = array(1.0, 2.0, device=device)
    nest = {"a": x, "b": [2.0, (x,)], "none": ()}
    found = hips.grad(lambda n, y: np.sum(n["a"] * n["b"][0] * n["b"][1][0]) * y)(nest, 3.0)
    assert list(found) == ["a", "b", "none"]
    same(found["a"], [6, 12])
    same(found["b"][0], 15)
    same(found["b"][1][0], [6, 12])
    first, second = hips.grad(lambda x, c, y: np.sum(x) * y * c, (0, 2))(x, 2, 5.0)
    same(first, [10, 10])
    same(second, 6)
    value, (first,) = hips.value_and_grad(lambda x, y: x * y, [1])(2.0, 3.0)
    assert (value, first) == (6, 2)


def test_a_gradient_within_a_function_that_is_differentiated():
    same(hips.grad(lambda x: x * hips.grad(lambda y: x * y)(1.0))(2.0), 4)
    with pytest.warns(UserWarning, match="independent"):
        same(hips.grad(lambda x: hips.grad(lambda y: x + y)(1.0))(2.0), 0)
    same(hips.deriv(hips.grad(np.exp))(1.0), onp.e)
    same(hips.grad(hips.deriv(np.exp))(1.0), onp.e)
    same(hips.deriv(hips.deriv(hips.deriv(np.exp)))(1.0), onp.e)


def test_jacobian_and_hessian(device):
    x = array(1.0, 2.0, 3.0, device=device)
    same(hips.jacobian(lambda x: np.outer(x, x)[:2])(x), [[[2, 0, 0], [2, 1, 0], [3, 0, 1]], [[2, 1, 0], [0, 4, 0], [0, 3, 2]]])
    same(hips.hessian(lambda x: np.prod(x))(x), [[0, 3, 2], [3, 0, 1], [2, 1, 0]])
    same(hips.hessian(lambda c, x: np.prod(x), 1)(0, x), [[0, 3, 2], [3, 0, 1], [2, 1, 0]])
    same(hips.jacobian(lambda t: t**2)(3.0), 6)
    same(hips.jacobian(lambda x: x[:0])(x), onp.zeros((0, 3)))
    with pytest.raises(TypeError, match="one array"):
        hips.jacobian(lambda n: n[0])([x])


def test_products_with_jacobians_and_hessians(device):
    x, v = array(1.0, 2.0, device=device), array(1.0, -1.0, device=device)
    cubes = lambda x: np.sum(x**3)  # noqa: E731
    same(hips.hessian_vector_product(cubes)(x, v), [6, -12])
    hvp, first = hips.make_hvp(cubes)(x)
    same(hvp(v), [6, -12])
    same(first, [3, 12])
    same(hips.vector_jacobian_product(lambda x: x**2)(x, v), [2, -4])
    same(hips.make_ggnvp(lambda x: x**2)(x)(v), [4, -16])
    value, tangent = hips.make_jvp(np.exp)(x)(v)
    same(value, onp.exp([1, 2]))
    same(tangent, onp.exp([1, 2]) * [1, -1])
    same(hips.make_jvp_reversemode(np.exp)(x)(v), onp.exp([1, 2]) * [1, -1])
    vjp, value = hips.make_vjp(np.exp)(x)
    assert type(value) is library(device).ndarray
    same(vjp(v), onp.exp([1, 2]) * [1, -1])
    same(vjp(v), onp.exp([1, 2]) * [1, -1])  # as often as one likes
    same(hips.elementwise_grad(np.sin)(x), onp.cos([1.0, 2.0]))


def test_complex_derivatives_are_those_of_hips():
    z = 1 + 2j
    same(hips.holomorphic_grad(lambda z: z**3)(z), 3 * z**2)
    same(hips.grad(lambda z: np.abs(z) ** 2)(z), 2 * onp.conj(z))
    same(hips.make_vjp(lambda z: z * z)(z)[0](1j), 2j * z)
    with pytest.raises(TypeError, match="real scalar"):
        hips.grad(lambda z: z * z)(z)
    with pytest.raises(TypeError, match="real-output"):
        hips.elementwise_grad(lambda z: z * z)(z)
    with pytest.warns(UserWarning, match="not complex"):
        hips.holomorphic_grad(lambda z: z * z)(1.0)


def test_what_cannot_be_differentiated_is_refused():
    with pytest.raises(TypeError, match="scalar-output"):
        hips.grad(lambda x: x)(onp.ones(2))
    with pytest.raises(TypeError, match=r"w\.r\.t\. type <class 'str'>"):
        hips.grad(lambda x: x)("text")
    with pytest.raises(TypeError, match="got a bool"), pytest.warns(UserWarning, match="independent"):
        hips.grad(lambda x: np.allclose(x, x))(onp.ones(2))
    with pytest.raises(TypeError, match="argnum"):
        hips.grad(lambda x: x, "x")(1.0)
    with pytest.warns(UserWarning, match="independent"):
        assert hips.grad(lambda x: 3.0)(1.0) == 0
    with pytest.raises(ZeroDivisionError):
        hips.grad(lambda x: 1 / 0)(1.0)
    same(hips.grad(lambda x: x * 2)(1.0), 2)  # nothing is left of what failed


def test_by_names_and_beside_another_value():
    found = hips.multigrad_dict(lambda a, *more, b=2.0, **named: a * b * more[0] * named["z"])(3.0, 4.0, z=5.0)
    assert list(found) == ["a", "more", "b", "named"]
    assert (found["a"], found["more"], found["b"], found["named"]) == (40, (30,), 60, {"z": 24})
    same(hips.grad_named(lambda a, b: a * b, "b")(2.0, 3.0), 2)
    first, other = hips.grad_and_aux(lambda x: (x**2, {"kept": x + 1}))(3.0)
    assert (first, other["kept"]) == (6, 4)


def test_flatten_and_restore_a_nest(device):
    x = array(1.0, 2.0, device=device)
    nest = {"b": x, "a": [x[0], (x * 2,)]}
    flat, restore = hips.flatten(nest)
    same(flat, [1, 2, 4, 1, 2])
    again = restore(flat + 1)
    same(again["b"], [2, 3])
    same(again["a"][1][0], [3, 5])
    same(hips.grad(lambda f: np.sum(restore(f)["b"] ** 2))(flat), [0, 0, 0, 2, 4])
    same(hips.grad(lambda n: np.sum(hips.flatten(n)[0] ** 2))(nest)["b"], [2, 4])
    assert hips.flatten([])[0].shape == (0,)


def logistic():
    @hips.primitive
    def function(x):
        assert not isinstance(x, gradlib.Tensor)
        return 1 / (1 + library("cpu" if isinstance(x, (onp.ndarray, onp.generic)) else "cuda").exp(-x))

    hips.defvjp(function, lambda ans, x: lambda g: g * ans * (1 - ans))
    hips.defjvp(function, lambda g, ans, x: g * ans * (1 - ans))
    return function


def test_functions_of_ones_own(device):
    function = logistic()
    x = array(0.1, 0.2, device=device)
    assert type(function(x)) is library(device).ndarray
    hips.check_grads(function, order=3)(x)
    s = 1 / (1 + onp.exp(-host(x)))
    same(hips.grad(lambda x: np.sum(function(x * 2)))(x / 2), 2 * s * (1 - s))


def test_rules_for_several_arguments_nests_and_keywords():
    @hips.primitive
    def weighted(parts, w, scale=1.0):
        return {"sum": sum(parts) * w * scale, "text": "kept"}

    hips.defvjp(weighted, lambda ans, parts, w, scale=1.0: lambda g: [g["sum"] * w * scale for _ in parts], None)
    found = hips.grad(lambda p, w: weighted([p, 2 * p], w, scale=3.0)["sum"], (0, 1))(2.0, 5.0)
    same(found, [45, 0])
    assert weighted([1.0], 2.0)["text"] == "kept"
    undefined = hips.primitive(lambda x, y: x * y)
    for operator, kind in ((hips.grad, "VJP"), (hips.deriv, "JVP")):
        with pytest.raises(NotImplementedError, match=f"{kind} of"):
            operator(undefined)(1.0, 2.0)
    hips.defvjp(undefined, lambda ans, x, y: lambda g: g * x, argnums=[1])
    same(hips.grad(undefined, 1)(3.0, 2.0), 3)
    with pytest.raises(NotImplementedError, match="argnum 0"):
        hips.grad(undefined)(1.0, 2.0)


def test_complex_rules_of_ones_own():
    square = hips.primitive(lambda z: z * z)
    hips.defvjp(square, lambda ans, z: lambda g: 2 * g * z)
    hips.defjvp(square, lambda g, ans, z: 2 * g * z)
    hips.check_grads(square)(1 + 2j)
    hips.check_grads(lambda x: square(x * (1 + 2j)))(2.0)
    same(hips.deriv(square)(1 + 2j), 2 + 4j)


def test_checkpoint_computes_again_and_keeps_nothing():
    calls = []

    def function(x, y):
        calls.append(x)
        return np.sin(x) * y

    checkpointed = hips.checkpoint(function)
    same(hips.grad(checkpointed)(1.0, 2.0), 2 * onp.cos(1))
    assert len(calls) == 2
    same(hips.grad(hips.grad(checkpointed))(1.0, 2.0), -2 * onp.sin(1))


def test_a_wrong_rule_is_found():
    wrong = hips.primitive(lambda x: x * x)
    hips.defvjp(wrong, lambda ans, x: lambda g: 2.002 * g * x)
    hips.defjvp(wrong, lambda g, ans, x: 2.002 * g * x)
    for mode in ("rev", "fwd"):
        with pytest.raises(AssertionError, match="check of"):
            hips.check_grads(wrong, modes=[mode], order=1)(1.0)
    hips.defvjp(wrong, lambda ans, x: lambda g: 2 * (g * x + onp.sin(0)))
    hips.check_grads(wrong, modes=["rev"])(1.0)
    inner = hips.primitive(lambda g: g)
    hips.defvjp(inner, lambda ans, g: lambda h: 1.001 * h)
    hips.defvjp(wrong, lambda ans, x: lambda g: 2 * inner(g) * x)
    with pytest.raises(AssertionError, match="check of vjp_"):
        hips.check_grads(wrong, modes=["rev"])(1.0)
    with pytest.raises(ValueError, match="modes"):
        hips.check_grads(wrong, modes=["sideways"])(1.0)


@pytest.mark.host
def test_tensors_in_tensors_out():
    x = gradlib.tensor([1.0, 2.0], requires_grad=True)
    found = hips.grad(lambda x: (x**3).sum())(x)
    assert isinstance(found, gradlib.Tensor)
    found.sum().backward()
    assert x.grad.tolist() == [6, 12]


@pytest.mark.host
def test_names_that_torch_does_not_use_are_gradlibs_own():
    names = {name for module in (hips.operators, hips.primitives, hips.checks) for name in module.__all__}
    assert {name for name in names if getattr(gradlib, name, None) is getattr(hips, name)} == names - {"flatten"}
