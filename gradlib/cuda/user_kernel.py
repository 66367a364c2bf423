"""``gradlib.cuda.kernel``: CUDA source as a differentiable operation."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from gradlib.backend.array import is_array
from gradlib.backend.dtype import is_differentiable
from gradlib.core.tensor import Tensor
from gradlib.cuda import kernel_adjoint as derivatives
from gradlib.cuda.kernel_adjoint import Derivative
from gradlib.cuda.kernel_check import check
from gradlib.cuda.kernel_op import Implementation, Operation, Values, asked_of, recorded, refuse_constants
from gradlib.cuda.kernel_plan import Amount, CallInfo, KernelSpec
from gradlib.cuda.kernel_source import check_instance, source_of
from gradlib.cuda.shapes import Shape
from gradlib.cuda.signature import declaration
from gradlib.cuda.source import Source


class Kernel(Operation):
    """A CUDA kernel as a differentiable operation; ``kernel`` makes it.

    Attributes:
        name: shown in profiles, nodes and errors.
        names: the names of its arguments, in the kernel's order.
        outputs: the names of its results.
        differentiable: how often it can be differentiated: 0, 1, or 2 for any number of times.
        generic: whether its tensors may have any dtype, by a template.
    Example:
        >>> fill = gradlib.cuda.kernel('extern "C" __global__ void fill(const float* x, float* y, float value) {}')
        >>> fill
        <gradlib.cuda.kernel fill(x, value) -> y>
    """

    def __init__(
        self, spec: KernelSpec, *, adjoint: Any = None, linear: bool = False, jvp: Any = None, host: Callable[..., Any] | None = None,
        host_adjoint: Callable[..., Any] | None = None, constant: frozenset[str] = frozenset(), rule: Derivative | None = None,
    ) -> None:  # fmt: skip
        self.spec, self.constant, self.linear, self.host = spec, constant, linear, host
        self.name, self.names, self.outputs = spec.name, spec.arguments, spec.outputs
        self.__name__ = self.__qualname__ = spec.name
        self.__doc__ = f"``{spec.name}({', '.join(spec.arguments)}) -> {', '.join(spec.outputs)}``, a CUDA kernel of {spec.source}."
        self.jvp = self._tangents(jvp)
        again = 0 if isinstance(adjoint, str) else getattr(adjoint, "differentiable", 2)
        self.differentiable = 0 if adjoint is None else 2 if linear else min(2, 1 + again)
        self.generic = any(kind == "typename" for kind, _ in spec.declared.template) and "<" not in spec.kernel
        implementation = self.implementation = Implementation(spec, host)
        derivative = rule if rule is not None else self._derivative(adjoint, host_adjoint)
        self._apply = self._recorded(implementation, derivative)
        self._on_host = self._apply
        if isinstance(adjoint, str) and host is not None and host_adjoint is None:
            self._on_host = self._recorded(implementation, derivatives.by_recording(implementation, constant, adjoint, self._again))

    def __call__(self, /, *args: Any, **kwargs: Any) -> Any:
        """Run the kernel on the device of its tensors, and record it.

        Args:
            args: in the kernel's order, a Tensor or array for each pointer to const, and a number for each scalar that is no size.
        Returns: a Tensor for each pointer that is not const; a tuple if there are several.
        Raises: TypeError and ValueError, before the launch, for what the declaration does not allow.
        """
        if kwargs or len(args) != len(self.names):
            args = self.bound(args, kwargs, self._advice(args))
        values = dict(zip(self.names, args, strict=True))
        numbers = {name: values.pop(name) for name in self.spec.numbers}
        for name, number in numbers.items():
            if isinstance(number, Tensor) or is_array(number):
                results = ", ".join(self.outputs)
                raise TypeError(
                    f"{self.name}: {name} is a number, got {type(number).__name__}; give number.item(), or declare a pointer to const "
                    f"(a pointer that is not const is a result: {results})"
                )
        for name, value in values.items():
            if not (isinstance(value, Tensor) or is_array(value)):
                raise TypeError(f"{self.name}: {name} is a Tensor or an array, got {type(value).__name__}")
        refuse_constants(self.name, self.constant, values)
        return self.apply(CallInfo(numbers), values)

    def _advice(self, args: tuple[Any, ...]) -> str:
        """What the error of a call with a wrong number of arguments adds."""
        if args and isinstance(args[0], tuple):
            return "; grid and block are not passed, they follow from the declaration and threads=, grid=, block="
        if len(args) > len(self.names):
            results, those = ", ".join(self.outputs), "they are" if len(self.outputs) > 1 else "it is"
            return (
                f"; {results}: a pointer that is not const is a result and is not passed; {those} not set before the launch, unless named "
                "in zeroed=, or in updated= with the name of an argument to begin with"
            )
        if len(args) < len(self.names) and self.spec.numbers:
            return "; a number is an argument unless a shape in shapes= has a size of its name"
        return ""

    def __repr__(self) -> str:
        return f"<gradlib.cuda.kernel {self.name}({', '.join(self.names)}) -> {', '.join(self.outputs)}>"

    def check(self, *args: Any, atol: float | None = None, rtol: float | None = None) -> tuple[str, ...]:
        """Compare the kernel with its host form, and its adjoint with finite differences, for these arguments.

        On a GPU also see that no result depends on what its memory held before the launch.

        Args:
            args: as for a call, on either device.
            atol, rtol: how close numbers must be; None for what their dtype allows.
        Returns: the names of the checks that were made: "values" and "gradients" (kernel against host form; they need a host form and a
            GPU), "gradcheck", "gradgradcheck" (if the derivative has a derivative), "adjoint" (<K v, w> = <v, K' w>; for a linear kernel or
            one with a jvp).
        Raises: AssertionError that says what differs, and what a call raises.
        """
        return check(self, args, atol, rtol)

    def differentiable_args(self, args: Sequence[Any]) -> list[int]:
        """The positions of the arguments that get a gradient."""
        kinds = [isinstance(x, Tensor) and is_differentiable(x.dtype) for x in args]
        return [i for i, name in enumerate(self.names) if kinds[i] and name not in self.constant]

    def apply(self, given: CallInfo, values: Values) -> Any:
        """Run the operation on tensors given by name."""
        first = next(iter(values.values()), None)
        array = first._array if isinstance(first, Tensor) else first
        return (self._on_host if isinstance(array, np.ndarray) else self._apply)(given, values)

    def _recorded(self, implementation: Implementation, derivative: Derivative) -> Callable[[CallInfo, Values], Any]:
        spec, jvp = self.spec, self.jvp
        return recorded(spec.name, spec.inputs, spec.outputs, derivative[0], implementation, derivative[1], jvp)

    # ---- derivatives ---------------------------------------------------------------------------------------------------------------

    def _derivative(self, adjoint: Any, host: Callable[..., Any] | None) -> Derivative:
        if adjoint is None:
            return derivatives.no_derivative(self.spec)
        self._refuse_names(f"grad_{name}" for name in self.spec.outputs)
        if not isinstance(adjoint, str):
            return derivatives.by_function(self.spec, adjoint, self.constant)
        spec = self._adjoint_spec(adjoint)
        self.adjoint = Kernel(spec, host=host, rule=self._again(spec.outputs, adjoint))
        return derivatives.by_kernel(self.spec, spec, self.adjoint.apply)

    def _refuse_names(self, derived: Iterable[str]) -> None:
        """Refuse an argument or result with a name that a derivative takes for something else. Raises: ValueError."""
        if both := {*self.names, *self.outputs}.intersection(derived):
            what = "a gradient" if min(both).startswith("grad_") else "a tangent"
            raise ValueError(f"{self.name}: {', '.join(sorted(both))} is a parameter, and for the derivative the name of {what}; rename it")

    def _again(self, gradients: Sequence[str], adjoint: str) -> Derivative:
        """The derivative of the adjoint, whose outputs have the names ``gradients``."""
        if self.linear:
            return derivatives.by_forward(self.spec, gradients, self.apply)
        return derivatives.first_order_only(self.spec, adjoint)

    def _adjoint_spec(self, kernel: str) -> KernelSpec:
        """The adjoint kernel's spec. It takes sizes, shapes and launch configuration from the forward's, for the names that it has too."""
        mine = self.spec
        check_instance(mine.source.made, kernel)
        there = {p.name for p in declaration(mine.source, kernel).declared}
        shapes = dict(mine.shapes) | {f"grad_{name}": shape for name, shape in mine.shapes.items()} | dict(mine.shapes_later)
        sizes = (frozenset(mine.numbers) - there).union(*(mine.shapes[name].names for name in mine.inputs if name in mine.shapes))
        sizes |= set(mine.derived) - there
        spec = replace(
            mine, kernel=kernel, name=f"{mine.name}_adjoint", shapes={name: shape for name, shape in shapes.items() if name in there},
            zeroed=mine.zeroed_later & there, zeroed_later=frozenset(), updated={}, shapes_later={}, known=sizes,
        )  # fmt: skip
        reads = {*mine.inputs, *mine.outputs, *(f"grad_{name}" for name in mine.outputs)}
        writes = {f"grad_{name}" for name in mine.inputs if name not in self.constant}
        numbers = {*mine.numbers, *sizes}
        for names, allowed, does in ((spec.inputs, reads, "reads"), (spec.outputs, writes, "writes"), (spec.numbers, numbers, "takes")):
            if unknown := set(names) - allowed:
                known = f"an adjoint of {mine.name} {does} {', '.join(sorted(allowed)) or 'no number'}; rename the parameters"
                raise ValueError(f"{kernel} {does} {', '.join(sorted(unknown))}; {known}")
        missing = [name for name in sorted(writes) if name not in spec.outputs and not derivatives.is_integer(mine, name[5:])]
        if missing:
            raise ValueError(f"{kernel} writes no {', '.join(missing)}; let it, or say constant={tuple(name[5:] for name in missing)}")
        still = self.constant.union(name for name in mine.inputs if derivatives.is_integer(mine, name))
        if self.linear and (read := set(spec.inputs) - {f"grad_{name}" for name in mine.outputs} - still):
            raise ValueError(f"{kernel} reads {', '.join(sorted(read))}, so {mine.name} is not linear; leave linear out")
        return spec

    def _tangents(self, jvp: Any) -> Callable[..., Any] | None:
        """The jvp as a function ``(given, values, tangents) -> tangents of the outputs``; None without one."""
        mine, constant = self.spec, self.constant
        if jvp is None and self.linear:

            def moved(given: CallInfo, values: Values, tangents: Values) -> Any:
                same = {name for name in mine.inputs if name in constant or derivatives.is_integer(mine, name)}
                return self.apply(given, {name: values[name] if name in same else tangents[name] for name in mine.inputs})

            return moved
        if jvp is None:
            return None
        self._refuse_names(f"t_{name}" for name in mine.inputs)
        names = asked_of(jvp)
        known = {*mine.inputs, *mine.numbers, *(f"t_{name}" for name in mine.inputs)}
        if unknown := set(names) - known:
            raise ValueError(f"{mine.name}: jvp asks for {sorted(unknown)}; there are {', '.join(sorted(known))}")

        def carried(given: CallInfo, values: Values, tangents: Values) -> Any:
            available = {**given.numbers, **values, **{f"t_{name}": each for name, each in tangents.items()}}
            return jvp(*(available[name] for name in names))

        return carried


def kernel(
    source: Any, name: str | None = None, *, shapes: Mapping[str, str] | None = None, adjoint: Any = None, linear: bool = False,
    jvp: Any = None, host: Callable[..., Any] | None = None, host_adjoint: Callable[..., Any] | None = None,
    constant: Sequence[str] = (), zeroed: Sequence[str] = (), updated: Mapping[str, str] | None = None, threads: Amount | None = None,
    grid: Amount | None = None, block: Amount = 256, shared: Amount = 0, options: Sequence[str] = (), parameters: str | None = None,
) -> Kernel:  # fmt: skip
    """A CUDA kernel as a differentiable operation.

    The arguments follow from the declaration in the source: a pointer to const is an input tensor, any other pointer is a result and is
    allocated; a scalar is an argument, or a size if ``shapes`` has that name. Template types follow from the tensors' dtypes, template
    numbers from the sizes. An adjoint kernel stands in the same source. Its parameters have the forward's names, and ``grad_NAME`` for the
    gradient of an output (read) or of an input (written), in any order; only the tensors that it names are saved. Work goes to the current
    stream.

    Args:
        source: CUDA text, a path ending in ``.cu``, or what CuPy made: a RawKernel, a RawModule, a kernel of ``cupyx.jit``.
        name: the kernel's name; optional if the source has one kernel.
        shapes: for each parameter, its sizes separated by commas: ``{"x": "*B, D", "y": "*B"}``. One size may be starred and stands for any
            number of dimensions; sizes may be formulas ("H - 1") of others and of numbers. Without an entry an input has any shape, and an
            output the first input's. For a number, the formula that gives it: ``{"x": "B, D", "total": "B * D"}``.
        adjoint: the name of the kernel that computes the gradients. Or, to be differentiated again, another such operation or a function
            written with gradlib's: its parameters are named in the same way, and it returns the inputs' gradients in order.
        linear: the kernel is a linear map of its inputs (without integers and ``constant``), so adjoint and kernel are each other's
            derivative.
        jvp: for forward mode: a function or operation of inputs and their tangents ``t_NAME`` that returns the outputs' tangents.
        host: the host form: the same function written with NumPy's or gradlib's, from the operation's arguments to its results. With it the
            operation also runs on the CPU.
        host_adjoint: the host form of the adjoint, with its arguments in the kernel's order. It is not needed if host is written with
            NumPy's or gradlib's functions.
        constant: inputs without a gradient.
        zeroed: outputs, also of the adjoint, that are set to zero before the launch, as for atomicAdd.
        updated: outputs that the kernel updates in place: ``{"x": "before"}``. The result x begins as a copy of an argument ``before``,
            which takes x's place in calls and in the adjoint. An input's name makes it begin as a copy of that.
        threads: the number of threads in up to three directions, as numbers or formulas of sizes ("B * D"); by default one for each element
            of the first output.
        grid: the number of blocks, instead of threads.
        block: the number of threads per block.
        shared: bytes of dynamic shared memory.
        options: for the compiler, such as ``("--use_fast_math",)``.
        parameters: the declaration, such as ``"const float* x, float* y, int n"``, of an object of CuPy's: where there is no source, or its
            names and consts are not as they are to be here.
    Returns: the operation, called with the inputs and numbers in the kernel's order; its method ``check`` tests it.
    Raises: ValueError if declaration, shapes and names contradict each other, TypeError for a source, adjoint or shape of another type;
        when called, CompileError that shows the lines.
    Example:
        >>> scale = gradlib.cuda.kernel(
        ...     '''template <typename T> __global__ void scale(const T* x, T* y, double factor, int n) {
        ...         int i = blockIdx.x * blockDim.x + threadIdx.x;
        ...         if (i < n) y[i] = factor * x[i];
        ...     }
        ...     template <typename T> __global__ void scale_adjoint(const T* grad_y, T* grad_x, double factor, int n) {
        ...         int i = blockIdx.x * blockDim.x + threadIdx.x;
        ...         if (i < n) grad_x[i] = factor * grad_y[i];
        ...     }''',
        ...     "scale", shapes={"x": "*n"}, adjoint="scale_adjoint", linear=True, host=lambda x, factor: x * factor,
        ... )
        >>> x = gradlib.tensor([1.0, 2.0], requires_grad=True)
        >>> scale(x, 3.0)
        tensor([3., 6.], grad_fn=<ScaleBackward0>)
        >>> scale.check(x, 3.0)[-2:]
        ('gradgradcheck', 'adjoint')
    """
    for what, names in (("constant", constant), ("zeroed", zeroed), ("options", options)):
        if isinstance(names, str):
            raise TypeError(f"{what} is a list of texts, got the text {names!r}; write {what}=[{names!r}]")
    if not isinstance(shapes or {}, Mapping) or not all(isinstance(shape, str) for shape in (shapes or {}).values()):
        raise TypeError(f"shapes gives parameters their sizes as texts, such as {{'x': '*B, D', 'y': '*B'}}, got {shapes!r}")
    if threads is not None and grid is not None:
        raise ValueError(f"the launch has so many threads, or blocks, got threads={threads!r} and grid={grid!r}; give one of them")
    found, called = source_of(source, name, parameters, tuple(options), sys._getframe(1))
    given = {"threads": threads, "grid": grid, "block": block, "shared": shared}
    derivatives = {
        "adjoint": adjoint, "linear": linear, "jvp": jvp, "host": host, "host_adjoint": host_adjoint, "constant": frozenset(constant)
    }  # fmt: skip
    return _declared(found, called, dict(shapes or {}), frozenset(zeroed), dict(updated or {}), given, derivatives)


def _declared(
    source: Source, name: str, shapes: dict[str, str], zeroed: frozenset[str], updated: dict[str, str], launch: dict[str, Any],
    derivatives: dict[str, Any],
) -> Kernel:  # fmt: skip
    """``kernel``, of a source that was found. Its arguments are what an operation is pickled as."""
    label, adjoint = name.partition("<")[0].rpartition("::")[2], derivatives["adjoint"]
    parameters = declaration(source, name).declared
    outputs, there = {p.name for p in parameters if p.written}, {p.name for p in parameters}
    later = {p.name for p in declaration(source, adjoint).declared} - there if isinstance(adjoint, str) else set[str]()
    sized = {each: Shape(text) for each, text in shapes.items()}
    spec = KernelSpec(
        source, name, label, {each: sized[each] for each in sized if each not in later}, **launch, zeroed=zeroed & outputs,
        updated=updated, zeroed_later=zeroed - outputs, shapes_later={each: sized[each] for each in sized if each in later},
    )  # fmt: skip
    if unknown := derivatives["constant"] - set(spec.inputs):
        raise ValueError(f"{label}: constant names {sorted(unknown)}, but its inputs are {', '.join(spec.inputs)}")
    if unknown := set(spec.zeroed_later) - {f"grad_{each}" for each in spec.inputs}:
        raise ValueError(f"{label}: zeroed names {sorted(unknown)}, which are no outputs of the kernel or its adjoint")
    made = Kernel(spec, **derivatives)
    made.declared = (_declared, (source, name, shapes, zeroed, updated, launch, derivatives))
    return made
