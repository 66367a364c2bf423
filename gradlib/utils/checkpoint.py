"""Activation checkpointing: keep the inputs of a part of the program only, and run it again in backward. Source: torch.utils.checkpoint.

The part is recorded under hooks that keep an empty ``_Holder`` in the place of each saved tensor. The first of them that backward asks for
runs the part again, under hooks that count along and fill the holders. It is torch's variant "non-reentrant": the graph is recorded as
usual, so ``grad``, ``backward(inputs=)``, higher orders and nesting work.
"""

from __future__ import annotations

import contextlib
import weakref
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any

from gradlib.autograd.graph import saved_tensors_hooks
from gradlib.backend.array import device_index
from gradlib.backend.device import default_index, get_default_device
from gradlib.core.dispatch import dispatch
from gradlib.core.grad_mode import enable_grad
from gradlib.core.modes import Interpreter, lower, thread_state, under, wants_walk
from gradlib.core.random import default_generator
from gradlib.core.saved import PackedTensor
from gradlib.core.tensor import Tensor

__all__ = [
    "CheckpointError", "checkpoint", "checkpoint_sequential", "noop_context_fn", "set_checkpoint_debug_enabled",
    "set_checkpoint_early_stop",
]  # fmt: skip


class CheckpointError(RuntimeError):
    """Raised when a recomputation in backward does not repeat what ran in forward.

    Source: torch.utils.checkpoint.CheckpointError.
    Example:
        >>> calls = []
        >>> def changes(x):
        ...     calls.append(x)
        ...     return x.exp() if len(calls) == 1 else x.reshape(1, 2).exp()
        >>> y = gradlib.utils.checkpoint.checkpoint(changes, gradlib.ones(2, requires_grad=True), use_reentrant=False)
        >>> try:
        ...     y.sum().backward()
        ... except gradlib.utils.checkpoint.CheckpointError as error:
        ...     print(str(error).partition(".")[0])
        checkpoint: Recomputed values for the following tensors have different metadata than during the forward pass
    """


_early_stop: bool | None = None
_debug: bool | None = None


@contextlib.contextmanager
def set_checkpoint_early_stop(enable: bool) -> Iterator[None]:
    """Whether the checkpoints made inside stop running again as soon as all needed tensors are there.

    Args:
        enable: whether they do; without it, ``early_stop`` of each one says so.
    Source: torch.utils.checkpoint.set_checkpoint_early_stop.
    Example:
        >>> x = gradlib.ones(2, requires_grad=True)
        >>> with gradlib.utils.checkpoint.set_checkpoint_early_stop(False):
        ...     y = gradlib.utils.checkpoint.checkpoint(gradlib.exp, x, use_reentrant=False)
    """
    global _early_stop
    before, _early_stop = _early_stop, enable
    try:
        yield
    finally:
        _early_stop = before


@contextlib.contextmanager
def set_checkpoint_debug_enabled(enabled: bool | None) -> Iterator[None]:
    """Whether the checkpoints made inside list their operations when they fail.

    Args:
        enabled: whether they do; None leaves it to each one's ``debug``.
    Source: torch.utils.checkpoint.set_checkpoint_debug_enabled.
    Example:
        >>> x = gradlib.ones(2, requires_grad=True)
        >>> with gradlib.utils.checkpoint.set_checkpoint_debug_enabled(True):
        ...     y = gradlib.utils.checkpoint.checkpoint(gradlib.exp, x, use_reentrant=False)
    """
    global _debug
    before, _debug = _debug, enabled
    try:
        yield
    finally:
        _debug = before


def noop_context_fn() -> tuple[Any, Any]:
    """The default ``context_fn``: two contexts that do nothing.

    Returns: a pair of contexts.
    Source: torch.utils.checkpoint.noop_context_fn.
    Example:
        >>> [type(each).__name__ for each in gradlib.utils.checkpoint.noop_context_fn()]
        ['nullcontext', 'nullcontext']
    """
    return contextlib.nullcontext(), contextlib.nullcontext()


def checkpoint(
    function: Callable[..., Any],
    *args: Any,
    use_reentrant: bool | None = None,
    context_fn: Callable[[], tuple[Any, Any]] = noop_context_fn,
    determinism_check: str = "default",
    debug: bool = False,
    early_stop: bool = True,
    preserve_rng_state: bool = True,
    **kwargs: Any,
) -> Any:
    """Call ``function(*args, **kwargs)`` without keeping what it saves for backward; backward calls it again.

    Args:
        function: does the same whenever it is called with these arguments.
        args, kwargs: its arguments.
        use_reentrant: False or None; torch's other variant does not exist here.
        context_fn: gives two context managers, one for the call and one for the call in backward.
        determinism_check: "default" compares shape, dtype and device of what is saved in both calls, "none" does not.
        debug: let errors list the operations of both calls.
        early_stop: end the second call as soon as everything needed has been computed.
        preserve_rng_state: let the second call draw the same random numbers.
    Returns: what the function returns.
    Raises: ValueError for options that are not there; in backward CheckpointError when the two calls differ, RuntimeError when an argument
        was written in place since.
    Source: torch.utils.checkpoint.checkpoint.
    Example:
        >>> x = gradlib.tensor([1.0, 2.0], requires_grad=True)
        >>> gradlib.utils.checkpoint.checkpoint(lambda x: x.exp().square().sum(), x, use_reentrant=False).backward()
        >>> x.grad
        tensor([ 14.7781, 109.1963])
    """
    if use_reentrant:
        raise ValueError("checkpoint: use_reentrant=True is not offered; pass use_reentrant=False, which does all that it does and more")
    if determinism_check not in ("default", "none"):
        raise ValueError(f"determinism_check should be one of ['default', 'none'], but got {determinism_check}")
    logs = None
    if debug if _debug is None else _debug:
        if context_fn is not noop_context_fn:
            raise ValueError("debug=True is incompatible with non-default context_fn")
        logs = (_Log(), _Log())
    if not thread_state.grad_enabled:
        return function(*args, **kwargs)
    around, again = logs or context_fn()
    frame = _Frame(function, args, kwargs, again, preserve_rng_state)
    frame.checks = determinism_check == "default"
    frame.early_stop = early_stop if _early_stop is None else _early_stop
    frame.logs = logs
    wants_walk(frame)
    with saved_tensors_hooks(frame.pack, frame.unpack), around:
        result = function(*args, **kwargs)
        frame.complete = True
    if not frame.complete:
        raise RuntimeError(
            "checkpoint: the context for forward that context_fn gave swallowed an exception of the function. This is not supported: "
            "checkpoint cannot return a value for a failed forward."
        )
    return result


def checkpoint_sequential(
    functions: Sequence[Callable[[Any], Any]],
    segments: int,
    input: Any,
    use_reentrant: bool | None = None,
    *,
    preserve_rng_state: bool = True,
) -> Any:
    """Apply functions one after the other, cut into segments of which each but the last is checkpointed.

    Args:
        functions: each takes what the one before returned.
        segments: how many segments.
        input: what the first function takes.
        use_reentrant, preserve_rng_state: as for ``checkpoint``.
    Returns: what the last function returns.
    Raises: as ``checkpoint``; ValueError for more segments than functions.
    Source: torch.utils.checkpoint.checkpoint_sequential.
    Example:
        >>> x = gradlib.tensor([0.5], requires_grad=True)
        >>> steps = [gradlib.sin, gradlib.exp, gradlib.square]
        >>> gradlib.utils.checkpoint.checkpoint_sequential(steps, 2, x, use_reentrant=False).backward()
        >>> x.grad
        tensor([4.5787])
    """

    def run(first: int, last: int) -> Callable[[Any], Any]:
        def segment(value: Any) -> Any:
            for function in functions[first:last]:
                value = function(value)
            return value

        return segment

    size = len(functions) // segments
    if size == 0:
        raise ValueError(f"checkpoint_sequential: {len(functions)} functions cannot be cut into {segments} segments")
    last = size * (segments - 1)
    for first in range(0, last, size):
        input = checkpoint(run(first, first + size), input, use_reentrant=use_reentrant, preserve_rng_state=preserve_rng_state)
    return run(last, len(functions))(input)


class _Enough(Exception):
    """Ends a second call that has computed everything needed."""


class _Holder:
    """Stands in a node for a tensor that it would have saved; its tensors are those of walks that are running."""

    __slots__ = ("__weakref__", "tensors")

    def __init__(self) -> None:
        self.tensors: weakref.WeakKeyDictionary[Any, tuple[Tensor, int]] = weakref.WeakKeyDictionary()  # with their versions


class _Outside:
    """Stands for the walk where somebody reads a saved tensor outside any backward."""


class _Argument:
    """A tensor argument kept for the second call: packed where the call is itself under hooks, as a checkpoint within a checkpoint is."""

    def __init__(self, tensor: Tensor) -> None:
        self.kept = PackedTensor(tensor, *thread_state.saving[-1]) if thread_state.saving else tensor
        self.version = tensor.version if not thread_state.saving else None
        self.written = self.version.count if self.version is not None else 0

    def tensor(self) -> Tensor:
        if isinstance(self.kept, PackedTensor):
            return self.kept.restored()
        if self.version is not None and self.version.count != self.written:
            raise _stale(f"an argument of checkpoint, of shape {list(self.kept.shape)}, was written after the call")
        return self.kept


class _Frame:
    """One checkpointed call: its holders in the order of saving, and how to call again."""

    checks: bool
    early_stop: bool
    logs: tuple[_Log, _Log] | None

    def __init__(
        self, function: Callable[..., Any], args: tuple[Any, ...], kwargs: dict[str, Any], again: Any, preserve_rng_state: bool
    ) -> None:
        self.function = function
        self.args = [_Argument(a) if isinstance(a, Tensor) and not a.is_inference() else a for a in args]
        self.kwargs = kwargs
        self.again = again
        self.device = get_default_device()
        self.interpreters = thread_state.interpreters
        places = {None, default_index(), *(device_index(a._array) for a in args if isinstance(a, Tensor))}
        self.streams = _streams(places if preserve_rng_state else ())
        self.holders: list[weakref.ref[_Holder]] = []
        self.saved: list[tuple[Any, ...]] = []  # what the tensors looked like
        self.complete = False
        self.walks: weakref.WeakSet[Any] = weakref.WeakSet()

    # ---- the hooks of the first call ------------------------------------------------------------------------------------------

    def pack(self, tensor: Tensor) -> _Holder:
        holder = _Holder()
        self.holders.append(weakref.ref(holder))
        self.saved.append(_look(tensor))
        return holder

    def unpack(self, holder: _Holder) -> Tensor:
        walk = thread_state.walk or _Outside()
        if walk not in self.walks:
            try:
                self._run_again(walk)
            except CheckpointError as error:
                raise self._explained(error) from None
        tensor, written = holder.tensors[walk]
        if tensor._version != written:
            raise _stale(f"a tensor of shape {list(tensor.shape)} that was saved inside checkpoint was written inside it")
        return tensor

    # ---- the second call ------------------------------------------------------------------------------------------------------

    def _run_again(self, walk: Any) -> None:
        """Fill the holders that are still alive for a walk."""
        count = 0
        excess = False

        def pack(tensor: Tensor) -> Tensor:
            nonlocal count, excess
            place, count = count, count + 1
            tensor = tensor.detach() if tensor.requires_grad else tensor
            if place >= len(self.holders):
                if self.complete:
                    raise CheckpointError("checkpoint: the second call tries to save more tensors than the first one did.")
                excess = True  # backward is called inside the function: the first call has not come this far yet
                return tensor
            holder = self.holders[place]()
            if holder is not None:
                if self.checks and _look(tensor) != self.saved[place]:
                    differing.append((place, _look(tensor)))
                holder.tensors[walk] = (tensor, tensor._version)
            if self.early_stop and count == len(self.holders):
                raise _Enough
            return tensor

        differing: list[tuple[int, tuple[Any, ...]]] = []
        with saved_tensors_hooks(pack, lambda tensor: tensor), contextlib.suppress(_Enough):
            self._call()
        self.walks.add(walk)
        if count != len(self.holders) and not excess:
            raise CheckpointError(
                "checkpoint: A different number of tensors was saved during the original forward and recomputation.\n"
                f"Number of tensors saved during forward: {len(self.holders)}\n"
                f"Number of tensors saved during recomputation: {count}."
            )
        if differing:
            lines = [f"tensor at position {i}: saved {_shown(self.saved[i])}, recomputed {_shown(now)}" for i, now in differing]
            raise CheckpointError(
                "checkpoint: Recomputed values for the following tensors have different metadata than during the forward pass.\n"
                + "\n".join(lines)
            )

    def _call(self) -> None:
        """Call the function again with the same arguments, random numbers and default device, under the same levels."""
        args = [a.tensor() if isinstance(a, _Argument) else a for a in self.args]
        present = _streams(self.streams)
        try:
            _continue_streams(self.streams)
            with under(self.interpreters), enable_grad(), self.device, self.again:
                self.function(*args, **self.kwargs)
        finally:
            _continue_streams(present)

    def _explained(self, error: CheckpointError) -> CheckpointError:
        if self.logs is None:
            return CheckpointError(f"{error}\nPass debug=True to checkpoint to see the operations of both calls.")
        first, again = (" ".join(log.names) or "none" for log in self.logs)
        return CheckpointError(f"{error}\nOperations of the first call: {first}\nOperations of the second call: {again}")


def _streams(places: Iterable[int | None]) -> dict[int | None, Any]:
    """The positions of the default random streams of some devices."""
    return {place: default_generator(place).get_state() for place in places}


def _continue_streams(states: dict[int | None, Any]) -> None:
    for place, state in states.items():
        default_generator(place).set_state(state)


def _stale(what: str) -> RuntimeError:
    return RuntimeError(
        f"one of the variables needed for gradient computation has been modified by an inplace operation: {what}. Write to a clone() of it."
    )


def _look(tensor: Tensor) -> tuple[Any, ...]:
    """The properties of a tensor that the second call must reproduce."""
    array = tensor._array
    return array.shape, array.dtype, device_index(array)


def _shown(look: tuple[Any, ...]) -> str:
    shape, dtype, place = look
    return f"{list(shape)} {dtype.name} on {'cpu' if place is None else f'cuda:{place}'}"


class _Log(Interpreter):
    """Notes the name of each operation."""

    def __init__(self) -> None:
        self.names: list[str] = []

    def __enter__(self) -> Any:
        self.names.clear()
        return super().__enter__()

    def process(self, op: Any, args: tuple[Any, ...]) -> Any:
        self.names.append(op.name)
        with lower(self):
            return dispatch(op, args)
