"""Register tiles fit the registers: the assembly of the optimized product has no spills in its innermost loop."""

from __future__ import annotations

import platform
import re
import shutil
from collections.abc import Sequence
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
from rewrites import Session, reschedule

LABEL: Final = re.compile(r"(\.L\w+):")
JUMP: Final = re.compile(r"\s+(?:j\w+|b\.?\w*|cb\w+\s+\w+,|tb\w+\s+\w+,\s*#?\w+,)\s+(\.L\w+)")
MULTIPLY: Final = re.compile(r"\s+(v?mulp[sd]|vfn?m(add|sub)\d+p[sd]|fml[as]|fmul\s+v)\b")
SPILL: Final = re.compile(
    r"\s+v\w+\s.*\(%r(sp|bp\))|\s+\w+\s.*\(%r[sb]p\).*%xmm|\s+\w+\s+%xmm.*\(%r(sp|bp\))"
    r"|\s+(ldr|str|ldp|stp)\s+[qd]\d.*\[(sp|x29)"
)
"""An instruction with a vector and an operand on the stack, on x86-64 or AArch64.

clang uses %rbp for other addresses too, such as `(%rbp,%rdi,8)`.
"""
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


def spills(assembly: str, *, least: int) -> list[str]:
    """Return the spills in the innermost loop, which has at least one multiplication per sum."""
    loop = innermost_loop(assembly)
    assert sum(MULTIPLY.match(line) is not None for line in loop) >= least, "\n".join(loop)
    return [line for line in loop if SPILL.match(line)]


def assembly_of(s: Session, model: Machine, command: Sequence[str], folder: Path) -> str:
    """Return the assembly of a goal that is lowered for a machine."""
    text = print_c(lower(s.goal, vector_bytes=model.vector_bytes))
    (folder / "product.c").write_text(text, encoding="utf-8")
    answer = run([*command, *openmp_flags([text]), "-S", "product.c", "-o", "product.s"], directory=folder)
    assert answer.returncode == 0, answer.stderr
    return (folder / "product.s").read_text()


def sums_of(model: Machine, dtype: str) -> int:
    """Return the number of vectors of sums in the register tile."""
    rows, columns = model.register_tile(dtype)
    return rows * columns // model.lanes(dtype)


@pytest.mark.long
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
    command = [*compiler.command, *kernel_flags(compiler, fast_math=False)]
    assert spills(assembly_of(s, model, command, tmp_path), least=sums_of(model, dtype)) == []


@pytest.mark.parametrize("dtype", ["float32", "float64"])
def test_innermost_loop_for_neon_has_no_spills(dtype: str, tmp_path: Path) -> None:
    if shutil.which(ARM) is None:
        pytest.skip(f"{ARM} is not installed")
    s = reschedule(product_float64() if dtype == "float64" else matmul.naive()).optimize(machine=NEON)
    command = [ARM, *STANDARD, *OPTIMISED, *OF_GCC, "-fPIC"]
    assert spills(assembly_of(s, NEON, command, tmp_path), least=sums_of(NEON, dtype)) == []


@pytest.mark.long
def test_tile_for_twice_the_registers_has_spills(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    if platform.machine() != "x86_64":
        pytest.skip("these flags are of x86-64")
    monkeypatch.setenv("CC", f"{find_compiler().path} -march=x86-64-v3")
    compiler, planted = find_compiler(), replace(AVX2, vector_registers=32)
    s = reschedule(matmul.naive()).optimize(machine=planted)
    command = [*compiler.command, *kernel_flags(compiler, fast_math=False)]
    assert len(spills(assembly_of(s, planted, command, tmp_path), least=16)) >= 2


@pytest.mark.parametrize(
    "line",
    [
        "\tvmovups\t32(%rsp), %ymm1",
        "\tvmovaps\t%zmm1, 64(%rsp)",
        "\tvfmadd231ps\t-32(%rbp), %ymm2, %ymm3",
        "\tvaddps\t32(%rsp), %ymm1, %ymm1",
        "\tldr\tq1, [sp, 32]",
    ],
)
def test_vector_operands_on_the_stack_are_spills(line: str) -> None:
    assert SPILL.match(line)


@pytest.mark.parametrize(
    "line",
    [
        "\tmovq\t8(%rsp), %rax",
        "\tvmovups\t(%rax), %ymm1",
        "\tvbroadcastss\t(%rbp,%r15,4), %ymm15",
        "\tldr\tx1, [sp, 32]",
    ],
)
def test_other_instructions_are_not_spills(line: str) -> None:
    assert not SPILL.match(line)
