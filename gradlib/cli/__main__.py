"""`python -m gradlib.cli` is the `gradlib` command."""

import sys

from gradlib.cli.process import run

sys.exit(run())
