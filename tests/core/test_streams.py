"""CUDA streams: backward runs each node on the stream of its forward, and whoever called it goes on behind all of it, as in torch.

What is not ordered is a hazard on hostcuda; where there is a GPU, the streams that were current are compared.
"""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.autograd import Function, grad
from gradlib.core.modes import on_every_node
from gradlib.core.tensor import Tensor
from gradlib.testing import hostcuda
from tests.autograd.test_function import Cube
from tests.device import cupy, skip_module_without_cuda, two_devices
from tests.values import host

pytestmark = [pytest.mark.cuda, pytest.mark.host]

skip_module_without_cuda()
Stream = cupy.cuda.Stream


def leaf(device: str = "cuda") -> Tensor:
    return gradlib.tensor([0.5, 1.0, 1.5], dtype=gradlib.float64, device=device, requires_grad=True)


def stream_behind() -> Any:
    """A new stream, behind what the current one was given."""
    made = Stream(non_blocking=True)
    made.wait_event(cupy.cuda.get_current_stream().record())
    return made


def current() -> Any:
    return cupy.cuda.get_current_stream()


def _written(x: Tensor) -> Tensor:
    y = x * 1
    y[0] = x[1]
    y[1:].mul_(x[:2])
    return y.exp_()


PROGRAMS: dict[str, Callable[[Tensor], Tensor]] = {
    "chain": lambda x: x.sin().exp(),
    "fan": lambda x: x + x.sin() + x * x + x.exp(),
    "mixed dtypes": lambda x: x.float() * x,
    "several outputs": lambda x: x.split([1, 2])[1].exp() + x.max(0)[0],
    "in place": _written,
    "Function": lambda x: Cube.apply(x).sin(),
    "where": lambda x: gradlib.where(x > 0.7, x.sin(), x * x),
}


def streams_of_nodes(run: Callable[[], Any]) -> set[int]:
    """The streams that were current when backward ran its nodes."""
    seen: set[int] = set()

    def note(node: Any, g: Any, run: Callable[[Any], Any]) -> Any:
        seen.add(current().ptr)
        return run(g)

    with on_every_node(lambda node: None, note):
        run()
    return seen


def plain_gradient(program: Callable[[Tensor], Tensor]) -> np.ndarray:
    x = leaf("cpu")
    program(x).sum().backward()
    return host(x.grad)


@pytest.mark.parametrize("name", PROGRAMS)
class TestOneStream:
    def test_forward_there_and_backward_on_the_callers(self, name: str) -> None:
        x, mine = leaf(), current()
        there = stream_behind()
        for _ in range(3):  # the memory of one round is that of the next
            x.grad = None
            with there:
                loss = PROGRAMS[name](x).sum()
            loss.backward()
            np.testing.assert_allclose(host(x.grad), plain_gradient(PROGRAMS[name]))
            assert current() == mine
            there.wait_event(mine.record())

    def test_nodes_run_where_they_were_made(self, name: str) -> None:
        x, there = leaf(), stream_behind()
        with there:
            loss = PROGRAMS[name](x).sum()
        assert streams_of_nodes(loss.backward) == {there.ptr}

    def test_on_the_default_stream_when_backward_is_called_on_another(self, name: str) -> None:
        x, mine = leaf(), current()
        loss = PROGRAMS[name](x).sum()
        with stream_behind() as there:
            assert streams_of_nodes(lambda: loss.backward(gradlib.ones((), dtype=loss.dtype, device="cuda"))) == {mine.ptr}
            assert current() == there
            doubled = x.grad * 2  # behind the walk, with nothing more to wait for
            np.testing.assert_allclose(host(doubled), 2 * plain_gradient(PROGRAMS[name]))

    def test_second_order(self, name: str) -> None:
        x, there = leaf(), stream_behind()
        with there:
            loss = PROGRAMS[name](x).sum()
        (first,) = grad(loss, x, create_graph=True)
        (second,) = grad(first.sum(), x, allow_unused=True, materialize_grads=True)
        y = leaf("cpu")
        (expected,) = grad(PROGRAMS[name](y).sum(), y, create_graph=True)
        (expected,) = grad(expected.sum(), y, allow_unused=True, materialize_grads=True)
        np.testing.assert_allclose(host(second), host(expected))


def test_branches_on_several_streams() -> None:
    x = leaf()
    left, right = stream_behind(), stream_behind()
    for _ in range(3):
        x.grad = None
        with left:
            a = x.sin()
        with right:
            b = x.exp()
            right.wait_event(left.record())
            c = a * b
        with left:
            left.wait_event(right.record())
            loss = (c + a).sum()
        loss.backward()
        v = np.array([0.5, 1.0, 1.5])
        np.testing.assert_allclose(host(x.grad), np.cos(v) * (np.exp(v) + 1) + np.sin(v) * np.exp(v))
        for each in (left, right):
            each.wait_event(current().record())


def test_memory_that_the_walk_freed_serves_its_own_stream_again() -> None:
    x, first = leaf(), stream_behind()
    with first:
        a = x.exp()
        second = stream_behind()
    with second:
        b = a.sin()
        loss = (b * b).sum()
    loss.backward()  # ends on the first stream, which has read what the second one made
    with second:
        np.testing.assert_allclose(host(b * b), np.sin(np.exp([0.5, 1.0, 1.5])) ** 2)


def test_a_graph_that_ends_on_the_host() -> None:
    x = leaf()
    with stream_behind() as there:
        loss = x.exp().sum().cpu()
    assert streams_of_nodes(loss.backward) >= {there.ptr}
    assert current() == Stream.null
    np.testing.assert_allclose(host(x.grad), np.exp([0.5, 1.0, 1.5]))


def test_a_tensor_that_came_from_the_host() -> None:
    x = leaf("cpu")
    with stream_behind():
        y = x.to("cuda")
        loss = (y * y).sum()
    loss.backward()
    np.testing.assert_allclose(host(x.grad), [1, 2, 3])


def test_a_backward_within_a_backward_comes_back_to_its_stream() -> None:
    inner = stream_behind()
    seen = []

    class Nested(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            inner.wait_event(current().record())
            with gradlib.enable_grad():
                w = leaf()
                with inner:
                    inner.wait_event(Stream.null.record())
                    inner.wait_event(outer.record())
                    loss = w.exp().sum()
                seen.append(streams_of_nodes(loss.backward))
            seen.append({current().ptr})
            return g * 2

    x, third = leaf(), stream_behind()
    with third:
        y = x.exp()
        outer = stream_behind()
    with outer:
        z = Nested.apply(y)
        loss = z.sum()
    loss.backward()
    assert seen == [{inner.ptr}, {outer.ptr}]
    assert current() == Stream.null
    with outer:
        z * z  # in what the walk freed there and read on the third stream


def test_after_an_error_the_callers_stream_is_current() -> None:
    class Fails(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 2

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            raise ArithmeticError("as it should")

    x = leaf()
    with stream_behind():
        loss = Fails.apply(x).sum()
    with pytest.raises(ArithmeticError):
        loss.backward()
    assert current() == Stream.null


@two_devices
def test_a_stream_of_another_device() -> None:
    with cupy.cuda.Device(1):
        x = leaf("cuda:1")
        with stream_behind() as there:
            loss = x.exp().sum()
    assert streams_of_nodes(loss.backward) == {there.ptr}
    np.testing.assert_allclose(host(x.grad), np.exp([0.5, 1.0, 1.5]))
    with cupy.cuda.Device(1):
        assert current().ptr == Stream.null.ptr


@two_devices
def test_a_function_with_results_on_two_devices() -> None:
    class Both(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
            return x * 2, y * 2

        @staticmethod
        def backward(ctx: Any, *g: Tensor) -> tuple[Any, ...]:
            return tuple(each * 2 for each in g)

    x, y = leaf(), leaf("cuda:1")
    with stream_behind() as forward:
        _, other = Both.apply(x, y)
    current().wait_event(forward.record())  # it read x, which the walk on the other device does not come to, and which is freed below
    other.sum().backward()
    np.testing.assert_array_equal(host(y.grad), [2, 2, 2])


@pytest.mark.filterwarnings("ignore:.*:DeprecationWarning")
@pytest.mark.skipif(not hasattr(cupy.cuda, "ExternalStream"), reason="the stand-in has no streams of other libraries")
def test_backward_runs_on_the_stream_of_another_library() -> None:
    """Which says that its device is -1."""
    x, made = leaf(), stream_behind()
    there = cupy.cuda.ExternalStream(made.ptr)
    assert there.device_id == -1
    with there:
        loss = x.sin().exp().sum()
    assert streams_of_nodes(loss.backward) == {made.ptr}
    assert host(x.grad).shape == (3,)


def test_backward_waits_for_other_threads_where_each_has_a_default_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    waits = []
    monkeypatch.setattr(cupy.cuda.runtime, "deviceSynchronize", lambda: waits.append(1))
    loss = leaf().exp().sum()
    loss.backward(retain_graph=True)
    assert not waits
    monkeypatch.setattr("gradlib.core.streams.per_thread", lambda: True)
    loss.backward()
    assert waits


BY_TWO_THREADS = """
import threading
from gradlib.testing import hostcuda
hostcuda.activate()
import cupy
import gradlib

x = gradlib.ones(1000, device="cuda", requires_grad=True)
cupy.cuda.runtime.deviceSynchronize()
found = []
thread = threading.Thread(target=lambda: found.append((x.exp() * x.sin()).sum()))
thread.start()
thread.join()
found[0].backward()
hostcuda.checked()
print(x.grad[0].item())
"""


@pytest.mark.skipif(hostcuda.reason_against() is not None, reason=str(hostcuda.reason_against()))
def test_what_another_thread_queued_on_its_default_stream_is_no_hazard_in_backward() -> None:
    """On the real CuPy over the host driver, which calls it one where backward does not wait."""
    environment = {**os.environ, "CUPY_CUDA_PER_THREAD_DEFAULT_STREAM": "1"}
    done = subprocess.run([sys.executable, "-c", BY_TWO_THREADS], capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    np.testing.assert_allclose(float(done.stdout), np.e * (np.sin(1) + np.cos(1)), rtol=1e-6)
