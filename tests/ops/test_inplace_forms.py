"""Every in-place form, found by its name: it is the out-of-place one written into the tensor, as one change of its version."""

from __future__ import annotations

import inspect
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.core.tensor import Tensor
from tests.values import host

F64, I64 = gradlib.float64, gradlib.int64


def numbers() -> Tensor:
    return gradlib.tensor([[0.3, 0.9, 0.5], [0.2, 0.7, 0.4]], dtype=F64)


def like() -> Tensor:
    return gradlib.tensor([[0.6, 0.8, 0.1], [0.9, 0.5, 0.3]], dtype=F64)


def index() -> Tensor:
    return gradlib.tensor([[0, 1, 0]], dtype=I64)


def row() -> Tensor:
    return gradlib.tensor([1], dtype=I64)


def whole() -> Tensor:
    return gradlib.tensor([[3, 5, 1], [2, 7, 4]], dtype=I64)


BINARY = {
    "add", "atan2", "arctan2", "div", "divide", "floor_divide", "fmod", "greater", "greater_equal", "gt", "ge", "eq", "ne", "not_equal",
    "hypot", "less", "less_equal", "le", "lt", "logical_and", "logical_or", "logical_xor", "mul", "multiply", "nextafter", "pow",
    "remainder", "copysign", "sub", "subtract", "true_divide",
}  # fmt: skip
ARGUMENTS: dict[str, Any] = {
    **{name: lambda: (like(),) for name in BINARY},
    "acosh": None, "arccosh": None,  # whose domain begins at 1: see below
    "addbmm": None,
    "addcdiv": lambda: (like(), numbers()), "addcmul": lambda: (like(), numbers()),
    "addmm": lambda: (gradlib.ones(2, 2, dtype=F64), like()), "addmv": None, "baddbmm": None,
    "as_strided": lambda: ((2, 2), (3, 1)), "clamp": lambda: (0.3, 0.6), "clip": lambda: (0.3, 0.6), "clamp_max": lambda: (0.5,),
    "clamp_min": lambda: (0.5,), "cumprod": lambda: (1,), "cumsum": lambda: (1,), "gather": lambda: (0, index()),
    "index_add": lambda: (0, row(), like()[:1]), "index_copy": lambda: (0, row(), like()[:1]), "index_fill": lambda: (0, row(), 2.0),
    "index_put": lambda: ((row(),), like()[0]), "lerp": lambda: (like(), 0.3), "masked_fill": lambda: (like() > 0.5, 2.0),
    "masked_scatter": lambda: (like() > 0.5, like()), "scatter": lambda: (0, index(), like()), "scatter_add": lambda: (0, index(), like()),
    "scatter_reduce": lambda: (0, index(), like(), "prod"), "squeeze": lambda: (0,), "swapaxes": lambda: (0, 1),
    "swapdims": lambda: (0, 1), "transpose": lambda: (0, 1), "unsqueeze": lambda: (0,),
}  # fmt: skip
WHOLE = {"bitwise_and", "bitwise_or", "bitwise_xor", "bitwise_left_shift", "bitwise_right_shift"}
ARGUMENTS |= dict.fromkeys(WHOLE, lambda: (gradlib.tensor(2, dtype=I64),))
SHAPES = {"as_strided", "squeeze", "swapaxes", "swapdims", "t", "transpose", "unsqueeze"}
NO_FORM = {"set", "requires_grad", "detach", "new", "resize", "copy", "bernoulli"}  # what they do has no out-of-place form, or another name


def names() -> list[str]:
    """Every pair ``NAME``, ``NAME_`` on Tensor."""
    found = (name[:-1] for name in dir(Tensor) if name.endswith("_") and not name.startswith("_"))
    return sorted(name for name in found if hasattr(Tensor, name) and name not in NO_FORM)


def arguments(name: str) -> tuple[Tensor, tuple[Any, ...]]:
    """A tensor and further arguments for the form."""
    if name in ("acosh", "arccosh"):
        return numbers() + 1, ()
    if name == "addmv":
        return numbers()[0].clone(), (gradlib.ones(3, 2, dtype=F64), like()[:, 0])
    if name == "baddbmm":
        return numbers()[None].clone(), (gradlib.ones(1, 2, 2, dtype=F64), like()[None])
    if name in WHOLE or name == "bitwise_not":
        return whole(), ARGUMENTS.get(name, tuple)()
    if name == "fill":
        return numbers(), (0.5,)
    return numbers(), ARGUMENTS.get(name, tuple)()


def test_many_are_found() -> None:
    assert len(names()) > 100
    assert {"acosh", "add", "scatter_add", "clamp", "squeeze", "masked_fill"} <= set(names())


@pytest.mark.parametrize("name", names())
def test_it_is_the_out_of_place_one_and_one_change_of_the_version(name: str) -> None:
    x, args = arguments(name)
    before = host(x).copy()
    made = getattr(x, name)(*args)
    np.testing.assert_array_equal(host(x), before)
    y = x.clone()
    address = y.data_ptr()
    assert getattr(y, f"{name}_")(*args) is y
    assert y._version == 1
    assert y.data_ptr() == address
    expected = host(made).astype(before.dtype)  # a comparison's bools are written as numbers
    assert y.shape == made.shape
    np.testing.assert_allclose(host(y), expected, rtol=1e-12)


@pytest.mark.parametrize("name", [name for name in names() if name not in WHOLE and name != "bitwise_not"])
def test_its_gradient_is_that_of_the_out_of_place_one(name: str) -> None:
    x, args = arguments(name)
    found = []
    for form in (name, f"{name}_"):
        leaf = x.clone().requires_grad_()
        made = getattr(leaf * 1, form)(*args)
        if not (made.dtype == F64 and made.requires_grad):  # comparisons have no derivative; written in place they cut the history
            found.append(None if form == name else np.zeros(0))
            continue
        (made * gradlib.arange(1, made.numel() + 1, dtype=F64).reshape(made.shape)).sum().backward()
        found.append(host(leaf.grad))
    if found[0] is not None:
        np.testing.assert_allclose(found[1], found[0], rtol=1e-12)


@pytest.mark.parametrize("name", [name for name in names() if name not in WHOLE and name != "bitwise_not"])
def test_a_leaf_that_wants_a_gradient_refuses_it_and_stays_as_it_was(name: str) -> None:
    x, args = arguments(name)
    leaf = x.clone().requires_grad_()
    before = host(leaf).copy()
    with pytest.raises(RuntimeError, match="leaf Variable that requires grad"):
        getattr(leaf, f"{name}_")(*args)
    assert leaf._version == 0
    assert leaf.shape == before.shape
    np.testing.assert_array_equal(host(leaf), before)


@pytest.mark.host
def test_help_shows_the_arguments_of_every_in_place_form() -> None:
    for name in names():
        shown = inspect.signature(getattr(Tensor, f"{name}_")).parameters
        assert not {"args", "kwargs", "out"} & set(shown), name
        assert len(shown) > len(arguments(name)[1]), name


@pytest.mark.host
def test_help_shows_no_argument_that_the_form_gives_itself() -> None:
    assert list(inspect.signature(gradlib.exp_).parameters) == ["input"]
    assert list(inspect.signature(Tensor.eq_).parameters) == ["input", "other"]
    assert list(inspect.signature(Tensor.index_add_).parameters) == ["input", "dim", "index", "source", "alpha"]
    assert list(inspect.signature(Tensor.squeeze_).parameters)[:2] == ["input", "dim"]


@pytest.mark.parametrize("call", [lambda x: x.tanh_(x), lambda x: x.mul_(x, x), lambda x: x.mul_(), lambda x: gradlib.abs_(x, x)])
def test_a_wrong_number_of_arguments_is_told_as_the_operation_tells_it(call) -> None:
    x = numbers()
    with pytest.raises(TypeError, match=r"(tanh|mul|abs)\(\) (takes|missing) \d"):
        call(x)
    assert x._version == 0
