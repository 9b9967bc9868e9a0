"""The system's C compiler: detection, capabilities, and running it under a time limit."""

from __future__ import annotations

import ctypes
import errno
import hashlib
import math
import os
import re
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, nullcontext, suppress
from contextvars import ContextVar
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Final, Literal

from atl.errors import CompilerFailed, CompilerMissing, InvalidArgument, Location, brief
from atl.files.atomic import reason

CompilerKind = Literal["clang", "gcc", "nvcc"]

ZIG: Final = "ziglang"
"""A Python package that contains a C compiler, tried last."""
CANDIDATES: Final = ("gcc", "clang", "cc")
"""Compilers tried in this order when $CC is not set."""

SANITIZED: Final = ("-O0", "-g", "-fsanitize=address,undefined", "-fno-sanitize-recover=all")
"""Flags of sanitized builds. -O0 keeps every access in the code; with gcc it takes a fifth of the time of -O1 -g."""

OPENMP: Final = "-fopenmp"
OPENMP_SIMD: Final = "-fopenmp-simd"
"""Enables directives for vector instructions only; nothing is linked."""

TIMEOUT: Final = 600
"""Default time limit of one compiler run, in seconds."""
LONGEST: Final = 10**6
QUESTION: Final = 30.0
"""Time limit of a query such as --version, in seconds."""

INSTALL: Final = (
    "Debian or Ubuntu: apt install gcc",
    "Fedora: dnf install gcc",
    "macOS: xcode-select --install",
    "or set CC to the path of a C compiler",
    "or pip install ziglang: its compiler is detected",
)


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C compiler that was found to run.

    `command` is the path, followed by the arguments in $CC. `version` is the first line of the output of --version.
    `native` are the flags that select this processor. `target` is a digest of the macros predefined with these flags:
    it differs between processors for which the compiler generates different code. `vector_bytes` is the size of a
    vector register (64, 32 or 16), and `vector_registers` their number. `fma` is set if there is a fused multiply-add.
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
        """Path of the executable."""
        return Path(self.command[0])

    def __str__(self) -> str:
        started = " ".join(self.command) if ZIG in self.command else self.path
        return f"{started} ({self.version})"


class _Unusable(Exception):
    """The reason why a program cannot be used as a C compiler. Its text follows the name in a sentence."""


def find_compiler() -> Compiler:
    """Find the C compiler: $CC if it is set, else the first of gcc, clang and cc that runs.

    If none of them runs, the compiler of the package ziglang is used, if what it builds can be loaded.

    Raises `CompilerMissing` when no compiler is found, and when $CC is not found, does not run, or is neither gcc nor
    clang.
    """
    if chosen := os.environ.get("CC", "").strip():
        return compiler_of(chosen)
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
            refusals.append(f"the package {ZIG} {refusal}")
        except _Unusable as unusable:
            refusals.append(f"the package {ZIG} {unusable}")
    looked_for = ", ".join(CANDIDATES[:-1]) + " or " + CANDIDATES[-1]
    raise CompilerMissing(
        "no C compiler was found" + "".join(f"; {refusal}" for refusal in refusals),
        required=f"{looked_for} in a directory of PATH (PATH is {os.environ.get('PATH') or 'empty'})",
        suggestions=INSTALL,
    )


def _first_candidate(refusals: list[str]) -> Compiler | None:
    """Return the first candidate that runs; append the reasons why earlier ones cannot be used to `refusals`."""
    for candidate in CANDIDATES:
        path = shutil.which(candidate)
        if path is None:
            continue
        try:
            return _identified((str(Path(path).absolute()),), _stamp(path))
        except _Unusable as unusable:
            refusals.append(f"{path} {unusable}")
    return None


def loading(command: tuple[str, ...]) -> str | None:
    """Return why shared objects built by a compiler cannot be used, or None if one can be loaded and called.

    Zig builds its own C library for the system that it detects, which may differ from the one that Python runs on. The
    first build takes minutes.
    """
    try:
        return _probed(command)
    except subprocess.TimeoutExpired as error:
        return f"builds objects that cannot be loaded: {error}"


@lru_cache(maxsize=8)
def _probed(command: tuple[str, ...]) -> str | None:
    try:
        with tempfile.TemporaryDirectory(prefix="atl-") as directory:
            source, library = Path(directory) / "probe.c", Path(directory) / "probe.so"
            source.write_text("#include <math.h>\nint probe(double x) { return (int)sqrt(x); }\n", encoding="utf-8")
            answer = run([*command, "-O1", "-shared", "-fPIC", str(source), "-o", str(library), "-lm"])
            if answer.returncode != 0:
                return f"does not build a shared object: {' '.join(answer.stderr.split())[:200]}"
            function = ctypes.CDLL(str(library)).probe
    except (OSError, AttributeError) as error:
        return f"builds objects that cannot be loaded: {error}"
    function.argtypes = [ctypes.c_double]
    return None if function(1764.0) == 42 else "builds objects that compute wrong values"


def compiler_of(chosen: str) -> Compiler:
    """Return the compiler of a command, such as "clang -mllvm -polly". Raises `CompilerMissing` as `find_compiler`."""
    try:
        program, *arguments = shlex.split(chosen)
    except ValueError:
        program, arguments = chosen, []
    path = shutil.which(program)
    try:
        if path is not None:
            return _identified((str(Path(path).absolute()), *arguments), _stamp(path))
        wrong = "no such program exists"
    except _Unusable as unusable:
        wrong = f"{path} {unusable}"
    others = _first_candidate([])
    raise CompilerMissing(
        f"the environment variable CC is {chosen!r}, and {wrong}",
        required="CC to name gcc, clang or a compiler based on one of them, by its path or by a name found in PATH",
        suggestions=(
            *((f"correct or remove the arguments {' '.join(arguments)}",) if path is not None and arguments else ()),
            *(INSTALL[:-2] if others is None else ("unset CC to use gcc, clang or cc",)),
            "set CC to the path of gcc, of clang, or of a compiler based on one of them",
        ),
    )


def _stamp(path: str) -> tuple[int, int]:
    """Return the file's time and size, so that a running process notices an upgrade."""
    status = Path(path).stat()
    return status.st_mtime_ns, status.st_size


@lru_cache(maxsize=64)
def _identified(command: tuple[str, ...], _unchanged: tuple[int, int]) -> Compiler:
    """Query a compiler. Raises `_Unusable`, which is not cached: a compiler that timed out once is queried again."""
    answer = _answer(command, "--version")
    version = next(iter(answer.stdout.splitlines()), "").strip() or "unknown version"
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
    """Return the flags that select this processor, and the macros predefined with them."""
    # Some compilers for ARM accept only -mcpu=native. If $CC names a target, that is the user's choice.
    chosen = any(part.startswith(("-march=", "-mcpu=")) for part in command)
    for flags in () if chosen else (("-march=native",), ("-mcpu=native",)):
        answer = _answer((*command, *flags), *_MACROS, may_be_refused=True)
        if answer.returncode == 0:
            return flags, answer.stdout
        if not any(word in answer.stderr for word in ("native", flags[0].split("=")[0])):
            raise _Unusable(_ended(_MACROS[0], answer))  # it failed for another reason than this flag
    return (), _answer(command, *_MACROS).stdout


_INSTRUCTIONS: Final = re.compile(
    r"__(SSE[234]?|SSSE3|SSE4_[12]|SSE4A|AVX\w*?|FMA4?|F16C|BMI2?|LZCNT|POPCNT|MOVBE|TBM|XOP|GFNI|APX_F)__"
    r"|__ARM_FEATURE_(SVE\w*|DOTPROD|FP16\w*|BF16\w*|MATMUL_INT8|ATOMICS|CRC32|QRDMX)"
)
"""Macros of the instruction sets that compilers use when they optimise ordinary C loops."""
_SETS_NO_INSTRUCTIONS: Final = ("-m", "-m32", "-m64", "-mx32")
"""Arguments beginning with -m that do not choose instructions; `python -m ziglang cc` contains the first."""


def foreign_instructions(compiler: Compiler) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the arguments in $CC that choose instructions, and the instruction sets that this processor lacks.

    The compiler's macros are compared with those under -march=native, which are the sets of this processor. Both
    results are empty if nothing is missing, or if the compiler does not know this processor or does not answer.
    """
    try:
        return _foreign(compiler)
    except _Unusable:
        return (), ()


@lru_cache(maxsize=64)
def _foreign(compiler: Compiler) -> tuple[tuple[str, ...], tuple[str, ...]]:
    chosen = tuple(part for part in compiler.command if part.startswith("-m") and part not in _SETS_NO_INSTRUCTIONS)
    if not chosen or compiler.kind == "nvcc":
        return (), ()
    flags, here = _predefined([part for part in compiler.command if part not in chosen])
    there = _answer((*compiler.command, *compiler.native), *_MACROS).stdout
    if not flags:
        return (), ()
    known = set(here.split())
    found = (_INSTRUCTIONS.fullmatch(word) for word in there.split() if word not in known)
    foreign = sorted({each[1] or each[2] for each in found if each is not None})
    return (chosen, tuple(foreign)) if foreign else ((), ())


def predefined_macros(compiler: Compiler) -> frozenset[str]:
    """Return the names of the macros that the compiler predefines for this processor; none if it does not answer."""
    try:
        return _macros_of(compiler)
    except _Unusable:
        return frozenset()


@lru_cache(maxsize=64)
def _macros_of(compiler: Compiler) -> frozenset[str]:
    text = _answer((*compiler.command, *compiler.native), *_MACROS).stdout
    return frozenset(line.split()[1] for line in text.splitlines() if line.startswith("#define "))


_MACROS: Final = ("-dM", "-E", "-x", "c", "-")


def _answer(
    command: Sequence[str], question: str, *more: str, may_be_refused: bool = False
) -> subprocess.CompletedProcess[str]:
    """Run the compiler with a query. Raises `_Unusable` if it fails or takes too long."""
    try:
        answer = run([*command, question, *more], within=QUESTION)
    except OSError as error:
        raise _Unusable(f"cannot be run ({reason(error)})") from error
    except subprocess.TimeoutExpired as error:
        raise _Unusable(f"cannot be run (its {question} does not end within {error.timeout:g} seconds)") from error
    status = answer.returncode
    if status < 0 or (status and not may_be_refused):
        raise _Unusable(_ended(question, answer))
    return answer


def _ended(question: str, answer: subprocess.CompletedProcess[str]) -> str:
    """Return text that says how the run of a query failed."""
    status, output = answer.returncode, answer.stderr.strip().splitlines()
    ended = f"ends with status {status}" if status > 0 else f"is ended by signal {-status}"
    return f"cannot be run (its {question} {ended}{': ' + output[0] if output else ''})"


def time_limit() -> float:
    """Return the time limit of one compiler run in seconds: $ATL_COMPILER_TIMEOUT, or 600."""
    text = os.environ.get("ATL_COMPILER_TIMEOUT", "").strip() or str(TIMEOUT)
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 0 < seconds <= LONGEST:
        raise InvalidArgument(
            f"the environment variable ATL_COMPILER_TIMEOUT is {brief(text)}",
            required=f"the time limit of one compiler run in seconds, above 0 and up to {LONGEST}",
            suggestions=(f"unset it for the default of {TIMEOUT} seconds",),
        )
    return seconds


class CompilerRuns:
    """Runs of the compiler that end together: when they are stopped, or at a deadline of `time.monotonic`."""

    def __init__(self, deadline: float) -> None:
        self._deadline = deadline
        self._running: set[subprocess.Popen[str]] = set()

    @property
    def seconds_left(self) -> float:
        """Seconds until the deadline."""
        return self._deadline - time.monotonic()

    def stop(self) -> None:
        """Kill what is running. Later runs fail."""
        self._deadline = -math.inf
        for process in tuple(self._running):
            _kill(process)

    @contextmanager
    def stopping(self, process: subprocess.Popen[str]) -> Iterator[None]:
        """Kill a process if these runs are stopped."""
        self._running.add(process)
        try:
            if self.seconds_left <= 0:
                _kill(process)
            yield
        finally:
            self._running.discard(process)


_RUNS: Final[ContextVar[CompilerRuns | None]] = ContextVar("_RUNS", default=None)


@contextmanager
def limited_runs(seconds: float) -> Iterator[CompilerRuns]:
    """End the compiler's runs in this context after some seconds, and at the end of the context."""
    runs = CompilerRuns(time.monotonic() + seconds)
    token = _RUNS.set(runs)
    try:
        yield runs
    finally:
        _RUNS.reset(token)
        runs.stop()


def _kill(process: subprocess.Popen[str]) -> None:
    with suppress(ProcessLookupError):
        os.killpg(process.pid, signal.SIGKILL)


def run(
    command: Sequence[str], *, directory: Path | None = None, stdin: str = "", within: float = LONGEST
) -> subprocess.CompletedProcess[str]:
    """Run a command. Raises `OSError`; `subprocess.TimeoutExpired` after `within` seconds or another limit."""
    seconds, runs = min(within, time_limit()), _RUNS.get()
    if runs is not None and (seconds := min(seconds, runs.seconds_left)) <= 0:
        raise subprocess.TimeoutExpired(command, 0)
    with (
        subprocess.Popen(
            command,
            cwd=directory,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            # English messages without colours, whatever the user's settings are.
            env={**os.environ, "LC_ALL": "C", "GCC_COLORS": ""},
            # A separate process group, so that the compiler driver's children are killed with it.
            start_new_session=True,
        ) as process,
        nullcontext() if runs is None else runs.stopping(process),
    ):
        try:
            stdout, stderr = process.communicate(stdin, timeout=seconds)
        except BaseException:
            _kill(process)
            raise
    return subprocess.CompletedProcess(command, process.returncode, stdout, stderr)


MESSAGE_LINES: Final = 40


def quoted(message: str) -> Location:
    """Quote the first 40 lines of a compiler's message, so that its carets are not taken for ours."""
    lines = message.splitlines()
    if len(lines) > MESSAGE_LINES:
        lines = [*lines[:MESSAGE_LINES], f"… ({len(lines) - MESSAGE_LINES} more lines)"]
    return Location(text="\n".join(f"> {line}" for line in lines) or "(it gave no reason)")


def remedies(message: str, otherwise: str) -> tuple[str, ...]:
    """Return suggestions for a compiler's message."""
    if os.strerror(errno.ENOSPC) in message:
        return ("free some space, or set TMPDIR and ATL_CACHE to directories with space left",)
    return (otherwise,)


def _builds_with(compiler: Compiler, flags: Sequence[str], program: str) -> bool:
    """Return whether the compiler builds a program with these flags.

    Raises `CompilerFailed` if it does not build without the flags either, for instance because the disk is full.
    """
    command, message = list[str](), ""
    within = LONGEST if ZIG in compiler.command else QUESTION  # Zig may have to build its C library first
    with tempfile.TemporaryDirectory(prefix="atl-") as directory:
        for tried in (flags, ()):
            command = [*compiler.command, *tried, "-x", "c", "-", "-o", "program"]
            try:
                answer = run(command, directory=Path(directory), stdin=program, within=within)
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
    """Return whether sanitized programs can be built: the sanitizer libraries are often separate packages.

    Raises `CompilerFailed` if no program can be built at all.
    """
    return _builds_with(compiler, SANITIZED, "int main(void) { return 0; }")


_SUMMATION: Final = """\
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
    """Return whether programs can be built with `-fopenmp`, or with `-fopenmp-simd` (directives but no threads).

    Raises `CompilerFailed` if no program can be built at all.
    """
    directive = "parallel for" if flag == OPENMP else "simd"
    return _builds_with(compiler, (flag,), _SUMMATION.replace("DIRECTIVE", directive))
