"""``gradlib.cuda.kernel``: CUDA source as a differentiable operation, on the host form and on the device."""

from __future__ import annotations

import copy
import math
import os
import pickle
import re
import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import gradlib
from gradlib import cuda
from gradlib.autograd import gradcheck, gradgradcheck
from gradlib.cuda import CompileError, elementwise, kernel, kernel_op, launch as launching, nvrtc, reduction, user_kernel
from gradlib.cuda.signature import declaration
from gradlib.cuda.source import Source
from gradlib.testing import hostcuda
from tests.cuda.test_compile import ARCHITECTURES
from tests.device import HAS_GPU, cupy, two_devices

SOFTPLUS = r"""
template <typename T> __global__ void softplus(const T* x, T* y, T beta, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = log1p(exp(beta * x[i])) / beta;
}
template <typename T> __global__ void softplus_adjoint(const T* x, const T* grad_y, T* grad_x, T beta, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) grad_x[i] = grad_y[i] / (1 + exp(-beta * x[i]));
}
"""


def softplus_host(x, beta):
    return gradlib.log1p(gradlib.exp(x * beta)) / beta


def softplus(**change):
    return kernel(SOFTPLUS, "softplus", **{"shapes": {"x": "*n"}, "adjoint": "softplus_adjoint", "host": softplus_host, **change})


ROTATE = r"""
template <typename T> __global__ void rotate(const T* x, const T* angle, T* u, T* v, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    T c = cos(angle[i]), s = sin(angle[i]);
    u[i] = c * x[2 * i] - s * x[2 * i + 1];
    v[i] = s * x[2 * i] + c * x[2 * i + 1];
}
template <typename T> __global__ void rotate_adjoint(
    const T* grad_v, const T* grad_u, const T* angle, const T* u, const T* v, T* grad_angle, T* grad_x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i >= n) return;
    T c = cos(angle[i]), s = sin(angle[i]);
    grad_x[2 * i] = c * grad_u[i] + s * grad_v[i];
    grad_x[2 * i + 1] = c * grad_v[i] - s * grad_u[i];
    grad_angle[i] = grad_v[i] * u[i] - grad_u[i] * v[i];
}
"""


def rotate_host(x, angle):
    c, s = gradlib.cos(angle), gradlib.sin(angle)
    return c * x[..., 0] - s * x[..., 1], s * x[..., 0] + c * x[..., 1]


def rotate(**change):
    shapes = {"x": "*n, 2", "angle": "*n", "u": "*n", "v": "*n"}
    return kernel(ROTATE, "rotate", **{"shapes": shapes, "adjoint": "rotate_adjoint", "host": rotate_host, **change})


SUMS = r"""
extern "C" __global__ void gather(const double* table, const long long* index, double* rows, int N, int D) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N * D) rows[i] = table[index[i / D] * D + i % D];
}
extern "C" __global__ void gather_adjoint(const double* grad_rows, const long long* index, double* grad_table, int N, int D) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < N * D) atomicAdd(&grad_table[index[i / D] * D + i % D], grad_rows[i]);
}
"""


def gather(**change):
    shapes = {"table": "S, D", "index": "N", "rows": "N, D"}
    host = lambda table, index: table[index]  # noqa: E731
    given = {"shapes": shapes, "adjoint": "gather_adjoint", "linear": True, "zeroed": ["grad_table"], "threads": "N * D", "host": host}
    return kernel(SUMS, "gather", **given | change)


def launches(monkeypatch):
    """The names of the kernels that are launched from now on."""
    seen = []
    launch = launching.launch
    monkeypatch.setattr(kernel_op, "launch", lambda call: seen.append(call.kernel) or launch(call))
    return seen


# ---- values and gradients ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("shape", [(), (5,), (2, 3), (0,), (3, 0)])
def test_value_and_gradient_are_those_of_the_formula(device, dtype, shape):
    x = gradlib.linspace(-2, 2, math.prod(shape), dtype=dtype).reshape(shape).requires_grad_()
    y = softplus()(x, 2.0)
    y.backward(gradlib.full(shape, 3.0, dtype=dtype))
    assert (y.dtype, y.shape, y.device.type) == (x.dtype, x.shape, device)
    np.testing.assert_allclose(y.detach().cpu().numpy(), np.log1p(np.exp(2 * x.detach().cpu().numpy())) / 2, rtol=1e-5)
    np.testing.assert_allclose(x.grad.cpu().numpy(), 3 / (1 + np.exp(-2 * x.detach().cpu().numpy())), rtol=1e-5)


def test_arrays_in_another_order_are_read_as_they_look(device):
    x = gradlib.arange(6, dtype=gradlib.float64).reshape(2, 3).t().requires_grad_()
    y = softplus()(x, beta=1.0)
    np.testing.assert_allclose(y.detach().cpu().numpy(), np.log1p(np.exp(x.detach().cpu().numpy())))
    y[:, 0].sum().backward()
    assert (x.grad[:, 1] == 0).all()


def test_raw_arrays_give_raw_arrays(device):
    array = gradlib.ones(3).detach()._array
    assert type(softplus()(array, 1.0)) is type(array)


def test_one_launch_gives_the_gradients_of_all_inputs_and_unused_results_count_as_zero(device, monkeypatch, rng):
    seen = launches(monkeypatch)
    x, angle = (gradlib.tensor(rng.standard_normal(s), requires_grad=True) for s in ((3, 2), (3,)))
    u, _ = rotate()(x, angle)
    u.sum().backward()
    assert seen == (["rotate", "rotate_adjoint"] if device == "cuda" else [])
    c, s = np.cos(angle.detach().cpu().numpy()), np.sin(angle.detach().cpu().numpy())
    np.testing.assert_allclose(x.grad.cpu().numpy(), np.stack([c, -s], 1))
    first, second = x.detach().cpu().numpy().T
    np.testing.assert_allclose(angle.grad.cpu().numpy(), -s * first - c * second)
    assert gradcheck(rotate(), (x, angle))


def test_a_kernel_may_add_into_cleared_results(device, rng):
    table = gradlib.tensor(rng.standard_normal((4, 3)), requires_grad=True)
    index = gradlib.tensor([0, 2, 2, 1, 0])
    rows = gather()(table, index)
    assert gradlib.equal(rows, table[index])
    rows.backward(gradlib.ones(5, 3, dtype=gradlib.float64))
    assert table.grad[:, 0].tolist() == [2, 1, 2, 0]
    assert gradgradcheck(gather(), (table, index))


def test_an_adjoint_that_names_what_is_no_input_is_refused(device):
    given = softplus(adjoint=lambda grad_y: {"grad_x": grad_y})(gradlib.ones(3, requires_grad=True), 2.0)
    with pytest.raises(ValueError, match=r"gradients by input, got \['grad_x'\]; a dict has the keys x"):
        given.sum().backward()


def test_a_number_of_the_template_is_a_size(device):
    source = r"""template <typename T, int D> __global__ void norm(const T* x, T* y, int B) {
        int b = blockIdx.x * blockDim.x + threadIdx.x;
        T sum = 0;
        for (int d = 0; b < B && d < D; d++) sum += x[b * D + d] * x[b * D + d];
        if (b < B) y[b] = sum;
    }"""
    forms = {"host": lambda x: (x * x).sum(-1), "adjoint": lambda grad_y, x: 2 * x * grad_y[..., None]}
    norm = kernel(source, shapes={"x": "*B, D", "y": "*B"}, **forms)
    x = gradlib.arange(24, dtype=gradlib.float64).reshape(2, 3, 4).requires_grad_()
    assert gradlib.equal(norm(x), (x * x).sum(-1))
    assert gradcheck(norm, (x,))
    assert gradgradcheck(norm, (x,))
    assert norm.name == "norm"


HISTOGRAM = r"""
extern "C" __global__ void histogram(const double* x, const int* bin, double* sums, int* counts, int n, int K) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { atomicAdd(&sums[bin[i]], x[i]); atomicAdd(&counts[bin[i]], 1); }
}
extern "C" __global__ void histogram_adjoint(const double* grad_sums, const int* bin, double* grad_x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) grad_x[i] = grad_sums[bin[i]];
}
"""


@pytest.mark.cuda
def test_results_of_integers_have_no_gradient(rng):
    shapes = {"x": "n", "bin": "n", "sums": "K", "counts": "K"}
    histogram = kernel(
        HISTOGRAM, "histogram", shapes=shapes, threads="n", zeroed=["sums", "counts"], adjoint="histogram_adjoint", linear=True
    )
    x = gradlib.tensor(rng.standard_normal(6), device="cuda", requires_grad=True)
    bins = gradlib.tensor([2, 0, 2, 1, 0, 2], dtype=gradlib.int32, device="cuda")
    sums, counts = histogram(x, bins, 4)
    assert sums.requires_grad
    assert not counts.requires_grad
    assert counts.tolist() == [2, 1, 3, 0]
    sums[2].backward()
    assert x.grad.tolist() == [1, 0, 1, 0, 0, 1]
    assert histogram.check(x, bins, 4) == ("gradcheck", "gradgradcheck", "adjoint")


@pytest.mark.cuda
def test_what_no_thread_writes_is_not_returned():
    source = 'extern "C" __global__ void first(const float* x, float* y, int n) { if (threadIdx.x == 0) y[0] = x[0]; }'
    first = kernel(source, shapes={"x": "n", "y": "1"}, threads="n")
    with pytest.raises(ValueError, match="first: no thread runs for these sizes, so nothing writes y; name it in zeroed="):
        first(gradlib.empty(0, device="cuda"))
    cleared = kernel(source, shapes={"x": "n", "y": "1"}, threads="n", zeroed=["y"])
    assert cleared(gradlib.empty(0, device="cuda")).tolist() == [0]
    assert kernel(source, shapes={"x": "n"})(gradlib.empty(0, device="cuda")).shape == (0,)


@pytest.mark.cuda
def test_sizes_in_formulas_are_numbers_of_the_call_and_are_verified():
    source = r"""extern "C" __global__ void window(const float* w, const float* x, float* y, int n, int R) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n - 2 * R) for (int k = y[i] = 0; k <= 2 * R; k++) y[i] += w[k] * x[i + k];
    }"""
    window = kernel(source, shapes={"w": "2 * R + 1", "x": "n", "y": "n - 2 * R"})
    assert window.names == ("w", "x", "R")
    x = gradlib.arange(6.0, device="cuda")
    assert window(gradlib.ones(3, device="cuda"), x, 1).tolist() == [3, 6, 9, 12]
    with pytest.raises(ValueError, match=r"w has shape \(2 \* R \+ 1\), got \(3,\), where 2 \* R \+ 1 is 5"):
        window(gradlib.ones(3, device="cuda"), x, 2)
    with pytest.raises(ValueError, match=r"y has shape \(n - 2 \* R\), which is \(-1,\) here"):
        window(gradlib.ones(3, device="cuda"), x[:1], 1)
    later = kernel(source.replace("int R", "int m, int R"), shapes={"w": "m - 1", "x": "m", "y": "m"}, threads="m")
    with pytest.raises(ValueError, match=r"w has shape \(m - 1\), got \(3,\), where m - 1 is 5"):  # m is known only behind w
        later(gradlib.ones(3, device="cuda"), x, 6, 0)


@pytest.mark.cuda
def test_a_number_may_be_given_by_a_formula(rng):
    source = r"""
    extern "C" __global__ void add_bias(int total, const double* x, const double* bias, double* y, int stride) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < total) y[i] = x[i] + bias[i % stride];
    }
    extern "C" __global__ void add_bias_adjoint(const double* grad_y, double* grad_x, double* grad_bias, int stride, int count) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < count) { grad_x[i] = grad_y[i]; atomicAdd(&grad_bias[i % stride], grad_y[i]); }
    }"""
    shapes = {"x": "*B, D", "bias": "D", "total": "B * D", "stride": "D", "count": "B * D"}
    add = kernel(source, "add_bias", shapes=shapes, adjoint="add_bias_adjoint", linear=True, zeroed=["grad_bias"])
    x, bias = (gradlib.tensor(rng.standard_normal(shape), device="cuda") for shape in ((2, 3, 4), (4,)))
    assert add.names == ("x", "bias")
    assert gradlib.equal(add(x, bias), x + bias)
    assert add.check(x, bias) == ("gradcheck", "gradgradcheck", "adjoint")
    function = {"adjoint": lambda grad_y, stride: (grad_y, grad_y.reshape(-1, stride).sum(dim=0))}
    assert kernel(source, "add_bias", shapes={k: shapes[k] for k in shapes if k != "count"}, **function).check(x, bias)[0] == "gradcheck"
    for change, text in (
        ({"total": "B, D"}, "total is a number, so shapes has one formula for it, such as 'B \\* H'; got 'B, D'"),
        ({"total": "B * m"}, r"the formula of total names \['m'\]; there are \['B', 'D'\]"),
        ({"unknown": "B"}, r"shapes names \['unknown'\]"),
    ):
        with pytest.raises(ValueError, match=text):
            kernel(source, "add_bias", shapes=shapes | change, adjoint="add_bias_adjoint", linear=True, zeroed=["grad_bias"])
    told = kernel(source, "add_bias", shapes={"x": "total", "bias": "stride", "total": "2 * stride"})
    assert gradlib.equal(told(x[0, 0].repeat(2), bias), x[0, 0].repeat(2) + bias.repeat(2))
    with pytest.raises(ValueError, match=r"total is 2 \* stride, which is 8, but an array's shape has 4 for it"):
        told(x[0, 0], bias)


@pytest.mark.cuda
def test_a_number_in_a_formula_is_an_integer_and_others_make_no_plan():
    source = r"""extern "C" __global__ void repeat(const float* x, float* y, int n, int k, float factor) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n * k) y[i] = factor * x[i % n];
    }"""
    repeat = kernel(source, shapes={"x": "n", "y": "k, n"})
    x = gradlib.ones(100, device="cuda")
    assert repeat(x, np.int8(100), 1.0).shape == (100, 100)  # the product is beyond an int8
    for number in range(5):
        assert repeat(x[:1], 1, float(number)).tolist() == [[number]]
    assert len(repeat.spec._plans) == 2
    for number, shown in ((1.5, "1.5"), ([1], r"\[1\]")):
        with pytest.raises(TypeError, match=f"repeat: k stands in a formula of sizes, so it is an integer, got {shown}"):
            repeat(x, number, 1.0)
    with pytest.raises(TypeError, match="repeat: factor is a number of C type float, got list"):
        repeat(x, 1, [1.0])
    with pytest.raises(ValueError, match="n // k divides by zero for k = 0, n = 100"):
        kernel(source, shapes={"x": "n", "y": "n // k"})(x, 0, 1.0)


@pytest.mark.cuda
def test_types_that_the_source_names_are_understood(tmp_path):
    (tmp_path / "types.h").write_text("#pragma once\ntypedef double real;\n")
    body = "__global__ void half_of(const {0}* x, {0} *y, int n) {{ if (threadIdx.x < n) y[threadIdx.x] = x[threadIdx.x] / {0}(2); }}"
    x = gradlib.tensor([1.0, 2.0], dtype=gradlib.float64, device="cuda")
    for head, name, options in (
        ("typedef double real;\n", "real", ()),
        ("typedef double wide; // typedef float wide;\nusing real_t = wide;\n", "real_t", ()),
        ("#define REAL double\n", "REAL", ()),
        ("#ifndef REAL\n#define REAL float\n#endif\n", "REAL", ["-DREAL=double"]),
        ('#include "types.h"\n', "real", [f"-I{tmp_path}"]),
        ("template <typename real> ", "real", ()),
    ):
        made = kernel(head + body.format(name), shapes={"x": "*n"}, options=options)
        assert made(x).tolist() == [0.5, 1.0]
    twice = "#ifdef WIDE\ntypedef double real;\n#else\ntypedef float real;\n#endif\n"
    for source in (twice + body.format("real"), "typedef const double real;\n" + body.format("real")):
        with pytest.raises(ValueError, match=r"parameter 'x' has type 'real'; .* names that typedef, using, #define or an option -D give"):
            kernel(source, shapes={"x": "*n"})
    for name in ("complex<float>", "thrust::complex<float>", "thrust::complex< float >"):
        turn = kernel("#include <cupy/complex.cuh>\n" + body.format(name), shapes={"x": "*n"})
        assert turn(x.to(gradlib.complex64) * 1j).tolist() == [0.5j, 1j]
    assert kernel(body.format("char"), shapes={"x": "*n"})(x.to(gradlib.int8)).tolist() == [0, 1]


UPDATES = r"""
extern "C" __global__ void cut(float* x, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n && x[i] < 0) x[i] = 0;
}
extern "C" __global__ void cut_adjoint(const float* x, const float* grad_x, float* grad_before, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) grad_before[i] = x[i] > 0 ? grad_x[i] : 0;
}
extern "C" __global__ void axpy(float a, const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] += a * x[i];
}
extern "C" __global__ void axpy_adjoint(float a, const float* grad_y, float* grad_x, float* grad_y0, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) { grad_x[i] = a * grad_y[i]; grad_y0[i] = grad_y[i]; }
}
"""


@pytest.mark.cuda
def test_a_kernel_that_updates_its_argument_gets_a_copy(rng):
    x = gradlib.tensor(rng.standard_normal((2, 3)), dtype=gradlib.float32, device="cuda")
    kept = x.clone()
    cut = kernel(UPDATES, "cut", shapes={"x": "*n"}, updated={"x": "before"}, adjoint="cut_adjoint", host=gradlib.relu)
    assert (cut.names, cut.outputs) == (("before",), ("x",))
    for each in (x, x.t()):
        assert gradlib.equal(cut(each), gradlib.relu(each))
        assert cut.check(each) == ("values", "gradients", "gradcheck")
    assert gradlib.equal(x, kept)
    axpy = kernel(UPDATES, "axpy", shapes={"x": "*n", "y": "*n"}, updated={"y": "y0"}, adjoint="axpy_adjoint", linear=True)
    assert axpy.names == ("a", "x", "y0")
    assert axpy.check(2.0, x, kept + 1) == ("gradcheck", "gradgradcheck", "adjoint")
    raw = kernel(cupy.RawKernel(UPDATES, "axpy"), shapes={"x": "*n"}, updated={"y": "x"}, adjoint=lambda grad_y, a: (1 + a) * grad_y)
    assert raw.check(2.0, x) == ("gradcheck", "gradgradcheck")


def pair():
    return gradlib.ones(2, device="cuda"), gradlib.ones(1, device="cuda")


@pytest.mark.parametrize(
    ("run", "text"),
    [
        (lambda: kernel(UPDATES, "cut"), "no pointer is to const, so the kernel has no input. If it updates x, say updated={'x': 'before"),
        (lambda: kernel(UPDATES, "axpy", updated={"x": "y"}), "axpy: updated names 'x', which is no output"),
        (lambda: kernel(UPDATES, "axpy", updated={"y": "y0"}, zeroed=["y"]), "axpy: updated names 'y', which is no output that keeps"),
        (lambda: kernel(UPDATES, "axpy", updated={"y": "n"}), "axpy: y begins as a copy of n, which is no input of its type"),
        (
            lambda: kernel(UPDATES, "axpy", shapes={"x": "*n"}, updated={"y": "y0"})(1.0, *pair()),
            r"axpy: y begins as a copy of y0 of shape \(1,\), but has shape \(2,\), as the first input has; give it in shapes",
        ),
        (
            lambda: kernel(UPDATES, "axpy", shapes={"x": "*n", "y": "*n"}, updated={"y": "y0"})(1.0, *pair()),
            r"axpy: y0 has shape \(\*n\), got \(1,\), but n is 2",
        ),
    ],
)  # fmt: skip
def test_an_update_that_does_not_go_together_is_refused(run, text):
    with pytest.raises(ValueError, match=text):
        run()


@pytest.mark.cuda
def test_an_adjoint_of_gradlibs_gets_tensors_in_every_pass():
    source = r"""extern "C" __global__ void sums(const double* x, double* y, int B, int D) {
        int b = blockIdx.x * blockDim.x + threadIdx.x;
        if (b < B) for (int d = y[b] = 0; d < D; d++) y[b] += x[b * D + d];
    }"""
    sums = kernel(source, shapes={"x": "B, D", "y": "B"}, adjoint=lambda grad_y, D: grad_y.unsqueeze(-1).expand(-1, D))
    assert sums.check(gradlib.ones(2, 3, dtype=gradlib.float64)) == ("gradcheck", "gradgradcheck")


@pytest.mark.cuda
def test_an_operation_is_copied_as_itself_and_pickled_as_its_declaration(rng):
    x = gradlib.tensor(rng.standard_normal(3), dtype=gradlib.float64, device="cuda")
    made = gather(host=None)
    assert copy.deepcopy([made])[0] is copy.copy(made) is made
    again = pickle.loads(pickle.dumps(made))
    assert again.check(x.reshape(3, 1), gradlib.tensor([2, 0])) == ("gradcheck", "gradgradcheck", "adjoint")
    raw = kernel(cupy.RawKernel(TWICE, "twice"), shapes={"x": "*n"})
    assert gradlib.equal(pickle.loads(pickle.dumps(raw))(x.float()), 2 * x.float())


@pytest.mark.cuda
def test_an_instance_named_with_a_number_is_taken():
    source = """template <typename T, int D> __global__ void times(const T* x, T* y, int n) {
        if (threadIdx.x < n) y[threadIdx.x] = D * x[threadIdx.x];
    }"""
    for instance, text in (("times<float, 3>", source), ("times<real, 3>", f"typedef float real;\n{source}")):
        assert kernel(text, instance, shapes={"x": "*n"})(gradlib.ones(2, device="cuda")).tolist() == [3, 3]
    with pytest.raises(ValueError, match="parameter 'x' has type 'real'"):
        kernel(source, "times<real, 3>", shapes={"x": "*n"})


@pytest.mark.cuda
def test_complex_templates_have_their_header():
    source = """template <typename T> __global__ void turn(const T* x, T* y, T a, int n) {
        if (threadIdx.x < n) y[threadIdx.x] = a * x[threadIdx.x];
    }"""
    turn = kernel(source, shapes={"x": "*n"})
    assert turn(gradlib.tensor([1 + 2j, 3], device="cuda"), 1j).tolist() == [-2 + 1j, 3j]


@pytest.mark.cuda
@pytest.mark.parametrize(
    ("given", "grid", "block"),
    [
        ({}, (1,), (256,)),
        ({"threads": "cdiv(n, 2)", "block": 32}, (2,), (32,)),
        ({"grid": "cdiv(n, 20)", "block": 20}, (5,), (20,)),
        ({"threads": ("n", 3), "block": (8, 2)}, (13, 2), (8, 2)),
        ({"grid": (1, 1), "block": (8, "2")}, (1, 1), (8, 2)),
    ],
)
def test_the_launch_is_as_declared(monkeypatch, given, grid, block):
    seen = []
    monkeypatch.setattr(kernel_op, "launch", seen.append)
    softplus(**given, shared="4 * n")(gradlib.ones(100, device="cuda"), 1.0)
    assert (seen[0].grid, seen[0].block, seen[0].shared, seen[0].options) == (grid, block, 400, (("T", "float"),))


# ---- what is kept, and higher derivatives -------------------------------------------------------------------------------------------


def test_only_what_the_adjoint_names_is_kept(device):
    x, angle = gradlib.ones(3, 2, requires_grad=True), gradlib.ones(3, requires_grad=True)
    scaled, turned = x * 1, angle * 1
    u, _ = rotate(host=rotate_host if device == "cpu" else None)(scaled, turned)
    if device == "cuda":  # on the host all is kept, as the host form is recorded again
        scaled.mul_(2)
        u.sum().backward(retain_graph=True)
    turned.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        u.sum().backward()


def test_a_second_derivative_through_a_bare_adjoint_is_an_error(device):
    x = gradlib.ones(3, requires_grad=True)
    (first,) = gradlib.autograd.grad(softplus()(x, 1.0).sum(), x, create_graph=True)
    with pytest.raises(RuntimeError, match=r"differentiate softplus twice, .* but its derivative is the kernel 'softplus_adjoint'"):
        first.sum().backward()


def test_no_adjoint_is_an_error_in_backward_only(device):
    x = gradlib.ones(3, requires_grad=True)
    y = softplus(adjoint=None)(x, 1.0)
    with pytest.raises(RuntimeError, match="softplus has no derivative: give adjoint="):
        y.sum().backward()


def test_an_adjoint_that_is_an_operation_gives_second_derivatives(device):
    x = gradlib.tensor([-1.0, 0.5, 2.0], dtype=gradlib.float64, requires_grad=True)
    written = softplus(adjoint=lambda grad_y, x, beta: grad_y * gradlib.sigmoid(x * beta))
    launched = softplus(
        adjoint=kernel(
            SOFTPLUS,
            "softplus_adjoint",
            shapes={"x": "*n", "grad_y": "*n"},
            host=lambda x, grad_y, beta: grad_y * gradlib.sigmoid(x * beta),
            adjoint=lambda grad_grad_x, x, grad_y, beta: (
                grad_grad_x * grad_y * beta * gradlib.sigmoid(x * beta) * gradlib.sigmoid(-x * beta),
                grad_grad_x * gradlib.sigmoid(x * beta),
            ),
        )
    )
    for each in (written, launched):
        assert gradcheck(each, (x, 2.0))
        assert gradgradcheck(each, (x, 2.0))
        assert each.differentiable == 2


def test_a_linear_kernel_is_the_derivative_of_its_adjoint(device, rng):
    table, t_table = (gradlib.tensor(rng.standard_normal((4, 3))) for _ in range(2))
    index = gradlib.tensor([0, 2, 2])
    made, moved = gradlib.func.jvp(lambda x: gather()(x, index), (table,), (t_table,))
    assert gradlib.equal(made, table[index])
    assert gradlib.equal(moved, t_table[index])
    with pytest.raises(ValueError, match="softplus_adjoint reads x, so softplus is not linear"):
        softplus(linear=True)


def test_forward_mode_takes_the_jvp(device):
    x, t = gradlib.tensor([0.5, -1.0]), gradlib.tensor([2.0, 3.0])
    known = softplus(jvp=lambda x, t_x, beta: t_x * gradlib.sigmoid(x * beta))
    _, moved = gradlib.func.jvp(lambda v: known(v, 2.0), (x,), (t,))
    np.testing.assert_allclose(moved.cpu().numpy(), (t * gradlib.sigmoid(2 * x)).cpu().numpy(), rtol=1e-6)
    with pytest.raises(RuntimeError, match=r"in forward mode, but .* for forward mode jvp="):
        gradlib.func.jvp(lambda v: softplus()(v, 2.0), (x,), (t,))


def test_a_tangent_of_a_constant_is_refused(device):
    x = gradlib.tensor([0.5, -1.0])
    fixed = softplus(adjoint=None, constant=["x"])
    with pytest.raises(ValueError, match="x is a constant, got a Tensor that has a tangent; detach it"):
        gradlib.func.jvp(lambda v: fixed(v, 2.0), (x,), (x,))
    assert gradlib.equal(gradlib.func.jvp(lambda v: fixed(v.detach(), 2.0) * v, (x,), (x,))[1], fixed(x, 2.0) * x)


def test_vmap_runs_row_by_row_and_says_so(device):
    x = gradlib.arange(6.0).reshape(2, 3)
    with pytest.warns(UserWarning, match="kernel_softplus"):
        made = gradlib.func.vmap(lambda row: softplus()(row, 1.0))(x)
    assert gradlib.equal(made, softplus()(x, 1.0))


# ---- what is refused before a launch -------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("run", "kind", "text"),
    [
        (lambda x: rotate()(x, x[:, 0].double()), TypeError, r"angle has dtype float32 \(T is float32 here\), got float64"),
        (lambda x: gather()(x, x[:, 0].long()), TypeError, r"table has dtype float64 \(declared double\), got float32 of shape \(3, 2\)"),
        (lambda x: rotate()(x, x[:2, 0]), ValueError, r"angle has shape \(\*n\), got \(2,\), but n is 3"),
        (lambda x: rotate()(x.t(), x[:, 0]), ValueError, r"x has shape \(\*n, 2\), got \(2, 3\), where 2 is 2"),
        (lambda x: rotate()(x[0, 0], x[:, 0]), ValueError, r"x has shape \(\*n, 2\), got \(\)"),
        (lambda x: softplus()(x, gradlib.tensor(1.0)), TypeError, r"beta is a number, got Tensor; .*a pointer that is not const is a res"),
        (lambda x: softplus()(x, "1"), TypeError, "beta is a number of C type float, got str"),
        (lambda x: softplus()([1.0], 1.0), TypeError, "x is a Tensor or an array, got list"),
        (lambda x: softplus()(x), TypeError, "softplus takes x, beta, got 1 by position: missing .*; a number is an argument unless"),
        (lambda x: softplus()((1,), (256,), (x, 1.0)), TypeError, "too many positional arguments; grid and block are not passed"),
        (lambda x: softplus()(x, 1.0, x), TypeError, r"y: a pointer that is not const is a result and is not passed; .* or in updated="),
        (lambda x: softplus(shared="n - 9")(x, 1.0), ValueError, "softplus: shared is a number of bytes, got shared='n - 9', which is -3"),
        (lambda x: softplus(block=0)(x, 1.0), ValueError, "softplus: a block has at least one thread, got block=0"),
        (lambda x: softplus(adjoint=None, constant=["x"])(x.requires_grad_(), 1.0), ValueError, "x is a constant, got a Tensor that"),
    ],
)
def test_a_wrong_argument_is_refused(monkeypatch, run, kind, text):
    seen = []
    monkeypatch.setattr(launching.Prepared, "handle", lambda *_: seen.append(1))
    with pytest.raises(kind, match=text):
        run(gradlib.ones(3, 2, device="cuda"))
    assert not seen


def test_tensors_on_two_devices_are_refused(device):
    x, angle = gradlib.ones(3, 2, device="cpu"), gradlib.ones(3, device="cuda")
    with pytest.raises(RuntimeError, match="rotate: expected all tensors to be on the same device"):
        rotate()(x, angle)


def test_a_kernel_without_a_host_form_says_so_on_the_cpu():
    with pytest.raises(RuntimeError, match="softplus has no host form, so it runs on a GPU only, got tensors on the CPU"):
        softplus(host=None)(gradlib.ones(2), 1.0)


def test_a_host_form_that_is_not_the_kernels_is_refused():
    x = gradlib.ones(3)
    with pytest.raises(TypeError, match=r"gives float32 of shape \(3,\) for y, got float64 of shape \(3,\)"):
        softplus(host=lambda x, beta: np.asarray(x, np.float64))(x, 1.0)
    with pytest.raises(TypeError, match=r"gives 2 results \(u, v\), got 1"):
        rotate(host=lambda x, angle: x)(gradlib.ones(3, 2), x)
    y = softplus(host=lambda x, beta: x if isinstance(x, np.ndarray) else x.detach().numpy())(x.requires_grad_(), 1.0)
    with pytest.raises(RuntimeError, match="host form cannot be differentiated, as of Tensors it gives ndarray"):
        y.sum().backward()


def test_a_host_form_in_numpy_has_an_adjoint_in_numpy():
    host = lambda x, beta: (np.log1p(np.exp(x * beta)) / beta).astype(x.dtype)  # noqa: E731
    both = softplus(host=host, host_adjoint=lambda x, grad_y, beta: (grad_y / (1 + np.exp(-beta * x))).astype(x.dtype))
    assert gradcheck(both, (gradlib.ones(3, dtype=gradlib.float64, requires_grad=True), 2.0))


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"shapes": {"z": "n"}}, r"shapes names \['z'\], but the kernel's parameters are x, y, beta, n"),
        ({"shapes": {"x": "*n", "y": "m"}}, r"the shape of y names \['m'\]"),
        ({"shapes": {"x": "*n, *m"}}, "is no shape; one of its sizes may be starred"),
        ({"threads": "m"}, r"threads names \['m'\], which no shape of an input has"),
        ({"threads": "n.real"}, "is no formula of sizes"),
        ({"threads": "f("}, "is no formula of sizes"),
        ({"threads": "n / 2"}, "is no formula of sizes, .* // divides"),
        ({"threads": ("n", 1, 1, 1)}, r"a launch has up to three directions, got threads=\('n', 1, 1, 1\)"),
        ({"shapes": {"x": "m + 1"}}, r"the shape of x names \['m'\]"),
        ({"zeroed": ["x"]}, r"zeroed names \['x'\], which are no outputs"),
        ({"constant": ["y"]}, r"constant names \['y'\]"),
        ({"adjoint": "backward"}, r"declares no kernel 'backward' \(it declares: softplus, softplus_adjoint\)"),
        ({"adjoint": "softplus"}, r"softplus writes y; an adjoint of softplus writes grad_x"),
        ({"adjoint": lambda grad_z: grad_z}, r"adjoint asks for \['grad_z'\]; there are beta, grad_y, x, y. Rename its parameters"),
        ({"adjoint": 3}, r"adjoint is the name of a kernel in the same source, .* got int"),
        ({"shapes": "n"}, r"shapes gives parameters their sizes as texts, .* got 'n'"),
        ({"shapes": {"x": ("n",)}}, r"shapes gives parameters their sizes as texts, .* got \{'x': \('n',\)\}"),
        ({"threads": "n", "grid": 1}, "got threads='n' and grid=1; give one of them"),
        ({"zeroed": "grad_x"}, r"zeroed is a list of texts, got the text 'grad_x'; write zeroed=\['grad_x'\]"),
        ({"options": "--use_fast_math"}, "options is a list of texts"),
        ({"jvp": lambda t_y: t_y}, r"jvp asks for \['t_y'\]"),
    ],
)
def test_a_declaration_that_does_not_go_together_is_refused(change, text):
    with pytest.raises((TypeError, ValueError), match=text):
        softplus(**change)


def test_sources_that_cannot_be_wrapped_are_refused():
    with pytest.raises(ValueError, match=r"has 2 kernels \(softplus, softplus_adjoint\); say which"):
        kernel(SOFTPLUS)
    with pytest.raises(ValueError, match=r'has no kernel; write one as extern "C" __global__ void'):
        kernel("void f(float* x) {}")
    with pytest.raises(ValueError, match="the kernel writes nothing"):
        kernel('extern "C" __global__ void f(const float* x) {}')
    with pytest.raises(ValueError, match=r"nothing tells the template's \['T'\]"):
        kernel("template <typename T> __global__ void f(const float* x, T* y) {}")
    with pytest.raises(ValueError, match=r"template's D is a int, so it is one of the sizes in shapes; .* an instance: .*'f<float, 3>'"):
        kernel("template <int D> __global__ void f(const float* x, float* y) {}")
    with pytest.raises(ValueError, match=r"parameter 'x' has type 'char3'"):
        kernel('extern "C" __global__ void f(const char3* x, float* y) {}')
    with pytest.raises(ValueError, match=r"every parameter of f has a name, got const float\*, int"):
        kernel('extern "C" __global__ void f(const float*, float* y, int) {}')
    with pytest.raises(TypeError, match=r"a kernel is CUDA text, a path that ends in .cu, or a RawKernel, .* got int"):
        kernel(3)
    with pytest.raises(FileNotFoundError):
        kernel("absent.cu")


# ---- errors of the compiler and of the device ------------------------------------------------------------------------------------


@pytest.mark.cuda
def test_an_error_in_the_source_shows_the_users_line():
    wrong = kernel(
        r"""
        extern "C" __global__ void wrong(const float* x, float* y) {
            y[0] = undefined_thing(x[0]);
        }"""
    )
    with pytest.raises(CompileError) as caught:
        wrong(gradlib.ones(1, device="cuda"))
    here = Path(__file__)
    number = next(i for i, line in enumerate(here.read_text().splitlines(), 1) if "undefined_thing(x" in line)
    assert str(caught.value).startswith(f"wrong does not compile:\n  {here}:{number}: y[0] = undefined_thing(x[0]);\n")
    assert re.search(r"undefined_thing.* (was not declared|is undefined)", str(caught.value))
    if ARCHITECTURES:
        with pytest.raises(CompileError, match=rf"{here}:{number}: y\[0\].*\n.*identifier \"undefined_thing\" is undefined"):
            nvrtc.ptx(wrong.spec.source, (), 90, "wrong")


@pytest.mark.skipif(not ARCHITECTURES, reason="no NVRTC")
def test_nvrtc_compiles_every_template_that_is_asked_for():
    source = softplus().spec.source
    for ctype in ("float", "double"):
        assert ".entry _Z8softplus" in nvrtc.ptx(source, (("T", ctype),), 90, "softplus")


@pytest.mark.cuda
@pytest.mark.skipif(HAS_GPU, reason="a GPU that has faulted serves the process no more")
@pytest.mark.parametrize("blocking", [False, True])
def test_a_fault_shows_late_or_where_launches_are_waited_for_at_its_own(monkeypatch, blocking):
    beyond = kernel(TWICE.replace("twice", "beyond").replace("i < n", "i <= n"), shapes={"x": "*n"})
    x = gradlib.ones(3, device="cuda")
    monkeypatch.setattr(launching, "BLOCKING", blocking)
    with hostcuda.expected("beyond"), hostcuda.late_faults():
        if blocking:
            named = r"beyond failed on the device: .*an illegal memory access.*Its arguments: float32\[3\], float32\[3\], 3"
            with pytest.raises(RuntimeError, match=named):
                beyond(x)
        else:
            y = beyond(x)
            z = softplus()(y, 1.0)
            for wait in (z.tolist, cuda.synchronize, cuda.current_stream().synchronize):
                with pytest.raises(cupy.cuda.runtime.CUDARuntimeError, match="cudaErrorIllegalAddress"):
                    wait()
    assert softplus()(x, 1.0).shape == (3,)


def test_the_environment_says_whether_launches_are_waited_for():
    for value, blocking in (("1", True), ("0", False), (None, False)):
        environment = {name: given for name, given in os.environ.items() if name != "GRADLIB_LAUNCH_BLOCKING"}
        environment |= {} if value is None else {"GRADLIB_LAUNCH_BLOCKING": value}
        command = [sys.executable, "-c", "from gradlib.cuda import launch; print(launch.BLOCKING)"]
        done = subprocess.run(command, env=environment, capture_output=True, text=True)
        assert done.stdout.strip() == str(blocking), done.stderr


# ---- what a user already has -------------------------------------------------------------------------------------------------------


TWICE = r"""extern "C" __global__ void twice(const float* x, float* y, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = 2 * x[i];
}"""


@pytest.mark.cuda
def test_kernels_of_cupy_are_taken_as_they_are():
    module = cupy.RawModule(code=SOFTPLUS, name_expressions=("softplus<float>",))
    x = gradlib.ones(3, device="cuda", requires_grad=True)
    ready = {"adjoint": lambda grad_y: 2 * grad_y}
    for given in (
        kernel(cupy.RawKernel(TWICE, "twice"), shapes={"x": "*n"}, **ready),
        kernel(cupy.RawModule(code=TWICE), "twice", shapes={"x": "*n"}, **ready),
        kernel(
            cupy.RawKernel(TWICE, "twice"),
            parameters="const float* source, float* out, int n",
            shapes={"source": "*n"},
            adjoint=lambda grad_out: 2 * grad_out,
        ),
    ):
        y = given(x)
        (g,) = gradlib.autograd.grad(y.sum(), x)
        assert (y.tolist(), g.tolist()) == ([2.0] * 3, [2.0] * 3)
    other = cupy.RawKernel(TWICE.replace("const ", ""), "twice")  # its adjoint is itself, under other names
    adjoint = kernel(other, parameters="const float* grad_y, float* grad_x, int n", shapes={"grad_y": "*n"})
    given = kernel(other, parameters="const float* x, float* y, int n", shapes={"x": "*n"}, adjoint=adjoint)
    assert given.check(x) == ("gradcheck",)
    with pytest.raises(ValueError, match="parameters declares an object of CuPy's"):
        kernel(TWICE, parameters="const float* x, float* y, int n")
    made = kernel(module, "softplus<float>", shapes={"x": "*n"})(x.detach(), 1.0)
    np.testing.assert_allclose(made.cpu().numpy(), np.log1p(np.exp(np.ones(3, np.float32))), rtol=1e-6)
    with pytest.raises(ValueError, match="a RawModule holds several kernels"):
        kernel(cupy.RawModule(code=TWICE))
    with pytest.raises(ValueError, match="is no instance of a template in this RawModule; name one of its instances: softplus<float>"):
        kernel(module, "softplus")
    with pytest.raises(ValueError, match="softplus< float > is no instance"):
        kernel(module, "softplus< float >")
    with pytest.raises(ValueError, match="options are for the compiler, and a RawKernel has its own"):
        kernel(cupy.RawKernel(TWICE, "twice"), shapes={"x": "*n"}, options=["-DFACTOR=2"])
    function = module.get_function("softplus<float>")  # its name is what the compiler made of it
    with pytest.raises(ValueError, match="is not how the source names this kernel"):
        kernel(function, shapes={"x": "*n"})
    assert gradlib.equal(kernel(function, "softplus<float>", shapes={"x": "*n"})(x.detach(), 1.0), made)


@pytest.mark.cuda
def test_constant_memory_of_a_module_is_set_by_its_get_global():
    module = cupy.RawModule(code="__constant__ float factor[1];\n" + TWICE.replace("2 * x[i]", "factor[0] * x[i]"))
    scale = kernel(module, "twice", shapes={"x": "*n"}, adjoint=lambda grad_y: 3 * grad_y)
    cupy.ndarray(1, cupy.float32, module.get_global("factor")).fill(3)
    assert scale(gradlib.arange(3.0, device="cuda")).tolist() == [0, 3, 6]
    assert "gradcheck" in scale.check(gradlib.arange(3.0))


@pytest.mark.cuda
def test_the_adjoint_of_a_cupy_kernel_may_stand_in_its_source(rng):
    x = gradlib.tensor(rng.standard_normal(5), dtype=gradlib.float32, device="cuda")
    text = LINE.replace("OFF", "1")
    given = {"shapes": {"x": "*n"}, "adjoint": "line_adjoint", "linear": True}
    for made in (cupy.RawKernel(text, "line"), cupy.RawModule(code=text)):
        assert kernel(made, "line", **given).check(x, 2.0) == ("gradcheck", "gradgradcheck", "adjoint")
    template = SOFTPLUS.replace("softplus(", "soft(").replace("softplus_adjoint", "soft_adjoint")
    module = cupy.RawModule(code=template, name_expressions=("soft<double>", "soft_adjoint<double>"))
    shapes = {"x": "*n"}
    assert kernel(module, "soft<double>", shapes=shapes, adjoint="soft_adjoint<double>").check(x.double(), 2.0) == ("gradcheck",)
    with pytest.raises(ValueError, match=r"soft_adjoint is no instance of a template in this RawModule; .* soft_adjoint<double>"):
        kernel(module, "soft<double>", shapes=shapes, adjoint="soft_adjoint")


@pytest.mark.cuda
def test_a_kernel_in_a_namespace_has_its_full_name(rng):
    x = gradlib.tensor(rng.standard_normal(5), device="cuda")
    spaced = kernel(f"namespace mine {{ {SOFTPLUS} }}", "mine::softplus", shapes={"x": "*n"}, adjoint="mine::softplus_adjoint")
    assert spaced.name == "softplus"
    assert spaced.check(x, 2.0) == ("gradcheck",)


@pytest.mark.cuda
def test_what_cupy_calls_a_kernel_and_is_none_is_refused_with_advice():
    wave = cupy.ElementwiseKernel("T x", "T y", "y = x", "wave")
    total = cupy.ReductionKernel("T x", "T y", "x", "a + b", "y = a", "0", "total")
    fused = cupy.fuse(abs)
    for given, advice in ((wave, "gradlib.cuda.elementwise"), (total, "gradlib.cuda.reduction"), (fused, "called with Tensors without")):
        with pytest.raises(TypeError, match=rf"or cupyx.jit kernel, got {type(given).__name__}; .*{advice}"):
            kernel(given)
    with pytest.raises(TypeError, match=r"got RawKernel; a kernel of CuPy's becomes one by gradlib.cuda.kernel"):
        kernel(TWICE, shapes={"x": "*n"}, adjoint=cupy.RawKernel(TWICE, "twice"))


@pytest.mark.cuda
def test_a_rawkernel_that_does_not_compile_is_a_compile_error():
    with pytest.raises(CompileError, match=r"^twice does not compile:\n"):
        kernel(cupy.RawKernel(TWICE.replace("2 *", "undefined *"), "twice"), shapes={"x": "*n"})(gradlib.ones(1, device="cuda"))


@pytest.mark.cuda
def test_a_block_has_what_the_device_gives_and_more_is_refused():
    x = gradlib.ones(3, device="cuda")
    for change in ({"block": 2048}, {"shared": 10**7}):
        with pytest.raises(ValueError, match=r"^twice cannot be launched: .* up to 1024 threads and \d+ bytes .* got grid \("):
            kernel(TWICE, shapes={"x": "*n"}, **change)(x)
    most = launching.most_shared(0)
    assert most > 48 * 1024  # what a kernel gets that does not ask for more
    assert kernel(TWICE, shapes={"x": "*n"}, shared=most)(x).tolist() == [2.0] * 3


@pytest.mark.cuda
@pytest.mark.filterwarnings("ignore:cupyx.jit.rawkernel is experimental")
def test_kernels_of_cupyx_jit_are_taken_as_they_are():
    from cupyx import jit

    @jit.rawkernel()
    def thrice(x, y, n):
        i = jit.blockIdx.x * jit.blockDim.x + jit.threadIdx.x
        if i < n:
            y[i] = x[i] * 3

    with pytest.raises(ValueError, match="thrice has no source to read its declaration from; give parameters="):
        kernel(thrice)
    given = kernel(thrice, parameters="const float* x, float* y, int n", shapes={"x": "*n"}, adjoint=lambda grad_y: 3 * grad_y)
    assert given(gradlib.arange(3.0, device="cuda")).tolist() == [0, 3, 6]
    assert given(gradlib.ones(2, 2, device="cuda")).tolist() == [[3, 3], [3, 3]]  # the kernel is given the four as one dimension

    @jit.rawkernel()
    def rows(x, y, B, D):
        i = jit.blockIdx.x * jit.blockDim.x + jit.threadIdx.x
        if i < B:
            y[i] = x[i, 0] - x[i, D - 1]

    shapes = {"x": "*B, D", "y": "*B"}
    given = kernel(rows, parameters="const float* x, float* y, int B, int D", shapes=shapes)
    assert given(gradlib.arange(8.0, device="cuda").view(2, 2, 2)).tolist() == [[-1, -1], [-1, -1]]


def test_a_file_and_its_headers(device, tmp_path):
    (tmp_path / "factor.cuh").write_text("#define FACTOR 2\n")
    (tmp_path / "twice.cu").write_text('#include "factor.cuh"\n' + TWICE.replace("2 *", "FACTOR *"))
    first = kernel(tmp_path / "twice.cu", shapes={"x": "*n"}, host=lambda x: 2 * x)
    assert first(gradlib.ones(2)).tolist() == [2, 2]
    (tmp_path / "factor.cuh").write_text("#define FACTOR 5\n")
    again = kernel(str(tmp_path / "twice.cu"), shapes={"x": "*n"})
    assert again.spec.source.digest != first.spec.source.digest


@pytest.mark.cuda
def test_a_changed_header_is_compiled_again_in_the_same_process(tmp_path):
    (tmp_path / "inner").mkdir()
    (tmp_path / "scale.cuh").write_text("#include <factor.cuh>\n")
    (tmp_path / "twice.cu").write_text('#include "scale.cuh"\n' + TWICE.replace("2 *", "FACTOR *"))
    folders = [f"-I{tmp_path / 'inner'}", f"-I{tmp_path}"]
    x = gradlib.ones(2, device="cuda")
    for factor in (3, 5):
        (tmp_path / "inner" / "factor.cuh").write_text(f"#define FACTOR {factor}\n")
        for source in (tmp_path / "twice.cu", (tmp_path / "twice.cu").read_text()):
            assert kernel(source, shapes={"x": "*n"}, options=folders)(x).tolist() == [factor] * 2
    (tmp_path / "main.cu").write_text('#include "twice.cu"\n')
    assert kernel(tmp_path / "main.cu", shapes={"x": "*n"}).names == ("x",)  # its kernel stands in another file
    (tmp_path / "cuda_runtime.h").write_text("")  # as the toolkit's folder has, whose headers are the compiler's
    assert not kernel((tmp_path / "twice.cu").read_text(), options=[f"-I{tmp_path}"]).spec.source.headers
    (tmp_path / "twice.cuh").write_text(TWICE)
    assert kernel(str(tmp_path / "twice.cuh"), shapes={"x": "*n"})(x).tolist() == [2, 2]


@pytest.mark.cuda
@pytest.mark.filterwarnings("ignore:There is a performance drop")
def test_a_profile_shows_the_operation_and_its_kernels():
    x = gradlib.ones(3, device="cuda", requires_grad=True)
    with gradlib.autograd.profiler.profile() as seen:
        softplus()(x, 1.0).sum().backward()
    names = {event.name for event in seen.function_events}
    assert {"softplus", "softplus_adjoint", "SoftplusBackward0"} <= names


@two_devices
@pytest.mark.cuda
def test_a_kernel_runs_on_the_device_and_stream_of_its_tensors():
    x = gradlib.ones(3, device="cuda:1", requires_grad=True)
    with cupy.cuda.Device(1):
        filled = cupy.cuda.get_current_stream().record()
        with cupy.cuda.Stream(non_blocking=True) as stream:
            stream.wait_event(filled)
            y = softplus()(x, 1.0).sum()
    y.backward()
    assert (str(y.device), y.grad_fn._meta.stream.ptr) == ("cuda:1", stream.ptr)
    cupy.cuda.Device(1).synchronize()
    np.testing.assert_allclose(x.grad.cpu().numpy(), np.full(3, 1 / (1 + np.exp(-1))), rtol=1e-6)


# ---- check ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.cuda
def test_check_compares_the_forms_and_proves_the_adjoint(rng):
    x = gradlib.tensor(rng.standard_normal(5), requires_grad=True)
    assert softplus().check(x, 2.0) == ("values", "gradients", "gradcheck")
    assert softplus().check(x.float(), 2.0) == ("values", "gradients", "gradcheck")
    known = softplus(
        jvp=lambda x, t_x, beta: t_x * gradlib.sigmoid(x * beta), adjoint=lambda grad_y, x, beta: grad_y * gradlib.sigmoid(x * beta)
    )
    every = ("values", "gradients", "gradcheck", "gradgradcheck", "adjoint")
    assert known.check(x.cuda(), 2.0) == every
    assert gather().check(gradlib.tensor(rng.standard_normal((4, 3))), gradlib.tensor([0, 2, 2])) == every
    assert softplus(adjoint=None).check(x, 2.0) == ("values",)
    assert rotate().check(gradlib.tensor(rng.standard_normal((3, 2))), gradlib.tensor(rng.standard_normal(3)))[-1] == "gradcheck"


@pytest.mark.cuda
def test_check_finds_what_is_wrong(rng):
    x = gradlib.tensor(rng.standard_normal(5))
    with pytest.raises(AssertionError, match=r"the kernel \(actual\) and the host form \(desired\) differ in y"):
        softplus(host=lambda x, beta: gradlib.exp(x)).check(x, 2.0)
    wrong = SOFTPLUS.replace("grad_y[i] /", "2 * grad_y[i] /")
    bad = kernel(wrong, "softplus", shapes={"x": "*n"}, adjoint="softplus_adjoint", host=softplus_host)
    with pytest.raises(AssertionError, match="differ in the gradient by x"):
        bad.check(x, 2.0)
    with pytest.raises(AssertionError, match="gradcheck: Jacobian mismatch"):
        kernel(wrong, "softplus", shapes={"x": "*n"}, adjoint="softplus_adjoint").check(x.cuda(), 2.0)
    with pytest.raises(AssertionError, match="the adjoint is not that of the kernel"):
        softplus(jvp=lambda x, t_x: 2 * t_x).check(x, 2.0)


@pytest.mark.cuda
def test_check_finds_what_is_read_or_not_written():
    x = gradlib.ones(5, device="cuda")
    source = r"""extern "C" __global__ void add(const float* x, float* y, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) y[i] += x[i];
    }
    extern "C" __global__ void add_adjoint(const float* grad_y, float* grad_x, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) atomicAdd(&grad_x[i], grad_y[i]);
    }"""
    with pytest.raises(AssertionError, match=r"add: y depends on what its memory held before the launch: .* name in zeroed"):
        kernel(source, "add", shapes={"x": "*n"}).check(x)
    with pytest.raises(AssertionError, match="add: y depends on what its memory held"):
        kernel(source.replace("+=", "="), "add", shapes={"x": "*n"}, threads="n - 1", block=1).check(x)
    for text in ("y[i] += 1e6f * x[i] + 1e6f", "y[i] = max(y[i], x[i] + 3)", "y[i] = min(y[i], x[i] - 3)"):
        with pytest.raises(AssertionError, match="add: y depends on what its memory held"):
            kernel(source.replace("y[i] += x[i]", text), "add", shapes={"x": "*n"}).check(x)
    given = {"shapes": {"x": "*n"}, "adjoint": "add_adjoint", "linear": True}
    with pytest.raises(AssertionError, match="add: the gradient by x depends on what its memory held"):
        kernel(source, "add", zeroed=["y"], **given).check(x)
    whole = kernel(source, "add", zeroed=["y", "grad_x"], **given)
    assert whole.check(x) == ("gradcheck", "gradgradcheck", "adjoint")
    assert whole.implementation.before is None


@pytest.mark.cuda
@pytest.mark.parametrize(
    ("dtype", "ctype"),
    [("bool", "bool"), ("int8", "signed char"), ("uint8", "unsigned char"), ("float16", "__half"), ("complex64", "complex<float>")],
)
def test_check_finds_what_is_not_written_of_any_type(dtype, ctype):
    x = gradlib.ones(3, device="cuda", dtype=getattr(gradlib, dtype))
    source = "template <typename T> __global__ void copy(const T* x, T* y) { if (threadIdx.x != 1) y[threadIdx.x] = x[threadIdx.x]; }"
    operation = kernel(source, f"copy<{ctype}>", block=3)
    with pytest.raises(AssertionError, match="copy: y depends on what its memory held"):
        operation.check(x)


@pytest.mark.cuda
def test_check_takes_zero_for_a_tolerance():
    operation = softplus(adjoint=None, host=lambda x, beta: softplus_host(x, beta) + 1e-12)
    x = gradlib.ones(3, device="cuda", dtype=gradlib.float64)
    assert operation.check(x, 2.0) == ("values",)
    with pytest.raises(AssertionError, match="differ in y"):
        operation.check(x, 2.0, atol=0.0, rtol=0.0)


COPY = r"""extern "C" __global__ void copy(const float* in, float* out, int n) {
        int i = blockIdx.x * blockDim.x + threadIdx.x;
        if (i < n) out[i] = in[i];
    }"""


@pytest.mark.cuda
def test_parameters_may_have_names_that_are_words_of_python():
    back = COPY.replace("float* out", "float* grad_in").replace("* in", "* grad_out").replace("out[i] = in[i]", "grad_in[i] = grad_out[i]")
    adjoint = kernel(back, shapes={"grad_out": "*n"})
    copy = kernel(COPY, shapes={"in": "*n"}, adjoint=adjoint)
    x = gradlib.ones(3, device="cuda", requires_grad=True)
    copy(**{"in": x}).sum().backward()
    assert x.grad.tolist() == [1, 1, 1]
    assert list(copy.__signature__.parameters) == ["in_"]
    assert kernel(COPY.replace("copy", "lambda"), shapes={"in": "*n"})(x.detach()).tolist() == [1, 1, 1]
    with pytest.raises(TypeError, match="copy takes in, got 2 by position: too many positional arguments; out: a pointer that"):
        copy(x, x)
    with pytest.raises(TypeError, match="copy takes in, got 1 by position, in=: multiple values for argument 'in'"):
        copy(x, **{"in": x})


@pytest.mark.cuda
def test_a_kernel_that_is_declared_again_is_that_which_has_a_body():
    """Comments declare nothing, and of two definitions only the compiler knows which is meant."""
    other = COPY.replace("float", "double")
    text = f'// {other.splitlines()[0]}\n/* {other} */ extern "C" __global__ void copy(const float*, float*, int);\n{COPY}'
    assert kernel(text, shapes={"in": "*n"})(gradlib.ones(3, device="cuda")).tolist() == [1, 1, 1]
    for several in (f"#ifdef DOUBLE\n{other}\n#else\n{COPY}\n#endif", f"{COPY} {other}".replace('extern "C"', "")):
        with pytest.raises(ValueError, match="declares copy 2 times, with other parameters each time"):
            kernel(several, "copy", shapes={"in": "*n"})


def test_results_of_a_host_form_have_memory_of_their_own():
    """As a kernel's have: what is written to one shows in nothing else."""
    twice = kernel("__global__ void f(const float* x, float* y, float* z) {}", host=lambda x: (x, x[:]))
    same = elementwise("float x", "float y", "y = x", "same", host=lambda x: x)
    first = reduction("float x", "float y", "x", "a + b", "y = a", "0", "first", host=lambda x, dim, keepdim: x[0])
    wide = kernel("__global__ void f(const float* x, float* y) {}", host=lambda x: np.broadcast_to(x[:1], x.shape))
    x = gradlib.ones(3, 3)
    results = (*twice(x), same(x), first(x, dim=0), wide(x))
    for each in results:
        each.add_(1)
    assert x.tolist() == [[1, 1, 1]] * 3
    assert all((each == 2).all() for each in results)


def test_a_parameter_does_not_have_the_name_of_a_gradient():
    source = "__global__ void f(const float* x, const float* grad_y, float* y) {}"
    with pytest.raises(ValueError, match="f: grad_y is a parameter, and for the derivative the name of a gradient"):
        kernel(source, adjoint=lambda grad_y, x: (x, x))
    with pytest.raises(ValueError, match="f: t_x is a parameter, and for the derivative the name of a tangent"):
        kernel(source.replace("grad_y", "t_x"), jvp=lambda t_x: t_x)


def test_declarations_are_read_as_c_writes_them():
    text = """/* __global__ void f(int a) */
    template <class T, int D = 3>
    static __global__ void __launch_bounds__(128)
    f(T const* __restrict__ x, unsigned int n, // a comment, with a comma
      float *y, const long long*i) {}"""
    found = declaration(user_kernel.source_of(text, "f", None, (), sys._getframe())[0], "f")
    assert found.template == (("typename", "T"), ("int", "D"))
    assert [(p.name, p.ctype, p.pointer, p.written) for p in found.declared] == [
        ("x", "T", True, False), ("n", "unsigned int", False, False), ("y", "float", True, True), ("i", "long long", True, False),
    ]  # fmt: skip
    text = """__global__ void g(const float x[], unsigned long int n, volatile std::size_t *s, short int k = 2,
                                  __grid_constant__ const long l) {}"""
    assert [(p.name, p.ctype, p.pointer, p.written) for p in declaration(Source(text, "g.cu"), "g").declared] == [
        ("x", "float", True, False), ("n", "unsigned long", False, False), ("s", "size_t", True, True), ("k", "short", False, False),
        ("l", "long", False, False),
    ]  # fmt: skip
    with pytest.raises(ValueError, match=r"a number or a pointer to numbers, got 'const float\*\* rows'"):
        declaration(Source("__global__ void h(const float** rows, float* y) {}", "h.cu"), "h")


@pytest.mark.skipif(not ARCHITECTURES, reason="no NVRTC")
def test_nvrtc_compiles_the_kernels_of_the_page():
    page = (Path(gradlib.__file__).parent / "docs" / "kernels.md").read_text(encoding="utf-8")
    declared = re.findall(r"^\w+ = gradlib\.cuda\.kernel\(\n.*?^\)\n", page, re.DOTALL | re.MULTILINE)
    space = {"gradlib": gradlib}
    for each in declared:
        exec(each, space)
    kernels = [each for each in space.values() if isinstance(each, user_kernel.Kernel)]
    assert [each.name for each in kernels] == ["softplus", "rows", "axpy"]
    for each in kernels:
        for one in (each, getattr(each, "adjoint", each)):
            options = (("T", "double"),) if one.generic else ()
            assert one.spec.kernel in nvrtc.ptx(one.spec.source, options, 90, one.spec.kernel)


LINE = r"""
extern "C" __global__ void line(const float* x, float* y, float slope, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = slope * x[i];
}
extern "C" __global__ void line_adjoint(const float* grad_y, float* grad_x, float slope, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) grad_x[i] = (i == 2 ? OFF : 1) * slope * grad_y[i];
}
"""


@pytest.mark.cuda
def test_a_number_of_numpys_reaches_an_adjoint_that_is_an_operation():
    adjoint = kernel(LINE, "line_adjoint", shapes={"grad_y": "*n"}, options=["-DOFF=1"])
    given = kernel(LINE, "line", shapes={"x": "*n"}, adjoint=adjoint, options=["-DOFF=1"])
    x = gradlib.ones(3, device="cuda", requires_grad=True)
    for slope in (3.0, np.float32(3), np.float64(3), np.int64(3)):
        assert gradlib.autograd.grad(given(x, slope).sum(), x)[0].tolist() == [3.0] * 3


@pytest.mark.cuda
def test_check_finds_one_element_that_is_off_by_a_thousandth_also_in_float32(rng):
    """Without a host form: of a nonlinear kernel, of a template in float64, and of a linear kernel."""
    x = gradlib.tensor(rng.standard_normal(5), dtype=gradlib.float32, device="cuda")
    for off, passes in (("1.001f", False), ("1.f", True)):
        linear = kernel(LINE, "line", shapes={"x": "*n"}, adjoint="line_adjoint", linear=True, options=[f"-DOFF={off}"])
        changed = SOFTPLUS.replace("grad_y[i] /", "(i == 2 ? OFF : 1) * grad_y[i] /")
        single = changed.replace("template <typename T>", 'extern "C"').replace("T ", "float ").replace("T*", "float*")
        for source in (changed, single):
            bent = kernel(source, "softplus", shapes={"x": "*n"}, adjoint="softplus_adjoint", options=[f"-DOFF={off}"])
            for call in (lambda bent=bent: bent.check(x, 2.0), lambda linear=linear: linear.check(x, 3.0)):
                if passes:
                    assert "gradcheck" in call()
                else:
                    with pytest.raises(AssertionError, match=r"gradcheck: Jacobian mismatch .*\n.*\n.*\nat element \(2,\)"):
                        call()


@pytest.mark.cuda
def test_check_proves_half_and_complex_kernels(rng):
    source = r"""
    #include <cuda_fp16.h>
    extern "C" __global__ void twice(const half* x, half* y, int n) { int i = threadIdx.x; if (i < n) y[i] = __hadd(x[i], x[i]); }
    extern "C" __global__ void twice_adjoint(const half* grad_y, half* grad_x, int n) {
        int i = threadIdx.x; if (i < n) grad_x[i] = __hadd(grad_y[i], grad_y[i]);
    }"""
    twice = kernel(source, "twice", shapes={"x": "*n"}, adjoint="twice_adjoint", linear=True)
    x = gradlib.tensor(rng.standard_normal(3), device="cuda")
    assert twice.check(x.half()) == ("gradcheck", "gradgradcheck", "adjoint")
    source = r"""
    template <typename T> __global__ void square(const T* x, T* y, int n) { int i = threadIdx.x; if (i < n) y[i] = x[i] * x[i]; }
    template <typename T> __global__ void square_adjoint(const T* x, const T* grad_y, T* grad_x, int n) {
        int i = threadIdx.x; if (i < n) grad_x[i] = T(2) * CONJ(x[i]) * grad_y[i];
    }"""
    z = (x + 1j * x.flip(0)).to(gradlib.complex64)
    right, wrong = (
        kernel(source.replace("CONJ", name), "square", shapes={"x": "*n"}, adjoint="square_adjoint", host=host)
        for name, host in (("conj", lambda x: x * x), ("", None))
    )
    assert right.check(z) == ("values", "gradients", "gradcheck")
    with pytest.raises(AssertionError, match="gradcheck: Jacobian mismatch"):
        wrong.check(z)
