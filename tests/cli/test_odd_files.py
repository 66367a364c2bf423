"""Input files that nobody should write: each ends soon, in a result or in an error that says what is wrong."""

from __future__ import annotations

import io
import math
import time
import zipfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings, strategies as st

from gradlib.cli import main
from gradlib.cli.trajopt import limits, urdf
from gradlib.trajectory.planning import problems
from gradlib.trajectory.planning.errors import InputError
from gradlib.trajectory.planning.robot import Joint, assemble
from tests.trajectory.planning.robots import ARM

LIMITS = {"lower": -1.0, "upper": 2.0, "velocity": 1.0, "acceleration": 1.0, "jerk": 1.0}
PAIR = [Joint("a", **LIMITS), Joint("b", **LIMITS)]
SOON = 20.0  # seconds of this process; what is wrong here takes minutes, or for ever
SHORT = 2000  # letters of an error
ANY = settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)


def refused(read, *arguments) -> str:
    """The text of the InputError that a reader ends in, soon."""
    began = time.process_time()
    with pytest.raises(InputError) as caught:
        read(*arguments)
    assert time.process_time() - began < SOON
    assert len(str(caught.value)) < SHORT
    return str(caught.value)


@contextmanager
def refused_shortly() -> Iterator[None]:
    """A context that may end in an InputError, if that is no longer than a person reads."""
    try:
        yield
    except InputError as error:
        if len(str(error)) >= SHORT:
            pytest.fail(f"an error of {len(str(error))} letters")


def read_limits(path: Path) -> tuple[dict[str, dict[str, float]], ...]:
    return limits.tables(limits.read(path), PAIR, path)


def read_problems(path: Path, most: int | None = 1000) -> problems.Problems:
    return problems.read(path, assemble("pair", PAIR), most)


def assert_sound(read: problems.Problems) -> None:
    """What was read can be planned for, or says of each problem why it cannot."""
    count = len(read.reasons)
    assert read.start.shape == read.goal.shape == (count, 2)
    assert read.start.dtype == read.goal.dtype == np.float64
    finite = np.isfinite(read.start).all(axis=1) & np.isfinite(read.goal).all(axis=1)
    assert all(reason for reason, good in zip(read.reasons, finite, strict=True) if not good)


# ---- limits in YAML ----------------------------------------------------------------------------------------------------------

LAUGHS = "a: &a [x, x, x, x, x, x, x, x, x, x]\n" + "".join(
    f"{b}: &{b} [{', '.join([f'*{a}'] * 10)}]\n" for a, b in zip("abcdefghijk", "bcdefghijkl", strict=True)
)


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (LAUGHS.replace("l:", "jerk:"), "unknown key 'a'"),
        (LAUGHS.split("\n", 1)[0].replace("a: ", "jerk: ") + "\n", "one for each of the 2 joints"),
        ("jerk:\n  a: &a [" + "1, " * 100 + "1]\n  b: [" + "*a, " * 100 + "*a]", "must be a finite number, got"),
        ("jerk: &j [*j, *j]", "must be a finite number, got"),
        ("jerk: {a: &j {x: *j}}", "must be a finite number, got"),
        ("jerk: " + "[" * 5000, "more than 16 levels"),
        ("? " * 5000, "more than 16 levels"),
        ("- " * 5000, "more than 16 levels"),
        ("{a: " * 20, "more than 16 levels"),
        ("jerk: 1" + ":1" * 1_000_000, "1000 letters"),
        ("jerk: 0x" + "f" * 100_000, "1000 letters"),
        ("jerk: 0x" + "f" * 900, "must be a finite number, got"),
        ("jerk: " + "9" * 900, "must be a finite number, got"),
        ("jerk: '" + "x" * 900 + "'", "must be a finite number, got 'x"),
        ("jerk: [" + "1," * 100_000 + "1]", "100000 entries"),
        ("#" + "x" * (5 << 20), "larger than 4 MiB"),
        ("jerk: !!timestamp x", "not a YAML file"),
        ("jerk: !!bool x", "not a YAML file"),
        ("jerk: !!int x", "not a YAML file"),
        ("jerk: !!float ''", "not a YAML file"),
        ("jerk: !!binary '*'", "must be a finite number, got b'"),
        ("jerk: !!python/object/apply:os.getcwd []", "not a YAML file"),
        ("jerk: 2024-99-99", "not a YAML file"),
        ("jerk: 2024-09-09", "must be a finite number, got datetime"),
        ("? [1, 2]\n: 3", "not a YAML file"),
        ("? {a: 1}\n: 3", "not a YAML file"),
        ("<<: {jerk: 1}", "not a YAML file"),
        ("jerk: *nothing", "not a YAML file"),
        ("jerk: .inf", "must be a finite number, got inf"),
        ("jerk: !!set {a, b}", "must be a finite number"),
        ("jerk: 1\njerk: 2", "gives 'jerk' twice"),
        ("!!set {jerk}", "must hold a mapping"),
        ("jerk: {1: 2}", "names joint 1"),
        ("{" + ", ".join(f"k{k}: 1" for k in range(8_000)) + "}", "unknown key 'k0'"),
        ("jerk: {" + ", ".join(f"k{k}: 1" for k in range(8_000)) + "}", "names joint k0"),
        ("\0", "not a YAML file"),
        ('jerk: {"\\ud800": 1}', "half a letter"),
        ("jerk: \ud800".encode("utf-8", "surrogatepass").decode("latin-1"), "not a YAML file"),
    ],
)
def test_limits_that_only_do_harm(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "l.yaml"
    path.write_text(text, encoding="utf-8")
    assert says in refused(read_limits, path)


def test_limits_with_plain_aliases_are_read(tmp_path: Path) -> None:
    (tmp_path / "l.yaml").write_text("joints: {a: &both {jerk: 2, velocity: 3}, b: *both}")
    assert read_limits(tmp_path / "l.yaml") == ({}, {"jerk": {"a": 2.0, "b": 2.0}, "velocity": {"a": 3.0, "b": 3.0}})


@ANY
@given(st.one_of(st.binary(max_size=60), st.text("abjerk:{}[]&*!<>-? \n1.'\"#|", max_size=60).map(str.encode)))
def test_limits_of_any_bytes(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "l.yaml"
    path.write_bytes(content)
    with refused_shortly():
        for kind in read_limits(path):
            assert all(isinstance(value, float) and math.isfinite(value) for each in kind.values() for value in each.values())


# ---- robots in URDF ----------------------------------------------------------------------------------------------------------


def chain(count: int, reverse: bool = False) -> list[Joint]:
    """A joint, and others that each mimic the one before."""
    made = [Joint("j0", **LIMITS), *(Joint(f"j{k}", mimic=(f"j{k - 1}", 1.0, 0.0)) for k in range(1, count))]
    return made[::-1] if reverse else made


@pytest.mark.parametrize("reverse", [False, True])
def test_thousands_of_mimic_joints(reverse: bool) -> None:
    began = time.process_time()
    assert assemble("chain", chain(20_000, reverse)).joints == ("j0",)
    assert time.process_time() - began < SOON


def test_mimic_joints_in_a_circle_or_without_bounds() -> None:
    circle = [Joint(f"j{k}", mimic=(f"j{(k + 1) % 5000}", 1.0, 0.0)) for k in range(5000)]
    assert "follows itself" in refused(assemble, "circle", [Joint("a", **LIMITS), *circle])
    huge = [Joint("j0", **LIMITS), *(Joint(f"j{k}", mimic=(f"j{k - 1}", 1e300, 0.0)) for k in range(1, 4))]
    assert "too large" in refused(assemble, "huge", huge)


def many(count: int, joint: str = '<limit velocity="1"/>') -> str:
    return "<robot>" + "".join(f'<joint name="j{k}" type="revolute">{joint}</joint>' for k in range(count)) + "</robot>"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        ("<robot>" + "<a>" * 100_000, "not well-formed"),
        ("<robot>" + " " * (65 << 20), "larger than 64 MiB"),
        (many(1, f'<limit velocity="{"9" * 5000}"/>'), "must be a finite number, got '999"),
        (f'<robot><joint name="a" type="{"x" * 100_000}"/></robot>', "is of type 'xxx"),
        (many(20_000, '<mimic joint="none"/>'), "mimics none"),
    ],
)
def test_robots_that_only_do_harm(text: str, says: str, tmp_path: Path) -> None:
    path = tmp_path / "r.urdf"
    path.write_text(text)
    assert says in refused(urdf.read, path)


def test_robots_of_many_joints(tmp_path: Path) -> None:
    """Twenty thousand, also in the errors about them."""
    (tmp_path / "r.urdf").write_text(many(20_000))
    _, joints, _ = urdf.read(tmp_path / "r.urdf")
    assert len(joints) == 20_000
    (tmp_path / "l.yaml").write_text("jerk: {x: 1}")
    assert "it has j0, j1," in refused(limits.tables, limits.read(tmp_path / "l.yaml"), joints, "l.yaml")
    machine = assemble("many", [Joint(joint.name, **LIMITS) for joint in joints])
    header = ",".join(f"{end}_{joint}" for joint in machine.joints for end in ("goal", "start"))
    (tmp_path / "p.csv").write_text(f"{header}\n{','.join(['0', '1'] * 20_000)}\n")
    began = time.process_time()
    assert problems.read(tmp_path / "p.csv", machine).start.tolist() == [[1.0] * 20_000]
    assert time.process_time() - began < SOON
    (tmp_path / "p.csv").write_text("x\n1\n")
    assert "misses 'start_j0'" in refused(problems.read, tmp_path / "p.csv", machine)


@ANY
@given(st.data())
def test_robots_of_any_bytes(tmp_path: Path, data: st.DataObject) -> None:
    path = tmp_path / "r.urdf"
    path.write_bytes(mutated(data, ARM.encode()))
    with refused_shortly():
        _, joints, _ = urdf.read(path)
        assemble("any", [Joint(j.name, j.kind, j.lower, j.upper, j.velocity, 1.0, 1.0, j.mimic) for j in joints])


def mutated(data: st.DataObject, content: bytes) -> bytes:
    """Bytes with some changed, and perhaps the end cut off."""
    made = bytearray(content)
    for _ in range(data.draw(st.integers(0, 4))):
        made[data.draw(st.integers(0, len(made) - 1))] = data.draw(st.integers(0, 255))
    return bytes(made[: data.draw(st.integers(0, 2 * len(made)))])


# ---- problems in NPZ and CSV -------------------------------------------------------------------------------------------------


def packed(compression: int = zipfile.ZIP_DEFLATED, **arrays: object) -> bytes:
    """An NPZ file; an array may be given as the bytes that stand for it."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w", compression) as archive:
        for name, array in arrays.items():
            if isinstance(array, bytes):
                archive.writestr(f"{name}.npy", array)
            else:
                with archive.open(f"{name}.npy", "w") as file:
                    np.save(file, np.asarray(array))
    return made.getvalue()


def header(shape: object, descr: object = "<f8") -> bytes:
    """The beginning of an array's file."""
    text = repr({"descr": descr, "fortran_order": False, "shape": shape}).encode()
    return b"\x93NUMPY\x01\x00" + len(text).to_bytes(2, "little") + text


GOOD = np.array([[0.0, 0.5], [1.0, -0.5]])
BOMB = header((1 << 27, 2)) + bytes(16 << 20)


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (packed(start=BOMB, goal=BOMB), "problems need more memory"),
        (packed(start=header((2, 1 << 27)) + bytes(16 << 20), goal=GOOD), "must have shape (N, 2)"),
        (packed(start=header((900, 2)), goal=GOOD), "not an NPZ file of numbers"),
        (packed(start=header((-1, 2)), goal=GOOD), "not an NPZ file of numbers"),
        (packed(start=header("__import__('os')"), goal=GOOD), "not an NPZ file of numbers"),
        (packed(start=header((2, 2), "|O") + bytes(32), goal=GOOD), "not an NPZ file of numbers"),
        (packed(start=header((2, 2), [("a", "<f8")]) + bytes(32), goal=GOOD), "real numbers"),
        (packed(start=header((1,) * 1000) + bytes(8), goal=GOOD), "must have shape"),
        (packed(start=b"\x93NUMPY\x09\x00", goal=GOOD), "not an NPZ file of numbers"),
        (packed(start=b"", goal=GOOD), "not an NPZ file of numbers"),
        (packed(**{f"a{k}": b"" for k in range(3000)}), "it has a0, a1,"),
        (packed(start=np.zeros((5, 2)), goal=np.full((5, 2), "x" * 1000)), "real numbers"),
    ],
)
def test_npz_files_that_only_do_harm(content: bytes, says: str, tmp_path: Path) -> None:
    (tmp_path / "p.npz").write_bytes(content)
    assert says in refused(read_problems, tmp_path / "p.npz")


@pytest.mark.parametrize("compression", [zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2, zipfile.ZIP_LZMA])
@pytest.mark.slow
def test_npz_files_with_every_bit_flipped(compression: int, tmp_path: Path) -> None:
    """Whatever is read in spite of it is what was there: the file has check sums."""
    content = packed(compression, start=GOOD, goal=GOOD + 0.1)
    (tmp_path / "p.npz").write_bytes(content)
    np.testing.assert_array_equal(read_problems(tmp_path / "p.npz").start, GOOD)
    read = 0
    for place in range(len(content)):
        flipped = bytearray(content)
        flipped[place] ^= 1 << place % 8
        (tmp_path / "p.npz").write_bytes(flipped)
        with refused_shortly():
            np.testing.assert_array_equal(read_problems(tmp_path / "p.npz").start, GOOD)
            read += 1
    assert 0 < read < len(content) / 2, "only what means nothing"


@ANY
@given(st.data())
def test_npz_files_of_any_bytes(tmp_path: Path, data: st.DataObject) -> None:
    (tmp_path / "p.npz").write_bytes(mutated(data, packed(start=GOOD, goal=GOOD + 0.1)))
    with refused_shortly():
        assert_sound(read_problems(tmp_path / "p.npz"))


CSV = "start_a,start_b,goal_a,goal_b\n0,0,1,1\n0.5,nan,1e-3,1\n"


@pytest.mark.parametrize(
    ("text", "says"),
    [
        (CSV + "0,0,1,1\n" * 2000, "problems need more memory than this machine has, which is enough for 1000"),
        (CSV + "x" * (17 << 20), "a line of more than 16 MiB"),
        (CSV + "0,0,1," + "9" * 200_000, "not a CSV file"),
        (CSV + "0,0,1," + "x" * 100_000, "must be a number, got 'xxx"),
        (CSV + '0,0,1,"' + "1\n" * 100_000, "not a CSV file|must be a number"),
        (CSV.split("\n")[0] + ",x" * 20_000, "has an unknown 'x', 'x',"),
        ("start_a," * 20_000, "repeats 'start_a'"),
        (CSV + "0,0,1,1\0", "must be a number|not a CSV file"),
    ],
)
def test_csv_files_that_only_do_harm(text: str, says: str, tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text(text)
    found = refused(read_problems, tmp_path / "p.csv")
    assert any(each in found for each in says.split("|"))


@ANY
@given(st.data())
def test_csv_files_of_any_bytes(tmp_path: Path, data: st.DataObject) -> None:
    (tmp_path / "p.csv").write_bytes(mutated(data, CSV.encode()))
    with refused_shortly():
        assert_sound(read_problems(tmp_path / "p.csv"))


@pytest.mark.skipif(not Path("/dev/zero").exists(), reason="no /dev/zero")
@pytest.mark.parametrize(
    ("name", "read"), [("z.yaml", read_limits), ("z.urdf", urdf.read), ("z.csv", read_problems), ("z.npz", read_problems)]
)
def test_files_without_an_end(name: str, read, tmp_path: Path) -> None:
    (tmp_path / name).symlink_to("/dev/zero")
    refused(read, tmp_path / name)


# ---- more than memory has room for -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("arguments", [["--samples", "99999999999999"], ["--samples", "9" * 40], ["--horizon", "99999999999999"]])
def test_more_than_memory_has_room_for(arguments: list[str], tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    began = time.process_time()
    assert main(["trajopt", *arguments, "--out", str(tmp_path / "out")]) == 2
    assert "more memory than this machine has" in capsys.readouterr().err
    assert time.process_time() - began < SOON
    assert not (tmp_path / "out").exists()


def test_memory_that_runs_out_all_the_same(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    from gradlib.trajectory.planning import solve

    def full(*_: object) -> None:
        raise MemoryError

    monkeypatch.setattr(solve, "plan", full)
    assert main(["trajopt", "--samples", "1", "--out", str(tmp_path / "out")]) == 1
    assert "not enough memory" in capsys.readouterr().err
    assert not (tmp_path / "out").exists()
