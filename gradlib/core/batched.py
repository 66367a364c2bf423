"""Batched tensors: to a function inside ``vmap`` they look like one example, while ``value`` holds the whole batch.

A ``Batched`` is the logical tensor: it has the shape of one example. Its ``value`` is the physical tensor, with the batch as first
dimension. Operations are recorded on physical tensors, so a logical tensor's node, version and tangents are its physical tensor's. Its
numbers differ from example to example and cannot be read: its array is that of the first example, guarded against it.

``Batched`` is a class of its own because the fast path serves exactly ``Tensor``.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NoReturn

import numpy as np

from gradlib.backend import array as arrays
from gradlib.backend.array import Array
from gradlib.backend.device import device
from gradlib.core.modes import Interpreter, lower
from gradlib.core.node import Node, RemovableHandle, Version
from gradlib.core.tensor import Size, Tensor

_SHAPED = frozenset((np.zeros_like, np.ones_like, np.empty_like, np.full_like, np.shape, np.ndim, np.size, np.result_type, np.can_cast))


def refuse_values() -> NoReturn:
    """Raise the error for reading the values of logical tensors."""
    raise RuntimeError(
        "vmap: the values of a Tensor that is batched over were needed where only its shape is known (NumPy's functions, .item(), "
        "control flow that depends on data). Use gradlib's operations, such as gradlib.where, on the Tensor itself."
    )


class Guarded(np.ndarray):
    """An array whose shape and dtype can be read; reading its values is an error."""

    def _refuse(self, *args: Any, **named: Any) -> NoReturn:
        refuse_values()

    def __array_ufunc__(self, *args: Any, **named: Any) -> NoReturn:
        self._refuse()

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        if func not in _SHAPED:
            self._refuse()
        plain = [a.view(np.ndarray) if isinstance(a, Guarded) else a for a in args]
        return func(*plain, **kwargs)

    def astype(self, dtype: Any, *args: Any, **named: Any) -> Any:
        return np.empty(self.shape, dtype).view(Guarded)

    __setitem__ = __bool__ = __int__ = __float__ = __complex__ = __index__ = _refuse
    argmax = argmin = argpartition = argsort = choose = compress = copy = cumsum = fill = item = nonzero = _refuse
    partition = put = searchsorted = sort = take = tobytes = tolist = repeat = _refuse


class _Memory:
    """Memory of which only the device is known."""

    def __init__(self, device_id: int) -> None:
        self.device_id = device_id

    def __getattr__(self, name: str) -> NoReturn:
        refuse_values()


_KNOWN = frozenset((
    "T", "_c_contiguous", "device", "dtype", "flags", "itemsize", "nbytes", "ndim", "shape", "size", "strides",
))  # fmt: skip
_MOVED = frozenset(("diagonal", "reshape", "squeeze", "swapaxes", "transpose", "view"))


class GuardedOnDevice:
    """The same of an array of CuPy's: it says that it is one, but CuPy's functions find no memory in it and refuse it.

    Args:
        array: the one whose shape, dtype and place it has.
    """

    def __init__(self, array: Array) -> None:
        self._guarded = array
        self.data = _Memory(array.data.device_id)

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        return arrays.device_array()

    def __getattr__(self, name: str) -> Any:
        if name in _MOVED:
            return lambda *args, **named: GuardedOnDevice(getattr(self._guarded, name)(*args, **named))
        if name not in _KNOWN:
            refuse_values()
        known = getattr(self._guarded, name)
        return GuardedOnDevice(known) if name == "T" else known

    def __len__(self) -> int:
        return len(self._guarded)

    def __getitem__(self, index: Any) -> Any:
        return GuardedOnDevice(self._guarded[index])

    def astype(self, dtype: Any, *args: Any, **named: Any) -> Any:
        return GuardedOnDevice(arrays.zeros(self.shape, np.dtype(dtype), self.data.device_id))

    def _refuse(self, *args: Any) -> NoReturn:
        refuse_values()

    __setitem__ = __bool__ = __int__ = __float__ = __complex__ = __index__ = _refuse
    __add__ = __radd__ = __sub__ = __rsub__ = __mul__ = __rmul__ = __truediv__ = __rtruediv__ = __neg__ = _refuse


class Batched(Tensor):
    """The logical tensor of ``value``, whose first dimension is that of the level's batch.

    ``dim_given`` is where an argument of vmap had that dimension: what a custom Function's own ``vmap`` is told.
    """

    __slots__ = ("dim_given", "level", "value")
    _logical = True

    level: VmapLevel
    value: Tensor
    dim_given: int

    def __new__(cls, level: VmapLevel, value: Tensor) -> Batched:
        self = object.__new__(cls)
        self.level = level
        self.value = value
        self.dim_given = 0
        return self

    def again(self, value: Tensor) -> Batched:
        """A logical tensor of the same level around another physical tensor."""
        return Batched(self.level, value)

    @property
    def _array(self) -> Array:
        physical = self.value._array
        example = physical[0] if physical.shape[0] else arrays.zeros(physical.shape[1:], physical.dtype, arrays.device_index(physical))
        return GuardedOnDevice(example) if arrays.is_cupy(example) else np.asarray(example).view(Guarded)

    @property
    def _node(self) -> Node | None:
        return self.value._node

    @_node.setter
    def _node(self, node: Node | None) -> None:
        self.value._node = node

    @property
    def _meta(self) -> Any:
        return self.value._meta

    @_meta.setter
    def _meta(self, meta: Any) -> None:
        self.value._meta = meta

    @property
    def _version_slot(self) -> Version | None:
        return self.value._version_slot

    @_version_slot.setter
    def _version_slot(self, counter: Version | None) -> None:
        self.value._version_slot = counter

    @property
    def version(self) -> Version:
        return self.value.version

    @property
    def shape(self) -> Size:
        return Size(self.value.shape[1:])

    @property
    def dtype(self) -> np.dtype:
        return self.value.dtype

    @property
    def ndim(self) -> int:
        return self.value.ndim - 1

    @property
    def device(self) -> device:
        return self.value.device

    @property
    def is_leaf(self) -> bool:
        return self.value.is_leaf

    @property
    def grad_fn(self) -> Node | None:
        return self.value.grad_fn

    @property  # type: ignore[misc]  # read only: what a logical tensor holds is the physical tensor's
    def grad(self) -> Tensor | None:
        held = self.value.grad
        return held if held is None else self.again(held)

    @property  # type: ignore[misc]
    def data(self) -> Tensor:
        return self.again(self.value.data)

    @property
    def _base(self) -> Tensor | None:
        base = self.value._base
        return base if base is None or base.shape[:1] != self.value.shape[:1] else self.again(base)

    def dim(self) -> int:
        return self.value.ndim - 1

    ndimension = dim

    def size(self, dim: int | None = None) -> Any:
        return self.shape if dim is None else self.shape[dim]

    @property
    def requires_grad(self) -> bool:
        return self.value.requires_grad

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if value != self.requires_grad:
            raise RuntimeError(
                "requires_grad of a Tensor that vmap batches over cannot be set: it would be set of the caller's. Set it outside vmap, or "
                "use func.grad inside it"
            )

    def want_grad(self, requires_grad: bool = True) -> Tensor:
        self.value.want_grad(requires_grad)
        return self

    def detach(self) -> Tensor:
        return self.again(self.value.detach())

    def detach_(self) -> Tensor:
        self.value.detach_()
        return self

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
        raise RuntimeError("register_hook: a hook cannot be put on a Tensor that vmap batches over; put it on the Tensor outside vmap")

    # ---- what reads values --------------------------------------------------------------------------------------------------

    def item(self) -> Any:
        raise RuntimeError(
            "vmap: It looks like you're calling .item() on a Tensor. We don't support vmap over calling .item() on a Tensor, please try "
            "to rewrite what you're doing with other operations."
        )

    def __bool__(self) -> bool:
        raise RuntimeError(
            "vmap: It looks like you're attempting to use a Tensor in some data-dependent control flow. We don't support that yet. Use "
            "gradlib.where, which computes both branches."
        )

    def __index__(self) -> int:
        return self.item()

    def __contains__(self, value: Any) -> bool:
        refuse_values()

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        refuse_values()

    def __dlpack__(self, **options: Any) -> Any:
        refuse_values()

    def numpy(self, *, force: bool = False) -> np.ndarray:
        raise RuntimeError("vmap: .numpy() on a Tensor that is batched over; its values are known only outside vmap")

    def tolist(self) -> Any:
        raise RuntimeError("vmap: .tolist() on a Tensor that is batched over; its values are known only outside vmap")

    def __repr__(self) -> str:
        inner = repr(self.value).replace("\n", "\n    ")
        return f"BatchedTensor(lvl={self.level.depth}, bdim=0, value=\n    {inner}\n)"

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        return self.again(self.value.__deepcopy__(memo))

    def __reduce_ex__(self, protocol: Any) -> Any:
        raise RuntimeError("a Tensor that vmap batches over cannot be pickled; return it from the function first")


class VmapLevel(Interpreter):
    """One level of vmap: while entered, operations on logical tensors are run on physical tensors.

    A level over values is above every level of forward mode, also of one that is entered later. So forward mode, like the graph, sees
    physical tensors only, with every intermediate result of a batching rule. A level over tangents or cotangents alone, which ``jacfwd``
    and ``jacrev`` need, is above those entered before it.

    Attributes:
        size: how many examples there are.
        depth: orders the levels by when they were entered; of those that a value is batched over, the deepest is the outermost wrapper.
        spreads: whether it batches values; one that does not batches tangents or cotangents alone.
        randomness: what random operations do: "error", "same" (one draw for all examples) or "different" (one for each example).
    """

    size: int
    randomness: str
    depth: int
    spreads: bool

    def draw(self, function: Callable[..., Any], args: tuple[Any, ...], named: dict[str, Any]) -> Any:
        """Run a function that draws random numbers, as ``randomness`` says."""
        raise NotImplementedError

    def gradients(
        self, outputs: tuple[Any, ...], inputs: tuple[Any, ...], cotangents: tuple[Any, ...], retain_graph: bool | None, create_graph: bool
    ) -> tuple[Tensor | None, ...]:
        """``autograd.grad`` of logical tensors, for values of which this is the deepest level: each example gets its own gradient."""
        raise NotImplementedError

    def holds(self, value: Any) -> bool:
        """Whether a value is a logical tensor at this level."""
        return type(value) is Batched and value.level is self

    def broadcast(self, value: Tensor) -> Tensor:
        """A value that is the same for every example, with the batch dimension in front."""
        return value.unsqueeze(0).expand((self.size, *value.shape))

    def physical(self, value: Tensor) -> Tensor:
        """The physical tensor of a logical one at this level, wherever the level stands among those that the value is batched over."""
        if type(value) is not Batched:
            return self.broadcast(value)
        if value.level is self:
            return value.value
        return value.again(self.physical(value.value).transpose(0, 1))

    def logical(self, value: Tensor) -> Tensor:
        """A physical tensor, with this level's batch in front, as a logical tensor: the inverse of ``physical``."""
        if type(value) is Batched and value.level.depth > self.depth:
            return value.again(self.logical(value.value.transpose(0, 1)))
        return Batched(self, value)


def is_batched_at(level: VmapLevel, value: Tensor) -> bool:
    """Whether a value is a logical tensor at this level, or a logical tensor of such ones."""
    while type(value) is Batched:
        if value.level is level:
            return True
        value = value.value
    return False


def levels_of(value: Any) -> list[VmapLevel]:
    """The levels that a value is batched over, the outermost wrapper first."""
    found = []
    while type(value) is Batched:
        found.append(value.level)
        value = value.value
    return found


def write_batched(target: Batched, compute: Callable[[Tensor], Tensor], write: Callable[..., Any], name: str, copies_input: bool) -> Tensor:
    """The in-place operations' ``write`` on a logical tensor: the physical tensor is written."""
    level = target.level

    def compute_all(physical: Tensor) -> Tensor:
        made = compute(Batched(level, physical))
        if not isinstance(made, Tensor):
            made = target.value.new_tensor(made)
        extra = target.ndim - made.ndim
        with lower(level):
            values = level.physical(made)
            if extra > 0:
                values = values.reshape((level.size, *(1,) * extra, *made.shape))
            return values

    write(target.value, compute_all, name, copies_input)
    return target


def refuse_batched(result: Any, name: str) -> None:
    """Refuse to write a result that differs from example to example into a tensor that all examples share."""
    if type(result) is Batched:
        raise RuntimeError(
            f"vmap: inplace arithmetic(self, *extra_args) is not possible because there exists a Tensor `other` in extra_args that has "
            f"more elements than `self`. This happened due to `other` being vmapped over but `self` not being vmapped over in a vmap. "
            f"Please try to use out-of-place operators instead of inplace arithmetic (in {name})."
        )


def broadcast_as(value: Tensor, like: Any, every: bool = False) -> Tensor:
    """A value as a logical tensor at each level (but those over tangents alone, unless ``every``) at which another value is one."""
    for level in reversed(levels_of(like)):
        if (every or level.spreads) and not is_batched_at(level, value):
            value = level.logical(level.broadcast(value))
    return value
