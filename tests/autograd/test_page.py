"""The table of torch's entries: each name exists and is defined in the file that the table links to."""

from __future__ import annotations

import functools
import re
from pathlib import Path

import pytest

import gradlib

pytestmark = pytest.mark.host  # which names there are
PAGE = Path(gradlib.__file__).parent / "autograd" / "README.md"
ROWS = re.findall(r"^\| `([\w.]+)` \| (.*) \|$", PAGE.read_text(encoding="utf-8"), re.MULTILINE)


@pytest.mark.parametrize(("name", "place"), ROWS, ids=[name for name, _ in ROWS])
def test_an_entry_lives_where_the_table_says(name: str, place: str) -> None:
    functools.reduce(getattr, name.split("."), gradlib)
    files = [PAGE.parent / target for target in re.findall(r"\]\(([^)]+)\)", place)]
    assert files
    assert all(file.is_file() for file in files)
    own = name.rpartition(".")[2]
    assert re.search(rf"^ *(?:class|def) {own}\b", files[0].read_text(encoding="utf-8"), re.MULTILINE)


def test_nothing_of_the_graph_module_is_left_out() -> None:
    listed = {name.rpartition(".")[2] for name, _ in ROWS if name.startswith("autograd.graph.")}
    assert listed == set(gradlib.autograd.graph.__all__) - {"SavedTensor"}
