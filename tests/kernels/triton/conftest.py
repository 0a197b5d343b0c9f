"""The launchers are called directly here, so that it does not matter which version `dispatch` would pick."""

import pytest


@pytest.fixture(autouse=True)
def ops() -> str:
    """Run each test once, not once per version of the CPU."""
    return "triton"
