"""A few hundred random programs in both libraries, and the parts of the search held against what they promise."""

from __future__ import annotations

import dataclasses
import subprocess
import sys
from typing import Any

import numpy as np
import pytest

from gradlib.core.op import COMPOSITES, REGISTRY
from tests.differential.compare import MODES, disagreements
from tests.differential.draw import Draw
from tests.differential.judged import judged
from tests.differential.operations import FAMILIES
from tests.differential.program import Input, Program, libraries
from tests.differential.reduce import reduced

pytestmark = [pytest.mark.host, pytest.mark.nonfinite]
pytest.importorskip("torch")


@pytest.fixture(scope="module")
def both() -> Any:
    return libraries()


@pytest.mark.parametrize("block", range(8))
@pytest.mark.slow
def test_random_programs_agree(block: int, both: Any) -> None:
    for seed in range(1000 * block, 1000 * block + 12):
        program = Draw(seed, both[0]).program()
        for found in disagreements(both, program, tuple(MODES)):
            short, found = reduced(both, program, found)
            assert judged(short, found), f"seed {seed}\n{short.text()}\n{found}"
            break


def test_a_seed_gives_one_program(both: Any) -> None:
    assert Draw(5, both[0]).program().text() == Draw(5, both[0]).program().text() != Draw(6, both[0]).program().text()


@pytest.mark.slow
def test_a_fault_is_found_and_reduced(both: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A wrong sine in a program of five lines: what is left is the sine."""
    import gradlib

    a = Input("a0", np.array([[0.5, 1.25]]), "float64", requires_grad=True)
    b = Input("a1", np.array([2.0]), "float64")
    lines = ("v0 = a0 * a1", "v1 = v0 + 1", "v2 = lib.sin(v1)", "v3 = v2.t()", "v4 = v3 * v3")
    right = gradlib.sin
    program = Program((a, b), lines)
    assert not list(disagreements(both, program, tuple(MODES)))
    monkeypatch.setattr(gradlib, "sin", lambda x: right(x) * 1.001)
    found = next(disagreements(both, program, tuple(MODES)))
    assert (found.mode, found.what) == ("values", "value")
    short, found = reduced(both, dataclasses.replace(program, lines=("v0 = a0 * a1", "v1 = a0", "v2 = lib.sin(v1)", "v3 = v2.t()")), found)
    assert any("sin" in line for line in short.lines)
    assert len(short.lines) <= 2
    assert len(short.inputs) == 1


def test_operations_are_drawn() -> None:
    """Every operation and composite that torch has under the same name occurs in a template, but for those that draw random numbers."""
    import torch

    text = " ".join(template for _, family in FAMILIES for template, _ in family)
    names = {n for n in {*REGISTRY, *COMPOSITES} if hasattr(torch, n) or hasattr(torch.Tensor, n)}
    missing = {n for n in names if f"{n}(" not in text and f"{n}_(" not in text and f".{n}" not in text}
    assert missing <= NOT_DRAWN, sorted(missing - NOT_DRAWN)


NOT_DRAWN = {"bernoulli", "multinomial", "normal", "dropout", "rand_like", "randn_like", "randint_like", "empty_like", "native_layer_norm"}
NOT_DRAWN |= {"pin_memory"}  # needs a device


SMALL = """
import numpy as np
from tests.differential.small import THRESHOLDS, declared, lower, lowered
lower(4)
import importlib
assert lowered() - declared(THRESHOLDS)
assert all(getattr(importlib.import_module(f"gradlib.{module}"), name) == 4 for module, name in lowered())
from gradlib.backend.vectorised import fits
print([fits(np.ones(n, np.float32)) for n in (3, 4)])
"""


def test_thresholds_are_lowered() -> None:
    """In a process of their own; also those that another module has imported."""
    run = subprocess.run([sys.executable, "-c", SMALL], capture_output=True, text=True, check=False)
    assert run.stdout == "[False, True]\n", run.stderr


@pytest.mark.slow
def test_random_programs_agree_by_the_ways_of_large_arrays() -> None:
    command = [sys.executable, "-m", "tests.differential", "--small", "4", "--programs", "100", "--seed", "1", "--seconds", "600"]
    run = subprocess.run(command, capture_output=True, text=True, check=False)
    assert run.returncode == 0, run.stdout + run.stderr
