"""`python -m benchmarks ...` is `gradlib bench ...`."""

import sys

from gradlib.cli import main

if __name__ == "__main__":
    sys.argv.insert(1, "bench")  # in the process's own arguments, with which it may begin anew
    sys.exit(main())
