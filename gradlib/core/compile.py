"""Compiles each operation's fast path when it is first called, from the text that ``core/compile_path.py`` writes.

``inspect.getsource(gradlib.tanh)`` shows it. Where CuPy arrays first come, where hooks for saved tensors or an observer are first active,
a variant of its own is compiled.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from gradlib.backend import array as arrays, columns, vectorised
from gradlib.backend.division import device_function
from gradlib.backend.pointwise import prepared, small
from gradlib.core.compile_forward import alike, carry, zero
from gradlib.core.compile_node import node_name
from gradlib.core.compile_path import call_signature, source_of, source_of_call, source_of_forward, source_of_observed
from gradlib.core.declaration import OPERATIONS, Op
from gradlib.core.device_rules import added, by_kernel, function_on_device, jvp_on_device, kernel_function, on_device, where_refused
from gradlib.core.node import Dual
from gradlib.core.saved import pack_results
from gradlib.core.streams import default_stream, keep_stream
from gradlib.core.variant import CALL, FORWARD, FORWARD_ON_DEVICE, OBSERVED, ON_DEVICE, OPERATOR, PACKING
from gradlib.core.written import build, written_when_called


def _parts(op: Op) -> dict[str, Any]:
    """What the texts of an operation name of its declaration."""
    nodes = {"Node": op.node, "Lasting": op.lasting_node}
    wide = {"_broadcast": functools.partial(columns.broadcast, op.direct), "LARGE": columns.LARGE} if op.broadcasts else {}
    return {"op": op, "_value": op.value, "_of_floats": op.of_floats, "_direct": op.direct, "_meet": op.meet, **nodes, **wide}


def compile_call(op: Op, operator: bool = False) -> Any:
    """The public function of an operation; or what stands on Tensor for one of Python's operators: no keywords, and ``operate``."""
    variant = OPERATOR if operator else CALL
    head, call = (", ".join(op.params),) * 2 if operator else call_signature(op)
    function: Any = written_when_called(
        op.label, variant.file(op), head, call, functools.partial(source_of_call, op, variant), op.defaults,
        functools.partial(_names_of_call, op),
    )  # fmt: skip
    function.__doc__ = op.value.__doc__
    function.__module__ = op.value.__module__
    function.op = op
    return function


def _names_of_call(op: Op) -> dict[str, Any]:
    """What the text of ``compile_call`` names."""
    return {**_parts(op), "_forward": op.forward}


def named(call: Callable[..., Any], label: str, node: bool = True) -> Callable[..., Any]:
    """The public function of an operation under another name, which profiles show, and its nodes have unless ``node`` is False."""
    op: Op = copy.copy(call.op)  # type: ignore[attr-defined]
    for made in _MADE_WHEN_ASKED:
        vars(op).pop(made, None)
    op.label = label
    if node:
        op.node_name = node_name(label)
    op.call = compile_call(op)
    OPERATIONS.add(label)
    return op.call


_MADE_WHEN_ASKED = (
    "observed", "on_device", "packing", "forward", "forward_on_device", "node", "lasting_node", "complex_node", "lasting_complex_node",
)  # fmt: skip


def compile_on_device(op: Op) -> Any:
    """The same for CuPy arrays on the current device, written when an operation first meets one; everything else goes to ``slow_path``."""
    return build(op.name, ON_DEVICE.file(op), source_of(op, ON_DEVICE), _names_on_device(op))


def _names_on_device(op: Op) -> dict[str, Any]:
    """What the texts of an operation on a device name."""
    library = arrays.cupy()
    of_library = {
        "cupy": prepared(), "cupy_array": library.ndarray, "single": np.float32, "numpy_number": (np.floating, np.integer),
        "complex_number": complex,
        "current_device": library.cuda.runtime.getDevice,
        "current_stream": library.cuda.get_current_stream, "usual_stream": default_stream(), "keep_stream": keep_stream,
    }  # fmt: skip
    nodes = {"ComplexNode": op.complex_node, "ComplexLasting": op.lasting_complex_node}
    computes = {"_direct": op.value_on_device, "_value": function_on_device(op.value, decorated=True)}
    if "out" in op.kernels:
        formula = functools.partial(computes["_value"], prepared())
        kernel = op.kernels["out"]
        computes |= {"_kernel": kernel_function(kernel), "_refused": where_refused(kernel, formula, bool(op.overwrites))}
    if op.of_floats is not None:
        computes["_of_floats"] = function_on_device(op.of_floats, decorated=True)
    return {**of_library, **_parts(op), **nodes, **computes}


def compile_forward(op: Op) -> Any:
    """``forward(level, *args)``: the operation where one level of forward mode is all that is active; the rest goes to ``dispatch``."""
    arguments = ", ".join(["_level", *op.params])
    return written_when_called(
        op.name, FORWARD.file(op), arguments, arguments, functools.partial(source_of_forward, op, FORWARD), {},
        lambda: {**_parts(op), **_of_tangents(op.rules), "jvp": op.jvp, "broadcast_to": np.broadcast_to},
    )  # fmt: skip


def compile_forward_on_device(op: Op) -> Any:
    """The same for CuPy arrays on the current device; everything else goes to ``slow_path``."""
    more = {"jvp": jvp_on_device(op), "broadcast_to": arrays.cupy().broadcast_to, "added": added}
    names = {**_names_on_device(op), **_of_tangents(on_device(op)), **more}
    return build(op.name, FORWARD_ON_DEVICE.file(op), source_of_forward(op, FORWARD_ON_DEVICE), names)


def _of_tangents(rules: dict[str, Any]) -> dict[str, Any]:
    """What the texts of forward mode name."""
    return {"Dual": Dual, "alike": alike, "carry": carry, "zero": zero, **{f"rule_{name}": rule for name, rule in rules.items()}}


def value_on_device(op: Op) -> Callable[..., Any]:
    """What computes an operation's value on CuPy arrays of the current device, with the arguments of the value but for ``xp``."""
    formula = functools.partial(function_on_device(op.value, decorated=True), prepared())
    if isinstance(op.device, str):
        return small(op.device, formula)
    if op.device is not None:
        return op.device
    if "out" in op.kernels:
        return by_kernel(op.kernels["out"], formula, bool(op.overwrites))
    if op.direct is not None and (theirs := device_function(op.direct.__name__)) is not None:
        return small(op.direct.__name__, theirs, op.numbers_in_single)
    return formula


def compile_packing(op: Op) -> Any:
    """The operation where hooks for saved tensors are all that is active; everything else goes to ``slow_path``."""
    return build(op.name, PACKING.file(op), source_of(op, PACKING), {**_parts(op), "pack_results": pack_results})


def compile_observed(op: Op) -> Any:
    """``observed(seq, *args)``: the operation with the number its node is to have, for an observer to call while it is all there is."""
    return build("observed", OBSERVED.file(op), source_of_observed(op), _parts(op))


class _Spy:
    """A namespace whose functions give their name and arguments."""

    def __getattr__(self, name: str) -> Any:
        return lambda *args, **kwargs: (name, args, kwargs)


def direct_function(op: Op) -> Callable[..., Any] | None:
    """The function of NumPy's arrays to which the declared value only hands its arguments, so that it can be called without a detour.

    It has NumPy's name; it is NumPy's own, or where the value names `gradlib.backend.vectorised` what that has in its place.
    """
    marks = [object() for _ in op.params]
    try:
        name, args, kwargs = op.value(_Spy(), *marks)
    except Exception:  # it does more than hand on its arguments
        return None
    if list(args) != marks or kwargs:
        return None
    called = op.value.__code__.co_names  # what leaves something to another may do more
    if called == ("vectorised", name):
        return getattr(getattr(vectorised, name), "on_host", None)
    return getattr(np, name, None) if called == (name,) else None
