"""The in-place forms that torch also has as functions: ``gradlib.exp_(x)`` is ``x.exp_()``. Source: torch."""

from __future__ import annotations

from typing import Any

from gradlib.core.tensor import Tensor
from gradlib.ops import properties, storage  # noqa: F401  (they put detach_ and as_strided_ on Tensor)

NAMES = """
    abs acos acosh addmv arccos arccosh arcsin arcsinh arctan arctanh as_strided asin asinh atan atanh ceil clamp clamp_max clamp_min clip
    conj_physical cos cosh detach erf exp2 exp expm1 fill fix floor frac index_put log1p log2 log10 log nan_to_num neg negative
    reciprocal relu round rsqrt sigmoid sin sinh sqrt square tan tanh trunc
"""

__all__ = [f"{name}_" for name in NAMES.split()]


def __getattr__(name: str) -> Any:
    """The method of Tensor, which is the function."""
    if name in __all__:
        return getattr(Tensor, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
