"""Faults planted beneath gradlib, where a rule or a backend function would have them, and what only the real CuPy shows of it."""

from __future__ import annotations

import gc
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.autograd import Function
from gradlib.backend.pinned import from_pinned, pinned_copy
from gradlib.cuda.launch import launch
from gradlib.testing import hostcuda
from tests.cuda.test_launch import gather
from tests.device import skip_module_without_hostcuda

pytestmark = pytest.mark.host
skip_module_without_hostcuda()
cupy = pytest.importorskip("cupy")
cupyx = pytest.importorskip("cupyx")


def double(value: Callable[[Any], Any] = lambda a: a * 2, backward: Callable[[Any], Any] = lambda g: g * 2) -> None:
    """Forward and backward of a Function on device arrays, with what a rule's author wrote."""

    class Planted(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return gradlib.as_tensor(value(cupy.asarray(x.detach())))

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return gradlib.as_tensor(backward(cupy.asarray(g)))

    leaf = gradlib.ones(3, device="cuda", requires_grad=True)
    Planted.apply(leaf).sum().backward()


def test_a_numpy_constant_in_a_rule() -> None:
    double()
    with pytest.raises(TypeError, match="Unsupported type"):
        double(backward=lambda g: g * np.array([1.0, 2.0, 3.0]))
    with pytest.raises(TypeError, match="Unsupported type"):
        double(value=lambda a: np.ones(3) + a)


def test_a_host_synchronisation_in_the_plain_path() -> None:
    seen = []
    for value in (lambda a: a * 2, lambda a: a * 2 if float(a.sum()) > 0 else a):
        before = hostcuda.host_waits()
        double(value)
        seen.append(hostcuda.host_waits() - before)
    assert seen[1] - seen[0] == {"a copy of 4 bytes to ordinary memory": 1, "cudaStreamSynchronize": 1}


def test_an_index_and_an_overlap_in_a_rule() -> None:
    with hostcuda.expected("the index 3 is outside of an axis of 3"):
        double(backward=lambda g: g.take(cupy.array([1, 2, 3])))
    with hostcuda.expected("elements which share their memory"):
        double(backward=lambda g: cupy.broadcast_to(g[0], (3,)).__iadd__(1))


def test_work_on_a_stream_that_nobody_awaits_in_a_rule() -> None:
    def aside(a: Any) -> Any:
        with cupy.cuda.Stream(non_blocking=True):
            return a * 2

    cupy.cuda.Device().synchronize()
    with hostcuda.expected("memory that stream"):
        double(value=aside)
    cupy.cuda.Device().synchronize()


def test_a_non_contiguous_argument_to_a_kernel() -> None:
    x = cupy.arange(6, dtype="f").reshape(2, 3)
    call = gather(rows=x[:, ::2], index=cupy.array([0, 1]), out=cupy.zeros((2, 2), "f"))
    with pytest.raises(ValueError, match="rows is C-contiguous"):
        launch(call)


def test_what_tries_again_after_an_error_does_not_get_past_a_hazard() -> None:
    """An operation's fast path leaves what fails to the slow one, which is given other memory; the hazard stays noted."""
    tensor, freed = gradlib.ones(3000, device="cuda"), cupy.zeros(3000, cupy.float32)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        stream.wait_event(cupy.cuda.Stream.null.record())
        freed += 1
    del freed
    with hostcuda.expected("handed out again"):
        tensor.exp()
    stream.synchronize()


def test_a_copy_to_the_host_that_nobody_waits_for_keeps_its_memory() -> None:
    with hostcuda.checked():
        held = pinned_copy(cupy.arange(512, dtype="f"))
        del held
        gc.collect()
        other = cupyx.empty_pinned((512,), "f")  # CuPy's pool of page-locked memory knows nothing of the copy
        other[...] = 7
        cupy.cuda.Device().synchronize()
        assert (other == 7).all()


def test_a_copy_from_the_host_that_nobody_waits_for_keeps_its_memory() -> None:
    with hostcuda.checked():
        host = cupyx.empty_pinned((512,), "f")
        host[...] = 3
        device = from_pinned(host, 0)
        del host
        gc.collect()
        other = cupyx.empty_pinned((512,), "f")
        other[...] = 7
        np.testing.assert_array_equal(device.get(), np.full(512, 3, "f"))


def test_pinned_copies_come_back() -> None:
    given = cupy.arange(24.0).reshape(4, 6)[:, ::2]
    with hostcuda.checked():
        host = pinned_copy(given)
        np.testing.assert_array_equal(from_pinned(host, 0).get(), given.get())


def test_sources_that_use_names_of_cupys_headers() -> None:
    """NVRTC gives a RawModule none of CuPy's headers, so what they declare (`real`, `complex`) is free."""
    code = 'typedef float real; struct complex { real re; }; extern "C" __global__ void set(real* x) { complex c{2}; x[0] = c.re; }'
    out = cupy.zeros(1, "f")
    cupy.RawKernel(code, "set")((1,), (1,), (out,))
    assert out.get() == 2


def test_shifts_by_more_than_the_width() -> None:
    x = cupy.array([1, -8, 1 << 40])
    assert [(x << n).get().tolist() for n in (3, 64, 70)] == [[8, -64, 8 << 40], [0, 0, 0], [0, 0, 0]]
    assert [(x >> n).get().tolist() for n in (3, 64, 70)] == [[0, -1, 1 << 37], [0, -1, 0], [0, -1, 0]]


def test_a_hazard_of_a_users_kernel_names_it() -> None:
    source = 'extern "C" __global__ void beyond(const float* x, float* y) { y[x[0] > 0 ? 3 : 0] = 1; }'
    with hostcuda.expected(r"beyond\w*:? (wrote|writes) "):
        gradlib.cuda.kernel(source)(gradlib.ones(3, device="cuda"))
