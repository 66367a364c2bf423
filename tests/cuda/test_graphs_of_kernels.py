"""What CuPy refuses within a capture and gradlib has kernels for: random numbers, eager and captured alike, and products of matrices."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib import cuda
from gradlib.core import random as core_random
from gradlib.cuda import philox, products
from gradlib.nn.functional import dropout
from gradlib.ops.random_fill import below_half
from gradlib.utils.checkpoint import checkpoint
from tests import shim
from tests.device import cupy, skip_module_without_cuda

skip_module_without_cuda()

pytestmark = pytest.mark.cuda


# ---- random numbers -------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("seed", "block", "draw", "words"),  # those of Random123's own tests
    [
        (0, 0, 0, (0x6627E8D5, 0xE169C58D, 0xBC57AC4C, 0x9B00DBD8)),
        (0x299F31D0_A4093822, 0x85A308D3_243F6A88, 0x03707344_13198A2E, (0xD16CFE09, 0x94FDCCEB, 0x5001E420, 0x24126EA1)),
    ],
)
def test_the_bits_are_those_of_philox(seed: int, block: int, draw: int, words: tuple[int, ...]) -> None:
    made = of_python(seed, block, draw)
    assert made == words
    if block == 0:
        bits = philox.draw("bits", cupy.empty(5, np.int64), None, seed, draw).get().view(np.uint32)
        assert tuple(bits[:4]) == words
        assert tuple(bits[4:8]) == of_python(seed, 1, draw)


def of_python(seed: int, block: int, draw: int) -> tuple[int, ...]:
    """Philox4x32-10 in Python's integers."""
    low = 0xFFFFFFFF
    c = [block & low, block >> 32, draw & low, draw >> 32]
    keys = [seed & low, seed >> 32]
    for _ in range(10):
        a, b = 0xD2511F53 * c[0], 0xCD9E8D57 * c[2]
        c = [(b >> 32) ^ c[1] ^ keys[0], b & low, (a >> 32) ^ c[3] ^ keys[1], a & low]
        keys = [(keys[0] + 0x9E3779B9) & low, (keys[1] + 0xBB67AE85) & low]
    return tuple(c)


@pytest.mark.parametrize("kind", list(philox.KINDS))
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_a_kernel_draws_the_same_on_threads_of_the_host(kind: str, dtype: str) -> None:
    out = np.zeros(301, {"bits": np.int64, "places": np.int64, "race": np.float64}.get(kind, dtype))
    weights = np.linspace(0, 1, 301).astype(dtype) if philox.KINDS[kind].reads else None
    numbers = (301, 301) if kind == "places" else ()
    shim.execute(philox.draw_call(kind, out, np.array([1 << 40, 5]), 0, 2, numbers, weights))
    given = None if weights is None else cupy.asarray(weights)
    drawn = philox.draw(kind, cupy.asarray(out), None, 1 << 40, 7, numbers, given).get()
    np.testing.assert_allclose(out, drawn, rtol=2e-6 if dtype == "float32" else 1e-13)


FLOATS = [gradlib.float32, gradlib.float64, gradlib.float16, gradlib.bfloat16]


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("shape", [(5, 7), (1,), (), (0, 3), (301,)])
def test_numbers_of_one_launch_are_those_of_single_operations(dtype: Any, shape: tuple[int, ...]) -> None:
    """Each is drawn by a kernel of its own, and again as plain numbers of which CuPy's functions make the same."""
    single = gradlib.float32 if dtype.itemsize == 2 else dtype

    def drawn(function: Any) -> Any:
        gradlib.manual_seed(11)
        made = function()
        return made._array if isinstance(made, gradlib.Tensor) else made

    def filled(name: str, *numbers: float) -> Any:
        return drawn(lambda: getattr(gradlib.zeros(shape, dtype=dtype, device="cuda"), name)(*numbers))

    def plain(of: Any = single) -> Any:
        return drawn(lambda: gradlib.rand(shape, dtype=of, device="cuda"))

    normal, chances = drawn(lambda: gradlib.randn(shape, dtype=dtype, device="cuda")), plain(gradlib.float64).astype(dtype)
    of, to = dtype.type, 2.25 if dtype == single else below_half(-1.5, 2.25, dtype)
    expected = {
        "uniform_": (filled("uniform_", -1.5, 2.25), (plain() * single.type(to + 1.5) + single.type(-1.5)).astype(dtype)),
        "normal_": (filled("normal_", 0.3, 1.7), normal * of(1.7) + of(0.3)),
        "normal": (drawn(lambda: gradlib.normal(0.3, 1.7, shape, dtype=dtype, device="cuda")), normal * of(1.7) + of(0.3)),
        "exponential_": (filled("exponential_", 2.5), (-cupy.log1p(-plain()) / single.type(2.5)).astype(dtype)),
        "log_normal_": (filled("log_normal_", 0.3, 0.7), cupy.exp(normal * of(0.7) + of(0.3))),
        "geometric_": (
            filled("geometric_", 0.3), cupy.maximum(cupy.ceil(cupy.log1p(-plain(gradlib.float64)) / math.log1p(-0.3)), 1).astype(dtype)
        ),
        "bernoulli_": (filled("bernoulli_", 0.3), (plain(gradlib.float64) < 0.3).astype(dtype)),
        "bernoulli": (
            drawn(lambda: gradlib.bernoulli(gradlib.as_tensor(chances))), (plain(gradlib.float64) < chances.astype("d")).astype(dtype)
        ),
        "dropout": (
            drawn(lambda: dropout(gradlib.ones(shape, dtype=dtype, device="cuda"), 0.3)), (plain(gradlib.float32) >= 0.3) * of(1 / 0.7)
        ),
    }  # fmt: skip
    for name, (made, wanted) in expected.items():
        assert made.dtype == dtype, name
        np.testing.assert_array_equal(made.get().astype("d"), wanted.get().astype("d"), name)
    made, wanted = filled("cauchy_", 0.3, 1.7), cupy.tan(math.pi * (plain().astype("d") - 0.5)) * 1.7 + 0.3
    away, eps = cupy.absolute(made.astype("d") - wanted), float(gradlib.finfo(dtype).eps)
    assert (away <= 16 * eps * (1 + wanted**2)).all()  # as far as a rounded angle moves its tangent


@pytest.mark.parametrize("replacement", [False, True])
@pytest.mark.parametrize(("rows", "columns"), [(1, 3), (4, 200), (3, 300)])
def test_positions_of_kernels_are_those_of_cupy(rows: int, columns: int, replacement: bool) -> None:
    weights = (gradlib.arange(rows * columns, device="cuda") % 5).reshape(rows, columns).float()
    weights[:, 1] = 1.0
    gradlib.manual_seed(3)
    made = weights.multinomial(2, replacement)._array.get()
    gradlib.manual_seed(3)
    w = weights._array.get().astype("d")
    uniform = gradlib.rand(rows, 2 if replacement else columns, dtype=gradlib.float64, device="cuda")._array.get()
    if replacement:
        rising = w.cumsum(-1) / w.sum(-1, keepdims=True)
        expected = [np.searchsorted(line, numbers, side="right") for line, numbers in zip(rising, uniform, strict=True)]
    else:
        with np.errstate(divide="ignore"):
            expected = (-np.log1p(-uniform) / w).argsort(-1)[:, :2]  # type: ignore[assignment]
    np.testing.assert_array_equal(made, expected)


def test_a_number_of_chance_0_is_never_drawn_where_the_sum_is_rounded() -> None:
    weights = gradlib.tensor([[1.0, 0.0]] * 3, device="cuda")
    assert not weights.multinomial(4000, True).any()


def test_numbers_are_drawn_into_memory_only_where_that_is_all_there_is_to_do() -> None:
    x = gradlib.zeros(4, 6, device="cuda")
    base, version = x.clone(), x._version
    gradlib.manual_seed(5)
    x.uniform_()
    assert x._version == version + 1
    gradlib.manual_seed(5)
    base[:, ::2].uniform_()  # which has gaps
    assert base[:, 1::2].count_nonzero() == 0
    assert base[:, ::2].reshape(-1).tolist() == x.reshape(-1)[:12].tolist()
    leaf = gradlib.zeros(3, device="cuda", requires_grad=True)
    made = (leaf * 1).normal_()
    made.sum().backward()
    assert leaf.grad.tolist() == [0, 0, 0]  # type: ignore[union-attr]
    with pytest.raises(RuntimeError, match="leaf"):
        leaf.normal_()
    with gradlib.no_grad():
        leaf.normal_()
    assert leaf.count_nonzero() == 3


@pytest.mark.parametrize("dtype", [gradlib.float32, gradlib.float64, gradlib.float16])
def test_draws_have_the_moments_of_their_distribution(dtype: Any) -> None:
    generator = gradlib.Generator("cuda").manual_seed(3)
    u = gradlib.rand(20_000, device="cuda", dtype=dtype, generator=generator).double()
    n = gradlib.randn(20_000, device="cuda", dtype=dtype, generator=generator).double()
    assert (u.min() >= 0, u.max() < 1) == (True, True)
    np.testing.assert_allclose([u.mean().item(), u.var().item()], [1 / 2, 1 / 12], atol=0.01)
    np.testing.assert_allclose([n.mean().item(), n.var().item(), (n**4).mean().item() / 3], [0, 1, 1], atol=0.05)
    assert abs((u[1:] * u[:-1]).mean().item() - 0.25) < 0.01


def test_each_replay_draws_new_numbers_which_are_those_of_the_eager_run() -> None:
    own, kept = gradlib.Generator("cuda"), gradlib.zeros(4, device="cuda")

    def draw() -> list[gradlib.Tensor]:
        x = gradlib.randn(5, device="cuda")
        made = [x * 2, gradlib.rand(3, device="cuda", generator=own), gradlib.randint(0, 10, (4,), device="cuda"), x.bernoulli(0.5)]
        made += [gradlib.rand(6, device="cuda", dtype=gradlib.float16), gradlib.randperm(7, device="cuda"), dropout(x)]
        made += [x.abs().multinomial(3), x.abs().multinomial(3, True), x.sigmoid().bernoulli(), kept.uniform_(-1, 1).clone()]
        made += [kept.normal_(1, 2).clone(), kept.exponential_(generator=own).clone(), kept.bernoulli_(0.3).clone()]
        return [*made, kept.cauchy_().clone()]

    draw()
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        captured = draw()

    def start() -> None:
        cuda.manual_seed(11)
        own.manual_seed((1 << 63) + 5)

    start()
    eager = [draw() for _ in range(3)]
    start()
    for expected in (eager[0], eager[1]):
        g.replay()
        assert all(gradlib.equal(a, b) for a, b in zip(captured, expected, strict=True))
    assert all(gradlib.equal(a, b) for a, b in zip(draw(), eager[2], strict=True))  # and the eager run goes on behind them
    assert not gradlib.equal(eager[0][0], eager[1][0])


def test_a_capture_that_fails_has_drawn_nothing() -> None:
    cuda.manual_seed(5)
    before = cuda.get_rng_state()
    with pytest.raises(RuntimeError, match=r"^item cannot"), cuda.graph(cuda.CUDAGraph()):
        gradlib.randn(3, device="cuda").sum().item()
    assert gradlib.equal(before, cuda.get_rng_state())


def test_what_is_drawn_again_within_a_capture_is_the_same() -> None:
    x = gradlib.ones(2, 8, device="cuda", requires_grad=True)

    def run() -> tuple[gradlib.Tensor, ...]:
        y = checkpoint(lambda x: dropout(x * 2).square(), x, use_reentrant=False)
        rows = gradlib.func.vmap(lambda row: row + gradlib.rand(8, device="cuda"), randomness="same")(x.detach())
        return y.detach(), *gradlib.autograd.grad(y.sum(), [x]), rows, gradlib.rand(2, device="cuda")

    run()
    cuda.manual_seed(3)
    eager = [run() for _ in range(2)]
    cuda.manual_seed(3)
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        captured = run()
    for expected in eager:
        g.replay()
        assert all(gradlib.equal(a, b) for a, b in zip(captured, expected, strict=True))


def test_the_first_draw_on_a_device_may_be_within_a_capture(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(core_random, "_defaults", {})
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        x = gradlib.rand(3, device="cuda")
    cuda.manual_seed(3)
    g.replay()
    cuda.manual_seed(3)
    assert gradlib.equal(x, gradlib.rand(3, device="cuda"))


def test_a_capture_sets_no_random_stream() -> None:
    cuda.manual_seed(5)
    state = cuda.get_rng_state()
    for name, call in (("manual_seed", lambda: gradlib.manual_seed(3)), ("set_rng_state", lambda: cuda.set_rng_state(state))):
        with pytest.raises(RuntimeError, match=f"^{name} cannot be captured.*seed before a replay"), cuda.graph(cuda.CUDAGraph()):
            call()
        assert gradlib.equal(state, cuda.get_rng_state())
    with cuda.graph(cuda.CUDAGraph()):
        gradlib.rand(2, device="cuda")
        within = cuda.get_rng_state()
    with pytest.raises(RuntimeError, match="to a place within one, which only a replay of it knows"):
        cuda.set_rng_state(within)


# ---- products -------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("left", "right"),
    [
        ((3, 4), (4, 5)), ((17, 33), (33, 40)), ((6, 3, 4), (6, 4, 2)), ((6, 3, 4), (4, 2)), ((2, 1, 3, 4), (5, 4, 2)), ((4,), (4, 3)),
        ((3, 4), (4,)), ((4,), (4,)), ((0, 4), (4, 2)), ((3, 0), (0, 2)),
    ],
)  # fmt: skip
def test_a_captured_product_and_its_gradients(left: tuple[int, ...], right: tuple[int, ...]) -> None:
    a, b = (gradlib.randn(*shape, device="cuda", dtype=gradlib.float64).requires_grad_() for shape in (left, right))
    expected = a @ b
    expected.sum().backward()
    gradients = a.grad, b.grad
    a.grad = b.grad = None
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        made = a @ b
        made.sum().backward()
    g.replay()
    assert made.shape == expected.shape
    for x, y in ((made, expected), (a.grad, gradients[0]), (b.grad, gradients[1])):
        np.testing.assert_allclose(x.detach().cpu().numpy(), y.detach().cpu().numpy(), rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_a_captured_product_of_complex_matrices(dtype: str) -> None:
    a, b = (gradlib.randn(*shape, device="cuda", dtype=getattr(gradlib, dtype)).requires_grad_() for shape in ((2, 3, 4), (4, 5)))
    outside = a @ b
    expected = (outside, *gradlib.autograd.grad(outside.abs().sum(), (a, b)))
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        within = a @ b
        made = (within, *gradlib.autograd.grad(within.abs().sum(), (a, b)))
    g.replay()
    for x, y in zip(made, expected, strict=True):
        assert x.dtype == y.dtype
        np.testing.assert_allclose(x.detach().cpu().numpy(), y.detach().cpu().numpy(), rtol=1e-5 if dtype == "complex64" else 1e-12)


@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_products_of_each_dtype_sum_in_order_and_transposes_are_read(dtype: str) -> None:
    kind = getattr(gradlib, dtype)
    a, b = gradlib.randn(9, 20, device="cuda").to(kind), gradlib.randn(30, 20, device="cuda").to(kind)
    made = gradlib.as_tensor(products.product(a._array, b._array.T))
    expected = (a.double() @ b.double().mT).cpu().numpy()
    np.testing.assert_allclose(made.double().cpu().numpy(), expected, rtol=0, atol={"float32": 1e-5, "float16": 2e-2}.get(dtype, 1e-1))


def test_the_kernel_has_no_race_between_its_tiles() -> None:
    rng = np.random.default_rng(0)
    a, c = rng.standard_normal((2, 18, 35)), rng.standard_normal((1, 35, 20))
    out = np.zeros((2, 18, 20))
    shim.execute(products.product_call(a, c, out))
    np.testing.assert_allclose(out, a @ c, rtol=1e-12, atol=1e-12)


def test_a_network_trains_within_a_graph() -> None:
    w1, w2 = gradlib.randn(8, 16, device="cuda", requires_grad=True), gradlib.randn(16, 1, device="cuda", requires_grad=True)
    optimizer = gradlib.optim.Adam([w1, w2], lr=0.05, capturable=True)
    optimizer._warned_capturable_if_run_uncaptured = True

    def step() -> gradlib.Tensor:
        optimizer.zero_grad()
        x = gradlib.randn(32, 8, device="cuda")
        loss = ((x @ w1).tanh() @ w2 - x[:, :1]).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    first = step().item()
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        loss = step()
    for _ in range(60):
        g.replay()
    assert loss.item() < first / 4


@pytest.mark.parametrize("name", ["inv", "eigvalsh", "svdvals", "solve"])
def test_gradients_of_small_decompositions_are_captured(name: str) -> None:
    x = (gradlib.randn(2, 3, 3, device="cuda") + 3 * gradlib.eye(3, device="cuda")).requires_grad_()
    more = [gradlib.ones(2, 3, 2, device="cuda")] if name == "solve" else []

    def slope() -> gradlib.Tensor:
        return gradlib.autograd.grad(getattr(gradlib.linalg, name)(x, *more).square().sum(), x)[0]

    g = cuda.CUDAGraph()
    with cuda.graph(g):
        captured = slope()
    g.replay()
    np.testing.assert_allclose(captured.cpu().numpy(), slope().cpu().numpy(), rtol=1e-4, atol=1e-4)
