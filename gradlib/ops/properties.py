"""Methods by which a Tensor tells of itself, as functions: ``gradlib.is_complex(x)`` beside ``x.is_complex()``."""

from __future__ import annotations

from gradlib.core.op import public, publish
from gradlib.core.tensor import Tensor

__all__ = [
    "detach", "is_complex", "is_conj", "is_floating_point", "is_inference", "is_neg", "is_nonzero", "is_same_size", "is_signed",
    "is_tensor", "numel",
]  # fmt: skip


def is_tensor(obj: object) -> bool:
    """Whether obj is a Tensor.

    Args:
        obj: anything.
    Source: torch.is_tensor.
    Example:
        >>> gradlib.is_tensor([1.0])
        False
    """
    return isinstance(obj, Tensor)


@public
def numel(input: Tensor) -> int:
    """How many elements there are.

    Args:
        input: any shape and dtype.
    Source: torch.numel.
    Example:
        >>> gradlib.numel(gradlib.zeros(2, 3))
        6
    """
    return input.numel()


@public
def is_floating_point(input: Tensor) -> bool:
    """Whether the elements are floating-point numbers.

    Args:
        input: any shape and dtype.
    Source: torch.is_floating_point.
    Example:
        >>> gradlib.is_floating_point(gradlib.tensor([1.0]))
        True
    """
    return input.is_floating_point()


@public
def is_complex(input: Tensor) -> bool:
    """Whether the elements are complex numbers.

    Args:
        input: any shape and dtype.
    Source: torch.is_complex.
    Example:
        >>> gradlib.is_complex(gradlib.tensor([1j]))
        True
    """
    return input.is_complex()


@public
def is_inference(input: Tensor) -> bool:
    """Whether the tensor was made in inference mode.

    Args:
        input: any shape and dtype.
    Source: torch.is_inference.
    Example:
        >>> gradlib.is_inference(gradlib.tensor([1.0]))
        False
    """
    return input.is_inference()


@public
def is_conj(input: Tensor) -> bool:
    """False: conjugates are computed at once.

    Args:
        input: any shape and dtype.
    Source: torch.is_conj.
    Example:
        >>> gradlib.is_conj(gradlib.tensor([1j]))
        False
    """
    return input.is_conj()


@public
def is_neg(input: Tensor) -> bool:
    """False: negatives are computed at once.

    Args:
        input: any shape and dtype.
    Source: torch.is_neg.
    Example:
        >>> gradlib.is_neg(gradlib.tensor([-1.0]))
        False
    """
    return input.is_neg()


@public
def is_signed(input: Tensor) -> bool:
    """Whether the dtype has negative numbers.

    Args:
        input: any shape and dtype.
    Source: torch.is_signed.
    Example:
        >>> gradlib.is_signed(gradlib.tensor([1]))
        True
    """
    return input.is_signed()


@public
def is_nonzero(input: Tensor) -> bool:
    """Whether the only element is not zero.

    Args:
        input: one element.
    Source: torch.is_nonzero.
    Example:
        >>> gradlib.is_nonzero(gradlib.tensor([2.0]))
        True
    """
    return input.is_nonzero()


@public
def is_same_size(input: Tensor, other: Tensor) -> bool:
    """Whether both have the same shape.

    Args:
        input, other: tensors.
    Source: torch.is_same_size.
    Example:
        >>> gradlib.is_same_size(gradlib.zeros(2), gradlib.ones(2))
        True
    """
    return tuple(input.shape) == tuple(other.shape)


@public
def detach(input: Tensor) -> Tensor:
    """The tensor's memory outside its graph.

    Args:
        input: any shape and dtype.
    Source: torch.detach.
    Example:
        >>> gradlib.detach(gradlib.ones(2, requires_grad=True))
        tensor([1., 1.])
    """
    return input.detach()


publish(is_same_size, "is_same_size")
publish(public(Tensor.detach_), "detach_")
