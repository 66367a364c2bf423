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
        kind: "tensor", "output", "argument" (one that is no tensor), or "shape" or "dtype" of a tensor.
        place: where it, or the tensor that it describes, stands: among ``Op.tensors``, ``Op.outputs`` or ``Op.params``.
        wanted_by: of a tensor or an output, the places among ``Op.tensors`` whose rules ask for it: kept where one wants a gradient.
    """

    name: str
    kind: str
    place: int
    wanted_by: tuple[int, ...]


class Op:
    """One declared operation.

    Attributes:
        name: torch's name. label: the name under which it is called, where that is another (``named``).
        kind: what forward mode needs to know. "elementwise": output i depends on element i of each input; "linear": in all
            differentiable inputs together, but those of a ``Joint``; "bilinear": in each of two; "other": has a ``jvp`` of its own, or
            will; "none": no derivative.
        jvp: the tangent of the output, of names as in a rule and ``t_NAME`` for the tangent of an input; of an elementwise operation
            that for inputs which all have one, where it is better than the sum of the rules.
        value: the function on raw arrays; its first parameter is the namespace. of_floats: the same where all of them are known to be
            floats of one dtype, float32 or float64; None where that is ``value`` too.
        params: the names of its arguments; keyword_only: which may be given by name only; defaults: the values of those left out.
        tensors: which of them are tensors; rules: the derivative for each that has one; rule_params: what each of these asks for.
        joint: the inputs whose gradient the rule of ``sequence`` gives too; kept_for_joint: what is kept for these alone.
        outputs: names of the results; differentiable: positions of those that carry gradients.
        promote: how operands meet in dtype, as declared; meet: the function on raw operands that does it, None where they stay as they are.
        view: whether the result may share the first input's memory.
        required: positions among ``tensors`` of those for which None cannot stand.
        needs: by name, what the rules ask for, and so what a node keeps; saved_names: the names alone.
        saves_tensors: whether the rules ask for any; a node without them can run as often as one likes.
        saving: positions among ``tensors`` of those whose rules ask for any; where none of these wants a gradient, the node has none.
        without_tensors: positions among ``tensors``; where one of these is a number, the node holds no tensor either.
        complex: "holomorphic" (rules are written for real numbers and hold for complex ones with g conjugated on the way in and out),
            "explicit" (the rules treat complex numbers themselves) or "none".
        leading: the position of the argument that tells the library; led_by_list: whether it is a list.
        device: the value on CuPy arrays of the current device, where there is a quicker function than ``value``, or its name; None.
        device_into: writes the value into the first of them, of which nothing is recorded; returns whether it did; None.
        kernels: by "out" or the name of an input, what computes the value or a gradient on CuPy arrays where it can; on_kernel: whether
            there is such a thing for the value, or ``device``.
        call: the public function; node_name: torch's name of its nodes; node: their class (``complex_node`` for complex values,
            ``lasting_...`` where an argument is a number and nothing need be freed); direct: NumPy's function of the same value, or what
            stands in its place, if there is one; ufunc: the name of NumPy's, if that is a ufunc; observed, on_device, packing: the
            operation as an observer runs it, on CuPy arrays, and under hooks for saved tensors; value_on_device: the value of CuPy arrays
            of the current device, by ``device`` or a kernel. ``core/op.py`` makes these from what the declaration says.
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
    value_on_device: Callable[..., Any]

    def __init__(self, value: Callable[..., Any], kind: str, rules: dict[str, Any], **options: Any) -> None:
        self.name: str = options.get("name") or value.__name__.removesuffix("_op")
        self.label: str = options.get("label") or self.name
        self.value = value
        self.of_floats: Callable[..., Any] | None = getattr(value, "of_floats", None)
        self.kind = kind
        declared = inspect.unwrap(value)
        code = declared.__code__
        self.params = code.co_varnames[1 : code.co_argcount]
        self.keyword_only: tuple[str, ...] = options.get("keyword_only", ())
        given = declared.__defaults__ or ()
        self.defaults: dict[str, Any] = dict(zip(code.co_varnames[code.co_argcount - len(given) : code.co_argcount], given, strict=True))
        self.rules = rules
        self.sequence: str | None = options.get("sequence")
        also = options.get("also", ())
        self.tensors = tuple(name for name in self.params if name in rules or name in also or name == self.sequence)
        self.positions = tuple(self.params.index(name) for name in self.tensors)
        self.outputs: tuple[str, ...] = options.get("outputs") or ("out",)
        self.differentiable: tuple[int, ...] = options.get("differentiable") or tuple(range(len(self.outputs)))
        self.promote: str | Callable[..., Any] | None = options.get("promote")
        self.meet = meeting(self.promote)
        self.view: bool = options.get("view", False)
        self.complex: str = options.get("complex", "holomorphic")
        self.jvp: Callable[..., Any] | None = options.get("jvp")
        alone = self.kind != "other" and self.sequence is None  # the others look themselves
        meant = self.tensors if self.promote is not None else tuple(rules)
        needed = [name in meant and self.defaults.get(name, name) is not None for name in self.tensors]
        self.required = tuple(i for i, each in enumerate(needed) if alone and each)
        self.numbers_in_single: bool = options.get("numbers_in_single", False)
        self.device: str | Callable[..., Any] | None = options.get("device")
        self.device_into: Callable[..., bool] | None = options.get("device_into")
        self.kernels: Mapping[str, str | Callable[..., Any]] = options.get("kernels") or {}
        self.on_kernel = self.device is not None or "out" in self.kernels
        self.joint = tuple(name for name, rule in rules.items() if isinstance(rule, Joint))
        self.leading = self.positions[-1 if self.joint else 0] if self.positions else 0
        self.led_by_list = bool(self.tensors) and (bool(self.joint) or self.tensors[0] == self.sequence)
        self.kept_for_joint = frozenset(need for name in self.joint for need in rules[name].needs)
        shared = rules[self.sequence] if self.joint and self.sequence in rules else None
        self.rule_params = {name: _asks_for(shared if name in self.joint else rule) for name, rule in rules.items()}
        self._check()
        self.saved_names = tuple(dict.fromkeys(need for names in self.rule_params.values() for need in names if need != "g"))
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
        self.without_tensors = tuple(
            i
            for i, name in enumerate(self.tensors)
            if name != self.sequence and len(self.tensors) > 1 and not saved.intersection(self.outputs) - self.kept_for_joint
            and saved and all(need == name or self.needed_by[need] == (i,) for need in saved)
        )  # fmt: skip

    @property
    def is_ufunc(self) -> bool:
        """Whether the value is one of NumPy's ufuncs of the two operands, in either order."""
        called = inspect.unwrap(self.value).__code__.co_names
        return self.params == self.tensors and len(called) == 1 and getattr(getattr(np, called[0], None), "nin", 0) == 2

    def _need(self, name: str) -> Need:
        kind, place = self.decoded(name)
        return Need(name, kind, place, self.needed_by[name] if kind in ("tensor", "output") else ())

    def decoded(self, name: str) -> tuple[str, int]:
        """The meaning of a parameter's name in a rule or in ``jvp``: ``Need.kind`` and ``Need.place``."""
        for kind, names in (("output", self.outputs), ("tensor", self.tensors), ("argument", self.params)):
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
        if taken := {"self", "g", "saved", "edges", "op"}.intersection(self.params):
            raise ValueError(f"op {self.name}: an argument cannot be called {sorted(taken)}, which the written texts use; rename it")
        if self.keyword_only != self.params[len(self.params) - len(self.keyword_only) :]:
            raise ValueError(f"op {self.name}: keyword_only names the last arguments, got {self.keyword_only} of {self.params}")
        known = {"g", *self.params, *self.outputs, *(f"{p}_{part}" for p in self.tensors for part in ("shape", "dtype"))}
        for name, needs in self.rule_params.items():
            unknown = set(needs) - known
            if name not in self.params or unknown:
                raise ValueError(f"op {self.name}: the rule for {name!r} names {sorted(unknown)}; there are {sorted(known)}")
        if self.joint and (self.tensors != (*self.joint, self.sequence) or not self.kept_for_joint <= set(self.rule_params[self.joint[0]])):
            raise ValueError(
                f"op {self.name}: Joint stands for each tensor before the list, and needs what the list's rule names; got tensors "
                f"{self.tensors}, Joint for {self.joint}, needs {sorted(self.kept_for_joint)}"
            )

    def __repr__(self) -> str:
        return f"<op {self.name}>"


def _asks_for(rule: Callable[..., Any] | None) -> tuple[str, ...]:
    """The names of a rule's parameters."""
    return () if rule is None else rule.__code__.co_varnames[: rule.__code__.co_argcount]
