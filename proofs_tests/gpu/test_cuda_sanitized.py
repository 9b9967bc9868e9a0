"""Printed kernels under the address and undefined-behaviour sanitizers, which know nothing of what the shim sees."""

from __future__ import annotations

import re
from typing import Final

import pytest

import atl
from lowering.cuda.printer import print_cuda
from proofs_tests.gpu.shim.run import Finding
from proofs_tests.gpu.shim.sanitized import Sanitized, build, has_sanitizers
from proofs_tests.gpu.test_cuda_shim import renamed
from proofs_tests.gpu.test_gpu_kernels import SCHEDULES, arrays_for, same, scheduled

pytestmark = pytest.mark.skipif(not has_sanitizers(), reason="the sanitizers of a C++ compiler are not installed")

BEYOND: Final = "out of bounds|buffer-overflow|insufficient space"
PLANTED: Final = {
    "an array in global memory": ("transpose", r"A\[", "A[1 + ", "heap-buffer-overflow"),
    "an array in shared memory": ("transpose", r"= tile\[", "= tile[1000 + ", BEYOND),
    "registers of a thread": ("product", r"acc\[(.*)\] \+=", r"acc[\1 + 1] +=", BEYOND),
    "an index that overflows": ("transpose", r"8 \* io \+ ii < n", "(ii + 2) * INT64_MAX < n", "integer overflow"),
}
"""A schedule, what is changed in its text, and what a sanitizer says of it."""


@pytest.fixture(scope="module")
def program(tmp_path_factory: pytest.TempPathFactory) -> Sanitized:
    texts = []
    for number, name in enumerate(SCHEDULES):
        _, held = scheduled(name)
        texts.append((f"kernel{number}", renamed(print_cuda(held), held.nest.name, f"kernel{number}"), held.nest))
    return build(texts, tmp_path_factory.mktemp("sanitized"))


@pytest.fixture(scope="module")
def planted(tmp_path_factory: pytest.TempPathFactory) -> Sanitized:
    texts = []
    for number, (name, before, after, _) in enumerate(PLANTED.values()):
        _, held = scheduled(name)
        source = print_cuda(held)
        assert re.search(before, source), (name, before)
        texts.append(
            (f"planted{number}", renamed(re.sub(before, after, source), held.nest.name, f"planted{number}"), held.nest)
        )
    return build(texts, tmp_path_factory.mktemp("sanitized"))


@pytest.mark.long
@pytest.mark.parametrize("name", SCHEDULES)
def test_a_printed_kernel_computes_what_it_means_and_nothing_is_found(name: str, program: Sanitized) -> None:
    goal, held = scheduled(name)
    function = f"kernel{list(SCHEDULES).index(name)}"
    for sizes in SCHEDULES[name][1]:
        arrays = arrays_for(goal, sizes)
        want = atl.evaluate(goal, **arrays)
        assert same(goal, program(held.nest, function, sizes, arrays, want.shape), want)


@pytest.mark.sampled
@pytest.mark.parametrize("what", PLANTED)
def test_a_planted_fault_is_found(what: str, planted: Sanitized) -> None:
    name, _, _, said = PLANTED[what]
    goal, held = scheduled(name)
    sizes = SCHEDULES[name][1][0]
    arrays = arrays_for(goal, sizes)
    shape = atl.evaluate(goal, **arrays).shape
    with pytest.raises(Finding, match=said):
        planted(held.nest, f"planted{list(PLANTED).index(what)}", sizes, arrays, shape)
