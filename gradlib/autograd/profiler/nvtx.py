"""``emit_nvtx``: every operation and every node of backward as a range that NVIDIA's profilers show. Source: torch.autograd.profiler."""

from __future__ import annotations

import functools
import os
import threading
from collections.abc import Callable
from typing import Any

from gradlib.autograd.profiler.ranges import Emit
from gradlib.backend.device import synchronize

DOMAIN = "gradlib"
INJECTION = "NVTX_INJECTION64_PATH"  # by which a profiler names its library to NVTX
_KEPT = 4096  # labels whose handles are kept


class _Writer(threading.local):
    """The NVTX description of a range; each thread reuses one."""

    attributes: Any = None


@functools.cache
def _domain() -> Any:
    """gradlib's NVTX domain; without a profiler attached, one that does nothing."""
    import nvtx

    domain = nvtx.get_domain(DOMAIN)
    if isinstance(domain, nvtx.Domain) or INJECTION not in os.environ:
        return domain
    # The package asked the profiler whether it listens. Nsight Systems up to 2023 says no, because it does not know the question
    # (NVIDIA/NVTX issue 126), but records what comes: so make the domain without asking.
    from nvtx._lib.lib import DomainHandle

    domain = object.__new__(nvtx.Domain)
    domain.handle = DomainHandle(DOMAIN)
    domain.__init__(DOMAIN)
    return domain


@functools.cache
def _register() -> Callable[[str], Any] | None:
    """A function from a label to the profiler's handle for it, with a cache of recent handles; None when no profiler listens."""
    domain = _domain()
    if domain.get_event_attributes("gradlib") is None:
        return None
    kept = type(domain).get_registered_string  # caches every label for ever, and most labels have a number of their own
    register = functools.partial(getattr(kept, "__wrapped__", kept), domain)
    return functools.lru_cache(_KEPT)(register)


class emit_nvtx(Emit):
    """Give every operation an NVTX range ``name, seq = N``, and every node that backward runs one that names the N it comes from.

    Ranges lie in the domain ``gradlib``. They nest as the calls do, also in backward, which runs on the calling thread, and close when an
    exception passes. It shows its own thread; another enters one of its own. Without a profiler attached (nsys, ncu, ...) nothing is
    emitted and operations run as if outside.

    Args:
        enabled: False makes this do nothing; ``as`` then gives None.
        record_shapes: add ``sizes = [[...], ...]``, the shape of each argument ([] for one that is no tensor).
    Raises: RuntimeError when entered twice, or within another profiler on the same thread.
    Source: torch.autograd.profiler.emit_nvtx. Labels of backward are ``NAME, stashed seq = N, seq = M``; under ``no_grad`` there is no
    ``seq``, as in torch, because no node gets it.
    Example:
        >>> with gradlib.autograd.profiler.emit_nvtx():  # run under nsys or ncu to see the ranges
        ...     gradlib.ones(3, requires_grad=True).sum().backward()
    """

    interface = "NVTX"
    _writer = _Writer()

    def start(self) -> None:
        synchronize()
        self._register = _register()
        self.passive = self._register is None

    def __exit__(self, *exc: object) -> None:
        if self.enabled:
            synchronize()
        super().__exit__(*exc)

    def push(self, label: str) -> None:
        if self._register is None:
            return
        attributes = self._writer.attributes
        if attributes is None:
            attributes = self._writer.attributes = _domain().get_event_attributes()
        attributes.message = self._register(label)
        _domain().push_range(attributes)

    def pop(self) -> None:
        if self._register is not None:
            _domain().pop_range()
