"""``x[...]`` and ``x[...] = v`` beyond the table: every form of index, views, writes through views, errors, drawn shapes."""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st
from hypothesis.extra import numpy as draw

import gradlib
from tests.values import host


def counting(*shape: int) -> gradlib.Tensor:
    return gradlib.tensor(np.arange(float(np.prod(shape))).reshape(shape))


# ---- what an index means --------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("key", "shape"),
    [
        ((0, slice(None), [0, 1]), (3, 2)),  # NumPy moves the array's dimension to the front: (2, 3)
        (([0, 1], slice(None), 0), (2, 3)),
        ((slice(None), [0, 1], slice(None), None), (2, 2, 4, 1)),
        (([0, 1], None, [0, 1]), (2, 1, 4)),
        ((True, [0, 1]), (2, 3, 4)),
        (True, (1, 2, 3, 4)),
        (False, (0, 2, 3, 4)),
        ([], (0, 3, 4)),
        (range(2), (2, 3, 4)),
        ([True, False], (1, 3, 4)),
        (np.int64(1), (3, 4)),
        (np.array(1), (3, 4)),
        (((0, 1), (2, 0)), (2, 4)),
        ((None, ..., 0), (1, 2, 3)),
        (slice(None, None, -1), (2, 3, 4)),
    ],
    ids=str,
)
def test_the_shape_that_an_index_gives(key: Any, shape: tuple[int, ...]) -> None:
    assert counting(2, 3, 4)[key].shape == shape


def test_a_number_beside_an_array_leaves_the_arrays_dimension_in_its_place() -> None:
    x = counting(2, 3, 4)
    found = x[1, :, np.array([3, 0])]
    np.testing.assert_array_equal(host(found), host(x)[1][:, [3, 0]])


def places(*values: int) -> gradlib.Tensor:
    return gradlib.tensor(values)


@pytest.mark.parametrize(
    "key",
    [
        lambda: [[0, 1], [1, 2]],
        lambda: [[0, 1]],
        lambda: [[0, 1], [1]],
        lambda: [[0, 1], 1],
        lambda: [1, [0, 1]],
        lambda: [(0, 1), range(2)],
        lambda: [[[0, 1], [1, 2]]],
        lambda: [[]],
        lambda: [0, None],
        lambda: [..., [0, 1]],
        lambda: [slice(1)],
        lambda: [[0], slice(1)],
        lambda: [[True, False, True]],
        lambda: [[True, False, True], [True, False, False, False]],
        lambda: [places(0, 1), places(1, 2)],
        lambda: [places(0)[0], 1],
        lambda: [np.array([0, 1]), np.array([1, 2])],
        lambda: [[0, 1]] * 3,
    ],
)
def test_a_list_that_holds_more_than_numbers_is_a_tuple(key: Callable[[], Any]) -> None:
    """As in torch 2.13, with its warning; NumPy's rule for lists of arrays of old."""
    x = counting(3, 4, 5)
    want = x[tuple(key())]
    with pytest.warns(UserWarning, match=r"x\[list\] is read as x\[tuple\(list\)\]") as caught:
        found = x[key()]
    assert caught[0].filename == __file__
    assert (found.shape, found.tolist()) == (want.shape, want.tolist())
    written, expected = x.clone(), x.clone()
    expected[tuple(key())] = -1.0
    with pytest.warns(UserWarning, match="as in torch") as caught:
        written[key()] = -1.0
    assert caught[0].filename == __file__
    assert written.tolist() == expected.tolist()


def test_which_lists_are_arrays() -> None:
    x = counting(3, 4)
    for key in ([0, 2], range(2), [np.int64(2), np.int64(0)], [], ([0, 1],), ([[0, 1], [1, 2]],), [[0, 1]] * 40):
        np.testing.assert_array_equal(host(x[key]), host(x)[key if isinstance(key, tuple) else np.asarray(key, int)])
    assert x[[True, False, True]].tolist() == x[[0, 2]].tolist()
    with pytest.raises(IndexError, match="shape mismatch"), pytest.warns(UserWarning, match="as in torch"):
        x[[[0, 1], [1, 2, 0]]]
    with pytest.raises(IndexError, match="too many indices"), pytest.warns(UserWarning, match="as in torch"):
        x[[[0, 1]] * 4]
    with pytest.raises(ValueError, match="inhomogeneous"):
        x[([[0, 1], [1]],)]


def test_0d_tensors_are_numbers_and_0d_bools_are_masks() -> None:
    x = counting(3, 2)
    assert x[gradlib.tensor(1)].tolist() == [2.0, 3.0]
    assert x[gradlib.tensor(True)].shape == (1, 3, 2)
    assert x[: gradlib.tensor(2)].shape == (2, 2)


def test_uint8_tensors_are_masks_and_warn() -> None:
    with pytest.warns(UserWarning, match="use bool"):
        assert counting(2, 2)[gradlib.tensor(np.array([1, 0], np.uint8))].tolist() == [[0.0, 1.0]]


@pytest.mark.parametrize(
    ("key", "error", "text"),
    [
        (5, IndexError, "out of bounds"),
        ((0, -4), IndexError, "out of bounds"),
        ((0, 0, 0), IndexError, "too many indices"),
        (([0], 0, 0), IndexError, "too many indices"),
        (1.5, IndexError, "got float: 1.5"),
        ({}, IndexError, "got dict"),
        ("a", IndexError, "integers or bools"),
        (np.array([0.5]), IndexError, "integers or bools, got float64"),
        (([0, 1], [0, 1, 2]), IndexError, "shape mismatch"),
        (np.ones(3, bool), IndexError, "boolean index did not match"),
        ((..., ...), IndexError, "single ellipsis"),
    ],
    ids=str,
)
def test_what_is_no_index(key: Any, error: type[Exception], text: str) -> None:
    for x in (counting(2, 3), counting(2, 3).requires_grad_(), counting(2, 3).long()):
        with pytest.raises(error, match=text):
            x[key]


@pytest.mark.host  # values are not looked at on a CUDA device
def test_places_that_there_are_not() -> None:
    for x in (counting(2, 3), counting(2, 3).requires_grad_() * 1):
        with pytest.raises(IndexError, match="out of bounds"):
            x[[0], [-4]]
        with pytest.raises(IndexError, match="out of bounds"):
            x[[9]] = 0.0


def test_no_index_into_a_0d_tensor() -> None:
    with pytest.raises(IndexError, match="too many indices"):
        counting()[0]


@st.composite
def indexed(drawing: Any) -> tuple[tuple[int, ...], Any]:
    """A shape and an index of arrays, slices, None and Ellipsis, in which NumPy and torch agree."""
    shape = drawing(draw.array_shapes(min_dims=1, max_dims=4, min_side=1, max_side=4))
    if drawing(st.booleans()):
        return shape, drawing(draw.basic_indices(shape, allow_ellipsis=True, allow_newaxis=True))
    if drawing(st.booleans()):
        return shape, drawing(draw.arrays(bool, shape[: drawing(st.integers(1, len(shape)))]))
    count = drawing(st.integers(1, len(shape)))
    places = drawing(draw.array_shapes(min_dims=1, max_dims=2, min_side=0, max_side=4))
    arrays = tuple(drawing(draw.arrays(np.int64, places, elements=st.integers(-n, n - 1))) for n in shape[:count])
    return shape, arrays


@given(indexed())
def test_reading_and_its_gradient(drawn: tuple[tuple[int, ...], Any]) -> None:
    """The value is NumPy's, and <x[k], g> = <x, the gradient of g>, through both backward walks."""
    shape, key = drawn
    rng = np.random.default_rng(0)
    array = rng.standard_normal(shape)
    x = gradlib.tensor(array).requires_grad_()
    y = x[key]
    np.testing.assert_array_equal(host(y), array[key])
    g = rng.standard_normal(y.shape)
    for recorded in (False, True):
        (back,) = gradlib.autograd.grad(y, x, gradlib.tensor(g), create_graph=recorded, retain_graph=True)
        assert np.sum(array[key] * g) == pytest.approx(np.sum(array * host(back)))


@given(indexed())
def test_assignment_gives_values_and_gradients(drawn: tuple[tuple[int, ...], Any]) -> None:
    """The values, and the gradients to what was written and to what was left, outside a graph and within."""
    shape, key = drawn
    rng = np.random.default_rng(0)
    array = rng.standard_normal(shape)
    value = rng.standard_normal(array[key].shape)
    plain = gradlib.tensor(array)
    plain[key] = gradlib.tensor(value)
    want = array.copy()
    want[key] = value
    places = np.arange(array.size).reshape(shape)[key]
    if np.unique(places).size != np.size(places):
        return  # which of several values stays is not defined
    np.testing.assert_array_equal(host(plain), want)
    x, v = gradlib.tensor(array).requires_grad_(), gradlib.tensor(value).requires_grad_()
    g = rng.standard_normal(shape)
    left = g.copy()
    left[key] = 0
    for through_a_view in (False, True):
        y = x * 1
        (y[None][0] if through_a_view else y)[key] = v
        np.testing.assert_array_equal(host(y), want)
        cotangent = gradlib.tensor(g).requires_grad_()
        for recorded in (False, True):
            to_x, to_v = gradlib.autograd.grad(y, (x, v), cotangent, create_graph=recorded, retain_graph=True)
            np.testing.assert_array_equal(host(to_x), left)
            np.testing.assert_array_equal(host(to_v), g[key])
        (again,) = gradlib.autograd.grad((to_x, to_v), cotangent, (gradlib.tensor(array), gradlib.tensor(value)))
        np.testing.assert_array_equal(host(again), want)


# ---- views ----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [0, (0, 0), slice(1, None), (..., None), (), slice(None, None, -1), np.int32(1), (None, 1, ...)], ids=str)
@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "int64", "bool", "complex64"])
def test_numbers_slices_and_none_give_views(key: Any, dtype: str) -> None:
    x = gradlib.zeros(2, 3, dtype=dtype)
    y = x[key]
    assert y._base is x
    y.fill_(1)
    assert x.sum() == y.numel()
    assert x._version == y._version == 1


@pytest.mark.parametrize("key", [[0], np.array([True, False]), (0, [1]), True], ids=str)
def test_arrays_give_copies(key: Any) -> None:
    x = gradlib.zeros(2, 3)
    y = x[key]
    assert y._base is not x
    y.fill_(1)
    assert not x.any()


def test_rows_by_iteration() -> None:
    assert [row.tolist() for row in counting(2, 2)] == [[0.0, 1.0], [2.0, 3.0]]


# ---- writes ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("key", [0, (slice(None), 1), [0, 1], np.array([[True, False], [False, True]]), ...], ids=str)
def test_a_leaf_that_wants_a_gradient_is_not_written(key: Any) -> None:
    x = counting(2, 2).requires_grad_()
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        x[key] = 1.0
    with gradlib.no_grad():
        x[key] = 9.0
    assert (x[key] == 9).all()
    assert x._version == 1


def test_a_write_through_a_view_reaches_the_base_and_its_other_views() -> None:
    a = gradlib.tensor([1.0, 2.0, 3.0, 4.0], requires_grad=True)
    v = gradlib.tensor([10.0, 20.0], requires_grad=True)
    base = a * 2
    rows = base.reshape(2, 2)
    first = rows[0]
    first[:] = v
    assert base.tolist() == [10.0, 20.0, 6.0, 8.0]
    (rows * gradlib.tensor([[1.0, 2.0], [3.0, 4.0]])).sum().backward()
    assert a.grad.tolist() == [0.0, 0.0, 6.0, 8.0]
    assert v.grad.tolist() == [1.0, 2.0]


def test_an_array_write_through_a_view() -> None:
    a = gradlib.tensor(np.ones((2, 3)), requires_grad=True)
    v = gradlib.tensor(5.0, dtype="float64", requires_grad=True)
    y = a * 2
    y[1, [0, 2]] = v
    assert y.tolist() == [[2.0, 2.0, 2.0], [5.0, 2.0, 5.0]]
    (y * y).sum().backward()
    assert a.grad.tolist() == [[8.0, 8.0, 8.0], [0.0, 8.0, 0.0]]
    assert v.grad == 20


def test_an_array_write_to_a_part_is_one_node() -> None:
    a, v = gradlib.ones(3, 3).requires_grad_(), gradlib.tensor([5.0, 6.0]).requires_grad_()
    y, places = a * 2, gradlib.tensor([0, 2])
    y[1, places] = v
    assert y.grad_fn.name() == "CopySlices"
    assert [node.name() for node, _ in y.grad_fn.next_functions] == ["MulBackward0", "AccumulateGrad"]
    y.sum().backward()
    with pytest.raises(RuntimeError, match="backward through the graph a second time"):
        y.sum().backward()
    assert (a.grad.tolist(), v.grad.tolist()) == ([[2.0, 2.0, 2.0], [0.0, 2.0, 0.0], [2.0, 2.0, 2.0]], [1.0, 1.0])
    y = a * 2
    y[1, places] = v
    places[0] = 1
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_one_value_is_written_where_a_mask_holds() -> None:
    """Of no dimensions or of several of size 1, and where the mask is of fewer dimensions than what is written."""
    for shape in ((), (1,), (1, 1), (1, 1, 1)):
        for mask in (gradlib.tensor([True, False, True]), np.array([True, False, True])):
            a, v = gradlib.ones(3, 2).requires_grad_(), gradlib.full(shape, 5.0).requires_grad_()
            y = a * 2
            y[mask] = v
            made = (a * 2).index_put((gradlib.tensor(mask),), v)
            assert y.tolist() == made.tolist() == [[5.0, 5.0], [2.0, 2.0], [5.0, 5.0]]
            for each in (y, made):
                to_a, to_v = gradlib.autograd.grad((each**2).sum(), (a, v))
                assert to_a.tolist() == [[0.0, 0.0], [8.0, 8.0], [0.0, 0.0]]
                assert (to_v.shape, to_v.item()) == (shape, 40.0)


def test_the_written_tensors_node_is_left_alone() -> None:
    """What v's own derivative saved must survive a later write to the place that it was copied to."""
    a = gradlib.tensor([0.0, 1.0], requires_grad=True)
    x = gradlib.zeros(2, 2)
    v = a.exp()
    x[0] = v
    x[0] = 7.0
    v.sum().backward()
    np.testing.assert_allclose(host(a.grad), np.exp([0.0, 1.0]), rtol=1e-6)


def test_a_number_cuts_the_history_of_what_it_overwrites() -> None:
    a = gradlib.ones(3, requires_grad=True)
    y = a * 2
    y[...] = 0.0
    assert y.requires_grad
    y.sum().backward()
    assert a.grad.tolist() == [0.0, 0.0, 0.0]


def test_a_saved_tensor_that_is_written_is_stale() -> None:
    x = gradlib.ones(3, requires_grad=True) * 1
    y = x * x
    x[0] = 2.0
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_an_index_that_is_written_is_stale() -> None:
    places = gradlib.tensor([0, 1])
    y = gradlib.ones(3, requires_grad=True)[places]
    places[0] = 2
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_an_array_used_as_index_may_change_later() -> None:
    for places in (np.array([0, 1]), gradlib.tensor([0, 1])._array):
        x = gradlib.zeros(3).requires_grad_()
        y = x[places]
        places[0] = 2
        y.sum().backward()
        assert x.grad.tolist() == [1.0, 1.0, 0.0]


def test_a_tensor_as_bound_of_a_slice_may_change_later() -> None:
    end = gradlib.tensor(2)
    x = gradlib.zeros(3).requires_grad_()
    y = x[:end]
    end += 1
    y.sum().backward()
    assert x.grad.tolist() == [1.0, 1.0, 0.0]


@pytest.mark.parametrize(
    ("dtype", "value", "stored"),
    [
        ("int64", 1.75, 1),
        ("float32", True, 1.0),
        ("bool", 2, True),
        ("complex64", 1j, 1j),
        ("float16", np.float64(0.5), 0.5),
        ("float32", [[1], [2]], [[1.0, 1.0], [2.0, 2.0]]),
        ("float32", np.arange(2), [[0.0, 1.0], [0.0, 1.0]]),
    ],
)
def test_what_is_written_takes_the_tensors_dtype(dtype: str, value: Any, stored: Any) -> None:
    x = gradlib.zeros(2, 2, dtype=dtype)
    x[:] = value
    assert x.dtype.name == dtype
    np.testing.assert_array_equal(host(x), np.broadcast_to(stored, (2, 2)))


def test_a_tensor_of_another_dtype_is_written_through_a_view_but_not_at_places() -> None:
    x = gradlib.zeros(3)
    x[1] = gradlib.tensor(2.5, dtype="float64")
    assert x.tolist() == [0.0, 2.5, 0.0]
    with pytest.raises(RuntimeError, match="one dtype: x has float32, value float64"):
        x[[0, 1]] = gradlib.zeros(2, dtype="float64")


@pytest.mark.parametrize(
    ("key", "value", "error", "text"),
    [
        (0, np.ones(3), RuntimeError, r"shape \[3\] cannot be broadcast to x\[...\] of shape \[2\]"),
        (0, np.ones((2, 2)), RuntimeError, "shape mismatch"),
        ([0, 1], np.ones(3), RuntimeError, "shape mismatch"),
        (np.eye(2, dtype=bool), np.ones(3), RuntimeError, "shape mismatch"),
        (0, 1j, RuntimeError, "complex number cannot be assigned to elements of dtype float64"),
        (0, None, TypeError, "can't assign a NoneType"),
        (0, "a", TypeError, "can't assign a str"),
        (9, 0.0, IndexError, "out of bounds"),
    ],
    ids=str,
)
def test_what_cannot_be_written(key: Any, value: Any, error: type[Exception], text: str) -> None:
    for x in (counting(2, 2), counting(2, 2).requires_grad_() * 1):
        before = x.tolist()
        with pytest.raises(error, match=text):
            x[key] = value
        assert x.tolist() == before


@pytest.mark.parametrize(
    "write",
    [
        lambda x, v: x.__setitem__(0, v),
        lambda x, v: x.__setitem__(places(0), v),
        lambda x, v: x.masked_fill_(gradlib.tensor([True, False]), v),
        lambda x, v: x.index_fill_(0, places(0), v),
        lambda x, v: x.index_put_((places(0),), v),
        lambda x, v: x[:1].fill_(v),
    ],
)
@pytest.mark.parametrize(
    ("dtype", "value", "stored"),
    [("uint8", -1, 255), ("int64", 2.75, 2), ("uint8", 300, None), ("int8", -200, None), ("int64", np.nan, None), ("int8", 1e9, None)],
)
def test_numbers_that_integers_do_not_hold(write: Callable[[gradlib.Tensor, Any], Any], dtype: str, value: Any, stored: int | None) -> None:
    x = gradlib.ones(2, dtype=dtype)
    if stored is None:
        with pytest.raises(RuntimeError, match="without overflow"):
            write(x, value)
    else:
        write(x, value)
    assert x.tolist() == [1 if stored is None else stored, 1]


@pytest.mark.parametrize("key", [0, [0], np.array([True, False])])
def test_numbers_that_floats_do_not_hold(key: Any) -> None:
    """As in torch: infinite in half precision, where what is rounded to the largest number is that number; an error in others."""
    for dtype, value, stored in (
        ("float16", 1e6, np.inf),
        ("float16", -1e6, -np.inf),
        ("float16", 65519, 65504),
        ("bfloat16", 1e39, np.inf),
    ):
        x = gradlib.ones(2, dtype=dtype)
        x[key] = value
        assert x.tolist() == [stored, 1]
    for dtype in ("float32", "complex64"):
        x = gradlib.ones(2, dtype=dtype)
        with pytest.raises(RuntimeError, match="without overflow"):
            x[key] = 1e39
        x[key] = np.inf
        assert x.tolist() == [np.inf, 1]


def test_leading_dimensions_of_size_1_are_dropped() -> None:
    x = gradlib.zeros(2, 3)
    v = gradlib.ones(1, 1, 3).requires_grad_()
    x[0] = v
    x[[1]] = v
    (x * gradlib.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])).sum().backward()
    assert v.grad.tolist() == [[[5.0, 7.0, 9.0]]]


def test_an_expanded_tensor_is_not_written_whole() -> None:
    x = gradlib.zeros(1, 3).expand(2, 3)
    with pytest.raises(RuntimeError, match="clone"):
        x[:] = 1.0
    x[0] = 1.0
    assert x[1].tolist() == [1.0, 1.0, 1.0]


SHIFT = gradlib.tensor([0, 1, 2], device="cpu")


@pytest.mark.parametrize(
    ("write", "expected"),
    [
        (lambda x: x.__setitem__(slice(1, None), x[:-1]), [0, 0, 1, 2]),
        (lambda x: x.__setitem__(slice(None, -1), x[1:]), [1, 2, 3, 3]),
        (lambda x: x[:-1].copy_(x[1:]), [1, 2, 3, 3]),
        (lambda x: x[:-1].add_(x[1:]), [1, 3, 5, 3]),
        (lambda x: x.reshape((2, 2)).copy_(x.reshape((2, 2)).t()), [0, 2, 1, 3]),
        (lambda x: x.copy_(x), [0, 1, 2, 3]),
        (lambda x: x.__setitem__(SHIFT.to(x.device), x[1:]), [1, 2, 3, 3]),
        (lambda x: x.__setitem__(x < 3, x[1:]), [1, 2, 3, 3]),
        (lambda x: x.index_copy_(0, SHIFT.to(x.device), x[1:]), [1, 2, 3, 3]),
        (lambda x: x.index_add_(0, SHIFT.to(x.device), x[1:]), [1, 3, 5, 3]),
        (lambda x: x.scatter_(0, SHIFT.to(x.device), x[1:]), [1, 2, 3, 3]),
        (lambda x: x.scatter_add_(0, SHIFT.to(x.device), x[1:]), [1, 3, 5, 3]),
    ],
)
def test_overlapping_parts_are_read_before_they_are_written(write: Callable[[gradlib.Tensor], Any], expected: list[int]) -> None:
    """Also the receding horizon's shift of what is contiguous, which CuPy would copy from one end to the other as it comes."""
    for x in (gradlib.arange(4.0), gradlib.arange(4), gradlib.arange(4.0).requires_grad_() * 1):
        write(x)
        assert x.tolist() == expected
    x = gradlib.arange(4.0, requires_grad=True)
    with gradlib.no_grad():
        write(x)
    assert x.tolist() == expected


def test_out_that_overlaps_the_operands() -> None:
    x = gradlib.arange(4.0)
    gradlib.add(x[1:], 0, out=x[:-1])
    assert x.tolist() == [1, 2, 3, 3]
    gradlib.expand(x[1:], (3,), out=x[:-1])  # a view of what is written
    assert x.tolist() == [2, 3, 3, 3]


def test_index_arrays_that_are_what_is_written() -> None:
    x = gradlib.tensor([2, 0, 1])
    x[x] = gradlib.tensor([5, 6, 7])
    assert x.tolist() == [6, 7, 5]
    x = gradlib.tensor([2, 0, 1])
    x.index_add_(0, x, gradlib.tensor([10, 20, 30]))
    assert x.tolist() == [22, 30, 11]
    mask = gradlib.tensor([True, False])
    mask[mask] = False
    assert mask.tolist() == [False, False]


def test_one_element_where_a_mask_holds_takes_the_dtype_of_what_is_written() -> None:
    """As in torch, where this is ``masked_fill_``; several elements, and places by number, want one dtype."""
    mask = gradlib.tensor([True, False, True])
    for value in (gradlib.tensor([2.5]), gradlib.tensor(2.5, dtype="float64"), gradlib.tensor([[2]]), gradlib.tensor(True)):
        for dtype in ("int64", "float32", "bool"):
            x, want = gradlib.ones(3, dtype=dtype), gradlib.ones(3, dtype=dtype)
            x[mask] = value.cpu()
            want[mask] = value.to(dtype).to(want.device)
            assert x.dtype.name == dtype
            assert x.tolist() == want.tolist()
    x, leaf = gradlib.ones(2, 3), gradlib.tensor([2.0], dtype="float64", device="cpu", requires_grad=True)
    x[:, mask] = leaf
    x.sum().backward()
    assert leaf.grad.tolist() == [4.0]
    for key, value in ((mask, gradlib.ones(2, dtype="float64")), ([0, 2], gradlib.ones(1, dtype="float64")), (mask, gradlib.tensor(1j))):
        with pytest.raises(RuntimeError, match="needs one dtype"):
            gradlib.ones(3)[key] = value


def test_a_mask_of_the_host_behind_one_of_several_dimensions() -> None:
    x = counting(2, 3, 2)
    several, one = np.array([[False, True, False], [True, False, False]]), np.array([False, True])
    assert x[gradlib.tensor(several), one].tolist() == [3, 7]


def test_repeated_places_all_count_in_backward() -> None:
    x = gradlib.zeros(3, 2).requires_grad_()
    x[[0, 2, 0, 0]].sum().backward()
    assert x.grad.tolist() == [[3.0, 3.0], [0.0, 0.0], [1.0, 1.0]]


def test_gradients_at_places_of_a_mask_do_not_warn() -> None:
    x = gradlib.tensor([1.0, 0.0], requires_grad=True)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        x[x > 0].log().sum().backward()
    assert x.grad.tolist() == [1.0, 0.0]


@pytest.mark.parametrize("share", [0.5, 0.01])
def test_a_large_mask_picks_what_numpy_picks_and_is_written_alike(share: float) -> None:
    """Of a mask that changes often, places are taken in its stead."""
    rng = np.random.default_rng(0)
    array, mask = rng.standard_normal((60, 90)), rng.random((60, 90)) < share
    for layout in (lambda a: a, np.transpose):
        x, m = gradlib.tensor(layout(array.copy())), gradlib.tensor(layout(mask))
        np.testing.assert_array_equal(host(x[m]), layout(array)[layout(mask)])
        values, want = rng.standard_normal(np.count_nonzero(mask)), layout(array.copy())
        want[layout(mask)] = values
        np.testing.assert_array_equal(host(x.masked_scatter(m, gradlib.tensor(values))), want)
        x[m] = gradlib.tensor(values)
        np.testing.assert_array_equal(host(x), want)
        with pytest.raises(RuntimeError, match="shape mismatch"):
            x[m] = gradlib.ones(7, dtype="float64")
        np.testing.assert_array_equal(host(x), want)


@pytest.mark.parametrize("count", [2, 5000])
def test_indices_that_do_not_broadcast_are_refused_in_large_arrays_too(count: int) -> None:
    x, i, j = gradlib.zeros(300, 300), gradlib.zeros(count, dtype="int64"), gradlib.zeros(count + 1, dtype="int64")
    with pytest.raises(IndexError, match="shape mismatch"):
        x[i, j]
    with pytest.raises(IndexError, match="shape mismatch"):
        x[i, j] = 1.0
    assert x._version == 0
