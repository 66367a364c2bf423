"""Steps of many parameters on a GPU in one launch: the whole rule of an optimiser as one kernel over all of them.

The kernels compute what the rules in `gradlib.optim.adam` and `gradlib.optim.sgd` compute, rounded at the same places, so the bits are the
same as without. Parameters and gradients stay where they are, and the kernel is given their addresses by value; the state is joined, as
`gradlib.optim.foreach` keeps it. What is not served here takes the other way there: parameters that are not contiguous or not of one real
dtype, rates and counts that are kept on the device.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, NamedTuple

import numpy as np

from gradlib.backend.array import Array, cupy
from gradlib.backend.launching import Functions, Slots, compiled, launcher
from gradlib.core.modes import writing
from gradlib.core.tensor import Tensor
from gradlib.core.writes import refuse_inference

PARAMETERS = 128
"""The most parameters of one launch: their addresses and sizes take 2,560 of the 4,096 bytes that a kernel's arguments may have."""

_THREADS = 128
_CTYPES = {"f": "float", "d": "double"}


class Rule(NamedTuple):
    """A step as its kernel is told of it.

    Attributes:
        kernel: its name. state: the joined arrays that it reads and writes. numbers: the others of its arguments, in its order.
    """

    kernel: str
    state: tuple[Array, ...]
    numbers: tuple[float, ...]


_RULES = {
    "adam": (
        "T* m_, T* s_, T sign, T shrink, T decay, T mean_share, T square_kept, T square_share, T root, T epsilon, T rate",
        """T p = t.p[k][j] * shrink, g = t.g[k][j] * sign;
    if (decay != 0) g = g + decay * p;
    T m = m_[i], s = s_[i];
    m = m + (g - m) * mean_share;
    s = s * square_kept + g * g * square_share;
    m_[i] = m, s_[i] = s;
    t.p[k][j] = p - rate * m / (sqrt(s) / root + epsilon);""",
    ),
    "sgd": (
        "T sign, T decay, T rate",
        """T p = t.p[k][j], g = t.g[k][j] * sign;
    if (decay != 0) g = g + decay * p;
    t.p[k][j] = p - rate * g;""",
    ),
    "momentum": (
        "T* b_, T sign, T decay, T kept, T share, T nesterov, T rate",
        """T p = t.p[k][j], g = t.g[k][j] * sign;
    if (decay != 0) g = g + decay * p;
    const T b = kept * b_[i] + share * g;
    b_[i] = b;
    g = nesterov != 0 ? g + kept * b : b;
    t.p[k][j] = p - rate * g;""",
    ),
}
"""By name, what a kernel takes beside the table of parameters, and what it does with element i of all, element j of parameter k."""


def source(char: str) -> str:
    """The kernels for parameters of a dtype."""
    table = f"struct Table {{ T* p[{PARAMETERS}]; const T* g[{PARAMETERS}]; unsigned end[{PARAMETERS}]; }};\n"
    kernels = [f"typedef {_CTYPES[char]} T;\n{table}"]
    for name, (parameters, body) in _RULES.items():
        kernels.append(f"""extern "C" __global__ void gradlib_{name}(Table t, {parameters}, int count, unsigned n) {{
    const unsigned i = blockIdx.x * {_THREADS} + threadIdx.x;
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


@cache
def _module(char: str) -> Any:
    """``--fmad=false``: a product and a sum are rounded one after the other, as in CuPy's kernels for each."""
    return compiled(source(char), "--fmad=false")


class _Kernel:
    """A rule for a dtype, ready to be launched."""

    def __init__(self, name: str, char: str) -> None:
        kinds = ["P" if "*" in parameter else char for parameter in _RULES[name][0].split(",")]
        self.slots = Slots([f"{PARAMETERS}P{PARAMETERS}P{PARAMETERS}I", *kinds, "i", "I"])
        self.functions = Functions(lambda device: _module(char).get_function(f"gradlib_{name}"))


_kernel = cache(_Kernel)


def is_plain(state: dict[str, Any], group: dict[str, Any], entries: int) -> bool:
    """Whether a joined state has so many entries, and neither it nor the group keeps a number on the device."""
    numbers = (group["lr"], state.get("step"))
    return len(state) == entries and not group.get("capturable") and Tensor not in map(type, numbers)


def step(values: Sequence[Tensor], ends: Sequence[int], rule: Rule) -> bool:
    """Step parameters, on the current device, by a rule. Returns: whether it could be done; if not, nothing was written.

    Args:
        values: the parameters, which have gradients; ends: how many elements they have up to and with each.
    """
    first = values[0]._array
    dtype, device, char = first.dtype, first.data.device_id, first.dtype.char
    if char not in _CTYPES or not 0 < ends[-1] < 1 << 31 or any(x.dtype is not dtype or not x._c_contiguous for x in rule.state):
        return False
    pairs = []
    for value in values:
        p, g = value._array, value.grad._array  # type: ignore[union-attr]
        if g.dtype is not dtype or not p._c_contiguous or not g._c_contiguous or p.shape != g.shape or g.data.device_id != device:
            return False
        pairs.append((p.data.ptr, g.data.ptr))
    for value in values:
        refuse_inference(value)
    for value in values:
        writing(value)
    cupy().cuda.runtime.setDevice(device)  # so that a thread which has not used it yet can launch by the driver's call
    try:
        for start in range(0, len(values), PARAMETERS):
            _launch(rule, char, device, pairs[start : start + PARAMETERS], ends, start, dtype.itemsize)
    finally:
        for value in values:
            value.version.bump()
    return True


def _launch(rule: Rule, char: str, device: int, pairs: Sequence[tuple[int, int]], ends: Sequence[int], start: int, itemsize: int) -> None:
    """The launch for some of the parameters: those from number ``start`` on."""
    launch, stream = launcher()
    base, missing = ends[start - 1] if start else 0, [0] * (PARAMETERS - len(pairs))
    local = [end - base for end in ends[start : start + len(pairs)]]
    table = [*[p for p, _ in pairs], *missing, *[g for _, g in pairs], *missing, *local, *missing]
    state, n = [x.data.ptr + base * itemsize for x in rule.state], local[-1]
    if n == 0:
        return
    kernel = _kernel(rule.kernel, char)
    slots = kernel.slots
    slot = slots.free.pop() if slots.free else slots.made()
    with np.errstate(all="ignore"):
        numbers = [float(np.float32(x)) for x in rule.numbers] if char == "f" else rule.numbers
    slots.pack(slot[0], 0, *table, *state, *numbers, len(pairs), n)
    launch(kernel.functions[device], -(-n // _THREADS), 1, 1, _THREADS, 1, 1, 0, stream().ptr, slot[1], 0)
    slots.free.append(slot)
