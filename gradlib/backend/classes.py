"""Kernels of gradlib's own for the loss of classes, ``nll_loss`` of a few rows of scores, also of smoothed labels, and for its gradient;
and for the loss of probabilities for every class.

As in `gradlib.backend.kernel_text`, every other call is CuPy's own.
"""

from __future__ import annotations

import math
from typing import Any

from gradlib.backend.array import Array
from gradlib.backend.kernel_text import CTYPES, HEADERS, MOST, THREADS, WARP_SUM, WHOLE
from gradlib.backend.launching import kernels
from gradlib.backend.line_layout import EACH, of_lines, plan

LONGEST = 4096
"""The most rows of which one block makes the sum."""
_MODES = {"none": 0, "sum": 1, "mean": 2}
_ENTERED = f"    const unsigned i = blockIdx.x * {THREADS} + threadIdx.x;\n"


def source(char: str) -> str:
    """The kernels for scores of a dtype, (N, C, inner), of half types in float32.

    ``reduced``: minus the sum, or where ``mode`` is 2 the mean, of each row's score of its class, rows of the class ``ignore`` apart.
    ``each``: minus the score of each row's class. ``spread``: the gradient by the scores for that of either, g.

    Of each row ``keep`` times the score of its class counts, and ``part`` times those of all classes; w, if not null, is what a class
    counts. A class is called ``indices`` and their number ``adim``, as in CuPy's kernels, by which hostcuda finds classes outside.
    """
    ctype = CTYPES[char]
    return f"""{HEADERS.get(char, "")}typedef {ctype if char in WHOLE else "float"} T;
{_counting(ctype)}{_of_rows(ctype)}{_of_scores(ctype)}"""


def _head(name: str, ctype: str) -> str:
    """The beginning of a kernel."""
    return (
        f'extern "C" __global__ void gradlib_{name}(const {ctype}* x, const long long* classes, const {ctype}* w, {ctype}* z,\n'
        "    long long adim, long long ignore, unsigned mode, unsigned rows, unsigned inner, T keep, T part, unsigned n) {\n"
    )


def _counting(ctype: str) -> str:
    """The functions that the kernels share: which class is meant, what it counts, and sums of a block."""
    return f"""__device__ long long class_of(long long indices, long long adim) {{
    long long at = indices % adim;
    return at < 0 ? at + adim : at;
}}
// What class c of a row counts.
__device__ T weight(const {ctype}* w, long long c) {{ return w ? (T)w[c] : (T)1; }}
__device__ T sum_of_warp(T s) {{
    {WARP_SUM.format("s")}
    return s;
}}
// Of all threads of a block, for all of them.
__device__ T sum_of_block(T s) {{
    __shared__ T parts[32];
    s = sum_of_warp(s);
    if (threadIdx.x % 32 == 0) parts[threadIdx.x / 32] = s;
    __syncthreads();
    s = sum_of_warp(threadIdx.x % 32 < blockDim.x / 32 ? parts[threadIdx.x % 32] : 0);
    __syncthreads();
    return s;
}}
// What the rows count together, in which every thread of a block takes part.
__device__ T counted(const long long* classes, const {ctype}* w, long long adim, long long ignore, unsigned rows) {{
    T s = 0;
    for (unsigned k = threadIdx.x; k < rows; k += blockDim.x)
        if (classes[k] != ignore) s += weight(w, class_of(classes[k], adim));
    return sum_of_block(s);
}}
"""


def _of_rows(ctype: str) -> str:
    """The kernels of the loss: ``reduced`` and ``each``."""
    return f"""{_head("reduced", ctype)}    T s = 0;  // a thread has a row, or a warp if all its scores count
    const unsigned width = part != 0 ? 32 : 1, lane = threadIdx.x % width;
    for (unsigned k = threadIdx.x / width; k < rows; k += blockDim.x / width) {{
        if (classes[k] == ignore) continue;
        const {ctype}* const row = x + k / inner * adim * inner + k % inner;
        const long long own = class_of(classes[k], adim);
        if (lane == 0) s -= keep * weight(w, own) * (T)row[own * inner];
        if (part != 0)
            for (long long c = lane; c < adim; c += width) s -= part * weight(w, c) * (T)row[c * inner];
    }}
    s = sum_of_block(s);
    if (mode == 2) s /= counted(classes, w, adim, ignore, rows);
    if (threadIdx.x == 0) z[0] = ({ctype})s;
}}
{_head("each", ctype)}{_ENTERED}    if (i >= n) return;
    T s = 0;
    if (classes[i] != ignore) {{
        const {ctype}* const row = x + i / inner * adim * inner + i % inner;
        const long long own = class_of(classes[i], adim);
        s = -(keep * weight(w, own) * (T)row[own * inner]);
        if (part != 0)
            for (long long c = 0; c < adim; c++) s -= part * weight(w, c) * (T)row[c * inner];
    }}
    z[i] = ({ctype})s;
}}
"""


def _of_scores(ctype: str) -> str:
    """The kernel of the gradient: ``spread``."""
    return f"""{_head("spread", ctype)}{_ENTERED}    const T by = mode == 2 ? counted(classes, w, adim, ignore, rows) : (T)1;
    if (i >= n) return;
    const unsigned c = i / inner % (unsigned)adim, k = i / inner / (unsigned)adim * inner + i % inner;
    T made = 0;
    if (classes[k] != ignore) {{
        const bool own = class_of(classes[k], adim) == c;
        if (own || part != 0) made = -(T)x[mode ? 0 : k] * ((own ? keep : (T)0) + part) * weight(w, c) / by;
    }}
    z[i] = ({ctype})made;
}}
"""


_kernel = kernels(source)


def _plan(x: Any, classes: Any, w: Any, shape: tuple[int, ...]) -> tuple[int, int] | None:
    """The number of classes and the elements behind them, for scores of a shape; None where no kernel serves it."""
    if type(x) is not type(classes) or classes.dtype.char != "l" or x.dtype.char not in CTYPES or not shape:
        return None
    device, size = x.data.device_id, classes.size
    if not (x._c_contiguous and classes._c_contiguous and classes.data.device_id == device and 0 < size <= LONGEST):
        return None
    dim = 0 if len(shape) == 1 else 1
    if not 0 < size * shape[dim] <= MOST or classes.shape != (*shape[:dim], *shape[dim + 1 :]):
        return None
    if w is not None and not (w.dtype is x.dtype and w._c_contiguous and w.shape == shape[dim : dim + 1] and w.data.device_id == device):
        return None
    return shape[dim], math.prod(shape[2:])


def loss(input: Array, target: Array, weight: Array | None, ignore: int, reduction: str, smoothing: float = 0.0) -> Array | None:
    """``nll_loss`` of (N, C, ...) or (C,) scores, of smoothed labels where asked; None where no kernel serves it."""
    if (plan := _plan(input, target, weight, input.shape)) is None:
        return None
    size, inner = plan
    rows, data, w = target.size, input.data, 0 if weight is None else weight.data.ptr
    numbers = (size, ignore, _MODES[reduction], rows, inner, 1 - smoothing, smoothing / size, rows)
    if reduction == "none":
        out, name, threads, block = type(input)(target.shape, input.dtype), "each", rows, THREADS
    else:
        threads = block = min(-(-rows * (32 if smoothing else 1) // 32) * 32, 1024)
        out, name = type(input)((), input.dtype), "reduced"
    made = _kernel(name, input.dtype.char).run(data.device_id, threads, block, data.ptr, target.data.ptr, w, out.data.ptr, *numbers)
    return out if made else None


def loss_gradient(
    g: Array, target: Array, weight: Array | None, ignore: int, reduction: str, shape: tuple[int, ...], smoothing: float = 0.0
) -> Array | None:
    """The gradient by the scores, of a shape, for that of ``loss``; None where no kernel serves it."""
    if (plan := _plan(g, target, weight, shape)) is None:
        return None
    size, inner = plan
    out, rows, w, data = type(g)(shape, g.dtype), target.size, 0 if weight is None else weight.data.ptr, g.data
    numbers = (size, ignore, _MODES[reduction], rows, inner, 1 - smoothing, smoothing / size, n := out.size)
    made = _kernel("spread", g.dtype.char).run(data.device_id, n, THREADS, data.ptr, target.data.ptr, w, out.data.ptr, *numbers)
    return out if made else None


_SHARES = f"""    T s = 0;
    {EACH} {{
        const T share = T(y[line - x + offset(k)]) * keep + part;
        if (kept) kept[line - x + offset(k)] = E(share);
        s += T(line[offset(k)]) * share * (w ? T(w[k]) : T(1));
    }}
    {WARP_SUM.format("s")}
    if (lane == 0) z[o] = E(-s);
"""


def source_of_shares(char: str) -> str:
    """The kernel of minus the sum of each row's scores times shares, of a dtype: ``keep`` times those given, and ``part``.

    w, if not null, is what a class counts; in ``kept``, if not null, the shares are written.
    """
    return of_lines({"shares": ("const E* y, const E* w, E* kept, T keep, T part", _SHARES)}, char, False)


_kernel_of_shares = kernels(source_of_shares)


def loss_of_shares(input: Array, target: Array, weight: Array | None, keep: float, part: float, keeps: bool) -> Any:
    """Minus the sum over classes of (N, C, ...) or (C,) scores times shares, times the weight of each class.

    Args:
        keep, part: what the shares given are multiplied by, and what is added. keeps: give two arrays, the loss and the shares.
    Returns: None where no kernel serves it.
    """
    shape, dtype, data, dim = input.shape, input.dtype, input.data, 0 if input.ndim == 1 else 1
    if dtype.char not in CTYPES or target.shape != shape or (planned := plan(shape, None, dtype, dim, False)) is None:
        return None
    for each in (input, target) if weight is None else (input, target, weight):
        if not each._c_contiguous or each.dtype is not dtype or each.data.device_id != data.device_id:
            return None
    made, n, _, _, sizes = planned
    out, kept = type(input)(made, dtype), type(input)(shape, dtype) if keeps else None
    beside = (0 if each is None else each.data.ptr for each in (weight, kept))
    values = (data.ptr, out.data.ptr, target.data.ptr, *beside, keep, part)
    if not _kernel_of_shares("shares", dtype.char).run(data.device_id, n * 32, THREADS, *values, *sizes):
        return None
    return out if kept is None else (out, kept)
