"""Libraries that instructions call: flags for the compiler and the linker, and macros that say what is linked.

For the library `blas`, it is the first one found of

- `$ATL_BLAS`: arguments for the linker, such as `-lopenblas`, for a BLAS with the C interface (CBLAS);
- OpenBLAS from NumPy's package, with indices of 64 bits;
- a system library with the C interface: OpenBLAS, BLIS, or the reference one.

Other names are linked by `-lNAME`.
"""

from __future__ import annotations

import ctypes
import ctypes.util
import os
import shlex
import subprocess
import tempfile
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Final

import numpy as np

from atl.errors import LibraryMissing
from lowering.c.scalars import with_library
from lowering.c_compiler import find_compiler, run

BLAS: Final = "blas"
_SYSTEM: Final = ("openblas", "blis", "cblas", "blas")
"""Names of system libraries that may have the C interface of the BLAS."""


@dataclass(frozen=True, slots=True)
class Library:
    """A library: flags for compiling text that calls it, and arguments for the linker, after the objects."""

    name: str
    compile_flags: tuple[str, ...]
    link_arguments: tuple[str, ...]
    description: str


def find_library(name: str) -> Library:
    """Return a library. Raises `LibraryMissing`."""
    found = _blas(os.environ.get("ATL_BLAS", "")) if name == BLAS else _linked(name)
    if found is not None:
        return found
    advice = (
        ("pip install numpy: its packages contain OpenBLAS", "set ATL_BLAS to the linker's arguments for a BLAS")
        if name == BLAS
        else (f"install the development files of {name}", "set LIBRARY_PATH to the folder that contains it")
    )
    raise LibraryMissing(
        f"the library {name}, which an instruction of this program calls, is not found",
        required="a BLAS with the C interface" if name == BLAS else f"a library that the linker finds by -l{name}",
        suggestions=(*advice, 's.mark("…", None) removes the mark of the call; the loops then run'),
    )


def _flags(name: str, *more: str) -> tuple[str, ...]:
    return (f"-D{with_library(name)}", *more)


@lru_cache
def _blas(given: str) -> Library | None:
    if given:
        return Library(BLAS, _flags(BLAS), tuple(shlex.split(given)), given)
    return _of_numpy() or _of_system()


def _of_numpy() -> Library | None:
    """Return the OpenBLAS in NumPy's package. Its functions have other names, and indices of 64 bits."""
    package = Path(np.__file__).parent
    for folder in (package.parent / "numpy.libs", package / ".dylibs", package / ".libs"):
        for file in sorted(folder.glob("*openblas*")):
            if _has(file, "scipy_cblas_sgemm64_"):
                flags = _flags(BLAS, "-DATL_OPENBLAS_OF_NUMPY")
                return Library(BLAS, flags, (str(file), f"-Wl,-rpath,{folder}"), f"OpenBLAS of NumPy, {file}")
    return None


def _of_system() -> Library | None:
    for each in _SYSTEM:
        file = ctypes.util.find_library(each)
        if file is not None and _has(file, "cblas_sgemm"):
            argument = file if os.sep in file else f"-l:{file}"
            return Library(BLAS, _flags(BLAS), (argument,), f"the system's {file}")
    return None


def _has(file: str | Path, function: str) -> bool:
    try:
        return hasattr(ctypes.CDLL(str(file)), function)
    except OSError:
        return False


@lru_cache
def _linked(name: str) -> Library | None:
    """Return the library that the linker finds by this name, found by linking an empty program."""
    with tempfile.TemporaryDirectory(prefix="atl-") as folder:
        (Path(folder) / "main.c").write_text("int main(void) { return 0; }\n", encoding="utf-8")
        command = (*find_compiler().command, "main.c", "-o", "main", f"-l{name}")
        try:
            answer = run(command, directory=Path(folder))
        except (OSError, subprocess.SubprocessError):
            return None
    return Library(name, _flags(name), (f"-l{name}",), f"-l{name}") if answer.returncode == 0 else None
