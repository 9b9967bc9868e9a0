"""Vector accesses: used where elements are proved adjacent and aligned; otherwise refused or detected."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

import pytest

import atl
from atl.core.marks import LoopMark
from lowering import lower
from lowering.cuda.printer import print_cuda
from lowering.gpu import interpreter
from lowering.gpu.kernels import Kernels, Run, Wide, WideLoad, launches, steps_of
from lowering.gpu.outlining import kernels
from lowering.nest.execution import Trap
from lowering.nest.loopnest import For, statements
from lowering.nest.tiles import cells_of
from proofs_tests.gpu.shim.run import COMPILER, Finding, Shimmed, build
from proofs_tests.gpu.test_gpu_kernels import agree, arrays_for

HEAD: Final = "f (x : float32[n, k], y : float32[n, k]) : float32[n, k]"
BODY: Final = """:= ⊞[i < n | block.x] truncr (32*⌈k / 32⌉ - k) flatten ⊞[jo < ⌈k / 32⌉] flatten
  ⊞[t < 8 | thread.x] ⊞[v < 4 | vector]"""


def in_rows(element: str, given: str = " given k % 4 = 0", inside: str = "@ < k") -> str:
    """Return a program whose rows have this element where the index, written @, is inside."""
    return f"{HEAD}{given} {BODY} [{inside}] · {element}".replace("@", "32*jo + 4*t + v")


WIDE: Final[Mapping[str, tuple[str, int, bool]]] = {
    "rows of a multiple of four": (in_rows("2 * x[i, @]"), 1, True),
    "two operands": (in_rows("(x[i, @] + y[i, @])", " given k % 8 = 0"), 2, True),
    "reversed reads are single": (in_rows("x[i, k - 1 - 32*jo - 4*t - v]"), 0, True),
    "one row for all": (in_rows("x[i, @] * y[i, 0]"), 1, True),
    "one row twice": (in_rows("x[i, @] * x[i, @]"), 1, True),
    "one row under two conditions": (in_rows("(([t < 3] · x[i, @]) - ([5 <= t] · x[i, @]) + y[i, @])"), 1, True),
    "rows of any length": (in_rows("2 * x[i, @]", ""), 0, False),
    "rows of an even length": (in_rows("x[i, @]", " given k % 2 = 0"), 0, False),
    "a condition that differs": (in_rows("(([v < 3] · x[i, @]) + 1.0)"), 0, False),
    "one element further": (in_rows("x[i, @ + 1]", inside="@ + 1 < k"), 0, False),
    "a sum of four": (
        "f (x : float32[n, 8]) : float32[n] := ⊞[i < n | block.x] Σ[t < 2 | thread.x] Σ[v < 4 | vector] x[i, 4*t + v]",
        1,
        False,
    ),
    "pairs of doubles": (
        """f (x : float64[n, 64]) : float64[n, 64] :=
          ⊞[i < n | block.x] flatten ⊞[t < 32 | thread.x] ⊞[v < 2 | vector] 3 * x[i, 2*t + v]""",
        1,
        True,
    ),
    "integers through shared memory": (
        """f (x : int32[n, 64]) : int32[n, 64] := ⊞[i < n | block.x]
          let s | shared := flatten ⊞[t < 16 | thread.x] ⊞[v < 4 | vector] x[i, 4*t + v] in
          flatten ⊞[t < 16 | thread.x] ⊞[v < 4 | vector] s[60 - 4*t + v] + s[4*t + v]""",
        3,
        True,
    ),
}
"""Programs, with the number of vector loads and whether stores are vectors."""

needs_compiler = pytest.mark.skipif(COMPILER is None, reason="no C++ compiler: printed kernels are not run here")


def kernels_of(text: str) -> Kernels:
    return kernels(lower(atl.parse(text), target="cuda"))


@pytest.mark.sampled
@pytest.mark.parametrize("what", WIDE)
def test_accesses_proved_adjacent_use_vectors(what: str) -> None:
    text, loads, stores = WIDE[what]
    held = kernels_of(text)
    found = [wide for launch in launches(held.body) for wide in launch.wide.values()]
    assert sum(len(wide.loads) for wide in found) == loads
    assert any(wide.stores for wide in found) == stores
    sizes = {size: {"n": 3, "k": 40}[size] for size in held.nest.sizes}
    agree(held, held.nest.marks[0].program, sizes)


@pytest.mark.long
@needs_compiler
def test_vector_accesses_agree_with_their_programs(tmp_path: Path) -> None:
    programs = [atl.parse(text.replace("f (", f"f{at} (", 1)) for at, (text, _, _) in enumerate(WIDE.values())]
    held = [kernels(lower(program, target="cuda")) for program in programs]
    library = build([print_cuda(each) for each in held], tmp_path)
    for program, each in zip(programs, held, strict=True):
        for k in (8, 40, 64):
            agree(each, program, {size: {"n": 3, "k": k}[size] for size in each.nest.sizes}, library)


@pytest.mark.long
@needs_compiler
def test_misaligned_vector_access_is_found(tmp_path: Path) -> None:
    held = kernels_of(WIDE["rows of a multiple of four"][0])
    source = print_cuda(held).replace("&x[i * k", "&x[1 + i * k")
    library = build([source], tmp_path)
    arrays = arrays_for(held.nest.marks[0].program, {"n": 3, "k": 40})
    with pytest.raises(Finding, match=r"not aligned|not a multiple"):
        Shimmed(library, held.nest)("f", {"n": 3, "k": 40}, arrays, (3, 40))


def test_interpreter_traps_misaligned_vector_accesses() -> None:
    text, _, _ = WIDE["one element further"]
    held = kernels_of(text)
    (launch,) = launches(held.body)
    runs = [step.statement for step in steps_of(launch.body) if isinstance(step, Run)]
    (loop,) = (s for s in statements(tuple(runs)) if isinstance(s, For) and s.mark is LoopMark.VECTOR)
    (read,) = (cell for cell, stored in cells_of(loop.body) if not stored)
    claimed = Wide(4, (WideLoad(read, ()),), stores=False)
    planted = replace(held, body=(replace(launch, wide={loop.variable.uid: claimed}),))
    with pytest.raises(Trap, match=r"x from \d+ on is not aligned to 4 elements"):
        interpreter.run(planted, {"n": 3, "k": 40}, arrays_for(atl.parse(text), {"n": 3, "k": 40}))


def test_misaligned_arrays_are_an_error_of_the_call() -> None:
    source = print_cuda(kernels_of(WIDE["pairs of doubles"][0]))
    assert "const double2 x2 = *(const double2 *)&x[" in source
    test = "if ((uintptr_t)x % 16 != 0 || (uintptr_t)out % 16 != 0)\n        return (int)cudaErrorMisalignedAddress;"
    assert test in source


IN_TURNS: Final = """
f (x : float32[n, 4, 4]) : float32[n, 4, 4] := ⊞[b < n | block.x]
  let s := Σ[q < 3]
    let t | shared := ⊞[i < 4 | thread.y] ⊞[j < 2 | vector] x[b, i, q + j] in
    ⊞[i < 4 | thread.y] ⊞[j < 2 | vector] t[3 - i, j]
  in ⊞[i < 4 | thread.x] ⊞[j < 4 | thread.z] ([j < 2] · s[i, j]) + 1.0
"""


@pytest.mark.long
@needs_compiler
def test_only_the_storing_thread_executes_a_vector_loop(tmp_path: Path) -> None:
    """Barriers are derived for the storing thread; reads by other threads would race with the next store."""
    program = atl.parse(IN_TURNS)
    held = kernels(lower(program, target="cuda"))
    source = print_cuda(held)
    assert "if (threadIdx.x == 0 && threadIdx.z == 0) {" in source
    agree(held, program, {"n": 2}, build([source], tmp_path))
