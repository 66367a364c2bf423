#!/usr/bin/env bash
# On a machine with a GPU: the whole suite with CuPy on that in place of hostcuda, captured graphs among it; compute-sanitizer over every
# kernel where it is there; every benchmark of kernels and steps against the copy bandwidth and the peak that are measured there; all_reduce
# beside NCCL alone where there are two GPUs; planning by Dask, with dask-cuda a GPU for each worker. Writes
# benchmarks/results/<gpu>-<date>.json and fails when anything failed. Uses the python of the active environment, with CuPy for its CUDA
# installed: pip install -e '.[cuda12,test]'; for CUDA 13 after it pip uninstall -y cupy-cuda12x, then pip install -e '.[cuda13]', as two
# CuPys in one environment overwrite each other. For several GPUs also nvidia-nccl-cu12 (or -cu13) and dask-cuda; '.[bench]' to compare.
set -euo pipefail
cd "$(dirname "$0")/.."

workers=$(python - <<'PY'
import os
import sys
from importlib.metadata import distributions

found = sorted(x.name for x in distributions() if x.name.startswith("cupy"))
if len(found) != 1:
    sys.exit(f"ci/gpu.sh needs one CuPy, found {found or 'none'}: pip uninstall those not for this CUDA, then install that one again")

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
# without CuPy's pools, within whose large blocks it would see no array's end
kernels=(tests/trajectory/test_kernels.py tests/trajectory/test_start_rows.py tests/cuda/test_kernel.py tests/cuda/test_expressions.py
    tests/cuda/test_graphs.py tests/cuda/test_graphs_of_functions.py tests/cuda/test_graphs_of_kernels.py
    tests/cuda/test_graphs_of_optimisers.py tests/optim/test_foreach.py tests/ops/test_random.py)
sanitizer="not installed"
if command -v compute-sanitizer > /dev/null; then
    sanitizer=passed
    for tool in memcheck racecheck synccheck; do
        GRADLIB_TEST_POOL=0 compute-sanitizer --tool "$tool" --error-exitcode 9 python -m pytest -q -m cuda "${kernels[@]}" \
            || { sanitizer="$tool failed"; failed=1; }
    done
fi
python -m benchmarks --device cuda --json "$work/figures.json" || failed=1
gpus=$(python -c 'import gradlib.cuda; print(gradlib.cuda.device_count())')
if (( gpus > 1 )) && python -c 'import sys, gradlib.distributed as d; sys.exit(not d.is_nccl_available())'; then
    python -m gradlib.distributed.launch -n "$gpus" benchmarks/collectives.py "$work/collectives.json" || failed=1
fi
planners=1
if (( gpus > 1 )) && python -c 'import dask_cuda' 2> /dev/null; then planners="1 $gpus"; fi
# shellcheck disable=SC2086  # one word for each number of workers
python -m benchmarks.planning --device cuda --problems 20000 --workers $planners | tee "$work/planning.txt" || failed=1
python ci/gpu_record.py "$work" "$sanitizer" || failed=1
exit "$failed"
