"""`python -m gradlib` is the `gradlib` command."""

import sys

from gradlib.cli import main

sys.exit(main())
