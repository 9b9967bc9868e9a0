"""Failed builds: the message names the true cause."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path
from types import SimpleNamespace

import pytest

from atl.errors import CompilerFailed
from lowering.builds import build_shared, find_compiler, load
from proofs_tests.c.scripts import SQUARES, SQUARES_CDEF, script

pytestmark = pytest.mark.usefixtures("private_cache")


def test_object_on_noexec_filesystem_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    path = build_shared("double undefined_elsewhere(void); double f(void) { return undefined_elsewhere(); }", name="f")
    monkeypatch.setattr(os, "ST_NOEXEC", 8, raising=False)
    monkeypatch.setattr(os, "statvfs", lambda _: SimpleNamespace(f_flag=8))
    with pytest.raises(CompilerFailed, match=r"(?s)required: .* mounted noexec.* set ATL_CACHE"):
        load(path, "double f(void);")


def test_compiler_for_another_c_library_is_named_as_cause(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The objects of this compiler, like those of musl-gcc, need a library that the system lacks."""
    real = find_compiler().path
    subprocess.run([real, "-shared", "-x", "c", "/dev/null", "-o", tmp_path / "libother.so"], check=True)
    other = f'case "$*" in *-shared*) set -- "$@" -Wl,--no-as-needed -L{tmp_path} -lother;; esac; exec {real} "$@"'
    monkeypatch.setenv("CC", str(script(tmp_path / "other-cc", other)))
    path = build_shared(SQUARES, name="squares")
    with pytest.raises(
        CompilerFailed, match=r"(?s)other-cc .* builds objects that cannot be loaded: libother"
    ) as caught:
        load(path, SQUARES_CDEF)
    assert "the C library that Python runs on" in str(caught.value.required)
    assert "noexec" not in str(caught.value)


@pytest.mark.parametrize("directive", ["", "#pragma omp parallel", "#pragma omp simd"])
def test_full_disk_is_named_as_cause(directive: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    full = 'case "$*" in *" -o "*) echo error closing /tmp/x.s: No space left on device >&2; exit 1;; esac; exec'
    monkeypatch.setenv("CC", str(script(tmp_path / "full-cc", f'{full} {find_compiler().path} "$@"')))
    with pytest.raises(CompilerFailed, match="No space left on device") as caught:
        build_shared(f"{SQUARES}\n{directive}\n", name="squares")
    assert "OpenMP" not in str(caught.value)
    assert "free some space" in str(caught.value)
