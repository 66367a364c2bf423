"""What an operation on a GPU costs the host: how many Python functions of gradlib's it runs, and that its kernel is gradlib's own."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import gradlib
from benchmarks.python_calls import python_calls
from gradlib.nn import functional as F
from gradlib.trajectory import step_acceleration
from tests.device import cupy, skip_module_without_cuda

skip_module_without_cuda()
pytestmark = [pytest.mark.cuda, pytest.mark.host]

L = gradlib.linalg
DOUBLED = gradlib.cuda.elementwise("T x", "T z", "z = 2 * x", "doubled", derivative={"x": "2"})
POINTWISE: dict[str, Callable[..., Any]] = {
    "x + y": lambda x, y, **_: x + y, "y + y": lambda y, **_: y + y, "x * 2.5": lambda x, **_: x * 2.5, "1 - x": lambda x, **_: 1 - x,
    "x > y": lambda x, y, **_: x > y, "-x": lambda x, **_: -x, "sin": lambda x, **_: gradlib.sin(x), "relu": lambda x, **_: gradlib.relu(x),
    "x + row": lambda x, r, **_: x + r, "x ** 2": lambda x, **_: x**2, "half": lambda h, **_: h * h,
    "maximum": lambda x, y, **_: x.maximum(y), "elementwise": lambda x, **_: DOUBLED(x), "half * 2.5": lambda h, **_: h * 2.5,
    "2.5 / half": lambda h, **_: 2.5 / h, "half + 1": lambda h, **_: h + 1, "x ** 2.5": lambda x, **_: x**2.5,
    "x ** 3": lambda x, **_: x**3, "x ** -1": lambda x, **_: x**-1, "bfloat16": lambda b, **_: b + b,
    "half *= 2.5": lambda g, **_: g.__imul__(2.5), "floor": lambda x, **_: x.floor(), "isnan": lambda x, **_: x.isnan(),
    "integers": lambda i, **_: i + i, "log2": lambda x, **_: x.log2(), "neg_": lambda z, **_: z.neg_(),
    "sign": lambda x, **_: x.sign(), "sigmoid": lambda x, **_: x.sigmoid(), "angle": lambda x, **_: x.angle(),
    "softplus": lambda x, **_: gradlib.nn.functional.softplus(x), "silu": lambda x, **_: gradlib.nn.functional.silu(x),
    "2 ** x": lambda x, **_: 2**x,
    "remainder": lambda x, y, **_: x % y, "floor_divide": lambda x, y, **_: x // y, "fmod": lambda x, y, **_: x.fmod(y),
    "~m": lambda m, **_: ~m, "m & m": lambda m, **_: m & m,
    "clamp": lambda x, **_: x.clamp(0.0, 1.0), "clamp, min": lambda x, **_: x.clamp(0.0), "erf": lambda x, **_: x.erf(),
    "frac": lambda x, **_: x.frac(), "rsqrt": lambda x, **_: x.rsqrt(), "lerp": lambda x, y, **_: x.lerp(y, 0.25),
    "addcmul": lambda x, y, **_: x.addcmul(x, y, value=2), "addcdiv": lambda x, y, **_: x.addcdiv(x, y),
    "nan_to_num": lambda x, **_: x.nan_to_num(), "gelu": lambda x, **_: F.gelu(x), "gelu, tanh": lambda x, **_: F.gelu(x, "tanh"),
    "elu": lambda x, **_: F.elu(x), "leaky_relu": lambda x, **_: F.leaky_relu(x), "logsigmoid": lambda x, **_: F.logsigmoid(x),
    "shift": lambda i, **_: i << i, "a number / x": lambda x, **_: 2.5 / x, "logaddexp": lambda x, y, **_: gradlib.logaddexp(x, y),
    "logical_and": lambda m, **_: m.logical_and(m), "angle, complex": lambda u, **_: u.angle(), "abs, complex": lambda u, **_: u.abs(),
    "nan_to_num, complex": lambda u, **_: u.nan_to_num(), "a number of NumPy's": lambda x, **_: x * np.float64(2.5),
    "complex": lambda u, **_: u * u, "sin of complex": lambda u, **_: u.sin(), "complex quotient": lambda u, **_: u / u,
    "half - half": lambda h, **_: h - h, "integers > 2": lambda i, **_: i > 2, "integers ** 2": lambda i, **_: i**2,
    "atan2": lambda x, y, **_: x.atan2(y),
    "1j * x": lambda x, **_: 1j * x, "x + 1j": lambda x, **_: x + 1j, "complex / 2j": lambda u, **_: u / 2j,
    "1j - complex": lambda u, **_: 1j - u, "complex == 1j": lambda u, **_: u == 1j, "sgn, complex": lambda u, **_: u.sgn(),
    "2 // x": lambda x, **_: 2 // x, "2 % x": lambda x, **_: 2 % x, "1 << integers": lambda i, **_: 1 << i,
    "9 >> integers": lambda i, **_: 9 >> i, "2 ** integers": lambda i, **_: 2**i, "integers ** integers": lambda i, **_: i**i,
    "integers ** 3": lambda i, **_: i**3, "lerp, stretched in between": lambda wide, tall, **_: wide.lerp(tall, 0.3),
    "x ** y": lambda x, y, **_: x**y, "gelu, turned": lambda a, **_: F.gelu(a), "sigmoid, spaced": lambda f, **_: f.sigmoid(),
}  # fmt: skip
OTHERS: dict[str, Callable[..., Any]] = {
    "where": lambda x, y, m, **_: gradlib.where(m, x, y), "where, number": lambda x, m, **_: gradlib.where(m, x, 0.0),
    "cat": lambda x, y, **_: gradlib.cat([x, y]), "cat, last": lambda x, y, **_: gradlib.cat([x, y], -1),
    "stack": lambda x, y, **_: gradlib.stack([x, y]), "x[places]": lambda x, i, **_: x[i], "x[:, places]": lambda x, i, **_: x[:, i],
    "x[1:]": lambda x, **_: x[1:], "x[0]": lambda x, **_: x[0], "reshape": lambda x, **_: x.reshape(8, 4), "x.T": lambda x, **_: x.T,
    "sum": lambda x, **_: x.sum(), "sum(-1)": lambda x, **_: x.sum(-1), "matmul": lambda x, y, **_: x @ y.T,
    "clone": lambda x, **_: x.clone(), "add_": lambda z, **_: z.add_(1.0), "iadd": lambda z, y, **_: z.__iadd__(y),
    "gather": lambda x, p, **_: gradlib.gather(x, 1, p), "max": lambda x, **_: x.max(-1).values, "amin": lambda x, **_: x.amin(),
    "sort": lambda x, **_: x.sort(), "mean": lambda x, **_: x.mean(0), "z[0] = 1": lambda z, **_: z.__setitem__(0, 1.0),
    "z -= row": lambda z, r, **_: z.sub_(r), "zero_": lambda z, **_: z.zero_(), "where, row": lambda x, m, r, **_: gradlib.where(m, r, 0.0),
    "bfloat16 = 2.5 * it": lambda b, **_: b.mul_(2.5), "any": lambda m, **_: m.any(),
    "argmax": lambda x, **_: x.argmax(-1), "prod": lambda x, **_: x.prod(), "ones_like": lambda y, **_: gradlib.ones_like(y),
    "where, half": lambda h, m, **_: h.where(m, 0.0),
    "split": lambda x, **_: gradlib.split(x, 2), "unbind": lambda x, **_: x.unbind(), "zeros": lambda **_: gradlib.zeros(8, device="cuda"),
    "to another dtype": lambda x, **_: x.to(gradlib.float64), "x.half()": lambda x, **_: x.half(), "long sum": lambda w, **_: w.sum(),
    "arange": lambda **_: gradlib.arange(8, device="cuda"), "arange of floats": lambda **_: gradlib.arange(0, 1, 0.25, device="cuda"),
    "ones": lambda **_: gradlib.ones(8, device="cuda"), "full": lambda **_: gradlib.full((8,), 2.0, device="cuda"),
    "cumsum": lambda x, **_: x.cumsum(-1), "cumprod": lambda x, **_: x.cumprod(0), "cummax": lambda y, **_: y.cummax(-1).values,
    "logcumsumexp": lambda x, **_: x.logcumsumexp(0), "z[i] = 2": lambda z, i, **_: z.__setitem__(i, 2.0),
    "softmax": lambda x, **_: x.softmax(-1), "log_softmax": lambda x, **_: x.log_softmax(-1), "logsumexp": lambda x, **_: x.logsumexp(0),
    "sigmoid_": lambda z, **_: z.sigmoid_(), "2.5 ** half": lambda h, **_: 2.5**h,
    "isclose": lambda x, y, **_: gradlib.isclose(x, y), "argsort": lambda y, **_: y.argsort(),
    "split, sizes": lambda x, **_: x.split([1, 3]), "chunk": lambda x, **_: x.chunk(2, -1), "clamp_": lambda z, **_: z.clamp_(0.0, 1.0),
    "clamp_, max": lambda z, **_: z.clamp_(max=1.0), "fill_": lambda z, **_: z.fill_(2.0), "copy_": lambda z, y, **_: z.copy_(y),
    "z[i] = rows": lambda z, i, t, **_: z.__setitem__(i, t), "z[m] = 0": lambda z, m, **_: z.__setitem__(m, 0.0),
    "topk": lambda x, **_: x.topk(2), "topk, first": lambda x, **_: x.topk(2, 0), "kthvalue": lambda x, **_: x.kthvalue(2),
    "median": lambda x, **_: x.median(), "median, dim": lambda x, **_: x.median(-1), "bucketize": lambda y, r, **_: gradlib.bucketize(y, r),
    "searchsorted": lambda y, t, **_: gradlib.searchsorted(t, y[:2]), "isin": lambda y, r, **_: gradlib.isin(y, r),
    "unique": lambda y, **_: y.unique(),
    "eigvalsh": lambda k, **_: L.eigvalsh(k), "svdvals": lambda k, **_: L.svdvals(k), "det": lambda q, **_: L.det(q),
    "inv": lambda q, **_: L.inv(q), "solve": lambda q, x, **_: L.solve(q, x), "solve, vector": lambda q, c, **_: L.solve(q, c),
    "solve_triangular": lambda q, x, **_: L.solve_triangular(q, x, upper=False), "cholesky": lambda q, **_: L.cholesky(q),
    "tril": lambda q, **_: q.tril(), "eigh": lambda q, **_: L.eigh(q),
    "dot": lambda c, **_: c @ c, "inner, vectors": lambda c, **_: gradlib.inner(c, c), "svd": lambda q, **_: L.svd(q),
    "svdvals, recorded": lambda q, **_: L.svdvals(q), "pinv": lambda q, **_: L.pinv(q),
    "lstsq": lambda q, x, **_: L.lstsq(q, x), "lstsq, gelsd": lambda q, x, **_: L.lstsq(q, x, driver="gelsd"),
    "qr": lambda q, **_: L.qr(q), "slogdet": lambda q, **_: L.slogdet(q), "norm": lambda x, **_: x.norm(),
    "norm, 3": lambda x, **_: x.norm(3, -1),
    "norm, inf": lambda x, **_: x.norm(float("inf")), "norm, 0": lambda x, **_: L.vector_norm(x, 0, 0),
    "matrix_norm, 1": lambda q, **_: L.matrix_norm(q, 1), "matrix_norm, inf": lambda q, **_: L.matrix_norm(q, float("inf")),
    "bmm": lambda d, **_: d @ d,
    "inner": lambda x, r, **_: gradlib.inner(x, r), "outer": lambda x, r, **_: r.outer(r), "kron": lambda x, y, **_: gradlib.kron(x, y),
    "tensordot": lambda x, y, **_: gradlib.tensordot(x, y, ((1,), (1,))), "einsum": lambda x, y, **_: gradlib.einsum("ij,kj->ik", x, y),
    "var": lambda x, **_: x.var(), "var(0)": lambda x, **_: x.var(0), "std": lambda x, **_: x.std(-1),
    "std_mean": lambda x, **_: gradlib.std_mean(x, 0), "var_mean": lambda x, **_: gradlib.var_mean(x), "nansum": lambda x, **_: x.nansum(),
    "nanmean": lambda x, **_: x.nanmean(0), "layer_norm": lambda x, **_: F.layer_norm(x, (8,)),
    "layer_norm, affine": lambda x, r, **_: F.layer_norm(x, (8,), r, r),
    "mse_loss": lambda x, y, **_: F.mse_loss(x, y),
    "mse_loss, weights": lambda x, y, e, **_: F.mse_loss(x, y, weight=e), "mse_loss, half": lambda h, **_: F.mse_loss(h, h),
    "huber_loss, weights": lambda x, y, e, **_: F.huber_loss(x, y, weight=e), "l1_loss, half": lambda b, **_: F.l1_loss(b, b),
    "l1_loss": lambda x, y, **_: F.l1_loss(x, y), "smooth_l1_loss": lambda x, y, **_: F.smooth_l1_loss(x, y),
    "huber_loss": lambda x, y, **_: F.huber_loss(x, y, delta=2.0),
    "binary_cross_entropy_with_logits": lambda x, y, **_: F.binary_cross_entropy_with_logits(x, y),
    "binary_cross_entropy_with_logits, yes": lambda x, y, r, **_: F.binary_cross_entropy_with_logits(x, y, pos_weight=r),
    "smooth_l1_loss, each": lambda x, y, **_: F.smooth_l1_loss(x, y, reduction="none", beta=2.0),
    "huber_loss, each": lambda x, y, **_: F.huber_loss(x, y, reduction="none"),
    "softmax, in float64": lambda x, **_: x.softmax(-1, dtype=gradlib.float64),
    "softmax of half, in float32": lambda h, **_: F.softmax(h, -1, dtype=gradlib.float32),
    "cross_entropy": lambda w, v, **_: F.cross_entropy(w, v), "nll_loss": lambda w, v, **_: F.nll_loss(w, v),
    "cross_entropy, smoothed": lambda w, v, **_: F.cross_entropy(w, v, label_smoothing=0.1),
    "cross_entropy, weights": lambda x, n, r, **_: F.cross_entropy(x, n, r, label_smoothing=0.1),
    "cross_entropy, ignored": lambda x, n, **_: F.cross_entropy(x, n, ignore_index=1, reduction="sum"),
    "cross_entropy, probabilities": lambda x, y, **_: F.cross_entropy(x, y), "nll_loss, weights": lambda x, n, r, **_: F.nll_loss(x, n, r),
    "cross_entropy, probabilities of weighted classes": lambda x, y, r, **_: F.cross_entropy(x, y, r),
    "cross_entropy, probabilities, each": lambda x, y, **_: F.cross_entropy(x, y, reduction="none", label_smoothing=0.1),
    "logsumexp, integers": lambda i, **_: i.logsumexp(0),
    "trapezoid": lambda x, **_: gradlib.trapezoid(x), "trapezoid, places": lambda x, r, **_: gradlib.trapezoid(x, r),
    "trapezoid, places of each": lambda x, y, **_: gradlib.trapezoid(x, y, dim=0),
    "cdist": lambda x, y, **_: gradlib.cdist(x, y),
    "cdist, 1": lambda x, y, **_: gradlib.cdist(x, y, 1.0), "equal": lambda x, y, **_: gradlib.equal(x, y),
    "allclose": lambda x, y, **_: gradlib.allclose(x, y), "count_nonzero": lambda x, **_: x.count_nonzero(),
    "aminmax": lambda x, **_: x.aminmax(),
    "sum, apart": lambda cube, **_: cube.sum((0, 2)), "mean, apart": lambda cube, **_: cube.mean((0, 2)),
    "amax, apart": lambda cube, **_: cube.amax((-1, 0)), "any, apart": lambda cube, **_: cube.any((0, 2)),
    "count_nonzero, apart": lambda cube, **_: cube.count_nonzero((0, 2)), "std, apart": lambda cube, **_: cube.std((0, 2)),
    "var_mean, apart": lambda cube, **_: gradlib.var_mean(cube, (0, 2)), "norm, apart": lambda cube, **_: cube.norm(dim=(0, 2)),
    "norm 3, apart": lambda cube, **_: L.vector_norm(cube, 3, [0, 2]),
    "norm inf, apart": lambda cube, **_: cube.norm(float("inf"), (0, 2)),
    "nansum, apart": lambda cube, **_: cube.nansum((0, 2)), "nanmean, apart": lambda cube, **_: cube.nanmean((0, 2)),
    "logsumexp, apart": lambda cube, **_: cube.logsumexp((0, 2), True),
    "matrix_norm, apart": lambda cube, **_: L.matrix_norm(cube, dim=(0, 2)),
    "sum of a slice": lambda x, **_: x[:, ::2].sum(-1), "var of a transpose": lambda x, **_: x.T.var(0),
    "amax of a transpose": lambda x, **_: x.T.amax(), "max of a slice": lambda part, **_: part.max(-1),
    "softmax of a transpose": lambda x, **_: x.T.softmax(0),
    "copy_ of halves": lambda z, h, **_: z.copy_(h), "copy_ of a row": lambda z, r, **_: z.copy_(r),
    "fill_ with a tensor": lambda z, o, **_: z.fill_(o),
    "x[list]": lambda x, **_: x[[0, 2]], "x[NumPy's]": lambda x, **_: x[np.array([0, 2])], "x[lists]": lambda x, **_: x[[0, 2], [[1], [3]]],
    "x[NumPy's mask]": lambda x, **_: x[np.eye(4, 8, dtype=bool)], "x[mask]": lambda x, m, **_: x[m],
    "numpy.nanmean": lambda x, **_: np.nanmean(x), "numpy.nanmean of lines": lambda x, **_: np.nanmean(x, -1),
    "numpy.any": lambda x, **_: np.any(x, 0), "numpy.ptp": lambda x, **_: np.ptp(x),
    "cat of ten": lambda x, **_: gradlib.cat([x] * 10), "softmax, turned": lambda a, **_: a.softmax(-1),
    "exp, out=": lambda y, z, **_: gradlib.exp(y, out=z), "x > 0, out=": lambda y, m, **_: gradlib.gt(y, 0, out=m),
    "tensor": lambda **_: gradlib.tensor(1.0, device="cuda"), "new_ones": lambda x, **_: x.new_ones(4),
    "turned.add_": lambda a, **_: a.add_(1.0), "columns.mul_": lambda f, **_: f.mul_(2.0),
    "x * number of the host": lambda x, one, **_: x * one, "number of the host / x": lambda x, one, **_: one / x,
    "complex - number of the host": lambda u, one, **_: u - one, "integers + number of the host": lambda i, one, **_: i + one.long(),
    "clamp, number of the host": lambda x, one, **_: x.clamp(one, None), "allclose, integers": lambda i, **_: gradlib.allclose(i, i),
    "diff": lambda x, **_: x.diff(), "cross": lambda d, **_: L.cross(d, d, dim=1),
    "eye": lambda **_: gradlib.eye(4, device="cuda"), "view_as_complex": lambda x, **_: gradlib.view_as_complex(x.view(4, 4, 2)),
    "flip": lambda x, **_: x.flip(1), "rot90": lambda x, **_: gradlib.rot90(x), "roll": lambda x, **_: gradlib.roll(x, 1, 1),
    "roll of all": lambda x, **_: gradlib.roll(x, 1), "x.T.contiguous": lambda x, **_: x.T.contiguous(),
    "repeat": lambda x, **_: x.repeat(2, 1),
    "repeat_interleave": lambda x, **_: x.repeat_interleave(2, 1), "diag_embed": lambda r, **_: r.diag_embed(),
    "complex of parts": lambda x, y, **_: gradlib.complex(x, y), "pad": lambda x, **_: F.pad(x, (1, 2)),
    "masked_fill": lambda x, m, **_: x.masked_fill(m, 0.0), "masked_fill_": lambda z, m, **_: z.masked_fill_(m, 0.0),
}  # fmt: skip


def reducing(reduce: str, own: bool, into: bool) -> Callable[..., Any]:
    if into:
        return lambda z, p, d, **_: z.scatter_reduce_(1, p, d, reduce, include_self=own)
    return lambda x, p, s, **_: x.scatter_reduce(1, p, s, reduce, include_self=own)


PLACES: dict[str, Callable[..., Any]] = {
    "scatter": lambda x, p, s, **_: x.scatter(1, p, s), "scatter, number": lambda x, p, **_: x.scatter(1, p, 2.0),
    "scatter_": lambda z, p, d, **_: z.scatter_(1, p, d), "scatter_, number": lambda z, p, **_: z.scatter_(1, p, 2.0),
    "scatter_add": lambda x, p, s, **_: x.scatter_add(1, p, s), "scatter_add_": lambda z, p, d, **_: z.scatter_add_(1, p, d),
    "scatter, part": lambda x, q, y, **_: x.scatter(0, q, y), "scatter_add, part": lambda x, q, y, **_: x.scatter_add(0, q, y),
    "scatter, part that is recorded": lambda x, q, y, **_: y.scatter(0, q, x),
    "scatter, product": lambda x, p, s, **_: x.scatter(1, p, s, reduce="multiply"),
    "scatter_, product": lambda z, p, d, **_: z.scatter_(1, p, d, reduce="multiply"),
    **{
        f"scatter_reduce, {reduce}{'' if own else ' of others'}{', in place' if into else ''}": reducing(reduce, own, into)
        for reduce in ("sum", "prod", "mean", "amax", "amin") for own in (True, False) for into in (True, False)
    },
    "index_add": lambda x, i, t, **_: x.index_add(0, i, t), "index_add, columns": lambda x, i, s, **_: x.index_add(1, i, s),
    "index_add, alpha": lambda x, i, t, **_: x.index_add(0, i, t, alpha=-2.5),
    "index_add, half": lambda h, i, a, **_: h.index_add(0, i, a), "scatter_add, half": lambda h, p, f, **_: h.scatter_add(1, p, f),
    "index_add_": lambda z, i, t, **_: z.index_add_(0, i, t), "index_copy": lambda x, i, t, **_: x.index_copy(0, i, t),
    "index_copy, columns": lambda x, i, s, **_: x.index_copy(1, i, s), "index_copy_": lambda z, i, t, **_: z.index_copy_(0, i, t),
    "index_fill": lambda x, i, **_: x.index_fill(0, i, 2.0), "index_fill, columns": lambda x, i, **_: x.index_fill(1, i, 2.0),
    "index_fill_": lambda z, i, **_: z.index_fill_(1, i, 2.0), "index_put": lambda x, i, t, **_: x.index_put((i,), t),
    "index_put, sum": lambda x, i, t, **_: x.index_put((i,), t, accumulate=True),
    "index_put_": lambda z, i, t, **_: z.index_put_((i,), t), "take": lambda x, i, **_: x.take(i),
    "take_along_dim": lambda x, p, **_: x.take_along_dim(p, 1), "index_select": lambda x, i, **_: x.index_select(1, i),
    "gather, expanded": lambda x, wide, **_: x.gather(1, wide),
    "scatter_add, expanded": lambda x, wide, y, **_: x.scatter_add(1, wide, y),
    "gather of fewer lines": lambda x, q, **_: x.gather(0, q), "two arrays": lambda x, i, **_: x[i, i],
    "masked_select": lambda x, m, **_: x.masked_select(m), "masked_scatter": lambda x, m, y, **_: x.masked_scatter(m, y),
    "masked_scatter_": lambda z, m, y, **_: z.masked_scatter_(m, y),
    "recorded mask": lambda c, m, **_: c.__setitem__(m, 1.0), "mask of an element": lambda x, m, e, **_: x.index_put((m,), e),
    "as_strided": lambda x, **_: x.as_strided((4,), (2,)), "expand": lambda x, **_: x.expand(2, 4, 8),
    "broadcast_to": lambda x, **_: x.broadcast_to((2, 4, 8)),
    "recorded rows": lambda c, i, t, **_: c.__setitem__(i, t), "recorded row": lambda c, r, **_: c.__setitem__(0, r),
    "recorded slice": lambda c, t, **_: c.__setitem__(slice(1, 3), t),
    "recorded number": lambda c, i, **_: c.__setitem__(i, 2.0),
    "recorded columns": lambda c, i, s, **_: c.__setitem__((slice(None), i), s),
    "recorded column": lambda c, o, **_: c.__setitem__((slice(None), 0), o), "column": lambda z, o, **_: z.__setitem__((slice(None), 0), o),
    "column of a number": lambda z, **_: z.__setitem__((slice(None), 0), 1.0),
}  # fmt: skip
RANDOM: dict[str, Callable[..., Any]] = {
    "rand": lambda **_: gradlib.rand(4, 8, device="cuda"), "rand, half": lambda **_: gradlib.rand(4, 8, device="cuda", dtype=gradlib.half),
    "randn": lambda **_: gradlib.randn(4, 8, device="cuda"), "randint": lambda **_: gradlib.randint(0, 10, (4, 8), device="cuda"),
    "randperm": lambda **_: gradlib.randperm(32, device="cuda"), "rand_like": lambda x, **_: gradlib.rand_like(x),
    "randn_like": lambda x, **_: gradlib.randn_like(x), "randint_like": lambda x, **_: gradlib.randint_like(x, 10),
    "normal": lambda **_: gradlib.normal(1.0, 2.0, (4, 8), device="cuda"), "normal, means": lambda y, **_: gradlib.normal(y, 1.0),
    "bernoulli": lambda e, **_: gradlib.bernoulli(e), "bernoulli, one chance": lambda y, **_: gradlib.bernoulli(y, 0.3),
    "multinomial": lambda e, **_: e.multinomial(3), "multinomial, replaced": lambda e, **_: e.multinomial(3, True),
    "dropout": lambda x, **_: F.dropout(x), "dropout, half": lambda h, **_: F.dropout(h), "normal_": lambda z, **_: z.normal_(1.0, 2.0),
    "dropout_": lambda z, **_: F.dropout(z, inplace=True),
    "uniform_": lambda z, **_: z.uniform_(-1.0, 1.0), "uniform_, half": lambda g, **_: g.uniform_(),
    "exponential_": lambda z, **_: z.exponential_(), "log_normal_": lambda z, **_: z.log_normal_(),
    "geometric_": lambda z, **_: z.geometric_(0.3), "cauchy_": lambda z, **_: z.cauchy_(),
    "bernoulli_": lambda z, **_: z.bernoulli_(0.3), "random_": lambda j, **_: j.random_(0, 10),
}  # fmt: skip
BACKWARD: dict[str, Callable[..., Any]] = {
    name: PLACES[name]
    for name in (
        "scatter", "scatter, number", "scatter_add", "scatter, product", "index_add", "index_copy", "index_fill", "index_put",
        "masked_scatter", "take_along_dim", "gather of fewer lines", "gather, expanded", "as_strided", "expand",
        *(name for name in PLACES if name.startswith("scatter_reduce, ")),
    )
    if not name.endswith("in place")
} | {
    f"{name}, apart": OTHERS[f"{name}, apart"] for name in ("sum", "amax", "std", "norm", "norm 3", "norm inf", "logsumexp")
} | {
    name: (POINTWISE | OTHERS)[name]
    for name in ("atan2", "diff", "flip", "roll", "cat, last", "cumsum", "cumprod", "logcumsumexp", "gather", "x[places]", "x[1:]", "where")
}  # fmt: skip
"""Of whose backward the calls are those of `autograd.grad` itself, about 38, and few of the rules' own."""
THEIRS = (
    "add", "multiply", "subtract", "greater", "negative", "sin", "where", "concatenate", "stack", "maximum", "minimum", "square",
    "take_along_axis", "divide", "clip",
)  # fmt: skip


def operands() -> dict[str, Any]:
    x, y = (gradlib.as_tensor(cupy.arange(32, dtype=cupy.float32).reshape(4, 8) - k) for k in (1, 9))
    places = gradlib.as_tensor(cupy.asarray([[2, 1], [0, 1], [1, 1], [7, 0]]))
    given = {"x": x.requires_grad_(), "y": y, "m": x.detach() > 3, "i": gradlib.as_tensor(cupy.asarray([2, 1])), "p": places}
    own = y.clone()
    return given | {
        "a": own.T,
        "f": own[:, ::2],
        "w": gradlib.ones(64, 64, device="cuda"),
        "h": y.half(),
        "z": y.clone(),
        "r": y[0],
        "t": y[:2].clone(),
        "b": y.bfloat16(),
        "g": y.half(),
        "q": gradlib.eye(4, device="cuda").requires_grad_(),
        "k": gradlib.eye(4, device="cuda"),
        "c": gradlib.ones(4, device="cuda"),
        "d": gradlib.ones(2, 3, 3, device="cuda", requires_grad=True),
        "u": gradlib.complex(y, y),
        "v": gradlib.arange(64, device="cuda"),
        "e": gradlib.rand(4, 8, device="cuda"),
        "j": places.clone(),
        "n": gradlib.arange(4, device="cuda"),
        "part": x[:, ::2],
        "cube": gradlib.rand(4, 2, 4, device="cuda").requires_grad_(),
        "o": y[0, 0].clone(),
        "one": gradlib.tensor(1.0),
        "wide": y[:2].clone().reshape(2, 1, 8),
        "tall": y[:3, :1].clone(),
    }


def at_places() -> dict[str, Any]:
    given = operands()
    part = given["y"][:, :2].clone()
    column = given["y"][:, 0].clone()
    more = {"d": part, "s": part.clone().requires_grad_(), "c": given["x"] * 1, "q": given["p"] % 4, "o": column, "e": column[0].clone()}
    more["wide"] = given["p"][:, :1].expand(4, 5)
    return given | more | {"a": given["t"].half(), "f": part.half()}


@pytest.mark.parametrize("name", [*POINTWISE, *OTHERS, *PLACES, *RANDOM])
def test_an_operation_on_a_device_is_few_calls(name):
    given, case = at_places() if name in PLACES else operands(), (POINTWISE | OTHERS | PLACES | RANDOM)[name]
    case(**given)  # what is written and compiled at the first call
    calls = python_calls(lambda: case(**given))
    assert 0 < len(calls) <= (8 if name in POINTWISE else 20), calls


def test_a_tensor_on_a_device_is_handed_to_the_fast_path_there_with_nothing_between():
    """An operand that is no Tensor and no number of Python's still has its own operator asked."""
    x = operands()["x"]
    for case in (lambda: x + x, lambda: -x, lambda: x.exp(), lambda: gradlib.add(x, 1.0)):
        case()
        names = python_calls(case)
        assert not {"dispatch", "operate"}.intersection(names), names

    class Own:
        def __radd__(self, other: Any) -> str:
            return "own"

    assert x + Own() == "own"
    with pytest.raises(TypeError, match="other"):
        gradlib.add(x, "two")


@pytest.mark.parametrize("name", BACKWARD)
def test_backward_on_a_device_is_few_calls(name):
    """For the operand that leads, and for both where two are recorded."""
    given = at_places()
    made = BACKWARD[name](**given)
    leaves = [given[each] for each in ("x", "s", "cube") if each in BACKWARD[name].__code__.co_varnames]
    g = gradlib.ones_like(made)
    gradlib.autograd.grad(made, leaves, g, retain_graph=True)
    calls = python_calls(lambda: gradlib.autograd.grad(made, leaves, g, retain_graph=True))
    assert 0 < len(calls) <= (55 if len(leaves) == 1 else 62), calls


LAYOUTS: dict[str, Callable[..., Any]] = {
    "softmax": lambda x: x.softmax(-1), "softmax, first": lambda x: x.softmax(0), "log_softmax": lambda x: x.log_softmax(-1),
    "logsumexp": lambda x: x.logsumexp(-1), "layer_norm": lambda x: F.layer_norm(x, (4,)), "var": lambda x: x.var(),
    "norm": lambda x: x.norm(dim=-1), "mean": lambda x: x.mean(-1), "sum": lambda x: x.sum(0), "prod": lambda x: x.prod(),
    "nansum": lambda x: x.nansum(-1), "amax": lambda x: x.amax(0), "argmax": lambda x: x.argmax(-1), "sort": lambda x: x.sort()[0],
    "cumsum": lambda x: x.cumsum(0), "median": lambda x: x.median(), "mse_loss": lambda x: F.mse_loss(x, x.flip(0)),
    "gelu": lambda x: F.gelu(x), "silu": lambda x: F.silu(x), "sigmoid": lambda x: x.sigmoid(), "softplus": lambda x: F.softplus(x),
    "elu": lambda x: F.elu(x), "erf": lambda x: x.erf(), "clamp": lambda x: x.clamp(0.0, 1.0), "lerp": lambda x: x.lerp(x.flip(0), 0.25),
    "nan_to_num": lambda x: x.nan_to_num(), "remainder": lambda x: x % 0.3, "sign": lambda x: x.sign(), "clone": lambda x: x.clone(),
}  # fmt: skip


def test_operands_in_another_order_are_copied_for_the_kernel_that_serves_rows():
    """Few calls, which launch a copy and a kernel; the values are those of rows, and so are the gradients."""
    x = gradlib.as_tensor(cupy.linspace(-2.0, 2.0, 48, dtype=cupy.float32).reshape(6, 8))
    for name, case in LAYOUTS.items():
        for view in (lambda x: x[:, ::2], lambda x: x[:4].t()):
            spaced, rows = view(x.clone()).detach().requires_grad_(), view(x).contiguous().requires_grad_()
            assert not spaced.is_contiguous()
            made, right = case(spaced), case(rows)
            assert gradlib.allclose(made.double(), right.double(), rtol=1e-5, atol=0.0), name  # sums are made in another order
            if made.requires_grad:
                (grad,) = gradlib.autograd.grad(made, spaced, gradlib.ones_like(made))
                (known,) = gradlib.autograd.grad(right, rows, gradlib.ones_like(right))
                assert gradlib.allclose(grad, known, rtol=1e-5, atol=1e-6), name
            calls = python_calls(lambda case=case, spaced=spaced: case(spaced))
            assert len(calls) <= (36 if name in ("mse_loss", "lerp") else 20), (name, calls)


def test_a_recorded_step_on_a_device_is_few_calls():
    u, start = gradlib.ones(4, 32, 7, device="cuda", requires_grad=True), [gradlib.zeros(4, 7, device="cuda") for _ in range(3)]
    step_acceleration(u, start, 0.02)
    calls = python_calls(lambda: step_acceleration(u, start, 0.02))
    assert 0 < len(calls) <= 60, calls


STEPS: dict[str, tuple[str, dict[str, Any]]] = {
    "SGD": ("SGD", {}), "SGD, momentum": ("SGD", {"momentum": 0.9}), "Adagrad": ("Adagrad", {}),
    "Adam": ("Adam", {}), "Adam, amsgrad": ("Adam", {"amsgrad": True}), "AdamW": ("AdamW", {}), "NAdam": ("NAdam", {}),
    "RAdam": ("RAdam", {}), "Adamax": ("Adamax", {}), "Adadelta": ("Adadelta", {}), "RMSprop": ("RMSprop", {}),
    "RMSprop, centered": ("RMSprop", {"centered": True, "momentum": 0.5}), "ASGD": ("ASGD", {}), "Rprop": ("Rprop", {}),
}  # fmt: skip


@pytest.mark.parametrize("capturable", [False, True])
@pytest.mark.parametrize("name", STEPS)
def test_a_step_of_ten_parameters_on_a_device_is_few_calls(name, capturable):
    """Of which each parameter takes seven or eight: its gradient is asked for twice, it is looked up, and its write is counted."""
    kind, options = STEPS[name]
    if capturable and kind not in ("SGD", "Adagrad"):
        options = {**options, "capturable": True}
    values = [gradlib.ones(8, device="cuda", requires_grad=True) for _ in range(10)]
    for value in values:
        value.grad = gradlib.ones(8, device="cuda")
    lr = gradlib.tensor(0.1, device="cuda") if capturable else 0.1
    optimizer = getattr(gradlib.optim, kind)(values, lr=lr, **options)
    optimizer._warned_capturable_if_run_uncaptured = True
    for _ in range(2):
        optimizer.step()
    calls = python_calls(optimizer.step)
    assert 0 < len(calls) <= 110, calls


def test_gradients_of_ten_parameters_on_a_device_are_written_by_few_calls():
    values = [gradlib.ones(8, device="cuda", requires_grad=True) for _ in range(10)]
    for value in values:
        value.grad = gradlib.ones(8, device="cuda")
    optimizer = gradlib.optim.SGD(values)
    for most, write in (
        (85, lambda: gradlib.nn.utils.clip_grad_norm_(values, 1.0)),
        (55, lambda: gradlib.nn.utils.clip_grad_value_(values, 1.0)),
        (55, lambda: optimizer.zero_grad(set_to_none=False)),
    ):
        write()
        calls = python_calls(write)
        assert 0 < len(calls) <= most, calls


FORWARD: dict[str, tuple[int, Callable[..., Any]]] = {
    "x + y": (16, lambda x, y, **_: x + y), "x * y": (16, lambda x, y, **_: x * y), "x * a": (8, lambda x, a, **_: x * a),
    "x / y": (16, lambda x, y, **_: x / y), "2 / x": (16, lambda x, **_: gradlib.div(2, x)), "1 - x": (16, lambda x, **_: 1 - x),
    "sin": (16, lambda x, **_: x.sin()), "relu": (16, lambda x, **_: x.relu()), "x ** 2": (16, lambda x, **_: x**2),
    "maximum": (16, lambda x, y, **_: x.maximum(y)), "clamp": (16, lambda x, **_: x.clamp(0.0, 1.0)), "a > x": (8, lambda x, a, **_: a > x),
    "a + a": (8, lambda a, **_: a + a), "sum": (20, lambda x, **_: x.sum()), "mean": (20, lambda x, **_: x.mean(0)),
    "matmul": (20, lambda x, y, **_: x @ y), "x[0]": (20, lambda x, **_: x[0]), "x.T": (20, lambda x, **_: x.T),
    "reshape": (20, lambda x, **_: x.reshape(-1)), "x[places]": (20, lambda x, i, **_: x[i]),
    "cat": (20, lambda x, a, **_: gradlib.cat([x, a])), "stack": (20, lambda x, y, **_: gradlib.stack([x, y])),
    "where": (20, lambda x, m, **_: gradlib.where(m, x, 0.0)),
    "linear": (32, lambda x, y, r, **_: F.linear(x, y, r)), "gather": (20, lambda x, p, **_: x.gather(0, p)),
    "unbind": (20, lambda x, **_: x.unbind()), "softmax": (24, lambda x, **_: x.softmax(1)),
    "log_softmax": (24, lambda x, **_: x.log_softmax(1)), "logsumexp": (32, lambda x, **_: x.logsumexp(1)),
}  # fmt: skip


def test_forward_mode_on_a_device_is_few_calls():
    """Most take at most twice as many as the limits for the value alone; the general way takes 40 to 350."""
    a = gradlib.ones(4, 4, device="cuda")
    places = gradlib.tensor([2, 0], device="cuda")
    with gradlib.autograd.forward_ad.dual_level():
        x, y = (gradlib.autograd.forward_ad.make_dual(a, a * 2) for _ in range(2))
        given = {"x": x, "y": y, "a": a, "i": places, "p": places.reshape(1, 2), "m": a > 0, "r": a[0]}
        dear = {}
        for name, (most, case) in FORWARD.items():
            case(**given)
            calls = python_calls(lambda case=case: case(**given))
            if not 0 < len(calls) <= most:
                dear[name] = calls
    assert not dear


def test_small_operations_ask_cupy_for_memory_alone(monkeypatch):
    """Every function of CuPy's that would compute the same raises."""
    given = operands()
    small = {"x + y", "y + y", "x * 2.5", "x > y", "-x", "sin", "where", "cat", "stack", "relu", "x ** 2", "half", "gather", "max"}
    small |= {"half * 2.5", "2.5 / half", "half + 1", "x ** 3", "clamp", "clamp, min", "where, half"}
    cases = [case for name, case in (POINTWISE | OTHERS).items() if name in small]
    before = [case(**given).tolist() for case in cases]
    for name in THEIRS:
        monkeypatch.setattr(cupy, name, None)
    made = [case(**given) for case in cases]
    monkeypatch.undo()
    assert [each.tolist() for each in made] == before
