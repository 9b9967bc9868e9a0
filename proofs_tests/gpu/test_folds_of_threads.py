"""Threads that fold a value of each into one: over lanes of a warp, a whole block, and some of its axes."""

from __future__ import annotations

from pathlib import Path
from typing import Final

import numpy as np
import pytest

import atl
from atl.errors import UnsupportedMark
from lowering import lower
from lowering.cuda.printer import print_cuda
from lowering.gpu import interpreter
from lowering.gpu.outlining import kernels
from lowering.gpu.races import report
from lowering.nest.loopnest import LoopNest
from proofs_tests.gpu.shim.run import COMPILER, Finding, Shimmed, build
from proofs_tests.gpu.test_gpu_kernels import arrays_for

OVER: Final = {
    "more than a warp along x": "{}[j < 48 | thread.x] x[i, j] + x[i, t]",
    "y alone": "{}[j < 6 | thread.y] x[i, j] - x[i, t]",
    "z and x": "{0}[j < 5 | thread.x] {0}[k < 2 | thread.z] x[i, j + k] - x[i, t]",
    "y twice": "({0}[j < 6 | thread.y] x[i, j] - x[i, t]) + {0}[j < 4 | thread.y] x[i, j + 2] + x[i, t]",
}
"""What is folded, and along which axes, for each t of another axis."""
AXIS: Final = {"y alone": "x", "y twice": "x", "more than a warp along x": "y", "z and x": "y"}
MONOIDS: Final = (("Σ", "float32"), ("∏", "int32"), ("min", "float64"), ("max", "int64"))


def text_of(over: str, monoid: str, dtype: str, name: str = "f") -> str:
    body = OVER[over].format(monoid)
    return f"{name} (x : {dtype}[n, 48]) : {dtype}[n, 3] := ⊞[i < n | block.x] ⊞[t < 3 | thread.{AXIS[over]}] {body}"


CASES: Final = [(over, monoid, dtype) for over in OVER for monoid, dtype in MONOIDS]


@pytest.mark.long
@pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler: no printed kernel is run here")
def test_folds_over_some_axes_are_those_that_are_meant(tmp_path: Path) -> None:
    programs = [atl.parse(text_of(*case, name=f"f{number}")) for number, case in enumerate(CASES)]
    made = [kernels(lower(program, target="cuda")) for program in programs]
    library = build([print_cuda(held) for held in made], tmp_path)
    for program, held in zip(programs, made, strict=True):
        arrays = arrays_for(program, {"n": 2})
        want = atl.evaluate(program, **arrays)
        assert np.array_equal(interpreter.run(held, {"n": 2}, arrays), want)
        assert np.array_equal(Shimmed(library, held.nest)(program.name, {"n": 2}, arrays, want.shape), want)
        assert report(held)


IN_A_LOOP: Final = {
    "two side by side": "⊞[t < 1 | thread.y] (Σ[j < 40 | thread.x] x[i, j]) * (Σ[j < 40 | thread.x] x[i, j + t])",
    "one again and again": "Σ[q < 3] ⊞[t < 1 | thread.y] Σ[j < 40 | thread.x] x[i, j + q]",
    "after one of all": "let s := Σ[j < 40 | thread.x] x[i, j] in ⊞[t < 1 | thread.y] s * Σ[j < 40 | thread.x] x[i, j]",
}
"""Folds of a whole block that stand within a loop of one thread: they are of one statement, and use the same memory."""

ALONE: Final = [
    f"⊞[t < {width} | thread.x] {fold}[j < 1 | thread.y] x[i, j + t]"
    for width in (32, 40)
    for fold in ("Σ", "∏", "max", "min")
]
"""Folds along an axis of one thread, beside threads along x of which they are none."""


@pytest.mark.long
@pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler: no printed kernel is run here")
@pytest.mark.parametrize("bodies", [list(IN_A_LOOP.values()), ALONE], ids=["in a loop of one thread", "of one thread"])
def test_folds_beside_axes_of_one_thread_are_those_that_are_meant(bodies: list[str], tmp_path: Path) -> None:
    extents = [body.partition("⊞[t < ")[2].partition(" ")[0] for body in bodies]
    heads = [f"f{number} (x : float32[n, 48]) : float32[n, {extent}]" for number, extent in enumerate(extents)]
    programs = [atl.parse(f"{head} := ⊞[i < n | block.x] {body}") for head, body in zip(heads, bodies, strict=True)]
    made = [kernels(lower(program, target="cuda")) for program in programs]
    library = build([print_cuda(held) for held in made], tmp_path)
    for program, held in zip(programs, made, strict=True):
        arrays = arrays_for(program, {"n": 2})
        want = atl.evaluate(program, **arrays)
        assert np.array_equal(Shimmed(library, held.nest)(program.name, {"n": 2}, arrays, want.shape), want)


@pytest.mark.long
@pytest.mark.skipif(COMPILER is None, reason="there is no C++ compiler: no printed kernel is run here")
def test_no_barrier_of_a_fold_over_some_axes_can_be_left_out(tmp_path: Path) -> None:
    program = atl.parse(text_of("y twice", "Σ", "float32"))
    held = kernels(lower(program, target="cuda"))
    source = print_cuda(held)
    arrays = arrays_for(program, {"n": 2})
    first, second, third = source.split("__syncthreads();")
    without_one = (f"{first};{second}__syncthreads();{third}", f"{first}__syncthreads();{second};{third}")
    for number, text in enumerate(without_one):
        library = build([text], tmp_path, f"without{number}")
        with pytest.raises(Finding, match=r"without a barrier|holds nothing"):
            Shimmed(library, held.nest)("f", {"n": 2}, arrays, (2, 3))


@pytest.mark.parametrize("cells", [12256, 12257, 12288])
def test_a_fold_of_a_whole_block_takes_a_place_for_each_warp(cells: int) -> None:
    text = (
        "f (x : float32[n, 48]) : float32[n] := ⊞[i < n | block.x] "
        f"let s | shared := ⊞[a < {cells} | unroll] x[i, 0] in Σ[j < 48 | thread.x] s[j] * x[i, j]"
    )
    nest = lower(atl.parse(text), target="cuda")
    if 4 * cells + 4 * 32 <= 48 * 1024:
        kernels(nest)
        return
    with pytest.raises(UnsupportedMark, match=rf"this kernel has s \({4 * cells}\), and 128 for folds"):
        kernels(nest)


def test_folds_over_some_axes_take_shared_memory_that_counts() -> None:
    text = (
        "f (x : float32[n, 48]) : float32[n, 3] := ⊞[i < n | block.x] "
        "let s | shared := ⊞[a < 12000 | unroll] x[i, 0] in ⊞[t < 3 | thread.y] Σ[j < 48 | thread.x] s[j] * x[i, t]"
    )
    with pytest.raises(UnsupportedMark, match="the shared memory of a block is too small for s"):
        kernels(lower(atl.parse(text), target="cuda"))


def _folded_over_x(arrays: str) -> LoopNest:
    """The sum, product, least and greatest of the rows of arrays of three types, by threads of one axis of two."""
    folds = [f"{op}[j < 48 | thread.x] {name}[i, t, j]" for op in ("Σ", "Π", "max", "min") for name in arrays]
    text = " + ".join(f"cast(float64, {fold})" if " y[" not in fold else f"({fold})" for fold in folds)
    declared = {"x": "float32", "y": "float64", "u": "int64"}
    inputs = ", ".join(f"{name} : {declared[name]}[n, 3, 48]" for name in arrays)
    program = f"f ({inputs}) : float64[n, 3] := ⊞[i < n | block.x] ⊞[t < 3 | thread.y] {text}"
    return lower(atl.parse(program), target="cuda")


def test_what_is_folded_through_needs_room_where_nothing_else_is_shared() -> None:
    kernels(_folded_over_x("xy"))  # 4 · 1024 · (4 + 8) bytes: just all that there are
    with pytest.raises(
        UnsupportedMark, match="the shared memory of a block is too small for 12 different folds over its threads"
    ) as told:
        kernels(_folded_over_x("xyu"))
    assert "the folds need 81920" in str(told.value)
