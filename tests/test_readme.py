"""The README's example prints what the README says, its commands exist, and the code of every page of documentation runs."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

import pytest

import gradlib
from tests.device import HAS_GPU, NO_CUDA

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


def block(language: str) -> str:
    """The first fenced block of a language."""
    found = re.search(rf"```{language}\n(.*?)```", README, re.DOTALL)
    assert found, f"README.md has no {language} block"
    return found[1]


def test_example_prints_what_it_says() -> None:
    command = [sys.executable, "-W", "error", "-c", block("python")]
    done = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    assert done.stdout == block("text")


def test_example_has_twelve_lines() -> None:
    assert len(block("python").splitlines()) <= 12


def test_scripts_and_extras_it_names_exist() -> None:
    scripts = re.findall(r"\bci/\w+\.\w+", README)
    assert "ci/test.sh" in scripts
    assert all((ROOT / name).is_file() for name in scripts)
    known = set(re.findall(r"^(\w+) = \[", _optional_dependencies(), re.MULTILINE))
    assert set(re.findall(r"\[(\w+)\]'", README)) - {"NAME"} <= known
    rows = README.split("| extra | for |")[1].split("\n\n")[0].splitlines()
    assert {name for row in rows for name in re.findall(r"`(\w+)`", row.split("|")[1] if row else "")} == known


def _optional_dependencies() -> str:
    project = (ROOT / "pyproject.toml").read_text(encoding="utf-8")
    return project.split("[project.optional-dependencies]")[1].split("\n[")[0]


def test_its_packages_are_those_that_exist() -> None:
    named = set(re.findall(r"`gradlib/(\w+)`", README))
    assert named == {p.parent.name for p in ROOT.glob("gradlib/*/__init__.py")}


def test_files_it_links_to_exist() -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target


@pytest.mark.parametrize("package", ["backend", "core", "cuda", "func", "ops"])
def test_the_page_of_a_package_names_its_files_and_no_others(package: str) -> None:
    folder = ROOT / "gradlib" / package
    tables = "\n".join(line for line in (folder / "README.md").read_text("utf-8").splitlines() if line.startswith("| `"))
    page = tables if package != "core" else (folder / "README.md").read_text("utf-8")
    there = {path.stem for path in folder.glob("*.py")} - {"__init__"}
    named = set(re.findall(r"`(\w+)(?:\.py)?`", page))
    assert not there - named
    if package != "core":  # whose page is prose, with names of functions in it
        files = {name for row in tables.splitlines() for name in re.findall(r"`(\w+)`", row.split("|")[1])}
        assert not files - there


PAGES = sorted(path.relative_to(ROOT).as_posix() for path in (ROOT / "gradlib").rglob("*.md") if "```python" in path.read_text("utf-8"))

BEFORE = {
    "gradlib/core/README.md": "from gradlib.core.op import op",
    "gradlib/func/README.md": "from gradlib.func.rules import perform, rule\nfrom gradlib.ops.dims import wrap_dim",
    "gradlib/autograd/profiler/README.md": (
        "import gradlib\ndef train_step():\n    gradlib.ones(3, requires_grad=True).exp().sum().backward()"
    ),
}
"""What the code of a page takes for granted, in pages that show parts of a program."""

ON_HOST = "from gradlib.testing import hostcuda\nhostcuda.activate()\n"
"""What runs a page's kernels where there is no GPU."""


def blocks(text: str) -> list[tuple[str, str | None]]:
    """Each Python block of a page with the output that stands below it, None where none does."""
    found = re.findall(r"```python\n(.*?)```\n(?:\n```text\n(.*?)```\n)?", text, re.DOTALL)
    return [(code, said or None) for code, said in found]


def run(program: str, folder: Path) -> list[str]:
    """What each part of a program prints; the parts end with a record separator."""
    file = folder / "page.py"
    file.write_text(program, encoding="utf-8")
    done = subprocess.run([sys.executable, "-W", "error", str(file)], cwd=folder, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return done.stdout.split("\x1e")


@pytest.mark.parametrize("page", PAGES)
@pytest.mark.slow
def test_code_of_a_page_prints_what_it_says(page: str, tmp_path: Path) -> None:
    parts = blocks((ROOT / page).read_text(encoding="utf-8"))
    for package in ("jax", "scipy", "torch"):
        if any(f"import {package}" in code for code, _ in parts):
            pytest.importorskip(package)
    before = BEFORE.get(page, "") + "\n"
    if any(word in code for code, _ in parts for word in ("import cupy", "import cuda\n", 'device="cuda"')) and not HAS_GPU:
        if NO_CUDA:
            pytest.skip(NO_CUDA)
        before += ON_HOST
    printed = run(before + "".join(f"{code}\nprint('\\x1e', end='')\n" for code, _ in parts), tmp_path)
    for (code, said), what in zip(parts, printed, strict=False):
        assert said is None or what == said, code


def test_output_that_differs_is_found(tmp_path: Path) -> None:
    page = "```python\nprint(1)\n```\n\n```text\n2\n```\n\n```python\nx = 1\n```\n"
    assert blocks(page) == [("print(1)\n", "2\n"), ("x = 1\n", None)]
    assert run("print(1)\nprint('\\x1e', end='')", tmp_path) == ["1\n", ""]
    with pytest.raises(AssertionError, match="ZeroDivisionError"):
        run("1 / 0", tmp_path)


def test_what_is_absent_is_absent() -> None:
    """The page for people who know torch: a name in its table of what is absent that has come to exist is taken out of it."""
    text = (ROOT / "gradlib/docs/from_torch.md").read_text(encoding="utf-8")
    cells = re.findall(r"^\| (.*?) \|", text[text.index("| absent |") :], re.MULTILINE)
    names = [name for cell in cells for name in re.findall(r"`(?:torch\.)?([a-zA-Z_.]+)`", cell)]
    assert {"nn.Module", "special"} <= set(names)
    assert [name for name in names if exists(name)] == []


def exists(name: str) -> bool:
    value: object = gradlib
    for part in name.split("."):
        if not hasattr(value, part):
            return False
        value = getattr(value, part)
    return True


@pytest.mark.parametrize("page", sorted(path.relative_to(ROOT).as_posix() for path in ROOT.glob("gradlib/**/*.md")))
def test_files_a_page_links_to_exist(page: str) -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)(?:#[^)]*)?\)", (ROOT / page).read_text(encoding="utf-8")):
        assert ((ROOT / page).parent / target).exists(), target
