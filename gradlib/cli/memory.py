"""The memory that this process may use, so that a job which needs more is refused before it begins."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_GROUPS = (Path("/sys/fs/cgroup/memory.max"), Path("/sys/fs/cgroup/memory/memory.limit_in_bytes"))


def limit() -> int | None:
    """The bytes of the machine's memory, or of the container's where that has fewer; None where the system does not say."""
    known = []
    with contextlib.suppress(AttributeError, ValueError, OSError):  # not on Windows
        known.append(os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE"))
    for path in _GROUPS:
        with contextlib.suppress(OSError, ValueError):  # there is none, or it says "max"
            known.append(int(path.read_text()))
    with contextlib.suppress(ImportError):  # not on Windows
        import resource

        known += [bytes_ for bytes_ in resource.getrlimit(resource.RLIMIT_AS) if bytes_ != resource.RLIM_INFINITY]
    return min((each for each in known if each > 0), default=None)
