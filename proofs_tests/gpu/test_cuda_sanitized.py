"""Printed kernels under the address and undefined-behaviour sanitizers, independent of the shim's own checks."""

from __future__ import annotations

import re
from typing import Final

import pytest

from lowering.cuda.printer import print_cuda
from lowering.nest.loopnest import LoopNest
from proofs_tests.gpu.shim.run import Finding
from proofs_tests.gpu.shim.sanitized import Sanitized, build, has_sanitizers
from proofs_tests.gpu.test_cuda_shim import renamed
from proofs_tests.gpu.test_gpu_kernels import SCHEDULES, arrays_for, expected, same, scheduled

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
