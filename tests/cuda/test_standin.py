"""A fault of each kind that shows only on CUDA, planted in a small program, and caught by the stand-in.

The first part plants them beneath gradlib, where a rule or a backend function would have them; the second in plain CuPy code.
"""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import cupy
import cupyx
import numpy as np
import pytest

import gradlib
from gradlib.autograd import Function
from gradlib.cuda.launch import launch
from gradlib.cuda.source import kernel_folder
from tests.conftest import HAS_GPU
from tests.cuda.test_launch import gather

if HAS_GPU:
    pytest.skip("the stand-in is not in use where there is a GPU", allow_module_level=True)

from cupy._door import to_host
from cupy._order import Hazard

pytestmark = pytest.mark.cuda

SCALE = """
extern "C" __global__ void scale(const float* x, float* y, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = factor * x[i];
}
"""


@pytest.fixture
def x() -> Any:
    return cupy.arange(6, dtype=cupy.float32).reshape(2, 3)


@pytest.fixture(autouse=True)
def a_pool_of_its_own() -> Iterator[None]:
    """What other tests left waiting in the pool is none of these."""
    gc.collect()
    cupy.cuda.Device(0).synchronize()
    cupy.get_default_memory_pool().free_all_blocks()
    yield
    gc.collect()
    cupy.cuda.Device(0).synchronize()
    cupy.get_default_memory_pool()._free.clear()


# ---- beneath gradlib ------------------------------------------------------------------------------------------------------------


def broken(value: Callable[[Any], Any], backward: Callable[[Any], Any]) -> None:
    """Forward and backward of a Function on device arrays, with what a rule's author wrote."""

    class Planted(Function):
        @staticmethod
        def forward(ctx: Any, x: Any) -> Any:
            return gradlib.as_tensor(value(cupy.asarray(x.detach())))

        @staticmethod
        def backward(ctx: Any, g: Any) -> Any:
            return gradlib.as_tensor(backward(cupy.asarray(g)))

    leaf = gradlib.ones(3, device="cuda", requires_grad=True)
    Planted.apply(leaf).sum().backward()


def test_a_sound_function_passes() -> None:
    broken(lambda a: a * 2, lambda g: g * 2)


def test_a_numpy_constant_in_a_rule() -> None:
    with pytest.raises(TypeError, match="Unsupported type"):
        broken(lambda a: a * 2, lambda g: g * np.array([1.0, 2.0, 3.0]))
    with pytest.raises(TypeError, match="Unsupported type"):
        broken(lambda a: np.ones(3) + a, lambda g: g)


def test_a_host_synchronisation_in_the_plain_path() -> None:
    before = to_host.total()
    broken(lambda a: a * 2, lambda g: g * 2)
    assert to_host.total() == before
    broken(lambda a: a * 2 if float(a.sum()) > 0 else a, lambda g: g * 2)
    assert to_host.total() == before + 1


def test_a_scalar_of_the_wrong_c_type(x: Any) -> None:
    kernel, y = cupy.RawKernel(SCALE, "scale"), cupy.empty_like(x)
    kernel((1,), (32,), (x, y, np.float32(2), np.int32(6)))
    np.testing.assert_array_equal(y.get(), 2 * x.get())
    with pytest.raises(TypeError, match="argument 2 is f4, got f8"):
        kernel((1,), (32,), (x, y, 2.0, np.int32(6)))  # CuPy passes a Python float as a double
    with pytest.raises(TypeError, match="argument 3 is i4, got i8"):
        kernel((1,), (32,), (x, y, np.float32(2), 6))


def test_an_array_of_the_wrong_dtype_and_too_few_arguments(x: Any) -> None:
    kernel = cupy.RawModule(code=SCALE).get_function("scale")
    with pytest.raises(TypeError, match=r"argument 1 is \*f4, got \*f8"):
        kernel((1,), (32,), (x, x.astype(float), np.float32(2), np.int32(6)))
    with pytest.raises(TypeError, match="takes 4 arguments, got 3"):
        kernel((1,), (32,), (x, x, np.float32(2)))


def test_a_non_contiguous_argument_to_a_kernel(x: Any) -> None:
    kernel = cupy.RawKernel(SCALE, "scale")
    with pytest.raises(Hazard, match="a kernel sees a pointer"):
        kernel((1,), (32,), (x.T, cupy.empty((3, 2), "f"), np.float32(2), np.int32(6)))
    call = gather(rows=x[:, ::2], index=cupy.array([0, 1]), out=cupy.zeros((2, 2), "f"))
    with pytest.raises(ValueError, match="rows is C-contiguous"):
        launch(call)


def test_a_kernel_that_writes_out_of_bounds(x: Any) -> None:
    kernel, y = cupy.RawKernel(SCALE, "scale"), cupy.empty_like(x)
    with pytest.raises(Hazard, match="outside an allocation of 24 bytes"):
        kernel((1,), (32,), (x, y, np.float32(2), np.int32(7)))


def test_threads_that_part_at_a_barrier(x: Any) -> None:
    code = 'extern "C" __global__ void part(float* x) { if (threadIdx.x < 3) __syncthreads(); x[0] = 1; }'
    with pytest.raises(Hazard, match="__syncthreads"):
        cupy.RawKernel(code, "part")((1,), (8,), (x,))


def test_shared_memory_beyond_what_was_given(x: Any) -> None:
    code = 'extern "C" __global__ void fill(float* x) { extern __shared__ float s[]; s[threadIdx.x] = 1; __syncthreads(); x[0] = s[0]; }'
    cupy.RawKernel(code, "fill")((1,), (8,), (x,), shared_mem=32)
    with pytest.raises(Hazard, match="beyond the shared memory"):
        cupy.RawKernel(code, "fill")((1,), (9,), (x,), shared_mem=32)
    with pytest.raises(ValueError, match="shared memory"):
        cupy.RawKernel(code, "fill")((1,), (8,), (x,), shared_mem=1 << 20)


def test_a_copy_to_shared_memory_that_is_not_awaited(x: Any) -> None:
    code = """
    #include "tile.cuh"
    extern "C" __global__ void stage(const float* x, float* y) {
        extern __shared__ float s[];
        copy_piece(s + threadIdx.x, x + threadIdx.x);
        if (AWAITED) await_copies();
        __syncthreads();
        y[threadIdx.x] = s[5 - threadIdx.x];
    }
    """
    for awaited in (0, 1):
        y = cupy.empty_like(x)
        kernel = cupy.RawKernel(code, "stage", options=(f"-I{kernel_folder()}", f"-DAWAITED={awaited}"))
        kernel((1,), (6,), (x, y), shared_mem=24)
        np.testing.assert_array_equal(y.get().ravel(), [5, 4, 3, 2, 1, 0] if awaited else [np.nan] * 6)


def test_a_grid_that_no_gpu_takes(x: Any) -> None:
    kernel = cupy.RawKernel(SCALE, "scale")
    for grid, block in (((0,), (32,)), ((1, 65536), (32,)), ((1,), (1025,))):
        with pytest.raises(ValueError, match="INVALID_VALUE"):
            kernel(grid, block, (x, x, np.float32(2), np.int32(6)))


def test_an_array_on_another_device_than_the_current_one(x: Any) -> None:
    with cupy.cuda.Device(1):
        far = cupy.ones((2, 3), "f")
        with pytest.raises(ValueError, match="Array device must be same as the current device"):
            x + 1
    with pytest.raises(ValueError, match="Array device must be same"):
        x + far
    with pytest.raises(Hazard, match="runs on device 0, argument 1 lies on 1"):
        cupy.RawKernel(SCALE, "scale")((1,), (32,), (x, far, np.float32(2), np.int32(6)))
    assert cupy.ascontiguousarray(far) is far
    with pytest.raises(ValueError, match="Array device must be same"):
        cupy.ascontiguousarray(far.T)


# ---- in CuPy code ---------------------------------------------------------------------------------------------------------------


def test_implicit_conversion_to_numpy(x: Any) -> None:
    for convert in (np.asarray, np.array, lambda a: np.ones((2, 3)) @ a.T, lambda a: np.concatenate([np.ones((2, 3)), a])):
        with pytest.raises(TypeError):
            convert(x)


def test_results_of_no_dimension_are_arrays(x: Any) -> None:
    for result in (x.sum(), x[0, 0], cupy.linalg.det(cupy.eye(2)), x.max(), cupy.add.reduce(x, None)):
        assert isinstance(result, cupy.ndarray)
        assert result.shape == ()
    with pytest.raises(TypeError):
        range(x.sum().astype(int))  # no __index__


def test_no_objects_and_no_long_doubles() -> None:
    for dtype in (object, "U3", "datetime64[s]", np.longdouble):
        with pytest.raises(ValueError, match="Unsupported dtype"):
            cupy.zeros(2, dtype)


def test_signatures_are_cupys(x: Any) -> None:
    for call in (lambda: cupy.add(x, x, where=True), lambda: x.sum(initial=0), lambda: cupy.argsort(x, stable=True)):
        with pytest.raises(TypeError):
            call()
    with pytest.raises(NotImplementedError):
        cupy.maximum.reduce(x)
    assert not hasattr(cupy.add, "accumulate")
    assert not hasattr(x.flags, "writeable")


def test_an_index_that_wraps_around(x: Any) -> None:
    with pytest.raises(Hazard, match="wrap"):
        x[cupy.array([0, 2])]
    with pytest.raises(Hazard, match="wrap"):
        x[cupy.array([2])] = 0
    with pytest.raises(Hazard, match="wrap"):
        x.take(cupy.array([3]), axis=1)
    with pytest.raises(Hazard, match="wrap"):
        cupy.take_along_axis(x, cupy.array([[3], [0]]), 1)
    with pytest.raises(IndexError):
        x[2]
    with pytest.raises(ValueError, match="broadcast"):
        x[cupy.array([0, 1]), cupy.array([0, 1, 2])]


def test_a_write_to_elements_that_share_their_memory(x: Any) -> None:
    wide = cupy.broadcast_to(x[0], (2, 3))
    with pytest.raises(Hazard, match="elements that share memory are written"):
        wide += x
    with pytest.raises(Hazard, match="elements that share memory are written"):
        wide[...] = 1
    wide[0] += x[1]


def test_what_is_read_lies_in_the_memory_that_is_written(x: Any) -> None:
    row = x.reshape(6)
    with pytest.raises(Hazard, match="whose ends overlap"):
        row[:-1] = row[1:]
    row[:3] += 1  # which assigns what it has written to itself
    for places, values in ((cupy.array([0, 1]), row[1:3]), (row > 6, row[:1])):
        with pytest.raises(Hazard, match="written through index arrays"):
            row[places] = values
    counts = cupy.arange(3)
    with pytest.raises(Hazard, match="written through index arrays"):
        counts[counts] = 0
    with pytest.raises(Hazard, match="written through index arrays"):
        cupyx.scatter_add(row, cupy.array([0, 1]), row[1:3])
    row[3:] = row[:3]
    x[:, :-1] = x[:, 1:]  # CuPy copies first where the target is not contiguous
    row[::2] = row[1::2]


def test_dtypes_that_cupy_has_no_loop_for() -> None:
    bfloat16 = gradlib.bfloat16
    small = cupy.ones(2, bfloat16)
    assert cupy.where(small > 0, small, small).dtype == np.float32
    with pytest.raises(ValueError, match="Unsupported dtype"):
        cupy.argsort(small)
    with pytest.raises(TypeError, match="Wrong type"):
        cupy.logical_not(cupy.ones(2, complex))


def test_integers_that_are_drawn_again(x: Any) -> None:
    source, before = cupy.random.RandomState(3), to_host.total()
    source.randint(0, 1 << 64, 5, np.uint64)
    assert to_host.total() == before
    source.randint(0, 5, 5)
    assert to_host.total() == before + 1


def test_scatter_add_has_few_dtypes() -> None:
    for dtype in (np.int64, np.complex64, np.bool_):
        with pytest.raises(TypeError, match="scatter_add only supports"):
            cupyx.scatter_add(cupy.zeros(3, dtype), cupy.array([0, 0]), 1)


def test_random_numbers_come_as_float32_and_float64_only() -> None:
    source = cupy.random.RandomState(3)
    first = source.random_sample((4,), np.float32).get()
    source.seed(3)
    np.testing.assert_array_equal(source.random_sample((4,), np.float32).get(), first)
    with pytest.raises(TypeError, match="float32 and float64"):
        source.random_sample((4,), np.float16)


def test_a_failure_of_linear_algebra_fills_nan() -> None:
    assert np.isnan(cupy.linalg.cholesky(-cupy.eye(2)).get()).all()
    before = to_host.total()
    with cupyx.errstate(linalg="raise"), pytest.raises(np.linalg.LinAlgError, match="cuSOLVER"):
        cupy.linalg.cholesky(-cupy.eye(2))
    assert to_host.total() == before + 1


# ---- order ----------------------------------------------------------------------------------------------------------------------


def test_a_read_on_another_stream_with_nothing_between(x: Any) -> None:
    writer, reader = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    with writer:
        x += 1
    with reader, pytest.raises(Hazard, match="reads memory that stream"):
        x + 1
    with reader:
        reader.wait_event(writer.record())
        x + 1
    with writer, pytest.raises(Hazard, match="writes memory"):
        x += 1  # while the other may still be reading
    reader.synchronize()
    with writer:
        x += 1


def test_what_tries_again_after_an_error_does_not_get_past_a_hazard() -> None:
    """An operation's plain path leaves what fails to the general one, which would be given other memory."""
    tensor, freed = gradlib.ones(3000, device="cuda"), cupy.zeros(3000, cupy.float32)
    with cupy.cuda.Stream(non_blocking=True) as stream:
        stream.wait_event(cupy.cuda.Stream.null.record())
        freed += 1
    del freed
    with pytest.raises(Hazard, match="handed out again"):
        tensor.exp()
    stream.synchronize()


def test_the_default_stream_waits_for_blocking_streams_only(x: Any) -> None:
    for blocking, caught in ((True, False), (False, True)):
        cupy.cuda.Device().synchronize()
        with cupy.cuda.Stream(non_blocking=not blocking) as stream:
            x += 1
        if caught:
            with pytest.raises(Hazard):
                x + 1
        else:
            x + 1
        stream.synchronize()


def test_the_default_stream_waits_for_the_work_of_blocking_streams_that_are_gone() -> None:
    last = cupy.cuda.Stream(non_blocking=True)  # so that there is something to wait for
    stream = cupy.cuda.Stream()
    big = cupy.zeros(3000)
    with stream:
        big += 1
    del stream, big
    gc.collect()
    cupy.empty(3000)
    last.synchronize()


def test_threads_that_share_a_stream_count_its_work_together() -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    stream, found = cupy.cuda.Stream.null, []
    try:
        threads = [threading.Thread(target=lambda: found.extend([stream._enqueue()[1] for _ in range(2000)])) for _ in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    finally:
        sys.setswitchinterval(interval)
    assert len(set(found)) == len(found)


def test_memory_freed_while_another_stream_uses_it() -> None:
    stream = cupy.cuda.Stream(non_blocking=True)
    big = cupy.zeros(3000)
    with stream:
        stream.wait_event(cupy.cuda.Stream.null.record())
        big += 1
    del big
    with pytest.raises(Hazard, match="handed out again"):
        cupy.empty(3000)
    stream.synchronize()


def test_freed_memory_serves_the_stream_that_asked_for_it_first() -> None:
    with cupy.cuda.Stream(non_blocking=True) as stream:
        pointer = cupy.empty(3000).data.ptr
    assert cupy.empty(3000).data.ptr != pointer
    with stream:
        assert cupy.empty(3000).data.ptr == pointer


def test_an_asynchronous_copy_is_read_too_early(x: Any) -> None:
    host = cupyx.empty_pinned(x.shape, x.dtype)
    x.get(out=host, blocking=False)
    assert np.isnan(host).all()
    cupy.cuda.get_current_stream().synchronize()
    np.testing.assert_array_equal(host, x.get())


def test_an_event_that_nobody_waited_for_tells_no_time(x: Any) -> None:
    start, end = cupy.cuda.Event(), cupy.cuda.Event()
    start.record()
    end.record()
    with pytest.raises(Hazard, match="NotReady"):
        cupy.cuda.get_elapsed_time(start, end)
    end.synchronize()
    assert cupy.cuda.get_elapsed_time(start, end) > 0


# ---- memory ---------------------------------------------------------------------------------------------------------------------


def test_memory_that_was_not_written_is_poison() -> None:
    assert np.isnan(cupy.empty(3).get()).all()
    assert (cupy.empty(3, np.int32).get() == -1).all()


def test_the_pool_counts_and_poisons_what_is_freed() -> None:
    pool = cupy.get_default_memory_pool()
    before = pool.used_bytes(), pool.n_free_blocks()
    array = cupy.ones(1000)
    pointer, view = array.data.ptr, array._view
    assert pool.used_bytes() == before[0] + 8192  # in units of 512 bytes
    del array
    assert (pool.used_bytes(), pool.n_free_blocks()) == (before[0], before[1] + 1)
    assert np.isnan(view).all()
    assert cupy.empty(1000).data.ptr == pointer


def test_a_write_after_free() -> None:
    array = cupy.ones(1000)
    view = array._view  # as a kernel would hold its pointer
    del array
    view[3] = 1
    with pytest.raises(Hazard, match="written after they had been freed"):
        cupy.empty(1000)


def test_each_thread_has_a_current_device_and_stream() -> None:
    seen = []
    with cupy.cuda.Device(1), cupy.cuda.Stream(non_blocking=True) as stream:
        thread = threading.Thread(target=lambda: seen.append((cupy.cuda.runtime.getDevice(), cupy.cuda.get_current_stream().ptr)))
        thread.start()
        thread.join()
        assert (cupy.cuda.runtime.getDevice(), cupy.cuda.get_current_stream()) == (1, stream)
    assert seen == [(0, 0)]
