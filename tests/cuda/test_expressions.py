"""``gradlib.cuda.elementwise`` and ``reduction``: C expressions as differentiable operations, on the host form and on the device."""

from __future__ import annotations

import copy
import pickle
from pathlib import Path

import numpy as np
import pytest

import gradlib
from gradlib.autograd import gradcheck, gradgradcheck
from gradlib.cuda import CompileError, elementwise, reduction
from tests.device import cupy

HOST = {"host": lambda x, y: x * gradlib.sin(y)}
BY_EXPRESSION = {"x": "sin(y)", "y": "x * cos(y)"}
BY_FUNCTION = {"x": lambda y: gradlib.sin(y), "y": lambda x, y: x * gradlib.cos(y)}
BY_BOTH = {"x": ("sin(y)", np.sin), "y": ("x * cos(y)", lambda x, y: x * np.cos(y))}


def wave(derivative=BY_EXPRESSION, **change):
    return elementwise("T x, T y", "T z", "z = x * sin(y)", "wave", derivative=derivative, **HOST | change)


def length(**change):
    host = lambda x, dim, keepdim: gradlib.sqrt(gradlib.sum(x * x, dim, keepdim))  # noqa: E731
    given = {"derivative": {"x": "x / y"}, "host": host}
    return reduction("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "length", **given | change)


@pytest.mark.parametrize("derivative", [BY_EXPRESSION, BY_FUNCTION, BY_BOTH], ids=["expression", "function", "both"])
@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_values_broadcast_and_gradients_are_those_of_the_formula(device, derivative, dtype):
    x = gradlib.tensor([[1.0, 2.0, -1.0]], dtype=dtype, requires_grad=True)
    y = gradlib.tensor([[0.5], [3.0]], dtype=dtype, requires_grad=True)
    made, want = wave(derivative)(x, y), x * gradlib.sin(y)
    assert (made.dtype, made.shape, made.device.type) == (x.dtype, want.shape, device)
    g = gradlib.tensor([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]], dtype=dtype)
    pairs = [gradlib.autograd.grad(each, (x, y), g) for each in (made, want)]
    for a, b in [(made, want), *zip(*pairs, strict=True)]:
        np.testing.assert_allclose(a.detach().cpu().numpy(), b.detach().cpu().numpy(), rtol=1e-6)


@pytest.mark.parametrize("derivative", [BY_EXPRESSION, BY_FUNCTION, BY_BOTH], ids=["expression", "function", "both"])
def test_numbers_stand_in_for_tensors_and_dtypes_meet(device, derivative):
    x = gradlib.tensor([1.0, 2.0], requires_grad=True)
    made = wave(derivative)(x, 0.5)
    np.testing.assert_allclose(made.detach().cpu().numpy(), np.array([1, 2], np.float32) * np.sin(np.float32(0.5)), rtol=1e-6)
    made.sum().backward()
    np.testing.assert_allclose(x.grad.cpu().numpy(), np.full(2, np.sin(0.5)), rtol=1e-6)
    assert wave(derivative)(x, gradlib.ones(2, dtype=gradlib.float64)).dtype == gradlib.float64


@pytest.mark.parametrize("derivative", [BY_EXPRESSION, BY_FUNCTION, BY_BOTH], ids=["expression", "function", "both"])
def test_forward_mode_and_vmap_follow_from_the_derivative(device, derivative, rng):
    x, t = (gradlib.tensor(rng.standard_normal((2, 3))) for _ in range(2))
    y = gradlib.tensor(rng.standard_normal(3))
    _, moved = gradlib.func.jvp(lambda v: wave(derivative)(v, y), (x,), (t,))
    np.testing.assert_allclose(moved.cpu().numpy(), (t * gradlib.sin(y)).cpu().numpy())
    rows = gradlib.func.vmap(lambda row: wave(derivative)(row, y))(x)
    assert gradlib.equal(rows, wave()(x, y))


def test_functions_give_second_derivatives_and_expressions_an_error(device):
    x, y = (gradlib.tensor(v, dtype=gradlib.float64, requires_grad=True) for v in ([0.5, 2.0], [1.0, -1.0]))
    assert gradgradcheck(wave(BY_FUNCTION), (x, y))
    for derivative in (BY_EXPRESSION, BY_BOTH):
        (first,) = gradlib.autograd.grad(wave(derivative)(x, y).sum(), x, create_graph=True)
        with pytest.raises(RuntimeError, match="trying to differentiate wave twice, but its derivative by x is a C expression"):
            first.sum().backward()


def test_the_result_may_stand_in_the_derivative(device):
    x = gradlib.tensor([0.5, -1.0], dtype=gradlib.float64, requires_grad=True)
    for derivative in ("1 - y * y", ("1 - y * y", lambda y: 1 - y * y), lambda y: 1 - y * y):
        squash = elementwise("double x", "double y", "y = tanh(x)", "squash", derivative={"x": derivative}, host=gradlib.tanh)
        assert gradcheck(squash, (x,))


def test_a_function_may_stand_in_front():
    twice = elementwise("T x", "T y", "y = twice(x)", "f", preamble="template <class T> __device__ T twice(T x) { return x + x; }")
    assert twice(gradlib.ones(2, device="cuda")).tolist() == [2, 2]


@pytest.mark.parametrize("dim", [None, 0, 1])
def test_inputs_of_a_reduction_broadcast(device, dim, rng):
    dot = reduction(
        "T x, T w", "T y", "x * w", "a + b", "y = a", "0", "dot", derivative={"x": "w", "w": "x"},
        host=lambda x, w, dim, keepdim: gradlib.sum(x * w, dim, keepdim),
    )  # fmt: skip
    x, w = (gradlib.tensor(rng.standard_normal(shape), requires_grad=True) for shape in ((4, 3), (3,)))
    made, want = dot(x, w, dim=dim), (x * w).sum(dim)
    np.testing.assert_allclose(made.detach().cpu().numpy(), want.detach().cpu().numpy())
    for ours, theirs in zip(gradlib.autograd.grad(made.sum(), (x, w)), gradlib.autograd.grad(want.sum(), (x, w)), strict=True):
        np.testing.assert_allclose(ours.cpu().numpy(), theirs.cpu().numpy())
    assert isinstance(dot(x.detach()._array, w.detach()._array), type(length()(x.detach()._array)))


@pytest.mark.parametrize("dim", [None, 0, -1, (0, 2), ()])
@pytest.mark.parametrize("keepdim", [False, True])
def test_a_reduction_is_differentiable_over_any_dimensions(device, dim, keepdim, rng):
    x = gradlib.tensor(rng.standard_normal((2, 3, 4)), requires_grad=True)
    made, want = length()(x, dim=dim, keepdim=keepdim), gradlib.sqrt(gradlib.sum(x * x, dim, keepdim))
    assert made.shape == want.shape
    np.testing.assert_allclose(made.detach().cpu().numpy(), want.detach().cpu().numpy())
    directions = device != "cpu"  # the same rules as there, element by element
    assert gradcheck(lambda v: length()(v, dim=dim, keepdim=keepdim), (x,), fast_mode=directions)
    both = length(derivative={"x": lambda x, y: x / y})
    assert gradcheck(lambda v: both(v, dim=dim, keepdim=keepdim), (x,), fast_mode=directions)
    with_numpy = length(derivative={"x": ("x / y", lambda x, y: x / y)})
    assert gradcheck(lambda v: with_numpy(v, dim=dim, keepdim=keepdim), (x,), fast_mode=directions)


@pytest.mark.cuda
def test_check_proves_them(rng):
    x = gradlib.tensor(rng.standard_normal((2, 3)))
    assert wave().check(x, x) == ("values", "gradients", "gradcheck", "adjoint")
    assert wave(BY_FUNCTION).check(x, x) == ("values", "gradients", "gradcheck", "gradgradcheck", "adjoint")
    assert length().check(x) == ("values", "gradients", "gradcheck")
    with pytest.raises(AssertionError, match="differ in the gradient by y"):
        wave(BY_EXPRESSION | {"y": "cos(y)"}).check(x, x)
    with pytest.raises(AssertionError, match="gradcheck: Jacobian mismatch"):
        wave(BY_FUNCTION | {"y": lambda y: gradlib.cos(y)}, host=None).check(x.cuda(), x.cuda())


@pytest.mark.cuda
def test_errors_in_an_expression_show_the_users_line():
    wrong = elementwise("T x", "T y", "y = undefined_value * x", "wrong")
    number = next(i for i, line in enumerate(Path(__file__).read_text().splitlines(), 1) if '"y = undefined_value * x"' in line)
    with pytest.raises(CompileError, match=rf"^wrong does not compile:\n  {__file__}:{number}: y = undefined_value \* x\n"):
        wrong(gradlib.ones(1, device="cuda"))
    slope = elementwise("T x", "T y", "y = x", "wrong", derivative={"x": "undefined_slope"})
    number = next(i for i, line in enumerate(Path(__file__).read_text().splitlines(), 1) if '"undefined_slope"}' in line)
    with pytest.raises(CompileError, match=rf"^wrong_by_x does not compile:\n  {__file__}:{number}: undefined_slope\n"):
        slope(gradlib.ones(1, device="cuda", requires_grad=True)).sum().backward()


@pytest.mark.cuda
def test_of_several_places_the_line_shown_is_the_calls():
    first = elementwise("T x", "T y", "y = x *", "first")
    second = elementwise("T x", "T y", "y = x *", "second")
    text = Path(__file__).read_text().splitlines()
    for each in (first, second):
        number = next(i for i, line in enumerate(text, 1) if f'"y = x *", "{each.name}"' in line)
        with pytest.raises(CompileError, match=rf"^{each.name} does not compile:\n  {__file__}:{number}: y = x \*\n"):
            each(gradlib.ones(1, device="cuda"))


def test_an_operation_may_be_called_by_a_word_of_python(device):
    assert elementwise("T x", "T y", "y = x", "lambda", host=lambda x: x)(gradlib.ones(2)).tolist() == [1, 1]


@pytest.mark.parametrize("name", ["out", "g", "in", "self", "dim", "option0"])
def test_an_input_may_have_any_name(device, name):
    """Of Python's own words too, and of what gradlib calls its arguments."""
    host = {"derivative": {name: "b * b", "b": f"2 * {name} * b"}}
    product = elementwise(f"T {name}, T b", "T z", f"z = {name} * b * b", "product", **host, host=lambda a, b: a * b * b)
    total = reduction(
        f"T {name}, T b", "T z", f"{name} * b * b", "a + b", "z = a", "0", "total", **host,
        host=lambda a, b, dim, keepdim: gradlib.sum(a * b * b, dim, keepdim),
    )  # fmt: skip
    x, y = (gradlib.tensor([1.0, 2.0, 3.0], device=device, requires_grad=True) for _ in range(2))
    for value in (product(**{name: x}, b=y).sum(), total(x, y)):
        found = gradlib.autograd.grad(value, (x, y))
        assert [each.tolist() for each in found] == [[1, 4, 9], [2, 8, 18]]


def test_what_does_not_go_together_is_refused(device):
    x = gradlib.ones(2)
    for run, kind, text in (
        (lambda: elementwise("blob x", "T y", "y = x"), ValueError, "'blob x' is no parameter"),
        (lambda: elementwise("T gradlib_x", "T y", "y = gradlib_x"), ValueError, "'gradlib_x' is no name for a parameter"),
        (lambda: elementwise("T x", "T y", "y = x", "my op"), ValueError, "is also that of its kernel, so one of C's, got 'my op'"),
        (lambda: elementwise("T x, T x", "T y", "y = x"), ValueError, "every parameter has a name of its own, got x twice"),
        (lambda: elementwise("raw T x", "T y", "y = x[i]"), ValueError, "'raw T x' is .*; what indexes an input is a gradlib.cuda.kernel"),
        (lambda: elementwise("T x", "T y, T z", "y = z = x"), ValueError, "has one result, got 'T y, T z'"),
        (lambda: reduction("T x", "T y, T z", "x", "a + b", "y = a", "0"), ValueError, "has one result"),
        (lambda: elementwise("X x, Y y", "Z z", "z = x * y"), ValueError, "nothing tells the result's type Z: no input has it"),
        (lambda: wave({"q": "1"}), ValueError, r"derivative names \['q'\]; its inputs are x, y"),
        (lambda: wave({"x": lambda q: q}), ValueError, r"derivative by x asks for \['q'\]; there are x, y, z"),
        (lambda: wave()(x), TypeError, "missing a required argument: 'y'"),
        (lambda: wave()(x, gradlib.ones(3)), RuntimeError, r"^wave: the shapes of the arguments do not fit together: x_ \[2\], y_ \[3\]"),
        (
            lambda: elementwise("float x", "float y", "y = x", "single", host=lambda x: x)(x.double()),
            TypeError,
            "single: x has dtype float32, got float64",
        ),
    ):
        with pytest.raises(kind, match=text):
            run()
    x.requires_grad_()
    for derivative, name in ((None, "x"), ({"x": "sin(y)"}, "y")):
        with pytest.raises(RuntimeError, match=f"wave has no derivative by {name}: give derivative="):
            wave(derivative)(x, x).sum().backward()
    assert wave({"x": "sin(y)"})(x, x.detach()).requires_grad


def test_a_reduction_takes_numpys_spellings_too(device):
    x = gradlib.tensor([[3.0, 4.0], [6.0, 8.0]])
    assert length()(x, axis=1, keepdims=True).tolist() == [[5.0], [10.0]]
    with pytest.raises(TypeError, match="unexpected keyword argument 'axes'"):
        length()(x, axes=1)


def test_without_a_host_form_it_runs_on_a_gpu_only():
    with pytest.raises(RuntimeError, match="wave has no host form, so it runs on a GPU only"):
        wave(host=None)(gradlib.ones(1), 1.0)
    with pytest.raises(RuntimeError, match="length has no host form"):
        length(host=None)(gradlib.ones(1))
    bare = wave(host=lambda x, y: np.asarray(x) * np.sin(np.asarray(y)) if isinstance(x, np.ndarray) else np.zeros(1))
    made = bare(gradlib.ones(1, requires_grad=True), 1.0)
    with pytest.raises(RuntimeError, match="the host form cannot be differentiated"):
        made.sum().backward()


@pytest.mark.cuda
def test_a_profile_shows_the_operation():
    x = gradlib.ones(3, device="cuda", requires_grad=True)
    with gradlib.autograd.profiler.profile() as seen:
        wave()(x, 1.0).sum().backward()
    assert {"wave", "wave_by_x", "WaveBackward0"} <= {event.name for event in seen.function_events}


def test_small_contiguous_operands_need_nothing_of_cupys_but_memory(monkeypatch):
    x, y = (gradlib.tensor(value, device="cuda", requires_grad=True) for value in ([1.0, 2.0, 3.0], [4.0, 5.0, 6.0]))
    made = wave()
    monkeypatch.setattr(cupy, "ElementwiseKernel", None)
    result = made(x, y)
    result.backward(gradlib.ones(3, device="cuda"))
    monkeypatch.undo()
    np.testing.assert_allclose(result.detach().cpu().numpy(), [1, 2, 3] * np.sin([4, 5, 6]), rtol=1e-6)
    np.testing.assert_allclose(y.grad.cpu().numpy(), [1, 2, 3] * np.cos([4, 5, 6]), rtol=1e-6)


@pytest.mark.parametrize("dtype", ["float32", "float64", "int64"])
def test_an_expression_is_the_same_for_every_layout(dtype):
    whole = cupy.arange(24).reshape(4, 6).astype(dtype)
    places = cupy.arange(24).reshape(4, 6).astype(dtype)
    shown = {
        "z = n + two(m)": lambda n: n + 2, "if (n < 3) continue; z = m": lambda n: n, "z = n + (T)(_ind.size() * 0)": lambda n: n,
    }  # fmt: skip
    for text, value in shown.items():
        made = elementwise("T n, T m", "T z", text, preamble="template <class T> __device__ T two(T) { return 2; }")
        for part in (whole, whole.T, whole[1:, 2:], whole[:0], whole[2, 3]):
            result = made(part, part)
            assert (result.shape, result.dtype) == (part.shape, part.dtype)
            assert cupy.array_equal(result[part >= 3], value(part)[part >= 3])
        assert made(whole, 2).dtype == whole.dtype
    assert elementwise("T x", "T z", "z = x + i")(whole).tolist() == (whole + places).tolist()
    with pytest.raises(TypeError, match="wave: y is a tensor or a number, got None"):
        wave()(whole, None)
    with pytest.raises(ValueError, match="'i' as a parameter name"):
        elementwise("T i", "T z", "z = i")(whole)


def test_the_gradients_of_operands_of_two_dtypes_have_theirs(device):
    x, y = (gradlib.tensor([1.0, 2.0], dtype=dtype, requires_grad=True) for dtype in ("float32", "float64"))
    total = reduction(
        "T x, T y", "T z", "x * y", "a + b", "z = a", "0", "dot", derivative={"x": "y", "y": "x"},
        host=lambda x, y, dim, keepdim: gradlib.sum(x * y, dim, keepdim),
    )  # fmt: skip
    for made, factor in ((total(x, y), y), (wave()(x, y).sum(), gradlib.sin(y))):
        for ours, want, like in zip(gradlib.autograd.grad(made, (x, y)), (factor, None), (x, y), strict=True):
            assert ours.dtype == like.dtype
            assert want is None or np.allclose(ours.cpu().numpy(), want.detach().cpu().numpy())
    if device == "cuda":
        assert wave()(x.detach()._array, y.detach()._array).dtype == np.float64


@pytest.mark.parametrize("derivative", [{"x": "1", "y": "1"}, {"x": "1", "y": "(S)1"}])
def test_a_derivative_need_not_name_an_input_of_the_gradients_dtype(derivative):
    x, y = (gradlib.tensor([1.0, 2.0], dtype=dtype, device="cuda", requires_grad=True) for dtype in ("float64", "float32"))
    plus = elementwise("T x, S y", "T z", "z = x + (T)y", "plus", derivative=derivative)
    total = reduction("T x, S y", "T z", "x + (T)y", "a + b", "z = a", "0", "total", derivative=derivative)
    for made in (plus(x, y).sum(), total(x, y)):
        for ours, like in zip(gradlib.autograd.grad(made, (x, y)), (x, y), strict=True):
            assert ours.dtype == like.dtype
            assert ours.tolist() == [1, 1]


@pytest.mark.parametrize("derivative", ["x + x", lambda x: 2 * x, ("x + x", lambda x: x + x)])
def test_of_complex_numbers_the_gradient_is_multiplied_by_the_conjugate(device, derivative):
    x = gradlib.tensor([1 + 2j, 0.5 - 1j], dtype=gradlib.complex128, requires_grad=True)
    square = elementwise("T x", "T y", "y = x * x", "square", derivative={"x": derivative}, host=lambda x: x * x)
    norm = reduction(
        "T x", "T y", "x * x", "a + b", "y = a", "0", "norm", derivative={"x": derivative},
        host=lambda x, dim, keepdim: gradlib.sum(x * x, dim, keepdim),
    )  # fmt: skip
    for each in (square, norm):
        assert gradcheck(each, (x,))
        assert "gradcheck" in each.check(x.detach())
    _, moved = gradlib.func.jvp(square, (x.detach(),), (gradlib.tensor([1j, 2.0], dtype=gradlib.complex128),))
    np.testing.assert_allclose(moved.cpu().numpy(), 2 * x.detach().cpu().numpy() * [1j, 2])


@pytest.mark.cuda
def test_a_derivative_between_real_and_complex_numbers_is_refused():
    size = elementwise("complex128 x", "double y", "y = abs(x)", "size", derivative={"x": "x / y"})
    phase = elementwise("double x", "complex128 z", "z = complex<double>(cos(x), sin(x))", "phase", derivative={"x": lambda z: 1j * z})
    for each, x in ((size, gradlib.tensor([3 + 4j])), (phase, gradlib.tensor([0.5]))):
        x = x.to(each.inputs[0].type).cuda()
        with pytest.raises(TypeError, match=f"{each.name}: a derivative is one number where inputs and result are both real or both compl"):
            each(x.requires_grad_()).backward(gradlib.ones_like(each(x)))
    _, moved = gradlib.func.jvp(phase, (x.detach(),), (x.detach(),))  # a real tangent times the derivative needs no parts
    np.testing.assert_allclose(moved.cpu().numpy(), [0.5j * np.exp(0.5j)])


def test_a_derivative_of_gradlibs_gets_tensors_in_every_pass(device):
    logistic = elementwise(
        "T x", "T y", "y = 1 / (1 + exp(-x))", "logistic", derivative={"x": lambda x: x.sigmoid() * (1 - x.sigmoid())}, host=gradlib.sigmoid
    )
    for x in (gradlib.tensor([0.5, -2.0], dtype=gradlib.float64), gradlib.tensor(0.5, dtype=gradlib.float64)):
        x.requires_grad_()
        assert gradcheck(logistic, (x,))
        assert gradgradcheck(logistic, (x,))


@pytest.mark.cuda
def test_operations_are_copied_as_themselves_and_pickled_as_declarations():
    x = gradlib.tensor([0.5, -2.0], device="cuda")
    made = elementwise("T x", "T y", "y = sin(x)", "waved", derivative={"x": "cos(x)"})
    summed = reduction("T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "size", derivative={"x": "x / y"})
    for each in (made, summed):
        assert copy.deepcopy(each) is each
        again = pickle.loads(pickle.dumps(each))
        assert gradlib.equal(again(x), each(x))
        assert "gradcheck" in again.check(x)


@pytest.mark.cuda
def test_options_and_the_type_of_a_reduction_are_cupys():
    x = gradlib.tensor([[300.0, 300.0], [2.0, 3.0]], dtype=gradlib.float16, device="cuda", requires_grad=True)
    norm = reduction(
        "float16 x", "float16 y", "(float)x * (float)x", "a + b", "y = sqrtf(a * FACTOR)", "0", "norm", derivative={"x": "x / y"},
        reduce_type="float", options=["-DFACTOR=1"],
    )  # fmt: skip
    made = norm(x, dim=1)
    assert made.tolist() == [424.25, 3.60546875]  # the squares are beyond float16
    made.sum().backward()
    np.testing.assert_allclose(x.grad[0].cpu().numpy(), [0.7071, 0.7071], rtol=1e-3)
    times = elementwise("T x", "T y", "y = x * FACTOR", "times", derivative={"x": "FACTOR"}, options=["-DFACTOR=3"])
    y = gradlib.ones(2, device="cuda", requires_grad=True)
    times(y).sum().backward()
    assert (times(y).tolist(), y.grad.tolist()) == ([3, 3], [3, 3])
    whole = elementwise("T x, int32 k", "T y", "y = x * k", "whole")
    assert whole(y, 3).tolist() == [3, 3]
    with pytest.raises(TypeError, match=r"whole: k has dtype int32, got 3\.7"):
        whole(y, 3.7)


def test_a_reduction_takes_torchs_dimensions(device):
    assert length()(gradlib.tensor(-3.0), dim=0).item() == 3
    with pytest.raises(RuntimeError, match="appears multiple times"):
        length()(gradlib.ones(2, 2), dim=(0, 0))
    with pytest.raises(IndexError, match="Dimension out of range"):
        length()(gradlib.tensor(-3.0), dim=1)
