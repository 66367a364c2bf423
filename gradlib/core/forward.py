"""Forward mode: how a tangent passes through an operation, derived from its declaration.

An elementwise operation multiplies the tangent by the derivative its rule multiplies the cotangent by; a linear one is applied to the
tangent itself; a bilinear one once to the tangent of each side. For the rest the rule is transposed: it is linear in the cotangent, and
differentiating it by that (the rules are differentiable) gives the map of tangents. So no operation needs a formula of its own.

A level is an interpreter of operations (``core/modes.py``). A tensor's tangents are kept by level, and a level
computes its tangents below itself, so nested levels never see each other's.
"""

from __future__ import annotations

import weakref
from functools import reduce
from operator import add
from typing import Any

from gradlib.backend.array import zeros_like
from gradlib.backend.dtype import is_differentiable
from gradlib.core.backward import grad as gradient
from gradlib.core.batched import Batched, broadcast_as, is_batched_at, levels_of
from gradlib.core.compile_forward import zero
from gradlib.core.declaration import Op
from gradlib.core.dispatch import dispatch
from gradlib.core.grad_mode import enable_grad, no_grad
from gradlib.core.modes import Interpreter, lower, plain_saving, skipping, thread_state
from gradlib.core.node import Output
from gradlib.core.tensor import Tensor, wrap
from gradlib.core.views import View, replay


class ForwardLevel(Interpreter):
    """One level of forward mode, active while entered."""

    quick = True

    def __init__(self, in_inference: bool = False) -> None:
        self.in_inference = in_inference
        self.noted: list[weakref.ref[Any]] = []  # tensors and nodes that hold tangents which are part of a graph
        self.limit = 64

    def __exit__(self, *exc: object) -> None:
        """Drop every tangent of this level. A recorded tangent would otherwise be in a reference cycle with the tensor that carries it."""
        super().__exit__(*exc)
        for ref in self.noted:
            each = ref()
            if isinstance(each, Tensor) and each._meta is not None:
                (each._meta.tangents or {}).pop(self, None)
                view = each._meta.view
                while view is not None:
                    (view.duals or {}).pop(self, None)
                    view = view.parent
            elif each is not None and not isinstance(each, Tensor):
                for tangents in each.meta.output_tangents.values():
                    tangents.pop(self, None)
        self.noted = []

    def _note(self, holder: Any) -> None:
        if len(self.noted) >= self.limit:
            self.noted = [ref for ref in self.noted if ref() is not None]
            self.limit = 64 + 2 * len(self.noted)
        self.noted.append(weakref.ref(holder))

    @property
    def asleep(self) -> bool:
        """Whether it is inactive: in inference mode no tensor carries a tangent, unless the transform was itself called there."""
        return thread_state.inference and not self.in_inference

    def tangent(self, value: Any) -> Tensor | None:
        """The tangent that a value carries at this level, or None."""
        if self.asleep:
            return None
        if type(value) is Batched:
            tangent = self.tangent(value.value)
            with skipping(self):
                return None if tangent is None else value.level.logical(tangent)
        if not isinstance(value, Tensor) or value._meta is None or value._meta.tangents is None:
            return None
        tangents = value._meta.tangents
        tangent = tangents.get(self)
        if tangent is not None and not isinstance(tangent, Tensor):
            tangent = tangents[self] = wrap(tangent)  # kept as this Tensor, since a custom Function may write to it
        return tangent

    def attach(self, tensor: Tensor, tangent: Tensor) -> None:
        """Let a tensor carry a tangent at this level. The tangent of a logical tensor belongs to its physical tensor, as its node does."""
        if type(tensor) is Batched:
            with skipping(self):
                tangent = tensor.level.physical(tangent)
            return self.attach(tensor.value, tangent)
        meta = tensor.meta
        meta.tangents = {self: tangent} if meta.tangents is None else {**meta.tangents, self: tangent}
        node = tensor._node.parent if isinstance(tensor._node, Output) else tensor._node
        recorded = tangent._node is not None
        if recorded:
            self._note(tensor)
        if node is not None and node.keeps_outputs:
            node.meta.output_tangents[tensor.output_nr] = meta.tangents
            if recorded:
                self._note(node)
        return None

    def dual(self, primal: Tensor, tangent: Tensor | None) -> Tensor:
        """A view that carries a tangent of its own (or none), independent of the tangent of its base."""
        with skipping(self):
            made = primal.view_as(primal)
        physical = made
        while type(physical) is Batched:
            physical = physical.value
        view = physical.meta.view
        if view is not None:
            view.duals = {self: None}
        if tangent is not None and not self.asleep:
            self.attach(made, tangent)
            if view is not None:
                view.duals = {self: (physical.meta.tangents or {})[self]}
        return made

    def written(self, target: Tensor, new: Tensor | None) -> None:
        """Give a tensor that was written the tangent of its new values (None: zeros); call it below this level.

        A tangent may be another tensor's too, so it is a copy of the base's tangent that is written, from which those of all views are
        taken anew. A dual tensor is the base of its views.
        """
        view = target.meta.view
        root = self._root(view)
        base = target if view is None else view.base
        held = self.tangent(base) if root is None else self._held(root)
        tangent = self._zeros_for(root, base) if held is None else held
        tangent = broadcast_as(tangent, new, every=True).clone()
        if type(tangent) is not Batched:
            laid_out = self._zeros_for(root, base)
            if laid_out._array.strides != tangent._array.strides:  # with the base's strides, so that the same steps give views of it
                tangent = laid_out.copy_(tangent)
        region = tangent if view is root else replay(view.path(root), tangent)
        if new is None:
            region.zero_()
        else:
            region.copy_(new)
        if root is None:
            self.attach(base, tangent)
        else:
            root.duals = {**(root.duals or {}), self: tangent}
        for ref in tuple(target.version.views):
            each = ref()
            seen = None if each is None or each._meta is None else each._meta.view
            if each is not None and seen is not None and seen.base is base and self._root(seen) is root:
                self.attach(each, replay(seen.path(root), tangent))

    def _root(self, view: View | None) -> View | None:
        """The tensor at which the tangent of a view at this level begins: a view that was made dual, or None for the base."""
        while view is not None and (view.duals is None or self not in view.duals):
            view = view.parent
        return view

    def _held(self, root: View) -> Tensor | None:
        tangent = root.duals[self] if root.duals is not None else None
        return tangent if tangent is None or isinstance(tangent, Tensor) else wrap(tangent)

    @staticmethod
    def _zeros_for(root: View | None, base: Tensor) -> Tensor:
        array = base._array if root is None else replay(root.path(), base._array)
        return wrap(zeros_like(array))

    def process(self, op: Op, args: tuple[Any, ...]) -> Any:
        """Run an operation and carry the tangents of its inputs to its outputs."""
        if self.asleep:
            with lower(self):
                return dispatch(op, args)
        inputs = op.inputs(args)
        tangents = [self.tangent(x) for x in inputs]
        with lower(self):
            result = dispatch(op, args)
            if all(t is None for t in tangents) or not op.rules:
                return result
            outputs = result if isinstance(result, tuple) else (result,)
            made = jvp(op, args, inputs, tangents, outputs)
        for output, tangent in zip(outputs, made, strict=True):
            if tangent is not None and is_differentiable(output._array.dtype):
                self.attach(output, tangent)
        return result


def jvp(
    op: Op, args: tuple[Any, ...], inputs: list[Any], tangents: list[Tensor | None], outputs: tuple[Tensor, ...]
) -> tuple[Tensor | None, ...]:
    """The tangents of an operation's outputs.

    Args:
        op, args: the operation and its arguments.
        inputs, tangents: its tensor arguments, flattened, and the tangent of each or None.
        outputs: what it gave.
    """
    if op.jvp is not None and (op.kind != "elementwise" or all(t is not None for t in tangents)):
        return _by_formula(op, args, tangents, outputs)
    apart = len(op.joint)
    if op.kind == "linear" and all(t is None for t in tangents[:apart]):
        last = len(op.tensors) - 1
        moved = [
            t if t is not None else _zero(x) if i >= apart and op.tensors[min(i, last)] in op.rules else x
            for i, (x, t) in enumerate(zip(inputs, tangents, strict=True))
        ]
        return _all(dispatch(op, _with(op, args, inputs, moved)))
    if op.kind == "bilinear":
        terms = [
            dispatch(op, _with(op, args, inputs, [t if j == i else x for j, x in enumerate(inputs)]))
            for i, t in enumerate(tangents)
            if t is not None
        ]
        return (sum(terms[1:], terms[0]),)
    if (
        op.kind == "elementwise"
        and len(outputs) == 1
        and (op.complex != "explicit" or not any(_is_complex(x) for x in (*inputs, *outputs)))
    ):
        return (_by_rules(op, args, tangents, outputs[0]),)
    if (
        len(outputs) == 1 and not outputs[0].ndim and not op.joint
        and not any(_is_complex(x) for x in (*inputs, *outputs))
    ):  # fmt: skip
        return (_by_gradient(op, args, tangents, outputs[0]),)
    if not thread_state.saving:
        return _by_transposition(op, args, inputs, tangents)
    with plain_saving():  # the user's hooks are not for what is saved here
        return _by_transposition(op, args, inputs, tangents)


def _all(result: Any) -> tuple[Tensor, ...]:
    return result if isinstance(result, tuple) else (result,)


def _is_complex(value: Any) -> bool:
    return isinstance(value, complex) or getattr(getattr(value, "dtype", None), "kind", "") == "c"


def _zero(value: Any) -> Any:
    """The tangent of an input that has none: zeros of its shape and dtype; for a number 0, complex where it is."""
    if type(value) is Batched:
        return value.again(_zero(value.value))
    return wrap(zeros_like(value._array)) if isinstance(value, Tensor) else zero(value)


def _with(op: Op, args: tuple[Any, ...], inputs: list[Any], moved: list[Any]) -> tuple[Any, ...]:
    """The arguments, with the differentiable inputs replaced."""
    single = op.tensors if op.sequence is None else op.tensors[:-1]
    kept = [new if name in op.rules else old for name, old, new in zip(single, inputs, moved, strict=False)]
    return tuple(op.with_inputs(args, kept + moved[len(single) :]))


def _named(op: Op, args: tuple[Any, ...], outputs: tuple[Tensor, ...], name: str) -> Any:
    """The value of a name that a rule asks for."""
    kind, place = op.decoded(name)
    if kind == "output":
        return outputs[place]
    if kind == "argument":
        return args[place]
    value = args[op.positions[place]]
    if kind == "tensor":
        return value
    if op.tensors[place] == op.sequence:
        return [getattr(v, kind) for v in value]
    return getattr(value, kind, () if kind == "shape" else None)


def _by_rules(op: Op, args: tuple[Any, ...], tangents: list[Tensor | None], output: Tensor) -> Tensor:
    """Elementwise: each rule, which multiplies by the derivative, applied to the tangent spread over the output."""
    terms: list[Tensor] = []
    for name, tangent in zip(op.tensors, tangents, strict=True):
        if tangent is None or name not in op.rules:
            continue
        if tangent._array.dtype != output._array.dtype:
            tangent = tangent.to(output._array.dtype)
        if tangent._array.shape != output._array.shape:
            tangent = tangent.expand(output._array.shape)
        known = {need: _named(op, args, (output,), need) for need in op.rule_params[name] if need != "g"}
        terms.append(op.rules[name](**{"g": tangent, **known} if "g" in op.rule_params[name] else known))
    return reduce(add, terms)


def _by_gradient(op: Op, args: tuple[Any, ...], tangents: list[Tensor | None], output: Tensor) -> Tensor:
    """Of one number: the sum of the products of its gradient with the tangents."""
    terms: list[Tensor] = []
    for place, name in enumerate(op.tensors):
        given = tangents[place:] if name == op.sequence else [tangents[place]]
        if name not in op.rules or all(t is None for t in given):
            continue
        known = {need: _named(op, args, (output,), need) for need in op.rule_params[name] if need != "g"}
        slopes = op.rules[name](**{"g": _zero(output) + 1, **known} if "g" in op.rule_params[name] else known)
        for slope, tangent in zip(slopes if name == op.sequence else [slopes], given, strict=True):
            if slope is not None and tangent is not None:
                terms.append((slope * tangent).sum().to(output._array.dtype))
    return reduce(add, terms) if terms else _zero(output)


def _by_formula(op: Op, args: tuple[Any, ...], tangents: list[Tensor | None], outputs: tuple[Tensor, ...]) -> tuple[Tensor | None, ...]:
    """The operation's own ``jvp``, whose parameters are names as in a rule and ``t_NAME`` for the tangent of an input."""
    import inspect

    known: dict[str, Any] = {}
    for name in inspect.signature(op.jvp).parameters:  # type: ignore[arg-type]
        if name.startswith("t_") and name[2:] in op.tensors:
            place = op.tensors.index(name[2:])
            if name[2:] == op.sequence:
                given = args[op.params.index(name[2:])]
                known[name] = [_zero(x) if t is None else t for x, t in zip(given, tangents[place:], strict=True)]
            else:
                tangent = tangents[place]
                known[name] = _zero(args[op.params.index(name[2:])]) if tangent is None else tangent
        else:
            known[name] = _named(op, args, outputs, name)
    made = _all(op.jvp(**known))  # type: ignore[misc]
    return tuple(t if t is None else t.to(y._array.dtype) for t, y in zip(made, outputs, strict=True))


def _leaf(x: Tensor) -> Tensor:
    """A leaf with the same values, and the tangents of the levels below."""
    with no_grad():
        return x.view_as(x).want_grad()


def _alike(inputs: list[Any]) -> list[Any]:
    """The inputs, each as a logical tensor at every level of vmap at which one of them is one."""
    levels = {level for x in inputs for level in levels_of(x)}
    for level in sorted(levels, key=lambda each: each.depth):
        inputs = [level.logical(level.broadcast(x)) if isinstance(x, Tensor) and not is_batched_at(level, x) else x for x in inputs]
    return inputs


def _by_transposition(op: Op, args: tuple[Any, ...], inputs: list[Any], tangents: list[Tensor | None]) -> tuple[Tensor | None, ...]:
    """Transpose the backward rule, which is linear in the cotangent: its gradient with respect to the cotangent maps tangents."""
    recording = thread_state.grad_enabled and any(isinstance(x, Tensor) and x.requires_grad for x in (*inputs, *tangents))
    with enable_grad():
        inputs = _alike(inputs)
        fresh = [
            x if t is None else (x.clone() if recording and x.requires_grad else _leaf(x)) for x, t in zip(inputs, tangents, strict=True)
        ]
        outputs = _all(dispatch(op, _with(op, args, inputs, fresh)))
        live = [y for y in outputs if y.requires_grad]
        if not live:
            return tuple(None for _ in outputs)
        cotangents = [_zero(y).want_grad() for y in live]
        moved = [x for x, t in zip(fresh, tangents, strict=True) if t is not None]
        back = gradient(live, moved, cotangents, create_graph=True, allow_unused=True)
        pairs = [(d, t) for d, t in zip(back, [t for t in tangents if t is not None], strict=True) if d is not None and d.requires_grad]
        if not pairs:
            return tuple(_zero(y) if y.requires_grad else None for y in outputs)
        found = gradient(
            [d for d, _ in pairs], cotangents, [t.to(d._array.dtype) for d, t in pairs], create_graph=recording, materialize_grads=True
        )
    ahead = iter(found)
    return tuple(next(ahead) if y.requires_grad else None for y in outputs)
