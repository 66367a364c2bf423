"""Random programs run by gradlib and by torch, which must agree; skipped where torch is not installed.

``python -m tests.differential --seconds 300 --seed 1`` draws programs until the time is over, reduces each disagreement to a few lines and
prints it as a program that can be run with ``lib`` as either library. With ``--small 4`` gradlib takes the ways of large arrays from four
elements on. ``operations.py`` says which statements are drawn, ``draw.py`` how, ``small.py`` which thresholds are lowered, ``compare.py``
what is compared, ``reduce.py`` how a program is made short, ``judged.py`` which differences are meant, each with its reason.
"""
