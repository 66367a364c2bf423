"""The stand-in for CuPy offers only what the real package has: every name exists there, and every call it takes is taken there.

The real package is asked in a process of its own; it imports without a GPU.
"""

from __future__ import annotations

import importlib
import importlib.util
import inspect
import itertools
import json
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import cupy
import numpy as np
import pytest

from gradlib.backend.dtype import as_dtype
from tests.conftest import HAS_GPU

STANDIN = Path(__file__).resolve().parents[1] / "standin"
REAL = importlib.util.find_spec("cupy_backends") is not None
pytestmark = [
    pytest.mark.host,
    pytest.mark.skipif(HAS_GPU or not REAL, reason="compares the stand-in with the real CuPy: pip install cupy-cuda12x"),
]

MODULES = (
    "cupy", "cupy.cuda", "cupy.cuda.runtime", "cupy.cuda.stream", "cupy.linalg", "cupy.random",
    "cupy.lib.stride_tricks", "cupyx", "cupyx.scipy.special",
)  # fmt: skip
TOOLS = ("typing", "collections.abc", "numpy", "__future__", "functools", "threading", "contextlib", "cupy._door")
MADE_INSIDE = ("cupy:ufunc", "cupy.cuda:Memory")  # classes that users do not construct

ASK = r"""
import importlib, inspect, json, re, sys

def parameters(thing):
    if type(thing).__name__ == "ufunc":
        return []  # all have one signature; test_a_ufunc_takes_what_cupys_take
    try:
        found = inspect.signature(thing).parameters.values()
        return [[p.name, p.kind.name, p.default is not p.empty] for p in found]
    except (ValueError, TypeError):
        pass
    line = ((getattr(thing, "__doc__", None) or "").splitlines() or [""])[0]
    match = re.match(r"[\w.]+\((.*)\)", line)
    if match is None:
        return None
    text = re.sub(r"\\\*", "*", match.group(1))
    text = re.sub(r"(^|, )(?:unsigned )?[A-Za-z_][\w.]* (?=\w)", r"\1", text)  # Cython writes the types in front
    text = re.sub(r", /", "", text)
    text = re.sub(r"=<[^>]*>", "=None", text)
    made = {}
    try:
        exec(f"def f({text}): ...", {}, made)
    except SyntaxError:
        raise SyntaxError(f"{line!r} became {text!r}") from None
    return [[p.name, p.kind.name, p.default is not p.empty] for p in inspect.signature(made["f"]).parameters.values()]

answers = {}
for name in json.load(sys.stdin):
    module, _, path = name.partition(":")
    try:
        thing = importlib.import_module(module)
        for part in path.split("."):
            thing = getattr(thing, part)
        answers[name] = parameters(thing) if callable(thing) else []
    except (AttributeError, ImportError) as error:
        answers[name] = f"{type(error).__name__}: {error}"
print(json.dumps(answers))
"""


def public(module: ModuleType) -> list[str]:
    """What a module of the stand-in offers: its own names, not what it imports for itself."""
    kept = []
    for name, value in vars(module).items():
        source = getattr(value, "__module__", "")
        tool = source in TOOLS and not hasattr(value, "__wrapped__")
        elsewhere = (
            isinstance(value, type) and source.startswith("cupy._") and not module.__name__.startswith("cupy.cuda") and module is not cupy
        )
        if not (name.startswith("_") or isinstance(value, ModuleType) or tool or elsewhere or name in ("Any", "annotations")):
            kept.append(name)
    return kept


def members(cls: type) -> list[str]:
    plain = [n for n in vars(cls) if not n.startswith("_")]
    common = {*dir(object), *vars(type(cls)), "__weakref__", "__del__"}
    special = [n for n in vars(cls) if n.startswith("__") and n not in common]
    return plain + special


def offered() -> dict[str, object]:
    """Everything public in the stand-in, as "module:path"."""
    found: dict[str, object] = {}
    for name in MODULES:
        module = importlib.import_module(name)
        for entry in public(module):
            value = getattr(module, entry)
            found[f"{name}:{entry}"] = value
            if inspect.isclass(value) and value.__module__.startswith("cupy") and not issubclass(value, Exception):
                for member in members(value):
                    found[f"{name}:{entry}.{member}"] = inspect.getattr_static(value, member)
    return found


def real_answers(names: list[str], ask: str = ASK) -> dict[str, object]:
    code = f"import sys; sys.path = [p for p in sys.path if p != {str(STANDIN)!r}]\n" + ask
    done = subprocess.run([sys.executable, "-c", code], input=json.dumps(names), capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


def refused_there(ours: inspect.Signature, theirs: list[list[object]]) -> str | None:
    """A way to call the stand-in that the real function would refuse, or None."""
    kinds = {name: kind for name, kind, _ in theirs}
    order = [name for name, kind, _ in theirs if kind.startswith("POSITIONAL")]  # type: ignore[attr-defined]
    takes_any = {"VAR_POSITIONAL", "VAR_KEYWORD"} & set(kinds.values())
    for place, parameter in enumerate(ours.parameters.values()):
        if parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD):
            continue
        if parameter.name not in kinds and not takes_any:
            return f"has no parameter {parameter.name}"
        by_place = parameter.kind is parameter.POSITIONAL_OR_KEYWORD and parameter.name in kinds and "VAR_POSITIONAL" not in takes_any
        if by_place and order[place : place + 1] != [parameter.name]:
            return f"does not take {parameter.name} as argument {place}"
    missing = [n for n, kind, default in theirs if not default and not str(kind).startswith("VAR") and n not in ours.parameters]
    return f"wants {missing[0]}" if missing else None


@pytest.fixture(scope="module")
def answers() -> dict[str, object]:
    return real_answers(list(offered()))


def test_every_name_exists_in_the_real_package(answers):
    unknown = [f"{name} ({answer})" for name, answer in answers.items() if isinstance(answer, str)]
    assert not unknown


def test_every_call_that_it_takes_is_taken_by_the_real_package(answers):
    faults = []
    compared = 0
    for name, value in offered().items():
        theirs = answers[name]
        if name in MADE_INSIDE or ".__" in name:
            continue
        if not isinstance(theirs, list) or isinstance(value, property) or not callable(value) or isinstance(value, cupy.ufunc):
            continue
        try:
            ours = inspect.signature(value)
        except ValueError:
            continue
        compared += bool(theirs)
        fault = refused_there(ours, theirs) if theirs else None
        if fault:
            faults.append(f"{name}{ours}: the real one {fault}; it has {theirs}")
    assert not faults, "\n".join(faults)
    assert compared > 150


LOOPS = r"""
import importlib, json, sys

def loops(name):
    module, _, path = name.partition(":")
    return getattr(importlib.import_module(module), path).types

print(json.dumps({name: loops(name) for name in json.load(sys.stdin)}))
"""


def result_dtypes(loops: list[str], given: tuple[np.dtype, ...]) -> tuple[np.dtype, ...] | None:
    """What CuPy's first loop gives to which these dtypes can be cast, such as "ff->?"; None where there is none."""
    named = {"E": as_dtype("bfloat16")}
    for loop in loops:
        taken, made = ([named.get(c) or np.dtype(c) for c in side] for side in loop.split("->"))
        if all(map(np.can_cast, given, taken)):
            return tuple(made)
    return None


def test_a_ufunc_gives_cupys_dtypes():
    """For all pairs of dtypes; what CuPy would take may be refused here, but never the other way round."""
    ufuncs = {name: value for name, value in offered().items() if isinstance(value, cupy.ufunc)}
    dtypes = [as_dtype(d) for d in ("?", "u1", "i1", "i2", "i4", "i8", "f2", "bfloat16", "f4", "f8", "F", "D")]
    faults = []
    for name, loops in real_answers(list(ufuncs), LOOPS).items():
        for given in itertools.product(dtypes, repeat=ufuncs[name].nin):
            try:
                made = ufuncs[name](*(cupy.ones(2, dtype) for dtype in given))
            except (TypeError, ValueError):
                continue
            found = tuple(x.dtype for x in (made if isinstance(made, tuple) else (made,)))
            if found != result_dtypes(loops, given):
                faults.append(f"{name} of {[d.name for d in given]}: {found}, CuPy gives {result_dtypes(loops, given)}")
    assert not faults, "\n".join(faults)
    assert len(ufuncs) > 80


def test_a_ufunc_takes_what_cupys_take():
    assert set(inspect.signature(cupy.ufunc.__call__).parameters) == {"self", "args", "out", "casting", "dtype"}
