"""Global and thread-local state has one owner: nobody assigns to what another module holds."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

PACKAGE = Path(__file__).resolve().parent.parent / "gradlib"


def assignments_to_others(source: str) -> Iterator[str]:
    """Each place where a module assigns to, or deletes, an attribute of something that it imported from gradlib."""
    tree = ast.parse(source)
    imported: set[str] = set()
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and (node.level or (node.module or "").split(".")[0] == "gradlib"):
            imported |= {alias.asname or alias.name for alias in node.names}
        elif isinstance(node, ast.Import):
            imported |= {alias.asname or "gradlib" for alias in node.names if alias.name.split(".")[0] == "gradlib"}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.ctx, (ast.Store, ast.Del)):
            base = node.value
        elif isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id in ("setattr", "delattr"):
            base = node.args[0]
        else:
            continue
        while isinstance(base, ast.Attribute):
            base = base.value
        if isinstance(base, ast.Name) and base.id in imported:
            yield f"line {node.lineno}: {ast.unparse(node)}"


@pytest.mark.slow
def test_a_module_assigns_to_nothing_that_another_one_holds() -> None:
    """Neither to slots of ``modes`` nor to another module's names: the owner has a context manager or a function for it."""
    files = sorted(PACKAGE.rglob("*.py"))
    assert len(files) > 100
    found = [(file.relative_to(PACKAGE), line) for file in files for line in assignments_to_others(file.read_text(encoding="utf-8"))]
    assert found == []


@pytest.mark.parametrize(
    "line",
    [
        "from gradlib.core.modes import thread_state\nthread_state.interpreters = ()",
        "from gradlib.core.modes import global_state\nglobal_state.active += 1",
        "from gradlib.core import modes\nmodes.global_state.walks = True",
        "from gradlib.core import backward\nbackward.over_rows = print",
        "from ..core import modes as m\ndef f():\n    a, m.thread_state.walk = m.thread_state.walk, 1",
        "from gradlib.core.modes import thread_state\ndel thread_state.interpreters",
        "import gradlib\ngradlib.core.modes.global_state.active: int = 1",
        "from gradlib.core.modes import global_state\nsetattr(global_state, 'active', 1)",
        "from gradlib.core.tensor import Tensor\nTensor.backward = print",
    ],
)
def test_such_an_assignment_is_found(line: str) -> None:
    assert len(list(assignments_to_others(line))) == 1


@pytest.mark.parametrize(
    "line", ["from gradlib.core.modes import thread_state\nprint(thread_state)", "class A: pass\nA.b = 1", "import numpy as np\nnp.x = 1"]
)
def test_what_is_one_s_own_may_be_assigned(line: str) -> None:
    assert list(assignments_to_others(line)) == []
