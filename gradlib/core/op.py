"""The declaration of an operation: its value, and one line per input for its derivative.

    @op("elementwise", promote="float", input=lambda g, input: g * cos(input))
    def sin(xp, input):
        \"\"\"Sine of each element, in radians.\"\"\"
        return xp.sin(input)

declares the function ``sin``, the method ``Tensor.sin`` and the node ``SinBackward0``. A rule's parameter names say what it needs and
so what is kept for backward: ``g`` (the incoming cotangent), inputs, outputs (``out`` where there is one), arguments that are no
tensors, ``NAME_shape`` and ``NAME_dtype`` of an input (which keep no array). Rules are written with gradlib's own functions and
operators: on raw arrays they give raw arrays (first-order backward), on Tensors they record (``create_graph=True``).

Broadcasting is undone by the engine; no rule mentions it. README.md beside this file says more.
"""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import numpy as np

from gradlib.core.compile import (
    COMPOSED,
    OPERATIONS,
    compile_call,
    compile_composite,
    compile_node,
    compile_observed,
    compile_on_device,
    direct_function,
    lasting,
    named,
)
from gradlib.core.node import Node
from gradlib.core.tensor import Tensor

REGISTRY: dict[str, Op] = {}
"""Every declared operation by name."""

KINDS = ("elementwise", "linear", "bilinear", "other", "none")


class Joint(NamedTuple):
    """In a rule's place: the rule of the operation's list of tensors gives this input's gradient too, before those of the list.

    Attributes:
        needs: what the rule asks for on behalf of this input alone. It is kept where this input wants a gradient, and None otherwise.
    """

    needs: tuple[str, ...] = ()


class Op:
    """One declared operation.

    Attributes:
        name: torch's name. label: the name under which it is called, where that is another (``named``).
        kind: what forward mode needs to know. "elementwise": output i depends on element i of each input; "linear": in all
            differentiable inputs together; "bilinear": in each of two; "other": has a ``jvp`` of its own, or will; "none": no derivative.
        value: the function on raw arrays; its first parameter is the namespace.
        params: the names of its arguments; keyword_only: which may be given by name only; defaults: the values of those left out.
        tensors: which of them are tensors; rules: the derivative for each that has one; rule_params: what each of these asks for.
        joint: the inputs whose gradient the rule of ``sequence`` gives too; kept_for_joint: what is kept for these alone.
        outputs: names of the results; differentiable: positions of those that carry gradients.
        promote: how operands meet in dtype (see ``promoted`` in ``backend/dtype.py``).
        view: whether the result may share the first input's memory.
        saves_tensors: whether the rules ask for any; a node without them can run as often as one likes.
        without_tensors: positions among ``tensors``; where one of these is a number, the node holds no tensor either.
        complex: "holomorphic" (rules are written for real numbers and hold for complex ones with g conjugated on the way in and out),
            "explicit" (the rules treat complex numbers themselves) or "none".
        call: the public function.
    """

    def __init__(self, value: Callable[..., Any], kind: str, rules: dict[str, Any], **options: Any) -> None:
        self.name: str = options.get("name") or value.__name__
        self.label: str = options.get("label") or self.name
        self.value = value
        self.kind = kind
        declared = inspect.unwrap(value)
        code = declared.__code__
        self.params = code.co_varnames[1 : code.co_argcount + code.co_kwonlyargcount]
        self.keyword_only = code.co_varnames[code.co_argcount : code.co_argcount + code.co_kwonlyargcount]
        given = declared.__defaults__ or ()
        self.defaults: dict[str, Any] = dict(zip(code.co_varnames[code.co_argcount - len(given) : code.co_argcount], given, strict=True))
        self.defaults |= declared.__kwdefaults__ or {}
        self.rules = rules
        self.sequence: str | None = options.get("sequence")
        also = options.get("also", ())
        self.tensors = tuple(name for name in self.params if name in rules or name in also or name == self.sequence)
        self.positions = tuple(self.params.index(name) for name in self.tensors)
        self.outputs: tuple[str, ...] = options.get("outputs") or ("out",)
        self.differentiable: tuple[int, ...] = options.get("differentiable") or tuple(range(len(self.outputs)))
        self.promote: Any = options.get("promote")
        self.view: bool = options.get("view", False)
        self.complex: str = options.get("complex", "holomorphic")
        self.jvp: Callable[..., Any] | None = options.get("jvp")
        self.joint = tuple(name for name, rule in rules.items() if isinstance(rule, Joint))
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
        saved = {name for name in self.saved_names if name in self.tensors or name in self.outputs}
        self.saves_tensors = bool(saved)
        self.without_tensors = tuple(
            i
            for i, name in enumerate(self.tensors)
            if name != self.sequence and len(self.tensors) > 1 and not saved.intersection(self.outputs) - self.kept_for_joint
            and saved and all(need == name or self.needed_by[need] == (i,) for need in saved)
        )  # fmt: skip
        named = direct_function(self)
        self.direct: Callable[..., Any] | None = getattr(np, named) if named else None
        self.ufunc: str | None = named if isinstance(self.direct, np.ufunc) else None
        self.node: type[Node] = compile_node(self)
        self.lasting_node: type[Node] = lasting(self.node)
        self.complex_node: type[Node] = compile_node(self, conjugate=True) if self.complex == "holomorphic" else self.node
        self.lasting_complex_node: type[Node] = lasting(self.complex_node)
        self.call: Callable[..., Any] = compile_call(self)

    @functools.cached_property
    def observed(self) -> Callable[..., Any]:
        """The operation as an observer runs it; made when one first does."""
        return compile_observed(self)

    @functools.cached_property
    def on_device(self) -> Callable[..., Any]:
        """The operation on CuPy arrays; made when it first meets one."""
        return compile_on_device(self)

    def _check(self) -> None:
        if self.kind not in KINDS:
            raise ValueError(f"op {self.name}: kind is one of {KINDS}, got {self.kind!r}")
        if taken := {"self", "g", "saved", "edges", "op"}.intersection(self.params):
            raise ValueError(f"op {self.name}: an argument cannot be called {sorted(taken)}, which the written texts use; rename it")
        known = {"g", *self.params, *self.outputs, *(f"{p}_{part}" for p in self.params for part in ("shape", "dtype"))}
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


def op(
    kind: str,
    *,
    promote: str | Callable[..., Any] | None = None,
    also: Sequence[str] = (),
    sequence: str | None = None,
    outputs: Sequence[str] = (),
    differentiable: Sequence[int] = (),
    view: bool = False,
    inplace: bool = False,
    method: bool = True,
    aliases: Sequence[str] = (),
    complex: str = "holomorphic",
    jvp: Callable[..., Any] | None = None,
    name: str | None = None,
    label: str | None = None,
    **rules: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare an operation; decorates its value ``f(xp, inputs..., arguments...)`` on raw arrays.

    Args:
        kind: see ``Op``; decides forward mode.
        promote: None leaves dtypes alone; "same" brings operands to their common dtype; "float" also turns integers into the default
            float dtype; a function ``(values) -> values`` does it its own way. The result then has that dtype; where it has another,
            such as complex of real parts, say None.
        also: tensor arguments without a derivative (indices, masks).
        sequence: the argument that is a list of tensors; its rule returns a list.
        outputs, differentiable: names of several results, and which of them carry gradients.
        view: the result may share memory with the first input.
        inplace: also declare ``NAME_``, which writes the result into the first input.
        method: put it on Tensor under its own name.
        label: the public function that it is a part of, by whose name observers see it.
        aliases: further names on Tensor; Python's operators (``__add__``) leave what they do not understand to the other operand.
        rules: for each differentiable input a function that gives its gradient, or ``Joint`` where that of the list gives it.
    Returns: a decorator whose result is the public function.
    """

    def declare(value: Callable[..., Any]) -> Callable[..., Any]:
        made = Op(
            value, kind, rules, promote=promote, also=tuple(also), sequence=sequence, outputs=tuple(outputs),
            differentiable=tuple(differentiable), view=view, complex=complex, jvp=jvp, name=name, label=label,
        )  # fmt: skip
        REGISTRY[made.name] = made
        OPERATIONS.add(made.label)
        if method:
            publish(made.call, made.name)
        for name_too in aliases:
            if not name_too.startswith("__"):
                publish(named(made.call, name_too, node=False), name_too)
        if operators := [name for name in aliases if name.startswith("__")]:
            publish(compile_call(made, operator=True), *operators)
        if inplace:
            from gradlib.core.inplace import inplace_form

            publish(inplace_form(made), *filter(None, map(inplace_name, (made.name, *aliases))))
        return made.call

    return declare


def inplace_name(name: str) -> str | None:
    """``add_`` for ``add``, ``__iadd__`` for ``__add__``, nothing for a reflected operator."""
    if not name.startswith("__"):
        return f"{name}_"
    return None if name.startswith("__r") and name != "__rshift__" else f"__i{name[2:]}"


COMPOSITES: dict[str, Callable[..., Any]] = {}
"""Every function that is written in terms of operations, by name."""


def composite(
    function: Callable[..., Any] | None = None, *, method: bool = True, aliases: Sequence[str] = (), inplace: bool = False
) -> Any:
    """Register a function written in terms of other operations; its derivatives are theirs. Arguments as for ``op``."""
    if function is None:
        return lambda f: composite(f, method=method, aliases=aliases, inplace=inplace)
    name, value = function.__name__, function
    if name not in OPERATIONS:
        function = compile_composite(value, name)
    elif "dim" in inspect.signature(value).parameters:
        function = compile_composite(value, None)  # the operation of its name, which it calls, is what is seen
    COMPOSITES[name] = function
    COMPOSED.add(name)
    if method:
        publish(function, name)
    for name_too in aliases:
        publish(composed(value, name_too), name_too)
    if inplace:
        from gradlib.core.inplace import write

        def call(input: Any, *args: Any, **kwargs: Any) -> Tensor:
            return write(input, lambda shadow: value(shadow, *args, **kwargs), f"{name}_")

        call.__name__ = call.__qualname__ = f"{name}_"
        call.__doc__ = f"``{name}`` written into this tensor; returns it. Refused for a leaf that requires a gradient."
        publish(call, *filter(None, map(inplace_name, (name, *aliases))))
    return function


def composed(function: Callable[..., Any], label: str) -> Callable[..., Any]:
    """A function of operations under another name, by which observers see it."""
    COMPOSED.add(label)
    return compile_composite(function, label)


def published(name: str) -> Callable[..., Any]:
    """What Tensor has under this name, for a module to offer it too."""
    function: Callable[..., Any] = getattr(Tensor, name)
    return function


def with_numpy_names(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function with ``axis`` and ``keepdims`` understood as ``dim`` and ``keepdim``."""

    @functools.wraps(function)
    def call(*args: Any, **named: Any) -> Any:
        if "axis" in named:
            named["dim"] = named.pop("axis")
        if "keepdims" in named:
            named["keepdim"] = named.pop("keepdims")
        return function(*args, **named)

    return call


def publish(function: Callable[..., Any] | property, *names: str) -> None:
    """Make a function a method of Tensor under these names, or a property one of its attributes."""
    for each in names:
        setattr(Tensor, each, function)
