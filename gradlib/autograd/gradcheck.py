"""``gradcheck`` and ``gradgradcheck``: backward compared with central differences. Source: torch.autograd.gradcheck."""

from __future__ import annotations

import itertools
import warnings
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np

from gradlib.autograd import numerical
from gradlib.autograd.batched_check import batched_gradients, batched_tangents
from gradlib.backend.array import Array, on_device_of, zeros_like
from gradlib.core.backward import as_tuple, from_undefined, grad
from gradlib.core.grad_mode import enable_grad
from gradlib.core.tensor import Tensor, wrap

__all__ = ["GradcheckError", "gradcheck", "gradgradcheck"]


class GradcheckError(RuntimeError):
    """Raised by ``gradcheck`` when a derivative is wrong: its text names the place and both numbers.

    Source: torch.autograd.gradcheck.GradcheckError.
    Example:
        >>> x = gradlib.tensor([0.3], dtype=gradlib.float64, requires_grad=True)
        >>> try:
        ...     gradlib.autograd.gradcheck(lambda x: x.detach() * x, (x,))
        ... except gradlib.autograd.GradcheckError as error:
        ...     print(str(error).partition(",")[0])
        Jacobian mismatch for output 0 with respect to input 0
    """


def gradcheck(
    func: Callable[..., Any],
    inputs: Any,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-4,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_batched_forward_grad: bool = False,
    check_forward_ad: bool = False,
    check_backward_ad: bool = True,
    fast_mode: bool = False,
    masked: bool | None = None,
) -> bool:
    """Compare the gradients of a function with central differences.

    Args:
        func: takes the inputs, returns a Tensor or a tuple of Tensors; outputs that require no gradient are not compared.
        inputs: a Tensor or a sequence of Tensors and other arguments; those that require a gradient are checked. Use float64 or
            complex128, in memory whose elements do not overlap: each element is moved by eps in place.
        eps: half the distance of the two points of the difference.
        atol, rtol: a pair agrees when ``|analytical - numerical| <= atol + rtol * |numerical|``. The default rtol is a tenth of torch's,
            so that a rule that is wrong by 0.1 % fails.
        raise_exception: False returns False where a comparison fails, instead of raising.
        nondet_tol: how far two backward passes with the same arguments may differ.
        check_undefined_grad: an output that nothing uses counts as one whose gradient is zero.
        check_grad_dtypes: gradients have exactly the inputs' dtypes.
        check_forward_ad, check_backward_ad: which of the two modes to compare.
        check_batched_grad, check_batched_forward_grad: also compare derivatives under ``vmap`` with those of one vector at a time.
        fast_mode: compare along random directions only: two evaluations for each pair of an input and an output instead of two for
            each element.
        masked: accepted as in torch; it matters for sparse tensors only.
    Returns: True when all agree.
    Raises: GradcheckError that names the output, the input, both numbers, the position and the direction; ValueError when no input
        requires a gradient; AssertionError for checks that need one that is switched off.
    Source: torch.autograd.gradcheck.
    Example:
        >>> x = gradlib.tensor([0.3, 0.7], dtype=gradlib.float64, requires_grad=True)
        >>> gradlib.autograd.gradcheck(gradlib.tanh, (x,))
        True
    """
    if not (check_forward_ad or check_backward_ad):
        raise AssertionError("Expected at least one of check_forward_ad or check_backward_ad to be True")
    if check_batched_grad and not check_backward_ad:
        raise AssertionError("Setting check_batched_grad=True requires check_backward_ad to be True")
    if check_batched_forward_grad and not check_forward_ad:
        raise AssertionError("Setting check_batched_forward_grad=True requires check_forward_ad to be True")
    given = as_tuple(inputs)
    _check_inputs(given)
    try:
        with enable_grad():
            check = Check(func, given, eps, atol, rtol, nondet_tol, check_undefined_grad, check_grad_dtypes, fast_mode)
            check.run(check_forward_ad, check_backward_ad)
            check.run_batched(check_batched_forward_grad, check_batched_grad)
    except GradcheckError:
        if raise_exception:
            raise
        return False
    return True


def gradgradcheck(
    func: Callable[..., Any],
    inputs: Any,
    grad_outputs: Any = None,
    *,
    eps: float = 1e-6,
    atol: float = 1e-5,
    rtol: float = 1e-4,
    gen_non_contig_grad_outputs: bool = False,
    raise_exception: bool = True,
    nondet_tol: float = 0.0,
    check_undefined_grad: bool = True,
    check_grad_dtypes: bool = False,
    check_batched_grad: bool = False,
    check_fwd_over_rev: bool = False,
    check_rev_over_rev: bool = True,
    fast_mode: bool = False,
    masked: bool = False,
) -> bool:
    """Compare second derivatives with central differences of first ones, with respect to the inputs and to the cotangents.

    Args:
        func, inputs: as in ``gradcheck``.
        grad_outputs: a cotangent for each differentiable output; random ones when left out.
        gen_non_contig_grad_outputs: make the random ones non-contiguous.
        check_fwd_over_rev, check_rev_over_rev: whether to compare forward over backward, backward over backward.
        eps, atol, rtol, raise_exception, nondet_tol, check_undefined_grad, check_grad_dtypes, check_batched_grad, fast_mode, masked: as in
            ``gradcheck``.
    Returns: True when all agree.
    Raises: as ``gradcheck``; AssertionError for checks that need one that is switched off.
    Source: torch.autograd.gradgradcheck.
    Example:
        >>> x = gradlib.tensor([0.3, 0.7], dtype=gradlib.float64, requires_grad=True)
        >>> gradlib.autograd.gradgradcheck(gradlib.tanh, (x,))
        True
    """
    if not (check_fwd_over_rev or check_rev_over_rev):
        raise AssertionError("Expected at least one of check_fwd_over_rev or check_rev_over_rev to be True")
    given = as_tuple(inputs)
    first, arguments = first_derivatives(func, given, None if grad_outputs is None else as_tuple(grad_outputs), gen_non_contig_grad_outputs)
    return gradcheck(
        first, arguments, eps=eps, atol=atol, rtol=rtol, raise_exception=raise_exception, nondet_tol=nondet_tol,
        check_undefined_grad=check_undefined_grad, check_grad_dtypes=check_grad_dtypes, check_forward_ad=check_fwd_over_rev,
        check_backward_ad=check_rev_over_rev, check_batched_grad=check_batched_grad, fast_mode=fast_mode, masked=masked,
    )  # fmt: skip


def first_derivatives(
    func: Callable[..., Any], inputs: tuple[Any, ...], cotangents: tuple[Any, ...] | None = None, spaced: bool = False
) -> tuple[Callable[..., tuple[Tensor, ...]], tuple[Any, ...]]:
    """The gradients of a function as a function of its inputs and of cotangents, and arguments of it.

    Args:
        cotangents: those of its differentiable outputs; None for random ones, which are not contiguous if ``spaced``.
    """
    if cotangents is None:
        with enable_grad():
            cotangents = _random_cotangents(_differentiable(func(*inputs)), spaced)
    count = len(cotangents)

    def first(*args: Any) -> tuple[Tensor, ...]:
        arguments = args[: len(args) - count]
        wanted = [x for x in arguments if isinstance(x, Tensor) and x.requires_grad]
        outputs = _differentiable(func(*arguments))
        found = grad(outputs, wanted, args[len(args) - count :], create_graph=True, allow_unused=True)
        return tuple(d for d in found if d is not None)

    return first, (*inputs, *cotangents)


def _check_inputs(inputs: tuple[Any, ...]) -> None:
    """Warn of low precision; refuse arrays whose elements overlap in memory, and inputs of which none requires a gradient."""
    wanted = False
    for number, x in enumerate(inputs):
        if not isinstance(x, Tensor) or not x.requires_grad:
            continue
        wanted = True
        if x.dtype.name not in ("float64", "complex128"):
            warnings.warn(
                f"Input #{number} requires gradient and is not a double precision floating point or complex (it is {x.dtype.name}). "
                "This check will likely fail if all the inputs are not of double precision floating point or complex.",
                UserWarning,
                stacklevel=3,
            )
        if numerical.overlaps(x._array):
            raise RuntimeError(
                f"The {number}th input has a dimension with stride 0, or other elements that share memory (shape {list(x.shape)}, strides "
                f"{x.stride()}). gradcheck only supports inputs that are non-overlapping to be able to compute the numerical gradients "
                "correctly. You should call .contiguous on the input before passing it to gradcheck."
            )
    if not wanted:
        raise ValueError("gradcheck expects at least one input tensor to require gradient, but none of them have requires_grad=True.")


def _differentiable(outputs: Any) -> tuple[Tensor, ...]:
    return tuple(o for o in as_tuple(outputs) if isinstance(o, Tensor) and o.requires_grad)


def _random_cotangents(outputs: tuple[Tensor, ...], spaced: bool) -> tuple[Tensor, ...]:
    rng = np.random.default_rng(20240301)
    made = []
    for output in outputs:
        array = numerical.probe(output._array, rng, signed=True)
        if spaced and array.ndim:
            with on_device_of(array):
                array = array.repeat(2, axis=-1)[..., ::2]
        made.append(wrap(array).requires_grad_())
    return tuple(made)


_ALL_AT_ONCE = "direction: random, over all elements at once (fast_mode)."


class Check:
    """One run of ``gradcheck``: the function, its inputs and outputs, and the tolerances."""

    def __init__(
        self, func: Callable[..., Any], inputs: tuple[Any, ...], eps: float, atol: float, rtol: float, nondet_tol: float,
        undefined: bool, dtypes: bool, fast: bool,
    ) -> None:  # fmt: skip
        self.func, self.inputs = func, inputs
        self.eps, self.atol, self.rtol, self.nondet_tol = eps, atol, rtol, nondet_tol
        self.undefined, self.dtypes, self.fast = undefined, dtypes, fast
        self.numbers = [i for i, x in enumerate(inputs) if isinstance(x, Tensor) and x.requires_grad]
        self.wanted: list[Tensor] = [inputs[i] for i in self.numbers]
        results = as_tuple(func(*inputs))
        for result in results:
            if not isinstance(result, Tensor):
                raise ValueError(f"gradcheck expects the function to return Tensors, got {type(result).__name__}")
        self.places = [i for i, o in enumerate(results) if o.requires_grad]
        self.outputs = [results[i] for i in self.places]
        self.constants = [o for o in results if not o.requires_grad and o.dtype.kind in "fc"]
        self.rng = np.random.default_rng(20240229)

    def run(self, forward: bool, backward: bool) -> None:
        if not self.outputs:
            self._all_constant()
            return
        if forward:
            self._forward_along_random_directions() if self.fast else self._forward_every_element()
        if not backward:
            return
        self._same_twice()
        self._zero_cotangent()
        if self.undefined and len(self.outputs) > 1:
            self._unused_outputs()
        if self.fast:
            self._along_random_directions()
        else:
            self._every_element()
        if self.undefined:
            self._undefined_cotangents()

    def run_batched(self, forward: bool, backward: bool) -> None:
        """Compare what vmap makes of the derivatives with a loop."""
        found: list[Iterable[str]] = []
        if backward and self.outputs:
            found.append(batched_gradients(self.outputs, self.wanted, self.rng))
        if forward and self.outputs:
            found.append(batched_tangents(self.func, self.inputs, self.numbers, self.places, self.rng))
        for wrong in itertools.chain(*found):
            raise GradcheckError(wrong)

    def evaluate(self) -> list[Array]:
        """The differentiable outputs from the inputs' current values."""
        return [o._array for o in _differentiable(self.func(*self.inputs))]

    # ---- the comparisons ------------------------------------------------------------------------------------------------------

    def _every_element(self) -> None:
        analytical = [numerical.analytical_jacobian(output, self.wanted) for output in self.outputs]
        arrays = [o._array for o in self.outputs]
        for i, x in enumerate(self.wanted):
            self._compare(i, [rows[i] for rows in analytical], self.estimated(x._array, arrays))

    def _forward_every_element(self) -> None:
        arrays = [o._array for o in self.outputs]
        for i, x in enumerate(self.wanted):
            found = numerical.forward_jacobian(self.func, self.inputs, self.numbers[i], self.places)
            self._compare(i, found, self.estimated(x._array, arrays), "forward mode: ")

    def estimated(self, array: Array, outputs: Sequence[Array]) -> list[tuple[np.ndarray, np.ndarray]]:
        """For each output its derivatives with respect to each element of one input, from values alone, and how far ours may be off."""
        found = numerical.numerical_jacobian(self.evaluate, array, self.eps, outputs)
        return [(expected, self._allowed(expected)) for expected in found]

    def _allowed(self, expected: np.ndarray) -> np.ndarray:
        return self.atol + self.rtol * np.abs(expected)

    def _compare(self, i: int, found: list[np.ndarray], estimated: list[tuple[np.ndarray, np.ndarray]], mode: str = "") -> None:
        """Each output's derivatives with respect to one input, element by element."""
        for k, (ours, (expected, allowed)) in enumerate(zip(found, estimated, strict=True)):
            off = _off(ours, expected, allowed)
            if off.any():
                raise GradcheckError(mode + self._mismatch(k, i, ours, expected, allowed, off))

    def _forward_along_random_directions(self) -> None:
        for signed in (False, True):
            cotangents = [numerical.probe(o._array, self.rng, signed) for o in self.outputs]
            for i, x in enumerate(self.wanted):
                direction = numerical.probe(x._array, self.rng, signed)
                moved = numerical.difference(self.evaluate, x._array, ..., direction, self.eps)
                found = numerical.moved_forward(self.func, self.inputs, self.numbers[i], direction, self.places)
                for k, u in enumerate(cotangents):
                    estimated, ours = numerical.inner(u, moved[k]) / (2 * self.eps), numerical.inner(u, found[k])
                    if not abs(ours - estimated) <= self.atol + self.rtol * abs(estimated):
                        raise GradcheckError(f"forward mode: {self._head(k, i, ours, estimated)}{_ALL_AT_ONCE}")

    def _along_random_directions(self) -> None:
        """Compare along two random directions for each pair: one of positive entries, so that nothing cancels, and one of both signs."""
        for signed in (False, True):
            cotangents = [numerical.probe(o._array, self.rng, signed) for o in self.outputs]
            found = [numerical.gradients(o, self.wanted, wrap(u)) for o, u in zip(self.outputs, cotangents, strict=True)]
            for i, x in enumerate(self.wanted):
                direction = numerical.probe(x._array, self.rng, signed)
                moved = numerical.difference(self.evaluate, x._array, ..., direction, self.eps)
                for k, u in enumerate(cotangents):
                    estimated = numerical.inner(u, moved[k]) / (2 * self.eps)
                    analytical = numerical.inner(found[k][i], direction)
                    if not abs(analytical - estimated) <= self.atol + self.rtol * abs(estimated):
                        raise GradcheckError(self._projected_mismatch(k, i, analytical, estimated))

    def _all_constant(self) -> None:
        """Check outputs of which none requires a gradient: they must not depend on the inputs."""
        if not self.constants:
            return

        def evaluate() -> list[Array]:
            return [o._array for o in as_tuple(self.func(*self.inputs)) if o.dtype.kind in "fc"]

        for i, x in enumerate(self.wanted):
            for slopes in numerical.numerical_jacobian(evaluate, x._array, self.eps, [o._array for o in self.constants]):
                if bool((abs(slopes) > self.atol).any()):
                    raise GradcheckError(
                        f"Numerical gradient for function expected to be zero: no output requires a gradient, but input {self.numbers[i]} "
                        f"moves one, with a slope of {float(abs(slopes).max())}"
                    )

    # ---- rules for every backward ---------------------------------------------------------------------------------------------

    def _zero_cotangent(self) -> None:
        """Check that a zero cotangent gives zero gradients, of the inputs' shapes and dtypes."""
        zeros = [wrap(zeros_like(o._array)) for o in self.outputs]
        found = grad(self.outputs, self.wanted, zeros, retain_graph=True, allow_unused=True)
        for number, x, d in zip(self.numbers, self.wanted, found, strict=True):
            if d is None:
                continue
            if d.shape != x.shape:
                raise GradcheckError(f"grad is incorrect size: input {number} has shape {list(x.shape)}, its gradient {list(d.shape)}")
            if d.dtype.kind != x.dtype.kind or (self.dtypes and d.dtype != x.dtype):
                raise GradcheckError(f"grad has incorrect type: input {number} is {x.dtype}, its gradient {d.dtype}")
            if d.device != x.device:
                raise GradcheckError(f"grad is on a different device: input {number} is on {x.device}, its gradient on {d.device}")
            if numerical.on_host(d._array).any():
                raise GradcheckError(f"backward not multiplied by grad_output: a zero cotangent gives input {number} a nonzero gradient")

    def _same_twice(self) -> None:
        """Check that two passes with the same cotangents give the same gradients."""
        cotangents = [wrap(numerical.probe(o._array, self.rng, signed=True)) for o in self.outputs]
        first, second = (numerical.gradients(self.outputs, self.wanted, cotangents) for _ in range(2))
        for number, a, b in zip(self.numbers, first, second, strict=True):
            apart = float(abs(a - b).max()) if a.size else 0.0
            if not apart <= self.nondet_tol:
                raise GradcheckError(
                    "Backward is not reentrant, i.e., running backward with same input and grad_output multiple times gives different "
                    f"values. The gradient for input {number} differs by {apart}; the tolerance for nondeterminism was {self.nondet_tol}."
                )

    def _undefined_cotangents(self) -> None:
        """Check that backward treats an undefined gradient (None) as zeros: of all outputs, and of each output alone."""
        several = [range(len(self.outputs)), *([k] for k in range(len(self.outputs)) if len(self.outputs) > 1)]
        for undefined in several:
            given = [(o, None if k in undefined else wrap(zeros_like(o._array))) for k, o in enumerate(self.outputs)]
            try:
                found = from_undefined(given, self.wanted)
            except Exception as error:
                raise GradcheckError(
                    f"Expected backward function to handle undefined output grads: with None as the gradient of output "
                    f"{', '.join(str(self.places[k]) for k in undefined)} it raised {type(error).__name__}: {error}. Treat None as zeros."
                ) from error
            for number, d in zip(self.numbers, found, strict=True):
                if d is not None and numerical.on_host(d._array).any():
                    raise GradcheckError(
                        "Expected backward function to handle undefined output grads: None, which stands for zeros, gives input "
                        f"{number} a nonzero gradient."
                    )

    def _unused_outputs(self) -> None:
        """Check that an output left out of the backward counts as one with a zero cotangent."""
        for k, output in enumerate(self.outputs):
            cotangents = [wrap(zeros_like(o._array)) for o in self.outputs]
            cotangents[k] = wrap(numerical.probe(output._array, self.rng, signed=True))
            alone = numerical.gradients(output, self.wanted, cotangents[k])
            together = numerical.gradients(self.outputs, self.wanted, cotangents)
            for number, a, b in zip(self.numbers, alone, together, strict=True):
                if not np.allclose(a, b, rtol=1e-9, atol=max(1e-12, self.nondet_tol)):
                    raise GradcheckError(
                        f"Expected backward function to handle undefined output grads: with every output but {self.places[k]} unused, the "
                        f"gradient for input {number} is not the one that zero cotangents give. Treat None as zeros."
                    )

    # ---- error texts ----------------------------------------------------------------------------------------------------------

    def _head(self, k: int, i: int, analytical: Any, estimated: Any) -> str:
        return (
            f"Jacobian mismatch for output {self.places[k]} with respect to input {self.numbers[i]},\n"
            f"numerical: {estimated}\nanalytical: {analytical}\n"
        )

    def _mismatch(self, k: int, i: int, found: np.ndarray, expected: np.ndarray, allowed: np.ndarray, off: np.ndarray) -> str:
        apart = np.where(off, np.nan_to_num(np.abs(found - expected), nan=np.inf), -1.0)
        part, row, column = (int(p) for p in np.unravel_index(int(apart.argmax()), apart.shape))
        out, x = self.outputs[k], self.wanted[i]
        a, n = found[part, row, column], expected[part, row, column]
        along = "imaginary" if x.is_complex() and abs((a - n).imag) > abs((a - n).real) else "real"
        of = ("real", "imaginary")[part]
        return self._head(k, i, a, n) + (
            f"at element {_index(row, out.shape)} of the output and {_index(column, x.shape)} of the input; direction: the {of} part of "
            f"the output along the {along} axis of the input. Difference {abs(a - n)}, allowed {allowed[part, row, column]} "
            f"(atol {self.atol}, rtol {self.rtol}); {int(off.sum())} of {off.size} entries are off, this one most."
        )

    def _projected_mismatch(self, k: int, i: int, analytical: float, estimated: float) -> str:
        text = self._head(k, i, analytical, estimated) + _ALL_AT_ONCE
        out, x = self.outputs[k], self.wanted[i]
        if out.numel() * x.numel() > 10_000:
            return text + " Run without fast_mode on smaller inputs to see where."
        found = numerical.analytical_jacobian(out, [x])[0]
        expected = numerical.numerical_jacobian(self.evaluate, x._array, self.eps, [o._array for o in self.outputs])[k]
        allowed = self._allowed(expected)
        off = _off(found, expected, allowed)
        if not off.any():
            return text + " Element by element the differences are within tolerance; they add up along this direction."
        return text + "\nElement by element:\n" + self._mismatch(k, i, found, expected, allowed, off)


def _off(found: np.ndarray, expected: np.ndarray, allowed: np.ndarray) -> np.ndarray:
    with np.errstate(invalid="ignore"):
        return ~(np.abs(found - expected) <= allowed)


def _index(flat: int, shape: Sequence[int]) -> tuple[int, ...]:
    return tuple(int(i) for i in np.unravel_index(flat, tuple(shape)))
