"""torch.autograd's surface."""

from __future__ import annotations

from gradlib.autograd import (
    forward_ad as forward_ad,
    functional as functional,
    grad_mode as grad_mode,
    graph as graph,
    profiler as profiler,
)
from gradlib.autograd.anomaly import detect_anomaly as detect_anomaly, set_detect_anomaly as set_detect_anomaly
from gradlib.autograd.function import Function as Function
from gradlib.autograd.grad_mode import (
    is_multithreading_enabled as is_multithreading_enabled,
    set_multithreading_enabled as set_multithreading_enabled,
)
from gradlib.autograd.gradcheck import GradcheckError as GradcheckError, gradcheck as gradcheck, gradgradcheck as gradgradcheck
from gradlib.autograd.gradient import grad as grad
from gradlib.autograd.variable import Variable as Variable
from gradlib.core.backward import backward as backward
from gradlib.core.grad_mode import (
    enable_grad as enable_grad,
    inference_mode as inference_mode,
    no_grad as no_grad,
    set_grad_enabled as set_grad_enabled,
)
