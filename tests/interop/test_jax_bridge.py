"""Functions of gradlib in JAX, and of JAX in gradlib; memory shared with JAX. Skipped where JAX is not installed."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np
import pytest

import gradlib
from gradlib.interop import from_jax, jax_function

jax = pytest.importorskip("jax")
jnp = jax.numpy
pytestmark = pytest.mark.host


@pytest.fixture(autouse=True)
def float64() -> Iterator[None]:
    with jax.enable_x64(True):
        yield


@pytest.fixture
def x(rng: np.random.Generator) -> jax.Array:
    return jnp.array(rng.standard_normal((3, 4)))


product = jax_function(lambda x, y: (x.sin() * y).sum(-1))


def test_derivatives_of_three_orders_in_jax(x: jax.Array) -> None:
    from jax.test_util import check_grads

    check_grads(product, (x, x[0]), order=3, modes=["rev"])


def test_under_jit_and_vmap(x: jax.Array) -> None:
    y = x[0]
    slope = jax.jit(jax.grad(lambda x, y: product(x, y).sum()))
    np.testing.assert_allclose(slope(x, y), jnp.cos(x) * y)
    np.testing.assert_allclose(jax.vmap(product, (0, None))(x, y), product(x, y))
    np.testing.assert_allclose(jax.vmap(jax.grad(product), (0, None))(x, y), jnp.cos(x) * y)
    at_once = jax_function(lambda x: x.sin(), vmap_method="expand_dims")
    np.testing.assert_allclose(jax.vmap(at_once)(x), jnp.sin(x))


def test_complex_gradients_are_in_jaxs_convention() -> None:
    z = jnp.array([1 + 2j, 3 - 1j])
    ours = jax.grad(jax_function(lambda z: (z * z * (1 + 2j)).real.sum()))(z)
    np.testing.assert_allclose(ours, jax.grad(lambda z: (z * z * (1 + 2j)).real.sum())(z))


def test_nests_integers_and_what_is_no_array(x: jax.Array) -> None:
    function = jax_function(lambda d, i, n: {"a": d["a"][i] * n, "n": d["a"].argmax()})
    found = jax.grad(lambda y: function({"a": y}, jnp.array([0, 2]), 3)["a"].sum())(x[0])
    assert found.tolist() == [3, 0, 3, 0]
    assert function({"a": x[0]}, jnp.array([0]), 1)["n"] == jnp.argmax(x[0])
    assert jax.grad(lambda y: jax_function(lambda y: gradlib.zeros(3, dtype=y.dtype))(y).sum())(x[0]).tolist() == [0] * 4


def test_errors_of_the_function_come_through(x: jax.Array) -> None:
    def function(x: gradlib.Tensor) -> gradlib.Tensor:
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        jax_function(function)(x)
    with pytest.raises(TypeError, match="returns tensors, got float"):
        jax_function(lambda x: 1.0)(x)
    with pytest.raises(TypeError, match="returns arrays, got float"):
        from_jax(lambda x: 1.0)(gradlib.ones(2))


def test_derivatives_of_both_orders_in_gradlib() -> None:
    operation = from_jax(lambda x, y: (jnp.sin(x) * y).sum(-1))
    x = gradlib.randn(3, 4, dtype=gradlib.float64).requires_grad_()
    y = gradlib.randn(4, dtype=gradlib.float64).requires_grad_()
    assert gradlib.autograd.gradcheck(operation, (x, y))
    assert gradlib.autograd.gradgradcheck(operation, (x, y))
    z = gradlib.tensor([1 + 2j, 3 - 1j], dtype=gradlib.complex128, requires_grad=True)
    assert gradlib.autograd.gradcheck(from_jax(lambda z: z * z * (1 + 2j)), (z,))
    assert gradlib.autograd.gradgradcheck(from_jax(lambda z: z * z * (1 + 2j)), (z,))
    assert gradlib.autograd.gradcheck(from_jax(jnp.abs), (z,))


def test_forward_mode_and_rows_in_gradlib() -> None:
    operation = from_jax(lambda x, i: (jnp.sin(x) * x[i].sum(), i))
    ours = lambda x, i: (x.sin() * x[i].sum()).sum()  # noqa: E731
    theirs = lambda x, i: operation(x, i)[0].sum()  # noqa: E731
    x, i = gradlib.randn(3, 4, dtype=gradlib.float64), gradlib.tensor([2, 0])
    assert gradlib.autograd.gradcheck(theirs, (x.clone().requires_grad_(), i), check_forward_ad=True)
    for transform in (gradlib.func.hessian, lambda f: gradlib.func.jacrev(gradlib.func.jacfwd(f))):
        np.testing.assert_allclose(transform(theirs)(x[0], i).numpy(), transform(ours)(x[0], i).numpy(), rtol=1e-12, atol=1e-12)
    made, given = gradlib.func.vmap(operation, (1, None))(x, i)
    np.testing.assert_allclose(made.numpy(), (x.sin() * x[i].sum(0)).T.numpy())
    assert given.tolist() == [[2, 0]] * 4


def test_what_jax_cannot_read_is_copied() -> None:
    gaps = gradlib.arange(12.0).reshape(3, 4)[:, ::2]
    assert from_jax(lambda x: x + 1)(gaps).tolist() == (gaps + 1).tolist()
    constant = np.ones(2)
    constant.flags.writeable = False
    assert from_jax(lambda x: x + 1)(gradlib.from_numpy(constant)).tolist() == [2, 2]
    backwards = gradlib.from_numpy(np.arange(3.0)[::-1])
    assert from_jax(lambda x: x + 1)(backwards).tolist() == [3, 2, 1]


DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "bfloat16", "complex64", "complex128"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_memory_is_shared_in_both_directions(dtype: str) -> None:
    room = np.zeros(64 + 64 * 16, np.uint8)  # JAX shares what begins at a multiple of 64 bytes, and copies the rest
    start = -room.ctypes.data % 64
    of_dtype = gradlib.from_numpy(room[start : start + 64]).view(getattr(gradlib, dtype))
    theirs = jnp.from_dlpack(of_dtype)
    assert theirs.dtype.name == dtype
    assert theirs.unsafe_buffer_pointer() == of_dtype.data_ptr()
    ours = gradlib.from_dlpack(theirs)
    assert (ours.dtype, ours.data_ptr()) == (of_dtype.dtype, of_dtype.data_ptr())
    with pytest.raises(ValueError, match="read-only"):
        ours.fill_(1)


def test_a_tensor_that_requires_a_gradient_is_refused() -> None:
    with pytest.raises(BufferError, match="require gradient"):
        jnp.from_dlpack(gradlib.ones(2, requires_grad=True))
