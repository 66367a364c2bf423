"""Training one model with the data of all ranks: gradients are averaged in buckets while backward still runs."""

from __future__ import annotations

import contextlib
import zlib
from collections.abc import Iterable, Iterator
from typing import Any

from gradlib.backend.array import device_index, namespace, on_device_of
from gradlib.core.tensor import AccumulateGrad, Tensor, wrap
from gradlib.core.writes import overwrite
from gradlib.distributed.agreement import Call
from gradlib.distributed.buffers import flat
from gradlib.distributed.collectives import all_reduce, broadcast
from gradlib.distributed.groups import chosen
from gradlib.distributed.reduce_op import ReduceOp
from gradlib.distributed.work import Work
from gradlib.ops.from_data import tensor

_FIRST_BUCKET = 1 << 20  # bytes; small, so that the first reduction begins early
_UNFINISHED = (
    "Expected to have finished reduction in the prior iteration before starting a new one: some parameters took no part in the last loss. "
    "Pass find_unused_parameters=True, or let every parameter take part on every rank."
)


class Bucket:
    """Parameters whose gradients travel together.

    Args:
        params: of one dtype and device.
    """

    def __init__(self, params: list[Tensor]) -> None:
        self.params = params
        self.missing = {id(param) for param in params}
        self.work: Work | None = None
        self.joined: Tensor | None = None

    def launch(self, group: Any) -> None:
        """Begin to average the gradients; those of unused parameters count as zeros."""
        array = self.params[0]._array
        xp = namespace(array)
        with on_device_of(array):
            grads = [param.grad._array if param.grad is not None else xp.zeros(param._array.shape, array.dtype) for param in self.params]
            self.joined = wrap(xp.concatenate([flat(grad) for grad in grads]))
        self.work = all_reduce(self.joined, ReduceOp.AVG, group, async_op=True)

    def land(self, left_out: set[int]) -> None:
        """Wait for the averages and put them into the gradients, but for those of parameters that are left out."""
        if self.work is None or self.joined is None:
            return
        self.work.wait()
        begin = 0
        for param in self.params:
            part = self.joined._array[begin : begin + param.numel()].reshape(param._array.shape)
            begin += param.numel()
            if id(param) in left_out:
                continue
            if param.grad is None:
                with on_device_of(param._array):
                    param.grad = wrap(namespace(part).array(part))
            else:
                overwrite(param.grad, part, "DistributedDataParallel")
        self.reset()

    def reset(self) -> None:
        """Be ready for the next backward."""
        self.missing = {id(param) for param in self.params}
        self.work = self.joined = None


class DistributedDataParallel:
    """Average the gradients of a model over all ranks, as if one process had seen the data of all.

    Each rank computes the mean loss of its part of the batch, of the same size on all; after ``backward`` every rank's ``.grad`` is that of
    the whole batch. While backward still runs, gradients that are complete are already on their way.

    Args:
        module: a callable with ``parameters()``, or the parameters themselves, in the same order on every rank.
        device_ids, output_device: accepted, as in torch.
        init_sync: whether all ranks begin with the first rank's parameters.
        process_group: None for all ranks.
        bucket_cap_mb: how many MiB of gradients travel together.
        find_unused_parameters: whether parameters may take no part in a loss, for which the graph is searched in each call.
    Raises: ValueError without a parameter that requires a gradient; DistBackendError when the ranks' parameters differ.
    Source: torch.nn.parallel.DistributedDataParallel; S. Li et al., PyTorch distributed: experiences on accelerating data parallel
        training, VLDB 2020.
    Example:
        >>> if gradlib.distributed.is_initialized():
        ...     weight = gradlib.ones(3, requires_grad=True)
        ...     ddp = gradlib.distributed.DistributedDataParallel([weight])
        ...     (weight * gradlib.rand(3)).sum().backward()
    """

    def __init__(
        self,
        module: Any,
        device_ids: Any = None,
        output_device: Any = None,
        *,
        init_sync: bool = True,
        process_group: Any = None,
        bucket_cap_mb: float = 25.0,
        find_unused_parameters: bool = False,
    ) -> None:
        self.module = module
        self._group = chosen(process_group)
        self._params = [param for param in self.parameters() if param.requires_grad]
        if not self._params:
            raise ValueError("DistributedDataParallel is not needed when a module doesn't have any parameters that require a gradient.")
        if find_unused_parameters and not callable(module):
            raise ValueError("find_unused_parameters=True looks at what a module returns, and needs one that can be called")
        self._finds_unused = find_unused_parameters
        self._sync = self._sync_now = True  # of the last call of the module, which decides; and at this moment
        self._agree(init_sync)
        self._buckets = _buckets(self._params, int(bucket_cap_mb * (1 << 20)))
        self._of = {id(param): bucket for bucket in self._buckets for param in bucket.params}
        self._unused: set[int] = set()
        self._begun = 0  # buckets under way
        for param in self._params:
            param.register_post_accumulate_grad_hook(self._arrived)

    def parameters(self) -> Iterator[Tensor]:
        """The module's parameters."""
        return iter(self.module.parameters() if hasattr(self.module, "parameters") else self._given())

    def _given(self) -> list[Tensor]:
        if not isinstance(self.module, list):
            self.module = list(self.module)
        return self.module

    def forward(self, *inputs: Any, **kwargs: Any) -> Any:
        """Call the module. Raises: RuntimeError when parameters were left out by the last backward."""
        if self._sync_now:
            self._check_finished()
        out = self.module(*inputs, **kwargs)
        self._sync = self._sync_now
        if self._finds_unused and self._sync:
            reached = _leaves(out)
            self._unused = {id(param) for param in self._params} - reached
            for bucket in self._buckets:
                bucket.missing -= self._unused
        return out

    __call__ = forward

    @contextlib.contextmanager
    def no_sync(self) -> Iterator[None]:
        """While entered, gradients only add up on each rank; the next backward outside averages what has gathered.

        Source: torch.nn.parallel.DistributedDataParallel.no_sync.
        """
        before, self._sync_now = self._sync_now, False
        if not callable(self.module):
            self._sync = False
        try:
            yield
        finally:
            self._sync_now = before
            if not callable(self.module):
                self._sync = before

    def _agree(self, init_sync: bool) -> None:
        """Let all ranks have the same parameters: in shape and dtype, and with ``init_sync`` in value."""
        said = "; ".join(f"{param.dtype} {tuple(param.shape)}" for param in self._params)
        sizes = (len(self._params), sum(param.numel() for param in self._params))
        call = Call("DistributedDataParallel", "parameters", sizes, f"{zlib.crc32(said.encode()):08x}")
        self._group.run(call, lambda waiting: None, [])
        for param in self._params if init_sync else []:
            broadcast(param.detach(), group=self._group, group_src=0)

    def _arrived(self, param: Tensor) -> None:
        """A gradient is complete. Buckets leave in one order, which is the same on all ranks."""
        if not self._sync:
            return
        bucket = self._of[id(param)]
        if id(param) not in bucket.missing:
            self._check_finished()
        bucket.missing.discard(id(param))
        while self._begun < len(self._buckets) and not self._buckets[self._begun].missing:
            self._buckets[self._begun].launch(self._group)
            self._begun += 1
        if self._begun == len(self._buckets):
            self._finish()

    def _finish(self) -> None:
        """All are under way: wait for them. A parameter that no rank has used keeps the gradient that it has."""
        try:
            left_out = self._left_out() if self._finds_unused else set()
            for each in self._buckets:
                each.land(left_out)
        finally:
            self._begun, self._unused = 0, set()
            for each in self._buckets:
                each.reset()

    def _left_out(self) -> set[int]:
        """The parameters that no rank has used, by their identity."""
        marks = tensor([0 if id(param) in self._unused else 1 for param in self._params], device=self._params[0].device)
        all_reduce(marks, group=self._group)
        return {id(param) for param, mark in zip(self._params, marks.tolist(), strict=True) if not mark}

    def _check_finished(self) -> None:
        if self._begun or any(len(bucket.missing) < len(bucket.params) for bucket in self._buckets):
            missing = [i for i, param in enumerate(self._params) if id(param) in self._of[id(param)].missing]
            raise RuntimeError(f"{_UNFINISHED} Parameters without a gradient, by their number: {missing[:20]}")


def _buckets(params: list[Tensor], most: int) -> list[Bucket]:
    """Parameters in the order in which backward reaches them, cut where a bucket is full or the dtype or device changes."""
    buckets: list[list[Tensor]] = []
    size, limit, kind = 0, _FIRST_BUCKET, None
    for param in reversed(params):
        own = (param.dtype, device_index(param._array))
        if kind != own or size >= min(limit, most):
            limit = _FIRST_BUCKET if not buckets else most
            buckets.append([])
            size, kind = 0, own
        buckets[-1].append(param)
        size += param._array.nbytes
    return [Bucket(each) for each in buckets]


def _leaves(out: Any) -> set[int]:
    """The leaves, by their identity, that gradients of these results reach."""
    waiting = [each.grad_fn for each in _tensors(out) if each.grad_fn is not None]
    found = {id(each) for each in _tensors(out) if each.is_leaf}
    seen: set[Any] = set(waiting)
    while waiting:
        for node, _ in waiting.pop().next_functions:
            if isinstance(node, AccumulateGrad):
                found.add(id(node.variable))
            elif node is not None and node not in seen:
                seen.add(node)
                waiting.append(node)
    return found


def _tensors(out: Any) -> Iterable[Tensor]:
    if isinstance(out, Tensor):
        yield out
    elif isinstance(out, dict):
        for each in out.values():
            yield from _tensors(each)
    elif isinstance(out, (list, tuple)):
        for each in out:
            yield from _tensors(each)
