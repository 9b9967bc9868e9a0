"""Random prover queries, and brute force over small and some large numbers."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import pairwise, product
from typing import Final, TypeAlias

import numpy as np

from atl.core import index as ix
from atl.core.predicate import FALSE, Predicate, at_most, disjunction, equal, expressions, holds, less, negation, within
from atl.prove import Facts, Model
from atl.prove.facts import model_of
from proofs_tests.attacks.evaluation import NoArray, lawful_array
from proofs_tests.programs.choices import Seeded

n, m, k = ix.size("n"), ix.size("m"), ix.size("k")
VI, VJ = ix.Var(101, "i"), ix.Var(102, "j")
i, j = ix.index(VI), ix.index(VJ)


def given(*facts: Predicate) -> Facts:
    return Facts().assume(*facts)


def breaks(model: Model, facts: Sequence[Predicate], goal: Predicate) -> bool:
    """Check that the model satisfies the facts that have a meaning in it, and breaks the goal."""
    if any(isinstance(leaf, ix.Size) and value < 0 for leaf, value in model.leaves):
        return False
    return all(meant(model, fact) is not False for fact in facts) and not model.satisfies(goal)


def meant(model: Model, fact: Predicate) -> bool | None:
    try:
        return model.satisfies(fact)
    except ZeroDivisionError:
        return None


def random_index(rng: random.Random, leaves: Sequence[ix.Index], depth: int) -> ix.Index:
    if depth == 0 or rng.random() < 0.3:
        return rng.choice(leaves) if rng.random() < 0.8 else ix.index(rng.randint(-2, 3))
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
            return a // rng.choice((ix.index(2), ix.index(3), k))
        case 6:
            return a % rng.choice((ix.index(2), ix.index(4), k))
        case 7:
            return ix.imin(a, b)
        case _:
            return ix.imax(a, b)


def random_predicate(rng: random.Random, leaves: Sequence[ix.Index], depth: int) -> Predicate:
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
    """Return facts, such as those of a scope or random ones, and a goal."""
    leaves = [n, k, i, j]
    facts = [within(ix.ZERO, i, n)] if rng.random() < 0.7 else []
    if rng.random() < 0.6:
        facts.append(within(ix.ZERO, j, rng.choice((k, m, n, i + 1, n // 2 + 1))))
    if rng.random() < 0.7:
        facts.append(less(ix.ZERO, k))
    facts.extend(random_predicate(rng, leaves, 1) for _ in range(rng.randrange(3)))
    return facts, random_predicate(rng, leaves, 2)


def compiled(predicate: Predicate) -> Callable[[dict[ix.Leaf, int]], bool]:
    """Return the predicate as a function of its leaves."""

    def no_element(array: ix.Array, indices: tuple[int, ...]) -> int:
        raise AssertionError((array, indices))

    return lambda values: holds(predicate, values.__getitem__, no_element)


def box() -> Iterator[dict[ix.Leaf, int]]:
    for vn, vm, vk, vi, vj in product(range(4), range(3), range(4), range(-2, 4), range(-2, 4)):
        yield {ix.Size("n"): vn, ix.Size("m"): vm, ix.Size("k"): vk, VI: vi, VJ: vj}


BOX = list(box())


def counterexample(facts: Sequence[Predicate], goal: Predicate) -> dict[ix.Leaf, int] | None:
    """Return small numbers that satisfy the facts and break the goal, with all quotients defined."""
    tests = [compiled(fact) for fact in facts]
    wanted = compiled(goal)
    for values in BOX:
        try:
            if all(test(values) for test in tests) and not wanted(values):
                return values
        except ZeroDivisionError:
            continue
    return None


def random_read_query(rng: random.Random, array: ix.Array) -> tuple[list[Predicate], Predicate]:
    places = [i, j, i + 1, j - 1, ix.ZERO, n - 1]
    elements = [ix.read(array, (place,)) for place in places]
    leaves = [n, m, i, j, *elements, *elements]
    facts = [within(ix.ZERO, i, n)] if rng.random() < 0.7 else []
    facts += [within(ix.ZERO, j, n)] if rng.random() < 0.7 else []
    for _ in range(rng.randrange(3)):
        a, b = rng.choice(leaves), rng.choice(leaves)
        facts.append(rng.choice((less, at_most, equal))(a, b))
    a, b = rng.choice(leaves), rng.choice(elements)
    return facts, rng.choice((less, at_most, equal))(a + rng.randint(-1, 1), b)


def tables(vn: int, vm: int) -> Iterator[tuple[int, ...]]:
    """Return the increasing arrays of vn elements from 0 to vm - 1."""
    return (row for row in product(range(vm), repeat=vn) if all(a < b for a, b in pairwise(row)))


def rising(model: Model) -> bool:
    """Check that the model's elements are increasing, in range, and zero outside."""
    sizes = {leaf.name: value for leaf, value in model.leaves if isinstance(leaf, ix.Size)}
    extent = sizes.get("n", 0)
    inside = sorted((at[0], value) for _, at, value in model.elements if 0 <= at[0] < extent)
    outside = [value for _, at, value in model.elements if not 0 <= at[0] < extent]
    steps = all(d - b >= c - a for (a, b), (c, d) in pairwise(inside))
    return steps and not any(outside) and all(0 <= value < sizes.get("m", 0) for _, value in inside)


def broken_by_some_array(facts: Sequence[Predicate], goal: Predicate) -> bool:
    for vn, vm, vi, vj in product(range(4), range(5), range(-1, 4), range(-1, 4)):
        values: dict[ix.Leaf, int] = {ix.Size("n"): vn, ix.Size("m"): vm, VI: vi, VJ: vj}
        for row in tables(vn, vm):
            elements = [("rows", (at,), value) for at, value in enumerate(row)]
            model = model_of(values.items(), elements)
            if all(model.satisfies(fact) for fact in facts) and not model.satisfies(goal):
                return True
    return False


Ranges: TypeAlias = list[tuple[ix.Var, ix.Index, ix.Index]]
LARGE: Final = (2**31, 3037000500, 2**61, 2**62, 2**63 - 1, 2**63, 10**19)
"""Values near the limits of machine integers."""
SAMPLES: Final = 260
"""Number of random points checked for most queries."""
LONGEST: Final = 100_000
"""Length above which a row is assumed to exist."""


@dataclass(frozen=True, slots=True)
class Question:
    """Facts, a goal and the arrays that they read; or an expression to bound over ranges."""

    facts: tuple[Predicate, ...]
    goal: Predicate
    arrays: tuple[ix.Array, ...] = ()
    bounded: ix.Index | None = None
    ranges: tuple[tuple[ix.Var, ix.Index, ix.Index], ...] = ()


def question(rng: random.Random) -> Question:
    """Return a random query. Raise `ATLError` if the language refuses an expression."""
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
    """Query addresses in products of sizes, with their quotients and remainders."""
    facts = [within(ix.ZERO, i, n), within(ix.ZERO, j, rng.choice((m, m, k)))]
    flat, whole = i * m + j, n * m
    leaves = [flat, whole, whole * k, i * k, n, m, flat // k, flat % k, whole // k, ix.imin(flat, whole - 1)]
    a, b = rng.choice(leaves), rng.choice(leaves)
    facts += [less(ix.ZERO, k)] if rng.random() < 0.7 else []
    facts += [less(rng.choice(leaves), rng.choice(leaves))] if rng.random() < 0.3 else []
    goal = rng.choice((less, at_most, equal))(a + rng.randint(-1, 1), b)
    return Question(tuple(facts), goal)


def _declared(rng: random.Random, name: str, rank: int) -> ix.Array:
    low = rng.choice((None, None, ix.ZERO, ix.ZERO, ix.index(1), n, ix.index(-2)))
    above = ix.ZERO if low is None else low
    high = rng.choice((None, None, n, m, m, above, above + 1, above + n))
    shape = tuple(rng.choice((n, n, m, ix.index(2), n + 1)) for _ in range(rank))
    monotonic: ix.Monotonicity = rng.choice(("", "", "increasing", "increasing", "nondecreasing")) if rank else ""
    return ix.Array(name, shape, "int64", low, high, monotonic)


def _about_elements(rng: random.Random) -> Question:
    """Query elements of arrays of rank 0 to 2 with all kinds of ranges and orders."""
    arrays = (_declared(rng, "rows", 1), _declared(rng, "table", 2), _declared(rng, "start", 0))
    places = [i, j, i + 1, j - 1, ix.ZERO, n - 1, ix.index(1)]

    def element() -> ix.Index:
        array = rng.choice((arrays[0], arrays[0], *arrays))
        return ix.read(array, tuple(rng.choice(places) for _ in array.shape))

    elements = [element() for _ in range(3)]
    elements.append(ix.read(arrays[0], (rng.choice(elements),)))
    leaves = [n, m, i, j, ix.ZERO, *elements, *elements]
    facts = [within(ix.ZERO, i, n)] if rng.random() < 0.7 else []
    facts += [within(ix.ZERO, j, rng.choice((n, i)))] if rng.random() < 0.7 else []
    for _ in range(rng.randrange(3)):
        facts.append(rng.choice((less, at_most, equal))(rng.choice(leaves), rng.choice(leaves)))
    b = rng.choice(elements)
    b = rng.choice((b, b, b, b - i, b // 2, b % 2, b * 2, ix.imax(b, ix.ZERO)))
    a = rng.choice(leaves) + rng.randint(-1, 1)
    goal = rng.choice((less, at_most, equal))(*((a, b) if rng.random() < 0.5 else (b, a)))
    goal = negation(goal) if rng.random() < 0.1 else goal
    return Question(tuple(facts), goal, _read_in((*facts, goal)))


def _read_in(asked: Sequence[Predicate]) -> tuple[ix.Array, ...]:
    found = (atom for part in asked for expression in expressions(part) for atom in ix.atoms(expression))
    return tuple(dict.fromkeys(atom.array for atom in found if isinstance(atom, ix.Read)))


def _about_large_numbers(rng: random.Random) -> Question:
    """Query large sizes, and facts that almost contradict each other."""
    edge = rng.choice((2**31, 2**53, 2**61, 2**62 - 1))
    facts, goal = random_query(rng)
    facts = facts[:2]
    size_of = rng.choice((n, k))
    facts.append(
        rng.choice((at_most(ix.index(edge), size_of), less(size_of, ix.index(edge)), equal(size_of, ix.index(edge))))
    )
    if rng.random() < 0.3:
        facts.append(at_most(size_of, ix.index(edge) - rng.randint(0, 2)))
    if rng.random() < 0.6:
        a = rng.choice((n * 2, n * n, n * k, n + k, n - k, n // 3))
        b = rng.choice((n, k, n * k, ix.index(edge), n * 2 - 1))
        goal = rng.choice((less, at_most, equal))(a + rng.randint(-1, 1), b)
    return Question(tuple(facts), goal)


def _about_bounds(rng: random.Random) -> Question:
    """Query the bounds of an expression over ranges, some empty, with divisors of any sign."""
    rows = _declared(rng, "rows", 1)
    leaves = [
        n,
        k,
        i,
        j,
        ix.read(rows, (rng.choice((i, j, ix.ZERO)),)),
        ix.index(ix.Quotient(i, j - rng.randint(0, 3))),
    ]
    leaves += [ix.index(ix.Quotient(i, ix.ZERO)), ix.index(ix.Quotient(-i, ix.index(ix.Quotient(n + 3, j))))]
    ranges = (
        (VI, ix.index(rng.choice((0, 0, -2))), n),
        (VJ, rng.choice((ix.ZERO, i, ix.index(-1))), rng.choice((k, i + 1, n, -n))),
    )
    facts = tuple(within(low, ix.index(variable), high) for variable, low, high in ranges)
    facts += (less(ix.ZERO, k),) if rng.random() < 0.7 else ()
    return Question(facts, FALSE, (rows,), random_index(rng, leaves, 2), ranges)


def samples(asked: Question, rng: random.Random, *, whole: bool = False) -> Iterator[Model]:
    """Yield models for a query: points of the box and large numbers, with arrays that satisfy their declarations."""
    points = BOX if whole and not asked.arrays else [rng.choice(BOX) for _ in range(SAMPLES)]
    for point in points:
        if (model := _with_arrays(asked.arrays, point, rng)) is not None:
            yield model
    if not asked.arrays:
        for _ in range(SAMPLES // 8):
            yield model_of(
                [(leaf, _large(rng)) for leaf in (ix.Size("n"), ix.Size("m"), ix.Size("k"))] + _near(rng), ()
            )


def _large(rng: random.Random) -> int:
    return max(0, rng.choice(LARGE) + rng.randint(-2, 2)) if rng.random() < 0.7 else rng.randint(0, 5)


def _near(rng: random.Random) -> list[tuple[ix.Leaf, int]]:
    return [(VI, _large(rng) - rng.randint(0, 1)), (VJ, rng.choice((-1, 1)) * _large(rng))]


def _with_arrays(arrays: Sequence[ix.Array], point: dict[ix.Leaf, int], rng: random.Random) -> Model | None:
    sizes = {leaf.name: value for leaf, value in point.items() if isinstance(leaf, ix.Size)}
    elements: list[tuple[str, tuple[int, ...], int]] = []
    for array in arrays:
        try:
            held = lawful_array(array, sizes, {}, Seeded(rng))
        except NoArray:
            return None
        elements += [(array.name, at, int(value)) for at, value in np.ndenumerate(held)]
    return model_of(point.items(), elements)


def breaks_it(model: Model, asked: Question, goal: Predicate) -> bool:
    """Check that a model satisfies all facts, all with a meaning, and breaks the goal."""
    try:
        return all(model.satisfies(fact) for fact in asked.facts) and not model.satisfies(goal)
    except ZeroDivisionError:
        return False


def can_be(model: Model, array: ix.Array) -> bool:
    """Check that an array with the elements of a model, and zero outside, can satisfy its declaration."""
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
    # An array also has rows that are not read.
    return extent > LONGEST or all(
        filled_in(row, extent, low, high, monotonic=array.monotonic) is not None for row in (*rows.values(), {})
    )


def filled_in(
    known: Mapping[int, int], extent: int, low: int | None, high: int | None, *, monotonic: ix.Monotonicity
) -> list[int] | None:
    """Return a row with these elements and the least allowed ones elsewhere, or None if there is none."""
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
