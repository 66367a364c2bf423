"""`gradlib profile FILE`: the table, the trace and the page it writes."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import gradlib
from gradlib.autograd.profiler import profile
from gradlib.autograd.profiler.html import page_data, write_page
from gradlib.cli import main
from tests.profiler import files


@pytest.mark.parametrize("make", [files.nsys, files.nvprof], ids=["nsys", "nvprof"])
def test_table_has_both_passes_side_by_side(make, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["profile", str(make(tmp_path / "file"))]) == 0
    lines = capsys.readouterr().out.splitlines()
    assert lines[1].split("  ")[0] == "Name"
    assert [line.split() for line in lines[3:6]] == [
        ["mul", "1", "4.000us", "4.000us", "0.700us", "0.900us", "69.26%"],
        ["sum", "1", "3.000us", "8.000us", "0.500us", "0.210us", "30.74%"],
        ["AccumulateGrad", "1", "0.000us", "1.000us", "0.000us", "0.000us", "0.00%"],
    ]
    assert lines[-1] == "8 ranges, 7 kernels, CUDA time 2.310us"


def test_rows_limit_the_table(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = str(files.nsys(tmp_path / "file"))
    assert main(["profile", made, "--rows", "1"]) == 0
    assert "sum" not in capsys.readouterr().out


def test_trace_and_page_are_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made, trace, page = files.nsys(tmp_path / "run.sqlite"), tmp_path / "t.json", tmp_path / "p.html"
    assert main(["profile", str(made), "--trace", str(trace), "--html", str(page)]) == 0
    assert {"fwdbwd", "kernel", "cpu_op"} <= {e.get("cat") for e in json.loads(trace.read_text())["traceEvents"]}
    text = page.read_text(encoding="utf-8")
    assert "<title>run.sqlite</title>" in text
    assert not re.search(r"(src|href)\s*=|https?://|@import", text), "the page needs nothing from elsewhere"
    data = json.loads(re.search(r'<script id="data" type="application/json">(.*?)</script>', text, re.DOTALL)[1])
    assert [row[0] for row in data["rows"]] == ["mul", "sum", "AccumulateGrad"]
    assert [lane["label"] for lane in data["lanes"]] == ["thread 17", "", "", "stream 7, GPU 0"]
    assert sum(len(lane["items"]) for lane in data["lanes"]) == 8 + 7
    for lane in data["lanes"]:
        starts = [item[0] for item in lane["items"]]
        assert starts == sorted(starts)


def test_page_joins_the_passes_and_holds_any_name(tmp_path: Path) -> None:
    x = gradlib.ones(2, requires_grad=True)
    with profile() as found, gradlib.autograd.profiler.record_function("</script><b>"):
        (x * 2).sum().backward()
    data = page_data(found.function_events)
    items = {data["names"][item[2]]: item for lane in data["lanes"] for item in lane["items"]}
    lane, place = items["mul"][4]
    assert data["names"][data["lanes"][lane]["items"][place][2]] == "MulBackward0"
    lane, place = items["MulBackward0"][4]
    assert data["names"][data["lanes"][lane]["items"][place][2]] == "mul"
    write_page(found.function_events, tmp_path / "page.html", "<i>")
    text = (tmp_path / "page.html").read_text(encoding="utf-8")
    assert text.count("</script>") == 2
    assert "<title>&lt;i&gt;</title>" in text


def test_page_joins_an_operation_with_the_first_run_of_its_node() -> None:
    x = gradlib.ones(2, requires_grad=True)
    with profile() as found:
        y = x * 2
        y.sum().backward(retain_graph=True)
        y.sum().backward()
    data = page_data(found.function_events)
    (lane,) = data["lanes"]
    named = [(data["names"][item[2]], place, item[4]) for place, item in enumerate(lane["items"])]
    runs = [place for name, place, _ in named if name == "MulBackward0"]
    assert [partner for name, _, partner in named if name == "mul"] == [[0, runs[0]]]
    assert [partner for name, _, partner in named if name == "MulBackward0"] == [[0, 0], [0, 0]]


@pytest.mark.parametrize(("name", "says"), [("none", "no file"), ("run.nsys-rep", "export it first"), ("text", "no SQLite file")])
def test_unusable_input_is_status_2(name: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    (tmp_path / "text").write_text("words " * 500)
    assert main(["profile", str(tmp_path / name)]) == 2
    assert says in capsys.readouterr().err
