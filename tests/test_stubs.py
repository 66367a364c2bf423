"""The type stubs: written anew they are the same, and what they say of operations is what operations do."""

from __future__ import annotations

import ast
import inspect
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.core.tensor import Tensor
from tests.ops.case import as_tensors
from tests.ops.test_table import CASES
from tests.scripts import ROOT, script

FILES = ("gradlib/__init__.pyi", "gradlib/core/methods.pyi", "gradlib/linalg.pyi", "gradlib/nn/functional.pyi", "gradlib/fft.pyi")


@pytest.fixture(scope="module")
def generator() -> ModuleType:
    return script("stubs")


def test_stubs_are_current(generator: ModuleType) -> None:
    """After a change of an operation's name or arguments: python ci/stubs.py."""
    written = generator.stubs()
    assert sorted(path.relative_to(ROOT).as_posix() for path in written) == sorted(FILES)
    stale = [path.name for path, text in written.items() if path.read_text() != text]
    assert not stale, "run python ci/stubs.py"


def test_every_public_name_is_declared() -> None:
    declared = names_of("gradlib/__init__.pyi")
    missing = (
        {name for name in vars(gradlib) if not name.startswith("_")}
        - declared
        - {"annotations", "backend", "core", "cli", "cuda", "files", "ops", "testing"}
    )
    assert not missing
    methods = set[str]().union(*map(names_of, ("gradlib/core/methods.pyi", "gradlib/core/tensor.py", "gradlib/core/of_array.py")))
    assert not {name for name in dir(Tensor) if not name.startswith("_")} - methods


def test_forms_written_by_hand_name_arguments_that_there_are() -> None:
    """Overloads say nothing that the function would refuse."""
    for name, forms in functions_of("gradlib/__init__.pyi").items():
        taken = inspect.signature(getattr(gradlib, name)).parameters.values()
        if any(each.kind in (each.VAR_POSITIONAL, each.VAR_KEYWORD) for each in taken):
            continue
        known = {each.name for each in taken}
        known |= {"axis", "keepdims"} if "dim" in known else set()
        for form in forms:
            said = {argument.arg for argument in (*form.args.args, *form.args.kwonlyargs)}
            assert said <= known, (name, said - known)


@pytest.mark.nonfinite
def test_what_is_returned_is_what_is_declared(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every function that a row of the operations' table calls by its public name, watched while the row runs."""
    seen: dict[str, set[str]] = {}

    def watched(name: str, call: Any) -> Any:
        def run(*args: Any, **named: Any) -> Any:
            found = call(*args, **named)
            seen.setdefault(name, set()).add(kind_of(found))
            return found

        return run

    for module, file in ((gradlib, FILES[0]), (gradlib.linalg, FILES[2]), (gradlib.nn.functional, FILES[3]), (gradlib.fft, FILES[4])):
        for name in functions_of(file):
            monkeypatch.setattr(module, name, watched(name, getattr(module, name)))
    rng = np.random.default_rng(0)
    for case in CASES:
        case.call(*as_tensors(list(case.inputs(rng)), "float64", "cpu"))
    assert len(seen) > 120
    wrong = {name: (kinds, RETURNED[name]) for name, kinds in seen.items() if not kinds <= RETURNED[name]}
    assert not wrong


def kind_of(value: Any) -> str:
    return "Tensor" if isinstance(value, Tensor) else "tuple" if isinstance(value, tuple) else type(value).__name__


def names_of(file: str) -> set[str]:
    found: set[str] = set()
    for node in ast.walk(ast.parse((ROOT / file).read_text())):
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            found.add(node.name)
        elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name):
            found.add(node.target.id)
        elif isinstance(node, ast.Assign):
            found |= {target.id for target in node.targets if isinstance(target, ast.Name)}
        elif isinstance(node, ast.ImportFrom):
            found |= {alias.asname or alias.name for alias in node.names}
    return found


def functions_of(file: str) -> dict[str, list[ast.FunctionDef]]:
    found: dict[str, list[ast.FunctionDef]] = {}
    for node in ast.parse((ROOT / file).read_text()).body:
        if isinstance(node, ast.FunctionDef):
            found.setdefault(node.name, []).append(node)
    return found


def returned(file: str) -> dict[str, set[str]]:
    """For each function the kinds of value that its forms return."""
    made: dict[str, set[str]] = {}
    for name, forms in functions_of(file).items():
        said = {ast.unparse(form.returns) for form in forms if form.returns is not None}
        kinds = {{"_bool": "bool", "_int": "int"}.get(each, "tuple" if each[0] in "_t" else each) for each in said}
        made[name] = kinds | ({"Tensor", "tuple"} if "Any" in kinds else set())
    return made


RETURNED = {name: kinds for file in reversed(FILES) if "methods" not in file for name, kinds in returned(file).items()}
