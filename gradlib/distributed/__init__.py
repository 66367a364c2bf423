"""torch.distributed's names: tensors and gradients between processes, by MPI on the host and by NCCL between GPUs.

The processes are started by ``mpiexec`` or ``python -m gradlib.distributed.launch``. Every collective first compares what the ranks call,
so that one that is out of step is an error on all of them that says who called what, and never a hang.
"""

from __future__ import annotations

from gradlib.backend.names import suggest_names as _suggest_names
from gradlib.distributed import nn as nn, optim as optim
from gradlib.distributed.collectives import (
    all_gather as all_gather,
    all_gather_into_tensor as all_gather_into_tensor,
    all_gather_single as all_gather_single,
    all_reduce as all_reduce,
    all_to_all as all_to_all,
    all_to_all_single as all_to_all_single,
    barrier as barrier,
    broadcast as broadcast,
    gather as gather,
    monitored_barrier as monitored_barrier,
    reduce as reduce,
    reduce_scatter as reduce_scatter,
    reduce_scatter_single as reduce_scatter_single,
    reduce_scatter_tensor as reduce_scatter_tensor,
    scatter as scatter,
)
from gradlib.distributed.data_parallel import DistributedDataParallel as DistributedDataParallel
from gradlib.distributed.errors import DistBackendError as DistBackendError, DistError as DistError
from gradlib.distributed.groups import (
    GroupMember as GroupMember,
    destroy_process_group as destroy_process_group,
    get_backend as get_backend,
    get_global_rank as get_global_rank,
    get_group_rank as get_group_rank,
    get_node_local_rank as get_node_local_rank,
    get_process_group_ranks as get_process_group_ranks,
    get_rank as get_rank,
    get_world_size as get_world_size,
    group as group,
    init_process_group as init_process_group,
    is_available as is_available,
    is_initialized as is_initialized,
    is_mpi_available as is_mpi_available,
    new_group as new_group,
)
from gradlib.distributed.nccl import is_nccl_available as is_nccl_available
from gradlib.distributed.point_to_point import (
    P2POp as P2POp,
    batch_isend_irecv as batch_isend_irecv,
    irecv as irecv,
    isend as isend,
    recv as recv,
    send as send,
)
from gradlib.distributed.process_group import Backend as Backend, ProcessGroup as ProcessGroup
from gradlib.distributed.reduce_op import ReduceOp as ReduceOp
from gradlib.distributed.work import Work as Work

_suggest_names(__name__)
