"""``emit_itt``: what it says without ittapi, and what it tells an ittapi that only listens."""

from __future__ import annotations

import sys
from types import SimpleNamespace

import pytest

import gradlib
from gradlib.autograd.profiler import emit_itt, record_function
from gradlib.core.modes import global_state


def test_without_the_package_it_says_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "ittapi", None)
    active = global_state.active
    with pytest.raises(ModuleNotFoundError, match=r"pip install 'gradlib\[itt\]'"), emit_itt():
        pass
    assert global_state.active == active
    with emit_itt(enabled=False):
        gradlib.ones(2) + 1


def test_tasks_open_and_close_with_the_labels_of_nvtx(monkeypatch: pytest.MonkeyPatch) -> None:
    told: list[str] = []
    listening = SimpleNamespace(
        domain=lambda name: name,
        string_handle=str,
        task_begin=lambda domain, label: told.append(f"{domain}: {label}"),
        task_end=lambda domain: told.append(f"{domain}: end"),
    )
    monkeypatch.setitem(sys.modules, "ittapi", listening)
    x = gradlib.ones(2, requires_grad=True)
    with emit_itt(record_shapes=True), record_function("step"):
        y = x * 2.0
        y.sum().backward()
    assert y.grad_fn is not None
    n = y.grad_fn._sequence_nr()
    assert told == [
        "gradlib: step",
        f"gradlib: mul, seq = {n}, sizes = [[2], []]",
        "gradlib: end",
        f"gradlib: sum, seq = {n + 1}, sizes = [[2], [], [], []]",
        "gradlib: end",
        f"gradlib: SumBackward0, stashed seq = {n + 1}, seq = {n + 2}, sizes = [[]]",
        "gradlib: end",
        f"gradlib: MulBackward0, stashed seq = {n}, seq = {n + 3}, sizes = [[2]]",
        "gradlib: end",
        f"gradlib: AccumulateGrad, seq = {n + 4}, sizes = [[2]]",
        "gradlib: end",
        "gradlib: end",
    ]


def test_with_the_real_package() -> None:
    pytest.importorskip("ittapi")
    x = gradlib.ones(2, requires_grad=True)
    with emit_itt():
        (x * 2).sum().backward()
    assert x.grad.tolist() == [2.0, 2.0]
