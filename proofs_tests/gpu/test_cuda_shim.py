"""Printed kernels on the shim: results agree with the programs, and every planted fault is found."""

import re
from collections.abc import Iterator
from dataclasses import dataclass, replace
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import pytest

import atl
from lowering import lower
from lowering.cuda.printer import print_cuda
from lowering.gpu.outlining import kernels
from proofs_tests.gpu.shim.run import COMPILER, Finding, Shimmed, build
from proofs_tests.gpu.test_gpu_kernels import SCHEDULES, agree, arrays_for, expected, same, scheduled


@dataclass(frozen=True, slots=True)
class Mutant:
    """A text with one fault: the kind of change and the changed line."""

    what: str
    line: str
    text: str


CHANGES: Final[tuple[tuple[str, str, str], ...]] = (
    ("a barrier is left out", r"__syncthreads\(\);", ";"),
    ("a bound is one too far", r" < ", " <= "),
    ("axes are exchanged", r"threadIdx\.x", "threadIdx.y"),
    ("axes are exchanged", r"threadIdx\.y", "threadIdx.x"),
    ("axes are exchanged", r"blockIdx\.x", "blockIdx.y"),
    ("an index is one off", r"(?<=\[)", "1 + "),
    ("a stride is changed", r"(?<=\* )(8|6|4|2)\b", "7"),
    ("a mask is narrowed", r"0xffffffffu", "0x7fffffffu"),
    ("a sum is a difference", r" \+= ", " -= "),
)


def mutants(source: str) -> Iterator[Mutant]:
    """Yield each change at each place in the kernels of a file and the functions that they call."""
    start, end = 0, source.rindex("/*", 0, source.index('extern "C"'))
    for what, pattern, by in CHANGES:
        for found in re.finditer(pattern, source[start:end]):
            at, until = start + found.start(), start + found.end()
            line = source[source.rfind("\n", 0, at) + 1 : source.find("\n", until)].strip()
            if _is_declaration(line):
                continue
            yield Mutant(what, line, source[:at] + by + source[until:])


def _is_declaration(line: str) -> bool:
    """Return whether the line declares an array; a larger extent is not a fault."""
    return line.startswith(("__shared__", "float acc", "static"))


pytestmark = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler: printed kernels are not run here")
BOUND, AXES = "a bound is one too far", "axes are exchanged"
ONE_MORE: Final = "the test in the loop fails in one more iteration"
LANE: Final = "const unsigned lane = (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32;"
LANES: Final = "const unsigned lane = thread % 32, left = threads - thread / 32 * 32, lanes = left < 32 ? left : 32;"
TILES: Final = "po < floor_div<index_t>((int64_t)A_pos[2 * io + ii + 1] - A_pos[2 * io + ii] + 31,"
BLOCKS: Final = ("row sums by blocks", "whole sum")

EQUIVALENT: Final[tuple[tuple[tuple[str, ...], str, str, str], ...]] = (
    (
        ("product", "product in lanes"),
        BOUND,
        "for (index_t po = 0; po < (k + 3) / 4; po++) {",
        "one more tile of zeros",
    ),
    (("blur",), BOUND, "+ (3 * yo + yi + 1 < n", "the row below the picture is zeros in shared memory"),
    (("blur",), BOUND, "for (index_t io = 0; io < 2; io++) {", "a condition excludes elements outside of the tile"),
    (("blur",), BOUND, "for (index_t jo = 0; jo < 2; jo++) {", "a condition excludes elements outside of the tile"),
    (BLOCKS, BOUND, LANES, "both cases give 32 where 32 are left"),
    (
        BLOCKS,
        BOUND,
        "if (lane + by < lanes)",
        "no later step passes the changed value of a whole warp to the first lane",
    ),
    (BLOCKS, BOUND, "for (index_t jo = 0; jo < (m + 63) / 64; jo++) {", ONE_MORE),
    (("whole sum",), BOUND, "for (index_t io = 0; io < (n + 63) / 64; io++) {", ONE_MORE),
    (("row sums by warps",), BOUND, "for (index_t jo = 0; jo < (m + 31) / 32; jo++) {", ONE_MORE),
    (
        ("softmax by warps",),
        BOUND,
        "for (index_t jo = 0; jo < (m + 31) / 32; jo++) {",
        f"{ONE_MORE}; max is idempotent",
    ),
    (("softmax by warps",), BOUND, "return a < b ? a : b;", "a choice between equal numbers"),
    (
        ("row sums by warps", "softmax by warps", "sparse rows by warps"),
        AXES,
        LANE,
        "a whole warp has all lanes in the mask",
    ),
    (("sparse rows by warps",), BOUND, TILES, ONE_MORE),
    (
        ("steps in blocks",),
        BOUND,
        "for (index_t s = 1; s < T + 1; s++) {",
        "one more state replaces the state before the last",
    ),
    (("steps in blocks", "steps by launches"), BOUND, "if (s < 2) {", "the border is copied to each of two rows again"),
    (
        ("steps in blocks",),
        "a stride is changed",
        "states[s % 2 * 8 + i] = states[(s + 1) % 2 * 8 + i];",
        "only row 0 is read, since s is 1",
    ),
)
"""Equivalent mutants: schedules, fault, line, and the reason."""

FOUND_AT_LEAST: Final = 4


@lru_cache
def meant(name: str) -> tuple[tuple[dict[str, int], dict[str, Any], Any], ...]:
    """Return the sizes, arguments and expected results of a schedule."""
    goal, _ = scheduled(name)
    arrays = [(sizes, arrays_for(goal, sizes)) for sizes in SCHEDULES[name][1]]
    return tuple((sizes, held, expected(goal, sizes, held)) for sizes, held in arrays)


def renamed(source: str, name: str, new: str) -> str:
    """Rename the function of a text and its kernels."""
    return re.sub(rf"\b{name}(_\d+)?\b", lambda found: f"{new}{found.group(1) or ''}", source)


def fault(run: Shimmed, function: str, name: str) -> str:
    """Return the fault of a kernel, or an empty string."""
    for sizes, arrays, want in meant(name):
        try:
            got = run(function, sizes, arrays, want.shape)
        except Finding as finding:
            return str(finding)
        if not same(scheduled(name)[0], got, want):
            return "another result"
    return ""


@pytest.mark.long
def test_printed_kernels_agree_with_their_programs(tmp_path: Path) -> None:
    texts = {f"kernel{number}": name for number, name in enumerate(SCHEDULES)}
    nests = {name: scheduled(name)[1].nest for name in SCHEDULES}
    sources = [renamed(print_cuda(scheduled(name)[1]), nests[name].name, new) for new, name in texts.items()]
    library = build(sources, tmp_path)
    for new, name in texts.items():
        assert fault(Shimmed(library, nests[name]), new, name) == ""


@pytest.mark.long
@pytest.mark.thinned(11)
@pytest.mark.parametrize("name", SCHEDULES)
def test_every_fault_in_a_printed_kernel_is_found(name: str, tmp_path: Path) -> None:
    nest = scheduled(name)[1].nest
    planted: list[Mutant] = list(mutants(print_cuda(scheduled(name)[1])))
    library = build([renamed(mutant.text, nest.name, f"mutant{at}") for at, mutant in enumerate(planted)], tmp_path)
    not_found = [
        (mutant.what, mutant.line)
        for at, mutant in enumerate(planted)
        if not fault(Shimmed(library, nest), f"mutant{at}", name)
    ]
    assert {*not_found} == {(what, line) for names, what, line, _ in EQUIVALENT if name in names}
    assert len(planted) - len(not_found) >= FOUND_AT_LEAST


@pytest.mark.long
def test_findings_of_the_shim_are_reported(tmp_path: Path) -> None:
    _, held = scheduled("transpose")
    source = print_cuda(held)
    planted = {
        "shared memory is read, and holds nothing": source.replace("__syncthreads();", ";"),
        "global memory is written while another thread": source.replace("out[", "out[0 * "),
        "an access outside of all arrays": source.replace("out[", "out[1000000 + "),
        "a product overflows": source.replace("8 * io + ii < n", "(ii + 2) * INT64_MAX < n"),
        "bytes of the output hold nothing": source.replace("8 * io + ii < n", "8 * io + ii < n - 1"),
    }
    texts = [renamed(text, held.nest.name, f"planted{at}") for at, text in enumerate(planted.values())]
    library = build(texts, tmp_path)
    for at, message in enumerate(planted):
        assert message in fault(Shimmed(library, held.nest), f"planted{at}", "transpose"), message


TWICE: Final = """
f (x : float32[n, 48]) : float32[n] :=
  ⊞[i < n | block.x]
    let a | registers := max[j < 48 | thread.x] x[i, j] in
    let b | registers := Σ[j < 48 | thread.x] a * x[i, j] in
    (Σ[q < 3] Σ[j < 48 | thread.x] b - x[i, j]) + a
"""


@pytest.mark.long
def test_consecutive_reductions_wait_for_each_other(tmp_path: Path) -> None:
    program = atl.parse(TWICE)
    held = kernels(lower(program, target="cuda"))
    source = print_cuda(held)
    called = source[source.index("__global__") :]
    first, second, third = called.split("__syncthreads();")  # the maximum has separate shared memory
    texts = [called, f"{first};{second}__syncthreads();{third}", f"{first}__syncthreads();{second};{third}"]
    helpers = source[: -len(called)]
    library = build([renamed(helpers + text, "f", f"f{at}") for at, text in enumerate(texts)], tmp_path)
    agree(held, replace(program, name="f0"), {"n": 3}, library)
    arrays, shape = arrays_for(program, {"n": 3}), (3,)
    for at in (1, 2):
        with pytest.raises(Finding, match="without a barrier"):
            Shimmed(library, held.nest)(f"f{at}", {"n": 3}, arrays, shape)


@pytest.mark.long
def test_index_outside_of_the_registers_is_found(tmp_path: Path) -> None:
    _, held = scheduled("product")
    source = print_cuda(held).replace("acc[iii * 4 + jii] +=", "acc[iii * 4 + jii + 1] +=")
    library = build([source], tmp_path)
    message = "a pointer to nothing, not aligned, or beyond its object"
    assert message in fault(Shimmed(library, held.nest), "product", "product")


CHAIN: Final = """
chain (x : float32[n]) : float32[n] :=
  let t := ⊞[i < n | block.x] 2 * x[i] in
  let u := ⊞[i < n | block.x] t[i] + 1 in
  ⊞[i < n | block.x] u[i] * u[i]
"""


def test_tensors_between_launches_have_separate_memory(tmp_path: Path) -> None:
    program = atl.parse(CHAIN)
    held = kernels(lower(program, target="cuda"))
    library = build([print_cuda(held)], tmp_path)
    for n in (0, 1, 5):
        agree(held, program, {"n": n}, library)
