#!/usr/bin/env bash
# The documentation as a site, into build/docs/html: the READMEs, the pages of gradlib/docs, and every public name with its signature.
# Fails on a warning of the generator and on an internal link that leads nowhere.
set -euo pipefail
source "$(dirname "$0")/venv.sh"
python ci/docs.py
