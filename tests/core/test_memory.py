"""What stays alive: nothing saved after backward, no cycles, and during a forward pass only what the rules name."""

from __future__ import annotations

import contextlib
import gc
import tracemalloc
import weakref
from collections.abc import Callable, Iterator
from typing import Any, NamedTuple

import pytest

import gradlib
from gradlib import func
from gradlib.autograd import Function, forward_ad, functional, grad
from gradlib.backend.array import is_array
from gradlib.core.tensor import Tensor
from tests.values import leaf


@pytest.fixture
def no_collector() -> Iterator[None]:
    """Only reference counts free anything here, and a collection looks at nothing older than the test."""
    gc.disable()
    gc.freeze()
    yield
    gc.enable()


class Saves(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
        a, b = x * 2, x * 3
        ctx.save_for_backward(x, a, b)
        ctx.shape = x.shape
        ctx.saved_data["note"] = 1
        return a, b

    @staticmethod
    def backward(ctx: Any, g: Tensor, h: Tensor) -> Tensor:
        x, a, b = ctx.saved_tensors
        return g * a + h * b + 0 * x


class InPlace(Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor) -> Tensor:
        ctx.mark_dirty(x)
        x.mul_(2)
        ctx.save_for_backward(x)
        return x

    @staticmethod
    def backward(ctx: Any, g: Tensor) -> Tensor:
        return g * 2 + 0 * ctx.saved_tensors[0]


def _assigned(x: Tensor) -> Tensor:
    y = x * 1
    y[0] = x[1]
    y[1:].mul_(x[:2])
    return y.exp()


def _hooked(x: Tensor) -> Tensor:
    y = x * 2
    y.register_hook(lambda g: g * 2)
    y.grad_fn.register_hook(lambda inputs, outputs: None)
    return y.exp()


def _view_dirtied(x: Tensor) -> Tensor:
    y = x * 1
    InPlace.apply(y[:2])
    return y


GRAPHS: dict[str, Callable[[Tensor], Tensor]] = {
    "saved output": lambda x: x.exp().tanh(),
    "saved inputs": lambda x: x * x.sin(),
    "views": lambda x: x.view(3, 1).t()[0, 1:].exp(),
    "several outputs": lambda x: x.split([1, 2])[1].exp() + x.max(0)[0],
    "in place": lambda x: (x * 1).mul_(2).exp_(),
    "assignment": _assigned,
    "hooks": _hooked,
    "Function": lambda x: Saves.apply(x)[1].exp(),
    "Function in place": lambda x: InPlace.apply(x * 1),
    "Function in place on a view": _view_dirtied,
    "joined": lambda x: gradlib.cat([x, x.exp()]),
    "a gradient": lambda x: grad((x * x * x).sum(), x, create_graph=True)[0],
}


@pytest.mark.usefixtures("no_collector")
class TestCycles:
    @pytest.mark.parametrize("name", GRAPHS)
    @pytest.mark.parametrize("use", ["forward only", "backward", "retained", "recorded"])
    def test_reference_counts_free_a_graph(self, name: str, use: str) -> None:
        def run() -> list[Any]:
            x = leaf()
            y = GRAPHS[name](x)
            if use == "backward":
                y.sum().backward()
            elif use == "retained":
                y.sum().backward(retain_graph=True)
            elif use == "recorded":
                grad(y.sum(), x, create_graph=True)
            return [weakref.ref(x), weakref.ref(y), weakref.ref(y._array), weakref.ref(y._node)]

        run()  # kernels are compiled, which leaves something
        gc.collect()
        assert [ref() for ref in run()] == [None] * 4
        assert gc.collect() == 0

    def test_an_error_inside_leaves_none(self) -> None:
        class Fails(Function):
            @staticmethod
            def forward(ctx: Any, x: Tensor) -> Tensor:
                ctx.save_for_backward(x)
                return x * 1

            @staticmethod
            def backward(ctx: Any, g: Tensor) -> Tensor:
                raise ZeroDivisionError

        x = leaf()
        y = Fails.apply(x)
        watched = weakref.ref(y.grad_fn._node)
        with contextlib.suppress(ZeroDivisionError):
            y.sum().backward()
        del y
        assert watched() is None


def holds_arrays(saved: Any) -> bool:
    """Whether what a node saved holds a tensor or an array; numbers and shapes may stay."""
    return any(holds_arrays(s) for s in saved) if isinstance(saved, (tuple, list)) else isinstance(saved, Tensor) or is_array(saved)


class TestAfterBackward:
    @pytest.mark.parametrize("name", ["saved output", "saved inputs", "in place", "assignment", "joined"])
    def test_nothing_saved_stays(self, name: str) -> None:
        """While the result still lives, its graph holds no arrays but the leaf's and the result's own."""
        x = leaf()
        y = GRAPHS[name](x).sum()
        nodes, stack = set(), [y.grad_fn]
        while stack:
            node = stack.pop()
            if node is not None and node not in nodes:
                nodes.add(node)
                stack += [edge for edge, _ in node.next_functions]
        assert any(holds_arrays(node.saved) for node in nodes)
        y.backward()
        assert not any(holds_arrays(node.saved) for node in nodes)

    def test_intermediate_values_go_as_soon_as_nothing_needs_them(self) -> None:
        x = leaf()
        a = x * 2
        b = a.exp()
        kept, dropped = weakref.ref(b._array), weakref.ref(a._array)
        y = b.sin()
        del a, b
        assert dropped() is None  # exp saves its result, not its input
        assert kept() is not None
        y.sum().backward()
        assert kept() is None

    def test_of_a_function(self) -> None:
        x = leaf()
        a, b = Saves.apply(x)
        y = b.sum()
        kept = weakref.ref(a._array)
        del a, b
        assert kept() is not None
        y.backward()
        assert kept() is None

    def test_values_are_freed_while_backward_runs(self) -> None:
        alive: list[int] = []
        refs: list[Any] = []
        y = leaf()
        for _ in range(5):
            y = y.exp() * 0.1
            refs.append(weakref.ref(y.grad_fn.next_functions[0][0]._saved_result._array))
            y.register_hook(lambda g: alive.append(sum(r() is not None for r in refs)))
        y.sum().backward()
        assert alive == [5, 4, 3, 2, 1]


class Bytes(NamedTuple):
    """How many bytes more than at the beginning are in use, and at the most were at once."""

    now: int
    peak: int


@contextlib.contextmanager
def traced(x: Tensor) -> Iterator[Callable[[], Bytes]]:
    """What a program uses of the memory in which a tensor lies: Python's, or CuPy's pool, which grows when nothing in it is free."""
    if x.is_cuda:
        import cupy

        pool = cupy.get_default_memory_pool()
        gc.collect()
        pool.free_all_blocks()
        before = pool.used_bytes()
        yield lambda: Bytes(pool.used_bytes() - before, pool.total_bytes() - before)
    else:
        tracemalloc.start()
        try:
            yield lambda: Bytes(*tracemalloc.get_traced_memory())
        finally:
            tracemalloc.stop()


class TestPeak:
    """A chain of operations on large arrays holds what its rules save, and nothing more."""

    SIZE = 100_000
    LENGTH = 40

    def measure(self, step: Callable[[Tensor], Tensor]) -> tuple[float, float]:
        """Arrays held by the graph after forward, and at the peak of backward, in units of one array."""
        one = self.SIZE * 8
        x = gradlib.full((self.SIZE,), 0.5, dtype=gradlib.float64, requires_grad=True)
        with traced(x) as memory:
            y = x
            for _ in range(self.LENGTH):
                y = step(y)
            held = memory().now / one
            tracemalloc.reset_peak()
            y.backward(gradlib.ones_like(y))
            return held, memory().peak / one

    def test_linear_operations_save_nothing(self) -> None:
        held, peak = self.measure(lambda y: y * 0.5 + 1.0)
        assert held < 1.5  # the last value
        assert peak < 5.5

    def test_one_array_for_each_saved_value(self) -> None:
        held, peak = self.measure(lambda y: y.sin())
        assert self.LENGTH - 1.5 < held < self.LENGTH + 0.5
        assert peak < held + 4

    def test_views_cost_nothing(self) -> None:
        held, _ = self.measure(lambda y: y.view(10, -1).t().t().reshape(-1))
        assert held < 0.5

    def test_nothing_is_held_under_no_grad(self) -> None:
        with gradlib.no_grad():
            x = gradlib.full((self.SIZE,), 0.5, dtype=gradlib.float64, requires_grad=True)
            with traced(x) as memory:
                y = x
                for _ in range(self.LENGTH):
                    y = y.tanh()
                assert memory().peak / (self.SIZE * 8) < 2.5


class TestNoCycles:
    """What transforms, forward mode and saved-tensor hooks make is freed at once, without the garbage collector."""

    @pytest.mark.parametrize("f", [lambda x: (x**3).sum(), lambda x: x.exp().sum(), lambda x: x.tanh().prod()])
    @pytest.mark.parametrize(
        "call",
        [
            lambda f, x: func.hessian(f)(x), lambda f, x: func.jacfwd(func.grad(f))(x), lambda f, x: func.jacrev(func.grad(f))(x),
            lambda f, x: func.linearize(f, x)[1](x), lambda f, x: func.vmap(func.grad(f))(x.expand(2, 3)),
            lambda f, x: func.jvp(lambda x: func.jvp(f, (x,), (x,))[1], (x,), (x,)), lambda f, x: functional.hessian(f, x),
            lambda f, x: functional.jacobian(f, x, vectorize=True, strategy="forward-mode"),
        ],
    )  # fmt: skip
    def test_of_transforms(self, f: Any, call: Any) -> None:
        x = gradlib.tensor([1.0, 2.0, 3.0])
        assert left_by(lambda: call(f, x)) == 0

    def test_of_written_duals_in_a_graph(self) -> None:
        def run() -> None:
            with forward_ad.dual_level():
                p = gradlib.tensor([1.0, 2.0, 3.0], requires_grad=True)
                y = forward_ad.make_dual(p, gradlib.ones(3)).exp() * 1
                y[0] = y[1] * 3
                (g,) = gradlib.autograd.grad((y * y).sum(), p, create_graph=True)
                assert forward_ad.unpack_dual(g).tangent is not None

        assert left_by(run) == 0

    def test_of_saved_tensors_that_may_be_written(self) -> None:
        def run() -> None:
            with gradlib.autograd.graph.allow_mutation_on_saved_tensors():
                x = gradlib.ones(3, requires_grad=True)
                y = x.exp()
                z = (y * y).sum()
                y.mul_(2)
                z.backward()

        assert left_by(run) == 0


def left_by(run: Callable[[], Any]) -> int:
    """How many objects a call leaves to the garbage collector, once what it makes the first time is made."""
    run()
    gc.disable()
    gc.freeze()  # what is older than the second run is not looked at
    try:
        run()
        return gc.collect()
    finally:
        gc.enable()
