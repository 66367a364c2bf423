"""Anomaly mode: shows which forward call made a node whose backward raises or returns NaN. Source: torch.autograd.anomaly_mode."""

from __future__ import annotations

import os
import threading
import traceback
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

from gradlib.backend.array import Array, namespace, on_device_of
from gradlib.backend.thread import carried
from gradlib.core.batched import Batched
from gradlib.core.modes import on_every_node
from gradlib.core.node import Node
from gradlib.core.tensor import raw
from gradlib.core.written import WRITTEN

__all__ = ["detect_anomaly", "is_anomaly_check_nan_enabled", "is_anomaly_enabled", "set_anomaly_enabled", "set_detect_anomaly"]

_TRACEBACK, _PARENT = "traceback_", "parent_"  # keys of a node's metadata, as in torch
_PACKAGE = f"{Path(__file__).resolve().parent.parent}{os.sep}"


class _Running(threading.local):
    """Thread-local: the node whose backward is running."""

    node: Node | None = None


_running = carried(_Running())
_enabled = False
_check_nan = True


def is_anomaly_enabled() -> bool:
    """Whether anomaly mode is on.

    Source: torch.is_anomaly_enabled.
    Example:
        >>> gradlib.is_anomaly_enabled()
        False
    """
    return _enabled


def is_anomaly_check_nan_enabled() -> bool:
    """Whether anomaly mode, when on, looks for NaN.

    Source: torch.is_anomaly_check_nan_enabled.
    Example:
        >>> gradlib.is_anomaly_check_nan_enabled()
        True
    """
    return _check_nan


def set_anomaly_enabled(enabled: bool, check_nan: bool = True) -> None:
    """Switch anomaly mode on or off, in all threads.

    Args:
        enabled: whether nodes keep the traceback of their forward.
        check_nan: whether a gradient that is NaN is an error.
    Source: torch.set_anomaly_enabled.
    Example:
        >>> gradlib.set_anomaly_enabled(True)
        >>> gradlib.is_anomaly_enabled()
        True
        >>> gradlib.set_anomaly_enabled(False)
    """
    global _enabled, _check_nan
    _check_nan = bool(check_nan)
    if bool(enabled) == _enabled:
        return
    _enabled = bool(enabled)
    if _enabled:
        _on_every_node.__enter__()
    else:
        _on_every_node.__exit__()


class detect_anomaly:
    """While entered, a node whose backward raises, or gives NaN, is reported with the traceback of the call in forward that made it.

    Every operation then keeps a traceback: it is slow and meant for finding a fault. Enter it before the forward pass.

    Args:
        check_nan: raise RuntimeError when a node's backward gives NaN; the error names the node and its sequence number.
    Source: torch.autograd.detect_anomaly.
    Example:
        >>> import warnings
        >>> with warnings.catch_warnings():
        ...     warnings.simplefilter("ignore")  # in use, the traceback is what one wants to see
        ...     with gradlib.autograd.detect_anomaly():
        ...         y = gradlib.tensor(1.0, requires_grad=True) * gradlib.tensor(gradlib.nan)
        ...         try:
        ...             y.backward()
        ...         except RuntimeError as error:
        ...             print(str(error).partition(" (")[0])
        Function 'MulBackward0' returned nan values in its 0th output.
    """

    def __init__(self, check_nan: bool = True) -> None:
        self.prev = _enabled
        self.prev_check_nan = _check_nan
        self.check_nan = check_nan
        warnings.warn(
            "Anomaly Detection has been enabled. This mode will increase the runtime and should only be enabled for debugging.",
            stacklevel=2,
        )

    def __enter__(self) -> None:
        set_anomaly_enabled(True, self.check_nan)

    def __exit__(self, *exc: object) -> None:
        set_anomaly_enabled(self.prev, self.prev_check_nan)


class set_detect_anomaly:
    """Switch anomaly mode on or off at once; as a context manager, put it back on leaving.

    Args:
        mode: whether it is on. check_nan: as for ``detect_anomaly``.
    Source: torch.autograd.set_detect_anomaly.
    Example:
        >>> with gradlib.autograd.set_detect_anomaly(True):
        ...     print(gradlib.is_anomaly_enabled())
        True
        >>> gradlib.is_anomaly_enabled()
        False
    """

    def __init__(self, mode: bool, check_nan: bool = True) -> None:
        self.prev = _enabled
        self.prev_check_nan = _check_nan
        set_anomaly_enabled(mode, check_nan)

    def __enter__(self) -> None:
        pass

    def __exit__(self, *exc: object) -> None:
        set_anomaly_enabled(self.prev, self.prev_check_nan)


def _remember(node: Node) -> None:
    """Store in a new node's metadata the traceback of the call that made it, and the node in whose backward that was."""
    frames = traceback.extract_stack()
    while len(frames) > 1 and (frames[-1].filename.startswith((_PACKAGE, WRITTEN))):
        frames.pop()
    node.metadata[_TRACEBACK] = traceback.format_list(frames)
    if _running.node is not None:
        node.metadata[_PARENT] = _running.node.public


def _run(node: Node, g: Any, run: Callable[[Any], Any]) -> Any:
    """Run a node in backward; if it raises or returns NaN, report the forward call that made it."""
    outer, _running.node = _running.node, node
    try:
        grads = run(g)
        if _check_nan:
            _refuse_nan(node, (grads,) if node.single else grads)
    except Exception:
        _report(node)
        raise
    finally:
        _running.node = outer
    return grads


_on_every_node = on_every_node(_remember, _run)


def _refuse_nan(node: Node, grads: Any) -> None:
    for i, grad in enumerate(grads):
        while isinstance(grad, Batched):
            grad = grad.value
        array = raw(grad)
        if array is not None and node.edges[i] is not None and _has_nan(array):
            raise RuntimeError(f"Function '{node.name()}' returned nan values in its {i}th output. (seq {node.seq})")


def _has_nan(array: Array) -> bool:
    with on_device_of(array):
        return array.dtype.kind in "fcV" and bool(namespace(array).isnan(array).any())


def _report(node: Node) -> None:
    """Warn with the traceback of the call that made a node; if it was made in backward, also of the call that made the node that ran."""
    metadata = node._meta.metadata if node._meta is not None else {}
    if _TRACEBACK not in metadata:
        _warn(
            f"Error detected in {node.name()}. No forward pass information available. Enable detect anomaly during forward pass for more "
            "information."
        )
        return
    _warn(f"Error detected in {node.name()}. Traceback of forward call that caused the error:\n{''.join(metadata[_TRACEBACK])}")
    while _PARENT in metadata:
        parent = metadata[_PARENT]
        metadata = parent.metadata
        made = "".join(metadata.get(_TRACEBACK, ["(made outside anomaly mode)\n"]))
        _warn(
            f"\n\nPrevious calculation was induced by {parent.name()}. Traceback of forward call that induced the previous "
            f"calculation:\n{made}"
        )


def _warn(text: str) -> None:
    warnings.warn(text, UserWarning, stacklevel=2)
