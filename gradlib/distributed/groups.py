"""Process groups: the world of ranks, parts of it, and how an operation of a group is carried out, watched and given up."""

from __future__ import annotations

import atexit
import sys
import threading
import time
import warnings
import zlib
from collections.abc import Callable
from datetime import timedelta
from importlib.util import find_spec
from typing import Any

import numpy as np

from gradlib.backend.array import Array, is_cupy
from gradlib.core.tensor import Tensor
from gradlib.distributed.agreement import RECORD, Call, disagreement
from gradlib.distributed.errors import DistBackendError
from gradlib.distributed.mpi import Mpi, Waiting, library, poll
from gradlib.distributed.nccl import Nccl, is_nccl_available
from gradlib.distributed.notices import PROGRAM, Notices
from gradlib.distributed.work import Work, Worker

Body = Callable[[Waiting], None]

NON_GROUP_MEMBER = -100
"""What ``new_group`` gives to a rank that is not in the new group."""

_HOST_TIMEOUT, _NCCL_TIMEOUT = timedelta(minutes=30), timedelta(minutes=10)


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
        self._kept: list[Any] = []  # memory that MPI may still read or write, of operations that were given up
        self._turn = threading.RLock()
        self._worker = Worker(f"gradlib.distributed group {number}")

    def rank(self) -> int:
        """This process's number in the group."""
        return self.mpi.rank

    def size(self) -> int:
        """How many ranks it has."""
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
            raise RuntimeError("messages of CUDA tensors need a collective of CUDA tensors before them, at which all ranks join NCCL")
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
    """What this process knows of its groups.

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
        """Where ranks tell each other that they leave."""
        if self._notices is None:
            raise RuntimeError("no process group was made yet")
        return self._notices

    def move_on(self) -> None:
        """Let every message move on: another rank may wait for its receipt before it does what this one waits for."""
        for move in tuple(self.messages.values()):
            move()

    def begin(self, until: float) -> None:
        """What is done once in a process."""
        if self._notices is None:
            self._notices = Notices(_duplicate(library().COMM_WORLD, until))
            self.has_threads = library().Query_thread() == library().THREAD_MULTIPLE
            atexit.register(self.leave)

    def leave(self) -> None:
        """At the end of the program: tell the others. After a failure also wait for them, since MPI itself would without an end."""
        error = getattr(sys, "last_value", None)
        why = "ended its program" if error is None else f"ended its program by {type(error).__name__}: {error}"
        self.notices.tell(why, {**{number: group.done for number, group in self.groups.items()}, PROGRAM: 0})
        broken = any(group.broken is not None for group in self.groups.values())
        if self.default is None or (error is None and not broken):
            return
        until = time.monotonic() + self.default.timeout.total_seconds()
        poll(lambda: self.notices.have_all_ended() or time.monotonic() > until, lambda: None)
        for stream in (sys.stdout, sys.stderr):
            stream.flush()
        library().COMM_WORLD.Abort(1)


state = State()


class _World(type):
    @property
    def WORLD(cls) -> ProcessGroup | None:
        """The group of all ranks."""
        return state.default


class group(metaclass=_World):
    """``group.WORLD``: the group of all ranks.

    Source: torch.distributed.group.
    Example:
        >>> gradlib.distributed.group.WORLD is None
        True
    """


class GroupMember(metaclass=_World):
    """``GroupMember.NON_GROUP_MEMBER``: what ``new_group`` gives to ranks outside it.

    Source: torch.distributed.GroupMember.
    Example:
        >>> gradlib.distributed.GroupMember.NON_GROUP_MEMBER
        -100
    """

    NON_GROUP_MEMBER = NON_GROUP_MEMBER


def chosen(group: Any) -> ProcessGroup:
    """The group that an argument means: None is the default one. Raises: ValueError where there is none, or this rank is outside."""
    if group is None:
        if state.default is None:
            raise ValueError("Default process group has not been initialized, please make sure to call init_process_group.")
        return state.default
    if not isinstance(group, ProcessGroup) or group.number not in state.groups:
        raise ValueError(f"Invalid process group specified: {group!r}")
    return group


def is_outside(group: Any, name: str) -> bool:
    """Whether this rank is not in a group, in which case it is warned, as in torch."""
    if group is None or group != NON_GROUP_MEMBER:
        return False
    rank = -1 if state.default is None else state.default.rank()
    warnings.warn(f"Running {name} on global rank {rank} which does not belong to the given group.", UserWarning, stacklevel=3)
    return True


def member(group: ProcessGroup, global_rank: int | None, group_rank: int | None, name: str) -> int:
    """The number in the group of a rank that was given by its number in the world or in the group."""
    if group_rank is not None:
        if global_rank is not None:
            raise ValueError("Can't specify both group_rank and global_rank")
    elif global_rank is None:
        raise ValueError("Must specify global_rank or group_rank")
    else:
        group_rank = get_group_rank(group, global_rank)
    if not 0 <= group_rank < group.size():
        raise RuntimeError(f"{name}: invalid root rank: {group_rank}; the group has ranks 0 to {group.size() - 1}")
    return group_rank


# ---- public ---------------------------------------------------------------------------------------------------------------------------


def is_available() -> bool:
    """Whether mpi4py is installed, without which there are no process groups.

    Source: torch.distributed.is_available.
    Example:
        >>> gradlib.distributed.is_available() in (True, False)
        True
    """
    return find_spec("mpi4py") is not None


def is_mpi_available() -> bool:
    """Whether mpi4py is installed.

    Source: torch.distributed.is_mpi_available.
    Example:
        >>> gradlib.distributed.is_mpi_available() == gradlib.distributed.is_available()
        True
    """
    return is_available()


def is_initialized() -> bool:
    """Whether there is a default process group.

    Source: torch.distributed.is_initialized.
    Example:
        >>> gradlib.distributed.is_initialized()
        False
    """
    return state.default is not None


def init_process_group(
    backend: str | None = None,
    init_method: str | None = None,
    timeout: timedelta | None = None,
    world_size: int = -1,
    rank: int = -1,
    store: Any = None,
    group_name: str = "",
    pg_options: Any = None,
    device_id: Any = None,
) -> None:
    """Join the other processes of this job. Called once by each of them, first of all.

    The processes are those that ``mpiexec``, or ``python -m gradlib.distributed.launch``, has started; alone, a process is a world of one.
    CUDA tensors go by NCCL, for which each process chooses its GPU first, with ``gradlib.cuda.set_device``.

    Args:
        backend: "mpi" for host tensors, "nccl" for CUDA tensors, None or "cpu:mpi,cuda:nccl" for both.
        init_method, store: None, or "env://": MPI brings the processes together.
        timeout: how long an operation waits for other ranks before it raises; 30 minutes, with "nccl" 10.
        world_size, rank: given by MPI and ignored, with a warning.
        group_name, pg_options, device_id: accepted, as in torch.
    Raises: ValueError for a second call without destroy_process_group and for a backend that does not exist; TypeError for a timeout that
        is no timedelta; RuntimeError that says what to install; DistBackendError when not every process comes in time.
    Source: torch.distributed.init_process_group.
    Example:
        >>> if gradlib.distributed.is_available():
        ...     gradlib.distributed.is_initialized()
        False
    """
    if state.default is not None:
        raise ValueError("trying to initialize the default process group twice!")
    name = Backend(Backend.BOTH if backend is None else backend)
    if init_method not in (None, "env://") or store is not None:
        raise ValueError(
            f"init_process_group: mpiexec brings the processes together, so init_method is None or 'env://' and store is None, got "
            f"{init_method!r} and {store!r}"
        )
    if world_size != -1 or rank != -1:
        warnings.warn(
            f"For MPI backend, world_size ({world_size}) and rank ({rank}) are ignored since they are assigned by the MPI runtime.",
            UserWarning,
            stacklevel=2,
        )
    if name == Backend.NCCL and not is_nccl_available():
        raise RuntimeError("backend 'nccl' needs CuPy, a GPU and NCCL. Install it with: pip install 'nvidia-nccl-cu12', or use 'mpi'")
    allowed = _checked(timeout) or (_NCCL_TIMEOUT if name == Backend.NCCL else _HOST_TIMEOUT)
    until = time.monotonic() + allowed.total_seconds()
    world = library().COMM_WORLD
    state.begin(until)
    made = ProcessGroup(world, next(state.numbers), name, allowed, until)
    state.default = state.groups[made.number] = made


def _checked(timeout: timedelta | None) -> timedelta | None:
    if timeout is not None and not isinstance(timeout, timedelta):
        raise TypeError(f"Expected timeout argument to be of type datetime.timedelta, got {timeout}")
    return timeout


def new_group(
    ranks: list[int] | None = None,
    timeout: timedelta | None = None,
    backend: str | None = None,
    pg_options: Any = None,
    use_local_synchronization: bool = False,
    group_desc: str | None = None,
    device_id: Any = None,
    sort_ranks: bool = True,
) -> Any:
    """Make a group of some ranks. Every rank of the job calls it, in the same order, also those that will be outside.

    Args:
        ranks: their numbers in the world; None for all.
        timeout, backend: as in ``init_process_group``; None for the default group's.
        use_local_synchronization: refused: MPI makes a group with all ranks.
        sort_ranks: whether the group counts its ranks in the order of the world, else in the order given.
        pg_options, group_desc, device_id: accepted, as in torch.
    Returns: the group, and ``GroupMember.NON_GROUP_MEMBER`` on ranks outside it.
    Raises: ValueError for ranks that repeat or do not exist; DistBackendError when ranks call it differently.
    Source: torch.distributed.new_group.
    Example:
        >>> if gradlib.distributed.is_initialized():
        ...     first = gradlib.distributed.new_group([0])
    """
    world = chosen(None)
    if use_local_synchronization:
        raise ValueError("MPI backend doesn't support use_local_synchronization=True")
    wanted = list(range(world.size())) if ranks is None else [int(rank) for rank in ranks]
    if len(set(wanted)) != len(wanted):
        raise ValueError(f"ranks list must not contain duplicate entries, got {wanted}")
    if len(wanted) > world.size():
        raise ValueError("the new group's world size should be less or equal to the world size set by init_process_group")
    for rank in wanted:
        if not 0 <= rank < world.size():
            raise ValueError(f"Rank {rank} is out of range. Valid ranks are 0 to {world.size() - 1} (world_size={world.size()})")
    wanted = sorted(wanted) if sort_ranks else wanted
    name, allowed = Backend(backend or world.backend), _checked(timeout) or world.timeout
    until = time.monotonic() + allowed.total_seconds()
    mark = f"{zlib.crc32(np.array(wanted, '<i8').tobytes()):08x}"
    world.run(Call("new_group", "ranks", tuple(wanted), mark), lambda waiting: None, [])
    number = next(state.numbers)
    if world.rank() not in wanted:
        return NON_GROUP_MEMBER
    comm = world.comm.Create_group(world.comm.Get_group().Incl(wanted))
    made = state.groups[number] = ProcessGroup(comm, number, name, allowed, until)
    comm.Free()
    return made


def destroy_process_group(group: Any = None) -> None:
    """Leave a group, the default one with all others. What goes on in the background ends first.

    Ranks that still wait for this one in the group get an error.

    Args:
        group: None for the default group.
    Raises: ValueError where there is none.
    Source: torch.distributed.destroy_process_group.
    Example:
        >>> if gradlib.distributed.is_initialized():
        ...     gradlib.distributed.destroy_process_group()
    """
    if group == NON_GROUP_MEMBER:
        return
    leaving = chosen(group)
    left = list(state.groups.values()) if leaving is state.default else [leaving]
    if leaving is state.default:
        state.default = None
    for each in left:
        each.close()
        del state.groups[each.number]
    state.notices.tell("has called destroy_process_group", {each.number: each.done for each in left})


def get_rank(group: Any = None) -> int:
    """This process's number: in a group, 0 to its size - 1; -1 outside it.

    Args:
        group: None for the default group.
    Raises: ValueError before init_process_group.
    Source: torch.distributed.get_rank.
    Example:
        >>> rank = gradlib.distributed.get_rank() if gradlib.distributed.is_initialized() else 0
    """
    return -1 if group == NON_GROUP_MEMBER else chosen(group).rank()


def get_world_size(group: Any = None) -> int:
    """How many ranks a group has; -1 outside it.

    Args:
        group: None for the default group.
    Raises: ValueError before init_process_group.
    Source: torch.distributed.get_world_size.
    Example:
        >>> ranks = gradlib.distributed.get_world_size() if gradlib.distributed.is_initialized() else 1
    """
    return -1 if group == NON_GROUP_MEMBER else chosen(group).size()


def get_backend(group: Any = None) -> str:
    """The name of a group's backend.

    Args:
        group: None for the default group.
    Raises: ValueError before init_process_group and outside the group.
    Source: torch.distributed.get_backend.
    Example:
        >>> if gradlib.distributed.is_initialized():
        ...     backend = gradlib.distributed.get_backend()
    """
    return str(chosen(group).backend)


def get_process_group_ranks(group: Any) -> list[int]:
    """The numbers in the world of a group's ranks, in the group's order.

    Args:
        group: None for the default group.
    Returns: a new list.
    Raises: ValueError before init_process_group and outside the group.
    Source: torch.distributed.get_process_group_ranks.
    Example:
        >>> if gradlib.distributed.is_initialized():
        ...     ranks = gradlib.distributed.get_process_group_ranks(None)
    """
    return list(chosen(group).ranks)


def get_group_rank(group: Any, global_rank: int) -> int:
    """The number in a group of a rank of the world.

    Args:
        group: the group.
        global_rank: a rank's number in the world.
    Raises: ValueError for a rank outside it.
    Source: torch.distributed.get_group_rank.
    Example:
        >>> if gradlib.distributed.is_initialized():
        ...     first = gradlib.distributed.get_group_rank(gradlib.distributed.group.WORLD, 0)
    """
    if group is state.default and group is not None:
        return global_rank
    if group == NON_GROUP_MEMBER or global_rank not in chosen(group).ranks:
        raise ValueError(f"Global rank {global_rank} is not part of group {group}")
    return chosen(group).ranks.index(global_rank)


def get_global_rank(group: Any, group_rank: int) -> int:
    """The number in the world of a group's rank.

    Args:
        group: the group.
        group_rank: a rank's number in it.
    Raises: ValueError for a rank that it does not have.
    Source: torch.distributed.get_global_rank.
    Example:
        >>> if gradlib.distributed.is_initialized():
        ...     first = gradlib.distributed.get_global_rank(gradlib.distributed.group.WORLD, 0)
    """
    if group is state.default and group is not None:
        return group_rank
    if group == NON_GROUP_MEMBER or not 0 <= group_rank < chosen(group).size():
        raise ValueError(f"Group rank {group_rank} is not part of group {group}")
    return chosen(group).ranks[group_rank]
