"""The array type: CuPy's methods, none of NumPy's conveniences."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

import cupy
from cupy import _door, _memory, _order
from cupy._door import lifted, run

_ADVICE = "Implicit conversion to a NumPy array is not allowed. Please use `.get()` to construct a NumPy array explicitly."


class Flags:
    """What CuPy tells of an array's memory layout; there is no ``writeable``."""

    def __init__(self, view: np.ndarray, owner: bool) -> None:
        self.c_contiguous, self.f_contiguous, self.owndata = view.flags.c_contiguous, view.flags.f_contiguous, owner
        self.fnc = view.flags.fnc
        self.forc = view.flags.forc

    def __getitem__(self, name: str) -> bool:
        return getattr(self, {"C": "c_contiguous", "F": "f_contiguous", "O": "owndata"}.get(name, name.lower()))


class ndarray:
    """An array in device memory."""

    __array_priority__ = 100
    __hash__ = None  # type: ignore[assignment]

    def __init__(self, shape: Any, dtype: Any = float, memptr: Any = None, strides: Any = None, order: str = "C") -> None:
        dtype = _door.supported(dtype)
        if memptr is None:
            made = _door.empty(shape, dtype, order)
            self._view, self.data, self.base = made._view, made.data, None
            return
        shape = (shape,) if isinstance(shape, int) else tuple(shape)
        block, offset = memptr.mem.block, memptr.ptr - memptr.mem.ptr
        self._view = np.ndarray(shape, dtype, block.bytes, block.offset + offset, strides, order)
        self.data, self.base = memptr, None

    @classmethod
    def _of(cls, view: np.ndarray, pointer: _memory.MemoryPointer, base: ndarray | None) -> ndarray:
        made = cls.__new__(cls)
        made._view, made.data = view, pointer
        made.base = None if base is None else base if base.base is None else base.base
        return made

    # ---- what it is ------------------------------------------------------------------------------------------------------------

    dtype = property(lambda self: self._view.dtype)
    strides = property(lambda self: self._view.strides)
    size = property(lambda self: self._view.size)
    ndim = property(lambda self: self._view.ndim)
    itemsize = property(lambda self: self._view.itemsize)
    nbytes = property(lambda self: self._view.nbytes)
    flags = property(lambda self: Flags(self._view, self.base is None))
    device = property(lambda self: _memory.Device(self.data.device_id))

    @property
    def shape(self) -> tuple[int, ...]:
        return self._view.shape

    @shape.setter
    def shape(self, new: Any) -> None:
        self._view = self._view.reshape(new, copy=False)

    @property
    def T(self) -> ndarray:
        return self.transpose()

    @property
    def mT(self) -> ndarray:
        return self.swapaxes(-1, -2)

    @property
    def real(self) -> ndarray:
        return run(lambda view: view.real, self) if self.dtype.kind == "c" else self

    @real.setter
    def real(self, value: Any) -> None:
        self.real[...] = value

    @property
    def imag(self) -> ndarray:
        return run(lambda view: view.imag, self) if self.dtype.kind == "c" else cupy.zeros_like(self)

    @imag.setter
    def imag(self, value: Any) -> None:
        if self.dtype.kind != "c":
            raise TypeError("cannot set imag of an array that is not complex")
        self.imag[...] = value

    @property
    def flat(self) -> Any:
        raise _order.Hazard("cupy.flatiter reads one element at a time; use ravel()")

    @property
    def __cuda_array_interface__(self) -> dict[str, Any]:
        return {
            "shape": self.shape,
            "typestr": self.dtype.str,
            "descr": self.dtype.descr,
            "data": (self.data.ptr, False),
            "strides": None if self._view.flags.c_contiguous else self.strides,
            "version": 3,
            "stream": _order.current_stream().ptr or 1,
        }

    def __repr__(self) -> str:
        return repr(self.get())

    def __str__(self) -> str:
        return str(self.get())

    def __len__(self) -> int:
        return len(self._view)

    def __iter__(self) -> Iterator[ndarray]:
        if self.ndim == 0:
            raise TypeError("iteration over a 0-d array")
        return (self[i] for i in range(len(self)))

    # ---- to the host -----------------------------------------------------------------------------------------------------------

    def __array__(self, dtype: Any = None, copy: Any = None) -> Any:
        raise TypeError(_ADVICE)

    def get(self, stream: Any = None, order: str = "C", out: Any = None, blocking: bool = True) -> np.ndarray:
        if out is not None and (out.shape != self.shape or out.dtype != self.dtype or not out.flags.c_contiguous):
            raise ValueError(f"out is contiguous, {self.dtype}, of shape {self.shape}; got {out.dtype} of shape {out.shape}")
        if blocking:
            values = np.array(_door.fetch(self, "get"), order=order)  # type: ignore[call-overload]
            if out is not None:
                out[...] = values
            return values if out is None else out
        out = np.empty(self.shape, self.dtype) if out is None else out
        with self.device, stream or _order.current_stream(self.data.device_id) as used:
            stamp = used._enqueue()
            _door.note(self, False, stamp)
        _order.LateCopy(out, self._view, stamp)
        return out

    def set(self, arr: np.ndarray, stream: Any = None) -> None:
        if not isinstance(arr, np.ndarray):
            raise TypeError("Only numpy.ndarray can be set to cupy.ndarray")
        if arr.shape != self.shape or arr.dtype != self.dtype:
            raise ValueError(f"Shape or dtype mismatch: {arr.dtype} {arr.shape}, {self.dtype} {self.shape}")
        with self.device, stream or _order.current_stream(self.data.device_id):
            _order.reads_host(arr)
            _door.to_device["set"] += 1
            _door.note(self, write=True)
            self._view[...] = arr

    def item(self) -> Any:
        return _door.fetch(self, "item").item()

    def tolist(self) -> Any:
        return _door.fetch(self, "tolist").tolist()

    def tobytes(self, order: str = "C") -> bytes:
        return _door.fetch(self, "tobytes").tobytes(order)  # type: ignore[arg-type]

    def __bool__(self) -> bool:
        return bool(_door.fetch(self, "bool"))

    def __int__(self) -> int:
        return int(_door.fetch(self, "int"))

    def __float__(self) -> float:
        return float(_door.fetch(self, "float"))

    def __complex__(self) -> complex:
        return complex(_door.fetch(self, "complex"))

    def __reduce__(self) -> Any:
        return cupy.array, (_door.fetch(self, "pickle"),)

    def __copy__(self) -> ndarray:
        return self.copy()

    def __deepcopy__(self, memo: Any) -> ndarray:
        with self.device:
            return self.copy()

    # ---- NumPy's functions on it ------------------------------------------------------------------------------------------------

    def __array_ufunc__(self, ufunc: np.ufunc, method: str, *inputs: Any, **options: Any) -> Any:
        function = getattr(cupy, ufunc.__name__, None)
        if function is None or method != "__call__":
            return NotImplemented
        if "out" in options and isinstance(options["out"], tuple):
            options["out"] = options["out"][0]
        return function(*inputs, **options)

    def __array_function__(self, func: Any, types: Any, args: Any, kwargs: Any) -> Any:
        module: Any = cupy
        for part in func.__module__.split(".")[1:]:
            module = getattr(module, part, None)
        function = getattr(module, func.__name__, None)
        if function is None or not all(issubclass(kind, ndarray) for kind in types):
            return NotImplemented
        return function(*args, **kwargs)

    # ---- elements ---------------------------------------------------------------------------------------------------------------

    def __getitem__(self, slices: Any) -> ndarray:
        _waits_for_mask(slices)
        return run(_indexed, self, _key(slices))

    def __setitem__(self, slices: Any, value: Any) -> None:
        if not isinstance(value, (ndarray, np.generic, bool, int, float, complex)):
            raise TypeError(f"Unsupported type {type(value)}")
        _waits_for_mask(slices)
        run(_assign, self, _key(slices), value, out=self)

    def fill(self, value: Any) -> None:
        self[...] = value

    # ---- methods, with CuPy's signatures ------------------------------------------------------------------------------------------

    def view(self, dtype: Any = None, type: Any = None) -> ndarray:
        return run(lambda view: view[...] if dtype is None else view.view(_door.supported(dtype)), self)

    def astype(self, dtype: Any, order: str = "K", casting: Any = None, subok: Any = None, copy: bool = True) -> ndarray:
        dtype = _door.supported(dtype)
        if not copy and dtype == self.dtype and order == "K":
            return self
        with np.errstate(all="ignore"):
            return self._fresh(lambda view: view.astype(dtype, casting=casting or "unsafe"), order)

    def copy(self, order: str = "C") -> ndarray:
        """A copy on the current device, wherever the array lies."""
        if self.data.device_id != _order.here.device:
            return cupy.array(self, order=order)
        return self._fresh(lambda view: view, order)

    def _fresh(self, function: Any, order: str) -> ndarray:
        seen: list[Any] = []
        view = _door.lower(self, seen)
        _door.note(self, write=False)
        return _door.fresh(function(view), {"A": "F" if self.flags.fnc else "C"}.get(order, order))

    def reshape(self, *shape: Any, order: str = "C", copy: Any = None) -> ndarray:
        return run(lambda view: view.reshape(*shape, order=order), self)

    def transpose(self, *axes: Any) -> ndarray:
        if len(axes) == 1 and axes[0] is not None and not isinstance(axes[0], int):
            axes = tuple(int(axis) for axis in axes[0])
        return run(lambda view: view.transpose(*axes), self)

    def ravel(self, order: str = "C") -> ndarray:
        return run(lambda view: view.ravel(order), self)

    def flatten(self, order: str = "C") -> ndarray:
        return run(lambda view: view.flatten(order), self)

    def squeeze(self, axis: Any = None) -> ndarray:
        return run(lambda view: view.squeeze(axis), self)

    def swapaxes(self, axis1: int, axis2: int) -> ndarray:
        return run(lambda view: view.swapaxes(axis1, axis2), self)

    def conj(self) -> ndarray:
        return self.conjugate()

    def conjugate(self) -> ndarray:
        return cupy.conjugate(self) if self.dtype.kind == "c" else self

    def nonzero(self) -> tuple[ndarray, ...]:
        return cupy.nonzero(self)

    def sort(self, axis: int = -1, kind: Any = None) -> None:
        run(lambda view, out: out.sort(axis), self, out=self)

    def put(self, indices: Any, values: Any, mode: str = "wrap") -> None:
        run(lambda view, at, put, out: out.put(at, put, mode), self, indices, values, out=self)

    def scatter_add(self, slices: Any, value: Any) -> None:
        kinds = ("int32", "float16", "float32", "float64", "uint32", "uint64")
        if self.dtype.name not in kinds:
            raise TypeError(f"scatter_add only supports {', '.join(kinds)} as data type")
        run(_added, self, _key(slices), value, out=self)


def _key(slices: Any) -> Any:
    """An index as CuPy takes it: a NumPy array among the indices is copied to the device first."""
    if isinstance(slices, tuple):
        return tuple(_key(part) for part in slices)
    return cupy.array(slices) if isinstance(slices, (np.ndarray, list)) else slices


def _waits_for_mask(slices: Any) -> None:
    """Indexing with a mask makes the host wait for the number of its elements."""
    for part in slices if isinstance(slices, tuple) else (slices,):
        if isinstance(part, ndarray) and part.dtype == bool:
            _door.to_host["mask"] += 1


def _indexed(view: np.ndarray, key: Any) -> Any:
    """A view where NumPy gives one, and of a single element too, of which NumPy gives the number."""
    try:
        made = view[key]
        return view[(*key, ...) if isinstance(key, tuple) else (key, ...)] if isinstance(made, np.generic) else made
    except IndexError as error:
        raise _wrap(error, key) from error


def _assign(view: np.ndarray, key: Any, value: Any, out: np.ndarray) -> None:
    _apart(out, key, value)
    try:
        if 0 in out.strides:
            _door.written(out[key])
        with np.errstate(all="ignore"):
            out[key] = value
    except IndexError as error:
        raise _wrap(error, key) from error


def _added(view: np.ndarray, key: Any, value: Any, out: np.ndarray) -> None:
    _apart(out, key, value)
    np.add.at(out, key, value)


def _apart(out: np.ndarray, key: Any, value: Any) -> None:
    """Raises: Hazard where what is read lies in the memory that is written, and CuPy does not copy it first.

    Through index arrays it writes while it reads. Without any it queues one copy of memory where the layouts agree and the target is
    contiguous, whose ends may not overlap; every other assignment copies first.
    """
    arrays = [part for part in (key if isinstance(key, tuple) else (key,)) if isinstance(part, np.ndarray)]
    read = [each for each in (*arrays, value) if isinstance(each, np.ndarray) and each.size]
    if arrays:
        if any(np.may_share_memory(out, each) for each in read):
            raise _order.Hazard("values or index arrays lie in the memory that is written through index arrays")
    elif read and np.may_share_memory(target := _indexed(out, key), value):
        alike = target.shape == value.shape and target.strides == value.strides and target.dtype == value.dtype
        same = target.__array_interface__["data"] == value.__array_interface__["data"]  # copied to itself, as by `x[i] += y`
        if alike and not same and target.flags.c_contiguous:
            raise _order.Hazard(f"one copy of memory whose ends overlap: shape {value.shape}, strides {value.strides}")


def _wrap(error: IndexError, key: Any) -> Exception:
    """CuPy checks numbers in an index, but not the elements of an index array: they wrap around. Arrays that misfit are a ValueError."""
    parts = key if isinstance(key, tuple) else (key,)
    if "could not be broadcast" in str(error):
        return ValueError(str(error).replace("shape mismatch: indexing arrays", "operands"))
    if "out of bounds" in str(error) and any(isinstance(part, np.ndarray) for part in parts):
        return _order.Hazard(f"{error}; CuPy would wrap the index around without a word")
    return error


def _wrapping(host: Any) -> Any:
    """A NumPy function that takes an index array, of which CuPy does not check the elements."""

    def call(*args: Any, **named: Any) -> Any:
        try:
            return host(*args, **named)
        except IndexError as error:
            raise _wrap(error, args) from error

    return call


def _method(name: str, declared: Any, around: Any = lambda host: host) -> None:
    host = around(getattr(np.ndarray, name))
    declared.__name__ = name
    setattr(ndarray, name, lifted(host)(declared))


_method("all", lambda self, axis=None, out=None, keepdims=False: ...)
_method("any", lambda self, axis=None, out=None, keepdims=False: ...)
_method("argmax", lambda self, axis=None, out=None, dtype=None, keepdims=False: ...)
_method("argmin", lambda self, axis=None, out=None, dtype=None, keepdims=False: ...)
_method("argpartition", lambda self, kth, axis=-1: ...)
_method("argsort", lambda self, axis=-1, kind=None: ...)
_method("clip", lambda self, min=None, max=None, out=None: ...)
_method("cumprod", lambda self, axis=None, dtype=None, out=None: ...)
_method("cumsum", lambda self, axis=None, dtype=None, out=None: ...)
_method("diagonal", lambda self, offset=0, axis1=0, axis2=1: ...)
_method("dot", lambda self, b, out=None: ...)
_method("max", lambda self, axis=None, out=None, keepdims=False: ...)
_method("mean", lambda self, axis=None, dtype=None, out=None, keepdims=False: ...)
_method("min", lambda self, axis=None, out=None, keepdims=False: ...)
_method("prod", lambda self, axis=None, dtype=None, out=None, keepdims=None: ...)
_method("repeat", lambda self, repeats, axis=None: ...)
_method("round", lambda self, decimals=0, out=None: ...)
_method("std", lambda self, axis=None, dtype=None, out=None, ddof=0, keepdims=False: ...)
_method("sum", lambda self, axis=None, dtype=None, out=None, keepdims=False: ...)
_method("take", lambda self, indices, axis=None, out=None: ..., _wrapping)
_method("trace", lambda self, offset=0, axis1=0, axis2=1, dtype=None, out=None: ...)
_method("var", lambda self, axis=None, dtype=None, out=None, ddof=0, keepdims=False: ...)


def _leaves(x: ndarray, y: Any) -> bool:
    """Whether an operator leaves an expression to the other operand: NEP 13, and a higher ``__array_priority__``."""
    if hasattr(y, "__array_ufunc__"):
        return y.__array_ufunc__ is None
    return getattr(y, "__array_priority__", 0) > x.__array_priority__


def _operator(name: str, function: str, swapped: bool = False, in_place: bool = False) -> None:
    def operator(self: ndarray, other: Any) -> Any:
        if _leaves(self, other):
            return NotImplemented
        called = getattr(cupy, function)
        return called(self, other, out=self) if in_place else called(other, self) if swapped else called(self, other)

    setattr(ndarray, f"__{name}__", operator)


for _name, _function in (
    ("add", "add"), ("sub", "subtract"), ("mul", "multiply"), ("truediv", "true_divide"), ("floordiv", "floor_divide"),
    ("mod", "remainder"), ("pow", "power"), ("lshift", "left_shift"), ("rshift", "right_shift"), ("and", "bitwise_and"),
    ("or", "bitwise_or"), ("xor", "bitwise_xor"), ("matmul", "matmul"),
):  # fmt: skip
    _operator(_name, _function)
    _operator(f"r{_name}", _function, swapped=True)
    if _name != "matmul":
        _operator(f"i{_name}", _function, in_place=True)
for _name, _function in (
    ("eq", "equal"), ("ne", "not_equal"), ("lt", "less"), ("le", "less_equal"), ("gt", "greater"), ("ge", "greater_equal"),
):  # fmt: skip
    _operator(_name, _function)
ndarray.__neg__ = lambda self: cupy.negative(self)  # type: ignore[attr-defined]
ndarray.__pos__ = lambda self: self.copy()  # type: ignore[attr-defined]
ndarray.__abs__ = lambda self: cupy.absolute(self)  # type: ignore[attr-defined]
ndarray.__invert__ = lambda self: cupy.invert(self)  # type: ignore[attr-defined]
ndarray.__divmod__ = lambda self, other: (self // other, self % other)  # type: ignore[attr-defined]
_door.ndarray = ndarray
