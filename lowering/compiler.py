"""The C compiler of this machine: finding it, asking what it can, and running it within a time."""

from __future__ import annotations

import ctypes
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal

from atl.errors import CompilerMissing, WrongArgument, brief
from atl.files.whole import reason

CompilerKind = Literal["clang", "gcc", "nvcc", "other"]

ZIG: Final = "ziglang"
"""A package that has a C compiler, which is looked for last."""
CANDIDATES: Final = ("clang", "gcc", "cc")
"""Where $CC is not set, the compilers looked for, in this order."""

SANITIZED: Final = ("-O0", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
"""Without optimisation each access stands in the code and is looked at; and gcc takes a fifth of the time of -O1 -g."""

OPENMP: Final = "-fopenmp"
OPENMP_SIMD: Final = "-fopenmp-simd"
"""Directives for vector instructions alone; nothing is linked."""

TIMEOUT: Final = 600
"""One run of the compiler may take so many seconds, if $ATL_COMPILER_TIMEOUT does not say otherwise."""
LONGEST: Final = 10**6
QUESTION: Final = 30.0
"""So many seconds a compiler may take to say what it is."""

INSTALL: Final = (
    "Debian or Ubuntu: apt install gcc",
    "Fedora: dnf install gcc",
    "macOS: xcode-select --install",
    "or set CC to the path of a C compiler",
    "or pip install ziglang: it has one, which is found",
)


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C compiler that has been run once: `command` starts it, `version` is the first line that it says of itself.

    `command` is the path, followed by the arguments that $CC gives with it, if any.
    """

    command: tuple[str, ...]
    version: str
    kind: CompilerKind

    @property
    def path(self) -> Path:
        """The program itself."""
        return Path(self.command[0])

    def __str__(self) -> str:
        started = " ".join(self.command) if ZIG in self.command else self.path
        return f"{started} ({self.version})"


def find_compiler() -> Compiler:
    """The C compiler to use: $CC where it is set, else the first of clang, gcc and cc that is found and runs.

    Without them it is that of the package ziglang, where it is installed and what it builds can be loaded.

    Raises `CompilerMissing` when $CC names something that is not found or does not run, and when there is none at all.
    """
    if chosen := os.environ.get("CC", "").strip():
        return _chosen_compiler(chosen)
    refusals: list[str] = []
    for candidate in CANDIDATES:
        path = shutil.which(candidate)
        if path is None:
            continue
        found = _identified((str(Path(path).absolute()),), _stamp(path))
        if isinstance(found, Compiler):
            return found
        refusals.append(f"{path} {found}")
    if find_spec(ZIG) is not None:
        command = (sys.executable, "-m", ZIG, "cc")
        zig = _identified(command, _stamp(sys.executable))
        refusal = _loading(command) if isinstance(zig, Compiler) else zig
        if isinstance(zig, Compiler) and refusal is None:
            return zig
        refusals.append(f"that of the package {ZIG} {refusal}")
    looked_for = ", ".join(CANDIDATES[:-1]) + " or " + CANDIDATES[-1]
    raise CompilerMissing(
        "no C compiler was found" + "".join(f"; {refusal}" for refusal in refusals),
        required=f"{looked_for} in one of the directories of PATH ({os.environ.get('PATH') or 'it is empty'})",
        suggestions=INSTALL,
    )


@lru_cache(maxsize=8)
def _loading(command: tuple[str, ...]) -> str | None:
    """What is wrong with the shared objects that a compiler builds; nothing, if one is loaded and called.

    Zig's makes C's library for the system that it finds, and may find another one than Python runs on. The first time
    that takes it minutes.
    """
    with tempfile.TemporaryDirectory(prefix="atl-") as directory:
        source, library = Path(directory) / "probe.c", Path(directory) / "probe.so"
        source.write_text("#include <math.h>\nint probe(double x) { return (int)sqrt(x); }\n", encoding="utf-8")
        try:
            answer = run([*command, "-O1", "-shared", "-fPIC", str(source), "-o", str(library), "-lm"])
            if answer.returncode != 0:
                return f"does not build a shared object: {' '.join(answer.stderr.split())[:200]}"
            function = ctypes.CDLL(str(library)).probe
        except (OSError, AttributeError, subprocess.TimeoutExpired) as error:
            return f"builds what cannot be loaded: {error}"
        function.argtypes = [ctypes.c_double]
        return None if function(1764.0) == 42 else "builds what computes something else"


def _chosen_compiler(chosen: str) -> Compiler:
    try:
        program, *arguments = shlex.split(chosen)
    except ValueError:
        program, arguments = chosen, []
    path = shutil.which(program)
    required = "CC to name a C compiler, by its path or by a name that is found in PATH"
    suggestions = ("unset CC, and clang, gcc and cc are looked for", "set CC to the path of a C compiler")
    if path is None:
        raise CompilerMissing(
            f"the environment variable CC is {chosen!r}, and there is no such program",
            required=required,
            suggestions=suggestions,
        )
    found = _identified((str(Path(path).absolute()), *arguments), _stamp(path))
    if isinstance(found, str):
        raise CompilerMissing(
            f"the environment variable CC is {chosen!r}, and {path} {found}",
            required=required,
            suggestions=suggestions,
        )
    return found


def _stamp(path: str) -> tuple[int, int]:
    """Changes when the program is replaced, so that a running process takes notice of an upgrade."""
    status = Path(path).stat()
    return status.st_mtime_ns, status.st_size


@lru_cache(maxsize=64)
def _identified(command: tuple[str, ...], _unchanged: tuple[int, int]) -> Compiler | str:
    """The compiler, or what is wrong with it."""
    try:
        answer = run([*command, "--version"], within=QUESTION)
    except OSError as error:
        return f"cannot be run ({reason(error)})"
    except subprocess.TimeoutExpired as error:
        return f"cannot be run (its --version does not end within {error.timeout:g} seconds)"
    if answer.returncode != 0:
        said = answer.stderr.strip().splitlines()
        return f"cannot be run (its --version ends with status {answer.returncode}{': ' + said[0] if said else ''})"
    text = answer.stdout
    kind: CompilerKind = "clang" if "clang" in text else "gcc" if "Free Software Foundation" in text else "other"
    return Compiler(command, next(iter(text.splitlines()), "").strip() or "says no version", kind)


def time_limit() -> float:
    """How many seconds one run of the compiler may take: $ATL_COMPILER_TIMEOUT, or 600."""
    text = os.environ.get("ATL_COMPILER_TIMEOUT", "").strip() or str(TIMEOUT)
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 0 < seconds <= LONGEST:
        raise WrongArgument(
            f"the environment variable ATL_COMPILER_TIMEOUT is {brief(text)}",
            required=f"how many seconds one run of the C compiler may take, above 0 and up to {LONGEST}",
            suggestions=(f"unset it, and a run may take {TIMEOUT} seconds",),
        )
    return seconds


def run(
    command: Sequence[str], *, directory: Path | None = None, given: str = "", within: float = LONGEST
) -> subprocess.CompletedProcess[str]:
    """Raises `OSError`, and `subprocess.TimeoutExpired` after `within` seconds or the user's limit."""
    seconds = min(within, time_limit())
    with subprocess.Popen(
        command,
        cwd=directory,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        errors="replace",
        # Messages in one language, and no colours, whatever the user's settings are.
        env={**os.environ, "LC_ALL": "C", "GCC_COLORS": ""},
        # A group of its own: a driver's children are to end with it.
        start_new_session=True,
    ) as process:
        try:
            stdout, stderr = process.communicate(given, timeout=seconds)
        except BaseException:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            raise
    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)


def _succeeds(command: Sequence[str], *, directory: Path | None = None, given: str = "") -> bool:
    """Whether a short question to the compiler is answered with yes. Zig's may have to make C's library for that."""
    within = LONGEST if ZIG in command else QUESTION
    try:
        return run(command, directory=directory, given=given, within=within).returncode == 0
    except subprocess.TimeoutExpired:
        return False


@lru_cache(maxsize=64)
def native_flags(compiler: Compiler) -> tuple[str, ...]:
    """The flag with which this compiler uses all that this processor has, if it knows one."""
    # Some compilers for ARM know the processor only under the second name.
    for flag in ("-march=native", "-mcpu=native"):
        asked = [*compiler.command, flag, "-x", "c"]
        if ZIG not in compiler.command:
            if _succeeds([*asked, "-fsyntax-only", "-"]):
                return (flag,)
            continue
        with tempfile.TemporaryDirectory(prefix="atl-") as directory:  # zig's only compiles to a file
            if _succeeds([*asked, "-c", "-", "-o", "probe.o"], directory=Path(directory), given="int probe;\n"):
                return (flag,)
    return ()


@lru_cache(maxsize=64)
def vector_bytes(compiler: Compiler) -> int:
    """The size of this processor's vector registers, as far as the compiler uses them: 64, 32 or 16."""
    try:
        answer = run([*compiler.command, *native_flags(compiler), "-dM", "-E", "-x", "c", "-"], within=QUESTION)
    except subprocess.TimeoutExpired:
        return 16
    macros = set(answer.stdout.split())
    return 64 if "__AVX512F__" in macros else 32 if "__AVX__" in macros else 16


@lru_cache(maxsize=64)
def has_sanitizers(compiler: Compiler) -> bool:
    """Whether sanitized programs can be built: the libraries for them often come in packages of their own."""
    with tempfile.TemporaryDirectory(prefix="atl-") as directory:
        command = [*compiler.command, *SANITIZED, "-x", "c", "-", "-o", "program"]
        return _succeeds(command, directory=Path(directory), given="int main(void) { return 0; }")


_FOLDS: Final = """\
int main(void)
{
    int sum = 0;
#pragma omp DIRECTIVE reduction(+: sum)
    for (int i = 0; i < 4; i++)
        sum += i;
    return sum;
}
"""


@lru_cache(maxsize=64)
def has_openmp(compiler: Compiler, flag: str) -> bool:
    """Whether programs with OpenMP can be built, with `-fopenmp`; or with `-fopenmp-simd`, those without threads."""
    program = _FOLDS.replace("DIRECTIVE", "parallel for" if flag == OPENMP else "simd")
    with tempfile.TemporaryDirectory(prefix="atl-") as directory:
        return _succeeds(
            [*compiler.command, flag, "-x", "c", "-", "-o", "program"], directory=Path(directory), given=program
        )
