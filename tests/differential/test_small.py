"""The tables of thresholds, which need no torch."""

from __future__ import annotations

from tests.differential.small import OTHERS, THRESHOLDS, constants, declared


def test_thresholds_are_declared() -> None:
    """Every whole number with a name in capitals is declared once, as a threshold of size or as none, and none of these has gone."""
    assert declared(THRESHOLDS) | declared(OTHERS) == constants()
    assert not declared(THRESHOLDS) & declared(OTHERS)
