"""`python -m gradlib` is the `gradlib` command."""

import sys

from gradlib.cli.entry import main

sys.exit(main())
