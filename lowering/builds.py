"""Builds of C text: compiler flags, commands, and a cache of shared objects and executables on disk.

A build is a `Plan`: source files, the commands that turn them into one output, and a key derived from all that the
output depends on. For each key the cache holds the output, its C text, and the plan with a digest of the output. The
cache may be deleted at any time.
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
import sys
import tempfile
import warnings
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass
from functools import lru_cache
from pathlib import Path
from types import UnionType
from typing import Any, Final

from atl.errors import CompilerFailed, InvalidArgument, InvalidName, Location, brief
from atl.files.atomic import reason
from lowering.c_compiler import (
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
"""Language of generated C: C11 with wrapping integers."""

# -fassociative-math allows reductions to be vectorised; gcc accepts it only together with the two flags before it.
# Under a strict -std, gcc disables contraction, and with it every fused multiply-add that -march provides.
OPTIMISED: Final = (
    "-O3",
    "-fno-math-errno",
    "-fno-trapping-math",
    "-fno-signed-zeros",
    "-fassociative-math",
    "-ffp-contract=fast",
)
# Added to these flags, so that floats are computed by the operations of the text in its order.
IN_ORDER: Final = ("-fno-associative-math", "-fsigned-zeros", "-ffp-contract=off")
# With jump threading, gcc turns a loop that tests i + 1 < n into a loop that it cannot vectorise.
# -fira-region=one would save a fifth of the compile time, but a stencil by rows then runs 1.26 times as long.
OF_GCC: Final = ("-fno-thread-jumps",)
# Where a target has vectors of 64 bytes, clang may prefer 32. It would then split register tiles made for 64.
LONG_VECTORS: Final = ("-mprefer-vector-width=512",)
FAST_MATH: Final = "-ffast-math"
# If one of these reaches the link, gcc adds start-up code that flushes subnormals in the whole process.
NEVER_AT_LINK: Final = frozenset({FAST_MATH, "-Ofast", "-funsafe-math-optimizations"})

OURS: Final = frozenset({"atl", "lowering", "rewrites", "sparse"})
"""Packages whose functions are not the caller to whom a warning is attributed."""
LONGEST_FILE: Final = 250
"""Largest length of a file name in bytes; file systems allow 255."""
LONGEST_NAME: Final = 120
"""Largest length of a build's name in letters; in the cache the key and a suffix are appended."""

# -- plans ------------------------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Plan:
    """A build: `files` (name, text) are written to an empty directory, where `commands` are run in order."""

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
        """Digest of the files, the commands, the compiler, and the variables that name directories of headers.

        The contents of headers and libraries of the system are not a part of it.
        """
        made_by = self.compiler
        searched = [f"{name}={os.environ.get(name, '')}" for name in ("CPATH", "C_INCLUDE_PATH", "LIBRARY_PATH")]
        parts = [self.output, made_by.version, made_by.target, *searched, *_flat(self.files), *_flat(self.commands)]
        # Paths may contain bytes that are not UTF-8.
        return hashlib.sha256("\0".join(parts).encode(errors="surrogateescape")).hexdigest()[:24]


_DIRECTIVE: Final = re.compile(r"^\s*#pragma omp (\w+)", re.MULTILINE)


def _flat(groups: tuple[tuple[str, ...], ...]) -> list[str]:
    return [part for group in groups for part in (*group, "\n")]


def _check(value: object, of: type | UnionType, what: str) -> None:
    if not isinstance(value, of):
        raise InvalidArgument(f"{brief(value)} is not {what}", required=what)


def _file_name(name: str) -> str:
    """Return the file name, without suffix, of a build. Raises `InvalidName`."""
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
    libraries: Sequence[str] = (),
) -> Plan:
    """Plan to compile and link in separate commands, so that no compile flag reaches the link.

    `libraries` are arguments of the linker that follow the objects, since those before them may be dropped.
    """
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
    commands.append((*driver, *objects, "-o", name + suffix, *libraries, "-lm"))
    return Plan(name, suffix, compiler, tuple(files.items()), tuple(commands))


def openmp_flags(texts: Iterable[str]) -> tuple[str, ...]:
    """Return the flags that OpenMP's directives in these files need: none, vector instructions only, or threads too."""
    found = set(_DIRECTIVE.findall("\n".join(texts)))
    return (OPENMP,) if "parallel" in found else (OPENMP_SIMD,) if found else ()


_MESSAGES: Final = {
    "C": (
        "the C compiler",
        "set CC to another C compiler, if this one does not support C11 or these flags",
    ),
    "nvcc": ("nvcc", "set NVCC to another nvcc, or NVCC_CCBIN to a C++ compiler that this nvcc supports"),
}
"""Name of a compiler in messages, and a suggestion if it fails."""
LATE: Final = (
    "set ATL_COMPILER_TIMEOUT to more seconds",
    "split a program with many lets or long bodies into several programs",
)


def _carried_out(plan: Plan, directory: Path) -> Path:
    """Run a plan in an empty directory. Raises `CompilerFailed`."""
    _check_openmp(plan)
    for file, text in plan.files:
        (directory / file).write_text(text, encoding="utf-8")
    for command in plan.commands:
        try:
            answer = run(command, directory=directory)
        except OSError as error:
            raise _failure(plan, command, f"cannot be run: {error}", "did not start") from error
        except subprocess.TimeoutExpired as error:
            late = f"was stopped after {error.timeout:g} seconds"
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
    """Raise `CompilerFailed` if a plan needs OpenMP and the compiler does not support it."""
    wanted = {flag for command in plan.commands for flag in command} & {OPENMP, OPENMP_SIMD}
    for flag in wanted:
        if not has_openmp(plan.compiler, flag):
            marks = "parallel" if flag == OPENMP else "vector"
            raise CompilerFailed(
                f"the C compiler {plan.compiler} does not support OpenMP, needed by {marks} loops of {plan.name!r}",
                required=f"a C compiler that builds programs with {flag}",
                suggestions=(
                    "install OpenMP (Debian: gcc has it, clang needs libomp-dev; macOS: brew install gcc)",
                    "set CC to another C compiler",
                    f'remove the annotations: s.mark("_", None), or those of each {marks} loop',
                ),
            )


def _failure(
    plan: Plan, command: Sequence[str], message: str, ended: str, first: tuple[str, ...] = ()
) -> CompilerFailed:
    what, another = _MESSAGES["nvcc" if plan.compiler.kind == "nvcc" else "C"]
    suggestions = [*first, *remedies(message, another)]
    if SANITIZED[-1] in command and not has_sanitizers(plan.compiler):
        suggestions.insert(
            0, "install the sanitizer libraries (Debian: libclang-rt-dev or gcc; Fedora: libasan, libubsan)"
        )
    return CompilerFailed(
        f"{what} {plan.compiler} {ended} while building {plan.name!r}; no files were left behind",
        place=quoted(message),
        required=f"this command to succeed: {shlex.join(command)}",
        suggestions=tuple(suggestions),
    )


# -- the cache --------------------------------------------------------------------------------------------------------


def _caller_level() -> int:
    """Return the `stacklevel` of a warning that is attributed to the caller of this library."""
    level, frame = 1, sys._getframe(1)
    while frame.f_back is not None and frame.f_globals.get("__name__", "").partition(".")[0] in OURS:
        level, frame = level + 1, frame.f_back
    return level


def cache_directory() -> Path:
    """Return the cache directory: $ATL_CACHE, else $XDG_CACHE_HOME/atl, else ~/.cache/atl.

    If it cannot be written, a temporary directory is used that is deleted when this process ends, with a warning if
    $ATL_CACHE was set.
    """
    chosen = os.environ.get("ATL_CACHE", "")
    try:
        directory = wanted_directory(chosen)
        # Private to its owner, because the files in it are loaded and run.
        directory.mkdir(parents=True, exist_ok=True, mode=0o700)
        if os.access(directory, os.W_OK | os.X_OK):
            return directory
    except (OSError, RuntimeError):  # RuntimeError: no home directory
        pass
    if chosen:
        warnings.warn(
            f"the cache directory ATL_CACHE={chosen} is not writable; builds are deleted when this process ends",
            RuntimeWarning,
            stacklevel=_caller_level(),
        )
    return _own_directory(os.getpid())


def wanted_directory(chosen: str) -> Path:
    """Return the cache directory that the environment asks for; it may be missing or not writable."""
    if chosen:
        return Path(chosen).expanduser().absolute()
    shared = Path(os.environ.get("XDG_CACHE_HOME", ""))
    # The XDG specification requires relative paths to be ignored.
    return (shared if shared.is_absolute() else Path.home() / ".cache") / "atl"


@lru_cache(maxsize=1)
def _own_directory(process: int) -> Path:
    """Create a temporary directory for this process; a forked child creates another one."""
    directory = Path(tempfile.mkdtemp(prefix="atl-"))

    def remove() -> None:
        if os.getpid() == process:
            shutil.rmtree(directory, ignore_errors=True)

    atexit.register(remove)
    return directory


def _digest(file: Path) -> str:
    return hashlib.sha256(file.read_bytes()).hexdigest()


def _record(output: Path) -> Path:
    """Return the path of the file that records how an output was built."""
    return output.with_name(output.name + ".json")


def is_intact(output: Path) -> bool:
    """Return whether the output exists and has the recorded digest: loading a truncated file can crash the process."""
    try:
        recorded = json.loads(_record(output).read_text(encoding="utf-8"))
        return isinstance(recorded, dict) and recorded.get("digest") == _digest(output)
    except (OSError, ValueError, RecursionError):  # RecursionError: deeply nested lists
        return False


def recorded_plan(output: Path) -> Plan | None:
    """Return the plan by which an output in the cache was built."""
    _check(output, Path, "a path returned by build_shared")
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
    """Return the output of a plan, from the cache or built now. Raises `CompilerFailed`."""
    _check(plan, Plan, "a plan")
    name = f"{plan.name}-{plan.key}{plan.suffix}"
    output = cache_directory() / name
    if is_intact(output):
        return output
    try:
        _build(plan, output)
    except OSError as error:
        # The directory was writable a moment ago, but the disk is full or a directory has the name of a file.
        warnings.warn(
            f"the cache directory {output.parent} cannot store the build ({reason(error)}); "
            "the build is deleted when this process ends",
            RuntimeWarning,
            stacklevel=_caller_level(),
        )
        output = _own_directory(os.getpid()) / name
        if not is_intact(output):
            _build_here(plan, output)
    return output


def _build_here(plan: Plan, output: Path) -> None:
    """Call `_build`, and raise `CompilerFailed` if the directory cannot be written."""
    try:
        _build(plan, output)
    except OSError as error:
        raise CompilerFailed(
            f"no writable directory for the build of {plan.name!r}",
            place=Location(text=f"> {error}"),
            required="a writable directory with free space",
            suggestions=("set ATL_CACHE to a writable directory", "set TMPDIR to a directory for temporary files"),
        ) from error


def _build(plan: Plan, output: Path) -> None:
    """Run a plan and move each of its files into the cache atomically.

    Files are replaced and never overwritten, since another process may be running them. The record is moved last. Until
    the record exists and matches, the output does not count as built. So concurrent builds of the same plan duplicate
    work but do no harm.
    """
    with tempfile.TemporaryDirectory(prefix=".build-", dir=output.parent) as directory:
        made = _carried_out(plan, Path(directory))
        content = {"digest": _digest(made), "plan": asdict(plan)}
        record = Path(directory) / _record(output).name
        record.write_text(json.dumps(content, indent=1), encoding="utf-8")
        if plan.suffix or len(plan.files) == 1:
            # Keep the source text next to the output.
            (file, _), *_ = plan.files
            (Path(directory) / file).replace(output.with_suffix(Path(file).suffix))
        made.replace(output)
        record.replace(_record(output))


# -- building and loading ---------------------------------------------------------------------------------------------


def _optimised(compiler: Compiler) -> tuple[str, ...]:
    longer = LONG_VECTORS if compiler.kind == "clang" and compiler.vector_bytes == 64 else ()
    return (*OPTIMISED, *(OF_GCC if compiler.kind == "gcc" else ()), *longer, *compiler.native)


def kernel_flags(compiler: Compiler, *, fast_math: bool) -> tuple[str, ...]:
    """Return the flags with which the C text of every kernel is compiled."""
    return (*STANDARD, *_optimised(compiler), "-fPIC", *((FAST_MATH,) if fast_math else ()))


def build_shared(
    source: str,
    *,
    name: str,
    fast_math: bool = False,
    compiler: Compiler | None = None,
    extra_flags: Sequence[str] = (),
    link_flags: Sequence[str] = (),
    libraries: Sequence[str] = (),
) -> Path:
    """Build a shared object from C text, or find it in the cache, and return its path.

    `name` is an identifier. The C text is kept next to the object, with the suffix .c. `extra_flags` are for compiling
    and `link_flags` for linking; `libraries` are arguments of the linker that follow the objects. With `fast_math`,
    results computed from NaN, infinities and subnormals are undefined; the rest of the process is not affected.

    Raises `CompilerMissing`; `CompilerFailed` with the compiler's message.
    """
    _check(source, str, "C text")
    _check(name, str, "a name")
    _check(compiler, Compiler | None, "a compiler: find_compiler()")
    for flags in (extra_flags, link_flags, libraries):
        _check(flags, list | tuple, "a list of flags")
    compiler, name = compiler or find_compiler(), _file_name(name)
    plan = _planned(
        {f"{name}.c": source},
        name=name,
        suffix=".so",
        compiler=compiler,
        compile_flags=(*kernel_flags(compiler, fast_math=fast_math), *extra_flags),
        link_flags=("-shared", "-fPIC", *link_flags),
        libraries=libraries,
    )
    return built(plan)


def build_executable(
    sources: Mapping[str, str],
    *,
    name: str,
    sanitize: bool = False,
) -> Path:
    """Build an executable from C files, and return its path. `sources` maps file names (.c and .h) to texts.

    With `sanitize`, the program stops with a message at the first access out of bounds, leak, misaligned pointer or
    other undefined behaviour. Signed integers wrap, as in all builds, and this is not reported.

    Raises `CompilerMissing`; `CompilerFailed` with the compiler's message. Call `has_sanitizers` to find out whether a
    compiler supports `sanitize`.
    """
    compiler, name = find_compiler(), _file_name(name)
    plan = _planned(
        sources,
        name=name,
        suffix="",
        compiler=compiler,
        compile_flags=(*STANDARD, *(SANITIZED if sanitize else _optimised(compiler))),
        link_flags=SANITIZED if sanitize else (),
        libraries=(),
    )
    return built(plan)


def load(path: Path, cdef: str) -> tuple[Any, Any]:
    """Load a shared object; return cffi's `ffi` and `lib`, with the functions that `cdef` declares.

    Keep `lib` for as long as one of its functions may be called. An object of the cache that is damaged, or cannot be
    loaded, is rebuilt once.

    Raises `CompilerFailed` if it cannot be loaded after that, or if it was built for another processor (running it
    would end the process by SIGILL).
    """
    _check(path, Path, "a path returned by build_shared")
    _check(cdef, str, "C declarations")
    # Importing cffi takes 40 ms with the first declarations, so only those who call kernels import it.
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
    """Raise `CompilerFailed` if the arguments in $CC are for another processor."""
    arguments, foreign = foreign_instructions(plan.compiler)
    if foreign:
        sets = ", ".join(foreign[:8]) + (", …" if len(foreign) > 8 else "")
        raise CompilerFailed(
            f"{plan.name!r} is built for another processor: this processor does not support {sets}",
            required=f"CC without {' '.join(arguments)}, or with arguments for this processor",
            suggestions=(
                f"remove {' '.join(arguments)} from CC: kernels are then built for the processor that they run on",
            ),
        )


def _opened(ffi: Any, path: Path, plan: Plan | None) -> Any:
    """Open the library at a path. cffi accepts only paths that are text, so other paths are opened through a link.

    Libraries with OpenMP threads are never unloaded: OpenMP would be unloaded with the last of them, and its waiting
    threads would have no code to run. The same holds for other libraries, such as a BLAS. Libraries built by nvcc are
    never unloaded because CUDA registers their kernels.
    """
    pinned = plan is not None and (
        plan.compiler.kind == "nvcc"
        or any(OPENMP in command for command in plan.commands)
        or plan.commands[-1][-2:] != (plan.output, "-lm")
    )
    flags = ffi.RTLD_NOW | (os.RTLD_NODELETE if pinned else 0)
    try:
        str(path).encode()
    except UnicodeEncodeError:
        with tempfile.TemporaryDirectory(prefix="atl-") as directory:
            link = Path(directory) / "kernel.so"
            link.symlink_to(path)
            return ffi.dlopen(str(link), flags)
    return ffi.dlopen(str(path), flags)


def _unloadable(path: Path, error: OSError, plan: Plan | None) -> CompilerFailed:
    # cffi appends that it did not find a library of this name elsewhere.
    message = str(error).partition(".  Additionally")[0]
    suggestions: tuple[str, ...] = ()
    required = "a shared object for this system, with every symbol that it uses defined"
    if path.exists() and os.statvfs(path).f_flag & getattr(os, "ST_NOEXEC", 0):
        required = "a cache on a file system that allows programs to run (this one is mounted noexec)"
        suggestions = ("set ATL_CACHE to a directory on another file system",)
    elif plan is not None and plan.compiler.kind != "nvcc" and (refusal := loading(plan.compiler.command)) is not None:
        required = "a C compiler for this system and for the C library that Python runs on"
        message += f"\n{plan.compiler} {refusal}"
        suggestions = ("set CC to another C compiler",)
    return CompilerFailed(
        f"the shared object {path} cannot be loaded",
        place=Location(text=message),
        required=required,
        suggestions=suggestions,
    )


__all__ = ["Compiler", "build_executable", "build_shared", "cache_directory", "find_compiler", "has_sanitizers", "load"]
