"""``graphed``: a function is captured as a CUDA graph for each set of argument shapes, and runs eagerly where it cannot be captured."""

from __future__ import annotations

import functools
import threading
import warnings
from collections import OrderedDict
from collections.abc import Callable
from types import MethodType
from typing import Any

import numpy as np

from gradlib.backend.capture import capturing, under_way
from gradlib.backend.device import default_index
from gradlib.backend.dtype import get_default_dtype
from gradlib.backend.random import positions_on
from gradlib.backend.thread import carried
from gradlib.core.grad_mode import inference_mode, no_grad
from gradlib.core.modes import thread_state
from gradlib.core.tensor import Tensor
from gradlib.cuda.graph_errors import CaptureRefused
from gradlib.cuda.graph_pools import graph_pool_handle
from gradlib.cuda.graphed_callables import capture, taking
from gradlib.func.tree import flatten, unflatten

_WARMUPS = 3


class _Warming(threading.local):
    up = False  # whether this thread captures a graphed function, or runs it before: what it calls runs as a part of it


_warming = carried(_Warming())


class Graphed:
    """A function wrapped by ``graphed``; ``reset()`` forgets its graphs and frees their memory."""

    def __init__(self, function: Callable[..., Any], max_graphs: int) -> None:
        if max_graphs < 1:
            raise ValueError(f"graphed: max_graphs is at least 1, got {max_graphs}")
        self._function, self._most = function, max_graphs
        self._graphs: OrderedDict[Any, Callable[..., Any] | None] = OrderedDict()  # None: this one cannot be captured
        self._lock = threading.RLock()  # one call at a time writes where a graph reads, until its results are copied
        functools.update_wrapper(self, function)

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        leaves, structure = flatten((args, kwargs))
        tensors = [leaf for leaf in leaves if isinstance(leaf, Tensor)]
        transformed = thread_state.transforming or thread_state.interpreters
        within = capturing.capture is not None or _warming.up
        if within or transformed or not tensors or not all(value.is_cuda for value in tensors):
            return self._function(*args, **kwargs)
        known: dict[int, int] = {}
        places = tuple([known.setdefault(id(value), len(known)) for value in tensors])  # a tensor that is given twice is one input
        modes = thread_state.grad_enabled, thread_state.inference, get_default_dtype(), default_index()
        key = (structure, places, *modes, *map(_key, leaves))
        with self._lock:
            made = self._replayed(key, leaves, structure, places)
        return self._function(*args, **kwargs) if made is _EAGER else made

    def _replayed(self, key: Any, leaves: list[Any], structure: Any, places: tuple[int, ...]) -> Any:
        """What a graph gives, which is captured if it is not there; _EAGER where none can be."""
        if key not in self._graphs:
            if under_way:  # of another thread, whose capture this one's would break
                return _EAGER
            self._graphs[key] = self._captured(leaves, structure, places)
            if len(self._graphs) > self._most:
                self._graphs.popitem(last=False)
        self._graphs.move_to_end(key)
        run = self._graphs[key]
        if run is None:
            return _EAGER
        found, outer = flatten(run(*_first([leaf for leaf in leaves if isinstance(leaf, Tensor)], places)))
        copies = [value.clone() if isinstance(value, Tensor) else value for value in found]  # the next replay overwrites the graph's own
        return unflatten(copies, outer)

    def _captured(self, leaves: list[Any], structure: Any, places: tuple[int, ...]) -> Callable[..., Any] | None:
        """Capture the function of the tensors among the arguments; None, with a warning, if it cannot be captured."""
        function = self._function  # and not this object: the graphs would wait for garbage to be collected
        others = [_A_TENSOR if isinstance(leaf, Tensor) else leaf for leaf in leaves]  # the graph keeps none of this call's tensors

        def call(*tensors: Tensor) -> Any:
            left = iter(places)
            args, kwargs = unflatten([tensors[next(left)] if leaf is _A_TENSOR else leaf for leaf in others], structure)
            return function(*args, **kwargs)

        first = _first([leaf for leaf in leaves if isinstance(leaf, Tensor)], places)
        with inference_mode(False), no_grad():  # tensors that count how often they are written
            given = [value.detach().clone().requires_grad_(value.requires_grad) for value in first]
        positions: Any = ()
        try:
            made = taking(call, tuple(given))
            positions = positions_on(made.index)
            _warming.up = True
            capture([made], _WARMUPS, True, graph_pool_handle())
            if made.written:
                raise CaptureRefused(f"its tensor number {made.written[0]} is written in place, and a graph would write one of its own")
        except CaptureRefused as error:
            warnings.warn(f"{self._function!r} runs without a graph for these shapes: {error}", UserWarning, stacklevel=4)
            return None
        finally:
            _warming.up = False
            for generator, position in positions:
                generator.restore(position)  # the first call draws what it would without a graph
        return made.function()

    def __get__(self, instance: Any, owner: type | None = None) -> Any:
        """As a method: with the object that it belongs to as the first argument."""
        return self if instance is None else MethodType(self, instance)

    def __reduce__(self) -> tuple[Any, ...]:
        """A copy captures graphs of its own; a method's is bound to the copy of its object."""
        return Graphed, (self._function, self._most)

    def reset(self) -> None:
        """Forget all graphs; the next call captures anew."""
        self._graphs.clear()


_A_TENSOR, _EAGER = object(), object()


def _first(tensors: list[Tensor], places: tuple[int, ...]) -> list[Tensor]:
    """Of tensors with their numbers, the first with each number."""
    return [value for at, value in enumerate(tensors) if places.index(places[at]) == at]


def _key(leaf: Any) -> Any:
    if isinstance(leaf, Tensor):
        return tuple(leaf.shape), str(leaf.dtype), str(leaf.device), leaf.requires_grad
    try:
        hash(leaf)
    except TypeError:
        raise TypeError(
            "graphed: arguments that are no tensors must be hashable, as each of their values has a graph of its own; got "
            f"{type(leaf).__name__}"
        ) from None
    return type(leaf), repr(leaf) if isinstance(leaf, (float, complex, np.generic)) else leaf  # 0.0 equals -0.0, and NaN not itself


def graphed(function: Callable[..., Any] | None = None, *, max_graphs: int = 8) -> Any:
    """Decorate a function or method of CUDA tensors to run as CUDA graphs: one is captured at the first call with each set of shapes.

    The function runs eagerly for tensors on the CPU, within or beside another capture, in a transform of ``gradlib.func`` or forward mode,
    and, after one warning that names the operation, where it cannot be captured, or writes its arguments. Calls with the same shapes and
    the same other arguments must do the same work and have no side effects: what else the function uses, such as weights, is read where
    it lay at the capture, and is to be changed in place. Gradients reach the arguments and such weights. Results are copies. Backward of
    a call comes before the next call with the same shapes.

    Args:
        function: takes and returns tensors, or nested tuples, lists and dicts of them. Other arguments must be hashable; each of their
            values has a graph of its own.
        max_graphs: how many graphs are kept; beyond that, the least recently used one is dropped.
    Returns: the function, with a method ``reset``.
    Raises: ValueError for max_graphs below 1; TypeError for arguments that cannot be hashed; RuntimeError in a backward whose values a
        later call has overwritten, and for second derivatives.
    Example:
        >>> @gradlib.cuda.graphed
        ... def loss(x):
        ...     return x.square().sum()
        >>> x = gradlib.ones(3, device="cuda" if gradlib.cuda.is_available() else "cpu", requires_grad=True)
        >>> loss(x).backward()
        >>> x.grad.tolist()
        [2.0, 2.0, 2.0]
    """
    if function is None:
        return functools.partial(graphed, max_graphs=max_graphs)
    return Graphed(function, max_graphs)
