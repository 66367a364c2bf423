"""NumPy's array interface, and objects of other libraries that have CUDA's."""

from __future__ import annotations

import numpy as np
import pytest

import gradlib
from tests.device import cupy


class Has:
    """Another library's array, which has this interface and nothing else."""

    def __init__(self, **interface):
        vars(self).update(interface)


@pytest.mark.host
def test_memory_is_shared_by_numpys_interface():
    value = gradlib.arange(6.0).reshape(2, 3).t()
    array = np.asarray(Has(__array_interface__=value.__array_interface__))
    array[0, 1] = 7
    assert value[0, 1] == 7
    assert array.strides == value.numpy().strides
    assert np.shares_memory(np.asarray(value), value.numpy())


@pytest.mark.host
def test_read_only_memory_stays_read_only():
    constant = np.ones(2)
    constant.flags.writeable = False
    assert not np.asarray(Has(__array_interface__=gradlib.from_numpy(constant).__array_interface__)).flags.writeable


@pytest.mark.host
def test_what_the_interface_cannot_say_is_not_said():
    assert not hasattr(gradlib.ones(2, dtype=gradlib.bfloat16), "__array_interface__")
    assert np.asarray(gradlib.ones(2, dtype=gradlib.bfloat16)).dtype == gradlib.bfloat16
    leaf = gradlib.ones(2, requires_grad=True)
    with pytest.raises(RuntimeError, match=r"detach\(\)\.numpy"):
        _ = leaf.__array_interface__
    with pytest.raises(RuntimeError, match=r"detach\(\)\.numpy"):
        np.asarray(leaf)


@pytest.mark.cuda
def test_on_a_device_there_is_cudas_interface_with_the_current_stream():
    value = gradlib.ones(2, device="cuda")
    assert not hasattr(value, "__array_interface__")
    with cupy.cuda.Stream() as stream:
        assert value.__cuda_array_interface__["stream"] == stream.ptr


@pytest.mark.cuda
def test_a_function_of_cupys_on_what_requires_a_gradient_names_the_door_that_differentiates():
    value = gradlib.ones(2, device="cuda", requires_grad=True)
    with pytest.raises(RuntimeError, match="where a function of CuPy's asked, NumPy's of the same name"):
        cupy.sin(value)
    assert np.sin(value).requires_grad


@pytest.mark.cuda
def test_what_has_cudas_interface_is_taken_as_it_is():
    array = cupy.arange(3.0)
    other = Has(__cuda_array_interface__=array.__cuda_array_interface__)
    shared, copied = gradlib.as_tensor(other), gradlib.tensor(other)
    array += 1
    assert (str(shared.device), str(copied.device)) == ("cuda:0", "cuda:0")
    assert shared.tolist() == [1, 2, 3]
    assert copied.tolist() == [0, 1, 2]
    assert gradlib.asarray(other, copy=False).data_ptr() == array.data.ptr
