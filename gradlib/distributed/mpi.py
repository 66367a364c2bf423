"""MPI beneath the process groups: where it is loaded, how long it is waited for, and the collectives on raw host arrays.

mpi4py is used through its buffer interface only, which neither copies nor pickles. Every call is one of the non-blocking ones and is
polled, so that it ends by a deadline, gives way to other processes on the same core, and can be interrupted.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from typing import Any

import numpy as np

from gradlib.backend.dtype import is_half
from gradlib.distributed.reduce_op import ReduceOp

Waiting = Callable[..., None]
"""Waits for an MPI request; what else it is given stays alive if that never comes."""

_ON_ONE_MACHINE = {"UCX_TLS": "sm,self", "FI_TCP_IFACE": "lo", "OMPI_MCA_btl": "self,sm"}
_LAUNCHERS = (
    ("MPI_LOCALRANKID", "MPI_LOCALNRANKS", "PMI_SIZE"),  # MPICH's mpiexec
    ("OMPI_COMM_WORLD_LOCAL_RANK", "OMPI_COMM_WORLD_LOCAL_SIZE", "OMPI_COMM_WORLD_SIZE"),
    ("SLURM_LOCALID", "SLURM_STEP_TASKS_PER_NODE", "SLURM_STEP_NUM_TASKS"),  # srun; of several machines the second is a list
)
"""What launchers tell each rank: its number on its machine, how many are on that machine, and how many in all."""
_QUICK = 1e-3  # seconds before the first pause: ranks that both pause would keep each other waiting
_SHARE, _LONGEST = 0.1, 5e-3  # a pause as a share of what was waited so far, and in seconds


def library() -> Any:
    """mpi4py's MPI; the first use begins MPI.

    A job that runs on one machine speaks through its memory and opens no ports, unless the environment says otherwise.

    Raises: RuntimeError that says what to install.
    """
    started = _launched()
    if started is not None and started[1] == started[2]:
        for name, value in _ON_ONE_MACHINE.items():
            os.environ.setdefault(name, value)
    try:
        from mpi4py import MPI
    except (ImportError, RuntimeError) as error:  # RuntimeError: mpi4py is there, a library of MPI is not
        raise RuntimeError(
            "gradlib.distributed needs mpi4py and a library of MPI. Install them with: pip install 'gradlib[mpi]' mpich, or build mpi4py "
            f"against your cluster's MPI. What failed: {error}"
        ) from error
    return MPI


def _launched() -> tuple[str, str, str] | None:
    """What the launcher set in the environment, this process's number on its machine first; None where there was no launcher."""
    for names in _LAUNCHERS:
        if all(name in os.environ for name in names):
            return os.environ[names[0]], os.environ[names[1]], os.environ[names[2]]
    return None


def local_rank() -> int | None:
    """This process's number on its machine, by its launcher; None where there was none."""
    started = _launched()
    return None if started is None else int(started[0])


def refuse_strangers(size: int) -> None:
    """Refuse to be a world of one where a launcher started several processes: each of them would do the whole work, and write it.

    Args:
        size: of the world, as MPI says.
    Raises: RuntimeError.
    """
    started = _launched()
    if size == 1 and started is not None and int(started[2]) > 1:
        version = " ".join(library().Get_library_version().splitlines()[0].split())
        raise RuntimeError(
            f"{started[2]} processes were started together, but MPI takes each of them for a world of its own: their launcher belongs to "
            f"another MPI than {version}. Start them with that library's own mpiexec or, under Slurm, with `srun --mpi=pmi2` for MPICH or "
            "`srun --mpi=pmix` for Open MPI (`srun --mpi=list` says which there are)"
        )


def poll(is_over: Callable[[], bool], watch: Callable[[], None]) -> None:
    """Return once something is over. Asks again and again, first at once, then with longer pauses, and calls ``watch`` in each of these."""
    begin = time.perf_counter()
    while not is_over():
        waited = time.perf_counter() - begin
        if waited < _QUICK:
            time.sleep(0)  # whoever shares the core goes on
        else:
            watch()
            time.sleep(min(waited * _SHARE, _LONGEST))


class Mpi:
    """The collectives on raw host arrays, each row-major and flat. Each returns when it is done here.

    Args:
        comm: the group's communicator.
    """

    def __init__(self, comm: Any) -> None:
        self.comm, self.size, self.rank = comm, comm.Get_size(), comm.Get_rank()

    def all_reduce(self, buffer: np.ndarray, op: ReduceOp, waiting: Waiting) -> None:
        wide = _wide(buffer)
        waiting(self.comm.Iallreduce(library().IN_PLACE, wide, _mpi_op(op, buffer.dtype)), wide)
        self._put(buffer, wide, op)

    def reduce(self, buffer: np.ndarray, root: int, op: ReduceOp, waiting: Waiting) -> None:
        wide, combined = _wide(buffer), _mpi_op(op, buffer.dtype)
        if self.rank == root:
            waiting(self.comm.Ireduce(library().IN_PLACE, wide, combined, root), wide)
            self._put(buffer, wide, op)
        else:
            waiting(self.comm.Ireduce(wide, None, combined, root), wide)

    def reduce_scatter(self, output: np.ndarray, input: np.ndarray, op: ReduceOp, waiting: Waiting) -> None:
        wide = _wide(input)
        result = _wide(output, filled=False)
        waiting(self.comm.Ireduce_scatter_block(wide, result, op=_mpi_op(op, input.dtype)), wide, result)
        self._put(output, result, op)

    def broadcast(self, buffer: np.ndarray, root: int, waiting: Waiting) -> None:
        waiting(self.comm.Ibcast(_bytes(buffer), root), buffer)

    def all_gather(self, output: np.ndarray, input: np.ndarray, waiting: Waiting) -> None:
        waiting(self.comm.Iallgather(_bytes(input), _bytes(output)), input, output)

    def gather(self, output: np.ndarray | None, input: np.ndarray, root: int, waiting: Waiting) -> None:
        waiting(self.comm.Igather(_bytes(input), None if output is None else _bytes(output), root), input, output)

    def scatter(self, output: np.ndarray, input: np.ndarray | None, root: int, waiting: Waiting) -> None:
        waiting(self.comm.Iscatter(None if input is None else _bytes(input), _bytes(output), root), input, output)

    def all_to_all(self, output: np.ndarray, input: np.ndarray, received: list[int], sent: list[int], waiting: Waiting) -> None:
        """``received`` and ``sent``: how many elements go between this rank and each other."""
        size = input.dtype.itemsize
        sends, receives = ([count * size for count in counts] for counts in (sent, received))
        waiting(self.comm.Ialltoallv([_bytes(input), sends], [_bytes(output), receives]), input, output)

    def _put(self, buffer: np.ndarray, wide: np.ndarray, op: ReduceOp) -> None:
        """Bring a result into its place, from the wider dtype it was summed in."""
        if op is ReduceOp.AVG:
            wide /= self.size
        if wide.dtype != buffer.dtype and buffer.dtype != np.bool_:
            with np.errstate(over="ignore"):
                buffer[...] = wide


def _wide(buffer: np.ndarray, filled: bool = True) -> np.ndarray:
    """The buffer to reduce: the array itself, bools as bytes, a copy of half types in float32. ``filled``: whether its values matter."""
    if is_half(buffer.dtype):
        return buffer.astype(np.float32) if filled else np.empty(buffer.shape, np.float32)
    return buffer.view(np.uint8) if buffer.dtype == np.bool_ else buffer


def _mpi_op(op: ReduceOp, dtype: np.dtype) -> Any:
    """MPI's operation. Bools are bytes of 0 and 1, whose sum is their maximum and whose product is their minimum, as in torch."""
    name = {ReduceOp.SUM: "SUM", ReduceOp.AVG: "SUM", ReduceOp.PRODUCT: "PROD"}.get(op, op.name)
    if dtype == np.bool_:
        name = {"SUM": "MAX", "PROD": "MIN"}.get(name, name)
    return getattr(library(), name)


def _bytes(buffer: np.ndarray) -> np.ndarray:
    return buffer.reshape(-1).view(np.uint8)
