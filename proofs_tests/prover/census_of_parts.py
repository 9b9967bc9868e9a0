"""Baseline of the prover's layers: bits, cases, elements, ends of ranges, rows and their consequences.

Each kind calls one layer directly, with queries that earlier layers would have answered.
"""

from __future__ import annotations

import json
from hashlib import sha256
from itertools import product
from random import Random
from typing import Any, Final

from atl.core.index import (
    ZERO,
    Array,
    Index,
    Monotonicity,
    Size,
    Var,
    bound,
    constant,
    exclusive_or,
    imax,
    imin,
    index,
    read,
    size,
)
from atl.core.predicate import Predicate, at_most, conjunction, disjunction, equal, holds, less, negation, within
from atl.prove import Facts, lower_bound, upper_bound
from atl.prove.bits import Form, Value, _Reading, _relations, _shifted, _string, by_bits
from atl.prove.facts import model_of, renumbered
from atl.prove.linear import consequences, decide_cases, factor, products
from atl.prove.reduction import exact_multiple, reduced
from atl.prove.rows import (
    Budget,
    Intervals,
    Row,
    System,
    Table,
    _interval_product,
    contradict,
    leaves_no_rows,
    opposite,
    projected,
    propagate,
    read_predicate,
)
from atl.prove.smt import solve
from atl.prove.steps import (
    is_least_at_ends,
    realisable,
    relevant,
    split_alternatives,
    split_remainders,
    with_plain_limits,
)
from atl.text.printing import show_index, show_predicate
from proofs_tests.attacks.questions import VI, VJ, given, i, j, k, m, n, question, random_index, random_predicate

X: Final = tuple(Var(1 + at, name) for at, name in enumerate("xyz"))
x, y, z = map(index, X)


def short(value: Any) -> str:
    """Return the value as text, or a digest if it is long."""
    text = json.dumps(value, sort_keys=True)
    return text if len(text) < 60 else sha256(text.encode()).hexdigest()[:10]


def shown(predicate: Predicate | None) -> str:
    return "none" if predicate is None else show_predicate(predicate)


# -- bits -------------------------------------------------------------------------------------------------------------


def of_bits(rng: Random, depth: int) -> Index:
    """Return a random expression of bits, constants, quotients and multiples."""
    if depth == 0:
        return rng.choice((x, x, y, y, z, n, constant(rng.randrange(-3, 20))))
    a, b = of_bits(rng, depth - 1), of_bits(rng, rng.randrange(depth))
    power = constant(rng.choice((2, 2, 4, 8, 16, 3)))
    return rng.choice(
        (
            exclusive_or(a, b), exclusive_or(a, b), exclusive_or(a, constant(rng.randrange(1, 12))),
            exclusive_or(a, b // power), a // power, a % power, a * power + b, a - b, a * rng.choice((-1, 3)), a + 1,
        )
    )  # fmt: skip


def bits(rng: Random) -> str:
    """Show a goal reduced by bits, and its expression as weights, bit string and remainder."""
    facts = []
    for leaf in (x, y, z, n):
        low, high = rng.choice((0, 0, 0, 1, -1)), rng.choice((2, 4, 8, 8, 7, 9, 1, 1 << 24, 1 << 25))
        facts += [part for part in (at_most(constant(low), leaf), less(leaf, constant(high))) if rng.random() < 0.8]
    if rng.random() < 0.4:
        facts.append(equal(*rng.choice(((of_bits(rng, 1), of_bits(rng, 1)), (exclusive_or(x, z), y), (x % 4, y % 4)))))
    a, b = of_bits(rng, 2), of_bits(rng, rng.randrange(3))
    power = constant(rng.choice((2, 4, 8)))
    goal = rng.choice(
        (
            equal(a, b), equal(a, a // power * power + a % power), equal(exclusive_or(exclusive_or(a, b), b), a),
            less(a, constant(rng.choice((4, 8, 16, 1 << 25)))), at_most(ZERO, a), at_most(b, exclusive_or(a, b)),
            equal(exclusive_or(a, b), exclusive_or(b, y, exclusive_or(y, a))), negation(equal(a, b)),
            less(exclusive_or(a, y % power), n * power), equal(exclusive_or(a, b) // power, a // power), equal(x, y),
        )
    )  # fmt: skip
    known = given(*facts)
    reading = _Reading(known, goal)
    value = reading.value(a)
    string = _string(value)
    parts: list[Any] = [weights(value), weights(reading.folded(value)), show_index(value.least())]
    parts += [[weights(each) if each else None for each in (_shifted(value, 1), _shifted(value, 3))]]
    parts += [
        None if string is None else [show_index(string.high), [[form_of(form), odd] for form, odd in string.bits]]
    ]
    parts += [sorted([str(bit), form_of(form)] for bit, form in _relations(reading, known).items())]
    return f"{shown(by_bits(known, goal))}; {short(parts)}"


def weights(value: Value) -> list[Any]:
    """Return the value as JSON data."""
    return [show_index(value.rest), sorted([form_of(form), weight] for form, weight in value.weights.items())]


def form_of(form: Form) -> list[str]:
    return sorted(f"{leaf}:{place}" for leaf, place in form)


# -- cases and relevance ----------------------------------------------------------------------------------------------


def cases(rng: Random) -> str:
    """Show the cases of a query."""
    leaves = [n, k, i, j]
    divisor = constant(rng.choice((1, 2, 3, 4, 5)))
    turned = rng.choice((i, -i, i + 1, 2 * i, i + j, n)) // divisor
    goal = rng.choice((less(turned, k), equal(turned * 2 + i % 2, j), random_predicate(rng, leaves, 1)))
    if rng.random() < 0.4:
        both = conjunction((random_predicate(rng, leaves, 1), random_predicate(rng, leaves, 1)))
        goal = disjunction((random_predicate(rng, leaves, 1), both, goal)[: rng.randrange(2, 4)])
    facts = given(within(ZERO, i, n), random_predicate(rng, leaves, 1))
    found = split_alternatives(facts, goal)
    split = [] if found is None else [found]
    parts = [f"{' & '.join(map(show_predicate, of.predicates))} => {show_predicate(to)}" for of, to in split]
    parts += [
        short([show_predicate(part) for part in (*of.predicates, to)]) for of, to in split_remainders(facts, goal)
    ]
    return " | ".join(parts) or "none"


def limits(rng: Random) -> str:
    """Show facts after limits such as k < max(0, n) are replaced by k < n where k >= 0."""
    low = rng.randrange(-2, 3)
    facts = [at_most(constant(low), i), at_most(constant(rng.randrange(3)), k)][: rng.randrange(3)]
    facts.append(rng.choice((less(n, j), less(i + j, n), at_most(i, 2 * j))))
    most = imax(constant(rng.randrange(-3, 4)), rng.choice((n, n - 1, j, n * k)))
    reach = rng.choice((i, i + 1, i - 2, i + k, 2 * i, i + j, constant(3)))
    facts.append(rng.choice((less(reach, most), at_most(reach, most), at_most(most, reach), less(reach, most + k))))
    known = given(*facts)
    plain = with_plain_limits(known)
    return "the same" if plain is known else " & ".join(map(show_predicate, plain.predicates))


def relevance(rng: Random) -> str:
    """Show which facts are relevant to a goal."""
    leaves = [i, j, n, k]
    facts: list[Predicate] = []
    for _ in range(rng.randrange(5, 11)):
        of = rng.choice(leaves) + rng.randrange(3)
        by = constant(rng.randrange(2, 6)) if rng.random() < 0.99 else k
        about = rng.choice(
            (less(of % by, by - 1), less(of % by, by - 1), less(constant(0), of % by), less(of // by, n))
        )
        facts.append(
            about if rng.random() < 0.9 else rng.choice((less(i, n), equal(of % by, constant(1)), negation(about)))
        )
    goal = rng.choice((less(i, n), less(i // 2, n), equal(j % 3, k), less((i + 1) // 4, (j + 1) // 3)))
    known = given(*facts)
    left = relevant(known, goal)
    near, rest = known.about(frozenset(rng.sample([VI, VJ, Size("n")], rng.randrange(1, 3))))
    numbered, to, variables = renumbered(known, goal)
    parts = [[known.predicates.index(fact) for fact in of.predicates] for of in (left, near, rest)]
    text = [show_predicate(part) for part in (*numbered.predicates, to)]
    return f"{parts} of {len(known.predicates)}, {short(text)} {[one.name for one in variables]}"


# -- elements ---------------------------------------------------------------------------------------------------------


def elements(rng: Random) -> str:
    """Show for random elements whether an array with random declared facts can have them.

    Some positions are out of range, and some arrays are ordered in segments only.
    """
    monotonic: Monotonicity = rng.choice(("", "nondecreasing", "increasing"))
    low, high = rng.choice((None, ZERO, index(1))), rng.choice((None, m, m + 1, index(5)))
    positions = Array("pos", (n,), "int64", monotonic=rng.choice(("", "nondecreasing", "increasing")))
    between = positions if monotonic and rng.random() < 0.5 else None
    shape = rng.choice(((k,), (k,), (n, k), ())) if between is None else (k,)
    row = Array("row", shape, "int64", low, high, monotonic if shape else "", between=between)
    parts = []
    for _ in range(16):
        leaves = [(Size("k"), rng.randrange(6)), (Size("m"), rng.randrange(2, 7)), (Size("n"), rng.randrange(1, 5))]
        first, step = rng.randrange(-1, 3), rng.choice((0, 1, 1, 2))
        held: dict[tuple[str, tuple[int, ...]], int] = {}
        for _ in range(rng.randrange(3)):
            at = tuple(rng.randrange(-1 if rng.random() < 0.1 else 0, 5) for _ in shape)
            held["row", at] = (
                first + step * at[-1] + (rng.randrange(-1, 2) if rng.random() < 0.2 else 0) if at else first
            )
        if between is not None:
            ends_of = sorted(rng.randrange(-1, 7) for _ in range(4))
            held |= {("pos", (at,)): value for at, value in enumerate(ends_of) if rng.random() < 0.85}
        try:
            parts.append(str(int(realisable((row,), model_of(leaves, [(*key, value) for key, value in held.items()])))))
        except ZeroDivisionError:
            parts.append("-")
    return "".join(parts)


# -- bounds, smaller expressions, ends --------------------------------------------------------------------------------


def bounds(rng: Random) -> str:
    """Show lower and upper bounds of expressions of all kinds, whose variables have ranges."""
    rows = Array("rows", (n,), "int64", rng.choice((None, ZERO, index(-2))), rng.choice((None, m, index(5))))
    leaves = [n, i, j, i, j, k, i * j, (i * k + j) // k, i % 3, j % k, (i + j) // 2, i // k, exclusive_or(i, j)]
    leaves += [read(rows, (i,)), read(rows, (ZERO,)), imin(i, j), imax(i, constant(2)), exclusive_or(i, constant(5))]
    a, b = rng.choice(leaves), rng.choice(leaves)
    e = rng.choice((a + b, a - b, a * b, 2 * a - 3 * b, a * (k - n), a * rng.randrange(-2, 3), imin(a, b), imax(a, b),
                    a // 2, a % 4, a * a, -a * b))  # fmt: skip
    facts = [less(ZERO, k)] if rng.random() < 0.7 else []
    facts += [at_most(n, k)] if rng.random() < 0.3 else []
    of_i = rng.choice(((ZERO, constant(6)), (ZERO, n), (constant(-1), n), (ZERO, k)))
    of_j = rng.choice(((ZERO, k), (ZERO, i + 1), (ZERO, constant(4)), (i, n)))
    ranges = [(VI, *of_i), (VJ, *of_j)]
    found = (bound(given(*facts), e, ranges) for bound in (lower_bound, upper_bound))
    return " … ".join("none" if each is None else show_index(each) for each in found)


BOX: Final = [
    {Size("n"): at[0], Size("m"): at[1], Size("k"): at[2], VI: at[3], VJ: at[4]}
    for at in product((1, 3), (2,), (1, 2, 4), (0, 2), (0, 1, 5))
]


def seen_in_the_box(facts: Facts) -> Any:
    """Return an oracle that evaluates predicates at a few points where the facts hold."""
    meets = [point for point in BOX if all(_is(fact, point) for fact in facts.predicates)]
    return lambda predicate: all(_is(predicate, point) for point in meets)


def _is(predicate: Predicate, point: Any) -> bool:
    try:
        return holds(predicate, lambda leaf: point.get(leaf, 0), lambda array, at: 0)
    except ZeroDivisionError:
        return False


def smaller(rng: Random) -> str:
    """Show expressions simplified by an oracle, and exact quotients."""
    oracle = seen_in_the_box(given(*(random_predicate(rng, [n, k, i, j], 1) for _ in range(2))))
    leaves = [n, k, i, j, i * k + j, k * m, 4 * i + j % 4, i * n * k, exclusive_or(4 * i, j), (i * k + j) // k]
    a, b = random_index(rng, leaves, 2), rng.choice((k, k * m, n * k, constant(4), constant(6), k + 1, 2 * k))
    whole = reduced(rng.choice((a // b, a % b, imin(a, b), imax(a, b, i), (a * b + j) // b, (a // b) // k)), oracle)
    exact = exact_multiple(rng.choice((a * b, a * b, a)), rng.choice((b, b, b - b)))
    return f"{show_index(whole)}; {'none' if exact is None else show_index(exact)}"


def ends(rng: Random) -> str:
    """Show which expressions are proved non-negative by their values at the ends of ranges.

    Some contain quotients, which the prover replaces by digits.
    """
    a, b, c = (index(Var(10 + at, name)) for at, name in enumerate("abc"))
    facts = given(within(ZERO, a, n), within(ZERO, b, rng.choice((m, m, n))), within(ZERO, c, k), less(ZERO, k))
    oracle = seen_in_the_box(Facts())
    flat = rng.choice((a * m + b, (a * m + b) * k + c, a * k * m + b * k + c, a // k * k * m + b, a * m + c // k))
    whole = rng.choice((n * m, n * m * k, n * k * m + k, n // k * k * m + m))
    goals = (whole - 1 - flat, whole - flat, flat, flat - 1, whole - flat * rng.choice((1, 2)), bound(0) * n + flat)
    return "".join(str(int(is_least_at_ends(facts, each, oracle))) for each in goals)


# -- rows -------------------------------------------------------------------------------------------------------------


def lines(rng: Random) -> str:
    """Show contradictions and projections of random rows."""

    def row() -> Row:
        columns = rng.sample(range(1, 6), rng.randrange(1, 4))
        made = {column: rng.choice((-3, -2, -1, -1, 1, 1, 2, 3)) for column in columns}
        return {**made, 0: rng.randrange(-4, 5)} if rng.random() < 0.7 else made

    rows = [row() for _ in range(rng.randrange(3, 9))]
    rows += [{column: -value for column, value in rows[0].items()}] if rng.random() < 0.4 else []
    equalities = [row() for _ in range(rng.randrange(3))]
    budget = Budget(rng.choice((5, 40, 400)))
    kept = frozenset(rng.sample(range(1, 6), 2))
    seen = contradict(list(rows), list(equalities), budget), leaves_no_rows(list(rows), kept, Budget(200))
    left = sorted(sorted(each.items()) for each in projected(list(rows), kept, Budget(rng.choice((9, 200)))))
    system = System(list(rows), list(equalities))
    for _ in range(rng.randrange(1, 4)):
        parts = [System([row()], [row()] if rng.random() < 0.3 else []) for _ in range(rng.randrange(1, 4))]
        parts += [System([dict(rng.choice(rows))]), System([], [dict(rng.choice(rows))])][: rng.randrange(3)]
        system.cases.append(tuple(parts))
    decided = decide_cases(system)
    counts = len(system.rows), len(system.equalities), [len(case) for case in system.cases]
    return f"{[int(each) for each in seen]} {budget.left} {short(left)} {int(decided)} {counts}"


def multiples(rng: Random) -> str:
    """Show consequences of rows by multiplication, and by division by common factors."""
    query = question(rng)
    flat, other = i * k + j, n * k
    facts = [*query.facts, less(flat * rng.choice((ZERO + 1, m)), other * rng.choice((ZERO + 1, m))), less(ZERO, k)]
    facts += [equal(k * (i - j), ZERO), at_most(k * i, k * n - 1), less(k * k * i + k, k * n * m)][: rng.randrange(4)]
    table, system = Table(), System()
    for fact in (*facts, negation(query.goal)):
        read_predicate(table, fact, system)
    intervals = Intervals(table)
    if propagate(intervals, system.rows, system.equalities):
        return "empty"
    follows = consequences(system, intervals, Budget(300))
    factor(system, intervals)
    wide = bool(rng.randrange(2))
    more = products(table, system, intervals, wide=wide)
    parts = [[sorted(row.items()) for row in rows] for rows in (follows, system.rows, more.rows, more.equalities)]
    return f"{[len(each) for each in parts]} {short(parts)}"


def intervals(rng: Random) -> str:
    """Show products of intervals, some open, and bounds of sums."""
    parts = []
    for _ in range(24):
        ends_of: list[int | None] = []
        for _ in range(2):
            low = rng.choice((None, -3, -1, 0, 0, 1, 2))
            high = rng.choice((None, 0, 0, 1, 4)) if low is None else rng.choice((None, low, low + 1, low + 4))
            ends_of += [low, high]
        parts.append(_interval_product(*ends_of))
    known = Intervals(Table(), {1: -2, 2: 3, 3: 0}, {1: 4, 2: 3, 4: -1})
    row = {column: rng.choice((-2, -1, 1, 3)) for column in rng.sample(range(5), 3)}
    least_opposite = known.least(opposite(row))
    greatest = None if least_opposite is None else -least_opposite
    return f"{short(parts)} {known.least(row)} {greatest} {known.empty()}"


def by_z3(rng: Random) -> str:
    """Show whether z3 finds a contradiction, a model or neither; its numbers depend on its version."""
    query = question(rng)
    table, system = Table(), System()
    for fact in (*query.facts, negation(query.goal)):
        read_predicate(table, fact, system)
    bits_of = exclusive_or(i, j)
    read_predicate(table, less(bits_of, rng.choice((ZERO, i - j, constant(4), size("t")))), system)
    return " ".join(type(solve(table, system, defined=each, steps=60_000)).__name__ for each in (False, True))
