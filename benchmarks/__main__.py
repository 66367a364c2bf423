"""`python -m benchmarks ...` is `gradlib bench ...`."""

import sys

from gradlib.cli import main

if __name__ == "__main__":
    sys.exit(main(["bench", *sys.argv[1:]]))
