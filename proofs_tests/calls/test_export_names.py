"""Names in exported folders: any name of a program, input or size yields a folder that builds and finds faults."""

from __future__ import annotations

import re
import subprocess
from collections.abc import Callable, Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import pytest

import atl
from atl.core.program import Program
from atl.errors import InvalidName
from lowering import compile  # noqa: A004 (the public API name)
from lowering.c.helpers import HELPER_NAMES
from lowering.c.text import EXPORT_NAMES, FUNCTION_NAMES, KEYWORDS, reserved
from lowering.cuda.helpers import RESERVED
from proofs_tests.calls.test_export import make
from proofs_tests.gpu.shim.run import COMPILER, HERE
from rewrites import reschedule

pytestmark = pytest.mark.usefixtures("cache_of_the_file")

BATCH: Final = 120
PLANTED: Final = ("want", "at", "there", "found", "failed", "bytes", "k", "kept", "count", "f", "f_plain", "ATL_F_H")
"""Names that once clashed, or that the files of a program `f` use."""
n, length = atl.sizes("n length_of_every_input")


def floats(names: Sequence[str], **declared: Any) -> Program:
    inputs = [atl.tensor(name, length, **declared) for name in names]
    return atl.program("f", inputs, total([x[0] for x in inputs]), given=[length >= 1])


def integers(names: Sequence[str]) -> Program:
    return floats(names, dtype="int32", range=(0, 50), monotonic="nondecreasing")


def scalars(names: Sequence[str]) -> Program:
    return atl.program("f", inputs := [atl.tensor(name, dtype="float64") for name in names], total(inputs))


def sizes(names: Sequence[str]) -> Program:
    return atl.program("f", [], total([atl.value(atl.sizes(name)) for name in names]))


def total(terms: Sequence[atl.Tensor]) -> atl.Tensor:
    return sum(terms[1:], terms[0])


ROLES: Final = (floats, integers, scalars, sizes)


@cache
def hostile() -> tuple[str, ...]:
    """Return the words in the files of some kernels and C's keywords, as far as they are valid names."""
    pos = atl.tensor("pos", n + 1, dtype="int32", range=(0, 9), monotonic="nondecreasing")
    crd = atl.tensor("crd", 8, dtype="int64", range=(0, 50), monotonic=("increasing", pos))
    inputs = [pos, crd, atl.tensor("on", n, dtype="bool"), atl.tensor("a", dtype="int32"), atl.tensor("x", n)]
    body = atl.let(atl.gen(n, lambda i: inputs[-1][i] * 2), lambda t: atl.gen(n, lambda i: atl.exp(t[i])))
    words = set(KEYWORDS)
    with TemporaryDirectory() as folder:
        for program in (atl.program("f", inputs, body), integers(["x"])):
            for file in compile(program).write(folder).iterdir():
                words |= set(re.findall(r"[A-Za-z]\w*", file.read_text()))
    return tuple(sorted(filter(is_name, words)))


def is_name(word: str) -> bool:
    """Return whether an input may have this name in a program that `compile` accepts."""
    if word in ("out", str(length)):
        return False
    try:
        atl.tensor(word)
    except InvalidName:
        return False
    return True


def checks_itself(program: Program, folder: Path) -> None:
    """Check that the kernel passes `make check` without warnings, and that a wrong kernel fails it."""
    kernel = compile(program).write(folder)
    made = make(kernel, "check", "NATIVE=", "CFLAGS=-O0 -Wall -Wextra -Werror")
    assert made.returncode == 0, made.stdout[-2000:] + made.stderr[-2000:]
    header = next(file for file in kernel.iterdir() if file.suffix == ".h")
    (out,) = re.findall(r"(\w+)\);$", header.read_text(), re.MULTILINE)
    source = header.with_suffix(".c")
    before, after = source.read_text().rsplit("return 0;", 1)
    source.write_text(f"{before}*{out} = 2 * *{out} + 1; return 0;{after}")
    made = make(kernel, "check", "NATIVE=", "CFLAGS=-O0")
    assert made.returncode != 0
    assert "1 wrong" in made.stdout


@pytest.mark.long
@pytest.mark.thinned(3)
@pytest.mark.parametrize("role", ROLES)
def test_fault_is_found_with_any_names(role: Callable[[Sequence[str]], Program], tmp_path: Path) -> None:
    names = hostile()
    assert {"want", "at", "bytes", "atl_case", "printf", "argv", "CFLAGS", "check", "while"} <= {*names}
    assert len(names) > 200
    all_check_themselves(role, names, tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("role", ROLES)
def test_fault_is_found_with_library_names(role: Callable[[Sequence[str]], Program], tmp_path: Path) -> None:
    names = sorted(filter(is_name, FUNCTION_NAMES | HELPER_NAMES | RESERVED))
    assert len(names) > 2500
    all_check_themselves(role, names, tmp_path)


def all_check_themselves(role: Callable[[Sequence[str]], Program], names: Sequence[str], folder: Path) -> None:
    for start in range(0, len(names), BATCH):
        checks_itself(role(names[start : start + BATCH]), folder / str(start))


@pytest.mark.thinned(13)
@pytest.mark.long
@pytest.mark.parametrize("name", PLANTED)
def test_fault_is_found_where_one_name_clashes(name: str, tmp_path: Path) -> None:
    checks_itself(floats([name]), tmp_path)


@pytest.mark.thinned(13)
@pytest.mark.long
@pytest.mark.parametrize("name", ["atl_case", "ATL_GUARD", "main", "printf", "check", "clean", "math", "stdint"])
def test_program_may_be_named_like_a_part_of_its_check(name: str, tmp_path: Path) -> None:
    x = atl.tensor("x", n)
    checks_itself(atl.program(name, [x], x.sum(), given=[n >= 1]), tmp_path)


SHIM: Final = f"""
#include "{HERE / "shim.h"}"
extern "C" {{
cudaError_t cudaMalloc(void **memory, size_t bytes);
cudaError_t cudaMemcpy(void *to, const void *from, size_t bytes, cudaMemcpyKind kind);
cudaError_t cudaFree(void *memory);
}}
"""


@pytest.mark.parametrize("program", ["f", "cudaFree", "each"])
def test_call_of_an_exported_cuda_kernel_compiles_with_any_names(program: str, tmp_path: Path) -> None:
    """Compile with a C++ compiler, with declarations in place of CUDA's header."""
    if COMPILER is None:
        pytest.skip("no C++ compiler")
    (tmp_path / "cuda_runtime_api.h").write_text(SHIM)
    own = ("given", "error", "each", "made", "held", "bytes", "cudaFree", "cudaMalloc", "cudaMemcpy", "atl_there", "f")
    inputs = [atl.tensor(name, length) for name in own]
    body = atl.gen(length, lambda row: total([x[row] for x in inputs]))
    goal = reschedule(atl.program(program, inputs, body)).mark("row", "block.x").goal
    folder = compile(goal, target="cuda").write(tmp_path / "folder")
    (host,) = folder.glob("*_host.cu")
    command = [COMPILER, "-std=c++17", "-fsyntax-only", "-Wall", "-Werror", f"-I{tmp_path}", "-x", "c++", str(host)]
    made = subprocess.run(command, capture_output=True, text=True, check=False)
    assert made.returncode == 0, made.stderr


def test_functions_of_a_check_are_reserved(tmp_path: Path) -> None:
    text = ""
    for program in (floats(["x"]), integers(["x"])):
        text += (compile(program).write(tmp_path) / "f_check.c").read_text()
    defined = set(re.findall(r"^static .*?(\w+)(?:\(| =)", text, re.MULTILINE)) | set(re.findall(r"enum { (\w+)", text))
    assert "atl_case" in defined
    assert defined <= EXPORT_NAMES
    assert all(reserved(name) for name in EXPORT_NAMES)


def test_older_c_standard_is_refused(tmp_path: Path) -> None:
    """C99 does not declare aligned_alloc; gcc assumed that it returns int, and the kernel crashed."""
    x = atl.tensor("x", n)
    body = atl.let(atl.gen(n, lambda i: x[i] * 2), lambda t: atl.gen(n, lambda i: t[i] * t[n - 1 - i]))
    folder = compile(atl.program("f", [x], body)).write(tmp_path)
    made = make(folder, "check", "LANGUAGE=-std=c99")
    assert made.returncode != 0
    assert "aligned_alloc needs C11: compile with -std=c11 or later" in made.stderr
