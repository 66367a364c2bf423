"""Forward mode in the fast path: the lines by which the text of ``core/compile_path.py`` carries tangents, in the place of recording.

It serves one level of forward mode outside any graph, and operations whose kind says how tangents pass; the others where no input has one.
Anything else goes to ``dispatch``, and ``core/forward.py`` does it in general. Tangents travel as bare arrays: ``t_NAME`` is that of an
operand, ``_d`` that of the result, and None where there is none.
"""

from __future__ import annotations

import inspect
from typing import Any

from gradlib.backend.array import is_array, zeros_like
from gradlib.backend.dtype import DIFFERENTIABLE, NUMBERS
from gradlib.core.declaration import Op
from gradlib.core.modes import global_state
from gradlib.core.node import Dual
from gradlib.core.tensor import Tensor, as_array
from gradlib.core.variant import Variant
from gradlib.core.views import View


def has_forward(op: Op) -> bool:
    """Whether an operation has a fast path in forward mode: not where its value may begin to write an input, or its steps are run."""
    return bool(op.tensors) and not op.overwrites and op.steps is None


def knows_tangent(op: Op) -> bool:
    """Whether an operation's kind says how tangents pass, so that there is a short form of it."""
    if op.jvp is not None and op.kind != "elementwise":
        return True
    if op.kind == "linear":
        return not op.joint
    return op.kind in ("elementwise", "bilinear") and len(op.outputs) == 1 and set(op.tensors) == set(op.rules) and op.sequence is None


def tangent_of(op: Op, name: str, variant: Variant) -> list[str]:
    """The tangent of a Tensor, unless it is part of a graph."""
    return [
        f"if {name}._node is not None and thread_state.grad_enabled:",
        f"    {variant.leave(op)}",
        f"_meta = {name}._meta",
        "if _meta is None:",
        f"    t_{name} = None",
        "elif type(_meta) is Dual and _meta.level is _level:",
        f"    t_{name} = _meta.tangent",
        "else:",
        f"    t_{name} = None if _meta.tangents is None else _meta.tangents.get(_level)",
        f"    if t_{name} is not None and type(t_{name}) is not {variant.array}:",
        f"        if t_{name}._node is not None and thread_state.grad_enabled:",
        f"            {variant.leave(op)}",
        f"        t_{name} = t_{name}._array",
    ]


def leave_if_moved(op: Op, variant: Variant) -> list[str]:
    """Hand the call over where an input has a tangent."""
    if not variant.forward or not op.rules:
        return []
    moved = " or ".join("_moved" if name == op.sequence else f"t_{name} is not None" for name in op.tensors if name in op.rules)
    return [f"if {moved}:", f"    {variant.leave(op)}"]


def tangent_of_result(op: Op, variant: Variant, known: bool) -> list[str]:
    """The tangent of the output, None when no input has one.

    Args:
        known: whether the result has the operands' dtype.
    """
    several = len(op.outputs) > 1
    lines = ["_d = None", *(_by_value(op, variant) if _is_by_value(op) else _by_terms(op, variant))]
    if several and op.jvp is not None:
        return [*lines, "if _d is not None:", "    _d = alike(_d, out)"]
    made = [f"if type(_d) is not {variant.array}:", "    _d = as_array(_d)"] if not several else []
    if (variant.on_device or op.jvp is not None) and not several:  # rules and formulas need not see to it
        made += ["if _d.dtype is not out.dtype:", "    _d = _d.astype(out.dtype)"]
    if _is_by_rules(op) and op.kind == "linear":
        made += ["if _d.shape != out.shape:", "    _d = broadcast_to(_d, out.shape).copy()"]
    if made:
        lines += ["if _d is not None:", *(f"    {line}" for line in made)]
    if not known and not several:
        integer = f"out.dtype is not F32 and out.dtype is not F64 and out.dtype.kind not in {DIFFERENTIABLE!r}"
        lines += [f"if {integer}:", "    _d = None"]
    return lines


def attached(op: Op) -> list[str]:
    """Give the results their tangents."""
    if len(op.outputs) > 1:
        carried = ["        if _each is not None:", "            carry(_result, _level, _each)"]
        return ["if _d is not None:", "    for _result, _each in zip(_results, _d):", *carried]
    if op.view:
        return ["if _d is not None:", "    carry(_result, _level, _d)"]
    return [
        "_result._version_slot = None",
        "if _d is None:",
        "    _result._meta = global_state.born",
        "else:",
        "    _result._meta = _meta = Dual()",
        "    _meta.level = _level",
        "    _meta.tangent = _d",
        "    if global_state.born is not None:",
        "        _meta.born = global_state.born.born",
    ]


def carry(result: Tensor, level: Any, tangent: Any) -> None:
    """Let a result that nobody has seen yet, which may be a view, carry a tangent."""
    if isinstance(result._meta, View):
        result._meta.tangents = {level: tangent}
        return
    result._meta = meta = Dual()
    meta.level, meta.tangent = level, tangent
    if global_state.born is not None:
        meta.born = global_state.born.born


def alike(tangents: tuple[Any, ...], results: tuple[Any, ...]) -> list[Any]:
    """The tangents that a formula gives for several results, as arrays of their dtypes; None for what has none."""
    made = []
    for t, result in zip(tangents, results, strict=True):
        if t is not None and t.dtype is not result.dtype:
            t = t.astype(result.dtype)
        made.append(t if t is None or is_array(t) else as_array(t))
    return made


def zero(value: Any) -> Any:
    """The tangent of an array or a number, Python's or NumPy's, that has none: zeros of its shape and dtype."""
    if is_array(value):
        return zeros_like(value)
    return type(value)(0) if isinstance(value, NUMBERS) else value


def _is_by_rules(op: Op) -> bool:
    """Whether each rule, which multiplies the elements of a cotangent, does so with a tangent; those of some linear operations do more."""
    if op.kind != "linear":
        return op.kind == "elementwise"
    return len(op.tensors) > 1 and bool(op.promote) and op.sequence is None and set(op.tensors) == set(op.rules)


def _is_by_value(op: Op) -> bool:
    """Whether the result's tangent is one expression of all of the inputs' tangents."""
    return not _is_by_rules(op) and op.kind != "bilinear"


def _by_value(op: Op, variant: Variant) -> list[str]:
    """The operation applied to the tangents, or its own formula for them; an input without one among others has zeros."""
    moved = leave_if_moved(op, variant)[0]
    if op.jvp is not None:
        return [moved, f"    _d = {_formula(op)}"]
    passed = []
    for name in op.params:
        if name in op.rules:
            name = _or_zero(op, name)
        elif name in op.tensors:
            name = f"a_{name}"
        passed.append(name)
    return [moved, f"    _d = {variant.value(op, ', '.join(passed))}"]


def _by_terms(op: Op, variant: Variant) -> list[str]:
    """A sum over the inputs that have a tangent."""
    lines: list[str] = []
    for name in op.tensors:
        if name not in op.rules:
            continue
        if op.kind == "bilinear":
            term = variant.value(op, ", ".join(f"t_{p}" if p == name else f"a_{p}" if p in op.tensors else p for p in op.params))
        else:
            term = f"rule_{name}({', '.join(_raw_name(op, name, need) for need in op.rule_params[name])})"
        total = f"added(_d, {term})" if variant.on_device else f"_d + {term}"
        lines += [f"if t_{name} is not None:", f"    _d = {f'{term} if _d is None else {total}' if lines else term}"]
    if op.jvp is not None:
        every = " and ".join(f"t_{name} is not None" for name in op.tensors)
        lines = [f"if {every}:", f"    _d = {_formula(op)}", "else:", *(f"    {line}" for line in lines)]
    return lines


def _formula(op: Op) -> str:
    """The expression that applies the operation's ``jvp``."""
    asked = inspect.signature(op.jvp).parameters  # type: ignore[arg-type]
    return f"jvp({', '.join(_or_zero(op, n[2:]) if n.startswith('t_') and n[2:] in op.tensors else _raw_name(op, '', n) for n in asked)})"


def _or_zero(op: Op, name: str) -> str:
    """The tangent of one input, or those of a list, where any has one."""
    if name == op.sequence:
        return f"[zero(_x) if _t is None else _t for _x, _t in zip(a_{name}, t_{name})]"
    alone = len(op.tensors) == 1 or op.kind == "elementwise"  # of which the formula is for inputs that all have one
    return f"t_{name}" if alone else f"(zero(a_{name}) if t_{name} is None else t_{name})"


def _raw_name(op: Op, owner: str, need: str) -> str:
    """The expression for one name that a rule asks for, on arrays."""
    if need == "g":
        alone = len(op.tensors) == 1 or op.kind == "linear"
        return f"t_{owner}" if alone else f"(t_{owner} if t_{owner}.shape == out.shape else broadcast_to(t_{owner}, out.shape))"
    kind, place = op.decoded(need)
    if kind == "output":
        return "out" if len(op.outputs) == 1 else f"out[{place}]"
    if kind == "tensor":
        return f"a_{need}"
    return f"getattr(a_{op.tensors[place]}, {kind!r}, ())" if kind in ("shape", "dtype") else need
