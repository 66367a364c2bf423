"""NCCL beneath the process groups, by CuPy's binding: the collectives on raw CuPy arrays, on the current stream.

The ranks agree over MPI on what they call, and on NCCL's identifier. The collective itself is only given to the stream here; whoever reads
the result on the same stream comes behind it.
"""

from __future__ import annotations

import warnings
from importlib import import_module
from importlib.util import find_spec
from typing import Any

import numpy as np

from gradlib.backend.array import Array, cupy, on_device_of
from gradlib.backend.dtype import is_bfloat16
from gradlib.core.tensor import Tensor
from gradlib.cuda.streams import is_done
from gradlib.distributed.mpi import Mpi, Waiting
from gradlib.distributed.reduce_op import ReduceOp
from gradlib.distributed.work import Work

_BFLOAT16 = 9  # NCCL's own number, which CuPy does not name


def is_nccl_available() -> bool:
    """Whether CuPy and NCCL are installed.

    Source: torch.distributed.is_nccl_available.
    Example:
        >>> gradlib.distributed.is_nccl_available() in (True, False)
        True
    """
    return find_spec("cupy") is not None and bool(_binding().available)


def _binding() -> Any:
    """CuPy's binding, which it imports only when asked, with a warning where NCCL is missing."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", UserWarning)
        return import_module("cupy.cuda.nccl")


class StreamWork(Work):
    """A collective that was given to a stream. ``wait`` lets the current stream wait for it."""

    def __init__(self, tensors: list[Tensor]) -> None:
        super().__init__(tensors)
        with on_device_of(tensors[0]._array):
            self._event = cupy().cuda.get_current_stream().record()

    def wait(self, timeout: Any = None) -> bool:
        super().wait(timeout)
        with on_device_of(self._tensors[0]._array):
            cupy().cuda.get_current_stream().wait_event(self._event)
        return True

    synchronize = wait

    def is_completed(self) -> bool:
        return is_done(cupy().cuda.runtime.eventQuery(self._event.ptr))


class Nccl:
    """The collectives on raw device arrays, each row-major and flat; see ``Mpi`` for what each does.

    Args:
        communicator: CuPy's.
        size, rank: of the group.
    """

    def __init__(self, communicator: Any, size: int, rank: int) -> None:
        self._nccl, self.size, self.rank = communicator, size, rank

    @classmethod
    def joined(cls, mpi: Mpi, array: Array, waiting: Waiting) -> Nccl:
        """The communicator of a group: the first rank's identifier reaches the others by MPI."""
        nccl = _binding()
        identifier = np.frombuffer(nccl.get_unique_id(), np.uint8).copy()  # the first rank's counts
        mpi.broadcast(identifier, 0, waiting)
        with on_device_of(array):
            return cls(nccl.NcclCommunicator(mpi.size, identifier.tobytes(), mpi.rank), mpi.size, mpi.rank)

    def work(self, tensors: list[Tensor]) -> Work:
        """The handle of what was given last to the current stream."""
        return StreamWork(tensors)

    def close(self, broken: bool) -> None:
        """Give the communicator back; of a group that was given up, without waiting for the others."""
        self._nccl.abort() if broken else self._nccl.destroy()

    def all_reduce(self, buffer: Array, op: ReduceOp, waiting: Waiting) -> None:
        self._nccl.allReduce(*_flat(buffer), *_count(buffer), _op(op, buffer.dtype), _stream())

    def reduce(self, buffer: Array, root: int, op: ReduceOp, waiting: Waiting) -> None:
        self._nccl.reduce(*_flat(buffer), *_count(buffer), _op(op, buffer.dtype), root, _stream())

    def reduce_scatter(self, output: Array, input: Array, op: ReduceOp, waiting: Waiting) -> None:
        self._nccl.reduceScatter(input.data.ptr, output.data.ptr, *_count(output), _op(op, output.dtype), _stream())

    def broadcast(self, buffer: Array, root: int, waiting: Waiting) -> None:
        self._nccl.broadcast(*_flat(buffer), *_moved(buffer), root, _stream())

    def all_gather(self, output: Array, input: Array, waiting: Waiting) -> None:
        self._nccl.allGather(input.data.ptr, output.data.ptr, *_moved(input), _stream())

    def gather(self, output: Array | None, input: Array, root: int, waiting: Waiting) -> None:
        sent = [input.size if rank == root else 0 for rank in range(self.size)]
        received = [input.size if output is not None else 0] * self.size
        self.all_to_all(input if output is None else output, input, received, sent, waiting)

    def scatter(self, output: Array, input: Array | None, root: int, waiting: Waiting) -> None:
        received = [output.size if rank == root else 0 for rank in range(self.size)]
        sent = [output.size if input is not None else 0] * self.size
        self.all_to_all(output, output if input is None else input, received, sent, waiting)

    def all_to_all(self, output: Array, input: Array, received: list[int], sent: list[int], waiting: Waiting) -> None:
        out, into, size = output.data.ptr, input.data.ptr, input.itemsize
        with _together():
            for rank in range(self.size):
                if sent[rank]:
                    self._nccl.send(into, sent[rank] * size, _UINT8, rank, _stream())
                if received[rank]:
                    self._nccl.recv(out, received[rank] * size, _UINT8, rank, _stream())
                into, out = into + sent[rank] * size, out + received[rank] * size

    def send(self, array: Array, rank: int) -> None:
        """Give a message for a rank to the stream."""
        self._nccl.send(array.data.ptr, *_moved(array), rank, _stream())

    def receive(self, array: Array, rank: int) -> None:
        """Give the arrival of a message from a rank to the stream."""
        self._nccl.recv(array.data.ptr, *_moved(array), rank, _stream())


_UINT8 = 1  # NCCL's number


class _together:
    """While entered, sends and receives are collected, to begin at once."""

    def __enter__(self) -> None:
        _binding().groupStart()

    def __exit__(self, *error: object) -> None:
        _binding().groupEnd()


def _stream() -> int:
    return int(cupy().cuda.get_current_stream().ptr)


def _flat(buffer: Array) -> tuple[int, int]:
    return buffer.data.ptr, buffer.data.ptr


def _moved(array: Array) -> tuple[int, int]:
    """The count and type of what is moved as it is: bytes."""
    return array.nbytes, _UINT8


def _count(array: Array) -> tuple[int, int]:
    """The count and type of what is combined: complex numbers as pairs of reals."""
    if array.dtype.kind == "c":
        return array.size * 2, _number(array.real.dtype)
    return array.size, _number(array.dtype)


def _number(dtype: np.dtype) -> int:
    """NCCL's number for a dtype."""
    if is_bfloat16(dtype):
        return _BFLOAT16
    names = {"b1": 1, "i1": 0, "u1": 1, "i4": 2, "u4": 3, "i8": 4, "u8": 5, "f2": 6, "f4": 7, "f8": 8}
    try:
        return names[dtype.str[1:]]
    except KeyError:
        raise RuntimeError(f"Unconvertible NCCL type {dtype}: convert the tensor to a wider one first") from None


def _op(op: ReduceOp, dtype: np.dtype) -> int:
    """NCCL's number for an operation. Bools are bytes of 0 and 1, whose sum is their maximum and whose product is their minimum."""
    if dtype == np.bool_:
        op = {ReduceOp.SUM: ReduceOp.MAX, ReduceOp.PRODUCT: ReduceOp.MIN}.get(op, op)
    numbers = {ReduceOp.SUM: 0, ReduceOp.PRODUCT: 1, ReduceOp.MAX: 2, ReduceOp.MIN: 3, ReduceOp.AVG: 4}
    if op not in numbers:
        raise ValueError(f"Cannot use {op} with NCCL: it has SUM, AVG, PRODUCT, MIN and MAX")
    return numbers[op]
