"""The names of torch.autograd.grad_mode."""

from __future__ import annotations

import gradlib
from gradlib.autograd import grad_mode


def test_the_switches_are_gradlibs_own() -> None:
    assert grad_mode.no_grad is gradlib.no_grad
    assert grad_mode.enable_grad is gradlib.enable_grad
    assert grad_mode.set_grad_enabled is gradlib.set_grad_enabled
    assert grad_mode.inference_mode is gradlib.inference_mode


def test_multithreading_is_remembered_and_put_back() -> None:
    with grad_mode.set_multithreading_enabled(False):
        assert not grad_mode.is_multithreading_enabled()
        x = gradlib.ones(2, requires_grad=True)
        (x * x).sum().backward()
        assert x.grad.tolist() == [2.0, 2.0]
    assert grad_mode.is_multithreading_enabled()

    @grad_mode.set_multithreading_enabled(True)
    def inner() -> bool:
        return grad_mode.is_multithreading_enabled()

    assert inner()
    assert grad_mode.is_multithreading_enabled()
