#!/usr/bin/env bash
# ruff (undefined names included), and the rule that imports only point down, nowhere in a circle.
set -euo pipefail
source "$(dirname "$0")/venv.sh"
ruff check .
python ci/imports.py
