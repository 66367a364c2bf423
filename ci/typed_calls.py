"""What a user's type checker says of right and of wrong calls: nothing of tests/typing/right.py, and each line so marked of wrong.py."""

from __future__ import annotations

import re
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parent.parent
RIGHT, WRONG = ROOT / "tests/typing/right.py", ROOT / "tests/typing/wrong.py"
CHECKERS = {"mypy": ["-m", "mypy", "--strict"], "pyright": ["-m", "pyright"]}


def complaints(command: list[str]) -> list[dict[int, str]]:
    """For each of the two files the lines that a checker finds fault with, and what it says of each."""
    done = subprocess.run([sys.executable, *command, str(RIGHT), str(WRONG)], cwd=ROOT, capture_output=True, text=True)
    found = [re.findall(rf"{file.name}:(\d+)(?::\d+)?[ :-]+error: (.*)", done.stdout) for file in (RIGHT, WRONG)]
    if done.returncode not in (0, 1) or (done.returncode == 1 and not any(found)):
        sys.exit(f"{' '.join(command)} ended with {done.returncode}:\n{done.stdout}{done.stderr}")
    return [{int(line): text for line, text in each} for each in found]


def main() -> int:
    marked = {number for number, line in enumerate(WRONG.read_text().splitlines(), 1) if line.endswith("# wrong")}
    failed = False
    for name, command in CHECKERS.items():
        right, wrong = complaints(command)
        for line, text in right.items():
            print(f"{name}: {RIGHT.name}:{line} is right, but: {text}")
        for line in sorted(marked - wrong.keys()):
            print(f"{name}: {WRONG.name}:{line} is wrong, and was not found")
        for line in sorted(wrong.keys() - marked):
            print(f"{name}: {WRONG.name}:{line} is not marked as wrong, but: {wrong[line]}")
        failed |= bool(right) or wrong.keys() != marked
        print(f"{name}: {len(marked & wrong.keys())} of {len(marked)} wrong calls found, {len(right)} complaints of right ones")
    return int(failed)


if __name__ == "__main__":
    sys.exit(main())
