"""Recordings that no profiler should write: each ends soon, in events or in an error that says what is wrong."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from gradlib.autograd.profiler import EventList, load_nsys, load_nvprof
from gradlib.autograd.profiler.html import page_data, write_page
from gradlib.autograd.profiler.table import sides, sides_table
from gradlib.cli import main
from tests.profiler import files
from tests.profiler.files import Work

Load = Callable[[Path], EventList]
KINDS = {"nsys": (files.nsys, load_nsys), "nvprof": (files.nvprof, load_nvprof)}
BOTH = pytest.mark.parametrize("kind", KINDS)


def changed(path: Path, kind: str, sql: str) -> Path:
    """A good file after a change to its content."""
    connection = sqlite3.connect(KINDS[kind][0](path))
    connection.executescript(sql)
    connection.commit()
    connection.close()
    return path


def looked_at(events: EventList, folder: Path) -> EventList:
    """Everything that can be done with events, done."""
    assert sides_table(sides(events))
    assert events.table()
    assert events.key_averages(group_by_input_shape=True).table(sort_by="cuda_time_total")
    events.export_chrome_trace(folder / "t.json")
    strict(json.loads((folder / "t.json").read_text(), parse_constant=strict))
    write_page(events, folder / "p.html", "title")
    assert all(len(event.caused_kernels) >= len(event.kernels or ()) for event in events[:20])
    return events


def strict(value: object) -> None:
    assert not isinstance(value, str), f"{value} is no JSON"


def without_constraints(table: str, columns: str) -> str:
    """SQL that makes a table anew whose columns take values of any type."""
    fresh = f"CREATE TABLE {table} ({columns}); INSERT INTO {table} SELECT {columns} FROM old"
    return f"ALTER TABLE {table} RENAME TO old; {fresh}; DROP TABLE old;"


NVTX = without_constraints("NVTX_EVENTS", "start, end, eventType, text, globalTid, textId, domainId")
RUNTIME = without_constraints("CUPTI_ACTIVITY_KIND_RUNTIME", "start, end, globalTid, correlationId")
STRINGS = without_constraints("StringIds", "id, value")
KERNEL = without_constraints("CUPTI_ACTIVITY_KIND_KERNEL", "start, end, deviceId, streamId, correlationId, globalPid, shortName")
MARKER = without_constraints("CUPTI_ACTIVITY_KIND_MARKER", "timestamp, id, objectKind, objectId, name, domain")
CONCURRENT = without_constraints("CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL", "start, end, deviceId, streamId, correlationId, name")
ENDLESS = "WITH RECURSIVE more(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM more) SELECT"


@pytest.mark.parametrize(
    ("kind", "sql", "says"),
    [
        ("nsys", NVTX + "UPDATE NVTX_EVENTS SET start = NULL WHERE start = 1000", "whose start is of type null"),
        ("nsys", NVTX + "UPDATE NVTX_EVENTS SET start = 'soon'", "whose start is of type text"),
        ("nsys", NVTX + "UPDATE NVTX_EVENTS SET end = 1e999", "whose end is of type real"),
        ("nsys", NVTX + "UPDATE NVTX_EVENTS SET end = -5", "ends before it begins"),
        ("nsys", NVTX + "UPDATE NVTX_EVENTS SET globalTid = x'00'", "whose globalTid is of type blob"),
        ("nsys", NVTX + "UPDATE NVTX_EVENTS SET text = 7 WHERE textId IS NOT NULL", "whose text is of type integer"),
        ("nsys", NVTX + "UPDATE NVTX_EVENTS SET textId = 'x'", "whose textId is of type text"),
        ("nsys", RUNTIME + "UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET start = NULL", "whose start is of type null"),
        ("nsys", RUNTIME + "UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET end = 0", "ends before it begins"),
        ("nsys", KERNEL + "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = NULL", "whose end is of type null"),
        ("nsys", KERNEL + "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET streamId = NULL", "whose streamId is of type null"),
        ("nsys", KERNEL + "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET end = 0", "a kernel that ends before"),
        ("nsys", "CREATE TABLE CUPTI_ACTIVITY_KIND_GRAPH_TRACE (start, end, streamId)", "no column correlationId, graphId"),
        ("nsys", f"DROP TABLE NVTX_EVENTS; CREATE VIEW NVTX_EVENTS AS {ENDLESS} n AS start, n AS end FROM more", "no table NVTX_EVENTS"),
        ("nvprof", MARKER + "UPDATE CUPTI_ACTIVITY_KIND_MARKER SET timestamp = 'x'", "whose timestamp is of type text"),
        ("nvprof", MARKER + "UPDATE CUPTI_ACTIVITY_KIND_MARKER SET timestamp = -id WHERE name = 0", "ends before it begins"),
        ("nvprof", MARKER + "UPDATE CUPTI_ACTIVITY_KIND_MARKER SET name = NULL", "whose name is of type null"),
        ("nvprof", CONCURRENT + "UPDATE CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL SET start = 0.5", "whose start is of type real"),
        ("nvprof", "DROP TABLE CUPTI_ACTIVITY_KIND_DRIVER; CREATE TABLE CUPTI_ACTIVITY_KIND_DRIVER (start, end)", "column correlationId"),
        ("nvprof", f"DROP TABLE StringTable; CREATE VIEW StringTable AS {ENDLESS} n AS _id_, n AS value FROM more", "no table StringTable"),
    ],
)
def test_what_is_not_as_it_should_be_is_named(kind: str, sql: str, says: str, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    made = changed(tmp_path / "file", kind, sql)
    with pytest.raises(ValueError, match=says):
        KINDS[kind][1](made)
    assert main(["profile", str(made), "--trace", str(tmp_path / "t")]) == 2
    assert not (tmp_path / "t").exists()
    assert capsys.readouterr().err.startswith("gradlib profile: ")


@pytest.mark.parametrize(
    ("kind", "sql"),
    [
        ("nsys", NVTX + "UPDATE NVTX_EVENTS SET globalTid = NULL"),
        ("nsys", NVTX + "UPDATE NVTX_EVENTS SET end = NULL"),
        ("nsys", NVTX + "UPDATE NVTX_EVENTS SET text = NULL, textId = NULL"),
        ("nsys", NVTX + "UPDATE NVTX_EVENTS SET eventType = NULL"),
        ("nsys", NVTX + "UPDATE NVTX_EVENTS SET start = -start, end = NULL"),
        ("nsys", NVTX + "UPDATE NVTX_EVENTS SET start = 'x' WHERE eventType = 75"),
        ("nsys", NVTX + "UPDATE NVTX_EVENTS SET domainId = NULL"),
        ("nsys", RUNTIME + "UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET correlationId = NULL"),
        ("nsys", RUNTIME + "UPDATE CUPTI_ACTIVITY_KIND_RUNTIME SET globalTid = NULL"),
        ("nsys", KERNEL + "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET globalPid = NULL, deviceId = NULL"),
        ("nsys", KERNEL + "UPDATE CUPTI_ACTIVITY_KIND_KERNEL SET start = 0, end = 0"),
        ("nsys", "UPDATE StringIds SET value = CAST(x'ff00fe' AS TEXT)"),
        ("nsys", "DELETE FROM StringIds"),
        ("nsys", "DELETE FROM NVTX_EVENTS"),
        ("nvprof", MARKER + "UPDATE CUPTI_ACTIVITY_KIND_MARKER SET objectId = x'00'"),
        ("nvprof", MARKER + "UPDATE CUPTI_ACTIVITY_KIND_MARKER SET domain = NULL"),
        ("nvprof", "DELETE FROM CUPTI_ACTIVITY_KIND_MARKER WHERE name = 0"),
        ("nvprof", "DELETE FROM StringTable"),
    ],
)
def test_what_may_be_missing_is_no_fault(kind: str, sql: str, tmp_path: Path) -> None:
    looked_at(KINDS[kind][1](changed(tmp_path / "file", kind, sql)), tmp_path)


@BOTH
def test_calls_and_kernels_of_one_number_do_not_multiply(kind: str, tmp_path: Path) -> None:
    """Thousands of each would be millions of pairs; a kernel counts once."""
    make, load = KINDS[kind]
    work = [Work(f"mul, seq = {k}", 10 * k, 10 * k + 9, (("multiply", 1),)) for k in range(3000)]
    kernels = "CUPTI_ACTIVITY_KIND_KERNEL" if kind == "nsys" else "CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL"
    connection = sqlite3.connect(make(tmp_path / "file", work))
    for table in ("CUPTI_ACTIVITY_KIND_RUNTIME", kernels):
        connection.execute(f"UPDATE {table} SET correlationId = 1")
    connection.commit()
    connection.close()
    assert sum(len(event.kernels or ()) for event in load(tmp_path / "file")) == 3000


@pytest.mark.slow
@BOTH
def test_a_tree_of_pages_that_leads_in_circles_ends(kind: str, tmp_path: Path) -> None:
    """Pages that are children many times over hold more rows than any file of this size."""
    make, load = KINDS[kind]
    made = make(tmp_path / "file", [Work(f"a label of some length that is the {k}th, seq = {k}", 10 * k, 10 * k + 9) for k in range(4000)])
    table = "NVTX_EVENTS" if kind == "nsys" else "CUPTI_ACTIVITY_KIND_MARKER"
    connection = sqlite3.connect(made)
    (root,) = connection.execute("SELECT rootpage FROM sqlite_master WHERE name = ?", (table,)).fetchone()
    (size,) = connection.execute("PRAGMA page_size").fetchone()
    connection.close()
    content = bytearray(made.read_bytes())
    spare = len(content) // size
    top = content[(root - 1) * size : root * size]
    assert top[0] == 5, "an inner page"
    count = int.from_bytes(top[3:5], "big")
    for level in range(8):  # every child of a level is the next level's one page
        page = bytearray(top)
        child = (spare + level + 1 if level < 7 else int.from_bytes(top[8:12], "big")).to_bytes(4, "big")
        for cell in range(count):
            at = int.from_bytes(top[12 + 2 * cell : 14 + 2 * cell], "big")
            page[at : at + 4] = child
        page[8:12] = child
        if level == 0:
            content[(root - 1) * size : root * size] = page
        else:
            content += page
    content += bytes(size)
    content[28:32] = (len(content) // size).to_bytes(4, "big")
    made.write_bytes(content)
    with pytest.raises(ValueError, match=r"damaged|no SQLite file"):
        load(made)


@pytest.mark.slow
@BOTH
def test_thousands_of_nested_ranges(kind: str, tmp_path: Path) -> None:
    """Of every kind: also the user's within an operation, whose times are the operation's."""
    make, load = KINDS[kind]
    depth = 2500
    labels = ["mul, seq = 1"] + ["user"] * depth
    for k in range(2, depth // 2):
        labels += [f"MulBackward0, stashed seq = {k}, seq = {k + 1}", f"add, seq = {k}"]
    work = [Work(label, 100 * k, 1000 * len(labels) - k, (("kernel", 1),)) for k, label in enumerate(labels)]
    events = looked_at(load(make(tmp_path / "file", work)), tmp_path)
    assert events[-1].depth == len(labels) - 1
    assert events[0].device_time_total == pytest.approx(len(labels) / 1000)
    assert len(events[0].all_kernels()) == len(labels)
    (row,) = (row for row in sides(events) if row.name == "mul")
    assert row.forward_device == pytest.approx((depth + 1) / 1000)
    lanes = page_data(events)["lanes"]
    assert len(lanes) == 257
    assert lanes[255]["label"] == "deeper: not shown"


@pytest.mark.parametrize(
    ("label", "name", "numbers", "shapes"),
    [
        ("mul, seq = 5, sizes = [[2, 3], []]", "mul", (5, None), [[2, 3], []]),
        ("mul, seq = 5, sizes = [Infinity]", "mul", (5, None), None),
        ("mul, seq = 5, sizes = [NaN, 1e999]", "mul", (5, None), None),
        ("mul, seq = 5, sizes = [-1]", "mul", (5, None), None),
        ("mul, seq = 5, sizes = [2.5, true]", "mul", (5, None), None),
        ('mul, seq = 5, sizes = [{"a": 1}]', "mul", (5, None), None),
        ("mul, seq = 5, sizes = [" + "[" * 100_000 + "]", "mul", (5, None), None),
        ("mul, seq = 5, sizes = [[[[2]]]]", "mul", (5, None), [[[[2]]]]),
        ("mul, seq = 5, sizes = [[[[[2]]]]]", "mul", (5, None), None),
        (f"mul, seq = {'9' * 5000}", f"mul, seq = {'9' * 5000}", (None, None), None),
        ("mul, seq = ٥", "mul, seq = ٥", (None, None), None),
        ("a, seq = 1, seq = 2", "a, seq = 1", (2, None), None),
        ("B, stashed seq = 1, seq = 2, seq = 3", "B, stashed seq = 1, seq = 2", (3, None), None),
        ("B, stashed seq = 1", "B", (None, 1), None),
        (", sizes = [1]", "", (None, None), [1]),
        ("x, sizes = [1], seq = 3", "x, sizes = [1]", (3, None), None),
        (", sizes = [" * 50_000 + "]", "", (None, None), None),
        ("two\nlines \x1b[31m", "two\nlines \x1b[31m", (None, None), None),
        ("", "", (None, None), None),
    ],
)
def test_labels_of_any_text(label: str, name: str, numbers: tuple[int | None, int | None], shapes: object, tmp_path: Path) -> None:
    (event,) = looked_at(load_nsys(files.nsys(tmp_path / "file", (Work(label, 0, 10),))), tmp_path)
    assert event.name == name
    assert (event.seq, event.stashed) == numbers
    assert event.input_shapes == shapes
    assert "\x1b" not in events_table(event)


def events_table(event: object) -> str:
    return EventList([event]).table()


@pytest.mark.parametrize("name", ["__DATA__", "__TITLE__", "a__DATA__b.sqlite", "<script>", "</title>__DATA__", "\udcff.sqlite"])
def test_a_title_is_only_a_title(name: str, tmp_path: Path) -> None:
    events = load_nsys(files.nsys(tmp_path / "file", (Work("__TITLE__ __DATA__ </script>", 0, 10),)))
    write_page(events, tmp_path / "p.html", name)
    text = (tmp_path / "p.html").read_text(encoding="utf-8")
    start = text.index('<script id="data" type="application/json">')
    data = json.loads(text[start:].partition(">")[2].partition("</script>")[0])
    assert data == page_data(events)
    assert text.count("</script>") == 2
    assert text.count('"lanes"') == 1


# ---- any bytes ---------------------------------------------------------------------------------------------------------------


def ends_well(load: Load, path: Path) -> None:
    """In a table, or in an error that a person reads."""
    try:
        shown = sides_table(sides(load(path)))
    except ValueError as error:
        shown = str(error)
    assert shown.strip()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(
    kind=st.sampled_from(sorted(KINDS)),
    flips=st.lists(st.tuples(st.floats(0, 1, exclude_max=True), st.integers(0, 255)), max_size=12),
    end=st.one_of(st.just(1.0), st.floats(0, 1)),
)
def test_files_with_other_bytes(tmp_path: Path, kind: str, flips: list[tuple[float, int]], end: float) -> None:
    make, load = KINDS[kind]
    good = tmp_path / kind
    if not good.exists():
        make(good)
    content = bytearray(good.read_bytes())
    for place, value in flips:
        content[int(place * len(content))] = value
    (tmp_path / "odd").write_bytes(content[: int(end * len(content))])
    ends_well(load, tmp_path / "odd")


VALUES = st.one_of(st.none(), st.integers(-(2**63), 2**63 - 1), st.floats(), st.text(max_size=8), st.binary(max_size=8))


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(table=st.sampled_from(["NVTX_EVENTS", "RUNTIME", "KERNEL", "StringIds"]), rows=st.lists(st.lists(VALUES, min_size=7, max_size=7)))
@pytest.mark.slow
def test_rows_of_any_values(tmp_path: Path, table: str, rows: list[list[object]]) -> None:
    path, good = tmp_path / "file", tmp_path / "good"
    if not good.exists():
        changed(good, "nsys", NVTX + RUNTIME + KERNEL + STRINGS)
    path.write_bytes(good.read_bytes())
    connection = sqlite3.connect(path)
    connection.executescript("PRAGMA synchronous = OFF; PRAGMA journal_mode = OFF")
    name = table if table in ("NVTX_EVENTS", "StringIds") else f"CUPTI_ACTIVITY_KIND_{table}"
    width = len(connection.execute(f"PRAGMA table_info({name})").fetchall())
    connection.executemany(f"INSERT INTO {name} VALUES ({', '.join('?' * width)})", [row[:width] for row in rows])
    connection.commit()
    connection.close()
    ends_well(load_nsys, path)
