"""Saved tensors: how a node shows them, and how hooks change what it keeps.

Under hooks a node keeps what the user's pack function made of each tensor, and calls the unpack function when it runs. It then holds a
``Packed`` in the place of its tuple of saved values. The compiled ``run`` of an operation begins with ``a, b, = self.saved``, so unpacking
is iterating: the fast path knows nothing of it.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from gradlib.backend.array import Array, is_array
from gradlib.backend.copying import copy
from gradlib.backend.dtype import is_differentiable
from gradlib.core.declaration import Op
from gradlib.core.modes import next_seq, restore_saving, set_grad, thread_state
from gradlib.core.node import Node, Output, Version, check_outputs, freed, stale
from gradlib.core.tensor import Tensor, wrap

Pack = Callable[[Tensor], Any]
Unpack = Callable[[Any], Tensor]


class PackedTensor:
    """One saved tensor in the form that a pack hook gave it, with the node that it had."""

    __slots__ = ("form", "node", "output", "tangents", "unpack")

    def __init__(self, tensor: Tensor, pack: Pack, unpack: Unpack, output: bool = False) -> None:
        """Pack a tensor. For an output of the node that saves it no node is kept: the node would refer to itself."""
        before = next_seq()
        recorded = set_grad(False)
        try:
            self.form = pack(tensor)
        finally:
            set_grad(recorded)
        version = tensor._version_slot
        if version is not None and version.storage.changed > before:
            raise RuntimeError(
                "A saved tensor pack hook is modifying its input in place. Tensors provided as input to pack hook cannot be modified by "
                "in-place operations as this can lead to unexpected side-effects. Return a changed copy instead."
            )
        self.unpack = unpack
        self.output = output
        self.node = None if output else tensor._node
        self.tangents = tensor._meta.tangents if tensor._meta is not None and not output else None

    def restored(self) -> Any:
        """The tensor with its node again; for an output of this node the array alone, from which ``output_tensor`` makes the Tensor."""
        before = thread_state.saving
        try:
            found = self.unpack(self.form)
        finally:
            if thread_state.saving is not before:
                restore_saving(before)
        if not isinstance(found, Tensor):
            raise TypeError(f"Output of saved tensor unpack_hook expected to be a Tensor but got result of type {type(found).__name__}")
        if self.output:
            return found._array
        result = wrap(found._array)
        result._node = self.node
        if self.tangents:
            result.meta.tangents = self.tangents
        return result


class Packed:
    """The saved values of a node of which some are packed, in the order of ``saved_names``."""

    __slots__ = ("values",)

    def __init__(self, values: list[Any]) -> None:
        self.values = values

    def __iter__(self) -> Iterator[Any]:
        return iter([_restored(value) for value in self.values])

    def __getitem__(self, position: int) -> Any:
        return _restored(self.values[position])

    def is_packed(self, position: int) -> bool:
        return isinstance(self.values[position], PackedTensor)


def _restored(value: Any) -> Any:
    if isinstance(value, PackedTensor):
        return value.restored()
    return type(value)(_restored(v) for v in value) if type(value) in (list, tuple) else value


def pack_results(op: Op, saved: tuple[Any, ...], result: Any) -> Packed:
    """The values that an operation's node saves, packed by the active hooks: inputs first, then outputs, as in torch.

    Args:
        op: the operation.
        saved: what its rules asked for, in the order of ``op.saved_names``.
        result: the Tensor, or tuple of Tensors, that it gives.
    """
    pack, unpack = thread_state.saving[-1]
    packed, outputs = list(saved), []
    for position, (value, need) in enumerate(zip(saved, op.needs.values())):  # noqa: B905  (strict would cost)
        if value is None:
            continue
        if need.kind == "output":
            outputs.append((position, need.place))
        elif need.kind == "hidden":
            packed[position] = PackedTensor(wrap(value), pack, unpack, output=True)
        elif need.kind == "tensor" or need.kind == "argument":
            packed[position] = _packed(value, pack, unpack)
    for position, place in outputs:
        packed[position] = PackedTensor(result[place] if type(result) is tuple else result, pack, unpack, output=True)
    return Packed(packed)


def _packed(value: Any, pack: Pack, unpack: Unpack) -> Any:
    if isinstance(value, Tensor):
        return PackedTensor(value, pack, unpack)
    if is_array(value):
        return PackedTensor(wrap(value), pack, unpack)
    return type(value)(_packed(v, pack, unpack) for v in value) if type(value) in (list, tuple) else value


class SavedTensor:
    """One tensor that a node saved, as ``node._raw_saved_NAME`` shows it.

    Args:
        node: what saved it.
        position: its place among what the node saved.
        item: its place in the list, where a list of tensors is saved.
    Source: torch's SavedTensor.
    Example:
        >>> y = gradlib.tensor(2.0, requires_grad=True).exp()
        >>> saved = y.grad_fn._raw_saved_result
        >>> saved.register_hooks(lambda x: x.numpy(), gradlib.from_numpy)
        >>> saved.data
        array(7.3890557, dtype=float32)
    """

    _node: Any  # an operation's, or a custom Function's where that saved it

    def __init__(self, node: Node, position: int, item: int | None = None) -> None:
        self._node = node
        self._position = position
        self._item = item  # its place when the saved value is a list of tensors

    def register_hooks(self, pack_hook: Pack, unpack_hook: Unpack) -> None:
        """Replace what is kept by ``pack_hook(tensor)`` at once, and call ``unpack_hook`` on that whenever backward needs the tensor.

        Raises: RuntimeError when it has hooks already, was freed, or is None; TypeError for hooks that are no functions.
        """
        check_hooks(pack_hook, unpack_hook)
        if self._node.saved is None:
            raise RuntimeError(
                "Calling register_hooks on a saved tensor after it has been freed. Saved intermediate values of the graph are freed when "
                "you call .backward() or autograd.grad(). Specify retain_graph=True if you need to backward through the graph a second "
                "time or if you need to access saved variables after calling backward."
            )
        value = self._held()
        if value is None:
            raise RuntimeError("Calling register_hooks on a saved tensor with value None is forbidden")
        if isinstance(value, PackedTensor):
            raise RuntimeError(
                "Calling register_hooks on a saved tensor whose hooks have already been set. Hint: only one pair of hooks is allowed at a "
                "time."
            )
        self._hold(value, pack_hook, unpack_hook)

    def unpack(self) -> Tensor | None:
        """The tensor with its node, after its version was checked."""
        value = self._node.unpack(self._node.saved_names[self._position])
        value = value if self._item is None else value[self._item]
        return wrap(value) if is_array(value) else value

    @property
    def data(self) -> Any:
        """The saved value as the node keeps it: what a pack hook returned, or the tensor itself."""
        if self._node.saved is None:
            raise freed(self._node)
        value = self._held()
        return value.form if isinstance(value, PackedTensor) else self.unpack()

    @property
    def unpack_hook(self) -> Unpack | None:
        """The hook that backward will call; None where there is none, or it was freed."""
        value = None if self._node.saved is None else self._held()
        return value.unpack if isinstance(value, PackedTensor) else None

    def _held(self) -> Any:
        """The value that the node keeps."""
        value = _values(self._node)[self._position]
        return value if self._item is None else value[self._item]

    def _hold(self, value: Any, pack: Pack, unpack: Unpack) -> None:
        """Let the node hold a value in packed form."""
        node = self._node
        values = list(_values(node))
        shown = value.detach() if isinstance(value, Tensor) else wrap(value)
        packed = PackedTensor(shown, pack, unpack, output=node.saved_names[self._position] in (*node.output_names, *node.hidden_names))
        if isinstance(value, Tensor):
            packed.node = value._node
        if self._item is None:
            values[self._position] = packed
        else:
            several = list(values[self._position])
            several[self._item] = packed
            values[self._position] = type(values[self._position])(several)
        node.saved = Packed(values)


def _values(node: Node) -> Any:
    return node.saved.values if isinstance(node.saved, Packed) else node.saved


def saved_tensor(node: Node, name: str) -> Any:
    """The saved tensor of that name with its hooks, or a tuple of them where a list of tensors is saved.

    Raises: AttributeError when what is saved under that name is no tensor.
    """
    position = node.saved_names.index(name)
    value = None if node.saved is None else _values(node)[position]
    if isinstance(value, (list, tuple)) and any(isinstance(v, (Tensor, PackedTensor)) for v in value):
        return tuple(SavedTensor(node, position, item) for item in range(len(value)))
    if value is not None and not isinstance(value, (Tensor, PackedTensor)) and not is_array(value):
        raise AttributeError(f"{node.name()} saves {name} as it is, which no hook can pack; read _saved_{name}")
    return SavedTensor(node, position)


def check_hooks(pack_hook: Any, unpack_hook: Any) -> None:
    """Refuse hooks that are no functions."""
    for name, hook in (("pack_hook", pack_hook), ("unpack_hook", unpack_hook)):
        if not callable(hook):
            raise TypeError(f"{name} is a function, got {type(hook).__name__}")


# ---- what a node shows of what it saved -------------------------------------------------------------------------------------------


class OpNode(Node):
    """The node of an operation, which shows by name what the rules saved."""

    __slots__ = ()

    def differentiable_inputs(self) -> Sequence[int]:
        op: Op = self.op  # type: ignore[attr-defined]
        if len(op.rules) == len(op.tensors):
            return range(len(self.edges))
        places: list[int] = []
        place = 0
        for name in op.tensors:
            count = len(self.edges) - len(op.tensors) + 1 if name == op.sequence else 1
            places += range(place, place + count) if name in op.rules else ()
            place += count
        return places

    def shown(self, name: str) -> Any:
        """What ``_saved_NAME`` is."""
        value = self.unpack(name)
        if name in self.output_names and isinstance(value, Tensor):  # one version for all that look at this memory
            value._version_slot = self.meta.output_versions.setdefault(self.output_names.index(name), Version())
        return value

    def unpack(self, name: str) -> Any:
        """The saved value of that name, checked, as a Tensor where it is one."""
        if self.saved is None:
            raise freed(self)
        position = self.saved_names.index(name)
        value = self.saved[position]
        if name in self.output_names:
            check_outputs(self)
            return output_tensor(self, value, self.output_names.index(name))
        if name in self.hidden_names:
            return hidden_tensor(self, None if value is None else copy(value), name)  # no version counts the writes to it
        version = getattr(value, "_version_slot", None)
        if version is not None and version.changed >= self.seq:
            raise stale(self, value._array.shape, version)
        return value


def saved_attributes(names: tuple[str, ...]) -> dict[str, property]:
    """What the class of a node that saves these names shows of them.

    ``_saved_NAME`` is what the derivative keeps of that name; torch's ``_saved_self`` and ``_saved_result`` work too. ``_raw_saved_NAME``
    is the same as a ``SavedTensor``, to which hooks can be given. Properties and no ``__getattr__``: a class that has one looks up every
    attribute more slowly, and backward reads some of each node.
    """
    places = {**{name: name for name in names}, **{theirs: ours for theirs, ours in _NAMES_IN_TORCH.items() if ours in names}}
    return {f"{kind}_saved_{name}": _attribute(kind, place) for name, place in places.items() for kind in ("", "_raw")}


_NAMES_IN_TORCH = {"self": "input", "result": "out"}


@functools.cache
def _attribute(kind: str, name: str) -> property:
    return property((lambda node: saved_tensor(node, name)) if kind else (lambda node: node.shown(name)))


def output_tensor(node: Node, array: Array, index: int) -> Any:
    """The Tensor that output ``index`` of this node is, rebuilt around its array (a node that kept its output would refer to itself).

    None where it was not kept.
    """
    if array is None:
        return None
    result = wrap(array)
    if is_differentiable(array.dtype):  # integers, such as the places of maxima, have no part in the graph
        result._node = node if len(node.output_names) == 1 else Output(node, index, array.shape, array.dtype)
    if node._meta is not None and index in node._meta.output_tangents:
        result.meta.tangents = node._meta.output_tangents[index]
    return result


class HiddenNode(Node):
    """The node of a hidden result where backward is recorded: it hands a gradient on to the inputs of the operation that gave it.

    Args:
        node: the operation's node.
        name: the result's.
        array: its value.
    """

    __slots__ = ("rules",)
    frees = False

    def __init__(self, node: OpNode, name: str, array: Array) -> None:
        op: Op = node.op  # type: ignore[attr-defined]
        self.seq = next_seq()
        self.edges = node.edges
        rules = op.hidden[name]
        kept = dict(zip(node.saved_names, _values(node), strict=True))
        asked = {tensor: rule.__code__.co_varnames[1 : rule.__code__.co_argcount] for tensor, rule in rules.items()}
        self.rules = [rules.get(tensor) for tensor in op.tensors]
        self.saved = [[kept[each] for each in asked.get(tensor, ())] for tensor in op.tensors]  # no tensors
        self.shape, self.dtype = array.shape, array.dtype
        self._meta = None

    def run(self, g: Any) -> Any:
        return tuple(
            None if rule is None or edge is None else rule(g, *known)
            for rule, known, edge in zip(self.rules, self.saved, self.edges, strict=True)
        )

    run_recorded = run


def hidden_tensor(node: OpNode, array: Array, name: str) -> Any:
    """The Tensor that a hidden result of this node is, whose gradient goes on to the node's inputs; None where it was not kept."""
    if array is None:
        return None
    result = wrap(array)
    result._node = HiddenNode(node, name, array)
    return result

