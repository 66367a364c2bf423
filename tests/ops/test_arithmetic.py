"""Pointwise operations of several inputs that calculate: promotion, integers, edges, operators, in-place forms."""

from __future__ import annotations

import math
import operator
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis.extra.numpy import BroadcastableShapes, mutually_broadcastable_shapes

import gradlib
from gradlib.autograd import forward_ad
from tests.ops.case import beside, t
from tests.values import host


def grads(function: Any, *values: Any) -> list[Any]:
    inputs = [t(v, gradlib.float64, True) for v in values]
    return [g.tolist() for g in gradlib.autograd.grad(function(*inputs).sum(), inputs)]


# ---- promotion ----------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("first", "second", "together"),
    [
        ("bool", "bool", "bool"), ("bool", "uint8", "uint8"), ("uint8", "int8", "int16"), ("int32", "int64", "int64"),
        ("int64", "float16", "float16"), ("float16", "float32", "float32"), ("float16", "bfloat16", "float32"),
        ("bfloat16", "int64", "bfloat16"), ("float32", "float64", "float64"), ("float64", "complex64", "complex128"),
        ("int64", "complex64", "complex64"), ("bool", "float16", "float16"),
    ],
)  # fmt: skip
def test_operands_meet_in_torchs_dtype(first: str, second: str, together: str) -> None:
    a, b = t([1, 0], first), t([1, 1], second)
    for function in (gradlib.add, gradlib.mul, operator.mul):
        assert function(a, b).dtype.name == function(b, a).dtype.name == together
    divided = gradlib.div(a, b).dtype.name
    assert divided == ("float32" if together in ("bool", "uint8", "int16", "int64") else together)


@pytest.mark.parametrize(
    ("dtype", "number", "result"),
    [
        ("uint8", 2, "uint8"), ("uint8", 2.5, "float32"), ("bool", True, "bool"), ("bool", 2, "int64"), ("float16", 2.5, "float16"),
        ("bfloat16", 2.5, "bfloat16"), ("float32", 1j, "complex64"), ("float64", 1j, "complex128"), ("int32", 1j, "complex64"),
    ],
)  # fmt: skip
def test_numbers_decide_only_the_kind(dtype: str, number: Any, result: str) -> None:
    x = t([1, 0], dtype)
    for found in (x * number, number * x, x + number, number + x):
        assert found.dtype.name == result


def test_numbers_wrap_into_small_integers() -> None:
    x = t([255, 1], "uint8")
    assert (x + 300).tolist() == [43, 45]
    assert (x * -1).tolist() == [1, 255]


def test_zero_dimensional_tensors_do_not_promote_their_kind() -> None:
    assert (t([1.0], "float32") * t(2.0, "float64")).dtype == gradlib.float32
    assert (t([1], "int16") + t(2, "int64")).dtype == gradlib.int16
    assert (t([1], "int16") + t(2.5, "float64")).dtype == gradlib.float64


def test_gradients_return_in_the_dtype_of_their_input() -> None:
    a, b, n = t([1.0, 2.0], "float32", True), t([[3.0], [4.0]], "float64", True), t([1, 2])
    (a * b / n - a).sum().backward()
    assert (a.grad.dtype, b.grad.dtype) == (gradlib.float32, gradlib.float64)
    np.testing.assert_allclose(host(a.grad), [5, 1.5])
    np.testing.assert_allclose(host(b.grad), [[2], [2]])
    z = t([1 + 2j], "complex128")
    x = t([2.0], "float64", True)
    (x * z).real.sum().backward()
    assert x.grad.tolist() == [1]


def test_integers_beside_a_float_have_no_tangent() -> None:
    n, mask = t([3, 4]), t([True, False])
    with forward_ad.dual_level():
        x = forward_ad.make_dual(t([1.0, 2.0]), t([10.0, 20.0]))
        for value, tangent in ((x + n, [10, 20]), (n - x, [-10, -20]), (x * n, [30, 80]), (gradlib.where(mask, x, n), [10, 0])):
            assert forward_ad.unpack_dual(value).tangent.tolist() == tangent


# ---- sums -----------------------------------------------------------------------------------------------------------------------


def test_masks_add_but_do_not_subtract() -> None:
    mask = t([True, False])
    assert (mask + mask).tolist() == [True, False]
    for wrong in (lambda: mask - mask, lambda: 1 - mask, lambda: t([1, 2]) - mask, lambda: t([1, 2]) - True, lambda: mask - t([1, 2])):
        with pytest.raises(RuntimeError, match="Subtraction"):
            wrong()


def test_alpha_scales_the_second_operand() -> None:
    assert gradlib.add(t([1, 2]), t([3, 4]), alpha=2).tolist() == [7, 10]
    assert gradlib.sub(t([1.0]), 2, alpha=0.5).tolist() == [0]
    assert gradlib.rsub(t([1.0]), 2, alpha=3).tolist() == [-1]
    assert t([1.0]).add(t([2.0]), alpha=-1).tolist() == [-1]
    for alpha, dtype, words in ((1.5, "int64", "floating point"), (True, "int64", "Boolean"), (1j, "float32", "complex")):
        with pytest.raises(RuntimeError, match=words):
            gradlib.add(t([1], dtype), t([1], dtype), alpha=alpha)


# ---- whole-number division --------------------------------------------------------------------------------------------------------


def test_integer_division_and_its_signs() -> None:
    a, b = t([7, 7, -7, -7, 6]), t([2, -2, 2, -2, -3])
    assert (a // b).tolist() == [3, -4, -4, 3, -2]
    assert gradlib.div(a, b, rounding_mode="floor").tolist() == [3, -4, -4, 3, -2]
    assert gradlib.div(a, b, rounding_mode="trunc").tolist() == [3, -3, -3, 3, -2]
    assert (a % b).tolist() == [1, -1, 1, -1, 0]
    assert gradlib.fmod(a, b).tolist() == [1, 1, -1, -1, 0]
    assert (7 // t([2, -2])).tolist() == [3, -4]
    assert (7 % t([4, -4])).tolist() == [3, -1]
    assert (a / b).dtype == gradlib.float32
    assert gradlib.div(t([7], "uint8"), 2, rounding_mode="trunc").dtype == gradlib.uint8


def test_float_division_rounds_and_keeps_signs() -> None:
    a, b = t([7.5, -7.5, 7.5]), t([2.0, 2.0, -2.0])
    assert (a // b).tolist() == [3, -4, -4]
    assert gradlib.div(a, b, rounding_mode="trunc").tolist() == [3, -3, -3]
    assert (a % b).tolist() == [1.5, 0.5, -0.5]
    assert gradlib.fmod(a, b).tolist() == [1.5, -1.5, 1.5]


def test_quotients_that_only_rounding_makes_whole() -> None:
    """1 / 0.1 rounds to 10, but 0.1 is a little more than a tenth."""
    pairs = [(1.0, 0.1), (-1.0, 0.1), (1.0, -0.1), (6.0, 2.0), (1e17, 3.0), (5.0, math.inf), (-5.0, math.inf), (0.3, -math.inf)]
    for a, b in pairs:
        assert (t([a], "float64") // t([b], "float64")).item() == a // b
        assert (t([a], "float64") // b).item() == (a // t([b], "float64")).item() == a // b
        assert (t([a], "float64") % t([b], "float64")).item() == a % b
        assert (t([a], "float64") % b).item() == (a % t([b], "float64")).item() == a % b
    assert math.copysign(1, (t([-0.0], "float64") // 2).item()) == -1


def test_whole_division_of_large_integers() -> None:
    large, small = [2**62 + 1, -(2**62) - 1, 2**62 + 1, -(2**62) - 1, 7], [3, 3, -3, -3, -7]
    a, b = t(large), t(small)
    assert (a // b).tolist() == [x // y for x, y in zip(large, small, strict=True)]
    assert (a % b).tolist() == [x % y for x, y in zip(large, small, strict=True)]
    assert gradlib.fmod(a, b).tolist() == [int(math.copysign(abs(x) % abs(y), x)) for x, y in zip(large, small, strict=True)]
    assert gradlib.fmod(a, 3).tolist() == [2, -2, 2, -2, 1]


whole_divisions = pytest.mark.parametrize(
    "function",
    [operator.floordiv, operator.mod, gradlib.fmod, lambda a, b: gradlib.div(a, b, rounding_mode="trunc")],
    ids=["floor_divide", "remainder", "fmod", "trunc"],
)


@pytest.mark.parametrize("dtype", [np.float16, np.float32, np.float64])
def test_what_a_division_leaves_of_a_multiple_is_a_zero_of_the_dividends_sign(dtype: Any) -> None:
    for repeated in (1, 300, 3000):  # few elements, more of them, several blocks
        x, y = np.tile(dtype([6, -6, 0.0, -0.0, 5, -5, 4, -4]), repeated), np.tile(dtype([3, 3, 3, 3, 3, 3, -2, -2]), repeated)
        left = np.tile(dtype([0.0, -0.0, 0.0, -0.0, 2, 1, 0.0, -0.0]), repeated)
        floored = np.tile(dtype([2, -2, 0.0, -0.0, 1, -2, -2, 2]), repeated)
        for made, wanted in (
            (t(x) % t(y), left), (gradlib.fmod(t(x), t(y)), np.where(left == 1, -2, left)), (t(x) // t(y), floored),
            (t(x) % 2, np.where(left > 0, 1, np.copysign(0, x))), (t(x) % -2, np.where(left > 0, -1, np.copysign(0, x))),
            (6 % t(y), np.zeros_like(x)), (-6 % t(y), np.full_like(x, -0.0)), (t(x)[0] % t(y)[6], 0.0), (t(x)[1] % -2, -0.0),
        ):  # fmt: skip
            np.testing.assert_array_equal(host(made), np.asarray(wanted, dtype))
            np.testing.assert_array_equal(np.signbit(host(made)), np.signbit(wanted))


@pytest.mark.nonfinite
@pytest.mark.parametrize("dtype", [gradlib.complex64, gradlib.complex128])
def test_zero_to_the_power_of_a_complex_number(dtype: Any) -> None:
    zeros = [0j, complex(-0.0, 0.0), complex(0.0, -0.0)]
    for power in (-0.9 + 1.2j, -2 - 1j, complex(-1, 0)):
        for made in (t(zeros, dtype) ** power, t(zeros, dtype) ** t([power], dtype), 0.0 ** t([power] * 3, dtype), t(0j, dtype) ** power):
            assert np.isinf(host(made).real).all()
            assert np.isnan(host(made).imag).all()
            assert made.dtype == dtype
    assert (t([*zeros, 1.0], dtype) ** t([0.5 + 1j, 2, 3 - 1j, 2j], dtype)).tolist() == [0, 0, 0, 1]


def test_masks_to_the_power_of_a_bool_are_masks() -> None:
    x = t([True, False])
    for power, want in ((True, [True, False]), (False, [True, True])):
        assert (x**power).dtype == gradlib.bool
        assert (x**power).tolist() == want
    for refused in (lambda: x**x, lambda: True**x, lambda: x ** t(True)):
        with pytest.raises(NotImplementedError, match="pow is not implemented for bool"):
            refused()


@pytest.mark.host  # on a CUDA device somebody would have to wait for the error
@whole_divisions
def test_integers_by_zero_are_refused(function: Any) -> None:
    for way in ("raise", "ignore"):  # NumPy's settings, of which a user's are "warn", decide nothing
        with np.errstate(divide=way), pytest.raises(RuntimeError, match="ZeroDivisionError"):
            function(t([1, 2]), t([1, 0]))


@whole_divisions
def test_masks_are_not_divided(function: Any) -> None:
    with pytest.raises(RuntimeError, match="not implemented for bool"):
        function(t([True]), t([True]))


@pytest.mark.nonfinite
def test_the_tangent_of_a_quotient_by_zero_is_infinite() -> None:
    """(a' - b' a / b) / b, as torch has it; the sum of two terms would be NaN."""
    with forward_ad.dual_level():
        a, b = forward_ad.make_dual(t([1.0, -1.0, 1.0]), t([0.0, 0.0, 1.0])), forward_ad.make_dual(t([0.0, 0.0, 2.0]), t([1.0, 1.0, 1.0]))
        assert forward_ad.unpack_dual(a / b).tangent.tolist() == [-math.inf, math.inf, 0.25]
        assert forward_ad.unpack_dual(a / t([0.0, 0.0, 2.0])).tangent.isnan().tolist() == [True, True, False]
        column = forward_ad.make_dual(t([[0.0], [2.0]]), t([[1.0], [1.0]]))
        assert forward_ad.unpack_dual(a / column).tangent.tolist() == [[-math.inf, math.inf, -math.inf], [-0.25, 0.25, 0.25]]
    x = t([0.0], requires_grad=True)
    assert gradlib.func.jvp(lambda b: (b + 1) / b, (x,), (t([1.0]),))[1].tolist() == [-math.inf]


@pytest.mark.nonfinite
def test_floats_by_zero_are_not_numbers_or_infinite() -> None:
    x = t([1.5, -2.0])
    assert (x // 0).tolist() == [math.inf, -math.inf]
    assert (x / 0).tolist() == [math.inf, -math.inf]
    assert (x % 0).isnan().tolist() == [True, True]


@pytest.mark.nonfinite
def test_the_gradient_of_a_rest_of_integers_by_a_float_that_is_zero() -> None:
    by = gradlib.tensor([2.5, 0.0], requires_grad=True)
    gradlib.remainder(gradlib.tensor([7, 1]), by).sum().backward()
    assert by.grad.tolist() == [-2.0, -math.inf]


@pytest.mark.parametrize("dtype", ["float64", "float32"])
def test_so_is_that_by_a_float_of_which_rounding_makes_a_whole_quotient(dtype: str) -> None:
    """3 divided by 0.1 is a little less than 30; 1 by -inf a little less than 0."""
    by = t([0.1, -math.inf], dtype, True)
    gradlib.remainder(gradlib.tensor([3, 1]), by).sum().backward()
    assert by.grad.tolist() == [-29, 1]


def test_rounded_quotients_have_zero_gradients() -> None:
    for mode in ("floor", "trunc"):
        assert grads(lambda a, b, mode=mode: gradlib.div(a, b, rounding_mode=mode), [7.5], [2.0]) == [[0], [0]]
    assert grads(operator.mod, [7.5, -7.5], [2.0, 2.0]) == [[1, 1], [-3, 4]]
    assert grads(gradlib.fmod, [7.5, -7.5], [2.0, 2.0]) == [[1, 1], [-3, 3]]


def test_an_unknown_rounding_mode() -> None:
    with pytest.raises(RuntimeError, match="'trunc', or 'floor' but found 'up'"):
        gradlib.div(t([1.0]), 2, rounding_mode="up")


# ---- powers -----------------------------------------------------------------------------------------------------------------------


def test_integer_powers() -> None:
    assert (t([-3, 2]) ** 2).tolist() == [9, 4]
    assert (2 ** t([3, 0])).tolist() == [8, 1]
    assert (t([True, False]) ** 2).dtype == gradlib.int64
    assert (t([0, 1, -1, -1, 5]) ** t([-1, -3, -3, -2, -2])).tolist() == [0, 1, -1, 1, 0]
    assert (t([4]) ** 0.5).dtype == gradlib.float32
    for base in (t([-3, 2]), t([2], "uint8")):
        with pytest.raises(RuntimeError, match="negative integer powers"):
            base**-1
    with pytest.raises(RuntimeError, match="not implemented for bool"):
        t([True]) ** t([True])


@pytest.mark.parametrize("exponent", [0, 1, 2, 3, 4, 0.5, -1, -0.5, 2.5])
def test_the_short_ways_agree_with_the_long_one(exponent: float) -> None:
    x = np.array([0.5, 1.0, 2.25, 7.0])
    for dtype, tolerance in (("float64", 1e-14), ("float32", 1e-6), ("complex128", 1e-14)):
        found = host(t(x, dtype) ** exponent)
        np.testing.assert_allclose(found, np.exp(exponent * np.log(x)), rtol=tolerance)
        np.testing.assert_allclose(host(t(x, dtype) ** t(exponent)), found, rtol=tolerance)


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_squares_cubes_roots_and_reciprocals_are_exact(dtype: str) -> None:
    """They are no ``pow``, whose last bit may be another."""
    x = gradlib.linspace(0.1, 3, 500).to(getattr(gradlib, dtype))
    array = host(x._array)
    squares, ones = array * array, 1 / array
    for exponent, expected in ((2, squares), (2.0, squares), (3, squares * array), (0.5, np.sqrt(array)), (-1, ones), (-1.0, ones)):
        assert np.array_equal(host((x**exponent)._array), expected), exponent


@pytest.mark.nonfinite
def test_powers_of_zero() -> None:
    def power(a: Any, b: Any) -> Any:
        return a**b

    base, exponent = grads(power, [0.0, 0.0, 0.0, 2.0], [0.0, 2.0, 1.0, 0.0])
    assert base == [0, 0, 1, 0]
    assert exponent == [0, 0, 0, math.log(2)]
    assert grads(power, [0.0], [-1.0]) == [[-math.inf], [-math.inf]]
    assert grads(lambda a: a**0, [0.0, 3.0]) == [[0, 0]]
    assert grads(lambda a: a**1, [0.0, 3.0]) == [[1, 1]]
    assert grads(lambda b: 0**b, [0.0, 2.0]) == [[0, 0]]
    assert grads(lambda b: 0.0**b, [-1.0]) == [[-math.inf]]
    assert math.isnan(grads(lambda b: (-2.0) ** b, [2.0])[0][0])


def test_powers_of_integers_by_floats_differentiate() -> None:
    b = t([0.5, 2.0], "float64", True)
    (t([4, 3]) ** b).sum().backward()
    np.testing.assert_allclose(host(b.grad), [2 * math.log(4), 9 * math.log(3)], rtol=1e-12)


def test_complex_base_as_a_number() -> None:
    b = t([0.5 + 1j], "complex128", True)
    (1j**b).abs().sum().backward()
    angle = math.pi / 2
    np.testing.assert_allclose(host(b.grad), [-1j * angle * math.exp(-angle)], rtol=1e-12)


# ---- the plane, exponentials, between -----------------------------------------------------------------------------------------------


def test_angles_in_all_quadrants_and_integers() -> None:
    found = gradlib.atan2(t([1.0, 1.0, -1.0, -1.0, 0.0]), t([1.0, -1.0, -1.0, 1.0, -1.0]))
    np.testing.assert_allclose(host(found) / np.pi, [0.25, 0.75, -0.75, -0.25, 1], rtol=1e-6)
    small = t([200], "uint8")
    x = t([3.0], "float64", True)
    gradlib.atan2(small, x).sum().backward()
    np.testing.assert_allclose(host(x.grad), [-200 / 40009], rtol=1e-12)
    assert gradlib.atan2(t([1]), t([0])).dtype == gradlib.float32


def test_hypot_does_not_overflow_on_the_way() -> None:
    x, y = t([3e200], "float64", True), t([4e200], "float64", True)
    size = gradlib.hypot(x, y)
    size.sum().backward()
    np.testing.assert_allclose([size.item(), x.grad.item(), y.grad.item()], [5e200, 0.6, 0.8])


def test_logaddexp_far_apart() -> None:
    x, y = t([1000.0, -1000.0], "float64", True), t([-1000.0, -1000.0], "float64", True)
    found = gradlib.logaddexp(x, y)
    found.sum().backward()
    np.testing.assert_allclose(host(found), [1000, math.log(2) - 1000])
    assert x.grad.tolist() == [1, 0.5]
    assert y.grad.tolist() == [0, 0.5]


def test_lerp_reaches_its_end() -> None:
    a, b = t([1e8, 0.1]), t([1.0, 0.3])
    assert gradlib.lerp(a, b, 1.0).tolist() == b.tolist()
    assert gradlib.lerp(a, b, t([0.0, 1.0])).tolist() == [a[0].item(), b[1].item()]
    assert a.lerp(b, 0.25).dtype == gradlib.float32


def test_lerp_goes_between_tensors_of_one_float_dtype() -> None:
    a, b = t([1.0, 2.0]), t([2.0, 3.0])
    assert gradlib.lerp(a, b, t(0.5, "float64")).dtype == gradlib.float32
    for end, weight in ((b.double(), 0.5), (b[0].double(), 0.5), (b, t([0.5, 0.5], "float64")), (b.half(), 0.5)):
        with pytest.raises(RuntimeError, match=r"lerp: expected (end|weight) of dtype float32"):
            gradlib.lerp(a, end, weight)
    with pytest.raises(RuntimeError, match="expected end"):
        a.lerp_(b.double(), 0.5)
    for weight in (0.5, t([1, 1])):
        with pytest.raises(NotImplementedError, match="lerp is not implemented for int64"):
            gradlib.lerp(t([1, 2]), t([2, 3]), weight)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_types_are_scaled_in_float32(dtype: str) -> None:
    x = t([0.0, 2.0**-12], dtype)
    assert gradlib.addcmul(x, x, x, value=2.0**20).tolist() == [0.0, 2.0**-12 + 2.0**-4 if dtype == "float16" else 0.0625]
    assert gradlib.addcdiv(t([0.0], dtype), t([0.0], dtype), t([1.0], dtype), value=2.0**20).tolist() == [0.0]
    assert gradlib.lerp(x, x, 2.0**20).tolist() == x.tolist()


def test_products_added() -> None:
    n = t([1, 2])
    assert gradlib.addcmul(n, n, n, value=3).tolist() == [4, 14]
    assert gradlib.addcmul(t([1.0], "float16"), t([3]), t([3]), value=0.5).dtype == gradlib.float16
    with pytest.raises(RuntimeError, match="integers by integers"):
        gradlib.addcdiv(t([1.0]), n, n)
    x = t([1.0, 2.0], requires_grad=True)
    y = x * 1
    y.addcmul_(x, x, value=2).addcdiv_(x, n, value=-1)
    np.testing.assert_allclose(host(y), [2, 9])
    y.sum().backward()
    np.testing.assert_allclose(host(x.grad), [4, 8.5])


# ---- operators ----------------------------------------------------------------------------------------------------------------------


class Polynomial:
    """An operand that knows what to do with a Tensor."""

    def __radd__(self, other: Any) -> str:
        return "radd"

    def __rpow__(self, other: Any) -> str:
        return "rpow"

    def __lt__(self, other: Any) -> str:
        return "lt"


def test_operators_leave_what_they_do_not_know_to_the_other_operand() -> None:
    x = t([1.0])
    assert x + Polynomial() == "radd"
    assert x ** Polynomial() == "rpow"
    assert (x > Polynomial()) == "lt"
    for other in (None, "a", [1.0], Polynomial()):
        with pytest.raises(TypeError):
            x - other
        with pytest.raises(TypeError):
            other / x
    with pytest.raises(TypeError, match="must be Tensor or number, not str"):
        gradlib.mul(x, "a")


def test_arrays_and_python_sums() -> None:
    x = t([1.0, 2.0], "float64", True)
    array = beside(x, np.array([3.0, 4.0]))
    for found, want in ((array - x, [2, 2]), (x - array, [-2, -2]), (array * x, [3, 8]), (array**x, [3, 16]), (np.float64(2) * x, [2, 4])):
        assert isinstance(found, gradlib.Tensor)
        assert found.tolist() == want
        assert found.requires_grad
    assert sum([x, x]).tolist() == [2, 4]


@pytest.mark.parametrize(
    ("function", "want", "slope"),
    [
        (operator.iadd, [5, 7], [1, 1]), (operator.isub, [-1, -1], [1, 1]), (operator.imul, [6, 12], [3, 4]),
        (operator.itruediv, [2 / 3, 0.75], [1 / 3, 0.25]), (operator.ipow, [8, 81], [12, 108]), (operator.imod, [2, 3], [1, 1]),
        (operator.ifloordiv, [0, 0], [0, 0]),
    ],
)  # fmt: skip
def test_operators_in_place(function: Any, want: list[float], slope: list[float]) -> None:
    x, y = t([2.0, 3.0], "float64", True), t([3.0, 4.0], "float64")
    written = x * 1
    memory = written.data_ptr()
    result = function(written, y)
    assert result is written
    assert result.data_ptr() == memory
    np.testing.assert_allclose(host(result), want)
    result.sum().backward()
    np.testing.assert_allclose(host(x.grad), slope)


def test_in_place_forms_take_torchs_arguments() -> None:
    x = t([4.0, 9.0])
    x.add_(t([1.0, 1.0]), alpha=2).sub_(1, alpha=3).mul_(2).div_(4).pow_(2)
    np.testing.assert_allclose(host(x), [2.25, 16])
    assert x.div_(3, rounding_mode="floor").tolist() == [0, 5]
    assert x.lerp_(t([2.0, 1.0]), 0.5).tolist() == [1, 3]
    y = t([1, 2])
    for wrong in (lambda: y.add_(1.5), lambda: y.div_(2), lambda: y.add_(t([1.0])), lambda: y.mul_(1j)):
        with pytest.raises(RuntimeError, match="can't be cast"):
            wrong()
    with pytest.raises(RuntimeError, match="broadcast"):
        y.add_(t([[1, 2], [3, 4]]))
    assert y.floor_divide_(2).tolist() == [0, 1]


def test_shapes_that_do_not_fit() -> None:
    with pytest.raises(RuntimeError, match=r"add: .*\[2\].*\[3\]"):
        t([1.0, 2.0]) + t([1.0, 2.0, 3.0])


@given(mutually_broadcastable_shapes(num_shapes=2, max_dims=3, min_side=0, max_side=3))
def test_broadcasting_is_undone(drawn: BroadcastableShapes) -> None:
    shapes = drawn.input_shapes
    a, b = (gradlib.ones(shape, dtype=gradlib.float64, requires_grad=True) for shape in shapes)
    result = a * 2 + b / 4 - a * b
    assert result.shape == drawn.result_shape
    result.sum().backward()
    for x, slope in ((a, 1.0), (b, -0.75)):
        copies = result.numel() / x.numel() if x.numel() else 0
        assert x.grad.shape == x.shape
        np.testing.assert_allclose(host(x.grad), slope * copies)


@pytest.mark.nonfinite
def test_zero_to_an_unknown_power_has_an_unknown_slope() -> None:
    exponent = gradlib.tensor([1.0, -1.0, math.nan, 0.0], requires_grad=True)
    (0**exponent).sum().backward()
    assert str(exponent.grad.tolist()) == "[0.0, -inf, nan, 0.0]"


# ---- dtypes of a factor, and powers of nothing --------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["int64", "int8", "bool"])
@pytest.mark.parametrize("name", ["add", "sub"])
def test_a_factor_does_not_change_where_operands_meet(name: str, dtype: str) -> None:
    """alpha multiplies in the common dtype: 0.3 of a mask beside float64 is not first rounded to float32."""
    precise, small = gradlib.tensor(0.1, dtype="float64"), gradlib.ones(3, dtype=dtype)
    if name == "add" or dtype != "bool":
        made = getattr(gradlib, name)(precise, small, alpha=0.3)
        assert made.dtype == gradlib.float64
        np.testing.assert_array_equal(host(made), np.full(3, 0.1 + 0.3 * (1 if name == "add" else -1)))
        half = getattr(gradlib, name)(gradlib.ones(3, dtype="float16"), small, alpha=0.5)
        assert half.dtype == gradlib.float16
    mine = gradlib.ones((), dtype="float64")
    assert mine.add_(small[0], alpha=0.3).item() == 1.3


def test_a_factor_of_masks() -> None:
    mask = gradlib.tensor([True, False])
    assert gradlib.add(mask, gradlib.tensor([True, True]), alpha=False).tolist() == [True, False]
    assert gradlib.add(mask, gradlib.tensor([True, True]), alpha=True).tolist() == [True, True]


@pytest.mark.nonfinite
@pytest.mark.parametrize("dtype", ["float64", "float16"])
def test_the_base_zero_keeps_dtype_and_nan(dtype: str) -> None:
    exponent = gradlib.tensor([math.nan, -1.0, 0.0, 2.0], dtype=dtype, requires_grad=True)
    (slope,) = gradlib.autograd.grad((0.0**exponent).sum(), exponent)
    np.testing.assert_array_equal(host(slope), [math.nan, -math.inf, 0, 0])
    with forward_ad.dual_level():
        tangent = forward_ad.unpack_dual(0.0 ** forward_ad.make_dual(exponent.detach(), gradlib.ones_like(exponent).detach())).tangent
    assert tangent.dtype == exponent.dtype
    np.testing.assert_array_equal(host(tangent), [math.nan, -math.inf, 0, 0])


def test_the_angle_of_the_origin_has_no_slope() -> None:
    y, x = gradlib.zeros(1, requires_grad=True), gradlib.zeros(1, requires_grad=True)
    gradlib.atan2(y, x).sum().backward()
    assert (y.grad.item(), x.grad.item()) == (0, 0)


@pytest.mark.parametrize("dtype", ["uint8", "int8", "int32"])
def test_a_number_that_an_integer_dtype_does_not_hold_is_refused(dtype: str) -> None:
    """But for operators, where it wraps, as in torch."""
    x = gradlib.tensor([1, 2], dtype=dtype)
    many = 2**40
    calls = [
        lambda: gradlib.clamp(x, max=many), lambda: gradlib.clamp_min(x, many), lambda: x.clamp(0, many), lambda: x.clone().clamp_(many),
        lambda: gradlib.where(x > 1, x, many), lambda: x**many, lambda: gradlib.nn.functional.pad(x, (1, 1), value=many),
        lambda: gradlib.add(x, x, alpha=many), lambda: gradlib.sub(x, x, alpha=many), lambda: x.clone().add_(x, alpha=many),
        lambda: gradlib.addcmul(x, x, x, value=many), lambda: gradlib.addmm(x[None], x[None], x[:, None] * x, alpha=many),
        lambda: x.index_add(0, gradlib.tensor([0]), x[:1], alpha=many),
    ]  # fmt: skip
    for call in calls:
        with pytest.raises(RuntimeError, match="without overflow"):
            call()
    assert (x + many).tolist() == (x * many + x).tolist() == [1, 2]


def test_a_negative_factor_of_unsigned_integers_wraps() -> None:
    x = gradlib.tensor([1, 2], dtype="uint8")
    assert gradlib.addcmul(x, x, x, value=-2).tolist() == [255, 250]
    assert gradlib.add(x, x, alpha=-2).tolist() == [255, 254]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_types_meet_factors_in_float32(dtype: str) -> None:
    """As in torch: a factor that they cannot hold is no inf, and one that they would round is not rounded before the product."""
    many, third = 2.0**20, 1 / 3
    x = gradlib.tensor([0.0, 2.0**-12, 1.5, -3.0], dtype=dtype)
    wide = x.float()
    calls = [
        lambda x: x * third, lambda x: third * x, lambda x: x / 3.3, lambda x: 1e-3 / x[1:],
        lambda x: x * gradlib.tensor(third), lambda x: x.clone().mul_(third), lambda x: x.clone().div_(third),
    ]  # fmt: skip
    for call in calls:
        assert call(x).dtype == x.dtype
        assert call(x).tolist() == call(wide).to(dtype).tolist()
    y = x[:2]
    assert (y * many).tolist() == (many * y).tolist() == y.clone().mul_(many).tolist() == [0.0, 256.0]
    assert (gradlib.tensor([math.inf, 4.0], dtype=dtype) / many).tolist() == [math.inf, gradlib.tensor(4 / many, dtype=dtype).item()]


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_so_do_integers_where_a_half_type_is_the_default(dtype: str) -> None:
    x = gradlib.arange(2, 300)
    wide = x.to(dtype).float()  # bfloat16 rounds those above 256
    gradlib.set_default_dtype(dtype)
    try:
        for call in (lambda x: x * 0.1, lambda x: 0.1 * x, lambda x: x / 3.3, lambda x: 65536.0 / x, lambda x: x * gradlib.tensor(0.1)):
            assert call(x).dtype == dtype
            assert call(x).tolist() == call(wide).to(dtype).tolist()
    finally:
        gradlib.set_default_dtype(gradlib.float32)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_so_do_their_derivatives(dtype: str) -> None:
    """A loss scaled by a factor that overflows float16, as mixed precision scales it."""
    x = gradlib.tensor([2.0**-12, 2.0**-10], dtype=dtype, requires_grad=True)
    g = gradlib.full((2,), 2.0**-8, dtype=dtype)
    for call, want in ((lambda x: x * 2.0**17, 512.0), (lambda x: x / 2.0**-17, 512.0), (lambda x: 2.0**17 * x, 512.0)):
        (slope,) = gradlib.autograd.grad(call(x), x, g, create_graph=True)
        assert slope.dtype == x.dtype
        assert slope.tolist() == [want, want]
        value, tangent = gradlib.func.jvp(call, (x.detach(),), (g,))
        assert tangent.tolist() == [want, want]
        assert gradlib.func.vmap(call)(x.detach()).tolist() == value.tolist()


def test_signs_of_zeros_and_nan(device: str) -> None:
    x = gradlib.tensor([0.0, -0.0, 2.0, -math.inf, math.nan], dtype=gradlib.float64, device=device, requires_grad=True)
    y = gradlib.copysign(x, gradlib.tensor([-1.0, 1.0, -0.0, 1.0, -1.0], dtype=gradlib.float64, device=device))
    assert gradlib.signbit(y).tolist() == [True, False, True, False, True]
    y[:4].sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [0, 0, -1, -1, 0]
    assert gradlib.copysign(gradlib.tensor([1, -2], device=device), -1.0).tolist() == [-1, -2]
    assert gradlib.signbit(gradlib.tensor([1, -2], device=device)).tolist() == [False, True]
    assert gradlib.signbit(gradlib.tensor([200], dtype=gradlib.uint8, device=device)).tolist() == [False]
    with pytest.raises(NotImplementedError, match="only for float tensors"):
        gradlib.nextafter(gradlib.tensor([1]), gradlib.tensor([2]))


@pytest.mark.nonfinite
@pytest.mark.parametrize("dtype", ["float16", "float32", "float64"])
def test_the_numbers_next_to_infinities(dtype: str) -> None:
    largest = float(np.finfo(dtype).max)
    x = gradlib.tensor([math.inf, -math.inf, math.inf, -math.inf, math.inf, math.nan, largest], dtype=dtype)
    to = gradlib.tensor([0.0, math.inf, math.inf, -math.inf, math.nan, 1.0, math.inf], dtype=dtype)
    np.testing.assert_array_equal(host(gradlib.nextafter(x, to)), [largest, -largest, math.inf, -math.inf, math.nan, math.nan, math.inf])
    start = gradlib.tensor([1.0, 2.0]).requires_grad_()
    gradlib.nextafter(start, gradlib.tensor([1.0, 3.0])).backward(gradlib.tensor([math.nan, 5.0]))
    assert start.grad.tolist() == [0, 5]  # where nothing moves, nothing of the gradient passes


BEYOND = {
    "clamp": (lambda x, number: gradlib.clamp(x, max=number), {"float16": 7e4, "float32": 1e300, "int64": 1e300}),
    "clamp_": (lambda x, number: x.clone().clamp_(number), {"float16": 7e4, "float32": 1e300}),
    "where": (lambda x, number: gradlib.where(x != 1, x, number), {"float32": 1e300, "complex64": 1e300, "int64": 1e300}),
    "lerp": (lambda x, number: gradlib.lerp(x, x + 1, number), {"float16": 1e300, "float32": 1e300, "float64": 1j}),
    "elu": (gradlib.nn.functional.elu, {"float16": 1e300, "float32": 1e300}),
    "leaky_relu": (gradlib.nn.functional.leaky_relu, {"float16": 1e300, "float32": 1e300}),
    "softplus": (gradlib.nn.functional.softplus, {"float16": 1e300, "float32": 1e300}),
    "pow": (gradlib.pow, {"float16": 7e4}),
    "addmm": (lambda x, number: gradlib.addmm(x, x[:, None], x[None], alpha=number), {"float16": 1e300, "float32": 1e300}),
}


@pytest.mark.parametrize("name", BEYOND)
def test_numbers_that_a_dtype_does_not_hold_are_refused(name: str) -> None:
    """By one rule, ``dtypes.fitted``; infinity and NaN it holds, and float64 every number."""
    call, beyond = BEYOND[name]
    for dtype, number in beyond.items():
        x = gradlib.tensor([1, 2]).to(getattr(gradlib, dtype))
        with pytest.raises(RuntimeError, match="without overflow"):
            call(x, number)
        if dtype == "float32":
            for wants in (x.double(), x.clone().requires_grad_()):
                with np.errstate(all="ignore"):
                    call(wants, 1e300 if wants.dtype == gradlib.float64 else math.inf)
        if dtype == "float32" and not name.endswith("_"):
            with forward_ad.dual_level(), pytest.raises(RuntimeError, match="without overflow"):
                call(forward_ad.make_dual(x, gradlib.ones(2)), number)


def test_a_number_that_half_types_do_not_hold_becomes_infinite_where_torch_lets_it() -> None:
    x = gradlib.tensor([1.0, 2.0], dtype=gradlib.float16)
    with np.errstate(over="ignore"):
        assert gradlib.where(x > 1, x, -1e9).tolist() == [-math.inf, 2]
        assert gradlib.lerp(x, x, 7e4).tolist() == [1, 2]


@pytest.mark.nonfinite
@pytest.mark.parametrize("infinite", [math.inf, -math.inf])
def test_infinite_cotangents_and_tangents_stay_infinite(infinite: float) -> None:
    for call in (gradlib.tanh, lambda x: gradlib.lerp(x, gradlib.tensor(1.0), 0.25)):
        x = gradlib.tensor(0.5, requires_grad=True)
        call(x).backward(gradlib.tensor(infinite))
        assert x.grad.item() == infinite
        assert gradlib.func.jvp(call, (x.detach(),), (gradlib.tensor(infinite),))[1].item() == infinite
