"""Layouts over symbolic sizes: results hold at all sizes that satisfy the facts, and carry the facts."""

from __future__ import annotations

from collections.abc import Callable
from itertools import product
from random import Random
from typing import Any

import pytest

import atl
from atl.prove import Proved, Refuted, Unknown
from layouts import (
    Box,
    CannotTabulate,
    Chain,
    Coordinate,
    E,
    IndexFunction,
    Layout,
    NoLayout,
    Swizzle,
    bijective,
    coalesce,
    complement,
    composition,
    cosize,
    equal,
    injective,
    inverse,
    logical_divide,
    right_inverse,
    row_major,
    zipped_divide,
)

N, M, K, B = atl.sizes("N M K B")

COMPOSITIONS: list[tuple[str, Layout, Layout, list[object]]] = [
    ("rows of columns", Layout((N, M), (M, 1)), Layout((M, N), (N, 1)), []),
    ("a row", Layout((N, M), (M, 1)), Layout(M, N), []),
    ("a column", Layout((N, M), (M, 1)), Layout(N, 1), []),
    ("every second", Layout((2 * N, M), (M, 1)), Layout(N, 2), []),
    ("halves", Layout((4, N), (N, 1)), Layout((2, 2 * N), (1, 2)), []),
    ("tiles", Layout((N, M), (M, 1)), Layout((4, N // 4), (1, 4)), [N % 4 == 0]),
    ("tiles of B", Layout((N, M), (M, 1)), Layout((B, N // B), (1, B)), [N % B == 0, B >= 1]),
    ("across modes", Layout((4, N, M), (N * M, M, 1)), Layout(4 * N, 1), []),
    ("with an offset", Layout((N, M), (M, 1)), Layout(M, N, offset=2), [N >= 3]),
    ("three modes", Layout((N, M, K), (M * K, K, 1)), Layout((M, K), (N, N * M)), []),
]


@pytest.mark.parametrize(
    ("outer", "inner", "given"), [case[1:] for case in COMPOSITIONS], ids=[case[0] for case in COMPOSITIONS]
)
def test_symbolic_compositions_agree_at_sampled_sizes(outer: Layout, inner: Layout, given: list[object]) -> None:
    made = composition(outer, inner, given=given)
    assert isinstance(made, Layout), made.reason
    tried = 0
    for n, m, k, b in product((1, 2, 3, 4, 8, 12), (1, 2, 5), (1, 3), (1, 2, 4)):
        if n % 4 or n % b or n < 3:
            continue
        numbers = {"N": n, "M": m, "K": k, "B": b}
        placed = made.where(**numbers)
        one_after_another = Chain(outer.where(**numbers), inner.where(**numbers))
        assert placed.table().tolist() == one_after_another.table().tolist(), numbers
        tried += 1
    assert tried > 10
    for fact in given:
        assert isinstance(fact, atl.Condition)
        assert fact.node in made.known.facts.predicates, "the result carries what it rests on"


def test_unproved_condition_is_reported() -> None:
    made = composition(Layout((N, 8), (8, 1)), Layout((4, 2), (1, N)))
    assert not made.is_layout
    assert "4 divides N" in made.reason or "4 < N" in made.reason or "N divides" in made.reason
    with pytest.raises(NoLayout, match="N"):
        logical_divide(Layout((N, M), (M, 1)), Layout(4))


def test_a_fact_enables_a_composition() -> None:
    layout = Layout((N, M), (M, 1), given=[N % 4 == 0])
    assert str(zipped_divide(layout, (4, M))) == "((4,M),(N // 4,1)):((M,1),(4*M,0))"
    assert (N % 4 == 0).node in zipped_divide(layout, (4, M)).known.facts.predicates


def test_divisibility_prints_away() -> None:
    layout = Layout(K, 1, given=[K % B == 0, B >= 1])
    tiled = logical_divide(layout, Layout(B))
    assert str(tiled) == "(B,K // B):(1,B)"
    assert str(coalesce(tiled)) == "K:1"
    assert str(cosize(tiled)) == "K"


STORAGES: list[tuple[str, Layout]] = [
    ("column-major", Layout((N, M), (1, N))),
    ("blocked with constant tiles", Layout(((8, N), (8, M)), ((8, 64 * M), (1, 64)))),
    ("blocked with symbolic tiles", Layout(((K, N), (B, M)), ((B, K * B * M), (1, K * B)))),
    ("padded", Layout((N, M), (M + 1, 1))),
    ("bricks", Layout(((2, N), (4, M), (2, K)), ((8, 16 * M * K), (2, 16 * K), (1, 16)))),
    ("six modes", Layout((N, M, K, B, 3, 4), (M * K * B * 12, K * B * 12, B * 12, 12, 4, 1))),
]


@pytest.mark.parametrize("layout", [case[1] for case in STORAGES], ids=[case[0] for case in STORAGES])
def test_storages_are_injective_for_every_size(layout: Layout) -> None:
    assert injective(layout) == Proved("structure")
    back = inverse(layout)
    random = Random(0)
    for _ in range(10):
        numbers = {name: random.randint(1, 4) for name in "NMKB"}
        placed = layout.where(**numbers)
        undone = inverse(placed)
        assert undone(placed.table()).tolist() == list(range(len(placed.table())))
        if isinstance(back, Layout):
            assert equal(back.where(**numbers), undone) in (Proved("structure"), Proved("table"))


@pytest.mark.parametrize("layout", [case[1] for case in STORAGES], ids=[case[0] for case in STORAGES])
def test_a_planted_fault_causes_a_collision(layout: Layout) -> None:
    """The greatest stride becomes 1."""
    greatest = max(range(len(layout.modes)), key=lambda k: layout.where(N=3, M=5, K=2, B=7).modes[k][1])  # type: ignore[arg-type, return-value]
    strides = [d for _, d in layout.modes]
    smaller = [1 if k == greatest else d for k, d in enumerate(strides)]
    wrong = Layout(tuple(n for n, _ in layout.modes), tuple(smaller))
    answer = injective(wrong)
    assert isinstance(answer, Refuted)
    numbers = answer.model.numbers
    placed = wrong.where(**{name: value for name, value in numbers.items() if name.isupper()})
    one, other = (tuple(v for name, v in numbers.items() if name[0] == letter) for letter in "ij")
    assert one != other
    assert placed.at(one) == placed.at(other)


def test_column_major_is_onto_for_every_size() -> None:
    assert bijective(Layout((N, M), (1, N))) == Proved("structure")
    assert bijective(Layout((N, M), (M, 1)), N * M) == Proved("structure")
    answer = bijective(Layout((N, M), (M + 1, 1)))
    assert isinstance(answer, Refuted)
    assert inverse(Layout((N, M), (M, 1))) == Layout((M, N), (N, 1))


def test_equal_layouts_of_other_shapes_are_proved_equal() -> None:
    assert equal(Layout((4, N), (1, 4)), Layout((2, 2 * N), (1, 2))) == Proved("structure")
    four = Layout((4, N, 2), (N, 1, 4 * N))
    assert isinstance(equal(four, Layout((2, 2, N, 2), (N, 2 * N, 1, 4 * N))), Proved)
    assert isinstance(equal(row_major((N, M)), Layout((N, M))), Refuted)


def test_changed_strides_are_refuted_with_numbers() -> None:
    a = Layout((4, N), (N, 1))
    for wrong in (Layout((4, N), (N + 1, 1)), Layout((4, N), (N, 2)), Layout((4, N), (N, 1), offset=1)):
        answer = equal(a, wrong)
        assert isinstance(answer, Refuted)
        numbers = answer.model.numbers
        digits = tuple(numbers[name] for name in ("i0", "i1"))
        assert a.where(N=numbers["N"]).at(digits) != wrong.where(N=numbers["N"]).at(digits)


def test_complements_and_inverses_at_sampled_sizes() -> None:
    layout = Layout((4, N), (1, 4 * M), given=[M >= 1])
    rest = complement(layout, 4 * N * M)
    assert str(rest) == "M:4"
    for n, m in product((1, 2, 5), (1, 3)):
        numbers = {"N": n, "M": m}
        both = [a + b for a in layout.where(**numbers).table() for b in rest.where(**numbers).table()]
        assert sorted(both) == list(range(4 * n * m))
    assert str(right_inverse(Layout((N, M), (M, 1)))) == "(M,N):(N,1)"
    tiled = zipped_divide(Layout((N, M), (M, 1), given=[N % B == 0]), (B, M))
    assert str(complement(tiled, 2 * N * M)) == "2:M*N"
    tiles = zipped_divide(Layout((N, 8), (8, 1), given=[N % B == 0]), (B, 2))
    assert str(right_inverse(tiles)) == "(2,4,B,N // B):(B,2*N,1,2*B)"


def skewed(i: Any, j: Any) -> Any:
    return i, (i + j) % M


def unskewed(i: Any, j: Any) -> Any:
    return i, (j - i) % M


def bricks(i: Any, j: Any) -> Any:
    return i // 8, j // 4, i % 8, j % 4


def morton(i: Any, j: Any) -> Any:
    """Interleave the bits of both indices within tiles of four by four."""
    return i // 4, j // 4, i // 2 % 2, j // 2 % 2, i % 2, j % 2


def grouped(i: Any, j: Any) -> Any:
    """Group program ids by eight rows, column by column within a group."""
    return i // 8, j, i % 8


def boxed(*extents: object) -> Box:
    return Box(tuple(extents), row_major=True)  # type: ignore[arg-type]


TALL, WIDE = (N + 7) // 8, (M + 3) // 4
STORAGE_FUNCTIONS: dict[str, tuple[tuple[Any, ...], Callable[..., Any], Callable[..., Any], Box]] = {
    "padded pitch": ((N, M), lambda i, j: (i, j), lambda i, j: (i, j), boxed(N, M + 1)),
    "reversed": ((N,), lambda i: (N - 1 - i,), lambda p: (N - 1 - p,), boxed(N)),
    "skewed": ((N, M), skewed, unskewed, boxed(N, M)),
    "bricks with tails": (
        (N, M), bricks, lambda i, j, a, b: (8 * i + a, 4 * j + b), boxed(TALL, WIDE, 8, 4)
    ),
    "Morton in tiles": (
        (4 * N, 4 * M), morton, lambda i, j, a, b, c, d: (4 * i + 2 * a + c, 4 * j + 2 * b + d),
        boxed(N, M, 2, 2, 2, 2),
    ),
    "program ids in groups": ((8 * N, M), grouped, lambda i, j, k: (8 * i + k, j), boxed(N, M, 8)),
}  # fmt: skip
"""Storages by name: shape, function of digits, inverse, and box of locations."""


@pytest.mark.parametrize("name", STORAGE_FUNCTIONS)
def test_an_inverse_on_digits_proves_injectivity_for_every_size(name: str) -> None:
    shape, to, back, onto = STORAGE_FUNCTIONS[name]
    assert injective(IndexFunction(shape, to, back, onto=onto)) == Proved("linear")


@pytest.mark.sampled
@pytest.mark.parametrize("name", STORAGE_FUNCTIONS)
def test_faults_in_function_inverse_or_extent_are_not_proved(name: str) -> None:
    shape, to, back, onto = STORAGE_FUNCTIONS[name]

    def elsewhere(*digits: Any) -> Any:
        place = to(*digits)
        return (*place[:-1], 0 * place[-1])

    def wrongly(*place: Any) -> Any:
        digits = back(*place)
        return (*digits[:-1], digits[-1] + 1)

    small = boxed(*onto.extents[:-1], onto.extents[-1] - 1)
    tight = small if name != "padded pitch" else boxed(*onto.extents[:-1], onto.extents[-1] - 2)
    met = injective(IndexFunction(shape, elsewhere, back, onto=onto))
    assert isinstance(met, Refuted)
    numbers = met.model.numbers
    placed = IndexFunction(shape, elsewhere, onto=onto).where(**{k: v for k, v in numbers.items() if k.isupper()})
    one, other = (tuple(v for k, v in numbers.items() if k[0] == letter) for letter in "ij")
    assert one != other
    assert placed.at(one) == placed.at(other)
    for wrong in (IndexFunction(shape, to, wrongly, onto=onto), IndexFunction(shape, to, back, onto=tight)):
        assert not proved_by_the_inverse(wrong)


def proved_by_the_inverse(function: IndexFunction) -> bool:
    """Return whether injectivity is proved without isl, which ignores the inverse."""
    answer = injective(function)
    return isinstance(answer, Proved) and answer.layer != "isl"


def test_a_wrong_inverse_proves_nothing() -> None:
    right = IndexFunction((N, 16), lambda i, j: 17 * i + j, lambda p: (p // 17, p % 17))
    wrong = IndexFunction((N, 16), lambda i, j: 17 * i + j, lambda p: (p // 16, p % 16))
    assert proved_by_the_inverse(right)
    assert not proved_by_the_inverse(wrong)
    folded = IndexFunction(8, lambda i: i // 2, lambda p: (2 * p,))
    assert isinstance(injective(folded), Refuted)


def test_facts_given_with_a_query_are_used() -> None:
    meets = Layout((N, M), (1, 1))
    assert isinstance(injective(meets), Refuted)
    assert not isinstance(injective(meets, given=[N <= 1]), Refuted)
    a, b = Layout((4, N), (N, 1)), Layout((4, N), (3, 1))
    assert isinstance(equal(a, b), Refuted)
    assert isinstance(equal(a, b, given=[N == 3]), Proved)
    assert not isinstance(equal(Layout(N, M), Layout(N, 3 * M), given=[N <= 1]), Refuted)
    assert isinstance(bijective(Layout(N, M)), Refuted)
    assert not isinstance(bijective(Layout(N, M), given=[M == 1]), Refuted)
    broadcast = Layout((2, N), (0, 1))
    assert isinstance(injective(broadcast), Refuted)
    assert not isinstance(injective(broadcast, given=[N >= 5, N <= 4]), Refuted)


def test_symbolic_values_on_numeric_boxes_are_compared() -> None:
    pitch, turned = (IndexFunction((4, 4), to) for to in (lambda i, j: N * i + j, lambda i, j: j + i * N))
    wider = IndexFunction((4, 4), lambda i, j: (N + 1) * i + j)
    rows = Layout((4, 4), (N, 1))
    after = Chain(rows, Layout(16))
    assert isinstance(equal(pitch, turned), Proved)
    assert isinstance(equal(pitch, rows), Proved)
    assert isinstance(equal(after, rows), Proved)
    for other in (wider, Layout((4, 4), (M, 1))):
        answer = equal(pitch, other)
        assert isinstance(answer, Refuted)
        sizes_ = {name: value for name, value in answer.model.numbers.items() if name in "NM"}
        at = [answer.model.numbers[f"i{k}"] for k in range(2)]
        assert pitch.where(**sizes_)(*at) != other.where(**sizes_)(*at)
    for function in (pitch, after, composition(Swizzle(2, 0, 2), rows)):
        assert isinstance(injective(function), Refuted)
    assert not composition(pitch, Layout(4)).is_layout
    with pytest.raises(CannotTabulate, match="depend on symbolic sizes"):
        pitch.table()


@pytest.mark.parametrize(
    ("question", "why"),
    [
        (lambda: equal(IndexFunction((N,), lambda i: [3, 1][i % 2]), Layout(N)),
            "is not a formula over index expressions"),
        (lambda: equal(Layout((N, 2), (E(0), E(1))), IndexFunction((N, 2), lambda i, j: Coordinate((i, j)))),
            "the values are not index expressions"),
        (lambda: injective(composition(Swizzle(3, 3, 3), Layout((N, 8), (8, 1)))),
            "are not proved to be in the domain of Swizzle"),
        (lambda: injective(IndexFunction((N,), lambda i: (i, i), lambda x, y: (x,))), "is not a formula over index"),
    ],
    ids=["no formula", "coordinates", "domain", "the inverse is not proved"],
)  # fmt: skip
def test_unknown_answers_give_the_reason(question: Callable[[], object], why: str) -> None:
    found = question()
    assert isinstance(found, Unknown)
    assert why in found.reason


@pytest.mark.parametrize(
    ("function", "onto", "numbers"),
    [
        (Layout((N, 2), (E(0), 2 * E(1))), (N, 2), {"N": 2, "i0": 0, "i1": 1}),
        (Layout((N, 2), (-1 * E(0), E(1))), (N, 2), {"N": 2, "i0": 1, "i1": 0}),
        (Layout((2, 2), (E(0), E(0))), (4, 1), {"i0": 0, "i1": 1, "j0": 1, "j1": 0}),
    ],
    ids=["beyond", "below", "collides"],
)
def test_steps_that_collide_or_leave_the_box_are_not_bijective(function: Layout, onto: Any, numbers: object) -> None:
    found = bijective(function, onto)
    assert isinstance(found, Refuted)
    assert found.model.numbers == numbers


def test_negative_strides_may_leave_the_outer_domain() -> None:
    """Outside its domain, facts about the outer function prove nothing."""
    outer = IndexFunction((N,), lambda i: i, lambda x: (x,))
    within = injective(Chain(outer, Layout(N, -1, offset=N - 1, given=[N >= 2])))
    beyond = injective(Chain(outer, Layout(N, -1, offset=N - 2, given=[N >= 2])))
    assert isinstance(within, Proved)
    assert within.layer == "linear"
    assert isinstance(beyond, Unknown) or (isinstance(beyond, Proved) and beyond.layer == "isl")


def _cut(extent: Any, stride: Any, random: Random) -> list[tuple[Any, Any]]:
    """Return a mode, or two equivalent ones."""
    ways = {"2*N": [2, N], "4": [2, 2], "M*N": [M, N], "K*M": [K, M]}
    if str(extent) not in ways or random.random() < 0.3:
        return [(extent, stride)]
    first, second = random.sample(ways[str(extent)], 2)
    return [(first, stride), (second, stride * first)]


def test_differently_split_modes_are_proved_equal() -> None:
    random = Random(5)
    cut_apart = 0
    for _ in range(60):
        modes = [
            (random.choice([N, 2 * N, M * N, 4, K * M]), random.choice([1, N, K, M * N, 0]))
            for _ in range(random.randint(1, 3))
        ]
        one, other = ([part for mode in modes for part in _cut(*mode, random)] for _ in range(2))
        given = random.choice([[], [K == N], [M == 2 * N]])
        first, second = (
            Layout(tuple(n for n, _ in each), tuple(d for _, d in each), given=given) for each in (one, other)
        )
        assert equal(first, second) == Proved("structure"), (first, second)
        cut_apart += len(one) != len(other)
    assert cut_apart > 15
