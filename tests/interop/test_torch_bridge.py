"""Functions of gradlib in torch, and of torch in gradlib. Skipped where PyTorch is not installed."""

from __future__ import annotations

import weakref
from typing import Any

import numpy as np
import pytest

import gradlib
from gradlib.interop import from_torch, torch_function
from gradlib.trajectory import step_acceleration

torch = pytest.importorskip("torch")
pytestmark = pytest.mark.host


@pytest.fixture(autouse=True)
def torch_seed() -> None:
    torch.manual_seed(0)


def double(*shape: int) -> torch.Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


# ---- gradlib in torch -----------------------------------------------------------------------------------------------------------------


def test_derivatives_of_three_orders_in_torch() -> None:
    product = torch_function(lambda x, y: (x.sin() * y).sum(-1))
    x, y = double(3, 4), double(4)

    def slope(x: torch.Tensor, y: torch.Tensor) -> torch.Tensor:
        return torch.autograd.grad(product(x, y).sum(), x, create_graph=True)[0]

    assert torch.autograd.gradcheck(product, (x, y))
    assert torch.autograd.gradgradcheck(product, (x, y))
    assert torch.autograd.gradgradcheck(slope, (x, y))


def test_complex_numbers_in_torch() -> None:
    z = torch.randn(3, dtype=torch.complex128, requires_grad=True)
    assert torch.autograd.gradcheck(torch_function(lambda z: z * z * (1 + 2j)), (z,))
    assert torch.autograd.gradcheck(torch_function(lambda z: z.abs()), (z,))
    assert torch_function(lambda z: z)(z.detach().conj()).tolist() == z.detach().conj().tolist()


def test_memory_is_shared_with_torch() -> None:
    seen = []
    x = torch.ones(3)
    y = torch_function(lambda x: seen.extend([x, x * 2]) or seen[1])(x)
    assert seen[0].data_ptr() == x.data_ptr()
    assert seen[1].data_ptr() == y.data_ptr()


@pytest.mark.parametrize("dtype", ["float16", "bfloat16", "float32", "float64", "complex64"])
def test_dtypes_are_kept(dtype: str) -> None:
    x = torch.ones(2, dtype=getattr(torch, dtype), requires_grad=True)
    y = torch_function(lambda x: x * 2)(x)
    y.sum().abs().backward()
    assert (y.dtype, x.grad.dtype) == (x.dtype, x.dtype)
    assert x.grad.tolist() == [2, 2]


def test_nests_and_what_is_no_tensor_pass_through() -> None:
    function = torch_function(lambda d, n, *, m: {"a": d["a"] * n, "b": [d["a"].argmax(), m]})
    y = double(4)
    result = function({"a": y}, 2, m="text")
    assert result["a"].requires_grad
    assert not result["b"][0].requires_grad
    assert result["b"][0].item() == y.argmax().item()
    assert result["b"][1] == "text"


def test_nothing_is_recorded_where_torch_records_nothing() -> None:
    inside = []
    function = torch_function(lambda x: inside.append(gradlib.is_grad_enabled()) or x.exp())
    x = double(2)
    with torch.no_grad():
        assert not function(x).requires_grad
    with torch.inference_mode():
        assert function(x).is_inference()
    assert not function(x.detach()).requires_grad
    assert inside == [False, False, False]
    assert function(x).requires_grad


def test_only_what_needs_a_gradient_gets_one() -> None:
    x, y = double(2), torch.ones(2, dtype=torch.float64)
    first, second = torch_function(lambda x, y: (x * y, y * 2))(x, y)
    assert (first.requires_grad, second.requires_grad) == (True, False)
    first.sum().backward()
    assert y.grad is None
    unused = double(2)
    assert torch.autograd.grad(torch_function(lambda x, u: x * 2)(x, unused).sum(), unused, allow_unused=True) == (None,)


def test_a_write_in_torch_to_what_gradlib_saved_is_refused_and_others_are_not() -> None:
    x = double(3)
    result = torch_function(lambda x: x.exp())(x)  # whose derivative is its result
    result.add_(1)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()
    result = torch_function(lambda x: x * 2)(x)
    result.add_(1)
    result.sum().backward()
    assert x.grad.tolist() == [2, 2, 2]
    scale = torch.ones(3, dtype=torch.float64)
    result = torch_function(lambda x, s: x * s)(x, scale)
    scale.mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        result.sum().backward()


def test_a_write_in_gradlib_is_counted_in_torch() -> None:
    x = torch.zeros(2)
    torch_function(lambda x: x.add_(1).sum())(x)
    assert x.tolist() == [1, 1]
    assert x._version == 1


def test_a_second_backward_needs_the_graph() -> None:
    x = double(2)
    result = torch_function(lambda x: x.exp().sum())(x)
    result.backward(retain_graph=True)
    result.backward()
    with pytest.raises(RuntimeError, match="second time"):
        result.backward()


def test_views_of_arguments_and_read_only_results_are_copied() -> None:
    x = double(3)
    for function in (lambda x: x, lambda x: x[:2], lambda x: x.detach()):
        result = torch_function(function)(x)
        assert result.data_ptr() != x.data_ptr()
        assert result.tolist() == x[: len(result)].tolist()
    constant = np.ones(2)
    constant.flags.writeable = False
    torch_function(lambda: gradlib.from_numpy(constant))().fill_(0)
    assert constant.tolist() == [1, 1]


def test_errors_of_the_function_come_through() -> None:
    def function(x: gradlib.Tensor) -> gradlib.Tensor:
        raise ZeroDivisionError("mine")

    with pytest.raises(ZeroDivisionError, match="mine"):
        torch_function(function)(double(2))


def test_a_trajectory_inside_a_torch_model() -> None:
    step = torch_function(lambda u: step_acceleration(u, (), 0.1).position)
    u = double(2, 5, 3)
    assert torch.autograd.gradcheck(step, (u,))
    layer = torch.nn.Linear(3, 3).double()
    step(layer(u)).square().sum().backward()
    assert layer.weight.grad.shape == (3, 3)
    assert layer.weight.grad.abs().sum() > 0


# ---- torch in gradlib -----------------------------------------------------------------------------------------------------------------


def tensor(*shape: int) -> gradlib.Tensor:
    return gradlib.randn(*shape, dtype=gradlib.float64).requires_grad_()


def test_a_loss_with_a_penalty_on_its_gradient() -> None:
    f = lambda x: (x.exp() * x).sin()  # noqa: E731
    slopes = []
    for library, function in ((torch, f), (torch, torch_function(f)), (gradlib, from_torch(f))):
        x = library.linspace(0.1, 1, 4, dtype=library.float64).requires_grad_()
        y = function(x)
        (slope,) = library.autograd.grad(y.sum(), x, create_graph=True)
        ((slope**2).sum() + (y**2).sum()).backward()
        slopes.append(x.grad.tolist())
    np.testing.assert_allclose(slopes[1:], [slopes[0]] * 2, rtol=1e-12)


def test_backward_frees_torchs_graph_unless_it_is_to_be_kept() -> None:
    kept = []

    class Square(torch.autograd.Function):
        @staticmethod
        def forward(ctx: Any, x: torch.Tensor) -> torch.Tensor:
            saved = x.clone()
            kept.append(weakref.ref(saved))
            ctx.save_for_backward(saved)
            return x * x

        @staticmethod
        def backward(ctx: Any, g: torch.Tensor) -> torch.Tensor:
            return 2 * g * ctx.saved_tensors[0]

    x = gradlib.ones(3, requires_grad=True)
    result = from_torch(Square.apply)(x)
    result.sum().backward(retain_graph=True)
    result.sum().backward()
    assert x.grad is not None
    assert x.grad.tolist() == [4, 4, 4]
    assert kept[0]() is None
    with pytest.raises(RuntimeError, match="second time"):
        result.sum().backward()


def test_derivatives_of_both_orders_in_gradlib() -> None:
    operation = from_torch(lambda x, y: (x.sin() * y).sum(-1))
    x, y = tensor(3, 4), tensor(4)
    assert gradlib.autograd.gradcheck(operation, (x, y))
    assert gradlib.autograd.gradgradcheck(operation, (x, y))
    z = gradlib.tensor([1 + 2j, 3 - 1j], dtype=gradlib.complex128, requires_grad=True)
    assert gradlib.autograd.gradcheck(from_torch(lambda z: z * z * (1 + 2j)), (z,))


def test_under_gradlibs_transforms() -> None:
    found = gradlib.func.grad(lambda v: from_torch(torch.sin)(v).sum())(gradlib.zeros(3))
    assert found.tolist() == [1, 1, 1]


def test_a_module_of_torch_is_trained_by_an_optimiser_of_gradlib() -> None:
    module = torch.nn.Sequential(torch.nn.Linear(4, 5), torch.nn.Tanh(), torch.nn.Linear(5, 1)).double()
    operation = from_torch(module)
    assert [p.data_ptr() for p in operation.parameters()] == [p.data_ptr() for p in module.parameters()]
    assert [a is b for a, b in zip(operation.parameters(), operation.parameters(), strict=True)] == [True] * 4
    x = tensor(8, 4)
    assert gradlib.autograd.gradcheck(operation, (x,))
    theirs = module(torch.from_dlpack(x.detach())).square().sum()
    theirs.backward()
    loss = operation(x).square().sum()
    loss.backward()
    for ours, parameter in zip(operation.parameters(), module.parameters(), strict=True):
        np.testing.assert_allclose(ours.grad.numpy(), parameter.grad.numpy(), rtol=1e-12)
    gradlib.optim.SGD(operation.parameters(), lr=0.01).step()
    after = module(torch.from_dlpack(x.detach())).square().sum()
    assert after < theirs


def test_parameters_that_want_no_gradient_are_constants() -> None:
    module = torch.nn.Linear(2, 1)
    module.bias.requires_grad_(False)
    operation = from_torch(module)
    assert len(operation.parameters()) == 1
    operation(gradlib.ones(1, 2)).sum().backward()
    assert operation.parameters()[0].grad.tolist() == [[1, 1]]
    module.weight = torch.nn.Parameter(torch.zeros(1, 2))
    assert operation.parameters()[0].data_ptr() == module.weight.data_ptr()


def test_a_write_in_gradlib_to_what_torch_saved_is_refused() -> None:
    module = torch.nn.Linear(2, 2)
    operation = from_torch(torch.nn.Sequential(module, torch.nn.Tanh(), torch.nn.Linear(2, 1)))
    loss = operation(gradlib.ones(1, 2)).sum()
    with gradlib.no_grad():
        operation.parameters()[2].mul_(2)
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        loss.backward()


def test_round_trip() -> None:
    there_and_back = torch_function(from_torch(torch.sin))
    x = double(3)
    assert torch.autograd.gradcheck(there_and_back, (x,))
    assert torch.autograd.gradgradcheck(there_and_back, (x,))


# ---- forward mode ---------------------------------------------------------------------------------------------------------------------


def several(x: Any, y: Any) -> Any:
    return (x.sin() * y).sum(-1), x.exp(), y * 2


@pytest.mark.filterwarnings("ignore:.torch.jit.script. is deprecated:DeprecationWarning")  # torch's own, on entering a level
def test_forward_mode_passes_in_both_directions() -> None:
    x, y, t = (torch.randn(2, 3, dtype=torch.float64) for _ in range(3))
    _, (total, grown, alone) = torch.func.jvp(lambda x: several(x, y), (x,), (t,))
    with torch.autograd.forward_ad.dual_level():
        made = torch_function(several)(torch.autograd.forward_ad.make_dual(x, t), y)
        tangents = [torch.autograd.forward_ad.unpack_dual(each).tangent for each in made]
    assert tangents[2] is None
    torch.testing.assert_close(tangents[:2], [total, grown])
    ours = [gradlib.from_dlpack(each) for each in (x, y, t)]
    _, found = gradlib.func.jvp(lambda x: from_torch(several)(x, ours[1]), (ours[0],), (ours[2],))
    np.testing.assert_allclose([f.numpy().sum() for f in found], [total.sum(), grown.sum(), alone.sum()])
    turning = from_torch(lambda z: z * z * (1 + 2j))
    z, dz = gradlib.tensor([1 + 2j, 3.0]), gradlib.tensor([1j, 2.0 + 0j])
    np.testing.assert_allclose(gradlib.func.jvp(turning, (z,), (dz,))[1].numpy(), (2 * z * dz * (1 + 2j)).numpy())


def test_derivatives_that_forward_mode_would_lose_are_refused() -> None:
    sine, x = from_torch(lambda x: x.sin().sum()), gradlib.ones(2)
    slope = lambda x: gradlib.func.jvp(sine, (x,), (gradlib.ones(2),))[1]  # noqa: E731
    for lost in (lambda: gradlib.func.jvp(slope, (x,), (x,)), lambda: gradlib.func.grad(slope)(x), lambda: gradlib.func.hessian(sine)(x)):
        with pytest.raises(RuntimeError, match="Forward mode passes from one library to the other once"):
            lost()
    with pytest.raises(RuntimeError, match=r"torch\.func's grad, jvp and vmap"):
        torch.func.grad(torch_function(lambda x: x.sum()))(torch.ones(2))


def test_what_is_no_function_is_refused() -> None:
    with pytest.raises(TypeError, match="torch_function takes a function of gradlib tensors, got int"):
        torch_function(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match="from_torch takes a function of torch tensors or a module, got int"):
        from_torch(3)  # type: ignore[arg-type]
    with pytest.raises(TypeError, match=r"must be Tensor, not torch.Tensor; gradlib.from_dlpack takes those of other libraries"):
        gradlib.sin(torch.ones(2))


def test_the_state_of_torchs_optimiser_is_loaded() -> None:
    def stepped(library: Any, p: Any, state: Any) -> Any:
        optimiser = library.optim.Adam([p], lr=0.1)
        if state is not None:
            optimiser.load_state_dict(state)
        p.square().sum().backward()
        optimiser.step()
        return optimiser.state_dict()

    theirs = torch.tensor([1.0, -2.0], requires_grad=True)
    state = stepped(torch, theirs, None)
    ours = gradlib.from_dlpack(theirs.detach()).clone().requires_grad_()
    theirs.grad = None
    stepped(gradlib, ours, state)
    stepped(torch, theirs, state)  # after ours: it writes into the state that it loads
    np.testing.assert_allclose(ours.detach().numpy(), theirs.detach().numpy(), rtol=1e-6)
