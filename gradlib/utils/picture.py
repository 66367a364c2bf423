"""Pictures of the recorded graph: DOT text for Graphviz, and indented text."""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping
from typing import Any, TextIO

from gradlib.autograd.function_node import FunctionNode
from gradlib.backend.array import is_array
from gradlib.core.backward import as_tuple
from gradlib.core.edge import below
from gradlib.core.node import Node, Output
from gradlib.core.saved import Packed, PackedTensor
from gradlib.core.tensor import AccumulateGrad, Tensor

__all__ = ["graphviz", "print_graph"]

Names = Mapping[str, Tensor]


def graphviz(output: Any, names: Names | None = None, *, saved: bool = True) -> str:
    """The graph that recorded a tensor, as DOT text for Graphviz, from the leaves down to the output.

    Each node shows its name, its sequence number and its output's shape and dtype; leaves are boxes, what a node saves stands beside it.
    Write the text to ``graph.dot`` and run ``dot -Tsvg -O graph.dot``.

    Args:
        output: a Tensor or several.
        names: what to call leaves and outputs, such as ``{"x": x}``.
        saved: whether to show what is saved.
    Returns: the text.
    Raises: RuntimeError for a tensor that nothing was recorded for.
    Example:
        >>> x = gradlib.tensor([1.0], requires_grad=True)
        >>> text = gradlib.utils.graphviz(x.exp().sum(), {"x": x})
        >>> text.splitlines()[0], "ExpBackward0" in text
        ('digraph gradlib {', True)
    """
    outputs, known = _outputs(output), _known(names)
    lines = ["digraph gradlib {", "  rankdir=TB;", '  node [shape=ellipse, fontname="monospace", fontsize=10];']
    for node in _nodes(outputs):
        shape = "box" if isinstance(node, AccumulateGrad) else "ellipse"
        lines.append(f"  n{node.seq} [shape={shape}, label={_quoted(_title(node, known), _layout(node))}];")
        for edge in node.edges:
            if edge is not None:
                lines.append(f"  n{_made_by(edge).seq} -> n{node.seq}{_output_label(edge)};")
        for i, text in enumerate(_saved(node) if saved else ()):
            lines.append(f"  n{node.seq}s{i} [shape=note, style=dashed, label={_quoted(*text.split(' ', 1))}];")
            lines.append(f"  n{node.seq}s{i} -> n{node.seq} [style=dashed, arrowhead=none];")
    for i, tensor in enumerate(outputs):
        title = known.get(id(tensor), "output" if len(outputs) == 1 else f"output {i}")
        lines.append(f"  out{i} [shape=box, style=rounded, label={_quoted(title, _size(tensor.shape, tensor.dtype))}];")
        lines.append(f"  n{_made_by(tensor._node).seq} -> out{i}{_output_label(tensor._node)};")
    return "\n".join([*lines, "}", ""])


def print_graph(output: Any, names: Names | None = None, *, saved: bool = True, file: TextIO | None = None) -> None:
    """Print the graph that recorded a tensor, from the output to the leaves.

    Under each node stands what made its input; where there are several inputs, each begins with a dash, indented.

    Args:
        output, names, saved: as for ``graphviz``.
        file: where to, standard output by default.
    Raises: RuntimeError for a tensor that nothing was recorded for.
    Example:
        >>> x = gradlib.tensor([1.0], requires_grad=True)
        >>> gradlib.utils.print_graph(x.exp().sum().square(), {"x": x}, saved=False)
        SquareBackward0 (seq ...), [] float32
        SumBackward0 (seq ...), [] float32
        ExpBackward0 (seq ...), [1] float32
        leaf x, [1] float32
    """
    known = _known(names)
    seen: set[Node] = set()
    stack = [(tensor._node, "", "") for tensor in reversed(_outputs(output))]
    while stack:
        edge, start, indent = stack.pop()
        node = _made_by(edge)
        text = f"{start}{_title(node, known)}, {_layout(node)}"
        if isinstance(edge, Output):
            text += f", output {edge.index}"
        if node in seen and not isinstance(node, AccumulateGrad):
            print(f"{text} (see above)", file=file or sys.stdout)
            continue
        seen.add(node)
        kept = _saved(node) if saved else []
        print(f"{text}{', saves ' if kept else ''}{', '.join(kept)}", file=file or sys.stdout)
        inputs = [each for each in node.edges if each is not None]
        several = len(inputs) > 1
        stack += [(each, indent + "- " * several, indent + "  " * several) for each in reversed(inputs)]


def _outputs(output: Any) -> tuple[Tensor, ...]:
    outputs = as_tuple(output)
    for tensor in outputs:
        if not isinstance(tensor, Tensor):
            raise TypeError(f"the graph is shown of Tensors, got {type(tensor).__name__}")
        if tensor._node is None:
            raise RuntimeError("nothing was recorded for this tensor: it does not require grad and does not have a grad_fn")
    return outputs


def _known(names: Names | None) -> dict[int, str]:
    """The names by the identity of what they name: a tensor, or the end of the graph at a leaf."""
    found: dict[int, str] = {}
    for name, tensor in (names or {}).items():
        found[id(tensor)] = name
        if isinstance(tensor._node, AccumulateGrad):
            found[id(tensor._node)] = name
    return found


def _nodes(outputs: tuple[Tensor, ...]) -> list[Node]:
    """Every node but those that only stand for one of several outputs, in the order in which they were made."""
    reached = below([tensor._node for tensor in outputs if tensor._node is not None])
    return sorted((node for node in reached if not isinstance(node, Output)), key=lambda node: node.seq)


def _made_by(edge: Any) -> Node:
    return edge.parent if isinstance(edge, Output) else edge


def _output_label(edge: Any) -> str:
    return f' [label="output {edge.index}"]' if isinstance(edge, Output) else ""


def _title(node: Node, known: dict[int, str]) -> str:
    if isinstance(node, AccumulateGrad):
        return f"leaf {known[id(node)]}" if id(node) in known else f"leaf (seq {node.seq})"
    return f"{node.name()} (seq {node.seq})"


def _layout(node: Node) -> str:
    if not isinstance(node.dtype, tuple):
        return _size(node.shape, node.dtype)
    return ", ".join(_size(shape, dtype) for shape, dtype in zip(node.shape, node.dtype, strict=True))


def _size(shape: Any, dtype: Any) -> str:
    return f"{list(shape or ())} {getattr(dtype, 'name', dtype)}"


def _saved(node: Node) -> list[str]:
    """A text for each tensor that a node keeps: its name and what it looks like. Nothing is unpacked or checked."""
    if isinstance(node, FunctionNode):
        kept: list[Any] = [getattr(each, "value", None) for each in node.saved or ()]
        return list(_each("saved_tensors", kept))
    values = node.saved.values if isinstance(node.saved, Packed) else node.saved or ()
    return [text for name, value in zip(node.saved_names, values, strict=False) for text in _each(name, value)]


def _each(name: str, value: Any) -> Iterator[str]:
    """A text for a tensor, for each in a list, none for anything else."""
    if isinstance(value, PackedTensor):
        yield f"{name} packed as {type(value.form).__name__}"
    elif isinstance(value, Tensor) or is_array(value):
        yield f"{name} {_size(value.shape, value.dtype)}"
    elif isinstance(value, (list, tuple)):
        for i, each in enumerate(value):
            yield from _each(f"{name}[{i}]", each)


def _quoted(*lines: str) -> str:
    """A DOT string of several lines."""
    text = "\\n".join(line.replace("\\", "\\\\").replace('"', '\\"') for line in lines)
    return f'"{text}"'
