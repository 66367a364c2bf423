"""Memory shared with other libraries by DLPack. NumPy and CuPy stand for all of them; with torch where it is installed."""

from __future__ import annotations

import numpy as np
import pytest

import gradlib
from gradlib.backend import dlpack
from gradlib.utils.dlpack import from_dlpack, to_dlpack
from tests.values import host


class Exporter:
    """Another library's array: what a consumer may use of a tensor, and nothing else."""

    def __init__(self, value, old=False):
        self.value, self.old = value, old

    def __dlpack_device__(self):
        return self.value.__dlpack_device__()

    def __dlpack__(self, **options):
        if self.old and "max_version" in options:
            raise TypeError("unexpected keyword argument 'max_version'")
        return self.value.__dlpack__(**options)


FROM_BEFORE_VERSIONS = np.lib.NumpyVersion(np.__version__) < "2.1.0"  # what it takes is read-only, since nobody can say otherwise
DTYPES = ["bool", "uint8", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "bfloat16", "complex64", "complex128"]


@pytest.mark.parametrize("dtype", DTYPES)
def test_memory_is_shared_in_both_directions(dtype):
    value = gradlib.zeros(2, 3, dtype=getattr(gradlib, dtype))
    other = gradlib.from_dlpack(Exporter(value))
    assert (other.dtype, other.device, other.shape) == (value.dtype, value.device, value.shape)
    value[0, 0] = 1
    assert other.tolist()[0][0] == 1
    if not FROM_BEFORE_VERSIONS or value.is_cuda:
        other[1, 2] = 1
        assert value.tolist()[1][2] == 1


def test_views_keep_their_strides():
    value = gradlib.arange(12.0).reshape(3, 4).t()[1:, ::2]
    other = gradlib.from_dlpack(value)
    assert other.stride() == value.stride()
    assert other.tolist() == value.tolist()
    assert other.data_ptr() == value.data_ptr()


def test_a_tensor_that_requires_a_gradient_is_refused():
    value = gradlib.ones(2).requires_grad_()
    for each in (value, value * 2):
        with pytest.raises(BufferError, match="require gradient"):
            gradlib.from_dlpack(each)
    assert gradlib.from_dlpack(value.detach()).tolist() == [1, 1]


def test_copies_where_asked():
    value = gradlib.zeros(2)
    other = gradlib.from_dlpack(value, copy=True)
    other.fill_(1)
    assert value.tolist() == [0, 0]
    with pytest.raises(TypeError, match="stream must be"):
        value.__dlpack__(stream="default")


@pytest.mark.cuda
def test_to_another_device():
    value = gradlib.ones(2, device="cuda")
    assert str(gradlib.from_dlpack(value, device="cpu").device) == "cpu"
    with pytest.raises(ValueError, match="cannot be shared with cpu"):
        gradlib.from_dlpack(value, device="cpu", copy=False)


@pytest.mark.host
@pytest.mark.skipif(FROM_BEFORE_VERSIONS, reason="this NumPy does not hand out read-only memory")
def test_read_only_memory_stays_read_only():
    array = np.zeros(2)
    array.flags.writeable = False
    value = gradlib.from_dlpack(array)
    with pytest.raises((RuntimeError, ValueError), match="read-only"):
        value.fill_(1)
    assert array.tolist() == [0, 0]
    with pytest.raises(BufferError, match="readonly"):
        to_dlpack(value)


@pytest.mark.host
def test_negative_strides_are_copied_or_refused():
    value = gradlib.from_numpy(np.arange(3.0)[::-1])
    assert np.from_dlpack(value).tolist() == [2, 1, 0]
    assert min(np.from_dlpack(value).strides) > 0
    with pytest.raises(BufferError, match="negative strides"):
        value.__dlpack__(copy=False)


@pytest.mark.host
def test_libraries_from_before_versions_and_bare_capsules():
    value = gradlib.arange(3.0)
    assert gradlib.from_dlpack(Exporter(value, old=True)).data_ptr() == value.data_ptr()
    capsule = to_dlpack(gradlib.ones(2, dtype=gradlib.bfloat16))
    assert from_dlpack(capsule).tolist() == [1, 1]
    for nothing in (capsule, 3, object()):
        with pytest.raises(BufferError, match="taken"):
            from_dlpack(nothing)


@pytest.mark.host
def test_memory_of_other_kinds_of_devices_is_refused():
    class Vulkan(Exporter):
        def __dlpack_device__(self):
            return 7, 0

    with pytest.raises(BufferError, match="device kind 7"):
        gradlib.from_dlpack(Vulkan(gradlib.ones(1)))
    with pytest.raises(BufferError, match="None on cpu"):
        gradlib.ones(1).__dlpack__(stream=1)
    with pytest.raises(BufferError, match=r"to the device \(2, 0\); move it with"):
        gradlib.ones(1).__dlpack__(max_version=(1, 0), dl_device=(2, 0))


@pytest.mark.host
def test_dtypes_that_gradlib_does_not_hold_are_refused_by_their_code():
    class Quarter(Exporter):
        def __dlpack__(self, **options):
            capsule = super().__dlpack__(**options)
            dlpack._described(capsule).code = 10  # float8_e4m3fn
            return capsule

    with pytest.raises(BufferError, match=r"gradlib holds .* code 10 with 8 bits"):
        gradlib.from_dlpack(Quarter(gradlib.ones(4, dtype=gradlib.uint8)))


@pytest.mark.host
def test_values_under_vmap_are_refused():
    with pytest.raises(RuntimeError, match="vmap"):
        gradlib.vmap(lambda x: gradlib.from_dlpack(x))(gradlib.ones(2, 3))


@pytest.mark.host
@pytest.mark.parametrize("dtype", DTYPES)
def test_torch_in_both_directions(dtype):
    torch = pytest.importorskip("torch")
    value = gradlib.zeros(2, dtype=getattr(gradlib, dtype))
    theirs = torch.from_dlpack(value)
    assert theirs.dtype == getattr(torch, dtype)
    theirs[1] = 1
    assert value.tolist() == [0, 1]
    ours = gradlib.from_dlpack(theirs)
    ours[0] = 1
    assert value.tolist() == theirs.tolist() == [1, 1]
    np.testing.assert_array_equal(host(ours), host(value))
