"""Functions of functions: ``vmap``, gradients, Jacobians. Source: torch.func."""

from __future__ import annotations

from gradlib.func import (  # noqa: F401  (each registers its rules)
    rules_index,
    rules_linalg,
    rules_pointwise,
    rules_product,
    rules_reduce,
    rules_shape,
)
from gradlib.func.batching import chunk_vmap as chunk_vmap, vmap as vmap
from gradlib.func.jacobians import hessian as hessian, jacfwd as jacfwd, jacrev as jacrev
from gradlib.func.transforms import grad as grad, grad_and_value as grad_and_value, jvp as jvp, linearize as linearize, vjp as vjp
