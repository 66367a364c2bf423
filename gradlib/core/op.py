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
import sys
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from gradlib.core.arguments import refuse_wrong
from gradlib.core.compile import (
    compile_call,
    compile_forward,
    compile_forward_on_device,
    compile_observed,
    compile_on_device,
    compile_packing,
    direct_function,
    named,
    value_on_device,
)
from gradlib.core.compile_composite import compile_composite
from gradlib.core.compile_node import compile_node, node_name
from gradlib.core.declaration import COMPOSED, OPERATIONS, Op
from gradlib.core.inplace import described_as_inplace, inplace_form, is_written_on_device, may_be_recorded, write
from gradlib.core.node import Node
from gradlib.core.tensor import Tensor, publish as publish

REGISTRY: dict[str, Op] = {}
"""Every declared operation by name."""


class CompiledOp(Op):
    """An operation with the functions and node classes that are written for its declaration."""

    def __init__(self, value: Callable[..., Any], kind: str, rules: dict[str, Any], *, node: str | None = None, **options: Any) -> None:
        super().__init__(value, kind, rules, **options)
        self.direct = direct_function(self)
        named = self.direct and self.direct.__name__
        self.ufunc = named if named and isinstance(getattr(np, named), np.ufunc) else None
        self.node_name = node_name(node or self.name)
        self.declared = self  # and so is that of a copy under another name (``named``)
        self.call = compile_call(self)

    @functools.cached_property
    def node(self) -> type[Node]:  # type: ignore[override]
        """The class of its nodes; made when the first of them is, as are the other three."""
        return compile_node(self.declared, self.node_name)

    @functools.cached_property
    def lasting_node(self) -> type[Node]:  # type: ignore[override]
        """The class of nodes that hold no tensor, an argument being a number."""
        return compile_node(self.declared, self.node_name, lasts=True)

    @functools.cached_property
    def complex_node(self) -> type[Node]:  # type: ignore[override]
        """The class of nodes of complex values."""
        return compile_node(self.declared, self.node_name, self.complex == "holomorphic")

    @functools.cached_property
    def lasting_complex_node(self) -> type[Node]:  # type: ignore[override]
        """The class of nodes of complex values that hold no tensor."""
        return compile_node(self.declared, self.node_name, self.complex == "holomorphic", lasts=True)

    @functools.cached_property
    def observed(self) -> Callable[..., Any]:  # type: ignore[override]
        """The operation as an observer runs it; made when one first does."""
        return compile_observed(self)

    @functools.cached_property
    def on_device(self) -> Callable[..., Any]:  # type: ignore[override]
        """The operation on CuPy arrays; made when it first meets one."""
        return compile_on_device(self)

    @functools.cached_property
    def value_on_device(self) -> Callable[..., Any]:  # type: ignore[override]
        """What computes its value on CuPy arrays, by a kernel where there is one for them; made when it is first asked for."""
        return value_on_device(self)

    @functools.cached_property
    def forward(self) -> Callable[..., Any]:  # type: ignore[override]
        """The operation in forward mode; made when it is first called there."""
        return compile_forward(self)

    @functools.cached_property
    def forward_on_device(self) -> Callable[..., Any]:  # type: ignore[override]
        """The same on CuPy arrays."""
        return compile_forward_on_device(self)

    @functools.cached_property
    def packing(self) -> Callable[..., Any]:  # type: ignore[override]
        """The operation under hooks for saved tensors; made when it is first called there."""
        return compile_packing(self)


def op(
    kind: str,
    *,
    promote: str | Callable[..., Any] | None = None,
    also: Sequence[str] = (),
    sequence: str | None = None,
    outputs: Sequence[str] = (),
    differentiable: Sequence[int] = (),
    hidden: Mapping[str, Mapping[str, Callable[..., Any]]] | None = None,
    steps: Callable[..., Any] | None = None,
    view: bool = False,
    overwrites: str | None = None,
    inplace: bool = False,
    method: bool | None = None,
    aliases: Sequence[str] = (),
    complex: str = "holomorphic",
    jvp: Callable[..., Any] | None = None,
    numbers_in_single: bool = False,
    device: str | Callable[..., Any] | None = None,
    device_into: Callable[..., bool] | None = None,
    kernels: Mapping[str, str | Callable[..., Any]] | None = None,
    keyword_only: Sequence[str] = (),
    name: str | None = None,
    label: str | None = None,
    node: str | None = None,
    **rules: Any,
) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Declare an operation; decorates its value ``f(xp, inputs..., arguments...)`` on raw arrays.

    A function ``add`` declares the operation ``add``. So does ``add_op``, where the public ``add`` is a function around the operation:
    either way the derivative is found under the public name.

    Args:
        kind: see ``Op``; decides forward mode.
        promote: None leaves dtypes alone; "same" brings operands to their common dtype; "float" also turns integers into the default
            float dtype; a function ``(values) -> values`` does it its own way. The result then has that dtype; where it has another,
            such as complex of real parts, say None.
        also: tensor arguments without a derivative (indices, masks).
        sequence: the argument that is a list of tensors; its rule returns a list.
        outputs, differentiable: names of several results, and which of them carry gradients.
        hidden: what the value gives behind its one result for the rules alone, which name it, so that no input need be kept and the user
            may write them. By its name, for each input in which it is linear, the rule of its derivative, for second derivatives.
        steps: a function of operations that gives the same, and runs where an interpreter is active: with ``hidden``, as a hidden result
            has neither tangents nor batching rules, or in the place of such a rule.
        view: the result may share memory with the first input.
        overwrites: the argument, False where it is left out, by which a caller lets the value write its first argument instead of a copy.
        inplace: also declare ``NAME_``, which writes the result into the first input.
        method: put it on Tensor under its own name; when left out, unless its name ends in ``_op``.
        label: the public function that it is a part of, by whose name observers see it.
        node: the operation after which its node is called, where it is done in one step for which torch has several: the last of these.
        numbers_in_single: of half types and numbers, compute in float32.
        device: computes the value of CuPy arrays in the value's place, with the same arguments but for ``xp``: a function that serves all,
            or the name of one of `gradlib.backend.pointwise`, which leaves to the value what it does not serve.
        device_into: writes the value into the first of them at once, for ``NAME_``; returns whether it did, as a kernel may not serve them.
        kernels: what computes the value ("out") or the gradient of an input on CuPy arrays in one launch, with the arguments of the value
            but for ``xp``, or those of the rule: a name of `gradlib.backend.formulas`, or a function. It gives None for what it does not
            serve, which then the value or the rule itself computes.
        keyword_only: the last arguments, which a caller of the public function must name.
        aliases: further names, on Tensor and in the module's ``__all__`` where the name itself is; Python's operators (``__add__``)
            leave what they do not understand to the other operand.
        rules: for each differentiable input a function that gives its gradient, or ``Joint`` where that of the list gives it.
    Returns: a decorator whose result is the public function.
    """

    def declare(value: Callable[..., Any]) -> Callable[..., Any]:
        made = CompiledOp(
            value, kind, rules, promote=promote, also=tuple(also), sequence=sequence, outputs=tuple(outputs),
            differentiable=tuple(differentiable), hidden=hidden, steps=steps, view=view, overwrites=overwrites, complex=complex, jvp=jvp,
            name=name, label=label, node=node, numbers_in_single=numbers_in_single, device=device, device_into=device_into,
            kernels=kernels, keyword_only=tuple(keyword_only),
        )  # fmt: skip
        _offer(made, method, aliases)
        if inplace:
            publish(inplace_form(made), *filter(None, map(inplace_name, (made.name, *aliases))))
        return made.call

    return declare


def _offer(made: CompiledOp, method: bool | None, aliases: Sequence[str]) -> None:
    """Make an operation known, and put it where its declaration says: on Tensor, under its aliases, behind Python's operators."""
    value = made.value
    REGISTRY[made.name] = made
    OPERATIONS.add(made.label)
    if method or (method is None and not value.__name__.endswith("_op")):
        publish(made.call, made.name)
    for alias in aliases:
        if not alias.startswith("__"):
            also_called(named(made.call, alias, node=False), alias, value, method is not False)
    if operators := [name for name in aliases if name.startswith("__")]:
        publish(compile_call(made, operator=True), *operators)


def inplace_name(name: str) -> str | None:
    """``add_`` for ``add``, ``__iadd__`` for ``__add__``, nothing for a reflected operator."""
    if not name.startswith("__"):
        return f"{name}_"
    return None if name.startswith("__r") and name != "__rshift__" else f"__i{name[2:]}"


def also_called(function: Callable[..., Any], alias: str, declared: Callable[..., Any], method: bool) -> None:
    """Offer a function under an alias wherever the declared one is offered: as a method of Tensor, and in the ``__all__`` of its module."""
    if method:
        publish(function, alias)
    module = sys.modules[declared.__module__]
    public: list[str] = getattr(module, "__all__", [])
    if declared.__name__ in public:
        setattr(module, alias, function)
        public.append(alias)


F = TypeVar("F", bound=Callable[..., Any])


def public(function: F) -> F:
    """Decorator of a public function that computes nothing by operations: where it fails for a wrong argument, the error names it."""
    return compile_composite(function, None)  # type: ignore[return-value]


COMPOSITES: dict[str, Callable[..., Any]] = {}
"""Every function that is written in terms of operations, by name."""


def composite(
    function: Callable[..., Any] | None = None,
    *,
    method: bool = True,
    aliases: Sequence[str] = (),
    inplace: bool = False,
    device_into: Callable[..., bool] | None = None,
    bare: bool = False,
) -> Any:
    """Register a function written in terms of other operations; its derivatives are theirs.

    Args:
        method, aliases, inplace, device_into: as for ``op``.
        bare: nothing stands around the function, as it hands what it is given to the operation of its name, which names a wrong argument.
    """
    if function is None:
        return lambda f: composite(f, method=method, aliases=aliases, inplace=inplace, device_into=device_into, bare=bare)
    name, value = function.__name__, function
    if name not in OPERATIONS:
        function = compile_composite(value, name)
    elif not bare:
        function = compile_composite(value, None)  # the operation of its name, which it calls, is what is seen
    COMPOSITES[name] = function
    COMPOSED.update((name, *aliases))
    if method:
        publish(function, name)
    for alias in aliases:
        also_called(compile_composite(value, alias), alias, value, method)
    if inplace:

        def call(input: Any, *args: Any, **kwargs: Any) -> Tensor:
            if device_into is not None and is_written_on_device(device_into, input, args, kwargs):
                return input
            kept = may_be_recorded(input, *args, *kwargs.values())
            try:
                return write(input, lambda shadow: value(shadow, *args, **kwargs), f"{name}_", kept)
            except Exception:
                refuse_wrong(f"{name}_", value, input, *args, **kwargs)
                raise

        publish(described_as_inplace(call, name, value), *filter(None, map(inplace_name, (name, *aliases))))
    return function
