"""The base of every optimiser: parameter groups, state and its saving, and writing parameters outside the graph.

Updates are computed on raw arrays and written once into the parameter's memory, which counts as one in-place change: a graph that saved
the old value says so when its backward comes too late.
"""

from __future__ import annotations

import copy
import warnings
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from contextlib import ExitStack
from typing import Any

import numpy as np

from gradlib.backend.array import Array, namespace, on_device_of
from gradlib.backend.capture import capturing
from gradlib.backend.copying import assign
from gradlib.core.grad_mode import enable_grad, no_grad
from gradlib.core.node import RemovableHandle, add_hook
from gradlib.core.tensor import Tensor, wrap
from gradlib.core.writes import overwrite, write_several, written
from gradlib.ops.from_data import from_dlpack
from gradlib.optim import foreach
from gradlib.optim.capturable import as_state, factor, rate, shrink, state_dtype
from gradlib.optim.fused import step_apart
from gradlib.optim.steps import Plan

Closure = Callable[[], Any]
Group = dict[str, Any]


def _check_choices(group: Group) -> None:
    """Refuse how a group is to be stepped where that cannot be."""
    if group.get("differentiable"):
        raise NotImplementedError(
            "differentiable=True is not supported: a step writes its parameters outside any graph. To differentiate through a step, write "
            "it with operations: p - lr * gradlib.func.grad(loss)(p)"
        )
    if group.get("fused") and group.get("foreach"):
        raise RuntimeError("`fused` and `foreach` cannot be `True` together.")


class Optimizer:
    """The base of all optimisers; a subclass implements ``_update(parameter, gradient, group)`` or its own ``_step(closure)``.

    Args:
        params: Tensors, or (name, Tensor) pairs, or dicts each with "params" and the options of that group.
        defaults: options for groups that do not give them.
    Raises: TypeError or ValueError for parameters that are none, are empty, repeat, or were made by an operation.
    Source: torch.optim.Optimizer.
    """

    def __init__(self, params: Iterable[Any], defaults: dict[str, Any]) -> None:
        if isinstance(params, Tensor):
            raise TypeError(
                "params argument given to the optimizer should be an iterable of Tensors or dicts, but got a Tensor; wrap it in a list"
            )
        self.defaults = defaults
        self.state: defaultdict[Tensor, dict[str, Any]] = defaultdict(dict)
        self.param_groups: list[Group] = []
        self._joined: dict[int, list[foreach.Joined]] = {}
        self._pre_hooks: dict[int, Callable[..., Any]] = {}
        self._post_hooks: dict[int, Callable[..., Any]] = {}
        self.has_stepped = False  # a scheduler that steps first warns
        self._warned_capturable_if_run_uncaptured = False
        groups = list(params)
        if not groups:
            raise ValueError("optimizer got an empty parameter list")
        for group in groups if isinstance(groups[0], dict) else [{"params": groups}]:
            self.add_param_group(group)

    def add_param_group(self, param_group: Group) -> None:
        """Optimise further parameters, such as those of a layer that is no longer frozen.

        Args:
            param_group: a dict with "params" and any options that differ from the defaults.
        Raises: TypeError or ValueError for parameters that cannot be optimised or already are.
        Source: torch.optim.Optimizer.add_param_group.
        """
        if not isinstance(param_group, dict):
            raise TypeError(f"param_group must be a dict, but got {type(param_group).__name__}")
        group = dict(param_group)
        given = group["params"]
        if isinstance(given, set):
            raise TypeError(
                "optimizer parameters need to be organized in ordered collections, but the ordering of tensors in sets will change "
                "between runs; use a list"
            )
        entries = [given] if isinstance(given, Tensor) else list(given)
        if entries and all(isinstance(entry, tuple) for entry in entries):
            group["param_names"] = [name for name, _ in entries]
            entries = [value for _, value in entries]
        group["params"] = entries
        for value in entries:
            if not isinstance(value, Tensor):
                kind = f"{type(value).__module__}.{type(value).__name__}".removeprefix("builtins.")
                raise TypeError(f"optimizer can only optimize Tensors, but one of the params is {kind}")
            if not (value.is_leaf or value.retains_grad):
                raise ValueError("can't optimize a non-leaf Tensor; detach it and call requires_grad_()")
        if len({id(value) for value in entries}) != len(entries):
            warnings.warn("optimizer contains a parameter group with duplicate parameters", UserWarning, stacklevel=3)
        taken = {id(value) for other in self.param_groups for value in other["params"]}
        if any(id(value) in taken for value in entries):
            raise ValueError("some parameters appear in more than one parameter group")
        if any(("param_names" in group) != ("param_names" in other) for other in self.param_groups):
            raise ValueError(
                "all optimizer param groups should be with/without names: give (name, parameter) pairs in all of them, or in none"
            )
        for name, default in self.defaults.items():
            group.setdefault(name, default)
        _check_choices(group)
        self.param_groups.append(group)

    def zero_grad(self, set_to_none: bool = True) -> None:
        """Forget the gradients of all parameters.

        Args:
            set_to_none: drop them, so that the next backward allocates; otherwise fill them with zeros in place.
        Source: torch.optim.Optimizer.zero_grad.
        """
        gradients = []
        for value in self._all_params():
            gradient = None if set_to_none else value.grad
            if gradient is None:
                value.grad = None
                continue
            if gradient._node is not None:  # with create_graph: it leaves the graph that made it
                gradient.requires_grad_(False) if gradient.is_leaf else gradient.detach_()
            gradients.append(gradient)
        if not write_several("zero", gradients):
            for gradient in gradients:
                with on_device_of(gradient._array):
                    write(gradient, 0)

    def step(self, closure: Closure | None = None) -> Any:
        """Update the parameters once from their gradients.

        Args:
            closure: clears the gradients, evaluates the loss, calls backward and returns the loss; optional for most optimisers.
        Returns: the loss that the closure returned first, or None.
        Source: torch.optim.Optimizer.step.
        """
        for hook in tuple(self._pre_hooks.values()):
            hook(self, (closure,), {})
        loss = self._step(closure)
        self.has_stepped = True
        for hook in tuple(self._post_hooks.values()):
            hook(self, (closure,), {})
        return loss

    def register_step_pre_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` before each step. Source: torch.optim.Optimizer.register_step_pre_hook."""
        return add_hook(self._pre_hooks, hook)

    def register_step_post_hook(self, hook: Callable[..., Any]) -> RemovableHandle:
        """Call ``hook(optimizer, args, kwargs)`` after each step. Source: torch.optim.Optimizer.register_step_post_hook."""
        return add_hook(self._post_hooks, hook)

    def state_dict(self) -> dict[str, Any]:
        """The state by number of the parameter, and the groups with numbers for parameters.

        Returns: {"state": {number: state}, "param_groups": [group]}, sharing the state's tensors; those of a complex parameter, which
            are kept as real numbers, are complex there, as torch's are.
        Source: torch.optim.Optimizer.state_dict.
        """
        numbers = {id(value): i for i, value in enumerate(self._all_params())}
        groups = [{**group, "params": [numbers[id(value)] for value in group["params"]]} for group in self.param_groups]
        state = {
            numbers[id(value)]: {name: self._saved(item, value) for name, item in entry.items()} if value.is_complex() else entry
            for value, entry in self.state.items()
        }
        return {"state": state, "param_groups": groups}

    def load_state_dict(self, state_dict: dict[str, Any]) -> None:
        """Continue from a saved state, torch's too; tensors in it are copied to each parameter's dtype and device.

        Args:
            state_dict: what `state_dict` returned, for parameters in the same groups and order.
        Raises: ValueError when the groups do not match.
        Source: torch.optim.Optimizer.load_state_dict.
        """
        saved = copy.deepcopy(state_dict)
        groups = saved["param_groups"]
        if len(groups) != len(self.param_groups):
            raise ValueError(f"loaded state dict has a different number of parameter groups: {len(groups)}, here {len(self.param_groups)}")
        values: dict[int, Tensor] = {}
        capturable: set[int] = set()
        for group, own in zip(groups, self.param_groups, strict=True):
            if len(group["params"]) != len(own["params"]):
                raise ValueError(
                    "loaded state dict contains a parameter group that doesn't match the size of optimizer's group: "
                    f"{len(group['params'])}, here {len(own['params'])}"
                )
            values.update(zip(group["params"], own["params"], strict=True))
            if group.get("capturable"):
                capturable.update(group["params"])
            group["params"] = own["params"]
            for name, default in self.defaults.items():
                group.setdefault(name, default)
        self.param_groups = groups
        self.state = defaultdict(dict)
        for number, entry in saved["state"].items():
            value = values[number]
            self.state[value] = {
                name: _number(item, value, number in capturable) if name in foreach.NUMBERS else self._loaded(item, value)
                for name, item in entry.items()
            }

    _keeps_real = True
    """Whether the state of a complex parameter is that of its real and imaginary parts."""

    def _saved(self, item: Any, value: Tensor) -> Any:
        """An entry of a complex parameter's state as `state_dict` has it: complex, as torch's is."""
        if not self._keeps_real or not isinstance(item, Tensor) or item._array.size != 2 * value._array.size:
            return item
        return wrap(item._array.view(value._array.dtype).reshape(value._array.shape))

    def _loaded(self, item: Any, value: Tensor) -> Any:
        """A saved entry of this parameter's state: tensors cast as it is, the rest as it is."""
        if isinstance(item, list):
            return [self._loaded(each, value) for each in item]
        item = _tensor(item)
        if not isinstance(item, Tensor):
            return item
        if item.ndim == 0 != value.ndim:
            return item.to(device=value.device)
        if not item.is_complex():
            return item.to(device=value.device, dtype=real(value._array).dtype)
        item = item.to(device=value.device, dtype=value.dtype)
        return wrap(real(item._array)) if self._keeps_real else item

    def __getstate__(self) -> dict[str, Any]:
        return {**vars(self), "_joined": {}}  # views into joined states do not stay views in a copy

    def __repr__(self) -> str:
        lines = [f"{type(self).__name__} ("]
        for i, group in enumerate(self.param_groups):
            lines += [f"Parameter Group {i}", *(f"    {name}: {group[name]}" for name in sorted(group) if name != "params")]
        return "\n".join([*lines, ")"])

    def _all_params(self) -> Iterator[Tensor]:
        return (value for group in self.param_groups for value in group["params"])

    def _step(self, closure: Closure | None) -> Any:
        """One step of an optimiser that treats each parameter by itself."""
        loss = evaluated(closure)
        self._check_capture()
        with no_grad():
            for group in self.param_groups:
                values = [value for value in group["params"] if value.grad is not None]
                if foreach.wanted(group, values):
                    foreach.step(self._joined, self._update, self._plan_of_update, self.state, group, values)
                    continue
                if group.get("capturable") or capturing.capture is not None:
                    plan = self._plan_of_update(group)
                    if plan is not None:
                        values = step_apart(values, [self.state[value] for value in values], group, plan)
                for value in values:
                    with on_device_of(value._array):
                        self._update(value, value.grad._array, group)
        return loss

    def _check_capture(self) -> None:
        """Refuse to be captured in a CUDA graph with counts on the host, or before there is a state whose memory replays can change."""
        capturable = all(group.get("capturable", self._always_capturable) for group in self.param_groups)
        if capturing.capture is None:
            if capturable and "capturable" in self.defaults and not self._warned_capturable_if_run_uncaptured:
                self._warned_capturable_if_run_uncaptured = True
                warnings.warn(
                    "This instance was constructed with capturable=True or some of all the param_groups came with capturable=True, but "
                    "step() is running without CUDA graph capture. If you never intend to graph-capture this instance, capturable=True can "
                    "impair performance, and you should set capturable=False.",
                    UserWarning, stacklevel=4,
                )  # fmt: skip
            return
        name = type(self).__name__
        if not capturable and "capturable" not in self.defaults:
            raise RuntimeError(
                f"step() of {name} cannot be captured in a CUDA graph: its counts are on the host, and it has no option capturable; "
                "step behind a replay, or take another optimiser"
            )
        if not capturable:
            raise RuntimeError(f"Attempting CUDA graph capture of step() for an instance of {name} but param_groups' capturable is False.")
        for group in self.param_groups:
            if any(value.grad is not None and not self._has_state(value, group) for value in group["params"]):
                raise RuntimeError(
                    f"step() of {name} cannot be captured in a CUDA graph before its state exists, which each replay would make anew; "
                    "run a step before the capture, on a side stream"
                )

    _always_capturable = False
    """Whether its step depends on no count that is kept on the host."""

    def _has_state(self, value: Tensor, group: Group) -> bool:
        """Whether a step of this parameter makes no new state."""
        return isinstance(self.state[value].get("step"), Tensor)

    def _plan_of_update(self, group: Group) -> Plan | None:
        """`_plan`, if the class that has ``_update`` has it too: a subclass may step otherwise."""
        return self._plan(group) if "_plan" in vars(next(each for each in type(self).__mro__ if "_update" in vars(each))) else None

    def _plan(self, group: Group) -> Plan | None:
        """The same step for kernels that step all parameters on a GPU; None where there are no such kernels."""
        return None

    def _update(self, value: Tensor, gradient: Array, group: Group) -> None:
        raise NotImplementedError(f"{type(self).__name__} must define _update(value, gradient, group) or _step(closure)")


def evaluated(closure: Closure | None) -> Any:
    """What a closure returns, which records also where nothing else does; None without one."""
    if closure is None:
        return None
    with enable_grad():
        return closure()


def write(target: Tensor, values: Array | int) -> None:
    """Put new values into a tensor's memory, outside the graph, as one in-place change."""
    overwrite(target, values, _STEP)


_STEP = "an optimiser's step"


def number(value: Any) -> float:
    """The number that a caller gave, who may give a loss as it is, with its graph."""
    return float(value.item() if isinstance(value, Tensor) else value)


def real(array: Array) -> Array:
    """The array itself, or a complex one seen as twice as many real numbers; it shares memory where the last dimension is dense."""
    if array.dtype.kind != "c":
        return array
    return namespace(array).ascontiguousarray(array).view(array.real.dtype)


def check_options(**least: float) -> None:
    """Refuse options below zero, with torch's words."""
    words = {"lr": "learning rate", "eps": "epsilon value"}
    for name, value in least.items():
        if isinstance(value, str):
            raise TypeError(f"{name} is a number, got str {value!r}")
        if not float(value) >= 0.0:
            raise ValueError(f"Invalid {words.get(name, f'{name} value')}: {value}")


def check_betas(betas: tuple[float, float]) -> None:
    """Refuse decay rates of running means outside [0, 1), with torch's words."""
    for i, beta in enumerate(betas):
        if not 0.0 <= float(beta) < 1.0:
            raise ValueError(f"Invalid beta parameter at index {i}: {beta}")


def descent(value: Tensor, gradient: Array, group: Group) -> tuple[Array, Array]:
    """`direction` of a parameter and its gradient, both real (see `real`)."""
    return direction(real(value._array), real(gradient), group)


def direction(p: Array, g: Array, group: Group) -> tuple[Array, Array]:
    """The parameter and the direction to descend against: the gradient, or its negative to climb, plus weight decay.

    A group with "decoupled_weight_decay" shrinks the parameter instead.
    """
    if group["maximize"]:
        g = -g
    if group.get("weight_decay"):
        if group.get("decoupled_weight_decay"):
            p = p * factor(shrink(rate(group), group["weight_decay"]), p)
        else:
            g = g + group["weight_decay"] * p
    return p, g


def change(rule: Callable[..., None], value: Tensor, p: Array, g: Array, *states: Tensor) -> None:
    """One step of a parameter by a rule that works element by element.

    Of a large parameter on the host the rule is given one block of all arrays after the other, which stays in the cache meanwhile.

    Args:
        rule: writes, in place, the arrays of the parameter and of its states; it is given p, g and the latter.
        p, g: the parameter's array and its gradient, or what `real` makes of them.
    """
    with ExitStack() as writes:
        arrays = [writes.enter_context(written(each, _STEP)) for each in (value, *states)]
        given = (p, g, *arrays[1:])
        if p.size < 2 * _BLOCK or not all(type(each) is np.ndarray and each.flags.c_contiguous for each in given):
            rule(*given)
        else:
            flat = [each.reshape(-1) for each in given]
            for start in range(0, p.size, _BLOCK):
                rule(*[each[start : start + _BLOCK] for each in flat])
        if p is not value._array:
            assign(value._array, ..., p.view(value._array.dtype))


_BLOCK = 1 << 16
"""How many elements a block has: the fewer, the more calls of NumPy there are."""


def move_mean(mean: Array, g: Array, kept: float) -> None:
    """Take a gradient into its running mean, of which the share ``kept`` stays, in place."""
    step = g - mean
    step *= 1 - kept
    mean += step


def move_square(square: Array, g: Array, kept: float) -> None:
    """Take a gradient's square into its running mean, of which the share ``kept`` stays, in place."""
    step = g * g
    step *= 1 - kept
    square *= kept
    square += step


def running_mean(mean: Tensor, g: Array, kept: float) -> Array:
    """`move_mean` as a change of its own; returns the new mean."""
    with written(mean, _STEP) as array:
        move_mean(array, g, kept)
    return array


def running_square(square: Tensor, g: Array, kept: float) -> Array:
    """`move_square` as a change of its own; returns the new mean."""
    with written(square, _STEP) as array:
        move_square(array, g, kept)
    return array


def put(value: Tensor, p: Array) -> None:
    """Write a new value, real as `descent` gave it, into the parameter."""
    write(value, p.view(value._array.dtype) if value.is_complex() else p)


def descend(value: Tensor, p: Array, step: Array) -> None:
    """Write p - step into the parameter, p being as `descent` gave it."""
    if p is not value._array:
        put(value, p - step)
        return
    with written(value, _STEP) as array:
        array -= step


def _number(item: Any, value: Tensor, capturable: bool) -> Any:
    """A saved count or number of this parameter: on its device if the group is capturable, else Python's; torch saves a tensor."""
    item = _tensor(item)
    if not capturable:
        return item.item() if isinstance(item, Tensor) else item
    if isinstance(item, Tensor):
        return item.to(device=value.device, dtype=state_dtype())
    with on_device_of(value._array):
        return as_state(item, value._array)


def _tensor(item: Any) -> Any:
    """A tensor of another library, as torch's optimisers save them, as one of gradlib's; the rest as it is."""
    is_theirs = hasattr(item, "__dlpack__") and not isinstance(item, (Tensor, np.ndarray, np.generic))
    return from_dlpack(item) if is_theirs else item


def zeros_like(array: Array) -> Tensor:
    """A Tensor of zeros for state."""
    return wrap(namespace(array).zeros(array.shape, array.dtype))
