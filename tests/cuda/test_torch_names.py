"""``gradlib.cuda`` under torch's names: devices, streams, events, memory, NVTX, seeds; with and without a GPU."""

from __future__ import annotations

import contextlib
import copy
import gc
import os
import pickle
import subprocess
import sys
import threading
from collections import deque

import numpy as np
import pytest

import gradlib
from gradlib import cuda
from gradlib.backend import pinned
from gradlib.distributed.nccl import StreamWork
from gradlib.testing import hostcuda
from tests.device import HAS_GPU, cupy, two_devices


@pytest.fixture(autouse=True)
def a_pool_of_its_own() -> None:
    """What other tests left waiting in the pools is none of these."""
    gc.collect()
    for place in range(cuda.device_count()):
        with cupy.cuda.Device(place):
            cupy.cuda.Device(place).synchronize()
            cupy.get_default_memory_pool().free_all_blocks()


pytestmark = pytest.mark.cuda


# ---- devices -------------------------------------------------------------------------------------------------------------------------


def test_devices_are_counted_and_described():
    assert cuda.is_available()
    assert cuda.is_initialized()
    assert cuda.device_count() == cupy.cuda.runtime.getDeviceCount()
    found = cuda.get_device_properties(0)
    assert found.name == cuda.get_device_name("cuda:0")
    assert (found.major, found.minor) == cuda.get_device_capability(gradlib.device("cuda", 0))
    assert found.warp_size == 32
    assert found.total_memory == cuda.mem_get_info(0)[1]
    assert found.multi_processor_count > 0
    assert len(found.uuid.replace("-", "")) == 32
    assert cuda.get_arch_list() == [f"sm_{found.major}{found.minor}"]
    assert cuda.is_bf16_supported()
    assert cuda.is_tf32_supported() == (found.major >= 8)
    assert [each.device.index for each in cuda.default_generators] == list(range(cuda.device_count()))


def test_a_device_is_named_in_each_of_torchs_ways():
    for given in (0, "cuda:0", gradlib.device("cuda:0"), gradlib.device("cuda"), np.int64(0), cuda.device(0), None):
        assert cuda.get_device_name(given) == cuda.get_device_name()
        assert cuda.Stream(given).device_index == 0
    for current in (cuda.current_stream(-1), cuda.default_stream(-1), cuda.Stream(-1), cuda.ExternalStream(0, -1)):
        assert current.device_index == 0
    cuda.synchronize(-1)


@two_devices
def test_a_device_is_current_within_its_context():
    assert cuda.current_device() == 0
    with cuda.device(1):
        assert cuda.current_device() == 1
        assert gradlib.ones(1, device="cuda").device == gradlib.device("cuda:1")
        with cuda.device(None), cuda.device(-1):
            assert cuda.current_device() == 1
    other = cuda.device(1)
    with other:
        with cuda.device(0), other:
            assert cuda.current_device() == 1
        assert (cuda.current_device(), other.prev_idx) == (1, 0)
    assert cuda.current_device() == 0
    with cuda.device_of(gradlib.ones(1, device="cuda:1")):
        assert cuda.current_device() == 1
    with cuda.device_of(gradlib.ones(1)):
        assert cuda.current_device() == 0
    cuda.set_device("cuda:1")
    try:
        assert cuda.current_device() == cuda.current_stream().device_index == 1
    finally:
        cuda.set_device(0)


@pytest.mark.parametrize(
    ("run", "kind", "text"),
    [
        (lambda: cuda.device(99), RuntimeError, "cuda:99 was asked for, but this machine has"),
        (lambda: cuda.get_device_properties(99), AssertionError, "Invalid device id: 99 was asked for, but this machine has"),
        (lambda: cuda.get_device_name(-1), AssertionError, "Invalid device id: -1"),
        (lambda: cuda.can_device_access_peer(0, 99), AssertionError, "Invalid peer device id: 99"),
        (lambda: cuda.get_rng_state(-1), RuntimeError, "cuda:-1 was asked for, but this machine has"),
        (lambda: gradlib.device("cuda", -1), RuntimeError, "cuda:-1 was asked for, but this machine has"),
        (lambda: cuda.set_device(1.5), ValueError, "Expected a device index, a name such as 'cuda:0' or a device, but got: 1.5"),
        (lambda: cuda.Stream("gpu"), RuntimeError, 'a device is "cpu", "cuda" or "cuda:N", got \'gpu\''),
        (lambda: cuda.Event(external=True), RuntimeError, "leave external out"),
        (lambda: cuda.Stream().wait_event(3), TypeError, "an event is a gradlib.cuda.Event, or one of CuPy or torch, got int"),
        (lambda: cuda.get_device_name("cpu"), ValueError, "Expected a cuda device, but got: cpu"),
        (lambda: cuda.synchronize(gradlib.device("cpu")), ValueError, "Expected a cuda device, but got: cpu"),
        (lambda: cuda.set_device(None), ValueError, "Expected a device index"),
        (lambda: cuda.Stream(priority="high"), TypeError, "priority is an int, got str"),
        (lambda: cuda.stream(3), TypeError, r"got int 3; ExternalStream\(3\) is that of a handle"),
        (lambda: cuda.stream(3.5), TypeError, "one of CuPy or an object with __cuda_stream__, got float"),
        (lambda: cuda.Event(interprocess=True), RuntimeError, "not shared between processes"),
        (lambda: cuda.set_per_process_memory_fraction(1), TypeError, "must be `float`"),
        (lambda: cuda.set_per_process_memory_fraction(1.5), ValueError, "Allowed range: 0~1"),
        (lambda: gradlib.ones(1).record_stream(cuda.current_stream()), NotImplementedError, "a tensor on the CPU belongs to no stream"),
        (lambda: gradlib.ones(1, device="cuda").pin_memory(), RuntimeError, "cannot pin 'torch.cuda.FloatTensor'"),
    ],
)
def test_what_is_wrong_is_refused(run, kind, text):
    with pytest.raises(kind, match=text):
        run()


# ---- streams and events -------------------------------------------------------------------------------------------------------------


def test_a_stream_is_current_within_its_context_here_and_for_cupy():
    usual, side = cuda.current_stream(), cuda.Stream()
    assert usual == cuda.default_stream()
    assert side != usual
    with cuda.stream(side):
        assert cuda.current_stream() == side
        assert cupy.cuda.get_current_stream().ptr == side.cuda_stream
        with cuda.stream(None), usual:
            assert cuda.current_stream() == usual
        assert cuda.current_stream() == side
    assert cuda.current_stream() == usual
    cuda.set_stream(side)
    try:
        assert {cuda.current_stream(): 1} == {side: 1}
    finally:
        cuda.set_stream(usual)


@two_devices
def test_the_default_stream_of_another_device_is_that_devices():
    """All devices' default streams have one handle: which of them is meant depends on the current device."""
    for stream in (cuda.default_stream(1), cuda.current_stream(1)):
        x = (gradlib.ones(3, device="cuda:1") * 2).to("cpu", non_blocking=True)
        while not stream.query():
            pass
        stream.synchronize()
        assert x.tolist() == [2, 2, 2]
    assert cuda.default_stream(1).priority == 0


def test_a_stream_is_entered_by_two_threads_at_once():
    shared, own, turns, seen = cuda.Stream(), [cuda.Stream(), cuda.Stream()], [threading.Event() for _ in range(3)], []

    def first() -> None:
        with cuda.stream(own[0]):
            with shared:
                turns[0].set()
                turns[1].wait(10)
            seen.append(cuda.current_stream() == own[0])
            turns[2].set()

    def second() -> None:
        with cuda.stream(own[1]):
            turns[0].wait(10)
            with shared:
                turns[1].set()
                turns[2].wait(10)
            seen.append(cuda.current_stream() == own[1])

    threads = [threading.Thread(target=run) for run in (first, second)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(20)
    assert seen == [True, True]


def test_what_is_the_drivers_is_not_copied():
    """As in torch: a copy would destroy it once more."""
    x, graph = gradlib.ones(1, device="cuda"), cuda.CUDAGraph()
    with cuda.graph(graph):
        x.mul(2)
    for each in (cuda.Stream(), cuda.current_stream().record_event(), graph):
        for run in (copy.copy, copy.deepcopy, pickle.dumps):
            with pytest.raises(TypeError, match=f"cannot pickle or copy '{type(each).__name__}' object"):
                run(each)


def test_streams_wait_for_each_other_and_backward_follows():
    side = cuda.Stream(priority=-1)
    assert side.priority < 0
    assert -100 < cuda.Stream(priority=-100).priority < 0
    assert cuda.Stream.priority_range() == (cuda.Stream(priority=100).priority, cuda.Stream(priority=-100).priority)
    x = gradlib.ones(3, device="cuda", requires_grad=True)
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        y = (x * 2).sum()
    y.backward()
    cuda.current_stream().wait_stream(side)
    assert y.item() == 6
    assert x.grad.tolist() == [2, 2, 2]
    side.synchronize()
    assert side.query() in (True, False)


@pytest.mark.skipif(HAS_GPU, reason="only hostcuda reports it")
def test_work_of_two_streams_with_nothing_between_is_a_hazard():
    side = cuda.Stream()
    x = gradlib.ones(3, device="cuda")
    with hostcuda.expected("may still be using|stream"), cuda.stream(side):
        x.add_(1)


def test_events_mark_order_and_time():
    begin, end = cuda.Event(enable_timing=True), cuda.Event(enable_timing=True, blocking=True)
    assert begin.query()
    begin.synchronize()
    begin.wait()
    with pytest.raises(ValueError, match="must be recorded before"):
        begin.elapsed_time(end)
    begin.record()
    gradlib.ones(3, device="cuda").sum()
    cuda.current_stream().record_event(end)
    end.synchronize()
    assert end.query()
    assert begin.query()
    assert begin.elapsed_time(end) >= 0
    assert (begin.device_index, begin.cuda_event > 0) == (0, True)
    with pytest.raises(ValueError, match="enable_timing=True"):
        cuda.Event().elapsed_time(end)


def test_a_query_that_fails_is_not_answered_with_not_yet():
    """Who asks until it is done would ask for ever: of an event of a capture, and of a stream that another thread captures on."""
    x, graph, event, side, answers = gradlib.ones(3, device="cuda"), cuda.CUDAGraph(), cuda.Event(), cuda.Stream(), []

    def ask() -> None:
        try:
            answers.append(side.query())
        except RuntimeError as error:
            answers.append(str(error))

    with cuda.graph(graph):
        x.mul(2)
        event.record()
        work = StreamWork([x])
    for query in (event.query, work.is_completed):
        with pytest.raises(RuntimeError, match="cudaErrorCapturedEvent"):
            query()
    with contextlib.suppress(RuntimeError), cuda.graph(cuda.CUDAGraph(), stream=side):  # the question breaks the capture
        x.mul(2)
        asking = threading.Thread(target=ask)
        asking.start()
        asking.join()
    assert "cudaErrorStreamCapture" in str(answers[0])
    assert not cuda.is_current_stream_capturing()


def test_events_of_other_libraries_are_awaited():
    class Torchs:
        def __init__(self, event: cuda.Event) -> None:
            self.owner, self.cuda_event = event, event.cuda_event

    for wrap in (lambda event: event.cupy_event, Torchs):
        x, side = gradlib.ones(1000, device="cuda"), cuda.Stream()
        made = wrap(cuda.current_stream().record_event())
        side.wait_event(made)
        with cuda.stream(side):
            y = x * 2
        side.synchronize()
        assert y.sum().item() == 2000
    cuda.Stream().wait_event(Torchs(cuda.Event()))  # not recorded: nothing to wait for
    assert side._as_parameter_.value == side.cuda_stream


def test_streams_of_other_libraries_are_understood():
    side = cuda.Stream()

    class Foreign:
        def __cuda_stream__(self):
            return 0, side.cuda_stream

    class Listed:
        __cuda_stream__ = (0, side.cuda_stream)

    class Newer:
        def __cuda_stream__(self):
            return 7, side.cuda_stream

    for given in (Foreign(), Listed(), cupy.cuda.Stream.from_external(side), side.cupy_stream):
        with cuda.stream(given):
            assert cuda.current_stream() == side
    for made in (cuda.ExternalStream(Foreign()), cuda.ExternalStream(side.cuda_stream), cuda.get_stream_from_external(side.cuda_stream)):
        assert made == side
    assert side.__cuda_stream__() == (0, side.cuda_stream)
    with pytest.raises(TypeError, match="speaks version 7 of the protocol; 0 is known"):
        cuda.stream(Newer())


def test_a_recorded_tensor_is_not_given_to_others_before_the_stream_is_done():
    """Dropped while another stream reads it: with record_stream its memory waits, without it is a hazard."""
    side = cuda.Stream()

    def read_and_drop(record: bool) -> None:
        x = gradlib.ones(1000, device="cuda")
        side.wait_stream(cuda.current_stream())
        with cuda.stream(side):
            kept.append(x + 1)
        if record:
            x.record_stream(side)

    kept: list[gradlib.Tensor] = []
    read_and_drop(record=True)
    again = gradlib.zeros(1000, device="cuda")
    assert again.sum().item() == 0
    side.synchronize()
    cuda.empty_cache()
    if not HAS_GPU:
        with hostcuda.expected("may still"):
            read_and_drop(record=False)
            gradlib.zeros(1000, device="cuda")


def test_a_recorded_view_keeps_its_bases_memory():
    """What was recorded is the memory, which may be used on that stream after the view is gone."""
    side = cuda.Stream()
    x = gradlib.ones(1000, device="cuda")
    x.view(-1, 10)[1:].record_stream(side)
    for _ in range(3):
        cuda.empty_cache()  # lets go of what nobody uses
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        y = x + 1
    del x
    again = gradlib.zeros(1000, device="cuda")
    side.synchronize()
    assert (y.sum().item(), again.sum().item()) == (2000, 0)


@two_devices
def test_a_stream_is_recorded_whichever_device_is_current_and_of_any_device():
    """A tensor of the first device that a stream of either reads, dropped while the other device is current."""
    for place in (0, 1):
        side = cuda.Stream(place)
        x = gradlib.ones(1000, device="cuda:0")
        side.wait_stream(cuda.current_stream(0))
        with cuda.stream(side):
            y = x.to("cuda:1") if place else x + 1
        x.record_stream(side)
        with cuda.device(1 - place):
            del x
        again = [gradlib.zeros(1000, device="cuda:0") for _ in range(2)]
        side.synchronize()
        assert y.sum().item() == 1000 * (2 - place)
        assert not again[0].any()


def test_what_is_recorded_and_dropped_within_a_capture_waits_for_its_end():
    side, x = cuda.Stream(), gradlib.ones(1000, device="cuda")
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        before = x * 2
    x.record_stream(side)
    w, g = gradlib.ones(3, device="cuda"), cuda.CUDAGraph()
    with cuda.graph(g):
        del x
        t = w * 2
        t.record_stream(cuda.current_stream())
        del t
        y = w + 3
    g.replay()
    assert gradlib.ones(3, device="cuda").to("cpu", non_blocking=True).shape == (3,)  # looks for what is over
    cuda.synchronize()
    assert (y.tolist(), before.sum().item()) == ([4, 4, 4], 2000)


@two_devices
def test_copies_between_devices_follow_events():
    """The worked example of the page: each device computes on its own streams, and a copy waits for what made its source."""
    first, second = cuda.Stream(0), cuda.Stream(1)
    with cuda.stream(first):
        x = gradlib.arange(4.0, device="cuda").requires_grad_()
        y = x * 3
        made = first.record_event()
    second.wait_event(made)
    with cuda.stream(second):
        z = (y.to("cuda:1") + 1).sum()
    assert (z.device, cuda.current_device()) == (gradlib.device("cuda:1"), 0)
    second.synchronize()
    assert z.item() == 22


@two_devices
@pytest.mark.parametrize("order", [0, 1])
def test_a_copy_to_another_device_is_behind_its_source_and_before_what_comes(order):
    """On the current streams of both, also in backward, where the copy goes the other way; the source's memory is not used meanwhile."""
    here, there = (cuda.Stream(place) for place in (order, 1 - order))
    x = gradlib.arange(4.0, device=f"cuda:{order}").requires_grad_()
    here.wait_stream(cuda.current_stream(order))
    with cuda.stream(there), cuda.stream(here):
        z = ((x * 3).to(f"cuda:{1 - order}") * 2).sum()
        gradlib.zeros(4, device=f"cuda:{order}")
    z.backward()
    cuda.synchronize(order)
    assert x.grad.tolist() == [6, 6, 6, 6]


# ---- memory -------------------------------------------------------------------------------------------------------------------------


def test_memory_is_counted_by_device():
    cuda.empty_cache()
    before = cuda.memory_allocated()
    cuda.reset_peak_memory_stats()
    x = gradlib.zeros(1 << 18, device="cuda")
    used = cuda.memory_allocated()
    assert used - before == 1 << 20
    assert cuda.memory_reserved() >= used
    del x
    assert cuda.memory_allocated() == before
    assert cuda.max_memory_allocated() == used
    assert cuda.max_memory_reserved() >= used
    assert cuda.memory_stats()["allocated_bytes.all.current"] == before
    assert cuda.memory_stats()["allocated_bytes.all.peak"] == used
    cuda.reset_peak_memory_stats()
    assert cuda.max_memory_allocated() == before
    cuda.empty_cache()
    assert cuda.memory_reserved() < used or before > 0
    kept = gradlib.zeros(1 << 18, device="cuda")
    assert f" {cuda.memory_allocated() / (1 << 20):.2f} MiB" in cuda.memory_summary()
    del kept
    cuda.ipc_collect()


@two_devices
def test_peaks_are_those_of_each_device_stream_thread_and_graph():
    def use(device: str = "cuda:0") -> None:
        gradlib.zeros(1 << 18, device=device)

    def on_a_stream() -> None:
        with cuda.stream(cuda.Stream()):
            use()

    def on_a_thread() -> None:
        thread = threading.Thread(target=use)
        thread.start()
        thread.join()

    def in_a_graph() -> None:
        with cuda.graph(cuda.CUDAGraph()):
            use()

    def within_another_allocator() -> None:
        with cupy.cuda.using_allocator(cupy.get_default_memory_pool().malloc):
            cuda.reset_peak_memory_stats()
        use()

    for run, place in (
        (use, 0),
        (lambda: use("cuda:1"), 1),
        (on_a_stream, 0),
        (on_a_thread, 0),
        (in_a_graph, 0),
        (within_another_allocator, 0),
    ):
        cuda.memory._peaks.clear()
        cuda.reset_peak_memory_stats(place)
        before = cuda.memory_allocated(place)
        run()
        gc.collect()
        assert (cuda.max_memory_allocated(place) - before, cuda.memory_allocated(place) - before) == (1 << 20, 0), run
        assert cuda.max_memory_reserved(place) >= cuda.max_memory_allocated(place)


def test_peaks_are_asked_for_first_within_a_capture():
    x = gradlib.ones(3, device="cuda")
    with cuda.graph(cuda.CUDAGraph()):
        y = x + 1
        assert cuda.max_memory_allocated() >= y.nbytes
    z = gradlib.zeros(1 << 18, device="cuda")
    used = cuda.memory_allocated()
    del z
    assert cuda.max_memory_allocated() == used


def test_the_pool_keeps_to_its_fraction():
    total = cuda.mem_get_info()[1]
    cuda.set_per_process_memory_fraction((cuda.memory_reserved() + (1 << 20)) / total)
    try:
        with pytest.raises(cuda.OutOfMemoryError):
            gradlib.zeros(1 << 22, device="cuda")
        with pytest.raises(cuda.OutOfMemoryError), cuda.graph(cuda.CUDAGraph()):
            gradlib.zeros(1 << 22, device="cuda")
    finally:
        cuda.set_per_process_memory_fraction(1.0)
    assert cuda.get_per_process_memory_fraction() == 1.0
    gradlib.zeros(1 << 22, device="cuda")


def test_pinned_memory_is_copied_without_the_host():
    x = gradlib.arange(4.0, requires_grad=True)
    held = x.pin_memory()
    assert held.is_pinned()
    assert not x.is_pinned()
    assert held.pin_memory() is held
    there = held.to("cuda", non_blocking=True)
    back = there.to("cpu", non_blocking=True)
    cuda.synchronize()
    assert back.is_pinned()
    assert back.tolist() == [0, 1, 2, 3]
    back.sum().backward()
    assert x.grad.tolist() == [1, 1, 1, 1]
    view = held[1:]
    assert view.is_pinned()
    assert not (held + 1).is_pinned()
    wide = there.detach().to("cpu", gradlib.float64, non_blocking=True)
    cuda.synchronize()
    assert (wide.dtype, wide.tolist()) == (gradlib.float64, [0, 1, 2, 3])


def test_a_tensor_is_made_in_page_locked_memory():
    made = [gradlib.tensor([1.0, 2.0], pin_memory=True, requires_grad=True), gradlib.zeros(2, pin_memory=True)]
    made += [gradlib.ones(2, pin_memory=True), gradlib.empty(2, pin_memory=True)]
    assert all(x.is_pinned() and x.is_leaf and not x.is_cuda for x in made)
    assert made[0].tolist() == [1.0, 2.0]
    assert not gradlib.ones(2).is_pinned()
    for make in (gradlib.zeros, lambda n, **options: gradlib.tensor([n], **options)):
        with pytest.raises(RuntimeError, match="Only dense CPU tensors can be pinned"):
            make(2, device="cuda", pin_memory=True)


def test_every_function_that_makes_a_tensor_pins_it_where_asked():
    x = gradlib.ones(2)
    makers = {
        "full": ((2,), 3.0), "arange": (3,), "linspace": (0, 1, 3), "logspace": (0, 1, 3), "eye": (3,), "rand": (3,), "randn": (3,),
        "randint": (4, (3,)), "randperm": (3,), "normal": (0.0, 1.0, (3,)),
    }  # fmt: skip
    made = {name: lambda name=name, args=args, **k: getattr(gradlib, name)(*args, **k) for name, args in makers.items()}
    for name, rest in {"zeros": (), "ones": (), "empty": (), "full": (3,), "rand": (), "randn": (), "randint": (4,)}.items():
        made[f"{name}_like"] = lambda name=name, rest=rest, **k: getattr(gradlib, f"{name}_like")(x, *rest, **k)
    for name, args in {"tensor": ([1.0],), "zeros": (2,), "ones": (2,), "empty": (2,), "full": ((2,), 3)}.items():
        made[f"new_{name}"] = lambda name=name, args=args, **k: getattr(x, f"new_{name}")(*args, **k)
    wrong = [name for name, make in made.items() if not make(pin_memory=True).is_pinned() or make(pin_memory=False).is_pinned()]
    assert wrong == []
    for name, make in made.items():
        with pytest.raises(RuntimeError, match="Only dense CPU tensors can be pinned"):
            print(name, make(device="cuda", pin_memory=True))


@two_devices
def test_cuda_without_a_number_is_the_current_device():
    x = gradlib.ones(2, device="cuda:1")
    for moved in (x.to("cuda"), x.cuda(), x.to(gradlib.device("cuda")), x.to("cuda", gradlib.float64)):
        assert str(moved.device) == "cuda:0"
    with cuda.device(1):
        assert x.cuda() is x
    with pytest.raises(RuntimeError, match="Invalid device, must be cuda device, got cpu"):
        x.cuda("cpu")


@pytest.mark.skipif(HAS_GPU, reason="hostcuda counts the waits")
def test_a_copy_to_the_host_that_does_not_block_does_not_wait():
    x = gradlib.ones(4, device="cuda")
    with hostcuda.refused_waits():
        y = x.to("cpu", non_blocking=True)
    cuda.synchronize()
    assert y.sum().item() == 4


def test_memory_that_is_let_go_by_two_threads_is_that_of_work_that_is_over(monkeypatch):
    """Each takes an entry out before it asks whether the work behind it is over."""
    asked = []

    class Slow:
        def __init__(self, done: bool) -> None:
            self.over = done

        @property
        def done(self) -> bool:
            if not asked:
                asked.append(self)
                pinned.let_go()  # as another thread may meanwhile
            return self.over

    entries = [(Slow(True), "first"), (Slow(False), "second")]
    monkeypatch.setattr(pinned, "_under_way", deque(entries))
    pinned.let_go()
    assert list(pinned._under_way) == entries[1:]


# ---- seeds and NVTX -----------------------------------------------------------------------------------------------------------------


@two_devices
def test_seeds_are_those_of_the_devices_alone():
    gradlib.manual_seed(1)
    host = gradlib.rand(2, device="cpu")
    gradlib.manual_seed(1)
    cuda.manual_seed(5)
    first = gradlib.rand(2, device="cuda")
    assert gradlib.equal(gradlib.rand(2, device="cpu"), host)
    cuda.manual_seed_all(5)
    assert gradlib.equal(gradlib.rand(2, device="cuda"), first)
    state = cuda.get_rng_state("cuda:1")
    other = gradlib.rand(2, device="cuda:1")
    cuda.set_rng_state(state, "cuda:1")
    assert gradlib.equal(gradlib.rand(2, device="cuda:1"), other)
    states = cuda.get_rng_state_all()
    assert len(states) == cuda.device_count()
    cuda.set_rng_state_all(states)
    assert cuda.initial_seed() == 5
    cuda.seed()
    cuda.seed_all()


def test_nvtx_ranges_nest_by_thread():
    assert cuda.nvtx.range_push("outer") == 0
    with cuda.nvtx.range("step {}", 3):
        assert cuda.nvtx.range_push("inner") == 2
        seen = []
        thread = threading.Thread(target=lambda: seen.append(cuda.nvtx.range_push("other")))
        thread.start()
        thread.join()
        assert seen == [0]
        assert cuda.nvtx.range_pop() == 2
    assert cuda.nvtx.range_pop() == 0
    assert cuda.nvtx.range_pop() < 0

    @cuda.nvtx.range("function")
    def run() -> int:
        return 4

    assert run() == 4
    cuda.profiler.start()
    with cuda.profiler.profile():
        pass
    assert cuda.cudart().cudaProfilerStart() == cuda.cudart().cudaProfilerStop() == 0
    handle = cuda.nvtx.range_start("transfer")
    cuda.nvtx.mark("now")
    cuda.nvtx.range_end(handle)


# ---- where something is missing -----------------------------------------------------------------------------------------------------

NO_CUPY = """import importlib.util as u; found = u.find_spec
sys.modules["cupy"], u.find_spec = None, lambda name, *rest: None if name == "cupy" else found(name, *rest)"""

WITHOUT = """
import sys
{hide}
import gradlib
from gradlib import cuda
assert not cuda.is_available() and cuda.device_count() == 0 and not cuda.is_initialized()
assert cuda.memory_allocated() == cuda.max_memory_allocated() == cuda.memory_reserved() == cuda.max_memory_reserved() == 0
assert cuda.memory_stats() == {{}} and cuda.get_rng_state_all() == cuda.get_arch_list() == [] and cuda.default_generators == ()
assert not cuda.is_bf16_supported() and not cuda.is_tf32_supported() and cuda.memory_summary().count(" 0 B") == 6
assert cuda.graphed(lambda x: x * 2)(gradlib.ones(1)).item() == 2
assert not cuda.is_current_stream_capturing() and not gradlib.ones(1).is_pinned()
cuda.manual_seed(1); cuda.manual_seed_all(1); cuda.seed(); cuda.seed_all(); cuda.empty_cache(); cuda.reset_peak_memory_stats()
cuda.ipc_collect()
with cuda.nvtx.range("a"), cuda.stream(None), cuda.device(None), cuda.profiler.profile():
    cuda.nvtx.mark("b")
assert "cupy" not in sys.modules
needing = [
    cuda.init, cuda.current_device, cuda.current_stream, cuda.default_stream, cuda.synchronize, cuda.Stream, cuda.Event, cuda.mem_get_info,
    cuda.get_device_name, cuda.get_device_properties, cuda.initial_seed, lambda: cuda.set_device(0), lambda: cuda.device(0),
    lambda: cuda.ExternalStream(0), lambda: cuda.set_per_process_memory_fraction(0.5), lambda: gradlib.ones(1).pin_memory(),
    cuda.get_rng_state, cuda.CUDAGraph, cuda.graph_pool_handle, cuda.cudart,
    lambda: cuda.make_graphed_callables(lambda x: x, (gradlib.ones(1),)),
]
for each in needing:
    try:
        each()
        raise AssertionError(each)
    except RuntimeError as error:
        print(error)
"""


@pytest.mark.parametrize(
    ("hide", "says"),
    [(NO_CUPY, "pip install"), pytest.param("", "nvidia-smi", marks=pytest.mark.skipif(HAS_GPU, reason="needs a machine without a GPU"))],
    ids=["no CuPy", "no GPU"],
)
def test_without_it_questions_are_answered_and_work_says_what_is_missing(hide, says):
    program = WITHOUT.format(hide=hide)
    if "None" in hide:
        program = program.replace('assert "cupy" not in sys.modules', "")
        program = program.replace("not cuda.is_initialized()", "True")
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, env=os.environ, check=False)
    assert done.returncode == 0, done.stderr
    lines = done.stdout.splitlines()
    assert len(lines) == 21
    assert all(says in line for line in lines), lines


def test_a_forked_process_is_told_so(monkeypatch):
    def fail():
        raise RuntimeError("cudaErrorInitializationError: initialization error")

    monkeypatch.setattr(cupy.cuda.runtime, "getDeviceCount", fail)
    with pytest.raises(RuntimeError, match="no usable GPU was found"):
        cuda.current_device()
    monkeypatch.setattr("gradlib.backend.device._LOADED_IN", os.getpid() + 1)
    with pytest.raises(RuntimeError, match=r'was forked from another one: .*Start processes by "spawn"'):
        cuda.current_device()


def test_seeding_takes_whole_numbers_only():
    with pytest.raises((TypeError, RuntimeError, ValueError)):
        cuda.manual_seed("seven")
    assert np.isfinite(gradlib.rand(1, device="cuda").item())
