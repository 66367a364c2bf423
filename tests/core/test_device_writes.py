"""Writes in place on a GPU: by one kernel where nothing is recorded, and everywhere with what NumPy gives."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

import gradlib
from tests.device import skip_module_without_cuda

skip_module_without_cuda()
pytestmark = [pytest.mark.cuda, pytest.mark.host]

WRITES: dict[str, Callable[..., Any]] = {
    "clamp_": lambda x, **_: x.clamp_(-1.0, 2), "clamp_, crossed": lambda x, **_: x.clamp_(2.0, -1.0),
    "clip_": lambda x, **_: x.clip_(0.0, 1.0),
    "clamp_, min": lambda x, **_: x.clamp_(min=0.5), "clamp_, max": lambda x, **_: x.clamp_(None, 0.5),
    "clamp_, both named": lambda x, **_: x.clamp_(max=1.0, min=0.0), "clamp_, array": lambda x, y, **_: x.clamp_(y, 4.0),
    "clamp_, nan": lambda x, **_: x.clamp_(float("nan"), 1.0), "clamp_min_": lambda x, r, **_: x.clamp_min_(r),
    "fill_": lambda x, **_: x.fill_(2.5), "fill_, whole": lambda i, **_: i.fill_(7), "fill_, bool": lambda m, **_: m.fill_(True),
    "fill_, -0.0": lambda x, **_: x.fill_(-0.0), "fill_, tensor": lambda x, r, **_: x.fill_(r[1]),
    "fill_, view": lambda x, **_: x[1:].fill_(3),
    "fill_, columns": lambda x, **_: x[:, 1].fill_(3.0), "zero_": lambda x, **_: x.zero_(), "zero_, half": lambda h, **_: h.zero_(),
    "copy_": lambda x, y, **_: x.copy_(y), "copy_, row": lambda x, r, **_: x.copy_(r), "copy_, other dtype": lambda x, i, **_: x.copy_(i),
    "copy_, number": lambda x, **_: x.copy_(2.0), "copy_, turned": lambda x, **_: x[:, :3].copy_(x[:, :3].T.clone()),
    "copy_, overlap": lambda x, **_: x[1:].copy_(x[:-1]), "copy_, itself": lambda x, **_: x.copy_(x),
    "masked_fill_": lambda x, m, **_: x.masked_fill_(m, -3), "masked_fill_, row": lambda x, m, **_: x.masked_fill_(m[1], 3.0),
    "masked_fill_, half": lambda h, m, **_: h.masked_fill_(m, 0.5), "masked_fill_, whole": lambda i, m, **_: i.masked_fill_(m, 4),
    "masked_fill_, inf": lambda x, m, **_: x.masked_fill_(m, float("inf")), "x[m] = 0": lambda x, m, **_: x.__setitem__(m, 0.0),
    "x[rows] = 1": lambda x, m, **_: x.__setitem__(m[:, 1], 1), "i[m] = 2.7": lambda i, m, **_: i.__setitem__(m, 2.7),
    "x[p] = rows": lambda x, p, y, **_: x.__setitem__(p, y[:2]), "x[p] = 2": lambda x, p, **_: x.__setitem__(p, 2.0),
    "x[:, p] = 2": lambda x, p, **_: x.__setitem__((slice(None), p), 2.0), "p[p] = 1": lambda p, **_: p.__setitem__(p - 1, p.clone()),
    "h[p] = row": lambda h, p, **_: h.__setitem__(p, h[2]),
}  # fmt: skip


def operands(device: str) -> dict[str, Any]:
    """The same on each device."""
    x = gradlib.arange(12, dtype=gradlib.float32).reshape(3, 4) - 5
    given = {"x": x, "y": x * 0.25, "h": x.half(), "i": gradlib.arange(12).reshape(3, 4), "m": x > 0, "p": gradlib.tensor([2, 1])}
    return {name: each.to(device) for name, each in given.items()} | {"r": gradlib.tensor([0.5, -1.0, 2.0, 0.0]).to(device)}


@pytest.mark.parametrize("name", WRITES)
@pytest.mark.parametrize("recorded", [False, True])
def test_what_is_written_and_how_often_is_as_on_the_host(name, recorded):
    results = []
    for device in ("cpu", "cuda"):
        given = operands(device)
        leaf = given["x"].clone().requires_grad_()
        given["x"] = leaf * 1 if recorded else given["x"]
        before = {each: tensor._version for each, tensor in given.items()}
        WRITES[name](**given)
        counts = {each: tensor._version - before[each] for each, tensor in given.items()}
        grad = gradlib.autograd.grad(given["x"].sum(), leaf)[0].tolist() if recorded else None
        results.append((repr([tensor.tolist() for tensor in given.values()]), counts, grad))
    assert results[0] == results[1]
    assert sum(results[1][1].values()) == 1 or name == "p[p] = 1"


@pytest.mark.parametrize(
    "case",
    [
        lambda x, **_: x.fill_(1e39), lambda i, **_: i.clamp_(0.5), lambda i, **_: i.fill_(1 << 70),
        lambda x, i, **_: x.masked_fill_(i, 1.0),
        lambda x, **_: x.clamp_(), lambda x, m, **_: x.masked_fill_(m[:, :3], 1.0), lambda x, y, **_: x[:2].copy_(y),
        lambda x, **_: x.expand(2, 3, 4).fill_(1.0), lambda x, m, **_: x.__setitem__(m[:2], 1.0), lambda x, **_: x.requires_grad_().zero_(),
    ],
)  # fmt: skip
def test_what_is_refused_on_the_host_is_refused_alike(case):
    errors = []
    for device in ("cpu", "cuda"):
        given = operands(device)
        before = repr({name: (tensor.tolist(), tensor._version) for name, tensor in given.items()})
        with pytest.raises((RuntimeError, TypeError, IndexError)) as caught:
            case(**given)
        errors.append(caught.type)
        assert repr({name: (tensor.tolist(), tensor._version) for name, tensor in given.items()}) == before
    assert errors[0] is errors[1]
