"""Kernels of gradlib's own that read and write a CuPy array at places that several arrays of integers name together.

First the arrays become one, of places in the leading dimensions read as one; then elements are taken, put or added there. As in
`gradlib.backend.pointwise`, every other call is CuPy's own.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from gradlib.backend.array import Array, cupy
from gradlib.backend.copying import fill
from gradlib.backend.launching import Kernel
from gradlib.backend.pointwise import MOST, THREADS, spans_of

MOST_ARRAYS = 4
"""The most arrays of one index for which there is a kernel."""
_SUMS = {"f": "float", "d": "double", "i": "int", "l": "unsigned long long"}
"""The dtypes to which one atomic instruction adds, and in which it does."""
_WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "unsigned long long"}


def source() -> str:
    """``places_N``: of N arrays that broadcast, each element times a step, all added up; negative ones count from the end.

    ``put_SIZE``, ``add_DTYPE``: ``z[places[k], j] = x[k, j]``, or ``+=``, for rows of ``inner`` elements.
    """
    head = f"    const unsigned i = blockIdx.x * {THREADS} + threadIdx.x;\n    if (i >= n) return;\n"
    kernels = []
    for count in range(1, MOST_ARRAYS + 1):
        each = [f"const long long* p{k}, unsigned inner{k}, unsigned count{k}, long long size{k}, long long step{k}" for k in range(count)]
        steps = "".join(
            f"    long long a{k} = p{k}[i / inner{k} % count{k}] % size{k};\n"
            f"    if (a{k} < 0) a{k} += size{k};\n    at += a{k} * step{k};\n"
            for k in range(count)
        )
        parameters = f"{', '.join(each)}, long long* z, unsigned n"
        kernels.append(
            f'extern "C" __global__ void gradlib_places_{count}({parameters}) {{\n{head}    long long at = 0;\n{steps}    z[i] = at;\n}}\n'
        )
    moved = {f"put_{size}": (word, "z[at] = x[i]") for size, word in _WORDS.items()}
    moved |= {f"add_{char}": (ctype, "atomicAdd(z + at, x[i])") for char, ctype in _SUMS.items()}
    for name, (ctype, statement) in moved.items():
        parameters = f"const {ctype}* x, const long long* places, {ctype}* z, unsigned inner, unsigned n"
        kernels.append(
            f'extern "C" __global__ void gradlib_{name}({parameters}) {{\n'
            f"{head}    const long long at = places[i / inner] * inner + i % inner;\n    {statement};\n}}\n"
        )
    return "".join(kernels)


@cache
def _module() -> Any:
    return cupy().RawModule(code=source(), options=("--std=c++17",), backend="nvrtc")


@cache
def _kernel(name: str, formats: str) -> Kernel:
    return Kernel(formats, lambda device: _module().get_function(f"gradlib_{name}"))


def places(shape: tuple[int, ...], key: tuple[Any, ...], device: int) -> Array | None:
    """The places that arrays of integers name in as many leading dimensions of an array, which are read as one.

    Args:
        shape: that of the indexed array; key: the index; device: where the array lies.
    Returns: int64, of the shape to which the index arrays broadcast; None where no kernel serves them.
    """
    made = cupy().ndarray
    if not 0 < len(key) <= min(MOST_ARRAYS, len(shape)):
        return None
    for each in key:
        if type(each) is not made or each.dtype.char != "l" or not each._c_contiguous or each.data.device_id != device:
            return None
    spans = spans_of(*[each.shape for each in key])
    if spans is None or 0 in shape:
        return None
    given: list[Any] = []
    for d, each in enumerate(key):
        given += [each.data.ptr, *spans[2][2 * d : 2 * d + 2], shape[d], math.prod(shape[d + 1 : len(key)])]
    out, n = made(spans[0], "l"), spans[1]
    return out if _kernel(f"places_{len(key)}", "PIIqq" * len(key) + "PI").run(device, n, THREADS, *given, out.data.ptr, n) else None


def put(target: Array, key: tuple[Any, ...], values: Any, add: bool = False) -> bool:
    """``target[key] = values`` for arrays of integers in a CuPy array, or ``+=``, where repeats all count.

    Args:
        target: contiguous, on the current device.
        key: arrays for the leading dimensions.
        values: an array of the shape of ``target[key]``, or a number.
    Returns: whether it was done, which it is not where no kernel serves it.
    """
    dtype, data, shape = target.dtype, target.data, target.shape
    name = f"add_{dtype.char}" if add else f"put_{dtype.itemsize}"
    if not target._c_contiguous or target.size >= 1 << 31 or (dtype.char not in _SUMS if add else dtype.itemsize not in _WORDS):
        return False
    at = places(shape, key, data.device_id)
    if at is None:
        return False
    wanted, inner = (*at.shape, *shape[len(key) :]), math.prod(shape[len(key) :])
    if type(values) is not type(target):
        number, values = values, type(target)(wanted, dtype)
        fill(values, number)
    elif values.shape != wanted or values.dtype is not dtype or not values._c_contiguous or values.data.mem is data.mem:
        return False
    n = values.size
    if not 0 < n <= MOST or values.data.device_id != data.device_id:
        return False
    return _kernel(name, "PPPII").run(data.device_id, n, THREADS, values.data.ptr, at.data.ptr, data.ptr, inner, n)
