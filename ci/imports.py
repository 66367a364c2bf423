"""Imports only point down the house, and `import gradlib` loads nothing beyond its two dependencies.

Every room (a folder of gradlib/) stands on a floor and may import itself and rooms of lower floors, at the top
of a file or inside a function; imports for type checking only are free. `gradlib/__init__.py` is the roof
and may import all of them; only the command line stands above it.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "gradlib"
FLOORS = (
    ("backend", "files", "testing"),
    ("core",),
    ("ops",),
    ("cuda", "func", "linalg", "nn", "optim", "return_types"),
    ("interop",),
    ("autograd",),
    ("utils",),
    ("trajectory",),
    ("gradlib",),
    ("cli",),
    ("__main__",),
)
FLOOR = {room: height for height, rooms in enumerate(FLOORS) for room in rooms}
HEAVY = ("cupy", "cupyx", "scipy", "matplotlib", "ml_dtypes", "torch", "yaml")


def room_of(file: Path) -> str:
    """The room that a file of the package belongs to; `gradlib/__init__.py` is the room `gradlib`, the roof."""
    parts = file.relative_to(PACKAGE).parts
    name = parts[0].removesuffix(".py")
    return "gradlib" if name == "__init__" else name


def imported(file: Path) -> Iterator[tuple[int, str]]:
    """(line, room) for each import of gradlib in a file, except under `if TYPE_CHECKING:`."""
    package = ["gradlib", *file.relative_to(PACKAGE).parts[:-1]]
    pending: list[ast.AST] = [ast.parse(file.read_text(encoding="utf-8"), str(file))]
    while pending:
        node = pending.pop()
        if isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING"):
            pending.extend(node.orelse)
            continue
        pending.extend(ast.iter_child_nodes(node))
        if isinstance(node, ast.Import):
            names = [alias.name.split(".") for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = package[: len(package) - node.level + 1] if node.level else []
            start = start + (node.module.split(".") if node.module else [])
            names = [[*start, alias.name] for alias in node.names]
        else:
            continue
        for name in names:
            if name[0] == "gradlib":
                yield node.lineno, name[1] if len(name) > 1 and name[1] in rooms_on_disk() else "gradlib"


def rooms_on_disk() -> set[str]:
    """Every folder and file of the package that can be imported as `gradlib.NAME`."""
    return {room_of(p) for p in PACKAGE.iterdir() if (p / "__init__.py").is_file() or p.suffix == ".py"}


def faults() -> Iterator[str]:
    """One line of text for each import that points up or sideways, and for each room without a floor."""
    for room in sorted(rooms_on_disk() - FLOOR.keys()):
        yield f"gradlib/{room}: no floor; give it one in ci/imports.py"
    for file in sorted(PACKAGE.rglob("*.py")):
        room = room_of(file)
        for line, target in imported(file):
            if target != room and FLOOR.get(target, 99) >= FLOOR.get(room, 99):
                yield f"{file.relative_to(ROOT)}:{line}: {room} imports {target}, which is not below it"


def heavy_modules() -> list[str]:
    """The optional packages that a bare `import gradlib` pulls in; there must be none."""
    code = f"import sys, gradlib; print(*(m for m in {HEAVY} if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.split()


def main() -> int:
    problems = list(faults())
    problems += [f"`import gradlib` imports {name}" for name in heavy_modules()]
    print("\n".join(problems) if problems else "imports: every one points down")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
