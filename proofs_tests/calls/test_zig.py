"""The compiler in the ziglang package: used last, and only if its objects can be loaded."""

from __future__ import annotations

import os
import stat
import sys
from importlib.util import find_spec
from pathlib import Path

import numpy as np
import pytest

import atl
from atl.errors import CompilerMissing
from lowering import compile, find_compiler  # noqa: A004 (the public API name)
from lowering.c_compiler import _probed


@pytest.fixture
def fake_zig(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Install a ziglang package that runs the local C compiler, with no other compiler in PATH."""
    compiler = find_compiler()
    python = tmp_path / "python"
    python.write_text(f'#!/bin/sh\nshift 3\nPATH={os.environ["PATH"]} exec {compiler.path} "$@"\n')
    python.chmod(python.stat().st_mode | stat.S_IXUSR)
    monkeypatch.setattr("lowering.c_compiler.find_spec", lambda name: find_spec("sys") if name == "ziglang" else None)
    monkeypatch.setattr(sys, "executable", str(python))
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    return python


def test_zig_is_used_without_another_compiler(fake_zig: Path) -> None:
    found = find_compiler()
    assert found.command == (str(fake_zig), "-m", "ziglang", "cc")
    assert str(found).startswith(f"{fake_zig} -m ziglang cc (")


@pytest.mark.parametrize(
    ("does", "message"),
    [
        ("exit 7", "does not build a shared object"),
        ('for at; do last="$at"; done; : ; while [ "$1" != -o ]; do shift; done; echo no > "$2"', "cannot be loaded"),
    ],
)
def test_zig_that_builds_unloadable_objects_is_refused(fake_zig: Path, does: str, message: str) -> None:
    text = fake_zig.read_text()
    builds = f'case "$*" in *-shared*) {does}; exit;; esac'
    fake_zig.write_text(text.replace("shift 3\n", f"shift 3\n{builds}\n"))
    _probed.cache_clear()
    with pytest.raises(CompilerMissing, match=f"no C compiler was found; the package ziglang .*{message}"):
        find_compiler()
    _probed.cache_clear()


@pytest.mark.slow
@pytest.mark.skipif(find_spec("ziglang") is None, reason="ziglang is not installed")
def test_zig_builds_kernels(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first run takes minutes, as it builds the C library."""
    monkeypatch.setenv("PATH", "")
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("ATL_CACHE", str(tmp_path))
    assert find_compiler().kind == "clang"
    kernel = compile(atl.parse("f (x : float32[n]) : float32[n] := gen[i < n | vector] exp(x[i])"))
    assert np.allclose(kernel(np.arange(4, dtype=np.float32)), np.exp(np.arange(4)))
