"""Every form of writing in place: refused before anything has changed, or counted; each in every situation in which a write is refused."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.core import modes
from gradlib.core.op import REGISTRY
from gradlib.core.out import FUNCTIONS
from gradlib.core.tensor import Tensor
from gradlib.core.writes import counted
from gradlib.nn import functional
from tests.ops.case import as_tensors, results
from tests.ops.test_table import CASES
from tests.values import host

Write = Callable[[Tensor], Any]

TURNS = {"squeeze_", "swapaxes_", "swapdims_", "t_", "transpose_", "unsqueeze_"}
NO_WRITES = TURNS | {"as_strided_", "detach_", "requires_grad_", "resize_", "resize_as_", "set_"}
"""What changes a tensor, but none of its elements."""


def places(*values: int) -> Tensor:
    return gradlib.tensor(values)


def two(value: float = 0.5) -> Tensor:
    return gradlib.full((2, 3), value, dtype=gradlib.float64)


def of(name: str, *args: Callable[[Tensor], Any], **named: Any) -> Write:
    """The method of that name; its arguments are made from the tensor that is written."""
    return lambda x: getattr(x, name)(*(arg(x) for arg in args), **named)


class Operand:
    """What the writes below take as operands."""

    requires_grad = False


def like(x: Tensor) -> Tensor:
    return gradlib.ones(x.shape, dtype=x.dtype, requires_grad=Operand.requires_grad)


def row(x: Tensor) -> Tensor:
    return places(0, 1, 0).reshape((1, 3))


def mask(x: Tensor) -> Tensor:
    return gradlib.tensor([True, False]).reshape((2, 1))


BINARY = {
    "add", "atan2", "arctan2", "bitwise_and", "bitwise_left_shift", "bitwise_or", "bitwise_right_shift", "bitwise_xor", "clamp_max",
    "clamp_min", "copy", "copysign", "div", "divide", "eq", "floor_divide", "fmod", "ge", "greater", "greater_equal", "gt", "hypot", "le",
    "less", "less_equal", "logical_and", "logical_or", "logical_xor", "lt", "mul", "multiply", "ne", "nextafter", "not_equal", "pow",
    "remainder", "sub", "subtract", "true_divide",
}  # fmt: skip
UNARY_OPERATORS = {"__iabs__", "__ineg__"}
BINARY_OPERATORS = {
    "__iadd__", "__iand__", "__ieq__", "__ifloordiv__", "__ige__", "__igt__", "__ile__", "__ilshift__", "__ilt__", "__imod__", "__imul__",
    "__ine__", "__ior__", "__ipow__", "__irshift__", "__isub__", "__itruediv__", "__ixor__",
}  # fmt: skip
FORMS: dict[str, Write] = {
    **{f"{name}_": of(f"{name}_", like) for name in sorted(BINARY)},
    **{name: of(name) for name in sorted(UNARY_OPERATORS)},
    **{name: of(name, like) for name in sorted(BINARY_OPERATORS)},
    "addcdiv_": of("addcdiv_", like, like),
    "addcmul_": of("addcmul_", like, like),
    "addmm_": of("addmm_", lambda x: gradlib.ones(2, 2, dtype=x.dtype), like),
    "addmv_": of("addmv_", lambda x: gradlib.ones(3, 2, dtype=x.dtype), lambda x: gradlib.ones(2, dtype=x.dtype)),
    "baddbmm_": of("baddbmm_", lambda x: gradlib.ones(1, 2, 2, dtype=x.dtype), lambda x: gradlib.ones(1, 2, 3, dtype=x.dtype)),
    "clamp_": of("clamp_", lambda x: 0, lambda x: 1),
    "clip_": of("clip_", lambda x: 0, lambda x: 1),
    "cumprod_": of("cumprod_", lambda x: 0),
    "cumsum_": of("cumsum_", lambda x: 0),
    "fill_": of("fill_", lambda x: 7),
    "geometric_": of("geometric_", lambda x: 0.5),
    "index_add_": of("index_add_", lambda x: 0, lambda x: places(0, 1), like),
    "index_copy_": of("index_copy_", lambda x: 0, lambda x: places(0, 1), like),
    "fill_diagonal_": of("fill_diagonal_", lambda x: 7),
    "index_fill_": of("index_fill_", lambda x: 0, lambda x: places(0), lambda x: 7),
    "index_put_": of("index_put_", lambda x: (places(0, 1),), like),
    "index_put_ accumulate": of("index_put_", lambda x: (places(0, 1),), like, accumulate=True),
    "lerp_": of("lerp_", like, lambda x: 0.5),
    "masked_fill_": of("masked_fill_", mask, lambda x: 7),
    "masked_scatter_": of("masked_scatter_", mask, like),
    "scatter_": of("scatter_", lambda x: 0, row, lambda x: like(x)[:1]),
    "scatter_ number": of("scatter_", lambda x: 0, row, lambda x: 7),
    "scatter_ multiply": of("scatter_", lambda x: 0, row, lambda x: 7, reduce="multiply"),
    "scatter_add_": of("scatter_add_", lambda x: 0, row, lambda x: like(x)[:1]),
    "scatter_reduce_": of("scatter_reduce_", lambda x: 0, row, lambda x: like(x)[:1], lambda x: "sum"),
    "x[...] = number": lambda x: x.__setitem__(..., 7),
    "x[...] = tensor": lambda x: x.__setitem__(..., like(x)),
    "x[:, 0:2] = tensor": lambda x: x.__setitem__((slice(None), slice(0, 2)), like(x)[:, :2]),
    "x[places] = number": lambda x: x.__setitem__(places(0, 1), 7),
    "x[places] = tensor": lambda x: x.__setitem__(places(0, 1), like(x)),
    "x[:, places] = tensor": lambda x: x.__setitem__((slice(None), places(0, 1)), like(x)[:, :2]),
    "x[mask] = number": lambda x: x.__setitem__(mask(x)[:, 0], 7),
    "x[mask] = tensor": lambda x: x.__setitem__(mask(x).expand((2, 3)), like(x)[0]),
    "relu(inplace)": lambda x: functional.relu(x, inplace=True),
    "leaky_relu(inplace)": lambda x: functional.leaky_relu(x, inplace=True),
    "elu(inplace)": lambda x: functional.elu(x, inplace=True),
    "silu(inplace)": lambda x: functional.silu(x, inplace=True),
    "dropout(inplace)": lambda x: functional.dropout(x, inplace=True),
}
METHODS = [name for name in dir(Tensor) if name.endswith("_") and not name.startswith("_") and name not in NO_WRITES]
FORMS |= {name: of(name) for name in METHODS if name not in FORMS}
INTEGERS = {name for name in FORMS if name.startswith("bitwise")} | {"__iand__", "__ior__", "__ixor__", "__ilshift__", "__irshift__"}
SHAPES = {"addmv_": (3,), "baddbmm_": (1, 2, 3)}
FLOATS = [name for name in FORMS if name not in INTEGERS]


def values(name: str) -> np.ndarray:
    """What a tensor to be written holds: from 0.1 to 0.6 or whole numbers, so that every form changes something."""
    made = np.linspace(0.1, 0.6, 6).reshape(2, 3) if name not in INTEGERS else np.array([[2, 3, 4], [5, 6, 9]])
    return made.reshape(-1)[:3].copy() if name == "addmv_" else made.reshape(SHAPES.get(name, (2, 3)))


def tensor(name: str) -> Tensor:
    return gradlib.tensor(values(name))


def outcome(write: Write, target: Tensor) -> Exception | None:
    """What a write raises."""
    try:
        write(target)
    except Exception as error:
        return error
    return None


def refuses(error: type[Exception], match: str, target: Tensor, base: Tensor, name: str) -> None:
    """The write is refused, the memory and the version are as before."""
    before, version = host(base).copy(), base.version.count
    raised = outcome(FORMS[name], target)
    assert type(raised) is error, f"{name}: {raised!r}"
    assert match in str(raised), name
    np.testing.assert_array_equal(host(base), before, name)
    assert base.version.count == version, name


@pytest.mark.nonfinite
def test_a_write_changes_memory_and_is_counted_once() -> None:
    for name in FORMS:
        x = tensor(name)
        array = x._array
        FORMS[name](x)
        assert x._array is array, name
        assert x._version == 1, name


@pytest.mark.parametrize("axis", [0, -1])
def test_elements_that_are_one_place(axis: int) -> None:
    for name in FORMS:
        whole = tensor(name)
        if whole.shape[axis] == 1:
            continue
        base = whole.narrow(axis, 0, 1).clone()
        refuses(RuntimeError, "single memory location", base.expand(whole.shape), base, name)


@pytest.mark.host
def test_read_only_memory(tmp_path: Path) -> None:
    for name in FORMS:
        held = values(name)
        frozen = held.tobytes()
        x = gradlib.from_numpy(np.frombuffer(frozen, held.dtype).reshape(held.shape))
        refuses(ValueError, "read-only", x, x, name)
        assert frozen == held.tobytes()
        held.tofile(tmp_path / "values")
        x = gradlib.from_numpy(np.memmap(tmp_path / "values", held.dtype, "r", shape=held.shape))
        refuses(ValueError, "read-only", x, x, name)


def test_what_inference_mode_made_outside_of_it() -> None:
    for name in FORMS:
        with gradlib.inference_mode():
            x = tensor(name)
        refuses(RuntimeError, "inference tensor outside InferenceMode", x, x, name)
        refuses(RuntimeError, "inference tensor outside InferenceMode", x.view(x.shape), x, name)


def test_leaves_and_their_views() -> None:
    for name in FLOATS:
        x = tensor(name).requires_grad_()
        refuses(RuntimeError, "a leaf Variable that requires grad", x, x, name)
        refuses(RuntimeError, "a view of a leaf Variable that requires grad", x.view(x.shape), x, name)


def siblings(x: Tensor) -> list[Tensor]:
    """A view of each kind that comes with others."""
    several = gradlib.stack([x, x]) * 1
    return [several.unbind()[0], several.split(1)[0][0], several.chunk(2)[1].view(x.shape), several.split(1)[1][0].view(x.shape)]


def test_one_of_several_views() -> None:
    for name in FLOATS:
        for part in siblings(tensor(name).requires_grad_()):
            assert part._base is not None
            refuses(RuntimeError, "several views", part, part._base, name)


@pytest.mark.nonfinite
def test_one_of_several_views_of_a_constant(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is the new values that want a gradient, if any do."""
    monkeypatch.setattr(Operand, "requires_grad", True)
    refused = set()
    for name in FLOATS:
        for part in siblings(tensor(name)):
            assert part._base is not None
            before, version = host(part._base).copy(), part._version
            error = outcome(FORMS[name], part)
            if error is None:
                assert part._version == version + 1, name
                assert not part.requires_grad, name
                continue
            assert "several views" in str(error), name
            np.testing.assert_array_equal(host(part._base), before, name)
            assert part._version == version, name
            refused.add(name)
    assert {"add_", "__imul__", "copy_", "index_add_", "index_put_", "scatter_", "masked_scatter_", "x[...] = tensor"} <= refused
    assert {"x[places] = tensor", "x[mask] = tensor", "x[:, 0:2] = tensor", "addmm_", "eq_"} <= refused
    assert not {"exp_", "zero_", "normal_", "x[...] = number", "x[places] = number", "dropout(inplace)"} & refused


def test_views_made_while_nothing_was_recorded() -> None:
    for name in FLOATS:
        x = tensor(name).requires_grad_() * 1
        for mode in (gradlib.no_grad, gradlib.inference_mode):
            with mode():
                view = x.view(x.shape)
            refuses(RuntimeError, "created in no_grad mode", view, x, name)


def test_every_operator_is_among_them() -> None:
    published = {name for name, made in inspect.getmembers(Tensor, callable) if name.startswith("__i") and name.endswith("__")}
    others = {"__init__", "__init_subclass__", "__int__", "__iter__", "__invert__", "__index__"}
    assert published - others == UNARY_OPERATORS | BINARY_OPERATORS


# ---- the tensor itself gets another shape -------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "turn",
    [
        lambda x: x.t_(),
        lambda x: x.squeeze_(),
        lambda x: x.unsqueeze_(0),
        lambda x: x.transpose_(0, 1),
        lambda x: x.resize_(6),
        lambda x: x.set_(two()),
        lambda x: x.as_strided_((3,), (1,)),
    ],
)
def test_shapes_of_what_inference_mode_made(turn: Write) -> None:
    with gradlib.inference_mode():
        x = two()
        turn(x)
        assert x.requires_grad_(False) is x
        x = two()
    with pytest.raises(RuntimeError, match="inference tensor outside InferenceMode"):
        turn(x)
    assert x.shape == (2, 3)


def test_data_of_a_leaf() -> None:
    for x in (two().requires_grad_(), two().requires_grad_() * 1):
        with pytest.raises(RuntimeError, match="must be floating point or complex dtype"):
            x.data = places(1, 2)
        assert x.dtype == gradlib.float64
    y = two()
    y.data = places(1, 2)
    assert y.tolist() == [1, 2]


def test_data_of_another_dtype_is_seen_by_the_next_operation() -> None:
    x = gradlib.ones(3, requires_grad=True)
    (x * x).sum().backward()  # by which an operation knows its dtype
    x.grad = None
    x.data = gradlib.ones(3, dtype=gradlib.int64).double()
    y = x * gradlib.ones(3)
    y.sum().backward()
    assert y.dtype is gradlib.float64
    assert y.grad_fn.dtype == "float64"
    assert x.grad.dtype is gradlib.float64
    y = gradlib.ones(3)
    y * y
    y.data = gradlib.ones(3, dtype=gradlib.int64)
    assert (y * gradlib.ones(3)).dtype is gradlib.float32
    assert (y / y).dtype is gradlib.float32


def test_data_belongs_to_inference_mode_when_its_tensor_does() -> None:
    x = two()
    with gradlib.inference_mode():
        made = two()
        assert not x.data.is_inference()
    with pytest.raises(RuntimeError, match="inference tensor outside InferenceMode"):
        made.data.add_(1)


@pytest.mark.parametrize("mode", [gradlib.no_grad, gradlib.inference_mode])
def test_views_of_what_was_written_since(mode: Any) -> None:
    for write in (lambda x: x.mul_(2), lambda x: x[:1].mul_(2)):
        x = two().requires_grad_() * 1
        with mode():
            stale = x[:1]
        fresh = x[:1]
        write(x)
        with pytest.raises(RuntimeError, match="created in no_grad or inference mode and its base or another view"):
            (stale * 2).sum().backward()
        fresh.sum().backward()
    x = two()
    with mode():
        constant = x[:1]
    x.mul_(2)
    assert (constant.tolist(), constant.requires_grad) == ([[1, 1, 1]], False)


# ---- out= ---------------------------------------------------------------------------------------------------------------------------


class Sampled(modes.observer):
    """Takes down one call of every operation that runs."""

    def __init__(self) -> None:
        self.calls: dict[str, tuple[Any, ...]] = {}

    def begin(self, name: str, seq: int | None, args: tuple[Any, ...]) -> Any:
        if any(isinstance(arg, Tensor) for arg in args):
            self.calls.setdefault(name, args)


def sampled(device: str) -> dict[str, tuple[Any, ...]]:
    """Arguments for every operation that takes ``out=``, from the table of all operations."""
    with Sampled() as seen, np.errstate(all="ignore"):
        for case in CASES:
            case.call(*as_tensors(list(case.inputs(np.random.default_rng(3))), "float64", device))
    return {name: args for name, args in seen.calls.items() if name in REGISTRY and "out" not in REGISTRY[name].params}


def taking(made: list[Tensor], single: bool) -> Any:
    return made[0] if single else tuple(made)


@pytest.mark.nonfinite
def test_out_is_asked_before_it_is_written(device: str) -> None:
    """Every operation, with a buffer of each kind that must not be written."""
    tried = 0
    for name, args in sampled(device).items():
        op = REGISTRY[name]
        positional = len(args) - len(op.keyword_only)
        call = functools.partial(op.call, **dict(zip(op.keyword_only, args[positional:], strict=True)))
        args = args[:positional]
        gradlib.manual_seed(0)
        expected = call(*args)
        single = not isinstance(expected, tuple)
        shapes = [(each.shape, each.dtype) for each in results(expected)]
        if not shapes or any(0 in shape for shape, _ in shapes):
            continue
        fresh = [gradlib.zeros(shape, dtype=dtype) for shape, dtype in shapes]
        gradlib.manual_seed(0)
        call(*args, out=taking(fresh, single))
        for got, want in zip(fresh, results(expected), strict=True):
            np.testing.assert_array_equal(host(got), host(want))
            assert got._version == 1
        for spoil in SPOILED:
            last = spoil(*shapes[-1])
            if last is None:
                continue
            buffers = [*(gradlib.zeros(shape, dtype=dtype) for shape, dtype in shapes[:-1]), last]
            before, versions = [host(b).copy() for b in buffers], [b.version.count for b in buffers]
            with pytest.raises((RuntimeError, ValueError), match=r"single memory|read-only|InferenceMode|automatic differentiation"):
                call(*args, out=taking(buffers, single))
            for buffer, values_before, version in zip(buffers, before, versions, strict=True):
                np.testing.assert_array_equal(host(buffer), values_before)
                assert buffer.version.count == version
            tried += 1
    assert tried > 300


def _expanded(shape: tuple[int, ...], dtype: Any) -> Tensor | None:
    return gradlib.zeros((), dtype=dtype).expand(shape) if any(n > 1 for n in shape) else None


def _read_only(shape: tuple[int, ...], dtype: Any) -> Tensor | None:
    made = gradlib.zeros(shape, dtype=dtype)
    if made.is_cuda:
        return None
    made._array.flags.writeable = False
    return made


def _inference(shape: tuple[int, ...], dtype: Any) -> Tensor:
    with gradlib.inference_mode():
        return gradlib.zeros(shape, dtype=dtype)


def _leaf(shape: tuple[int, ...], dtype: Any) -> Tensor | None:
    return gradlib.zeros(shape, dtype=dtype, requires_grad=True) if dtype.kind in "fc" else None


SPOILED = (_expanded, _read_only, _inference, _leaf)


def made_into() -> dict[str, tuple[Any, ...]]:
    """A call of every function that is no operation and takes ``out=``."""
    x, m = gradlib.tensor([3.0, 1.0, 2.0]), gradlib.tensor([[2.0, 1.0], [1.0, 3.0]])
    i, b, v = gradlib.tensor([0, 2, 1]), m[None], m[0]
    calls: dict[str, tuple[Any, ...]] = {
        "addmm": (m, m, m), "addmv": (v, m, v), "aminmax": (x,), "arange": (3,), "baddbmm": (b, b, b), "bernoulli": (x / 3,),
        "bmm": (b, b), "bucketize": (x, x.sort().values), "cholesky": (m,), "column_stack": ([x, x],), "conj_physical": (x,),
        "cross": (x, x.flip(0), 0), "diag": (x,), "diff": (x,), "dot": (x, x), "dstack": ([x, x],), "eig": (m,), "eigh": (m,),
        "eigvals": (m,), "eigvalsh": (m,),
        "empty": (0,), "eye": (3,), "fftfreq": (4,), "full": ((3,), 2), "gather": (x, 0, i), "gelu": (x,), "hstack": ([x, x],),
        "index_add": (x, 0, i, x), "index_copy": (x, 0, i, x), "index_select": (x, 0, i), "inner": (x, x), "inverse": (m,),
        "isin": (x, x), "kron": (x, x), "linalg_cross": (x, x.flip(0)), "linalg_norm": (x,), "linear": (m, m), "linspace": (0, 1, 3),
        "logspace": (0, 1, 3), "lstsq": (m, m), "masked_select": (x, x > 1), "matrix_norm": (m,), "matrix_power": (m, 2), "mm": (m, m),
        "multi_dot": ([m, m],), "mv": (m, v), "multinomial": (x, 2), "nanmean": (x,), "nonzero": (x,), "norm": (x,), "normal": (x, x),
        "ones": (3,), "outer": (x, x), "pinv": (m,), "qr": (m,), "rand": (3,), "randint": (5, (3,)), "randn": (3,), "randperm": (3,),
        "rfftfreq": (4,), "scatter": (x, 0, i, x), "scatter_add": (x, 0, i, x), "scatter_reduce": (x, 0, i, x, "sum"),
        "searchsorted": (x.sort().values, x), "slogdet": (m,), "solve": (m, m), "solve_triangular": (m, m), "svd": (m,), "svdvals": (m,),
        "take": (x, i), "take_along_dim": (x, i), "tensordot": (x, x, 0), "true_divide": (x, x), "vdot": (x, x), "vecdot": (x, x),
        "vstack": ([x, x],), "zeros": (3,),
    }  # fmt: skip
    complexes = {name: (m.to(gradlib.complex64),) for name in FUNCTIONS if "fft" in name and name not in calls and name not in REALS}
    return calls | complexes | dict.fromkeys(REALS, (m,))


REALS = ("ihfft", "ihfft2", "ihfftn", "rfft", "rfft2", "rfftn")
NAMED = {"solve_triangular": {"upper": True}, "take_along_dim": {"dim": 0}, "bernoulli": {}}
PLACES = (gradlib, gradlib.linalg, gradlib.fft, gradlib.nn.functional)


def function_of(name: str) -> Any:
    if name.startswith("linalg_"):
        return getattr(gradlib.linalg, name.removeprefix("linalg_"))
    return next(found for place in PLACES if callable(found := vars(place).get(name)))


@pytest.mark.parametrize("name", sorted(FUNCTIONS))
def test_functions_write_their_result_into_out(name: str) -> None:
    """What they give without it, into a tensor that fits and into an empty one; refused before a write into what must not be written."""
    call, args, named = function_of(name), made_into()[name], NAMED.get(name, {})
    gradlib.manual_seed(0)
    expected = call(*args, **named)
    single = not isinstance(expected, tuple)
    parts = results(expected)
    for made in ([gradlib.zeros(each.shape, dtype=each.dtype) for each in parts], [gradlib.zeros(0, dtype=each.dtype) for each in parts]):
        gradlib.manual_seed(0)
        returned = call(*args, **named, out=taking(made, single))
        assert all(a is b for a, b in zip(results(returned), made, strict=True))
        for got, want in zip(made, parts, strict=True):
            np.testing.assert_array_equal(host(got), host(want))
            assert got._version == 1
    with pytest.raises(RuntimeError, match="has shape"):
        call(*args, **named, out=taking([gradlib.zeros(7, 7, dtype=each.dtype) for each in parts], single))
    last = parts[-1]
    for spoil in SPOILED:
        spoiled = spoil(last.shape, last.dtype)
        if spoiled is None or name == "empty":
            continue
        with pytest.raises((RuntimeError, ValueError), match=r"single memory|read-only|InferenceMode|automatic differentiation"):
            call(*args, **named, out=taking([*(gradlib.zeros(each.shape, dtype=each.dtype) for each in parts[:-1]), spoiled], single))
        assert not host(spoiled).any()
    if last.dtype == gradlib.float32 and name not in MADE:
        with pytest.raises(RuntimeError, match="can't be cast"):
            call(*args, **named, out=taking([*parts[:-1], gradlib.zeros(last.shape, dtype=gradlib.int16)], single))
        wants = [arg.detach().requires_grad_() if isinstance(arg, Tensor) and arg.is_floating_point() else arg for arg in args]
        if any(isinstance(arg, Tensor) and arg.requires_grad for arg in wants) and name not in ("bernoulli", "multinomial"):
            with pytest.raises(RuntimeError, match="don't support automatic differentiation"):
                call(*wants, **named, out=taking(list(parts), single))


MADE = (
    "arange", "empty", "eye", "fftfreq", "full", "linspace", "logspace", "normal", "ones", "rand", "randint", "randn", "randperm",
    "rfftfreq", "zeros",
)  # fmt: skip


def test_tensors_are_made_in_the_dtype_of_out() -> None:
    for call in (gradlib.zeros, gradlib.randn):
        out = gradlib.ones(2, dtype=gradlib.float64)
        assert call(2, out=out, requires_grad=True) is out
        assert out.requires_grad
    assert gradlib.arange(3, out=gradlib.empty(0)).dtype == gradlib.float32
    with pytest.raises(RuntimeError, match="can't be cast"):
        gradlib.zeros(2, dtype=gradlib.float64, out=gradlib.zeros(2))
    with pytest.raises(TypeError, match="unexpected keyword"):
        gradlib.zeros_like(gradlib.zeros(2), out=gradlib.zeros(2))


def test_means_of_complex_numbers_and_sums_of_integers_into_narrower_dtypes() -> None:
    with pytest.warns(Warning, match="discards the imaginary part"):
        assert gradlib.mean(gradlib.tensor([1 + 2j, 3 - 1j]), 0, out=gradlib.tensor(0.0)).item() == 2
    assert gradlib.nansum(gradlib.tensor([1, 2]), 0, out=gradlib.tensor(False)).item() is True
    with pytest.raises(RuntimeError, match="can't be cast"):
        gradlib.nansum(gradlib.tensor([1.0, 2.0]), 0, out=gradlib.tensor(False))


def test_out_outside_the_graph() -> None:
    x = two().requires_grad_()
    y = x.exp()
    with gradlib.no_grad():
        gradlib.add(x, 1, out=x)
        gradlib.add(x, 1, out=y)
    assert (x.is_leaf, x.requires_grad, x._version, y._version) == (True, True, 1, 1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.sum().backward()


def test_sums_are_computed_in_the_dtype_of_out() -> None:
    for call in (gradlib.sum, gradlib.prod):
        assert call(gradlib.tensor([0.5, 2.5]), out=gradlib.tensor(7)).item() == (2 if call is gradlib.sum else 0)
        assert call(gradlib.tensor([1, 2]), out=gradlib.tensor(False)).item() is True
        assert call(gradlib.tensor([1, 2]), dtype=gradlib.float32, out=gradlib.tensor(0.0)).dtype == gradlib.float32
    for call in (gradlib.cumsum, gradlib.cumprod):
        out = gradlib.zeros(2, dtype=gradlib.int64)
        assert call(gradlib.tensor([1.5, 2.5]), 0, out=out).tolist() == ([1, 3] if call is gradlib.cumsum else [1, 2])


def test_out_of_another_number_of_results() -> None:
    x = two()
    with pytest.raises(TypeError, match="tuple of 2 Tensors"):
        gradlib.sort(x, out=x)
    with pytest.raises(TypeError, match="tuple of 2 Tensors"):
        gradlib.sort(x, out=(x,))
    assert x._version == 0


# ---- other writers ------------------------------------------------------------------------------------------------------------------


def spoiled_leaf(device: str) -> list[Tensor]:
    leaf = gradlib.zeros((), dtype=gradlib.float64).expand(3).detach()
    with gradlib.inference_mode():
        made = [leaf, gradlib.zeros(3, dtype=gradlib.float64)]
    if device == "cpu":
        frozen = np.zeros(3)
        frozen.flags.writeable = False
        made.append(gradlib.from_numpy(frozen))
    return made


def test_gradients_that_cannot_be_added_to(device: str) -> None:
    for held in spoiled_leaf(device):
        x = gradlib.ones(3, dtype=gradlib.float64, requires_grad=True)
        x.grad = held
        with pytest.raises((RuntimeError, ValueError), match=r"single memory|read-only|InferenceMode"):
            (x * 2).sum().backward()
        assert (x.grad is held, host(held).tolist(), held.version.count) == (True, [0, 0, 0], 0)


def test_parameters_that_cannot_be_written(device: str) -> None:
    for held in spoiled_leaf(device):
        if held.is_inference():
            continue
        for optimizer in (gradlib.optim.SGD, gradlib.optim.Adam):
            held.requires_grad_()
            held.grad = gradlib.ones(3, dtype=gradlib.float64)
            with pytest.raises((RuntimeError, ValueError), match=r"single memory|read-only"):
                optimizer([held], lr=0.1).step()
            assert (host(held).tolist(), held._version) == ([0, 0, 0], 0)


def test_refused_before_numbers_are_drawn() -> None:
    x = two().requires_grad_()
    for write in (lambda: x.normal_(), lambda: x.bernoulli_(), lambda: functional.dropout(x, inplace=True)):
        gradlib.manual_seed(4)
        with pytest.raises(RuntimeError, match="leaf"):
            write()
        drawn = gradlib.rand(3).tolist()
        gradlib.manual_seed(4)
        assert gradlib.rand(3).tolist() == drawn


class TestHalfWay:
    """A write that fails after it began is counted, so that what was saved before is stale."""

    @pytest.mark.host
    @pytest.mark.parametrize(
        "write",
        [
            lambda x: x.mul_(1e308),
            lambda x: x.mul_(two(1e308)),
            lambda x: x.index_add_(0, places(0, 1), two(1.7e308)),
            lambda x: x.scatter_add_(0, gradlib.zeros(2, 3, dtype=gradlib.int64), two(1.7e308)),
        ],
    )
    def test_an_overflow(self, write: Write) -> None:
        for recording in (True, False):
            x = two(1e308)
            y = two().requires_grad_() * x
            with gradlib.set_grad_enabled(recording), pytest.raises(FloatingPointError):
                write(x)
            changed = not np.array_equal(host(x), host(two(1e308)))
            assert x._version == int(changed)
            if changed:
                with pytest.raises(RuntimeError, match="modified by an inplace operation"):
                    y[0, 0].backward()

    def test_what_was_refused_is_not(self) -> None:
        x = two()
        with counted(x):
            pass
        assert x._version == 1
        for error, count in ((ValueError, 1), (IndexError, 1), (RuntimeError, 1), (KeyboardInterrupt, 2), (FloatingPointError, 3)):
            with pytest.raises(error), counted(x):
                raise error
            assert x._version == count

    @pytest.mark.parametrize(
        "write",
        [
            lambda x: x.__setitem__(places(0), two()),
            lambda x: x.__setitem__(0, gradlib.ones(4, dtype=gradlib.float64)),
            lambda x: x.index_put_((places(0),), two()),
            lambda x: x.add_(gradlib.ones(3, 3)),
        ],
    )
    def test_places_and_shapes_that_do_not_fit(self, write: Write) -> None:
        for recording in (True, False):
            x = two()
            with gradlib.set_grad_enabled(recording), pytest.raises((IndexError, RuntimeError)):
                write(x)
            assert (x.tolist(), x._version) == (two().tolist(), 0)

    @pytest.mark.host
    def test_places_outside(self) -> None:
        """A device does not ask for them."""
        for recording in (True, False):
            x = two()
            with gradlib.set_grad_enabled(recording), pytest.raises(IndexError):
                x[places(0, 5)] = 1.0
            assert (x.tolist(), x._version) == (two().tolist(), 0)
