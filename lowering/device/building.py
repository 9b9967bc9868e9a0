"""Builds of CUDA text by nvcc: target architectures, and loading the library with untyped pointers."""

from __future__ import annotations

import ctypes
import os
import re
from collections.abc import Callable, Mapping, Sequence
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias, get_args

from atl.errors import CompilerFailed, GpuMissing
from lowering.builds import LONGEST_FILE, LONGEST_NAME, Plan, built, load
from lowering.c_compiler import QUESTION, Compiler, run
from lowering.device.detection import GpuEnvironment, find_nvcc

DEFAULT_CAPABILITIES: Final = ((8, 0), (9, 0))
"""Compute capabilities to build for without a GPU, plus PTX of the last, which newer drivers can compile."""

FLAGS: Final = (
    *("-std=c++17", "-O3", "--shared", "--cudart", "static"),
    *("-Xcompiler", "-fPIC"),
    # Symbols of another globally loaded CUDA library must not replace those that are linked in.
    *("-Xlinker", "--exclude-libs=ALL", "-Xlinker", "-Bsymbolic"),
    *("-include", "cuda_runtime_api.h"),
)

ValueKind: TypeAlias = Literal["float", "double", "int8_t", "uint8_t", "uint16_t", "int32_t", "int64_t"]
"""Type of an argument that is passed by value."""
ParameterKind: TypeAlias = Literal["address", "number", "bytes", ValueKind]
"""Type of an argument: a pointer as a number, an int, a size_t, or a value of that C type."""
Declared: TypeAlias = Mapping[str, tuple[ParameterKind, ...]]
"""Signatures of functions, all of which return an int, by name."""
Functions: TypeAlias = Mapping[str, Callable[..., int]]

VALUES: Final[dict[str, ValueKind]] = {kind: kind for kind in get_args(ValueKind)}
"""Types of arguments that are passed by value."""
_C: Final[dict[ParameterKind, str]] = {
    "address": "uintptr_t",
    "number": "int",
    "bytes": "size_t",
    **{kind: name for name, kind in VALUES.items()},
}
_CTYPES: Final[dict[ParameterKind, Any]] = {
    "address": ctypes.c_void_p,
    "number": ctypes.c_int,
    "bytes": ctypes.c_size_t,
    "float": ctypes.c_float,
    "double": ctypes.c_double,
    "int8_t": ctypes.c_int8,
    "uint8_t": ctypes.c_uint8,
    "uint16_t": ctypes.c_uint16,
    "int32_t": ctypes.c_int32,
    "int64_t": ctypes.c_int64,
}


def build_with_nvcc(texts: Sequence[tuple[str, str]], name: str, found: GpuEnvironment) -> Path:
    """Build a library from files (name, text) for the GPUs of this machine; return its path.

    Raises `GpuMissing` without nvcc; `CompilerFailed` with nvcc's message.
    """
    nvcc = find_nvcc()
    if nvcc is None:
        raise GpuMissing(
            f"{name} is CUDA text, which needs nvcc, and nvcc was not found",
            required=f"nvcc in PATH, in $CUDA_HOME/bin, or as $NVCC; found: {found}",
            suggestions=("kernel.source is the text",),
        )
    name = name[:LONGEST_NAME]
    files = tuple((file if len(file) <= LONGEST_FILE else f"{name}.cu", text) for file, text in texts)
    command = (*nvcc.command, *FLAGS, *_targets(nvcc, found), "-o", f"{name}.so", *(file for file, _ in files))
    return built(Plan(name, ".so", nvcc, files, (command,)))


def _targets(nvcc: Compiler, found: GpuEnvironment) -> list[str]:
    """Return the options for the target architectures, since `-arch=native` silently guesses one without a GPU.

    For a GPU that is newer than nvcc, use the newest PTX that nvcc can generate, which the driver compiles.
    """
    known = _architectures(nvcc)
    if not found.gpus:
        whole = [_target(number, f"sm_{number}") for number in map(_number, DEFAULT_CAPABILITIES) if number in known]
        return [*whole, _target(max(known), f"compute_{max(known)}")] if known else []
    out: list[str] = []
    for number in sorted({_number(gpu) for gpu in found.gpus}):
        older = [each for each in known if each <= number]
        if not older:
            raise CompilerFailed(
                f"nvcc ({nvcc.version}) does not support GPUs of compute capability {number // 10}.{number % 10}",
                required=f"an nvcc that supports it; this one supports {', '.join(map(str, sorted(known))) or 'none'}",
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


def open_library(path: Path, declared: Declared) -> Functions:
    """Load the functions of a library, which take pointers as numbers. The library is never unloaded.

    cffi is used if it is installed, otherwise ctypes, whose calls take some microseconds longer.
    """
    if find_spec("cffi") is None:
        library = ctypes.CDLL(str(path), mode=os.RTLD_NOW | os.RTLD_NODELETE)
        return {name: _by_ctypes(library, name, takes) for name, takes in declared.items()}
    cdef = "\n".join(f"int {name}({', '.join(_C[kind] for kind in takes)});" for name, takes in declared.items())
    _, loaded = load(path, cdef)
    return {name: getattr(loaded, name) for name in declared}


def _by_ctypes(library: ctypes.CDLL, name: str, takes: tuple[ParameterKind, ...]) -> Callable[..., int]:
    function = getattr(library, name)
    function.argtypes = [_CTYPES[kind] for kind in takes]
    function.restype = ctypes.c_int
    return function  # type: ignore[no-any-return]
