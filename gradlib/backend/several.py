"""Kernels over many small arrays, each where it lies, in one launch: the kernel is given their addresses by value.

`Several` writes and launches one, by what it takes beside the arrays and does with an element. `gradlib.optim` has those of optimisers;
here are the ones that write gradients. Products and sums are rounded one after the other, as in CuPy's kernels for each.
"""

from __future__ import annotations

import itertools
import math
import struct
from collections.abc import Callable, Mapping, Sequence

import numpy as np

from gradlib.backend.array import Array, cupy, on_device_of
from gradlib.backend.launching import Functions, Slots, compiled, launcher

MOST_ARRAYS = 128
"""The most rows of a table."""
THREADS = 128

_ROOM = 3840
"""Bytes of a table at most: a kernel's arguments may have 4,096."""

CTYPES = {"f": "float", "d": "double"}
"""The dtypes that are served."""

_HELPERS = """__device__ T most(T x, T y) { return isnan(x) ? x : isnan(y) ? y : max(x, y); }
__device__ T least(T x, T y) { return isnan(x) ? x : isnan(y) ? y : min(x, y); }
"""


class Several:
    """A kernel over the rows of a table of arrays, whose elements are taken end to end.

    Args:
        name: of the kernel.
        columns: by name, the types of the arrays in each row.
        parameters: the others, pointers first; of those that are numbers the type is ``T`` or ``double``.
        body: what it does with element i of all, which is element j of ``t.NAME[k]``. T is the dtype, C that of what there is one of in
            each row; ``most`` and ``least`` give the larger and the smaller, or NaN.
        rows: what it does once for each row k beside, which the body does not wait for. In vain if empty.

    Attributes:
        most: the most rows of a launch.
    """

    def __init__(self, name: str, columns: Mapping[str, str], parameters: Sequence[str], body: str, rows: str = "") -> None:
        self.name, self.most = name, min(MOST_ARRAYS, _ROOM // (8 * len(columns) + 4))
        self._columns, self._parameters, self._body, self._rows = columns, tuple(parameters), body, rows
        self._kernels: dict[str, tuple[Slots, struct.Struct, Functions]] = {}
        self._table = f"{self.most}P" * len(columns) + f"{self.most}I0P"

    def source(self, chars: str) -> str:
        """The text for arrays of a dtype. ``chars``: its character, and that of C if another."""
        columns = "".join(f"{ctype} {name}[{self.most}]; " for name, ctype in self._columns.items())
        parameters = "".join(f"{each}, " for each in self._parameters)
        rows = (
            f"\n    if (i >= n && i - n < count) {{\n        const unsigned k = i - n;\n        {self._rows}\n    }}" if self._rows else ""
        )
        return f"""typedef {CTYPES[chars[0]]} T;
typedef {CTYPES[chars[-1]]} C;
{_HELPERS}struct Table {{ {columns}unsigned end[{self.most}]; }};
extern "C" __global__ void gradlib_{self.name}(Table t, {parameters}unsigned count, unsigned n) {{
    const unsigned i = blockIdx.x * {THREADS} + threadIdx.x;{rows}
    if (i >= n) return;
    unsigned k = 0, last = count - 1;
    while (k < last) {{
        const unsigned middle = (k + last) / 2;
        if (i < t.end[middle]) last = middle;
        else k = middle + 1;
    }}
    const unsigned j = k ? i - t.end[k - 1] : i;
    {self._body}
}}
"""

    def _kernel(self, chars: str) -> tuple[Slots, struct.Struct, Functions]:
        if chars not in self._kernels:
            module = compiled(self.source(chars), "--fmad=false")
            kinds = ["P" if "*" in each else "d" if each.startswith("double ") else chars[0] for each in self._parameters]
            rest = [*kinds, "I", "I"]
            functions = Functions(lambda device: module.get_function(f"gradlib_{self.name}"))
            self._kernels[chars] = Slots([self._table, *rest]), struct.Struct("".join(rest)), functions
        return self._kernels[chars]

    def parts(self, ends: Sequence[int]) -> list[tuple[slice, int, Sequence[int]]]:
        """The rows of each launch: which, how many elements come before them, and how many they have up to and with each."""
        starts = range(0, len(ends), self.most)
        if len(starts) == 1:
            return [(slice(0, self.most), 0, ends)]
        before = [ends[start - 1] if start else 0 for start in starts]
        several = [slice(start, start + self.most) for start in starts]
        return [(some, base, [end - base for end in ends[some]]) for some, base in zip(several, before, strict=True)]

    def launch(self, chars: str, device: int, rows: Sequence[tuple[int, ...]], ends: Sequence[int], *values: float) -> None:
        """Launch it for no more rows than a table has, on the current stream of the device, which is current.

        Args:
            chars: as for `source`. rows: the addresses of their arrays; ends: how many elements they have up to and with each.
            values: the further arguments.
        """
        count, n = len(rows), ends[-1]
        if not (threads := n + count if self._rows else n):
            return
        launch, stream = launcher()
        slots, rest, functions = self._kernel(chars)
        slot = slots.free.pop() if slots.free else slots.made()
        memory, addresses, at = slot[0], f"{count}P", 0
        for column in zip(*rows, strict=True):
            struct.pack_into(addresses, memory, at, *column)
            at += 8 * self.most
        struct.pack_into(f"{count}I", memory, at, *ends)
        at = struct.calcsize(self._table)
        try:
            rest.pack_into(memory, at, *values, count, n)
        except OverflowError:  # of a number beyond all floats
            with np.errstate(all="ignore"):
                rounded = [float(np.float32(x)) if each[0] == "T" else x for x, each in zip(values, self._parameters, strict=True)]
            rest.pack_into(memory, at, *rounded, count, n)
        launch(functions[device], -(-threads // THREADS), 1, 1, THREADS, 1, 1, 0, stream().ptr, slot[1], 0)
        slots.free.append(slot)


WRITING = {
    "scale": Several(
        "scale", {"p": "T*"}, ["const T* norm", "T longest"],
        "t.p[k][j] = t.p[k][j] * least(longest / (*norm + T(1e-6)), T(1));",
    ),
    "clip": Several("clip", {"p": "T*"}, ["T low", "T high"], "t.p[k][j] = least(most(t.p[k][j], low), high);"),
    "zero": Several("zero", {"p": "T*"}, [], "t.p[k][j] = 0;"),
}  # fmt: skip


def writer(name: str, arrays: Sequence[Array], *values: Array | float) -> Callable[[], None] | None:
    """What writes CuPy arrays of one device.

    Args:
        name: "scale", by the quotient of a number, the longest norm, and the norm in an array, if below 1; "clip" to two numbers; "zero".

    Returns: None where it cannot be done in one launch: some of them share memory, have gaps, or are of other dtypes.
    """
    dtype = np.dtype("f") if name == "zero" else arrays[0].dtype  # zeros are the same words in all dtypes
    if dtype.char not in CTYPES:
        return None
    kind, device, spans, ends, end = type(arrays[0]), arrays[0].data.device_id, [], [], 0
    for x in arrays:
        size = x.nbytes
        if type(x) is not kind or x.data.device_id != device or not x._c_contiguous or (x.dtype is not dtype and name != "zero"):
            return None
        if size:
            spans.append((begin := x.data.ptr, begin + size))
            if begin % dtype.itemsize or size % dtype.itemsize:
                return None
            ends.append(end := end + size // dtype.itemsize)
    if end >= 1 << 31:
        return None
    for one, other in itertools.pairwise(sorted(spans)):
        if one[1] > other[0]:
            return None
    given = []
    for value in values:
        if isinstance(value, kind) and (value.dtype is not dtype or value.data.device_id != device):
            return None
        given.append(value.data.ptr if isinstance(value, kind) else value)
    kernel = WRITING[name]

    def launch() -> None:
        with on_device_of(arrays[0]):
            cupy().cuda.runtime.setDevice(device)  # so that a thread which has not used it yet can launch by the driver's call
            for some, _, sizes in kernel.parts(ends):
                kernel.launch(dtype.char, device, [(begin,) for begin, _ in spans[some]], sizes, *given)

    return launch


PIECE = 4096
"""The most elements of one array whose norm a warp takes."""


def _norm(name: str, start: str, made: str) -> Several:
    """The kernel that gives the norm of each piece of the arrays.

    Args:
        start: what the sum of norms has of an element v; made: the norm by the sum s. Instead of sums there are extremes if empty.
    """
    met = "s + {}" if start else "most(s, {})"
    body = f"""const unsigned lane = j % 32;
    const unsigned long long before = (unsigned long long)(j / 32) * {PIECE};
    const T* line = t.p[k] + before;
    const unsigned length = min({PIECE}ull, t.size[k] - before);
    T s = 0;
    for (unsigned x = lane; x < length; x += 32) {{
        const T v = line[x];
        s = {met.format(start or "T(fabs(v))")};
    }}
    for (int bits = 16; bits; bits /= 2) s = {met.format("__shfl_xor_sync(0xffffffffu, s, bits)")};
    if (lane == 0) z[i / 32] = length == 1 ? fabs(line[0]) : {made};"""
    return Several(name, {"p": "const T*", "size": "unsigned long long"}, ["T* z", "T by"], body)


NORMS = {
    1.0: _norm("norms_1", "fabs(v)", "s"), 2.0: _norm("norms", "v * v", "sqrt(s)"), math.inf: _norm("norms_extreme", "", "s"),
    0.0: _norm("norms_power", "pow(fabs(v), by)", "pow(s, 1 / by)"),
}  # fmt: skip
"""By order; that of 0 serves all others."""


def norms(arrays: Sequence[Array], order: float) -> Array | None:
    """Norms of a positive order of pieces of CuPy arrays of one device, whose norm is that of all elements; None without a kernel."""
    kind, dtype, device, rows, ends = type(arrays[0]), arrays[0].dtype, arrays[0].data.device_id, [], []
    if dtype.char not in CTYPES:
        return None
    pieces = 0
    for x in arrays:
        if type(x) is not kind or x.dtype is not dtype or x.data.device_id != device or not x._c_contiguous:
            return None
        rows.append((x.data.ptr, x.size))
        ends.append(pieces := pieces - -x.size // PIECE)
    if pieces >= 1 << 26:
        return None
    kernel = NORMS.get(order, NORMS[0.0])
    with on_device_of(arrays[0]):
        cupy().cuda.runtime.setDevice(device)  # as above
        made = kind((pieces,), dtype)
        for some, base, sizes in kernel.parts(ends):
            lanes = [32 * each for each in sizes]
            kernel.launch(dtype.char, device, rows[some], lanes, made.data.ptr + base * dtype.itemsize, order)
    return made
