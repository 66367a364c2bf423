"""Quick tests on the oldest Python and NumPy that gradlib supports and this machine has, and on the newest: ``bash ci/versions.sh``.

The newest run under ``python -O``, which changes no result. Both run at the same time. Further arguments go to pytest; without any, the
quick tests of `CHOICE` run. Each pair has an environment of its own in ``build/versions``, without CuPy: tests on "cuda" are left out.
"""

from __future__ import annotations

import glob
import os
import shutil
import subprocess
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
SUPPORTED = ("3.10", "3.11", "3.12", "3.13", "3.14")
LEAST_NUMPY = {"3.10": "2.0", "3.11": "2.0", "3.12": "2.0", "3.13": "2.1", "3.14": "2.3"}
"""The oldest NumPy from 2.0 that has a wheel for a Python."""

CHOICE = ("tests/core", "tests/ops", "tests/func", "tests/autograd", "tests/backend", "tests/test_optimised.py", "tests/test_package.py")
"""Where versions of Python and NumPy differ: arithmetic, dtypes, arrays, generated code."""

PACKAGES = ("pytest", "pytest-xdist", "hypothesis", "scipy", "ml_dtypes", "pyyaml", "matplotlib", "ruckig", "safetensors")
SET_ASIDE = ("VIRTUAL_ENV", "PYTHONPATH", "PYTHONOPTIMIZE", "PYTHONDONTWRITEBYTECODE")
"""Variables that nothing here runs under: pip, and the processes of tests, read bytecode that the first of them wrote."""

ASK = "import ensurepip, sys, venv; print('%d.%d' % sys.version_info[:2])"


def interpreter(version: str) -> str | None:
    """A Python of that version that can make environments: on PATH, or one of pyenv's."""
    pyenv = os.environ.get("PYENV_ROOT", os.path.expanduser("~/.pyenv"))
    of_pyenv = sorted(glob.glob(f"{pyenv}/versions/{version}.*/bin/python"), reverse=True)
    for place in (shutil.which(f"python{version}"), *of_pyenv, sys.executable):
        if place is None:
            continue
        done = subprocess.run([place, "-c", ASK], capture_output=True, text=True, check=False)  # a shim of pyenv's may lead to nothing
        if done.returncode == 0 and done.stdout.strip() == version:
            return place
    return None


def surroundings() -> dict[str, str]:
    """The variables of this process without those."""
    return {key: value for key, value in os.environ.items() if key not in SET_ASIDE}


def environment(python: str, version: str, numpy: str) -> Path:
    """An environment with that NumPy, made where there is none yet; gives its Python."""
    folder = ROOT / "build" / "versions" / f"{version}-{numpy or 'newest'}"
    made, stamp = folder / "bin" / "python", folder / "ready"
    if not stamp.is_file() or stamp.stat().st_mtime < (ROOT / "pyproject.toml").stat().st_mtime:
        shutil.rmtree(folder, ignore_errors=True)
        variables = surroundings()
        subprocess.run([python, "-m", "venv", str(folder)], env=variables, check=True)  # with its own pip: an older one may not run on it
        wanted = f"numpy=={numpy}.*" if numpy else "numpy"
        options = ["-qq", "--no-compile", "--disable-pip-version-check", "--prefer-binary"]
        command = [str(made), "-m", "pip", "install", *options, wanted, *PACKAGES]
        subprocess.run([*command, "--editable", str(ROOT)], env=variables, check=True)
        stamp.touch()
    return made


def run(python: Path, optimised: bool, arguments: list[str]) -> subprocess.CompletedProcess[str]:
    """The quick tests with that Python, and what they printed."""
    options = ["-W", "ignore:assertions not in test modules:pytest.PytestConfigWarning"] if optimised else []
    variables = surroundings() | ({"PYTHONOPTIMIZE": "1"} if optimised else {})  # which the processes of tests inherit
    choice = ["-p", "tests.plan", "--quick", "--device", "cpu", "-k", "not cuda"]
    command = [str(python), "-m", "pytest", "-q", "-p", "no:cacheprovider", *choice, *options]
    command += arguments or [str(ROOT / part) for part in CHOICE]
    return subprocess.run(command, cwd=ROOT, env=variables, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)


def check(place: str, version: str, numpy: str, optimised: bool, arguments: list[str]) -> tuple[str, subprocess.CompletedProcess[str]]:
    """The name of a pair, and how the tests went on it."""
    python = environment(place, version, numpy)
    name = subprocess.run(
        [str(python), "-c", "import platform, numpy; print('Python', platform.python_version(), 'NumPy', numpy.__version__)"],
        capture_output=True, text=True, check=True,
    ).stdout.strip() + (" under -O" if optimised else "")  # fmt: skip
    return name, run(python, optimised, arguments)


def main(arguments: list[str]) -> int:
    found = {version: place for version in SUPPORTED if (place := interpreter(version))}
    for version in SUPPORTED:
        print(f"Python {version}: {found.get(version, 'not on this machine, skipped')}", flush=True)
    oldest, newest = next(iter(found)), next(reversed(found))
    pairs = [(found[oldest], oldest, LEAST_NUMPY[oldest], False), (found[newest], newest, "", True)]
    failed = []
    with ThreadPoolExecutor(len(pairs)) as pool:
        for name, done in pool.map(lambda pair: check(*pair, arguments), pairs):
            print(f"== {name}\n{done.stdout}", flush=True)
            failed += [name] if done.returncode else []
    print(f"failed: {', '.join(failed)}" if failed else "the quick tests pass on both")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
