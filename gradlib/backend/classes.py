"""Kernels of gradlib's own for the loss of classes, ``nll_loss`` of a few rows of scores, and for its gradient.

As in `gradlib.backend.kernel_text`, every other call is CuPy's own.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from gradlib.backend.array import Array
from gradlib.backend.kernel_text import CTYPES, HEADERS, MOST, THREADS, WHOLE
from gradlib.backend.launching import Kernel, kernel_of

LONGEST = 4096
"""The most rows of which one warp makes the sum."""
_MODES = {"none": 0, "sum": 1, "mean": 2}


def source(char: str) -> str:
    """The kernels for scores of a dtype, of half types in float32.

    ``reduced``: minus the sum, or where ``mode`` is 2 the mean, of each row's score of its class, rows of the class ``ignore`` apart.
    ``each``: minus the score of each row's class. ``spread``: the gradient by the scores for that of either, g.

    A class is called ``indices`` and their number ``adim``, as in CuPy's kernels, by which hostcuda finds classes outside.
    """
    ctype = CTYPES[char]
    computed = ctype if char in WHOLE else "float"
    of_row = "        const long long indices = classes[k];\n        long long at = indices % adim;\n        if (at < 0) at += adim;\n"
    head = f'extern "C" __global__ void gradlib_{{}}(const {ctype}* x, const long long* classes, {ctype}* z, long long adim,\n'
    head += "    long long ignore, unsigned mode, unsigned rows, unsigned n) {{\n"
    entered = f"    const unsigned i = blockIdx.x * {THREADS} + threadIdx.x;\n    if (i >= n) return;\n"
    return (
        HEADERS.get(char, "")
        + head.format("reduced")
        + f"    {computed} s = 0;\n    unsigned count = 0;\n    for (unsigned k = threadIdx.x; k < rows; k += 32) {{\n"
        "        if (classes[k] == ignore) continue;\n"
        f"{of_row}        s -= ({computed})x[k * adim + at];\n        count++;\n    }}\n"
        "    for (int bits = 16; bits; bits /= 2) {\n        s += __shfl_xor_sync(0xffffffffu, s, bits);\n"
        "        count += __shfl_xor_sync(0xffffffffu, count, bits);\n    }\n"
        f"    if (threadIdx.x == 0) z[0] = ({ctype})(mode == 2 ? s / count : s);\n}}\n"
        + head.format("each")
        + f"{entered}    const unsigned k = i;\n    if (classes[k] == ignore) {{\n        z[k] = ({ctype})0;\n        return;\n    }}\n"
        f"    {{\n{of_row}        z[k] = ({ctype})(-({computed})x[k * adim + at]);\n    }}\n}}\n"
        + head.format("spread")
        + f"{entered}    const unsigned k = i / (unsigned)adim;\n    {computed} made = 0;\n    if (classes[k] != ignore) {{\n{of_row}"
        f"        if (at == i % (unsigned)adim) made = -({computed})x[mode ? 0 : k];\n    }}\n"
        "    if (made != 0 && mode == 2) {\n        unsigned count = 0;\n"
        "        for (unsigned other = 0; other < rows; other++) count += classes[other] != ignore;\n        made /= count;\n    }\n"
        f"    z[i] = ({ctype})made;\n}}\n"
    )


@cache
def _kernel(name: str, char: str) -> Kernel:
    return Kernel("PPPqqIII", kernel_of(source, char, name=name))


def _is_served(x: Any, classes: Any) -> bool:
    if type(x) is not type(classes) or classes.dtype.char != "l" or x.dtype.char not in CTYPES:
        return False
    alike = x._c_contiguous and classes._c_contiguous and classes.data.device_id == x.data.device_id
    return alike and classes.ndim == 1 and 0 < classes.size <= LONGEST


def loss(input: Array, target: Array, ignore: int, reduction: str) -> Array | None:
    """``nll_loss`` of (N, C) scores and (N,) classes that all count the same; None where no kernel serves it."""
    if input.ndim != 2 or not input.size or not _is_served(input, target):
        return None
    (rows, size), data = input.shape, input.data
    whole = reduction != "none"
    out = type(input)(() if whole else rows, input.dtype)
    values = (data.ptr, target.data.ptr, out.data.ptr, size, ignore, _MODES[reduction], rows, rows)
    kernel = _kernel("reduced" if whole else "each", input.dtype.char)
    return out if kernel.run(data.device_id, 32 if whole else rows, 32 if whole else THREADS, *values) else None


def loss_gradient(g: Array, target: Array, ignore: int, reduction: str, shape: tuple[int, ...]) -> Array | None:
    """The gradient by the scores, of a shape, for that of ``loss``; None where no kernel serves it."""
    if len(shape) != 2 or not _is_served(g, target) or not 0 < (n := shape[0] * shape[1]) <= MOST:
        return None
    out, data = type(g)(shape, g.dtype), g.data
    values = (data.ptr, target.data.ptr, out.data.ptr, shape[1], ignore, _MODES[reduction], shape[0], n)
    return out if _kernel("spread", g.dtype.char).run(data.device_id, n, THREADS, *values) else None
