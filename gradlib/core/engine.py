"""The backward walk: from the outputs' cotangents to the leaves' gradients.

A node's sequence number is larger than those of the nodes that made its inputs, so taking pending nodes from the largest number down
visits each after everything that used its result: no pass over the graph comes first. The walk is a loop on the calling thread with a
heap; deep graphs cost no recursion, threads share nothing but the leaves' gradients, and a walk inside a walk is just another call.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Callable, Iterable, Sequence
from heapq import heappop, heappush
from typing import Any

import numpy as np

from gradlib.backend.array import Array, device_array, device_index, is_cupy, on_device_of
from gradlib.backend.copying import converted, copy
from gradlib.backend.dtype import float32
from gradlib.backend.pointwise import into
from gradlib.backend.reducing import folded
from gradlib.backend.sums import LEAST, sums
from gradlib.backend.thread import call_users
from gradlib.core.device_rules import added
from gradlib.core.edge import below
from gradlib.core.modes import NodeHook, all_node_hooks, global_state, observing
from gradlib.core.node import PLAIN_OUTPUT, Node, Output
from gradlib.core.streams import follow, run_there
from gradlib.core.tensor import AccumulateGrad, Tensor, as_array, wrap

Captures = dict[Node, Any]
Needed = dict[Node, bool]

_ON_HOST = frozenset((np.ndarray, np.float32, np.float64))
"""What rules return on the host, where no device has to be made current; NumPy gives scalars for results of no dimension."""


def _count_when_unshared() -> int:
    g = object()
    return sys.getrefcount(g)


_UNSHARED = _count_when_unshared()
"""What ``sys.getrefcount`` says of an object held by one local variable: a gradient of that count may be taken over without a copy."""


def walk(roots: list[tuple[Node, Any]], keep: bool = False, needed: Needed | None = None, captures: Captures | None = None) -> None:
    """Run backward on raw arrays from the given nodes.

    Args:
        roots: nodes with the cotangents of their outputs; emptied, so that the walk alone holds the cotangents it may take over.
        keep: leave saved tensors in place for another walk.
        needed: the only nodes to visit; None for all.
        captures: nodes whose incoming gradient is wanted; it is filled in instead of (for leaves) being accumulated.
    """
    pending: dict[Node, Any] = {}
    heap: list[tuple[int, Node]] = []
    roots.reverse()
    while roots:
        node, g = roots.pop()
        if needed is None or node in needed:
            _send(node, g, pending, heap)
    g = None  # the walk alone holds it now
    undefined = _walk_arrays(pending, heap, needed, captures, keep)
    if undefined is None:
        return
    _send(undefined, None, pending, heap)
    for each, held in pending.items():
        pending[each] = [x if x is None else wrap(x) for x in held] if isinstance(held, list) else held if held is None else wrap(held)
    _walk_tensors(pending, heap, needed, captures, keep, replaces=False)


def _walk_arrays(
    pending: dict[Node, Any], heap: list[tuple[int, Node]], needed: Needed | None, captures: Captures | None, keep: bool
) -> Node | None:
    """Go on with a walk on raw arrays, to its end or to a node whose gradient a custom Function left undefined.

    It is one long function because every node passes through it: a call per node for each of its parts would cost more than the parts.

    Returns: the node with the undefined gradient; None at the end.
    """
    owned: set[Node] = set()
    following: Node | None = None  # what is next, being later than all in the heap: a chain needs none
    waiting: Any = None  # the gradient for it
    hooks = all_node_hooks() if global_state.active else ()
    elsewhere = device_array()
    try:
        while heap:
            node = heappop(heap)[1]
            g = pending.pop(node)
            if g is None:
                return node
            while True:
                meta = node._meta
                # What is not an operation: hooks and captures, nodes that need not run, one of several outputs, a leaf.
                if meta is not None or needed is not None:
                    runs = needed is None or needed[node]
                    if meta is not None and meta is not PLAIN_OUTPUT:
                        g = _before(node, g, captures, runs, recorded=False)
                    elif captures is not None and node in captures:
                        captures[node] = g if captures[node] is None else _sum(captures[node], g)
                    if not runs:
                        break
                    if type(node) is Output:
                        _to_parent(node, g, pending, heap, owned)
                        break
                edges = node.edges
                if not edges and type(node) is AccumulateGrad:
                    grads = d = None  # drop other references, so that only this frame holds g
                    unshared = sys.getrefcount(g) <= _UNSHARED  # asked before a call, whose arguments would count
                    if global_state.active or meta is not None:
                        _at_leaf(node, g, functools.partial(node.accumulate, unshared=unshared))
                    else:
                        node.accumulate(g, unshared)
                    break
                # Run its rules.
                if hooks or (elsewhere is not None and type(g) not in _ON_HOST):
                    some = g
                    if type(g) is list:
                        for some in g:
                            if some is not None:
                                break
                    grads = run_hooked(hooks, node, g, node.run) if hooks or type(some) is not elsewhere else run_there(node, g, some)
                    if not keep and node.frees:
                        node.saved = None
                else:
                    grads = node.run(g) if keep else node.run_and_free(g)
                if type(grads) is not tuple:  # quicker than asking the node
                    target = edges[0] or edges[-1]  # of two the one that is wanted
                    if (
                        target is not None and grads is not None and meta is None
                        and (not heap or target.seq > -heap[0][0]) and (needed is None or target in needed)
                    ):  # fmt: skip
                        fits = grads.shape == target.shape and grads.dtype is target.dtype
                        node, g = target, grads if fits else fit(grads, target, node)
                        continue
                    grads = (grads,) if len(edges) == 1 else (grads, None) if edges[1] is None else (None, grads)
                if meta is not None and meta.post_hooks:
                    grads = _after(node, grads, g)
                # Hand each gradient on to the node that made the input.
                for target, d in zip(edges, grads):  # noqa: B905  (both have one entry per input; strict would cost)
                    if target is None:
                        continue
                    if d is None or (needed is not None and target not in needed):
                        if node.takes_none and (needed is None or target in needed):
                            if following is not None:
                                _send(following, waiting, pending, heap)
                                following = waiting = None
                            _send(target, None, pending, heap)
                        continue
                    if d.shape != target.shape or d.dtype is not target.dtype:
                        d = fit(d, target, node)
                    if following is None:
                        if not heap or target.seq > -heap[0][0]:
                            following, waiting = target, d
                            continue
                    elif target is following:
                        waiting = waiting + d if type(d) in _ON_HOST else _sum(waiting, d)
                        continue
                    elif target.seq > following.seq:
                        pending[following] = waiting
                        heappush(heap, (-following.seq, following))
                        following, waiting = target, d
                        continue
                    if type(target) is Output and target._meta is PLAIN_OUTPUT and needed is None:  # it would only tell its parent
                        _to_parent(target, d, pending, heap, owned)
                    elif target in pending:
                        _add(target, d, pending, owned)
                    else:
                        pending[target] = d
                        heappush(heap, (-target.seq, target))
                if following is None:
                    break
                node, g = following, waiting
                following = waiting = None
    except Exception:
        if following is not None:
            pending[following] = waiting
        _finish_leaves(node, pending, needed, captures, replaces=False)
        raise
    return None


class early_leaves:
    """While entered, a walk accumulates into leaves right behind the last node that uses them, as torch does, if some have hooks for that.

    Such a hook may send or apply a gradient while the walk goes on, and find those that were complete before it, of leaves without
    hooks too. The last node is found by a pass over the graph, which other walks do not need: they come to the leaves at their end.
    """

    def __init__(self, roots: Iterable[tuple[Node, Any]]) -> None:
        self.starts = [node for node, _ in roots]
        self.before: dict[AccumulateGrad, int] = {}

    def __enter__(self) -> None:
        alive = [leaf() for leaf in list(global_state.hooked)]  # tuple() may begin a collection, which discards from the set
        hooked = {leaf for leaf in alive if leaf is not None and leaf.leaf_meta.accumulated_hooks}
        last: dict[AccumulateGrad, Any] = {}
        for node in below(self.starts) if hooked else ():
            for edge in node.edges:
                if type(edge) is AccumulateGrad:
                    last[edge] = min(node.seq - 0.5, last.get(edge, node.seq))  # behind that node, and before every other
        for leaf, seq in () if hooked.isdisjoint(last) else last.items():
            self.before[leaf], leaf.seq = leaf.seq, seq

    def __exit__(self, *exc: object) -> None:
        for leaf, seq in self.before.items():
            leaf.seq = seq


def walk_recorded(
    roots: Iterable[tuple[Node, Any]], needed: Needed | None = None, captures: Captures | None = None, keep: bool = True
) -> None:
    """The same walk on Tensors, which records itself: for ``create_graph=True``.

    None stands for a gradient that is undefined, as zeros would: hooks and custom Functions are called with it, as torch's are.
    """
    pending: dict[Node, Any] = {}
    heap: list[tuple[int, Node]] = []
    for node, g in roots:
        if needed is None or node in needed:
            _send(node, g, pending, heap)
    _walk_tensors(pending, heap, needed, captures, keep, replaces=True)


def _walk_tensors(
    pending: dict[Node, Any], heap: list[tuple[int, Node]], needed: Needed | None, captures: Captures | None, keep: bool, replaces: bool
) -> None:
    """Go on with a walk on Tensors. ``replaces``: a leaf's gradient gives way to a sum that may be recorded; else it is added to."""
    while heap:
        node = heappop(heap)[1]
        g = pending.pop(node)
        try:
            _visit(node, g, pending, heap, needed, captures, keep, replaces)
        except Exception:
            _finish_leaves(node, pending, needed, captures, replaces)
            raise


def _visit(
    node: Node, g: Any, pending: dict[Node, Any], heap: list[tuple[int, Node]], needed: Needed | None, captures: Captures | None,
    keep: bool, replaces: bool,
) -> None:  # fmt: skip
    """One step of a walk on Tensors."""
    runs = needed is None or needed[node]
    if node._meta is not None or (captures is not None and node in captures):
        g = _before(node, g, captures, runs, recorded=True)
    if not runs:
        return
    if type(node) is Output:
        _to_parent(node, g, pending, heap)
        return
    if type(node) is AccumulateGrad:
        _serve(node, g, replaces)
        return
    nothing = all(each is None for each in g) if isinstance(g, list) else g is None
    if nothing and not node.takes_none:
        grads: Any = (None,) * len(node.edges)
    elif type(g) is Tensor and type(g._array) is np.ndarray and not global_state.active:
        grads = node.run_recorded(g)  # as below, where there is neither a device to go to nor a hook
    else:
        grads = run_hooked(all_node_hooks(), node, g, node.run_recorded)
    if type(grads) is not tuple:
        grads = (grads,)
    if not keep and node.frees:
        node.saved = None
    if node._meta is not None and node._meta.post_hooks:
        grads = _after(node, grads, g)
    for target, d in zip(node.edges, grads):  # noqa: B905  (both have one entry per input; strict would cost)
        if target is None or (needed is not None and target not in needed):
            continue
        if d is None:
            if nothing or node.takes_none:
                _send(target, None, pending, heap)
            continue
        if not isinstance(d, Tensor):
            d = wrap(as_array(d))
        if d._array.shape != target.shape or d._array.dtype is not target.dtype:
            d = fit(d, target, node)
        _send(target, d, pending, heap)


def _finish_leaves(failed: Node, pending: dict[Node, Any], needed: Needed | None, captures: Captures | None, replaces: bool) -> None:
    """When a node fails: write the gradients that are already complete to their leaves, as torch has done by then."""
    if type(failed) is AccumulateGrad:
        return
    waited_for = set(below([failed, *(node for node in pending if type(node) is not AccumulateGrad)]))
    ready = [node for node in pending if type(node) is AccumulateGrad and node not in waited_for]
    for leaf in sorted(ready, key=lambda node: -node.seq):
        runs = needed is None or needed[leaf]
        g = _before(leaf, pending[leaf], captures, runs, recorded=isinstance(pending[leaf], Tensor))
        if runs:
            _serve(leaf, g, replaces)


def _serve(leaf: AccumulateGrad, g: Any, replaces: bool) -> None:
    """Accumulate a gradient (a Tensor, an array or None) at its leaf."""
    if g is not None and replaces:
        _at_leaf(leaf, g, leaf.accumulate_recorded)
    elif g is not None:
        _at_leaf(leaf, g._array if isinstance(g, Tensor) else g, functools.partial(leaf.accumulate, unshared=False))


def _at_leaf(leaf: AccumulateGrad, g: Any, accumulate: Callable[[Any], None]) -> None:
    """Accumulate a gradient at its leaf; an observer sees it, and post-hooks run."""
    seen_by = observing()
    if seen_by is None:
        accumulate(g)
    else:
        seen_by.node(leaf, g, accumulate)
    if leaf._meta is not None and leaf._meta.post_hooks:
        _after(leaf, (), g)


def run_hooked(hooks: tuple[NodeHook, ...], node: Node, g: Any, run: Callable[[Any], Any]) -> Any:
    """Run a node on the device of its gradient and on its own stream, inside the node hooks, the last one outermost."""
    some = next((x for x in g if x is not None), None) if isinstance(g, list) else g
    if some is not None and type(some) not in _ON_HOST and is_cupy(some):  # NumPy has more scalars than _ON_HOST
        run = node.run_on_device
    for wrap_run in hooks:
        run = functools.partial(wrap_run, node, run=run)
    if some is None:
        return run(g)
    array = some._array if isinstance(some, Tensor) else some
    with on_device_of(array):
        follow(node, array)
        return run(g)


def _send(target: Node, d: Any, pending: dict[Node, Any], heap: list[tuple[int, Node]]) -> None:
    if target not in pending:
        pending[target] = d
        heappush(heap, (-target.seq, target))
    elif d is not None:
        pending[target] = d if pending[target] is None else _sum(pending[target], d)


def _sum(a: Any, b: Any) -> Any:
    """Two gradients of one value added where they lie, which need not be the current device: a graph may cross devices."""
    if type(b) in _ON_HOST or isinstance(b, Tensor):
        return a + b
    with on_device_of(b):
        return added(a, b)


def _add(target: Node, d: Array, pending: dict[Node, Any], owned: set[Node]) -> None:
    """Add a gradient to the one that is pending. The first may belong to others; the second makes a new array, to which the rest add."""
    if pending[target] is None:
        pending[target] = d
    elif target not in owned:
        pending[target] = pending[target] + d if type(d) in _ON_HOST else _sum(pending[target], d)
        owned.add(target)
    elif type(d) in _ON_HOST:
        pending[target] += d
    else:
        with on_device_of(d):
            if not is_cupy(d) or not into("add")(pending[target], d):  # NumPy has more scalars than _ON_HOST
                pending[target] += d


def _to_parent(node: Output, g: Any, pending: dict[Node, Any], heap: list[tuple[int, Node]], owned: set[Node] | None = None) -> None:
    """Put the gradient of one of several outputs among those of its parent, which runs after all of them: its number is smaller.

    ``owned``: the nodes whose gradient is an array of the walk's own, to which it may add in place.
    """
    parent, index = node.parent, node.index
    slots = pending.get(parent)
    if slots is None:
        slots = pending[parent] = [None] * len(parent.shape)
        heappush(heap, (-parent.seq, parent))
    if slots[index] is None:
        slots[index] = g
    elif owned is not None and node in owned and type(g) in _ON_HOST:
        slots[index] += g
    elif g is not None:
        slots[index] = _sum(slots[index], g)
        if owned is not None:
            owned.add(node)


# ---- hooks and captures -------------------------------------------------------------------------------------------------------


def _before(node: Node, g: Any, captures: Captures | None, runs: bool, recorded: bool) -> Any:
    """Process a node's complete gradient: tensor hooks, retain_grad, captures; then the node's pre-hooks, if it runs.

    Returns: the gradient, or what a hook put in its place.
    """
    meta = node._meta
    if meta is not None:
        if meta.output_hooks:
            _without_gradient(node, meta.output_hooks, g)
        g = _writable(g)
        for hook in () if g is None and type(node) is Output else tuple(meta.gradient_hooks.values()):
            g = _replaced(call_users(hook, None if g is None else _shown(g, recorded)), g, node, recorded)
        if meta.retain is not None and g is not None:
            held = wrap(copy(as_array(g))) if not isinstance(g, Tensor) else g.clone()
            meta.retain.grad = held if meta.retain.grad is None else meta.retain.grad + held
    if captures is not None and node in captures and g is not None:
        captures[node] = g if captures[node] is None else _sum(captures[node], g)
    if meta is not None and meta.pre_hooks and runs:
        several = isinstance(g, list)
        seen = node.differentiable_outputs()
        for hook in tuple(meta.pre_hooks.values()):
            grads = [g[place] for place in seen] if several else [g]
            answer = call_users(hook, tuple(None if x is None else _shown(x, recorded) for x in grads))
            if answer is not None:
                _check_answer(node, answer, len(grads))
                taken = [_replaced(a, x, node, recorded) for a, x in zip(answer, grads, strict=True)]
                g = _placed(taken, seen, len(g)) if several else taken[0]
    return g


def _placed(values: Sequence[Any], places: Sequence[int], count: int) -> list[Any]:
    """A list of that length with the values at their places, and None elsewhere."""
    made: list[Any] = [None] * count
    for place, value in zip(places, values, strict=True):
        made[place] = value
    return made


def _without_gradient(node: Node, hooks: dict[int, dict[int, Callable[..., Any]]], grads: list[Any]) -> None:
    """Call the tensor hooks of outputs that have no gradient, beside others that have one, with None."""
    for index, each in hooks.items():
        for hook in tuple(each.values()) if grads[index] is None else ():
            _replaced(call_users(hook, None), None, node, recorded=True)


def _after(node: Node, grads: Any, g: Any) -> Any:
    """Run a node's post-hooks on the gradients that it returned, in the shapes and dtypes of its inputs."""
    edges = zip(node.edges, grads, strict=True)
    grads = tuple([d if d is None or target is None else _writable(fit(d, target, node)) for target, d in edges])
    recorded = any(isinstance(x, Tensor) for x in (g if isinstance(g, list) else [g]))
    arrived = [g[place] for place in node.differentiable_outputs()] if isinstance(g, list) else [g]
    outputs = tuple(None if x is None else _shown(x, recorded) for x in arrived)
    seen = node.differentiable_inputs()
    for hook in tuple(node._meta.post_hooks.values()):  # type: ignore[union-attr]
        answer = call_users(hook, tuple(None if grads[place] is None else _shown(grads[place], recorded) for place in seen), outputs)
        if answer is not None:
            _check_answer(node, answer, len(seen))
            grads = tuple(_placed([a if a is None or recorded else a._array for a in answer], seen, len(grads)))
    return grads


def _check_answer(node: Node, answer: Any, count: int) -> None:
    if not isinstance(answer, tuple):
        raise TypeError(f"a hook of {node.name()} returned {type(answer).__name__}; return a tuple of {count} gradients, or None")
    if len(answer) != count:
        raise RuntimeError(f"a hook of {node.name()} has returned an incorrect number of gradients (got {len(answer)}, expected {count})")
    for value in answer:
        if value is not None and not isinstance(value, Tensor):
            raise TypeError(f"a hook of {node.name()} returned a tuple with {type(value).__name__}; it holds Tensors or None")


def _writable(g: Any) -> Any:
    """Gradients with arrays in place of the scalars that NumPy gives where there are no dimensions, so that a hook can write into them."""
    if isinstance(g, list):
        return list(map(_writable, g))
    return np.asarray(g) if isinstance(g, np.generic) else g


def _shown(g: Any, recorded: bool) -> Tensor:
    return g if recorded and isinstance(g, Tensor) else wrap(as_array(g))


def _replaced(answer: Any, g: Any, node: Node, recorded: bool) -> Any:
    """The gradient after a hook: what the hook returned, or the old one where that is None."""
    if answer is None:
        return g
    if not isinstance(answer, Tensor):
        raise TypeError(
            f"a hook of {node.name()} returned {type(answer).__name__}; return a Tensor, or None to leave the gradient as it is"
        )
    if g is None:
        raise RuntimeError(f"a hook of {node.name()}: can't replace a None gradient with a non-None value; return None where it gets None")
    old = g._array if isinstance(g, Tensor) else g
    if answer._array.shape != old.shape:
        raise RuntimeError(f"a hook of {node.name()} changed the gradient's shape from {list(old.shape)} to {list(answer._array.shape)}")
    if answer._array.dtype != old.dtype:
        raise RuntimeError(f"a hook of {node.name()} changed the gradient's dtype from {old.dtype} to {answer._array.dtype}")
    if device_index(answer._array) != device_index(old):
        raise RuntimeError(f"a hook of {node.name()} moved the gradient to {answer.device}; it belongs on {wrap(old).device}")
    return answer if recorded else answer._array


# ---- fitting a rule's result to the input it is for -----------------------------------------------------------------------------


def fit(d: Any, target: Node, source: Node) -> Any:
    """Undo broadcasting and promotion: bring a gradient to the shape and dtype of the value it is the gradient of.

    Works on raw arrays and on Tensors. Raises: RuntimeError naming the node when the shape cannot come from broadcasting.
    """
    if type(d) is np.ndarray and d.dtype is target.dtype:
        if d.shape == target.shape:
            return d
        if d.dtype.itemsize > 2:  # halves are summed in float32
            return unbroadcast(d, d.shape, target.shape, source)
    array = d._array if isinstance(d, Tensor) else d
    with on_device_of(array):
        if array.shape != target.shape:
            d = unbroadcast(d, array.shape, target.shape, source)
        if d.dtype.kind == "c" and target.dtype.kind != "c":
            d = d.real
        if d.dtype != target.dtype:
            d = d.to(target.dtype) if isinstance(d, Tensor) else converted(d, target.dtype)
    return d


def _summed(d: np.ndarray, axis: int | tuple[int, ...]) -> Any:
    """The sum over some dimensions, added up as by ``sum``."""
    if d.size >= LEAST and d.dtype.char in "fd" and d.flags.c_contiguous:
        made = sums(d, axis)
        if made is not None:
            return made
    return np.add.reduce(d, axis=axis)


def unbroadcast(d: Any, have: tuple[int, ...], want: tuple[int, ...], source: Node) -> Any:
    """Sum a gradient over the dimensions along which its input was broadcast (or spread it, where a rule kept a dimension of 1)."""
    extra = len(have) - len(want)
    if type(d) is np.ndarray and extra > 0 and have[extra:] == want and d.dtype.itemsize > 2:  # as a bias was added to each row
        summed_up = _summed(d, 0 if extra == 1 else tuple(range(extra)))
        return summed_up if want else np.asarray(summed_up)
    grown = tuple(i for i in range(len(have)) if i < extra or (want[i - extra] == 1 and have[i] != 1))
    kept = have[extra:] if extra >= 0 else ()
    if extra < 0 or any(w not in (1, h) for h, w in zip(kept, want, strict=True)):
        raise RuntimeError(
            f"{source.name()} (seq {source.seq}) returned an invalid gradient: got shape {list(have)} but expected a shape that reduces to "
            f"{list(want)}, the shape of the input"
        )
    half = not isinstance(d, Tensor) and d.dtype.itemsize == 2  # which would stop counting at 2048
    summed_up = folded("sum", d, grown, False) if type(d) is device_array() else None
    if summed_up is None:
        summed_up = d.sum(grown, float32) if half else _summed(d, grown) if type(d) is np.ndarray else d.sum(grown)
    d = summed_up
    if isinstance(d, Tensor):
        return d if d._array.shape == want else d.reshape(want)
    return d if want and d.shape == want else d.reshape(want)  # which turns NumPy's scalar into an array
