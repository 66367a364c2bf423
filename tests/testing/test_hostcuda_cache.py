"""What hostcuda keeps of compiled kernels."""

from __future__ import annotations

import os
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from gradlib.testing.hostcuda.build import gxx
from gradlib.testing.hostcuda.compiler import shared_object
from gradlib.testing.hostcuda.loader import symbols
from tests.device import skip_module_without_hostcuda

pytestmark = pytest.mark.host
skip_module_without_hostcuda()

SOURCE = '#include "factor.cuh"\nextern "C" __global__ void scale(float* x) { x[0] *= FACTOR; }'


def test_a_kept_kernel_is_found_by_its_headers_texts_wherever_they_lie(tmp_path: Path) -> None:
    options = []
    for name in ("here", "there"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "factor.cuh").write_text("#define FACTOR 2")
        options.append((f"-I{tmp_path / name}",))
    kept = shared_object(SOURCE, options[0])
    assert shared_object(SOURCE, options[1]) == kept
    (tmp_path / "there" / "factor.cuh").write_text("#define FACTOR 3")
    assert shared_object(SOURCE, options[1]) != kept
    assert shared_object(SOURCE, ("-DFACTOR", *options[0])) != kept


WORKER = """
from gradlib.testing.hostcuda.compiler import shared_object
print(shared_object('extern "C" __global__ void scale(float* x) { x[0] *= 2; }', ()))
"""


class Compiler:
    """g++ behind a script that notes each file it makes, and stops half way through a kernel where it is told to."""

    def __init__(self, folder: Path) -> None:
        self.made, self.slow, self.cache = folder / "made", folder / "slow", folder / "cache"
        script = folder / "g++"
        script.write_text(
            f"""#!/bin/sh
            [ "$1" = --version ] && exec {gxx()} "$@"
            for target; do :; done
            case "$target" in *.so)
                [ -e {self.slow} ] && head -c 500 {gxx()} > "$target" && echo half > {self.slow} && exec sleep 60
            esac
            echo "$target" >> {self.made}
            exec {gxx()} "$@"
            """
        )
        script.chmod(0o700)
        self.environment = {**os.environ, "HOSTCUDA_CACHE": str(self.cache), "HOSTCUDA_CXX": str(script)}

    def worker(self) -> subprocess.Popen[str]:
        """A process that wants the kernel, in a group of its own with what it starts."""
        return subprocess.Popen(
            [sys.executable, "-c", WORKER],
            env=self.environment,
            text=True,
            start_new_session=True,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def kernel_of(self, worker: subprocess.Popen[str]) -> Path:
        out, errors = worker.communicate(timeout=400)
        assert worker.returncode == 0, errors
        return Path(out.strip())

    def compiled(self) -> list[str]:
        return [Path(line).suffix for line in self.made.read_text().splitlines()]


@pytest.mark.slow
def test_workers_that_want_one_kernel_at_the_same_time_compile_it_once(tmp_path: Path) -> None:
    compiler = Compiler(tmp_path)
    workers = [compiler.worker() for _ in range(3)]
    found = {compiler.kernel_of(worker) for worker in workers}
    assert len(found) == 1
    assert "scale" in dict(symbols(found.pop()))
    assert sorted(compiler.compiled()) == [".gch", ".so"]


@pytest.mark.slow
def test_a_worker_that_is_killed_while_it_compiles_leaves_no_half_kernel(tmp_path: Path) -> None:
    compiler = Compiler(tmp_path)
    compiler.slow.touch()
    killed = compiler.worker()
    try:
        while killed.poll() is None and not compiler.slow.read_text():
            time.sleep(0.01)
        waiting = compiler.worker()  # finds the lock taken
        compiler.slow.unlink()
    finally:
        os.killpg(killed.pid, signal.SIGKILL)
        killed.communicate()
    assert "scale" in dict(symbols(compiler.kernel_of(waiting)))
    assert "scale" in dict(symbols(compiler.kernel_of(compiler.worker())))
    assert compiler.compiled() == [".gch", ".so"]


def test_what_is_kept_is_the_users_alone(tmp_path: Path) -> None:
    compiler = Compiler(tmp_path)
    compiler.cache.mkdir()
    compiler.cache.chmod(0o777)
    worker = compiler.worker()
    assert "must be yours and writable by nobody else" in worker.communicate(timeout=400)[1]
    assert worker.returncode == 1
    shutil.rmtree(compiler.cache)
