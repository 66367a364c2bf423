"""New tensors: dtypes, sizes, values at the ends, and what data becomes."""

from __future__ import annotations

import copy
import pickle
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, strategies as st

import gradlib
from tests.values import host, shares_memory

# ---- from data ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("data", "dtype"),
    [
        (1, "int64"), (True, "bool"), (2.5, "float32"), (1j, "complex64"), ([], "float32"), ([[], []], "float32"), ([1, 2.5], "float32"),
        ([True, 2], "int64"), ([1, 2j], "complex64"), ((1, 2), "int64"), (range(3), "int64"), (np.float64(1), "float64"),
        ([np.float64(1), 2.0], "float64"), ([np.float32(1), 2.5], "float32"), ([np.int32(1), True], "int32"), (np.float32(1), "float32"),
        ([np.ones(2), np.ones(2)], "float64"), (np.ones(2, np.int16), "int16"), (np.ones(2, ml_dtypes.bfloat16), "bfloat16"),
    ],
)  # fmt: skip
def test_the_dtype_of_data(data: Any, dtype: str) -> None:
    made = gradlib.tensor(data)
    assert made.dtype.name == dtype
    np.testing.assert_array_equal(host(made), np.asarray(data).astype(made.dtype))


def test_the_default_dtype_decides_for_python_floats() -> None:
    gradlib.set_default_dtype(gradlib.float64)
    try:
        assert gradlib.tensor(1.0).dtype == gradlib.zeros(1).dtype == gradlib.arange(1.0).dtype == gradlib.rand(1).dtype == np.float64
        assert gradlib.tensor(1j).dtype == np.complex128
    finally:
        gradlib.set_default_dtype(gradlib.float32)


def test_tensors_in_a_list() -> None:
    made = gradlib.tensor([gradlib.tensor(1), 2.5])
    assert made.dtype == np.float32
    assert made.tolist() == [1.0, 2.5]
    assert gradlib.tensor([[gradlib.tensor(1.0, dtype=gradlib.float64)], [gradlib.tensor([2.0])]]).tolist() == [[1.0], [2.0]]
    with pytest.raises(ValueError, match="only one element tensors"):
        gradlib.tensor([gradlib.ones(2), gradlib.ones(2)])


@pytest.mark.parametrize(
    ("data", "dtype", "error", "words"),
    [
        ("abc", None, TypeError, "'str'"),
        (["a"], None, ValueError, "'str'"),
        (None, None, RuntimeError, "Could not infer dtype of NoneType"),
        ({}, None, RuntimeError, "dict"),
        ([[1, 2], [3]], None, ValueError, "equal length"),
        (2**70, None, ValueError, "Overflow"),
        ([2**63], None, ValueError, "Overflow"),
        ([2**63, 1], None, ValueError, "Overflow"),
        ([2**63, -1], "uint64", OverflowError, "out of bounds"),
        ([300], "uint8", RuntimeError, "without overflow"),
        ([300.0], "uint8", RuntimeError, "without overflow"),
        ([1.0, float("nan")], "int64", RuntimeError, "without overflow"),
        ([float("inf")], "int32", RuntimeError, "without overflow"),
        (1j, "float32", TypeError, "must be real number"),
        (np.array([object()]), None, TypeError, "can't convert"),
        (np.ones(1, np.longdouble), None, TypeError, "can't convert"),
    ],
)
def test_data_that_is_no_tensor(data: Any, dtype: str | None, error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        gradlib.tensor(data, dtype=dtype)


def test_integers_beyond_int64_are_uint64s_or_floats_where_those_are_named() -> None:
    assert gradlib.tensor([[2**64 - 1, 2**63]], dtype=np.uint64).tolist() == [[2**64 - 1, 2**63]]
    assert gradlib.tensor([0, 2**64 - 1024], dtype=np.uint64).tolist() == [0, 2**64 - 1024]
    assert gradlib.tensor([2**63, True], dtype=gradlib.float64).tolist() == [2.0**63, 1.0]


def test_tensor_copies_and_keeps_the_order_of_memory() -> None:
    array = np.ones((3, 2)).T
    made = gradlib.tensor(array)
    assert made.stride() == (1, 2)
    array[:] = 5
    assert made.sum().item() == 6
    other = gradlib.tensor(made, requires_grad=True)
    assert other.is_leaf
    assert not shares_memory(other, made)


@pytest.mark.host  # memory that NumPy and a tensor share
@pytest.mark.parametrize("make", [gradlib.from_numpy, gradlib.as_tensor, gradlib.asarray])
def test_an_array_is_wrapped_without_a_copy(make: Callable[[Any], gradlib.Tensor]) -> None:
    array = np.zeros((3, 4))[:, ::2]
    made = make(array)
    made[0] = 3
    array[1] = 4
    np.testing.assert_array_equal(host(made), array)
    assert made.dtype == np.float64
    assert array[0, 0] == 3


def test_wrapped_arrays_are_plain_ones() -> None:
    class Own(np.ndarray):
        pass

    array = np.zeros(3).view(Own)
    made = gradlib.from_numpy(array)
    assert type(made._array) is np.ndarray
    assert np.shares_memory(array, made._array)
    unpickled = pickle.loads(pickle.dumps(np.ones(2, np.float32)))
    assert gradlib.as_tensor(unpickled).dtype is gradlib.float32
    with pytest.raises(ValueError, match="byte order"):
        gradlib.from_numpy(np.ones(2, ">f8"))
    assert gradlib.tensor(np.ones(2, ">f8")).dtype is gradlib.float64
    with pytest.raises(TypeError, match=r"expected np.ndarray \(got builtins.list\); gradlib.as_tensor takes others"):
        gradlib.from_numpy([1.0])  # type: ignore[arg-type]
    frozen = np.ones(2)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        gradlib.from_numpy(frozen).add_(1)


def test_as_tensor_returns_a_fitting_tensor_and_converts_within_the_graph(device: str) -> None:
    x = gradlib.ones(2, requires_grad=True)
    assert gradlib.as_tensor(x) is x
    assert gradlib.as_tensor(x, dtype=gradlib.float32, device=device) is x
    gradlib.as_tensor(x, dtype=gradlib.float64).sum().backward()
    np.testing.assert_array_equal(host(x.grad), [1, 1])
    assert gradlib.as_tensor(np.ones(2), dtype=gradlib.float32).dtype == np.float32
    assert gradlib.as_tensor([1, 2]).dtype == np.int64
    copied = gradlib.asarray(x, copy=True)
    assert copied is not x
    with pytest.raises(ValueError, match="can't alias"):
        gradlib.asarray(np.ones(2), dtype=gradlib.float32, copy=False)


def test_leaves_are_pickled_and_copied() -> None:
    x = gradlib.tensor([1.0, 2.0], requires_grad=True)
    x.sum().backward()
    for made in (pickle.loads(pickle.dumps(x)), copy.deepcopy(x)):
        assert made.requires_grad
        assert made.is_leaf
        assert made.dtype is gradlib.float32
        np.testing.assert_array_equal(host(made), [1, 2])
        (made * 3).sum().backward()
    np.testing.assert_array_equal(host(copy.deepcopy(x).grad), [1, 1])
    pair = [x, x]
    first, second = copy.deepcopy(pair)
    assert first is second
    with pytest.raises(RuntimeError, match="leaves"):
        copy.deepcopy(x * 2)


# ---- filled -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("make", "value"), [(gradlib.zeros, 0), (gradlib.ones, 1)])
def test_the_forms_of_a_size(make: Any, value: int) -> None:
    for made in (make(2, 3), make((2, 3)), make([2, 3]), make(size=(2, 3)), make(gradlib.Size((2, 3)), dtype=gradlib.float32)):
        np.testing.assert_array_equal(host(made), np.full((2, 3), value, np.float32))
        assert made.dtype == np.float32
    assert make(()).shape == ()
    assert make(0, 2).shape == (0, 2)
    assert make(2, dtype=gradlib.int8, requires_grad=False, pin_memory=False).dtype == np.int8
    assert make(2, requires_grad=True).is_leaf
    with pytest.raises(TypeError, match="size"):
        make()
    with pytest.raises(TypeError, match="unexpected keyword argument 'colour'"):
        make(2, colour=1)
    with pytest.raises(RuntimeError, match="negative"):
        make(-1)
    with pytest.raises(TypeError, match="must be int or tuple of ints, not float"):
        make(2.5)
    with pytest.raises(RuntimeError, match="floating point"):
        make(2, dtype=gradlib.int64, requires_grad=True)


@pytest.mark.parametrize(
    ("value", "dtype"), [(3, "int64"), (True, "bool"), (2.5, "float32"), (1j, "complex64"), (gradlib.ones(()), "float32")]
)
def test_full_takes_the_dtype_of_its_value(value: Any, dtype: str) -> None:
    assert gradlib.full((2,), value).dtype.name == dtype
    assert gradlib.full(2, value, dtype="complex128").dtype == np.complex128


@pytest.mark.parametrize(
    ("value", "dtype"),
    [
        (256, "uint8"), (-1.0, "uint8"), (-129, "int8"), (float("nan"), "int32"), (1j, "float32"), (1e6, "float16"), (-65505, "float16"),
        (1e39, "bfloat16"), (1e39, "float32"), (1e39j, "complex64"),
    ],
)  # fmt: skip
def test_values_that_a_dtype_cannot_hold(value: Any, dtype: str) -> None:
    for make in (
        lambda: gradlib.full((2,), value, dtype=dtype),
        lambda: gradlib.zeros(2, dtype=dtype).fill_(value),
        lambda: gradlib.zeros(2, dtype=dtype).masked_fill(gradlib.tensor([True, False]), value),
        lambda: gradlib.zeros(2, dtype=dtype).scatter(0, gradlib.tensor([1]), value),
    ):
        with pytest.raises(RuntimeError, match=r"without overflow|a complex number cannot be written"):
            make()


def test_like_takes_shape_dtype_and_order() -> None:
    x = gradlib.ones(4, 6, dtype=gradlib.float64)[:, ::2].t()
    for made, value in [(gradlib.zeros_like(x), 0), (gradlib.ones_like(x), 1), (gradlib.full_like(x, 7), 7)]:
        np.testing.assert_array_equal(host(made), np.full((3, 4), value))
        assert made.dtype == np.float64
        assert made.stride() == (1, 3)
        assert not made.requires_grad
    assert gradlib.empty_like(x, dtype=gradlib.int32, requires_grad=False).dtype == np.int32
    assert gradlib.zeros_like(x, requires_grad=True).is_leaf
    assert type(gradlib.zeros_like(np.ones(2))) is np.ndarray


def test_new_ones_that_take_after_a_tensor() -> None:
    x = gradlib.ones(2, dtype=gradlib.float64)
    assert x.new_tensor([1, 2]).dtype == x.new_zeros(2, 3).dtype == x.new_full((2,), 3).dtype == x.new_ones((2,)).dtype == np.float64
    assert x.new_zeros(2, 3).shape == x.new_empty((2, 3)).shape == (2, 3)
    assert x.new_full((2,), 3, dtype=gradlib.int32).tolist() == [3, 3]
    assert gradlib.ones(2, dtype=gradlib.int64).new_tensor(2.5).item() == 2


# ---- evenly spaced ------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "dtype", "expected"),
    [
        ((5,), None, [0, 1, 2, 3, 4]),
        ((1, 2.5, 0.5), None, [1.0, 1.5, 2.0]),
        ((5, 0, -2), None, [5, 3, 1]),
        ((3, 3), None, []),
        ((0.5, 3), "int64", [0, 1, 2]),
        ((3, 4.9), "int32", [3, 4]),
        ((-1, 1), "float16", [-1.0, 0.0]),
    ],
)
def test_arange_of_numbers_and_dtypes(arguments: tuple[Any, ...], dtype: str | None, expected: list[float]) -> None:
    made = gradlib.arange(*arguments, dtype=dtype)
    assert made.tolist() == expected
    natural = "float32" if any(isinstance(a, float) for a in arguments) else "int64"
    assert made.dtype.name == (dtype or natural)


@given(st.integers(-20, 20), st.integers(-20, 20), st.integers(-5, 5).filter(bool))
def test_arange_is_range(start: int, end: int, step: int) -> None:
    if (end - start) * step < 0:
        with pytest.raises(RuntimeError, match="inconsistent with step sign"):
            gradlib.arange(start, end, step)
    else:
        assert gradlib.arange(start, end, step).tolist() == list(range(start, end, step))


def test_arange_errors() -> None:
    with pytest.raises(RuntimeError, match="nonzero"):
        gradlib.arange(1, 2, 0)
    with pytest.raises(RuntimeError, match="unsupported range"):
        gradlib.arange(0, float("inf"))
    with pytest.raises(NotImplementedError, match="complex64"):
        gradlib.arange(3, dtype=gradlib.complex64)


@given(st.floats(-1e3, 1e3), st.floats(-1e3, 1e3), st.integers(0, 9))
def test_linspace_ends_exactly(start: float, end: float, steps: int) -> None:
    made = host(gradlib.linspace(start, end, steps, dtype=gradlib.float64))
    np.testing.assert_allclose(made, np.linspace(start, end, steps), rtol=1e-12, atol=1e-10)
    if steps > 1:
        assert (made[0], made[-1]) == (start, end)
        turned = host(gradlib.linspace(end, start, steps, dtype=gradlib.float64))[::-1]
        np.testing.assert_allclose(made, turned, rtol=1e-15, atol=1e-12)


def test_spaced_in_other_dtypes() -> None:
    assert gradlib.linspace(0, 10, 4, dtype=gradlib.int64).tolist() == [0, 3, 6, 10]
    assert gradlib.linspace(0, 1, 1).tolist() == [0.0]
    np.testing.assert_allclose(host(gradlib.logspace(0, 2, 3)), [1, 10, 100], rtol=1e-6)
    np.testing.assert_array_equal(host(gradlib.logspace(0, 4, 5, base=2, dtype=gradlib.int64)), [1, 2, 4, 8, 16])
    np.testing.assert_allclose(host(gradlib.linspace(0, 1j, 3)), [0, 0.5j, 1j])
    with pytest.raises(RuntimeError, match="non-negative"):
        gradlib.linspace(0, 1, -1)
    with pytest.raises(NotImplementedError, match="bool"):
        gradlib.linspace(0, 1, 2, dtype=gradlib.bool)


def test_eye_of_any_shape() -> None:
    np.testing.assert_array_equal(host(gradlib.eye(2, 3)), np.eye(2, 3))
    assert gradlib.eye(2, dtype=gradlib.bool).tolist() == [[True, False], [False, True]]
    assert gradlib.eye(0).shape == (0, 0)
    with pytest.raises(RuntimeError, match="greater or equal to 0"):
        gradlib.eye(-1)


# ---- the default device ---------------------------------------------------------------------------------------------------------------


def test_the_default_device(device: str) -> None:
    assert gradlib.get_default_device() == gradlib.device(device)
    assert gradlib.ones(1).device.type == device
    with gradlib.device("cpu"):
        assert gradlib.get_default_device() == gradlib.ones(1).device == gradlib.device("cpu")
    gradlib.set_default_device(None)
    assert gradlib.get_default_device() == gradlib.ones(1).device == gradlib.device("cpu")
    gradlib.set_default_device(device)


@pytest.mark.cuda
def test_creation_on_a_cuda_device() -> None:
    import cupy

    with gradlib.device("cuda"):
        made = [gradlib.zeros(2), gradlib.tensor([1.0]), gradlib.arange(3), gradlib.eye(2), gradlib.linspace(0, 1, 3), gradlib.rand(2)]
    assert all(isinstance(x._array, cupy.ndarray) for x in made)
    array = cupy.arange(3.0)
    assert gradlib.as_tensor(array)._array is array
    assert gradlib.tensor(array).device == gradlib.device("cuda", array.device.id)
