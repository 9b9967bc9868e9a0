"""The emulated systolic core: values and cycles of programs and of single instructions, and what is refused."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import cache
from itertools import product
from typing import Any

import numpy as np
import pytest

import atl
from atl.core.marks import LetMark
from atl.errors import NoInstruction
from examples import systolic
from lowering.core.emulator import At, Core, Issued
from lowering.core.kernel import CoreKernel
from lowering.instructions.systolic import INSTRUCTIONS, MEMORIES, CoreMemory
from lowering.nest.interpreter import run
from proofs_tests.sampling import few_and_rest

SMALL = (5, 9, 7)
"""Tiles that small matrices fill several times."""


@cache
def compiled(rows: int, columns: int, terms: int) -> CoreKernel:
    kernel = atl.compile(systolic.product(rows, columns, terms).goal, target="systolic")
    assert isinstance(kernel, CoreKernel)
    return kernel


def matrices(random: np.random.Generator, n: int, k: int, m: int) -> tuple[np.ndarray, np.ndarray]:
    return random.integers(-4, 5, (n, k)).astype("float32"), random.integers(-4, 5, (k, m)).astype("float32")


def check_product(kernel: CoreKernel, most: tuple[int, int, int], number: int) -> None:
    random = np.random.default_rng(number)
    n, k, m = (int(random.integers(0, each)) for each in most)
    a, b = matrices(random, n, k, m)
    assert np.array_equal(kernel(a, b), a @ b), (n, k, m)


@pytest.mark.parametrize("numbers", few_and_rest(120))
def test_ragged_products(numbers: range) -> None:
    for number in numbers:
        check_product(compiled(*SMALL), (17, 17, 21), number)


@pytest.mark.slow
def test_ragged_products_in_the_largest_tiles() -> None:
    for number in range(500):
        check_product(compiled(128, 512, 128), (400, 400, 1200), number)


@pytest.mark.long
def test_a_product_is_derived_in_eight_calls_and_takes_767_cycles_for_a_tile() -> None:
    assert len(systolic.product().steps) == 8
    kernel = compiled(128, 512, 128)
    a, b = matrices(np.random.default_rng(1), 128, 128, 512)
    assert np.array_equal(kernel(a, b), a @ b)
    assert kernel.cycles == {
        "systolic_clear": 2 * 512 + 128, "systolic_load": 128 + 512, "systolic_product": 767, "systolic_store": 512
    }  # fmt: skip
    assert len(kernel.instructions(n=300, k=129, m=513)) == 3 * 2 * (2 + 2 * 5)


@pytest.mark.long
def test_scores_of_attention() -> None:
    kernel = systolic.scores(*SMALL).compile(target="systolic")
    q, k = matrices(np.random.default_rng(2), 12, 10, 11)
    assert np.array_equal(kernel(q, np.ascontiguousarray(k.T)), q @ k)


@pytest.mark.long
def test_product_of_three_keeps_its_tiles_on_the_core() -> None:
    kernel = systolic.chain(*SMALL).compile(target="systolic")
    assert isinstance(kernel, CoreKernel)
    random = np.random.default_rng(4)
    for n, k, inner, m in ((12, 10, 11, 13), (5, 7, 7, 9), (1, 1, 1, 1), (6, 0, 3, 2), (3, 2, 0, 4)):
        a, b = matrices(random, n, k, inner)
        c, _ = matrices(random, inner, m, 1)
        assert np.array_equal(kernel(a, b, c), a @ b @ c), (n, k, inner, m)
    moved = [each for each in kernel.instructions(n=12, k=10, l=11, m=13) if each.name == "systolic_move"]
    assert len(moved) == 3 * 2 * 2  # tiles of the result, and of the terms of the second product


def test_operand_in_the_accumulator_is_refused() -> None:
    s = systolic.chain(*SMALL)
    with pytest.raises(NoInstruction, match="no instruction of the core stores in first in the accumulator"):
        s.mark("first", "accumulator").compile(target="systolic")


def test_the_loops_of_instructions_compute_the_same() -> None:
    a, b = matrices(np.random.default_rng(3), 7, 8, 10)
    found = run(compiled(*SMALL).nest, {"n": 7, "k": 8, "m": 10}, {"A": a, "B": b})
    assert np.array_equal(found, a @ b)


def check_instruction(sizes: tuple[int, ...], name: str, execute: Callable[[Core, Issued], None]) -> bool:
    """Execute one instruction, and return whether its result and everything around it are as declared."""
    declared = next(each for each in INSTRUCTIONS if each.name == name)
    random = np.random.default_rng(sum(sizes))
    named = dict(zip(declared.program.sizes, sizes, strict=True))
    if name == "systolic_product":
        k, m, n = (named[each] for each in "kmn")
        shapes = {"out": (m, n), "a": (k, m), "b": (k, n)}
    else:
        shapes = dict.fromkeys(("out", "a"), (named["p"], named["f"]))
    core = Core(
        {each: np.full(200, np.nan, np.float32) for each in shapes}, dict.fromkeys(MEMORIES, CoreMemory(16, 64))
    )
    operands: list[At] = []
    inputs: dict[str, Any] = {}
    for number, (each, shape) in enumerate(shapes.items()):
        memory = declared.memories.get(each)
        at = At(each, memory, 1 + number, 3 + 8 * number, 5, (9, 1) if number else (1, 7))
        operands.append(at)
        values = random.integers(-4, 5, shape).astype("float32")
        if each != "out":
            inputs[each] = values
        if each != "out" or memory is LetMark.ACCUMULATOR:
            place(core, at, shape)[...] = values
    before = place(core, operands[0], shapes["out"]).copy()
    result = np.asarray(atl.evaluate(declared.program, **inputs))
    wanted = before + result if name == "systolic_product" else result
    written = sum(int(np.isfinite(memory).sum()) for memory in (*core.memories.values(), *core.main.values()))
    execute(core, Issued(name, tuple(operands), tuple(named[each] for each in declared.program.sizes)))
    found = place(core, operands[0], shapes["out"])
    after = sum(int(np.isfinite(memory).sum()) for memory in (*core.memories.values(), *core.main.values()))
    stored = 0 if name == "systolic_product" else found.size
    return np.array_equal(found, wanted) and after == written + stored


def place(core: Core, at: At, shape: tuple[int, ...]) -> np.ndarray:
    if at.memory is None:
        memory = core.main[at.name]
        strides = tuple(4 * each for each in at.strides)
        return np.lib.stride_tricks.as_strided(memory[at.address :], shape, strides)
    return core.memories[at.memory][at.partition : at.partition + shape[0], at.free : at.free + shape[1]]


@pytest.mark.parametrize("name", [each.name for each in INSTRUCTIONS])
def test_instructions_agree_with_their_programs(name: str) -> None:
    count = 3 if name == "systolic_product" else 2
    for sizes in product(range(1, 7), repeat=count):
        assert check_instruction(sizes, name, Core.execute), sizes


def altered(position: int, **change: int | tuple[int, ...]) -> Callable[[Issued], Issued]:
    def fault(issued: Issued) -> Issued:
        operands = list(issued.operands)
        operands[position] = replace(operands[position], **change)  # type: ignore[arg-type]
        return replace(issued, operands=tuple(operands))

    return fault


FAULTS: dict[str, tuple[str, Callable[[Issued], Issued]]] = {
    "first partition of a factor": ("systolic_product", altered(1, partition=0)),
    "first element of a factor": ("systolic_product", altered(2, free=18)),
    "factors exchanged": (
        "systolic_product",
        lambda issued: replace(issued, operands=(issued.operands[0], *issued.operands[:0:-1])),
    ),
    "one term fewer": ("systolic_product", lambda i: replace(i, sizes=(i.sizes[0] - 1, *i.sizes[1:]))),
    "place of the result": ("systolic_product", altered(0, partition=2)),
    "address": ("systolic_load", altered(1, address=6)),
    "transposed": ("systolic_load", altered(1, strides=(1, 9))),
    "stride": ("systolic_store", altered(0, strides=(2, 7))),
}


@pytest.mark.parametrize("what", FAULTS)
def test_planted_faults_of_instructions_are_found(what: str) -> None:
    name, fault = FAULTS[what]
    sizes = (3, 4, 5) if name == "systolic_product" else (3, 4)
    assert not check_instruction(sizes, name, lambda core, issued: core.execute(fault(issued)))


def test_accesses_beyond_a_memory_are_trapped() -> None:
    core = Core({"x": np.zeros(10, np.float32)})
    inside = At("s", LetMark.SCRATCHPAD)
    for at in (At("x", None, address=7, strides=(2, 1)), At("x", None, address=-1, strides=(2, 1))):
        with pytest.raises(IndexError):
            core.execute(Issued("systolic_load", (inside, at), (3, 1)))
    with pytest.raises(IndexError):
        core.execute(Issued("systolic_load", (replace(inside, partition=126), At("x", None, strides=(2, 1))), (3, 1)))


def staged(**options: list[str]) -> atl.Session:
    """Return a product whose operands are packed in these orders of loops."""
    s = atl.reschedule(systolic.PRODUCT)
    s.tile(["i", "j"], [8, 16]).accumulate("p", at="jo", name="acc").tile("p", 4)
    for operand in "AB":
        s.pack(operand, at="po", name=f"{operand}t", order=options.get(operand))
    return s


def marked(s: atl.Session, *scratchpad: str) -> atl.Session:
    for name in scratchpad:
        s.mark(name, "scratchpad")
    return s.mark("acc", "accumulator")


REFUSED: dict[str, tuple[Callable[[], atl.Session], tuple[str, ...]]] = {
    "rows on partitions": (
        lambda: marked(staged(A=["ii", "pi"], B=["pi", "ji"]), "At", "Bt"),
        ("At has the index ii on its partitions, and systolic_product adds over partitions",
         'order=["pi", "ii"]'),
    ),
    "columns on partitions": (
        lambda: marked(staged(A=["pi", "ii"], B=["ji", "pi"]), "At", "Bt"),
        ("Bt has the index ji on its partitions",),
    ),
    "no memory": (
        lambda: marked(staged(A=["pi", "ii"], B=["pi", "ji"]), "At"),
        ("the let Bt is in no memory of the core", 's.mark("Bt", "scratchpad")'),
    ),
    "sums in the scratchpad": (
        lambda: marked(staged(A=["pi", "ii"], B=["pi", "ji"]), "At", "Bt").mark("acc", "scratchpad"),
        ("no instruction of the core adds to acc in the scratchpad from At in the scratchpad and Bt",
         "systolic_product: out in the accumulator; a in the scratchpad, b in the scratchpad"),
    ),
    "no tiles": (
        lambda: atl.reschedule(systolic.PRODUCT),
        ("adds to out in the main memory from A in the main memory and B in the main memory", "s.accumulate"),
    ),
    "too many columns": (lambda: systolic.product(128, 520), ("required: n <= 512, which is here never true",)),
    "too many partitions": (
        lambda: systolic.product(128, 512, 136),
        ("has the shape [136, 128] of float32", "at most 128 partitions"),
    ),
    "too much memory": (
        lambda: systolic.product(128, 5000),
        ("the let acc does not fit in the accumulator", "at most 4096 elements of float32 in each partition"),
    ),
}  # fmt: skip


@pytest.mark.parametrize(
    "what", ["rows on partitions", *(pytest.param(what, marks=pytest.mark.long) for what in list(REFUSED)[1:])]
)
def test_other_programs_are_refused(what: str) -> None:
    session, messages = REFUSED[what]
    with pytest.raises(atl.NoInstruction) as refused:
        session().compile(target="systolic")
    for message in messages:
        assert message in str(refused.value)


@pytest.mark.long
def test_other_targets_refuse_the_memories() -> None:
    for target in ("c", "cuda"):
        with pytest.raises(atl.UnsupportedMark, match="does not support yet") as refused:
            systolic.product(*SMALL).compile(target=target)
        assert 'use target="systolic", which supports it' in str(refused.value)


def test_sizes_of_instructions_are_checked() -> None:
    with pytest.raises(atl.InvalidArgument, match="instructions"):
        compiled(*SMALL).instructions(n=3)
