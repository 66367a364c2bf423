"""The README's example prints what the README says, and its commands exist."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

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
    extras = set(re.findall(r"\[(\w+)\]'", README))
    known = re.findall(r"^(\w+) = \[", (ROOT / "pyproject.toml").read_text(encoding="utf-8"), re.MULTILINE)
    assert extras <= set(known)
    assert "plot" in extras


def test_its_rooms_are_those_of_the_house() -> None:
    named = set(re.findall(r"`gradlib/(\w+)`", README))
    assert named == {p.parent.name for p in ROOT.glob("gradlib/*/__init__.py")}


def test_files_it_links_to_exist() -> None:
    for target in re.findall(r"\]\((?!https?:)([^)#]+)\)", README):
        assert (ROOT / target).exists(), target
