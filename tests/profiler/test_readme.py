"""The profiler's README: its programs run, its commands and names exist."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest

import gradlib
from gradlib.autograd import profiler
from gradlib.cli import parser

TEXT = (Path(profiler.__file__).with_name("README.md")).read_text(encoding="utf-8")


@pytest.mark.parametrize("program", re.findall(r"```python\n(.*?)```", TEXT, re.DOTALL))
def test_programs_run(program: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.chdir(tmp_path)
    x = gradlib.ones(8, 8, requires_grad=True)
    names: dict[str, Any] = {"train_step": lambda: (x @ x).sum().backward()}
    exec(program, names)
    if "table" in program:
        assert "MatmulBackward0" in capsys.readouterr().out
        assert (tmp_path / "run.json").is_file()


def test_command_line_is_one_that_is_understood() -> None:
    (line,) = re.findall(r"^    gradlib (profile .*--html.*)$", TEXT, re.MULTILINE)
    args = parser().parse_args(line.split())
    assert (str(args.trace), str(args.html)) == ("run.json", "run.html")


def test_files_it_names_exist() -> None:
    folder = Path(profiler.__file__).parent
    for name in re.findall(r"`(\w+\.py)`", TEXT):
        assert (folder / name).is_file(), name
