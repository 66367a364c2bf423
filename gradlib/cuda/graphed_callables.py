"""``make_graphed_callables``: functions whose forward and backward are CUDA graphs, recorded as one node each."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gradlib.autograd.function import Function, once_differentiable
from gradlib.autograd.gradient import grad
from gradlib.autograd.graph import increment_version
from gradlib.core.grad_mode import is_grad_enabled
from gradlib.core.tensor import Tensor
from gradlib.cuda.devices import synchronize
from gradlib.cuda.graph_pools import Handle, graph_pool_handle
from gradlib.cuda.graphs import CUDAGraph, graph
from gradlib.cuda.streams import Stream, stream
from gradlib.func.tree import LEAF, Structure, flatten, unflatten
from gradlib.ops.create import zeros_like


@dataclass
class _Captured:
    """One callable, its graphs, and the tensors that these read and write."""

    call: Callable[..., Any]
    sample: tuple[Any, ...]
    inputs: tuple[Tensor, ...]  # the user's arguments, then the parameters
    given: int  # how many of them are the user's arguments
    forward: CUDAGraph = field(default_factory=CUDAGraph)
    backward: CUDAGraph = field(default_factory=CUDAGraph)
    results: tuple[Any, ...] = ()  # of the captured call: tensors, and constants such as None
    outputs: tuple[Tensor, ...] = ()  # the tensors among them
    structure: Structure = LEAF
    cotangents: tuple[Tensor | None, ...] = ()
    gradients: tuple[Tensor | None, ...] = ()
    later: tuple[_Captured, ...] = ()  # those that were captured after it, in the same memory
    held: object = None  # stands for the call whose values are in the memory for its backward

    @property
    def sought(self) -> tuple[Tensor, ...]:
        return tuple(value for value in self.inputs if value.requires_grad)

    def derive(self, outputs: Any, cotangents: Any, unused: bool) -> tuple[Tensor | None, ...]:
        """The gradients of the inputs that require one."""
        live = [(out, g) for out, g in zip(outputs, cotangents, strict=True) if isinstance(out, Tensor) and out.requires_grad]
        if not live or not self.sought:
            return (None,) * len(self.sought)
        return tuple(grad([out for out, _ in live], self.sought, [g for _, g in live], allow_unused=unused))

    def warm_up(self, times: int, unused: bool) -> None:
        """Run it eagerly, so that kernels are compiled and constants are on the device before it is captured."""
        for _ in range(times):
            outputs = flatten(self.call(*self.sample))[0]
            self.derive(outputs, [zeros_like(out) if isinstance(out, Tensor) else None for out in outputs], unused)

    def capture_forward(self, pool: Handle) -> None:
        with graph(self.forward, pool=pool):
            made = self.call(*self.sample)
        results, self.structure = flatten(made)
        self.results = tuple(results)
        self.outputs = tuple(out for out in results if isinstance(out, Tensor))

    def capture_backward(self, pool: Handle, unused: bool) -> None:
        self.cotangents = tuple(zeros_like(out) if out.requires_grad else None for out in self.outputs)
        self.gradients = (None,) * len(self.inputs)
        if self.sought and any(g is not None for g in self.cotangents):
            with graph(self.backward, pool=pool):
                found = self.derive(self.outputs, self.cotangents, unused)
            left = iter(found)
            self.gradients = tuple(next(left) if value.requires_grad else None for value in self.inputs)

    def holds(self, call: object) -> None:
        """From now on the memory has the values of this call, or with None those of no call; those of later functions are overwritten."""
        self.held = call
        for other in self.later:
            other.held = None

    def function(self) -> Callable[..., Any]:
        """The function for the user, which replays the graphs."""
        captured = self

        class Graphed(Function):
            is_traceable = True

            @staticmethod
            def forward(ctx: Any, *inputs: Tensor) -> Any:
                for static, value in zip(captured.inputs[: captured.given], inputs[: captured.given], strict=True):
                    _put(value, static)
                captured.forward.replay()
                for each in (captured, *captured.later):  # whose results may lie where this one computed
                    increment_version(each.outputs)
                ctx.call = object()
                captured.holds(ctx.call)
                found = tuple(out.detach() for out in captured.outputs)
                ctx.mark_non_differentiable(*(new for out, new in zip(captured.outputs, found, strict=True) if not out.requires_grad))
                return found

            @staticmethod
            @once_differentiable
            def backward(ctx: Any, *grads: Tensor) -> Any:
                if captured.held is not ctx.call:
                    raise RuntimeError(
                        "a graphed callable runs backward once for each call, before it is called again and, of several in one memory, in "
                        "the reverse order of the calls; what this backward needs has been overwritten: graph a function that makes all "
                        "the calls"
                    )
                for static, g in zip(captured.cotangents, grads, strict=True):
                    if static is not None:
                        _put(g, static)
                captured.backward.replay()
                captured.holds(None)
                return tuple(None if g is None else g.clone() for g in captured.gradients)  # the next replay overwrites the graph's own

        def replayed(*user_args: Any) -> Any:
            given = flatten(user_args)[0]
            if len(given) != captured.given:
                raise TypeError(f"a graphed callable takes what its sample_args held: {captured.given} tensors, got {len(given)}")
            for place, (value, sample) in enumerate(zip(given, captured.inputs, strict=False)):
                _refuse_another(place, value, sample)
            left = iter(Graphed.apply(*given, *captured.inputs[captured.given :]))
            return unflatten([next(left) if isinstance(each, Tensor) else each for each in captured.results], captured.structure)

        return replayed


def _put(value: Tensor, static: Tensor) -> None:
    """Copy a tensor to where a graph reads it, if it is not that."""
    if static.data_ptr() != value.data_ptr() or static.stride() != value.stride():
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
            gets gradients for those too.
        sample_args: a tuple of sample arguments: tensors, or nested containers of them, with the ``requires_grad`` of later calls; for
            several functions a tuple of such tuples. The graphs read their memory, so use these tensors for nothing else.
        num_warmup_iters: how often each function is run before it is captured.
        allow_unused_input: whether an input may have no gradient.
        pool: whose memory to share, as for ``CUDAGraph.capture_begin``.
    Returns: a function, or a tuple of them.
    Raises: AssertionError for samples that are no tensors; RuntimeError for what cannot be captured, which names the operation; TypeError
        in a call with tensors unlike the samples; RuntimeError in a backward whose values a later call has overwritten.
    Source: torch.cuda.make_graphed_callables.
    Example:
        >>> if gradlib.cuda.is_available():
        ...     x = gradlib.ones(3, device="cuda", requires_grad=True)
        ...     f = gradlib.cuda.make_graphed_callables(lambda x: (x.square().sum(),), (x,))
        ...     y = gradlib.tensor([1.0, 2.0, 3.0], device="cuda", requires_grad=True)
        ...     f(y)[0].backward()
        ...     assert y.grad.tolist() == [2, 4, 6]
    """
    several = isinstance(callables, tuple)
    calls = callables if several else (callables,)
    samples = sample_args if several else (sample_args,)
    made: list[_Captured] = []
    for call, sample in zip(calls, samples, strict=True):
        given = flatten(tuple(sample))[0]
        if not all(isinstance(value, Tensor) for value in given):
            raise AssertionError("In the beta API, sample_args for each callable must contain only Tensors. Other types are not allowed.")
        own = getattr(call, "parameters", None)
        parameters = tuple(own()) if callable(own) else ()
        made.append(_Captured(call, tuple(sample), (*given, *parameters), len(given)))
    for i, each in enumerate(made):
        each.later = tuple(made[i + 1 :])
    memory = graph_pool_handle() if pool is None else pool
    synchronize()
    with stream(Stream()):
        for each in made:
            each.warm_up(num_warmup_iters, allow_unused_input)
    synchronize()
    # They share memory, so they are captured in the order in which they will run: all forwards, then all backwards in reverse.
    for each in made:
        each.capture_forward(memory)
    for each in reversed(made):
        each.capture_backward(memory, allow_unused_input)
    functions = tuple(each.function() for each in made)
    return functions if several else functions[0]
