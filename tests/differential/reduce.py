"""Makes a disagreeing program short: lines and inputs that it does without are left out, and values made plain."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from tests.differential.compare import Disagreement, disagreements
from tests.differential.program import Program


def reduced(libraries: tuple[Any, Any], program: Program, found: Disagreement) -> tuple[Program, Disagreement]:
    """The shortest program that was found to disagree in the same way, and its disagreement."""

    def still(candidate: Program) -> Disagreement | None:
        for each in disagreements(libraries, candidate, (found.mode,)):
            if each.what == found.what and "NameError" not in each.torch + each.gradlib:
                return each
        return None

    changed = True
    while changed:
        changed = False
        for candidate in _shorter(program):
            again = still(candidate)
            if again is not None:
                program, found, changed = candidate, again, True
                break
    return _plainer(program, still), still(program) or found


def _shorter(program: Program) -> list[Program]:
    """Without one line each, the last first; without one input; without one that wants a gradient."""
    made = [replace(program, lines=program.lines[:n] + program.lines[n + 1 :]) for n in reversed(range(len(program.lines)))]
    text = "\n".join(program.lines)
    made += [program.without_input(each.name) for each in program.inputs if each.name not in text]
    for n, each in enumerate(program.inputs):
        if each.requires_grad:
            made.append(replace(program, inputs=(*program.inputs[:n], replace(each, requires_grad=False), *program.inputs[n + 1 :])))
    return made


def _plainer(program: Program, still: Callable[[Program], Disagreement | None]) -> Program:
    """Inputs of small whole numbers where the disagreement bears it."""
    for n, each in enumerate(program.inputs):
        if each.values.dtype.kind in "fc":
            for values in (np.ones_like(each.values), np.round(each.values, 1)):
                candidate = replace(program, inputs=(*program.inputs[:n], replace(each, values=values), *program.inputs[n + 1 :]))
                if still(candidate) is not None:
                    program = candidate
                    break
    return program
