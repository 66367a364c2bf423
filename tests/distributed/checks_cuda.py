"""What ranks do together with CUDA tensors, by NCCL. Run by ``mpiexec``, as checks.py is; without a GPU on hostcuda."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parents[2]))

from gradlib.testing import hostcuda

if hostcuda.reason_against() is None:
    hostcuda.activate(nccl=True)

import numpy as np

import gradlib
import gradlib.distributed as dist
from gradlib.distributed import ReduceOp
from gradlib.distributed.nn import functional
from tests.distributed.checks import main, raises


def same(made: gradlib.Tensor, wanted: object) -> None:
    np.testing.assert_array_equal(made.detach().cpu().numpy(), np.asarray(wanted).astype(made.dtype))


def check_collectives_of_cuda_tensors() -> None:
    rank = dist.get_rank()
    for dtype in (gradlib.float32, gradlib.float64, gradlib.float16, gradlib.int32, gradlib.int64, gradlib.uint8):
        for op, values in {"SUM": [3, 7], "PRODUCT": [2, 12], "MIN": [1, 3], "MAX": [2, 4]}.items():
            x = gradlib.tensor([1 + rank, 3 + rank], device="cuda").to(dtype)
            dist.all_reduce(x, ReduceOp[op])
            same(x, values)
    x = gradlib.tensor([1.0 + rank, 3.0], device="cuda")
    dist.all_reduce(x, ReduceOp.AVG)
    same(x, [1.5, 3])
    dist.broadcast(x.mul_(rank + 1), 1)
    same(x, [3, 6])
    dist.reduce(x, 0)
    same(x, [6, 12] if rank == 0 else [3, 6])
    z = gradlib.tensor([1 + 2j], device="cuda")
    dist.all_reduce(z)
    same(z, [2 + 4j])
    b = gradlib.tensor([rank == 0], device="cuda")
    dist.all_reduce(b)
    same(b, [True])
    parts = [gradlib.zeros(2, device="cuda") for _ in range(2)]
    dist.all_gather(parts, gradlib.full((2,), float(rank), device="cuda"))
    same(gradlib.stack(parts), [[0, 0], [1, 1]])
    dist.gather(gradlib.full((2,), rank + 5.0, device="cuda"), parts if rank == 0 else None, dst=0)
    same(gradlib.stack(parts), [[5, 5], [6, 6]] if rank == 0 else [[0, 0], [1, 1]])
    y = gradlib.zeros(2, device="cuda")
    dist.scatter(y, [gradlib.full((2,), 3.0, device="cuda"), gradlib.full((2,), 4.0, device="cuda")] if rank == 1 else None, src=1)
    same(y, [3 + rank] * 2)
    dist.reduce_scatter_single(y, gradlib.arange(4.0, device="cuda"))
    same(y, [0, 2] if rank == 0 else [4, 6])
    out = gradlib.zeros(4 if rank == 0 else 2, device="cuda")
    dist.all_to_all_single(out, gradlib.arange(3.0, device="cuda") + 10 * rank, [2, 2] if rank == 0 else [1, 1], [2, 1])
    same(out, [0, 1, 10, 11] if rank == 0 else [2, 12])


def check_messages_and_handles_on_the_stream() -> None:
    rank = dist.get_rank()
    x = gradlib.ones(100_000, device="cuda")
    work = dist.all_reduce(x, async_op=True)
    assert work.wait()
    same(x, np.full(100_000, 2.0))
    if rank == 0:
        dist.send(x, 1)
    else:
        got = gradlib.zeros(100_000, device="cuda")
        assert dist.recv(got, 0) == 0
        same(got, x.cpu())


def check_disagreements_and_devices() -> None:
    rank = dist.get_rank()
    with raises(dist.DistBackendError, r"rank 0: all_reduce\(SUM\) #1 of float32 \[2\]; rank 1: .* \[3\]"):
        dist.all_reduce(gradlib.ones(2 + rank, device="cuda"))
    host = dist.new_group(backend="mpi")
    with raises(RuntimeError, "No backend type associated with device type cuda"):
        dist.all_reduce(gradlib.ones(2, device="cuda"), group=host)
    card = dist.new_group(backend="nccl")
    with raises(RuntimeError, "No backend type associated with device type cpu"):
        dist.all_reduce(gradlib.ones(2), group=card)


def check_gradients_of_cuda_tensors() -> None:
    rank = dist.get_rank()
    x = gradlib.ones(3, device="cuda", requires_grad=True)
    (functional.all_reduce(x) * (rank + 1)).sum().backward()
    same(x.grad, [3, 3, 3])
    weight = gradlib.ones(2, device="cuda", requires_grad=True)
    dist.DistributedDataParallel([weight])
    (weight * (rank + 1)).sum().backward()
    same(weight.grad, [1.5, 1.5])


if __name__ == "__main__":
    if not hostcuda.is_active():
        gradlib.cuda.set_device(dist.get_node_local_rank())
    main(Path(sys.argv[1]), {name: value for name, value in globals().items() if name.startswith("check_")}, "cpu:mpi,cuda:nccl")
