"""Dtype and device conversion, copies and fills in place."""

from __future__ import annotations

import subprocess
import sys
import tracemalloc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib import Tensor
from tests.values import host


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("bool", "bool"), ("byte", "uint8"), ("char", "int8"), ("short", "int16"), ("int", "int32"), ("long", "int64"), ("half", "float16"),
        ("float", "float32"), ("double", "float64"), ("bfloat16", "bfloat16"), ("cfloat", "complex64"), ("cdouble", "complex128"),
    ],
)  # fmt: skip
def test_short_forms(name: str, dtype: str) -> None:
    x = gradlib.tensor([0.0, 1.75], dtype=gradlib.float64)
    made = getattr(x, name)()
    assert made.dtype.name == dtype
    np.testing.assert_array_equal(host(made).astype(np.complex128), np.array([0.0, 1.75]).astype(made.dtype).astype(np.complex128))
    if hasattr(gradlib, name):
        assert getattr(gradlib, name) == made.dtype
        assert x.type(getattr(gradlib, name)).dtype == made.dtype


@pytest.mark.parametrize(
    ("call", "dtype", "same"),
    [
        (lambda x: x.to(gradlib.float64), "float64", False),
        (lambda x: x.to(dtype=gradlib.float64), "float64", False),
        (lambda x: x.to(x.device, gradlib.float64), "float64", False),
        (lambda x: x.to(gradlib.device(x.device), dtype=gradlib.int32), "int32", False),
        (lambda x: x.to(gradlib.float64, True, True), "float64", False),
        (lambda x: x.to(gradlib.ones(1, dtype=gradlib.int8)), "int8", False),
        (lambda x: x.to(str(x.device)), "float32", True),
        (lambda x: x.to(device=x.device, non_blocking=True), "float32", True),
        (lambda x: x.to(None), "float32", True),
        (lambda x: x.to(), "float32", True),
        (lambda x: x.to(float), "float64", False),
        (lambda x: x.to(np.float32), "float32", True),
        (lambda x: x.to("float16"), "float16", False),
        (lambda x: x.to(gradlib.float32, copy=True), "float32", False),
        (lambda x: x.to(gradlib.float32, False, True), "float32", False),
        (lambda x: x.to(x.device, copy=True), "float32", False),
        (lambda x: x.type_as(gradlib.ones(1).double()), "float64", False),
    ],
)
def test_to_keeps_what_is_already_so(call: Callable[[Tensor], Tensor], dtype: str, same: bool) -> None:
    x = gradlib.ones(2, requires_grad=True)
    made = call(x)
    assert made.dtype.name == dtype
    assert (made is x) == same
    assert made.requires_grad == (made.is_floating_point())


def test_type_without_argument_names_the_dtype() -> None:
    assert gradlib.ones(1).type() in ("torch.FloatTensor", "torch.cuda.FloatTensor")


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float64", "complex64", "complex128"])
def test_gradients_return_in_the_input_dtype(dtype: str) -> None:
    x = gradlib.tensor([1.0, 2.0], requires_grad=True)
    y = x.to(gradlib.zeros(1, dtype=dtype).dtype)
    assert y.grad_fn is not None
    assert y.grad_fn.name() == "ToCopyBackward0"
    y.backward(gradlib.tensor([2.0, 3.0], dtype=y.dtype))
    assert x.grad.dtype == np.float32
    np.testing.assert_array_equal(host(x.grad), [2, 3])


def test_a_gradient_of_complex_numbers_made_real_is_real() -> None:
    z = gradlib.tensor([1 + 2j, 3j], requires_grad=True)
    with pytest.warns(UserWarning, match="discards the imaginary part"):
        x = z.to(gradlib.float32)
    np.testing.assert_array_equal(host(x), [1, 0])
    x.backward(gradlib.tensor([2.0, 5.0]))
    assert z.grad.dtype == np.complex64
    np.testing.assert_array_equal(host(z.grad), [2, 5])
    assert z.detach().bool().tolist() == [True, True]


def test_conversion_keeps_dense_strides() -> None:
    x = gradlib.ones(3, 2).t()
    assert x.double().stride() == (1, 2)
    assert x.to(gradlib.float32, copy=True).stride() == (1, 2)
    assert x.contiguous().stride() == (3, 1)


def test_questions_about_a_tensor() -> None:
    x = gradlib.ones(2, 3)
    assert gradlib.is_tensor(x)
    assert not gradlib.is_tensor(np.ones(2))
    assert gradlib.numel(x) == 6
    assert gradlib.is_floating_point(x)
    assert not gradlib.is_floating_point(x.cfloat())
    assert gradlib.is_complex(x.cfloat())


def test_devices_that_are_missing() -> None:
    with pytest.raises(RuntimeError, match='a device is "cpu"'):
        gradlib.ones(1).to(gradlib.device("tpu"))
    with pytest.raises(TypeError, match=r'to\(\) takes a dtype, a device \("cpu", .*\) or a Tensor, got \'tpu\''):
        gradlib.ones(1).to("tpu")


def test_torch_names_do_not_need_ml_dtypes_until_bfloat16_is_asked_for() -> None:
    program = (
        "import sys; sys.modules['ml_dtypes'] = None; import gradlib\n"
        "assert gradlib.half == 'float16' and gradlib.long == 'int64' and gradlib.bool == 'bool'\n"
        "try: gradlib.bfloat16\n"
        "except AttributeError as error: assert 'pip install ml_dtypes' in str(error)\n"
        "else: raise SystemExit(1)\n"
        "assert not hasattr(gradlib, 'bfloat16') and not hasattr(gradlib, 'float8')\n"
        "try: gradlib.zeros(2, dtype='bfloat16')\n"
        "except RuntimeError as error: assert 'pip install ml_dtypes' in str(error)\n"
        "else: raise SystemExit(1)"
    )
    subprocess.run([sys.executable, "-c", program], check=True)


# ---- written in place -----------------------------------------------------------------------------------------------------------


def test_copy_casts_and_broadcasts() -> None:
    x = gradlib.zeros(2, 3, dtype=gradlib.int64)
    assert x.copy_(gradlib.tensor([1.7, -2.2, 3.0])) is x
    assert x.tolist() == [[1, -2, 3], [1, -2, 3]]
    x.copy_(np.ones((2, 1)))
    x[0].copy_(5)
    assert x.tolist() == [[5, 5, 5], [1, 1, 1]]
    assert x._version == 3
    line = gradlib.arange(4.0)
    line[1:].copy_(line[:-1])
    assert line.tolist() == [0, 0, 1, 2]
    with pytest.raises(RuntimeError, match=r"source of shape \[2\]"):
        x.copy_(gradlib.ones(2))
    with pytest.raises(RuntimeError, match=r"source of shape \[2, 3\]"):
        x[0].copy_(gradlib.ones(2, 3))
    with pytest.warns(UserWarning, match="imaginary"):
        gradlib.zeros(1).copy_(gradlib.tensor([2 + 3j]))


def test_gradients_of_a_copy() -> None:
    old, new = gradlib.ones(2, 3, requires_grad=True), gradlib.ones(3, dtype=gradlib.float64, requires_grad=True)
    x = old * 2
    x.copy_(new * 3)
    x.sum().backward()
    np.testing.assert_array_equal(host(old.grad), np.zeros((2, 3)))
    np.testing.assert_array_equal(host(new.grad), [6, 6, 6])
    assert new.grad.dtype == np.float64
    base, part = gradlib.zeros(2, 3), gradlib.ones(3, requires_grad=True)
    base[1].copy_(part)
    (base * gradlib.arange(6.0).reshape(2, 3)).sum().backward()
    np.testing.assert_array_equal(host(part.grad), [3, 4, 5])


@pytest.mark.parametrize("write", [lambda x: x.zero_(), lambda x: x.fill_(3), lambda x: x.copy_(gradlib.ones(2)), lambda x: x.normal_()])
def test_what_was_written_over_gets_zeros_and_stays_in_the_graph(write: Callable[[Tensor], Any]) -> None:
    leaf = gradlib.ones(2, requires_grad=True)
    x = leaf * 2
    assert write(x) is x
    assert x.requires_grad
    x.sum().backward()
    np.testing.assert_array_equal(host(leaf.grad), [0, 0])
    with pytest.raises(RuntimeError, match="leaf"):
        write(leaf)
    with gradlib.no_grad():
        write(leaf)
    assert leaf.is_leaf
    assert leaf.requires_grad
    assert leaf._version == 1


def test_fill_with_a_tensor() -> None:
    value = gradlib.tensor(2.0, requires_grad=True)
    x = gradlib.zeros(3)
    x.fill_(value)
    x.sum().backward()
    assert value.grad.item() == 3
    assert gradlib.fill(gradlib.zeros(2, dtype=gradlib.int64), 2.7).tolist() == [2, 2]
    with pytest.raises(RuntimeError, match="0-dimension value"):
        x.fill_(gradlib.ones(1))


@pytest.mark.cuda
def test_to_and_from_a_cuda_device() -> None:
    x = gradlib.ones(2, 3, requires_grad=True)
    on_device = x.to("cuda")
    assert on_device.device == gradlib.device("cuda:0")
    assert on_device.to("cuda") is on_device.cuda() is on_device
    moved = on_device.to(gradlib.float64).cpu()
    moved.sum().backward()
    np.testing.assert_array_equal(host(x.grad), np.ones((2, 3)))
    target = gradlib.zeros(2, 3, device="cuda")
    target.copy_(x.detach())
    np.testing.assert_array_equal(host(target), np.ones((2, 3)))


@pytest.mark.host
def test_backward_through_a_cast_converts_the_gradient_and_copies_nothing_else() -> None:
    x = gradlib.ones(100_000, dtype=gradlib.float32, requires_grad=True)
    y, g = x.double(), gradlib.ones(100_000, dtype=gradlib.float64)
    gradlib.autograd.grad(y, x, g, retain_graph=True)
    tracemalloc.start()
    try:
        (slope,) = gradlib.autograd.grad(y, x, g)
        peak = tracemalloc.get_traced_memory()[1]
    finally:
        tracemalloc.stop()
    assert slope.dtype == gradlib.float32
    assert peak < 500_000  # bytes, of which the result takes 400,000


@pytest.mark.host
def test_what_is_no_single_number_is_a_value_error() -> None:
    """Of ``float`` and its like, as in torch; of ``item`` a RuntimeError."""
    for convert in (float, int, complex):
        for x in (gradlib.ones(3), gradlib.ones(0)):
            with pytest.raises(ValueError, match=r"only one element tensors .* got shape \["):
                convert(x)
        assert convert(gradlib.ones(1, 1)) == 1
    with pytest.raises(RuntimeError, match="a Tensor with 3 elements cannot be converted to Scalar"):
        gradlib.ones(3).item()


@pytest.mark.host
def test_complex_numbers_are_real_ones_where_the_imaginary_part_is_zero() -> None:
    assert (float(gradlib.tensor(1.5 + 0j)), int(gradlib.tensor([2.5 + 0j]))) == (1.5, 2)
    for convert, kind in ((float, "double"), (int, "int64_t")):
        with pytest.raises(RuntimeError, match=f"cannot be converted to type {kind} without overflow"):
            convert(gradlib.tensor(1 + 2j))


@pytest.mark.host
def test_a_text_that_is_no_dtypes_name_is_shown() -> None:
    with pytest.raises(TypeError, match=r"argument 'dtype' must be dtype or its name, not str 'float31'"):
        gradlib.zeros(2, dtype="float31")


@pytest.mark.host
def test_a_tensor_of_sizes_is_empty() -> None:
    for made, shape in ((Tensor(2, 3), (2, 3)), (Tensor(3), (3,)), (Tensor(gradlib.Size([2, 2])), (2, 2)), (Tensor((2, 3)), (2,))):
        assert (made.shape, made.dtype) == (shape, gradlib.float32)
