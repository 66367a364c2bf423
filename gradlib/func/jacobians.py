"""Jacobians and Hessians of functions, computed by ``vmap`` over all rows or columns. Source: torch.func."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from gradlib.backend.array import namespace, on_device_of
from gradlib.core.batched import Batched
from gradlib.core.tensor import Tensor, raw, wrap
from gradlib.func.leaves import writable_alias
from gradlib.func.level import Level, check_randomness
from gradlib.func.transforms import Argnums, jvp, places, vjp
from gradlib.func.tree import flatten, map_leaves, unflatten
from gradlib.ops.join import cat, stack

__all__ = ["hessian", "jacfwd", "jacrev"]


def jacrev(
    func: Callable[..., Any],
    argnums: Argnums = 0,
    *,
    has_aux: bool = False,
    chunk_size: int | None = None,
    _preallocate_and_copy: bool = False,
) -> Callable[..., Any]:
    """A function that computes the Jacobian of ``func`` in reverse mode, by one backward for all rows: for few outputs.

    Args:
        func: takes Tensors or nests of them, and returns such.
        argnums: which argument (or arguments) to differentiate by.
        has_aux: whether func returns a pair of its value and anything else.
        chunk_size: how many rows to compute at a time; None for all. With 1 they are computed one after the other, without vmap.
    Returns: a function of func's arguments. For each result (nested as the results) and each argument (nested as it; a tuple for several
        argnums) a Tensor of shape (*result.shape, *argument.shape).
    Raises: ValueError for a chunk_size below 1; RuntimeError for a result that is no floating-point or complex Tensor.
    Source: torch.func.jacrev.
    Example:
        >>> gradlib.func.jacrev(lambda x: x**2)(gradlib.tensor([1.0, 2.0]))
        tensor([[2., 0.],
                [0., 4.]])
    """
    if not (chunk_size is None or chunk_size > 0):
        raise ValueError("jacrev: `chunk_size` should be greater than 0.")

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        _refuse_complex("jacrev", args, "inputs")
        partial, primals, single = _partial(func, args, kwargs, argnums)
        value, pull, *aux = vjp(partial, *primals, has_aux=has_aux)
        _refuse_complex("jacrev", value, "outputs")
        outputs, made_structure = flatten(value)
        given, structure = flatten(primals[0] if single else primals)
        sizes = [y.shape.numel() for y in outputs]
        rows = basis(outputs, sizes)
        back = _over(lambda *each: flatten(pull(unflatten(each, made_structure)))[0], rows, sum(sizes), chunk_size)
        jacobian = []
        for number, y in enumerate(outputs):
            start = sum(sizes[:number])
            blocks = [j.narrow(0, start, sizes[number]).reshape((*y.shape, *x.shape)) for j, x in zip(back, given, strict=True)]
            jacobian.append(unflatten(blocks, structure))
        made = unflatten(jacobian, made_structure)
        return (made, *aux) if has_aux else made

    return wrapper


def jacfwd(func: Callable[..., Any], argnums: Argnums = 0, has_aux: bool = False, *, randomness: str = "error") -> Callable[..., Any]:
    """A function that computes the Jacobian of ``func`` in forward mode, all columns at once: for few inputs.

    Args:
        func, argnums, has_aux: as for ``jacrev``.
        randomness: as for ``vmap``.
    Returns: as ``jacrev``.
    Raises: ValueError for an input that is no Tensor.
    Source: torch.func.jacfwd.
    Example:
        >>> gradlib.func.jacfwd(lambda x: x**2)(gradlib.tensor([1.0, 2.0]))
        tensor([[2., 0.],
                [0., 4.]])
    """
    check_randomness(randomness)

    @functools.wraps(func)
    def wrapper(*args: Any, **kwargs: Any) -> Any:
        _refuse_complex("jacfwd", args, "inputs")
        partial, primals, single = _partial(func, args, kwargs, argnums)
        given, structure = flatten(primals[0] if single else primals)
        inputs, nesting = flatten(primals)
        for value in inputs:
            if not isinstance(value, Tensor):
                raise ValueError(f"Thing passed to transform API must be Tensor, got {type(value)}")
        sizes = [x.shape.numel() for x in inputs]
        level = Level(sum(sizes), randomness, spreads=randomness == "different")
        with level:
            moved = unflatten([level.logical(t) for t in basis(inputs, sizes)], nesting)
            value, ahead, *aux = jvp(partial, primals, moved, has_aux=has_aux)
        _refuse_complex("jacfwd", value, "outputs")
        outputs, made_structure = flatten(value)
        columns = [level.physical(t) for t in flatten(ahead)[0]]
        jacobian = []
        for y, column in zip(outputs, columns, strict=True):
            blocks = []
            for number, x in enumerate(given):
                block = column.narrow(0, sum(sizes[:number]), sizes[number])
                blocks.append(block.movedim(0, -1).reshape((*y.shape, *x.shape)))
            jacobian.append(unflatten(blocks, structure))
        made = unflatten(jacobian, made_structure)
        return (made, *aux) if has_aux else made

    return wrapper


def hessian(func: Callable[..., Any], argnums: Argnums = 0) -> Callable[..., Any]:
    """A function that computes the Hessian of ``func``: ``jacfwd`` of ``jacrev``.

    Args:
        func, argnums: as for ``jacrev``.
    Returns: a function of func's arguments; for a scalar function of one Tensor, a Tensor of shape (*argument.shape, *argument.shape).
    Source: torch.func.hessian.
    Example:
        >>> gradlib.func.hessian(lambda x: (x**3).sum())(gradlib.tensor([1.0, 2.0]))
        tensor([[ 6.,  0.],
                [ 0., 12.]])
    """
    return jacfwd(jacrev(func, argnums), argnums)


def _partial(func: Any, args: tuple[Any, ...], kwargs: dict[str, Any], argnums: Argnums) -> tuple[Any, tuple[Any, ...], bool]:
    """The function of the chosen arguments alone, these arguments, and whether ``argnums`` is a single number."""
    chosen = places(argnums, len(args))

    def partial(*primals: Any) -> Any:
        full = [each if number in chosen else map_leaves(writable_alias, each) for number, each in enumerate(args)]
        for number, value in zip(chosen, primals, strict=True):
            full[number] = value
        return func(*full, **map_leaves(writable_alias, kwargs))

    return partial, tuple(args[n] for n in chosen), isinstance(argnums, int)


def _refuse_complex(called: str, values: Any, what: str) -> None:
    """Refuse complex numbers: a complex Jacobian holds only half of the real one."""
    for number, value in enumerate(flatten(values)[0]):
        if isinstance(value, Tensor) and value.is_complex():
            raise RuntimeError(f"{called}: Expected all {what} to be real but received complex tensor at flattened input idx: {number}")


def basis(values: list[Tensor], sizes: list[int]) -> list[Tensor]:
    """A Tensor (total size, *shape) for each value: its part of the rows of one large identity."""
    total, made = sum(sizes), []
    for number, (value, size) in enumerate(zip(values, sizes, strict=True)):
        array = storage(value)
        with on_device_of(array):
            eye = namespace(array).zeros((total, size), value.dtype)
            start = sum(sizes[:number])
            eye[start : start + size] = namespace(array).eye(size, dtype=value.dtype)
        made.append(wrap(eye.reshape((total, *value.shape))))
    return made


def storage(value: Tensor) -> Any:
    """The array of a Tensor, of a batched one that of all its rows."""
    while type(value) is Batched:
        value = value.value
    return raw(value)


def _over(pull: Callable[..., Any], rows: list[Tensor], total: int, chunk_size: int | None) -> list[Tensor]:
    """Apply ``pull`` to every row of the basis, by vmap, or with ``chunk_size`` 1 in a loop."""
    if chunk_size == 1 and total:
        singles = [pull(*(g[number] for g in rows)) for number in range(total)]
        return [stack(list(each)) for each in zip(*singles, strict=True)]
    step = total if chunk_size is None else chunk_size
    parts = []
    for start in range(0, total, max(step, 1)) if total else (0,):
        count = min(step, total - start)
        level = Level(count, "error", spreads=False)
        with level:
            made = pull(*(level.logical(g.narrow(0, start, count)) for g in rows))
        parts.append([level.physical(d) for d in made])
    return parts[0] if len(parts) == 1 else [cat(list(pieces), 0) for pieces in zip(*parts, strict=True)]
