"""The arrays that functions of arrays get: NumPy's attributes, methods, operators and indices, with derivatives."""

from __future__ import annotations

import copy
import itertools
import pickle

import numpy as np
import pytest

import gradlib
import gradlib.numpy as gnp
from gradlib.core.proxy import proxy_of
from gradlib.numpy.numpy_array import Array
from tests.values import host

METHODS = {
    "std": lambda x: x.std(),
    "std of axes": lambda x: x.std(axis=(0, 2), ddof=1),
    "var": lambda x: x.var(axis=1),
    "var positional": lambda x: x.var(1, None, None, 1, True),
    "mean": lambda x: x.mean(axis=-1, keepdims=True),
    "sum": lambda x: x.sum(0),
    "sum into": lambda x: x.sum(axis=(0, 1), keepdims=True),
    "max of an axis": lambda x: x.max(axis=0),
    "min": lambda x: x.min(),
    "ptp": lambda x: np.ptp(x, axis=1),
    "prod": lambda x: x.prod(axis=2),
    "cumsum": lambda x: x.cumsum(),
    "cumprod": lambda x: x.cumprod(axis=1),
    "repeat": lambda x: x.repeat(2),
    "repeat of an axis": lambda x: x.repeat([1, 0, 2], axis=1),
    "transpose": lambda x: x.transpose(),
    "transpose of axes": lambda x: x.transpose(2, 0, 1) * x.transpose((2, 0, 1)),
    "T": lambda x: x.T + 1,
    "mT": lambda x: x.swapaxes(-1, -2),
    "reshape": lambda x: x.reshape(6, 4) @ x.reshape((4, -1)),
    "reshape by columns": lambda x: x.reshape(6, 4, order="F"),
    "ravel": lambda x: x.ravel() * np.arange(24),
    "flatten": lambda x: x.flatten("F"),
    "flat": lambda x: x.flat[3:7],
    "squeeze": lambda x: x[:1].squeeze(axis=0),
    "take": lambda x: x.take([0, 5, 5]),
    "take of an axis": lambda x: x.take([2, 0], axis=1),
    "compress": lambda x: x.compress([True, False, True], axis=1),
    "choose": lambda x: np.choose([0, 1, 1, 0], x[0, :2]),
    "clip": lambda x: x.clip(0.5, 1.5),
    "round": lambda x: x.round(1) + x,
    "diagonal": lambda x: x.diagonal(axis1=1, axis2=2),
    "trace": lambda x: x.trace(),
    "dot": lambda x: x.dot(x[0].T),
    "astype": lambda x: x.astype(np.float32).astype(float) ** 2,
    "copy": lambda x: x.copy() * 2,
    "conj": lambda x: x.conj() * x.real,
    "size": lambda x: x.sum() / x.size,
    "len": lambda x: x.sum() / len(x),
    "argmax": lambda x: x.ravel()[x.argmax()],
    "argsort": lambda x: x[0, 0][x[0, 0].argsort()] * np.arange(4),
    "nonzero": lambda x: x[x.nonzero()],
    "searchsorted": lambda x: x * np.sort(x.ravel()).searchsorted(0.7),
    "comparison": lambda x: x[x > 1.0] ** 3,
    "operators": lambda x: (2 - x) / x + x**2 // 1 - x % 0.3 + 2**x - -x + abs(x) + (1 / x),
    "arrays": lambda x: np.ones(4) * x - x * np.arange(4) + np.float64(2) / x,
    "lists": lambda x: x * [1, 2, 3, 4],
    "matmul": lambda x: np.ones((2, 3)) @ x[0] @ x[1].T,
    "iteration": lambda x: sum(row * i for i, row in enumerate(x)),
    "numpy's functions": lambda x: np.sin(x).std() + np.stack([x[0], x[1]]).var() + np.where(x > 1, x, 0).repeat(2)[3],
    "sorted in place": lambda x: _sorted(x),
    "written": lambda x: _written(x),
}  # fmt: skip


def _sorted(x):
    y = x.copy()
    y.sort(axis=0)
    y.partition(1)
    return y * np.arange(4)


def _written(x):
    y = x * 0
    y[0, ::-1] = x[1] ** 2
    y[1, [2, 0], 1:3] = x[0, :2, :2]
    y[..., -1] *= 3
    y += x
    y[1, 1].fill(2)
    y[0] /= [1, 2, 3, 4]
    return y


def _slopes(function, x):
    """The gradient of a function, by differences."""
    slopes = np.zeros_like(x)
    for place in np.ndindex(*x.shape):
        moved = [x.copy(), x.copy()]
        moved[0][place] += 1e-6
        moved[1][place] -= 1e-6
        slopes[place] = (function(moved[0]) - function(moved[1])) / 2e-6
    return slopes


def _weighted(y):
    return np.sum(y * np.cos(np.arange(np.size(y))).reshape(np.shape(y)))


@pytest.mark.parametrize("name", METHODS)
def test_it_has_numpys_meaning_and_the_derivative(name, rng):
    x, function = rng.uniform(0.4, 2.0, (2, 3, 4)), METHODS[name]
    value, gradient = gradlib.value_and_grad(lambda x: _weighted(function(x)))(x)
    np.testing.assert_allclose(value, _weighted(function(x)))
    if name != "astype":  # float32 has no differences as small
        np.testing.assert_allclose(gradient, _slopes(lambda x: _weighted(function(x)), x), atol=1e-5)


def made(array, **options):
    return proxy_of(gradlib.tensor(array, **options), Array)


KEYS = (
    1, -1, slice(None), slice(None, None, -1), slice(2, 0, -2), Ellipsis, None, [1, 0], [[0, 1], [1, 1]], np.array([True, False]),
    np.array(0), np.uint8(1), np.array([1, 0], np.uint8), [],
)  # fmt: skip


def test_every_combination_of_indices_is_numpys(rng, device):
    x = rng.normal(size=(2, 2, 2))
    taken = refused = 0
    counts = (1, 2, 3) if device == "cpu" else (1,)
    for keys in itertools.chain.from_iterable(itertools.product(KEYS, repeat=n) for n in counts):
        key = keys if len(keys) > 1 else keys[0]
        try:
            want = x[key]
        except IndexError:
            with pytest.raises(IndexError):
                made(x)[key]
            refused += 1
            continue
        found = made(x)[key]
        np.testing.assert_array_equal(host(found), want, err_msg=repr(key))
        assert found.shape == np.shape(want), key
        taken += 1
    assert taken + refused == sum(len(KEYS) ** n for n in counts)
    assert taken > refused


def test_values_are_written_to_every_combination_of_indices(rng, device):
    for keys in itertools.product(KEYS, repeat=2 if device == "cpu" else 1):
        want = rng.normal(size=(2, 2, 2))
        try:
            shape = want[keys].shape
        except IndexError:
            continue
        values = rng.normal(size=shape)
        x = made(want)
        arrays = any(isinstance(each, (list, np.ndarray)) and np.ndim(each) for each in keys)
        if arrays and any(isinstance(each, slice) and each.step is not None for each in keys):
            with pytest.raises(IndexError, match="negative step"):
                x[keys] = values
            continue
        x[keys] = values
        want[keys] = values
        np.testing.assert_array_equal(host(x), want, err_msg=repr(keys))


def test_a_place_written_twice_has_no_derivative_that_is_sure():
    y, v = made(np.zeros(3)), made(np.ones(2), requires_grad=True)
    with pytest.raises(IndexError, match="names a place twice"):
        y[[1, 1]] = v
    y[[1, 0]] = v
    y[[2, 2]] = 5.0
    assert y.tolist() == [1.0, 1.0, 5.0]


def test_an_array_and_its_views_share_memory_graph_and_version():
    def through_a_view(x):
        y = x * 1
        row = y[0]
        row *= x[1]
        return y.sum()

    np.testing.assert_allclose(gradlib.grad(through_a_view)(np.arange(4.0).reshape(2, 2)), [[2, 3], [1, 2]])

    def saved_and_written(x):
        y = x * 1
        z = np.sin(y)
        y[0] = 0
        return z.sum()

    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        gradlib.grad(saved_and_written)(np.ones(2))


def test_promotion_is_numpys_in_operators_too():
    whole, single = made(np.arange(3)), made(np.ones(3, np.float32))
    assert (whole / 2).dtype == np.float64
    assert (whole + single).dtype == np.float64
    assert (np.array(1.0) * single).dtype == np.float64
    assert (2.0 * single).dtype == np.float32
    with pytest.raises(TypeError, match="same_kind"):
        whole += 0.5


def test_arrays_stay_arrays_and_a_users_tensor_a_tensor():
    seen = []

    def function(x):
        seen.append(type(x))
        return np.sum(x * gradlib.ones(2, dtype=gradlib.float64, device=x.device))

    gradlib.grad(function)(np.ones(2))
    gradlib.make_jvp(function)(np.ones(2))(np.ones(2))
    assert set(seen) == {Array}
    seen.clear()
    gradlib.grad(function)(gradlib.ones(2, dtype=gradlib.float64))
    assert set(seen) == {gradlib.Tensor}
    x = made(np.ones(2))
    assert all(type(each) is Array for each in (x[0], x + 1, 1 - x, x > 0, x.sum(), np.exp(x), gnp.stack([x, x]), gnp.r_[x, 1], +x))
    assert type(gradlib.sin(x)) is gradlib.Tensor


def test_the_operations_of_gradlib_take_an_array(rng):
    x = made(rng.normal(size=(3, 3)), requires_grad=True)
    y = gradlib.linalg.inv(x) @ gradlib.nn.functional.softmax(x, 1) + gradlib.std(x) + gradlib.repeat_interleave(x, 3)[:3]
    y.sum().backward()
    plain = gradlib.tensor(host(x.detach()), requires_grad=True)
    z = gradlib.linalg.inv(plain) @ gradlib.nn.functional.softmax(plain, 1) + gradlib.std(plain) + gradlib.repeat_interleave(plain, 3)[:3]
    z.sum().backward()
    np.testing.assert_allclose(host(x.grad), host(plain.grad))
    assert x.wrapped.grad is x.grad


def test_it_is_hashed_copied_and_pickled_as_a_tensor():
    x = made(np.ones(2))
    assert {x: 1}[x] == 1
    for each in (copy.copy(x), copy.deepcopy(x), pickle.loads(pickle.dumps(x))):
        assert type(each) is Array
        assert each.tolist() == [1.0, 1.0]


def test_integers_and_bools_are_had_of_an_array_since_they_have_no_derivative():
    def chosen(x):
        return x[np.int64(x)].sum() + x[np.asarray(x, bool)][0]

    np.testing.assert_array_equal(gradlib.grad(chosen)(np.array([1.0, 1.0, 0.0])), [2, 2, 0])
    with pytest.raises(RuntimeError, match="requires grad"):
        gradlib.grad(lambda x: np.asarray(x).sum())(np.ones(2))


def test_complex_numbers_have_numpys_order():
    z = np.array([[1 + 2j, 1 - 1j, 0 + 9j], [1 + 1j, -1 + 0j, 1 + 3j]])
    for function in (np.max, np.min):
        for options in ({}, {"axis": 0}, {"axis": (1, 0), "keepdims": True}, {"axis": 1, "keepdims": True}):
            np.testing.assert_array_equal(host(function(made(z), **options)), function(z, **options))
    gradient = gradlib.grad(lambda z: np.real(np.max(z)))(z)
    np.testing.assert_array_equal(gradient, [[0, 0, 0], [0, 0, 1]])


@pytest.mark.parametrize("triangle", ["L", "U"])
def test_a_factor_of_one_triangle_has_no_derivative_in_the_other(triangle, rng):
    x = rng.normal(size=(3, 3)) + 4 * np.eye(3)
    functions = (
        lambda x: _weighted(np.linalg.eigvalsh(x, UPLO=triangle)),
        lambda x: _weighted(np.abs(np.linalg.eigh(x, UPLO=triangle)[1])),
        lambda x: _weighted(np.linalg.cholesky(x, upper=triangle == "U")),
    )
    other = (np.triu(x, 1) if triangle == "L" else np.tril(x, -1)) != 0
    for function in functions:
        gradient = gradlib.grad(function)(x)
        np.testing.assert_allclose(gradient, _slopes(function, x), atol=1e-5)
        assert not gradient[other].any()
