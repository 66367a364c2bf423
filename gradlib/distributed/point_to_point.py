"""Messages from one rank to another.

A message has two parts: a record of what it is, under the caller's tag, and the data, under a number that the record names. So the receiver
knows dtype and shape before it gives its memory away.
"""

from __future__ import annotations

import itertools
import threading
import time
from collections import deque
from collections.abc import Callable
from datetime import timedelta
from typing import Any

import numpy as np

from gradlib.backend.array import Array, is_cupy, on_device_of
from gradlib.backend.copying import assign
from gradlib.core.modes import refuse_in_transform, writing
from gradlib.core.tensor import Tensor
from gradlib.core.writes import refuse_write
from gradlib.distributed.agreement import RECORD, Call
from gradlib.distributed.arguments import check_tensor
from gradlib.distributed.buffers import flat
from gradlib.distributed.errors import DistBackendError
from gradlib.distributed.groups import chosen, is_outside, member
from gradlib.distributed.mpi import library, poll
from gradlib.distributed.process_group import ProcessGroup, state
from gradlib.distributed.work import Work

_GRACE = 1.0  # seconds in which a message may still arrive from a rank that has left
_NUMBERS = (1 << 15) - 1  # of messages under way; MPI promises tags up to here
_numbers = itertools.count()


class Message(Work):
    """A message under way. It moves on whenever it is asked about."""

    def __init__(self, group: ProcessGroup, call: Call, tensor: Tensor, peer: int | None) -> None:
        super().__init__([tensor])
        self._group, self._call, self._tensor, self._peer = group, call, tensor, peer
        self._moving = threading.Lock()
        self._until = time.monotonic() + group.timeout.total_seconds()
        self._left_at: float | None = None
        state.messages[id(self)] = self._advance

    def _step(self) -> bool:
        """Move on; whether it is over."""
        raise NotImplementedError

    def _advance(self) -> bool:
        if not self._moving.acquire(blocking=False):
            return False  # another thread moves it
        try:
            if not self._over.is_set() and self._step():
                self._end()
        except BaseException as error:
            self._error = error
            self._end()
        finally:
            self._moving.release()
        return self._over.is_set()

    def _end(self) -> None:
        state.messages.pop(id(self), None)
        self._over.set()

    def is_completed(self) -> bool:
        return self._advance()

    def is_success(self) -> bool:
        return self._advance() and self._error is None

    def wait(self, timeout: timedelta | None = None) -> bool:
        until = self._until if timeout is None else time.monotonic() + timeout.total_seconds()
        if not self._over.is_set():
            try:
                poll(self._advance, lambda: self._watch(until))
            except BaseException as error:
                self._error = error
                self._end()
                self._group.give_up(self._call, error)
                raise
        return super().wait()

    synchronize = wait

    def _watch(self, until: float) -> None:
        state.move_on()
        if time.monotonic() > until:
            raise DistBackendError(f"{self._where()}: the time is over. Look for the rank that does not call the other half")
        notice = state.notices.departure(self._group.number, self._peers())
        if notice is not None:
            self._left_at = self._left_at or time.monotonic()
            if time.monotonic() > self._left_at + _GRACE:
                raise DistBackendError(f"{self._where()}: rank {notice.rank} {notice.why}")

    def _peers(self) -> list[int]:
        """Without any of whom it cannot go on."""
        return [] if self._peer is None else [self._group.ranks[self._peer]]

    def _where(self) -> str:
        return f"rank {self._group.ranks[self._group.rank()]}: {self._call}"


class Sent(Message):
    """A message to another rank."""

    def __init__(self, group: ProcessGroup, call: Call, tensor: Tensor, peer: int, tag: int) -> None:
        super().__init__(group, call, tensor, peer)
        number = next(_numbers) % _NUMBERS
        array = tensor._array
        record = call._replace(number=number).packed()
        self._requests = [group.headers.Isend(record.view(np.uint8), peer, tag)]
        if is_cupy(array):
            with on_device_of(array):
                group.joined_nccl().send(flat(array), peer)
        else:
            self._data = flat(array).view(np.uint8)
            self._requests.append(group.data.Isend(self._data, peer, number))
        self._kept = record

    def _step(self) -> bool:
        self._requests = [request for request in self._requests if not request.Test()]
        return not self._requests


class Received(Message):
    """A message from another rank, of which the record is awaited first."""

    def __init__(self, group: ProcessGroup, call: Call, tensor: Tensor, peer: int | None, tag: int) -> None:
        super().__init__(group, call, tensor, peer)
        self._record = np.zeros(1, RECORD)
        self._status = library().Status()
        self._tag, self._request = tag, None
        if peer is not None:
            self._request = group.headers.Irecv(self._record.view(np.uint8), peer, tag)
        else:
            group.unnamed.setdefault(tag, deque()).append(self)
        self._buffer: Array = None
        self._differs: str | None = None

    def source_rank(self) -> int:
        return self._group.ranks[self._status.Get_source()]

    def _step(self) -> bool:
        if self._buffer is None:
            if self._request is None:
                _match_unnamed(self._group, self._tag)
            if self._request is None or not self._request.Test(self._status):
                return False
            self._begin(Call.unpacked(self._record[0]), self._status.Get_source())
        if self._request is not None and not self._request.Test():
            return False
        if self._differs is not None:
            raise DistBackendError(self._differs)
        array = self._tensor._array
        if not array.flags.c_contiguous:
            assign(array, ..., self._buffer.reshape(array.shape))
        return True

    def take(self, message: Any) -> None:
        """Receive the record that was found for a receiver that names no rank."""
        self._request = message.Irecv(self._record.view(np.uint8))

    def _begin(self, sent: Call, source: int) -> None:
        """The record has come. Data of another dtype or shape is received elsewhere and thrown away, so that its sender can go on."""
        array = self._tensor._array
        if (sent.dtype, sent.shape) != (self._call.dtype, self._call.shape):
            self._differs = f"{self._where()}: rank {self._group.ranks[source]} sent a tensor of {sent.dtype} {list(sent.shape)}"
        fits = self._differs is None
        size = int(np.prod(sent.shape)) * np.dtype(_plain(sent.dtype)).itemsize
        if is_cupy(array):
            with on_device_of(array):
                self._buffer = flat(array) if fits else array[:0]
                if fits:
                    self._group.joined_nccl().receive(self._buffer, source)
            self._request = None
            return
        self._buffer = (flat(array) if fits else np.empty(size, np.uint8)).view(np.uint8)
        self._request = self._group.data.Irecv(self._buffer, source, sent.number)
        if fits:
            self._buffer = self._buffer.view(array.dtype)


_matching = threading.Lock()


def _match_unnamed(group: ProcessGroup, tag: int) -> None:
    """Give records that have come to the receivers that take them from any rank, in the order in which these were called.

    They look for one with a probe: MPICH 5.0 over UCX loses receives from ANY_SOURCE between machines (the data come, the request stays).
    """
    with _matching:
        receivers = group.unnamed[tag]
        while receivers and (message := group.headers.Improbe(library().ANY_SOURCE, tag)) is not None:
            receivers.popleft().take(message)


def _plain(dtype: str) -> str:
    return "V2" if dtype == "bfloat16" else dtype


def isend(tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None) -> Work | None:
    """Begin to send a tensor to another rank. It must not be written before ``wait``.

    Args:
        tensor: what is sent.
        dst: the receiving rank, by its number in the world.
        group_dst: the same, by its number in the group.
        group: None for all ranks.
        tag: a number that the receiver gives too.
    Returns: a handle.
    Raises: TypeError for anything but a tensor; ValueError for this rank itself, or no rank.
    Source: torch.distributed.isend.
    Example:
        >>> dist = gradlib.distributed
        >>> if dist.is_initialized() and dist.get_world_size() > 1 and dist.get_rank() == 0:
        ...     dist.isend(gradlib.ones(3), dst=1).wait()
    """
    check_tensor(tensor, "tensor")
    if is_outside(group, "isend"):
        return None
    within, peer = _checked("isend", tensor, group, dst, group_dst, "destination")
    return Sent(within, _call("send", tensor, within, peer), tensor, peer, tag)


def irecv(tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None) -> Work | None:
    """Begin to receive a tensor. It must not be touched before ``wait``; ``source_rank`` of the handle then says from whom it is.

    Args:
        tensor: what is written, of the shape and dtype that is sent.
        src: the sending rank, by its number in the world; None without ``group_src`` for whichever sends first.
        group_src: the same, by its number in the group.
        group: None for all ranks.
        tag: a number that the sender gives too.
    Returns: a handle, whose ``wait`` raises DistBackendError for a message of another dtype or shape.
    Raises: TypeError for anything but a tensor; ValueError for this rank itself.
    Source: torch.distributed.irecv.
    Example:
        >>> dist = gradlib.distributed
        >>> if dist.is_initialized() and dist.get_rank() == 1:
        ...     dist.irecv(gradlib.empty(3), src=0).wait()
    """
    check_tensor(tensor, "tensor")
    if is_outside(group, "irecv"):
        return None
    any_source = src is None and group_src is None
    within, peer = (chosen(group), None) if any_source else _checked("irecv", tensor, group, src, group_src, "source")
    if any_source and is_cupy(tensor._array):
        raise ValueError("irecv: NCCL receives from a rank that is named; give src")
    within.refuse_device(tensor._array, "irecv")
    within.refuse_broken("irecv")
    refuse_write(tensor, "irecv")
    writing(tensor)
    tensor.version.bump()
    return Received(within, _call("recv", tensor, within, peer), tensor, peer, tag)


def send(tensor: Tensor, dst: int | None = None, group: Any = None, tag: int = 0, group_dst: int | None = None) -> None:
    """Send a tensor to another rank, and return when it may be written again.

    Args:
        tensor, dst, group, tag, group_dst: as in ``isend``.
    Raises: as ``isend``; DistBackendError when the receiver has left or the time is over.
    Source: torch.distributed.send.
    Example:
        >>> dist = gradlib.distributed
        >>> if dist.is_initialized() and dist.get_world_size() > 1 and dist.get_rank() == 0:
        ...     dist.send(gradlib.ones(3), dst=1)
    """
    work = isend(tensor, dst, group, tag, group_dst)
    if work is not None:
        work.wait()


def recv(tensor: Tensor, src: int | None = None, group: Any = None, tag: int = 0, group_src: int | None = None) -> int:
    """Receive a tensor.

    Args:
        tensor, src, group, tag, group_src: as in ``irecv``.
    Returns: the rank it came from, by its number in the world; -1 outside the group.
    Raises: as ``irecv``; DistBackendError for a message of another dtype or shape, when the sender has left or the time is over.
    Source: torch.distributed.recv.
    Example:
        >>> dist = gradlib.distributed
        >>> if dist.is_initialized() and dist.get_rank() == 1:
        ...     sender = dist.recv(gradlib.empty(3))
    """
    work = irecv(tensor, src, group, tag, group_src)
    if work is None:
        return -1
    work.wait()
    return work.source_rank()


class P2POp:
    """One of several messages for ``batch_isend_irecv``.

    Args:
        op: ``isend`` or ``irecv``.
        tensor, peer, group, tag, group_peer: what it is called with; ``peer`` is the other rank.
    Raises: ValueError for another function.
    Source: torch.distributed.P2POp.
    Example:
        >>> dist = gradlib.distributed
        >>> dist.P2POp(dist.isend, gradlib.ones(3), peer=1).peer
        1
    """

    def __init__(
        self,
        op: Callable[..., Work | None],
        tensor: Tensor,
        peer: int | None = None,
        group: Any = None,
        tag: int = 0,
        group_peer: int | None = None,
    ) -> None:
        if op not in (isend, irecv):
            raise ValueError("Invalid ``op``. Expected ``op`` to be ``gradlib.distributed.isend`` or ``gradlib.distributed.irecv``.")
        check_tensor(tensor, "tensor")
        self.op, self.tensor, self.peer, self.group, self.tag, self.group_peer = op, tensor, peer, group, tag, group_peer


def batch_isend_irecv(p2p_op_list: list[P2POp]) -> list[Work]:
    """Begin several messages at once, in whatever order the ranks list them.

    Args:
        p2p_op_list: the messages, all of one group.
    Returns: their handles.
    Raises: ValueError for an empty list, anything but a P2POp, and different groups.
    Source: torch.distributed.batch_isend_irecv.
    Example:
        >>> dist = gradlib.distributed
        >>> if dist.is_initialized() and dist.get_world_size() == 2:
        ...     other = 1 - dist.get_rank()
        ...     messages = [dist.P2POp(dist.isend, gradlib.ones(3), other), dist.P2POp(dist.irecv, gradlib.empty(3), other)]
        ...     done = [work.wait() for work in dist.batch_isend_irecv(messages)]
    """
    if not isinstance(p2p_op_list, list) or not p2p_op_list or not all(isinstance(each, P2POp) for each in p2p_op_list):
        raise ValueError("Invalid ``p2p_op_list``. Each op is expected to be of type ``gradlib.distributed.P2POp``.")
    if any(each.group is not p2p_op_list[0].group for each in p2p_op_list):
        raise ValueError("All ops need to use the same group.")
    begun = [each.op(each.tensor, each.peer, each.group, each.tag, each.group_peer) for each in p2p_op_list]
    return [work for work in begun if work is not None]


def _checked(name: str, tensor: Tensor, group: Any, peer: int | None, group_peer: int | None, kind: str) -> tuple[ProcessGroup, int]:
    """The group and the number in it of the other rank."""
    refuse_in_transform(name)
    within = chosen(group)
    number = member(within, peer, group_peer, name)
    if number == within.rank():
        raise ValueError(f"Invalid {kind} rank: {kind} rank should not be the same as the rank of the current process.")
    within.refuse_device(tensor._array, name)
    within.refuse_broken(name)
    return within, number


def _call(name: str, tensor: Tensor, within: ProcessGroup, peer: int | None) -> Call:
    way = "to" if name == "send" else "from"
    whom = "any rank" if peer is None else f"rank {within.ranks[peer]}"
    return Call(f"{name} {way} {whom}", str(tensor.dtype), tuple(tensor.shape))
