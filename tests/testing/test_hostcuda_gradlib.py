"""What only the real CuPy shows of gradlib: page-locked memory that its pool hands out again, kernels that its disk cache keeps."""

from __future__ import annotations

import gc

import numpy as np
import pytest

from gradlib.backend.array import from_pinned, pinned_copy
from gradlib.testing import hostcuda

pytestmark = pytest.mark.host
if not hostcuda.is_active():
    pytest.skip("its subject is CuPy on hostcuda: pytest -p gradlib.testing.hostcuda", allow_module_level=True)
cupy = pytest.importorskip("cupy")
cupyx = pytest.importorskip("cupyx")


def test_a_copy_to_the_host_that_nobody_waits_for_keeps_its_memory() -> None:
    with hostcuda.checked():
        held = pinned_copy(cupy.arange(512, dtype="f"))
        del held
        gc.collect()
        other = cupyx.empty_pinned((512,), "f")  # CuPy's pool of page-locked memory knows nothing of the copy
        other[...] = 7
        cupy.cuda.Device().synchronize()
        assert (other == 7).all()


def test_a_copy_from_the_host_that_nobody_waits_for_keeps_its_memory() -> None:
    with hostcuda.checked():
        host = cupyx.empty_pinned((512,), "f")
        host[...] = 3
        device = from_pinned(host, 0)
        del host
        gc.collect()
        other = cupyx.empty_pinned((512,), "f")
        other[...] = 7
        np.testing.assert_array_equal(device.get(), np.full(512, 3, "f"))


def test_pinned_copies_come_back() -> None:
    given = cupy.arange(24.0).reshape(4, 6)[:, ::2]
    with hostcuda.checked():
        host = pinned_copy(given)
        np.testing.assert_array_equal(from_pinned(host, 0).get(), given.get())


def test_sources_that_use_names_of_cupys_headers() -> None:
    """NVRTC gives a RawModule none of CuPy's headers, so what they declare (`real`, `complex`) is free."""
    code = 'typedef float real; struct complex { real re; }; extern "C" __global__ void set(real* x) { complex c{2}; x[0] = c.re; }'
    out = cupy.zeros(1, "f")
    cupy.RawKernel(code, "set")((1,), (1,), (out,))
    assert out.get() == 2


def test_shifts_by_more_than_the_width() -> None:
    x = cupy.array([1, -8, 1 << 40])
    assert [(x << n).get().tolist() for n in (3, 64, 70)] == [[8, -64, 8 << 40], [0, 0, 0], [0, 0, 0]]
    assert [(x >> n).get().tolist() for n in (3, 64, 70)] == [[0, -1, 1 << 37], [0, -1, 0], [0, -1, 0]]
