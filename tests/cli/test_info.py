"""`gradlib info` on machines that lack one thing or another: each made for real, in a process of its own."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import sys
from dataclasses import asdict, fields
from importlib import metadata
from pathlib import Path

import pytest

import gradlib
from gradlib.cli import main
from gradlib.cli.info import cuda, packages
from gradlib.cli.info.facts import Gpu, KernelFile, Kernels, Machine, Part, first_line
from gradlib.cli.info.text import kernels_text, text
from gradlib.trajectory.kernel_options import VARIANTS
from tests import shim

ROOT = Path(__file__).resolve().parents[2]
CUPY = sorted(set(metadata.packages_distributions().get("cupy", ())))
needs_cupy = pytest.mark.skipif(len(CUPY) != 1, reason="CuPy is not installed")
no_driver = pytest.mark.skipif(cuda.driver_version() != 0, reason="this machine has an NVIDIA driver")

FROM_12 = r"pip install '(gradlib\[cuda12\]|cupy-cuda12x\[ctk\])'"
FROM_13 = r"pip install '(gradlib\[cuda13\]|cupy-cuda13x\[ctk\])'"
FROM_EITHER = f"{FROM_12} or, where `nvidia-smi` shows CUDA 13, {FROM_13}"
WITHOUT_CUPY = "import sys; sys.modules.update(cupy=None, cupyx=None, cupy_backends=None)"


@pytest.fixture
def info(tmp_path):
    """Run `gradlib info` in a process of its own, whose warnings are errors; gives (exit status, output, errors).

    ``path``: folders before all others on Python's path; ``before``: what the process does first; further names: its environment.
    """

    def go(*arguments, path=(), before="", **environment):
        code = f"{before}\nimport sys\nfrom gradlib.cli import main\nsys.exit(main(sys.argv[1:]))"
        known = {**os.environ, "PYTHONPATH": os.pathsep.join(map(str, [*path, ROOT])), **environment}
        command = [sys.executable, "-W", "error", "-c", code, "info", *arguments]
        done = subprocess.run(command, cwd=tmp_path, env=known, capture_output=True, text=True)
        assert "Traceback" not in done.stderr, done.stderr
        return done.returncode, done.stdout, done.stderr

    return go


@pytest.fixture
def facts(info):
    """`gradlib info --json --no-compile` in a process of its own; gives (exit status, the object)."""

    def go(**options):
        status, out, errors = info("--json", "--no-compile", **options)
        assert errors == ""
        return status, json.loads(out)

    return go


@pytest.fixture(scope="module")
def needs_nvrtc() -> None:
    """Skips where a process of its own finds no NVRTC; this one may have loaded something else in place of CuPy."""
    known = {**os.environ, "PYTHONPATH": str(ROOT)}
    if subprocess.run([sys.executable, "-c", "from gradlib.cuda import nvrtc; nvrtc.version()"], env=known, capture_output=True).returncode:
        pytest.skip("no NVRTC: pip install cupy-cuda12x nvidia-cuda-nvrtc-cu12")


def test_json_is_one_object_whose_keys_the_help_names(capsys):
    assert main(["info", "--json", "--no-compile"]) == 0
    shown = capsys.readouterr()
    found = json.loads(shown.out)
    assert shown.err == ""
    assert list(found) == [*(field.name for field in fields(Machine)), "broken"]
    assert found["gradlib"] == gradlib.__version__
    assert found["packages"]["numpy"] == asdict(Part(metadata.version("numpy"), packages.REQUIRED["numpy"]))
    assert found["kernels"] == {"architecture": None, "files": [], "problem": "not checked: --no-compile", "broken": False}
    with pytest.raises(SystemExit, match="0"):
        main(["info", "--help"])
    words = set(re.findall(r"\w+", capsys.readouterr().out))
    assert words >= {field.name for kind in (Machine, Part, Gpu, Kernels, KernelFile) for field in fields(kind)} | {"broken"}


def test_gpus_are_those_that_cupy_finds(capsys):
    cupy = pytest.importorskip("cupy")
    runtime = cupy.cuda.runtime
    try:
        count = runtime.getDeviceCount()
    except runtime.CUDARuntimeError:
        pytest.skip("no GPU")
    assert main(["info", "--json", "--no-compile"]) == 0
    found = json.loads(capsys.readouterr().out)
    assert found["cupy"]["version"] == cupy.__version__
    assert len(found["gpus"]) == count > 0
    for index, gpu in enumerate(found["gpus"]):
        expected = runtime.getDeviceProperties(index)
        assert gpu["index"] == index
        assert gpu["name"] == expected["name"].decode()
        assert gpu["compute_capability"] == f"{expected['major']}.{expected['minor']}"
        assert 0 < gpu["free_memory"] <= gpu["total_memory"] == expected["totalGlobalMem"]
        assert gpu["problem"] is None
    assert main(["info", "--no-compile"]) == 0
    assert f"GPU {count - 1}" in capsys.readouterr().out


@pytest.mark.skipif(shim.COMPILER is None or sys.platform != "linux", reason="no g++ to make a driver with")
@pytest.mark.parametrize(
    ("number", "status", "version", "command"), [(12080, 0, "12.8", FROM_12), (13000, 0, "13.0", FROM_13), (12080, 3, None, FROM_EITHER)]
)
@pytest.mark.slow
def test_without_cupy_the_driver_says_which_to_install(facts, tmp_path, number, status, version, command):
    """A driver library that answers what it is told to (3: CUDA_ERROR_NOT_INITIALIZED)."""
    source, library = tmp_path / "driver.cpp", tmp_path / "libcuda.so.1"
    source.write_text(f'extern "C" int cuDriverGetVersion(int* version) {{ *version = {number}; return {status}; }}')
    subprocess.run([shim.COMPILER, "-shared", "-fPIC", "-o", library, source], check=True)
    done, found = facts(before=WITHOUT_CUPY, LD_LIBRARY_PATH=str(tmp_path))
    assert done == 0
    assert found["driver"]["version"] == version
    assert found["cupy"]["problem"] == "missing"
    assert re.fullmatch(command, found["cupy"]["fix"])
    assert found["cuda_runtime"]["problem"] == found["nvrtc"]["problem"] == "needs CuPy"
    assert (found["gpus"], found["broken"]) == ([], [])


def test_without_cupy_kernels_are_not_checked(info):
    status, out, errors = info(before=WITHOUT_CUPY)
    assert status == 0
    assert errors == ""
    assert re.search(r"^CuPy +missing$", out, re.MULTILINE)
    assert re.search(r"^kernels +not checked: that needs NVRTC$", out, re.MULTILINE)


@needs_cupy
@no_driver
def test_cupy_without_a_driver(facts, info):
    status, found = facts()
    assert status == 0
    assert (found["cupy"]["version"], found["cupy"]["package"]) == (metadata.version(CUPY[0]), CUPY[0])
    assert found["cupy"]["problem"] is None
    assert found["driver"] == asdict(Part(None, "lets CUDA reach the GPUs", "missing", cuda._DRIVER))
    assert re.fullmatch(r"\d+\.\d+", found["cuda_runtime"]["version"])
    assert "cudaError" in found["cuda_runtime"]["problem"]
    assert found["cuda_runtime"]["fix"] == "install the driver first"
    assert (found["gpus"], found["broken"]) == ([], [])
    assert f"CuPy                {metadata.version(CUPY[0])} ({CUPY[0]})\n" in info("--no-compile")[1]


@needs_cupy
@no_driver
def test_driver_that_does_not_fit_cupy(info):
    """CuPy's own refusal, beside the number that a driver would give."""
    for driver, broken, fix in ((11040, True, "update the driver, which runs CUDA 11.4 at most"), (99000, False, "check that")):
        before = f"from gradlib.cli.info import cuda; cuda.driver_version = lambda: {driver}"
        status, out, _ = info("--json", "--no-compile", before=before)
        found = json.loads(out)
        assert found["cuda_runtime"]["broken"] is broken
        assert found["cuda_runtime"]["fix"].startswith(fix)
        assert (status, found["broken"]) == ((1, ["cuda_runtime"]) if broken else (0, []))


@pytest.mark.parametrize(
    ("source", "says"),
    [
        ("raise OSError('libcudart.so.12: cannot open\\nmore')", "OSError: libcudart.so.12: cannot open"),
        (
            "try:\n    import no_such_module\nexcept ImportError as e:\n    raise ImportError('\\n=====\\nFailed to import CuPy.') from e",
            "ModuleNotFoundError: No module named 'no_such_module'",
        ),
        ("raise ImportError('\\n=====\\nFailed to import CuPy.')", "ImportError: Failed to import CuPy."),
        ("", "AttributeError: module 'cupy' has no attribute '__version__'"),
    ],
)
@pytest.mark.slow
def test_cupy_that_does_not_import(facts, tmp_path, source, says):
    package = tmp_path / "site" / "cupy"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(source)
    status, found = facts(path=[package.parent])
    assert status == 1
    assert found["broken"] == ["cupy"]
    assert (found["cupy"]["version"], found["cupy"]["package"]) == (None, None)
    assert found["cupy"]["problem"] == f"does not import: {says}"
    assert found["cupy"]["fix"].startswith(f"remove {package}, then pip install ")
    assert found["cuda_runtime"]["problem"] == found["nvrtc"]["problem"] == "needs CuPy"


@pytest.mark.slow
def test_several_packages_of_cupy(facts, tmp_path):
    (tmp_path / "cupy").mkdir()
    (tmp_path / "cupy" / "__init__.py").write_text("__version__ = '14.0.0'")
    for name in ("cupy-one", "cupy-two"):
        folder = tmp_path / f"{name.replace('-', '_')}-14.0.0.dist-info"
        folder.mkdir()
        (folder / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: 14.0.0\n")
        (folder / "top_level.txt").write_text("cupy\n")
    status, found = facts(path=[tmp_path])
    assert status == 0
    assert (found["cupy"]["version"], found["cupy"]["package"]) == ("14.0.0", "cupy-one, cupy-two")
    assert found["cupy"]["problem"] == "several packages hold it"
    assert found["cupy"]["fix"].startswith("pip uninstall cupy-one cupy-two, then pip install ")
    assert found["cuda_runtime"]["problem"] == "finds no GPU: AttributeError: module 'cupy' has no attribute 'cuda'"


@pytest.mark.usefixtures("needs_nvrtc")
@pytest.mark.slow
def test_kernel_that_does_not_compile(info, tmp_path):
    """A checkout with one source, sound and then with a fault for two of the four types that it stores.

    That NVRTC compiles all of them is shown by tests/cuda/test_compile.py.
    """
    shutil.copytree(ROOT / "gradlib", tmp_path / "gradlib")
    kernels = tmp_path / "kernels"
    kernels.mkdir()
    for name in ("rows.cu", "common.cuh"):
        shutil.copy(ROOT / "kernels" / name, kernels)
    status, out, errors = info(path=[tmp_path])
    assert status == 0
    assert re.search(r"^rows\.cu +compiles for compute_\d+: 8 sets of options, \d+\.\d s$", out, re.MULTILINE)
    assert re.fullmatch(r"compiling the kernels \[#+\] 100% +\d+\.\d s\n", errors)
    status, out, errors = info("--json", path=[tmp_path])
    (sound,) = json.loads(out)["kernels"]["files"]
    assert (status, errors) == (0, "")
    assert (sound["name"], sound["variants"], sound["failed"], sound["error"]) == ("rows.cu", len(VARIANTS["rows.cu"]), 0, None)
    assert sound["seconds"] > 0
    assert re.fullmatch(r"compute_\d+", json.loads(out)["kernels"]["architecture"])
    with (kernels / "rows.cu").open("a") as file:
        file.write('static_assert(sizeof(STORAGE) > 2, "two bytes are too few");\n')
    status, out, _ = info(path=[tmp_path])
    assert status == 1
    assert re.search(r"^rows\.cu +DOES NOT COMPILE for compute_\d+: 4 of 8 sets of options, ", out, re.MULTILINE)
    status, out, _ = info("--json", path=[tmp_path])
    found = json.loads(out)
    assert (status, found["broken"]) == (1, ["rows.cu"])
    (rows,) = found["kernels"]["files"]
    assert (rows["variants"], rows["failed"]) == (8, 4)
    first, *_, last = rows["error"].splitlines()
    assert first.startswith(f"{kernels / 'rows.cu'}(")  # the whole path, which profilers and editors open
    assert re.search(r'rows\.cu\(\d+\): error: static assertion failed with "two bytes are too few"$', first)
    assert last == "with STORAGE=half_t INDEX=int"


@pytest.mark.usefixtures("needs_nvrtc")
@pytest.mark.slow
def test_kernels_that_are_not_there(info, tmp_path):
    shutil.copytree(ROOT / "gradlib", tmp_path / "gradlib")
    status, out, _ = info("--json", path=[tmp_path])
    found = json.loads(out)
    assert (status, found["broken"]) == (1, ["kernels"])
    assert found["kernels"]["problem"].startswith("FileNotFoundError: gradlib's CUDA sources are missing")


@needs_cupy
@pytest.mark.slow
def test_nvrtc_that_is_not_there(info):
    """CuPy's own words for a library that it does not find, at the call that looks for it."""
    refuse = "def version(): raise RuntimeError('No such file: libnvrtc.so.12\\nmore')"
    status, out, _ = info("--json", before=f"from gradlib.cuda import nvrtc\n{refuse}\nnvrtc.version = version")
    found = json.loads(out)
    assert (status, found["broken"]) == (0, [])
    assert found["nvrtc"]["problem"] == "RuntimeError: No such file: libnvrtc.so.12"
    assert re.fullmatch(f"{FROM_12}|{FROM_13}|{FROM_EITHER}", found["nvrtc"]["fix"])
    assert found["kernels"]["problem"] == "not checked: that needs NVRTC"


def test_kernels_are_compiled_for_the_first_gpu_as_far_as_nvrtc_goes(monkeypatch):
    monkeypatch.setattr(cuda.nvrtc, "architectures", lambda: (75, 80, 90, 100))
    assert cuda._architecture([]) == 90
    assert cuda._architecture([Gpu(0, compute_capability="8.0"), Gpu(1, compute_capability="9.0")]) == 80
    assert cuda._architecture([Gpu(0, compute_capability="10.3")]) == 100
    assert cuda._architecture([Gpu(0, compute_capability="6.1")]) == 61  # NVRTC will say that it is too old
    assert cuda._architecture([Gpu(0, problem="busy")]) == 90


def test_optional_packages_are_those_of_the_extras():
    declared = (ROOT / "pyproject.toml").read_text(encoding="utf-8").partition("[project.optional-dependencies]")[2].partition("\n[")[0]
    extras = {name: re.findall(r'"(.+?)"', rest) for name, rest in re.findall(r"^(\w+) = \[(.*?)\]", declared, re.MULTILINE | re.DOTALL)}
    for name in ("cuda12", "cuda13", "test", "bench", "docs", "dev"):
        del extras[name]
    assert [package for names in extras.values() for package in names] == list(packages.OPTIONAL)


METADATA = """\
Metadata-Version: 2.4
Name: gradlib
Version: 0.0.1
Requires-Dist: numpy>=2
Provides-Extra: bfloat16
Requires-Dist: ml-dtypes; extra == 'bfloat16'
Provides-Extra: cuda12
Requires-Dist: cupy-cuda12x[ctk]; extra == 'cuda12'
Provides-Extra: test
Requires-Dist: cupy-cuda12x>=14; (sys_platform != 'darwin') and extra == 'test'
Requires-Dist: gradlib[bfloat16]; extra == 'test'
Requires-Dist: pytest>=8; extra == "test"
"""


@pytest.fixture
def installed(monkeypatch, tmp_path):
    """Another gradlib, installed before any other."""
    folder = tmp_path / "gradlib-0.0.1.dist-info"
    folder.mkdir()
    (folder / "METADATA").write_text(METADATA)
    monkeypatch.syspath_prepend(tmp_path)
    packages._extras.cache_clear()
    yield
    packages._extras.cache_clear()


@pytest.mark.usefixtures("installed")
def test_commands_name_the_smallest_extra():
    assert packages.install("cupy-cuda12x[ctk]") == "pip install 'gradlib[cuda12]'"
    assert packages.install("ml_dtypes") == "pip install 'gradlib[bfloat16]'"
    assert packages.install("pytest") == "pip install 'gradlib[test]'"
    assert packages.install("numpy") == "pip install numpy"
    assert packages.install("cupy-cuda13x[ctk]") == "pip install 'cupy-cuda13x[ctk]'"


def test_what_a_gpu_does_not_answer_is_its_problem():
    class Device:
        compute_capability = "121"

        def __init__(self, index):
            self.index = index

        @property
        def mem_info(self):
            raise RuntimeError("cudaErrorDevicesUnavailable: all CUDA-capable devices are busy or unavailable")

    class Library:
        class cuda:
            class runtime:
                @staticmethod
                def getDeviceProperties(index):
                    return {"name": b"GB10", "totalGlobalMem": 1 << 37}

            Device = None

    Library.cuda.Device = Device
    problem = "RuntimeError: cudaErrorDevicesUnavailable: all CUDA-capable devices are busy or unavailable"
    assert cuda._gpu(Library, 3) == Gpu(3, "GB10", "12.1", 1 << 37, None, problem)


def test_all_but_the_kernels_is_shown_before_these_are_compiled(monkeypatch, capsys):
    def interrupted(*_):
        raise KeyboardInterrupt

    monkeypatch.setattr(cuda, "nvrtc_part", lambda *_: Part("12.9", "-"))
    monkeypatch.setattr(cuda, "compile_kernels", interrupted)
    assert main(["info"]) == 130
    assert re.search(r"^NVRTC +12\.9$", capsys.readouterr().out, re.MULTILINE)


def test_text_is_aligned():
    machine = Machine(
        gradlib="1.0",
        python="3.12.1",
        platform="Linux",
        packages={"numpy": Part("2.4.0", "arrays"), "ml_dtypes": Part(None, "bfloat16", "missing", "pip install ml_dtypes")},
        driver=Part("12.8", "-"),
        cupy=Part("14.2.0", "-", package="cupy-cuda12x"),
        cuda_runtime=Part("12.9", "-"),
        gpus=[Gpu(0, "NVIDIA H100 80GB HBM3", "9.0", 85_017_493_504, 84_456_000_000), Gpu(1, problem="busy")],
        nvrtc=Part("12.9", "-"),
        kernels=Kernels("compute_90", [KernelFile("chain.cu", 56, 0, 7.25, None), KernelFile("rows.cu", 8, 3, 0.5, "error\nwith A=1")]),
    )
    assert [*text(machine).splitlines(), *kernels_text(machine.kernels).splitlines()] == [
        "gradlib 1.0, Python 3.12.1, Linux",
        "",
        "numpy               2.4.0    arrays",
        "ml_dtypes           missing  bfloat16  pip install ml_dtypes",
        "",
        "CUDA driver         12.8",
        "CuPy                14.2.0 (cupy-cuda12x)",
        "CUDA runtime        12.9",
        "GPU 0               NVIDIA H100 80GB HBM3, compute capability 9.0, 79.2 GiB, 78.7 GiB free",
        "GPU 1               busy",
        "NVRTC               12.9",
        "",
        "chain.cu            compiles for compute_90: 56 sets of options, 7.2 s",
        "rows.cu             DOES NOT COMPILE for compute_90: 3 of 8 sets of options, 0.5 s",
        "                    error",
        "                    with A=1",
    ]
    assert list(machine.broken()) == ["rows.cu"]


def test_an_error_without_words_is_its_type():
    assert first_line(KeyError()) == "KeyError"
