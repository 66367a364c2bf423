"""A kernel's declaration, parsed from its source: its parameters, and those of its template.

Every argument is checked against the declaration. It is read as text, so no compiler is needed.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
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
    "long": np.dtype("l").name, "unsigned long": np.dtype("L").name, "nv_bfloat16": "bfloat16", "char": "int8", "ptrdiff_t": "int64",
    "cuComplex": "complex64", "cuFloatComplex": "complex64", "cuDoubleComplex": "complex128", "cudaTextureObject_t": "uint64",
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
_ALIASES = (
    re.compile(r"\btypedef\s+(?P<type>[\w:<>\s]+?)\s+(?P<name>\w+)\s*;"),
    re.compile(r"\busing\s+(?P<name>\w+)\s*=\s*(?P<type>[\w:<>\s]+?)\s*;"),
    re.compile(r"^[ \t]*#[ \t]*define[ \t]+(?P<name>\w+)[ \t]+(?P<type>[\w:<> \t]+?)[ \t]*$", re.MULTILINE),
)


@cache
def _aliases(source: Source) -> dict[str, str]:
    """The types that a user's source, its headers and its options define by typedef, using or a macro, each as it is defined once."""
    found: dict[str, set[str]] = {}
    for text in (source.text, *source.headers):
        for pattern in _ALIASES:
            for match in pattern.finditer(_COMMENT.sub(" ", text)):
                words = match["type"].split()
                known = "const" if "const" in words else _ctype(words)  # whose pointers would look like those of results
                found.setdefault(match["name"], set()).add(known)
    once = {name: each for name, (each, *others) in found.items() if not others and each != "const"}
    options = (flag[2:].partition("=") for flag in source.flags if flag.startswith("-D"))
    return once | {name.strip(): _ctype(value.split()) for name, _, value in options}


def _ctype(words: Iterable[str]) -> str:
    """The name that the tables above have for a type: without namespaces and qualifiers."""
    text = " ".join(word for word in words if word not in _QUALIFIERS)
    text = re.sub(r"(?:\b(?:cuda|std|thrust)\s*)?::\s*", "", re.sub(r"\s*([<>])\s*", r"\1", text))
    return _SHORTER.get(text, text)


@cache
def declaration(source: str | Source, kernel: str) -> Declaration:
    """A kernel's declaration; ``name<...>`` is that of ``name``.

    Raises:
        ValueError: the source has no such kernel; the message lists those that it has.
    """
    base = kernel.partition("<")[0].rpartition("::")[2]
    head = r'(?:template\s*<([^<>]*)>\s*)?(?:extern\s*"C"\s*)?(?:static\s+|inline\s+)*__global__[^;{]*?\b'
    texts = _texts(source)
    matches = [match for text in texts for match in re.finditer(rf"{head}{re.escape(base)}\s*\(([^)]*)\)\s*(\{{?)", text)]
    if not matches:
        known = ", ".join(re.findall(r"__global__[^;{(]*(?:__launch_bounds__\s*\([^)]*\))?[^;{(]*?\b(\w+)\s*\(", " ".join(texts))) or "none"
        raise ValueError(
            f'{source} declares no kernel {kernel!r} (it declares: {known}); write it as extern "C" __global__ void {kernel}(...)'
        )
    defined = [match for match in matches if match[3]] or matches
    found, *others = dict.fromkeys(_declared(source, base, match[1] or "", match[2]) for match in defined)
    if others:
        raise ValueError(
            f"{source} declares {base} {len(others) + 1} times, with other parameters each time, as overloads or under #if; only the "
            "compiler knows which is meant: keep one of them, or name them differently"
        )
    return found


def _texts(source: str | Source) -> list[str]:
    """A source and its headers without comments."""
    return [_COMMENT.sub(" ", each) for each in (text_of(source), *(source.headers if isinstance(source, Source) else ()))]


def kernels_in(source: Source) -> list[str]:
    """The names of the kernels that a source and its headers define."""
    found = re.findall(r"__global__[^;{]*?\b(\w+)\s*\([^)]*\)\s*\{", "\n".join(_texts(source)))
    return list(dict.fromkeys(map(str, found)))


def _declared(source: str | Source, base: str, template: str, between: str) -> Declaration:
    """The declaration of a kernel from the text of its template's parameters, and of its own."""
    kinds = [part.partition("=")[0].rsplit(None, 1) for part in template.split(",") if part.strip()]
    parts = [part.strip() for part in between.split(",") if part.strip() not in ("", "void")]
    if unnamed := [part for part in parts if part.endswith("*") or " " not in part.replace("*", " ")]:
        raise ValueError(f"{source}: every parameter of {base} has a name, got {', '.join(unnamed)}")
    declared = tuple(map(_parameter, parts))
    if isinstance(source, Source):
        own, aliases = {name for _, name in kinds}, _aliases(source)
        declared = tuple(p if p.ctype in own else replace(p, ctype=_resolved(p.ctype, aliases)) for p in declared)
    return Declaration(tuple(("typename" if kind.strip() == "class" else kind.strip(), name) for kind, name in kinds), declared)


def _resolved(ctype: str, aliases: Mapping[str, str]) -> str:
    """The C type behind a name that stands for one, or for another such name."""
    seen = set[str]()
    while ctype in aliases and ctype not in seen:
        seen.add(ctype)
        ctype = aliases[ctype]
    return ctype


def type_named(source: Source, text: str) -> str:
    """The C type that a text means in a source, by the name that the tables above have."""
    return _resolved(_ctype(text.split()), _aliases(source))


_QUALIFIERS = ("*", "const", "volatile", "__restrict__", "__restrict", "__grid_constant__")


def _parameter(text: str) -> Parameter:
    words = re.sub(r"\b(\w+)\s*\[\s*\w*\s*\]", r"* \1", text.partition("=")[0]).replace("*", " * ").split()
    if words.count("*") > 1:
        raise ValueError(f"a parameter is a number or a pointer to numbers, got {text!r}; give the arrays as parameters of their own")
    pointer = "*" in words
    written = pointer and "const" not in words[: words.index("*")]
    return Parameter(words[-1], _ctype(words[:-1]), pointer, written)


@cache
def parameters(source: str | Source, kernel: str, options: Options) -> tuple[Parameter, ...]:
    """The declared parameters of a kernel; types that are names of options, and ``real`` of gradlib's own, are replaced by C types.

    Raises:
        ValueError: the source has no such kernel, or declares a type that is not known.
    """
    names = dict(options)
    if not isinstance(source, Source):
        names["real"] = "double" if names.get("STORAGE") == "double" else "float"
    return tuple(_typed(source, p, names) for p in declaration(source, kernel).declared)


def _typed(source: str | Source, parameter: Parameter, names: Mapping[str, str]) -> Parameter:
    ctype = names.get(parameter.ctype, parameter.ctype)
    if ctype not in C_TYPES and ctype not in FURTHER_TYPES:
        raise ValueError(
            f"{source}: parameter {parameter.name!r} has type {ctype!r}; a kernel takes bool, C's integers, float, double, __half, "
            "__nv_bfloat16, complex<float> and complex<double>, names that typedef, using, #define or an option -D give them once, "
            "and pointers to them. A vector or a struct is read by a cast in the kernel: reinterpret_cast<const float2*>(x) of a "
            "const float* x; a struct by value is a parameter for each of its fields"
        )
    return Parameter(parameter.name, ctype, parameter.pointer, parameter.written)


def expression(source: str | Source, kernel: str, options: Options) -> str:
    """The name by which a kernel is requested from the compiler; for a template with its arguments, which are options."""
    if "<" in kernel:
        return kernel
    template, names = declaration(source, kernel).template, dict(options)
    return f"{kernel}<{', '.join(names[name] for _, name in template)}>" if template else kernel
