"""Matrix instructions: the tactic, legality of calls, and runs by the interpreters and the shim."""

import dataclasses
import itertools
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import atl
from atl.errors import IllegalMark, InvalidArgument, UnknownMark, UnsupportedMark
from layouts import fragments, injective
from lowering.gpu import interpreter, races
from lowering.gpu.kernels import Barrier, Kernels, Launch
from lowering.nest.execution import Trap
from proofs_tests.gpu.shim.run import COMPILER, Finding, Shimmed, build
from proofs_tests.instructions.products import (
    ONE_WARP,
    OWN_CELLS,
    TWO_WARPS,
    by_warps,
    expected,
    kernel_by_warps,
    operands,
    product,
)
from rewrites import DoesNotApply

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler: printed kernels are not run here")

SCHEDULES: Final[dict[str, tuple[Any, ...]]] = {
    "float16": ("float16", "float32", "mma_m16n8k16", (16, 8, 16), 1),
    "float16, 2 warps": ("float16", "float32", "mma_m16n8k16", (64, 16, 32), 2),
    "bfloat16": ("bfloat16", "float32", "mma_m16n8k16_bf16", (32, 8, 16), 1),
    "int8": ("int8", "int32", "mma_m16n8k32", (32, 16, 64), 2),
    "uint8": ("uint8", "int32", "mma_m16n8k32_u8", (16, 8, 32), 1),
}
STORED: Final = tuple(itertools.product(("A[i, p]", "A[p, i]"), ("B[p, j]", "B[j, p]")))


def calls_in(kernels: Kernels) -> list[Any]:
    return [call for launch in kernels.body if isinstance(launch, Launch) for call in launch.calls.values()]


# -- runs -------------------------------------------------------------------------------------------------------------


def test_written_product_calls_the_instruction_once() -> None:
    made = atl.compile(atl.parse(ONE_WARP), target="cuda")
    assert made.source.count("mma_m16n8k16(acc, Af, Bf);") == 1
    assert "mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32" in made.source


@pytest.mark.long
def test_interpreters_agree_with_numpy() -> None:
    made = kernel_by_warps(*SCHEDULES["float16"])
    sizes = (13, 7, 11)
    a, b = operands(sizes, "float16")
    want = expected(a, b, "float32")
    assert np.array_equal(atl.evaluate(made.program, a, b), want)
    got = interpreter.run(made.kernels, dict(zip("nmk", sizes, strict=True)), {"A": a, "B": b})
    assert np.array_equal(got, want)


def shimmed(folder: Path, *arguments: Any) -> Shimmed:
    made = kernel_by_warps(*arguments)
    return Shimmed(build([made.source], folder), made.nest)


@needs_compiler
@pytest.mark.long
def test_shim_agrees_with_numpy_for_sizes_up_to_40(tmp_path: Path) -> None:
    run = shimmed(tmp_path, *SCHEDULES["float16"])
    for sizes in [(n, 7 * n % 40 + 1, 11 * n % 40 + 1) for n in range(1, 41)]:
        _check(run, sizes, "float16", "float32")


@needs_compiler
@pytest.mark.slow
def test_shim_agrees_with_numpy_for_all_sizes_up_to_40(tmp_path: Path) -> None:
    run = shimmed(tmp_path, *SCHEDULES["float16"])
    for sizes in itertools.product(range(1, 41), repeat=3):
        _check(run, (sizes[0], sizes[1], sizes[2]), "float16", "float32")


@pytest.mark.long
@needs_compiler
@pytest.mark.sampled
@pytest.mark.thinned(13)
@pytest.mark.parametrize("stored", STORED, ids=" ".join)
@pytest.mark.parametrize("name", SCHEDULES)
def test_shim_agrees_for_types_and_layouts_of_operands(name: str, stored: tuple[str, str], tmp_path: Path) -> None:
    left, right = stored
    dtype, into, *_ = SCHEDULES[name]
    run = shimmed(tmp_path, *SCHEDULES[name], left, right)
    for sizes in ((1, 1, 1), (40, 23, 33), (64, 16, 64), (5, 9, 16)):
        _check(run, sizes, dtype, into, left=left, right=right)


def _check(run: Shimmed, sizes: tuple[int, int, int], dtype: str, into: str, **stored: str) -> None:
    a, b = operands(sizes, dtype, **stored)
    want = expected(a, b, into, **stored)
    got = run("product", dict(zip("nmk", sizes, strict=True)), {"A": a, "B": b}, want.shape)
    assert np.array_equal(got, want), sizes


@pytest.mark.sampled
@pytest.mark.parametrize("name", SCHEDULES)
def test_all_pairs_are_race_free(name: str) -> None:
    report = races.report(kernel_by_warps(*SCHEDULES[name]).kernels)
    assert report.proved, str(report)


# -- the derivation ---------------------------------------------------------------------------------------------------


@pytest.mark.long
def test_certificate_is_accepted_in_a_new_process(tmp_path: Path) -> None:
    file = tmp_path / "product.atl.json"
    made = by_warps(*SCHEDULES["float16, 2 warps"])
    made.done().save(file)
    code = f"import atl; print(atl.load({str(file)!r}).rhs)"
    answer = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=False)
    assert answer.stdout == f"{made.goal}\n", answer.stderr
    assert "call mma_m16n8k16" in file.read_text(encoding="utf-8")


@pytest.mark.long
def test_calls_have_the_fragments_of_the_tile() -> None:
    made = kernel_by_warps(*SCHEDULES["float16, 2 warps"])
    called = {call.function: [each.buffer.name for each in call.operands] for call in calls_in(made.kernels)}
    assert called == {
        "mma_m16n8k16": ["acc", "Af", "Bf"],
        "ldmatrix_left": ["Af", "As"],
        "ldmatrix_right": ["Bf", "Bs"],
    }
    row = "As + 16 * pio + 1024 * w + 128 * y + 32 * x + 512 * ro - 504 * (y / 4)"
    assert f"ldmatrix_left(Af + 8 * ro,\n{' ' * 36}{row});" in made.source
    assert "ldmatrix_right(Bf + 4 * ro, Bs + 8 * (32 * pio + 2 * x + ro + 8 * (y % 4)));" in made.source
    assert "mma_m16n8k16(acc + 8 * ro + 4 * rio, Af + 8 * ro, Bf + 4 * rio);" in made.source


@pytest.mark.parametrize(
    ("block", "warps", "match"),
    [
        ((128, 128), 8, "block=(128, 128, 32), warps=8: positive numbers"),
        ((128, 128, 32), 0, "positive numbers"),
        ((100, 128, 32), 1, "multiples of 16 × 8 × 16"),
        ((64, 128, 32), 8, "multiples of 128 × 8 × 16"),
    ],
)
def test_tiles_must_be_multiples(block: tuple[int, ...], warps: int, match: str) -> None:
    with pytest.raises(InvalidArgument) as error:
        atl.reschedule(product("float16", "float32")).tensor_cores("p", "mma_m16n8k16", block=block, warps=warps)
    assert match in str(error.value)


def test_tactic_refuses_other_sums_and_instructions() -> None:
    with pytest.raises(DoesNotApply, match="p is not the sum of a product of matrices"):
        atl.reschedule(atl.parse("f (A : float32[n, k]) : float32[n] := ⊞[i < n] Σ[p < k] A[i, p]")).tensor_cores(
            "p", "mma_m16n8k16"
        )
    with pytest.raises(DoesNotApply, match="vpdpbusd is not a product of matrices by the lanes of a warp"):
        atl.reschedule(product("float16", "float32")).tensor_cores("p", "vpdpbusd")
    with pytest.raises(UnknownMark, match="did you mean mma_m16n8k16"):
        atl.reschedule(product("float16", "float32")).tensor_cores("p", "mma_m16n8k17")


def in_one_warp(body: str) -> Any:
    """Return the derivation of a product of one warp, with a bias b."""
    text = f"f (A : float16[16, k], B : float16[k, 8], b : float32[8]) : float32[16, 8] := {body}"
    return atl.reschedule(atl.parse(text)).tensor_cores("p", "mma_m16n8k16", block=(16, 8, 16), warps=1)


@pytest.mark.long
def test_conversions_of_whole_matrices_are_moved_to_elements() -> None:
    s = in_one_warp("⊞[i < 16] ⊞[j < 8] Σ[p < k] cast(float32, A)[i, p] * cast(float32, B)[p, j]")
    (called,) = [call for call in calls_in(s.compile(target="cuda").kernels) if call.function == "mma_m16n8k16"]
    assert [each.buffer.name for each in called.operands] == ["acc", "Af", "Bf"]
    assert "one thread" not in str(s)


@pytest.mark.long
def test_sum_within_a_term_is_stored_and_a_note_names_the_kernel_of_one_thread() -> None:
    s = in_one_warp("⊞[i < 16] ⊞[j < 8] max(b[j] + (Σ[p < k] cast(float32, A[i, p]) * cast(float32, B[p, j])), 0)")
    assert str(s.goal).endswith("in\n  ⊞[i < 16] ⊞[j < 8] max(b[j] + P[i, j], 0)")
    advice = 's.gpu_map(["i", "j"], [8, 32])'
    assert f"the kernel of i and j, outside of the product, has one thread: {advice} distributes it" in str(s)
    assert [each.threads for each in launches(s)] == [(4, 8, 1), (1, 1, 1)]
    assert [each.threads for each in launches(s.gpu_map(["i", "j"], [8, 32]))] == [(4, 8, 1), (32, 8, 1)]


def launches(s: Any) -> list[Launch]:
    """Return the launches of a derivation's kernels."""
    return [each for each in s.compile(target="cuda").kernels.body if isinstance(each, Launch)]


# -- legality ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "fragment",
    [fragments.PRODUCTS, fragments.LEFT, fragments.RIGHT, fragments.LEFT_BYTES, fragments.RIGHT_BYTES],
    ids=str,
)
def test_fragments_are_injective(fragment: Any) -> None:
    assert type(injective(fragment)).__name__ == "Proved"


REFUSED: Final[dict[str, tuple[tuple[str, str], str]]] = {
    "the lane of an operand": (
        ("2*b + d, p // 2 % 4", "2*b + d, p % 4"),
        "lane along x (p // 2) % 4 of b; it is p % 4",
    ),
    "the register of an operand": (("p // 8, c, p % 2", "c, p // 8, p % 2"), "register at the address"),
    "another row": (("Af[a, p // 2", "Af[(a + 1) % 8, p // 2"), "of a; it is (a + 1) % 8"),
    "another type": (("float16", "bfloat16"), "the terms of the sum are of another form"),
    "shared memory": (("Bf | registers", "Bf | shared"), "Bf is not in registers"),
    "fewer terms": (("Σ[p < 16 |", "Σ[p < 8 |"), "a loop from 0 to 16"),
    "a condition on a lane": (
        ("⊞[d < 2] Σ[p < 16", "⊞[d < 2] [16*io + a < 8] · Σ[p < 16"),
        "the loop d contains more than the sum, or is marked",
    ),
    "a condition on a lane outside": (
        ("⊞[b < 4 | thread.x] ⊞[c < 2] ⊞[d < 2] Σ", "⊞[b < 4 | thread.x] [io < a] · ⊞[c < 2] ⊞[d < 2] Σ"),
        "a condition around it depends on the lane a",
    ),
    "a condition between its loops": (
        ("⊞[c < 2] ⊞[d < 2] Σ", "⊞[c < 2] [c < io] · ⊞[d < 2] Σ"),
        "the loop c contains more than the sum",
    ),
    "sums of factors": ((") * cast", ") + cast"), "the terms of the sum are of another form"),
    "more threads along x": (
        (
            "    in\n    transpose flatten ⊞[c < 2]",
            (
                "    in\n    let z | shared := ⊞[q < 8 | thread.x] [q < k] · cast(float32, A[16*io, q]) in\n"
                "    transpose flatten ⊞[c < 2]"
            ),
        ),
        "a block has 8 × 8 threads along y and x",
    ),
    "another order of loops": (("⊞[c < 2] ⊞[d < 2] Σ", "⊞[d < 2] ⊞[c < 2] Σ"), ""),
    "no lanes": (
        ("⊞[a < 8 | thread.y] ⊞[b < 4 | thread.x] ⊞[c < 2] ⊞[d < 2] Σ", "⊞[a < 8] ⊞[b < 4] ⊞[c < 2] ⊞[d < 2] Σ"),
        "",
    ),
}


@pytest.mark.parametrize("what", REFUSED)
def test_other_nests_are_refused(what: str) -> None:
    (old, new), required = REFUSED[what]
    assert old in ONE_WARP
    text = ONE_WARP.replace(old, new)
    if "let z" in new:
        text = text.replace("acc[a, b, c, d]", "acc[a, b, c, d] + z[a]")
    with pytest.raises((IllegalMark, UnsupportedMark)) as error:
        atl.compile(atl.parse(text), target="cuda")
    assert required in str(error.value)


SHAPE = "f (x : float32[q, 32]) : float32[q, 32] :="


@pytest.mark.parametrize(
    ("body", "match"),
    [
        ("⊞[i < q] ⊞[j < 32 | call nope] x[i, j]", "unknown instruction 'nope'"),
        ("⊞[i < q | call nope] ⊞[j < 32 | thread.x] x[i, j]", "unknown instruction 'nope'"),
        ("⊞[i < q | call vpdpbusd] ⊞[j < 32 | thread.x] x[i, j]", "vpdpbusd is not an instruction of a warp"),
        ("⊞[i < q | call ldmatrix_left] ⊞[j < 32 | thread.x] x[i, j]", "no loop around it is marked thread.y"),
        ("⊞[i < q | call ldmatrix_left] ⊞[j < 32 | block.x] x[i, j]", "no loop around it is marked thread.y"),
        ("⊞[i < q | block.x] ⊞[j < 32 | call ldmatrix_left] x[i, j]", "no loop around it is marked thread.y"),
    ],
)
def test_calls_outside_of_threads_are_refused(body: str, match: str) -> None:
    with pytest.raises((IllegalMark, UnknownMark), match=match):
        atl.compile(atl.parse(f"{SHAPE} {body}"), target="cuda")


@pytest.mark.long
def test_operands_must_be_in_registers_of_the_warp() -> None:
    made = atl.compile(atl.parse(TWO_WARPS), target="cuda")
    assert len(calls_in(made.kernels)) == 1
    a, b = operands((32, 8, 16), "float16")
    got = interpreter.run(made.kernels, {"n": 32, "m": 8, "k": 16}, {"A": a, "B": b})
    assert np.array_equal(got, expected(a, b, "float32"))
    with pytest.raises(IllegalMark) as error:
        atl.compile(atl.parse(TWO_WARPS.replace("Af[w, a, p", "Af[1 - w, a, p")), target="cuda")
    assert "Af is in registers of the threads 1 - w along z" in str(error.value)


def test_warp_must_be_whole() -> None:
    exchanged = ONE_WARP.replace("thread.x", "thread.q").replace("thread.y", "thread.x").replace("thread.q", "thread.y")
    with pytest.raises(IllegalMark) as error:
        atl.compile(atl.parse(exchanged), target="cuda")
    assert "a block has 4 × 8 threads along y and x" in str(error.value)
    assert "8 × 4 threads along y and x, which are a warp" in str(error.value)


@pytest.mark.long
def test_loads_of_matrices_are_refused_for_other_rows() -> None:
    s = by_warps(*SCHEDULES["float16, 2 warps"])
    text = str(s.goal)
    assert "call ldmatrix_left" in text
    padded = atl.reschedule(s.goal).pad_rows("As", 1)
    with pytest.raises(IllegalMark) as error:
        padded.compile(target="cuda")
    assert "the 8 elements of As of a lane begin at" in str(error.value)
    assert "a multiple of 8 elements, proved" in str(error.value)
    assert "ldmatrix_left(Af + 8 * ro," in atl.reschedule(s.goal).pad_rows("As", 8).compile(target="cuda").source
    with pytest.raises(IllegalMark, match="rows of Bs do not consist of 8 adjacent elements"):
        atl.compile(atl.parse(text.replace("call ldmatrix_right", "call ldmatrix_left")), target="cuda")


@pytest.mark.parametrize(
    ("old", "new", "match"),
    [
        ("Af | registers", "Af | shared", "Af is not in registers"),
        ("As[8*c + a, 8*e + 2*b + d]", "A[16*io + 8*c + a, 8*e + 2*b + d]", "A is not in shared memory"),
    ],
)
def test_rows_are_in_shared_memory_and_other_operands_in_registers(old: str, new: str, match: str) -> None:
    with pytest.raises((IllegalMark, UnsupportedMark), match=match):
        atl.compile(atl.parse(OWN_CELLS.replace(old, new)), target="cuda")


def test_refusal_gives_the_index_and_numbers() -> None:
    with pytest.raises(IllegalMark) as error:
        atl.compile(atl.parse(ONE_WARP.replace("p // 2 % 4, p // 8, c", "p % 4, p // 8, c")), target="cuda")
    assert "Af is not the operand a of mma_m16n8k16" in error.value.summary
    assert isinstance(error.value.numbers, Mapping)
    p = error.value.numbers["p"]
    assert isinstance(p, int)
    assert p // 2 % 4 != p % 4


def _bits(permuted: tuple[int, ...], digits: tuple[str, ...]) -> list[str]:
    """Return each bit of an element, where bit b of the fragment is bit permuted[b] of the element."""
    out = [""] * len(digits)
    for at, bit in enumerate(permuted):
        out[bit] = digits[at]
    return out


def _number(bits: list[str]) -> str:
    return " + ".join(f"{1 << at}*({bit})" for at, bit in enumerate(bits))


LANE_DIGITS: Final = ("a % 2", "a // 2 % 2", "a // 4", "b % 2", "b // 2")


def wrong_fragment(operand: str, one: int, other: int) -> str:
    """Return the program with two bits of an operand's fragment exchanged, in what fills and in what reads it."""
    order = list(range(8 if operand == "Af" else 7))
    order[one], order[other] = order[other], order[one]
    if operand == "Af":  # bits of the element: those of i, then those of p
        permuted = tuple((0, 1, 2, 5, 6, 7, 3, 4)[at] for at in order)
        element = _bits(permuted, (*LANE_DIGITS, "e", "c", "d"))
        read = [*(f"i // {1 << at} % 2" for at in range(4)), *(f"p // {1 << at} % 2" for at in range(4))]
        row, term = _number(element[:4]), _number(element[4:])
        at = [read[bit].replace("i", "(8*c + a)") for bit in permuted]
        text = ONE_WARP.replace("A[16*io + 8*c + a, 16*po + 8*e + 2*b + d]", f"A[16*io + {row}, 16*po + {term}]")
        place = f"Af[{_number(at[:3])}, {_number(at[3:5])}, {at[5]}, {at[6]}, {at[7]}]"
        return text.replace("Af[a, p // 2 % 4, p // 8, c, p % 2]", place)
    permuted = tuple((4, 5, 6, 1, 2, 3, 0)[at] for at in order)  # bits of the element: those of p, then those of j
    element = _bits(permuted, (*LANE_DIGITS, "c", "d"))
    read = [*(f"p // {1 << at} % 2" for at in range(4)), *(f"j // {1 << at} % 2" for at in range(3))]
    at = [read[bit].replace("j", "(2*b + d)") for bit in permuted]
    text = ONE_WARP.replace(
        "B[16*po + 8*c + 2*b + d, 8*jo + a]", f"B[16*po + {_number(element[:4])}, 8*jo + {_number(element[4:])}]"
    )
    place = f"Bf[{_number(at[:3])}, {_number(at[3:5])}, {at[5]}, {at[6]}]"
    return text.replace("Bf[2*b + d, p // 2 % 4, p // 8, p % 2]", place)


def wrong_products(one: int, other: int) -> str:
    """Return the program with two bits of the fragment of the sums exchanged."""
    order = list(range(7))
    order[one], order[other] = order[other], order[one]
    right = (0, 1, 2, 5, 6, 3, 4)  # bits of the element: those of i, then those of j
    element = _bits(tuple(right[at] for at in order), (*LANE_DIGITS, "c", "d"))
    row, column = _number(element[:4]), _number(element[4:])
    text = ONE_WARP.replace(
        "Af[a, p // 2 % 4, p // 8, c, p % 2]", f"Af[({row}) % 8, p // 2 % 4, p // 8, ({row}) // 8, p % 2]"
    )
    return text.replace("Bf[2*b + d, p // 2 % 4, p // 8, p % 2]", f"Bf[{column}, p // 2 % 4, p // 8, p % 2]")


EXCHANGED: Final = [
    *(("Af", one, other) for one, other in itertools.combinations(range(8), 2)),
    *(("Bf", one, other) for one, other in itertools.combinations(range(7), 2)),
    *(("acc", one, other) for one, other in itertools.combinations(range(7), 2)),
]


@pytest.mark.sampled
@pytest.mark.parametrize(("operand", "one", "other"), EXCHANGED)
def test_fragment_with_exchanged_bits_is_refused(operand: str, one: int, other: int) -> None:
    text = wrong_products(one, other) if operand == "acc" else wrong_fragment(operand, one, other)
    with pytest.raises(IllegalMark, match=r"is not the operand [ab] of mma_m16n8k16"):
        atl.compile(atl.parse(text), target="cuda")


@pytest.mark.parametrize("operand", ["Af", "Bf", "acc"])
def test_fragment_written_by_bits_is_accepted(operand: str) -> None:
    text = wrong_products(0, 0) if operand == "acc" else wrong_fragment(operand, 0, 0)
    assert calls_in(atl.compile(atl.parse(text), target="cuda").kernels)


@pytest.mark.parametrize(
    ("element", "shape", "pieces", "match"),
    [
        ("a[j, i]", "16, 16", 8, "loads does not copy the elements of a"),
        ("2 * a[i, j]", "16, 16", 8, "is not a sum of scalars"),
        ("a[i, j]", "16, 16", 3, "of which each lane has 3 of a row"),
        ("a[i, j]", "16, 16", 4, "a has 16 × 16 elements, of which each lane has 4 of a row"),
    ],
)
def test_pieces_of_lanes_are_of_whole_rows(element: str, shape: str, pieces: int, match: str) -> None:
    program = f"loads (a : float32[{shape}]) : float32[16, 16] := ⊞[i < 16] ⊞[j < 16] {element}"
    with pytest.raises(InvalidArgument, match=match):
        atl.Instruction(
            "loads",
            atl.parse(program),
            "cuda",
            "static __device__ void loads(float *out, const float *a) {}",
            stored={"out": fragments.LEFT},
            lanes=(8, 4),
            rows_of_lanes={"a": pieces},
        )


# -- planted faults ---------------------------------------------------------------------------------------------------


@needs_compiler
@pytest.mark.long
@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("Af + 8 * ro, Bf", "Af, Bf"),
        ("Bf + 4 * rio)", "Bf)"),
        ("acc + 8 * ro + 4 * rio,", "acc + 4 * rio,"),
        ("128 * y + 32 * x + 512 * ro", "128 * y + 16 * x + 512 * ro"),
        ("2 * x + ro + 8 * (y % 4)", "2 * x + 8 * (y % 4)"),
        ("- 504 * (y / 4)", "- 512 * (y / 4)"),
        ("ldmatrix_left(Af + 8", "if (threadIdx.y < 7) ldmatrix_left(Af + 8"),
        ("mma_m16n8k16(acc + 8", "if (threadIdx.x < 3) mma_m16n8k16(acc + 8"),
        ("mma_m16n8k16(acc + 8", "if (threadIdx.z == 0) mma_m16n8k16(acc + 8"),
    ],
)
def test_shim_finds_faults_of_calls(old: str, new: str, tmp_path: Path) -> None:
    made = kernel_by_warps(*SCHEDULES["float16, 2 warps"])
    assert made.source.count(old) == 1
    run = Shimmed(build([made.source.replace(old, new)], tmp_path), made.nest)
    a, b = operands((64, 16, 32), "float16")
    try:
        got = run("product", {"n": 64, "m": 16, "k": 32}, {"A": a, "B": b}, (64, 16))
    except Finding:
        return
    assert not np.array_equal(got, expected(a, b, "float32"))


def test_barrier_comes_before_rows_that_other_lanes_stored() -> None:
    made = atl.compile(atl.parse(OWN_CELLS), target="cuda")
    before, after = made.source.split("ldmatrix_left(Af, As + 64 * a + 16 * b - 248 * (a / 4));")
    assert before.count("__syncthreads();") == 1
    assert "__syncthreads();" not in after
    assert races.report(made.kernels).barriers == 1
    (launch,) = made.kernels.body
    assert isinstance(launch, Launch)
    steps = tuple(step for step in launch.body if not isinstance(step, Barrier))
    without = dataclasses.replace(made.kernels, body=(dataclasses.replace(launch, body=steps),))
    assert not races.report(without)


@pytest.mark.long
@needs_compiler
def test_shim_finds_a_missing_barrier_before_rows(tmp_path: Path) -> None:
    made = atl.compile(atl.parse(OWN_CELLS), target="cuda")
    (a, _) = operands((32, 8, 16), "float16")
    for name, source in (("with", made.source), ("without", made.source.replace("__syncthreads();", ""))):
        run = Shimmed(build([source], tmp_path, name), made.nest)
        if name == "with":
            assert np.array_equal(run("copy", {"n": 32}, {"A": a}, a.shape), a)
        else:
            with pytest.raises(Finding, match="shared memory is read"):
                run("copy", {"n": 32}, {"A": a}, a.shape)


def test_kernel_interpreter_refuses_registers_of_other_lanes_outside_of_calls() -> None:
    made = atl.compile(atl.parse(ONE_WARP), target="cuda")
    (launch,) = made.kernels.body
    assert isinstance(launch, Launch)
    without = dataclasses.replace(made.kernels, body=(dataclasses.replace(launch, calls={}),))
    a, b = operands((16, 8, 16), "float16")
    with pytest.raises(Trap, match="is a register of"):
        interpreter.run(without, {"n": 16, "m": 8, "k": 16}, {"A": a, "B": b})
