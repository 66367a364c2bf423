"""Derivative rules for CuPy arrays: the declared ones, whose operators call gradlib's own kernels.

``lambda g, other: g * other`` becomes ``lambda g, other: multiply(g, other)``, where ``multiply`` launches a kernel of
`gradlib.backend.pointwise` if that serves the operands, and is the operator itself if not. So a rule is still written once. What a rule
calls is left as it is; so is a rule whose source is not at hand.
"""

from __future__ import annotations

import ast
import inspect
import operator
import textwrap
import types
from collections.abc import Callable
from functools import cache
from typing import Any

from gradlib.backend.pointwise import of_one, of_two

_BINARY: dict[type, tuple[str, Any]] = {
    ast.Add: ("add", operator.add), ast.Sub: ("subtract", operator.sub), ast.Mult: ("multiply", operator.mul),
    ast.Div: ("divide", operator.truediv), ast.Lt: ("less", operator.lt), ast.LtE: ("less_equal", operator.le),
    ast.Gt: ("greater", operator.gt), ast.GtE: ("greater_equal", operator.ge), ast.Eq: ("equal", operator.eq),
    ast.NotEq: ("not_equal", operator.ne),
}  # fmt: skip
_MARK = "_on_device_"


@cache
def operators() -> dict[str, Callable[..., Any]]:
    """By name, what stands for the operators."""
    made: dict[str, Callable[..., Any]] = {_MARK + name: of_two(name, theirs) for name, theirs in _BINARY.values()}
    return made | {f"{_MARK}negative": of_one("negative", operator.neg)}


def added(a: Any, b: Any) -> Any:
    """``a + b`` of CuPy arrays."""
    return operators()[f"{_MARK}add"](a, b)


class _Calls(ast.NodeTransformer):
    """Puts calls of ``operators`` in place of operators; chains of comparisons, and numbers alone, stay."""

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        return _call(type(node.op), node, node.left, node.right)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        return _call(type(node.ops[0]), node, node.left, node.comparators[0]) if len(node.ops) == 1 else node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.op, ast.USub) or isinstance(node.operand, ast.Constant):
            return node
        return ast.copy_location(ast.Call(_named("negative"), [node.operand], []), node)


def _call(kind: type, node: ast.AST, left: ast.AST, right: ast.AST) -> Any:
    if kind not in _BINARY or (isinstance(left, ast.Constant) and isinstance(right, ast.Constant)):
        return node
    return ast.copy_location(ast.Call(_named(_BINARY[kind][0]), [left, right], []), node)  # type: ignore[list-item]


def _named(name: str) -> ast.Name:
    return ast.Name(_MARK + name, ast.Load())


def on_device(rules: dict[str, Any], value: Callable[..., Any]) -> dict[str, Any]:
    """The rules of an operation for CuPy arrays. ``value``: the function that the declaration decorates."""
    lambdas = _lambdas(inspect.unwrap(value)) if any(_is_lambda(rule) for rule in rules.values()) else {}
    return {name: _rewritten(rule, lambdas.get(name)) for name, rule in rules.items()}


def _is_lambda(rule: Any) -> bool:
    return isinstance(rule, types.FunctionType) and rule.__name__ == "<lambda>"


def _parsed(function: Any) -> ast.FunctionDef | None:
    try:
        tree = ast.parse(textwrap.dedent(inspect.getsource(function)))
    except (OSError, TypeError, SyntaxError):  # no source, as in an archive of compiled files
        return None
    found = tree.body[0]
    return found if isinstance(found, ast.FunctionDef) else None


def _lambdas(value: Any) -> dict[str, ast.Lambda]:
    """By their names, the rules that stand in a function's decorator."""
    declared = _parsed(value)
    calls = [each for each in (declared.decorator_list if declared else []) if isinstance(each, ast.Call)]
    return {k.arg: k.value for each in calls for k in each.keywords if k.arg is not None and isinstance(k.value, ast.Lambda)}


def _rewritten(rule: Any, text: ast.Lambda | None) -> Any:
    if not isinstance(rule, types.FunctionType) or rule.__closure__ is not None:
        return rule
    code = rule.__code__
    space = {**rule.__globals__, **operators()}
    file = f"{code.co_filename}, on a device"
    if text is not None and _is_lambda(rule):
        names = tuple(each.arg for each in text.args.args)
        if names != code.co_varnames[: code.co_argcount]:
            return rule
        tree = ast.Expression(_Calls().visit(text))
        return eval(compile(ast.fix_missing_locations(tree), file, "eval"), space)
    declared = None if _is_lambda(rule) else _parsed(rule)
    if declared is None or declared.name != rule.__name__ or declared.decorator_list:
        return rule
    module = ast.Module([_Calls().visit(declared)], [])
    exec(compile(ast.fix_missing_locations(module), file, "exec"), space)
    made = space[declared.name]
    made.__defaults__, made.__kwdefaults__ = rule.__defaults__, rule.__kwdefaults__
    return made
