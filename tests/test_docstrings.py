"""The documentation of public functions: sections in one order, and an example that runs."""

from __future__ import annotations

import doctest
import inspect
import re
from types import ModuleType
from typing import Any

import numpy
import pytest

import gradlib
from gradlib.optim import lr_scheduler, swa_utils

pytestmark = pytest.mark.host

MODULES = (
    gradlib, gradlib.nn.functional, gradlib.nn.utils, gradlib.fft, gradlib.linalg, gradlib.func, gradlib.optim, lr_scheduler, swa_utils,
)  # fmt: skip
SECTIONS = ["Args", "Returns", "Raises", "Source", "Example"]
BASES = {gradlib.optim.Optimizer, lr_scheduler.LRScheduler}


def belongs(module: ModuleType, name: str, value: Any) -> bool:
    """Whether a name is one of the module's public functions (or of its classes, where it offers classes)."""
    if name.startswith("_") or value in BASES:
        return False
    if inspect.isclass(value):
        return module in (gradlib.optim, lr_scheduler, swa_utils) and value.__module__.startswith("gradlib.optim.")
    own = module.__name__ if module in (gradlib.nn.utils, lr_scheduler, swa_utils) else "gradlib."
    return inspect.isfunction(value) and value.__module__.startswith(own) and name in getattr(module, "__all__", [name])


def is_written_in_place(name: str) -> bool:
    """Whether a name is the in-place form of another function, which has the example."""
    return name.endswith("_") and hasattr(gradlib.Tensor, name)


def public() -> dict[str, Any]:
    """Every public function by its first name; aliases, whose documentation is the same, are left out."""
    found: dict[str, Any] = {}
    seen: set[str] = set()
    for module in MODULES:
        for name, value in vars(module).items():
            if belongs(module, name, value) and not is_written_in_place(name) and value.__doc__ not in seen:
                found[f"{module.__name__}.{name}"] = value
                seen.add(value.__doc__ or name)
    return found


PUBLIC = public()


def documented(name: str) -> str:
    return inspect.getdoc(PUBLIC[name]) or ""


def test_every_public_function_is_looked_at() -> None:
    assert len(PUBLIC) > 340
    assert {"gradlib.add", "gradlib.tanh", "gradlib.linalg.inv", "gradlib.nn.functional.gelu", "gradlib.func.vjp"} <= set(PUBLIC)


def test_every_public_function_has_an_example_and_says_whose_rules_it_follows() -> None:
    own = {"gradlib.optim.swa_utils.AveragedParameters"}  # torch has no such class
    assert [name for name in PUBLIC if "\nExample:\n    >>> " not in documented(name)] == []
    assert [name for name in PUBLIC if "\nSource: " not in documented(name) and name not in own] == []


def test_sections_stand_in_one_order_each_on_lines_of_its_own() -> None:
    for name in PUBLIC:
        found = re.findall(rf"^({'|'.join(SECTIONS)}):", documented(name), re.M)
        assert found == [section for section in SECTIONS if section in found], name
        assert not re.search(r"\S (Returns|Raises|Source|Example): ", documented(name)), name


@pytest.mark.parametrize("name", PUBLIC)
def test_the_example_runs_and_prints_what_it_says(name: str) -> None:
    if name == "gradlib.erf":
        pytest.importorskip("scipy")
    examples = doctest.DocTestParser().get_doctest(documented(name), {"gradlib": gradlib, "numpy": numpy}, name, None, None)
    said: list[str] = []
    result = doctest.DocTestRunner(verbose=False).run(examples, out=said.append)
    assert result.attempted
    assert not result.failed, "".join(said)
