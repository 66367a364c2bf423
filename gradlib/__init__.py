"""gradlib: torch.autograd's semantics and names on NumPy and CuPy arrays.

``gradlib/docs/start.md`` is where to begin; ``help(gradlib.NAME)`` documents each function.
"""

from __future__ import annotations

import sys as _sys
from importlib import import_module as _import_module
from math import e as e, inf as inf, nan as nan, pi as pi

from numpy import dtype as dtype, newaxis as newaxis

from gradlib.backend.loading import without_collection as _without_collection

with _without_collection():
    from gradlib import (
        array_api as array_api,
        autograd as autograd,
        cuda as cuda,
        fft as fft,
        func as func,
        interop as interop,
        linalg as linalg,
        nn as nn,
        numpy as numpy,
        return_types as return_types,
        utils as utils,
    )
    from gradlib.autograd.anomaly import (
        is_anomaly_check_nan_enabled as is_anomaly_check_nan_enabled,
        is_anomaly_enabled as is_anomaly_enabled,
        set_anomaly_enabled as set_anomaly_enabled,
    )
    from gradlib.backend.device import device as device, get_default_device as get_default_device, set_default_device as set_default_device
    from gradlib.backend.dtype import (
        bool_ as bool,
        bool_ as bool_,
        can_cast as can_cast,
        complex64 as cfloat,
        complex64 as complex64,
        complex128 as cdouble,
        complex128 as complex128,
        float16 as float16,
        float16 as half,
        float32 as float,
        float32 as float32,
        float64 as double,
        float64 as float64,
        get_default_dtype as get_default_dtype,
        int8 as int8,
        int16 as int16,
        int16 as short,
        int32 as int,
        int32 as int32,
        int64 as int64,
        int64 as long,
        promote_types as promote_types,
        result_type as result_type,
        set_default_dtype as set_default_dtype,
        uint8 as uint8,
    )
    from gradlib.backend.limits import (
        channels_last as channels_last,
        channels_last_3d as channels_last_3d,
        contiguous_format as contiguous_format,
        finfo as finfo,
        iinfo as iinfo,
        layout as layout,
        memory_format as memory_format,
        preserve_format as preserve_format,
        strided as strided,
    )
    from gradlib.backend.names import missing as _missing, suggest_names as _suggest_names
    from gradlib.core.grad_mode import (
        enable_grad as enable_grad,
        inference_mode as inference_mode,
        is_grad_enabled as is_grad_enabled,
        is_inference_mode_enabled as is_inference_mode_enabled,
        no_grad as no_grad,
        set_grad_enabled as set_grad_enabled,
    )
    from gradlib.core.random import (
        Generator as Generator,
        get_rng_state as get_rng_state,
        initial_seed as initial_seed,
        manual_seed as manual_seed,
        seed as seed,
        set_rng_state as set_rng_state,
    )
    from gradlib.core.repr import set_printoptions as set_printoptions
    from gradlib.core.tensor import Size as Size, Tensor as Tensor
    from gradlib.func import vmap as vmap
    from gradlib.interop.hips import (
        check_grads as check_grads,
        checkpoint as checkpoint,
        defjvp as defjvp,
        defjvp_argnum as defjvp_argnum,
        defjvp_argnums as defjvp_argnums,
        defvjp as defvjp,
        defvjp_argnum as defvjp_argnum,
        defvjp_argnums as defvjp_argnums,
        deriv as deriv,
        elementwise_grad as elementwise_grad,
        grad as grad,
        grad_and_aux as grad_and_aux,
        grad_named as grad_named,
        hessian as hessian,
        hessian_tensor_product as hessian_tensor_product,
        hessian_vector_product as hessian_vector_product,
        holomorphic_grad as holomorphic_grad,
        jacobian as jacobian,
        make_ggnvp as make_ggnvp,
        make_hvp as make_hvp,
        make_jvp as make_jvp,
        make_jvp_reversemode as make_jvp_reversemode,
        make_vjp as make_vjp,
        multigrad_dict as multigrad_dict,
        primitive as primitive,
        tensor_jacobian_product as tensor_jacobian_product,
        value_and_grad as value_and_grad,
        vector_jacobian_product as vector_jacobian_product,
    )
    from gradlib.interop.serialization import DamagedFile as DamagedFile, load as load, save as save
    from gradlib.ops.activation import *  # noqa: F403
    from gradlib.ops.arithmetic import *  # noqa: F403
    from gradlib.ops.broadcast import *  # noqa: F403
    from gradlib.ops.compare import *  # noqa: F403
    from gradlib.ops.complex import *  # noqa: F403
    from gradlib.ops.contract import *  # noqa: F403
    from gradlib.ops.copies import *  # noqa: F403
    from gradlib.ops.create import *  # noqa: F403
    from gradlib.ops.distance import *  # noqa: F403
    from gradlib.ops.elementwise import *  # noqa: F403
    from gradlib.ops.finite import *  # noqa: F403
    from gradlib.ops.from_data import *  # noqa: F403
    from gradlib.ops.gather import *  # noqa: F403
    from gradlib.ops.in_place import *  # noqa: F403
    from gradlib.ops.index import *  # noqa: F403
    from gradlib.ops.join import *  # noqa: F403
    from gradlib.ops.linalg.determinant import *  # noqa: F403
    from gradlib.ops.linalg.norms import *  # noqa: F403
    from gradlib.ops.linalg.products import *  # noqa: F403
    from gradlib.ops.linalg.solve import *  # noqa: F403
    from gradlib.ops.masked import *  # noqa: F403
    from gradlib.ops.minmax import *  # noqa: F403
    from gradlib.ops.powers import *  # noqa: F403
    from gradlib.ops.product import *  # noqa: F403
    from gradlib.ops.properties import *  # noqa: F403
    from gradlib.ops.random import *  # noqa: F403
    from gradlib.ops.random_fill import *  # noqa: F403
    from gradlib.ops.rearrange import *  # noqa: F403
    from gradlib.ops.reduce import *  # noqa: F403
    from gradlib.ops.rounding import *  # noqa: F403
    from gradlib.ops.scan import *  # noqa: F403
    from gradlib.ops.scatter import *  # noqa: F403
    from gradlib.ops.select import *  # noqa: F403
    from gradlib.ops.shape import *  # noqa: F403
    from gradlib.ops.signs import *  # noqa: F403
    from gradlib.ops.slices import *  # noqa: F403
    from gradlib.ops.softmax import *  # noqa: F403
    from gradlib.ops.sort import *  # noqa: F403
    from gradlib.ops.storage import *  # noqa: F403
    from gradlib.ops.trigonometry import *  # noqa: F403
    from gradlib.ops.variance import *  # noqa: F403

__version__ = "0.1.0"


_LATER = frozenset(("distributed", "optim", "trajectory"))
"""Packages that nothing here uses, and that are loaded when they are asked for."""


def __getattr__(name: str) -> object:
    """What is looked for only when it is asked for: some packages, and ``gradlib.bfloat16``, whose package need not be there."""
    if name in _LATER:
        return _import_module(f"{__name__}.{name}")
    if name == "bfloat16":
        from gradlib.backend.dtype import bfloat16

        try:
            return bfloat16()
        except RuntimeError as error:
            raise AttributeError(f"module {__name__!r} has no attribute 'bfloat16' here: {error}") from error
    return _missing(_sys.modules[__name__], name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_LATER})


_suggest_names(__name__)
