"""The collectives of torch.distributed: what they check, and what every rank must agree on.

Each checks its own arguments first and writes nothing when it refuses them. Then the ranks compare what they call, and then data moves.
What a collective writes is one in-place change of its tensors outside the graph; `gradlib.distributed.nn.functional` has differentiable
forms.
"""

from __future__ import annotations

import math
import warnings
from collections.abc import Callable, Sequence
from datetime import timedelta
from typing import Any

import numpy as np

from gradlib.backend.array import Array, namespace, on_device_of
from gradlib.core.batched import Batched
from gradlib.core.modes import writing
from gradlib.core.tensor import Tensor
from gradlib.core.writes import refuse_write
from gradlib.distributed.agreement import Call
from gradlib.distributed.arguments import check_at_root, check_dtypes, check_each, check_joined, check_list, check_tensor, splits
from gradlib.distributed.buffers import concatenated, copy_parts, empty_for, flat, written
from gradlib.distributed.groups import chosen, is_outside, member
from gradlib.distributed.mpi import Waiting
from gradlib.distributed.process_group import ProcessGroup
from gradlib.distributed.reduce_op import ReduceOp, check_op
from gradlib.distributed.work import Work

Transfer = Callable[[Any, Waiting], None]


def all_reduce(tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False) -> Work | None:
    """Combine a tensor over all ranks, in place, so that all have the result. Half types are summed in float32.

    Args:
        tensor: of the same shape and dtype on every rank.
        op: how elements are combined.
        group: None for all ranks.
        async_op: go on in the background.
    Returns: a handle when ``async_op``, else None.
    Raises: TypeError for anything but a tensor, ValueError for a complex one with an operation that orders or multiplies, RuntimeError for
        bitwise operations on floats, DistBackendError when the ranks do not agree, one has left, or the time is over.
    Source: torch.distributed.all_reduce.
    Example:
        >>> if gradlib.distributed.is_initialized():
        ...     x = gradlib.ones(3)
        ...     gradlib.distributed.all_reduce(x)
    """
    check_tensor(tensor, "tensor")
    if is_outside(group, "all_reduce"):
        return None
    check_op(op, tensor.dtype, "all_reduce")
    call = _call("all_reduce", tensor, op)
    return _in_place(call, tensor, group, async_op, lambda to, buffer, waiting: to.all_reduce(buffer, op, waiting))


def reduce(
    tensor: Tensor,
    dst: int | None = None,
    op: ReduceOp = ReduceOp.SUM,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Combine a tensor over all ranks, in place on the rank ``dst``; the others' tensors stay.

    Args:
        tensor: of the same shape and dtype on every rank.
        dst: the rank that gets the result, by its number in the world.
        group_dst: the same, by its number in the group.
        op, group, async_op: as in ``all_reduce``.
    Returns: as ``all_reduce``.
    Raises: as ``all_reduce``; ValueError for a rank that is not in the group.
    Source: torch.distributed.reduce.
    Example:
        >>> if gradlib.distributed.is_initialized():
        ...     x = gradlib.ones(3)
        ...     gradlib.distributed.reduce(x, dst=0)
    """
    check_tensor(tensor, "tensor")
    if is_outside(group, "reduce"):
        return None
    root = member(chosen(group), dst, group_dst, "reduce")
    check_op(op, tensor.dtype, "reduce")
    call = _call("reduce", tensor, op, root)
    is_result = chosen(group).rank() == root
    return _in_place(call, tensor, group, async_op, lambda to, buffer, waiting: to.reduce(buffer, root, op, waiting), is_result)


def broadcast(
    tensor: Tensor, src: int | None = None, group: Any = None, async_op: bool = False, group_src: int | None = None
) -> Work | None:
    """Give all ranks the tensor of the rank ``src``, in place.

    Args:
        tensor: what is sent on ``src``, else what it is written into; of the same shape and dtype on every rank.
        src: the sending rank, by its number in the world.
        group_src: the same, by its number in the group.
        group, async_op: as in ``all_reduce``.
    Returns: as ``all_reduce``.
    Raises: as ``all_reduce``; ValueError for a rank that is not in the group.
    Source: torch.distributed.broadcast.
    Example:
        >>> if gradlib.distributed.is_initialized():
        ...     x = gradlib.ones(3)
        ...     gradlib.distributed.broadcast(x, src=0)
    """
    check_tensor(tensor, "tensor")
    if is_outside(group, "broadcast"):
        return None
    root = member(chosen(group), src, group_src, "broadcast")
    call = _call("broadcast", tensor, None, root)
    is_result = chosen(group).rank() != root
    return _in_place(call, tensor, group, async_op, lambda to, buffer, waiting: to.broadcast(buffer, root, waiting), is_result)


def barrier(group: Any = None, async_op: bool = False, device_ids: Any = None, timeout: timedelta | None = None) -> Work | None:
    """Wait until every rank of the group is here.

    Args:
        group, async_op: as in ``all_reduce``.
        device_ids: accepted, as in torch.
        timeout: how long; None for the group's.
    Returns: a handle when ``async_op``, else None.
    Raises: DistBackendError when a rank calls something else, has left, or the time is over.
    Source: torch.distributed.barrier.
    Example:
        >>> if gradlib.distributed.is_initialized():
        ...     gradlib.distributed.barrier()
    """
    if is_outside(group, "barrier"):
        return None
    return chosen(group).run(Call("barrier"), lambda waiting: None, [], async_op, timeout)


def monitored_barrier(group: Any = None, timeout: timedelta | None = None, wait_all_ranks: bool = False) -> None:
    """``barrier`` under another name of torch's: every barrier here says which rank has left.

    Args:
        group, timeout: as in ``barrier``.
        wait_all_ranks: accepted, as in torch.
    Raises: as ``barrier``.
    Source: torch.distributed.monitored_barrier.
    Example:
        >>> if gradlib.distributed.is_initialized():
        ...     gradlib.distributed.monitored_barrier()
    """
    barrier(group, timeout=timeout)


def all_gather_single(output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False) -> Work | None:
    """Give all ranks the tensors of all, one behind the other in one tensor. Nothing is copied on the host.

    Args:
        output_tensor: of the input's dtype, and of its shape with the first dimension times the number of ranks, or with a first
            dimension of that number before it.
        input_tensor: of the same shape and dtype on every rank.
        group, async_op: as in ``all_reduce``.
    Returns: as ``all_reduce``.
    Raises: as ``all_reduce``; RuntimeError for an output of another shape or dtype.
    Source: torch.distributed.all_gather_single.
    Example:
        >>> if gradlib.distributed.is_initialized():
        ...     ranks = gradlib.distributed.get_world_size()
        ...     out = gradlib.empty(3 * ranks)
        ...     gradlib.distributed.all_gather_single(out, gradlib.ones(3))
    """
    check_tensor(input_tensor, "input_tensor")
    check_tensor(output_tensor, "output_tensor")
    if is_outside(group, "all_gather_single"):
        return None
    within = chosen(group)
    check_joined("all_gather_single", output_tensor, input_tensor, within.size(), "output")
    call = _call("all_gather_single", input_tensor)

    def transfer(to: Any, waiting: Waiting) -> None:
        with written(output_tensor) as output:
            to.all_gather(output, flat(input_tensor._array), waiting)

    return _run(call, within, async_op, [output_tensor], [input_tensor], transfer)


def all_gather_into_tensor(output_tensor: Tensor, input_tensor: Tensor, group: Any = None, async_op: bool = False) -> Work | None:
    """The older name of ``all_gather_single``; warns, as in torch.

    Args:
        output_tensor, input_tensor, group, async_op: as there.
    Returns: as there.
    Raises: as there.
    Source: torch.distributed.all_gather_into_tensor.
    Example:
        >>> if gradlib.distributed.is_initialized():
        ...     ranks = gradlib.distributed.get_world_size()
        ...     out = gradlib.empty(3 * ranks)
        ...     gradlib.distributed.all_gather_into_tensor(out, gradlib.ones(3))
    """
    _warn_renamed("all_gather_into_tensor", "all_gather_single")
    return all_gather_single(output_tensor, input_tensor, group, async_op)


def all_gather(tensor_list: list[Tensor], tensor: Tensor, group: Any = None, async_op: bool = False) -> Work | None:
    """Give all ranks the tensors of all, as a list. ``all_gather_single`` saves a copy.

    Args:
        tensor_list: one tensor for each rank, of ``tensor``'s shape and dtype.
        tensor: of the same shape and dtype on every rank.
        group, async_op: as in ``all_reduce``.
    Returns: as ``all_reduce``.
    Raises: as ``all_reduce``; RuntimeError for a list of another length or tensors of another shape.
    Source: torch.distributed.all_gather.
    Example:
        >>> if gradlib.distributed.is_initialized():
        ...     ranks = gradlib.distributed.get_world_size()
        ...     parts = [gradlib.empty(3) for _ in range(ranks)]
        ...     gradlib.distributed.all_gather(parts, gradlib.ones(3))
    """
    check_list(tensor_list, "tensor_list")
    check_tensor(tensor, "tensor")
    check_dtypes(tensor_list, tensor)
    if is_outside(group, "all_gather"):
        return None
    within = chosen(group)
    check_each("all_gather", tensor_list, tensor, within.size(), "output tensor list")

    def transfer(to: Any, waiting: Waiting) -> None:
        joined = empty_for(tensor, within.size())
        to.all_gather(joined, flat(tensor._array), waiting)
        copy_parts(joined, tensor_list)

    return _run(_call("all_gather", tensor), within, async_op, tensor_list, [tensor], transfer)


def reduce_scatter_single(
    output: Tensor, input: Tensor, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Combine a tensor over all ranks and give each rank its part of the first dimension. Nothing is copied on the host.

    Args:
        output: this rank's part.
        input: of ``output``'s dtype, and of its shape with the first dimension times the number of ranks, or with a first dimension of
            that number before it; the same on every rank.
        op, group, async_op: as in ``all_reduce``.
    Returns: as ``all_reduce``.
    Raises: as ``all_reduce``; RuntimeError for shapes or dtypes that do not fit.
    Source: torch.distributed.reduce_scatter_single.
    Example:
        >>> if gradlib.distributed.is_initialized():
        ...     ranks = gradlib.distributed.get_world_size()
        ...     part = gradlib.empty(3)
        ...     gradlib.distributed.reduce_scatter_single(part, gradlib.ones(3 * ranks))
    """
    check_tensor(output, "output")
    check_tensor(input, "input")
    if is_outside(group, "reduce_scatter_single"):
        return None
    within = chosen(group)
    check_op(op, input.dtype, "reduce_scatter_single")
    check_joined("reduce_scatter_single", input, output, within.size(), "input")

    def transfer(to: Any, waiting: Waiting) -> None:
        with written(output) as result:
            to.reduce_scatter(result, flat(input._array), op, waiting)

    return _run(_call("reduce_scatter_single", input, op), within, async_op, [output], [input], transfer)


def reduce_scatter_tensor(
    output: Tensor, input: Tensor, op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """The older name of ``reduce_scatter_single``; warns, as in torch.

    Args:
        output, input, op, group, async_op: as there.
    Returns: as there.
    Raises: as there.
    Source: torch.distributed.reduce_scatter_tensor.
    Example:
        >>> if gradlib.distributed.is_initialized():
        ...     ranks = gradlib.distributed.get_world_size()
        ...     part = gradlib.empty(3)
        ...     gradlib.distributed.reduce_scatter_tensor(part, gradlib.ones(3 * ranks))
    """
    _warn_renamed("reduce_scatter_tensor", "reduce_scatter_single")
    return reduce_scatter_single(output, input, op, group, async_op)


def reduce_scatter(
    output: Tensor, input_list: list[Tensor], op: ReduceOp = ReduceOp.SUM, group: Any = None, async_op: bool = False
) -> Work | None:
    """Combine a list of tensors over all ranks, of which each rank gets one. ``reduce_scatter_single`` saves a copy.

    Args:
        output: this rank's result.
        input_list: one tensor for each rank, of ``output``'s shape and dtype.
        op, group, async_op: as in ``all_reduce``.
    Returns: as ``all_reduce``.
    Raises: as ``all_reduce``; RuntimeError for a list of another length or tensors of another shape.
    Source: torch.distributed.reduce_scatter.
    Example:
        >>> if gradlib.distributed.is_initialized():
        ...     ranks = gradlib.distributed.get_world_size()
        ...     part = gradlib.empty(3)
        ...     gradlib.distributed.reduce_scatter(part, [gradlib.ones(3)] * ranks)
    """
    check_tensor(output, "output")
    check_list(input_list, "input_list")
    check_dtypes(input_list, output)
    if is_outside(group, "reduce_scatter"):
        return None
    within = chosen(group)
    check_op(op, output.dtype, "reduce_scatter")
    check_each("reduce_scatter", input_list, output, within.size(), "input tensor list")

    def transfer(to: Any, waiting: Waiting) -> None:
        with written(output) as result:
            to.reduce_scatter(result, concatenated(input_list), op, waiting)

    return _run(_call("reduce_scatter", output, op), within, async_op, [output], input_list, transfer)


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
    async_op: bool = False,
) -> Work | None:
    """Cut a tensor along its first dimension, send each rank its piece, and join the pieces that come from each. Nothing is copied.

    Args:
        output: what the pieces from all ranks are written into, in the order of the ranks.
        input: of ``output``'s dtype, and of its shape but for the first dimension.
        output_split_sizes, input_split_sizes: how much of the first dimension comes from and goes to each rank; None for equal pieces.
        group, async_op: as in ``all_reduce``.
    Returns: as ``all_reduce``.
    Raises: as ``all_reduce``; RuntimeError for sizes that do not fit; DistBackendError where a rank expects another size than one
        sends.
    Source: torch.distributed.all_to_all_single.
    Example:
        >>> if gradlib.distributed.is_initialized():
        ...     ranks = gradlib.distributed.get_world_size()
        ...     out = gradlib.empty(2 * ranks)
        ...     gradlib.distributed.all_to_all_single(out, gradlib.ones(2 * ranks))
    """
    check_tensor(output, "output")
    check_tensor(input, "input")
    check_dtypes([output], input)
    if is_outside(group, "all_to_all_single"):
        return None
    within = chosen(group)
    received = splits(output, output_split_sizes, within.size())
    sent = splits(input, input_split_sizes, within.size())
    if output.shape[1:] != input.shape[1:]:
        raise RuntimeError(f"all_to_all_single: output of shape {list(output.shape)} and input of {list(input.shape)} differ beyond dim 0")
    row = math.prod(input.shape[1:])

    def transfer(to: Any, waiting: Waiting) -> None:
        _compare_sizes(within, "all_to_all_single", sent, received, waiting)
        counts = [[each * row for each in sizes] for sizes in (received, sent)]
        with written(output) as result:
            to.all_to_all(result, flat(input._array), *counts, waiting)

    call = Call("all_to_all_single", str(input.dtype), (-1, *input.shape[1:]))
    return _run(call, within, async_op, [output], [input], transfer)


def all_to_all(output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: Any = None, async_op: bool = False) -> Work | None:
    """Send each rank one tensor of a list, and receive one from each. ``all_to_all_single`` saves two copies.

    Args:
        output_tensor_list, input_tensor_list: one tensor for each rank, of any shapes and one dtype; what one rank sends has as many
            elements as what the other receives.
        group, async_op: as in ``all_reduce``.
    Returns: as ``all_to_all_single``.
    Raises: as ``all_to_all_single``; RuntimeError for lists of another length.
    Source: torch.distributed.all_to_all.
    Example:
        >>> if gradlib.distributed.is_initialized():
        ...     ranks = gradlib.distributed.get_world_size()
        ...     parts = [gradlib.empty(2) for _ in range(ranks)]
        ...     gradlib.distributed.all_to_all(parts, [gradlib.ones(2)] * ranks)
    """
    check_list(output_tensor_list, "output_tensor_list")
    check_list(input_tensor_list, "input_tensor_list")
    check_dtypes([*output_tensor_list, *input_tensor_list[1:]], *input_tensor_list[:1])
    if is_outside(group, "all_to_all"):
        return None
    within = chosen(group)
    for name, given in (("output", output_tensor_list), ("input", input_tensor_list)):
        if len(given) != within.size():
            raise RuntimeError(f"all_to_all: the {name} list has {len(given)} tensors for a group of {within.size()} ranks")
    received, sent = ([each.numel() for each in given] for given in (output_tensor_list, input_tensor_list))

    def transfer(to: Any, waiting: Waiting) -> None:
        _compare_sizes(within, "all_to_all", sent, received, waiting)
        array = input_tensor_list[0]._array
        with on_device_of(array):
            result = namespace(array).empty(sum(received), array.dtype)
        to.all_to_all(result, concatenated(input_tensor_list), received, sent, waiting)
        copy_parts(result, output_tensor_list)

    call = Call("all_to_all", str(input_tensor_list[0].dtype), (-1,))
    return _run(call, within, async_op, output_tensor_list, input_tensor_list, transfer)


def gather(
    tensor: Tensor,
    gather_list: list[Tensor] | None = None,
    dst: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_dst: int | None = None,
) -> Work | None:
    """Give one rank the tensors of all.

    Args:
        tensor: of the same shape and dtype on every rank.
        gather_list: on the rank that receives, one tensor for each rank, of ``tensor``'s shape and dtype; None on the others.
        dst: the receiving rank, by its number in the world; 0 without ``group_dst``.
        group_dst: the same, by its number in the group.
        group, async_op: as in ``all_reduce``.
    Returns: as ``all_reduce``.
    Raises: as ``all_reduce``; ValueError for a list that is missing, or given on another rank.
    Source: torch.distributed.gather.
    Example:
        >>> dist = gradlib.distributed
        >>> if dist.is_initialized():
        ...     parts = [gradlib.empty(3) for _ in range(dist.get_world_size())] if dist.get_rank() == 0 else None
        ...     dist.gather(gradlib.ones(3), parts)
    """
    check_tensor(tensor, "tensor")
    results = gather_list or []
    check_list(results, "gather_list")
    check_dtypes(results, tensor)
    if is_outside(group, "gather"):
        return None
    within = chosen(group)
    root = member(within, 0 if dst is None and group_dst is None else dst, group_dst, "gather")
    check_at_root("gather", within, root, results, tensor, "gather_list", "destination")

    def transfer(to: Any, waiting: Waiting) -> None:
        joined = empty_for(tensor, within.size()) if results else None
        to.gather(joined, flat(tensor._array), root, waiting)
        if joined is not None:
            copy_parts(joined, results)

    return _run(_call("gather", tensor, None, root), within, async_op, results, [tensor], transfer)


def scatter(
    tensor: Tensor,
    scatter_list: list[Tensor] | None = None,
    src: int | None = None,
    group: Any = None,
    async_op: bool = False,
    group_src: int | None = None,
) -> Work | None:
    """Give each rank one of the tensors of one rank.

    Args:
        tensor: what this rank's is written into; of the same shape and dtype on every rank.
        scatter_list: on the rank that sends, one tensor for each rank, of ``tensor``'s shape and dtype; None on the others.
        src: the sending rank, by its number in the world; 0 without ``group_src``.
        group_src: the same, by its number in the group.
        group, async_op: as in ``all_reduce``.
    Returns: as ``all_reduce``.
    Raises: as ``all_reduce``; ValueError for a list that is missing, or given on another rank.
    Source: torch.distributed.scatter.
    Example:
        >>> dist = gradlib.distributed
        >>> if dist.is_initialized():
        ...     parts = [gradlib.ones(3)] * dist.get_world_size() if dist.get_rank() == 0 else None
        ...     dist.scatter(gradlib.empty(3), parts)
    """
    check_tensor(tensor, "tensor")
    pieces = scatter_list or []
    check_list(pieces, "scatter_list")
    check_dtypes(pieces, tensor)
    if is_outside(group, "scatter"):
        return None
    within = chosen(group)
    root = member(within, 0 if src is None and group_src is None else src, group_src, "scatter")
    check_at_root("scatter", within, root, pieces, tensor, "scatter_list", "source")

    def transfer(to: Any, waiting: Waiting) -> None:
        with written(tensor) as output:
            to.scatter(output, concatenated(pieces) if pieces else None, root, waiting)

    return _run(_call("scatter", tensor, None, root), within, async_op, [tensor], pieces, transfer)


# ---- what they share ----------------------------------------------------------------------------------------------------------------


def _call(name: str, tensor: Tensor, op: ReduceOp | None = None, root: int = -1) -> Call:
    return Call(name, str(tensor.dtype), tuple(tensor.shape), "" if op is None else op.name, root)


def _in_place(
    call: Call, tensor: Tensor, group: Any, async_op: bool, move: Callable[[Any, Array, Waiting], None], is_result: bool = True
) -> Work | None:
    """Run a collective whose buffer is sent and received. ``is_result``: whether this rank's is written."""

    def transfer(to: Any, waiting: Waiting) -> None:
        if is_result:
            with written(tensor, kept=True) as buffer:
                move(to, buffer, waiting)
        else:
            move(to, flat(tensor._array), waiting)

    return _run(call, chosen(group), async_op, [tensor], [], transfer, is_result)


def _run(
    call: Call,
    within: ProcessGroup,
    async_op: bool,
    outputs: list[Tensor],
    inputs: list[Tensor],
    transfer: Transfer,
    is_result: bool = True,
) -> Work | None:
    """Ask everything about what is written, then let the group carry it out. The writes are counted before they begin."""
    for each in (*outputs, *inputs):
        if isinstance(each, Batched):
            raise RuntimeError(f"vmap over {call.name}: ranks exchange whole tensors; gradlib.distributed.nn.functional has forms for vmap")
        within.refuse_device(each._array, call.name)
    within.refuse_broken(call.name)
    if is_result:
        for output in outputs:
            refuse_write(output, call.name)
        for output in outputs:
            writing(output)
            output.version.bump()
    some = (outputs or inputs)[0]._array

    def body(waiting: Waiting) -> None:
        with on_device_of(some):
            transfer(within.transport(some, waiting), waiting)

    return within.run(call, body, outputs or inputs, async_op)


def _compare_sizes(within: ProcessGroup, name: str, sent: list[int], received: list[int], waiting: Waiting) -> None:
    """Let all ranks know what each sends to each. Raises: RuntimeError on all of them where one expects another size."""
    mine = np.array([sent, received], np.int64)
    table = np.zeros((within.size(), 2, within.size()), np.int64)
    within.mpi.all_gather(table, mine, waiting)
    wrong = np.argwhere(table[:, 0, :] != table[:, 1, :].T)
    if len(wrong):
        a, b = wrong[0].tolist()
        raise RuntimeError(
            f"{name}: rank {within.ranks[a]} sends {table[a, 0, b]} elements of the first dimension to rank {within.ranks[b]}, which "
            f"expects {table[b, 1, a]}"
        )


def _warn_renamed(old: str, new: str) -> None:
    warnings.warn(
        f"`gradlib.distributed.{old}` is deprecated. Please use `gradlib.distributed.{new}` instead.", FutureWarning, stacklevel=3
    )
