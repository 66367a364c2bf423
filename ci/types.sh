#!/usr/bin/env bash
# mypy over the package; its settings are in pyproject.toml.
set -euo pipefail
source "$(dirname "$0")/venv.sh" dev
python -m mypy
