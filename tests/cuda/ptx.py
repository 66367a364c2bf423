"""Executes the PTX that NVRTC makes of a kernel: what a GPU would be given, contracted multiply-adds and asynchronous copies included.

Each instruction runs for all threads of a block that stand at it, as NumPy arrays with a mask; of the threads that may go on, those that
are furthest behind do, so that they meet again where paths join. A barrier lets go when every thread that has not ended waits at it.
Every access is checked: it is aligned, within one of the launch's arrays or the block's shared memory, and in shared memory reads only
what was written; what `cp.async` fetches counts as written once its thread has awaited it. Warps do not run apart from one another, so a
missing barrier is not seen here (tests/shim sees it). An instruction with a modifier that is not known here is an error.
"""

from __future__ import annotations

import operator
import re
from collections import Counter
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

import numpy as np

from gradlib.backend.dtype import bfloat16
from gradlib.cuda.launch import Call, checked_args
from tests.shim.kept import ptx_and_report

_NUMPY = {
    "s16": np.int16, "u16": np.uint16, "b16": np.uint16, "s32": np.int32, "u32": np.uint32, "b32": np.uint32, "s64": np.int64,
    "u64": np.uint64, "b64": np.uint64, "f32": np.float32, "f64": np.float64, "pred": np.bool_, "f16": np.float16,
}  # fmt: skip
_REGISTERS = {"p": np.bool_, "rs": np.uint16, "r": np.uint32, "rd": np.uint64, "f": np.float32, "fd": np.float64, "temp": np.uint32}
_COMPARE: dict[str, Callable[..., Any]] = {
    "eq": operator.eq, "lt": operator.lt, "le": operator.le, "gt": operator.gt, "ge": operator.ge, "ne": lambda a, b: (a < b) | (a > b),
    "neu": operator.ne, "ltu": lambda a, b: ~(a >= b), "leu": lambda a, b: ~(a > b), "gtu": lambda a, b: ~(a <= b),
    "geu": lambda a, b: ~(a < b), "equ": lambda a, b: ~((a < b) | (a > b)), "nan": lambda a, b: (a != a) | (b != b),
    "num": lambda a, b: (a == a) & (b == b),
}  # fmt: skip
"""Those that end in u are true where a NaN is compared, the others false."""

_MODIFIERS = {
    "abs": "ftz", "add": "rn rz ftz", "bar": "sync", "bra": "uni", "cp": "async ca shared global wait_all",
    "cvt": "rn rni rzi rmi rpi ftz bf16", "cvta": "to global", "div": "rn ftz", "fma": "rn ftz", "ld": "param global shared v2 v4",
    "mad": "lo hi wide", "max": "ftz NaN", "min": "ftz NaN", "mul": "lo hi wide rn ftz", "neg": "ftz", "rcp": "rn approx ftz",
    "setp": " ".join([*_COMPARE, "ftz"]), "sqrt": "rn ftz", "st": "global shared v2 v4", "sub": "rn ftz",
}  # fmt: skip
"""What each instruction may say beside its types; the others say nothing more."""

_SHARED = 1024  # where shared memory begins in its window
_STEPS = 2_000_000


class Memory:
    """Bytes with addresses, of which some exist and some are written."""

    def __init__(self, size: int, base: int) -> None:
        self.bytes = np.full(size, 0xA5, np.uint8)
        self.exists, self.written = np.zeros(size, bool), np.zeros(size, bool)
        self.base = base

    def places(self, address: np.ndarray, width: int) -> np.ndarray:
        """Of each byte of accesses of so many bytes."""
        start = address.astype(np.int64) - self.base
        assert not (address % np.uint64(width)).any(), "an access is not aligned"
        places = start[:, None] + np.arange(width)
        assert ((places >= 0) & (places < len(self.bytes))).all(), "an access is outside memory"
        assert self.exists[places].all(), "an access is outside what was allocated"
        return places

    def load(self, address: np.ndarray, dtype: Any, count: int) -> list[np.ndarray]:
        size = np.dtype(dtype).itemsize
        places = self.places(address, size * count)
        assert self.written[places].all(), "what is read was not written"
        values = np.ascontiguousarray(self.bytes[places]).view(dtype).reshape(len(address), count)
        return [np.ascontiguousarray(values[:, i]) for i in range(count)]

    def store(self, address: np.ndarray, values: Sequence[np.ndarray]) -> None:
        size = values[0].dtype.itemsize
        places = self.places(address, size * len(values))
        self.bytes[places] = np.stack(values, axis=1).view(np.uint8).reshape(places.shape)
        self.written[places] = True


@cache
def compiled(source: str, options: Any) -> str:
    """The PTX of all kernels of a source."""
    return ptx_and_report(source, options)[0]


@cache
def program(source: str, options: Any, kernel: str) -> tuple[list[str], dict[str, int]]:
    """A kernel's instructions and where its labels stand among them."""
    text = compiled(source, options).partition(f".entry {kernel}(")[2]
    body = re.split(r"\n\}", text[text.index("{") :])[0]
    lines: list[str] = []
    labels: dict[str, int] = {}
    for line in map(str.strip, body.splitlines()):
        if found := re.match(r"(\$L\w+):", line):
            labels[found[1]] = len(lines)
        elif line.endswith(";") and not line.startswith("."):
            lines.append(line[:-1])
    return lines, labels


class Block:
    """The threads of one block.

    Args:
        lines, labels: the program. memory: global memory. params: the launch's numbers and addresses, each as an array of one element.
        special: the values of %tid.x and its like. shared: bytes of dynamic shared memory.
    """

    def __init__(
        self, lines: list[str], labels: dict[str, int], memory: Memory, params: list[np.ndarray], special: dict[str, Any], shared: int
    ) -> None:
        self.lines, self.labels, self.memory, self.params = lines, labels, memory, params
        self.threads = len(special["%tid.x"])
        self.special = {name: np.broadcast_to(np.asarray(x, np.uint32), self.threads).copy() for name, x in special.items()}
        self.shared = Memory(shared, _SHARED)
        self.shared.exists[:] = True
        self.registers: dict[str, np.ndarray] = {}
        self.copies: list[tuple[int, int, bytes]] = []  # thread, place in shared memory, what comes there
        self.counted: Counter[str] = Counter()
        self.ran = np.zeros(self.threads, np.int64)  # instructions of each thread
        self.passes: list[int] | None = None  # of each access to shared memory; None counts none

    # ---- operands

    def value(self, text: str, kind: str) -> np.ndarray:
        """An operand as values of a type, for every thread."""
        dtype = _NUMPY[kind]
        if text in self.special:
            return self.special[text].view(dtype)
        if text.startswith("%"):
            held = self.registers.get(text)
            if held is None:
                held = self.registers[text] = np.zeros(self.threads, _kept_as(text))
            size = np.dtype(dtype).itemsize
            if size < held.itemsize:  # the low part, as a store of it takes it
                held = held.astype(f"u{size}")
            return held if held.dtype == dtype else held.view(dtype)
        if text.startswith("0f"):
            return np.full(self.threads, int(text[2:], 16), np.uint32).view(dtype)
        if text.startswith("0d"):
            return np.full(self.threads, int(text[2:], 16), np.uint64).view(dtype)
        if text.startswith("{"):
            low, high = (self.value(half, "u32").astype(np.uint64) for half in _operands(text.strip("{}")))
            return (low | high << np.uint64(32)).view(dtype)
        if text == "shared_bytes":
            return np.full(self.threads, _SHARED, dtype)
        bits = np.dtype(dtype).itemsize * 8
        return np.full(self.threads, int(text, 0) & ((1 << bits) - 1), f"u{bits // 8}").view(dtype)

    def put(self, text: str, value: np.ndarray, mask: np.ndarray) -> None:
        kind = _kept_as(text)
        if text not in self.registers:
            self.registers[text] = np.zeros(self.threads, kind)
        if value.itemsize < np.dtype(kind).itemsize:  # a load extends what it reads
            value = value.astype(kind)
        held = value if value.dtype == kind else np.ascontiguousarray(value).view(kind)
        self.registers[text] = np.where(mask, held, self.registers[text])

    def address(self, text: str, mask: np.ndarray) -> np.ndarray:
        """``[%rd1+4]`` for the threads of the mask."""
        name, _, offset = text.strip("[]").partition("+")
        base = self.value(name, "u32" if name.startswith("%r") and not name.startswith("%rd") else "u64").astype(np.uint64)
        return (base + np.uint64(int(offset or 0) & (2**64 - 1)))[mask]

    # ---- the walk

    @np.errstate(all="ignore")
    def run(self) -> None:
        place, ended, waits = np.zeros(self.threads, int), np.zeros(self.threads, bool), np.zeros(self.threads, bool)
        targets = set(self.labels.values())
        for _ in range(_STEPS):
            able = ~ended & ~waits
            if not able.any():
                if ended.all():
                    assert not self.copies, "copies were not awaited"
                    return
                waits[:] = False
                place[~ended] += 1
                continue
            at = int(place[able].min())
            mask = able & (place == at)
            while True:
                name, parts, operands = _decoded(self.lines[at])
                guard = self.value(name.lstrip("!"), "pred") ^ name.startswith("!") if name else None
                self.counted[parts[0]] += int(mask.sum())
                self.ran += mask
                if parts[0] == "bra":
                    taken = mask if guard is None else mask & guard
                    place[mask] = at + 1
                    place[taken] = self.labels[operands[0]]
                    break
                if parts[0] == "ret":
                    ended |= mask if guard is None else mask & guard
                    place[mask & ~ended] = at + 1
                    break
                if parts[0] == "bar":
                    assert operands == ["0"], "a barrier of all threads"
                    comes = mask if guard is None else mask & guard
                    waits |= comes
                    place[mask & ~comes] = at + 1
                    place[comes] = at
                    break
                self.execute(parts, operands, mask if guard is None else mask & guard)
                at += 1
                if at in targets:
                    place[mask] = at
                    break
        raise AssertionError("the kernel does not end")

    def execute(self, parts: Sequence[str], operands: list[str], mask: np.ndarray) -> None:
        name = parts[0]
        if name in ("ld", "st"):
            self.move(parts, operands, mask)
        elif name == "cp":
            self.copy(parts, operands, mask)
        elif operands[0].startswith("{"):  # the halves of a number
            whole = np.ascontiguousarray(self.value(operands[1], parts[-1])).view(np.uint64)
            for i, half in enumerate(_operands(operands[0].strip("{}"))):
                self.put(half, (whole >> np.uint64(32 * i)).astype(np.uint32), mask)
        else:
            made = _ARITHMETIC[name](self, parts, operands[1:])
            self.put(operands[0], np.ascontiguousarray(made), mask)

    def move(self, parts: Sequence[str], operands: list[str], mask: np.ndarray) -> None:
        """ld and st of parameters, global and shared memory, also of two or four at a time."""
        space, kind = parts[1], parts[-1]
        if space == "param":
            number = int(operands[1].strip("[]").rpartition("_")[2])
            self.put(operands[0], np.repeat(self.params[number].view(_NUMPY[kind]), self.threads), mask)
            return
        if not mask.any():
            return
        memory = self.shared if space == "shared" else self.memory
        loads = parts[0] == "ld"
        registers = operands[0 if loads else 1].strip("{}").replace(" ", "").split(",")
        address = self.address(operands[1 if loads else 0], mask)
        if space == "shared" and self.passes is not None:
            self.passes.append(_passes(np.flatnonzero(mask), address, np.dtype(_NUMPY[kind]).itemsize * len(registers)))
        if not loads:
            memory.store(address, [np.ascontiguousarray(self.value(r, kind)[mask]) for r in registers])
            return
        for register, values in zip(registers, memory.load(address, _NUMPY[kind], len(registers)), strict=True):
            full: np.ndarray = np.zeros(self.threads, _NUMPY[kind])
            full[mask] = values
            self.put(register, full, mask)

    def copy(self, parts: Sequence[str], operands: list[str], mask: np.ndarray) -> None:
        """cp.async: the bytes are on their way until their thread awaits them."""
        threads = np.flatnonzero(mask)
        if parts[2] == "wait_all":
            for _, place, data in [c for c in self.copies if mask[c[0]]]:
                self.shared.bytes[place : place + len(data)] = np.frombuffer(data, np.uint8)
                self.shared.written[place : place + len(data)] = True
            self.copies = [c for c in self.copies if not mask[c[0]]]
            return
        assert len(operands) == 3, "a copy of as many bytes as it fills"
        size, to = int(operands[2]), self.address(operands[0], mask)
        if self.passes is not None:
            self.passes.append(_passes(threads, to, size))
        places = self.shared.places(to, size)[:, 0]
        sources = self.memory.places(self.address(operands[1], mask), size)
        assert self.memory.written[sources].all(), "what is copied was not written"
        for thread, place, source in zip(threads, places, sources, strict=True):
            self.shared.written[place : place + size] = False
            self.copies.append((int(thread), int(place), self.memory.bytes[source].tobytes()))


def _passes(threads: np.ndarray, address: np.ndarray, size: int) -> int:
    """How often warps go through the 32 banks of 4 bytes for accesses of so many bytes.

    128 bytes of neighbours are served at a time, and again for each other word of a bank.
    """
    neighbours = threads // (32 * 4 // max(4, size))
    words = address.astype(np.int64)[:, None] // 4 + np.arange(-(-size // 4))
    group, word = divmod(np.unique((neighbours[:, None] << 40) + words), 1 << 40)  # an address is shorter
    held = np.zeros((int(neighbours.max()) + 1, 32), np.int64)
    np.add.at(held, (group, word % 32), 1)
    return int(held.max(axis=1).sum())


@cache
def _decoded(line: str) -> tuple[str, list[str], list[str]]:
    """An instruction: its guard or "", the parts of its name, its operands.

    Raises: AssertionError for a modifier that would be passed over here.
    """
    guard, _, line = line[1:].partition(" ") if line.startswith("@") else ("", "", line)
    word, _, rest = line.replace("\t", " ").strip().partition(" ")
    name, *said = word.split(".")
    unknown = set(said) - {*_NUMPY, *_MODIFIERS.get(name, "").split()}
    assert not unknown, f"{word} is not executed here: {', '.join(sorted(unknown))}"
    return guard, [name, *said], _operands(rest)


@cache
def _kept_as(register: str) -> Any:
    """The dtype in which a register is kept."""
    found = re.match(r"%([a-z]+)", register)
    assert found is not None
    return _REGISTERS[found[1]]


def _operands(text: str) -> list[str]:
    return [x.strip() for x in re.findall(r"\{[^}]*\}|\[[^\]]*\]|[^,\s][^,]*", text)]


def _flushed(x: np.ndarray, parts: Sequence[str]) -> np.ndarray:
    """Without numbers below the normal ones, where the instruction says .ftz."""
    return np.where(np.abs(x) < np.finfo(np.float32).tiny, np.copysign(np.float32(0), x), x) if "ftz" in parts else x


def _by(function: Callable[..., Any]) -> Callable[..., Any]:
    """An instruction whose operands and result have one type."""

    def run(block: Block, parts: Sequence[str], operands: list[str]) -> Any:
        kind = parts[-1]
        values: list[Any] = [_flushed(block.value(x, kind), parts) for x in operands]
        return _flushed(np.asarray(function(*values), _NUMPY[kind]), parts)

    return run


def _multiplied(block: Block, parts: Sequence[str], operands: list[str]) -> Any:
    """mul and mad: the low or the .hi half, or with .wide the whole; of floats the product."""
    kind = parts[-1]
    values: list[np.ndarray]
    if "wide" in parts:
        wide = {"s32": "s64", "u32": "u64"}[kind]
        values = [block.value(x, kind).astype(_NUMPY[wide]) for x in operands[:2]]
        rest = [block.value(x, wide) for x in operands[2:]]
    else:
        values = [_flushed(block.value(x, kind), parts) for x in operands[:2]]
        rest = [block.value(x, kind) for x in operands[2:]]
    made = _high(*values) if "hi" in parts else values[0] * values[1]
    return _flushed(made + rest[0] if rest else made, parts)


def _high(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The high half of products of integers."""
    bits, info = a.itemsize * 8, np.iinfo(a.dtype)
    products = (int(x) * int(y) >> bits for x, y in zip(a, b, strict=True))
    return np.array([x if x <= info.max else x - (1 << bits) for x in products], a.dtype)


def _two_sum(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The sum of float64 numbers and its error, of which they are the exact sum (Knuth)."""
    total = a + b
    part = total - a
    return total, (a - (total - part)) + (b - part)


def _odd_sum(a: np.ndarray, b: np.ndarray) -> np.ndarray:
    """The sum of float64 numbers rounded to odd: rounded once more, to fewer bits, it is the sum rounded once (Boldo and Melquiond)."""
    total, error = _two_sum(a, b)
    even = (total.view(np.uint64) & np.uint64(1)) == 0
    inexact = np.isfinite(total) & np.isfinite(error) & (error != 0)
    return np.where(inexact & even, np.nextafter(total, np.where(error > 0, np.inf, -np.inf)), total)


def _two_product(a: np.ndarray, b: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """The product of float64 numbers and its error (Dekker)."""
    halves = []
    for x in (a, b):
        scaled = x * (2.0**27 + 1)
        high = scaled - (scaled - x)
        halves.append((high, x - high))
    (a_high, a_low), (b_high, b_low) = halves
    product = a * b
    return product, ((a_high * b_high - product) + a_high * b_low + a_low * b_high) + a_low * b_low


def _fused(a: np.ndarray, b: np.ndarray, c: np.ndarray) -> Any:
    """A multiply-add rounded once (Boldo and Melquiond, 2008)."""
    if a.dtype == np.float32:
        return _odd_sum(a.astype(np.float64) * b, c.astype(np.float64))
    product, low = _two_product(a, b)
    high, rest = _two_sum(c, low)
    total, error = _two_sum(product, high)
    found = total + _odd_sum(rest, error)
    return np.where(np.isfinite(found) & np.isfinite(low), found, a * b + c)


def _added(block: Block, parts: Sequence[str], operands: list[str]) -> Any:
    """To the nearest, or with .rz towards zero."""
    if "rz" not in parts:
        return _by(operator.add)(block, parts, operands)
    x, y = (_flushed(block.value(each, "f32"), parts).astype(np.float64) for each in operands)
    total = _odd_sum(x, y)
    made = total.astype(np.float32)
    return _flushed(np.where(np.abs(made) > np.abs(total), np.nextafter(made, np.float32(0)), made), parts)


def _reciprocal(block: Block, parts: Sequence[str], operands: list[str]) -> Any:
    """With .approx of a double: of its upper half, the lower being zero."""
    made = _by(lambda x: 1 / x)(block, parts, operands)
    return (made.view(np.uint64) & np.uint64(0xFFFFFFFF00000000)).view(np.float64) if "approx" in parts and parts[-1] == "f64" else made


def _quotient(a: np.ndarray, b: np.ndarray) -> Any:
    """Of integers towards zero."""
    if a.dtype.kind == "f":
        return a / b
    b = np.where(b == 0, 1, b).astype(a.dtype)
    found = a // b  # towards minus infinity
    return found + ((found * b != a) & ((a < 0) != (b < 0))).astype(a.dtype)


def _shifted_left(block: Block, parts: Sequence[str], operands: list[str]) -> Any:
    x, by = block.value(operands[0], parts[-1]), block.value(operands[1], "u32")
    return np.where(by < x.itemsize * 8, x << by.astype(x.dtype), 0).astype(x.dtype)


def _shifted_right(block: Block, parts: Sequence[str], operands: list[str]) -> Any:
    x, by = block.value(operands[0], parts[-1]), block.value(operands[1], "u32")
    bits = x.itemsize * 8
    made = x >> np.minimum(by, bits - 1).astype(x.dtype)  # of a negative number the sign is left
    return made if x.dtype.kind == "i" else np.where(by < bits, made, 0).astype(x.dtype)


def _inserted(block: Block, parts: Sequence[str], operands: list[str]) -> Any:
    """bfi: the low bits of the first in the second, from a place on."""
    part, whole = (block.value(x, parts[-1]) for x in operands[:2])
    place, count = (int(x) for x in operands[2:])
    mask = np.array((1 << count) - 1 << place, part.dtype)
    return whole & ~mask | part << np.array(place, part.dtype) & mask


def _extreme(quiet: Callable[..., Any], loud: Callable[..., Any]) -> Callable[..., Any]:
    """min and max, which of a number and a NaN give the number but where the instruction says .NaN; -0 is less than 0."""

    def run(block: Block, parts: Sequence[str], operands: list[str]) -> Any:
        return _by(lambda a, b: _of_zeros(loud if "NaN" in parts else quiet, a, b))(block, parts, operands)

    return run


def _of_zeros(extreme: Callable[..., Any], a: np.ndarray, b: np.ndarray) -> Any:
    """The smaller or larger of two numbers, by their signs where both are zero."""
    if a.dtype.kind != "f":
        return extreme(a, b)
    signs = extreme(np.copysign(1.0, a), np.copysign(1.0, b))
    return np.where((a == 0) & (b == 0), np.copysign(0.0, signs), extreme(a, b))


def _compared(block: Block, parts: Sequence[str], operands: list[str]) -> Any:
    return _COMPARE[parts[1]](*(_flushed(block.value(x, parts[-1]), parts) for x in operands[:2]))


def _selected(block: Block, parts: Sequence[str], operands: list[str]) -> Any:
    return np.where(block.value(operands[2], "pred"), block.value(operands[0], parts[-1]), block.value(operands[1], parts[-1]))


def _converted(block: Block, parts: Sequence[str], operands: list[str]) -> Any:
    to, come = parts[-2], parts[-1]
    x = block.value(operands[0], come)
    if to == "bf16":
        return x.astype(bfloat16()).view(np.uint16)
    wanted = np.dtype(_NUMPY[to])
    if x.dtype.kind == "f" and (rounding := _ROUNDING.keys() & set(parts)):
        x = _ROUNDING[rounding.pop()](_flushed(x, parts))
        if wanted.kind in "iu":  # beyond what there is, the last; 0 for NaN
            least, most = np.iinfo(wanted).min, np.iinfo(wanted).max
            inside = np.where((x >= float(least)) & (x < float(most)), x, 0).astype(wanted)
            return np.where(x >= float(most), most, np.where(x < float(least), least, inside)).astype(wanted)
    made: np.ndarray = (_flushed(x, parts) if come == "f32" else x).astype(wanted)
    return made.view(np.uint16) if to == "f16" else _flushed(made, parts) if to == "f32" else made


_ROUNDING: dict[str, Callable[..., Any]] = {"rni": np.rint, "rzi": np.trunc, "rmi": np.floor, "rpi": np.ceil}


_ARITHMETIC: dict[str, Callable[..., Any]] = {
    "add": _added, "sub": _by(operator.sub), "mul": _multiplied, "mad": _multiplied, "fma": _by(_fused),
    "neg": _by(operator.neg), "abs": _by(np.abs), "bfi": _inserted,
    "min": _extreme(np.fmin, np.minimum), "max": _extreme(np.fmax, np.maximum),
    "div": _by(_quotient), "rem": _by(lambda a, b: a - _quotient(a, b) * b),
    "rcp": _reciprocal, "sqrt": _by(np.sqrt), "mov": _by(lambda x: x), "cvta": _by(lambda x: x), "and": _by(operator.and_),
    "or": _by(operator.or_), "xor": _by(operator.xor), "not": _by(np.invert), "shl": _shifted_left, "shr": _shifted_right,
    "setp": _compared, "selp": _selected, "cvt": _converted,
}  # fmt: skip


def execute(call: Call, busiest: list[int] | None = None, passes: list[int] | None = None) -> Counter[str]:
    """Run a launch on NumPy arrays, in place. Returns how often a thread ran each instruction.

    ``busiest`` takes how many instructions the busiest thread of each block ran, ``passes`` how often warps went through the banks of
    shared memory for each access.
    """
    assert isinstance(call.source, str)
    lines, labels = program(call.source, call.options, call.kernel)
    args = checked_args(call)
    arrays = {i: x for i, x in enumerate(args) if isinstance(x, np.ndarray) and x.ndim}
    places, end = {}, 4096
    for i, x in arrays.items():
        places[i], end = end, end + -(-x.nbytes // 256) * 256 + 256
    memory = Memory(end, 0)
    for i, x in arrays.items():
        part = slice(places[i], places[i] + x.nbytes)
        memory.exists[part] = memory.written[part] = True
        memory.bytes[part] = np.frombuffer(x.tobytes(), np.uint8)
    params = [np.array([places[i]], np.uint64) if i in arrays else np.asarray(x).reshape(1) for i, x in enumerate(args)]
    counted: Counter[str] = Counter()
    block_size, grid = (size if isinstance(size, tuple) else (size,) for size in (call.block, call.grid))
    threads = np.unravel_index(np.arange(np.prod(block_size)), block_size, order="F")  # x is fastest
    for place in np.ndindex(grid):
        special = {
            f"%{name}.{axis}": value
            for name, values in (("tid", threads), ("ntid", block_size), ("ctaid", place), ("nctaid", grid))
            for axis, value in zip("xyz", values, strict=False)
        }
        block = Block(lines, labels, memory, params, special, call.shared)
        block.passes = passes
        block.run()
        counted += block.counted
        if busiest is not None:
            busiest.append(int(block.ran.max()))
    for i, x in arrays.items():
        if x.flags.writeable:
            x[...] = np.frombuffer(memory.bytes[places[i] : places[i] + x.nbytes].tobytes(), x.dtype).reshape(x.shape)
    return counted
