"""Names that programs use beside the operations: limits of dtypes, layouts, other memory in place, printing, older spellings."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib import autograd
from gradlib.core.repr import options
from gradlib.core.tensor import Tensor
from tests.values import host, shares_memory

# ---- limits of dtypes (the figures are torch's) ---------------------------------------------------------------------------------


@pytest.mark.host
@pytest.mark.parametrize(
    ("dtype", "bits", "eps", "largest", "tiny", "resolution"),
    [
        (gradlib.float16, 16, 0.0009765625, 65504.0, 6.103515625e-05, 0.001),
        (gradlib.float32, 32, 1.1920928955078125e-07, 3.4028234663852886e38, 1.1754943508222875e-38, 1e-06),
        (gradlib.float64, 64, 2.220446049250313e-16, 1.7976931348623157e308, 2.2250738585072014e-308, 1e-15),
        (gradlib.complex64, 32, 1.1920928955078125e-07, 3.4028234663852886e38, 1.1754943508222875e-38, 1e-06),
    ],
)
def test_finfo_tells_the_limits_of_a_dtype(dtype: Any, bits: int, eps: float, largest: float, tiny: float, resolution: float) -> None:
    found = gradlib.finfo(dtype)
    assert (found.bits, found.eps, found.max, found.min) == (bits, eps, largest, -largest)
    assert (found.tiny, found.smallest_normal, found.resolution) == (tiny, tiny, resolution)
    assert type(found.eps) is float
    assert found == gradlib.finfo(dtype)


@pytest.mark.host
def test_finfo_and_iinfo_as_torch_prints_and_refuses_them() -> None:
    said = "finfo(resolution=1e-06, min=-3.40282e+38, max=3.40282e+38, eps=1.19209e-07, smallest_normal=1.17549e-38, tiny=1.17549e-38, dtype=float32)"  # noqa: E501
    assert repr(gradlib.finfo()) == said
    assert repr(gradlib.iinfo(gradlib.int8)) == "iinfo(min=-128, max=127, dtype=int8)"
    pytest.importorskip("ml_dtypes")
    short = gradlib.finfo(gradlib.bfloat16)
    assert (short.bits, short.eps, short.max, short.resolution) == (16, 0.0078125, 3.3895313892515355e38, 0.01)
    found = gradlib.iinfo(gradlib.int64)
    assert (found.bits, found.max, found.min, found.dtype) == (64, 2**63 - 1, -(2**63), "int64")
    for wrong in (gradlib.int32, gradlib.bool):
        with pytest.raises(TypeError, match="floating point"):
            gradlib.finfo(wrong)
    for wrong in (gradlib.float32, gradlib.bool):
        with pytest.raises(TypeError, match="integer input type"):
            gradlib.iinfo(wrong)
    for wrong in ("float32", gradlib.ones(1), None):
        with pytest.raises(TypeError):
            gradlib.iinfo(wrong)


# ---- layouts --------------------------------------------------------------------------------------------------------------------


def test_layout_and_flags() -> None:
    x = gradlib.ones(2, 3)
    assert x.layout is gradlib.strided
    assert isinstance(x.layout, gradlib.layout)
    assert isinstance(x.dtype, gradlib.dtype)
    z = gradlib.complex(x, x).conj()
    assert not any((x.is_conj(), z.is_conj(), x.is_neg(), gradlib.is_conj(z), gradlib.is_neg(-x)))
    assert not gradlib.is_inference(x)
    with gradlib.inference_mode():
        assert gradlib.is_inference(gradlib.ones(1))
    assert gradlib.is_signed(x)
    assert not gradlib.is_signed(x > 0)
    assert gradlib.is_same_size(x, x + 1)
    assert gradlib.is_nonzero(gradlib.tensor(2))
    assert x.is_cpu != x.is_cuda
    assert x.get_device() == (0 if x.is_cuda else -1)
    assert x[:, gradlib.newaxis].shape == (2, 1, 3)


def test_memory_formats_are_taken_or_clearly_refused() -> None:
    x = gradlib.ones(1, 2, 3, 4)
    assert x.contiguous(memory_format=gradlib.contiguous_format) is x
    assert x.clone(memory_format=gradlib.preserve_format).stride() == x.stride()
    assert gradlib.empty_like(x, memory_format=gradlib.preserve_format).shape == x.shape
    asked = [
        lambda f: x.contiguous(memory_format=f), lambda f: x.clone(memory_format=f), lambda f: x.to(gradlib.float64, memory_format=f),
        lambda f: x.double(memory_format=f), lambda f: gradlib.zeros_like(x, memory_format=f), lambda f: x.resize_(4, memory_format=f),
        lambda f: gradlib.empty(1, 2, 3, 4, memory_format=f),
    ]  # fmt: skip
    for ask in asked:
        with pytest.raises(NotImplementedError, match=r"memory_format=gradlib\.channels_last is not supported.*permute"):
            ask(gradlib.channels_last)
        with pytest.raises(TypeError, match="memory_format is"):
            ask("channels_last")
    turned = x.permute(0, 2, 3, 1).contiguous().permute(0, 3, 1, 2)
    assert turned.is_contiguous(memory_format=gradlib.channels_last)
    assert not x.is_contiguous(memory_format=gradlib.channels_last)
    assert x.is_contiguous(memory_format=gradlib.contiguous_format)
    assert not x.is_contiguous(memory_format=gradlib.channels_last_3d)


# ---- other memory, in place -----------------------------------------------------------------------------------------------------


def test_resize_keeps_the_memory() -> None:
    x = gradlib.arange(6.0)
    before = x.data_ptr()
    assert x.resize_(2, 2) is x
    assert x.tolist() == [[0, 1], [2, 3]]
    assert x._version == 1
    assert x.resize_((3, 2)).tolist() == [[0, 1], [2, 3], [4, 5]], "the memory is still there"
    assert x.data_ptr() == before
    x.resize_(8)
    assert x[:6].tolist() == [0, 1, 2, 3, 4, 5]
    part = gradlib.arange(6.0)[2:4]
    assert part.resize_(4, 1).tolist() == [[2], [3], [4], [5]], "further elements of the memory, as in torch"
    turned = gradlib.arange(6.0).reshape(2, 3).t()
    assert turned.resize_(3, 2).stride() == (1, 3)
    assert turned.resize_(6).tolist() == [0, 1, 2, 3, 4, 5]
    assert gradlib.arange(6.0).reshape(2, 3).t().resize_(7)[:6].tolist() == [0, 1, 2, 3, 4, 5]
    assert gradlib.ones(4).resize_as_(gradlib.ones(2, 2)).shape == (2, 2)
    wanting = gradlib.ones(2, requires_grad=True)
    for each in (wanting, wanting * 2):
        with pytest.raises(RuntimeError, match="cannot resize variables that require grad"):
            each.resize_(1)
    with pytest.raises(RuntimeError, match="not negative"):
        x.resize_(-1)


def test_a_resized_tensor_that_was_saved_is_stale() -> None:
    x, w = gradlib.ones(4), gradlib.ones(4, requires_grad=True)
    y = (x * w).sum()
    x.resize_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_set_takes_the_memory_of_another() -> None:
    a, b = gradlib.ones(2), gradlib.arange(3.0)
    assert a.set_(b) is a
    assert shares_memory(a, b)
    assert a._version == 1
    assert gradlib.ones(1).set_(gradlib.arange(6.0), 1, (2,), (2,)).tolist() == [1, 3]
    assert a.set_().shape == (0,)
    with pytest.raises(RuntimeError, match="could not set a tensor of type int64"):
        gradlib.ones(2).set_(gradlib.tensor([1]))
    wanting = gradlib.ones(2, requires_grad=True)
    for target, source in ((wanting, b), (gradlib.ones(2), wanting), (wanting * 2, b)):
        with pytest.raises(RuntimeError, match="not for tensors that require a gradient"):
            target.set_(source)


def test_as_strided_in_place() -> None:
    x = gradlib.arange(4.0)
    assert x.as_strided_((2,), (2,)) is x
    assert x.tolist() == [0, 2]
    assert x._version == 1
    r = gradlib.arange(4.0).requires_grad_()
    y = r * 2
    gradlib.as_strided_(y, (2, 2), (1, 1))
    y.sum().backward()
    assert r.grad.tolist() == [2, 4, 2, 0]
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        r.as_strided_((2,), (2,))


def test_unsafe_split_gives_slices_that_may_be_written() -> None:
    r = gradlib.arange(6.0).reshape(2, 3).requires_grad_()
    y = r * 1
    first, second = y.unsafe_split(2, 1)
    assert [tuple(part.shape) for part in (first, second)] == [(2, 2), (2, 1)]
    first.mul_(2)
    (first.sum() + second.sum()).backward()
    assert r.grad.tolist() == [[2, 2, 1], [2, 2, 1]]
    assert (y._version, first._version, second._version) == (0, 1, 0)
    first, second = y.unsafe_split(2, 1)
    assert not first._is_view()
    assert first.grad_fn is second.grad_fn
    assert (first.output_nr, second.output_nr) == (0, 1)
    assert [type(part[0].grad_fn).__name__ for part in (y.unsafe_split(2, 1), y.unsafe_chunk(2), y.unsafe_split_with_sizes((1, 1)))] == [
        "UnsafeSplitBackward0", "UnsafeSplitBackward0", "UnsafeSplitWithSizesBackward0",
    ]  # fmt: skip
    with pytest.raises(RuntimeError, match="several views"):
        (r * 1).split(2, 1)[0].mul_(2)
    assert [p.tolist() for p in gradlib.unsafe_chunk(gradlib.arange(3.0), 2)] == [[0, 1], [2]]
    assert [p.tolist() for p in gradlib.unsafe_split_with_sizes(gradlib.arange(3.0), [1, 2])] == [[0], [1, 2]]


# ---- older spellings ------------------------------------------------------------------------------------------------------------


def test_variable_is_a_tensor() -> None:
    x = gradlib.arange(3.0)
    v = autograd.Variable(x, requires_grad=True)
    assert type(v) is Tensor
    assert isinstance(v, autograd.Variable)
    assert not isinstance(3, autograd.Variable)
    assert shares_memory(v, x)
    assert (v.requires_grad, x.requires_grad) == (True, False)
    (v * v).sum().backward()
    assert v.grad.tolist() == [0, 2, 4]
    assert autograd.Variable(v * 2).grad_fn is None
    assert autograd.Variable().shape == (0,)
    with pytest.raises(TypeError, match="Variable data has to be a tensor, but got list"):
        autograd.Variable([1.0])
    with pytest.raises(RuntimeError, match="only Tensors of floating point"):
        autograd.Variable(gradlib.tensor([1]), requires_grad=True)
    with pytest.warns(UserWarning, match="volatile was removed"):
        autograd.Variable(x, volatile=True)


def test_multithreading_setting_is_a_name_of_autograd() -> None:
    assert autograd.set_multithreading_enabled is autograd.grad_mode.set_multithreading_enabled
    with autograd.set_multithreading_enabled(False):
        assert not autograd.is_multithreading_enabled()
    assert autograd.is_multithreading_enabled()


def test_new_keeps_dtype_and_device() -> None:
    x = gradlib.ones(2, dtype=gradlib.float64)
    assert x.new(2, 3).shape == (2, 3)
    assert x.new(gradlib.Size((2,))).shape == (2,)
    made = x.new([1, 2])
    assert made.tolist() == [1, 2]
    assert made.dtype == x.dtype
    assert made.device == x.device
    assert x.new().shape == (0,)
    assert x.new(np.ones(2)).tolist() == [1, 1]
    assert shares_memory(x.new(x), x)


def test_type_names_and_casts() -> None:
    x = gradlib.ones(2)
    where = "cuda." if x.is_cuda else ""
    assert x.type() == f"torch.{where}FloatTensor"
    assert gradlib.tensor(True).type() == f"torch.{where}BoolTensor"
    assert gradlib.tensor([1]).type() == f"torch.{where}LongTensor"
    assert x.type(x.type()) is x
    assert x.type("torch.DoubleTensor").dtype == gradlib.float64
    assert x.type(gradlib.int32).dtype == gradlib.int32
    assert x.type("torch.cuda.HalfTensor").dtype == gradlib.float16
    with pytest.raises(ValueError, match="invalid type: 'nonsense'"):
        x.type("nonsense")


def test_return_types() -> None:
    x = gradlib.arange(6.0).reshape(2, 3)
    square = gradlib.eye(2)
    made = {
        "max": x.max(0), "min": x.min(0), "aminmax": x.aminmax(), "sort": x.sort(), "topk": x.topk(1), "kthvalue": x.kthvalue(1),
        "median": x.median(0), "cummax": x.cummax(0), "cummin": x.cummin(0), "linalg_svd": gradlib.linalg.svd(square),
        "linalg_qr": gradlib.linalg.qr(square), "linalg_eig": gradlib.linalg.eig(square), "linalg_eigh": gradlib.linalg.eigh(square),
        "slogdet": gradlib.slogdet(square),
    }  # fmt: skip
    for name, result in made.items():
        assert isinstance(result, getattr(gradlib.return_types, name)), name
    assert set(made) | {"linalg_slogdet", "linalg_lstsq"} == set(gradlib.return_types.__all__)


def test_in_place_functions() -> None:
    x = gradlib.tensor([-1.0, 4.0])
    assert gradlib.abs_(x) is x
    assert gradlib.sqrt_(x).tolist() == [1, 2]
    assert gradlib.nn.functional.relu_(-x).tolist() == [0, 0]
    assert gradlib.nn.functional.leaky_relu_(-x, 0.5).tolist() == [-0.5, -1]
    np.testing.assert_allclose(host(gradlib.nn.functional.elu_(-x)), np.expm1([-1, -2]), rtol=1e-6)
    assert gradlib.detach(x).tolist() == [1, 2]


# ---- printing -------------------------------------------------------------------------------------------------------------------


@pytest.fixture
def printing() -> Iterator[None]:
    before = dict(options)
    yield
    options.update(before)


@pytest.mark.host
@pytest.mark.nonfinite
@pytest.mark.parametrize(
    ("values", "text"),
    [
        ([1.0, 2.0], "[1., 2.]"), ([[1.0, 2.0], [3.0, 4.5]], "[[1.0000, 2.0000],\n        [3.0000, 4.5000]]"), (3.5, "3.5000"),
        ([1.5, float("nan"), float("inf")], "[1.5000,    nan,    inf]"), ([1e-8, 1.0], "[1.0000e-08, 1.0000e+00]"),
        ([1e6, 2.0], "[1.0000e+06, 2.0000e+00]"), ([float("nan"), 0.0], "[nan, 0.]"), ([-0.0, 1.0], "[-0., 1.]"), ([], "[]"),
        ([1 + 2j, 0.5 - 1j], "[1.0000+2.j, 0.5000-1.j]"), ([True, False], "[ True, False]"), ([1, 10], "[ 1, 10]"),
        ([0.1, 0.25], "[0.1000, 0.2500]"), ([True, True], "[True, True]"), ([[True], [False]], "[[ True],\n        [False]]"),
    ],
)  # fmt: skip
def test_numbers_print_as_in_torch(values: Any, text: str) -> None:
    assert repr(gradlib.tensor(values)) == f"tensor({text})"


def test_in_a_formatted_text_a_number_is_a_number() -> None:
    x = gradlib.tensor(2.5, requires_grad=True)
    assert (f"{x}", f"{x:.2f}", f"{gradlib.tensor(3)}", f"{gradlib.tensor(True)}") == ("2.5", "2.50", "3", "True")
    assert f"{gradlib.tensor([2.5], device='cpu')}" == "tensor([2.5000])"
    with pytest.raises(TypeError, match="unsupported format string"):
        f"{gradlib.ones(2):.2f}"


@pytest.mark.host
def test_what_does_not_fit_on_the_last_line_has_a_line_of_its_own() -> None:
    x = gradlib.full((6,), 1234.5678, requires_grad=True)
    assert repr(x) == "tensor([1234.5677, 1234.5677, 1234.5677, 1234.5677, 1234.5677, 1234.5677],\n       requires_grad=True)"


@pytest.mark.host
@pytest.mark.usefixtures("printing")
def test_set_printoptions() -> None:
    x = gradlib.tensor([1.0, 2.0 / 3.0])
    gradlib.set_printoptions(precision=2)
    assert repr(x) == "tensor([1.00, 0.67])"
    gradlib.set_printoptions(precision=3, sci_mode=True)
    assert repr(x) == "tensor([1.000e+00, 6.667e-01])"
    gradlib.set_printoptions(profile="short")
    assert repr(gradlib.arange(2000)) == "tensor([   0,    1,  ..., 1998, 1999])"
    gradlib.set_printoptions(profile="default", threshold=4, edgeitems=1)
    assert repr(gradlib.arange(6)) == "tensor([0,  ..., 5])"
    gradlib.set_printoptions(profile="full")
    assert "..." not in repr(gradlib.arange(2000))
    with pytest.raises(ValueError, match="profile is one of"):
        gradlib.set_printoptions(profile="wide")
    seen: list[str] = []
    thread = threading.Thread(target=lambda: seen.append(repr(gradlib.arange(2000))))
    thread.start()
    thread.join()
    assert "..." not in seen[0], "for all threads"
