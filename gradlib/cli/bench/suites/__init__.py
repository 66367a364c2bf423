"""The suites. Each module has a function ``cases(device, quick)`` that yields what is timed, or, where it measures something else than
seconds, ``rows(runner, device, quick)`` that yields what came out. `gradlib bench --list` prints the first line of its docstring.
"""

NAMES = ("overhead", "ops", "models", "trajectory", "trajopt", "memory", "scaling", "start", "transforms", "profiler")
"""In the order in which they run."""
