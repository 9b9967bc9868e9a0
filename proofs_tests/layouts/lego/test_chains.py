"""Random chains compared with the reference: locations, inverses, strides and proofs."""

from __future__ import annotations

from collections import Counter
from itertools import product
from random import Random

import numpy as np
import pytest

import atl
from atl.prove import Proved
from layouts import Layout, NoLayout, bijective, equal, injective
from layouts.foundation.function import Function
from layouts.lego import Col, GenP, GroupBy, RegP, Row, TileBy
from layouts.lego import group_by as digits_of
from proofs_tests.layouts.lego.reference import any_chain, flat, unflat

M, K, BM, BK, i, k, p = atl.sizes("M K BM BK i k p")


@pytest.mark.long
def test_chains_agree_with_their_definitions() -> None:
    came: Counter[str] = Counter()
    for seed in range(300):
        made, by_hand = any_chain(Random(seed))
        elements = list(product(*map(range, by_hand.view)))
        places = [by_hand.apply(element) for element in elements]
        assert [made.apply(element) for element in elements] == places, made
        assert made.table().tolist() == places
        assert sorted(places) == list(range(len(places)))
        assert [made.inv(place) if len(by_hand.view) > 1 else (made.inv(place),) for place in places] == elements
        assert isinstance(injective(made), Proved)
        assert isinstance(bijective(made), Proved)
        columns = tuple(np.asarray(column) for column in zip(*elements, strict=True))
        assert made.apply(columns).tolist() == places
        try:
            strides = made.strides()
        except NoLayout:
            came["a function"] += 1
            continue
        came["strides" if isinstance(strides, Layout) else "a chain"] += 1
        assert [strides(element) for element in elements] == places
    assert min(came[kind] for kind in ("strides", "a chain", "a function")) >= 8


def test_symbolic_digits_agree_at_every_element() -> None:
    for seed in range(60):
        made, by_hand = any_chain(Random(1000 + seed))
        if any(isinstance(each, GenP) for link in made.chain for each in link.permutations):
            continue
        names = [f"x{place}" for place in range(len(by_hand.view))]
        place = made.apply(*(atl.sizes(name) for name in names))
        back = made.inv(p)
        for element in product(*map(range, by_hand.view)):
            at = by_hand.apply(element)
            assert value(place, dict(zip(names, element, strict=True))) == at
            found = [value(part, {"p": at}) for part in (back if isinstance(back, tuple) else (back,))]
            assert tuple(found) == element


def value(expression: atl.IndexExpr, sizes: dict[str, int]) -> int:
    """Return the value of an expression at these sizes."""
    return Layout(1, 0, offset=expression).where(**sizes).table().tolist()[0]  # type: ignore[no-any-return]


@pytest.mark.parametrize("order", [Row, Col])
def test_tiles_of_symbolic_size_need_no_quotient(order: type[RegP]) -> None:
    tiles = TileBy([M // BM, K // BK], [BM, BK], given=[M % BM == 0, K % BK == 0]).OrderBy(order(M, K))
    place = tiles.apply(i, k, 1, 2)
    assert "//" not in str(place)
    assert "%" not in str(place)
    part = tiles[i, k, :, :]
    sizes = {"M": 12, "K": 20, "BM": 3, "BK": 5}
    small = tiles.where(**sizes)
    assert isinstance(equal(small, small), Proved)
    for at in product(range(4), range(4)):
        row, column = np.arange(12).reshape(4, 3)[at[0]], np.arange(20).reshape(4, 5)[at[1]]
        flat_places = row[:, None] * 20 + column if order is Row else row[:, None] + 12 * column
        assert part.table(**sizes, i=at[0], k=at[1]).tolist() == flat_places.tolist()
        assert small[at[0], at[1], :, :].table().tolist() == flat_places.tolist()


def test_strides_of_symbolic_tiles() -> None:
    tiles = TileBy([M // BM, K // BK], [BM, BK], given=[M % BM == 0, K % BK == 0]).OrderBy(Row(M, K))
    strides = tiles.strides()
    assert str(strides) == "(M // BM,K // BK,BM,BK):(BM*K,BK,K,1)"
    assert isinstance(strides, Layout)


def test_program_ids_in_groups() -> None:
    """The paper's Fig. 1, with the missing condition that GM divides nt_m."""
    m, n, group, pid = atl.sizes("nt_m nt_n GM pid")
    groups = TileBy([m, n], given=[m % group == 0]).OrderBy(Col(m // group, 1), Col(group, n))
    at = groups.inv(pid)
    seen = set()
    for number in range(12 * 5):
        found = tuple(value(part, {"nt_m": 12, "nt_n": 5, "GM": 4, "pid": number}) for part in at)
        which, rest = divmod(number, 4 * 5)
        assert found == (which * 4 + rest % 4, rest // 4)
        seen.add(found)
    assert len(seen) == 60
    with pytest.raises(atl.errors.ATLError, match="equal sizes"):
        TileBy([m, n]).OrderBy(Col(m // group, 1), Col(group, n))


def test_a_fault_in_tile_digits_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    def wrong(left: digits_of.Digits, extent: int, known: object) -> object:
        part, held = left.pop()
        return part if held == extent else None

    monkeypatch.setattr(digits_of, "_taken", wrong)
    found = 0
    for seed in range(60):
        made, by_hand = any_chain(Random(seed))
        elements = product(*map(range, by_hand.view))
        found += any(made.apply(element) != by_hand.apply(element) for element in elements)
    assert found == 0, "unknown digits fall back to flat locations"
    monkeypatch.setattr(digits_of, "_taken", lambda left, _extent, _known: left.pop()[0])
    for seed in range(60):
        made, by_hand = any_chain(Random(seed))
        elements = product(*map(range, by_hand.view))
        try:
            found += any(made.apply(element) != by_hand.apply(element) for element in elements)
        except (IndexError, ValueError):
            found += 1
    assert found > 10


def test_views_are_functions_and_unflat_inverts_flat() -> None:
    view: Function = GroupBy([3, 4])
    assert [view(at) for at in range(12)] == list(range(12))
    assert all(unflat(flat((a, b), [3, 4]), [3, 4]) == [a, b] for a in range(3) for b in range(4))
