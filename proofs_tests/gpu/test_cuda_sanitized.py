"""Printed kernels under the address and undefined-behaviour sanitizers, independent of the shim's own checks."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest

from lowering.c.scalars import C_TYPES
from lowering.cuda.printer import print_cuda
from lowering.nest.loopnest import LoopNest
from proofs_tests.gpu.shim.run import COMPILER, HERE, PREAMBLE, Finding
from proofs_tests.gpu.test_cuda_shim import renamed
from proofs_tests.gpu.test_gpu_kernels import SCHEDULES, arrays_for, expected, same, scheduled

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


pytestmark = pytest.mark.skipif(not has_sanitizers(), reason="the sanitizers of a C++ compiler are not installed")

BEYOND: Final = "out of bounds|buffer-overflow|insufficient space"
PLANTED: Final = {
    "an array in global memory": ("transpose", r"A\[", "A[1 + ", "heap-buffer-overflow"),
    "an array in shared memory": ("transpose", r"= tile\[", "= tile[1000 + ", BEYOND),
    "registers of a thread": ("product", r"acc\[(.*)\] \+=", r"acc[\1 + 1] +=", BEYOND),
    "an index that overflows": ("transpose", r"8 \* io \+ ii < n", "(ii + 2) * INT64_MAX < n", "integer overflow"),
}
"""A schedule, the planted change of its text, and the sanitizer's report."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Sanitized:
    texts = [_text(f"kernel{number}", name) for number, name in enumerate(SCHEDULES)]
    return build(texts, tmp_path_factory.mktemp("sanitized"))


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Sanitized:
    texts = [
        _text(f"planted{number}", name, before, after)
        for number, (name, before, after, _) in enumerate(PLANTED.values())
    ]
    return build(texts, tmp_path_factory.mktemp("sanitized"))


def _text(new: str, name: str, before: str = "", after: str = "") -> tuple[str, str, LoopNest]:
    nest, source = scheduled(name)[1].nest, print_cuda(scheduled(name)[1])
    assert re.search(before, source), (name, before)
    return new, renamed(re.sub(before, after, source) if before else source, nest.name, new), nest


@pytest.mark.long
@pytest.mark.thinned(3)
@pytest.mark.parametrize("name", SCHEDULES)
def test_printed_kernel_agrees_with_its_program_without_findings(name: str, program: Sanitized) -> None:
    goal, held = scheduled(name)
    function = f"kernel{list(SCHEDULES).index(name)}"
    for sizes in SCHEDULES[name][1]:
        arrays = arrays_for(goal, sizes)
        want = expected(goal, sizes, arrays)
        assert same(goal, program(held.nest, function, sizes, arrays, want.shape), want)


@pytest.mark.sampled
@pytest.mark.parametrize("what", PLANTED)
def test_planted_fault_is_found(what: str, planted: Sanitized) -> None:
    name, _, _, report = PLANTED[what]
    goal, held = scheduled(name)
    sizes = SCHEDULES[name][1][0]
    arrays = arrays_for(goal, sizes)
    shape = expected(goal, sizes, arrays).shape
    with pytest.raises(Finding, match=report):
        planted(held.nest, f"planted{list(PLANTED).index(what)}", sizes, arrays, shape)
