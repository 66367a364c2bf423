"""The kernels for derivatives of decompositions of small matrices give what the formulas give on the CPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.backend import launching, slopes
from gradlib.core.op import REGISTRY
from tests.device import cupy, skip_module_without_cuda

skip_module_without_cuda()
pytestmark = [pytest.mark.cuda, pytest.mark.host]
L = gradlib.linalg
SQUARE = [(1, 1), (5, 5), (2, 1, 4, 4), (20, 20)]
ANY = [*SQUARE, (2, 6, 3), (3, 5), (40, 2)]
CASES: dict[str, tuple[Callable[..., Any], list[tuple[int, ...]]]] = {  # the value, and of which shapes
    "eigh": (lambda A: REGISTRY["eigh"].call(A + A.mH, "L"), SQUARE), "svd": (lambda A: REGISTRY["svd"].call(A, False), ANY),
    "svd, whole": (lambda A: REGISTRY["svd"].call(A, True), ANY), "qr": (REGISTRY["qr"].call, ANY),
    "cholesky": (lambda A: REGISTRY["cholesky"].call(A @ A.mH, False), SQUARE),
    "cholesky, upper": (lambda A: REGISTRY["cholesky"].call(A @ A.mH, True), SQUARE),
    "pinv": (lambda A: REGISTRY["pinv"].call(A, 0.0, 0.0, False), ANY),
    "lstsq": (lambda A: REGISTRY["lstsq"].call(A, right(A), 0.0, "gelsy", True, False), ANY),
    "inv": (REGISTRY["inv"].call, SQUARE),
}  # fmt: skip


def drawn(char: str, *shape: int, seed: int = 5) -> np.ndarray:
    """Far from singular, with singular values that differ."""
    draw = np.random.default_rng(seed)
    A = draw.normal(size=shape) + (1j * draw.normal(size=shape) if char in "FD" else 0)
    U, S, Vh = np.linalg.svd(A, full_matrices=False)
    return np.asarray((U * np.linspace(2, 1, S.shape[-1])) @ Vh, char)


def right(A: gradlib.Tensor) -> gradlib.Tensor:
    return gradlib.as_tensor(drawn(A.dtype.char, *A.shape[:-1], 2, seed=6))


def on_device(x: Any, ndim: int = 0) -> Any:
    """CuPy's arrays; matrices, which have so many dimensions, column by column."""
    if isinstance(x, tuple):
        return tuple(on_device(each, ndim) for each in x)
    if x is None:
        return None
    if not any(x.strides):  # one number
        return cupy.broadcast_to(cupy.asarray(x.flat[:1]), x.shape)
    return cupy.asarray(x) if x.ndim != ndim else cupy.asarray(x.swapaxes(-1, -2).copy()).swapaxes(-1, -2)


def gradients(parts: list[np.ndarray]) -> list[tuple[Any, ...]]:
    """Of all results, of each alone, and one number for all elements, as the gradient of a sum is."""
    every = tuple(np.asarray(drawn(x.dtype.char, *x.shape, 1, seed=7)[..., 0]) for x in parts)
    alone = [tuple(x if i == k else None for i, x in enumerate(every)) for k in range(len(every))]
    return [every, *(alone if len(every) > 1 else []), tuple(np.broadcast_to(x.flat[0], x.shape) for x in every)]


@pytest.mark.parametrize("char", "fdFD")
@pytest.mark.parametrize("name", CASES)
def test_gradients_are_those_of_the_formulas(name, char):
    value, shapes = CASES[name]
    op = REGISTRY[name.partition(",")[0]]
    served = 0
    for shape in shapes:
        A = gradlib.as_tensor(drawn(char, *shape))
        made = value(A)
        made = [x.numpy() for x in made] if isinstance(made, tuple) else [made.numpy()]
        given = {"A": A.numpy(), "B": right(A).numpy(), "upper": name.endswith("upper"), "vector": False}
        given |= dict(zip(op.outputs, made, strict=True))
        saved = [given[each] for each in op.rule_params["A"][1:]]
        for parts in gradients(made if name != "lstsq" else made[:1]):
            g = (*parts, None, None, None, None) if name == "lstsq" else parts if len(parts) > 1 else parts[0]
            for turned in (0, len(shape)):
                got = op.kernels["A"](on_device(g, turned), *(x if isinstance(x, bool) else on_device(x, turned) for x in saved))
                if char in "FD" and (name == "eigh" or name[:3] == "svd") and any(x is not None and x.dtype.char == char for x in parts):
                    assert got is None  # whether the loss depends on phases is asked elsewhere
                    continue
                expected = op.rules["A"](g, *saved)
                assert (got.shape, got.dtype) == (expected.shape, expected.dtype)
                bound = 1e3 * np.finfo(char).eps * (1 + np.abs(expected).max()) * shape[-1] ** 2
                np.testing.assert_allclose(got.get(), expected, 0, bound)
                served += 1
    assert served


SYSTEMS: dict[str, Callable[..., Any]] = {
    "solve": L.solve, "solve, right": lambda A, B: L.solve(A, B.mT, left=False), "solve, vectors": lambda A, B: L.solve(A, B[..., 0]),
    "upper": lambda A, B: L.solve_triangular(A, B, upper=True), "lower": lambda A, B: L.solve_triangular(A, B, upper=False),
    "ones": lambda A, B: L.solve_triangular(A, B, upper=True, unitriangular=True),
    "lower, ones": lambda A, B: L.solve_triangular(A, B, upper=False, unitriangular=True),
    "triangle, right": lambda A, B: L.solve_triangular(A, B.mT, upper=False, left=False),
    "slogdet": lambda A, B: L.slogdet(A).logabsdet, "slogdet, both": lambda A, B: L.slogdet(A).logabsdet + L.slogdet(A).sign.real,
}  # fmt: skip


@pytest.mark.parametrize("char", "fdFD")
@pytest.mark.parametrize("name", SYSTEMS)
@pytest.mark.parametrize("turned", [False, True])
def test_gradients_of_systems_are_those_of_the_host(name, char, turned):
    for shape in [*SQUARE, (40, 40)]:
        hosts, found = [drawn(char, *shape), drawn(char, *shape[:-1], 3, seed=6)], []
        for place in (np.asarray, lambda x: on_device(x, x.ndim if turned else 0)):
            A, B = (gradlib.as_tensor(place(each)).requires_grad_() for each in hosts)
            made = SYSTEMS[name](A, B)
            g = np.linspace(-1, 2, made.numel()).reshape(made.shape).astype(made.dtype)
            asked = [A] if "slogdet" in name else [A, B]
            slopes = gradlib.autograd.grad(made, asked, gradlib.as_tensor(g if place is np.asarray else cupy.asarray(g)))
            spread = gradlib.autograd.grad(SYSTEMS[name](A, B).real.sum(), asked)
            found.append([each.numpy(force=True) for each in (*slopes, *spread)])
        for host, device in zip(*found, strict=True):
            assert (device.shape, device.dtype) == (host.shape, host.dtype)
            np.testing.assert_allclose(device, host, 0, 1e3 * np.finfo(char).eps * (1 + np.abs(host).max()) * shape[-1] ** 2)


@pytest.mark.parametrize("name", SYSTEMS)
def test_second_derivatives_of_systems(name):
    for char in "dD":
        A, B = (gradlib.as_tensor(cupy.asarray(drawn(char, *shape))).requires_grad_() for shape in ((2, 3, 3), (2, 3, 2)))
        given = (A,) if "slogdet" in name else (A, B)
        assert gradlib.autograd.gradgradcheck(lambda *x, name=name, B=B: SYSTEMS[name](x[0], x[1] if len(x) > 1 else B.detach()), given)


@pytest.mark.parametrize("name", ["solve", "upper", "lower, ones", "slogdet"])
def test_a_gradient_of_a_system_is_one_launch(name, monkeypatch):
    A, B = (gradlib.as_tensor(drawn("d", *shape)).to("cuda").requires_grad_() for shape in ((4, 4), (4, 2)))
    made = SYSTEMS[name](A, B)
    g, launched, run = gradlib.ones_like(made), [], launching.Kernel.run
    monkeypatch.setattr(launching.Kernel, "run", lambda *given, **how: launched.append(given) or run(*given, **how))
    for each in ("matmul", "add", "subtract", "where", "tril", "triu", "multiply"):
        monkeypatch.setattr(cupy, each, None)
    gradlib.autograd.grad(made, [A] if name == "slogdet" else [A, B], g)
    assert len(launched) == 1


def test_a_triangle_that_is_singular_divides_as_the_formula():
    A = np.triu(np.ones((3, 3)))
    A[1, 1] = 0
    found = []
    for place in (np.asarray, cupy.asarray):
        a, b = gradlib.as_tensor(place(A.copy())).requires_grad_(), gradlib.as_tensor(place(np.ones((3, 1)))).requires_grad_()
        with np.errstate(all="ignore"):
            made = L.solve_triangular(a, b, upper=True)
            found.append([np.isfinite(x.numpy(force=True)) for x in gradlib.autograd.grad(made.sum(), [a, b])])
    for host, device in zip(*found, strict=True):
        np.testing.assert_array_equal(device, host)


@pytest.mark.parametrize(
    "function", [L.inv, L.qr, lambda A: L.svd(A, False), L.pinv, lambda A: L.lstsq(A, A)[0], lambda A: L.cholesky(A @ A.mT)]
)
def test_a_gradient_on_a_device_is_one_launch(function, monkeypatch):
    launched = []
    kernel = slopes._kernel
    monkeypatch.setattr(slopes, "_kernel", lambda *of: launched.append(of) or kernel(*of))
    for each in ("matmul", "add", "subtract", "where", "tril", "triu"):
        monkeypatch.setattr(cupy, each, None)
    A = gradlib.as_tensor(drawn("d", 4, 4)).to("cuda").requires_grad_()
    made = function(A)
    made = made if isinstance(made, tuple) else (made,)
    gradlib.autograd.grad(made, A, [gradlib.ones_like(x) for x in made])
    assert len(launched) == 1


def test_repeated_values_have_no_derivative_and_zeros_divide_as_in_the_formulas():
    one = np.eye(3)
    for op, saved in (("eigh", (np.ones(3), one)), ("svd", (one, np.ones(3), one)), ("qr", (one, np.zeros((3, 3))))):
        parts = tuple(np.full_like(x, 0.5) + np.arange(3) for x in saved)
        with np.errstate(all="ignore"):
            expected = REGISTRY[op].rules["A"](parts, *saved)
        got = REGISTRY[op].kernels["A"](on_device(parts), *map(on_device, saved)).get()
        assert np.array_equal(np.isfinite(got), np.isfinite(expected))
        assert not np.isfinite(got).all()


def test_what_the_kernels_do_not_serve_is_left_to_the_formulas():
    x = cupy.ones((33, 33))
    assert slopes.qr_slope((x, x), x, x) is None
    assert slopes.cholesky_slope(x, x) is None
    small = cupy.ones((2, 3, 3))
    assert slopes.cholesky_slope(small.astype("f"), small) is None
    assert slopes.cholesky_slope(small[:0], small[:0]) is None
    apart = cupy.ones((2, 2, 3, 6, 3))[:, :, :, ::2].transpose(1, 0, 2, 3, 4)  # whose matrices lie in no one step
    assert slopes.cholesky_slope(apart, cupy.ones(apart.shape)) is None
    long = cupy.ones((128, 32), "D")
    assert slopes.qr_slope((long, None), long, cupy.ones((32, 32), "D")) is None  # more than a block's memory
    host = gradlib.as_tensor(drawn("d", 2, 3, 36, 36))
    results = []
    for device in ("cpu", "cuda"):
        A = host.to(device).requires_grad_()
        results.append(gradlib.autograd.grad(L.pinv(A).sum(), A)[0].cpu().numpy())
    np.testing.assert_allclose(*results, 1e-8, 1e-8)
