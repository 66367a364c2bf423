"""`python -m benchmarks [TABLE ...] [--json FILE]`: prints the tables, and writes them to a file when asked.

A table is a module beside this one with a function `rows()`; `core` is the default.
"""

from __future__ import annotations

import argparse
import importlib
import json
from pathlib import Path

from benchmarks.timing import machine, print_table

TABLES = sorted(f.stem for f in Path(__file__).parent.glob("*.py") if "\ndef rows(" in f.read_text(encoding="utf-8"))


def main() -> None:
    parser = argparse.ArgumentParser(prog="python -m benchmarks", description="Times gradlib against others, one thread each.")
    parser.add_argument("tables", nargs="*", default=["core"], metavar="TABLE", help=f"one or more of: {', '.join(TABLES)}")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write machine and figures here")
    options = parser.parse_args()
    if unknown := set(options.tables) - set(TABLES):
        parser.error(f"no table named {', '.join(sorted(unknown))}; there are: {', '.join(TABLES)}")
    facts = machine()
    print("\n".join(f"{name}: {value}" for name, value in facts.items()))
    record: dict[str, object] = {"machine": facts}
    for table in options.tables:
        rows = importlib.import_module(f"benchmarks.{table}").rows()
        print(f"\n{table}")
        print_table(rows)
        record[table] = [row.as_dict() for row in rows]
    if options.json:
        from gradlib.files import replacing

        with replacing() as results:
            results.place(options.json).write_text(json.dumps(record, indent=2) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
