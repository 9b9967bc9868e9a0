"""Caches of compiled kernels that tests have to themselves. A file takes one by `pytest.mark.usefixtures`."""

from __future__ import annotations

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
