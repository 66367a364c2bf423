"""``gradlib.nn.functional``: the functions that layers and losses are made of, under torch's names."""

from __future__ import annotations

from gradlib.nn import functional as functional
