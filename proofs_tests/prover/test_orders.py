"""Ordered arrays: checks at calls in Python and C, and proofs compared with all small arrays."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import pairwise, product
from typing import Any, Final

import numpy as np
import pytest

import atl
from atl.core.index import ZERO, Array, Leaf, Monotonicity, Var, constant, index, read
from atl.core.predicate import Predicate, at_most, equal, holds, less, within
from atl.core.program import Program
from atl.errors import ArrayError, InvalidArgument, InvalidName
from atl.prove import Facts, Proved, Refuted, prove
from lowering import compile as compiled

LENGTH: Final = 3
ENDS: Final = 2
POS: Final = Array("pos", (constant(ENDS),), "int64", ZERO, constant(LENGTH + 1))
ORDERS: Final[tuple[tuple[Monotonicity, Array | None], ...]] = (
    ("nondecreasing", None),
    ("increasing", None),
    ("nondecreasing", POS),
    ("increasing", POS),
)
A, B, R = (Var(uid, name) for uid, name in enumerate("abr"))
a, b = index(A), index(B)


def ordered(monotonic: Monotonicity, between: Array | None) -> Array:
    return Array("crd", (constant(LENGTH),), "int64", ZERO, constant(LENGTH), monotonic, between)


def worlds(monotonic: Monotonicity, between: Array | None) -> Iterator[dict[str, tuple[int, ...]]]:
    """Yield all arrays that satisfy the declaration, by brute force."""
    for pos, crd in product(product(range(LENGTH + 1), repeat=ENDS), product(range(LENGTH), repeat=LENGTH)):
        if in_order(crd, monotonic, None if between is None else pos):
            yield {"pos": pos, "crd": crd}


def in_order(row: tuple[int, ...], monotonic: Monotonicity, ends: tuple[int, ...] | None) -> bool:
    """Return whether the row is in order, by definition."""
    for p in range(len(row) - 1):
        counts = ends is None or any(ends[r] <= p and p + 1 < ends[r + 1] for r in range(len(ends) - 1))
        if counts and not (row[p] < row[p + 1] or (monotonic == "nondecreasing" and row[p] == row[p + 1])):
            return False
    return True


def summed(monotonic: str, *, between: bool) -> Program:
    """Return a program that reads an ordered row."""
    n, z = atl.sizes("n z")
    pos = atl.tensor("pos", n, dtype="int32")
    crd = atl.tensor("crd", z, dtype="int64", monotonic=(monotonic, pos) if between else monotonic)
    body = atl.gen(z, lambda p: crd[p])
    return atl.program("summed", [crd, pos], body)


@pytest.mark.sampled
@pytest.mark.parametrize("between", [False, True])
@pytest.mark.parametrize("monotonic", ["nondecreasing", "increasing"])
def test_calls_accept_only_ordered_rows(monotonic: Monotonicity, between: bool) -> None:
    program = summed(monotonic, between=between)
    kernel = compiled(program)
    kernel(np.arange(3), np.zeros(3, np.int32))  # later calls are checked in C
    for ends in product((-2, 0, 2, 9), repeat=3):
        if not between and ends != (0, 0, 0):
            continue
        for row in product(range(3), repeat=3):
            fits = in_order(row, monotonic, ends if between else None)
            given = np.array(row, np.int64), np.array(ends, np.int32)
            for call in (kernel, lambda crd, pos: atl.evaluate(program, crd=crd, pos=pos)):
                if fits:
                    assert call(*given).tolist() == list(row)
                else:
                    with pytest.raises(ArrayError, match=r"are not (nondecreasing|strictly increasing)"):
                        call(*given)


def test_order_error_shows_elements_and_positions() -> None:
    with pytest.raises(ArrayError) as refused:
        atl.evaluate(summed("increasing", between=True), crd=np.array([5, 7, 1, 1]), pos=np.array([0, 2, 4], np.int32))
    message = str(refused.value)
    assert "the elements of crd are not strictly increasing" in message
    assert "each element of crd above the one before it, from pos[r] to pos[r + 1] - 1, for each r" in message
    assert "crd[2] = 1, crd[3] = 1, pos[1] = 2, pos[2] = 4" in message


FACTS: Final = (
    (within(ZERO, a, constant(LENGTH)), within(ZERO, b, constant(LENGTH))),
    (
        within(read(POS, (ZERO,)), a, read(POS, (constant(1),))),
        within(read(POS, (ZERO,)), b, read(POS, (constant(1),))),
    ),
    (within(read(POS, (ZERO,)), a, b), at_most(b, read(POS, (constant(1),)))),
    (within(read(POS, (ZERO,)), a, read(POS, (constant(1),)) + 1), within(ZERO, b, a)),
)
STEPS: Final = (less(a, b), at_most(a, b), equal(a + 1, b), less(a + 1, b))


def goals(crd: Array) -> tuple[Predicate, ...]:
    at, after = read(crd, (a,)), read(crd, (b,))
    return (less(at, after), at_most(at, after), at_most(at + 2, after), at_most(after, at), less(after, constant(2)))


@pytest.mark.sampled
@pytest.mark.parametrize(("monotonic", "between"), ORDERS)
def test_answers_agree_with_all_small_arrays(monotonic: Monotonicity, between: Array | None) -> None:
    crd = ordered(monotonic, between)
    every = list(worlds(monotonic, between))
    proved = refuted = 0
    for known, step, goal in product(FACTS, STEPS, goals(crd)):
        facts = Facts().assume(*known, step)
        answer = prove(facts, goal)
        if isinstance(answer, Proved):
            proved += 1
            assert not any(breaks(world, facts, goal) for world in every), (facts, goal)
        elif isinstance(answer, Refuted):
            refuted += 1
            model = answer.model
            held = {(name, position): value for name, position, value in model.elements if position[0] in range(LENGTH)}
            there = [
                world
                for world in every
                if all(at[0] >= len(world[name]) or world[name][at[0]] == value for (name, at), value in held.items())
            ]
            assert there, (facts, goal, model)
    assert proved >= 10
    assert refuted >= 20


def breaks(world: Mapping[str, tuple[int, ...]], facts: Facts, goal: Predicate) -> bool:
    """Return whether some positions satisfy the facts and not the goal."""

    def element(array: Array, at: tuple[int, ...]) -> int:
        row = world[array.name]
        return row[at[0]] if 0 <= at[0] < len(row) else 0

    for p, q in product(range(LENGTH), range(LENGTH)):
        values = {A: p, B: q}

        def leaf(of: Leaf, values: Mapping[Any, int] = values) -> int:
            return values[of]

        if all(holds(fact, leaf, element) for fact in facts.predicates) and not holds(goal, leaf, element):
            return True
    return False


def test_segment_order_holds_within_one_segment_only() -> None:
    crd = ordered("increasing", POS)
    first, last = read(POS, (ZERO,)), read(POS, (constant(1),))
    inside = Facts().assume(within(first, a, last), within(first, b, last), less(a, b))
    across = Facts().assume(within(first, a, last), within(ZERO, b, constant(LENGTH)), less(a, b))
    goal = less(read(crd, (a,)), read(crd, (b,)))
    assert isinstance(prove(inside, goal), Proved)
    assert isinstance(prove(across, goal), Refuted)


def test_orders_round_trip_through_text() -> None:
    text = "p (crd : int32[z] in [0, m) strict between `let`, `let` : int32[n + 1] rising, x : float32[m]) := x"
    program = atl.parse(text)
    crd, pos, _ = program.inputs
    assert (crd.monotonic, crd.between, pos.monotonic, pos.between) == ("increasing", pos, "nondecreasing", None)
    assert atl.parse(str(program)) == program
    assert "strict between `let`" in str(program)


IN_SEGMENTS = atl.tensor("x", 2, dtype="int32", monotonic=("nondecreasing", atl.tensor("y", 2, dtype="int32")))


@pytest.mark.parametrize(
    ("order", "message"),
    [
        ("falling", "monotonic='falling'"),
        (("increasing", "pos"), "monotonic=('increasing', 'pos')"),
        (("increasing",), "monotonic=('increasing',)"),
        (("increasing", atl.tensor("x", atl.sizes("n"))), "of integers"),
        (("increasing", atl.tensor("x", 2, 2, dtype="int32")), "of integers"),
        (("increasing", IN_SEGMENTS), "not itself ordered in segments"),
    ],
)
def test_invalid_orders_are_refused(order: Any, message: str) -> None:
    with pytest.raises(InvalidArgument) as refused:
        atl.tensor("crd", 4, dtype="int32", monotonic=order)
    assert message in str(refused.value)


def test_positions_of_an_order_must_be_an_input() -> None:
    n = atl.sizes("n")
    pos, other = atl.tensor("pos", n, dtype="int32"), atl.tensor("pos", n, dtype="int32", monotonic="nondecreasing")
    crd = atl.tensor("crd", n, dtype="int32", monotonic=("increasing", pos))
    x = atl.tensor("x", n)
    with pytest.raises(InvalidName, match="not among its inputs"):
        atl.program("p", [crd, x], x)
    with pytest.raises(InvalidName, match="pos is declared twice"):
        atl.program("p", [crd, other, x], x)
    with pytest.raises(InvalidArgument):
        atl.tensor("crd", n, n, dtype="int32", monotonic=("increasing", pos))


@pytest.mark.parametrize(
    "declared",
    ["pos : int32[n], crd : int32[n] strict between other", "pos : int32[n], crd : int32[n] between pos",
     "pos : float32[n], crd : int32[n] strict between pos", "crd : int32[n] strict between crd"],
)  # fmt: skip
def test_texts_with_invalid_segment_orders_are_refused(declared: str) -> None:
    with pytest.raises(atl.ATLError, match="ATL106"):
        atl.parse(f"p ({declared}, x : float32[n]) := x")


# -- lexicographic orders ---------------------------------------------------------------------------------------------


WITHIN: Final = 2
ROW: Final = Array("row", (constant(LENGTH),), "int64", ZERO, constant(WITHIN), "nondecreasing")


def lexicographic_worlds(monotonic: Monotonicity) -> Iterator[dict[str, tuple[int, ...]]]:
    """Yield all pairs of arrays that are in lexicographic order, by brute force."""
    for row, crd in product(product(range(WITHIN), repeat=LENGTH), product(range(WITHIN), repeat=LENGTH)):
        tuples = list(zip(row, crd, strict=True))
        if in_tuple_order(tuples, strict=monotonic == "increasing") and tuple(sorted(row)) == row:
            yield {"row": row, "crd": crd}


def in_tuple_order(tuples: list[Any], *, strict: bool) -> bool:
    return all(before < behind or (before == behind and not strict) for before, behind in pairwise(tuples))


@pytest.mark.long
@pytest.mark.sampled
@pytest.mark.parametrize("monotonic", ["nondecreasing", "increasing"])
def test_answers_about_lexicographic_orders_agree_with_all_small_arrays(monotonic: Monotonicity) -> None:
    crd = Array("crd", (constant(LENGTH),), "int64", ZERO, constant(WITHIN), monotonic, after=ROW)
    every = list(lexicographic_worlds(monotonic))
    here, there = read(ROW, (a,)), read(ROW, (b,))
    column, later = read(crd, (a,)), read(crd, (b,))
    inside = within(ZERO, a, constant(LENGTH)), within(ZERO, b, constant(LENGTH))
    proved = refuted = 0
    rows = (equal(here, there), less(here, there), at_most(here, there), at_most(there, here), equal(here, constant(1)))
    wanted = (less(column, later), at_most(column, later), at_most(later, column), equal(column, later))
    for known, step, goal in product(rows, STEPS, (*wanted, at_most(here, there))):
        facts = Facts().assume(*inside, step, known)
        answer = prove(facts, goal)
        if isinstance(answer, Proved):
            proved += 1
            assert not any(breaks(world, facts, goal) for world in every), (facts, goal)
        elif isinstance(answer, Refuted):
            refuted += 1
            held = {(name, at): value for name, at, value in answer.model.elements if at[0] in range(LENGTH)}
            assert any(all(world[name][at[0]] == value for (name, at), value in held.items()) for world in every), (
                facts,
                goal,
                answer.model,
            )
    assert proved >= 10
    assert refuted >= 5
    apart = Facts().assume(*inside, less(a, b), equal(here, there))
    assert isinstance(prove(apart, at_most(column, later)), Proved)
    assert isinstance(prove(apart, less(column, later)), Proved) == (monotonic == "increasing")
    assert not isinstance(prove(Facts().assume(*inside, less(a, b)), at_most(column, later)), Proved)


@pytest.mark.long
@pytest.mark.sampled
@pytest.mark.parametrize("monotonic", ["nondecreasing", "increasing"])
@pytest.mark.parametrize("dtype", ["int32", "int64"])
def test_calls_accept_only_tuples_in_lexicographic_order(monotonic: str, dtype: str) -> None:
    z = atl.sizes("z")
    first = atl.tensor("first", z, dtype=dtype, monotonic="nondecreasing")
    second = atl.tensor("second", z, dtype=dtype, monotonic=("nondecreasing", "after", first))
    third = atl.tensor("third", z, dtype=dtype, range=(0, 3), monotonic=(monotonic, "after", second))
    program = atl.program("tuples", [third, first, second], atl.gen(z, lambda p: third[p] + first[p] + second[p]))
    kernel = compiled(program)
    kernel(*(np.zeros(1, dtype) for _ in range(3)))  # later calls are checked in C
    accepted = 0
    for tuples in product(product(range(2), repeat=3), repeat=3):
        given = [np.array(row, dtype) for row in zip(*[(t[2], t[0], t[1]) for t in tuples], strict=True)]
        fits = in_tuple_order(list(tuples), strict=monotonic == "increasing")
        leading = in_tuple_order([each[:2] for each in tuples], strict=False)
        for call in (kernel, lambda *rows: atl.evaluate(program, *rows)):
            if fits and leading:
                accepted += 1
                assert call(*given).tolist() == [sum(each) for each in tuples]
            else:
                with pytest.raises(ArrayError, match=r"are not (nondecreasing|strictly increasing)"):
                    call(*given)
    assert accepted > 100


def test_error_of_a_lexicographic_order_shows_the_tuples() -> None:
    z = atl.sizes("z")
    row = atl.tensor("row", z, dtype="int32", monotonic="nondecreasing")
    crd = atl.tensor("crd", z, dtype="int32", monotonic=("increasing", "after", row))
    program = atl.program("p", [row, crd], atl.gen(z, lambda p: row[p] + crd[p]))
    with pytest.raises(ArrayError) as refused:
        atl.evaluate(program, np.array([0, 1, 1], np.int32), np.array([5, 2, 2], np.int32))
    message = str(refused.value)
    assert "each element of crd above the one before it, where the elements of row are equal" in message
    assert "crd[1] = 2, crd[2] = 2, row[1] = 1, row[2] = 1" in message


def test_lexicographic_orders_round_trip_through_text() -> None:
    text = "p (c : int32[z] strict after b, b : int32[z] rising after a, a : int32[z] rising, x : float32[z]) := x"
    program = atl.parse(text)
    third, second, first, _ = program.inputs
    assert (third.after, second.after, first.after) == (second, first, None)
    assert third.leading == (first, second)
    assert atl.parse(str(program)) == program
    assert "c : int32[z] strict after b" in str(program)


@pytest.mark.parametrize(
    "text",
    [
        "p (a : int32[z] rising after b, b : int32[z] rising after a) := sum[i < z] value(a[i])",
        "p (a : int32[z] rising after a) := sum[i < z] value(a[i])",
        "p (a : int32[z] rising after b, b : int32[z]) := sum[i < z] value(a[i])",
        "p (a : int32[z] rising after b, b : int64[z] rising) := sum[i < z] value(a[i])",
        "p (a : int32[z] rising after b, b : int32[z + 1] rising) := sum[i < z] value(a[i])",
        "p (a : int32[z] rising after b, b : int32[z] rising between c, c : int32[2]) := sum[i < z] value(a[i])",
        "p (a : int32[z] rising after d) := sum[i < z] value(a[i])",
    ],
)
def test_invalid_lexicographic_orders_are_refused(text: str) -> None:
    with pytest.raises(atl.ATLError, match=r"[ab] cannot be ordered after"):
        atl.parse(text)


def test_missing_premise_of_a_lexicographic_order_is_named() -> None:
    z = atl.sizes("z")
    unordered = atl.tensor("row", z, dtype="int32")
    with pytest.raises(InvalidArgument, match="an order of row, rising or strict, and not between positions"):
        atl.tensor("c", z, dtype="int32", monotonic=("increasing", "after", unordered))
    longer = atl.tensor("row", z + 1, dtype="int32", monotonic="increasing")
    with pytest.raises(InvalidArgument, match="two one-dimensional inputs of one shape and type"):
        atl.tensor("c", z, dtype="int32", monotonic=("increasing", "after", longer))


def test_at_most_seven_arrays_lead_another_one() -> None:
    z = atl.sizes("z")
    rows = [atl.tensor("a0", z, dtype="int32", monotonic="nondecreasing")]
    for number in range(1, 8):
        rows.append(atl.tensor(f"a{number}", z, dtype="int32", monotonic=("nondecreasing", "after", rows[-1])))
    required = "(?s)a8 cannot be ordered after a7.*an order of at most 8 inputs"
    with pytest.raises(InvalidArgument, match=required):
        atl.tensor("a8", z, dtype="int32", monotonic=("nondecreasing", "after", rows[-1]))
    orders = ", ".join(f"a{number} : int32[z] rising after a{number - 1}" for number in range(1, 9))
    with pytest.raises(atl.ATLError, match=required) as caught:
        atl.parse(f"p (a0 : int32[z] rising, {orders}) := sum[i < z] value(a0[i])")
    assert str(caught.value).splitlines()[3].strip() == "^^"
    kernel = compiled(atl.program("p", rows, atl.gen(z, lambda p: rows[0][p] + rows[7][p])))
    zeros = [np.zeros(2, np.int32)] * 7
    kernel(*zeros, np.array([0, 1], np.int32))
    with pytest.raises(ArrayError, match="the elements of a7 are not nondecreasing"):
        kernel(*zeros, np.array([1, 0], np.int32))
