"""Thresholds of size lowered, so that the few elements of random programs take the ways of large arrays.

gradlib chooses many of its ways by an array's size. The thresholds are whole numbers with names in capitals at the top of a module; which
of those there are is declared here once, the others beside them.
"""

from __future__ import annotations

import ast
import importlib.util
import pathlib
from collections.abc import Iterator

import gradlib

ROOT = pathlib.Path(gradlib.__file__).parent
PACKAGES = ("backend", "core", "func", "nn", "numpy", "ops", "optim", "trajectory")
"""The packages whose constants are declared."""

THRESHOLDS = {
    "backend.array": "SMALL _MANY",
    "backend.columns": "LARGE LEAST WIDTH _BESIDE _BYTES _ROW _SHORT",
    "backend.copying": "_SMALL",
    "backend.flat_index": "FEW _SHORT",
    "backend.lines": "LINES MANY SHORTER STEPS _AT_ONCE _BESIDE _BLOCK _BLOCKS _LINES _LONG _ROWS _SHORT _STEP _STRIDED _WIDE _WIDENED",
    "backend.mask": "LEAST _BLOCK _SOME",
    "backend.rows": "_MANY _ROW",
    "backend.scatter": "_LONG _NARROW",
    "backend.small_products": "LEAST _AT_ONCE _PRODUCTS",
    "backend.sums": "LEAST LEAST_ALONE SHORT _BESIDE _BLOCK _LINES _LONG _MANY _PIECE _WIDTH",
    "backend.vectorised.angles": "_SEVERAL",
    "backend.vectorised.blocks": "BLOCK LEAST _CACHED _LINE",
    "backend.vectorised.half": "MANY",
    "backend.vectorised.logistic": "_FEW",
    "backend.vectorised.normal": "_SEVERAL",
    "backend.vectorised.remainders": "_SEVERAL",
    "nn.utils": "_SMALL",
    "ops.compare": "_FEW _FIRST _SOME",
    "ops.gather": "_FEW",
    "ops.linalg.solve": "_LARGE",
    "ops.minmax": "_LINES _PLACED",
    "ops.rearrange": "_FEW _ROWS _SMALL",
    "ops.reduce": "_AT_ONCE _LARGE _LONG _LONG_ROW _MANY _NARROW _ROW",
    "ops.scan": "_LARGE _SHORT _SOME",
    "ops.softmax": "_MANY",
    "ops.sort": "_FEW _LARGE",
    "optim.foreach": "SMALL _CACHED",
    "optim.optimizer": "_BLOCK",
    "trajectory.cache_blocks": "_BLOCK _FEW _LARGEST _LONG _RECORD _SETUP _STEP _SUMMED _WIDE",
    "trajectory.chain_numba": "_FEW",
    "trajectory.cost_host": "_BLOCK",
    "trajectory.cost_numba": "_BLOCK",
    "trajectory.planning.problems": "_AT_ONCE",
    "trajectory.planning.sines": "_ALONE _SHORT",
    "trajectory.planning.solve": "ELEMENTS",
    "trajectory.skewed_table": "LARGEST",
}
"""Those by which one of several ways to the same result is chosen on the host, or how much of it is computed at a time."""

OTHERS = {
    "backend.classes": "LONGEST",
    "backend.copying": "PARTS",
    "backend.dlpack": "_BFLOAT _UNSIGNED",
    "backend.dtype": "_FEW",
    "backend.elimination": "WIDEST",
    "backend.folding": "LONGEST MOST_LOOKS",
    "backend.formulas": "LONGEST",
    "backend.line_layout": "GROUPS LONGEST",
    "backend.line_slopes": "_LONGEST_PRODUCT",
    "backend.marked": "LONGEST _BLOCK",
    "backend.matrices": "LARGEST WIDEST",
    "backend.number": "_KEPT",
    "backend.pairs": "LONGEST",
    "backend.placing": "MOST_ARRAYS",
    "backend.kernel_text": "FEW MOST THREADS",
    "backend.random": "_BITS",
    "backend.reflections": "_THREADS",
    "backend.rotations": "WIDEST _SWEEPS",
    "backend.rows": "_BUFFER",
    "backend.scanning": "LONGEST",
    "backend.searching": "LONGEST",
    "backend.several": "MOST_ARRAYS PIECE THREADS _ROOM",
    "backend.singular": "LONGEST SHARED WIDEST _SWEEPS",
    "backend.sorting": "LONGEST",
    "backend.vectorised.half": "_INFINITE _OVERFLOW",
    "backend.vectorised.remainders": "_FIRST_DIGITS",
    "core.dispatch": "HOST _ALWAYS_WHOLE",
    "core.meeting": "_HELD _HELD_BY_HALF",
    "core.streams": "_DEFAULTS",
    "core.symbols": "MOST",
    "ops.distance": "_FEW",
    "ops.index_key": "_LONG",
    "ops.random": "_SHORT",
    "trajectory.bspline_device": "_WIDE_HELD",
    "trajectory.cache_blocks": "_LINE _SETS",
    "trajectory.cost_device": "FIELDS _FEW _STEPS",
    "trajectory.cost_terms": "PATH TIME",
    "trajectory.lanes": "MOST",
    "trajectory.planning.errors": "_LONGEST _NAMES",
    "trajectory.planning.job": "CHUNK _RETRIES",
    "trajectory.planning.lbfgs": "LOOK",
    "trajectory.planning.lbfgs_device": "HISTORY _FEW _MANY",
    "trajectory.planning.motion": "SHORTEST",
    "trajectory.planning.parts": "_SHOWN",
    "trajectory.planning.problems": "_LONGEST",
    "trajectory.planning.solve": "LONG",
    "trajectory.skewed_table": "_KEPT",
    "trajectory.tiles": "THREADS _ELEMENTS _GRID _HIDDEN _OF_CUDA _OUTPUTS _RESIDENT _RUN _SERIES _SHARED _THREADS_HELD _WAIT",
}
"""The rest: what is part of a meaning, a format or a CUDA kernel, or bounds a cache."""


def declared(table: dict[str, str]) -> set[tuple[str, str]]:
    """Each constant of a table as (module, name)."""
    return {(module, name) for module, names in table.items() for name in names.split()}


def constants() -> set[tuple[str, str]]:
    """Every whole number with a name in capitals at the top of a module of `PACKAGES`, as its source has it."""
    found = set()
    for module, statement in _statements():
        if isinstance(statement, ast.Assign):
            target, value = statement.targets[0], statement.value
            both = isinstance(target, ast.Tuple) and isinstance(value, ast.Tuple)
            for name, number in zip(target.elts, value.elts, strict=True) if both else [(target, value)]:
                if isinstance(name, ast.Name) and name.id.isupper() and _is_whole(number):
                    found.add((module, name.id))
    return found


def _statements() -> Iterator[tuple[str, ast.stmt]]:
    """What stands at the top of each module, with its name."""
    for path in (path for package in PACKAGES for path in (ROOT / package).rglob("*.py")):
        module = ".".join(path.relative_to(ROOT).with_suffix("").parts).removesuffix(".__init__")
        yield from ((module, statement) for statement in ast.parse(path.read_text()).body)


def _is_whole(value: ast.expr) -> bool:
    """Whether an expression is a whole number, or some that are multiplied, shifted and so on."""
    parts = (ast.Constant, ast.BinOp, ast.UnaryOp, ast.operator, ast.unaryop)
    return all(isinstance(each, parts) for each in ast.walk(value)) and type(eval(ast.unparse(value))) is int


def lower(elements: int) -> None:
    """Set all thresholds, in this process, to a number of elements, of at least 2; also where another module has imported one."""
    if elements < 2:
        raise ValueError(f"blocks have at least 2 elements, got {elements}")
    for module, name in lowered():
        setattr(importlib.import_module(f"gradlib.{module}"), name, elements)


def lowered() -> set[tuple[str, str]]:
    """The thresholds, also where another module has imported one; without numba those of compiled loops are not there."""
    chosen = declared(THRESHOLDS)
    everywhere = chosen | {(importer, name) for importer, source, name in imported() if (source, name) in chosen}
    compiled = importlib.util.find_spec("numba") is not None
    return {(module, name) for module, name in everywhere if compiled or not module.endswith("_numba")}


def imported() -> Iterator[tuple[str, str, str]]:
    """Each name in capitals that a module of `PACKAGES` imports from another: (importer, source, name)."""
    for module, statement in _statements():
        if isinstance(statement, ast.ImportFrom) and (statement.module or "").startswith("gradlib."):
            source = str(statement.module).removeprefix("gradlib.")
            yield from ((module, source, each.name) for each in statement.names if each.name.isupper())
