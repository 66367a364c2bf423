"""`gradlib trajopt`: smooth, fast, limit-respecting joint motions for many problems at once.

robot.py, urdf.py and limits.py say what the robot may do; problems.py what it is asked; motion.py and solve.py plan; check.py judges the
result by itself; output.py, plot.py and report.py hand it over; command.py strings them together.
"""

from gradlib.cli.trajopt.command import add_parser

__all__ = ["add_parser"]
