"""Kernels over many small arrays, each where it lies, in one launch: the kernel is given their addresses by value.

A family of them is declared by what each takes beside the arrays and does with an element. `gradlib.optim.fused` has those of optimisers;
here are the ones that clip gradients. Products and sums are rounded one after the other, as in CuPy's kernels for each.
"""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gradlib.backend.array import Array, cupy, on_device_of
from gradlib.backend.launching import Functions, Slots, compiled, launcher

MOST_ARRAYS = 128
"""The most arrays of one launch, or pairs: their addresses and sizes take 2,560 of the 4,096 bytes that a kernel's arguments may have."""
THREADS = 128

PAIRS = {"p": "T*", "g": "const T*"}

CTYPES = {"f": "float", "d": "double"}
"""The dtypes that are served."""


class Family:
    """Kernels over arrays of one dtype, end to end, by twos or more.

    Args:
        rules: by name, the parameters of a kernel beside the table of arrays, and what it does with element i of all, which is element j
            of ``t.p[k]`` and ``t.g[k]``; T is the dtype.
        columns: by name, the types of the table's columns of arrays.
        most: the most rows of a table; it takes less than 4,096 bytes with the other arguments.
    """

    def __init__(self, rules: Mapping[str, tuple[str, str]], columns: Mapping[str, str] = PAIRS, most: int = MOST_ARRAYS) -> None:
        self.most = most
        self._rules = rules
        self._columns = columns
        self._modules: dict[str, Any] = {}
        self._kernels: dict[tuple[str, str], tuple[Slots, Functions]] = {}

    def source(self, char: str) -> str:
        """The kernels for arrays of a dtype."""
        columns = "".join(f"{ctype} {name}[{self.most}]; " for name, ctype in self._columns.items())
        table = f"struct Table {{ {columns}unsigned end[{self.most}]; }};\n"
        kernels = [f"typedef {CTYPES[char]} T;\n{table}"]
        for name, (parameters, body) in self._rules.items():
            kernels.append(f"""extern "C" __global__ void gradlib_{name}(Table t, {parameters}, int count, unsigned n) {{
    const unsigned i = blockIdx.x * {THREADS} + threadIdx.x;
    if (i >= n) return;
    int k = 0, last = count - 1;
    while (k < last) {{
        const int middle = (k + last) / 2;
        if (i < t.end[middle]) last = middle;
        else k = middle + 1;
    }}
    const unsigned j = k ? i - t.end[k - 1] : i;
    {body}
}}
""")
        return "".join(kernels)

    def _kernel(self, name: str, char: str) -> tuple[Slots, Functions]:
        if (name, char) not in self._kernels:
            if char not in self._modules:
                self._modules[char] = compiled(self.source(char), "--fmad=false")
            kinds = ["P" if "*" in each else "d" if "double" in each else char for each in self._rules[name][0].split(",")]
            slots = Slots([f"{self.most}P" * len(self._columns) + f"{self.most}I", *kinds, "i", "I"])
            self._kernels[name, char] = slots, Functions(lambda device: self._modules[char].get_function(f"gradlib_{name}"))
        return self._kernels[name, char]

    def launch(
        self, name: str, char: str, device: int, rows: Sequence[tuple[int, ...]], ends: Sequence[int], pointers: Sequence[int],
        numbers: Sequence[float],
    ) -> None:  # fmt: skip
        """Launch a kernel for no more rows than a table has.

        Args:
            rows: the addresses of their arrays; ends: how many elements they have up to and with each. pointers, numbers: the further
                arguments.
        """
        if not (n := ends[-1]):
            return
        launch, stream = launcher()
        missing = [0] * (self.most - len(rows))
        table = [number for column in (*zip(*rows, strict=True), ends) for number in (*column, *missing)]
        slots, functions = self._kernel(name, char)
        slot = slots.free.pop() if slots.free else slots.made()
        with np.errstate(all="ignore"):
            rounded = [float(np.float32(x)) for x in numbers] if char == "f" and "double" not in self._rules[name][0] else numbers
        slots.pack(slot[0], 0, *table, *pointers, *rounded, len(rows), n)
        launch(functions[device], -(-n // THREADS), 1, 1, THREADS, 1, 1, 0, stream().ptr, slot[1], 0)
        slots.free.append(slot)


CLIPPING = Family({
    "scale": ("const T* factor", "t.p[k][j] = t.p[k][j] * *factor;"),
    "clip": ("T low, T high", "const T x = t.p[k][j];\n    t.p[k][j] = isnan(x) ? x : min(max(x, low), high);"),
})  # fmt: skip


def clipped(name: str, arrays: Sequence[Array], pointers: Sequence[Array], numbers: Sequence[float]) -> bool:
    """Write CuPy arrays of one dtype and device: "scale" them by the number in an array, or "clip" them to two numbers.

    Returns: whether it was done; if not, as where some of them share memory, nothing was written.
    """
    made, dtype, device = type(arrays[0]), arrays[0].dtype, arrays[0].data.device_id
    if dtype.char not in CTYPES or any(x.dtype is not dtype or x.data.device_id != device for x in pointers):
        return False
    spans, ends, end = [], [], 0
    for x in arrays:
        if type(x) is not made or x.dtype is not dtype or x.data.device_id != device or not x._c_contiguous or not x.size:
            return False
        spans.append((x.data.ptr, x.data.ptr + x.nbytes))
        end += x.size
        ends.append(end)
    if end >= 1 << 31 or any(one[1] > other[0] for one, other in itertools.pairwise(sorted(spans))):
        return False
    with on_device_of(arrays[0]):
        cupy().cuda.runtime.setDevice(device)  # so that a thread which has not used it yet can launch by the driver's call
        for start in range(0, len(arrays), MOST_ARRAYS):
            base, some = ends[start - 1] if start else 0, slice(start, start + MOST_ARRAYS)
            addresses, pairs = [x.data.ptr for x in pointers], [(begin, 0) for begin, _ in spans[some]]
            CLIPPING.launch(name, dtype.char, device, pairs, [each - base for each in ends[some]], addresses, numbers)
    return True
