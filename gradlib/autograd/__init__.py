"""torch.autograd's surface."""

from __future__ import annotations

import sys as _sys
from importlib import import_module as _import_module
from typing import TYPE_CHECKING

from gradlib.autograd import forward_ad as forward_ad, functional as functional, grad_mode as grad_mode, graph as graph
from gradlib.autograd.anomaly import detect_anomaly as detect_anomaly, set_detect_anomaly as set_detect_anomaly
from gradlib.autograd.function import Function as Function
from gradlib.autograd.grad_mode import (
    is_multithreading_enabled as is_multithreading_enabled,
    set_multithreading_enabled as set_multithreading_enabled,
)
from gradlib.autograd.gradcheck import GradcheckError as GradcheckError, gradcheck as gradcheck, gradgradcheck as gradgradcheck
from gradlib.autograd.gradient import grad as grad
from gradlib.autograd.variable import Variable as Variable
from gradlib.backend.names import missing as _missing
from gradlib.core.backward import backward as backward
from gradlib.core.grad_mode import (
    enable_grad as enable_grad,
    inference_mode as inference_mode,
    no_grad as no_grad,
    set_grad_enabled as set_grad_enabled,
)

if TYPE_CHECKING:
    from gradlib.autograd import profiler as profiler


def __getattr__(name: str) -> object:
    """``profiler``, which is loaded when it is asked for."""
    if name == "profiler":
        return _import_module(f"{__name__}.profiler")
    return _missing(_sys.modules[__name__], name)


def __dir__() -> list[str]:
    return sorted({*globals(), "profiler"})
