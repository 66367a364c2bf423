"""Gradient edges: an output of a node, at which a gradient arrives, named without keeping its tensor alive."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, NamedTuple

from gradlib.backend.array import broadcast_to, device_index, zeros
from gradlib.core.node import Node, Output
from gradlib.core.tensor import AccumulateGrad, Tensor, wrap


class GradientEdge(NamedTuple):
    """Output ``output_nr`` of a node; ``grad`` and ``backward`` take it in the place of the tensor that was there.

    Attributes:
        node: the node.
        output_nr: which of its outputs.
        ownership_token: what keeps the place of one of several outputs alive.
    Source: torch.autograd.graph.GradientEdge; made by ``get_gradient_edge``.
    Example:
        >>> y = gradlib.ones(2, requires_grad=True) * 2
        >>> gradlib.autograd.graph.GradientEdge(y.grad_fn, 0).node.name()
        'MulBackward0'
    """

    node: Any
    output_nr: int
    ownership_token: Node | None = None


def get_gradient_edge(tensor: Tensor) -> GradientEdge:
    """The edge at which the gradient of a tensor is computed; it keeps the graph alive, but not the tensor's values.

    Args:
        tensor: one that requires a gradient.
    Returns: the ``GradientEdge``.
    Raises: RuntimeError for a tensor that does not require gradients.
    Source: torch.autograd.graph.get_gradient_edge.
    Example:
        >>> x = gradlib.ones(2, requires_grad=True)
        >>> edge = gradlib.autograd.graph.get_gradient_edge(x)
        >>> gradlib.autograd.grad((x * 3).sum(), edge)
        (tensor([3., 3.]),)
    """
    node = tensor._node
    if node is None:
        raise RuntimeError("It is not possible to get the gradient edge for a Tensor that does not require gradients")
    if isinstance(node, Output):
        return GradientEdge(node.parent.public, node.index, node)
    return GradientEdge(node.public, 0)


def stand_in(edge: GradientEdge, roots: Iterable[Node] = ()) -> Tensor:
    """A tensor for an edge, of its shape, dtype and device, with no values of its own.

    Args:
        edge: the edge.
        roots: where the walk will begin: the place of one of several outputs is looked for below them.
    """
    node: Node = getattr(edge.node, "_node", edge.node)
    if not isinstance(node, Node):
        raise TypeError(f"the node of a GradientEdge is a tensor's grad_fn or what get_gradient_edge gave, got {type(node).__name__}")
    shape, dtype = node.shape, node.dtype
    several = isinstance(dtype, tuple)
    if edge.output_nr not in range(len(dtype) if several else 1):
        raise IndexError(f"{node.name()} has {len(dtype) if several else 1} outputs, the edge names output {edge.output_nr}")
    if several:
        shape, dtype = shape[edge.output_nr], dtype[edge.output_nr]
    array = broadcast_to(zeros((), dtype, _place_of(node, edge.output_nr)), shape)
    if several:
        place = edge.ownership_token or _output(node, edge.output_nr, roots)
        node = place if isinstance(place, Output) else Output(node, edge.output_nr, shape, dtype)
    result = wrap(array)
    result._node = node
    return result


def below(starts: Iterable[Node]) -> Iterator[Node]:
    """The given nodes and every node that can be reached from them, each once, in no particular order."""
    seen = set(starts)
    stack = list(seen)
    while stack:
        node = stack.pop()
        yield node
        for edge in node.edges:
            if edge is not None and edge not in seen:
                seen.add(edge)
                stack.append(edge)


def _place_of(node: Node, index: int) -> int | None:
    """The CUDA device on which output ``index`` of a node lies (None: the host): where its inputs do, down to a leaf or a move."""
    while not isinstance(node, AccumulateGrad):
        if isinstance(node, Output):
            index = node.index
            node = node.parent
        layouts = getattr(node, "outputs", ())  # of a custom Function, which may compute anywhere
        if layouts:
            return layouts[index].device
        if "place" in node.saved_names and node.saved is not None:
            return node.saved[node.saved_names.index("place")]
        below = next((edge for edge in node.edges if edge is not None), None)
        if below is None:
            return None
        node, index = below, 0
    return device_index(node.array)


def _output(parent: Node, index: int, roots: Iterable[Node]) -> Node | None:
    """The node that stands for output ``index`` of ``parent`` in the graph below some nodes."""
    return next((each for each in below(roots) if isinstance(each, Output) and each.parent is parent and each.index == index), None)
