#!/usr/bin/env bash
# On a machine with a GPU: the tests, those marked `cuda` included, compute-sanitizer over the kernel tests where it is there, and the
# benchmarks; writes benchmarks/results/<gpu>-<date>.json and fails when anything failed. Uses the python of the active environment,
# with CuPy for its CUDA installed (pip install -e '.[cuda12,test]' or '.[cuda13,test]').
set -euo pipefail
cd "$(dirname "$0")/.."

python - <<'PY'
import cupy

count = cupy.cuda.runtime.getDeviceCount()
assert count > 0, "no GPU: ci/gpu.sh is for machines that have one"
print(f"CuPy {cupy.__version__}, {cupy.cuda.runtime.getDeviceProperties(0)['name'].decode()}")
PY

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

python -m pytest -q --junitxml="$work/tests.xml" || failed=1
sanitizer="not installed"
if command -v compute-sanitizer > /dev/null; then
    sanitizer=passed
    for tool in memcheck racecheck; do
        compute-sanitizer --tool "$tool" --error-exitcode 9 python -m pytest -q -m cuda tests/trajectory/test_kernels.py -k "chunks or repeats or rows or smoothness" \
            || { sanitizer="$tool failed"; failed=1; }
    done
fi
python -m benchmarks trajectory --json "$work/figures.json" || failed=1

python - "$work" "$sanitizer" <<'PY' || failed=1
import json
import re
import subprocess
import sys
import xml.etree.ElementTree
from datetime import date
from pathlib import Path

import cupy

work, sanitizer = Path(sys.argv[1]), sys.argv[2]
suite = xml.etree.ElementTree.parse(work / "tests.xml").getroot().find("testsuite")
name = cupy.cuda.runtime.getDeviceProperties(0)["name"].decode()
run = lambda *command: subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip()
driver = run("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader").splitlines()[0]
figures = work / "figures.json"
record = {
    "gpu": name,
    "driver": driver,
    "cuda": cupy.cuda.runtime.runtimeGetVersion(),
    "cupy": cupy.__version__,
    "commit": run("git", "rev-parse", "HEAD") + (" with changes" if run("git", "status", "--porcelain") else ""),
    "date": date.today().isoformat(),
    "tests": {k: int(suite.get(k)) for k in ("tests", "failures", "errors", "skipped")},
    "compute_sanitizer": sanitizer,
    **(json.loads(figures.read_text()) if figures.exists() else {}),
}
folder = Path("benchmarks/results")
folder.mkdir(exist_ok=True)
target = folder / f"{re.sub(r'[^A-Za-z0-9]+', '-', name).strip('-').lower()}-{record['date']}.json"
target.write_text(json.dumps(record, indent=2) + "\n")
print(f"wrote {target}")
PY
exit "$failed"
