"""Every operation, with its gradients, in a captured graph: replays give the bits of the eager run, or the capture is refused by name."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib import cuda
from tests.cuda.test_no_sync import WAITS
from tests.device import skip_module_without_cuda
from tests.ops.case import Case, as_tensors, results
from tests.ops.test_table import CASES

skip_module_without_cuda()

pytestmark = [
    pytest.mark.cuda, pytest.mark.slow, pytest.mark.nonfinite,
    pytest.mark.filterwarnings("ignore:The CUDA Graph is empty"),  # rows without elements, and of views
]  # fmt: skip

# Rows whose indices, weights or masks are the host's, made or moved within the call; and one that seeds, one that asks cuSOLVER.
FROM_HOST = {
    "cross_entropy-probabilities-weight-mean", "cross_entropy-probabilities-weight-none", "cross_entropy-probabilities-weight-sum",
    "cross_entropy-smoothing-none", "cross_entropy-smoothing-weight-ignore", "cross_entropy-weight", "dropout", "eigvals", "index-apart",
    "index-both", "index-lists", "index-mask", "index-mask-second", "index-op", "index-pairs", "index-rows", "index-true", "index_add",
    "index_backward", "index_put-array", "index_put-function", "index_put-mask", "index_put-of-view", "index_put-op", "masked_fill",
    "nll_loss-none", "nll_loss-weight", "reduced_at", "reduced_at-amax", "to_classes", "total_at",
}  # fmt: skip
# Rows that multiply matrices, which another kernel does within a capture, in another order.
PRODUCTS = {
    "addmm", "addmm-beta=0", "addmv", "baddbmm", "bmm", "cofactors", "cofactors-rank-1", "contract", "einsum", "einsum-bilinear",
    "einsum-chain", "einsum-ellipsis", "einsum-implicit", "einsum-lists", "euclidean_distance", "inner", "inner-matrices",
    "inner-of vector", "inner-vector", "left_transposed", "linear", "linear-batch", "linear-one-output", "linear-vector", "linear_unbiased",
    "linear_unbiased-vector", "matmul", "matmul-batch-matrix", "matmul-batch-vector", "matmul-broadcast", "matmul-matrix-batch",
    "matmul-matrix-vector", "matmul-vector-batch", "matrix_power", "matrix_power--2", "mm", "multi_dot", "mv", "svd-cubed",
    "tensordot", "tensordot-lists", "lstsq-batches",
}  # fmt: skip


def outputs_and_gradients(case: Case, inputs: list[Any]) -> list[gradlib.Tensor]:
    found = [y for y in results(case.call(*inputs)) if isinstance(y, gradlib.Tensor)]
    live = [y for y in found if y.requires_grad]
    wanted = [x for x in inputs if isinstance(x, gradlib.Tensor) and x.requires_grad]
    if live and wanted:
        found += gradlib.autograd.grad(live, wanted, [gradlib.full_like(y, 0.5) for y in live], allow_unused=True)
    return [y.detach() for y in found if y is not None]


@pytest.mark.parametrize("case", CASES, ids=[case.id for case in CASES])
def test_a_replay_gives_the_bits_of_the_eager_run(case: Case) -> None:
    """With other inputs than those of the capture."""

    def drawn(seed: int) -> list[Any]:
        return as_tensors(list(case.inputs(np.random.default_rng(seed))), "float64", "cuda", requires_grad=case.differentiable)

    static, given = drawn(0), drawn(1)
    outputs_and_gradients(case, drawn(0))  # compiles
    graph = cuda.CUDAGraph()
    if case.id in WAITS | FROM_HOST:
        with pytest.raises(RuntimeError, match=r"^\w.* cannot be captured in a CUDA graph: "), cuda.graph(graph):
            outputs_and_gradients(case, static)
        return
    with cuda.graph(graph):
        made = outputs_and_gradients(case, static)
    for x, y in zip(static, given, strict=True):
        if isinstance(x, gradlib.Tensor) and x.shape == y.shape:
            x.detach().copy_(y)
        else:
            given = static  # its shape depends on the draw
    graph.replay()
    for replayed, eager in zip(made, outputs_and_gradients(case, given), strict=True):
        assert (replayed.shape, replayed.dtype) == (eager.shape, eager.dtype)
        if case.id in PRODUCTS:
            np.testing.assert_allclose(replayed._array.get(), eager._array.get(), rtol=1e-12, atol=1e-13)
        else:
            np.testing.assert_array_equal(replayed._array.get(), eager._array.get())
