"""``grad`` inside vmap. The graph is recorded on physical tensors: gradients are taken there, outside the level, and wrapped again."""

from __future__ import annotations

from typing import Any

from gradlib.backend import dtype as dtypes
from gradlib.backend.array import namespace, on_device_of
from gradlib.core.backward import grad, leading_to
from gradlib.core.batched import Batched, VmapLevel, is_batched_at
from gradlib.core.modes import skipping
from gradlib.core.tensor import Tensor, wrap


def grad_of_batched(
    level: VmapLevel, outputs: tuple[Any, ...], inputs: tuple[Any, ...], cotangents: tuple[Any, ...], retain_graph: bool | None,
    create_graph: bool,
) -> tuple[Tensor | None, ...]:  # fmt: skip
    """``grad`` where outputs or inputs are logical tensors of a level: each example gets its own; None for an input that is not used.

    Raises: RuntimeError for the gradient of a logical tensor with respect to a tensor that is not batched: it would be a sum over all.
    """
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
        physical = [(level.physical(y), _cotangent(level, y, g)) for y, g in batched]
        with skipping(level):
            ys, gs = zip(*physical, strict=True)
            made = grad(ys, [inputs[i].value for i in mine], gs, retain_graph, create_graph, allow_unused=True)
        found |= {i: d if d is None else level.logical(d) for i, d in zip(mine, made, strict=True)}
    if alike and others:
        ys, gs = zip(*alike, strict=True)
        made = grad(ys, [inputs[i] for i in others], gs, retain_graph, create_graph, allow_unused=True)
        found |= dict(zip(others, made, strict=True))
    return tuple(found.get(i) for i in range(len(inputs)))


def _cotangent(level: VmapLevel, output: Batched, g: Any) -> Tensor:
    """The cotangent of an output's physical tensor: the given one, or ones if each example is a scalar."""
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
    return level.physical(g)


def _refuse_sums(outputs: list[Any], inputs: list[Any]) -> None:
    nodes = {x._node: None for x in inputs if not isinstance(x, Batched)}
    if not outputs or not nodes:
        return
    starts = [y._node for y in outputs if y._node is not None]
    if any(node in nodes for node in leading_to(starts, nodes)):
        raise RuntimeError(
            "vmap: the gradient of a Tensor that is batched over with respect to one that is the same for all examples would be the sum "
            "over the examples. Use func.grad or func.vjp inside vmap, which give each example its own, or take the gradient outside vmap."
        )
