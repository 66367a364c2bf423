"""The declaration of a user's kernel (`KernelSpec`) and the plan of one call of it (`Plan`): sizes, types, outputs and launch shape."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any

import numpy as np

from gradlib.cuda.shapes import Formula, Shape, Sizes
from gradlib.cuda.signature import Declaration, Options, ctype_of, declaration, dtype_of, parameters, type_named
from gradlib.cuda.source import Source

Amount = int | str | tuple[int | str, ...]
"""A number of blocks, threads or bytes, or a formula that computes it from sizes; or a tuple of up to three of them."""


@dataclass(frozen=True, eq=False)
class CallInfo:
    """The facts of one call besides its tensors.

    Attributes:
        numbers: the scalar arguments, by name.
        sizes, types: sizes, and C types of the template, that are known already; an adjoint takes them from the forward call.
        outputs: shapes and dtypes of outputs that are known already.
    """

    numbers: Mapping[str, Any]
    sizes: Mapping[str, int] = field(default_factory=dict)
    types: Mapping[str, str] = field(default_factory=dict)
    outputs: Mapping[str, tuple[tuple[int, ...], Any]] = field(default_factory=dict)

    @cached_property
    def key(self) -> tuple[Any, ...]:
        """All of it but the numbers as a tuple, to find a plan by."""
        return tuple(tuple(each.items()) for each in (self.sizes, self.types, self.outputs))


@dataclass(frozen=True)
class Plan:
    """All that one call's shapes and dtypes determine.

    Attributes:
        sizes, types: the values of named sizes, and the C types of the template's type parameters.
        outputs: shape and dtype of each output, in the kernel's order.
        options: the template's arguments.
        grid, block, shared: the launch configuration.
    """

    sizes: Sizes
    types: dict[str, str]
    outputs: list[tuple[tuple[int, ...], np.dtype[Any]]]
    options: Options
    grid: tuple[int, ...]
    block: tuple[int, ...]
    shared: int


@dataclass
class KernelSpec:
    """A kernel's declaration and how it is launched.

    Attributes:
        source: the CUDA source; kernel: the kernel's name in it; name: its name in errors and profiles.
        shapes: what the user declared, by the parameter's name: an array's shape, and the formula that gives a number.
        threads, grid, block, shared: as the user gives them, threads or grid.
        zeroed: outputs that are cleared before the launch; zeroed_later: those of the adjoint.
        updated: outputs that begin as a copy of an input, and its name; an input that the kernel has not stands in the output's place.
        shapes_later: what the user declared of parameters that only the adjoint has.
        knows_dimensions: whether the kernel is one of cupyx.jit, which is given arrays and not addresses.
        known: names of sizes that a call is given (`CallInfo.sizes`), and no input's shape tells.
    """

    source: Source
    kernel: str
    name: str
    shapes: Mapping[str, Shape]
    threads: Amount | None
    grid: Amount | None
    block: Amount
    shared: Amount
    zeroed: frozenset[str]
    zeroed_later: frozenset[str] = frozenset()
    updated: Mapping[str, str] = field(default_factory=dict)
    shapes_later: Mapping[str, Shape] = field(default_factory=dict)
    known: frozenset[str] = frozenset()
    declared: Declaration = field(init=False)

    def __post_init__(self) -> None:
        declared = self.declared = declaration(self.source, self.kernel)
        self.kinds = {p.name: p for p in declared.declared}
        self.outputs = tuple(p.name for p in declared.declared if p.pointer and p.written)
        self.knows_dimensions = type(self.source.made).__module__.startswith("cupyx.jit")
        self._check_updated()
        before = {result: name for result, name in self.updated.items() if name not in self.kinds}
        self.kinds |= {name: replace(self.kinds[result], name=name, written=False) for result, name in before.items()}
        self.shapes = {**{name: self.shapes[result] for result, name in before.items() if result in self.shapes}, **self.shapes}
        given = [self.kinds[before.get(p.name, p.name)] for p in declared.declared]
        self.inputs = tuple(p.name for p in given if p.pointer and not p.written)
        sizes = set(self.known).union(*(self.shapes[name].told for name in self.inputs if name in self.shapes))
        numbers = [p.name for p in declared.declared if not p.pointer]
        self.derived = {name: self._formula(name) for name in numbers if name in self.shapes}
        self.numbers = tuple(name for name in numbers if name not in sizes and name not in self.derived)
        self.arguments = tuple(p.name for p in given if p.name in self.inputs or p.name in self.numbers)
        self._generic = {name for kind, name in declared.template if kind == "typename"}
        self._plans: dict[Any, Plan] = {}
        self._launch = {what: _formulas(getattr(self, what)) for what in ("threads", "grid", "block", "shared")}
        self._check(sizes)
        named = {name for _, name in declared.template}.union(*(shape.names for shape in self.shapes.values()))
        named = named.union(*(formula.names for formulas in self._launch.values() for formula in formulas))
        self._counted = tuple(name for name in self.numbers if name in named)  # the numbers on which a plan depends

    def _formula(self, name: str) -> Formula:
        """The formula that gives a number."""
        formulas = self.shapes[name].formulas
        if len(formulas) != 1 or formulas[0] is None:
            given = self.shapes[name].text
            raise ValueError(f"{self.name}: {name} is a number, so shapes has one formula for it, such as 'B * H'; got {given!r}")
        return formulas[0]

    def _check_updated(self) -> None:
        for result, name in self.updated.items():
            if result not in self.outputs or result in self.zeroed:
                raise ValueError(f"{self.name}: updated names {result!r}, which is no output that keeps what it begins with")
            kind = self.kinds.get(name)
            if kind is not None and (kind.written or not kind.pointer or kind.ctype != self.kinds[result].ctype):
                advice = "give an input or a new name"
                raise ValueError(f"{self.name}: {result} begins as a copy of {name}, which is no input of its type; {advice}")

    def _check(self, sizes: set[str]) -> None:
        name = self.name
        if not self.outputs:
            raise ValueError(f"{name}: the kernel writes nothing: a pointer that is not const is an output")
        if not self.inputs:
            raise ValueError(
                f"{name}: no pointer is to const, so the kernel has no input. If it updates {self.outputs[0]}, say "
                f"updated={{{self.outputs[0]!r}: 'before'}}, and pass before"
            )
        if unknown := set(self.shapes) - set(self.kinds):
            raise ValueError(f"{name}: shapes names {sorted(unknown)}, but the kernel's parameters are {', '.join(self.kinds)}")
        if unknown := set(self.zeroed) - set(self.outputs):
            raise ValueError(f"{name}: zeroed names {sorted(unknown)}, but the kernel's outputs are {', '.join(self.outputs)}")
        known = sizes | set(self.numbers)
        for each, formula in self.derived.items():
            if unknown := formula.names - (known - {each}):
                raise ValueError(f"{name}: the formula of {each} names {sorted(unknown)}; there are {sorted(known - {each})}")
        known |= set(self.derived)
        for what, formulas in self._launch.items():
            for formula in formulas:
                if unknown := formula.names - known:
                    raise ValueError(f"{name}: {what} names {sorted(unknown)}, which no shape of an input has; there are {sorted(known)}")
        for each in (*self.inputs, *self.outputs):
            if each in self.shapes and (unknown := self.shapes[each].names - known):
                raise ValueError(f"{name}: the shape of {each} names {sorted(unknown)}; there are {sorted(known)}")
        for what in ("threads", "grid", "block"):
            if len(self._launch[what]) > 3:
                raise ValueError(f"{name}: a launch has up to three directions, got {what}={getattr(self, what)!r}")
        for kind, each in self.declared.template:
            if kind != "typename" and each not in known and not self._fixed():
                raise ValueError(
                    f"{name}: the template's {each} is a {kind}, so it is one of the sizes in shapes; there are {sorted(known) or 'none'}. "
                    f"Or ask for an instance: kernel(source, '{name}<float, 3>', ...)"
                )
        if self._generic and not self._fixed():
            bound = {self.kinds[i].ctype for i in self.inputs}
            if unknown := self._generic - bound:
                raise ValueError(f"{name}: nothing tells the template's {sorted(unknown)}: no input is an array of it")
        fixed = {each: "float" if kind == "typename" else "1" for kind, each in self.declared.template} | dict(self._fixed())
        parameters(self.source, self.kernel, tuple(fixed.items()))  # raises for a C type that is not known

    def _fixed(self) -> Options:
        """The template's arguments of a kernel that was asked for as ``name<float, 7>``."""
        given = self.kernel.partition("<")[2].rstrip().removesuffix(">").split(",")
        named = [(kind, name, value.strip()) for (kind, name), value in zip(self.declared.template, given, strict=False) if value]
        return tuple((name, type_named(self.source, value) if kind == "typename" else value) for kind, name, value in named)

    def plan(self, arrays: Mapping[str, Any], given: CallInfo) -> Plan:
        """The plan of a call, cached by the shapes and dtypes of the arrays.

        Raises:
            TypeError, ValueError: an argument's shape or dtype does not fit the declaration.
        """
        counted = {name: self._whole(name, given.numbers[name]) for name in self._counted} if self._counted else {}
        key = (tuple((a.shape, a.dtype) for a in arrays.values()), tuple(counted.values()), given.key)
        made = self._plans.get(key)
        if made is None:
            if len(self._plans) >= _KEPT:
                self._plans.clear()
            made = self._plans[key] = self._planned(arrays, given, counted)
        return made

    def _whole(self, name: str, number: Any) -> int:
        """A number that stands in a formula as a Python integer, which does not overflow."""
        if isinstance(number, (int, float, np.integer, np.floating)) and number == (whole := int(number)):
            return whole
        raise TypeError(f"{self.name}: {name} stands in a formula of sizes, so it is an integer, got {number!r}")

    def _planned(self, arrays: Mapping[str, Any], given: CallInfo, counted: Mapping[str, int]) -> Plan:
        sizes, types = dict(given.sizes), dict(self._fixed()) | dict(given.types)
        for name in self.inputs:
            self._bind_type(name, arrays[name], types)
            if name in self.shapes:
                self.shapes[name].read(f"{self.name}: {name}", tuple(arrays[name].shape), sizes)
        known = {**sizes, **counted}
        for name, formula in self.derived.items():
            if known.setdefault(name, size := formula(known)) != size:
                raise ValueError(f"{self.name}: {name} is {formula.text}, which is {size}, but an array's shape has {known[name]} for it")
            sizes[name] = known[name]
        for name in self.inputs:
            if name in self.shapes:
                self.shapes[name].verify(f"{self.name}: {name}", tuple(arrays[name].shape), known)
        outputs = [self._output(name, arrays, given, types, known) for name in self.outputs]
        options = self._fixed() or tuple(
            (name, types[name] if kind == "typename" else str(int(known[name]))) for kind, name in self.declared.template
        )
        block = self._amounts("block", known)
        if min(block) < 1:
            raise ValueError(f"{self.name}: a block has at least one thread, got block={self.block!r}, which is {block}")
        threads = self._amounts("threads", known) or (math.prod(outputs[0][0]),)
        grid = self._amounts("grid", known) or tuple(-(-n // per) for n, per in zip(threads, (*block, 1, 1), strict=False))
        shared = (self._amounts("shared", known) or (0,))[0]
        if shared < 0:
            raise ValueError(f"{self.name}: shared is a number of bytes, got shared={self.shared!r}, which is {shared}")
        return Plan(sizes, types, outputs, options, tuple(max(0, n) for n in grid), block, shared)

    def _bind_type(self, name: str, array: Any, types: dict[str, str]) -> None:
        ctype = self.kinds[name].ctype
        if ctype in self._generic and ctype not in types:
            found = ctype_of(array.dtype)
            if found is None:
                raise TypeError(f"{self.name}: {name} has dtype {array.dtype}, for which C has no type")
            types[ctype] = found
        wanted = dtype_of(types.get(ctype, ctype))
        if array.dtype != wanted:
            says = f"{ctype} is {wanted} here" if ctype in self._generic else f"declared {ctype}"
            raise TypeError(
                f"{self.name}: {name} has dtype {wanted} ({says}), got {array.dtype} of shape {tuple(array.shape)}; convert it with .to()"
            )

    def _output(
        self, name: str, arrays: Mapping[str, Any], given: CallInfo, types: Mapping[str, str], known: Mapping[str, Any]
    ) -> tuple[tuple[int, ...], np.dtype[Any]]:
        if name in given.outputs:
            return given.outputs[name]
        ctype = self.kinds[name].ctype
        told = self.shapes.get(name)
        shape = tuple(arrays[self.inputs[0]].shape) if told is None else told.made(f"{self.name}: {name}", known)
        if name in self.updated and (begins := tuple(arrays[self.updated[name]].shape)) != shape:
            advice = ", as the first input has; give it in shapes" if told is None else ""
            from_ = f"a copy of {self.updated[name]} of shape {begins}"
            raise ValueError(f"{self.name}: {name} begins as {from_}, but has shape {shape}{advice}")
        return shape, dtype_of(types.get(ctype, ctype))

    def joined(self, name: str, array: Any) -> Any:
        """An array as a kernel indexes it that knows of its dimensions: those under a starred name are one, as their size is one number."""
        told = self.shapes.get(name) or self.shapes.get(self.inputs[0] if name in self.outputs else name)
        return array if told is None else array.reshape(told.joined(array.shape))

    def _amounts(self, what: str, known: Mapping[str, Any]) -> tuple[int, ...]:
        return tuple(formula(known) for formula in self._launch[what])


_KEPT = 256  # cached plans of a kernel


def _formulas(amount: Amount | None) -> tuple[Formula, ...]:
    if amount is None:
        return ()
    parts: Iterable[Any] = amount if isinstance(amount, tuple) else (amount,)
    return tuple(Formula(str(part)) for part in parts)
