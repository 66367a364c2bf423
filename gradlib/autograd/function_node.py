"""One call of a custom Function: its ctx, and its node in the graph.

The graph holds a ``FunctionNode``: what was saved, and backward with every check on what it returns. What users see as ``ctx`` and as
``tensor.grad_fn`` is another object, whose ``__dict__`` holds the user's own attributes alone, so that names such as ``ctx.shape`` or
``ctx.saved`` are free. The ctx holds the node, the node holds the attributes, and refers to its ctx weakly: there is no reference cycle.
"""

from __future__ import annotations

import warnings
import weakref
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gradlib.backend.array import Array, device_index, is_array, may_leave_host, zeros
from gradlib.backend.dtype import is_floating_point
from gradlib.backend.thread import call_users
from gradlib.core.modes import global_state, made_node, next_seq, thread_state
from gradlib.core.node import Node, Output, RefusingNode, RemovableHandle, Version, freed, stale
from gradlib.core.saved import Pack, PackedTensor, SavedTensor, Unpack
from gradlib.core.tensor import InferenceTensor, Tensor, wrap


class FunctionCtx:
    """The ctx on which forward and ``setup_context`` store what backward needs. Call each method at most once.

    Source: torch.autograd.function.FunctionCtx.
    """

    to_save: tuple[Tensor | None, ...]
    saved_for_forward: tuple[Tensor | None, ...]
    dirty_tensors: tuple[Tensor, ...]
    non_differentiable: tuple[Tensor, ...]
    materialize_grads: bool

    def save_for_backward(self, *tensors: Tensor | None) -> None:
        """Save tensors (or None) for ``saved_tensors`` in backward, which raises if one was written in place since.

        Inputs and outputs come back with their place in the graph, so that backward can be differentiated; other tensors come back as
        constants. Save values that are not tensors as attributes of ctx.
        """
        self.to_save = tensors

    def save_for_forward(self, *tensors: Tensor | None) -> None:
        """Save tensors (or None) for ``saved_tensors`` in ``jvp``. Raises: AssertionError for anything else."""
        for tensor in tensors:
            if not (isinstance(tensor, Tensor) or tensor is None):
                raise AssertionError(
                    f"save_for_forward expects all arguments to be tensors, got {type(tensor).__name__}; you should save non-tensors as "
                    "attributes on ctx."
                )
        self.saved_for_forward = tensors

    def mark_dirty(self, *args: Tensor) -> None:
        """Say which inputs forward wrote in place; it must return them too."""
        self.dirty_tensors = args

    def mark_shared_storage(self, *pairs: Any) -> None:
        """Deprecated, without effect: shared memory is tracked."""
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
        """The tensors of ``save_for_backward``; within ``jvp``, those of ``save_for_forward``.

        Raises: RuntimeError when a saved tensor was written in place since, or when an earlier backward freed it.
        """
        return self._node.for_forward if self._node.in_jvp else self._node.unpack_all()

    @property
    def _raw_saved_tensors(self) -> tuple[SavedTensor, ...]:
        """The saved tensors as ``SavedTensor`` objects, on which pack and unpack hooks can be registered."""
        return self._node.raw_saved()

    @property
    def saved_variables(self) -> tuple[Tensor | None, ...]:
        """Deprecated name of ``saved_tensors``."""
        warnings.warn("'saved_variables' is deprecated; use 'saved_tensors'", DeprecationWarning, stacklevel=2)
        return self.saved_tensors

    @property
    def saved_data(self) -> dict[str, Any]:
        """A dictionary for other values that backward needs, as in torch's C++ interface."""
        data: dict[str, Any] = self._node.attributes.setdefault("_saved_data", {})
        return data

    @property
    def needs_input_grad(self) -> tuple[bool, ...]:
        """Whether the gradient of each argument of forward is wanted."""
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
        cls = self._forward_cls
        root, vjp = cls._root, cls.vjp
        if vjp is root.vjp:
            return cls.backward
        if cls.backward is not root.backward:
            raise RuntimeError(
                f"Implementing both 'backward' and 'vjp' for a custom Function is not allowed ({cls.__name__} does). "
                "You should only implement one of them."
            )
        return vjp

    def apply(self, *grads: Tensor | None) -> Any:
        """Call the user's backward with these gradients."""
        cls = self._forward_cls
        function = cls.backward if cls.vjp is cls._root.vjp else self._get_user_fn()
        return function(self, list(grads)) if cls.boxed_grads_call else function(self, *grads)

    def apply_jvp(self, *tangents: Tensor | None) -> Any:
        """Call the user's ``jvp`` with these tangents."""
        return self._forward_cls.jvp(self, *tangents)


# ---- the node -------------------------------------------------------------------------------------------------------------------


class Saved(NamedTuple):
    """One saved tensor.

    The value is the Tensor; for an output its array, with its number in ``output``, since a node that held its own output would be a
    reference cycle. Under hooks for saved tensors it is a ``PackedTensor``.
    """

    value: Any
    output: int | None
    version: Version | None
    written: int  # the version's count at the time of saving


class Layout(NamedTuple):
    """The shape, dtype and device of an output, to make zeros for it."""

    shape: tuple[int, ...]
    dtype: np.dtype
    device: int | None

    @classmethod
    def of(cls, array: Array) -> Layout:
        return tuple.__new__(cls, (array.shape, array.dtype, None if type(array) is np.ndarray else device_index(array)))

    def zeros(self) -> Array:
        return zeros(self.shape, self.dtype, self.device)


class FunctionNode(Node):
    """One call of a custom Function.

    ``edges`` has one entry for each tensor argument; ``positions`` says which arguments those are.
    """

    __slots__ = (
        "_ctx", "attributes", "constant", "ctx_class", "devices", "for_forward", "in_jvp", "materialize", "needs", "outputs", "positions",
    )  # fmt: skip

    takes_none = True

    ctx_class: type[BackwardCFunction]
    attributes: dict[str, Any]  # the ctx's own
    needs: tuple[bool, ...]  # for each argument
    devices: tuple[int | None, ...]  # of the tensor arguments, None for the host; empty where there was nothing else
    outputs: tuple[Layout | None, ...]  # None for a result that is no tensor
    constant: tuple[int, ...]  # outputs that were marked non-differentiable
    for_forward: tuple[Tensor | None, ...]  # what ``save_for_forward`` kept, until ``jvp`` has run
    in_jvp: bool

    def __init__(self, ctx_class: type[BackwardCFunction], arguments: tuple[Any, ...]) -> None:
        self.seq = next_seq()
        self.ctx_class = ctx_class
        self.attributes = {}
        self._ctx: weakref.ref[BackwardCFunction] | None = None
        elsewhere = may_leave_host()
        edges, needs, positions, devices = [], [], [], []
        for position, argument in enumerate(arguments):  # one loop: a comprehension for each list would cost a call each
            if not isinstance(argument, Tensor):
                needs.append(False)
                continue
            place = argument._node
            edges.append(place)
            needs.append(place is not None)
            positions.append(position)
            if elsewhere:
                devices.append(device_index(argument._array))
        self.edges, self.needs, self.positions, self.devices = tuple(edges), tuple(needs), tuple(positions), tuple(devices)
        self.materialize = True
        self.outputs = ()
        self.constant = ()
        self.for_forward = ()
        self.in_jvp = False
        self.saved = ()
        self.shape: Any = None
        self.dtype: Any = None
        self._meta = None
        if global_state.new_node:
            made_node(self)

    @property
    def public(self) -> BackwardCFunction:
        """The ctx of this call: the same object as long as someone refers to it."""
        ctx = None if self._ctx is None else self._ctx()
        if ctx is None:
            ctx = object.__new__(self.ctx_class)
            ctx.__dict__ = self.attributes
            ctx._node = self
            self._ctx = weakref.ref(ctx)
        return ctx

    def name(self) -> str:
        return self.ctx_class.__name__

    @property
    def keeps_outputs(self) -> bool:  # type: ignore[override]
        return any(each.output is not None for each in self.saved or ())

    # ---- saved tensors --------------------------------------------------------------------------------------------------------

    def save(self, tensors: Any, results: tuple[Any, ...]) -> None:
        """Save what the user gave to ``save_for_backward``.

        Raises: TypeError for anything but a tensor, RuntimeError for a tensor made in inference mode.
        """
        plain = not (global_state.active and thread_state.saving)
        saved: list[Saved] = []
        for number, tensor in enumerate(tensors):
            if plain and type(tensor) is Tensor and not among(tensor, results):
                version = tensor._version_slot
                saved.append(tuple.__new__(Saved, (tensor, None, None, 0 if version is None else version.count)))
            else:
                saved.append(self._packed(number, tensor, results))
        self.saved = tuple(saved)

    def _packed(self, number: int, tensor: Any, results: tuple[Any, ...]) -> Saved:
        if tensor is None:
            return Saved(None, None, None, 0)
        if type(tensor) is not Tensor:
            self._check_savable(number, tensor)
        hooks = thread_state.saving[-1] if global_state.active and thread_state.saving else None
        for output, result in enumerate(results):
            if result is tensor and tensor._node is not None:
                if hooks is not None:
                    return Saved(PackedTensor(tensor, *hooks, output=True), output, None, 0)
                return Saved(tensor._array, output, tensor.version, tensor.version.count)
        if hooks is not None:
            return Saved(PackedTensor(tensor, *hooks), None, None, 0)
        version = tensor._version_slot
        return tuple.__new__(Saved, (tensor, None, None, 0 if version is None else version.count))

    def _check_savable(self, number: int, tensor: Any) -> None:
        """Refuse values that are no tensors, and tensors made in inference mode."""
        if not isinstance(tensor, Tensor):
            raise TypeError(
                f"save_for_backward can only save variables, but argument {number} is of type {type(tensor).__name__} (in {self.name()}). "
                "Save what is no tensor as an attribute of ctx."
            )
        if isinstance(tensor, InferenceTensor):
            raise RuntimeError(
                f"Inference tensors cannot be saved for backward (argument {number} of save_for_backward in {self.name()}). Make a clone "
                "outside inference mode to get a normal tensor."
            )

    def unpack_all(self) -> tuple[Tensor | None, ...]:
        """The saved tensors. Raises: RuntimeError for one that was written since, or when they were freed."""
        if self.saved is None:
            raise freed(self)
        clears = self.ctx_class._forward_cls.clear_saved_tensors_on_access
        if self.saved is _CLEARED:
            raise RuntimeError(
                "saved_tensors can only be accessed once when clear_saved_tensors_on_access=True is set on the autograd.Function "
                f"({self.name()}). Either access saved_tensors only once, or set clear_saved_tensors_on_access=False."
            )
        found: list[Tensor | None] = []
        for saved in self.saved:
            value, output, _, written = saved
            if output is None and type(value) is Tensor and ((version := value._version_slot) is None or version.count == written):
                found.append(value)
            else:
                found.append(self._unpacked(saved))
        if clears and self.saved:
            self.saved = _CLEARED
        return tuple(found)

    def _unpacked(self, saved: Saved) -> Tensor | None:
        if saved.value is None:
            return None
        if isinstance(saved.value, PackedTensor):
            found = saved.value.restored()
            return found if saved.output is None else self._output(found, saved.output)
        version = saved.version if saved.output is not None else saved.value._version_slot
        if version is not None and version.count != saved.written:
            raise stale(self, saved.value.shape, version)
        if saved.output is None:
            return saved.value
        result = self._output(saved.value, saved.output)
        result._version_slot = saved.version
        return result

    def _output(self, array: Array, index: int) -> Tensor:
        """Output ``index`` as a Tensor with its place in the graph, from its array."""
        result = wrap(array)
        result._node = self if len(self.outputs) == 1 else Output(self, index, array.shape, array.dtype)
        if self._meta is not None and index in self._meta.output_tangents:
            result.meta.tangents = self._meta.output_tangents[index]
        return result

    def raw_saved(self) -> tuple[SavedTensor, ...]:
        """The saved tensors as objects on which hooks can be registered."""
        return tuple(SavedByFunction(self, position) for position in range(len(self.saved or ())))

    # ---- backward -------------------------------------------------------------------------------------------------------------

    def run(self, g: Any) -> tuple[Array | None, ...]:
        several = len(self.outputs) != 1
        grads = self._answer([None if a is None else wrap(a) for a in g] if several else (None if g is None else wrap(g),))
        host = not self.devices
        found: list[Array | None] = []
        for number, (position, want) in enumerate(zip(self.positions, self.edges)):  # noqa: B905  (costs)
            d = grads[position]
            have = d._array if host and type(d) is Tensor else None
            if want is None or type(have) is not np.ndarray or have.shape != want.shape or have.dtype is not want.dtype:
                d = self._checked(position, number, d)
                have = None if d is None else d._array
            found.append(have)
        return tuple(found)

    def run_recorded(self, g: Any) -> tuple[Tensor | None, ...]:
        grads = self._answer(g if len(self.outputs) != 1 else (g,))
        return tuple([self._checked(position, number, grads[position]) for number, position in enumerate(self.positions)])

    def _answer(self, given: Sequence[Tensor | None]) -> tuple[Any, ...]:
        """What the user's backward says: a gradient (or None) for each argument of forward, those for tensors not checked yet."""
        for g in given if self.materialize else ():
            if g is None:
                given = [g if g is not None or o is None else wrap(o.zeros()) for g, o in zip(given, self.outputs, strict=True)]
                break
        grads = call_users(self.public.apply, *given)
        grads = grads if isinstance(grads, tuple) else (grads,)
        count = len(self.needs)
        if len(grads) > count and all(d is None for d in grads[count:]):
            grads = grads[:count]
        if len(grads) != count:
            raise RuntimeError(f"function {self.name()} returned an incorrect number of gradients (expected {count}, got {len(grads)})")
        if len(self.positions) < count:
            self._check_places(grads)
        return grads

    def _check_places(self, grads: tuple[Any, ...]) -> None:
        """Refuse a gradient for an argument that is no tensor."""
        for position, d in enumerate(grads):
            if d is not None and position not in self.positions:
                raise RuntimeError(
                    f"function {self.name()} returned a gradient different than None at position {position + 1}, but the corresponding "
                    "forward input was not a Tensor"
                )

    def _checked(self, position: int, number: int, d: Any) -> Tensor | None:
        """Check one returned gradient against its input; None where none is wanted. The walk converts it to the input's dtype."""
        want, place = self.edges[number], self.devices[number] if self.devices else None
        if d is None or want is None:
            return None
        if not isinstance(d, Tensor):
            got = f"{type(d).__name__}){'; gradlib.as_tensor makes one' if is_array(d) else ''}"
            raise RuntimeError(f"function {self.name()} returned an invalid gradient: expected Tensor or None (got {got}")
        have = d._array
        device = None if type(have) is np.ndarray else device_index(have)
        if have.shape == want.shape and have.dtype == want.dtype and device == place:
            return d
        says = f"Function {self.name()} returned an invalid gradient at index {position} - "
        if have.shape != want.shape and not _reduces(have.shape, want.shape):
            raise RuntimeError(f"{says}got {list(have.shape)} but expected shape compatible with {list(want.shape)}")
        if (have.dtype.kind == "c") != (want.dtype.kind == "c") and not is_floating_point(have.dtype):
            raise RuntimeError(f"{says}expected dtype {want.dtype} but got {have.dtype}; convert it with .to({want.dtype.name!r})")
        if device != place:
            raise RuntimeError(f"{says}expected device {_place(place)} but got {_place(device)}")
        return d


class SavedByFunction(SavedTensor):
    """One tensor that ``save_for_backward`` kept."""

    def unpack(self) -> Tensor | None:
        if self._node.saved is None:
            raise freed(self._node)
        return self._node._unpacked(self._node.saved[self._position])

    def _held(self) -> Any:
        return self._node.saved[self._position].value

    def _hold(self, value: Any, pack: Pack, unpack: Unpack) -> None:
        saved = list(self._node.saved)
        output = saved[self._position].output
        packed = PackedTensor(value.detach() if isinstance(value, Tensor) else wrap(value), pack, unpack, output=output is not None)
        if isinstance(value, Tensor):
            packed.node = value._node
        saved[self._position] = Saved(packed, output, None, 0)
        self._node.saved = tuple(saved)


def among(tensor: Tensor, values: tuple[Any, ...]) -> bool:
    """Whether a tensor itself is one of the values; ``in`` would compare numbers."""
    for value in values:  # noqa: SIM110  (any() of a generator costs)
        if value is tensor:
            return True
    return False


_CLEARED: tuple[Any, ...] = (object(),)
"""What ``saved`` becomes when a Function clears its saved tensors on access."""


def _reduces(have: tuple[int, ...], want: tuple[int, ...]) -> bool:
    """Whether a gradient of the first shape can be summed to the second: whether the input was broadcast to it."""
    extra = len(have) - len(want)
    return extra >= 0 and all(w in (1, h) for h, w in zip(have[extra:], want, strict=True))


def _place(device: int | None) -> str:
    return "cpu" if device is None else f"cuda:{device}"


class DelayedError(RefusingNode):
    """The node of an output without a derivative."""

    __slots__ = ()
