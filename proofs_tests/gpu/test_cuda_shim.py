"""Printed kernels run without a GPU: they compute what they mean, and every fault planted in their text is found."""

from __future__ import annotations

import re
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import atl
from lowering import lower
from lowering.cuda.printer import print_cuda
from lowering.gpu.outlining import kernels
from proofs_tests.gpu.shim.mutants import Mutant, mutants
from proofs_tests.gpu.shim.run import COMPILER, Finding, Shimmed, build
from proofs_tests.gpu.test_gpu_kernels import SCHEDULES, arrays_for, same, scheduled

pytestmark = pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler: no printed kernel is run here")


EQUAL: Final[dict[tuple[str, str, str], str]] = {
    ("product", "a bound is one too far", "for (index_t po = 0; po < (k + 3) / 4; po++) {"): "one more tile of zeros",
    (
        "product in lanes",
        "a bound is one too far",
        "for (index_t po = 0; po < (k + 3) / 4; po++) {",
    ): "one more tile of zeros",
    ("blur", "a bound is one too far", "+ (3 * yo + yi + 1 < n"): "the row below the picture is zeros in shared memory",
    (
        "row sums by blocks",
        "a bound is one too far",
        "const unsigned lane = thread % 32, left = threads - thread / 32 * 32, lanes = left < 32 ? left : 32;",
    ): "both cases give 32 where 32 are left",
    (
        "row sums by blocks",
        "a bound is one too far",
        "if (lane + by < lanes)",
    ): "in a whole warp it changes what no later step hands to the first lane",
    (
        "row sums by blocks",
        "a bound is one too far",
        "for (index_t jo = 0; jo < (m + 63) / 64; jo++) {",
    ): "the test in the loop fails in one more iteration",
    (
        "whole sum",
        "a bound is one too far",
        "const unsigned lane = thread % 32, left = threads - thread / 32 * 32, lanes = left < 32 ? left : 32;",
    ): "both cases give 32 where 32 are left",
    (
        "whole sum",
        "a bound is one too far",
        "if (lane + by < lanes)",
    ): "in a whole warp it changes what no later step hands to the first lane",
    (
        "whole sum",
        "a bound is one too far",
        "for (index_t jo = 0; jo < (m + 63) / 64; jo++) {",
    ): "the test in the loop fails in one more iteration",
    (
        "whole sum",
        "a bound is one too far",
        "for (index_t io = 0; io < (n + 63) / 64; io++) {",
    ): "the test in the loop fails in one more iteration",
    (
        "row sums by warps",
        "a bound is one too far",
        "for (index_t jo = 0; jo < (m + 31) / 32; jo++) {",
    ): "the test in the loop fails in one more iteration",
    (
        "row sums by warps",
        "axes are exchanged",
        "const unsigned lane = (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32;",
    ): "of a whole warp, all lanes are in the mask, whichever asks",
    (
        "softmax by warps",
        "a bound is one too far",
        "for (index_t jo = 0; jo < (m + 31) / 32; jo++) {",
    ): "the test in the loop fails in one more iteration, and a maximum takes its last term once more",
    (
        "softmax by warps",
        "a bound is one too far",
        "return a < b ? a : b;",
    ): "it chooses between equal numbers",
    (
        "softmax by warps",
        "axes are exchanged",
        "const unsigned lane = (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32;",
    ): "of a whole warp, all lanes are in the mask, whichever asks",
    (
        "sparse rows by warps",
        "axes are exchanged",
        "const unsigned lane = (threadIdx.x + blockDim.x * (threadIdx.y + blockDim.y * threadIdx.z)) % 32;",
    ): "of a whole warp, all lanes are in the mask, whichever asks",
    (
        "sparse rows by warps",
        "a bound is one too far",
        "po < floor_div<index_t>((int64_t)A_pos[2 * io + ii + 1] - A_pos[2 * io + ii] + 31,",
    ): "the test in the loop fails in one more iteration",
    (
        "blur",
        "a bound is one too far",
        "for (index_t io = 0; io < 2; io++) {",
    ): "what sticks out of the tile is left out by a condition",
    (
        "blur",
        "a bound is one too far",
        "for (index_t jo = 0; jo < 2; jo++) {",
    ): "what sticks out of the tile is left out by a condition",
}
"""Faults that change nothing, with the reason."""

FOUND_AT_LEAST: Final = 4


@lru_cache
def meant(name: str) -> tuple[tuple[dict[str, int], dict[str, Any], Any], ...]:
    """What a schedule computes, at each of its sizes."""
    goal, _ = scheduled(name)
    arrays = [(sizes, arrays_for(goal, sizes)) for sizes in SCHEDULES[name][1]]
    return tuple((sizes, held, atl.evaluate(goal, **held)) for sizes, held in arrays)


def renamed(source: str, name: str, new: str) -> str:
    """The text with another name for its function, and for its kernels."""
    return re.sub(rf"\b{name}(_\d+)?\b", lambda found: f"{new}{found.group(1) or ''}", source)


def says(run: Shimmed, function: str, name: str) -> str:
    """What is wrong with a kernel, if anything is."""
    for sizes, arrays, want in meant(name):
        try:
            got = run(function, sizes, arrays, want.shape)
        except Finding as finding:
            return str(finding)
        if not same(scheduled(name)[0], got, want):
            return "another result"
    return ""


@pytest.mark.long
def test_printed_kernels_compute_what_their_programs_mean(tmp_path: Path) -> None:
    texts = {f"kernel{number}": name for number, name in enumerate(SCHEDULES)}
    nests = {name: scheduled(name)[1].nest for name in SCHEDULES}
    sources = [renamed(print_cuda(scheduled(name)[1]), nests[name].name, new) for new, name in texts.items()]
    library = build(sources, tmp_path)
    for new, name in texts.items():
        assert says(Shimmed(library, nests[name]), new, name) == ""


@pytest.mark.long
@pytest.mark.thinned(2)
@pytest.mark.parametrize("name", SCHEDULES)
def test_every_fault_in_a_printed_kernel_is_found(name: str, tmp_path: Path) -> None:
    nest = scheduled(name)[1].nest
    planted: list[Mutant] = list(mutants(print_cuda(scheduled(name)[1])))
    library = build([renamed(mutant.text, nest.name, f"mutant{at}") for at, mutant in enumerate(planted)], tmp_path)
    not_found = [
        (name, mutant.what, mutant.line)
        for at, mutant in enumerate(planted)
        if not says(Shimmed(library, nest), f"mutant{at}", name)
    ]
    assert {*not_found} == {fault for fault in EQUAL if fault[0] == name}
    assert len(planted) - len(not_found) >= FOUND_AT_LEAST


@pytest.mark.long
def test_what_the_shim_looks_at_is_told_with_the_thread(tmp_path: Path) -> None:
    goal, held = scheduled("transpose")
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
    for at, said in enumerate(planted):
        assert said in says(Shimmed(library, held.nest), f"planted{at}", "transpose"), (said, goal.name)


TWICE: Final = """
f (x : float32[n, 48]) : float32[n] :=
  ⊞[i < n | block.x]
    let a | registers := max[j < 48 | thread.x] x[i, j] in
    let b | registers := Σ[j < 48 | thread.x] a * x[i, j] in
    (Σ[q < 3] Σ[j < 48 | thread.x] b - x[i, j]) + a
"""


@pytest.mark.long
def test_folds_one_after_the_other_wait_for_each_other(tmp_path: Path) -> None:
    program = atl.parse(TWICE)
    held = kernels(lower(program, target="cuda"))
    source = print_cuda(held)
    called = source[source.index("__global__") :]
    first, second, third = called.split("__syncthreads();")  # that of the maximum has shared memory of its own
    texts = [called, f"{first};{second}__syncthreads();{third}", f"{first}__syncthreads();{second};{third}"]
    helpers = source[: -len(called)]
    library = build([renamed(helpers + text, "f", f"f{at}") for at, text in enumerate(texts)], tmp_path)
    arrays = arrays_for(program, {"n": 3})
    want = atl.evaluate(program, **arrays)
    assert np.array_equal(Shimmed(library, held.nest)("f0", {"n": 3}, arrays, want.shape), want)
    for at in (1, 2):
        with pytest.raises(Finding, match="without a barrier"):
            Shimmed(library, held.nest)(f"f{at}", {"n": 3}, arrays, want.shape)


@pytest.mark.long
def test_an_index_outside_of_the_registers_of_a_thread_is_found(tmp_path: Path) -> None:
    _, held = scheduled("product")
    source = print_cuda(held).replace("acc[iii * 4 + jii] +=", "acc[iii * 4 + jii + 1] +=")
    library = build([source], tmp_path)
    said = says(Shimmed(library, held.nest), "product", "product")
    assert "a pointer to nothing, not aligned, or beyond its object" in said


CHAIN: Final = """
chain (x : float32[n]) : float32[n] :=
  let t := ⊞[i < n | block.x] 2 * x[i] in
  let u := ⊞[i < n | block.x] t[i] + 1 in
  ⊞[i < n | block.x] u[i] * u[i]
"""


def test_tensors_between_launches_have_memory_of_their_own(tmp_path: Path) -> None:
    program = atl.parse(CHAIN)
    held = kernels(lower(program, target="cuda"))
    library = build([print_cuda(held)], tmp_path)
    for n in (0, 1, 5):
        arrays = arrays_for(program, {"n": n})
        want = atl.evaluate(program, **arrays)
        assert np.array_equal(Shimmed(library, held.nest)("chain", {"n": n}, arrays, want.shape), want)
