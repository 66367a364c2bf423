#!/usr/bin/env bash
# On a machine with a GPU: proves gradlib there and measures it. `ci/gpu.sh [-o FOLDER] [PART ...]`; without a PART all of them, in this order:
#   tests        the whole suite with CuPy on the GPU in place of hostcuda, captured graphs among it
#   memcheck, racecheck, synccheck    compute-sanitizer's, over every kernel
#   benchmarks   every one of kernels and steps against the copy bandwidth and the peak that are measured there
#   collectives  all_reduce beside NCCL alone, between several GPUs
#   planning     by Dask, with dask-cuda a GPU for each worker
# After each part benchmarks/results/<gpu>-<date>.json is written anew, of all that FOLDER holds: where a machine is lent for minutes, run the
# parts one by one into one folder, and bring that back: `python ci/gpu_record.py FOLDER` needs no GPU.
# PYTEST_ADDOPTS="-p tests.plan --device cuda" leaves out what ran on the CPU elsewhere, a third of the tests.
# Fails when anything failed. Uses the python of the active environment, with CuPy for its CUDA installed: pip install -e '.[cuda12,test]';
# for CUDA 13 after it pip uninstall -y cupy-cuda12x, then pip install -e '.[cuda13]', as two CuPys in one environment overwrite each other.
# For several GPUs also nvidia-nccl-cu12 (or -cu13) and dask-cuda; '.[bench]' to compare. It begins by saying what is missing: without some
# packages nothing, without others a part.
set -euo pipefail
from=$PWD
cd "$(dirname "$0")/.."
every=(tests memcheck racecheck synccheck benchmarks collectives planning)
work=
while getopts o: option; do
    case $option in
        o) work=$OPTARG; [[ $work == /* ]] || work=$from/$work ;;
        *) exit 2 ;;
    esac
done
shift $((OPTIND - 1))
parts=("$@")
if (( $# == 0 )); then parts=("${every[@]}"); fi
for part in "${parts[@]}"; do
    [[ " ${every[*]} " == *" $part "* ]] || { echo "ci/gpu.sh: no part $part; there are ${every[*]}" >&2; exit 2; }
done
command -v python > /dev/null || { echo "ci/gpu.sh: no command python; activate the environment that has CuPy" >&2; exit 1; }
PATH=$PATH:/usr/local/cuda/bin # compute-sanitizer is often not on it
export PYTHONPATH="$PWD${PYTHONPATH:+:$PYTHONPATH}" # a checkout that is not installed will do
export XLA_PYTHON_CLIENT_PREALLOCATE=false # else the first process that imports JAX takes three quarters of the GPU's memory

workers=$(python - <<'PY'
import os
import sys
from importlib.metadata import distributions
from importlib.util import find_spec

absent = [x for x in ("numpy", "nvtx", "gradlib", "pytest", "xdist", "hypothesis", "scipy", "ml_dtypes") if find_spec(x) is None]
if absent:
    sys.exit(f"ci/gpu.sh needs {', '.join(absent)}, not installed: pip install -e '.[test]', or without a network from wheels")
found = sorted({x.name for x in distributions() if x.name and x.name.startswith("cupy")})
if not found:
    sys.exit("ci/gpu.sh needs CuPy, not installed: pip install -e '.[cuda12]', or '.[cuda13]' by the CUDA version that nvidia-smi shows")
if len(found) > 1:
    sys.exit(f"ci/gpu.sh needs one CuPy, found {', '.join(found)}: pip uninstall all of them, then install the one for this CUDA again")

import cupy

if not cupy.cuda.is_available():
    sys.exit("no GPU that CuPy can use: ci/gpu.sh is for machines that have one; `gradlib info --no-compile` says what is missing")
cupy.arange(3).sum().item()  # now, rather than in each test: whether CuPy finds NVRTC and CUDA's headers
print(f"CuPy {cupy.__version__}, {cupy.cuda.runtime.getDeviceProperties(0)['name'].decode()}", file=sys.stderr)
print(max(1, min(os.cpu_count() or 1, cupy.cuda.runtime.memGetInfo()[0] >> 30)))  # each with a GiB of the GPU's memory
PY
)

if [[ -z $work ]]; then
    work=$(mktemp -d)
    trap 'rm -rf "$work"' EXIT
fi
mkdir -p "$work"
failed=0
has() { python -c 'import sys; from importlib.util import find_spec; sys.exit(not all(map(find_spec, sys.argv[1:])))' "$@"; }

run_tests() { python -m pytest -q --numprocesses "$workers" --junitxml="$work/tests.xml"; }

# without CuPy's pools, within whose large blocks it would see no array's end
sanitize() {
    if ! command -v compute-sanitizer > /dev/null; then
        echo "ci/gpu.sh: no $1: compute-sanitizer, which comes with CUDA's toolkit, is not on PATH nor in /usr/local/cuda/bin" >&2
        echo "not installed" > "$work/$1.txt"
        return
    fi
    local options=(--tool "$1" --error-exitcode 9) result=0
    local kernels=(tests/trajectory/test_kernels.py tests/trajectory/test_start_rows.py tests/trajectory/test_cost.py
        tests/trajectory/planning/test_lbfgs_graph.py
        tests/cuda/test_kernel.py tests/cuda/test_launch.py tests/cuda/test_expressions.py tests/cuda/test_graphs.py
        tests/cuda/test_graphs_of_functions.py tests/cuda/test_graphs_of_kernels.py tests/cuda/test_graphs_of_operations.py
        tests/cuda/test_graphs_of_optimisers.py tests/core/test_device_rules.py tests/core/test_device_writes.py tests/core/test_symbols.py
        tests/optim/test_foreach.py tests/ops/test_places.py tests/ops/test_random.py tests/backend)
    # some tests have the driver refuse a call, which is no fault of a kernel
    if [[ $1 == memcheck ]]; then options+=(--report-api-errors no); fi
    GRADLIB_TEST_POOL=0 compute-sanitizer "${options[@]}" python -m pytest -q -m cuda "${kernels[@]}" || result=$?
    if (( result == 0 )); then echo passed; else echo "failed ($result)"; fi > "$work/$1.txt"
    return "$result"
}

run_benchmarks() { python -m benchmarks --device cuda --json "$work/figures.json"; }

run_collectives() {
    local gpus
    gpus=$(python -c 'import gradlib.cuda; print(gradlib.cuda.device_count())')
    if (( gpus < 2 )); then
        echo "ci/gpu.sh: one GPU, so no all_reduce between several" >&2
    elif ! python -c 'import sys, gradlib.distributed as d; sys.exit(not d.is_nccl_available())' || ! has mpi4py \
        || ! command -v mpiexec > /dev/null; then
        echo "ci/gpu.sh: no all_reduce: it needs NCCL, mpi4py and mpiexec" >&2
    else
        python -m gradlib.distributed.launch -n "$gpus" benchmarks/collectives.py "$work/collectives.json"
    fi
}

run_planning() {
    local gpus planners=(1)
    if ! has distributed; then
        echo "ci/gpu.sh: no planning: it needs Dask, pip install 'gradlib[dask]'" >&2
        return
    fi
    gpus=$(python -c 'import gradlib.cuda; print(gradlib.cuda.device_count())')
    if (( gpus > 1 )) && has dask_cuda; then planners+=("$gpus"); fi
    python -m benchmarks.planning --device cuda --problems 20000 --workers "${planners[@]}" | tee "$work/planning.txt"
}

python ci/gpu_record.py --facts "$work"
for part in "${parts[@]}"; do
    echo "ci/gpu.sh: $part" >&2
    case $part in
        *check) sanitize "$part" || failed=1 ;;
        *) "run_$part" || failed=1 ;;
    esac
    python ci/gpu_record.py "$work" || failed=1
done
exit "$failed"
