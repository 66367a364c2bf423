"""What ranks do together. Run by ``mpiexec``, each rank runs every function named ``check_...`` in a process group of its own.

Usage: ``mpiexec -n 2 python tests/distributed/checks.py FOLDER [CHECK ...]``; each rank writes FOLDER/RANK.json,
{check: None or what went wrong}.
"""

from __future__ import annotations

import contextlib
import json
import re
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator
from datetime import timedelta
from pathlib import Path
from typing import Any

import numpy as np

import gradlib
import gradlib.distributed as dist
from gradlib.distributed import ReduceOp
from gradlib.distributed.nn import functional

TIMEOUT = timedelta(seconds=60)  # the first group also waits for the other process to be started


@contextlib.contextmanager
def raises(kind: type[BaseException], words: str) -> Iterator[None]:
    """What pytest.raises does; pytest takes a while to import."""
    try:
        yield
    except kind as error:
        if not re.search(words, str(error)):
            raise AssertionError(f"{words!r} is not in {str(error)!r}") from error
    else:
        raise AssertionError(f"no {kind.__name__} was raised")


def same(made: Any, wanted: Any) -> None:
    """Exactly equal, in values and dtype."""
    made, wanted = (each.detach().numpy() if isinstance(each, gradlib.Tensor) else np.asarray(each) for each in (made, wanted))
    np.testing.assert_array_equal(made, wanted.astype(made.dtype))


def check_sums_and_their_like_as_torch_has_them() -> None:
    dtypes = [gradlib.float32, gradlib.float64, gradlib.float16, gradlib.bfloat16]
    dtypes += [gradlib.int8, gradlib.int32, gradlib.int64, gradlib.uint8]
    wanted = {"SUM": [3, 7], "PRODUCT": [2, 12], "MIN": [1, 3], "MAX": [2, 4], "BAND": [0, 0], "BOR": [3, 7], "BXOR": [3, 7]}
    for dtype in dtypes:
        for name, values in wanted.items():
            x = (gradlib.tensor([1, 3]) + dist.get_rank()).to(dtype)
            if name.startswith("B") and x.is_floating_point():
                with raises(RuntimeError, "non-integral"):
                    dist.all_reduce(x, ReduceOp[name])
                continue
            dist.all_reduce(x, ReduceOp[name])
            assert x.dtype == dtype
            same(x.to(gradlib.float64), values)
        if x.is_floating_point():
            x = (gradlib.tensor([1, 3]) + dist.get_rank()).to(dtype)
            dist.all_reduce(x, ReduceOp.AVG)
            same(x.to(gradlib.float64), [1.5, 3.5])
        else:
            with raises(RuntimeError, "AVG"):
                dist.all_reduce(x, ReduceOp.AVG)


def check_bools_and_complex_numbers_as_torch_has_them() -> None:
    wanted = {"SUM": [True, True], "PRODUCT": [True, False], "MAX": [True, True], "BXOR": [False, True], "BAND": [True, False]}
    for name, values in wanted.items():
        x = gradlib.tensor([True, dist.get_rank() == 0])
        dist.all_reduce(x, ReduceOp[name])
        same(x, values)
    x = gradlib.tensor([1 + 2j, 3j]) * (dist.get_rank() + 1)
    dist.all_reduce(x)
    same(x, [3 + 6j, 9j])
    with raises(ValueError, "does not support ReduceOp.MAX on complex tensors"):
        dist.all_reduce(x, ReduceOp.MAX)


def check_half_types_are_summed_in_float32() -> None:
    x = gradlib.full((1,), 40000.0, dtype=gradlib.float16)
    dist.all_reduce(x, ReduceOp.AVG)  # the sum is beyond float16
    same(x, [40000.0])


def check_host_arrays_are_not_copied() -> None:
    x = gradlib.ones(1000)
    seen = []
    group = dist.group.WORLD
    mpi = group.mpi
    original = mpi.all_reduce
    mpi.all_reduce = lambda buffer, *rest: (seen.append(buffer), original(buffer, *rest))
    dist.all_reduce(x)
    assert np.shares_memory(seen[0], x.numpy())
    same(x, np.full(1000, 2.0))


def check_layouts_of_memory() -> None:
    x = (gradlib.arange(6.0).reshape(2, 3) + dist.get_rank()).t()
    dist.all_reduce(x)
    same(x, 2 * np.arange(6.0).reshape(2, 3).T + 1)
    y = gradlib.full((4, 4), float(dist.get_rank()))
    dist.broadcast(y[:, 1], 1)
    same(y[:, 1], np.ones(4))
    same(y[:, 0], np.full(4, dist.get_rank()))
    for empty in (gradlib.zeros(0), gradlib.zeros(())):
        dist.all_reduce(empty)


def check_reduce_and_broadcast() -> None:
    rank = dist.get_rank()
    x = gradlib.ones(2) * (rank + 1)
    dist.reduce(x, 1)
    same(x, [1, 1] if rank == 0 else [3, 3])
    dist.broadcast(x, src=1)
    same(x, [3, 3])
    dist.broadcast(x, group_src=0)
    with raises(ValueError, "Must specify"):
        dist.broadcast(x)
    with raises(ValueError, "both"):
        dist.reduce(x, 0, group_dst=0)
    with raises(RuntimeError, "invalid root rank: 5"):
        dist.broadcast(x, 5)


def check_gathering() -> None:
    rank = dist.get_rank()
    parts = [gradlib.zeros(2) for _ in range(2)]
    dist.all_gather(parts, gradlib.full((2,), float(rank)))
    same(gradlib.stack(parts), [[0, 0], [1, 1]])
    joined, stacked = gradlib.zeros(4), gradlib.zeros(2, 2)
    for out in (joined, stacked):
        dist.all_gather_single(out, gradlib.full((2,), float(rank)))
        same(out.reshape(-1), [0, 0, 1, 1])
    with raises(RuntimeError, r"\[5\] is not that of 2 tensors of \[2\]"):
        dist.all_gather_single(gradlib.zeros(5), gradlib.zeros(2))
    with raises(RuntimeError, "expected 2 tensors"):
        dist.all_gather(parts[:1], gradlib.zeros(2))
    with raises(RuntimeError, "index 0"):
        dist.all_gather(parts, gradlib.zeros(3))
    with raises(ValueError, "different dtypes"):
        dist.all_gather(parts, gradlib.zeros(2, dtype=gradlib.float64))
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        dist.all_gather_into_tensor(joined, gradlib.zeros(2))
    assert told[0].category is FutureWarning
    lists = parts if rank == 0 else None
    dist.gather(gradlib.full((2,), rank + 5.0), lists, dst=0)
    same(gradlib.stack(parts), [[5, 5], [6, 6]] if rank == 0 else [[0, 0], [1, 1]])
    with raises(ValueError, "must be specified on destination" if rank == 0 else "must NOT be specified on non-destination"):
        dist.gather(gradlib.zeros(2), None if rank == 0 else parts, dst=0)


def check_scattering() -> None:
    rank = dist.get_rank()
    x = gradlib.zeros(2)
    dist.scatter(x, [gradlib.full((2,), 3.0), gradlib.full((2,), 4.0)] if rank == 1 else None, src=1)
    same(x, [3 + rank] * 2)
    dist.reduce_scatter(x, [gradlib.full((2,), float(rank)), gradlib.full((2,), 5.0)])
    same(x, [1, 1] if rank == 0 else [10, 10])
    dist.reduce_scatter_single(x, gradlib.arange(4.0))
    same(x, [0, 2] if rank == 0 else [4, 6])
    half = gradlib.zeros(1, dtype=gradlib.float16)
    dist.reduce_scatter_single(half, gradlib.tensor([1, 2], dtype=gradlib.float16), ReduceOp.AVG)
    same(half, [rank + 1])
    with raises(RuntimeError, "shape"):
        dist.reduce_scatter_single(x, gradlib.arange(5.0))


def check_all_to_all() -> None:
    rank = dist.get_rank()
    parts = [gradlib.zeros(2) for _ in range(2)]
    dist.all_to_all(parts, [gradlib.full((2,), float(rank)), gradlib.full((2,), 10.0 * rank)])
    same(gradlib.stack(parts), [[0, 0], [1, 1]] if rank == 0 else [[0, 0], [10, 10]])
    out = gradlib.zeros(4)
    dist.all_to_all_single(out, gradlib.arange(4.0) + 10 * rank)
    same(out, [0, 1, 10, 11] if rank == 0 else [2, 3, 12, 13])
    out = gradlib.zeros(4 if rank == 0 else 2)
    dist.all_to_all_single(out, gradlib.arange(3.0) + 10 * rank, [2, 2] if rank == 0 else [1, 1], [2, 1])
    same(out, [0, 1, 10, 11] if rank == 0 else [2, 12])
    with raises(RuntimeError, "Split sizes"):
        dist.all_to_all_single(gradlib.zeros(4), gradlib.zeros(4), [3, 2], [2, 2])
    with raises(RuntimeError, "divide equally"):
        dist.all_to_all_single(gradlib.zeros(5), gradlib.zeros(5))


def check_messages() -> None:
    rank = dist.get_rank()
    x = gradlib.arange(3.0)
    if rank == 0:
        dist.send(x, 1, tag=3)
        dist.send(x * 2, 1)
        works = [dist.isend(x + i, 1) for i in range(3)]
    else:
        got = gradlib.zeros(3)
        assert dist.recv(got, 0, tag=3) == 0
        same(got, x)
        assert dist.recv(got) == 0
        same(got, x * 2)
        several = [gradlib.zeros(3) for _ in range(3)]
        works = [dist.irecv(each, 0) for each in several]
    for work in reversed(works):  # the last is waited for first
        assert work.wait()
        assert work.is_completed()
    if rank == 1:
        same(gradlib.stack(several), np.arange(3.0) + np.arange(3.0)[:, None])
        assert works[0].source_rank() == 0
    for _ in range(40):  # whichever rank sends: MPICH 5.0 loses some of such receives between machines
        if rank == 0:
            for i in range(3):
                dist.send(x + i, 1, tag=5)
        else:
            for work in reversed([dist.irecv(each, tag=5) for each in several]):
                work.wait()
            same(gradlib.stack(several), np.arange(3.0) + np.arange(3.0)[:, None])
        dist.barrier()
    with raises(ValueError, "Must specify"):
        dist.send(x)
    with raises(ValueError, "same as the rank of the current process"):
        dist.send(x, rank)
    big, other = gradlib.full((200_000,), float(rank)), gradlib.zeros(200_000)
    for work in dist.batch_isend_irecv([dist.P2POp(dist.isend, big, 1 - rank), dist.P2POp(dist.irecv, other, 1 - rank)]):
        work.wait()
    same(other, np.full(200_000, 1.0 - rank))


def check_a_message_of_another_shape_is_an_error_at_the_receiver_and_the_next_one_arrives() -> None:
    if dist.get_rank() == 0:
        dist.send(gradlib.zeros(4, dtype=gradlib.float64), 1)
        dist.send(gradlib.ones(3), 1)
    else:
        got = gradlib.zeros(3)
        with raises(dist.DistBackendError, r"rank 1: recv from rank 0 of float32 \[3\]: rank 0 sent a tensor of float64 \[4\]"):
            dist.recv(got, 0)
        dist.recv(got, 0)
        same(got, np.ones(3))


def check_work_in_the_background() -> None:
    x, y = gradlib.ones(1000), gradlib.ones(10) * dist.get_rank()
    first, second = dist.all_reduce(x, async_op=True), dist.all_reduce(y, async_op=True)
    z = gradlib.ones(2)
    dist.all_reduce(z)  # behind the two
    assert first.is_completed()
    assert second.wait()
    assert second.is_success()
    assert second.exception() is None
    assert second.result()[0] is y
    same(x, np.full(1000, 2.0))
    same(y, np.ones(10))
    same(z, [2, 2])
    work = dist.barrier(async_op=True)
    with raises(RuntimeError, "not over after"):
        dist.Work().wait(timedelta(milliseconds=1))
    work.wait()


def check_groups() -> None:
    rank = dist.get_rank()
    own = [dist.new_group([0]), dist.new_group([1])]
    both, turned = dist.new_group([1, 0]), dist.new_group([1, 0], sort_ranks=False)
    assert own[1 - rank] == dist.GroupMember.NON_GROUP_MEMBER
    assert (dist.get_rank(own[rank]), dist.get_world_size(own[rank]), dist.get_rank(own[1 - rank])) == (0, 1, -1)
    assert (dist.get_rank(both), dist.get_rank(turned)) == (rank, 1 - rank)
    assert (dist.get_process_group_ranks(both), dist.get_process_group_ranks(turned)) == ([0, 1], [1, 0])
    assert (dist.get_group_rank(turned, 0), dist.get_global_rank(turned, 0)) == (1, 1)
    x = gradlib.full((2,), rank + 1.0)
    dist.broadcast(x, 1, group=turned)
    same(x, [2, 2])
    dist.all_reduce(x, group=own[rank])
    same(x, [2, 2])
    with warnings.catch_warnings(record=True) as told:
        warnings.simplefilter("always")
        assert dist.all_reduce(x, group=own[1 - rank]) is None
    assert f"global rank {rank} which does not belong" in str(told[0].message)
    with raises(ValueError, "not part of group"):
        dist.get_group_rank(own[rank], 1 - rank)
    with raises(ValueError, "duplicate"):
        dist.new_group([0, 0])
    with raises(ValueError, "out of range"):
        dist.new_group([0, 5])
    dist.destroy_process_group(both)
    with raises(ValueError, "Invalid process group"):
        dist.all_reduce(x, group=both)


def check_arguments_are_refused_as_in_torch() -> None:
    with raises(ValueError, "twice"):
        dist.init_process_group("mpi")
    with raises(TypeError, "Expected parameter `tensor`"):
        dist.all_reduce(3)
    with raises(TypeError, "List"):
        dist.all_gather(gradlib.ones(1), gradlib.ones(1))
    with raises(TypeError, "ReduceOp"):
        dist.all_reduce(gradlib.ones(1), "sum")
    with raises(ValueError, "read-only"):
        frozen = np.ones(2)
        frozen.flags.writeable = False
        dist.all_reduce(gradlib.from_numpy(frozen))


def check_a_write_is_counted_and_a_graph_that_saved_the_old_values_says_so() -> None:
    x = gradlib.ones(2, requires_grad=True)
    y = x * 1
    z = y * y
    dist.all_reduce(y)
    with raises(RuntimeError, "modified by an inplace operation"):
        z.sum().backward()


def check_ranks_that_disagree_all_learn_who_called_what() -> None:
    rank = dist.get_rank()
    cases = [
        (lambda: dist.all_reduce(gradlib.ones(2 + rank)), r"0: all_reduce\(SUM\) #1 of float32 \[2\]; rank 1: all_.* float32 \[3\]"),
        (lambda: dist.all_reduce(gradlib.ones(2).to([gradlib.float32, gradlib.int64][rank])), r"float32 \[2\]; rank 1: .* int64 \[2\]"),
        (lambda: dist.all_reduce(gradlib.ones(2)) if rank else dist.barrier(), r"rank 0: barrier #3; rank 1: all_reduce\(SUM\) #3"),
        (lambda: dist.broadcast(gradlib.ones(2), rank), "root 0; rank 1: broadcast .* root 1"),
        (lambda: dist.all_reduce(gradlib.ones(2), [ReduceOp.MIN, ReduceOp.MAX][rank]), r"\(MIN\).*\(MAX\)"),
        (lambda: dist.new_group([0] if rank else [0, 1]), r"new_group"),
    ]
    for call, words in cases:
        with raises(dist.DistBackendError, words):
            call()
    x = gradlib.ones(2)
    dist.all_reduce(x)  # the group still works
    same(x, [2, 2])


def check_sizes_that_do_not_meet_are_an_error_on_both() -> None:
    rank = dist.get_rank()
    with raises(RuntimeError, "rank 0 sends 3 elements of the first dimension to rank 1, which expects 1"):
        dist.all_to_all_single(gradlib.zeros(3), gradlib.zeros(4), [1, 2], [1, 3])
    assert rank in (0, 1)


def _collectives() -> dict[str, tuple[Callable[..., Any], int]]:
    """Each differentiable collective as a function of one tensor of 4 elements, or of two."""
    empty = [gradlib.zeros(4), gradlib.zeros(4)]
    sizes = ([3, 1], [3, 1]) if dist.get_rank() == 0 else ([1, 3], [1, 3])
    return {
        "all_reduce": (functional.all_reduce, 1),
        "average": (lambda x: functional.all_reduce(x, ReduceOp.AVG), 1),
        "broadcast": (lambda x: functional.broadcast(x, 1), 1),
        "reduce": (lambda x: functional.reduce(x, 1) * (dist.get_rank() == 1), 1),  # elsewhere it is a constant
        "reduce to the average": (lambda x: functional.reduce(x, 1, ReduceOp.AVG) * (dist.get_rank() == 1), 1),
        "all_gather": (lambda x: gradlib.stack(functional.all_gather(x)), 1),
        "gather": (lambda x: gradlib.stack(functional.gather(x, 1)), 1),
        "scatter": (lambda x, y: functional.scatter([x, y], 1), 2),
        "reduce_scatter": (lambda x, y: functional.reduce_scatter(x, [x, y]), 2),
        "averages scattered": (lambda x, y: functional.reduce_scatter(x, [x, y], ReduceOp.AVG), 2),
        "all_to_all": (lambda x, y: gradlib.stack(functional.all_to_all(empty, [x, y])), 2),
        "all_to_all_single": (lambda x: functional.all_to_all_single(gradlib.zeros(4), x, *sizes), 1),
    }


def check_the_derivatives_of_collectives_are_their_adjoints_in_both_modes_and_twice() -> None:
    gradlib.manual_seed(dist.get_rank())
    total = functional.all_reduce
    for name, (call, count) in _collectives().items():
        inputs = [gradlib.randn(4, dtype=gradlib.float64).requires_grad_() for _ in range(count)]
        tangents = [gradlib.randn(4, dtype=gradlib.float64) for _ in range(count)]
        out, moved = gradlib.func.jvp(call, tuple(inputs), tuple(tangents))
        assert out.requires_grad, name
        g = gradlib.randn(*out.shape, dtype=gradlib.float64).requires_grad_()
        grads = gradlib.autograd.grad(call(*inputs), inputs, g, create_graph=True)
        there, back = (moved * g).sum().detach(), sum((a * b).sum() for a, b in zip(grads, tangents, strict=True))
        np.testing.assert_allclose(total(there).item(), total(back.detach()).item(), rtol=1e-12, err_msg=name)  # <F t, g> = <t, F' g>
        same(moved, call(*tangents))  # linear
        (twice,) = gradlib.autograd.grad(back, g)  # the adjoint's adjoint is the map itself
        np.testing.assert_allclose(twice.numpy(), moved.detach().numpy(), rtol=1e-12, err_msg=name)


def check_the_gradients_are_those_of_torch() -> None:
    """The values were printed by torch 2.13 with gloo: gradients of (F(x) * (arange + 1 + 10 * rank)).sum() at x = [1, 2] + rank."""
    rank = dist.get_rank()
    empty = [gradlib.zeros(2), gradlib.zeros(2)]
    wanted = {
        "all_reduce": (functional.all_reduce, [[12, 14], [12, 14]]),
        "average": (lambda x: functional.all_reduce(x, ReduceOp.AVG), [[6, 7], [6, 7]]),
        "all_gather": (lambda x: gradlib.stack(functional.all_gather(x)), [[12, 14], [16, 18]]),
        "broadcast": (lambda x: functional.broadcast(x, 0), [[12, 14], [0, 0]]),
        "reduce": (lambda x: functional.reduce(x, 0), [[1, 2], [1, 2]]),
        "gather": (lambda x: gradlib.stack(functional.gather(x, 0)), [[1, 2], [3, 4]]),
        "scatter": (lambda x: functional.scatter([x, 2 * x], 0), [[23, 26], [0, 0]]),
        "reduce_scatter": (lambda x: functional.reduce_scatter(x, [x, 3 * x]), [[34, 38], [34, 38]]),
        "all_to_all": (lambda x: gradlib.stack(functional.all_to_all(empty, [x, 3 * x])), [[34, 38], [42, 46]]),
        "all_to_all_single": (lambda x: functional.all_to_all_single(gradlib.zeros(2), x), [[1, 11], [2, 12]]),
    }
    for name, (call, values) in wanted.items():
        x = (gradlib.arange(2.0) + 1 + rank).requires_grad_()
        out = call(x)
        (out * (gradlib.arange(out.numel()).reshape(out.shape) + 1 + 10 * rank)).sum().backward()
        np.testing.assert_array_equal(x.grad.numpy(), values[rank], err_msg=name)
    x = gradlib.ones(2, requires_grad=True)
    out = functional.all_reduce(x, ReduceOp.MAX)
    with raises(RuntimeError, "not linear"):
        out.sum().backward()


def check_transforms_go_through_collectives() -> None:
    x = gradlib.arange(3.0, dtype=gradlib.float64) + dist.get_rank()
    hessian = gradlib.func.hessian(lambda x: (functional.all_reduce(x) ** 3).sum())(x)
    same(hessian, 4 * np.diag(6 * (2 * np.arange(3.0) + 1)))  # of both ranks' sums, with respect to both ranks' x
    rows = gradlib.arange(6.0).reshape(2, 3)
    for name, (call, count) in _collectives().items():
        several = [gradlib.arange(12.0).reshape(3, 4) * (i + 1) + dist.get_rank() for i in range(count)]
        made = gradlib.vmap(call)(*several)
        same(made, gradlib.stack([call(*(each[i] for each in several)) for i in range(3)]))
        assert name
    with raises(RuntimeError, "vmap over all_reduce"):
        gradlib.vmap(lambda row: dist.all_reduce(row))(rows)


def check_a_rank_that_stays_away_is_told_what_was_given_up() -> None:
    part = dist.new_group(timeout=timedelta(seconds=1))
    if dist.get_rank() == 0:
        with raises(dist.DistBackendError, r"0: all_reduce\(SUM\) #1 of float32 \[3\] in the group of ranks \[0, 1\]: the time is over"):
            dist.all_reduce(gradlib.ones(3), group=part)
        with raises(dist.DistBackendError, "given up before. rank 0: all_reduce"):
            dist.broadcast(gradlib.ones(3), 0, group=part)
    dist.barrier()
    if dist.get_rank() == 1:
        with raises(dist.DistBackendError, r"rank 1: all_reduce\(SUM\) #1 .* rank 0 gave up on all_reduce\(SUM\) #1 of float32 \[3\]"):
            dist.all_reduce(gradlib.ones(3), group=part)
    dist.barrier()


def check_a_rank_that_leaves_is_named() -> None:
    part = dist.new_group()
    dist.barrier(group=part)
    if dist.get_rank() == 1:
        dist.destroy_process_group(part)
    else:
        with raises(dist.DistBackendError, r"rank 0: all_reduce\(SUM\) #2 .* rank 1 has called destroy_process_group"):
            dist.all_reduce(gradlib.ones(3), group=part)
    dist.barrier()


def check_groups_called_crosswise_end_by_their_time() -> None:
    groups = [dist.new_group(timeout=timedelta(seconds=1)) for _ in range(2)]
    with raises(dist.DistBackendError, "the time is over|gave up on"):
        dist.barrier(group=groups[dist.get_rank()])
    dist.barrier()


def check_a_message_that_nobody_receives_or_sends_ends_by_its_time() -> None:
    parts = [dist.new_group(timeout=timedelta(seconds=1)) for _ in range(2)]
    if dist.get_rank() == 0:
        with raises(dist.DistBackendError, r"rank 0: recv from rank 1 of float32 \[3\]: the time is over"):
            dist.recv(gradlib.zeros(3), 1, group=parts[0])
        big = gradlib.zeros(1_000_000)
        with raises(dist.DistBackendError, r"rank 0: send to rank 1 of float32 \[1000000\]: the time is over"):
            dist.send(big, 1, group=parts[1])
    dist.barrier()


class Model:
    """Two layers, and one that takes part in the loss only when it is asked for."""

    def __init__(self) -> None:
        gradlib.manual_seed(dist.get_rank())  # init_sync makes them alike
        shapes = [(5, 4), (5,), (3, 5), (3, 3), (2,)]
        self.weights = [gradlib.randn(*shape, dtype=gradlib.float64).requires_grad_() for shape in shapes]

    def parameters(self) -> list[gradlib.Tensor]:
        return self.weights

    def __call__(self, x: gradlib.Tensor, further: bool = True) -> gradlib.Tensor:
        a, b, c, d = self.weights[:4]
        hidden = gradlib.tanh(x @ a.t() + b) @ c.t()
        return hidden @ d if further else hidden


def _data() -> tuple[gradlib.Tensor, gradlib.Tensor]:
    """The whole batch, and this rank's half of it."""
    whole = gradlib.from_numpy(np.random.default_rng(1).normal(size=(8, 4)))
    return whole, whole[4 * dist.get_rank() :][:4]


def check_gradients_over_ranks_are_those_of_the_whole_batch() -> None:
    whole, mine = _data()
    model = Model()
    model.weights.pop()
    ddp = dist.DistributedDataParallel(model, bucket_cap_mb=30 / (1 << 20))  # a bucket for each
    calls = []
    original = dist.group.WORLD.mpi.all_reduce
    dist.group.WORLD.mpi.all_reduce = lambda buffer, *rest: (calls.append(buffer.size), original(buffer, *rest))
    for _ in range(2):
        ddp(mine).square().mean().backward()
    alone = Model()
    alone.weights = [weight.detach().clone().requires_grad_() for weight in model.weights]
    for _ in range(2):
        alone(whole).square().mean().backward()
    for weight, wanted in zip(model.weights, alone.weights, strict=True):
        np.testing.assert_allclose(weight.grad.numpy(), wanted.grad.numpy(), rtol=1e-12)
    assert calls == [9, 15, 5, 20] * 2  # in the order in which backward reaches them


def check_buckets_leave_while_backward_still_runs() -> None:
    first, last = gradlib.ones(400_000, requires_grad=True), gradlib.ones(400_000, requires_grad=True)
    ddp = dist.DistributedDataParallel([first, last])
    begun = []
    middle = gradlib.tanh(first)
    middle.register_hook(lambda g: begun.append(ddp._begun))
    (middle * last).sum().backward()
    assert (begun, ddp._begun, len(ddp._buckets)) == ([1], 0, 2)
    same(last.grad, np.tanh(np.ones(400_000, np.float32)))


def check_no_sync_adds_up_and_the_next_backward_averages() -> None:
    rank = dist.get_rank()
    weight = gradlib.ones(2, requires_grad=True)
    ddp = dist.DistributedDataParallel([weight])
    with ddp.no_sync():
        (weight * (rank + 1)).sum().backward()
    same(weight.grad, [rank + 1] * 2)
    (weight * 10 * (rank + 1)).sum().backward()
    same(weight.grad, [16.5] * 2)


def check_parameters_that_take_no_part() -> None:
    _, mine = _data()
    model = Model()
    strict = dist.DistributedDataParallel(model)
    strict(mine, further=False).sum().backward()
    with raises(RuntimeError, r"Expected to have finished reduction .* by their number: \[3, 4\]"):
        strict(mine)
    rank, model = dist.get_rank(), Model()
    lenient = dist.DistributedDataParallel(model, find_unused_parameters=True, bucket_cap_mb=100 / (1 << 20))
    for _ in range(2):
        lenient(mine, further=rank == 0).sum().backward()  # the fourth is used by one rank, the last by none
    grads = [weight.grad for weight in model.weights]
    assert [grad is None for grad in grads] == [False, False, False, False, True]
    for grad in grads[:4]:
        other = grad.clone()
        dist.broadcast(other, 0)
        same(grad, other)


def check_parameters_that_differ_between_the_ranks_are_refused() -> None:
    with raises(dist.DistBackendError, r"DistributedDataParallel.* of parameters \[1, 2\]; rank 1: .* of parameters \[1, 3\]"):
        dist.DistributedDataParallel([gradlib.ones(2 + dist.get_rank(), requires_grad=True)])


def check_a_divided_optimiser_does_what_the_whole_one_does_and_continues_from_its_file() -> None:
    rank, folder = dist.get_rank(), Path(sys.argv[1])
    values = [gradlib.from_numpy(np.random.default_rng(i).normal(size=(3 + i, 2))) for i in range(5)]
    makes = {"zero": dist.optim.ZeroRedundancyOptimizer, "whole": lambda params, optimizer_class, lr: optimizer_class(params, lr=lr)}
    runs: dict[str, list[Any]] = {}
    for name, make in makes.items():
        params = [value.clone().requires_grad_() for value in values]
        runs[name] = [params, make([{"params": params[:3]}, {"params": params[3:], "lr": 0.5}], optimizer_class=gradlib.optim.Adam, lr=0.1)]

    def step(name: str) -> None:
        params, optimizer = runs[name]
        optimizer.zero_grad()
        sum((param**2).sum() for param in params).backward()
        optimizer.step()

    def compare() -> None:
        for a, b in zip(runs["zero"][0], runs["whole"][0], strict=True):
            same(a, b)

    for _ in range(3):
        step("zero")
        step("whole")
    compare()
    params, zero = runs["zero"]
    assert 0 < len(zero.optim.state) < 5
    with raises(RuntimeError, "consolidate_state_dict"):
        zero.state_dict()
    zero.consolidate_state_dict(to=0)
    if rank == 0:
        gradlib.save({"params": [param.detach() for param in params], "optim": zero.state_dict()}, folder / "job.npz")
        wanted = runs["whole"][1].state_dict()
        for i, entry in zero.state_dict()["state"].items():
            same(entry["exp_avg"], wanted["state"][i]["exp_avg"])
    dist.barrier()
    saved = gradlib.load(folder / "job.npz")  # the job begins anew
    params = [param.requires_grad_() for param in saved["params"]]
    zero = dist.optim.ZeroRedundancyOptimizer(
        [{"params": params[:3]}, {"params": params[3:], "lr": 0.5}], optimizer_class=gradlib.optim.Adam, lr=0.1
    )
    zero.load_state_dict(saved["optim"])
    runs["zero"] = [params, zero]
    for _ in range(2):
        step("zero")
        step("whole")
    compare()


def main(folder: Path, checks: dict[str, Callable[[], None]], backend: str) -> None:
    np.seterr(all="raise", under="ignore")
    warnings.simplefilter("error")
    report: dict[str, str | None] = {}
    rank = -1
    for name, check in checks.items():
        dist.init_process_group(backend, timeout=TIMEOUT)
        rank = dist.get_rank()
        try:
            check()
            report[name] = None
        except Exception:
            report[name] = traceback.format_exc()
        dist.destroy_process_group()
    (folder / f"{rank}.json").write_text(json.dumps(report), encoding="utf-8")


if __name__ == "__main__":
    chosen = sys.argv[2:] or [name for name in globals() if name.startswith("check_")]
    main(Path(sys.argv[1]), {name: globals()[name] for name in chosen}, "mpi")
