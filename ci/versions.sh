#!/usr/bin/env bash
# Quick tests of the engine and the operations on the oldest Python and NumPy that this machine has, and on the newest, there under `python -O`.
# Further arguments go to pytest: ci/versions.sh -k trajectory
set -euo pipefail
exec "${PYTHON:-python3}" "$(dirname "$0")/versions.py" "$@"
