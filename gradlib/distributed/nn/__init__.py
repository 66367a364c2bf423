"""``gradlib.distributed.nn``: collectives that gradients flow through."""

from __future__ import annotations

from gradlib.distributed.nn import functional as functional
