#!/usr/bin/env bash
# On a machine with a GPU: the whole suite with CuPy on that in place of hostcuda, captured graphs among it; compute-sanitizer over every
# kernel where it is there; every benchmark of kernels and steps against the copy bandwidth and the peak that are measured there; all_reduce
# beside NCCL alone where there are two GPUs; planning by Dask, with dask-cuda a GPU for each worker. Writes
# benchmarks/results/<gpu>-<date>.json and fails when anything failed. Uses the python of the active environment, with CuPy for its CUDA
# installed: pip install -e '.[cuda12,test]'; for CUDA 13 after it pip uninstall -y cupy-cuda12x, then pip install -e '.[cuda13]', as two
# CuPys in one environment overwrite each other. For several GPUs also nvidia-nccl-cu12 (or -cu13) and dask-cuda; '.[bench]' to compare.
# It begins by saying what is missing: without some packages nothing, without others a part.
set -euo pipefail
cd "$(dirname "$0")/.."
command -v python > /dev/null || { echo "ci/gpu.sh: no command python; activate the environment that has CuPy" >&2; exit 1; }
PATH=$PATH:/usr/local/cuda/bin # compute-sanitizer is often not on it

workers=$(python - <<'PY'
import os
import sys
from importlib.metadata import distributions
from importlib.util import find_spec

absent = [x for x in ("numpy", "nvtx", "gradlib", "pytest", "xdist", "hypothesis", "scipy", "ml_dtypes") if find_spec(x) is None]
if absent:
    sys.exit(f"ci/gpu.sh needs {', '.join(absent)}, not installed: pip install -e '.[test]', or without a network from wheels")
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
has() { python -c 'import sys; from importlib.util import find_spec; sys.exit(not all(map(find_spec, sys.argv[1:])))' "$@"; }
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}" # a checkout that is not installed will do

python -m pytest -q --numprocesses "$workers" --junitxml="$work/tests.xml" || failed=1
# without CuPy's pools, within whose large blocks it would see no array's end
kernels=(tests/trajectory/test_kernels.py tests/trajectory/test_start_rows.py tests/cuda/test_kernel.py tests/cuda/test_expressions.py
    tests/cuda/test_graphs.py tests/cuda/test_graphs_of_functions.py tests/cuda/test_graphs_of_kernels.py
    tests/cuda/test_graphs_of_optimisers.py tests/optim/test_foreach.py tests/ops/test_random.py)
sanitizer="not installed"
if command -v compute-sanitizer > /dev/null; then
    sanitizer=passed
    for tool in memcheck racecheck synccheck; do
        options=(--tool "$tool" --error-exitcode 9)
        # some tests have the driver refuse a call, which is no fault of a kernel
        if [[ $tool == memcheck ]]; then options+=(--report-api-errors no); fi
        GRADLIB_TEST_POOL=0 compute-sanitizer "${options[@]}" python -m pytest -q -m cuda "${kernels[@]}" \
            || { sanitizer="$tool failed"; failed=1; }
    done
fi
python -m benchmarks --device cuda --json "$work/figures.json" || failed=1
gpus=$(python -c 'import gradlib.cuda; print(gradlib.cuda.device_count())')
if (( gpus < 2 )); then
    echo "ci/gpu.sh: one GPU, so no all_reduce between several" >&2
elif ! python -c 'import sys, gradlib.distributed as d; sys.exit(not d.is_nccl_available())' || ! has mpi4py || ! command -v mpiexec > /dev/null; then
    echo "ci/gpu.sh: no all_reduce: it needs NCCL, mpi4py and mpiexec" >&2
else
    python -m gradlib.distributed.launch -n "$gpus" benchmarks/collectives.py "$work/collectives.json" || failed=1
fi
if has distributed; then
    planners=(1)
    if (( gpus > 1 )) && has dask_cuda; then planners+=("$gpus"); fi
    python -m benchmarks.planning --device cuda --problems 20000 --workers "${planners[@]}" | tee "$work/planning.txt" || failed=1
else
    echo "ci/gpu.sh: no planning: it needs Dask, pip install 'gradlib[dask]'" >&2
fi
python ci/gpu_record.py "$work" "$sanitizer" || failed=1
exit "$failed"
