"""The custom Functions, called as the reference's are."""

from __future__ import annotations

import numpy as np
import pytest

from gradlib import trajectory
from gradlib.autograd import gradcheck
from gradlib.trajectory import CliqueTensorStep, build_fd_matrix, build_start_state_mask, step_acceleration, step_position
from tests.trajectory.helpers import check_derivatives
from tests.values import host

B, H, D = 2, 7, 2
KERNELS = {
    "CliqueTensorStepKernel": (step_position, "backward"),
    "CliqueTensorStepIdxKernel": (step_position, "backward"),
    "CliqueTensorStepCentralDifferenceKernel": (step_position, "central"),
    "CliqueTensorStepIdxCentralDifferenceKernel": (step_position, "central"),
    "CliqueTensorStepCoalesceKernel": (step_position, "backward"),
    "AccelerationTensorStepKernel": (step_acceleration, "semi_implicit_euler"),
    "AccelerationTensorStepIdxKernel": (step_acceleration, "semi_implicit_euler"),
}


def call(name, u, start, index, out, dt, out_grad):
    chosen = (index,) if "Idx" in name else ()
    return getattr(trajectory, name).apply(u, *start, *chosen, *out, dt, out_grad)


@pytest.fixture
def parts(make):
    index = make.put(np.array([1, 1]))
    return make(B, H, D), [make(B, D) for _ in range(3)], index, [make.put(np.full((B, H, D), 7.0)) for _ in range(4)]


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.parametrize("shape", [(), (1,), (H,)], ids=str)
def test_fills_the_callers_buffers(make, parts, name, shape):
    u, start, index, out = parts
    step, scheme = KERNELS[name]
    dt = make.times(*shape, grad=False)
    made = call(name, u, start, index, out, dt, None)
    length = dt.reshape(-1)[0] if scheme == "central" and shape else dt
    expected = step(u, start, length, scheme=scheme, start_idx=index if "Idx" in name else None)
    for found, buffer, value in zip(made, out, expected, strict=True):
        np.testing.assert_allclose(host(buffer), host(value), rtol=1e-12)
        assert found.data_ptr() == buffer.data_ptr()
        assert buffer._version == 1


@pytest.mark.parametrize("name", KERNELS)
@pytest.mark.slow
def test_every_gradient_and_the_callers_gradient_buffer(make, parts, name):
    u, start, index, _ = parts
    dt = make.times(H)

    def function(u, dt, *start):
        return tuple(call(name, u, start, index, [None] * 4, dt, None))

    check_derivatives(make.device, function, (u, dt, *start))
    buffer = make.put(np.full((B, H, D), 7.0))
    made = call(name, u, start, index, [None] * 4, dt, buffer)
    sum((x * x).sum() for x in made).backward()
    np.testing.assert_array_equal(host(buffer), host(u.grad))
    assert buffer._version == 1
    made = call(name, u, start, index, [None] * 4, dt, make.put(np.zeros((1, H, D))).expand(B, H, D))
    with pytest.raises(RuntimeError, match="single memory location"):
        made[0].sum().backward()


def test_dense_matrices(make):
    u, start = make(B, H, D), make(B, D)
    matrices = [*build_start_state_mask(H, {"dtype": np.float64})]
    matrices += [build_fd_matrix(H, dtype=np.float64, order=k, SHIFT=True) for k in (1, 2, 3)]
    matrices = [m.to(u.device) for m in matrices]
    assert gradcheck(lambda u, s: tuple(CliqueTensorStep.apply(u, s, *matrices)), (u, start))
    p, v, _, _ = CliqueTensorStep.apply(u, start, *matrices)
    np.testing.assert_allclose(host(p)[:, 1:], host(u)[:, :-1])
    np.testing.assert_allclose(host(v)[:, 1:], np.diff(host(p), axis=1), atol=1e-12)


def test_some_buffers_are_refused(make, parts):
    u, start, index, out = parts
    with pytest.raises(ValueError, match="all four"):
        call("CliqueTensorStepKernel", u, start, index, [*out[:3], None], 0.1, None)
