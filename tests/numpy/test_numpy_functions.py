"""Every NumPy function that takes Tensors: values, dtypes and shapes as NumPy's, derivatives of two orders; and those refused."""

from __future__ import annotations

import warnings
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import gradlib
import gradlib.numpy as gnp
from gradlib.autograd import gradcheck, gradgradcheck
from gradlib.numpy.numpy_array import as_array
from gradlib.numpy.registry import REFUSED, SERVED, name_of
from tests.numpy.expressions import CALLS, FLOATS, REFUSED_CALLS, evaluated, functions_of, letters, operands
from tests.values import host

pytestmark = [pytest.mark.nonfinite, pytest.mark.filterwarnings("ignore::RuntimeWarning")]

HERE = [call for call in CALLS if None not in functions_of(call)]
DISPATCHED = (np.ufunc, type(np.sum))
"""The kinds of NumPy's functions that ask their arguments by one of the protocols."""

WITHOUT_PROTOCOL = {
    np.array, np.asarray, np.asanyarray, np.ascontiguousarray, np.asfortranarray, np.asarray_chkfinite, np.full,
}  # fmt: skip
"""What ``gradlib.numpy`` alone serves, since NumPy asks nobody."""

IN_PLACE = {np.put_along_axis, np.put, np.place, np.putmask, np.copyto, np.fill_diagonal}
TEXTS = {np.array_repr, np.array_str, np.array2string}


def in_one_row(value: Any) -> list[Any]:
    """The results one by one, of whatever nest of lists and tuples."""
    return [part for each in value for part in in_one_row(each)] if isinstance(value, (tuple, list)) else [value]


def drawn(dtype: str, seed: int = 1) -> dict[str, Any]:
    """The operands, those of floats in this dtype."""
    values = operands(np.random.default_rng(seed))
    for letter in FLOATS:
        whole = dtype == "int64" and letter != "w"
        values[letter] = np.asarray(np.round(values[letter] * 3) if whole else values[letter]).astype("float64" if letter == "w" else dtype)
    return values


def on_tensors(call: str, values: dict[str, Any]) -> Any:
    """What the call gives where each of its operands is a Tensor."""
    tensors = {letter: gradlib.tensor(values[letter]) for letter in letters(call)}
    return evaluated(call, values | tensors)


@pytest.mark.parametrize("call", HERE)
def test_a_function_gives_what_numpy_gives_for_arrays(call, device):
    for dtype in ("float64", "float32", "int64") if device == "cpu" else ("float64",):  # the dtype is decided before the device
        values = drawn(dtype)
        try:
            expected = in_one_row(evaluated(call, dict(values)))
        except (TypeError, ValueError):  # NumPy does not take this dtype either
            continue
        found = in_one_row(on_tensors(call, values))
        assert len(found) == len(expected)
        for got, want in zip(found, map(np.asarray, expected), strict=True):
            if isinstance(got, gradlib.Tensor):
                assert got.device.type == device
                assert got.dtype == (np.int64 if want.dtype.kind == "u" and want.dtype.itemsize > 1 else want.dtype)
                assert tuple(got.shape) == want.shape
                tolerance = 3e-4 if np.float32 in (np.dtype(dtype), want.dtype) else 1e-10
                np.testing.assert_allclose(host(got), want, rtol=tolerance, atol=tolerance)
            else:
                assert SERVED[functions_of(call)[0]].exact or isinstance(got, int)
                assert np.array_equal(got, want)


ERRORS = (np.exceptions.AxisError, np.linalg.LinAlgError, IndexError, TypeError, ValueError, RuntimeError)


@pytest.mark.host
@pytest.mark.parametrize("call", [call for call in REFUSED_CALLS if None not in functions_of(call)])
def test_a_call_that_numpy_refuses_is_refused_with_its_kind_of_error(call):
    values = operands(np.random.default_rng(1))
    with pytest.raises(ERRORS) as numpys:
        evaluated(call, dict(values))
    with pytest.raises(next(kind for kind in ERRORS if numpys.errisinstance(kind))):
        on_tensors(call, values)


@pytest.mark.host
@pytest.mark.parametrize("call", [call for call in HERE if "float32" not in call])
def test_a_function_has_numerically_right_derivatives(call):
    values = drawn("float64")
    names = [letter for letter in letters(call) if letter in FLOATS + "z" and letter != "w"]
    others = {letter: gradlib.tensor(values[letter]) for letter in letters(call)}

    def f(*args):
        results = in_one_row(evaluated(call, values | others | dict(zip(names, args, strict=True))))
        return tuple(r for r in results if isinstance(r, gradlib.Tensor) and r.requires_grad)

    args = tuple(gradlib.tensor(values[letter], requires_grad=True) for letter in names)
    if f(*args):
        assert not SERVED[functions_of(call)[0]].exact
        assert gradcheck(f, args)
        assert gradgradcheck(f, args)


def public(module: ModuleType) -> dict[Any, str]:
    """The functions of a NumPy module that ask their arguments, with their names."""
    return {f: n for n in dir(module) if not n.startswith("_") and isinstance(f := getattr(module, n), DISPATCHED)}


PUBLIC = public(np) | public(np.linalg) | public(np.fft)


@pytest.mark.host
def test_each_public_function_is_served_or_refused_and_never_both():
    assert sorted(name for f, name in PUBLIC.items() if f not in SERVED and f not in REFUSED) == []
    assert [name_of(f) for f in REFUSED if f in SERVED] == []


@pytest.mark.host
def test_each_function_that_is_served_is_called_here():
    called = {function for call in HERE for function in functions_of(call)}
    assert [name_of(f) for f in SERVED if f not in called | WITHOUT_PROTOCOL | IN_PLACE | TEXTS] == []


@pytest.mark.host
@pytest.mark.parametrize("call", [call for call in HERE if "float32" not in call])
def test_a_function_that_is_not_exact_has_a_derivative_or_takes_none(call):
    """One that has floats for results carries the gradient of its operands, unless it fills or counts."""
    served = SERVED[functions_of(call)[0]]
    filling = ("zeros_like", "ones_like", "full_like(A, 3", "histogram(x", "logical", "less.outer", "ord=0", "x[:0]")
    names = [letter for letter in letters(call) if letter in FLOATS + "z"]
    if served.exact or not names or any(word in call for word in filling):
        return
    values = drawn("float64")
    leaves = {letter: gradlib.tensor(values[letter], requires_grad=letter in names) for letter in letters(call)}
    results = in_one_row(evaluated(call, values | leaves))
    floats = [r for r in results if isinstance(r, gradlib.Tensor) and r.dtype.kind in "fc"]
    assert not floats or any(r.requires_grad for r in floats)


@pytest.mark.host
@pytest.mark.parametrize("function", REFUSED, ids=name_of)
def test_what_is_refused_says_its_name_and_what_to_do(function):
    x = gradlib.ones(3, 3)
    args = (x,) * function.nin if isinstance(function, np.ufunc) else _arguments(function, x)
    with pytest.raises(TypeError, match="does not take a gradlib Tensor") as raised:
        function(*args)
    assert name_of(function) in str(raised.value)
    assert REFUSED[function] in str(raised.value)


def _arguments(function: Any, x: Any) -> tuple[Any, ...]:
    """Arguments with which NumPy comes as far as asking the Tensor."""
    files = {np.save: ("unused", x), np.savetxt: ("unused", x), np.savez: ("unused", x), np.savez_compressed: ("unused", x)}
    return files.get(function, (x, x) if function in (np.busday_count, np.busday_offset) else (x,))


def test_joined_between_brackets():
    x = gradlib.tensor([1.0, 2.0], dtype=gradlib.float64, requires_grad=True)
    a = x.detach().cpu().numpy()
    joined = gnp.r_[x, 3, 0:2, [x[0], 5.0]]
    np.testing.assert_array_equal(joined.detach().cpu().numpy(), np.r_[a, 3, 0:2, [a[0], 5.0]])
    columns = gnp.c_[x, np.ones(2), x] if not x.is_cuda else gnp.c_[x, x * 0 + 1, x]
    np.testing.assert_array_equal(columns.detach().cpu().numpy(), np.c_[a, np.ones(2), a])
    (joined.sum() + columns.sum()).backward()
    assert x.grad.tolist() == [4, 3]
    assert type(gnp.r_[1:3]) is np.ndarray
    with pytest.raises(TypeError, match="concatenate"):
        gnp.r_["0,2", x, x]


def test_shapes_may_be_arrays():
    assert np.reshape(gradlib.ones(4), np.array([2, 2])).shape == (2, 2)


def test_a_number_that_is_none_reaches_what_it_overlaps_in_a_convolution() -> None:
    short, long = np.array([np.inf, 1.0, np.nan]), np.array([1.0, 2.0, 3.0, 4.0])
    for mode in ("full", "same", "valid"):
        for a, v in ((short, long), (long, short), (long, long)):
            np.testing.assert_array_equal(host(gnp.convolve(gradlib.tensor(a), gradlib.tensor(v), mode)), np.convolve(a, v, mode))
            np.testing.assert_array_equal(host(gnp.correlate(gradlib.tensor(a), gradlib.tensor(v), mode)), np.correlate(a, v, mode))


def test_what_is_new_memory_in_numpy_is_new_here():
    """Also where there was nothing to compute: a write into the result does not reach the argument."""
    for call in (
        np.positive, np.block, lambda x: np.take(x, 1, axis=0), lambda x: np.take(x, -1), lambda x: np.prod(x, axis=()),
        lambda x: np.roll(x, [], 0), lambda x: np.fft.fftshift(x, ()), lambda x: np.pad(x[0, 0], 3),
    ):  # fmt: skip
        for lib in (np, gradlib):
            x = lib.ones((2, 3))
            made = call(x)
            if isinstance(made, (np.ndarray, gradlib.Tensor)):
                made *= 5
            assert x.tolist() == [[1, 1, 1]] * 2


@pytest.mark.nonfinite
def test_at_the_edges_of_the_range() -> None:
    x = gradlib.tensor([0.0, -0.0, -8.0], dtype="float64", requires_grad=True)
    root = np.cbrt(x)
    np.testing.assert_array_equal(np.signbit(host(root)), [False, True, True])
    np.testing.assert_allclose(host(gradlib.autograd.grad(root.sum(), x)[0]), [np.inf, np.inf, 1 / 12])
    np.testing.assert_array_equal(host(np.i0(gradlib.tensor([1e300, 0.0], dtype="float64"))), [np.inf, 1])
    for number, exponent, dtype in [
        (1e300, -1500, "float64"), (1e-300, 1500, "float64"), (5e-324, 2097, "float64"), (1.0, 10**6, "float64"), (0.0, 10**6, "float64"),
        (1.7e308, -(10**6), "float64"), (-3.0, True, "float32"), (1e-4, 20, "float16"), (6e4, -30, "float16"),
    ]:  # fmt: skip
        made = np.ldexp(gradlib.tensor(number, dtype=dtype), exponent)
        right = np.ldexp(np.asarray(number, dtype), exponent)
        assert (host(made), made.dtype) == (right, right.dtype)
    x = gradlib.tensor([2.0, -2.0, 0.5, -np.inf, np.nan], dtype="float64", requires_grad=True)
    for made, right in zip(np.modf(x), np.modf(host(x)), strict=True):
        np.testing.assert_array_equal(host(made), right)
        np.testing.assert_array_equal(np.signbit(host(made))[:4], np.signbit(right)[:4])
    assert gradlib.autograd.grad(np.modf(x)[0][:3].sum(), x)[0].tolist() == [1, 1, 1, 0, 0]
    assert np.average(x, returned=True)[1].item() == 5
    assert np.poly(gradlib.tensor([1.5], dtype="float16")).dtype == np.poly(np.array([1.5], "float16")).dtype


@pytest.mark.nonfinite
@pytest.mark.filterwarnings("ignore:Degrees of freedom")
@pytest.mark.parametrize(("shape", "options"), [((3, 0), {}), ((3, 2), {"ddof": 4}), ((3, 2), {"fweights": [1, 0]}), ((3, 2), {"ddof": 0})])
def test_covariances_of_too_few_observations(shape: tuple[int, ...], options: dict[str, Any]) -> None:
    a = np.arange(float(np.prod(shape))).reshape(shape) ** 2
    np.testing.assert_array_equal(host(np.cov(gradlib.tensor(a), **options)), np.cov(a, **options))


@pytest.mark.host
def test_the_derivative_of_a_polynomial_through_fewer_points_than_coefficients() -> None:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", np.exceptions.RankWarning)
        x, y = (gradlib.tensor(v, dtype="float64", requires_grad=True) for v in ([0.3, -1.2], [1.0, 2.0]))
        assert gradcheck(lambda x, y: np.polyfit(x, y, 3), (x, y))


@pytest.mark.host
def test_the_orders_of_elements_are_numpys() -> None:
    """In memory or by columns; also of arrays that lie neither by rows nor by columns."""
    a = np.arange(24.0).reshape(2, 3, 4)
    for given in (a, a.T, a.transpose(1, 0, 2), a[::-1], a[:, ::2].transpose(2, 0, 1), a[0, 0]):
        for order in ("C", "F", "A", "K", "f", None):
            x = gradlib.from_numpy(given)
            np.testing.assert_array_equal(host(np.ravel(x, order)), np.ravel(given, order))
            np.testing.assert_array_equal(host(as_array(x).flatten(order).wrapped), given.flatten(order))
            if order != "K":
                np.testing.assert_array_equal(host(np.reshape(x, (2, -1), order)), np.reshape(given, (2, -1), order))
    for call in (np.ravel, lambda x, order: np.reshape(x, -1, order), lambda x, order: np.reshape(x, -1, "K")):
        with pytest.raises(ValueError, match="order"):
            call(x, "Q")


@pytest.mark.host
def test_what_is_not_computed_into_out_stays_as_it_was() -> None:
    """Also where out's dtype holds more than the result's: fractions were lost."""
    n, kept, where = np.array([-3, 2, 0]), np.array([0.25, 1.5, -2.75]), np.array([True, False, False])
    for call in (np.sign, np.negative, lambda x, **to: np.greater(x, 1, **to), lambda x, **to: np.fmin(x, x, **to)):
        out = gradlib.tensor(kept)
        call(gradlib.tensor(n), out=out, where=where)
        np.testing.assert_array_equal(host(out), call(n, out=kept.copy(), where=where))


@pytest.mark.host
def test_reductions_by_any_ufunc_begin_and_end_as_numpys() -> None:
    """With ``initial`` before the first element, in the dtype of the ufunc's loop, also of one element or of no place."""
    a, n = np.array([[1.5, -2.0, 4.0], [3.0, 0.5, -1.0]]), np.array([[3, 0, 4], [2, 1, 5]])
    for ufunc, x, options in [
        (np.subtract, a, {"axis": 1, "initial": 10}), (np.fmod, a, {"axis": 1, "initial": 7.0, "keepdims": True}),
        (np.divide, a, {"axis": 0}),
        (np.subtract, a[:, :0], {"axis": 1, "initial": 2.0}), (np.hypot, a[:, :1] * -1, {"axis": 1}), (np.hypot, n[:1], {"axis": 0}),
        (np.logical_and, n, {"axis": 1, "initial": False}), (np.logical_or, n, {"initial": True}), (np.logical_xor, n, {"axis": 1}),
        (np.gcd, -n[:1], {"axis": 0}), (np.copysign, n, {"axis": 1}), (np.heaviside, a.astype("float32"), {"initial": 1.5}),
        (np.hypot, a, {"axis": ()}),
    ]:  # fmt: skip
        found, right = ufunc.reduce(gradlib.tensor(x), **options), np.asarray(ufunc.reduce(x, **options))
        assert found.dtype == right.dtype, ufunc
        np.testing.assert_allclose(host(found), right, rtol=1e-6)
    for ufunc in (np.logical_or, np.logical_xor, np.copysign, np.subtract, np.add, np.hypot):
        for method in (lambda u, x: u.accumulate(x, axis=1), lambda u, x: u.reduceat(x, [0, 2], 1), lambda u, x: u.reduceat(x, [], 0)):
            found, right = method(ufunc, gradlib.tensor(n)), method(ufunc, n)
            assert found.dtype == right.dtype, ufunc
            np.testing.assert_allclose(host(found), right)
    for place in (-1, 3):
        with pytest.raises(IndexError, match="out-of-bounds"):
            np.add.reduceat(gradlib.tensor(n), [0, place], axis=1)


@pytest.mark.nonfinite
@pytest.mark.parametrize("function", [np.max, np.min])
def test_extremes_of_complex_numbers_with_what_they_begin_with_and_where(function: Any, device: str) -> None:
    values = np.array([[1 + 2j, 3 - 1j, 1 + 5j], [0j, complex(np.nan, 1), -4 + 1j]])
    mask = np.array([[True, False, True], [True, False, False]])
    for options in (
        {"initial": 1 + 3j}, {"initial": -9, "where": mask}, {"initial": 1.5, "axis": 1, "where": mask}, {"initial": complex(0, np.nan)},
        {"initial": 2, "axis": 0, "keepdims": True}, {"initial": 0, "where": mask, "keepdims": True},
    ):  # fmt: skip
        np.testing.assert_array_equal(host(function(gradlib.tensor(values, device=device), **options)), function(values, **options))
    beside = np.nanmax if function is np.max else np.nanmin  # of which NaN is left out wherever it comes from
    for given in (values, values.real):
        for initial in (np.nan, 2):
            assert host(beside(gradlib.tensor(given, device=device), initial=initial)) == beside(given, initial=initial)
    assert np.isnan(host(beside(gradlib.tensor([np.nan], device=device), initial=np.nan)))
    nothing = gradlib.zeros(0, 3, dtype=gradlib.complex64, device=device)
    assert function(nothing, axis=1).shape == (0,)
    x = gradlib.tensor(values[0], device=device, requires_grad=True)
    largest = function(x, initial=0 if function is np.max else 9)
    assert gradlib.autograd.grad(largest.real, x)[0].tolist() == ([0, 1, 0] if function is np.max else [1, 0, 0])


@pytest.mark.nonfinite
@pytest.mark.parametrize("function", [np.argmax, np.argmin, np.nanargmax, np.nanargmin])
def test_places_of_the_extremes_of_complex_numbers(function: Any, device: str) -> None:
    """NumPy orders them by their real parts, then by their imaginary ones."""
    values = np.array([[1 + 2j, 3 - 1j, 1 + 5j, 3 + 2j], [0j, complex(np.nan, 1), -4 + 1j, -4 - 1j]])
    x = gradlib.tensor(values, device=device, requires_grad=True)
    for options in ({}, {"axis": 0}, {"axis": -1}, {"axis": 1, "keepdims": True}, {"keepdims": True}):
        made = function(x, **options)
        assert (made.dtype, made.device) == (gradlib.int64, x.device)
        np.testing.assert_array_equal(host(made), function(values, **options))
    for empty in ({}, {"axis": 1}):
        with pytest.raises(ValueError, match=r"empty sequence|All-NaN"):
            function(gradlib.zeros(2, 0, dtype=gradlib.complex64, device=device), **empty)
    with pytest.raises(ValueError, match="out of bounds"):
        function(x, axis=2)
    if function in (np.nanargmax, np.nanargmin):
        with pytest.raises(ValueError, match="All-NaN"):
            function(gradlib.tensor([complex(0, np.nan)], device=device))


def test_whether_complex_numbers_are_among_others(device: str) -> None:
    x, others = np.array([[1 + 2j, 3.0], [0, 1 - 2j]]), np.array([3, 5])
    for invert in (False, True):
        found = np.isin(gradlib.tensor(x, device=device), gradlib.tensor(others, device=device), invert=invert)
        np.testing.assert_array_equal(host(found), np.isin(x, others, invert=invert))


@pytest.mark.parametrize("name", ["vecdot", "linalg.vecdot"])
def test_inner_products_of_small_integers_and_masks_have_their_dtype(name: str, device: str) -> None:
    function = getattr(np.linalg if "linalg" in name else np, "vecdot", None)
    if function is None:
        pytest.skip("a later NumPy has it")
    for a, b in (
        (np.array([100, 100], np.int8), np.array([2, 1], np.int8)), (np.array([True, True]), np.array([True, True])),
        (np.array([[200, 3]], np.uint8), np.array([True, True])),
    ):  # fmt: skip
        made, expected = function(gradlib.tensor(a, device=device), gradlib.tensor(b, device=device)), function(a, b)
        assert made.dtype == expected.dtype
        np.testing.assert_array_equal(host(made), expected)
