"""NumPy's functions that write into their first argument: in place, with the derivative; and what ``gradlib.numpy`` alone serves."""

from __future__ import annotations

import numpy as np
import pytest

import gradlib
import gradlib.numpy as gnp
from tests.values import host, peak_bytes

WRITERS = {
    "put_along_axis": lambda np, a, v: np.put_along_axis(a, np.array([[1], [0], [3]]), v.reshape(3, 1), 1),
    "put": lambda np, a, v: np.put(a, [0, 5, -1], v),
    "place": lambda np, a, v: np.place(a, host(a) > 0, v),
    "putmask": lambda np, a, v: np.putmask(a, host(a) > 0, v),
    "copyto": lambda np, a, v: np.copyto(a, v.reshape(3, 1), where=host(a) > 0),
    "fill_diagonal": lambda np, a, v: np.fill_diagonal(a, v),
    "add.at": lambda np, a, v: np.add.at(a, ([0, 0, 2], [1, 1, 3]), v),
    "subtract.at": lambda np, a, v: np.subtract.at(a, [2, 0, 2], v.reshape(3, 1)),
    "multiply.at": lambda np, a, v: np.multiply.at(a, ([0, 1, 2], [1, 1, 3]), v),
    "negative.at": lambda np, a, v: np.negative.at(a, [1]),
    "add out": lambda np, a, v: np.add(v.reshape(3, 1), 1.0, out=a[:, :1]),
    "sum out": lambda np, a, v: np.sum(v, axis=0, out=a[0, 0]) if hasattr(a, "backward") else a.__setitem__((0, 0), v.sum()),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_function_writes_as_numpys_and_carries_the_derivative(name, rng, device):
    values, given = rng.normal(size=(3, 4)), rng.normal(size=3)
    want = values.copy()
    WRITERS[name](np, want, given)
    leaf, v = gradlib.tensor(values, requires_grad=True), gradlib.tensor(given, requires_grad=True)
    written = leaf.clone()
    WRITERS[name](np, written, v)
    np.testing.assert_allclose(host(written), want)
    weights = rng.normal(size=(3, 4))
    (written * gradlib.tensor(weights)).sum().backward()
    for place in np.ndindex(3):
        shifted, step = want.copy(), 1e-6
        moved = given.copy()
        moved[place] += step
        shifted = values.copy()
        WRITERS[name](np, shifted, moved)
        slope = ((shifted - want) * weights).sum() / step
        assert (0.0 if v.grad is None else v.grad[place].item()) == pytest.approx(slope, abs=1e-5)


def test_an_array_does_not_take_what_has_a_derivative():
    x = gradlib.ones(2, requires_grad=True)
    for write in (lambda a: np.add.at(a, [0, 1], x), lambda a: np.copyto(a, x), lambda a: np.put(a, [0, 1], x)):
        with pytest.raises(TypeError, match="must be a Tensor"):
            write(np.zeros(2))


def test_a_ufunc_at_places_named_twice_is_refused_where_their_order_matters():
    with pytest.raises(TypeError, match=r"numpy\.add\.at"):
        np.multiply.at(gradlib.ones(3), [0, 0], 2.0)


@pytest.mark.host
@pytest.mark.parametrize(
    "call",
    [
        lambda x: np.reshape(x, (1000, -1)), np.transpose, lambda x: np.split(x, 2), lambda x: np.broadcast_to(x, (3, *x.shape)),
        lambda x: np.diagonal(x.reshape(1000, 1000)), gnp.asarray, lambda x: np.swapaxes(x.reshape(1000, 1000), 0, 1), np.ravel,
        lambda x: np.expand_dims(x, 0), lambda x: np.moveaxis(x.reshape(10, 100, 1000), 0, 2),
    ],
)  # fmt: skip
def test_a_view_of_a_large_tensor_copies_nothing(call):
    x = gradlib.ones(1_000_000, dtype=gradlib.float64, requires_grad=True)
    call(x)
    assert peak_bytes(lambda: call(x)) < 100_000


@pytest.mark.host
@pytest.mark.parametrize(
    ("call", "operation"),
    [
        (lambda x, a: np.sin(x), lambda x, a: gradlib.sin(x)), (lambda x, a: np.add(x, a), gradlib.add), (lambda x, a: a * x, gradlib.mul),
        (lambda x, a: np.sum(x), lambda x, a: gradlib.sum(x)), (lambda x, a: np.mean(x), lambda x, a: gradlib.mean(x)),
        (lambda x, a: np.concatenate([x, x]), lambda x, a: gradlib.cat([x, x])), (lambda x, a: np.maximum(x, a), gradlib.maximum),
        (lambda x, a: np.cumsum(x), lambda x, a: gradlib.cumsum(x, 0)), (lambda x, a: np.clip(x, 0.0, 0.5), lambda x, a: x.clamp(0.0, 0.5)),
        (lambda x, a: np.stack([x, x]), lambda x, a: gradlib.stack([x, x])), (lambda x, a: np.sort(x), lambda x, a: x.sort(stable=True)),
    ],
)  # fmt: skip
def test_a_function_of_a_large_tensor_takes_no_more_memory_than_the_operation(call, operation):
    x, array = gradlib.ones(1_000_000, dtype=gradlib.float64, requires_grad=True), np.ones(1_000_000)
    call(x, array)
    assert peak_bytes(lambda: call(x, array)) < peak_bytes(lambda: operation(x, array)) + 10_000


def test_the_module_makes_arrays_of_what_has_tensors_in_it(device):
    x = gradlib.tensor(2.0, dtype=gradlib.float64, requires_grad=True)
    for made in (
        gnp.array([[x, 1.0], [0.0, x * x]]), gnp.asarray([x, 3]), gnp.full((2, 2), x), gnp.array((x, x), ndmin=2),
        gnp.ascontiguousarray([x, 1.0]), gnp.asarray_chkfinite([x]), gnp.asanyarray([[x]]), gnp.asfortranarray([x, x]),
    ):  # fmt: skip
        assert isinstance(made, gradlib.Tensor)
        assert made.requires_grad
        assert made.dtype == np.float64
        assert made.device.type == device
    with pytest.raises(ValueError, match="infs or NaNs"):
        gnp.asarray_chkfinite([x, np.inf])


def test_a_ragged_list_of_tensors_is_refused():
    with pytest.raises(ValueError, match="one shape"):
        gnp.array([gradlib.ones(2), gradlib.ones(3)])


def test_text_of_a_tensor_is_its_values():
    x = gradlib.tensor([1.0, 2.0], requires_grad=True)
    assert np.array_str(x) == np.array2string(x) == "[1. 2.]"
    assert np.array_repr(x) == repr(x)


def test_a_function_on_rows_of_vmap_and_in_forward_mode_is_that_of_its_operations():
    from gradlib.func import jvp, vmap

    x = gradlib.tensor([[1.0, 2.0], [3.0, 5.0]])
    assert host(vmap(lambda row: np.sum(np.sin(row) * row))(x)) == pytest.approx((np.sin(host(x)) * host(x)).sum(1), rel=1e-6)
    _, tangent = jvp(lambda v: np.linalg.norm(np.concatenate([v, v])), (x[0],), (gradlib.tensor([1.0, 0.0]),))
    assert tangent.item() == pytest.approx(2.0 / np.sqrt(10.0), rel=1e-6)
