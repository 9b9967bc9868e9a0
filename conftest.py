"""Settings of pytest: names for doctests, memory limits, random order, skipped tests without a library."""

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
from proofs_tests.crashes import Crashes
from proofs_tests.memory import Memory
from proofs_tests.sampling import MARKS, sample, take_part
from rewrites import reschedule


def pytest_configure(config: pytest.Config) -> None:
    """Collect garbage rarely, limit memory, and disable time limits of properties.

    Terms are many, small and never in cycles. With Python's defaults, garbage collection takes 7 % of the time.
    """
    gc.set_threshold(50_000, 20, 50)
    config.pluginmanager.register(Memory())
    config.pluginmanager.register(Crashes())
    from hypothesis import HealthCheck, settings  # not at the top, because pytest warns of modules imported before it

    # Both limits are in wall-clock time, which depends on the load.
    settings.register_profile("busy", deadline=None, suppress_health_check=[HealthCheck.too_slow])
    settings.load_profile("busy")


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add `--shuffle SEED`, which runs files, and the tests in each, in a random order; and `--part K/N`."""
    parser.addoption("--shuffle", type=int, metavar="SEED", help="run files, and the tests in each, in random order")
    parser.addoption("--part", metavar="K/N", help="run the K-th of N parts of the long tests")


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Select and shuffle tests. Those of a file stay together, because they share builds."""
    sample(items)
    if (part := config.getoption("part")) is not None:
        take_part(items, part)
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
    """Skip a test if the C compiler lacks OpenMP or the sanitizers, which clang has in separate packages."""
    try:
        return (yield)
    except Exception as error:
        needed = {library for cause in _causes(error) for library in _libraries_of(cause)}
        if needed and (reason := lacking(*needed)):
            pytest.skip(reason)
        raise


def _causes(error: Exception) -> list[BaseException]:
    """Return the errors of a doctest, or the error itself."""
    failures = getattr(error, "failures", [error])
    return [each.exc_info[1] if isinstance(each, doctest.UnexpectedException) else each for each in failures]


def _libraries_of(error: BaseException) -> Iterator[Library]:
    """Yield the libraries whose absence may have caused an error."""
    if isinstance(error, CompilerFailed):
        text = f"{error.summary} {error.required or ''}"
        if "does not support OpenMP" in text:
            yield "OpenMP"
        if "-fsanitize=" in text:
            yield "sanitizers"


@pytest.fixture(autouse=True)
def _names_of_examples(doctest_namespace: dict[str, Any]) -> None:
    doctest_namespace.setdefault("atl", atl)
    doctest_namespace.setdefault("reschedule", reschedule)
