"""Differences from torch that are meant, each with its reason. Everything else that a random program shows is a fault."""

from __future__ import annotations

import re
from dataclasses import dataclass

from tests.differential.compare import Disagreement
from tests.differential.program import Program


@dataclass(frozen=True)
class Judged:
    """A difference that is meant.

    Attributes:
        what: the kinds of disagreement ("accepts", "value", ...) that it explains.
        reason: why it is right as it is.
        line: a pattern that a line of the reduced program matches.
        message: a pattern that torch's or gradlib's answer matches.
        modes: the modes that it explains; all where empty.
    """

    what: tuple[str, ...]
    reason: str
    line: str = ""
    message: str = ""
    modes: tuple[str, ...] = ()

    def explains(self, program: Program, found: Disagreement) -> bool:
        return (
            found.what in self.what
            and (not self.modes or found.mode in self.modes)
            and re.search(self.line, program.text()) is not None
            and re.search(self.message, f"{found.torch}\n{found.gradlib}") is not None
        )


JUDGED: list[Judged] = [
    Judged(
        ("accepts",),
        "torch has no such derivative, batching rule or kernel; gradlib has",
        message=r"Batching rule not implemented|derivative for .* is not implemented|the derivative for '.*' is not implemented"
        r"|Trying to use forward AD with .* that does not support it|\" not implemented for '|not implemented for '|Could not run 'aten",
    ),
    Judged(("accepts",), "gradlib keeps less for backward, so fewer writes spoil it", message=r"has been modified by an inplace operation"),
    Judged(
        ("accepts",),
        "NumPy's spelling is understood as well",
        message=r"received an invalid combination of arguments|must be tuple of ints",
    ),
    Judged(
        ("accepts",),
        "a limit of how torch implements its transforms, which gradlib's do not have",
        message=r"requires_grad_\(\) .*inside of a function being transformed|accessing `data` under vmap"
        r"|Cannot set version_counter for inference"
        r"|vmap: It looks like you're calling \.item|vmap: inplace arithmetic",
    ),
    Judged(
        ("requires_grad",),
        "torch says True of a view made without recording, though nothing flows through it and its grad_fn is None",
        line=r"no_grad|inference_mode",
        message=r"torch: +True",
    ),
    Judged(("requires_grad",), "torch lets unique require a gradient that it cannot compute", line=r"lib\.unique"),
    Judged(
        ("requires_grad", "value", "missing", "raises"),
        "torch leaves a tensor its old history where such a write replaced the values: a wrong gradient",
        line=r"logical_(not|and|or|xor)_\(",
    ),
    Judged(
        ("requires_grad", "missing", "leaf"),
        "a comparison written in place has no derivative; torch records one of zeros",
        line=r"\b(eq|ne|lt|le|gt|ge)_\(",
    ),
    Judged(("value",), "NaN is past every number, as in NumPy; torch puts it past other NaN too", line=r"searchsorted|bucketize"),
    Judged(("value",), "torch divides by the number of equals, of which NaN has none", line=r"scatter_reduce", message="nan"),
    Judged(("value",), "torch asks products of NaN whether they are zero", line=r"cumprod", message="nan", modes=("forward",)),
    Judged(
        ("value",),
        "infinite logits: torch subtracts inf from inf where gradlib does not, or the other way round",
        line=r"with_logits",
        message="inf|nan",
    ),
    Judged(
        ("accepts",),
        "a limit of torch's rule",
        message=r"Subtraction, the `-` operator, with a bool tensor|Negation, the `-` operator, on a bool tensor|Autograd not support dtype"
        r"|isFloatingType\(grad|does not support automatic differentiation for outputs with complex|Can't detach views in-place"
        r"|cast to the desired output type Long|source tensor shape must match self tensor",
    ),
    Judged(("raises",), "torch resizes out= with a warning that this will become an error", message=r"out= has shape"),
    Judged(("value",), "torch's tangent is no transpose of its own gradient", line=r"scatter_reduce\(.*'prod'", modes=("forward",)),
    Judged(
        ("value",),
        "torch multiplies infinite values by tangents of zero that it materialised",
        line=r"matmul|@|mv\(|mm\(|multi_dot|linear|einsum|tensordot|outer|kron|dot\(",
        message=r"torch: .*nan",
        modes=("forward",),
    ),
    Judged(("raises",), "NumPy has no complex numbers of half precision", message=r"view_as_complex is only|complex32"),
    Judged(("dtype",), "torch's tangent has the dtype of the input, not of the result", line=r"dtype=", message="", modes=("forward",)),
    Judged(
        ("leaf",), "torch's leaf flag follows requires_grad, which it says of a view made without recording", line=r"no_grad|inference_mode"
    ),
    Judged(("raises",), "a matrix is singular or not by the rounding of its elimination", line=r"solve|inv", message=r"[Ss]ingular"),
    Judged(
        ("raises",),
        "the shape of the result depends on values; torch falls back to a loop that ends well when they happen to agree",
        message=r"dynamic shape",
    ),
]


def judged(program: Program, found: Disagreement) -> Judged | None:
    """The judgement that explains a disagreement of a reduced program."""
    return next((each for each in JUDGED if each.explains(program, found)), None)
