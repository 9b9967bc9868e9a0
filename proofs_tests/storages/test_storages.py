"""Storages: proved for all sizes, compared with enumeration, and refused with a counterexample if faulty."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from itertools import product
from typing import Any, Literal

import numpy as np
import pytest

import atl
import layouts
from atl.core.index import Index, index, size
from atl.core.terms import Let
from atl.prove import Facts, Proved, Refuted, forget, statistics, without_smt
from atl.surface.reindexing import Reindexing
from proofs_tests.storages.storages import STORAGES, T, at_sizes, variables
from rewrites import reschedule
from rewrites.errors import NotInjective
from rewrites.tactics.reindexing.formulas import check_reindexing

N, M = size("n"), size("m")
POSITIVE = Facts().assume((T >= 1).node)


def stored(name: str) -> Reindexing:
    made = STORAGES[name]((N, M)).stored((N, M))
    assert isinstance(made, Reindexing)
    return made


@pytest.mark.parametrize("name", STORAGES)
def test_storages_are_injective_for_all_sizes(name: str) -> None:
    check_reindexing(stored(name), POSITIVE)
    layout = STORAGES[name]((N, M))
    if isinstance(layout, layouts.IndexFunction):
        assert isinstance(layouts.injective(layout, given=[T >= 1]), Proved)


@pytest.mark.parametrize("name", STORAGES)
def test_storages_agree_with_enumeration(name: str) -> None:
    made = stored(name)
    to, back = made.place(variables(2)), made.origin(variables(len(made.places)))
    for n, m, t in ((1, 1, 1), (4, 8, 2), (5, 3, 3), (2, 9, 7), (3, 0, 1)):
        sizes = {"n": n, "m": m, "T": t}
        extents = [at_sizes(extent, sizes) for extent in made.places]
        seen = set()
        for element in product(range(n), range(m)):
            place = tuple(at_sizes(formula, sizes, element) for formula in to)
            assert all(0 <= p < extent for p, extent in zip(place, extents, strict=True))
            assert tuple(at_sizes(formula, sizes, place) for formula in back) == element
            seen.add(place)
        assert len(seen) == n * m


def test_three_dimensional_storages_are_proved() -> None:
    shape = (N, M, size("k"))
    check_reindexing(layouts.blocked(2, 4, 8)(shape).stored(shape), Facts())
    check_reindexing(layouts.morton(8)(shape).stored(shape), Facts())


@pytest.mark.parametrize("way", [layouts.skewed, layouts.backwards, layouts.compact_antidiagonal, layouts.column_major])
def test_unpadded_storages_are_bijective(way: Callable[..., layouts.IndexFunction]) -> None:
    n, m = atl.sizes("n m")
    assert isinstance(layouts.bijective(way((n, m))), Proved)
    assert isinstance(layouts.bijective(way((n, m)), 2 * n * m), Refuted)


def test_compact_antidiagonals_are_contiguous() -> None:
    for n, m in ((1, 1), (4, 4), (3, 5), (7, 2)):
        layout = layouts.compact_antidiagonal((n, m))
        assert sorted(layout.table().tolist()) == list(range(n * m))
        neighbours = [(i, j) for i, j in product(range(n - 1), range(1, m))]
        assert all(layout(i + 1, j - 1) == layout(i, j) + 1 for i, j in neighbours)
    program = atl.parse("f (A : float32[n, m]) : float32[n, m] := 2 * A")
    assert "⊞[d < m] ⊞[i < n] A[i, (d - i) % m]" in str(reschedule(program).store("A", layouts.compact_antidiagonal))


@pytest.mark.parametrize("loops", ["places", "elements"])
def test_sheared_storage_holds_the_diagonals_of_shear(loops: Literal["places", "elements"]) -> None:
    program = atl.parse("f (A : float32[n, m, 2]) : float32[n, m, 2] := 2 * A")
    s = reschedule(program).store("A", layouts.sheared, loops=loops)
    let = s.goal.body
    assert isinstance(let, Let)
    n, m = atl.sizes("n m")
    matrix = atl.tensor("A", n, m, 2)
    sheared = atl.program("diagonals", [matrix], atl.shear(matrix))
    stored = atl.Program("stored", sheared.inputs, let.value)
    for at in ((1, 1), (3, 5), (5, 2), (4, 4), (1, 6), (6, 1)):
        given = np.arange(1, 2 * at[0] * at[1] + 1, dtype=np.float32).reshape(*at, 2)
        assert np.array_equal(atl.evaluate(stored, A=given), atl.evaluate(sheared, given))


def test_loops_stay_those_of_the_matrix_where_storage_is_sheared() -> None:
    program = atl.parse("f (A : float32[n, m]) : float32[n, m] := 2 * A")
    s = reschedule(program).store("A", layouts.sheared, loops="elements")
    assert "Σ[i < n] Σ[j < m] place" in " ".join(str(s.goal).split())


@pytest.mark.parametrize("off", [(0, 1), (1, 0)])
def test_sheared_storage_with_a_wrong_row_is_refused(off: tuple[int, int]) -> None:
    def wrong(shape: Sequence[Any]) -> layouts.IndexFunction:
        right = layouts.sheared(shape)

        def to(i: Any, j: Any) -> tuple[Any, ...]:
            d, r = right.to(i, j)
            return d + off[0], r + off[1]

        return layouts.IndexFunction(right.shape, to, right.inverse, onto=right.onto, name="wrong")

    with pytest.raises(NotInjective):
        reschedule(atl.parse("f (A : float32[n, m]) : float32[n, m] := 2 * A")).store("A", wrong)


def test_six_digit_storage_needs_few_queries() -> None:
    # A few milliseconds in all.
    shape = (N, M, size("k"))
    made = layouts.blocked(2, 4, 8)(shape).stored(shape)
    forget()
    before = statistics.snapshot()
    check_reindexing(made, Facts())
    counts = statistics.since(before)
    assert 15 <= counts.trivial + counts.linear <= 30
    assert counts.search == counts.z3 == counts.z3_refuted == counts.unknown == 0


@pytest.mark.parametrize(
    ("extent", "copies", "what"),
    [
        (N * N + M * M - 2 * N * M + N + 1, False, "that the places have extents"),
        (N * N * N + 1, True, "that each element has a place within the extents"),
        (N * N * N + 1, False, "that each element has a separate place"),
    ],
    ids=["extents", "places", "inverse"],
)
def test_unproved_requirement_is_named(extent: Index, copies: bool, what: str) -> None:
    # z3 proves the first one.
    made = Reindexing((N,), (extent,), lambda i: (i * i * i,), lambda p: (p,))
    with without_smt(), pytest.raises(NotInjective, match=f"it is not proved {what}"):
        check_reindexing(made, Facts(), copies=copies)


Fault = Callable[[Reindexing], Reindexing]


def _one_place(made: Reindexing) -> Reindexing:
    """Drop the last digit in `to`."""
    return Reindexing(made.shape, made.places, lambda *at: (*made.to(*at)[:-1], 0), made.inverse)


def _next_place(made: Reindexing) -> Reindexing:
    """Shift the last digit in `to`."""
    return Reindexing(made.shape, made.places, lambda *at: (*made.to(*at)[:-1], made.to(*at)[-1] + 1), made.inverse)


def _next_element(made: Reindexing) -> Reindexing:
    """Shift the inverse to the neighbour."""
    back = made.inverse
    assert back is not None
    return Reindexing(made.shape, made.places, made.to, lambda *at: (back(*at)[0], back(*at)[1] + 1))


def _short(made: Reindexing) -> Reindexing:
    """Make an extent too small."""
    tight = [extent - 1 if extent.constant != 2 else index(1) for extent in made.places[:1]]
    return Reindexing(made.shape, (*tight, *made.places[1:]), made.to, made.inverse)


FAULTS: dict[str, Fault] = {"to": _one_place, "there": _next_place, "back": _next_element, "extent": _short}


@pytest.mark.parametrize("fault", FAULTS)
@pytest.mark.parametrize("name", STORAGES)
def test_planted_faults_are_refused_with_a_counterexample(name: str, fault: str) -> None:
    whole, made = stored(name), FAULTS[fault](stored(name))
    with pytest.raises(NotInjective) as refused:
        check_reindexing(made, POSITIVE)
    text = refused.value.summary
    shown = refused.value.numbers
    assert shown is not None
    assert not isinstance(shown, str)
    numbers = {"T": 1, "n": 0, "m": 0} | {name: int(str(value)) for name, value in shown.items()}
    if "extents of the places are not well-defined" in text:
        assert fault == "extent"
        assert at_sizes(made.places[0], numbers) < 0
        return
    to, back = made.place(variables(2)), made.origin(variables(len(made.places)))
    points = [tuple(map(int, found.split(", "))) for found in re.findall(r"\((-?\d[^)]*)\)", text)]
    if text.startswith("the elements"):
        one, other, place = points
        assert one != other
        for element in (one, other):
            assert 0 <= element[0] < numbers["n"]
            assert 0 <= element[1] < numbers["m"]
            assert tuple(at_sizes(formula, numbers, element) for formula in to) == place
    else:
        assert "lost" in text, text
        place = tuple(at_sizes(formula, numbers, points[0]) for formula in to)
        inside = all(0 <= p < at_sizes(extent, numbers) for p, extent in zip(place, made.places, strict=True))
        came = tuple(at_sizes(formula, numbers, place) for formula in back)
        assert not inside or came != points[0]
    check_reindexing(whole, POSITIVE)


def test_invalid_storages_are_refused() -> None:
    with pytest.raises(layouts.LayoutError, match="the extent of a tile is 0"):
        layouts.blocked(0)
    for wrong in (3, 0, 2048, 4.0):
        with pytest.raises(atl.errors.InvalidArgument, match="a power of two"):
            layouts.morton(wrong)  # type: ignore[arg-type]
    with pytest.raises(layouts.LayoutError, match="swizzled of a tensor with 1 dimension"):
        layouts.swizzled(4)((N,))
    with pytest.raises(atl.errors.InvalidArgument, match="chunk=0"):
        layouts.swizzled(4, 0)


def test_layout_of_another_shape_is_refused() -> None:
    program = atl.parse("f (A : float32[n, m]) : float32[n, m] := 2 * A")
    with pytest.raises(atl.errors.InvalidArgument, match="the layout is for m x n elements, the tensor has n x m"):
        reschedule(program).store("A", STORAGES["skewed"]((M, N)))
