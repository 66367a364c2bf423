#!/usr/bin/env bash
# The "cuda" tests once more, on the real CuPy: the unmodified wheel over a CUDA driver that runs on the CPU (gradlib/testing/hostcuda).
# Further arguments go to pytest. Left out are the tests whose subject is the stand-in, and those of commands and files.
set -euo pipefail
source "$(dirname "$0")/venv.sh" test
reason=$(python -c "from gradlib.testing import hostcuda; print(hostcuda.reason_against() or '')")
if [[ -n "$reason" ]]; then
    echo "skipped: $reason"
    exit 0
fi
python -m pytest --numprocesses auto -p gradlib.testing.hostcuda -k "cuda or testing" \
    tests/testing tests/core tests/ops tests/func tests/optim tests/autograd tests/backend tests/utils tests/trajectory \
    tests/cuda/test_launch.py tests/cuda/test_not_current.py tests/cuda/test_array_interface.py "$@"
