"""``gradlib.distributed.optim``: optimisers whose state is spread over the ranks."""

from __future__ import annotations

from gradlib.distributed.optim.zero_redundancy import ZeroRedundancyOptimizer as ZeroRedundancyOptimizer
