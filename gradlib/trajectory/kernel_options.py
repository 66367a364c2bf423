"""Every set of compile-time options that the kernels are launched with: what there is to compile, and to test."""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product

from gradlib.cuda.signature import C_TYPES, Options

_STORAGE = [ctype for ctype, dtype in C_TYPES.items() if not dtype.startswith("int")]
_SHORT = [ctype for ctype in _STORAGE if ctype != "double"]  # of which `tiles.elements` takes four at a time
_LONG = ["float", "double"]  # of which `tiles.plan` has chunks copied ahead


def _combinations(
    index: Sequence[str] = ("int", "long long"), storage: Sequence[str] = _STORAGE, **values: Sequence[int]
) -> tuple[Options, ...]:  # fmt: skip
    """Every storage type with every combination of the values, in the order in which `tiles.options` writes them."""
    names = ("STORAGE", "INDEX", *values)
    return tuple(tuple(zip(names, map(str, chosen), strict=True)) for chosen in product(storage, index, *values.values()))


VARIANTS: dict[str, tuple[Options, ...]] = {
    "bspline.cu": _combinations(DEGREE=(3, 4, 5), OUTPUTS=(1,)) + _combinations(DEGREE=(3, 4, 5), storage=_SHORT, OUTPUTS=(4,)),
    "central.cu": _combinations(OUTPUTS=(1,)) + _combinations(storage=_SHORT, OUTPUTS=(4,)),
    "chain.cu": (  # the exact form differs for acceleration and jerk; of 64-bit indices one control order, they change no formula
        *_combinations(["int"], ORDER=(0,), EXACT=(0,), SOURCES=(0, 1), AHEAD=(0,), storage=_SHORT, OUTPUTS=(4,)),
        *_combinations(["int"], ORDER=(0, 1), EXACT=(0,), SOURCES=(0, 1), AHEAD=(0,), OUTPUTS=(1,)),
        *_combinations(["int"], ORDER=(2, 3), EXACT=(0, 1), SOURCES=(0, 1), AHEAD=(0,), OUTPUTS=(1,)),
        *_combinations(["long long"], ORDER=(2,), EXACT=(0,), SOURCES=(0, 1), AHEAD=(0,), OUTPUTS=(1,)),
        *_combinations(["int"], ORDER=(1,), EXACT=(0,), SOURCES=(0,), AHEAD=(1,), storage=_LONG, OUTPUTS=(1,)),
        *_combinations(["int"], ORDER=(2, 3), EXACT=(0, 1), SOURCES=(0,), AHEAD=(1,), storage=_LONG, OUTPUTS=(1,)),
        *_combinations(["long long"], ORDER=(2,), EXACT=(0,), SOURCES=(0,), AHEAD=(1,), storage=_LONG, OUTPUTS=(1,)),
    ),
    "cost.cu": _combinations(OUTPUTS=(1, 4)),
    "lbfgs.cu": _combinations(storage=("float", "double")),
    "matmul.cu": _combinations(),
    "philox.cu": _combinations(),
    "rows.cu": _combinations(),
    "smoothness.cu": _combinations(LIMITS=(0, 1), TIMED=(0, 1)),
}
"""The sets of options of each source."""
