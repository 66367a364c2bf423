"""The package as a whole: its version, its kernels, its dependencies, and the direction of its imports."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.metadata import metadata, requires, version
from pathlib import Path
from types import ModuleType

import pytest

import gradlib
from gradlib.cuda.source import kernel_files, kernel_folder, read_source
from tests.scripts import ROOT, script


@pytest.fixture
def imports() -> ModuleType:
    return script("imports")


def test_version_is_the_installed_one() -> None:
    assert gradlib.__version__ == version("gradlib")


def succeeds(code: str) -> None:
    """A program that runs to its end in an interpreter of its own."""
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr


def test_packages_that_nothing_else_uses_are_loaded_when_they_are_asked_for() -> None:
    succeeds("""
import sys, gradlib
later = {"gradlib.autograd.profiler", *(f"gradlib.{name}" for name in gradlib._LATER)}
assert not later & set(sys.modules), later & set(sys.modules)
assert gradlib._LATER <= set(dir(gradlib)) and "profiler" in dir(gradlib.autograd)
assert gradlib.autograd.profiler.profile
assert gradlib.optim.Adam and gradlib.trajectory.step_jerk
from gradlib import distributed
assert later <= set(sys.modules)
try:
    gradlib.optim.AdmW
except AttributeError as error:
    assert "AdamW" in str(error), error
""")


def test_no_collection_scans_what_the_import_made_and_nothing_is_set_apart() -> None:
    succeeds("""
import gc
class Ring: pass
ring = Ring()
ring.self = ring
import numpy
scanned = []
gc.callbacks.append(lambda phase, info: scanned.append(gc.get_count()[0] if info["generation"] == 0 else None))
import gradlib
[[] for _ in range(10)]
assert all(count is not None and count < 2000 for count in scanned), scanned
assert gc.isenabled() and gc.get_freeze_count() == 0
del ring
assert gc.collect() > 0  # what was there before is still collected
""")


def test_core_dependencies_are_numpy_and_nvtx() -> None:
    core = {re.split(r"[<>=~! ;]", line)[0] for line in requires("gradlib") or [] if "extra ==" not in line}
    assert core == {"numpy", "nvtx"}


def test_extras_are_declared() -> None:
    extras = set(metadata("gradlib").get_all("Provides-Extra") or [])
    assert extras >= {"cuda12", "cuda13", "plot", "test", "bench", "dev"}


def test_top_level_of_the_checkout() -> None:
    ignored = {"build", "dist", "trajopt"}  # .gitignore
    names = {p.name for p in ROOT.iterdir() if not p.name.startswith(".")} - ignored
    documents = {"README.md", "LICENSE", "CHANGELOG.md", "CONTRIBUTING.md"}
    assert names == {"pyproject.toml", "gradlib", "kernels", "tests", "benchmarks", "ci"} | documents


def test_every_kernel_of_the_checkout_is_found_and_read() -> None:
    on_disk = {p.name: p.read_text(encoding="utf-8") for p in (ROOT / "kernels").iterdir() if p.suffix in (".cu", ".cuh")}
    assert on_disk
    assert kernel_folder() == ROOT / "kernels"
    assert {name: read_source(name) for name in kernel_files()} == on_disk


def test_unknown_kernel_lists_those_that_exist() -> None:
    with pytest.raises(FileNotFoundError, match=re.escape(kernel_files()[0])):
        read_source("no_such.cu")


@pytest.mark.slow
def test_imports_point_down_nowhere_in_a_circle_and_nothing_heavy_is_loaded(imports: ModuleType) -> None:
    assert list(imports.faults()) == []
    assert imports.heavy_modules() == []


TYPING = "if TYPE_CHECKING:\n    "
LATER = "def later():\n    "


@pytest.mark.parametrize("kind", ["", LATER, TYPING, "if TYPE_CHECKING:\n    pass\nelse:\n    "])
@pytest.mark.parametrize(
    ("line", "target"),
    [
        ("from gradlib.autograd import grad", "autograd"),
        ("from ..trajectory import step_position", "trajectory"),
        ("import gradlib.ops", "ops"),
        ("import gradlib", "gradlib"),
        ("from gradlib import tensor", "gradlib"),
        ("import_module('gradlib.cli')", "cli"),
    ],
)
def test_import_that_points_up_is_caught(imports: ModuleType, tmp_path: Path, kind: str, line: str, target: str) -> None:
    plant(imports, tmp_path, planted=kind + line)
    (fault,) = imports.faults()
    assert f"core imports {target}, which is not below it" in fault


@pytest.mark.parametrize(
    "line",
    [
        "from gradlib.backend import anything",
        "from .. import backend",
        "from . import other",
        "from gradlib.core.other import name",
        "import numpy",
        "if TYPE_CHECKING:\n    from gradlib.core.stub import Types",
    ],
)
def test_import_that_points_down_is_allowed(imports: ModuleType, tmp_path: Path, line: str) -> None:
    plant(imports, tmp_path, planted=line, other="import numpy")
    (tmp_path / "gradlib" / "core" / "stub.pyi").write_text("from gradlib.core.planted import name\n")
    assert list(imports.faults()) == []


@pytest.mark.parametrize("there", ["from gradlib.core import planted", "import gradlib.core.planted as p", "from .planted import name"])
@pytest.mark.parametrize("back", ["from gradlib.core.other import name", LATER + "from . import other", TYPING + "from .other import Name"])
def test_two_files_that_import_each_other_are_caught(imports: ModuleType, tmp_path: Path, there: str, back: str) -> None:
    plant(imports, tmp_path, planted=back, other=there)
    first, *arrows = imports.faults()
    assert first == "a circle of 2 modules:"
    assert [arrow.split(": ", 1)[1] for arrow in arrows] == [
        "gradlib.core.other imports gradlib.core.planted",
        "gradlib.core.planted imports gradlib.core.other",
    ]


def test_a_circle_of_three_kinds_of_import_is_caught(imports: ModuleType, tmp_path: Path) -> None:
    plant(imports, tmp_path, planted=LATER + "from . import other", other=TYPING + "from .third import Name", third="from . import planted")
    assert next(imports.faults()) == "a circle of 3 modules:"


def test_a_package_and_its_own_file_in_a_circle_are_caught(imports: ModuleType, tmp_path: Path) -> None:
    plant(imports, tmp_path, __init__="from gradlib.core.planted import name", planted="from gradlib.core import name")
    assert next(imports.faults()) == "a circle of 2 modules:"


def test_package_without_a_layer_is_caught(imports: ModuleType, tmp_path: Path) -> None:
    plant(imports, tmp_path, planted="import numpy")
    (tmp_path / "gradlib" / "attic").mkdir()
    (tmp_path / "gradlib" / "attic" / "__init__.py").touch()
    (fault,) = imports.faults()
    assert fault.startswith("gradlib/attic: in no layer")


def test_layer_without_a_package_is_caught(imports: ModuleType, tmp_path: Path) -> None:
    plant(imports, tmp_path, planted="import numpy")
    imports.LAYERS += (("interop",),)
    (fault,) = imports.faults()
    assert "there is no package gradlib/interop" in fault


def plant(imports: ModuleType, folder: Path, **files: str) -> None:
    """A package with empty packages in it, and files of core with these texts."""
    packages = ("backend", "core", "ops", "autograd", "trajectory", "gradlib", "cli")
    package = folder / "gradlib"
    for name in packages:
        if name != "gradlib":
            (package / name).mkdir(parents=True)
            (package / name / "__init__.py").touch()
    (package / "__init__.py").touch()
    for name, text in files.items():
        (package / "core" / f"{name}.py").write_text(text + "\n")
    imports.ROOT, imports.PACKAGE, imports.LAYERS = folder, package, tuple((name,) for name in packages)
