"""`gradlib trajopt`: smooth, fast, limit-respecting joint motions for many problems at once.

urdf.py and limits.py say what the robot may do; `gradlib.trajectory.planning` plans, many.py has it plan in chunks; output.py, plot.py and
report.py hand the result over; command.py strings them together.
"""

from gradlib.cli.trajopt.command import add_parser

__all__ = ["add_parser"]
