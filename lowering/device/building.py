"""From CUDA text to a library that is called: nvcc, the architectures that it is told, and functions without types."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

from atl.errors import CompilerFailed, GpuMissing
from lowering.compiler import QUESTION, Compiler, run
from lowering.device.found import Found, find_nvcc
from lowering.toolchain import LONGEST_FILE, LONGEST_NAME, Plan, built, load

WITHOUT_A_GPU: Final = ((8, 0), (9, 0))
"""What is built for where there is no GPU to ask, beside the PTX of the last, from which newer drivers make code."""

FLAGS: Final = (
    *("-std=c++17", "-O3", "--shared", "--cudart", "static"),
    *("-Xcompiler", "-fPIC"),
    # Another library's CUDA, loaded for all to see, must not take the place of the one that is linked in.
    *("-Xlinker", "--exclude-libs=ALL", "-Xlinker", "-Bsymbolic"),
    *("-include", "cuda_runtime_api.h"),
)

Kind: TypeAlias = Literal["address", "number", "bytes", "float", "double", "int32_t", "int64_t"]
"""What a function takes: a pointer as a number, an int, a size_t, or a value."""
Declared: TypeAlias = Mapping[str, tuple[Kind, ...]]
"""Functions by their names, with what they take; each gives an int."""
Functions: TypeAlias = Mapping[str, Callable[..., int]]

_C: Final[dict[Kind, str]] = {
    "address": "uintptr_t",
    "number": "int",
    "bytes": "size_t",
    "float": "float",
    "double": "double",
    "int32_t": "int32_t",
    "int64_t": "int64_t",
}
_CTYPES: Final[dict[Kind, Any]] = {
    "address": ctypes.c_void_p,
    "number": ctypes.c_int,
    "bytes": ctypes.c_size_t,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
    "int32_t": ctypes.c_int32,
    "int64_t": ctypes.c_int64,
}


def built_by_nvcc(texts: Sequence[tuple[str, str]], name: str, found: Found) -> Path:
    """The path of a library made of files, each a name and a text, for the GPUs that were found.

    Raises `GpuMissing` without nvcc, and `CompilerFailed` with nvcc's own message.
    """
    nvcc = find_nvcc()
    if nvcc is None:
        raise GpuMissing(
            f"{name} is CUDA text, and there is no nvcc to build it",
            required=f"nvcc in PATH, in $CUDA_HOME/bin, or as $NVCC; found: {found}",
            suggestions=("kernel.source is the text",),
        )
    name = name[:LONGEST_NAME]
    files = tuple((file if len(file) <= LONGEST_FILE else f"{name}.cu", text) for file, text in texts)
    command = (*nvcc.command, *FLAGS, *_targets(nvcc, found), "-o", f"{name}.so", *(file for file, _ in files))
    return built(Plan(name, ".so", nvcc, files, (command,)))


def _targets(nvcc: Compiler, found: Found) -> list[str]:
    """The architectures, by name: `-arch=native` guesses one where there is no GPU, and says nothing of it.

    A GPU that is newer than nvcc gets the newest PTX that nvcc makes, for its driver to go on from.
    """
    known = _architectures(nvcc)
    if not found.gpus:
        whole = [_target(number, f"sm_{number}") for number in map(_number, WITHOUT_A_GPU) if number in known]
        return [*whole, _target(max(known), f"compute_{max(known)}")] if known else []
    out: list[str] = []
    for number in sorted({_number(gpu) for gpu in found.gpus}):
        older = [each for each in known if each <= number]
        if not older:
            raise CompilerFailed(
                f"nvcc ({nvcc.version}) makes no code for a GPU of compute capability {number // 10}.{number % 10}",
                required=f"an nvcc that knows it; this one knows {', '.join(map(str, sorted(known))) or 'none'}",
                suggestions=("install an older version of CUDA, and set NVCC to its nvcc",),
            )
        out.append(_target(number, f"sm_{number}") if number in known else _target(max(older), f"compute_{max(older)}"))
    return out


def _target(virtual: int, code: str) -> str:
    return f"-gencode=arch=compute_{virtual},code={code}"


def _number(capability: tuple[int, int]) -> int:
    return 10 * capability[0] + capability[1]


@lru_cache(maxsize=8)
def _architectures(nvcc: Compiler) -> frozenset[int]:
    answer = run([*nvcc.command, "--list-gpu-arch"], within=QUESTION)
    return frozenset(int(number) for number in re.findall(r"compute_(\d+)\b", answer.stdout))


def opened(path: Path, declared: Declared) -> Functions:
    """The functions of a library, which take pointers as numbers. The library stays to the end of the process.

    By cffi; where that is not installed, as on a machine with a GPU and little else, by ctypes, which takes some
    microseconds longer for a call.
    """
    if find_spec("cffi") is None:
        library = ctypes.CDLL(str(path), mode=os.RTLD_NOW | os.RTLD_NODELETE)
        return {name: _by_ctypes(library, name, takes) for name, takes in declared.items()}
    cdef = "\n".join(f"int {name}({', '.join(_C[kind] for kind in takes)});" for name, takes in declared.items())
    _, loaded = load(path, cdef)
    return {name: getattr(loaded, name) for name in declared}


def _by_ctypes(library: ctypes.CDLL, name: str, takes: tuple[Kind, ...]) -> Callable[..., int]:
    function = getattr(library, name)
    function.argtypes = [_CTYPES[kind] for kind in takes]
    function.restype = ctypes.c_int
    return function  # type: ignore[no-any-return]
