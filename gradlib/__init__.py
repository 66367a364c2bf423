"""gradlib: torch.autograd's semantics and names on NumPy and CuPy arrays."""

from __future__ import annotations

from gradlib import autograd as autograd
from gradlib.backend.device import device as device
from gradlib.backend.dtype import (
    can_cast as can_cast,
    complex64 as complex64,
    complex128 as complex128,
    float16 as float16,
    float32 as float32,
    float64 as float64,
    get_default_dtype as get_default_dtype,
    int8 as int8,
    int16 as int16,
    int32 as int32,
    int64 as int64,
    promote_types as promote_types,
    result_type as result_type,
    set_default_dtype as set_default_dtype,
    uint8 as uint8,
)
from gradlib.core.modes import (
    enable_grad as enable_grad,
    inference_mode as inference_mode,
    is_grad_enabled as is_grad_enabled,
    is_inference_mode_enabled as is_inference_mode_enabled,
    no_grad as no_grad,
    set_grad_enabled as set_grad_enabled,
)
from gradlib.core.tensor import Size as Size, Tensor as Tensor
from gradlib.ops.elementwise import *  # noqa: F403
from gradlib.ops.reduce import *  # noqa: F403
from gradlib.ops.extreme import *  # noqa: F403

__version__ = "0.1.0"
