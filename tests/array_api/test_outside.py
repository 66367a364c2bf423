"""Libraries that are written for the array API standard: they find the namespace, and what they compute differentiates."""

from __future__ import annotations

import os
import subprocess
import sys

import numpy as np
import pytest

import gradlib
import gradlib.array_api as xp

PROGRAM = """
import numpy as np, scipy.fft, scipy.integrate, scipy.optimize, scipy.signal, scipy.special, scipy.stats
import gradlib
from gradlib.array_api import Array

rng = np.random.default_rng(0)
calls = [
    lambda a: scipy.special.logsumexp(a, axis=0), lambda a: scipy.special.softmax(a, axis=0)[0], scipy.stats.gmean, scipy.stats.skew,
    lambda a: scipy.stats.zscore(a)[0], lambda a: scipy.signal.fftconvolve(a, a[:3])[4], lambda a: abs(scipy.signal.hilbert(a))[2],
    lambda a: abs(scipy.fft.rfft(a))[1], scipy.optimize.rosen, scipy.integrate.trapezoid,
]
for number, call in enumerate(calls):
    a, d = rng.uniform(0.2, 0.8, 6), rng.standard_normal(6)
    x = gradlib.tensor(a, requires_grad=True)
    y = call(x)
    assert type(y) is Array, (number, type(y))
    np.testing.assert_allclose(y.item(), call(a), rtol=1e-12)
    (slope,) = gradlib.autograd.grad(y, x)
    h = 1e-6
    np.testing.assert_allclose(slope.numpy() @ d, (call(a + h * d) - call(a - h * d)) / (2 * h), rtol=1e-5, atol=1e-8)
    assert gradlib.autograd.gradgradcheck(call, (x,)), number

erf = scipy.special.erf(x.detach())
assert type(erf) is Array
try:
    scipy.special.erf(x)
except RuntimeError as error:
    assert "detach" in str(error)
else:
    raise AssertionError("erf is compiled: it cannot see a Tensor that requires a gradient")
print("done")
"""


@pytest.mark.slow
@pytest.mark.host
def test_scipy_gives_arrays_and_gradients() -> None:
    """In a process of its own: SciPy reads the environment when it is imported."""
    pytest.importorskip("scipy", minversion="1.17")
    environment = {**os.environ, "SCIPY_ARRAY_API": "1"}
    done = subprocess.run([sys.executable, "-c", PROGRAM], capture_output=True, text=True, env=environment)
    assert done.stdout == "done\n", done.stderr


@pytest.mark.host
def test_array_api_compat_knows_tensors() -> None:
    compat = pytest.importorskip("array_api_compat")
    for x in (gradlib.ones(2, 3), xp.ones((2, 3))):
        assert compat.is_array_api_obj(x)
        assert compat.array_namespace(x, 1.0) is xp
        assert compat.size(x) == 6
        assert compat.device(x) == gradlib.device("cpu")


@pytest.mark.host
def test_array_api_extra_differentiates(rng: np.random.Generator) -> None:
    extra = pytest.importorskip("array_api_extra")
    x = gradlib.tensor(rng.standard_normal((2, 3)), requires_grad=True)
    calls = (
        extra.cov, extra.sinc, lambda a: extra.kron(a, a), lambda a: extra.pad(a, 1), lambda a: extra.at(a * 2)[0].add(a[1]),
        lambda a: extra.apply_where(a > 0, (a,), lambda v: v**2, lambda v: -v),
    )  # fmt: skip
    for call in calls:
        assert type(call(xp.asarray(x))) is xp.Array
        assert gradlib.autograd.gradcheck(lambda t, call=call: call(xp.asarray(t)), (x,))
