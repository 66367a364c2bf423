"""Misspelt names: what their errors suggest, and that other look-ups are left alone."""

from __future__ import annotations

import importlib
import pickle
import pydoc
import re
import subprocess
import sys
from types import ModuleType
from typing import Any

import pytest

import gradlib
from gradlib.backend.names import missing_attribute
from gradlib.core.tensor import Tensor
from tests.test_docstrings import MODULES, offered

pytestmark = pytest.mark.host


@pytest.mark.parametrize(
    ("module", "name", "meant"),
    [
        ("gradlib", "tahn", "tanh"),
        ("gradlib", "no_gard", "no_grad"),
        ("gradlib.linalg", "sdv", "svd"),
        ("gradlib.nn.functional", "crossentropy", "cross_entropy"),
        ("gradlib.func", "jacfwrd", "jacfwd"),
        ("gradlib.autograd", "gradchek", "gradcheck"),
        ("gradlib.optim", "Adm", "Adam"),
        ("gradlib.trajectory", "step_positon", "step_position"),
        ("gradlib.core.engine", "wlak", "walk"),
        ("gradlib.ops.linalg", "prodcts", "products"),
        ("gradlib.numpy.linalg", "egivals", "eigvals"),
        ("gradlib.numpy.random", "uinform", "uniform"),
        ("gradlib.cli", "mian", "main"),
        ("gradlib.cli.info", "add_parsr", "add_parser"),
        ("gradlib.testing.hostcuda", "activat", "activate"),
    ],
)
def test_a_module_suggests_the_nearest_name(module: str, name: str, meant: str) -> None:
    found = importlib.import_module(module)
    with pytest.raises(AttributeError) as caught:
        getattr(found, name)
    said, _, suggested = str(caught.value).partition(". Did you mean: ")
    assert said == f"module {module!r} has no attribute {name!r}"
    assert repr(meant) in suggested.rstrip("?").split(" or ")
    assert not hasattr(found, name)


@pytest.mark.parametrize("module", MODULES, ids=lambda module: module.__name__)
def test_every_public_module_suggests_the_nearest_of_its_names(module: ModuleType) -> None:
    name = max(offered(module), key=len)
    with pytest.raises(AttributeError, match=rf"Did you mean: .*'{name}'"):
        getattr(module, name[:-1])


def test_without_a_near_name_there_is_no_suggestion() -> None:
    with pytest.raises(AttributeError) as caught:
        gradlib.qqqqqq  # noqa: B018
    lists = "; gradlib/docs/from_torch.md says what of torch is absent, and what to use instead"
    assert str(caught.value) == "module 'gradlib' has no attribute 'qqqqqq'" + lists
    with pytest.raises(AttributeError) as caught:
        gradlib.nn.Sequential  # noqa: B018
    assert str(caught.value) == "module 'gradlib.nn' has no attribute 'Sequential'" + lists
    for absent in ("amp", "compile", "export", "jit"):
        with pytest.raises(AttributeError) as caught:
            getattr(gradlib, absent)
        assert str(caught.value) == f"module 'gradlib' has no attribute {absent!r}" + lists
    with pytest.raises(AttributeError) as caught:
        gradlib.trajectory.qqqqqq  # noqa: B018
    assert str(caught.value) == "module 'gradlib.trajectory' has no attribute 'qqqqqq'"
    with pytest.raises(ImportError, match="cannot import name 'tahn'"):
        exec("from gradlib import tahn")


@pytest.mark.parametrize(
    ("package", "name"), [(gradlib, "sin"), (gradlib.func, "vmap"), (gradlib.autograd, "grad"), (gradlib.trajectory, "step_jerk")]
)
def test_help_lists_what_a_package_offers(package: ModuleType, name: str) -> None:
    text = pydoc.plain(pydoc.render_doc(package))
    assert re.search(rf"^    {name}\(", text, re.MULTILINE)
    assert "annotations" not in package.__all__


@pytest.mark.slow
def test_the_suggestion_is_made_once_and_travels() -> None:
    said = subprocess.run([sys.executable, "-c", "import gradlib; gradlib.requires_gard"], capture_output=True, text=True, check=False)
    assert said.stderr.count("Did you mean") <= 1
    said = subprocess.run([sys.executable, "-c", "import gradlib; gradlib.no_gard"], capture_output=True, text=True, check=False)
    assert said.stderr.count("Did you mean") == 1
    with pytest.raises(AttributeError) as caught:
        gradlib.tahn  # noqa: B018
    assert str(pickle.loads(pickle.dumps(caught.value))) == str(caught.value)


def test_a_tensor_suggests_the_nearest_name() -> None:
    """From Python 3.12 in the error's own text; before, Python's traceback does, since ``__getattr__`` would slow every operation."""
    x = gradlib.ones(2)
    program = "import gradlib; gradlib.ones(2).requires_gard"
    said = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=False, timeout=60)
    assert "'Tensor' object has no attribute 'requires_gard'. Did you mean: 'requires_grad'" in said.stderr
    assert ("__getattr__" in vars(Tensor)) == (sys.version_info >= (3, 12))
    if sys.version_info >= (3, 12):
        with pytest.raises(AttributeError, match=r"'Tensor' object has no attribute 'tnah'\. Did you mean: .*'tanh'.*\?"):
            x.tnah  # noqa: B018
    assert not hasattr(x, "to_numpy")


def test_what_a_property_raises_stays_its_own() -> None:
    class Owner:
        __getattr__ = missing_attribute

        @property
        def closed(self) -> Any:
            raise AttributeError("closed at night")

        def tanh(self) -> None: ...

    with pytest.raises(AttributeError, match=r"^closed at night$"):
        Owner().closed  # noqa: B018
    with pytest.raises(AttributeError, match=r"^'Owner' object has no attribute 'tnah'\. Did you mean: 'tanh'\?$"):
        Owner().tnah  # noqa: B018
    with pytest.raises(AttributeError, match="Can't get __cuda_array_interface__"):
        gradlib.ones(2).__cuda_array_interface__  # noqa: B018
