"""``grad`` inside vmap: the graph of rows is that of whole values, so gradients are taken beneath the level and seen as rows again."""

from __future__ import annotations

from typing import Any

from gradlib.backend import dtype as dtypes
from gradlib.backend.array import namespace, on_device_of, zeros_like
from gradlib.core.backward import _leading_to, grad
from gradlib.core.batched import Batched, VmapLevel, is_batched_at, levels_of
from gradlib.core.modes import lifted
from gradlib.core.tensor import Tensor, wrap


def grad_of_rows(
    outputs: tuple[Any, ...],
    inputs: tuple[Any, ...],
    cotangents: tuple[Any, ...],
    retain_graph: bool | None,
    create_graph: bool,
    allow_unused: bool | None,
    materialize_grads: bool,
) -> tuple[Tensor | None, ...]:
    """The gradients of rows, for each row its own; arguments as for ``grad``.

    Raises: RuntimeError for a gradient of rows by what is the same for all of them, which would be their sum.
    """
    level = max((each for x in (*outputs, *inputs) for each in levels_of(x)), key=lambda each: each.depth)
    if cotangents and len(cotangents) != len(outputs):
        raise RuntimeError(f"got {len(outputs)} tensors and {len(cotangents)} gradients")
    pairs = list(zip(outputs, cotangents or (None,) * len(outputs), strict=True))
    batched = [(y, g) for y, g in pairs if is_batched_at(level, y)]
    alike = [(y, g) for y, g in pairs if not is_batched_at(level, y)]
    found: dict[int, Tensor | None] = {}
    mine = [i for i, x in enumerate(inputs) if is_batched_at(level, x)]
    others = [i for i in range(len(inputs)) if i not in mine]
    _refuse_sums([y for y, _ in batched], [inputs[i] for i in others])
    if batched and mine:
        whole = [(level.matched(y), _cotangent(level, y, g)) for y, g in batched]
        with lifted(level):
            ys, gs = zip(*whole, strict=True)
            made = grad(ys, [inputs[i].value for i in mine], gs, retain_graph, create_graph, allow_unused=True)
        found |= {i: d if d is None else level.rows(d) for i, d in zip(mine, made, strict=True)}
    if alike and others:
        ys, gs = zip(*alike, strict=True)
        made = grad(ys, [inputs[i] for i in others], gs, retain_graph, create_graph, allow_unused=True)
        found |= dict(zip(others, made, strict=True))
    return tuple(_present(found.get(i), x, i, allow_unused, materialize_grads) for i, x in enumerate(inputs))


def _cotangent(level: VmapLevel, output: Tensor, g: Any) -> Tensor:
    """The cotangent of a whole value: that of its rows, or ones for numbers."""
    if g is None:
        if output.shape.numel() != 1:
            raise RuntimeError(f"grad can be implicitly created only for scalar outputs, got shape {list(output.shape)}; pass gradient=")
        if not dtypes.is_differentiable(output.dtype) or output.dtype.kind == "c":
            raise RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {output.dtype}")
        array = output.value._array
        with on_device_of(array):
            return wrap(namespace(array).ones(array.shape, array.dtype))
    g = g if isinstance(g, Tensor) else wrap(g)
    if g.shape != output.shape:
        raise RuntimeError(f"Mismatch in shape: grad_output has a shape of {list(g.shape)} and output has a shape of {list(output.shape)}.")
    return level.matched(g)


def _refuse_sums(outputs: list[Any], inputs: list[Any]) -> None:
    nodes = {x._node: None for x in inputs if not isinstance(x, Batched)}
    if not outputs or not nodes:
        return
    starts = [y._node for y in outputs if y._node is not None]
    if any(node in nodes for node in _leading_to(starts, nodes)):
        raise RuntimeError(
            "vmap: the gradient of a Tensor that is batched over with respect to one that is the same for all rows would be the sum over "
            "the rows. Use func.grad or func.vjp inside vmap, which give each row its own, or take the gradient outside vmap."
        )


def _present(g: Tensor | None, tensor: Any, number: int, allow_unused: bool | None, materialize: bool) -> Tensor | None:
    if g is None and materialize:
        return tensor.again(_zeros(tensor.value)) if type(tensor) is Batched else _zeros(tensor)
    if g is None and not allow_unused:
        raise RuntimeError(
            "One of the differentiated Tensors appears to not have been used in the graph. Set allow_unused=True if this is the "
            f"desired behavior. It is the Tensor at index {number}, of shape {list(tensor.shape)}."
        )
    return g


def _zeros(tensor: Tensor) -> Tensor:
    if type(tensor) is Batched:
        return tensor.again(_zeros(tensor.value))
    return wrap(zeros_like(tensor._array))
