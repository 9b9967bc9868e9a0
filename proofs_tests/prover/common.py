"""Variables, arrays and helpers that the tests of the prover's parts share."""

from __future__ import annotations

from typing import Final

from atl.core.index import ZERO, Array, Index, Var, constant, index, size
from atl.core.predicate import Predicate, negation, within
from atl.prove import Facts, Refuted, prove
from atl.prove.linear import refuted
from atl.prove.rows import System, Table, read_predicate
from atl.prove.search import Sample
from atl.prove.smt import Contradiction, solve

VX, VY, VZ, VW = (Var(1 + at, name) for at, name in enumerate("xyzw"))
x, y, z, w = map(index, (VX, VY, VZ, VW))
n, m, k = map(size, "nmk")

PLAIN: Final = Array("plain", (n,), "int64")
STRICT: Final = Array("strict", (n,), "int64", low=ZERO, high=m, monotonic="increasing")
RISING: Final = Array("rising", (n,), "int64", low=ZERO, high=m, monotonic="nondecreasing")
POSITIONS: Final = Array("pos", (n,), "int64", low=ZERO)
PARTED: Final = Array("parted", (m,), "int64", monotonic="increasing", between=POSITIONS)


def given(*facts: Predicate) -> Facts:
    return Facts().assume(*facts)


def refutation(facts: Facts, goal: Predicate) -> Refuted:
    answer = prove(facts, goal)
    assert isinstance(answer, Refuted)
    return answer


def below(extent: int, *variables: Index) -> tuple[Predicate, ...]:
    return tuple(within(ZERO, each, constant(extent)) for each in variables)


def system_of(*facts: Predicate) -> tuple[Table, System]:
    """Return the facts as rows of one system."""
    table, system = Table(), System()
    for fact in facts:
        read_predicate(table, fact, system)
    return table, system


def refutes_denial(facts: tuple[Predicate, ...], goal: Predicate, *, splits: int = 7, effort: int = 4_000) -> bool:
    """Return whether linear arithmetic refutes the facts with the negated goal."""
    table, known = system_of(*facts)
    denied = System()
    read_predicate(table, negation(goal), denied)
    return refuted(table, known, denied, splits=splits, effort=effort)


def z3_contradicts(*facts: Predicate) -> bool:
    """Return whether z3 finds a contradiction; if not, check that it finds a model."""
    verdict = solve(*system_of(*facts), defined=False)
    assert isinstance(verdict, Contradiction | Sample)
    return isinstance(verdict, Contradiction)
