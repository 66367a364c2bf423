"""Views share memory, version and history with their base, and writes through them flow where torch says."""

from __future__ import annotations

import gc
import weakref
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import gradlib
from gradlib import Tensor
from tests.values import host, shares_memory


def grid(rows: int = 2, columns: int = 3) -> Tensor:
    return gradlib.arange(float(rows * columns)).reshape(rows, columns).clone()


VIEWS: dict[str, Callable[[Tensor], Tensor]] = {
    "reshape": lambda x: x.reshape(3, 2),
    "view": lambda x: x.view(-1),
    "view_as": lambda x: x.view_as(gradlib.zeros(6)),
    "flatten": lambda x: x.flatten(),
    "ravel": lambda x: x.ravel(),
    "unflatten": lambda x: x.unflatten(1, (3, 1)),
    "squeeze": lambda x: x.squeeze(),
    "unsqueeze": lambda x: x.unsqueeze(1),
    "transpose": lambda x: x.transpose(0, 1),
    "swapaxes": lambda x: x.swapaxes(0, 1),
    "permute": lambda x: x.permute(1, 0),
    "movedim": lambda x: x.movedim(0, 1),
    "t": lambda x: x.t(),
    "T": lambda x: x.T,
    "mT": lambda x: x.mT,
    "H": lambda x: x.H,
    "narrow": lambda x: x.narrow(1, 0, 2),
    "select": lambda x: x.select(0, 0),
    "diagonal": lambda x: x.diagonal(),
    "unfold": lambda x: x.unfold(1, 2, 1),
    "as_strided": lambda x: x.as_strided((2, 2), (3, 1)),
    "tensor_split": lambda x: x.tensor_split(2)[0],
    "hsplit": lambda x: x.hsplit(3)[0],
    "atleast_3d": gradlib.atleast_3d,
    "meshgrid": lambda x: gradlib.meshgrid(x.view(-1), gradlib.zeros(1))[0],
}


@pytest.mark.parametrize("name", VIEWS)
def test_a_view_shares_memory_and_version(name: str) -> None:
    base = grid()
    view = VIEWS[name](base)
    assert shares_memory(base, view)
    assert view._base is base
    view.fill_(7)
    assert host(base).ravel()[0] == 7
    assert base._version == view._version == 1


COPIES: dict[str, Callable[[Tensor], Tensor]] = {
    "reshape": lambda x: x.t().reshape(6),
    "contiguous": lambda x: x.t().contiguous(),
    "flip": lambda x: x.flip(0),
    "flip-nothing": lambda x: x.flip(()),
    "roll": lambda x: x.roll(0),
    "repeat": lambda x: x.repeat(1, 1),
    "tile": lambda x: x.tile(1),
    "repeat_interleave": lambda x: x.repeat_interleave(1, 0),
    "rot90": lambda x: x.rot90(4),
    "diag": lambda x: x.diag(),
    "tril": lambda x: x.tril(5),
    "cat": lambda x: gradlib.cat([x]),
    "to": lambda x: x.to(gradlib.float32, copy=True),
}


@pytest.mark.parametrize("name", COPIES)
def test_a_copy_shares_nothing(name: str) -> None:
    base = grid()
    made = COPIES[name](base)
    assert not shares_memory(base, made)
    assert made._base is None


def test_what_changes_nothing_returns_the_tensor_itself(device: str) -> None:
    x = grid()
    assert x.contiguous() is x
    assert x.to(gradlib.float32) is x
    assert x.to(device) is getattr(x, device)() is x.float() is x.type_as(x) is x
    assert x.flatten(1, 1) is x


def test_an_expanded_tensor_cannot_be_written_but_a_row_of_it_can() -> None:
    x = gradlib.zeros(3)
    wide = x.expand(2, 3)
    with pytest.raises(RuntimeError, match="more than one element"):
        wide.add_(1)
    wide[0].add_(1)
    np.testing.assert_array_equal(host(wide), np.ones((2, 3)))
    assert wide._version == 1


def test_an_empty_dimension_unbound_gives_no_views() -> None:
    x = gradlib.zeros(0, 3, requires_grad=True)
    assert (x.unbind(), list(x)) == ((), [])
    assert x.requires_grad


@pytest.mark.parametrize("several", [lambda x: x.unbind(), lambda x: x.split(1), lambda x: x.chunk(2), lambda x: list(x)])
def test_one_of_several_views_cannot_be_written_while_recorded(several: Callable[[Tensor], Any]) -> None:
    recorded = grid().requires_grad_() * 1
    with pytest.raises(RuntimeError, match="one of several views"):
        several(recorded)[0].mul_(2)
    with pytest.raises(RuntimeError, match="one of several views"):
        several(recorded)[0].reshape(-1).mul_(2)
    with gradlib.no_grad():
        several(recorded)[0].mul_(2)
    plain = grid()
    several(plain)[1].mul_(2)
    np.testing.assert_array_equal(host(plain), [[0, 1, 2], [6, 8, 10]])
    with pytest.raises(RuntimeError, match="one of several views"):
        several(plain)[0].mul_(recorded.sum())


def test_views_of_tensor_split_can_be_written() -> None:
    leaf = grid().requires_grad_()
    x = leaf * 1
    x.tensor_split(2)[0].mul_(3)
    x.sum().backward()
    np.testing.assert_array_equal(host(leaf.grad), [[3, 3, 3], [1, 1, 1]])


def test_a_view_made_without_recording_is_refused_only_where_a_gradient_is_at_stake() -> None:
    plain, weight = grid(), gradlib.ones(3, requires_grad=True)
    with gradlib.no_grad():
        view, of_leaf = plain[0], weight[0]
    view.mul_(2)
    with pytest.raises(RuntimeError, match="no_grad mode"):
        view.mul_(weight)
    with pytest.raises(RuntimeError, match="leaf"):
        of_leaf.mul_(2)


@pytest.mark.parametrize("dtype", [gradlib.float32, gradlib.int32], ids=str)
def test_the_same_memory_under_a_dtype_is_an_alias_as_detach_makes_one(dtype: Any) -> None:
    leaf = gradlib.zeros(4, requires_grad=True)
    alias = leaf.view(dtype)
    assert not alias.requires_grad
    assert not alias._is_view()
    alias.fill_(1)  # a view of a leaf could not be written
    assert leaf._version == alias._version == 1
    assert shares_memory(leaf, alias)


def test_a_transform_refuses_a_write_to_captured_memory_under_another_dtype() -> None:
    captured = gradlib.zeros(2)

    def function(x: Tensor) -> Tensor:
        captured.view(gradlib.int32).copy_(x)
        return x.sum()

    with pytest.raises(RuntimeError, match="captured"):
        gradlib.func.grad(function)(gradlib.ones(2))


def test_a_base_takes_the_history_of_a_write_to_its_view() -> None:
    weight, base = gradlib.tensor([1.0, 2.0], requires_grad=True), gradlib.zeros(3, 2)
    view, other = base[1], base.t()
    view.add_(weight)
    assert base.requires_grad
    assert other.requires_grad
    (other * gradlib.arange(6.0).reshape(2, 3)).sum().backward()
    np.testing.assert_array_equal(host(weight.grad), [1, 4])


def test_a_stale_view_of_saved_memory_is_noticed() -> None:
    leaf = grid().requires_grad_()
    x = leaf * 1
    squared = x * x
    x.t()[0].add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        squared.sum().backward()


def test_gradients_through_overlapping_windows_add_up() -> None:
    x = gradlib.arange(5.0).requires_grad_()
    x.unfold(0, 3, 1).sum().backward()
    np.testing.assert_array_equal(host(x.grad), [1, 2, 3, 2, 1])
    x.grad = None
    x.as_strided((2, 2, 2), (1, 1, 2)).sum().backward()
    np.testing.assert_array_equal(host(x.grad), [1, 2, 2, 2, 1])


def test_elements_in_one_place_share_the_gradient_of_as_strided() -> None:
    """As in torch, which cannot tell them apart."""
    leaf = gradlib.tensor([1.0, 2.0]).expand(4, 2).detach().requires_grad_()
    (leaf.as_strided((2,), (1,)) * gradlib.tensor([4.0, 8.0])).sum().backward()
    np.testing.assert_array_equal(host(leaf.grad), [[1, 2]] * 4)
    tangent = gradlib.arange(8.0).reshape(4, 2)
    np.testing.assert_array_equal(host(gradlib.func.jvp(lambda x: x.as_strided((2,), (1,)), (leaf.detach(),), (tangent,))[1]), [3, 4])
    leaf.grad = None
    leaf.as_strided((3, 2), (0, 1)).sum().backward()
    np.testing.assert_array_equal(host(leaf.grad), [[0.75, 0.75]] * 4)


def test_a_write_through_as_strided_reaches_the_right_elements() -> None:
    leaf = gradlib.zeros(3, 4).requires_grad_()
    x = (leaf * 1).t()
    diagonal = x.as_strided((3,), (5,))
    diagonal.add_(gradlib.ones(3)).mul_(4)
    np.testing.assert_array_equal(host(x), np.eye(4, 3) * 4)
    x.sum().backward()
    np.testing.assert_array_equal(host(leaf.grad), np.ones((3, 4)) + 3 * np.eye(3, 4))


@pytest.mark.parametrize(
    ("shape", "wrap", "filled"),
    [
        ((3, 3), False, [0, 4, 8]),
        ((2, 4), True, [0, 5]),
        ((6, 2), False, [0, 3]),
        ((6, 2), True, [0, 3, 6, 9]),
        ((2, 2, 2), True, [0, 7]),
        ((0, 3), True, []),
        ((3, 0), True, []),
    ],
)
def test_a_diagonal_is_filled_in_place(shape: tuple[int, ...], wrap: bool, filled: list[int]) -> None:
    leaf = gradlib.ones(shape).requires_grad_()
    x = leaf * 2
    assert x.fill_diagonal_(5.0, wrap) is x
    want = np.full(shape, 2.0)
    want.reshape(-1)[filled] = 5
    np.testing.assert_array_equal(host(x), want)
    x.sum().backward()
    np.testing.assert_array_equal(host(leaf.grad), np.where(want == 5, 0, 2))


def test_what_has_no_diagonal_to_fill() -> None:
    for shape, says in (((3,), "larger than 1"), ((), "larger than 1"), ((2, 3, 3), "equal length")):
        with pytest.raises(RuntimeError, match=says):
            gradlib.ones(shape).fill_diagonal_(1)


def test_as_strided_counts_from_the_storage() -> None:
    x = gradlib.arange(10.0)[4:]
    assert x.storage_offset() == 4
    np.testing.assert_array_equal(host(x.as_strided((2,), (1,))), [4, 5])
    np.testing.assert_array_equal(host(x.as_strided((2,), (3,), 0)), [0, 3])
    with pytest.raises(RuntimeError, match="out of bounds"):
        x.as_strided((7,), (1,))
    with pytest.raises(RuntimeError, match="gaps"):
        gradlib.as_tensor(gradlib.zeros(10)._array[::2]).as_strided((2,), (1,))


def test_complex_numbers_and_pairs_share_memory() -> None:
    z = gradlib.tensor([1 + 2j, 3 - 1j])
    pairs = gradlib.view_as_real(z)
    pairs[0, 1] = 5
    np.testing.assert_array_equal(host(z), [1 + 5j, 3 - 1j])
    back = gradlib.view_as_complex(pairs)
    back.mul_(2)
    np.testing.assert_array_equal(host(pairs), [[2, 10], [6, -2]])
    assert z._version == 2
    spaced = gradlib.view_as_real(z.repeat(2, 2).t())
    assert spaced.stride() == (2, 8, 1)
    assert gradlib.view_as_complex(gradlib.zeros(5, 2, 1)[:, :, [0]].transpose(1, 2)).shape == (5, 1), "no step is taken along a size of 1"


def test_a_pair_that_a_kernel_cannot_read_as_one_number(device: str) -> None:
    x = gradlib.arange(6.0)
    assert gradlib.view_as_complex(x[2:4]).tolist() == 2 + 3j
    if device == "cpu":
        assert gradlib.view_as_complex(x[1:3]).tolist() == 1 + 2j
    else:
        with pytest.raises(RuntimeError, match="storage_offset divisible by 2"):
            gradlib.view_as_complex(x[1:3])


# ---- the tensor itself gets another shape -----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "shape"),
    [
        (lambda x: x.t_(), (3, 2)), (lambda x: x.transpose_(0, 1), (3, 2)), (lambda x: x.swapaxes_(0, 1), (3, 2)),
        (lambda x: x.unsqueeze_(1), (2, 1, 3)), (lambda x: x.unsqueeze_(0).squeeze_(), (2, 3)),
    ],
)  # fmt: skip
def test_shape_changed_in_place(change: Callable[[Tensor], Tensor], shape: tuple[int, ...]) -> None:
    leaf = grid().requires_grad_()
    x = leaf * 2
    before = x.view(6)
    assert change(x) is x
    assert x.shape == shape
    weights = gradlib.arange(6.0).reshape(shape)
    (x * weights).sum().backward()
    expected = host(weights).reshape(shape)
    np.testing.assert_array_equal(host(leaf.grad), 2 * (expected.T if shape == (3, 2) else expected.reshape(2, 3)))
    before.zero_()
    np.testing.assert_array_equal(host(x), np.zeros(shape))
    with pytest.raises(RuntimeError, match="a leaf Variable that requires grad"):
        change(leaf)
    with gradlib.no_grad():
        change(leaf)
    leaf.grad = None
    (leaf * weights).sum().backward()
    np.testing.assert_array_equal(host(leaf.grad), host(weights))


# ---- programs -----------------------------------------------------------------------------------------------------------------------


def diagonal_of(array: np.ndarray) -> np.ndarray:
    result = np.diagonal(array, 0, 0, -1)
    result.flags.writeable = True
    return result


MAKE: list[tuple[Callable[[Tensor], Tensor], Callable[[np.ndarray], np.ndarray]]] = [
    (lambda x: x[::2], lambda x: x[::2]),
    (lambda x: x[..., 1:], lambda x: x[..., 1:]),
    (lambda x: x.select(0, 0), lambda x: x[0, ...]),
    (lambda x: x[None], lambda x: x[None]),
    (lambda x: x.transpose(0, -1), lambda x: np.swapaxes(x, 0, -1)),
    (lambda x: x.reshape(-1), lambda x: x.reshape(-1)),
    (lambda x: x.diagonal(0, 0, -1), diagonal_of),
    (lambda x: x.unsqueeze(-1), lambda x: x[..., None]),
    (lambda x: x.unfold(-1, 1, 1), lambda x: x[..., None]),
    (lambda x: x.permute(*range(x.ndim)[::-1]), np.transpose),
    (lambda x: x.clone(), np.copy),
]


def write_sum(x: Any, other: Any) -> None:
    x += other.sum() * 0.1


def write_product(x: Any, other: Any) -> None:
    x *= 1.5


def write_sine(x: Any, other: Any) -> None:
    np.sin(x, out=x) if isinstance(x, np.ndarray) else x.sin_()


def write_zero(x: Any, other: Any) -> None:
    x[...] = 0.0


def write_value(x: Any, other: Any) -> None:
    x[...] = other.sum() + 2


def write_part(x: Any, other: Any) -> None:
    x[:1] = other.sum()


WRITE = [write_sum, write_product, write_sine, write_zero, write_value, write_part]


def run_program(start: Any, steps: list[tuple[int, int, int]]) -> Any:
    """Views are made of views and written, then everything that there is enters one number."""
    pool = [start * 1.0]
    numpy = isinstance(start, np.ndarray)
    for which, choice, second in steps:
        x, other = pool[which % len(pool)], pool[second % len(pool)]
        if choice < len(MAKE):
            if x.ndim >= (2 if choice == 6 else 1):
                pool.append(MAKE[choice][numpy](x))
        elif x.ndim:
            WRITE[choice - len(MAKE)](x, other)
    return sum((x * x * (0.3 + i)).sum() for i, x in enumerate(pool))


step = st.tuples(st.integers(0, 9), st.integers(0, len(MAKE) + len(WRITE) - 1), st.integers(0, 9))


@given(st.lists(step, min_size=2, max_size=10))
def test_programs_of_views_and_writes(steps: list[tuple[int, int, int]]) -> None:
    """Values are NumPy's; gradients are those of NumPy's program by a complex step."""
    start = np.linspace(-1, 1, 6).reshape(2, 3)
    leaf = gradlib.tensor(start, requires_grad=True)
    result = run_program(leaf, steps)
    np.testing.assert_allclose(result.item(), run_program(start, steps), rtol=1e-12)
    result.backward()
    expected = np.zeros_like(start)
    for place in np.ndindex(start.shape):
        moved = start.astype(complex)
        moved[place] += 1e-30j
        expected[place] = run_program(moved, steps).imag * 1e30
    np.testing.assert_allclose(host(leaf.grad), expected, rtol=1e-9, atol=1e-9)


def test_a_tensor_of_the_common_shape_is_broadcast_to_itself() -> None:
    x, y = gradlib.zeros(2, 3), gradlib.zeros(3)
    first, second = gradlib.broadcast_tensors(x, y)
    assert first is x
    assert second.shape == (2, 3)


# ---- the memory order of results ----------------------------------------------------------------------------------------------------

ROW_MAJOR: dict[str, Callable[[Any], Any]] = {
    **{name: lambda x, name=name: getattr(gradlib, name)(x, 0) for name in ("sum", "mean", "amax", "amin", "var", "std", "norm", "any")},
    **{f"{name}-kept": lambda x, name=name: getattr(gradlib, name)(x, 1, keepdim=True) for name in ("sum", "prod", "logsumexp", "amax")},
    **{name: lambda x, name=name: getattr(gradlib, name)(x, 1) for name in ("prod", "logsumexp", "softmax", "log_softmax")},
    **{f"{name}-along": lambda x, name=name: getattr(gradlib, name)(x, 1) for name in ("cumsum", "cumprod", "logcumsumexp")},
    "cummax": lambda x: gradlib.cummax(x, 1)[0],
    "cat": lambda x: gradlib.cat([x, x], 1),
    "stack": lambda x: gradlib.stack([x, x]),
    "roll": lambda x: gradlib.roll(x, 1, 0),
    "masked_fill": lambda x: x.masked_fill(x > 0, 0.0),
    "median": lambda x: x.median(1)[0],
    "topk": lambda x: x.topk(2, 1)[0],
    "index_select": lambda x: x.index_select(1, gradlib.tensor([1, 0])),
    "index": lambda x: x[:, gradlib.tensor([1, 0])],
    "index by a mask": lambda x: x[:, gradlib.arange(x.shape[1]) > 0],
    "index_add": lambda x: x.index_add(0, gradlib.tensor([1, 0]), x[:2]),
    "index_copy": lambda x: x.index_copy(0, gradlib.tensor([1, 0]), x[:2]),
    "scatter": lambda x: x.scatter(0, gradlib.zeros(x.shape, dtype=gradlib.int64), 1.0),
    "tril": lambda x: x.tril(),
    "triu": lambda x: x.triu(),
    "one_hot": lambda x: gradlib.nn.functional.one_hot((x * 2).long()),
    "logsigmoid": lambda x: gradlib.nn.functional.logsigmoid(x),
    "layer_norm": lambda x: gradlib.nn.functional.layer_norm(x, x.shape[-1:]),
}


@pytest.mark.parametrize("name", ROW_MAJOR)
@pytest.mark.parametrize("order", [(2, 1, 0), (1, 0, 2), (0, 2, 1)])
def test_results_that_torch_lays_out_in_rows_can_be_viewed(name: str, order: tuple[int, ...]) -> None:
    """Of permuted memory, too; only pointwise operations keep the order of what they are given."""
    x = gradlib.rand(4, 3, 2, dtype="float64").permute(order).requires_grad_()
    made = ROW_MAJOR[name](x)
    assert made.is_contiguous()
    flat = made.view(-1)
    np.testing.assert_array_equal(host(flat), host(made).reshape(-1))
    (slope,) = gradlib.autograd.grad(flat.sum(), x, allow_unused=name == "any") if made.requires_grad else (None,)
    assert slope is None or slope.shape == x.shape


def test_a_copy_of_what_is_expanded_lies_in_rows() -> None:
    x = gradlib.rand(3, 1).expand(3, 4)
    assert x.clone().is_contiguous()
    assert x.clone().view(12).shape == (12,)
    across = gradlib.rand(1, 4, 2).expand(3, 4, 2)
    for made in (
        across.to("float64"),
        across.to(across.dtype, copy=True),
        across.flip(1),
        across.index_put((gradlib.tensor([0]),), across[0]),
    ):
        assert made.is_contiguous()
    assert gradlib.rand(4, 3).T.clone().stride() == (1, 3)


def test_broadcast_to_takes_its_sizes_one_by_one_as_a_method() -> None:
    x = gradlib.ones(2, requires_grad=True)
    assert x.broadcast_to(3, 2).shape == x.broadcast_to((3, 2)).shape == gradlib.broadcast_to(x, (3, 2)).shape == (3, 2)
    x.broadcast_to(3, 2).sum().backward()
    assert x.grad.tolist() == [3, 3]
    with pytest.raises(TypeError):
        gradlib.broadcast_to(x, 3, 2)


def test_what_was_detached_from_a_view_knows_its_place_in_the_storage() -> None:
    x = gradlib.arange(12.0).reshape(3, 4).clone()
    view = x[1:, 1:]
    for apart in (view.detach(), view.data, view.detach().detach(), view.detach()[:]):
        assert apart.storage_offset() == 5
        assert apart[1:].storage_offset() == 9
        assert apart.as_strided((3,), (1,), 0).tolist() == [0, 1, 2]
        assert apart.as_strided((2,), (1,)).tolist() == [5, 6]
        with pytest.raises(RuntimeError, match="out of bounds"):
            apart.as_strided((13,), (1,), 0)
    assert x[1:].view(gradlib.int32).storage_offset() == 4
    assert x[1:].view(gradlib.float64).storage_offset() == 2
    assert x.detach().storage_offset() == 0
    apart = view.detach()
    apart.data = gradlib.ones(3)
    assert apart.storage_offset() == 0


def test_what_was_detached_from_a_view_does_not_keep_its_graph() -> None:
    x = gradlib.ones(3, requires_grad=True)
    base = x * 2
    gone = weakref.ref(base)
    apart = base[1:].detach()
    del base
    gc.collect()
    assert gone() is None
    assert apart.storage_offset() == 1


def test_parts_of_nothing() -> None:
    """Views at a place of a dimension beside one of no elements."""
    x = gradlib.tensor([]).reshape(0, 3).requires_grad_()
    parts = [*x.unbind(1), x.select(1, 2), x[:, 1], gradlib.zeros(2, 3).as_strided((0,), (1,), 2)]
    assert [list(part.shape) for part in parts] == [[0]] * 6
    gradlib.stack(parts[:5]).sum().backward()
    assert x.grad is not None
    assert list(x.grad.shape) == [0, 3]
    assert [list(part.shape) for part in x.split(2, 1)] == [[0, 2], [0, 1]]
    gradlib.cat([x, x.detach()], 1).sum().backward()


@pytest.mark.parametrize("offset", [3, -2, 7])
def test_a_diagonal_outside_the_matrix_is_a_view_of_it(offset: int) -> None:
    x = gradlib.ones(2, 3, requires_grad=True)
    assert x.diagonal(offset)._base is x
    with pytest.raises(RuntimeError, match="a view of a leaf Variable that requires grad is being used in an in-place operation"):
        x.diagonal(offset).add_(1)
