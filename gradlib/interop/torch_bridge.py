"""Functions of gradlib as functions of PyTorch, and the reverse: one library's graph is a node in the other's.

The two have the same names, so the bridge is written once, for an outer library that calls and an inner one whose graph is crossed.
Arguments and results share memory by DLPack. A node keeps the inner graph; where its backward is itself recorded, the inner backward is
too, and becomes a further node of the same kind. So derivatives of every order come about without computing the forward again.
"""

from __future__ import annotations

import contextlib
import functools
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from gradlib.autograd.function import Function
from gradlib.autograd.gradient import grad
from gradlib.autograd.graph import increment_version
from gradlib.backend.array import cupy, is_cupy, is_writeable, namespace
from gradlib.backend.loading import needed_by
from gradlib.core.forward import ForwardLevel
from gradlib.core.grad_mode import is_grad_enabled, set_grad_enabled
from gradlib.core.modes import thread_state, wants_walk
from gradlib.core.tensor import InferenceTensor, Tensor, wrap
from gradlib.func.tree import flatten, unflatten
from gradlib.ops.from_data import from_dlpack

__all__ = ["from_torch", "torch_function"]


@dataclass(frozen=True)
class Library:
    """The functions of a library that the bridge uses."""

    tensor: type
    function: type
    grad: Callable[..., Any]
    is_recording: Callable[[], bool]
    recording: Callable[[bool], Any]
    """A context in which operations are recorded, or are not."""
    received: Callable[[Any], Any]
    """A tensor of the other library as one of this, outside any graph, around the same memory."""
    shares: Callable[[Any, Any], bool]
    """Whether two tensors may have memory in common."""
    has_version: Callable[[Any], bool]
    written: Callable[[Any], None]
    """Counts a write into a tensor's memory."""
    on_stream_of: Callable[[Any], Any]
    """A context in which this library queues work on the other's current stream, for a tensor of the other on a CUDA device."""
    keeps_graph: Callable[[], bool]
    """Whether the backward that runs now leaves the graph for another one."""
    tangents: Callable[[Any], list[tuple[Any, Callable[[Any, Any], Any]]]]
    """The tangents that a tensor carries in forward mode, of all levels; each with what gives another tensor one of the same level."""


@dataclass(eq=False)
class Crossed:
    """A piece of the inner library's graph that is a node of the outer one's."""

    leaves: list[Any]
    """The outer node's arguments, as leaves of the inner graph."""
    outputs: list[Any]
    """Its results, as tensors of the inner graph."""
    watched: list[tuple[Any, int, Any]] = field(default_factory=list)
    """Pairs of tensors with one memory, outer and inner, and the outer one's version when the pair was made."""
    shared: bool = False
    """Whether another node's piece leads through this one, or the reverse: then neither frees what the other may still need."""

    def watch(self, outer: Library, theirs: Any, ours: Any) -> None:
        """Let writes into the memory by the outer library be known to the inner one when backward needs it."""
        if outer.has_version(theirs):
            shares = theirs.detach()  # its version counter too; and holds no graph
            self.watched.append((shares, shares._version, ours))

    def tell(self, inner: Library) -> None:
        """Count in the inner library what the outer one wrote since: a saved tensor that was written is refused there."""
        for place, (theirs, version, ours) in enumerate(self.watched):
            if theirs._version != version:
                inner.written(ours)
                self.watched[place] = theirs, theirs._version, ours


def _node(outer: Library, inner: Library) -> Any:
    """The outer library's Function whose calls are pieces of the inner library's graph."""

    class Crossing(outer.function):  # type: ignore[misc, name-defined]
        """The results of a piece of another library's graph; its derivatives are those of that piece."""

        @staticmethod
        def forward(crossed: Crossed, *inputs: Any) -> Any:
            return tuple([outer.received(each) for each in crossed.outputs])

        @staticmethod
        def setup_context(ctx: Any, inputs: tuple[Any, ...], output: Any) -> None:
            crossed, *given = inputs
            for theirs, ours in zip((*given, *output), (*crossed.leaves, *crossed.outputs), strict=True):
                crossed.watch(outer, theirs, ours)
            ctx.mark_non_differentiable(*[r for r, o in zip(output, crossed.outputs, strict=True) if not o.requires_grad])
            ctx.set_materialize_grads(False)
            ctx.save_for_backward(*given)
            ctx.crossed = crossed
            if outer is OURS:
                wants_walk(crossed)

        @staticmethod
        def backward(ctx: Any, *gradients: Any) -> Any:
            crossed: Crossed = ctx.crossed
            crossed.tell(inner)
            used = [i for i, g in enumerate(gradients) if g is not None and crossed.outputs[i].requires_grad]
            asked = [i for i, need in enumerate(ctx.needs_input_grad[1:]) if need and crossed.leaves[i].requires_grad]
            results: list[Any] = [None] * len(crossed.leaves)
            if not used or not asked:
                return None, *results
            deeper = outer.is_recording()
            crossed.shared = crossed.shared or deeper
            given = [gradients[i] for i in used]
            cotangents = [inner.received(g.detach()) for g in given]
            if deeper:
                cotangents = [each.requires_grad_() for each in cotangents]
            with inner.on_stream_of(given[0]):
                found = inner.grad(
                    [crossed.outputs[i] for i in used], [crossed.leaves[i] for i in asked], cotangents, create_graph=deeper,
                    retain_graph=crossed.shared or outer.keeps_graph(), allow_unused=True,
                )  # fmt: skip
            there = [place for place, each in enumerate(found) if each is not None]
            if deeper:
                further = Crossed([*crossed.leaves, *cotangents], [found[place] for place in there], shared=True)
                made = Crossing.apply(further, *ctx.saved_tensors, *given)
            else:
                made = [outer.received(found[place]) for place in there]
            for place, each in zip(there, made, strict=True):
                results[asked[place]] = each
            return None, *results

    return Crossing


def _tangents(outer: Library, theirs: list[Any], recording: bool) -> tuple[list[Any], Callable[[Any, Any], Any] | None]:
    """The tangent of each tensor, or None, and what gives a result one; None where no tensor carries any.

    Raises: RuntimeError where derivatives of another kind, or of a second level, are wanted beside it: the tangents that leave have none.
    """
    carried = [outer.tangents(each) for each in theirs]
    found = [each[0] for each in carried if each]
    if not found:
        return [], None
    recorded = recording or (outer.is_recording() and any(tangent.requires_grad for tangent, _ in found))
    nested = any(len(each) > 1 for each in carried) or len({put for _, put in found}) > 1 or any(outer.tangents(t) for t, _ in found)
    if recorded or nested:
        raise RuntimeError(
            "Forward mode passes from one library to the other once, and not together with a graph: an argument carries tangents of "
            "several levels, or one requires a gradient. Take second derivatives by backward with create_graph=True; or detach what "
            "requires a gradient."
        )
    return [each[0][0] if each else None for each in carried], found[0][1]


def _pushed(inner: Library, leaves: list[Any], tangents: list[Any], outputs: list[Any]) -> list[Any]:
    """The tangents of the outputs, or None: their backward, which is linear in its cotangents, transposed."""
    live = [i for i, each in enumerate(outputs) if each.requires_grad]
    made: list[Any] = [None] * len(outputs)
    if not live:
        return made
    with inner.recording(True):
        cotangents = [(outputs[i].detach() * 0).requires_grad_() for i in live]
        moved = [i for i, each in enumerate(tangents) if each is not None]
        back = inner.grad([outputs[i] for i in live], [leaves[i] for i in moved], cotangents, create_graph=True, allow_unused=True)
        pairs = [(b, tangents[i]) for b, i in zip(back, moved, strict=True) if b is not None and b.requires_grad]
        found = inner.grad([b for b, _ in pairs], cotangents, [t for _, t in pairs], allow_unused=True) if pairs else [None] * len(live)
    for i, each, like in zip(live, found, cotangents, strict=True):
        made[i] = like.detach() if each is None else each
    return made


def _call(outer: Library, inner: Library, node: Any, function: Callable[..., Any], args: Any, kwargs: Any, beside: Any = ((), ())) -> Any:
    """Call an inner library's function with the outer library's tensors.

    Args:
        node: the outer library's Function for what the inner one records.
        beside: further inputs that the function has of itself: the outer library's tensors, and the inner one's of the same memory.
    """
    values, nest = flatten((args, kwargs))
    places = [i for i, value in enumerate(values) if isinstance(value, outer.tensor)]
    theirs = [*(values[i] for i in places), *beside[0]]
    recording = outer.is_recording() and any(each.requires_grad for each in theirs)
    tangents, put = _tangents(outer, theirs, recording)
    ours = [inner.received(values[i].detach()) for i in places]
    before = [each._version if inner.has_version(each) else 0 for each in ours]
    wanted = [each.requires_grad for each in theirs] if recording else [each is not None for each in tangents]
    for place, each, want in zip(places, ours, wanted or [False] * len(ours), strict=False):  # those beside want theirs already
        values[place] = each.requires_grad_() if want else each
    args, kwargs = unflatten(values, nest)
    with inner.recording(recording or put is not None), inner.on_stream_of(theirs[0]) if theirs else contextlib.nullcontext():
        made, nest = flatten(function(*args, **kwargs))
    for their, our, version in zip(theirs, ours, before, strict=False):
        if inner.has_version(our) and our._version != version and outer.has_version(their):
            outer.written(their)
    found = [i for i, each in enumerate(made) if isinstance(each, inner.tensor)]
    crossed = Crossed([*ours, *beside[1]], [_apart(inner, made[i], ours) for i in found])
    for i, each in zip(found, _results(outer, inner, node, crossed, theirs, recording, tangents, put), strict=True):
        made[i] = each
    return unflatten(made, nest)


def _apart(inner: Library, result: Any, inputs: list[Any]) -> Any:
    """A result, or a copy of it: as a view of an input it would be one that the outer library knows nothing of."""
    return result.clone() if any(inner.shares(result, each) for each in inputs) else result


def _results(
    outer: Library, inner: Library, node: Any, crossed: Crossed, theirs: list[Any], recording: bool, tangents: list[Any],
    put: Callable[[Any, Any], Any] | None,
) -> list[Any]:  # fmt: skip
    """The outer library's tensors for the results of a call: recorded, or with the tangents that ``put`` gives them."""
    outputs = crossed.outputs
    if recording and any(each.requires_grad for each in outputs):
        return list(node.apply(crossed, *theirs))
    results = [outer.received(each.detach()) for each in outputs]
    if put is None:
        return results
    moved = [None if each is None else inner.received(each.detach()) for each in tangents]
    with inner.on_stream_of(theirs[0]):
        pushed = _pushed(inner, crossed.leaves, moved, outputs)
    return [each if t is None else put(each, outer.received(t.detach())) for each, t in zip(results, pushed, strict=True)]


# ---- gradlib ------------------------------------------------------------------------------------------------------------------------


def _from_torch(tensor: Any) -> Tensor:
    import torch

    transformed = getattr(torch._C._functorch, "is_functorch_wrapped_tensor", None)  # a private name; without it DLPack refuses too
    if transformed is not None and transformed(tensor):
        raise RuntimeError(
            "A function of gradlib's takes torch tensors that have memory, not those of torch.func's grad, jvp and vmap. Take "
            "torch.autograd.grad or torch.autograd.forward_ad around it, or gradlib.func within it."
        )
    return from_dlpack(tensor.detach().resolve_conj().resolve_neg())


def _shares(a: Tensor, b: Tensor) -> bool:
    return a.device == b.device and bool(namespace(a._array).may_share_memory(a._array, b._array))


def _cupy_on_torchs_stream(tensor: Any) -> Any:
    if not tensor.is_cuda:
        return contextlib.nullcontext()
    import torch

    stack = contextlib.ExitStack()
    stack.enter_context(cupy().cuda.Device(tensor.device.index))
    stack.enter_context(cupy().cuda.Stream.from_external(torch.cuda.current_stream(tensor.device)))
    return stack


def _our_tangents(tensor: Tensor) -> list[tuple[Any, Callable[[Any, Any], Any]]]:
    levels = [each for each in thread_state.interpreters if isinstance(each, ForwardLevel)]
    return [(tangent, level.dual) for level in levels if (tangent := level.tangent(tensor)) is not None]


def _keeps_graph() -> bool:
    walk = thread_state.walk  # known, since a piece that is crossed wants it, but in a walk that began before the first of them
    return walk is None or walk.keep


OURS = Library(
    tensor=Tensor, function=Function, grad=grad, is_recording=is_grad_enabled, recording=set_grad_enabled, received=_from_torch,
    shares=_shares, has_version=lambda tensor: not isinstance(tensor, InferenceTensor), written=increment_version,
    on_stream_of=_cupy_on_torchs_stream, keeps_graph=_keeps_graph, tangents=_our_tangents,
)  # fmt: skip


# ---- torch --------------------------------------------------------------------------------------------------------------------------


def _to_torch(tensor: Tensor) -> Any:
    import torch

    array = tensor._array
    if not is_cupy(array) and not is_writeable(array):  # torch has no read-only memory
        tensor = wrap(array.copy())
    return torch.from_dlpack(tensor.detach())


def _torch_on_cupys_stream(tensor: Tensor) -> Any:
    if not tensor.is_cuda:
        return contextlib.nullcontext()
    import torch

    index = tensor.get_device()
    return torch.cuda.stream(torch.cuda.ExternalStream(cupy().cuda.get_current_stream(index).ptr, device=index))


def _torch_shares(a: Any, b: Any) -> bool:
    return a.numel() > 0 and a.untyped_storage().data_ptr() == b.untyped_storage().data_ptr()


def _torch_keeps_graph() -> bool:
    """torch tells it in a private name only; without that name the graph is kept."""
    import torch

    tells = getattr(torch._C._autograd, "_get_current_graph_task_keep_graph", None)
    return tells is None or bool(tells())


def _torch_tangents(tensor: Any) -> list[tuple[Any, Callable[[Any, Any], Any]]]:
    from torch.autograd import forward_ad

    tangent = forward_ad.unpack_dual(tensor).tangent
    return [] if tangent is None else [(tangent, forward_ad.make_dual)]


@functools.cache
def _theirs() -> Library:
    with needed_by("gradlib.interop.torch_function", "torch"):
        import torch

    return Library(
        tensor=torch.Tensor, function=torch.autograd.Function, grad=torch.autograd.grad, is_recording=torch.is_grad_enabled,
        recording=torch.set_grad_enabled, received=_to_torch, shares=_torch_shares, has_version=lambda tensor: not tensor.is_inference(),
        written=torch.autograd.graph.increment_version, on_stream_of=_torch_on_cupys_stream, keeps_graph=_torch_keeps_graph,
        tangents=_torch_tangents,
    )  # fmt: skip


@functools.cache
def _in_torch() -> Any:
    return _node(_theirs(), OURS)


@functools.cache
def _in_gradlib() -> Any:
    return _node(OURS, _theirs())


def torch_function(function: Callable[..., Any]) -> Callable[..., Any]:
    """A function of PyTorch tensors from one of gradlib tensors, such as those of ``gradlib.trajectory``, for use in a torch model.

    Tensors cross in both directions without a copy, on the CPU and on CUDA devices, there on torch's current stream. Derivatives of every
    order pass through, by ``backward``, ``torch.autograd.grad`` and ``create_graph=True``; by ``torch.autograd.forward_ad`` the first.

    Args:
        function: takes gradlib tensors, also within tuples, lists and dicts, and whatever else; returns them likewise. Gradients go to its
            arguments, not to tensors that it closes over.
    Returns: the same function on torch tensors. A result that is a view of an argument is copied, as is one of read-only memory.
    Raises: TypeError for anything but a function; ModuleNotFoundError without PyTorch, when it is called; what ``function`` raises;
        RuntimeError for tensors of ``torch.func``'s transforms, for tangents beside a graph or of two levels, and in backward when a
        tensor that the function saved was written in place since, by either library.
    Source: torch.autograd.Function.
    Example:
        >>> import torch
        >>> half_square = gradlib.interop.torch_function(lambda x: (x * x).sum() / 2)
        >>> x = torch.tensor([1.0, 2.0], requires_grad=True)
        >>> half_square(x).backward()
        >>> x.grad
        tensor([1., 2.])
    """

    if not callable(function):
        raise TypeError(f"torch_function takes a function of gradlib tensors, got {type(function).__name__}")

    @functools.wraps(function)
    def call(*args: Any, **kwargs: Any) -> Any:
        return _call(_theirs(), OURS, _in_torch(), function, args, kwargs)

    return call


class from_torch:
    """A differentiable operation on gradlib tensors from a function of PyTorch tensors, or from a ``torch.nn.Module``.

    Tensors cross in both directions without a copy; on CUDA devices torch works on CuPy's current stream. Derivatives of every order pass
    through, in forward mode (``gradlib.func.jvp``) those of the first, without a graph beside it. A module's parameters that require a
    gradient become leaves of gradlib's around the same memory, see ``parameters``; their gradients are in those leaves' ``.grad`` after
    ``backward``, and optimisers of ``gradlib.optim`` train the module in place.

    Args:
        function: takes torch tensors, also within tuples, lists and dicts, and whatever else; returns them likewise. Tensors that a plain
            function closes over receive no gradient.
    Raises: ModuleNotFoundError without PyTorch; TypeError for anything but a function; what ``function`` raises, when it is called;
        RuntimeError in backward when a tensor that it saved was written in place since, by either library.
    Source: torch.autograd.Function.
    Example:
        >>> import torch
        >>> softsign = gradlib.interop.from_torch(torch.nn.functional.softsign)
        >>> x = gradlib.tensor([1.0], requires_grad=True)
        >>> softsign(x).backward()
        >>> x.grad
        tensor([0.2500])
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        with needed_by("gradlib.interop.from_torch", "torch"):
            import torch
        if not callable(function):
            raise TypeError(f"from_torch takes a function of torch tensors or a module, got {type(function).__name__}")
        self._function = function
        self._known: dict[str, tuple[Any, int, Tensor]] = {}  # the module's parameter, the address of its memory, and the leaf around it
        self._module = function if isinstance(function, torch.nn.Module) else None

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """Call the function and record it."""
        leaves = self.parameters()
        theirs = [parameter for parameter, _, _ in self._known.values()]
        return _call(OURS, _theirs(), _in_gradlib(), self._function, args, kwargs, (leaves, theirs))

    def parameters(self) -> list[Tensor]:
        """The module's parameters that require a gradient, in torch's order, as leaves that share their memory; none for a function.

        The same leaves each time, while the module's parameters are the same. Writes in gradlib are told to torch when backward needs them.
        """
        if self._module is None:
            return []
        before, self._known = self._known, {}
        for name, each in self._module.named_parameters():
            if each.requires_grad:
                known = before.get(name)
                if known is None or known[0] is not each or known[1] != each.data_ptr():  # replaced, or moved by .to()
                    known = each, each.data_ptr(), _from_torch(each).requires_grad_()
                self._known[name] = known
        return [leaf for _, _, leaf in self._known.values()]
