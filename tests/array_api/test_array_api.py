"""The array API namespace: names and signatures, where it differs from torch, derivatives, what finds it."""

from __future__ import annotations

import inspect
import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradlib
import gradlib.array_api as xp
from gradlib.autograd import gradcheck, gradgradcheck
from tests.values import host

FUNCTIONS = [
    "abs", "acos", "acosh", "add", "asin", "asinh", "atan", "atan2", "atanh", "bitwise_and", "bitwise_invert", "bitwise_left_shift",
    "bitwise_or", "bitwise_right_shift", "bitwise_xor", "ceil", "clip", "conj", "copysign", "cos", "cosh", "divide", "equal", "exp",
    "expm1", "floor", "floor_divide", "greater", "greater_equal", "hypot", "imag", "isfinite", "isinf", "isnan", "less", "less_equal",
    "log", "log10", "log1p", "log2", "logaddexp", "logical_and", "logical_not", "logical_or", "logical_xor", "maximum", "minimum",
    "multiply", "negative", "nextafter", "not_equal", "positive", "pow", "real", "reciprocal", "remainder", "round", "sign", "signbit",
    "sin", "sinh", "sqrt", "square", "subtract", "tan", "tanh", "trunc", "arange", "asarray", "empty", "empty_like", "eye", "from_dlpack",
    "full", "full_like", "linspace", "meshgrid", "ones", "ones_like", "tril", "triu", "zeros", "zeros_like", "astype", "can_cast", "finfo",
    "iinfo", "isdtype", "result_type", "take", "take_along_axis", "matmul", "matrix_transpose", "tensordot", "vecdot", "broadcast_arrays",
    "broadcast_to", "concat", "expand_dims", "flip", "moveaxis", "permute_dims", "repeat", "reshape", "roll", "squeeze", "stack", "tile",
    "unstack", "argmax", "argmin", "count_nonzero", "nonzero", "searchsorted", "where", "unique_all", "unique_counts", "unique_inverse",
    "unique_values", "argsort", "sort", "cumulative_prod", "cumulative_sum", "max", "mean", "min", "prod", "std", "sum", "var", "all",
    "any", "diff", "__array_namespace_info__",
]  # fmt: skip
LINALG = [
    "cholesky", "cross", "det", "diagonal", "eigh", "eigvalsh", "inv", "matmul", "matrix_norm", "matrix_power", "matrix_rank",
    "matrix_transpose", "outer", "pinv", "qr", "slogdet", "solve", "svd", "svdvals", "tensordot", "trace", "vecdot", "vector_norm",
]  # fmt: skip
FFT = [
    "fft", "fftfreq", "fftn", "fftshift", "hfft", "ifft", "ifftn", "ifftshift", "ihfft", "irfft", "irfftn", "rfft", "rfftfreq", "rfftn",
]  # fmt: skip
DTYPES = [
    "bool", "complex128", "complex64", "float32", "float64", "int16", "int32", "int64", "int8", "uint16", "uint32", "uint64", "uint8",
]  # fmt: skip


def test_every_name_of_the_standard_is_there_and_documented() -> None:
    for module, names in ((xp, FUNCTIONS), (xp.linalg, LINALG), (xp.fft, FFT)):
        for name in names:
            assert inspect.getdoc(getattr(module, name)), name
    assert sorted(xp.__array_namespace_info__().dtypes()) == DTYPES
    assert all(isinstance(getattr(xp, name), np.dtype) for name in DTYPES)
    assert xp.__array_api_version__ == "2024.12"
    assert (xp.pi, xp.newaxis, math.isnan(xp.nan)) == (math.pi, None, True)


def test_arguments_are_the_standards() -> None:
    said: dict[Callable[..., Any], str] = {
        xp.sin: "(x, /)",
        xp.add: "(x1, x2, /)",
        xp.sum: "(x, /, *, axis=None, dtype=None, keepdims=False)",
        xp.std: "(x, /, *, axis=None, correction=0.0, keepdims=False)",
        xp.squeeze: "(x, /, axis)",
        xp.arange: "(start, /, stop=None, step=1, *, dtype=None, device=None)",
        xp.linalg.svd: "(x, /, *, full_matrices=True)",
        xp.fft.rfft: "(x, /, *, n=None, axis=-1, norm='backward')",
    }
    for function, text in said.items():
        given = [each.replace(annotation=inspect.Parameter.empty) for each in inspect.signature(function).parameters.values()]
        assert str(inspect.Signature(given)) == text


# ---- where the standard and torch differ --------------------------------------------------------------------------------------------


def test_attributes_are_the_standards(device: str) -> None:
    x = xp.zeros((2, 3), device=device)
    assert issubclass(xp.Array, gradlib.Tensor)
    assert (type(x), x.size, x.ndim, x.shape, x.T.shape) == (xp.Array, 6, 2, (2, 3), (3, 2))
    assert xp.zeros((4, 2, 3)).mT.shape == (4, 3, 2)
    assert x.device == gradlib.zeros(1, device=device).device
    assert x.to_device("cpu").device == gradlib.device("cpu")
    assert x.__array_namespace__(api_version="2023.12") is xp is gradlib.ones(1).__array_namespace__()
    with pytest.raises(ValueError, match="transpose of a matrix"):
        _ = xp.zeros(3).T
    with pytest.raises(ValueError, match=r"one of 2021.12, .*got '1999.12'"):
        x.__array_namespace__(api_version="1999.12")
    with pytest.raises(TypeError, match="no dimensions can be converted to float"):
        float(xp.ones((1,)))


def test_arrays_of_no_dimensions_promote_like_others() -> None:
    row, number = xp.ones(3, dtype=xp.int8), xp.asarray(2, dtype=xp.int64)
    assert (gradlib.tensor([1], dtype=gradlib.int8) + gradlib.tensor(2)).dtype == xp.int8
    assert (row + number).dtype == (number * row).dtype == xp.multiply(row, number).dtype == xp.int64
    assert (row + 2).dtype == (2 - row).dtype == xp.add(2, row).dtype == xp.int8
    assert (xp.ones(3, dtype=xp.float32) ** xp.asarray(2.0, dtype=xp.float64)).dtype == xp.float64
    assert xp.where(xp.asarray([True]), row[0], number).dtype == xp.int64
    assert xp.result_type(xp.uint8, xp.int8, 3) == xp.int16
    assert xp.sum(xp.ones(3, dtype=xp.uint8)).dtype == xp.uint64


def test_steps_of_indices_may_be_negative(device: str) -> None:
    a = np.arange(24.0).reshape(2, 3, 4)
    x = xp.asarray(a, device=device)
    x.requires_grad_()
    keys: list[Any] = [
        np.s_[::-1], np.s_[:, ::-2, 1], np.s_[1, ..., ::-1], np.s_[::-1, None, 2:0:-1, -2::-1], np.s_[0:2:-1], np.s_[..., 5:-9:-3],
    ]  # fmt: skip
    for key in keys:
        np.testing.assert_array_equal(host(x[key]), a[key])
        y = x.detach().clone()
        expected = a.copy()
        expected[key] = 7
        z = xp.asarray(y)
        z[key] = 7
        np.testing.assert_array_equal(host(z), expected)
        expected[key] = np.arange(a[key].size).reshape(a[key].shape)
        z[key] = xp.reshape(xp.arange(a[key].size, dtype=xp.float64, device=device), a[key].shape)
        np.testing.assert_array_equal(host(z), expected)
    weights = xp.arange(24.0, dtype=xp.float64, device=device)
    (g,) = gradlib.autograd.grad(xp.sum(x[::-1, :, ::-1] * xp.reshape(weights, (2, 3, 4))), x)
    np.testing.assert_array_equal(host(g), a[::-1, :, ::-1])


def test_division_of_infinities_and_reductions_over_no_axes() -> None:
    x = xp.asarray([math.inf, -math.inf, 3.0, -3.0], dtype=xp.float64)
    assert (x // 2.0).tolist() == [math.inf, -math.inf, 1, -2]
    assert xp.signbit(3.0 // xp.asarray(-math.inf)).tolist() is True
    x //= 2
    assert x.tolist() == [math.inf, -math.inf, 1, -2]
    y = xp.asarray([[1, 2], [3, 4]])
    assert xp.sum(y, axis=()).tolist() == y.tolist()
    assert xp.prod(y, axis=(0, 1)).tolist() == 24
    assert xp.prod(y, axis=(0, -1), keepdims=True).tolist() == [[24]]
    assert xp.cumulative_sum(y, axis=1, include_initial=True).tolist() == [[0, 1, 3], [0, 3, 7]]
    assert xp.take(y, xp.asarray([[-1, 0]]), axis=0).tolist() == [[[3, 4], [1, 2]]]


def test_what_a_division_leaves_of_a_multiple_is_a_zero_of_the_divisors_sign(device: str) -> None:
    """As the standard and NumPy have it; torch's has the dividend's."""
    x, by = xp.asarray([2.0, -2.0, 2.0, -2.0], device=device), xp.asarray([1.0, 1.0, -1.0, -1.0], device=device)
    beside = gradlib.tensor(by.tolist(), device=device)
    signs = [False, False, True, True]
    for made in (x % by, xp.remainder(x, by), np.remainder(x, beside), np.divmod(x, beside)[1]):
        assert made.tolist() == [0.0] * 4
        assert xp.signbit(made).tolist() == signs
    assert xp.signbit(-2.0 % by).tolist() == signs
    assert xp.signbit(x % -1.0).tolist() == [True] * 4
    x %= by
    assert xp.signbit(x).tolist() == signs
    assert (xp.asarray([7, -7]) % 2).tolist() == [1, 1]


def test_unique_elements_tell_where_they_are_first() -> None:
    values, first, inverse, counts = xp.unique_all(xp.asarray([[3, 1], [3, 2]]))
    assert [each.tolist() for each in (values, first, inverse, counts)] == [[1, 2, 3], [1, 3, 0], [[2, 0], [2, 1]], [1, 1, 2]]
    assert type(xp.unique_inverse(values).inverse_indices) is xp.Array


def test_solve_takes_a_vector_only_where_there_is_one_dimension() -> None:
    a = xp.eye(2, dtype=xp.float64) * 2
    assert xp.linalg.solve(xp.stack([a, a]), xp.asarray([2.0, 4.0], dtype=xp.float64)).tolist() == [[1, 2], [1, 2]]
    assert xp.linalg.solve(xp.stack([a, a]), xp.ones((2, 2), dtype=xp.float64)).shape == (2, 2, 2)
    assert xp.linalg.matrix_rank(xp.zeros((3, 2, 2))).tolist() == [0, 0, 0]


def test_arrays_share_memory_or_copy_as_asked(device: str) -> None:
    t = gradlib.zeros(3, device=device)
    x = xp.asarray(t)
    x[0] = 1
    assert t.tolist() == [1, 0, 0]
    assert xp.asarray(x) is x
    assert xp.asarray(t, copy=True).data_ptr() != t.data_ptr()
    with pytest.raises(ValueError, match="without a copy"):
        xp.asarray(x, dtype=xp.float64, copy=False)
    with pytest.raises(ValueError, match="reshape"):
        xp.reshape(xp.zeros((2, 3)).T, (6,), copy=False)
    with pytest.raises(TypeError, match=r"take real\(x\) or abs\(x\)"):
        xp.astype(xp.ones(1, dtype=xp.complex64), xp.float32)


# ---- derivatives --------------------------------------------------------------------------------------------------------------------


def test_gradients_reach_the_tensor_that_an_array_was_made_of(device: str) -> None:
    t = gradlib.arange(6, dtype=gradlib.float64, device=device).reshape(2, 3).requires_grad_()
    x = xp.asarray(t)
    y = xp.sum(xp.sqrt(x + 1) * xp.flip(x, axis=1)) + xp.linalg.vector_norm(x) + xp.sum(xp.abs(xp.fft.rfft(x)))
    y.backward()
    assert type(y) is xp.Array
    assert t.grad is not None
    assert t.grad.shape == (2, 3)
    leaf = xp.asarray([1.0, 2.0])
    leaf.requires_grad_()
    xp.sum(leaf**3).backward()
    assert leaf.grad is not None
    assert leaf.grad.tolist() == [3, 12]


DIFFERENTIABLE: dict[str, Callable[[Any], Any]] = {
    "clip": lambda x: xp.clip(x, -0.5, max=0.7),
    "concat": lambda x: xp.concat([x, xp.exp(x)], axis=None),
    "cumulative_prod": lambda x: xp.cumulative_prod(x, axis=1, include_initial=True),
    "diff": lambda x: xp.diff(x, axis=0, prepend=x[:1] ** 2),
    "floor_divide": lambda x: x * (x // 0.3),
    "max": lambda x: xp.max(x, axis=(0, 1)),
    "matmul": lambda x: x @ xp.matrix_transpose(x),
    "meshgrid": lambda x: xp.meshgrid(x[0], x[1])[0],
    "pinv": xp.linalg.pinv,
    "prod": lambda x: xp.prod(x, axis=(0, 1)),
    "sort": lambda x: xp.sort(x, axis=1, descending=True),
    "std": lambda x: xp.std(x, axis=1, correction=1),
    "take": lambda x: xp.take(x, xp.asarray([2, 0, -1]), axis=1),
    "tensordot": lambda x: xp.tensordot(x, x, axes=((0,), (0,))),
    "trace": lambda x: xp.linalg.trace(x, offset=1),
    "vecdot": lambda x: xp.vecdot(x, xp.sin(x)),
    "where": lambda x: xp.where(x > 0, x, 0.1 * x**2),
}


@pytest.mark.parametrize("name", DIFFERENTIABLE)
def test_functions_differentiate_twice(name: str, rng: np.random.Generator) -> None:
    x = gradlib.tensor(rng.standard_normal((2, 3)) + 0.01, requires_grad=True)
    assert gradcheck(lambda t: DIFFERENTIABLE[name](xp.asarray(t)), (x,))
    assert gradgradcheck(lambda t: DIFFERENTIABLE[name](xp.asarray(t)), (x,))


def test_transforms_pass_through(rng: np.random.Generator) -> None:
    x = gradlib.tensor(rng.standard_normal((4, 3)))

    def f(row: Any) -> Any:
        return xp.sum(xp.exp(xp.asarray(row)) * xp.flip(row))

    a = host(x)
    np.testing.assert_allclose(host(gradlib.func.vmap(f)(x)), (np.exp(a) * a[:, ::-1]).sum(1))
    slopes = gradlib.func.vmap(gradlib.func.grad(f))(x)
    np.testing.assert_allclose(host(slopes), np.exp(a) * a[:, ::-1] + np.exp(a[:, ::-1]))
    _, tangent = gradlib.func.jvp(f, (x[0],), (gradlib.ones_like(x[0]),))
    np.testing.assert_allclose(host(tangent), host(slopes[0]).sum())


def test_writes_through_a_view_reach_the_base_and_its_gradient() -> None:
    x = xp.asarray([1.0, 2.0, 3.0])
    x.requires_grad_()
    y = x * 2
    part = y[1:]
    part[0] = x[0] ** 2
    y[2] = 0.0
    assert part.tolist() == [1, 0]
    xp.sum(y * y).backward()
    assert x.grad is not None
    assert x.grad.tolist() == [8 + 4, 0, 0]
    kept = xp.exp(x)
    total = xp.sum(kept)
    part = kept[1:]
    part *= 0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        total.backward()


def test_complex_elements_are_unique_as_pairs_and_repeats_may_be_small_integers() -> None:
    values, first, inverse, counts = xp.unique_all(xp.asarray([2j, 1 + 0j, 2j]))
    assert [each.tolist() for each in (values, first, inverse, counts)] == [[2j, 1], [0, 1], [0, 1, 0], [2, 1]]
    assert xp.repeat(xp.asarray([3, 4]), xp.asarray([2, 1], dtype=xp.int8)).tolist() == [3, 3, 4]


def test_tanh_far_out_along_the_real_axis_keeps_the_sign_of_the_imaginary_part() -> None:
    """The standard's special case; C's, which NumPy follows, takes the sign of sin(2 y)."""
    found = xp.tanh(xp.asarray([complex(math.inf, 2), complex(math.inf, -2), complex(-math.inf, 2)]))
    assert found.tolist() == [1, 1, -1]
    assert xp.signbit(xp.imag(found)).tolist() == [False, True, False]
