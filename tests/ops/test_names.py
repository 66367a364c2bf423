"""One name per operation: where its declaration stands, how it is found, what else it is called. Read from the source files."""

from __future__ import annotations

import ast
import inspect
import re
from functools import cache
from pathlib import Path

import pytest

import gradlib
from gradlib.core.declaration import Op
from gradlib.core.op import COMPOSITES, REGISTRY

pytestmark = pytest.mark.host

ROOT = Path(__file__).parent.parent.parent
OPS = {name: op for name, op in REGISTRY.items() if inspect.unwrap(op.value).__module__.startswith("gradlib.ops.")}


def public_names() -> list[str]:
    """Every function of gradlib, nn.functional and linalg that operations make, in-place forms aside, and what else has a derivative."""
    names = {name for name, op in OPS.items() if op.rules and op.label == name} | set(COMPOSITES)
    for module in (gradlib, gradlib.nn.functional, gradlib.linalg):
        for name, value in vars(module).items():
            if inspect.isfunction(value) and (hasattr(value, "op") or value in COMPOSITES.values()) and not name.endswith("_"):
                names.add(name)
    return sorted(names)


@cache
def sources() -> dict[Path, list[str]]:
    return {path: path.read_text().splitlines() for path in sorted((ROOT / "gradlib" / "ops").rglob("*.py"))}


@cache
def declarations() -> dict[tuple[Path, int], ast.FunctionDef]:
    """Each function of gradlib/ops by the lines of its head, decorators included."""
    found = {}
    for path, lines in sources().items():
        for node in ast.parse("\n".join(lines)).body:
            if isinstance(node, ast.FunctionDef):
                first = min([node.lineno, *(each.lineno for each in node.decorator_list)])
                found.update({(path, line): node for line in range(first, node.lineno + 1)})
    return found


@cache
def told() -> str:
    """The pattern that README tells to search for, of tanh."""
    found = re.search(r"grep -rnE -C \d+ '(.*)' gradlib/ops\n", (ROOT / "README.md").read_text())
    assert found is not None
    assert "tanh" in found[1]
    return found[1]


@cache
def heads_of_all() -> list[tuple[Path, int, str]]:
    """The lines that belong to the head of a function."""
    return [(path, number, sources()[path][number - 1]) for path, number in declarations()]


def found_by(name: str) -> list[ast.FunctionDef]:
    """The functions in whose head the recipe finds the name."""
    pattern = re.compile(told().replace("tanh", name))
    return [declarations()[path, number] for path, number, line in heads_of_all() if name in line and pattern.search(line)]


def options(function: ast.FunctionDef) -> set[str]:
    """What is given to the decorator by name."""
    return {str(each.arg) for call in function.decorator_list if isinstance(call, ast.Call) for each in call.keywords}


def declared(op: Op) -> str:
    return str(inspect.unwrap(op.value).__name__)


def test_the_readmes_search_finds_each_public_names_declaration_and_its_derivatives() -> None:
    names = public_names()
    assert len(names) > 300
    for name in names:
        found = found_by(name)
        assert found, f"nothing in gradlib/ops is declared as {name}"
        for op in OPS.values():
            if op.rules and name == op.label:
                heads = [each for each in found if each.name == declared(op)]
                assert heads, f"the declaration of {name}, {declared(op)}, is not found by its public name"
                assert set(op.rules) <= options(heads[0]), name


def test_an_operation_is_declared_under_its_name_with_a_suffix_where_a_function_around_it_has_that() -> None:
    assert len(OPS) > 200
    for name, op in OPS.items():
        assert declared(op) in (name, f"{name}_op")
        assert declared(op) != name or name not in COMPOSITES, name


def aliases() -> list[tuple[Path, ast.FunctionDef, str]]:
    found = []
    for path, _ in sources().items():
        for node in {node for (where, _), node in declarations().items() if where == path}:
            for call in node.decorator_list:
                for option in call.keywords if isinstance(call, ast.Call) else ():
                    if option.arg == "aliases":
                        found += [(path, node, alias) for alias in ast.literal_eval(option.value) if not alias.startswith("__")]
    return sorted(found, key=lambda each: each[2])


def test_an_alias_is_written_once_and_offered_wherever_its_name_is() -> None:
    assert len(aliases()) > 20
    for path, function, alias in aliases():
        names = rf"(?<!pointwise\.function\()\"{alias}\"|^{alias}\b"  # NumPy's function may have the same name
        written = [line for line in sources()[path] if re.search(names, line)]
        assert len(written) == 1, (alias, written)
        assert hasattr(gradlib, alias) == hasattr(gradlib, function.name), alias
        assert hasattr(gradlib.Tensor, alias) == hasattr(gradlib.Tensor, function.name), alias


def test_an_in_place_form_among_the_functions_is_the_method_of_its_name() -> None:
    names = [name for name, value in vars(gradlib).items() if inspect.isfunction(value) and name.endswith("_") and not name.startswith("_")]
    assert len(names) > 50
    assert [name for name in names if hasattr(gradlib.Tensor, name) and getattr(gradlib, name) is not getattr(gradlib.Tensor, name)] == []
