"""The derivative of a user's kernel: one function for each way in which the user may give it. Each returns a `Derivative`."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np

from gradlib.backend.array import device_index, zeros
from gradlib.core.tensor import Tensor
from gradlib.cuda.kernel_op import Implementation, Rule, Values, asked_of, host_gradients, on_tensors, raising, recorded, results_of
from gradlib.cuda.kernel_plan import CallInfo, KernelSpec
from gradlib.cuda.signature import C_TYPES, FURTHER_TYPES

Derivative = tuple[set[str], Rule]
"""The names of the tensors that are saved for a rule, and the rule."""

Apply = Callable[[CallInfo, Values], Any]


def _with_zeros(g: Sequence[Any], outputs: Sequence[tuple[tuple[int, ...], Any]]) -> list[Any]:
    """The gradient of each output, zeros for outputs that nothing used."""
    known = next(each for each in g if each is not None)
    place = device_index(known._array if isinstance(known, Tensor) else known)
    return [zeros(tuple(shape), dtype, place) if each is None else each for each, (shape, dtype) in zip(g, outputs, strict=True)]


def no_derivative(spec: KernelSpec) -> Derivative:
    """The derivative of a kernel without an adjoint: an error."""
    return set(), raising(
        f"{spec.name} has no derivative: give adjoint=, the name of the kernel that computes it or a function of gradlib's"
    )


def first_order_only(spec: KernelSpec, of: str) -> Derivative:
    """The derivative of an adjoint that is only a kernel: an error, as the kernel can be differentiated only once."""
    return set(), raising(
        f"trying to differentiate {spec.name} twice, or in forward mode, but its derivative is the kernel {of!r}, which has none itself. "
        "Give adjoint= as an operation that can be differentiated (another gradlib.cuda.kernel, or a function of gradlib's), or "
        "linear=True if the kernel is a linear map, and for forward mode jvp="
    )


def by_kernel(spec: KernelSpec, adjoint: KernelSpec, apply: Apply) -> Derivative:
    """The derivative by an adjoint kernel, one launch of which gives all gradients."""

    def rule(g: Sequence[Any], given: CallInfo, values: Values) -> Mapping[str, Any]:
        plan = spec.plan({name: values[name] for name in spec.inputs}, given)
        known = values | dict(zip((f"grad_{name}" for name in spec.outputs), _with_zeros(g, plan.outputs), strict=True))
        numbers = {name: given.numbers[name] for name in adjoint.numbers}
        sizes = {**plan.sizes, **{name: value for name, value in given.numbers.items() if name not in numbers}}
        outputs = {name: (tuple(values[name[5:]].shape), values[name[5:]].dtype) for name in adjoint.outputs}
        made = apply(CallInfo(numbers, sizes, plan.types, outputs), {name: known[name] for name in adjoint.inputs})
        return {name[5:]: each for name, each in zip(adjoint.outputs, results_of(made), strict=True)}

    return set(adjoint.inputs) - {f"grad_{name}" for name in spec.outputs}, rule


def by_forward(spec: KernelSpec, gradients: Sequence[str], apply: Apply) -> Derivative:
    """The derivative of a linear kernel's adjoint: the kernel itself, run on the cotangents of the gradients that the adjoint returns."""
    constants = set(spec.inputs) - {name[5:] for name in gradients}

    def rule(g: Sequence[Any], given: CallInfo, values: Values) -> Mapping[str, Any]:
        moved = _with_zeros(g, [given.outputs[name] for name in gradients])
        inputs = dict(zip((name[5:] for name in gradients), moved, strict=True))
        numbers = {name: {**given.sizes, **given.numbers}[name] for name in spec.numbers}
        made = apply(CallInfo(numbers), {name: inputs.get(name, values.get(name)) for name in spec.inputs})
        return {f"grad_{name}": each for name, each in zip(spec.outputs, results_of(made), strict=True)}

    return constants, rule


def by_function(spec: KernelSpec, function: Callable[..., Any], constant: frozenset[str]) -> Derivative:
    """The derivative by a function written with gradlib's, or by another kernel. The names of its parameters say which tensors it takes."""
    if not callable(function) or type(function).__module__.startswith("cupy"):
        raise TypeError(
            f"{spec.name}: adjoint is the name of a kernel in the same source, another gradlib.cuda.kernel or a function of gradlib's, "
            f"got {type(function).__name__}; a kernel of CuPy's becomes one by gradlib.cuda.kernel"
        )
    names = asked_of(function)
    known = {*spec.inputs, *spec.outputs, *spec.numbers, *(f"grad_{name}" for name in spec.outputs)}
    if unknown := set(names) - known - set(spec.derived).union(*(shape.names for shape in spec.shapes.values())):
        raise ValueError(
            f"{spec.name}: adjoint asks for {sorted(unknown)}; there are {', '.join(sorted(known))}. Rename its parameters (for what CuPy "
            "made by parameters=), or wrap it in a function that has these names"
        )
    targets = tuple(name for name in spec.inputs if name not in constant and not is_integer(spec, name))
    outputs = getattr(function, "outputs", None)
    if outputs is not None:
        targets = tuple(name[5:] for name in outputs)
        if set(targets) - set(spec.inputs):
            raise ValueError(f"{spec.name}: its adjoint {function.__name__} gives {', '.join(outputs)}; name them grad_ and the input")

    def rule(g: Sequence[Any], given: CallInfo, values: Values) -> Mapping[str, Any]:
        plan = spec.plan({name: values[name] for name in spec.inputs}, given)
        gradients = dict(zip((f"grad_{name}" for name in spec.outputs), _with_zeros(g, plan.outputs), strict=True))
        numbers = {name: x.item() if isinstance(x, np.generic) else x for name, x in given.numbers.items()}  # NumPy's would become Tensors
        available = {**plan.sizes, **numbers, **values, **gradients}
        made = on_tensors(function, [available[name] for name in names])
        if isinstance(made, dict):
            if unknown := set(made) - set(spec.inputs):
                known = ", ".join(targets)
                raise ValueError(f"{spec.name}: adjoint gives gradients by input, got {sorted(unknown)}; a dict has the keys {known}")
            return made
        if len(results_of(made)) != len(targets):
            raise TypeError(f"{spec.name}: adjoint gives the gradients by {', '.join(targets)}, got {len(results_of(made))} results")
        return dict(zip(targets, results_of(made), strict=True))

    return set(names) & {*spec.inputs, *spec.outputs}, rule


def by_recording(
    implementation: Implementation, constant: frozenset[str], adjoint: str, again: Callable[[Sequence[str], str], Derivative]
) -> Derivative:
    """The derivative of a host form, found by recording the NumPy or gradlib functions that it calls. Used on the host only.

    Args:
        implementation: the kernel and its host form.
        constant: the names of inputs without a gradient.
        adjoint: the name of the adjoint kernel that it replaces on the host.
        again: ``(names of the gradients, adjoint) -> Derivative``: the second derivative.
    """
    spec = implementation.spec
    gradients = [f"grad_{name}" for name in spec.outputs]

    def run(xp: Any, given: CallInfo, values: Values) -> Any:
        inputs = {name: values[name] for name in spec.inputs}
        found = host_gradients(implementation, given, inputs, [values[name] for name in gradients], constant)
        made = tuple(found[name] if name in found else xp.zeros_like(inputs[name]) for name in targets)
        return made[0] if len(made) == 1 else made

    targets = [name for name in spec.inputs if name not in constant and not is_integer(spec, name)]
    results = [f"grad_{name}" for name in targets]
    kept, twice = again(results, adjoint)
    transposed = recorded(f"{spec.name}_adjoint", (*gradients, *spec.inputs), results, kept, run, twice)

    def rule(g: Sequence[Any], given: CallInfo, values: Values) -> Mapping[str, Any]:
        plan = spec.plan({name: values[name] for name in spec.inputs}, given)
        known = values | dict(zip(gradients, _with_zeros(g, plan.outputs), strict=True))
        outputs = {f"grad_{name}": (tuple(values[name].shape), values[name].dtype) for name in targets}
        made = transposed(CallInfo(given.numbers, plan.sizes, plan.types, outputs), known)
        return dict(zip(targets, results_of(made), strict=True))

    return set(spec.inputs), rule


def is_integer(spec: KernelSpec, name: str) -> bool:
    """Whether an input is declared as an array of integers or bools, which have no gradient."""
    ctype = spec.kinds[name].ctype
    dtype = C_TYPES.get(ctype) or FURTHER_TYPES.get(ctype, "")
    return dtype.startswith(("int", "uint", "bool"))
