"""Products beyond the table: shapes and dtypes refused, halves, in-place forms, what a linear layer costs, notations of einsum."""

from __future__ import annotations

import itertools
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, strategies as st

import gradlib
from gradlib.backend import formulas
from gradlib.ops import distance
from tests.values import host


@pytest.fixture(autouse=True)
def operands(device: str) -> None:
    """What these tests multiply, on the device of each."""
    global A, B, V
    A = gradlib.tensor(np.arange(6.0).reshape(2, 3))
    B = gradlib.tensor(np.arange(6.0).reshape(3, 2))
    V = gradlib.tensor([1.0, 2.0, 3.0], dtype="float64")


@pytest.mark.parametrize(
    ("call", "error", "text"),
    [
        (lambda: A @ A, RuntimeError, r"cannot be multiplied \(\[2, 3\] and \[2, 3\]\)"),
        (lambda: V @ V[:2], RuntimeError, "cannot be multiplied"),
        (lambda: A @ B.float(), RuntimeError, "same dtype, but got float64 and float32"),
        (lambda: A.bool() @ B.bool(), NotImplementedError, "not implemented for bool"),
        (lambda: A @ gradlib.tensor(1.0, dtype="float64"), RuntimeError, "at least 1D, but they are 2D and 0D"),
        (lambda: gradlib.matmul(A, 2.0), TypeError, "'other'.* must be Tensor, not float"),
        (lambda: gradlib.zeros(2, 2, 3) @ gradlib.zeros(3, 3, 2), RuntimeError, "do not broadcast"),
        (lambda: gradlib.mm(A, V), RuntimeError, "mat2 must have 2 dimensions, got shape"),
        (lambda: gradlib.mm(A, 2.0), TypeError, "'mat2'.* must be Tensor, not float"),
        (lambda: gradlib.bmm(A[None], B.expand(2, 3, 2)), RuntimeError, "batches of the same size"),
        (lambda: gradlib.mv(A, B), RuntimeError, "vec must have 1 dimension,"),
        (lambda: gradlib.dot(V, A), RuntimeError, "tensor must have 1 dimension,"),
        (lambda: gradlib.outer(A, V), RuntimeError, "input must have 1 dimension,"),
        (lambda: gradlib.addmm(gradlib.zeros(3, dtype="float64"), A, B), RuntimeError, "expand"),
        (lambda: gradlib.addmm(1.0, A, B), TypeError, "'input'.* must be Tensor, not float"),
        (lambda: gradlib.addmm(gradlib.zeros(2), A, B), RuntimeError, "same dtype"),
        (lambda: gradlib.cross(V, A), RuntimeError, "same number of dimensions"),
        (lambda: gradlib.cross(A[:, :2], A[:, :2]), RuntimeError, "no dimension of size 3"),
        (lambda: gradlib.cross(A, A, dim=0), RuntimeError, "dimension 0 must have size 3"),
        (lambda: gradlib.cross(V, V.float()), RuntimeError, "same dtype"),
        (lambda: gradlib.inner(V, V[:2]), RuntimeError, r"got shapes \[3\] and \[2\]"),
        (lambda: gradlib.tensordot(A, B, 3), RuntimeError, "dims must be from 0 to either rank"),
        (lambda: gradlib.tensordot(A, B, ([1], [1])), RuntimeError, "size 3 in dim 1 and second has size 2 in dim 1"),
        (lambda: gradlib.tensordot(A, B, ([0], [1, 0])), RuntimeError, "same length"),
        (lambda: gradlib.cdist(A, V), RuntimeError, "x2 has shape"),
        (lambda: gradlib.cdist(A, B), RuntimeError, "same number of columns"),
        (lambda: gradlib.cdist(A.long(), A.long()), RuntimeError, "x1 has int64"),
        (lambda: gradlib.cdist(A, A, p=-1.0), RuntimeError, "non-negative p"),
        (lambda: gradlib.cdist(A, A, compute_mode="fast"), ValueError, "not a valid value for compute_mode"),
    ],
)
def test_what_is_refused(call: Callable[[], Any], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        call()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "int32", "int64", "uint8", "complex64"])
def test_the_dtype_stays(dtype: str) -> None:
    a, b, v = (x.to(dtype) for x in (A, B, V))
    products = [a @ b, gradlib.mm(a, b), v @ b, v @ v, gradlib.addmm(a @ b, a, b, alpha=2), gradlib.einsum("ij,jk->ik", a, b)]
    products += [gradlib.tensordot(a, b, 1), gradlib.kron(a, v), gradlib.outer(v, v), gradlib.cross(v, v)]
    products += [gradlib.tensordot(a[:1], b, 1), gradlib.tensordot(a, b[:, :1], ([0], [1]))]  # a sum of one factor
    assert {made.dtype.name for made in products} == {dtype}
    assert (a @ b).tolist() == (A @ B).tolist()


def test_a_factor_of_kron_without_dimensions_counts_as_the_other() -> None:
    """As in torch, which gives it dimensions before the two meet."""
    number, v = gradlib.tensor(2.0, dtype="float64"), gradlib.ones(3)
    assert gradlib.kron(number, v).dtype == gradlib.kron(v, number).dtype == gradlib.float64
    assert gradlib.func.vmap(gradlib.kron, (None, 0))(number, v).dtype == gradlib.float64
    with pytest.raises(TypeError, match=r"'input'.* must be Tensor, not float"):
        gradlib.kron(2.0, v)


@pytest.mark.parametrize("dtype", ["bool", "uint8", "int32"])
def test_einsum_adds_integers_up_as_sum_does(dtype: str) -> None:
    """In int64: bools are counted, and nothing wraps."""
    a, b = gradlib.tensor([[1, 1, 0], [1, 1, 1]]).to(dtype), gradlib.tensor([0.5, 2.0])
    for made, want in ((gradlib.einsum("ij->i", a), [2, 3]), (gradlib.einsum("ii", a[:, :2]), 2), (gradlib.einsum("ij->", a * 255), None)):
        assert made.dtype == gradlib.int64
        assert made.tolist() == (want if want is not None else 5 * 255)
    assert gradlib.einsum("ij,k->", a, b).tolist() == 5 * 2.5


def test_halves_are_summed_in_single_precision() -> None:
    """1 + 2048 * 2**-11 is lost when every sum is rounded to 11 bits."""
    row = gradlib.full((4097,), 2.0**-11, dtype="float16")
    row[0] = 1.0
    assert (row @ gradlib.ones(4097, dtype="float16")).item() == 3


def test_operators_with_arrays_on_either_side() -> None:
    x = A.clone().requires_grad_()
    y = B._array @ x @ B._array
    assert isinstance(y, gradlib.Tensor)
    y.sum().backward()
    np.testing.assert_allclose(host(x.grad), np.outer(host(B).sum(0), host(B).sum(1)))


def test_a_linear_layers_gradients_are_single_products() -> None:
    """x @ W.T of a batch (b, t, k): the gradient of W is one product of (b t) rows, not a batch of them to be summed."""
    rng = np.random.default_rng(0)
    W = gradlib.tensor(rng.standard_normal((4, 3))).requires_grad_()
    x = gradlib.tensor(rng.standard_normal((5, 2, 3)))
    y = x @ W.mT
    seen: list[tuple[int, ...]] = []
    y.grad_fn.register_hook(lambda grads, _: seen.append(grads[1].shape))
    g = rng.standard_normal((5, 2, 4))
    y.backward(gradlib.tensor(g))
    assert seen == [(3, 4)]
    np.testing.assert_allclose(host(W.grad), np.einsum("bti,btj->ij", g, host(x)))


# ---- added to something ---------------------------------------------------------------------------------------------------------------


def test_a_factor_of_zero_hides_what_it_multiplies() -> None:
    nan = gradlib.full((2, 2), float("nan"), dtype="float64").requires_grad_()
    y = gradlib.addmm(nan, A, B, beta=0)
    np.testing.assert_array_equal(host(y), host(A @ B))
    y.sum().backward()
    assert nan.grad.tolist() == [[0.0, 0.0], [0.0, 0.0]]
    with np.errstate(invalid="ignore"):
        assert gradlib.addmm(gradlib.ones(2, 2, dtype="float64"), A * float("inf"), B, alpha=0).tolist() == [[1.0, 1.0], [1.0, 1.0]]


def test_integers_take_the_whole_part_of_a_factor() -> None:
    y = gradlib.addmm(gradlib.ones(2, 2, dtype="int64"), A.long(), B.long(), alpha=2.5)
    np.testing.assert_array_equal(host(y), 1 + 2 * host(A @ B))


def test_in_place() -> None:
    a = gradlib.ones(2, 2, dtype="float64", requires_grad=True)
    y = a * 2
    assert y.addmm_(A, B, beta=3, alpha=0.5) is y
    np.testing.assert_array_equal(host(y), 6 + host(A @ B) / 2)
    y.sum().backward()
    assert a.grad.tolist() == [[6.0, 6.0], [6.0, 6.0]]
    with pytest.raises(RuntimeError, match="doesn't match the broadcast shape"):
        gradlib.ones(2, dtype="float64").addmm_(A, B)
    z = gradlib.zeros(2, dtype="float64")
    assert z.addmv_(A, V).tolist() == [8.0, 26.0]
    assert gradlib.zeros(1, 2, 2, dtype="float64").baddbmm_(A[None], B[None]).shape == (1, 2, 2)


def test_a_sum_with_factors_is_one_operation() -> None:
    a = gradlib.ones(2, dtype="float64", requires_grad=True)
    for made, name in (
        (gradlib.addmm(a, A, B.requires_grad_(), beta=0.5, alpha=-2), "MmBackward0"),
        (gradlib.addmv(a, A.requires_grad_(), V, alpha=3), "MvBackward0"),
        (gradlib.add(a, A @ B, alpha=3), "MatmulBackward0"),
    ):
        assert made.grad_fn.name() == "AddBackward0"
        assert [node.name() for node, _ in made.grad_fn.next_functions] == ["AccumulateGrad", name]


@pytest.mark.nonfinite
def test_in_place_where_nothing_is_recorded() -> None:
    """On a device the sum is one launch, which reads what it writes."""
    square = np.arange(4.0).reshape(2, 2)
    for turned in (False, True):
        x = gradlib.tensor(square.T.copy()).T if turned else gradlib.tensor(square)
        assert x.addmm_(x, x, beta=2, alpha=-1)._version == 1
        np.testing.assert_array_equal(host(x), 2 * square - square @ square)
    x = gradlib.full((1, 2, 2), float("nan"), dtype="float64")
    assert x.baddbmm_(A[None], B[None], beta=0, alpha=0.5).tolist() == (A @ B / 2)[None].tolist()
    x.fill_(1.0)
    for wrong in (
        lambda: x.baddbmm_(A[None], B.expand(2, 3, 2)),
        lambda: x[0].addmm_(A[None], B),
        lambda: x[0].addmm_(A, B.T),
        lambda: x[0].addmm_(A.float(), B),
        lambda: x[0].addmm_(A[:1], B[:, :1].repeat(1, 3)),
        lambda: x[0, 0].addmv_(A, V[:2]),
    ):
        with pytest.raises(RuntimeError):
            wrong()
    assert x.tolist() == [[[1.0, 1.0], [1.0, 1.0]]]


# ---- in space ---------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16"])
def test_cross_products_along_each_dimension(rng: np.random.Generator, dtype: str) -> None:
    a, b = (gradlib.tensor(rng.standard_normal((3, 5, 3, 2)), dtype=dtype) for _ in range(2))
    for dim in (0, 2, -2):
        for x, y in ((a, b), (a.transpose(1, 3), b.transpose(1, 3)), (a[:, :, :, 1:], b[:, :, :, 1:]), (a, b[:, :, :, :1])):
            exact = np.cross(host(x.double()), host(y.double()), axis=dim)
            made = gradlib.cross(x, y, dim)
            assert made.dtype == a.dtype
            np.testing.assert_allclose(host(made.double()), exact, atol=6 * float(gradlib.finfo(a.dtype).eps))
    assert not gradlib.cross(a, a, 0).any(), "no rounding is left of a vector and itself"


# ---- distances --------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("p", [0.0, 0.5, 1.0, 1.5, 2.0, 3.0, float("inf")])
def test_where_points_coincide_the_gradient_is_zero(p: float) -> None:
    x = gradlib.tensor([[1.0, 2.0]], requires_grad=True)
    gradlib.cdist(x, gradlib.tensor([[1.0, 2.0]]), p).sum().backward()
    assert x.grad.tolist() == [[0.0, 0.0]]


def test_equally_far_coordinates_each_get_the_whole_gradient() -> None:
    x = gradlib.tensor([[0.0, 0.0, 1.0]], requires_grad=True)
    gradlib.cdist(x, gradlib.tensor([[2.0, -2.0, 0.0]]), float("inf")).sum().backward()
    assert x.grad.tolist() == [[-1.0, 1.0, 0.0]]


def test_the_product_is_used_for_many_points_and_agrees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distance, "_FEW", 0)  # so many or fewer are one launch on a device
    rng = np.random.default_rng(2)
    many, few = rng.standard_normal((40, 3)), rng.standard_normal((5, 3))
    found = []
    for mode in ("use_mm_for_euclid_dist_if_necessary", "donot_use_mm_for_euclid_dist"):
        x = gradlib.tensor(many).requires_grad_()
        distances = gradlib.cdist(x, gradlib.tensor(few), compute_mode=mode)
        distances.square().sum().backward()
        found.append((host(distances), host(x.grad), distances.grad_fn.name()))
    np.testing.assert_allclose(found[0][0], found[1][0], rtol=1e-10)
    np.testing.assert_allclose(found[0][1], found[1][1], rtol=1e-10)
    assert found[0][2] == "EuclideanDistanceBackward0" != found[1][2]


@pytest.mark.nonfinite
def test_a_point_without_a_place_is_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(distance, "_FEW", 0)
    x = gradlib.tensor([[0.0, float("nan")], [3.0, 4.0]])
    made = host(gradlib.cdist(x, gradlib.zeros(1, 2), compute_mode="use_mm_for_euclid_dist"))
    np.testing.assert_array_equal(made, [[np.nan], [5.0]])


def test_no_coordinates_and_no_points() -> None:
    assert gradlib.cdist(gradlib.zeros(2, 0), gradlib.zeros(3, 0)).tolist() == [[0.0] * 3] * 2
    assert gradlib.cdist(gradlib.zeros(0, 2), gradlib.zeros(3, 2)).shape == (0, 3)


# ---- einsum -----------------------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("arguments", "error", "text"),
    [
        (lambda: ("ij,jk->ii", A, B), RuntimeError, "output subscript i appears more than once"),
        (lambda: ("ij,jk->iz", A, B), RuntimeError, "output subscript z does not appear"),
        (lambda: ("ij", V), RuntimeError, r"subscripts in the equation \(2\) does not match the number of dimensions \(1\) for operand 0"),
        (lambda: ("i", A), RuntimeError, "does not match the number of dimensions"),
        (lambda: ("ij,jk", A, A), RuntimeError, "subscript j has size 2 for operand 1 .* previously seen size 3"),
        (lambda: ("ii", A), RuntimeError, "repeated subscript i, got 2 and 3"),
        (lambda: ("i.j", A), RuntimeError, "invalid subscript '.'"),
        (lambda: ("i1", A), RuntimeError, "invalid subscript '1'"),
        (lambda: ("...i...", A), RuntimeError, "invalid subscript"),
        (lambda: ("ij,jk", A), RuntimeError, "1 operands were provided where the equation 'ij,jk' has 2 terms"),
        (lambda: ("ij",), ValueError, "at least one operand"),
        (lambda: (), ValueError, "at least one operand"),
        (lambda: (A, [0, 52]), ValueError, "subscripts from 0 to 51"),
    ],
)
def test_what_is_no_equation(arguments: Callable[[], tuple[Any, ...]], error: type[Exception], text: str) -> None:
    with pytest.raises(error, match=text):
        gradlib.einsum(*arguments())


def test_notations_of_one_product() -> None:
    want = (A @ B).tolist()
    for made in (
        gradlib.einsum("ij,jk->ik", A, B),
        gradlib.einsum(" i j , j k -> i k ", A, B),
        gradlib.einsum("ij,jk", A, B),
        gradlib.einsum("iJ,Jk", A, B),
        gradlib.einsum("ij,jk->ik", [A, B]),
        gradlib.einsum(A, [0, 1], B, [1, 2]),
        gradlib.einsum(A, [7, 51], B, [51, 9], [7, 9]),
    ):
        assert made.tolist() == want
    with pytest.raises(ValueError, match="subscripts"):  # which equals the one that was kept from the call before
        gradlib.einsum(A, [7.0, 51], B, [51, 9], [7, 9])


def test_one_term_rearranged_is_a_view() -> None:
    assert gradlib.einsum("ij->ji", A)._base is A
    assert gradlib.einsum("ba", A).tolist() == A.mT.tolist()
    assert gradlib.einsum("Ba", A).tolist() == A.tolist()  # capitals come first


def test_a_chain_is_contracted_from_its_cheap_end() -> None:
    """(1000, 1000) @ (1000, 1000) @ (1000,): from the right no matrix is ever multiplied with a matrix."""
    M = gradlib.ones(1000, 1000)
    seen = []
    y = gradlib.einsum("ij,jk,k->i", M.requires_grad_(), M, M[0])
    stack = [y.grad_fn]
    while stack:
        node = stack.pop()
        if node is not None and node.name() == "ContractBackward0":
            seen.append(node.shape)
        stack += [edge for edge, _ in node.next_functions] if node is not None else []
    assert max(int(np.prod(shape)) for shape in seen) <= 1000


def test_a_product_of_two_operands_is_one_operation() -> None:
    """So are its gradients, and theirs; whatever order the dimensions have, what is computed lies in the order of the result."""
    rng = np.random.default_rng(0)
    a, b, c = (gradlib.tensor(rng.standard_normal(shape)).requires_grad_() for shape in ((2, 3, 4, 5), (2, 6, 4, 5), (6, 1, 5)))
    for made, operands in (
        (gradlib.einsum("bqhd,bkhd->bhkq", a, b), (a, b)),
        (gradlib.einsum("bq...d,k...d->bqk...", a, c), (a, c)),
        (gradlib.einsum("bqhd,bkhd->kqhdb", a, b), (a, b)),
        (gradlib.tensordot(a, b, ([0, 3], [0, 3])), (a, b)),
        (gradlib.inner(a, c), (a, c)),
    ):
        grads = gradlib.autograd.grad(made, operands, gradlib.ones_like(made).requires_grad_(), create_graph=True)
        for each in (made, *grads):
            assert each.grad_fn.name() == "ContractBackward0"
            assert not [node.name() for node, _ in each.grad_fn.next_functions if node is not None and node.name() != "AccumulateGrad"]
    assert gradlib.einsum("ij,jk->ki", A, B).is_contiguous()
    assert gradlib.einsum("i,j->ji", V, V[:2]).is_contiguous()


def test_many_small_outer_products(rng: np.random.Generator) -> None:
    """Of a column and a row for each example, more than 2048 of which NumPy would multiply three numbers at a time."""
    a, b = rng.standard_normal((2, 3000, 3))
    made = gradlib.einsum("bi,bj->bij", gradlib.tensor(a), gradlib.tensor(b))
    np.testing.assert_array_equal(host(made), a[:, :, None] * b[:, None, :])
    turned = gradlib.einsum("bi,bj->jbi", gradlib.tensor(a), gradlib.tensor(b))
    np.testing.assert_array_equal(host(turned), np.einsum("bi,bj->jbi", a, b))


def test_a_factor_without_dimensions_counts_in_einsum_as_the_other() -> None:
    """As in torch, which gives it dimensions before the two meet."""
    a, number = gradlib.ones(1), gradlib.tensor(2.0, dtype="float64")
    assert gradlib.einsum("i,->i", a, number).dtype == gradlib.einsum("i,->", a, number).dtype == gradlib.float64
    assert gradlib.einsum("i,->i", gradlib.ones(3), number).dtype == gradlib.float64


@given(st.data())
def test_drawn_equations(data: st.DataObject) -> None:
    """Against NumPy's element-by-element einsum, and <y, g> as the first term's gradient sees it."""
    sizes = dict(zip("abcd", data.draw(st.lists(st.integers(1, 3), min_size=4, max_size=4)), strict=True))
    terms = data.draw(st.lists(st.text("abcd", max_size=3), min_size=1, max_size=3))
    used = sorted({letter for term in terms for letter in term})
    output = "".join(data.draw(st.permutations(used))[: data.draw(st.integers(0, len(used)))])
    equation = f"{','.join(terms)}->{output}"
    rng = np.random.default_rng(0)
    arrays = [rng.standard_normal([sizes[letter] for letter in term]) for term in terms]
    operands = [gradlib.tensor(a).requires_grad_() for a in arrays]
    y = gradlib.einsum(equation, *operands)
    want = np.einsum(equation, *arrays)
    np.testing.assert_allclose(host(y), want, atol=1e-12)
    g = rng.standard_normal(want.shape)
    for a, back in zip(arrays, gradlib.autograd.grad(y, operands, gradlib.tensor(g)), strict=True):
        assert np.sum(a * host(back)) == pytest.approx(np.sum(want * g))  # every term is linear in each operand


def test_permuted_and_batched_pairs() -> None:
    rng = np.random.default_rng(5)
    a, b = rng.standard_normal((2, 3, 4)), rng.standard_normal((4, 5, 2))
    for left, right in itertools.product(itertools.permutations("xyz"), itertools.permutations("zwx")):
        x = a.transpose(["xyz".index(n) for n in left])
        y = b.transpose(["zwx".index(n) for n in right])
        equation = f"{''.join(left)},{''.join(right)}->wxy"
        np.testing.assert_allclose(host(gradlib.einsum(equation, gradlib.tensor(x), gradlib.tensor(y))), np.einsum(equation, x, y))


@pytest.mark.parametrize("shapes", [((5, 2, 3), (5, 3, 4)), ((5, 2, 3), (3, 4)), ((3,), (5, 3, 4)), ((5, 2, 3), (3,)), ((2, 3), (3, 4))])
def test_stacks_of_bfloat16(rng: np.random.Generator, shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    a, b = (gradlib.tensor(rng.standard_normal(shape), dtype="bfloat16") for shape in shapes)
    exact = host(a.double() @ b.double())
    made = a @ b
    assert made.dtype == gradlib.bfloat16
    np.testing.assert_allclose(host(made.double()), exact, rtol=2**-8, atol=2**-8)
    if b.ndim == 2:
        linear = gradlib.nn.functional.linear(a, b.T, gradlib.ones(4, dtype="bfloat16"))
        assert linear.dtype == gradlib.bfloat16
        np.testing.assert_allclose(host(linear.double()), exact + 1, rtol=2**-8, atol=2**-8)


@pytest.mark.nonfinite
@pytest.mark.parametrize("dtype", ["float32", "float64", "complex64"])
@pytest.mark.parametrize(
    ("left", "right"), [((1, 1), (1, 3)), ((1,), (1, 3)), ((3, 1), (1, 1)), ((3, 1), (1,)), ((1, 1), (1,)), ((2, 2), (2,))]
)
def test_zero_times_infinity_is_nan_in_matrices_of_one_number_too(left: tuple[int, ...], right: tuple[int, ...], dtype: str) -> None:
    for a, b in ((0.0, np.inf), (np.nan, 0.0)):
        assert np.isnan(host(gradlib.full(left, a, dtype=dtype) @ gradlib.full(right, b, dtype=dtype)).real).all()


@pytest.mark.parametrize("rows", [1, 2])
def test_einsum_of_one_operand_does_not_depend_on_sizes(rows: int) -> None:
    """A sum over a dimension of size 1 is new memory and has the dtype of sums, as over any other; what only turns is a view."""
    x = gradlib.ones(rows, 3)
    for equation in ("ij->j", "ij->i", "ij->"):
        gradlib.einsum(equation, x if equation != "ij->i" else x.mT).add_(1)
    assert x.tolist() == [[1, 1, 1]] * rows
    assert gradlib.einsum("ij->j", x.int()).dtype == gradlib.int64
    same = gradlib.einsum("ij->ij", x)
    same.unsqueeze_(0)
    same.mul_(2)
    assert x.tolist() == [[2, 2, 2]] * rows


@pytest.mark.parametrize("dtype", ["float32", "float64", "float16", "bfloat16"])
def test_the_product_of_two_vectors(dtype: str, device: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a device of up to 16384 elements one launch of a kernel of gradlib's own, else cuBLAS's."""
    launched, summed = [], formulas.summed
    monkeypatch.setattr(formulas, "summed", lambda *given: launched.append(summed(*given)) or launched[-1])
    rng = np.random.default_rng(0)
    for size in (1, 3, 32, 1000, 16384, 20000):
        a, b = (gradlib.tensor(rng.standard_normal(size), dtype=dtype) for _ in range(2))
        expected = (host(a).astype("float64") * host(b).astype("float64")).sum()
        bound = {"float32": 1e-6, "float64": 1e-12}.get(dtype, 0.01) * (abs(expected) + size**0.5)
        for x in (a, gradlib.stack([a, a], 1)[:, 1]):
            for function in (gradlib.dot, gradlib.inner, gradlib.matmul):
                launched.clear()
                made = function(x, b)
                assert (made.dtype, made.shape) == (x.dtype, ())
                assert abs(made.item() - expected) <= bound
                if device == "cuda":
                    assert (launched[0] is None) == (size == 20000 or not x.is_contiguous())
    with pytest.raises(RuntimeError):
        gradlib.dot(a, a[:3])
