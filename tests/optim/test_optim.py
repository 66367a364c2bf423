"""Optimisers against the figures of torch.optim, and the parts that they share."""

from __future__ import annotations

import copy
import pickle
import warnings

import numpy as np
import pytest

import gradlib
from gradlib import optim
from tests.device import two_devices
from tests.values import host

# Rosenbrock's function from (-1.2, 1) in float64, as torch 2.13's optimisers walk it:
# (optimiser, options, steps, x after them, loss that the last step returned, closure calls in all)
TORCH = [
    ("SGD", {"lr": 0.001}, 50, [-0.9895983514013361, 0.9873117915605708], 3.9681315686809895, 50),
    ("SGD", {"lr": 0.0001, "momentum": 0.9}, 50, [-0.9591420501984881, 0.9570616783258719], 4.004267214605092, 50),
    (
        "SGD", {"lr": 0.0001, "momentum": 0.9, "dampening": 0.2, "weight_decay": 0.1}, 50,
        [-0.9767560263831366, 0.9723140292932788], 3.9337259694851126, 50,
    ),
    ("SGD", {"lr": 0.0001, "momentum": 0.8, "nesterov": True}, 50, [-1.0106895434699719, 1.029585724885418], 4.051010274520729, 50),
    ("SGD", {"lr": 1e-06, "maximize": True}, 50, [-1.2111961439034982, 0.9954476167919737], 27.062204497165027, 50),
    ("Adam", {}, 50, [-1.1528586865826136, 1.047327405999705], 12.736479936520738, 50),
    ("Adam", {"lr": 0.05, "betas": (0.8, 0.99), "eps": 0.001}, 50, [-0.9963134063313932, 0.9975001738122619], 3.995374484435201, 50),
    ("Adam", {"lr": 0.05, "weight_decay": 0.3}, 50, [-0.9867045097592627, 0.9785985822499181], 3.9623094450946255, 50),
    ("Adam", {"lr": 0.05, "amsgrad": True, "betas": (0.5, 0.6)}, 50, [-1.0379224285249244, 1.0835415364237946], 4.159252436976601, 50),
    (
        "Adam", {"lr": 0.05, "weight_decay": 0.3, "decoupled_weight_decay": True}, 50,
        [-0.5447802097489409, 0.3194573380004127], 2.4594103996679415, 50,
    ),
    ("Adam", {"lr": 0.01, "maximize": True}, 50, [-1.7966960076214715, 0.4143586510773756], 763.1060957936669, 50),
    ("AdamW", {}, 50, [-1.1522897838138504, 1.0467991774727707], 12.690239143162017, 50),
    ("AdamW", {"lr": 0.05, "weight_decay": 0.3, "amsgrad": True}, 50, [-0.5448824808620693, 0.3195347471707776], 2.4595034383856342, 50),
    ("AdamW", {"lr": 0.05, "maximize": True}, 50, [-4.24498395868763, -2.049732551237245], 37477.972250984705, 50),
    ("RMSprop", {}, 50, [-1.0280226043085812, 1.0630854095511284], 4.120236910467151, 50),
    ("RMSprop", {"lr": 0.02, "alpha": 0.8, "momentum": 0.5}, 50, [-0.8162020721438329, 0.659267539661205], 3.3281520803105082, 50),
    (
        "RMSprop", {"lr": 0.02, "alpha": 0.8, "centered": True, "weight_decay": 0.1}, 50,
        [-0.9152855042627851, 0.810852117014903], 3.8527811477144076, 50,
    ),
    (
        "RMSprop", {"lr": 0.02, "momentum": 0.3, "centered": True, "maximize": True}, 50,
        [-8.445314795796593, -5.579359306476762], 564033.0789974432, 50,
    ),
    ("Adagrad", {"lr": 0.3}, 50, [-0.9815109734715711, 0.9698985770723695], 3.9365528389436646, 50),
    (
        "Adagrad", {"lr": 0.3, "lr_decay": 0.1, "initial_accumulator_value": 2.0, "weight_decay": 0.1}, 50,
        [-1.0268768009715128, 1.0610618154202103], 4.113644907843153, 50,
    ),
    ("Adagrad", {"maximize": True}, 50, [-1.348618653444167, 0.853802133256105], 97.34040929074158, 50),
    ("Adadelta", {}, 50, [-1.0928550025168093, 1.1089500515456634], 5.179941537423659, 50),
    (
        "Adadelta", {"lr": 0.5, "rho": 0.5, "eps": 0.001, "weight_decay": 0.2}, 50,
        [-0.9308118030948392, 1.0047454059009566], 5.438936274837957, 50,
    ),
    ("Adadelta", {"maximize": True}, 50, [-1.5600581369068445, 0.671703701615587], 297.89923417009817, 50),
    ("Adamax", {}, 50, [-1.1239393686095926, 1.0773007751095969], 8.100478076532609, 50),
    (
        "Adamax", {"lr": 0.05, "betas": (0.5, 0.8), "weight_decay": 0.2, "eps": 0.001}, 50,
        [-0.6736403794125171, 0.46654407887652244], 2.878285754030461, 50,
    ),
    ("Adamax", {"maximize": True}, 50, [-1.2928849986329694, 0.9064195855124692], 62.78897085089969, 50),
    ("NAdam", {}, 50, [-1.122393164398041, 1.07834045780289], 7.952969794183744, 50),
    (
        "NAdam", {"lr": 0.05, "betas": (0.5, 0.8), "weight_decay": 0.2, "momentum_decay": 0.1}, 50,
        [-0.9010464349023061, 0.7732550923320209], 3.826897121604825, 50,
    ),
    (
        "NAdam", {"lr": 0.05, "weight_decay": 0.2, "decoupled_weight_decay": True, "maximize": True}, 50,
        [-3.9073027228869104, -2.3118881940014813], 29127.117857855035, 50,
    ),
    ("RAdam", {}, 50, [-0.959109814202204, 1.0608533098755586], 5.834701459756722, 50),
    (
        "RAdam", {"lr": 0.002, "betas": (0.5, 0.8), "weight_decay": 0.2}, 50,
        [-0.949594580294502, 0.9104394893102177], 3.8122501804283684, 50,
    ),
    (
        "RAdam", {"lr": 0.002, "weight_decay": 0.2, "decoupled_weight_decay": True, "maximize": True}, 50,
        [-20954570.006836858, -21954.250971810005], 1.9311233891115632e+31, 50,
    ),
    ("Rprop", {}, 50, [-0.9635771595748897, 0.933455440146196], 3.8667402166401255, 50),
    (
        "Rprop", {"lr": 0.001, "etas": (0.3, 1.5), "step_sizes": (0.0001, 0.1)}, 50,
        [-1.0200763013518974, 1.0529532625579425], 4.107808044804267, 50,
    ),
    ("Rprop", {"maximize": True}, 50, [-414.4728631366359, -412.27286313663586], 1774297149930.3577, 50),
    ("ASGD", {"lr": 0.0001}, 50, [-1.0295158146053396, 1.0665401586185714], 4.123698709498548, 50),
    (
        "ASGD", {"lr": 0.0001, "lambd": 0.1, "alpha": 0.5, "t0": 5, "weight_decay": 0.1}, 50,
        [-1.0288262469134315, 1.0653174454892056], 4.121209025495287, 50,
    ),
    ("ASGD", {"lr": 1e-06, "maximize": True}, 50, [-1.211196137703329, 0.9954476118628663], 27.06220354248713, 50),
    ("LBFGS", {"line_search_fn": "strong_wolfe"}, 1, [0.38062264334648777, 0.12491013187293636], 24.199999999999996, 25),
    (
        "LBFGS", {"line_search_fn": "strong_wolfe", "max_iter": 4, "history_size": 2}, 5,
        [0.03203929524385031, -0.0025686396725258034], 1.595630705764671, 25,
    ),
    ("LBFGS", {"lr": 0.002, "max_iter": 6}, 3, [-1.1942800250687213, 1.0039296236910078], 23.070625820108113, 18),
    (
        "LBFGS", {"lr": 0.001, "history_size": 3, "max_iter": 5, "max_eval": 4}, 2,
        [-1.1986028061487184, 1.0006553603217803], 23.950312137074206, 8,
    ),
    (
        "LBFGS", {"lr": 1e-5, "max_iter": 4, "line_search_fn": "strong_wolfe"}, 2,
        [-1.1208360338970624, 1.0326372109383015], 10.565633722077013, 12,
    ),
    (
        "LBFGS", {"lr": 1e-6, "max_eval": 3, "line_search_fn": "strong_wolfe"}, 3,
        [-1.1999454296181153, 1.0000232304600287], 24.18818308870103, 12,
    ),
]  # fmt: skip
EACH = [
    ("SGD", {"lr": 1e-4, "momentum": 0.9}),
    ("Adam", {"lr": 0.02, "amsgrad": True}),
    ("AdamW", {"lr": 0.02}),
    ("Adamax", {"lr": 0.02}),
    ("NAdam", {"lr": 0.02}),
    ("RAdam", {"lr": 1e-4}),
    ("RMSprop", {"lr": 0.02, "momentum": 0.5, "centered": True}),
    ("Adagrad", {"lr": 0.2}),
    ("Adadelta", {"eps": 1e-3}),
    ("Rprop", {"lr": 1e-3}),
    ("ASGD", {"lr": 1e-4, "t0": 2}),
    ("LBFGS", {"max_iter": 3, "line_search_fn": "strong_wolfe"}),
]


def rosenbrock(x):
    return (1 - x[0]) ** 2 + 100 * (x[1] - x[0] ** 2) ** 2


def leaf(values, dtype="float64", device=None):
    return gradlib.tensor(values, dtype=getattr(gradlib, dtype), device=device).requires_grad_()


def closure_of(optimiser, x, loss_of=rosenbrock, calls=None):
    def closure():
        if calls is not None:
            calls.append(1)
        optimiser.zero_grad()
        loss = loss_of(x)
        loss.backward()
        return loss

    return closure


@pytest.mark.parametrize(("name", "options", "steps", "x", "loss", "evaluations"), TORCH)
def test_walks_as_torch(name, options, steps, x, loss, evaluations):
    value, calls = leaf([-1.2, 1.0]), []
    optimiser = getattr(optim, name)([value], **options)
    for _ in range(steps):
        returned = optimiser.step(closure_of(optimiser, value, calls=calls))
    np.testing.assert_allclose(host(value), x, rtol=1e-9)
    assert returned.item() == pytest.approx(loss, rel=1e-9)
    assert len(calls) == evaluations


@pytest.mark.parametrize(("name", "options"), EACH)
def test_one_vector_or_several_parameters_alike(name, options):
    whole, parts = leaf([-1.2, 1.0]), [leaf([-1.2]), leaf([[1.0]])]
    one, two = getattr(optim, name)([whole], **options), getattr(optim, name)(parts, **options)
    for _ in range(4):
        one.step(closure_of(one, whole))
        two.step(closure_of(two, parts, lambda p: rosenbrock([p[0].sum(), p[1].sum()])))
    np.testing.assert_allclose(host(whole), [host(parts[0])[0], host(parts[1])[0, 0]], rtol=1e-7)


def test_lbfgs_solves_rosenbrock_in_float32_and_float64():
    for dtype, tolerance in (("float64", 1e-9), ("float32", 1e-3)):
        x = leaf([-1.2, 1.0], dtype)
        optimiser = optim.LBFGS([x], max_iter=100, tolerance_change=1e-16, line_search_fn="strong_wolfe")
        optimiser.step(closure_of(optimiser, x))
        np.testing.assert_allclose(host(x), [1, 1], atol=tolerance)
        assert host(x).dtype == dtype


def test_lbfgs_reaches_a_quadratics_minimum_in_as_many_steps_as_it_has_curvatures():
    curvatures = gradlib.tensor([1.0, 1e2, 1e4], dtype=gradlib.float64)
    x = leaf([1.0] * 3)
    optimiser = optim.LBFGS([x], max_iter=40, tolerance_change=0.0, line_search_fn="strong_wolfe")
    optimiser.step(closure_of(optimiser, x, lambda x: (curvatures * x * x).sum()))
    assert np.abs(host(x)).max() < 1e-6
    assert optimiser.state[x]["func_evals"] < 40


def test_lbfgs_stops_where_the_gradient_is_zero_and_needs_a_closure():
    x, calls = leaf([1.0, 1.0]), []
    optimiser = optim.LBFGS([x])
    optimiser.step(closure_of(optimiser, x, calls=calls))
    assert len(calls) == 1
    assert host(x).tolist() == [1, 1]
    with pytest.raises(TypeError, match="closure"):
        optimiser.step()
    away = leaf([3.0, 1.0])
    broken = optim.LBFGS([away], line_search_fn="golden")
    with pytest.raises(RuntimeError, match="strong_wolfe"):
        broken.step(closure_of(broken, away))
    with pytest.raises(ValueError, match="parameter groups"):
        optim.LBFGS([{"params": [x]}, {"params": [leaf([0.0])]}])


def test_adams_first_step_is_lr_whatever_the_gradient():
    x = leaf([1.0, -1.0, 5.0])
    optimiser = optim.Adam([x], lr=0.25)
    optimiser.step(closure_of(optimiser, x, lambda x: (x * gradlib.tensor([1e-3, 1e6, -4.0], dtype=gradlib.float64)).sum()))
    np.testing.assert_allclose(host(x), [0.75, -1.25, 5.25], rtol=1e-4)


@pytest.mark.parametrize(("name", "options"), EACH)
def test_complex_parameters_are_their_real_and_imaginary_parts(name, options):
    z, xy = gradlib.tensor([1.5 - 0.5j, -1j], dtype=gradlib.complex128).requires_grad_(), leaf([[1.5, -0.5], [0.0, -1.0]])
    one, two = getattr(optim, name)([z], **options), getattr(optim, name)([xy], **options)
    for _ in range(3):
        one.step(closure_of(one, z, lambda z: ((z * z.conj()).real ** 2).sum()))
        two.step(closure_of(two, xy, lambda v: ((v * v).sum(1) ** 2).sum()))
    np.testing.assert_allclose(host(z).view(np.float64).reshape(2, 2), host(xy), rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize(("name", "options"), EACH)
def test_complex_parameters_in_any_order_in_memory(name, options):
    values, found = np.array([[1.5 - 0.5j, -1j, 2.0], [1j, 0.5, 1 - 1j]]), []
    for z in (gradlib.tensor(values), gradlib.tensor(values.T.copy()).t()):
        optimiser = getattr(optim, name)([z.requires_grad_()], **options)
        for _ in range(3):
            optimiser.step(closure_of(optimiser, z, lambda z: ((z * z.conj()).real ** 2).sum()))
        found.append(host(z))
    np.testing.assert_allclose(*found, rtol=1e-12)


@pytest.mark.parametrize(("name", "options"), EACH)
def test_a_saved_state_continues_the_walk(name, options):
    straight, early = leaf([-1.2, 1.0]), leaf([-1.2, 1.0])
    one, two = getattr(optim, name)([straight], **options), getattr(optim, name)([early], **options)
    for _ in range(6):
        one.step(closure_of(one, straight))
    for _ in range(3):
        two.step(closure_of(two, early))
    late = leaf(host(early))
    three = getattr(optim, name)([late], lr=123.0)
    saved = pickle.loads(pickle.dumps(two.state_dict()))
    three.load_state_dict(saved)
    assert three.param_groups[0]["lr"] == two.param_groups[0]["lr"]
    for _ in range(3):
        three.step(closure_of(three, late))
    np.testing.assert_allclose(host(late), host(straight), rtol=1e-12)


def as_torch_saves(value, name=""):
    """A saved state with torch's tensors of no dimensions for counts and numbers."""
    if isinstance(value, dict):
        return {key: as_torch_saves(item, key) for key, item in value.items()}
    if isinstance(value, list):
        return [as_torch_saves(item, name) for item in value]
    return gradlib.tensor(float(value)) if name in ("step", "eta", "mu", "mu_product", "H_diag", "ro") else value


@pytest.mark.parametrize(("name", "options"), EACH)
def test_a_state_that_torch_saved_continues_the_walk(name, options):
    """Complex parameters have complex states; an option that the saved groups lack is the default."""
    values = np.array([[1.5 - 0.5j, -1j, 0.5]])
    straight, late = (gradlib.tensor(values).requires_grad_() for _ in range(2))
    one, two = (getattr(optim, name)([z], **options) for z in (straight, late))
    for _ in range(3):
        one.step(closure_of(one, straight, lambda z: ((z * z.conj()).real ** 2).sum()))
    saved = one.state_dict()
    for key, item in saved["state"].get(0, {}).items():
        if isinstance(item, gradlib.Tensor) and item.ndim and name != "LBFGS":
            assert (key, item.shape, item.dtype) == (key, straight.shape, straight.dtype)
    saved["state"] = as_torch_saves(saved["state"])
    del saved["param_groups"][0]["differentiable" if "differentiable" in saved["param_groups"][0] else "lr"]
    two.load_state_dict(saved)
    with gradlib.no_grad():
        late.copy_(straight)
    for _ in range(3):
        for optimiser, z in ((one, straight), (two, late)):
            optimiser.step(closure_of(optimiser, z, lambda z: ((z * z.conj()).real ** 2).sum()))
    np.testing.assert_allclose(host(late), host(straight), rtol=1e-6)
    assert not np.allclose(host(late), values)


def test_state_dict_has_numbers_for_parameters_and_loading_checks_groups():
    a, b = leaf([1.0]), leaf([2.0])
    optimiser = optim.SGD([{"params": [a]}, {"params": [b], "lr": 7.0}], lr=1.0, momentum=0.5)
    optimiser.step(closure_of(optimiser, a, lambda a: (a * b).sum()))
    saved = optimiser.state_dict()
    assert [group["params"] for group in saved["param_groups"]] == [[0], [1]]
    assert set(saved["state"]) == {0, 1}
    before = copy.deepcopy(host(saved["state"][0]["momentum_buffer"]))
    optimiser.load_state_dict(saved)
    optimiser.step(closure_of(optimiser, a, lambda a: (a * b).sum()))
    np.testing.assert_array_equal(host(saved["state"][0]["momentum_buffer"]), before)
    with pytest.raises(ValueError, match="number of parameter groups"):
        optim.SGD([a]).load_state_dict(saved)
    with pytest.raises(ValueError, match="size of optimizer's group"):
        optim.SGD([{"params": [a, leaf([1.0])]}, {"params": [b]}]).load_state_dict(saved)


class Foreign:
    """A tensor of another library, as torch's optimisers have them in their state."""

    def __init__(self, array):
        self.array = array

    def item(self):
        return self.array.item()

    def __dlpack__(self, **how):
        return self.array.__dlpack__(**how)

    def __dlpack_device__(self):
        return self.array.__dlpack_device__()


def test_the_state_of_another_librarys_optimiser_is_loaded():
    def stepped(load):
        x = leaf([1.0, 2.0])
        optimiser = optim.Adam([x], lr=0.1)
        for _ in range(2):
            optimiser.zero_grad()
            x.square().sum().backward()
            optimiser.step()
            optimiser.load_state_dict(load(optimiser.state_dict()))
        return x

    def foreign(state):
        for entry in state["state"].values():
            entry.update({name: Foreign(np.array(host(item))) for name, item in entry.items() if name != "step"})
            entry["step"] = Foreign(np.array(entry["step"], np.float32))
        return state

    assert gradlib.equal(stepped(foreign), stepped(lambda state: state))


def test_asgd_keeps_the_average_of_its_parameters():
    x, seen = leaf([-1.2, 1.0]), []
    optimiser = optim.ASGD([x], lr=1e-4, t0=0)
    for _ in range(5):
        optimiser.step(closure_of(optimiser, x))
        seen.append(host(x).copy())
    np.testing.assert_allclose(host(optimiser.state[x]["ax"]), np.mean(seen[1:], axis=0), rtol=1e-12)


@pytest.mark.nonfinite
@pytest.mark.parametrize("foreach", [True, False])
def test_rprop_takes_nan_for_no_direction(foreach):
    """As torch does: the sign of NaN is 0."""
    x = leaf([1.0, 2.0, 3.0])
    optimiser = optim.Rprop([x], lr=0.5, foreach=foreach)
    for gradient in ([1.0, -1.0, 1.0], [float("nan"), 1.0, 1.0]):
        x.grad = leaf(gradient).detach()
        optimiser.step()
    np.testing.assert_allclose(host(x), [0.5, 2.5, 1.9])


def test_zero_grad_drops_or_zeroes():
    x = leaf([1.0, 2.0])
    optimiser = optim.SGD([x])
    x.sum().backward()
    kept = x.grad
    optimiser.zero_grad(set_to_none=False)
    assert x.grad is kept
    assert host(kept).tolist() == [0, 0]
    x.grad = leaf([float("nan"), float("inf")]).detach()
    optimiser.zero_grad(set_to_none=False)
    assert host(x.grad).tolist() == [0, 0]
    optimiser.zero_grad()
    assert x.grad is None
    optimiser.step()
    assert host(x).tolist() == [1, 2]


def test_groups_have_their_own_options_and_can_be_added():
    a, b = leaf([1.0]), leaf([1.0])
    optimiser = optim.SGD([("first", a)], lr=0.1)
    with pytest.raises(ValueError, match="all optimizer param groups should be with/without names"):
        optimiser.add_param_group({"params": b, "lr": 0.5})
    optimiser.add_param_group({"params": [("second", b)], "lr": 0.5})
    assert [group["param_names"] for group in optimiser.param_groups] == [["first"], ["second"]]
    (a.sum() + b.sum()).backward()
    optimiser.step()
    np.testing.assert_allclose([host(a)[0], host(b)[0]], [0.9, 0.5])
    assert "lr: 0.5" in repr(optimiser)
    assert repr(optimiser).startswith("SGD (")


def test_an_option_that_the_method_does_not_have_changes_nothing():
    a, b = leaf([1.0, -2.0]), leaf([1.0, -2.0])
    for x, options in ((a, {}), (b, {"weight_decay": 0.5})):
        optimiser = optim.Rprop([{"params": [x], **options}], lr=0.1)
        for factor in (1.0, -3.0, 2.0):
            x.grad = gradlib.tensor([0.01, -0.2], dtype=gradlib.float64) * factor
            optimiser.step()
    np.testing.assert_array_equal(host(b), host(a))


def test_lbfgs_steps_one_group():
    x = leaf([1.0])
    optimiser = optim.LBFGS([x])
    optimiser.add_param_group({"params": [leaf([2.0])]})
    with pytest.raises(AssertionError, match="Expected exactly one param_group, but got 2"):
        optimiser.step(closure_of(optimiser, x))
    assert x.item() == 1


def test_the_sums_of_adagrad_are_there_before_the_first_step():
    x = leaf([1.0, 2.0])
    state = optim.Adagrad([x], initial_accumulator_value=0.5).state[x]
    assert state["sum"].tolist() == [0.5, 0.5]
    assert state["step"] == 0


def test_a_step_is_outside_the_graph_and_counts_as_a_write():
    x = leaf([2.0])
    y = x * x
    x.grad = gradlib.tensor([1.0], dtype=gradlib.float64)
    optim.Adam([x]).step()
    assert x.is_leaf
    assert x.requires_grad
    with pytest.raises(RuntimeError, match="modified by an inplace operation"):
        y.backward()


def test_step_hooks_run_around_the_step():
    x, seen = leaf([1.0]), []
    optimiser = optim.SGD([x], lr=1.0)
    first = optimiser.register_step_pre_hook(lambda o, args, kwargs: seen.append(("before", host(x)[0])))
    optimiser.register_step_post_hook(lambda o, args, kwargs: seen.append(("after", host(x)[0])))
    x.sum().backward()
    optimiser.step()
    first.remove()
    optimiser.step()
    assert seen == [("before", 1.0), ("after", 0.0), ("after", -1.0)]


def test_what_cannot_be_optimised_is_refused():
    x = leaf([1.0])
    for bad, error, text in (
        ([], ValueError, "empty"),
        (x, TypeError, "iterable"),
        ([3.0], TypeError, "float"),
        ([x * 2], ValueError, "non-leaf"),
        ([{"params": [x]}, {"params": [x]}], ValueError, "more than one parameter group"),
        ([{"params": {x}}], TypeError, "ordered"),
    ):
        with pytest.raises(error, match=text):
            optim.SGD(bad)
    with pytest.warns(UserWarning, match="duplicate"):
        optim.SGD([x, x])
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for make, text in (
            (lambda: optim.SGD([x], lr=-1), "learning rate: -1"),
            (lambda: optim.SGD([x], momentum=-1), "momentum"),
            (lambda: optim.SGD([x], nesterov=True), "Nesterov"),
            (lambda: optim.Adam([x], eps=-1), "epsilon"),
            (lambda: optim.Adam([x], betas=(0.9, 1.0)), "index 1: 1.0"),
            (lambda: optim.Adam([x], weight_decay=-0.1), "weight_decay"),
            (lambda: optim.LBFGS([x], lr=-1), "learning rate"),
            (lambda: optim.RMSprop([x], alpha=-1), "Invalid alpha value: -1"),
            (lambda: optim.Adagrad([x], lr_decay=-1), "Invalid lr_decay value: -1"),
            (lambda: optim.Adadelta([x], rho=1.5), "Invalid rho value: 1.5"),
            (lambda: optim.NAdam([x], momentum_decay=-1), "Invalid momentum_decay value: -1"),
            (lambda: optim.RAdam([x], betas=(1.0, 0.9)), "index 0: 1.0"),
            (lambda: optim.Adamax([x], eps=-1), "epsilon"),
            (lambda: optim.Rprop([x], etas=(1.1, 1.2)), "Invalid eta values: 1.1, 1.2"),
            (lambda: optim.ASGD([x], weight_decay=-1), "weight_decay"),
        ):
            with pytest.raises(ValueError, match=text):
                make()
    with pytest.raises(TypeError, match=r"lr is a number, got str '0.1'"):
        optim.SGD([x], lr="0.1")
    with pytest.raises(TypeError, match="dict"):
        optim.SGD([x]).add_param_group([x])
    bare = optim.Optimizer([x], {})
    with pytest.raises(NotImplementedError, match="_update"):
        bare.step(closure_of(bare, x, lambda x: x.sum()))


# ---- several devices ----------------------------------------------------------------------------------------------------------------

AWAY = "cuda:1"


@two_devices
@pytest.mark.parametrize(("name", "options"), EACH[:-1])
def test_parameters_on_several_devices(name, options):
    """Each is updated where it lies, whichever device is current."""
    whole, parts = leaf([-1.2, 1.0]), [leaf([-1.2], device=AWAY), leaf([1.0])]
    one, two = getattr(optim, name)([whole], **options), getattr(optim, name)(parts, **options)
    for _ in range(4):
        one.step(closure_of(one, whole))
        two.step(closure_of(two, parts, lambda p: rosenbrock([p[0].to(p[1].device), p[1]]).sum()))
    np.testing.assert_allclose(host(whole), [host(parts[0])[0], host(parts[1])[0]], rtol=1e-12)
    assert [str(part.device) for part in parts] == [AWAY, str(whole.device)]
    assert all(entry.device == part.device for part in parts for entry in two.state[part].values() if isinstance(entry, gradlib.Tensor))
    two.zero_grad(set_to_none=False)
    assert str(parts[0].grad.device) == AWAY


@two_devices
def test_lbfgs_where_the_device_is_not_current():
    near, far = leaf([-1.2, 1.0]), leaf([-1.2, 1.0], device=AWAY)
    for x in (near, far):
        optimiser = optim.LBFGS([x, leaf([7.0], device=x.device)], max_iter=8, line_search_fn="strong_wolfe")
        optimiser.step(closure_of(optimiser, x))
    np.testing.assert_allclose(host(far), host(near), rtol=1e-12)
    with pytest.raises(ValueError, match=r"lie on one device; got \['c.*', 'cuda:1'\]"):
        optim.LBFGS([near, far])


@two_devices
@pytest.mark.parametrize(("name", "options"), EACH)
def test_a_saved_state_follows_its_parameters_to_another_device(name, options):
    straight, early = leaf([-1.2, 1.0]), leaf([-1.2, 1.0])
    one, two = getattr(optim, name)([straight], **options), getattr(optim, name)([early], **options)
    for _ in range(2):
        one.step(closure_of(one, straight))
        two.step(closure_of(two, early))
    late = early.detach().to(AWAY).requires_grad_()
    three = getattr(optim, name)([late])
    three.load_state_dict(two.state_dict())
    one.step(closure_of(one, straight))
    three.step(closure_of(three, late))
    np.testing.assert_allclose(host(late), host(straight), rtol=1e-12)
