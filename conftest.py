"""Examples in docstrings of the library say `atl` and `reschedule` without importing them each time."""

from __future__ import annotations

import gc
from typing import Any

import pytest

import atl
from rewrites import reschedule


def pytest_configure() -> None:
    """Terms are many, small and never in cycles: looking for cycles as often as Python does takes a fifteenth."""
    gc.set_threshold(50_000, 20, 50)


@pytest.fixture(autouse=True)
def _names_of_examples(doctest_namespace: dict[str, Any]) -> None:
    doctest_namespace.setdefault("atl", atl)
    doctest_namespace.setdefault("reschedule", reschedule)
