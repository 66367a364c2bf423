"""The documentation of public functions and classes: what it must say, its sections in one order, and an example that runs.

What must stand there follows from the code, so that nothing is said for form's sake:

- the first line is a sentence, and says what the function gives;
- Args names every parameter, or says whose they are ("as for ``NAME``"). ``input`` may go without saying, and ``out=``, which all have;
- Returns stands where there are several results, since the first line speaks of one;
- Raises names what the function itself raises;
- Source names whose rules it follows, unless it is gradlib's own idea;
- Example runs, and prints what it says.
"""

from __future__ import annotations

import ast
import doctest
import functools
import importlib
import inspect
import re
import textwrap
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy
import pytest

import gradlib
from tests.profiler import files

pytestmark = pytest.mark.host

MODULES = tuple(
    importlib.import_module(f"gradlib{name}")
    for name in (
        "", ".nn.functional", ".nn.utils", ".fft", ".linalg", ".cuda", ".cuda.nvtx", ".func", ".interop", ".interop.hips", ".optim",
        ".optim.lr_scheduler", ".optim.swa_utils", ".autograd",
        ".autograd.forward_ad", ".autograd.function", ".autograd.functional", ".autograd.graph", ".autograd.profiler", ".trajectory",
        ".utils", ".utils.checkpoint", ".distributed", ".distributed.nn.functional", ".distributed.optim",
    )
)  # fmt: skip
"""``gradlib.testing.hostcuda`` is not among them: its functions work only in a process where it was put beneath CuPy."""

OPTIONAL = ("jax", "numba", "scipy", "torch")
"""Packages without which an example that imports one is skipped."""

SECTIONS = ["Args", "Attributes", "Returns", "Raises", "Source", "Example"]

BASES = {
    "gradlib.optim.Optimizer", "gradlib.optim.lr_scheduler.LRScheduler", "gradlib.autograd.function.BackwardCFunction",
    "gradlib.autograd.function.FunctionCtx", "gradlib.autograd.function.FunctionMeta", "gradlib.autograd.function.InplaceFunction",
}  # fmt: skip
"""Classes that a program names but does not call: the examples of those built on them show their use."""

OWN = {
    "gradlib.DamagedFile", "gradlib.autograd.profiler.load_nsys", "gradlib.utils.graphviz",
    "gradlib.utils.print_graph", "gradlib.trajectory.JointLimits", "gradlib.trajectory.JointState", "gradlib.trajectory.JointTrajectory",
    "gradlib.trajectory.BoundsCost", "gradlib.trajectory.EnergyCost", "gradlib.trajectory.PathLengthCost",
    "gradlib.trajectory.TerminalCost", "gradlib.trajectory.TimeCost", "gradlib.trajectory.TrackingCost",
    "gradlib.trajectory.Plans", "gradlib.trajectory.plan_many", "gradlib.trajectory.use_numba",
    "gradlib.cuda.CompileError", "gradlib.cuda.Kernel", "gradlib.cuda.graphed", "gradlib.cuda.kernel",
}  # fmt: skip
"""What follows nobody's rules."""

UNSAID = {"input", "out", "into", "self", "cls", "xp"}
"""Parameters that need no line: the tensor that a method belongs to, what every operation takes, and what only gradlib itself passes."""


def is_written_in_place(name: str) -> bool:
    """Whether a name is the in-place form of another function, which has the example."""
    return name.endswith("_") and hasattr(gradlib.Tensor, name)


def offered(module: ModuleType) -> dict[str, Any]:
    """The functions and classes of gradlib that a module offers."""
    names = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
    values = {name: getattr(module, name) for name in names if not is_written_in_place(name)}
    own = {name: value for name, value in values.items() if inspect.isfunction(value) or inspect.isclass(value)}
    return {name: value for name, value in own.items() if value.__module__.startswith("gradlib")}


def public() -> dict[str, Any]:
    """Every public function and class by its first name; aliases, whose documentation is the same, are left out."""
    found: dict[str, Any] = {}
    seen: set[str] = set()
    for module in MODULES:
        for name, value in offered(module).items():
            if f"{module.__name__}.{name}" not in BASES and value.__doc__ not in seen:
                found[f"{module.__name__}.{name}"] = value
                seen.add(value.__doc__ or name)
    return found


PUBLIC = public()


def documented(name: str) -> str:
    return inspect.getdoc(PUBLIC[name]) or ""


def section(name: str, title: str) -> str:
    """The text of a section, empty where there is none."""
    found = re.search(rf"^{title}:(.*?)(?=^\w+:|\Z)", documented(name), re.M | re.S)
    return found[1] if found else ""


@functools.cache
def declared(name: str) -> ast.FunctionDef:
    """The definition of a function as it is written: an operation's value, without what decorators put around it."""
    function = inspect.unwrap(PUBLIC[name])
    function = inspect.unwrap(function.op.value) if hasattr(function, "op") else function
    (found,) = ast.parse(textwrap.dedent(inspect.getsource(function))).body
    assert isinstance(found, ast.FunctionDef), name
    return found


FUNCTIONS = [name for name, value in PUBLIC.items() if inspect.isfunction(value)]


def test_every_public_function_is_looked_at() -> None:
    assert len(PUBLIC) > 430
    assert {"gradlib.add", "gradlib.linalg.inv", "gradlib.nn.functional.gelu", "gradlib.func.vjp", "gradlib.no_grad"} <= set(PUBLIC)
    assert {"gradlib.autograd.grad", "gradlib.autograd.profiler.profile", "gradlib.trajectory.step_jerk"} <= set(PUBLIC)


def test_the_first_line_is_a_sentence() -> None:
    first = {name: documented(name).split("\n")[0] for name in PUBLIC}
    assert {name: line for name, line in first.items() if not re.match(r"\S.*[.:]$", line)} == {}


def test_every_one_has_an_example_and_says_whose_rules_it_follows() -> None:
    assert [name for name in PUBLIC if "\nExample:\n    >>> " not in documented(name)] == []
    assert [name for name in PUBLIC if ("\nSource: " in documented(name)) == (name in OWN)] == []


def test_sections_stand_in_one_order_each_on_lines_of_its_own() -> None:
    for name in PUBLIC:
        found = re.findall(rf"^({'|'.join(SECTIONS)}):", documented(name), re.M)
        assert found == [section for section in SECTIONS if section in found], name
        assert not re.search(r"\S (Returns|Raises|Source|Example): ", documented(name)), name


def parameters(name: str) -> set[str]:
    """What Args must name."""
    value = PUBLIC[name]
    if "Attributes:" in documented(name) or (inspect.isclass(value) and issubclass(value, Exception)):
        return set()  # a record or an error, which programs read and do not make
    if inspect.isclass(value):
        names = set(inspect.signature(value).parameters) - {"args", "kwargs"} if "__init__" in vars(value) else set()
    else:
        arguments = declared(name).args
        names = {each.arg for each in (*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs)}
        names |= {arguments.vararg.arg} if arguments.vararg else set()
    return {each for each in names - UNSAID if not each.startswith("_")}


def test_args_name_every_parameter() -> None:
    missing = {name: {each for each in parameters(name) if not re.search(rf"\b{each}\b", section(name, "Args"))} for name in PUBLIC}
    assert {name: found for name, found in missing.items() if found} == {}


def gives_several(name: str) -> bool:
    operation = getattr(inspect.unwrap(PUBLIC[name]), "op", None)
    result = declared(name).returns
    several = operation is not None and len(operation.outputs) > 1
    return several or (result is not None and ast.unparse(result).startswith(("tuple", "dict", "list", "Callable", "Iterator[_")))


def test_several_results_stand_under_returns() -> None:
    assert [name for name in FUNCTIONS if gives_several(name) and not section(name, "Returns")] == []


def raised_by(name: str) -> set[str]:
    """What a function raises itself; an error without a text is for the function's own use."""
    raises = [each.exc for each in ast.walk(declared(name)) if isinstance(each, ast.Raise)]
    return {ast.unparse(each.func) for each in raises if isinstance(each, ast.Call)}


def test_what_a_function_raises_stands_under_raises() -> None:
    unsaid = {name: {e for e in raised_by(name) if e.endswith("Error") and e not in section(name, "Raises")} for name in FUNCTIONS}
    assert {name: errors for name, errors in unsaid.items() if errors} == {}
    assert [name for name in FUNCTIONS if raised_by(name) and not section(name, "Raises")] == []


@pytest.mark.parametrize("name", PUBLIC)
def test_the_example_runs_and_prints_what_it_says(name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for package in OPTIONAL:
        if f"import {package}" in documented(name) or (name, package) == ("gradlib.erf", "scipy"):
            pytest.importorskip(package)
    monkeypatch.chdir(tmp_path)
    if name.endswith("load_nsys"):
        files.nsys(tmp_path / "run.sqlite")
    if name.endswith("load_nvprof"):
        files.nvprof(tmp_path / "run.nvprof")
    examples = doctest.DocTestParser().get_doctest(documented(name), {"gradlib": gradlib, "numpy": numpy}, name, None, None)
    said: list[str] = []
    result = doctest.DocTestRunner(verbose=False, optionflags=doctest.ELLIPSIS).run(examples, out=said.append)
    assert result.attempted
    assert not result.failed, "".join(said)
