"""The functions of the namespace: each declared with CuPy's signature, done by the NumPy function of the same name."""

from __future__ import annotations

from typing import Any

import numpy as np

from cupy import _door, _memory, _order
from cupy._array import _wrapping, ndarray
from cupy._door import lifted, run

# ---- element by element ---------------------------------------------------------------------------------------------------------


class ufunc:
    """One of CuPy's universal functions: no ``where=``, no other keywords than these."""

    def __init__(self, host: np.ufunc, without: str = "", through_single: tuple[str, ...] = ()) -> None:
        """``without``: kinds of dtypes that CuPy has no loop for; ``through_single``: dtypes that its float32 loop takes."""
        self._host, self._without, self._through_single = host, without, through_single
        self.name, self.nin, self.nout, self.nargs = f"cupy_{host.__name__}", host.nin, host.nout, host.nargs
        self.__name__ = host.__name__

    def __repr__(self) -> str:
        return f"<ufunc {self.name!r}>"

    def __call__(self, *args: Any, out: Any = None, casting: str = "same_kind", dtype: Any = None) -> Any:
        if len(args) > self.nin:
            *args, out = args
        if len(args) != self.nin:
            raise TypeError(f"Wrong number of arguments for {self.name!r}. It must be {self.nin}, but given {len(args)}.")
        for given in args if self._without else ():
            if isinstance(given, ndarray) and given.dtype.kind in self._without:
                raise TypeError(f"Wrong type ({given.dtype}) of arguments for {self.name}")
        if self._through_single:
            args = tuple(a.astype("f") if isinstance(a, ndarray) and a.dtype.name in self._through_single else a for a in args)
        options = {"casting": casting, **({} if dtype is None else {"dtype": dtype}), **({} if out is None else {"out": out})}
        if isinstance(out, ndarray):
            _door.written(out._view)
        return run(_AS_CUPY_HAS_IT.get(self.__name__, self._host), *args, **options)

    def at(self, a: Any, indices: Any, b: Any = None) -> None:
        if self.name != "cupy_add":
            raise NotImplementedError(f"`{self.name}.at` is not supported yet")
        a.scatter_add(indices, b)

    def reduce(self, array: Any, axis: Any = 0, dtype: Any = None, out: Any = None, keepdims: bool = False) -> Any:
        if self._host not in (np.add, np.multiply):
            raise NotImplementedError(f"{self.name}.reduce is not implemented")
        options = {"axis": axis, "dtype": dtype, "keepdims": keepdims, **({} if out is None else {"out": out})}
        return run(self._host.reduce, array, **options)


_NAMES = """
    absolute add arccos arccosh arcsin arcsinh arctan arctan2 arctanh bitwise_and bitwise_or bitwise_xor cbrt ceil conjugate copysign
    cos cosh deg2rad divmod equal exp exp2 expm1 fabs floor floor_divide fmax fmin fmod frexp gcd greater greater_equal heaviside
    hypot invert isfinite isinf isnan lcm left_shift less less_equal log log10 log1p log2 logaddexp logaddexp2 logical_and
    logical_not logical_or logical_xor maximum minimum modf multiply negative nextafter not_equal positive power rad2deg reciprocal
    remainder right_shift rint sign signbit sin sinh sqrt square subtract tan tanh true_divide trunc
"""


def _floor_divide(x: Any, y: Any, out: Any = None, **options: Any) -> Any:
    """CuPy rounds the quotient of floats before it looks for the whole number below it."""
    if np.result_type(x, y).kind in "iub":
        return np.floor_divide(x, y, out, **options)
    return np.floor(np.true_divide(x, y, **options), out)


def _remainder(x: Any, y: Any, out: Any = None, **options: Any) -> Any:
    if np.result_type(x, y).kind in "iub":
        return np.remainder(x, y, out, **options)
    return np.subtract(x, np.floor(np.true_divide(x, y, **options)) * y, out)


def _fmod(x: Any, y: Any, out: Any = None, **options: Any) -> Any:
    """CuPy takes integers through doubles."""
    kind = np.result_type(x, y)
    if kind.kind not in "iu":
        return np.fmod(x, y, out, **options)
    made = np.where(np.equal(y, 0), 0, np.fmod(np.asarray(x, float), np.asarray(y, float))).astype(kind)
    return np.positive(made, out)


_AS_CUPY_HAS_IT = {"floor_divide": _floor_divide, "remainder": _remainder, "fmod": _fmod}

for _name in _NAMES.split():
    _host = getattr(np, _name)
    globals()[_name] = ufunc(_host, "c" if "logical" in _name else "", ("bfloat16",) if _name == "divmod" else ())
abs, bitwise_not, conj, divide, mod = absolute, invert, conjugate, true_divide, remainder  # type: ignore[name-defined] # noqa: F821

# ---- new arrays -----------------------------------------------------------------------------------------------------------------


def array(
    obj: Any, dtype: Any = None, copy: bool = True, order: str = "K", subok: bool = False, ndmin: int = 0, *, blocking: bool = False
) -> ndarray:
    if isinstance(obj, (list, tuple)) and any(isinstance(part, ndarray) for part in obj):
        obj = stack([array(part) for part in obj])
    if not isinstance(obj, ndarray) and hasattr(obj, "__cuda_array_interface__"):
        told = obj.__cuda_array_interface__
        obj = ndarray(told["shape"], told["typestr"], _memory.pointer_to(told["data"][0]), told["strides"])
    if not isinstance(obj, ndarray):
        if isinstance(obj, np.ndarray):
            _order.reads_host(obj)
        host = np.array(obj, dtype=dtype)
        _door.supported(host.dtype)
        _door.to_device["array"] += 1
        made = _door.fresh(host.reshape((1,) * (ndmin - host.ndim) + host.shape), order)
        if blocking:
            _order.current_stream().synchronize()
        return made
    made = obj
    if copy or (dtype is not None and np.dtype(dtype) != obj.dtype) or _out_of_order(obj, order):
        here = _memory.Device()
        if obj.device == here:
            made = obj.astype(obj.dtype if dtype is None else dtype, order=order)
        else:  # from another device: both streams meet, as in CuPy's copy between peers
            with obj.device:
                obj.device.synchronize()
                _door.note(obj, write=False)
            made = _door.fresh(obj._view.astype(obj.dtype if dtype is None else dtype), order)
    return made.reshape((1,) * (ndmin - made.ndim) + made.shape) if made.ndim < ndmin else made


def _out_of_order(a: ndarray, order: str | None) -> bool:
    return (order == "C" and not a.flags.c_contiguous) or (order == "F" and not a.flags.f_contiguous)


def asarray(a: Any, dtype: Any = None, order: Any = None, *, copy: Any = None, blocking: bool = False) -> ndarray:
    if isinstance(a, ndarray) and a.device != _memory.Device() and not copy:
        return array(a, dtype, True, order or "K", blocking=blocking)
    return array(a, dtype, bool(copy), order or "K", blocking=blocking)


def ascontiguousarray(a: ndarray, dtype: Any = None) -> ndarray:
    """An array that is so already comes back as it is, whatever device it is on; any other one is work for the current device."""
    if not isinstance(a, ndarray):
        raise TypeError(f"Argument 'a' has incorrect type (expected cupy.ndarray, got {type(a).__name__})")
    dtype = np.dtype(a.dtype if dtype is None else dtype)
    made = a if a.flags.c_contiguous and dtype == a.dtype else a.astype(dtype, order="C")
    return made.reshape(1) if made.ndim == 0 else made


def asnumpy(a: Any, stream: Any = None, order: str = "C", out: Any = None, *, blocking: bool = True) -> np.ndarray:
    return a.get(stream, order, out, blocking) if isinstance(a, ndarray) else np.asarray(a, order=order)  # type: ignore[call-overload]


def empty(shape: Any, dtype: Any = float, order: str = "C") -> ndarray:
    return _door.empty(shape, dtype, order)


def _filled(made: ndarray, value: Any) -> ndarray:
    made.fill(value)
    return made


def zeros(shape: Any, dtype: Any = float, order: str = "C") -> ndarray:
    return _filled(empty(shape, dtype, order), 0)


def ones(shape: Any, dtype: Any = float, order: str = "C") -> ndarray:
    return _filled(empty(shape, dtype, order), 1)


def full(shape: Any, fill_value: Any, dtype: Any = None, order: str = "C") -> ndarray:
    if dtype is None:
        dtype = fill_value.dtype if isinstance(fill_value, ndarray) else np.array(fill_value).dtype
    return _filled(empty(shape, dtype, order), fill_value)


def empty_like(prototype: Any, dtype: Any = None, order: str = "K", subok: Any = None, shape: Any = None) -> ndarray:
    layout = np.empty_like(prototype._view, dtype, order, shape=shape)  # type: ignore[call-overload]
    return _door.empty(layout.shape, layout.dtype, like=layout)


def zeros_like(a: Any, dtype: Any = None, order: str = "K", subok: Any = None, shape: Any = None) -> ndarray:
    return _filled(empty_like(a, dtype, order, subok, shape), 0)


def ones_like(a: Any, dtype: Any = None, order: str = "K", subok: Any = None, shape: Any = None) -> ndarray:
    return _filled(empty_like(a, dtype, order, subok, shape), 1)


def full_like(a: Any, fill_value: Any, dtype: Any = None, order: str = "K", subok: Any = None, shape: Any = None) -> ndarray:
    return _filled(empty_like(a, dtype, order, subok, shape), fill_value)


@lifted()
def arange(start, stop=None, step=1, dtype=None): ...


@lifted()
def eye(N, M=None, k=0, dtype=float, order="C"): ...


@lifted()
def tri(N, M=None, k=0, dtype=float): ...


def linspace(start, stop, num=50, endpoint=True, retstep=False, dtype=None, axis=0):  # type: ignore[no-untyped-def]
    return run(np.linspace, start, stop, num, endpoint, retstep, dtype, axis)


# ---- shape and order ------------------------------------------------------------------------------------------------------------


@lifted()
def append(arr, values, axis=None): ...


@lifted()
def broadcast_to(array, shape): ...


def broadcast_shapes(*args: Any) -> tuple[int, ...]:
    return np.broadcast_shapes(*args)


def broadcast_arrays(*args: Any) -> list[ndarray]:
    return list(run(np.broadcast_arrays, *args))


@lifted()
def concatenate(tup, axis=0, out=None, *, dtype=None, casting="same_kind"): ...


@lifted()
def stack(tup, axis=0, out=None, *, dtype=None, casting="same_kind"): ...


def copy(a: ndarray, order: str = "K") -> ndarray:
    return a.copy(order)


@lifted()
def diag(v, k=0): ...


@lifted()
def diagonal(a, offset=0, axis1=0, axis2=1): ...


@lifted()
def expand_dims(a, axis): ...


@lifted()
def flip(a, axis=None): ...


@lifted()
def moveaxis(a, source, destination): ...


@lifted()
def ravel(a, order="C"): ...


@lifted()
def repeat(a, repeats, axis=None): ...


@lifted()
def reshape(a, newshape, order="C"): ...


@lifted()
def roll(a, shift, axis=None): ...


@lifted()
def squeeze(a, axis=None): ...


@lifted()
def swapaxes(a, axis1, axis2): ...


@lifted()
def tile(A, reps): ...


@lifted()
def transpose(a, axes=None): ...


def tril(m: ndarray, k: int = 0) -> ndarray:
    return where(tri(*m.shape[-2:], k, bool), m, m.dtype.type(0))


def triu(m: ndarray, k: int = 0) -> ndarray:
    return where(tri(*m.shape[-2:], k - 1, bool), m.dtype.type(0), m)


def copyto(dst: ndarray, src: Any, casting: str = "same_kind", where: Any = None) -> None:
    run(lambda into, value, mask, out: np.copyto(out, value, casting, where=True if mask is None else mask), dst, src, where, out=dst)


# ---- choosing -------------------------------------------------------------------------------------------------------------------


def where(condition: Any, x: Any = None, y: Any = None) -> Any:
    if x is None and y is None:
        return nonzero(condition)
    made = run(np.where, condition.astype(bool), x, y)
    return made.astype("f") if made.dtype.kind == "V" else made  # there is no loop for bfloat16


@lifted(_wrapping(np.put_along_axis))
def put_along_axis(arr, indices, values, axis): ...


@lifted()
def searchsorted(a, v, side="left", sorter=None): ...


def take(a: ndarray, indices: Any, axis: Any = None, out: Any = None) -> ndarray:
    return a.take(indices, axis, out)


@lifted(_wrapping(np.take_along_axis))
def take_along_axis(a, indices, axis): ...


def _counts(host: Any, *args: Any) -> Any:
    """A function whose result has as many elements as the values say: the host waits for that number."""
    _door.to_host[host.__name__] += 1
    return run(host, *args)


def argwhere(a: ndarray) -> ndarray:
    return _counts(np.argwhere, a)


def flatnonzero(a: ndarray) -> ndarray:
    return _counts(np.flatnonzero, a)


def nonzero(a: ndarray) -> tuple[ndarray, ...]:
    return _counts(np.nonzero, a)


@lifted()
def isin(element, test_elements, assume_unique=False, invert=False): ...


def bincount(x: ndarray, weights: Any = None, minlength: int | None = None) -> ndarray:
    """CuPy looks at the largest and the smallest element on the host."""
    _door.to_host["bincount"] += 1
    return run(np.bincount, x, weights, minlength or 0)


# ---- sorting --------------------------------------------------------------------------------------------------------------------


def sort(a: ndarray, axis: Any = -1, kind: Any = None) -> ndarray:
    _stable(kind)
    _sortable(a)
    return run(np.sort, a, axis, "stable")


def argsort(a: ndarray, axis: Any = -1, kind: Any = None) -> ndarray:
    _stable(kind)
    _sortable(a)
    return run(np.argsort, a, axis, "stable")


def _sortable(a: ndarray) -> None:
    """Thrust sorts all dtypes but bfloat16."""
    if a.dtype.kind == "V":
        raise ValueError(f"Unsupported dtype ({a.dtype})")


def _stable(kind: Any) -> None:
    if kind is not None and kind != "stable":
        raise ValueError(f"kind can only be None or 'stable', got {kind!r}")


def lexsort(keys: ndarray) -> ndarray:
    if keys.ndim > 2:
        raise NotImplementedError("Keys with the rank of three or more is not supported in lexsort")
    _sortable(keys)
    return run(np.lexsort, keys)


def argpartition(a: ndarray, kth: Any, axis: Any = -1) -> ndarray:
    """CuPy sorts them all."""
    _sortable(a)
    return run(np.argpartition, a, kth, axis)


# ---- folding --------------------------------------------------------------------------------------------------------------------


@lifted()
def cumsum(a, axis=None, dtype=None, out=None): ...


@lifted()
def cumprod(a, axis=None, dtype=None, out=None): ...


def diff(a: ndarray, n: int = 1, axis: int = -1, prepend: Any = None, append: Any = None) -> ndarray:
    given = {name: value for name, value in (("prepend", prepend), ("append", append)) if value is not None}
    return run(np.diff, a, n, axis, **given)


@lifted()
def sum(a, axis=None, dtype=None, out=None, keepdims=False): ...


@lifted()
def prod(a, axis=None, dtype=None, out=None, keepdims=False): ...


@lifted()
def mean(a, axis=None, dtype=None, out=None, keepdims=False): ...


@lifted()
def max(a, axis=None, out=None, keepdims=False): ...


@lifted()
def min(a, axis=None, out=None, keepdims=False): ...


@lifted()
def all(a, axis=None, out=None, keepdims=False): ...


@lifted()
def any(a, axis=None, out=None, keepdims=False): ...


def allclose(a: Any, b: Any, rtol: float = 1e-5, atol: float = 1e-8, equal_nan: bool = False) -> ndarray:
    return run(np.allclose, a, b, rtol, atol, equal_nan)


# ---- products -------------------------------------------------------------------------------------------------------------------


def matmul(
    *args: Any, axes: Any = None, axis: Any = None, keepdims: bool = False, casting: str = "same_kind", dtype: Any = None,
    signature: Any = None, order: str = "K", out: Any = None,
) -> ndarray:  # fmt: skip
    return run(np.matmul, *args, **({} if out is None else {"out": out}))


@lifted()
def cross(a, b, axisa=-1, axisb=-1, axisc=-1, axis=None): ...


@lifted()
def dot(a, b, out=None): ...


@lifted()
def outer(a, b, out=None): ...


@lifted()
def tensordot(a, b, axes=2): ...


def einsum(*operands: Any, **kwargs: Any) -> ndarray:
    return run(np.einsum, *operands, **kwargs)
