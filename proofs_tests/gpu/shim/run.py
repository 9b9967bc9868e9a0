"""Build printed kernels with a C++ compiler and call them, with every load and store checked."""

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

from lowering.gpu.kernels import SHARED_BYTES
from lowering.nest.loopnest import LoopNest
from proofs_tests.gpu.shim.emulation import with_emulated_instructions

HERE: Final = Path(__file__).parent
COMPILER: Final = shutil.which("g++") or shutil.which("clang++")
FLAGS: Final = ("-std=c++17", "-O0", "-fPIC", "-Wall", "-Wno-unknown-pragmas", "-Werror")

PREAMBLE: Final = f'#include "{HERE / "shim.h"}"\n#include <math.h>\n#include <stdint.h>\n'

SANITIZED: Final = "-fsanitize=thread,undefined"
"""Flags that make each load and store call shim.cpp, and undefined behaviour of C++ too, such as overflow."""

Array = npt.NDArray[Any]
Indices: TypeAlias = Literal["int32_t", "int64_t", "shim_index"]
"""Types of indices: 32 bits, 64 bits, and a type that records its largest value."""


class Finding(AssertionError):
    """An error that the shim found while a kernel ran."""


@lru_cache
def runtime() -> tuple[str, ...]:
    """Compile the shim once per process: the part that runs kernels and the part that the host calls."""
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
    """Build printed kernels as a loaded library: one text with a namespace for each. Function names must differ.

    `index` is the index type, of all texts or of each, where a text leaves the type to the sizes of a call.
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
    """Return the text for one index type only: gcc places no shared variable of a template in a section."""
    source = with_emulated_instructions(source)
    source = source.replace("template <class index_t>\n__global__", "__global__")
    dynamic = "extern __shared__ __align__(16) unsigned char shared_memory[]"
    source = source.replace(dynamic, dynamic.replace("extern ", "").replace("[]", f"[{SHARED_BYTES}]"))
    called = r"((?:cudaLaunchKernelEx\(&how, |cudaFuncSetAttribute\()\w+)<\w+>"
    return f"using index_t = {index};\n" + re.sub(called, r"\1", source)


def _run(arguments: list[str]) -> None:
    answer = subprocess.run([str(COMPILER), *arguments], capture_output=True, text=True, check=False)
    if answer.returncode:
        raise AssertionError(answer.stderr)


@dataclass(frozen=True, slots=True)
class Shimmed:
    """A kernel built with the shim."""

    library: Any
    nest: LoopNest

    def __call__(
        self, name: str, sizes: Mapping[str, int], arrays: Mapping[str, Array], shape: tuple[int, ...]
    ) -> Array:
        """Return the output for these arguments. Raise `Finding` for errors, unstored elements and leaks."""
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
