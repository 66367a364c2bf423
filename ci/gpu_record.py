"""Writes benchmarks/results/<gpu>-<date>.json: what a run of ci/gpu.sh proved, on what. `python ci/gpu_record.py FOLDER SANITIZER`.

FOLDER holds pytest's tests.xml and, where the benchmarks ran, their figures.json, collectives.json and planning.txt.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import xml.etree.ElementTree
from datetime import date
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent


def counts(report: Path) -> dict[str, int]:
    """Tests, failures, errors and skipped tests in a JUnit report of pytest."""
    suites = xml.etree.ElementTree.parse(report).getroot().iter("testsuite")
    found = [{kind: int(suite.get(kind, 0)) for kind in ("tests", "failures", "errors", "skipped")} for suite in suites]
    return {kind: sum(suite[kind] for suite in found) for kind in ("tests", "failures", "errors", "skipped")}


def record(facts: dict[str, Any], work: Path, sanitizer: str) -> dict[str, Any]:
    """What is written: the machine, how many tests ran, what the sanitizer said, and the figures of every benchmark."""
    figures, collectives, planning = work / "figures.json", work / "collectives.json", work / "planning.txt"
    return {
        **facts,
        "date": date.today().isoformat(),
        "tests": counts(work / "tests.xml"),
        "compute_sanitizer": sanitizer,
        **(json.loads(figures.read_text(encoding="utf-8")) if figures.exists() else {}),
        **({"collectives": json.loads(collectives.read_text(encoding="utf-8"))} if collectives.exists() else {}),
        **({"planning": planning.read_text(encoding="utf-8").splitlines()} if planning.exists() else {}),
    }


def file_name(made: dict[str, Any]) -> str:
    return f"{re.sub(r'[^a-z0-9]+', '-', made['gpu'].lower()).strip('-')}-{made['date']}.json"


def facts() -> dict[str, Any]:
    """GPU, driver, CUDA, CuPy and commit of this machine and checkout; "unknown" where no command tells, as in a copy without .git."""
    import cupy

    def says(*command: str) -> str | None:
        try:
            return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.strip()
        except (OSError, subprocess.CalledProcessError):
            return None

    drivers = (says("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader") or "unknown").splitlines()
    return {
        "gpu": cupy.cuda.runtime.getDeviceProperties(0)["name"].decode(),
        "driver": drivers[0],
        "cuda": cupy.cuda.runtime.runtimeGetVersion(),
        "cupy": cupy.__version__,
        "commit": (says("git", "rev-parse", "HEAD") or "unknown") + (" with changes" if says("git", "status", "--porcelain") else ""),
    }


if __name__ == "__main__":
    made = record(facts(), Path(sys.argv[1]), sys.argv[2])
    target = ROOT / "benchmarks" / "results" / file_name(made)
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")
    print(f"wrote {target.relative_to(ROOT)}")
