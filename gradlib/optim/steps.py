"""The steps of optimisers, of which kernels over all parameters are written.

A `Step` stands beside the rule of its optimiser and computes what that computes, rounded at the same places, so the bits are the same. One
text serves parameters whose state is joined, with numbers from the host, and those that have their counts on the device.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from functools import cached_property
from typing import Any, NamedTuple

from gradlib.backend.several import Several
from gradlib.optim.capturable import Formula, Number

STEPS: dict[str, Step] = {}
"""All of them, by name."""

_RATE = "const float* single, const double* twice, double given"
"""The learning rate as kernels are given it: where a tensor on the device has it, in float32 or float64, or a number."""
_READ_RATE = "const double lr = single ? double(*single) : twice ? *twice : given;\n    "


class Plan(NamedTuple):
    """A step as a group of parameters has it.

    Attributes:
        step: which. numbers: the sign of the gradient, its share of the parameter (weight decay), and what the step names.
        options: what its factors are computed from beside the count, the learning rate and the state.
    """

    step: Step
    numbers: tuple[float, ...]
    options: tuple[float, ...] = ()


class Step:
    """A step, element by element.

    Args:
        name: of its kernels.
        state: the arrays of the state, by their names in the body.
        body: what becomes in C++ of the element ``p``, of which ``g`` is the gradient with weight decay, and of the state; T is the dtype.
        numbers: those of the group that the body takes.
        factors: gives, by name, the further numbers that the body takes, from the number of the step, the learning rate, the options and
            what the state holds, and what becomes of the latter. By "shrink" the parameter is multiplied beforehand.
        options: those of the group that ``factors`` takes.
        held: numbers that the state holds for each parameter, beside its count.
        counts: whether the state has a count.
    """

    def __init__(
        self, name: str, state: dict[str, str], body: str, *, numbers: str = "", factors: Callable[..., dict[str, Number]] | None = None,
        options: str = "", held: Sequence[str] = (), counts: bool = True,
    ) -> None:  # fmt: skip
        self.name, self.state, self.body = name, state, body
        self.factors: Callable[..., dict[str, Number]] = factors or (lambda k, lr: {})
        self.held, self.counts = tuple(held), counts
        self.counters = (*(["step"] if counts else []), *held)
        """The names of the numbers in the state."""
        self.names = {*state.values(), *self.counters}
        self._numbers, self._options = ["sign", "decay", *numbers.split()], options.split()
        STEPS[name] = self

    @cached_property
    def formulas(self) -> dict[str, str]:
        """What ``factors`` gives, in C++."""
        found = self.factors(Formula("steps"), Formula("lr"), *map(Formula, (*self._options, *self.held)))
        return {name: each.text for name, each in found.items()}

    @cached_property
    def taken(self) -> list[str]:
        """The names of the factors that the body takes."""
        return [name for name in self.formulas if name not in self.held]

    @cached_property
    def is_counted(self) -> bool:
        """Whether a factor depends on more than the learning rate."""
        return any(re.search(rf"\b{name}\b", text) for text in self.formulas.values() for name in ("steps", *self.held))

    @cached_property
    def joined(self) -> Several:
        """The kernel of parameters with a joined state: takes its arrays, the numbers and the factors."""
        parameters = [*(f"T* {name}_" for name in self.state), *(f"T {name}" for name in (*self._numbers, *self.taken))]
        return Several(self.name, {"p": "T*", "g": "const T*"}, parameters, self._text({name: f"{name}_[i]" for name in self.state}))

    @cached_property
    def apart(self) -> Several:
        """The kernel of parameters that each have their state: takes the factors of all, or the learning rate, and the numbers.

        In the latter case it counts, where there is a count.
        """
        columns = {"p": "T*", "g": "const T*", **dict.fromkeys(self.state, "T*")}
        numbers, text = [f"T {name}" for name in self._numbers], self._text({name: f"t.{name}[k][j]" for name in self.state})
        if self.is_counted:
            given = [f"{name} = f_[{len(self.taken)} * k + {at}]" for at, name in enumerate(self.taken)]
            return Several(f"{self.name}_apart", columns, ["const T* f_", *numbers], f"const T {', '.join(given)};\n    {text}")
        given = [f"const T {name} = T({self.formulas[name]});\n    " for name in self.taken]
        parameters, rows = [*_RATE.split(", "), *(f"double {name}" for name in self._options), *numbers], ""
        if self.counts:
            columns["step"], rows = "C*", "if (t.step[k]) *t.step[k] = C(double(*t.step[k]) + 1);"
        return Several(f"{self.name}_apart", columns, parameters, f"{_READ_RATE if given else ''}{''.join(given)}{text}", rows)

    @cached_property
    def counting(self) -> Several:
        """The kernel that computes the factors of each parameter and counts: takes where they go, the learning rate and the options.

        A parameter without a count on the device has one that is ``known``.
        """
        parameters = ["T* f_", *_RATE.split(", "), "double known", *(f"double {name}" for name in self._options)]
        held = "".join(f"const double {name} = *t.{name}[k];\n    " for name in self.held)
        given = "".join(f"\n    f_[{len(self.taken)} * k + {at}] = T({self.formulas[name]});" for at, name in enumerate(self.taken))
        after = "".join(f"\n    *t.{name}[k] = C({self.formulas[name]});" for name in self.held)
        body = f"""{_READ_RATE}const double steps = t.step[k] ? double(*t.step[k]) + 1 : known;
    {held}if (t.step[k]) *t.step[k] = C(steps);{given}{after}"""
        return Several(f"{self.name}_counting", dict.fromkeys(self.counters, "C*"), parameters, body)

    def _text(self, places: dict[str, str]) -> str:
        """The body between reading and writing, for these places of the state."""
        shrunk = " * shrink" if "shrink" in self.taken else ""
        read = "".join(f"T {name} = {place};\n    " for name, place in places.items())
        written = "".join(f"\n    {place} = {name};" for name, place in places.items())
        return f"""T p = t.p[k][j]{shrunk}, g = t.g[k][j] * sign;
    if (decay != 0) g = g + decay * p;
    {read}{self.body}{written}
    t.p[k][j] = p;"""


MEANS = "m = m + (g - m) * mean_share, s = s * kept + g * g * share;"
"""A step of the running means of the gradient, m, and of its square, s."""
OF_MEANS = "mean_share kept share"
"""The numbers that it takes."""


def of_means(b1: float, b2: float) -> tuple[float, float, float]:
    """These, for the shares that stay."""
    return 1 - b1, b2, 1 - b2


def by_rate(k: Number, lr: Number) -> dict[str, Number]:
    """The factors of a step that takes the learning rate as it is."""
    return {"rate": lr}


def given(group: dict[str, Any]) -> tuple[float, float]:
    """The numbers with which every plan begins: the sign of the gradient, and the weight decay that is added to it."""
    return -1.0 if group["maximize"] else 1.0, 0.0 if group.get("decoupled_weight_decay") else float(group["weight_decay"])


def apart(group: dict[str, Any]) -> float:
    """The weight decay that shrinks the parameter instead."""
    return float(group["weight_decay"]) if group.get("decoupled_weight_decay") else 0.0
