"""Forward-mode derivatives: dual tensors within a dual level. Source: torch.autograd.forward_ad."""

from __future__ import annotations

from typing import Any, NamedTuple

from gradlib.core.batched import broadcast_as
from gradlib.core.forward import ForwardLevel
from gradlib.core.op import public
from gradlib.core.tensor import Tensor

__all__ = ["UnpackedDualTensor", "dual_level", "enter_dual_level", "exit_dual_level", "make_dual", "unpack_dual"]

_levels: list[ForwardLevel] = []


class UnpackedDualTensor(NamedTuple):
    """The named tuple that ``unpack_dual`` returns.

    Attributes:
        primal: the values, as a view that carries no tangent.
        tangent: the directional derivative, or None.
    Source: torch.autograd.forward_ad.UnpackedDualTensor.
    Example:
        >>> gradlib.autograd.forward_ad.unpack_dual(gradlib.ones(2))
        UnpackedDualTensor(primal=tensor([1., 1.]), tangent=None)
    """

    primal: Any
    tangent: Any


def enter_dual_level() -> int:
    """Enter a level of forward mode; ``dual_level`` does it as a context.

    Returns: the number of the level.
    Raises: RuntimeError when one is entered already (torch nests none either).
    Source: torch.autograd.forward_ad.enter_dual_level.
    Example:
        >>> level = gradlib.autograd.forward_ad.enter_dual_level()
        >>> gradlib.autograd.forward_ad.exit_dual_level(level=level)
    """
    if _levels:
        raise RuntimeError("Nested forward mode AD is not supported at the moment")
    level = ForwardLevel()
    level.__enter__()
    _levels.append(level)
    return len(_levels) - 1


def exit_dual_level(*, level: int | None = None) -> None:
    """Leave a level; every tangent made in it is gone.

    Args:
        level: its number; the innermost when left out.
    Raises: RuntimeError when it is not the innermost one entered.
    Source: torch.autograd.forward_ad.exit_dual_level.
    Example:
        >>> level = gradlib.autograd.forward_ad.enter_dual_level()
        >>> gradlib.autograd.forward_ad.exit_dual_level(level=level)
    """
    number = len(_levels) - 1 if level is None else level
    if not _levels or number != len(_levels) - 1:
        raise RuntimeError(f"Trying to exit a forward AD level that was not the last one that was created: level {level}.")
    _levels.pop().__exit__()


class dual_level:
    """The context in which dual tensors live; on leaving it their tangents are gone.

    Source: torch.autograd.forward_ad.dual_level.
    Example:
        >>> import gradlib.autograd.forward_ad as fwAD
        >>> with fwAD.dual_level():
        ...     x = fwAD.make_dual(gradlib.tensor([1.0, 2.0]), gradlib.tensor([1.0, 0.0]))
        ...     print(fwAD.unpack_dual(x**2).tangent)
        tensor([2., 0.])
    """

    def __enter__(self) -> int:
        return enter_dual_level()

    def __exit__(self, *exc: object) -> None:
        exit_dual_level()


def current_level(level: int | None = None) -> ForwardLevel | None:
    """The dual level with that number, by default the innermost; None if there is none."""
    if level is None:
        return _levels[-1] if _levels else None
    return _levels[level] if 0 <= level < len(_levels) else None


@public
def make_dual(tensor: Tensor, tangent: Tensor, *, level: int | None = None) -> Tensor:
    """A tensor that carries a tangent: a view of ``tensor`` whose derivative direction is ``tangent``.

    Args:
        tensor: the primal, floating or complex.
        tangent: of the same shape, dtype and device.
        level: the number of a level; the innermost when left out.
    Returns: the dual tensor.
    Raises: RuntimeError outside a dual level or when tensor and tangent do not fit; ValueError when they are no floats.
    Source: torch.autograd.forward_ad.make_dual.
    Example:
        >>> import gradlib.autograd.forward_ad as fwAD
        >>> with fwAD.dual_level():
        ...     x = fwAD.make_dual(gradlib.tensor(2.0), gradlib.tensor(1.0))
        ...     print(fwAD.unpack_dual(x * x).tangent)
        tensor(4.)
    """
    current = current_level(level)
    if current is None:
        raise RuntimeError("Trying to create a dual Tensor for forward AD but no level exists, make sure to enter_dual_level() first.")
    for name, value in (("primal", tensor), ("tangent", tangent)):
        if not (value.is_floating_point() or value.is_complex()):
            raise ValueError(f"Expected {name} to be floating point or complex, but got: {value.dtype}")
    if tangent.shape != tensor.shape or tangent.dtype != tensor.dtype or tangent.device != tensor.device:
        raise RuntimeError(
            f"a tangent has its primal's shape, dtype and device; the primal has {list(tensor.shape)}, {tensor.dtype} on {tensor.device}, "
            f"the tangent {list(tangent.shape)}, {tangent.dtype} on {tangent.device}"
        )
    if current.tangent(tensor) is not None:
        raise RuntimeError(
            f"Making a dual Tensor based on a Tensor that already has a forward gradient at the same level {_levels.index(current)} is not "
            "supported. Take the primal of unpack_dual."
        )
    if current.tangent(tangent) is not None:
        raise RuntimeError(
            f"Setting a forward grad that itself has a forward gradient at the same level {_levels.index(current)} is not supported. Take "
            "the primal of unpack_dual."
        )
    return current.dual(broadcast_as(tensor, tangent), tangent)


@public
def unpack_dual(tensor: Tensor, *, level: int | None = None) -> UnpackedDualTensor:
    """The primal and the tangent (or None) of a tensor.

    Args:
        tensor: any tensor.
        level: the number of a level; the innermost when left out.
    Returns: a named tuple (primal, tangent); the primal is a view that carries no tangent.
    Raises: TypeError, within a level, for anything but a Tensor.
    Source: torch.autograd.forward_ad.unpack_dual.
    Example:
        >>> import gradlib.autograd.forward_ad as fwAD
        >>> with fwAD.dual_level():
        ...     primal, tangent = fwAD.unpack_dual(fwAD.make_dual(gradlib.tensor(2.0), gradlib.tensor(1.0)))
        >>> primal, tangent
        (tensor(2.), tensor(1.))
    """
    current = current_level(level)
    if current is None:
        return UnpackedDualTensor(tensor, None)
    if not isinstance(tensor, Tensor):
        raise TypeError(f"unpack_dual takes a Tensor, not {type(tensor).__name__}")
    return UnpackedDualTensor(current.dual(tensor, None), current.tangent(tensor))
