"""A model of what averaging gradients costs on more machines than one has, with its assumptions.

- A ring all_reduce: each rank sends and receives 2 (ranks - 1) / ranks of the bytes, in 2 (ranks - 1) steps that each wait one latency. MPI
  and NCCL choose trees where those are quicker, so for small buckets this is an upper bound.
- Every rank has the same bandwidth in both directions, no other job shares the network, and ranks on one machine share its network card.
- Gradients come at an even pace during backward, buckets leave in order one at a time, and the network does not slow the computation.
- Before each collective the ranks compare what they call, which costs one more latency for each doubling of the ranks.
"""

from __future__ import annotations

import math
from typing import NamedTuple


def all_reduce_seconds(size: float, ranks: int, bandwidth: float, latency: float) -> float:
    """The modelled time of a ring all_reduce.

    Args:
        size: bytes of the tensor.
        ranks: how many take part.
        bandwidth: bytes per second of each rank, in each direction.
        latency: seconds of one message.
    Source: R. Thakur, R. Rabenseifner and W. Gropp, Optimization of collective communication operations in MPICH, IJHPCA 2005.
    """
    if ranks == 1:
        return 0.0
    agreement = math.ceil(math.log2(ranks)) * latency
    return agreement + 2 * (ranks - 1) * latency + 2 * (ranks - 1) / ranks * size / bandwidth


class Step(NamedTuple):
    """A training step by the model.

    Attributes:
        buckets: how many there are.
        communication: seconds in which the network is busy.
        exposed: seconds in which backward is over and gradients are still under way.
        efficiency: the step's computation over its whole time.
    """

    buckets: int
    communication: float
    exposed: float
    efficiency: float


def data_parallel_step(
    gradients: float, ranks: int, *, forward: float, backward: float, bandwidth: float, latency: float, bucket: float = 25 * 2**20
) -> Step:
    """The modelled time of one step of `DistributedDataParallel`.

    Args:
        gradients: bytes of all gradients.
        ranks: how many there are.
        forward, backward: seconds of the computation on one rank.
        bandwidth, latency: as in ``all_reduce_seconds``.
        bucket: bytes of a bucket.
    """
    count = max(1, math.ceil(gradients / bucket))
    each = all_reduce_seconds(gradients / count, ranks, bandwidth, latency)
    end = 0.0
    for i in range(count):
        end = max(end, backward * (i + 1) / count) + each
    exposed = max(0.0, end - backward)
    return Step(count, count * each, exposed, (forward + backward) / (forward + backward + exposed))


def state_bytes(parameters: int, ranks: int, *, element: int = 4, states: int = 2) -> tuple[int, int]:
    """Bytes on each rank of parameters, gradients and an optimiser's state: whole on every rank, and divided by ZeroRedundancyOptimizer.

    Args:
        parameters: how many numbers.
        ranks: how many there are.
        element: bytes of a number.
        states: numbers that the optimiser keeps for each, 2 for Adam.
    Returns: (whole, divided).
    """
    kept = 2 * parameters * element
    state = states * parameters * element
    return kept + state, kept + math.ceil(state / ranks)
