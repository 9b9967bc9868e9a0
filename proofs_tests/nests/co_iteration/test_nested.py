"""Nested merges: matching rows, and matching entries within them."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain, combinations, product
from typing import Any, Final

import numpy as np
import pytest

import atl
import lowering.nest.marked_loops
from atl.core.program import Program
from atl.errors import IllegalMark
from lowering import compile as compiled
from lowering import lower, print_nest
from lowering.nest.interpreter import run
from lowering.nest.obligations import report
from proofs_tests.nests.co_iteration.programs import with_all_sums_marked

KEYS: Final = 2
Rows = dict[int, tuple[int, ...]]


def side(name: str) -> tuple[atl.Tensor, atl.Tensor, atl.Tensor, atl.Tensor]:
    """Return a matrix by its rows with entries: their keys, beginnings, keys of entries, and values."""
    count, entries = atl.sizes(f"{name}_rows {name}_entries")
    row = atl.tensor(f"{name}_row", count, dtype="int64", range=(0, KEYS), monotonic="increasing")
    pos = atl.tensor(f"{name}_pos", count + 1, dtype="int64", range=(0, entries + 1))
    key = atl.tensor(f"{name}_key", entries, dtype="int64", range=(0, KEYS), monotonic=("increasing", pos))
    return row, pos, key, atl.tensor(f"{name}_val", entries)


def elementwise() -> Program:
    """Return the element-wise product of two such matrices as a dense matrix."""
    (a_row, a_pos, a_key, a), (b_row, b_pos, b_key, b) = side("a"), side("b")

    def entries(p: atl.IndexExpr, q: atl.IndexExpr) -> atl.Tensor:
        return atl.sum(
            (a_pos[p], a_pos[p + 1]),
            lambda r: atl.place(
                KEYS,
                a_key[r],
                atl.sum((b_pos[q], b_pos[q + 1]), lambda t: atl.guard(a_key[r] == b_key[t], a[r] * b[t])),
            ),
        )

    body = atl.sum(
        a_row.shape[0],
        lambda p: atl.place(
            KEYS, a_row[p], atl.sum(b_row.shape[0], lambda q: atl.guard(a_row[p] == b_row[q], entries(p, q)))
        ),
    )
    return with_all_sums_marked(atl.program("product", [*side("a"), *side("b")], body), "merge")


def subsets() -> list[tuple[int, ...]]:
    return list(chain.from_iterable(combinations(range(KEYS), count) for count in range(KEYS + 1)))


def matrices() -> Iterator[Rows]:
    """Return all small matrices, including stored empty rows."""
    for rows in subsets():
        for held in product(subsets(), repeat=len(rows)):
            yield dict(zip(rows, held, strict=True))


def arrays(name: str, matrix: Rows, unit: float) -> tuple[dict[str, Any], Any]:
    """Return the arguments of a call and the dense matrix; each value identifies its position."""
    held = [(i, j) for i, keys in matrix.items() for j in keys]
    values = np.float32(unit) * np.arange(1, len(held) + 1, dtype=np.float32)
    dense = np.zeros((KEYS, KEYS), np.float32)
    for at, value in zip(held, values, strict=True):
        dense[at] = value
    made = {
        f"{name}_row": np.array(list(matrix), np.int64),
        f"{name}_pos": np.cumsum([0, *map(len, matrix.values())]),
        f"{name}_key": np.array([j for _, j in held], np.int64),
        f"{name}_val": values,
    }
    return made, dense


@pytest.mark.long
def test_small_nested_merges_agree_with_their_sums() -> None:
    kernel, nest = compiled(elementwise()), lower(elementwise())
    for first, second in product(matrices(), repeat=2):
        (a, one), (b, another) = arrays("a", first, 1.0), arrays("b", second, 8.0)
        assert (kernel(**a, **b) == one * another).all()
        sizes = {f"{name}_{what}": len(of[f"{name}_{key}"]) for name, of in (("a", a), ("b", b)) for what, key in NAMED}
        assert (run(nest, sizes, {**a, **b}) == one * another).all()


NAMED: Final = (("rows", "row"), ("entries", "key"))


def test_inner_merge_is_placed_inside_the_outer_one() -> None:
    nest = lower(elementwise())
    assert print_nest(nest).splitlines()[3:] == [
        "    merge p in 0..a_rows by a_row[p]; q in 0..b_rows by b_row[q]:",
        "        merge r in a_pos[p]..a_pos[p + 1] by a_key[r]; t in b_pos[q]..b_pos[q + 1] by b_key[t]:",
        "            out[a_row[p], a_key[r]] += a_val[r] * b_val[t]",
    ]
    assert [obligation.buffer for obligation in report(nest).proved if obligation.kind == "order"] == list("pqrt")


def test_single_merge_of_all_four_positions_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Plant a fault: inner positions are not distinguished from outer ones."""
    monkeypatch.setattr(lowering.nest.marked_loops, "_begins", lambda *_: False)
    with pytest.raises(IllegalMark, match="the range of r depends on p"):
        lower(elementwise())
