"""A fault of each kind that shows only on CUDA, planted in a small program on the real CuPy, and caught by the driver beneath it."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

from gradlib.testing import hostcuda
from tests.device import skip_module_without_hostcuda

pytestmark = pytest.mark.host
skip_module_without_hostcuda()
cupy = pytest.importorskip("cupy")
cupyx = pytest.importorskip("cupyx")

from cupy_backends.cuda.api.driver import CUDADriverError  # noqa: E402  (behind the skips)
from cupy_backends.cuda.api.runtime import CUDARuntimeError  # noqa: E402

from gradlib.cuda.source import kernel_folder  # noqa: E402
from gradlib.testing.hostcuda.loader import driver  # noqa: E402

SCALE = """
extern "C" __global__ void scale(const float* x, float* y, float factor, int n) {
    int i = blockIdx.x * blockDim.x + threadIdx.x;
    if (i < n) y[i] = factor * x[i];
}
"""
UNWATCHED = SCALE.replace("scale", "cupy_scale")  # by that name it is compiled without sanitizers: the guards show what they see
POISON = 0xFF


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


def kernel(code: str, name: str, **options: Any) -> Any:
    return cupy.RawKernel(code, name, **options)


# ---- launches -------------------------------------------------------------------------------------------------------------------


def test_a_sound_kernel_passes(x: Any) -> None:
    y = cupy.empty_like(x)
    with hostcuda.checked():
        kernel(SCALE, "scale")((1,), (32,), (x, y, np.float32(2), np.int32(6)))
    np.testing.assert_array_equal(y.get(), 2 * x.get())


def test_a_kernel_that_writes_out_of_bounds(x: Any) -> None:
    y = cupy.empty_like(x)
    with hostcuda.expected("cupy_scale wrote outside an allocation of 24 bytes"):
        kernel(UNWATCHED, "cupy_scale")((1,), (32,), (x, y, np.float32(2), np.int32(7)))


def test_threads_that_part_at_a_barrier(x: Any) -> None:
    code = 'extern "C" __global__ void part(float* x) { if (threadIdx.x < 3) __syncthreads(); x[0] = 1; }'
    with hostcuda.expected("part: only some threads of a block reached a __syncthreads"):
        kernel(code, "part")((1,), (8,), (x,))
    kernel(SCALE, "scale")((1,), (32,), (x, x, np.float32(2), np.int32(6)))  # the next launch is none the worse


def test_shared_memory_beyond_what_was_given(x: Any) -> None:
    code = 'extern "C" __global__ void cupy_fill(float* x) { extern __shared__ float s[]; s[threadIdx.x] = 1; x[0] = s[0]; }'
    kernel(code, "cupy_fill")((1,), (8,), (x,), shared_mem=32)
    with hostcuda.expected("beyond the shared memory"):
        kernel(code, "cupy_fill")((1,), (9,), (x,), shared_mem=32)
    with pytest.raises(CUDADriverError, match="INVALID_VALUE"):
        kernel(code, "cupy_fill")((1,), (8,), (x,), shared_mem=1 << 20)


def test_shared_memory_holds_poison(x: Any) -> None:
    code = """
    extern "C" __global__ void peek(int* x) {
        __shared__ int fixed[4];
        extern __shared__ int given[];
        x[2 * threadIdx.x] = fixed[threadIdx.x];
        x[2 * threadIdx.x + 1] = given[threadIdx.x];
        fixed[threadIdx.x] = given[threadIdx.x] = 7;
    }
    """
    seen = cupy.zeros(8, cupy.int32)
    for _ in range(2):
        kernel(code, "peek")((3,), (4,), (seen,), shared_mem=16)
        assert (seen.get() == -1).all()


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
        stage = kernel(code, "stage", options=("--std=c++17", f"-I{kernel_folder()}", f"-DAWAITED={awaited}"))
        stage((1,), (6,), (x, y), shared_mem=24)
        np.testing.assert_array_equal(y.get().ravel(), [5, 4, 3, 2, 1, 0] if awaited else [np.nan] * 6)


@pytest.mark.parametrize(("grid", "block"), [((1, 65536), (32,)), ((1,), (1025,)), ((1,), (1, 1, 65)), ((1,), (32, 33))])
def test_a_grid_that_no_gpu_takes(x: Any, grid: tuple[int, ...], block: tuple[int, ...]) -> None:
    with pytest.raises(CUDADriverError, match="INVALID_VALUE"):
        kernel(SCALE, "scale")(grid, block, (x, x, np.float32(2), np.int32(6)))


def test_launch_bounds_hold(x: Any) -> None:
    code = SCALE.replace("void scale", "void __launch_bounds__(64, 4) scale")
    kernel(code, "scale")((1,), (64,), (x, x, np.float32(2), np.int32(6)))
    with pytest.raises(CUDADriverError, match="INVALID_VALUE"):
        kernel(code, "scale")((1,), (96,), (x, x, np.float32(2), np.int32(6)))


def test_blocks_come_in_any_order() -> None:
    code = 'extern "C" __global__ void order(int* next, int* at) { at[blockIdx.x] = atomicAdd(next, 1); }'
    seen = []
    for _ in range(2):
        next_place, at = cupy.zeros(1, "i4"), cupy.zeros(64, "i4")
        kernel(code, "order")((64,), (1,), (next_place, at))
        seen.append(at.get().tolist())
    assert all(sorted(each) == list(range(64)) and each != list(range(64)) for each in seen)
    assert seen[0] != seen[1]


def test_warps_exchange_and_vote() -> None:
    code = """
    extern "C" __global__ void warp(int* out) {
        int v = threadIdx.x, all = 0xffffffff;
        for (int d = 16; d; d /= 2) v += __shfl_xor_sync(all, v, d);
        out[threadIdx.x] = v;
        out[64 + threadIdx.x] = __shfl_up_sync(all, int(threadIdx.x), 1);
        out[128 + threadIdx.x] = __ballot_sync(all, threadIdx.x % 32 < 3);
    }
    """
    out = cupy.zeros(192, "i4")
    kernel(code, "warp")((1,), (64,), (out,))
    sums, up, votes = out.get().reshape(3, 64)
    assert sums.tolist() == [496] * 32 + [1520] * 32
    assert up.tolist() == [0, *range(31), 32, *range(32, 63)]
    assert (votes == 7).all()


def test_name_expressions_of_templates() -> None:
    code = "template <typename T, int N> __global__ void fill(T* out) { out[threadIdx.x] = T(N) / 2; }"
    module = cupy.RawModule(code=code, options=("--std=c++17",), name_expressions=("fill<float, 3>", "fill<int, 3>"))
    for dtype, expected in (("float", 1.5), ("int", 1)):
        out = cupy.zeros(4, {"float": "f4", "int": "i4"}[dtype])
        module.get_function(f"fill<{dtype}, 3>")((1,), (4,), (out,))
        assert (out.get() == expected).all()


def test_a_variable_of_a_source_is_memory_of_its_size_on_the_device_that_asked_first() -> None:
    code = SCALE.replace("float factor, int n", "int n").replace("extern", "__constant__ float factor[2], others[2];\nextern", 1)
    module = cupy.RawModule(code=code.replace("factor *", "factor[1] *"))
    place = module.get_global("factor")
    cupy.ndarray(2, cupy.float32, place)[:] = cupy.asarray([7, 3], cupy.float32)
    cupy.ndarray(2, cupy.float32, module.get_global("others")).fill(5)
    y = cupy.zeros(4, cupy.float32)
    module.get_function("scale")((1,), (4,), (cupy.arange(4, dtype=cupy.float32), y, cupy.int32(4)))
    assert y.tolist() == [0, 3, 6, 9]
    with hostcuda.expected("from byte 0 of an allocation of 8 bytes"):
        cupy.ndarray(3, cupy.float32, place).fill(0)
    with cupy.cuda.Device(1), pytest.raises(CUDADriverError, match="NOT_SUPPORTED"):
        module.get_global("factor")
    with pytest.raises(CUDADriverError, match="NOT_FOUND"):
        module.get_global("absent")


def test_a_source_that_does_not_compile() -> None:
    with pytest.raises(cupy.cuda.compiler.CompileException, match="undeclared_thing"):
        kernel('extern "C" __global__ void bad(float* x) { x[0] = undeclared_thing; }', "bad").compile()


# ---- devices --------------------------------------------------------------------------------------------------------------------


def test_an_array_on_another_device_than_the_current_one(x: Any) -> None:
    with cupy.cuda.Device(1):
        far = cupy.ones((2, 3), "f")
    with pytest.raises(ValueError, match="Peer access is unavailable"):
        x + far
    with hostcuda.expected("scale runs on device 0, argument 1 lies on device 1"):
        kernel(SCALE, "scale")((1,), (32,), (x, far, np.float32(2), np.int32(6)))
    with pytest.raises(ValueError, match="Peer access is unavailable"):
        cupy.ascontiguousarray(far.T)
    np.testing.assert_array_equal(cupy.asarray(far).get(), np.ones((2, 3)))


def test_each_thread_has_a_current_device_and_stream() -> None:
    seen = []
    with cupy.cuda.Device(1), cupy.cuda.Stream(non_blocking=True) as stream:
        thread = threading.Thread(target=lambda: seen.append((cupy.cuda.runtime.getDevice(), cupy.cuda.get_current_stream().ptr)))
        thread.start()
        thread.join()
        assert (cupy.cuda.runtime.getDevice(), cupy.cuda.get_current_stream()) == (1, stream)
    assert seen == [(0, 0)]


def test_the_devices_are_those_of_an_h100() -> None:
    assert cupy.cuda.runtime.getDeviceCount() == 2
    device = cupy.cuda.Device(1)
    assert (device.compute_capability, device.attributes["MultiProcessorCount"], device.attributes["WarpSize"]) == ("90", 132, 32)
    properties = cupy.cuda.runtime.getDeviceProperties(0)
    assert (properties["multiProcessorCount"], properties["maxThreadsPerMultiProcessor"]) == (132, 2048)
    assert properties["l2CacheSize"] == 50 << 20
    with pytest.raises(CUDARuntimeError, match="cudaErrorInvalidDevice"):
        cupy.cuda.Device(2).use()


def test_properties_lie_where_the_wheel_of_either_cuda_reads_them() -> None:
    """cupy-cuda13x asks under another name, for a structure from which CUDA 13 left some fields out."""
    for name, multiprocessors, size in (("cudaGetDeviceProperties_v2", 388, 1032), ("cudaGetDeviceProperties", 384, 1008)):
        room = (ctypes.c_ubyte * (size + 8))(*[7] * (size + 8))
        assert getattr(driver(), name)(room, 1) == 0
        assert int.from_bytes(bytes(room[multiprocessors : multiprocessors + 4]), "little") == 132
        assert bytes(room[size - 4 :]) == b"\0" * 4 + b"\7" * 8


# ---- order ----------------------------------------------------------------------------------------------------------------------


def test_a_read_on_another_stream_with_nothing_between(x: Any) -> None:
    writer, reader = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    with writer:
        x += 1
    with reader, hostcuda.expected("reads memory that stream"):
        x + 1
    with reader:
        reader.wait_event(writer.record())
        y = x + 1
    with writer, hostcuda.expected("writes memory"):
        x += 1  # while the other may still be reading
    reader.synchronize()
    with writer:
        x += 1
    del y


def test_the_default_stream_waits_for_blocking_streams_only(x: Any) -> None:
    for blocking, caught in ((True, False), (False, True)):
        cupy.cuda.Device().synchronize()
        with cupy.cuda.Stream(non_blocking=not blocking) as stream:
            x += 1
        if caught:
            with hostcuda.expected("reads memory that stream"):
                x + 1
        else:
            x + 1
        stream.synchronize()


def test_two_streams_on_parts_of_one_array() -> None:
    whole = cupy.zeros(64, "f")
    cupy.cuda.Device().synchronize()
    for part in (whole[:32], whole[32:]):
        with cupy.cuda.Stream(non_blocking=True):
            part += 1
    cupy.cuda.Device().synchronize()
    assert (whole.get() == 1).all()


def test_two_streams_may_read_one_mask(x: Any) -> None:
    """The cumulative sum behind it has a kernel that declares its array as a result, and only reads it."""
    mask = x > 0
    readers = [cupy.cuda.Stream(non_blocking=True) for _ in range(2)]
    cupy.cuda.Device().synchronize()
    for each in readers:
        with each:
            x[mask]
    with readers[0], hostcuda.expected("writes memory"):
        mask[:] = False
    for each in readers:
        each.synchronize()


def test_memory_freed_while_another_stream_uses_it() -> None:
    stream = cupy.cuda.Stream(non_blocking=True)
    big = cupy.zeros(3000)
    with stream:
        stream.wait_event(cupy.cuda.Stream.null.record())
        big += 1
    del big
    with hostcuda.expected("freed while another stream may still be using it, and handed out again"):
        cupy.zeros(3000)
    stream.synchronize()


def test_the_default_stream_waits_for_the_work_of_blocking_streams_that_are_gone() -> None:
    last = cupy.cuda.Stream(non_blocking=True)  # so that there is something to wait for
    stream, big = cupy.cuda.Stream(), cupy.zeros(3000)
    with stream:
        big += 1
    del stream, big
    gc.collect()
    cupy.zeros(3000)
    last.synchronize()


def test_work_of_many_threads_on_one_stream_is_in_order() -> None:
    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    x = cupy.zeros(4, "i4")
    try:
        threads = [threading.Thread(target=lambda: [x.__iadd__(1) for _ in range(200)]) for _ in range(4)]
        for each in threads:
            each.start()
        for each in threads:
            each.join()
    finally:
        sys.setswitchinterval(interval)
    assert x.get().tolist() == [800] * 4


def test_an_asynchronous_copy_is_read_too_early(x: Any) -> None:
    host = cupyx.empty_pinned(x.shape, x.dtype)
    x.get(out=host, blocking=False)
    assert np.isnan(host).all()
    cupy.cuda.get_current_stream().synchronize()
    np.testing.assert_array_equal(host, x.get())


def test_page_locked_memory_is_written_while_a_copy_is_under_way(x: Any) -> None:
    host = cupyx.empty_pinned(x.shape, x.dtype)
    with hostcuda.expected("written by the host while a copy into them was under way"):
        x.get(out=host, blocking=False)
        host[0, 0] = 5
        cupy.cuda.get_current_stream().synchronize()
    host[...] = 3
    with hostcuda.expected("changed while a copy from them was under way"):
        x.set(host)
        host[1, 1] = 4
        cupy.cuda.get_current_stream().synchronize()


def test_a_copy_that_overlaps_itself() -> None:
    x = cupy.arange(8.0)
    with hostcuda.expected("whose source and target overlap"):
        x[1:] = x[:-1]


def test_an_event_that_nobody_waited_for_tells_no_time() -> None:
    start, end = cupy.cuda.Event(), cupy.cuda.Event()
    start.record()
    end.record()
    with pytest.raises(CUDARuntimeError, match="NotReady"):
        cupy.cuda.get_elapsed_time(start, end)
    end.synchronize()
    assert cupy.cuda.get_elapsed_time(start, end) > 0


def test_a_query_is_answered_with_not_yet_first(x: Any) -> None:
    with cupy.cuda.Stream(non_blocking=True) as stream:
        cupy.zeros(3)
        event = stream.record()
    assert [event.done, event.done] == [False, True]
    assert stream.done


# ---- memory ---------------------------------------------------------------------------------------------------------------------


def test_memory_that_was_not_written_is_poison() -> None:
    assert np.isnan(cupy.empty(3).get()).all()
    assert (cupy.empty(3, np.int32).get() == -1).all()
    del_me = cupy.ones(1000)
    pointer = del_me.data.ptr
    del del_me
    again = cupy.empty(1000)
    assert again.data.ptr == pointer  # CuPy's pool handed it out again
    assert np.isnan(again.get()).all()


def test_a_write_after_free() -> None:
    array = cupy.ones(1000)
    dangling = cupy.ndarray((1000,), memptr=cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(array.data.ptr, 8000, None), 0))
    del array
    with hostcuda.expected("writes memory that has been freed"):
        dangling.fill(1)


def test_a_pointer_to_nowhere() -> None:
    nowhere = cupy.ndarray((4,), memptr=cupy.cuda.MemoryPointer(cupy.cuda.UnownedMemory(0x10000, 32, None, 0), 0))
    with hostcuda.expected("lies in no allocation"):
        nowhere += 1


def test_memory_of_another_thread_is_watched_too() -> None:
    kept: list[Any] = []
    thread = threading.Thread(target=lambda: kept.append(cupy.empty(5, "f")))
    thread.start()
    thread.join()
    with hostcuda.expected("cupy_scale wrote outside an allocation of 20 bytes"):
        kernel(UNWATCHED, "cupy_scale")((1,), (32,), (kept[0], kept[0], np.float32(2), np.int32(6)))


def test_an_index_that_wraps_around(x: Any) -> None:
    calls: list[Callable[[], Any]] = [
        lambda: x[cupy.array([0, 2])],
        lambda: x[cupy.array([-3])],
        lambda: x[cupy.array([0, 1]), cupy.array([1, 3])],
        lambda: x.take(cupy.array([3]), axis=1),
        lambda: cupy.take_along_axis(x, cupy.array([[3], [0]]), 1),
        lambda: x.__setitem__(cupy.array([2]), 0),
        lambda: cupy.add.at(x, cupy.array([2]), 1),
    ]
    for call in calls:
        with hostcuda.expected(r"index -?\d is outside of an axis of \d, and wraps around"):
            call()
    np.testing.assert_array_equal(x[cupy.array([-2, 1])].get(), x.get())


def test_a_write_to_elements_that_share_their_memory(x: Any) -> None:
    wide = cupy.broadcast_to(x[0], (2, 3))
    with hostcuda.expected("has elements which share their memory"):
        wide += x
    with hostcuda.expected("has elements which share their memory"):
        wide[...] = 1
    wide[0] += x[1]


def test_what_is_read_lies_in_the_memory_that_is_written_through_indices(x: Any) -> None:
    row, counts = x.reshape(6), cupy.arange(3)
    calls: list[Callable[[], Any]] = [
        lambda: row.__setitem__(cupy.array([0, 1]), row[1:3]),
        lambda: row.__setitem__(row > 2, row[:1]),
        lambda: counts.__setitem__(counts, 0),
        lambda: cupy.add.at(row, cupy.array([0, 1]), row[1:3]),
    ]
    for call in calls:
        with hostcuda.expected("reads memory that it writes at places chosen by an array"):
            call()
    row[3:] = row[:3]
    x[:, :-1] = x[:, 1:]  # CuPy copies first
    row[::2] = row[1::2]
    row[:3] += 1


@pytest.mark.filterwarnings("ignore::pytest.PytestUnraisableExceptionWarning")  # CuPy frees where nothing can be raised
def test_memory_in_the_order_of_a_stream() -> None:
    pool = cupy.cuda.MemoryAsyncPool()
    with cupy.cuda.using_allocator(pool.malloc):
        with cupy.cuda.Stream(non_blocking=True) as one:
            x = cupy.ones(1000)
            assert pool.used_bytes() == 8192
            other = cupy.cuda.Stream(non_blocking=True)
        with other, hostcuda.expected("memory that stream"):
            x + 1
        other.wait_event(one.record())
        with other:
            y = x + 1
        with one, hostcuda.expected(r"may still be using \(cudaFreeAsync\)"):
            del x
        cupy.cuda.Device().synchronize()
        assert (y.get() == 2).all()
        del y


def test_the_legacy_stream_and_those_of_threads_wait_for_each_other() -> None:
    x = cupy.zeros(4)
    with cupy.cuda.Stream.ptds:
        x += 1
    x += 1
    with cupy.cuda.Stream.ptds:
        x += 1
    with cupy.cuda.Stream(non_blocking=True), hostcuda.expected("memory that stream"):
        x += 1
    assert (x.get() == 3).all()


def test_a_function_of_the_host_runs_behind_its_streams_work() -> None:
    seen: list[Any] = []
    x, host = cupy.arange(3.0), cupyx.empty_pinned((3,))
    with cupy.cuda.Stream(non_blocking=True) as stream:
        stream.wait_event(cupy.cuda.Stream.null.record())
        x.get(out=host, blocking=False)
        stream.launch_host_func(lambda given: seen.append((given, host.tolist())), "a")
        stream.add_callback(lambda stream, status, given: seen.append((given, status)), "b")
        stream.synchronize()
    assert seen == [("a", [0.0, 1.0, 2.0]), ("b", 0)]


def test_how_many_blocks_a_multiprocessor_holds() -> None:
    scale = kernel(SCALE, "scale").kernel
    blocks = [cupy.cuda.driver.occupancyMaxActiveBlocksPerMultiprocessor(scale.ptr, threads, shared)
              for threads, shared in ((32, 0), (256, 0), (1024, 0), (256, 40000))]  # fmt: skip
    assert blocks == [32, 8, 2, 5]


@pytest.mark.slow
def test_devices_that_reach_each_others_memory() -> None:
    code = """
    from gradlib.testing import hostcuda
    hostcuda.activate(peers=True)
    import cupy
    with cupy.cuda.Device(1):
        far = cupy.ones(3)
    cupy.cuda.Device(1).synchronize()
    assert cupy.cuda.runtime.deviceCanAccessPeer(0, 1)
    with hostcuda.checked():
        print((cupy.arange(3.0) + far).get().tolist())
    """
    done = subprocess.run([sys.executable, "-W", "ignore", "-c", textwrap.dedent(code)], capture_output=True, text=True, check=False)
    assert (done.stdout, done.returncode) == ("[1.0, 2.0, 3.0]\n", 0), done.stderr


# ---- graphs ---------------------------------------------------------------------------------------------------------------------


def test_a_graph_is_replayed_at_its_addresses(x: Any) -> None:
    stream = cupy.cuda.Stream(non_blocking=True)
    y = cupy.zeros_like(x)
    cupy.multiply(x, 2, out=y)  # compiles
    y[...] = 0
    cupy.cuda.Device().synchronize()
    with stream:
        stream.begin_capture()
        cupy.multiply(x, 2, out=y)
        graph = stream.end_capture()
        stream.synchronize()
        assert (y.get() == 0).all()
        x += 1
        graph.launch()
        stream.synchronize()
    np.testing.assert_array_equal(y.get(), 2 * np.arange(1, 7.0).reshape(2, 3))


def test_what_a_capture_refuses(x: Any) -> None:
    stream = cupy.cuda.Stream(non_blocking=True)
    cupy.cuda.Device().synchronize()
    with pytest.raises(RuntimeError, match="legacy"):
        cupy.cuda.Stream.null.begin_capture()
    with stream:
        stream.begin_capture()
        with pytest.raises(CUDARuntimeError, match="StreamCaptureUnsupported"):
            stream.synchronize()
        with pytest.raises(CUDARuntimeError, match="StreamCaptureInvalidated"):
            stream.end_capture()
        stream.begin_capture()
        with pytest.raises(RuntimeError, match="capturing"):
            x.get()
        stream.end_capture()


def test_branches_of_a_graph_with_nothing_between(x: Any) -> None:
    stream, side = cupy.cuda.Stream(non_blocking=True), cupy.cuda.Stream(non_blocking=True)
    x += 1
    cupy.cuda.Device().synchronize()
    stream.begin_capture()
    side.wait_event(stream.record())
    with side:
        x += 1
    with stream:
        x += 1
    stream.wait_event(side.record())
    with hostcuda.expected("two branches of a graph"):
        stream.end_capture()


# ---- waits of the host ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wait", "seen"),
    [
        (lambda x: float(x.sum()), "a copy of 4 bytes to ordinary memory"),
        (lambda x: x[x > 2], "a copy of 4 bytes to ordinary memory"),
        (lambda x: x.get(), "a copy of 24 bytes to ordinary memory"),
        (lambda x: cupy.cuda.Stream.null.synchronize(), "cudaStreamSynchronize"),
        (lambda x: cupy.cuda.Device().synchronize(), "cudaDeviceSynchronize"),
        (lambda x: cupy.cuda.Stream.null.record().synchronize(), "cudaEventSynchronize"),
    ],
    ids=["number", "mask", "get", "stream", "device", "event"],
)
def test_a_wait_of_the_host_is_counted_and_can_be_refused(x: Any, wait: Callable[[Any], Any], seen: str) -> None:
    before = hostcuda.host_waits()
    x += 1
    cupy.sort(x)
    x.get(out=cupyx.empty_pinned(x.shape, x.dtype), blocking=False)
    assert hostcuda.host_waits() == before
    wait(x)
    assert (hostcuda.host_waits() - before)[seen] == 1
    with hostcuda.expected(f"the host waits for the device: {seen}"), hostcuda.refused_waits():
        wait(x)
    wait(x)


def test_copies_to_a_device_are_counted(x: Any) -> None:
    before = hostcuda.copies_to_device()
    cupy.array([1.0, 2.0])
    cupy.asarray(np.zeros(3, np.float32))
    x + 1
    x.get()
    assert hostcuda.copies_to_device() - before == {"a copy of 16 bytes": 1, "a copy of 12 bytes": 1}


# ---- the tool -------------------------------------------------------------------------------------------------------------------


def test_a_hazard_that_code_swallows_is_kept(x: Any) -> None:
    with pytest.raises(hostcuda.Hazard, match="overlap"), hostcuda.checked(), contextlib.suppress(CUDARuntimeError):
        x.ravel()[1:] = x.ravel()[:-1]


def test_cupy_is_the_wheel() -> None:
    assert "site-packages" in cupy.__file__
    assert cupy.cuda.runtime.getDeviceProperties(0)["name"].startswith(b"hostcuda")
