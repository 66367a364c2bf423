"""The typed launch: what a kernel declares is what it gets."""

from __future__ import annotations

import re
import shutil
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from benchmarks.python_calls import python_calls
from gradlib.cuda import launch as launching, signature, source as sources
from gradlib.cuda.launch import Call, checked_args, compile_options, launch, prepared
from gradlib.cuda.signature import C_TYPES, Parameter, parameters
from gradlib.cuda.source import kernel_files, kernel_folder, numbered_source, read_source
from gradlib.trajectory.chain_device import forward_call as chain_forward_call

FLOAT = (("STORAGE", "float"), ("INDEX", "int"))


def gather(**change) -> Call:
    """A launch of rows_gather (rows, index, out, batch, joints) with some of its arguments changed."""
    given = {
        "rows": np.zeros((3, 2), np.float32),
        "index": np.zeros(4, np.int64),
        "out": np.zeros((4, 2), np.float32),
        "batch": 4,
        "joints": 2,
        **change,
    }
    return Call("rows.cu", "rows_gather", FLOAT, (1, 1), 256, tuple(given.values()))


def test_parameters_are_read_from_the_source():
    found = parameters("rows.cu", "rows_scatter", (("STORAGE", "double"), ("INDEX", "long long")))
    assert found == (
        Parameter("grads", "double", True, False),
        Parameter("order", "long long", True, False),
        Parameter("bounds", "long long", True, False),
        Parameter("partial", "double", True, True),
        Parameter("batch", "long long", False, False),
        Parameter("joints", "long long", False, False),
        Parameter("parts", "int", False, False),
        Parameter("width", "int", False, False),
    )
    reals = {p.name: p.ctype for p in parameters("smoothness.cu", "smoothness", (("STORAGE", "half_t"), ("INDEX", "int"), ("LIMITS", "1")))}
    assert (reals["u"], reals["dt"], reals["limit_weight"]) == ("half_t", "float", "float")


def test_every_kernel_in_every_source_can_be_read():
    assert len(kernels()) >= 9
    for source, kernel in kernels():
        assert parameters(source, kernel, FLOAT)


def test_numbers_take_the_declared_type_and_none_is_a_null_pointer():
    rows, _, _, batch, joints = checked_args(gather(rows=None))
    assert rows.dtype == np.uintp
    assert rows == 0
    assert type(batch) is type(joints) is np.int32
    given = [None if p.pointer else 1 for p in parameters("smoothness.cu", "smoothness", FLOAT)]
    cast = checked_args(Call("smoothness.cu", "smoothness", FLOAT, (1, 1), 128, tuple(given)))
    assert [type(x) for x in cast if x] == [np.int32] + [np.float32] * 5 + [np.int32] * 12


@pytest.mark.parametrize(
    ("change", "kind", "text"),
    [
        ({"rows": np.zeros((3, 2))}, TypeError, r"rows has dtype float32, got float64 of shape \(3, 2\)"),
        ({"index": np.zeros(4, np.int32)}, TypeError, "int64"),
        ({"rows": np.zeros((3, 2), np.dtype(np.float32).newbyteorder())}, TypeError, "dtype float32, got [<>]f4"),
        ({"rows": [1.0]}, TypeError, "array of float32, got list"),
        ({"rows": np.zeros((2, 3), np.float32).T}, ValueError, "C-contiguous"),
        ({"out": np.broadcast_to(np.float32(0), (1, 1))}, ValueError, "read-only"),
        ({"batch": 4.0}, TypeError, "C type int, got float"),
        ({"batch": 1 << 31}, ValueError, "does not fit"),
        ({"more": 1}, TypeError, "takes 5 arguments, got 6"),
    ],
)
def test_what_the_kernel_does_not_declare_is_refused(change, kind, text):
    with pytest.raises(kind, match=text):
        checked_args(gather(**change))


def test_unknown_kernels_and_types_are_refused(monkeypatch):
    with pytest.raises(ValueError, match="no kernel 'nothing'"):
        parameters("rows.cu", "nothing", FLOAT)
    with pytest.raises(FileNotFoundError, match=r"rows\.cu"):
        parameters("absent.cu", "nothing", FLOAT)
    monkeypatch.setattr(signature, "text_of", lambda name: 'extern "C" __global__ void odd(const char3* x) {}')
    with pytest.raises(ValueError, match="has type 'char3'"):
        parameters("odd.cu", "odd", FLOAT)


def test_host_arrays_are_not_launched():
    with pytest.raises(ValueError, match="runs on a GPU, got arrays in host memory"):
        launch(gather())
    with pytest.raises(ValueError, match="runs on a GPU, got no array that tells which"):
        launch(gather(rows=None, index=None, out=None))


def kernels() -> list[tuple[str, str]]:
    """Every kernel: its source and its name."""
    sources = [name for name in kernel_files() if name.endswith(".cu")]
    return [(name, k) for name in sources for k in re.findall(r"__global__ void[^;{]*?\b(\w+)\(const", read_source(name))]


def call_of(source: str, kernel: str, put: Callable[[np.ndarray], Any]) -> Call:
    """A launch of a kernel with an array for every pointer: the most that its check can have to do."""
    declared = parameters(source, kernel, FLOAT)
    return Call(source, kernel, FLOAT, (0, 1), 128, tuple(put(np.zeros(1, p.dtype)) if p.pointer else 1 for p in declared))


@pytest.mark.parametrize(("source", "kernel"), kernels())
def test_arguments_are_checked_in_few_calls(source, kernel):
    call = call_of(source, kernel, np.asarray)
    checked_args(call)
    assert 0 < len(python_calls(lambda: checked_args(call))) <= 12


@pytest.mark.cuda
def test_a_launch_takes_at_most_twelve_python_calls():
    import cupy

    whole, row = ([cupy.ones(shape, cupy.float32) for _ in range(n)] for shape, n in (((2, 4, 1), 8), ((2, 1), 3)))
    call = chain_forward_call(cupy, whole[0], row, 0.5, 3, False, whole[1:4], whole[4:], 1)
    assert (len(call.args), sum(isinstance(x, cupy.ndarray) for x in call.args)) == (27, 11)
    launch(call)
    assert 0 < len(python_calls(lambda: launch(call))) <= 12


@pytest.mark.cuda
def test_the_handle_of_a_kernel_is_kept_for_each_device():
    import cupy

    kernel, devices = prepared("rows.cu", "rows_gather", FLOAT), range(cupy.cuda.runtime.getDeviceCount())
    handles = [kernel.handle(device) for device in devices]
    assert all(kernel.handle(device) is handle for device, handle in zip(devices, handles, strict=True))
    assert len({id(handle) for handle in handles}) == len(devices)


def test_options_name_the_folder_and_the_values():
    made = compile_options((("STORAGE", "float"), ("INDEX", "long long")))
    assert f"-I{kernel_folder()}" in made
    assert made[-2:] == ("-DSTORAGE=float", "-DINDEX=long long")


@pytest.mark.cuda
def test_arrays_of_two_devices_are_not_launched():
    import cupy

    with cupy.cuda.Device(cupy.cuda.runtime.getDeviceCount() - 1):
        index = cupy.zeros(4, cupy.int64)
    rows, out = (cupy.zeros(shape, cupy.float32) for shape in ((3, 2), (4, 2)))
    home = np.zeros(4, np.int64)
    for elsewhere in (index, home) if index.device.id else (home,):
        with pytest.raises(ValueError, match=r"index lives on device (1|None), the first array on 0"):
            launch(gather(rows=rows, index=elsewhere, out=out))


@pytest.mark.cuda
def test_a_launch_runs_where_its_arrays_lie():
    import cupy

    with cupy.cuda.Device(cupy.cuda.runtime.getDeviceCount() - 1) as last:
        arrays = {"rows": cupy.ones((3, 2), np.float32), "index": cupy.zeros(4, np.int64), "out": cupy.zeros((4, 2), np.float32)}
    launch(gather(**arrays))
    with last:
        np.testing.assert_array_equal(cupy.asnumpy(arrays["out"]), np.ones((4, 2)))


@pytest.mark.cuda
def test_an_empty_grid_is_no_launch():
    import cupy

    out = cupy.zeros((4, 2), np.float32)
    whole = gather(rows=cupy.ones((3, 2), np.float32), index=cupy.zeros(4, np.int64), out=out)
    launch(replace(whole, grid=(0, 1)))
    assert not out.any()
    launch(whole)
    assert out.all()


@pytest.mark.cuda
def test_a_launch_on_the_gpu_compiles_once_and_runs_on_the_current_stream():
    import cupy

    arrays = {
        "rows": cupy.arange(6, dtype=cupy.float32).reshape(3, 2),
        "index": cupy.array([2, 0, 1, 2]),
        "out": cupy.zeros((4, 2), cupy.float32),
    }
    filled = cupy.cuda.get_current_stream().record()
    with cupy.cuda.Stream(non_blocking=True) as stream:
        stream.wait_event(filled)
        launch(gather(**arrays))
        stream.synchronize()
    np.testing.assert_array_equal(cupy.asnumpy(arrays["out"]), [[4, 5], [0, 1], [2, 3], [4, 5]])
    before = launching.compiled.cache_info().misses
    launch(gather(**arrays))
    launch(replace(gather(**arrays), grid=(2, 1)))
    assert launching.compiled.cache_info().misses == before


def test_c_types_cover_what_the_kernels_store():
    assert set(C_TYPES.values()) == {"float32", "float64", "float16", "bfloat16", "int32", "int64"}


def test_a_changed_header_is_compiled_again(monkeypatch, tmp_path):
    """CuPy keeps what it compiled under the options and the text of the source alone, so the options tell of the headers."""
    shutil.copytree(kernel_folder(), tmp_path / "_kernels")
    caches = (sources.kernel_folder, sources.kernel_files, sources.read_source, sources.sources_digest)
    monkeypatch.setattr(sources, "_PACKAGE", tmp_path)
    seen = []
    for text in ("", "// another state"):
        with (tmp_path / "_kernels" / "tile.cuh").open("a", encoding="utf-8") as header:
            header.write(text)
        for each in caches:
            each.cache_clear()
        seen.append(sources.sources_digest())
        assert f"-DGRADLIB_SOURCES=x{seen[-1]}" in compile_options(FLOAT)
    monkeypatch.undo()
    for each in caches:
        each.cache_clear()
    assert seen[0] == sources.sources_digest() != seen[1]


def test_compilers_are_told_where_a_source_stands():
    text = numbered_source("rows.cu")
    assert text == f'#line 1 "{kernel_folder() / "rows.cu"}"\n{read_source("rows.cu")}'
    assert "-ftz=true" in compile_options(FLOAT)  # as CuPy launches them
