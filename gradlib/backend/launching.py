"""Kernels launched with nothing between: the driver's call, with arguments packed into memory that is used again.

CuPy's own launch asks each argument anew what it is; of a kernel whose parameters are known that is most of what a launch costs the host.
"""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from gradlib.backend.array import cupy

Slot = tuple[Any, int]
"""Memory for the arguments of one launch, and the address of the list of their addresses, as CUDA takes it."""


class Slots:
    """The memory into which the arguments of a kernel are packed.

    A launch takes a slot by ``pop`` and gives it back by ``append``, between which nobody else has it: not a launch in another thread, nor
    one that a finalizer makes in the midst of this one.

    Attributes:
        pack: ``pack(slot[0], 0, *values)``. free: the slots that no launch has.
    """

    __slots__ = ("_offsets", "_size", "free", "pack")

    def __init__(self, formats: Sequence[str]) -> None:
        """``formats``: of each parameter, as ``struct`` writes it; of a structure passed by value all its members."""
        self._offsets, whole = [], ""
        for each in formats:
            members = re.sub("[0-9]", "", each).replace("s", "d")  # bytes are a complex number's
            whole += f"0{max(members, key=struct.calcsize)}"  # a structure begins where its widest member may
            self._offsets.append(struct.calcsize(whole))
            whole += each
        layout = struct.Struct(whole)
        self.pack, self._size = layout.pack_into, layout.size
        self.free: list[Slot] = []

    def made(self) -> Slot:
        """One more."""
        memory = ctypes.create_string_buffer(self._size)
        start = ctypes.addressof(memory)
        places = (ctypes.c_void_p * len(self._offsets))(*(start + offset for offset in self._offsets))
        memory.places = places  # type: ignore[attr-defined]  # which live as long as the memory
        return memory, ctypes.addressof(places)


def compiled(source: str, *options: str) -> Any:
    """CuPy's module of a CUDA text, which NVRTC compiles for each device at its first kernel there. ``options``: further ones for it."""
    return cupy().RawModule(code=source, options=("--std=c++17", *options), backend="nvrtc")


@cache
def _module(write: Callable[..., str], *of: Any) -> Any:
    return compiled(write(*of))


def kernel_of(write: Callable[..., str], *of: Any, name: str) -> Callable[[int], Any]:
    """What gives CuPy's kernel ``gradlib_NAME`` of the text that ``write(*of)`` is, which is compiled once for all of its kernels."""
    return lambda device: _module(write, *of).get_function(f"gradlib_{name}")


def launcher() -> tuple[Callable[..., None], Callable[[], Any]]:
    """The driver's launch, and what gives the current stream."""
    library = cupy()
    return library.cuda.driver.launchKernel, library.cuda.get_current_stream


@cache
def refusals() -> Any:
    """What a launch raises: the driver in a thread that has not used the device yet, which CuPy makes good; a number beyond all floats."""
    return cupy().cuda.driver.CUDADriverError, OverflowError


_LETTERS = {
    "bool": "?", "int": "i", "long long": "q", "unsigned char": "B", "unsigned short": "H", "unsigned": "I", "unsigned long long": "Q",
    "float": "f", "double": "d",
}  # fmt: skip
_TYPEDEF, _STRUCT = re.compile(r"typedef ([\w ]+) (\w+);"), re.compile(r"struct (\w+) \{([^}]*)")
_MANY = re.compile(r"\[(\d+)\]")


def formats_of(text: str, name: str) -> list[str]:
    """The parameters of the kernel ``gradlib_NAME`` of a CUDA text as ``struct`` packs them, of a structure all of its members.

    Types may be the text's own: a ``typedef``, or a ``struct`` of numbers, pointers and arrays of them, whose functions come behind them.
    """
    types = {made: ctype for ctype, made in _TYPEDEF.findall(text)}
    members = {made: body.partition("__device__")[0].split(";")[:-1] for made, body in _STRUCT.findall(text)}

    def letters(declared: str) -> str:
        """Of one parameter, or of members that have one type."""
        names = declared.split(",")
        ctype = names[0].strip().removeprefix("const ").rpartition(" ")[0]
        number = sum([int(many[1]) if (many := _MANY.search(each)) else 1 for each in names])
        if "*" in names[0]:
            return "P" * number
        if ctype in members:
            return "".join(map(letters, members[ctype]))
        while ctype in types:
            ctype = types[ctype]
        return _LETTERS[ctype] * number

    start = text.index("(", text.index(f" gradlib_{name}(")) + 1
    return [letters(each) for each in text[start : text.index(")", start)].split(",")]


class Functions(dict[int, int]):
    """The driver's handle of a kernel by device, made when it is first asked for.

    Args:
        found: gives CuPy's kernel on a device, which is current.
    """

    def __init__(self, found: Callable[[int], Any]) -> None:
        super().__init__()
        self._found = found
        self._kernels: list[Any] = []  # whose modules go with them

    def __missing__(self, device: int) -> int:
        kernel = self._found(device)
        self._kernels.append(kernel)
        handle = self[device] = int(kernel.kernel.ptr)
        return handle


class Kernel:
    """A kernel of gradlib's own, ready to be launched.

    Args:
        formats: of its parameters, as for `Slots`. found: gives CuPy's kernel on a device, which is current.
    """

    def __init__(self, formats: Sequence[str], found: Callable[[int], Any]) -> None:
        self._slots = Slots(formats)
        self._functions = Functions(found)
        self._launch, self._stream = launcher()
        self._refused = cupy().cuda.driver.CUDADriverError

    def run(self, device: int, threads: int, block: int, *values: Any, shared: int = 0) -> bool:
        """Launch it on the current stream with at least so many threads, and so many bytes of shared memory for each block.

        Returns: False where the driver refuses: then CuPy's way is taken.
        """
        slots = self._slots
        slot = slots.free.pop() if slots.free else slots.made()
        slots.pack(slot[0], 0, *values)
        try:
            self._launch(self._functions[device], -(-threads // block), 1, 1, block, 1, 1, shared, self._stream().ptr, slot[1], 0)
        except self._refused:
            return False
        slots.free.append(slot)
        return True


def kernel_in(module: Any, name: str) -> Kernel:
    """The kernel ``gradlib_NAME`` of CuPy's module of a text."""
    return Kernel(formats_of(module.code, name), lambda device: module.get_function(f"gradlib_{name}"))


def kernels(write: Callable[..., str]) -> Callable[..., Kernel]:
    """What gives kernels by their names, and the arguments with which ``write`` writes the text that they are in.

    A text is compiled once for all of its kernels, and a kernel made once.
    """
    return cache(lambda name, *of: kernel_in(_module(write, *of), name))
