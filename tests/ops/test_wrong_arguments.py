"""A wrong argument of a public function or method is refused by its name: every call of the tables' rows, with one argument exchanged."""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Iterator
from types import ModuleType
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.autograd.forward_ad import dual_level, make_dual
from gradlib.core.arguments import is_of, kind_of, refuse_wrong
from gradlib.core.tensor import Tensor
from tests.ops.case import as_tensors
from tests.ops.test_table import CASES

pytestmark = pytest.mark.host

SPACES: tuple[ModuleType | type, ...] = (gradlib, gradlib.fft, gradlib.linalg, gradlib.nn.functional, Tensor)


MODULES = ("gradlib.ops", "gradlib.core.op", "gradlib.core.inplace")


class Odd:
    """What no function takes."""


WRONG = (Odd(), [Odd()], None)

X, WHOLE = gradlib.tensor([[1.5, 2.5, 3.5], [0.5, 0.25, 1.0]]), gradlib.tensor([4, 8])
CALLS: dict[str, tuple[Any, ...]] = {
    "as_strided_": (X, (2,), (1,)), "bernoulli": (X / 4,), "cauchy_": (X,), "copy_": (X, X), "detach": (X,), "detach_": (X,),
    "dropout": (X,), "empty_like": (X,), "exponential_": (X,), "fill_diagonal_": (X, 1.0), "full_like": (X, 2.0), "geometric_": (X, 0.5),
    "is_complex": (X,), "is_conj": (X,), "is_floating_point": (X,), "is_inference": (X,), "is_neg": (X,), "is_nonzero": (X[0, 0],),
    "is_same_size": (X, X), "is_signed": (X,), "log_normal_": (X,), "multinomial": (X, 1), "normal_": (X,), "numel": (X,),
    "ones_like": (X,), "rand_like": (X,), "randint_like": (X, 3), "randn_like": (X,), "random_": (X,), "resize_as_": (X, X),
    "set_": (X, X), "swapdims": (X, 0, 1), "type_as": (X, X), "uniform_": (X,), "zero_": (X,), "zeros_like": (X,),
    "arange": (3,), "eye": (3,), "full": ((2,), 1.0), "linspace": (0, 1, 3), "logspace": (0, 1, 3), "randperm": (3,),
    "tril_indices": (3, 3), "triu_indices": (3, 3), "scalar_tensor": (2.0,), "zeros": ((2,),), "ones": ((2,),), "empty": ((2,),),
    "rand": ((2,),), "randn": ((2,),), "randint": (3, (2,)), "normal": (X, X), "fftfreq": (3,), "rfftfreq": (3,),
    "new_zeros": (X, (2,)), "new_ones": (X, (2,)), "new_empty": (X, (2,)), "new_full": (X, (2,), 1.0), "resize_": (X, 6),
    "mul": (X, X), "floor_divide": (X, X), "remainder": (X, X), "bitwise_right_shift": (WHOLE, WHOLE), "imag": (X * 1j,),
    "split_with_sizes": (X, [1, 1]), "vector_norm": (X,), "hfft2": (X,), "irfft2": (X,), "bernoulli_": (X, 0.5), "unfold": (X, 0, 2, 1),
    "view": (X, 6), "repeat": (X, 2, 2),
}  # fmt: skip
"""Calls of what no row of the tables calls by its name."""

ANYTHING = """
    as_tensor asarray bfloat16 bool broadcast_shapes byte cdouble cfloat char contiguous cpu cuda double float from_dlpack from_numpy half
    int is_tensor long new new_tensor short type
"""
"""What takes anything, or nothing but the tensor that it is a method of."""


def is_named(name: str, alias_of: str, argument: str, value: Any, text: str) -> bool:
    """Whether an error's text names the function, the argument and what it was given. A shape may be said to be none in its own words."""
    if text.startswith("a shape must be integers or a tuple of them, got "):
        return True
    name = KNOWN_AS.get(name, name.removeprefix("new_"))
    named = argument if argument not in UNNAMED else r"\w+"
    return (
        re.match(rf"(linalg_)?({name}|{alias_of})\(\): argument '{named}' \(position \d\) must be .* not {type(value).__name__}", text)
        is not None
    )


UNNAMED = ("args", "self", "sizes", "split_size", "tensors")
"""What methods and in-place forms call arguments that have a name of their own where a function takes them."""


KNOWN_AS = {"divide_": "div_", "true_divide_": "div_", "subtract_": "sub_"}
"""Further names of methods whose texts say the first."""

OTHERWISE = ("tensor", "to")
"""Functions of which an argument may be nearly anything, and whose texts say more."""


def functions() -> Iterator[tuple[Any, str, Callable[..., Any]]]:
    """Each public function and method, by the space in which it stands."""
    for space in SPACES:
        for name, value in list(vars(space).items()):
            if not name.startswith("_") and inspect.isfunction(value) and value.__module__.startswith(MODULES) and name not in OTHERWISE:
                yield space, name, value


def declared(call: Callable[..., Any]) -> Callable[..., Any]:
    """What stands behind a function and its aliases: an operation's value, or a composite as it is written."""
    return call.op.value if hasattr(call, "op") else inspect.unwrap(call)


Call = tuple[tuple[Any, ...], dict[str, Any]]


@pytest.fixture(scope="module")
def calls() -> dict[tuple[Any, str], Call]:
    """A valid call of each function: those that the tables' rows make, watched, and ``CALLS``."""
    found: dict[tuple[Any, str], Call] = {}
    owner = {value: (space, name) for space, name, value in reversed(list(functions()))}
    inside = False

    def watched(key: tuple[Any, str], call: Callable[..., Any]) -> Callable[..., Any]:
        def run(*args: Any, **named: Any) -> Any:
            nonlocal inside
            if not inside:
                found.setdefault(key, (args, named))
            before, inside = inside, True
            try:
                made = call(*args, **named)
            finally:
                inside = before
            if not inside:
                refuse_wrong(key[1], call, *args, **named)  # finds nothing to say of what was taken
            return made

        return run

    with pytest.MonkeyPatch.context() as patch:
        for space, name, value in list(functions()):
            patch.setattr(space, name, watched((space, name), value))
        rng = np.random.default_rng(0)
        for case in CASES:
            inputs = as_tensors(list(case.inputs(rng)), "float32", "cpu")
            if case.call in owner:
                found.setdefault(owner[case.call], (tuple(inputs), {}))
            else:
                case.call(*inputs)
    found |= {(space, name): (CALLS[name], {}) for space, name, _ in functions() if name in CALLS}
    by_name = {name: call for (_, name), call in reversed(found.items())}
    by_value = {declared(getattr(space, name)): call for (space, name), call in found.items()}
    for space, name, value in functions():
        plain = name.removesuffix("_")
        given = by_name.get(name) or by_name.get(plain) or by_value.get(declared(value))
        if given is None and hasattr(space, plain):
            given = by_value.get(declared(getattr(space, plain)))
        if given is not None and (space is not Tensor or isinstance(given[0][0], Tensor)):
            found.setdefault((space, name), given)
    return found


def again(value: Any) -> Any:
    """A copy, since a call may write what it is given."""
    if isinstance(value, (list, tuple)):
        return [again(each) for each in value] if isinstance(value, list) else tuple(again(each) for each in value)
    return value.detach().clone() if isinstance(value, Tensor) else value


def is_tensors(value: Any) -> bool:
    return isinstance(value, Tensor) or (isinstance(value, (list, tuple)) and any(isinstance(each, Tensor) for each in value))


def exchanged(name: str, call: Callable[..., Any], args: tuple[Any, ...]) -> Iterator[tuple[str, Any, list[Any]]]:
    """The calls with one of the arguments by place exchanged: its name, what it is now, and the arguments."""
    parameters = list(inspect.signature(call).parameters.values())
    for place, value in enumerate(args):
        parameter = parameters[min(place, len(parameters) - 1)]
        if parameter.kind not in (parameter.POSITIONAL_OR_KEYWORD, parameter.VAR_POSITIONAL) or isinstance(value, (bool, str)):
            continue
        for wrong in WRONG:
            if wrong is None and (not is_tensors(value) or is_of(kind_of(name, parameter), None)):
                continue
            given = again(list(args))
            given[place] = wrong
            yield parameter.name, wrong, given


@pytest.mark.slow
def test_a_wrong_argument_is_refused_by_its_name(calls: dict[tuple[Any, str], Call]) -> None:
    missing = {name for space, name, _ in functions() if (space, name) not in calls}
    assert missing == set(ANYTHING.split()), f"give a valid call of each in CALLS: {missing}"
    wrong = []
    for space, name, call in functions():
        args, named = calls.get((space, name), ((), {}))
        for argument, value, given in exchanged(name, call, args):
            if space is Tensor and given[0] is value:  # no method of it
                continue
            try:
                call(*given, **named)
            except TypeError as error:
                if is_named(name, call.__name__, argument, value, str(error)):
                    continue
                found: Any = f"TypeError: {error}"
            except Exception as error:
                found = f"{type(error).__name__}: {error}"
            else:
                found = "taken"
            wrong.append(f"{getattr(space, '__name__', space)}.{name}({argument}={value!r}): {found}")
    assert not wrong, "\n".join(wrong)


JOIN = "gradlib.stack or gradlib.cat makes one of several"


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: gradlib.kron(X, 3), "kron(): argument 'other' (position 2) must be Tensor, not int; gradlib.tensor makes one of numbers"),
        (lambda: gradlib.exp([X]), "exp(): argument 'input' (position 1) must be Tensor, not list of Tensor; " + JOIN),
        (lambda: gradlib.cat([2]), "cat(): argument 'tensors' (position 1) must be list or tuple of Tensors, not list of int"),
        (lambda: gradlib.sum(X, "rows"), "sum(): argument 'dim' (position 2) must be int or tuple of ints, not str"),
        (lambda: X.round(decimals="two"), "round(): argument 'decimals' must be int, not str"),
        (lambda: X @ 2, "matmul(): argument 'other' (position 2) must be Tensor, not int; gradlib.tensor makes one of numbers"),
        (lambda: gradlib.add(X, X, alpha=[2]), "add(): argument 'alpha' must be number, not list of int"),
        (lambda: gradlib.rand(2, generator=3), "rand(): argument 'generator' must be Generator, not int"),
        (lambda: gradlib.exp(np.array(["a"])), "exp(): argument 'input' (position 1) must be Tensor, not ndarray of <U1"),
        (lambda: gradlib.nn.functional.nll_loss(X, None), "nll_loss(): argument 'target' (position 2) must be Tensor, not NoneType"),
        (lambda: gradlib.add(np.ones(2), "a"), "add(): argument 'other' (position 2) must be Tensor or number, not str"),
        (lambda: make_dual(X, None), "make_dual(): argument 'tangent' (position 2) must be Tensor, not NoneType"),
    ],
)  # fmt: skip
def test_what_is_said(call: Callable[[], Any], text: str) -> None:
    """By the function that the user called, and by nothing further in."""
    with dual_level(), pytest.raises(TypeError, match=f"^{re.escape(text)}$") as refused:
        call()
    assert refused.value.__suppress_context__


def test_a_number_in_the_place_of_a_tensor() -> None:
    """Taken where it meets a tensor, and else named."""
    assert gradlib.maximum(2, X).shape == gradlib.atan2(1, X).shape == gradlib.addcmul(X, X, 2).shape == X.shape
    for call in (lambda: gradlib.clamp(2, X), lambda: gradlib.kron(2, X), lambda: gradlib.masked_fill(2, X > 1, X[0, 0])):
        with pytest.raises(TypeError, match=r"argument 'input' \(position 1\) must be Tensor, not int"):
            call()
    with pytest.raises(TypeError, match=r"lerp\(\): argument 'input' \(position 1\) must be Tensor, not int"):
        gradlib.lerp(2, X, X)


def test_an_error_of_right_arguments_is_what_it_was() -> None:
    with pytest.raises(RuntimeError, match="do not fit together"):
        gradlib.add(X, gradlib.ones(5))
    with dual_level(), pytest.raises(RuntimeError, match="do not fit together"):
        gradlib.add(X, gradlib.ones(5))
    with pytest.raises(IndexError, match="Dimension out of range"):
        gradlib.chunk(X, 2, 5)
    with pytest.raises(TypeError, match="unexpected keyword argument"):
        gradlib.chunk(X, 2, axes=1)


@pytest.mark.parametrize(
    "call",
    [
        lambda: gradlib.sum(X, True),
        lambda: gradlib.cumsum(X, True),
        lambda: X.clone().copy_(None),
        lambda: gradlib.stack([X.sum(), 300]),
        lambda: gradlib.fill(None, X),
        lambda: gradlib.linspace(0, 1, 2.7),
        lambda: gradlib.linspace(None, 1, 3),
        lambda: gradlib.logspace(0, [1.0], 3),
        lambda: gradlib.tril(X, 0.5),
        lambda: gradlib.triu_indices(2, 2.5),
        lambda: gradlib.rot90(X, 1.5),
        lambda: gradlib.round(X, decimals=1.5),
        lambda: gradlib.nn.functional.pad(X, [1.0, 1.0]),
        lambda: gradlib.randint(0, 2.5, (2,)),
        lambda: gradlib.nan_to_num(X, nan="zero"),
        lambda: gradlib.full({}, 1.0),
        lambda: gradlib.zeros(2, dtype=X),
        lambda: gradlib.zeros_like(None),
        lambda: gradlib.ones_like([1.0]),
        lambda: gradlib.resolve_conj("x"),
        lambda: gradlib.dropout([1.0], 0.5, False),
        lambda: gradlib.scatter(X, 0, WHOLE[None] - 4, X, value=1.0),
        lambda: gradlib.nn.utils.clip_grad_value_([X], "a"),
    ],
)
def test_what_was_taken_for_something_else(call: Callable[[], Any]) -> None:
    with pytest.raises((TypeError, ValueError)):
        call()


def test_results_that_were_not_what_was_asked_for() -> None:
    for repeats in (2, WHOLE - 3):
        with pytest.raises(RuntimeError, match="Invalid output_size"):
            gradlib.repeat_interleave(WHOLE, repeats, output_size=3)
    for other in (True, gradlib.tensor(True)):
        with pytest.raises(RuntimeError, match="with a bool tensor is not supported"):
            gradlib.sub(X, other, alpha=2)
