"""The variants of the text of a fast path: which calls each serves, and in which expressions they differ."""

from __future__ import annotations

from dataclasses import dataclass, replace

from gradlib.core.declaration import Op
from gradlib.core.written import WRITTEN


@dataclass(frozen=True)
class Variant:
    """One of them.

    Attributes:
        name: tells its file from those of the operation's other texts.
        usual: the condition that nothing unusual is active.
        seq: the expression for a node's sequence number.
        library: the namespace that the value computes in.
        array: the class of its arrays.
        rest: what everything else goes to.
        more: what it is given after the operation and its arguments.
        forward: whether it is for forward mode, and carries tangents in the place of recording.
    """

    name: str
    usual: str = "not global_state.active"
    seq: str = "next_seq()"
    library: str = "np"
    array: str = "ndarray"
    rest: str = "dispatch"
    more: str = ""
    forward: bool = False

    @property
    def on_device(self) -> bool:
        """Whether it serves CuPy arrays."""
        return self.library == "cupy"

    def file(self, op: Op) -> str:
        return f"{WRITTEN}{op.label}, {self.name}"

    def value(self, op: Op, arguments: str) -> str:
        """The expression that computes the operation's value."""
        if self.on_device and "out" in op.kernels:
            return f"(_out if (_out := _kernel({arguments})) is not None else _refused({arguments}))"
        known = op.direct is not None or (op.device is not None and self.on_device)
        return f"_direct({arguments})" if known else f"_value({self.library}, {arguments})"

    def serves(self, name: str) -> str:
        """The condition that an array is of the class that the text is for, and on the current device."""
        on_current = f" and {name}.data.device_id == current_device()" if self.on_device else ""
        return f"type({name}) is {self.array}{on_current}"

    def leave(self, op: Op) -> str:
        """The statement that hands the call over."""
        return f"return {self.rest}(op, ({', '.join(op.params)},){self.more})"


CALL = Variant("call")
OPERATOR = Variant("operator", rest="operate")
OBSERVED = Variant("observed", usual="global_state.active == global_state.observed", seq="_seq", more=", _seq")
PACKING = Variant("packing", usual="global_state.active == global_state.packing", rest="slow_path")
ON_DEVICE = Variant("on a device", library="cupy", array="cupy_array", rest="slow_path_on_device")
FORWARD = Variant("in forward mode", usual="True", forward=True)
FORWARD_ON_DEVICE = replace(ON_DEVICE, name="in forward mode on a device", usual="True", forward=True)
