"""The world of ranks and parts of it: joining and leaving, making groups, and asking who is in them."""

from __future__ import annotations

import os
import time
import warnings
import zlib
from datetime import timedelta
from importlib.util import find_spec
from typing import Any

import numpy as np

from gradlib.distributed.agreement import Call
from gradlib.distributed.mpi import library, local_rank, refuse_strangers
from gradlib.distributed.nccl import is_nccl_available
from gradlib.distributed.process_group import Backend, ProcessGroup, state

NON_GROUP_MEMBER = -100
"""What ``new_group`` gives to a rank that is not in the new group."""

_HOST_TIMEOUT, _NCCL_TIMEOUT = timedelta(minutes=30), timedelta(minutes=10)


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
        is no timedelta; RuntimeError that says what to install, or that the launcher belongs to another MPI; DistBackendError when not
        every process comes in time.
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
    refuse_strangers(world.Get_size())
    state.begin(until)
    state.take_in(ProcessGroup(world, next(state.numbers), name, allowed, until))


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
    for each in left:
        state.let_go(each)
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


def get_node_local_rank(fallback_rank: int | None = None) -> int:
    """This process's number on its machine, by which it chooses its GPU: what LOCAL_RANK, mpiexec or Slurm's srun say in the environment.

    Args:
        fallback_rank: the answer for a process that none of them started; None to raise.
    Raises: RuntimeError where nothing says it.
    Source: torch.distributed.get_node_local_rank.
    Example:
        >>> gradlib.distributed.get_node_local_rank(fallback_rank=0)
        0
    """
    if "LOCAL_RANK" in os.environ:
        return int(os.environ["LOCAL_RANK"])
    told = local_rank()
    if told is not None:
        return told
    if fallback_rank is not None:
        return int(fallback_rank)
    raise RuntimeError("LOCAL_RANK is not in the environment, and neither mpiexec nor srun started this process: pass fallback_rank")


def get_world_size(group: Any = None) -> int:
    """The number of ranks in a group; -1 outside it.

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
