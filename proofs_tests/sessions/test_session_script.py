"""Scripts of sessions: executed again, they derive the same goal. Reports of `optimize` follow `undo` and `redo`."""

from __future__ import annotations

from typing import Any

import pytest

import atl
from rewrites import Session, reschedule
from rewrites.derivation import Derivation

ROWS = "f (A : float32[n, k], x : float32[k]) : float32[n] :="
SUMS = atl.parse(f"{ROWS} ⊞[i < n] Σ[p < k] (2 * A[i, p] * x[p]) + 3 * A[i, p] * x[p]")


def _again(s: Session) -> Session:
    names: dict[str, Any] = {}
    exec(s.script(), names)
    made: Session = names["s"]
    return made


def swap(work: Derivation) -> None:
    """Swap the factors of the product: a * b → b * a."""
    work.rewrite("mul_comm", (0, 0))


def in_tiles(s: Session, by: int) -> None:
    """Tile the rows: ⊞[i < n] e → ⊞[io < _] ⊞[ii < by] e."""
    s.tile("i", by).mark("ii", "unroll")


@pytest.mark.parametrize(
    "call",
    [
        lambda s: s.do(swap),
        lambda s: s.apply(in_tiles, 4),
        lambda s: s.equal_to(atl.parse(f"{ROWS} ⊞[j < n] Σ[q < k] x[q] * A[j, q]")),
        lambda s: s.take(s.applicable()[0]),
        lambda s: s.sparsify("A", atl.CSR).rw("mul_comm"),
    ],
    ids=["do", "apply", "equal_to", "take", "methods"],
)
def test_script_of_any_call_derives_the_goal_again(call: Any) -> None:
    s = reschedule(atl.parse(f"{ROWS} ⊞[i < n] Σ[p < k] A[i, p] * x[p]"))
    call(s)
    assert s.steps
    assert str(_again(s).goal) == str(s.goal)


@pytest.mark.parametrize("layout", ["shard", "shard_result", "view", "assembled"])
def test_script_starts_from_the_program_of_the_last_layout(layout: str) -> None:
    parts, nb, m = atl.sizes("P nb m", min=1)
    rows = atl.tensor("A", parts * nb, m)
    s = reschedule(atl.program("twice", [rows], 2 * rows)).tile("j", 8)
    if layout == "assembled":
        s.assemble(atl.CSR)
    if layout in ("view", "assembled"):
        s.view("A", atl.column_major)
    else:
        s.shard("A", atl.shards(x=(0, parts, nb)))
    if layout == "shard_result":
        s.shard_result(atl.shards(x=(0, parts, nb)))
    again = _again(s.rw("mul_comm"))
    assert again.goal == s.goal
    assert again.theorem.lhs == s.theorem.lhs


@pytest.mark.long
def test_script_of_a_search_derives_the_goal_again() -> None:
    pytest.importorskip("egglog")
    s = reschedule(SUMS).auto(limit=2000)
    assert str(_again(s).goal) == str(s.goal)


def test_report_follows_undo_and_redo() -> None:
    s = reschedule(atl.parse(f"{ROWS} ⊞[i < n] Σ[p < k] A[i, p] * x[p]")).optimize()
    report = s.report
    assert report is not None
    assert s.undo().report is None
    assert s.redo().report is report


def test_check_refuses_nested_parallel_loops_as_compile_does() -> None:
    s = reschedule(
        atl.parse("f (x : float32[n, m]) : float32[n, m] := ⊞[i < n | parallel] ⊞[j < m | parallel] x[i, j]")
    )
    with pytest.raises(atl.UnsupportedMark) as refused:
        s.compile()
    assert [str(error) for error in s.check().diagnostics] == [str(refused.value)]
