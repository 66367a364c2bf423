"""The types that arguments of public functions have, and the error for an argument of another type.

A parameter's annotation says what it takes. Where that is Any, since raw arrays are taken as well and results are as the arguments are, its
name says it, which means the same everywhere (``KINDS``), or in this function (``KINDS_OF``). The type stubs say the same to type checkers
and are written from it (``ci/stubs.py``).

No call asks any of this while it goes well. Where one fails, its arguments are looked through, and if one is not what it is to be, the
error names it instead of what became of it further in. Of functions within functions the outermost, which the user called, has the last
word.
"""

from __future__ import annotations

import inspect
import operator
import re
import sys
from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from gradlib.backend.array import is_array
from gradlib.backend.device import device as Device
from gradlib.backend.dtype import as_dtype
from gradlib.backend.random import RandomStream
from gradlib.core.tensor import Tensor


def _same(names: str, what: str) -> dict[str, str]:
    """What each of these names is."""
    return dict.fromkeys(names.split(), what)


KINDS = {
    **_same(
        "input self mat mat1 mat2 vec vec2 batch1 batch2 source src index indices mask tensor x1 x2 A B a b x y target condition "
        "sorted_sequence elements boundaries values Q R points g grad_output real imag the_template",
        "Tensor",
    ),
    **_same("weight bias pos_weight sorter append prepend", "Tensor | None"),
    **_same("other exponent test_elements tensor1 tensor2 start end step mean std fill_value", "Operand"),
    **_same("out", "Tensor | None"),
    **_same("alpha beta value s", "Number"),
    **_same("shape size sizes dims shifts stride repeats normalized_shape destination offsets", "Shape"),
    **_same("dim axis", "Dims | None"),
    **_same("dim0 dim1 dim2 dimension offset diagonal k decimals num_classes", "int"),
    **_same("dtype", "DType | None"),
    **_same("device", "Device"),
    **_same("atol rtol rcond nan posinf neginf dx threshold", "float"),
    **_same("ord p", "float | Literal['fro', 'nuc'] | None"),
    **_same("min max", "Tensor | Number | None"),
    **_same("args", "Any"),
    **_same("tensors operands", "Sequence[Tensor]"),
    **_same("requires_grad inplace keepdim descending stable equal_nan", "bool"),
    "generator": "Generator | None",
    "indices_or_sections": "int | Sequence[int] | Tensor",
    "split_size_or_sections": "int | Sequence[int]",
    "split_size": "int | Sequence[int]",
    "split_sizes": "Sequence[int]",
    "data": "Any",
    "memory_format": "object",
    "layout": "object",
}
"""What an argument of this name is, where its annotation does not say."""


def _of(functions: str, argument: str, what: str) -> dict[tuple[str, str], str]:
    """What an argument of these functions is."""
    return {(name, argument): what for name in functions.split()}


KINDS_OF = {
    **_of("repeat_interleave", "repeats", "int | Tensor | None"),
    **_of("trapezoid trapz", "x", "Tensor | None"),
    **_of("index_put index_put_", "indices", "Sequence[Tensor] | tuple[Tensor | None, ...]"),
    **_of("select", "index", "int | Tensor"),
    **_of("narrow", "start", "int | Tensor"),
    **_of("index_fill masked_fill fill", "value", "Operand"),
    **_of("index_put", "values", "Operand"),
    **_of("isin", "elements", "Operand"),
    **_of("scatter", "value", "Number | None"),
    **_of("scatter", "src", "Tensor | Number | None"),
    **_of("movedim moveaxis", "source", "int | Sequence[int]"),
    **_of("view_as expand_as reshape_as type_as matmul kron vdot cross linalg_cross inner equal allclose", "other", "Tensor"),
    **_of("pow bucketize searchsorted add sub subtract rsub div divide", "input", "Operand"),
    **_of("where", "input", "Operand | None"),
    **_of("linear embedding", "weight", "Tensor"),
    **_of("select narrow cat concat concatenate stack unbind split split_with_sizes chunk gather unsqueeze", "dim", "int"),
    **_of("argsort cumprod cumsum logcumsumexp log_softmax softmax", "dim", "int"),
    **_of("argmax argmin prod", "dim", "int | None"),
    **_of("max min", "dim", "int | Tensor | None"),
    **_of("std std_mean var var_mean", "dim", "Dims | bool | None"),
    **_of("view", "shape", "Shape | DType"),
    **_of("type", "dtype", "DType | str | None"),
    **_of("copy_", "src", "Operand"),
    **_of("pinv", "atol", "float | Tensor | None"),
    **_of("pinv", "rtol", "float | Tensor | None"),
    **_of("bernoulli_", "p", "float | Tensor"),
    **_of("vector_norm", "ord", "float"),
    **_of("new_full", "size", "Any"),
    **_of("unfold", "size", "int"),
    **_of("unfold", "step", "int"),
    **_of("permute rot90 tile", "dims", "Sequence[int]"),
    **_of("broadcast_to", "size", "Sequence[int]"),
    **_of("lerp", "end", "Operand"),
    **_of("lerp", "weight", "Operand"),
    **_of("clamp_min", "min", "Tensor | Number"),
    **_of("clamp_max", "max", "Tensor | Number"),
    **_of("tensordot", "dims", "int | Sequence[Sequence[int]]"),
    **_of("roll", "dims", "Dims | None"),
    **_of("max min", "out", "Tensor | tuple[Tensor, ...] | None"),
    **_of("aminmax cummax cummin eig eigh kthvalue lstsq qr slogdet sort svd topk", "out", "tuple[Tensor, ...] | None"),
}
"""Arguments whose name means something else in one function."""


def kind_of(function: str, parameter: inspect.Parameter) -> str:
    """What a parameter takes: as its annotation says, or its name in this function, or its name."""
    said = parameter.annotation
    if isinstance(said, str) and said not in ("Any", "np.ndarray | Any", "Sequence[Any]"):
        return said
    for key in ((function, parameter.name), (function.removesuffix("_"), parameter.name)):
        if key in KINDS_OF:
            return KINDS_OF[key]
    known = KINDS.get(parameter.name, "Any")
    if parameter.kind is parameter.VAR_POSITIONAL and known == "Sequence[Tensor]":
        return f"Tensor | {known}"  # one by one, or all of them as the first
    if parameter.default is parameter.empty:
        return known
    return f"{known} | None" if parameter.default is None and "None" not in known and known not in ("Any", "object") else known


def refuse_wrong(name: str, call: Callable[..., Any], /, *args: Any, **named: Any) -> None:
    """Raise a TypeError that names the first argument which is not what its parameter takes; return where all are.

    Args:
        name: the function's, as its caller has it.
        call: the function, which is asked for its parameters.
        args, named: what it was given.
    """
    op = getattr(call, "op", None)
    for place, parameter in enumerate(inspect.signature(call).parameters.values()):
        values: tuple[Any, ...] = (named[parameter.name],) if parameter.name in named else ()
        if parameter.kind is parameter.VAR_POSITIONAL:
            values = args[place:]
        elif parameter.kind is not parameter.KEYWORD_ONLY and place < len(args):
            values = (args[place],)
        kind = kind_of(name, parameter)
        kind = kind if op is None else _as_declared(op, parameter.name, kind)
        for position, value in enumerate(values, place + 1):
            if value is not parameter.default and not is_of(kind, value):
                at = "" if parameter.kind is parameter.KEYWORD_ONLY else f" (position {position})"
                text = f"argument '{parameter.name}'{at} must be {_in_words(kind)}, not {_received(value)}{_advice(kind, value)}"
                raise TypeError(f"{name}(): {text}") from None


def _as_declared(op: Any, name: str, kind: str) -> str:
    """What an argument of an operation takes: whether it is a tensor, or a list of them, stands in its declaration."""
    if name == op.sequence:
        return kind if kind == "Sequence[Tensor]" else "Any"
    if kind == "Tensor" and op.numbers_first and len(op.tensors) > 1 and not isinstance(sys.exc_info()[1], AttributeError):
        return "Operand"  # a number meets the other operand, unless what failed was to ask it for what a tensor has
    if (name in op.tensors) is kind.startswith(("Tensor", "Operand", "Sequence[Tensor]")):
        return kind
    return "Operand | None" if name in op.tensors else "Any"


def is_of(kind: str, value: Any) -> bool:
    """Whether a value is of one of the kinds that a text like an annotation's lists; of one that is not known here it always is."""
    return any(_TESTS.get(each.partition("['")[0], _is_anything)(value) for each in _alternatives(kind))


def _alternatives(kind: str) -> list[str]:
    """What stands between the bars of an annotation, but not between those in its brackets."""
    return re.split(r" \| (?![^\[]*\])", kind)


def _is_anything(value: Any) -> bool:
    return True


def _is_tensor(value: Any) -> bool:
    if isinstance(value, Tensor):
        return True
    return (is_array(value) or isinstance(value, np.generic)) and value.dtype.kind in "biufcV"


def _is_number(value: Any) -> bool:
    return isinstance(value, (int, float, complex, np.number, np.bool_))


def _is_int(value: Any) -> bool:
    if isinstance(value, bool):
        return False
    try:
        operator.index(value)
    except Exception:  # what a Tensor, or a class of the user's, refuses with
        return False
    return True


def _is_real(value: Any) -> bool:
    return (_is_number(value) and not isinstance(value, (complex, np.complexfloating))) or (_is_tensor(value) and not value.ndim)


def _is_dtype(value: Any) -> bool:
    if isinstance(value, Tensor) or is_array(value):
        return False
    if isinstance(value, str) and value == "bfloat16":
        return True  # where its package is missing, the error for that says more
    try:
        as_dtype(value)
    except Exception:
        return False
    return True


def _several(test: Callable[[Any], bool]) -> Callable[[Any], bool]:
    """The test of a list or tuple by that of its elements."""
    return lambda value: isinstance(value, (list, tuple, range)) and all(map(test, value))


def _either(*tests: Callable[[Any], bool]) -> Callable[[Any], bool]:
    return lambda value: any(test(value) for test in tests)


_TESTS: dict[str, Callable[[Any], bool]] = {
    "Tensor": _is_tensor,
    "Operand": _either(_is_tensor, _is_number),
    "Number": lambda value: _is_number(value) or (_is_tensor(value) and not value.ndim),
    "Sequence[Tensor]": _several(_is_tensor),
    "tuple[Tensor | None, ...]": _several(_either(_is_tensor, lambda value: value is None)),
    "Iterable[Tensor]": lambda value: (
        isinstance(value, Iterable) and all(map(_is_tensor, value if isinstance(value, (list, tuple, str)) else ()))
    ),
    "int": _is_int,
    "Sequence[int]": _several(_is_int),
    "Sequence[Sequence[int]]": _several(_several(_is_int)),
    "Dims": _either(_is_int, _several(_is_int)),
    "Shape": _either(_is_int, _several(_is_int)),
    "float": _is_real,
    "bool": lambda value: isinstance(value, (bool, np.bool_)),
    "str": lambda value: isinstance(value, str),
    "Literal": lambda value: isinstance(value, str),
    "DType": _is_dtype,
    "Device": lambda value: value is None or isinstance(value, (str, int, Device)),
    "Generator": lambda value: isinstance(value, RandomStream),
    "None": lambda value: value is None,
}

_WORDS = {
    "Operand": "Tensor or number",
    "Number": "number",
    "float": "number",
    "Sequence[Tensor]": "list or tuple of Tensors",
    "tuple[Tensor | None, ...]": "list or tuple of Tensors",
    "Iterable[Tensor]": "iterable of Tensors",
    "Sequence[int]": "tuple of ints",
    "Sequence[Sequence[int]]": "pair of tuples of ints",
    "Literal['fro', 'nuc']": "'fro' or 'nuc'",
    "Dims": "int or tuple of ints",
    "Shape": "int or tuple of ints",
    "DType": "dtype or its name",
    "Device": "device",
}


def _in_words(kind: str) -> str:
    return " or ".join(dict.fromkeys(_WORDS.get(each, each) for each in _alternatives(kind) if each != "None"))


def _received(value: Any) -> str:
    """The type of a value; of an array that holds no numbers and of a list which is not of one type throughout, of its elements too."""
    name = _class_name(value)
    if is_array(value):
        return f"{name} of {value.dtype}"
    if isinstance(value, (list, tuple)) and value:
        return f"{name} of {' and '.join(dict.fromkeys(map(_class_name, value)))}"
    return name


def _class_name(value: Any) -> str:
    kind = type(value)
    if isinstance(value, Tensor):
        return "Tensor"
    return f"{kind.__module__.partition('.')[0]}.Tensor" if kind.__name__ == "Tensor" else kind.__name__


def _advice(kind: str, value: Any) -> str:
    """Advice on how to convert a value to the right type, where it can be; and on a text that is not the name of a dtype."""
    if kind.startswith("DType") and isinstance(value, str):
        return f" {value!r}"
    if not kind.startswith(("Tensor", "Operand")):
        return ""
    if hasattr(value, "__dlpack__") and not isinstance(value, Tensor) and not is_array(value):
        return "; gradlib.from_dlpack takes those of other libraries"
    if isinstance(value, (list, tuple)) and value and all(isinstance(each, Tensor) for each in value):
        return "; gradlib.stack or gradlib.cat makes one of several"
    numbers = value if isinstance(value, (list, tuple, range)) else (value,)
    return "; gradlib.tensor makes one of numbers" if all(map(_is_number, _flat(numbers))) else ""


def _flat(values: Any) -> Iterator[Any]:
    for each in values:
        if isinstance(each, (list, tuple)):
            yield from _flat(each)
        else:
            yield each
