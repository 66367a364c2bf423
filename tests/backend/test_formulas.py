"""The kernels of whole formulas give what the host gives, also their derivatives, and leave to the declared formula the rest."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.backend import formulas, pointwise
from gradlib.backend.dtype import as_dtype
from gradlib.backend.formulas import formula
from gradlib.backend.kernel_text import spans_of
from gradlib.nn import functional
from tests.device import cupy, skip_module_without_cuda

skip_module_without_cuda()
pytestmark = [pytest.mark.cuda, pytest.mark.host]
DTYPES = ["float16", "bfloat16", "float32", "float64"]
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.5, -2.25, 1e-30]

CASES: dict[str, Callable[..., Any]] = {
    "addcdiv": lambda x, y, w: gradlib.addcdiv(x, y, w, value=0.3), "addcmul": lambda x, y, w: gradlib.addcmul(x, y, w, value=-2),
    "add, alpha": lambda x, y, w: gradlib.add(x, y, alpha=-3), "sub, alpha": lambda x, y, w: gradlib.sub(x, y, alpha=0),
    "rsub, alpha": lambda x, y, w: gradlib.rsub(x, y, alpha=0.7),
    "clamp": lambda x, y, w: x.clamp(-0.7, 1),
    "cross_entropy": lambda x, y, w: functional.binary_cross_entropy_with_logits(x, y, reduction="none"),
    "cross_entropy, weights": lambda x, y, w: functional.binary_cross_entropy_with_logits(x, y, reduction="none", pos_weight=w.detach()),
    "smooth": lambda x, y, w: functional.smooth_l1_loss(x, y, reduction="none", beta=0.7),
    "huber": lambda x, y, w: functional.huber_loss(x, y, reduction="none", delta=1.3),
    "elu": lambda x, y, w: functional.elu(x, 1.5), "erf": lambda x, y, w: x.erf(), "frac": lambda x, y, w: x.frac(),
    "gelu": lambda x, y, w: functional.gelu(x), "gelu, tanh": lambda x, y, w: functional.gelu(x, "tanh"),
    "leaky_relu": lambda x, y, w: functional.leaky_relu(x, 0.1), "lerp": lambda x, y, w: x.lerp(y, w),
    "lerp, number": lambda x, y, w: x.lerp(y, 0.75), "logsigmoid": lambda x, y, w: functional.logsigmoid(x),
    "nan_to_num": lambda x, y, w: x.nan_to_num(0.5, 7, -8), "relu": lambda x, y, w: x.relu(), "rsqrt": lambda x, y, w: x.rsqrt(),
    "silu": lambda x, y, w: functional.silu(x), "softplus": lambda x, y, w: functional.softplus(x, 2.0, 3.0),
}  # fmt: skip


OF_ONE_SHAPE = ("cross_entropy", "cross_entropy, weights", "smooth", "huber")

LOSSES: dict[str, Callable[..., Any]] = {
    "mse_loss": functional.mse_loss, "l1_loss": functional.l1_loss, "smooth_l1_loss": functional.smooth_l1_loss,
    "smooth_l1_loss, beta": lambda x, y, **how: functional.smooth_l1_loss(x, y, beta=0.3, **how),
    "huber_loss": lambda x, y, **how: functional.huber_loss(x, y, delta=1.7, **how),
    "binary_cross_entropy_with_logits": functional.binary_cross_entropy_with_logits,
}  # fmt: skip
WEIGHTED = {
    "mse_loss": functional.mse_loss, "l1_loss": functional.l1_loss,
    "huber_loss": lambda x, y, **how: functional.huber_loss(x, y, delta=0.7, **how),
}  # fmt: skip


def drawn(dtype: str, *shapes: tuple[int, ...]) -> list[Any]:
    """Operands on the host: random numbers, and between them the special ones."""
    rng, made = np.random.default_rng(7), []
    for place, shape in enumerate(shapes):
        host = rng.normal(size=shape) * 3
        host.reshape(-1)[3 : 3 + len(SPECIAL)] = np.roll(SPECIAL, place)[: max(host.size - 3, 0)]
        made.append(host.astype(as_dtype(dtype)))
    return made


def tolerances(dtype: str, factor: float) -> dict[str, float]:
    limits = gradlib.finfo(as_dtype(dtype))
    return {"rtol": factor * float(limits.eps), "atol": factor * float(limits.eps) / 2}


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", CASES)
def test_values_and_gradients_are_those_of_the_host(name, dtype):
    case = CASES[name]
    with np.errstate(all="ignore"):
        for shapes in (((4, 11),) * 3,) if name in OF_ONE_SHAPE else (((4, 11),) * 3, ((4, 11), (11,), (4, 1))):
            hosts = drawn(dtype, *shapes)
            results = []
            for place in (lambda x: x, cupy.asarray):
                given = [gradlib.as_tensor(place(each)).requires_grad_() for each in hosts]
                made = case(*given)
                weights = gradlib.as_tensor(place(np.linspace(-1, 2, made.numel()).reshape(made.shape).astype(hosts[0].dtype)))
                asked = given[:1] if shapes[0] == shapes[1] else given
                grads = gradlib.autograd.grad(made, asked, weights, allow_unused=True)
                spread = gradlib.autograd.grad(case(*given).sum(), asked, allow_unused=True)  # of one number for all elements
                results.append([made, *grads, *spread])
            for host, device in zip(*results, strict=True):
                assert (host is None) == (device is None)
                if host is not None:
                    assert (device.dtype, device.shape) == (host.dtype, host.shape)
                    found, expected = (each.detach().double().numpy(force=True) for each in (device, host))
                    summed = 16 if shapes[0] != shapes[1] else 1
                    np.testing.assert_allclose(found, expected, **tolerances(dtype, 24.0 * summed))


def test_how_shapes_broadcast_is_told_by_one_run_of_dimensions_or_two():
    rng, told = np.random.default_rng(0), {1: 0, 2: 0}
    for _ in range(400):
        whole = rng.choice([1, 2, 3, 4], size=rng.integers(1, 6))
        shapes = [tuple(np.where(rng.random(whole.size) < 0.5, 1, whole)[rng.integers(whole.size) :].tolist()) for _ in range(3)]
        for groups in (1, 2):
            met = spans_of(*shapes, groups=groups)
            if met is None:
                assert spans_of(*shapes, groups=5) is not None
                continue
            told[groups] += 1
            shape, n, spans = met
            assert (shape, n) == (np.broadcast_shapes(*shapes), np.prod(shape))
            i = np.arange(n)
            for each, numbers in zip(shapes, np.reshape(spans, (3, groups, 2)), strict=True):
                places, behind = np.zeros_like(i), 1
                for inner, count in numbers:
                    places, behind = places + i // inner % count * behind, behind * count
                expected = np.broadcast_to(np.arange(np.prod(each, dtype=int)).reshape(each), shape)
                assert places.tolist() == expected.ravel().tolist()
    assert min(told.values()) > 50
    assert spans_of((2, 3), (2, 4)) is spans_of((0,), (1,)) is spans_of((2, 3), (4,), groups=2) is None


def test_operands_that_are_stretched_in_between_are_one_launch():
    with np.errstate(all="ignore"):
        for shapes in (((2, 1, 4), (3, 1), (4,)), ((2, 1, 3, 1), (5, 1, 2), (2,)), ((2, 1, 1, 4), (3, 1, 1), (1,))):
            hosts = drawn("float32", *shapes)
            made = formula("lerp")(*map(cupy.asarray, hosts))
            expected = gradlib.lerp(*map(gradlib.as_tensor, hosts)).numpy()
            np.testing.assert_allclose(made.get(), expected, **tolerances("float32", 24.0))
    three = [cupy.ones(shape, "float32") for shape in ((2, 1, 2, 1, 2), (3, 1, 3, 1))]
    assert formula("add_scaled")(*three, 2.0) is None
    assert gradlib.add(*map(gradlib.as_tensor, three), alpha=2).unique().tolist() == [3.0]


@pytest.mark.parametrize("name", CASES)
def test_second_derivatives_are_those_of_the_host(name):
    case, results = CASES[name], []
    hosts = [np.random.default_rng(k).normal(size=(3, 5)) + 4 * (name == "rsqrt") for k in range(3)]
    for place in (lambda x: x, cupy.asarray):
        x, y, w = (gradlib.as_tensor(place(each)).requires_grad_() for each in hosts)
        (slope,) = gradlib.autograd.grad((case(x, y, w) ** 2).sum(), x, create_graph=True)
        results.append(gradlib.autograd.grad((slope * w.detach()).sum(), x)[0].numpy(force=True))
    np.testing.assert_allclose(results[1], results[0], rtol=1e-10, atol=1e-12)


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("name", formulas.FORMULAS)
def test_every_formula_is_served(name, dtype):
    names = formulas.FORMULAS[name][0].split()
    shapes = [(4, 11) if each in "gxyw" else None for each in names]
    arrays = [0.5 if shape is None else cupy.asarray(drawn(dtype, shape)[0]) for shape in shapes]
    made = formula(name)(*arrays)
    assert (made.shape, made.dtype) == ((4, 11), as_dtype(dtype))
    turned = [each.T if isinstance(each, cupy.ndarray) else each for each in arrays]
    wide = [each.astype("int64") if isinstance(each, cupy.ndarray) else each for each in arrays]
    empty = [each[:0] if isinstance(each, cupy.ndarray) else each for each in arrays]
    assert formula(name)(*turned).get().tobytes() == made.get().T.tobytes()  # of which the kernel is given a copy in rows
    for given in (wide, empty, [*arrays[:-1], np.nan], [*arrays[:-1], True], [*arrays[:-1], 1e39]):
        assert formula(name)(*given) is None


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_clamped_elements_are_those_of_the_two_functions(dtype):
    larger, smaller = pointwise.function("maximum"), pointwise.function("minimum")
    x = cupy.asarray(np.array([*SPECIAL, *np.linspace(-3, 3, 150)]).astype(dtype))
    for low, high in ((-1.1, 2.2), (0, 1), (-0.0, 0.0), (2, -2), (0.0, -0.0)):
        expected = smaller(larger(x, low), high).get()
        for made in (formula("clamp")(x, low, high), gradlib.as_tensor(x.copy()).clamp_(low, high)._array):
            assert np.array_equal(made.get(), expected, equal_nan=True)
            assert np.array_equal(np.signbit(made.get()), np.signbit(expected))


@pytest.mark.nonfinite
@pytest.mark.parametrize("dtype", DTYPES)
def test_an_element_whose_bound_is_nan_becomes_nan(dtype):
    given = [1.0, 1.0, np.nan, 5.0], [np.nan, 0.0, 0.0, 6.0], [2.0, np.nan, 2.0, 2.0]
    x, low, high = (cupy.asarray(np.array(each), dtype) for each in given)
    expected = [np.nan, np.nan, np.nan, 2.0]
    made = [formula("clamp")(x, low, high), gradlib.as_tensor(x.copy()).clamp_(low, high)._array]
    made += [gradlib.clamp(gradlib.as_tensor(x), low, gradlib.as_tensor(high))._array]
    for each in made:
        np.testing.assert_array_equal(each.astype("float32").get(), expected)
    whole = gradlib.ones(2, dtype="int32", device="cuda")
    assert np.isnan([whole.clamp(np.nan, 2).tolist(), whole.clamp(0, np.nan).tolist()]).all()


def test_bounds_that_float16_does_not_hold_are_refused_in_place_too():
    x = gradlib.ones(3, dtype="float16", device="cuda")
    for low, high in ((-1e6, 1.0), (0.0, 1e6)):
        with pytest.raises(RuntimeError, match="without overflow"):
            x.clamp_(low, high)
    assert x.bfloat16().clamp_(-1e6, 1e6).tolist() == x.clamp_(-5e4, 5e4).tolist() == [1.0] * 3


def test_an_array_bound_that_shares_memory_is_read_before_it_is_written():
    x = gradlib.as_tensor(cupy.arange(6.0) - 2)
    assert x.clamp_(x[:1].clone(), x[:1]).tolist() == [-2.0] * 6


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_parts_of_complex_numbers_are_put_side_by_side(dtype):
    x = drawn(dtype, (4, 11))[0]
    for y in (x[::-1].copy(), x[0], x[:, :1].copy(), x.T.copy().T):
        for pair in ((x, y), (y, x)):
            made, expected = formulas.complex_of(*map(cupy.asarray, pair)), gradlib.complex(*map(gradlib.as_tensor, pair))
            assert made.get().tobytes() == expected.numpy().tobytes()
            assert made.dtype == expected.dtype
    assert formulas.complex_of(cupy.asarray(x), 1.0) is None
    assert formulas.complex_of(*[cupy.asarray(x.astype("float16"))] * 2) is None


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
def test_each_part_of_a_complex_number_is_replaced(dtype):
    x = drawn("float32" if dtype == "complex64" else "float64", (2, 12))[0].view(dtype)
    for given in (x, x[:, ::2], x.reshape(-1)[4]):
        expected, made = (gradlib.as_tensor(place(given)).nan_to_num(posinf=3) for place in (np.asarray, cupy.asarray))
        assert (made.dtype, made.shape) == (expected.dtype, expected.shape)
        np.testing.assert_array_equal(made.numpy(force=True), expected.numpy())


@pytest.mark.parametrize("reduction", ["mean", "sum"])
@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("name", [*LOSSES, *(f"{name}, weights" for name in WEIGHTED)])
def test_losses_and_their_gradients_are_those_of_the_host(name, dtype, reduction):
    case, rng, is_weighted = (LOSSES | WEIGHTED)[name.removesuffix(", weights")], np.random.default_rng(3), "weights" in name
    scale = 2 if dtype in ("float32", "float64") else 0.2  # of which float16 holds the sums
    for size in (1, 31, 33, 2000):  # one warp of which some threads have nothing, two, and all that a block has
        hosts = [(rng.normal(size=size) * scale).astype(as_dtype(dtype)) for _ in range(2)]
        hosts[0][0] = hosts[1][0]
        hosts += [rng.uniform(0.5, 1.5, size).astype(as_dtype(dtype))] * is_weighted
        results = []
        for place in (lambda x: x, cupy.asarray):
            given = [gradlib.as_tensor(place(each)).requires_grad_() for each in hosts]
            made = case(*given[:2], reduction=reduction, **{"weight": given[2]} if is_weighted else {})
            first = gradlib.autograd.grad(made * 3, given, create_graph=True)
            second = gradlib.autograd.grad(sum((each**2).sum() for each in first), given, retain_graph=True)
            results.append([made, *gradlib.autograd.grad(made, given, retain_graph=True), *first, *second])
        for expected, found in zip(*results, strict=True):
            assert (found.dtype, found.shape) == (expected.dtype, expected.shape)
            a, b = (each.detach().double().numpy(force=True) for each in (found, expected))
            np.testing.assert_allclose(a, b, **tolerances(dtype, 64.0 * max(1, abs(b).max())))


@pytest.mark.parametrize("name", formulas.SUMS)
def test_sums_of_formulas_are_computed_where_they_are_served(name):
    x = cupy.arange(40.0).reshape(5, 8)
    numbers = [0.5] * (len(formulas.SUMS[name][0].split()) - 2)
    made = formulas.summed(name, x, x + 2, *numbers, by=4)
    expected = {"absolute": 20, "smooth": (2 - 0.25) * 10, "squared": 40, "product": (x * (x + 2)).sum().item() / 4}
    expected["shares"] = -(x * ((x + 2) * 0.5 + 0.5)).sum().item() / 4
    assert (made.shape, made.item()) == ((), expected[name])
    again, kept = formulas.summed(name, x, x + 2, *numbers, by=4, keeps=True)
    step = {"product": x + 2, "shares": (x + 2) * 0.5 + 0.5}.get(name, x * 0 - 2)
    assert again.item() == expected[name]
    assert (kept == step).all()
    assert formulas.summed(name, x, x + 2, *numbers, by=4, weight=cupy.full_like(x, 3)).item() == 3 * expected[name]
    assert formulas.summed(name, x, x + 2, *numbers, by=4, weight=cupy.full((5, 1), 2.0)).item() == 2 * expected[name]
    for weight in (x.T, x[:, :3], x[:, ::2], x[None, None], x.astype("float32")):
        assert formulas.summed(name, x, x, *numbers, weight=weight) is None
    for given in ((x.T, x.T), (x, x[:1]), (x, x.astype("float32")), (x[:0], x[:0]), (x.astype("int64"), x.astype("int64"))):
        assert formulas.summed(name, *given, *numbers) is None
    assert formulas.summed(name, x, x, *numbers, by=np.inf) is None
    assert formulas.summed(name, *(cupy.zeros(formulas.LONGEST + 1),) * 2, *numbers) is None
    for nan in (x + np.nan, cupy.where(x == 7, np.nan, x)):
        assert np.isnan(formulas.summed(name, nan, x, *numbers).item())
