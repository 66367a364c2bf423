"""The documentation's builder: what it shows of each public name, and that a link which leads nowhere is found."""

from __future__ import annotations

import importlib
import inspect
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

import gradlib
from tests.test_docstrings import MODULES

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def builder(monkeypatch: pytest.MonkeyPatch) -> Iterator[Any]:
    """ci/docs.py."""
    monkeypatch.syspath_prepend(str(ROOT / "ci"))
    import docs

    yield docs
    for name in ("docs", "docs_api"):
        sys.modules.pop(name, None)


@pytest.fixture
def api(builder: Any) -> Any:
    """ci/docs_api.py."""
    return sys.modules["docs_api"]


@pytest.fixture
def pages(builder: Any) -> dict[str, str]:
    """The pages of the reference."""
    return dict(builder.Reference().pages())


def test_every_public_function_and_method_has_an_entry(pages: dict[str, str]) -> None:
    for name, value in vars(gradlib).items():
        if callable(value) and not name.startswith("_") and getattr(value, "__module__", "").startswith("gradlib") and name != "Tensor":
            assert any(f" {name}{after}" in pages["gradlib"] for after in "(\n"), name
    for name in dir(gradlib.Tensor):
        if not name.startswith("_"):
            assert any(f" gradlib.Tensor.{name}{after}" in pages["tensor"] for after in "(\n"), name


def test_every_module_whose_docstrings_are_looked_at_has_a_page(api: Any) -> None:
    assert {module.__name__ for module in MODULES} <= {"gradlib", "gradlib.autograd.function", *api.MODULES}


def test_every_name_of_a_page_with_parts_has_an_entry(api: Any, pages: dict[str, str]) -> None:
    for name in api.PARTS:
        for each in api.public(modules(api)[name]):
            assert any(f" {each}{after}" in pages[api.page_name(name)] for after in "(\n"), each


def test_names_in_prose_lead_to_the_reference(builder: Any) -> None:
    linked = builder.Reference().linked
    assert linked("`step_jerk`, `optim.Adam()`") == (
        "{py:obj}`step_jerk <gradlib.trajectory.step_jerk>`, {py:obj}`optim.Adam() <gradlib.optim.Adam>`"
    )
    for left in ("`grad` and `no_such_name`", "## `no_grad`", "```\n`no_grad`\n```", "    `no_grad`", "[about `no_grad`](x.md)"):
        assert linked(left) == left


def test_every_public_name_has_a_docstring(api: Any) -> None:
    shown = {f"{name}.{each}": getattr(module, each) for name, module in modules(api).items() for each in api.public(module)}
    methods = {f"Tensor.{each}": getattr(gradlib.Tensor, each) for each in api.members(gradlib.Tensor)}
    assert [name for name, value in {**shown, **methods}.items() if not value.__doc__] == []


def test_every_method_of_a_public_class_has_a_docstring(api: Any) -> None:
    """Its own, or that of what it overrides; the compatibility classes of the integrators have their class's."""
    missing = [
        f"{module}.{name}.{each}"
        for module, value in modules(api).items()
        if module != "gradlib.trajectory"
        for name in api.public(value)
        if inspect.isclass(getattr(value, name))
        for each in api.members(getattr(value, name))
        if not api.documentation(getattr(value, name), each)
    ]
    assert missing == []


def test_each_argument_has_a_line_of_its_own(pages: dict[str, str]) -> None:
    """`a: this; b: that` and `a: this. b: that` hide b from a reader who looks for it."""
    several = r"^  - `[\w, `]+`: .*[;.] `?[a-z_]\w*(?:, [a-z_]\w*)*`?: .*"
    found = [line for text in pages.values() for line in re.findall(several, text, re.MULTILINE)]
    assert found == [], "\n".join(found)


def test_a_method_is_described_where_it_is_defined(pages: dict[str, str]) -> None:
    """Not once more in each subclass, which says whose methods it has."""
    assert pages["optim"].count("{py:method} zero_grad(") == 1
    subclasses = [each for each in vars(gradlib.optim).values() if inspect.isclass(each) and gradlib.optim.Optimizer in each.__mro__[1:]]
    assert pages["optim"].count("has what {py:class}`Optimizer <gradlib.optim.Optimizer>` has") == len(subclasses) >= 3


def test_the_command_has_a_page_made_of_its_help(pages: dict[str, str]) -> None:
    text = pages["command"]
    assert re.findall(r"^## gradlib (\w+)", text, re.MULTILINE) == ["trajopt", "profile", "info", "bench"]
    assert "--urdf FILE " in text
    assert "\n    jerk: [5000, 5000, 6000, 6000, 6000, 7000, 7000]\n    joints:\n      panda_joint1:" in text  # the example, as code


def test_every_module_with_public_names_has_a_page(api: Any) -> None:
    faces = {"gradlib.backend", "gradlib.core", "gradlib.ops", "gradlib.files", "gradlib.cli"}
    found = {value.__name__: value for value in vars(gradlib).values() if inspect.ismodule(value) and value.__name__.startswith("gradlib.")}
    documented = {*api.MODULES, "gradlib.nn", "gradlib.return_types"}
    assert {name for name, value in found.items() if api.public(value)} - faces <= documented


def modules(api: Any) -> dict[str, ModuleType]:
    return {name: importlib.import_module(name) for name in ("gradlib", *api.MODULES)}


def test_operations_show_their_types_and_sections(pages: dict[str, str]) -> None:
    signature = "tanh(input: Tensor, *, out: Tensor | None=None) -> Tensor"
    assert f"py:function}} {signature}\nHyperbolic tangent of each element.\n" in pages["gradlib"]
    assert ":Example:\n\n  ```pycon\n  >>> gradlib.tanh(gradlib.tensor([0.0, 1.0]))\n  tensor([0.0000, 0.7616])\n  ```" in pages["gradlib"]
    assert "max(input: Tensor, dim: int, keepdim: bool=False" in pages["gradlib"]
    assert ":Raises: RuntimeError for integers and bools without `dtype`." in pages["gradlib"]
    assert ":::{py:method} gradlib.Tensor.cumsum(dim: int" in pages["tensor"]
    assert " PREV_STATE: bool" in pages["trajectory"]
    assert "return_types.SVD" in pages["linalg"]


def test_indented_parts_of_a_docstring_are_code(pages: dict[str, str]) -> None:
    assert "\n    from gradlib.testing import hostcuda\n    hostcuda.activate()" in pages["testing_hostcuda"]
    assert "\n    m = b1 m + (1 - b1) g\n    s = b2 s" in pages["optim"]


def test_objects_are_not_shown_by_address(pages: dict[str, str]) -> None:
    assert [name for name, text in pages.items() if " at 0x" in text] == []


def test_link_to_no_file_is_a_fault(builder: Any, tmp_path: Path) -> None:
    stage = builder.Stage(tmp_path)
    page = ROOT / "gradlib/core/README.md"
    assert stage.relinked(page, "[a](../../README.md#what-it-is) [b](op.py)") == (
        "[a](../../index.md#what-it-is) [b](../../source/gradlib/core/op.py.md)"
    )
    assert stage.faults == []
    stage.relinked(page, "[c](no_such.py)")
    assert stage.faults == ["gradlib/core/README.md: the link no_such.py leads to no file"]


def test_link_of_the_site_that_leads_nowhere_is_a_fault(builder: Any, tmp_path: Path) -> None:
    (tmp_path / "one.html").write_text('<a href="two.html#here">x</a> <a href="https://example.org/none">x</a> <img src="two.html">')
    (tmp_path / "two.html").write_text('<p id="here"> <a href="#there">x</a> <a href="three.html">x</a> <a href="one.html#">x</a>')
    assert builder.broken(tmp_path) == ["two.html: the link #there leads nowhere", "two.html: the link three.html leads nowhere"]


def test_contents_name_every_page(builder: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(builder.TREE["Packages"], "gradlib/func/README.md")  # as if nobody had listed it
    pages = {path.relative_to(ROOT).as_posix() for path in (ROOT / "gradlib").rglob("*.md")}
    assert pages <= {name for names in builder.tree().values() for name in names}
    assert builder.tree()["Packages"]["gradlib/func/README.md"] == "func"
    assert "func <gradlib/func/README.md>" in builder.contents()
