"""Short rows with gaps are copied and subtracted column by column as NumPy does row by row, and operations of them are right."""

from __future__ import annotations

import numpy as np
import pytest

import gradlib
from gradlib.backend.columns import broadcast, has_columns, joined, row_major_copied, subtract, write
from gradlib.backend.copying import copied

pytestmark = pytest.mark.host

DTYPES = ["float32", "float64", "complex64", "complex128", "int64", "int8", "bool", "float16"]
SHAPES = [(2000, 3), (1024, 1), (1500, 4), (40, 50, 3), (1023, 3), (2000, 5), (0, 3), (2000, 0)]


def drawn(shape: tuple[int, ...], dtype: str = "float64") -> np.ndarray:
    made = np.random.default_rng(0).standard_normal((*shape, 2)) * 9
    if dtype.startswith("complex"):
        return (made[..., 0] + 1j * made[..., 1]).astype(dtype)
    return (made[..., 0] > 0) if dtype == "bool" else made[..., 0].astype(dtype)


def with_gaps(array: np.ndarray) -> list[np.ndarray]:
    """The array, and others of its shape and values whose rows lie otherwise."""
    wider = np.zeros((*array.shape[:-1], array.shape[-1] + 2), array.dtype)[..., 1:-1]
    longer = np.zeros((2 * array.shape[0], *array.shape[1:]), array.dtype)[::2]
    for each in (wider, longer):
        each[...] = array
    return [array, wider, longer, np.asfortranarray(array), array[::-1].copy()[::-1], array[..., ::-1].copy()[..., ::-1]]


def test_columns_are_those_of_many_short_rows() -> None:
    assert has_columns(drawn((1024, 3)))
    assert has_columns(drawn((8, 128, 4)))
    for shape in ((1023, 3), (1024, 5), (3000,), (3, 1024), (1024, 0)):
        assert not has_columns(drawn(shape))
    assert not has_columns(drawn((1024, 3), "complex128"))  # of 48 bytes


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_copies_are_numpys(shape: tuple[int, ...], dtype: str) -> None:
    x = drawn(shape, dtype)
    for source in with_gaps(x):
        for target in with_gaps(np.zeros_like(x)):
            write(target, source)
            assert np.array_equal(target, x)
        for made in (copied(source), row_major_copied(source)):
            assert made.dtype == x.dtype
            assert np.array_equal(made, x)
            assert not np.shares_memory(made, source)
        assert copied(source).strides == source.copy("K").strides
        assert row_major_copied(source).flags.c_contiguous
        assert gradlib.as_tensor(source).contiguous().numpy().flags.c_contiguous
        assert np.array_equal(gradlib.as_tensor(source).contiguous().numpy(), x)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64", "int64"])
def test_expanded_rows_are_copied(dtype: str) -> None:
    for x in (drawn((2000, 1), dtype), drawn((1, 3), dtype)):
        spread = np.broadcast_to(x, (2000, 3))
        assert np.array_equal(gradlib.as_tensor(spread).clone().numpy(), spread)
        assert gradlib.as_tensor(spread).clone().is_contiguous()


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", DTYPES)
def test_joined_arrays_are_numpys(shape: tuple[int, ...], dtype: str) -> None:
    x = drawn(shape, dtype)
    for other in with_gaps(x[..., : max(1, shape[-1] - 1)]):
        for axis in range(x.ndim):
            if axis == x.ndim - 1 or other.shape == x.shape:
                made, wanted = joined((x, other, x), axis), np.concatenate((x, other, x), axis)
                assert made.dtype == wanted.dtype
                assert np.array_equal(made, wanted)


def test_arrays_that_do_not_fit_are_left_to_numpy() -> None:
    x = drawn((2000, 3))
    assert joined((x, x.astype("float32")), 1).dtype == np.float64
    for other in (x[1:], x[:, 0]):
        with pytest.raises(ValueError, match=r"must match|same number of dimensions"):
            joined((x, other), 1)


@pytest.mark.parametrize("shape", SHAPES, ids=str)
@pytest.mark.parametrize("dtype", [dtype for dtype in DTYPES if dtype != "bool"])
def test_differences_are_numpys(shape: tuple[int, ...], dtype: str) -> None:
    a, b = drawn(shape, dtype), drawn(shape, dtype)[::-1]
    out = np.zeros_like(a)
    subtract(a, b, out)
    assert np.array_equal(out, a - b)
    wanted = a - b
    subtract(a, b, a)
    assert np.array_equal(a, wanted)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(2000, 3), (1500, 4), (40, 50, 3), (2000, 9), (5, 3)], ids=str)
def test_operations_that_move_or_subtract_are_numpys(shape: tuple[int, ...], dtype: str) -> None:
    array = drawn(shape, dtype)
    for each in with_gaps(array):
        x = gradlib.as_tensor(each)
        ends = [(0, 0)] * (array.ndim - 1)
        for made, wanted in (
            (gradlib.flip(x, (0,)), np.flip(array, 0)),
            (gradlib.flip(x, (-1,)), np.flip(array, -1)),
            (gradlib.flip(x, (0, -1)), np.flip(array, (0, -1))),
            (gradlib.roll(x, 1, -1), np.roll(array, 1, -1)),
            (gradlib.roll(x, 2, 0), np.roll(array, 2, 0)),
            (gradlib.nn.functional.pad(x, (1, 2)), np.pad(array, [*ends, (1, 2)])),
            (gradlib.nn.functional.pad(x, (-1, 2)), np.pad(array[..., 1:], [*ends, (0, 2)])),
            (gradlib.cat([x, x[..., :1]], -1), np.concatenate([array, array[..., :1]], -1)),
            (gradlib.stack([x, x], -2), np.stack([array, array], -2)),
            (gradlib.stack([x, x], -1), np.stack([array, array], -1)),
            (gradlib.diff(x), np.diff(array)),
            (gradlib.diff(x, dim=0), np.diff(array, axis=0)),
            (gradlib.diff(x, n=2), np.diff(array, 2)),
            (x[..., 1:].clone(), array[..., 1:]),
            (x[..., :2].contiguous(), array[..., :2]),
        ):
            assert made.numpy().dtype == wanted.dtype
            assert np.array_equal(made.numpy(), wanted)
            assert made.is_contiguous() or made.stride() == tuple(s // array.itemsize for s in each.strides)


@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
@pytest.mark.parametrize("shape", [(2000, 3), (40, 50, 4)], ids=str)
def test_gradients_are_the_transposes(shape: tuple[int, ...], dtype: str) -> None:
    """<g, f(x)> = <f'(g), x> for linear f, which have short rows forward or backward."""
    x, rng = gradlib.as_tensor(drawn(shape, dtype)).requires_grad_(), np.random.default_rng(1)
    for f in (
        lambda x: gradlib.flip(x, (0,)),
        lambda x: gradlib.roll(x, 1, -1),
        lambda x: gradlib.nn.functional.pad(x, (1, 2)),
        lambda x: gradlib.cat([x, 2 * x[..., 1:]], -1),
        lambda x: gradlib.stack([x, 3 * x], -2),
        lambda x: gradlib.diff(x),
        lambda x: gradlib.diff(x, dim=0),
        lambda x: x[..., 1:],
        lambda x: x[..., 1],
    ):
        y = f(x)
        g = rng.standard_normal(y.shape).astype(y.numpy(force=True).real.dtype)
        (dx,) = gradlib.autograd.grad(y, x, gradlib.as_tensor(g.astype(y.dtype)))
        left, right = np.vdot(g, y.numpy(force=True)), np.vdot(dx.numpy(), x.numpy(force=True))
        assert np.isclose(left, right, rtol=1e-4 if dtype != "float64" else 1e-10, atol=1e-1 if dtype != "float64" else 1e-8)


BROADCAST = [
    ((20_000, 3), (3,)), ((20_000, 3), (1, 3)), ((20_000, 3), (20_000, 1)), ((20_001, 7), (7,)), ((20_001, 7), (20_001, 1)),
    ((3000, 64), (64,)), ((3000, 64), (3000, 1)), ((300, 50, 3), (3,)), ((300, 50, 3), (300, 50, 1)), ((300, 50, 3), (50, 3)),
    ((300, 50, 3), (300, 1, 3)), ((300, 50, 3), (300, 1, 1)), ((300, 50, 3), (50, 1)), ((300, 50, 3), (1, 50, 1)),
    ((20_000, 3), (1, 20_000, 3)),
    ((1, 20_000, 3), (20_000, 1)), ((20_000, 3), (1, 1, 3)), ((20_000, 3), ()), ((20_000, 3), (1,)), ((20_000, 1), (1,)), ((0, 3), (3,)),
]  # fmt: skip


@pytest.mark.parametrize(("shape", "other"), BROADCAST, ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_rows_and_columns_meet_short_rows_with_numpys_bits(shape: tuple[int, ...], other: tuple[int, ...], dtype: str) -> None:
    a, b = drawn(shape, dtype), drawn(other, dtype)
    for ufunc in (np.add, np.subtract, np.multiply, np.divide, np.maximum, np.minimum):
        for left in with_gaps(a) if a.size else [a]:
            made, wanted = broadcast(ufunc, left, b), ufunc(a, b)
            assert made.dtype == wanted.dtype
            assert made.shape == wanted.shape
            assert np.array_equal(made, wanted)


@pytest.mark.nonfinite
def test_nan_infinity_and_the_sign_of_zero_meet_rows_and_columns_as_in_numpy() -> None:
    a = drawn((20_000, 3), "float32")
    a[:4] = [[np.nan, np.inf, -0.0], [0.0, -np.inf, 1.0], [-0.0, 0.0, -0.0], [np.inf, np.nan, 0.0]]
    for b in (np.array([-0.0, np.inf, 0.0], "float32"), np.where(np.arange(20_000) % 2, np.inf, -0.0).astype("float32")[:, None]):
        with np.errstate(all="ignore"):
            for ufunc in (np.add, np.subtract, np.multiply, np.divide, np.maximum, np.minimum):
                made, wanted = broadcast(ufunc, a, b), ufunc(a, b)
                assert np.array_equal(made, wanted, equal_nan=True)
                assert np.array_equal(np.signbit(made)[wanted == 0], np.signbit(wanted)[wanted == 0])


@pytest.mark.parametrize("dtype", [*DTYPES, "bfloat16"])
def test_operations_of_large_tensors_and_rows_or_columns_are_numpys(dtype: str) -> None:
    if dtype == "bfloat16":
        pytest.importorskip("ml_dtypes")
    array = drawn((40_000, 3), "float32" if dtype == "bfloat16" else dtype)
    x = gradlib.tensor(array).to(getattr(gradlib, dtype))
    for part in (x[:1].clone(), x[0].clone(), x[:, :1].clone(), x[:1, :1].clone(), x[0, 0].clone(), x.clone()):
        for few in (x[:5].clone(), x):  # the tensor is known from small ones, and is not
            if part.ndim == 2 and len(part) > 1 and few is not x:
                continue
            for made, ufunc in ((few + part, np.add), (few * part, np.multiply)):
                wanted = gradlib.as_tensor(ufunc(few.numpy(), part.numpy()))
                assert made.dtype == wanted.dtype == x.dtype
                assert gradlib.equal(made, wanted)


@pytest.mark.parametrize("other", [(3,), (20_000, 1)], ids=str)
def test_gradients_of_large_tensors_beside_a_row_or_a_column(other: tuple[int, ...]) -> None:
    a, b, g = drawn((20_000, 3)), np.abs(drawn(other)) + 1, drawn((20_000, 3))[::-1].copy()
    axis = 0 if len(other) == 1 else 1
    for name, by_a, by_b in (("add", g, g), ("sub", g, -g), ("mul", g * b, g * a), ("div", g / b, -g * a / b**2)):
        x, y = gradlib.tensor(a).requires_grad_(), gradlib.tensor(b).requires_grad_()
        for _ in range(2):
            dx, dy = gradlib.autograd.grad(getattr(gradlib, name)(x, y), [x, y], gradlib.tensor(g))
            assert np.allclose(dx.numpy(), by_a)
            assert np.allclose(dy.numpy(), by_b.sum(axis, keepdims=len(other) > 1))
