"""Several devices: a graph on one that is not current, graphs that cross from the host or cuda:0 to cuda:1, and what is refused."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.autograd import Function, forward_ad, grad, gradcheck, gradgradcheck, graph
from gradlib.autograd.profiler import profile
from gradlib.core.tensor import Tensor
from tests.device import cupy, two_devices
from tests.values import host, leaf

AWAY = "cuda:1"
pytestmark = [pytest.mark.cuda, two_devices]


@pytest.fixture(autouse=True)
def first_device_stays_current() -> Iterator[None]:
    """Nothing that gradlib does leaves another device current than the caller's."""
    assert cupy.cuda.Device().id == 0
    yield
    assert cupy.cuda.Device().id == 0


def _assigned(x: Tensor) -> Tensor:
    y = x * 1
    y[0] = x[1]
    y[1:].mul_(x[:2])
    return y.exp_()


PROGRAMS: dict[str, Callable[[Tensor], Tensor]] = {
    "broadcast": lambda x: (x * x.view(3, 1) + 1).sin(),
    "fan": lambda x: x + x.sin() + x * x + x.exp(),
    "several outputs": lambda x: x.split([1, 2])[1].exp() + x.max(0)[0],
    "in place": _assigned,
    "dtypes": lambda x: x.float() * x + x.to(gradlib.complex128).abs(),
    "product": lambda x: x.view(3, 1) @ x.view(1, 3),
    "indices": lambda x: x[[2, 0, 0]].cumsum(0).flip(0).exp(),
    "joined": lambda x: gradlib.cat([x, x.exp()]).view(2, 3).t(),
}


class TestNotCurrent:
    """Everything on cuda:1 while cuda:0 is the current device."""

    @pytest.mark.parametrize("name", PROGRAMS)
    def test_both_passes(self, name: str) -> None:
        there, here = leaf(device=AWAY), leaf()
        for x in (there, here):
            for _ in range(3):
                PROGRAMS[name](x).sum().backward()
        assert str(there.grad.device) == AWAY
        np.testing.assert_allclose(host(there.grad), host(here.grad))

    @pytest.mark.parametrize("name", PROGRAMS)
    def test_second_order_and_forward_mode(self, name: str) -> None:
        found = []
        for x in (leaf(device=AWAY), leaf()):
            (g,) = grad(PROGRAMS[name](x).sum(), x, create_graph=True)
            (second,) = grad((g * g).sum(), x)
            with forward_ad.dual_level():
                moved = PROGRAMS[name](forward_ad.make_dual(x.detach(), gradlib.ones_like(x)))
                found.append([host(second), host(forward_ad.unpack_dual(moved).tangent)])
            assert second.device == x.device
        for a, b in zip(*found, strict=True):
            np.testing.assert_allclose(a, b)

    def test_what_is_made_along_the_way(self) -> None:
        x, unused = leaf(device=AWAY), leaf(device=AWAY)
        y, z = x * 2, x * 2
        y.retain_grad()
        for _ in range(2):
            (y * y + z * z).sum().backward(inputs=[z, x], retain_graph=True)
        assert ([t.grad.tolist() for t in (y, z)], str(y.grad.device), str(z.grad.device)) == ([[8, 16, 24]] * 2, AWAY, AWAY)
        (zeros,) = grad(x.sum(), unused, materialize_grads=True)
        assert (zeros.tolist(), str(zeros.device)) == ([0, 0, 0], AWAY)
        x.grad = None
        x.view(3, 1).t().backward(gradlib.ones(1, 3, dtype=gradlib.float64, device=AWAY))
        assert str(x.grad.device) == AWAY

    def test_rows_that_run_backward(self) -> None:
        x = gradlib.ones(2, 3, device=AWAY, requires_grad=True)
        found = gradlib.func.vmap(lambda row: grad((row * row).sum(), row)[0])(x)
        assert (found.tolist(), str(found.device)) == ([[2, 2, 2]] * 2, AWAY)

    def test_derivatives_that_are_compared(self) -> None:
        x = leaf(device=AWAY)
        for fast in (False, True):
            assert gradcheck(gradlib.sin, x, fast_mode=fast, check_forward_ad=True)
            assert gradgradcheck(gradlib.sin, x, fast_mode=fast, gen_non_contig_grad_outputs=True)
        for jacobian in (gradlib.func.jacrev, gradlib.func.jacfwd):
            np.testing.assert_allclose(host(jacobian(gradlib.sin)(x.detach())), np.diag(np.cos(host(x))))

    def test_writes_in_place_stay_on_their_device(self) -> None:
        x = gradlib.ones(2, 3, device=AWAY)
        x.add_(1).mul_(x)
        x[0].zero_()
        x[:, 1] = 7.0
        x[x == 7.0] = 8.0
        home = gradlib.ones(3)
        x.copy_(x.to(home.device) + home)
        gradlib.mul(x, 2.0, out=x)
        assert (x.tolist(), str(x.device)) == ([[2, 18, 2], [10, 18, 10]], AWAY)

    def test_values_are_read_from_their_device(self) -> None:
        x = gradlib.arange(6, device=AWAY).view(2, 3)
        assert 4 in x
        assert gradlib.tensor(5) in x
        assert bool((x[0, :1] == 0).all())
        assert (x[1, 2].item(), int(x[1, 1]), x.t().tolist()) == (5, 4, [[0, 3], [1, 4], [2, 5]])
        assert "device='cuda:1'" in repr(x)

    def test_raw_arrays(self) -> None:
        far = leaf(device=AWAY)._array
        for made in (gradlib.exp(far), gradlib.mul(far, far), gradlib.cumsum(far, 0), gradlib.cat([far, far])):
            assert made.device.id == 1

    def test_a_function_runs_where_its_arguments_lie(self) -> None:
        places = []

        class Halves(Function):
            @staticmethod
            def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
                return x * 0.5, x * 0.5

            @staticmethod
            def backward(ctx: Any, g: Tensor, h: Tensor) -> Tensor:
                places.append(cupy.cuda.Device().id)
                return g * 0.5 + h * 0.5

        x = leaf(device=AWAY)
        first, _ = Halves.apply(x)
        first.sum().backward()
        assert places == [1]
        assert x.grad.tolist() == [0.5] * 3
        grad(Halves.apply(x)[1].sum(), x, create_graph=True)
        assert places == [1, 1]

    def test_saved_elsewhere(self) -> None:
        for pin_memory in (False, True):
            x = leaf(device=AWAY)
            with graph.save_on_cpu(pin_memory):
                y = (x * x).exp()
            assert str(y.grad_fn._saved_out.device) == AWAY
            y.sum().backward()
            np.testing.assert_allclose(host(x.grad), 2 * host(x) * np.exp(host(x) ** 2))


class TestCrossing:
    def test_there_and_back(self) -> None:
        x = leaf()
        far = (x * x).to(AWAY)
        y = (far * far).to(x.device) + x
        y.sum().backward()
        assert x.grad.tolist() == [5, 33, 109]
        assert x.grad.device == x.device

    def test_branches_on_both_that_meet(self) -> None:
        """Sums of gradients arise on each device while nodes of the other wait."""
        x, w = leaf(), leaf(4.0, 5.0, 6.0, device=AWAY)
        h = x * 2
        far = h.to(AWAY)
        there = far * w + far.exp() * w + far
        back = there.to(x.device)
        ((back + h) * h + h.exp() + back).sum().backward()
        a, b = host(x).astype(float), host(w)
        z = 2 * a
        t, dt = z * b + np.exp(z) * b + z, b + np.exp(z) * b + 1
        np.testing.assert_allclose(host(x.grad), 2 * ((dt + 1) * z + (t + z) + np.exp(z) + dt))
        np.testing.assert_allclose(host(w.grad), (z + 1) * (z + np.exp(z)))
        assert (x.grad.device, w.grad.device) == (x.device, w.device)

    def test_roots_and_results_on_both(self) -> None:
        x = leaf()
        near, far = x * x, x.to(AWAY).exp()
        gradlib.autograd.backward([near, far, near, far], [gradlib.ones_like(y) for y in (near, far, near, far)])
        np.testing.assert_allclose(host(x.grad), 4 * host(x) + 2 * np.exp(host(x)))
        y = leaf(device=AWAY)
        g, h = grad((x.to(AWAY) * y).sum(), [x, y])
        assert (g.device, h.device) == (x.device, y.device)

    def test_higher_order(self) -> None:
        x = leaf()
        y = (x.to(AWAY) ** 3).to(x.device) * x
        (g,) = grad(y.sum(), x, create_graph=True)
        (second,) = grad(g.sum(), x)
        assert second.tolist() == [12, 48, 108]

    def test_forward_mode(self) -> None:
        x = leaf().detach()
        with forward_ad.dual_level():
            y = forward_ad.make_dual(x, gradlib.ones_like(x)).to(AWAY)
            tangent = forward_ad.unpack_dual((y * y).to(x.device)).tangent
        assert (tangent.tolist(), tangent.device) == ([2, 4, 6], x.device)

    def test_hooks_see_the_gradient_where_it_is(self) -> None:
        seen: list[str] = []
        x = leaf()
        far = x.to(AWAY)
        far.register_hook(lambda g: seen.append(str(g.device)))
        x.register_hook(lambda g: g * 2)
        y = far * far
        y.grad_fn.register_hook(lambda inputs, outputs: seen.append(str(inputs[0].device)))
        y.sum().backward()
        assert seen == [AWAY, AWAY]
        assert (x.grad.tolist(), x.grad.device) == ([4, 8, 12], x.device)

    def test_a_hook_must_not_move_the_gradient(self) -> None:
        x = leaf()
        x.register_hook(lambda g: g.to(AWAY))
        with pytest.raises(RuntimeError, match="a hook of AccumulateGrad moved the gradient to cuda:1; it belongs on c"):
            (x * 2).sum().backward()

    def test_an_error_on_the_way(self) -> None:
        x = leaf()
        far = x.to(AWAY)
        y = far * far
        far.add_(1)
        with pytest.raises(RuntimeError, match="modified by an inplace operation"):
            y.sum().to(x.device).backward()

    def test_an_edge_between_devices(self) -> None:
        x = leaf()
        y = x.to(AWAY) * 2
        z = y * y
        edge = graph.get_gradient_edge(y)
        (g,) = grad(z.sum(), edge, retain_graph=True)
        assert (g.tolist(), str(g.device)) == ([4, 8, 12], AWAY)
        (g,) = grad(graph.get_gradient_edge(z), x, gradlib.ones_like(z))
        assert (g.tolist(), g.device) == ([8, 16, 24], x.device)

    def test_an_edge_above_a_function_that_computes_elsewhere(self) -> None:
        class Both(Function):
            @staticmethod
            def forward(ctx: Any, x: Tensor) -> tuple[Tensor, Tensor]:
                return x * 3, x.to(AWAY) * 2

            @staticmethod
            def backward(ctx: Any, near: Tensor, far: Tensor) -> Tensor:
                return near * 3 + far.to(near.device) * 2

        x = leaf()
        near, far = Both.apply(x)
        for y, factor in ((near, 3), (far, 2)):
            z = y * y
            g, h = grad(graph.get_gradient_edge(z), [x, graph.get_gradient_edge(y)], gradlib.ones_like(z), retain_graph=True)
            assert (g.tolist(), g.device) == ([2 * factor * factor * v for v in (1, 2, 3)], x.device)
            assert (h.tolist(), h.device) == ([2 * factor * v for v in (1, 2, 3)], y.device)
        (g,) = grad(far.sum(), x)
        assert g.tolist() == [2, 2, 2]


class TestOneNumberFromTheHost:
    """A 0-d tensor on the host may meet tensors on a device; its gradient comes back to it."""

    @pytest.fixture
    def scale(self) -> Tensor:
        return gradlib.tensor(2.0, dtype=gradlib.float64, device="cpu", requires_grad=True)

    def test_its_gradient_comes_home(self, scale: Tensor) -> None:
        x = leaf(device=AWAY)
        for y in (x * scale, scale * x, (x[0] * scale).expand(3) + (x * scale)[1:].sum() * 0):
            assert str(y.device) == AWAY
            scale.grad = x.grad = None
            y.sum().backward()
            y = None
            assert (scale.grad.shape, scale.grad.device) == ((), scale.device)
        assert scale.grad.item() == 3

    def test_higher_order_and_forward_mode(self, scale: Tensor) -> None:
        x = leaf(device=AWAY)
        (g,) = grad((x * scale * scale).sum(), scale, create_graph=True)
        g.backward()
        assert (g.item(), scale.grad.item(), x.grad.tolist()) == (24, 12, [4, 4, 4])
        with forward_ad.dual_level():
            moved = forward_ad.make_dual(scale.detach(), gradlib.ones_like(scale.detach()))
            for y in (x.detach() * moved, moved * x.detach(), gradlib.atan2(x.detach() * 0 + 1, moved) * -5 + 0 * x.detach()):
                tangent = forward_ad.unpack_dual(y).tangent
                assert str(tangent.device) == AWAY
        np.testing.assert_allclose(host(tangent), [1, 1, 1])

    def test_number_from_the_host_is_observed_by_the_profiler(self, scale: Tensor) -> None:
        x = leaf(device=AWAY)
        with profile() as found:
            (x * scale).sum().backward()
        assert scale.grad.item() == 6
        assert {"mul", "sum"} <= {event.name for event in found.function_events}

    def test_written_into(self, scale: Tensor) -> None:
        y = leaf(device=AWAY) * 1
        y.mul_(scale)
        y[0] = scale
        y.sum().backward()
        assert scale.grad.item() == 6


class TestRefused:
    def test_a_mixture(self) -> None:
        x, y = gradlib.ones(3), gradlib.ones(3, device=AWAY)
        for call in (lambda: x * y, lambda: y * x, lambda: x.mul_(y), lambda: y.add_(x), lambda: gradlib.cat([x, y])):
            with pytest.raises(RuntimeError, match=r"expected all tensors to be on the same device.*cuda:1"):
                call()
        number = gradlib.tensor(1.0, device=AWAY)
        with pytest.raises(RuntimeError, match="expected all tensors to be on the same device"):
            x * number
        with pytest.raises(RuntimeError, match="expected all tensors to be on the same device"):
            gradlib.tensor(1.0, device="cpu").mul_(number)
        with pytest.raises(RuntimeError, match=r"out= is on c.*, the result on cuda:1"):
            gradlib.mul(y, 2.0, out=x)

    def test_gradients_from_elsewhere(self) -> None:
        x = leaf()
        with pytest.raises(RuntimeError, match="on another device"):
            (x * 2).backward(gradlib.ones(3, dtype=gradlib.float64, device=AWAY))
        with pytest.raises(RuntimeError, match=r"assigned grad has .* on cuda:1"):
            x.grad = gradlib.ones(3, dtype=gradlib.float64, device=AWAY)

        class Wanders(Function):
            @staticmethod
            def forward(ctx: Any, x: Tensor) -> Tensor:
                return x * 1

            @staticmethod
            def backward(ctx: Any, g: Tensor) -> Tensor:
                return g.to(AWAY)

        with pytest.raises(RuntimeError, match=r"expected device c.* but got cuda:1"):
            Wanders.apply(x).sum().backward()
