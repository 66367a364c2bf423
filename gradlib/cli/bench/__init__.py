"""`gradlib bench`: times gradlib against what one would use instead, on this machine.

The way of the data: a suite makes cases (`case`), of which each builds a run for every peer (`peers`); `runner` has the runs agree, then
has `timing` measure them and makes rows; `table`, `plot` and `compare` show the rows, `record` keeps them.
"""

from gradlib.cli.bench.command import add_parser

__all__ = ["add_parser"]
