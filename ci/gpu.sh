#!/usr/bin/env bash
# On a machine with a GPU: the whole suite with CuPy on that in place of hostcuda, compute-sanitizer over the kernel tests where it is
# there, and every benchmark; writes benchmarks/results/<gpu>-<date>.json and fails when anything failed. Uses the python of the active
# environment, with CuPy for its CUDA installed: pip install -e '.[cuda12,test]' or '.[cuda13,test]'; with two GPUs and NCCL (pip install
# nvidia-nccl-cu12) the collectives between them are tested too.
set -euo pipefail
cd "$(dirname "$0")/.."

workers=$(python - <<'PY'
import os
import sys

import cupy

if not cupy.cuda.is_available():
    sys.exit("no GPU: ci/gpu.sh is for machines that have one")
print(f"CuPy {cupy.__version__}, {cupy.cuda.runtime.getDeviceProperties(0)['name'].decode()}", file=sys.stderr)
print(max(1, min(os.cpu_count() or 1, cupy.cuda.runtime.memGetInfo()[0] >> 30)))  # each with a GiB of the GPU's memory
PY
)

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
failed=0

python -m pytest -q --numprocesses "$workers" --junitxml="$work/tests.xml" || failed=1
sanitizer="not installed"
if command -v compute-sanitizer > /dev/null; then
    sanitizer=passed
    for tool in memcheck racecheck; do
        compute-sanitizer --tool "$tool" --error-exitcode 9 \
            python -m pytest -q -m cuda tests/trajectory/test_kernels.py tests/cuda/test_kernel.py tests/cuda/test_graphs_of_kernels.py \
            || { sanitizer="$tool failed"; failed=1; }
    done
fi
python -m benchmarks --device cuda --json "$work/figures.json" || failed=1
python ci/gpu_record.py "$work" "$sanitizer" || failed=1
exit "$failed"
