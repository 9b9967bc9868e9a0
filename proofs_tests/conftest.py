"""Fixtures: private kernel caches (used by `pytest.mark.usefixtures`), C compilers and interrupts."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from pathlib import Path
from zlib import crc32

import pytest

from proofs_tests.compilers import installed, is_older, with_targets


def pytest_generate_tests(metafunc: pytest.Metafunc) -> None:
    """Parametrise a test by `each_compiler` (all C compilers), or by `each_target` (older processors too).

    All cases but the first are long. With older versions of a compiler two tests of three are slow.
    """
    older = pytest.mark.slow if crc32(metafunc.definition.nodeid.encode()) % 3 else pytest.mark.long
    for name, chosen in (("each_compiler", installed), ("each_target", with_targets)):
        if name in metafunc.fixturenames:
            first, *others = chosen() or [""]
            cases = [
                first,
                *(pytest.param(other, marks=older if is_older(other) else pytest.mark.long) for other in others),
            ]
            metafunc.parametrize(name, cases, indirect=True, ids=lambda named: named.rpartition("/")[2])


def _with_cc(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Set CC for this test."""
    monkeypatch.setenv("CC", request.param)
    return str(request.param)


each_compiler = pytest.fixture(name="each_compiler")(_with_cc)
each_target = pytest.fixture(name="each_target")(_with_cc)


@pytest.fixture
def private_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Use a new kernel cache for one test."""
    cache = tmp_path / "cache"
    monkeypatch.setenv("ATL_CACHE", str(cache))
    return cache


@pytest.fixture(scope="module")
def cache_of_the_file(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Use one new kernel cache for all tests of a file."""
    cache = tmp_path_factory.mktemp("cache")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("ATL_CACHE", str(cache))
        yield cache


@pytest.fixture(scope="session", autouse=True)
def _enable_interrupts() -> None:
    """Restore SIGINT, which a shell disables in background processes and their children."""
    if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
        signal.signal(signal.SIGINT, signal.default_int_handler)
