"""Reads of other threads' registers: shuffles agree with their programs, faults are found, and the rest is refused."""

import re
import subprocess
from collections.abc import Callable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any, Final

import numpy as np
import pytest

import atl
from atl.checks.scope import initial_facts
from atl.core.index import ZERO, constant, index
from atl.core.predicate import less
from atl.errors import IllegalMark
from examples import warps
from lowering import lower
from lowering.cuda.printer import print_cuda
from lowering.gpu import interpreter, races
from lowering.gpu import kernels as kn
from lowering.gpu.barriers import BarrierInsertion, Place, RaceInStatement
from lowering.gpu.outlining import kernels
from lowering.nest import loopnest as ln
from lowering.nest.execution import Trap
from lowering.nest.text import outermost
from proofs_tests.gpu.shim.run import COMPILER, Finding, Shimmed, build
from proofs_tests.gpu.test_nvcc import NVCC

LANES: Final = """f (x : float32[n, 32]) : float32[n, 32] := ⊞[b < n | block.x]
  let r | registers := ⊞[t < 32 | thread.x] 2 * x[b, t] in ⊞[t < 32 | thread.x] {}"""
MAPPED: Final = """f (x : float32[n, 2, 8, 4, 3]) : float32[n, 2, 8, 4, 3] := ⊞[b < n | block.x]
  let r | registers := ⊞[w < 2 | thread.z] ⊞[u < 8 | thread.y] ⊞[t < 4 | thread.x] ⊞[v < 3] 2 * x[b, w, u, t, v] in
  ⊞[w < 2 | thread.z] ⊞[u < 8 | thread.y] ⊞[t < 4 | thread.x] ⊞[v < 3] {}"""
EXCHANGES: Final[dict[str, tuple[str, str, str]]] = {
    "a reversal": (LANES, "r[31 - t] + r[t]", "31 - t"),
    "a rotation": (LANES, "r[(t + 5) % 32]", "(t + 5) % 32"),
    "a butterfly": (LANES, "r[t] + r[xor(t, 8)]", "(t ^ (int64_t)8)"),
    "a broadcast": (LANES, "r[t] + r[7]", "7"),
    "lanes x + 4y": (MAPPED, "r[w, 7 - u, xor(t, 1), 2 - v]", "(t ^ (int64_t)1) - 4 * u + 28"),
    "a column of lanes": (MAPPED, "r[w, u, 3, v]", "4 * u + 3"),
}
"""A program, what it reads, and the lane in the text."""


def _compiled(text: str) -> tuple[atl.Program, kn.Kernels]:
    program = atl.parse(text)
    return program, kernels(lower(program, target="cuda"))


def _launch(held: kn.Kernels) -> kn.Launch:
    (launch,) = kn.launches(held.body)
    return launch


def _agrees(program: atl.Program, held: kn.Kernels, sizes: Mapping[str, int], library: Any = None) -> None:
    arrays: dict[str, Any] = dict(atl.random_inputs(program, sizes))
    want = atl.evaluate(program, **arrays)
    made = (
        interpreter.run(held, sizes, arrays)
        if library is None
        else Shimmed(library, held.nest)(program.name, sizes, arrays, want.shape)
    )
    assert np.allclose(made, want, rtol=2e-5, atol=1e-6)


@pytest.mark.parametrize("name", EXCHANGES)
def test_read_of_another_lane_is_a_shuffle(name: str) -> None:
    pattern, read, lane = EXCHANGES[name]
    program, held = _compiled(pattern.format(read))
    assert len(_launch(held).shuffles) == 1
    assert f", {lane})" in print_cuda(held)
    assert "__syncthreads" not in print_cuda(held)
    assert races.report(held)
    _agrees(program, held, {"n": 2})


@pytest.mark.long
@pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler: no printed kernel is run here")
def test_printed_shuffles_agree(tmp_path: Path) -> None:
    texts = [pattern.format(read) for pattern, read, _ in EXCHANGES.values()]
    plain = LANES.replace("2 * x[b, t]", "x[b, t]").format("r[31 - t]")
    texts += [plain.replace("float32", dtype) for dtype in ("float64", "float16", "int8", "bool", "int64")]
    made = [_compiled(text) for text in texts]
    printed = [print_cuda(held).replace("int f(", f"int f{at}(") for at, (_, held) in enumerate(made)]
    printed = [text.replace("f_0", f"k{at}") for at, text in enumerate(printed)]
    library = build(printed, tmp_path)
    for at, (program, held) in enumerate(made):
        _agrees(replace(program, name=f"f{at}"), held, {"n": 2}, library)


REFUSED: Final[dict[str, tuple[str, str]]] = {
    "another warp": (
        LANES.replace(" 32", " 64").format("r[xor(t, 32)]"),
        "a thread reads a register of another thread (copy) that is not proved to be in its warp",
    ),
    "a register by lane": (
        LANES.replace("x[b, t]", "x[b, t]").format("0").replace(
            "⊞[t < 32 | thread.x] 2 * x[b, t] in ⊞[t < 32 | thread.x] 0",
            "⊞[t < 32 | thread.x] ⊞[v < 32] 2 * x[b, v] in ⊞[t < 32 | thread.x] r[3, t]",
        ),
        "the register t that a thread reads of another one (broadcast) depends on the thread",
    ),
    "a condition on the lane": (LANES.format("[t < 31] · r[t + 1]"), "a condition around it depends on the lane t"),
    "a choice by lane": (LANES.format("select(t < 31, r[t + 1], 1)"), "a condition around it depends on the lane t"),
    "a range by lane": (LANES.format("Σ[v < t] r[v]"), "the range of v depends on the lane t"),
    "some lanes": (
        LANES.replace("float32[n, 32] :=", "float32[n, 16] :=").format("0").replace(
            "in ⊞[t < 32 | thread.x] 0", "in ⊞[t < 16 | thread.x] r[t + 16]"
        ),
        "not all threads along x reach it",
    ),
    "a part of a warp": (
        LANES.replace(" 32", " 48").format("r[xor(t, 1)]"), "the last warp of 48 threads is not whole",
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", REFUSED)
def test_read_that_is_no_shuffle_is_refused(name: str) -> None:
    text, reason = REFUSED[name]
    with pytest.raises(IllegalMark) as error:
        atl.compile(atl.parse(text), target="cuda")
    assert reason in str(error.value)
    assert 's.mark("r", "shared")' in str(error.value)
    program = atl.parse(text)
    s = atl.reschedule(program).mark("r", "shared")  # what the error suggests
    _agrees(program, kernels(lower(s.goal, target="cuda")), {"n": 2})


def _within_one_loop() -> tuple[atl.Program, kn.Kernels]:
    """Return a kernel with a fault: a loop adds r[31 - t], which another lane changes there, to r[t]."""
    program, held = _compiled(LANES.format("r[31 - t]"))
    launch = _launch(held)
    first, second = (step.statement for step in launch.body if isinstance(step, kn.Run))
    assert isinstance(first, ln.For)
    assert isinstance(second, ln.For)
    (stored,), (read,) = ln.at_iteration(first, index(second.variable)), second.body
    assert isinstance(stored, ln.Assign)
    assert isinstance(read, ln.Assign)
    changed = kn.Run(ln.with_body(second, (ln.Accumulate(stored.target, "add", read.value),)))
    return program, replace(held, body=(replace(launch, body=(*launch.body[:2], changed)),))


def test_exchange_within_the_loop_that_stores_is_a_race() -> None:
    program, wrong = _within_one_loop()
    assert not races.report(wrong)
    with pytest.raises(Trap, match="data race: r at"):
        interpreter.run(wrong, {"n": 1}, atl.random_inputs(program, {"n": 1}))
    launch = _launch(wrong)
    place = Place(initial_facts(wrong.nest.assumptions, wrong.nest.inputs), outermost(wrong.nest))
    for loop in launch.grid:
        place = Place(place.facts.assume(loop.range), place.scope.bind(loop.variable, loop.variable.name)[1])
    with pytest.raises(RaceInStatement):
        BarrierInsertion(launch.threads, launch.memories, launch.shuffles).steps(launch.body, place)


PAIRS: Final = LANES.replace("⊞[t < 32 | thread.x] 2 * x[b, t]", "⊞[t < 32 | thread.x] ⊞[v < 2] value(v + 2) * x[b, t]")
FAULTS: Final[dict[str, tuple[Callable[[kn.Shuffle], kn.Shuffle], str]]] = {
    "the next lane": (lambda s: replace(s, lane=s.lane + 1), "is not in register 1 of thread"),
    "one lane for all": (lambda s: replace(s, lane=constant(0)), "is not in register 1 of thread"),
    "another register": (
        lambda s: replace(s, register=ln.Cell(s.register.buffer, tuple((ZERO, e) for _, e in s.register.pairs))),
        "is not in register 0 of thread",
    ),
}


@pytest.mark.parametrize("name", FAULTS)
def test_wrong_shuffle_is_found(name: str) -> None:
    change, message = FAULTS[name]
    program, held = _compiled(PAIRS.format("r[31 - t, 1]"))
    launch = _launch(held)
    wrong = replace(launch, shuffles={cell: change(shuffle) for cell, shuffle in launch.shuffles.items()})
    with pytest.raises(Trap, match=message):
        interpreter.run(replace(held, body=(wrong,)), {"n": 1}, atl.random_inputs(program, {"n": 1}))


def test_shuffle_under_a_condition_on_the_lane_is_found() -> None:
    program, held = _compiled(LANES.format("r[31 - t]"))
    launch = _launch(held)
    *before, last = (step for step in launch.body if not isinstance(step, ln.Free))
    assert isinstance(last, kn.Run)
    assert isinstance(last.statement, ln.For)
    some = ln.If(less(index(last.statement.variable), constant(31)), last.statement.body)
    wrong = replace(launch, body=(*before, kn.Run(ln.with_body(last.statement, (some,)))))
    with pytest.raises(Trap, match="31 of 32 lanes execute a shuffle of r"):
        interpreter.run(replace(held, body=(wrong,)), {"n": 1}, atl.random_inputs(program, {"n": 1}))


IN_TEXT: Final = {
    "the next lane": ("31 - t)", "30 - t)"),
    "the own lane": ("31 - t)", "t)"),
    "another register": ("r[1], 31", "r[0], 31"),
    "a condition on the lane": ("out[b", "if (t < 31) out[b"),
    "a narrow mask": ("0xffffffffu", "0x7fffffffu"),
    "no shuffle": ("__shfl_sync(0xffffffffu, r[1], 31 - t)", "r[1]"),
}


@pytest.mark.long
@pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler: no printed kernel is run here")
def test_faults_in_printed_shuffles_are_found(tmp_path: Path) -> None:
    program, held = _compiled(PAIRS.format("r[31 - t, 1]"))
    text = print_cuda(held)
    planted = [text.replace(right, wrong) for right, wrong in IN_TEXT.values()]
    texts = [each.replace("int f(", f"int f{at}(").replace("f_0", f"k{at}") for at, each in enumerate([text, *planted])]
    library = build(texts, tmp_path)
    _agrees(replace(program, name="f0"), held, {"n": 1}, library)
    for at, name in enumerate(IN_TEXT, 1):
        assert texts[at] != texts[0], name
        with pytest.raises((Finding, AssertionError)):
            _agrees(replace(program, name=f"f{at}"), held, {"n": 1}, library)


SIZES: Final = [{"n": 2, "m": m} for m in (1, 31, 32, 77)]


@pytest.mark.parametrize("made", [warps.sums, warps.softmax])
def test_rows_are_folded_by_shuffles(made: Callable[[], atl.Session]) -> None:
    s = made()
    held = kernels(lower(s.goal, target="cuda"))
    text = print_cuda(held)
    assert text.count("__shfl_sync(") == {"sums": 5, "softmax": 12}[held.nest.name]
    assert "__shared__" not in text
    assert races.report(held)
    for sizes in SIZES:
        _agrees(s.theorem.lhs, held, sizes)


@pytest.mark.long
def test_certificate_of_a_fold_by_shuffles_is_replayed(tmp_path: Path) -> None:
    theorem = warps.sums().done()
    theorem.save(tmp_path / "sums.json")
    assert atl.load(tmp_path / "sums.json").lhs == theorem.lhs


@pytest.mark.parametrize("side", [pytest.param(4, marks=pytest.mark.long), pytest.param(32, marks=pytest.mark.slow)])
def test_square_is_transposed_by_shuffles_and_selects(side: int) -> None:
    s = warps.transpose(side)
    held = kernels(lower(s.goal, target="cuda"))
    text = print_cuda(held)
    assert text.count("__shfl_sync(") == side.bit_length() - 1
    assert not {"__shared__", "__syncthreads"} & set(re.findall(r"\w+", text))
    assert races.report(held)
    x = np.arange(side * side, dtype=np.float32).reshape(1, side, side)
    assert np.array_equal(interpreter.run(held, {"n": 1}, {"x": x}), x.transpose(0, 2, 1))


@pytest.mark.long
@pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler: no printed kernel is run here")
def test_printed_folds_by_shuffles_agree(tmp_path: Path) -> None:
    sessions = [warps.sums(), warps.softmax()]
    made = [(s.theorem.lhs, kernels(lower(s.goal, target="cuda"))) for s in sessions]
    library = build([print_cuda(held) for _, held in made], tmp_path)
    for program, held in made:
        for sizes in SIZES:
            _agrees(program, held, sizes, library)


@pytest.mark.long
@pytest.mark.skipif(NVCC is None, reason="nvcc is not installed: no kernel is compiled for a GPU here")
def test_shuffles_compile_without_warnings_or_spills(tmp_path: Path) -> None:
    plain = LANES.replace("2 * x[b, t]", "x[b, t]").format("r[31 - t]")
    typed = [_compiled(plain.replace("float32", dtype))[1] for dtype in ("float16", "int8", "bool", "int64")]
    printed = [print_cuda(held) for held in (kernels(lower(warps.softmax().goal, target="cuda")), *typed)]
    texts = (text.replace("int f(", f"int f{at}(").replace("f_0", f"k{at}") for at, text in enumerate(printed))
    spaces = "".join(f"namespace text_{at} {{\n{text}}}\n" for at, text in enumerate(texts))
    file = tmp_path / "kernels.cu"
    file.write_text(f"#include <math.h>\n#include <stdint.h>\n{spaces}", encoding="utf-8")
    flags = ["-arch=sm_80", "-Werror", "all-warnings", "-Xptxas", "-warn-spills,-warn-lmem-usage,-Werror"]
    made = subprocess.run(
        [str(NVCC), *flags, "-c", "-o", str(tmp_path / "kernels.o"), str(file)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert made.returncode == 0, made.stderr


@pytest.mark.long
def test_lane_along_an_axis_without_a_loop_around_the_read_is_refused() -> None:
    program = atl.parse("""f (x : float32[n, 3, 4]) : float32[n, 3, 4] :=
      ⊞[b < n | block.z]
        let t0 | registers := ⊞[i < 3 | thread.y] ⊞[j < 4] x[b, i, j] in
        let t2 := Σ[i < 1 | thread.y] Σ[j < 4 | thread.x] t0[i, 3 - j] in
        let t3 := max[i < 1] max[j < 32] where(t2 < t0[2 - i, 3], t2, t2) in
        ⊞[i < 3 | thread.y] ⊞[j < 4] t3""")
    with pytest.raises(IllegalMark, match="depends on x, and the read is outside of its loop"):
        atl.compile(program, target="cuda")
