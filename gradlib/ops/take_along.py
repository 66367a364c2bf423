"""Reading and writing along one dimension at places of their own for every element: gather, scatter, and all that picks along a dimension.

``take_along`` and ``put_along`` are each other's transpose; ``scatter`` and ``scatter_add`` write into values that are there.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gradlib.backend.array import Namespace
from gradlib.backend.copying import row_major_copy
from gradlib.backend.flat_index import take_along_axis
from gradlib.backend.scatter import write_along
from gradlib.core.op import op

__all__: list[str] = []


@op(
    "linear", also=("index",), method=False, complex="explicit",
    input=lambda g, index, dim, repeated, input_shape: put_along(g, index, dim, input_shape, repeated),
)  # fmt: skip
def take_along(xp: Namespace, input: Any, index: Any, dim: int, repeated: bool = False) -> Any:
    """The elements at ``index`` along ``dim``; index has the input's rank, and in the other dimensions its sizes or fewer.

    ``repeated`` says that it may name an element twice.
    """
    return take_along_axis(xp, input, index, dim) if input.ndim else input


@op("linear", also=("index",), method=False, complex="explicit", input=lambda g, index, dim, repeated: take_along(g, index, dim, repeated))
def put_along(xp: Namespace, input: Any, index: Any, dim: int, shape: tuple[int, ...], repeated: bool = False) -> Any:
    """Zeros of a shape with the input's elements at (where repeated: added at) ``index``: ``take_along``'s transpose."""
    if not input.ndim:
        return input
    result = xp.zeros(shape, input.dtype)
    write_along("add" if repeated else "put", result, index, dim % input.ndim, input)
    return result


@op(
    "linear", also=("index",), overwrites="into", method=False, complex="explicit",
    input=lambda g, index, dim: scatter_op(g, 0.0, index, dim),
    src=lambda g, index, dim: take_along(g, index, dim, True),
)  # fmt: skip
def scatter_op(xp: Namespace, input: Any, src: Any, index: Any, dim: int, into: bool = False) -> Any:
    """A copy of input whose elements at ``index`` along ``dim`` are replaced by those of src, of index's shape; ``into`` writes input."""
    result = input if into else row_major_copy(input)
    if into and xp is np and np.may_share_memory(index, result):  # NumPy would read it while it writes
        index = index.copy()
    write_along("put", result, index, dim, src)
    return result


@op(
    "linear", also=("index",), overwrites="into", method=False, complex="explicit",
    input=lambda g: g,
    src=lambda g, index, dim: take_along(g, index, dim, True),
)  # fmt: skip
def scatter_add_op(xp: Namespace, input: Any, src: Any, index: Any, dim: int, into: bool = False) -> Any:
    """The same with the elements of src added, where repeats count."""
    result = input if into else row_major_copy(input)
    write_along("add", result, index, dim, src)
    return result
