"""Examples in docstrings of the library say `atl` and `reschedule` without importing them each time."""

from __future__ import annotations

from typing import Any

import pytest

import atl
from rewrites import reschedule


@pytest.fixture(autouse=True)
def _names_of_examples(doctest_namespace: dict[str, Any]) -> None:
    doctest_namespace.setdefault("atl", atl)
    doctest_namespace.setdefault("reschedule", reschedule)
