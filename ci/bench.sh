#!/usr/bin/env bash
# A choice of what `gradlib bench` measures, against the results that are kept: what takes five times as much of NumPy's time as there has
# broken. Times by themselves depend on who else uses the cores.
set -euo pipefail
source "$(dirname "$0")/venv.sh"
kept=(benchmarks/results/cpu-*.json)
gradlib bench overhead ops --quick --peers numpy --compare "${kept[-1]}" --tolerance 5
