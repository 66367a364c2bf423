"""A user's kernel as an operation: its value launches the kernel or runs the host form, its rule runs the adjoint.

The operation has two groups of inputs. Those that the adjoint reads are one list, its last argument, and are saved. Those that it does not
read are arguments of their own in front, declared as ``Joint``, and only their shapes and dtypes are saved. One run of the rule gives the
gradients of all of them. Rules get tensors by the names of the kernel's parameters.
"""

from __future__ import annotations

import functools
import inspect
import keyword
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from gradlib.backend.array import is_array
from gradlib.backend.copying import row_major_copy
from gradlib.backend.dtype import is_differentiable
from gradlib.core.backward import grad as gradient
from gradlib.core.compile import named
from gradlib.core.declaration import Joint
from gradlib.core.grad_mode import enable_grad, is_grad_enabled
from gradlib.core.op import CompiledOp
from gradlib.core.tensor import Tensor, wrap
from gradlib.cuda.kernel_plan import CallInfo, KernelSpec
from gradlib.cuda.launch import Call, launch

Values = dict[str, Any]
Rule = Callable[[Sequence[Any], CallInfo, Values], Mapping[str, Any]]
"""``(g, given, values) -> gradients by name``, where g has the gradient of each output (None where nothing used it).

values has the saved tensors by name, and a `ShapeDtype` for each input that was not saved."""


class ShapeDtype(NamedTuple):
    """The shape and dtype of an array that was not saved."""

    shape: tuple[int, ...]
    dtype: Any


def recorded(
    name: str, inputs: Sequence[str], outputs: Sequence[str], kept: set[str], run: Callable[..., Any], rule: Rule,
    jvp: Callable[..., Any] | None = None,
) -> Callable[[CallInfo, Values], Any]:  # fmt: skip
    """Declare an operation whose tensors are passed by name.

    Args:
        name: shown in profiles, nodes and errors.
        inputs, outputs: the names of its tensors; kept: the names of those that are saved for the rule.
        run: ``(xp, given, values) -> results`` on raw arrays.
        rule: its derivative.
        jvp: ``(given, values, tangents) -> tangents of the outputs``; values and tangents are by the inputs' names.
    Returns: ``(given, values) -> results``, one or a tuple.
    """
    free = [each for each in inputs if each not in kept]
    listed = [each for each in inputs if each in kept]
    single = len(outputs) == 1
    made = [f"out{i}" if not single else "out" for i in range(len(outputs))]
    wanted = [place for place, each in zip(made, outputs, strict=True) if each in kept]

    def values_of(before: Sequence[Any], tensors: Sequence[Any]) -> Values:
        return {**dict(zip(free, before, strict=True)), **dict(zip(listed, tensors, strict=True))}

    def value(xp: Any, given: CallInfo, before: Sequence[Any], tensors: Sequence[Any]) -> Any:
        return run(xp, given, values_of(before, tensors))

    def backward(g: Any, given: CallInfo, before: Sequence[tuple[Any, Any]], tensors: Sequence[Any], results: Sequence[Any]) -> list[Any]:
        values = values_of([ShapeDtype(tuple(shape), dtype) for shape, dtype in before], tensors)
        values.update(zip((each for each in outputs if each in kept), results, strict=True))
        gradients = rule([g] if single else g, given, values)
        return [gradients.get(each) for each in (*free, *listed)]

    def forward(given: CallInfo, before: Sequence[Any], tensors: Sequence[Any], t_before: Sequence[Any], t_tensors: Sequence[Any]) -> Any:
        return jvp(given, values_of(before, tensors), values_of(t_before, t_tensors))  # type: ignore[misc]

    singles = [f"a{i}" for i in range(len(free))]
    texts = _texts(singles, bool(listed), wanted)
    written = {each: eval(text, {"inner": inner}) for (each, text), inner in zip(texts.items(), (value, backward, forward), strict=True)}
    written["value"].__module__ = __name__
    rules = {**dict.fromkeys(singles, Joint()), "tensors": written["rule"]}
    operation = CompiledOp(
        written["value"], "other", rules, name=f"kernel_{name}", sequence="tensors", outputs=tuple(made), complex="explicit",
        jvp=written["jvp"] if jvp is not None else None,
    )  # fmt: skip
    call = public(operation, name)
    return lambda given, values: call(given, *(values[each] for each in free), [values[each] for each in listed])


def public(operation: CompiledOp, name: str) -> Callable[..., Any]:
    """The function of an operation under the user's name for it, behind which an underscore stands where Python has the word."""
    return named(operation.call, f"{name}_" if keyword.iskeyword(name) else name)


def _texts(singles: Sequence[str], listed: bool, wanted: Sequence[str]) -> dict[str, str]:
    """The functions of a declaration, whose parameters say what is kept: each hands on what it is given, in lists, to ``inner``.

    Args:
        singles: names for the inputs that are not kept, of which a rule knows shape and dtype.
        listed: whether there are others, which are the list ``tensors``.
        wanted: the outputs that are kept.
    """
    head = "".join(f"{each}, " for each in singles)
    tangents = "".join(f"t_{each}, " for each in singles)
    pairs = "".join(f"({each}_shape, {each}_dtype), " for each in singles)
    saved = ["tensors"] if listed else []
    asked = ", ".join(["g", "given", *(f"{each}_shape, {each}_dtype" for each in singles), *saved, *wanted])
    return {
        "value": f"lambda xp, given, {head}tensors: inner(xp, given, [{head}], tensors)",
        "rule": f"lambda {asked}: inner(g, given, [{pairs}], {'tensors' if listed else '[]'}, [{', '.join(wanted)}])",
        "jvp": f"lambda given, {head}tensors, {tangents}t_tensors: inner(given, [{head}], tensors, [{tangents}], t_tensors)",
    }


def results_of(made: Any) -> tuple[Any, ...]:
    """A function's results as a tuple."""
    return made if isinstance(made, tuple) else (made,)


def on_tensors(function: Callable[..., Any], args: Sequence[Any]) -> Any:
    """Call a user's function with Tensors where there are arrays: it may use their methods. Of arrays alone it gives arrays again."""
    made = function(*(wrap(x) if is_array(x) or isinstance(x, np.inexact) else x for x in args))
    if any(isinstance(x, Tensor) for x in args):
        return made
    if isinstance(made, dict):
        return {name: _array_of(x) for name, x in made.items()}
    return tuple(map(_array_of, made)) if isinstance(made, tuple) else _array_of(made)


def _array_of(x: Any) -> Any:
    return x._array if isinstance(x, Tensor) else x


def raising(message: str) -> Callable[..., Any]:
    """A rule that raises RuntimeError with this message: there is no derivative."""

    def rule(*values: Any) -> Any:
        raise RuntimeError(message)

    return rule


def asked_of(function: Callable[..., Any]) -> tuple[str, ...]:
    """The names of a function's parameters; of an operation those that its text has, which may be words of Python."""
    return function.names if isinstance(function, Operation) else tuple(inspect.signature(function).parameters)


class Operation:
    """What a user's operations have in common: like a function, one is its own copy; it is pickled as what it was declared with.

    Attributes:
        name: shown in profiles, nodes and errors; names: of its arguments, in order.
        declared: the function that makes it, and its arguments.
    """

    name: str
    names: tuple[str, ...]
    declared: tuple[Callable[..., Any], tuple[Any, ...]]

    def bound(self, args: Sequence[Any], kwargs: Mapping[str, Any], advice: str = "") -> tuple[Any, ...]:
        """The arguments of a call in order. Raises: TypeError that says what it takes, and the advice."""
        by_name = self.names[len(args) :]
        values = {**dict(zip(self.names, args, strict=False)), **kwargs}
        wrong = (
            ("too many positional arguments", len(args) > len(self.names)),
            *((f"multiple values for argument {each!r}", each in self.names and each not in by_name) for each in kwargs),
            *((f"got an unexpected keyword argument {each!r}", each not in self.names) for each in kwargs),
            *((f"missing a required argument: {each!r}", each not in kwargs) for each in by_name),
        )
        for problem, is_there in wrong:
            if is_there:
                given = ", ".join([f"{len(args)} by position", *(f"{each}=" for each in kwargs)])
                raise TypeError(f"{self.name} takes {', '.join(self.names)}, got {given}: {problem}{advice}")
        return tuple(values[each] for each in self.names)

    @functools.cached_property
    def __signature__(self) -> inspect.Signature:
        kind, names = inspect.Parameter.POSITIONAL_OR_KEYWORD, (f"{x}_" if keyword.iskeyword(x) else x for x in self.names)
        return inspect.Signature([inspect.Parameter(each, kind) for each in names])

    def __copy__(self) -> Any:
        return self

    def __deepcopy__(self, memo: Any) -> Any:
        return self

    def __reduce__(self) -> tuple[Callable[..., Any], tuple[Any, ...]]:
        return self.declared


class Implementation:
    """The value of a user's operation: launches the kernel for CuPy arrays, runs the host form for NumPy arrays.

    Args:
        spec: the kernel's declaration and how it is launched.
        host: the host form: takes the kernel's arguments in order and returns its outputs; None without one.
    Attributes:
        before: gives what the results' memory holds before the launch, by its dtype; None for whatever is there.
    """

    def __init__(self, spec: KernelSpec, host: Callable[..., Any] | None) -> None:
        self.spec, self.host = spec, host
        self.before: Callable[[np.dtype[Any]], Any] | None = None

    def __call__(self, xp: Any, given: CallInfo, values: Values) -> Any:
        spec = self.spec
        for name in spec.inputs:
            if not is_array(values[name]):
                raise TypeError(f"{spec.name}: {name} is a Tensor or an array, got {type(values[name]).__name__}")
        arrays = {name: values[name] for name in spec.inputs}
        plan = spec.plan(arrays, given)
        if xp is np:
            return self.on_host(given, arrays, plan.outputs)
        made = {name: self._new(xp, name, arrays, *kind) for name, kind in zip(spec.outputs, plan.outputs, strict=True)}
        empty = [name for name, array in made.items() if array.size and name not in {*spec.zeroed, *spec.updated}] if 0 in plan.grid else []
        if empty:
            raise ValueError(
                f"{spec.name}: no thread runs for these sizes, so nothing writes {', '.join(empty)}; name it in zeroed=, or say threads="
            )
        ready = {name: x if x.flags.c_contiguous else xp.ascontiguousarray(x) for name, x in arrays.items()} | made
        if spec.knows_dimensions:
            ready = {name: spec.joined(name, x) for name, x in ready.items()}
        known = {**plan.sizes, **given.numbers}
        args = tuple(ready[p.name] if p.pointer else known[p.name] for p in spec.declared.declared)
        launch(Call(spec.source, spec.kernel, plan.options, plan.grid, plan.block, args, plan.shared))
        results = tuple(made.values())
        return results[0] if len(results) == 1 else results

    def _new(self, xp: Any, name: str, arrays: Values, shape: tuple[int, ...], dtype: Any) -> Any:
        """Memory for a result."""
        if name in self.spec.updated:
            return row_major_copy(arrays[self.spec.updated[name]])
        if name in self.spec.zeroed:
            return xp.zeros(shape, dtype)
        return xp.empty(shape, dtype) if self.before is None else xp.full(shape, self.before(np.dtype(dtype)), dtype)

    def on_host(self, given: CallInfo, arrays: Values, outputs: Sequence[tuple[tuple[int, ...], Any]]) -> Any:
        """Run the host form, and check its results against the kernel's declaration."""
        spec = self.spec
        if self.host is None:
            raise RuntimeError(
                f"{spec.name} has no host form, so it runs on a GPU only, got tensors on the CPU. Move them with .cuda(), or give host=, "
                "the same in NumPy's or gradlib's functions."
            )
        results = results_of(self.host(*({**arrays, **given.numbers}[name] for name in spec.arguments)))
        if len(results) != len(outputs):
            raise TypeError(f"{spec.name}: the host form gives {len(outputs)} results ({', '.join(spec.outputs)}), got {len(results)}")
        checked: list[np.ndarray] = []
        for name, result, (shape, dtype) in zip(spec.outputs, results, outputs, strict=True):
            array = own_array(result, (*arrays.values(), *checked))
            if array.shape != tuple(shape) or array.dtype != dtype:
                wanted, got = f"{dtype} of shape {tuple(shape)}", f"{array.dtype} of shape {array.shape}"
                raise TypeError(f"{spec.name}: the host form gives {wanted} for {name}, got {got}")
            checked.append(array)
        return checked[0] if len(checked) == 1 else tuple(checked)


def own_array(result: Any, others: Iterable[Any]) -> np.ndarray:
    """A host form's result in memory of its own, as a kernel's has: a copy of what shares that of an argument or another result."""
    array = np.asarray(result)
    is_shared = not array.flags.writeable or any(isinstance(x, np.ndarray) and np.may_share_memory(array, x) for x in others)
    return array.copy() if is_shared else array


def host_gradients(
    implementation: Implementation, given: CallInfo, values: Values, gradients: Sequence[Any], constant: frozenset[str]
) -> Values:
    """The gradients of a host form, by recording the NumPy or gradlib functions that it calls; takes and returns raw arrays."""
    spec = implementation.spec
    moved = [name for name, x in values.items() if name not in constant and is_differentiable(x.dtype)]
    with enable_grad():
        leaves = {name: wrap(x).want_grad() if name in moved else wrap(x) for name, x in values.items()}
        results = results_of(implementation.host(*({**leaves, **given.numbers}[name] for name in spec.arguments)))  # type: ignore[misc]
    if not all(isinstance(each, Tensor) for each in results):
        raise RuntimeError(
            f"{spec.name}: the host form cannot be differentiated, as of Tensors it gives {type(results[0]).__name__}. Write it with "
            "gradlib's functions, or give host_adjoint="
        )
    pairs = [(y, wrap(g)) for y, g in zip(results, gradients, strict=True) if y.requires_grad and g is not None]
    if not pairs or not moved:
        return {}
    found = gradient([y for y, _ in pairs], [leaves[n] for n in moved], [g for _, g in pairs], allow_unused=True, materialize_grads=True)
    return dict(zip(moved, (each._array for each in found), strict=True))


def refuse_constants(name: str, constant: frozenset[str], values: Values) -> None:
    """Refuse inputs that were declared constant and require a gradient or have a tangent, which would be lost. Raises: ValueError."""
    for each in constant:
        value = values.get(each)
        if not isinstance(value, Tensor):
            continue
        moves = value._meta is not None and value._meta.tangents
        if moves or (value.requires_grad and is_grad_enabled()):
            has, advice = "has a tangent" if moves else "requires grad", "detach it, or let the adjoint give its gradient"
            raise ValueError(f"{name}: {each} is a constant, got a Tensor that {has}; {advice}")
