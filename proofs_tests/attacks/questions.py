"""Random questions about index facts, and brute force: what small numbers, and some large ones, say to an answer."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Final, TypeAlias

import numpy as np

from atl.core.index import (
    ZERO,
    Array,
    Index,
    Leaf,
    Monotonicity,
    Quotient,
    Read,
    Size,
    Var,
    atoms,
    imax,
    imin,
    index,
    read,
    size,
)
from atl.core.predicate import (
    FALSE,
    Predicate,
    at_most,
    disjunction,
    equal,
    expressions,
    holds,
    less,
    negation,
    within,
)
from atl.prove import Facts, Model
from atl.prove.answer import model_of
from proofs_tests.attacks.judging import NoArray, lawful_array
from proofs_tests.programs.choices import Seeded

n, m, k = size("n"), size("m"), size("k")
VI, VJ = Var(101, "i"), Var(102, "j")
i, j = index(VI), index(VJ)


def given(*facts: Predicate) -> Facts:
    return Facts().assume(*facts)


def breaks(model: Model, facts: Sequence[Predicate], goal: Predicate) -> bool:
    """Whether the facts hold in the model, as far as they mean something there, and the goal does not."""
    if any(isinstance(leaf, Size) and value < 0 for leaf, value in model.leaves):
        return False
    return all(meant(model, fact) is not False for fact in facts) and not model.satisfies(goal)


def meant(model: Model, fact: Predicate) -> bool | None:
    try:
        return model.satisfies(fact)
    except ZeroDivisionError:
        return None


def random_index(rng: random.Random, leaves: Sequence[Index], depth: int) -> Index:
    if depth == 0 or rng.random() < 0.3:
        return rng.choice(leaves) if rng.random() < 0.8 else index(rng.randint(-2, 3))
    a, b = (random_index(rng, leaves, depth - 1) for _ in range(2))
    match rng.randrange(9):
        case 0 | 1:
            return a + b
        case 2:
            return a - b
        case 3:
            return a * b
        case 4:
            return a * rng.choice((-1, 2, 3))
        case 5:
            return a // rng.choice((index(2), index(3), k))
        case 6:
            return a % rng.choice((index(2), index(4), k))
        case 7:
            return imin(a, b)
        case _:
            return imax(a, b)


def random_predicate(rng: random.Random, leaves: Sequence[Index], depth: int) -> Predicate:
    a, b = random_index(rng, leaves, depth), random_index(rng, leaves, rng.randrange(depth + 1))
    match rng.randrange(9):
        case 0 | 1 | 2:
            return less(a, b)
        case 3 | 4 | 5:
            return at_most(a, b)
        case 6:
            return equal(a, b)
        case 7:
            return negation(equal(a, b))
        case _:
            return disjunction((less(a, b), random_predicate(rng, leaves, 1)))


def random_query(rng: random.Random) -> tuple[list[Predicate], Predicate]:
    """Facts that a program could have in scope, or just any, and a goal."""
    leaves = [n, k, i, j]
    facts = [within(ZERO, i, n)] if rng.random() < 0.7 else []
    if rng.random() < 0.6:
        facts.append(within(ZERO, j, rng.choice((k, m, n, i + 1, n // 2 + 1))))
    if rng.random() < 0.7:
        facts.append(less(ZERO, k))
    facts.extend(random_predicate(rng, leaves, 1) for _ in range(rng.randrange(3)))
    return facts, random_predicate(rng, leaves, 2)


def compiled(predicate: Predicate) -> Callable[[dict[Leaf, int]], bool]:
    """The predicate as a function of its leaves."""

    def no_element(array: Array, indices: tuple[int, ...]) -> int:
        raise AssertionError((array, indices))

    return lambda values: holds(predicate, values.__getitem__, no_element)


def box() -> Iterator[dict[Leaf, int]]:
    for vn, vm, vk, vi, vj in product(range(4), range(3), range(4), range(-2, 4), range(-2, 4)):
        yield {Size("n"): vn, Size("m"): vm, Size("k"): vk, VI: vi, VJ: vj}


BOX = list(box())


def counterexample(facts: Sequence[Predicate], goal: Predicate) -> dict[Leaf, int] | None:
    """Small numbers for which the facts hold and the goal does not, all quotients having a meaning."""
    tests = [compiled(fact) for fact in facts]
    wanted = compiled(goal)
    for values in BOX:
        try:
            if all(test(values) for test in tests) and not wanted(values):
                return values
        except ZeroDivisionError:
            continue
    return None


def random_read_query(rng: random.Random, array: Array) -> tuple[list[Predicate], Predicate]:
    places = [i, j, i + 1, j - 1, ZERO, n - 1]
    elements = [read(array, (place,)) for place in places]
    leaves = [n, m, i, j, *elements, *elements]
    facts = [within(ZERO, i, n)] if rng.random() < 0.7 else []
    facts += [within(ZERO, j, n)] if rng.random() < 0.7 else []
    for _ in range(rng.randrange(3)):
        a, b = rng.choice(leaves), rng.choice(leaves)
        facts.append(rng.choice((less, at_most, equal))(a, b))
    a, b = rng.choice(leaves), rng.choice(elements)
    return facts, rng.choice((less, at_most, equal))(a + rng.randint(-1, 1), b)


def tables(vn: int, vm: int) -> Iterator[tuple[int, ...]]:
    """The increasing arrays of vn elements from 0 to vm - 1."""
    return (row for row in product(range(vm), repeat=vn) if all(a < b for a, b in pairwise(row)))


def rising(model: Model) -> bool:
    """Whether the model's elements are increasing and in range, and zero outside."""
    sizes = {leaf.name: value for leaf, value in model.leaves if isinstance(leaf, Size)}
    extent = sizes.get("n", 0)
    inside = sorted((at[0], value) for _, at, value in model.elements if 0 <= at[0] < extent)
    outside = [value for _, at, value in model.elements if not 0 <= at[0] < extent]
    steps = all(d - b >= c - a for (a, b), (c, d) in pairwise(inside))
    return steps and not any(outside) and all(0 <= value < sizes.get("m", 0) for _, value in inside)


def broken_by_some_array(facts: Sequence[Predicate], goal: Predicate) -> bool:
    for vn, vm, vi, vj in product(range(4), range(5), range(-1, 4), range(-1, 4)):
        values: dict[Leaf, int] = {Size("n"): vn, Size("m"): vm, VI: vi, VJ: vj}
        for row in tables(vn, vm):
            elements = [("rows", (at,), value) for at, value in enumerate(row)]
            model = model_of(values.items(), elements)
            if all(model.satisfies(fact) for fact in facts) and not model.satisfies(goal):
                return True
    return False


# -- questions of every kind ------------------------------------------------------------------------------------------

Ranges: TypeAlias = list[tuple[Var, Index, Index]]
LARGE: Final = (2**31, 3037000500, 2**61, 2**62, 2**63 - 1, 2**63, 10**19)
"""Values about which machine integers go wrong; the integers that are meant do not."""
SAMPLES: Final = 260
"""How many points of the box are looked at for most questions."""
LONGEST: Final = 100_000
"""Longer rows are taken to be possible: they are not written out."""


@dataclass(frozen=True, slots=True)
class Question:
    """Facts and a goal, and the arrays that they read; or an expression whose bounds over ranges are asked."""

    facts: tuple[Predicate, ...]
    goal: Predicate
    arrays: tuple[Array, ...] = ()
    bounded: Index | None = None
    ranges: tuple[tuple[Var, Index, Index], ...] = ()


def question(rng: random.Random) -> Question:
    """A question of some kind. Raises `ATLError` where the language refuses an expression."""
    match rng.randrange(8):
        case 0 | 1:
            facts, goal = random_query(rng)
            return Question(tuple(facts), goal)
        case 2:
            return _about_products(rng)
        case 3 | 4 | 5:
            return _about_elements(rng)
        case 6:
            return _about_large_numbers(rng)
        case _:
            return _about_bounds(rng)


def _about_products(rng: random.Random) -> Question:
    """Addresses in products of sizes, and quotients and remainders of these."""
    facts = [within(ZERO, i, n), within(ZERO, j, rng.choice((m, m, k)))]
    flat, whole = i * m + j, n * m
    leaves = [flat, whole, whole * k, i * k, n, m, flat // k, flat % k, whole // k, imin(flat, whole - 1)]
    a, b = rng.choice(leaves), rng.choice(leaves)
    facts += [less(ZERO, k)] if rng.random() < 0.7 else []
    facts += [less(rng.choice(leaves), rng.choice(leaves))] if rng.random() < 0.3 else []
    goal = rng.choice((less, at_most, equal))(a + rng.randint(-1, 1), b)
    return Question(tuple(facts), goal)


def _declared(rng: random.Random, name: str, rank: int) -> Array:
    low = rng.choice((None, None, ZERO, ZERO, index(1), n, index(-2)))
    above = ZERO if low is None else low
    high = rng.choice((None, None, n, m, m, above, above + 1, above + n))
    shape = tuple(rng.choice((n, n, m, index(2), n + 1)) for _ in range(rank))
    monotonic: Monotonicity = rng.choice(("", "", "increasing", "increasing", "nondecreasing")) if rank else ""
    return Array(name, shape, "int64", low, high, monotonic)


def _about_elements(rng: random.Random) -> Question:
    """Elements of arrays of every declaration: one-sided, empty and point ranges, in order or not, of rank 0 to 2."""
    arrays = (_declared(rng, "rows", 1), _declared(rng, "table", 2), _declared(rng, "start", 0))
    places = [i, j, i + 1, j - 1, ZERO, n - 1, index(1)]

    def element() -> Index:
        array = rng.choice((arrays[0], arrays[0], *arrays))
        return read(array, tuple(rng.choice(places) for _ in array.shape))

    elements = [element() for _ in range(3)]
    elements.append(read(arrays[0], (rng.choice(elements),)))
    leaves = [n, m, i, j, ZERO, *elements, *elements]
    facts = [within(ZERO, i, n)] if rng.random() < 0.7 else []
    facts += [within(ZERO, j, rng.choice((n, i)))] if rng.random() < 0.7 else []
    for _ in range(rng.randrange(3)):
        facts.append(rng.choice((less, at_most, equal))(rng.choice(leaves), rng.choice(leaves)))
    b = rng.choice(elements)
    b = rng.choice((b, b, b, b - i, b // 2, b % 2, b * 2, imax(b, ZERO)))
    a = rng.choice(leaves) + rng.randint(-1, 1)
    goal = rng.choice((less, at_most, equal))(*((a, b) if rng.random() < 0.5 else (b, a)))
    goal = negation(goal) if rng.random() < 0.1 else goal
    return Question(tuple(facts), goal, _read_in((*facts, goal)))


def _read_in(asked: Sequence[Predicate]) -> tuple[Array, ...]:
    found = (atom for part in asked for expression in expressions(part) for atom in atoms(expression))
    return tuple(dict.fromkeys(atom.array for atom in found if isinstance(atom, Read)))


def _about_large_numbers(rng: random.Random) -> Question:
    """Facts by which sizes are large, or that contradict each other only by little."""
    edge = rng.choice((2**31, 2**53, 2**61, 2**62 - 1))
    facts, goal = random_query(rng)
    facts = facts[:2]
    size_of = rng.choice((n, k))
    facts.append(rng.choice((at_most(index(edge), size_of), less(size_of, index(edge)), equal(size_of, index(edge)))))
    if rng.random() < 0.3:
        facts.append(at_most(size_of, index(edge) - rng.randint(0, 2)))
    if rng.random() < 0.6:
        a = rng.choice((n * 2, n * n, n * k, n + k, n - k, n // 3))
        b = rng.choice((n, k, n * k, index(edge), n * 2 - 1))
        goal = rng.choice((less, at_most, equal))(a + rng.randint(-1, 1), b)
    return Question(tuple(facts), goal)


def _about_bounds(rng: random.Random) -> Question:
    """The least and the greatest value of an expression over ranges, some of them empty, with divisors of any sign."""
    rows = _declared(rng, "rows", 1)
    leaves = [n, k, i, j, read(rows, (rng.choice((i, j, ZERO)),)), index(Quotient(i, j - rng.randint(0, 3)))]
    leaves += [index(Quotient(i, ZERO)), index(Quotient(-i, index(Quotient(n + 3, j))))]
    ranges = (
        (VI, index(rng.choice((0, 0, -2))), n),
        (VJ, rng.choice((ZERO, i, index(-1))), rng.choice((k, i + 1, n, -n))),
    )
    facts = tuple(within(low, index(variable), high) for variable, low, high in ranges)
    facts += (less(ZERO, k),) if rng.random() < 0.7 else ()
    return Question(facts, FALSE, (rows,), random_index(rng, leaves, 2), ranges)


# -- brute force ------------------------------------------------------------------------------------------------------


def samples(asked: Question, rng: random.Random, *, whole: bool = False) -> Iterator[Model]:
    """Numbers for a question: of the box, all or some, and large ones; with arrays that hold what is declared."""
    points = BOX if whole and not asked.arrays else [rng.choice(BOX) for _ in range(SAMPLES)]
    for point in points:
        if (model := _with_arrays(asked.arrays, point, rng)) is not None:
            yield model
    if not asked.arrays:
        for _ in range(SAMPLES // 8):
            yield model_of([(leaf, _large(rng)) for leaf in (Size("n"), Size("m"), Size("k"))] + _near(rng), ())


def _large(rng: random.Random) -> int:
    return max(0, rng.choice(LARGE) + rng.randint(-2, 2)) if rng.random() < 0.7 else rng.randint(0, 5)


def _near(rng: random.Random) -> list[tuple[Leaf, int]]:
    return [(VI, _large(rng) - rng.randint(0, 1)), (VJ, rng.choice((-1, 1)) * _large(rng))]


def _with_arrays(arrays: Sequence[Array], point: dict[Leaf, int], rng: random.Random) -> Model | None:
    sizes = {leaf.name: value for leaf, value in point.items() if isinstance(leaf, Size)}
    elements: list[tuple[str, tuple[int, ...], int]] = []
    for array in arrays:
        try:
            held = lawful_array(array, sizes, {}, Seeded(rng))
        except NoArray:
            return None
        elements += [(array.name, at, int(value)) for at, value in np.ndenumerate(held)]
    return model_of(point.items(), elements)


def breaks_it(model: Model, asked: Question, goal: Predicate) -> bool:
    """Whether all facts hold in a model, all of them meaning something, and the goal does not."""
    try:
        return all(model.satisfies(fact) for fact in asked.facts) and not model.satisfies(goal)
    except ZeroDivisionError:
        return False


def can_be(model: Model, array: Array) -> bool:
    """Whether there is an array that holds what is declared and has the elements of a model, zero outside of it."""
    shape = [model.value(extent) for extent in array.shape]
    low, high = (None if bound is None else model.value(bound) for bound in (array.low, array.high))
    rows: dict[tuple[int, ...], dict[int, int]] = {}
    for name, at, value in model.elements:
        if name == array.name and all(0 <= position < extent for position, extent in zip(at, shape, strict=True)):
            rows.setdefault(at[:-1], {})[at[-1] if at else 0] = value
        elif name == array.name and value:
            return False
    if any(extent <= 0 for extent in shape):
        return True
    extent = shape[-1] if shape else 1
    # Of a row that is not read there must be one, too.
    return extent > LONGEST or all(
        filled_in(row, extent, low, high, monotonic=array.monotonic) is not None for row in (*rows.values(), {})
    )


def filled_in(
    known: Mapping[int, int], extent: int, low: int | None, high: int | None, *, monotonic: Monotonicity
) -> list[int] | None:
    """A row with these elements, the others made one by one, each the least that is declared; or that there is none."""
    least = min(known.values(), default=0 if high is None else high) - extent if low is None else low
    row: list[int] = []
    for at in range(extent):
        step = {"": None, "nondecreasing": 0, "increasing": 1}[monotonic]
        value = known.get(at, row[-1] + step if step is not None and row else least)
        held = (low is None or low <= value) and (high is None or value < high)
        if not held or (step is not None and row and value < row[-1] + step):
            return None
        row.append(value)
    return row
