"""Memory accesses by warps of shipped kernels: no bank conflicts, and the fewest sectors."""

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any, Final

import pytest

import atl
from examples import gpu
from layouts import skewed, swizzled
from lowering import compile as compile_program
from proofs_tests.gpu.shim.counts import Count, counts
from proofs_tests.gpu.shim.run import COMPILER, Shimmed
from proofs_tests.gpu.test_gpu_kernels import Sizes, arrays_for, same
from rewrites import Session, reschedule

pytestmark = pytest.mark.skipif(
    COMPILER is None or shutil.which("addr2line") is None, reason="no C++ compiler, or no addr2line"
)

COUNTED: Final[dict[str, tuple[Callable[[], Session], Sizes]]] = {
    "product": (gpu.product, {"n": 128, "m": 128, "k": 32}),
    "transpose": (gpu.transpose, {"n": 64, "m": 64}),
    "blur": (gpu.blur_in_tiles, {"n": 16, "m": 64}),
    "row sums by blocks": (gpu.row_sums_by_blocks, {"n": 4, "m": 256}),
    "row sums by warps": (gpu.row_sums_by_warps, {"n": 8, "m": 64}),
    "softmax by warps": (gpu.softmax_by_warps, {"n": 8, "m": 64}),
    "whole sum": (gpu.whole_sum_in_two_launches, {"n": 64, "m": 256}),
}

MORE: Final[dict[tuple[str, str], str]] = {
    ("blur", "? v[(8 * yo + 8 * io + ii - 1) * m + 32 * xo + 32 * jo + ji - 1]"): "the border begins before the tile",
    (
        "blur",
        "= 1 <= 8 * yo + 8 * io + ii && 8 * yo + 8 * io + ii <= n",
    ): "lanes past the last column start the next row",
}
"""Accesses that cost more than necessary, with the reason."""


def counted(session: Session, sizes: Sizes, folder: Path) -> tuple[Count, ...]:
    kernel = compile_program(session.goal, target="cuda")
    arrays = arrays_for(session.goal, sizes)

    def run(library: Any) -> None:
        want = meaning(session, arrays)
        got = Shimmed(library, kernel.nest)(session.goal.name, sizes, arrays, want.shape)
        assert same(session.goal, got, want)

    return counts(kernel.source, folder, run)


def meaning(session: Session, arrays: dict[str, Any]) -> Any:
    if session.goal.name == "product":
        return arrays["A"] @ arrays["B"]  # exact for small integers; the interpreter is slow for a product
    return atl.evaluate(session.theorem.lhs, **arrays)


@pytest.mark.long
@pytest.mark.thinned(3)
@pytest.mark.parametrize("name", COUNTED)
def test_warps_access_memory_with_the_fewest_transactions(name: str, tmp_path: Path) -> None:
    session, sizes = COUNTED[name]
    found = counted(session(), sizes, tmp_path)
    assert found
    more = {(name, count.line) for count in found if count.conflicts}
    assert more == {known for known in MORE if known[0] == name}


def transposed_in_tiles() -> Session:
    n, m = atl.sizes("n m")
    a = atl.tensor("A", n, m)
    s = reschedule(atl.program("transposed", [a], atl.gen(m, n, lambda j, i: a[i, j])))
    return s.tile(["j", "i"], [32, 32]).stage("A[_, _]", at="io", name="tile")


def on_blocks(s: Session) -> Session:
    return s.mark("jo", "block.y").mark("io", "block.x").mark("tile", "shared")


@pytest.mark.long
def test_unpadded_tile_has_bank_conflicts_in_each_column(tmp_path: Path) -> None:
    s = on_blocks(transposed_in_tiles())
    s.mark("⊞[ji < 32] ⊞[ii < 32] [_] · A[_, _]", "thread.x").mark("⊞[ii < 32] [_] · A[_, _]", "thread.y")
    s.mark("⊞[ji < 32] ⊞[ii < 32] [_] · tile[_, _]", "thread.y").mark("⊞[ii < 32] [_] · tile[_, _]", "thread.x")
    (stored,) = (c for c in counted(s, {"n": 32, "m": 32}, tmp_path) if (c.memory, c.how) == ("shared", "write"))
    assert (stored.accesses, stored.cost, stored.fewest, stored.worst) == (32, 1024, 32, 31)
    (tmp_path / "padded").mkdir()  # a library at the same path would not be loaded again
    assert not any(c.conflicts for c in counted(s.pad_rows("tile"), {"n": 32, "m": 32}, tmp_path / "padded"))


@pytest.mark.long
@pytest.mark.parametrize(
    ("layout", "read"), [(skewed, "tile[_, _]"), (swizzled(32), "tile[_, _, _]")], ids=["skewed", "swizzled"]
)
def test_tile_stored_through_a_layout_has_no_conflicts(layout: Any, read: str, tmp_path: Path) -> None:
    s = on_blocks(transposed_in_tiles().store("tile", layout, loops="elements"))
    s.mark("Σ[ji < 32] _", "thread.x").mark("Σ[ii < 32] _", "thread.y")
    s.mark(f"⊞[ji < 32] ⊞[ii < 32] [_] · {read}", "thread.y").mark(f"⊞[ii < 32] [_] · {read}", "thread.x")
    found = counted(s, {"n": 33, "m": 32}, tmp_path)
    assert [c.worst for c in found if c.memory == "shared"] == [0, 0]
    assert all("+=" not in c.line for c in found)


def test_column_access_touches_a_sector_for_each_element(tmp_path: Path) -> None:
    program = atl.parse("f (x : float32[32, 32]) : float32[32, 32] := ⊞[i < 32 | block.x] ⊞[j < 32 | thread.x] x[j, i]")
    (read,) = (c for c in counted(reschedule(program), {}, tmp_path) if c.how == "read")
    assert (read.accesses, read.cost, read.fewest) == (32, 1024, 128)
