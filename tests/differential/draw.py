"""Draws random programs. Each statement is run by torch as it is drawn, so that the next knows what shapes and dtypes there are."""

from __future__ import annotations

import itertools
import math
import random
import re
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

from tests.differential.operations import FAMILIES
from tests.differential.program import Input, Program, functions

DTYPES = ("float64", "float32", "float16", "bfloat16", "complex128", "complex64", "int64", "int32", "uint8", "bool")
WEIGHTS = (40, 22, 3, 2, 8, 3, 8, 3, 2, 5)
SPECIAL = (math.nan, math.inf, -math.inf, -0.0, 0.0, 1e30)
ROUND = (-2.0, -1.0, -0.5, 0.0, 0.5, 1.0, 1.5, 2.0, 3.0)


CHOOSE = ("x", "w", "f", "r", "i", "v", "m", "sq", "b3", "c3")
"""The braces that choose a variable whatever else there is."""


class Unfit(Exception):
    """No variable fits the template that was drawn."""


def values(rng: random.Random, shape: tuple[int, ...], dtype: str, special: bool) -> np.ndarray:
    """Random values that the dtype holds exactly: round numbers (for ties and kinks) or any, sometimes with NaN, inf and -0.0."""
    count = math.prod(shape)
    if dtype == "bool":
        return np.array([rng.random() < 0.5 for _ in range(count)], bool).reshape(shape)
    if dtype in ("int64", "int32", "uint8"):
        low = 0 if dtype == "uint8" else -3
        return np.array([rng.randint(low, 4) for _ in range(count)], dtype).reshape(shape)
    even = rng.random() < 0.35

    def one() -> float:
        if special and rng.random() < 0.2:
            return rng.choice(SPECIAL[:5] if "16" in dtype else SPECIAL)
        return rng.choice(ROUND) if even or "16" in dtype else rng.uniform(-2, 2)

    held = {"float16": "float32", "bfloat16": "float32"}.get(dtype, dtype)
    drawn = np.array([complex(one(), one()) if dtype.startswith("c") else one() for _ in range(count)])
    return drawn.reshape(shape).astype(held)


class Draw:
    """A program as it grows."""

    def __init__(self, seed: int, torch: Any) -> None:
        self.rng = random.Random(seed)
        self.torch = torch
        self.inputs: list[Input] = []
        self.lines: list[str] = []
        self.space: dict[str, Any] = {"lib": torch, "F": torch.nn.functional, **functions(torch)}
        self.names = (f"v{n}" for n in itertools.count())
        self.special = self.rng.random() < 0.15
        self.current: Any = None
        self.dim = 0
        self.place: Any = None

    def program(self) -> Program:
        """A program of two to twelve statements."""
        for _ in range(self.rng.choice((1, 2, 2, 3))):
            dtype = self.rng.choices(DTYPES, WEIGHTS)[0]
            self.input(self.shape(), dtype, requires_grad=dtype[0] in "fcb" and dtype != "bool" and self.rng.random() < 0.8)
        if not any(each.requires_grad for each in self.inputs):
            self.input(self.shape(), "float64", requires_grad=True)
        wanted, tries = self.rng.choice((2, 3, 4, 5, 6, 8, 12)), 0
        while len(self.lines) < wanted and tries < 60:
            tries += 1
            try:
                if not self.statement():
                    break
            except Unfit:
                continue
        return Program(tuple(self.inputs), tuple(self.lines))

    def shape(self) -> tuple[int, ...]:
        ndim = self.rng.choices((0, 1, 2, 3), (1.5, 3, 5, 2))[0]
        return tuple(self.rng.choices((0, 1, 2, 3), (0.25, 1.5, 3, 4))[0] for _ in range(ndim))

    def input(self, shape: tuple[int, ...], dtype: str, requires_grad: bool = False, held: np.ndarray | None = None) -> str:
        """A new input of the program; returns its name."""
        name, dtype = f"a{len(self.inputs)}", {"complex32": "complex64"}.get(dtype, dtype)  # which NumPy lacks
        made = Input(name, values(self.rng, shape, dtype, self.special) if held is None else held, dtype, requires_grad)
        self.inputs.append(made)
        self.space[name] = made.make(self.torch)
        return name

    def statement(self) -> bool:
        """Draw one statement and run it; False where it raised and so ends the program."""
        family = self.rng.choices([f for _, f in FAMILIES], [w for w, _ in FAMILIES])[0]
        template, results = self.rng.choice(family)
        before = list(self.inputs)
        self.current = None
        try:
            text = self._filled(template)
        except (Unfit, IndexError, RuntimeError):  # of a dimension drawn out of range on purpose, of torch for a view that a write spoiled
            self.inputs = before
            raise Unfit from None
        line = self._assigned(text, results)
        if self.rng.random() < 0.05:
            mode = self.rng.choice(("no_grad", "no_grad", "enable_grad", "inference_mode"))
            line = f"with lib.{mode}():\n    " + line.replace("\n", "\n    ")
        try:
            with warnings.catch_warnings():
                warnings.simplefilter("ignore")
                exec(line, self.space)
        except Exception:
            if self.rng.random() < 0.2:  # what torch refuses must be refused
                self.lines.append(line)
                return False
            self.inputs = before
            raise Unfit from None
        if any(isinstance(v, self.torch.Tensor) and v.numel() > 400 for v in self.space.values()):
            return False
        self.lines.append(line)
        return True

    def _filled(self, template: str) -> str:
        """The template with its braces filled: first the tensor that the others go by, then from left to right."""
        chosen = next(name for name in re.findall(r"\{(\w+)\}", template) if name in CHOOSE)
        template = template.replace(f"{{{chosen}}}", getattr(self, f"_{chosen}")(), 1)
        return re.sub(r"\{(\w+)\}", lambda match: str(getattr(self, f"_{match[1]}")()), template)

    def _assigned(self, text: str, results: int | str) -> str:
        if results == 0:
            return text
        if results == 1:
            return f"{next(self.names)} = {text}"
        if results == "ends":
            several, first, last = (next(self.names) for _ in range(3))
            return f"{several} = {text}\n{first} = {several}[0]\n{last} = {several}[-1]"
        return f"{', '.join(next(self.names) for _ in range(int(results)))} = {text}"

    # ---- what stands in a template's braces ----

    def _any(self, fits: Callable[[Any], bool]) -> str:
        found = [name for name, v in self.space.items() if isinstance(v, self.torch.Tensor) and name[0] in "av" and fits(v)]
        if not found:
            raise Unfit
        late = found[-3:] if self.rng.random() < 0.6 else found
        name = self.rng.choice(late)
        if self.current is None:
            self.current = self.space[name]
        return name

    def _x(self) -> str:
        return self._any(lambda v: True)

    def _w(self) -> str:
        """What is written: seldom a leaf, which must be refused."""
        if self.rng.random() < 0.93:
            return self._any(lambda v: not (v.is_leaf and v.requires_grad))
        return self._x()

    def _f(self) -> str:
        return self._any(lambda v: v.is_floating_point() or v.is_complex())

    def _r(self) -> str:
        return self._any(lambda v: v.is_floating_point())

    def _i(self) -> str:
        return self._any(lambda v: not v.is_floating_point() and not v.is_complex())

    def _v(self) -> str:
        return self._any(lambda v: v.ndim == 1)

    def _m(self) -> str:
        return self._any(lambda v: v.ndim == 2 and (v.is_floating_point() or v.is_complex()))

    def _sq(self) -> str:
        return self._any(lambda v: v.ndim >= 2 and v.shape[-1] == v.shape[-2] and (v.is_floating_point() or v.is_complex()))

    def _b3(self) -> str:
        return self._any(lambda v: v.ndim == 3)

    def _c3(self) -> str:
        return self._any(lambda v: v.ndim >= 1 and v.shape[-1] == 3)

    def _leaf(self) -> str:
        return self._any(lambda v: v.is_leaf and v.requires_grad)

    def _dtype_of(self, near: Any) -> str:
        if self.rng.random() < 0.85:
            return str(near.dtype).removeprefix("torch.")
        return self.rng.choices(DTYPES, WEIGHTS)[0]

    def _like(self) -> str:
        shape, dtype = self.current.shape, self.current.dtype
        if self.rng.random() < 0.5:
            try:
                return self._any(lambda v: v.shape == shape and v.dtype == dtype)
            except Unfit:
                pass
        return self.input(tuple(shape), str(dtype).removeprefix("torch."))

    def _v2(self) -> str:
        return self._like()

    def _y(self) -> str:
        """Broadcasts with the first: often a variable, else a new input with some dimensions 1 or left out."""
        shape = tuple(self.current.shape)
        if self.rng.random() < 0.5:
            try:
                return self._any(lambda v: _broadcasts(tuple(v.shape), shape))
            except Unfit:
                pass
        cut = shape[self.rng.randint(0, len(shape)) :] if self.rng.random() < 0.3 else shape
        return self.input(tuple(1 if self.rng.random() < 0.2 else n for n in cut), self._dtype_of(self.current))

    def _s(self) -> str:
        return repr(self.rng.choice((0.0, 1.0, 2.0, -1.5, 0.3, 3.0, -1.0, 2, 0, 1, -1)))

    def _k(self) -> int:
        return self.rng.choice((0, 1, 1, 2, -1))

    def _keep(self) -> bool:
        return self.rng.random() < 0.4

    def _dim(self) -> int:
        ndim = self.current.ndim
        self.dim = self.rng.randint(-ndim, ndim - 1) if ndim else self.rng.choice((0, -1))
        if self.rng.random() < 0.02:
            return self.rng.choice((ndim, -ndim - 1))
        return self.dim

    def _dims(self) -> tuple[int, ...]:
        ndim = self.current.ndim
        return tuple(self.rng.sample(range(ndim), self.rng.randint(0, ndim)))

    def _perm(self) -> tuple[int, ...]:
        return tuple(self.rng.sample(range(self.current.ndim), self.current.ndim))

    def _shape(self) -> tuple[int, ...]:
        count = self.current.numel()
        options = [(count,), (1, count), (count, 1), (-1,)]
        options += [(n, count // n) for n in (2, 3) if count and count % n == 0]
        return self.rng.choice(options)

    def _expand(self) -> tuple[int, ...]:
        grown = [self.rng.choice((2, 3)) if n == 1 else n for n in self.current.shape]
        return tuple(([2] if self.rng.random() < 0.4 else []) + grown) or (2,)

    def _dtype(self) -> str:
        return f"lib.{self.rng.choices(DTYPES, WEIGHTS)[0]}"

    def _mask(self) -> str:
        return self.input(tuple(1 if self.rng.random() < 0.1 else n for n in self.current.shape), "bool")

    def _size(self) -> int:
        return self.current.shape[self.dim] if self.current.ndim else 1

    def _index(self, shape: tuple[int, ...], size: int, distinct: bool = False) -> str:
        if size == 0:
            raise Unfit
        count = math.prod(shape)
        drawn = self.rng.sample(range(size), count) if distinct else [self.rng.randrange(size) for _ in range(count)]
        self.place = shape
        return self.input(shape, "int64", held=np.array(drawn, np.int64).reshape(shape))

    def _idx(self) -> str:
        return self._index((self.rng.choice((1, 2, 3)),), self._size())

    def _uidx(self) -> str:
        return self._index((self.rng.randint(1, max(1, min(2, self._size()))),), self._size(), distinct=True)

    def _gidx(self) -> str:
        shape = [self.rng.randint(min(1, n), n) for n in self.current.shape]
        if shape:
            shape[self.dim] = self.rng.choice((1, 2, 3))
        return self._index(tuple(shape), self._size())

    def _flat(self) -> str:
        return self._index((self.rng.choice((1, 2, 3)),), self.current.numel())

    def _rows(self) -> str:
        if self.current.ndim == 0:
            raise Unfit
        return self._index((self.rng.choice((1, 2, 3)),), self.current.shape[0])

    def _src(self) -> str:
        return self.input(self.place, self._dtype_of(self.current))

    def _isrc(self) -> str:
        shape = list(self.current.shape) or [1]
        shape[self.dim] = self.place[0]
        return self.input(tuple(shape), self._dtype_of(self.current))

    def _s0(self) -> str:
        return self.input((), str(self.current.dtype).removeprefix("torch."))

    def _labels(self) -> str:
        rows, classes = self.current.shape
        return self._index((rows,), classes)

    def _weight(self) -> str:
        if self.current.ndim == 0:
            raise Unfit
        return self.input((2, self.current.shape[-1]), str(self.current.dtype).removeprefix("torch."))

    def _rows4(self) -> str:
        return self.input((4, 2), "float64", requires_grad=True)

    def _inner(self) -> str:
        if self.current.ndim == 0:
            raise Unfit
        front = self.current.shape[:1] if self.current.ndim == 3 else ()
        return self.input((*front, self.current.shape[-1], self.rng.choice((1, 2, 3))), str(self.current.dtype).removeprefix("torch."))

    def _inner1(self) -> str:
        return self.input((self.current.shape[-1],), str(self.current.dtype).removeprefix("torch."))

    def _n(self) -> int:
        return self.current.shape[-1]

    def _key(self) -> str:
        parts: list[str] = []
        left = list(self.current.shape)
        while left and self.rng.random() < 0.75:
            size = left.pop(0)
            parts.append(self._key_part(size, left))
        if self.rng.random() < 0.15:
            parts.insert(self.rng.randint(0, len(parts)), "None")
        if self.rng.random() < 0.15:
            parts.append("...")
        self.place = ", ".join(parts) or "..."
        return str(self.place)

    def _key_part(self, size: int, left: list[int]) -> str:
        kind = self.rng.choice(("slice", "slice", "int", "all", "list", "tensor", "mask", "step", "bool"))
        if kind == "int" and size:
            return str(self.rng.randint(-size, size - 1))
        if kind == "slice":
            return self.rng.choice(("1:", ":1", ":-1", "0:2", ":"))
        if kind == "step":
            return "::2"
        if kind == "list" and size:
            return str([self.rng.randrange(size) for _ in range(2)])
        if kind == "tensor" and size:
            return self._index(self.rng.choice(((2,), (1,), (), (2, 2))), size)
        if kind == "mask":
            return self.input((size,), "bool")
        if kind == "bool" and self.rng.random() < 0.2:
            left.insert(0, size)
            return self.rng.choice(("True", "False"))
        return ":"

    def _val(self) -> str:
        """A value for the place that the key names."""
        space = {**self.space, "self_": self.current}
        try:
            region = eval(f"self_.detach()[{self.place}]", space)
        except Exception:
            raise Unfit from None
        shape = tuple(1 if self.rng.random() < 0.2 else n for n in region.shape)
        return self.input(shape[self.rng.randint(0, len(shape)) :] if self.rng.random() < 0.2 else shape, self._dtype_of(self.current))


def _broadcasts(a: tuple[int, ...], b: tuple[int, ...]) -> bool:
    return all(n == m or 1 in (n, m) for n, m in zip(reversed(a), reversed(b), strict=False))
