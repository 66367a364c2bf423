"""Misspelt names: an AttributeError that ends with the nearest names, which are searched for only when its text is read."""

from __future__ import annotations

import sys
from functools import partial
from types import ModuleType
from typing import Any


class NoSuchName(AttributeError):
    """An object or module has no attribute of that name.

    Its text names the nearest that there are. It is made when it is read, so that ``hasattr`` costs no search.
    """

    def __init__(self, said: str, name: str, owner: Any) -> None:
        super().__init__(said, name=None, obj=owner)  # with a name, Python's own traceback would suggest one too
        self.said = said
        self.wanted = name

    def __str__(self) -> str:
        from difflib import get_close_matches

        known = getattr(self.obj, "__all__", None) or [name for name in dir(self.obj) if not name.startswith("_")]
        near = [] if self.wanted in _ABSENT else get_close_matches(self.wanted, known, n=2, cutoff=0.65)
        if near:
            return f"{self.said}. Did you mean: {' or '.join(map(repr, near))}?"
        if getattr(self.obj, "__name__", "").removeprefix("gradlib").lstrip(".") in _TORCHS:
            return f"{self.said}; gradlib/docs/from_torch.md says what of torch is absent, and what to use instead"
        return self.said

    def __reduce__(self) -> Any:
        return AttributeError, (str(self),)  # a pickled error need not find the module again


_TORCHS = frozenset({"", "nn", "nn.functional", "utils", "optim", "func", "cuda", "autograd"})
"""The packages whose names are torch's."""
_ABSENT = frozenset({"amp", "compile", "export", "jit"})
"""Names of torch's that are no misspelling of ours: `clamp` is no advice to who wants `amp`."""


def suggest_names(package: str) -> None:
    """Let a package, and what is loaded of it, answer a name that it lacks with the nearest; what is found costs no more than before."""
    for name, module in list(sys.modules.items()):
        if (name == package or name.startswith(f"{package}.")) and isinstance(module, ModuleType) and "__getattr__" not in vars(module):
            setattr(module, "__getattr__", partial(missing, module))  # noqa: B010  (PEP 562; an assignment is an error to type checkers)


def missing(module: ModuleType, name: str) -> Any:
    """What a module answers to a name that it lacks: an error; and a package to ``__all__``, by which ``help`` lists what it offers."""
    if name == "__all__" and hasattr(module, "__path__"):
        return sorted(each for each in vars(module) if not each.startswith("_") and each != "annotations")
    raise no_such_name(module, name)


def no_such_name(module: ModuleType, name: str) -> NoSuchName:
    """The error for a name that a module lacks."""
    return NoSuchName(f"module {module.__name__!r} has no attribute {name!r}", name, module)


def missing_attribute(self: Any, name: str) -> Any:
    """The same as a class has it: what ``__getattr__`` answers where the usual look-up failed."""
    if hasattr(type(self), name):  # a property raised the error: ask it again, for its own text
        return object.__getattribute__(self, name)
    raise NoSuchName(f"{type(self).__name__!r} object has no attribute {name!r}", name, self)
