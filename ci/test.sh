#!/usr/bin/env bash
# The tests, on every core. Further arguments go to pytest: ci/test.sh -k trajectory
set -euo pipefail
source "$(dirname "$0")/venv.sh" test
python -m pytest --numprocesses auto "$@"
