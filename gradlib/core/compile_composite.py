"""Writes the public form of each function of operations, which takes NumPy's names and ``out``, is observed, and names a wrong argument."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Mapping
from typing import Any

from gradlib.core import modes
from gradlib.core.arguments import refuse_wrong
from gradlib.core.declaration import OPERATIONS
from gradlib.core.out import FUNCTIONS as TAKE_OUT, call_into, with_out
from gradlib.core.tensor import Tensor
from gradlib.core.written import WRITTEN, written_when_called


def compile_composite(function: Callable[..., Any], label: str | None) -> Callable[..., Any]:
    """The public form of a function of operations: it takes NumPy's ``axis`` and ``keepdims`` too, and observers see it by its label."""
    name, own = function.__name__, inspect.signature(function)
    parameters = own.parameters
    defaults = {p.name: p.default for p in parameters.values()} | {"out": None}
    names: Callable[[], dict[str, Any]] = functools.partial(
        dict, _function=function, run_observed=run_observed, call_into=call_into, refuse_wrong=refuse_wrong
    )
    into = with_out(own) if name in TAKE_OUT else own
    head, call = _listed(into.parameters)
    if "dim" in parameters:
        head, call = f"{head}, **aliases", f"{call}, **aliases"
    file = f"{WRITTEN}{label or name}, function"
    made = functools.wraps(function)(
        written_when_called(name, file, head, call, functools.partial(source_of_composite, name, parameters, label, into), defaults, names)
    )
    made.__signature__ = into  # type: ignore[attr-defined]
    return made


def source_of_composite(name: str, parameters: Mapping[str, inspect.Parameter], label: str | None, into: inspect.Signature) -> str:
    """The Python text of ``compile_composite``."""
    call = _listed(parameters)[1]
    head = _listed(into.parameters)[0]
    lines = []
    if "dim" in parameters:
        head += ", **aliases"
        lines += ["    if aliases:", "        dim = aliases.pop('axis', dim)"]
        lines += ["        keepdim = aliases.pop('keepdims', keepdim)"] if "keepdim" in parameters else []
        lines += ["        if aliases:", f"            return _function({call}, **aliases)  # which refuses them"]
    if name in TAKE_OUT:
        lines += ["    if out is not None:", f"        return call_into(_function, out, {call})"]
    if label is not None:
        lines += ["    if global_state.active:", f"        return run_observed({label!r}, _function, {call})"]
    lines.append(f"    return _function({call})")
    named = ["    except Exception:", f"        refuse_wrong({(label or name)!r}, _function, {call})", "        raise"]
    return "\n".join([f"def {name}({head}):", "    try:", *(f"    {line}" for line in lines), *named])


_STARS: dict[Any, str] = {inspect.Parameter.VAR_POSITIONAL: "*", inspect.Parameter.VAR_KEYWORD: "**"}


def _listed(parameters: Mapping[str, inspect.Parameter]) -> tuple[str, str]:
    """Parameters as they stand in a definition, their defaults by the names ``_default_NAME``; and how they are handed on."""
    head: list[str] = []
    call: list[str] = []
    for p in parameters.values():
        if p.kind is p.KEYWORD_ONLY and not any(part.startswith("*") for part in head):
            head.append("*")
        stars = _STARS.get(p.kind, "")
        head.append(stars + p.name + ("" if p.default is p.empty else f"=_default_{p.name}"))
        call.append(f"{p.name}={p.name}" if p.kind is p.KEYWORD_ONLY else stars + p.name)
    return ", ".join(head), ", ".join(call)


def run_observed(label: str, function: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """Run a composite under the observer of this thread, if it has one."""
    observer = modes.thread_state.observer
    given = (*args, *named.values())
    flat = (x for value in given for x in (value if isinstance(value, (list, tuple)) else (value,)))
    if observer is None or label in OPERATIONS or not any(isinstance(x, Tensor) for x in flat):
        return function(*args, **named)
    return observer.composed(label, given, functools.partial(function, *args, **named))
