"""From C text to a shared object or an executable: the flags, the commands, and a cache on disk.

A build is a `Plan`: some files, the commands that turn them into one output, and a key made of all that the output
depends on. The cache holds, for each key, the output, the C text beside it and the plan with a digest of the output.
The cache may be deleted at any time.
"""

from __future__ import annotations

import atexit
import hashlib
import json
import os
import re
import shlex
import shutil
import subprocess
import tempfile
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from types import UnionType
from typing import Any, Final

from atl.errors import CompilerFailed, InvalidArgument, InvalidName, Location, brief
from atl.files.whole import reason
from lowering.compiler import (
    OPENMP,
    OPENMP_SIMD,
    SANITIZED,
    Compiler,
    find_compiler,
    foreign_instructions,
    has_openmp,
    has_sanitizers,
    loading,
    quoted,
    remedies,
    run,
)

STANDARD: Final = ("-std=c11", "-fwrapv")
"""The language that kernels are written in: C11, in which integers wrap."""

# -fassociative-math lets a reduction be vectorised, and gcc takes it only together with the two before it. In a strict
# -std mode gcc turns contraction off, and with it every fused multiply-add that -march gives.
OPTIMISED: Final = (
    "-O3",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-signed-zeros",
    "-fassociative-math",
    "-ffp-contract=fast",
)
# Of a loop with the test i + 1 < n in it gcc would make one that it cannot vectorise.
# Not -fira-region=one, which takes a fifth off the time of compiling: a stencil by rows then runs 1.26 times as long.
OF_GCC: Final = ("-fno-thread-jumps",)
FAST_MATH: Final = "-ffast-math"
# Given to the linker's driver, each of these adds a start-up routine that flushes subnormals in the whole process.
NEVER_AT_LINK: Final = frozenset({FAST_MATH, "-Ofast", "-funsafe-math-optimizations"})

LONGEST_FILE: Final = 250
"""The bytes in the name of a file of a build: file systems hold names of 255."""
LONGEST_NAME: Final = 120
"""Files are named after what is built, up to this many letters; in the cache they have the key and a suffix, too."""

# -- plans ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Plan:
    """What a build does: it writes `files` (name, text) in an empty directory and runs `commands` there, in order."""

    name: str
    suffix: str
    compiler: Compiler
    files: tuple[tuple[str, str], ...]
    commands: tuple[tuple[str, ...], ...]

    @property
    def output(self) -> str:
        return self.name + self.suffix

    @property
    def key(self) -> str:
        """A digest of everything that the output depends on."""
        made_by = self.compiler
        parts = [self.output, made_by.version, made_by.target, *_flat(self.files), *_flat(self.commands)]
        # Paths need not be text in UTF-8.
        return hashlib.sha256("\0".join(parts).encode(errors="surrogateescape")).hexdigest()[:24]


_DIRECTIVE: Final = re.compile(r"^\s*#pragma omp (\w+)", re.MULTILINE)


def _flat(groups: tuple[tuple[str, ...], ...]) -> list[str]:
    return [part for group in groups for part in (*group, "\n")]


def _check(value: object, of: type | UnionType, what: str) -> None:
    if not isinstance(value, of):
        raise InvalidArgument(f"{brief(value)} is not {what}", required=what)


def _cut(name: str) -> str:
    """What files are named after that are built under a name. Raises `InvalidName` where nothing is built under it."""
    if not name.isidentifier() or not name.isascii():
        raise InvalidName(
            f"{brief(name)} cannot be the name of a build",
            required="a name of letters, digits and underscores, not beginning with a digit",
        )
    return name[:LONGEST_NAME]


def _planned(
    files: Mapping[str, str],
    *,
    name: str,
    suffix: str,
    compiler: Compiler,
    compile_flags: Sequence[str],
    link_flags: Sequence[str],
) -> Plan:
    """Compiling and linking are separate commands always, so that no compile flag can reach the link."""
    openmp = openmp_flags(files.values())
    compile_flags = (*compile_flags, *openmp)
    link_flags = (*link_flags, *(flag for flag in openmp if flag == OPENMP))
    commands: list[tuple[str, ...]] = []
    objects: list[str] = []
    for file in files:
        if Path(file).name != file or not file.endswith((".c", ".h")) or len(file.encode()) > LONGEST_FILE:
            raise InvalidName(
                f"{brief(file)} cannot be the name of a file of a build",
                required="a plain and short file name ending in .c or .h",
            )
        if file.endswith(".c"):
            objects.append(f"{file.removesuffix('.c')}.o")
            commands.append((*compiler.command, *compile_flags, "-c", file, "-o", objects[-1]))
    driver = (part for part in (*compiler.command, *link_flags) if part not in NEVER_AT_LINK)
    commands.append((*driver, *objects, "-o", name + suffix, "-lm"))
    return Plan(name, suffix, compiler, tuple(files.items()), tuple(commands))


def openmp_flags(texts: Iterable[str]) -> tuple[str, ...]:
    """What files with OpenMP's directives need: nothing, support of vector instructions, or its threads too."""
    found = set(_DIRECTIVE.findall("\n".join(texts)))
    return (OPENMP,) if "parallel" in found else (OPENMP_SIMD,) if found else ()


_WORDS: Final = {
    "C": (
        "the C compiler",
        "set CC to another C compiler, if this one is too old for C11 or knows none of these flags",
    ),
    "nvcc": ("nvcc", "set NVCC to another nvcc, or NVCC_CCBIN to a C++ compiler that this one takes"),
}
"""What a compiler is called in a message, and what to try."""
LATE: Final = (
    "set ATL_COMPILER_TIMEOUT to more seconds",
    "take apart a program with many lets or long bodies into several",
)


def _carried_out(plan: Plan, directory: Path) -> Path:
    """Runs a plan in an empty directory. Raises `CompilerFailed`."""
    _check_openmp(plan)
    for file, text in plan.files:
        (directory / file).write_text(text, encoding="utf-8")
    for command in plan.commands:
        try:
            answer = run(command, directory=directory)
        except OSError as error:
            raise _failure(plan, command, f"it cannot be run: {error}", "did not start") from error
        except subprocess.TimeoutExpired as error:
            late = f"was stopped: it did not end within {error.timeout:g} seconds"
            raise _failure(plan, command, "", late, LATE) from error
        if answer.returncode != 0:
            status = answer.returncode
            ended = f"ended with status {status}" if status > 0 else f"was ended by signal {-status}"
            raise _failure(plan, command, answer.stderr.strip() or answer.stdout.strip(), ended)
    output = directory / plan.output
    if not output.is_file():
        raise _failure(plan, plan.commands[-1], "", f"did not write {plan.output}")
    return output


def _check_openmp(plan: Plan) -> None:
    """Raises `CompilerFailed` where a plan needs OpenMP and the compiler has none."""
    wanted = {flag for command in plan.commands for flag in command} & {OPENMP, OPENMP_SIMD}
    for flag in wanted:
        if not has_openmp(plan.compiler, flag):
            marks = "parallel" if flag == OPENMP else "vector"
            raise CompilerFailed(
                f"the C compiler {plan.compiler} has no OpenMP, which the loops marked {marks} of {plan.name!r} need",
                required=f"a C compiler that builds programs with {flag}",
                suggestions=(
                    "install OpenMP (Debian: gcc has it, clang needs libomp-dev; macOS: brew install gcc)",
                    "set CC to another C compiler",
                    f'take the marks away: s.mark("_", None), or that of each loop that is {marks}',
                ),
            )


def _failure(
    plan: Plan, command: Sequence[str], message: str, ended: str, first: tuple[str, ...] = ()
) -> CompilerFailed:
    what, another = _WORDS["nvcc" if plan.compiler.kind == "nvcc" else "C"]
    suggestions = [*first, *remedies(message, another)]
    if SANITIZED[-1] in command and not has_sanitizers(plan.compiler):
        suggestions.insert(
            0, "install the sanitizer libraries (Debian: libclang-rt-dev or gcc; Fedora: libasan, libubsan)"
        )
    return CompilerFailed(
        f"{what} {plan.compiler} {ended} while building {plan.name!r}; nothing was left behind",
        place=quoted(message),
        required=f"this command to succeed: {shlex.join(command)}",
        suggestions=tuple(suggestions),
    )


# -- the cache --------------------------------------------------------------------------------------------------------


def cache_directory() -> Path:
    """Where builds are kept: $ATL_CACHE, else $XDG_CACHE_HOME/atl, else ~/.cache/atl.

    Where that cannot be written, a directory that only this process uses and that goes with it. There is a warning if
    it was $ATL_CACHE that cannot be written.
    """
    chosen = os.environ.get("ATL_CACHE", "")
    try:
        directory = wanted_directory(chosen)
        # Only for its owner: what stands here is loaded and run.
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        if os.access(directory, os.W_OK | os.X_OK):
            return directory
    except (OSError, RuntimeError):  # RuntimeError: there is no home directory
        pass
    if chosen:
        warnings.warn(
            f"the cache directory ATL_CACHE={chosen} cannot be written; what is built goes with this process",
            RuntimeWarning,
            stacklevel=4,
        )
    return _own_directory(os.getpid())


def wanted_directory(chosen: str) -> Path:
    """Where builds belong, by the environment; it may be missing, or not to be written."""
    if chosen:
        return Path(chosen).expanduser().absolute()
    shared = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The XDG specification asks to pass over a relative one.
    return (shared if shared.is_absolute() else Path.home() / ".cache") / "atl"


@lru_cache(maxsize=1)
def _own_directory(process: int) -> Path:
    """A temporary directory of this process; a forked child gets another and leaves its parent's alone."""
    directory = Path(tempfile.mkdtemp(prefix="atl-"))

    def remove() -> None:
        if os.getpid() == process:
            shutil.rmtree(directory, ignore_errors=True)

    atexit.register(remove)
    return directory


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _record(output: Path) -> Path:
    """The file beside an output that says how it was made."""
    return output.with_name(output.name + ".json")


def is_intact(output: Path) -> bool:
    """Whether the output is there and is what was built: loading a truncated file can end the whole process."""
    try:
        recorded = json.loads(_record(output).read_text(encoding="utf-8"))
        return isinstance(recorded, dict) and recorded.get("digest") == _digest(output)
    except (OSError, ValueError, RecursionError):  # RecursionError: lists within lists, thousands deep
        return False


def recorded_plan(output: Path) -> Plan | None:
    """The plan by which an output of the cache was built."""
    _check(output, Path, "a path that build_shared gave")
    try:
        plan = json.loads(_record(output).read_text(encoding="utf-8"))["plan"]
        made_by = plan["compiler"]
        return Plan(
            plan["name"],
            plan["suffix"],
            Compiler(**{**made_by, "command": tuple(made_by["command"]), "native": tuple(made_by["native"])}),
            tuple((file, text) for file, text in plan["files"]),
            tuple(tuple(command) for command in plan["commands"]),
        )
    except (OSError, ValueError, KeyError, TypeError, RecursionError):
        return None


def built(plan: Plan) -> Path:
    """The output of a plan, from the cache where it is there. Raises `CompilerFailed`."""
    _check(plan, Plan, "a plan")
    name = f"{plan.name}-{plan.key}{plan.suffix}"
    output = cache_directory() / name
    if is_intact(output):
        return output
    try:
        _build(plan, output)
    except OSError as error:
        # It could be written to a moment ago, but is full or read-only, or a directory stands where a file has to.
        warnings.warn(
            f"the cache directory {output.parent} does not take what is built ({reason(error)}); "
            "it goes with this process",
            RuntimeWarning,
            stacklevel=4,
        )
        output = _own_directory(os.getpid()) / name
        if not is_intact(output):
            _build_here(plan, output)
    return output


def _build_here(plan: Plan, output: Path) -> None:
    """As `_build`; raises `CompilerFailed` where nothing can be written."""
    try:
        _build(plan, output)
    except OSError as error:
        raise CompilerFailed(
            f"there is no place for what is built of {plan.name!r}",
            place=Location(text=f"> {error}"),
            required="a directory in which files can be made, with space left",
            suggestions=("set ATL_CACHE to a directory that can be written", "set TMPDIR to one for temporary files"),
        ) from error


def _build(plan: Plan, output: Path) -> None:
    """Carries out a plan and puts what it makes in place, each file in one step.

    A file is replaced and never written to, since another process may be running it. The record comes last: until it
    is there, or while it is about another file, the output does not count as built. So processes that build the same
    thing at once do double work and no harm.
    """
    with tempfile.TemporaryDirectory(prefix=".build-", dir=output.parent) as directory:
        made = _carried_out(plan, Path(directory))
        content = {"digest": _digest(made), "plan": asdict(plan)}
        record = Path(directory) / _record(output).name
        record.write_text(json.dumps(content, indent=1), encoding="utf-8")
        if plan.suffix or len(plan.files) == 1:
            # The text that it was made of stands beside it.
            (file, _), *_ = plan.files
            (Path(directory) / file).replace(output.with_suffix(Path(file).suffix))
        made.replace(output)
        record.replace(_record(output))


# -- building and loading ---------------------------------------------------------------------------------------------


def _optimised(compiler: Compiler) -> tuple[str, ...]:
    return (*OPTIMISED, *(OF_GCC if compiler.kind == "gcc" else ()), *compiler.native)


def build_shared(
    source: str,
    *,
    name: str,
    fast_math: bool = False,
    compiler: Compiler | None = None,
    extra_flags: Sequence[str] = (),
    link_flags: Sequence[str] = (),
) -> Path:
    """The path of a shared object made from C text; one that was built before is found again in the cache.

    `name` is an identifier; the C text stands beside the object, with the suffix .c; a long name is cut in both.
    `extra_flags` are for compiling and `link_flags` for linking. With `fast_math`, what the object computes from NaN,
    infinities and subnormals is unspecified; the rest of the process is not touched.

    Raises `CompilerMissing`, and `CompilerFailed` with the compiler's own message.
    """
    _check(source, str, "C text")
    _check(name, str, "a name")
    _check(compiler, Compiler | None, "a compiler: find_compiler()")
    for flags in (extra_flags, link_flags):
        _check(flags, list | tuple, "a list of flags")
    compiler, name = compiler or find_compiler(), _cut(name)
    plan = _planned(
        {f"{name}.c": source},
        name=name,
        suffix=".so",
        compiler=compiler,
        compile_flags=(
            *STANDARD,
            *_optimised(compiler),
            "-fPIC",
            *((FAST_MATH,) if fast_math else ()),
            *extra_flags,
        ),
        link_flags=("-shared", "-fPIC", *link_flags),
    )
    return built(plan)


def build_executable(
    sources: Mapping[str, str],
    *,
    name: str,
    sanitize: bool = False,
    fast_math: bool = False,
    compiler: Compiler | None = None,
    extra_flags: Sequence[str] = (),
    link_flags: Sequence[str] = (),
) -> Path:
    """The path of a program made from C files, given by their names (ending in .c, or .h for what they include).

    With `sanitize`, the program stops with a message at the first access outside of an object, leak, misaligned
    pointer or other undefined behaviour; signed integers wrap there as everywhere, and are not reported.

    Raises `CompilerMissing`, and `CompilerFailed` with the compiler's own message. `has_sanitizers` tells beforehand
    whether a compiler can sanitize.
    """
    compiler, name = compiler or find_compiler(), _cut(name)
    how = SANITIZED if sanitize else _optimised(compiler)
    plan = _planned(
        sources,
        name=name,
        suffix="",
        compiler=compiler,
        compile_flags=(*STANDARD, *how, *((FAST_MATH,) if fast_math else ()), *extra_flags),
        link_flags=(*(SANITIZED if sanitize else ()), *link_flags),
    )
    return built(plan)


def load(path: Path, cdef: str) -> tuple[Any, Any]:
    """The cffi `ffi` and `lib` of a shared object, with the functions that `cdef` declares.

    Keep `lib` for as long as one of its functions may be called. An object of the cache that is damaged, or that this
    system refuses to load, is built once more. Raises `CompilerFailed` when it cannot be loaded then either, and for
    one that was built for another processor: it would end the process by SIGILL.
    """
    _check(path, Path, "a path that build_shared gave")
    _check(cdef, str, "C declarations")
    # Takes 40 ms with the first declarations that are parsed; only those who call kernels pay it.
    from cffi import FFI

    ffi = FFI()
    ffi.cdef(cdef)
    plan = recorded_plan(path)
    if plan is not None:
        _check_processor(plan)
    if plan is None or is_intact(path):
        try:
            return ffi, _opened(ffi, path, plan)
        except OSError as error:
            if plan is None:
                raise _unloadable(path, error, plan) from error
    _build_here(plan, path)
    try:
        return ffi, _opened(ffi, path, plan)
    except OSError as error:
        raise _unloadable(path, error, plan) from error


def _check_processor(plan: Plan) -> None:
    """Raise `CompilerFailed` where the arguments in $CC are those of another processor."""
    arguments, foreign = foreign_instructions(plan.compiler)
    if foreign:
        sets = ", ".join(foreign[:8]) + (", …" if len(foreign) > 8 else "")
        raise CompilerFailed(
            f"{plan.name!r} is built for another processor: this one lacks instructions of {sets}",
            required=f"CC without {' '.join(arguments)}, or with the name of this processor there",
            suggestions=(
                f"leave {' '.join(arguments)} out of CC: kernels are then built for the processor that they run on",
            ),
        )


def _opened(ffi: Any, path: Path, plan: Plan | None) -> Any:
    """The library at a path. cffi takes only paths that are text: another one is reached by a link.

    What has threads of OpenMP stays to the end of the process. With the last such library OpenMP would be unloaded, and
    its threads, which wait for more work, would have no code to run. What nvcc made stays too: CUDA knows its kernels.
    """
    stays = plan is not None and (plan.compiler.kind == "nvcc" or any(OPENMP in command for command in plan.commands))
    flags = ffi.RTLD_NOW | (os.RTLD_NODELETE if stays else 0)
    try:
        str(path).encode()
    except UnicodeEncodeError:
        with tempfile.TemporaryDirectory(prefix="atl-") as directory:
            link = Path(directory) / "kernel.so"
            link.symlink_to(path)
            return ffi.dlopen(str(link), flags)
    return ffi.dlopen(str(path), flags)


def _unloadable(path: Path, error: OSError, plan: Plan | None) -> CompilerFailed:
    # cffi adds that it found no library of this name elsewhere.
    said = str(error).partition(".  Additionally")[0]
    suggestions: tuple[str, ...] = ()
    required = "a shared object for this system, with every symbol that it uses defined"
    if path.exists() and os.statvfs(path).f_flag & getattr(os, "ST_NOEXEC", 0):
        required = "a cache on a file system from which programs may be run: this one is mounted noexec"
        suggestions = ("set ATL_CACHE to a directory on another file system",)
    elif plan is not None and plan.compiler.kind != "nvcc" and (refusal := loading(plan.compiler.command)) is not None:
        required = "a C compiler for this system and for the C library that Python runs on"
        said += f"\n{plan.compiler} {refusal}"
        suggestions = ("set CC to another C compiler",)
    return CompilerFailed(
        f"the shared object {path} cannot be loaded",
        place=Location(text=said),
        required=required,
        suggestions=suggestions,
    )


__all__ = ["Compiler", "build_executable", "build_shared", "cache_directory", "find_compiler", "has_sanitizers", "load"]
