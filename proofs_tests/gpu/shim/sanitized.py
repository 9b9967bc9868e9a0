"""Printed kernels in a program with the address and undefined-behaviour sanitizers."""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from lowering.c.scalars import C_TYPES
from lowering.nest.loopnest import LoopNest
from proofs_tests.gpu.shim.run import COMPILER, HERE, PREAMBLE, Finding

FLAGS: Final = ("-std=c++17", "-O0", "-g", "-Wall", "-Wno-unknown-pragmas", "-Werror", "-DSHIM_SANITIZED")
SANITIZED: Final = ("-fsanitize=address,undefined", "-fno-sanitize-recover=all")
ARRAY: Final = "void *sanitized_array(bool filled, size_t *bytes);\n"


@lru_cache
def has_sanitizers() -> bool:
    """Return whether the compiler has the libraries of the sanitizers."""
    if COMPILER is None:
        return False
    command = [COMPILER, *SANITIZED, "-x", "c++", "-", "-o", "/dev/null"]
    return subprocess.run(command, input="int main() {}", capture_output=True, text=True, check=False).returncode == 0


def build(kernels: Sequence[tuple[str, str, LoopNest]], folder: Path, name: str = "sanitized") -> Sanitized:
    """Build a program of kernels, each given by the name of its function, its text and its nest."""
    spaces = [f"namespace text_{number} {{\n{text}}}\n" for number, (_, text, _) in enumerate(kernels)]
    cases = [_case(number, function, nest) for number, (function, _, nest) in enumerate(kernels)]
    chosen = "\n".join(f'    if (!std::strcmp(given[1], "{function}")) return call_{at}(given + 2);'
                       for at, (function, _, _) in enumerate(kernels))  # fmt: skip
    main = f"int main(int, char **given)\n{{\n{chosen}\n    return 5;\n}}\n"
    file, program = folder / f"{name}.cpp", folder / name
    head = f"{PREAMBLE}#include <cstdio>\n#include <cstdlib>\n{ARRAY}"
    file.write_text("".join((head, *spaces, *cases, main)), encoding="utf-8")
    command = [str(COMPILER), *FLAGS, *SANITIZED, str(file), str(HERE / "sanitized.cpp"), "-o", str(program)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    if answer.returncode:
        raise AssertionError(answer.stderr)
    return Sanitized(program)


def _case(number: int, function: str, nest: LoopNest) -> str:
    """Return C++ that reads the arguments of a kernel, calls it, and writes its output."""
    passed: list[str] = []
    for array in nest.inputs:
        held = f"({C_TYPES[array.dtype]} *)arrays[{len(passed)}]"
        passed.append(held if array.shape else f"*{held}")
    sizes = [f"std::atoll(given[{at}])" for at in range(len(nest.sizes))]
    arguments = ", ".join((*passed, *sizes, f"({C_TYPES[nest.output.dtype]} *)out", "nullptr"))
    return f"""static int call_{number}(char **given)
{{
    (void)given;
    void *arrays[{len(nest.inputs) + 1}];
    for (int at = 0; at < {len(nest.inputs)}; at++) arrays[at] = sanitized_array(true, nullptr);
    size_t bytes = 0;
    void *out = sanitized_array(false, &bytes);
    const int error = text_{number}::{function}({arguments});
    std::fwrite(out, 1, bytes, stdout);
    for (int at = 0; at < {len(nest.inputs)}; at++) std::free(arrays[at]);
    std::free(out);
    return error ? 6 : 0;
}}
"""


@dataclass(frozen=True, slots=True)
class Sanitized:
    """A sanitized program of kernels."""

    program: Path

    def __call__(
        self, nest: LoopNest, name: str, sizes: Mapping[str, int], arrays: Mapping[str, Any], shape: tuple[int, ...]
    ) -> npt.NDArray[Any]:
        """Return the output for these arguments. Raise `Finding` with the sanitizer's report."""
        out = np.empty(shape, nest.output.dtype)
        parts: list[bytes] = []
        for array in nest.inputs:
            held = np.ascontiguousarray(arrays[array.name], dtype=array.dtype)
            parts += [held.nbytes.to_bytes(8, "little"), held.tobytes()]
        parts.append(out.nbytes.to_bytes(8, "little"))
        command = [str(self.program), name, *(str(sizes[size]) for size in nest.sizes)]
        answer = subprocess.run(command, input=b"".join(parts), capture_output=True, check=False)
        if answer.returncode:
            raise Finding(answer.stderr.decode(errors="replace"))
        return np.frombuffer(answer.stdout, out.dtype).reshape(shape)
