"""Jacobians, Hessians and products with them at one point. Source: torch.autograd.functional.

The functions of ``gradlib.func`` compose and are quicker. These return tuples, as torch's do, and their ``strict`` mode raises where a
result would be zero because the output does not depend on an input.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from gradlib.backend.array import namespace, on_device_of
from gradlib.core.backward import grad
from gradlib.core.grad_mode import enable_grad, set_grad_enabled
from gradlib.core.modes import as_outside
from gradlib.core.tensor import Tensor, wrap
from gradlib.func.batching import over_rows
from gradlib.func.jacobians import basis, jacfwd, storage
from gradlib.ops.create import zeros_like
from gradlib.ops.join import stack

__all__ = ["hessian", "hvp", "jacobian", "jvp", "vhp", "vjp"]
Tensors = tuple[Tensor, ...]

# ---- what they share ------------------------------------------------------------------------------------------------------------------


def _tuple(value: Any, what: str, name: str) -> tuple[bool, Tensors]:
    """Whether a value is a tuple, and the value as a tuple. Raises: TypeError for anything but Tensors."""
    several = isinstance(value, tuple)
    values = value if several else (value,)
    for i, each in enumerate(values):
        if not isinstance(each, Tensor):
            found = f"value at index {i} has type {type(each)}" if several else f"given {what} has type {type(each)}"
            raise TypeError(f"The {what} given to {name} must be either a Tensor or a tuple of Tensors but the {found}.")
    return several, values


def _opened(values: Tensors, create_graph: bool, differentiable: bool) -> Tensors:
    """Inputs for the computation: connected to the given tensors' history with ``create_graph``, else detached."""
    made = []
    for value in values:
        if create_graph:
            own = value.view_as(value)
            made.append(own.want_grad() if differentiable else own)
        else:
            made.append(value.detach().requires_grad_(differentiable))
    return tuple(made)


def _opened_inputs(inputs: Any, name: str, create_graph: bool) -> tuple[bool, Tensors]:
    """Whether the inputs are a tuple, and the tuple, to be differentiated by."""
    several, given = _tuple(inputs, "inputs", name)
    return several, _opened(given, create_graph, True)


def _closed(made: Any, create_graph: bool, several: bool) -> Any:
    """A result for the caller: detached unless ``create_graph``, and a single Tensor unless a tuple is wanted."""
    if isinstance(made, tuple):
        made = tuple(_closed(each, create_graph, True) for each in made)
        return made if several else made[0]
    return made if create_graph else made.detach()


_INDEPENDENT = {
    "outputs": (
        "Output {i} of the user-provided function does not require gradients. The outputs must be computed in a differentiable manner "
        "from the input when running in strict mode."
    ),
    "jacobian": (
        "While computing the hessian, found that the jacobian of the user-provided function with respect to input {i} is independent of "
        "the input. This is not allowed in strict mode. You should ensure that your function is twice differentiable and that the "
        "jacobian depends on the inputs (this would be violated by a linear function for example)."
    ),
    "hessian": (
        "The hessian of the user-provided function with respect to input {i} is independent of the input. This is not allowed in strict "
        "mode. You should ensure that your function is thrice differentiable and that the hessian depends on the inputs."
    ),
    "row": "Output {output} of the user-provided function is independent of input {i}. This is not allowed in strict mode.",
    "back": "The output of the user-provided function is independent of input {i}. This is not allowed in strict mode.",
    "back_trick": (
        "The gradient with respect to the input is independent of entry {i} in the grad_outputs when using the double backward trick to "
        "compute forward mode gradients. This is not allowed in strict mode."
    ),
    "double_back": "The jacobian of the user-provided function is independent of input {i}. This is not allowed in strict mode.",
    "double_back_trick": (
        "The hessian of the user-provided function is independent of entry {i} in the grad_jacobian. This is not allowed in strict mode "
        "as it prevents from using the double backward trick to replace forward mode AD."
    ),
}


def _require(values: Any, stage: str, strict: bool) -> None:
    """Raise for a result that does not depend on the inputs, in strict mode."""
    for i, value in enumerate(values):
        if strict and (value is None or not value.requires_grad):
            raise RuntimeError(_INDEPENDENT["back" if value is None else stage].format(i=i))


def _results(func: Callable[..., Any], inputs: Tensors, name: str, strict: bool) -> tuple[bool, Tensors]:
    """Whether a function returns a tuple, and the tuple."""
    many, outputs = _tuple(func(*inputs), "outputs of the user-provided function", name)
    _require(outputs, "outputs", strict)
    return many, outputs


def _filled(found: Any, like: Tensors, strict: bool, create_graph: bool, stage: str, output: int = 0) -> Tensors:
    """Replace missing gradients, those of an output, by zeros; in strict mode raise."""
    for i, g in enumerate(found):
        if strict and g is None:
            raise RuntimeError(_INDEPENDENT[stage].format(i=i, output=output))
        if strict and create_graph and not g.requires_grad:
            what = "hessian" if "double" in stage else "jacobian"
            raise RuntimeError(
                f"The {what} of the user-provided function is independent of input {i}. This is not allowed in strict mode when "
                "create_graph=True."
            )
    return tuple(zeros_like(x.detach()) if g is None else g for x, g in zip(like, found, strict=True))


def _gradients(outputs: Tensors, inputs: Tensors, v: Tensors | None, create_graph: bool, keep: bool | None = None) -> Any:
    """``grad`` of those outputs that require a gradient; None for every input when none does."""
    pairs = [(y, None if v is None else v[i]) for i, y in enumerate(outputs) if y.requires_grad]
    if not pairs:
        return (None,) * len(inputs)
    ys, gs = zip(*pairs, strict=True)
    return grad(ys, inputs, None if v is None else gs, keep, create_graph, allow_unused=True)


def _check_vector(v: Tensors, like: Tensors, several: bool) -> None:
    if len(v) != len(like):
        if several:
            raise RuntimeError(f"v is a tuple of invalid length: should be {len(like)} but got {len(v)}.")
        raise RuntimeError("The given v should contain a single Tensor.")
    for i, (mine, its) in enumerate(zip(v, like, strict=True)):
        if mine.shape != its.shape:
            where = f"Entry {i} in " if several else ""
            raise RuntimeError(f"{where}v has invalid size: should be {list(its.shape)} but got {list(mine.shape)}.")


def _vector(v: Any, like: Tensors, several: bool, name: str, create_graph: bool) -> Tensors | None:
    """Check the vector of a product. None stands for 1, if the function's result (vjp) or input is a single number."""
    if v is not None:
        _, given = _tuple(v, "v", name)
        opened = _opened(given, create_graph, False)
        _check_vector(opened, like, several)
        return opened
    if len(like) == 1 and like[0].numel() == 1:
        return None
    of = "user-provided function returns" if name == "vjp" else "input to the user-provided function is"
    raise RuntimeError(f"The vector v can only be None if the {of} a single Tensor with a single element.")


def _number(func: Callable[..., Any], inputs: Tensors, name: str, strict: bool) -> Tensor:
    """The result of a function that must be a single number."""
    several, outputs = _results(func, inputs, name, strict)
    if several:
        raise RuntimeError(f"The function given to {name} should return a single Tensor")
    if outputs[0].numel() != 1:
        raise RuntimeError(f"The Tensor returned by the function given to {name} should contain a single element")
    return outputs[0].reshape(())


def _number_and_slopes(func: Callable[..., Any], inputs: Tensors, name: str, strict: bool) -> tuple[Tensor, Any]:
    """The result of such a function, and its gradient, to be differentiated again."""
    output = _number(func, inputs, name, strict)
    slopes = _gradients((output,), inputs, None, True)
    _require(slopes, "jacobian", strict)
    return output, slopes


# ---- products ---------------------------------------------------------------------------------------------------------------------------


def vjp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """The value of a function, and a vector times its Jacobian.

    Args:
        func: takes Tensors, returns a Tensor or a tuple of them.
        inputs: a Tensor or a tuple of them.
        v: of the outputs' shapes; may be left out for a single number.
        create_graph: give results that can be differentiated.
        strict: an error, instead of zeros, when the outputs do not depend on an input.
    Returns: (outputs, product), the product as inputs.
    Raises: RuntimeError for a v that does not fit or is missing, and as ``strict`` says; TypeError for anything but a Tensor.
    Source: torch.autograd.functional.vjp.
    Example:
        >>> x = gradlib.tensor([1.0, 2.0])
        >>> gradlib.autograd.functional.vjp(lambda x: x**2, x, gradlib.ones(2))
        (tensor([1., 4.]), tensor([2., 4.]))
    """
    with enable_grad():
        several, given = _opened_inputs(inputs, "vjp", create_graph)
        many, outputs = _results(func, given, "vjp", strict)
        vector = _vector(v, outputs, many, "vjp", create_graph)
        found = _gradients(outputs, given, vector, create_graph)
        product = _filled(found, given, strict, create_graph, "back")
    return _closed(outputs, create_graph, many), _closed(product, create_graph, several)


def jvp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """The value of a function, and its Jacobian times a vector, by a backward of backward.

    Args:
        func, inputs, create_graph, strict: as for ``vjp``.
        v: of the inputs' shapes; may be left out for a single number.
    Returns: (outputs, product), the product as outputs.
    Raises: as ``vjp``.
    Source: torch.autograd.functional.jvp; ``gradlib.func.jvp`` is quicker.
    Example:
        >>> x = gradlib.tensor([1.0, 2.0])
        >>> gradlib.autograd.functional.jvp(lambda x: x**2, x, gradlib.tensor([1.0, 0.0]))
        (tensor([1., 4.]), tensor([2., 0.]))
    """
    with enable_grad():
        several, given = _opened_inputs(inputs, "jvp", create_graph)
        vector = _vector(v, given, several, "jvp", create_graph)
        many, outputs = _results(func, given, "jvp", strict)
        marks = tuple(zeros_like(y.detach()).want_grad() for y in outputs)
        pulled = _gradients(outputs, given, marks, True)
        _require(pulled, "back", strict)
        found = _pushed(pulled, marks, vector, given, create_graph)
        product = _filled(found, outputs, strict, create_graph, "back_trick")
    return _closed(outputs, create_graph, many), _closed(product, create_graph, many)


def _pushed(pulled: Any, marks: Tensors, v: Tensors | None, like: Tensors, create_graph: bool) -> Any:
    """The Jacobian-vector product: the derivative of the vector-Jacobian product with respect to its cotangents, along v."""
    v = tuple(zeros_like(x.detach()) + 1 for x in like) if v is None else v
    pairs = [(p, t) for p, t in zip(pulled, v, strict=True) if p is not None and p.requires_grad]
    if not pairs:
        return (None,) * len(marks)
    ps, ts = zip(*pairs, strict=True)
    return grad(ps, marks, ts, create_graph, create_graph, allow_unused=True)


def vhp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """The value of a function that gives one number, and a vector times its Hessian.

    Args:
        func: gives one number.
        inputs, create_graph, strict: as for ``vjp``.
        v: of the inputs' shapes; may be left out for a single number.
    Returns: (output, product), the product as inputs.
    Raises: as ``vjp``, and RuntimeError for a function that gives anything but one number.
    Source: torch.autograd.functional.vhp.
    Example:
        >>> x = gradlib.tensor([1.0, 2.0])
        >>> gradlib.autograd.functional.vhp(lambda x: (x**3).sum(), x, gradlib.tensor([1.0, 0.0]))
        (tensor(9.), tensor([6., 0.]))
    """
    with enable_grad():
        several, given = _opened_inputs(inputs, "vhp", create_graph)
        vector = _vector(v, given, several, "vhp", create_graph)
        output, slopes = _number_and_slopes(func, given, "vhp", strict)
        found = _pulled_twice(slopes, given, vector, create_graph)
        product = _filled(found, given, strict, create_graph, "double_back")
    return _closed(output, create_graph, True), _closed(product, create_graph, several)


def _pulled_twice(slopes: Any, given: Tensors, v: Tensors | None, create_graph: bool) -> Any:
    """The gradient of those first derivatives that depend on the inputs."""
    held = [i for i, d in enumerate(slopes) if d is not None]
    return _gradients(tuple(slopes[i] for i in held), given, None if v is None else tuple(v[i] for i in held), create_graph)


def hvp(func: Callable[..., Any], inputs: Any, v: Any = None, create_graph: bool = False, strict: bool = False) -> Any:
    """The value of a function that gives one number, and its Hessian times a vector; ``vhp`` gives the same and is quicker.

    Args:
        func, inputs, v, create_graph, strict: as for ``vhp``.
    Returns: (output, product), the product as inputs.
    Raises: as ``vhp``.
    Source: torch.autograd.functional.hvp.
    Example:
        >>> x = gradlib.tensor([1.0, 2.0])
        >>> gradlib.autograd.functional.hvp(lambda x: (x**3).sum(), x, gradlib.tensor([1.0, 0.0]))
        (tensor(9.), tensor([6., 0.]))
    """
    with enable_grad():
        several, given = _opened_inputs(inputs, "hvp", create_graph)
        vector = _vector(v, given, several, "hvp", create_graph)
        output, slopes = _number_and_slopes(func, given, "hvp", strict)
        marks = tuple(zeros_like(x.detach()).want_grad() for x in given)
        pulled = _pulled_twice(slopes, given, marks, True)
        _require(pulled, "hessian", strict)
        found = _pushed(pulled, marks, vector, given, create_graph)
        product = _filled(found, given, strict, create_graph, "double_back_trick")
    return _closed(output, create_graph, True), _closed(product, create_graph, several)


# ---- whole matrices ---------------------------------------------------------------------------------------------------------------------


def jacobian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    strategy: str = "reverse-mode",
) -> Any:
    """The Jacobian of a function.

    Args:
        func: takes Tensors, returns a Tensor or a tuple of them.
        inputs: a Tensor or a tuple of them.
        create_graph, strict: as for ``vjp``.
        vectorize: compute all rows in one go, by ``vmap``.
        strategy: "reverse-mode", a row for each element of the outputs; "forward-mode" (with vectorize only), a column for each of the
            inputs.
    Returns: for each output (a tuple when func returns one) and each input (a tuple when they are one) a Tensor of shape
        (*output.shape, *input.shape).
    Raises: AssertionError for another strategy; NotImplementedError and RuntimeError for choices that do not go together.
    Source: torch.autograd.functional.jacobian; ``gradlib.func.jacrev`` and ``jacfwd`` compose.
    Example:
        >>> gradlib.autograd.functional.jacobian(lambda x: x**2, gradlib.tensor([1.0, 2.0]))
        tensor([[2., 0.],
                [0., 4.]])
    """
    if strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError(
            'Expected strategy to be either "forward-mode" or "reverse-mode". Hint: If your function has more outputs than inputs, '
            '"forward-mode" tends to be more performant. Otherwise, prefer to use "reverse-mode".'
        )
    if strategy == "forward-mode":
        return _forward_jacobian(func, inputs, create_graph, strict, vectorize)
    with enable_grad():
        several, given = _opened_inputs(inputs, "jacobian", create_graph)
        many, outputs = _results(func, given, "jacobian", strict)
        if vectorize and strict:
            raise RuntimeError(
                "jacobian: `strict=True` and `vectorized=True` are not supported together. Please either set `strict=False` or "
                "`vectorize=False`."
            )
        rows = _all_rows(outputs, given, create_graph) if vectorize else _row_by_row(outputs, given, create_graph, strict)
    made = tuple(_closed(each, create_graph, several) for each in rows)
    return made if many else made[0]


def _row_by_row(outputs: Tensors, inputs: Tensors, create_graph: bool, strict: bool) -> list[Tensors]:
    made = []
    for i, output in enumerate(outputs):
        every = (_gradients((output,), inputs, unit, create_graph, True) for unit in _units(output))
        rows = [_filled(found, inputs, strict, create_graph, "row", i) for found in every]
        shapes = [(*output.shape, *x.shape) for x in inputs]
        if rows:
            made.append(tuple(stack(each).reshape(shape) for each, shape in zip(zip(*rows, strict=True), shapes, strict=True)))
        else:
            made.append(tuple(x.detach().new_zeros(shape) for x, shape in zip(inputs, shapes, strict=True)))
    return made


def _units(output: Tensor) -> Iterator[Tensors | None]:
    """For each element the cotangent that picks it: zeros, and one there; None, which says the same, for the only element.

    Raises: RuntimeError for several complex numbers, as ``grad`` does for one.
    """
    count = output.numel()
    if count == 1:
        yield None
        return
    if count and output.dtype.kind == "c" and output.requires_grad:
        raise RuntimeError(f"grad can be implicitly created only for real scalar outputs but got {output.dtype}")
    for number in range(count):
        with on_device_of(stored := storage(output)):
            unit = namespace(stored).zeros(count, output.dtype)
            unit[number] = 1
        yield (wrap(unit.reshape(output.shape)),)


def _all_rows(outputs: Tensors, inputs: Tensors, create_graph: bool) -> list[Tensors]:
    sizes = [y.numel() for y in outputs]
    found = over_rows(lambda *rows: _gradients(outputs, inputs, rows, create_graph, True), tuple(basis(list(outputs), sizes)))
    made = []
    for number, (output, size) in enumerate(zip(outputs, sizes, strict=True)):
        start = sum(sizes[:number])
        made.append(
            tuple(
                x.detach().new_zeros((*output.shape, *x.shape))
                if g is None
                else g.narrow(0, start, size).reshape((*output.shape, *x.shape))
                for g, x in zip(found, inputs, strict=True)
            )
        )
    return made


def _forward_jacobian(func: Callable[..., Any], inputs: Any, create_graph: bool, strict: bool, vectorize: bool) -> Any:
    if create_graph:
        raise NotImplementedError(
            'jacobian: `create_graph=True` and `strategy="forward-mode"` are not supported together (yet). Please either set '
            '`create_graph=False` or `strategy="reverse-mode"`.'
        )
    if strict:
        raise RuntimeError(
            'jacobian: `strict=True` and `strategy="forward-mode"` are not supported together (yet). Please either set `strict=False` or '
            '`strategy="reverse-mode"`.'
        )
    several, given = _tuple(inputs, "inputs", "jacobian")
    if not vectorize:
        raise NotImplementedError(
            "Computing Jacobian using forward-AD or forward-over-reverse Hessian is only implemented for `vectorize=True`."
        )

    outside = as_outside()

    def checked(*values: Any) -> Any:
        with outside:
            made = func(*values)
        _tuple(made, "outputs of the user-provided function", "jacobian")
        return made

    made = jacfwd(checked, tuple(range(len(given))))(*given)
    if isinstance(made[0], tuple):
        return tuple(_closed(each, create_graph, several) for each in made)
    return _closed(made, create_graph, several)


def hessian(
    func: Callable[..., Any],
    inputs: Any,
    create_graph: bool = False,
    strict: bool = False,
    vectorize: bool = False,
    outer_jacobian_strategy: str = "reverse-mode",
) -> Any:
    """The second derivatives of a function that gives one number.

    Args:
        func: gives one number.
        inputs, create_graph, strict, vectorize: as for ``jacobian``.
        outer_jacobian_strategy: how the gradient is differentiated; as ``strategy`` there.
    Returns: for each pair of inputs (a tuple of tuples when they are one) a Tensor of shape (*input.shape, *input.shape).
    Raises: as ``jacobian``, AssertionError for another strategy, and RuntimeError for a function that gives anything but one number.
    Source: torch.autograd.functional.hessian.
    Example:
        >>> gradlib.autograd.functional.hessian(lambda x: (x**3).sum(), gradlib.tensor([1.0, 2.0]))
        tensor([[ 6.,  0.],
                [ 0., 12.]])
    """
    if outer_jacobian_strategy not in ("forward-mode", "reverse-mode"):
        raise AssertionError('Expected strategy to be either "forward-mode" or "reverse-mode".')
    several, given = _tuple(inputs, "inputs", "hessian")

    def slopes(*values: Tensor) -> Tensors:
        values = tuple(x if x.requires_grad else x.requires_grad_() for x in values)
        made = jacobian(lambda *xs: _number(func, xs, "hessian", strict), values, create_graph=True, strict=False)
        _require(made, "jacobian", strict)
        return made

    with set_grad_enabled(True):
        made = jacobian(slopes, given, create_graph, strict, vectorize, outer_jacobian_strategy)
    return made if several else made[0][0]
