"""NumPy's functions that take no Tensor, each with what to do instead."""

from __future__ import annotations

import numpy as np

from gradlib.numpy.registry import numpy_function, refuses

refuses("write files with gradlib.save", np.save, np.savez, np.savez_compressed, np.savetxt)
refuses(
    "these are dates, of which a Tensor holds none",
    np.busday_count, np.busday_offset, np.is_busday, np.datetime_as_string, np.isnat,
)  # fmt: skip
refuses("a Tensor holds no packed bits; numpy.left_shift and numpy.bitwise_or are taken", np.packbits, np.unpackbits)
refuses("it is a split into integers, without a derivative; numpy.log2 and numpy.ldexp are taken", np.frexp)
refuses("it steps from one number to the next, which no derivative describes; numpy.finfo(x.dtype).eps is the relative step",
        np.nextafter, np.spacing)  # fmt: skip
refuses("gradlib has no operation for it; numpy.remainder and numpy.floor_divide of integers are taken", np.gcd, np.lcm)
refuses("gradlib has no operation for it; numpy.bitwise_and and numpy.right_shift are taken", numpy_function("bitwise_count"))
refuses("gradlib has no Bessel functions; numpy.exp and numpy.sinc are taken", np.i0)
