"""NVRTC, the run-time compiler: the PTX of a source, also without a GPU. Launches compile through CuPy, which caches the result."""

from __future__ import annotations

from typing import Any

from gradlib.cuda.launch import compile_options, compiled_text
from gradlib.cuda.signature import Options, expression
from gradlib.cuda.source import CompileError, Source, compile_error


def _bindings() -> Any:
    from cupy_backends.cuda.libs import nvrtc  # needs neither a GPU nor a driver

    return nvrtc


def version() -> tuple[int, int]:
    """NVRTC's version (major, minor). Raises: ImportError without CuPy; RuntimeError where CuPy finds no NVRTC."""
    major, minor = _bindings().getVersion()
    return major, minor


def architectures() -> tuple[int, ...]:
    """The architectures that NVRTC compiles for, as ten times the compute capability: 90 is 9.0. Raises: as `version`."""
    return tuple(_bindings().getSupportedArchs())


def ptx(source: str | Source, options: Options, architecture: int, kernel: str | None = None) -> str:
    """Compile a source, with the options that a launch compiles it with.

    Args:
        source: file name in the kernel folder, or a user's text; options: compile-time names and their values.
        architecture: ten times the compute capability to compile for.
        kernel: the name of a template kernel in a user's source; the options are its arguments.
    Returns: PTX.
    Raises: CompileError when the source does not compile; as `version`.
    """
    nvrtc = _bindings()
    program = nvrtc.createProgram(compiled_text(source, options), str(source), (), ())
    try:
        if kernel is not None:
            nvrtc.addNameExpression(program, expression(source, kernel, options))
        nvrtc.compileProgram(program, (*compile_options(options, source), f"--gpu-architecture=compute_{architecture}"))
        return nvrtc.getPTX(program).decode()
    except nvrtc.NVRTCError as error:
        log = nvrtc.getProgramLog(program) or str(error)
        if isinstance(source, Source):
            raise compile_error(source, kernel or source.file, log) from error
        raise CompileError(log) from error
    finally:
        nvrtc.destroyProgram(program)
