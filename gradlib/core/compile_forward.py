"""Writes the plain path of forward mode for each operation, as ``core/compile.py`` writes that of the operation itself.

It serves one level of forward mode outside any graph, Tensors on NumPy of one dtype, float32 or float64, and an operation whose kind
says how tangents pass. It answers ``NotImplemented`` to anything else, and ``core/forward.py`` does it in general. Tangents travel as bare
arrays.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from gradlib.core.compile import begin_value, build
from gradlib.core.node import Dual

if TYPE_CHECKING:
    from gradlib.core.op import Op


def compile_forward(op: Op) -> Any:
    """``forward(level, *args)`` of an operation, or None where its kind does not say how tangents pass."""
    if not op.rules or op.view or op.sequence is not None or len(op.outputs) != 1 or set(op.tensors) != set(op.rules):
        return None
    if op.kind not in ("elementwise", "linear", "bilinear") or op.jvp is not None:
        return None
    if op.kind == "linear" and not op.promote and len(op.tensors) > 1:
        return None  # its rules may do more than multiply element by element
    names = {f"rule_{name}": rule for name, rule in op.rules.items()}
    return build(
        "forward", source_of_forward(op), {"op": op, "_value": op.value, "_direct": op.direct, "Dual": Dual, "spread": spread, **names}
    )


def spread(tangent: Any, shape: tuple[int, ...]) -> Any:
    """A tangent broadcast to the shape of the output."""
    return np.broadcast_to(tangent, shape)


def source_of_forward(op: Op) -> str:
    """The Python text of an operation's forward mode on arrays."""
    lines = [f"def forward(level, {', '.join(op.params)}):"]
    for place, name in enumerate(op.tensors):
        lines += _taken(name, first=place == 0, numbers=bool(op.promote), only=op.tensors[0])
    passed = ", ".join(f"a_{p}" if p in op.tensors else p for p in op.params)
    lines += [
        f"    out = {begin_value(op)}{passed})",
        "    if type(out) is not ndarray:",
        "        out = as_array(out)",
        *_tangent(op),
        "    _result = blank()",
        "    _result._array = out",
        "    _result._node = _result._version_slot = None",
        "    if d is None:",
        "        _result._meta = None",
        "    else:",
        "        _result._meta = meta = Dual()",
        "        meta.level = level",
        "        meta.tangent = d",
        "    return _result",
    ]
    return "\n".join(lines)


def _taken(name: str, first: bool, numbers: bool, only: str) -> list[str]:
    """The array and the tangent of one input; whatever is not plain ends it."""
    same = f"(a_{name}.dtype is F32 or a_{name}.dtype is F64)" if first else f"a_{name}.dtype is a_{only}.dtype"
    lines = [
        f"    t_{name} = None",
        f"    if type({name}) is Tensor:",
        f"        a_{name} = {name}._array",
        f"        if not ({same} and type(a_{name}) is ndarray) or ({name}._node is not None and local.grad_enabled):",
        "            return NotImplemented",
        f"        meta = {name}._meta",
        "        if type(meta) is Dual and meta.level is level:",
        f"            t_{name} = meta.tangent",
        "        elif meta is not None and meta.tangents is not None:",
        f"            t_{name} = meta.tangents.get(level)",
        f"            if t_{name} is not None and type(t_{name}) is not ndarray:",
        f"                if t_{name}._node is not None and local.grad_enabled:",
        "                    return NotImplemented",
        f"                t_{name} = t_{name}._array",
    ]
    if not first and numbers:
        lines += [f"    elif type({name}) is float or type({name}) is int:", f"        a_{name} = {name}"]
    return [*lines, "    else:", "        return NotImplemented"]


def _tangent(op: Op) -> list[str]:
    """The tangent ``d`` of the output, None when no input has one."""
    lines = ["    d = None"]
    if op.kind == "linear" and len(op.tensors) == 1:
        passed = ", ".join(f"t_{p}" if p in op.tensors else p for p in op.params)
        return [
            *lines,
            f"    if t_{op.tensors[0]} is not None:",
            f"        d = {begin_value(op)}{passed})",
            "        if type(d) is not ndarray:",
            "            d = as_array(d)",
        ]
    for name in op.tensors:
        if op.kind == "bilinear":
            term = f"{begin_value(op)}{', '.join(f't_{p}' if p == name else f'a_{p}' if p in op.tensors else p for p in op.params)})"
        else:
            term = f"rule_{name}({', '.join(_raw_name(op, name, need) for need in op.rule_params[name])})"
        added = term if name == op.tensors[0] else f"{term} if d is None else d + {term}"
        lines += [f"    if t_{name} is not None:", f"        d = {added}"]
    return [*lines, "    if d is not None and type(d) is not ndarray:", "        d = as_array(d)"]


def _raw_name(op: Op, owner: str, need: str) -> str:
    """The expression for one name of an elementwise rule, on arrays."""
    if need == "g":
        return f"(t_{owner} if t_{owner}.shape == out.shape else spread(t_{owner}, out.shape))" if len(op.tensors) > 1 else f"t_{owner}"
    if need in op.tensors:
        return f"a_{need}"
    for tensor in op.tensors:
        if need in (f"{tensor}_shape", f"{tensor}_dtype"):
            return f"getattr(a_{tensor}, '{need[len(tensor) + 1 :]}', ())"
    return need
