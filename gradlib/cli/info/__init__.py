"""`gradlib info`: what this machine has, whether the kernels compile, and what to do about anything that is missing.

facts.py says what is asked, packages.py and cuda.py find it out, text.py shows it; command.py strings them together.
"""

from gradlib.cli.info.command import add_parser

__all__ = ["add_parser"]
