"""Several threads at once: backward on graphs of their own, onto a shared leaf, and in one another's way."""

from __future__ import annotations

import os
import signal
import sys
import threading
import warnings
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.autograd import Function, grad
from gradlib.core import modes, node, tensor
from gradlib.core.tensor import Tensor
from tests.values import host, leaf


@pytest.fixture(autouse=True)
def frequent_switches() -> Iterator[None]:
    """Threads take turns after very few instructions, so that what may interleave does."""
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    yield
    sys.setswitchinterval(interval)


def at_once(count: int, work: Callable[[int], None]) -> None:
    """Run work(0), work(1), ... on threads that begin together, with this one's default device; the first error comes back."""
    barrier = threading.Barrier(count)
    errors: list[BaseException] = []
    place = gradlib.get_default_device()

    def run(number: int) -> None:
        barrier.wait()
        try:
            with place:
                work(number)
        except BaseException as error:
            errors.append(error)

    threads = [threading.Thread(target=run, args=(i,)) for i in range(count)]
    for t in threads:
        t.start()
    for t in threads:
        t.join()
    if errors:
        raise errors[0]


def test_graphs_of_their_own() -> None:
    found: dict[int, list[float]] = {}

    def work(number: int) -> None:
        for _ in range(30):
            x = leaf(float(number))
            y = x
            for _ in range(50):
                y = y + x
            (y * y).sum().backward()
            found[number] = x.grad.tolist()

    at_once(4, work)
    assert found == {i: [2.0 * 51 * 51 * i] for i in range(4)}


@pytest.mark.host
@pytest.mark.skipif(not hasattr(os, "fork"), reason="this system does not fork")
def test_a_fork_while_other_threads_hold_locks() -> None:
    """What a child inherits locked by a thread that it has not would never be released."""
    generator = gradlib.Generator()
    for lock in (tensor._accumulating, node.making, modes._lock, generator._lock):
        held, forked = threading.Event(), threading.Event()

        def hold(lock: Any = lock, held: threading.Event = held, forked: threading.Event = forked) -> None:
            with lock:
                held.set()
                forked.wait(0.1)

        thread = threading.Thread(target=hold)
        thread.start()
        held.wait()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # newer Pythons warn of every fork beside threads
            child = os.fork()
        if child == 0:
            signal.alarm(20)  # whose default action ends a child that waits for ever
            x = leaf()
            with gradlib.no_grad():
                x.clone().add_(1)
            (x * x).sum().backward()
            (x * x).sum().backward()
            gradlib.rand(3, generator=generator)
            os._exit(0 if x.grad.tolist() == [4, 8, 12] else 1)
        forked.set()
        thread.join()
        assert os.waitpid(child, 0)[1] == 0


def test_onto_a_shared_leaf() -> None:
    x = leaf()

    def work(number: int) -> None:
        for _ in range(200):
            (x * float(number + 1)).sum().backward()

    at_once(4, work)
    assert x.grad.tolist() == [2000] * 3


def test_onto_a_shared_leaf_with_create_graph() -> None:
    x = leaf()
    at_once(4, lambda number: [(x * x).sum().backward(create_graph=True) for _ in range(20)] and None)
    assert x.grad.tolist() == [160, 320, 480]
    x.grad = None


def test_through_a_shared_part() -> None:
    """One graph, walked by all at once, each with gradients of its own."""
    x = leaf()
    shared = (x * x).exp()
    expected = host(grad(shared.sum(), x, retain_graph=True)[0])

    def work(number: int) -> None:
        for _ in range(50):
            (g,) = grad((shared * float(number + 1)).sum(), x, retain_graph=True)
            np.testing.assert_allclose(host(g), expected * (number + 1))

    at_once(4, work)


def test_hooks_run_on_the_calling_thread() -> None:
    seen: dict[int, set[int]] = {i: set() for i in range(3)}

    def work(number: int) -> None:
        x = leaf()
        x.register_hook(lambda g: seen[number].add(threading.get_ident()))
        (x * x).sum().backward()
        seen[number].discard(threading.get_ident())

    at_once(3, work)
    assert not any(seen.values())


def test_an_error_in_one_does_not_reach_the_other() -> None:
    x = leaf()

    class Fails(Function):
        @staticmethod
        def forward(ctx: Any, x: Tensor) -> Tensor:
            return x * 1

        @staticmethod
        def backward(ctx: Any, g: Tensor) -> Tensor:
            raise ZeroDivisionError

    failed = []

    def work(number: int) -> None:
        for _ in range(50):
            if number:
                (x * 2).sum().backward()
            else:
                try:
                    Fails.apply(x).sum().backward()
                except ZeroDivisionError:
                    failed.append(gradlib.is_grad_enabled())

    at_once(3, work)
    assert failed == [True] * 50
    assert x.grad.tolist() == [200] * 3


def test_writes_to_tensors_of_their_own() -> None:
    x = leaf()

    def work(number: int) -> None:
        for _ in range(50):
            y = x * 1
            y[:2].mul_(float(number + 2))
            (g,) = grad(y.sum(), x)
            assert g.tolist() == [number + 2, number + 2, 1]

    at_once(4, work)


def test_the_accumulation_hook_may_run_backward() -> None:
    """It runs outside the lock that guards gradients."""
    x, other = leaf(), leaf()

    def hook(t: Tensor) -> None:
        with gradlib.enable_grad():
            (other * 2).sum().backward()

    x.register_post_accumulate_grad_hook(hook)

    def work(number: int) -> None:
        for _ in range(50):
            x.sum().backward()

    at_once(2, work)
    assert (x.grad.tolist(), other.grad.tolist()) == ([100] * 3, [200] * 3)


def test_hooks_and_views_made_by_all_at_once() -> None:
    for _ in range(50):
        calls: list[int] = []
        x = leaf()
        y = x * 1

        def work(number: int, x: Tensor = x, y: Tensor = y, calls: list[int] = calls) -> None:
            x.register_hook(lambda g: calls.append(number))
            y.grad_fn.register_prehook(lambda g: calls.append(number))
            y.detach().add_(1)

        at_once(4, work)
        assert y._version == 4
        y.sum().backward()
        assert sorted(calls) == [0, 0, 1, 1, 2, 2, 3, 3]


@pytest.mark.cuda
@pytest.mark.host
def test_threads_never_draw_the_same_numbers_of_one_generator() -> None:
    generator = gradlib.Generator("cuda")
    drawn: list[Any] = []
    at_once(4, lambda number: drawn.extend(gradlib.rand(8, generator=generator, device="cuda").tolist() for _ in range(3)))
    assert len({tuple(row) for row in drawn}) == 12
