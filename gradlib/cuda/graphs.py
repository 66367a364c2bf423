"""CUDA graphs: work that is captured once and replayed without Python. Source: torch.cuda.graphs."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Iterator
from threading import get_ident
from typing import Any

from gradlib.backend.array import cupy
from gradlib.backend.capture import Capture, begin, capturing, end, under_way
from gradlib.core.random import Generator
from gradlib.cuda.devices import current_device, index_of, synchronize
from gradlib.cuda.driver import OfDriver, node_count, relaxed
from gradlib.cuda.graph_errors import CaptureRefused, refusal
from gradlib.cuda.graph_pools import GraphPool, Handle, pool_of
from gradlib.cuda.memory import empty_cache, noting
from gradlib.cuda.philox import place_of
from gradlib.cuda.streams import Stream, current_stream, default_stream, stream as on_stream

_MODES = {"global": 0, "thread_local": 1, "relaxed": 2}
_NOTHING = Capture()


class _Recording:
    """While entered, a stream captures; leaving it abandons the capture, unless ``end`` was called.

    Args:
        stream: the stream. mode: CUDA's number for the error mode.
    """

    def __init__(self, stream: Stream, mode: int) -> None:
        self.stream = stream
        self._mode = mode
        self._ended = False

    def __enter__(self) -> _Recording:
        self.stream.cupy_stream.begin_capture(self._mode)
        return self

    def end(self) -> Any:
        """End the capture. Returns: CuPy's graph. Raises: what CUDA or CuPy say of a capture that was broken."""
        self._ended = True
        return self.stream.cupy_stream.end_capture()

    def __exit__(self, *exc: object) -> None:
        if not self._ended:
            with contextlib.suppress(Exception):  # it was invalidated, or streams that it forked to have not joined it again
                self.end()


class CUDAGraph(OfDriver):
    """Work of a GPU that is captured once and then replayed any number of times, at the same memory addresses.

    What is launched on the capturing stream between ``capture_begin`` and ``capture_end`` is recorded, not run. A replay runs all of it: it
    reads the memory of the tensors that the capture read, and writes the memory of the capture's results. To replay with new inputs, copy
    them into the old ones (``copy_``). Memory that is allocated during the capture belongs to the graph (see ``graph_pool_handle``).
    Tensors that were made before the capture must live as long as the graph is replayed.

    Args:
        keep_graph: keep the captured graph for ``raw_cuda_graph``, and instantiate it at ``instantiate`` or the first replay.
    Raises: RuntimeError that says what is missing.
    Source: torch.cuda.CUDAGraph.
    Example:
        >>> if gradlib.cuda.is_available():
        ...     x = gradlib.zeros(3, device="cuda")
        ...     g = gradlib.cuda.CUDAGraph()
        ...     with gradlib.cuda.graph(g):
        ...         y = x + 1
        ...     _ = x.fill_(4)
        ...     g.replay()
        ...     assert y.tolist() == [5, 5, 5]
    """

    def __init__(self, keep_graph: bool = False) -> None:
        index_of(None)
        self._keep = keep_graph
        self._debug = False
        self._graph: Any = None  # CuPy's
        self._run: int = 0  # the handle (cudaGraphExec_t) that replays launch
        self._further: int = 0  # such a handle that we made, and not CuPy: destroyed here
        self._pool: GraphPool | None = None
        self._device = -1
        self._capture = _NOTHING  # the random numbers it draws
        self._under_way: tuple[_Recording, contextlib.ExitStack] | None = None
        self._thread = 0  # that of the capture
        self.warns_if_empty = True

    def capture_begin(self, pool: Handle | None = None, capture_error_mode: str = "global", check_input_liveness: bool = False) -> None:
        """Begin to capture the work of the current stream, which may not be the default one. ``gradlib.cuda.graph`` does so for a block.

        Args:
            pool: whose memory to share: what ``graph_pool_handle`` or another graph's ``pool`` returned.
            capture_error_mode: which threads break the capture by a call that CUDA calls potentially unsafe, such as cudaMalloc: any other
                thread ("global"), or none ("thread_local", "relaxed"). This thread may allocate memory and load kernels in any case.
            check_input_liveness: not supported.
        Raises: RuntimeError for a graph that has been captured, on a default stream, while another capture of this thread is under way.
        """
        if self._graph is not None or self._under_way is not None:
            raise RuntimeError("This CUDAGraph instance already owns a captured graph. To capture a new graph, create a new instance.")
        if capture_error_mode not in _MODES:
            raise RuntimeError(f"Unknown capture error mode. Expected `global`, `thread_local`, or `relaxed`, got {capture_error_mode}")
        if check_input_liveness:
            raise NotImplementedError("CUDAGraph: check_input_liveness is not supported; keep the tensors that the capture reads")
        refuse_nested()
        here = current_stream()
        if here == default_stream() or here.cuda_stream <= 2:
            raise RuntimeError(
                "CUDA graphs must be captured on a non-default stream. (However, after capture, it's ok to replay them on the default "
                "stream.)"
            )
        memory = pool_of(pool)

        @contextlib.contextmanager
        def around() -> Iterator[None]:
            with relaxed(), cupy().cuda.using_allocator(noting(memory.malloc)):
                yield

        with contextlib.ExitStack() as entered:  # left in the reverse order, now if anything fails, else when the capture ends
            entered.enter_context(around())
            self._capture = begin(here.device_index, around)
            entered.callback(end)
            recording = entered.enter_context(_Recording(here, _MODES[capture_error_mode]))
            self._pool, self._device = memory, here.device_index
            self._under_way, self._thread = (recording, entered.pop_all()), get_ident()

    def capture_end(self) -> None:
        """End the capture on the current stream. From now on the graph can be replayed.

        Raises: RuntimeError on another stream than the capture began on, and for a capture that was broken; it ends without a graph.
        """
        if self._under_way is None or current_stream() != self._under_way[0].stream:
            raise RuntimeError("Capture must end on the same stream it began on.")
        try:
            self._graph = self._under_way[0].end()
        except Exception as error:
            self.reset()
            raise refusal(error) or error from error
        self._leave()
        self._run = 0 if self._keep else int(self._graph.graphExec)
        if node_count(int(self._graph.graph)) == 0 and self.warns_if_empty:
            warnings.warn(
                "The CUDA Graph is empty. This usually means that the graph was attempted to be captured on wrong device or stream.",
                UserWarning, stacklevel=3,
            )  # fmt: skip

    def _leave(self) -> None:
        """Leave the contexts of the capture that is under way, if one is, which end it if nothing else has.

        They are of the thread that entered them: another one, which may be collecting garbage, only forgets them.
        """
        if self._under_way is not None:
            entered, self._under_way = self._under_way[1], None
            if self._thread == get_ident():
                entered.close()

    def register_generator_state(self, generator: Generator) -> None:
        """Accepted, as in torch: a graph finds out by itself from which generators it draws."""
        if not isinstance(generator, Generator):
            raise TypeError(f"register_generator_state: expected a Generator, got {type(generator).__name__}")

    def instantiate(self) -> None:
        """Instantiate the captured graph for replays, again if it was before. Needed only with ``keep_graph``.

        Raises: RuntimeError before the capture has ended.
        """
        if self._graph is None:
            raise RuntimeError("capture_end() must have been called before calling instantiate")
        if self._run == 0:  # CuPy has made one
            self._run = int(self._graph.graphExec)
            return
        self._drop_further()
        self._run = self._further = int(cupy().cuda.runtime.graphInstantiate(int(self._graph.graph)))

    def replay(self) -> None:
        """Run the captured work on the current stream.

        Within the capture of another graph it becomes a part of that.

        Raises: RuntimeError without a capture that succeeded, and within another capture for a graph that draws random numbers.
        """
        if self._graph is None:
            raise RuntimeError("Called CUDAGraph::replay without a preceding successful capture.")
        if self._capture.drawn and capturing.capture is not None:
            raise CaptureRefused(
                "replay cannot be captured in a CUDA graph: this graph draws random numbers, and within another one it would draw the same "
                "at each replay; replay them one after the other, or capture its work anew"
            )
        if self._run == 0:
            self.instantiate()
        runtime = cupy().cuda.runtime
        before = runtime.getDevice()
        if before != self._device:
            runtime.setDevice(self._device)
        try:
            for generator, (place, draws) in self._capture.drawn.items():
                place_of(generator.initial_seed(), generator.advance(draws), place)
            runtime.graphLaunch(self._run, cupy().cuda.get_current_stream().ptr)
        finally:
            if before != self._device:
                runtime.setDevice(before)

    def reset(self) -> None:
        """Drop the captured graph, or end a capture that has begun. Its memory is freed, but for what tensors or other graphs use."""
        self._leave()
        self._drop_further()
        self._graph, self._run, self._pool, self._capture = None, 0, None, _NOTHING

    def _drop_further(self) -> None:
        if self._further:
            cupy().cuda.runtime.graphExecDestroy(self._further)
            self._further = 0

    def __del__(self) -> None:
        if getattr(self, "_further", None) is not None:  # it was made
            with contextlib.suppress(Exception):  # at the program's end CUDA may be gone
                self.reset()

    def pool(self) -> Handle:
        """The handle of the graph's memory pool, for other graphs to share.

        Raises: RuntimeError before the capture has begun.
        """
        if self._pool is None:
            raise RuntimeError("Called CUDAGraph::pool() without a preceding successful capture.")
        return self._pool.handle

    def enable_debug_mode(self) -> None:
        """Allow ``debug_dump`` to write the graph."""
        self._debug = True

    def debug_dump(self, debug_path: str) -> None:
        """Write the graph as a DOT file; warns without ``enable_debug_mode``.

        Args:
            debug_path: the file to write.
        """
        if not self._debug or self._graph is None:
            warnings.warn("CUDA Graphs debug not enabled, set with [graph].enable_debug_mode()", UserWarning, stacklevel=2)
            return
        with open(debug_path, "w", encoding="utf-8") as file:
            file.write(self._graph.debug_dot_str())

    def raw_cuda_graph(self) -> int:
        """CUDA's handle (cudaGraph_t) of the captured graph.

        Raises: RuntimeError without ``keep_graph``, and before the capture has ended.
        """
        if not self._keep:
            raise RuntimeError("You cannot access the raw cudaGraph_t instance unless CUDAGraph was initialized with keep_graph=true")
        if self._graph is None:
            raise RuntimeError("You cannot access the raw cudaGraph_t instance until capture_end() has been called")
        return int(self._graph.graph)

    def raw_cuda_graph_exec(self) -> int:
        """CUDA's handle (cudaGraphExec_t) of the instantiated graph.

        Raises: RuntimeError before it is instantiated.
        """
        if self._run == 0:
            raise RuntimeError("You cannot access the raw cudaGraphExec_t instance until instantiate() has been called")
        return self._run


def refuse_nested() -> None:
    """Refuse a capture within another one."""
    if capturing.capture is not None:
        raise RuntimeError("a CUDA graph is being captured on this thread; end that capture before another begins")


def refuse_beside() -> None:
    """Refuse to wait for the device while another thread captures, which would break that capture."""
    if under_way:
        raise RuntimeError(
            "another thread captures a CUDA graph, which would break where this one waits for the device before its own capture: capture "
            "one after the other, or call capture_begin on a stream of this thread's own"
        )


class graph:
    """A context that captures the work of its block, on another stream than the current one.

    If the block cannot be captured, the error names the operation that was the reason. The capture has ended then, the graph can be
    captured again, and the stream is as it was before.

    Args:
        cuda_graph: the CUDAGraph to capture into.
        pool: as for ``CUDAGraph.capture_begin``.
        stream: where to capture; a stream of gradlib's own when None.
        capture_error_mode: as for ``CUDAGraph.capture_begin``.
        enable_annotations: not supported.
        check_input_liveness: not supported.
    Raises: RuntimeError for what cannot be captured.
    Source: torch.cuda.graph.
    Example:
        >>> if gradlib.cuda.is_available():
        ...     w = gradlib.ones(3, device="cuda", requires_grad=True)
        ...     target = gradlib.zeros(3, device="cuda")
        ...     g = gradlib.cuda.CUDAGraph()
        ...     with gradlib.cuda.graph(g):
        ...         loss = (w - target).square().sum()
        ...         loss.backward()
        ...     _ = target.fill_(3)
        ...     g.replay()
        ...     assert (loss.item(), w.grad.tolist()) == (12, [-4, -4, -4])
    """

    default_capture_stream: Stream | None = None

    def __init__(
        self,
        cuda_graph: CUDAGraph,
        pool: Handle | None = None,
        stream: Any = None,
        capture_error_mode: str = "global",
        enable_annotations: bool = False,
        check_input_liveness: bool = False,
    ) -> None:
        if enable_annotations:
            raise NotImplementedError("graph: enable_annotations is not supported")
        if stream is None:
            kept = graph.default_capture_stream
            if kept is None or kept.device_index != current_device():
                graph.default_capture_stream = kept = Stream()
            stream = kept
        self.pool = pool
        self.stream_ctx = on_stream(stream)
        self.capture_stream = self.stream_ctx.stream  # torch's name, for a user who asks
        self.cuda_graph = cuda_graph
        self.capture_error_mode = capture_error_mode
        self.check_input_liveness = check_input_liveness

    def __enter__(self) -> None:
        refuse_nested()
        refuse_beside()
        synchronize()
        empty_cache()
        self.stream_ctx.__enter__()
        try:
            self.cuda_graph.capture_begin(
                self.pool, capture_error_mode=self.capture_error_mode, check_input_liveness=self.check_input_liveness
            )
        except BaseException:
            self.stream_ctx.__exit__()
            raise

    def __exit__(self, kind: Any = None, error: BaseException | None = None, trace: Any = None) -> None:
        try:
            if error is None:
                self.cuda_graph.capture_end()
                return
            self.cuda_graph.reset()
        finally:
            self.cuda_graph._leave()  # where it could not end, as on another stream than it began on
            self.stream_ctx.__exit__(kind, error, trace)
        if (refused := refusal(error)) is not None:
            raise refused from error
