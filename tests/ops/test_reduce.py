"""Reductions: dtypes, dimensions, ties, zeros, empty inputs, errors."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra.numpy import array_shapes

import gradlib
from gradlib import linalg
from gradlib.autograd import forward_ad
from tests.ops.case import t
from tests.values import host

NAN, INF = math.nan, math.inf


def slope(function: Callable[[Any], Any], values: Any, dtype: Any = gradlib.float64) -> Any:
    """The gradient of the sum of what the function gives."""
    x = t(values, dtype, True)
    return gradlib.autograd.grad(function(x).sum(), x)[0].tolist()


# ---- dtypes -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("dtype", "summed"),
    [
        ("bool", "int64"), ("uint8", "int64"), ("int8", "int64"), ("int32", "int64"), ("int64", "int64"), ("float16", "float16"),
        ("bfloat16", "bfloat16"), ("float32", "float32"), ("float64", "float64"), ("complex64", "complex64"),
    ],
)  # fmt: skip
def test_sums_and_products_keep_float_dtypes_and_widen_integers(dtype: str, summed: str) -> None:
    x = t([[1, 0], [1, 1]], dtype)
    for function in (gradlib.sum, gradlib.prod):
        assert function(x).dtype.name == function(x, 1).dtype.name == summed
    assert x.sum().item() == 3
    assert x.prod().item() == 0
    wider = "complex128" if dtype == "complex64" else "float64"
    assert x.sum(dtype=wider).dtype.name == wider


def test_uint8_is_summed_without_overflow() -> None:
    assert t([200, 100], "uint8").sum().item() == 300


def test_the_input_is_converted_before_it_is_summed() -> None:
    assert t([1.5, 1.5]).sum(dtype=gradlib.int32).item() == 2


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_types_are_summed_in_single_precision(dtype: str) -> None:
    ones = gradlib.ones((4096, 2), dtype=dtype)
    assert ones.sum(0).tolist() == [4096, 4096]
    assert ones.mean().item() == 1
    assert (ones * 300).mean(0).tolist() == [300, 300]
    assert (ones[:2, 0] * 300).norm().item() == pytest.approx(300 * math.sqrt(2), rel=0.01)


@pytest.mark.parametrize("shape", [(200_000, 2), (500, 400, 2), (400_000,)])
def test_long_sums_lose_nothing(shape: tuple[int, ...]) -> None:
    """Row after row in float32 the sum would be off by 0.1 %."""
    x, dims = gradlib.full(shape, 0.1), tuple(range(max(len(shape) - 1, 1)))
    number = x.numel() // x.sum(dims).numel()
    np.testing.assert_allclose(host(x.sum(dims)), number * np.float64(np.float32(0.1)), rtol=3e-7)
    np.testing.assert_allclose(host(x.mean(dims)), np.float32(0.1), rtol=3e-7)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int64"])
def test_integers_have_no_mean(dtype: str) -> None:
    x = t([1, 0], dtype)
    with pytest.raises(RuntimeError, match=r"mean\(\): could not infer output dtype"):
        x.mean()
    with pytest.raises(RuntimeError, match="must be a floating point"):
        t([1.0]).mean(dtype=gradlib.int64)
    for function in (gradlib.std, gradlib.var):
        with pytest.raises(RuntimeError, match="only support floating point"):
            function(x)
    with pytest.raises(RuntimeError, match="Expected a floating point"):
        x.norm()
    assert x.mean(dtype=gradlib.float64).item() == 0.5


def test_moments_and_norms_of_complex_numbers_are_real() -> None:
    x = t([1 + 1j, -1 - 1j], "complex64")
    for value, expected in ((x.var(), 4), (x.std(), 2), (x.norm(), 2)):
        assert value.dtype == gradlib.float32
        assert value.item() == pytest.approx(expected)
    assert x.mean().item() == 0


def test_all_and_any_of_uint8_stay_uint8() -> None:
    x = t([[3, 0], [1, 1]], "uint8")
    assert (x.all(1).dtype.name, x.all(1).tolist(), x.any().item()) == ("uint8", [0, 1], 1)
    assert t([[NAN, 0.0]]).any(1).tolist() == [True]
    assert gradlib.all(t([[1, 0]]), dim=()).tolist() == [[True, False]]


# ---- dimensions ---------------------------------------------------------------------------------------------------------------


@given(shape=array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=3), data=st.data())
def test_any_dimensions_of_any_shape(shape: tuple[int, ...], data: st.DataObject) -> None:
    dims = tuple(data.draw(st.sets(st.integers(0, max(len(shape) - 1, 0)), min_size=1, max_size=max(len(shape), 1))))
    signed = tuple(d - max(len(shape), 1) if data.draw(st.booleans()) else d for d in dims)
    keep = data.draw(st.booleans())
    values = np.arange(math.prod(shape), dtype=float).reshape(shape) + 1
    expected = values.sum(axis=dims if shape else None, keepdims=keep)
    x = gradlib.tensor(values, requires_grad=True)
    made = gradlib.sum(x, signed if len(signed) > 1 else signed[0], keep)
    assert made.shape == expected.shape
    np.testing.assert_allclose(host(made), expected)
    made.sum().backward()
    np.testing.assert_array_equal(host(x.grad), np.ones(shape))


@pytest.mark.parametrize("function", [gradlib.sum, gradlib.mean, gradlib.amax, gradlib.var, gradlib.all, gradlib.norm])
def test_dimensions_that_do_not_exist(function: Callable[..., Any]) -> None:
    with pytest.raises(IndexError, match=r"Dimension out of range .*\[-2, 1\], but got 2"):
        function(gradlib.ones(2, 3), dim=2)
    with pytest.raises(RuntimeError, match="multiple times"):
        function(gradlib.ones(2, 3), dim=(0, -2))


@pytest.mark.parametrize("function", [gradlib.sum, gradlib.mean, gradlib.prod, gradlib.all, gradlib.amax, gradlib.nanmean])
def test_keepdim_is_a_bool(function: Callable[..., Any]) -> None:
    for keepdim in ("yes", None, 0.5):
        with pytest.raises(TypeError):
            function(gradlib.ones(2, 3), 0, keepdim)


def test_a_product_is_over_one_dimension() -> None:
    for dim in ((0, 1), [0]):
        with pytest.raises(TypeError, match="'dim'"):
            gradlib.ones(2, 3).prod(dim)


def test_methods_take_dimensions_as_torch_and_as_numpy_do() -> None:
    x = gradlib.arange(6.0).reshape(2, 3)
    assert x.sum(0).tolist() == x.sum(dim=0).tolist() == x.sum(axis=0).tolist() == [3, 5, 7]
    assert x.mean((0, 1), keepdim=True).shape == x.mean(axis=(0, 1), keepdims=True).shape == (1, 1)
    assert x.max(axis=1, keepdims=True).values.tolist() == [[2], [5]]
    assert x.std(axis=1, keepdims=True).shape == (2, 1)
    assert x.var(1).tolist() == x.var(1, True).tolist() == x.var(1, correction=1).tolist() == [1, 1]
    assert x.var(False).item() == pytest.approx(x.var(unbiased=False).item()) == pytest.approx(35 / 12)
    with pytest.raises(TypeError, match="unbiased or correction"):
        x.var(0, True, correction=1)


def test_results_are_named_as_torchs() -> None:
    x = t([[3.0, 1.0], [2.0, 5.0]])
    largest = x.max(1)
    assert largest._fields == ("values", "indices")
    values, indices = largest
    assert (values.tolist(), indices.tolist(), indices.dtype) == ([3, 5], [0, 1], gradlib.int64)
    assert gradlib.aminmax(x)._fields == ("min", "max")
    assert type(gradlib.std_mean(x)) is tuple
    assert isinstance(x.max(), gradlib.Tensor)
    assert gradlib.max(x, t([[2.0], [4.0]])).tolist() == gradlib.max(x, other=t([[2.0], [4.0]])).tolist() == [[3, 2], [4, 5]]
    assert gradlib.min(x, 0).indices.tolist() == [1, 0]


def test_out_receives_results() -> None:
    x = t([[3.0, 1.0], [2.0, 5.0]])
    values, indices = gradlib.empty(2), gradlib.empty(2, dtype=gradlib.int64)
    gradlib.max(x, 1, out=(values, indices))
    assert (values.tolist(), indices.tolist()) == ([3, 5], [0, 1])
    out = gradlib.empty(2)
    assert gradlib.std(x, 0, out=out) is out
    assert gradlib.sum(x, 0, out=out) is out
    assert out.tolist() == [5, 6]


# ---- nothing to reduce --------------------------------------------------------------------------------------------------------


def test_reductions_of_nothing() -> None:
    none = gradlib.empty(0, 3)
    assert none.sum().item() == 0
    assert none.prod(0).tolist() == [1, 1, 1]
    assert (none.all().item(), none.any().item(), none.count_nonzero().item()) == (True, False, 0)
    assert none.norm(dim=0).tolist() == [0, 0, 0]
    assert none.amax(1).shape == none.max(1).indices.shape == none.argmin(1).shape == (0,)


@pytest.mark.nonfinite
def test_means_of_nothing_are_nan() -> None:
    none = gradlib.empty(0, 3)
    for value in (none.mean(), none.var(), none.std(), none.median(), t([1.0]).var(), t(1.0).std()):
        assert math.isnan(value.item())
    assert none.mean(0).isnan().tolist() == [True] * 3


@pytest.mark.parametrize("name", ["amax", "amin", "max", "min", "argmax", "argmin", "aminmax"])
def test_extremes_of_nothing(name: str) -> None:
    function = getattr(gradlib, name)
    with pytest.raises((RuntimeError, IndexError), match="Expected reduction dim to be specified"):
        function(gradlib.empty(0, 3))
    with pytest.raises(IndexError, match="Expected reduction dim 0 to have non-zero size"):
        function(gradlib.empty(0, 3), dim=0)
    for twice in ((0, 0), (0, -2)) if name in ("amax", "amin") else ():  # the first thing that torch finds
        with pytest.raises(IndexError, match="Expected reduction dim 0 to have non-zero size"):
            function(gradlib.empty(0, 3), dim=twice)
        with pytest.raises(RuntimeError, match="appears multiple times"):
            function(gradlib.empty(3, 0), dim=twice)
    with pytest.raises(RuntimeError, match="complex"):
        function(t([1j]))


def test_norms_of_nothing() -> None:
    for p in (INF, -1):
        with pytest.raises(RuntimeError, match="does not have an identity"):
            gradlib.norm(gradlib.empty(0), p)


# ---- gradients at special points ----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("function", "expected"),
    [
        (lambda x: x.max(), [0.5, 0, 0.5, 0]), (lambda x: x.amax(), [0.5, 0, 0.5, 0]), (lambda x: x.amax(0), [0.5, 0, 0.5, 0]),
        (lambda x: x.max(0).values, [1, 0, 0, 0]), (lambda x: x.min(), [0, 0.5, 0, 0.5]), (lambda x: x.amin(0), [0, 0.5, 0, 0.5]),
        (lambda x: x.min(0)[0], [0, 1, 0, 0]), (lambda x: gradlib.aminmax(x).max, [0.5, 0, 0.5, 0]),
        (lambda x: x.median(), [0, 0.5, 0, 0.5]),
    ],
)  # fmt: skip
def test_gradient_is_shared_among_ties(function: Callable[[Any], Any], expected: list[float]) -> None:
    assert slope(function, [3.0, 1.0, 3.0, 1.0]) == expected


@pytest.mark.nonfinite
@pytest.mark.nonfinite
@pytest.mark.parametrize("name", ["amax", "amin", "max", "min", "median"])
@pytest.mark.parametrize("count", [3, 5000])
def test_an_infinite_gradient_goes_to_the_chosen_alone(name: str, count: int) -> None:
    x = gradlib.tensor([0.0, 2.0] * count + [1.0], requires_grad=True)
    y = getattr(gradlib, name)(x)
    y.backward(gradlib.tensor(math.inf))
    assert [math.inf if value == y.item() else 0.0 for value in x.tolist()] == x.grad.tolist()


def test_nan_is_the_largest_and_the_smallest() -> None:
    x = t([1.0, NAN, 3.0, NAN])
    for value in (x.max(), x.min(), x.amax(), x.max(0).values, x.median(), x.median(0).values):
        assert math.isnan(value.item())
    assert x.argmax().item() == x.argmin().item() == x.min(0).indices.item() == x.median(0).indices.item() == 1
    assert slope(gradlib.max, [1.0, NAN, 3.0, NAN]) == [0, 0.5, 0, 0.5]
    assert slope(lambda x: x.max(0).values, [1.0, NAN, 3.0, NAN]) == [0, 1, 0, 0]


def test_nan_is_left_out_of_sum_and_mean() -> None:
    x = [[NAN, 1.0, 2.0]]
    assert gradlib.nansum(t(x)).item() == 3
    assert t(x).nanmean(1).tolist() == [1.5]
    assert slope(gradlib.nansum, x) == [[0, 1, 1]]
    assert slope(gradlib.nanmean, x) == [[0, 0.5, 0.5]]


@pytest.mark.parametrize("p", [0, 0.5, 1, 1.5, 2, 3, INF, -INF])
@pytest.mark.parametrize("dtype", ["float64", "complex128"])
def test_the_norm_at_zero_has_zero_gradient(p: float, dtype: str) -> None:
    assert slope(lambda x: gradlib.norm(x, p), [0, 0], dtype) == [0, 0]


def test_norms_beside_zeros() -> None:
    assert slope(lambda x: x.norm(3), [0.0, 0.0, 5.0]) == pytest.approx([0, 0, 1])
    assert slope(lambda x: x.norm(0.5), [0.0, 0.0, 5.0]) == pytest.approx([0, 0, 1])
    assert slope(lambda x: x.norm(INF), [2.0, -2.0, 1.0]) == [0.5, -0.5, 0]
    assert slope(lambda x: x.norm(-INF), [2.0, -2.0, 1.0]) == [0, 0, 1]


def test_norm_takes_torchs_names() -> None:
    x = t([[3.0, 0.0], [0.0, 4.0]])
    assert x.norm().item() == x.norm("fro").item() == x.norm(None).item() == x.norm("fro", (0, 1)).item() == 5
    assert x.norm(1, 0).tolist() == [3, 4]
    assert x.norm(dim=1, keepdim=True, dtype=gradlib.float64).dtype == gradlib.float64
    with pytest.raises(RuntimeError, match="p is a number"):
        x.norm("other")
    with pytest.raises(RuntimeError, match="without narrowing"):
        x.double().norm(dtype=gradlib.float32)


def test_still_values_have_zero_deviation_and_zero_gradient() -> None:
    assert slope(gradlib.std, [1.0, 1.0, 1.0]) == slope(gradlib.var, [1.0, 1.0, 1.0]) == [0, 0, 0]


@pytest.mark.nonfinite
def test_no_degrees_of_freedom() -> None:
    assert gradlib.var(t([1.0, 3.0]), correction=2).item() == INF
    assert slope(lambda x: x.var(correction=2), [1.0, 3.0]) == [INF, INF]
    assert all(math.isnan(g) for g in slope(gradlib.var, [1.0]))


def hessian(function: Callable[[Any], Any], values: list[float]) -> list[list[float]]:
    x = t(values, gradlib.float64, True)
    (first,) = gradlib.autograd.grad(function(x), x, create_graph=True)
    return [gradlib.autograd.grad(first[i], x, retain_graph=True)[0].tolist() for i in range(len(values))]


def test_second_derivatives_of_a_product_at_zeros() -> None:
    assert slope(gradlib.prod, [0.0, 2.0, 3.0]) == [6, 0, 0]
    assert slope(gradlib.prod, [0.0, 2.0, 0.0]) == [0, 0, 0]
    assert hessian(gradlib.prod, [0.0, 2.0, 0.0]) == [[0, 0, 2], [0, 0, 0], [2, 0, 0]]
    assert hessian(gradlib.prod, [0.0, 2.0, 3.0]) == [[0, 3, 2], [3, 0, 0], [2, 0, 0]]


# ---- what is saved and refused ------------------------------------------------------------------------------------------------


def test_nodes_have_torchs_names_and_save_little() -> None:
    x = gradlib.ones(2, 3, requires_grad=True)
    names = [y.grad_fn.name() for y in (x.sum(), x.mean(), x.prod(), x.amax(), x.max(1).values, x.var(), x.std(), x.norm())]
    assert names == [f"{n}Backward0" for n in ("Sum", "Mean", "Prod", "Amax", "Max", "Var", "Std", "VectorNorm")]
    assert x.sum().grad_fn.saved_names == ("input_shape", "dim", "keepdim")


def test_places_and_questions_carry_no_gradient() -> None:
    x = gradlib.ones(2, 3, requires_grad=True)
    assert not any(y.requires_grad for y in (x.argmax(), x.max(1).indices, x.all(), x.any(1), x.count_nonzero()))


def test_trace_is_one_node_and_one_operation_under_vmap() -> None:
    x = gradlib.arange(12.0).reshape(2, 2, 3).requires_grad_()
    assert type(x[0].trace().grad_fn).__name__ == "TraceBackward0"
    traces = gradlib.func.vmap(gradlib.trace)(x)  # a warning, as of a loop over the examples, is an error here
    assert traces.tolist() == [4.0, 16.0]
    (slope,) = gradlib.autograd.grad(traces.sum(), x)
    assert slope.tolist() == [[[1.0, 0.0, 0.0], [0.0, 1.0, 0.0]]] * 2


@pytest.mark.nonfinite
def test_an_infinite_part_of_a_complex_number_leaves_the_other_part_as_it_is() -> None:
    x = gradlib.tensor([[complex(math.inf, 1), 0], [0, 2j]])
    assert x.trace().item() == complex(math.inf, 3)
    assert gradlib.tensor([complex(math.inf, 0), 1]).logsumexp(0).item() == complex(math.inf, 0)


def test_other_refusals() -> None:
    with pytest.raises(RuntimeError, match="does not support bool"):
        t([True]).argmax()
    with pytest.raises(RuntimeError, match="expected a matrix, but got tensor with dim 1"):
        gradlib.ones(3).trace()
    with pytest.raises(RuntimeError, match="complex"):
        gradlib.nansum(t([1j]))
    with pytest.raises(TypeError):
        gradlib.sum(gradlib.ones(2), "rows")
    with pytest.raises(TypeError, match="must be Tensor, not list of float"):
        gradlib.sum([1.0, 2.0])


@pytest.mark.parametrize("name", ["sum", "prod", "nansum"])
@pytest.mark.parametrize("asked", ["int16", "int32", "float16", "float64"])
def test_the_dtype_asked_for_is_the_dtype_returned(name: str, asked: str) -> None:
    for held in ("int64", "float32"):
        assert getattr(gradlib.ones(3, dtype=held), name)(dtype=asked).dtype == asked


# ---- values that are not finite, and what overflows on the way ----------------------------------------------------------------------


@pytest.mark.nonfinite
@pytest.mark.parametrize("value", [math.nan, math.inf, -math.inf])
@pytest.mark.parametrize("dim", [0, -1])
def test_softmax_of_one_number_that_is_not_finite(value: float, dim: int) -> None:
    for function in (gradlib.softmax, gradlib.log_softmax):
        x = gradlib.tensor(value, requires_grad=True)
        made = function(x, dim)
        assert made.shape == ()
        assert math.isnan(made.item())
        assert math.isnan(gradlib.autograd.grad(made, x)[0].item())
    assert gradlib.softmax(gradlib.tensor(3.0), dim).item() == 1
    assert gradlib.log_softmax(gradlib.tensor(3.0, dtype="float16"), dim, dtype="float64").item() == 0


@pytest.mark.nonfinite
@pytest.mark.parametrize("name", ["max", "min", "median", "amax", "amin"])
def test_elements_that_were_not_chosen_get_no_nan(name: str) -> None:
    x = gradlib.tensor([3.0, 1.0, 2.0, 3.0, 1.0, 2.0], requires_grad=True)
    made = getattr(gradlib, name)(x)
    (slope,) = gradlib.autograd.grad(made, x, gradlib.tensor(math.nan))
    chosen = host(x) == made.item()
    assert np.isnan(host(slope)[chosen]).any()
    np.testing.assert_array_equal(host(slope)[~chosen], 0)
    with forward_ad.dual_level():
        dual = forward_ad.make_dual(x.detach(), gradlib.tensor(np.where(chosen, 1.0, np.nan), dtype=x.dtype))
        assert forward_ad.unpack_dual(getattr(gradlib, name)(dual)).tangent.item() == 1


@pytest.mark.parametrize("p", [2, 3, 1.5, 4, -1, -2])
@pytest.mark.parametrize("shape", [(), (1,), (3, 1)])
def test_the_norm_of_one_huge_or_tiny_element_is_its_size(p: float, shape: tuple[int, ...]) -> None:
    for value in (2e32, -2e-32):
        x = gradlib.full(shape, value, dtype="float32", requires_grad=True)
        made = linalg.vector_norm(x, p, dim=-1)
        np.testing.assert_array_equal(host(made), np.abs(host(x).reshape(made.shape)))
        (slope,) = gradlib.autograd.grad(made.sum(), x)
        np.testing.assert_array_equal(host(slope), np.full(shape, np.sign(value)))
    assert linalg.norm(gradlib.full((1, 1), 1e200, dtype="float64")).item() == 1e200


@pytest.mark.nonfinite
def test_the_variance_of_fewer_than_it_corrects_for() -> None:
    """Over all elements the derivative is inf, NaN where an element is the mean; over dimensions the factor 2 / freedom is negative."""
    slopes = []
    for dim in (None, 0):
        x = gradlib.tensor([1.0, -2.0, 4.0], requires_grad=True)
        slopes.append(host(gradlib.autograd.grad(gradlib.var(x, dim, correction=5), x)[0]))
    np.testing.assert_array_equal(slopes, [[math.nan, math.inf, math.inf], [0, 3, -3]])
    x = gradlib.tensor(math.nan, requires_grad=True)
    assert gradlib.autograd.grad(gradlib.var(x), x)[0].item() == math.inf
    x = gradlib.tensor(-math.inf, requires_grad=True)
    assert math.isnan(gradlib.autograd.grad(gradlib.var(x), x)[0].item())


@pytest.mark.nonfinite
def test_an_extreme_that_is_nan_has_a_slope_of_nan() -> None:
    x = gradlib.tensor([[1.0, math.nan, 2.0], [3.0, 1.0, 2.0]], requires_grad=True)
    (slope,) = gradlib.autograd.grad(gradlib.amax(x, 1).sum(), x)
    np.testing.assert_array_equal(host(slope), [[math.nan] * 3, [1, 0, 0]])


@pytest.mark.filterwarnings("ignore:Casting complex values to real")
def test_a_real_product_of_complex_numbers_is_that_of_their_real_parts() -> None:
    z = gradlib.tensor([2 + 1j, 3 - 2j], requires_grad=True)
    made = gradlib.prod(z, dtype=gradlib.float64)
    made.backward()
    assert (made.item(), z.grad.tolist()) == (6, [3, 2])
    z.grad = None
    gradlib.cumprod(z, 0, dtype=gradlib.float64).sum().backward()
    assert z.grad.tolist() == [4, 2]


@pytest.mark.nonfinite
@pytest.mark.parametrize("p", [2.0, 3.0])
def test_a_distance_of_zero_has_no_slope_whatever_arrives(p: float) -> None:
    """As in torch: 1 / cdist(x, x) is infinite on its diagonal, and its gradient is finite."""
    x = gradlib.tensor([[0.0, 1.0], [2.0, -1.0]], dtype=gradlib.float64, requires_grad=True)
    (1 / gradlib.cdist(x, x, p)).sum().backward()
    assert np.isfinite(host(x.grad)).all()
    assert (host(x.grad)[0] == -host(x.grad)[1]).all()


@pytest.mark.host
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
@pytest.mark.parametrize("size", [1e30, 1e-30])
def test_the_deviation_of_huge_and_tiny_numbers_is_in_range(dtype: str, size: float) -> None:
    """Its squares are not, in float32: they are added in float64, on the CPU, as in torch."""
    size = {"float16": 3e4 if size > 1 else 6e-5}.get(dtype, size)
    x = gradlib.tensor([[size, -size, 0.0], [size] * 3], dtype=dtype, requires_grad=True)
    want = np.std(host(x.detach().double()), axis=1, ddof=1)
    made = gradlib.std(x, 1)
    np.testing.assert_allclose(host(made.double()), want, rtol=1e-2 if dtype != "float32" else 1e-6)
    np.testing.assert_allclose(host(gradlib.std_mean(x, 1)[0].double()), host(made.double()))
    (slope,) = gradlib.autograd.grad(made[0], x)
    away = host((x - x.mean(1, True)).detach().double())[0]
    np.testing.assert_allclose(host(slope.double())[0], away / (2 * want[0]), rtol=2e-2 if dtype != "float32" else 1e-5, atol=1e-3)


@pytest.mark.nonfinite
@pytest.mark.parametrize("name", ["amax", "amin"])
def test_the_slope_of_an_extreme_does_not_depend_on_the_values(name: str) -> None:
    """Not where it is NaN either."""
    x = gradlib.tensor([[1.0, np.nan], [1.0, 2.0]], requires_grad=True)
    (slope,) = gradlib.autograd.grad(getattr(gradlib, name)(x, 1).sum(), x, create_graph=True)
    assert np.isnan(host(slope[0].detach())).all()
    assert not slope.requires_grad


@pytest.mark.parametrize("number", [5_000, 16_384, 16_385, 300_000])
def test_norms_of_many_numbers_keep_their_digits(number: int) -> None:
    x = np.random.default_rng(0).standard_normal(number).astype(np.float32)
    assert gradlib.tensor(x).norm().item() == pytest.approx(math.sqrt((x.astype(np.float64) ** 2).sum()), rel=5 * 2.0**-24)


@pytest.mark.parametrize("number", [2_049, 32_768, 32_769])
def test_the_extremes_of_many_numbers_are_in_their_dtype_and_nan_if_one_is(number: int) -> None:
    x = np.random.default_rng(0).standard_normal(number).astype(np.float32)
    for dtype in ("float32", "float64", "int32"):
        low, high = gradlib.aminmax(gradlib.tensor(x * 100).to(dtype))
        given = (x * 100).astype(dtype)
        assert (low.item(), high.item(), low.dtype, high.shape) == (given.min(), given.max(), given.dtype, ())
    x[7] = np.nan
    assert math.isnan(gradlib.tensor(x).max().item())
    assert math.isnan(gradlib.tensor(x).amin().item())


@pytest.mark.parametrize("shape", [(200, 2), (5, 40, 3), (99, 4), (300, 200)])
@pytest.mark.parametrize("keepdim", [False, True])
def test_the_extremes_of_many_lines_are_those_of_each(shape: tuple[int, ...], keepdim: bool) -> None:
    x = np.random.default_rng(0).standard_normal(shape).round(1).astype(np.float32)
    x[3, 1] = np.nan
    for name, reduce in (("amax", np.maximum.reduce), ("amin", np.minimum.reduce)):
        made = host(getattr(gradlib.tensor(x), name)(-1, keepdim))
        np.testing.assert_array_equal(made, reduce(x, axis=-1, keepdims=keepdim))


@pytest.mark.parametrize("shape", [(50, 401), (300, 301)])
def test_the_product_of_many_numbers_is_numpys(shape: tuple[int, int]) -> None:
    x = np.random.default_rng(0).uniform(0.999, 1.001, shape)
    assert np.allclose(host(gradlib.tensor(x).prod()), np.prod(x), rtol=1e-12)
    x[3, 4] = 0
    assert gradlib.tensor(x).prod().item() == 0
