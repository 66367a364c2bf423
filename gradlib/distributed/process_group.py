"""A process group: ranks that carry out operations together, how each operation is watched, and what the process knows of its groups."""

from __future__ import annotations

import atexit
import sys
import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np

from gradlib.backend.array import Array, is_cupy
from gradlib.core.tensor import Tensor
from gradlib.distributed.agreement import RECORD, Call, disagreement
from gradlib.distributed.errors import DistBackendError
from gradlib.distributed.mpi import Mpi, Waiting, library, poll
from gradlib.distributed.nccl import Nccl
from gradlib.distributed.notices import PROGRAM, Notices
from gradlib.distributed.work import Work, Worker

Body = Callable[[Waiting], None]


class Backend(str):
    """The name of a backend, in lower case.

    Source: torch.distributed.Backend.
    Example:
        >>> gradlib.distributed.Backend("MPI")
        'mpi'
    """

    MPI = "mpi"
    NCCL = "nccl"
    BOTH = "cpu:mpi,cuda:nccl"

    def __new__(cls, name: str) -> Backend:
        if not isinstance(name, str):
            raise ValueError(f"Backend constructor parameter must be string-ish, got {name!r}")
        known = name.lower()
        if known not in (cls.MPI, cls.NCCL, cls.BOTH):
            raise ValueError(
                f"unknown backend {name!r}: there are 'mpi' for host tensors, 'nccl' for CUDA tensors, and {cls.BOTH!r} for both"
            )
        return str.__new__(cls, known)


class ProcessGroup:
    """Ranks that do collectives together. Made by ``init_process_group`` and ``new_group``.

    Args:
        comm: MPI's communicator of its ranks.
        number: of the group, the same on all of them.
        backend, timeout: as in ``init_process_group``.
        until: when its ranks must have come, by the monotonic clock.
    Source: torch.distributed.ProcessGroup.
    Example:
        >>> gradlib.distributed.new_group
        <function new_group at ...>
    """

    def __init__(self, comm: Any, number: int, backend: Backend, timeout: timedelta, until: float) -> None:
        world = library().COMM_WORLD.Get_group()
        self.number, self.backend, self.timeout = number, backend, timeout
        self.comm = _duplicate(comm, until)
        self.headers, self.data = _duplicate(comm, until), _duplicate(comm, until)  # of messages from rank to rank
        self.ranks: list[int] = library().Group.Translate_ranks(comm.Get_group(), list(range(comm.Get_size())), world)
        self.mpi = Mpi(self.comm)
        self.nccl: Nccl | None = None
        self.done = 0  # collectives that this rank has taken part in
        self.broken: str | None = None
        self.unnamed: dict[int, deque[Any]] = {}  # by tag: receivers from any rank that wait for a record
        self._kept: list[Any] = []  # memory that MPI may still read or write, of operations that were given up
        self._turn = threading.RLock()
        self._worker = Worker(f"gradlib.distributed group {number}")

    def rank(self) -> int:
        """This process's number in the group."""
        return self.mpi.rank

    def size(self) -> int:
        """The number of ranks."""
        return self.mpi.size

    def __repr__(self) -> str:
        return f"<gradlib.distributed.ProcessGroup of ranks {self.ranks} by {self.backend}>"

    def refuse_device(self, array: Array, name: str) -> None:
        """Refuse an array on a device that the group's backend does not serve."""
        wanted, missing = ("cuda", Backend.MPI) if is_cupy(array) else ("cpu", Backend.NCCL)
        if self.backend == missing:
            raise RuntimeError(
                f"{name}: No backend type associated with device type {wanted}: this group's is {self.backend}. Make it with "
                f"backend={str(Backend.BOTH)!r}, or move the tensor"
            )

    def transport(self, array: Array, waiting: Waiting) -> Any:
        """Who moves an array between the ranks: MPI on the host, NCCL on a GPU, which all ranks join at its first use."""
        if not is_cupy(array):
            return self.mpi
        if self.nccl is None:
            self.nccl = Nccl.joined(self.mpi, array, waiting)
        return self.nccl

    def joined_nccl(self) -> Nccl:
        """NCCL for a message between two ranks. Raises: RuntimeError where the group has not joined it."""
        if self.nccl is None:
            raise RuntimeError("before messages of CUDA tensors, call a collective on them, such as all_reduce: there all ranks join NCCL")
        return self.nccl

    # ---- carrying out ---------------------------------------------------------------------------------------------------------

    def run(self, call: Call, body: Body, tensors: list[Tensor], async_op: bool = False, timeout: timedelta | None = None) -> Work | None:
        """Carry out a collective once all ranks agree on it.

        Args:
            call: what every rank must call alike.
            body: what moves the data; gets the function that waits for MPI.
            tensors: what it writes.
            async_op: whether it goes on in the background. On a GPU it is given to the stream at once.
            timeout: how long other ranks are waited for; None for the group's.
        Returns: a handle for ``async_op``, else None.
        Raises: DistBackendError when the ranks do not agree, one has left, or the time is over.
        """
        until = timeout or self.timeout
        on_device = any(is_cupy(tensor._array) for tensor in tensors)
        if async_op and not on_device and state.has_threads:
            work = Work(tensors)
            with self._turn:
                self._worker.give(work, lambda: self._carry_out(call, body, until))
            return work
        with self._turn:
            if not self._worker.is_idle():
                work = Work(tensors)
                self._worker.give(work, lambda: self._carry_out(call, body, until))
                work.wait()
            else:
                self._carry_out(call, body, until)
        if not async_op:
            return None
        work = self.nccl.work(tensors) if on_device and self.nccl is not None else Work(tensors)
        work.run(lambda: None)
        return work

    def _carry_out(self, call: Call, body: Body, timeout: timedelta) -> None:
        call = call._replace(number=self.done + 1)
        self.refuse_broken(call)
        until = time.monotonic() + timeout.total_seconds()
        try:
            difference = self._difference(call, until)
            if difference is None:
                body(lambda *request: self._wait(call, until, *request))
        except BaseException as error:
            self.give_up(call, error)
            raise
        self.done += 1
        if difference is not None:
            raise DistBackendError(f"rank {self.ranks[self.rank()]}: {difference}")

    def _difference(self, call: Call, until: float) -> str | None:
        """Tell the others what this rank calls, and hear what they do."""
        mine, all_records = call.packed(), np.zeros(self.size(), RECORD)
        request = self.comm.Iallgather(mine.view(np.uint8), all_records.view(np.uint8))
        self._wait(call, until, request, mine, all_records)
        return disagreement(all_records, self.ranks)

    def _wait(self, call: Call, until: float, request: Any, *kept: Any) -> None:
        """Wait for a request of MPI. Raises: DistBackendError when a rank has left, MPI fails, or the time is over."""
        try:
            poll(request.Test, lambda: self._watch(call, until))
        except BaseException as error:
            self._kept += [request, kept]
            if isinstance(error, library().Exception):
                raise DistBackendError(f"{self._where(call)}: MPI failed: {error}") from error
            raise

    def _watch(self, call: Call, until: float) -> None:
        state.move_on()
        notice = state.notices.absent(self.number, self.ranks, call.number)
        if notice is not None:
            raise DistBackendError(f"{self._where(call)}: rank {notice.rank} {notice.why}")
        if time.monotonic() > until:
            raise DistBackendError(
                f"{self._where(call)}: the time is over and not every rank has come. Look for the rank that does not call it, or pass a "
                "longer timeout to init_process_group or new_group."
            )

    def _where(self, call: Call) -> str:
        return f"rank {self.ranks[self.rank()]}: {call} in the group of {_named(self.ranks)}"

    def refuse_broken(self, what: Any) -> None:
        """Raise when this group was given up before."""
        if self.broken is not None:
            raise DistBackendError(f"{what}: this process group was given up before. {self.broken}")

    def give_up(self, call: Call, error: BaseException) -> None:
        """Let no operation of this group begin any more, and tell the others."""
        if self.broken is None:
            said = str(error) if isinstance(error, DistBackendError) else f"{type(error).__name__}: {error}"
            self.broken = said
            state.notices.tell(f"gave up on {call}: {said}", {self.number: call.number - 1})

    def close(self) -> None:
        """Let what was begun end, and give back what MPI and NCCL hold for it."""
        self._worker.stop()
        if self.nccl is not None:
            self.nccl.close(self.broken is not None)
        if self.broken is None:
            for comm in (self.comm, self.headers, self.data):
                comm.Free()


def _named(ranks: list[int]) -> str:
    return f"ranks {ranks}" if len(ranks) <= 8 else f"{len(ranks)} ranks"


def _duplicate(comm: Any, until: float) -> Any:
    """A communicator of the same ranks whose messages meet no others."""

    def watch() -> None:
        if time.monotonic() > until:
            raise DistBackendError(
                f"rank {library().COMM_WORLD.Get_rank()}: not every one of {comm.Get_size()} ranks has made this process group in time. "
                "Call init_process_group, and new_group, on every rank of the job in the same order."
            )

    made, request = comm.Idup()
    poll(request.Test, watch)
    return made


class State:
    """The state of this process: its groups and how it came into them.

    Attributes:
        default: the group of all ranks; None outside init_process_group and destroy_process_group.
        groups: all groups that this rank is in, by number.
        has_threads: whether MPI allows several threads to call it, without which nothing goes on in the background.
    """

    def __init__(self) -> None:
        self.default: ProcessGroup | None = None
        self.groups: dict[int, ProcessGroup] = {}
        self.numbers = iter(range(1 << 62))
        self.messages: dict[int, Callable[[], object]] = {}  # under way: how each moves on
        self.has_threads = False
        self._notices: Notices | None = None

    @property
    def notices(self) -> Notices:
        """The channel on which ranks tell each other that they leave."""
        if self._notices is None:
            raise RuntimeError("no process group was made yet")
        return self._notices

    def move_on(self) -> None:
        """Let every message move on: another rank may wait for its receipt before it does what this one waits for."""
        for move in tuple(self.messages.values()):
            move()

    def begin(self, until: float) -> None:
        """Open the channel for notices and ask MPI of threads; once in a process."""
        if self._notices is None:
            self._notices = Notices(_duplicate(library().COMM_WORLD, until))
            self.has_threads = library().Query_thread() == library().THREAD_MULTIPLE
            atexit.register(self.leave)

    def take_in(self, group: ProcessGroup) -> None:
        """Know the group of all ranks."""
        self.default = self.groups[group.number] = group

    def let_go(self, group: ProcessGroup) -> None:
        """Close a group and know it no more."""
        if group is self.default:
            self.default = None
        group.close()
        del self.groups[group.number]

    def leave(self) -> None:
        """At the end of the program: tell the others, and wait for them, since MPI itself would. After a failure the wait has an end."""
        error = getattr(sys, "last_value", None)
        why = "ended its program" if error is None else f"ended its program by {type(error).__name__}: {error}"
        self.notices.tell(why, {**{number: group.done for number, group in self.groups.items()}, PROGRAM: 0})
        broken = any(group.broken is not None for group in self.groups.values())
        if self.default is None or (error is None and not broken):
            poll(self.notices.have_all_ended, lambda: None)  # MPI complains of messages that nobody has read
            return
        until = time.monotonic() + self.default.timeout.total_seconds()
        poll(lambda: self.notices.have_all_ended() or time.monotonic() > until, lambda: None)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        library().COMM_WORLD.Abort(1)


state = State()
