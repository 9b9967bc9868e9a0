"""The cache of builds: listing, sizes and clearing, also while a process uses it."""

from __future__ import annotations

import json
import os
import time
from pathlib import Path

import numpy as np
import pytest

import atl
from atl.cli import main
from atl.cli.command import FAILED, GOOD, INTERRUPTED, REFUSED
from atl.errors import InvalidArgument
from lowering import build_shared
from lowering import compile as compiled
from lowering.build_cache import ABANDONED, Entry, entries, evictable, location
from lowering.builds import is_intact

DOUBLED = "doubled (x : float32[n]) : float32[n] := ⊞[i < n] 2 * x[i]"


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("ATL_CACHE", str(tmp_path / "kept"))
    return tmp_path / "kept"


def cache(capsys: pytest.CaptureFixture[str], *arguments: str) -> tuple[int, str]:
    """Run `atl cache` and return its exit code and all output."""
    code = main(["cache", *arguments])
    captured = capsys.readouterr()
    assert "Traceback" not in captured.err
    return code, captured.out + captured.err


def entry(name: str, size: int, used: float) -> Entry:
    return Entry(name, "kernel", (), size, used, used)


def built(name: str) -> Path:
    return build_shared(f"int {name}(void) {{ return 1; }}\n", name=name)


def test_missing_cache_is_empty(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert entries() == []
    assert cache(capsys) == (
        GOOD,
        f"0 builds, 0 files, 0 B in {folder} (the environment variable ATL_CACHE sets another folder)\n",
    )
    assert not folder.exists()


def test_builds_are_listed_with_their_files_and_bytes(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    first, second = built("first"), built("second")
    found = {each.name: each for each in entries()}
    assert set(found) == {first.stem, second.stem}
    whole = found[first.stem]
    assert whole.kind == "kernel"
    assert {path.name for path in whole.files} == {f"{first.stem}{end}" for end in (".so", ".so.json", ".c")}
    assert whole.bytes == sum(path.stat().st_size for path in whole.files)
    code, out = cache(capsys, "list", "--sort", "name")
    assert code == GOOD
    assert out.index(first.stem) < out.index(second.stem)
    assert "2 builds, 6 files" in out
    listed = json.loads(cache(capsys, "list", "--name", "first", "--json")[1])
    assert [build["name"] for build in listed["builds"]] == [first.stem]
    assert listed["count"] == 1
    assert listed["bytes"] == whole.bytes
    assert listed["location"] == str(folder) == str(location())


def test_files_not_created_by_atl_are_ignored(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    kept = built("kept")
    for name in ("notes.txt", "x-123.so", "README", ".hidden"):
        (folder / name).write_text("mine", encoding="utf-8")
    (folder / f"mine-{'a' * 24}").mkdir()
    (folder / f"mine-{'a' * 24}" / "thesis.tex").write_text("years", encoding="utf-8")
    assert [each.name for each in entries()] == [kept.stem]
    assert cache(capsys, "clear")[0] == GOOD
    assert sorted(path.name for path in folder.rglob("*") if path.is_file()) == sorted(
        ["notes.txt", "x-123.so", "README", ".hidden", "thesis.tex"]
    )


def test_abandoned_builds_are_removed_and_running_ones_kept(folder: Path) -> None:
    built("some")
    for name, age in (("old", ABANDONED + 60), ("new", 5.0)):
        begun = folder / f".build-{name}"
        begun.mkdir()
        (begun / "kernel.c").write_text("int", encoding="utf-8")
        for path in (begun / "kernel.c", begun):
            os.utime(path, (time.time() - age, time.time() - age))
    left = [each for each in entries() if each.kind == "left over"]
    assert [each.name for each in left] == [".build-old"]
    assert left[0].remove()
    assert sorted(path.name for path in folder.glob(".build-*")) == [".build-new"]


def test_autotuning_times_are_listed(folder: Path) -> None:
    (folder / "tuned").mkdir(parents=True)
    (folder / "tuned" / f"blur-{'b' * 24}.json").write_text("{}", encoding="utf-8")
    assert [(each.name, each.kind) for each in entries()] == [(f"blur-{'b' * 24}", "times")]


def test_old_entries_are_removed_first() -> None:
    now = time.time()
    found = [entry("a", 30, now - 10), entry("b", 20, now - 100), entry("c", 10, now - 1000)]
    assert evictable(found) == found
    assert evictable(found, older_than=500) == [found[2]]
    assert evictable(found, most=30) == [found[2], found[1]]
    assert evictable(found, most=50) == [found[2]]
    assert evictable(found, most=60) == []
    assert evictable(found, older_than=50, most=0) == [found[1], found[2], found[0]]


def test_clear_removes_old_builds(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    old, new = built("old"), built("new")
    then = time.time() - 3 * 86400
    for path in folder.glob("old*"):
        os.utime(path, (then, then))
    code, out = cache(capsys, "clear", "--older-than", "2d", "--dry-run")
    assert (code, out.split(" would")[0].split(",")[0]) == (GOOD, "1 build")
    assert old.exists()
    data = json.loads(cache(capsys, "clear", "--older-than", "2d", "--json")[1])
    assert (data["count"], data["files"], data["kept"], data["interrupted"]) == (1, 3, [], False)
    assert not list(folder.glob("old*"))
    assert is_intact(new)


def test_loaded_kernel_survives_clear_and_is_rebuilt(folder: Path, capsys: pytest.CaptureFixture[str]) -> None:
    program = atl.parse(DOUBLED)
    kernel = compiled(program)
    x = np.arange(4, dtype=np.float32)
    assert kernel(x).tolist() == [0, 2, 4, 6]
    assert cache(capsys, "clear")[0] == GOOD
    assert not kernel.path.exists()
    assert kernel(x).tolist() == [0, 2, 4, 6]
    assert compiled(atl.parse(DOUBLED))(x).tolist() == [0, 2, 4, 6]
    assert len(list(folder.glob("doubled-*.so"))) <= 1


def test_interrupted_clear_leaves_each_build_complete_or_removed(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("first", "second", "third"):
        built(name)
    remove = Entry.remove
    done: list[str] = []

    def interrupted(self: Entry) -> bool:
        if done:
            raise KeyboardInterrupt
        done.append(self.name)
        return remove(self)

    monkeypatch.setattr(Entry, "remove", interrupted)
    code, out = cache(capsys, "clear")
    assert code == INTERRUPTED
    assert "removed 1 build, 3 files" in out
    assert "2 builds were not removed" in out
    assert all(len(each.files) == 3 for each in entries())
    assert len(entries()) == 2
    assert folder.exists()


def test_undeletable_build_is_reported(
    folder: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    path = built("fast")

    def denied(self: Path, missing_ok: bool = False) -> None:  # noqa: FBT002
        raise PermissionError

    monkeypatch.setattr(Path, "unlink", denied)
    code, out = cache(capsys, "clear")
    assert code == FAILED
    assert f"1 could not be removed: {path.stem}" in out
    assert folder.exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["clear", "--older-than", "soon"], "--older-than soon"),
        (["clear", "--older-than=-3d"], "a number and one of s, m, h, d, w: 30d"),
        (["clear", "--down-to", "lots"], "--down-to lots"),
        (["list", "--down-to", "1M"], "required: atl cache clear"),
        (["size", "--dry-run"], "required: atl cache clear"),
    ],
)
def test_invalid_options_are_refused_and_nothing_is_removed(
    arguments: list[str], message: str, folder: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = built("kept")
    code, out = cache(capsys, *arguments)
    assert code == REFUSED
    assert message in out
    assert is_intact(path)
    assert path.parent == folder


def test_cache_must_be_a_path() -> None:
    with pytest.raises(InvalidArgument, match="directory="):
        entries("~/.cache/atl")  # type: ignore[arg-type]
