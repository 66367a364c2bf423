"""NumPy's functions that take no Tensor, each with what to do instead."""

from __future__ import annotations

import numpy as np

from gradlib.numpy.registry import refuses

refuses("write files with gradlib.save", np.save, np.savez, np.savez_compressed, np.savetxt)
refuses(
    "these are dates, of which a Tensor holds none",
    np.busday_count, np.busday_offset, np.is_busday, np.datetime_as_string, np.isnat,
)  # fmt: skip
refuses("a Tensor holds no packed bits; numpy.left_shift and numpy.bitwise_or are taken", np.packbits, np.unpackbits)
refuses("it has no derivative; numpy.nextafter(x, numpy.inf) - x is taken, and numpy.finfo(x.dtype).eps is the relative step", np.spacing)
