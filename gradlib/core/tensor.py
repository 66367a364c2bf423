"""The Tensor: an array and its place in the graph, with the attributes and methods that torch's users expect.

The operations add their methods to this class where they are declared (``core/op.py``); here stands what is not an operation, and in
``core/of_array.py`` what follows from the array alone.
"""

from __future__ import annotations

import copy as copying
import sys
import threading
import warnings
import weakref
from collections.abc import Callable, Iterable
from typing import Any

import numpy as np

from gradlib.backend import array as arrays, dtype as dtypes
from gradlib.backend.array import Array
from gradlib.backend.copying import copy as array_copy
from gradlib.backend.device import resolve
from gradlib.backend.names import missing_attribute
from gradlib.backend.thread import call_users, kept_at_fork
from gradlib.core.modes import global_state, next_seq, refuse_in_transform, thread_state
from gradlib.core.node import Born, Detached, Node, Output, RemovableHandle, TensorMeta, Version, add_hook, making
from gradlib.core.of_array import OfArray, Size as Size
from gradlib.core.writes import add

_accumulating = kept_at_fork(threading.RLock())

_FLAG_OF_LEAVES = "you can only change requires_grad flags of leaf variables."
_DETACH_INSTEAD = (
    " If you want to use a computed variable in a subgraph that doesn't require differentiation use var_no_grad = var.detach()."
)


class AccumulateGrad(Node):
    """The end of the graph at a leaf: adds each gradient that arrives to ``.grad``. Source: torch's AccumulateGrad and its layout rules.

    It shares ``leaf_meta`` (where the gradient is kept) with its leaf and holds the leaf itself weakly, so the two form no cycle.
    """

    __slots__ = ("_leaf", "array", "leaf_meta")

    def __init__(self, leaf: Any) -> None:
        self._leaf = weakref.ref(leaf)
        self.array: Array = leaf._array
        self.leaf_meta: TensorMeta = leaf.meta
        self.edges = ()
        self.saved = None
        self.seq = next_seq()
        self.shape = self.array.shape
        self.dtype = self.array.dtype
        self._meta = None

    @property
    def variable(self) -> Any:
        """The leaf tensor whose gradient this node accumulates."""
        leaf = self._leaf()
        if leaf is None:
            leaf = wrap(self.array)
            leaf._meta = self.leaf_meta
            leaf._node = self
            self._leaf = weakref.ref(leaf)
        return leaf

    def __call__(self, *grads: Any) -> tuple[()]:
        """Accumulate a gradient (a Tensor, or None) outside any walk."""
        if len(grads) != 1:
            raise TypeError(f"expected 1 arguments, got {len(grads)} instead")
        if grads[0] is not None and not hasattr(grads[0], "_array"):
            raise TypeError(f"argument 0 is not a Variable, got {type(grads[0]).__name__}")
        if grads[0] is not None:
            self.accumulate_recorded(grads[0]) if thread_state.grad_enabled else self.accumulate(grads[0]._array, False)
        return ()

    def __lt__(self, other: Node) -> bool:
        """Order for a heap of nodes, in which two leaves with one last user have one number: either may come first."""
        return False

    def accumulate(self, g: Array, unshared: bool) -> None:
        """Add a raw gradient in place; the first one is taken over when nothing else holds it and its layout fits."""
        leaf, meta = self._leaf(), self.leaf_meta
        with _accumulating:
            if leaf is not None and leaf._node is None:
                pass  # it wants no gradient any more
            elif meta.grad is None:
                meta.grad = wrap(g if unshared and self._fits(g) else self._laid_out(g))
            else:
                add(meta.grad, g, "backward's addition to .grad")
        if meta.accumulated_hooks:
            self._run_hooks()

    def accumulate_recorded(self, g: Any) -> None:
        """Replace ``.grad`` by its differentiable sum with the gradient that arrived; the first one is copied, in the leaf's layout."""
        leaf = self._leaf()
        with _accumulating:
            if leaf is not None and leaf._node is None:
                pass
            elif self.leaf_meta.grad is None:
                first = self.leaf_meta.grad = g.clone()
                if not self._fits(first._array):
                    first._array = self._laid_out(first._array)
            else:
                self.leaf_meta.grad = self.leaf_meta.grad + g
        if self.leaf_meta.accumulated_hooks:
            self._run_hooks()

    def _run_hooks(self) -> None:
        for hook in tuple((self.leaf_meta.accumulated_hooks or {}).values()):
            answer = call_users(hook, self.variable)
            if answer is None or answer is self.variable:
                continue
            if not hasattr(answer, "_array"):
                raise TypeError(f"expected Variable, but hook returned '{type(answer).__name__}': a post accumulate grad hook returns None")
            raise RuntimeError("Tensor post accumulate grad hooks should return None.")

    def _fits(self, g: Array) -> bool:
        if not hasattr(g, "base") or g.base is not None:
            return False
        flags = g.flags
        if type(g) is np.ndarray and not flags.writeable:
            return False
        if flags.c_contiguous and g.strides == self.array.strides:
            return True
        return g.strides == self.array.strides if arrays.is_dense(self.array) else g.flags.c_contiguous

    def _laid_out(self, g: Array) -> Array:
        """A copy of g with the leaf's strides when the leaf is dense, else row-major."""
        xp = arrays.namespace(self.array)
        with arrays.on_device_of(self.array):
            if g.shape == () or self.array.flags.c_contiguous or not arrays.is_dense(self.array):
                return xp.array(g, dtype=self.dtype, order="C", copy=True)
            result = xp.empty_like(self.array, order="K")
            result[...] = g
            return array_copy(result) if result.strides != self.array.strides else result


class Tensor(OfArray):
    """An n-dimensional array that records what is computed from it. Made by ``gradlib.tensor`` and friends.

    Attributes of your own, such as ``p.no_decay = True``, stay with this object and its copies; what operations make of it has none.

    Args:
        data: an array or Tensor, whose memory it shares, or numbers, which become the default dtype. ``gradlib.tensor`` says more.
    Source: torch.Tensor.
    Example:
        >>> x = gradlib.tensor([1.0, 2.0], requires_grad=True)
        >>> (x * x).sum().backward()
        >>> x.grad
        tensor([2., 4.])
    """

    __slots__ = ("__dict__", "__weakref__", "_array", "_float", "_meta", "_node", "_version_slot")
    __array_priority__: float = 1000.0  # other libraries leave mixed expressions to the operators here; NumPy asks __array_ufunc__

    _array: Array
    _float: np.dtype[Any] | None  # the array's dtype, once a fast path has found the array to be NumPy's, of float32 or float64
    _node: Node | None  # None: no gradient; AccumulateGrad: a leaf; Output or another node: made by an operation
    _meta: TensorMeta | None
    _version_slot: Version | None

    def __new__(cls, data: Any = (), *sizes: int) -> Tensor:
        if isinstance(data, Tensor) and data._logical:
            return data.detach()
        self = object.__new__(cls)
        array = data._array if isinstance(data, Tensor) else data
        if sizes or type(data) in (int, Size):  # torch's older spelling of empty
            array = np.empty((data, *sizes) if type(data) is int else data, dtypes.get_default_dtype())
        elif not arrays.is_array(array):
            array = np.array(array, dtype=dtypes.get_default_dtype())
        fill(self, array)
        return self

    def storage_offset(self) -> int:
        """The number of elements of its storage before it begins. Source: torch.Tensor.storage_offset."""
        storage = self._storage()
        return 0 if storage is self._array else int(arrays.address(self._array) - arrays.address(storage)) // self._array.itemsize

    def _storage(self) -> Array:
        """The array that holds its memory: its base's where it is a view, or was detached from one, unless ``.data`` gave either other."""
        meta = self._meta
        if meta is None:
            return self._array
        storage = meta.view.base._storage() if meta.storage is None and meta.view is not None else meta.storage
        return self._array if storage is None or not arrays.is_view_of(self._array, storage) else storage

    _inference = False
    _logical = False  # of vmap's logical tensors True: their array is that of one example

    def is_inference(self) -> bool:
        """Whether it was made in inference mode. Source: torch.Tensor.is_inference."""
        return self._inference

    # ---- its place in the graph -------------------------------------------------------------------------------------------

    @property
    def meta(self) -> TensorMeta:
        """The tensor's metadata (gradient, hooks, base), made at first use. For gradlib's own code."""
        meta = self._meta
        if meta is None or type(meta) is Born:
            with making:
                meta = self._meta
                if meta is None or type(meta) is Born:
                    own = TensorMeta()
                    if meta is not None:
                        own.born = meta.born
                    self._meta = meta = own
        return meta

    @property
    def version(self) -> Version:
        """The version counter of the storage, made on first use and made known to the node that may have saved this output."""
        if self._version_slot is None:
            with making:
                if self._version_slot is None:
                    counter, index = Version(), 0
                    node = self._node
                    if isinstance(node, Output):
                        index, node = node.index, node.parent
                    if node is not None and node.keeps_outputs:
                        counter = node.meta.output_versions.setdefault(index, counter)
                    self._version_slot = counter
        return self._version_slot

    @property
    def _version(self) -> int:
        """The number of writes in place to the storage."""
        return 0 if self._version_slot is None else self._version_slot.count

    @property
    def requires_grad(self) -> bool:
        """Whether gradients for it are wanted, so that operations on it are recorded. Source: torch.Tensor.requires_grad."""
        return self._node is not None

    @requires_grad.setter
    def requires_grad(self, value: bool) -> None:
        if type(value) is not bool:
            raise RuntimeError(f"requires_grad must be a bool, got {type(value).__name__}")
        if not self.is_leaf:
            raise RuntimeError(_FLAG_OF_LEAVES if value else f"{_FLAG_OF_LEAVES}{_DETACH_INSTEAD}")
        self.want_grad(value)

    def requires_grad_(self, requires_grad: bool = True) -> Tensor:
        """Say whether gradients for this leaf are wanted, in place.

        Returns: this tensor.
        Raises: RuntimeError for integers and bools, when switching it off for a tensor that an operation made, and inside a function that
            ``vmap``, ``func.grad`` or their like run.
        Source: torch.Tensor.requires_grad_.
        """
        refuse_in_transform("requires_grad_")
        if type(requires_grad) is not bool:
            raise TypeError(f"requires_grad_(): argument 'requires_grad' (position 1) must be bool, not {type(requires_grad).__name__}")
        return self.want_grad(requires_grad)

    def want_grad(self, requires_grad: bool = True) -> Tensor:
        """``requires_grad_`` without the check that no transform runs."""
        if requires_grad == (self._node is not None):
            return self
        if requires_grad:
            if not dtypes.is_differentiable(self._array.dtype):
                raise RuntimeError(
                    "only Tensors of floating point and complex dtype can require gradients, "
                    f"got dtype {self._array.dtype}; convert it first, for example with .float()"
                )
            self._node = AccumulateGrad(self)
        elif not self.is_leaf:
            raise RuntimeError(f"{_FLAG_OF_LEAVES}{_DETACH_INSTEAD}")
        else:
            self._node = None
        return self

    @property
    def is_leaf(self) -> bool:
        """Whether no recorded operation made it. Source: torch.Tensor.is_leaf."""
        return self._node is None or isinstance(self._node, AccumulateGrad)

    @property
    def grad_fn(self) -> Node | None:
        """The node that made this tensor; None for a leaf."""
        node = self._node
        if isinstance(node, Output):
            return node.parent.public
        return None if node is None or isinstance(node, AccumulateGrad) else node.public

    @property
    def output_nr(self) -> int:
        """Its index among the results of its node. Source: torch.Tensor.output_nr."""
        return self._node.index if isinstance(self._node, Output) else 0

    @property
    def retains_grad(self) -> bool:
        """Whether ``retain_grad`` was called on it and it is no leaf. Source: torch.Tensor.retains_grad."""
        return not self.is_leaf and self._meta is not None and self._meta.retains_grad

    @property
    def grad(self) -> Tensor | None:
        """The accumulated gradient of a leaf, or of a tensor that called ``retain_grad``. Source: torch.Tensor.grad."""
        meta = self._meta
        if meta is not None and (meta.grad is not None or meta.retains_grad):
            return meta.grad
        if not self.is_leaf:
            warnings.warn(
                "The .grad attribute of a Tensor that is not a leaf Tensor is being accessed. Its .grad attribute won't be populated "
                "during autograd.backward(). If you indeed want the .grad field to be populated for a non-leaf Tensor, use "
                ".retain_grad() on the non-leaf Tensor.",
                UserWarning,
                stacklevel=2,
            )
        return None

    @grad.setter
    def grad(self, value: Tensor | None) -> None:
        if value is not None:
            if not isinstance(value, Tensor):
                raise TypeError(f"assigned grad expected to be a Tensor or None but got {type(value).__name__}")
            if value is self:
                raise RuntimeError("can't assign Variable as its own grad")
            mine, its = self._array, value._array
            if mine.shape != its.shape or mine.dtype != its.dtype or self.device != value.device:
                raise RuntimeError(
                    f"assigned grad has shape {list(its.shape)}, dtype {its.dtype} on {value.device}, but the tensor has shape "
                    f"{list(mine.shape)}, dtype {mine.dtype} on {self.device}"
                )
        self.meta.grad = value

    @grad.deleter
    def grad(self) -> None:
        self.grad = None

    @property
    def data(self) -> Tensor:
        """The same memory, outside the graph and without a shared version counter. Prefer ``detach()``. Source: torch.Tensor.data."""
        return alias(self, self._array)

    @data.setter
    def data(self, value: Tensor) -> None:
        if not isinstance(value, Tensor):
            raise TypeError(f"Variable data has to be a tensor, but got {type(value).__name__}")
        if self._node is not None and not dtypes.is_differentiable(value._array.dtype):
            raise RuntimeError(
                "data set to a tensor that requires gradients must be floating point or complex dtype, got "
                f"{value._array.dtype}; convert it first, for example with .float()"
            )
        self._array = value._array
        if self._meta is not None or value._meta is not None:
            self.meta.storage = value._storage()
        self._float = None  # its dtype may be another one now
        if isinstance(self._node, AccumulateGrad):
            self._node.array = value._array
            self._node.shape, self._node.dtype = value._array.shape, value._array.dtype

    @data.deleter
    def data(self) -> None:
        raise RuntimeError("Deleting tensor data is not allowed. Delete tensor instead!")

    def detach(self) -> Tensor:
        """A tensor of the same memory outside the graph. A write to one changes the other; they share the version counter.

        Source: torch.Tensor.detach.
        """
        result = alias(self, self._array)
        result._version_slot = self.version
        return result

    def detach_(self) -> Tensor:
        """Take this tensor out of the graph that made it, in place; it becomes a leaf that wants no gradient."""
        if self._base is not None:
            raise RuntimeError("Can't detach views in-place. Use detach() instead.")
        if not self.is_leaf:
            self._version_slot = Detached(self.version)
        self._node = None
        if self._meta is not None:
            self._meta.retains_grad = False
            self._meta.tangents = None
        return self

    @property
    def _base(self) -> Tensor | None:
        """The tensor whose storage this one is a view of."""
        return None if self._meta is None or self._meta.view is None else self._meta.view.base

    def _is_view(self) -> bool:
        return self._base is not None

    def retain_grad(self) -> None:
        """Keep the gradient of this non-leaf tensor in ``.grad`` too. Source: torch.Tensor.retain_grad."""
        refuse_in_transform("retain_grad")
        if self._node is None:
            raise RuntimeError("can't retain_grad on Tensor that has requires_grad=False")
        if self.is_leaf or self.meta.retains_grad:
            return
        self.meta.retains_grad = True
        self._node.meta.retain = self.meta

    def register_hook(self, hook: Callable[[Tensor], Tensor | None]) -> RemovableHandle:
        """Call ``hook(grad)`` whenever the gradient with respect to this tensor is computed; a returned Tensor replaces it.

        Args:
            hook: takes the gradient (this tensor's shape and dtype), must not write it, may return a new one.
        Returns: a handle whose ``remove()`` takes the hook away.
        Raises: RuntimeError when the tensor does not require a gradient.
        Source: torch.Tensor.register_hook.
        """
        if self._node is None:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        return add_hook(self._node.tensor_hooks(), hook)

    def register_post_accumulate_grad_hook(self, hook: Callable[[Tensor], None]) -> RemovableHandle:
        """Call ``hook(leaf)`` after backward has added to this leaf's ``.grad``.

        Source: torch.Tensor.register_post_accumulate_grad_hook.
        """
        if self._node is None:
            raise RuntimeError("cannot register a hook on a tensor that doesn't require gradient")
        if not self.is_leaf:
            raise RuntimeError("post accumulate grad hooks cannot be registered on non-leaf tensors")
        if self.meta.accumulated_hooks is None:
            self.meta.accumulated_hooks = {}
        global_state.hooked.add(weakref.ref(self._node, global_state.hooked.discard))
        return add_hook(self.meta.accumulated_hooks, hook)

    def __hash__(self) -> int:
        return id(self)

    def __repr__(self) -> str:
        from gradlib.core.repr import describe

        return describe(self)

    # ---- copies of the object ---------------------------------------------------------------------------------------------

    def __copy__(self) -> Tensor:
        """A leaf of the same memory, with the user's attributes and without gradient; they share the version counter."""
        result = _of_class(type(self), self._array)
        result._version_slot = self.version
        vars(result).update(vars(self))
        return result.requires_grad_(self.requires_grad)

    def __deepcopy__(self, memo: dict[int, Any]) -> Tensor:
        if not self.is_leaf:
            raise RuntimeError(
                "Only Tensors created explicitly by the user (graph leaves) support the deepcopy protocol at the moment. "
                "Use x.detach().clone() for a copy outside the graph."
            )
        if id(self) in memo:
            return memo[id(self)]
        result = memo[id(self)] = self._copy_in_storage(memo)
        result.requires_grad_(self.requires_grad)
        if self._meta is not None and self._meta.grad is not None:
            result.grad = copying.deepcopy(self._meta.grad, memo)
        vars(result).update(copying.deepcopy(vars(self), memo))
        return result

    def _copy_in_storage(self, memo: dict[Any, Any]) -> Tensor:
        """A leaf in a copy of its storage, of which ``memo`` has one for all tensors of that storage: views and aliases stay such."""
        array, storage = self._array, self._storage()
        if not arrays.is_dense(storage):  # a user's array with gaps, whose copy has none
            return _of_class(type(self), array_copy(array))
        key = (Tensor, id(storage))
        if key not in memo:
            memo[key] = wrap(array_copy(storage)), storage  # the storage too, so that its id stays its own
        whole, _ = memo[key]
        if storage is array:
            result = _of_class(type(self), whole._array)
        else:
            start = arrays.address(array) - arrays.address(storage)
            result = _of_class(type(self), arrays.strided(whole._array, array.shape, array.strides, start, array.dtype))
            result.meta.storage = whole._array
        result._version_slot = whole.version
        return result

    def __reduce_ex__(self, protocol: Any) -> Any:
        """A leaf with the same values, layout and attributes of the user's, without gradient and hooks."""
        if self._node is not None and self._node._meta is not None and self._node._meta.gradient_hooks:
            for hook in self._node._meta.gradient_hooks.values():
                warnings.warn(f"backward hook {hook!r} on tensor will not be serialized.", UserWarning, stacklevel=2)
        order = tuple(int(axis) for axis in np.argsort([-abs(step) for step in self._array.strides], kind="stable"))
        stored = np.asarray(arrays.move(self._array, None).transpose(order), order="C")  # ascontiguousarray gives one dimension to none
        cls = Tensor if type(self) is InferenceTensor else type(self)
        return _unpickle, (cls, stored, order, str(self.device), self.requires_grad), vars(self) or None


if sys.version_info >= (3, 12):  # before, a class with __getattr__ looks up every attribute more slowly: 4 % of a small operation
    setattr(Tensor, "__getattr__", missing_attribute)  # noqa: B010  (an assignment would contradict the declaration above)


def publish(function: Any, *names: str) -> None:
    """Make a function a method of Tensor under these names, or a property or another descriptor one of its attributes."""
    for each in names:
        setattr(Tensor, each, function)


class InferenceTensor(Tensor):
    """A tensor made in inference mode. Its own class, so that the fast path, which serves exactly ``Tensor``, never meets one."""

    __slots__ = ()
    _inference = True

    @property
    def _version(self) -> int:
        raise RuntimeError("Inference tensors do not track version counter.")

    def want_grad(self, requires_grad: bool = True) -> Tensor:
        if requires_grad and not thread_state.inference:
            raise RuntimeError("Setting requires_grad=True on inference tensor outside InferenceMode is not allowed.")
        return super().want_grad(requires_grad)


def _unpickle(cls: type[Tensor], array: np.ndarray, order: tuple[int, ...], place: str, requires_grad: bool) -> Tensor:
    array = array.astype(dtypes.as_dtype(array.dtype))
    return _of_class(cls, arrays.move(array, resolve(place)).transpose(np.argsort(order).tolist())).want_grad(requires_grad)


def _of_class(cls: type[Tensor], array: Array) -> Tensor:
    """A Tensor of that class outside any graph; of Tensor itself, an inference tensor exactly if inference mode is on."""
    return wrap(array) if cls is Tensor or cls is InferenceTensor else fill(object.__new__(cls), array)


def fill(tensor: Tensor, array: Array) -> Tensor:
    """Set up a new tensor object around an array, outside any graph."""
    tensor._array = array
    tensor._float = tensor._node = None
    tensor._meta = global_state.born
    tensor._version_slot = None
    return tensor


_new = object.__new__
_wrapped: set[type] = {np.ndarray}
"""The classes of arrays that Tensors were made around."""


def wrap(array: Array) -> Tensor:
    """A Tensor around an array (not copied), outside any graph. NumPy's scalars become 0-d arrays."""
    tensor = _new(InferenceTensor if global_state.active and thread_state.inference else Tensor)
    if type(array) not in _wrapped:
        array = as_array(array)
        _wrapped.add(type(array))
    tensor._array = array
    tensor._float = tensor._node = None
    tensor._meta = global_state.born
    tensor._version_slot = None
    return tensor


def wrap_all(several: Iterable[Array]) -> list[Tensor]:
    """``wrap`` of each."""
    cls = InferenceTensor if global_state.active and thread_state.inference else Tensor
    tensors = []
    for array in several:
        if type(array) not in _wrapped:
            array = as_array(array)
            _wrapped.add(type(array))
        tensor = _new(cls)
        tensor._array = array
        tensor._float = tensor._node = None
        tensor._meta = global_state.born
        tensor._version_slot = None
        tensors.append(tensor)
    return tensors


def alias(source: Tensor, array: Array) -> Tensor:
    """A Tensor around memory of another one, outside any graph; made in inference mode only if that was."""
    made = fill(_new(InferenceTensor if isinstance(source, InferenceTensor) else Tensor), array)
    mark_alias(source, made)
    return made


def mark_alias(source: Tensor, made: Tensor) -> None:
    """Let a tensor around memory of another one, outside any graph, know when that was made and whose storage it is."""
    made._meta = None if global_state.born is None else Born(born(source))
    meta = source._meta
    if meta is not None and (meta.view is not None or meta.storage is not None):
        made.meta.storage = source._storage()


def born(tensor: Tensor) -> int:
    """The sequence number at which the transform began that made a tensor's memory, or passed it to its function; 0 for none."""
    meta = tensor._meta
    view = None if meta is None else meta.view
    while view is not None:
        if view.since:
            return int(view.since)
        meta, view = view.base._meta, view.parent
    return 0 if meta is None else meta.born


def as_array(value: Any) -> Array:
    """A 0-d array for the scalar that NumPy returns where an operation gives a single number; any array as it is."""
    if type(value) is np.ndarray:
        return value
    if isinstance(value, np.generic):
        return np.asarray(value)
    return value if type(value) is arrays.device_array() or arrays.is_array(value) else np.asarray(value)


def raw(value: Any) -> Any:
    """The array inside a Tensor; anything else as it is."""
    return value._array if isinstance(value, Tensor) else value
