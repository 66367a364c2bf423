"""Messages between ranks outside the collectives: that one leaves a group, how far it came in it, and why.

A rank that waits for others reads these notices between two polls. So it learns at once that what it waits for will not come, also when the
other's program ended by an exception of its own.
"""

from __future__ import annotations

import json
import threading
from typing import Any, NamedTuple

import numpy as np

from gradlib.distributed.mpi import library

PROGRAM = -1
"""Stands among the groups that a rank leaves when it comes to the end of its program."""


class Notice(NamedTuple):
    """A rank leaves groups.

    Attributes:
        rank: its number in the world.
        why: what it did, as the second half of a sentence that begins with "rank 3".
        groups: for each group that it leaves, how many collectives it has taken part in.
    """

    rank: int
    why: str
    groups: dict[int, int]


class Notices:
    """The board of notices: those that came, and the way to write one.

    Args:
        comm: a communicator of the whole world for nothing else.
    """

    def __init__(self, comm: Any) -> None:
        self._comm = comm
        self._sent: list[tuple[Any, Any]] = []  # requests, and the memory that they read
        self._reading = threading.Lock()
        self.seen: list[Notice] = []

    def tell(self, why: str, groups: dict[int, int]) -> None:
        """Tell every other rank that this one leaves groups; does not wait for them."""
        text = np.frombuffer(json.dumps([why[:1000], groups]).encode(), np.uint8)
        for rank in range(self._comm.Get_size()):
            if rank != self._comm.Get_rank():
                self._sent.append((self._comm.Isend(text, rank), text))

    def read(self) -> None:
        """Take what has come into ``seen``."""
        with self._reading:
            status = library().Status()
            while self._comm.Iprobe(status=status):
                text = np.empty(status.Get_count(library().BYTE), np.uint8)
                self._comm.Recv(text, source=status.Get_source(), tag=status.Get_tag())
                why, groups = json.loads(text.tobytes())
                self.seen.append(Notice(status.Get_source(), why, {int(group): done for group, done in groups.items()}))

    def absent(self, group: int, ranks: list[int], number: int) -> Notice | None:
        """The notice of a rank that left a group before its collective of this number; None while all may still come."""
        self.read()
        for notice in self.seen:
            if notice.rank in ranks and notice.groups.get(group, number) < number:
                return notice
        return None

    def departure(self, group: int, ranks: list[int]) -> Notice | None:
        """The notice of one of these ranks that left a group."""
        self.read()
        return next((notice for notice in self.seen if notice.rank in ranks and group in notice.groups), None)

    def have_all_ended(self) -> bool:
        """Whether every other rank has come to the end of its program."""
        self.read()
        return len({notice.rank for notice in self.seen if PROGRAM in notice.groups}) == self._comm.Get_size() - 1
