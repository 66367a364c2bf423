"""Derivatives by central differences and by backward, in one layout, so that ``gradcheck`` can compare them.

Complex numbers are treated as pairs of real ones: a complex input has two directions per element, a complex output two parts. The entry for
output element k and input element i is the gradient of that part of the output in torch's convention: the derivative along the real
direction, plus 1j times the one along the imaginary direction when the input is complex.

Whatever device computes the function, its inputs are moved there and what it gives is compared on the host.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradlib.autograd import forward_ad
from gradlib.backend.array import Array, move, namespace, on_device_of, zeros_like
from gradlib.backend.copying import copy
from gradlib.core.backward import as_tuple, grad
from gradlib.core.tensor import Tensor, wrap

Evaluate = Callable[[], Sequence[Array]]


def units(array: Array) -> tuple[complex, ...]:
    """The directions in which an element is moved: 1, and for complex numbers also 1j."""
    return (1.0, 1j) if array.dtype.kind == "c" else (1.0,)


def parts(array: Array) -> tuple[Array, ...]:
    """The array itself if it is real, else its real and its imaginary part."""
    return (array.real, array.imag) if array.dtype.kind == "c" else (array,)


def on_host(array: Array) -> np.ndarray:
    """A copy in host memory."""
    return np.array(move(array, None))


def difference(evaluate: Evaluate, array: Array, place: Any, direction: Any, eps: float) -> list[np.ndarray]:
    """Each output at ``array[place] + eps * direction`` minus that at ``- eps * direction``."""
    high, low, _ = both_sides(evaluate, array, place, direction, eps)
    return [a - b for a, b in zip(high, low, strict=True)]


def both_sides(evaluate: Evaluate, array: Array, place: Any, direction: Any, eps: float) -> tuple[list[np.ndarray], list[np.ndarray], Any]:
    """Each output at ``array[place] + eps * direction``, and at ``- eps * direction``; the element is restored afterwards.

    Returns: the two, and the two points.
    """

    def put(value: Array) -> None:
        with on_device_of(array):
            array[place] = value

    with on_device_of(array):
        before = copy(array[place])
        above, below = before + eps * direction, before - eps * direction
    try:
        put(above)
        high = [on_host(out) for out in evaluate()]
        put(below)
        low = [on_host(out) for out in evaluate()]
        for what, have, want in (
            ("shape", [a.shape for a in high], [b.shape for b in low]), ("dtype", [a.dtype for a in high], [b.dtype for b in low]),
        ):  # fmt: skip
            if have != want:
                raise AssertionError(
                    f"Expected `func` to return outputs with the same {what} when inputs are perturbed by {eps}, but got: {have} and {want}"
                )
        return high, low, (above, below)
    finally:
        put(before)


def numerical_jacobian(evaluate: Evaluate, array: Array, eps: float, outputs: Sequence[Array]) -> list[np.ndarray]:
    """The derivatives of all outputs with respect to each element of one input, by central differences.

    Args:
        evaluate: computes the outputs anew from the current values of array.
        array: the input's memory, which is moved by eps one element at a time.
        eps: half the distance between the two points.
        outputs: the outputs, for their shapes and dtypes.
    Returns: for each output an array (parts of the output, its elements, elements of the input).
    """
    moved = [difference(evaluate, array, place, unit, eps) for place in np.ndindex(array.shape) for unit in units(array)]
    return [arranged([m[number] for m in moved], array, output) / (2 * eps) for number, output in enumerate(outputs)]


def arranged(slopes: Sequence[np.ndarray], array: Array, output: Array) -> np.ndarray:
    """Arrange the derivatives of one output, along every direction of every input element, as (parts, output elements, input elements)."""
    if not slopes:
        return np.zeros((len(units(output)), output.size, 0))
    along = len(units(array))
    kept = [part.reshape(array.size, along, output.size) for part in parts(np.stack([s.ravel() for s in slopes]))]
    return np.stack([(k[:, 0] + 1j * k[:, 1] if along == 2 else k[:, 0]).T for k in kept])


def unit_at(array: Array, place: tuple[int, ...], unit: complex) -> Array:
    """Zeros like an array, with the unit at one position."""
    with on_device_of(array):
        made = namespace(array).zeros(array.shape, array.dtype)
        made[place] = unit
    return made


def moved_forward(
    function: Callable[..., Any], arguments: Sequence[Any], number: int, direction: Array, places: Sequence[int]
) -> list[np.ndarray]:
    """The tangents of the outputs, by forward mode, when one argument has a tangent.

    Args:
        function, arguments: the call; number: which argument moves.
        direction: its tangent, of its shape and dtype.
        places: which of the results are wanted.
    Returns: a tangent for each of them; zeros where there is none.
    """
    with forward_ad.dual_level():
        given = list(arguments)
        given[number] = forward_ad.make_dual(arguments[number], wrap(direction))
        results = as_tuple(function(*given))
        pairs = [(results[place]._array, forward_ad.unpack_dual(results[place]).tangent) for place in places]
    return [on_host(zeros_like(a) if t is None else t._array) for a, t in pairs]


def forward_jacobian(function: Callable[..., Any], arguments: Sequence[Any], number: int, places: Sequence[int]) -> list[np.ndarray]:
    """The same derivatives by forward mode, one call for each direction of each element of one argument."""
    array = arguments[number]._array
    moved = [
        moved_forward(function, arguments, number, unit_at(array, place, unit), places)
        for place in np.ndindex(array.shape)
        for unit in units(array)
    ]
    results = as_tuple(function(*arguments))
    return [arranged([m[k] for m in moved], array, results[place]._array) for k, place in enumerate(places)]


def gradients(output: Tensor | Sequence[Tensor], inputs: Sequence[Tensor], g: Any) -> list[np.ndarray]:
    """The gradients of one backward pass; zeros for an input that was not used."""
    found = grad(output, inputs, g, retain_graph=True, allow_unused=True)
    return [np.zeros(x.shape, x.dtype) if d is None else on_host(d._array) for d, x in zip(found, inputs, strict=True)]


def analytical_jacobian(output: Tensor, inputs: Sequence[Tensor]) -> list[np.ndarray]:
    """The same derivatives by backward, one pass for each element (and part) of the output.

    Returns: for each input an array (parts of the output, its elements, elements of the input).
    """
    array = output._array
    directions = units(array)
    result = [np.zeros((len(directions), array.size, x._array.size), np.complex128 if x.is_complex() else np.float64) for x in inputs]
    for part, unit in enumerate(directions):
        for element, place in enumerate(np.ndindex(array.shape)):
            for rows, d in zip(result, gradients(output, inputs, wrap(unit_at(array, place, unit))), strict=True):
                rows[part, element] = d.ravel()
    return result


def overlaps(array: Array) -> bool:
    """Whether two elements of the array lie at one place in memory."""
    reach = 0
    nested = True
    for step, size in sorted((abs(s), n) for s, n in zip(array.strides, array.shape, strict=True) if n > 1):
        nested = nested and step > reach
        reach += step * (size - 1)
    if nested or array.size == 0:
        return False
    places = sum(np.ix_(*(np.arange(n) * s for s, n in zip(array.strides, array.shape, strict=True))), np.int64(0))
    return bool(np.unique(places).size != array.size)


def probe(like: Array, rng: np.random.Generator, signed: bool) -> Array:
    """A random direction of the array's shape and dtype, every entry between 0.5 and 1 in size (in both parts when complex)."""
    shape = (len(units(like)), *like.shape)
    drawn = rng.uniform(0.5, 1.0, shape)
    if signed:
        drawn *= rng.choice([-1.0, 1.0], shape)
    full = drawn[0] + 1j * drawn[1] if len(drawn) == 2 else drawn[0]
    with on_device_of(like):
        return namespace(like).asarray(full).astype(like.dtype)


def inner(u: Array, v: Array) -> float:
    """The real inner product Re sum(conj(u) v)."""
    return float((move(u, None).conj() * move(v, None)).real.sum())
