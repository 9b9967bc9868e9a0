"""Shipped kernels under nvcc, where installed: no warning, no spill, and the expected resources."""

import re
import shutil
import subprocess
from functools import lru_cache
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Final, NamedTuple

import pytest

from proofs_tests.gpu.test_cuda_shim import renamed
from proofs_tests.gpu.test_cuda_text import SHIPPED, kernel

NVCC: Final = shutil.which("nvcc")
RELEASE: Final = "release 13.0"
"""Release of nvcc to which the numbers of registers apply."""


class Used(NamedTuple):
    """Resources of a kernel with 32-bit indices on sm_90, from ptxas and its PTX."""

    registers: int
    barriers: int
    shared: int
    wide_loads: int = 0
    wide_stores: int = 0


USED: Final[dict[str, list[Used]]] = {
    "product": [Used(167, 1, 32768, 4, 16)],
    "product of any sizes": [Used(67, 1, 8192)],
    "transpose": [Used(30, 1, 4224)],
    "blur": [Used(22, 1, 1360)],
    "row sums by blocks": [Used(26, 1, 128)],
    "row sums by warps": [Used(24, 0, 0)],
    "softmax by warps": [Used(29, 0, 0)],
    "whole sum": [Used(26, 1, 128), Used(25, 1, 128)],
    "sparse rows by threads": [Used(32, 0, 0)],
    "sparse rows by warps": [Used(32, 0, 0)],
    "convolution": [Used(32, 0, 0)],
    "steps by launches": [Used(10, 0, 0), Used(16, 0, 0), Used(10, 0, 0)],
    "steps in blocks": [Used(20, 1, 1024)],
}


@lru_cache
def compiled() -> tuple[str, str]:
    """Compile all kernels as one text, to parse CUDA's headers once; return nvcc's messages and the PTX of sm_90."""
    texts = (renamed(kernel(name).source, kernel(name).nest.name, f"kernel{at}") for at, name in enumerate(SHIPPED))
    source = "".join(f"namespace text_{at} {{\n{text}}}\n" for at, text in enumerate(texts))
    flags = ["-Werror", "all-warnings", "-Xptxas", "-v,-warn-spills,-warn-lmem-usage,-Werror", "-Xcompiler", "-Wall"]
    targets = [flag for arch in ("80", "90") for flag in ("-gencode", f"arch=compute_{arch},code=sm_{arch}")]
    with TemporaryDirectory() as folder:
        file = Path(folder) / "kernels.cu"
        # Outside of all namespaces; the texts do not include them again.
        file.write_text(f"#include <math.h>\n#include <stdint.h>\n{source}", encoding="utf-8")
        kept = ["--keep", "--keep-dir", folder]
        command = [str(NVCC), *flags, *targets, *kept, "-c", "-o", str(file.with_suffix(".o")), str(file)]
        answer = subprocess.run(command, capture_output=True, text=True, check=False)
        assert answer.returncode == 0, answer.stderr
        (ptx,) = (made.read_text(encoding="utf-8") for made in Path(folder).glob("*compute_90.ptx"))
    return answer.stderr, ptx


@pytest.mark.long
@pytest.mark.skipif(NVCC is None, reason="nvcc is not installed: no kernel is compiled for a GPU here")
@pytest.mark.thinned(3)
@pytest.mark.parametrize("name", SHIPPED)
def test_shipped_kernel_compiles_without_warnings_or_spills(name: str) -> None:
    messages, ptx = compiled()
    own = f"kernel{list(SHIPPED).index(name)}_"
    message = {
        (entry, arch): text
        for entry, arch, text in re.findall(
            r"Compiling entry function '(\w+)' for '(sm_\d+)'(.*?)Compile time", messages, re.DOTALL
        )
        if own in entry
    }
    assert len(message) == len(USED[name]) * 2 * len({_type_of(entry) for entry, _ in message})
    assert all("0 bytes stack frame, 0 bytes spill stores, 0 bytes spill loads" in text for text in message.values())
    narrow = sorted(entry for entry, arch in message if arch == "sm_90" and _type_of(entry) != "l")
    found = [_used(entry, message[entry, "sm_90"], ptx) for entry in narrow]
    if RELEASE not in subprocess.run([str(NVCC), "--version"], capture_output=True, text=True, check=True).stdout:
        found = [used._replace(registers=golden.registers) for used, golden in zip(found, USED[name], strict=True)]
    assert found == USED[name]


def _type_of(entry: str) -> str:
    """Return the index type in the name of an entry: i for 32 bits, l for 64, and nothing without indices."""
    found = re.search(r"kernel\d+_\d+I([il])E", entry)
    return found[1] if found else ""


def _used(entry: str, message: str, ptx: str) -> Used:
    numbers = {word: int(number) for number, word in re.findall(r"(\d+) (registers|barriers|bytes smem)", message)}
    body = ptx[ptx.index(f".entry {entry}(") :].partition("\n}")[0]
    loads, stores = (len(re.findall(rf"\b{how}\.global[.a-z]*\.v[24]\.", body)) for how in ("ld", "st"))
    return Used(numbers["registers"], numbers.get("barriers", 0), numbers.get("bytes smem", 0), loads, stores)


def test_resources_are_parsed_from_the_messages_of_nvcc() -> None:
    entry = "_ZN6text_77kernel7_0IiEvPfT_"
    assert [_type_of(name) for name in (entry, entry.replace("Ii", "Il"), "_ZN6text_77kernel7_0Ev")] == ["i", "l", ""]
    message = "Used 29 registers, used 1 barriers, 128 bytes smem"
    body = "ld.global.nc.v4.f32 {}; st.global.v2.f32 {}; ld.global.f32 x;"
    ptx = f".entry {entry}(\n  {body}\n}}\n.entry another(\n  st.global.v4.f32 {{}};\n}}\n"
    assert _used(entry, message, ptx) == Used(29, 1, 128, 1, 1)
