"""A kernel's declaration, parsed from its source: its parameters, and those of its template.

Every argument is checked against the declaration. It is read as text, so no compiler is needed.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np

from gradlib.backend.dtype import bfloat16
from gradlib.cuda.source import Source, text_of

C_TYPES = {"float": "float32", "double": "float64", "half_t": "float16", "bfloat16_t": "bfloat16", "int": "int32", "long long": "int64"}
"""The NumPy dtype name of each C type that a parameter of gradlib's own kernels may have."""

STORAGE = {dtype: ctype for ctype, dtype in C_TYPES.items()}
"""The reverse: the C type of each dtype in gradlib's own kernels."""

FURTHER_TYPES = {
    "__half": "float16", "half": "float16", "__nv_bfloat16": "bfloat16", "bool": "bool", "signed char": "int8", "unsigned char": "uint8",
    "short": "int16", "unsigned short": "uint16", "unsigned": "uint32", "unsigned int": "uint32", "unsigned long long": "uint64",
    "size_t": "uint64", "int8_t": "int8", "uint8_t": "uint8", "int16_t": "int16", "uint16_t": "uint16", "int32_t": "int32",
    "uint32_t": "uint32", "int64_t": "int64", "uint64_t": "uint64", "complex<float>": "complex64", "complex<double>": "complex128",
    "long": np.dtype("l").name, "unsigned long": np.dtype("L").name, "nv_bfloat16": "bfloat16",
}  # fmt: skip
"""Further C types that a user's kernel may have; ``complex`` is that of ``<cupy/complex.cuh>``."""

_DTYPES = {dtype: ctype for ctype, dtype in reversed((C_TYPES | FURTHER_TYPES).items()) if not ctype.endswith("_t")}

_SHORTER = {"signed int": "int", "signed": "int"} | {
    f"{sign}{size} int": f"{sign}{size}" for sign in ("", "unsigned ") for size in ("short", "long", "long long")
}
"""Types of C that have more than one name, and the one that the tables above have."""

Options = tuple[tuple[str, str], ...]


def dtype_of(ctype: str) -> np.dtype[Any]:
    """The dtype of an array whose elements have a C type."""
    name = C_TYPES.get(ctype) or FURTHER_TYPES[ctype]
    return bfloat16() if name == "bfloat16" else np.dtype(name)


def ctype_of(dtype: np.dtype[Any]) -> str | None:
    """The C type of an array's elements, None where there is none."""
    return _DTYPES.get(dtype.name)


@dataclass(frozen=True)
class Parameter:
    """One parameter of a kernel: its name, its C type, whether it is a pointer and whether the kernel may write through it."""

    name: str
    ctype: str
    pointer: bool
    written: bool

    @property
    def dtype(self) -> str:
        return C_TYPES.get(self.ctype) or FURTHER_TYPES[self.ctype]


@dataclass(frozen=True)
class Declaration:
    """A kernel's declaration as written in the source.

    Attributes:
        template: (kind, name) of each template parameter; kind is "typename" or an integer type.
        declared: the kernel's parameters, with their types as written.
    """

    template: tuple[tuple[str, str], ...]
    declared: tuple[Parameter, ...]


_COMMENT = re.compile(r"//[^\n]*|/\*.*?\*/", re.DOTALL)


@cache
def declaration(source: str | Source, kernel: str) -> Declaration:
    """A kernel's declaration; ``name<...>`` is that of ``name``.

    Raises:
        ValueError: the source has no such kernel; the message lists those that it has.
    """
    text = _COMMENT.sub(" ", text_of(source))
    base = kernel.partition("<")[0]
    head = r'(?:template\s*<([^<>]*)>\s*)?(?:extern\s*"C"\s*)?(?:static\s+|inline\s+)*__global__[^;{]*?\b'
    match = re.search(rf"{head}{re.escape(base)}\s*\(([^)]*)\)", text)
    if match is None:
        known = ", ".join(re.findall(r"__global__[^;{(]*(?:__launch_bounds__\s*\([^)]*\))?[^;{(]*?\b(\w+)\s*\(", text)) or "none"
        raise ValueError(
            f'{source} declares no kernel {kernel!r} (it declares: {known}); write it as extern "C" __global__ void {kernel}(...)'
        )
    template = [part.partition("=")[0].rsplit(None, 1) for part in (match[1] or "").split(",") if part.strip()]
    parts = [part.strip() for part in match[2].split(",") if part.strip() not in ("", "void")]
    if unnamed := [part for part in parts if part.endswith("*") or " " not in part.replace("*", " ")]:
        raise ValueError(f"{source}: every parameter of {base} has a name, got {', '.join(unnamed)}")
    declared = tuple(map(_parameter, parts))
    return Declaration(tuple(("typename" if kind.strip() == "class" else kind.strip(), name) for kind, name in template), declared)


_QUALIFIERS = ("*", "const", "volatile", "__restrict__", "__restrict", "__grid_constant__")


def _parameter(text: str) -> Parameter:
    words = re.sub(r"\b(\w+)\s*\[\s*\w*\s*\]", r"* \1", text.partition("=")[0]).replace("std::", "").replace("*", " * ").split()
    if words.count("*") > 1:
        raise ValueError(f"a parameter is a number or a pointer to numbers, got {text!r}; give the arrays as parameters of their own")
    pointer = "*" in words
    written = pointer and "const" not in words[: words.index("*")]
    ctype = " ".join(w for w in words[:-1] if w not in _QUALIFIERS)
    return Parameter(words[-1], _SHORTER.get(ctype, ctype), pointer, written)


@cache
def parameters(source: str | Source, kernel: str, options: Options) -> tuple[Parameter, ...]:
    """The declared parameters of a kernel; types that are names of options, and ``real``, are replaced by C types.

    Raises:
        ValueError: the source has no such kernel, or declares a type that is not known.
    """
    names = dict(options)
    names["real"] = "double" if names.get("STORAGE") == "double" else "float"
    return tuple(_typed(source, p, names) for p in declaration(source, kernel).declared)


def _typed(source: str | Source, parameter: Parameter, names: Mapping[str, str]) -> Parameter:
    ctype = names.get(parameter.ctype, parameter.ctype)
    if ctype not in C_TYPES and ctype not in FURTHER_TYPES:
        known = ", ".join((*C_TYPES, *FURTHER_TYPES))
        raise ValueError(f"{source}: parameter {parameter.name!r} has type {ctype!r}; a kernel takes {known}, or pointers to them")
    return Parameter(parameter.name, ctype, parameter.pointer, parameter.written)


def expression(source: str | Source, kernel: str, options: Options) -> str:
    """The name by which a kernel is requested from the compiler; for a template with its arguments, which are options."""
    if "<" in kernel:
        return kernel
    template, names = declaration(source, kernel).template, dict(options)
    return f"{kernel}<{', '.join(names[name] for _, name in template)}>" if template else kernel
