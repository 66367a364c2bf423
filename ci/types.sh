#!/usr/bin/env bash
# mypy over the package (its settings are in pyproject.toml), and what mypy and pyright say of right and wrong calls of it.
set -euo pipefail
source "$(dirname "$0")/venv.sh"
python -m mypy
python ci/typed_calls.py
