"""Every operation: forward, and with backward where it has a derivative, at three sizes; and what rows are short matters to, by shape."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from gradlib.cli.bench.case import Case
from gradlib.cli.bench.peers import Peer, Run
from gradlib.cli.bench.suites import short_rows
from gradlib.cli.bench.suites.entry import Draw, Entry, Rng, Size, alike, along, label, method, named
from gradlib.cli.bench.suites.forms import FORMS

# ---- the arguments ----------------------------------------------------------------------------------------------------------------


def normal(rng: Rng, n: int, count: int = 1) -> list[Any]:
    return [rng.standard_normal(n) for _ in range(count)]


def within(low: float, high: float, count: int = 1) -> Draw:
    return lambda rng, n: [rng.uniform(low, high, n) for _ in range(count)]


def square(rng: Rng, n: int, count: int = 1) -> list[Any]:
    """Matrices of n elements, as near to square as 10 allows."""
    rows = 2 if n == 10 else round(n**0.5)
    return [rng.standard_normal((rows, n // rows)) for _ in range(count)]


def matrices(rng: Rng, n: int, count: int = 1) -> list[Any]:
    """Well-conditioned square matrices: 3, 30 and 300 on a side."""
    side = {10: 3, 10_000: 30}.get(n, 300)
    return [rng.standard_normal((side, side)) / side**0.5 + 2 * np.eye(side) for _ in range(count)]


def definite(rng: Rng, n: int) -> list[Any]:
    (a,) = matrices(rng, n)
    return [a @ a.T]


def ints(rng: Rng, n: int, count: int = 1) -> list[Any]:
    return [rng.integers(1, 7, n) for _ in range(count)]


def bools(rng: Rng, n: int, count: int = 1) -> list[Any]:
    return [rng.random(n) < 0.5 for _ in range(count)]


def complexes(rng: Rng, n: int) -> list[Any]:
    return [rng.standard_normal(n) + 1j * rng.standard_normal(n)]


def distinct(rng: Rng, n: int) -> list[Any]:
    """A matrix without ties."""
    return [(rng.permutation(n) / n - 0.5).reshape(square(rng, n)[0].shape)]


def indexed(rng: Rng, n: int) -> list[Any]:
    """A matrix, rows of it with repeats, and values for these rows."""
    (a,) = square(rng, n)
    return [a, rng.integers(0, len(a), len(a)), rng.standard_normal(a.shape)]


def gathered(rng: Rng, n: int) -> list[Any]:
    """A matrix, an index for each of its elements along the columns, and values."""
    (a,) = square(rng, n)
    return [a, rng.integers(0, a.shape[1], a.shape), rng.standard_normal(a.shape)]


def masked(rng: Rng, n: int) -> list[Any]:
    return [rng.standard_normal(n), rng.random(n) < 0.5, rng.standard_normal(n)]


def labelled(rng: Rng, n: int) -> list[Any]:
    (a,) = square(rng, n)
    return [a, rng.integers(0, a.shape[1], len(a))]


def targets(rng: Rng, n: int) -> list[Any]:
    return [rng.standard_normal(n), rng.random(n)]


def linear(rng: Rng, n: int) -> list[Any]:
    x, w = square(rng, n, 2)
    return [x, w, rng.standard_normal(len(w))]


def batches(rng: Rng, n: int) -> list[Any]:
    """Batches of small matrices for `bmm`: 4 on a side."""
    count = max(1, n // 16)
    return [rng.standard_normal((count, 4, 4)) for _ in range(2)]


# ---- the operations ---------------------------------------------------------------------------------------------------------------


def rows() -> Iterator[Entry]:
    """Each operation once, or once for each way of calling it that has its own cost."""
    for family in (pointwise, reductions, ordering, shapes, indexing, products, decompositions, losses):
        yield from family()


def pointwise() -> Iterator[Entry]:
    """Element by element."""
    yield from named("sin cos tan sinh cosh tanh asinh atan exp exp2 expm1 square abs neg floor ceil trunc round frac sign sgn", normal)
    yield from named("sigmoid erf relu silu gelu elu leaky_relu softplus logsigmoid positive nan_to_num", normal)
    yield from named("log log2 log10 log1p sqrt rsqrt reciprocal", within(0.5, 2.0))
    yield from named("asin acos atanh", within(-0.9, 0.9))
    yield from named("acosh", within(1.1, 2.0))
    yield from named("add sub mul div maximum minimum fmax fmin atan2 hypot logaddexp", partial(normal, count=2))
    yield from named("pow fmod remainder", within(0.5, 3.0, 2))
    yield from named("floor_divide", within(0.5, 3.0, 2), gradient=False)
    yield from named("eq ne lt le gt ge isclose", partial(normal, count=2), gradient=False)
    yield from named("isnan isinf isfinite", normal, gradient=False)
    yield from named("logical_and logical_or logical_xor", partial(bools, count=2), gradient=False)
    yield from named("logical_not", bools, gradient=False)
    yield from named("bitwise_and bitwise_or bitwise_xor bitwise_left_shift bitwise_right_shift", partial(ints, count=2), gradient=False)
    yield from named("bitwise_not", ints, gradient=False)
    yield method("add a number", normal, lambda x: x + 2.5, array=lambda m, x: x + 2.5)
    yield method("rsub", normal, lambda x: 2.5 - x, array=lambda m, x: 2.5 - x)
    yield method("rdiv", within(0.5, 2.0), lambda x: 2.5 / x, array=lambda m, x: 2.5 / x)
    yield method("pow 2", normal, lambda x: x**2, array=lambda m, x: x**2)
    yield from named("clamp", normal, -0.5, 0.5)
    yield from named("clamp_min clamp_max", normal, 0.1)
    yield from named("lerp", partial(normal, count=2), 0.3)
    yield from named("addcmul", partial(normal, count=3))
    yield from named("addcdiv", within(0.5, 2.0, 3))
    yield alike("where", masked, lambda m, x, c, y: m.where(c, x, y))
    yield from named("real imag angle conj_physical view_as_real", complexes)
    yield from (replace(entry, name="abs(complex)") for entry in named("abs", complexes))
    yield Entry("complex", partial(normal, count=2), lambda m, a, b: m.complex(a, b))
    yield Entry("view_as_complex", lambda rng, n: [rng.standard_normal((n // 2, 2))], lambda m, x: m.view_as_complex(x))


def reductions() -> Iterator[Entry]:
    """Sums and their like, and scans."""
    yield from named("prod", within(0.999, 1.001))  # a million of others leave the range of float32
    yield from named("sum mean amax amin max min median var std nansum nanmean", within(0.9, 1.1))
    yield from named("count_nonzero argmax argmin", normal, gradient=False)
    yield from along("all any argmax argmin", square, 1, gradient=False)
    yield from along("sum mean prod amax amin var std nansum logsumexp", square, 1)
    yield from along("sum mean", square, 0)
    yield from (replace(entry, name=f"{entry.name}(dim=1)") for entry in named("max min", distinct, 1))
    yield from named("aminmax std_mean var_mean", normal)
    yield from named("norm", normal)
    yield Entry("vector_norm", square, lambda m, x: m.linalg.vector_norm(x, dim=1))
    yield from along("cumsum cumprod logcumsumexp", _near_one, 1)
    yield from along("cummax cummin", distinct, 1)
    yield from named("softmax log_softmax", square, 1)
    yield Entry("trapezoid", normal, lambda m, x: m.trapezoid(x))


def ordering() -> Iterator[Entry]:
    """Order, places, comparison of whole tensors."""
    yield Entry("sort", distinct, lambda m, x: m.sort(x, 1))
    yield alike("argsort", distinct, lambda m, x: m.argsort(x, 1), gradient=False)
    yield Entry("topk", distinct, lambda m, x: m.topk(x, 2, 1))
    yield Entry("kthvalue", distinct, lambda m, x: m.kthvalue(x, 2, 1))
    yield Entry("median(dim)", distinct, lambda m, x: m.median(x, 1))
    yield alike("unique", ints, lambda m, x: m.unique(x), gradient=False)
    yield alike(
        "searchsorted", lambda rng, n: [np.sort(rng.random(n)), rng.random(n)], lambda m, a, v: m.searchsorted(a, v), gradient=False
    )
    yield alike("isin", partial(ints, count=2), lambda m, a, b: m.isin(a, b[:8]), gradient=False)
    yield Entry("nonzero", masked, lambda m, x, c, y: m.nonzero(c), gradient=False)
    yield Entry("one_hot", ints, lambda m, x: m.nn.functional.one_hot(x, 8), gradient=False)
    yield Entry("bucketize", lambda rng, n: [rng.random(n), np.linspace(0, 1, 9)], lambda m, x, b: m.bucketize(x, b), gradient=False)
    yield alike("argwhere", masked, lambda m, x, c, y: m.argwhere(c), gradient=False)
    yield Entry("equal", partial(normal, count=2), lambda m, a, b: m.equal(a, b), gradient=False)
    yield alike("allclose", partial(normal, count=2), lambda m, a, b: m.allclose(a, b), gradient=False)


def shapes() -> Iterator[Entry]:
    """Views and what only moves elements."""
    yield method("reshape", square, lambda x: x.reshape(-1), array=lambda m, x: x.reshape(-1))
    yield method("view", square, lambda x: x.view(-1))
    yield method("transpose", square, lambda x: x.transpose(0, 1), array=lambda m, x: x.T)
    yield method("permute", square, lambda x: x.permute(1, 0))
    yield method("expand", square, lambda x: x[:1].expand(8, -1))
    yield method("squeeze", square, lambda x: x.unsqueeze(0).squeeze(0))
    yield method("slice", square, lambda x: x[:, 1:], array=lambda m, x: x[:, 1:])
    yield method("select", square, lambda x: x[1], array=lambda m, x: x[1])
    yield method("diagonal", square, lambda x: x.diagonal())
    yield method("unfold", normal, lambda x: x.unfold(0, 4, 2))
    yield method("as_strided", normal, lambda x: x.as_strided((len(x) // 2,), (2,)))
    yield method("chunk", square, lambda x: x.chunk(2, 1))
    yield method("split", square, lambda x: x.split([2, x.shape[1] - 2], 1))
    yield method("unbind", square, lambda x: x[:2].unbind(0))
    yield method("contiguous", square, lambda x: x.t().contiguous())
    yield method("clone", square, lambda x: x.clone(), array=lambda m, x: x.copy())
    yield method("to float64", normal, lambda x: x.double(), array=lambda m, x: x.astype("float64"))
    yield method("to float16", normal, lambda x: x.half(), array=lambda m, x: x.astype("float16"))
    yield Entry("cat", partial(square, count=2), lambda m, a, b: m.cat([a, b], 1), lambda m, a, b: m.concatenate([a, b], 1))
    yield alike("stack", partial(square, count=2), lambda m, a, b: m.stack([a, b]))
    yield Entry("flip", square, lambda m, x: m.flip(x, (1,)), lambda m, x: m.flip(x, 1).copy())
    yield alike("roll", square, lambda m, x: m.roll(x, 1, 1))
    yield Entry("repeat", square, lambda m, x: x.repeat(2, 1), lambda m, x: m.tile(x, (2, 1)))
    yield Entry("repeat_interleave", square, lambda m, x: m.repeat_interleave(x, 2, 1), lambda m, x: m.repeat(x, 2, 1))
    yield alike("tril", square, lambda m, x: m.tril(x))
    yield alike("triu", square, lambda m, x: m.triu(x))
    yield Entry("pad", square, lambda m, x: m.nn.functional.pad(x, (1, 2)), lambda m, x: m.pad(x, ((0, 0), (1, 2))))
    yield alike("diff", square, lambda m, x: m.diff(x))
    yield method("flatten", square, lambda x: x.flatten())
    yield method("unflatten", normal, lambda x: x.unflatten(0, (2, -1)))
    yield method("movedim", square, lambda x: x.movedim(0, 1))
    yield method("narrow", square, lambda x: x.narrow(1, 1, 2))
    yield method("view dtype", normal, lambda x: x.view(x.dtype))
    yield Entry("tensor_split", square, lambda m, x: m.tensor_split(x, 2, 1))
    yield alike("hstack", partial(square, count=2), lambda m, a, b: m.hstack([a, b]))
    yield alike("vstack", partial(square, count=2), lambda m, a, b: m.vstack([a, b]))
    yield alike("dstack", partial(square, count=2), lambda m, a, b: m.dstack([a, b]))
    yield alike(
        "meshgrid", lambda rng, n: [rng.random(max(2, n // 1000)), rng.random(1000)], lambda m, a, b: m.meshgrid(a, b, indexing="ij")
    )
    yield Entry("diag", square, lambda m, x: m.diag(x), lambda m, x: m.diag(x).copy())
    yield Entry("diag_embed", lambda rng, n: [rng.standard_normal((max(1, n // 64), 8))], lambda m, x: m.diag_embed(x))
    yield alike("trace", square, lambda m, x: m.trace(x))
    yield Entry("rot90", square, lambda m, x: m.rot90(x), lambda m, x: m.rot90(x).copy())
    yield alike("tile", square, lambda m, x: m.tile(x, (2, 1)))


def indexing() -> Iterator[Entry]:
    """By indices and masks, reading and writing."""
    yield method("index rows", indexed, lambda x, i, v: x[i], array=lambda m, x, i, v: x[i])
    yield method("index columns", gathered, lambda x, i, v: x[:, i[0]], array=lambda m, x, i, v: x[:, i[0]])
    yield method("index by mask", masked, lambda x, c, v: x[c], array=lambda m, x, c, v: x[c])
    yield Entry("index_select", indexed, lambda m, x, i, v: m.index_select(x, 0, i), lambda m, x, i, v: m.take(x, i, 0))
    yield method("index_add", indexed, lambda x, i, v: x.index_add(0, i, v))
    yield method(
        "index_copy",
        lambda rng, n: [a := square(rng, n)[0], rng.permutation(len(a)), square(rng, n)[0]],
        lambda x, i, v: x.index_copy(0, i, v),
    )
    yield method("index_fill", indexed, lambda x, i, v: x.index_fill(0, i, 2.0))
    yield method("index_put", indexed, lambda x, i, v: x.index_put((i,), v, accumulate=True))
    yield method("write rows", indexed, _write_row)
    yield Entry("gather", gathered, lambda m, x, i, v: m.gather(x, 1, i), lambda m, x, i, v: m.take_along_axis(x, i, 1))
    yield Entry("take_along_dim", gathered, lambda m, x, i, v: m.take_along_dim(x, i, 1), lambda m, x, i, v: m.take_along_axis(x, i, 1))
    yield alike("take", lambda rng, n: [rng.standard_normal(n), rng.integers(0, n, n)], lambda m, x, i: m.take(x, i))
    yield method(
        "scatter",
        lambda rng, n: [a := square(rng, n)[0], np.argsort(rng.random(a.shape), 1), square(rng, n)[0]],
        lambda x, i, v: x.scatter(1, i, v),
    )
    yield method("scatter_add", gathered, lambda x, i, v: x.scatter_add(1, i, v))
    yield method("scatter_reduce", gathered, lambda x, i, v: x.scatter_reduce(1, i, v, "amax"))
    yield method("masked_fill", masked, lambda x, c, v: x.masked_fill(c, 2.0))
    yield method("masked_select", masked, lambda x, c, v: x.masked_select(c), array=lambda m, x, c, v: x[c])
    yield method("masked_scatter", masked, lambda x, c, v: x.masked_scatter(c, v))
    yield Entry("embedding", indexed, lambda m, x, i, v: m.nn.functional.embedding(i, x), lambda m, x, i, v: x[i])


def products() -> Iterator[Entry]:
    """Products of vectors and matrices."""
    yield alike("matmul", partial(matrices, count=2), lambda m, a, b: m.matmul(a, b), operations=lambda a, b: 2 * len(a) * b.size)
    yield Entry("mv", partial(matrices, count=2), lambda m, a, b: m.mv(a, b[0]), lambda m, a, b: a @ b[0])
    yield alike("dot", partial(normal, count=2), lambda m, a, b: m.dot(a, b))
    yield Entry("bmm", batches, lambda m, a, b: m.bmm(a, b), lambda m, a, b: m.matmul(a, b))
    yield Entry("addmm", partial(matrices, count=3), lambda m, a, b, c: m.addmm(a, b, c), lambda m, a, b, c: a + b @ c)
    yield Entry("einsum", partial(matrices, count=2), lambda m, a, b: m.einsum("ij,jk->ik", a, b), lambda m, a, b: m.einsum("ij,jk", a, b))
    yield Entry("linear", linear, lambda m, x, w, b: m.nn.functional.linear(x, w, b), lambda m, x, w, b: x @ w.T + b)
    yield alike("kron", lambda rng, n: [rng.standard_normal((2, 2)), square(rng, n)[0]], lambda m, a, b: m.kron(a, b))
    yield alike("cross", lambda rng, n: [rng.standard_normal((max(1, n // 3), 3)) for _ in range(2)], lambda m, a, b: m.linalg.cross(a, b))
    yield Entry(
        "cdist", lambda rng, n: [rng.standard_normal((max(2, n // 100), 3)), rng.standard_normal((30, 3))], lambda m, a, b: m.cdist(a, b)
    )
    yield alike("outer", lambda rng, n: [rng.random(max(2, n // 100)), rng.random(100)], lambda m, a, b: m.outer(a, b))
    yield alike("inner", partial(square, count=2), lambda m, a, b: m.inner(a[0], b[0]))
    yield Entry("vecdot", partial(square, count=2), lambda m, a, b: m.linalg.vecdot(a, b))
    yield alike("tensordot", partial(matrices, count=2), lambda m, a, b: m.tensordot(a, b, 1))
    yield alike("multi_dot", partial(matrices, count=3), lambda m, *x: m.linalg.multi_dot(x))
    yield alike("matrix_power", matrices, lambda m, a: m.linalg.matrix_power(a, 3))
    yield Entry("baddbmm", batches, lambda m, a, b: m.baddbmm(a, a, b), lambda m, a, b: a + m.matmul(a, b))


def losses() -> Iterator[Entry]:
    """Layers and losses."""
    yield Entry("layer_norm", square, lambda m, x: m.nn.functional.layer_norm(x, x.shape[1:]))
    yield Entry("cross_entropy", labelled, lambda m, x, t: m.nn.functional.cross_entropy(x, t))
    yield Entry("nll_loss", labelled, lambda m, x, t: m.nn.functional.nll_loss(x, t))
    yield from named("mse_loss l1_loss smooth_l1_loss huber_loss", partial(normal, count=2))
    yield Entry("binary_cross_entropy_with_logits", targets, lambda m, x, t: m.nn.functional.binary_cross_entropy_with_logits(x, t))


def decompositions() -> Iterator[Entry]:
    """Linear algebra beyond products: one matrix of 3, 30 and 300 on a side, and 600 of 4."""
    one: list[Entry] = [
        alike("inv", matrices, lambda m, a: m.linalg.inv(a)),
        alike("det", _of_moderate_det, lambda m, a: m.linalg.det(a)),
        Entry("slogdet", matrices, lambda m, a: m.linalg.slogdet(a)),
        alike("solve", partial(matrices, count=2), lambda m, a, b: m.linalg.solve(a, b)),
        Entry("solve_triangular", partial(matrices, count=2), lambda m, a, b: m.linalg.solve_triangular(a, b, upper=True)),
        alike("cholesky", definite, lambda m, a: m.linalg.cholesky(a)),
        alike("eigvalsh", definite, lambda m, a: m.linalg.eigvalsh(a)),
        Entry("svdvals", matrices, lambda m, a: m.linalg.svdvals(a)),
        alike("pinv", matrices, lambda m, a: m.linalg.pinv(a)),
    ]
    yield from one
    for entry in one[:3]:
        yield replace(entry, name=f"{entry.name} of 600", draw=_six_hundred, sizes=(10_000,))


def _of_moderate_det(rng: Rng, n: int) -> list[Any]:
    """A matrix whose determinant is moderate: that of the others, of 300 on a side, is beyond float32."""
    return [a / 2 for a in matrices(rng, n)]


def _six_hundred(rng: Rng, n: int) -> list[Any]:
    return [rng.standard_normal((600, 4, 4)) + 3 * np.eye(4)]


def _near_one(rng: Rng, n: int) -> list[Any]:
    return [rng.uniform(0.9, 1.1, square(rng, n)[0].shape)]


def _write_row(x: Any, i: Any, v: Any) -> Any:
    y = x.clone()
    y[i[0]] = v[0]
    return y


# ---- the cases --------------------------------------------------------------------------------------------------------------------

_QUICK = {"sin", "mul", "relu", "where", "sum", "softmax", "reshape", "slice", "cat", "matmul", "gather", "layer_norm", "cumsum(dim=1)"}


def cases(device: str, quick: bool) -> Iterator[Case]:
    """Forward of all, with backward where there is a derivative."""
    for entry in (*rows(), *(() if quick else short_rows.entries())):
        if entry.array is None:
            entry = replace(entry, array=FORMS.get(entry.name))
        if not quick:
            yield from of(entry, device, entry.sizes, ("float32", "float64"))
        elif entry.name in _QUICK:
            yield from of(entry, device, entry.sizes[:2], ("float32",))


def of(entry: Entry, device: str, sizes: tuple[Size, ...], dtypes: tuple[str, ...]) -> Iterator[Case]:
    """The cases of one operation. One without floating arguments has no dtype."""
    for n in sizes:
        for dtype in dtypes:
            drawn = _Drawn(entry, n, dtype)
            if not drawn.floating and dtype != dtypes[0]:
                continue
            common: dict[str, Any] = {"size": label(n), "dtype": dtype if drawn.floating else "", "device": device}
            array_peer = "numpy" if device == "cpu" else "cupy"
            yield Case(f"{entry.name} forward", build=drawn.forward, peers=("torch", array_peer), operations=drawn.operations, **common)
            if entry.gradient and drawn.floating:
                yield Case(f"{entry.name} with backward", build=drawn.backward, **common)


class _Drawn:
    """The runs of one operation at one size; the arguments are drawn when they are needed, the same for every peer."""

    def __init__(self, entry: Entry, n: Size, dtype: str) -> None:
        self.entry = entry
        self.n = n
        self.dtype = dtype
        few = 10 if isinstance(n, int) else (2, *n[1:])
        self.floating = any(a.dtype.kind in "fc" for a in entry.draw(np.random.default_rng(0), few))
        self.operations = entry.operations and entry.operations(*entry.draw(np.random.default_rng(0), n))

    def arguments(self, peer: Peer, requires_grad: bool = False) -> list[Any]:
        made = []
        for array in self.entry.draw(np.random.default_rng(0), self.n):
            kind = array.dtype.kind
            if kind in "fc":
                array = array.astype(self.dtype if kind == "f" else {"float32": "complex64"}.get(self.dtype, "complex128"))
            made.append(peer.tensor(array, requires_grad and kind in "fc"))
        return made

    def forward(self, peer: Peer) -> Run | None:
        """The operation on tensors that need no gradient."""
        call = self.entry.array if peer.style == "array" else self.entry.call
        if call is None:
            return None
        m, given = peer.m, self.arguments(peer)
        return lambda: call(m, *given)

    def backward(self, peer: Peer) -> Run:
        """The operation recorded, and the gradients of its results by all inputs, for gradients that are given."""
        m, call, given = peer.m, self.entry.call, self.arguments(peer, requires_grad=True)
        leaves = [x for x in given if x.requires_grad]
        kept = [r for r in _results(call(m, *given)) if r.requires_grad]
        cotangents = [peer.tensor(_spread(peer.host(r))) for r in kept]
        grad = m.autograd.grad

        def run() -> Any:
            outputs = [r for r in _results(call(m, *given)) if r.requires_grad]
            return [g for g in grad(outputs, leaves, cotangents, allow_unused=True) if g is not None]

        return run


def _results(value: Any) -> list[Any]:
    return list(value) if isinstance(value, (tuple, list)) else [value]


def _spread(like: np.ndarray) -> np.ndarray:
    """A cotangent from 0.5 to 1.5 whose neighbours differ: where those of a row are nearly alike, softmax's gradient is all rounding."""
    return (0.5 + np.arange(like.size) * 0.618034 % 1).reshape(like.shape).astype(like.dtype)
