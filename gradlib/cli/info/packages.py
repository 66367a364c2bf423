"""Python packages: which are installed, and how to install the others."""

from __future__ import annotations

import re
import shlex
from collections import defaultdict
from functools import cache
from importlib import metadata

from gradlib.cli.info.facts import Part

REQUIRED = {"numpy": "arrays on the CPU", "nvtx": "ranges in NVIDIA's profilers"}
OPTIONAL = {
    "scipy": "solvers, special functions and decompositions that NumPy lacks",
    "ml_dtypes": "bfloat16",
    "pyyaml": "limits of a robot from a YAML file",
    "matplotlib": "pictures of trajectories",
    "safetensors": "files of tensors that other programs read",
    "torch": "functions of gradlib in its models, and the reverse",
    "jax": "functions of gradlib in its programs, and the reverse",
    "rich": "tables of `gradlib bench`",
    "numba": "trajectories on the CPU, compiled",
    "ittapi": "ranges in Intel VTune",
    "distributed": "planning by the workers of a Dask cluster",
    "pyarrow": "problems and results in Parquet files",
    "bokeh": "Dask's dashboard",
    "mpi4py": "tensors and gradients between processes",
    "example-robot-data": "robots as URDF files, for tests",
    "pybullet": "robots as URDF files, for tests",
}
"""What each is for. Which extra brings it stands in pyproject.toml, and is read from there by way of the installed metadata."""


def parts() -> dict[str, Part]:
    """The packages that gradlib requires and those that it can use."""
    return {name: _part(name, purpose) for name, purpose in (REQUIRED | OPTIONAL).items()}


def _part(name: str, purpose: str) -> Part:
    try:
        return Part(metadata.version(name), purpose)
    except metadata.PackageNotFoundError:
        return Part(None, purpose, "missing", install(name))


def install(requirement: str) -> str:
    """The command that installs a package: by the extra of gradlib that brings it, or by its own name where none is known."""
    extra = _extras().get(_normalized(requirement))
    return "pip install " + shlex.quote(f"gradlib[{extra}]" if extra else requirement)


@cache
def _extras() -> dict[str, str]:
    """The extra that brings each optional package and least else; empty for a gradlib that is not installed."""
    try:
        requirements = metadata.requires("gradlib") or []
    except metadata.PackageNotFoundError:
        return {}
    members: dict[str, set[str]] = defaultdict(set)
    for line in requirements:
        if found := re.search(r"extra == ['\"](.+?)['\"]", line):
            members[found[1]].add(_normalized(line))
    return {name: extra for extra in sorted(members, key=lambda e: -len(members[e])) for name in members[extra]}


def _normalized(requirement: str) -> str:
    """The name of the required package, in the one spelling of it that compares. Source: PEP 503."""
    name = re.split(r"[^\w.-]", requirement, maxsplit=1)[0]
    return re.sub(r"[-_.]+", "-", name).lower()
