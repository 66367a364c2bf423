"""Pictures of the graph: what stands in the DOT text and in the printed one."""

from __future__ import annotations

import io
import re
from typing import Any

import pytest

import gradlib
from gradlib.autograd import Function
from gradlib.autograd.graph import saved_tensors_hooks
from gradlib.utils import graphviz, print_graph
from tests.values import host


class Both(Function):
    """Two results of one tensor."""

    @staticmethod
    def forward(ctx: Any, x: Any) -> Any:
        ctx.save_for_backward(x)
        return x * 2, x * 3

    @staticmethod
    def backward(ctx: Any, g: Any, h: Any) -> Any:
        return 2 * g + 3 * h


def printed(*args: Any, **kwargs: Any) -> list[str]:
    """The printed lines, with sequence numbers counted from the smallest."""
    file = io.StringIO()
    print_graph(*args, file=file, **kwargs)
    return counted(file.getvalue()).splitlines()


def counted(text: str) -> str:
    """The text with sequence numbers replaced by their rank."""
    numbers = sorted({int(n) for n in re.findall(r"\(seq (\d+)\)|\bn(\d+)\b", text) for n in n if n})
    rank = {number: i for i, number in enumerate(numbers)}
    return re.sub(r"(\(seq |\bn)(\d+)", lambda m: f"{m[1]}{rank[int(m[2])]}", text)


@pytest.fixture
def x() -> gradlib.Tensor:
    return gradlib.ones(2, 3, requires_grad=True)


def test_a_printed_graph(x: gradlib.Tensor) -> None:
    w = gradlib.ones(3, dtype=gradlib.float64, requires_grad=True)
    y = (x.exp() * w).sum()
    assert printed(y, {"x": x}) == [
        "SumBackward0 (seq 3), [] float64",
        "MulBackward0 (seq 2), [2, 3] float64, saves other [3] float64, input [2, 3] float32",
        "- ExpBackward0 (seq 1), [2, 3] float32, saves out [2, 3] float32",
        "  leaf x, [2, 3] float32",
        "- leaf (seq 0), [3] float64",
    ]
    assert printed(y, saved=False)[1] == "MulBackward0 (seq 3), [2, 3] float64"


def test_what_was_shown_is_not_repeated(x: gradlib.Tensor) -> None:
    y = x.exp()
    assert printed(y * y, {"x": x}, saved=False) == [
        "MulBackward0 (seq 1), [2, 3] float32",
        "- ExpBackward0 (seq 0), [2, 3] float32",
        "  leaf x, [2, 3] float32",
        "- ExpBackward0 (seq 0), [2, 3] float32 (see above)",
    ]


def test_several_outputs(x: gradlib.Tensor) -> None:
    a, b = Both.apply(x)
    assert printed([a, b], {"x": x}) == [
        "BothBackward (seq 0), [2, 3] float32, [2, 3] float32, output 0, saves saved_tensors[0] [2, 3] float32",
        "leaf x, [2, 3] float32",
        "BothBackward (seq 0), [2, 3] float32, [2, 3] float32, output 1 (see above)",
    ]
    text = counted(graphviz([a, b], {"first": a}))
    assert '  n1 -> out0 [label="output 0"];' in text
    assert '  out0 [shape=box, style=rounded, label="first\\n[2, 3] float32"];' in text
    assert '  out1 [shape=box, style=rounded, label="output 1\\n[2, 3] float32"];' in text


def test_lists_packed_and_freed_values(x: gradlib.Tensor) -> None:
    with saved_tensors_hooks(lambda t: t.tolist(), lambda values: pytest.fail("unpacked")):
        y = x.exp()
    assert printed(y)[0].endswith(", saves out packed as list")
    z = x.exp()
    z.sum().backward()
    assert printed(z)[0].endswith("[2, 3] float32")
    picked = gradlib.index_put(x, (gradlib.tensor([0]),), gradlib.ones(3))
    assert printed(picked)[0].endswith(", saves indices[0] [1] int64")


def test_dot_text(x: gradlib.Tensor) -> None:
    y = x.exp().sum()
    assert counted(graphviz(y, {'the "x"': x, "loss": y})) == "\n".join(
        [
            "digraph gradlib {",
            "  rankdir=TB;",
            '  node [shape=ellipse, fontname="monospace", fontsize=10];',
            '  n0 [shape=box, label="leaf the \\"x\\"\\n[2, 3] float32"];',
            '  n1 [shape=ellipse, label="ExpBackward0 (seq 1)\\n[2, 3] float32"];',
            "  n0 -> n1;",
            '  n1s0 [shape=note, style=dashed, label="out\\n[2, 3] float32"];',
            "  n1s0 -> n1 [style=dashed, arrowhead=none];",
            '  n2 [shape=ellipse, label="SumBackward0 (seq 2)\\n[] float32"];',
            "  n1 -> n2;",
            '  out0 [shape=box, style=rounded, label="loss\\n[] float32"];',
            "  n2 -> out0;",
            "}",
            "",
        ]
    )
    assert "note" not in graphviz(y, saved=False)


def test_views_and_writes(x: gradlib.Tensor) -> None:
    b = x * 1
    b[0].mul_(2.0)
    names = [line.split(" (")[0] for line in printed(b, saved=False)]
    assert names == ["CopySlices", "- MulBackward0", "  leaf", "- MulBackward0", "  SliceBackward0", "  MulBackward0"]


def test_a_graph_that_is_recorded_backward(x: gradlib.Tensor) -> None:
    (g,) = gradlib.autograd.grad(x.exp().sum(), x, create_graph=True)
    names = {line.lstrip("- ").split(" ")[0] for line in printed(g)}
    assert {"MulBackward0", "ExpBackward0", "leaf"} <= names


def test_deep_graphs_do_not_recurse_or_creep_to_the_right(x: gradlib.Tensor) -> None:
    y = x
    for _ in range(3000):
        y = -y
    lines = printed(y)
    assert len(lines) == 3001
    assert max(map(len, lines)) < 40
    assert graphviz(y).count("NegBackward0") == 3000


def test_prints_to_standard_output(x: gradlib.Tensor, capsys: pytest.CaptureFixture[str]) -> None:
    print_graph(x * 2)
    assert capsys.readouterr().out.startswith("MulBackward0 (seq ")


def test_nothing_recorded_and_arrays_are_refused(x: gradlib.Tensor) -> None:
    with pytest.raises(RuntimeError, match="nothing was recorded"):
        graphviz(gradlib.ones(2))
    with pytest.raises(TypeError, match="the graph is shown of Tensors, got ndarray"):
        print_graph(host(gradlib.ones(2)))
