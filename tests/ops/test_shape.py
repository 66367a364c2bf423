"""Shapes, joins and rearrangements: the forms a call may take, promotion, edges and errors."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import gradlib
from gradlib.ops.dims import sizes_of, wrap_dim, wrap_dims
from tests.ops import table_join, table_shape
from tests.ops.case import Case, results
from tests.values import host

DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64", "complex64", "complex128"]


def x23() -> gradlib.Tensor:
    return gradlib.arange(6.0).reshape(2, 3)


# ---- forms --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "shape"),
    [
        (lambda x: x.reshape(3, 2), (3, 2)),
        (lambda x: x.reshape((3, -1)), (3, 2)),
        (lambda x: x.reshape([6]), (6,)),
        (lambda x: x.reshape(gradlib.Size((1, 6))), (1, 6)),
        (lambda x: x.reshape(shape=(3, 2)), (3, 2)),
        (lambda x: gradlib.reshape(x, (3, 2)), (3, 2)),
        (lambda x: x.view(3, 2), (3, 2)),
        (lambda x: x.view(size=(6,)), (6,)),
        (lambda x: x.permute(1, 0), (3, 2)),
        (lambda x: x.permute((1, 0)), (3, 2)),
        (lambda x: x.permute(dims=(-1, 0)), (3, 2)),
        (lambda x: x.expand(4, -1, 3), (4, 2, 3)),
        (lambda x: x.expand((4, 2, 3)), (4, 2, 3)),
        (lambda x: x.expand(size=(2, 3)), (2, 3)),
        (lambda x: x.expand_as(gradlib.zeros(5, 2, 3)), (5, 2, 3)),
        (lambda x: x.repeat(2, 2), (4, 6)),
        (lambda x: x.repeat((1, 1, 1)), (1, 2, 3)),
        (lambda x: x.tile(2), (2, 6)),
        (lambda x: x.tile((2, 1)), (4, 3)),
        (lambda x: x.flip(0, 1), (2, 3)),
        (lambda x: x.flip((0,)), (2, 3)),
        (lambda x: x.flip(dims=(0,)), (2, 3)),
        (lambda x: x.tile(dims=(2, 1)), (4, 3)),
        (lambda x: x.split(split_size=1)[0], (1, 3)),
        (lambda x: gradlib.split(x, split_size_or_sections=[1, 1])[1], (1, 3)),
        (lambda x: x.unsqueeze(dim=0), (1, 2, 3)),
        (lambda x: x[None].squeeze(axis=0), (2, 3)),
        (lambda x: gradlib.cat([x, x], axis=1), (2, 6)),
        (lambda x: gradlib.concat((x, x)), (4, 3)),
        (lambda x: gradlib.stack([x, x], dim=2), (2, 3, 2)),
        (lambda x: x.moveaxis(0, 1), (3, 2)),
        (lambda x: x.swapdims(0, 1), (3, 2)),
        (lambda x: gradlib.broadcast_tensors([x, gradlib.zeros(1, 1, 1)])[0], (1, 2, 3)),
        (lambda x: gradlib.atleast_3d([x, x])[1], (2, 3, 1)),
        (lambda x: x.tensor_split(gradlib.tensor([1, 2]), dim=1)[1], (2, 1)),
        (lambda x: x.tensor_split(gradlib.tensor(2), 1)[0], (2, 2)),
        (lambda x: x.narrow(0, gradlib.tensor(1), 1), (1, 3)),
        (lambda x: x.select(0, gradlib.tensor(1)), (3,)),
        (lambda x: x.T, (3, 2)),
        (lambda x: x.mT, (3, 2)),
        (lambda x: x[None].mH, (1, 3, 2)),
        (lambda x: gradlib.broadcast_to(x, gradlib.broadcast_shapes((2, 1), 3, (4, 1, 1))), (4, 2, 3)),
    ],
)
def test_the_forms_a_call_may_take(call: Callable[[gradlib.Tensor], gradlib.Tensor], shape: tuple[int, ...]) -> None:
    assert call(x23()).shape == shape


def test_a_result_may_be_written_to_out() -> None:
    out = gradlib.zeros(4, 3)
    assert gradlib.cat([x23(), x23()], out=out) is out
    np.testing.assert_array_equal(host(out), np.tile(np.arange(6.0).reshape(2, 3), (2, 1)))


# ---- promotion --------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("first", "second", "expected"), [
    ("int32", "float16", "float16"), ("int64", "float32", "float32"), ("float16", "bfloat16", "float32"), ("uint8", "int8", "int16"),
    ("bool", "uint8", "uint8"), ("complex64", "float64", "complex128"), ("float64", "float32", "float64"),
])  # fmt: skip
@pytest.mark.parametrize("shape", [(2,), (0,)])
def test_joining_promotes(first: str, second: str, expected: str, shape: tuple[int, ...]) -> None:
    """Also a tensor that adds no elements counts."""
    a, b = gradlib.ones(2, dtype=first), gradlib.ones(shape, dtype=second)
    assert gradlib.cat([a, b]).dtype == gradlib.cat([b, a]).dtype == np.dtype(gradlib.ones(1, dtype=expected).dtype)
    if shape == (2,):
        assert gradlib.stack([a, b]).dtype == gradlib.ones(1, dtype=expected).dtype


MOVING = [c for c in table_shape.CASES + table_join.CASES if c.complex and c.op not in ("fill", "to_copy", "zero", "unfold_backward")]
KEEPING = [c for c in MOVING if not c.op.endswith(("_backward", "_gather"))]


@pytest.mark.parametrize("case", [c for c in KEEPING if c.reference], ids=lambda c: c.id)
def test_every_dtype_is_moved_as_it_is(case: Case, rng: np.random.Generator) -> None:
    drawn = [np.asarray(a) for a in case.inputs(rng)]
    for kind in (gradlib.zeros(1, dtype=dtype).dtype for dtype in DTYPES):
        arrays = [a if a.dtype.kind == "i" else np.abs(a * 50).astype(kind) for a in drawn]
        found = results(case.call(*map(gradlib.tensor, arrays)))
        wide = [a.astype(np.float64) if a.dtype.kind == "V" else a for a in arrays]
        for got, want in zip(found, results(case.reference(*wide)), strict=True):  # type: ignore[misc]
            assert got.dtype == kind
            values = host(got)
            np.testing.assert_array_equal(values.astype(np.float64) if kind.kind == "V" else values, want, err_msg=str(kind))


# ---- errors -------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda x: x.reshape(4), RuntimeError, r"shape '\[4\]' is invalid for input of size 6"),
        (lambda x: x.reshape(-1, -1), RuntimeError, "only one dimension can be inferred"),
        (lambda x: x.reshape(-2, 3), RuntimeError, "invalid shape dimension -2 at index 0"),
        (lambda x: x.reshape(2.0, 3), TypeError, "integers"),
        (lambda x: x.reshape(size=(2, 3)), TypeError, "shape="),
        (lambda x: x.view(2, size=(2, 3)), TypeError, "size="),
        (lambda x: x[:0].reshape(-1, 0), RuntimeError, "ambiguous"),
        (lambda x: x.t().view(6), RuntimeError, "view size is not compatible"),
        (lambda x: x.view(gradlib.float64), RuntimeError, "cannot view"),
        (lambda x: x.expand(4, 5), RuntimeError, r"\(5\) must match the existing size \(3\) at non-singleton dimension 1"),
        (lambda x: x.expand(3), RuntimeError, "must be greater or equal"),
        (lambda x: x.expand(-1, 2, 3), RuntimeError, "leading, non-existing dimension 0"),
        (lambda x: x.sum().expand(-1), RuntimeError, "leading, non-existing dimension 0"),
        (lambda x: x.transpose(0, 2), IndexError, r"expected to be in range of \[-2, 1\], but got 2"),
        (lambda x: x.permute(0, 0), RuntimeError, "duplicate dims"),
        (lambda x: x.permute(0), RuntimeError, "2 dimensions, but the order of 1"),
        (lambda x: x.movedim((0, 1), 0), RuntimeError, "same number of elements"),
        (lambda x: x.movedim((0, 0), (0, 1)), RuntimeError, "repeated dim"),
        (lambda x: x[None].t(), RuntimeError, "<= 2 dimensions, but self is 3D"),
        (lambda x: x[0].mT, RuntimeError, "Got 1-D"),
        (lambda x: x[None].H, RuntimeError, "Got 3-D"),
        (lambda x: x[0].adjoint(), RuntimeError, "Got 1-D"),
        (lambda x: x.squeeze(2), IndexError, "out of range"),
        (lambda x: x.squeeze((0, 0)), RuntimeError, "multiple times"),
        (lambda x: x.unsqueeze(3), None, ""),
        (lambda x: x.unsqueeze(4), IndexError, r"\[-3, 2\], but got 4"),
        (lambda x: x.unflatten(1, (2, 2)), RuntimeError, "don't multiply up"),
        (lambda x: x.unflatten(1, ()), RuntimeError, "sizes"),
        (lambda x: x.flatten(1, 0), RuntimeError, "start_dim cannot come after end_dim"),
        (lambda x: x.narrow(0, 1, 2), RuntimeError, "exceeds dimension size"),
        (lambda x: x.narrow(0, 5, 1), IndexError, "start out of range"),
        (lambda x: x.narrow(0, 0, -1), RuntimeError, "non-negative"),
        (lambda x: x.sum().narrow(0, 0, 1), RuntimeError, "0-dim"),
        (lambda x: x.select(0, 2), IndexError, r"index 2 out of range for tensor of size \[2, 3\] at dimension 0"),
        (lambda x: x.sum().select(0, 0), IndexError, "0-dim"),
        (lambda x: x.sum().unbind(), IndexError, "no dimensions"),
        (lambda x: iter(x.sum()), TypeError, "0-d"),
        (lambda x: x.diagonal(0, 1, 1), RuntimeError, "cannot be identical"),
        (lambda x: x[None].diag(), RuntimeError, "1D or 2D"),
        (lambda x: x.unfold(0, 3, 1), RuntimeError, "maximum size for tensor at dimension 0 is 2 but size is 3"),
        (lambda x: x.unfold(0, 1, 0), RuntimeError, "must be > 0"),
        (lambda x: x.as_strided((3, 3), (3, 1)), RuntimeError, "out of bounds"),
        (lambda x: x.as_strided((3,), (3, 1)), RuntimeError, "mismatch in length"),
        (lambda x: x.as_strided((3,), (-1,)), RuntimeError, "must not be negative"),
        (gradlib.view_as_complex, RuntimeError, "last dimension of size 2"),
        (lambda x: gradlib.view_as_complex(x.t()), RuntimeError, "stride 1"),
        (lambda x: gradlib.view_as_complex(x[:, :2]), RuntimeError, "divisible by 2"),
        (lambda x: gradlib.view_as_complex(x.long()), RuntimeError, "float and double"),
        (gradlib.view_as_real, RuntimeError, "complex"),
        (lambda x: gradlib.cat([x, x.t()]), RuntimeError, "except in dimension 0.*tensor number 1"),
        (lambda x: gradlib.cat([x, x[None]]), RuntimeError, "same number of dimensions: got 2 and 3"),
        (lambda x: gradlib.cat([x.sum()]), RuntimeError, "zero-dimensional"),
        (lambda x: gradlib.cat([]), ValueError, "non-empty"),
        (lambda x: gradlib.stack([x, x.t()]), RuntimeError, r"equal size, but got \[2, 3\] at entry 0 and \[3, 2\] at entry 1"),
        (lambda x: gradlib.stack([]), RuntimeError, "non-empty"),
        (lambda x: gradlib.hstack([]), RuntimeError, "non-empty"),
        (lambda x: x.split(0), RuntimeError, "split_size can only be 0"),
        (lambda x: x.split([1, 2]), RuntimeError, "sum exactly to 2"),
        (lambda x: x.sum().split(1), RuntimeError, "at least a 1-dimensional"),
        (lambda x: x.chunk(0), RuntimeError, "greater than 0"),
        (lambda x: x.sum().chunk(1), RuntimeError, "at least a 1-dimensional"),
        (lambda x: x.tensor_split(0), RuntimeError, "larger than 0"),
        (lambda x: x.hsplit(2), RuntimeError, "not divisible"),
        (lambda x: x[0].vsplit(1), RuntimeError, "at least 2"),
        (lambda x: gradlib.broadcast_shapes((2,), (3,)), RuntimeError, "cannot be broadcast"),
        (lambda x: gradlib.meshgrid(x), RuntimeError, "0D or 1D"),
        (lambda x: gradlib.meshgrid(x[0], x[0].long()), RuntimeError, "same dtype"),
        (lambda x: gradlib.meshgrid(x[0], indexing="zz"), RuntimeError, "indexing"),
        (lambda x: x.repeat(2), RuntimeError, "can not be smaller"),
        (lambda x: x.repeat(-1, 1), RuntimeError, "negative"),
        (lambda x: x.repeat_interleave(-1), RuntimeError, "non-negative"),
        (lambda x: x.repeat_interleave(gradlib.tensor([1, 2])), RuntimeError, "same size"),
        (lambda x: x.repeat_interleave(gradlib.tensor([-1, 2]), 0), RuntimeError, "negative"),
        (lambda x: x.repeat_interleave(gradlib.tensor([1.0, 2.0]), 0), RuntimeError, "Long or Int"),
        (lambda x: x.repeat_interleave([1, 2], 0), TypeError, "must be int or Tensor, not list of int"),
        (lambda x: x.flip(0, 0), RuntimeError, "multiple times"),
        (lambda x: x.roll((1, 2), (0,)), RuntimeError, "must align"),
        (lambda x: x.roll(()), RuntimeError, "`shifts` required"),
        (lambda x: x.roll(1, 5), IndexError, "Dimension out of range"),
        (lambda x: x.rot90(1, (0, 0)), RuntimeError, "different"),
        (lambda x: x[0].rot90(), RuntimeError, "total dims >= 2"),
        (lambda x: x.rot90(1, (0,)), RuntimeError, "== 2"),
        (lambda x: x[0].tril(), RuntimeError, "at least 2 dimensions"),
        (lambda x: gradlib.tril_indices(-1, 2), RuntimeError, "non-negative"),
        (lambda x: gradlib.tril_indices(2, 2, dtype=gradlib.float32), NotImplementedError, "int64"),
    ],
)
def test_wrong_shapes_are_refused(call: Callable[[gradlib.Tensor], Any], error: type[Exception] | None, words: str) -> None:
    if error is None:
        call(x23()[None])
        return
    with pytest.raises(error, match=words):
        call(x23())


def test_what_has_no_elements_is_rolled_along_any_dimension() -> None:
    for shape in ((0,), (2, 0), (0, 3)):
        x = gradlib.ones(*shape, requires_grad=True)
        for dim in (0, 5, -7, (0, 9)):
            made = x.roll(1 if isinstance(dim, int) else (1, 2), dim)
            assert made.shape == shape
            assert gradlib.autograd.grad(made.sum(), x)[0].shape == shape


def test_T_of_what_is_no_matrix_warns() -> None:
    with pytest.warns(UserWarning, match="deprecated"):
        assert x23()[None].T.shape == (3, 2, 1)


# ---- dimensions and sizes -------------------------------------------------------------------------------------------------------------


@given(st.integers(-6, 6), st.integers(0, 5))
def test_a_dimension_counts_from_either_end(dim: int, ndim: int) -> None:
    count = max(ndim, 1)
    if -count <= dim < count:
        assert wrap_dim(dim, ndim) == range(count)[dim]
    else:
        with pytest.raises(IndexError, match=f"but got {dim}"):
            wrap_dim(dim, ndim)


def test_several_dimensions() -> None:
    assert wrap_dims((0, -1), 3) == (0, 2)
    with pytest.raises(RuntimeError, match="multiple times"):
        wrap_dims((0, -3), 3)
    with pytest.raises(TypeError):
        wrap_dim(1.0, 2)


def test_sizes_in_every_form() -> None:
    assert sizes_of((2, np.int64(3))) == sizes_of(([2, 3],)) == sizes_of((gradlib.Size((2, 3)),)) == (2, 3)
    assert sizes_of((gradlib.tensor(4),)) == (4,)
    assert sizes_of(((),)) == ()


# ---- values that the table's rows do not show -------------------------------------------------------------------------------------------


def test_triangles_by_their_indices() -> None:
    for rows, columns, offset in [(3, 3, 0), (2, 4, 1), (4, 2, -1), (0, 3, 0)]:
        np.testing.assert_array_equal(host(gradlib.tril_indices(rows, columns, offset)), np.tril_indices(rows, offset, columns))
        np.testing.assert_array_equal(host(gradlib.triu_indices(rows, columns, offset)), np.triu_indices(rows, offset, columns))
    assert gradlib.tril_indices(2, 2, dtype=gradlib.int32).dtype == np.int32


@pytest.mark.parametrize("shape", [(110, 105), (300, 300), (129, 128), (500, 130), (130, 500), (2, 200, 150)])
def test_triangles_of_large_matrices_are_numpys_and_keep_nothing_of_the_other(shape: tuple[int, ...]) -> None:
    x = np.random.default_rng(0).standard_normal(shape).astype(np.float32)
    x[..., 3, 100], x[..., 100, 3] = np.inf, np.nan
    for diagonal in (0, 1, -1, 127, 128, -129, 400, -400):
        np.testing.assert_array_equal(host(gradlib.tensor(x).triu(diagonal)), np.triu(x, diagonal))
        np.testing.assert_array_equal(host(gradlib.tensor(x).tril(diagonal)), np.tril(x, diagonal))


def test_positions_repeated() -> None:
    np.testing.assert_array_equal(host(gradlib.repeat_interleave(gradlib.tensor([2, 0, 1]))), [0, 0, 2])
    x = x23()
    np.testing.assert_array_equal(host(x.repeat_interleave(gradlib.tensor(2), 0, output_size=4)), host(x).repeat(2, 0))


def test_triangle_in_place_keeps_no_nan() -> None:
    leaf = gradlib.tensor([[1.0, np.nan], [2.0, 3.0]], requires_grad=True)
    x = leaf * 1
    x.tril_()
    x.sum().backward()
    np.testing.assert_array_equal(host(x), [[1, 0], [2, 3]])
    np.testing.assert_array_equal(host(leaf.grad), [[1, 0], [1, 1]])


def test_unused_parts_get_zeros() -> None:
    x = x23().requires_grad_()
    x.split([1, 1, 1], 1)[1].sum().backward()
    np.testing.assert_array_equal(host(x.grad), [[0, 1, 0], [0, 1, 0]])


def test_reading_memory_as_another_dtype() -> None:
    x = gradlib.tensor([1.0, -2.0])
    bits = x.view(gradlib.int32)
    np.testing.assert_array_equal(host(bits), np.array([1, -2], np.float32).view(np.int32))
    bits.zero_()
    assert x.tolist() == [0.0, 0.0]
    assert not x.clone().requires_grad_().view(gradlib.int32).requires_grad


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
@pytest.mark.parametrize("spread", [lambda x: x.expand(10000, 2), lambda x: x.repeat(10000, 1), lambda x: x.repeat_interleave(10000)])
def test_gradients_of_half_types_are_summed_in_single_precision(spread: Callable[[Any], Any], dtype: str) -> None:
    """A sum in float16 stops at 2048, one in bfloat16 at 256."""
    x = gradlib.ones(2, dtype=gradlib.zeros(1, dtype=dtype).dtype, requires_grad=True)
    y = spread(x)
    y.backward(gradlib.ones_like(y))
    np.testing.assert_allclose(host(x.grad).astype(np.float64), [10000, 10000], rtol=4e-3)


@pytest.mark.parametrize("mode", [gradlib.no_grad, gradlib.inference_mode])
@pytest.mark.parametrize("name", ["squeeze_", "t_"])
@pytest.mark.parametrize("make", [lambda x: x.mT, lambda x: x * 1])
def test_a_tensor_that_is_turned_keeps_its_history_in_every_mode(mode: Any, name: str, make: Callable[[Any], Any]) -> None:
    x = gradlib.ones(1, 3, requires_grad=True)
    y = make(x)
    with mode():
        getattr(y, name)()
        inner = gradlib.ones(1, 3)
        getattr(inner, name)()
    assert inner.is_inference() == (mode is gradlib.inference_mode)
    (y * 3).sum().backward()
    assert host(x.grad).tolist() == [[3.0, 3.0, 3.0]]


def test_only_the_tensor_itself_is_turned_where_nothing_is_recorded() -> None:
    x = gradlib.arange(6.0).reshape(2, 3).clone()
    same, version = x.detach(), x._version
    assert x.t_() is x
    assert (x._version, same._version) == (version + 1, version + 1)
    assert (x.shape, same.shape) == ((3, 2), (2, 3))
    row = x[0]
    x.unsqueeze_(0)
    row.zero_()
    assert host(x).tolist() == [[[0, 0], [1, 4], [2, 5]]]
    assert host(same).tolist() == [[0, 1, 2], [0, 4, 5]]
    with pytest.raises(IndexError):
        x.clone().transpose_(0, 5)
    with pytest.raises(TypeError):
        x.clone().transpose_("a", 0)
    outside = gradlib.ones(2, 3)
    with pytest.raises(RuntimeError, match="mutate"):
        gradlib.func.grad(lambda y: (y @ outside.t_()).sum())(gradlib.ones(3))
    assert outside.shape == (2, 3)


def test_positions_of_an_interleaved_repetition_have_the_dtype_of_their_counts() -> None:
    made = gradlib.repeat_interleave(gradlib.tensor([2, 1], dtype=gradlib.int32))
    assert (made.tolist(), made.dtype) == ([0, 0, 1], np.int32)


def test_one_complex_number_hands_its_gradient_to_its_parts() -> None:
    x = gradlib.tensor([1.0, 1.0], requires_grad=True)
    gradlib.view_as_complex(x).acos().real.backward()
    assert x.grad.tolist() == pytest.approx([-0.5689, 0.3516], abs=1e-4)


@pytest.mark.parametrize("make", [lambda x: x[:, :1], lambda x: x.expand(2, 2, 3), lambda x: x.t(), lambda x: x[0][::2]])
def test_ravel_copies_what_is_not_contiguous(make) -> None:
    """As in torch, also where a view of one dimension could be had."""
    x = gradlib.zeros(2, 3)
    made = make(x[:1].expand(2, 3)).ravel()
    assert made.is_contiguous()
    made.fill_(1)
    assert not x.any()
    x.ravel()[0] = 1
    assert x[0, 0] == 1
