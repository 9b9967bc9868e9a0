"""C compilers of this machine and their features, for tests."""

from __future__ import annotations

import os
import platform
import re
from functools import cache
from pathlib import Path
from typing import Final, Literal, TypeAlias, assert_never, get_args

import pytest

from atl.errors import CompilerMissing
from lowering.builds import kernel_flags, openmp_flags
from lowering.c_compiler import OPENMP, Compiler, find_compiler, has_openmp, has_sanitizers, run

_NAME: Final = re.compile(r"(gcc|clang)(-\d+)?")
_X86: Final = ("-march=x86-64", "-march=x86-64-v3")

Library: TypeAlias = Literal["OpenMP", "sanitizers"]


@cache
def installed() -> tuple[str, ...]:
    """Return a value of CC for each version of gcc and clang in PATH, or only $CC if it is set.

    gcc comes first, because it compiles kernels in half the time. Newer versions come before older ones.
    """
    if chosen := os.environ.get("CC"):
        return (chosen,)
    found: dict[str, str] = {}
    for directory in map(Path, os.get_exec_path()):
        for file in sorted(directory.iterdir()) if directory.is_dir() else ():
            if _NAME.fullmatch(file.name) and (compiler := _named(str(file))):
                # Debian's gcc and gcc-12 are one program, with different names in the first line of the version.
                found.setdefault(compiler.version.removeprefix(file.name).strip(), str(file))
    return tuple(sorted(found.values(), key=_newest_first))


@cache
def with_targets() -> tuple[str, ...]:
    """Return a value of CC for each compiler and each target: this processor, and on x86 older ones."""
    older = _X86 if platform.machine() == "x86_64" and not os.environ.get("CC") else ()
    return tuple(" ".join((name, *flag)) for name in installed() for flag in ((), *((flag,) for flag in older)))


def _newest_first(path: str) -> tuple[bool, int]:
    found = _NAME.fullmatch(Path(path).name)
    assert found is not None
    return is_clang(path), -int((found[2] or "-999")[1:])


def is_clang(chosen: str) -> bool:
    """Return true if a value of CC from `installed` is a clang."""
    return "clang" in Path(chosen.split(maxsplit=1)[0]).name


def is_older(chosen: str) -> bool:
    """Return true if a newer compiler of the same kind is installed."""
    return next(each for each in installed() if is_clang(each) == is_clang(chosen)) != chosen.split(maxsplit=1)[0]


def _named(name: str) -> Compiler | None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CC", name)
        try:
            return find_compiler()
        except CompilerMissing:
            return None


def lacking(*needed: Library) -> str:
    """Return the reason to skip a test if the C compiler lacks one of these libraries, or "".

    Without arguments, both are needed. They are often separate packages, and always for clang.
    """
    compiler = find_compiler()
    missing = [name for name in needed or get_args(Library) if not _has(compiler, name)]
    return f"{compiler} has no {' and no '.join(missing)}" if missing else ""


def _has(compiler: Compiler, library: Library) -> bool:
    match library:
        case "OpenMP":
            return has_openmp(compiler, OPENMP)
        case "sanitizers":
            return has_sanitizers(compiler)
        case _:
            assert_never(library)


def predefined(compiler: Compiler) -> set[str]:
    """Return the macros that a compiler predefines for the processor of kernels."""
    text = run([*compiler.command, *compiler.native, "-dM", "-E", "-x", "c", "-"]).stdout
    return {line.split()[1] for line in text.splitlines()}


def has_vectorised_loop(text: str, compiler: Compiler) -> bool:
    """Return true if a compiler vectorises a loop of the C text with the flags of kernels."""
    flag, says = {"gcc": ("-fopt-info-vec", "loop vectorized"), "clang": ("-Rpass=loop-vectorize", "vectorized loop")}[
        compiler.kind
    ]
    flags = (*kernel_flags(compiler, fast_math=False), *openmp_flags([text]))
    command = [*compiler.command, *flags, flag, "-S", "-x", "c", "-", "-o", "-"]
    return says in run(command, stdin=text).stderr
