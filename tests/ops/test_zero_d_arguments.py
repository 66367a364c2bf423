"""A tensor of one number without dimensions serves as an argument wherever a Python number does."""

import math

import pytest

import gradlib

CALLS = {
    "split": (lambda x, n: x.split(n)[0], 2),
    "chunk": (lambda x, n: x.chunk(n)[0], 2),
    "kthvalue": (lambda x, n: x.kthvalue(n).values, 2),
    "topk": (lambda x, n: x.topk(n).values, 2),
    "std": (lambda x, n: x.std(correction=n), 0),
    "var": (lambda x, n: x.var(correction=n), 2),
    "randperm": (lambda x, n: gradlib.randperm(n).sort().values, 3),
    "fftfreq": (lambda x, n: gradlib.fft.fftfreq(4, n), 2),
    "rfftfreq": (lambda x, n: gradlib.fft.rfftfreq(n, 0.5), 4),
    "narrow": (lambda x, n: x.narrow(0, n, 2), 1),
    "roll": (lambda x, n: x.roll(n), 1),
    "sum": (lambda x, n: x.sum(n), 0),
    "full": (lambda x, n: gradlib.full((n,), n), 3),
}


@pytest.mark.parametrize("name", CALLS)
def test_a_zero_d_tensor_means_its_number(name):
    call, number = CALLS[name]
    x = gradlib.tensor([3.0, 1.0, 2.0, 7.0])
    expected, got = call(x, number), call(x, gradlib.tensor(number))
    assert got.shape == expected.shape
    assert got.tolist() == expected.tolist()
    assert math.prod(got.shape) > 0


@pytest.mark.parametrize(
    "call", [lambda x: x.split(2.0), lambda x: x.chunk(2.0), lambda x: x.kthvalue(2.0), lambda x: gradlib.randperm(2.5)]
)
def test_a_count_is_no_float(call):
    with pytest.raises(TypeError):
        call(gradlib.tensor([3.0, 1.0, 2.0, 7.0]))
