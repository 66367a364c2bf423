"""The tests of a user's operation: kernel against host form, derivatives against finite differences, and the adjoint identity."""

from __future__ import annotations

import functools
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from gradlib.autograd.adaptive_check import check_derivatives
from gradlib.backend.array import is_array
from gradlib.backend.device import require_cuda
from gradlib.backend.dtype import complex128, float64, is_differentiable, largest
from gradlib.core.backward import grad
from gradlib.core.grad_mode import enable_grad
from gradlib.core.tensor import Tensor
from gradlib.cuda.kernel_op import results_of
from gradlib.func import jvp
from gradlib.ops.from_data import as_tensor
from gradlib.ops.random import rand_like, randn_like


def check(operation: Any, args: Sequence[Any], atol: float | None, rtol: float | None) -> tuple[str, ...]:
    """Run all checks that apply to an operation, as ``Kernel.check`` says.

    Args:
        operation: a ``Kernel`` or an ``ExpressionOp``.
        args: its arguments.
        atol, rtol: how close numbers must be; None for what their dtype allows.
    Returns: the names of the checks that were made.
    Raises: AssertionError that says what differs.
    """
    values = [as_tensor(x).detach() if isinstance(x, Tensor) or is_array(x) else x for x in args]
    if operation.generic:
        values = [_exact(x) for x in values]
    moving = operation.differentiable_args(values) if operation.differentiable else []
    done: list[str] = []
    place = _place(values)
    if place != "cpu":
        _written(operation, values, moving, place)
    if operation.host is not None and place != "cpu":
        _compare_forms(operation, values, moving, place, atol, rtol)
        done += ["values", "gradients"] if moving else ["values"]
    if not moving:
        return tuple(done)
    with enable_grad():
        there = [x.to(place) if isinstance(x, Tensor) else x for x in values]
        inputs = [x.clone().requires_grad_() if i in moving else x for i, x in enumerate(there)]
    size = min(_bytes_of_real(values[i]) for i in moving)
    again = {8: 1e-5, 4: 1e-2}.get(size, 0.1)  # atomicAdd sums in any order
    for second in range(operation.differentiable):
        name = ("gradcheck", "gradgradcheck")[second]
        _asserted(name, functools.partial(
            check_derivatives, operation, tuple(inputs), atol=atol, rtol=rtol, nondet_tol=atol or again, second=bool(second)
        ))  # fmt: skip
        done.append(name)
    if operation.linear or operation.jvp is not None:
        _identity(operation, inputs, moving, {8: 1e-8, 4: 1e-4}.get(size, 2e-2) if rtol is None else rtol)
        done.append("adjoint")
    return tuple(done)


def _bytes_of_real(x: Any) -> int:
    return x.dtype.itemsize // (2 if x.dtype.kind == "c" else 1)


def _exact(x: Any) -> Any:
    """A tensor in double precision, if it holds floating or complex numbers; anything else unchanged."""
    if not isinstance(x, Tensor) or not is_differentiable(x.dtype):
        return x
    return x.to(complex128 if x.dtype.kind == "c" else float64)


def _place(values: Sequence[Any]) -> str:
    """The device to check the kernel on: that of the first CUDA tensor, else the current one; "cpu" where there is none."""
    for x in values:
        if isinstance(x, Tensor) and x.is_cuda:
            return str(x.device)
    try:
        require_cuda(None)
    except RuntimeError:
        return "cpu"
    return "cuda"


def _asserted(name: str, run: Callable[[], Any]) -> None:
    try:
        run()
    except RuntimeError as error:  # what gradcheck raises for a wrong derivative, and what a call raises
        raise AssertionError(f"{name}: {error}") from error


def _gradients(operation: Any, values: Sequence[Any], moving: Sequence[int], cotangents: Sequence[Tensor] | None, place: str) -> Any:
    """Run the operation on a device. Returns: its results, and the gradients for these cotangents, copied to the host."""
    with enable_grad():
        there = [x.to(place).clone() if isinstance(x, Tensor) else x for x in values]
        for i in moving:
            there[i].requires_grad_()
        made = results_of(operation(*there))
        live = [(y, c.to(place)) for y, c in zip(made, cotangents or made, strict=True) if y.requires_grad]
        found = (
            grad([y for y, _ in live], [there[i] for i in moving], [c.detach() for _, c in live], allow_unused=True, materialize_grads=True)
            if live else ()
        )  # fmt: skip
    return [y.detach().cpu().numpy() for y in made], [g.cpu().numpy() for g in found]


def _written(operation: Any, values: Sequence[Any], moving: Sequence[int], place: str) -> None:
    """Check that results, and gradients by an adjoint kernel, are the same whatever their memory held before the launch."""
    launched: list[Any] = [operation, getattr(operation, "adjoint", None)]
    kernels = [each.implementation for each in launched if hasattr(each, "implementation")]
    if not kernels:
        return
    found = []
    try:
        for sign in (-1, 1):
            for each in kernels:
                each.before = functools.partial(_far, sign)
            found.append(_gradients(operation, values, moving, None, place))
    finally:
        for each in kernels:
            each.before = None
    names = (operation.outputs, [f"the gradient by {operation.names[i]}" for i in moving])
    for which, after_least, after_most in zip(names, *found, strict=True):
        for name, a, b in zip(which, after_least, after_most, strict=False):
            first, second = (x.astype(np.float64) if x.dtype.kind in "fV" else x for x in (a, b))
            with np.errstate(all="ignore"):
                are_close = np.allclose(first, second, rtol=1e-2, atol=1e-2, equal_nan=True)
            if not are_close:
                raise AssertionError(
                    f"{operation.name}: {name} depends on what its memory held before the launch: the kernel reads it or leaves some of it "
                    "unwritten; write each element, and name in zeroed what is added into"
                )


def _far(sign: int, dtype: np.dtype[Any]) -> Any:
    """A number so far from zero that it shows in every sum, and beside every other in an extreme: half of the largest, or minus that."""
    if dtype.kind == "b":
        return sign > 0
    if dtype.kind in "iu":
        limits = np.iinfo(dtype)
        return int(limits.max if sign > 0 else limits.min) // 2
    return sign * min(largest(dtype), 1e308) / 2


def _compare_forms(
    operation: Any, values: Sequence[Any], moving: Sequence[int], place: str, atol: float | None, rtol: float | None
) -> None:
    """Compare the host form with the kernel: their results, and their gradients for the same cotangents."""
    host, _ = _gradients(operation, values, [], None, "cpu")
    cotangents = [as_tensor(_cotangent(y)) for y in host]
    pairs = [_gradients(operation, values, moving, cotangents, each) for each in ("cpu", place)]
    names = (operation.outputs, [f"the gradient by {operation.names[i]}" for i in moving])
    for which, host_ones, device_ones in zip(names, *pairs, strict=True):
        for name, a, b in zip(which, host_ones, device_ones, strict=True):
            tolerance = {8: 1e-10, 4: 1e-5, 2: 1e-2}.get(_bytes_of_real(a), 1e-5) if a.dtype.kind in "fcV" else 0.0
            part, size = (tolerance if asked is None else asked for asked in (rtol, atol))
            wide = [x.astype(np.float64) if x.dtype.kind in "fV" else x for x in (a, b)]
            try:
                np.testing.assert_allclose(wide[1], wide[0], rtol=part, atol=size)
            except AssertionError as error:
                said = f"{operation.name}: the kernel (actual) and the host form (desired) differ in {name}: {error}"
                raise AssertionError(said) from None


def _cotangent(like: np.ndarray) -> np.ndarray:
    """A cotangent with entries of both signs, of both parts where it is complex."""
    angle = np.arange(like.size, dtype=np.float64).reshape(like.shape)
    return (np.exp(1j * angle) if like.dtype.kind == "c" else np.cos(angle)).astype(like.dtype)


def _identity(operation: Any, inputs: Sequence[Any], moving: Sequence[int], rtol: float) -> None:
    """Check the adjoint identity <J v, w> = <v, J' w> for random v, and w so near to J v that nothing in the sum cancels."""

    def moved(*parts: Any) -> Any:
        given = list(inputs)
        for i, part in zip(moving, parts, strict=True):
            given[i] = part
        return operation(*given)

    primals = tuple(inputs[i].detach() for i in moving)
    v = tuple(map(randn_like, primals))
    values, tangents = map(results_of, jvp(moved, primals, v))
    pushed = [_wide(t) for y, t in zip(values, tangents, strict=True) if is_differentiable(y.dtype)]
    with enable_grad():
        leaves = [x.clone().requires_grad_() for x in primals]
        made = [y for y in results_of(moved(*leaves)) if is_differentiable(y.dtype)]
        w = [t.detach() * (0.75 + 0.5 * rand_like(t)) for y, t in zip(values, tangents, strict=True) if is_differentiable(y.dtype)]
        pulled = [_wide(g) for g in grad(made, leaves, w, allow_unused=True, materialize_grads=True)]
    left = sum(_inner(a, _wide(b)) for a, b in zip(pushed, w, strict=True))
    right = sum(_inner(_wide(a), b) for a, b in zip(v, pulled, strict=True))
    if not abs(left - right) <= rtol * max(abs(left), 1e-300):
        raise AssertionError(f"{operation.name}: the adjoint is not that of the kernel: <K v, w> is {left}, <v, K' w> is {right}")


def _wide(x: Tensor) -> np.ndarray:
    """A tensor's values on the host in double precision."""
    return _exact(x.detach()).cpu().numpy()


def _inner(a: np.ndarray, b: np.ndarray) -> float:
    """The real inner product Re sum(conj(a) b)."""
    return float((a.conj() * b).real.sum())
