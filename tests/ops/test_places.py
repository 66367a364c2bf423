"""Reading and writing at places gives on a device what it gives on the CPU: values, gradients, and what is written in place."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.backend.dtype import as_dtype
from tests.device import skip_module_without_cuda
from tests.values import host

skip_module_without_cuda()
pytestmark = [pytest.mark.cuda, pytest.mark.host]

DTYPES = ("float32", "float64", "float16", "bfloat16", "int64", "int32", "uint8", "bool", "complex64")
REDUCTIONS = ("sum", "prod", "mean", "amax", "amin")


def made(rng: np.random.Generator, shape: Any, dtype: str) -> gradlib.Tensor:
    """Small integers, of which sums and products are exact in every dtype; sometimes in memory of another order."""
    array = rng.integers(-2 if as_dtype(dtype).kind != "u" else 0, 3, shape).astype(as_dtype(dtype))
    return gradlib.as_tensor(np.asfortranarray(array) if rng.random() < 0.3 else array)


def compared(call: Any, *tensors: gradlib.Tensor, in_place: bool = False) -> None:
    """Run a call on the CPU and on the device, with gradients of the tensors that have any, and compare."""
    found = []
    for device in ("cpu", "cuda"):
        given = [x.detach().clone().to(device) for x in tensors]
        leaves = [x for x in given if gradlib.is_floating_point(x)]
        for each in leaves:
            each.requires_grad_()
        result = call(*([given[0] * 1, *given[1:]] if in_place and leaves and leaves[0] is given[0] else given))
        grads: Any = ()
        if leaves and result.requires_grad:
            weights = gradlib.arange(result.numel(), device=device).reshape(result.shape).to(result.dtype) % 5
            grads = gradlib.autograd.grad(result, leaves, weights, allow_unused=True)
        found.append([result.detach(), *grads])
    for one, other in zip(*found, strict=True):
        assert (one is None) == (other is None)
        if one is not None:
            assert one.dtype == other.dtype
            tolerance = 1e-6 if one.dtype not in (gradlib.float16, gradlib.bfloat16) else 2e-2
            np.testing.assert_allclose(host(one).astype(complex), host(other).astype(complex), tolerance, tolerance)


@pytest.mark.parametrize("seed", range(40))
def test_scatter_and_gather(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dtype = DTYPES[seed % len(DTYPES)]
    shape = tuple(rng.integers(1, 5, rng.integers(0, 4)).tolist())
    dim = int(rng.integers(max(1, len(shape))))
    places = [int(rng.integers(0 if seed % 5 == 0 else 1, 6)) if d == dim else int(rng.integers(1, n + 1)) for d, n in enumerate(shape)]
    index = gradlib.as_tensor(rng.integers(0, shape[dim] if shape else 1, places).astype(rng.choice(["int64", "int32"])))
    x, src = made(rng, shape, dtype), made(rng, [n + int(rng.integers(2)) for n in places], dtype)
    alike = gradlib.ones_like(src)  # of several that meet at one place one is kept, whichever
    compared(lambda x, i: x.gather(dim, i), x, index)
    compared(lambda x, i, s: x.detach().scatter(dim, i, s.detach()), x, index, alike)
    compared(lambda x, i: x.scatter(dim, i, 1), x, index)
    compared(lambda x, i, s: x.scatter_add(dim, i, s), x, index, src)
    compared(lambda x, i, s: x.scatter_add_(dim, i, s), x, index, src, in_place=True)
    compared(lambda x, i, s: x.detach().scatter_(dim, i, 1), x, index, src)
    if dtype not in ("bool", "uint8"):
        compared(lambda x, i, s: x.detach().scatter(dim, i, s.detach(), reduce="multiply"), x, index, src)
        compared(lambda x, i, s: x.detach().scatter_(dim, i, s.detach(), reduce="multiply"), x, index, src)
    for reduce in REDUCTIONS if dtype not in ("bool", "uint8", "complex64") else ("sum",):
        for include_self in (True, False):
            options = {"reduce": reduce, "include_self": include_self}
            compared(lambda x, i, s, o=options: x.scatter_reduce(dim, i, s, **o), x, index, src)
            compared(lambda x, i, s, o=options: x.scatter_reduce_(dim, i, s, **o), x, index, src, in_place=True)
            compared(lambda x, i, s, o=options: x.detach().scatter_reduce_(dim, i, s.detach(), **o), x, index, src)


@pytest.mark.parametrize("seed", range(40))
def test_slices_and_elements(seed: int) -> None:
    rng = np.random.default_rng(seed)
    dtype = DTYPES[seed % len(DTYPES)]
    shape = tuple(rng.integers(1, 5, rng.integers(1, 4)).tolist())
    dim, k = int(rng.integers(len(shape))), int(rng.integers(0 if seed % 5 == 0 else 1, shape[0] + 1))
    x = made(rng, shape, dtype)
    line = gradlib.as_tensor(rng.permutation(shape[dim])[:k].astype(rng.choice(["int64", "int32"])))
    rows = made(rng, (*shape[:dim], line.shape[0], *shape[dim + 1 :]), dtype)
    compared(lambda x, i: x.index_select(dim, i), x, line)
    compared(lambda x, i, s: x.index_add(dim, i, s), x, line, rows)
    compared(lambda x, i, s: x.index_add_(dim, i, s, alpha=2), x, line, rows, in_place=True)
    compared(lambda x, i, s: x.index_copy(dim, i, s), x, line, rows)
    compared(lambda x, i, s: x.index_copy_(dim, i, s), x, line, rows, in_place=True)
    compared(lambda x, i: x.index_fill(dim, i, 1), x, line)
    compared(lambda x, i: x.detach().index_fill_(dim, i, 1), x, line)
    compared(lambda x, i, s: _assigned(x, (*(slice(None),) * dim, i.long()), s), x, line, rows, in_place=True)
    mask = gradlib.as_tensor(rng.random(shape) < 0.5)
    several = made(rng, int(mask.sum()) + int(rng.integers(2)), dtype)
    compared(lambda x, m: x[m], x, mask)
    if several.numel():
        compared(lambda x, m, s: x.masked_scatter(m, s), x, mask, several)
        compared(lambda x, m, s: x.masked_scatter_(m, s), x, mask, several, in_place=True)
    if len(shape) > 1:
        count = min(shape[:2])
        one, other = (gradlib.as_tensor(rng.permutation(n)[:count] - n * int(rng.integers(2))) for n in shape[:2])
        values = made(rng, (count, *shape[2:]), dtype)
        compared(lambda x, i, j: x[i, j], x, one, other)
        compared(lambda x, i, j, s: x.index_put((i, j), s), x, one, other, values)
        compared(lambda x, i, j, s: x.index_put_((i, j), s, accumulate=True), x, one, other, values, in_place=True)
        compared(lambda x, i, j, s: _assigned(x, (i, j), s), x, one, other, values, in_place=True)
        compared(lambda x, s: _assigned(x, (0, ...), s), x, made(rng, shape[1:], dtype), in_place=True)


def _assigned(x: gradlib.Tensor, key: Any, values: gradlib.Tensor) -> gradlib.Tensor:
    x[key] = values
    return x


def test_places_in_the_memory_that_is_written_are_read_before() -> None:
    for device in ("cpu", "cuda"):
        p = gradlib.tensor([1, 2, 0, 3], device=device)
        p[p] = gradlib.tensor([5, 6, 7, 8], device=device)
        assert p.tolist() == [7, 5, 6, 8]
        p = gradlib.tensor([1, 2, 0, 3], device=device)
        assert p.scatter_(0, p, gradlib.tensor([5, 6, 7, 8], device=device)).tolist() == [7, 5, 6, 8]
        p = gradlib.tensor([1, 2, 0, 3], device=device)
        assert p.scatter_(0, gradlib.tensor([1, 2, 3, 0], device=device), p).tolist() == [3, 1, 2, 0]


@pytest.mark.parametrize("dtype", ["float32", "float16", "int64"])
def test_what_is_written_in_place_may_lie_in_another_order(dtype: str) -> None:
    """A kernel that does not serve its layout must not write a copy of it instead."""
    index, src = gradlib.tensor([[0, 0, 1], [1, 0, 1]]), gradlib.full((2, 3), 2).to(as_dtype(dtype))
    for order in ("C", "F"):
        x = gradlib.as_tensor(np.asarray(np.full((2, 3), 3), dtype, order=order))
        for reduce in REDUCTIONS:
            compared(lambda x, i, s, r=reduce: x.detach().scatter_reduce_(1, i, s.detach(), r), x, index, src)
            compared(lambda x, i, s, r=reduce: x.detach().T.scatter_reduce_(0, i.T, s.detach().T, r).T, x, index, src)
        for write in ("index_add_", "index_copy_"):
            compared(lambda x, i, s, w=write: getattr(x.detach().T, w)(0, i[0, [0, 2, 1]].unique(), s.detach().T[:2]).T, x, index, src)
        compared(lambda x, i, s: x.detach().T.index_put_((i[0],), s.detach().T, accumulate=True).T, x, index, src)
        compared(lambda x, i, s: x.detach().T.masked_scatter_(x.T > 0, s.detach().T).T, x, index, src)
