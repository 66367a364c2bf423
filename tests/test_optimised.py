"""``python -O`` changes no result: it drops `assert` statements and turns `__debug__` off, so the package has neither.

``ci/versions.sh`` runs the quick tests under it, on the oldest and the newest Python that a machine has.
"""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent


def dropped(text: str) -> Iterator[int]:
    """The lines of a source that ``-O`` would take something from."""
    for node in ast.walk(ast.parse(text)):
        if isinstance(node, ast.Assert) or (isinstance(node, ast.Name) and node.id == "__debug__"):
            yield node.lineno


@pytest.mark.slow
def test_the_package_has_nothing_that_it_drops() -> None:
    files = [*(ROOT / "gradlib").rglob("*.py")]
    assert len(files) > 100
    assert [f"{path.relative_to(ROOT)}:{line}" for path in files for line in dropped(path.read_text(encoding="utf-8"))] == []


def test_what_it_drops_is_seen() -> None:
    assert list(dropped("x = 1\nassert x, 'not zero'\nif __debug__:\n    print(x)\n")) == [2, 3]
