"""Writes the methods of each operation's nodes, which unpack what was saved, check it and apply the rules: when a node first runs."""

from __future__ import annotations

import functools
from types import FunctionType
from typing import Any

from gradlib.core.declaration import Op
from gradlib.core.device_rules import on_device
from gradlib.core.dispatch import conjugate
from gradlib.core.node import Node
from gradlib.core.saved import OpNode, saved_attributes
from gradlib.core.written import WRITTEN, build


def node_name(op_name: str) -> str:
    """torch's name for the node of an operation: ``log_softmax`` gives LogSoftmaxBackward0."""
    return "".join(part[:1].upper() + part[1:] for part in op_name.strip("_").split("_")) + "Backward0"


class RunNode(OpNode):
    """A node of an operation that has rules: its methods are written, and take the places of these, when the first of its class runs."""

    __slots__ = ()

    op: Op
    conjugates: bool

    def run(self, g: Any) -> Any:
        return _write_run(self, "run")(self, g)

    def run_and_free(self, g: Any) -> Any:
        return _write_run(self, "run_and_free")(self, g)

    def run_recorded(self, g: Any) -> Any:
        return _write_run(self, "run_recorded")(self, g)

    def run_on_device(self, g: Any) -> Any:
        return _write_run(self, "run_on_device")(self, g)


@functools.cache
def compile_node(op: Op, name: str, conjugates: bool = False, lasts: bool = False) -> type[Node]:
    """The node class of an operation, whose ``run`` applies its rules.

    Args:
        op: the operation as it was declared. name: the nodes' name, which may be that of an alias.
        conjugates: the rules are holomorphic, and the values complex.
        lasts: an argument is a number, so that the node holds no tensor and can run as often as one likes.
    """
    if lasts:
        node = compile_node(op, name, conjugates)
        same = {"__slots__": (), "__module__": node.__module__, "__doc__": node.__doc__}
        return type(name, (node,), {**same, "frees": False, "run_and_free": RunNode.run_and_free}) if node.frees else node
    body: dict[str, Any] = {
        "__slots__": (),
        "single": len(op.tensors) == 1 and op.sequence is None,
        "saved_names": op.saved_names,
        "output_names": op.outputs,
        "hidden_names": tuple(op.hidden),
        "keeps_outputs": not set(op.outputs).isdisjoint(op.saved_names),
        "frees": op.saves_tensors,
        "op": op,
        "conjugates": conjugates,
        "__module__": op.value.__module__,
        "__doc__": f"One run of ``{op.name}``.",
        **saved_attributes(op.saved_names),
    }
    made: type[Node] = type(name, (RunNode if op.rules else OpNode,), body)
    return made


def _write_run(node: RunNode, method: str) -> Any:
    """Write and compile a method of a node's class."""
    op = node.op
    declared = on_device(op) if method == "run_on_device" else op.rules
    rules = {f"rule_{tensor}": rule for tensor, rule in declared.items()}
    rules |= {f"on_arrays_{tensor}": on_arrays(rule) for tensor, rule in op.rules.items() if isinstance(rule, FunctionType)}
    run = build(method, f"{WRITTEN}{op.name}, {method}", source_of_run(op, method, node.frees), rules)
    run = _conjugated(run) if node.conjugates else run
    owner: type = type(node)
    if method != "run_and_free":
        owner = next(each for each in owner.__mro__ if "op" in vars(each))  # which a class of lasting nodes has beneath
    setattr(owner, method, run)
    return run


def _conjugated(run: Any) -> Any:
    """A holomorphic rule in torch's convention: the gradient is g times the conjugate of the derivative."""

    def run_conjugated(self: Node, g: Any) -> Any:
        grads = run(self, conjugate(g))
        return tuple(conjugate(d) for d in grads) if isinstance(grads, (tuple, list)) else conjugate(grads)

    return run_conjugated


def source_of_run(op: Op, method: str, frees: bool) -> str:
    """The Python text that unpacks a node's saved values, checks versions and applies the rules.

    Of two gradients of which only one is wanted ``run_and_free`` gives that one alone, with which the walk goes on at once.
    """
    recorded = method == "run_recorded"
    lines = [f"def {method}(self, g):"]
    shared = [name for name in op.saved_names if op.joint or len(op.needed_by[name]) != 1 or len(op.tensors) == 1 or name == op.sequence]
    unpacked = [line for name in shared for line in _unpacked(op, name, "    ", recorded)]
    if op.saved_names:
        lines.append("    saved = self.saved")
        lines += ["    if saved is None:", "        raise freed(self)"] if op.saves_tensors else []
        lines.append(f"    {', '.join(op.saved_names)}, = saved")
    if any(need.kind == "output" for need in op.needs.values()):
        lines += ["    if self._meta is not None:", "        check_outputs(self)"]
    lines += unpacked
    if len(op.tensors) == 1 and op.sequence is None:
        (tensor,) = op.tensors
        return "\n".join([*lines, *_given_back(op, method, frees, rule_applied(op, tensor, method))])
    lines.append("    edges = self.edges")
    results = []
    for position, tensor in enumerate(op.tensors):
        if tensor in op.joint:
            continue
        if tensor not in op.rules:
            results.append(f"*[None] * (len(edges) - {position})" if tensor == op.sequence else "None")
            continue
        call = rule_applied(op, tensor, method)
        if tensor == op.sequence:
            results.append(f"*{call}")
            continue
        lines += [f"    d_{tensor} = None", f"    if edges[{position}] is not None:"]
        for name in op.rule_params[tensor]:
            if name in op.saved_names and name not in shared:
                lines += _unpacked(op, name, "        ", recorded)
        lines.append(f"        d_{tensor} = {call}")
        results.append(f"d_{tensor}")
    grads = f"({', '.join(results)},)"
    if method == "run_and_free" and len(op.rules) == len(op.tensors) == 2 and op.sequence is None:
        grads = f"{results[0]} if edges[1] is None else {results[1]} if edges[0] is None else {grads}"
    return "\n".join([*lines, *_given_back(op, method, frees, grads)])


def _f(value: Any) -> Any:
    """Stands for an operation in `_PLAIN`."""


_PLAIN: dict[bytes, str] = {
    rule.__code__.co_code: text
    for text, rule in {
        "{0}": lambda a: a, "-{0}": lambda a: -a, "{0} * {1}": lambda a, b: a * b, "{0} / {1}": lambda a, b: a / b,
        "{0} * {f}({1})": lambda a, b: a * _f(b), "-({0} * {f}({1}))": lambda a, b: -(a * _f(b)),
    }.items()
}  # fmt: skip
"""By its byte code, the text of a rule that is quicker written where it is needed than called."""


def rule_applied(op: Op, tensor: str, method: str) -> str:
    """The expression that applies a tensor's rule."""
    names, rule = op.rule_params[tensor], op.rules[tensor]
    plain = _PLAIN.get(rule.__code__.co_code) if isinstance(rule, FunctionType) and method != "run_on_device" else None
    if plain is None or ("{f}" in plain and (method == "run_recorded" or on_arrays(rule) is None)):
        return f"rule_{tensor}({', '.join(names)})"
    return plain.format(*names, f=f"on_arrays_{tensor}")


def on_arrays(rule: Any) -> Any:
    """What computes, on NumPy's arrays, the operation of one argument that a rule calls first; None where that is not one function."""
    called = getattr(rule.__globals__.get(next(iter(rule.__code__.co_names), None)), "op", None)
    return called.direct if called is not None and len(called.params) == 1 else None


def _given_back(op: Op, method: str, frees: bool, grads: str) -> list[str]:
    if method != "run_and_free" or not op.saves_tensors or not frees:
        return [f"    return {grads}"]
    return [f"    grads = {grads}", "    self.saved = None", "    return grads"]


def _unpacked(op: Op, name: str, indent: str, recorded: bool) -> list[str]:
    """Lines that turn a saved name into an argument of its rules: outputs and hidden results as Tensors when recording, inputs checked."""
    _, kind, place, _ = op.needs[name]
    if kind == "output":
        return [f"{indent}{name} = output_tensor(self, {name}, {place})"] if recorded else []
    if kind == "hidden":
        return [f"{indent}{name} = hidden_tensor(self, {name}, {name!r})"] if recorded else []
    if kind != "tensor":
        return []
    if name == op.sequence:
        inner = _checked("item", indent + "    ", recorded)
        return [f"{indent}items, {name} = {name} or (), []", f"{indent}for item in items:", *inner, f"{indent}    {name}.append(item)"]
    lines = _checked(name, indent, recorded)
    if op.is_ufunc and not recorded:  # and may have been given a number
        lines += [f"{indent}else:", f"{indent}    {name} = beside({name}, g)"]
    return lines


def _checked(name: str, indent: str, recorded: bool) -> list[str]:
    """Check that a saved input was not written since; on the first-order path, take its array."""
    return [
        f"{indent}if isinstance({name}, Tensor):",
        f"{indent}    if {name}._version_slot is not None and {name}._version_slot.changed >= self.seq:",
        f"{indent}        raise stale(self, {name}._array.shape, {name}._version_slot)",
        *([] if recorded else [f"{indent}    {name} = {name}._array"]),
    ]
