"""Reductions over any dimensions of arrays in any layout are one kernel, which gives what the host gives, and so are their gradients."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib import cuda
from gradlib.backend import line_slopes, moments, reducing
from gradlib.backend.dtype import as_dtype
from gradlib.backend.line_layout import GROUPS, LONGEST, plan
from tests.device import cupy, skip_module_without_cuda

skip_module_without_cuda()
pytestmark = [pytest.mark.cuda, pytest.mark.host]
L = gradlib.linalg

FLOATS: dict[str, Callable[..., Any]] = {
    "sum": lambda x, *to: x.sum(*to), "mean": lambda x, *to: x.mean(*to), "nansum": lambda x, *to: x.nansum(*to),
    "nanmean": lambda x, *to: x.nanmean(*to), "amax": lambda x, *to: x.amax(*to), "amin": lambda x, *to: x.amin(*to),
    "logsumexp": lambda x, *to: x.logsumexp(*to), "var": lambda x, dim, keep: x.var(dim, correction=0, keepdim=keep),
    "std": lambda x, dim, keep: x.std(dim, correction=0.5, keepdim=keep),
    "std_mean": lambda x, dim, keep: sum(gradlib.std_mean(x, dim, correction=0, keepdim=keep)),
    **{f"norm {ord}": lambda x, *to, ord=ord: L.vector_norm(x, ord, *to) for ord in (1, 2, 3, -1.5, np.inf, -np.inf)},
}  # fmt: skip
OTHERS: dict[str, Callable[..., Any]] = {
    "any": lambda x, *to: (x > 1).any(*to), "all": lambda x, *to: (x > -1).all(*to),
    "count_nonzero": lambda x, dim, _: x.count_nonzero(dim), "norm 0": lambda x, *to: L.vector_norm(x, 0, *to),
    "amax of integers": lambda x, *to: (x * 4).long().amax(*to),
}  # fmt: skip
LAYOUTS: dict[str, Callable[..., Any]] = {
    "in order": lambda x: x, "transposed": lambda x: x.permute(2, 0, 3, 1), "slice": lambda x: x[:, 1:, ::2],
    "slice, transposed": lambda x: x[..., 1::2].permute(3, 1, 0, 2), "expanded": lambda x: x[:, :1].expand(3, 4, 5, 6),
    "one element": lambda x: x[:, :1], "reversed order": lambda x: x.permute(3, 2, 1, 0),
}  # fmt: skip
DIMS = [(0, 2), [-1, 1], (3, 0, 2), 1, (1, 2), None]


def drawn(dtype: str) -> Any:
    """Numbers of which some are equal and none is 0."""
    host = np.random.default_rng(7).integers(-5, 6, (3, 4, 5, 6)) / 4.0
    host[host == 0] = 0.25
    return host.astype(as_dtype(dtype))


@pytest.fixture
def by_kernel(monkeypatch) -> None:
    """What no kernel of gradlib's own serves fails."""

    def served(*args: Any) -> Any:
        made = plan(*args)
        assert made is not None, args
        return made

    for module in (reducing, moments, line_slopes):
        monkeypatch.setattr(module, "plan", served)


@pytest.mark.parametrize(("layout", "dtype"), [*((layout, "float32") for layout in LAYOUTS), ("in order", "float16"), ("slice", "float16")])
@pytest.mark.usefixtures("by_kernel")
def test_values_and_gradients_are_those_of_the_host(layout, dtype):
    """Half types are computed in float32 on both, and rounded once."""
    host, close = drawn(dtype), 16 * float(gradlib.finfo(as_dtype(dtype)).eps)
    own, far = (gradlib.as_tensor(place(host)).requires_grad_() for place in (np.copy, cupy.asarray))
    for name, case in (FLOATS | OTHERS).items():
        for i, dim in enumerate(DIMS if dtype == "float32" else DIMS[:2]):
            if name == "logsumexp" and dim is None:
                continue
            expected, made = (case(LAYOUTS[layout](x), dim, i % 2 == 0) for x in (own, far))
            assert (made.dtype, made.shape, made.is_contiguous()) == (expected.dtype, expected.shape, True), (name, dim)
            gradients = [(expected.detach(), made.detach())]
            if name in FLOATS:
                weights = np.linspace(-1, 2, made.numel()).reshape(made.shape).astype(host.dtype)
                gradients.append(
                    tuple(
                        gradlib.autograd.grad(each, x, gradlib.as_tensor(place(weights)))[0]
                        for each, x, place in ((expected, own, np.copy), (made, far, cupy.asarray))
                    )
                )
            for a, b in gradients:
                a, b = a.double().numpy(), b.double().numpy(force=True)
                np.testing.assert_allclose(b, a, rtol=close, atol=close * max(1, np.abs(a).max()), err_msg=f"{name} {dim}")


@pytest.mark.parametrize("name", FLOATS)
def test_second_derivatives_of_apart_dimensions(name):
    x = gradlib.as_tensor(cupy.asarray(np.random.default_rng(3).normal(size=(2, 3, 2)))).requires_grad_()
    for of in (lambda x: x, lambda x: x.T if x.ndim == 2 else x.permute(1, 2, 0)):
        assert gradlib.autograd.gradcheck(lambda x, of=of: FLOATS[name](of(x), (0, 2), False), x, check_forward_ad=True)
        assert gradlib.autograd.gradgradcheck(lambda x, of=of: FLOATS[name](of(x), (0, 2), False), x, fast_mode=True)


@pytest.mark.parametrize("layout", ["in order", "slice, transposed"])
def test_vmap_and_a_captured_graph_give_the_same(layout):
    x = gradlib.as_tensor(cupy.asarray(drawn("float32"))).requires_grad_()

    def run() -> list[gradlib.Tensor]:
        made = [case(LAYOUTS[layout](x), (0, 2), False) for case in FLOATS.values()]
        return made + [gradlib.autograd.grad(each.sum(), x)[0] for each in made]

    y = LAYOUTS[layout](x.detach())
    for name, case in FLOATS.items():
        for lead, dims in ((0, (1, 3)), (2, (0, 3))):
            mapped = gradlib.vmap(lambda row, case=case: case(row, (0, 2), False), lead, lead // 2)(y)
            assert gradlib.allclose(mapped, case(y, dims, False), rtol=1e-6), name
    eager = [each.tolist() for each in run()]
    with cuda.graph(graph := cuda.CUDAGraph()):
        replayed = run()
    graph.replay()
    assert [each.tolist() for each in replayed] == eager


def places(planned: Any) -> list[list[int]]:
    """Where the elements of each line lie, as the kernels find them."""
    _, n, count, strided, sizes = planned
    if not strided:
        _, inner, _ = sizes
        return [sorted(o // inner * count * inner + o % inner + k * inner for k in range(count)) for o in range(n)]

    def place(members: tuple[int, ...], i: int) -> int:
        made, steps = 0, members[GROUPS - 1 :]
        for size, step in zip(members[: GROUPS - 1], steps, strict=False):
            made, i = (made + i % size * step, i // size) if size > 1 else (made, i)
        return made + i * steps[-1]

    lines, elements = sizes[: 2 * GROUPS - 1], sizes[2 * GROUPS - 1 : -2]
    return [sorted(place(lines, o) + place(elements, k) for k in range(count)) for o in range(n)]


@pytest.mark.parametrize(
    ("shape", "strides", "axis", "strided"),
    [
        ((4, 2, 5), None, (1, 2), False), ((4, 2, 5), None, -2, False), ((), None, None, False), ((), None, 0, False),
        ((4, 1, 5), None, (0, 2), False), ((2, 4, 1, 5), None, (3, 1), False),  # nothing stands between
        ((3, 4), (1, 3), 0, False), ((4, 5), (1, 4), None, False), ((2, 3, 4), (4, 8, 1), (2, 0), False),  # the same lines, transposed
        ((4, 2, 5), None, (0, 2), True), ((4, 6), (24, 2), 1, True), ((4, 6), (0, 1), 0, True), ((4, 6), (0, 0), None, True),
        ((3, 2, 3, 2, 3), None, (1, 3), True), ((3, 2, 3, 2, 3), (2, 1, 60, 6, 12), (0, 2, 4), True), ((2,) * 8, None, (0, 2, 4, 6), True),
    ],
)  # fmt: skip
def test_lines_that_lie_evenly_are_told_from_others(shape, strides, axis, strided):
    planned = plan(shape, None if strides is None else tuple(4 * each for each in strides), np.dtype("f"), axis, True)
    x = np.arange(1 << 12, dtype=np.int32)
    x = x[: int(np.prod(shape))].reshape(shape) if strides is None else np.lib.stride_tricks.as_strided(x, shape, np.array(strides) * 4)
    reduced = range(x.ndim) if axis is None else np.atleast_1d(axis)[: x.ndim] % max(x.ndim, 1)
    lines = np.moveaxis(x, reduced, range(-len(reduced), 0)) if x.ndim else x
    assert (planned[0], planned[3]) == (tuple(1 if d in reduced else size for d, size in enumerate(shape)), strided)
    assert places(planned) == np.sort(lines.reshape(planned[1], planned[2]), 1).tolist()


def test_what_lies_as_no_kernel_has_it_is_left_to_cupy():
    assert plan((4,), None, np.dtype("F"), 0, False) is None
    for shape, strides, axis in (
        ((4,), (-4,), 0), ((4, 0), None, 0), ((2,) * 9, None, (0, 2, 4, 6, 8)), ((4, 3), (6, 4), 0), ((LONGEST + 1,), None, 0),
        ((3,), None, 1), ((2, 3), (1 << 34, 4), None),
    ):  # fmt: skip
        assert plan(shape, strides, np.dtype("f"), axis, False) is None
    host = np.random.default_rng(3).normal(size=(2, 3) * 5).astype("f")
    for of, dim in ((lambda x: x, (0, 2, 4, 6, 8)), (lambda x: x[::-1, 0, :, 0, :, 0, :, 0, :, 0], (0, 2))):
        x, y = gradlib.as_tensor(of(host)).requires_grad_(), gradlib.as_tensor(of(cupy.asarray(host))).requires_grad_()
        for name in ("mean", "std", "norm 3", "amax", "logsumexp"):
            expected, made = (FLOATS[name](each, dim, False) for each in (x, y))
            np.testing.assert_allclose(made.numpy(force=True), expected.detach().numpy(), rtol=1e-5)
            slopes = [gradlib.autograd.grad(each.sum(), of)[0].numpy(force=True) for each, of in ((expected, x), (made, y))]
            np.testing.assert_allclose(slopes[1], slopes[0], rtol=1e-4, atol=1e-6)


def test_a_gradient_lies_as_the_input_does():
    """Where that has no gaps; then one kernel reads and writes the same places."""
    x = gradlib.rand(3, 4, 5, device="cuda")
    for of, stride in ((x, (20, 5, 1)), (x.permute(2, 0, 1), (1, 20, 5)), (x[:, ::2], (10, 5, 1)), (x[:1].expand(3, 4, 5), (20, 5, 1))):
        of.requires_grad_()
        for made in (of.var((0, 2)), of.amax((0, 2))):
            assert gradlib.autograd.grad(made.sum(), of)[0].stride() == stride
