"""The progress bar, on a terminal and elsewhere."""

from __future__ import annotations

import io

from gradlib.cli.progress import Progress


class Terminal(io.StringIO):
    def isatty(self):
        return True


def test_the_bar_fills_up_on_a_terminal_and_is_one_line_elsewhere():
    screen, log = Terminal(), io.StringIO()
    for stream in (screen, log):
        bar = Progress("planning", stream)
        for fraction in (0.25, 0.1, 0.5):
            bar.drawn = -1.0
            bar(fraction)
        bar.finish()
    shown = screen.getvalue().split("\r")[1:]
    assert [line.count("#") for line in shown] == [8, 8, 16, 32]
    assert screen.getvalue().endswith("\n")
    assert log.getvalue().count("\n") == 1
    assert "\r" not in log.getvalue()
