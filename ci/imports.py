"""Imports only point down, nowhere in a circle, and `import gradlib` loads nothing beyond its two dependencies.

Every package of gradlib (and every module that stands beside them) has a layer and may import itself and what is in lower layers. Within a
package, files may not import each other in a circle. Imports of every kind count: at the top of a file, inside a function, under
`if TYPE_CHECKING:`, and `import_module("gradlib...")`. `gradlib/__init__.py` may import every package; only the command line is above it.
A generated stub without a module of its own (`core/methods.pyi`) is no file of the program and may be named for type checking.
"""

from __future__ import annotations

import ast
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
PACKAGE = ROOT / "gradlib"
LAYERS = (
    ("backend", "files"),
    ("core", "testing"),
    ("ops",),
    ("fft", "func", "linalg", "nn", "return_types"),
    ("numpy",),
    ("autograd",),
    ("array_api", "interop", "optim"),
    ("cuda", "utils"),
    ("distributed", "trajectory"),
    ("gradlib",),
    ("cli",),
    ("__main__",),
)
"""The packages from the lowest layer up; `gradlib` is `gradlib/__init__.py`."""

HEAVY = (
    "cupy", "cupyx", "dask", "distributed", "jax", "scipy", "matplotlib", "ml_dtypes", "mpi4py", "pyarrow", "safetensors", "torch",
    "xarray", "yaml",
)  # fmt: skip


def modules() -> dict[str, Path]:
    """Every module of the package on disk, by its dotted name."""
    found = {}
    for file in sorted(PACKAGE.rglob("*.py")):
        parts = ("gradlib", *file.relative_to(PACKAGE).with_suffix("").parts)
        found[".".join(parts[:-1] if parts[-1] == "__init__" else parts)] = file
    return found


def package_of(module: str) -> str:
    """The package of a module, as LAYERS names it: `core` for `gradlib.core.node`, `gradlib` for `gradlib/__init__.py`."""
    return module.split(".")[1] if "." in module else "gradlib"


def imported(name: str, known: dict[str, Path]) -> Iterator[tuple[int, str]]:
    """(line, module) for each import of gradlib's own modules in the module `name`, of whatever kind."""
    file = known[name]
    parents = name.split(".") if file.name == "__init__.py" else name.split(".")[:-1]
    for node in ast.walk(ast.parse(file.read_text(encoding="utf-8"), str(file))):
        if isinstance(node, ast.Import):
            targets = [alias.name for alias in node.names]
        elif isinstance(node, ast.ImportFrom):
            start = [*parents[: len(parents) - node.level + 1]] if node.level else []
            base = ".".join([*start, *([node.module] if node.module else [])])
            targets = [f"{base}.{alias.name}" for alias in node.names]
        elif isinstance(node, ast.Call) and ast.unparse(node.func).endswith(("import_module", "__import__")):
            targets = [str(arg.value) for arg in node.args[:1] if isinstance(arg, ast.Constant)]
        else:
            continue
        for target in targets:
            if target.split(".")[0] == "gradlib" and (found := _module_of(target, known)):
                yield node.lineno, found


def _module_of(target: str, known: dict[str, Path]) -> str | None:
    """The module that `import target` or `from ... import name` loads: itself, or the one that holds the name; None for a stub alone."""
    while target not in known:
        if (PACKAGE.parent / (target.replace(".", "/") + ".pyi")).is_file():
            return None
        target = target.rpartition(".")[0]
        if not target:
            return None
    return target


def graph() -> dict[str, dict[str, int]]:
    """For each module those that it imports, with the line of the first import."""
    known = modules()
    arrows: dict[str, dict[str, int]] = {}
    for name in known:
        arrows[name] = {}
        for line, target in imported(name, known):
            if target != name:
                arrows[name].setdefault(target, line)
    return arrows


def circles(arrows: dict[str, dict[str, int]]) -> list[list[str]]:
    """The modules that import each other in a circle, one list for each circle (Tarjan's strongly connected components)."""
    order: dict[str, int] = {}
    low: dict[str, int] = {}
    stack: list[str] = []
    found: list[list[str]] = []

    def visit(name: str) -> None:
        order[name] = low[name] = len(order)
        stack.append(name)
        for target in arrows[name]:
            if target not in order:
                visit(target)
            if target in stack:
                low[name] = min(low[name], low[target])
        if low[name] == order[name]:
            at = stack.index(name)
            if len(stack) - at > 1:
                found.append(sorted(stack[at:]))
            del stack[at:]

    for name in arrows:
        if name not in order:
            visit(name)
    return found


def faults() -> Iterator[str]:
    """One line of text for each import that points up or sideways, each circle, and each package without a layer or without files."""
    layer_of = {package: height for height, packages in enumerate(LAYERS) for package in packages}
    arrows, known = graph(), modules()
    on_disk = {package_of(name) for name in arrows}
    for package in sorted(on_disk - layer_of.keys()):
        yield f"gradlib/{package}: in no layer; give it one in ci/imports.py"
    for package in sorted(layer_of.keys() - on_disk):
        yield f"ci/imports.py: there is no package gradlib/{package}; take it out of LAYERS"
    for name, targets in arrows.items():
        here = package_of(name)
        for target, line in targets.items():
            there = package_of(target)
            if there != here and layer_of.get(there, 99) >= layer_of.get(here, 99):
                yield f"{known[name].relative_to(ROOT)}:{line}: {here} imports {there}, which is not below it"
    for circle in circles(arrows):
        yield f"a circle of {len(circle)} modules:"
        for name in circle:
            for target, line in sorted(arrows[name].items()):
                if target in circle:
                    yield f"    {known[name].relative_to(ROOT)}:{line}: {name} imports {target}"


def heavy_modules() -> list[str]:
    """The optional packages that a bare `import gradlib` pulls in; there must be none."""
    code = f"import sys, gradlib; print(*(m for m in {HEAVY} if m in sys.modules))"
    done = subprocess.run([sys.executable, "-c", code], cwd=ROOT, capture_output=True, text=True, check=True)
    return done.stdout.split()


def main() -> int:
    problems = list(faults())
    problems += [f"`import gradlib` imports {name}" for name in heavy_modules()]
    print("\n".join(problems) if problems else "imports: every one points down, none is in a circle")
    return 1 if problems else 0


if __name__ == "__main__":
    sys.exit(main())
