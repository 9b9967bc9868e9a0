"""Examples in docstrings say `atl` and `reschedule` without importing them; the tests run in any order."""

from __future__ import annotations

import gc
import random
from typing import Any

import pytest

import atl
from rewrites import reschedule


def pytest_configure() -> None:
    """Terms are many, small and never in cycles: looking for cycles as often as Python does takes a fifteenth."""
    gc.set_threshold(50_000, 20, 50)


def pytest_addoption(parser: pytest.Parser) -> None:
    """`pytest --shuffle 1` runs files, and the tests in each, in a random order: the same for the same number."""
    parser.addoption("--shuffle", type=int, metavar="SEED", help="run files, and the tests in each, in random order")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The tests of a file stay together, as they share what was built for them; all processes come to one order."""
    if (seed := config.getoption("shuffle")) is not None:
        drawn = random.Random(seed)
        files = sorted({item.path for item in items})
        drawn.shuffle(files)
        drawn.shuffle(items)
        place = {file: at for at, file in enumerate(files)}
        items.sort(key=lambda item: place[item.path])


@pytest.fixture(autouse=True)
def _names_of_examples(doctest_namespace: dict[str, Any]) -> None:
    doctest_namespace.setdefault("atl", atl)
    doctest_namespace.setdefault("reschedule", reschedule)
