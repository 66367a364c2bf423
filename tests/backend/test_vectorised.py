"""Functions of large arrays against NumPy's, those of float32 in float64: by forms, and as where NumPy has vector loops of all of them."""

from __future__ import annotations

import math
import sys
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.backend import vectorised
from gradlib.backend.vectorised import blocks, forms, loops
from tests.values import host

pytestmark = pytest.mark.host

SIZE = 90_000  # two blocks, the second of another size
EACH = frozenset((name, char) for name in loops.FUNCTIONS for char in "fd")


@pytest.fixture(autouse=True, params=[frozenset(), EACH], ids=["forms", "loops"])
def vector(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> frozenset[tuple[str, str]]:
    """The functions whose loops are taken for NumPy's vector loops, whatever it has here."""
    monkeypatch.setattr(loops, "VECTOR", request.param)
    return request.param


def drawn(low: float, high: float) -> np.ndarray:
    x = np.random.default_rng(0).uniform(low, high, SIZE).astype(np.float32)
    x[:2] = 0.0, -0.0
    return x


def assert_close(made: np.ndarray, wanted: np.ndarray, units: float = 5) -> None:
    """Within some units in the last place of float32, and zeros of the same sign."""
    wanted = np.asarray(wanted, np.float64)
    near = np.abs(made - wanted) <= units * np.spacing(np.maximum(np.abs(wanted).astype(np.float32), np.float32(1e-37)))
    assert made.dtype == np.float32
    assert near.all(), (made[~near][:3], wanted[~near][:3])
    assert (np.signbit(made) == np.signbit(wanted))[wanted == 0].all()


@pytest.mark.parametrize(
    ("name", "low", "high"),
    [("expm1", -20, 20), ("expm1", -1e-3, 1e-3), ("sinh", -80, 80), ("sinh", -1e-3, 1e-3), ("cosh", -80, 80), ("log1p", -0.9999, 10),
     ("log1p", -1e-3, 1e-3), ("log1p", 0, 1e30), ("arctanh", -0.9999, 0.9999), ("arctanh", -1e-3, 1e-3), ("tan", -3, 3), ("tan", -900, 900),
     ("arctan", -2, 2), ("arctan", -1e9, 1e9), ("arcsin", -1, 1), ("arcsin", -1e-3, 1e-3), ("arccos", -1, 1)],
)  # fmt: skip
def test_it_is_numpys_function_within_a_few_units_in_the_last_place(name: str, low: float, high: float) -> None:
    x = drawn(low, high)
    assert_close(getattr(vectorised, name)(np, x), getattr(np, name)(x.astype(np.float64)))


@pytest.mark.parametrize("size", [1e-3, 0.999, 30])
def test_functions_of_float64_are_numpys_within_four_units_in_the_last_place(size: float) -> None:
    x, y = (drawn(-size, size).astype(np.float64) + each for each in (0, 2 * size))
    names = ("expm1", "sinh", "cosh", "log1p", "arctanh", "arcsin", "arccos")
    cases = [(getattr(vectorised, name)(np, x), getattr(np, name)(x)) for name in names if size < 1 or name in names[:3]]
    cases += [(getattr(vectorised, name)(np, x, y), getattr(np, name)(x, y)) for name in ("hypot", "arctan2", "logaddexp")]
    sigmoid = 1 / (1 + np.exp(-x))
    cases += [(vectorised.sigmoid(np, x), sigmoid), (vectorised.silu(np, x), x * sigmoid)]
    cases += [(vectorised.log_sigmoid(np, x), -np.logaddexp(-x, 0)), (vectorised.softplus(x, 99.0), np.logaddexp(x, 0))]
    for high in (0.1, 3, 1e4):
        angles = np.append(drawn(-high, high).astype(np.float64), [math.pi / 2, 9999 * math.pi / 2, 22, 355, math.pi, -3000 * math.pi])
        cases += [(getattr(vectorised, name)(np, angles), getattr(np, name)(angles)) for name in ("sin", "cos", "tan")]
    for made, wanted in (*cases, (vectorised.across(x, x, y), x * x / (x * x + y * y))):
        assert made.dtype == np.float64
        np.testing.assert_array_max_ulp(made, wanted, 6)  # NumPy's own are off by one or two
        assert (np.signbit(made) == np.signbit(wanted))[wanted == 0].all()


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_softplus_is_its_input_above_the_threshold_and_its_slope_one(dtype: str) -> None:
    x = gradlib.tensor(np.linspace(-3, 25, 5000).astype(dtype), requires_grad=True)
    y = gradlib.nn.functional.softplus(x, threshold=4.0)
    (slope,) = gradlib.autograd.grad(y.sum(), x)
    above = host(x) > 4
    assert np.array_equal(host(y)[above], host(x)[above])
    assert (host(slope)[above] == 1).all()
    np.testing.assert_allclose(host(y)[~above], np.logaddexp(host(x)[~above], 0), rtol=1e-6)
    assert (host(slope)[~above] < 1).all()


def test_sigmoid_and_its_logarithm_are_exact_in_both_tails() -> None:
    x = drawn(-80, 80)
    wide = x.astype(np.float64)
    assert_close(vectorised.sigmoid(np, x), 1 / (1 + np.exp(-wide)))
    assert_close(vectorised.log_sigmoid(np, x), -np.log1p(np.exp(-wide)))


def test_the_error_function_is_exact_near_zero_and_one_far_out() -> None:
    special = pytest.importorskip("scipy.special")
    for high in (1e-3, 5, 1e30):
        x = drawn(-high, high)
        assert_close(vectorised.erf(x), special.erf(x.astype(np.float64)), 6)
    x[5:8] = math.inf, -math.inf, math.nan
    assert np.array_equal(vectorised.erf(x)[5:8], [1, -1, math.nan], equal_nan=True)


def test_the_normal_distribution_in_float64_is_scipys() -> None:
    special = pytest.importorskip("scipy.special")
    for high in (1e-3, 1, 9, 1e300):
        x = drawn(-min(high, 1e30), min(high, 1e30)).astype(np.float64) * max(1, high / 1e30)
        made = vectorised.erf(x)
        np.testing.assert_array_max_ulp(made, special.erf(x), 6)  # SciPy's own are off by two
        assert np.signbit(made[1])
        normal = special.ndtr(x)
        assert (np.abs(vectorised.gelu(x) - x * normal) <= 3 * np.spacing(np.abs(x))).all()
        slope = vectorised.gelu_slope(np.full_like(x, 2), x)
        with np.errstate(over="ignore"):
            np.testing.assert_allclose(slope, 2 * (normal + x * np.exp(-(x**2) / 2) / math.sqrt(2 * math.pi)), rtol=0, atol=2e-15)
    x[5:8] = math.inf, -math.inf, math.nan
    assert np.array_equal(vectorised.erf(x)[5:8], [1, -1, math.nan], equal_nan=True)
    assert np.array_equal(vectorised.gelu(x)[5:8], [math.inf, math.nan, math.nan], equal_nan=True)  # of -inf NaN, as in torch


def test_log10_is_numpys_within_a_few_units() -> None:
    for high in (2, 1e30):
        x = np.geomspace(1 / high, high, 5000).astype(np.float32)
        assert_close(vectorised.log10(np, x), np.log10(x.astype(np.float64)))


def test_gelu_is_exact_above_zero_and_to_the_last_places_of_its_input_below() -> None:
    special = pytest.importorskip("scipy.special")
    for high in (1e-3, 6, 1e30):
        x = drawn(-high, high)
        made, wanted = vectorised.gelu(x), x * special.ndtr(x.astype(np.float64))
        assert_close(made[x > 0], wanted[x > 0])
        assert (np.abs(made - wanted) <= 3 * np.spacing(np.abs(x))).all()
    x[5:8] = math.inf, -math.inf, math.nan
    assert np.array_equal(vectorised.gelu(x)[5:8], [math.inf, math.nan, math.nan], equal_nan=True)  # of -inf NaN, as in torch
    slope = vectorised.gelu_slope(np.ones_like(x), drawn(-6, 6))
    assert slope is not None
    wide = drawn(-6, 6).astype(np.float64)
    np.testing.assert_allclose(slope, special.ndtr(wide) + wide * np.exp(-(wide**2) / 2) / math.sqrt(2 * math.pi), rtol=0, atol=5e-7)


def test_logarithms_of_powers_of_ten_are_whole() -> None:
    whole = np.resize(np.arange(-30, 31), 2000).astype(np.float32)
    tens = (10.0 ** whole.astype(np.float64)).astype(np.float32)
    assert np.array_equal(vectorised.log10(np, tens), np.log10(tens))


def test_activations_by_exponentials_are_exact_in_both_tails_and_keep_infinities() -> None:
    x = drawn(-80, 80)
    x[5:8] = math.inf, -math.inf, math.nan
    wide = x.astype(np.float64)
    wide[6] = -1e4
    with np.errstate(over="ignore"):
        assert_close(vectorised.silu(np, np.delete(x, slice(5, 8))), np.delete(wide / (1 + np.exp(-wide)), slice(5, 8)))
        assert np.isnan(vectorised.silu(np, x)[6:8]).all()  # of -inf too, as in torch
        assert_close(np.delete(vectorised.softplus(x, 20.0), [5, 7]), np.logaddexp(np.delete(wide, [5, 7]), 0))
        assert vectorised.softplus(x, 20.0)[5] == math.inf
    x[5], wide[5] = 80, 80
    x[7], wide[7] = 0.25, 0.25
    for below in (-80, -1e4, -math.inf):
        x[6] = wide[6] = below
        assert_close(vectorised.elu(np, x, 0.5), np.where(wide >= 0, wide, np.expm1(np.minimum(wide, 0)) * 0.5))
    x = np.full(2000, -0.0, np.float32)
    x[:2] = math.nan, math.inf
    made = vectorised.elu(np, x, 1.0)
    assert np.isnan(made[0])
    assert made[1] == math.inf
    assert np.signbit(made[2:]).all()


def test_hypot_is_numpys_also_where_squares_leave_the_range() -> None:
    for size in (1.0, 1e-25, 1e25):
        a, b = drawn(-size, size), drawn(-size, size)[::-1].copy()
        assert_close(vectorised.hypot(np, a, b), np.hypot(a.astype(np.float64), b.astype(np.float64)))


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("name", ["fmod", "remainder", "modulo", "floor_divide"])
def test_division_with_a_rest_gives_numpys_bits_but_for_the_sign_of_a_remainder_of_zero(name: str, dtype: Any) -> None:
    x, y = drawn(-50, 50).astype(dtype) * dtype(1.1), drawn(-3, 3).astype(dtype) * dtype(1.1)
    y[:2] = 1, -1
    whole = np.rint(y) + 4
    beside = [np.nextafter(whole * np.rint(x), dtype(to)) for to in (-math.inf, math.inf)]  # whose quotients are rounded to whole numbers
    pairs = [(x, y), (np.rint(x), whole), (x, 0.3), (x, -7), (np.abs(x), np.abs(y)), (x, np.abs(y)), (x * dtype(1e-20), y)]
    for a, b in (*pairs, *((each, whole) for each in beside), *((each, -whole) for each in beside)):
        made, wanted = getattr(vectorised, name)(np, a, b), getattr(np, name, np.remainder)(a, b)
        if name == "remainder":  # torch's zeros have the sign of a
            wanted = np.where(wanted == 0, np.copysign(wanted, a), wanted)
        assert made.dtype == dtype
        assert made.tobytes() == wanted.tobytes()


@pytest.mark.parametrize("name", ["arctan2", "logaddexp"])
def test_functions_of_two_operands_are_numpys(name: str) -> None:
    x, y = drawn(-5, 5), drawn(-5, 5)[::-1].copy()
    for b in (y, 1.5, -2, 0):
        made = getattr(vectorised, name)(np, x, b)
        wanted = getattr(np, name)(x.astype(np.float64), b if isinstance(b, (int, float)) else b.astype(np.float64))
        np.testing.assert_allclose(made, wanted, rtol=6e-7, atol=6e-7)


@pytest.mark.parametrize("dtype", [np.float32, np.float64])
@pytest.mark.parametrize("odd", [math.inf, -math.inf, math.nan, 0.0, -0.0, 1.0, -1.0, 3e38, 1e-45, 1e308, 5e-324])
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.nonfinite
def test_what_is_no_ordinary_number_gives_what_numpy_gives(odd: float, dtype: Any) -> None:
    x, y = drawn(0.1, 0.9).astype(dtype), drawn(0.1, 0.9).astype(dtype)
    x[:2], y[:2] = 0.5, 0.5
    with np.errstate(all="ignore"):
        x[7] = y[7] = x[8] = y[9] = odd
        for name in ("expm1", "sinh", "cosh", "log1p", "arctanh", "sin", "cos", "tan", "arctan", "arcsin", "arccos"):
            np.testing.assert_allclose(getattr(vectorised, name)(np, x), getattr(np, name)(x), rtol=1e-6, atol=1e-44)
        for name in ("arctan2", "logaddexp", "fmod", "remainder", "floor_divide"):
            np.testing.assert_allclose(getattr(vectorised, name)(np, x, y), getattr(np, name)(x, y), rtol=1e-6, atol=1e-6)
        size = np.hypot(x, y)
        wanted = np.where(size == 0, 0, x / size / size)
        np.testing.assert_allclose(vectorised.across(np.ones_like(x), x, y), wanted, rtol=1e-6, atol=1e-6)


def test_small_arrays_other_dtypes_and_other_orders_are_numpys_own() -> None:
    for x in (drawn(0, 1)[:100], drawn(0, 1).astype(np.float16), drawn(0, 1).reshape(300, 300).T):
        assert np.array_equal(vectorised.expm1(np, x), np.expm1(x))
        assert np.array_equal(vectorised.arctan2(np, x, x), np.arctan2(x, x))


@pytest.mark.nonfinite
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_float16_has_the_bits_of_numpys_cast_at_every_number_between_two_and_beside_it() -> None:
    halves = np.arange(1 << 16, dtype=np.uint16).view(np.float16).astype(np.float32)
    finite = np.unique(halves[np.isfinite(halves)])
    between = (finite[1:] + finite[:-1]) / 2
    cases = [np.nextafter(x, to) for x in (finite, between) for to in np.array([-math.inf, math.inf], np.float32)]
    for x in (*cases, finite, between, -finite, halves, np.geomspace(1e-45, 3e38, 5000).astype(np.float32)):
        long = np.resize(x, 1 << 17)
        assert vectorised.cast_half(long, gradlib.float16).tobytes() == long.astype(np.float16).tobytes()


@pytest.mark.nonfinite
def test_float32_has_the_bits_of_numpys_cast_of_every_float16() -> None:
    every = np.arange(1 << 16, dtype=np.uint16).view(np.float16)
    for x in (every, every[np.isfinite(every)]):
        assert vectorised.cast_half(x, gradlib.float32).tobytes() == x.astype(np.float32).tobytes()
    assert vectorised.cast_half(every[:100], gradlib.float32) is None
    assert vectorised.cast_half(every.reshape(256, 256).T, gradlib.float32) is None
    assert vectorised.cast_half(every, gradlib.float64) is None


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_long_arrays_give_the_same_bits_block_by_block(dtype: str, monkeypatch: pytest.MonkeyPatch) -> None:
    x, y, z = (drawn(0.5, 2).astype(dtype) * sign for sign in (-1, 1, 3))
    operands = [gradlib.tensor(each[:SIZE]) for each in (x, y, z)]
    for function in (
        lambda x, y, z: gradlib.lerp(x, y, 0.3), lambda x, y, z: gradlib.addcmul(x, y, z, value=0.1),
        lambda x, y, z: gradlib.addcdiv(z, x, y + 1), lambda x, y, z: gradlib.frac(x), lambda x, y, z: gradlib.complex(x, y),
        lambda x, y, z: gradlib.nn.functional.leaky_relu(x, 0.3),
    ):  # fmt: skip
        whole = function(*operands)
        with monkeypatch.context() as m:
            m.setattr(blocks, "_CACHED", 0)
            made = function(*operands)
        assert made.dtype == whole.dtype
        assert host(made).tobytes() == host(whole).tobytes()


def test_a_form_is_used_only_where_numpy_has_no_vector_loop_and_of_enough_elements(vector: frozenset[tuple[str, str]]) -> None:
    @forms.of_one(0, 1, chars="f", least=lambda: 2000)
    def expm1(x: np.ndarray, out: np.ndarray) -> None:
        out[...] = 7

    @forms.of_two(least=lambda: 2000)
    def hypot(x: np.ndarray, y: np.ndarray, out: np.ndarray) -> None:
        out[...] = 7

    x = np.full(2000, 0.5, np.float32)
    used = not vector
    assert (expm1(np, x) == 7).all() == used
    assert (hypot(np, x, x) == 7).all()  # of which NumPy has none anywhere
    for other in (x[1:], x.astype(np.float64)):
        assert np.array_equal(expm1(np, other), np.expm1(other))
    assert np.array_equal(hypot(np, x[1:], x[1:]), np.hypot(x[1:], x[1:]))


def dispatched(current: str) -> dict[str, Any]:
    """What NumPy says of two functions, one of each number of operands."""
    one = {"current": current, "available": f"{current} baseline(SSE2)"}
    return {"expm1": {"ee": one, "dd": one}, "arctan2": {"fff": one}, "add": {"fff": one}}


@pytest.mark.parametrize(
    ("current", "platform", "has_them"),
    [("AVX512_SKX", "linux", True), ("X86_V4", "linux", True), ("baseline(SSE2 AVX512F AVX512_SKX)", "linux", True),
     ("baseline(SSE2)", "linux", False), ("X86_V3", "linux", False), ("AVX512F", "linux", False), ("ASIMD", "linux", False),
     ("X86_V4", "win32", False), ("X86_V4", "darwin", False)],
)  # fmt: skip
def test_vector_loops_are_those_that_numpy_dispatches_to_where_it_is_built_with_svml(
    current: str, platform: str, has_them: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "platform", platform)
    monkeypatch.setattr(np.lib.introspect, "opt_func_info", lambda: dispatched(current))
    assert loops.found() == (frozenset({("expm1", "d"), ("arctan2", "f")}) if has_them else frozenset())


def test_vector_loops_are_found_where_the_processor_has_avx512() -> None:
    features = pytest.importorskip("numpy._core._multiarray_umath").__cpu_features__
    assert loops.found() == (EACH if features.get("AVX512_SKX") and sys.platform == "linux" else frozenset())


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("size", [10, 5000])
def test_in_place_the_functions_give_the_same_bits(size: int, dtype: str) -> None:
    x = gradlib.tensor(drawn(0, 1)[:size].astype(dtype))
    for name in ("sin", "cos", "tan", "expm1", "sinh", "log1p", "atan"):
        wanted = getattr(gradlib, name)(x)
        assert host(getattr(x.clone(), f"{name}_")()).tobytes() == host(wanted).tobytes()
    assert host(x.clone().atan2_(x + 1)).tobytes() == host(gradlib.atan2(x, x + 1)).tobytes()


def test_operations_call_the_functions_of_numpys_arrays_without_a_detour() -> None:
    for operation, function in ((gradlib.sin, vectorised.sin), (gradlib.expm1, vectorised.expm1), (gradlib.atan2, vectorised.arctan2)):
        assert operation.op.direct is function.on_host
    assert gradlib.exp.op.direct is np.exp
    assert gradlib.sigmoid.op.direct is None
