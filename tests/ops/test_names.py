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


def recipe(name: str) -> re.Pattern[str]:
    """The pattern that README tells to search for, with another name."""
    told = re.search(r"grep -rnE -C \d+ '(.*)' gradlib/ops\n", (ROOT / "README.md").read_text())
    assert told, "README has no recipe that finds a derivative"
    assert "tanh" in told[1]
    return re.compile(told[1].replace("tanh", name))


def found_by(name: str) -> list[ast.FunctionDef]:
    """The functions in whose head the recipe finds the name."""
    pattern = recipe(name)
    lines = [(path, number, line) for path, text in sources().items() for number, line in enumerate(text, 1) if name in line]
    hits = [(path, number) for path, number, line in lines if pattern.search(line)]
    return [declarations()[hit] for hit in hits if hit in declarations()]


def options(function: ast.FunctionDef) -> set[str]:
    """What is given to the decorator by name."""
    return {str(each.arg) for call in function.decorator_list if isinstance(call, ast.Call) for each in call.keywords}


def declared(op: Op) -> str:
    return str(inspect.unwrap(op.value).__name__)


@pytest.mark.parametrize("name", public_names())
def test_the_readmes_search_finds_a_public_names_declaration_and_its_derivatives(name: str) -> None:
    found = found_by(name)
    assert found, f"nothing in gradlib/ops is declared as {name}"
    for op in OPS.values():
        if op.rules and name == op.label:
            heads = [each for each in found if each.name == declared(op)]
            assert heads, f"the declaration of {name}, {declared(op)}, is not found by its public name"
            assert set(op.rules) <= options(heads[0])


@pytest.mark.parametrize("name", OPS)
def test_an_operation_is_declared_under_its_name_with_a_suffix_where_a_function_around_it_has_that(name: str) -> None:
    assert declared(OPS[name]) in (name, f"{name}_op")
    if declared(OPS[name]) == name:
        assert name not in COMPOSITES


def aliases() -> list[tuple[Path, ast.FunctionDef, str]]:
    found = []
    for path, _ in sources().items():
        for node in {node for (where, _), node in declarations().items() if where == path}:
            for call in node.decorator_list:
                for option in call.keywords if isinstance(call, ast.Call) else ():
                    if option.arg == "aliases":
                        found += [(path, node, alias) for alias in ast.literal_eval(option.value) if not alias.startswith("__")]
    return sorted(found, key=lambda each: each[2])


@pytest.mark.parametrize(("path", "function", "alias"), aliases(), ids=[alias for _, _, alias in aliases()])
def test_an_alias_is_written_once_and_offered_wherever_its_name_is(path: Path, function: ast.FunctionDef, alias: str) -> None:
    names = rf"(?<!pointwise\.function\()\"{alias}\"|^{alias}\b"  # NumPy's function may have the same name
    written = [line for line in sources()[path] if re.search(names, line)]
    assert len(written) == 1, written
    assert hasattr(gradlib, alias) == hasattr(gradlib, function.name)
    assert hasattr(gradlib.Tensor, alias) == hasattr(gradlib.Tensor, function.name)


def test_an_in_place_form_among_the_functions_is_the_method_of_its_name() -> None:
    names = [name for name, value in vars(gradlib).items() if inspect.isfunction(value) and name.endswith("_") and not name.startswith("_")]
    assert len(names) > 50
    assert [name for name in names if hasattr(gradlib.Tensor, name) and getattr(gradlib, name) is not getattr(gradlib.Tensor, name)] == []
