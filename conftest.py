"""Examples in docstrings say `atl` and `reschedule` without importing them; the tests run in any order."""

from __future__ import annotations

import doctest
import gc
import random
from collections.abc import Generator, Iterator
from typing import Any

import pytest

import atl
from atl.errors import CompilerFailed
from proofs_tests.compilers import Library, lacking
from proofs_tests.memory import Memory
from proofs_tests.sampling import MARKS, sample
from rewrites import reschedule


def pytest_configure(config: pytest.Config) -> None:
    """Terms are many, small and never in cycles: looking for cycles as often as Python does takes a fifteenth.

    Memory is bounded, and time on the clock fails no property.
    """
    gc.set_threshold(50_000, 20, 50)
    config.pluginmanager.register(Memory())
    from hypothesis import HealthCheck, settings  # here: pytest warns of what was imported before it

    # Both are about time on the clock, which a busy machine has more of.
    settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("busy")


def pytest_addoption(parser: pytest.Parser) -> None:
    """`pytest --shuffle 1` runs files, and the tests in each, in a random order: the same for the same number."""
    parser.addoption("--shuffle", type=int, metavar="SEED", help="run files, and the tests in each, in random order")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """The tests of a file stay together, as they share what was built for them; all processes come to one order."""
    sample(items)
    config.stash[MARKS] = {item.nodeid: frozenset(mark.name for mark in item.iter_markers()) for item in items}
    if (seed := config.getoption("shuffle")) is not None:
        drawn = random.Random(seed)
        files = sorted({item.path for item in items})
        drawn.shuffle(files)
        drawn.shuffle(items)
        place = {file: at for at, file in enumerate(files)}
        items.sort(key=lambda item: place[item.path])


@pytest.hookimpl(wrapper=True)
def pytest_runtest_call() -> Generator[None, object, object]:
    """Skip a test for which the C compiler lacks a library: clang's OpenMP and the sanitizers are packages apart."""
    try:
        return (yield)
    except Exception as error:
        needed = {library for cause in _causes(error) for library in _libraries_of(cause)}
        if needed and (reason := lacking(*needed)):
            pytest.skip(reason)
        raise


def _causes(error: Exception) -> list[BaseException]:
    """The errors that a doctest ended with, or the error itself."""
    failures = getattr(error, "failures", [error])
    return [each.exc_info[1] if isinstance(each, doctest.UnexpectedException) else each for each in failures]


def _libraries_of(error: BaseException) -> Iterator[Library]:
    """Yield the libraries without which a build may have failed."""
    if isinstance(error, CompilerFailed):
        text = f"{error.summary} {error.required or ''}"
        if "has no OpenMP" in text:
            yield "OpenMP"
        if "-fsanitize=" in text:
            yield "sanitizers"


@pytest.fixture(autouse=True)
def _names_of_examples(doctest_namespace: dict[str, Any]) -> None:
    doctest_namespace.setdefault("atl", atl)
    doctest_namespace.setdefault("reschedule", reschedule)
