"""Register tiles fit the registers: the assembly of the optimized product has no spills in its innermost loop."""

from __future__ import annotations

import platform
import re
import shutil
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

from bench.workloads.programs import product_float64
from examples.schedules import matmul
from lowering import Machine, lower, machine, print_c
from lowering.builds import OF_GCC, OPTIMISED, STANDARD, kernel_flags, openmp_flags
from lowering.c_compiler import find_compiler, run
from proofs_tests.recipes.machines import AVX2, NEON
from rewrites import reschedule

LABEL: Final = re.compile(r"(\.L\w+):")
JUMP: Final = re.compile(r"\s+(?:j\w+|b\.?\w*|cb\w+\s+\w+,|tb\w+\s+\w+,\s*#?\w+,)\s+(\.L\w+)")
MULTIPLY: Final = re.compile(r"\s+(v?mulp[sd]|vfn?m(add|sub)\d+p[sd]|fml[as]|fmul\s+v)\b")
SPILL: Final = re.compile(r"\s+v?mov[au]\w+\s.*\(%r[sb]p|\s+(ldr|str|ldp|stp)\s+[qd]\d.*\[(sp|x29)")
"""A vector that is moved from or to the stack, on x86-64 or AArch64."""
X86: Final = ("", "-march=x86-64", "-march=x86-64-v3", "-march=x86-64-v4")
ARM: Final = "aarch64-linux-gnu-gcc"


def innermost_loop(assembly: str) -> list[str]:
    """Return the lines of the loop without inner loops that has the most multiplications of vectors."""
    lines, labels = assembly.splitlines(), dict[str, int]()
    loops: list[list[str]] = []
    for at, line in enumerate(lines):
        if found := LABEL.match(line):
            labels[found[1]] = at
        elif (found := JUMP.match(line)) and found[1] in labels:
            loops.append(lines[labels[found[1]] : at])
    innermost = [loop for loop in loops if not any(other is not loop and other[0] in loop[1:] for other in loops)]
    return max(innermost, key=lambda loop: sum(MULTIPLY.match(line) is not None for line in loop))


def check_without_spills(assembly: str, model: Machine, *, least: int) -> None:
    """Check that the innermost loop keeps its sums in registers; it has at least one multiplication per sum."""
    loop = innermost_loop(assembly)
    assert sum(MULTIPLY.match(line) is not None for line in loop) >= least, "\n".join(loop)
    assert [line for line in loop if SPILL.match(line)] == []


def sums_of(model: Machine, dtype: str) -> int:
    """Return the number of vectors of sums in the register tile."""
    rows, columns = model.register_tile(dtype)
    return rows * columns // model.lanes(dtype)


@pytest.mark.parametrize("dtype", ["float32", "float64"])
@pytest.mark.parametrize("flags", X86)
def test_innermost_loop_of_a_product_has_no_spills(
    flags: str, dtype: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    if flags and platform.machine() != "x86_64":
        pytest.skip("these flags are of x86-64")
    compiler = find_compiler()
    if flags:
        monkeypatch.setenv("CC", f"{compiler.path} {flags}")
        compiler = find_compiler()
    model = replace(AVX2, **{
        name: getattr(machine(), name) for name in ("vector_bytes", "vector_registers", "fma")
    })  # fmt: skip
    s = reschedule(product_float64() if dtype == "float64" else matmul.naive()).optimize(machine=model)
    text = print_c(lower(s.goal, vector_bytes=model.vector_bytes))
    (tmp_path / "product.c").write_text(text, encoding="utf-8")
    command = [*compiler.command, *kernel_flags(compiler, fast_math=False), *openmp_flags([text])]
    answer = run([*command, "-S", "product.c", "-o", "product.s"], directory=tmp_path)
    assert answer.returncode == 0, answer.stderr
    check_without_spills((tmp_path / "product.s").read_text(), model, least=sums_of(model, dtype))


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_innermost_loop_for_neon_has_no_spills(dtype: str, tmp_path: Path) -> None:
    if shutil.which(ARM) is None:
        pytest.skip(f"{ARM} is not installed")
    s = reschedule(product_float64() if dtype == "float64" else matmul.naive()).optimize(machine=NEON)
    text = print_c(lower(s.goal, vector_bytes=NEON.vector_bytes))
    (tmp_path / "product.c").write_text(text, encoding="utf-8")
    command = [ARM, *STANDARD, *OPTIMISED, *OF_GCC, "-fPIC", *openmp_flags([text])]
    answer = run([*command, "-S", "product.c", "-o", "product.s"], directory=tmp_path)
    assert answer.returncode == 0, answer.stderr
    check_without_spills((tmp_path / "product.s").read_text(), NEON, least=sums_of(NEON, dtype))


def test_spills_are_found() -> None:
    # The check itself: a tile of 8 x 32 does not fit in 16 registers.
    loop = ".L3:\n\tvmovups\t32(%rsp), %ymm1\n\tvfmadd231ps\t%ymm1, %ymm2, %ymm3\n\tjne\t.L3\n"
    assert [line for line in innermost_loop(loop) if SPILL.match(line)] == ["\tvmovups\t32(%rsp), %ymm1"]
    neon = ".L3:\n\tldr\tq1, [sp, 32]\n\tfmla\tv1.4s, v2.4s, v3.s[0]\n\tbne\t.L3\n"
    assert [line for line in innermost_loop(neon) if SPILL.match(line)] == ["\tldr\tq1, [sp, 32]"]
