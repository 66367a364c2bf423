"""The entry of the `gradlib` command: installed as the module `gradlib_command`, outside the package, whose import takes a while.

Until the package is there and knows how to clean up, signals end the process as they do by default, without Python's traceback.
"""

signal = __import__("_signal")  # what `signal` wraps; that one imports enum first, and an interrupt then would be shown as a traceback


def main() -> int:
    """Run the command; returns its exit status."""
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # it may be ignored, as in the background of a script
        signal.signal(signal.SIGINT, signal.SIG_DFL)
    from gradlib.cli.process import run

    return run()
