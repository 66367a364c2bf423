"""Memory shared with other libraries by DLPack: NumPy and CuPy do it, and this adds bfloat16, whose name they do not know.

Source: the Python specification of DLPack, https://dmlc.github.io/dlpack/latest/python_spec.html.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from gradlib.backend.array import Array, cupy, is_cupy, namespace
from gradlib.backend.dtype import bfloat16, is_bfloat16

HOST, CUDA = (1, 3), (2, 13)  # kinds of devices whose memory NumPy, and CuPy, can read
_UNSIGNED, _BFLOAT = 1, 4  # codes of dtypes
_HELD = {0: (8, 16, 32, 64), 1: (8, 16, 32, 64), 2: (16, 32, 64), 4: (16,), 5: (64, 128), 6: (8,)}
"""By the code of a dtype the bits of those that gradlib holds."""
_NAMES = (b"dltensor", b"dltensor_versioned")
_is_capsule = ctypes.PYFUNCTYPE(ctypes.c_int, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_IsValid", ctypes.pythonapi))
_address_in = ctypes.PYFUNCTYPE(ctypes.c_void_p, ctypes.py_object, ctypes.c_char_p)(("PyCapsule_GetPointer", ctypes.pythonapi))


class _Tensor(ctypes.Structure):
    """The beginning of DLPack's DLTensor."""

    _fields_ = (
        ("data", ctypes.c_void_p),
        ("device_type", ctypes.c_int32),
        ("device_id", ctypes.c_int32),
        ("ndim", ctypes.c_int32),
        ("code", ctypes.c_uint8),
        ("bits", ctypes.c_uint8),
        ("lanes", ctypes.c_uint16),
    )


def _described(capsule: Any) -> _Tensor:
    """The description of memory in a capsule that nobody has taken yet; a change of it changes the capsule.

    Raises: BufferError for anything else.
    """
    for name, offset in zip(_NAMES, (0, 32), strict=True):  # the versioned one begins with version, context, deleter and flags
        if _is_capsule(capsule, name):
            return _Tensor.from_address(_address_in(capsule, name) + offset)
    raise BufferError("from_dlpack takes an object with __dlpack__ or a capsule that nothing has taken yet; a capsule can be taken once")


def exported(array: Array, stream: Any, max_version: Any, dl_device: Any, copy: bool | None) -> Any:
    """The array's memory as a capsule.

    Args:
        array: a NumPy or CuPy array.
        stream, max_version, dl_device, copy: as the specification has them.
    Raises: BufferError for what cannot be exported without a copy when ``copy`` is False.
    """
    if any(stride < 0 for stride in array.strides):  # torch ends the process when it meets one
        if copy is False:
            raise BufferError(f"memory with negative strides {array.strides} is exported as a copy; leave copy unset")
        array = namespace(array).ascontiguousarray(array)
    if not is_cupy(array):
        if stream not in (None, -1):
            raise BufferError(f"stream should be None on cpu; got {stream}")
        if dl_device is not None and next(iter(dl_device)) not in HOST:
            raise BufferError(f"memory of the host cannot be exported to the device {tuple(dl_device)}; move it with .to() first")
        stream = None
    options = {"stream": stream, "max_version": max_version, "dl_device": dl_device, "copy": copy}
    if isinstance(array, np.ndarray) and np.lib.NumpyVersion(np.__version__) < "2.1.0":  # knows the old form of the protocol only
        array, options = array.copy() if copy else array, {"stream": stream}
    if not is_bfloat16(array.dtype):
        return array.__dlpack__(**options)
    capsule = array.view(np.uint16).__dlpack__(**options)
    _described(capsule).code = _BFLOAT
    return capsule


class _Source:
    """A source for NumPy's or CuPy's ``from_dlpack``: it wraps bare capsules too, and gives bfloat16 as unsigned integers."""

    def __init__(self, external: Any) -> None:
        self.external = external
        self.is_bfloat16 = False

    def __dlpack_device__(self) -> tuple[int, int]:
        if hasattr(self.external, "__dlpack_device__"):
            kind, index = self.external.__dlpack_device__()
            return int(kind), int(index)
        described = _described(self.external)
        return described.device_type, described.device_id

    def __dlpack__(self, **options: Any) -> Any:
        capsule = self.external
        if hasattr(capsule, "__dlpack__"):
            try:
                capsule = self.external.__dlpack__(**options)
            except TypeError:  # a library from before max_version
                stream = options.get("stream")
                capsule = self.external.__dlpack__() if stream is None else self.external.__dlpack__(stream=stream)
        described = _described(capsule)
        if described.bits not in _HELD.get(described.code, ()):
            raise BufferError(
                "gradlib holds bool, integers, float16 to float64, bfloat16 and complex64 and complex128; got memory of DLPack's dtype "
                f"code {described.code} with {described.bits} bits: convert it where it comes from"
            )
        if described.code == _BFLOAT:
            described.code, self.is_bfloat16 = _UNSIGNED, True
        return capsule


def imported(external: Any) -> Array:
    """An array that shares another library's memory.

    Args:
        external: an object with ``__dlpack__`` and ``__dlpack_device__``, or a capsule.
    Returns: a NumPy array for memory of the host, a CuPy array for that of a CUDA device; read-only where the exporter says so, or, by
        the old form of the protocol, cannot say.
    Raises: BufferError for memory of another kind, or what is no such object.
    """
    source = _Source(external)
    kind, _ = source.__dlpack_device__()
    if kind not in HOST + CUDA:
        raise BufferError(f"gradlib holds memory of the host (kinds {HOST}) and of CUDA devices {CUDA}; got DLPack's device kind {kind}")
    array = (np if kind in HOST else cupy()).from_dlpack(source)
    return array.view(bfloat16()) if source.is_bfloat16 else array


def device_of(array: Array) -> tuple[int, int]:
    """DLPack's (kind, index) of the device on which an array lies."""
    return (CUDA[0], array.device.id) if is_cupy(array) else (HOST[0], 0)
