"""Random tensors: streams by seed, distributions, dtypes, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib import Generator, Tensor
from gradlib.backend.array import is_array
from tests.values import host

DRAWS: dict[str, Callable[..., Tensor]] = {
    "rand": lambda **k: gradlib.rand(3, 4, **k),
    "randn": lambda **k: gradlib.randn((3, 4), **k),
    "randint": lambda **k: gradlib.randint(2, 9, (3, 4), **k),
    "randperm": lambda **k: gradlib.randperm(12, **k),
    "rand_like": lambda **k: gradlib.rand_like(gradlib.zeros(3, 4), **k),
    "randn_like": lambda **k: gradlib.randn_like(gradlib.zeros(3, 4), **k),
    "randint_like": lambda **k: gradlib.randint_like(gradlib.zeros(3, 4), 9, **k),
    "normal": lambda **k: gradlib.normal(1.0, 2.0, (3, 4), **k),
    "normal-tensors": lambda **k: gradlib.normal(gradlib.zeros(4), gradlib.ones(3, 1), **k),
    "bernoulli": lambda **k: gradlib.bernoulli(gradlib.full((3, 4), 0.5), **k),
    "multinomial": lambda **k: gradlib.multinomial(gradlib.ones(3, 8), 5, **k),
    "multinomial-repeated": lambda **k: gradlib.multinomial(gradlib.ones(3, 4), 9, replacement=True, **k),
    "normal_": lambda **k: gradlib.zeros(3, 4).normal_(**k),
    "uniform_": lambda **k: gradlib.zeros(3, 4).uniform_(**k),
    "bernoulli_": lambda **k: gradlib.zeros(3, 4).bernoulli_(0.5, **k),
    "random_": lambda **k: gradlib.zeros(3, 4).random_(100, **k),
    "exponential_": lambda **k: gradlib.zeros(3, 4).exponential_(**k),
    "geometric_": lambda **k: gradlib.zeros(3, 4).geometric_(0.3, **k),
    "cauchy_": lambda **k: gradlib.zeros(3, 4).cauchy_(**k),
    "log_normal_": lambda **k: gradlib.zeros(3, 4).log_normal_(**k),
}
each = pytest.mark.parametrize("name", DRAWS)


def same(a: Tensor, b: Tensor) -> bool:
    return bool((host(a) == host(b)).all())


@each
def test_the_same_seed_gives_the_same_numbers(name: str) -> None:
    draw = DRAWS[name]
    gradlib.manual_seed(5)
    first, second = draw(), draw()
    assert not same(first, second)
    gradlib.manual_seed(5)
    assert same(draw(), first)
    assert same(draw(), second)
    assert gradlib.initial_seed() == 5


@each
def test_a_generator_is_a_stream_of_its_own(name: str, device: str) -> None:
    draw, generator = DRAWS[name], Generator(device).manual_seed(5)
    gradlib.manual_seed(1)
    first = draw(generator=generator)
    gradlib.manual_seed(5)
    assert same(draw(), first)
    state = generator.get_state()
    second = draw(generator=generator)
    generator.set_state(state)
    assert same(draw(generator=generator), second)


# ---- distributions: 20000 draws, bounds at six standard errors ------------------------------------------------------------------

COUNT = 20000


def check_moments(drawn: Tensor, mean: complex, variance: float, kurtosis: float) -> None:
    """The mean and variance of draws whose fourth central moment is kurtosis * variance**2."""
    values = host(drawn).astype(np.complex128 if drawn.is_complex() else np.float64)
    assert abs(values.mean() - mean) < 6 * np.sqrt(variance / values.size)
    assert abs(values.var() - variance) < 6 * variance * np.sqrt((kurtosis - 1) / values.size)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_uniform_numbers(dtype: str) -> None:
    drawn = gradlib.rand(COUNT, dtype=gradlib.zeros(1, dtype=dtype).dtype)
    values = host(drawn).astype(np.float64)
    assert drawn.dtype.name == dtype
    assert values.min() >= 0
    assert values.max() < 1
    check_moments(drawn, 0.498 if dtype == "bfloat16" else 0.5, 1 / 12, 1.8)
    shifted = gradlib.zeros(COUNT, dtype=drawn.dtype).uniform_(-2, 6)
    assert shifted.dtype.name == dtype
    check_moments(shifted.double(), 2, 64 / 12, 1.8)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64", "complex128"])
def test_normal_numbers(dtype: str) -> None:
    kind = gradlib.zeros(1, dtype=dtype).dtype
    drawn = gradlib.randn(COUNT, dtype=kind)
    assert drawn.dtype.name == dtype
    check_moments(drawn, 0, 1, 2 if drawn.is_complex() else 3)
    check_moments(gradlib.zeros(COUNT, dtype=kind).normal_(2, 3), 2, 9, 3)
    if drawn.is_complex():
        parts = host(gradlib.view_as_real(drawn)).astype(np.float64)
        assert abs((parts[:, 0] * parts[:, 1]).mean()) < 6 * 0.5 / np.sqrt(COUNT)
        np.testing.assert_allclose(parts.var(0), [0.5, 0.5], atol=0.05)


def test_normal_numbers_are_no_integers() -> None:
    x, whole = gradlib.ones(3), gradlib.ones(3, dtype=gradlib.int64)
    for mean, std in ((whole, 2.0), (2.0, whole), (whole, x), (whole, whole), (whole > 0, x)):
        with pytest.raises(NotImplementedError, match="normal gives floating-point numbers"):
            gradlib.normal(mean, std)
    assert gradlib.normal(x, whole).dtype == gradlib.float32
    for mean in (2.0, x, whole, x.to(gradlib.complex64)):
        with pytest.raises(RuntimeError, match="standard deviation to be non-complex"):
            gradlib.normal(mean, x.to(gradlib.complex64))


def test_other_distributions() -> None:
    check_moments(gradlib.normal(gradlib.full((COUNT,), 3.0), 2.0), 3, 4, 3)
    check_moments(gradlib.normal(1.0, gradlib.full((COUNT,), 2.0)), 1, 4, 3)
    check_moments(gradlib.normal(-1.0, 0.5, (COUNT,), dtype=gradlib.float64), -1, 0.25, 3)
    check_moments(gradlib.zeros(COUNT).exponential_(2.0), 0.5, 0.25, 9)
    check_moments(gradlib.zeros(COUNT, dtype=gradlib.float64).log_normal_(1.0, 0.5).log(), 1, 0.25, 3)
    check_moments(gradlib.bernoulli(gradlib.full((COUNT,), 0.3)), 0.3, 0.21, 1 / 0.21 - 3)
    check_moments(gradlib.zeros(COUNT, dtype=gradlib.int64).bernoulli_(0.3), 0.3, 0.21, 1 / 0.21 - 3)
    check_moments(gradlib.zeros(COUNT, dtype=gradlib.int64).geometric_(0.25), 4, 12, 9.1)
    cauchy = host(gradlib.zeros(COUNT).cauchy_(2, 3))
    np.testing.assert_allclose(np.quantile(cauchy, [0.25, 0.5, 0.75]), [-1, 2, 5], atol=6 * 3 * np.pi / 2 / np.sqrt(COUNT))
    assert gradlib.bernoulli(gradlib.tensor([0.0, 1.0])).tolist() == [0, 1]
    assert gradlib.zeros(2).bernoulli_(gradlib.tensor([1.0, 0.0])).tolist() == [1, 0]


def test_integers_are_uniform() -> None:
    drawn = gradlib.randint(-2, 4, (COUNT,))
    assert drawn.dtype == np.int64
    counts = np.bincount(host(drawn) + 2, minlength=6)
    assert len(counts) == 6
    assert abs(counts - COUNT / 6).max() < 6 * np.sqrt(COUNT * 5 / 36)
    assert set(gradlib.randint(3, (200,)).tolist()) == {0, 1, 2}
    assert gradlib.randint(0, 5, size=(2,), dtype=gradlib.float32).dtype == np.float32
    assert sorted(gradlib.randperm(50).tolist()) == list(range(50))
    assert gradlib.randperm(5, dtype=gradlib.int32).dtype == np.int32
    assert gradlib.zeros(500, dtype=gradlib.int8).random_().min() >= 0
    assert set(gradlib.zeros(200).random_(3, 5).tolist()) == {3, 4}
    assert gradlib.zeros(500).random_().max() <= 2**24


def test_where_every_permutation_starts() -> None:
    starts = np.bincount([gradlib.randperm(3)[0].item() for _ in range(3000)], minlength=3)
    assert abs(starts - 1000).max() < 6 * np.sqrt(3000 * 2 / 9)


@pytest.mark.parametrize("replacement", [False, True])
def test_multinomial_follows_its_weights(replacement: bool) -> None:
    weights = gradlib.tensor([[0.0, 1.0, 0.0, 3.0, 0.0], [2.0, 0.0, 2.0, 0.0, 0.0]])
    rows = gradlib.multinomial(weights.repeat(2000, 1), 1 if not replacement else 4, replacement=replacement)
    assert rows.dtype == np.int64
    for row, places, share in [(0, {1, 3}, 0.25), (1, {0, 2}, 0.5)]:
        drawn = host(rows)[row::2].ravel()
        assert set(drawn) == places
        assert abs((drawn == min(places)).mean() - share) < 6 * np.sqrt(share * (1 - share) / drawn.size)
    order = gradlib.multinomial(gradlib.tensor([0.2, 0.0, 0.8]), 2)
    assert sorted(order.tolist()) == [0, 2]
    assert sorted(gradlib.multinomial(gradlib.rand(7) + 0.1, 7).tolist()) == list(range(7))


# ---- gradients and errors ---------------------------------------------------------------------------------------------------------


def test_no_gradient_flows_to_what_numbers_were_drawn_from() -> None:
    mean = gradlib.zeros(3, requires_grad=True)
    std = gradlib.ones(2, 1, requires_grad=True)
    (gradlib.normal(mean, std).sum() + gradlib.bernoulli(mean).sum()).backward()
    np.testing.assert_array_equal(host(mean.grad), np.zeros(3))
    np.testing.assert_array_equal(host(std.grad), np.zeros((2, 1)))
    assert gradlib.rand(2, requires_grad=True).is_leaf


@pytest.mark.parametrize(
    ("call", "error", "words"),
    [
        (lambda: gradlib.rand(2, dtype=gradlib.int32), NotImplementedError, "floating-point"),
        (lambda: gradlib.randn(-1), RuntimeError, "negative"),
        (lambda: gradlib.randperm(-1), RuntimeError, "negative"),
        (lambda: gradlib.rand(), TypeError, "size"),
        (lambda: gradlib.rand(2, colour=1), TypeError, "colour"),
        (lambda: gradlib.randint(5, 2, (2,)), RuntimeError, "less than"),
        (lambda: gradlib.ones(2).random_(5, 5), RuntimeError, "less than"),
        (lambda: gradlib.ones(2).random_(0), RuntimeError, "less than"),
        (lambda: gradlib.ones(2).random_(0, 2.5), TypeError, "must be int, not float"),
        (lambda: gradlib.ones(2).normal_(0, math.nan), RuntimeError, "std >= 0.0"),
        (lambda: gradlib.ones(2).exponential_(math.nan), RuntimeError, "lambda > 0.0"),
        (lambda: gradlib.ones(2).cauchy_(0, math.nan), RuntimeError, "sigma > 0.0"),
        (lambda: gradlib.ones(2).log_normal_(0, math.nan), RuntimeError, "std > 0.0"),
        (lambda: gradlib.ones(2).to(gradlib.complex64).exponential_(), NotImplementedError, "exponential_ gives floating-point numbers"),
        (lambda: gradlib.ones(2).bool().geometric_(0.5), NotImplementedError, "geometric_ gives whole numbers"),
        (lambda: gradlib.ones(2).half().uniform_(0, 7e4), RuntimeError, "to is out of bounds for float16"),
        (lambda: gradlib.ones(2).uniform_(math.nan, 1), RuntimeError, "from is out of bounds for float32"),
        (lambda: gradlib.ones(2).uniform_(-3e38, 3e38), RuntimeError, "expects to - from <= 3.40"),
        (lambda: gradlib.randint(0, 257, (2,), dtype=gradlib.uint8), RuntimeError, "to - 1 is out of bounds for uint8, which"),
        (lambda: gradlib.randint_like(gradlib.ones(2).bool(), 3), RuntimeError, "to - 1 is out of bounds for bool"),
        (lambda: gradlib.ones(2).half().random_(-70000, 0), RuntimeError, "from is out of bounds for float16"),
        (lambda: gradlib.ones(2).to(gradlib.complex64).random_(0, 3), RuntimeError, "for tensors of integers, floats or bools"),
        (lambda: gradlib.randperm(257, dtype=gradlib.uint8), RuntimeError, "n cannot be greater than 256 for uint8"),
        (lambda: gradlib.randperm(2050, dtype=gradlib.float16), RuntimeError, "n cannot be greater than 2049 for float16"),
        (lambda: gradlib.randperm(3, dtype=gradlib.bool), NotImplementedError, "randperm gives whole numbers"),
        (lambda: gradlib.normal(0.0, -1.0, (2,)), RuntimeError, "std >= 0.0"),
        (lambda: gradlib.ones(2).normal_(0, -1), RuntimeError, "std >= 0.0"),
        (lambda: gradlib.ones(2).log_normal_(0, 0), RuntimeError, "std > 0.0"),
        (lambda: gradlib.ones(2).uniform_(2, 1), RuntimeError, "from=2 > to=1"),
        (lambda: gradlib.ones(2).exponential_(-1), RuntimeError, "lambda > 0.0"),
        (lambda: gradlib.ones(2).geometric_(1.5), RuntimeError, "p="),
        (lambda: gradlib.ones(2).cauchy_(0, 0), RuntimeError, "sigma > 0.0"),
        (lambda: gradlib.ones(2, dtype=gradlib.int64).normal_(), NotImplementedError, "int64"),
        (lambda: gradlib.bernoulli(gradlib.tensor([1])), NotImplementedError, "int64"),
        (lambda: gradlib.multinomial(gradlib.ones(2), 3), RuntimeError, "without replacement"),
        (lambda: gradlib.multinomial(gradlib.ones(2), 0), RuntimeError, "n_sample <= 0"),
        (lambda: gradlib.multinomial(gradlib.ones(1, 1, 1), 1), RuntimeError, "1 or 2 dim"),
        (lambda: gradlib.multinomial(gradlib.tensor([1]), 1), RuntimeError, "floating-point"),
        (lambda: gradlib.manual_seed(2**64), RuntimeError, "seed"),
        (lambda: Generator().set_state(gradlib.zeros(3)), TypeError, "get_state"),
        (lambda: Generator().set_state(b"x"), TypeError, "get_state"),  # type: ignore[arg-type]
    ],
)
def test_wrong_arguments_are_refused(call: Callable[[], Any], error: type[Exception], words: str) -> None:
    with pytest.raises(error, match=words):
        call()


def test_whole_numbers_that_a_dtype_rounds_are_warned_of_and_the_largest_it_holds_are_drawn() -> None:
    assert gradlib.randint(255, 256, (2,), dtype=gradlib.uint8).tolist() == [255, 255]
    assert gradlib.zeros(2).random_(2**24, 2**24 + 1).tolist() == [2**24] * 2
    assert gradlib.randperm(256, dtype=gradlib.uint8).sort().values.tolist() == list(range(256))
    with pytest.warns(UserWarning, match=r"random_: to - 1 is out of bounds \[-2048, 2048\]"):
        gradlib.zeros(2).half().random_(0, 2050)
    with pytest.warns(UserWarning, match=r"randint: from is out of bounds \[-256, 256\]"):
        gradlib.randint(-257, 0, (2,), dtype=gradlib.bfloat16)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        (lambda: gradlib.normal(0.0, gradlib.tensor([-1.0])), "std >= 0.0"),
        (lambda: gradlib.bernoulli(gradlib.tensor([2.0])), "probabilities"),
        (lambda: gradlib.bernoulli(gradlib.tensor([float("nan")])), "probabilities"),
        (lambda: gradlib.multinomial(gradlib.zeros(2), 1), "sum of probabilities"),
        (lambda: gradlib.multinomial(gradlib.tensor([-1.0, 1.0]), 1), "element < 0"),
    ],
)
def test_values_that_only_the_host_looks_at(call: Callable[[], Tensor], words: str, device: str) -> None:
    if device == "cpu":
        with pytest.raises(RuntimeError, match=words):
            call()
    else:
        assert call().shape == (1,)


@pytest.mark.parametrize("name", [name for name in DRAWS if name.endswith("_")])
def test_each_row_of_a_vmap_is_filled_as_it_says(name: str) -> None:
    def fill(row: Tensor) -> Tensor:
        return getattr(row.clone(), name)(*{"random_": (100,), "geometric_": (0.3,)}.get(name, ()))

    rows = gradlib.zeros(2, 40)
    first, second = host(gradlib.func.vmap(fill, randomness="same")(rows))
    np.testing.assert_array_equal(first, second)
    first, second = host(gradlib.func.vmap(fill, randomness="different")(rows))
    assert (first != second).any()
    with pytest.raises(RuntimeError, match="randomness error mode"):
        gradlib.func.vmap(fill)(rows)


def test_empty_and_0d() -> None:
    for draw in (gradlib.rand, gradlib.randn):
        assert draw(0, 3).shape == (0, 3)
        assert draw(()).shape == ()
        assert is_array(draw(())._array)
    assert gradlib.randperm(0).shape == (0,)
    assert gradlib.randint(3, ()).shape == ()
    assert gradlib.zeros(0).normal_().shape == (0,)
    assert gradlib.multinomial(gradlib.ones(0, 3), 2).shape == (0, 2)


# ---- generators ---------------------------------------------------------------------------------------------------------------------


def test_seeds_of_a_generator(device: str) -> None:
    assert repr(Generator().device) == "device(type='cpu')"
    generator = Generator(device)
    first = generator.seed()
    assert generator.initial_seed() == first != generator.seed()
    assert generator.manual_seed(-1) is generator
    assert generator.initial_seed() == 2**64 - 1
    gradlib.manual_seed(3)
    state = gradlib.get_rng_state()
    assert (state.dtype, str(state.device)) == (np.uint8, "cpu")
    first_draw = gradlib.rand(4, device="cpu")
    gradlib.seed()
    gradlib.set_rng_state(state)
    assert same(gradlib.rand(4, device="cpu"), first_draw)
    copied = generator.clone_state()
    assert same(gradlib.rand(3, generator=copied), gradlib.rand(3, generator=generator))


@pytest.mark.cuda
def test_streams_of_a_cuda_device() -> None:
    for name in ("rand", "randn", "randint", "randperm", "normal"):
        draw = DRAWS[name]
        gradlib.manual_seed(5)
        first, second = draw(device="cuda").cpu(), draw(device="cuda").cpu()
        gradlib.manual_seed(5)
        assert same(draw(device="cuda").cpu(), first)
        assert not same(first, second)
    generator = Generator("cuda").manual_seed(9)
    state = generator.get_state()
    drawn = gradlib.rand(1000, generator=generator)
    assert drawn.is_cuda
    check_moments(drawn.cpu(), 0.5, 1 / 12, 1.8)
    generator.set_state(state)
    assert same(gradlib.rand(1000, device="cuda", generator=generator).cpu(), drawn.cpu())
    assert gradlib.randint(0, 1 << 62, (20,), device="cuda").max() > 1 << 48
    with pytest.raises(RuntimeError, match="Expected a 'cpu' device for generator but found 'cuda:0'"):
        gradlib.rand(3, generator=generator, device="cpu")
    with pytest.raises(RuntimeError, match="cpu generator"):
        generator.set_state(Generator().get_state())


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_uniform_numbers_of_half_types_stay_below_the_upper_bound(dtype: str) -> None:
    for low, to in ((0, 1), (-1, 3)):
        generator = gradlib.Generator(gradlib.get_default_device()).manual_seed(0)
        made = gradlib.empty(100_000, dtype=dtype).uniform_(low, to, generator=generator)
        assert made.min().item() >= low
        assert made.max().item() < to
