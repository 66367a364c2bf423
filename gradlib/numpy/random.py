"""numpy.random for Tensors and arrays; see ``gradlib.numpy``."""

from __future__ import annotations

from typing import Any

from numpy import random as _module

from gradlib.numpy.namespace import served as _served


def __getattr__(name: str) -> Any:
    """A name of numpy.random, made ready at its first use."""
    if name == "__all__":
        return __dir__()
    found = _served(_module, name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return [name for name in dir(_module) if not name.startswith("_")]
