"""Baseline of the prover: its answers to some hundreds of queries, with the deciding layer and the numbers.

`answers.txt` has one answer per line, and a test compares. The test notices a bound that moves by one or a layer that
proves less, even if no answer is wrong. After an improvement, rewrite the file and review the difference:

    python -m proofs_tests.prover.census --write

z3 is not used, since its limits depend on its version.
"""

from __future__ import annotations

import argparse
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from random import Random
from typing import Final

from atl.core.index import ZERO, Array, Index, Var, constant, exclusive_or, index, read, size
from atl.core.predicate import at_most, conjunction, disjunction, equal, less, negation, within
from atl.errors import ATLError
from atl.prove import (
    Answer,
    Proved,
    Refuted,
    lower_bound,
    prove,
    simplify,
    simplify_predicate,
    upper_bound,
    without_smt,
)
from atl.prove.linear import refuted, refuted_by_rounding
from atl.prove.rows import Intervals, System, Table, propagate, read_predicate
from atl.prove.search import search
from atl.text.printing import show_index, show_predicate
from proofs_tests.attacks.questions import given, i, j, k, m, n, question, random_index, random_predicate, random_query
from proofs_tests.prover import census_of_parts as parts

FILE: Final = Path(__file__).with_name("answers.txt")

Kind = Callable[[Random], str]
"""Makes a query of one kind and returns the answer as text."""


def answer_text(answer: Answer) -> str:
    """Return the answer as text: the layer, or the numbers of the counterexample."""
    match answer:
        case Proved(layer, vacuous):
            return f"{layer}, vacuous" if vacuous else layer
        case Refuted(model):
            return " ".join(f"{name}={value}" for name, value in model.numbers.items()) or "refuted"
        case _:
            return "unknown"


def _plain(rng: Random) -> str:
    facts, goal = random_query(rng)
    return answer_text(prove(given(*facts), goal))


def _of_every_kind(rng: Random) -> str:
    query = question(rng)
    if query.bounded is None:
        return answer_text(prove(given(*query.facts), query.goal))
    known = given(*query.facts[len(query.ranges) :])
    found = (bound(known, query.bounded, query.ranges) for bound in (lower_bound, upper_bound))
    return " … ".join("none" if each is None else show_index(each) for each in found)


def _quick(rng: Random) -> str:
    query = question(rng)
    return answer_text(prove(given(*query.facts), query.goal, thorough=False))


def _simplified(rng: Random) -> str:
    facts, _ = random_query(rng)
    known = given(*facts)
    parts = [random_predicate(rng, [n, k, i, j], 1) for _ in range(3)]
    joined = conjunction(parts) if rng.randrange(2) else disjunction((parts[0], conjunction(parts[1:])))
    one, other = (simplify(known, random_index(rng, [n, k, i, j], 3)) for _ in range(2))
    return "; ".join((show_index(one), show_index(other), show_predicate(simplify_predicate(known, joined))))


_X: Final = tuple(index(Var(1 + at, name)) for at, name in enumerate("xyz"))


def _bits(rng: Random) -> str:
    """Query equations and bounds of xor of small variables, shifted, truncated and multiplied."""
    extents = [rng.choice((2, 4, 8, 6, 16)) for _ in _X]
    facts = [
        within(ZERO, each, constant(extent)) for each, extent in zip(_X, extents, strict=True) if rng.random() < 0.8
    ]

    def some(depth: int) -> Index:
        if depth == 0:
            return rng.choice(_X) if rng.random() < 0.85 else constant(rng.randrange(8))
        a, b = some(depth - 1), some(depth - 1)
        power = constant(rng.choice((2, 4, 8)))
        return rng.choice(
            (exclusive_or(a, b), exclusive_or(a, b), exclusive_or(a, b // power), a // power, a % power, a + power * b)
        )

    a, b = some(2), some(2)
    if rng.random() < 0.4:
        b = exclusive_or(exclusive_or(a, b), b) if rng.random() < 0.5 else a // 2 * 2 + a % 2
    if rng.random() < 0.3:
        facts.append(equal(some(1), some(1)))
    goal = rng.choice((equal(a, b), equal(a, b), less(a, constant(rng.choice((4, 8, 16)))), at_most(ZERO, a)))
    return answer_text(prove(given(*facts), goal))


def _addresses(rng: Random) -> str:
    """Query whether an address of two or three digits, at times off by one, is in range."""
    digits = [index(Var(10 + at, name)) for at, name in enumerate(("a", "b", "c"))]
    extents = [rng.choice((n, m, k, n + 1, constant(3), constant(4))) for _ in digits]
    rank = rng.choice((2, 3))
    facts = [within(ZERO, digit, extent) for digit, extent in zip(digits[:rank], extents, strict=False)]
    facts += [less(ZERO, each) for each in (m, k) if rng.random() < 0.7]
    flat, whole = digits[0], extents[0]
    for digit, extent in zip(digits[1:rank], extents[1:], strict=False):
        flat, whole = flat * extent + digit, whole * extent
    last = extents[rank - 1]
    goal = rng.choice(
        (
            less(flat, whole),
            less(flat + rng.choice((0, 0, 1)), whole),
            at_most(ZERO, flat - rng.choice((0, 0, 1))),
            equal(flat // last, (flat - digits[rank - 1]) // last),
            equal(flat % last, digits[rank - 1]),
            less(flat // 4 * 4, whole),
            less(flat // last, whole // last + rng.choice((0, 0, 1))),
            equal((flat + last * 2) // last, flat // last + 2),
        )
    )
    return answer_text(prove(given(*facts), goal))


def _segments(rng: Random) -> str:
    """Query elements of an array with ordered segments."""
    total = size("t")
    pos = Array("pos", (n + 1,), "int64", low=ZERO, high=total + 1, monotonic="nondecreasing")
    crd = Array(
        "crd", (total,), "int64", low=ZERO, high=m, monotonic=rng.choice(("increasing", "nondecreasing")), between=pos
    )
    start, end = read(pos, (i,)), read(pos, (i + 1,))
    first, last = (rng.choice((start, read(pos, (ZERO,)))), rng.choice((end, end, read(pos, (n,)))))
    facts = [within(ZERO, i, n), within(first, j, last), within(start, k, end)]
    facts = [fact for fact in facts if rng.random() < 0.9]
    one, other = read(crd, (j,)), read(crd, (k,))
    facts += [rng.choice((less(j, k), equal(one, other), less(one, other), at_most(j, k)))]
    goal = rng.choice(
        (equal(j, k), less(one, other), at_most(one, other), less(j, k), within(ZERO, one, m), less(j, total))
    )
    return answer_text(prove(given(*facts), goal))


def _read(rng: Random) -> tuple[Table, System, System]:
    query = question(rng)
    table, known, denied = Table(), System(), System()
    for fact in query.facts:
        read_predicate(table, fact, known)
    read_predicate(table, negation(query.goal), denied)
    return table, known, denied


def _rows(rng: Random) -> str:
    """Show which refutation procedures succeed, and the intervals of the columns."""
    table, known, denied = _read(rng)
    seen = (
        refuted(table, known, denied, splits=0),
        refuted(table, known, denied),
        refuted(table, known, denied, wide=True),
        refuted_by_rounding(table, known, denied),
    )
    whole = known.copy()
    whole.add(denied)
    intervals = Intervals(table)
    empty = propagate(intervals, whole.rows, whole.equalities)
    columns = sorted({*intervals.low, *intervals.high})
    ranges = " ".join(f"{at}:{intervals.low.get(at, '')}..{intervals.high.get(at, '')}" for at in columns)
    return f"{''.join(str(int(each)) for each in seen)} {'empty' if empty else ranges}"


def _sampled(rng: Random) -> str:
    """Show the samples found in the first and in later tries."""
    table, known, denied = _read(rng)
    whole = known.copy()
    whole.add(denied)
    found = search(table, whole, undefined=bool(rng.randrange(2)))
    out = []
    for tries in (8, 40, 8):
        sample = found.sample(tries)
        if sample is None:
            out.append("none")
            continue
        read_there = (f"{name}{list(at)}={value}" for (name, at), value in sorted(sample.elements.items()))
        out.append(" ".join((*(f"{at}={value}" for at, value in sample.leaves.items()), *read_there)))
    return "; ".join(out)


KINDS: Final[dict[str, tuple[int, Kind]]] = {
    "plain": (40, _plain),
    "of every kind": (90, _of_every_kind),
    "quick": (50, _quick),
    "simplified": (40, _simplified),
    "bits": (40, _bits),
    "addresses": (40, _addresses),
    "segments": (30, _segments),
    "rows": (70, _rows),
    "sampled": (60, _sampled),
    "bits by themselves": (120, parts.bits),
    "cases": (60, parts.cases),
    "limits": (60, parts.limits),
    "relevant": (40, parts.relevance),
    "elements": (80, parts.elements),
    "bounds": (70, parts.bounds),
    "smaller": (100, parts.smaller),
    "ends": (40, parts.ends),
    "lines": (200, parts.lines),
    "multiples": (60, parts.multiples),
    "intervals": (40, parts.intervals),
    "z3": (5, parts.by_z3),
}
"""Number of queries, and the function that runs one, by kind."""


def answered(kind: str) -> Iterator[str]:
    """Yield a line for each query of a kind: its number and the answer."""
    count, run = KINDS[kind]
    with without_smt():
        for number in range(count):
            try:
                answer = run(Random(f"{kind} {number}"))
            except ATLError as error:
                answer = type(error).__name__
            yield f"{kind} {number}: {answer}"


def stored() -> list[str]:
    """Return the lines of the file."""
    return FILE.read_text(encoding="utf-8").splitlines() if FILE.exists() else []


def main(arguments: Sequence[str] | None = None) -> int:
    """Print the differences, or write the file; return 1 if anything differs."""
    parser = argparse.ArgumentParser(prog="python -m proofs_tests.prover.census", description=__doc__)
    parser.add_argument("--write", action="store_true", help="write the current answers")
    options = parser.parse_args(arguments)
    before, now = stored(), [line for kind in KINDS for line in answered(kind)]
    for old, new in zip(before, now, strict=False):
        if old != new:
            print(f"- {old}\n+ {new}")
    if options.write:
        FILE.write_text("\n".join([*now, ""]), encoding="utf-8")
        return 0
    return int(before != now)


if __name__ == "__main__":
    sys.exit(main())
