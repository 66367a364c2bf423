"""Runs a program in both libraries and says where they disagree."""

from __future__ import annotations

import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from tests.differential.program import Input, Program

TOLERANCE = {"float64": 1e-8, "complex128": 1e-8, "float32": 2e-4, "complex64": 2e-4, "float16": 2e-2, "bfloat16": 8e-2}


@dataclass(frozen=True)
class Disagreement:
    """Where a program gives two answers.

    Attributes:
        mode: "values", "backward", "again" (second order), "forward" (jvp) or "vmap".
        what: "value", "dtype", "shape", "raises" (gradlib only), "accepts" (torch raises), "requires_grad", "leaf", "version", "missing".
        where: the variable or gradient.
        torch, gradlib: what each gave.
    """

    mode: str
    what: str
    where: str
    torch: str
    gradlib: str

    def __str__(self) -> str:
        return f"{self.mode}: {self.what} of {self.where}\n  torch:   {self.torch}\n  gradlib: {self.gradlib}"


class Raised:
    """What a run ended with."""

    def __init__(self, error: Exception) -> None:
        self.error = error

    def __repr__(self) -> str:
        return f"{type(self.error).__name__}: {str(self.error)[:300]}"


Results = dict[str, Any]


def is_tensor(value: Any) -> bool:
    return hasattr(value, "requires_grad") and hasattr(value, "detach")


def seen(value: Any) -> tuple[Any, ...]:
    """A tensor as plain facts: (values, dtype, shape, requires_grad, leaf, version)."""
    flat = value.detach()
    name = str(flat.dtype).removeprefix("torch.")
    if name in ("bfloat16", "complex32"):
        flat = flat.float() if name == "bfloat16" else flat.cfloat()
    array = np.asarray(flat.resolve_conj().clone().numpy())
    inference = value.is_inference()
    return array, name, tuple(value.shape), bool(value.requires_grad), bool(value.is_leaf), -1 if inference else value._version


def attempt(call: Callable[[], Results]) -> Results | Raised:
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        try:
            return call()
        except Exception as error:
            return Raised(error)


def variables(space: Results) -> Results:
    return {name: value for name, value in space.items() if name[0] in "av" and is_tensor(value)}


def weights(lib: Any, tensor: Any, salt: int) -> Any:
    """Fixed numbers to contract a tensor with, the same in both libraries."""
    count = tensor.numel()
    drawn = np.cos(np.arange(1, count + 1) * (salt + 1.3)).round(3).reshape(tuple(tensor.shape))
    return lib.tensor(drawn.tolist(), dtype=lib.float64).reshape(tuple(tensor.shape)).to(tensor.dtype)


def run_values(lib: Any, program: Program) -> Results:
    return variables(program.run(lib))


def run_backward(lib: Any, program: Program, order: int) -> Results:
    """First-order gradients of everything by every leaf, and where order is 2 those of the gradients; and what has collected in .grad."""
    space = program.run(lib)
    leaves = {each.name: space[each.name] for each in program.leaves()}
    outputs = [v for name, v in variables(space).items() if name[0] == "v" and v.requires_grad]
    if not outputs or not leaves:
        return {}
    cotangents = [weights(lib, v, n) for n, v in enumerate(outputs)]
    found = lib.autograd.grad(outputs, list(leaves.values()), cotangents, create_graph=order == 2, allow_unused=True)
    made = {f"grad of {name}": g for name, g in zip(leaves, found, strict=True)}
    made |= {f"{name}.grad": v.grad for name, v in variables(space).items() if v.is_leaf or v.retains_grad}
    if order == 2 and (numbers := [n for n, g in enumerate(found) if g is not None and g.requires_grad]):
        live, cotangents = [found[n] for n in numbers], [weights(lib, found[n], n + 7) for n in numbers]
        again = lib.autograd.grad(live, list(leaves.values()), cotangents, allow_unused=True)
        made |= {f"second gradient of {name}": g for name, g in zip(leaves, again, strict=True)}
    return made


def as_function(lib: Any, program: Program, names: list[str]) -> Callable[..., Any]:
    """The program as a function of some inputs; it gives its floating results, whose names it leaves in ``.names``."""
    plain = replace(program, inputs=tuple(replace(each, requires_grad=False) for each in program.inputs))

    def call(*given: Any) -> Any:
        made = variables(plain.run(lib, dict(zip(names, given, strict=True))))
        chosen = {name: v for name, v in made.items() if name[0] == "v" and (v.is_floating_point() or v.is_complex())}
        call.names = list(chosen)  # type: ignore[attr-defined]
        return tuple(chosen.values())

    return call


def run_forward(lib: Any, program: Program) -> Results:
    leaves = [each.name for each in program.leaves()]
    primals = tuple(replace(each, requires_grad=False).make(lib) for each in program.leaves())
    function = as_function(lib, program, leaves)
    values, tangents = lib.func.jvp(function, primals, tuple(weights(lib, x, n) for n, x in enumerate(primals)))
    names = function.names  # type: ignore[attr-defined]
    made = dict(zip(names, values, strict=True))
    return made | {f"tangent of {name}": t for name, t in zip(names, tangents, strict=True)}


def run_vmap(lib: Any, program: Program) -> Results:
    """The first leaf as three rows: itself, doubled, turned."""
    name = program.leaves()[0].name
    x = replace(program.leaves()[0], requires_grad=False).make(lib)
    function = as_function(lib, program, [name])
    made = lib.func.vmap(function)(lib.stack([x, x * 2, -x]))
    return dict(zip(function.names, made, strict=True))  # type: ignore[attr-defined]


MODES: dict[str, Callable[[Any, Program], Results]] = {
    "values": run_values,
    "backward": lambda lib, program: run_backward(lib, program, 1),
    "again": lambda lib, program: run_backward(lib, program, 2),
    "forward": run_forward,
    "vmap": run_vmap,
}


def facts(lib: Any, program: Program, mode: str) -> dict[str, Any] | Raised:
    """What a run gives, as plain values."""

    def call() -> Results:
        found = MODES[mode](lib, program)
        return {name: seen(value) if is_tensor(value) else None for name, value in found.items()}

    return attempt(call)


def close(a: np.ndarray, b: np.ndarray, dtype: str, slack: float = 1.0) -> bool:
    """Equal within the dtype's tolerance, NaN with NaN."""
    if dtype not in TOLERANCE:
        return bool(np.array_equal(a, b))
    tolerance = TOLERANCE[dtype] * slack
    finite = np.abs(b[np.isfinite(b)])
    scale = float(finite.max()) if finite.size else 1.0
    with np.errstate(all="ignore"):
        return bool(np.allclose(a, b, rtol=tolerance, atol=tolerance * min(max(scale, 1.0), 1e6), equal_nan=True))


def coarsest(program: Program) -> str:
    """The least precise dtype that occurs in a program, by whose rounding all its results are judged."""
    text = program.text()
    names = [name for name in TOLERANCE if f"lib.{name}" in text]
    names += ["float32"] if ".float()" in text else []
    return max(names, key=TOLERANCE.__getitem__, default="float64")


def coarser(dtype: str, precision: str) -> str:
    """The less precise of two dtypes; that of an integer result is its own."""
    return dtype if dtype not in TOLERANCE else max(dtype, precision, key=TOLERANCE.__getitem__)


def differences(mode: str, torch: Any, gradlib: Any, precision: str) -> Iterator[Disagreement]:
    """What two runs disagree about, values beyond the rounding of a dtype."""
    if isinstance(torch, Raised) or isinstance(gradlib, Raised):
        if not isinstance(torch, Raised):
            yield Disagreement(mode, "raises", "the program", "runs", repr(gradlib))
        elif not isinstance(gradlib, Raised):
            yield Disagreement(mode, "accepts", "the program", repr(torch), "runs")
        return
    for name in torch:
        mine, its = gradlib.get(name), torch[name]
        if mine is None or its is None:
            if mine is not its:
                yield Disagreement(mode, "missing", name, _shown(its), _shown(mine))
            continue
        for what, place in (("dtype", 1), ("shape", 2)):
            if its[place] != mine[place]:
                yield Disagreement(mode, what, name, str(its[place]), str(mine[place]))
                break
        else:
            if not close(mine[0], its[0], coarser(its[1], precision)):
                yield Disagreement(mode, "value", name, _shown(its), _shown(mine))
            elif mode == "values":
                for what, place in (("requires_grad", 3), ("leaf", 4), ("version", 5)):
                    if its[place] != mine[place] and (what != "version" or name[0] == "a"):  # torch's own results start anywhere
                        yield Disagreement(mode, what, name, str(its[place]), str(mine[place]))


def _shown(found: Any) -> str:
    return "None" if found is None else f"{found[0].tolist()} {found[1]}"


def nudged(program: Program, sign: float) -> Program:
    """The program with floating inputs changed by a few roundings."""
    changed: list[Input] = []
    for each in program.inputs:
        if each.values.dtype.kind in "fc" and each.dtype in ("float64", "float32", "complex128", "complex64"):
            eps = np.finfo(each.values.dtype).eps
            turn = 1 + sign * 3 * eps * np.cos(np.arange(each.values.size)).reshape(each.values.shape)
            with np.errstate(all="ignore"):
                each = replace(each, values=(each.values * turn).astype(each.values.dtype))
        changed.append(each)
    return replace(program, inputs=tuple(changed))


def ill_conditioned(torch: Any, program: Program, mode: str, found: Disagreement) -> bool:
    """Whether torch itself gives clearly other numbers when its inputs change by rounding."""
    runs = [facts(torch, each, mode) for each in (program, nudged(program, 1), nudged(program, -1))]
    if any(isinstance(run, Raised) or run.get(found.where) is None for run in runs):
        return True
    first, *others = (run[found.where] for run in runs)
    precision = coarser(first[1], coarsest(program))
    return any(other[2] != first[2] or not close(other[0], first[0], precision, 0.02) for other in others)


def disagreements(libraries: tuple[Any, Any], program: Program, modes: tuple[str, ...]) -> Iterator[Disagreement]:
    """Every disagreement of a program in these modes; the first mode that disagrees ends it."""
    for mode in modes:
        runs = [facts(lib, program, mode) for lib in libraries]
        found = [
            each
            for each in differences(mode, *runs, coarsest(program))
            if each.what != "value" or not ill_conditioned(libraries[0], program, mode, each)
        ]
        yield from found
        if found or (isinstance(runs[0], Raised) and mode == "values"):
            return
