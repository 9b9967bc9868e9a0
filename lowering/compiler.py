"""The C compiler of this machine: finding it, asking what it can, and running it within a time."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import os
import re
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

from atl.errors import CompilerFailed, CompilerMissing, InvalidArgument, Location, brief
from atl.files.whole import reason

CompilerKind = Literal["clang", "gcc", "nvcc"]

ZIG: Final = "ziglang"
"""A package that has a C compiler, which is looked for last."""
CANDIDATES: Final = ("gcc", "clang", "cc")
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

    `command` is the path, followed by the arguments that $CC gives with it, if any. With the flags in `native` it uses
    all that this processor has. `target` is a digest of its predefined macros with these flags, so it differs between
    processors for which the compiler makes different code. `vector_bytes` is the size of a vector register (64,
    32 or 16) and `vector_registers` their number; `fma` tells whether there is a fused multiply-add.
    """

    command: tuple[str, ...]
    version: str
    kind: CompilerKind
    native: tuple[str, ...] = ()
    target: str = ""
    vector_bytes: int = 16
    vector_registers: int = 16
    fma: bool = False

    @property
    def path(self) -> Path:
        """The program itself."""
        return Path(self.command[0])

    def __str__(self) -> str:
        started = " ".join(self.command) if ZIG in self.command else self.path
        return f"{started} ({self.version})"


class _Unusable(Exception):
    """The reason why a program is not used as a C compiler; the text follows on its name."""


def find_compiler() -> Compiler:
    """The C compiler to use: $CC where it is set, else the first of gcc, clang and cc that is found and runs.

    Without them it is that of the package ziglang, where it is installed and what it builds can be loaded.

    Raises `CompilerMissing` when $CC names something that is not found, does not run or is neither gcc nor clang, and
    when there is no compiler at all.
    """
    if chosen := os.environ.get("CC", "").strip():
        return _chosen_compiler(chosen)
    refusals: list[str] = []
    found = _first_candidate(refusals)
    if found is not None:
        return found
    if find_spec(ZIG) is not None:
        command = (sys.executable, "-m", ZIG, "cc")
        try:
            zig = _identified(command, _stamp(sys.executable))
            if (refusal := loading(command)) is None:
                return zig
            refusals.append(f"that of the package {ZIG} {refusal}")
        except _Unusable as unusable:
            refusals.append(f"that of the package {ZIG} {unusable}")
    looked_for = ", ".join(CANDIDATES[:-1]) + " or " + CANDIDATES[-1]
    raise CompilerMissing(
        "no C compiler was found" + "".join(f"; {refusal}" for refusal in refusals),
        required=f"{looked_for} in one of the directories of PATH ({os.environ.get('PATH') or 'it is empty'})",
        suggestions=INSTALL,
    )


def _first_candidate(refusals: list[str]) -> Compiler | None:
    """Return the first of the usual compilers that is found and runs; adds why those before it are not used."""
    for candidate in CANDIDATES:
        path = shutil.which(candidate)
        if path is None:
            continue
        try:
            return _identified((str(Path(path).absolute()),), _stamp(path))
        except _Unusable as unusable:
            refusals.append(f"{path} {unusable}")
    return None


@lru_cache(maxsize=8)
def loading(command: tuple[str, ...]) -> str | None:
    """What is wrong with the shared objects that a compiler builds; nothing, if one is loaded and called.

    Zig's makes C's library for the system that it finds, and may find another one than Python runs on. The first time
    that takes it minutes.
    """
    try:
        with tempfile.TemporaryDirectory(prefix="atl-") as directory:
            source, library = Path(directory) / "probe.c", Path(directory) / "probe.so"
            source.write_text("#include <math.h>\nint probe(double x) { return (int)sqrt(x); }\n", encoding="utf-8")
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
    try:
        if path is not None:
            return _identified((str(Path(path).absolute()), *arguments), _stamp(path))
        wrong = "there is no such program"
    except _Unusable as unusable:
        wrong = f"{path} {unusable}"
    others = _first_candidate([])
    raise CompilerMissing(
        f"the environment variable CC is {chosen!r}, and {wrong}",
        required="CC to name gcc, clang or a compiler based on one of them, by its path or by a name found in PATH",
        suggestions=(
            *(INSTALL[:-2] if others is None else ("unset CC, and gcc, clang and cc are looked for",)),
            "set CC to the path of gcc, of clang, or of a compiler based on one of them",
        ),
    )


def _stamp(path: str) -> tuple[int, int]:
    """Changes when the program is replaced, so that a running process takes notice of an upgrade."""
    status = Path(path).stat()
    return status.st_mtime_ns, status.st_size


@lru_cache(maxsize=64)
def _identified(command: tuple[str, ...], _unchanged: tuple[int, int]) -> Compiler:
    """Raises `_Unusable`, which is not remembered: a compiler that was too slow once is asked again."""
    answer = _answer(command, "--version")
    version = next(iter(answer.stdout.splitlines()), "").strip() or "says no version"
    native, predefined = _predefined(command)
    macros = set(predefined.split())
    if "__clang__" in macros:
        kind: CompilerKind = "clang"
    elif "__GNUC__" in macros and "Free Software Foundation" in answer.stdout:
        kind = "gcc"
    else:
        raise _Unusable(f"({version}) is neither gcc nor clang; zig cc, musl-gcc and icx are based on these")
    longest = 64 if "__AVX512F__" in macros else 32 if "__AVX__" in macros else 16
    registers = 32 if macros & {"__AVX512F__", "__aarch64__"} else 16
    fma = bool(macros & {"__FMA__", "__ARM_FEATURE_FMA"})
    target = hashlib.sha256(predefined.encode()).hexdigest()[:24]
    return Compiler(command, version, kind, native, target, longest, registers, fma)


def _predefined(command: Sequence[str]) -> tuple[tuple[str, ...], str]:
    """The flags for this processor that a compiler knows, and the macros that it predefines with them."""
    # Some compilers for ARM know the processor only under the second name. A target in $CC is the user's choice.
    chosen = any(part.startswith(("-march=", "-mcpu=")) for part in command)
    for flags in () if chosen else (("-march=native",), ("-mcpu=native",)):
        answer = _answer((*command, *flags), *_MACROS, may_be_refused=True)
        if answer.returncode == 0:
            return flags, answer.stdout
    return (), _answer(command, *_MACROS).stdout


_INSTRUCTIONS: Final = re.compile(
    r"__(SSE[234]?|SSSE3|SSE4_[12]|SSE4A|AVX\w*?|FMA4?|F16C|BMI2?|LZCNT|POPCNT|MOVBE|TBM|XOP|GFNI|APX_F)__"
    r"|__ARM_FEATURE_(SVE\w*|DOTPROD|FP16\w*|BF16\w*|MATMUL_INT8|ATOMICS|CRC32|QRDMX)"
)
"""The macros of instructions that compilers use of their own accord for loops in C."""
_SETS_NO_INSTRUCTIONS: Final = ("-m", "-m32", "-m64", "-mx32")
"""Arguments that stay when those are left out which choose instructions; `python -m ziglang cc` has the first."""


@lru_cache(maxsize=64)
def foreign_instructions(compiler: Compiler) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the arguments in $CC that choose instructions, and the instruction sets that only these bring in.

    The compiler is asked for its macros with -march=native in their place: what it predefines then, this processor has.
    Both are empty where all is well, or where the compiler does not know this processor.
    """
    chosen = tuple(part for part in compiler.command if part.startswith("-m") and part not in _SETS_NO_INSTRUCTIONS)
    if not chosen or compiler.kind == "nvcc":
        return (), ()
    try:
        flags, here = _predefined([part for part in compiler.command if part not in chosen])
        there = _answer((*compiler.command, *compiler.native), *_MACROS).stdout
    except _Unusable:
        return (), ()
    if not flags:
        return (), ()
    known = set(here.split())
    found = (_INSTRUCTIONS.fullmatch(word) for word in there.split() if word not in known)
    foreign = sorted({each[1] or each[2] for each in found if each is not None})
    return (chosen, tuple(foreign)) if foreign else ((), ())


_MACROS: Final = ("-dM", "-E", "-x", "c", "-")


def _answer(
    command: Sequence[str], question: str, *more: str, may_be_refused: bool = False
) -> subprocess.CompletedProcess[str]:
    """Asks a compiler what it is. Raises `_Unusable` where it does not say so, or not in time."""
    try:
        answer = run([*command, question, *more], within=QUESTION)
    except OSError as error:
        raise _Unusable(f"cannot be run ({reason(error)})") from error
    except subprocess.TimeoutExpired as error:
        raise _Unusable(f"cannot be run (its {question} does not end within {error.timeout:g} seconds)") from error
    status = answer.returncode
    if status < 0 or (status and not may_be_refused):
        said = answer.stderr.strip().splitlines()
        ended = f"ends with status {status}" if status > 0 else f"is ended by signal {-status}"
        raise _Unusable(f"cannot be run (its {question} {ended}{': ' + said[0] if said else ''})")
    return answer


def time_limit() -> float:
    """How many seconds one run of the compiler may take: $ATL_COMPILER_TIMEOUT, or 600."""
    text = os.environ.get("ATL_COMPILER_TIMEOUT", "").strip() or str(TIMEOUT)
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 0 < seconds <= LONGEST:
        raise InvalidArgument(
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


MESSAGE_LINES: Final = 40


def quoted(message: str) -> Location:
    """A compiler's message, up to its fortieth line, quoted so that its carets are not taken for ours."""
    lines = message.splitlines()
    if len(lines) > MESSAGE_LINES:
        lines = [*lines[:MESSAGE_LINES], f"… ({len(lines) - MESSAGE_LINES} more lines)"]
    return Location(text="\n".join(f"> {line}" for line in lines) or "(it gave no reason)")


def remedies(message: str, otherwise: str) -> tuple[str, ...]:
    """What to try, by a compiler's message."""
    if os.strerror(errno.ENOSPC) in message:
        return ("free some space, or set TMPDIR and ATL_CACHE to directories with space left",)
    return (otherwise,)


def _builds_with(compiler: Compiler, flags: Sequence[str], program: str) -> bool:
    """Return whether the compiler builds a program with these flags.

    Raises `CompilerFailed` where it does not build it without them either, as on a full disk: the flags are not to
    blame.
    """
    command, message = list[str](), ""
    within = LONGEST if ZIG in compiler.command else QUESTION  # Zig's may have to make C's library first
    with tempfile.TemporaryDirectory(prefix="atl-") as directory:
        for tried in (flags, ()):
            command = [*compiler.command, *tried, "-x", "c", "-", "-o", "program"]
            try:
                answer = run(command, directory=Path(directory), given=program, within=within)
            except (OSError, subprocess.TimeoutExpired) as error:
                message = str(error)
                break
            if answer.returncode == 0:
                return tried == flags
            message = answer.stderr.strip()
    raise CompilerFailed(
        f"the C compiler {compiler} does not build a small program",
        place=quoted(message),
        required=f"this command to succeed: {shlex.join(command)}",
        suggestions=remedies(message, "set CC to another C compiler"),
    )


@lru_cache(maxsize=64)
def has_sanitizers(compiler: Compiler) -> bool:
    """Whether sanitized programs can be built: the libraries for them often come in packages of their own.

    Raises `CompilerFailed` where no program can be built.
    """
    return _builds_with(compiler, SANITIZED, "int main(void) { return 0; }")


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
    """Whether programs with OpenMP can be built, with `-fopenmp`; or with `-fopenmp-simd`, those without threads.

    Raises `CompilerFailed` where no program can be built.
    """
    return _builds_with(compiler, (flag,), _FOLDS.replace("DIRECTIVE", "parallel for" if flag == OPENMP else "simd"))
