"""Kernels of gradlib's own for writing values one behind another where a mask holds of a small CuPy array, and for the gradient of these.

Which value comes to an element, its rank, is how many are marked before it: each block counts those before it anew, so that one launch does
all. As in `gradlib.backend.kernel_text`, every other call is CuPy's own.
"""

from __future__ import annotations

import math
from typing import Any

from gradlib.backend.array import Array
from gradlib.backend.copying import WORDS, row_major_copy
from gradlib.backend.kernel_text import spans_of
from gradlib.backend.launching import kernels
from gradlib.backend.placing import WRAPPED

LONGEST = 1 << 16
"""The most elements: of more, counting them for each block takes longer than further launches."""
_BLOCK = 256
_WARPS = _BLOCK // 32


def _ranked(until: str) -> str:
    """The statements that tell of a thread's element i whether it is marked (``here``) and how many are before it (``rank``).

    ``until``: what is looked at beside the block; ``total`` is how many are marked of all that.
    """
    return f"""    __shared__ unsigned sums[3][{_WARPS}];  // marks that each warp finds before the block, in it, and behind it
    const unsigned lane = threadIdx.x % 32, warp = threadIdx.x / 32, start = blockIdx.x * {_BLOCK}, i = start + threadIdx.x;
    auto is_marked = [&](unsigned k) {{ return mask[k / mask_inner % mask_count]; }};
    unsigned before = 0, behind = 0;
    for (unsigned k = threadIdx.x; k < {until}; k += {_BLOCK}) {{
        if (k < start) before += is_marked(k);
        if (k >= start + {_BLOCK}) behind += is_marked(k);
    }}
    for (int bits = 16; bits; bits /= 2) {{
        before += __shfl_xor_sync(0xffffffffu, before, bits);
        behind += __shfl_xor_sync(0xffffffffu, behind, bits);
    }}
    const unsigned marks = __ballot_sync(0xffffffffu, i < n && is_marked(i));
    if (lane == 0) {{
        sums[0][warp] = before;
        sums[1][warp] = __popc(marks);
        sums[2][warp] = behind;
    }}
    __syncthreads();
    const bool here = marks >> lane & 1;
    unsigned rank = __popc(marks & ((1u << lane) - 1)), total = 0;
    for (unsigned w = 0; w < {_WARPS}; w++) {{
        rank += sums[0][w] + (w < warp ? sums[1][w] : 0);
        total += sums[0][w] + sums[1][w] + sums[2][w];
    }}
"""


def source(itemsize: int) -> str:
    """The kernels for elements of a size: ``spread``, of values over the marked elements, and ``collected``, which brings these back.

    The mask broadcasts, and so does x, which is null where z itself is written: element i has that at ``i / inner % count``. ``one``: g is
    one element for all. A place among the values is called ``indices`` and their number ``adim``, as in CuPy's kernels, by which hostcuda
    finds places outside.
    """
    word, mask = WORDS[itemsize], "const bool* mask, unsigned mask_inner, unsigned mask_count"
    values = f"const {word}* x, unsigned x_inner, unsigned x_count, const {word}* values, long long adim"
    return f"""
extern "C" __global__ void gradlib_spread({values}, {mask}, {word}* z, unsigned n) {{
{_ranked("start && k < n")}    if (here) {{
        const long long indices = rank;
        {WRAPPED.format("        ")}        z[i] = values[at];
    }} else if (x && i < n) {{
        z[i] = x[i / x_inner % x_count];
    }}
}}
extern "C" __global__ void gradlib_collected(const {word}* g, bool one, unsigned size, {mask}, {word}* z, unsigned n) {{
{_ranked("n")}    if (here && rank < size) z[rank] = g[one ? 0 : i];
    if (i >= total && i < size) z[i] = 0;
}}
"""


_kernel = kernels(source)


def _lies_beside(array: Any, char: str, like: Array) -> bool:
    """Whether an array of that dtype lies where another does."""
    return type(array) is type(like) and array.dtype.char == char and array.data.device_id == like.data.device_id


def spread(input: Array, mask: Any, values: Any, into: bool = False) -> Array | None:
    """A CuPy array with the first of the values, in order, where a mask holds, both broadcast. ``into``: written into it.

    Returns: None where no kernel serves it.
    """
    dtype = input.dtype
    if dtype.itemsize not in WORDS or not (_lies_beside(mask, "?", input) and _lies_beside(values, dtype.char, input)):
        return None
    met = spans_of(input.shape, mask.shape) if values.size else None
    if met is None or met[1] > LONGEST:
        return None
    shape, n, spans = met
    if into:
        memory = input.data.mem
        if shape != input.shape or not input._c_contiguous or mask.data.mem is memory or values.data.mem is memory:
            return None  # what is written would be read
    input = input if input._c_contiguous else row_major_copy(input)
    mask = mask if mask._c_contiguous else row_major_copy(mask)
    values = values if values._c_contiguous else row_major_copy(values)
    out, data = input if into else type(input)(shape, dtype), input.data
    given = (0 if into else data.ptr, *spans[:2], values.data.ptr, values.size, mask.data.ptr, *spans[2:])
    return out if _kernel("spread", dtype.itemsize).run(data.device_id, n, _BLOCK, *given, out.data.ptr, n) else None


def collected(g: Any, mask: Any, shape: tuple[int, ...]) -> Array | None:
    """Zeros of a shape whose first elements are those of g where a mask holds, broadcast: the transpose of ``spread`` for the values.

    Returns: None where no kernel serves it.
    """
    size = math.prod(shape)
    met = spans_of(g.shape, mask.shape) if g.dtype.itemsize in WORDS and _lies_beside(mask, "?", g) else None
    if met is None or met[0] != g.shape or met[1] > LONGEST or not 0 < size <= LONGEST:
        return None
    one = not any(g.strides)
    g = g if one or g._c_contiguous else row_major_copy(g)
    mask = mask if mask._c_contiguous else row_major_copy(mask)
    (_, n, spans), data = met, g.data
    out = type(g)(shape, g.dtype)
    given = (data.ptr, one, size, mask.data.ptr, *spans[2:], out.data.ptr, n)
    return out if _kernel("collected", g.itemsize).run(data.device_id, max(n, size), _BLOCK, *given) else None
