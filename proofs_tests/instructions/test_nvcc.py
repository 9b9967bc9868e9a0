"""Products by tensor cores under nvcc, where installed: no warning, no spill, and the instructions of the tile."""

import re
import shutil
import struct
import subprocess
from collections import Counter
from pathlib import Path
from typing import Any, Final

import pytest

from proofs_tests.instructions.products import kernel_by_warps

NVCC: Final = shutil.which("nvcc")

HMMA, IMMA, LOCAL_LOAD, LOCAL_STORE = 0x23C, 0x237, 0x983, 0x387
"""Opcodes of machine instructions of sm_80 and sm_90, as nvdisasm shows them with -hex: the low 12 bits."""

TILES: Final[dict[str, tuple[tuple[Any, ...], int, int]]] = {
    "float16": (("float16", "float32", "mma_m16n8k16", (128, 128, 32), 8), HMMA, 32),
    "bfloat16": (("bfloat16", "float32", "mma_m16n8k16_bf16", (64, 32, 16), 2), HMMA, 8),
    "int8": (("int8", "int32", "mma_m16n8k32", (64, 64, 64), 4), IMMA, 16),
}
"""The arguments of the schedule, and the instructions of a warp in a round: those that cover its part of the tile."""


def opcodes(cubin: bytes) -> dict[str, Counter[int]]:
    """Count the opcodes of each kernel of a cubin, an ELF file: an instruction has 16 bytes."""
    (table,) = struct.unpack_from("<Q", cubin, 0x28)
    size, count, names = struct.unpack_from("<HHH", cubin, 0x3A)
    sections = [struct.unpack_from("<IIQQQQ", cubin, table + at * size) for at in range(count)]
    texts = sections[names][4]
    found: dict[str, Counter[int]] = {}
    for name, _, _, _, start, length in sections:
        called = cubin[texts + name : cubin.index(b"\0", texts + name)].decode()
        if called.startswith(".text."):
            words = (struct.unpack_from("<Q", cubin, start + at)[0] for at in range(0, length, 16))
            found[called.removeprefix(".text.")] = Counter(word & 0xFFF for word in words)
    return found


@pytest.mark.long
@pytest.mark.skipif(NVCC is None, reason="nvcc is not installed: no kernel is compiled for a GPU here")
@pytest.mark.parametrize("arch", ["sm_80", "sm_90"])
@pytest.mark.parametrize("name", TILES)
def test_round_has_the_instructions_of_the_tile(name: str, arch: str, tmp_path: Path) -> None:
    arguments, opcode, count = TILES[name]
    source, cubin = tmp_path / "product.cu", tmp_path / "product.cubin"
    source.write_text(kernel_by_warps(*arguments).source, encoding="utf-8")
    flags = ["-Werror", "all-warnings", "-Xptxas", "-v,-warn-spills,-warn-lmem-usage,-Werror", "-Xcompiler", "-Wall"]
    command = [str(NVCC), f"-arch={arch}", *flags, "-cubin", "-o", str(cubin), str(source)]
    answer = subprocess.run(command, capture_output=True, text=True, check=False)
    assert answer.returncode == 0, answer.stderr
    assert set(re.findall(r"(\d+) bytes spill stores", answer.stderr)) == {"0"}
    kernels = opcodes(cubin.read_bytes())
    assert len(kernels) == 2  # with indices of 32 and of 64 bits
    for counted in kernels.values():
        assert counted[opcode] == count
        assert not counted[LOCAL_LOAD]
        assert not counted[LOCAL_STORE]
