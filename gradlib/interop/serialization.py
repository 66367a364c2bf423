"""Tensors in files: nested containers of them, and state dicts, whole or refused, without running anything that a file says.

A file holds the tensors under readable names, a description of the containers around them as JSON, and a SHA-256 digest, so that a file
cut short or with a flipped bit is refused. Two formats: safetensors, which torch and others read, and NumPy's NPZ. The description is one
JSON value: a number, text, true, false or null for itself, and otherwise an object with one key that says what it is.
"""

from __future__ import annotations

import base64
import io
import json
import os
import struct
from collections import Counter, OrderedDict
from collections.abc import Callable, Mapping
from types import ModuleType
from typing import IO, Any

import numpy as np

from gradlib.backend import dtype as dtypes
from gradlib.backend.array import move
from gradlib.backend.device import device as Device
from gradlib.core.tensor import Size, Tensor, wrap
from gradlib.files import replacing

Place = str | os.PathLike[str] | IO[bytes]
Arrays = dict[str, np.ndarray]
MapLocation = Callable[[Tensor, str], Tensor | None] | Mapping[str, Any] | str | Device | None

_DESCRIPTION = "gradlib"  # the key in a safetensors file's metadata, and the member of an NPZ
_DIGEST = "gradlib.sha256"
_COMMENT = b"gradlib sha256 "
_CONTAINERS: dict[str, Any] = {"list": list, "tuple": tuple, "set": set, "frozenset": frozenset, "Size": Size}
_MAPPINGS: dict[str, Any] = {"dict": dict, "OrderedDict": OrderedDict, "Counter": Counter}
_SAFETENSORS = {
    "BOOL": "bool", "U8": "uint8", "U16": "uint16", "U32": "uint32", "U64": "uint64",
    "I8": "int8", "I16": "int16", "I32": "int32", "I64": "int64",
    "F16": "float16", "BF16": "bfloat16", "F32": "float32", "F64": "float64", "C64": "complex64",
}  # fmt: skip


class DamagedFile(ValueError):
    """A file that is not as it was written: cut short, changed, or none of these formats.

    Example:
        >>> from pathlib import Path
        >>> _ = Path("x.npz").write_bytes(b"not a file of tensors")
        >>> try:
        ...     gradlib.load("x.npz")
        ... except gradlib.DamagedFile as error:
        ...     print("damaged")
        damaged
    """


def save(obj: Any, f: Place, pickle_module: ModuleType | None = None) -> None:
    """Write tensors, or containers of them such as a state dict, to a file; a path is replaced in one step or left as it was.

    A name that ends in .npz gives NumPy's format, one in .safetensors that format; any other is safetensors where the package is
    installed and NPZ otherwise. Tensors that share memory are saved each for itself; one that occurs twice is one again.

    Args:
        obj: a Tensor, number, text, bytes, None, dtype or device, or dicts, lists, tuples and sets of them, nested. NumPy's numbers
            come back as Python's.
        f: a path, or a binary file to write into.
        pickle_module: what pickles objects of other types, such as ``pickle``; they are refused without it.
    Raises: TypeError for an object that cannot be saved without pickle, with its place in ``obj``; RuntimeError for a .safetensors name
        without the package; OSError when the file cannot be written.
    Source: torch.save.
    Example:
        >>> import io
        >>> file = io.BytesIO()
        >>> gradlib.save([gradlib.ones(2), "text"], file)
        >>> len(file.getvalue()) > 100
        True
    """
    writer = _Writer(pickle_module)
    described = json.dumps(writer.described(obj, ()), allow_nan=False)
    write = _write_safetensors if _writes_safetensors(f) else _write_npz
    if isinstance(f, (str, os.PathLike)):
        with replacing() as results, results.place(f).open("w+b") as file:
            write(file, writer.arrays, described)
    else:
        memory = io.BytesIO()
        write(memory, writer.arrays, described)
        f.write(memory.getbuffer())


def load(f: Place, map_location: MapLocation = None, *, weights_only: bool = True) -> Any:
    """Read what `save` wrote; also another program's safetensors or NPZ file, as a dict of tensors.

    Args:
        f: a path, or a binary file to read from. What it holds decides, not its name.
        map_location: the device for all tensors; or {saved: wanted} devices; or a function of a tensor in host memory and its saved
            device that returns the tensor to use, or None for the saved device. By default each goes where it was.
        weights_only: refuse pickled objects, which can run any code when they are read.
    Returns: the object, tensors that required gradients as leaves that do.
    Raises: DamagedFile (a ValueError) for a file that has changed or is of neither format; RuntimeError for pickled objects, or for
        a device that is not there.
    Source: torch.load.
    Example:
        >>> import io
        >>> file = io.BytesIO()
        >>> gradlib.save({"weight": gradlib.ones(2)}, file)
        >>> _ = file.seek(0)
        >>> gradlib.load(file)
        {'weight': tensor([1., 1.])}
    """
    if isinstance(f, (str, os.PathLike)):
        name = os.fspath(f)
        with open(f, "rb") as file:
            arrays, described = _read(file if file.seekable() else io.BytesIO(file.read()), name)
    else:
        name = getattr(f, "name", "the file")
        arrays, described = _read(io.BytesIO(f.read()), name)
    reader = _Reader(arrays, map_location, weights_only, str(name))
    if described is None:
        return {key: reader.placed(wrap(_held(array)), "cpu") for key, array in arrays.items()}
    return reader.built(json.loads(described))


class _Writer:
    """Collects the arrays of an object, and describes what stands around them."""

    def __init__(self, pickle_module: ModuleType | None) -> None:
        self.pickle = pickle_module
        self.arrays: Arrays = {}
        self.seen: dict[int, tuple[Tensor, dict[str, Any]]] = {}  # the tensor is kept, so that its id stays its own

    def described(self, value: Any, path: tuple[str, ...]) -> Any:
        if isinstance(value, np.generic):
            value = value.item()
        kind = type(value)
        if value is None or kind in (bool, int, str):
            return value
        if kind is float:
            return {"float": value.hex()}  # every bit, inf and NaN too
        if kind is complex:
            return {"complex": [value.real.hex(), value.imag.hex()]}
        if kind is bytes:
            return {"bytes": base64.b64encode(value).decode()}
        if isinstance(value, Tensor):
            return self._tensor(value, path)
        if kind in _MAPPINGS.values():
            pairs = [[self.described(k, (*path, "key")), self.described(v, (*path, str(k)))] for k, v in value.items()]
            return {kind.__name__: pairs}
        if kind.__name__ in _CONTAINERS and kind is _CONTAINERS[kind.__name__]:
            return {kind.__name__: [self.described(v, (*path, str(i))) for i, v in enumerate(value)]}
        if isinstance(value, np.dtype):
            return {"dtype": value.name}
        if isinstance(value, Device):
            return {"device": str(value)}
        if self.pickle is None:
            raise TypeError(
                f"save holds tensors, numbers, text and containers of them; got {kind.__module__}.{kind.__qualname__} at "
                f"{'.'.join(path) or 'the top'}; pass pickle_module=pickle to pickle it"
            )
        return {"pickle": base64.b64encode(self.pickle.dumps(value)).decode()}

    def _tensor(self, value: Tensor, path: tuple[str, ...]) -> dict[str, Any]:
        if id(value) in self.seen:
            return self.seen[id(value)][1]
        name = base = ".".join(path) or "tensor"
        while name in self.arrays or name in (_DESCRIPTION, _DIGEST):
            name = f"{base}.{len(self.arrays)}"
        array = np.ascontiguousarray(move(value.detach()._array, None)).reshape(value.shape)
        self.arrays[name] = array
        described = {
            "tensor": {
                "name": name, "dtype": array.dtype.name, "device": str(value.device),
                "requires_grad": value.requires_grad and value.is_leaf,
            }
        }  # fmt: skip
        self.seen[id(value)] = value, described
        return described


class _Reader:
    """Builds an object again from its description and its arrays."""

    def __init__(self, arrays: Arrays, location: MapLocation, weights_only: bool, file: str) -> None:
        self.arrays, self.location, self.weights_only, self.file = arrays, location, weights_only, file
        self.tensors: dict[str, Tensor] = {}

    def built(self, what: Any) -> Any:
        if not isinstance(what, dict):
            return what
        ((kind, value),) = what.items()
        if kind == "tensor":
            return self._tensor(**value)
        if kind in _MAPPINGS:
            return _MAPPINGS[kind]({self.built(k): self.built(v) for k, v in value})
        if kind in _CONTAINERS:
            return _CONTAINERS[kind](self.built(v) for v in value)
        if kind == "float":
            return float.fromhex(value)
        if kind == "complex":
            return complex(*map(float.fromhex, value))
        if kind == "bytes":
            return base64.b64decode(value)
        if kind == "dtype":
            return _dtype(value)
        if kind == "device":
            return Device(value)
        if kind != "pickle":
            raise DamagedFile(f"{self.file} holds a {kind!r}, which this version of gradlib does not know")
        if self.weights_only:
            raise RuntimeError(f"{self.file} holds pickled objects, which can run any code; if you trust it, pass weights_only=False")
        import pickle

        return pickle.loads(base64.b64decode(value))

    def _tensor(self, name: str, dtype: str, device: str, requires_grad: bool) -> Tensor:
        if name not in self.tensors:
            value = self.placed(wrap(_held(self.arrays[name])), device)
            self.tensors[name] = value.requires_grad_() if requires_grad else value
        return self.tensors[name]

    def placed(self, value: Tensor, saved: str) -> Tensor:
        """A tensor in host memory on the device where it is wanted."""
        where: Any = self.location
        if callable(where) and not isinstance(where, Device):
            mapped = where(value, saved)
            return value.to(saved) if mapped is None else mapped
        if isinstance(where, Mapping):
            where = where.get(saved, saved)
        if where is None:
            try:
                return value.to(saved)
            except RuntimeError as error:
                raise RuntimeError(f"{self.file} holds a tensor of {saved}; pass map_location='cpu' to load it here") from error
        return value.to(Device(where))


def _writes_safetensors(f: Place) -> bool:
    ending = os.path.splitext(f)[1].lower() if isinstance(f, (str, os.PathLike)) else ""
    if ending == ".npz":
        return False
    try:
        import safetensors.numpy  # noqa: F401
    except ImportError as error:
        if ending == ".safetensors":
            raise RuntimeError("a .safetensors file needs the package safetensors: pip install safetensors; .npz needs none") from error
        return False
    return True


def _stored(array: np.ndarray, complex128: bool) -> np.ndarray:
    """The array in a dtype that the format knows: NPZ has no bfloat16, safetensors no complex128."""
    if complex128:
        return np.ascontiguousarray(array).view(np.float64).reshape(*array.shape, 2) if array.dtype == np.complex128 else array
    return array.view(np.uint16) if dtypes.is_bfloat16(array.dtype) else array


def _sha256(data: bytes = b"") -> Any:
    import hashlib  # loaded with the first file

    return hashlib.sha256(data)


def _digest_before(file: IO[bytes], size: int) -> bytes:
    """SHA-256 of the first so many bytes of a file, in hexadecimal digits."""
    file.seek(0)
    digest = _sha256()
    for begin in range(0, size, 1 << 20):
        digest.update(file.read(min(1 << 20, size - begin)))
    return digest.hexdigest().encode()


def _read(file: IO[bytes], name: Any) -> tuple[Arrays, str | None]:
    """The arrays of a file, each in memory of its own, and what stands around them; None in a file of another program."""
    begin = file.read(9)
    file.seek(0)
    if begin[:2] == b"PK":
        return _read_npz(file, name)
    if begin[8:] == b"{":
        return _read_safetensors(file.read(), name)
    raise _foreign(name)


def _digest(arrays: Arrays, described: str) -> str:
    """SHA-256 of names, dtypes, shapes, bytes and description."""
    digest = _sha256(described.encode())
    for name in sorted(arrays):
        array = arrays[name]
        digest.update(f"\0{name}\0{array.dtype.name}\0{array.shape}\0".encode())
        digest.update(np.ascontiguousarray(array).reshape(-1).view(np.uint8).data)
    return digest.hexdigest()


def _write_safetensors(file: IO[bytes], arrays: Arrays, described: str) -> None:
    from safetensors.numpy import save as serialized

    stored = {name: _stored(array, complex128=True) for name, array in arrays.items()}
    file.write(serialized(stored, {_DESCRIPTION: described, _DIGEST: _digest(stored, described)}))


def _read_safetensors(data: bytes, name: Any) -> tuple[Arrays, str | None]:
    try:
        import safetensors
    except ImportError as error:
        raise RuntimeError(f"{name} is a safetensors file, which needs the package safetensors: pip install safetensors") from error
    try:
        entries: Any = safetensors.deserialize(data)  # type: ignore[no-untyped-call]
        (length,) = struct.unpack("<Q", data[:8])
        about = json.loads(data[8 : 8 + length]).get("__metadata__") or {}
        arrays = {}
        for key, entry in entries:
            if entry["dtype"] not in _SAFETENSORS:
                raise TypeError(f"{name} holds {key!r} of type {entry['dtype']}; gradlib holds {', '.join(_SAFETENSORS)}")
            arrays[key] = np.frombuffer(entry["data"], _dtype(_SAFETENSORS[entry["dtype"]])).reshape(entry["shape"])
    except (safetensors.SafetensorError, ValueError) as error:
        raise DamagedFile(f"{name} is not a complete safetensors file: {error}") from error
    if not any(str(key).startswith("gradlib") for key in about):
        return arrays, None
    described = about.get(_DESCRIPTION)
    if described is None or about.get(_DIGEST) != _digest(arrays, described):
        raise _changed(name)
    return _as_written(arrays, described), described


def _write_npz(file: IO[bytes], arrays: Arrays, described: str) -> None:
    import zipfile

    with zipfile.ZipFile(file, "w", zipfile.ZIP_STORED) as archive:
        for name, array in arrays.items():
            with archive.open(zipfile.ZipInfo(f"{name}.npy"), "w", force_zip64=True) as member:
                np.lib.format.write_array(member, _stored(array, complex128=False), allow_pickle=False)
        archive.writestr(zipfile.ZipInfo(f"{_DESCRIPTION}.json"), described)
        archive.comment = _COMMENT + b"0" * 64
    size = file.seek(-64, os.SEEK_END)
    digest = _digest_before(file, size)  # of the whole file before it
    file.seek(size)
    file.write(digest)


def _read_npz(file: IO[bytes], name: Any) -> tuple[Arrays, str | None]:
    import zipfile

    try:
        with zipfile.ZipFile(file) as archive:
            names = archive.namelist()
            own = archive.comment or f"{_DESCRIPTION}.json" in names
            if own and archive.comment != _COMMENT + _digest_before(file, max(file.seek(0, os.SEEK_END) - 64, 0)):
                raise _changed(name)
            if names and not own and not any(member.endswith(".npy") for member in names):
                raise _foreign(name)
            arrays = {}
            for member in names:
                if member.endswith(".npy"):
                    with archive.open(member) as stream:
                        arrays[member[:-4]] = np.lib.format.read_array(stream, allow_pickle=False)
            described = archive.read(f"{_DESCRIPTION}.json").decode() if own else None
    except DamagedFile:
        raise
    except (zipfile.BadZipFile, ValueError, KeyError, EOFError, NotImplementedError, OverflowError, struct.error) as error:
        raise DamagedFile(f"{name} is not a complete NPZ file of numbers: {error}") from error
    return (arrays if described is None else _as_written(arrays, described)), described


def _as_written(arrays: Arrays, described: str) -> Arrays:
    """The arrays in their own dtypes again, after `_stored`."""
    written = _dtypes_in(json.loads(described))
    return {
        name: array.view(_dtype(written[name])).reshape(array.shape[: -1 if written[name] == "complex128" else None])
        if name in written and written[name] != array.dtype.name
        else array
        for name, array in arrays.items()
    }


def _dtypes_in(what: Any) -> dict[str, str]:
    """The dtypes of all tensors that a description names."""
    if isinstance(what, list):
        return {name: dtype for each in what for name, dtype in _dtypes_in(each).items()}
    if not isinstance(what, dict):
        return {}
    if "tensor" in what:
        return {what["tensor"]["name"]: what["tensor"]["dtype"]}
    return _dtypes_in(list(what.values()))


def _dtype(name: str) -> np.dtype:
    return dtypes.bfloat16() if name == "bfloat16" else np.dtype(name)


def _held(array: np.ndarray) -> np.ndarray:
    """The array, which is in memory of its own, in gradlib's own dtype and order."""
    dtype = dtypes.as_dtype(array.dtype)
    if dtype is None:
        raise TypeError(f"gradlib holds bool, integers, float16 to float64, bfloat16 and complex numbers; the file has {array.dtype}")
    return np.asarray(array, dtype=dtype, order="C")


def _foreign(name: Any) -> DamagedFile:
    return DamagedFile(f"{name} is neither a safetensors nor an NPZ file; torch's own files are read with torch.load")


def _changed(name: Any) -> DamagedFile:
    return DamagedFile(f"{name} is not as gradlib wrote it: its digest is that of other bytes; take it from a copy that is whole")
