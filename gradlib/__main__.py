"""`python -m gradlib` is the `gradlib` command."""

import sys

from gradlib.cli.process import run

sys.exit(run())
