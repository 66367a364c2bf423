"""Writes the Python of each operation's plain path, as ``dataclasses`` writes ``__init__``: once, when the operation is declared.

The plain path is what runs when every input is a Tensor on NumPy of one dtype, float32 or float64 (or a Python number), and nothing
unusual is active. It does no look-up by name, no loop over inputs and no call but the operation's own. Everything else goes to
``dispatch``, where CuPy arrays find a plain path of their own, written when the first of them comes; the rest goes to ``general``, which
does the same in general and is the text to read first. ``print(source_of_call(op))`` shows what was written.
"""

from __future__ import annotations

import copy
import functools
import inspect
from collections.abc import Callable, Mapping
from types import FunctionType
from typing import TYPE_CHECKING, Any

import numpy as np

from gradlib.backend import array as arrays
from gradlib.backend.division import device_function
from gradlib.backend.dtype import float32, float64, is_differentiable
from gradlib.core import modes
from gradlib.core.compile_forward import forward_names, forward_path, has_forward_path
from gradlib.core.dispatch import conjugate, dispatch, general, keywords, mark_view, operate
from gradlib.core.node import Node, check_outputs, freed, output_tensor, stale
from gradlib.core.streams import default_stream, keep_stream
from gradlib.core.tensor import Tensor, as_array

if TYPE_CHECKING:
    from gradlib.core.op import Op

_COMMON = {
    "np": np,
    "ndarray": np.ndarray,
    "F32": float32,
    "F64": float64,
    "is_differentiable": is_differentiable,
    "Tensor": Tensor,
    "blank": functools.partial(object.__new__, Tensor),  # quicker than Tensor(), and than object.__new__(Tensor)
    "watch": modes.watch,
    "local": modes.local,
    "next_seq": modes.next_seq,
    "dispatch": dispatch,
    "keywords": keywords,
    "mark_view": mark_view,
    "as_array": as_array,
    "freed": freed,
    "stale": stale,
    "check_outputs": check_outputs,
    "output_tensor": output_tensor,
}


def build(name: str, source: str, names: dict[str, Any]) -> Any:
    """The function of that name in a Python text, with what every compiled text may name and what this one needs besides."""
    space = {**_COMMON, **names}
    exec(compile(source, f"<gradlib op {name}>", "exec"), space)
    return space[name]


def _nodes(op: Op) -> dict[str, Any]:
    return {"Node": op.node, "Lasting": op.lasting_node}


# ---- what is written in terms of operations ---------------------------------------------------------------------------------


def compile_composite(function: Callable[..., Any], label: str | None) -> Callable[..., Any]:
    """The public form of a function of operations: it takes NumPy's ``axis`` and ``keepdims`` too, and observers see it by its label."""
    parameters = inspect.signature(function).parameters
    space = {f"_default_{p.name}": p.default for p in parameters.values()} | {"_function": function, "seen": seen}
    return functools.wraps(function)(build(function.__name__, source_of_composite(function.__name__, parameters, label), space))


def source_of_composite(name: str, parameters: Mapping[str, inspect.Parameter], label: str | None) -> str:
    """The Python text of ``compile_composite``."""
    passed = []
    for p in parameters.values():
        stars = _STARS.get(p.kind, "")
        passed.append(f"{p.name}={p.name}" if p.kind is p.KEYWORD_ONLY else stars + p.name)
    listed = _listed(list(parameters.values()))
    lines = []
    if "dim" in parameters:
        listed.append("**aliases")
        lines += ["    if aliases:", "        dim = aliases.pop('axis', dim)"]
        lines += ["        keepdim = aliases.pop('keepdims', keepdim)"] if "keepdim" in parameters else []
        lines += ["        if aliases:", f"            return _function({', '.join(passed)}, **aliases)  # which refuses them"]
    call = ", ".join(passed)
    if label is not None:
        lines += ["    if watch.active:", f"        return seen({label!r}, _function, {call})"]
    lines.append(f"    return _function({call})")
    return "\n".join([f"def {name}({', '.join(listed)}):", *lines])


def seen(label: str, function: Callable[..., Any], *args: Any, **named: Any) -> Any:
    """Run a function of operations before whoever observes this thread."""
    seen_by = modes.local.observer
    given = (*args, *named.values())
    flat = (x for value in given for x in (value if isinstance(value, (list, tuple)) else (value,)))
    if seen_by is None or label in OPERATIONS or not any(isinstance(x, Tensor) for x in flat):
        return function(*args, **named)
    return seen_by.composed(label, given, functools.partial(function, *args, **named))


OPERATIONS: set[str] = set()
"""The names by which operations are seen; a function of operations that is named like the one it calls is not shown as well."""
COMPOSED: set[str] = set()
"""The names of functions of operations."""


# ---- the call ---------------------------------------------------------------------------------------------------------------


def compile_call(op: Op, operator: bool = False) -> Any:
    """The public function of an operation; or what stands on Tensor for one of Python's operators: no keywords, and ``operate``."""
    names = {f"_default_{p.name}": p.default for p in op.signature.parameters.values()}
    names |= {"op": op, "_value": op.value, "_direct": op.direct, **_nodes(op)}
    names |= forward_names(op)
    if operator:
        names["dispatch"] = operate
    function = build(op.name, source_of_call(op, operator), names)
    function.__doc__ = op.value.__doc__
    function.__module__ = op.value.__module__
    function.__qualname__ = op.name
    function.op = op
    return function


def named(call: Callable[..., Any], label: str, node: bool = True) -> Callable[..., Any]:
    """The public function of an operation under another name, which profiles show, and its nodes have unless ``node`` is False."""
    op: Op = copy.copy(call.op)  # type: ignore[attr-defined]
    for made in ("observed", "on_device"):
        vars(op).pop(made, None)
    op.label = label
    if node:
        classes = {each: _subclass(each, node_name(label)) for each in {op.node, op.lasting_node, op.complex_node, op.lasting_complex_node}}
        op.node, op.lasting_node = classes[op.node], classes[op.lasting_node]
        op.complex_node, op.lasting_complex_node = classes[op.complex_node], classes[op.lasting_complex_node]
    assert isinstance(call, FunctionType)
    space = {**call.__globals__, "op": op, **_nodes(op)}
    function = op.call = FunctionType(call.__code__, space, label, call.__defaults__, call.__closure__)
    function.__kwdefaults__ = call.__kwdefaults__
    function.__doc__, function.__module__, function.__qualname__ = call.__doc__, call.__module__, label
    function.op = op  # type: ignore[attr-defined]
    OPERATIONS.add(label)
    return function


def compile_on_device(op: Op) -> Any:
    """The same for CuPy arrays on the current device, written when an operation first meets one; everything else goes to ``general``."""
    library = arrays.cupy()
    named = {"ndarray": library.ndarray, "np": library, "current_device": library.cuda.runtime.getDevice, "dispatch": general}
    named |= {"current_stream": library.cuda.get_current_stream, "usual_stream": default_stream(), "keep_stream": keep_stream}
    direct = device_function(op.direct.__name__) if op.direct is not None else None
    return build(op.name, source_on_device(op), {**named, "op": op, "_value": op.value, "_direct": direct, **_nodes(op)})


def source_on_device(op: Op) -> str:
    """The Python text of an operation's plain path on CuPy arrays."""
    arguments = ", ".join(op.params)
    path = (_plain_path(op, device=True) + _raw_path(op, device=True)) if _has_plain_path(op) else []
    return "\n".join([f"def {op.name}({arguments}):", *path, f"    return dispatch(op, ({arguments},))"])


def compile_observed(op: Op) -> Any:
    """``observed(seq, *args)``: the operation with the number its node is to have, for an observer to call while it is all there is."""
    return build("observed", source_of_observed(op), {"op": op, "_value": op.value, "_direct": op.direct, **_nodes(op)})


def source_of_observed(op: Op) -> str:
    """The Python text of an operation's plain path under an observer."""
    arguments = ", ".join(op.params)
    lines = [f"def observed(_seq, {arguments}):"]
    if _has_plain_path(op):
        text = "\n".join(_plain_path(op)).replace("not watch.active", "watch.active == watch.observed").replace("next_seq()", "_seq")
        lines.append(text.replace(f"dispatch(op, ({arguments},))", f"dispatch(op, ({arguments},), _seq)"))
    return "\n".join([*lines, f"    return dispatch(op, ({arguments},), _seq)"])


def direct_function(op: Op) -> str | None:
    """The name of the NumPy function to which the declared value only hands its arguments, so that it can be called without a detour."""

    class Spy:
        def __getattr__(self, name: str) -> Any:
            return lambda *args, **kwargs: (name, args, kwargs)

    marks = [object() for _ in op.params]
    try:
        name, args, kwargs = op.value(Spy(), *marks)
    except Exception:  # it does more than that, in whatever way the spy does not bear
        return None
    return name if list(args) == marks and not kwargs and hasattr(np, name) else None


def source_of_call(op: Op, operator: bool = False) -> str:
    """The Python text of an operation's public function."""
    arguments = ", ".join(op.params)
    aliased = "dim" in op.params
    lines = [f"def {op.name}({arguments if operator else _signature(op, aliased)}):"]
    if aliased:
        lines += ["    if aliases:", f"        return keywords(op, ({arguments},), aliases)"]
    lines += (
        ["    if out is not None:", f"        return keywords(op, ({arguments},), {{'out': out}})"]
        if "out" not in op.params and not operator
        else []
    )
    if op.tensors and op.sequence is None and len(op.outputs) == 1:
        lines += (_plain_path(op) if _has_plain_path(op) else []) + _raw_path(op)
    if has_forward_path(op):
        lines += forward_path(op, f"return dispatch(op, ({arguments},))")
    lines.append(f"    return dispatch(op, ({arguments},))")
    return "\n".join(lines)


def _signature(op: Op, aliased: bool) -> str:
    """The declared parameters after the namespace, with ``out`` and, where there is a ``dim``, NumPy's names for it."""
    parts = _listed(list(op.signature.parameters.values())[1:])
    if "out" not in op.params:
        parts += ([] if "*" in parts else ["*"]) + ["out=None"]
    return ", ".join(parts + (["**aliases"] if aliased else []))


_STARS = {inspect.Parameter.VAR_POSITIONAL.value: "*", inspect.Parameter.VAR_KEYWORD.value: "**"}


def _listed(parameters: list[inspect.Parameter]) -> list[str]:
    """Parameters as they stand in a definition, their defaults by the names ``_default_NAME``."""
    parts: list[str] = []
    for p in parameters:
        if p.kind is p.KEYWORD_ONLY and not any(part.startswith("*") for part in parts):
            parts.append("*")
        stars = _STARS.get(p.kind, "")
        parts.append(stars + p.name + ("" if p.default is p.empty else f"=_default_{p.name}"))
    return parts


def _has_plain_path(op: Op) -> bool:
    return bool(op.tensors) and op.sequence is None and len(op.outputs) == 1 and (not op.rules or op.tensors[0] in op.rules)


def _plain_path(op: Op, device: bool = False) -> list[str]:
    """The case it serves, step by step; names of its own begin with an underscore, so that none is a parameter's (``dtype``, ``value``).

    ``device``: for CuPy arrays, all of which must lie on the current device.
    """
    first, *others = op.tensors
    passed = ", ".join(f"a_{p}" if p in op.tensors else p for p in op.params)
    dispatched = f"return dispatch(op, ({', '.join(op.params)},))"
    lines = [
        f"    if type({first}) is Tensor and not watch.active:",
        f"        a_{first} = {first}._array",
        f"        _dtype = a_{first}.dtype",
        f"        if (_dtype is F32 or _dtype is F64) and {_is_plain(f'a_{first}', device)}:",
        *([f"            n_{first} = {first}._node"] if op.rules else []),
    ]
    made = "Node"
    if op.promote and any(op.without_tensors):  # any of the others
        made = "_made"
        lines.append("            _made = Node")
    for place, other in enumerate(others, 1):
        if op.rules and other not in op.rules:
            lines += _unpacked_also(op, other, dispatched, device)
            continue
        lines += _unpacked_like(other, dispatched, bool(op.promote), device, place in op.without_tensors)
    compute = [f"out = {op.begins}{passed})", "if type(out) is not ndarray:", "    out = as_array(out)"]
    if op.rules:
        unwanted = " and ".join(f"n_{name} is None" for name in op.tensors)
        lines += [
            "            try:",
            f"                if ({unwanted}) or (watch.no_grad and not local.grad_enabled):",
            "                    _node = None",
            *(f"                    {line}" for line in compute),
            "                else:",
            f"                    _node = {made}()",
            "                    _node.seq = next_seq()",
            *(f"                    {line}" for line in compute),
            f"                    _node.edges = ({', '.join(f'n_{name}' for name in op.tensors)},)",
            f"                    _node.saved = ({''.join(_kept(op, name) + ', ' for name in op.saved_names)})",
            "                    _node.shape = out.shape",
            f"                    _node.dtype = {'_dtype' if op.promote else 'out.dtype'}",
            "                    _node.rare = None",
            *(_KEEP_STREAM if device else ()),
            *(() if op.promote else _UNLESS_INTEGER),
        ]
    else:
        lines += ["            try:", *(f"                {line}" for line in compute)]
    lines += [
        "            except Exception:",
        f"                {dispatched}  # which says what is wrong",
        "            _result = blank()",
        "            _result._array = out",
        f"            _result._node = {'_node' if op.rules else 'None'}",
        "            _result._meta = watch.born",
        "            _result._version_slot = None",
    ]
    if op.view:
        lines.append(f"            mark_view(op, {first}, _result, ({', '.join(op.params[1:])}{',' if op.params[1:] else ''}))")
    return [*lines, "            return _result"]


def _is_plain(name: str, device: bool) -> str:
    """The condition that an array is of the library that the text is for, and on the current device."""
    return f"type({name}) is ndarray" + (f" and {name}.data.device_id == current_device()" if device else "")


def _unpacked_like(name: str, dispatched: str, numbers: bool, device: bool, lasting: bool) -> list[str]:
    """A further differentiable input: of the first one's dtype, or (where operands meet in one) a Python number.

    ``lasting``: where it is a number the node holds no tensor.
    """
    elsewhere = f" or not ({_is_plain(f'a_{name}', device)})" if device else ""
    return [
        f"            _kind = type({name})",
        "            if _kind is Tensor:",
        f"                a_{name} = {name}._array",
        f"                if a_{name}.dtype is not _dtype{elsewhere}:",
        f"                    {dispatched}",
        f"                n_{name} = {name}._node",
        "            elif _kind is float or _kind is int:" if numbers else "            elif False:",
        f"                a_{name} = {name}",
        f"                n_{name} = None",
        *(["                _made = Lasting"] if numbers and lasting else []),
        "            else:",
        f"                {dispatched}",
    ]


def _unpacked_also(op: Op, name: str, dispatched: str, device: bool) -> list[str]:
    """A tensor argument without a derivative: of any dtype, unless operands meet in one; or None."""
    unlike = f" or a_{name}.dtype is not _dtype" if op.promote else ""
    return [
        f"            if type({name}) is Tensor:",
        f"                a_{name} = {name}._array",
        f"                if not ({_is_plain(f'a_{name}', device)}){unlike}:",
        f"                    {dispatched}",
        f"                n_{name} = {name}._node",
        f"            elif {name} is None:",
        f"                a_{name} = n_{name} = None",
        "            else:",
        f"                {dispatched}",
    ]


_KEEP_STREAM = (
    "                    if current_stream() is not usual_stream:",
    "                        keep_stream(_node, out.data.device_id)",
)
_UNLESS_INTEGER = (
    "                    if out.dtype is not _dtype and not is_differentiable(out.dtype):",
    "                        _node = None",
)


def _raw_path(op: Op, device: bool = False) -> list[str]:
    """On arrays the value alone: what rules run on in a first-order backward."""
    first, *others = op.tensors
    raw = " and ".join([_is_plain(first, device), *(f"not isinstance({other}, Tensor)" for other in others)])
    return [f"    if {raw}:", f"        return {op.begins}{', '.join(op.params)})"]


def _kept(op: Op, name: str) -> str:
    """The expression that saves one name a rule asked for; None when no rule that asked for it will run."""
    if name in op.outputs:
        return "out"
    for tensor in op.tensors:
        if name == f"{tensor}_shape":
            return f"getattr(a_{tensor}, 'shape', ())"
        if name == f"{tensor}_dtype":
            return "_dtype"
    needed = op.needed_by[name]
    if name in op.tensors and len(needed) < len(op.tensors):
        active = " or ".join(f"n_{op.tensors[i]} is not None" for i in needed)
        return f"({name} if {active} else None)"
    return name


# ---- the node ---------------------------------------------------------------------------------------------------------------


def node_name(op_name: str) -> str:
    """torch's name for the node of an operation: ``log_softmax`` gives LogSoftmaxBackward0."""
    return "".join(part[:1].upper() + part[1:] for part in op_name.strip("_").split("_")) + "Backward0"


def compile_node(op: Op, conjugate: bool = False) -> type[Node]:
    """The node class of an operation, whose ``run`` applies its rules."""
    name = node_name(op.name)
    body: dict[str, Any] = {
        "__slots__": (),
        "single": len(op.tensors) == 1 and op.sequence is None,
        "saved_names": op.saved_names,
        "output_names": op.outputs,
        "frees": op.saves_tensors,
        "op": op,
        "__module__": op.value.__module__,
        "__doc__": f"One run of ``{op.name}``.",
    }
    if op.rules:
        rules = {f"rule_{tensor}": rule for tensor, rule in op.rules.items()}
        for method, recorded in (("run", False), ("run_recorded", True)):
            run = build(method, source_of_run(op, method, recorded), rules)
            body[method] = _conjugated(run) if conjugate else run
    return type(name, (Node,), body)


def lasting(node: type[Node]) -> type[Node]:
    """The same node where, an argument being a number, it holds no tensor."""
    if not node.frees:
        return node
    return _subclass(node, node.__name__, frees=False)


def _subclass(node: type[Node], name: str, **changed: Any) -> type[Node]:
    """A node class like another, under a name of its own or changed in some way."""
    return type(name, (node,), {"__slots__": (), "__module__": node.__module__, "__doc__": node.__doc__, **changed})


def _conjugated(run: Any) -> Any:
    """A holomorphic rule in torch's convention: the gradient is g times the conjugate of the derivative."""

    def run_conjugated(self: Node, g: Any) -> Any:
        grads = run(self, conjugate(g))
        return tuple(conjugate(d) for d in grads) if isinstance(grads, (tuple, list)) else conjugate(grads)

    return run_conjugated


def source_of_run(op: Op, method: str, recorded: bool) -> str:
    """The Python text that unpacks what a node saved, checks versions and applies the rules."""
    lines = [f"def {method}(self, g):"]
    shared = [name for name in op.saved_names if len(op.needed_by[name]) != 1 or len(op.tensors) == 1 or name == op.sequence]
    unpacked = [line for name in shared for line in _unpacked(op, name, "    ", recorded)]
    some = any(len(names) == 1 for names in op.rule_params.values()) and not unpacked  # of the rules need nothing that was saved
    gone = ["if saved is None:", "    raise freed(self)"]
    if op.saved_names:
        lines.append("    saved = self.saved")
        lines += ["    if saved is not None:"] if some else [f"    {line}" for line in gone if op.saves_tensors]
        lines.append(f"    {'    ' if some else ''}{', '.join(op.saved_names)}, = saved")
    if any(name in op.outputs for name in op.saved_names):
        lines += ["    if self.rare is not None:", "        check_outputs(self)"]
    lines += unpacked
    if len(op.tensors) == 1 and op.sequence is None:
        (tensor,) = op.tensors
        return "\n".join([*lines, f"    return rule_{tensor}({', '.join(op.rule_params[tensor])})"])
    lines.append("    edges = self.edges")
    results = []
    for position, tensor in enumerate(op.tensors):
        if tensor not in op.rules:
            results.append(f"*[None] * (len(edges) - {position})" if tensor == op.sequence else "None")
            continue
        call = f"rule_{tensor}({', '.join(op.rule_params[tensor])})"
        if tensor == op.sequence:
            results.append(f"*{call}")
            continue
        lines += [f"    d_{tensor} = None", f"    if edges[{position}] is not None:"]
        if some and len(op.rule_params[tensor]) > 1:
            lines += [f"        {line}" for line in gone]
        for name in op.rule_params[tensor]:
            if name in op.saved_names and name not in shared:
                lines += _unpacked(op, name, "        ", recorded)
        lines.append(f"        d_{tensor} = {call}")
        results.append(f"d_{tensor}")
    return "\n".join([*lines, f"    return ({', '.join(results)},)"])


def _unpacked(op: Op, name: str, indent: str, recorded: bool) -> list[str]:
    """Lines that turn a saved name into what its rules take: outputs rebuilt as Tensors when recording, inputs checked."""
    if name in op.outputs:
        return [f"{indent}{name} = output_tensor(self, {name}, {op.outputs.index(name)})"] if recorded else []
    if name not in op.tensors:
        return []
    if name == op.sequence:
        inner = _checked("item", indent + "    ", recorded)
        return [f"{indent}items, {name} = {name}, []", f"{indent}for item in items:", *inner, f"{indent}    {name}.append(item)"]
    return _checked(name, indent, recorded)


def _checked(name: str, indent: str, recorded: bool) -> list[str]:
    """Check that a saved input was not written since; on the first-order path, take its array."""
    return [
        f"{indent}if isinstance({name}, Tensor):",
        f"{indent}    if {name}._version_slot is not None and {name}._version_slot.changed >= self.seq:",
        f"{indent}        raise stale(self, {name}._array.shape, {name}._version_slot)",
        *([] if recorded else [f"{indent}    {name} = {name}._array"]),
    ]
