"""Kernels of gradlib's own that read and write a CuPy array at places that several arrays of integers name together.

Several arrays first become one, of places in the leading dimensions read as one; then elements are taken, put or added there. As in
`gradlib.backend.pointwise`, every other call is CuPy's own.

Places count from the end where they are negative; those outside wrap around, as CuPy's own do.
"""

from __future__ import annotations

import math
from functools import cache
from typing import Any

from gradlib.backend.array import Array, cupy, device_array
from gradlib.backend.copying import LETTERS, packed
from gradlib.backend.launching import Kernel, compiled
from gradlib.backend.pointwise import MOST, THREADS, spans_of

MOST_ARRAYS = 4
"""The most arrays of one index for which there is a kernel."""
_SUMS = {"f": "float", "d": "double", "i": "int", "l": "unsigned long long"}
"""The dtypes to which one atomic instruction adds, and in which it does."""
_FOLDED = {"f": "float", "d": "double", "i": "int", "l": "long long"}
"""The dtypes of which there are folds other than sums."""
_FOLDS = {
    "prod": "old * x[i]", "max": "old != old || old >= x[i] ? old : x[i]", "min": "old != old || old <= x[i] ? old : x[i]",
}  # fmt: skip
_WORDS = {1: "unsigned char", 2: "unsigned short", 4: "unsigned", 8: "unsigned long long"}


def source() -> str:
    """``places_N``: of N arrays that broadcast, each element times a step, all added up.

    ``put_SIZE``: ``z[places[k], j] = x[k, j]`` for ``adim`` rows of ``inner`` elements, or ``= number`` where ``x`` is null.
    ``add_DTYPE``: ``z[places[k], j] += x[k, j]``. ``prod_DTYPE``, ``max_DTYPE``, ``min_DTYPE``: the product, the extreme, NaN before all.

    An element of an array is called ``indices`` and the size ``adim``, as in CuPy's kernels, by which hostcuda finds places outside.
    """
    head = f"    const unsigned i = blockIdx.x * {THREADS} + threadIdx.x;\n    if (i >= n) return;\n"
    kernels = []
    for count in range(1, MOST_ARRAYS + 1):
        each = [f"const long long* p{k}, unsigned inner{k}, unsigned count{k}, long long size{k}, long long step{k}" for k in range(count)]
        steps = "".join(
            f"    {{\n        const long long indices = p{k}[i / inner{k} % count{k}], adim = size{k};\n"
            f"        long long a = indices % adim;\n        if (a < 0) a += adim;\n        at += a * step{k};\n    }}\n"
            for k in range(count)
        )
        parameters = f"{', '.join(each)}, long long* z, unsigned n"
        kernels.append(
            f'extern "C" __global__ void gradlib_places_{count}({parameters}) {{\n{head}    long long at = 0;\n{steps}    z[i] = at;\n}}\n'
        )
    moved = {f"put_{size}": (word, "z[at] = x ? x[i] : number") for size, word in _WORDS.items()}
    moved |= {f"add_{char}": (ctype, "atomicAdd(z + at, x[i])") for char, ctype in _SUMS.items()}
    for char, ctype in _FOLDED.items():
        bits = _WORDS[8 if char in "dl" else 4]
        moved |= {f"{name}_{char}": (ctype, _exchanged(ctype, bits, value)) for name, value in _FOLDS.items()}
    for name, (ctype, statement) in moved.items():
        number = f"{ctype} number, " if name.startswith("put") else ""
        parameters = f"{number}const {ctype}* x, const long long* places, {ctype}* z, long long adim, unsigned inner, unsigned n"
        kernels.append(
            f'extern "C" __global__ void gradlib_{name}({parameters}) {{\n'
            f"{head}    const long long indices = places[i / inner];\n    long long at = indices % adim;\n    if (at < 0) at += adim;\n"
            f"    at = at * inner + i % inner;\n    {statement};\n}}\n"
        )
    return "".join(kernels)


def _exchanged(ctype: str, bits: str, value: str) -> str:
    """The statement that makes an element a value of itself, called ``old``, in one step for all threads: by exchanging its bits."""
    return (
        f"{bits}* const where = ({bits}*)(z + at);\n    {bits} seen = *where, held, next;\n    do {{\n"
        f"        {ctype} old, made;\n        held = seen;\n        memcpy(&old, &held, sizeof old);\n        made = {value};\n"
        "        memcpy(&next, &made, sizeof next);\n        seen = atomicCAS(where, held, next);\n    } while (seen != held)"
    )


@cache
def _module() -> Any:
    return compiled(source())


@cache
def _kernel(name: str, formats: str) -> Kernel:
    return Kernel(formats, lambda device: _module().get_function(f"gradlib_{name}"))


def _is_served(index: Any, device: int) -> bool:
    """Whether a kernel reads an index array."""
    return type(index) is device_array() and index.dtype.char == "l" and index._c_contiguous and index.data.device_id == device


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
        if not _is_served(each, device):
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
    dtype, char = target.dtype, target.dtype.char
    if add:
        return char in _SUMS and _put(f"add_{char}", target, key, values, "")
    return dtype.itemsize in _WORDS and _put(f"put_{dtype.itemsize}", target, key, values, LETTERS.get(char, "Q"))


def fold(name: str, target: Array, key: tuple[Any, ...], values: Any) -> bool:
    """``put`` of products ("prod"), or of the largest ("max") or smallest ("min") of an element and all that comes there."""
    return target.dtype.char in _FOLDED and _put(f"{name}_{target.dtype.char}", target, key, values, "")


def _put(name: str, target: Array, key: tuple[Any, ...], values: Any, letter: str) -> bool:
    """Launch a kernel. ``letter``: of the number that it takes in the place of values, as ``struct`` packs it; empty for none."""
    data, shape, source = target.data, target.shape, 0
    numbers: tuple[Any, ...] = ()
    if not target._c_contiguous or target.size >= 1 << 31 or not 0 < len(key) <= len(shape) or 0 in shape:
        return False
    if len(key) == 1 and _is_served(key[0], data.device_id) and key[0].data.mem is not data.mem:  # which the kernel may write
        at = key[0]
    elif (made := places(shape, key, data.device_id)) is not None:
        at = made
    else:
        return False
    rest = shape[len(key) :]
    n = at.size * math.prod(rest)
    if not 0 < n <= MOST:
        return False
    if type(values) is type(target):
        if values.shape != (*at.shape, *rest) or values.dtype is not target.dtype or not values._c_contiguous:
            return False
        if values.data.mem is data.mem or values.data.device_id != data.device_id:
            return False
        numbers, source = (0,) if letter else (), values.data.ptr
    elif (number := packed(values, target.dtype) if letter else None) is not None:
        numbers = (number,)
    else:
        return False
    rows, inner = math.prod(shape[: len(key)]), math.prod(rest)
    return _kernel(name, f"{letter}PPPqII").run(data.device_id, n, THREADS, *numbers, source, at.data.ptr, data.ptr, rows, inner, n)
