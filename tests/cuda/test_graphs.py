"""CUDA graphs: replays give the bits of the eager run, in memory of their own, and a capture that fails leaves nothing behind."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import gradlib
from gradlib import cuda
from gradlib.backend import capture as backend_capture
from gradlib.backend.capture import capturing
from gradlib.testing import hostcuda
from tests.device import HAS_GPU, cupy, skip_module_without_cuda, two_devices

skip_module_without_cuda()

pytestmark = pytest.mark.cuda


@pytest.fixture(autouse=True)
def nothing_is_left() -> Iterator[None]:
    """After each test this thread captures nothing, and its stream is the default one."""
    yield
    assert not cuda.is_current_stream_capturing()
    assert cuda.current_stream() == cuda.default_stream()
    shared = cuda.graph.default_capture_stream
    assert shared is None or not shared.cupy_stream.is_capturing()


def drawn(*shape: int) -> gradlib.Tensor:
    return gradlib.randn(*shape, device="cuda")


def cost(x: gradlib.Tensor, target: gradlib.Tensor) -> gradlib.Tensor:
    return ((x.sin() * x - target).square().sum(-1).sqrt() + gradlib.cumsum(x, -1)[..., -1].abs()).mean()


# ---- capture and replay ---------------------------------------------------------------------------------------------------------------


def test_forward_and_backward_replay_to_the_bits_of_the_eager_run() -> None:
    x, target = drawn(5, 7).requires_grad_(), drawn(5, 7)
    cost(x, target).backward()  # compiles
    x.grad = None
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        assert cuda.is_current_stream_capturing()
        loss = cost(x, target)
        loss.backward()
    for _ in range(3):
        new, goal = drawn(5, 7).requires_grad_(), drawn(5, 7)
        with gradlib.no_grad():
            x.copy_(new)
        target.copy_(goal)
        g.replay()
        expected = cost(new, goal)
        expected.backward()
        assert gradlib.equal(loss.detach(), expected.detach())
        assert gradlib.equal(x.grad, new.grad)


def test_a_replay_runs_on_the_current_stream_and_on_a_stream_of_the_users() -> None:
    x, side = gradlib.ones(3, device="cuda"), cuda.Stream()
    g = cuda.CUDAGraph()
    with cuda.graph(g, stream=side):
        assert cuda.current_stream() == side
        y = x * 2
    side.wait_stream(cuda.current_stream())
    with cuda.stream(side):
        g.replay()
    cuda.current_stream().wait_stream(side)
    assert y.tolist() == [2, 2, 2]
    x.fill_(5)
    g.replay()
    assert y.tolist() == [10, 10, 10]


def test_work_of_a_stream_that_forks_and_joins_is_captured() -> None:
    x, side = gradlib.ones(3, device="cuda"), cuda.Stream()
    g = cuda.CUDAGraph()
    with cuda.graph(g):
        side.wait_stream(cuda.current_stream())
        with cuda.stream(side):
            y = x + 1
        z = x * 3
        cuda.current_stream().wait_stream(side)
        w = y + z
    g.replay()
    assert w.tolist() == [5, 5, 5]


def test_capture_begin_and_end_are_what_graph_does() -> None:
    x = gradlib.ones(3, device="cuda")
    g = cuda.CUDAGraph(keep_graph=True)
    cuda.synchronize()
    with cuda.stream(cuda.Stream()):
        g.capture_begin(capture_error_mode="thread_local")
        y = x + 1
        with cuda.stream(cuda.default_stream()), pytest.raises(RuntimeError, match="Capture must end on the same stream it began on"):
            g.capture_end()
        g.capture_end()
    assert g.raw_cuda_graph() > 0
    with pytest.raises(RuntimeError, match="until instantiate"):
        g.raw_cuda_graph_exec()
    g.replay()
    first = g.raw_cuda_graph_exec()
    g.instantiate()
    assert g.raw_cuda_graph_exec() != first
    g.replay()
    assert y.tolist() == [2, 2, 2]


def test_a_debug_dump_names_the_kernels(tmp_path: Any) -> None:
    x, graph, other = gradlib.ones(4, device="cuda"), cuda.CUDAGraph(), cuda.Stream()
    graph.enable_debug_mode()
    with cuda.graph(graph):
        y = x + 1
        y.record_stream(other)  # which a capture takes
        z = -x
    graph.debug_dump(str(tmp_path / "graph.dot"))
    assert "add" in (tmp_path / "graph.dot").read_text()
    graph.replay()
    assert z.tolist() == [-1.0] * 4


def test_a_capture_without_work_warns() -> None:
    g = cuda.CUDAGraph()
    with pytest.warns(UserWarning, match="The CUDA Graph is empty"), cuda.graph(g):
        pass


@pytest.mark.parametrize(
    ("run", "kind", "text"),
    [
        (lambda g: g.replay(), RuntimeError, "Called CUDAGraph::replay without a preceding successful capture"),
        (lambda g: g.pool(), RuntimeError, r"Called CUDAGraph::pool\(\) without"),
        (lambda g: g.instantiate(), RuntimeError, r"capture_end\(\) must have been called before"),
        (lambda g: g.capture_end(), RuntimeError, "Capture must end on the same stream"),
        (lambda g: g.capture_begin(), RuntimeError, "must be captured on a non-default stream"),
        (lambda g: g.capture_begin(capture_error_mode="some"), RuntimeError, "Expected `global`, `thread_local`, or `relaxed`, got some"),
        (lambda g: g.raw_cuda_graph(), RuntimeError, "unless CUDAGraph was initialized with keep_graph=true"),
        (lambda g: cuda.graph(g, pool="mine").__enter__(), TypeError, r"what graph_pool_handle\(\) or the pool\(\) of a graph"),
    ],
)
def test_what_is_wrong_is_refused(run: Any, kind: Any, text: str) -> None:
    with pytest.raises(kind, match=text):
        run(cuda.CUDAGraph())


def test_a_graph_is_captured_once_and_no_capture_begins_within_another() -> None:
    x, g = gradlib.ones(3, device="cuda"), cuda.CUDAGraph()
    with cuda.graph(g):
        y = x + 1
        with pytest.raises(RuntimeError, match="end that capture before another begins"), cuda.graph(cuda.CUDAGraph()):
            pass
    with pytest.raises(RuntimeError, match="already owns a captured graph"), cuda.graph(g):
        pass
    g.replay()
    assert y.tolist() == [2, 2, 2]


# ---- what cannot be captured ----------------------------------------------------------------------------------------------------------


class Untraceable(gradlib.autograd.Function):
    is_traceable = False

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2


class AsksInBackward(Untraceable):
    is_traceable = True

    @staticmethod
    def backward(ctx: Any, g: Any) -> Any:
        return g * g.sum().item()


class Plain(gradlib.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        return x * 2


HOST = gradlib.ones(3)


@pytest.mark.parametrize(
    ("run", "text"),
    [
        (lambda x: x.sum().item(), "^item cannot be captured in a CUDA graph: it asks for values on the host"),
        (lambda x: bool(x.sum()), "^__bool__ cannot be captured"),
        (lambda x: gradlib.nonzero(x), "^nonzero cannot be captured"),
        (lambda x: x[x > 0], r"index\) cannot be captured"),
        (lambda x: repr(x), "^__repr__ cannot be captured"),
        (
            lambda x: gradlib.linalg.det(x[:0, :0].requires_grad_()).backward(),
            r"^backward \(in it the backward of det\) cannot be captured.*values on the host",
        ),
        (lambda x: AsksInBackward.apply(x.requires_grad_()).sum().backward(), r"^backward \(in it item\) cannot be captured"),
        (lambda x: HOST.to("cuda"), "^to .*cannot be captured in a CUDA graph: it copies values of the host to the device"),
        (lambda x: gradlib.tensor([1.0, 2.0], device="cuda"), "^tensor cannot be captured.*make the tensor before the capture"),
        (lambda x: gradlib.linalg.qr(x.repeat(30, 30)), "^qr cannot be captured.*CuPy refuses cuSOLVER while a stream captures .cupy iss"),
        (lambda x: gradlib.linalg.cholesky(x), "^cholesky cannot be captured.*asks for values on the host"),
        (lambda x: cuda.synchronize(), "^synchronize cannot be captured.*waits for the device"),
        (lambda x: cuda.current_stream().synchronize(), "^synchronize cannot be captured"),
        (lambda x: cuda.current_stream().record_event().synchronize(), "^synchronize cannot be captured"),
        (lambda x: cuda.current_stream().query(), "^query cannot be captured.*what CUDA refuses while a stream captures"),
        (lambda x: cuda.current_stream().record_event().query(), "^query cannot be captured"),
        (lambda x: Untraceable.apply(x), "^Untraceable cannot be captured in a CUDA graph: its is_traceable is False"),
    ],
)
def test_what_cannot_be_captured_is_named_and_leaves_nothing(run: Any, text: str) -> None:
    x = drawn(3, 3)
    g = cuda.CUDAGraph()
    gc.collect()
    before = cuda.memory_reserved()
    with pytest.raises(RuntimeError, match=text), cuda.graph(g):
        run((x * 2).exp() * 0 + x)  # behind memory of the capture
    assert cuda.current_stream() == cuda.default_stream()
    gc.collect()
    assert cuda.memory_reserved() <= before  # the pool is given back
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        g.replay()
    with cuda.graph(g):  # and the same graph can be captured
        y = x * 2
    g.replay()
    assert gradlib.equal(y, x * 2)


def test_a_function_that_says_nothing_is_captured_as_in_torch() -> None:
    x, g = gradlib.ones(3, device="cuda"), cuda.CUDAGraph()
    with cuda.graph(g):
        y = Plain.apply(x)
    g.replay()
    assert y.tolist() == [2, 2, 2]


def test_kernels_for_numbers_casts_and_views_run_within_a_capture() -> None:
    """Those of small operations, also where they are compiled within it."""
    x, g = drawn(6).reshape(2, 3), cuda.CUDAGraph()
    half = x.bfloat16()

    def run() -> tuple[Any, ...]:
        spaced = gradlib.arange(0, 1, 0.5, device="cuda")
        numbers = half * 2.5, half / 3, 1 / half, half.float() ** 1.5, x.clamp(-0.5, 0.25), x.clamp(max=0)
        return (*numbers, x.to(gradlib.float64), x.long(), spaced, *x.unbind(1), *x.split(1), x.repeat(40, 20).sum())

    with cuda.graph(g):
        made = run()
    x.mul_(-1)
    half.mul_(-3)
    g.replay()
    for ours, expected in zip(made, run(), strict=True):
        assert ours.dtype is expected.dtype
        assert ours.nan_to_num().tolist() == expected.nan_to_num().tolist()


def test_many_parts_are_joined_and_lines_sorted_within_a_capture() -> None:
    x, g = drawn(6).reshape(2, 3), cuda.CUDAGraph()

    def run() -> tuple[Any, ...]:
        return (
            gradlib.cat([x, x] * 10),
            gradlib.cat([x.T] * 9, 1),
            gradlib.stack([x] * 9),
            *x.sort(descending=True),
            gradlib.full((3,), 2.0, device="cuda"),
        )

    with cuda.graph(g):
        made = run()
    x.mul_(-1)
    g.replay()
    for ours, expected in zip(made, run(), strict=True):
        assert gradlib.equal(ours, expected)


def test_values_that_meet_and_running_products_are_captured_with_their_gradients() -> None:
    x = gradlib.arange(32.0, device="cuda").reshape(4, 8).requires_grad_()
    values = (x[:2].detach() + 1).requires_grad_()
    places, mask = gradlib.tensor([[0, 1, 2, 3] * 2, [0, 1] * 4], device="cuda"), x.detach() > 7

    def gradients() -> tuple[gradlib.Tensor, ...]:
        met = sum(x.scatter_reduce(0, places, values, reduce, include_self=reduce != "amin") for reduce in ("mean", "amax", "amin", "prod"))
        made = met.masked_scatter(mask, values.repeat(2, 1)) + x.half().scatter_add(0, places, values.half()).float()
        made = (made * 1e-3).cumprod(0) + made.logcumsumexp(1) + x.as_strided((4, 8), (8, 1)).index_fill(0, places[0, :2], values[0, 0])
        made[mask] = values[0, 0]  # of which no gradient is counted
        made[1:][mask[1:]] = values[0, 1]
        return gradlib.autograd.grad(made.sum(), (x, values))

    eager = [each.tolist() for each in gradients()]
    with cuda.graph(graph := cuda.CUDAGraph()):
        replayed = gradients()
    graph.replay()
    assert [each.tolist() for each in replayed] == eager


def test_a_stream_that_does_not_join_again_is_named() -> None:
    x, side, g = gradlib.ones(3, device="cuda"), cuda.Stream(), cuda.CUDAGraph()

    def fork() -> None:
        side.wait_stream(cuda.current_stream())
        with cuda.stream(side):
            x.mul(2)

    with pytest.raises(RuntimeError, match=r"has not joined it again; let the stream of the capture wait for it"), cuda.graph(g):
        fork()
    with cuda.stream(side):
        assert (x * 2).tolist() == [2, 2, 2]


def test_an_error_of_the_users_passes_through_and_ends_the_capture() -> None:
    x = gradlib.ones(3, device="cuda")
    with pytest.raises(ZeroDivisionError), cuda.graph(cuda.CUDAGraph()):
        x.mul(1 / int(x.numel() - 3))


def test_a_capture_that_cannot_end_where_it_began_is_given_up() -> None:
    x, held = gradlib.ones(3, device="cuda"), []

    def work(g: cuda.CUDAGraph, leave: Any) -> None:
        with cuda.graph(g):
            _ = x + 1
            leave()

    for leave in (lambda: cuda.set_stream(cuda.default_stream()), lambda: held[-1].capture_end(), lambda: held[-1].reset()):
        held.append(cuda.CUDAGraph())
        with pytest.raises(RuntimeError, match="Capture must end on the same stream it began on"):
            work(held[-1], leave)
        with cuda.graph(cuda.CUDAGraph()):
            y = x + 1
    held[1].replay()
    assert y.shape == (3,)


class Raised(BaseException):
    """No Exception, as Ctrl-C is none."""


def test_an_error_at_any_call_within_the_capture_leaves_nothing() -> None:
    """Raised at each call of a function of Python, one after the other, from the beginning of the capture to its end."""
    x, other = gradlib.ones(3, 3, device="cuda", requires_grad=True), drawn(3, 3)
    allocator, ours = cupy.cuda.get_allocator(), str(Path(gradlib.__file__).parent)
    cleanup = {"__exit__", "reset", "_leave", "_drop_further", "end", "__del__", "relaxed", "_exchange"}
    place = {"at": 0, "count": 0}

    def trace(frame: Any, event: str, arg: Any) -> None:
        code = frame.f_code
        if code.co_filename.startswith((ours, "gradlib,")) and "hostcuda" not in code.co_filename and code.co_name not in cleanup:
            place["count"] += 1
            if place["count"] == place["at"]:
                raise Raised

    def run() -> None:
        g = cuda.CUDAGraph()
        with cuda.graph(g):
            (x @ other * gradlib.rand(3, device="cuda")).exp().sum()
        g.replay()

    run()
    while True:
        place.update(at=place["at"] + 1, count=0)
        sys.settrace(trace)
        try:
            run()
            break
        except Raised:
            pass
        finally:
            sys.settrace(None)
        assert cupy.cuda.get_allocator() == allocator
        assert capturing.capture is None
        assert cuda.driver._exchange(0) == 0
        shared = cuda.graph.default_capture_stream
        assert shared is not None
        assert not shared.cupy_stream.is_capturing()
        cuda.set_stream(cuda.default_stream())  # an error on the way out of its context leaves that, as any of Python's contexts
    assert place["at"] > 50
    run()


def test_whether_a_stream_captures_is_known_after_an_error_too() -> None:
    def work() -> None:
        with cuda.graph(cuda.CUDAGraph()):
            with pytest.raises(RuntimeError):
                cuda.synchronize()
            assert cuda.is_current_stream_capturing()

    with pytest.raises(RuntimeError, match="an earlier error, of this thread or of another one"):
        work()
    assert not cuda.is_current_stream_capturing()


class Deeper(gradlib.autograd.Function):
    """Its backward calls backward, as many deep as it was told."""

    @staticmethod
    def forward(ctx: Any, x: gradlib.Tensor, left: int) -> gradlib.Tensor:
        ctx.left = left
        return x * 2

    @staticmethod
    def backward(ctx: Any, g: gradlib.Tensor) -> Any:
        if ctx.left:
            with gradlib.enable_grad():
                inner = gradlib.ones_like(g, requires_grad=True)
                Deeper.apply(inner, ctx.left - 1).sum().backward()
            return g * inner.grad * gradlib.rand(3, device="cuda").ceil(), None
        return g * 2, None


def test_what_needs_a_deeper_stack_is_captured_too() -> None:
    """A thread of its own goes on with the capture, its memory and its random numbers."""
    x, g = gradlib.ones(3, device="cuda", requires_grad=True), cuda.CUDAGraph()
    Deeper.apply(x, 80).sum().backward()
    expected, x.grad = x.grad, None
    with cuda.graph(g):
        Deeper.apply(x, 80).sum().backward()
    others = [gradlib.zeros(3, device="cuda") for _ in range(200)]
    g.replay()
    assert gradlib.equal(x.grad, expected)
    assert not any(other.any() for other in others)


def test_a_capture_that_another_thread_drops_is_left_to_its_own() -> None:
    """As by garbage collection: what was entered on one thread is not left on another, which may capture itself."""
    x, kept, done = gradlib.ones(3, device="cuda"), [], threading.Event()

    def begin() -> None:
        with cuda.stream(cuda.Stream()):
            kept.append(cuda.CUDAGraph())
            kept[0].capture_begin(capture_error_mode="relaxed")
            done.wait(10)
            cuda.current_stream().cupy_stream.end_capture()
            backend_capture.end()

    thread, mine = threading.Thread(target=begin), cuda.CUDAGraph()
    x + 1
    cuda.synchronize()
    thread.start()
    while not kept or kept[0]._under_way is None:
        pass
    with cuda.stream(cuda.Stream()):
        mine.capture_begin(capture_error_mode="relaxed")
        kept.pop().reset()
        y = x + 1
        mine.capture_end()
    done.set()
    thread.join()
    mine.replay()
    assert y.tolist() == [2, 2, 2]


def test_a_thread_does_not_begin_to_capture_while_another_does() -> None:
    x, failed, eager = gradlib.ones(3, device="cuda"), [], []
    x * 2  # compiles and allocates
    cuda.synchronize()

    def run() -> None:
        try:
            eager.append(cuda.graphed(lambda x: x * 2)(x))
            with cuda.graph(cuda.CUDAGraph()):
                pass
        except RuntimeError as error:
            failed.append(str(error))

    g, thread = cuda.CUDAGraph(), threading.Thread(target=run)
    with cuda.graph(g, stream=cuda.Stream(), capture_error_mode="thread_local"):
        y = x + 1
        thread.start()
        thread.join()
    g.replay()
    assert (y.tolist(), eager[0].tolist()) == ([2, 2, 2], [2, 2, 2])
    assert "another thread captures a CUDA graph" in failed[0]


@two_devices
def test_random_numbers_of_another_device_are_refused() -> None:
    with (
        pytest.raises(RuntimeError, match=r"^rand cannot be captured .* draws random numbers on another device"),
        cuda.graph(cuda.CUDAGraph()),
    ):
        gradlib.rand(3, device="cuda:1")


def test_a_graph_within_a_graph_is_a_part_of_it_unless_it_draws() -> None:
    x, inner, outer, draws = gradlib.ones(3, device="cuda"), cuda.CUDAGraph(), cuda.CUDAGraph(), cuda.CUDAGraph()
    with cuda.graph(inner):
        y = x + 1
    with cuda.graph(outer):
        inner.replay()
        z = y * 2
    x.fill_(4)
    outer.replay()
    assert z.tolist() == [10, 10, 10]
    draws.register_generator_state(cuda.default_generators[0])
    with cuda.graph(draws):
        y = gradlib.rand(3, device="cuda")
    with pytest.raises(RuntimeError, match=r"^replay cannot be captured.* draws random numbers"), cuda.graph(cuda.CUDAGraph()):
        draws.replay()
    with pytest.raises(TypeError, match="expected a Generator, got int"):
        draws.register_generator_state(0)


def test_backward_of_what_was_recorded_outside_is_refused() -> None:
    x = gradlib.ones(3, device="cuda", requires_grad=True)
    y = x.exp().sum()
    with pytest.raises(RuntimeError, match=r"^backward cannot be captured.*the forward too"), cuda.graph(cuda.CUDAGraph()):
        y.backward()


def test_reset_gives_up_a_capture_under_way() -> None:
    x, g = gradlib.ones(3, device="cuda"), cuda.CUDAGraph()
    cuda.synchronize()
    with cuda.stream(cuda.Stream()):
        g.capture_begin()
        x * 2
        g.reset()
        assert not cuda.is_current_stream_capturing()
        assert (x * 2).tolist() == [2, 2, 2]
        g.capture_begin()
        del g  # and so does who drops it
        assert not cuda.is_current_stream_capturing()


# ---- memory ---------------------------------------------------------------------------------------------------------------------------


def test_memory_of_a_graph_is_given_to_nobody_else_while_it_lives() -> None:
    x, g = drawn(64), cuda.CUDAGraph()
    capture = cuda.graph(g)
    with capture:
        y = (x + 1).exp().sum()
    others = [gradlib.zeros(64, device="cuda") for _ in range(50)]
    with cuda.stream(capture.capture_stream):
        others += [gradlib.zeros(64, device="cuda") for _ in range(50)]
    cuda.synchronize()
    cuda.empty_cache()
    g.replay()
    assert gradlib.equal(y, (x + 1).exp().sum())
    assert not any(other.any() for other in others)


@pytest.mark.skipif(HAS_GPU, reason="only hostcuda reports it")
def test_a_replay_over_memory_that_was_given_away_is_a_hazard() -> None:
    x, stream = drawn(64), cupy.cuda.Stream(non_blocking=True)
    (x + 1).exp()
    cuda.synchronize()
    with stream:
        stream.begin_capture()  # CuPy's own: from the pool that everybody has memory from
        y = (x + 1).exp()
        captured = stream.end_capture()
        others = [gradlib.zeros(64, device="cuda") for _ in range(3)]
        with hostcuda.expected("memory that was given to someone else after the capture"):
            captured.launch()
    assert (y.shape, len(others)) == ((64,), 3)


@pytest.mark.skipif(HAS_GPU, reason="only hostcuda reports it")
def test_a_replay_over_memory_that_was_freed_is_a_hazard() -> None:
    x, g = drawn(64), cuda.CUDAGraph()
    with cuda.graph(g):
        y = x + 1
    del x
    gc.collect()
    with hostcuda.expected("memory that has been freed since the capture|given back after the capture|given to someone else"):
        g.replay()
    del y


def test_graphs_that_share_a_pool_use_its_memory_again() -> None:
    x, pool = drawn(1 << 20), cuda.graph_pool_handle()
    first, second, third = (cuda.CUDAGraph() for _ in range(3))

    def held() -> int:
        return cuda.memory_reserved()

    with cuda.graph(first, pool=pool):
        y = (x + 1).exp().sum()
    before = held()
    with cuda.graph(second, pool=first.pool()):
        z = (x + 2).exp().sum()
    shared, before = held() - before, held()
    with cuda.graph(third):
        w = (x + 2).exp().sum()
    assert first.pool() == second.pool() == pool != third.pool()
    assert shared < held() - before
    for g in (first, second, third):
        g.replay()
    assert gradlib.equal(y, (x + 1).exp().sum())
    assert gradlib.equal(z, (x + 2).exp().sum())
    assert gradlib.equal(w, z)
    first.reset()  # the other one still uses it
    second.replay()
    assert gradlib.equal(z, w)


def test_reset_frees_the_memory_and_keeps_what_lives() -> None:
    x, g = drawn(1 << 20), cuda.CUDAGraph()
    gc.collect()
    cuda.empty_cache()
    before = cuda.memory_reserved()
    with cuda.graph(g):
        y = (x + 1).exp().sum()
    g.replay()
    value = y.item()
    assert cuda.memory_reserved() > before
    g.reset()
    g.reset()
    assert cuda.memory_reserved() <= before
    assert y.item() == value
    with pytest.raises(RuntimeError, match="without a preceding successful capture"):
        g.replay()
