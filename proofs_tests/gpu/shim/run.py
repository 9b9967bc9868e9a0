"""Builds printed kernels with a C++ compiler and calls them, with every load and store of theirs looked at."""

from __future__ import annotations

import atexit
import ctypes
import re
import shutil
import subprocess
import tempfile
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import numpy as np
import numpy.typing as npt

from lowering.nest.loopnest import LoopNest

HERE: Final = Path(__file__).parent
COMPILER: Final = shutil.which("g++") or shutil.which("clang++")
FLAGS: Final = ("-std=c++17", "-O0", "-fPIC", "-Wall", "-Wno-unknown-pragmas", "-Werror")

PREAMBLE: Final = f'#include "{HERE / "shim.h"}"\n#include <math.h>\n#include <stdint.h>\n'

SANITIZED: Final = "-fsanitize=thread,undefined"
"""What calls shim.cpp: each load and store, and what C++ leaves undefined, as a sum that overflows."""

Array = npt.NDArray[Any]
Indices: TypeAlias = Literal["int32_t", "int64_t", "shim_index"]
"""Types of indices: of 32 bits, of 64, and one that notes how great they are."""


class Finding(AssertionError):
    """What the shim has found while a kernel ran."""


@lru_cache
def runtime() -> tuple[str, ...]:
    """The shim itself, compiled once in a process: what runs kernels, and what a host calls."""
    folder = Path(tempfile.mkdtemp(prefix="atl-shim-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    made = (folder / "shim.o", folder / "streams.o")
    for each in made:
        flags = ["-std=c++17", "-O2", "-fPIC", "-Wall", "-Wextra", "-Werror"]
        _run([*flags, "-c", str(HERE / f"{each.stem}.cpp"), "-o", str(each)])
    return tuple(str(each) for each in made)


def build(
    sources: Sequence[str],
    folder: Path,
    name: str = "kernels",
    *flags: str,
    index: Indices | Sequence[Indices] = "int32_t",
) -> Any:
    """Printed kernels as a loaded library: one text, in which each has a namespace. Their functions differ in name.

    `index` is the type of indices where a text leaves that to the sizes of a call, of all texts or of each.
    """
    types = [index] * len(sources) if isinstance(index, str) else index
    sources = [instantiated(source, of) for source, of in zip(sources, types, strict=True)]
    file, object_file, library = (folder / f"{name}{ending}" for ending in (".cpp", ".o", ".so"))
    spaces = (f"namespace text_{number} {{\n{source}}}\n" for number, source in enumerate(sources))
    file.write_text("".join((PREAMBLE, *spaces)), encoding="utf-8")
    _run([*FLAGS, *flags, SANITIZED, "-c", str(file), "-o", str(object_file)])
    _run(["-shared", "-Wl,-Bsymbolic", str(object_file), *runtime(), "-o", str(library)])
    return ctypes.CDLL(str(library))


def instantiated(source: str, index: Indices) -> str:
    """The text with kernels for one type of indices only. gcc puts what is shared in a template into no section."""
    source = source.replace("template <class index_t>\n__global__", "__global__")
    return f"using index_t = {index};\n" + re.sub(r"(cudaLaunchKernelEx\(&how, \w+)<\w+>", r"\1", source)


def _run(arguments: list[str]) -> None:
    answer = subprocess.run([str(COMPILER), *arguments], capture_output=True, text=True, check=False)
    if answer.returncode:
        raise AssertionError(answer.stderr)


@dataclass(frozen=True, slots=True)
class Shimmed:
    """A kernel that was built with the shim."""

    library: Any
    nest: LoopNest

    def __call__(
        self, name: str, sizes: Mapping[str, int], arrays: Mapping[str, Array], shape: tuple[int, ...]
    ) -> Array:
        """The output for these arguments. Raises `Finding`, also where an element of it was not stored."""
        library = self.library
        library.shim_array.restype = ctypes.c_void_p
        library.shim_finding.restype = ctypes.c_char_p
        library.shim_result.restype = ctypes.c_size_t
        library.shim_reset()
        held: list[ctypes.c_void_p] = []
        given: list[Any] = []
        for array in self.nest.inputs:
            value = np.ascontiguousarray(arrays[array.name], dtype=array.dtype)
            if not array.shape:
                given.append(np.ctypeslib.as_ctypes_type(value.dtype)(value.item()))
                continue
            pointer = value.ctypes.data_as(ctypes.c_void_p)
            held.append(ctypes.c_void_p(library.shim_array(ctypes.c_size_t(value.nbytes), pointer)))
            given.append(held[-1])
        given += [ctypes.c_int64(sizes[size]) for size in self.nest.sizes]
        result = np.empty(shape, dtype=self.nest.output.dtype)
        out = ctypes.c_void_p(library.shim_array(ctypes.c_size_t(result.nbytes), None))
        error = getattr(library, name)(*given, out, None)
        unknown = library.shim_result(out, result.ctypes.data_as(ctypes.c_void_p), ctypes.c_size_t(result.nbytes))
        for memory in (*held, out):
            library.shim_free(memory)
        if error:
            raise Finding(f"error {error}: {library.shim_finding().decode()}")
        if unknown:
            raise Finding(f"{unknown} bytes of the output hold nothing")
        if library.shim_arrays():
            raise Finding(f"{library.shim_arrays()} buffers are not freed")
        return result
