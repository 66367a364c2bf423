"""The recorded graph as users see it: nodes, edges, and hooks for saved tensors. Source: torch.autograd.graph."""

from __future__ import annotations

import abc
import contextlib
import functools
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from gradlib.autograd.function_node import BackwardCFunction
from gradlib.backend.array import move
from gradlib.backend.copying import copy
from gradlib.backend.pinned import from_pinned, pinned_copy
from gradlib.core import node as core
from gradlib.core.edge import GradientEdge, get_gradient_edge
from gradlib.core.modes import before_writes, saving, saving_refused, thread_state, wants_walk
from gradlib.core.node import RemovableHandle, Version
from gradlib.core.saved import SavedTensor, check_hooks
from gradlib.core.tensor import InferenceTensor, Tensor, wrap

__all__ = [
    "GradientEdge", "Node", "SavedTensor", "allow_mutation_on_saved_tensors", "disable_saved_tensors_hooks", "get_gradient_edge",
    "increment_version", "register_multi_grad_hook", "save_on_cpu", "saved_tensors_hooks",
]  # fmt: skip


class Node(abc.ABC):
    """The type of ``tensor.grad_fn``: the record of one call of an operation or custom Function. Use it with ``isinstance``.

    ``_saved_NAME`` is the value that was saved for the derivative under that name; ``_raw_saved_NAME`` is the same as a ``SavedTensor``, on
    which hooks can be registered.

    Source: torch.autograd.graph.Node.
    Example:
        >>> y = gradlib.tensor(2.0, requires_grad=True).exp()
        >>> isinstance(y.grad_fn, gradlib.autograd.graph.Node), y.grad_fn.name()
        (True, 'ExpBackward0')
        >>> y.grad_fn._saved_result
        tensor(7.3891, grad_fn=<ExpBackward0>)
    """

    @abc.abstractmethod
    def name(self) -> str:
        """The node's name, such as "MulBackward0"."""

    @property
    @abc.abstractmethod
    def next_functions(self) -> tuple[tuple[Node | None, int], ...]:
        """The nodes that made the inputs, each with the number of its output that was used."""

    @property
    @abc.abstractmethod
    def metadata(self) -> dict[Any, Any]:
        """A dictionary in which users can store anything about this node."""

    @abc.abstractmethod
    def register_hook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call ``fn(grad_inputs, grad_outputs)`` after this node has run; a returned tuple replaces grad_inputs."""

    @abc.abstractmethod
    def register_prehook(self, fn: Callable[..., Any]) -> RemovableHandle:
        """Call ``fn(grad_outputs)`` before this node runs; a returned tuple replaces grad_outputs."""

    @abc.abstractmethod
    def _sequence_nr(self) -> int:
        """The sequence number: nodes made later have larger ones. Profiles show it."""


Node.register(core.Node)
Node.register(BackwardCFunction)


def increment_version(tensor: Tensor | Iterable[Tensor]) -> None:
    """Tell gradlib that tensors were written in place by other code, such as your own kernel.

    Args:
        tensor: a tensor, or several. Those made in inference mode count no writes and are left alone.
    Raises: RuntimeError for anything else.
    Source: torch.autograd.graph.increment_version.
    Example:
        >>> x = gradlib.ones(2)
        >>> gradlib.autograd.graph.increment_version(x)
        >>> x._version
        1
    """
    if not isinstance(tensor, Iterable):
        raise RuntimeError(f"increment_version expect a Iterable[Tensor] as input, got {type(tensor).__name__}")
    for each in (tensor,) if isinstance(tensor, Tensor) else tuple(tensor):
        if not isinstance(each, Tensor):
            raise RuntimeError(f"increment_version expects each element of the iterable to be a tensor, got {type(each).__name__}")
        if not isinstance(each, InferenceTensor):
            each.version.bump()


# ---- hooks for saved tensors ----------------------------------------------------------------------------------------------------


class saved_tensors_hooks:
    """While entered, ``pack_hook(tensor)`` is saved for backward instead of each tensor that an operation or Function would save.

    Of nested contexts the innermost counts. In-place writes to a packed tensor are not detected.

    Args:
        pack_hook: takes the tensor that would be saved, which it must not write, and returns anything. If the tensor is the operation's
            output, the result should not refer to it: that is a reference cycle. Nothing is recorded inside.
        unpack_hook: takes what pack_hook returned, when backward needs the tensor, and returns a Tensor with the same content.
    Raises: RuntimeError on entering while ``disable_saved_tensors_hooks`` holds; TypeError for hooks that are no functions.
    Source: torch.autograd.graph.saved_tensors_hooks.
    Example:
        >>> x = gradlib.tensor([1.0, 2.0], requires_grad=True)
        >>> with gradlib.autograd.graph.saved_tensors_hooks(lambda t: t.to(gradlib.float16), lambda t: t.to(gradlib.float32)):
        ...     y = x.square().sum()
        >>> y.backward()
        >>> x.grad
        tensor([2., 4.])
    """

    def __init__(self, pack_hook: Callable[[Tensor], Any], unpack_hook: Callable[[Any], Tensor]) -> None:
        self.pack_hook = pack_hook
        self.unpack_hook = unpack_hook

    def __enter__(self) -> None:
        check_hooks(self.pack_hook, self.unpack_hook)
        self._saving().__enter__()

    def __exit__(self, *exc: object) -> None:
        self._saving().__exit__()

    def _saving(self) -> saving:
        """Made at each use: kept as an attribute it would be part of a reference cycle when a hook is a method of this object."""
        return saving(self.pack_hook, self.unpack_hook)


class save_on_cpu(saved_tensors_hooks):
    """While entered, tensors are saved in host memory and copied back to their device when backward needs them.

    Tensors on the CPU are saved as they are.

    Args:
        pin_memory: save in page-locked memory, with copies that do not wait; read a saved tensor (``_saved_NAME``) only after the device
            has caught up.
        device_type: the kind of device that the memory is pinned for, "cuda".
    Raises: ValueError for another device_type.
    Source: torch.autograd.graph.save_on_cpu.
    Example:
        >>> x = gradlib.tensor([1.0, 2.0], requires_grad=True)
        >>> with gradlib.autograd.graph.save_on_cpu():
        ...     y = x.square().sum()
        >>> y.backward()
        >>> x.grad
        tensor([2., 4.])
    """

    def __init__(self, pin_memory: bool = False, device_type: str = "cuda") -> None:
        if device_type != "cuda":
            raise ValueError(f"save_on_cpu: device_type is 'cuda', the only kind besides the CPU, got {device_type!r}")

        def pack_to_cpu(tensor: Tensor) -> tuple[Any, Any]:
            array = tensor._array
            return tensor.device, pinned_copy(array) if pin_memory else move(array, None)

        def unpack_from_cpu(packed: tuple[Any, Any]) -> Tensor:
            device, array = packed
            return wrap((from_pinned if pin_memory else move)(array, device.index if device.type == "cuda" else None))

        super().__init__(pack_to_cpu, unpack_from_cpu)


@contextlib.contextmanager
def disable_saved_tensors_hooks(error_message: str) -> Iterator[None]:
    """While entered, entering ``saved_tensors_hooks`` raises RuntimeError with this message.

    Args:
        error_message: the text of the error.
    Raises: RuntimeError at once when such hooks are active already.
    Source: torch.autograd.graph.disable_saved_tensors_hooks.
    Example:
        >>> with gradlib.autograd.graph.disable_saved_tensors_hooks("not in here"):
        ...     try:
        ...         gradlib.autograd.graph.save_on_cpu().__enter__()
        ...     except RuntimeError as error:
        ...         print(error)
        not in here
    """
    with saving_refused(error_message):
        yield


# ---- hooks for several gradients ------------------------------------------------------------------------------------------------


class _MultiHandle(RemovableHandle):
    """Removes the hooks of several tensors."""

    def __init__(self, handles: tuple[RemovableHandle, ...]) -> None:
        self.handles = handles

    def remove(self) -> None:
        for handle in self.handles:
            handle.remove()


def register_multi_grad_hook(tensors: Sequence[Tensor], fn: Callable[[Any], None], *, mode: str = "all") -> RemovableHandle:
    """Call ``fn`` once in each backward that computes gradients of some of the tensors.

    Args:
        tensors: the tensors; those that a backward does not come to are not waited for.
        fn: with mode "all" it takes a list with each tensor's gradient, or None where none was computed, after the last of them; with mode
            "any" the first gradient as soon as it is there.
    Returns: a handle whose ``remove()`` takes the hook away.
    Raises: ValueError for another mode; RuntimeError, with mode "all", for a tensor that requires no gradient.
    Source: torch.autograd.graph.register_multi_grad_hook.
    Example:
        >>> a, b = gradlib.ones(1, requires_grad=True), gradlib.ones(1, requires_grad=True)
        >>> handle = gradlib.autograd.graph.register_multi_grad_hook([a, b], print)
        >>> (2 * a + 3 * b).sum().backward()
        [tensor([2.]), tensor([3.])]
        >>> handle.remove()
    """
    if mode not in ("all", "any"):
        raise ValueError(f"Expects mode to be one of ('all', 'any') but got {mode}")
    if mode == "any":
        return _first_of(tensors, fn)
    nodes = [weakref.ref(tensor._node) for tensor in tensors if tensor._node is not None]  # weakly: they will hold the hook
    if len(nodes) != len(tensors):
        raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
    found: weakref.WeakKeyDictionary[Any, tuple[list[Any], set[int]]] = weakref.WeakKeyDictionary()

    def arrived(place: int, grad: Tensor) -> None:
        walk = _running_walk()
        if walk not in found:
            expected = {i for i, ref in enumerate(nodes) if (node := ref()) is not None and walk.visits(node)}
            found[walk] = ([None] * len(nodes), expected)
        gradients, waited_for = found[walk]
        gradients[place] = grad
        waited_for.discard(place)
        if not waited_for:
            del found[walk]
            fn(gradients)

    wants_walk(arrived)
    return _MultiHandle(tuple(tensor.register_hook(functools.partial(arrived, i)) for i, tensor in enumerate(tensors)))


def _running_walk() -> Any:
    if thread_state.walk is None:
        raise RuntimeError("register_multi_grad_hook was called while this backward was running already; register the hook before it")
    return thread_state.walk


def _first_of(tensors: Sequence[Tensor], fn: Callable[[Tensor], None]) -> RemovableHandle:
    """Mode "any" of ``register_multi_grad_hook``."""
    done: weakref.WeakSet[Any] = weakref.WeakSet()

    def arrived(grad: Tensor) -> None:
        walk = _running_walk()
        if walk not in done:
            done.add(walk)
            fn(grad)

    wants_walk(arrived)
    return _MultiHandle(tuple(tensor.register_hook(arrived) for tensor in tensors if tensor.requires_grad))


# ---- writes to saved tensors ----------------------------------------------------------------------------------------------------


class _Kept:
    """A tensor saved under ``allow_mutation_on_saved_tensors``: an alias, or a copy after its memory was written."""

    __slots__ = ("__weakref__", "tensor")

    def __init__(self, tensor: Tensor) -> None:
        self.tensor: Tensor | None = tensor


class _AllowMutationOnSavedContext(saved_tensors_hooks):
    """The object that ``allow_mutation_on_saved_tensors`` yields; it holds the saved tensors, by storage."""

    def __init__(self) -> None:
        self.kept: dict[int, tuple[Version, weakref.WeakSet[_Kept]]] = {}
        self.cloned: weakref.WeakSet[_Kept] = weakref.WeakSet()

    def pack_hook(self, tensor: Tensor) -> _Kept:  # a method, so that the object does not hold itself
        kept = _Kept(tensor.detach())
        version = tensor.version.storage
        self.kept.setdefault(id(version), (version, weakref.WeakSet()))[1].add(kept)
        return kept

    def unpack_hook(self, kept: _Kept) -> Tensor:
        if kept.tensor is None:
            raise AssertionError(
                "Trying to backward outside of the 'allow_mutation_on_saved_tensors' context in which the graph was originally recorded."
            )
        return kept.tensor

    def before_write(self, target: Tensor) -> None:
        """Copy the tensors that were saved from a storage, before it is written."""
        if target._version_slot is None:
            return
        _, several = self.kept.pop(id(target._version_slot.storage), (None, ()))
        copies: dict[int, Tensor] = {}
        for kept in tuple(several):
            if kept.tensor is not None:
                array = kept.tensor._array
                if id(array) not in copies:
                    copies[id(array)] = wrap(copy(array))
                kept.tensor = copies[id(array)]
                self.cloned.add(kept)

    def clear(self) -> None:
        """Free all copies; backward through a graph recorded here fails from now on."""
        for _, several in self.kept.values():
            for kept in several:
                kept.tensor = None
        for kept in self.cloned:
            kept.tensor = None
        self.kept.clear()
        self.cloned.clear()


@contextlib.contextmanager
def allow_mutation_on_saved_tensors() -> Iterator[_AllowMutationOnSavedContext]:
    """While entered, a tensor that is saved for backward is copied when it is written in place, instead of making backward fail.

    Record and run backward within the same context.

    Returns: an object that holds the state, cleared on leaving.
    Raises: RuntimeError when entered already; AssertionError from a backward outside the context.
    Source: torch.autograd.graph.allow_mutation_on_saved_tensors.
    Example:
        >>> a = gradlib.tensor([1.0, 2.0], requires_grad=True)
        >>> with gradlib.autograd.graph.allow_mutation_on_saved_tensors():
        ...     b = a * 1
        ...     y = (b * b).sum()
        ...     b[:] = 0  # without the context, backward would refuse
        ...     y.backward()
        >>> a.grad
        tensor([2., 4.])
    """
    if thread_state.before_write:
        raise RuntimeError("allow_mutation_on_saved_tensors contexts cannot be nested")
    context = _AllowMutationOnSavedContext()
    try:
        with context, before_writes(context.before_write):
            yield context
    finally:
        context.clear()
