"""Bank conflicts: counts, proofs of absence, and swizzles that avoid them."""

from __future__ import annotations

from collections import Counter, defaultdict
from random import Random

import pytest

import layouts
from atl.prove import Proved, Refuted
from layouts.linear import banks, bits
from proofs_tests.layouts.linear import random_layouts

ROW, COLUMN = layouts.Layout(32, 32), layouts.Layout(32, 1)
"""32 lanes along a row and along a column of a 32 x 32 tile; the first index of the tile is the fastest."""


def rounds_by_hand(places: list[int], element: int, together: int) -> int:
    """Count the rounds of a request to 32 banks of 4 bytes."""
    total = 0
    for start in range(0, len(places), together):
        words = defaultdict(set)
        for place in places[start : start + together]:
            for byte in range(place * element, (place + 1) * element):
                words[byte // 4 % 32].add(byte // 4)
        total += max(map(len, words.values()))
    return total


def test_padding_or_skewing_removes_transpose_conflicts() -> None:
    plain = layouts.row_major((32, 32))
    assert layouts.bank_conflicts(plain, ROW).rounds == 1
    assert layouts.bank_conflicts(plain, COLUMN).rounds == 32
    assert layouts.bank_conflicts(layouts.Layout((32, 32), (33, 1)), COLUMN).rounds == 1
    swizzled = layouts.composition(layouts.Swizzle(5, 0, 5), plain)
    assert layouts.bank_conflicts(swizzled, COLUMN).ways == layouts.bank_conflicts(swizzled, ROW).ways == 1


def test_lanes_requesting_one_word_share_a_round() -> None:
    one = layouts.Layout(32, 0)
    assert layouts.bank_conflicts(layouts.row_major((32, 32)), one).rounds == 1
    halves = layouts.bank_conflicts(layouts.Layout(64), layouts.Layout(32), element=2)
    assert (halves.rounds, halves.least) == (1, 1)


@pytest.mark.parametrize("element", [1, 2, 4, 8, 16])
def test_counts_and_proofs_agree_with_enumeration(element: int) -> None:
    came: Counter[str] = Counter()
    for seed in range(120):
        random = Random(seed)
        storage = random_layouts.layout(random, {"at": 8}, {"place": 8})
        access = random_layouts.layout(random, {"lane": random.choice((3, 5))}, {"at": 8})
        counted = layouts.bank_conflicts(storage, access, element=element)
        together = 32 * 4 // max(element, 4)
        places = [storage(access(lane)) for lane in range(access.in_dims["lane"])]
        assert counted.rounds == rounds_by_hand(places, element, together)
        answer = layouts.conflict_free(storage, access, element=element)
        assert isinstance(answer, Proved) == (counted.ways <= 1), (storage, access)
        came[type(answer).__name__] += 1
        if isinstance(answer, Refuted):
            i, j = (places[answer.model.numbers[name]] * element // 4 for name in "ij")
            assert i != j
            assert i % 32 == j % 32
    assert all(count > 5 for count in came.values())
    assert len(came) == 2


def test_a_swizzle_for_two_accesses() -> None:
    chosen = layouts.swizzle_for(1024, ROW, COLUMN)
    assert chosen.swizzle == (5, 0, 5)
    assert [count.ways for count in (*chosen.plain, chosen.first, chosen.second)] == [32, 1, 1, 1]
    assert all(isinstance(proof, Proved) for proof in chosen.proofs)
    assert chosen.storage.columns == layouts.as_linear(layouts.Swizzle(5, 0, 5)).columns
    wide = layouts.swizzle_for(2048, layouts.Layout((8, 4), (64, 16)), layouts.Layout(32, 1), element=16)
    assert (wide.first.rounds, wide.second.rounds) == (wide.first.least, wide.second.least)
    assert layouts.swizzle_for(1024, COLUMN, COLUMN).swizzle == (0, 0, 0), "no swizzle if there are no conflicts"


@pytest.mark.parametrize("element", [2, 4, 8])
def test_any_two_linear_accesses_have_a_storage_without_conflicts(element: int) -> None:
    came: Counter[bool] = Counter()
    for seed in range(40):
        random = Random(seed)
        width = random.randint(5, 9)
        first, second = (random_layouts.layout(random, {"lane": random.randint(2, 5)}, {"at": width}) for _ in range(2))
        chosen = layouts.swizzle_for(1 << width, first, second, element=element)
        came[chosen.swizzle is None] += 1
        assert isinstance(layouts.bijective(chosen.storage), Proved)
        for access in (first, second):
            places = [chosen.storage(access(lane)) for lane in range(access.in_dims["lane"])]
            groups = -(-len(places) // (32 * 4 // max(element, 4)))
            assert rounds_by_hand(places, element, 32 * 4 // max(element, 4)) == groups
        if chosen.swizzle:
            assert chosen.storage.columns == tuple(
                int(layouts.Swizzle(*chosen.swizzle, 1 << width)(1 << bit)) for bit in range(width)
            )
    assert min(came[False], came[True]) >= 2


def test_faults_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bits, "complement", lambda first, _second, width: bits_of_units(first, width))
    monkeypatch.setattr(banks, "_swizzles", lambda _width: [])
    wrong = layouts.swizzle_for(1024, ROW, COLUMN)
    assert max(wrong.first.ways, wrong.second.ways) > 1
    assert not all(isinstance(proof, Proved) for proof in wrong.proofs)


def bits_of_units(space: list[int], width: int) -> list[int]:
    """Return a complement of one space only."""
    out: list[int] = []
    for bit in range(width):
        if bits.rank([*space, *out, 1 << bit]) > len(space) + len(out):
            out.append(1 << bit)
    return out


def test_nonlinear_functions_are_refused_with_an_index() -> None:
    with pytest.raises(layouts.NoLayout, match="is not linear over F2: at 3 it is"):
        layouts.as_linear(layouts.Layout(4, 3))
    with pytest.raises(layouts.NoLayout, match="powers of two"):
        layouts.as_linear(layouts.Layout((3, 4)))
    with pytest.raises(layouts.NoLayout, match="leaves the tile"):
        layouts.swizzle_for(16, ROW, COLUMN)
    with pytest.raises(layouts.NoLayout, match="at 0 it is"):
        layouts.as_linear(layouts.Layout(4, offset=1))


def test_the_picture_of_conflicts() -> None:
    picture = layouts.bank_conflicts(layouts.row_major((32, 32)), COLUMN).picture()
    assert picture.cells[0][0] == "32"
    assert picture.cells[0][1] == ""
    assert "rounds" in picture.title
    assert layouts.LinearLayout.identity_1d(4, "a", "o").strides() == layouts.Layout(
        (2, 2), layouts.as_linear(layouts.Layout(4)).strides().stride
    )
