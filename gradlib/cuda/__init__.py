"""CUDA: a user's own kernels as differentiable operations, and how gradlib's are launched."""

from __future__ import annotations

from gradlib.cuda.expressions import elementwise as elementwise, reduction as reduction
from gradlib.cuda.source import CompileError as CompileError
from gradlib.cuda.user_kernel import Kernel as Kernel, kernel as kernel

__all__ = ["CompileError", "Kernel", "elementwise", "kernel", "reduction"]
