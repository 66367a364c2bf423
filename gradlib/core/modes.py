"""Global and thread-local state: whether operations record, which interpreters they go through, who observes them.

``thread_state`` holds the modes of the calling thread. ``global_state`` counts, over all threads, how many have recording switched off
(``no_grad``) and how many use something that the fast path of operations does not know (``active``). An operation looks at its own thread
only where a count is not zero, so a program that uses none of this pays two comparisons for it.

Both are written in this file only; other files enter the context managers below.
"""

from __future__ import annotations

import itertools
import threading
import weakref
from collections.abc import Callable
from typing import Any

from gradlib.backend.thread import carried, kept_at_fork

next_seq = itertools.count().__next__
"""Takes the next sequence number. A node takes one before its forward runs; an in-place write takes one after."""


class GlobalState:
    """State of all threads: how many are in which mode, and the hooks of every thread. Read at every operation, written seldom."""

    __slots__ = ("active", "born", "differentiating", "hooked", "new_node", "no_grad", "node_hooks", "observed", "packing", "walks")

    def __init__(self) -> None:
        self.no_grad: list[None] = []  # an entry for each thread that does not record: to append and to pop need no lock
        self.active = 0
        self.node_hooks: tuple[NodeHook, ...] = ()  # of every thread
        self.new_node: tuple[Callable[[Any], None], ...] = ()  # told of every node when it is made
        self.observed = 0  # how many of the active are observers
        self.packing = 0  # how many of the active are hooks for saved tensors
        self.born: Any = None  # while functions are differentiated, the meta of what is made meanwhile; see ``node.Born``
        self.differentiating = 0  # in how many threads
        self.walks: set[weakref.ref[Any]] = set()  # the hooks that ask which backward pass they run in
        self.hooked: set[weakref.ref[Any]] = set()  # the leaves with hooks for what was accumulated


NodeHook = Callable[..., Any]
"""A hook around one node's backward: called with ``(node, g, run)``, it returns ``run(g)`` or something in its place."""


class ThreadState(threading.local):
    """The modes of the calling thread."""

    grad_enabled = True
    paused = False  # whether the user switched recording off; see `noting_pauses`
    inference = False
    interpreters: tuple[Interpreter, ...] = ()
    quick: Interpreter | None = None  # the only interpreter, when an operation's compiled ``forward`` can do what it does
    saving: tuple[tuple[Callable[[Any], Any], Callable[[Any], Any]], ...] = ()  # pairs of pack and unpack; the last one is used
    saving_refused: str | None = None
    before_write: tuple[Callable[[Any], None], ...] = ()  # told of a tensor that is about to be written in place
    observer: observer | None = None
    transforming = False  # whether the function that runs is one that a transform of ``func`` was given
    since: int | None = None  # the sequence number at which the innermost of them began that differentiates
    walk: Any = None  # the backward pass that is running, known only when something is in global_state.walks


global_state = GlobalState()
thread_state = carried(ThreadState())
_lock = kept_at_fork(threading.Lock())


def set_grad(enabled: bool) -> bool:
    """Let the operations of the calling thread record, or not. Returns: whether they did before."""
    before = thread_state.grad_enabled
    if enabled != before:
        thread_state.grad_enabled = enabled
        if enabled:
            global_state.no_grad.pop()
        else:
            global_state.no_grad.append(None)
    return before


class recording:
    """While entered, this thread records or does not: ``enable_grad`` and ``no_grad`` of ``grad_mode.py`` without what only users need."""

    __slots__ = ("before", "enabled")

    def __init__(self, enabled: bool) -> None:
        self.enabled = enabled

    def __enter__(self) -> None:
        self.before = set_grad(self.enabled)

    def __exit__(self, *exc: object) -> None:
        set_grad(self.before)


def note_pause() -> None:
    """The user switched recording off."""
    thread_state.paused = True


class noting_pauses:
    """While entered, sees whether the user's function switches recording off. ``seen``: whether it did, once this is left."""

    __slots__ = ("before", "seen")

    def __enter__(self) -> noting_pauses:
        self.before, thread_state.paused = thread_state.paused, False
        return self

    def __exit__(self, *exc: object) -> None:
        self.seen = thread_state.paused
        thread_state.paused = self.seen or self.before


def activate(count: int) -> None:
    """Count that the calling thread entered (+1) or left (-1) a mode in which operations take the slow path."""
    with _lock:
        global_state.active += count


def set_interpreters(interpreters: tuple[Interpreter, ...]) -> None:
    """Let the operations of the calling thread go through these interpreters, the last one first."""
    if bool(interpreters) != bool(thread_state.interpreters):
        activate(1 if interpreters else -1)
    thread_state.interpreters = interpreters
    thread_state.quick = interpreters[0] if len(interpreters) == 1 and interpreters[0].quick and not thread_state.inference else None


def set_inference(inference: bool) -> None:
    """Put the calling thread into inference mode, or out of it; whether it records is ``set_grad``'s."""
    if inference != thread_state.inference:
        thread_state.inference = inference
        activate(1 if inference else -1)
        set_interpreters(thread_state.interpreters)  # no compiled forward in inference mode


class Interpreter:
    """Forward mode or vmap: while entered, every operation on this thread is handed to ``process(op, args)`` instead of being run.

    As a rule ``process`` runs the operation, and whatever else it needs, within ``lower(self)``, where the interpreters below this one have
    their turn. Profilers are observers, not interpreters.
    """

    outermost = False
    """Whether it stands above all interpreters that are not, whichever was entered first."""

    quick = False
    """Whether the compiled ``forward`` of an operation does what this interpreter does, where it is the only one."""

    def process(self, op: Any, args: tuple[Any, ...]) -> Any:
        raise TypeError(f"{type(self).__name__} says nothing of what it does with an operation")

    def tangent(self, value: Any) -> Any:
        """The tangent of a value at this level of forward mode; None for an interpreter of another kind."""
        return None

    def __enter__(self) -> Any:
        at = len(thread_state.interpreters)
        while at and not self.outermost and thread_state.interpreters[at - 1].outermost:
            at -= 1
        set_interpreters((*thread_state.interpreters[:at], self, *thread_state.interpreters[at:]))
        return self

    def __exit__(self, *exc: object) -> None:
        set_interpreters(tuple(each for each in thread_state.interpreters if each is not self))


class under:
    """While entered, operations on this thread go through these interpreters and no others."""

    def __init__(self, interpreters: tuple[Interpreter, ...]) -> None:
        self.interpreters = interpreters

    def __enter__(self) -> None:
        self.before = thread_state.interpreters
        set_interpreters(self.interpreters)

    def __exit__(self, *exc: object) -> None:
        set_interpreters(self.before)


class lower(under):
    """While entered, operations on this thread skip this interpreter and those above it."""

    def __init__(self, top: Interpreter) -> None:
        active = thread_state.interpreters
        self.interpreters = active[: active.index(top)]


class skipping(under):
    """While entered, operations on this thread skip this interpreter alone."""

    def __init__(self, skipped: Interpreter) -> None:
        self.interpreters = tuple([each for each in thread_state.interpreters if each is not skipped])


class transforming:
    """Entered while a transform of ``func`` runs the function that it was given.

    Args:
        since: the sequence number at which it began, for one that differentiates the function (vmap does not).
        born: the meta of tensors that are made meanwhile (see ``node.Born``), for such a one.
    """

    since: int | None

    def __init__(self, since: int | None = None, born: Any = None) -> None:
        self.since = since
        self.born = born

    def __enter__(self) -> None:
        self.before = thread_state.transforming, thread_state.since
        thread_state.transforming = True
        thread_state.since = thread_state.since if self.since is None else self.since
        if self.born is not None:
            with _lock:
                global_state.differentiating += 1
                global_state.born = self.born

    def __exit__(self, *exc: object) -> None:
        thread_state.transforming, thread_state.since = self.before
        if self.born is not None:
            with _lock:
                global_state.differentiating -= 1
                if not global_state.differentiating:
                    global_state.born = None


class as_outside:
    """While entered, the transforms that count as running are those that ran when this object was made.

    Args:
        differentiated: whether the function that runs is still one that must not write what it captured.
    """

    def __init__(self, differentiated: bool = False) -> None:
        self.outside = thread_state.transforming, thread_state.since
        self.differentiated = differentiated

    def __enter__(self) -> None:
        self.before = thread_state.transforming, thread_state.since
        thread_state.transforming, since = self.outside
        thread_state.since = thread_state.since if self.differentiated else since

    def __exit__(self, *exc: object) -> None:
        thread_state.transforming, thread_state.since = self.before


def refuse_in_transform(called: str) -> None:
    """Refuse what a function must not do while a transform runs it, since its inputs are the transform's or the caller's own."""
    if thread_state.transforming:
        raise RuntimeError(
            f"You are attempting to call Tensor.{called}() (or perhaps using autograd.functional.* APIs) inside of a function being "
            "transformed by a functorch transform. This is unsupported, please attempt to use the functorch transforms (e.g. grad, vjp, "
            f"jacrev, jacfwd, hessian) or call {called}() outside of a function being transformed instead."
        )


class on_every_node:
    """While entered, in all threads, ``made(node)`` is called for every node that is made and each runs through ``wrap(node, g, run)``."""

    def __init__(self, made: Callable[[Any], None], wrap: NodeHook) -> None:
        self.made = made
        self.wrap = wrap

    def __enter__(self) -> None:
        with _lock:
            global_state.new_node += (self.made,)
            global_state.node_hooks += (self.wrap,)
            global_state.active += 1

    def __exit__(self, *exc: object) -> None:
        with _lock:
            global_state.new_node = tuple(each for each in global_state.new_node if each is not self.made)
            global_state.node_hooks = tuple(each for each in global_state.node_hooks if each is not self.wrap)
            global_state.active -= 1


class saving:
    """While entered, this thread saves ``pack(tensor)`` in the place of each tensor, for ``unpack`` to give back.

    Raises: RuntimeError on entering while ``saving_refused`` holds.
    """

    def __init__(self, pack: Callable[[Any], Any], unpack: Callable[[Any], Any]) -> None:
        self.hooks = pack, unpack

    def __enter__(self) -> None:
        if thread_state.saving_refused is not None:
            raise RuntimeError(thread_state.saving_refused)
        thread_state.saving += (self.hooks,)
        _count_packing(1)

    def __exit__(self, *exc: object) -> None:
        if thread_state.saving:  # a user may leave more often than enter
            thread_state.saving = thread_state.saving[:-1]
            _count_packing(-1)


def _count_packing(count: int) -> None:
    """Count that the calling thread entered or left so many hooks for saved tensors."""
    with _lock:
        global_state.active += count
        global_state.packing += count


def restore_saving(before: tuple[tuple[Callable[[Any], Any], Callable[[Any], Any]], ...]) -> None:
    """Give this thread the hooks for saved tensors that it had before a hook ran, whatever that has entered or left."""
    changed = len(before) - len(thread_state.saving)
    thread_state.saving = before
    if changed:
        _count_packing(changed)


class saving_refused:
    """While entered, hooks for saved tensors are refused on this thread with RuntimeError(message), at once where there are some."""

    def __init__(self, message: str) -> None:
        self.message = message

    def __enter__(self) -> None:
        if thread_state.saving:
            raise RuntimeError(self.message)
        self.before, thread_state.saving_refused = thread_state.saving_refused, self.message

    def __exit__(self, *exc: object) -> None:
        thread_state.saving_refused = self.before


class before_writes:
    """While entered, ``keep(tensor)`` is called for each tensor that this thread is about to write in place."""

    def __init__(self, keep: Callable[[Any], None]) -> None:
        self.keep = keep

    def __enter__(self) -> None:
        thread_state.before_write += (self.keep,)

    def __exit__(self, *exc: object) -> None:
        thread_state.before_write = thread_state.before_write[:-1]


def wants_walk(holder: Any) -> None:
    """Ask for ``thread_state.walk`` to be set during backward passes, as long as this object lives."""
    global_state.walks.add(weakref.ref(holder, global_state.walks.discard))


class in_walk:
    """Entered while this backward pass runs on this thread."""

    def __init__(self, walk: Any) -> None:
        self.walk = walk

    def __enter__(self) -> None:
        self.outer, thread_state.walk = thread_state.walk, self.walk

    def __exit__(self, *exc: object) -> None:
        thread_state.walk = self.outer


class plain_saving:
    """While entered, this thread saves tensors for backward as they are: saved-tensor hooks are not called."""

    def __enter__(self) -> None:
        self.saving = thread_state.saving
        thread_state.saving = ()

    def __exit__(self, *exc: object) -> None:
        thread_state.saving = self.saving


def all_node_hooks() -> tuple[NodeHook, ...]:
    """The hooks around every node that this thread runs in backward, the outermost last."""
    seen_by = observing()
    return global_state.node_hooks if seen_by is None else (*global_state.node_hooks, seen_by.node)


class observer:
    """While entered, sees every operation that runs and every node that backward runs, and changes nothing: profilers.

    It sees those of the thread that entered it, as in torch, also when backward goes through what another thread recorded. It stands below
    all interpreters, so it sees what they make of an operation.
    """

    passive = False
    """Whether there is nothing to see for, so that no operation need take the way through it."""

    def begin(self, name: str, seq: int | None, args: tuple[Any, ...]) -> Any:
        """Called when an operation or Function begins. Returns: a mark that is passed to ``end``."""
        raise TypeError(f"{type(self).__name__} says nothing of what it does when work begins")

    def end(self, mark: Any, made: Any = None) -> None:
        """Called when it ends, also by an exception; ``made`` is the result, None without one."""

    def operation(self, op: Any, args: tuple[Any, ...]) -> Any:
        """Run an operation; its node, if it makes one, gets the number that ``begin`` was told."""
        seq = next_seq()
        mark, made = self.begin(op.label, seq, args), None
        try:
            made = op.observed(seq, *args)
        finally:
            self.end(mark, made)
        return made

    def composed(self, name: str, args: tuple[Any, ...], run: Callable[[], Any]) -> Any:
        """Run a function that is written in terms of operations."""
        mark, made = self.begin(name, None, args), None
        try:
            made = run()
        finally:
            self.end(mark, made)
        return made

    def node(self, node: Any, g: Any, run: Callable[[Any], Any]) -> Any:
        """Run a node of a backward walk."""
        return run(g)

    def __enter__(self) -> Any:
        if thread_state.observer is not None:
            raise RuntimeError("Profiler is already enabled on this thread: leave the one before entering another")
        thread_state.observer = self
        if not self.passive:
            with _lock:
                global_state.observed += 1
                global_state.active += 1
        return self

    def __exit__(self, *exc: object) -> None:
        thread_state.observer = None
        if not self.passive:
            with _lock:
                global_state.observed -= 1
                global_state.active -= 1


def observing() -> observer | None:
    """The observer of this thread, or None."""
    return thread_state.observer if global_state.active else None


def made_node(node: Any) -> None:
    """Call the functions that were registered for new nodes."""
    for note in global_state.new_node:
        note(node)


def writing(target: Any) -> None:
    """Call the functions that were registered for writes, before a tensor is written in place."""
    for keep in thread_state.before_write:
        keep(target)
