"""The declaration of an operation, as a plain record."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping
from typing import Any, NamedTuple

import numpy as np

from gradlib.backend.dtype import meeting
from gradlib.core.node import Node

KINDS = ("elementwise", "linear", "bilinear", "other", "none")

OPERATIONS: set[str] = set()
"""The names by which operations are seen; a function of operations that is named like the one it calls is not shown as well."""
_OF_NUMBERS = frozenset(("add", "subtract", "multiply", "divide", "maximum", "minimum"))
COMPOSED: set[str] = set()
"""The names of functions of operations."""


class Joint(NamedTuple):
    """A mark in a rule's place: the rule of the operation's list of tensors gives this input's gradient too, before those of the list.

    Attributes:
        needs: what the rule asks for on behalf of this input alone. It is kept where this input wants a gradient, and None otherwise.
    """

    needs: tuple[str, ...] = ()


class Need(NamedTuple):
    """One name that a rule asks for, decoded.

    Attributes:
        name: as the rule's parameter is called.
        kind: "tensor", "output", "hidden" (a hidden result), "argument" (one that is no tensor), or "shape" or "dtype" of a tensor.
        place: where it, or the tensor that it describes, stands: among ``Op.tensors``, ``Op.outputs``, ``Op.hidden`` or ``Op.params``.
        wanted_by: of the first three kinds, the places among ``Op.tensors`` whose rules ask for it: kept where one wants a gradient.
    """

    name: str
    kind: str
    place: int
    wanted_by: tuple[int, ...]


class Op:
    """One declared operation, decoded once. What the declaration may say is under ``op`` in ``core/op.py``.

    Attributes, of its arguments:
        params: their names.
        keyword_only: the last of them, which may be given by name only.
        defaults: the values of those left out.
        tensors: the names of those that are tensors.
        positions: where these stand in ``params``. (All other positions are places in ``tensors``.)
        sequence: the last of these, where it is a list of tensors.
        required: positions of those for which None cannot stand.
        leading: the position in ``params`` of the argument that tells the library.
        led_by_list: whether that is a list.
    Attributes, of its value:
        name: torch's name.
        label: the name under which it is called, where that is another (``named``).
        value: the function on raw arrays; its first parameter is the namespace.
        of_floats: the same where all of them are known to be floats of one dtype, float32 or float64; None where that is ``value`` too.
        outputs: the names of the results.
        differentiable: positions of those that carry gradients.
        hidden: by the name of each hidden result, which the value gives behind the one that is returned, the rules of its derivatives.
        steps: the function of operations that runs in its place where an interpreter is active; an operation with hidden results has one.
        promote: how operands meet in dtype, as declared.
        meet: the function on raw operands that brings them to one dtype; None where they stay as they are.
        meets_by_dtype: whether all that it goes by are dtypes, whether arrays have dimensions, and the types of numbers;
            meeting_sees_numbers: unless there is a number beside integers or a half type.
        numbers_first: whether a number may stand in the place of any operand but one, so before the first tensor too: where operands meet
            by their dtypes, and numbers need not fit that of the input.
        meetings: what it made of operands on a device so far, by these: see `gradlib.core.meeting`.
        view: whether the result may share the first input's memory.
        overwrites: the name of the argument that lets the value write its first one itself; None where it never does.
        device, device_into, kernels, numbers_in_single: as declared.
        on_kernel: whether there is anything in place of ``value`` on CuPy arrays.
    Attributes, of its derivatives:
        kind: what forward mode needs to know. "elementwise": output i depends on element i of each input; "linear": in all
            differentiable inputs together, but those of a ``Joint``; "bilinear": in each of two; "other": has a ``jvp`` of its own, or
            will; "none": no derivative.
        jvp: the tangent of the output, of names as in a rule and ``t_NAME`` for the tangent of an input; of an elementwise operation
            that for inputs which all have one, where it is better than the sum of the rules. Like a rule it casts nothing.
        rules: the derivative for each input that has one.
        rule_params: what each of these asks for.
        joint: the inputs whose gradient the rule of ``sequence`` gives too.
        kept_for_joint: what is kept for these alone.
        complex: "holomorphic" (rules are written for real numbers and hold for complex ones with g conjugated on the way in and out),
            "explicit" (the rules treat complex numbers themselves) or "none".
    Attributes, of what its nodes keep:
        needs: by name, what the rules ask for, and so what a node keeps.
        needed_by: by name, positions of the tensors whose rules ask for it.
        saved_names: the names alone.
        saves_tensors: whether the rules ask for any tensor; a node without them can run as often as one likes.
        saving: positions of the tensors whose rules ask for any; where none of these wants a gradient, the node has none.
        without_tensors: positions of tensors; where one of these is a number, the node holds no tensor either.
    Attributes that ``core/op.py`` makes of the declaration:
        call: the public function.
        node_name: torch's name of its nodes.
        node: their class; ``complex_node`` for complex values, ``lasting_...`` where an argument is a number and nothing need be freed.
        direct: NumPy's function of the same value, or what stands in its place, if there is one.
        ufunc: the name of NumPy's, if that is a ufunc.
        observed, on_device, packing: the operation as an observer runs it, on CuPy arrays, and under hooks for saved tensors.
        forward, forward_on_device: the operation in forward mode, whose level comes first.
        value_on_device: the value of CuPy arrays of the current device, by ``device`` or a kernel.
    """

    call: Callable[..., Any]
    node_name: str
    node: type[Node]
    lasting_node: type[Node]
    complex_node: type[Node]
    lasting_complex_node: type[Node]
    direct: Callable[..., Any] | None
    ufunc: str | None
    observed: Callable[..., Any]
    on_device: Callable[..., Any]
    packing: Callable[..., Any]
    forward: Callable[..., Any]
    forward_on_device: Callable[..., Any]
    value_on_device: Callable[..., Any]

    def __init__(
        self,
        value: Callable[..., Any],
        kind: str,
        rules: dict[str, Any],
        *,
        name: str | None = None,
        label: str | None = None,
        keyword_only: tuple[str, ...] = (),
        sequence: str | None = None,
        also: tuple[str, ...] = (),
        outputs: tuple[str, ...] = (),
        differentiable: tuple[int, ...] = (),
        hidden: Mapping[str, Mapping[str, Callable[..., Any]]] | None = None,
        steps: Callable[..., Any] | None = None,
        promote: str | Callable[..., Any] | None = None,
        view: bool = False,
        overwrites: str | None = None,
        complex: str = "holomorphic",
        jvp: Callable[..., Any] | None = None,
        numbers_in_single: bool = False,
        device: str | Callable[..., Any] | None = None,
        device_into: Callable[..., bool] | None = None,
        kernels: Mapping[str, str | Callable[..., Any]] | None = None,
    ) -> None:
        self.name = name or value.__name__.removesuffix("_op")
        self.label = label or self.name
        self.value, self.kind, self.rules = value, kind, rules
        self.of_floats: Callable[..., Any] | None = getattr(value, "of_floats", None)
        self.promote, self.meet = promote, meeting(promote)
        self.meets_by_dtype = isinstance(promote, str) or getattr(promote, "by_dtype", False)
        self.meeting_sees_numbers = getattr(promote, "sees_numbers", False)
        self.numbers_first = self.meets_by_dtype and not getattr(promote, "fits", False)
        self.meets_numbers_alike = isinstance(promote, str) or getattr(promote, "numbers_alike", False)
        self.meetings: dict[tuple[Any, ...], Any] = {}
        self.outputs = outputs or ("out",)
        self.differentiable = differentiable or tuple(range(len(self.outputs)))
        self.hidden, self.steps = hidden or {}, steps
        self.view, self.overwrites = view, overwrites
        self.complex, self.jvp, self.numbers_in_single = complex, jvp, numbers_in_single
        self.device, self.device_into, self.kernels = device, device_into, kernels or {}
        self.on_kernel = device is not None or "out" in self.kernels
        self.keyword_only, self.sequence = keyword_only, sequence
        self._read_arguments(also)
        self._read_rules()
        self._check()
        self._read_needs()

    def _read_arguments(self, also: tuple[str, ...]) -> None:
        """Which arguments there are, and which of them are tensors."""
        declared = inspect.unwrap(self.value)
        code, given = declared.__code__, declared.__defaults__ or ()
        self.params = code.co_varnames[1 : code.co_argcount]
        self.defaults: dict[str, Any] = dict(zip(self.params[len(self.params) - len(given) :], given, strict=True))
        self.tensors = tuple(name for name in self.params if name in self.rules or name in also or name == self.sequence)
        self.positions = tuple(self.params.index(name) for name in self.tensors)
        alone = self.kind != "other" and self.sequence is None  # the others look themselves
        meant = self.tensors if self.promote is not None else tuple(self.rules)
        needed = [name in meant and self.defaults.get(name, name) is not None for name in self.tensors]
        self.required = tuple(i for i, each in enumerate(needed) if alone and each)

    def _read_rules(self) -> None:
        """What each rule asks for, and which argument leads."""
        rules = self.rules
        self.joint = tuple(name for name, rule in rules.items() if isinstance(rule, Joint))
        self.leading = self.positions[-1 if self.joint else 0] if self.positions else 0
        self.led_by_list = bool(self.tensors) and (bool(self.joint) or self.tensors[0] == self.sequence)
        self.kept_for_joint = frozenset(need for name in self.joint for need in rules[name].needs)
        shared = rules[self.sequence] if self.joint and self.sequence in rules else None
        self.rule_params = {name: _asks_for(shared if name in self.joint else rule) for name, rule in rules.items()}

    def _read_needs(self) -> None:
        """What a node keeps, and when it keeps no tensor."""
        asked = [*self.rule_params.values(), *(_asks_for(rule) for rules in self.hidden.values() for rule in rules.values())]
        self.saved_names = tuple(dict.fromkeys(need for names in asked for need in names if need != "g"))
        self.needed_by = {
            need: tuple(
                i
                for i, name in enumerate(self.tensors)
                if need in self.rule_params.get(name, ()) and (name in self.joint or need not in self.kept_for_joint)
            )
            for need in self.saved_names
        }
        self.needs = {name: self._need(name) for name in self.saved_names}
        saved = {need.name for need in self.needs.values() if need.wanted_by}
        self.saves_tensors = bool(saved)
        self.saving = tuple(i for i, _ in enumerate(self.tensors) if any(i in self.needed_by[need] for need in saved))
        self.without_tensors: tuple[int, ...] = ()
        if saved and len(self.tensors) > 1 and saved.intersection((*self.outputs, *self.hidden)) <= self.kept_for_joint:
            self.without_tensors = tuple(
                i
                for i, name in enumerate(self.tensors)
                if name != self.sequence and all(need == name or self.needed_by[need] == (i,) for need in saved)
            )

    @property
    def is_ufunc(self) -> bool:
        """Whether the value is one of NumPy's ufuncs of the two operands, in either order."""
        called = inspect.unwrap(self.value).__code__.co_names
        return self.params == self.tensors and len(called) == 1 and getattr(getattr(np, called[0], None), "nin", 0) == 2

    @property
    def broadcasts(self) -> bool:
        """Whether the value is one of NumPy's ufuncs of two operands that give what they take: `gradlib.backend.columns.broadcast`."""
        return self.is_ufunc and self.ufunc in _OF_NUMBERS and self.direct is getattr(np, self.ufunc)

    def _need(self, name: str) -> Need:
        kind, place = self.decoded(name)
        return Need(name, kind, place, self.needed_by[name] if kind in ("tensor", "output", "hidden") else ())

    def decoded(self, name: str) -> tuple[str, int]:
        """The meaning of a parameter's name in a rule or in ``jvp``: ``Need.kind`` and ``Need.place``."""
        for kind, names in (
            ("output", self.outputs), ("hidden", tuple(self.hidden)), ("tensor", self.tensors), ("argument", self.params)
        ):  # fmt: skip
            if name in names:
                return kind, names.index(name)
        owner, _, part = name.rpartition("_")
        return part, self.tensors.index(owner)

    def inputs(self, args: tuple[Any, ...]) -> list[Any]:
        """The tensors among the arguments, those of a list one by one at the end."""
        if self.sequence is None:
            return list(map(args.__getitem__, self.positions))
        return [*map(args.__getitem__, self.positions[:-1]), *args[self.positions[-1]]]

    def with_inputs(self, args: tuple[Any, ...], inputs: list[Any]) -> list[Any]:
        """The arguments with others in the places of ``inputs``."""
        full = list(args)
        single = self.positions if self.sequence is None else self.positions[:-1]
        for position, value in zip(single, inputs, strict=False):
            full[position] = value
        if self.sequence is not None:
            full[self.positions[-1]] = inputs[len(single) :]
        return full

    def _check(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"op {self.name}: kind is one of {KINDS}, got {self.kind!r}")
        if taken := {"self", "g", "saved", "edges", "op", "left"}.intersection(self.params):
            raise ValueError(f"op {self.name}: an argument cannot be called {sorted(taken)}, which the written texts use; rename it")
        if self.keyword_only != self.params[len(self.params) - len(self.keyword_only) :]:
            raise ValueError(f"op {self.name}: keyword_only names the last arguments, got {self.keyword_only} of {self.params}")
        if self.overwrites is not None and self.defaults.get(self.overwrites) is not False:
            raise ValueError(f"op {self.name}: overwrites names an argument that is False where it is left out, got {self.overwrites!r}")
        known = {"g", *self.params, *self.outputs, *self.hidden, *(f"{p}_{part}" for p in self.tensors for part in ("shape", "dtype"))}
        for name, needs in self.rule_params.items():
            unknown = set(needs) - known
            if name not in self.params or unknown:
                raise ValueError(f"op {self.name}: the rule for {name!r} names {sorted(unknown)}; there are {sorted(known)}")
        if self.hidden:
            self._check_hidden()
        if self.joint and (self.tensors != (*self.joint, self.sequence) or not self.kept_for_joint <= set(self.rule_params[self.joint[0]])):
            raise ValueError(
                f"op {self.name}: Joint stands for each tensor before the list, and needs what the list's rule names; got tensors "
                f"{self.tensors}, Joint for {self.joint}, needs {sorted(self.kept_for_joint)}"
            )

    def _check_hidden(self) -> None:
        alone = len(self.outputs) == 1 and self.sequence is None and not (self.view or self.overwrites or self.numbers_in_single)
        if self.steps is None or self.jvp is not None or self.complex != "none" or not alone:
            raise ValueError(
                f'op {self.name}: with hidden results there are steps, complex="none" and one output, and no jvp, view, overwrites, '
                "sequence or numbers_in_single"
            )
        for name, rules in self.hidden.items():
            kept = {*self.params, *(f"{p}_{part}" for p in self.tensors for part in ("shape", "dtype"))} - set(self.tensors)
            asked = {tensor: _asks_for(rule) for tensor, rule in rules.items()}
            if wrong := [each for each, (g, *rest) in asked.items() if each not in self.rules or g != "g" or not kept.issuperset(rest)]:
                raise ValueError(f"op {self.name}: {name} is linear in inputs that have rules; its own ask for g and no tensor: {wrong}")

    def __repr__(self) -> str:
        return f"<op {self.name}>"


def _asks_for(rule: Callable[..., Any] | None) -> tuple[str, ...]:
    """The names of a rule's parameters."""
    return () if rule is None else rule.__code__.co_varnames[: rule.__code__.co_argcount]
