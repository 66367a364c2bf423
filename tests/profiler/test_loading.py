"""``load_nvprof`` and ``load_nsys`` on files made here with the documented schemas."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest

from gradlib.autograd.profiler import EventList, load_nsys, load_nvprof
from gradlib.autograd.profiler.html import page_data
from gradlib.autograd.profiler.loading import OUTSIDE
from gradlib.autograd.profiler.table import sides
from gradlib.autograd.profiler.trace import trace_events
from tests.profiler import files
from tests.profiler.files import PROCESS, STEP, THREAD, Work

Load = Callable[[Path], EventList]
KINDS = pytest.mark.parametrize(("make", "load"), [(files.nsys, load_nsys), (files.nvprof, load_nvprof)], ids=["nsys", "nvprof"])


@KINDS
def test_ranges_nest_and_have_their_kernels(make: Callable[..., Path], load: Load, tmp_path: Path) -> None:
    events = load(make(tmp_path / "file"))
    step, mul, total, back_sum, inner, *_ = events
    assert [e.name for e in events] == [
        "step", "mul", "sum", "SumBackward0", "mul", "MulBackward0", "AccumulateGrad", "MulBackward0",
    ]  # fmt: skip
    assert [e.kind for e in events] == ["user", "op", "op", "node", "op", "node", "node", "node"]
    assert all(e.cpu_parent is step for e in events if e not in (step, inner))
    assert inner.cpu_parent is back_sum
    assert total.input_shapes == [[2, 3], []]
    assert [e.sequence_nr for e in events] == [-1, 5, 6, 6, 8, 5, -1, 8]
    assert mul.time_range == (1.0, 5.0)
    assert [k.name for k in total.kernels] == ["reduce", "reduce"]
    assert total.self_cuda_time_total == pytest.approx(0.5)
    assert back_sum.self_cuda_time_total == pytest.approx(0.11)
    assert back_sum.cuda_time_total == pytest.approx(0.15), "with what was launched by the operation inside it"
    assert step.cuda_time_total == pytest.approx(2.31)
    assert step.self_cuda_time_total == 0


@KINDS
def test_kernel_time_is_on_the_forward_operation_that_caused_it(make: Callable[..., Path], load: Load, tmp_path: Path) -> None:
    events = load(make(tmp_path / "file"))
    _, mul, total, back_sum, inner, back_mul, _, second = events
    assert mul.backward == [back_mul]
    assert total.backward == [back_sum, second], "double backward comes from the operation whose node recorded it"
    assert inner.backward == ()
    assert mul.caused_device_time_total == pytest.approx(0.7 + 0.9)
    assert total.caused_device_time_total == pytest.approx(0.5 + 0.15 + 0.06)
    assert sorted(k.name for k in total.caused_kernels) == ["multiply", "multiply", "reduce", "reduce", "spread"]
    rows = {row.name: row for row in sides(events)}
    assert rows["mul"].calls == rows["sum"].calls == 1
    assert (rows["mul"].forward_device, rows["mul"].backward_device) == (pytest.approx(0.7), pytest.approx(0.9))
    assert rows["sum"].backward_device == pytest.approx(0.21)


def same(events: EventList) -> list[tuple]:
    return [
        (e.name, e.kind, e.start, e.end, e.seq, e.stashed, e.input_shapes, [k[:3] for k in e.kernels or ()], len(e.cpu_children))
        for e in events
    ]


def test_both_give_the_same_list(tmp_path: Path) -> None:
    assert same(load_nsys(files.nsys(tmp_path / "a"))) == same(load_nvprof(files.nvprof(tmp_path / "b")))


def test_nvprof_launches_of_the_driver(tmp_path: Path) -> None:
    """CuPy launches its kernels so, NVIDIA's libraries theirs by the runtime; each kernel counts once."""
    mixed = load_nvprof(files.nvprof(tmp_path / "a", driver=("multiply", "spread")))
    assert same(mixed) == same(load_nvprof(files.nvprof(tmp_path / "b", leave_out="CUPTI_ACTIVITY_KIND_DRIVER")))
    assert sum(len(e.kernels or ()) for e in mixed) == sum(len(w.kernels) for w in STEP)


def test_nsys_graph_that_was_recorded_as_a_whole(tmp_path: Path) -> None:
    """Its kernels are not in the file then, and of a program that launches nothing else there is no table of kernels."""
    made = files.nsys(tmp_path / "file", (Work("solve", 0, 9_000, (("part", 100),)), Work("mul, seq = 1", 10_000, 19_000)))
    connection = sqlite3.connect(made)
    connection.executescript(
        f"""
        CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
            contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
            graphId INTEGER NOT NULL, graphExecId INTEGER NOT NULL);
        INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME (start, end, eventClass, globalTid, correlationId, nameId, returnValue)
            VALUES (11000, 11500, 0, {THREAD}, 90, 1, 0);
        INSERT INTO CUPTI_ACTIVITY_KIND_GRAPH_TRACE VALUES (12000, 15000, 0, 1, NULL, 7, 90, {PROCESS}, 4, 5);
        """
    )
    both = load_nsys(made)
    assert [[k[:3] for k in e.kernels] for e in both] == [[("part", 0.5, 0.1)], [("CUDA graph 4", 12.0, 3.0)]]
    connection.execute("DROP TABLE CUPTI_ACTIVITY_KIND_KERNEL")
    connection.close()
    assert [len(e.kernels or ()) for e in load_nsys(made)] == [0, 1]


@KINDS
def test_threads_and_kernels_outside_ranges(make: Callable[..., Path], load: Load, tmp_path: Path) -> None:
    other = THREAD + 1
    work = (
        Work("mul, seq = 1", 0, 10_000, (("a", 100),)),
        Work("mul, seq = 2", 1_000, 9_000, (("b", 200),), other),
        Work("add, seq = 3", 20_000, 20_005, (("late", 300),)),  # launched after its end
    )
    events = load(make(tmp_path / "file", work))
    first, second, add, outside = events
    assert [k.name for k in first.kernels] == ["a"]
    assert [k.name for k in second.kernels] == ["b"]
    assert first.cpu_parent is second.cpu_parent is None
    assert add.kernels is None
    assert (outside.name, outside.cuda_time_total) == (OUTSIDE, pytest.approx(0.3))


@KINDS
def test_file_that_is_not_one(make: Callable[..., Path], load: Load, tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError, match="no file"):
        load(tmp_path / "none")
    text = tmp_path / "text"
    text.write_text("not a database at all, but long enough to be taken for one" * 20)
    with pytest.raises(ValueError, match="no SQLite file"):
        load(text)
    (tmp_path / "empty").touch()
    with pytest.raises(ValueError, match="no table"):
        load(tmp_path / "empty")


@pytest.mark.parametrize("table", ["NVTX_EVENTS", "StringIds", "CUPTI_ACTIVITY_KIND_RUNTIME", "CUPTI_ACTIVITY_KIND_KERNEL"])
def test_nsys_table_that_lacks_is_named(table: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"no table {table}. Record with `nsys profile"):
        load_nsys(files.nsys(tmp_path / "file", leave_out=table))


@pytest.mark.parametrize("table", ["StringTable", "CUPTI_ACTIVITY_KIND_MARKER", "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL"])
def test_nvprof_table_that_lacks_is_named(table: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=f"no table {table}. Record with `nvprof"):
        load_nvprof(files.nvprof(tmp_path / "file", leave_out=table))


def test_column_that_lacks_is_named(tmp_path: Path) -> None:
    made = files.nsys(tmp_path / "file")
    connection = sqlite3.connect(made)
    connection.execute("ALTER TABLE CUPTI_ACTIVITY_KIND_KERNEL RENAME COLUMN correlationId TO other")
    connection.close()
    with pytest.raises(ValueError, match="CUPTI_ACTIVITY_KIND_KERNEL has no column correlationId"):
        load_nsys(made)


def test_nsys_of_two_processes_and_an_unclosed_range(tmp_path: Path) -> None:
    other = THREAD + 0x0100_0000
    work = (
        Work("mul, seq = 1", 0, 1_000, (("a", 100),)),
        Work("add, seq = 1", 0, 1_000, (("b", 200),), other),
        Work("MulBackward0, stashed seq = 1, seq = 2", 2_000, 3_000),
        Work("AddBackward0, stashed seq = 1, seq = 2", 2_000, 3_000, (), other),
    )
    made = files.nsys(tmp_path / "file", work)
    connection = sqlite3.connect(made)
    connection.execute("UPDATE NVTX_EVENTS SET end = NULL WHERE start = 2000")
    connection.commit()
    connection.close()
    events = load_nsys(made)
    pairs = {(e.name, run.name) for e in events for run in e.backward}
    assert pairs == {("mul", "MulBackward0"), ("add", "AddBackward0")}


def test_streams_of_devices_and_processes_lie_apart(tmp_path: Path) -> None:
    """They have the same numbers, and their kernels overlap in time."""
    other = THREAD + 0x0100_0000
    work = (Work("mul, seq = 1", 0, 9_000, (("a", 500), ("b", 500))), Work("mul, seq = 1", 0, 9_000, (("c", 500),), other))
    made = files.nsys(tmp_path / "file", work)
    connection = sqlite3.connect(made)
    connection.execute("UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET deviceId = 1, start = 700, end = 900 WHERE correlationId = 2")
    connection.commit()
    connection.close()
    events = load_nsys(made)
    assert sorted(k[0] + str(k.device) for e in events for k in e.kernels) == ["a0", "b1", "c0"]
    kernels = {e["name"]: e for e in trace_events(events) if e.get("cat") == "kernel"}
    named = {e["pid"]: e["args"]["name"] for e in trace_events(events) if e["ph"] == "M" and e["name"] == "process_name"}
    assert [named[kernels[name]["pid"]] for name in "abc"] == ["CUDA device 0", "CUDA device 1", "CUDA device 0"]
    assert len({kernels[name]["pid"] for name in "abc"}) == 3
    lanes = [lane["label"] for lane in page_data(events)["lanes"]]
    assert lanes[2:] == ["stream 7, GPU 0", "stream 7, GPU 1", "stream 7, GPU 0"]


def test_averages_table_and_trace_of_a_loaded_file(tmp_path: Path) -> None:
    events = load_nsys(files.nsys(tmp_path / "file"))
    text = events.key_averages().table(sort_by="cuda_time_total")
    assert "CUDA total" in text
    assert text.splitlines()[3].startswith("step")
    assert "Self CUDA time total: 2.310us" in text
    events.export_chrome_trace(tmp_path / "trace.json")
    entries = json.loads((tmp_path / "trace.json").read_text())["traceEvents"]
    kernels = [e for e in entries if e.get("cat") == "kernel"]
    assert len(kernels) == sum(len(w.kernels) for w in STEP)
    assert {k["tid"] for k in kernels} == {7}
    launches = [e for e in entries if e.get("cat") == "cpu_to_cuda"]
    assert len(launches) == 2 * len(kernels)


def test_kernels_of_launches_and_of_the_users_ranges_are_counted(tmp_path: Path) -> None:
    work = (
        Work("load", 0, 9_000, (("copy", 50),)),
        Work("step_acceleration, seq = 1", 10_000, 20_000),
        Work("chain_forward", 11_000, 12_000, (("chain_forward", 400),)),  # the range that a launch puts around itself
    )
    events = load_nsys(files.nsys(tmp_path / "file", work))
    rows = {row.name: row for row in sides(events)}
    assert rows.keys() == {"step_acceleration", "load"}
    assert rows["step_acceleration"].forward_device == pytest.approx(0.4)
    assert rows["step_acceleration"].forward_cpu == pytest.approx(10.0)
    assert rows["load"].forward_device == pytest.approx(0.05)


def test_operation_inside_its_own_node_ends(tmp_path: Path) -> None:
    work = (Work("MulBackward0, stashed seq = 5, seq = 6", 0, 9_000), Work("mul, seq = 5", 1_000, 2_000))
    node, mul = load_nsys(files.nsys(tmp_path / "file", work))
    assert mul.backward == [node]


def test_many_events(tmp_path: Path) -> None:
    """Ten thousand: each is put where it belongs. benchmarks/profiler.py times a million."""
    work = [Work(f"mul, seq = {k}", k * 1000, k * 1000 + 900, (("multiply", 10),)) for k in range(10_000)]
    events = load_nsys(files.nsys(tmp_path / "file", work))
    assert len(events) == 10_000
    assert all(len(e.kernels) == 1 for e in events)
