"""The folder in which the tests keep compiled kernels is its user's alone."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path

import pytest

from tests.shim.kept import cache_folder


@pytest.fixture
def place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Where the folder would be, in a temporary directory of this test's own."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path / f"gradlib-shim-{os.getuid()}"


def test_it_is_made_for_its_user(place: Path) -> None:
    before = os.umask(0)
    try:
        assert cache_folder() == place
    finally:
        os.umask(before)
    assert stat.S_IMODE(place.stat().st_mode) == 0o700
    place.chmod(0o755)  # as earlier versions made it: others could only read
    assert stat.S_IMODE(cache_folder().stat().st_mode) == 0o700


@pytest.mark.parametrize("mode", [0o770, 0o702, 0o777])
def test_one_that_others_can_write_is_refused(place: Path, mode: int) -> None:
    place.mkdir()
    place.chmod(mode)
    with pytest.raises(RuntimeError, match="can be written by others"):
        cache_folder()


def test_links_files_and_other_peoples_are_refused(place: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (place.parent / "elsewhere").mkdir()
    place.symlink_to(place.parent / "elsewhere")
    with pytest.raises(RuntimeError, match="must be a folder"):
        cache_folder()
    place.unlink()
    place.mkdir(mode=0o700)
    owner = place.stat().st_uid
    monkeypatch.setattr(os, "getuid", lambda: owner + 1)
    place.rename(place.with_name(f"gradlib-shim-{owner + 1}"))
    with pytest.raises(RuntimeError, match=f"belongs to user {owner}"):
        cache_folder()


def test_the_shim_keeps_it_there(place: Path) -> None:
    """A folder of somebody else's stops the shim before anything in it is run."""
    from tests import shim

    place.mkdir()
    place.chmod(0o777)
    with pytest.raises(RuntimeError, match="can be written by others"):
        shim.build.__wrapped__("chain.cu", ())
