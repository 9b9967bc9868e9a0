"""Proofs by isl for all sizes, and its limits (if isl is installed)."""

from __future__ import annotations

import pytest

import atl
from atl.errors import InvalidArgument
from atl.prove import Proved, Refuted, Unknown
from layouts import Chain, Layout, NoLayout, Relation, equal, injective
from layouts.proofs import relation

pytest.importorskip("islpy", reason="isl, which is not needed: pip install 'atl-tensor[isl]'")
N, M = atl.sizes("N M")

OVERLAPPING = Layout((2, 3, N), (3, 2, 8))
"""Injective for every N, though its strides have no order."""


def test_isl_proves_unordered_strides_injective() -> None:
    assert injective(OVERLAPPING) == Proved("isl")
    assert isinstance(injective(Layout((2, 3, N), (3, 2, 5))), Refuted)


def test_isl_uses_facts() -> None:
    open_ended = Layout((N, M), (2, 3))
    assert isinstance(injective(open_ended), Refuted)
    assert injective(Layout((N, M), (2, 3), given=[N <= 3, M <= 2])) == Proved("isl")


def test_layouts_that_merge_are_equal() -> None:
    a, b = Layout((2, N), (3, 6)), Layout(2 * N, 3)
    assert isinstance(equal(a, b), Proved)
    one, other = (Relation(Chain(part, Layout(2 * N))) for part in (a, b))
    assert one.is_equal(other)
    assert not one.is_equal(Relation(Chain(Layout((2, N), (3, 7)), Layout(2 * N))))


def test_relation_has_the_pairs_of_the_table() -> None:
    layout = Layout((4, 3), (5, 2))
    pairs = Relation(layout)
    assert pairs.count() == 12
    assert pairs.reverse().reverse().is_equal(pairs)
    assert not Relation(Layout((4, 3), (1, 2))).is_injective()


def test_products_of_sizes_are_beyond_isl() -> None:
    with pytest.raises(NoLayout, match=r"cannot express .*products"):
        Relation(Layout((N, M), (M, 1)))


def test_isl_is_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relation, "MAX_OPERATIONS", 10)
    assert isinstance(injective(OVERLAPPING), Unknown)


def test_relations_of_different_arity_are_refused() -> None:
    one, two = Relation(Layout(32, 1)), Relation(Layout((4, 8), (8, 1)))
    assert two.compose(one).is_equal(two)
    with pytest.raises(InvalidArgument, match="inner locations have 1 components, the outer digits 2"):
        one.compose(two)
    for operation in (one.union, one.intersect, one.subtract):
        with pytest.raises(InvalidArgument, match="cannot combine: 1 digits and 1 location components, with 2 and 1"):
            operation(two)
