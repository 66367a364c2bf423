"""A tensor as a Python object: attributes of the user's own, copies of it, and pickles."""

from __future__ import annotations

import copy
import pickle
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.core.tensor import Tensor
from tests.values import shares_memory


class Marked(Tensor):
    """A user's subclass."""


def pickled(x: Any) -> Any:
    return pickle.loads(pickle.dumps(x))


COPIES: list[Callable[[Any], Any]] = [copy.copy, copy.deepcopy, pickled]


def test_attributes_of_ones_own() -> None:
    p = gradlib.ones(2, requires_grad=True)
    p.no_decay = True
    assert p.no_decay
    assert vars(p) == {"no_decay": True}
    for made in (p * 1, p.detach(), p[0], p.clone()):
        assert not hasattr(made, "no_decay"), "it belongs to the object, not to its values"
    p.sum().backward()
    del p.no_decay
    assert not hasattr(p, "no_decay")
    with pytest.raises(AttributeError):
        p.shape = (2,)
    with gradlib.inference_mode():
        made = gradlib.ones(2)
        made.name_of_mine = 1
        assert made.name_of_mine == 1


@pytest.mark.parametrize("copied", COPIES)
def test_a_copy_keeps_them(copied: Callable[[Any], Any]) -> None:
    p = gradlib.ones(2, requires_grad=True)
    p.groups = ["a"]
    made = copied(p)
    assert made.groups == ["a"]
    assert (made.groups is p.groups) == (copied is copy.copy)


@pytest.mark.parametrize("copied", COPIES)
@pytest.mark.parametrize("shape", [(), (0,), (1, 1), (2, 0, 3)])
def test_shapes_of_one_element_or_none_stay(copied: Callable[[Any], Any], shape: tuple[int, ...]) -> None:
    x = gradlib.full(shape, 2.0)
    assert copied(x).shape == shape
    assert copied(x).tolist() == x.tolist()


def test_a_number_is_copied_to_the_host_without_waiting() -> None:
    x = gradlib.tensor(2.5).to("cpu", non_blocking=True)
    gradlib.cuda.synchronize()
    assert x.shape == ()
    assert x.item() == 2.5


@pytest.mark.parametrize("copied", [copy.copy, pickled])
def test_what_an_operation_made_is_copied_as_a_leaf(copied: Callable[[Any], Any]) -> None:
    x = gradlib.tensor([1.0, 2.0], requires_grad=True)
    y = x * 2
    made = copied(y)
    assert made.tolist() == [2.0, 4.0]
    assert made.requires_grad
    assert made.is_leaf
    made.sum().backward()
    assert made.grad.tolist() == [1.0, 1.0]
    assert x.grad is None
    assert shares_memory(made, y) == (copied is copy.copy)


def test_a_shallow_copy_has_no_gradient_of_its_own_yet() -> None:
    x = gradlib.ones(2, requires_grad=True)
    x.sum().backward()
    made = copy.copy(x)
    assert made.grad is None
    y = (x * x).sum()
    with gradlib.no_grad():
        made.add_(1)
    assert x.tolist() == [2.0, 2.0], "the memory is shared"
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_what_an_operation_made_has_no_deep_copy() -> None:
    with pytest.raises(RuntimeError, match=r"^Only Tensors created explicitly by the user \(graph leaves\) support the deepcopy protocol"):
        copy.deepcopy(gradlib.ones(2, requires_grad=True) * 2)


@pytest.mark.parametrize("copied", COPIES)
def test_copies_belong_to_the_mode_in_which_they_are_made(copied: Callable[[Any], Any]) -> None:
    with gradlib.inference_mode():
        inside = gradlib.ones(2)
        assert copied(inside).is_inference()
        made = copied(gradlib.ones(2, requires_grad=True))
        assert made.requires_grad
    made = copied(inside)
    assert not made.is_inference()
    assert type(made) is Tensor
    assert (made.requires_grad_() * 2).requires_grad


@pytest.mark.parametrize("copied", COPIES)
def test_copies_keep_class_and_layout(copied: Callable[[Any], Any]) -> None:
    assert type(copied(Marked(gradlib.ones(2)))) is Marked
    turned = gradlib.arange(6).reshape(2, 3).t()
    made = copied(turned)
    assert made.stride() == turned.stride() == (1, 3)
    assert made.tolist() == turned.tolist()


def test_deep_copies_of_views_and_aliases_share_one_copy_of_the_storage() -> None:
    base = gradlib.arange(6.0).reshape(2, 3).clone()
    numbers = gradlib.ones(2, 2, dtype=gradlib.complex64)
    given = [base, base.t()[:2, 1], base.detach(), numbers, numbers.real[0]]
    for order in ([0, 1, 2, 3, 4], [4, 1, 2, 3, 0]):  # a view before what it is a view of, and after it
        copies = dict(zip(order, copy.deepcopy([given[place] for place in order]), strict=True))
        whole, part, alias, values, real = (copies[place] for place in range(5))
        assert [copies[place].tolist() for place in range(5)] == [x.tolist() for x in given]
        assert (part.stride(), part.storage_offset(), part._version) == ((1,), 3, 0)
        product = gradlib.ones(2, requires_grad=True) * part
        whole[1] = 10
        values[0, 0] = 7
        assert (part.tolist(), alias[1].tolist(), real.tolist()) == ([10.0, 10.0], [10.0, 10.0, 10.0], [7.0, 1.0])
        assert (base[1].tolist(), numbers[0, 0].item()) == ([3.0, 4.0, 5.0], 1), "what was copied is as it was"
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            product.sum().backward()


def test_a_view_alone_is_copied_in_its_storage() -> None:
    made = copy.deepcopy(gradlib.arange(6).clone()[2:4])
    assert made.as_strided((4,), (1,), 0).tolist() == [0, 1, 2, 3], "torch copies storages"


def test_hooks_are_not_pickled_and_a_warning_says_so() -> None:
    x = gradlib.ones(2, requires_grad=True)
    x.register_hook(lambda g: g * 2)
    with pytest.warns(UserWarning, match="backward hook .* on tensor will not be serialized"):
        made = pickled(x)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        copies = [made, copy.copy(x), copy.deepcopy(x)]
    for each in copies:
        each.sum().backward()
        assert each.grad.tolist() == [1.0, 1.0]


@pytest.mark.parametrize("taken", [float, int])
def test_a_number_of_what_wants_a_gradient_loses_it_with_a_warning(taken: Callable[[Any], Any]) -> None:
    x = gradlib.ones(2, requires_grad=True)
    with pytest.warns(UserWarning, match=r"^Converting a tensor with requires_grad=True to a scalar") as caught:
        assert taken((x * 2)[0]) == 2
    assert caught[0].filename == __file__
    y = x[0]
    with pytest.warns(UserWarning, match="a list of tensors that is stacked passes it on"), gradlib.no_grad():
        taken(y)
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert taken(x.detach()[0]) == 1
        assert (x[0].item(), x.tolist(), bool(x[0]), f"{x[0]:.1f}") == (1.0, [1.0, 1.0], True, "1.0")


@pytest.mark.parametrize("copied", COPIES)
def test_the_copy_of_a_generator_goes_on_from_the_same_place(copied: Callable[[Any], Any]) -> None:
    generator = gradlib.Generator().manual_seed(3)
    gradlib.rand(5, generator=generator)
    other = copied(generator)
    assert other.device == generator.device
    assert other.initial_seed() == 3
    numbers = gradlib.rand(5, generator=generator)
    assert gradlib.equal(gradlib.rand(5, generator=other), numbers)


@pytest.mark.host
@pytest.mark.parametrize("copied", COPIES)
def test_layouts_and_memory_formats_are_one_object_each(copied: Callable[[Any], Any]) -> None:
    for each in (gradlib.strided, gradlib.contiguous_format, gradlib.preserve_format, gradlib.channels_last):
        assert copied(each) is each


@pytest.mark.host
def test_an_array_that_is_filled_with_what_wants_a_gradient_warns() -> None:
    x, filled = gradlib.ones(2, requires_grad=True), np.zeros(2)
    with pytest.warns(UserWarning, match="to a scalar"):
        filled[0] = x[0] * 3
    assert filled.tolist() == [3.0, 0.0]


@pytest.mark.host
@pytest.mark.filterwarnings("ignore:Converting a tensor with requires_grad=True:UserWarning")  # matplotlib asks for single numbers too
def test_plotting_a_tensor_that_wants_a_gradient_says_what_to_do() -> None:
    plt = pytest.importorskip("matplotlib.pyplot")
    says = r"^Can't call numpy\(\) on Tensor that requires grad\. Use tensor\.detach\(\)\.numpy\(\)"
    x = gradlib.ones(3, requires_grad=True)
    figure = plt.figure()
    try:
        for each in (x, x * 2):
            with pytest.raises(RuntimeError, match=says):
                plt.plot(each)
        (line,) = plt.plot((x * 2).detach())
        assert line.get_ydata().tolist() == [2.0, 2.0, 2.0]
    finally:
        plt.close(figure)
