"""The fast path that `core/compile_path.py` writes does what the slow path in `core/dispatch.py` does, whatever the operands are.

On a device, where every dtype of every operation is a kernel to compile, `tests/ops/test_table.py` compares the two.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import product
from typing import Any

import numpy as np
import pytest

import gradlib
from benchmarks.python_calls import python_calls
from gradlib.core import modes
from gradlib.core.tensor import Tensor
from tests.values import host

pytestmark = pytest.mark.nonfinite

SHAPES = {"matrix": (2, 3), "row": (3,), "0-d": (), "empty": (0, 3)}
NUMBERS: dict[str, Any] = {
    "float": 2.5, "int": 3, "bool": True, "complex": 1 + 2j, "None": None, "str": "a",
    "np.float32": np.float32(1.5), "np.float64": np.float64(1.5), "np.int64": np.int64(2), "np.bool": np.bool_(True),
}  # fmt: skip
TENSORS = [
    "float32 matrix", "float64 matrix", "float64 row", "float32 0-d", "float64 0-d", "float32 empty", "float16 matrix", "bfloat16 matrix",
    "int64 matrix", "int64 0-d", "uint8 matrix", "bool matrix", "complex64 matrix",
]  # fmt: skip
LEAVES = [f"{kind} leaf" for kind in TENSORS if kind[:2] not in ("in", "ui", "bo")]
ARRAYS = ["float32 matrix array", "float64 row array", "int64 matrix array"]
KINDS = [*TENSORS, *LEAVES, *ARRAYS, "float32 matrix inference", *NUMBERS]


def operand(kind: str) -> Any:
    """A new operand of that kind, its elements 1, 2, 3, ..."""
    if kind in NUMBERS:
        return NUMBERS[kind]
    dtype, shape, *more = kind.split()
    elements = np.arange(1, 1 + int(np.prod(SHAPES[shape]))).reshape(SHAPES[shape]) % 5
    if "inference" in more:
        with gradlib.inference_mode():
            return gradlib.tensor(elements, dtype=dtype)
    made = gradlib.tensor(elements, dtype=dtype)
    if "array" in more:
        return made._array
    return made.requires_grad_() if "leaf" in more else made


@contextmanager
def slow_path(wanted: bool) -> Iterator[None]:
    """Every operation takes the slow path, as if something unusual were active."""
    modes.activate(wanted)
    try:
        yield
    finally:
        modes.activate(-wanted)


def told(made: Any, leaves: list[Tensor]) -> Any:
    """Everything that a result shows: its class, values, place in the graph, what its node keeps, and the gradients."""
    if isinstance(made, (tuple, list)):
        return [type(made).__name__, *[told(each, leaves) for each in made]]
    if not isinstance(made, Tensor):
        return type(made).__name__, str(getattr(made, "dtype", "")), repr(host(made)) if hasattr(made, "dtype") else repr(made)
    node = made._node
    shown: list[Any] = [type(made).__name__, made.dtype, made.device, made.tolist(), made.requires_grad, made.output_nr]
    shown += [made._base is not None, made._version]
    if node is not None and made.grad_fn is not None:
        named = made.grad_fn
        shown += [named.name(), named.frees, named.shape, named.dtype, [type(edge).__name__ for edge in named.edges]]
        shown += [kept(value) for value in named.saved]
        grads = gradlib.autograd.grad(made, leaves, gradlib.ones_like(made), allow_unused=True, retain_graph=True)
        shown += [None if g is None else (g.dtype, g.tolist()) for g in grads]
    return shown


def kept(value: Any) -> Any:
    if isinstance(value, (tuple, list)):
        return [kept(each) for each in value]
    return (type(value).__name__, str(getattr(value, "dtype", "")), getattr(value, "shape", None) or repr(value))


def outcome(call: Callable[..., Any], operands: list[Any], around: Callable[[], Any]) -> Any:
    """What a call gives, or the error that it ends in."""
    leaves = [x for x in operands if isinstance(x, Tensor) and x.requires_grad]
    try:
        with warnings.catch_warnings(), around():
            warnings.simplefilter("ignore")
            return told(call(*operands), leaves)
    except Exception as error:
        return type(error).__name__, str(error)


def compared(call: Callable[..., Any], kinds: tuple[str, ...], around: Callable[[], Any] = nullcontext) -> None:
    """The same call on new operands of these kinds, on either path."""
    found = []
    for slow in (False, True):
        operands = [operand(kind) for kind in kinds]
        with slow_path(slow):
            found.append(outcome(call, operands, around))
    assert repr(found[0]) == repr(found[1]), kinds


class Watching(modes.observer):
    def begin(self, name: str, seq: int | None, args: tuple[Any, ...]) -> None: ...


def packing() -> Any:
    return modes.saving(lambda t: t.detach() + t if t.is_floating_point() else t, lambda t: t)


MODES = {"recording": nullcontext, "no_grad": gradlib.no_grad, "observed": Watching, "packing": packing}
BINARY = {
    "mul": lambda a, b: a * b, "sub": lambda a, b: a - b, "div": lambda a, b: a / b, "add": gradlib.add, "lt": lambda a, b: a < b,
    "eq": gradlib.eq, "pow": gradlib.pow, "maximum": gradlib.maximum, "bitwise_and": gradlib.bitwise_and,
    "logical_and": gradlib.logical_and, "where": lambda a, b: gradlib.where(operand("bool matrix"), a, b),
    "cat": lambda a, b: gradlib.cat([a, b]),
    "stack": lambda a, b: gradlib.stack((a, b), -1), "masked_fill": lambda a, b: gradlib.masked_fill(a, operand("bool matrix"), b),
}  # fmt: skip
SOME = [
    "float32 matrix", "float64 matrix leaf", "float32 matrix leaf", "float16 matrix leaf", "int64 matrix", "uint8 matrix", "float32 0-d",
    "float64 0-d leaf", "bool matrix", "complex64 matrix leaf", "float32 empty", "float64 row array", "float32 matrix inference",
    "float", "int", "bool", "complex", "np.float32", "np.int64", "None", "str",
]  # fmt: skip


@pytest.mark.host
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", BINARY)
def test_two_operands(name: str, mode: str) -> None:
    for first, second in product(SOME if mode == "recording" else SOME[:5], SOME):
        compared(BINARY[name], (first, second), MODES[mode])


INDEX = [[1, 0], [True, False]]
UNARY: dict[str, Callable[..., Any]] = {
    "sin": gradlib.sin, "square": gradlib.square, "sum": gradlib.sum, "mean": gradlib.mean, "reshape": lambda x: gradlib.reshape(x, (-1,)),
    "transpose": lambda x: x.T, "slice": lambda x: x[1:], "number": lambda x: x[0], "places": lambda x: x[gradlib.tensor(INDEX[0])],
    "second places": lambda x: x[:, gradlib.tensor(INDEX[0])], "mask": lambda x: x[gradlib.tensor(INDEX[1])], "list": lambda x: x[[1, 0]],
    "max": lambda x: x.max(-1), "min": lambda x: gradlib.min(x, 0, True), "sort": gradlib.sort, "topk": lambda x: x.topk(1),
    "median": lambda x: x.median(-1), "cummax": lambda x: x.cummax(0), "unbind": gradlib.unbind, "split": lambda x: gradlib.split(x, 2, -1),
    "svd": lambda x: gradlib.linalg.svd(x, full_matrices=False).S, "eigh": lambda x: gradlib.linalg.eigvalsh(x @ x.T),
    "inv": lambda x: gradlib.linalg.inv(x @ x.T), "layer_norm": lambda x: gradlib.nn.functional.layer_norm(x, (3,)),
    "gather": lambda x: gradlib.gather(x, 0, gradlib.tensor([[0, 1, 0]])), "clamp": lambda x: gradlib.clamp(x, 1, 2),
    "softmax": lambda x: gradlib.softmax(x, -1), "abs": abs, "isnan": gradlib.isnan, "real": gradlib.real, "unique": gradlib.unique,
    "index_put": lambda x: gradlib.index_put(x, (gradlib.tensor(INDEX[0]),), x[0]),
    "embedding": lambda x: gradlib.nn.functional.embedding(gradlib.tensor(INDEX[0]), x), "cumsum": lambda x: gradlib.cumsum(x, 0),
}  # fmt: skip


@pytest.mark.host
@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", UNARY)
def test_one_operand(name: str, mode: str) -> None:
    for kind in KINDS:
        if "matrix" in kind or name not in ("places", "second places", "gather"):  # a device does not refuse what lies outside
            compared(UNARY[name], (kind,), MODES[mode])


LISTS = [
    ("float32 matrix", "float32 matrix leaf", "float32 matrix"), ("float32 matrix leaf", "float64 matrix", "int64 matrix"),
    ("float32 matrix array", "float32 matrix leaf", "float32 matrix array"), ("float32 matrix array",) * 3, ("bool matrix",) * 3,
    ("bfloat16 matrix leaf", "bfloat16 matrix", "float32 0-d"), ("float32 matrix leaf", "None", "float32 matrix"), (), ("str",),
    ("float32 empty", "float32 matrix leaf", "float32 empty leaf"), ("float32 matrix inference", "float32 matrix leaf", "float"),
]  # fmt: skip


@pytest.mark.host
@pytest.mark.parametrize("kinds", LISTS, ids=range(len(LISTS)))
@pytest.mark.parametrize("join", [gradlib.cat, gradlib.stack])
@pytest.mark.parametrize("several", [list, tuple])
def test_lists_give_what_the_slow_path_gives(join: Callable[..., Any], several: Callable[..., Any], kinds: tuple[str, ...]) -> None:
    for mode in MODES.values():
        compared(lambda *x: join(several(x)), kinds, mode)
    if len(kinds) == 3:
        compared(lambda *x: gradlib.where(*x), kinds)
        compared(lambda *x: gradlib.where(x[0] > 1, *x[1:]), kinds)
        compared(lambda *x: gradlib.addcmul(*x), kinds)
        compared(lambda *x: gradlib.lerp(*x), kinds)


TRANSFORMED: dict[str, Callable[..., Any]] = {
    "vmap": lambda f, x: gradlib.func.vmap(f)(x),
    "jvp": lambda f, x: gradlib.func.jvp(f, (x,), (gradlib.ones_like(x),)),
    "grad": lambda f, x: gradlib.func.grad(lambda y: gradlib.sum(f(y)))(x),
    "out": lambda f, x: gradlib.add(f(x), 1.0, out=gradlib.empty_like(f(x))),
    "in place": lambda f, x: f(x).mul_(2.0).add_(x.sum()),
    "saved hooks": lambda f, x: hooked(f, x),
}
FUNCTIONS: dict[str, Callable[..., Any]] = {
    "cat": lambda x: gradlib.cat([x, x * 2]), "stack": lambda x: gradlib.stack([x, x * 2]), "where": lambda x: gradlib.where(x > 2, x, 0.0),
    "max": lambda x: x.max(-1).values, "sort": lambda x: x.sort(-1).values, "index": lambda x: x[gradlib.tensor([1, 0])],
    "mixed": lambda x: x * gradlib.tensor([2.0], dtype="float64"), "integers": lambda x: x * gradlib.tensor([2]), "slice": lambda x: x[1:],
    "unbind": lambda x: x.unbind()[0] * x.unbind()[1],
}  # fmt: skip


def hooked(f: Callable[..., Any], x: Any) -> Any:
    with gradlib.autograd.graph.saved_tensors_hooks(lambda t: t * 1, lambda t: t):
        made = f(x)
    return gradlib.autograd.grad(made.sum(), x) if made.requires_grad else made


@pytest.mark.host
@pytest.mark.parametrize("transform", TRANSFORMED)
@pytest.mark.parametrize("name", FUNCTIONS)
def test_within_transforms(name: str, transform: str) -> None:
    for kind in ("float32 matrix", "float64 matrix leaf", "float16 matrix", "int64 matrix", "complex64 matrix leaf", "bool matrix"):
        compared(lambda x: TRANSFORMED[transform](FUNCTIONS[name], x), (kind,))


FAST: dict[str, Callable[..., Any]] = {
    "int64 * float": lambda x, y: y * 2.5, "int64 + int": lambda x, y: y + 1, "int64 / int64": lambda x, y: y / y,
    "float32 * int64": lambda x, y: x * y, "float32 * float64": lambda x, y: x * x.double(), "float16": lambda x, y: x.half() * x.half(),
    "array": lambda x, y: x + x._array, "cat": lambda x, y: gradlib.cat([x, x]), "stack": lambda x, y: gradlib.stack((x, x)),
    "mixed list": lambda x, y: gradlib.cat([x, y]), "where": lambda x, y: gradlib.where(y > 2, x, 0.0), "index": lambda x, y: x[y[0] % 2],
    "mask": lambda x, y: x[y > 1], "max": lambda x, y: x.max(-1), "sort": lambda x, y: x.sort(), "unbind": lambda x, y: x.unbind(),
    "view of integers": lambda x, y: y.reshape((3, 2))[1:], "svd": lambda x, y: gradlib.linalg.svd(x, full_matrices=False),
    "gather": lambda x, y: gradlib.gather(x, 0, y % 2), "split": lambda x, y: gradlib.split(x, 1), "topk": lambda x, y: x.topk(1),
}  # fmt: skip


def seen_in_dispatch(name: str, around: Callable[[], Any]) -> list[str]:
    """The functions of ``dispatch.py`` that are called, forward and backward."""
    x, y = operand("float32 matrix leaf"), operand("int64 matrix")
    seen: list[str] = []

    def note(frame: Any, event: str, arg: Any) -> None:
        if event == "call" and frame.f_code.co_filename.endswith("dispatch.py"):
            seen.append(frame.f_code.co_name)

    for _ in range(2):
        seen.clear()
        sys.setprofile(note)
        try:
            with around():
                made = FAST[name](x, y)
            first = made[0] if isinstance(made, tuple) else made
            if first.requires_grad:
                first.backward(gradlib.ones_like(first))
        finally:
            sys.setprofile(None)
    return seen


@pytest.mark.parametrize("name", FAST)
def test_what_stays_on_the_fast_path(name: str) -> None:
    assert "slow_path" not in seen_in_dispatch(name, nullcontext)


@pytest.mark.host
@pytest.mark.parametrize("name", FAST)
def test_what_stays_on_a_fast_path_under_hooks_for_saved_tensors(name: str) -> None:
    assert "slow_path" not in seen_in_dispatch(name, packing)


FEW: dict[str, Callable[..., Any]] = {
    "int64 * float": lambda x, y, **_: y * 2.5, "float32 * int64": lambda x, y, **_: x * y, "float16": lambda h, **_: h * h,
    "cat": lambda x, **_: gradlib.cat([x, x]), "mixed list": lambda x, y, **_: gradlib.cat([x, y]),
    "where": lambda x, m, **_: gradlib.where(m, x, 0.0), "places": lambda x, i, **_: x[i], "second places": lambda x, i, **_: x[:, i],
    "mask": lambda x, m, **_: x[m], "slice": lambda x, **_: x[1:, 0], "max": lambda x, **_: x.max(-1), "sort": lambda x, **_: x.sort(),
    "topk": lambda x, **_: x.topk(1), "unbind": lambda x, **_: x.unbind(-1), "split": lambda x, **_: gradlib.split(x, 1, -1),
    "chunk": lambda x, **_: gradlib.chunk(x, 3, -1), "svd": lambda x, **_: gradlib.linalg.svd(x, full_matrices=False),
    "eigh": lambda s, **_: gradlib.linalg.eigh(s), "gather": lambda x, z, **_: gradlib.gather(x, 0, z),
    "solve": lambda s, b, **_: gradlib.linalg.solve(s, b),
    "layer_norm": lambda x, w, **_: gradlib.nn.functional.layer_norm(x, (3,), w, w),
    "half * number": lambda h, **_: h * 2.5, "number / half": lambda h, **_: 3 / h,
    "scatter": lambda x, z, **_: gradlib.scatter(x, 0, z, x), "scatter_add": lambda x, z, **_: gradlib.scatter_add(x, 0, z, x),
    "scatter_reduce": lambda x, z, **_: gradlib.scatter_reduce(x, 0, z, x, "amax"),
    "index_add": lambda x, i, **_: gradlib.index_add(x, 0, i, x), "index_copy": lambda x, i, **_: gradlib.index_copy(x, 0, i, x),
    "index_fill": lambda x, i, **_: gradlib.index_fill(x, 0, i, 2.0), "index_put": lambda x, i, **_: gradlib.index_put(x, (i,), x, True),
    "take_along_dim": lambda x, z, **_: gradlib.take_along_dim(x, z, 0), "einsum": lambda x, **_: gradlib.einsum("ij,kj->ik", x, x),
    "tensordot": lambda x, s, **_: gradlib.tensordot(s, x, 1), "kron": lambda x, s, **_: gradlib.kron(x, s),
    "multi_dot": lambda x, w, **_: gradlib.linalg.multi_dot((x, x.T, x)), "addmm": lambda x, s, **_: gradlib.addmm(x, s, x),
    "vecdot": lambda x, **_: gradlib.linalg.vecdot(x, x),
    "std_mean": lambda x, **_: gradlib.std_mean(x), "nanmean": lambda x, **_: gradlib.nanmean(x),
    "kthvalue": lambda x, **_: gradlib.kthvalue(x, 2, 1), "median": lambda x, **_: gradlib.median(x, 1),
    "meshgrid": lambda w, **_: gradlib.meshgrid(w, w, indexing="ij"), "pinv": lambda s, **_: gradlib.linalg.pinv(s),
    "vstack": lambda x, **_: gradlib.vstack([x, x]), "inner": lambda w, **_: gradlib.inner(w, w),
    "diff": lambda x, **_: gradlib.diff(x), "rot90": lambda x, **_: gradlib.rot90(x), "hstack": lambda x, **_: gradlib.hstack([x, x]),
    "cross_entropy": lambda x, i, **_: gradlib.nn.functional.cross_entropy(x, i),
    "solve_triangular": lambda s, b, **_: gradlib.linalg.solve_triangular(s, b, upper=True),
    "mse_loss": lambda x, **_: gradlib.nn.functional.mse_loss(x, x), "huber_loss": lambda x, **_: gradlib.nn.functional.huber_loss(x, x),
    "recorded row": lambda r, w, **_: r.__setitem__(0, w), "recorded column": lambda r, **_: r.__setitem__((..., 1), 2.0),
    "recorded places": lambda r, w, i, **_: r.__setitem__(i, w), "recorded mask": lambda r, m, **_: r.__setitem__(m, 2.0),
    "recorded sum": lambda r, w, **_: r.add_(w), "recorded sum of a view": lambda v, w, **_: v.add_(w),
    "written row": lambda y, **_: y.__setitem__(0, 7), "written places": lambda y, i, **_: y.__setitem__(i, 7),
}  # fmt: skip


@pytest.mark.host
@pytest.mark.parametrize("name", FEW)
def test_an_operation_is_few_calls(name: str) -> None:
    """Of Python functions, which are what a small operation costs."""
    given = {"x": operand("float32 matrix leaf"), "y": operand("int64 matrix"), "h": operand("float16 matrix leaf")}
    given |= {"m": given["y"] > 2, "z": given["y"] % 2, "i": gradlib.tensor([1, 0]), "w": gradlib.ones(3, requires_grad=True)}
    given |= {"s": gradlib.eye(2).requires_grad_(), "b": gradlib.ones(2, 1, requires_grad=True), "r": given["x"] * 1}
    given["v"] = (given["x"] * 1)[1:]
    FEW[name](**given)  # what is written at the first call
    calls = python_calls(lambda: FEW[name](**given))
    assert 0 < len(calls) <= 20, calls


@pytest.mark.host
def test_a_gradient_that_arithmetic_made_a_number_of_numpy_takes_no_slow_path() -> None:
    """``g / n`` of a 0-d array is one."""
    x = operand("float32 matrix leaf")
    x.mean().backward()
    assert "slow_path" not in python_calls(lambda: x.mean().backward())
