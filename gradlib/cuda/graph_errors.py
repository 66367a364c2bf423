"""Errors for operations that a CUDA graph cannot capture: they name the operation, say why, and what to do instead."""

from __future__ import annotations

import re
import sysconfig
from pathlib import Path
from types import TracebackType

_HERE = str(Path(__file__).resolve().parent.parent)
_CAPTURING = str(Path(__file__).resolve().parent / "graph")  # the files that capture and call
_LIBRARIES = tuple(sysconfig.get_path(each) for each in ("stdlib", "purelib", "platlib"))
_WRITTEN = "gradlib, written for "
_NOT_NAMES = ("call", "wrapper", "__call__", "__enter__", "__exit__", "apply")

_REASONS = (
    (
        r"D2H transfers",
        "it asks for values on the host, which a graph only computes at its replays",
        "keep it on the device (where, clamp, masks as factors), or do it before the capture or behind a replay",
    ),
    (
        r"H2D transfers",
        "it copies values of the host to the device, and a graph would not see them change",
        "make the tensor before the capture, and copy_ new values into it before a replay",
    ),
    (
        r"calling (?P<library>\w+) API during stream capture",
        "CuPy refuses {library} while a stream captures (cupy issue 6290)",
        "do it before the capture or behind a replay",
    ),
    (
        r"synchronous API calls|StreamCaptureUnsupported|CapturedEvent",
        "it waits for the device, or does what CUDA refuses while a stream captures",
        "do it before the capture or behind a replay",
    ),
    (
        r"StreamCaptureImplicit|StreamCaptureMerge|StreamCaptureIsolation",
        "it depends on work of a stream that does not take part in the capture",
        "do all of it within the capture (for backward: the forward too), or wait for that stream before",
    ),
    (
        r"random stream of a CUDA device is set during",
        "it sets a random stream, which at a replay goes on where it is then",
        "seed before a replay, or do all of it (for a checkpoint: forward and backward) within the capture",
    ),
    (
        r"random numbers are drawn on another device",
        "it draws random numbers on another device than the graph's, whose streams a replay does not advance",
        "draw on the graph's device and copy, or capture a graph for each device",
    ),
    (
        r"StreamCaptureUnjoined",
        "a stream that took part in it has not joined it again",
        "let the stream of the capture wait for it (wait_stream) before the capture ends",
    ),
    (
        r"StreamCapture|invalidated the capture",
        "an earlier error, of this thread or of another one that waited or allocated memory meanwhile, has invalidated the capture",
        'do not catch errors within it, and let other threads pause or pass capture_error_mode="thread_local"',
    ),
)


def refusal(error: BaseException) -> RuntimeError | None:
    """The error to raise instead of CUDA's or CuPy's, if that says that something cannot be captured; None for any other error."""
    if not isinstance(error, (RuntimeError, NotImplementedError)) or isinstance(error, CaptureRefused):
        return None
    if "cannot be captured in a CUDA graph" in str(error):  # as a Function says whose is_traceable is False
        return CaptureRefused(str(error))
    for pattern, reason, advice in _REASONS:
        if found := re.search(pattern, str(error)):
            reason = reason.format(**found.groupdict())
            return CaptureRefused(f"{operation_of(error)} cannot be captured in a CUDA graph: {reason}; {advice}")
    return None


class CaptureRefused(RuntimeError):
    """Something cannot be captured in a CUDA graph. The capture has ended, and its stream and memory are free again."""


def operation_of(error: BaseException) -> str:
    """The operation of gradlib in which an error was raised: the one that was called, and the one within it if that is another.

    Within it is also what a function of the user's calls that gradlib runs, as the backward of a Function.
    """
    called = inner = None
    is_users = True
    step: TracebackType | None = error.__traceback__
    while step is not None:
        code = step.tb_frame.f_code
        written = code.co_filename.startswith(_WRITTEN)
        ours = code.co_filename.startswith(_HERE) and not code.co_filename.startswith(_CAPTURING)
        if written or ours:
            name = code.co_name.removesuffix("_op")
            if written and name.startswith("run"):  # of a node: the operation stands in the name of the file
                name = f"the backward of {code.co_filename.removeprefix(_WRITTEN).partition(',')[0].removesuffix('_op')}"
            if is_users and name not in _NOT_NAMES and (not name.startswith("_") or name.endswith("__")):
                called, inner = (name, None) if called is None else (called, name)
                is_users = False
            if written:
                inner = name
        elif called is not None and not code.co_filename.startswith(_LIBRARIES) and not code.co_filename.endswith(".pyx"):
            is_users = True
        step = step.tb_next
    if called is None:
        return inner or "what was called"
    return called if inner in (None, called) or called.strip("_") == inner else f"{called} (in it {inner})"
