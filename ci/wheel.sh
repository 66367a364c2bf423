#!/usr/bin/env bash
# Builds the wheel from a clean clone of HEAD and tries it in an empty environment that has only the core dependencies.
set -euo pipefail
cd "$(dirname "$0")/.."
export PIP_DISABLE_PIP_VERSION_CHECK=1

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
unset PYTHONPATH PYTHONDONTWRITEBYTECODE # the second of two processes reads the bytecode of the first

git clone --quiet . "$work/clone"
"${PYTHON:-python3}" -m venv "$work/env"
"$work/env/bin/pip" wheel -qq --no-deps --wheel-dir "$work/dist" "$work/clone"
"$work/env/bin/pip" install -qq "$work"/dist/gradlib-*.whl

cd "$work" # away from the checkout, so that only the wheel can be imported
"$work/env/bin/python" - "$work/clone" <<'PY'
import sys
from importlib.metadata import distributions
from pathlib import Path

import gradlib
from gradlib.cuda.source import kernel_files, kernel_folder, read_source

clone = Path(sys.argv[1])
assert Path(gradlib.__file__).is_relative_to(sys.prefix), f"imported from {gradlib.__file__}, not from the wheel"
expected = {p.relative_to(clone / "kernels").as_posix() for p in (clone / "kernels").rglob("*.cu*")}
assert set(kernel_files()) == expected != set(), f"wheel has {kernel_files()}, the clone {sorted(expected)}"
for name in expected:
    assert read_source(name) == (clone / "kernels" / name).read_text(encoding="utf-8"), name
assert (Path(gradlib.__file__).parent / "py.typed").is_file(), "py.typed is missing"
installed = {d.name.lower() for d in distributions()} - {"pip", "setuptools", "wheel"}
assert installed == {"gradlib", "numpy", "nvtx"}, f"core dependencies have grown: {installed}"
print(f"wheel: gradlib {gradlib.__version__}, {len(expected)} kernel files in {kernel_folder()}")
PY
"$work/env/bin/gradlib" --version
"$work/env/bin/python" -m gradlib --version
"$work/env/bin/gradlib" bench overhead --quick --only "backward of one node"  # it begins anew, with one thread
"$work/env/bin/gradlib" trajopt --samples 4 --seed 0 --out "$work/out"
test -s "$work/out/trajectories.npz"
test -s "$work/out/trajectories.csv"
