"""The package as a whole: its version, its kernels, its dependencies, and the direction of its imports."""

from __future__ import annotations

import importlib.util
import re
from importlib.metadata import metadata, requires, version
from pathlib import Path
from types import ModuleType

import pytest

import gradlib
from gradlib.cuda.source import kernel_files, kernel_folder, read_source

ROOT = Path(__file__).resolve().parent.parent


@pytest.fixture
def imports() -> ModuleType:
    """ci/imports.py, loaded afresh."""
    spec = importlib.util.spec_from_file_location("imports", ROOT / "ci" / "imports.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_version_is_the_installed_one() -> None:
    assert gradlib.__version__ == version("gradlib")


def test_core_dependencies_are_numpy_and_nvtx() -> None:
    core = {re.split(r"[<>=~! ;]", line)[0] for line in requires("gradlib") or [] if "extra ==" not in line}
    assert core == {"numpy", "nvtx"}


def test_extras() -> None:
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


def test_imports_point_down_and_nothing_heavy_is_loaded(imports: ModuleType) -> None:
    assert list(imports.faults()) == []
    assert imports.heavy_modules() == []


@pytest.mark.parametrize(
    ("line", "target"),
    [
        ("from gradlib.autograd import grad", "autograd"),
        ("from ..trajectory import step_position", "trajectory"),
        ("def later():\n    import gradlib.ops", "ops"),
        ("import gradlib", "gradlib"),
        ("from gradlib import tensor", "gradlib"),
        ("if TYPE_CHECKING:\n    pass\nelse:\n    from gradlib import cli", "cli"),
    ],
)
def test_import_that_points_up_is_caught(imports: ModuleType, tmp_path: Path, line: str, target: str) -> None:
    plant(imports, tmp_path, line)
    (fault,) = imports.faults()
    assert f"core imports {target}" in fault


@pytest.mark.parametrize(
    "line",
    [
        "from gradlib.backend import anything",
        "from .. import backend",
        "from . import tensor",
        "import numpy",
        "if TYPE_CHECKING:\n    from gradlib import cli",
    ],
)
def test_import_that_points_down_is_allowed(imports: ModuleType, tmp_path: Path, line: str) -> None:
    plant(imports, tmp_path, line)
    assert list(imports.faults()) == []


def test_room_without_a_floor_is_caught(imports: ModuleType, tmp_path: Path) -> None:
    plant(imports, tmp_path, "import numpy")
    (tmp_path / "gradlib" / "attic").mkdir()
    (tmp_path / "gradlib" / "attic" / "__init__.py").touch()
    (fault,) = imports.faults()
    assert fault.startswith("gradlib/attic: no floor")


def plant(imports: ModuleType, folder: Path, line: str) -> None:
    """A copy of the house with empty rooms, and `line` in a file of core."""
    package = folder / "gradlib"
    for room in ("backend", "core", "ops", "autograd", "trajectory", "cli"):
        (package / room).mkdir(parents=True)
        (package / room / "__init__.py").touch()
    (package / "__init__.py").touch()
    (package / "core" / "planted.py").write_text(line + "\n")
    imports.ROOT, imports.PACKAGE = folder, package
