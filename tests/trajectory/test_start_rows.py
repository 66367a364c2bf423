"""Rows chosen by index and their transpose."""

from __future__ import annotations

import numpy as np
import pytest

from gradlib.trajectory.start_rows import rows, rows_adjoint
from tests.trajectory.helpers import host


@pytest.mark.parametrize("index", [[0, 0, 3, 1], [2], [], [0, 3, 1] * 100], ids=len)
def test_transpose(make, rng, index):
    values, chosen = make(4, 3), make.put(np.array(index, dtype=np.int64))
    np.testing.assert_array_equal(host(rows(values, chosen)), host(values)[index])
    grads = make(len(index), 3)
    expected = np.zeros((4, 3))
    np.add.at(expected, np.array(index, dtype=int), host(grads))
    np.testing.assert_allclose(host(rows_adjoint(grads, chosen, 4)), expected, rtol=1e-12)


def test_a_narrow_type_stays(make):
    assert rows_adjoint(make(3, 2, dtype=np.float16), make.put(np.array([0, 0, 1])), 2).dtype == np.float16
