"""The run-time compiler by itself: a source's PTX, also where there is no GPU. Launches compile through CuPy, which keeps the result."""

from __future__ import annotations

from typing import Any

from gradlib.cuda.launch import Options, compile_options
from gradlib.cuda.source import numbered_source


class CompileError(RuntimeError):
    """A source that NVRTC refuses; the text is NVRTC's log."""


def _bindings() -> Any:
    from cupy_backends.cuda.libs import nvrtc  # needs neither a GPU nor a driver

    return nvrtc


def version() -> tuple[int, int]:
    """NVRTC's version (major, minor). Raises: ImportError without CuPy; RuntimeError where CuPy finds no NVRTC."""
    major, minor = _bindings().getVersion()
    return major, minor


def architectures() -> tuple[int, ...]:
    """What NVRTC compiles for, as ten times the compute capability: 90 is 9.0. Raises: as `version`."""
    return tuple(_bindings().getSupportedArchs())


def ptx(source: str, options: Options, architecture: int) -> str:
    """Compile a source, with the options that a launch compiles it with.

    Args:
        source: file name in the kernel folder; options: compile-time names and their values.
        architecture: ten times the compute capability to compile for.
    Returns: PTX.
    Raises: CompileError when the source does not compile; as `version`.
    """
    nvrtc = _bindings()
    program = nvrtc.createProgram(numbered_source(source), source, (), ())
    try:
        nvrtc.compileProgram(program, (*compile_options(options), f"--gpu-architecture=compute_{architecture}"))
        return nvrtc.getPTX(program).decode()
    except nvrtc.NVRTCError as error:
        raise CompileError(nvrtc.getProgramLog(program) or str(error)) from error
    finally:
        nvrtc.destroyProgram(program)
