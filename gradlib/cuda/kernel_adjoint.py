"""The derivative of a user's kernel, in each of the ways in which it may be given: what must be kept for it, and the rule."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from gradlib.backend.array import device_index, zeros
from gradlib.core.tensor import Tensor
from gradlib.cuda.kernel_op import Launched, Rule, Values, host_gradients, raising, recorded
from gradlib.cuda.kernel_plan import Form, Given
from gradlib.cuda.signature import C_TYPES, FURTHER_TYPES

Derivative = tuple[set[str], Rule]
"""The names of the tensors whose values a rule reads, and the rule."""

Apply = Callable[[Given, Values], Any]


def results_of(made: Any) -> tuple[Any, ...]:
    return made if isinstance(made, tuple) else (made,)


def _with_zeros(g: Sequence[Any], outputs: Sequence[tuple[tuple[int, ...], Any]]) -> list[Any]:
    """The gradient of each output, zeros for what nothing used."""
    known = next(each for each in g if each is not None)
    place = device_index(known._array if isinstance(known, Tensor) else known)
    return [zeros(tuple(shape), dtype, place) if each is None else each for each, (shape, dtype) in zip(g, outputs, strict=True)]


def no_derivative(form: Form) -> Derivative:
    """That of a kernel without an adjoint."""
    return set(), raising(
        f"{form.name} has no derivative: give adjoint=, the name of the kernel that computes it or a function of gradlib's"
    )


def once_only(form: Form, of: str) -> Derivative:
    """That of an adjoint which is a kernel and nothing more."""
    return set(), raising(
        f"trying to differentiate {form.name} twice, or in forward mode, but its derivative is the kernel {of!r}, which has none itself. "
        "Give adjoint= as an operation that can be differentiated (another gradlib.cuda.kernel, or a function of gradlib's), or "
        "linear=True if the kernel is a linear map, and for forward mode jvp="
    )


def by_kernel(form: Form, adjoint: Form, apply: Apply) -> Derivative:
    """One launch of the adjoint kernel gives all gradients."""

    def rule(g: Sequence[Any], given: Given, values: Values) -> Mapping[str, Any]:
        plan = form.plan({name: values[name] for name in form.inputs}, given)
        known = values | dict(zip((f"grad_{name}" for name in form.outputs), _with_zeros(g, plan.outputs), strict=True))
        numbers = {name: given.numbers[name] for name in adjoint.numbers}
        sizes = {**plan.sizes, **{name: value for name, value in given.numbers.items() if name not in numbers}}
        outputs = {name: (tuple(values[name[5:]].shape), values[name[5:]].dtype) for name in adjoint.outputs}
        made = apply(Given(numbers, sizes, plan.types, outputs), {name: known[name] for name in adjoint.inputs})
        return {name[5:]: each for name, each in zip(adjoint.outputs, results_of(made), strict=True)}

    return set(adjoint.inputs) - {f"grad_{name}" for name in form.outputs}, rule


def by_forward(form: Form, gradients: Sequence[str], apply: Apply) -> Derivative:
    """The adjoint of the adjoint of a linear kernel: the kernel itself, on what came for the gradients that the adjoint gives."""
    constants = set(form.inputs) - {name[5:] for name in gradients}

    def rule(g: Sequence[Any], given: Given, values: Values) -> Mapping[str, Any]:
        moved = _with_zeros(g, [given.outputs[name] for name in gradients])
        inputs = dict(zip((name[5:] for name in gradients), moved, strict=True))
        numbers = {name: {**given.sizes, **given.numbers}[name] for name in form.numbers}
        made = apply(Given(numbers), {name: inputs.get(name, values.get(name)) for name in form.inputs})
        return {f"grad_{name}": each for name, each in zip(form.outputs, results_of(made), strict=True)}

    return constants, rule


def by_function(form: Form, function: Callable[..., Any], constant: frozenset[str]) -> Derivative:
    """A function of gradlib's, or another kernel, whose parameters' names say what it is given."""
    names = tuple(inspect.signature(function).parameters)
    known = {*form.inputs, *form.outputs, *form.numbers, *(f"grad_{name}" for name in form.outputs)}
    if unknown := set(names) - known - set().union(*(shape.names for shape in form.shapes.values())):
        raise ValueError(f"{form.name}: adjoint asks for {sorted(unknown)}; there are {', '.join(sorted(known))}")
    targets = tuple(name for name in form.inputs if name not in constant and not is_whole(form, name))
    outputs = getattr(function, "outputs", None)
    if outputs is not None:
        targets = tuple(name[5:] for name in outputs)
        if set(targets) - set(form.inputs):
            raise ValueError(f"{form.name}: its adjoint {function.__name__} gives {', '.join(outputs)}; name them grad_ and the input")

    def rule(g: Sequence[Any], given: Given, values: Values) -> Mapping[str, Any]:
        plan = form.plan({name: values[name] for name in form.inputs}, given)
        gradients = dict(zip((f"grad_{name}" for name in form.outputs), _with_zeros(g, plan.outputs), strict=True))
        available = {**plan.sizes, **given.numbers, **values, **gradients}
        made = function(*(available[name] for name in names))
        if isinstance(made, dict):
            return made
        if len(results_of(made)) != len(targets):
            raise TypeError(f"{form.name}: adjoint gives the gradients by {', '.join(targets)}, got {len(results_of(made))} results")
        return dict(zip(targets, results_of(made), strict=True))

    return set(names) & {*form.inputs, *form.outputs}, rule


def by_recording(
    launched: Launched, constant: frozenset[str], adjoint: str, again: Callable[[Sequence[str], str], Derivative]
) -> Derivative:
    """On the host, that of a host form which is written with NumPy's or gradlib's functions.

    ``again`` gives its own derivative, from the names of its results and that of the adjoint kernel in whose place it stands.
    """
    form = launched.form
    gradients = [f"grad_{name}" for name in form.outputs]

    def run(xp: Any, given: Given, values: Values) -> Any:
        inputs = {name: values[name] for name in form.inputs}
        found = host_gradients(launched, given, inputs, [values[name] for name in gradients], constant)
        made = tuple(found[name] if name in found else xp.zeros_like(inputs[name]) for name in targets)
        return made[0] if len(made) == 1 else made

    targets = [name for name in form.inputs if name not in constant and not is_whole(form, name)]
    results = [f"grad_{name}" for name in targets]
    kept, twice = again(results, adjoint)
    transposed = recorded(f"{form.name}_adjoint", (*gradients, *form.inputs), results, kept, run, twice)

    def rule(g: Sequence[Any], given: Given, values: Values) -> Mapping[str, Any]:
        plan = form.plan({name: values[name] for name in form.inputs}, given)
        known = values | dict(zip(gradients, _with_zeros(g, plan.outputs), strict=True))
        outputs = {f"grad_{name}": (tuple(values[name].shape), values[name].dtype) for name in targets}
        made = transposed(Given(given.numbers, plan.sizes, plan.types, outputs), known)
        return dict(zip(targets, results_of(made), strict=True))

    return set(form.inputs), rule


def is_whole(form: Form, name: str) -> bool:
    """Whether an input is declared as an array of integers or bools, which has no gradient."""
    ctype = next(p.ctype for p in form.declared.declared if p.name == name)
    dtype = C_TYPES.get(ctype) or FURTHER_TYPES.get(ctype, "")
    return dtype.startswith(("int", "uint", "bool"))
