"""Differences from torch that are meant, each with its reason. Everything else that a random program shows is a fault."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from tests.differential.compare import Disagreement, Raised, close, facts
from tests.differential.program import Program, libraries

NUMERIC_STEP = 1e-6


def meets_nan(program: Program, found: Disagreement) -> bool:
    """Whether a variable of the program holds NaN."""
    values = facts(libraries()[0], program, "values")
    return not isinstance(values, Raised) and any(each[0].dtype.kind in "fc" and np.isnan(each[0]).any() for each in values.values())


def tangent_is_numeric(program: Program, found: Disagreement) -> bool:
    """Whether gradlib's tangent, and not torch's, is the difference quotient of torch's own values. Asked of float64 programs."""
    torch, gradlib = libraries()
    if any(each.dtype != "float64" for each in program.leaves()):
        return False
    ours, its = facts(gradlib, program, "forward"), facts(torch, program, "forward")
    sides = []
    for sign in (1, -1):
        moved = []
        for each in program.inputs:
            if each.requires_grad:
                place = program.leaves().index(each)
                count = each.values.size
                step = np.cos(np.arange(1, count + 1) * (place + 1.3)).round(3).reshape(each.values.shape)
                each = replace(each, values=each.values + sign * NUMERIC_STEP * step)
            moved.append(each)
        sides.append(facts(torch, replace(program, inputs=tuple(moved)), "forward"))
    name = found.where.removeprefix("tangent of ")
    if any(isinstance(run, Raised) for run in (ours, its, *sides)) or any(run[name][1] != "float64" for run in sides):
        return False
    with np.errstate(all="ignore"):
        quotient = (sides[0][name][0] - sides[1][name][0]) / (2 * NUMERIC_STEP)
    return close(ours[found.where][0], quotient, "float32") and not close(its[found.where][0], quotient, "float32")


def dtype_is_that_of_one_row(program: Program, found: Disagreement) -> bool:
    """Whether gradlib's rows have the dtype that torch's result has without vmap."""
    alone = facts(libraries()[0], program, "values")
    return not isinstance(alone, Raised) and alone[found.where][1] == found.gradlib


@dataclass(frozen=True)
class Judged:
    """A difference that is meant.

    Attributes:
        what: the kinds of disagreement ("accepts", "value", ...) that it explains.
        reason: why it is right as it is.
        line: a pattern that the reduced program's text matches; WHERE in it is the variable that the disagreement is about.
        message: a pattern that the disagreement's text matches.
        modes: the modes that it explains; all where empty.
        asks: a question that must be answered with yes too.
    """

    what: tuple[str, ...]
    reason: str
    line: str = ""
    message: str = ""
    modes: tuple[str, ...] = ()
    asks: Callable[[Program, Disagreement], bool] = lambda program, found: True

    def explains(self, program: Program, found: Disagreement) -> bool:
        name = re.sub(r".* ", "", found.where)
        return (
            found.what in self.what
            and (not self.modes or found.mode in self.modes)
            and re.search(self.line.replace("WHERE", rf"\b{name}\b"), program.text()) is not None
            and re.search(self.message, str(found)) is not None
            and self.asks(program, found)
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
        line=r"(no_grad|inference_mode)\(\):\n(    .*\n)*    .*WHERE.* = ",
        message=r"torch: +True",
    ),
    Judged(("requires_grad", "leaf"), "torch lets unique require a gradient that it cannot compute", line=r"WHERE = lib\.unique"),
    Judged(
        ("requires_grad", "value", "missing", "raises", "accepts"),
        "torch leaves a tensor its old history where such a write replaced the values: a wrong gradient",
        line=r"logical_(not|and|or|xor)_\(",
    ),
    Judged(
        ("value", "accepts"),
        "torch does not record that a tensor got another shape under no_grad, and hands its gradient on in that shape",
        line=r"(no_grad|inference_mode)\(\):\n(    .*\n)*    .*\.(t|transpose|swapaxes|swapdims|squeeze|unsqueeze)_\(",
        modes=("backward", "again"),
    ),
    Judged(
        ("value",),
        "NaN is past every number, as in NumPy; torch puts it past other NaN too",
        line=r"WHERE = .*(searchsorted|bucketize)",
        asks=meets_nan,
    ),
    Judged(("value",), "torch divides 0 by 0 at a NaN that nothing meets", line=r"scatter_reduce", message="nan"),
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
    Judged(
        ("value",),
        "which of several equal elements is meant is open",
        line=r", WHERE = .*(kthvalue|topk|median|sort|mode)|argsort",
        message="int64",
    ),
    Judged(
        ("value",),
        "the side of a branch cut, which the sign of a zero decides",
        line=r"(?s)(?=.*-0(\.0)?\b).*(arccosh|acosh|asinh|arcsinh|log|sqrt|pow|\*\*)",
        message="complex",
    ),
    Judged(
        ("value",),
        "torch's slopes of asin and acos are those of the other side of their cuts",
        line=r"\b(arc|a)(sin|cos)h?_?\(",
        message="complex",
        modes=("backward", "again", "forward"),
    ),
    Judged(
        ("value",),
        "vmap's third row is -x: torch's negative of a real number has the imaginary part +0, and so is on the other side of a cut",
        line=r"(?s)(?=.*\+0j).*(arccosh|acosh|asinh|arcsinh|acos|asin|log|sqrt|pow|\*\*)",
        message=r"vmap: .*\n.*complex",
    ),
    Judged(
        ("value",),
        "conjugates are computed at once, not marked: a write into .H, .mH, adjoint() or conj() of complex numbers does not reach its base",
        line=r"(?s)(\.m?H\b|adjoint|conj\().*\w_\(|(\.m?H\b|adjoint|conj\().*\] = ",
        message="complex",
    ),
    Judged(("accepts",), "torch's kron cannot view what .mT or .T gave", line="kron", message="view size is not compatible"),
    Judged(
        ("accepts",),
        "torch's forward mode computes in double beside a 0-d tensor, and refuses its own tangent",
        message="expected self and source to have same dtypes but gotFloat and Double|INTERNAL ASSERT FAILED.*autograd_meta",
    ),
    Judged(("missing",), "zeros that torch leaves out", message=r"torch: +None\n +gradlib: ([\[\](), +]*-?0(\.0)?j?)+[\]) ]+ \w+$"),
    Judged(
        ("missing",), "a derivative of nothing, or none", message=r"torch: +\[[\[\], ]*\] \w+\n|torch: +None\n +gradlib: \[[\[\], ]*\] \w+$"
    ),
    Judged(("requires_grad",), "a sum of nothing", line=r"WHERE = lib.trapezoid"),
    Judged(("value",), "at a tie torch's tangent is not what its gradient says", line=r"clamp|clip", modes=("forward",)),
    Judged(
        ("value",),
        "NaN in NaN out: torch multiplies by a mask of zeros where gradlib chooses",
        line=r"fmin|fmax|nan_to_num|clamp|minimum|maximum|where\(",
        message=r"torch: .*nan",
        modes=("backward", "again", "forward"),
    ),
    Judged(("raises",), "the sum of bools is no bool", line=r"cum(sum|prod)_?\("),
    Judged(
        ("accepts",),
        "a dimension list that is empty means all",
        message=r"output with shape \[\] doesn't match the broadcast shape|expected to be in range of \[-1, 0\], but got \[-1",
    ),
    Judged(("shape",), "torch forgets the rows of a product over nothing", line=r"addmv"),
    Judged(("value",), "a write from itself, whose order is open", line=r"(\w+)\.(masked_scatter_|index_copy_|scatter_)\(.*\b\1\b"),
    Judged(
        ("value",),
        "the order in which infinite complex products are added",
        line=r"dot|inner|matmul|@|mm|einsum|prod",
        message="inf.*j|nan.*j",
    ),
    Judged(
        ("raises",), "a hook on what has no gradient is refused, though torch says that it requires one", message="cannot register a hook"
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
    Judged(("raises", "dtype"), "NumPy has no complex numbers of half precision", message=r"view_as_complex is only|complex32"),
    Judged(
        ("dtype",), "torch divides the tangent of a 0-d tensor by a number as by a double", message=r"torch: +float64", modes=("forward",)
    ),
    Judged(("dtype",), "torch's tangent has the dtype of the input, not of the result", line=r"WHERE = .*dtype=", modes=("forward",)),
    Judged(
        ("value",), "torch's tangent is not the derivative of its own values; gradlib's is", modes=("forward",), asks=tangent_is_numeric
    ),
    Judged(
        ("leaf",),
        "torch's leaf flag follows requires_grad, which it says of a view made without recording",
        line=r"(no_grad|inference_mode)\(\):\n(    .*\n)*    .*WHERE.* = ",
    ),
    Judged(("raises",), "a matrix is singular or not by the rounding of its elimination", line=r"solve|inv", message=r"[Ss]ingular"),
    Judged(
        ("raises",),
        "the shape of the result depends on values; torch falls back to a loop that ends well when they happen to agree",
        message=r"dynamic shape",
    ),
    Judged(
        ("value",),
        "torch computes the tangent of a write from an operand that the write has changed",
        line=r"([av]\d+)\.\w+_\(.*\1[,)]|([av]\d+) [*/+-]= \2",
        modes=("forward",),
    ),
    Judged(
        ("value", "shape"),
        "torch lets a tangent share the memory of another's, and writes into it or turns it",
        line=r"\w_\(|\] [*+]?=|[*+/-]= |apply\(",
        message="tangent",
        modes=("forward",),
    ),
    Judged(("value",), "a sum into one of its own inputs: torch writes before it reads", line=r"\((?=.*\b(\w+)\b).*out=\1\b"),
    Judged(("value",), "torch takes the real part of a complex tangent", line=r"pow\(|\*\*", message="j", modes=("forward",)),
    Judged(
        ("value",),
        "a subgradient at zero, of which torch's second derivative is NaN",
        line=r"norm\(|dist\(",
        message=r"torch: .*nan",
        modes=("again", "backward"),
    ),
    Judged(
        ("value",),
        "torch multiplies 0 by the logarithm of 0",
        line=r"__rpow__\(0|\b0(\.0)? \*\*|pow\(|\*\* ",
        message="nan|inf",
        modes=("again", "backward"),
    ),
    Judged(("value",), "torch divides the product by NaN or zero to get the product of the others", line=r"prod", message="nan|inf"),
    Judged(
        ("value",),
        "at a tie, or beside NaN, torch's tangent is not what its gradient says",
        line=r"fmax|fmin|maximum|minimum|median|\b(max|min)\(|logcumsumexp",
        modes=("forward",),
    ),
    Judged(("accepts",), "torch has no 0-d form of it", line=r"repeat_interleave|logcumsumexp", message="Dimension out of range|Index"),
    Judged(
        ("accepts",),
        "NumPy reads before it writes where memory overlaps",
        message="some elements of the input tensor and the written-to tensor refer",
    ),
    Judged(("raises",), "torch writes to memory that several elements share", message="more than one element of the written-to tensor"),
    Judged(("value",), "torch writes to memory that several elements share, each as often as it is named", line=r"unfold.*\n(.*\n)*.*_\("),
    Judged(
        ("value",),
        "torch multiplies by a complex 1, which makes infinite numbers NaN",
        line=r"sub|add|diff|- |\+ ",
        message=r"nan.*j.* complex",
    ),
    Judged(
        ("value",),
        "where NaN and inf stand in the result of an elimination is open",
        line=r"linalg\.(qr|solve|inv|det|slogdet|eig|svd|pinv|lstsq|cholesky)|lib.inverse",
        message="nan|inf",
    ),
    Judged(("raises",), "NumPy has no complex numbers of half precision", message=r"complex: both parts must be"),
    Judged(("value",), "torch's tangent of the determinant of a singular matrix is 0", line=r"\bdet\(", modes=("forward",)),
    Judged(("value",), "the tangent of a Cholesky factor for a tangent that is not symmetric", line=r"cholesky", modes=("forward",)),
    Judged(
        ("accepts",),
        "views of a split, or made without recording, may be used after a write to their base: gradlib knows their history",
        message=r"is a view and its base or another view|A view was created in (no_grad|inference) mode and its base",
    ),
    Judged(("raises",), "torch reads outside the array", line=r"take_along_dim", message="out of bounds"),
    Judged(("accepts",), "a write into values that torch did not make", message="ZeroTensors are immutable"),
    Judged(("accepts",), "torch has no such in-place form", message="In-place abs is not supported for complex"),
    Judged(("raises",), "a product of bools is refused, also of nothing", message="matmul is not implemented for bool"),
    Judged(
        ("raises",),
        "a constant source does not free index_add of its indices",
        line=r"index_add|scatter_add",
        message="modified by an inplace",
    ),
    Judged(
        ("raises", "accepts", "requires_grad"),
        "what was compared in place, or made without recording, wants no gradient",
        line=r"\b(eq|ne|lt|le|gt|ge|logical_\w+)_\(|no_grad|inference",
        message=r"does not require grad|a leaf Variable that requires grad|view of a leaf Variable",
    ),
    Judged(
        ("value",), "0 times inf or NaN: gradlib chooses, torch multiplies", line=r"addmm|addmv|baddbmm|lerp|huber|smooth", message="nan"
    ),
    Judged(("accepts",), "the stale check of a detached tensor", message="detached in-place"),
    Judged(("missing",), "a second derivative of one factor", line=r"prod\(|nll_loss|scatter_reduce", message=r"gradlib: None"),
    Judged(("version",), "a write to no element is a write", line=r"\[False"),
    Judged(
        ("requires_grad", "leaf"),
        "torch says True of a view taken before its base became a leaf that requires grad, though nothing flows through it",
        line=r"\.requires_grad_\(\)",
        message=r"torch: +True",
    ),
    Judged(("requires_grad",), "bools have no gradient", line=r"WHERE.*\b(eq|ne|lt|le|gt|ge)_\(", message=r"torch: +True"),
    Judged(
        ("raises",),
        "eigenvalues of NaN: torch gives NaN or raises, as LAPACK happens to",
        line=r"(?s)(nan|inf).*eigvalsh",
        message="non-finite",
    ),
    Judged(
        ("value",),
        "a quotient of a tangent by zero: torch adds before it divides by zero, gradlib after",
        line=r"/|div",
        message="inf|nan",
        modes=("forward",),
    ),
    Judged(
        ("value",),
        "the angle at the origin: torch's gradient is 0 and its tangent NaN",
        line=r"atan2|arctan2|hypot",
        message=r"torch: .*nan",
        modes=("forward",),
    ),
    Judged(("value",), "torch multiplies 0 by inf where the slope has a limit", line=r"gelu", message=r"torch: .*nan"),
    Judged(
        ("value",), "the mean over no row", line=r"cross_entropy|mse_loss|l1_loss|huber_loss", message=r"gradlib: nan", modes=("forward",)
    ),
    Judged(
        ("raises",),
        "the dtypes are asked also where nothing is computed",
        line=r"(?s)reshape\(.*0.*(cdist|einsum)",
        message="the same dtype",
    ),
    Judged(("value",), "torch rolls the rows", line=r"WHERE = lib\.roll\((\w+), -?\d\)", modes=("vmap",)),
    Judged(("raises",), "a sum of fractions into integers", line=r"lib\.sum\(.*out=", message=r"can't be cast to the desired output type"),
    Judged(
        ("accepts",),
        "a number is no tensor that backward lets go of",
        line=r"\((a|v)\d+, -?\d(\.\d)?[,)]|__\(-?\d",
        message="backward through the graph a second time",
    ),
    Judged(
        ("value",),
        "torch's gelsy gives zeros for a wide matrix whose first column is zero, though another matrix solves it",
        line=r"WHERE = lib\.linalg\.lstsq",
        message=r"torch: +\[[\[\]0., -]*\] ",
    ),
    Judged(("accepts",), "a matrix of inf has singular values NaN; torch gives them or raises, by its shape", message="failed to converge"),
    Judged(("raises",), "torch fills by a mask from one element of any dtype", line=r"\[a\d+\] = ", message="needs one dtype"),
    Judged(
        ("value",),
        "where two numbers are far apart, or infinite, torch multiplies an exponential that overflowed by one that is zero",
        line=r"logaddexp",
        message=r"torch: .*nan",
        modes=("again",),
    ),
    Judged(
        ("value",), "torch divides the result by the input, which is NaN of zeros and infinities", line=r"copysign", message=r"torch: .*nan"
    ),
    Judged(
        ("value",), "the sign of the zero that relu gives", line=r"(?s)relu.*(atan2|arctan2|/|div|reciprocal|angle|copysign)", message="-"
    ),
    Judged(
        ("value",),
        "torch's running mean subtracts an infinite mean from an infinite element, whose mean by itself is infinite in torch too",
        line=r"(var|std)_mean\(.*",
        message=r"torch: .*nan.*\n.*gradlib: .*inf",
    ),
    Judged(
        ("raises",),
        "torch's kron keeps what it multiplies without a version, so that its gradient after a write is silently wrong",
        line=r"kron\(",
        message="modified by an inplace operation",
    ),
    Judged(
        ("dtype",),
        "torch's tangent of a 0-d half has the float32 in which it was computed",
        line=r"(std|var)\w*\(",
        message=r"torch: +float32\n +gradlib: +float16",
        modes=("forward",),
    ),
    Judged(
        ("accepts",),
        "torch solves with the singular matrix itself; gradlib says inf or NaN, as both do in the first order",
        line=r"det\(",
        message="solver failed because the input matrix is singular",
        modes=("again",),
    ),
    Judged(
        ("dtype",),
        "torch counts the batch's dimension in promotion, so that rows of no dimensions are none to it",
        modes=("vmap",),
        asks=dtype_is_that_of_one_row,
    ),
]


def judged(program: Program, found: Disagreement) -> Judged | None:
    """The judgement that explains a disagreement of a reduced program."""
    return next((each for each in JUDGED if each.explains(program, found)), None)
