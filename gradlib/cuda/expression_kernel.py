"""The kernel of an elementwise C expression: CuPy's ElementwiseKernel, and for small operands one that is launched with nothing between."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any, NamedTuple

from gradlib.backend.array import Array, cupy
from gradlib.backend.dtype import result_type
from gradlib.backend.kernel_text import HEADERS, MOST, THREADS, WHOLE
from gradlib.backend.launching import Functions, Slots, compiled, launcher
from gradlib.cuda.launch import awaited
from gradlib.cuda.source import Source, showing_line


class Variable(NamedTuple):
    """One parameter: its type, by CuPy's name, and its own name."""

    type: str
    name: str

    def __str__(self) -> str:
        return f"{self.type} {self.name}"


def met(variables: Sequence[Variable], values: Sequence[Any]) -> list[Any]:
    """The values with all arrays of one letter in their common dtype, which CuPy leaves to the caller."""
    arrays: dict[str, list[Any]] = {}
    for each, value in zip(variables, values, strict=True):
        if len(each.type) == 1 and hasattr(value, "dtype"):
            arrays.setdefault(each.type, []).append(value)
    common = {letter: result_type(*alike) for letter, alike in arrays.items() if len({x.dtype for x in alike}) > 1}
    return [
        value.astype(common[each.type], copy=False) if each.type in common and hasattr(value, "dtype") else value
        for each, value in zip(variables, values, strict=True)
    ]


_CTYPES = {"f": "float", "d": "double"}


class ExpressionKernel:
    """A function of CuPy arrays and numbers.

    Contiguous arrays of one shape, device and dtype, float32 or float64, go to a kernel of gradlib's own, if one letter is the type of
    all parameters. Every other call is CuPy's, as is an expression that the own kernel cannot have: it may name what CuPy has around it.

    Args:
        inputs, output: the parameters. operation: C that assigns the output. name: shown in profiles. preamble: C in front.
        source: where the user wrote the operation, for errors.
        flags: further ones for the compiler, with which all calls are CuPy's.
    """

    def __init__(
        self, inputs: Sequence[Variable], output: Variable, operation: str, name: str, preamble: str, source: Source,
        flags: tuple[str, ...] = (),
    ) -> None:  # fmt: skip
        self._inputs, self._output, self._operation, self._name, self._preamble = inputs, output, operation, name, preamble
        self._source, self._flags = source, flags
        given = (*inputs, output)
        letters = {each.type for each in given}
        self._own: dict[str, Any] = {}  # by dtype: the kernel's handles and memory for its arguments, None where there can be none
        self._chars = frozenset(
            WHOLE if not flags and len(letters) == 1 and len(output.type) == 1 and all(each.name != "i" for each in given) else ""
        )

    @cached_property
    def _kernel(self) -> Any:
        reads = ", ".join(map(str, self._inputs))
        return cupy().ElementwiseKernel(reads, str(self._output), self._operation, self._name, preamble=self._preamble, options=self._flags)

    def _theirs(self, *values: Any) -> Array:
        for each, value in zip(self._inputs, values, strict=True):
            if value is None:
                raise TypeError(f"{self._name}: {each.name} is a tensor or a number, got None")
        with showing_line(self._name, self._source):
            made = self._kernel(*met(self._inputs, values))
        awaited(self._name, values)
        return made

    @cached_property
    def _prepared(self) -> tuple[Any, ...]:
        library = cupy()
        return library.ndarray, *launcher(), library.cuda.driver.CUDADriverError, self._own

    def text(self, char: str) -> str:
        """The text of the own kernel for a dtype."""
        letter, out = self._output
        parameters = "".join(f"const {letter}* gradlib_in{k}, " for k in range(len(self._inputs)))
        loads = "".join(f"        const {letter}& {each.name} = gradlib_in{k}[i];\n" for k, each in enumerate(self._inputs))
        return (
            f"{HEADERS['e']}typedef {_CTYPES[char]} {letter};\n{self._preamble}\n"
            f'extern "C" __global__ void gradlib_{self._name}({parameters}{letter}* gradlib_out, unsigned gradlib_size) {{\n'
            f"    for (ptrdiff_t i = blockIdx.x * {THREADS} + threadIdx.x; i < gradlib_size; i = gradlib_size) {{\n"
            f"{loads}        {letter}& {out} = gradlib_out[i];\n{self._operation};\n    }}\n}}\n"
        )

    def _made(self, char: str) -> Any:
        """The own kernel for a dtype, compiled for the current device; None where there is none."""
        library, self._own[char] = cupy(), None
        if char not in self._chars:
            return None
        module = compiled(self.text(char))
        functions = Functions(lambda device: module.get_function(f"gradlib_{self._name}"))
        try:
            functions[int(library.cuda.runtime.getDevice())]
        except library.cuda.compiler.CompileException:
            return None
        except library.cuda.driver.CUDADriverError:  # in a thread that has not used the device yet, which CuPy makes good
            del self._own[char]
            return None
        slots = Slots(["P"] * (len(self._inputs) + 1) + ["I"])
        self._own[char] = own = functions, slots.pack, slots.free, slots.made
        return own

    def __call__(self, *values: Any) -> Array:
        """The result. Raises: CompileError that shows the user's line for an expression that is none."""
        ndarray, launch, stream, refused, prepared = self._prepared
        first = values[0]
        if type(first) is not ndarray or not first._c_contiguous or not 0 < (n := first.size) <= MOST:
            return self._theirs(*values)
        dtype, data = first.dtype, first.data
        own = prepared.get(dtype.char, 0)
        if own == 0:
            own = self._made(dtype.char)
        if own is None:
            return self._theirs(*values)
        device, pointers = data.device_id, [data.ptr]
        if len(values) > 1:
            shape = first.shape
            for each in values[1:]:
                if type(each) is not ndarray or each.dtype is not dtype or not each._c_contiguous or each.shape != shape:
                    return self._theirs(*values)
                data = each.data
                if data.device_id != device:
                    return self._theirs(*values)
                pointers.append(data.ptr)
        functions, pack, free, made = own
        out = ndarray(first.shape, dtype)
        slot = free.pop() if free else made()
        pack(slot[0], 0, *pointers, out.data.ptr, n)
        try:
            launch(functions[device], -(-n // THREADS), 1, 1, THREADS, 1, 1, 0, stream().ptr, slot[1], 0)
        except refused:
            return self._theirs(*values)
        free.append(slot)
        awaited(self._name, values)
        return out
