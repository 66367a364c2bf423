"""Collectives as functions, with derivatives in both modes and of every order. Source: torch.distributed.nn.functional.

The ranks together compute one function of all their tensors: its derivative is that of the sum over all ranks of what each differentiates.
Every rank therefore has to call backward, too, and in the same order. Collectives are linear, so each one's derivative is another:

| collective | its adjoint |
| --- | --- |
| all_reduce | all_reduce |
| broadcast | reduce, 0 on the other ranks |
| all_gather | reduce_scatter |
| gather | scatter |
| all_to_all | all_to_all, sizes exchanged |
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

from gradlib.autograd.function import Function
from gradlib.core.tensor import Tensor
from gradlib.distributed import collectives
from gradlib.distributed.arguments import splits
from gradlib.distributed.groups import chosen, member
from gradlib.distributed.process_group import ProcessGroup
from gradlib.distributed.reduce_op import ReduceOp
from gradlib.ops.create import empty_like, zeros_like
from gradlib.ops.shape import movedim

__all__ = ["all_gather", "all_reduce", "all_to_all", "all_to_all_single", "broadcast", "gather", "reduce", "reduce_scatter", "scatter"]


class Map(NamedTuple):
    """A linear function of what all ranks bring.

    Attributes:
        value: this rank's results from this rank's tensors.
        adjoint: gives the map of the gradients.
        tangent: gives the map of tangents, where it is another.
        rows: gives the map for so many rows at once.
        along_first: whether it cuts the first dimension, so that rows lie in the second.
    """

    value: Callable[..., list[Tensor]]
    adjoint: Callable[[], Map]
    tangent: Callable[[], Map] | None = None
    rows: Callable[[int], Map] | None = None
    along_first: bool = False


class Collective(Function):
    """A linear map between ranks, recorded: its derivatives are maps again."""

    @staticmethod
    def forward(map: Map, *tensors: Tensor) -> Any:
        made = map.value(*tensors)
        return made[0] if len(made) == 1 else tuple(made)

    @staticmethod
    def setup_context(ctx: Any, inputs: Any, output: Any) -> None:
        ctx.map = inputs[0]

    @staticmethod
    def backward(ctx: Any, *grads: Tensor) -> Any:
        made = Collective.apply(ctx.map.adjoint(), *grads)
        return (None, *(made if isinstance(made, tuple) else (made,)))

    @staticmethod
    def jvp(ctx: Any, _: Any, *tangents: Tensor) -> Any:
        return Collective.apply(ctx.map if ctx.map.tangent is None else ctx.map.tangent(), *tangents)

    @staticmethod
    def vmap(info: Any, in_dims: Any, map: Map, *tensors: Tensor) -> Any:
        place = 1 if map.along_first else 0
        batches = []
        for tensor, dim in zip(tensors, in_dims[1:], strict=True):
            whole = tensor.unsqueeze(0).expand(info.batch_size, *tensor.shape) if dim is None else movedim(tensor, dim, 0)
            batches.append(movedim(whole, 0, place).contiguous())
        made = Collective.apply(map if map.rows is None else map.rows(info.batch_size), *batches)
        return made, tuple(place for _ in made) if isinstance(made, tuple) else place


def _copy(tensor: Tensor) -> Tensor:
    return tensor.detach().contiguous().clone()


# ---- the maps -----------------------------------------------------------------------------------------------------------------------


def _all_reduce_map(op: ReduceOp, group: ProcessGroup) -> Map:
    def value(tensor: Tensor) -> list[Tensor]:
        out = _copy(tensor)
        collectives.all_reduce(out, op, group)
        return [out]

    return Map(value, lambda: _all_reduce_map(_linear(op, "all_reduce"), group), lambda: _all_reduce_map(_linear(op, "all_reduce"), group))


def _broadcast_map(root: int, group: ProcessGroup) -> Map:
    """The root's tensor on all ranks."""

    def value(tensor: Tensor) -> list[Tensor]:
        out = _copy(tensor)
        collectives.broadcast(out, group=group, group_src=root)
        return [out]

    return Map(value, lambda: _reduce_map(ReduceOp.SUM, root, group))


def _reduce_map(op: ReduceOp, root: int, group: ProcessGroup, kept: bool = False) -> Map:
    """The sum on the root; elsewhere 0, or with ``kept`` the rank's own tensor, as a constant."""

    def value(tensor: Tensor) -> list[Tensor]:
        out = _copy(tensor)
        collectives.reduce(out, group=group, group_dst=root, op=op)
        return [out if kept or group.rank() == root else zeros_like(out)]

    def adjoint() -> Map:
        back = _broadcast_map(root, group)
        return _scaled(back, 1 / group.size()) if _linear(op, "reduce") is ReduceOp.AVG else back

    return Map(value, adjoint, lambda: _reduce_map(_linear(op, "reduce"), root, group))


def _all_gather_map(group: ProcessGroup) -> Map:
    """The tensors of all ranks."""

    def value(tensor: Tensor) -> list[Tensor]:
        parts = [empty_like(tensor) for _ in range(group.size())]
        collectives.all_gather(parts, tensor.detach(), group)
        return parts

    return Map(value, lambda: _reduce_scatter_map(ReduceOp.SUM, group))


def _reduce_scatter_map(op: ReduceOp, group: ProcessGroup) -> Map:
    """The sum over all ranks of the tensors for this one."""

    def value(*tensors: Tensor) -> list[Tensor]:
        out = empty_like(tensors[group.rank()])
        collectives.reduce_scatter(out, [tensor.detach() for tensor in tensors], op, group)
        return [out]

    def adjoint() -> Map:
        back = _all_gather_map(group)
        return _scaled(back, 1 / group.size()) if _linear(op, "reduce_scatter") is ReduceOp.AVG else back

    return Map(value, adjoint, lambda: _reduce_scatter_map(_linear(op, "reduce_scatter"), group))


def _gather_map(root: int, group: ProcessGroup) -> Map:
    """The tensors of all ranks on the root; elsewhere 0."""

    def value(tensor: Tensor) -> list[Tensor]:
        parts = [zeros_like(tensor) for _ in range(group.size())]
        collectives.gather(tensor.detach(), parts if group.rank() == root else None, group=group, group_dst=root)
        return parts

    return Map(value, lambda: _scatter_map(root, group))


def _scatter_map(root: int, group: ProcessGroup) -> Map:
    """The root's tensor for this rank."""

    def value(*tensors: Tensor) -> list[Tensor]:
        out = empty_like(tensors[0])
        sent = [tensor.detach() for tensor in tensors] if group.rank() == root else None
        collectives.scatter(out, sent, group=group, group_src=root)
        return [out]

    return Map(value, lambda: _gather_map(root, group))


def _all_to_all_map(received: list[tuple[int, ...]], sent: list[tuple[int, ...]], group: ProcessGroup) -> Map:
    """The tensors that every rank sends to this one."""

    def value(*tensors: Tensor) -> list[Tensor]:
        out = [tensors[0].new_empty(shape) for shape in received]
        collectives.all_to_all(out, [tensor.detach() for tensor in tensors], group)
        return out

    def rows(count: int) -> Map:
        return _all_to_all_map([(count, *shape) for shape in received], [(count, *shape) for shape in sent], group)

    return Map(value, lambda: _all_to_all_map(sent, received, group), rows=rows)


def _all_to_all_single_map(received: list[int], sent: list[int], group: ProcessGroup) -> Map:
    """The pieces of the first dimension that every rank sends to this one."""

    def value(tensor: Tensor) -> list[Tensor]:
        out = tensor.new_empty((sum(received), *tensor.shape[1:]))
        collectives.all_to_all_single(out, tensor.detach(), received, sent, group)
        return [out]

    return Map(value, lambda: _all_to_all_single_map(sent, received, group), along_first=True)


def _scaled(map: Map, factor: float) -> Map:
    """A map whose results are multiplied."""
    return map._replace(
        value=lambda *tensors: [each * factor for each in map.value(*tensors)], adjoint=lambda: _scaled(map.adjoint(), factor)
    )


def _linear(op: ReduceOp, name: str) -> ReduceOp:
    if op not in (ReduceOp.SUM, ReduceOp.AVG):
        raise RuntimeError(f"{name}: {op} is not linear and has no derivative here. Use SUM or AVG, or detach() the tensor")
    return op


# ---- public -------------------------------------------------------------------------------------------------------------------------


def all_reduce(tensor: Tensor, op: ReduceOp = ReduceOp.SUM, group: Any = None) -> Tensor:
    """Combine a tensor over all ranks. Differentiable for ``SUM`` and ``AVG``.

    Args:
        tensor: of the same shape and dtype on every rank.
        op: how elements are combined.
        group: None for all ranks.
    Raises: as ``gradlib.distributed.all_reduce``; in backward RuntimeError for operations that are not linear (torch combines the
        gradients by the same operation, which is no derivative).
    Source: torch.distributed.nn.functional.all_reduce.
    Example:
        >>> if gradlib.distributed.is_initialized():
        ...     total = gradlib.distributed.nn.functional.all_reduce(gradlib.ones(3, requires_grad=True))
    """
    return _one(_all_reduce_map(op, chosen(group)), tensor)


def broadcast(tensor: Tensor, src: int, group: Any = None) -> Tensor:
    """Give all ranks the tensor of the rank ``src``. Differentiable.

    Args:
        tensor: of the same shape and dtype on every rank.
        src: the sending rank, by its number in the world.
        group: None for all ranks.
    Raises: as ``gradlib.distributed.broadcast``.
    Source: torch.distributed.nn.functional.broadcast.
    Example:
        >>> if gradlib.distributed.is_initialized():
        ...     first = gradlib.distributed.nn.functional.broadcast(gradlib.ones(3), src=0)
    """
    within = chosen(group)
    return _one(_broadcast_map(member(within, src, None, "broadcast"), within), tensor)


def reduce(tensor: Tensor, dst: int, op: ReduceOp = ReduceOp.SUM, group: Any = None) -> Tensor:
    """Combine a tensor over all ranks on the rank ``dst``; the others get their own tensor, as a constant. Differentiable.

    Args:
        tensor: of the same shape and dtype on every rank.
        dst: the receiving rank, by its number in the world.
        op, group: as in ``all_reduce``.
    Raises: as ``all_reduce``.
    Source: torch.distributed.nn.functional.reduce.
    Example:
        >>> if gradlib.distributed.is_initialized():
        ...     total = gradlib.distributed.nn.functional.reduce(gradlib.ones(3), dst=0)
    """
    within = chosen(group)
    return _one(_reduce_map(op, member(within, dst, None, "reduce"), within, kept=True), tensor)


def all_gather(tensor: Tensor, group: Any = None) -> tuple[Tensor, ...]:
    """Give all ranks the tensors of all. Differentiable.

    Args:
        tensor: of the same shape and dtype on every rank.
        group: None for all ranks.
    Returns: one tensor for each rank.
    Raises: as ``gradlib.distributed.all_gather``.
    Source: torch.distributed.nn.functional.all_gather.
    Example:
        >>> if gradlib.distributed.is_initialized():
        ...     parts = gradlib.distributed.nn.functional.all_gather(gradlib.ones(3))
    """
    return _several(_all_gather_map(chosen(group)), tensor)


def reduce_scatter(output: Tensor, input_list: list[Tensor], op: ReduceOp = ReduceOp.SUM, group: Any = None) -> Tensor:
    """Combine a list of tensors over all ranks, of which each rank gets one. Differentiable.

    Args:
        output: as in torch, not used: the result is new.
        input_list: one tensor for each rank.
        op, group: as in ``all_reduce``.
    Raises: as ``all_reduce``.
    Source: torch.distributed.nn.functional.reduce_scatter.
    Example:
        >>> if gradlib.distributed.is_initialized():
        ...     parts = [gradlib.ones(3)] * gradlib.distributed.get_world_size()
        ...     mine = gradlib.distributed.nn.functional.reduce_scatter(gradlib.empty(3), parts)
    """
    return _one(_reduce_scatter_map(op, chosen(group)), *input_list)


def gather(tensor: Tensor, dst: int = 0, group: Any = None) -> tuple[Tensor, ...]:
    """Give the rank ``dst`` the tensors of all; the others get zeros. Differentiable.

    Args:
        tensor: of the same shape and dtype on every rank.
        dst: the receiving rank, by its number in the world.
        group: None for all ranks.
    Returns: one tensor for each rank.
    Raises: as ``gradlib.distributed.gather``.
    Source: torch.distributed.nn.functional.gather.
    Example:
        >>> if gradlib.distributed.is_initialized():
        ...     parts = gradlib.distributed.nn.functional.gather(gradlib.ones(3))
    """
    within = chosen(group)
    return _several(_gather_map(member(within, dst, None, "gather"), within), tensor)


def scatter(tensors: Sequence[Tensor], src: int = 0, group: Any = None) -> Tensor:
    """Give each rank one of the tensors of the rank ``src``. Differentiable.

    Args:
        tensors: one for each rank, of the same shape and dtype; on other ranks than ``src`` their values do not matter.
        src: the sending rank, by its number in the world.
        group: None for all ranks.
    Raises: as ``gradlib.distributed.scatter``.
    Source: torch.distributed.nn.functional.scatter.
    Example:
        >>> if gradlib.distributed.is_initialized():
        ...     parts = [gradlib.ones(3)] * gradlib.distributed.get_world_size()
        ...     mine = gradlib.distributed.nn.functional.scatter(parts)
    """
    within = chosen(group)
    return _one(_scatter_map(member(within, src, None, "scatter"), within), *tensors)


def all_to_all(output_tensor_list: list[Tensor], input_tensor_list: list[Tensor], group: Any = None) -> tuple[Tensor, ...]:
    """Send each rank one tensor of a list, and receive one from each. Differentiable.

    Args:
        output_tensor_list: as in torch, only their shapes matter: the results are new.
        input_tensor_list: one for each rank.
        group: None for all ranks.
    Returns: one tensor from each rank.
    Raises: as ``gradlib.distributed.all_to_all``.
    Source: torch.distributed.nn.functional.all_to_all.
    Example:
        >>> if gradlib.distributed.is_initialized():
        ...     parts = [gradlib.ones(3)] * gradlib.distributed.get_world_size()
        ...     others = gradlib.distributed.nn.functional.all_to_all(parts, parts)
    """
    received, sent = ([tuple(each.shape) for each in given] for given in (output_tensor_list, input_tensor_list))
    return _several(_all_to_all_map(received, sent, chosen(group)), *input_tensor_list)


def all_to_all_single(
    output: Tensor,
    input: Tensor,
    output_split_sizes: Sequence[int] | None = None,
    input_split_sizes: Sequence[int] | None = None,
    group: Any = None,
) -> Tensor:
    """Cut a tensor along its first dimension, send each rank its piece, and put what comes from each together. Differentiable.

    Args:
        output: as in torch, only its shape matters: the result is new.
        input: what is cut.
        output_split_sizes, input_split_sizes: how much of the first dimension comes from and goes to each rank; None for equal pieces.
        group: None for all ranks.
    Raises: as ``gradlib.distributed.all_to_all_single``.
    Source: torch.distributed.nn.functional.all_to_all_single.
    Example:
        >>> if gradlib.distributed.is_initialized():
        ...     ranks = gradlib.distributed.get_world_size()
        ...     out = gradlib.distributed.nn.functional.all_to_all_single(gradlib.empty(ranks), gradlib.ones(ranks))
    """
    within = chosen(group)
    received = splits(output, output_split_sizes, within.size())
    sent = splits(input, input_split_sizes, within.size())
    return _one(_all_to_all_single_map(received, sent, within), input)


def _one(map: Map, *tensors: Tensor) -> Tensor:
    """The result of a map that has one."""
    made: Tensor = Collective.apply(map, *tensors)
    return made


def _several(map: Map, *tensors: Tensor) -> tuple[Tensor, ...]:
    """The results of a map that has one for each rank."""
    made = Collective.apply(map, *tensors)
    return made if isinstance(made, tuple) else (made,)
