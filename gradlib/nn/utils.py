"""Gradients clipped, and parameters as one vector. Source: torch.nn.utils."""

from __future__ import annotations

import types
import warnings
from collections.abc import Iterable
from typing import Any

from gradlib.backend.array import device_index, is_cupy
from gradlib.backend.several import norms
from gradlib.core.grad_mode import no_grad
from gradlib.core.modes import global_state
from gradlib.core.op import public
from gradlib.core.tensor import Tensor, wrap
from gradlib.core.writes import write_several
from gradlib.ops.from_data import tensor
from gradlib.ops.join import cat, stack
from gradlib.ops.linalg.norms import vector_norm

__all__ = [
    "clip_grad_norm_", "clip_grad_value_", "clip_grads_with_norm_", "get_total_norm", "parameters_to_vector", "vector_to_parameters",
]  # fmt: skip


@public
def get_total_norm(
    tensors: Tensor | Iterable[Tensor], norm_type: float = 2.0, error_if_nonfinite: bool = False, foreach: bool | None = None
) -> Tensor:
    """The norm of all tensors as if they were one vector, on the first one's device; the host does not wait for it.

    Args:
        tensors: one, or several of any shapes.
        norm_type: of the norm, inf included.
        error_if_nonfinite: refuse a norm that is NaN or infinite, for which the host waits.
        foreach: for compatibility; there is one way.
    Returns: a 0-d Tensor; 0 for no tensors.
    Raises: RuntimeError as above.
    Source: torch.nn.utils.get_total_norm.
    Example:
        >>> gradlib.nn.utils.get_total_norm([gradlib.ones(2, 2)])
        tensor(2.)
    """
    each = [tensors] if isinstance(tensors, Tensor) else list(tensors)
    if not each:
        return tensor(0.0)
    order = float(norm_type)
    with no_grad():
        total = vector_norm(_partial_norms(each, order), order)
    if error_if_nonfinite and not bool(total.isfinite()):
        raise RuntimeError(
            f"The total norm of order {order} for gradients from `parameters` is non-finite, so it cannot be clipped. "
            "To disable this error and scale the gradients by the non-finite norm anyway, set `error_if_nonfinite=False`"
        )
    return total


@public
def clip_grad_norm_(
    parameters: Tensor | Iterable[Tensor], max_norm: float, norm_type: float = 2.0, error_if_nonfinite: bool = False,
    foreach: bool | None = None,
) -> Tensor:  # fmt: skip
    """Scale the gradients in place so that their joint norm is at most ``max_norm``. The host does not wait.

    Args:
        parameters: one tensor, or several; those without a gradient are left out.
        max_norm: the largest norm.
        norm_type: of the norm, inf included.
        error_if_nonfinite: refuse a norm that is NaN or infinite.
        foreach: for compatibility; there is one way.
    Returns: the norm before, a 0-d Tensor.
    Raises: RuntimeError as above.
    Source: torch.nn.utils.clip_grad_norm_.
    Example:
        >>> x = gradlib.zeros(2, requires_grad=True)
        >>> x.grad = gradlib.tensor([3.0, 4.0])
        >>> gradlib.nn.utils.clip_grad_norm_([x], 1.0)
        tensor(5.)
        >>> x.grad
        tensor([0.6000, 0.8000])
    """
    gradients = _gradients(parameters)
    with no_grad():
        total = get_total_norm(gradients, norm_type, error_if_nonfinite)
        _scale(gradients, max_norm, total)
    return total


@public
def clip_grads_with_norm_(parameters: Tensor | Iterable[Tensor], max_norm: float, total_norm: Tensor, foreach: bool | None = None) -> None:
    """Scale the gradients in place by ``max_norm / total_norm`` where that is below 1, for a norm that is known already.

    Args:
        parameters: one tensor, or several.
        max_norm: the largest norm.
        total_norm: of `get_total_norm`.
        foreach: for compatibility; there is one way.
    Source: torch.nn.utils.clip_grads_with_norm_.
    Example:
        >>> x = gradlib.zeros(2, requires_grad=True)
        >>> x.grad = gradlib.tensor([3.0, 4.0])
        >>> gradlib.nn.utils.clip_grads_with_norm_([x], 1.0, gradlib.tensor(5.0))
        >>> x.grad
        tensor([0.6000, 0.8000])
    """
    with no_grad():
        _scale(_gradients(parameters), max_norm, total_norm)


@public
def clip_grad_value_(parameters: Tensor | Iterable[Tensor], clip_value: float, foreach: bool | None = None) -> None:
    """Clip every element of the gradients in place to [-clip_value, clip_value].

    Args:
        parameters: one tensor, or several; those without a gradient are left out.
        clip_value: the largest magnitude.
        foreach: for compatibility; there is one way.
    Source: torch.nn.utils.clip_grad_value_.
    Example:
        >>> x = gradlib.zeros(2, requires_grad=True)
        >>> x.grad = gradlib.tensor([3.0, 0.4])
        >>> gradlib.nn.utils.clip_grad_value_([x], 1.0)
        >>> x.grad
        tensor([1.0000, 0.4000])
    """
    bound = float(clip_value)
    with no_grad():
        gradients = _gradients(parameters)
        if not _clipped("clip", gradients, -bound, bound):
            for gradient in gradients:
                gradient.clamp_(-bound, bound)


@public
def parameters_to_vector(parameters: Iterable[Tensor]) -> Tensor:
    """All parameters in one vector, one after the other; differentiable.

    Args:
        parameters: tensors on one device.
    Returns: (sum of sizes,)
    Raises: TypeError for tensors on several devices.
    Source: torch.nn.utils.parameters_to_vector.
    Example:
        >>> gradlib.nn.utils.parameters_to_vector([gradlib.zeros(2), gradlib.ones(1)])
        tensor([0., 0., 1.])
    """
    each = list(parameters)
    _check_one_device(each)
    return _as_one(each)


@public
def vector_to_parameters(vec: Tensor, parameters: Iterable[Tensor]) -> None:
    """Make the parameters views of the pieces of one vector: the reverse of `parameters_to_vector`.

    Args:
        vec: (sum of sizes,)
        parameters: tensors on one device.
    Raises: TypeError for anything but a Tensor, or for parameters on several devices; ValueError for a vector that is too short.
    Source: torch.nn.utils.vector_to_parameters.
    Example:
        >>> x = gradlib.zeros(2)
        >>> gradlib.nn.utils.vector_to_parameters(gradlib.ones(2), [x])
        >>> x
        tensor([1., 1.])
    """
    each = list(parameters)
    _check_one_device(each)
    needed = sum(value.numel() for value in each)
    if vec.numel() < needed:
        raise ValueError(f"the parameters have {needed} elements together; got a vector of {vec.numel()}")
    begin = 0
    for value in each:
        end = begin + value.numel()
        value.data = vec[begin:end].view(value.shape).data
        begin = end


def _gradients(parameters: Tensor | Iterable[Tensor]) -> list[Tensor]:
    each = [parameters] if isinstance(parameters, Tensor) else list(parameters)
    if not each and isinstance(parameters, types.GeneratorType):
        warnings.warn("`parameters` is an empty generator, no gradient clipping will occur.", UserWarning, stacklevel=5)
    return [gradient for value in each if (gradient := value.grad) is not None]


_SMALL = 4096
"""How many elements tensors have on average for which joining them costs less than it saves."""


def _partial_norms(tensors: list[Tensor], order: float) -> Tensor:
    """What has the norm that all elements have: the norms of parts of them, or small tensors of one dtype and device as one."""
    arrays = [value._array for value in tensors]
    sizes = [array.size for array in arrays]
    if len(sizes) > 1 and 0 not in sizes and order > 0:
        made = norms(arrays, order) if is_cupy(arrays[0]) and not global_state.active else None
        if made is not None:
            return wrap(made)
        if sum(sizes) <= _SMALL * len(sizes) and len({(array.dtype, device_index(array)) for array in arrays}) == 1:
            return _as_one(tensors)
    each = [vector_norm(value, order) for value in tensors]
    return stack([norm.to(each[0].device) for norm in each])


def _as_one(tensors: list[Tensor]) -> Tensor:
    return cat([value if value._array.ndim == 1 else value.reshape(-1) for value in tensors])


def _scale(gradients: list[Tensor], max_norm: float, total: Tensor) -> None:
    if _clipped("scale", gradients, total._array, float(max_norm)):
        return
    factor: Any = (float(max_norm) / (total + 1e-6)).clamp(max=1.0)
    for gradient in gradients:
        near = device_index(gradient._array) == device_index(factor._array)
        gradient.mul_(factor if near else factor.to(gradient.device))


def _clipped(name: str, gradients: list[Tensor], *values: Any) -> bool:
    """`write_several` for gradients of which nothing is recorded."""
    for each in gradients:
        if type(each) is not Tensor or each._node is not None:
            return False
    return write_several(name, gradients, *values)


def _check_one_device(parameters: list[Tensor]) -> None:
    if len({device_index(value._array) for value in parameters}) < 2:
        return
    devices = sorted({str(value.device) for value in parameters})
    if len(devices) > 1:
        raise TypeError(f"Found two parameters on different devices, {devices}, this is currently not supported.")
