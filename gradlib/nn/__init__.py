"""``gradlib.nn``: the functions that layers and losses are made of, and helpers for parameters, under torch's names."""

from __future__ import annotations

from gradlib.nn import functional as functional, utils as utils
