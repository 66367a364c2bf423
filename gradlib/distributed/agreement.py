"""The call that each rank is about to make, as a record that all ranks compare before any data moves.

Every collective begins with an exchange of these records, all of one size. So ranks that call different collectives, or the same with
other shapes or dtypes, meet in this exchange, and each learns what every other wanted. Nothing in a record is ever executed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

_DIMS = 10  # sizes that a record holds; the last stands for all that are left
RECORD = np.dtype(
    [("name", "S28"), ("op", "S8"), ("dtype", "S12"), ("root", "<i4"), ("dims", "<i4"), ("shape", "<i8", (_DIMS,)), ("number", "<i8")]
)
_SHOWN = 8  # of ranks that disagree, how many are named


class Call(NamedTuple):
    """A collective as every rank of the group must call it.

    Attributes:
        name: of the function.
        dtype, shape: of the tensor that all ranks bring alike; none for a barrier. A size of -1 may differ between the ranks.
        op: how elements are combined.
        root: the rank in the group that sends or receives; -1 for none.
        number: of this collective among those of its group.
    """

    name: str
    dtype: str = ""
    shape: tuple[int, ...] = ()
    op: str = ""
    root: int = -1
    number: int = 0

    def packed(self) -> np.ndarray:
        """The record, as one element."""
        record = np.zeros(1, RECORD)
        sizes = self.shape if len(self.shape) <= _DIMS else (*self.shape[: _DIMS - 1], int(np.prod(self.shape[_DIMS - 1 :])))
        shape = np.zeros(_DIMS, np.int64)
        shape[: len(sizes)] = sizes
        record[0] = (self.name.encode(), self.op.encode(), self.dtype.encode(), self.root, len(self.shape), shape, self.number)
        return record

    @classmethod
    def unpacked(cls, record: np.void) -> Call:
        """The call that a record describes."""
        shape = tuple(record["shape"][: min(int(record["dims"]), _DIMS)].tolist())
        name, dtype, op = (bytes(record[field]).decode() for field in ("name", "dtype", "op"))
        return cls(name, dtype, shape, op, int(record["root"]), int(record["number"]))

    def __str__(self) -> str:
        what = f"{self.name}({self.op})" if self.op else self.name
        tensor = f" of {self.dtype} {list(self.shape)}".replace("-1", "*") if self.dtype else ""
        root = f" with root {self.root}" if self.root >= 0 else ""
        number = f" #{self.number}" if self.number else ""
        return f"{what}{number}{tensor}{root}"


def disagreement(records: np.ndarray, ranks: Sequence[int]) -> str | None:
    """The error text when ranks make different calls; None when all make the same.

    Args:
        records: one for each rank of the group.
        ranks: their numbers in the world.
    """
    if all(record == records[0] for record in records[1:]):
        return None
    wanted: dict[Call, list[int]] = {}
    for record, rank in zip(records, ranks, strict=True):
        wanted.setdefault(Call.unpacked(record), []).append(rank)
    said = [f"{'rank' if len(who) == 1 else 'ranks'} {_numbers(who)}: {call}" for call, who in list(wanted.items())[:_SHOWN]]
    more = [f"and {len(wanted) - _SHOWN} others"] if len(wanted) > _SHOWN else []
    return (
        f"the ranks do not call the same collective: {'; '.join([*said, *more])}. Call the same functions in the same order, with the same "
        "shapes, dtypes and roots, on every rank of the group."
    )


def _numbers(ranks: list[int]) -> str:
    shown = ", ".join(map(str, ranks[:_SHOWN]))
    return f"{shown} and {len(ranks) - _SHOWN} more" if len(ranks) > _SHOWN else shown
