"""Makes files as nvprof and Nsight Systems do: their documented schemas, a program's ranges and kernels."""

from __future__ import annotations

import sqlite3
import struct
from collections.abc import Container, Iterable
from pathlib import Path
from typing import NamedTuple

PROCESS = 0x0100_0000 * 4711
THREAD = PROCESS + 17


class Work(NamedTuple):
    """A range, and kernels launched right after its begin: name and duration in nanoseconds."""

    label: str
    start: int
    end: int
    kernels: tuple[tuple[str, int], ...] = ()
    thread: int = THREAD


STEP = (
    Work("step", 0, 100_000),
    Work("mul, seq = 5", 1_000, 5_000, (("multiply", 700),)),
    Work("sum, seq = 6, sizes = [[2, 3], []]", 6_000, 9_000, (("reduce", 300), ("reduce", 200))),
    Work("SumBackward0, stashed seq = 6, seq = 7", 20_000, 24_000, (("spread", 110),)),
    Work("mul, seq = 8", 21_000, 23_000, (("multiply", 40),)),
    Work("MulBackward0, stashed seq = 5, seq = 9", 25_000, 29_000, (("multiply", 900),)),
    Work("AccumulateGrad, seq = 10", 30_000, 31_000),
    Work("MulBackward0, stashed seq = 8, seq = 11", 40_000, 44_000, (("multiply", 60),)),
)
"""Both passes of a program, and a node of double backward: seq 8 was recorded inside the node of seq 6."""


def nsys(path: Path, work: Iterable[Work] = STEP, leave_out: str = "") -> Path:
    """An export of Nsight Systems."""
    connection = sqlite3.connect(path)
    connection.executescript(
        """
        CREATE TABLE StringIds (id INTEGER NOT NULL PRIMARY KEY, value TEXT NOT NULL);
        CREATE TABLE NVTX_EVENTS (start INTEGER NOT NULL, end INTEGER, eventType INTEGER NOT NULL, rangeId INTEGER, category INTEGER,
            color INTEGER, text TEXT, globalTid INTEGER, endGlobalTid INTEGER, textId INTEGER REFERENCES StringIds(id), domainId INTEGER,
            uint64Value INTEGER, int64Value INTEGER, doubleValue REAL, uint32Value INTEGER, int32Value INTEGER, floatValue REAL,
            jsonTextId INTEGER, jsonText TEXT, binaryData TEXT);
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (start INTEGER NOT NULL, end INTEGER NOT NULL, eventClass INTEGER NOT NULL,
            globalTid INTEGER, correlationId INTEGER, nameId INTEGER NOT NULL REFERENCES StringIds(id), returnValue INTEGER NOT NULL,
            callchainId INTEGER);
        CREATE TABLE CUPTI_ACTIVITY_KIND_KERNEL (start INTEGER NOT NULL, end INTEGER NOT NULL, deviceId INTEGER NOT NULL,
            contextId INTEGER NOT NULL, greenContextId INTEGER, streamId INTEGER NOT NULL, correlationId INTEGER, globalPid INTEGER,
            demangledName INTEGER NOT NULL, shortName INTEGER NOT NULL, mangledName INTEGER, gridX INTEGER, blockX INTEGER);
        """
    )
    texts: dict[str, int] = {}

    def text(value: str) -> int:
        return texts.setdefault(value, len(texts) + 1)

    connection.execute("INSERT INTO NVTX_EVENTS (start, eventType, text, globalTid, domainId) VALUES (0, 75, 'gradlib', ?, 3)", (THREAD,))
    connection.execute(
        "INSERT INTO NVTX_EVENTS (start, end, eventType, text, globalTid, domainId) VALUES (0, 99000, 59, 'not ours', ?, 0)", (THREAD,)
    )
    ranges, launches, kernels, correlation, free = [], [], [], 0, 0
    for each in work:
        ranges.append((each.start, each.end, 59, each.thread, text(each.label), 3))
        for name, duration in each.kernels:
            correlation += 1
            free = max(free, each.start + 500)
            launches.append((each.start + 10, each.start + 20, 0, each.thread, correlation, text("cudaLaunchKernel"), 0))
            pid = each.thread & ~0xFFFFFF
            kernels.append((free, free + duration, 0, 1, 7, correlation, pid, text(f"void {name}(float*)"), text(name)))
            free += duration
    connection.executemany("INSERT INTO NVTX_EVENTS (start, end, eventType, globalTid, textId, domainId) VALUES (?, ?, ?, ?, ?, ?)", ranges)
    connection.executemany(
        "INSERT INTO CUPTI_ACTIVITY_KIND_RUNTIME (start, end, eventClass, globalTid, correlationId, nameId, returnValue) "
        "VALUES (?, ?, ?, ?, ?, ?, ?)",
        launches,
    )
    connection.executemany(
        "INSERT INTO CUPTI_ACTIVITY_KIND_KERNEL (start, end, deviceId, contextId, streamId, correlationId, globalPid, demangledName, "
        "shortName) VALUES (?, ?, ?, ?, ?, ?, ?, ?, ?)",
        kernels,
    )
    connection.executemany("INSERT INTO StringIds VALUES (?, ?)", [(number, value) for value, number in texts.items()])
    return _finished(connection, path, leave_out)


def nvprof(path: Path, work: Iterable[Work] = STEP, leave_out: str = "", driver: Container[str] = ()) -> Path:
    """A file of nvprof; kernels named in ``driver`` are launched by a call of the driver, the others by the runtime, which calls it too."""
    connection = sqlite3.connect(path)
    connection.executescript(
        """
        CREATE TABLE StringTable (_id_ INTEGER PRIMARY KEY AUTOINCREMENT, value TEXT NOT NULL UNIQUE);
        CREATE TABLE CUPTI_ACTIVITY_KIND_MARKER (_id_ INTEGER PRIMARY KEY AUTOINCREMENT, flags INT NOT NULL, timestamp INT NOT NULL,
            id INT NOT NULL, objectKind INT NOT NULL, objectId BLOB NOT NULL, name INT NOT NULL, domain INT NOT NULL);
        CREATE TABLE CUPTI_ACTIVITY_KIND_RUNTIME (_id_ INTEGER PRIMARY KEY AUTOINCREMENT, cbid INT NOT NULL, start INT NOT NULL,
            end INT NOT NULL, processId INT NOT NULL, threadId INT NOT NULL, correlationId INT NOT NULL, returnValue INT NOT NULL);
        CREATE TABLE CUPTI_ACTIVITY_KIND_DRIVER (_id_ INTEGER PRIMARY KEY AUTOINCREMENT, cbid INT NOT NULL, start INT NOT NULL,
            end INT NOT NULL, processId INT NOT NULL, threadId INT NOT NULL, correlationId INT NOT NULL, returnValue INT NOT NULL);
        CREATE TABLE CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL (_id_ INTEGER PRIMARY KEY AUTOINCREMENT, start INT NOT NULL, end INT NOT NULL,
            deviceId INT NOT NULL, contextId INT NOT NULL, streamId INT NOT NULL, correlationId INT NOT NULL, name INT NOT NULL);
        """
    )

    def text(value: str) -> int:
        connection.execute("INSERT OR IGNORE INTO StringTable (value) VALUES (?)", (value,))
        return connection.execute("SELECT _id_ FROM StringTable WHERE value = ?", (value,)).fetchone()[0]

    correlation, free = 0, 0
    for number, each in enumerate(work):
        owner = struct.pack("<IIII", 4711, each.thread & 0xFFFFFF, 0, 0)
        columns = "flags, timestamp, id, objectKind, objectId, name, domain"
        marker = f"INSERT INTO CUPTI_ACTIVITY_KIND_MARKER ({columns}) VALUES (?, ?, ?, 2, ?, ?, ?)"
        connection.execute(marker, (2, each.start, number, owner, text(each.label), text("gradlib")))
        connection.execute(marker, (4, each.end, number, owner, 0, text("gradlib")))
        for name, duration in each.kernels:
            correlation += 1
            free = max(free, each.start + 500)
            for table in ("DRIVER",) if name in driver else ("RUNTIME", "DRIVER"):
                connection.execute(
                    f"INSERT INTO CUPTI_ACTIVITY_KIND_{table} (cbid, start, end, processId, threadId, correlationId, returnValue) "
                    "VALUES (211, ?, ?, 4711, ?, ?, 0)",
                    (each.start + 10, each.start + 20, each.thread & 0xFFFFFF, correlation),
                )
            connection.execute(
                "INSERT INTO CUPTI_ACTIVITY_KIND_CONCURRENT_KERNEL (start, end, deviceId, contextId, streamId, correlationId, name) "
                "VALUES (?, ?, 0, 1, 7, ?, ?)",
                (free, free + duration, correlation, text(name)),
            )
            free += duration
    return _finished(connection, path, leave_out)


def _finished(connection: sqlite3.Connection, path: Path, leave_out: str) -> Path:
    if leave_out:
        connection.execute(f"DROP TABLE {leave_out}")
    connection.commit()
    connection.close()
    return path
