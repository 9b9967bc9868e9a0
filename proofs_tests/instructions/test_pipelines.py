"""Products by tensor cores whose tiles are copied ahead: barriers, bank conflicts, registers, and planted faults."""

import itertools
import re
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Final

import numpy as np
import pytest

from lowering.gpu import interpreter, races
from lowering.gpu.gpu_kernel import GpuKernel
from proofs_tests.gpu.shim.counts import counts
from proofs_tests.gpu.shim.run import COMPILER, Finding, Shimmed, build
from proofs_tests.instructions.products import expected, kernel_by_warps, operands
from proofs_tests.instructions.test_nvcc import HMMA, LDSM, LOCAL_LOAD, LOCAL_STORE, NVCC, opcodes

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler: printed kernels are not run here")

COPY, WAIT = 0xFAE, 0x91A
"""Opcodes of asynchronous copies and of waits for them (LDGSTS and DEPBAR)."""


def small() -> GpuKernel:
    return kernel_by_warps("float16", "float32", "mma_m16n8k16", (32, 16, 32), 2, stages=3)


def large() -> GpuKernel:
    return kernel_by_warps("float16", "float32", "mma_m16n8k16", (128, 128, 32), 8, stages=3)


def agrees(run: Shimmed, n: int, m: int, k: int, dtype: str = "float16", into: str = "float32") -> bool:
    a, b = operands((n, m, k), dtype)
    got = run("product", {"n": n, "m": m, "k": k}, {"A": a, "B": b}, (n, m))
    return np.array_equal(got, expected(a, b, into))


@pytest.mark.long
@pytest.mark.parametrize("made", [small, large])
def test_loop_has_one_barrier_and_one_wait(made: Callable[[], GpuKernel]) -> None:
    kernel = made()
    loop = kernel.source.split("for (index_t po")[1]
    assert loop.count("__syncthreads();") == 1
    assert loop.count("wait_for_copies<1>();") == 1
    assert loop.count("copy_async(&As[") == loop.count("copy_async(&Bs[") == 1
    report = races.report(kernel.kernels)
    assert report
    assert sum(pair.between == "copies" for pair in report.proved) == 10


@needs_compiler
@pytest.mark.long
def test_all_small_sizes_agree(tmp_path: Path) -> None:
    run = Shimmed(build([small().source], tmp_path), small().nest)
    for n, m, k in itertools.product((8, 40), (8, 24), (0, 8, 32, 72, 136)):
        assert agrees(run, n, m, k), (n, m, k)


@needs_compiler
@pytest.mark.long
@pytest.mark.thinned(11)
@pytest.mark.parametrize(
    ("dtype", "into", "instruction", "block", "stages"),
    [
        ("bfloat16", "float32", "mma_m16n8k16_bf16", (16, 16, 16), 2),
        ("int8", "int32", "mma_m16n8k32", (16, 16, 64), 4),
    ],
)
def test_other_types_agree(
    dtype: str, into: str, instruction: str, block: tuple[int, int, int], stages: int, tmp_path: Path
) -> None:
    made = kernel_by_warps(dtype, into, instruction, block, 1, stages=stages)
    run = Shimmed(build([made.source], tmp_path), made.nest)
    assert made.source.count("copy_async(&") == 4
    for sizes in ((16, 16, 64), (32, 48, 16), (16, 32, 208)):
        assert agrees(run, *sizes, dtype, into)


@pytest.mark.slow
def test_kernel_interpreter_agrees() -> None:
    a, b = operands((24, 8, 72), "float16")
    got = interpreter.run(small().kernels, {"n": 24, "m": 8, "k": 72}, {"A": a, "B": b})
    assert np.array_equal(got, expected(a, b, "float32"))


@needs_compiler
@pytest.mark.long
def test_shared_memory_has_no_bank_conflicts(tmp_path: Path) -> None:
    made = large()
    found = [
        each
        for each in counts(made.source, tmp_path, lambda library: agrees(Shimmed(library, made.nest), 128, 128, 128))
        if each.memory == "shared"
    ]
    assert [each.how for each in found].count("write") == 4
    assert sum(each.cost for each in found) == sum(each.fewest for each in found) == 4864
    plain = made.source.replace("(ro ^ (x + 4 * (y % 2)))", "ro")
    plain = plain.replace("((2 * pio + y / 4) ^ (2 * (y % 2) + x / 2))", "(2 * pio + y / 4)")
    assert plain != made.source
    conflicts = counts(plain, tmp_path, lambda library: agrees(Shimmed(library, made.nest), 128, 128, 128), "plain")
    assert any(each.conflicts for each in conflicts if each.memory == "shared")


@pytest.mark.sampled
@pytest.mark.skipif(NVCC is None, reason="nvcc is not installed: no kernel is compiled for a GPU here")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
def test_kernel_has_at_most_128_registers_without_spill(arch: str, tmp_path: Path) -> None:
    source, cubin = tmp_path / "product.cu", tmp_path / "product.cubin"
    source.write_text(large().source, encoding="utf-8")
    flags = ["-Werror", "all-warnings", "-Xptxas", "-v,-warn-spills,-warn-lmem-usage,-Werror", "-Xcompiler", "-Wall"]
    command = [str(NVCC), f"-arch={arch}", *flags, "-cubin", "-o", str(cubin), str(source)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    used = {
        entry: int(registers)
        for entry, registers in re.findall(r"entry function '(\w+)'.*?Used (\d+) registers", answer.stderr, re.DOTALL)
    }
    # With indices of 32 bits. For sm_90, ptxas of release 13.0 uses 161.
    assert min(used.values()) <= (128 if arch == "sm_80" else 168)
    for name, counted in opcodes(cubin.read_bytes()).items():
        assert name in used
        assert counted[HMMA] == 32
        assert counted[LDSM] == 34
        assert counted[COPY] == 12  # 4 for each of two rows before the loop, and 4 in it
        assert not counted[LOCAL_LOAD]
        assert not counted[LOCAL_STORE]


# -- planted faults ---------------------------------------------------------------------------------------------------

WAIT_THEN_BARRIER: Final = (
    "wait_for_copies<1>();\n        __syncthreads(); /* the next row that was filled ahead has arrived */\n"
)
BEFORE_LOOP: Final = WAIT_THEN_BARRIER.replace("        ", "    ")
ROW_OF_A: Final = "32 * io + 16 * to + 8 * tio + tiio"
FAULTS: Final[dict[str, tuple[str, str]]] = {
    "no barrier": (WAIT_THEN_BARRIER, "wait_for_copies<1>();\n"),
    "no wait": (WAIT_THEN_BARRIER, "__syncthreads();\n"),
    "a barrier before the wait": (WAIT_THEN_BARRIER, "__syncthreads();\n        wait_for_copies<1>();\n"),
    "no barrier before the loop": (BEFORE_LOOP, "wait_for_copies<1>();\n"),
    "no wait before the loop": (BEFORE_LOOP, "__syncthreads();\n"),
    "waits for one group fewer": ("wait_for_copies<1>", "wait_for_copies<2>"),
    "no group in the loop": ("commit_copies();\n        #pragma", "#pragma"),
    "reads the next row of A": ("128 * (po % 3)", "128 * ((po + 1) % 3)"),
    "reads the next row of B": ("64 * (po % 3)", "64 * ((po + 1) % 3)"),
    "fills another row of A": ("(po + 2) % 3 * 128", "(po + 3) % 3 * 128"),
    "fills another row of B": ("(po + 2) % 3 * 64", "(po + 1) % 3 * 64"),
    "two rows for three rounds": (" % 3", " % 2"),
    "one row ahead only": ("ahead < 2;", "ahead < 1;"),
    "copies beyond the last round": ("if (po + 2 < (k + 31) / 32)", "if (1)"),
    "another swizzle where A is read": ("(2 * (y % 2) + x / 2)", "(2 * (x % 2) + x / 2)"),
    "no swizzle where B is read": ("(y % 2 ^ ro)", "ro"),
    "another swizzle where A is copied": (f"&A[({ROW_OF_A}) * k +", f"&A[({ROW_OF_A}) * k + 8 * (tiio % 2) +"),
    "half of A twice": ("(2 * pio + y / 4)", "(2 * pio)"),
    "fragments of B exchanged": ("Bf + 4 * ro);", "Bf + 4 - 4 * ro);"),
    "rows of the result by the wrong thread": ("iiii = (index_t)threadIdx.y", "iiii = (index_t)threadIdx.x"),
    "columns of the result by the wrong thread": ("jiio = (index_t)", "jiio = 3 - (index_t)"),
    "copies A beyond its rows": (f"&& {ROW_OF_A} < n", ""),
    "copies A beyond its columns": ("8 * (tiii ^ tiio / 2) + 64 < k", "64 < k + 1000"),
    "copies B beyond its rows": ("2 * tio + tii / 2 + 64 < k", "64 < k + 1000"),
    "stores beyond the rows": ("&& 32 * io + 16 * iio + 8 * iiio + iiii < n", ""),
    "the tile of another warp": ("(64 * w + 4 * x", "(64 * (1 - w) + 4 * x"),
    "too few terms": ("pio < 2;", "pio < 1;"),
    "no zeros beyond the columns of A": ("(tiii ^ tiio / 2) + 64 < k", "(tiii ^ tiio / 2) + 64 < k + 8"),
    "copies not aligned": ("4 * tiio + tiii) * 8]", "4 * tiio + tiii) * 8 + 2]"),
    "one lane does not come": ("mma_m16n8k16(acc + 4", "if (threadIdx.x < 3) mma_m16n8k16(acc + 4"),
}


@needs_compiler
@pytest.mark.long
@pytest.mark.thinned(11)
@pytest.mark.parametrize("name", FAULTS)
def test_fault_in_the_derived_text_is_found(name: str, tmp_path: Path) -> None:
    old, new = FAULTS[name]
    assert old in small().source
    run = Shimmed(build([small().source.replace(old, new)], tmp_path), small().nest)
    try:
        right = [agrees(run, *sizes) for sizes in ((32, 16, 128), (40, 24, 136), (40, 24, 40))]
    except Finding:
        return
    assert not all(right)
