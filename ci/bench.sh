#!/usr/bin/env bash
# A choice of what `gradlib bench` measures, against the results that are kept: what takes five times as long as there has broken. The factor
# is that wide since other checks, and other machines, share the cores.
set -euo pipefail
source "$(dirname "$0")/venv.sh"
kept=(benchmarks/results/cpu-*.json)
gradlib bench overhead models ops --quick --peers numpy --compare "${kept[-1]}" --tolerance 5
