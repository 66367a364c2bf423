"""An optimiser of which each rank keeps the state of some parameters only (ZeRO, stage 1)."""

from __future__ import annotations

import io
from collections.abc import Iterable
from typing import Any

import numpy as np

from gradlib.backend.array import namespace, on_device_of
from gradlib.core.tensor import Tensor, wrap
from gradlib.core.writes import overwrite
from gradlib.distributed.buffers import flat
from gradlib.distributed.collectives import broadcast
from gradlib.distributed.groups import chosen
from gradlib.distributed.point_to_point import recv, send
from gradlib.interop.serialization import load, save
from gradlib.optim.optimizer import Closure, Group, Optimizer, evaluated


class ZeroRedundancyOptimizer(Optimizer):
    """Any optimiser, with its state divided among the ranks: each updates its share of the parameters and sends them to the others.

    The gradients must be the same on all ranks, as `DistributedDataParallel` leaves them. The result is that of the optimiser itself.

    Args:
        params: Tensors, or groups of them, in the same order on every rank.
        optimizer_class: such as ``gradlib.optim.Adam``.
        process_group: None for all ranks.
        parameters_as_bucket_view, overlap_with_ddp: False; other values are refused.
        defaults: options of the optimiser.
    Attributes:
        optim: this rank's optimiser, of its share.
    Raises: NotImplementedError for the options named above; what the optimiser raises.
    Source: torch.distributed.optim.ZeroRedundancyOptimizer; S. Rajbhandari et al., ZeRO: memory optimizations toward training trillion
        parameter models, SC 2020.
    Example:
        >>> if gradlib.distributed.is_initialized():
        ...     weight = gradlib.ones(3, requires_grad=True)
        ...     make = gradlib.distributed.optim.ZeroRedundancyOptimizer
        ...     optimizer = make([weight], optimizer_class=gradlib.optim.Adam, lr=0.1)
    """

    def __init__(
        self,
        params: Iterable[Any],
        optimizer_class: type[Optimizer],
        process_group: Any = None,
        parameters_as_bucket_view: bool = False,
        overlap_with_ddp: bool = False,
        **defaults: Any,
    ) -> None:
        if parameters_as_bucket_view or overlap_with_ddp:
            raise NotImplementedError("ZeroRedundancyOptimizer has no parameters_as_bucket_view and no overlap_with_ddp; leave them out")
        self._group = chosen(process_group)
        self._make = optimizer_class
        self._owner: dict[int, int] = {}
        self._load = [0] * self._group.size()
        self._whole: dict[str, Any] | None = None
        self.optim: Optimizer | None = None
        super().__init__(params, defaults)
        self.optim = optimizer_class([self._share(group) for group in self.param_groups], **defaults)
        self._copy_options(self.optim.param_groups, self.param_groups)

    def add_param_group(self, param_group: Group) -> None:
        """Optimise further parameters, each by the rank that has least so far.

        Args:
            param_group: as in ``Optimizer.add_param_group``.
        Source: torch.distributed.optim.ZeroRedundancyOptimizer.add_param_group.
        """
        super().add_param_group(param_group)
        group = self.param_groups[-1]
        for param in sorted(group["params"], key=lambda each: -each.numel()):  # the largest first
            rank = self._load.index(min(self._load))
            self._owner[id(param)] = rank
            self._load[rank] += param.numel()
        if self.optim is not None:
            self.optim.add_param_group(self._share(group))
            self._copy_options(self.optim.param_groups[-1:], [group])

    def _share(self, group: Group) -> Group:
        """A group with this rank's parameters."""
        return {**group, "params": [param for param in group["params"] if self._owner[id(param)] == self._group.rank()]}

    @staticmethod
    def _copy_options(source: list[Group], target: list[Group]) -> None:
        for mine, its in zip(source, target, strict=True):
            its.update({name: value for name, value in mine.items() if name not in ("params", "param_names")})

    def _local(self) -> Optimizer:
        if self.optim is None:
            raise RuntimeError("ZeroRedundancyOptimizer: its own optimiser is not made yet")
        return self.optim

    def _step(self, closure: Closure | None) -> Any:
        loss = evaluated(closure)
        self._copy_options(self.param_groups, self._local().param_groups)  # a scheduler has changed ours
        self._local().step()
        self._copy_options(self._local().param_groups, self.param_groups)
        self._whole = None
        self._send_parameters()
        return loss

    def _send_parameters(self) -> None:
        """Give all ranks what each has updated, one message for each rank and dtype, all of them under way at once."""
        under_way = []
        for rank in range(self._group.size()):
            kinds: dict[Any, list[Tensor]] = {}
            for param in self._all_params():
                if self._owner[id(param)] == rank and param.grad is not None:
                    kinds.setdefault((param.dtype, str(param.device)), []).append(param)
            for params in kinds.values():
                with on_device_of(params[0]._array):
                    joined = wrap(namespace(params[0]._array).concatenate([flat(param._array) for param in params]))
                under_way.append((rank, params, joined, broadcast(joined, group=self._group, async_op=True, group_src=rank)))
        for rank, params, joined, work in under_way:
            if work is not None:
                work.wait()
            begin = 0
            for param in params if rank != self._group.rank() else []:
                overwrite(param, joined._array[begin : begin + param.numel()].reshape(param._array.shape), "an optimiser's step")
                begin += param.numel()

    def consolidate_state_dict(self, to: int = 0) -> None:
        """Bring the whole state to one rank, which may then call ``state_dict``. Called on all ranks.

        Args:
            to: the rank, by its number in the group.
        Source: torch.distributed.optim.ZeroRedundancyOptimizer.consolidate_state_dict.
        """
        numbers = {id(value): i for i, value in enumerate(self._all_params())}
        mine = {numbers[id(value)]: entry for value, entry in self._local().state.items()}
        if self._group.rank() != to:
            file = io.BytesIO()
            save(mine, file)
            data = wrap(np.frombuffer(file.getvalue(), np.uint8).copy())
            send(wrap(np.array([data.numel()])), group=self._group, group_dst=to)
            send(data, group=self._group, group_dst=to)
            return
        whole = dict(mine)
        for rank in range(self._group.size()):
            if rank != to:
                size = wrap(np.zeros(1, np.int64))
                recv(size, group=self._group, group_src=rank)
                data = wrap(np.empty(int(size.item()), np.uint8))
                recv(data, group=self._group, group_src=rank)
                whole.update(load(io.BytesIO(data._array.tobytes())))
        groups = [{**group, "params": [numbers[id(value)] for value in group["params"]]} for group in self.param_groups]
        self._whole = {"state": dict(sorted(whole.items())), "param_groups": groups}

    def state_dict(self) -> dict[str, Any]:
        """The whole state, as the optimiser itself would give it, on the rank to which it was brought.

        Raises: RuntimeError on other ranks, and after a further step.
        Source: torch.distributed.optim.ZeroRedundancyOptimizer.state_dict.
        """
        if self._whole is None:
            raise RuntimeError(
                "Optimizer state has not been consolidated on this rank. Please call `consolidate_state_dict(to="
                f"{self._group.rank()})` on all ranks beforehand if you meant to save the global state."
            )
        return self._whole

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a saved state, of which each rank keeps its share. Called on all ranks with the whole state.

        Args:
            state_dict: what ``state_dict`` returned, here or of the optimiser itself, with any number of ranks.
        Raises: ValueError when the groups do not match.
        Source: torch.distributed.optim.ZeroRedundancyOptimizer.load_state_dict.
        """
        super().load_state_dict(state_dict)
        mine = {id(value): i for i, value in enumerate(self._local()._all_params())}
        state = {mine[id(value)]: entry for value, entry in self.state.items() if id(value) in mine}
        counted = iter(range(len(mine)))
        groups = [{**group, "params": [next(counted) for _ in self._share(group)["params"]]} for group in self.param_groups]
        self.state.clear()  # the share is in the local optimiser
        self._local().load_state_dict({"state": state, "param_groups": groups})
