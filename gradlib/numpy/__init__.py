"""NumPy's namespace for Tensors and arrays: ``import gradlib.numpy as np`` in a program that says ``import autograd.numpy as np``.

Every name is NumPy's. A function that is given a Tensor, also in a list, as in ``np.array([x, y, 1.0])``, is made of gradlib's operations
and differentiates; given arrays alone it is NumPy's own. ``linalg``, ``fft`` and ``random`` are there too. NumPy's own functions, called by
``import numpy``, take Tensors as well, but not in lists that NumPy itself would turn into an array first.

To type checkers each name is ``Any``. NumPy's own stubs would be wrong here: they call ``np.sin`` of a Tensor an ndarray, which has no
``backward``, and which names there are depends on the NumPy that is installed.
"""

from __future__ import annotations

import sys as _sys
from typing import Any

import numpy as _numpy

from gradlib.numpy import protocol as protocol  # puts the two protocols on Tensor
from gradlib.numpy.namespace import served as _served

__version__ = _numpy.__version__  # NumPy's: programs ask it which names there are

_SUBMODULES = ("fft", "linalg", "random")


def __getattr__(name: str) -> Any:
    """A name of NumPy's, made ready at its first use."""
    if name == "__all__":
        return __dir__()
    if name in _SUBMODULES:
        from importlib import import_module

        return import_module(f"gradlib.numpy.{name}")
    if name.startswith("__"):
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    try:
        found = _served(_numpy, name)
    except AttributeError:
        from gradlib.backend.names import no_such_name

        raise no_such_name(_sys.modules[__name__], name) from None
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted({*(name for name in dir(_numpy) if not name.startswith("_")), *_SUBMODULES})
