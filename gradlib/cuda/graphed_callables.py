"""``make_graphed_callables``: functions whose forward and backward are CUDA graphs, recorded as one node each."""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from gradlib.autograd.function import Function, differentiated_once
from gradlib.autograd.gradient import grad
from gradlib.autograd.graph import increment_version
from gradlib.backend.array import cupy
from gradlib.backend.capture import capturing
from gradlib.core.grad_mode import is_grad_enabled, no_grad
from gradlib.core.modes import next_seq, plain_saving, saving, thread_state
from gradlib.core.tensor import AccumulateGrad, Tensor
from gradlib.cuda.devices import device, index_of, synchronize
from gradlib.cuda.graph_errors import CaptureRefused
from gradlib.cuda.graph_pools import Handle, graph_pool_handle
from gradlib.cuda.graphs import CUDAGraph, graph, refuse_beside
from gradlib.cuda.streams import Stream, stream
from gradlib.func.tree import LEAF, Structure, flatten, unflatten
from gradlib.ops.create import zeros_like


def _may_be_empty() -> CUDAGraph:
    made = CUDAGraph()
    made.warns_if_empty = False  # as a function that returns its argument leaves it
    return made


class _Memory:
    """What graphs that were captured together share: one call at a time uses it, and streams use it one after the other."""

    def __init__(self) -> None:
        self.lock = threading.RLock()
        self._stream: Any = None  # CuPy's, of the last use

    def order(self, index: int) -> None:
        """Let the current stream of a device wait for the last one that used the memory, if that is another."""
        if capturing.capture is not None:  # which orders its own, and waits for nothing outside of it
            return
        here, last = cupy().cuda.get_current_stream(index), self._stream
        if last is not None and last.ptr != here.ptr:
            Stream.around(here, index).wait_stream(Stream.around(last, index))
        self._stream = here


@dataclass
class Captured:
    """One callable, its graphs, and the tensors that these read and write.

    ``taking`` makes it, ``capture`` its graphs; ``function`` is what a user calls.
    """

    call: Callable[..., Any]
    sample: tuple[Any, ...]
    inputs: tuple[Tensor, ...]  # the user's arguments, then the parameters, then other leaves that the callable turns out to use
    given: int  # how many of them are the user's arguments
    taken: Structure  # that of the sample
    index: int  # of the device on which all of it runs
    recorded: bool = field(default_factory=is_grad_enabled)  # whether gradients were wanted when it was captured
    forward: CUDAGraph = field(default_factory=_may_be_empty)
    backward: CUDAGraph = field(default_factory=_may_be_empty)
    results: tuple[Any, ...] = ()  # of the captured call: tensors, and constants such as None
    outputs: tuple[Tensor, ...] = ()  # the tensors among them
    written: tuple[int, ...] = ()  # which of the user's arguments it writes in place
    kept: tuple[int, ...] = ()  # which of the outputs the backward reads
    structure: Structure = LEAF
    cotangents: tuple[Tensor | None, ...] = ()
    gradients: tuple[Tensor | None, ...] = ()
    memory: _Memory = field(default_factory=_Memory)
    later: tuple[Captured, ...] = ()  # those that were captured after it, in the same memory
    versions: tuple[int, ...] = ()  # of these when the forward had run
    held: object = None  # stands for the call whose values are in the memory for its backward

    @property
    def sought(self) -> tuple[Tensor, ...]:
        return tuple(value for value in self.inputs if value.requires_grad)

    def run(self) -> tuple[list[Any], Structure]:
        """Call it with the sample. Returns: the leaves of the result and its structure."""
        since = next_seq()
        results, structure = flatten(self.call(*self.sample))
        self.inputs += _leaves_used([out for out in results if isinstance(out, Tensor)], self.inputs, since)
        return results, structure

    def derive(self, outputs: Any, cotangents: Any, unused: bool) -> tuple[Tensor | None, ...]:
        """The gradients of the inputs that require one."""
        live = [(out, g) for out, g in zip(outputs, cotangents, strict=True) if isinstance(out, Tensor) and out.requires_grad]
        if not live or not self.sought:
            return (None,) * len(self.sought)
        with _without_hooks(self.sought):
            return tuple(grad([out for out, _ in live], self.sought, [g for _, g in live], allow_unused=unused))

    def warm_up(self, times: int, unused: bool) -> None:
        """Run it eagerly, so that kernels are compiled and constants are on the device before it is captured."""
        with device(self.index), stream(Stream()):
            for at in range(times):
                outputs = self.run()[0] if at < times - 1 or thread_state.saving_refused is not None else self._run_noting()
                self.derive(outputs, [zeros_like(out) if isinstance(out, Tensor) else None for out in outputs], unused)

    def _run_noting(self) -> list[Any]:
        """Call it and note which outputs lie in memory that is saved for backward. Returns: the leaves of the result."""
        saved = set()

        def note(value: Tensor) -> Tensor:
            if value.is_cuda:
                saved.add(value._array.data.mem.ptr)
            return value.detach()

        with saving(note, lambda value: value):
            results = self.run()[0]
        outputs = [out for out in results if isinstance(out, Tensor)]
        self.kept = tuple(i for i, out in enumerate(outputs) if out.is_cuda and out._array.data.mem.ptr in saved)
        return results

    def capture_forward(self, pool: Handle) -> None:
        before = [_version_of(value) for value in self.inputs[: self.given]]
        with device(self.index), graph(self.forward, pool=pool):
            results, self.structure = self.run()
        self.written = tuple(i for i, version in enumerate(before) if _version_of(self.inputs[i]) != version)
        self.results = tuple(results)
        self.outputs = tuple(out for out in results if isinstance(out, Tensor))

    def capture_backward(self, pool: Handle, unused: bool) -> None:
        self.cotangents = tuple(zeros_like(out) if out.requires_grad else None for out in self.outputs)
        self.gradients = (None,) * len(self.inputs)
        if self.sought and any(g is not None for g in self.cotangents):
            with device(self.index), graph(self.backward, pool=pool):
                found = self.derive(self.outputs, self.cotangents, unused)
            left = iter(found)
            self.gradients = tuple(next(left) if value.requires_grad else None for value in self.inputs)

    def holds(self, call: object) -> None:
        """From now on the memory has the values of this call, or with None those of no call; those of later functions are overwritten."""
        self.held = call
        for other in self.later:
            other.held = None

    def replay(self, given: tuple[Tensor, ...]) -> tuple[Tensor, ...]:
        """Run the forward graph with these arguments. Returns: the outputs, where the next call overwrites them."""
        self.memory.order(self.index)
        for static, value in zip(self.inputs, given, strict=False):
            _put(value, static)
        self.forward.replay()
        for each in (self, *self.later):  # whose results may lie where this one computed
            increment_version(each.outputs)
        increment_version(self.inputs[i] for i in self.written)
        self.versions = self._versions()
        return self.outputs

    def _versions(self) -> tuple[int, ...]:
        return tuple(_version_of(self.outputs[i]) for i in self.kept)

    def replay_backward(self, grads: tuple[Tensor, ...]) -> tuple[Tensor | None, ...]:
        """Run the backward graph with these gradients of the outputs. Returns: those of the inputs, as copies."""
        self.memory.order(self.index)
        for static, g in zip(self.cotangents, grads, strict=True):
            if static is not None:
                _put(g, static)
        self.backward.replay()
        self.holds(None)
        return tuple(None if g is None else g.clone() for g in self.gradients)  # the next replay overwrites the graph's own

    def function(self) -> Callable[..., Any]:
        """The function for the user, which replays the graphs."""

        def replayed(*user_args: Any) -> Any:
            if thread_state.transforming:
                raise RuntimeError("a graphed callable runs under no transform of gradlib.func: transform the function, and graph that")
            given, structure = flatten(user_args)
            self.check(given, structure)
            left = iter(Graphed.apply(self, *given, *self.inputs[self.given :]))
            return unflatten([next(left) if isinstance(each, Tensor) else each for each in self.results], self.structure)

        return replayed

    def check(self, given: list[Any], structure: Structure) -> None:
        """Raises: TypeError for arguments that the graphs would not compute with as they are, or whose gradient they do not give."""
        if len(given) != self.given:
            raise TypeError(f"a graphed callable takes what its sample_args held: {self.given} tensors, got {len(given)}")
        if structure != self.taken:
            raise TypeError(f"a graphed callable takes its arguments in the structure of its sample_args, {self.taken}, got {structure}")
        for place, (value, sample) in enumerate(zip(given, self.inputs, strict=False)):
            _refuse_another(place, value, sample)
            if place in self.written and not _is_at(value, sample):
                raise TypeError(
                    f"a graphed callable that writes to an argument in place is given that of its samples: number {place} is another one, "
                    "whose values would stay"
                )
            if value.requires_grad and not self.recorded and is_grad_enabled():
                raise TypeError("a graphed callable that was captured where gradients are off has none; capture it where they are on")


class Graphed(Function):
    """One call of a graphed callable. All have this class: one for each would hold its graphs until garbage is collected."""

    is_traceable = True

    @staticmethod
    def forward(ctx: Any, captured: Captured, *inputs: Tensor) -> Any:
        ctx.captured, ctx.call = captured, object()
        with captured.memory.lock:
            outputs = captured.replay(inputs[: captured.given])
            captured.holds(ctx.call)
        found = tuple(out.detach() for out in outputs)
        ctx.mark_non_differentiable(*(new for out, new in zip(outputs, found, strict=True) if not out.requires_grad))
        return found

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        with ctx.captured.memory.lock:
            found = (None, *Graphed._gradients(ctx.captured, ctx.call, grads))
        return differentiated_once(ctx, grads, found, _ONCE) if is_grad_enabled() else found

    @staticmethod
    def _gradients(captured: Captured, call: object, grads: tuple[Tensor, ...]) -> tuple[Tensor | None, ...]:
        if captured.held is not call:
            raise RuntimeError(
                "a graphed callable runs backward once for each call, before it is called again and, of several in one memory, in "
                "the reverse order of the calls; what this backward needs has been overwritten: graph a function that makes all "
                "the calls"
            )
        if captured.versions != captured._versions():
            raise RuntimeError(
                "one of the variables needed for gradient computation has been modified by an inplace operation: a result of a graphed "
                "callable, which its backward reads; write to a clone() of it"
            )
        with no_grad():
            return captured.replay_backward(grads)

    @staticmethod
    def jvp(ctx: Any, *tangents: Any) -> Any:
        raise NotImplementedError("a graphed callable has no derivatives in forward mode: call the function that was graphed")


_ONCE = (
    "trying to differentiate twice a graphed callable, whose backward is a graph without derivatives: call the function that was graphed, "
    "or graph one that returns the first derivative"
)


def _version_of(value: Tensor) -> int:
    """How often a tensor was written; of those made in inference mode nobody counts."""
    return -1 if value.is_inference() else value._version


def _leaves_used(outputs: list[Tensor], known: tuple[Tensor, ...], since: int) -> tuple[Tensor, ...]:
    """The leaves, besides those known, on which outputs that were made since a sequence number depend.

    Raises: CaptureRefused where a gradient would go on through what was recorded before.
    """
    reached = {value._node for value in known}
    left = [out._node for out in outputs if out._node is not None]
    found = []
    while left:
        node = left.pop()
        if node in reached:
            continue
        reached.add(node)
        if node.seq > since:
            left.extend(edge for edge in node.edges if edge is not None)
        elif type(node) is AccumulateGrad:
            found.append(node.variable)
        else:
            raise CaptureRefused(
                f"the function cannot be captured in a CUDA graph with its gradients: it uses the result of {node.name()}, which was "
                "recorded outside of it; pass that as an argument, compute it within the function or detach it"
            )
    return tuple(found)


@contextlib.contextmanager
def _without_hooks(inputs: tuple[Tensor, ...]) -> Iterator[None]:
    """While entered, no hooks of the leaves among these run: each does when a replay's gradient comes to it."""
    leaves = [value._node for value in inputs if type(value._node) is AccumulateGrad]
    held = [leaf._meta for leaf in leaves]
    for leaf in leaves:
        leaf._meta = None
    try:
        yield
    finally:
        for leaf, meta in zip(leaves, held, strict=True):
            leaf._meta = meta


def _is_at(value: Tensor, static: Tensor) -> bool:
    """Whether a tensor lies where a graph reads it."""
    return static.data_ptr() == value.data_ptr() and static.stride() == value.stride()


def _put(value: Tensor, static: Tensor) -> None:
    """Copy a tensor to where a graph reads it, if it is not that."""
    if not _is_at(value, static):
        static.copy_(value)


def _refuse_another(place: int, value: Any, sample: Tensor) -> None:
    """Raises: TypeError for an argument that the graph would not compute with as it is, or whose gradient it does not give."""
    if not isinstance(value, Tensor):
        raise TypeError(f"a graphed callable takes tensors, got {type(value).__name__} as number {place} of them")
    if value.shape != sample.shape or value.dtype != sample.dtype or value.device != sample.device:
        wanted, got = (f"{x.dtype} of shape {tuple(x.shape)} on {x.device}" for x in (sample, value))
        raise TypeError(f"a graphed callable takes tensors as its samples were: number {place} was {wanted}, got {got}")
    if value.requires_grad and not sample.requires_grad and is_grad_enabled():
        raise TypeError(
            f"a graphed callable has the gradients of samples that require grad: number {place} did not, got one that does; capture it "
            "with a sample that does, or detach the argument"
        )


def make_graphed_callables(
    callables: Any, sample_args: Any, num_warmup_iters: int = 3, allow_unused_input: bool = False, pool: Handle | None = None
) -> Any:
    """Capture functions so that their forward, and their backward, each run as one CUDA graph.

    The result is called as the function is, with tensors of the shapes, dtypes and devices of the samples, and is recorded as one node.
    Its results lie in the graph's memory: the next call overwrites them, so clone what is to last. Backward comes before the next call,
    once. Second derivatives are refused.

    Args:
        callables: a function, or a tuple of functions in the order in which they will be called. An object with a method ``parameters``
            gets gradients for those too, as do leaves that it uses beside its arguments.
        sample_args: a tuple of sample arguments: tensors, or nested containers of them, with the ``requires_grad`` of later calls; for
            several functions a tuple of such tuples. All lie on one GPU. The graphs read their memory, so use these tensors for
            nothing else, but as arguments that the function writes in place.
        num_warmup_iters: how often each function is run before it is captured.
        allow_unused_input: whether an input may have no gradient.
        pool: whose memory to share, as for ``CUDAGraph.capture_begin``.
    Returns: a function, or a tuple of them.
    Raises: AssertionError for samples that are no tensors, ValueError for two in one memory; RuntimeError for what cannot be captured,
        which names the operation; TypeError in a call with tensors unlike the samples; RuntimeError in a backward whose values a later
        call has overwritten.
    Source: torch.cuda.make_graphed_callables.
    Example:
        >>> if gradlib.cuda.is_available():
        ...     x = gradlib.ones(3, device="cuda", requires_grad=True)
        ...     f = gradlib.cuda.make_graphed_callables(lambda x: (x.square().sum(),), (x,))
        ...     y = gradlib.tensor([1.0, 2.0, 3.0], device="cuda", requires_grad=True)
        ...     f(y)[0].backward()
        ...     assert y.grad.tolist() == [2, 4, 6]
    """
    if isinstance(sample_args, Tensor):
        raise TypeError("make_graphed_callables: sample_args is a tuple of the arguments, got a Tensor; of a single one it is (x,)")
    several = isinstance(callables, tuple)
    calls, samples = (callables, sample_args) if several else ((callables,), (sample_args,))
    made = [taking(call, tuple(sample)) for call, sample in zip(calls, samples, strict=True)]
    capture(made, num_warmup_iters, allow_unused_input, graph_pool_handle() if pool is None else pool)
    functions = tuple(each.function() for each in made)
    return functions if several else functions[0]


def capture(made: list[Captured], warmups: int, unused: bool, memory: Handle) -> None:
    """Capture callables, which will run in this order, in one memory."""
    shared = _Memory()
    for i, each in enumerate(made):
        each.later, each.memory = tuple(made[i + 1 :]), shared
    with plain_saving():  # the hooks of who calls it would be captured too; the graphs keep what they save
        refuse_beside()
        places = {each.index for each in made}
        for index in places:
            synchronize(index)
        try:
            for each in made:
                each.warm_up(warmups, unused)
        finally:
            for index in places:
                synchronize(index)  # before others get memory that was in use on the streams of the warm-up
        # They share memory, so they are captured in the order in which they will run: all forwards, then all backwards in reverse.
        for each in made:
            each.capture_forward(memory)
        for each in reversed(made):
            each.capture_backward(memory, unused)


def taking(call: Callable[..., Any], sample: tuple[Any, ...]) -> Captured:
    """A callable that is to be captured with this sample of its arguments."""
    here = index_of(None)  # or says what is missing
    given, structure = flatten(sample)
    if not all(isinstance(value, Tensor) for value in given):
        raise AssertionError("In the beta API, sample_args for each callable must contain only Tensors. Other types are not allowed.")
    places = {str(value.device) for value in given}
    if len(places) > 1 or "cpu" in places:
        raise CaptureRefused(f"the tensors that a graphed callable takes lie on one GPU, got some on {' and '.join(sorted(places))}")
    if len({value.data_ptr() for value in given if value.numel()}) < len([value for value in given if value.numel()]):
        raise ValueError("make_graphed_callables: two of sample_args lie in the same memory, where each call writes its own arguments")
    own = getattr(call, "parameters", None)
    parameters = tuple(own()) if callable(own) else ()
    return Captured(call, sample, (*given, *parameters), len(given), structure, index_of(given[0].device) if given else here)
