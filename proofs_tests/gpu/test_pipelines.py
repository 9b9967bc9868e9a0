"""Lets in shared memory that are filled ahead: pipelines, asynchronous copies, their arrival, and planted faults."""

import dataclasses
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pytest

import atl
from atl.errors import IllegalMark, InvalidArgument, UnsupportedMark
from lowering.gpu import interpreter, races
from lowering.gpu import kernels as kn
from lowering.gpu.gpu_kernel import GpuKernel
from lowering.nest import loopnest as ln
from lowering.nest.execution import Trap
from lowering.nest.tiles import cells_of
from proofs_tests.gpu.shim.run import COMPILER, Finding, Shimmed, build

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler: printed kernels are not run here")

TEXT: Final = """f (x : float32[2*n, m]) : float32[32] given m % 4 = 0 :=
  flatten ⊞[b < 1 | block.x]
    let acc | registers :=
      Σ[po < n]
        let t | shared 3 stages :=
          ⊞[q < 2 | thread.y] flatten ⊞[jo < 8 | thread.x] ⊞[ji < 4 | vector] [4*jo + ji < m] · x[2*po + q, 4*jo + ji]
        in
        ⊞[j < 8 | thread.x] ⊞[jj < 4] Σ[q < 2] t[q, 31 - 4*j - jj]
    in
    flatten ⊞[j < 8 | thread.x] ⊞[jj < 4] acc[j, jj]
"""
"""Sums of columns. Each thread reads the columns that another one copies."""

Array = npt.NDArray[Any]


@lru_cache(maxsize=16)
def made(text: str = TEXT) -> GpuKernel:
    kernel = atl.compile(atl.parse(text), target="cuda")
    assert isinstance(kernel, GpuKernel)
    return kernel


def given(n: int, m: int) -> tuple[Array, Array]:
    """Return an input and the result."""
    x = np.random.default_rng(n).integers(-4, 5, (2 * n, m)).astype("float32")
    want = np.zeros(32, "float32")
    want[:m] = x.sum(0)
    return x, want[::-1]


def agrees(kernels: kn.Kernels, n: int, m: int) -> bool:
    x, want = given(n, m)
    return np.array_equal(interpreter.run(kernels, {"n": n, "m": m}, {"x": x}), want)


def shim_agrees(run: Shimmed, n: int, m: int) -> bool:
    x, want = given(n, m)
    return np.array_equal(run("f", {"n": n, "m": m}, {"x": x}, (32,)), want)


def staged(stages: int) -> str:
    return TEXT.replace("3 stages", f"{stages} stages")


@pytest.mark.parametrize("stages", [2, 3, 4])
def test_loop_has_one_barrier_and_one_wait_for_the_oldest_group(stages: int) -> None:
    kernel = made(staged(stages))
    before, loop = kernel.source.split("for (index_t po")
    for part in (before, loop):
        assert part.count("__syncthreads();") == 1
        assert part.count(f"wait_for_copies<{stages - 2}>();") == 1
        assert part.count("copy_async(&t[") == 1
    report = races.report(kernel.kernels)
    assert report
    assert sum(pair.between == "copies" for pair in report.proved) == 5
    assert "arrivals of copies: 5 proved, 0 not" in str(report)
    for n, m in ((0, 4), (1, 32), (2, 8), (stages + 2, 20)):
        assert agrees(kernel.kernels, n, m)


@pytest.mark.long
@needs_compiler
def test_shim_agrees_with_numpy(tmp_path: Path) -> None:
    for stages in (2, 4):
        run = Shimmed(build([made(staged(stages)).source], tmp_path, f"stages{stages}"), made(staged(stages)).nest)
        for n, m in ((0, 4), (1, 32), (stages, 8), (7, 20)):
            assert shim_agrees(run, n, m)


def test_loop_nest_and_program_do_not_depend_on_the_stages() -> None:
    plain = atl.lower(atl.parse(TEXT.replace(" 3 stages", "")), target="cuda")
    ahead = atl.lower(atl.parse(TEXT), target="cuda")
    assert atl.print_nest(plain) == atl.print_nest(ahead).replace("shared 3 stages", "shared")
    s = atl.reschedule(atl.parse(TEXT.replace(" 3 stages", ""))).mark("t", "shared", stages=3)
    assert str(s.goal) == str(atl.parse(TEXT))
    assert str(s.mark("t", "shared", stages=1).goal) == str(atl.parse(TEXT.replace(" 3 stages", "")))


def test_unaligned_rows_are_stored_ahead_without_copies() -> None:
    kernel = made(TEXT.replace("given m % 4 = 0 ", ""))
    assert "copy" not in kernel.source
    assert kernel.source.count("__syncthreads();") == 2
    assert "if (po + 2 < n) {" in kernel.source
    assert races.report(kernel.kernels)
    assert agrees(kernel.kernels, 5, 7)


# -- planted faults ---------------------------------------------------------------------------------------------------


def changed(steps: kn.Steps, change: Callable[[kn.Step], tuple[kn.Step, ...]]) -> kn.Steps:
    """Replace each step."""
    out: list[kn.Step] = []
    for step in steps:
        match step:
            case kn.Repeat(body=body) | kn.Branch(body=body):
                out += change(dataclasses.replace(step, body=changed(body, change)))
            case _:
                out += change(step)
    return tuple(out)


def with_steps(kernels: kn.Kernels, change: Callable[[kn.Step], tuple[kn.Step, ...]]) -> kn.Kernels:
    (launch,) = kernels.body
    assert isinstance(launch, kn.Launch)
    return dataclasses.replace(kernels, body=(dataclasses.replace(launch, body=changed(launch.body, change)),))


def in_loop(change: Callable[[kn.Steps], kn.Steps]) -> Callable[[kn.Step], tuple[kn.Step, ...]]:
    """Return a change of the steps of the main loop."""

    def of_step(step: kn.Step) -> tuple[kn.Step, ...]:
        if isinstance(step, kn.Repeat) and step.variable.name == "po":
            return (dataclasses.replace(step, body=change(step.body)),)
        return (step,)

    return of_step


def without(kind: type[object]) -> Callable[[kn.Steps], kn.Steps]:
    return lambda steps: tuple(step for step in steps if not isinstance(step, kind))


def later_wait(step: kn.Step) -> tuple[kn.Step, ...]:
    return (dataclasses.replace(step, groups=step.groups + 1) if isinstance(step, kn.Wait) else step,)


def with_rows(rows: int) -> Callable[[kn.Step], tuple[kn.Step, ...]]:
    """Return a change of the number of rows of the circular buffer."""

    def of_step(step: kn.Step) -> tuple[kn.Step, ...]:
        def buffer(of: ln.Buffer) -> ln.Buffer:
            return dataclasses.replace(of, rows=rows) if of.rows else of

        match step:
            case ln.Allocate() | ln.Clear():
                return (dataclasses.replace(step, buffer=buffer(step.buffer)),)
            case kn.Run(statement):
                found = {cell.buffer: buffer(cell.buffer) for cell, _ in cells_of((statement,))}
                (other,) = ln.in_other_buffers((statement,), found)
                assert isinstance(other, ln.For)
                return (dataclasses.replace(step, statement=other),)
            case _:
                return (step,)

    return of_step


FAULTS: Final[dict[str, Callable[[kn.Step], tuple[kn.Step, ...]]]] = {
    "no barrier in the loop": in_loop(without(kn.Barrier)),
    "no wait in the loop": in_loop(without(kn.Wait)),
    "no group in the loop": in_loop(without(kn.Commit)),
    "a barrier before the wait": in_loop(lambda steps: (*steps[:-2], steps[-1], steps[-2])),
    "a wait before the group": in_loop(lambda steps: (steps[-2], *steps[:-2], steps[-1])),
    "waits for one group fewer": later_wait,
    "no wait at all": lambda step: () if isinstance(step, kn.Wait) else (step,),
    "two rows of three": with_rows(2),
}


@pytest.mark.parametrize("name", FAULTS)
def test_fault_in_a_kernel_is_not_proved_and_trapped(name: str) -> None:
    kernels = with_steps(made().kernels, FAULTS[name])
    assert not races.report(kernels)
    with pytest.raises(Trap):
        _ = [agrees(kernels, n, 32) for n in (2, 6)]


LOOP_END: Final = (
    "wait_for_copies<1>();\n        __syncthreads(); /* the next row that was filled ahead has arrived */\n"
)
IN_TEXT: Final[dict[str, tuple[str, str]]] = {
    "no barrier": (LOOP_END, "wait_for_copies<1>();\n"),
    "no wait": (LOOP_END, "__syncthreads();\n"),
    "a barrier before the wait": (LOOP_END, "__syncthreads();\n        wait_for_copies<1>();\n"),
    "waits for one group fewer": ("wait_for_copies<1>", "wait_for_copies<2>"),
    "a row that is read": ("(po + 2) % 3", "(po + 3) % 3"),
    "another row than is copied": ("t[(po % 3", "t[((po + 1) % 3"),
    "two rows of three": (" % 3", " % 2"),
    "one row ahead": ("ahead < 2;", "ahead < 1;"),
    "copies beyond the last row": ("if (po + 2 < n)", "if (1)"),
    "beyond the rows of x": ("if (ahead < n)", "if (1)"),
    "no zeros": ("4 * jo < m", "4 * jo < m + 4"),
    "not aligned": ("+ 4 * jo],", "+ 4 * jo + 1],"),
    "no group": ("commit_copies();\n        {", "{"),
}


@needs_compiler
@pytest.mark.sampled
@pytest.mark.parametrize("name", IN_TEXT)
def test_shim_finds_a_fault_in_the_text(name: str, tmp_path: Path) -> None:
    old, new = IN_TEXT[name]
    source = made().source
    assert old in source
    run = Shimmed(build([source.replace(old, new)], tmp_path), made().nest)
    with pytest.raises(Finding):
        _ = [shim_agrees(run, n, m) for n, m in ((1, 8), (2, 32), (6, 28))]


# -- large shared memory ----------------------------------------------------------------------------------------------

LARGE: Final = """f (x : float32[4096*n]) : float32[32] :=
  flatten ⊞[b < 1 | block.x]
    let acc | registers :=
      Σ[po < n]
        let t | shared 4 stages := flatten ⊞[o < 32] flatten ⊞[jo < 32 | thread.x] ⊞[ji < 4 | vector]
          x[4096*po + 128*o + 4*jo + ji]
        in ⊞[j < 32 | thread.x] Σ[q < 128] t[32*q + 31 - j]
    in ⊞[j < 32 | thread.x] acc[j]
"""


@needs_compiler
@pytest.mark.long
def test_memory_beyond_48_kilobytes_is_allocated_at_the_launch(tmp_path: Path) -> None:
    kernel = made(LARGE)
    assert "extern __shared__ __align__(16) unsigned char shared_memory[];" in kernel.source
    assert "how.dynamicSmemBytes = 65536;" in kernel.source
    x = np.random.default_rng(1).integers(-4, 5, 4096 * 5).astype("float32")
    want = x.reshape(-1, 32).sum(0)[::-1]
    run = Shimmed(build([kernel.source], tmp_path, "right"), kernel.nest)
    assert np.array_equal(run("f", {"n": 5}, {"x": x}, (32,)), want)
    too_much = "cudaFuncAttributeMaxDynamicSharedMemorySize, 300000"
    without = kernel.source.replace("cudaFuncAttributeMaxDynamicSharedMemorySize, 65536", too_much)
    run = Shimmed(build([without], tmp_path, "wrong"), kernel.nest)
    with pytest.raises(Finding, match="error 1"):
        run("f", {"n": 5}, {"x": x}, (32,))


def test_more_than_a_block_has_is_refused() -> None:
    with pytest.raises(UnsupportedMark) as error:
        made(LARGE.replace("4096", "16384").replace("o < 32]", "o < 128]").replace("q < 128", "q < 512"))
    assert "at most 232448 bytes in total; this kernel has t (262144)" in str(error.value)


# -- refusals ---------------------------------------------------------------------------------------------------------


def test_let_outside_of_one_loop_is_refused() -> None:
    with pytest.raises(IllegalMark, match="it is not directly within one sequential loop of the kernel"):
        made(TEXT.replace("Σ[po < n]", "Σ[po < n] Σ[r < 2]"))


def test_fills_that_depend_on_the_iteration_before_are_refused() -> None:
    first = "let u | shared := ⊞[q < 2 | thread.y] ⊞[j < 32 | thread.x] [j < m] · x[2*po + q, j] in let t |"
    text = TEXT.replace("let t |", first).replace("[4*jo + ji < m] · x[2*po + q, 4*jo + ji]", "u[q, 4*jo + ji]")
    with pytest.raises(IllegalMark, match="the statement that fills it reads u, which the kernel changes"):
        made(text)


def test_lets_of_one_loop_have_the_same_stages() -> None:
    other = "let u | shared 2 stages := ⊞[q < 2 | thread.y] ⊞[j < 8 | thread.x] [j < m] · x[2*po + q, j] in let t |"
    text = TEXT.replace("let t |", other).replace("Σ[q < 2] t[q,", "Σ[q < 2] u[q, j] * t[q,")
    with pytest.raises(IllegalMark, match="u is marked shared 2 stages") as error:
        made(text)
    assert "the same number of stages as u" in str(error.value)


def test_only_shared_lets_have_stages() -> None:
    s = atl.reschedule(atl.parse(TEXT))
    for mark, stages in (("registers", 2), ("shared", 5), ("shared", 0)):
        with pytest.raises(InvalidArgument, match=f"stages={stages} of the mark '{mark}'") as error:
            s.mark("t", mark, stages=stages)
        assert "2, 3 or 4 stages of the mark shared" in str(error.value)
    with pytest.raises(UnsupportedMark, match="marked shared 3 stages, which the C target does not support"):
        atl.compile(atl.parse(TEXT.replace("| block.x", "").replace("| thread.y", "").replace("| thread.x", "")))


def test_vectors_of_16_bits_are_stored_one_by_one() -> None:
    text = "f (x : float16[n]) : float16[n] given n % 1024 = 0 := flatten ⊞[b < n // 1024 | block.x] flatten "
    kernel = made(text + "⊞[t < 128 | thread.x] ⊞[v < 8 | vector] x[1024*b + 8*t + v]")
    assert "for (index_t v = 0; v < 8; v++)" in kernel.source
