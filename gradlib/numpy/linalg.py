"""numpy.linalg for Tensors and arrays; see ``gradlib.numpy``."""

from numpy import linalg as _module

from gradlib.numpy.namespace import names_of as _names_of

__getattr__, __dir__ = _names_of(_module, globals())
