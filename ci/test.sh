#!/usr/bin/env bash
# The tests, on every core, short files first; says beforehand how long it will take. `ci/test.sh --quick` runs a choice of them.
# Further arguments go to pytest: ci/test.sh -k trajectory
set -euo pipefail
source "$(dirname "$0")/venv.sh"
python ci/imports.py
python -m pytest -p tests.plan --numprocesses auto --dist loadgroup "$@"
