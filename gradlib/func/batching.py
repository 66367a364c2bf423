"""``vmap``: from a function of one example, the function of a batch. Source: torch.func.vmap."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from gradlib.core.batched import Batched
from gradlib.core.modes import skipping
from gradlib.core.random import default_states
from gradlib.core.tensor import Tensor
from gradlib.func.level import Level, check_randomness
from gradlib.func.tree import Structure, broadcast_prefix, flatten, unflatten
from gradlib.ops.join import cat
from gradlib.ops.shape import movedim

__all__ = ["chunk_vmap", "vmap"]


def vmap(
    func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", *, chunk_size: int | None = None
) -> Callable[..., Any]:
    """A function that maps ``func`` over a dimension of its arguments: the results are those of a loop over slices, computed all at once.

    Args:
        func: takes and returns Tensors, or nests (tuples, lists, dicts) of them.
        in_dims: which dimension of each argument to map over; a number for all, or a tuple (nested as the arguments are) of numbers
            and None, for an argument that every call gets as it is. Keyword arguments are always passed as they are.
        out_dims: where that dimension goes in each result; None for a result that is the same for every slice.
        randomness: "error" refuses random operations, "same" draws once for all slices, "different" for each its own.
        chunk_size: map over so many slices at a time, to use less memory; None for all.
    Returns: a function of the batched arguments.
    Raises: ValueError for a chunk_size below 1; when the result is called, ValueError for dims that do not fit the arguments or results,
        RuntimeError for what needs the values of a slice (``.item()``, control flow that depends on data) or gives results of a shape
        that depends on them.
    Source: torch.func.vmap.
    Example:
        >>> gradlib.vmap(gradlib.dot)(gradlib.ones(2, 3), gradlib.ones(2, 3))
        tensor([3., 3.])
    """
    check_randomness(randomness)
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError(f"vmap: chunk_size should be None or greater than 0. (got {chunk_size})")

    @functools.wraps(func)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        values, structure, dims, size = _read(func, in_dims, args)
        if chunk_size is None or chunk_size >= size:
            level = Level(size, randomness)
            with level:
                made = func(*_rows(level, values, dims, structure), **kwargs)
            return _collected(func, level, made, out_dims)
        return _in_chunks(func, values, dims, structure, size, out_dims, randomness, chunk_size, kwargs)

    return mapped


def chunk_vmap(func: Callable[..., Any], in_dims: Any = 0, out_dims: Any = 0, randomness: str = "error", chunks: int = 2) -> Any:
    """``vmap`` over the batch in several parts of about the same size, to use less memory.

    Args:
        func, in_dims, out_dims, randomness: as for ``vmap``.
        chunks: how many parts.
    Returns: as ``vmap``.
    Raises: as ``vmap``.
    Source: functorch.experimental.chunk_vmap.
    Example:
        >>> gradlib.func.chunk_vmap(gradlib.dot, chunks=2)(gradlib.ones(4, 3), gradlib.ones(4, 3))
        tensor([3., 3., 3., 3.])
    """

    @functools.wraps(func)
    def mapped(*args: Any, **kwargs: Any) -> Any:
        size = _read(func, in_dims, args)[3]
        return vmap(func, in_dims, out_dims, randomness, chunk_size=max(-(-size // chunks), 1))(*args, **kwargs)

    return mapped


def name_of(func: Any) -> str:
    return getattr(func, "__name__", None) or repr(func)


# ---- arguments ------------------------------------------------------------------------------------------------------------------


def _read(func: Any, in_dims: Any, args: tuple[Any, ...]) -> tuple[list[Any], Structure, list[Any], int]:
    """The leaves of the arguments, how they were nested, the dimension to map over for each (or None), and its size."""
    said = f"vmap({name_of(func)}, in_dims={in_dims}, ...)(<inputs>)"
    if not isinstance(in_dims, (int, tuple)):
        raise ValueError(
            f"{said}: expected `in_dims` to be int or a (potentially nested) tuple matching the structure of inputs, got: {type(in_dims)}."
        )
    if not args:
        raise ValueError(
            f"vmap({name_of(func)})(<inputs>): got no inputs. Maybe you forgot to add inputs, or you are trying to vmap over a function "
            "with no inputs. The latter is unsupported."
        )
    values, structure = flatten(args)
    dims = broadcast_prefix(in_dims, structure)
    if dims is None:
        raise ValueError(
            f"{said}: in_dims is not compatible with the structure of inputs. in_dims has structure {flatten(in_dims)[1]} but inputs has "
            f"structure {structure}."
        )
    sizes = []
    for place, (value, dim) in enumerate(zip(values, dims, strict=True)):
        if dim is not None:
            _check_dim(said, value, dim)
            dims[place] = dim + value.ndim if dim < 0 else dim
            sizes.append(value.shape[dim])
    if not sizes:
        raise ValueError("vmap: Expected at least one Tensor to vmap over")
    if any(size != sizes[0] for size in sizes):
        raise ValueError(
            f"vmap: Expected all tensors to have the same size in the mapped dimension, got sizes {sizes} for the mapped dimension"
        )
    return values, structure, dims, sizes[0]


def _check_dim(said: str, value: Any, dim: Any) -> None:
    """Refuse to map over anything but a dimension of a Tensor."""
    if not isinstance(dim, int):
        raise ValueError(f"{said}: Got in_dim={dim} for an input but in_dim must be either an integer dimension or None.")
    if not isinstance(value, Tensor):
        raise ValueError(
            f"{said}: Got in_dim={dim} for an input but the input is of type {type(value)}. We cannot vmap over non-Tensor "
            "arguments, please use None as the respective in_dim"
        )
    if not -value.ndim <= dim < value.ndim:
        raise ValueError(
            f"{said}: Got in_dim={dim} for some input, but that input is a Tensor of dimensionality {value.ndim} so expected in_dim "
            f"to satisfy -{value.ndim} <= in_dim < {value.ndim}."
        )


def _rows(level: Level, values: list[Any], dims: list[Any], structure: Structure) -> Any:
    """The arguments as the mapped function gets them: with logical tensors in place of the batched ones."""
    with skipping(level):
        logical = [value if dim is None else _logical(level, value, dim) for value, dim in zip(values, dims, strict=True)]
    return unflatten(logical, structure)


def _logical(level: Level, value: Tensor, dim: int) -> Tensor:
    logical = level.logical(value if dim == 0 else movedim(value, dim, 0))
    if type(logical) is Batched:
        logical.dim_given = dim
    return logical


# ---- results --------------------------------------------------------------------------------------------------------------------


def _collected(func: Any, level: Level, made: Any, out_dims: Any) -> Any:
    """The results with the batch as the dimension that ``out_dims`` gives."""
    values, structure = flatten(made)
    return unflatten([_physical(func, level, v, d) for v, d in zip(values, _out_dims(func, structure, out_dims), strict=True)], structure)


def _out_dims(func: Any, structure: Structure, out_dims: Any) -> list[Any]:
    dims = broadcast_prefix(out_dims, structure) if structure.kind is not None or not isinstance(out_dims, tuple) else None
    if structure.kind is None and isinstance(out_dims, tuple) and len(out_dims) == 1:
        dims = [out_dims[0]]
    if any(not isinstance(d, int) and d is not None for d in flatten(out_dims)[0]):
        raise ValueError(
            f"vmap({name_of(func)}, ..., out_dims={out_dims}): `out_dims` must be an int, None or a python collection of ints representing "
            "where in the outputs the vmapped dimension should appear."
        )
    if dims is None:
        raise ValueError(
            f"vmap({name_of(func)}, ..., out_dims={out_dims})(<inputs>): out_dims is not compatible with the structure of outputs. "
            f"out_dims has structure {flatten(out_dims)[1]} but outputs has structure {structure}."
        )
    return dims


def _physical(func: Any, level: Level, value: Any, dim: int | None) -> Any:
    """The physical tensor of one result, with the batch at dimension ``dim``."""
    if dim is None:
        if level.holds(value):
            raise ValueError(f"vmap({name_of(func)}, ...): `{name_of(func)}` can not return a BatchedTensor when out_dim is None")
        return value
    if not isinstance(value, Tensor):
        raise ValueError(
            f"vmap({name_of(func)}, ...): `{name_of(func)}` must only return Tensors, got type {type(value)}. Did you mean to set "
            "out_dims= to None for output?"
        )
    made = level.physical(value)
    if not -made.ndim <= dim < made.ndim:
        raise IndexError(f"Dimension out of range (expected to be in range of [{-made.ndim}, {made.ndim - 1}], but got {dim})")
    return made if dim == 0 or dim == -made.ndim else movedim(made, 0, dim)


def _in_chunks(
    func: Any, values: list[Any], dims: list[Any], structure: Structure, size: int, out_dims: Any, randomness: str, chunk: int, kwargs: Any
) -> Any:  # fmt: skip
    """Map over ``chunk`` examples at a time, and concatenate the results."""
    states = default_states() if randomness == "same" else ()
    parts: list[list[Any]] = []
    places: list[Any] = []
    made_structure: Any = None
    for start in range(0, size, chunk):
        count = min(chunk, size - start)
        piece = [v if d is None else v.narrow(d, start, count) for v, d in zip(values, dims, strict=True)]
        for generator, state in states:  # so that every part draws the same
            generator.set_state(state)
        level = Level(count, randomness)
        with level:
            made = func(*_rows(level, piece, dims, structure), **kwargs)
        found, made_structure = flatten(made)
        places = _out_dims(func, made_structure, out_dims)
        parts.append([_physical(func, level, v, d) for v, d in zip(found, places, strict=True)])
    joined = [pieces[0] if dim is None else cat(list(pieces), dim) for dim, pieces in zip(places, zip(*parts, strict=True), strict=True)]
    return unflatten(joined, made_structure)


# ---- gradients of many cotangents at once -----------------------------------------------------------------------------------------


def over_rows(function: Callable[..., Any], cotangents: tuple[Any, ...]) -> Any:
    """``function(*examples)`` mapped over the first dimension of the cotangents, for ``is_grads_batched``; it returns Tensors or None."""
    sizes: list[Any] = [g.shape[0] if g.ndim else None for g in cotangents if g is not None]
    if not sizes or None in sizes or any(size != sizes[0] for size in sizes):
        raise RuntimeError(
            f"is_grads_batched=True needs grad_outputs with the same number of cotangents along their first dimensions; got sizes {sizes}"
        )
    level = Level(sizes[0], "error", spreads=False, transforms=False)
    with level:
        made = function(*(None if g is None else level.logical(g) for g in cotangents))
    return tuple(None if d is None else level.physical(d) for d in made)
