"""The ``ctx`` of a custom Function: what the user marks and saves on it in forward, and reads from it in backward.

It is what users see as ``tensor.grad_fn`` too. The graph itself holds a ``FunctionNode``; the ctx is a face of that node with the user's
own attributes as its ``__dict__``, so that names such as ``ctx.shape`` or ``ctx.saved`` are the user's alone. The node owns the
attributes, the ctx the node, and the node finds its ctx by a weak reference: no cycle.
"""

from __future__ import annotations

import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from gradlib.core.node import RemovableHandle
from gradlib.core.saved import SavedTensor
from gradlib.core.tensor import Tensor

if TYPE_CHECKING:
    from gradlib.autograd.function_node import FunctionNode


class FunctionCtx:
    """What forward and ``setup_context`` tell about a call; each method should be called at most once.

    Source: torch.autograd.function.FunctionCtx.
    """

    to_save: tuple[Tensor | None, ...]
    saved_for_forward: tuple[Tensor | None, ...]
    dirty_tensors: tuple[Tensor, ...]
    non_differentiable: tuple[Tensor, ...]
    materialize_grads: bool

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Keep tensors (or None) for ``saved_tensors`` in backward, which refuses those that were written in place since.

        Inputs and outputs come back with their place in the graph, so that backward can be differentiated again; anything else comes back
        as a constant. Keep what is no tensor as an attribute of ctx.
        """
        self.to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Keep tensors (or None) for ``saved_tensors`` in ``jvp``. Raises: AssertionError for anything else."""
        for tensor in tensors:
            if not (isinstance(tensor, Tensor) or tensor is None):
                raise AssertionError(
                    f"save_for_forward expects all arguments to be tensors, got {type(tensor).__name__}; you should save non-tensors as "
                    "attributes on ctx."
                )
        self.saved_for_forward = tensors

    def mark_dirty(self, *args: Tensor) -> None:
        """Say which inputs forward wrote in place; they must be among what it returns."""
        self.dirty_tensors = args

    def mark_shared_storage(self, *pairs: Any) -> None:
        """Deprecated: tensors that share memory are known to do so."""
        warnings.warn(
            "`mark_shared_storage` is deprecated. Tensors with shared storages are automatically tracked.", FutureWarning, stacklevel=2
        )

    def mark_non_differentiable(self, *args: Tensor) -> None:
        """Say which outputs carry no gradient. Backward still takes an argument for each: zeros."""
        self.non_differentiable = args

    def set_materialize_grads(self, value: bool) -> None:
        """Whether backward receives zeros (the default) or None for outputs that nothing used."""
        self.materialize_grads = value


class BackwardCFunction(FunctionCtx):
    """The ctx of one call of a Function, and its node as users see it. Source: torch.autograd.function.BackwardCFunction."""

    __slots__ = ("_node",)

    _node: FunctionNode
    _forward_cls: Any  # the Function; each has a subclass of its own, NAMEBackward

    # ---- what backward reads --------------------------------------------------------------------------------------------------

    @property
    def saved_tensors(self) -> tuple[Tensor | None, ...]:
        """What ``save_for_backward`` kept; within ``jvp``, what ``save_for_forward`` did.

        Raises: RuntimeError when a saved tensor was written in place since, or when an earlier backward freed it.
        """
        return self._node.for_forward if self._node.in_jvp else self._node.unpack_all()

    @property
    def _raw_saved_tensors(self) -> tuple[SavedTensor, ...]:
        """What ``save_for_backward`` kept, as objects to which pack and unpack hooks can be given."""
        return self._node.raw_saved()

    @property
    def saved_variables(self) -> tuple[Tensor | None, ...]:
        """Deprecated name of ``saved_tensors``."""
        warnings.warn("'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning, stacklevel=2)
        return self.saved_tensors

    @property
    def saved_data(self) -> dict[str, Any]:
        """A map for whatever else backward needs, as in the C++ interface."""
        data: dict[str, Any] = self._node.attributes.setdefault("_saved_data", {})
        return data

    @property
    def needs_input_grad(self) -> tuple[bool, ...]:
        """For each argument of forward, whether its gradient is wanted."""
        return self._node.needs

    @needs_input_grad.setter
    def needs_input_grad(self, value: tuple[bool, ...]) -> None:
        self._node.needs = value

    @property
    def requires_grad(self) -> bool:
        """Whether any argument requires a gradient."""
        return any(self._node.needs)

    # ---- the node -------------------------------------------------------------------------------------------------------------

    def name(self) -> str:
        """The node's name: the Function's, followed by Backward."""
        return type(self).__name__

    @property
    def next_functions(self) -> tuple[tuple[Any, int], ...]:
        """The nodes that made the tensor arguments, each with the number of its output that was used."""
        return self._node.next_functions

    @property
    def metadata(self) -> dict[Any, Any]:
        """A dictionary for the user's own notes on this node."""
        return self._node.metadata

    def register_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(grad_inputs, grad_outputs)`` after backward; a returned tuple replaces grad_inputs."""
        return self._node.register_hook(hook)

    def register_prehook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(grad_outputs)`` before backward; a returned tuple replaces grad_outputs."""
        return self._node.register_prehook(hook)

    def _sequence_nr(self) -> int:
        return self._node.seq

    # ---- running the user's functions -----------------------------------------------------------------------------------------

    def _get_user_fn(self) -> Callable[..., Any]:
        """The Function's ``backward``, or its ``vjp``."""
        from gradlib.autograd.function import Function

        backward, vjp = self._forward_cls.backward, self._forward_cls.vjp
        if backward is not Function.backward and vjp is not Function.vjp:
            raise RuntimeError(
                f"Implementing both 'backward' and 'vjp' for a custom Function is not allowed ({self._forward_cls.__name__} does). "
                "You should only implement one of them."
            )
        return vjp if vjp is not Function.vjp else backward

    def apply(self, *grads: Tensor | None) -> Any:
        """The user's backward, as the walk calls it."""
        return self._get_user_fn()(self, *([list(grads)] if self._forward_cls.boxed_grads_call else grads))

    def apply_jvp(self, *tangents: Tensor | None) -> Any:
        """The user's ``jvp``."""
        return self._forward_cls.jvp(self, *tangents)
