"""The error for input that cannot be used, and how its text shows what was received."""

from __future__ import annotations

import reprlib
from collections.abc import Iterable
from itertools import islice
from typing import Any

_NAMES = 20
_LONGEST = 80


class InputError(ValueError):
    """Input that cannot be used: the text says which rule it breaks, what was found, and what to do."""


def shown(value: Any) -> str:
    """A value as it stands in an error text: its beginning, however long or deep it is (YAML's aliases make small files huge)."""
    short = reprlib.Repr()
    short.maxlevel = 2
    short.maxstring = short.maxother = short.maxlong = _LONGEST
    return short.repr(value)


def listed(names: Iterable[str]) -> str:
    """Names as they stand in an error text: the first of them, and whether there are more."""
    first = [name if len(name) <= _LONGEST else f"{name[:_LONGEST]}..." for name in islice(names, _NAMES + 1)]
    return ", ".join(first[:_NAMES]) + (", ..." if len(first) > _NAMES else "")
