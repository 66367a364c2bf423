"""Loading modules: without the garbage collector; and optional packages that are not there."""

from __future__ import annotations

import contextlib
import gc
import subprocess
import sys
from collections.abc import Callable
from typing import Any

import pytest

import gradlib
from gradlib.backend.loading import without_collection

pytestmark = pytest.mark.host


@pytest.mark.parametrize("enabled", [True, False])
def test_the_collector_is_left_as_it_was_also_by_an_import_that_fails(enabled: bool) -> None:
    try:
        (gc.enable if enabled else gc.disable)()
        with contextlib.suppress(ImportError), without_collection():
            assert not gc.isenabled()
            raise ImportError
        assert gc.isenabled() == enabled
    finally:
        gc.enable()


@pytest.mark.parametrize(
    ("name", "package", "call"),
    [
        ("optim.minimize", "scipy", lambda x: gradlib.optim.minimize(gradlib.sum, x)),
        ("optim.least_squares", "scipy", lambda x: gradlib.optim.least_squares(gradlib.sin, x)),
        ("optim.root", "scipy", lambda x: gradlib.optim.root(gradlib.sin, x)),
        ("optim.solve_ivp", "scipy", lambda x: gradlib.optim.solve_ivp(lambda t, y: y, (0, 1), x)),
        ("interop.from_torch", "torch", lambda x: gradlib.interop.from_torch(abs)),
        ("interop.jax_function", "jax", lambda x: gradlib.interop.jax_function(gradlib.sin)(x)),
        ("interop.from_jax", "jax", lambda x: gradlib.interop.from_jax(abs)(x)),
    ],
)
def test_without_a_package_its_function_and_the_extra_are_named(
    monkeypatch: pytest.MonkeyPatch, name: str, package: str, call: Callable[[gradlib.Tensor], Any]
) -> None:
    for module in (package, "scipy.optimize", "scipy.integrate"):
        monkeypatch.setitem(sys.modules, module, None)
    said = f"gradlib.{name} needs the package {package}, which is not installed: pip install 'gradlib[{package}]'"
    with pytest.raises(ModuleNotFoundError) as raised:
        call(gradlib.ones(2))
    assert (str(raised.value), raised.value.name) == (said, package)


def test_importing_gradlib_collects_nothing() -> None:
    """Each full collection looks through all that was loaded so far, which was a fifth of the time."""
    count = "gc.get_stats()[2]['collections']"
    text = f"import gc, numpy; gc.collect(); before = {count}; import gradlib; print({count} - before)"
    ran = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=True)
    assert ran.stdout.split() == ["0"]


def test_graphs_and_users_kernels_are_loaded_when_they_are_asked_for() -> None:
    """In whatever order, each name is what its own file has; `dir` and `from` know it before."""
    later = gradlib.cuda._LATER
    text = f"""
import sys, gradlib
from importlib import import_module
files = {sorted(set(later.values()))!r}
assert not [file for file in files if f"gradlib.cuda.{{file}}" in sys.modules]
assert set({sorted(later)!r}) <= set(dir(gradlib.cuda))
from gradlib.cuda import kernel
for name, file in {later!r}.items():
    assert getattr(gradlib.cuda, name) is getattr(import_module(f"gradlib.cuda.{{file}}"), name)
try:
    gradlib.cuda.CUDAGraf
except AttributeError as error:
    print(error)
"""
    ran = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True)
    assert ran.stdout == "module 'gradlib.cuda' has no attribute 'CUDAGraf'. Did you mean: 'CUDAGraph'?\n", ran.stderr
