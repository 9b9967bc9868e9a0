"""Caches of kernels that tests have to themselves (a file takes one by `pytest.mark.usefixtures`), and interrupts."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path

import pytest


@pytest.fixture
def private_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """What a test compiles is kept in a folder of its own: nothing is built before it, and nothing stays behind."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("ATL_CACHE", str(cache))
    return cache


@pytest.fixture(scope="module")
def cache_of_the_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """One folder for all tests of a file, where many compile the same."""
    cache = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ATL_CACHE", str(cache))
        yield cache


@pytest.fixture(scope="session", autouse=True)
def _interrupts_arrive() -> None:
    """A shell starts what it runs in the background with interrupts ignored, and so would be what a test starts."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
