"""`python -m benchmarks [core] [--json FILE]`: prints the table, and writes it to a file when asked."""

from __future__ import annotations

import argparse
import json
from pathlib import Path

from benchmarks import core
from benchmarks.timing import machine, print_table


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Times gradlib against others, one thread each.")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write machine and figures here")
    options = parser.parse_args()
    facts = machine()
    print("\n".join(f"{name}: {value}" for name, value in facts.items()), end="\n\n")
    rows = core.rows()
    print_table(rows)
    if options.json:
        record = {"machine": facts, "rows": [row.as_dict() for row in rows]}
        options.json.write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
