"""Writes the fast path of forward mode for each operation, as ``core/compile_path.py`` writes that of the operation itself.

It serves one level of forward mode outside any graph, Tensors on NumPy of one dtype, float32 or float64, and an operation whose kind
says how tangents pass. Anything else goes to ``dispatch``, and ``core/forward.py`` does it in general. Tangents travel as bare
arrays.
"""

from __future__ import annotations

import inspect
from collections.abc import Callable
from typing import Any

import numpy as np

from gradlib.backend.dtype import ALWAYS_HELD
from gradlib.core.declaration import Op
from gradlib.core.node import Dual


def number_taken(op: Op, name: str, kind: str) -> str:
    """The condition that an operand is a number that a fast path takes; ``kind``: the expression for its type."""
    if getattr(op.promote, "fits", False):
        return f"({kind} is float or {kind} is int) and {-ALWAYS_HELD} < {name} < {ALWAYS_HELD}"
    return f"{kind} is float or {kind} is int"


def has_forward_path(op: Op) -> bool:
    """Whether an operation's kind says how tangents pass, so that there is a short form of it."""
    if not op.rules or op.view or op.sequence is not None or len(op.outputs) != 1 or set(op.tensors) != set(op.rules):
        return False
    if op.kind not in ("elementwise", "linear", "bilinear") or (op.jvp is not None and op.kind != "elementwise"):
        return False
    return op.kind != "linear" or len(op.tensors) == 1 or bool(op.promote)  # rules of others may do more than multiply elements


def forward_names(op: Op) -> dict[str, Any]:
    """The names that the text of the forward path uses besides those of every compiled text."""
    rules = {f"rule_{name}": rule for name, rule in op.rules.items()}
    return {"Dual": Dual, "broadcast_to": np.broadcast_to, "jvp": op.jvp, **rules}


def forward_path(op: Op, value: Callable[[Op, str], str], leave: str, known: bool) -> list[str]:
    """The lines of an operation's forward mode on arrays.

    Args:
        value: from arguments to the expression that computes the operation's value of them.
        leave: the statement for whatever else.
        known: whether the result has the operands' dtype.
    """
    lines = [
        "    if global_state.active and not global_state.observed:",
        "        _level = thread_state.quick",
        "        if _level is not None:",
    ]
    body = []
    for place, name in enumerate(op.tensors):
        body += _taken(op, name, first=place == 0, numbers=bool(op.promote), leave=leave)
    passed = ", ".join(f"a_{p}" if p in op.tensors else p for p in op.params)
    computed = [
        f"    out = {value(op, passed)}",
        "    if type(out) is not ndarray:",
        "        out = as_array(out)",
        *_tangent(op, value),
        *(() if op.promote else _UNLESS_INTEGER),
    ]
    body += [
        "    try:",
        *(f"    {line}" for line in computed),
        "    except Exception as _error:",  # the general path says what is wrong
        "        left(_error)",
        "    else:",
        "        _result = blank()",
        "        _result._array = out",
        f"        _result._float = {'_dtype' if known else 'None'}",
        "        _result._node = _result._version_slot = None",
        "        if _d is None:",
        "            _result._meta = global_state.born",
        "        else:",
        "            _result._meta = _meta = Dual()",
        "            _meta.level = _level",
        "            _meta.tangent = _d",
        "            if global_state.born is not None:",
        "                _meta.born = global_state.born.born",
        "        return _result",
    ]
    return lines + [f"        {line}" for line in body]


_UNLESS_INTEGER = ("    if _d is not None and not is_differentiable(out.dtype):", "        _d = None")


def _taken(op: Op, name: str, first: bool, numbers: bool, leave: str) -> list[str]:
    """The array and the tangent of one input; anything else than a float, a Tensor or an array ends it."""
    dtype = f"a_{name}.dtype"
    if first:
        unlike = "_dtype is None"
        known = [
            f"        _dtype = {name}._float",
            f"        if _dtype is None and type(a_{name}) is ndarray and ({dtype} is F32 or {dtype} is F64):",
            f"            _dtype = {name}._float = {dtype}",
        ]
    else:
        unlike = f"({name}._float is not _dtype and ({dtype} is not _dtype or type(a_{name}) is not ndarray))"
        known = []
    lines = [
        f"    t_{name} = None",
        f"    if type({name}) is Tensor:",
        f"        a_{name} = {name}._array",
        *known,
        f"        if {unlike} or ({name}._node is not None and thread_state.grad_enabled):",
        f"            {leave}",
        f"        _meta = {name}._meta",
        "        if type(_meta) is Dual and _meta.level is _level:",
        f"            t_{name} = _meta.tangent",
        "        elif _meta is not None and _meta.tangents is not None:",
        f"            t_{name} = _meta.tangents.get(_level)",
        f"            if t_{name} is not None and type(t_{name}) is not ndarray:",
        f"                if t_{name}._node is not None and thread_state.grad_enabled:",
        f"                    {leave}",
        f"                t_{name} = t_{name}._array",
    ]
    if not first and numbers:
        lines += [f"    elif {number_taken(op, name, f'type({name})')}:", f"        a_{name} = {name}"]
    return [*lines, "    else:", f"        {leave}"]


def _tangent(op: Op, value: Callable[[Op, str], str]) -> list[str]:
    """The tangent ``d`` of the output, None when no input has one."""
    lines = ["    _d = None"]
    if op.kind == "linear" and len(op.tensors) == 1:
        passed = ", ".join(f"t_{p}" if p in op.tensors else p for p in op.params)
        return [
            *lines,
            f"    if t_{op.tensors[0]} is not None:",
            f"        _d = {value(op, passed)}",
            "        if type(_d) is not ndarray:",
            "            _d = as_array(_d)",
        ]
    for name in op.tensors:
        if op.kind == "bilinear":
            term = value(op, ", ".join(f"t_{p}" if p == name else f"a_{p}" if p in op.tensors else p for p in op.params))
        else:
            term = f"rule_{name}({', '.join(_raw_name(op, name, need) for need in op.rule_params[name])})"
        added = term if name == op.tensors[0] else f"{term} if _d is None else _d + {term}"
        lines += [f"    if t_{name} is not None:", f"        _d = {added}"]
    if op.jvp is not None:
        given = ", ".join(n if n.startswith("t_") else _raw_name(op, "", n) for n in inspect.signature(op.jvp).parameters)
        moved = " and ".join(f"t_{name} is not None" for name in op.tensors)
        lines = [lines[0], f"    if {moved}:", f"        _d = jvp({given})", "    else:", *(f"    {line}" for line in lines[1:])]
    return [*lines, "    if _d is not None and type(_d) is not ndarray:", "        _d = as_array(_d)"]


def _raw_name(op: Op, owner: str, need: str) -> str:
    """The expression for one name of an elementwise rule, on arrays."""
    if need == "g":
        alone = len(op.tensors) == 1
        return f"t_{owner}" if alone else f"(t_{owner} if t_{owner}.shape == out.shape else broadcast_to(t_{owner}, out.shape))"
    kind, place = op.decoded(need)
    if kind == "tensor":
        return f"a_{need}"
    return f"getattr(a_{op.tensors[place]}, {kind!r}, ())" if kind in ("shape", "dtype") else need
