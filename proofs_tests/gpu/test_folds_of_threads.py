"""Reductions by threads: over the lanes of a warp, a whole block, and some of its axes."""

from pathlib import Path
from typing import Final

import pytest

import atl
from atl.errors import UnsupportedMark
from lowering import lower
from lowering.cuda.printer import print_cuda
from lowering.gpu.kernels import SHARED_BYTES
from lowering.gpu.outlining import kernels
from lowering.gpu.races import report
from lowering.nest.loopnest import LoopNest
from proofs_tests.gpu.shim.run import COMPILER, Finding, Shimmed, build
from proofs_tests.gpu.test_gpu_kernels import agree, arrays_for

OVER: Final = {
    "more than a warp along x": "{}[j < 48 | thread.x] x[i, j] + x[i, t]",
    "y alone": "{}[j < 6 | thread.y] x[i, j] - x[i, t]",
    "z and x": "{0}[j < 5 | thread.x] {0}[k < 2 | thread.z] x[i, j + k] - x[i, t]",
    "y twice": "({0}[j < 6 | thread.y] x[i, j] - x[i, t]) + {0}[j < 4 | thread.y] x[i, j + 2] + x[i, t]",
}
"""Reductions for each t of another axis."""
AXIS: Final = {"y alone": "x", "y twice": "x", "more than a warp along x": "y", "z and x": "y"}
MONOIDS: Final = (("Σ", "float32"), ("∏", "int32"), ("min", "float64"), ("max", "int64"))
needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler: printed kernels are not run here")


def text_of(over: str, monoid: str, dtype: str, name: str = "f") -> str:
    body = OVER[over].format(monoid)
    return f"{name} (x : {dtype}[n, 48]) : {dtype}[n, 3] := ⊞[i < n | block.x] ⊞[t < 3 | thread.{AXIS[over]}] {body}"


CASES: Final = [(over, monoid, dtype) for over in OVER for monoid, dtype in MONOIDS]


@pytest.mark.long
@needs_compiler
def test_reductions_over_some_axes_agree_with_their_programs(tmp_path: Path) -> None:
    programs = [atl.parse(text_of(*case, name=f"f{number}")) for number, case in enumerate(CASES)]
    made = [kernels(lower(program, target="cuda")) for program in programs]
    library = build([print_cuda(held) for held in made], tmp_path)
    for program, held in zip(programs, made, strict=True):
        agree(held, program, {"n": 2})
        agree(held, program, {"n": 2}, library)
        assert report(held)


IN_A_LOOP: Final = {
    "two side by side": "⊞[t < 1 | thread.y] (Σ[j < 40 | thread.x] x[i, j]) * (Σ[j < 40 | thread.x] x[i, j + t])",
    "one in each iteration": "Σ[q < 3] ⊞[t < 1 | thread.y] Σ[j < 40 | thread.x] x[i, j + q]",
    "after another": "let s := Σ[j < 40 | thread.x] x[i, j] in ⊞[t < 1 | thread.y] s * Σ[j < 40 | thread.x] x[i, j]",
}
"""Reductions of a block inside a loop of one thread: they are in one statement and share memory."""

ALONE: Final = [
    f"⊞[t < {width} | thread.x] {fold}[j < 1 | thread.y] x[i, j + t]"
    for width in (32, 40)
    for fold in ("Σ", "∏", "max", "min")
]
"""Reductions along an axis of one thread, next to threads along x that do not take part."""


@pytest.mark.long
@needs_compiler
@pytest.mark.parametrize("bodies", [list(IN_A_LOOP.values()), ALONE], ids=["in a loop of one thread", "of one thread"])
def test_reductions_with_an_axis_of_one_thread_agree(bodies: list[str], tmp_path: Path) -> None:
    extents = [body.partition("⊞[t < ")[2].partition(" ")[0] for body in bodies]
    heads = [f"f{number} (x : float32[n, 48]) : float32[n, {extent}]" for number, extent in enumerate(extents)]
    programs = [atl.parse(f"{head} := ⊞[i < n | block.x] {body}") for head, body in zip(heads, bodies, strict=True)]
    made = [kernels(lower(program, target="cuda")) for program in programs]
    library = build([print_cuda(held) for held in made], tmp_path)
    for program, held in zip(programs, made, strict=True):
        agree(held, program, {"n": 2}, library)


@pytest.mark.long
@needs_compiler
def test_every_barrier_of_a_reduction_is_needed(tmp_path: Path) -> None:
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


@pytest.mark.parametrize("cells", [58080, 58081, 58112])
def test_reduction_of_a_block_takes_shared_memory_for_each_warp(cells: int) -> None:
    text = (
        "f (x : float32[n, 48]) : float32[n] := ⊞[i < n | block.x] "
        f"let s | shared := ⊞[a < {cells} | unroll] x[i, 0] in Σ[j < 48 | thread.x] s[j] * x[i, j]"
    )
    nest = lower(atl.parse(text), target="cuda")
    if 4 * cells + 4 * 32 <= SHARED_BYTES:
        kernels(nest)
        return
    with pytest.raises(UnsupportedMark, match=rf"this kernel has s \({4 * cells}\), and 128 for folds"):
        kernels(nest)


def test_reductions_over_some_axes_count_as_shared_memory() -> None:
    text = (
        "f (x : float32[n, 48]) : float32[n, 3] := ⊞[i < n | block.x] "
        "let s | shared := ⊞[a < 57500 | unroll] x[i, 0] in ⊞[t < 3 | thread.y] Σ[j < 48 | thread.x] s[j] * x[i, t]"
    )
    with pytest.raises(UnsupportedMark, match="the shared memory of a block is too small for s"):
        kernels(lower(atl.parse(text), target="cuda"))


def _folded_over_x(arrays: str) -> LoopNest:
    """Return a nest that reduces rows of several dtypes in four ways, by the threads of one of two axes."""
    folds = [f"{op}[j < 48 | thread.x] {name}[i, t, j]" for op in ("Σ", "Π", "max", "min") for name in arrays]
    text = " + ".join(f"cast(float64, {fold})" if " y[" not in fold else f"({fold})" for fold in folds)
    declared = {"x": "float32", "y": "float64", "u": "int64"}
    inputs = ", ".join(f"{name} : {declared[name]}[n, 3, 48]" for name in arrays)
    program = f"f ({inputs}) : float64[n, 3] := ⊞[i < n | block.x] ⊞[t < 3 | thread.y] {text}"
    return lower(atl.parse(program), target="cuda")


def test_reductions_need_shared_memory_of_their_own() -> None:
    kernels(_folded_over_x("xy"))  # 4 · 1024 · (4 + 8) bytes: all that a block has
    message = "the shared memory of a block is too small for 12 different folds over its threads"
    with pytest.raises(UnsupportedMark, match=message) as caught:
        kernels(_folded_over_x("xyu"))
    assert "the folds need 81920" in str(caught.value)
