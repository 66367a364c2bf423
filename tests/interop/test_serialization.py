"""Tensors in files: what comes back, what is refused, and that no flipped bit is taken for a value."""

from __future__ import annotations

import builtins
import io
import math
import pickle
import zipfile
from collections import Counter, OrderedDict
from fractions import Fraction

import numpy as np
import pytest

import gradlib
from gradlib import optim
from tests.values import host, peak_bytes

ENDINGS = [".npz", ".safetensors"]
DTYPES = [
    "bool", "uint8", "uint16", "uint32", "uint64", "int8", "int16", "int32", "int64", "float16", "float32", "float64", "bfloat16",
    "complex64", "complex128",
]  # fmt: skip
UNSIGNED = ("uint16", "uint32", "uint64")  # those of the array API standard
pytest.importorskip("safetensors")


@pytest.fixture(params=ENDINGS)
def path(request, tmp_path):
    return tmp_path / f"saved{request.param}"


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("shape", [(), (0,), (2, 3)])
def test_every_dtype_and_shape_comes_back(path, dtype, shape):
    value = gradlib.from_numpy(np.ones(shape, dtype)) if dtype in UNSIGNED else gradlib.full(shape, 1, dtype=getattr(gradlib, dtype))
    gradlib.save(value, path)
    again = gradlib.load(path)
    assert (again.dtype, again.shape, again.device) == (value.dtype, value.shape, value.device)
    assert again.tolist() == value.tolist()
    again.fill_(0)  # its own memory


def test_containers_numbers_and_text_come_back(path):
    shared = gradlib.tensor([1.0, -0.0]).requires_grad_()
    saved = {
        "tensors": [shared, (shared, shared.detach() * 2)],
        3: {"x": 1.5, True: None, (1, "a"): b"\0\xff"},
        "numbers": [math.inf, -0.0, 0.1, 2**80, 1 - 2j, np.float32(0.5)],
        "others": OrderedDict(b=Counter([1, 1]), a={gradlib.float16}, c=frozenset([1]), d=gradlib.device("cpu"), e=shared.shape),
    }
    gradlib.save(saved, path)
    again = gradlib.load(path)
    first, (second, third) = again["tensors"]
    assert first is second
    assert first.requires_grad
    assert first.is_leaf
    assert not third.requires_grad
    assert math.copysign(1, first.tolist()[1]) == -1
    assert again[3] == saved[3]
    assert list(map(repr, again["numbers"])) == [*map(repr, saved["numbers"][:-1]), "0.5"]
    assert again["others"] == saved["others"]
    assert list(map(type, again["others"].values())) == list(map(type, saved["others"].values()))


def test_an_optimisers_state_continues(path):
    x = gradlib.tensor([1.0, 2.0]).requires_grad_()
    one = optim.AdamW([x], lr=0.1)
    for _ in range(2):
        (x * x).sum().backward()
        one.step()
    gradlib.save({"x": x, "optimiser": one.state_dict()}, path)
    loaded = gradlib.load(path)
    two = optim.AdamW([loaded["x"]])
    two.load_state_dict(loaded["optimiser"])
    for value, optimiser in ((x, one), (loaded["x"], two)):
        optimiser.zero_grad()
        (value * value).sum().backward()
        optimiser.step()
    np.testing.assert_array_equal(host(loaded["x"]), host(x))


@pytest.mark.host
def test_the_tensors_have_readable_names_for_other_programs(tmp_path):
    state = {"layer": {"weight": gradlib.ones(2, 2)}, "list": [gradlib.zeros(1)]}
    gradlib.save(state, tmp_path / "a.npz")
    with np.load(tmp_path / "a.npz") as file:
        assert set(file.files) - {"gradlib.json"} == {"layer.weight", "list.0"}
        assert file["layer.weight"].tolist() == [[1, 1], [1, 1]]
    from safetensors.numpy import load_file

    gradlib.save(state, tmp_path / "a.safetensors")
    assert set(load_file(tmp_path / "a.safetensors")) == {"layer.weight", "list.0"}


@pytest.mark.host
def test_files_of_other_programs_are_dicts_of_tensors(tmp_path):
    from safetensors.numpy import save_file

    values = {"a": np.arange(3, dtype=np.int16), "b.c": np.ones((), np.float32)}
    save_file(values, tmp_path / "other")
    np.savez_compressed(tmp_path / "other.npz", **values)
    for name in ("other", "other.npz"):
        loaded = gradlib.load(tmp_path / name)
        assert {key: (value.dtype, value.tolist()) for key, value in loaded.items()} == {
            "a": (gradlib.int16, [0, 1, 2]),
            "b.c": (gradlib.float32, 1.0),
        }


@pytest.mark.host
@pytest.mark.parametrize("ending", ENDINGS)
def test_every_flipped_bit_and_every_cut_is_refused(tmp_path, ending):
    path = tmp_path / f"a{ending}"
    gradlib.save({"x": gradlib.arange(3.0)}, path)
    whole = path.read_bytes()
    silent = []
    for i in range(len(whole)):
        damaged = bytearray(whole)
        damaged[i] ^= 1 << (i % 8)
        try:
            loaded = gradlib.load(io.BytesIO(bytes(damaged)))
        except (ValueError, TypeError, RuntimeError):
            continue
        silent.append((i, loaded))
    assert not silent
    for size in [*range(0, len(whole), 7), len(whole) - 1]:
        with pytest.raises(gradlib.DamagedFile):
            gradlib.load(io.BytesIO(whole[:size]))


@pytest.mark.host
def test_what_only_pickle_can_hold_is_refused_by_its_place_and_taken_when_asked_for(path):
    value = {"a": [1, Fraction(1, 3)], "x": gradlib.ones(1)}
    with pytest.raises(TypeError, match=r"fractions\.Fraction at a\.1; pass pickle_module=pickle"):
        gradlib.save(value, path)
    assert not path.exists()
    gradlib.save(value, path, pickle_module=pickle)
    with pytest.raises(RuntimeError, match="weights_only=False"):
        gradlib.load(path)
    assert gradlib.load(path, weights_only=False)["a"] == value["a"]


def test_map_location(path, device):
    gradlib.save([gradlib.ones(2)], path)
    where = str(gradlib.ones(0).device)
    assert str(gradlib.load(path)[0].device) == where
    for location in ("cpu", gradlib.device("cpu"), {where: "cpu"}, lambda value, saved: value if saved == where else 1 / 0):
        assert str(gradlib.load(path, location)[0].device) == "cpu"
    with pytest.raises(RuntimeError, match="a device is"):
        gradlib.load(path, "float64")
    assert str(gradlib.load(path, lambda value, saved: None)[0].device) == where


@pytest.mark.host
def test_binary_files_and_paths_alike(tmp_path):
    memory = io.BytesIO()
    gradlib.save(gradlib.arange(3), memory)
    memory.seek(0)
    assert gradlib.load(memory).tolist() == [0, 1, 2]
    gradlib.save(gradlib.arange(2), str(tmp_path / "a.pt"))
    assert gradlib.load(tmp_path / "a.pt").tolist() == [0, 1]


@pytest.mark.host
@pytest.mark.parametrize(("ending", "most"), [(".npz", 1.1), (".safetensors", 2.1)])  # the library gives tensors beside the bytes it read
def test_a_large_tensor_is_copied_no_more_than_its_format_asks(tmp_path, ending, most):
    x = gradlib.ones(1_000_000, dtype=gradlib.float64)
    path = tmp_path / f"a{ending}"
    gradlib.save(x, path)
    for call, times in ((lambda: gradlib.save(x, path), 1.1), (lambda: gradlib.load(path), most)):
        assert peak_bytes(call) < times * x.nbytes


@pytest.mark.host
def test_a_folder_that_is_not_there_is_named_with_the_file(tmp_path):
    with pytest.raises(FileNotFoundError, match=r"nowhere/a\.npz"):
        gradlib.save(1, tmp_path / "nowhere" / "a.npz")


@pytest.mark.host
def test_a_file_that_cannot_be_written_leaves_the_old_one(path, monkeypatch):
    gradlib.save(gradlib.ones(1), path)
    monkeypatch.setattr("gradlib.interop.serialization._digest", lambda *_: 1 / 0)
    monkeypatch.setattr("hashlib.sha256", lambda *_: 1 / 0)
    with pytest.raises(ZeroDivisionError):
        gradlib.save(gradlib.zeros(1), path)
    monkeypatch.undo()
    assert gradlib.load(path).tolist() == [1]
    assert [each.name for each in path.parent.iterdir()] == [path.name]


@pytest.mark.host
def test_without_safetensors(tmp_path, monkeypatch):
    gradlib.save(gradlib.ones(1), tmp_path / "a.safetensors")
    real = builtins.__import__

    def missing(name, *args, **kwargs):
        if name.startswith("safetensors"):
            raise ImportError(name)
        return real(name, *args, **kwargs)

    monkeypatch.setattr(builtins, "__import__", missing)
    gradlib.save(gradlib.ones(1), tmp_path / "b")
    assert zipfile.is_zipfile(tmp_path / "b")
    assert gradlib.load(tmp_path / "b").tolist() == [1]
    for call in (lambda: gradlib.save(1, tmp_path / "c.safetensors"), lambda: gradlib.load(tmp_path / "a.safetensors")):
        with pytest.raises(RuntimeError, match="pip install safetensors"):
            call()


@pytest.mark.host
def test_other_files_are_refused(tmp_path):
    for content in (b"", b"PK", b"text", b"\0" * 100):
        with pytest.raises(gradlib.DamagedFile):
            gradlib.load(io.BytesIO(content))
    with zipfile.ZipFile(tmp_path / "torch.pt", "w") as file:  # as torch.save makes one
        file.writestr("archive/data.pkl", b"")
    with pytest.raises(gradlib.DamagedFile, match=r"torch\.load"):
        gradlib.load(tmp_path / "torch.pt")
    np.savez(tmp_path / "a.npz", a=np.array([None]))
    with pytest.raises(gradlib.DamagedFile, match="numbers"):
        gradlib.load(tmp_path / "a.npz")
    np.savez(tmp_path / "b.npz", a=np.array(["text"]))
    with pytest.raises(TypeError, match="gradlib holds"):
        gradlib.load(tmp_path / "b.npz")
