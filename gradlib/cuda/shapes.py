"""Symbolic shapes: sizes are read from an array of shape ``"*B, H, D"``, and from them follows the shape ``"*B, H - 1, D"``."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterable, Mapping
from functools import cached_property
from typing import Any

_NODES = (
    ast.Expression, ast.BinOp, ast.Add, ast.Sub, ast.Mult, ast.FloorDiv, ast.Mod, ast.UnaryOp, ast.USub, ast.UAdd, ast.Constant, ast.Name,
    ast.Load, ast.Call,
)  # fmt: skip
_FUNCTIONS = {"min": min, "max": max, "cdiv": lambda a, b: -(-a // b)}

Sizes = dict[str, int]
"""Sizes by name. For a starred name: the number of elements under NAME, the rank under ``*NAME``, and each size under ``*NAME:i``."""


class Formula:
    """An integer formula of sizes: names, numbers, ``+ - * // %``, ``min``, ``max`` and ``cdiv``, which divides and rounds up.

    Raises:
        ValueError: anything else.
    """

    def __init__(self, text: str) -> None:
        self.text = text.strip()
        try:
            tree = ast.parse(self.text, mode="eval")
        except SyntaxError:
            raise ValueError(f"{self.text!r} is no formula of sizes, such as 'B * H' or 'cdiv(n, 4)'") from None
        for node in ast.walk(tree):
            if not isinstance(node, _NODES) or (isinstance(node, ast.Constant) and type(node.value) is not int):
                raise ValueError(f"{self.text!r} is no formula of sizes, such as 'B * H' or 'cdiv(n, 4)'; // divides, rounded down")
        self.names = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)} - set(_FUNCTIONS)
        self._code = compile(tree, f"<{self.text}>", "eval")

    def __call__(self, known: Mapping[str, int]) -> int:
        """Its value for these sizes. Raises: ValueError where it divides by zero."""
        try:
            return int(eval(self._code, {"__builtins__": {}, **_FUNCTIONS}, dict(known)))
        except ZeroDivisionError:
            given = ", ".join(f"{name} = {known[name]}" for name in sorted(self.names))
            raise ValueError(f"{self.text} divides by zero for {given}") from None


class Shape:
    """A symbolic shape: sizes separated by commas. One may be starred and stands for any number of dimensions.

    Raises:
        ValueError: two starred names, or a size that is no formula.
    """

    def __init__(self, text: str) -> None:
        self.text = text
        self.parts = [part.strip() for part in text.split(",") if part.strip()]
        starred = [i for i, part in enumerate(self.parts) if part.startswith("*")]
        if len(starred) > 1 or any(not self.parts[i][1:].isidentifier() for i in starred):
            raise ValueError(f"{text!r} is no shape; one of its sizes may be starred, such as '*B' in '*B, H, D'")
        self.star = starred[0] if starred else None
        self.formulas = [None if i == self.star else Formula(part) for i, part in enumerate(self.parts)]

    @cached_property
    def told(self) -> set[str]:
        """The names of the sizes that an array of this shape tells: those that stand alone, not in a formula."""
        return {part.removeprefix("*") for part in self.parts if part.removeprefix("*").isidentifier()}

    @cached_property
    def names(self) -> set[str]:
        """The names of sizes in it."""
        return {part[1:] for part in self.parts if part.startswith("*")}.union(*(f.names for f in self.formulas if f is not None))

    def read(self, where: str, shape: tuple[int, ...], known: Sizes) -> None:
        """Read sizes from an array's shape into ``known``.

        Raises:
            ValueError: the shape does not fit; the text begins with ``where``.
        """
        for part, formula, size in self._pairs(where, shape):
            if formula is None:
                self._agree(where, shape, known, part[1:], math.prod(size))
                self._agree(where, shape, known, part, len(size))
                for i, each in enumerate(size):
                    self._agree(where, shape, known, f"{part}:{i}", each)
            elif formula.text.isidentifier():
                self._agree(where, shape, known, formula.text, size)
            elif formula.names <= set(known):
                self._equal(where, shape, known, formula, size)

    def verify(self, where: str, shape: tuple[int, ...], known: Mapping[str, Any]) -> None:
        """Compare an array's shape with the formulas, once all sizes are known.

        Raises:
            ValueError: a size is not what its formula says; the text begins with ``where``.
        """
        for _, formula, size in self._pairs(where, shape):
            if formula is not None:
                self._equal(where, shape, known, formula, size)

    def _equal(self, where: str, shape: tuple[int, ...], known: Mapping[str, Any], formula: Formula, size: int) -> None:
        if formula(known) != size:
            raise ValueError(f"{where} has shape ({self.text}), got {shape}, where {formula.text} is {formula(known)}")

    def _pairs(self, where: str, shape: tuple[int, ...]) -> Iterable[tuple[str, Formula | None, Any]]:
        """Each part, its formula, and what an array's shape has there: a size, for the starred part a tuple of them."""
        extra = len(shape) - len(self.parts) + 1
        if (self.star is None and extra != 1) or extra < 0:
            raise ValueError(f"{where} has shape ({self.text}), got {shape}")
        sizes: list[Any] = list(shape)
        if self.star is not None:
            inner = tuple(sizes[self.star : self.star + extra])
            sizes[self.star : self.star + extra] = [inner]
        return zip(self.parts, self.formulas, sizes, strict=True)

    def joined(self, shape: tuple[int, ...]) -> tuple[int, ...]:
        """An array's shape, which fits, with the dimensions under the starred name as one."""
        if self.star is None:
            return shape
        end = self.star + len(shape) - len(self.parts) + 1
        return (*shape[: self.star], math.prod(shape[self.star : end]), *shape[end:])

    def _agree(self, where: str, shape: tuple[int, ...], known: Sizes, name: str, size: int) -> None:
        if known.setdefault(name, size) != size:
            what = re.sub(r"^(\*\w+)(?::(\d+))?$", lambda m: f"size {m[2]} of {m[1]}" if m[2] else f"the rank of {m[1]}", name)
            raise ValueError(f"{where} has shape ({self.text}), got {shape}, but {what} is {known[name]} in what came before")

    def made(self, where: str, known: Mapping[str, Any]) -> tuple[int, ...]:
        """The shape for these sizes. Raises: ValueError for a negative size; the text begins with ``where``."""
        sizes: list[int] = []
        for part, formula in zip(self.parts, self.formulas, strict=True):
            sizes += [known[f"{part}:{i}"] for i in range(known[part])] if formula is None else [formula(known)]
        if min(sizes, default=0) < 0:
            raise ValueError(f"{where} has shape ({self.text}), which is {tuple(sizes)} here; the arguments are too small")
        return tuple(sizes)
