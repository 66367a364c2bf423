"""pytest's side: the driver goes beneath CuPy before any conftest is read, and a test with a hazard fails, whoever swallowed the error."""

from __future__ import annotations

from collections.abc import Generator

import pytest

from . import Hazard, Unavailable, activate, forget_hazards, hazards, is_active


@pytest.hookimpl(tryfirst=True)
def pytest_load_initial_conftests() -> None:
    try:
        activate()
    except Unavailable as reason:
        raise pytest.UsageError(str(reason)) from None


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call(item: pytest.Item) -> Generator[None, object, object]:
    if not is_active():
        return (yield)
    forget_hazards()
    result = yield
    found = hazards()
    forget_hazards()
    if found:
        raise Hazard("\n".join(found))
    return result
