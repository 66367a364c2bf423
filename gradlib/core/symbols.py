"""Derivative rules that are nothing but pointwise steps, written as one kernel: a rule is run once on symbols, which note its steps.

``lambda g, out: g * (1 - out * out)`` takes three launches on CuPy arrays; run on symbols it tells these three steps, of which a kernel is
written that rounds after each of them, so the bits are the same. What a rule asks of arrays beside that, their shapes or a dimension to sum
over, symbols do not tell: such a rule stays as it is. Numbers and other arguments are constants of the kernel.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

from gradlib.backend.array import Array, cupy
from gradlib.backend.formulas import FORMULAS, function_for, typed
from gradlib.backend.kernel_text import CTYPES, HEADERS, WHOLE, held, written
from gradlib.backend.launching import Kernel, compiled, kernel_in
from gradlib.backend.pointwise_text import COMPARE, ONE, OWN, TWO
from gradlib.core.declaration import Op

MOST = 8
"""The most kernels of a rule: it may be called with another number each time."""

_KINDS = (int, float, bool, str, type(None), tuple)
"""The types of arguments whose values are part of a kernel's text."""


class Untold(Exception):
    """A rule asks a symbol for something that only an array knows."""


class Trace:
    """The steps of a rule on arrays of a dtype."""

    def __init__(self, dtype: Any) -> None:
        self.dtype = dtype
        self.char = dtype.char
        self.steps: list[str] = []
        self.used: set[str] = set()

    def step(self, value: str, operands: dict[str, Any], mask: bool = False, exact: bool = False) -> Symbol:
        """Note a step. ``operands``: symbols and numbers by their names in its value; ``exact``: numbers are not rounded to a half type."""
        kinds, given = [], []
        for name, each in operands.items():
            if type(each) is Symbol:
                kinds.append(f"{'bool' if each.mask else 'T'} {name}")
                given.append(each.name)
                self.used.add(each.name)
                if each.mask and self.char == "E" and name != "m":  # of which, with a mask, CuPy makes float32
                    raise Untold("bfloat16 beside a mask")
            else:
                kinds.append(f"T {name}")
                given.append(self.number(each, exact))
        made = "bool" if mask else "T"
        call = f"[]({', '.join(kinds)}) -> {made} {{ return {value}; }}({', '.join(given)})"
        rounded = call if mask or self.char in WHOLE else f"T(E({call}))"
        name = f"s{len(self.steps)}"
        self.steps.append(f"const {made} {name} = {rounded};")
        return Symbol(self, name, mask)

    def source(self, result: Symbol, operands: dict[str, str]) -> str:
        """The text of the kernel ``rule`` that gives a result; ``operands``: as `gradlib.backend.kernel_text.written` takes them."""
        text = typed(f"[&] {{ {' '.join(self.steps)} return {result.name}; }}()", self.char)
        made = "bool" if result.mask else CTYPES[self.char]
        return HEADERS.get(self.char, "") + written("rule", self.char, operands, made, text)

    def number(self, value: Any, exact: bool) -> str:
        """A Python number as the kernel of a single step takes it."""
        known = held(value, self.dtype) if type(value) in (int, float) else None
        if known is None or known != known or abs(known) >= 3e38:
            raise Untold(f"the number {value!r}")
        return f"T({float(value if exact else known)!r})"


class Symbol:
    """A stand-in for an array: it knows its dtype and records the operations on it.

    Attributes:
        trace: where. name: in the kernel. mask: whether its elements are truths.
    """

    __slots__ = ("mask", "name", "trace")
    __array_ufunc__ = None  # NumPy's numbers leave their operators to it

    def __init__(self, trace: Trace, name: str, mask: bool) -> None:
        self.trace, self.name, self.mask = trace, name, mask

    @property  # type: ignore[misc]
    def __class__(self) -> Any:
        """That of CuPy's arrays, for which a rule may ask by ``isinstance``."""
        return cupy().ndarray

    @property
    def dtype(self) -> Any:
        return cupy().dtype("?") if self.mask else self.trace.dtype

    def __getattr__(self, name: str) -> Any:
        raise Untold(name)

    def __bool__(self) -> bool:
        raise Untold("truth")

    def __neg__(self) -> Symbol:
        return self._one("negative")

    def __abs__(self) -> Symbol:
        return self._one("absolute")

    def __invert__(self) -> Symbol:
        return self.trace.step("!m", {"m": self}, mask=True) if self.mask else _unknown("~")

    def __and__(self, other: Any) -> Symbol:
        return self._masks("m && k", other)

    def __or__(self, other: Any) -> Symbol:
        return self._masks("m || k", other)

    def _masks(self, value: str, other: Any) -> Symbol:
        if not self.mask or type(other) is not Symbol or not other.mask:
            raise Untold(value)
        return self.trace.step(value, {"m": self, "k": other}, mask=True)

    def _one(self, name: str) -> Symbol:
        return _called(self.trace, ONE[name], (self,)) if not self.mask else _unknown(name)


def _unknown(what: str) -> Any:
    raise Untold(what)


def _operator(name: str, turned: bool = False) -> Callable[[Any, Any], Any]:
    def run(self: Symbol, other: Any) -> Any:
        x, y = (other, self) if turned else (self, other)
        if self.mask and (type(other) is not Symbol or other.mask):
            raise Untold(f"{name} of masks")
        return self.trace.step(TWO[name], {"x": x, "y": y}, mask=name in COMPARE)

    return run


def _in_place(self: Symbol, other: Any) -> Any:
    raise Untold("what else is written")


_OPERATORS = {"add": "add", "sub": "subtract", "mul": "multiply", "truediv": "divide"}
for _python, _name in _OPERATORS.items():
    setattr(Symbol, f"__{_python}__", _operator(_name))
    setattr(Symbol, f"__r{_python}__", _operator(_name, turned=True))
    setattr(Symbol, f"__i{_python}__", _in_place)
_COMPARISONS = {"lt": "less", "le": "less_equal", "gt": "greater", "ge": "greater_equal", "eq": "equal", "ne": "not_equal"}
for _python, _name in _COMPARISONS.items():
    setattr(Symbol, f"__{_python}__", _operator(_name))


def _called(trace: Trace, value: str, args: tuple[Any, ...], names: str = "x y", mask: bool = False, exact: bool = False) -> Symbol:
    operands = names.split()[: len(args)]
    if any(type(each) is Symbol and each.mask for each in args):
        raise Untold("a mask")
    return trace.step(value, dict(zip(operands, args, strict=True)), mask, exact)


def noted(op: Op, args: tuple[Any, ...]) -> Symbol:
    """A step that is an operation. Raises: Untold where that has no kernel of its own whose text is known."""
    trace = next(each for each in args if type(each) is Symbol).trace
    kernel, name = op.kernels.get("out"), op.device if isinstance(op.device, str) else getattr(op, "ufunc", None)
    if op.name == "where":
        mask, x, y = args
        if type(mask) is not Symbol or not mask.mask or any(type(each) is Symbol and each.mask for each in (x, y)):
            raise Untold("where")
        return trace.step("m ? x : y", {"m": mask, "x": x, "y": y})
    if isinstance(kernel, str):
        names, value = FORMULAS[kernel]
        return _called(trace, value, args, names, exact=True)
    if len(args) == 1 and name in {**ONE, **OWN}:
        return _called(trace, {**ONE, **OWN}[name], args, mask=name in COMPARE)
    if len(args) == 2 and name in TWO:
        return _called(trace, TWO[name], args, mask=name in COMPARE)
    raise Untold(op.name)


def traced(rule: Callable[..., Any], args: tuple[Any, ...]) -> Callable[..., Array | None] | None:
    """What computes a rule in one launch for arguments like these; None for others than floats of one dtype.

    Raises: Untold where the rule asks for what symbols do not know, or is no more than one step.
    """
    ndarray = cupy().ndarray
    dtypes = {each.dtype for each in args if type(each) is ndarray and each.dtype.char != "?"}
    if len(dtypes) != 1 or next(iter(dtypes)).char not in CTYPES:
        return None
    trace = Trace(dtypes.pop())
    given = [Symbol(trace, f"{'m' if each.dtype.char == '?' else 'a'}{i}", each.dtype.char == "?") if type(each) is ndarray else each
             for i, each in enumerate(args)]  # fmt: skip
    try:
        made = rule(*given)
    except Exception as error:  # it may be anything that comes of a symbol in an array's place
        raise Untold(str(error)) from error
    if type(made) is not Symbol or len(trace.steps) < 2 or not made.name.startswith("s"):
        raise Untold("one step")
    places = [i for i, each in enumerate(given) if type(each) is Symbol and each.name in trace.used]
    names = [given[i].name for i in places]

    @functools.cache
    def kernel(_: str, kinds: str) -> Kernel:
        return kernel_in(compiled(trace.source(made, dict(zip(names, kinds, strict=True))), "--fmad=false"), "rule")

    launch = function_for(kernel, made.dtype, masks=True)
    return lambda *args: launch(*[args[i] for i in places])


def in_one_launch(rule: Callable[..., Any], formula: Callable[..., Any]) -> Callable[..., Any]:
    """A rule on CuPy arrays, in one launch where it is pointwise steps.

    Args:
        rule: as declared. formula: the same with each step launched alone, which computes what no kernel serves.
    """
    ndarray, known, is_told = cupy().ndarray, dict[Any, Any](), True

    def run(*args: Any) -> Any:
        nonlocal is_told
        if not is_told:
            return formula(*args)
        key: list[Any] = []
        for each in args:
            if type(each) is ndarray:
                key.append(each.dtype.char)
            elif type(each) in _KINDS:
                key += (type(each), each or repr(each))  # 0.0 equals -0.0
            else:
                return formula(*args)
        place = tuple(key)
        try:
            launched = known[place]
        except KeyError:
            try:
                launched = known[place] = traced(rule, args) if len(known) < MOST else None
            except Untold:
                launched, is_told = None, False
        except TypeError:  # what cannot be looked up
            launched = None
        made = None if launched is None else launched(*args)
        return formula(*args) if made is None else made

    run.__wrapped__ = formula  # type: ignore[attr-defined]
    return run
