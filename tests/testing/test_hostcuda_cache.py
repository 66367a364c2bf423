"""What hostcuda keeps of compiled kernels."""

from __future__ import annotations

from pathlib import Path

import pytest

from gradlib.testing.hostcuda.compiler import shared_object
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
