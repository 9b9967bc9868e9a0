"""Fixtures with C compilers for the tests of the toolchain."""

from __future__ import annotations

from pathlib import Path

import pytest

from lowering.c_compiler import find_compiler
from proofs_tests.c.scripts import LoggingCompiler, script


@pytest.fixture
def no_cc(monkeypatch: pytest.MonkeyPatch) -> None:
    """Look for compilers in PATH."""
    monkeypatch.delenv("CC", raising=False)


@pytest.fixture
def logging_compiler(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> LoggingCompiler:
    log = tmp_path / "calls"
    real = find_compiler().path
    path = script(tmp_path / "bin" / "logging-cc", f'echo "$*" >> {log}\nexec {real} "$@"')
    monkeypatch.setenv("CC", str(path))
    return LoggingCompiler(path, log)
