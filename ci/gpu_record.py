"""Writes benchmarks/results/<gpu>-<date>.json: what the parts of ci/gpu.sh proved that have run, on what. `python ci/gpu_record.py FOLDER`.

FOLDER holds facts.json, which `python ci/gpu_record.py --facts FOLDER` writes on the machine with the GPU, and what there is of pytest's
tests.xml, the results of compute-sanitizer's tools (memcheck.txt and so on), and the benchmarks' figures.json, collectives.json and
planning.txt.
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


SANITIZERS = ("memcheck", "racecheck", "synccheck")


def record(work: Path) -> dict[str, Any]:
    """What is written: the machine, and of what has run how many tests there were, what the sanitizer said, and the figures."""
    made: dict[str, Any] = json.loads((work / "facts.json").read_text(encoding="utf-8"))
    if (tests := work / "tests.xml").exists():
        made["tests"] = counts(tests)
    if said := {tool: file.read_text(encoding="utf-8").strip() for tool in SANITIZERS if (file := work / f"{tool}.txt").exists()}:
        made["compute_sanitizer"] = said
    if (figures := work / "figures.json").exists():
        made |= json.loads(figures.read_text(encoding="utf-8"))
    if (collectives := work / "collectives.json").exists():
        made["collectives"] = json.loads(collectives.read_text(encoding="utf-8"))
    if (planning := work / "planning.txt").exists():
        made["planning"] = planning.read_text(encoding="utf-8").splitlines()
    return made


def file_name(made: dict[str, Any]) -> str:
    return f"{re.sub(r'[^a-z0-9]+', '-', made['gpu'].lower()).strip('-')}-{made['date']}.json"


def facts() -> dict[str, Any]:
    """Date, GPU, driver, CUDA, CuPy, commit of this machine and checkout; "unknown" where no command tells, as in a copy without .git."""
    import cupy

    def says(*command: str) -> str | None:
        try:
            return subprocess.run(command, capture_output=True, text=True, check=True, cwd=ROOT).stdout.strip()
        except (OSError, subprocess.CalledProcessError):
            return None

    changed = says("git", "status", "--porcelain", "--", ".", ":!benchmarks/results")  # but for what this program wrote
    drivers = (says("nvidia-smi", "--query-gpu=driver_version", "--format=csv,noheader") or "unknown").splitlines()
    return {
        "date": date.today().isoformat(),
        "gpu": cupy.cuda.runtime.getDeviceProperties(0)["name"].decode(),
        "driver": drivers[0],
        "cuda": cupy.cuda.runtime.runtimeGetVersion(),
        "cupy": cupy.__version__,
        "commit": (says("git", "rev-parse", "HEAD") or "unknown") + (" with changes" if changed else ""),
    }


if __name__ == "__main__":
    if sys.argv[1] == "--facts":
        Path(sys.argv[2], "facts.json").write_text(json.dumps(facts(), indent=2) + "\n", encoding="utf-8")
        sys.exit()
    made = record(Path(sys.argv[1]))
    target = ROOT / "benchmarks" / "results" / file_name(made)
    target.parent.mkdir(exist_ok=True)
    target.write_text(json.dumps(made, indent=2) + "\n", encoding="utf-8")
    print(f"wrote {target.relative_to(ROOT)}")
