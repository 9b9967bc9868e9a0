"""The C toolchain: builds are cached, and errors name a remedy."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from atl.errors import CompilerFailed, InvalidName
from lowering import builds
from lowering.builds import build_executable, build_shared, find_compiler, load
from proofs_tests.c.scripts import SQUARES, SQUARES_CDEF, LoggingCompiler, fake_gcc, script, sum_of_squares

pytestmark = pytest.mark.usefixtures("private_cache", "no_cc")


def test_built_function_can_be_called(private_cache: Path) -> None:
    path = build_shared(SQUARES, name="squares")
    assert sum_of_squares(path, [1, 2, 3]) == 14
    assert path.parent == private_cache
    assert path.with_suffix(".c").read_text() == SQUARES


def test_only_object_source_and_record_are_kept(private_cache: Path) -> None:
    path = build_shared(SQUARES, name="squares")
    kept = {path.name, path.with_suffix(".c").name, path.name + ".json"}
    assert {file.name for file in private_cache.iterdir()} == kept


def test_multiply_and_add_are_fused_where_the_processor_can() -> None:
    if "fma" not in Path("/proc/cpuinfo").read_text().split():
        pytest.skip("needs an x86 processor with fused multiply-add")
    path = build_shared("double f(double x, double y) { double s = x * x; return s - y; }", name="f")
    _, lib = load(path, "double f(double x, double y);")
    # Without fusion the square would be rounded and lose its last term, 2^-60.
    assert lib.f(1 + 2.0**-30, 1 + 2.0**-29) == 2.0**-60


def test_cached_build_needs_no_compiler(logging_compiler: LoggingCompiler) -> None:
    first = build_shared(SQUARES, name="squares")
    calls = logging_compiler.calls
    assert [call[-1] for call in calls] == ["squares.o", "-lm"]
    assert build_shared(SQUARES, name="squares") == first
    assert logging_compiler.calls == calls


def test_text_name_flags_and_compiler_determine_the_build(
    logging_compiler: LoggingCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    paths = [
        build_shared(SQUARES, name="squares"),
        build_shared(SQUARES + "\n", name="squares"),
        build_shared(SQUARES, name="squares2"),
        build_shared(SQUARES, name="squares", fast_math=True),
        build_shared(SQUARES, name="squares", extra_flags=["-DX=1"]),
        build_shared(SQUARES, name="squares", link_flags=["-lm"]),
    ]
    monkeypatch.setenv("CC", f"{logging_compiler.path} -DX=1")
    paths.append(build_shared(SQUARES, name="squares"))
    assert len(set(paths)) == len(paths)
    assert all(sum_of_squares(path, [2]) == 4 for path in paths)


def test_flags_are_not_repeated(logging_compiler: LoggingCompiler) -> None:
    build_shared(SQUARES, name="squares", fast_math=True)
    for call in logging_compiler.calls:
        flags = [part for part in call if part.startswith("-")]
        assert len(flags) == len(set(flags))


def test_fast_math_is_not_passed_to_the_linker(
    logging_compiler: LoggingCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("CC", f"{logging_compiler.path} -Ofast")
    build_shared(SQUARES, name="squares", fast_math=True, link_flags=["-ffast-math"])
    compiling, linking = logging_compiler.calls
    assert "-c" in compiling
    assert "-ffast-math" in compiling
    assert not {"-ffast-math", "-Ofast", "-funsafe-math-optimizations"} & set(linking)


def test_fast_math_is_off_by_default(logging_compiler: LoggingCompiler) -> None:
    build_shared(SQUARES, name="squares")
    assert not any("-ffast-math" in call for call in logging_compiler.calls)


@pytest.mark.long
def test_fast_math_library_does_not_change_subnormals() -> None:
    path = build_shared(SQUARES, name="squares", fast_math=True)
    program = f"""
from pathlib import Path
from lowering.builds import load
load(Path({str(path)!r}), {SQUARES_CDEF!r})
smallest = 2.0 ** -1074
print(smallest * 1.0 > 0)
"""
    assert _python(program).stdout == "True\n"


def test_compile_error_shows_the_compiler_message(private_cache: Path) -> None:
    with pytest.raises(CompilerFailed) as caught:
        build_shared("int answer(void) { return forty_two; }", name="answer")
    message = str(caught.value)
    assert "while building 'answer'; no files were left behind [ATL502]" in message
    assert "answer.c:1:27: error:" in message
    assert "forty_two" in message
    assert " -O3 " in message
    assert " -c answer.c -o answer.o" in message
    assert list(private_cache.iterdir()) == []


def test_long_compiler_message_is_truncated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    # Like clang, the compiler prints a line with only a caret to mark the column.
    complaint = 'for i in $(seq 50); do echo "line $i" >&2; echo "   ^" >&2; done; exit 1'
    monkeypatch.setenv("CC", str(fake_gcc(tmp_path / "verbose-cc", complaint)))
    with pytest.raises(CompilerFailed) as caught:
        build_shared("", name="empty")
    lines = str(caught.value).splitlines()
    assert "      > line 1" in lines
    assert "      > line 20" in lines
    assert "      > line 21" not in lines
    assert "      > … (60 more lines)" in lines


def test_missing_or_killed_compiler_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = fake_gcc(tmp_path / "dying-cc", "kill -9 $$")
    monkeypatch.setenv("CC", str(path))
    with pytest.raises(CompilerFailed, match="was ended by signal 9"):
        build_shared("", name="empty")
    compiler = find_compiler()
    path.unlink()
    with pytest.raises(CompilerFailed, match="did not start"):
        build_shared("", name="empty", compiler=compiler)


def test_compiler_without_output_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", str(fake_gcc(tmp_path / "idle-cc")))
    with pytest.raises(CompilerFailed, match=r"did not write empty\.so"):
        build_shared("", name="empty")


@pytest.mark.parametrize("damage", [b"", b"not an object", None])
def test_damaged_object_is_rebuilt(damage: bytes | None, logging_compiler: LoggingCompiler) -> None:
    path = build_shared(SQUARES, name="squares")
    content = path.read_bytes()
    path.write_bytes(content[: len(content) // 2] if damage is None else damage)
    assert build_shared(SQUARES, name="squares") == path
    assert len(logging_compiler.calls) == 4
    assert sum_of_squares(path, [3, 4]) == 25


def test_object_damaged_after_its_build_is_rebuilt_when_loaded() -> None:
    path = build_shared(SQUARES, name="squares")
    path.write_bytes(b"not an object")
    assert sum_of_squares(path, [3, 4]) == 25


@pytest.mark.parametrize(
    "record",
    ["", "[]", '{"digest": 1}', '{"plan": {}}', "[" * 100_000, '{"plan": ' * 100_000],
    ids=["empty", "list", "digest", "plan", "nested lists", "nested plans"],
)
def test_object_with_a_damaged_record_is_rebuilt(record: str) -> None:
    path = build_shared(SQUARES, name="squares")
    path.with_name(path.name + ".json").write_text(record)
    assert build_shared(SQUARES, name="squares") == path
    assert sum_of_squares(path, [3, 4]) == 25


def test_loaded_library_is_never_overwritten() -> None:
    path = build_shared(SQUARES, name="squares")
    ffi, lib = load(path, SQUARES_CDEF)
    before = path.stat().st_ino
    path.with_name(path.name + ".json").unlink()
    build_shared(SQUARES, name="squares")
    assert path.stat().st_ino != before
    out = ffi.new("double[1]")
    lib.squares(2, ffi.new("double[]", [3, 4]), out)
    assert out[0] == 25


def test_object_with_undefined_symbols_is_reported(logging_compiler: LoggingCompiler) -> None:
    path = build_shared("double undefined_elsewhere(void); double f(void) { return undefined_elsewhere(); }", name="f")
    with pytest.raises(CompilerFailed, match="undefined_elsewhere") as caught:
        load(path, "double f(void);")
    assert "cannot be loaded" in caught.value.summary
    assert "noexec" not in str(caught.value)
    assert sum("f.so" in call for call in logging_compiler.calls) == 2  # rebuilt once, in case it was damaged


def test_file_outside_the_cache_is_loaded_or_refused(tmp_path: Path) -> None:
    path = tmp_path / "copy.so"
    shutil.copy(build_shared(SQUARES, name="squares"), path)
    assert sum_of_squares(path, [3, 4]) == 25
    other = tmp_path / "other.so"
    other.write_bytes(b"not an object")
    with pytest.raises(CompilerFailed, match="cannot be loaded"):
        load(other, SQUARES_CDEF)


@pytest.mark.parametrize("name", ["", "a b", "../up", "1st", "naïve"])
def test_name_of_a_build_must_be_an_identifier(name: str) -> None:
    with pytest.raises(InvalidName, match="cannot be the name of a build"):
        build_shared(SQUARES, name=name)


PICK = """
#include <stdio.h>
#include "table.h"
int main(int argc, char **argv) {
    (void)argv;
    int table[SIZE] = {1, 2, 3};
    printf("%d\\n", table[argc + SIZE - 2]);
    return 0;
}
"""


def test_executable_is_built_from_several_files() -> None:
    sources = {"main.c": "int two(void);\nint main(void) { return two(); }\n", "two.c": "int two(void) { return 2; }\n"}
    assert subprocess.run([build_executable(sources, name="two")], check=False).returncode == 2


@pytest.mark.parametrize("file", ["../main.c", "main.s", "main"])
def test_files_of_an_executable_must_be_plain_c_files(file: str) -> None:
    with pytest.raises(InvalidName, match="cannot be the name of a file"):
        build_executable({file: ""}, name="program")


def test_sanitized_program_stops_at_the_first_wrong_access() -> None:
    if not builds.has_sanitizers(find_compiler()):
        pytest.skip("the sanitizer libraries of this compiler are not installed")
    program = build_executable({"pick.c": PICK, "table.h": "#define SIZE 3\n"}, name="pick", sanitize=True)
    inside = subprocess.run([program], capture_output=True, text=True, check=False)
    assert (inside.returncode, inside.stdout, inside.stderr) == (0, "3\n", "")
    outside = subprocess.run([program, "one too many"], capture_output=True, text=True, check=False)
    assert outside.returncode != 0
    assert outside.stdout == ""
    assert "pick.c:7" in outside.stderr
    assert "out of bounds" in outside.stderr


def test_missing_sanitizer_libraries_are_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    body = 'case "$*" in *-fsanitize*) echo no libasan >&2; exit 1;; esac; exec'
    monkeypatch.setenv("CC", str(script(tmp_path / "plain-cc", f'{body} {find_compiler().path} "$@"')))
    assert not builds.has_sanitizers(find_compiler())
    with pytest.raises(CompilerFailed, match="no libasan") as caught:
        build_executable({"main.c": "int main(void) { return 0; }"}, name="program", sanitize=True)
    assert any("install the sanitizer libraries" in suggestion for suggestion in caught.value.suggestions)


def test_cache_directory_follows_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("HOME", tmp_path / "home"), ("XDG_CACHE_HOME", tmp_path / "xdg"), ("ATL_CACHE", "~/mine")):
        monkeypatch.setenv(name, str(value))
    assert builds.cache_directory() == tmp_path / "home" / "mine"
    monkeypatch.delenv("ATL_CACHE")
    assert builds.cache_directory() == tmp_path / "xdg" / "atl"
    monkeypatch.setenv("XDG_CACHE_HOME", "relative")
    assert builds.cache_directory() == tmp_path / "home" / ".cache" / "atl"
    monkeypatch.delenv("XDG_CACHE_HOME")
    assert builds.cache_directory() == tmp_path / "home" / ".cache" / "atl"


UNWRITABLE = """
from pathlib import Path
from lowering.builds import build_shared
path = build_shared("int one(void) { return 1; }", name="one")
assert path == build_shared("int one(void) { return 1; }", name="one")
assert path.exists()
print(path)
"""


def test_without_a_writable_cache_a_temporary_directory_is_used(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.delenv("ATL_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "file"))
    monkeypatch.setenv("TMPDIR", str(tmp_path))
    path = Path(_python(UNWRITABLE).stdout.strip())
    assert path.is_relative_to(tmp_path)
    assert not path.exists()
    assert not path.parent.exists()


def test_unwritable_atl_cache_gives_a_warning(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "file").write_text("")
    monkeypatch.setenv("ATL_CACHE", str(tmp_path / "file" / "below"))
    with pytest.warns(RuntimeWarning, match="is not writable") as warned:
        path = build_shared(SQUARES, name="squares")
    assert sum_of_squares(path, [3, 4]) == 25
    assert warned[0].filename == __file__


BUILD_AND_CALL = f"""
from lowering.builds import build_shared, load
path = build_shared({SQUARES!r}, name="squares")
ffi, lib = load(path, {SQUARES_CDEF!r})
out = ffi.new("double[1]")
lib.squares(2, ffi.new("double[]", [3, 4]), out)
print(path, out[0])
"""


def _python(program: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)


@pytest.mark.long
def test_processes_may_build_the_same_object_at_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, private_cache: Path
) -> None:
    # Each compilation waits until another has started, so that the two overlap.
    real = find_compiler().path
    begun = tmp_path / "begun"
    begun.mkdir()
    meet = f'touch {begun}/$$; until [ "$(ls {begun} | wc -l)" -ge 2 ]; do sleep 0.01; done'
    path = script(tmp_path / "slow-cc", f'case "$*" in *" -c "*) {meet};; esac; exec {real} "$@"')
    monkeypatch.setenv("CC", str(path))
    command = [sys.executable, "-c", BUILD_AND_CALL]
    running = [subprocess.Popen(command, stdout=subprocess.PIPE, text=True) for _ in range(2)]
    answers = {process.communicate(timeout=600)[0] for process in running}
    assert len(list(begun.iterdir())) == 2
    (answer,) = answers
    assert answer.split()[1] == "25.0"
    assert len(list(private_cache.iterdir())) == 3


def test_long_name_is_shortened_in_file_names() -> None:
    path = build_shared(SQUARES, name="squares_" * 28)
    assert len(path.name) < 200
    assert sum_of_squares(path, [3, 4]) == 25
    assert build_shared(SQUARES, name="squares_" * 28) == path


def test_directory_in_place_of_a_record_moves_the_build(private_cache: Path) -> None:
    path = build_shared(SQUARES, name="squares")
    record = path.with_name(path.name + ".json")
    record.unlink()
    record.mkdir()
    with pytest.warns(RuntimeWarning, match="cannot store the build"):
        other = build_shared(SQUARES, name="squares")
    assert other.parent != private_cache
    assert sum_of_squares(other, [3, 4]) == 25


def test_read_only_cache_is_skipped(private_cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refused(*_: object) -> None:
        raise OSError(30, "Read-only file system")

    monkeypatch.setattr(builds, "_build", lambda plan, at, build=builds._build: (
        refused() if at.parent == private_cache else build(plan, at)
    ))  # fmt: skip
    with pytest.warns(RuntimeWarning, match="Read-only file system"):
        path = build_shared(SQUARES, name="squares")
    assert sum_of_squares(path, [3, 4]) == 25
    monkeypatch.setattr(builds, "_build", refused)
    with pytest.raises(CompilerFailed, match="no writable directory"), pytest.warns(RuntimeWarning):
        build_shared(SQUARES + " ", name="squares")


def test_cache_path_that_is_not_utf8_is_used(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    cache = os.fsdecode(os.fsencode(tmp_path) + b"/\xff\xfe")
    monkeypatch.setenv("ATL_CACHE", cache)
    path = build_shared(SQUARES, name="squares")
    assert str(path.parent) == cache
    assert sum_of_squares(path, [3, 4]) == 25


def test_hanging_compiler_is_stopped_with_its_children(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    started = tmp_path / "started"
    hangs = f"sleep 6000 & echo $! > {started}; wait"
    monkeypatch.setenv("CC", str(fake_gcc(tmp_path / "slow-cc", hangs)))
    find_compiler()
    real = subprocess.Popen.communicate

    def communicate(process: subprocess.Popen[str], given: str, timeout: float) -> tuple[str, str]:
        """Time out once the compiler has started a process, even on a busy machine."""
        if "-c" not in process.args:  # type: ignore[operator]
            return real(process, given, timeout)
        while not started.exists() or not started.read_text():
            time.sleep(0.01)
        raise subprocess.TimeoutExpired(process.args, timeout)

    monkeypatch.setattr(subprocess.Popen, "communicate", communicate)
    with pytest.raises(CompilerFailed, match=r"was stopped after 600 seconds") as caught:
        build_shared("", name="empty")
    assert "set ATL_COMPILER_TIMEOUT to more seconds" in str(caught.value)
    state = Path(f"/proc/{started.read_text().strip()}/stat")
    for _ in range(10_000):  # a killed process may take a moment to end
        if not state.exists() or state.read_text().split()[2] == "Z":
            return
        time.sleep(0.05)
    pytest.fail("a process of the compiler still runs")
