"""The kernels for small pointwise operations give CuPy's bits, and leave to CuPy what they do not serve."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.backend import pointwise, pointwise_text, spaced, where
from gradlib.backend.division import float_floor_divide, float_modulo, float_remainder
from gradlib.backend.dtype import as_dtype
from gradlib.backend.formulas import close
from tests.device import cupy, skip_module_without_cuda

skip_module_without_cuda()
pytestmark = [pytest.mark.cuda, pytest.mark.host]
SPECIAL = [0.0, -0.0, np.inf, -np.inf, np.nan, 1.5, -2.25, 1e-30]


def same_bits(found: Any, expected: Any) -> bool:
    """Whether two arrays are equal in shape, dtype and every bit but a NaN's."""
    a, b = (x.get() if x.dtype.kind != "V" else x.astype("float32").get() for x in (found, expected))
    alike = found.dtype == expected.dtype and np.array_equal(a, b, equal_nan=a.dtype.kind == "f")
    return alike and np.array_equal(np.signbit(a) & (a == a), np.signbit(b) & (b == b))


def watched(name: str, seen: list[str]) -> Any:
    """CuPy's function, noting that it was called."""

    def run(*args: Any) -> Any:
        seen.append(name)
        return getattr(cupy, name)(*args)

    return run


def rounded_floor_divide(x: Any, y: Any) -> Any:
    """Of half types in float32, numbers rounded to the half type, as the kernels compute."""
    dtype = x.dtype if hasattr(x, "dtype") else y.dtype
    given = [x, y]
    if dtype.itemsize == 2:
        given = [each.astype("float32") if hasattr(each, "dtype") else np.float32(dtype.type(each)) for each in given]
    return float_floor_divide(*given).astype(dtype)


def numpy_of(name: str) -> Callable[..., Any]:
    """NumPy's function of CuPy arrays: it says what shifts by more than all bits give."""
    return lambda *given: cupy.asarray(getattr(np, name)(*[cupy.asnumpy(each) if hasattr(each, "get") else each for each in given]))


def power_of_whole(x: Any, y: Any) -> Any:
    """Of integers, with 1 / x ** -y rounded towards zero for a negative y, and 0 for 0."""
    powers = [int(a) ** int(b) if b >= 0 else int(1 / a**-b) if a else 0 for a, b in zip(x.get().flat, y.get().flat, strict=True)]
    return cupy.asarray(np.reshape(powers, x.shape).astype(x.dtype))


def in_full(given: tuple[Any, ...], dtype: Any) -> list[Any]:
    """The operands as arrays of the result's shape: CuPy has a kernel for them already, where one for a number, or a row, is another."""
    arrays = [x if isinstance(x, cupy.ndarray) else cupy.asarray(dtype.type(x)) for x in given]
    return [cupy.ascontiguousarray(x) for x in cupy.broadcast_arrays(*arrays)]


@pytest.mark.parametrize("dtype", ["int64", "float16", "float32", "float64"])
def test_cupy_takes_a_number_for_an_array_of_it(dtype):
    """So `in_full` may stand for it."""
    x, kind = cupy.asarray(np.linspace(-3, 3, 24).astype(dtype)), np.dtype(dtype)
    for name in ("subtract", "less", "power"):
        for given in (x, 3), (3, x), *([(x, 0.1), (0.1, x)] if kind.kind == "f" else []):
            with np.errstate(all="ignore"):
                assert same_bits(getattr(cupy, name)(*given), getattr(cupy, name)(*in_full(given, kind))), (name, given)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
def test_a_kernel_gives_the_bits_of_cupys_function(dtype, monkeypatch):
    dtype = as_dtype(dtype)
    x = cupy.asarray(np.array([*SPECIAL, *np.linspace(-3, 3, 150)]).astype(dtype))
    y = cupy.asarray(np.array([*SPECIAL[::-1], *np.linspace(2, -4, 150)]).astype(dtype))
    numbers = [(x, 0.1), (0.1, x), (x, 3), (3, x)] if dtype.kind == "f" else []
    broadcast = [(x, y[:1]), (x[:, None], y), (y.reshape(2, 79, 1), x[:3])]
    broadcast += [(y.reshape(2, 1, 79), x[:6].reshape(2, 3, 1)), (y.reshape(2, 1, 79), x[:3, None])]  # stretched in between
    seen: list[str] = []
    with np.errstate(all="ignore"):
        for name in pointwise_text.ONE:
            assert same_bits(pointwise.of_one(name, watched(name, seen))(x), getattr(cupy, name)(x)), name
        for name in pointwise_text.TWO:
            function, theirs = pointwise.of_two(name, watched(name, seen)), getattr(cupy, name, float_modulo)
            if name == "floor_divide":  # CuPy's own rounds the quotient before
                theirs = rounded_floor_divide
            if name == "remainder":  # CuPy's own divides, and rounds
                theirs = float_remainder
            for given in ((x, y), *numbers, *broadcast):
                assert same_bits(function(*given), theirs(*in_full(given, dtype))), (name, given)
        monkeypatch.setattr(where, "where_function", cache(where.where_function.__wrapped__))
        given = [(x > 0, x, y), (x > 0, x, y[:1]), ((x > 0)[:1], x, y), ((x > 0)[:, None], x, y[:1])]
        number, row = dtype.type(-np.inf), (x > 0)[:1]
        given += [(x > 0, x, number), (x > 0, number, y), (row, x, number), ((x > 0)[:, None], number, y), (row, number, number)]
        given += [(x > 0, x, 0.1), (x > 0, 3, y), (row, 0.0, y)] if dtype.itemsize > 2 else []
        expected = [cupy.where(*each).astype(dtype) for each in given]  # bfloat16 comes as float32
        monkeypatch.setattr(cupy, "where", watched("where", seen))
        for each, value in zip(given, expected, strict=True):
            assert same_bits(where.where(*each), value)
    assert not seen


@pytest.mark.parametrize("dtype", ["bool", "int32", "int64"])
def test_a_kernel_of_integers_gives_what_cupys_function_gives(dtype):
    x, y = (cupy.asarray((np.arange(24).reshape(4, 6) * k % 7 - 3).astype(dtype)) for k in (5, 3))
    numbers = [(x, 3), (-2, y)] if dtype != "bool" else []
    seen: list[str] = []
    one, two = pointwise_text.VALUES[np.dtype(dtype).char]
    for name in one:
        assert same_bits(pointwise.of_one(name, watched(name, seen))(x), getattr(cupy, name)(x)), name
    for name in two:
        for given in ((x, y), (x, y[0]), (x[:, :1].copy(), y[:1]), (x.reshape(4, 1, 6), y[:3, :1].copy()), *numbers):
            theirs = numpy_of(name) if "shift" in name else power_of_whole if name == "power" else getattr(cupy, name)
            expected = theirs(*in_full(given, x.dtype))
            assert same_bits(pointwise.of_two(name, watched(name, seen))(*given), expected), (name, given)
    mask, number = y > 0, np.dtype(dtype).type(1)
    given = [(mask, x, y), (mask[0], x, y[:1])]
    given += [(mask, x, number), (mask[:1], 3, y), (mask, -1, number)] if dtype != "bool" else []
    for each in given:
        made = where.where(*each)
        assert same_bits(made, cupy.where(*each).astype(dtype)), each
    assert not seen


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "int32", "int64"])
def test_a_number_is_put_where_a_mask_holds(dtype):
    x = np.arange(24).reshape(4, 6).astype(as_dtype(dtype))
    for mask in (x > 7, (x > 7)[:1], (x > 7)[:, 2:3], (x > 7)[2]):
        made, expected = cupy.asarray(x), np.where(mask, as_dtype(dtype).type(3), x)
        assert where.put_where(made, cupy.asarray(mask), 3)
        assert made.get().tobytes() == expected.tobytes()
    made, mask = cupy.asarray(x), cupy.asarray(x > 7)
    assert not where.put_where(made.T, mask.T, 3)  # not in C's order
    assert not where.put_where(made[:1], mask, 3)  # larger than what is written
    assert not where.put_where(made, made, 3)
    assert made.get().tobytes() == x.tobytes()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64"])
@pytest.mark.parametrize("name", pointwise_text.OWN)
def test_functions_that_cupy_has_not_are_those_of_the_host(name, dtype):
    function = {"signum": gradlib.sign, "silu": gradlib.nn.functional.silu}.get(name)
    function = function or getattr(gradlib, name)
    x = np.array([*SPECIAL, 19.9, 20, 20.1, 300, -300, 90, -90, *np.linspace(-9, 9, 100)]).astype(as_dtype(dtype))
    limits = gradlib.finfo(x.dtype)
    with np.errstate(all="ignore"):
        expected = function(gradlib.as_tensor(x))
    for given in (cupy.asarray(x), cupy.asarray(np.repeat(x, 2))[::2]):  # of which no kernel serves the second
        made = function(gradlib.as_tensor(given))
        assert made.dtype == expected.dtype
        found, wanted = (each.double().numpy(force=True) for each in (made, expected))
        np.testing.assert_allclose(found, wanted, rtol=4 * float(limits.eps), atol=float(limits.tiny))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("tolerances", [{}, {"rtol": 0.0, "atol": 0.0}, {"rtol": 0.0, "atol": 0.125}, {"rtol": 0.5, "equal_nan": True}])
def test_what_is_close_is_so_as_on_the_host(dtype, tolerances):
    x = np.array([*SPECIAL, 1, 1, 1, 1e30, 1e30], dtype)
    y = np.concatenate([x[:8], np.array([1 + 1e-5, 1 + 2e-5, 1.125, 1e30 * (1 + 1e-6), -1e30], dtype)])
    wide = x.repeat(6)[:78].reshape(2, 1, 39)
    for a, b in ((x, y), (y, x), (x, x[::-1].copy()), (x[:, None], y[:3]), (x, y[8:9]), (wide, y[:3, None])):
        assert close(cupy.asarray(a), cupy.asarray(b), 0.0, 0.0, False) is not None
        host, device = (gradlib.isclose(gradlib.as_tensor(f(a)), gradlib.as_tensor(f(b)), **tolerances) for f in (np.asarray, cupy.asarray))
        assert host.tolist() == device.tolist()
    x = cupy.asarray(x)
    for other in (1.0, x.astype("float16")):
        assert close(x, other, 0.0, 0.0, False) is None
    assert close(x, x, 0.0, np.inf, False) is None


@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_integers_are_close_as_on_the_host(dtype):
    limits = np.iinfo(dtype)
    x = np.array([limits.min, limits.min + 1, -1000, -3, 0, 1, 999, 1000, limits.max - 1, limits.max], dtype)
    for tolerances in ({}, {"rtol": 0.0, "atol": 0.0}, {"rtol": 0.0, "atol": 2.0}, {"rtol": 0.3}, {"rtol": 1e-9, "atol": 1}):
        pairs = ((gradlib.as_tensor(place(x[:, None])), gradlib.as_tensor(place(x))) for place in (np.asarray, cupy.asarray))
        host, device = (gradlib.isclose(*pair, **tolerances) for pair in pairs)
        assert host.tolist() == device.tolist()
    assert close(cupy.asarray(x), cupy.asarray(x), 0.0, 0.0, False) is not None


@pytest.mark.parametrize("dtype", ["float16", "float32", "float64", "int32", "int64"])
@pytest.mark.parametrize("steps", [1, 2, 7, 300])
def test_numbers_from_linspace_are_those_of_the_host(dtype, steps):
    for ends in ((0, 1), (-1.5, 40.25), (3, -3)):
        host, device = (gradlib.linspace(*ends, steps, dtype=dtype, device=each) for each in ("cpu", "cuda"))
        assert host.tolist() == device.tolist()


def test_what_cupy_computes_of_bfloat16_stays_bfloat16():
    dtype = as_dtype("bfloat16")
    for shape in ((0,), (2, 3)):  # transposed, as no kernel takes it
        x, number = cupy.ones(shape, dtype).T, dtype.type(0.5)
        made = [where.where(x > 0, number, number), where.where(x > 0, x, number), where.where(x > 0, number, x)]
        functions = (float_floor_divide, float_modulo, float_remainder)
        made += [function(*given) for function in functions for given in ((x, number), (number, x), (x, x))]
        assert [each.dtype for each in made] == [dtype] * len(made)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16"])
def test_half_types_meet_numbers_of_float32_in_it(dtype):
    """The result is rounded once; also where no kernel serves the array."""
    x, number = cupy.asarray(np.linspace(-3, 3, 150).astype(as_dtype(dtype))), np.float32(0.1)
    for name in ("multiply", "divide"):
        ours, theirs = pointwise.function(name, True), getattr(cupy, name)
        for each in (x, x[::2]):
            wide = each.astype("float32")
            assert same_bits(ours(each, number), theirs(wide, number).astype(x.dtype))
            assert same_bits(ours(number, each), theirs(number, wide).astype(x.dtype))
        assert ours(x.astype("int64"), number).dtype == theirs(x.astype("int64"), number).dtype


@pytest.mark.parametrize("dtype", ["int32", "int64", "float32", "float64"])
def test_evenly_spaced_numbers_are_those_of_cupys_functions(dtype):
    kind = np.dtype(dtype)
    for start, step in ((0, 1), (-7, 3), (5, -2), (1 << 40, 1 << 35), (0.1, 0.7), (1e9, -0.1)):
        if kind.kind == "i":
            start, step = int(start), int(step)
        expected = (start + cupy.arange(1000, dtype="int64" if kind.kind == "i" else "float64") * step).astype(kind)
        assert same_bits(spaced.arange(start, step, 1000, kind), expected), (start, step)
    assert spaced.arange(0, 1, 0, kind) is spaced.arange(0, 1 << 63, 3, kind) is spaced.arange(0, 1, 3, np.dtype("int8")) is None


def test_a_kernel_writes_into_its_first_operand():
    """Unless the other one lies across it: CuPy's function then copies it first."""
    line, expected = cupy.arange(9.0), np.arange(9.0)
    for name, other in (("add", 2.5), ("multiply", cupy.arange(9.0)), ("subtract", line)):
        beside = other if type(other) is float else other.get()
        assert pointwise.into(name)(line, other)
        getattr(np, name)(expected, beside, out=expected)
        assert np.array_equal(line.get(), expected)
    for x, y in ((line[1:], line[:-1]), (line, line[:1]), (line, True), (line, np.float32(1)), (line[::2], 1.0), (line.astype("int64"), 1)):
        before = line.get()
        assert not pointwise.into("add")(x, y)
        assert np.array_equal(line.get(), before)


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32"])
def test_operations_in_place_give_the_bits_of_their_other_form(dtype):
    """By one kernel, which rounds once; rows, numbers and functions of one array."""
    x = gradlib.as_tensor(np.linspace(-3, 3, 24).reshape(4, 6)).to(as_dtype(dtype)).cuda()
    numbers = [("mul", 0.1), ("add", 0.1), ("div", 3), ("clamp", 0.3)]
    for name, other in (*numbers, ("sub", x[1]), ("mul", x), ("add", x[:, :1]), ("neg", None)):
        given = () if other is None else (other,)
        assert same_bits(getattr(x.clone(), f"{name}_")(*given)._array, getattr(x, name)(*given)._array), (name, other)


def test_what_a_kernel_does_not_serve_goes_to_cupy():
    x, seen = cupy.arange(6.0).reshape(2, 3), []
    add, negative = pointwise.of_two("add", watched("add", seen)), pointwise.of_one("negative", watched("negative", seen))
    others = [x.T.copy().T, x.astype("float32"), True, np.float32(2), cupy.ones((0, 1, 1))]
    others += [cupy.ones((1, 2, 3))[:, :, ::2, None]]
    for other in others:
        assert same_bits(add(x, other), cupy.add(x, other))
    for array in (x.astype("int16"), x.astype("int8"), x[:, ::2], x[:0]):
        assert same_bits(negative(array), cupy.negative(array))
    assert len(seen) == len(others) + 4


def test_a_slot_is_had_by_one_launch_at_a_time():
    """A launch that begins before another is over, as a finalizer's may, packs its arguments elsewhere."""
    form = pointwise_text.form("negative", "d", "PPI")
    x = cupy.arange(3.0)
    pointwise.of_one("negative", cupy.negative)(x)
    held = form.free.pop()
    before = held[0].raw
    pointwise.of_one("negative", cupy.negative)(x + 1)
    assert held[0].raw == before
    form.free.append(held)


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", pointwise_text.PARTS)
def test_functions_of_complex_numbers_are_those_of_the_host(name, dtype):
    parts = np.array([*SPECIAL, *np.linspace(-3, 3, 8)], "f" if dtype == "complex64" else "d")
    host = np.stack([each.reshape(-1) for each in np.meshgrid(parts, parts)], -1).view(dtype)[:, 0]
    function = {"absolute": gradlib.abs, "angle": gradlib.angle, "conjugate": gradlib.conj, "signum": gradlib.sgn}[name]
    if name == "signum":  # whose NaN are each part's own here, as in torch
        host = host[np.isfinite(host)]
        host = host[: host.size // 16 * 16]
    for given in (host, host[::2], host.reshape(16, -1), host[:0]):
        expected, made = (function(gradlib.as_tensor(place(given))) for place in (np.asarray, cupy.asarray))
        assert (made.dtype, made.shape) == (expected.dtype, expected.shape)
        np.testing.assert_allclose(made.numpy(force=True), expected.numpy(), rtol=4 * float(gradlib.finfo(expected.dtype).eps))


@pytest.mark.parametrize("dtype", ["complex64", "complex128"])
@pytest.mark.parametrize("name", pointwise_text.VALUES["F"][1])
def test_arithmetic_of_complex_numbers_is_that_of_the_host(name, dtype, monkeypatch):
    chosen, host = np.dtype(dtype), getattr(np, name)
    monkeypatch.setattr(cupy, name, None)  # no call is CuPy's
    function = pointwise.small(name, None)
    values = [complex(re, im) for re in (0.0, -0.0, 1.5, -2.25, np.inf, np.nan) for im in (0.0, 0.5, -3.0)]
    x = cupy.asarray(np.array(values, dtype))
    y = cupy.roll(x, 5)

    def check(made: Any, expected: Any) -> None:
        assert made.dtype == expected.dtype
        finite = np.isfinite(expected)  # a quotient with infinity or NaN is so in any of its parts
        close = np.allclose(made.get()[finite], expected[finite], rtol=1e-6, atol=0) if name in ("divide", "multiply") else None
        assert close if close is not None else np.array_equal(made.get(), expected, equal_nan=expected.dtype.kind == "c")

    with np.errstate(all="ignore"):
        check(function(x, y), host(x.get(), y.get()))
        check(function(x.reshape(2, 9), y[:9]), host(x.get().reshape(2, 9), y.get()[:9]))
        check(function(x.reshape(2, 1, 9), y[:6].reshape(6, 1)), host(x.get().reshape(2, 1, 9), y.get()[:6].reshape(6, 1)))
        for number in (2, -0.5, 0.25j, 1 - 3j, chosen.type(2 + 0.5j)):
            check(function(x, number), host(x.get(), chosen.type(number)))
            check(function(number, x), host(chosen.type(number), x.get()))
            if name not in pointwise_text.COMPARE:
                written = x.copy()
                assert pointwise.into(name)(written, number)
                check(written, host(x.get(), chosen.type(number)))
    with pytest.raises(TypeError, match="NoneType"):  # rounding to infinity is CuPy's
        function(x, 1e300 if dtype == "complex64" else 1.75e308)


@pytest.mark.parametrize("dtype", ["int64", "float16", "float32"])
def test_a_number_repeated_is_an_operand_as_it_lies(dtype, monkeypatch):
    x = cupy.arange(12).reshape(3, 4).astype(dtype)
    one, row = cupy.broadcast_to(x[1, 2], x.shape), x[2]
    expected = [x * x[1, 2], x[1, 2] * x, one * row, cupy.multiply(one, one), row * one]
    multiply, seen = pointwise.function("multiply"), list[str]()
    cases = [(x, one), (one, x), (one, row), (one, one), (row, one)]
    monkeypatch.setattr(cupy, "multiply", watched("multiply", seen))
    made = [pointwise.of_two("multiply", cupy.multiply)(*case) for case in cases]
    assert not seen
    monkeypatch.undo()
    for found, wanted in zip(made, expected, strict=True):
        assert found._c_contiguous
        assert same_bits(found, wanted)
    for case in ((x.T, cupy.broadcast_to(x[1, 2], (4, 3))), (x[:, ::2], one[:, :2]), (cupy.broadcast_to(x[:1], x.shape), x)):
        assert same_bits(multiply(*case), case[0].copy() * case[1].copy())
