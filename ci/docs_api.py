"""The reference pages of the documentation: each public name with its signature and docstring, as Markdown for Sphinx.

Operations are made by decorators and set on Tensor at run time. Their signatures are read from the type stubs, which say more of the types
than the functions themselves; those of everything else from the function. Docstrings are Markdown with sections (Args, Returns, Raises,
Source), as CONTRIBUTING.md asks.
"""

from __future__ import annotations

import argparse
import ast
import functools
import importlib
import inspect
import re
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import numpy as np

import gradlib
from gradlib import cli

ROOT = Path(__file__).resolve().parent.parent

MODULES = (
    "gradlib.linalg", "gradlib.fft", "gradlib.nn.functional", "gradlib.nn.utils", "gradlib.array_api",
    "gradlib.autograd", "gradlib.autograd.forward_ad", "gradlib.autograd.function", "gradlib.autograd.functional", "gradlib.autograd.graph",
    "gradlib.autograd.profiler", "gradlib.func", "gradlib.cuda", "gradlib.cuda.nvtx", "gradlib.distributed",
    "gradlib.distributed.nn.functional", "gradlib.distributed.optim", "gradlib.interop", "gradlib.interop.hips", "gradlib.optim",
    "gradlib.optim.lr_scheduler", "gradlib.optim.swa_utils",
    "gradlib.trajectory", "gradlib.utils", "gradlib.utils.checkpoint", "gradlib.testing.hostcuda",
)  # fmt: skip
"""Modules with a page each, beside ``gradlib`` and ``gradlib.Tensor``."""

ELSEWHERE = {"gradlib.autograd.function": {"Function"}}
"""Names of a module that the page of its package shows."""

PARTS = {
    "gradlib.cuda": {
        "Devices": ("devices",), "Streams and events": ("streams",), "Memory": ("memory",), "Random numbers": ("random",),
        "Graphs": ("graphs", "graph_pools", "graphed_callables", "graph_cache"),
        "Kernels of your own": ("user_kernel", "expressions", "source"),
    },
    "gradlib.trajectory": {
        "Integrators": ("chain", "bspline"), "Costs": ("smoothness", "cost"), "Many motions": ("many",), "States and limits": ("state",),
        "Compiled loops": ("compiled",),
        "Dense matrices": ("matrices",), "cuRobo's functions": ("compat",), "cuRobo's Functions": ("functions",),
    },
}  # fmt: skip
"""Headings of pages whose entries are of several kinds, and the files that each shows."""

SPELLED = {
    "_bool": "bool", "_int": "int", "_float": "float", "_complex": "complex", "_str": "str", "_Number": "Number", "_DType": "DTypeLike",
    "_Operand": "Tensor | ndarray | Number", "_Device": "Device", "_Dims": "int | Sequence[int]", "_Shape": "int | Sequence[int]",
    "_Index": "Index",
}  # fmt: skip
"""How the stubs' own names for types are shown."""

IN_PLACE = "in place"
"""The family of the functions that write into their first argument."""

SECTION = re.compile(r"^(Args|Attributes|Returns|Raises|Source|Yields|Example|Note):[ \n]?", re.MULTILINE)
FIRST = re.compile(r"^\((self|cls|input)(: [\w ]+)?(, /)?(, )?")
LINK = re.compile(r"(\[[^\]]*\]\([^)]*\))")
CODE = re.compile(r"(?<!`)`([A-Za-z_][\w.]*)(\(\))?`(?!`)")
RECORDS = re.compile(r"\b_([A-Z]\w+)")
PRIVATE = re.compile(r"\b(?:builtins\.|gradlib\.(?:[a-z_]+\.)+(?=[A-Z]))")


class Reference:
    """Everything public, by the page that shows it."""

    def __init__(self) -> None:
        self.modules = {name: importlib.import_module(name) for name in MODULES}
        self.stubs = {
            "gradlib": stub("gradlib/__init__.pyi"),
            "gradlib.fft": stub("gradlib/fft.pyi"),
            "gradlib.linalg": stub("gradlib/linalg.pyi"),
            "gradlib.nn.functional": stub("gradlib/nn/functional.pyi"),
            "gradlib.Tensor": stub("gradlib/core/methods.pyi"),
        }

    @functools.cached_property
    def names(self) -> dict[str, str]:
        """Each documented name, long, as users write it and last part alone, with the long one."""
        found: dict[str, str] = {}
        for module in reversed(["gradlib", *self.modules]):
            for name in public(importlib.import_module(module)):
                for shown in (name, f"{module.removeprefix('gradlib.')}.{name}", f"{module}.{name}"):
                    found[shown] = f"{module}.{name}"
        for name in members(gradlib.Tensor):
            found[f"Tensor.{name}"] = f"gradlib.Tensor.{name}"
        return found

    def linked(self, text: str) -> str:
        """A page whose prose leads from what it names (``optim.Adam``, ``step_jerk``) to the reference.

        A word alone, such as ``grad``, may be a method, an argument or a function, and is left.
        """
        lines, inside = [], False
        for line in text.split("\n"):
            inside ^= line.startswith("```")
            if not inside and not line.startswith(("```", "#", "    ")):
                line = "".join(part if LINK.fullmatch(part) else CODE.sub(self._to_reference, part) for part in LINK.split(line))
            lines.append(line)
        return "\n".join(lines)

    def _to_reference(self, code: re.Match[str]) -> str:
        known = self.names.get(code[1]) if re.search(r"[._]", code[1]) else None
        return f"{{py:obj}}`{code[1]}{code[2] or ''} <{known}>`" if known else code[0]

    def pages(self) -> Iterator[tuple[str, str]]:
        """Each page's name and text."""
        yield "gradlib", self.top()
        yield "tensor", self.tensor()
        yield "command", self.command()
        for name, module in self.modules.items():
            readme = Path(module.__file__ or "").with_name("README.md")
            about = self.prose("\n" + (module.__doc__ or ""), name)  # its first line is indented as the others are
            if readme.is_file():
                about = about.replace("README.md", f"[Its README](../{readme.relative_to(ROOT).as_posix()})", 1)
            parts = [f"# {name}", about, f"```{{py:currentmodule}} {name}\n```"]
            entries = {each: getattr(module, each) for each in public(module)}
            ordered = sorted(entries, key=lambda each: (inspect.isclass(entries[each]), each.lower()))
            for heading, files in PARTS.get(name, {"": ()}).items():
                homes = {f"{name}.{each}" for each in files}
                parts += [f"## {heading}"] if heading else []
                parts += [self.entry(name, each, entries[each]) for each in ordered if not homes or entries[each].__module__ in homes]
            yield page_name(name), "\n\n".join(parts)

    def top(self) -> str:
        """The page of ``gradlib`` itself, its operations by the file that declares them."""
        families: dict[str, list[str]] = {}
        titles: dict[str, str] = {}
        for name in public(gradlib):
            value = getattr(gradlib, name)
            module, title = family(name, value)
            families.setdefault(module, []).append(name)
            titles[module] = title
        dtypes = sorted(name for name, value in vars(gradlib).items() if isinstance(value, np.dtype))
        parts = ["# gradlib", self.prose(gradlib.__doc__, "gradlib"), "```{py:currentmodule} gradlib\n```"]
        listed = ", ".join(f"`{name}`" for name in dtypes)
        parts.append(f"The dtypes are NumPy's: {listed}, and `bfloat16` with the extra of that name.")
        for module in sorted(families, key=lambda each: (each != "gradlib", each == IN_PLACE, titles[each].lower())):
            parts.append(f"## {titles[module]}")
            parts += [self.entry("gradlib", name, getattr(gradlib, name)) for name in sorted(families[module], key=str.lower)]
        return "\n\n".join(parts)

    def tensor(self) -> str:
        """The page of ``Tensor``."""
        tensor = gradlib.Tensor
        shown = members(tensor)
        attributes = [name for name in shown if isinstance(inspect.getattr_static(tensor, name), property)]
        written = [name for name in shown if name.endswith("_") and name not in attributes]
        others = [name for name in shown if name not in attributes and name not in written]
        parts = ["# Tensor", "```{py:currentmodule} gradlib\n```"]
        parts.append("::::{py:class} gradlib.Tensor\n" + self.prose(tensor.__doc__, "gradlib") + "\n::::")
        for title, names in (("Attributes", attributes), ("Methods", others), ("Methods that write into the tensor", written)):
            parts.append(f"## {title}")
            parts += [self.member("gradlib.Tensor", tensor, name) for name in names]
        return "\n\n".join(parts)

    def command(self) -> str:
        """The page of the ``gradlib`` command: what its parsers say of themselves."""
        commands = argparse.ArgumentParser(prog="gradlib").add_subparsers()
        for each in cli.COMMANDS:
            each.add_parser(commands)
        parts = ["# The gradlib command", self.helped(cli.parser())]
        parts += [f"## gradlib {name}\n\n{self.helped(parser)}" for name, parser in commands.choices.items()]
        return "\n\n".join(parts)

    def helped(self, parser: argparse.ArgumentParser) -> str:
        """A parser's help, which it loses: the description and the epilog as prose, the rest as a terminal shows it."""
        above, below = (self.escaped(re.sub(r"(?m)^  ", "    ", text or ""), "gradlib") for text in (parser.description, parser.epilog))
        parser.description = parser.epilog = None
        parser.formatter_class = functools.partial(argparse.HelpFormatter, width=90)
        return f"{above}\n\n```text\n{parser.format_help()}```\n\n{below}".rstrip()

    def entry(self, module: str, name: str, value: Any) -> str:
        """One function or class."""
        if inspect.isclass(value):
            return self.class_entry(module, name, value)
        signatures = self.stubs.get(module, {}).get(name) or [signature(value)]
        return self.described("py:function", [f"{name}{each}" for each in signatures], self.prose(value.__doc__, module))

    def class_entry(self, module: str, name: str, value: type) -> str:
        if value is gradlib.Tensor:
            return "{py:class}`gradlib.Tensor` has [a page of its own](tensor.md)."
        lines = [self.prose(value.__doc__, module)]
        bases = [each for each in value.__mro__[1:] if vars(self.modules.get(module, gradlib)).get(each.__name__) is each]
        inherited = {each for base in bases for each in members(base)}
        lines += [self.member(f"{module}.{name}", value, each) for each in members(value) if each in vars(value) or each not in inherited]
        lines += [f"It also has what {{py:class}}`{base.__name__} <{module}.{base.__name__}>` has." for base in bases]
        shown = "" if issubclass(value, Exception) else signature(value)
        kind = "py:exception" if issubclass(value, Exception) else "py:class"
        return f"::::{{{kind}}} {name}{shown}\n" + "\n\n".join(lines) + "\n::::"

    def member(self, owner: str, of: type, name: str) -> str:
        """One method, property or attribute of a class."""
        value = inspect.getattr_static(of, name)
        name_shown = f"{owner}.{name}" if owner == "gradlib.Tensor" else name
        if not (callable(value) or isinstance(value, (classmethod, staticmethod))):
            return self.described("py:property", [name_shown], self.prose(documentation(of, name), owner))
        signatures = self.stubs.get(owner, {}).get(name) or [signature(getattr(value, "__func__", value))]
        bound = signatures if isinstance(value, staticmethod) else [FIRST.sub("(", each) for each in signatures]
        options = {classmethod: ":classmethod:\n", staticmethod: ":staticmethod:\n"}.get(type(value), "")
        return self.described("py:method", [f"{name_shown}{each}" for each in bound], options + self.prose(documentation(of, name), owner))

    def described(self, kind: str, signatures: list[str], body: str) -> str:
        """A directive for each signature; the first has the index entry, the last the text."""
        parts = []
        for number, each in enumerate(signatures):
            first = "" if number == 0 else ":no-index:\n"
            text = body if number == len(signatures) - 1 else ""
            parts.append(f":::{{{kind}}} {each}\n{first}{text}\n:::")
        return "\n".join(parts)

    def prose(self, docstring: str | None, module: str) -> str:
        """A docstring as Markdown: its sections as fields, the names it mentions as links."""
        if not docstring:
            return ""
        text = re.sub(r"(?<=[.)]) (Returns|Raises|Source): ", r"\n\1: ", inspect.cleandoc(docstring))
        pieces = SECTION.split(text)
        parts = [self.escaped(pieces[0].rstrip(), module)]
        for title, body in zip(pieces[1::2], pieces[2::2], strict=True):
            parts.append(self.field(title, body, module))
        return "\n\n".join(part for part in parts if part)

    def field(self, title: str, body: str, module: str) -> str:
        text = inspect.cleandoc(body)
        items = re.split(r"^(?=\*{0,2}\w[\w, .*]*: )", text, flags=re.MULTILINE)
        if title in ("Args", "Attributes", "Raises") and len(items) > 1 and not items[0].strip():
            shown = []
            for item in items[1:]:
                name, said = item.split(": ", 1)
                names = ", ".join(f"`{each.strip()}`" for each in name.split(","))
                shown.append(f"  - {names}: " + " ".join(self.escaped(said.strip(), module).split()))
            return f":{title}:\n" + "\n".join(shown)
        if ">>> " in text:  # a session of the interpreter
            return f":{title}:\n\n  ```pycon\n" + "".join(f"  {line}\n" for line in text.split("\n")) + "  ```"
        return f":{title}: " + " ".join(self.escaped(text, module).split())

    def escaped(self, text: str, module: str) -> str:
        """Prose whose only markup is code between backticks, and indented blocks."""
        lines, block = [], False
        for line in text.split("\n"):
            block = (line.startswith("    ") and (block or not lines or not lines[-1].strip())) or (block and not line.strip())
            lines.append(line if block else "".join(self.span(part, module) for part in re.split(r"(``.+?``|`.+?`)", line)))
        return "\n".join(lines)

    def span(self, part: str, module: str) -> str:
        if not part.startswith("`"):
            return re.sub(r"([*_<\[\]|\\])", r"\\\1", part)
        code = part.strip("`")
        bare = code.removesuffix("()")
        known = self.names.get(f"{module}.{bare}") or self.names.get(bare)
        return f"{{py:obj}}`{code} <{known}>`" if known else f"`{code}`"


def page_name(module: str) -> str:
    """The file name of a module's page."""
    return module.removeprefix("gradlib.").replace(".", "_")


def stub(path: str) -> dict[str, list[str]]:
    """The signatures of each function of a stub, at its top or in its one class with functions."""
    found: dict[str, list[str]] = {}
    tree = ast.parse((ROOT / path).read_text(encoding="utf-8"))
    for node in ast.walk(tree):
        if isinstance(node, ast.FunctionDef):
            arguments = spelled(ast.unparse(node.args))
            result = f" -> {spelled(ast.unparse(node.returns))}" if node.returns else ""
            found.setdefault(node.name, []).append(f"({arguments}){result}")
    return found


def spelled(text: str) -> str:
    for name, shown in SPELLED.items():
        text = re.sub(rf"\b{name}\b", shown, text)
    return RECORDS.sub(r"return_types.\1", PRIVATE.sub("", text))


def signature(value: Any) -> str:
    """The signature of a function or class as it is written, without quotes around annotations."""
    try:
        found = inspect.signature(value)
    except (TypeError, ValueError):
        return ""
    plain = [each.replace(default=Shown(each.default)) if each.default is not each.empty else each for each in found.parameters.values()]
    result = found.empty if inspect.isclass(value) else found.return_annotation
    text = str(found.replace(parameters=plain, return_annotation=result))
    return spelled(re.sub(r"(?<=: |> )'([^']*)'", r"\1", text)).replace("~", "")


class Shown:
    """A default as one can write it: functions and objects by name, not by address."""

    def __init__(self, value: Any) -> None:
        text = repr(value)
        self.text = getattr(value, "__name__", "...") if " at 0x" in text or text.startswith("<") else text

    def __repr__(self) -> str:
        return self.text


def public(module: ModuleType) -> list[str]:
    """The functions and classes that a module offers."""
    offered = getattr(module, "__all__", None) or [name for name in vars(module) if not name.startswith("_")]
    return [
        name
        for name in offered
        if (inspect.isfunction(value := getattr(module, name)) or inspect.isclass(value))
        and value.__module__.startswith("gradlib")
        and name not in ELSEWHERE.get(module.__name__, ())
    ]


def members(of: type) -> list[str]:
    """The public methods and properties that gradlib gives a class."""
    classes = [each for each in of.__mro__ if each.__module__.startswith("gradlib")]
    names = {name for each in classes for name, value in vars(each).items() if not name.startswith("_") and described(value)}
    return sorted(names, key=str.lower)


def described(value: object) -> bool:
    return inspect.isfunction(value) or isinstance(value, (property, classmethod, staticmethod))


def documentation(of: type, name: str) -> str | None:
    """The docstring of a class's member, or of what it overrides."""
    found = (vars(each)[name].__doc__ for each in of.__mro__ if name in vars(each))
    return next((each for each in found if each), None)


def family(name: str, value: Any) -> tuple[str, str]:
    """The module that declares a function of ``gradlib``, and the heading for it."""
    module = value.__module__
    if name.endswith("_") and inspect.isfunction(value):
        return IN_PLACE, "In place"
    if module.startswith("gradlib.ops."):
        text = (importlib.import_module(module).__doc__ or module).split("\n")[0]
        return module, re.split(r"[.:;(]|, (?:one|none|and what|replacing|and finding)|, and the vector", text.replace("``", ""))[0].strip()
    return "gradlib", "Tensors, modes, dtypes, devices"
