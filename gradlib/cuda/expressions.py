"""``gradlib.cuda.elementwise`` and ``reduction``: C expressions as differentiable operations, run by CuPy's ElementwiseKernel and
ReductionKernel.
"""

from __future__ import annotations

import functools
import re
import sys
from collections.abc import Callable, Mapping, Sequence
from types import FrameType
from typing import Any, NamedTuple

import numpy as np

from gradlib.backend.array import cupy, is_array, is_cupy, namespace, on_device_of
from gradlib.backend.dtype import is_complex, is_differentiable
from gradlib.core.backward import grad as gradient
from gradlib.core.dispatch import conjugate
from gradlib.core.grad_mode import enable_grad
from gradlib.core.modes import observing
from gradlib.core.op import CompiledOp
from gradlib.core.tensor import Tensor, wrap
from gradlib.cuda.expression_kernel import ExpressionKernel, Variable, met
from gradlib.cuda.kernel_check import check
from gradlib.cuda.kernel_op import Operation, asked_of, on_tensors, own_array, public, raising
from gradlib.cuda.kernel_source import place_of
from gradlib.cuda.launch import awaited
from gradlib.cuda.signature import C_TYPES, FURTHER_TYPES
from gradlib.cuda.source import Source, showing_line
from gradlib.ops.broadcast import broadcast_tensors
from gradlib.ops.dims import wrap_dims
from gradlib.ops.reduce import spread

Derivative = str | Callable[..., Any] | tuple[str, Callable[..., Any]]
"""The derivative by one input: a C expression, a function written with gradlib's, or a C expression and its NumPy form for the host."""


def _variables(name: str, text: str) -> list[Variable]:
    """The parameters in a list such as ``"float x, T y"``; types are C's, NumPy's, or one letter that stands for any."""
    found = []
    for part in text.split(","):
        kind, _, called = part.strip().rpartition(" ")
        known = C_TYPES.get(kind) or FURTHER_TYPES.get(kind)
        if known is None and not re.fullmatch(r"[A-Z]|u?int\d+|float\d+|complex\d+|bfloat16", kind):
            rule = "a type of C or NumPy, or one capital letter for any, and a name"
            advice = "; what indexes an input is a gradlib.cuda.kernel" if kind.startswith("raw ") else ""
            raise ValueError(f"{name}: {part.strip()!r} is no parameter: {rule}{advice}")
        if not re.fullmatch(r"[A-Za-z_]\w*", called, re.ASCII) or called.startswith("gradlib_"):
            raise ValueError(f"{name}: {called!r} is no name for a parameter: one of C's, which does not begin with gradlib_")
        found.append(Variable(known or kind, called))
    return found


class Expression(NamedTuple):
    """A C expression, and the file and line where the user wrote it."""

    text: str
    source: Source

    @property
    def words(self) -> set[str]:
        return set(re.findall(r"[A-Za-z_]\w*", self.text))

    def __str__(self) -> str:
        first, last = (f'\n#line {self.source.line + more} "{self.source.file}"\n' for more in (0, self.text.count("\n")))
        return f"{first}{self.text}{last}"  # what CuPy writes behind it is on its last line too, so an unfinished expression is shown there


def _expression(name: str, text: str, caller: FrameType) -> Expression:
    return Expression(text, Source(text, *place_of(text, name, caller)))


def _derivatives(name: str, derivative: Mapping[str, Derivative] | None, caller: FrameType) -> dict[str, Any]:
    """The derivatives as functions, or as pairs of a C expression and the function for the host, None without one."""

    def read(each: str, known: Derivative) -> Any:
        if callable(known):
            return known
        text, host = known if isinstance(known, tuple) else (known, None)
        return _expression(f"{name}'s derivative by {each}", text, caller), host

    return {each: read(each, known) for each, known in (derivative or {}).items()}


def _observed(name: str, kernel: Callable[..., Any], args: Sequence[Any]) -> Any:
    """Launch a kernel within its range of a profile."""
    observer = observing()
    mark = None if observer is None else observer.begin(name, None, ())
    try:
        return kernel(*args)
    finally:
        if observer is not None:
            observer.end(mark)


_GRADIENT = "gradlib_g"
"""The name of the result's gradient among the inputs of a derivative."""


def _python(name: str) -> str:
    """An input's name in Python, where C's name may be a word of its own, or that of a result or an argument."""
    return f"{name}_"


def _operation(
    label: str, kind: str, names: Sequence[str], more: Sequence[str], run: Callable[..., Any], rules: Mapping[str, Any],
    promote: str | None, device: Callable[..., Any] | None = None,
) -> Callable[..., Any]:  # fmt: skip
    """Declare an operation.

    Args:
        label: its name in profiles; kind: what forward mode needs to know of it, as for ``@op``.
        names: C's, of its tensor inputs; more: of its other arguments.
        run: computes its value: ``(xp, *tensors, *arguments) -> result``.
        rules: for each differentiable input, Python's names of what its rule reads (inputs, arguments or "out") and the rule
            ``(g, *those)``.
        promote: how dtypes are promoted, as for ``@op``.
        device: ``run`` of CuPy arrays while nothing observes it, as for ``@op``.
    """
    inputs = [_python(name) for name in names]
    head = ", ".join([*inputs, *(f"{name}=None" if name == "dim" else f"{name}=False" for name in more)])
    passed = ", ".join([*inputs, *more])
    value = eval(f"lambda xp, {head}: run(xp, {passed})", {"run": run})
    value.__module__ = __name__
    written = {}
    for name, (asked, rule) in rules.items():
        arguments = ", ".join(["g", *asked])
        written[_python(name)] = eval(f"lambda {arguments}: rule({arguments})", {"rule": rule})
    rest = tuple(_python(name) for name in names if name not in rules)
    made = CompiledOp(value, kind, written, name=f"kernel_{label}", also=rest, promote=promote, device=device)
    return public(made, label)


class ExpressionOp(Operation):
    """An elementwise or reducing C expression as a differentiable operation; ``elementwise`` and ``reduction`` make it.

    Attributes:
        name: shown in profiles, nodes and errors; names: of the inputs; outputs: of the result.
        differentiable: how often it can be differentiated: 0, 1, or 2 for any number of times.
        generic: whether some input may have any dtype.
    """

    linear = False

    def __init__(
        self, name: str, inputs: list[Variable], output: Variable, derivative: Mapping[str, Any], host: Callable[..., Any] | None,
        preamble: str, flags: tuple[str, ...],
    ) -> None:  # fmt: skip
        self.name, self.inputs, self.output, self.host, self.preamble, self.flags = name, inputs, output, host, preamble, flags
        self.names, self.outputs = tuple(v.name for v in inputs), (output.name,)
        self.__name__ = self.__qualname__ = name
        self.generic = any(len(v.type) == 1 for v in inputs)
        if not re.fullmatch(r"[A-Za-z_]\w*", name, re.ASCII):
            raise ValueError(f"the name of an operation is also that of its kernel, so one of C's, got {name!r}")
        if twice := [each for each in (*self.names, output.name) if [*self.names, output.name].count(each) > 1]:
            raise ValueError(f"{name}: every parameter has a name of its own, got {twice[0]} twice")
        if len(output.type) == 1 and output.type not in {v.type for v in inputs}:
            raise ValueError(f"{name}: nothing tells the result's type {output.type}: no input has it; give a type of C or NumPy")
        self.typed = [(place, each) for place, each in enumerate(inputs) if len(each.type) > 1]
        if unknown := set(derivative) - set(self.names):
            raise ValueError(f"{name}: derivative names {sorted(unknown)}; its inputs are {', '.join(self.names)}")
        functions = [callable(each) for each in derivative.values()]
        self.differentiable = 0 if not derivative else 2 if all(functions) else 1
        self.jvp: Any = None
        self.derivative = derivative
        letters = {v.type for v in inputs}
        self.promote = "same" if len(letters) == 1 and len(next(iter(letters))) == 1 else None

    def __repr__(self) -> str:
        return f"<gradlib.cuda operation {self.name}({', '.join(map(str, self.inputs))}) -> {self.output}>"

    def differentiable_args(self, args: Sequence[Any]) -> list[int]:
        """The positions of the arguments that get a gradient."""
        kinds = [isinstance(x, Tensor) and is_differentiable(x.dtype) for x in args]
        return [i for i, name in enumerate(self.names) if kinds[i] and name in self.derivative]

    def check(self, *args: Any, atol: float | None = None, rtol: float | None = None) -> tuple[str, ...]:
        """Compare the kernel with its host form, and its derivative with finite differences; as ``Kernel.check``."""
        return check(self, args, atol, rtol)

    def refuse(self, values: Sequence[Any]) -> None:
        """Check dtypes. Raises: TypeError for an array of another dtype than is declared, or a number with a fraction for an integer."""
        for place, variable in self.typed:
            value = values[place]
            if isinstance(value, float) and variable.type.lstrip("u").startswith("int"):
                raise TypeError(f"{self.name}: {variable.name} has dtype {variable.type}, got {value!r}")
            if is_array(value) and value.dtype.name != variable.type:
                got = f"{value.dtype} of shape {value.shape}"
                raise TypeError(f"{self.name}: {variable.name} has dtype {variable.type}, got {got}; convert it with .to()")

    def on_host(self, *args: Any) -> Any:
        """The host form's result."""
        if self.host is None:
            raise RuntimeError(
                f"{self.name} has no host form, so it runs on a GPU only, got tensors on the CPU. Move them with .cuda(), or give host=, "
                "the same in NumPy's or gradlib's functions."
            )
        like = next(x for x in args if isinstance(x, Tensor) or is_array(x))
        return self.host(*(x if i >= len(self.names) else _filled(x, like) for i, x in enumerate(args)))

    def rules(self, host: bool, more: Sequence[str], spread_out: Callable[..., Any]) -> dict[str, Any]:
        """The derivative rules of the operation, as ``_operation`` takes them.

        Args:
            host: whether they are for the host form or for the kernel.
            more: the names of the operation's arguments that are not tensors.
            spread_out: ``(value, shape, *arguments)`` broadcasts a value of the result's shape to the inputs' shape.
        """
        made: dict[str, Any] = {}
        for name in self.names:
            known = self.derivative.get(name)
            if known is None:
                advice = f"give derivative={{{name!r}: ...}}, or detach what must have no gradient"
                made[name] = ((), raising(f"{self.name} has no derivative by {name}: {advice}"))
            else:
                made[name] = self._rule(name, known, host, more, spread_out)
        return made

    def _rule(self, name: str, known: Any, host: bool, more: Sequence[str], spread_out: Callable[..., Any]) -> Any:
        own = (*self.names, self.output.name)
        if callable(known):
            needed = list(asked_of(known))
            if unknown := set(needed) - set(own):
                raise ValueError(f"{self.name}: the derivative by {name} asks for {sorted(unknown)}; there are {', '.join(own)}")
        else:
            needed = self._needed(name, known[0].words)
        by_recording = host and not callable(known) and known[1] is None
        if by_recording:
            needed = list(self.names)
        slope = known if callable(known) else self._slope(name, known, needed, by_recording)
        asked = ["out" if each == self.output.name else _python(each) for each in needed]
        mine = _python(name)
        told = [_python(each) for each in self.names if self.output.type.startswith("complex")]  # of which one is; of a letter's it is
        given = [*asked, *(each for each in dict.fromkeys((mine, *told)) if each not in asked), *more]

        def rule(g: Any, *values: Any) -> Any:
            have = dict(zip(given, values, strict=True))
            from_real = bool(told) and not any(_is_complex(have[each]) for each in told)
            if _is_complex(have[mine]) if not is_complex(g.dtype) else from_real:
                raise TypeError(
                    f"{self.name}: a derivative is one number where inputs and result are both real or both complex; write what turns one "
                    "into the other with their real and imaginary parts, or as a gradlib.cuda.kernel"
                )
            options = [have[each] for each in more]
            shape = have[mine].shape
            if by_recording:
                return slope(g, *(have[each] for each in asked), *options)
            wide = [spread_out(have[each], shape, *options) if each == "out" else have[each] for each in asked]
            g = spread_out(g, shape, *options)
            return g * on_tensors(known, [_filled(x, g) for x in wide]) if callable(known) else slope(g, *wide)

        return given, rule

    def _needed(self, name: str, words: set[str]) -> list[str]:
        """The inputs and result that a derivative takes: those it names, and one of each letter that it or the gradient has as its type."""
        needed = [each for each in (*self.names, self.output.name) if each in words]
        known = {self.output.type, *(v.type for v in self.inputs if v.name in needed)}
        letters = {v.type for v in self.inputs if len(v.type) == 1 and (v.name == name or v.type in words)} - known
        return [*needed, *(next(v.name for v in self.inputs if v.type == letter) for letter in sorted(letters))]

    def _slope(self, name: str, known: Any, needed: Sequence[str], by_recording: bool) -> Callable[..., Any]:
        """``g`` times a derivative given as a C expression, as an operation: linear in ``g``, not differentiable by anything else."""
        expression, host = known
        variables = {v.name: v for v in (*self.inputs, self.output)}
        target = variables[name].type
        if self.output.type.startswith("complex") and not target.startswith("complex") and len(target) > 1:
            target = self.output.type  # of which the real part is the gradient
        label = f"{self.name}_by_{name}"

        read = [Variable(self.output.type, _GRADIENT), *(variables[each] for each in needed)]
        text = f"gradlib_result = {_GRADIENT} * ({expression})"
        kernel = ExpressionKernel(read, Variable(target, "gradlib_result"), text, label, self.preamble, expression.source, self.flags)

        def run(xp: Any, g: Any, *values: Any) -> Any:
            if xp is not np:
                return _observed(label, kernel, (g, *values))
            if by_recording:
                return self._recorded(name, g, values)
            return (g * host(*values)).astype(g.dtype, copy=False)

        again = "twice, or in forward mode" if self.options else "twice"
        message = (
            f"trying to differentiate {self.name} {again}, but its derivative by {name} is a C expression, which has none itself. Give it "
            f"as a function of gradlib's: derivative={{{name!r}: lambda {', '.join(needed)}: ...}}"
        )
        more = [f"option{i}" for i in range(self.options)] if by_recording else []
        rules: dict[str, Any] = {each: ((), raising(message)) for each in needed}
        made: list[Callable[..., Any]] = []
        rules[_GRADIENT] = ((*map(_python, needed), *more), lambda h, *values: made[0](h, *values))
        kind = "other" if by_recording else "elementwise"
        made.append(_operation(label, kind, (_GRADIENT, *needed), more, run, rules, None, kernel))
        return made[0]

    options = 0

    def _recorded(self, name: str, g: Any, values: Sequence[Any]) -> Any:
        """The gradient by one input, found by recording the host form, which is written with NumPy's or gradlib's functions."""
        if not self.options:  # elementwise, also where g is a tangent
            values = tuple(np.broadcast_to(_filled(x, g), g.shape) for x in values)
        with enable_grad():
            leaves = [wrap(x) if is_array(x) else x for x in values[: len(self.names)]]
            place = self.names.index(name)
            leaves[place].want_grad()
            g = conjugate(g)  # on the way in and out, as the operation takes it for holomorphic
            result = self.on_host(*leaves, *values[len(self.names) :])
        if not isinstance(result, Tensor):
            raise RuntimeError(
                f"{self.name}: the host form cannot be differentiated, as of Tensors it gives {type(result).__name__}. Write it with "
                f'gradlib\'s functions, or give the derivative for both: derivative={{{name!r}: ("...", lambda ...: ...)}}'
            )
        if not result.requires_grad or not is_differentiable(result.dtype):
            return np.zeros_like(values[place])
        return conjugate(gradient([result], [leaves[place]], [wrap(g)])[0]._array)


def _filled(value: Any, like: Any) -> Any:
    """A Python number as a 0-d array of the dtype and device of ``like``; anything else unchanged."""
    if not isinstance(value, (int, float, complex)):
        return value
    array = like._array if isinstance(like, Tensor) else like
    with on_device_of(array):
        return namespace(array).full((), value, array.dtype)


def _is_complex(value: Any) -> bool:
    return isinstance(value, complex) or (hasattr(value, "dtype") and is_complex(value.dtype))


def _is_on_host(values: Sequence[Any]) -> bool:
    for x in values:
        array = x._array if isinstance(x, Tensor) else x
        if isinstance(array, np.ndarray):
            return True
        if is_cupy(array):
            return False
    return False


class Elementwise(ExpressionOp):
    """An elementwise C expression as an operation."""

    def __init__(self, text: Expression, *args: Any) -> None:
        super().__init__(*args)
        self.declared = (Elementwise, (text, *args))
        self.jvp = bool(self.derivative) or None
        kernel = ExpressionKernel(self.inputs, self.output, str(text), self.name, self.preamble, text.source, self.flags)

        def run(xp: Any, *values: Any) -> Any:
            if self.typed:
                self.refuse(values)
            return own_array(self.on_host(*values), values) if xp is np else _observed(self.name, kernel, values)

        def same(value: Any, shape: Any) -> Any:
            return value

        launched = None if self.typed else kernel
        self._forms = [
            _operation(self.name, "elementwise", self.names, (), run, self.rules(host, (), same), self.promote, launched)
            for host in (False, True)
        ]

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """The result for tensors that broadcast with one another, or numbers in their place."""
        if kwargs or len(args) != len(self.names):
            args = self.bound(args, kwargs)
        first = args[0]
        return self._forms[isinstance(first._array, np.ndarray) if type(first) is Tensor else _is_on_host(args)](*args)


class Reduction(ExpressionOp):
    """A reducing C expression as an operation."""

    options = 2

    def __init__(self, texts: tuple[Expression, str, str, str], reduce_type: str | None, *args: Any) -> None:
        super().__init__(*args)
        self.declared = (Reduction, (texts, reduce_type, *args))
        mapped, reduced, after, identity = texts
        reads, writes = ", ".join(map(str, self.inputs)), str(self.output)

        @functools.cache
        def kernel() -> Any:
            return cupy().ReductionKernel(
                reads, writes, str(mapped), reduced, after, identity, self.name, reduce_type, preamble=self.preamble, options=self.flags
            )

        def run(xp: Any, *args: Any) -> Any:
            *values, dim, keepdim = args
            self.refuse(values)
            if xp is np:
                return own_array(self.on_host(*values, dim, keepdim), values)
            rank = max(x.ndim for x in values if is_array(x))
            dims = None if dim is None else wrap_dims(dim, rank)
            axis = dims if rank else None  # a 0-d array has none, though torch counts one

            def launch(*values: Any) -> Any:
                with showing_line(self.name, mapped.source):
                    made = kernel()(*met(self.inputs, values), axis=axis, keepdims=keepdim)
                awaited(self.name, values)
                return made

            return _observed(self.name, launch, values)

        more = ("dim", "keepdim")
        self._forms = [
            _operation(self.name, "other", self.names, more, run, self.rules(host, more, spread), self.promote) for host in (False, True)
        ]

    def __call__(self, /, *args: Any, dim: Any = None, keepdim: bool = False, **kwargs: Any) -> Any:
        """The reduction of tensors, which broadcast with one another, over a dimension, several or (None, or an empty tuple) all;
        ``keepdim`` leaves them with size 1.

        ``axis`` and ``keepdims`` are understood too.
        """
        if kwargs:
            dim, keepdim = kwargs.pop("axis", dim), kwargs.pop("keepdims", keepdim)
        if kwargs or len(args) != len(self.names):
            args = self.bound(args, kwargs)
        if len(args) > 1:
            arrays = [x for x in args if isinstance(x, Tensor) or is_array(x)]
            if any(x.shape != arrays[0].shape for x in arrays):
                wide = iter(broadcast_tensors(*arrays))
                args = tuple(next(wide) if isinstance(x, Tensor) or is_array(x) else x for x in args)
        return self._forms[_is_on_host(args)](*args, None if dim in ((), []) else dim, keepdim)


def elementwise(
    in_params: str, out_params: str, operation: str, name: str = "elementwise", *, derivative: Mapping[str, Derivative] | None = None,
    host: Callable[..., Any] | None = None, preamble: str = "", options: Sequence[str] = (),
) -> Elementwise:  # fmt: skip
    """An elementwise C expression as a differentiable operation.

    The arguments are those of ``cupy.ElementwiseKernel``, but types are C's: ``float`` has 32 bits. Inputs broadcast and may have
    any layout of memory; if one letter is the type of all of them, they are promoted to their common dtype. Forward mode and ``vmap``
    follow from the derivative.

    Args:
        in_params, out_params: the inputs, and the one result, such as ``"T x, T y"`` and ``"T z"``.
        operation: C that assigns the result: ``"z = x * sin(y)"``.
        name: shown in profiles, nodes and errors.
        derivative: for each input, what the gradient is multiplied by. Either a C expression of inputs and result ("x * cos(y)"); or, to
            be differentiated again, a function written with gradlib's, whose parameters have the names of inputs or of the result
            (``lambda x, y: x * gradlib.cos(y)``); or a pair: a C expression, and for the host a NumPy function of the names in it. Of
            complex numbers it is the complex derivative, and the gradient is multiplied by its conjugate. A gradient by an input that
            is not listed is an error.
        host: the host form: the same function written with NumPy's or gradlib's. With it the operation also runs on the CPU.
        preamble: C in front of the kernel, such as functions that it calls.
        options: for the compiler, such as ``("--use_fast_math",)``.
    Returns: the operation; its method ``check`` tests it.
    Raises: ValueError for names and types that contradict each other; when called, CompileError that shows the line.
    Source: cupy.ElementwiseKernel.
    Example:
        >>> wave = gradlib.cuda.elementwise(
        ...     "T x, T y", "T z", "z = x * sin(y)", "wave", derivative={"x": "sin(y)", "y": "x * cos(y)"},
        ...     host=lambda x, y: x * gradlib.sin(y),
        ... )
        >>> x = gradlib.tensor([1.0, 2.0], requires_grad=True)
        >>> wave(x, 0.5)
        tensor([0.4794, 0.9589], grad_fn=<WaveBackward0>)
    """
    variables, results = _variables(name, in_params), _variables(name, out_params)
    if len(results) != 1:
        raise ValueError(f"{name}: an elementwise operation has one result, got {out_params!r}; write several as a gradlib.cuda.kernel")
    caller = sys._getframe(1)
    known = _derivatives(name, derivative, caller)
    return Elementwise(_expression(name, operation, caller), name, variables, results[0], known, host, preamble, tuple(options))


def reduction(
    in_params: str, out_params: str, map_expr: str, reduce_expr: str, post_map_expr: str, identity: str, name: str = "reduction", *,
    derivative: Mapping[str, Derivative] | None = None, host: Callable[..., Any] | None = None, preamble: str = "",
    reduce_type: str | None = None, options: Sequence[str] = (),
) -> Reduction:  # fmt: skip
    """A reducing C expression as a differentiable operation, called as ``name(x, dim=None, keepdim=False)``.

    The arguments are those of ``cupy.ReductionKernel``, but types are C's: ``float`` has 32 bits.

    Args:
        in_params, out_params: the inputs, which broadcast, and the one result.
        map_expr: C expression of the inputs: what is reduced.
        reduce_expr: C expression that combines two values, ``a`` and ``b``.
        post_map_expr: C that assigns the result from ``a``.
        identity: the value to begin with.
        name: shown in profiles, nodes and errors.
        derivative: for each input, what the gradient is multiplied by, elementwise, as for ``elementwise``; the result is broadcast over
            the dimensions that were reduced.
        host: the host form ``(*inputs, dim, keepdim)``: the same function written with NumPy's or gradlib's.
        preamble: C in front of the kernel.
        reduce_type: the C type in which values are combined; by default the result's.
        options: for the compiler.
    Returns: the operation; its method ``check`` tests it.
    Raises: ValueError and CompileError, as ``elementwise``.
    Source: cupy.ReductionKernel.
    Example:
        >>> length = gradlib.cuda.reduction(
        ...     "T x", "T y", "x * x", "a + b", "y = sqrt(a)", "0", "length", derivative={"x": "x / y"},
        ...     host=lambda x, dim, keepdim: gradlib.sqrt(gradlib.sum(x * x, dim, keepdim)),
        ... )
        >>> x = gradlib.tensor([[3.0, 4.0]], requires_grad=True)
        >>> length(x, dim=1).backward()
        >>> x.grad
        tensor([[0.6000, 0.8000]])
    """
    variables, results = _variables(name, in_params), _variables(name, out_params)
    if len(results) != 1:
        raise ValueError(f"{name}: a reduction has one result, got {out_params!r}")
    caller = sys._getframe(1)
    texts = _expression(name, map_expr, caller), reduce_expr, post_map_expr, identity
    known = _derivatives(name, derivative, caller)
    return Reduction(texts, reduce_type, name, variables, results[0], known, host, preamble, tuple(options))
