"""What operations compute on CuPy arrays: the declared values and derivative rules, whose operators call gradlib's own kernels.

``lambda g, other: g * other`` becomes ``lambda g, other: multiply(g, other)``, where ``multiply`` launches a kernel of
`gradlib.backend.pointwise` if that serves the operands, and is the operator itself if not. The functions of `gradlib.ops` and
`gradlib.backend.vectorised` that they call are rewritten likewise. So each formula is still written once. What has no source at hand, or
a decorator, is left as it is.
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

from gradlib.backend import formulas, quotient
from gradlib.backend.array import cupy
from gradlib.backend.capture import capturing, kernels
from gradlib.backend.copying import converted
from gradlib.backend.kernel_text import CTYPES, FEW
from gradlib.backend.pointwise import into, of_one, of_two
from gradlib.core.declaration import Op
from gradlib.core.symbols import in_one_launch
from gradlib.core.tensor import Tensor

_BINARY: dict[type, tuple[str, Any]] = {
    ast.Add: ("add", operator.add), ast.Sub: ("subtract", operator.sub), ast.Mult: ("multiply", operator.mul),
    ast.Div: ("divide", quotient.over), ast.Lt: ("less", operator.lt), ast.LtE: ("less_equal", operator.le),
    ast.Gt: ("greater", operator.gt), ast.GtE: ("greater_equal", operator.ge), ast.Eq: ("equal", operator.eq),
    ast.NotEq: ("not_equal", operator.ne),
}  # fmt: skip
_MARK = "_on_device_"


_IN_PLACE = {"add": operator.iadd, "subtract": operator.isub, "multiply": operator.imul, "divide": quotient.over_in_place}
_NO_ARRAYS = frozenset(("char", "dtype", "itemsize", "kind", "ndim", "shape", "size"))
"""Attributes whose values are numbers and names: operators beside them are Python's."""
_PLAIN_CALLS = frozenset(("bool", "int", "len", "max", "min", "range", "tuple"))
"""Functions of Python's that give no array."""
_PACKAGES = ("gradlib.ops", "gradlib.backend.vectorised")


@cache
def operators() -> dict[str, Callable[..., Any]]:
    """By name, the functions that replace the operators."""
    made: dict[str, Callable[..., Any]] = {_MARK + name: of_two(name, theirs) for name, theirs in _BINARY.values()}
    made |= {f"{_MARK}{name}_in_place": _in_place(name, theirs) for name, theirs in _IN_PLACE.items()}
    made |= {f"{_MARK}negative": of_one("negative", operator.neg), f"{_MARK}astype": converted, f"{_MARK}array": cupy().ndarray}
    return made | {f"{_MARK}matmul": _product}


def _product(a: Any, b: Any) -> Any:
    """``a @ b``, also while a CUDA graph is captured, when CuPy refuses cuBLAS."""
    return a @ b if capturing.capture is None or isinstance(a, Tensor) or isinstance(b, Tensor) else kernels.product(a, b)


def _in_place(name: str, theirs: Callable[[Any, Any], Any]) -> Callable[[Any, Any], Any]:
    kernel = into(name)
    return lambda x, y: x if kernel(x, y) else theirs(x, y)


def added(a: Any, b: Any) -> Any:
    """``a + b`` of CuPy arrays."""
    return operators()[f"{_MARK}add"](a, b)


class _Calls(ast.NodeTransformer):
    """Puts calls of ``operators`` in place of operators; chains of comparisons, and numbers alone, stay.

    Args:
        space: the names that the text will see, among which functions of other modules are put as they are on a device.
    """

    def __init__(self, space: dict[str, Any]) -> None:
        self.space = space

    def visit_Attribute(self, node: ast.Attribute) -> ast.AST:
        """``vectorised.sigmoid``, a function of a module."""
        owner = self.space.get(node.value.id) if isinstance(node.value, ast.Name) else None
        if not isinstance(owner, types.ModuleType) or not _is_ours(getattr(owner, node.attr, None)):
            return self.generic_visit(node)
        name = f"{owner.__name__.rpartition('.')[2]}_{node.attr}"
        self.space[_MARK + name] = function_on_device(getattr(owner, node.attr))
        return ast.copy_location(_named(name), node)

    def visit_Call(self, node: ast.Call) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.func, ast.Attribute) and node.func.attr == "astype" and len(node.args) == 1 and not node.keywords:
            return ast.copy_location(ast.Call(_named("astype"), [node.func.value, *node.args], []), node)
        return node

    def visit_AugAssign(self, node: ast.AugAssign) -> ast.AST:
        self.generic_visit(node)
        name = _BINARY.get(type(node.op), ("",))[0]
        if name not in _IN_PLACE or not isinstance(node.target, ast.Name):
            return node
        read = ast.Name(node.target.id, ast.Load())
        return ast.copy_location(ast.Assign([node.target], ast.Call(_named(f"{name}_in_place"), [read, node.value], [])), node)

    def visit_BinOp(self, node: ast.BinOp) -> ast.AST:
        self.generic_visit(node)
        if isinstance(node.op, ast.MatMult):
            return ast.copy_location(ast.Call(_named("matmul"), [node.left, node.right], []), node)
        return _call(type(node.op), node, node.left, node.right)

    def visit_Compare(self, node: ast.Compare) -> ast.AST:
        self.generic_visit(node)
        return _call(type(node.ops[0]), node, node.left, node.comparators[0]) if len(node.ops) == 1 else node

    def visit_UnaryOp(self, node: ast.UnaryOp) -> ast.AST:
        self.generic_visit(node)
        if not isinstance(node.op, ast.USub) or isinstance(node.operand, ast.Constant) or _is_plain(node.operand):
            return node
        made = ast.copy_location(ast.Call(_named("negative"), [node.operand], []), node)
        return ast.copy_location(ast.IfExp(_is_an_array(node.operand), made, node), node) if isinstance(node.operand, ast.Name) else made


def _call(kind: type, node: ast.AST, left: ast.AST, right: ast.AST) -> Any:
    if kind not in _BINARY or (isinstance(left, ast.Constant) and isinstance(right, ast.Constant)) or _is_plain(left) or _is_plain(right):
        return node
    made = ast.Call(_named(_BINARY[kind][0]), [left, right], [])  # type: ignore[list-item]
    names = [each for each in (left, right) if isinstance(each, ast.Name)]
    if len(names) + isinstance(left, ast.Constant) + isinstance(right, ast.Constant) < 2:
        return ast.copy_location(made, node)
    tests: list[Any] = [_is_an_array(each) for each in names]  # none is numbers'
    return ast.copy_location(ast.IfExp(tests[0] if len(tests) == 1 else ast.BoolOp(ast.Or(), tests), made, node), node)  # type: ignore[arg-type]


def _is_an_array(name: ast.Name) -> ast.Compare:
    """The test whether a name stands for an array."""
    return ast.Compare(ast.Attribute(name, "__class__", ast.Load()), [ast.Is()], [_named("array")])


def _is_plain(node: ast.AST) -> bool:
    """Whether an operand is seen to be no array."""
    if isinstance(node, ast.Constant):
        return node.value is None or isinstance(node.value, (str, bool))
    if isinstance(node, (ast.Tuple, ast.List)):
        return True
    if isinstance(node, ast.Attribute):
        return node.attr in _NO_ARRAYS
    if isinstance(node, ast.BinOp):
        return _is_plain(node.left) or _is_plain(node.right)
    if isinstance(node, ast.Call):
        return isinstance(node.func, ast.Name) and node.func.id in _PLAIN_CALLS
    return isinstance(node, ast.Subscript) and _is_plain(node.value)


def _named(name: str) -> ast.Name:
    return ast.Name(_MARK + name, ast.Load())


def jvp_on_device(op: Op) -> Any:
    """The formula of an operation's tangent for CuPy arrays; None where it has none."""
    if op.jvp is None:
        return None
    made = _rewritten(op.jvp, _lambdas(inspect.unwrap(op.value)).get("jvp"))
    return in_one_launch(op.jvp, made) if op.kind == "elementwise" else made


def on_device(op: Op) -> dict[str, Any]:
    """The rules of an operation for CuPy arrays."""
    lambdas = _lambdas(inspect.unwrap(op.value)) if any(_is_lambda(rule) for rule in op.rules.values()) else {}
    several = {name for name in op.rules if name not in lambdas or _has_steps(lambdas[name])}
    made = {name: _rewritten(rule, lambdas.get(name)) for name, rule in op.rules.items()}
    for name, rule in op.rules.items():
        if name in op.kernels:
            made[name] = by_kernel(op.kernels[name], made[name])
        elif isinstance(rule, types.FunctionType) and name != op.sequence and name in several:
            made[name] = in_one_launch(rule, made[name])
    return made


def _has_steps(text: ast.Lambda) -> bool:
    """Whether a rule may be more than one step: it calls something, or has two operators."""
    nodes = list(ast.walk(text.body))
    return (
        any(isinstance(each, ast.Call) for each in nodes)
        or sum(isinstance(each, (ast.BinOp, ast.UnaryOp, ast.Compare)) for each in nodes) > 1
    )


def kernel_function(kernel: str | Callable[..., Any]) -> Callable[..., Any]:
    """The function of a kernel as the declaration of an operation names it."""
    return formulas.formula(kernel) if isinstance(kernel, str) else kernel


def of_any_layout(kernel: Callable[..., Any]) -> Callable[..., Any]:
    """Say of the function of a kernel that nothing it refuses would be served in rows, so that no operand is copied for it."""
    kernel.of_any_layout = True  # type: ignore[attr-defined]
    return kernel


def by_kernel(kernel: str | Callable[..., Any], formula: Callable[..., Any], overwrites: bool = False) -> Callable[..., Any]:
    """A function that runs a kernel, or a formula for arguments it does not serve.

    Args:
        kernel: as an operation's declaration names it. overwrites: whether they may write an operand itself.
    """
    launched, refused = kernel_function(kernel), where_refused(kernel, formula, overwrites)

    def run(*args: Any) -> Any:
        made = launched(*args)
        return refused(*args) if made is None else made

    run.__wrapped__ = formula  # type: ignore[attr-defined]
    return run


def where_refused(kernel: str | Callable[..., Any], formula: Callable[..., Any], overwrites: bool) -> Callable[..., Any]:
    """What computes what a kernel has refused: the kernel, of operands copied into rows where they have gaps or lie in another order; or
    a formula, if that does not serve them either.

    ``overwrites``: whether an operand itself may be written, of which the kernel must not be given a copy.
    """
    if overwrites or getattr(kernel, "of_any_layout", False):
        return formula
    launched, array = kernel_function(kernel), cupy().ndarray

    def run(*args: Any) -> Any:
        rows, moved, served = [], False, False
        for each in args:
            if type(each) is array:
                served = served or each.dtype.char in CTYPES  # of which most kernels are
                if not each._c_contiguous and each.size <= FEW:
                    each, moved = each.copy("C"), True
            rows.append(each)
        made = launched(*rows) if moved and served else None
        return formula(*args) if made is None else made

    return run


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
    """A rule on a device; ``text``: its syntax tree, if it is a lambda."""
    if text is None or not _is_lambda(rule) or rule.__closure__ is not None:
        return function_on_device(rule)
    if tuple(each.arg for each in text.args.args) != rule.__code__.co_varnames[: rule.__code__.co_argcount]:
        return rule
    space = _space(rule)
    made = eval(compile(ast.fix_missing_locations(ast.Expression(_Calls(space).visit(text))), _file(rule), "eval"), space)
    _with_helpers(made)
    return made


def function_on_device(function: Any, decorated: bool = False) -> Any:
    """A function as it computes on CuPy arrays; one without source, or of another kind, as it is.

    Args:
        decorated: leave out its decorators, as those of an operation's value.
    """
    if not isinstance(function, types.FunctionType):
        return function
    if function not in _made:
        _made[function] = function  # until it is made: it may call itself
        _made[function] = _in_closure(function) if function.__closure__ is not None else _recompiled(function, decorated)
    return _made[function]


_made: dict[Any, Any] = {}
"""By each function, the one that replaces it on a device."""
_spaces: dict[str, dict[str, Any]] = {}
"""By the name of a module of gradlib's, the names that its functions see on a device."""


def _space(function: types.FunctionType) -> dict[str, Any]:
    """The names that a function sees: one set for each module of gradlib's own, which is whole by now; for another module as it is now."""
    if not function.__module__.startswith(_PACKAGES):
        return {**function.__globals__, **operators()}
    if function.__module__ not in _spaces:
        _spaces[function.__module__] = {**function.__globals__, **operators()}
    return _spaces[function.__module__]


def _file(function: types.FunctionType) -> str:
    return f"{function.__code__.co_filename}, on a device"


def _in_closure(function: types.FunctionType) -> Any:
    """A function around others, which are rewritten; its own text stays."""
    cells = []
    for cell in function.__closure__ or ():
        held = cell.cell_contents
        cells.append(types.CellType(function_on_device(held, decorated=True) if _is_ours(held) else held))
    made = types.FunctionType(function.__code__, function.__globals__, function.__name__, function.__defaults__, tuple(cells))
    made.__kwdefaults__ = function.__kwdefaults__
    return made


def _recompiled(function: types.FunctionType, decorated: bool) -> Any:
    declared = None if _is_lambda(function) else _parsed(function)
    if declared is None or declared.name != function.__name__ or (declared.decorator_list and not decorated):
        return function
    declared.decorator_list = []
    space, names = _space(function), dict[str, Any]()
    module = ast.Module([_Calls(space).visit(declared)], [])
    exec(compile(ast.fix_missing_locations(module), _file(function), "exec"), space, names)
    made = names[declared.name]
    made.__defaults__, made.__kwdefaults__ = function.__defaults__, function.__kwdefaults__
    _with_helpers(made)
    return made


def _with_helpers(made: types.FunctionType) -> None:
    """Let a function call others as they are on a device."""
    space, codes = made.__globals__, [made.__code__]
    for code in codes:
        codes += [each for each in code.co_consts if isinstance(each, types.CodeType)]
        for name in code.co_names:
            if _is_ours(space.get(name)):
                space[name] = function_on_device(space[name])


def _is_ours(value: Any) -> bool:
    """Whether it is a function that computes, and no operation."""
    return isinstance(value, types.FunctionType) and value.__module__.startswith(_PACKAGES) and not hasattr(value, "op")
