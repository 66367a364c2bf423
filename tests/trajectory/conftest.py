"""What the trajectory tests share."""

from __future__ import annotations

import pytest

from tests.trajectory.helpers import Maker


@pytest.fixture
def make(rng, device) -> Maker:
    """Makes random tensors on the device under test."""
    return Maker(rng, device)
