"""Compilers: search order, identification, target processor, and refusals."""

from __future__ import annotations

import platform
import subprocess
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from atl.errors import CompilerFailed, CompilerMissing, InvalidArgument
from lowering import c_compiler as compiler_module
from lowering.builds import build_shared, load, recorded_plan
from lowering.c_compiler import Compiler, find_compiler, foreign_instructions, loading, predefined_macros, run
from proofs_tests.c import scripts

pytestmark = pytest.mark.usefixtures("private_cache", "no_cc")


def test_compiler_reports_version_and_kind() -> None:
    compiler = find_compiler()
    assert compiler.path.is_absolute()
    assert compiler.path.name in {"clang", "gcc", "cc"}
    assert any(character.isdigit() for character in compiler.version)
    assert compiler.kind in {"clang", "gcc"}


@pytest.mark.parametrize(
    ("there", "found"), [(("clang", "gcc", "cc"), "gcc"), (("clang", "cc"), "clang"), (("cc",), "cc")]
)
def test_gcc_is_preferred_to_clang_and_clang_to_cc(
    there: tuple[str, ...], found: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    scripts.fake_compilers(tmp_path / "bin", *there)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert find_compiler().path == tmp_path / "bin" / found
    assert find_compiler().version == f"fake {found} 1.0"


def test_compiler_that_does_not_run_is_skipped(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scripts.fake_compilers(tmp_path / "bin", "clang")
    scripts.script(tmp_path / "bin" / "gcc", "echo no developer tools >&2; exit 3")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    assert find_compiler().path.name == "clang"


def test_cc_has_precedence_and_may_have_arguments(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    scripts.fake_compilers(tmp_path / "bin", "clang", "gcc", "cc", "mine")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setenv("CC", "mine -m64")
    assert find_compiler().command == (str(tmp_path / "bin" / "mine"), "-m64")


def test_upgraded_compiler_is_detected(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    scripts.fake_compilers(tmp_path / "bin", "cc")
    assert find_compiler().version == "fake cc 1.0"
    scripts.fake_gcc(tmp_path / "bin" / "cc", version="fake cc 2.0 is out")
    assert find_compiler().version == "fake cc 2.0 is out"


@pytest.fixture
def no_zig(monkeypatch: pytest.MonkeyPatch) -> None:
    """No package with a compiler is installed."""
    monkeypatch.setattr("lowering.c_compiler.find_spec", lambda _: None)


def test_missing_compiler_error_names_packages_to_install(no_zig: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", "")
    with pytest.raises(CompilerMissing) as caught:
        find_compiler()
    assert str(caught.value) == (
        "no C compiler was found [ATL501]\n"
        "  required: gcc, clang or cc in a directory of PATH (PATH is empty)\n"
        "  try: Debian or Ubuntu: apt install gcc\n"
        "  try: Fedora: dnf install gcc\n"
        "  try: macOS: xcode-select --install\n"
        "  try: or set CC to the path of a C compiler\n"
        "  try: or pip install ziglang: its compiler is detected"
    )


def test_broken_compilers_are_named(no_zig: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    broken = scripts.script(tmp_path / "bin" / "gcc", "echo no developer tools >&2; exit 3")
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    with pytest.raises(CompilerMissing) as caught:
        find_compiler()
    assert caught.value.summary == (
        f"no C compiler was found; {broken} cannot be run (its --version ends with status 3: no developer tools)"
    )


@pytest.mark.parametrize("chosen", ["no-such-compiler", "/nowhere/cc", "'half quoted"])
def test_nonexistent_cc_is_an_error(chosen: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", chosen)
    with pytest.raises(CompilerMissing) as caught:
        find_compiler()
    assert caught.value.summary == f"the environment variable CC is {chosen!r}, and no such program exists"
    assert any("unset CC" in suggestion for suggestion in caught.value.suggestions)


def test_cc_that_does_not_run_is_an_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "cc"
    path.write_bytes(b"\x7fELF but not really")
    path.chmod(0o755)
    monkeypatch.setenv("CC", str(path))
    with pytest.raises(CompilerMissing, match="cannot be run"):
        find_compiler()


def test_unsupported_native_flag_is_left_out(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuses = 'case "$*" in *native*) echo "unrecognized option native" >&2; exit 1;; esac; exec'
    real = find_compiler().path
    monkeypatch.setenv("CC", str(scripts.script(tmp_path / "plain", f'{refuses} {real} "$@"')))
    assert find_compiler().native == ()
    assert scripts.sum_of_squares(build_shared(scripts.SQUARES, name="squares"), [3, 4]) == 25


def test_query_that_fails_for_another_reason_is_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    failed = tmp_path / "failed"
    once = (
        f'case "$*" in *-march=native*-dM*) test -e {failed} || {{ touch {failed}; echo killed >&2; exit 1; }};; esac'
    )
    monkeypatch.setenv("CC", str(scripts.script(tmp_path / "cc", f'{once}; exec {find_compiler().path} "$@"')))
    with pytest.raises(CompilerMissing, match="its -dM ends with status 1: killed"):
        find_compiler()
    assert find_compiler().native


@pytest.mark.parametrize("ask", [predefined_macros, foreign_instructions, lambda compiler: loading(compiler.command)])
def test_answer_after_a_time_limit_is_not_cached(ask: Callable[[Compiler], object]) -> None:
    compiler = replace(find_compiler(), command=(*find_compiler().command, "-mno-sse4.2", "-mavx5124fmaps"))
    for cached in (compiler_module._macros_of, compiler_module._foreign, compiler_module._probed):
        cached.cache_clear()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler_module, "run", _late)
        late = ask(compiler)
    assert late != ask(compiler)


def _late(command: Sequence[str], **_: Any) -> subprocess.CompletedProcess[str]:
    raise subprocess.TimeoutExpired(command, 30)


def test_compiler_that_does_not_answer_is_reported(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", str(scripts.script(tmp_path / "mute-cc", "exec sleep 600")))
    monkeypatch.setenv("ATL_COMPILER_TIMEOUT", "0.2")
    with pytest.raises(CompilerMissing, match=r"its --version does not end within 0\.2 seconds"):
        find_compiler()


@pytest.mark.parametrize("text", ["soon", "-1", "0", "nan", "inf", "1e9"])
def test_invalid_time_limit_is_refused(text: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("CC", str(scripts.fake_gcc(tmp_path / "fine-cc")))
    monkeypatch.setenv("ATL_COMPILER_TIMEOUT", text)
    with pytest.raises(InvalidArgument, match="ATL_COMPILER_TIMEOUT"):
        find_compiler()


def test_builds_for_another_processor_are_separate(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the meaning of -march=native differs, as between two machines without /proc/cpuinfo."""
    flags = tmp_path / "flags"
    real = find_compiler().path
    asked = f'case "$*" in *-dM*) exec {real} $(cat {flags}) -dM -E -x c -;; esac'
    monkeypatch.setenv("CC", str(scripts.script(tmp_path / "cc", f'{asked}; exec {real} "$@"')))
    paths: list[Path] = []
    for flag in ("-DFEATURE=1", "-DFEATURE=2"):
        flags.write_text(flag)
        compiler_module._identified.cache_clear()
        paths.append(build_shared(scripts.SQUARES, name="squares"))
    assert paths[0] != paths[1]


def test_timed_out_query_is_repeated(
    logging_compiler: scripts.LoggingCompiler, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Nothing is built in between: the build would lack the flag for this processor."""

    def late(command: Sequence[str], **options: Any) -> subprocess.CompletedProcess[str]:
        if "-dM" in command:
            raise subprocess.TimeoutExpired(command, 30)
        return run(command, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compiler_module, "run", late)
        with pytest.raises(CompilerMissing, match="its -dM does not end within 30 seconds"):
            build_shared(scripts.SQUARES, name="squares")
    assert logging_compiler.calls == []
    plan = recorded_plan(build_shared(scripts.SQUARES, name="squares"))
    assert plan is not None
    assert plan.compiler.native
    assert set(plan.compiler.native) <= set(plan.commands[0])


@pytest.mark.parametrize("flag", ["-march=x86-64", "-march=x86-64-v3"])
def test_processor_named_by_cc_is_the_target(flag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    real = find_compiler()
    monkeypatch.setenv("CC", f"{real.path} {flag}")
    if platform.machine() != "x86_64":
        pytest.skip("needs an x86 processor")
    compiler = find_compiler()
    assert compiler.native == ()
    assert compiler.vector_bytes == (32 if flag.endswith("v3") else 16)
    plan = recorded_plan(build_shared(scripts.SQUARES, name="squares"))
    assert plan is not None
    assert [part for part in plan.commands[0] if part.startswith("-march")] == [flag]


@pytest.mark.parametrize(
    ("version", "macro"),
    [("tcc version 0.9.27", "__TINYC__ 927"), ("tcc version 0.9.28", "__GNUC__ 4"), ("gcc, says who", "__STDC__ 1")],
)
def test_other_compilers_than_gcc_and_clang_are_refused(
    version: str, macro: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    answers = f"case \"$*\" in *-dM*) echo '#define {macro}';; *) echo '{version}';; esac"
    path = scripts.script(tmp_path / "bin" / "cc", answers)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    for chosen in ("cc", ""):
        monkeypatch.setenv("CC", chosen)
        with pytest.raises(CompilerMissing) as caught:
            find_compiler()
        assert f"{path} ({version}) is neither gcc nor clang" in caught.value.summary
        assert "zig cc, musl-gcc and icx are based on these" in caught.value.summary
        # No other compiler is here: unsetting CC would not help, nor would any path.
        assert not any("unset CC" in hint for hint in caught.value.suggestions)
        assert any("apt install gcc" in hint for hint in caught.value.suggestions)
        if chosen:
            assert caught.value.suggestions[-1].startswith("set CC to the path of gcc, of clang")


def other_processor() -> str:
    """Return a flag that makes gcc and clang use instructions that this processor lacks."""
    found = find_compiler()
    if platform.machine() != "x86_64" or not found.native:
        pytest.skip("needs an x86 processor that the compiler knows")
    macros = run([*found.command, *found.native, "-dM", "-E", "-x", "c", "-"]).stdout.split()
    for flag, macro in (("-march=bdver4", "__XOP__"), ("-march=skylake-avx512", "__AVX512F__")):
        if macro not in macros:
            return flag
    pytest.skip("this processor has the instructions of all others")


def test_kernel_for_another_processor_is_not_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    flag = other_processor()
    monkeypatch.setenv("CC", f"{find_compiler().path} {flag}")
    path = build_shared(scripts.SQUARES, name="squares")  # building is allowed: the object may be moved there
    for _ in range(2):
        with pytest.raises(CompilerFailed) as caught:
            load(path, scripts.SQUARES_CDEF)
        assert "'squares' is built for another processor: this processor does not support" in caught.value.summary
        assert f"remove {flag} from CC" in caught.value.suggestions[0]


def test_individually_enabled_instructions_are_detected(monkeypatch: pytest.MonkeyPatch) -> None:
    other_processor()
    macros = run([*find_compiler().command, "-march=native", "-dM", "-E", "-x", "c", "-"]).stdout.split()
    has = "__XOP__" in macros
    monkeypatch.setenv("CC", f"{find_compiler().path} -mxop")
    assert ("XOP" in foreign_instructions(find_compiler())[1]) != has


@pytest.mark.parametrize("flag", ["-march=x86-64", "-mtune=generic", "-m64", "-march=native", "-O1"])
def test_flags_without_new_instructions_are_accepted(flag: str, monkeypatch: pytest.MonkeyPatch) -> None:
    if platform.machine() != "x86_64":
        pytest.skip("needs an x86 processor")
    monkeypatch.setenv("CC", f"{find_compiler().path} {flag}")
    assert foreign_instructions(find_compiler()) == ((), ())
    assert scripts.sum_of_squares(build_shared(scripts.SQUARES, name="squares"), [3, 4]) == 25
