"""The time until a library works: a process that imports it, and one that also makes its first step."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from functools import partial

from gradlib.cli.bench.case import Case
from gradlib.cli.bench.peers import Peer, Run

_FIRST = {
    "gradlib": "import gradlib as m; x = m.ones(3, device={device!r}, requires_grad=True); (x * 2).sum().backward()",
    "torch": "import torch as m; x = m.ones(3, device={device!r}, requires_grad=True); (x * 2).sum().backward()",
    "autograd": "import autograd, autograd.numpy as m; autograd.grad(lambda x: m.sum(x * 2))(m.ones(3))",
    "mygrad": "import mygrad as m; x = m.ones(3); (x * 2).sum().backward()",
    "jax": "import jax, jax.numpy as m; jax.grad(lambda x: m.sum(x * 2))(m.ones(3)).block_until_ready()",
}


def cases(device: str, quick: bool) -> Iterator[Case]:
    """Whole processes, with bytecode cached."""
    others = ("numpy",) if quick else ("numpy", "torch", "autograd", "mygrad", "jax")
    if device == "cpu":
        yield Case("import", "", _imported, others, "", limits={"numpy": 2.6})
        yield Case("import and first gradient", "", partial(_first, device=device), others[1:], "")
        return
    yield Case("import and first gradient", "", partial(_first, device=device), others[1:], "", device)


def _imported(peer: Peer) -> Run:
    module = {"jax": "jax.numpy", "autograd": "autograd.numpy"}.get(peer.name, peer.name)
    return _process(f"import {module}")


def _first(peer: Peer, device: str) -> Run:
    return _process(_FIRST[peer.name].format(device=device))


def _process(code: str) -> Run:
    def run() -> None:
        subprocess.run([sys.executable, "-c", code], check=True, capture_output=True)

    return run
