"""The emulated systolic core: values and cycles of programs and of single instructions, and what is refused."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import replace
from functools import cache
from typing import Any

import numpy as np
import pytest

import atl
from atl.core.marks import LetMark
from atl.errors import InvalidArgument, NoInstruction
from examples import systolic
from lowering.core.emulator import At, Core, Issued
from lowering.core.kernel import CoreKernel
from lowering.instructions import instruction_named, registry
from lowering.instructions.checking import check_instruction, emulated
from lowering.instructions.systolic import INSTRUCTIONS
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


@pytest.mark.long
@pytest.mark.parametrize("name", [each.name for each in INSTRUCTIONS])
def test_instructions_agree_with_their_programs(name: str) -> None:
    checked = check_instruction(instruction_named(name))
    assert not checked.fault
    assert checked.calls > 250


def altered(position: int, change: Callable[[At], At]) -> Callable[[Issued], Issued]:
    def fault(issued: Issued) -> Issued:
        operands = list(issued.operands)
        operands[position] = change(operands[position])
        return replace(issued, operands=tuple(operands))

    return fault


FAULTS: dict[str, tuple[str, Callable[[Issued], Issued]]] = {
    "first partition of a factor": ("systolic_product", altered(1, lambda at: replace(at, partition=0))),
    "first element of a factor": ("systolic_product", altered(2, lambda at: replace(at, free=at.free - 1))),
    "factors exchanged": (
        "systolic_product",
        lambda issued: replace(issued, operands=(issued.operands[0], *issued.operands[:0:-1])),
    ),
    "one term fewer": ("systolic_product", lambda i: replace(i, sizes=(i.sizes[0] - 1, *i.sizes[1:]))),
    "place of the result": ("systolic_product", altered(0, lambda at: replace(at, partition=1))),
    "address": ("systolic_load", altered(1, lambda at: replace(at, address=at.address + 1))),
    "transposed": ("systolic_load", altered(1, lambda at: replace(at, strides=at.strides[::-1]))),
    "stride": ("systolic_store", altered(0, lambda at: replace(at, strides=(at.strides[0] + 1, at.strides[1])))),
}


@pytest.mark.parametrize("what", FAULTS)
def test_planted_faults_of_instructions_are_found(what: str) -> None:
    name, fault = FAULTS[what]
    assert emulated(instruction_named(name), 3, lambda core, issued: core.execute(fault(issued))).fault


def right(out: np.ndarray, a: np.ndarray) -> int:
    out[...] = np.maximum(a, 0)
    return 4


def into_operand(out: np.ndarray, a: np.ndarray) -> int:
    out[...] = np.maximum(a, 0, out=a)
    return 4


def beyond(out: np.ndarray, a: np.ndarray) -> int:
    right(out, a)
    assert out.base is not None
    out.base[-1, -1] = 0
    return 4


OWN: dict[str, tuple[Callable[[np.ndarray, np.ndarray], Any], str]] = {
    "right": (right, ""),
    "another value": (
        lambda out, a: right(out, abs(a)),
        "out[0, 1] is",
    ),
    "an operand": (into_operand, "ValueError: output array is read-only for p = 1, f = 1"),
    "other elements": (beyond, "elements that are not part of the result change for p = 1, f = 1"),
    "no cycles": (lambda out, a: None, "InvalidArgument"),
}


def own_instruction(**options: Any) -> atl.Instruction:
    program = atl.parse("core_positive (a : float32[p, f]) : float32[p, f] := ⊞[i < p] ⊞[j < f] max(a[i, j], 0)")
    memories = {"out": "scratchpad", "a": "accumulator"}
    given = {"result": "stored", "memories": memories} | options
    return atl.Instruction("core_positive", program, "systolic", **given)


@pytest.mark.parametrize("what", OWN)
def test_an_own_instruction_is_compared_with_its_program(what: str) -> None:
    emulate, fault = OWN[what]
    found = check_instruction(own_instruction(emulate=emulate), largest=2).fault
    assert found.startswith(fault)
    assert bool(found) == bool(fault)


def test_a_sum_over_elements_is_an_own_instruction() -> None:
    def add_sums(out: np.ndarray, a: np.ndarray, b: np.ndarray) -> int:
        out += a @ b.T
        return int(a.shape[1])

    text = (
        "core_rows (a : float32[m, k], b : float32[n, k]) : float32[m, n] := "
        "⊞[i < m] ⊞[j < n] Σ[p < k] a[i, p] * b[j, p]"
    )
    memories = {"out": "accumulator", "a": "scratchpad", "b": "scratchpad"}
    atl.declare_instruction(
        atl.Instruction("core_rows", atl.parse(text), "systolic", memories=memories, emulate=add_sums)
    )
    try:
        s = marked(staged(A=["ii", "pi"], B=["ji", "pi"]), "At", "Bt")
        a, b = matrices(np.random.default_rng(5), 9, 6, 17)
        kernel = s.compile(target="systolic")
        assert isinstance(kernel, CoreKernel)
        assert np.array_equal(kernel(a, b), a @ b)
        assert any(each.name == "core_rows" for each in kernel.instructions(n=9, k=6, m=17))
    finally:
        registry._declared.pop("core_rows")


def full_partitions(out: np.ndarray, a: np.ndarray) -> int:
    assert a.shape[0] < 128
    return right(out, a)


def test_the_largest_tile_is_tested() -> None:
    assert check_instruction(own_instruction(emulate=full_partitions), largest=1).fault.startswith("AssertionError")


def test_constant_tile_is_tested() -> None:
    text = "core_positive (a : float32[128, 16]) : float32[128, 16] := ⊞[i < 128] ⊞[j < 16] max(a[i, j], 0)"
    memories = {"out": "scratchpad", "a": "accumulator"}
    tile = atl.Instruction(
        "core_positive", atl.parse(text), "systolic", result="stored", memories=memories, emulate=right
    )
    assert check_instruction(tile).calls > 0


def halved(out: np.ndarray, a: np.ndarray) -> int:
    out[...] = a
    return 1


@pytest.mark.parametrize("dtype", ["int32", "float64"])
def test_result_has_the_element_type_of_the_program(dtype: str) -> None:
    text = f"core_store (a : float32[p, f]) : {dtype}[p, f] := ⊞[i < p] ⊞[j < f] cast({dtype}, a[i, j])"
    store = atl.instruction(
        target="systolic", emulate=halved, result="stored", memories={"a": "accumulator"}, strides={"out": "out0 >= 1"}
    )(atl.parse(text))
    try:
        assert not check_instruction(store, largest=2).fault
        product = f"{systolic.PRODUCT}".replace(": float32[n, m]", f": {dtype}[n, m]")
        program = atl.parse(product.replace("Σ[p < k] A[i, p] * B[p, j]", f"cast({dtype}, Σ[p < k] A[i, p] * B[p, j])"))
        s = atl.reschedule(program).tile(["i", "j"], [8, 16]).accumulate("p", at="jo", name="acc").tile("p", 4)
        s.pack("A", at="po", name="At", order=["pi", "ii"]).pack("B", at="po", name="Bt", order=["pi", "ji"])
        found = marked(s, "At", "Bt").compile(target="systolic")(*np.ones((2, 3, 3), np.float32))
        assert found.dtype == dtype
        assert found.tolist() == [[3] * 3] * 3
    finally:
        registry._declared.pop("core_store")


def test_operands_in_each_others_memory_are_refused() -> None:
    text = "core_sub (a : float32[p, f], c : float32[p, f]) : float32[p, f] := ⊞[i < p] ⊞[j < f] a[i, j] - c[i, j]"
    memories = {"a": "accumulator", "c": "scratchpad"}
    atl.instruction(
        target="systolic", emulate=lambda out, a, c: halved(out, a - c), result="stored", memories=memories,
        strides={"out": "out0 >= 1"},
    )(atl.parse(text))  # fmt: skip
    program = """less (A : float32[n, k], B : float32[k, m], C : float32[n, m]) : float32[n, m] :=
      ⊞[i < n] ⊞[j < m] {}"""
    total = "(Σ[p < k] A[i, p] * B[p, j])"
    try:
        for body, right_way in ((f"{total} - C[i, j]", True), (f"C[i, j] - {total}", False)):
            s = atl.reschedule(atl.parse(program.format(body)))
            s.tile(["i", "j"], [8, 16]).accumulate("p", at="jo", name="acc").tile("p", 4)
            s.pack("A", at="po", name="At", order=["pi", "ii"]).pack("B", at="po", name="Bt", order=["pi", "ji"])
            s.pack("C", at="jo", name="Ct", order=["ii", "ji"])
            marked(s, "At", "Bt", "Ct")
            if right_way:
                assert s.compile(target="systolic")(*np.ones((3, 3, 3), np.float32)).tolist() == [[2.0] * 3] * 3
            else:
                with pytest.raises(NoInstruction, match="the operand a of core_sub is Ct in the scratchpad"):
                    s.compile(target="systolic")
    finally:
        registry._declared.pop("core_sub")


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"emulate": None}, "target='systolic' and emulate=None"),
        ({"text": "core_positive()"}, "emulate=… in place of a text"),
        ({"memories": {"out": "shared"}}, "to 'scratchpad' or 'accumulator'"),
        ({"memories": {"b": "scratchpad"}}, "memories of a, out for the target systolic"),
        ({"result": "added"}, "result='added', and computes elements"),
    ],
)
def test_malformed_own_instructions_are_refused(options: dict[str, Any], message: str) -> None:
    with pytest.raises(InvalidArgument, match=re.escape(message)):
        own_instruction(**{"emulate": right, **options})


def test_name_of_a_core_statement_is_refused() -> None:
    text = "systolic_clear (a : float32[p, f]) : float32[p, f] := ⊞[i < p] ⊞[j < f] a[i, j]"
    with pytest.raises(InvalidArgument, match="systolic_clear is a built-in instruction"):
        atl.instruction(target="systolic", memories={"a": "scratchpad"}, emulate=right, result="stored")(
            atl.parse(text)
        )


def test_operand_of_rank_1_in_a_memory_is_refused() -> None:
    text = "core_bias (a : float32[4]) : float32[16, 4] := ⊞[i < 16] ⊞[j < 4] a[j]"
    with pytest.raises(InvalidArgument, match="a of core_bias has rank 1"):
        atl.Instruction(
            "core_bias", atl.parse(text), "systolic", result="stored", memories={"a": "scratchpad"}, emulate=right
        )


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
